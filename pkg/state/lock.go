// LOCK, LOCKT, LOCKU, RELEASE_LOCKOWNER (RFC 7530 16.10-16.12, 16.37; RFC 8881 18.10-18.12).

package state

// lockState is a lock owner's locks on a file, under one open. Fields under State.mu.
type lockState struct {
	stid
	owner   *owner
	open    *openState
	who     LockOwner
	busy    int // LOCKs under way
	closing bool
}

// Lock takes a byte range. ErrDenied comes with the lock in the way. What goes wrong on the file itself is an errno from
// LocalLocker.
//
// For a new lock owner the open owner's seqid counts (4.0), and the lock owner's begins; after that its own.
func (s *State) Lock(call *Call, a *LockArgs) (res Stateid, conflict LockConflict, err error) {
	defer s.abandon(call, &err)
	if len(a.Owner) > MaxOwner {
		return res, conflict, ErrInval
	}
	r, err := toRange(a.Offset, a.Length)
	if err != nil {
		return res, conflict, err
	}
	l, made, err := s.lockStateFor(call, a)
	if err != nil {
		return res, conflict, err
	}
	// From here on l.busy keeps the state from going, but for the end of its client.
	conflict, delta, err := s.takeRange(call, a, l, r)
	s.enter()
	defer s.leave()
	l.busy--
	l.countRanges(delta)
	if l.status != stidLive {
		// The client went in the meantime, and with it what it had; what this call added goes now.
		if err == nil {
			s.later(func() { s.locks.releaseOwner(&l.key, l.who) })
		}
		return res, LockConflict{}, ErrExpired
	}
	if err != nil {
		if err == ErrDenied {
			s.counts.locksDenied.Add(1)
		}
		if made && l.busy == 0 {
			s.dropLockState(l) // as Linux: one that never held a lock is forgotten
		}
		return res, conflict, err
	}
	s.counts.locksGranted.Add(1)
	l.bump()
	return l.stateid(), conflict, nil
}

// lockStateFor finds or makes the state that a LOCK is for, marked busy.
func (s *State) lockStateFor(call *Call, a *LockArgs) (l *lockState, made bool, err error) {
	if !a.New {
		st, err := s.turnFor(call, &a.File, a.LockStateid, a.LockSeqid, seqLock)
		if err != nil {
			return nil, false, err
		}
		l, ok := st.(*lockState)
		if !ok {
			return nil, false, ErrBadStateid
		}
		if err := s.openGrace(call, l.client, a.Reclaim); err != nil {
			return nil, false, err
		}
		s.enter()
		defer s.leave()
		return l, false, s.readyLock(l, a.Type)
	}
	st, err := s.turnFor(call, &a.File, a.OpenStateid, a.OpenSeqid, seqLock)
	if err != nil {
		return nil, false, err
	}
	o, ok := st.(*openState)
	if !ok || !o.owner.confirmed || call.Minor == 0 && a.ClientID != o.client.id {
		return nil, false, ErrBadStateid // with sessions the lock owner's client id does not count (RFC 8881 18.10.3)
	}
	if err := s.openGrace(call, o.client, a.Reclaim); err != nil {
		return nil, false, err
	}
	if call.Minor == 0 {
		if err := s.newLockTurn(call, o, a); err != nil {
			return nil, false, err
		}
	}
	s.enter()
	defer s.leave()
	c := o.client
	if o.status != stidLive {
		return nil, false, ErrBadStateid
	}
	lo := call.newLockOwner
	if lo == nil {
		lo = c.lockOwners[string(a.Owner)]
	} else if lo.gone { // since its turn was taken
		return nil, false, ErrDelay
	}
	if lo == nil {
		if lo, err = c.addOwner(string(a.Owner), true, a.LockSeqid, s.now()); err != nil {
			return nil, false, err
		}
	}
	if l = lo.locks[o]; l == nil {
		if !c.objectRoom() {
			return nil, false, ErrResource
		}
		l = &lockState{owner: lo, open: o, who: LockOwner{Client: c.id, Owner: lo.name}}
		l.file, l.key = o.file, o.key
		c.addStateid(l)
		lo.locks[o] = l
		o.locks[l] = struct{}{}
		made = true
	}
	if err := s.readyLock(l, a.Type); err != nil {
		if made {
			s.dropLockState(l)
		}
		return nil, false, err
	}
	return l, made, nil
}

// newLockTurn finds or makes the lock owner of a 4.0 LOCK by open stateid and takes its turn beside the open owner's.
func (s *State) newLockTurn(call *Call, o *openState, a *LockArgs) error {
	for {
		s.enter()
		lo := o.client.lockOwners[string(a.Owner)]
		var err error
		if lo == nil {
			lo, err = o.client.addOwner(string(a.Owner), true, a.LockSeqid, s.now())
		}
		s.leave()
		if err != nil {
			return err
		}
		select {
		case lo.turn <- struct{}{}:
		default:
			if !call.MayBlock {
				return ErrWouldBlock
			}
			lo.turn <- struct{}{}
		}
		s.mu.RLock()
		gone := lo.gone
		s.mu.RUnlock()
		if gone {
			<-lo.turn
			continue
		}
		call.newLockOwner = lo
		if lo.seqid != a.LockSeqid {
			return ErrBadSeqid
		}
		return nil
	}
}

