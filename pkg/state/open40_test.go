// 4.0: owners, their sequence ids and replays.

package state

import (
	"testing"
	"time"
)

// open40 opens and confirms; the owner's seqid is next afterwards by two, or by one if it was confirmed.
func (w *world) open40(id ClientID, owner string, seqid uint32, f FileKey, access, deny uint8) Stateid {
	w.t.Helper()
	call := w.call40()
	ok(w.t, "OPEN", w.s.OpenBegin(call, &OpenBeginArgs{ClientID: id, Owner: []byte(owner), Seqid: seqid}))
	r, err := w.s.Open(call, &OpenArgs{File: f, FH: []byte("fh"), Access: access, Deny: deny, Regular: true, Want: WantNone})
	ok(w.t, "OPEN", err)
	w.s.OwnerDone(call, true, []byte("open reply"), []byte("fh"))
	if !r.Confirm {
		return r.Stateid
	}
	sid, err := w.s.OpenConfirm(call, f, r.Stateid, seqid+1)
	ok(w.t, "OPEN_CONFIRM", err)
	w.s.OwnerDone(call, true, []byte("confirm reply"), nil)
	return sid
}

func TestSeqid40(t *testing.T) {
	w := newWorld(t)
	id := w.client40("c")
	f := fkey(1)
	sid := w.open40(id, "o", 7, f, ShareRead, 0) // seqid 7, 8
	if sid.Seqid != 2 {
		t.Fatalf("stateid seqid %d after OPEN and OPEN_CONFIRM", sid.Seqid)
	}
	call := w.call40()

	// A second OPEN_CONFIRM (OPCF1).
	_, err := w.s.OpenConfirm(call, f, sid, 9)
	mustBe(t, "OPEN_CONFIRM twice", err, ErrBadStateid)
	w.s.OwnerDone(call, false, nil, nil)

	// An OPEN, and the same again: the first answer, with the file handle.
	ok(t, "OPEN", w.s.OpenBegin(call, &OpenBeginArgs{ClientID: id, Owner: []byte("o"), Seqid: 9}))
	r, err := w.s.Open(call, &OpenArgs{File: f, Access: ShareWrite, Want: WantNone})
	ok(t, "OPEN", err)
	w.s.OwnerDone(call, true, []byte("second"), []byte("fh2"))
	if !r.Upgraded || r.Confirm || r.Stateid.Other != sid.Other || r.Stateid.Seqid != 3 {
		t.Fatalf("upgrade: %+v", r)
	}
	mustBe(t, "OPEN again", w.s.OpenBegin(call, &OpenBeginArgs{ClientID: id, Owner: []byte("o"), Seqid: 9}), ErrReplay)
	if string(call.Replay()) != "second" || string(call.ReplayFH()) != "fh2" {
		t.Fatalf("replay %q, handle %q", call.Replay(), call.ReplayFH())
	}
	w.s.OwnerDone(call, true, nil, nil) // changes nothing
	mustBe(t, "and again", w.s.OpenBegin(call, &OpenBeginArgs{ClientID: id, Owner: []byte("o"), Seqid: 9}), ErrReplay)
	w.s.OwnerDone(call, false, nil, nil)
	mustBe(t, "too far", w.s.OpenBegin(call, &OpenBeginArgs{ClientID: id, Owner: []byte("o"), Seqid: 11}), ErrBadSeqid)
	w.s.OwnerDone(call, false, nil, nil)
	mustBe(t, "long ago", w.s.OpenBegin(call, &OpenBeginArgs{ClientID: id, Owner: []byte("o"), Seqid: 8}), ErrBadSeqid)
	w.s.OwnerDone(call, false, nil, nil)

	// A failure that counts (say NOENT) takes the seqid, and is replayed too.
	ok(t, "OPEN", w.s.OpenBegin(call, &OpenBeginArgs{ClientID: id, Owner: []byte("o"), Seqid: 10}))
	w.s.OwnerDone(call, true, []byte("noent"), nil)
	mustBe(t, "again", w.s.OpenBegin(call, &OpenBeginArgs{ClientID: id, Owner: []byte("o"), Seqid: 10}), ErrReplay)
	if string(call.Replay()) != "noent" {
		t.Fatalf("replay %q", call.Replay())
	}
	w.s.OwnerDone(call, false, nil, nil)
	// One that does not (RESOURCE) leaves it.
	ok(t, "OPEN", w.s.OpenBegin(call, &OpenBeginArgs{ClientID: id, Owner: []byte("o"), Seqid: 11}))
	w.s.OwnerDone(call, false, []byte("resource"), nil)

	// CLOSE with a bad seqid, an old stateid (which counts), then well, then sent again (CLOSE3, 5, 10).
	_, err = w.s.CloseFile(call, f, r.Stateid, 50)
	mustBe(t, "CLOSE, bad seqid", err, ErrBadSeqid)
	w.s.OwnerDone(call, false, nil, nil)
	_, err = w.s.CloseFile(call, f, sid, 11)
	mustBe(t, "CLOSE, old stateid", err, ErrOldStateid)
	w.s.OwnerDone(call, true, []byte("old"), nil)
	_, err = w.s.CloseFile(call, fkey(2), r.Stateid, 12)
	mustBe(t, "CLOSE, other file", err, ErrBadStateid)
	w.s.OwnerDone(call, false, nil, nil)
	c, err := w.s.CloseFile(call, f, r.Stateid, 12)
	ok(t, "CLOSE", err)
	w.s.OwnerDone(call, true, []byte("closed"), nil)
	if c.Seqid != r.Stateid.Seqid+1 {
		t.Fatalf("CLOSE gave seqid %d", c.Seqid)
	}
	for range 2 {
		_, err = w.s.CloseFile(call, f, r.Stateid, 12)
		mustBe(t, "CLOSE again", err, ErrReplay)
		if string(call.Replay()) != "closed" {
			t.Fatalf("replay %q", call.Replay())
		}
		w.s.OwnerDone(call, false, nil, nil)
	}
	_, err = w.s.CloseFile(call, f, r.Stateid, 13)
	mustBe(t, "CLOSE of a closed one (CLOSE11)", err, ErrBadStateid)
	w.s.OwnerDone(call, false, nil, nil)
	_, err = w.s.CheckIO(call, f, c, AccessRead)
	mustBe(t, "READ with a closed one", err, ErrBadStateid)
	w.check()

	// The next OPEN of the owner goes on from there and drops the closed one.
	w.open40(id, "o", 13, f, ShareRead, 0)
	if n := len(w.s.clients[id].stateids); n != 1 {
		t.Fatalf("%d stateids", n)
	}
	w.check()
}

