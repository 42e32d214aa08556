// Sessions and slots.

package state

import (
	"testing"
	"time"
)

func TestCreateSession(t *testing.T) {
	w := newWorld(t)
	r, err := w.exchange("c", 1, who(1), 0)
	ok(t, "EXCHANGE_ID", err)
	call := &Call{Minor: 1, MayBlock: true, Principal: who(1), Conn: 3}
	args := CreateSessionArgs{ClientID: r.ClientID, Sequence: 1, Fore: attrs, Back: attrs}
	create := func(call *Call, mod func(*CreateSessionArgs)) (CreateSessionRes, error) {
		a := args
		mod(&a)
		return w.s.CreateSession(call, &a)
	}
	for _, c := range []struct {
		name string
		mod  func(*CreateSessionArgs)
		want error
	}{
		{"unknown client (CSESS3)", func(a *CreateSessionArgs) { a.ClientID = 12345 }, ErrStaleClientID},
		{"replay of nothing (CSESS4)", func(a *CreateSessionArgs) { a.Sequence = 0 }, ErrSeqMisordered},
		{"too far (CSESS7)", func(a *CreateSessionArgs) { a.Sequence = 3 }, ErrSeqMisordered},
		{"flags (CSESS15)", func(a *CreateSessionArgs) { a.Flags = 15 }, ErrInval},
		{"no response fits (CSESS25)", func(a *CreateSessionArgs) { a.Fore.MaxResponse = 0 }, ErrTooSmall},
		{"no request fits (CSESS28)", func(a *CreateSessionArgs) { a.Fore.MaxRequest = 20 }, ErrTooSmall},
		{"back channel (CSESS29)", func(a *CreateSessionArgs) { a.Back.MaxRequest = 10 }, ErrTooSmall},
		{"back channel operations", func(a *CreateSessionArgs) { a.Back.MaxOps = 1 }, ErrTooSmall},
		{"GSS only", func(a *CreateSessionArgs) { a.CBSec = []CBSec{{Flavor: 6}} }, ErrEncrAlg},
	} {
		_, err := create(call, c.mod)
		mustBe(t, c.name, err, c.want)
	}
	other := *call
	other.Principal = who(2)
	for range 2 {
		_, err = create(&other, func(*CreateSessionArgs) {})
		mustBe(t, "other principal before confirmation (CSESS6, 9)", err, ErrClientInUse)
	}
	a, err := create(call, func(a *CreateSessionArgs) { a.CBSec = []CBSec{{Flavor: 6}, {Flavor: 1, UID: 17, GID: 19}, {}} })
	ok(t, "CREATE_SESSION", err)
	if a.Sequence != 1 || a.Fore.MaxRequests != 8 || a.Flags != 0 || a.Back.MaxResponseCached != 0 {
		t.Fatalf("%+v", a)
	}
	if sec := w.s.sessions.get(&a.SessionID).CBSec(); sec.Flavor != 1 || sec.UID != 17 {
		t.Fatalf("callback credential %+v", sec)
	}
	b, err := create(&other, func(*CreateSessionArgs) {})
	ok(t, "replay (CSESS5)", err)
	if a != b {
		t.Fatalf("replayed %+v, was %+v", b, a)
	}
	c, err := create(&other, func(a *CreateSessionArgs) { a.Sequence = 2; a.Flags = 7; a.Fore.MaxRequests = 2049 })
	ok(t, "other principal after confirmation (CSESS10)", err)
	if c.Fore.MaxRequests >= 2049 || c.Flags != SessionConnBack || c.SessionID == a.SessionID {
		t.Fatalf("CSESS22: %+v", c)
	}
	_, err = create(call, func(a *CreateSessionArgs) { a.Sequence = 1 })
	mustBe(t, "too old (CSESS8)", err, ErrSeqMisordered)
	_, err = create(call, func(a *CreateSessionArgs) { a.ClientID = w.client40("old") })
	mustBe(t, "4.0 client", err, ErrStaleClientID)
}

