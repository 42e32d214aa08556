// Random sequences of operations, in three ways: against a simple model that says what each must answer; with everything
// switched on, where only the invariants are checked after each step; and from many goroutines at once.

package state

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"
)

// model is opens and locks said plainly, for sessions without delegations.
type model struct {
	w       *world
	clients []*modelClient
	opens   map[modelOpen][]uint8 // the (access<<2|deny) of each OPEN that it was made of
	locks   [3]byteMap            // by file; owners are client*10 + lock owner
}

type modelClient struct {
	*cl41
	n     int
	last  int64 // when its lease was renewed
	gone  bool
	opens map[modelOpen]opened
	lsid  map[[2]int]Stateid // lock stateids by lock owner and file, under open owner 0
}

type modelOpen struct{ client, owner, file int }

func (m *model) expired(c *modelClient) bool { return m.w.clock.Load()-c.last > int64(testLease) }

// drop forgets what a client had.
func (m *model) drop(n int) {
	for k := range m.opens {
		if k.client == n {
			delete(m.opens, k)
		}
	}
	for f := range m.locks {
		for o := range 2 {
			m.locks[f].set(n*10+o, 0, 63, 0)
		}
	}
	c := m.clients[n]
	c.gone, c.opens, c.lsid = true, map[modelOpen]opened{}, map[[2]int]Stateid{}
}

// alive renews c's lease, or brings it back after it has lost everything.
func (m *model) alive(c *modelClient) {
	if c.gone {
		mustBe(m.w.t, "a client that lost its state", c.do(func(*Call) error { return nil }), ErrBadSession)
		c.cl41 = m.w.ready41(c.name)
		c.gone = false
	}
	c.last = m.w.clock.Load()
}

// conflicts lists the clients whose shares meet.
func (m *model) conflicts(file int, access, deny uint8) (holders map[int]bool) {
	holders = map[int]bool{}
	for k, modes := range m.opens {
		for _, x := range modes {
			if k.file == file && (access&x&3 != 0 || deny&(x>>2) != 0) {
				holders[k.client] = true
			}
		}
	}
	return holders
}

func (m *model) open(rnd *rand.Rand, c *modelClient) string {
	k := modelOpen{c.n, rnd.IntN(2), rnd.IntN(3)}
	access, deny := uint8(1+rnd.IntN(3)), uint8(0)
	if rnd.IntN(3) == 0 {
		deny = uint8(rnd.IntN(4))
	}
	want := error(nil)
	holders := m.conflicts(k.file, access, deny)
	for n := range holders {
		if !m.expired(m.clients[n]) {
			want = ErrShareDenied
		}
	}
	if want == nil {
		for n := range holders {
			m.drop(n)
		}
	}
	o, err := c.cl41.open(fmt.Sprint("o", k.owner), fkey(k.file), access, deny)
	mustBe(m.w.t, "OPEN", err, want)
	if err == nil {
		if o.Upgraded != (len(m.opens[k]) > 0) {
			m.w.t.Fatalf("upgraded: %v", o.Upgraded)
		}
		m.opens[k] = append(m.opens[k], access<<2|deny)
		c.opens[k] = o
	}
	return fmt.Sprintf("open %v %d/%d: %v", k, access, deny, err)
}

func (m *model) pick(rnd *rand.Rand, c *modelClient) (k modelOpen, found bool) {
	n := len(c.opens)
	if n == 0 {
		return k, false
	}
	i := rnd.IntN(n)
	for owner := range 2 { // in a fixed order, so that a seed means the same each time
		for f := range 3 {
			k = modelOpen{c.n, owner, f}
			if _, there := c.opens[k]; there {
				if i == 0 {
					return k, true
				}
				i--
			}
		}
	}
	panic("not reached")
}

func (m *model) close(k modelOpen, c *modelClient) string {
	ok(m.w.t, "CLOSE", c.cl41.close(c.opens[k]))
	delete(m.opens, k)
	delete(c.opens, k)
	if k.owner == 0 { // locks are taken under open owner 0
		for o := range 2 {
			m.locks[k.file].set(c.n*10+o, 0, 63, 0)
			delete(c.lsid, [2]int{o, k.file})
		}
	}
	return fmt.Sprintf("close %v", k)
}