// TestUnconfirmedOwner: an owner never confirmed is replaced whatever the seqid, with all it has.
func TestUnconfirmedOwner(t *testing.T) {
	w := newWorld(t)
	id := w.client40("c")
	call := w.call40()
	begin := func(seqid uint32) {
		ok(t, "OPEN", w.s.OpenBegin(call, &OpenBeginArgs{ClientID: id, Owner: []byte("o"), Seqid: seqid}))
	}
	begin(5)
	r, err := w.s.Open(call, &OpenArgs{File: fkey(1), Access: ShareBoth, Deny: ShareBoth})
	ok(t, "OPEN", err)
	w.s.OwnerDone(call, true, []byte("x"), nil)
	_, err = w.s.CheckIO(call, fkey(1), r.Stateid, AccessRead)
	mustBe(t, "READ before OPEN_CONFIRM", err, ErrBadStateid)
	for _, seqid := range []uint32{5, 99} {
		begin(seqid)
		r2, err := w.s.Open(call, &OpenArgs{File: fkey(1), Access: ShareBoth, Deny: ShareBoth})
		ok(t, "OPEN in its place", err)
		w.s.OwnerDone(call, true, []byte("x"), nil)
		if r2.Stateid.Other == r.Stateid.Other || !r2.Confirm {
			t.Fatalf("%+v", r2)
		}
		r = r2
		w.check()
	}
	_, err = w.s.OpenConfirm(call, fkey(1), r.Stateid, 50)
	mustBe(t, "OPEN_CONFIRM, bad seqid (OPCF4)", err, ErrBadSeqid)
	w.s.OwnerDone(call, false, nil, nil)
	_, err = w.s.OpenConfirm(call, fkey(1), Anonymous, 100)
	mustBe(t, "OPEN_CONFIRM, zero stateid (OPCF5)", err, ErrBadStateid)
	stale := r.Stateid
	copy(stale.Other[:], []byte{0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0})
	_, err = w.s.OpenConfirm(call, fkey(1), stale, 100)
	mustBe(t, "OPEN_CONFIRM, stale (OPCF6)", err, ErrStaleStateid)
}

