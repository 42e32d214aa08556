// Grace: after a start, those who held state get the time to claim it back (RFC 7530 9.6.2, RFC 8881 8.4.2).
//
// It is as long as configured, a little longer while reclaims keep coming (Linux: clients_still_reclaiming), nothing when
// no client is recorded, and over early when every recorded client has sent RECLAIM_COMPLETE. A recorded 4.0 client has no
// way to say that it is done, so with one of those it lasts its time (as Linux, which counts RECLAIM_COMPLETEs only).

package state

import (
	"sync/atomic"
	"time"

	"sluice/pkg/trace"
)

type grace struct {
	active atomic.Bool

	// Under State.mu.
	end       int64
	latest    int64 // no further extension
	records   map[string]*graceRecord
	done      int  // records that are complete
	timed     bool // nothing ends it early
	reclaimed bool // somebody has reclaimed since the last look
	ending    bool
}

type graceRecord struct{ done bool }

func (g *grace) begin(s *State, recs []RecoveryRecord) {
	now := s.now()
	g.end = now + int64(s.cfg.Grace)
	g.latest = now + 2*max(int64(s.cfg.Grace), s.lease)
	g.timed = s.cfg.ForceGrace
	g.records = map[string]*graceRecord{}
	for _, r := range recs {
		g.records[string(r.Owner)] = &graceRecord{}
		g.timed = g.timed || r.Minor == 0
	}
	g.active.Store(len(g.records) > 0 || s.cfg.ForceGrace)
}

// has tells whether a client is recorded from before the start. The caller holds the lock.
func (g *grace) has(owner string) bool { return g.records[owner] != nil }

// complete counts a client's RECLAIM_COMPLETE.
func (g *grace) complete(owner string) {
	if r := g.records[owner]; r != nil && !r.done {
		r.done = true
		g.done++
	}
}

// forget drops a client that will not reclaim any more.
func (g *grace) forget(s *State, owner string) {
	if r := g.records[owner]; r != nil {
		if r.done {
			g.done--
		}
		delete(g.records, owner)
	}
}

// over tells whether grace should end now.
func (g *grace) over(now int64) bool {
	if !g.timed && g.done == len(g.records) {
		return true
	}
	if now < g.end {
		return false
	}
	if g.reclaimed && now < g.latest {
		g.reclaimed = false
		g.end = now + int64(time.Second)
		return false
	}
	return true
}

// InGrace tells whether the grace period runs; without one it is one atomic load.
func (s *State) InGrace() bool {
	if !s.grace.active.Load() {
		return false
	}
	now := s.now()
	s.mu.Lock()
	end := s.grace.over(now) && !s.grace.ending && !s.closed
	if end {
		s.grace.ending = true
	}
	s.mu.Unlock()
	if end {
		if s.cfg.Recovery == nil {
			s.graceDone()
		} else {
			s.async(s.graceDone)
		}
	}
	return s.grace.active.Load()
}

// GraceLeft tells how long grace will last at most; 0 when there is none.
func (s *State) GraceLeft() time.Duration {
	if !s.InGrace() {
		return 0
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	return time.Duration(max(s.grace.end-s.now(), 1))
}

// EndGrace ends grace at once: the administrator's word. It returns when that is on stable storage.
func (s *State) EndGrace() {
	s.mu.Lock()
	run := s.grace.active.Load() && !s.grace.ending
	s.grace.ending = s.grace.ending || run
	s.mu.Unlock()
	if run {
		s.graceDone()
	}
}

// graceDone takes the clients that did not come back off stable storage, and only then lets new state be made: else, after
// a crash, they could claim what others have got.
func (s *State) graceDone() {
	if s.cfg.Recovery != nil {
		s.record.Lock()
		err := s.cfg.Recovery.GraceDone()
		s.record.Unlock()
		if err != nil {
			s.counts.storageErrors.Add(1)
			s.logf("the grace period can't be ended on stable storage, trying again: %v", err)
			s.mu.Lock()
			giveUp := s.now() > s.grace.latest+s.lease
			if !giveUp {
				s.grace.ending = false
				s.grace.end = s.now() + int64(time.Second)
				s.grace.timed = true
			}
			s.mu.Unlock()
			if !giveUp {
				return
			}
		}
	}
	s.mu.Lock()
	clear(s.grace.records)
	s.grace.done = 0
	s.mu.Unlock()
	s.grace.active.Store(false)
	if s.cfg.Trace.Enabled() {
		s.cfg.Trace.Emit(trace.Event{Name: trace.GraceEnd})
	}
}

// openGrace decides whether an OPEN or LOCK may go on.
func (s *State) openGrace(call *Call, c *Client, reclaim bool) error {
	in := s.InGrace()
	s.mu.Lock()
	defer s.mu.Unlock()
	var err error
	switch {
	case !reclaim && call.Minor > 0 && !c.complete:
		err = ErrGrace // RFC 8881 18.51.3: first RECLAIM_COMPLETE, grace or not
	case !reclaim && in:
		err = ErrGrace
	case reclaim && (!in || c.complete):
		err = ErrNoGrace
	case reclaim && !s.grace.has(c.owner):
		err = ErrReclaimBad
	case reclaim:
		s.grace.reclaimed = true
	}
	if err != nil {
		s.counts.graceRefused.Add(1)
	}
	return err
}

// recordClient puts a client on stable storage, once. It sleeps: ErrWouldBlock where the call may not. When the storage
// fails the client works on, but will not be able to reclaim: that is said in the log.
func (s *State) recordClient(call *Call, c *Client) error {
	if s.cfg.Recovery == nil {
		return nil
	}
	s.mu.RLock()
	done := c.recorded || c.gone
	s.mu.RUnlock()
	if done {
		return nil
	}
	if !call.MayBlock {
		return ErrWouldBlock
	}
	s.record.Lock()
	defer s.record.Unlock()
	s.mu.RLock()
	done = c.recorded || c.gone || c.expiring.Load()
	s.mu.RUnlock()
	if done {
		return nil
	}
	if err := s.cfg.Recovery.Record(RecoveryRecord{Owner: []byte(c.owner), Minor: c.minor}); err != nil {
		s.counts.storageErrors.Add(1)
		s.logf("client %q can't be recorded and will lose its opens and locks if this server restarts: %v", c.owner, err)
		return nil
	}
	s.mu.Lock()
	c.recorded = true
	s.mu.Unlock()
	return nil
}

// ReclaimComplete says that a client has claimed all that it will (RFC 8881 18.51). From here on it is recorded on stable
// storage, and new state may be made. For one file system only, nothing is made of it, as in Linux.
func (s *State) ReclaimComplete(call *Call, oneFS bool) error {
	if oneFS {
		return nil
	}
	c := call.Client
	s.mu.RLock()
	done := c.complete
	s.mu.RUnlock()
	if done {
		return ErrCompleteAlready
	}
	if err := s.recordClient(call, c); err != nil {
		return err
	}
	s.mu.Lock()
	if c.complete {
		s.mu.Unlock()
		return ErrCompleteAlready
	}
	c.complete = true
	s.grace.complete(c.owner)
	s.mu.Unlock()
	s.InGrace()
	return nil
}