func (m *model) downgrade(rnd *rand.Rand, k modelOpen, c *modelClient) string {
	access, deny := uint8(rnd.IntN(4)), uint8(rnd.IntN(4))
	// Which sums can some of the pairs have?
	want := error(ErrInval)
	var kept []uint8
	var a, d uint8
	for _, x := range m.opens[k] {
		if x>>2&^access == 0 && x&3&^deny == 0 {
			a, d, kept = a|x>>2, d|x&3, append(kept, x)
		}
	}
	if access != 0 && a == access && d == deny {
		want = nil
	}
	err := c.do(func(call *Call) error {
		_, err := m.w.s.OpenDowngrade(call, fkey(k.file), Stateid{0, c.opens[k].Stateid.Other}, 0, access, deny)
		return err
	})
	mustBe(m.w.t, "OPEN_DOWNGRADE", err, want)
	if err == nil {
		m.opens[k] = kept
	}
	return fmt.Sprintf("downgrade %v %d/%d: %v", k, access, deny, err)
}

func (m *model) lock(rnd *rand.Rand, k modelOpen, c *modelClient) string {
	owner, typ := rnd.IntN(2), LockType(1+rnd.IntN(2))
	from, to := rnd.IntN(32), rnd.IntN(32)
	if from > to {
		from, to = to, from
	}
	var access uint8
	for _, x := range m.opens[k] {
		access |= x >> 2
	}
	me := c.n*10 + owner
	want := error(nil)
	switch {
	case typ == ReadLock && access&ShareRead == 0, typ == WriteLock && access&ShareWrite == 0:
		want = ErrOpenMode
	case m.locks[k.file].conflict(me, from, to, typ):
		// Denied if anybody alive is in the way. Of the expired in the way some may go before that is found out.
		for _, other := range m.clients {
			for o := range 2 {
				if n := other.n*10 + o; n != me && !other.gone && !m.expired(other) && m.lockedBy(k.file, n, from, to, typ) {
					want = ErrDenied
				}
			}
		}
		defer m.sync()
	}
	sid, lc, err := c.cl41.lock(c.opens[k], fmt.Sprint("l", owner), typ, uint64(from), uint64(to-from+1))
	mustBe(m.w.t, "LOCK", err, want)
	if err == ErrDenied && (lc.Start > uint64(to) || lc.End < uint64(from) || lc.Owner == LockOwner{Client: c.id, Owner: fmt.Sprint("l", owner)}) {
		m.w.t.Fatalf("conflict %+v", lc)
	}
	if err == nil {
		m.sync()
		m.locks[k.file].set(me, from, to, typ)
		c.lsid[[2]int{owner, k.file}] = sid
	}
	return fmt.Sprintf("lock %v by %d %d-%d type %d: %v", k, owner, from, to, typ, err)
}

func (m *model) lockedBy(file, owner, from, to int, typ LockType) bool {
	for i := from; i <= to; i++ {
		if t := m.locks[file][i][owner]; t == WriteLock || t != 0 && typ == WriteLock {
			return true
		}
	}
	return false
}

// sync looks which expired clients the server has ended.
func (m *model) sync() {
	for _, c := range m.clients {
		if _, there := m.w.s.clients[c.id]; !there && !c.gone {
			if !m.expired(c) {
				m.w.t.Fatalf("client %d was ended before its time", c.n)
			}
			m.drop(c.n)
		}
	}
}

func (m *model) unlock(rnd *rand.Rand, c *modelClient) string {
	for owner := range 2 {
		for f := range 3 {
			sid, there := c.lsid[[2]int{owner, f}]
			if !there || rnd.IntN(2) == 0 {
				continue
			}
			from, to := rnd.IntN(32), rnd.IntN(32)
			if from > to {
				from, to = to, from
			}
			ok(m.w.t, "LOCKU", c.cl41.unlock(fkey(f), sid, uint64(from), uint64(to-from+1)))
			m.locks[f].set(c.n*10+owner, from, to, 0)
			return fmt.Sprintf("unlock file %d by %d/%d %d-%d", f, c.n, owner, from, to)
		}
	}
	ok(m.w.t, "SEQUENCE", c.do(func(*Call) error { return nil }))
	return "nothing to unlock"
}

