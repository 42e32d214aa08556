// Slots: SEQUENCE (RFC 8881 18.46) and the reply cache behind it (2.10.6).
//
// Linux's order of checks is kept: session, number of operations, size, slot, sequence id. SEQUENCE takes the session's
// lock alone; two sessions never meet.

package state

// slot remembers one request and, if asked to, the reply to it.
type slot struct {
	seq    uint32 // 0: never used
	busy   bool
	cached bool   // reply is what was answered to seq
	lone   bool   // the request was a SEQUENCE alone, which may be answered again
	cache  bool   // the request under way wants its reply kept
	told   uint32 // Session.targets when it was last answered
	ops    uint32
	digest uint64
	cred   Principal
	reply  []byte
}

// Sequence begins a COMPOUND of a session and renews the lease.
//
//	nil               go on; call.Client and call.Session are set
//	ErrReplay         answer with res.Replay, the whole reply as it was given to SequenceDone
//	ErrRetryUncached  a retry whose reply was not kept: SEQUENCE itself succeeds with res, the next operation gets this
//
// After nil, SequenceDone must follow; after an error it does nothing.
func (s *State) Sequence(call *Call, a *SequenceArgs) (res SequenceRes, err error) {
	if call.slot != nil {
		panic("state: Sequence before SequenceDone of the last COMPOUND")
	}
	sess := s.sessions.get(&a.SessionID)
	if sess == nil {
		return res, ErrBadSession
	}
	c := sess.client
	// Counted before expiring is looked at: see markExpiring.
	c.inflight.Add(1)
	defer func() {
		if err != nil {
			c.inflight.Add(-1)
		}
	}()
	if c.expiring.Load() {
		return res, ErrDelay
	}
	sess.mu.Lock()
	defer sess.mu.Unlock()
	switch {
	case sess.dead:
		return res, ErrBadSession
	case a.Ops > sess.fore.MaxOps:
		return res, ErrTooManyOps
	case a.Size > sess.fore.MaxRequest:
		return res, ErrReqTooBig
	case a.Slot >= uint32(len(sess.slots)):
		return res, ErrBadSlot
	case a.HighestSlot >= uint32(len(sess.slots)) && a.HighestSlot >= uint32(s.cfg.MaxSlots):
		return res, ErrBadHighSlot
	}
	sl := sess.slots[a.Slot]
	switch {
	case sl.busy && a.Sequence == sl.seq:
		return res, ErrDelay // RFC 8881 2.10.6.2: the first try still runs
	case sl.busy:
		return res, ErrSeqMisordered
	case a.Sequence == sl.seq+1:
	case a.Sequence == sl.seq && sl.seq != 0:
		return sess.retry(call, sl, a)
	default:
		return res, ErrSeqMisordered
	}
	if call.Conn != sess.lastConn.Load() && !sess.connKnown(call.Conn) {
		if c.machCred {
			return res, ErrConnNotBound
		}
		sess.bindLocked(call.Conn, BindFore)
	}
	c.renew(s.now())
	call.before = *sl
	sl.seq, sl.busy, sl.cached = a.Sequence, true, false
	sl.cache, sl.lone, sl.ops, sl.digest, sl.cred = a.CacheThis, a.Last, a.Ops, a.Digest, call.Principal
	sess.inflight++
	sess.resize(a, sl.told == sess.targets)
	sl.told = sess.targets
	call.Client, call.session, call.slot = c, sess, sl
	sess.answer(&res)
	return res, nil
}

func (s *Session) connKnown(conn uint64) bool {
	_, ok := s.conns[conn]
	if ok {
		s.lastConn.Store(conn)
	}
	return ok
}

func (s *Session) answer(res *SequenceRes) {
	res.Highest = uint32(len(s.slots)) - 1
	res.Target = uint32(s.target) - 1
	res.Status = s.client.status.Load()
	res.MaxReply, res.MaxCached = s.fore.MaxResponse, s.fore.MaxResponseCached
}

// retry answers a request whose sequence id is the slot's last.
func (s *Session) retry(call *Call, sl *slot, a *SequenceArgs) (res SequenceRes, err error) {
	// RFC 8881 2.10.6.1.3.1: a retry that is another request, or comes from another principal.
	if a.Ops != sl.ops || a.CacheThis != sl.cache || a.Digest != sl.digest || call.Principal != sl.cred {
		return res, ErrSeqFalseRetry
	}
	s.client.renew(s.s.now())
	s.s.counts.replays.Add(1)
	s.answer(&res)
	if !sl.cached {
		return res, ErrRetryUncached
	}
	res.Replay = append([]byte(nil), sl.reply...) // a copy: the slot may be used again while it is sent
	return res, ErrReplay
}

// SequenceDone ends a COMPOUND that Sequence began. The slot keeps a copy of reply if the client asked for it; nil: there is
// none to keep (it was too large, and the client was told so).
func (s *State) SequenceDone(call *Call, reply []byte) {
	sl, sess := call.slot, call.session
	if sl == nil {
		return
	}
	if call.owner != nil {
		panic("state: SequenceDone before OwnerDone")
	}
	call.slot = nil
	sess.mu.Lock()
	sl.busy = false
	sess.inflight--
	if (sl.cache || sl.lone) && reply != nil && len(reply) <= max(int(sess.fore.MaxResponseCached), loneReply) {
		sl.reply = append(sl.reply[:0], reply...)
		sl.cached = true
	}
	sess.mu.Unlock()
	sess.client.renew(s.now()) // as Linux: the lease counts from the end of the COMPOUND
	sess.client.inflight.Add(-1)
}

// loneReply bounds the reply to a SEQUENCE alone, which is kept whether asked for or not.
const loneReply = 128

// resize follows the client's use of its slots. When it uses the last one there may be too few, so the table grows while
// memory lasts. When the target was lowered and the client knows (it has the answer to this slot's last request, which told
// it) and says that it uses none above, the slots above go (RFC 8881 2.10.6.1).
func (s *Session) resize(a *SequenceArgs, knows bool) {
	n := len(s.slots)
	if s.target < n && knows && a.HighestSlot < uint32(s.target) && a.Slot < uint32(s.target) {
		for _, sl := range s.slots[s.target:] {
			if sl.busy {
				return
			}
		}
		clear(s.slots[s.target:])
		s.slots = s.slots[:s.target]
		s.reserveSlots(int64(s.target-n) * s.perSlot)
		return
	}
	if s.target == n && int(a.Slot) == n-1 && n < s.s.cfg.MaxSlots {
		grow := min(max(n/4, 1), s.s.cfg.MaxSlots-n)
		want := int64(grow) * s.perSlot
		// The last quarter of the memory is for new sessions.
		if s.s.reserved.Load()+want > s.s.cfg.MaxReplyCache/4*3 || want > s.s.slotRoom(s.client.peer) {
			return
		}
		s.reserveSlots(want)
		for range grow {
			s.slots = append(s.slots, &slot{})
		}
		s.target += grow
	}
}

// SetTarget asks the client to keep to n slots (sr_target_highest_slotid is n-1), at least one.
func (s *Session) SetTarget(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.setTarget(n)
}

func (s *Session) setTarget(n int) {
	s.target = min(max(n, 1), len(s.slots))
	s.targets++
}
