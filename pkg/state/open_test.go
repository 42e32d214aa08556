// Opens, shares and stateids, with sessions.

package state

import (
	"fmt"
	"testing"
	"time"
)

// TestShareTable tries every pair of shares against every other, for the same owner and another client's.
func TestShareTable(t *testing.T) {
	for a1 := ShareRead; a1 <= ShareBoth; a1++ {
		for d1 := uint8(0); d1 <= ShareBoth; d1++ {
			for a2 := ShareRead; a2 <= ShareBoth; a2++ {
				for d2 := uint8(0); d2 <= ShareBoth; d2++ {
					w := newWorld(t)
					x, y := w.ready41("x"), w.ready41("y")
					o1, err := x.open("o", fkey(1), a1, d1)
					ok(t, "first", err)
					var want error
					if a2&d1 != 0 || d2&a1 != 0 {
						want = ErrShareDenied
					}
					what := fmt.Sprintf("%d/%d then %d/%d", a1, d1, a2, d2)
					_, err = y.open("o", fkey(1), a2, d2)
					mustBe(t, what+" by another client", err, want)
					_, err = y.open("o", fkey(2), a2, d2)
					ok(t, what+" of another file", err)
					ok(t, "CLOSE", x.close(o1))
					_, err = x.open("p", fkey(3), a1, d1)
					ok(t, "OPEN", err)
					_, err = x.open("p", fkey(3), a2, d2)
					mustBe(t, what+" by the same owner", err, want) // RFC 8881 9.7: no exception
					w.check()
				}
			}
		}
	}
}

func TestUpgradeDowngrade(t *testing.T) {
	w := newWorld(t)
	c := w.ready41("c")
	f := fkey(1)
	down := func(o opened, access, deny uint8) (sid Stateid, err error) {
		err = c.do(func(call *Call) error {
			var err error
			sid, err = w.s.OpenDowngrade(call, f, Stateid{0, o.Stateid.Other}, 0, access, deny)
			return err
		})
		return sid, err
	}
	o, err := c.open("o", f, ShareBoth, 0)
	ok(t, "OPEN", err)
	_, err = down(o, ShareRead, 0)
	mustBe(t, "never opened so (OPDG2)", err, ErrInval)
	_, err = down(o, 0, 0)
	mustBe(t, "to nothing", err, ErrInval)
	_, err = down(o, ShareBoth, ShareRead)
	mustBe(t, "to a denial", err, ErrInval)
	for i, x := range []struct {
		open, down uint8
	}{{ShareRead, ShareRead}, {ShareWrite, ShareBoth}, {ShareRead, ShareWrite}, {ShareBoth, ShareBoth}, {ShareBoth, ShareBoth}} {
		o2, err := c.open("o", f, x.open, 0)
		ok(t, "OPEN", err)
		if !o2.Upgraded || o2.Stateid.Other != o.Stateid.Other || o2.Stateid.Seqid == o.Stateid.Seqid {
			t.Fatalf("%d: %+v", i, o2)
		}
		sid, err := down(o, x.down, 0)
		ok(t, fmt.Sprintf("step %d", i), err)
		if sid.Seqid != o2.Stateid.Seqid+1 {
			t.Fatal("OPEN_DOWNGRADE must count")
		}
		want := error(nil)
		if x.down&ShareWrite == 0 {
			want = ErrOpenMode
		}
		mustBe(t, "WRITE after it", c.io(f, Stateid{0, o.Stateid.Other}, AccessWrite), want)
		w.check()
	}
	// Pairs count as pairs: READ/DENY_WRITE and WRITE/NONE do not make READ/NONE.
	c2 := w.ready41("c2")
	o, err = c2.open("o", fkey(2), ShareRead, ShareWrite)
	ok(t, "OPEN", err)
	o2, err := c2.open("o", fkey(2), ShareRead, 0)
	ok(t, "OPEN", err)
	if o2.Stateid.Other != o.Stateid.Other {
		t.Fatal("one open an owner and file")
	}
	err = c2.do(func(call *Call) error {
		_, err := w.s.OpenDowngrade(call, fkey(2), o2.Stateid, 0, ShareRead, 0)
		return err
	})
	ok(t, "lets the denial go", err)
	_, err = c.open("o", fkey(2), ShareWrite, 0)
	ok(t, "so that others may write", err)
}

