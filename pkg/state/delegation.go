// Delegations: when one is given out, how it is recalled, returned, revoked (RFC 7530 10.4, RFC 8881 10.4).
//
// A recall sends the callback and makes whoever is in conflict wait (DELAY, JUKEBOX). It ends with DELEGRETURN, or after a
// lease period with revocation, which happens when somebody looks. Where the kernel can tell of local opens (Leases), each
// delegated file carries a kernel lease.

package state

import (
	"sync/atomic"

	"sluice/pkg/trace"
)

// deleg is a delegation. Fields under State.mu.
type deleg struct {
	stid
	typ    DelegType
	fh     []byte
	change uint64 // of the file when it was given out
	advice atomic.Uint64
	pin    Pin // of an open that gave way to it (OPEN_XOR_DELEGATION)

	recalledAt int64 // 0: not recalled
	sentAt     int64
	sending    bool
	answered   bool // the client has taken the recall
	truncate   bool

	query *attrQuery    // CB_GETATTR under way
	asked atomic.Uint64 // answers given on it; those who wait for one count it each
}

const (
	blockedSlots = 256
	blockedTime  = int64(30e9) // no new delegation on a file so soon after a recall, as in Linux
	resendTime   = int64(2e9)  // a recall without a good answer is sent again
)

// blockedFile remembers a recall after the file is forgotten. A newer one may take its place: then the file may have a
// delegation too soon, while no other file is ever taken for it.
type blockedFile struct {
	sum   uint64
	until int64
}

func (s *State) block(k *FileKey, now int64) {
	sum := s.hash(k)
	s.blocked[sum%blockedSlots] = blockedFile{sum: sum, until: now + blockedTime}
}

func (s *State) isBlocked(k *FileKey, now int64) bool {
	sum := s.hash(k)
	b := &s.blocked[sum%blockedSlots]
	return b.sum == sum && now < b.until
}

// delegate decides about a delegation for an open that has just succeeded. With kernel leases the answer may be what to
// ask for (lease); leaseDeleg goes on from there. The heuristics are Linux's (nfs4_open_delegation, nfs4_set_delegation).
func (s *State) delegate(call *Call, a *OpenArgs, own *deleg, now int64) (d Delegation, lease DelegType) {
	c := call.open.owner.client
	want := DelegNone
	if a.Claim == ClaimPrevious {
		want = a.Previous
		if want == DelegNone {
			return d, DelegNone
		}
		if !s.cfg.Delegations || want == DelegWrite && !s.writeDelegs(c) || s.cfg.Callbacks == nil {
			return d, DelegNone
		}
	} else {
		switch {
		case a.Want == WantNone:
			return Delegation{Why: NoneNotWanted}, DelegNone
		case a.Want == WantCancel:
			return Delegation{Why: NoneCancelled}, DelegNone
		case a.Claim != ClaimNull && a.Claim != ClaimFH || !s.cfg.Delegations || own != nil:
			return Delegation{Why: NoneResource}, DelegNone
		case !a.Regular:
			return Delegation{Why: NoneNotSupportedFType}, DelegNone
		case s.grace.active.Load(): // until everyone has had the chance to reclaim theirs
			return Delegation{Why: NoneContention}, DelegNone
		case !call.open.owner.confirmed || !c.callbacksGood():
			return Delegation{Why: NoneResource}, DelegNone
		}
		want = DelegRead
		if a.Access&ShareWrite != 0 {
			if want = DelegWrite; !s.writeDelegs(c) {
				return Delegation{Why: NoneResource}, DelegNone
			}
		}
	}
	if why, ok := s.mayDelegate(call.open.opened.file, c, a, want, now); !ok {
		return Delegation{Why: why}, DelegNone
	}
	f := call.open.opened.file
	if s.cfg.Leases != nil && f.lease != want {
		f.leasing = true
		f.changed()
		return Delegation{Why: NoneResource}, want
	}
	return s.giveDeleg(call, a, want), DelegNone
}

// writeDelegs tells whether a client may have write delegations. A 4.0 client may not: its GETATTR does not say whose
// it is, so that the holder's own would be taken for another's. Linux's client puts one before DELEGRETURN, which then
// would never be reached.
func (s *State) writeDelegs(c *Client) bool { return s.cfg.WriteDelegs && c.minor > 0 }

