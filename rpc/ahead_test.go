package rpc

import (
	"bytes"
	"encoding/binary"
	"testing"
	"time"
)

// Procedures of the program that these tests serve. Arguments: a word that
// makes calls differ, and what to do.
const (
	procGather = 1 + iota // cached; takes all it can; -> how many those are, or wasTaken
	procOther             // the same
)

const (
	doNothing = iota
	doDoom    // end the thread after the call
	doMove    // go to a slow thread, with calls taken
	wasTaken  = 0xffffffff
)

func startGather(t *testing.T) *testServer {
	gather := func(c *Call) Verdict {
		c.Args.Uint32()
		do := c.Args.Uint32()
		n := uint32(0)
		switch {
		case c.Taken:
			n = wasTaken
		default:
			for c.Ahead(int(n)) != nil && c.Take(int(n)) {
				n++
			}
			if do == doMove && !c.MayBlock {
				return WouldBlock
			}
			if do == doDoom {
				c.Thread.Doom()
			}
		}
		c.Reply.Uint32(n)
		return Done
	}
	return start(t, func(c *Config) {
		p := Proc{Name: "GATHER", Run: gather, Cache: true}
		c.Programs = []Program{{Prog: testProg, Name: "TEST", Versions: []Version{{Vers: testVers, Procs: []Proc{{}, p, p}}}}}
	})
}

// A call sees, and takes, those behind it of its procedure and caller, but no copies.
func TestAhead(t *testing.T) {
	ts := startGather(t)
	other := &Cred{Flavor: FlavorSys, UID: 77}
	call := func(xid uint32) []byte { return record(xid, procGather, xid, doNothing) }
	theirs := func(xid uint32) []byte {
		return EncodeCall(nil, xid, testProg, testVers, procGather, other, words{xid, doNothing})
	}
	type reply struct{ xid, n uint32 }
	for _, tc := range []struct {
		name string
		send [][]byte
		want []reply // in order
	}{
		{"alone", [][]byte{call(1)}, []reply{{1, 0}}},
		{"four", [][]byte{call(10), call(11), call(12), call(13)}, []reply{{10, 3}, {11, wasTaken}, {12, wasTaken}, {13, wasTaken}}},
		{"another procedure between", [][]byte{call(20), record(21, procOther, 0, doNothing), call(22)}, []reply{{20, 0}, {21, 0}, {22, 0}}},
		{"two callers", [][]byte{call(30), theirs(31), call(32), theirs(33)}, []reply{{30, 1}, {32, wasTaken}, {31, 1}, {33, wasTaken}}},
		{"a call that does not decode", [][]byte{call(40), EncodeCall(nil, 41, testProg, testVers, 99, root, words{}), call(42)}, []reply{{40, 0}, {41, 3}, {42, 0}}},
		{"a copy of an answered call", [][]byte{call(50), call(1), call(51), call(52)}, []reply{{50, 0}, {1, 0}, {51, 1}, {52, wasTaken}}},
		{"a copy of a taken call", [][]byte{call(60), call(11), call(61)}, []reply{{60, 0}, {11, wasTaken}, {61, 0}}},
		{"a copy of the call itself", [][]byte{call(70), call(70), call(71)}, []reply{{70, 0}, {70, 0}, {71, 0}}},
		{"a copy of a call taken with it", [][]byte{call(80), call(81), call(81), call(82)}, []reply{{80, 1}, {81, wasTaken}, {81, wasTaken}, {82, 0}}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p := ts.dial(t)
			p.send(bytes.Join(tc.send, nil))
			for _, want := range tc.want {
				b := p.recv()
				if got := (reply{xidOf(b), binary.BigEndian.Uint32(b[len(b)-4:])}); got != want {
					t.Errorf("reply %v, want %v", got, want)
				}
			}
		})
	}
}

// Calls that were taken, and not answered as the burst was broken off, are
// served like any others.
func TestTakenAndNotAnswered(t *testing.T) {
	ts := startGather(t)
	p := ts.dial(t)
	send := append(record(1, procGather, 1, doDoom), burst(2, 3, procGather, 0, doNothing)...)
	want := bytes.Join([][]byte{success(1, 3), success(2, 2), success(3, wasTaken), success(4, wasTaken)}, nil)
	for range 2 { // the second time all are copies
		p.send(send)
		var got []byte
		for range 4 {
			got = append(got, p.recv()...)
		}
		if !bytes.Equal(got, want) {
			t.Fatalf("replies\n% x, want\n% x", got, want)
		}
	}
}

// The call that took others may itself move to a slow thread, where it finds none.
func TestTakenByACallThatMoves(t *testing.T) {
	ts := startGather(t)
	p := ts.dial(t)
	p.send(append(record(1, procGather, 1, doMove), burst(2, 2, procGather, 0, doNothing)...))
	got := map[uint32][]byte{}
	for range 3 {
		b := p.recv()
		got[xidOf(b)] = b
	}
	for xid, n := range map[uint32]uint32{1: 0, 2: wasTaken, 3: wasTaken} {
		if !bytes.Equal(got[xid], success(xid, n)) {
			t.Errorf("call %d: % x", xid, got[xid])
		}
	}
}

// A copy that waits for a call which was put off is answered when the call was
// served, and not by what later has its place.
func TestReplyCachePostponed(t *testing.T) {
	c := &cacheTest{t, newReplyCache(16, int64(time.Hour)), &Conn{}}
	_, ref, _ := c.begin(1, 0)
	if a, _, _ := c.begin(1, 0); a != answerDropped {
		t.Fatalf("a copy: %d", a)
	}
	ref.postpone()
	k := cacheKey{xid: 1, sum: 1 * 0x9e3779b97f4a7c15}
	ref, fresh := c.r.claim(&k, 0)
	if !fresh {
		t.Fatal("a call that was put off is not served")
	}
	if to := ref.finish(be(1), 0); len(to) != 1 {
		t.Errorf("%d connections get the answer", len(to))
	}

	_, ref, _ = c.begin(2, 0)
	c.begin(2, 0)
	ref.postpone()
	for xid := uint32(100); xid < 400; xid++ {
		_, ref, _ := c.begin(xid, 0)
		if to := ref.finish(be(xid), 0); len(to) != 0 {
			t.Fatalf("the answer to call %d goes to who asked for call 2", xid)
		}
	}
	c.check()

	_, ref, _ = c.begin(1000, 0)
	ref.postpone()
	if a, ref, _ := c.begin(1000, 0); a != answerRun {
		t.Errorf("a call that was put off without copies: %d", a)
	} else {
		ref.forget()
	}
}
