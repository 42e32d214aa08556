// Byte-range locks of v4 and NLM, and of local processes.

package state

import (
	"fmt"
	"testing"
	"time"
)

func withLocal(c *Config) { c.Local = &fakeLocal{} }

func TestLockRanges(t *testing.T) {
	w := newWorld(t, withLocal)
	c := w.ready41("c")
	f := fkey(1)
	o, err := c.open("o", f, ShareBoth, 0)
	ok(t, "OPEN", err)
	const m = ^uint64(0)
	list := func() (s string) {
		for _, l := range w.s.Locks() {
			s += fmt.Sprintf("%s%d:%d-%d ", l.Owner.Owner, l.Type, l.Start, l.End)
		}
		return s
	}
	for i, x := range []struct {
		owner  string
		typ    LockType // 0: LOCKU
		off, n uint64
		err    error
		after  string
	}{
		{"a", WriteLock, 25, 75, nil, "a2:25-99 "},
		{"a", WriteLock, 50, 75, nil, "a2:25-124 "},                  // LOCKMRG
		{"a", ReadLock, 50, 10, nil, "a2:25-49 a1:50-59 a2:60-124 "}, // downgrade inside
		{"b", ReadLock, 55, 5, nil, "a2:25-49 a1:50-59 b1:55-59 a2:60-124 "},
		{"a", WriteLock, 50, 10, ErrDenied, "a2:25-49 a1:50-59 b1:55-59 a2:60-124 "},
		{"b", 0, 0, m, nil, "a2:25-49 a1:50-59 a2:60-124 "},
		{"a", WriteLock, 50, 10, nil, "a2:25-124 "},  // upgrade, joined
		{"a", 0, 50, 25, nil, "a2:25-49 a2:75-124 "}, // LKUSPLIT
		{"a", 0, 0, 10, nil, "a2:25-49 a2:75-124 "},  // LKUNONE
		{"a", 0, 40, 40, nil, "a2:25-39 a2:80-124 "}, // LKUOVER
		{"b", WriteLock, 200, m, nil, "a2:25-39 a2:80-124 b2:200-18446744073709551615 "},
		{"a", ReadLock, m, 1, ErrDenied, "a2:25-39 a2:80-124 b2:200-18446744073709551615 "},
		{"a", ReadLock, 125, 75, nil, "a2:25-39 a2:80-124 a1:125-199 b2:200-18446744073709551615 "},
		{"a", ReadLock, 0, 0, ErrInval, ""},
		{"a", ReadLock, 100, m - 1, ErrInval, ""},
		{"a", 0, 1, 0, ErrInval, ""},
		{"a", 0, 100, m - 1, ErrInval, ""},
		{"a", 0, 0, m, nil, "b2:200-18446744073709551615 "},
	} {
		what := fmt.Sprintf("step %d", i)
		if x.typ == 0 {
			mustBe(t, what, c.unlock(f, w.lockStateid(c, x.owner), x.off, x.n), x.err)
		} else {
			_, _, err := c.lock(o, x.owner, x.typ, x.off, x.n)
			mustBe(t, what, err, x.err)
		}
		if got := list(); x.after != "" && got != x.after {
			t.Fatalf("%s: %q, want %q", what, got, x.after)
		}
		w.check()
	}
}

// lockStateid gives a lock owner's only stateid.
func (w *world) lockStateid(c *cl41, owner string) Stateid {
	for _, l := range w.s.clients[c.id].lockOwners[owner].locks {
		return l.stateid()
	}
	w.t.Fatalf("no lock owner %q", owner)
	return Stateid{}
}

