// Owners, and the sequence ids that 4.0 gives them (RFC 7530 9.1.7): one request at a time, the last reply kept.

package state

// owner is an open owner or, for 4.0, a lock owner. With sessions it is just a name.
type owner struct {
	client *Client
	name   string
	lock   bool          // a lock owner
	turn   chan struct{} // holds a token while a request uses the seqid

	// Under the turn, 4.0.
	seqid    uint32 // expected next
	op       seqOp  // of the request before
	reply    []byte // to the request before; nil: it was too long
	hasReply bool
	replyFH  []byte // the current file handle after an OPEN

	// Under State.mu.
	confirmed bool
	states    map[FileKey]*openState    // of an open owner: one open a file
	locks     map[*openState]*lockState // of a lock owner: one stateid an open
	held      map[FileKey]int           // of a lock owner: its ranges
	closed    *openState                // 4.0: the last one closed, kept for CLOSE sent again
	idleSince int64                     // when the last open went; 0 while there is one
	gone      bool
}

// seqOp is an operation that carries a seqid.
type seqOp uint8

const (
	seqOpen seqOp = iota + 1
	seqConfirm
	seqDowngrade
	seqClose
	seqLock
	seqUnlock
)

// maxReply bounds the replies that owners keep; the longest is LOCK's denial with the holder's name.
const maxReply = MaxOwner + 96

func newOwner(c *Client, name string, lock bool, seqid uint32) *owner {
	o := &owner{client: c, name: name, lock: lock, turn: make(chan struct{}, 1), seqid: seqid}
	if lock {
		o.locks, o.held = map[*openState]*lockState{}, map[FileKey]int{}
	} else {
		o.states = map[FileKey]*openState{}
	}
	return o
}

// takeTurn makes the call the one that uses the owner's seqid, until OwnerDone. The caller does not hold the lock, and
// looks at everything again afterwards: waiting takes as long as the request before.
func (o *owner) takeTurn(call *Call) error {
	if call.owner != nil {
		panic("state: an operation before OwnerDone of the last one")
	}
	select {
	case o.turn <- struct{}{}:
	default:
		if !call.MayBlock {
			return ErrWouldBlock
		}
		o.turn <- struct{}{}
	}
	call.owner = o
	return nil
}

// giveTurn undoes takeTurn when the owner turned out to be the wrong one.
func (o *owner) giveTurn(call *Call) {
	call.owner = nil
	<-o.turn
}

// checkSeqid compares a request's seqid with the owner's; ErrReplay when it is the last request again. The call has the turn.
func (o *owner) checkSeqid(call *Call, seqid uint32, op seqOp) error {
	switch seqid {
	case o.seqid:
		call.op = op
		return nil
	case o.seqid - 1:
		if o.hasReply && o.op == op { // another operation is no replay (RFC 7530 9.1.9; pynfs LKU6c)
			o.client.s.counts.replays.Add(1)
			call.replay, call.replayFH, call.replayed = o.reply, o.replyFH, true
			return ErrReplay
		}
	}
	return ErrBadSeqid
}

// OwnerDone ends an operation that uses an owner's seqid, once its result is encoded; with sessions, or if it found no
// owner, it does nothing. bump: the status is not one of those that leave the seqid as it is (RFC 7530 9.1.7:
// STALE_CLIENTID, STALE_STATEID, BAD_STATEID, BAD_SEQID, BADXDR, RESOURCE, NOFILEHANDLE, MOVED). fh is the current file
// handle after an OPEN that succeeded.
func (s *State) OwnerDone(call *Call, bump bool, reply, fh []byte) {
	o := call.owner
	if o == nil {
		return
	}
	if bump && !call.replayed {
		o.seqid++
		o.op, o.hasReply = call.op, true
		if len(reply) <= maxReply {
			o.reply = append(o.reply[:0:0], reply...) // not in place: a replay may still be sending the old one
		} else {
			o.reply = nil
		}
		o.replyFH = append(o.replyFH[:0:0], fh...)
		// A LOCK by a new lock owner counts in both; the open owner's reply is the one to replay.
		if lo := call.newLockOwner; lo != nil {
			lo.seqid++
		}
	}
	if lo := call.newLockOwner; lo != nil {
		call.newLockOwner = nil
		<-lo.turn
	}
	call.replayed = false
	call.open = openInFlight{}
	o.giveTurn(call)
}

// abandon gives the turn back when an operation is to be run again elsewhere: OwnerDone need not be called then.
func (s *State) abandon(call *Call, err *error) {
	if *err == ErrWouldBlock {
		s.OwnerDone(call, false, nil, nil)
	}
}

