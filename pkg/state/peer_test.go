package state

import (
	"fmt"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestPeerNames(t *testing.T) {
	for in, want := range map[string]string{
		"192.0.2.1": "192.0.2.1", "::ffff:192.0.2.1": "192.0.2.1", "2001:db8:1:2:3:4:5:6": "2001:db8:1:2::/64", "fe80::1%eth0": "fe80::/64", "": "",
		"@": "@",
	} {
		if got := peerName(in); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}

// from is a client with a session, from an address; RECLAIM_COMPLETE is done.
func (w *world) from(addr, name string) (*cl41, error) {
	w.t.Helper()
	r, err := w.s.ExchangeID(&Call{Minor: 1, MayBlock: true, Principal: who(0), Conn: 1, Addr: addr}, &ExchangeIDArgs{Verifier: Verifier{1}, Owner: []byte(name)})
	if err != nil {
		return nil, err
	}
	c := &cl41{w: w, name: name, id: r.ClientID, seq: r.Sequence, cred: who(0), conn: nextConn.Add(1)}
	s, err := w.s.CreateSession(&Call{Minor: 1, MayBlock: true, Principal: c.cred, Conn: c.conn}, &CreateSessionArgs{
		ClientID: c.id, Sequence: c.seq, Flags: SessionConnBack, Fore: attrs, Back: attrs, CBProgram: 0x40000000,
	})
	if err != nil {
		return nil, err
	}
	c.sess, c.slot = s.SessionID, map[uint32]uint32{}
	ok(w.t, "RECLAIM_COMPLETE", c.do(func(call *Call) error { return w.s.ReclaimComplete(call, false) }))
	return c, nil
}

// One peer's clients never take all records: a second one gets its share, a third one too. Records that are not confirmed
// give way to newer ones of the same peer alone.
func TestPeerClients(t *testing.T) {
	w := newWorld(t, func(c *Config) { c.MaxClients = 12 })
	fill := func(addr string) (n int) {
		for ; ; n++ {
			if _, err := w.from(addr, fmt.Sprint(addr, n)); err != nil {
				mustBe(t, "one too many", err, ErrDelay)
				return n
			}
		}
	}
	if a, b, c := fill("192.0.2.1"), fill("192.0.2.2"), fill("2001:db8::1"); a != 6 || b != 3 || c != 2 {
		t.Errorf("shares of 12 are %d, %d, %d", a, b, c)
	}
	if _, err := w.from("2001:db8::2", "next door"); err != ErrDelay {
		t.Errorf("of the same network: %v", err)
	}
	w.check()

	w = newWorld(t, func(c *Config) { c.MaxClients = 12 })
	honest, err := w.s.ExchangeID(&Call{Minor: 1, Principal: who(0), Addr: "192.0.2.2"}, &ExchangeIDArgs{Owner: []byte("honest")})
	ok(t, "EXCHANGE_ID", err)
	for i := range 100 {
		_, err := w.s.ExchangeID(&Call{Minor: 1, Principal: who(0), Addr: "192.0.2.1"}, &ExchangeIDArgs{Owner: fmt.Append(nil, i)})
		ok(t, "EXCHANGE_ID of a flood", err)
	}
	w.check()
	_, err = w.s.CreateSession(&Call{Minor: 1, Principal: who(0), Conn: 1}, &CreateSessionArgs{ClientID: honest.ClientID, Sequence: honest.Sequence, Fore: attrs, Back: attrs})
	ok(t, "the one record that was there before", err)
	w.advance(testLease + 2*time.Second)
	w.s.Tick()
	w.settle()
	w.check()
	if n := len(w.s.peers); n != 1 {
		t.Errorf("%d peers are left", n)
	}
}

// Nor does one peer take all of what clients hold: stateids and owners, ranges, memory of slots.
func TestPeerShares(t *testing.T) {
	w := newWorld(t, func(c *Config) { c.MaxObjects, c.MaxRanges, c.MaxReplyCache, c.MaxSessions = 40, 12, 128<<10, 1000 })
	greedy, err := w.from("192.0.2.1", "greedy")
	ok(t, "a client", err)
	again, err := w.from("192.0.2.1", "again")
	ok(t, "a client", err)
	o, err := greedy.open("o", fkey(0), ShareBoth, 0)
	ok(t, "OPEN", err)
	var n uint64
	for ; err == nil; n++ {
		_, _, err = greedy.lock(o, "l", WriteLock, 2*n, 1)
	}
	mustBe(t, "one range too many", err, ErrResource)
	w.s.cfg.MaxLockPlaces = 2
	p, err := again.open("p", fkey(0), ShareBoth, 0)
	ok(t, "OPEN", err)
	_, _, err = again.lock(p, "l", WriteLock, 1, 1)
	mustBe(t, "one owner with locks too many", err, unix.ENOLCK)
	w.s.cfg.MaxLockPlaces = 100
	for i := 1; ; i++ {
		c := greedy
		if i%2 == 0 {
			c = again
		}
		if _, err = c.open(fmt.Sprint(i), fkey(i), ShareRead, 0); err != nil {
			break
		}
	}
	mustBe(t, "one owner too many", err, ErrResource)
	for err = nil; err == nil; again.seq++ {
		_, err = w.s.CreateSession(&Call{Minor: 1, Principal: who(0), Conn: 1}, &CreateSessionArgs{ClientID: again.id, Sequence: again.seq, Fore: attrs, Back: attrs})
	}
	mustBe(t, "one session too many", err, ErrDelay)
	w.check()

	c, err := w.from("192.0.2.2", "modest")
	ok(t, "a client of another peer", err)
	for i := range 3 {
		o, err := c.open(fmt.Sprint(i), fkey(100+i), ShareBoth, 0)
		ok(t, "its OPEN", err)
		_, _, err = c.lock(o, "l", WriteLock, 0, 1)
		ok(t, "its LOCK", err)
	}
	w.check()

	// What expired clients have is for those who are there.
	w.advance(testLease + time.Second)
	c.use0()
	err = nil
	for i, refused := 200, 0; err == nil && refused < 20; i++ {
		if _, err = c.open(fmt.Sprint(i), fkey(i), ShareRead, 0); err == ErrResource {
			w.settle()
			w.clock.Add(shortPause)
			refused, err = refused+1, nil
		}
	}
	ok(t, "OPEN", err)
	if len(w.s.confirmed) != 1 || w.s.objects != 20 {
		t.Errorf("%d clients are left, with %d objects", len(w.s.confirmed), w.s.objects)
	}
	ok(t, "its end", w.s.ExpireClient(c.id))
	w.check()
	if w.s.objects != 0 || w.s.places != 0 || w.s.reserved.Load() != 0 || len(w.s.peers) != 0 {
		t.Errorf("%d objects, %d bytes, %d peers are left", w.s.objects, w.s.reserved.Load(), len(w.s.peers))
	}
}

// Client ids differ for as long as there are numbers, and do not come in a row.
func TestScramble(t *testing.T) {
	s := newWorld(t).s
	seen, rows := map[uint32]bool{}, 0
	for i := range uint32(20000) {
		n := s.scramble(i)
		if seen[n] {
			t.Fatalf("%d comes twice", n)
		}
		if seen[n-1] {
			rows++
		}
		seen[n] = true
	}
	if rows > 10 {
		t.Errorf("%d of 20,000 follow another", rows)
	}
}

// Requests that wait are bounded for an owner on a file, and in all; v4 clients beyond that ask again by themselves.
func TestWaitingShares(t *testing.T) {
	w := newWorld(t, func(c *Config) { c.MaxAllWaiters = 20 })
	holder, waiting := w.ready41("holder"), w.ready41("waiting")
	o, err := holder.open("o", fkey(1), ShareBoth, 0)
	ok(t, "OPEN", err)
	_, _, err = holder.lock(o, "l", WriteLock, 0, 1000)
	ok(t, "LOCK", err)
	p, err := waiting.open("o", fkey(1), ShareBoth, 0)
	ok(t, "OPEN", err)
	wait := func(owner string, at uint64) {
		t.Helper()
		mustBe(t, "LOCK", waiting.do(func(call *Call) error {
			_, _, err := w.s.Lock(call, &LockArgs{File: p.key, FH: []byte("fh"), Type: WriteLock, Blocking: true, Offset: at, Length: 1, New: true,
				OpenStateid: Stateid{0, p.Stateid.Other}, Owner: []byte(owner)})
			return err
		}), ErrDenied)
	}
	for i := range uint64(2 * maxOwnerWaiters) {
		wait("l", i)
	}
	if n := w.s.locks.waits.total; n != maxOwnerWaiters {
		t.Errorf("%d requests of one owner wait", n)
	}
	for i := range uint64(20) {
		wait(fmt.Sprint(i), i)
	}
	if n := w.s.locks.waits.total; n != 10 {
		t.Errorf("%d requests of one client wait, where there is room for 20", n)
	}
	ok(t, "its end", w.s.ExpireClient(waiting.id))
	if n := w.s.locks.waits.total; n != 0 {
		t.Errorf("%d requests wait for nobody", n)
	}
}