func TestLockModesAndConflicts(t *testing.T) {
	w := newWorld(t, withLocal)
	c, d := w.ready41("c"), w.ready41("d")
	f := fkey(1)
	r, err := c.open("r", f, ShareRead, 0)
	ok(t, "OPEN", err)
	wr, err := c.open("w", f, ShareWrite, 0)
	ok(t, "OPEN", err)
	_, _, err = c.lock(r, "l", WriteLock, 0, 1)
	mustBe(t, "write lock on a reader (LOCK4)", err, ErrOpenMode)
	_, _, err = c.lock(wr, "l", ReadLock, 0, 1)
	mustBe(t, "read lock on a writer", err, ErrOpenMode)
	if n := len(w.s.clients[c.id].lockOwners); n != 0 {
		t.Fatal("a LOCK that failed left its owner")
	}
	_, _, err = c.lock(r, "l", ReadLock, 10, 10)
	ok(t, "LOCK", err)
	do, err := d.open("o", f, ShareBoth, 0)
	ok(t, "OPEN", err)
	_, lc, err := d.lock(do, "m", WriteLock, 0, 100)
	mustBe(t, "conflict", err, ErrDenied)
	if lc != (LockConflict{Owner: LockOwner{Client: c.id, Owner: "l"}, Type: ReadLock, Start: 10, End: 19}) || lc.Length() != 10 {
		t.Fatalf("%+v", lc)
	}
	test := func(x *cl41, owner string, typ LockType, off, n uint64) (lc LockConflict, err error) {
		err = x.do(func(call *Call) error {
			var err error
			lc, err = w.s.TestLock(call, &TestLockArgs{File: f, Type: typ, Offset: off, Length: n, Owner: []byte(owner)})
			return err
		})
		return lc, err
	}
	_, err = test(d, "m", WriteLock, 19, 1)
	mustBe(t, "LOCKT", err, ErrDenied)
	_, err = test(d, "m", ReadLock, 19, 1)
	ok(t, "LOCKT beside a reader", err)
	_, err = test(c, "l", WriteLock, 19, 1)
	ok(t, "LOCKT by the owner (LKTOVER)", err)
	_, err = test(d, "l", WriteLock, 19, 1)
	mustBe(t, "LOCKT by the same name of another client", err, ErrDenied)
	_, err = test(d, "m", WriteLock, 0, 0)
	mustBe(t, "LOCKT of nothing", err, ErrInval)

	// Wrong stateids.
	badlock := func(a LockArgs) error {
		return d.do(func(call *Call) error {
			a.File = f
			a.Type = ReadLock
			a.Length = 1
			_, _, err := w.s.Lock(call, &a)
			return err
		})
	}
	mustBe(t, "lock stateid that is an open's", badlock(LockArgs{LockStateid: do.Stateid}), ErrBadStateid)
	mustBe(t, "open stateid of another client", badlock(LockArgs{New: true, OpenStateid: wr.Stateid, Owner: []byte("x")}), ErrBadStateid)
	mustBe(t, "long owner", badlock(LockArgs{New: true, OpenStateid: do.Stateid, Owner: make([]byte, MaxOwner+1)}), ErrInval)
	mustBe(t, "special", badlock(LockArgs{New: true, OpenStateid: Anonymous, Owner: []byte("x")}), ErrBadStateid)
	mustBe(t, "reclaim without grace", badlock(LockArgs{New: true, OpenStateid: do.Stateid, Owner: []byte("x"), Reclaim: true}), ErrNoGrace)
	w.check()
}

// TestOneOwnerTwoOpens: a lock owner that comes by two opens of a file is one owner, with a stateid for each.
func TestOneOwnerTwoOpens(t *testing.T) {
	w := newWorld(t, withLocal)
	c := w.ready41("c")
	f := fkey(1)
	o1, err := c.open("o1", f, ShareBoth, 0)
	ok(t, "OPEN", err)
	o2, err := c.open("o2", f, ShareBoth, 0)
	ok(t, "OPEN", err)
	l1, _, err := c.lock(o1, "l", WriteLock, 0, 10)
	ok(t, "LOCK", err)
	l2, _, err := c.lock(o2, "l", WriteLock, 5, 10)
	ok(t, "LOCK by the other open", err)
	if l1.Other == l2.Other {
		t.Fatal("one stateid for two opens")
	}
	if n := len(w.s.Locks()); n != 1 {
		t.Fatalf("%d locks, want one merged", n)
	}
	w.check()
	ok(t, "CLOSE", c.close(o1)) // lets all go that the owner has on the file, as POSIX and Linux do
	if n := len(w.s.Locks()); n != 0 {
		t.Fatalf("%d locks after CLOSE", n)
	}
	w.check()
	ok(t, "CLOSE", c.close(o2))
}

