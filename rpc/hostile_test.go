package rpc

import (
	"bytes"
	"context"
	"io"
	"net"
	"sync/atomic"
	"testing"
	"time"
)

// What is held behind a limit is looked at later, and what is no call then ends
// the connection as it would have at once: after the answers, without one of
// its own.
func TestGarbageBehindALimit(t *testing.T) {
	ts := start(t, func(c *Config) { c.MaxInFlight = 4 })
	for _, garbage := range [][]byte{fragment(nil), fragment(be(7, 2, 2)), fragment(be(7))} {
		p := ts.dial(t)
		b := burst(1, maxBurst, procGate)
		b = append(b, garbage...)
		p.send(append(b, record(maxBurst+1, procNull)...))
		eventually(t, "it is at the limit", func() bool { return ts.asleep.Load() == 4 })
		ts.openGate()
		seen := make([]bool, maxBurst+1)
		for range maxBurst {
			b, err := ReadRecord(p, maxReply)
			if err != nil {
				break // the reset of a connection whose client sends on may overtake replies
			}
			if x := xidOf(b); x < 1 || x > maxBurst || seen[x] {
				t.Fatalf("a reply to call %d", x)
			} else {
				seen[x] = true
			}
		}
		p.closed()
		ts.closeGate()
	}
}

// A call that must not be done twice, whose connection ended while it waited
// for a thread, is done after all when a copy of it waits for the answer.
func TestCopyOfACallWhoseConnectionEnded(t *testing.T) {
	ts := start(t, func(c *Config) { c.SlowThreads = 1 })
	other := ts.dial(t)
	other.send(record(1, procGate))
	eventually(t, "the thread is taken", func() bool { return ts.asleep.Load() == 1 })
	p, q := ts.dial(t), ts.dial(t)
	call := record(2, procCount, 1)
	p.send(call)
	eventually(t, "it waits", func() bool { return ts.Stats().SlowQueued == 1 })
	q.send(call)
	eventually(t, "the copy is known", func() bool { return ts.Stats().CacheDropped == 1 })
	p.Conn.(*net.TCPConn).SetLinger(0)
	p.Close()
	eventually(t, "the server notices", func() bool { return ts.Stats().Conns == 2 })
	ts.openGate()
	if got := q.recv(); !bytes.Equal(got, success(2, 1)) {
		t.Fatalf("got % x", got)
	}
}

// Whoever was told of a connection is told of its end, also of one that was
// refused.
func TestRefusedConnectionsEnd(t *testing.T) {
	var came, went atomic.Int64
	ts := start(t, func(c *Config) {
		c.MaxConns = 1
		c.OnConnect = func(*Conn) { came.Add(1) }
		c.OnDisconnect = func(*Conn) { went.Add(1) }
	})
	p := ts.dial(t)
	p.alive()
	for range 5 {
		ts.dial(t).closed()
	}
	eventually(t, "five are gone", func() bool { return came.Load() == 6 && went.Load() == 5 })
	p.Close()
	eventually(t, "all are gone", func() bool { return went.Load() == 6 })
}

// The time that an unfinished call takes is its own, not the connection's.
func TestUnfinishedSince(t *testing.T) {
	var conn atomic.Pointer[Conn]
	ts := start(t, func(c *Config) { c.OnConnect = func(c *Conn) { conn.Store(c) } })
	p := ts.dial(t)
	p.alive()
	c := conn.Load()
	since := func(active bool) (ns int64) {
		eventually(t, "it is read", func() bool {
			c.mu.Lock()
			defer c.mu.Unlock()
			ns = c.in.since
			return !c.busy && c.in.active() == active
		})
		return ns
	}
	if n := since(false); n != 0 {
		t.Errorf("nothing is unfinished since %d", n)
	}
	before := ts.Now()
	call := record(1, procNull)
	p.send(call[:20])
	first := since(true)
	if first < before {
		t.Errorf("unfinished since %d, sent at %d", first, before)
	}
	p.send(call[20:30])
	time.Sleep(time.Millisecond)
	if n := since(true); n != first {
		t.Errorf("another piece makes it younger")
	}
	p.send(call[30:])
	p.recv()
	if n := since(false); n != 0 {
		t.Errorf("nothing is unfinished since %d", n)
	}
}

