package rpc

import (
	"bytes"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// burst is n calls of one procedure with xids from first.
func burst(first, n, proc uint32, args ...uint32) (b []byte) {
	for i := range n {
		b = append(b, record(first+i, proc, args...)...)
	}
	return b
}

// expect takes the replies to xids first..first+n-1, in any order.
func (p *peerConn) expect(first, n uint32) {
	p.t.Helper()
	seen := make(map[uint32]bool)
	for range n {
		x := xidOf(p.recv())
		if x < first || x >= first+n || seen[x] {
			p.t.Fatalf("an unexpected reply to %d", x)
		}
		seen[x] = true
	}
}

func TestSlowCallsDelayNoOther(t *testing.T) {
	ts := start(t, nil)
	p := ts.dial(t)
	p.send(append(burst(1, 8, procGate), record(100, procEcho, 0)...))
	if x := xidOf(p.recv()); x != 100 {
		t.Fatalf("reply to %d came first", x)
	}
	p.alive()
	ts.openGate()
	p.expect(1, 8)
}

func TestWouldBlockRunsAgain(t *testing.T) {
	ts := start(t, nil)
	p := ts.dial(t)
	p.send(burst(1, 20, procMay, 1))
	for range 20 {
		if got := p.recv(); len(got) != 24 {
			t.Fatalf("a reply of %d bytes: what WouldBlock left was not rolled back", len(got))
		}
	}
	if st := ts.Stats(); st.SlowCalls != 20 || st.SlowThreads > 20 {
		t.Errorf("%d slow calls, %d threads", st.SlowCalls, st.SlowThreads)
	}
	eventually(t, "all threads that were called have come", func() bool {
		ts.slow.mu.Lock()
		defer ts.slow.mu.Unlock()
		return ts.slow.coming == 0
	})
}

// TestSlowFairness: one connection cannot take all slow threads, nor queue
// without bound, and gets all its answers in the end.
func TestSlowFairness(t *testing.T) {
	ts := start(t, func(c *Config) { c.SlowThreads = 8; c.MaxInFlight = 50 })
	greedy := ts.dial(t)
	greedy.send(append(burst(1, 200, procGate), record(1000, procNull)...))
	eventually(t, "the greedy connection is at its limit", func() bool {
		l := ts.Connections()
		return len(l) == 1 && l[0].InFlight == 50 && ts.slowRunning() == 4
	})
	for i := range 3 { // each newcomer finds a thread
		p := ts.dial(t)
		p.send(record(1, procSleep, 0))
		p.expect(1, 1)
		p.send(record(2, procGate))
		eventually(t, "the newcomer runs", func() bool { return ts.asleep.Load() == int64(5+i) })
		p.alive()
	}
	if m := ts.most.Load(); m > 7 {
		t.Errorf("%d of 8 threads were taken", m)
	}
	ts.openGate()
	seen := make(map[uint32]bool)
	for range 201 {
		seen[xidOf(greedy.recv())] = true
	}
	if len(seen) != 201 {
		t.Errorf("%d different answers, want 201", len(seen))
	}
}

func (ts *testServer) slowRunning() int { return ts.Stats().SlowRunning }

func TestSlowQueueFull(t *testing.T) {
	ts := start(t, func(c *Config) { c.SlowThreads = 2; c.SlowQueue = 5; c.SlowPerConn = 2 })
	var peers []*peerConn
	for range 6 {
		p := ts.dial(t)
		p.send(burst(1, 30, procGate))
		peers = append(peers, p)
	}
	eventually(t, "the queue is full, and everybody has a call on the pool", func() bool {
		for _, c := range ts.Connections() {
			if c.InFlight == 0 {
				return false
			}
		}
		st := ts.Stats()
		return st.Conns == 6 && st.SlowQueued >= 5 && st.SlowRunning == 2
	})
	ts.dial(t).alive()
	if st := ts.Stats(); st.SlowQueued > 5+6 || st.SlowThreads > 2 {
		t.Errorf("%d calls wait, %d threads", st.SlowQueued, st.SlowThreads)
	}
	peers[5].Close() // one that waits goes away
	ts.openGate()
	for _, p := range peers[:5] {
		p.expect(1, 30)
		p.alive()
	}
}

// TestSlowMemory: calls with much data wait for record memory, and none is lost.
func TestSlowMemory(t *testing.T) {
	ts := start(t, func(c *Config) {
		c.Threads, c.SpareThreads = 2, 1
		c.RecordMemory = newPool(0, 1<<20+4<<10, readSize).pocket * 8
	})
	const each = 40
	big := make([]byte, 250_000)
	var peers []*peerConn
	for range 4 {
		p := ts.dial(t)
		peers = append(peers, p)
		go func() {
			for i := range uint32(each) {
				b := record(1+i, procGate)
				p.Write(EncodeCall(nil, xidOf(b[4:]), testProg, testVers, procGate, root, opaque(big)))
			}
		}()
	}
	eventually(t, "memory is short", func() bool { return ts.pool.waiting.Load() > 0 })
	if n := ts.pool.used.Load(); n > ts.cfg.RecordMemory {
		t.Errorf("%d bytes used, limit %d", n, ts.cfg.RecordMemory)
	}
	ts.openGate()
	for _, p := range peers {
		p.expect(1, each)
	}
	eventually(t, "all is given back", func() bool { return ts.pool.held.Load() == 0 })
}

// TestUnfinishedRecordsGiveWay: connections that keep memory with records they
// do not finish are closed when another needs it.
func TestUnfinishedRecordsGiveWay(t *testing.T) {
	ts := start(t, func(c *Config) {
		c.Threads, c.SpareThreads = 2, 1
		c.RecordMemory = newPool(0, 1<<20+4<<10, readSize).pocket * 8
	})
	var hogs []*peerConn
	for ts.pool.waiting.Load() == 0 {
		p := ts.dial(t)
		p.send(append(be(lastFragment|1<<20), make([]byte, 20_000)...))
		hogs = append(hogs, p)
		if len(hogs) > 100 {
			t.Fatal("memory never runs out")
		}
		time.Sleep(2 * time.Millisecond)
	}
	data := make([]byte, 500_000)
	p := ts.dial(t)
	go p.Write(withOpaque(1, procSink, data))
	eventually(t, "it waits", func() bool { return ts.pool.waiting.Load() >= 2 })
	eventually(t, "all are accepted", func() bool { return ts.Stats().Conns == len(hogs)+1 })
	ts.sweep(ts.Now()) // too soon
	if n := ts.Stats().Conns; n != len(hogs)+1 {
		t.Fatalf("%d connections, want %d", n, len(hogs)+1)
	}
	// Sending a byte now and then is no way to keep the memory.
	for i, h := range hogs {
		h.send([]byte{byte(i)})
	}
	eventually(t, "it is served", func() bool {
		ts.sweep(ts.Now() + patience + int64(time.Second))
		return ts.pool.waiting.Load() == 0
	})
	if got := p.recv(); !bytes.Equal(got, success(1, 500_000, checksum(data))) {
		t.Fatalf("got % x", got)
	}
	left := ts.Stats().Conns
	if left < len(hogs)/2 {
		t.Errorf("%d of %d connections are left: more were closed than needed", left, len(hogs)+1)
	}
}

// TestStuckServiceThreads: procedures that sleep on the service threads keep
// nobody else from service, within the bound on spare threads.
func TestStuckServiceThreads(t *testing.T) {
	ts := start(t, func(c *Config) { c.Threads = 2; c.SpareThreads = 3 })
	var stuck []*peerConn
	for i := range 4 {
		p := ts.dial(t)
		p.send(record(1, procBlock))
		eventually(t, "it is stuck", func() bool { return ts.Server != nil && ts.asleep.Load() == int64(i+1) })
		ts.dial(t).alive()
		stuck = append(stuck, p)
	}
	if st := ts.Stats(); st.Threads > 5 || st.Replaced < 3 {
		t.Errorf("%d threads, %d replaced", st.Threads, st.Replaced)
	}
	p := ts.dial(t) // takes the last thread
	p.send(record(1, procBlock))
	stuck = append(stuck, p)
	eventually(t, "all are stuck", func() bool { return ts.asleep.Load() == 5 })
	time.Sleep(10 * time.Millisecond)
	if n := ts.Stats().Threads; n > 5 {
		t.Errorf("%d threads, limit 5", n)
	}
	ts.openGate()
	for _, p := range stuck {
		p.expect(1, 1)
		p.alive()
	}
	eventually(t, "two threads serve", func() bool { return ts.waiting.Load() == 2 })
}

// Out of spares, a thread whose procedure ends after all takes its own place
// again.
func TestOutOfSpares(t *testing.T) {
	ts := start(t, func(c *Config) { c.Threads, c.SpareThreads = 1, 1 })
	for range 20 {
		p, q := ts.dial(t), ts.dial(t)
		p.send(record(1, procBlock))
		eventually(t, "one is stuck", func() bool { return ts.asleep.Load() == 1 })
		q.send(record(1, procBlock))
		eventually(t, "both are stuck", func() bool { return ts.asleep.Load() == 2 })
		time.Sleep(3 * time.Millisecond)
		ts.openGate()
		p.expect(1, 1)
		q.expect(1, 1)
		eventually(t, "one thread serves", func() bool { return ts.waiting.Load() == 1 })
		p.alive()
		ts.closeGate()
	}
}

// TestBusyThreadsAreNotReplaced: a procedure that computes is not stuck.
func TestBusyThreadsAreNotReplaced(t *testing.T) {
	if !asleep(1 << 30) {
		t.Error("a thread that cannot be looked at must count as asleep")
	}
	running := make(chan int)
	var stop atomic.Bool
	go func() {
		runtime.LockOSThread()
		running <- unix.Gettid()
		for !stop.Load() {
		}
	}()
	tid := <-running
	busy := 0
	for range 100 {
		if !asleep(tid) {
			busy++
		}
		time.Sleep(100 * time.Microsecond)
	}
	stop.Store(true)
	if busy < 50 {
		t.Errorf("a thread that computes was seen asleep %d times of 100", 100-busy)
	}
}

func TestDoomedThreadsEnd(t *testing.T) {
	ts := start(t, nil)
	p := ts.dial(t)
	seen := map[uint32]bool{}
	for round := range uint32(10) {
		p.send(burst(10*round, 5, procDoom))
		for range 5 {
			b := p.recv()
			seq := xidOf(b[24:])
			if seen[seq] {
				t.Fatal("a doomed thread ran another call")
			}
			seen[seq] = true
		}
	}
	p.alive()
	if n := ts.local.Load(); n != 2 {
		eventually(t, "the threads ended", func() bool { return ts.local.Load() == 2 })
	}
}

// TestHoldWithoutMemory: a large call that was finished when memory was short,
// and cannot run yet, is kept in the buffer that it has.
func TestHoldWithoutMemory(t *testing.T) {
	ts := start(t, func(c *Config) {
		c.Threads, c.SpareThreads = 2, 1
		c.SlowThreads, c.SlowQueue = 1, 1
		c.RecordMemory = newPool(0, 1<<20+4<<10, readSize).pocket * 8
	})
	large := EncodeCall(nil, 2, testProg, testVers, procGate, root, opaque(make([]byte, 1<<20)))
	var peers []*peerConn
	for ts.pool.waiting.Load() == 0 {
		p := ts.dial(t)
		p.send(record(1, procGate))
		p.send(large[:50_000])
		peers = append(peers, p)
		if len(peers) > 100 {
			t.Fatal("memory never runs out")
		}
		time.Sleep(2 * time.Millisecond)
	}
	for _, p := range peers {
		go p.Write(large[50_000:])
	}
	eventually(t, "the large calls are held", func() bool {
		ts.slow.mu.Lock()
		defer ts.slow.mu.Unlock()
		return len(ts.slow.q.waiters) >= len(peers)/2
	})
	ts.openGate()
	for _, p := range peers {
		p.expect(1, 2)
	}
}