// mayDelegate looks at the file: nobody else may hold what conflicts.
func (s *State) mayDelegate(f *file, c *Client, a *OpenArgs, want DelegType, now int64) (WhyNone, bool) {
	if !c.peer.may(c.peer.delegs, s.ndelegs, s.cfg.MaxDelegations) || !c.objectRoom() {
		return NoneResource, false
	}
	for _, d := range f.delegs {
		if d.client == c {
			if a.Want == WantWrite && d.typ == DelegRead {
				return NoneNotSupportedUpgrade, false
			}
			if a.Want == WantRead && d.typ == DelegWrite {
				return NoneNotSupportedDowngrade, false
			}
			return NoneContention, false // one is enough
		}
		if want == DelegWrite || d.typ == DelegWrite || d.recalledAt != 0 {
			return NoneContention, false
		}
	}
	if f.leasing || a.Claim != ClaimPrevious && (f.hadConflict || s.isBlocked(&f.key, now)) {
		return NoneContention, false
	}
	for o := range f.opens {
		if o.client != c && (want == DelegWrite || o.access&ShareWrite != 0) {
			return NoneContention, false
		}
	}
	return 0, true
}

// giveDeleg hands a delegation out.
func (s *State) giveDeleg(call *Call, a *OpenArgs, typ DelegType) Delegation {
	f, c := call.open.opened.file, call.open.owner.client
	d := &deleg{typ: typ, fh: append([]byte(nil), a.FH...), change: a.Change}
	d.file, d.key = f, f.key
	c.addStateid(d)
	d.bump()
	c.ndelegs++
	c.peer.delegs++
	s.ndelegs++
	f.delegs = append(f.delegs, d)
	f.changed()
	s.counts.delegsGranted.Add(1)
	s.traceDeleg(trace.DelegationGranted, d)
	call.open.deleg = d
	return Delegation{
		Type: typ, Stateid: d.stateid(),
		Recall: a.Claim == ClaimPrevious && !c.callbacksGood(),
	}
}

// leaseDeleg asks the kernel for the lease and then hands the delegation out, unless something came in between.
func (s *State) leaseDeleg(call *Call, a *OpenArgs) Delegation {
	typ, st := call.open.lease, call.open.opened
	call.open.lease = DelegNone
	s.mu.RLock()
	f, breaks := st.file, uint64(0)
	if f != nil {
		breaks = f.breaks
	}
	s.mu.RUnlock()
	err := s.cfg.Leases.Acquire(a.File, typ == DelegWrite)
	now := s.enter()
	defer s.leave()
	// leasing keeps the file known and others from asking; the open itself may have gone with its client.
	f = s.files[a.File]
	if f == nil || !f.leasing {
		panic("state: a file whose lease is asked for was forgotten")
	}
	f.leasing = false
	defer f.changed()
	if err != nil {
		return Delegation{Why: NoneContention}
	}
	f.lease, f.weak = typ, false // given back by changed if no delegation comes of it
	if st.status != stidLive || f.breaks != breaks {
		return Delegation{Why: NoneContention}
	}
	if why, ok := s.mayDelegate(f, call.open.owner.client, a, typ, now); !ok {
		return Delegation{Why: why}
	}
	return s.giveDeleg(call, a, typ)
}

// xorOpen lets an open go in favour of the delegation that came with it (RFC 9754), if it is the only thing it stood for.
func (s *State) xorOpen(call *Call) bool {
	s.enter()
	defer s.leave()
	o, d := call.open.opened, call.open.deleg
	if !call.open.created || d == nil || d.status != stidLive || o.status != stidLive || o.deny != 0 || call.Minor == 0 {
		return false
	}
	d.pin, o.pin = o.pin, nil
	s.dropOpen(o)
	return true
}

// claimedDeleg finds the delegation that an OPEN is claimed from.
func (s *State) claimedDeleg(call *Call, a *OpenArgs) (*deleg, error) {
	st, err := s.check(call, &a.File, a.Deleg)
	if err != nil {
		return nil, err
	}
	d, ok := st.(*deleg)
	if !ok || d.client != call.open.owner.client {
		return nil, ErrBadStateid
	}
	if d.typ == DelegRead && a.Access&ShareWrite != 0 {
		return nil, ErrOpenMode
	}
	return d, nil
}

// recallOthers recalls what conflicts with an access by client (0: nobody known). exclusive: the access changes the file,
// so that read delegations conflict too. busy: something is still out. Expired holders are listed; they are not called.
func (s *State) recallOthers(f *file, client ClientID, exclusive, truncate bool, now int64) (busy bool, victims []*Client) {
	if f.leasing {
		f.breaks++
	}
	for i := 0; i < len(f.delegs); i++ {
		d := f.delegs[i]
		if client != 0 && d.client.id == client || !exclusive && d.typ == DelegRead {
			continue
		}
		if d.client.expired(now) {
			victims = append(victims, d.client)
			continue
		}
		if d.recalledAt != 0 && now-d.recalledAt > s.recallTime {
			s.revoke(d)
			i--
			continue
		}
		busy = true
		s.recall(d, truncate, now)
	}
	return busy, victims
}