// A client that has sent its last byte, in the middle of a call, still gets
// the answers to the calls before.
func TestHalfCloseWithCallsInFlight(t *testing.T) {
	ts := start(t, nil)
	p := ts.dial(t)
	b := burst(1, 8, procLater, kindPipe, 500_000)
	b = append(b, burst(9, 8, procGate)...)
	p.send(append(b, withOpaque(17, procSink, make([]byte, 100_000))[:50_000]...))
	eventually(t, "they run", func() bool { return ts.asleep.Load() == 8 && ts.pool.live.Load() == 17 })
	p.Conn.(*net.TCPConn).CloseWrite()
	eventually(t, "what is unfinished is dropped", func() bool { return ts.pool.live.Load() == 16 })
	ts.openGate()
	p.expect(1, 16)
	if _, err := p.Read(make([]byte, 1)); err != io.EOF {
		t.Errorf("after the last answer: %v", err)
	}
}

// A client that takes none of its replies, whether they are queued or on their
// way, does not hold up a shutdown for long, and it is not an error.
func TestShutdownLeavesStalledClients(t *testing.T) {
	ts := start(t, nil)
	p, q := ts.dial(t), ts.dial(t)
	q.Conn.(*net.TCPConn).SetReadBuffer(4096)
	q.send(record(1, procRead, kindMemory, 1<<20))
	eventually(t, "one is stalled", func() bool { return ts.Stats().Calls == 1 })
	p.send(burst(1, 4, procRead, kindPipe, 4<<20))
	eventually(t, "both are stalled", func() bool { return ts.queued.Load() > 1<<20 })
	done := make(chan error, 1)
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), 15*time.Second)
		defer cancel()
		done <- ts.Shutdown(ctx)
	}()
	for {
		select {
		case err := <-done:
			if err != nil {
				t.Error(err)
			}
			return
		case <-time.After(10 * time.Millisecond):
		}
		ts.table.all(func(c *Conn) {
			c.mu.Lock()
			c.progress -= int64(time.Second) // so that the test need not wait
			c.mu.Unlock()
		})
	}
}

// Who sends thousands of calls at once gets all the answers, but not before
// others get theirs.
func TestFloodGivesTurns(t *testing.T) {
	var ran atomic.Int64
	ts := start(t, func(c *Config) {
		c.Threads = 1
		c.Observer = &observer{call: func(c *Call, _ int64, _, _ int) {
			if c.Proc != procEcho {
				return
			}
			ran.Add(1)
			for end := time.Now().Add(100 * time.Microsecond); time.Now().Before(end); {
			}
		}}
	})
	const calls = 3000
	p, q := ts.dial(t), ts.dial(t)
	q.alive()
	p.send(burst(1, calls, procEcho, 0)) // 250 KiB
	eventually(t, "the flood is served", func() bool { return ran.Load() > 0 })
	q.alive()
	if n := ran.Load(); n > calls/2 {
		t.Errorf("one call waited for %d of another client", n)
	}
	p.expect(1, calls)
	p.alive()
}

// At the connection limit, who connects is served in place of one that has been
// idle: first of those that never made a call.
func TestIdleConnectionsMakeRoom(t *testing.T) {
	conns := make(chan *Conn, 10)
	ts := start(t, func(c *Config) {
		c.MaxConns = 3
		c.OnConnect = func(c *Conn) { conns <- c }
	})
	dial := func() (*peerConn, *Conn) { return ts.dial(t), <-conns }
	age := func(c *Conn, by time.Duration) {
		c.mu.Lock()
		c.active -= int64(by)
		c.mu.Unlock()
	}
	old, oldConn := dial()
	old.alive()
	unused, unusedConn := dial()
	busy, busyConn := dial()
	busy.send(record(1, procGate))
	eventually(t, "it is served", func() bool { return ts.asleep.Load() == 1 })
	age(busyConn, time.Hour)
	age(oldConn, 50*time.Second)
	age(unusedConn, -time.Minute)
	p, _ := dial()
	p.closed() // it is too soon

	age(unusedConn, time.Minute+2*time.Second)
	p, pConn := dial()
	p.alive()
	unused.closed()
	old.alive()

	age(oldConn, 61*time.Second)
	age(pConn, 70*time.Second)
	q, _ := dial()
	q.alive()
	p.closed()
	old.alive()
	ts.openGate()
	busy.expect(1, 1)
}
