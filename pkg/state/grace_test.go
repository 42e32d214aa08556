// Grace and reclaim, over restarts.

package state

import (
	"testing"
	"time"
)

// restart makes a new State on the same storage, by the same clock.
func (w *world) restart() *world {
	w.t.Helper()
	rec := w.s.cfg.Recovery
	now := w.clock.Load()
	w.settle()
	w.check()
	w.s.Close()
	old := w.s.cfg
	return newWorldAt(w.t, now, func(c *Config) {
		c.Recovery, c.Local, c.Grace = rec, old.Local, old.Grace
		if fl, isFake := c.Local.(*fakeLocal); isFake {
			fl.sets = nil // the process's descriptors are closed
		}
	})
}

func reclaim(a *OpenArgs) { a.Claim = ClaimPrevious }

// TestGrace41 follows two clients through a restart (pynfs REBT1-4).
func TestGrace41(t *testing.T) {
	rec := &memRecovery{}
	w := newWorld(t, func(c *Config) { c.Recovery = rec })
	if w.s.InGrace() {
		t.Fatal("grace without recorded clients")
	}
	a, b := w.ready41("a"), w.ready41("b")
	w.client41("never complete")
	o, err := a.open("o", fkey(1), ShareBoth, ShareWrite)
	ok(t, "OPEN", err)
	_, _, err = a.lock(o, "l", WriteLock, 0, 10)
	ok(t, "LOCK", err)
	_ = b

	w = w.restart()
	if !w.s.InGrace() || w.s.GraceLeft() != testLease {
		t.Fatalf("no grace, or %v", w.s.GraceLeft())
	}
	mustBe(t, "the old session", (&cl41{w: w, sess: a.sess, slot: map[uint32]uint32{}}).do(nil), ErrBadSession)
	_, err = w.s.CreateSession(&Call{Minor: 1, MayBlock: true}, &CreateSessionArgs{ClientID: a.id, Sequence: 2, Fore: attrs, Back: attrs})
	mustBe(t, "the old client id", err, ErrStaleClientID)
	a = w.client41("a")
	_, err = a.open("o", fkey(1), ShareRead, 0)
	mustBe(t, "OPEN before RECLAIM_COMPLETE", err, ErrGrace)
	mustBe(t, "READ without an open", a.io(fkey(1), Anonymous, AccessRead), ErrGrace)
	ok(t, "READ past all", a.io(fkey(1), ReadBypass, AccessRead))
	o, err = a.open("o", fkey(1), ShareBoth, ShareWrite, reclaim)
	ok(t, "reclaim", err)
	_, _, err = a.lock(o, "l", WriteLock, 0, 10)
	mustBe(t, "LOCK", err, ErrGrace)
	relock := func(c *cl41, o opened) error {
		return c.do(func(call *Call) error {
			_, _, err := w.s.Lock(call, &LockArgs{File: o.key, Type: WriteLock, Length: 10, New: true, OpenStateid: o.Stateid, Owner: []byte("l"), Reclaim: true})
			return err
		})
	}
	ok(t, "reclaim the lock", relock(a, o))
	_, err = a.open("p", fkey(1), ShareWrite, 0, reclaim)
	mustBe(t, "a reclaim that conflicts", err, ErrReclaimConflict)
	mustBe(t, "LOCKT", a.do(func(call *Call) error {
		_, err := w.s.TestLock(call, &TestLockArgs{File: fkey(1), Type: ReadLock, Length: 1, Owner: []byte("x")})
		return err
	}), ErrGrace)
	ok(t, "RECLAIM_COMPLETE, one file system (RECC1)", a.do(func(call *Call) error { return w.s.ReclaimComplete(call, true) }))
	ok(t, "RECLAIM_COMPLETE", a.do(func(call *Call) error { return w.s.ReclaimComplete(call, false) }))
	mustBe(t, "RECLAIM_COMPLETE again", a.do(func(call *Call) error { return w.s.ReclaimComplete(call, false) }), ErrCompleteAlready)
	_, err = a.open("o", fkey(2), ShareRead, 0, reclaim)
	mustBe(t, "reclaim after RECLAIM_COMPLETE", err, ErrNoGrace)
	_, err = a.open("o", fkey(2), ShareRead, 0)
	mustBe(t, "OPEN while others reclaim", err, ErrGrace)
	// Strangers, and those that had nothing: no reclaim.
	for _, n := range []string{"stranger", "never complete"} {
		s := w.client41(n)
		_, err = s.open("o", fkey(3), ShareRead, 0, reclaim)
		mustBe(t, n, err, ErrReclaimBad)
		ok(t, "RECLAIM_COMPLETE", s.do(func(call *Call) error { return w.s.ReclaimComplete(call, false) }))
	}
	if !w.s.InGrace() {
		t.Fatal("over before b came")
	}
	w.check()
	b = w.ready41("b") // the last one: over at once
	w.settle()
	if w.s.InGrace() {
		t.Fatal("not over though everyone is back")
	}
	_, err = b.open("o", fkey(2), ShareRead, 0)
	ok(t, "OPEN", err)
	_, err = b.open("o", fkey(1), ShareWrite, 0)
	mustBe(t, "against what was reclaimed", err, ErrShareDenied)
	s := w.client41("late")
	_, err = s.open("o", fkey(3), ShareRead, 0, reclaim)
	mustBe(t, "reclaim without grace", err, ErrNoGrace)
	w.check()
}

