// Delegations.

package state

import (
	"errors"
	"testing"
	"time"
)

// delegated opens with a delegation.
func (c *cl41) delegated(f FileKey, access uint8) opened {
	c.w.t.Helper()
	o, err := c.open("deleg owner", f, access, 0, wantDeleg)
	ok(c.w.t, "OPEN", err)
	want := DelegRead
	if access&ShareWrite != 0 {
		want = DelegWrite
	}
	if o.Deleg.Type != want {
		c.w.t.Fatalf("delegation %+v, want type %d", o.Deleg, want)
	}
	return o
}

// TestGrant tries the reasons for and against.
func TestGrant(t *testing.T) {
	type setup func(w *world, c, d *cl41)
	open := func(who int, access uint8) setup {
		return func(w *world, c, d *cl41) {
			_, err := []*cl41{c, d}[who].open("other", fkey(1), access, 0)
			ok(w.t, "OPEN", err)
		}
	}
	for _, x := range []struct {
		name   string
		access uint8
		setup  setup
		mod    func(*OpenArgs)
		cfg    func(*Config)
		want   DelegType
		why    WhyNone
	}{
		{name: "read", access: ShareRead, want: DelegRead},
		{name: "write", access: ShareBoth, want: DelegWrite},
		{name: "write only", access: ShareWrite, want: DelegWrite},
		{name: "beside another reader", access: ShareRead, setup: open(1, ShareRead), want: DelegRead},
		{name: "beside another writer (DELEG9)", access: ShareRead, setup: open(1, ShareWrite), why: NoneContention},
		{name: "to write, beside another reader", access: ShareBoth, setup: open(1, ShareRead), why: NoneContention},
		{name: "beside the client's own writer", access: ShareRead, setup: open(0, ShareWrite), want: DelegRead},
		{name: "not wanted (DELEG4)", access: ShareRead, mod: func(a *OpenArgs) { a.Want = WantNone }, why: NoneNotWanted},
		{name: "cancelled", access: ShareRead, mod: func(a *OpenArgs) { a.Want = WantCancel }, why: NoneCancelled},
		{name: "not a file", access: ShareRead, mod: func(a *OpenArgs) { a.Regular = false }, why: NoneNotSupportedFType},
		{name: "off", access: ShareRead, cfg: func(c *Config) { c.Delegations = false }, why: NoneResource},
		{name: "write off", access: ShareBoth, cfg: func(c *Config) { c.WriteDelegs = false }, why: NoneResource},
		{name: "write off, read", access: ShareRead, cfg: func(c *Config) { c.WriteDelegs = false }, want: DelegRead},
		{name: "no callbacks", access: ShareRead, cfg: func(c *Config) { c.Callbacks = nil }, why: NoneResource},
		{name: "path down", access: ShareRead, setup: func(w *world, c, d *cl41) { w.s.SetCallbackPath(w.s.clients[c.id], false) }, why: NoneResource},
		{name: "one is enough", access: ShareRead, setup: func(w *world, c, d *cl41) { c.delegated(fkey(1), ShareRead) }, why: NoneContention},
		{name: "upgrade", access: ShareRead, setup: func(w *world, c, d *cl41) { c.delegated(fkey(1), ShareRead) },
			mod: func(a *OpenArgs) { a.Want = WantWrite }, why: NoneNotSupportedUpgrade},
		{name: "downgrade", access: ShareRead, setup: func(w *world, c, d *cl41) { c.delegated(fkey(1), ShareBoth) },
			mod: func(a *OpenArgs) { a.Want = WantRead }, why: NoneNotSupportedDowngrade},
		{name: "beside another's read delegation", access: ShareRead, setup: func(w *world, c, d *cl41) { d.delegated(fkey(1), ShareRead) }, want: DelegRead},
		{name: "too many", access: ShareRead, cfg: func(c *Config) { c.MaxDelegations = 1 }, setup: func(w *world, c, d *cl41) { d.delegated(fkey(2), ShareRead) }, why: NoneResource},
		{name: "just recalled", access: ShareRead, setup: func(w *world, c, d *cl41) {
			o := d.delegated(fkey(1), ShareRead)
			w.s.CheckWrite(ptr(fkey(1)), 0, false)
			ok(w.t, "DELEGRETURN", d.delegReturn(o.key, o.Deleg.Stateid))
			ok(w.t, "CLOSE", d.close(o))
		}, why: NoneContention},
	} {
		t.Run(x.name, func(t *testing.T) {
			w := newWorld(t, func(c *Config) {
				if x.cfg != nil {
					x.cfg(c)
				}
			})
			c, d := w.ready41("c"), w.ready41("d")
			if x.setup != nil {
				x.setup(w, c, d)
			}
			o, err := c.open("o", fkey(1), x.access, 0, wantDeleg, func(a *OpenArgs) {
				if x.mod != nil {
					x.mod(a)
				}
			})
			ok(t, "OPEN", err)
			if o.Deleg.Type != x.want || x.want == DelegNone && o.Deleg.Why != x.why {
				t.Fatalf("%+v", o.Deleg)
			}
			w.check()
		})
	}
}