// compare checks that the server's locks are the model's.
func (m *model) compare() {
	locks := m.w.s.Locks()
	for f := range m.locks {
		for _, c := range m.clients {
			for o := range 2 {
				var got [32]LockType
				for _, l := range locks {
					if l.File == fkey(f) && l.Owner == (LockOwner{Client: c.id, Owner: fmt.Sprint("l", o)}) {
						for i := l.Start; i <= l.End; i++ {
							got[i] = l.Type
						}
					}
				}
				for i := range got {
					if want := m.locks[f][i][c.n*10+o]; got[i] != want {
						m.w.t.Fatalf("file %d byte %d owner %d/%d: locked %d, should be %d", f, i, c.n, o, got[i], want)
					}
				}
			}
		}
	}
	n := 0
	for _, o := range m.w.s.Opens(0) {
		n++
		found := false
		for k, modes := range m.opens {
			if o.Client == m.clients[k.client].id && o.Owner == fmt.Sprint("o", k.owner) && o.File == fkey(k.file) {
				var a, d uint8
				for _, x := range modes {
					a, d = a|x>>2, d|x&3
				}
				found = a == o.Access && d == o.Deny
			}
		}
		if !found {
			m.w.t.Fatalf("open %+v is not the model's", o)
		}
	}
	if n != len(m.opens) {
		m.w.t.Fatalf("%d opens, should be %d", n, len(m.opens))
	}
}

func TestModel(t *testing.T) {
	for seed := range uint64(4) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			rnd := rand.New(rand.NewPCG(seed, 1))
			w := newWorld(t, withLocal, func(c *Config) { c.Delegations = false; c.Recovery = &memRecovery{} })
			m := &model{w: w, opens: map[modelOpen][]uint8{}}
			for n := range 3 {
				c := &modelClient{cl41: w.ready41(fmt.Sprint("client ", n)), n: n, last: w.clock.Load(), opens: map[modelOpen]opened{}, lsid: map[[2]int]Stateid{}}
				m.clients = append(m.clients, c)
			}
			var trail []string
			defer func() {
				if t.Failed() {
					t.Log(trail[max(0, len(trail)-20):])
				}
			}()
			for range 1000 {
				c := m.clients[rnd.IntN(3)]
				what := rnd.IntN(20)
				if what == 0 {
					d := time.Duration(rnd.IntN(130)) * time.Second
					w.advance(d)
					trail = append(trail, fmt.Sprint("advance ", d))
					continue
				}
				m.alive(c)
				k, any := m.pick(rnd, c)
				switch {
				case what < 6 || !any:
					trail = append(trail, m.open(rnd, c))
				case what < 9:
					trail = append(trail, m.close(k, c))
				case what < 11:
					trail = append(trail, m.downgrade(rnd, k, c))
				case what < 16 && k.owner == 0:
					trail = append(trail, m.lock(rnd, k, c))
				default:
					trail = append(trail, m.unlock(rnd, c))
				}
				w.check()
				m.compare()
			}
		})
	}
}

// chaos runs one random operation of a client with everything switched on. Errors are as may be; what it holds is noted.
type chaos struct {
	w      *world
	rnd    *rand.Rand
	mu     sync.Mutex
	owned  map[string][]opened // by client
	locked map[string][]opened // Stateid is the lock's
}