// TestLock40 follows both owners' seqids through LOCK and LOCKU.
func TestLock40(t *testing.T) {
	w := newWorld(t)
	id := w.client40("c")
	f := fkey(1)
	sid := w.open40(id, "o", 0, f, ShareBoth, 0) // next open seqid 2
	call := w.call40()
	lock := func(openSeqid, lockSeqid uint32, owner string, off, n uint64) (Stateid, LockConflict, error) {
		return w.s.Lock(call, &LockArgs{File: f, Type: WriteLock, Offset: off, Length: n, New: true, OpenStateid: sid, OpenSeqid: openSeqid,
			ClientID: id, Owner: []byte(owner), LockSeqid: lockSeqid})
	}
	relock := func(s Stateid, seqid uint32, typ LockType, off, n uint64) (Stateid, LockConflict, error) {
		return w.s.Lock(call, &LockArgs{File: f, Type: typ, Offset: off, Length: n, LockStateid: s, LockSeqid: seqid})
	}
	done := func(bump bool, reply string) { w.s.OwnerDone(call, bump, []byte(reply), nil) }

	_, _, err := lock(50, 0, "l", 0, 10)
	mustBe(t, "bad open seqid (LOCK8b)", err, ErrBadSeqid)
	done(false, "")
	l, _, err := lock(2, 10, "l", 0, 10)
	ok(t, "LOCK", err)
	done(true, "lock reply")
	_, _, err = lock(2, 10, "l", 0, 10)
	mustBe(t, "LOCK again", err, ErrReplay)
	if string(call.Replay()) != "lock reply" {
		t.Fatalf("replay %q", call.Replay())
	}
	done(true, "")
	// The lock owner's next is 11.
	_, _, err = relock(l, 12, WriteLock, 50, 10)
	mustBe(t, "bad lock seqid (LOCK8a)", err, ErrBadSeqid)
	done(false, "")
	l2, _, err := relock(l, 11, WriteLock, 50, 10)
	ok(t, "LOCK with the lock stateid", err)
	done(true, "second")
	if l2.Other != l.Other || l2.Seqid != l.Seqid+1 {
		t.Fatalf("%v then %v", l, l2)
	}
	_, _, err = relock(l, 12, WriteLock, 100, 10)
	mustBe(t, "old lock stateid (LOCK9a)", err, ErrOldStateid)
	done(true, "old")
	// A second lock owner, denied: it is forgotten, so that it may begin with any seqid again.
	for range 2 {
		_, c, err := lock(3, 77, "m", 5, 1)
		mustBe(t, "conflict", err, ErrDenied)
		if c.Owner != (LockOwner{Client: id, Owner: "l"}) || c.Start != 0 || c.End != 9 || c.Type != WriteLock {
			t.Fatalf("conflict %+v", c)
		}
		done(false, "") // as if it did not count
	}
	// By an open stateid with the seqid of an existing lock owner.
	_, _, err = lock(3, 0, "l", 200, 1)
	mustBe(t, "new_lock_owner for one that exists, wrong seqid", err, ErrBadSeqid)
	done(false, "")
	_, _, err = lock(3, 13, "l", 200, 1)
	ok(t, "the right one", err)
	done(true, "x")
	w.check()

	u, err := w.s.Unlock(call, &UnlockArgs{File: f, Seqid: 2, Stateid: Stateid{l.Seqid + 2, l.Other}, Offset: 0, Length: 1})
	mustBe(t, "LOCKU, bad seqid", err, ErrBadSeqid)
	done(false, "")
	_ = u
	mustBe(t, "RELEASE_LOCKOWNER (RLOWN3)", w.s.ReleaseLockOwner(call, id, []byte("l")), ErrLocksHeld)
	u, err = w.s.Unlock(call, &UnlockArgs{File: f, Seqid: 14, Stateid: Stateid{l.Seqid + 2, l.Other}, Offset: 0, Length: ^uint64(0)})
	ok(t, "LOCKU", err)
	done(true, "unlocked")
	_, err = w.s.Unlock(call, &UnlockArgs{File: f, Seqid: 14, Stateid: Stateid{l.Seqid + 2, l.Other}, Offset: 0, Length: ^uint64(0)})
	mustBe(t, "LOCKU again", err, ErrReplay)
	done(true, "")
	_, _, err = relock(Stateid{l.Seqid + 3, l.Other}, 14, WriteLock, 0, 1)
	mustBe(t, "LOCK with LOCKU's seqid (LKU6c)", err, ErrBadSeqid)
	done(false, "")
	ok(t, "RELEASE_LOCKOWNER", w.s.ReleaseLockOwner(call, id, []byte("l")))
	ok(t, "RELEASE_LOCKOWNER of nobody", w.s.ReleaseLockOwner(call, id, []byte("nobody")))
	_, _, err = relock(u, 15, WriteLock, 0, 1)
	mustBe(t, "LOCK of a released owner", err, ErrBadStateid)
	mustBe(t, "RELEASE_LOCKOWNER, stale", w.s.ReleaseLockOwner(call, 0, []byte("l")), ErrStaleClientID)
	w.check()

	// CLOSE with locks held lets them go (LOCKHELD).
	_, _, err = lock(4, 0, "l", 0, 10)
	ok(t, "LOCK", err)
	done(true, "x")
	_, err = w.s.CloseFile(call, f, sid, 5)
	ok(t, "CLOSE", err)
	done(true, "x")
	if len(w.s.Locks()) != 0 {
		t.Fatal("CLOSE left a lock")
	}
}

