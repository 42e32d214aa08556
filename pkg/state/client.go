// Client records: what one client holds, and how it ends.
//
// A record is unconfirmed, then confirmed, then gone. Past its lease a confirmed client is a courtesy client: it keeps all
// it has and may come back at any time (Linux since 5.19; RFC 8881 8.3 allows it), until somebody wants what it holds.

package state

import (
	"container/list"
	"hash/maphash"
	"slices"
	"sync/atomic"
	"time"

	"sluice/pkg/trace"
)

// Client is a client record. Its methods may be called from any goroutine.
type Client struct {
	s        *State
	id       ClientID
	owner    string // nfs_client_id4.id or client_owner4.co_ownerid
	minor    uint8  // 0, or 1 for all with sessions
	began    uint8  // the minor version of its first call, for admin output
	verifier Verifier
	addr     string // where the record came from, for admin output
	peer     *peer
	impl     string
	machCred bool
	cred     Principal

	renewed  atomic.Int64  // when the lease was last renewed
	inflight atomic.Int32  // COMPOUNDs running in its sessions
	expiring atomic.Bool   // its record is being taken off stable storage; after that it goes
	status   atomic.Uint32 // flags for SEQUENCE, kept by setStatus

	// Under State.mu.
	isConfirmed bool
	gone        bool
	queued      bool           // in State.reap
	confirm     Verifier       // 4.0
	cb          CallbackTarget // 4.0
	cbState     cbState

	sessions map[SessionID]*Session
	create   createSlot // CREATE_SESSION's own slot

	complete bool // RECLAIM_COMPLETE was done
	recorded bool // on stable storage in this epoch

	openOwners     map[string]*owner
	lockOwners     map[string]*owner
	stateids       map[uint32]stateful
	lastState      uint32
	nopens         int
	ndelegs        int
	ranges         int                 // byte ranges
	places         int                 // lock owners' files with ranges
	recalled       map[*deleg]struct{} // waiting to be returned
	nrevoked       int                 // revoked delegations waiting for FREE_STATEID
	nextOwnerSweep int64
	nadmin         int           // stateids revoked by the administrator
	aged           *list.Element // in peer.unconfirmed
}

type cbState uint8

const (
	cbUnknown cbState = iota
	cbUp
	cbDown
	cbFault
)

// ID returns the client id.
func (c *Client) ID() ClientID { return c.id }

// Minor returns 0 for a 4.0 client, 1 for one with sessions.
func (c *Client) Minor() uint8 { return c.minor }

// Owner returns the name that the client gave itself.
func (c *Client) Owner() []byte { return []byte(c.owner) }

// Callback returns where a 4.0 client takes callbacks.
func (c *Client) Callback() CallbackTarget {
	c.s.mu.RLock()
	defer c.s.mu.RUnlock()
	return c.cb
}

// BackSession returns a session with a connection for callbacks, or nil.
func (c *Client) BackSession() *Session {
	c.s.mu.RLock()
	defer c.s.mu.RUnlock()
	return c.backSession()
}

func (c *Client) backSession() *Session {
	for _, s := range c.sessions {
		if s.hasBack() {
			return s
		}
	}
	return nil
}

// callbacksGood tells whether a delegation could be called back. With sessions, the path counts as good until something
// is heard to the contrary, as in Linux (nfsd4_cb_channel_good).
func (c *Client) callbacksGood() bool {
	if c.s.cfg.Callbacks == nil {
		return false
	}
	if c.minor == 0 {
		return c.cbState == cbUp
	}
	return (c.cbState == cbUp || c.cbState == cbUnknown) && c.backSession() != nil
}

func (c *Client) renew(now int64) { c.renewed.Store(now) }

// expired tells whether the lease has run out. A client with a COMPOUND under way is alive.
func (c *Client) expired(now int64) bool {
	return now-c.renewed.Load() > c.s.lease && c.inflight.Load() == 0
}

// hasState tells whether the client holds anything that its end would take away.
func (c *Client) hasState() bool { return len(c.stateids) > 0 || len(c.sessions) > 0 }