func (x *chaos) step(c *cl41) {
	w, rnd := x.w, x.rnd
	f := fkey(rnd.IntN(3))
	pick := func(list []opened) (o opened) {
		x.mu.Lock()
		defer x.mu.Unlock()
		if len(list) == 0 {
			return opened{key: f}
		}
		return list[rnd.IntN(len(list))]
	}
	add := func(m map[string][]opened, o opened) {
		x.mu.Lock()
		defer x.mu.Unlock()
		if m[c.name] = append(m[c.name], o); len(m[c.name]) > 10 {
			m[c.name] = m[c.name][1:]
		}
	}
	var err error
	switch rnd.IntN(22) {
	case 0, 1, 2, 3:
		deny := uint8(0)
		if rnd.IntN(4) == 0 {
			deny = uint8(rnd.IntN(4))
		}
		var o opened
		o, err = c.open(fmt.Sprint("o", rnd.IntN(2)), f, uint8(1+rnd.IntN(3)), deny, wantDeleg, func(a *OpenArgs) { a.WantXor = rnd.IntN(3) == 0; a.Truncate = rnd.IntN(5) == 0 })
		if err == nil {
			add(x.owned, o)
		}
	case 4, 5, 6:
		err = c.close(pick(x.owned[c.name]))
	case 7, 8:
		o := pick(x.owned[c.name])
		sid, _, e := c.lock(o, fmt.Sprint("l", rnd.IntN(2)), LockType(1+rnd.IntN(2)), uint64(rnd.IntN(20)), uint64(1+rnd.IntN(10)))
		if err = e; err == nil {
			add(x.locked, opened{OpenRes: OpenRes{Stateid: sid}, key: o.key})
		}
	case 9:
		o := pick(x.locked[c.name])
		err = c.unlock(o.key, o.Stateid, uint64(rnd.IntN(20)), uint64(1+rnd.IntN(20)))
	case 10, 11, 12:
		for _, r := range w.takeRecalls() {
			if rnd.IntN(4) == 0 {
				w.s.RecallDone(r, errDisk)
				continue
			}
			w.s.RecallDone(r, nil)
		}
		for _, d := range w.s.Delegations() {
			if d.Client == c.id && d.Recalled != 0 {
				err = c.delegReturn(d.File, d.Stateid)
			}
		}
	case 13:
		err = c.delegReturn(pick(x.owned[c.name]).key, pick(x.owned[c.name]).Deleg.Stateid)
	case 14:
		err = w.s.CheckWrite(&f, uint64(c.id), false)
	case 15:
		err = w.s.CheckNames(&f, 0)
	case 16:
		a := &NLMLockArgs{File: f, Owner: LockOwner{Host: fmt.Sprint("h", rnd.IntN(2))}, Type: LockType(1 + rnd.IntN(2)), Offset: uint64(rnd.IntN(20)), Length: 5}
		if rnd.IntN(2) == 0 {
			a.Wait = &Waiter{Granted: func(*Waiter) {}}
		}
		switch rnd.IntN(4) {
		case 0:
			err = w.s.NLMUnlock(w.call40(), a)
		case 1:
			w.s.NLMRelease(a.Owner.Host)
		default:
			_, err = w.s.NLMLock(w.call40(), a)
		}
	case 17:
		err = c.io(pick(x.owned[c.name]).key, pick(x.owned[c.name]).Stateid, Access(1+rnd.IntN(3)))
	case 18:
		sid := pick(x.locked[c.name]).Stateid
		err = c.do(func(call *Call) error { return w.s.FreeStateid(call, Stateid{0, sid.Other}) })
	case 19:
		w.s.LeaseBroken(f)
	case 20:
		o := pick(x.owned[c.name])
		err = c.do(func(call *Call) error {
			_, err := w.s.OpenDowngrade(call, o.key, Stateid{0, o.Stateid.Other}, 0, ShareRead, 0)
			return err
		})
	case 21:
		switch rnd.IntN(6) {
		case 0:
			w.s.RevokeFiles(func(k *FileKey) bool { return *k == f })
		case 1:
			w.s.ConnClosed(c.conn)
		case 2:
			w.s.SetCallbackPath(w.s.clientByID(c.id), rnd.IntN(2) == 0)
		case 3:
			err = w.s.ExpireClient(c.id)
		case 4:
			w.s.Tick()
		case 5:
			w.s.Counters()
			w.s.Clients()
			w.s.Sessions()
			w.s.Delegations()
			w.s.Locks()
		}
	}
	if err == ErrBadSession {
		if n := w.again41(c.name); n != nil {
			n.name, n.w = c.name, c.w
			*c = *n
		}
	}
}