func ptr[T any](v T) *T { return &v }

// TestConflicts: who makes whom give a delegation back.
func TestConflicts(t *testing.T) {
	for _, x := range []struct {
		name        string
		access      func(w *world, c, d *cl41) error // c holds the delegation
		read, write bool                             // a read (write) delegation is recalled
	}{
		{"open to read", func(w *world, c, d *cl41) error { _, err := d.open("o", fkey(1), ShareRead, 0); return err }, false, true},
		{"open to write", func(w *world, c, d *cl41) error { _, err := d.open("o", fkey(1), ShareWrite, 0); return err }, true, true},
		{"open to read, denying", func(w *world, c, d *cl41) error { _, err := d.open("o", fkey(1), ShareRead, ShareRead); return err }, true, true},
		{"open to truncate", func(w *world, c, d *cl41) error {
			_, err := d.open("o", fkey(1), ShareRead, 0, func(a *OpenArgs) { a.Truncate = true })
			return err
		}, true, true},
		{"v3 READ", func(w *world, c, d *cl41) error { return w.s.CheckRead(ptr(fkey(1)), 0, false) }, false, true},
		{"v3 WRITE", func(w *world, c, d *cl41) error { return w.s.CheckWrite(ptr(fkey(1)), 0, false) }, true, true},
		{"v3 SETATTR", func(w *world, c, d *cl41) error { return w.s.CheckSetattr(ptr(fkey(1)), 0, false, false) }, true, true},
		{"v3 GETATTR", func(w *world, c, d *cl41) error { return w.s.CheckGetattr(ptr(fkey(1)), 0, false) }, false, true},
		{"v3 REMOVE", func(w *world, c, d *cl41) error { return w.s.CheckNames(ptr(fkey(1)), 0) }, true, true},
		{"d's REMOVE", func(w *world, c, d *cl41) error { return w.s.CheckNames(ptr(fkey(1)), uint64(d.id)) }, true, true},
		{"c's REMOVE", func(w *world, c, d *cl41) error { return w.s.CheckNames(ptr(fkey(1)), uint64(c.id)) }, false, false},
		{"c's SETATTR", func(w *world, c, d *cl41) error { return w.s.CheckSetattr(ptr(fkey(1)), uint64(c.id), false, true) }, false, false},
		{"c's anonymous WRITE", func(w *world, c, d *cl41) error { return w.s.CheckWrite(ptr(fkey(1)), uint64(c.id), false) }, false, false},
		{"c's own open to write", func(w *world, c, d *cl41) error { _, err := c.open("x", fkey(1), ShareBoth, 0); return err }, false, false},
		{"READ past denials", func(w *world, c, d *cl41) error { return d.io(fkey(1), ReadBypass, AccessRead) }, false, true},
		{"NLM read lock", func(w *world, c, d *cl41) error {
			_, err := w.s.NLMLock(w.call40(), &NLMLockArgs{File: fkey(1), Owner: LockOwner{Host: "h"}, Type: ReadLock})
			return err
		}, false, true},
		{"NLM write lock", func(w *world, c, d *cl41) error {
			_, err := w.s.NLMLock(w.call40(), &NLMLockArgs{File: fkey(1), Owner: LockOwner{Host: "h"}, Type: WriteLock})
			return err
		}, true, true},
		{"another file", func(w *world, c, d *cl41) error { _, err := d.open("o", fkey(2), ShareBoth, ShareBoth); return err }, false, false},
		{"local process", func(w *world, c, d *cl41) error { w.s.LeaseBroken(fkey(1)); return nil }, true, true},
	} {
		for _, access := range []uint8{ShareRead, ShareBoth} {
			w := newWorld(t)
			c, d := w.ready41("c"), w.ready41("d")
			o := c.delegated(fkey(1), access)
			ok(t, "CLOSE", c.close(o)) // leaves the delegation alone
			want := x.read
			if access == ShareBoth {
				want = x.write
			}
			err := x.access(w, c, d)
			if x.name != "local process" {
				wantErr := error(nil)
				if want {
					wantErr = ErrDelay
				}
				mustBe(t, x.name, err, wantErr)
			}
			recalls := w.takeRecalls()
			if (len(recalls) == 1) != want {
				t.Fatalf("%s against access %d: recalls %v", x.name, access, recalls)
			}
			w.check()
			if !want {
				continue
			}
			if r := recalls[0]; r.Client.ID() != c.id || r.Stateid != o.Deleg.Stateid || string(r.FH) != "fh" {
				t.Fatalf("%+v", r)
			}
			x.access(w, c, d) // again: no second recall
			if n := len(w.takeRecalls()); n != 0 {
				t.Fatalf("%s: recalled twice", x.name)
			}
			ok(t, "DELEGRETURN", c.delegReturn(o.key, o.Deleg.Stateid))
			ok(t, x.name+" afterwards", x.access(w, c, d))
			w.check()
		}
	}
}