// TestCheckIO tries stateids of all kinds.
func TestCheckIO(t *testing.T) {
	w := newWorld(t)
	c, d := w.ready41("c"), w.ready41("d")
	f := fkey(1)
	r, err := c.open("r", f, ShareRead, 0)
	ok(t, "OPEN", err)
	_, err = c.open("w", f, ShareWrite, 0)
	ok(t, "OPEN", err)
	wr, err := c.open("w", f, ShareWrite, 0)
	ok(t, "OPEN", err)
	l, _, err := c.lock(wr, "l", WriteLock, 0, 1)
	ok(t, "LOCK", err)
	rl, _, err := c.lock(r, "rl", ReadLock, 5, 1)
	ok(t, "LOCK", err)
	with := func(s Stateid, seqid uint32) Stateid { return Stateid{seqid, s.Other} }
	unknown := r.Stateid
	unknown.Other[11] ^= 0x55
	for _, x := range []struct {
		name string
		c    *cl41
		f    FileKey
		sid  Stateid
		want Access
		err  error
	}{
		{"read", c, f, r.Stateid, AccessRead, nil},
		{"write with a reader's", c, f, r.Stateid, AccessWrite, ErrOpenMode},
		{"write", c, f, wr.Stateid, AccessWrite, nil},
		{"read with a writer's (OPEN23b)", c, f, wr.Stateid, AccessRead, nil},
		{"attributes", c, f, r.Stateid, AccessAttr, nil},
		{"seqid 0", c, f, with(r.Stateid, 0), AccessRead, nil},
		{"seqid old", c, f, with(wr.Stateid, 1), AccessWrite, ErrOldStateid},
		{"seqid from the future", c, f, with(wr.Stateid, 3), AccessWrite, ErrBadStateid},
		{"other file", c, fkey(2), r.Stateid, AccessRead, ErrBadStateid},
		{"other client", d, f, r.Stateid, AccessRead, ErrBadStateid},
		{"unknown", c, f, unknown, AccessRead, ErrBadStateid},
		{"lock", c, f, l, AccessWrite, nil},
		{"lock of a reader", c, f, rl, AccessRead, nil},
		{"lock of a reader, write", c, f, rl, AccessWrite, ErrOpenMode},
		{"anonymous read", c, f, Anonymous, AccessRead, nil},
		{"anonymous write", c, f, Anonymous, AccessWrite, nil},
		{"bypass read", c, f, ReadBypass, AccessRead, nil},
		{"bypass write", c, f, ReadBypass, AccessWrite, nil},
		{"current, not replaced", c, f, CurrentStateid, AccessRead, ErrBadStateid},
		{"invalid", c, f, InvalidStateid, AccessRead, ErrBadStateid},
	} {
		mustBe(t, x.name, x.c.io(x.f, x.sid, x.want), x.err)
	}
	ok(t, "CLOSE", c.close(r))
	mustBe(t, "closed", c.io(f, r.Stateid, AccessRead), ErrBadStateid)
	mustBe(t, "lock under it", c.io(f, rl, AccessRead), ErrBadStateid)

	// Advice stays with the open, also through its locks.
	ok(t, "IO_ADVISE", c.do(func(call *Call) error { return w.s.SetAdvice(call, f, l, 9) }))
	ok(t, "READ", c.do(func(call *Call) error {
		io, err := w.s.CheckIO(call, f, wr.Stateid, AccessRead)
		if io.Advice != 9 || !io.Opened || io.Client != c.id {
			t.Fatalf("%+v", io)
		}
		return err
	}))
}