// TestLocalLocks: locks of local processes count, and they see ours.
func TestLocalLocks(t *testing.T) {
	local := &fakeLocal{}
	w := newWorld(t, func(c *Config) { c.Local = local })
	c := w.ready41("c")
	f := fkey(1)
	o, err := c.open("o", f, ShareBoth, 0)
	ok(t, "OPEN", err)
	ok(t, "local", local.Lock(f, localProcess, WriteLock, 100, 199))
	_, lc, err := c.lock(o, "l", ReadLock, 0, 101)
	mustBe(t, "LOCK", err, ErrDenied)
	if !lc.Local || lc.Start != 100 || lc.End != 199 || lc.Pid != 7 {
		t.Fatalf("%+v", lc)
	}
	ok(t, "LOCKT beside it", c.do(func(call *Call) error {
		_, err := w.s.TestLock(call, &TestLockArgs{File: f, Type: WriteLock, Offset: 0, Length: 100, Owner: []byte("l")})
		return err
	}))
	_, _, err = c.lock(o, "l", WriteLock, 0, 100)
	ok(t, "LOCK beside it", err)
	if err := local.Lock(f, localProcess, ReadLock, 99, 99); err == nil {
		t.Fatal("a local process got what a client has")
	}
	// An NLM waiter for the local lock gets it when Tick finds it free.
	granted := 0
	a := &NLMLockArgs{File: f, Owner: LockOwner{Host: "h", Svid: 1}, Type: WriteLock, Offset: 150, Length: 1, Wait: &Waiter{Granted: func(*Waiter) { granted++ }}}
	_, err = w.s.NLMLock(w.call40(), a)
	mustBe(t, "NLM", err, ErrBlocked)
	w.s.Tick()
	local.Unlock(f, localProcess, 0, ^uint64(0))
	if granted != 0 {
		t.Fatal("granted too early")
	}
	w.s.Tick()
	if granted != 1 {
		t.Fatal("not granted")
	}
	ok(t, "NLM unlock", w.s.NLMUnlock(w.call40(), a))
}