// TestShareBeforeRecall: an open that is denied anyway recalls nothing (pynfs DELEG8 of 4.0).
func TestShareBeforeRecall(t *testing.T) {
	w := newWorld(t)
	c, d := w.ready41("c"), w.ready41("d")
	_, err := c.open("o", fkey(1), ShareRead, ShareWrite, wantDeleg)
	ok(t, "OPEN", err)
	_, err = d.open("o", fkey(1), ShareWrite, 0)
	mustBe(t, "OPEN", err, ErrShareDenied)
	if len(w.takeRecalls()) != 0 {
		t.Fatal("recalled")
	}
}

// TestRevocation follows a delegation that is not returned to its end (pynfs DELEG8 of 4.1).
func TestRevocation(t *testing.T) {
	w := newWorld(t)
	c, d := w.ready41("c"), w.ready41("d")
	o := c.delegated(fkey(1), ShareRead)
	write := func() error { _, err := d.open("o", fkey(1), ShareWrite, 0); return err }
	mustBe(t, "OPEN", write(), ErrDelay)
	r := w.takeRecalls()[0]
	w.s.RecallDone(r, nil)
	for i := 0; i < 9; i++ {
		w.advance(testLease / 9)
		c.do(func(*Call) error { return nil })
		mustBe(t, "OPEN", write(), ErrDelay)
		ok(t, "READ meanwhile", c.io(fkey(1), o.Deleg.Stateid, AccessRead))
	}
	w.advance(2 * time.Second)
	ok(t, "OPEN after the lease", write())
	w.check()
	mustBe(t, "READ", c.io(fkey(1), o.Deleg.Stateid, AccessRead), ErrDelegRevoked)
	status := func() uint32 {
		call, r, err := c.begin(0)
		ok(t, "SEQUENCE", err)
		w.s.SequenceDone(call, nil)
		return r.Status
	}
	if s := status(); s != Seq4RecallableRevoked {
		t.Fatalf("status %x", s)
	}
	mustBe(t, "TEST_STATEID", c.do(func(call *Call) error { return w.s.TestStateid(call, o.Deleg.Stateid) }), ErrDelegRevoked)
	_, err := c.open("o", fkey(1), ShareRead, 0, func(a *OpenArgs) { a.Claim, a.Deleg = ClaimDelegCurFH, o.Deleg.Stateid })
	mustBe(t, "CLAIM_DELEG_CUR_FH", err, ErrDelegRevoked)
	ok(t, "FREE_STATEID", c.do(func(call *Call) error { return w.s.FreeStateid(call, o.Deleg.Stateid) }))
	if s := status(); s != 0 {
		t.Fatalf("status %x", s)
	}
	mustBe(t, "READ", c.io(fkey(1), o.Deleg.Stateid, AccessRead), ErrBadStateid)
	w.check()
	// DELEGRETURN of a revoked one frees it too; Tick alone revokes as well.
	o = c.delegated(fkey(2), ShareRead)
	w.s.LeaseBroken(fkey(2))
	w.advance(testLease - time.Second)
	c.do(func(*Call) error { return nil })
	w.advance(2 * time.Second)
	w.s.Tick()
	if s := status(); s != Seq4RecallableRevoked {
		t.Fatalf("status %x", s)
	}
	ok(t, "DELEGRETURN", c.delegReturn(fkey(2), o.Deleg.Stateid))
	w.check()
}