// TestTurn: a second request of an owner waits for the first, or says that it would have to.
func TestTurn(t *testing.T) {
	w := newWorld(t)
	id := w.client40("c")
	w.open40(id, "o", 0, fkey(1), ShareRead, 0)
	a, b := w.call40(), w.call40()
	ok(t, "OPEN", w.s.OpenBegin(a, &OpenBeginArgs{ClientID: id, Owner: []byte("o"), Seqid: 2}))
	b.MayBlock = false
	mustBe(t, "second", w.s.OpenBegin(b, &OpenBeginArgs{ClientID: id, Owner: []byte("o"), Seqid: 3}), ErrWouldBlock)
	b.MayBlock = true
	got := make(chan error)
	go func() {
		err := w.s.OpenBegin(b, &OpenBeginArgs{ClientID: id, Owner: []byte("o"), Seqid: 3})
		w.s.OwnerDone(b, false, nil, nil)
		got <- err
	}()
	select {
	case err := <-got:
		t.Fatalf("did not wait: %v", err)
	case <-time.After(10 * time.Millisecond):
	}
	w.s.OwnerDone(a, true, []byte("x"), nil)
	ok(t, "second, after the first", <-got)
}

// TestIdleOwners: 4.0 owners with nothing open go after a lease period, and when there are too many.
func TestIdleOwners(t *testing.T) {
	w := newWorld(t, func(c *Config) { c.MaxOwners = 4 })
	id := w.client40("c")
	call := w.call40()
	for i := range 20 {
		sid := w.open40(id, string(rune('a'+i)), 0, fkey(i), ShareRead, 0)
		_, err := w.s.CloseFile(call, fkey(i), sid, 2)
		ok(t, "CLOSE", err)
		w.s.OwnerDone(call, true, nil, nil)
		w.advance(time.Second)
	}
	if n := len(w.s.clients[id].openOwners); n > 4 {
		t.Fatalf("%d owners", n)
	}
	w.check()
	w.advance(testLease / 2)
	ok(t, "RENEW", w.s.Renew(call, id))
	w.advance(testLease/2 + testLease/8)
	w.s.Tick()
	if n := len(w.s.clients[id].openOwners); n != 0 {
		t.Fatalf("%d idle owners after a lease period", n)
	}
	w.check()
	for i := range 4 {
		w.open40(id, string(rune('a'+i)), 0, fkey(i), ShareRead, 0)
	}
	mustBe(t, "a fifth owner with four open", w.s.OpenBegin(call, &OpenBeginArgs{ClientID: id, Owner: []byte("z")}), ErrResource)
}