// TestSessionLimits fills a client's sessions, then the memory for replies: the last sessions get one slot, then none.
func TestSessionLimits(t *testing.T) {
	w := newWorld(t, func(c *Config) { c.MaxSessions = 40; c.MaxReplyCache = 64 << 10 })
	c := w.client41("c")
	slots := uint32(9)
	n := 0
	for {
		a := attrs
		r, err := w.s.CreateSession(&Call{Minor: 1, MayBlock: true, Principal: who(0), Conn: 1}, &CreateSessionArgs{ClientID: c.id, Sequence: c.seq, Fore: a, Back: a})
		if err != nil {
			mustBe(t, "full", err, ErrDelay)
			break
		}
		c.seq++
		n++
		if r.Fore.MaxRequests > slots {
			t.Fatalf("slots grew to %d", r.Fore.MaxRequests)
		}
		slots = r.Fore.MaxRequests
		if w.s.reserved.Load() > 64<<10 {
			t.Fatal("more promised than there is")
		}
		w.check()
	}
	if n < 10 || slots != 1 {
		t.Fatalf("%d sessions, the last with %d slots", n, slots)
	}
	// Sessions with many slots are asked to do with fewer, and what they give up serves others.
	r := c.use0()
	if r.Target >= r.Highest {
		t.Fatalf("not asked: %+v", r)
	}
	before := w.s.reserved.Load()
	c.use0()
	if w.s.reserved.Load() >= before {
		t.Fatal("nothing was given up")
	}
	w.check()
	ok(t, "one goes", w.s.DestroySession(w.call40(), c.sess))
	c.session(attrs)

	w2 := newWorld(t, func(c *Config) { c.MaxSessions = 3 })
	d := w2.client41("d")
	d.session(attrs)
	d.session(attrs)
	_, err := w2.s.CreateSession(&Call{Minor: 1, MayBlock: true, Conn: 1, Principal: who(0)}, &CreateSessionArgs{ClientID: d.id, Sequence: d.seq, Fore: attrs, Back: attrs})
	mustBe(t, "a fourth", err, ErrNoSpace)
}

// use0 sends a SEQUENCE on slot 0.
func (c *cl41) use0() SequenceRes {
	c.w.t.Helper()
	call, r, err := c.begin(0)
	ok(c.w.t, "SEQUENCE", err)
	c.w.s.SequenceDone(call, nil)
	return r
}