// TestExpiredHolder: a delegation of an expired client goes with the client, without a call.
func TestExpiredHolder(t *testing.T) {
	w := newWorld(t)
	c, d := w.ready41("c"), w.ready41("d")
	c.delegated(fkey(1), ShareBoth)
	w.advance(testLease + time.Second)
	// The Guard does not wait: it has the client ended, and says so.
	mustBe(t, "v3 READ", w.s.CheckRead(ptr(fkey(1)), 0, false), ErrDelay)
	w.settle()
	ok(t, "v3 READ", w.s.CheckRead(ptr(fkey(1)), 0, false))
	if len(w.takeRecalls()) != 0 || len(w.s.Delegations()) != 0 {
		t.Fatal("called")
	}
	_ = d
}

// TestRecallResend: a recall without a good answer is sent again: after a while to whoever waits, at once when a new path
// comes up (pynfs DSESS9003); one that was taken is not.
func TestRecallResend(t *testing.T) {
	w := newWorld(t)
	c, d := w.ready41("c"), w.ready41("d")
	c.delegated(fkey(1), ShareRead)
	write := func() error { _, err := d.open("o", fkey(1), ShareWrite, 0); return err }
	mustBe(t, "OPEN", write(), ErrDelay)
	r := w.takeRecalls()[0]
	w.s.RecallDone(r, errors.New("no answer"))
	mustBe(t, "OPEN", write(), ErrDelay)
	if len(w.takeRecalls()) != 0 {
		t.Fatal("sent again at once")
	}
	w.advance(3 * time.Second)
	mustBe(t, "OPEN", write(), ErrDelay)
	if len(w.takeRecalls()) != 1 {
		t.Fatal("not sent again")
	}
	w.s.RecallDone(r, errors.New("no answer"))
	w.s.SetCallbackPath(w.s.clients[c.id], false)
	c.session(attrs)
	w.s.SetCallbackPath(w.s.clients[c.id], true)
	if len(w.takeRecalls()) != 1 {
		t.Fatal("not sent again on the new path")
	}
	w.s.RecallDone(r, nil)
	w.advance(3 * time.Second)
	mustBe(t, "OPEN", write(), ErrDelay)
	w.s.SetCallbackPath(w.s.clients[c.id], true)
	if len(w.takeRecalls()) != 0 {
		t.Fatal("sent again though it was taken")
	}
}

// TestClaimDelegateCur: during a recall the holder turns what it has promised locally into opens (pynfs DELEG14).
func TestClaimDelegateCur(t *testing.T) {
	w := newWorld(t)
	c, d := w.ready41("c"), w.ready41("d")
	o := c.delegated(fkey(1), ShareRead)
	ok(t, "CLOSE", c.close(o))
	_, err := d.open("o", fkey(1), ShareWrite, 0)
	mustBe(t, "OPEN", err, ErrDelay)
	claim := func(c *cl41, f FileKey, sid Stateid, access uint8) error {
		_, err := c.open("late", f, access, 0, func(a *OpenArgs) { a.Claim, a.Deleg = ClaimDelegateCur, sid })
		return err
	}
	ok(t, "CLAIM_DELEGATE_CUR", claim(c, fkey(1), o.Deleg.Stateid, ShareRead))
	mustBe(t, "to write, by a read delegation", claim(c, fkey(1), o.Deleg.Stateid, ShareBoth), ErrOpenMode)
	mustBe(t, "of another file", claim(c, fkey(2), o.Deleg.Stateid, ShareRead), ErrBadStateid)
	mustBe(t, "of another client", claim(d, fkey(1), o.Deleg.Stateid, ShareRead), ErrBadStateid)
	mustBe(t, "special", claim(c, fkey(1), Anonymous, ShareRead), ErrBadStateid)
	x, err := c.open("x", fkey(3), ShareRead, 0)
	ok(t, "OPEN", err)
	mustBe(t, "an open stateid", claim(c, fkey(3), x.Stateid, ShareRead), ErrBadStateid)
	mustBe(t, "DELEGRETURN of an open", c.delegReturn(fkey(3), x.Stateid), ErrBadStateid)
	mustBe(t, "DELEGRETURN, other file", c.delegReturn(fkey(3), o.Deleg.Stateid), ErrBadStateid)
	ok(t, "DELEGRETURN", c.delegReturn(fkey(1), o.Deleg.Stateid))
	mustBe(t, "DELEGRETURN again", c.delegReturn(fkey(1), o.Deleg.Stateid), ErrBadStateid)
	_, err = d.open("o", fkey(1), ShareWrite, 0)
	ok(t, "OPEN", err)
	w.check()
}

