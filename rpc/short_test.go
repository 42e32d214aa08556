package rpc

import (
	"bytes"
	"testing"
	"time"
)

// hoard begins large calls on many connections, until there is no memory for
// more and as many connections wait as wanted.
func (ts *testServer) hoard(t *testing.T, waiting int32, first []byte) (hogs []*peerConn) {
	t.Helper()
	large := withOpaque(1<<20, procSink, make([]byte, 1<<20))
	for ts.pool.room(wantNew) > 0 || ts.pool.waiting.Load() < waiting {
		if len(hogs) > 200 {
			t.Fatal("memory never runs out")
		}
		p := ts.dial(t)
		p.send(append(bytes.Clone(first), large[:1000]...))
		hogs = append(hogs, p)
		time.Sleep(time.Millisecond)
	}
	return hogs
}

func littleMemory(c *Config) {
	c.Threads, c.SpareThreads = 2, 1
	c.RecordMemory = newPool(0, 1<<20+4<<10, readSize).pocket * 8
}

// Small calls are served when memory is short, whatever they ask for; the end of
// a connection is noticed, and garbage ends it.
func TestSmallCallsWithoutMemory(t *testing.T) {
	ts := start(t, littleMemory)
	old := ts.dial(t)
	old.alive()
	ts.hoard(t, 5, nil)
	for i := range 20 {
		p := ts.dial(t)
		p.alive()
		old.alive()
		p.send(burst(1, 100, procMay, 0)) // more than fits in a sip
		p.send(burst(101, 300, procEcho, 0))
		p.expect(1, 400)
		data := bytes.Repeat([]byte{byte(i)}, 8<<10)
		p.send(withOpaque(1, procSink, data))
		if got := p.recv(); !bytes.Equal(got, success(1, 8<<10, checksum(data))) {
			t.Fatalf("got % x", got)
		}
		p.send(fragment(record(2, procNull)[4:], 3, 1, 0, 7))
		p.expect(2, 1)
		switch i % 4 {
		case 0:
			p.Close()
		case 1:
			p.send(fragment(be(1)))
			p.closed()
		case 2:
			p.send(append(record(1, procNull), be(1<<30)...))
			p.expect(1, 1)
			p.closed()
		}
	}
	conns := ts.Stats().Conns
	eventually(t, "the end is noticed", func() bool { return ts.Stats().Conns <= conns })
}

// What cannot run yet of what was read without memory is kept all the same.
func TestSmallCallsHeldWithoutMemory(t *testing.T) {
	ts := start(t, func(c *Config) {
		littleMemory(c)
		c.MaxInFlight = 4
	})
	ts.hoard(t, 5, nil)
	p := ts.dial(t)
	p.send(burst(1, 300, procGate))
	eventually(t, "the limit is reached", func() bool { return ts.asleep.Load() == 4 })
	ts.dial(t).alive()
	ts.openGate()
	p.expect(1, 300)
}

// Whoever holds memory with a call it does not finish is no better protected
// for not taking its replies.
func TestHogsWithRepliesNotTaken(t *testing.T) {
	for name, limit := range map[string]int{"some": 64 << 20, "too many": 100_000} {
		t.Run(name, func(t *testing.T) {
			ts := start(t, func(c *Config) {
				littleMemory(c)
				c.MaxQueuedPerConn, c.MaxQueuedTotal = limit, 8<<30
			})
			ts.hoard(t, 0, burst(1, 2, procRead, kindMemory, 4<<20)) // more than the sockets take
			ts.hoard(t, 1, nil)
			p := ts.dial(t)
			data := make([]byte, 1<<20)
			go p.Write(withOpaque(1, procSink, data))
			eventually(t, "it waits", func() bool { return ts.pool.waiting.Load() > 0 })
			eventually(t, "it is served", func() bool {
				ts.sweep(ts.Now() + patience + int64(time.Second))
				return ts.pool.waiting.Load() == 0
			})
			if got := p.recv(); !bytes.Equal(got, success(1, 1<<20, checksum(data))) {
				t.Fatalf("got % x", got)
			}
		})
	}
}

// Who has finished large calls before does not wait for those that have not.
func TestHogsKeepOffOnlyTheirLike(t *testing.T) {
	ts := start(t, littleMemory)
	p := ts.dial(t)
	data := make([]byte, 1<<20)
	sink := func(xid uint32) {
		p.send(withOpaque(xid, procSink, data))
		if got := p.recv(); !bytes.Equal(got, success(xid, 1<<20, checksum(data))) {
			t.Fatalf("got % x", got)
		}
	}
	sink(1)
	sink(2)
	hogs := ts.hoard(t, 5, nil)
	ts.table.all(func(c *Conn) { // they are not to be closed, however slow this test is
		c.mu.Lock()
		c.active += int64(time.Hour)
		c.in.since += int64(time.Hour)
		c.mu.Unlock()
	})
	for i := range uint32(10) {
		sink(3 + i)
	}
	if n := ts.Stats().Conns; n != len(hogs)+1 {
		t.Errorf("%d connections had to be closed for it", len(hogs)+1-n)
	}
}