// recall asks for a delegation, once, and again when no good answer came.
func (s *State) recall(d *deleg, truncate bool, now int64) {
	if d.recalledAt == 0 {
		d.recalledAt, d.truncate = max(now, 1), truncate
		d.client.recalled[d] = struct{}{}
		d.file.hadConflict = true
		s.block(&d.key, now)
		s.counts.delegsRecalled.Add(1)
		s.traceDeleg(trace.DelegationRecalled, d)
	} else if d.answered || d.sending || now-d.sentAt < resendTime {
		return
	}
	s.sendRecall(d)
}

func (s *State) sendRecall(d *deleg) {
	if d.sending {
		return
	}
	d.sending, d.sentAt = true, s.now()
	r := Recall{Client: d.client, Stateid: d.stateid(), FH: d.fh, Truncate: d.truncate}
	s.later(func() { s.cfg.Callbacks.Recall(r) })
}

// RecallDone tells how a recall went: nil when the client took it, and will return the delegation. Any other answer, or
// none, has it sent again when somebody still waits, or when the callback path comes up.
func (s *State) RecallDone(r Recall, err error) {
	s.enter()
	defer s.leave()
	if d, ok := r.Client.stateids[r.Stateid.Other.number()].(*deleg); ok {
		d.sending = false
		d.answered = err == nil
	}
}

// LeaseBroken tells that a local process wants what a delegation promised to a client: the kernel holds it back.
func (s *State) LeaseBroken(file FileKey) {
	now := s.enter()
	defer s.leave()
	f := s.files[file]
	if f == nil {
		return
	}
	if _, victims := s.recallOthers(f, 0, true, false, now); len(victims) > 0 {
		for _, c := range victims {
			s.queueReap(c)
		}
	}
}

// selfConflict settles an open for writing by the holder of a read delegation. The delegation stays, as in Linux (pynfs
// DELEG21, DELEG23), unless local writers would go unnoticed then: the kernel's lease can't stay beside a writer.
func (s *State) selfConflict(f *file, write bool) {
	if s.cfg.Leases == nil || !write || f.lease != DelegRead || f.weak || len(f.delegs) == 0 {
		return
	}
	f.weak = true
	key := f.key
	s.later(func() {
		if !s.cfg.Leases.Weaken(key) {
			s.LeaseBroken(key)
		}
	})
}

// detach takes a delegation off its file and out of the counts.
func (s *State) detach(d *deleg) {
	f := d.file
	if d.typ == DelegWrite {
		s.ended.Add(1) // before it is seen to be gone, see Guard.Ended
	}
	for i, x := range f.delegs {
		if x == d {
			f.delegs = append(f.delegs[:i], f.delegs[i+1:]...)
			break
		}
	}
	d.file = nil
	f.changed()
	d.client.ndelegs--
	d.client.peer.delegs--
	s.ndelegs--
	delete(d.client.recalled, d)
	if d.pin != nil {
		s.later(d.pin.Release)
		d.pin = nil
	}
	if d.query != nil {
		d.query.finish(DelegAttrs{}, ErrDelay)
		d.query = nil
	}
}

// dropDeleg ends a delegation.
func (s *State) dropDeleg(d *deleg) {
	s.detach(d)
	d.client.removeStateid(&d.stid)
	d.status = stidClosed
}

// revoke takes a delegation that was not returned in time. With sessions the client finds out by TEST_STATEID and lets go
// by FREE_STATEID (RFC 8881 10.5); a 4.0 client's is simply gone.
func (s *State) revoke(d *deleg) {
	s.counts.delegsRevoked.Add(1)
	s.traceDeleg(trace.DelegationRevoked, d)
	s.logf("client %q did not return a delegation within %v: revoked", d.client.owner, s.cfg.RecallTime)
	if d.client.minor == 0 {
		s.dropDeleg(d)
		return
	}
	s.detach(d)
	d.status = stidRevoked
	d.client.nrevoked++
	d.client.setStatus()
}

// sweepDelegs revokes what is overdue.
func (c *Client) sweepDelegs(now int64) {
	for d := range c.recalled {
		if now-d.recalledAt > c.s.recallTime {
			c.s.revoke(d)
		}
	}
}

// DelegReturn ends a delegation, also a revoked one.
func (s *State) DelegReturn(call *Call, file FileKey, sid Stateid) error {
	now := s.enter()
	defer s.leave()
	st, err := s.lookup(call, sid)
	if err != nil {
		return err
	}
	d, ok := st.(*deleg)
	if !ok {
		return ErrBadStateid
	}
	if err := d.checkSeqid(call, sid.Seqid); err != nil {
		return err
	}
	if d.key != file {
		return ErrBadStateid
	}
	if call.Minor == 0 {
		d.client.renew(now)
	}
	if d.status != stidLive {
		d.client.forgetRevoked(&d.stid)
		return nil
	}
	s.dropDeleg(d)
	s.counts.delegsReturned.Add(1)
	s.traceDeleg(trace.DelegationReturned, d)
	return nil
}