// TestGraceEnds: by time, a little later while reclaims come, never past its limit; and who did not come back is forgotten
// on stable storage before anything new is allowed.
func TestGraceEnds(t *testing.T) {
	rec := &memRecovery{}
	w := newWorld(t, func(c *Config) { c.Recovery = rec })
	w.ready41("a")
	w.ready41("b")
	w = w.restart()
	a := w.client41("a")
	w.advance(testLease - time.Second)
	_, err := a.open("o", fkey(1), ShareRead, 0, reclaim)
	ok(t, "reclaim", err)
	w.advance(time.Second + time.Millisecond)
	if !w.s.InGrace() {
		t.Fatal("over in the middle of a reclaim (REBT5)")
	}
	_, err = a.open("o", fkey(2), ShareRead, 0, reclaim)
	ok(t, "reclaim", err)
	ok(t, "RECLAIM_COMPLETE", a.do(func(call *Call) error { return w.s.ReclaimComplete(call, false) }))
	w.advance(time.Second)
	if !w.s.InGrace() {
		t.Fatal("over too early")
	}
	rec.setFail(errDisk)
	w.advance(time.Second)
	w.s.InGrace()
	w.settle()
	_, err = a.open("o", fkey(3), ShareRead, 0)
	mustBe(t, "OPEN before storage knows of the end", err, ErrGrace)
	rec.setFail(nil)
	w.advance(2 * time.Second)
	w.s.Tick()
	w.settle()
	_, err = a.open("o", fkey(3), ShareRead, 0)
	ok(t, "OPEN", err)
	if rec.has("b") || !rec.has("a") {
		t.Fatalf("recorded: %v", rec.recs)
	}
	// Endless reclaiming comes to an end.
	w = w.restart()
	a = w.client41("a")
	n := 0
	for ; w.s.InGrace(); n++ {
		a.open("o", fkey(n), ShareRead, 0, reclaim)
		w.advance(time.Second)
		w.settle()
	}
	if d := time.Duration(n) * time.Second; d < testLease || d > 2*testLease+2*time.Second {
		t.Fatalf("grace of %v", d)
	}
	// By the administrator's word.
	w = newWorldAt(t, w.clock.Load(), func(c *Config) { c.ForceGrace = true })
	if !w.s.InGrace() {
		t.Fatal("no grace though it was asked for")
	}
	w.ready41("x")
	if !w.s.InGrace() {
		t.Fatal("forced grace must last")
	}
	w.s.EndGrace()
	if w.s.InGrace() || w.s.GraceLeft() != 0 {
		t.Fatal("not ended")
	}
}