func TestTestAndFreeStateid(t *testing.T) {
	w := newWorld(t)
	c, d := w.ready41("c"), w.ready41("d")
	o, err := c.open("o", fkey(1), ShareBoth, 0)
	ok(t, "OPEN", err)
	l, _, err := c.lock(o, "l", WriteLock, 0, 10)
	ok(t, "LOCK", err)
	test := func(c *cl41, s Stateid) error {
		return c.do(func(call *Call) error { return w.s.TestStateid(call, s) })
	}
	free := func(c *cl41, s Stateid) error {
		return c.do(func(call *Call) error { return w.s.FreeStateid(call, s) })
	}
	ok(t, "TEST open", test(c, o.Stateid))
	ok(t, "TEST lock, seqid 0", test(c, Stateid{0, l.Other}))
	mustBe(t, "TEST old", test(c, Stateid{^uint32(0), l.Other}), ErrOldStateid)
	mustBe(t, "TEST special", test(c, Anonymous), ErrBadStateid)
	mustBe(t, "TEST of another client", test(d, o.Stateid), ErrBadStateid)
	mustBe(t, "FREE open", free(c, o.Stateid), ErrLocksHeld)
	mustBe(t, "FREE lock with locks", free(c, l), ErrLocksHeld)
	ok(t, "LOCKU", c.unlock(o.key, l, 0, 10))
	mustBe(t, "FREE old lock", free(c, l), ErrOldStateid)
	ok(t, "FREE lock", free(c, Stateid{0, l.Other}))
	mustBe(t, "FREE again", free(c, Stateid{0, l.Other}), ErrBadStateid)
	mustBe(t, "FREE special", free(c, Anonymous), ErrBadStateid)
	w.check()
}

// TestPins: an open's pin is let go exactly once, whatever becomes of the open.
type countPin int

func (p *countPin) Release() { *p++ }

func TestPins(t *testing.T) {
	w := newWorld(t)
	c, d := w.ready41("c"), w.ready41("d")
	var pins [7]countPin
	pin := func(i int) func(*OpenArgs) { return func(a *OpenArgs) { a.Pin = &pins[i] } }
	expect := func(what string, want ...int) {
		t.Helper()
		for i, n := range want {
			if int(pins[i]) != n {
				t.Fatalf("%s: pin %d released %d times, want %d", what, i, pins[i], n)
			}
		}
	}
	o, err := c.open("o", fkey(1), ShareBoth, ShareBoth, pin(0))
	ok(t, "OPEN", err)
	_, err = d.open("o", fkey(1), ShareRead, 0, pin(1))
	mustBe(t, "denied", err, ErrShareDenied)
	expect("denied", 0, 1)
	ok(t, "CLOSE", c.close(o))
	expect("closed", 1, 1)
	_, err = c.open("o", fkey(1), ShareRead, 0, pin(2))
	ok(t, "OPEN", err)
	_, err = c.open("o", fkey(1), ShareWrite, 0, pin(3))
	ok(t, "upgrade", err)
	expect("upgrade", 1, 1, 0, 1)
	ok(t, "expire", w.s.ExpireClient(c.id))
	expect("client gone", 1, 1, 1, 1)
	ok(t, "undo", d.do(func(call *Call) error {
		if err := w.s.OpenBegin(call, &OpenBeginArgs{Owner: []byte("o")}); err != nil {
			return err
		}
		if _, err := w.s.Open(call, &OpenArgs{File: fkey(1), Access: ShareRead, Pin: &pins[4]}); err != nil {
			return err
		}
		w.s.OpenUndo(call)
		w.s.OpenUndo(call)
		return nil
	}))
	expect("undone", 1, 1, 1, 1, 1)
	w.check()
}

func TestOpenUndoOfUpgrade(t *testing.T) {
	w := newWorld(t)
	c := w.ready41("c")
	o, err := c.open("o", fkey(1), ShareRead, 0)
	ok(t, "OPEN", err)
	ok(t, "undo", c.do(func(call *Call) error {
		if err := w.s.OpenBegin(call, &OpenBeginArgs{Owner: []byte("o")}); err != nil {
			return err
		}
		if _, err := w.s.Open(call, &OpenArgs{File: fkey(1), Access: ShareWrite, Deny: ShareWrite}); err != nil {
			return err
		}
		w.s.OpenUndo(call)
		return nil
	}))
	w.check()
	mustBe(t, "WRITE", c.io(o.key, Stateid{0, o.Stateid.Other}, AccessWrite), ErrOpenMode)
	_, err = w.ready41("d").open("o", fkey(1), ShareWrite, 0)
	ok(t, "the denial is gone", err)
}