func TestSequence(t *testing.T) {
	w := newWorld(t)
	c := w.client41("c")
	seq := func(mod func(*SequenceArgs)) (*Call, SequenceRes, error) {
		a := SequenceArgs{SessionID: c.sess, Sequence: 1, Ops: 2, CacheThis: true, Digest: 5}
		mod(&a)
		call := &Call{Minor: 1, Principal: who(0), Conn: c.conn}
		r, err := w.s.Sequence(call, &a)
		return call, r, err
	}
	for _, x := range []struct {
		name string
		mod  func(*SequenceArgs)
		want error
	}{
		{"unknown session (SEQ5)", func(a *SequenceArgs) { a.SessionID = SessionID{1} }, ErrBadSession},
		{"slot 8 of 8 (SEQ8)", func(a *SequenceArgs) { a.Slot, a.HighestSlot = 8, 8 }, ErrBadSlot},
		{"highest slot", func(a *SequenceArgs) { a.HighestSlot = 100000 }, ErrBadHighSlot},
		{"too large (SEQ6)", func(a *SequenceArgs) { a.Size = 8193 }, ErrReqTooBig},
		{"too many operations (SEQ7)", func(a *SequenceArgs) { a.Ops = 17 }, ErrTooManyOps},
		{"sequence 0", func(a *SequenceArgs) { a.Sequence = 0 }, ErrSeqMisordered},
		{"sequence 2 first", func(a *SequenceArgs) { a.Sequence = 2 }, ErrSeqMisordered},
	} {
		_, _, err := seq(x.mod)
		mustBe(t, x.name, err, x.want)
	}
	call, r, err := seq(func(a *SequenceArgs) {})
	ok(t, "first", err)
	if r.Highest != 7 || r.Target != 7 || call.Client == nil || call.Session().ID() != c.sess || call.ClientID() != c.id {
		t.Fatalf("%+v", r)
	}
	_, _, err = seq(func(a *SequenceArgs) {})
	mustBe(t, "again while it runs", err, ErrDelay)
	_, _, err = seq(func(a *SequenceArgs) { a.Sequence = 2 })
	mustBe(t, "the next while it runs", err, ErrSeqMisordered)
	w.s.SequenceDone(call, []byte("reply"))
	call, r, err = seq(func(a *SequenceArgs) {})
	mustBe(t, "again (SEQ9)", err, ErrReplay)
	if string(r.Replay) != "reply" || call.slot != nil {
		t.Fatalf("replay %q", r.Replay)
	}
	w.s.SequenceDone(call, []byte("nonsense")) // does nothing
	for name, mod := range map[string]func(*SequenceArgs){
		"other request":    func(a *SequenceArgs) { a.Digest = 6 },
		"other length":     func(a *SequenceArgs) { a.Ops = 3 },
		"other cache_this": func(a *SequenceArgs) { a.CacheThis = false },
	} {
		_, _, err = seq(mod)
		mustBe(t, name, err, ErrSeqFalseRetry)
	}
	_, err = w.s.Sequence(&Call{Minor: 1, Principal: who(1), Conn: 1}, &SequenceArgs{SessionID: c.sess, Sequence: 1, Ops: 2, CacheThis: true, Digest: 5})
	mustBe(t, "other principal", err, ErrSeqFalseRetry)

	// Not cached: SEQUENCE again succeeds, the rest is unknown. A SEQUENCE alone is known in any case.
	call, _, err = seq(func(a *SequenceArgs) { a.Sequence, a.CacheThis = 2, false })
	ok(t, "second", err)
	w.s.SequenceDone(call, []byte("not kept"))
	_, _, err = seq(func(a *SequenceArgs) { a.Sequence, a.CacheThis = 2, false })
	mustBe(t, "again (SEQ10b)", err, ErrRetryUncached)
	call, _, err = seq(func(a *SequenceArgs) { a.Sequence, a.CacheThis, a.Last, a.Ops = 3, false, true, 1 })
	ok(t, "third", err)
	w.s.SequenceDone(call, []byte("lone"))
	_, r, err = seq(func(a *SequenceArgs) { a.Sequence, a.CacheThis, a.Last, a.Ops = 3, false, true, 1 })
	mustBe(t, "again", err, ErrReplay)
	if string(r.Replay) != "lone" {
		t.Fatalf("replay %q", r.Replay)
	}
	// Larger than what may be cached: not kept.
	call, r, err = seq(func(a *SequenceArgs) { a.Sequence = 4 })
	ok(t, "fourth", err)
	w.s.SequenceDone(call, make([]byte, r.MaxCached+1))
	_, _, err = seq(func(a *SequenceArgs) { a.Sequence = 4 })
	mustBe(t, "again", err, ErrRetryUncached)
	// Wrap-around.
	w.s.sessions.get(&c.sess).slots[0].seq = ^uint32(0)
	call, _, err = seq(func(a *SequenceArgs) { a.Sequence = 0 })
	ok(t, "wrap", err)
	w.s.SequenceDone(call, nil)
}

