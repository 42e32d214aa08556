// The queues of the slow pool: one lane a connection, served in turn.
//
// A lane whose connection does not take its replies is parked: its calls wait
// elsewhere and take no place from others. However full the queues are, a
// connection may have one call in them, so that nobody is shut out by others.

package rpc

import "slices"

// slowCall is a call that waits for a slow thread, or runs on one.
type slowCall struct {
	in      incoming
	arrived int64
	next    *slowCall
}

// lane is a connection's calls on the slow pool.
type lane struct {
	c          *Conn
	head, tail *slowCall // waiting
	n          int       // how many
	running    int
	listed     bool // in lanes.ready
	parked     bool // not counted in lanes.queued
}

// lanes is guarded by the lock of the pool.
type lanes struct {
	of      map[*Conn]*lane
	ready   []*lane // with calls waiting and not parked, in turn
	queued  int     // calls in lanes that are not parked
	parked  int     // calls in those that are
	running int
	waiters []*Conn // for a place in the queue

	calls  *slowCall // for reuse
	ncalls int
	lanes  []*lane
}

// most of what is kept for reuse.
const keepIdle = 64

func (q *lanes) newCall() *slowCall {
	sc := q.calls
	if sc == nil {
		return new(slowCall)
	}
	q.calls, sc.next = sc.next, nil
	q.ncalls--
	return sc
}

func (q *lanes) newLane(c *Conn) *lane {
	l := new(lane)
	if n := len(q.lanes); n > 0 {
		l, q.lanes = q.lanes[n-1], q.lanes[:n-1]
	}
	l.c = c
	q.of[c] = l
	return l
}

// add queues a call.
func (q *lanes) add(c *Conn, sc *slowCall) {
	l := q.of[c]
	if l == nil {
		l = q.newLane(c)
	}
	if l.tail == nil {
		l.head = sc
	} else {
		l.tail.next = sc
	}
	l.tail = sc
	l.n++
	if l.parked {
		q.parked++
	} else {
		q.queued++
	}
	q.list(l)
}

// list gives a lane its turn if it has calls.
func (q *lanes) list(l *lane) {
	if l.head != nil && !l.listed && !l.parked {
		l.listed = true
		q.ready = append(q.ready, l)
	}
}

// pick finds the lane whose turn it is and that may run another call; limit is
// what any lane may run. Lanes it meets whose connections are choked are parked.
func (q *lanes) pick(limit int) (l *lane, at int) {
	for i := 0; i < len(q.ready); {
		l := q.ready[i]
		flow := l.c.flow.Load()
		switch {
		case flow == flowChoked:
			q.ready = slices.Delete(q.ready, i, i+1)
			l.listed, l.parked = false, true
			q.queued -= l.n
			q.parked += l.n
		case l.running < min(limit, l.ahead(flow)):
			return l, i
		default:
			i++
		}
	}
	return nil, 0
}

// ahead is how many calls to run at once, so that the replies which the client
// may turn out not to take are bounded.
func (l *lane) ahead(flow int32) int {
	switch n := l.c.slowReply; {
	case flow == flowSlow:
		return slowAhead
	case n == 0:
		return firstAhead
	default:
		return max(bytesAhead/n, slowAhead)
	}
}

const (
	bytesAhead = 8 << 20 // of replies, from slow threads for one connection
	firstAhead = 8       // calls, before the size of a reply is known
	slowAhead  = 2       // calls, while the socket is full
)

// take makes the first call of the lane at a place in ready a running one.
func (q *lanes) take(l *lane, at int) *slowCall {
	q.ready = slices.Delete(q.ready, at, at+1)
	l.listed = false
	sc := l.head
	if l.head = sc.next; l.head == nil {
		l.tail = nil
	}
	sc.next = nil
	l.n--
	l.running++
	q.queued--
	q.running++
	q.list(l)
	return sc
}

// unpark lets a connection's calls run again.
func (q *lanes) unpark(c *Conn) {
	if l := q.of[c]; l != nil && l.parked {
		l.parked = false
		q.parked -= l.n
		q.queued += l.n
		q.list(l)
	}
}

// done ends a running call, whose reply had so many bytes. It reports whether the connection waited for
// having no call here.
func (q *lanes) done(l *lane, sc *slowCall, reply int) (proceed bool) {
	l.c.slowReply = max(reply, l.c.slowReply-l.c.slowReply/8)
	*sc = slowCall{}
	if q.ncalls < keepIdle {
		sc.next, q.calls = q.calls, sc
		q.ncalls++
	}
	l.running--
	q.running--
	if l.running > 0 || l.head != nil {
		return false
	}
	c := l.c
	delete(q.of, c)
	*l = lane{}
	if len(q.lanes) < keepIdle {
		q.lanes = append(q.lanes, l)
	}
	return q.forget(c)
}

// forget takes a connection off those that wait; it reports whether it did wait.
func (q *lanes) forget(c *Conn) bool {
	i := slices.Index(q.waiters, c)
	if i >= 0 {
		q.waiters = slices.Delete(q.waiters, i, i+1)
	}
	return i >= 0
}