// TestDoubleRestart: a crash within grace takes nothing from those who have not come back yet (REBT3), nor from those who
// have.
func TestDoubleRestart(t *testing.T) {
	rec := &memRecovery{}
	w := newWorld(t, func(c *Config) { c.Recovery = rec })
	w.ready41("a")
	w.ready41("b")
	w = w.restart()
	a := w.client41("a")
	_, err := a.open("o", fkey(1), ShareRead, 0, reclaim)
	ok(t, "reclaim", err)
	ok(t, "RECLAIM_COMPLETE", a.do(func(call *Call) error { return w.s.ReclaimComplete(call, false) }))
	w = w.restart()
	for _, n := range []string{"b", "a"} {
		c := w.client41(n)
		_, err := c.open("o", fkey(1), ShareRead, 0, reclaim)
		ok(t, "reclaim by "+n, err)
		if !w.s.InGrace() {
			t.Fatal("over")
		}
		ok(t, "RECLAIM_COMPLETE", c.do(func(call *Call) error { return w.s.ReclaimComplete(call, false) }))
	}
	w.settle()
	if w.s.InGrace() {
		t.Fatal("not over")
	}
}

// TestEdgeConditions are those of RFC 7530 9.6.3.4 (pynfs 4.0 REBT5, REBT6): who lost state to others before the restart
// must not claim it back after it.
func TestEdgeConditions(t *testing.T) {
	for _, edge := range []int{1, 2} {
		rec := &memRecovery{}
		w := newWorld(t, func(c *Config) { c.Recovery = rec })
		id := w.client40("one")
		w.open40(id, "o", 0, fkey(1), ShareBoth, ShareWrite)
		if !rec.has("one") {
			t.Fatal("OPEN_CONFIRM did not record the client")
		}
		if edge == 2 { // the server restarts, and the client misses the grace period
			w = w.restart()
		}
		w.advance(2*testLease + time.Second)
		w.s.Tick()
		w.settle()
		two := w.ready41("two")
		_, err := two.open("o", fkey(1), ShareBoth, ShareWrite)
		ok(t, "the second client gets it", err)
		w = w.restart()
		if !w.s.InGrace() {
			t.Fatal("no grace for the second client")
		}
		call := w.call40()
		mustBe(t, "RENEW", w.s.Renew(call, id), ErrStaleClientID)
		id = w.client40("one")
		mustBe(t, "reclaim", w.s.OpenBegin(call, &OpenBeginArgs{ClientID: id, Owner: []byte("o"), Claim: ClaimPrevious}), ErrReclaimBad)
		w.s.OwnerDone(call, true, nil, nil)
		// GRACE counts in the seqid (REBT11).
		mustBe(t, "OPEN", w.s.OpenBegin(call, &OpenBeginArgs{ClientID: id, Owner: []byte("p")}), ErrGrace)
		w.s.OwnerDone(call, true, nil, nil)
	}
}

// TestGrace40: a 4.0 client reclaims without OPEN_CONFIRM, is recorded by it, and keeps grace going to its end.
func TestGrace40(t *testing.T) {
	rec := &memRecovery{}
	w := newWorld(t, func(c *Config) { c.Recovery = rec })
	id := w.client40("c")
	w.open40(id, "o", 0, fkey(1), ShareRead, 0)
	for range 2 { // REBT10
		w = w.restart()
		call := w.call40()
		mustBe(t, "the old id", w.s.OpenBegin(call, &OpenBeginArgs{ClientID: id, Owner: []byte("o"), Claim: ClaimPrevious}), ErrStaleClientID)
		id = w.client40("c")
		mayNot := w.call40()
		mayNot.MayBlock = false
		mustBe(t, "where it may not block", w.s.OpenBegin(mayNot, &OpenBeginArgs{ClientID: id, Owner: []byte("o"), Claim: ClaimPrevious}), ErrWouldBlock)
		ok(t, "reclaim", w.s.OpenBegin(call, &OpenBeginArgs{ClientID: id, Owner: []byte("o"), Claim: ClaimPrevious}))
		r, err := w.s.Open(call, &OpenArgs{File: fkey(1), FH: []byte("fh"), Access: ShareRead, Claim: ClaimPrevious, Previous: DelegRead, Regular: true})
		ok(t, "reclaim", err)
		if r.Confirm || r.Deleg.Type != DelegRead || r.Deleg.Recall {
			t.Fatalf("%+v", r)
		}
		w.s.OwnerDone(call, true, nil, nil)
		if e := rec.recs["c"].epoch; e != rec.epoch {
			t.Fatal("not recorded in this epoch")
		}
		w.advance(testLease / 2)
		ok(t, "RENEW", w.s.Renew(call, id))
		if !w.s.InGrace() {
			t.Fatal("over early though a 4.0 client can't say that it is done")
		}
	}
	w.advance(testLease)
	w.s.InGrace()
	w.settle()
	w.advance(testLease)
	w.s.InGrace()
	w.settle()
	if w.s.InGrace() {
		t.Fatal("not over")
	}
}