// TestReplayKeepsCopy: the slot's copy does not follow the caller's buffer, nor the replayed one the slot.
func TestReplayKeepsCopy(t *testing.T) {
	w := newWorld(t)
	c := w.client41("c")
	buf := []byte("first")
	a := SequenceArgs{SessionID: c.sess, Sequence: 1, CacheThis: true}
	call := &Call{Minor: 1, Principal: who(0), Conn: c.conn}
	_, err := w.s.Sequence(call, &a)
	ok(t, "SEQUENCE", err)
	w.s.SequenceDone(call, buf)
	copy(buf, "xxxxx")
	r, err := w.s.Sequence(call, &a)
	mustBe(t, "again", err, ErrReplay)
	b := SequenceArgs{SessionID: c.sess, Sequence: 2, CacheThis: true}
	_, err = w.s.Sequence(call, &b)
	ok(t, "next", err)
	w.s.SequenceDone(call, []byte("other"))
	if string(r.Replay) != "first" {
		t.Fatalf("replay %q", r.Replay)
	}
}

func TestDestroySession(t *testing.T) {
	w := newWorld(t)
	c := w.ready41("c")
	call, _, err := c.begin(0)
	ok(t, "SEQUENCE", err)
	mustBe(t, "busy", w.s.DestroySession(w.call40(), c.sess), ErrDelay)
	ok(t, "by its own session", w.s.DestroySession(call, c.sess))
	w.s.SequenceDone(call, []byte("x"))
	_, _, err = c.begin(0)
	mustBe(t, "afterwards", err, ErrBadSession)
	mustBe(t, "twice", w.s.DestroySession(w.call40(), c.sess), ErrBadSession)
	if w.s.clients[c.id].cbState != cbDown {
		t.Fatal("the callback path must be down without sessions")
	}
}

// TestDynamicSlots grows the table under a client that uses its last slot, and shrinks it by the target.
func TestDynamicSlots(t *testing.T) {
	w := newWorld(t, func(c *Config) { c.MaxSlots = 16 })
	c := w.client41("c")
	use := func(slot uint32) SequenceRes {
		call, r, err := c.begin(slot)
		ok(t, "SEQUENCE", err)
		w.s.SequenceDone(call, nil)
		w.check()
		return r
	}
	if r := use(7); r.Highest != 9 || r.Target != 9 {
		t.Fatalf("%+v", r)
	}
	for use(uint32(use(0).Highest)).Highest != 15 {
	}
	w.s.sessions.get(&c.sess).SetTarget(4)
	if r := use(5); r.Highest != 15 || r.Target != 3 {
		t.Fatalf("%+v", r)
	}
	_, _, err := c.begin(15)
	ok(t, "a slot over the target, before the client has seen it", err)
	if r := use(3); r.Highest != 15 {
		t.Fatal("slots went while one was busy")
	}
	w.s.sessions.get(&c.sess).slots[15].busy = false
	w.s.sessions.get(&c.sess).inflight--
	w.s.clients[c.id].inflight.Add(-1)
	if r := use(2); r.Highest != 15 {
		t.Fatal("slots went before the client can have known") // slot 2 has not been answered since
	}
	if r := use(2); r.Highest != 3 || r.Target != 3 {
		t.Fatalf("%+v", r)
	}
	_, _, err = c.begin(5)
	mustBe(t, "a slot that is gone", err, ErrBadSlot)
}