// readyLock checks that the open permits the lock and marks the state busy.
func (s *State) readyLock(l *lockState, typ LockType) error {
	if l.status != stidLive {
		return ErrBadStateid
	}
	if l.closing {
		return ErrDelay
	}
	if typ == WriteLock && l.open.access&ShareWrite == 0 || typ == ReadLock && l.open.access&ShareRead == 0 {
		return ErrOpenMode
	}
	l.busy++
	return nil
}

// takeRange takes the range from the table; expired clients in the way are ended first.
func (s *State) takeRange(call *Call, a *LockArgs, l *lockState, r byteRange) (c LockConflict, delta int, err error) {
	if err := s.rangeRoom(l); err != nil {
		return c, 0, err
	}
	for {
		delta, c, err = s.locks.lock(&l.key, l.who, r, a.Type, nil)
		if err != ErrDenied {
			return c, delta, err
		}
		again, err := s.expireHolder(call, &c)
		if err != nil {
			return c, 0, err
		}
		if !again {
			break
		}
	}
	if a.Reclaim {
		return c, 0, ErrReclaimConflict
	}
	if !a.Blocking || call.Minor == 0 || s.cfg.Callbacks == nil {
		return c, 0, ErrDenied
	}
	client, fh, name := l.client, append([]byte(nil), a.FH...), []byte(l.who.Owner)
	w := &Waiter{notify: true, until: s.now() + max(s.lease, notifyFor), Granted: func(*Waiter) { s.cfg.Callbacks.NotifyLock(client, fh, name) }}
	delta, c, err = s.locks.lock(&l.key, l.who, r, a.Type, w)
	if err == ErrResource { // too many wait already: this one has to poll
		err = ErrDenied
	}
	return c, delta, err
}

// notifyFor is how long at least a client is told of a lock it wants: Linux's asks again after 30 s.
const notifyFor = 40e9 // ns

// expireHolder ends the client that holds a lock in the way, if its lease has run out. It reports whether to try again.
func (s *State) expireHolder(call *Call, c *LockConflict) (again bool, err error) {
	if c.Local || c.Owner.Client == 0 {
		return false, nil
	}
	now := s.enter()
	holder := s.clients[c.Owner.Client]
	expired := holder != nil && holder.expired(now)
	s.leave()
	switch {
	case holder == nil:
		return true, nil // its locks are just going
	case !expired:
		return false, nil
	case !call.MayBlock:
		return false, ErrWouldBlock
	case !s.expire([]*Client{holder}, endLease):
		return false, ErrDelay
	}
	return true, nil
}

// TestLock looks for a lock in the way (LOCKT): ErrDenied and what it is.
func (s *State) TestLock(call *Call, a *TestLockArgs) (LockConflict, error) {
	r, err := toRange(a.Offset, a.Length)
	if err != nil {
		return LockConflict{}, err
	}
	if s.InGrace() {
		return LockConflict{}, ErrGrace
	}
	now := s.enter()
	c, err := s.clientOf(call, a.ClientID, now)
	s.leave()
	if err != nil {
		return LockConflict{}, err
	}
	who := LockOwner{Client: c.id, Owner: string(a.Owner)}
	for {
		conflict, found := s.locks.test(&a.File, who, r, a.Type)
		if !found {
			return LockConflict{}, nil
		}
		again, err := s.expireHolder(call, &conflict)
		if err != nil {
			return LockConflict{}, err
		}
		if !again {
			return conflict, ErrDenied
		}
	}
}

// Unlock lets a byte range go (LOCKU). What was not locked stays so, without an error.
func (s *State) Unlock(call *Call, a *UnlockArgs) (res Stateid, err error) {
	defer s.abandon(call, &err)
	r, err := toRange(a.Offset, a.Length)
	if err != nil {
		return res, err
	}
	st, err := s.turnFor(call, &a.File, a.Stateid, a.Seqid, seqUnlock)
	if err != nil {
		return res, err
	}
	l, ok := st.(*lockState)
	if !ok {
		return res, ErrBadStateid
	}
	s.enter()
	if l.status != stidLive || l.closing {
		s.leave()
		return res, ErrBadStateid
	}
	l.busy++
	s.leave()
	delta := s.locks.unlock(&l.key, l.who, r)
	s.enter()
	defer s.leave()
	l.busy--
	l.countRanges(delta)
	if l.status != stidLive {
		return res, ErrExpired
	}
	l.bump()
	return l.stateid(), nil
}

// ReleaseLockOwner forgets a 4.0 lock owner. ErrLocksHeld: it has locks.
func (s *State) ReleaseLockOwner(call *Call, id ClientID, name []byte) error {
	now := s.enter()
	defer s.leave()
	c, err := s.client40(id, now)
	if err != nil {
		return err
	}
	lo := c.lockOwners[string(name)]
	if lo == nil {
		return nil
	}
	for _, l := range lo.locks {
		if lo.held[l.key] > 0 || l.busy > 0 {
			return ErrLocksHeld
		}
	}
	for _, l := range lo.locks {
		s.dropLockState(l)
	}
	lo.unfile()
	return nil
}

// dropLockState ends a lock stateid. Its ranges are gone already, or go with their client.
func (s *State) dropLockState(l *lockState) {
	l.client.removeStateid(&l.stid)
	l.status = stidClosed
	l.file = nil
	delete(l.open.locks, l)
	delete(l.owner.locks, l.open)
	if len(l.owner.locks) == 0 {
		l.owner.unfile() // a later LOCK begins anew, with any seqid
	}
}
