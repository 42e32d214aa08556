// OPEN, OPEN_CONFIRM, OPEN_DOWNGRADE, CLOSE (RFC 7530 16.16, 16.18, 16.19, 16.2; RFC 8881 18.16, 18.18, 18.2).

package state

import "sync/atomic"

// openState is an open: one owner, one file. Fields under State.mu but for advice.
type openState struct {
	stid
	owner  *owner
	access uint8
	deny   uint8
	modes  shareModes
	pin    Pin
	advice atomic.Uint64
	locks  map[*lockState]struct{}
}

// shareModes is the set of (access, deny) pairs that an open was made of; bit access*4+deny.
type shareModes uint16

func shareBit(access, deny uint8) shareModes { return 1 << (access*4 + deny) }

// subset tells whether some of the pairs sum up to just (access, deny), and which: all that fit in.
func (m shareModes) subset(access, deny uint8) (shareModes, bool) {
	var sumA, sumD uint8
	var got shareModes
	for a := uint8(0); a < 4; a++ {
		for d := uint8(0); d < 4; d++ {
			if m&shareBit(a, d) != 0 && a&^access == 0 && d&^deny == 0 {
				sumA, sumD, got = sumA|a, sumD|d, got|shareBit(a, d)
			}
		}
	}
	return got, sumA == access && sumD == deny
}

// openInFlight is what OpenBegin leaves for Open, and Open for OpenUndo.
type openInFlight struct {
	owner   *owner
	opened  *openState
	created bool // opened was made by this Open
	before  struct {
		access, deny uint8
		modes        shareModes
	}
	deleg *deleg    // given out by this Open
	lease DelegType // wanted, once the kernel has granted its lease
}

// OpenBegin is the first half of OPEN: the owner, for 4.0 its seqid (ErrReplay: Call.Replay, Call.ReplayFH), and grace. The
// second half, once the file is known, is Open.
func (s *State) OpenBegin(call *Call, a *OpenBeginArgs) (err error) {
	defer s.abandon(call, &err)
	if len(a.Owner) > MaxOwner {
		return ErrInval
	}
	call.open = openInFlight{}
	o, err := s.openOwner(call, a)
	if err != nil {
		return err
	}
	call.open.owner = o
	if err := s.openGrace(call, o.client, a.Claim == ClaimPrevious); err != nil {
		return err
	}
	switch a.Claim {
	case ClaimPrevious:
		if call.Minor == 0 && !o.confirmed {
			// A reclaim needs no OPEN_CONFIRM (RFC 7530 9.1.11). It is the first sign that a 4.0 client is back.
			if err := s.recordClient(call, o.client); err != nil {
				return err
			}
			s.enter()
			o.confirmed = true
			s.leave()
		}
	case ClaimDelegatePrev, ClaimDelegPrevFH:
		return ErrNotSupp // delegations do not outlive the client's restart
	}
	return nil
}

// Open is the second half of OPEN: shares, delegations of others, the stateid, perhaps a delegation. After a failure
// nothing is changed.
func (s *State) Open(call *Call, a *OpenArgs) (res OpenRes, err error) {
	defer s.abandon(call, &err)
	res, err = s.open(call, a)
	if err != nil && a.Pin != nil {
		a.Pin.Release()
	}
	return res, err
}

func (s *State) open(call *Call, a *OpenArgs) (res OpenRes, err error) {
	if a.Access == 0 || a.Access > ShareBoth || a.Deny > ShareBoth {
		return res, ErrInval
	}
	if call.open.owner == nil {
		panic("state: Open without OpenBegin")
	}
	for {
		res, victims, err := s.tryOpen(call, a)
		if len(victims) == 0 {
			if err == nil && call.open.lease != DelegNone {
				res.Deleg = s.leaseDeleg(call, a)
			}
			if err == nil && a.WantXor && res.Deleg.Type != DelegNone {
				res.NoStateid = s.xorOpen(call)
			}
			return res, err
		}
		if !call.MayBlock {
			return res, ErrWouldBlock
		}
		if !s.expire(victims, endLease) {
			return res, ErrDelay
		}
	}
}

