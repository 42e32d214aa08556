// Client records, case by case.

package state

import (
	"runtime"
	"testing"
	"time"
)

func (w *world) setclientid(name string, verf byte, cred Principal) (SetClientIDRes, error) {
	return w.s.SetClientID(&Call{MayBlock: true, Principal: cred, Conn: 1}, &SetClientIDArgs{Verifier: Verifier{verf}, ID: []byte(name), Callback: CallbackTarget{Program: uint32(verf)}})
}

func (w *world) confirm40(r SetClientIDRes, cred Principal) error {
	return w.s.SetClientIDConfirm(&Call{MayBlock: true, Principal: cred, Conn: 1}, r.ClientID, r.Confirm)
}

// client40 makes a confirmed 4.0 client with a working callback path.
func (w *world) client40(name string) ClientID {
	w.t.Helper()
	r, err := w.setclientid(name, 1, who(0))
	ok(w.t, "SETCLIENTID", err)
	ok(w.t, "SETCLIENTID_CONFIRM", w.confirm40(r, who(0)))
	w.s.SetCallbackPath(w.s.clients[r.ClientID], true)
	return r.ClientID
}

// TestSetClientIDCases runs through RFC 7530 16.33.5 and 16.34.5; the numbers are pynfs's and the RFC's.
func TestSetClientIDCases(t *testing.T) {
	w := newWorld(t)
	// A new client; every SETCLIENTID replaces what is unconfirmed, with another id and verifier (CID4e).
	a, err := w.setclientid("a", 1, who(0))
	ok(t, "new", err)
	b, err := w.setclientid("a", 1, who(0))
	ok(t, "again", err)
	if a.ClientID == b.ClientID || a.Confirm == b.Confirm {
		t.Fatal("an unconfirmed record was not replaced")
	}
	mustBe(t, "confirm the replaced one", w.confirm40(a, who(0)), ErrStaleClientID)
	mustBe(t, "wrong verifier", w.confirm40(SetClientIDRes{ClientID: b.ClientID, Confirm: Verifier{9}}, who(0)), ErrStaleClientID)
	mustBe(t, "other principal", w.confirm40(b, who(1)), ErrClientInUse)
	ok(t, "confirm", w.confirm40(b, who(0)))
	ok(t, "confirm again", w.confirm40(b, who(0)))
	w.check()

	// A callback update: same id, new confirm verifier, state kept (CID4a).
	o := w.open40(b.ClientID, "o", 0, fkey(1), ShareRead, 0)
	u, err := w.setclientid("a", 1, who(0))
	ok(t, "update", err)
	if u.ClientID != b.ClientID || u.Confirm == b.Confirm {
		t.Fatal("a callback update must keep the client id and change the verifier")
	}
	ok(t, "the old confirm, sent again", w.confirm40(b, who(0)))
	ok(t, "confirm the update", w.confirm40(u, who(0)))
	ok(t, "and again", w.confirm40(u, who(0)))
	mustBe(t, "the old confirm is history", w.confirm40(b, who(0)), ErrStaleClientID)
	if _, err := w.s.CheckIO(w.call40(), fkey(1), o, AccessRead); err != nil {
		t.Fatalf("state after a callback update: %v", err)
	}
	w.check()

	// A restart: a new id, the old state lives until it is confirmed (CID1, CID4b).
	r, err := w.setclientid("a", 2, who(0))
	ok(t, "restart", err)
	if r.ClientID == b.ClientID {
		t.Fatal("a restarted client must get another id")
	}
	r2, err := w.setclientid("a", 2, who(0))
	ok(t, "restart again", err)
	if r2.ClientID == r.ClientID {
		t.Fatal("CID4c: the unconfirmed record must be replaced")
	}
	ok(t, "old client still there", w.s.Renew(w.call40(), b.ClientID))
	ok(t, "confirm the restart", w.confirm40(r2, who(0)))
	mustBe(t, "old id", w.s.Renew(w.call40(), b.ClientID), ErrExpired)
	_, err = w.s.CheckIO(w.call40(), fkey(1), o, AccessRead)
	mustBe(t, "old stateid", err, ErrExpired)
	mustBe(t, "id 0", w.s.Renew(w.call40(), 0), ErrStaleClientID)
	w.check()

	// Another principal: refused while there is state (CID2a), welcome otherwise (CID2).
	_, err = w.setclientid("a", 2, who(7))
	ok(t, "other principal, no state", err)
	w.open40(r2.ClientID, "o", 0, fkey(1), ShareRead, 0)
	x, err := w.setclientid("a", 2, who(7))
	mustBe(t, "other principal, state", err, ErrClientInUse)
	if x.Holder.Program != 2 {
		t.Fatal("CLID_INUSE must name the holder's address")
	}
	w.advance(testLease + time.Second)
	x, err = w.setclientid("a", 2, who(7))
	ok(t, "other principal, expired", err)
	ok(t, "and confirmed", w.confirm40(x, who(7)))
	mustBe(t, "whose client is gone", w.s.Renew(w.call40(), r2.ClientID), ErrExpired)
}