// clientByID gives a client, or one that is gone.
func (s *State) clientByID(id ClientID) *Client {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if c := s.clients[id]; c != nil {
		return c
	}
	return &Client{s: s, gone: true}
}

// again41 is ready41 for a client that may meet trouble.
func (w *world) again41(name string) *cl41 {
	r, err := w.exchange(name, 1, who(0), 0)
	if err != nil {
		return nil
	}
	c := &cl41{w: w, id: r.ClientID, seq: r.Sequence, cred: who(0), conn: nextConn.Add(1), slot: map[uint32]uint32{}}
	s, err := w.s.CreateSession(&Call{Minor: 1, MayBlock: true, Principal: c.cred, Conn: c.conn}, &CreateSessionArgs{
		ClientID: c.id, Sequence: c.seq, Flags: SessionConnBack, Fore: attrs, Back: attrs})
	if err != nil {
		return nil
	}
	c.sess = s.SessionID
	c.do(func(call *Call) error { return w.s.ReclaimComplete(call, false) })
	return c
}

func TestChaos(t *testing.T) {
	for seed := range uint64(4) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			w := newWorld(t, withLocal, func(c *Config) {
				c.Recovery = &memRecovery{}
				if seed%2 == 1 {
					c.Leases = &fakeLeases{watch: seed%4 == 1}
				}
			})
			w.answer = func(r Recall) { w.s.DelegAttrsDone(r, DelegAttrs{}, nil) }
			x := &chaos{w: w, rnd: rand.New(rand.NewPCG(seed, 2)), owned: map[string][]opened{}, locked: map[string][]opened{}}
			var clients []*cl41
			for n := range 4 {
				clients = append(clients, w.ready41(fmt.Sprint("client ", n)))
			}
			for range 2000 {
				if x.rnd.IntN(30) == 0 {
					w.advance(time.Duration(x.rnd.IntN(100)) * time.Second)
				}
				x.step(clients[x.rnd.IntN(4)])
				w.settle()
				w.check()
			}
			c := w.s.Counters()
			if c.DelegsGranted == 0 || c.DelegsRevoked == 0 || c.DelegsReturned == 0 || c.ClientsEnded == 0 || c.LocksDenied == 0 || c.SharesDenied == 0 {
				t.Fatalf("nothing much happened: %+v", c)
			}
		})
	}
}

// TestParallel is chaos from many goroutines: the race detector looks on, and at the end all must add up.
func TestParallel(t *testing.T) {
	w := newWorld(t, withLocal, func(c *Config) {
		c.Recovery = &memRecovery{}
		c.Leases = &fakeLeases{watch: true}
	})
	w.answer = func(r Recall) { go w.s.DelegAttrsDone(r, DelegAttrs{}, nil) }
	var all sync.WaitGroup
	for n := range 8 {
		all.Add(1)
		go func() {
			defer all.Done()
			x := &chaos{w: w, rnd: rand.New(rand.NewPCG(uint64(n), 3)), owned: map[string][]opened{}, locked: map[string][]opened{}}
			name := fmt.Sprint("client ", n)
			c := w.again41(name)
			for c == nil { // the clock went past its EXCHANGE_ID
				c = w.again41(name)
			}
			c.name = name
			for i := range 400 {
				if i%50 == 0 && n == 0 {
					w.advance(20 * time.Second)
				}
				x.step(c)
			}
		}()
	}
	all.Wait()
	w.settle()
	w.check()
	// And everything can be taken away again.
	for _, c := range w.s.Clients() {
		ok(t, "expire", w.s.ExpireClient(c.ID))
	}
	for _, h := range []string{"h0", "h1"} {
		w.s.NLMRelease(h)
	}
	w.s.NLMRelease("h0") // what was granted meanwhile
	w.check()
	if len(w.s.files) != 0 || len(w.s.Locks()) != 0 || w.s.Counters().ReplyCacheReserved != 0 {
		t.Fatalf("%d files, %v locks, %+v", len(w.s.files), w.s.Locks(), w.s.Counters())
	}
}
