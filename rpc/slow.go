// The slow pool: threads for calls that sleep, so that no call waits behind
// them that need not.
//
// Threads start as they are needed and end after a minute without work. Calls
// wait in a queue of their connection, and connections take turns. A
// connection may run as many calls as there are free threads, at most
// SlowPerConn: alone it gets half of the pool, the next one half of the rest,
// and a newcomer always finds a thread. One that does not take its replies
// gets none. The queues together are bounded; when they are full, connections
// are not read until there is room.

package rpc

import (
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

const (
	slowOut  = 64 << 10  // a slow thread's reply buffer
	maxOut   = 512 << 10 // to which a thread's buffer may grow for good
	slowIdle = time.Minute
)

// slowCall is a call that waits for a slow thread, or runs on one.
type slowCall struct {
	in      incoming
	arrived int64
	next    *slowCall
}

// lane is a connection's calls on the slow pool.
type lane struct {
	c          *Conn
	head, tail *slowCall
	running    int
	listed     bool // in ready
}

type slowPool struct {
	srv  *Server
	park parker

	mu      sync.Mutex
	lanes   map[*Conn]*lane
	ready   []*lane // lanes with calls waiting, in turn
	queued  int
	running int
	threads int
	free    *slowCall // for reuse
	nfree   int
	spare   []*lane
	waiters []*Conn // for a place in the queue
	stopped bool

	total atomic.Uint64
	done  sync.WaitGroup
}

func newSlowPool(s *Server) *slowPool {
	return &slowPool{srv: s, lanes: make(map[*Conn]*lane)}
}

// submit takes over the call p of connection c, which the calling thread reads.
// When it returns false a limit is hit: the call stays with the caller, and
// the connection is marked so that it goes on when there is room.
func (s *slowPool) submit(c *Conn, p *incoming, arrived int64) bool {
	c.mu.Lock()
	if c.inflight >= s.srv.cfg.MaxInFlight {
		c.stalled = true
		c.mu.Unlock()
		return false
	}
	c.inflight++
	c.mu.Unlock()

	buf := p.buf
	if buf == nil {
		if buf = s.srv.pool.get(len(p.body)); buf == nil {
			c.mu.Lock()
			c.inflight--
			c.waiting = true
			if !s.srv.pool.await(c, true) {
				c.waiting = false
			}
			c.mu.Unlock()
			return false
		}
	}

	s.mu.Lock()
	if s.queued >= s.srv.cfg.SlowQueue {
		c.mu.Lock() // s.mu before c.mu, nowhere the other way round
		c.inflight--
		c.waiting = true
		c.mu.Unlock()
		s.waiters = append(s.waiters, c)
		s.mu.Unlock()
		if buf != p.buf {
			s.srv.pool.put(buf)
		}
		return false
	}
	sc := s.free
	if sc != nil {
		s.free = sc.next
		s.nfree--
	} else {
		sc = new(slowCall)
	}
	sc.in, sc.arrived, sc.next = *p, arrived, nil
	if p.buf == nil {
		n := copy(buf.b, p.body)
		sc.in.body, sc.in.buf = buf.b[:n:n], buf
		fault := sc.in.head.fault
		sc.in.head.decode(sc.in.body) // its slices must point into the copy
		sc.in.head.fault = fault
	}
	p.buf, p.cache = nil, cacheRef{}
	l := s.lanes[c]
	if l == nil {
		if n := len(s.spare); n > 0 {
			l, s.spare = s.spare[n-1], s.spare[:n-1]
		} else {
			l = new(lane)
		}
		l.c = c
		s.lanes[c] = l
	}
	if l.tail == nil {
		l.head = sc
	} else {
		l.tail.next = sc
	}
	l.tail = sc
	s.queued++
	s.list(l)
	start := s.muster()
	s.mu.Unlock()
	s.total.Add(1)
	if start {
		s.done.Add(1)
		go s.thread()
	}
	return true
}

// list queues a lane for its turn if it has calls.
func (s *slowPool) list(l *lane) {
	if l.head != nil && !l.listed {
		l.listed = true
		s.ready = append(s.ready, l)
	}
}

// muster finds a thread for a call that may run now: it wakes one, or reports
// that one is to be started. The lock is held.
func (s *slowPool) muster() (start bool) {
	if s.pick(false) == nil {
		return false
	}
	if s.park.wake() {
		return false
	}
	if s.threads < s.srv.cfg.SlowThreads && !s.stopped {
		s.threads++
		return true
	}
	return false
}

// pick returns the lane whose turn it is, and takes it from the list if take.
func (s *slowPool) pick(take bool) *lane {
	limit := min(max(s.srv.cfg.SlowThreads-s.running, 1), s.srv.cfg.SlowPerConn)
	for i, l := range s.ready {
		if l.running < limit && !l.c.choked.Load() {
			if take {
				copy(s.ready[i:], s.ready[i+1:])
				s.ready[len(s.ready)-1] = nil
				s.ready = s.ready[:len(s.ready)-1]
				l.listed = false
			}
			return l
		}
	}
	return nil
}

// kick is called when a connection's calls may run again.
func (s *slowPool) kick() {
	s.mu.Lock()
	start := s.queued > 0 && s.muster()
	s.mu.Unlock()
	if start {
		s.done.Add(1)
		go s.thread()
	}
}

// thread is one slow thread.
func (s *slowPool) thread() {
	defer s.done.Done()
	runtime.LockOSThread() // for good: the thread ends with the goroutine
	w := new(worker)
	w.init(s.srv, slowOut)
	s.srv.enlist(w)
	bed := new(sleeper)
	for {
		l, sc, waiters := s.next(bed, w.doomed)
		for _, c := range waiters {
			c.proceed()
		}
		if sc == nil {
			break
		}
		c := l.c
		if c.isClosed() { // no answer can reach the client: it will ask again
			if sc.in.cache.cache != nil {
				sc.in.cache.forget()
			}
		} else {
			w.run(c, &sc.in, sc.arrived, true)
			w.flush(c)
		}
		s.srv.pool.put(sc.in.buf)
		s.finished(l, sc)
		c.callDone()
	}
	w.end()
}

// next waits for a call; nil means that the thread should end, and is no
// longer counted. The connections that waited for a place in the queue come
// along when half of it is free.
func (s *slowPool) next(bed *sleeper, doomed bool) (l *lane, sc *slowCall, waiters []*Conn) {
	s.mu.Lock()
	for {
		if doomed {
			break
		}
		if l = s.pick(true); l != nil {
			sc = l.head
			if l.head = sc.next; l.head == nil {
				l.tail = nil
			}
			sc.next = nil
			l.running++
			s.running++
			s.queued--
			s.list(l)
			if s.queued <= s.srv.cfg.SlowQueue/2 {
				waiters, s.waiters = s.waiters, nil
			}
			break
		}
		if s.stopped {
			break
		}
		s.park.enter(bed)
		s.mu.Unlock()
		woken := s.park.sleep(bed, slowIdle)
		s.mu.Lock()
		if !woken && s.pick(false) == nil {
			break
		}
	}
	if sc == nil {
		s.threads--
	}
	// More may be able to run than one thread can take.
	start := s.queued > 0 && s.muster()
	s.mu.Unlock()
	if start {
		s.done.Add(1)
		go s.thread()
	}
	return l, sc, waiters
}

// finished ends a call's time on the pool.
func (s *slowPool) finished(l *lane, sc *slowCall) {
	s.mu.Lock()
	*sc = slowCall{}
	if s.nfree < s.srv.cfg.SlowThreads {
		sc.next, s.free = s.free, sc
		s.nfree++
	}
	l.running--
	s.running--
	if l.running == 0 && l.head == nil {
		delete(s.lanes, l.c)
		l.c = nil
		if len(s.spare) < s.srv.cfg.SlowThreads {
			s.spare = append(s.spare, l)
		}
	}
	s.mu.Unlock()
}

// remove forgets a connection that waits for a place in the queue.
func (s *slowPool) remove(c *Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, w := range s.waiters {
		if w == c {
			s.waiters = append(s.waiters[:i], s.waiters[i+1:]...)
			return
		}
	}
}

// stop lets the threads end when no call is left, and waits for them.
func (s *slowPool) stop() {
	s.mu.Lock()
	s.stopped = true
	s.mu.Unlock()
	for s.park.wake() {
	}
	s.done.Wait()
}