// TestUnconfirmed40 makes sure that an unconfirmed id is good for nothing, and goes after a lease period.
func TestUnconfirmed40(t *testing.T) {
	w := newWorld(t)
	r, err := w.setclientid("a", 1, who(0))
	ok(t, "SETCLIENTID", err)
	mustBe(t, "RENEW", w.s.Renew(w.call40(), r.ClientID), ErrExpired)
	mustBe(t, "OPEN", w.s.OpenBegin(w.call40(), &OpenBeginArgs{ClientID: r.ClientID, Owner: []byte("o")}), ErrExpired)
	w.advance(testLease + time.Second)
	w.s.Tick()
	mustBe(t, "confirm too late", w.confirm40(r, who(0)), ErrStaleClientID)
	if n := w.s.Counters().Unconfirmed; n != 0 {
		t.Fatalf("%d unconfirmed records left", n)
	}
}

// TestExchangeIDCases runs all of confirmed or not, update or not, same verifier or not, same principal or not (RFC 8881
// 18.35.4; pynfs EID5a-EID6h).
func TestExchangeIDCases(t *testing.T) {
	const (
		same  = iota // the same client id
		fresh        // another
	)
	for _, c := range []struct {
		name              string
		confirmed, update bool
		verf, cred        bool // the same
		state             bool // the old record has state
		want              error
		id                int
	}{
		{name: "4 000", want: nil, id: fresh},
		{name: "4 001", cred: true, id: fresh},
		{name: "4 010", verf: true, id: fresh},
		{name: "4 011", verf: true, cred: true, id: fresh},
		{name: "3 100", confirmed: true, id: fresh},
		{name: "3 100 state", confirmed: true, state: true, want: ErrClientInUse},
		{name: "5 101", confirmed: true, state: true, cred: true, id: fresh},
		{name: "3 110", confirmed: true, verf: true, id: fresh},
		{name: "3 110 state", confirmed: true, state: true, verf: true, want: ErrClientInUse},
		{name: "2 111", confirmed: true, state: true, verf: true, cred: true, id: same},
		{name: "7 update 000", update: true, want: ErrNoEnt},
		{name: "7 update 011", update: true, verf: true, cred: true, want: ErrNoEnt},
		{name: "8 update 100", confirmed: true, update: true, want: ErrPerm},
		{name: "8 update 101", confirmed: true, update: true, cred: true, want: ErrNotSame},
		{name: "9 update 110", confirmed: true, update: true, verf: true, want: ErrPerm},
		{name: "6 update 111", confirmed: true, update: true, verf: true, cred: true, id: same},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t)
			old, err := w.exchange("x", 1, who(1), 0)
			ok(t, "first", err)
			if old.Flags != FlagUseNonPNFS || old.Sequence != 1 {
				t.Fatalf("first answer: flags %x, sequence %d", old.Flags, old.Sequence)
			}
			cl := &cl41{w: w, id: old.ClientID, seq: 1, cred: who(1)}
			if c.confirmed {
				cl.session(attrs)
				if !c.state {
					ok(t, "DESTROY_SESSION", w.s.DestroySession(&Call{Minor: 1, Principal: who(1)}, cl.sess))
				}
			}
			verf, cred, flags := byte(2), who(2), uint32(0)
			if c.verf {
				verf = 1
			}
			if c.cred {
				cred = who(1)
			}
			if c.update {
				flags = FlagUpdConfirmedRecA
			}
			r, err := w.exchange("x", verf, cred, flags)
			mustBe(t, "second", err, c.want)
			if err != nil {
				return
			}
			if got := r.ClientID == old.ClientID; got != (c.id == same) {
				t.Fatalf("same id: %v", got)
			}
			if (r.Flags&FlagConfirmedR != 0) != (c.id == same) {
				t.Fatalf("flags %x", r.Flags)
			}
			if c.id == fresh && c.confirmed && c.state { // case 5: the old one lives until the new one is confirmed
				_, _, err := cl.begin(0)
				mustBe(t, "old session before", err, nil)
				w.s.sessions.get(&cl.sess).client.inflight.Store(0) // that COMPOUND is lost with the old life
				cl2 := &cl41{w: w, id: r.ClientID, seq: r.Sequence, cred: who(1)}
				cl2.session(attrs)
				_, _, err = cl.begin(1)
				mustBe(t, "old session after", err, ErrBadSession)
			}
			if c.id == fresh && c.confirmed && !c.state {
				_, err := w.s.CreateSession(&Call{Minor: 1, MayBlock: true, Principal: who(1)}, &CreateSessionArgs{ClientID: old.ClientID, Sequence: 2, Fore: attrs, Back: attrs})
				mustBe(t, "the old client id", err, ErrStaleClientID)
			}
		})
	}
}