// TestReclaimDelegationPathUnknown: the client gets its delegation back, to be returned at once.
func TestReclaimDelegationPathUnknown(t *testing.T) {
	rec := &memRecovery{}
	w := newWorld(t, func(c *Config) { c.Recovery = rec })
	w.ready41("c")
	w = w.restart()
	c := w.client41("c")
	w.s.SetCallbackPath(w.s.clients[c.id], false)
	o, err := c.open("o", fkey(1), ShareBoth, 0, reclaim, func(a *OpenArgs) { a.Previous = DelegWrite })
	ok(t, "reclaim", err)
	if o.Deleg.Type != DelegWrite || !o.Deleg.Recall {
		t.Fatalf("%+v", o.Deleg)
	}
}

// TestRecordFails: a client that can't be recorded works, and the log says what it will lose.
func TestRecordFails(t *testing.T) {
	rec := &memRecovery{}
	w := newWorld(t, func(c *Config) { c.Recovery = rec })
	rec.setFail(errDisk)
	c := w.ready41("c")
	_, err := c.open("o", fkey(1), ShareRead, 0)
	ok(t, "OPEN", err)
	if len(w.logs) != 1 || w.s.Counters().StorageErrors != 1 {
		t.Fatalf("log %q", w.logs)
	}
	rec.setFail(nil)
	if w.s.clients[c.id].recorded {
		t.Fatal("recorded")
	}
}

// TestLeavingClients: who leaves properly is not waited for.
func TestLeavingClients(t *testing.T) {
	rec := &memRecovery{}
	w := newWorld(t, func(c *Config) { c.Recovery = rec })
	a, b := w.ready41("a"), w.ready41("b")
	ok(t, "DESTROY_SESSION", w.s.DestroySession(w.call40(), a.sess))
	ok(t, "DESTROY_CLIENTID", w.s.DestroyClientID(w.call40(), a.id))
	if rec.has("a") || !rec.has("b") {
		t.Fatalf("recorded: %v", rec.recs)
	}
	// A restarted client is another, and recorded anew.
	r, err := w.exchange("b", 2, who(0), 0)
	ok(t, "EXCHANGE_ID", err)
	b2 := &cl41{w: w, id: r.ClientID, seq: r.Sequence, cred: who(0)}
	b2.session(attrs)
	if rec.has("b") {
		t.Fatal("the record outlived the client")
	}
	ok(t, "RECLAIM_COMPLETE", b2.do(func(call *Call) error { return w.s.ReclaimComplete(call, false) }))
	if !rec.has("b") {
		t.Fatal("not recorded")
	}
	_ = b
	// One that leaves during grace ends it when it was the last.
	w = w.restart()
	b3 := w.client41("b")
	ok(t, "DESTROY_SESSION", w.s.DestroySession(w.call40(), b3.sess))
	ok(t, "DESTROY_CLIENTID", w.s.DestroyClientID(w.call40(), b3.id))
	w.s.InGrace()
	w.settle()
	if w.s.InGrace() {
		t.Fatal("nobody is left to wait for")
	}
}

// TestNLMGrace: NLM reclaims in grace and only then.
func TestNLMGrace(t *testing.T) {
	w := newWorld(t, func(c *Config) { c.ForceGrace = true })
	a := &NLMLockArgs{File: fkey(1), Owner: LockOwner{Host: "h"}, Type: WriteLock}
	_, err := w.s.NLMLock(w.call40(), a)
	mustBe(t, "LOCK", err, ErrGrace)
	_, err = w.s.NLMTest(w.call40(), a)
	mustBe(t, "TEST", err, ErrGrace)
	a.Reclaim = true
	_, err = w.s.NLMLock(w.call40(), a)
	ok(t, "reclaim", err)
	w.s.EndGrace()
	_, err = w.s.NLMLock(w.call40(), a)
	mustBe(t, "reclaim", err, ErrNoGrace)
}
