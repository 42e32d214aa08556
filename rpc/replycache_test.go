package rpc

import (
	"bytes"
	"encoding/binary"
	"sync/atomic"
	"testing"
	"time"

	"sluice/xdr"
)

func TestReplyCacheOnTheWire(t *testing.T) {
	ts := start(t, nil)
	p := ts.dial(t)
	for _, proc := range []uint32{procCount, procBulk} {
		ts.ran.Store(0)
		ask := func(p *peerConn, b []byte, want ...uint32) {
			t.Helper()
			p.send(b)
			if got := p.recv(); !bytes.Equal(got, success(xidOf(b[4:]), want...)) {
				t.Fatalf("got % x, want results %d", got, want)
			}
		}
		ask(p, record(1, proc, 0, 5), 1)
		ask(p, record(1, proc, 0, 5), 1)           // again: the first answer
		ask(p, record(2, proc, 0, 5), 2)           // another xid
		ask(p, record(1, proc, 0, 6), 3)           // same xid, other arguments
		ask(p, record(1, proc, 0, 5), 1)           // still there
		ask(p, record(1, proc, 0, 5, 7), 4)        // longer
		other := &Cred{Flavor: FlavorSys, UID: 77} // another caller
		ask(p, EncodeCall(nil, 1, testProg, testVers, proc, other, words{0, 5}), 5)
		ask(p, record(1, proc, 1, 5), 6) // from a slow thread
		ask(p, record(1, proc, 1, 5), 6)
		// From another port of the client: the same call, unless it is bulk.
		want := uint32(1)
		if proc == procBulk {
			want = 7
		}
		ask(ts.dial(t), record(1, proc, 0, 5), want)
	}
	ts.ran.Store(100)
	p.send(record(1, procCount, 0, 5))
	if got := p.recv(); !bytes.Equal(got, success(1, 1)) {
		t.Errorf("the two caches are not separate: % x", got)
	}
	if st := ts.Stats(); st.CacheHits != 8 || st.CacheMisses != 13 {
		t.Errorf("%d hits, %d misses", st.CacheHits, st.CacheMisses)
	}
}

// TestReplyCacheInProgress: a copy of a call in progress does not run, and gets
// no answer of its own; on another connection it gets the first one's.
func TestReplyCacheInProgress(t *testing.T) {
	ts := start(t, nil)
	p, q := ts.dial(t), ts.dial(t)
	call := record(1, procCount, 200)
	p.send(call)
	eventually(t, "it runs", func() bool { return ts.asleep.Load() == 1 })
	p.send(call)
	q.send(call)
	eventually(t, "the copies are dropped", func() bool { return ts.Stats().CacheDropped == 2 })
	for _, c := range []*peerConn{p, q} {
		if got := c.recv(); !bytes.Equal(got, success(1, 1)) {
			t.Fatalf("got % x", got)
		}
		c.alive() // and nothing else comes
	}
	if n := ts.ran.Load(); n != 1 {
		t.Errorf("it ran %d times", n)
	}
}

// TestReplyCacheAfterReconnect: the first connection is lost while the call
// runs; the answer comes on the next one.
func TestReplyCacheAfterReconnect(t *testing.T) {
	ts := start(t, nil)
	p := ts.dial(t)
	call := record(1, procCount, 100)
	p.send(call)
	eventually(t, "it runs", func() bool { return ts.asleep.Load() == 1 })
	p.Close()
	q := ts.dial(t)
	q.send(call)
	if got := q.recv(); !bytes.Equal(got, success(1, 1)) {
		t.Fatalf("got % x", got)
	}
}

// cacheTest drives a cache without a server.
type cacheTest struct {
	*testing.T
	r    *replyCache
	conn *Conn
}

func (c *cacheTest) begin(xid uint32, now int64) (answer, cacheRef, []byte) {
	k := cacheKey{xid: xid, sum: uint64(xid) * 0x9e3779b97f4a7c15}
	var e xdr.Encoder
	a, ref := c.r.begin(c.conn, &k, now, &e)
	return a, ref, e.Bytes()
}

// do begins and finishes a call.
func (c *cacheTest) do(xid uint32, now int64) {
	c.Helper()
	a, ref, _ := c.begin(xid, now)
	if a != answerRun || ref.cache == nil {
		c.Fatalf("call %d: answer %d", xid, a)
	}
	ref.finish(binary.BigEndian.AppendUint32(nil, xid), now)
}

func TestReplyCacheAge(t *testing.T) {
	c := &cacheTest{t, newReplyCache(64, int64(120*time.Second)), &Conn{}}
	c.do(1, 0)
	if a, _, b := c.begin(1, int64(120*time.Second)); a != answerReplay || !bytes.Equal(b, be(1)) {
		t.Errorf("after 120 s: %d, % x", a, b)
	}
	a, ref, _ := c.begin(1, int64(121*time.Second))
	if a != answerRun {
		t.Fatalf("after 121 s: %d", a)
	}
	ref.finish(be(42), int64(121*time.Second))
	if _, _, b := c.begin(1, int64(122*time.Second)); !bytes.Equal(b, be(42)) {
		t.Errorf("after the second run: % x", b)
	}
}