func TestExchangeIDArguments(t *testing.T) {
	w := newWorld(t)
	call := &Call{Minor: 1, MayBlock: true, Principal: who(0)}
	for _, c := range []struct {
		name string
		a    ExchangeIDArgs
		want error
	}{
		{"undefined flag (EID4)", ExchangeIDArgs{Flags: 4}, ErrInval},
		{"server's flag (EID7)", ExchangeIDArgs{Flags: FlagUseNonPNFS | FlagConfirmedR}, ErrInval},
		{"SSV", ExchangeIDArgs{Protect: ProtectSSV}, ErrEncrAlg},
		{"machine credential without integrity", ExchangeIDArgs{Protect: ProtectMachCred}, ErrInval},
		{"no such protection", ExchangeIDArgs{Protect: 3}, ErrInval},
		{"long owner", ExchangeIDArgs{Owner: make([]byte, MaxOwner+1)}, ErrInval},
		{"update of nothing (EID6)", ExchangeIDArgs{Owner: []byte("n"), Flags: FlagUpdConfirmedRecA}, ErrNoEnt},
	} {
		_, err := w.s.ExchangeID(call, &c.a)
		mustBe(t, c.name, err, c.want)
	}
}

// TestMachCred makes sure that a record protected by SP4_MACH_CRED is closed to calls without integrity.
func TestMachCred(t *testing.T) {
	w := newWorld(t)
	gss := &Call{Minor: 1, MayBlock: true, Integrity: true, Principal: Principal{Flavor: 6, Name: "host/c"}, Conn: 5}
	r, err := w.s.ExchangeID(gss, &ExchangeIDArgs{Owner: []byte("m"), Protect: ProtectMachCred})
	ok(t, "EXCHANGE_ID", err)
	if r.Protect != ProtectMachCred {
		t.Fatal("protection not granted")
	}
	args := &CreateSessionArgs{ClientID: r.ClientID, Sequence: 1, Fore: attrs, Back: attrs}
	plain := &Call{Minor: 1, MayBlock: true, Principal: gss.Principal, Conn: 6}
	_, err = w.s.CreateSession(plain, args)
	mustBe(t, "CREATE_SESSION", err, ErrWrongCred)
	sr, err := w.s.CreateSession(gss, args)
	ok(t, "CREATE_SESSION with integrity", err)
	mustBe(t, "DESTROY_SESSION", w.s.DestroySession(plain, sr.SessionID), ErrWrongCred)
	_, err = w.s.BindConn(plain, sr.SessionID, BindFore)
	mustBe(t, "BIND_CONN_TO_SESSION", err, ErrWrongCred)
	_, err = w.s.Sequence(plain, &SequenceArgs{SessionID: sr.SessionID, Sequence: 1})
	mustBe(t, "SEQUENCE on a stranger's connection", err, ErrConnNotBound)
	mustBe(t, "DESTROY_CLIENTID", w.s.DestroyClientID(plain, r.ClientID), ErrWrongCred)
}

func TestDestroyClientID(t *testing.T) {
	w := newWorld(t)
	call := &Call{Minor: 1, MayBlock: true, Principal: who(0)}
	r, err := w.exchange("u", 1, who(0), 0)
	ok(t, "EXCHANGE_ID", err)
	ok(t, "unconfirmed", w.s.DestroyClientID(call, r.ClientID))
	mustBe(t, "twice (DESCID8)", w.s.DestroyClientID(call, r.ClientID), ErrStaleClientID)
	mustBe(t, "0 (DESCID3)", w.s.DestroyClientID(call, 0), ErrStaleClientID)
	c := w.client41("c")
	mustBe(t, "with a session (DESCID6)", w.s.DestroyClientID(call, c.id), ErrClientIDBusy)
	mustBe(t, "by its own session (DESCID5)", c.do(func(own *Call) error { return w.s.DestroyClientID(own, c.id) }), ErrClientIDBusy)
	ok(t, "DESTROY_SESSION", w.s.DestroySession(call, c.sess))
	mustBe(t, "4.0 client", w.s.DestroyClientID(call, w.client40("old")), ErrStaleClientID)
	ok(t, "without sessions", w.s.DestroyClientID(call, c.id))
	if _, known := w.s.clients[c.id]; known {
		t.Fatal("still there")
	}
}