// TestNLM: queue, grant, cancel, deadlock, a host that goes, and both protocols on one file.
func TestNLM(t *testing.T) {
	w := newWorld(t, withLocal)
	c := w.ready41("c")
	f := fkey(1)
	call := w.call40()
	var granted []string
	args := func(host string, svid int32, typ LockType, off, n uint64, wait bool) *NLMLockArgs {
		a := &NLMLockArgs{File: f, Owner: LockOwner{Host: host, Svid: svid, Owner: "oh"}, Type: typ, Offset: off, Length: n}
		if wait {
			a.Wait = &Waiter{Granted: func(w *Waiter) { granted = append(granted, fmt.Sprint(w.Owner().Host, w.Owner().Svid)) }}
		}
		return a
	}
	nlm := func(a *NLMLockArgs) error { _, err := w.s.NLMLock(call, a); return err }
	ok(t, "LOCK", nlm(args("h", 1, WriteLock, 0, 10, false)))
	ok(t, "the same again", nlm(args("h", 1, WriteLock, 0, 10, false)))
	mustBe(t, "another process", nlm(args("h", 2, ReadLock, 9, 1, false)), ErrDenied)
	ok(t, "another host, beside it", nlm(args("g", 1, ReadLock, 10, 0, false))) // to the end

	o, err := c.open("o", f, ShareBoth, 0)
	ok(t, "OPEN", err)
	_, lc, err := c.lock(o, "l", WriteLock, 5, 1)
	mustBe(t, "v4", err, ErrDenied)
	if lc.Owner != (LockOwner{Host: "h", Svid: 1, Owner: "oh"}) {
		t.Fatalf("%+v", lc)
	}
	lc, err = w.s.NLMTest(call, args("x", 1, WriteLock, 1000, 1, false))
	mustBe(t, "TEST", err, ErrDenied)
	if lc.Start != 10 || lc.End != ^uint64(0) {
		t.Fatalf("%+v", lc)
	}
	// Three wait: first come, first served; what cannot be granted yet does not hold up others.
	mustBe(t, "first", nlm(args("a", 1, WriteLock, 0, 5, true)), ErrBlocked)
	mustBe(t, "first again", nlm(args("a", 1, WriteLock, 0, 5, true)), ErrBlocked)
	mustBe(t, "second", nlm(args("b", 1, WriteLock, 4, 2, true)), ErrBlocked)
	mustBe(t, "third", nlm(args("d", 1, WriteLock, 6, 2, true)), ErrBlocked)
	w.check()
	ok(t, "UNLOCK", w.s.NLMUnlock(call, args("h", 1, 0, 0, 10, false)))
	if fmt.Sprint(granted) != "[a1 d1]" {
		t.Fatalf("granted %v", granted)
	}
	mustBe(t, "CANCEL of one granted", w.s.NLMCancel(call, args("a", 1, WriteLock, 0, 5, false)), ErrNoEnt)
	ok(t, "CANCEL", w.s.NLMCancel(call, args("b", 1, WriteLock, 4, 2, false)))
	w.check()
	// A host goes: its locks and its places in queues.
	mustBe(t, "wait", nlm(args("b", 1, WriteLock, 0, 1, true)), ErrBlocked)
	mustBe(t, "wait", nlm(args("e", 1, WriteLock, 0, 1, true)), ErrBlocked)
	w.s.NLMRelease("b")
	w.s.NLMRelease("a")
	if fmt.Sprint(granted) != "[a1 d1 e1]" {
		t.Fatalf("granted %v", granted)
	}
	w.check()
	// Deadlock: e holds 0 and waits for 6, d holds 6 and wants 0.
	mustBe(t, "e waits for d", nlm(args("e", 1, WriteLock, 6, 1, true)), ErrBlocked)
	mustBe(t, "d would wait for e", nlm(args("d", 1, WriteLock, 0, 1, true)), ErrDeadlock)
	for _, h := range []string{"d", "e", "g"} {
		w.s.NLMRelease(h)
	}
	if n := len(w.s.Locks()); n != 0 {
		t.Fatalf("%d locks left", n)
	}
	w.check()
}

// TestNLMWaitsForV4: a queued NLM request gets what a v4 client lets go, by LOCKU, CLOSE, or its end.
func TestNLMWaitsForV4(t *testing.T) {
	for _, how := range []string{"unlock", "close", "expire", "courtesy"} {
		w := newWorld(t, withLocal)
		c := w.ready41("c")
		o, err := c.open("o", fkey(1), ShareBoth, 0)
		ok(t, "OPEN", err)
		l, _, err := c.lock(o, "l", WriteLock, 0, 10)
		ok(t, "LOCK", err)
		granted := 0
		a := &NLMLockArgs{File: o.key, Owner: LockOwner{Host: "h"}, Type: WriteLock, Wait: &Waiter{Granted: func(*Waiter) { granted++ }}}
		if how == "courtesy" {
			w.advance(testLease + time.Second)
			_, err = w.s.NLMLock(w.call40(), a)
			ok(t, "NLM against an expired client", err)
			w.check()
			continue
		}
		_, err = w.s.NLMLock(w.call40(), a)
		mustBe(t, "NLM", err, ErrBlocked)
		switch how {
		case "unlock":
			ok(t, how, c.unlock(o.key, l, 0, 10))
		case "close":
			ok(t, how, c.close(o))
		case "expire":
			ok(t, how, w.s.ExpireClient(c.id))
		}
		if granted != 1 {
			t.Fatalf("%s: granted %d times", how, granted)
		}
		w.check()
	}
}

