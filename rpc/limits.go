// Limits that may be changed while the server runs. Calls that are in flight
// and replies that are queued stay; what comes next meets the new limit.

package rpc

import "sync/atomic"

// Limits are the changeable ones of a Config, with the same meanings and
// defaults. A zero leaves that limit as it is.
type Limits struct {
	SlowThreads      int
	MaxInFlight      int
	MaxQueuedPerConn int
	MaxQueuedTotal   int64
}

// limits are those in force. The ones of the slow pool lie there, under its lock.
type limits struct {
	inFlight    atomic.Int64
	queued      atomic.Int64 // a connection
	queuedTotal atomic.Int64
}

// SetLimits changes limits. Slow threads above the new number end once they have
// answered the call they run; connections above theirs are not read until they
// are below; with more bytes queued than may be in all, the connections that
// have stalled longest are closed.
func (s *Server) SetLimits(l Limits) {
	set := func(to *atomic.Int64, v int64) {
		if v > 0 {
			to.Store(v)
		}
	}
	set(&s.limits.inFlight, int64(l.MaxInFlight))
	set(&s.limits.queued, int64(l.MaxQueuedPerConn))
	set(&s.limits.queuedTotal, l.MaxQueuedTotal)
	if l.SlowThreads > 0 {
		s.slow.resize(l.SlowThreads)
	}
	// Who waited for a limit may be below it now.
	s.table.all(func(c *Conn) {
		c.mu.Lock()
		c.rearm()
		c.unlock()
	})
	s.shed(s.limits.queuedTotal.Load())
}

// resize sets how many threads there may be.
func (s *slowPool) resize(n int) {
	s.mu.Lock()
	s.most = n
	if !s.fixedShare {
		s.perConn = max(n/2, 1)
	}
	for s.threads > n && s.park.wake() { // it sees that it is one too many
		s.coming++
	}
	s.unlock(s.muster())
}