// TestClientLimit fills the table: unconfirmed records give way, then expired ones; the living stay.
func TestClientLimit(t *testing.T) {
	w := newWorld(t, func(c *Config) { c.MaxClients = 4 })
	var first *cl41
	for _, n := range []string{"a", "b", "c"} {
		c := w.ready41(n)
		if first == nil {
			first = c
		}
	}
	for i := range 20 {
		if _, err := w.exchange(string(rune('d'+i)), 1, who(0), 0); err != nil {
			t.Fatalf("record %d beside 3 clients: %v", i, err)
		}
	}
	w.client41("x")
	_, err := w.exchange("y", 1, who(0), 0)
	mustBe(t, "full of the living", err, ErrDelay)
	w.advance(testLease / 2)
	for _, c := range w.s.clients {
		if c.owner != "a" {
			c.renew(w.s.now())
		}
	}
	w.advance(testLease/2 + time.Second)
	_, err = w.exchange("y", 1, who(0), 0)
	mustBe(t, "the expired one has to go first", err, ErrDelay)
	w.settle()
	_, err = w.exchange("y", 1, who(0), 0)
	ok(t, "then there is room", err)
	_, _, err = first.begin(0)
	mustBe(t, "the expired one", err, ErrBadSession)
}

// TestExpireClient drops a client in the middle of everything.
func TestExpireClient(t *testing.T) {
	w := newWorld(t, func(c *Config) { c.Local = &fakeLocal{} })
	c := w.ready41("c")
	o, err := c.open("o", fkey(1), ShareBoth, ShareRead)
	ok(t, "OPEN", err)
	_, _, err = c.lock(o, "l", WriteLock, 0, 10)
	ok(t, "LOCK", err)
	call, _, err := c.begin(0)
	ok(t, "SEQUENCE", err)
	mustBe(t, "with a call under way", w.s.ExpireClient(c.id), ErrDelay)
	w.s.SequenceDone(call, nil)
	ok(t, "idle", w.s.ExpireClient(c.id))
	w.check()
	if len(w.s.Locks()) != 0 || len(w.s.Opens(0)) != 0 {
		t.Fatal("state is left")
	}
	_, _, err = c.begin(0)
	mustBe(t, "its session", err, ErrBadSession)
	mustBe(t, "twice", w.s.ExpireClient(c.id), ErrNoEnt)
	if len(w.gone) != 1 {
		t.Fatal("the callback client was not told")
	}
	_, err = w.exchange("u", 1, who(0), 0)
	ok(t, "EXCHANGE_ID", err)
	for _, i := range w.s.Clients() {
		ok(t, "an unconfirmed one", w.s.ExpireClient(i.ID))
	}
}

// TestIDsAcrossRestarts makes sure that nothing of one start is taken for something of the next, however soon it comes.
func TestIDsAcrossRestarts(t *testing.T) {
	seen := map[ClientID]bool{}
	sessions := map[SessionID]bool{}
	for range 50 {
		w := newWorld(t)
		c := w.ready41("c")
		o, err := c.open("o", fkey(1), ShareRead, 0)
		ok(t, "OPEN", err)
		if seen[c.id] || sessions[c.sess] {
			t.Fatal("an id came twice")
		}
		seen[c.id], sessions[c.sess] = true, true
		w2 := newWorld(t)
		mustBe(t, "old client id", w2.s.Renew(w2.call40(), c.id), ErrStaleClientID)
		_, err = w2.s.CheckIO(w2.call40(), fkey(1), o.Stateid, AccessRead)
		mustBe(t, "old stateid, 4.0", err, ErrStaleStateid)
		mustBe(t, "old stateid, 4.1", w2.ready41("d").io(fkey(1), o.Stateid, AccessRead), ErrBadStateid)
	}
}

// The end of a client waits for its calls under way. Others get their records meanwhile.
func TestRecordsDuringAnEnd(t *testing.T) {
	w := newWorld(t, func(c *Config) { c.Recovery = &memRecovery{} })
	busy, other := w.ready41("busy"), w.client41("other")
	w.s.drain = 1 << 30
	call, _, err := busy.begin(1)
	ok(t, "SEQUENCE", err)
	ended := make(chan error, 1)
	go func() { ended <- w.s.ExpireClient(busy.id) }()
	for w.s.ending.TryLock() { // until it has begun
		w.s.ending.Unlock()
		runtime.Gosched()
	}
	ok(t, "RECLAIM_COMPLETE", other.do(func(call *Call) error { return w.s.ReclaimComplete(call, false) }))
	w.s.SequenceDone(call, nil)
	ok(t, "the end", <-ended)
}