// setStatus works out the flags that SEQUENCE shows. Call it after a change of what they depend on.
func (c *Client) setStatus() {
	var f uint32
	switch c.cbState {
	case cbDown:
		f |= Seq4CBPathDown
	case cbFault:
		f |= Seq4BackchannelFault
	}
	if c.nrevoked > 0 {
		f |= Seq4RecallableRevoked
	}
	if c.nadmin > 0 {
		f |= Seq4AdminRevoked
	}
	c.status.Store(f)
}

// newClient makes an unconfirmed record, for fileUnconfirmed. It gives nil when there is no room.
func (s *State) newClient(now int64, name []byte, minor uint8, v Verifier, call *Call) *Client {
	p := s.peerOf(call.Addr)
	if !p.may(p.clients, len(s.unconfirmed)+len(s.confirmed), s.cfg.MaxClients) && !s.makeRoom(now, p) {
		return nil
	}
	c := &Client{
		s: s, owner: string(name), minor: minor, began: call.Minor, verifier: v, cred: call.Principal, addr: call.Addr, peer: p,
		sessions: map[SessionID]*Session{}, openOwners: map[string]*owner{}, lockOwners: map[string]*owner{},
		stateids: map[uint32]stateful{}, recalled: map[*deleg]struct{}{},
	}
	c.renew(now)
	return c
}

// fileUnconfirmed files a new record under its owner.
func (s *State) fileUnconfirmed(c *Client) {
	s.unconfirmed[c.owner] = c
	c.peer.joins(s)
	c.aged = c.peer.unconfirmed.PushBack(c)
}

// newID gives the next client id. Ids are not used twice in 2^32 clients, nor across starts: the boot id is in them. Nor
// are they to be guessed: nothing else keeps one client from acting for another (RFC 8881 has principals checked for
// SP4_MACH_CRED only, 18.34, 18.36, 18.37, 18.50, and so does Linux: nfsd4_mach_creds_match in nfsd4_destroy_session and its likes).
func (s *State) newID() ClientID {
	for {
		s.lastClient++
		n := s.scramble(s.lastClient)
		id := ClientID(s.boot)<<32 | ClientID(n)
		if _, used := s.clients[id]; !used && n != 0 {
			return id
		}
	}
}

// scramble gives a number for each number, in an order that only this start's seed tells (a Feistel network).
func (s *State) scramble(n uint32) uint32 {
	l, r := uint16(n>>16), uint16(n)
	for round := range byte(4) {
		h := maphash.Bytes(s.seed, []byte{round, byte(r >> 8), byte(r)})
		l, r = r, l^uint16(h)
	}
	return uint32(l)<<16 | uint32(r)
}

// makeRoom makes room for one more record of a peer: it drops an unconfirmed record, the peer's oldest, or of all the
// oldest when the table is full; else an expired client has to go first. It reports whether there is room now.
func (s *State) makeRoom(now int64, p *peer) bool {
	full := len(s.unconfirmed)+len(s.confirmed) >= s.cfg.MaxClients
	var old *Client
	for _, q := range s.peers {
		if e := q.unconfirmed.Front(); e != nil && (full || q == p) {
			if c := e.Value.(*Client); old == nil || c.renewed.Load() < old.renewed.Load() {
				old = c
			}
		}
	}
	if old != nil {
		s.dropUnconfirmed(old)
		return true
	}
	s.short(now, p)
	return false
}

// dropUnconfirmed forgets a record that holds nothing.
func (s *State) dropUnconfirmed(c *Client) {
	if c.isConfirmed || len(c.stateids) > 0 || len(c.sessions) > 0 {
		panic("state: an unconfirmed client holds state")
	}
	s.takeUnconfirmed(c)
	c.peer.leaves(s)
	if s.clients[c.id] == c {
		delete(s.clients, c.id)
	}
	c.gone = true
}

// takeUnconfirmed takes a record out of the unconfirmed ones.
func (s *State) takeUnconfirmed(c *Client) {
	delete(s.unconfirmed, c.owner)
	c.peer.unconfirmed.Remove(c.aged)
	c.aged = nil
}

