package rpc

import (
	"bytes"
	"encoding/binary"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// reads checks that the next n records are READ replies with the pattern of
// this connection and the given size, for xids from first in any order.
func (p *peerConn) reads(first uint32, n, size int) {
	p.t.Helper()
	want := pattern(uint64(p.LocalAddr().(*net.TCPAddr).Port), size)
	seen := make(map[uint32]bool)
	for range n {
		b := p.recv()
		x := xidOf(b)
		if x < first || x >= first+uint32(n) || seen[x] {
			p.t.Fatalf("an unexpected reply to %d", x)
		}
		seen[x] = true
		if len(b) != 24+4+(size+3)&^3 || int(binary.BigEndian.Uint32(b[24:])) != size || !bytes.Equal(b[28:28+size], want) {
			p.t.Fatalf("reply %d of %d bytes is not what was asked for", x, len(b))
		}
	}
}

// standstill waits until clients that take no replies have stopped the server.
// Whether anything is left in their queues then is a matter of chance.
func (ts *testServer) standstill(t *testing.T) {
	t.Helper()
	eventually(t, "it stalls", func() bool {
		n, q := ts.Stats().Calls, ts.queued.Load()
		time.Sleep(50 * time.Millisecond)
		return n > 0 && n == ts.Stats().Calls && q == ts.queued.Load()
	})
}

func TestPayloads(t *testing.T) {
	ts := start(t, nil)
	for _, kind := range []uint32{kindMemory, kindPipe} {
		for _, size := range []int{0, 1, 4095, 8192, 8193, 65536, 100_003, 1 << 20} {
			p := ts.dial(t)
			p.send(burst(1, 20, procRead, kind, uint32(size)))
			p.reads(1, 20, size)
			p.alive()
			p.Close()
		}
	}
	p := ts.dial(t)
	for i := range uint32(20) { // in turn, and with small replies between
		p.send(record(1, procRead, i%2, 50_001))
		p.send(record(1, procNull))
	}
	for range 40 {
		if b := p.recv(); len(b) != 24 && len(b) != 24+4+50_004 {
			t.Fatalf("a reply of %d bytes", len(b))
		}
	}
}

func TestLargeEncodedReplies(t *testing.T) {
	ts := start(t, nil)
	p := ts.dial(t)
	for _, n := range []int{1000, 100_000, 300_000, 2 << 20} {
		p.send(burst(1, 5, procBig, uint32(n)))
		for range 5 {
			b := p.recv()
			if len(b) != 28+n || !bytes.Equal(b[28:], pattern(7, n)) {
				t.Fatalf("a reply of %d bytes, want %d", len(b), 28+n)
			}
		}
	}
}

// TestSlowReader: a client that does not take its replies is no longer read,
// gets every byte when it does, and others notice nothing.
func TestSlowReader(t *testing.T) {
	for _, kind := range []uint32{kindMemory, kindPipe} {
		ts := start(t, func(c *Config) { c.MaxQueuedPerConn = 512 << 10 })
		p := ts.dial(t)
		p.send(burst(1, 100, procRead, kind, 1<<20))
		ts.standstill(t)
		ts.dial(t).alive()
		if n := ts.queued.Load(); n > 512<<10+1<<20+4096 {
			t.Errorf("%d bytes queued for one connection", n)
		}
		if l := ts.Connections(); len(l) != 2 || l[0].Calls == 100 {
			t.Errorf("%+v", l)
		}
		p.reads(1, 100, 1<<20)
		p.alive()
	}
}

// TestSmallRepliesToSlowReader: also when replies are small and many, and some
// come from slow threads.
func TestSmallRepliesToSlowReader(t *testing.T) {
	ts := start(t, func(c *Config) { c.MaxQueuedPerConn = 64 << 10 })
	p := ts.dial(t)
	const n = 20_000
	data := make([]byte, 2000)
	var sent sync.WaitGroup
	sent.Go(func() {
		for i := range uint32(n) {
			b := withOpaque(i, procEcho, data)
			if i%100 == 7 {
				b = record(i, procMay, 0)
			}
			if _, err := p.Write(b); err != nil {
				t.Error(err)
				return
			}
		}
	})
	ts.standstill(t)
	if q := ts.queued.Load(); q > 64<<10+outSize {
		t.Errorf("%d bytes queued", q)
	}
	p.expect(0, n)
	sent.Wait()
}

// TestStalledReaders: 64 clients that read nothing cost a bounded amount of
// memory, and nobody else notices.
func TestStalledReaders(t *testing.T) {
	const total = 32 << 20
	ts := start(t, func(c *Config) { c.MaxQueuedTotal = total })
	var peers []*peerConn
	for range 64 {
		p := ts.dial(t)
		p.send(burst(1, 32, procRead, kindMemory, 1<<20))
		peers = append(peers, p)
	}
	for i := range 50 {
		p := ts.dial(t)
		p.send(record(1, procRead, kindPipe, 200_000))
		p.reads(1, 1, 200_000)
		p.Close()
		if n := ts.queued.Load(); n > total+2<<20 {
			t.Fatalf("%d bytes queued, limit %d", n, total)
		}
		if i == 0 {
			eventually(t, "many have stalled", func() bool { return ts.queued.Load() > total/4 })
		}
	}
	for _, p := range peers {
		p.Close()
	}
	eventually(t, "everything is given back", func() bool { return ts.queued.Load() == 0 })
}

// TestLongestStalledIsClosed: past the total, the one that has stalled longest
// pays, and the log says so.
func TestLongestStalledIsClosed(t *testing.T) {
	ts := start(t, nil)
	var peers []*peerConn
	for len(peers) < 3 {
		p := ts.dial(t)
		before := ts.queued.Load()
		p.send(burst(1, 24, procRead, kindMemory, 1<<20))
		ts.standstill(t)
		if ts.queued.Load() > before {
			peers = append(peers, p)
		} else { // the socket took the last reply to the last byte
			p.Close()
		}
	}
	ts.shed(ts.queued.Load() - 1)
	if _, err := io.Copy(io.Discard, peers[0]); err != nil && !strings.Contains(err.Error(), "reset") {
		t.Fatalf("the longest stalled connection: %v", err)
	}
	eventually(t, "only that one is closed", func() bool { return ts.Stats().Conns == 2 })
	if !strings.Contains(ts.log.String(), reasonStalled) {
		t.Errorf("the log does not say why: %s", ts.log.String())
	}
	for _, p := range peers[1:] {
		p.reads(1, 24, 1<<20)
		p.alive()
	}
}

// TestSlowRepliesToSlowReader: the slow pool does not work ahead for a client
// that takes nothing, and goes on when it does.
func TestSlowRepliesToSlowReader(t *testing.T) {
	ts := start(t, func(c *Config) { c.MaxQueuedPerConn = 512 << 10; c.SlowPerConn = 4 })
	ts.openGate()
	p := ts.dial(t)
	p.send(burst(1, 60, procLater, kindMemory, 1<<20))
	ts.standstill(t)
	if n := ts.queued.Load(); n > 512<<10+5<<20 {
		t.Errorf("%d bytes queued", n)
	}
	if n := ts.Stats().Calls; n > 30 {
		t.Errorf("%d of 60 calls ran for a client that takes nothing", n)
	}
	p.reads(1, 60, 1<<20)
	p.alive()
}

// TestStalledClientsTakeNoPlaces: calls of clients that take no replies fill
// neither the queue nor the threads of the slow pool.
func TestStalledClientsTakeNoPlaces(t *testing.T) {
	ts := start(t, func(c *Config) { c.SlowThreads = 4; c.SlowQueue = 16; c.MaxQueuedPerConn = 512 << 10 })
	var stalled []*peerConn
	for i := range 6 {
		p := ts.dial(t)
		p.send(burst(1, 12, procLater, kindMemory, 1<<20))
		eventually(t, "it has calls there", func() bool {
			l := ts.Connections()
			return len(l) == i+1 && l[i].InFlight > 0
		})
		p.send(burst(13, 12, procRead, kindMemory, 1<<20))
		ts.standstill(t)
		stalled = append(stalled, p)
	}
	ts.openGate()
	fresh := ts.dial(t)
	for i := range uint32(3) {
		fresh.send(burst(1, 40, procMay, i))
		fresh.expect(1, 40)
	}
	for _, p := range stalled {
		p.reads(1, 24, 1<<20)
		p.alive()
	}
}

// TestClosedConnectionsCallsAreDropped: what waits for a slow thread when its
// client goes is not run.
func TestClosedConnectionsCallsAreDropped(t *testing.T) {
	ts := start(t, func(c *Config) { c.SlowThreads = 2; c.SlowPerConn = 1 })
	p := ts.dial(t)
	p.send(append(record(1, procGate), burst(2, 20, procCount, 1)...))
	eventually(t, "they wait", func() bool { return ts.Stats().SlowQueued == 20 })
	p.Conn.(*net.TCPConn).SetLinger(0)
	p.Close()
	eventually(t, "the server notices", func() bool { return ts.Stats().Conns == 0 })
	ts.openGate()
	eventually(t, "the queue is empty", func() bool { st := ts.Stats(); return st.SlowQueued+st.SlowRunning == 0 })
	if n := ts.ran.Load(); n > 0 {
		t.Errorf("%d calls ran for nobody", n)
	}
	q := ts.dial(t) // and they are not mistaken for calls in progress
	q.send(burst(2, 20, procCount, 1))
	q.expect(2, 20)
}

// TestTornRecordCloses: when a payload fails after its record began, the
// connection ends there.
func TestTornRecordCloses(t *testing.T) {
	ts := start(t, nil)
	p := ts.dial(t)
	p.send(append(record(1, procRead, kindBroken, 300_000), burst(2, 5, procRead, kindPipe, 100_000)...))
	b, err := io.ReadAll(p)
	if err != nil && !strings.Contains(err.Error(), "reset") {
		t.Fatal(err)
	}
	if len(b) > 28+4+300_000 {
		t.Fatalf("%d bytes came after a torn record", len(b))
	}
	eventually(t, "it is gone", func() bool { return ts.Stats().Conns == 0 })
}

// TestRecycledDescriptor drops connections with large replies in flight, from
// service threads, slow threads and queues, and lets new ones take their
// descriptors: no byte meant for one ever reaches another.
func TestRecycledDescriptor(t *testing.T) {
	ts := start(t, nil)
	fds := make(map[int]int)
	for i := range 100 {
		p := ts.dial(t)
		kind := uint32(i % 2)
		p.send(burst(1, 4, procLater, kind, 700_000))
		eventually(t, "slow calls run", func() bool { return ts.asleep.Load() == 4 })
		p.send(burst(5, 6, procRead, kind, 900_000))
		if i%3 == 0 { // reset, with some data taken
			io.ReadFull(p, make([]byte, 1000*i))
		}
		p.Conn.(*net.TCPConn).SetLinger(0)
		p.Close()
		done := make(chan struct{})
		go func() {
			defer close(done)
			for range 2 {
				q := ts.dial(t)
				ts.table.all(func(c *Conn) {
					if c.peer.remote.Port() == uint16(q.LocalAddr().(*net.TCPAddr).Port) {
						c.mu.Lock()
						fds[c.fd]++
						c.mu.Unlock()
					}
				})
				q.send(burst(1, 5, procRead, 1-kind, 300_000))
				q.reads(1, 5, 300_000)
				q.alive()
				q.Close()
			}
		}()
		ts.openGate()
		eventually(t, "slow calls end", func() bool { return ts.asleep.Load() == 0 })
		<-done
		eventually(t, "the connection is gone", func() bool { return ts.Stats().Conns == 0 })
		ts.closeGate()
	}
	reused := 0
	for _, n := range fds {
		reused += n - 1
	}
	if reused < 20 {
		t.Errorf("descriptors were reused only %d times", reused)
	}
}

// TestStaleEvent: an event of a connection that is gone finds nothing, even
// when its slot has a new user.
func TestStaleEvent(t *testing.T) {
	tb := newTable(2)
	a := &Conn{}
	tb.add(a)
	slot, gen := a.slot, a.gen
	if tb.get(slot, gen) != a {
		t.Fatal("not found")
	}
	tb.remove(a)
	b := &Conn{}
	tb.add(b)
	if b.slot != slot {
		t.Fatal("the slot is not reused")
	}
	if tb.get(slot, gen) != nil {
		t.Error("a stale event found the next connection")
	}
	if tb.get(slot, b.gen) != b {
		t.Error("not found")
	}
	c := &Conn{}
	if !tb.add(c) || tb.add(&Conn{}) {
		t.Error("a table of two must take two")
	}
}

func TestAdvance(t *testing.T) {
	for n := 0; n <= 10; n++ {
		p := newPayload(kindMemory, 1, 4)
		segs := []segment{{b: []byte("abc")}, {p: p}, {b: []byte("xyz")}}
		rest := advance(segs, n)
		if got := size(rest); got != 10-n {
			t.Errorf("after %d of 10 bytes, %d are left", n, got)
		}
		if p.released.Load() != (n >= 7) {
			t.Errorf("after %d bytes, released is %v", n, p.released.Load())
		}
		releaseAll(rest)
	}
}

// TestSendErrors: every error of a socket releases what was to be sent.
func TestSendErrors(t *testing.T) {
	before := payloads.Load()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	unix.Close(fds[1])
	defer unix.Close(fds[0])
	var w sender
	for _, kind := range []uint32{kindMemory, kindPipe} {
		segs := []segment{{b: []byte("abc")}, {p: newPayload(kind, 1, 70_000)}, {p: newPayload(kind, 1, 70_000)}}
		_, rest, err := w.send(fds[0], segs)
		if err != unix.EPIPE {
			t.Errorf("error %v, want EPIPE", err)
		}
		releaseAll(rest)
	}
	if n := payloads.Load() - before; n != 0 {
		t.Errorf("%d payloads leaked", n)
	}
}