func TestConnections(t *testing.T) {
	w := newWorld(t, func(c *Config) { c.MaxConns = 3 })
	c := w.ready41("c")
	sess := w.s.sessions.get(&c.sess)
	cl := w.s.clients[c.id]
	status := func() uint32 {
		call, r, err := c.begin(0)
		ok(t, "SEQUENCE", err)
		w.s.SequenceDone(call, nil)
		return r.Status
	}
	if len(w.probes) != 1 || !cl.callbacksGood() {
		t.Fatal("CREATE_SESSION with a back channel must have it probed")
	}
	first := c.conn
	w.s.ConnClosed(first)
	if cl.callbacksGood() || cl.BackSession() != nil {
		t.Fatal("the back channel went with its connection")
	}
	c.conn = nextConn.Add(1)
	if status() != Seq4CBPathDown { // bound by SEQUENCE, for the fore channel alone
		t.Fatal("SEQUENCE must tell that the callback path is down")
	}
	call := &Call{Minor: 1, Conn: c.conn}
	_, err := w.s.BindConn(call, c.sess, 4)
	mustBe(t, "no such direction", err, ErrInval)
	_, err = w.s.BindConn(call, SessionID{1}, BindFore)
	mustBe(t, "no such session", err, ErrBadSession)
	for _, x := range [][2]BindDir{{BindFore, BindFore}, {BindBack, BindBack}, {BindForeOrBoth, 3}, {BindBackOrBoth, 3}} {
		d, err := w.s.BindConn(call, c.sess, x[0])
		ok(t, "BIND_CONN_TO_SESSION", err)
		if d != x[1] {
			t.Fatalf("asked %d, got %d", x[0], d)
		}
	}
	if status() != 0 || cl.BackSession() != sess || len(sess.BackConns(nil)) != 1 {
		t.Fatal("bound again")
	}
	for i := range uint64(2) {
		_, err = w.s.BindConn(&Call{Minor: 1, Conn: 1000 + i}, c.sess, BindFore)
		ok(t, "up to the limit", err)
	}
	_, err = w.s.BindConn(&Call{Minor: 1, Conn: 1002}, c.sess, BindFore)
	mustBe(t, "over the limit", err, ErrDelay)
	c.conn = 1003
	call, _, err = c.begin(0)
	ok(t, "SEQUENCE on one more works, unbound", err)
	w.s.SequenceDone(call, nil)
	if n := len(sess.conns); n != 3 {
		t.Fatalf("%d connections", n)
	}
}

// TestBackSlots hands out the back channel's slots, each with its own sequence ids.
func TestBackSlots(t *testing.T) {
	w := newWorld(t)
	c := w.client41("c")
	s := w.s.sessions.get(&c.sess)
	type got struct{ slot, seq uint32 }
	var list []got
	for {
		slot, seq, highest, ok := s.CBAcquire()
		if !ok {
			break
		}
		if highest != slot || seq != 1 {
			t.Fatalf("slot %d seq %d highest %d", slot, seq, highest)
		}
		list = append(list, got{slot, seq})
	}
	if len(list) != 8 {
		t.Fatalf("%d slots", len(list))
	}
	s.CBRelease(3, true)
	s.CBRelease(5, false)
	if slot, seq, highest, _ := s.CBAcquire(); slot != 3 || seq != 2 || highest != 7 {
		t.Fatalf("slot %d seq %d highest %d", slot, seq, highest)
	}
	if slot, seq, _, _ := s.CBAcquire(); slot != 5 || seq != 1 {
		t.Fatalf("slot %d seq %d", slot, seq)
	}
	ok(t, "DESTROY_SESSION", w.s.DestroySession(w.call40(), c.sess))
	if _, _, _, free := s.CBAcquire(); free {
		t.Fatal("a slot of a session that is gone")
	}
	s.CBRelease(3, true)
}

// TestLease: what renews it, and what does not; a courtesy client comes back as if nothing had been.
func TestLease(t *testing.T) {
	w := newWorld(t)
	c := w.ready41("c")
	o, err := c.open("o", fkey(1), ShareRead, ShareWrite)
	ok(t, "OPEN", err)
	w.advance(2 * testLease)
	w.s.Tick()
	w.settle()
	if i := w.s.Clients(); len(i) != 1 || !i[0].Courtesy {
		t.Fatalf("%+v", i)
	}
	ok(t, "READ after the lease", c.io(o.key, o.Stateid, AccessRead))
	if w.s.Clients()[0].Courtesy {
		t.Fatal("SEQUENCE did not renew")
	}
	// Without state an expired client goes by itself, and any after a day.
	d := w.client41("d")
	ok(t, "DESTROY_SESSION", w.s.DestroySession(w.call40(), d.sess))
	w.advance(testLease + time.Second)
	w.s.Tick()
	w.settle()
	if n := len(w.s.Clients()); n != 1 {
		t.Fatalf("%d clients", n)
	}
	w.advance(25 * time.Hour)
	w.s.Tick()
	w.settle()
	if n := len(w.s.Clients()); n != 0 {
		t.Fatalf("%d clients after a day", n)
	}
}