// TestDelegIO: delegation stateids in I/O.
func TestDelegIO(t *testing.T) {
	w := newWorld(t)
	c := w.ready41("c")
	r, x := c.delegated(fkey(1), ShareRead), c.delegated(fkey(2), ShareBoth)
	ok(t, "READ", c.io(fkey(1), r.Deleg.Stateid, AccessRead))
	mustBe(t, "WRITE", c.io(fkey(1), r.Deleg.Stateid, AccessWrite), ErrOpenMode)
	ok(t, "WRITE", c.io(fkey(2), x.Deleg.Stateid, AccessWrite))
	mustBe(t, "FREE_STATEID", c.do(func(call *Call) error { return w.s.FreeStateid(call, x.Deleg.Stateid) }), ErrLocksHeld)
}

// TestXor: OPEN_XOR_DELEGATION gives the delegation alone; the pin goes over to it.
func TestXor(t *testing.T) {
	w := newWorld(t)
	c := w.ready41("c")
	var pin countPin
	xor := func(a *OpenArgs) { a.WantXor, a.Pin = true, &pin }
	o, err := c.open("o", fkey(1), ShareRead, 0, wantDeleg, xor)
	ok(t, "OPEN", err)
	if !o.NoStateid || o.Deleg.Type != DelegRead || len(w.s.Opens(0)) != 0 || pin != 0 {
		t.Fatalf("%+v, pin %d", o, pin)
	}
	w.check()
	ok(t, "READ", c.io(fkey(1), o.Deleg.Stateid, AccessRead))
	ok(t, "DELEGRETURN", c.delegReturn(fkey(1), o.Deleg.Stateid))
	if pin != 1 {
		t.Fatal("pin")
	}
	pin = 0
	o, err = c.open("o", fkey(2), ShareRead, ShareWrite, wantDeleg, xor)
	ok(t, "OPEN with a denial", err)
	if o.NoStateid || pin != 0 {
		t.Fatal("the denial would be lost")
	}
}

