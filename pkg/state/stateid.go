// Stateids: what they stand for, how they are checked, TEST_STATEID and FREE_STATEID.
//
// A stateid is valid for one client and one file; its seqid counts the changes of the state behind it (RFC 7530 9.1.4,
// RFC 8881 8.2). The order of checks and the choice of errors follow Linux's nfsd4_lookup_stateid and
// nfs4_preprocess_stateid_op.

package state

// stateful is what a stateid stands for: *openState, *lockState or *deleg.
type stateful interface{ base() *stid }

// stid is what the three kinds share. Fields under State.mu, except those that never change.
type stid struct {
	client *Client
	num    uint32
	file   *file // nil once revoked or closed
	key    FileKey
	seqid  uint32
	status stidStatus
}

func (s *stid) base() *stid { return s }

type stidStatus uint8

const (
	stidLive    stidStatus = iota
	stidClosed             // 4.0: kept so that a CLOSE sent again finds its owner
	stidRevoked            // a delegation that was not returned in time
	stidAdmin              // revoked by the administrator
)

// stateid gives the stateid as of now.
func (s *stid) stateid() Stateid { return Stateid{s.seqid, makeOther(s.client.id, s.num)} }

// bump counts a change. 0 is left out: with sessions it means "the latest".
func (s *stid) bump() {
	if s.seqid++; s.seqid == 0 {
		s.seqid = 1
	}
}

// addStateid gives a new state its number.
func (c *Client) addStateid(st stateful) {
	for {
		c.lastState++
		if _, used := c.stateids[c.lastState]; !used && c.lastState != 0 {
			break
		}
	}
	b := st.base()
	b.client, b.num = c, c.lastState
	c.stateids[b.num] = st
	c.countObjects(1)
}

func (c *Client) removeStateid(b *stid) {
	if _, ok := c.stateids[b.num]; !ok {
		panic("state: a stateid is removed twice")
	}
	delete(c.stateids, b.num)
	c.countObjects(-1)
}

// lookup finds the state behind a stateid. With a session, it must be of the session's client. It looks at neither seqid
// nor file. The caller holds the lock, shared at least.
func (s *State) lookup(call *Call, sid Stateid) (stateful, error) {
	if sid.Special() {
		return nil, ErrBadStateid
	}
	id := sid.Other.Client()
	if uint32(id>>32) != s.boot {
		if call.Minor > 0 {
			return nil, ErrBadStateid // as Linux: with sessions, a restart shows earlier
		}
		return nil, ErrStaleStateid
	}
	var c *Client
	if call.Minor > 0 {
		if call.Client == nil {
			panic("state: an operation before Sequence")
		}
		if c = call.Client; c.id != id {
			return nil, ErrBadStateid
		}
	} else {
		c = s.clients[id]
		if c == nil || !c.isConfirmed {
			return nil, ErrExpired
		}
		if c.minor != 0 {
			return nil, ErrBadStateid
		}
		if c.expiring.Load() {
			return nil, ErrDelay
		}
	}
	st := c.stateids[sid.Other.number()]
	if st == nil {
		return nil, ErrBadStateid
	}
	call.known = c.id
	return st, nil
}

// live gives the error for a state that is not in force.
func (b *stid) live() error {
	switch b.status {
	case stidRevoked:
		return ErrDelegRevoked
	case stidAdmin:
		return ErrAdminRevoked
	case stidClosed:
		return ErrBadStateid
	}
	return nil
}

// checkSeqid compares generations. With sessions, 0 is the latest (RFC 8881 8.2.2). One from the future is bad; numbers wrap.
func (b *stid) checkSeqid(call *Call, seqid uint32) error {
	switch {
	case call.Minor > 0 && seqid == 0, seqid == b.seqid:
		return nil
	case int32(seqid-b.seqid) > 0:
		return ErrBadStateid
	}
	return ErrOldStateid
}

// check is lookup, life, seqid and file in one, for operations without an owner's seqid.
func (s *State) check(call *Call, file *FileKey, sid Stateid) (stateful, error) {
	st, err := s.lookup(call, sid)
	if err != nil {
		return nil, err
	}
	b := st.base()
	if err := b.live(); err != nil {
		return nil, err
	}
	if err := b.checkSeqid(call, sid.Seqid); err != nil {
		return nil, err
	}
	if b.key != *file {
		return nil, ErrBadStateid
	}
	return st, nil
}