func TestWaiterLimit(t *testing.T) {
	w := newWorld(t, func(c *Config) { c.MaxWaiters = 3 })
	call := w.call40()
	_, err := w.s.NLMLock(call, &NLMLockArgs{File: fkey(1), Owner: LockOwner{Host: "h"}, Type: WriteLock})
	ok(t, "LOCK", err)
	for i := range 5 {
		_, err = w.s.NLMLock(call, &NLMLockArgs{File: fkey(1), Owner: LockOwner{Host: "g", Svid: int32(i)}, Type: WriteLock, Wait: &Waiter{}})
		want := error(ErrBlocked)
		if i >= 3 {
			want = ErrResource
		}
		mustBe(t, "wait", err, want)
	}
}

// TestNotifyLock: a v4.1 client that asked for a blocking lock is told when to ask again, once, and not for ever.
func TestNotifyLock(t *testing.T) {
	w := newWorld(t)
	c, d := w.ready41("c"), w.ready41("d")
	f := fkey(1)
	oc, err := c.open("o", f, ShareBoth, 0)
	ok(t, "OPEN", err)
	od, err := d.open("o", f, ShareBoth, 0)
	ok(t, "OPEN", err)
	l, _, err := c.lock(oc, "l", WriteLock, 0, 10)
	ok(t, "LOCK", err)
	blocking := func() error {
		return d.do(func(call *Call) error {
			_, _, err := w.s.Lock(call, &LockArgs{File: f, Type: WriteLock, Blocking: true, Offset: 5, Length: 1, New: true, OpenStateid: od.Stateid, Owner: []byte("m")})
			return err
		})
	}
	mustBe(t, "LOCK", blocking(), ErrDenied)
	mustBe(t, "and again", blocking(), ErrDenied)
	ok(t, "LOCKU of another part", c.unlock(f, l, 0, 5))
	if len(w.notify) != 0 {
		t.Fatal("told too early")
	}
	ok(t, "LOCKU", c.unlock(f, l, 5, 5))
	if fmt.Sprint(w.notify) != "[m]" {
		t.Fatalf("told %v", w.notify)
	}
	_, _, err = c.lock(oc, "l", WriteLock, 0, 10)
	ok(t, "LOCK", err)
	mustBe(t, "LOCK", blocking(), ErrDenied)
	w.advance(testLease + time.Second)
	w.s.Tick()
	c.do(func(*Call) error { return nil })
	ok(t, "LOCKU", c.unlock(f, l, 0, 10))
	if len(w.notify) != 1 {
		t.Fatal("told after it stopped asking")
	}
}

// rival is a client that has a file open of which another, c, has bytes 0 to 9 locked for writing.
func (w *world) rival() (d *cl41, f FileKey, od opened) {
	w.t.Helper()
	c := w.ready41("c")
	d, f = w.ready41("d"), fkey(1)
	oc, err := c.open("o", f, ShareBoth, 0)
	ok(w.t, "OPEN", err)
	od, err = d.open("o", f, ShareBoth, 0)
	ok(w.t, "OPEN", err)
	_, _, err = c.lock(oc, "l", WriteLock, 0, 10)
	ok(w.t, "LOCK", err)
	return d, f, od
}

// TestNotifyLostHolder: who waits to be told of a lock is told when the holder's lease runs out, and asks nothing meanwhile.
func TestNotifyLostHolder(t *testing.T) {
	w := newWorld(t)
	d, f, od := w.rival()
	w.advance(testLease / 2)
	mustBe(t, "LOCK", d.do(func(call *Call) error {
		_, _, err := w.s.Lock(call, &LockArgs{File: f, Type: WriteLock, Blocking: true, Length: 1, New: true, OpenStateid: od.Stateid, Owner: []byte("m")})
		return err
	}), ErrDenied)
	w.s.Tick()
	w.settle()
	if len(w.notify) != 0 {
		t.Fatal("told while the holder lived")
	}
	w.advance(testLease/2 + time.Second)
	ok(t, "renew", d.do(func(*Call) error { return nil }))
	w.s.Tick()
	w.settle()
	if fmt.Sprint(w.notify) != "[m]" {
		t.Fatalf("told %v", w.notify)
	}
}