// TestDelegAttrs: the holder of a write delegation is asked; no answer, and it is recalled.
func TestDelegAttrs(t *testing.T) {
	w := newWorld(t)
	c, d := w.ready41("c"), w.ready41("d")
	get := func(x *cl41, block bool) (a DelegAttrs, found bool, err error) {
		err = x.do(func(call *Call) error {
			call.MayBlock = block
			var err error
			a, found, err = w.s.DelegAttrs(call, fkey(1))
			return err
		})
		return a, found, err
	}
	_, found, err := get(d, false)
	if found || err != nil {
		t.Fatal("nothing there")
	}
	o, err := c.open("o", fkey(1), ShareBoth, 0, wantDeleg, func(a *OpenArgs) { a.Change = 5 })
	ok(t, "OPEN", err)
	_, found, err = get(c, false)
	if found || err != nil {
		t.Fatal("the holder itself needs no answer")
	}
	_, _, err = get(d, false)
	mustBe(t, "where it may not block", err, ErrWouldBlock)
	for _, change := range []uint64{5, 6} {
		w.answer = func(r Recall) {
			go w.s.DelegAttrsDone(r, DelegAttrs{HasSize: true, Size: 77, HasChange: true, Change: change}, nil)
		}
		a, found, err := get(d, true)
		ok(t, "GETATTR", err)
		if !found || a.Size != 77 || a.Modified != (change != 5) {
			t.Fatalf("%+v %v", a, found)
		}
	}
	w.check()
	w.answer = func(r Recall) { go w.s.DelegAttrsDone(r, DelegAttrs{}, errors.New("no")) }
	_, _, err = get(d, true)
	mustBe(t, "an error", err, ErrDelay)
	if len(w.takeRecalls()) != 1 {
		t.Fatal("not recalled")
	}
	_, _, err = get(d, true)
	mustBe(t, "while it is recalled", err, ErrDelay)
	ok(t, "DELEGRETURN", c.delegReturn(fkey(1), o.Deleg.Stateid))
	_, found, err = get(d, true)
	if found || err != nil {
		t.Fatal("returned")
	}
	// Returned while the question is out: answered at once, and no longer in the way.
	o = c.delegated(fkey(9), ShareBoth)
	returned := make(chan error)
	w.answer = func(r Recall) { go func() { returned <- c.delegReturn(fkey(9), o.Deleg.Stateid) }() }
	ok(t, "GETATTR", d.do(func(call *Call) error { _, _, err := w.s.DelegAttrs(call, fkey(9)); return err }))
	ok(t, "DELEGRETURN", <-returned)
	w.answer = nil
	// No answer at all.
	o = c.delegated(fkey(10), ShareBoth)
	start := time.Now()
	mustBe(t, "GETATTR", d.do(func(call *Call) error { _, _, err := w.s.DelegAttrs(call, fkey(10)); return err }), ErrDelay)
	if time.Since(start) < attrWait {
		t.Fatal("did not wait")
	}
	w.s.DelegAttrsDone(Recall{Client: w.s.clients[c.id], Stateid: o.Deleg.Stateid}, DelegAttrs{}, nil) // late
	w.s.DelegAttrsDone(Recall{Client: w.s.clients[c.id], Stateid: o.Deleg.Stateid}, DelegAttrs{}, nil)
}

// TestLeases: the kernel's lease comes with the first delegation on a file and goes with the last.
func TestLeases(t *testing.T) {
	l := &fakeLeases{}
	w := newWorld(t, func(c *Config) { c.Leases = l })
	c, d := w.ready41("c"), w.ready41("d")
	f := fkey(1)
	a, b := c.delegated(f, ShareRead), d.delegated(f, ShareRead)
	if l.has(f) != DelegRead {
		t.Fatal("no lease")
	}
	w.check()
	ok(t, "DELEGRETURN", c.delegReturn(f, a.Deleg.Stateid))
	if l.has(f) != DelegRead {
		t.Fatal("lease gone too early")
	}
	// A local process: recalled, and the lease released when the delegation is back.
	w.s.LeaseBroken(f)
	if n := len(w.takeRecalls()); n != 1 {
		t.Fatalf("%d recalls", n)
	}
	ok(t, "DELEGRETURN", d.delegReturn(f, b.Deleg.Stateid))
	if l.has(f) != DelegNone {
		t.Fatal("lease kept")
	}
	// Refused: no delegation.
	l.refuse = true
	o, err := c.open("o", fkey(2), ShareRead, 0, wantDeleg)
	ok(t, "OPEN", err)
	if o.Deleg.Type != DelegNone || o.Deleg.Why != NoneContention {
		t.Fatalf("%+v", o.Deleg)
	}
	l.refuse = false
	w.check()
	// Something comes while the lease is being taken: none either, and nothing to recall.
	for i, come := range []func(FileKey){
		func(f FileKey) { w.s.LeaseBroken(f) },
		func(f FileKey) { mustBe(t, "v3 WRITE", w.s.CheckWrite(&f, 0, false), nil) },
		func(f FileKey) { _, err := d.open("o", f, ShareWrite, 0); ok(t, "OPEN", err) },
		func(f FileKey) { ok(t, "expire", w.s.ExpireClient(d.id)) },
	} {
		f := fkey(10 + i)
		holder := c
		if i == 3 {
			w.s.clients[d.id].inflight.Store(-1) // its OPEN is what is under way
			holder = d
		}
		l.onTaken = come
		o, err := holder.open("o", f, ShareRead, 0, wantDeleg)
		l.onTaken = nil
		ok(t, "OPEN", err)
		if o.Deleg.Type != DelegNone || l.has(f) != DelegNone || len(w.takeRecalls()) != 0 {
			t.Fatalf("case %d: %+v, lease %d", i, o.Deleg, l.has(f))
		}
	}
	w.check()
	// The holder of a read delegation opens to write: the open goes through, the delegation stays if local processes are
	// watched, and is recalled if they are not.
	for i, watch := range []bool{true, false} {
		l.watch = watch
		f := fkey(20 + i)
		o := c.delegated(f, ShareRead)
		for range 2 {
			_, err = c.open("w", f, ShareWrite, 0)
			ok(t, "OPEN", err)
		}
		if l.weakened != i+1 || (len(w.takeRecalls()) == 1) == watch {
			t.Fatal("self conflict")
		}
		w.check()
		w.s.LeaseBroken(f)
		if (len(w.takeRecalls()) == 1) != watch {
			t.Fatal("a local process was not noticed")
		}
		ok(t, "DELEGRETURN", c.delegReturn(f, o.Deleg.Stateid))
		if l.has(f) != DelegNone {
			t.Fatal("not released")
		}
	}
}