// tryOpen gives the expired clients that are in the way, if that is all that is.
func (s *State) tryOpen(call *Call, a *OpenArgs) (res OpenRes, victims []*Client, err error) {
	now := s.enter()
	defer s.leave()
	o := call.open.owner
	c := o.client
	if c.gone || o.gone && call.Minor == 0 {
		return res, nil, ErrExpired
	}
	if o.gone { // it had nothing open at OpenBegin, or has lost it since
		if known := c.openOwners[o.name]; known != nil {
			o = known
			call.open.owner = o
		}
	}
	var own *deleg // the delegation that the open is claimed from
	if a.Claim == ClaimDelegateCur || a.Claim == ClaimDelegCurFH {
		if own, err = s.claimedDeleg(call, a); err != nil {
			return res, nil, err
		}
		o.confirmed = true
	}
	f := s.files[a.File]
	if f != nil {
		if f.conflicts(a.Access, a.Deny) {
			if list := f.expiredHolders(a.Access, a.Deny, now); len(list) > 0 {
				return res, list, nil
			}
			s.counts.sharesDenied.Add(1)
			if a.Claim == ClaimPrevious {
				return res, nil, ErrReclaimConflict
			}
			return res, nil, ErrShareDenied
		}
		write := a.Access&ShareWrite != 0 || a.Truncate || a.Deny&ShareRead != 0
		busy, list := s.recallOthers(f, c.id, write, a.Truncate, now)
		if len(list) > 0 {
			return res, list, nil
		}
		if busy {
			return res, nil, ErrDelay
		}
		s.selfConflict(f, write)
	}
	st := o.states[a.File]
	if st == nil && (c.nopens >= s.cfg.MaxOpens || !c.objectRoom() || o.gone && !c.ownerRoom(now)) {
		return res, nil, ErrResource
	}
	call.open.opened, call.open.created, call.open.deleg, call.open.lease = st, st == nil, nil, DelegNone
	if st == nil {
		if o.gone {
			o.file()
		}
		st = &openState{owner: o, pin: a.Pin, locks: map[*lockState]struct{}{}}
		st.file, st.key = s.getFile(&a.File), a.File
		c.addStateid(st)
		c.nopens++
		o.states[a.File] = st
		o.idleSince = 0
		st.file.opens[st] = struct{}{}
		call.open.opened = st
	} else {
		call.open.before.access, call.open.before.deny, call.open.before.modes = st.access, st.deny, st.modes
		if a.Pin != nil {
			s.later(a.Pin.Release) // one is enough
		}
	}
	st.setShare(st.access|a.Access, st.deny|a.Deny, st.modes|shareBit(a.Access, a.Deny))
	st.bump()
	s.forgetClosed(o)
	res = OpenRes{
		Stateid: st.stateid(), Upgraded: !call.open.created,
		Confirm: call.Minor == 0 && !o.confirmed, MayNotify: call.Minor > 0 && s.cfg.Callbacks != nil,
	}
	res.Deleg, call.open.lease = s.delegate(call, a, own, now)
	return res, nil, nil
}

// setShare changes an open's shares and the file's sums with them.
func (o *openState) setShare(access, deny uint8, modes shareModes) {
	f := o.file
	f.share(o.access, o.deny, -1)
	o.access, o.deny, o.modes = access, deny, modes
	f.share(access, deny, 1)
	f.changed()
}

// OpenUndo takes back the Open of this call: what had to follow it failed.
func (s *State) OpenUndo(call *Call) {
	s.enter()
	defer s.leave()
	fl := &call.open
	if d := fl.deleg; d != nil && d.status == stidLive {
		s.dropDeleg(d)
	}
	switch st := fl.opened; {
	case st == nil || st.status != stidLive:
	case fl.created:
		s.dropOpen(st)
	default:
		st.setShare(fl.before.access, fl.before.deny, fl.before.modes)
	}
	fl.opened, fl.deleg = nil, nil
}

// dropOpen ends an open and the locks under it.
func (s *State) dropOpen(o *openState) {
	for l := range o.locks {
		s.dropLockState(l)
	}
	s.unshare(o)
	o.client.removeStateid(&o.stid)
	o.status = stidClosed
}