func TestOpenLimits(t *testing.T) {
	w := newWorld(t, func(c *Config) { c.MaxOpens = 3; c.MaxOwners = 5; c.MaxLocks = 4 })
	c := w.ready41("c")
	var o [4]opened
	var err error
	for i := range 3 {
		o[i], err = c.open("o", fkey(i), ShareBoth, 0)
		ok(t, "OPEN", err)
	}
	_, err = c.open("o", fkey(3), ShareRead, 0)
	mustBe(t, "a fourth open", err, ErrResource)
	_, err = c.open("o", fkey(2), ShareRead, 0)
	ok(t, "an upgrade", err)
	ok(t, "CLOSE", c.close(o[0]))
	for i := range 4 {
		_, _, err = c.lock(o[1], "l", WriteLock, uint64(i*10), 1)
		ok(t, "LOCK", err)
	}
	_, _, err = c.lock(o[1], "l", WriteLock, 100, 1)
	mustBe(t, "a fifth range", err, ErrResource)
	w.check()
	_, err = c.open("p", fkey(5), ShareRead, 0)
	ok(t, "OPEN", err)
	ok(t, "CLOSE", c.close(o[1])) // its lock owner goes
	ok(t, "CLOSE", c.close(o[2]))
	for i := range 20 { // an OPEN that comes to nothing leaves no owner
		ok(t, "OPEN", c.do(func(call *Call) error { return w.s.OpenBegin(call, &OpenBeginArgs{Owner: []byte{byte(i)}}) }))
	}
	w.check()
	w.s.cfg.MaxOwners = 2
	_, err = c.open("q", fkey(6), ShareRead, 0)
	ok(t, "OPEN", err)
	_, err = c.open("r", fkey(6), ShareRead, 0)
	mustBe(t, "too many owners", err, ErrResource)
	w.s.cfg.MaxOwners, w.s.cfg.MaxObjects = 100, w.s.objects
	_, err = c.open("q", fkey(7), ShareRead, 0)
	mustBe(t, "too much in all", err, ErrResource)
	w.s.cfg.MaxObjects++
	_, err = c.open("q", fkey(7), ShareRead, 0)
	ok(t, "OPEN", err)
	mustBe(t, "a long owner", c.do(func(call *Call) error {
		return w.s.OpenBegin(call, &OpenBeginArgs{Owner: make([]byte, MaxOwner+1)})
	}), ErrInval)
	_, err = c.open("p", fkey(5), 0, 0)
	mustBe(t, "access 0", err, ErrInval)
	_, err = c.open("p", fkey(5), 4, 0)
	mustBe(t, "access 4", err, ErrInval)
	_, err = c.open("p", fkey(5), 1, 4)
	mustBe(t, "deny 4", err, ErrInval)
	_, err = c.open("p", fkey(5), 1, 0, func(a *OpenArgs) { a.Claim = ClaimDelegatePrev })
	mustBe(t, "CLAIM_DELEGATE_PREV", err, ErrNotSupp)
}