// confirmClient moves a record from the unconfirmed to the confirmed ones. The owner has no other confirmed record.
func (s *State) confirmClient(c *Client, now int64) {
	if s.confirmed[c.owner] != nil || s.unconfirmed[c.owner] != c {
		panic("state: two confirmed records of one client")
	}
	s.takeUnconfirmed(c)
	c.isConfirmed = true
	s.confirmed[c.owner] = c
	s.clients[c.id] = c
	c.renew(now)
	s.traceClient(trace.NFS4ClientBegin, c, "")
}

// checkBoot tells a client id of another start from one of a client that is no more.
func (s *State) checkBoot(id ClientID) error {
	if uint32(id>>32) != s.boot {
		return ErrStaleClientID
	}
	return ErrExpired
}

// client40 finds a confirmed 4.0 client by its id and renews its lease. The caller holds the lock.
func (s *State) client40(id ClientID, now int64) (*Client, error) {
	c := s.clients[id]
	if c == nil || !c.isConfirmed || c.minor != 0 {
		return nil, s.checkBoot(id)
	}
	if c.expiring.Load() {
		return nil, ErrDelay
	}
	c.renew(now)
	return c, nil
}

// clientOf finds the client of a call: the session's, or for 4.0 the one of that id.
func (s *State) clientOf(call *Call, id ClientID, now int64) (*Client, error) {
	if call.Minor == 0 {
		c, err := s.client40(id, now)
		if err == nil {
			call.known = id
		}
		return c, err
	}
	if call.Client == nil {
		panic("state: an operation before Sequence")
	}
	if call.Client.gone {
		return nil, ErrBadSession
	}
	return call.Client, nil
}

// destroy takes all a client has. Its ranges of the lock table and whatever needs a system call follow in leave.
func (s *State) destroy(c *Client) {
	if c.gone {
		panic("state: a client is destroyed twice")
	}
	for _, sess := range c.sessions {
		s.dropSession(sess)
	}
	for _, st := range c.stateids {
		if o, ok := st.(*openState); ok && o.status == stidLive {
			s.dropOpen(o) // with its locks
		}
	}
	for _, st := range c.stateids {
		if d, ok := st.(*deleg); ok && d.status == stidLive {
			s.dropDeleg(d)
		}
	}
	c.countObjects(-len(c.stateids))
	clear(c.stateids) // what is left was closed or revoked, and holds nothing
	for _, o := range c.openOwners {
		o.unfile()
	}
	for _, o := range c.lockOwners {
		o.unfile()
	}
	if c.isConfirmed {
		delete(s.confirmed, c.owner)
	} else {
		s.takeUnconfirmed(c)
	}
	delete(s.clients, c.id)
	c.addRanges(-c.ranges)
	c.addPlaces(-c.places)
	c.peer.leaves(s)
	c.gone = true
	s.later(func() {
		s.locks.releaseClient(c.id)
		if s.cfg.Callbacks != nil {
			s.cfg.Callbacks.Gone(c)
		}
	})
}

// expire ends clients whose lease has run out, or with another reason whatever their lease: first their records on stable storage,
// so that after a crash they cannot reclaim what somebody else has got in the meantime, then their state. It may sleep;
// the caller does not hold the lock. It reports whether all are gone.
func (s *State) expire(victims []*Client, why ending) bool {
	s.ending.Lock()
	going, all := s.markExpiring(victims, why != endLease)
	s.record.Lock() // not while calls of the victims go on: others' records wait for it
	if !s.removeRecords(going) {
		s.record.Unlock()
		s.ending.Unlock()
		return false
	}
	s.mu.Lock()
	for _, c := range going {
		if !c.gone {
			c.recorded = false
			s.grace.forget(s, c.owner)
			s.destroy(c)
			s.counts.clientsEnded.Add(1)
			if why == endLease || why == endAdmin {
				s.counts.clientsExpired.Add(1)
			}
			s.traceClient(trace.NFS4ClientEnd, c, string(why))
		}
	}
	s.record.Unlock()
	s.ending.Unlock() // before leave: who gets the locks may come here again
	s.leave()
	return all
}