// unshare takes an open out of its file and its owner; its stateid stays.
func (s *State) unshare(o *openState) {
	f, c := o.file, o.client
	f.share(o.access, o.deny, -1)
	o.access, o.deny, o.modes = 0, 0, 0
	delete(f.opens, o)
	f.changed()
	o.file = nil
	c.nopens--
	delete(o.owner.states, o.key)
	if len(o.owner.states) == 0 {
		o.owner.idleSince = s.now()
		if c.minor > 0 {
			o.owner.unfile()
		}
	}
	if o.pin != nil {
		s.later(o.pin.Release)
		o.pin = nil
	}
}

// OpenConfirm confirms a 4.0 open owner. The client is on stable storage before it returns.
func (s *State) OpenConfirm(call *Call, file FileKey, sid Stateid, seqid uint32) (res Stateid, err error) {
	defer s.abandon(call, &err)
	st, err := s.turnFor(call, &file, sid, seqid, seqConfirm)
	if err != nil {
		return Stateid{}, err
	}
	o, ok := st.(*openState)
	if !ok || o.owner.confirmed {
		return Stateid{}, ErrBadStateid
	}
	if err := s.recordClient(call, o.client); err != nil {
		return Stateid{}, err
	}
	s.enter()
	defer s.leave()
	if o.status != stidLive {
		return Stateid{}, ErrExpired
	}
	o.owner.confirmed = true
	o.bump()
	return o.stateid(), nil
}

// OpenDowngrade reduces an open to shares that some of its OPENs add up to; anything else is ErrInval. Linux lets through
// some that do not add up (the comment at set_deny in fs/nfsd/nfs4state.c says so); RFC 7530 16.19.4 does not.
func (s *State) OpenDowngrade(call *Call, file FileKey, sid Stateid, seqid uint32, access, deny uint8) (res Stateid, err error) {
	defer s.abandon(call, &err)
	if access == 0 || access > ShareBoth || deny > ShareBoth {
		return Stateid{}, ErrInval
	}
	st, err := s.turnFor(call, &file, sid, seqid, seqDowngrade)
	if err != nil {
		return Stateid{}, err
	}
	s.enter()
	defer s.leave()
	o, ok := st.(*openState)
	if !ok || o.status != stidLive || !o.owner.confirmed {
		return Stateid{}, ErrBadStateid
	}
	modes, ok := o.modes.subset(access, deny)
	if !ok {
		return Stateid{}, ErrInval
	}
	o.setShare(access, deny, modes)
	o.bump()
	return o.stateid(), nil
}

// CloseFile ends an open. Locks still held under it go too, as in Linux (RFC 7530 16.2.4 leaves the choice). ErrDelay: a
// LOCK is under way. What it gives back for 4.1 is the invalid stateid (RFC 8881 18.2.4).
func (s *State) CloseFile(call *Call, file FileKey, sid Stateid, seqid uint32) (res Stateid, err error) {
	defer s.abandon(call, &err)
	st, err := s.turnFor(call, &file, sid, seqid, seqClose)
	if err != nil {
		return Stateid{}, err
	}
	s.enter()
	o, ok := st.(*openState)
	if !ok || o.status != stidLive || !o.owner.confirmed {
		s.leave()
		return Stateid{}, ErrBadStateid
	}
	var held []*lockState
	for l := range o.locks {
		if l.busy > 0 || l.closing {
			s.leave()
			return Stateid{}, ErrDelay
		}
		if l.owner.held[l.key] > 0 {
			held = append(held, l)
		}
	}
	if len(held) > 0 {
		// The ranges go before the stateids: had a new LOCK of the same owner come in between, it would lose its ranges
		// to this CLOSE.
		for l := range o.locks {
			l.closing = true
		}
		s.leave()
		deltas := make([]int, len(held))
		for i, l := range held {
			deltas[i] = s.locks.releaseOwner(&l.key, l.who)
		}
		s.enter()
		for i, l := range held {
			l.countRanges(deltas[i])
		}
		if o.status != stidLive { // the client went
			s.leave()
			return Stateid{}, ErrExpired
		}
	}
	defer s.leave()
	for l := range o.locks {
		l.closing = false
		s.dropLockState(l)
	}
	o.bump()
	if call.Minor > 0 {
		s.dropOpen(o)
		return InvalidStateid, nil
	}
	// 4.0 has no such thing; Linux gives the bumped one. The owner keeps it for a CLOSE sent again.
	res = o.stateid()
	own := o.owner
	s.forgetClosed(own)
	s.unshare(o)
	o.status = stidClosed
	own.closed = o
	return res, nil
}