// openOwner finds or makes the open owner of a call, with the turn taken for 4.0 and its seqid checked.
func (s *State) openOwner(call *Call, a *OpenBeginArgs) (*owner, error) {
	name := string(a.Owner)
	for {
		now := s.enter()
		c, err := s.clientOf(call, a.ClientID, now)
		if err != nil {
			s.leave()
			return nil, err
		}
		o := c.openOwners[name]
		if o == nil && call.Minor > 0 {
			o = newOwner(c, name, false, 0) // filed when it has something open
			o.confirmed, o.gone = true, true
		}
		if o == nil {
			if o, err = c.addOwner(name, false, a.Seqid, now); err == nil {
				err = o.takeTurn(call) // nobody else knows it yet
				call.op = seqOpen
			}
			s.leave()
			return o, err
		}
		s.leave()
		if call.Minor > 0 {
			return o, nil
		}
		if err := o.takeTurn(call); err != nil {
			return nil, err
		}
		s.enter()
		// An owner that was never confirmed is replaced, replay or not, whatever its seqid (RFC 7530 16.18.5; Linux).
		again := o.gone || !o.confirmed
		if again && !o.gone {
			s.dropOwner(o)
		}
		s.leave()
		if again {
			o.giveTurn(call)
			continue
		}
		return o, o.checkSeqid(call, a.Seqid, seqOpen)
	}
}

// turnFor finds the state of an operation that carries a seqid and takes the turn of its owner: the open owner's for an
// open, the lock owner's for locks. The seqid counts before the stateid's, so that a replay is one whatever it names
// (Linux: nfs4_seqid_op_checks). A nil owner is not an error: with sessions there are no seqids.
func (s *State) turnFor(call *Call, file *FileKey, sid Stateid, seqid uint32, op seqOp) (stateful, error) {
	for {
		s.mu.RLock()
		st, err := s.lookup(call, sid)
		if err != nil {
			s.mu.RUnlock()
			return nil, err
		}
		b, o := st.base(), ownerOf(st)
		if o == nil {
			s.mu.RUnlock()
			return nil, ErrBadStateid // a delegation
		}
		if call.Minor == 0 {
			b.client.renew(s.now())
		}
		s.mu.RUnlock()
		if call.Minor == 0 {
			if err := o.takeTurn(call); err != nil {
				return nil, err
			}
			s.mu.RLock()
			if again, err := s.lookup(call, sid); err != nil || again != st {
				s.mu.RUnlock()
				o.giveTurn(call)
				continue
			}
			s.mu.RUnlock()
			if err := o.checkSeqid(call, seqid, op); err != nil {
				return nil, err
			}
		}
		s.mu.RLock()
		defer s.mu.RUnlock()
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
}

func ownerOf(st stateful) *owner {
	switch st := st.(type) {
	case *openState:
		return st.owner
	case *lockState:
		return st.owner
	}
	return nil
}

// addOwner makes an owner.
func (c *Client) addOwner(name string, lock bool, seqid uint32, now int64) (*owner, error) {
	if !c.ownerRoom(now) {
		return nil, ErrResource
	}
	o := newOwner(c, name, lock, seqid)
	o.idleSince = now
	o.file()
	return o, nil
}

// ownerRoom tells whether the client may have one more owner.
func (c *Client) ownerRoom(now int64) bool {
	full := func() bool {
		return len(c.openOwners)+len(c.lockOwners) >= c.s.cfg.MaxOwners || !c.objectRoom()
	}
	if full() && c.minor == 0 {
		c.dropIdleOwner(now)
	}
	return !full()
}

// file makes an owner known to its client; unfile undoes it.
func (o *owner) file() {
	o.gone = false
	o.client.countObjects(1)
	if o.lock {
		o.client.lockOwners[o.name] = o
	} else {
		o.client.openOwners[o.name] = o
	}
}

func (o *owner) unfile() {
	if o.gone {
		return
	}
	o.gone = true
	o.client.countObjects(-1)
	if o.lock {
		delete(o.client.lockOwners, o.name)
	} else {
		delete(o.client.openOwners, o.name)
	}
}

// dropOwner forgets an open owner and all its opens.
func (s *State) dropOwner(o *owner) {
	for _, st := range o.states {
		s.dropOpen(st)
	}
	s.forgetClosed(o)
	o.unfile()
}

// forgetClosed drops the closed open that a 4.0 owner keeps.
func (s *State) forgetClosed(o *owner) {
	if o.closed != nil {
		o.client.removeStateid(&o.closed.stid)
		o.closed = nil
	}
}

// idle tells whether an owner may be forgotten: nothing open, no request under way.
func (o *owner) idle() bool {
	return !o.gone && len(o.states) == 0 && len(o.locks) == 0 && len(o.turn) == 0
}

// sweepOwners forgets 4.0 owners that have had nothing open or locked for a lease period.
func (c *Client) sweepOwners(now int64) {
	if now < c.nextOwnerSweep {
		return // there may be many
	}
	c.nextOwnerSweep = now + c.s.lease/8
	for _, o := range c.openOwners {
		if o.idle() && now-o.idleSince > c.s.lease {
			c.s.dropOwner(o)
		}
	}
	for _, o := range c.lockOwners {
		if o.idle() && now-o.idleSince > c.s.lease {
			o.unfile()
		}
	}
}

// dropIdleOwner makes room for another owner: the one idle for longest goes.
func (c *Client) dropIdleOwner(now int64) {
	var old *owner
	for _, o := range c.openOwners {
		if o.idle() && (old == nil || o.idleSince < old.idleSince) {
			old = o
		}
	}
	if old != nil {
		c.s.dropOwner(old)
	}
}