// TestCourtesy: an expired client keeps what nobody wants, and loses all to the first who does (pynfs COUR2-6).
func TestCourtesy(t *testing.T) {
	rec := &memRecovery{}
	w := newWorld(t, func(c *Config) { c.Recovery = rec })
	x := w.ready41("x")
	y := w.ready41("y")
	keep, err := x.open("o", fkey(1), ShareBoth, ShareWrite)
	ok(t, "OPEN", err)
	_, err = y.open("o", fkey(1), ShareWrite, 0)
	mustBe(t, "before", err, ErrShareDenied)
	w.advance(testLease + 10*time.Second)
	z := w.ready41("z")
	if n := len(w.s.Opens(x.id)); n != 1 {
		t.Fatal("the courtesy client lost its open for nothing")
	}
	_, err = z.open("o", fkey(2), ShareWrite, 0)
	ok(t, "another file", err)
	// A call that may not block is sent elsewhere, with no effect.
	call, _, err := z.begin(0)
	ok(t, "SEQUENCE", err)
	call.MayBlock = false
	ok(t, "OPEN", w.s.OpenBegin(call, &OpenBeginArgs{Owner: []byte("p")}))
	_, err = w.s.Open(call, &OpenArgs{File: fkey(1), Access: ShareWrite})
	mustBe(t, "conflict where it may not block", err, ErrWouldBlock)
	w.s.SequenceDone(call, nil)
	_, err = z.open("o", fkey(1), ShareWrite, 0)
	ok(t, "conflict", err)
	if rec.has("x") {
		t.Fatal("an expired client that lost state must not be able to reclaim")
	}
	if last := rec.events[len(rec.events)-1]; last != "remove x" {
		t.Fatalf("last event %q", last)
	}
	mustBe(t, "its session", x.io(keep.key, keep.Stateid, AccessRead), ErrBadSession)
	if !rec.has("y") {
		t.Fatal("y was in nobody's way")
	}
	w.check()
}

// TestCourtesyStorageFails: without the record gone, the state stays, and who wants it waits.
func TestCourtesyStorageFails(t *testing.T) {
	rec := &memRecovery{}
	w := newWorld(t, func(c *Config) { c.Recovery = rec })
	x, y := w.ready41("x"), w.ready41("y")
	_, err := x.open("o", fkey(1), ShareBoth, ShareWrite)
	ok(t, "OPEN", err)
	w.advance(testLease + time.Second)
	y.do(func(*Call) error { return nil }) // alive
	rec.setFail(errDisk)
	_, err = y.open("o", fkey(1), ShareWrite, 0)
	mustBe(t, "OPEN", err, ErrDelay)
	if len(w.s.Opens(x.id)) != 1 || w.s.Counters().StorageErrors != 1 || len(w.logs) != 1 {
		t.Fatalf("opens %v, counters %+v, log %v", w.s.Opens(x.id), w.s.Counters(), w.logs)
	}
	ok(t, "x comes back", x.do(func(*Call) error { return nil }))
	w.advance(testLease + time.Second)
	y.do(func(*Call) error { return nil })
	rec.setFail(nil)
	_, err = y.open("o", fkey(1), ShareWrite, 0)
	ok(t, "OPEN", err)
}

func TestRevokeFiles(t *testing.T) {
	w := newWorld(t)
	c := w.ready41("c")
	o, err := c.open("o", fkey(1), ShareBoth, ShareRead)
	ok(t, "OPEN", err)
	l, _, err := c.lock(o, "l", WriteLock, 0, 1)
	ok(t, "LOCK", err)
	p, err := c.open("o", fkey(2), ShareRead, 0, wantDeleg)
	ok(t, "OPEN", err)
	if n := w.s.RevokeFiles(func(k *FileKey) bool { return *k == fkey(1) || *k == fkey(2) }); n != 4 {
		t.Fatalf("%d revoked", n)
	}
	w.check()
	if len(w.s.Locks()) != 0 || len(w.s.Opens(0)) != 0 || w.s.files[fkey(1)] != nil {
		t.Fatal("something is held")
	}
	for _, s := range []Stateid{o.Stateid, l, p.Stateid, p.Deleg.Stateid} {
		mustBe(t, "READ", c.io(fkey(1), s, AccessRead), ErrAdminRevoked)
		mustBe(t, "TEST_STATEID", c.do(func(call *Call) error { return w.s.TestStateid(call, s) }), ErrAdminRevoked)
	}
	call, r, err := c.begin(0)
	ok(t, "SEQUENCE", err)
	if r.Status != Seq4AdminRevoked {
		t.Fatalf("status %x", r.Status)
	}
	w.s.SequenceDone(call, nil)
	for _, s := range []Stateid{o.Stateid, l, p.Stateid, p.Deleg.Stateid} {
		ok(t, "FREE_STATEID", c.do(func(call *Call) error { return w.s.FreeStateid(call, s) }))
	}
	if w.s.clients[c.id].status.Load() != 0 {
		t.Fatal("the flag stays")
	}
	w.check()
}