// CheckIO decides whether a stateid allows an access to a file. The special stateids stand for no open: they wait for the
// end of grace, and View's Guard looks at share denials. ReadBypass reads past those.
func (s *State) CheckIO(call *Call, file FileKey, sid Stateid, want Access) (IO, error) {
	io := IO{Client: call.ClientID()}
	if sid == ReadBypass && want == AccessRead {
		// Share denials are of no account, delegations are (and CheckRead, which is not to look, would see both).
		if s.interest[s.hash(&file)%interestSlots].Load() != 0 {
			if err := s.breakFor(&file, io.Client, false, false); err != nil {
				return io, err
			}
		}
		io.Opened = true
		return io, nil
	}
	if sid == Anonymous || sid == ReadBypass {
		if s.InGrace() {
			return io, ErrGrace // whether anything conflicts is known only after it
		}
		return io, nil
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	st, err := s.check(call, &file, sid)
	if err != nil {
		return io, err
	}
	b := st.base()
	if call.Minor == 0 {
		b.client.renew(s.now())
		io.Client = b.client.id
	}
	io.Opened = true
	switch st := st.(type) {
	case *deleg:
		if want == AccessWrite && st.typ != DelegWrite {
			return io, ErrOpenMode
		}
		io.Advice = st.advice.Load()
	case *openState:
		err = st.allows(want, &io)
	case *lockState:
		err = st.open.allows(want, &io)
	}
	return io, err
}

// allows tells whether an open permits an access. Reading through one for writing only is allowed, since clients read what
// surrounds a partial write (RFC 7530 9.1.4, "the server may choose"; Linux does).
func (o *openState) allows(want Access, io *IO) error {
	if !o.owner.confirmed {
		return ErrBadStateid
	}
	if want == AccessWrite && o.access&ShareWrite == 0 {
		return ErrOpenMode
	}
	io.Advice = o.advice.Load()
	return nil
}

// SetAdvice notes on an open or a delegation what the client says of its accesses (IO_ADVISE); CheckIO gives it back.
func (s *State) SetAdvice(call *Call, file FileKey, sid Stateid, advice uint64) error {
	s.mu.RLock()
	defer s.mu.RUnlock()
	st, err := s.check(call, &file, sid)
	if err != nil {
		return err
	}
	switch st := st.(type) {
	case *openState:
		st.advice.Store(advice)
	case *lockState:
		st.open.advice.Store(advice)
	case *deleg:
		st.advice.Store(advice)
	}
	return nil
}

// TestStateid gives the status of a stateid, nil when it is good (RFC 8881 18.48).
func (s *State) TestStateid(call *Call, sid Stateid) error {
	s.mu.RLock()
	defer s.mu.RUnlock()
	st, err := s.lookup(call, sid)
	if err != nil {
		return err
	}
	b := st.base()
	if err := b.live(); err != nil {
		return err
	}
	return b.checkSeqid(call, sid.Seqid)
}

// FreeStateid forgets a stateid that holds nothing any more (RFC 8881 18.38). ErrLocksHeld: it does.
func (s *State) FreeStateid(call *Call, sid Stateid) error {
	s.enter()
	defer s.leave()
	st, err := s.lookup(call, sid)
	if err != nil {
		return err
	}
	b := st.base()
	if b.status == stidRevoked || b.status == stidAdmin {
		b.client.forgetRevoked(b)
		return nil
	}
	if err := b.checkSeqid(call, sid.Seqid); err != nil {
		return err
	}
	if l, ok := st.(*lockState); ok && l.owner.held[l.key] == 0 && l.busy == 0 {
		s.dropLockState(l)
		return nil
	}
	return ErrLocksHeld
}

// forgetRevoked drops a stateid that was kept only to tell of its revocation.
func (c *Client) forgetRevoked(b *stid) {
	if b.status == stidRevoked {
		c.nrevoked--
	} else {
		c.nadmin--
	}
	c.removeStateid(b)
	c.setStatus()
}