// markExpiring keeps new calls of the victims out and waits a little for those under way. all is false when one is alive.
func (s *State) markExpiring(victims []*Client, force bool) (going []*Client, all bool) {
	all = true
	now := s.now()
	s.mu.Lock()
	for _, c := range victims {
		if c.gone {
			continue
		}
		// The flag first, the check second; Sequence does it the other way round. One of the two sees the other.
		c.expiring.Store(true)
		if !force && !c.expired(now) {
			c.expiring.Store(false)
			all = false
			continue
		}
		going = append(going, c)
	}
	s.mu.Unlock()
	going = slices.DeleteFunc(going, func(c *Client) bool {
		for i := 0; c.inflight.Load() > 0; i++ {
			if i == s.drain {
				c.expiring.Store(false)
				all = false
				return true
			}
			time.Sleep(drainPause)
		}
		return false
	})
	return going, all
}

// removeRecords takes clients off stable storage. When that fails they stay as they are.
func (s *State) removeRecords(going []*Client) bool {
	var remove [][]byte
	s.mu.RLock()
	for _, c := range going {
		if s.cfg.Recovery != nil && (c.recorded || s.grace.has(c.owner)) {
			remove = append(remove, []byte(c.owner))
		}
	}
	s.mu.RUnlock()
	if len(remove) == 0 {
		return true
	}
	err := s.cfg.Recovery.Remove(remove)
	if err == nil {
		return true
	}
	for _, c := range going {
		c.expiring.Store(false)
	}
	s.counts.storageErrors.Add(1)
	s.logf("client %q: its record can't be removed, so its state is kept and what conflicts with it waits: %v", remove[0], err)
	return false
}

// How long the end of a client waits for its calls under way.
const (
	drainTries = 50
	drainPause = 2 * time.Millisecond
)

// replace ends a confirmed client so that another record can take its place. The caller does not hold the lock; it looks
// at everything again afterwards.
func (s *State) replace(c *Client, call *Call, why ending) error {
	if !call.MayBlock {
		return ErrWouldBlock
	}
	if !s.expire([]*Client{c}, why) {
		return ErrDelay
	}
	return nil
}

// find gives the confirmed and the unconfirmed record of an id. A 4.0 client that updates its callback has both.
func (s *State) find(id ClientID) (conf, unconf *Client) {
	c := s.clients[id]
	if c == nil {
		return nil, nil
	}
	if !c.isConfirmed {
		return nil, c
	}
	if u := s.unconfirmed[c.owner]; u != nil && u.id == id {
		unconf = u
	}
	return c, unconf
}

// queueReap has an expired client ended in the background. The caller holds the lock.
func (s *State) queueReap(c *Client) {
	if c.gone || c.queued || c.expiring.Load() || s.closed {
		return
	}
	c.queued = true
	s.reap = append(s.reap, c)
	if s.reaping {
		return
	}
	s.reaping = true
	s.async(func() {
		for {
			s.mu.Lock()
			list := s.reap
			s.reap = nil
			if len(list) == 0 || s.closed {
				s.reaping = false
				s.mu.Unlock()
				return
			}
			for _, c := range list {
				c.queued = false
			}
			s.mu.Unlock()
			s.expire(list, endLease)
		}
	})
}

// ExpireClient ends a client at once, whatever its lease: the administrator's word. ErrNoEnt: there is none of that id;
// ErrDelay: it has a call under way, or its record can't be removed.
func (s *State) ExpireClient(id ClientID) error {
	s.mu.Lock()
	c := s.clients[id]
	if c != nil && !c.isConfirmed {
		s.dropUnconfirmed(c)
		s.leave()
		return nil
	}
	s.mu.Unlock()
	if c == nil {
		return ErrNoEnt
	}
	if !s.expire([]*Client{c}, endAdmin) {
		return ErrDelay
	}
	return nil
}