func TestReplyCacheIsBounded(t *testing.T) {
	const entries = 64
	c := &cacheTest{t, newReplyCache(entries, int64(time.Hour)), &Conn{}}
	size := 0
	for i := range c.r.shards {
		size += len(c.r.shards[i].replies)
	}
	if size != entries*MaxCachedReply {
		t.Errorf("%d bytes of replies", size)
	}
	for xid := range uint32(10_000) {
		c.do(xid, int64(xid))
		if a, _, b := c.begin(xid, int64(xid)); a != answerReplay || !bytes.Equal(b, be(xid)) {
			t.Fatalf("call %d was not kept", xid)
		}
	}
	if n := c.r.used(); n != entries {
		t.Errorf("%d entries used, want %d", n, entries)
	}
	kept := 0
	for xid := uint32(9_999); xid > 9_800; xid-- {
		a, ref, b := c.begin(xid, 10_000)
		if a == answerReplay {
			if kept++; !bytes.Equal(b, be(xid)) {
				t.Errorf("call %d was kept with % x", xid, b)
			}
		} else if ref.cache != nil {
			ref.forget()
		}
	}
	if kept < entries/2 {
		t.Errorf("%d of the last calls were kept", kept)
	}
	c.check()
}

// TestReplyCacheFullOfRunning: with nothing to evict, calls are served and not kept.
func TestReplyCacheFullOfRunning(t *testing.T) {
	c := &cacheTest{t, newReplyCache(32, int64(time.Hour)), &Conn{}}
	var refs []cacheRef
	for xid := range uint32(1000) {
		a, ref, _ := c.begin(xid, 0)
		if a != answerRun {
			t.Fatalf("call %d: %d", xid, a)
		}
		if ref.cache != nil {
			refs = append(refs, ref)
		}
	}
	if len(refs) != 32 || c.r.unkept.Load() != 1000-32 {
		t.Errorf("%d kept, %d not", len(refs), c.r.unkept.Load())
	}
	for i, ref := range refs {
		if i%2 == 0 {
			ref.forget()
		} else {
			ref.finish(be(1), 0)
		}
	}
	for xid := uint32(5000); xid < 6000; xid++ {
		c.do(xid, 1)
	}
	c.check()
}

// check walks the buckets of every shard.
func (c *cacheTest) check() {
	c.Helper()
	for i := range c.r.shards {
		s := &c.r.shards[i]
		inBuckets := 0
		for _, j := range s.buckets {
			for ; j >= 0; j = s.entries[j].chain {
				inBuckets++
				if s.entries[j].state == cacheFree {
					c.Fatal("a free entry is in a bucket")
				}
			}
		}
		used := 0
		for j := range s.entries {
			if s.entries[j].state != cacheFree {
				used++
			}
		}
		if used != inBuckets {
			c.Fatalf("%d entries used, %d in buckets", used, inBuckets)
		}
	}
}

// TestReplyCacheKeepsOnlyAnswers: what is not a small success is not kept.
func TestReplyCacheKeepsOnlyAnswers(t *testing.T) {
	var n atomic.Int32
	ts := start(t, func(c *Config) {
		c.Programs[0].Versions[0].Procs[procEcho] = Proc{Name: "ODD", Cache: true, Run: func(c *Call) Verdict {
			n.Add(1)
			switch kind := c.Args.Uint32(); kind {
			case 0:
				c.Reply.Payload(newPayload(kindMemory, 1, 20_000))
			case 1:
				c.Reply.Opaque(make([]byte, MaxCachedReply))
			default:
				return Verdict(kind - 2)
			}
			return Done
		}}
	})
	p := ts.dial(t)
	for kind := range uint32(8) {
		n.Store(0)
		for range 2 {
			p.send(record(kind, procEcho, kind))
			if v := Verdict(kind - 2); v == Drop || v == WouldBlock {
				if v == Drop {
					p.alive()
					continue
				}
			}
			p.recv()
		}
		want := int32(2)
		switch Verdict(kind - 2) {
		case Done:
			want = 1
		case WouldBlock:
			want = 4 // each also on a slow thread, where it is SYSTEM_ERR
		}
		if n := n.Load(); n != want {
			t.Errorf("kind %d ran %d times, want %d", kind, n, want)
		}
	}
	eventually(t, "entries are free", func() bool { return ts.caches[0].used() == 1 })
}

// TestReplyCacheBehindPayload: a reply is kept whatever was encoded before it
// in the same burst.
func TestReplyCacheBehindPayload(t *testing.T) {
	ts := start(t, nil)
	p := ts.dial(t)
	calls := append(record(1, procRead, kindMemory, 65536), record(2, procCount, 0)...)
	for range 3 {
		p.send(calls)
		for range 2 {
			if b := p.recv(); xidOf(b) == 2 && !bytes.Equal(b, success(2, 1)) {
				t.Fatalf("got % x", b)
			}
		}
	}
}