// TestDeleg40: a 4.0 client gets one only when its callback path is known to work, and its owner is confirmed.
func TestDeleg40(t *testing.T) {
	w := newWorld(t)
	id := w.client40("c")
	call := w.call40()
	open := func(seqid uint32, f FileKey, access ...uint8) OpenRes {
		ok(t, "OPEN", w.s.OpenBegin(call, &OpenBeginArgs{ClientID: id, Owner: []byte("o"), Seqid: seqid}))
		r, err := w.s.Open(call, &OpenArgs{File: f, FH: []byte("fh"), Access: append(access, ShareRead)[0], Regular: true})
		ok(t, "OPEN", err)
		w.s.OwnerDone(call, true, nil, nil)
		return r
	}
	if r := open(0, fkey(1)); r.Deleg.Type != DelegNone || !r.Confirm {
		t.Fatalf("%+v", r)
	}
	w.open40(id, "o", 0, fkey(1), ShareRead, 0)
	w.s.SetCallbackPath(w.s.clients[id], false)
	if r := open(2, fkey(1)); r.Deleg.Type != DelegNone {
		t.Fatalf("%+v", r)
	}
	ok(t, "RENEW without delegations", w.s.Renew(call, id))
	w.s.SetCallbackPath(w.s.clients[id], true)
	r := open(3, fkey(1))
	if r.Deleg.Type != DelegRead {
		t.Fatalf("%+v", r)
	}
	// None for writing: its own GETATTR, before DELEGRETURN too, could not be told from another's.
	if r := open(4, fkey(2), ShareBoth); r.Deleg.Type != DelegNone {
		t.Fatalf("%+v", r)
	}
	w.s.SetCallbackPath(w.s.clients[id], false)
	mustBe(t, "RENEW (DELEG6)", w.s.Renew(call, id), ErrCBPathDown)
	// Not returned: a 4.0 client's is simply gone.
	mustBe(t, "v3 WRITE", w.s.CheckWrite(ptr(fkey(1)), 0, false), ErrDelay)
	w.advance(testLease / 2)
	w.s.Renew(call, id)
	w.advance(testLease/2 + time.Second)
	ok(t, "v3 WRITE", w.s.CheckWrite(ptr(fkey(1)), 0, false))
	_, err := w.s.CheckIO(call, fkey(1), r.Deleg.Stateid, AccessRead)
	mustBe(t, "READ", err, ErrBadStateid)
	w.check()
	// A REMOVE of the same 4.0 client recalls, since nobody knows whose it is (DELEG15a), until the COMPOUND has shown it.
	if w.call40().ClientID() != 0 || call.ClientID() != id {
		t.Fatal("who is it?")
	}
}

// TestBlocked: a recall keeps delegations from its own file for a time, and from no other.
func TestBlocked(t *testing.T) {
	s := newWorld(t).s
	s.enter()
	defer s.leave()
	for i := range 4 * blockedSlots {
		k, other := fkey(i), fkey(i|1<<15)
		s.block(&k, 1)
		if !s.isBlocked(&k, blockedTime) || s.isBlocked(&k, blockedTime+1) {
			t.Fatalf("file %d is not blocked for %d ns", i, blockedTime)
		}
		if s.isBlocked(&other, 2) {
			t.Fatalf("a file that had no recall is blocked after %d others' recalls", i+1)
		}
	}
}