func TestSequenceAllocs(t *testing.T) {
	w := newWorld(t)
	c := w.ready41("c")
	call := &Call{Minor: 1, Principal: c.cred, Conn: c.conn}
	a := SequenceArgs{SessionID: c.sess, Sequence: c.slot[0], Ops: 3, CacheThis: true}
	reply := make([]byte, 200)
	if n := testing.AllocsPerRun(1000, func() {
		a.Sequence++
		if _, err := w.s.Sequence(call, &a); err != nil {
			t.Fatal(err)
		}
		w.s.SequenceDone(call, reply)
	}); n != 0 {
		t.Fatalf("%v allocations", n)
	}
}

func BenchmarkSequence(b *testing.B) {
	w := newWorld(b, func(c *Config) { c.Now = nil })
	c := w.client41("c")
	call := &Call{Minor: 1, Principal: c.cred, Conn: c.conn}
	a := SequenceArgs{SessionID: c.sess, Ops: 3}
	b.ReportAllocs()
	for b.Loop() {
		a.Sequence++
		if _, err := w.s.Sequence(call, &a); err != nil {
			b.Fatal(err)
		}
		w.s.SequenceDone(call, nil)
	}
}

// TestSmallThings: what other rooms read.
func TestSmallThings(t *testing.T) {
	w := newWorld(t)
	c := w.client41("c")
	sess := w.s.sessions.get(&c.sess)
	cl := sess.Client()
	if cl.ID() != c.id || cl.Minor() != 1 || string(cl.Owner()) != "c" || sess.ID() != c.sess || sess.Fore().MaxRequests != 8 || sess.Back().MaxRequests != 8 || sess.CBProgram() != 0x40000000 {
		t.Fatal("client or session")
	}
	call, _, err := c.begin(0)
	ok(t, "SEQUENCE", err)
	mustBe(t, "BACKCHANNEL_CTL, GSS", w.s.BackchannelCtl(call, 1, []CBSec{{Flavor: 6}}), ErrEncrAlg)
	ok(t, "BACKCHANNEL_CTL", w.s.BackchannelCtl(call, 77, []CBSec{{Flavor: 1, UID: 29, Groups: []uint32{1}}}))
	w.s.SequenceDone(call, nil)
	if sess.CBProgram() != 77 || sess.CBSec().UID != 29 {
		t.Fatal("BACKCHANNEL_CTL")
	}
	w.s.SetCallbackFault(cl)
	if r := c.use0(); r.Status != Seq4BackchannelFault {
		t.Fatalf("status %x", r.Status)
	}
	slot, _, _, _ := sess.CBAcquire()
	sess.CBRelease(slot, true)
	slot, seq, _, _ := sess.CBAcquire()
	sess.CBResync(slot)
	sess.CBRelease(slot, false)
	if _, again, _, _ := sess.CBAcquire(); seq != 2 || again != 1 {
		t.Fatalf("seq %d, then %d", seq, again)
	}
	old := w.s.clients[w.client40("old")]
	if old.Callback().Program != 1 || old.Minor() != 0 {
		t.Fatal("4.0 client")
	}
	for e := ErrWouldBlock; e < NumErrs; e++ {
		if e.Error() == "" || e.Errno() == 0 {
			t.Fatalf("error %d", e)
		}
	}
	if l := (&LockConflict{Start: 5, End: ^uint64(0)}).Length(); l != ^uint64(0) {
		t.Fatalf("length %d", l)
	}
	w.check()
}