// TestCourtesyLocks: a lock of an expired client gives way (COUR2, LOCK13), and a LOCK that raced with its client's end
// leaves nothing.
func TestCourtesyLocks(t *testing.T) {
	w := newWorld(t, withLocal)
	d, f, od := w.rival()
	w.advance(testLease / 2)
	ok(t, "renew", d.do(func(*Call) error { return nil }))
	w.advance(testLease/2 + time.Second)
	ok(t, "LOCKT", d.do(func(call *Call) error {
		_, err := w.s.TestLock(call, &TestLockArgs{File: f, Type: WriteLock, Length: 1, Owner: []byte("m")})
		return err
	}))
	_, _, err := d.lock(od, "m", WriteLock, 0, 10)
	ok(t, "LOCK", err)
	w.check()
	// Destroyed in the middle of a LOCK: the range goes.
	call, _, err := d.begin(0)
	ok(t, "SEQUENCE", err)
	l, made, err := w.s.lockStateFor(call, &LockArgs{File: f, Type: WriteLock, New: true, OpenStateid: od.Stateid, Owner: []byte("m")})
	ok(t, "LOCK", err)
	if made || l.busy != 1 {
		t.Fatalf("made %v, busy %d", made, l.busy)
	}
	mustBe(t, "CLOSE beside a LOCK", d.close2(1, od), ErrDelay)
	l.busy--
	w.s.SequenceDone(call, nil)
}

// close2 closes by another slot.
func (c *cl41) close2(slot uint32, o opened) error {
	call, _, err := c.begin(slot)
	if err != nil {
		return err
	}
	defer c.w.s.SequenceDone(call, nil)
	_, err = c.w.s.CloseFile(call, o.key, Stateid{0, o.Stateid.Other}, 0)
	return err
}

// TestGrantedCallsBack: whoever is granted a lock may use the State from within, also when that ends another client.
func TestGrantedCallsBack(t *testing.T) {
	w := newWorld(t, func(c *Config) { c.Recovery = &memRecovery{} })
	a, b := w.ready41("a"), w.ready41("b")
	oa, err := a.open("o", fkey(1), ShareBoth, 0)
	ok(t, "OPEN", err)
	ob, err := b.open("o", fkey(2), ShareBoth, 0)
	ok(t, "OPEN", err)
	_, _, err = a.lock(oa, "l", WriteLock, 0, 10)
	ok(t, "LOCK", err)
	_, _, err = b.lock(ob, "l", WriteLock, 0, 10)
	ok(t, "LOCK", err)
	done := false
	wait := &NLMLockArgs{File: fkey(1), Owner: LockOwner{Host: "h"}, Type: WriteLock, Wait: &Waiter{Granted: func(*Waiter) {
		_, err := w.s.NLMLock(w.call40(), &NLMLockArgs{File: fkey(2), Owner: LockOwner{Host: "h"}, Type: WriteLock})
		ok(t, "NLM from within", err)
		done = true
	}}}
	_, err = w.s.NLMLock(w.call40(), wait)
	mustBe(t, "NLM", err, ErrBlocked)
	w.advance(testLease + time.Second)
	_, err = w.s.NLMLock(w.call40(), &NLMLockArgs{File: fkey(1), Owner: LockOwner{Host: "g"}, Type: WriteLock})
	mustBe(t, "another, which ends the holder and comes after the one that waited", err, ErrDenied)
	if !done {
		t.Fatal("not granted")
	}
}
