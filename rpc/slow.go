// The slow pool: threads for calls that sleep, so that no call waits behind
// them that need not.
//
// Threads start as they are needed and end after a minute without work. A
// connection may run as many calls as there are free threads, at most
// SlowPerConn: alone it gets half of the pool, the next one half of the rest,
// and a newcomer always finds a thread. Fewer when their replies are large or
// the client is slow to take them, and none when it does not. What waits is bounded (lanes.go); at a limit, connections are not
// read until there is room.

package rpc

import (
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

const (
	slowOut   = 64 << 10  // a slow thread's reply buffer
	maxOut    = 512 << 10 // to which a thread's buffer may grow for good
	slowIdle  = time.Minute
	smallCall = 4 << 10 // of so many bytes, a connection may always have one on the pool
)

type slowPool struct {
	srv   *Server
	park  parker
	total atomic.Uint64
	done  sync.WaitGroup

	mu      sync.Mutex // before a connection's lock, never after it
	q       lanes
	threads int
	most    int // how many there may be
	perConn int // how many one connection may have
	coming  int // threads that were woken or started and have not looked yet
	stopped bool

	fixedShare bool // perConn does not follow most
}

func newSlowPool(s *Server) *slowPool {
	return &slowPool{srv: s, q: lanes{of: make(map[*Conn]*lane)}, most: s.cfg.SlowThreads, perConn: s.cfg.SlowPerConn}
}

// submit takes over the call p of connection c, which the calling thread reads.
// When it returns false a limit is hit: the call stays with the caller, and
// the connection is marked so that it goes on when there is room.
func (s *slowPool) submit(c *Conn, p *incoming, arrived int64) bool {
	c.mu.Lock()
	first := c.inflight == 0
	if c.inflight >= int(s.srv.limits.inFlight.Load()) || c.flow.Load() == flowChoked {
		c.stalled = true // rearm sees to the rest
		c.mu.Unlock()
		return false
	}
	c.inflight++
	c.mu.Unlock()

	buf, skew := p.buf, 0
	if buf == nil {
		if len(p.body) >= landFrom {
			skew = p.skew()
		}
		if buf = s.srv.pool.get(skew+len(p.body), first && len(p.body) <= smallCall); buf == nil {
			c.mu.Lock()
			c.inflight--
			c.waiting = s.srv.pool.await(c, wantRun)
			c.mu.Unlock()
			return false
		}
	}

	s.mu.Lock()
	if s.q.queued >= s.srv.cfg.SlowQueue && s.q.of[c] != nil {
		c.mu.Lock()
		c.inflight--
		c.waiting = true
		c.mu.Unlock()
		s.q.waiters = append(s.q.waiters, c)
		s.unlock(false)
		if buf != p.buf {
			s.srv.pool.put(buf)
		}
		return false
	}
	sc := s.q.newCall()
	sc.in, sc.arrived = *p, arrived
	sc.in.taken = false
	if p.buf == nil {
		n := skew + copy(buf.b[skew:], p.body)
		sc.in.body, sc.in.buf = buf.b[skew:n:n], buf
		sc.in.head.decode(sc.in.body) // its slices must point into the copy
	}
	p.buf, p.cache = nil, cacheRef{}
	s.q.add(c, sc)
	s.unlock(s.muster())
	s.total.Add(1)
	return true
}

// pick is lanes.pick with the share that a connection may have now.
func (s *slowPool) pick() (*lane, int) {
	free := max(s.most-s.q.running, 1)
	return s.q.pick(min(free, s.perConn))
}

// muster finds a thread for a call that may run now: it wakes one, or reports
// that one is to be started. The lock is held.
func (s *slowPool) muster() (start bool) {
	if s.coming >= s.q.queued {
		return false // they will take what there is
	}
	if l, _ := s.pick(); l == nil {
		return false
	}
	if s.park.wake() {
		s.coming++
		return false
	}
	if s.threads < s.most && !s.stopped {
		s.threads++
		s.coming++
		return true
	}
	return false
}

// unlock ends a critical section: it starts a thread if that is wanted, and
// lets the connections go on that wait for a place when half of the queue is
// free.
func (s *slowPool) unlock(start bool) {
	var waiters []*Conn
	if s.q.queued <= s.srv.cfg.SlowQueue/2 && len(s.q.waiters) > 0 {
		waiters, s.q.waiters = s.q.waiters, nil
	}
	s.mu.Unlock()
	if start {
		s.done.Add(1)
		go s.thread()
	}
	for _, c := range waiters {
		c.proceed()
	}
}

// kick is called when a connection takes its replies again, or is closed.
func (s *slowPool) kick(c *Conn) {
	s.mu.Lock()
	s.q.unpark(c)
	s.unlock(s.muster())
}

// thread is one slow thread.
func (s *slowPool) thread() {
	defer s.done.Done()
	runtime.LockOSThread() // for good: the thread ends with the goroutine
	w := new(worker)
	w.init(s.srv, slowOut)
	s.srv.enlist(w)
	bed := new(sleeper)
	s.mu.Lock()
	s.coming--
	s.mu.Unlock()
	for {
		l, sc := s.next(bed, w.doomed)
		if sc == nil {
			break
		}
		c, size := l.c, 0
		// When no answer can reach the client, it will ask again, if it has
		// not done so by now.
		if !c.isClosed() || !sc.in.cache.abandon() {
			w.run(c, &sc.in, sc.arrived, true)
			size = w.enc.Len()
			w.flush(c)
		}
		s.srv.pool.put(sc.in.buf)
		s.mu.Lock()
		proceed := s.q.done(l, sc, size)
		s.unlock(false)
		if proceed {
			c.proceed()
		}
		c.callDone()
	}
	w.end()
}

// next waits for a call; nil means that the thread should end, and is no
// longer counted.
func (s *slowPool) next(bed *sleeper, doomed bool) (l *lane, sc *slowCall) {
	s.mu.Lock()
	for !doomed && s.threads <= s.most {
		var at int
		if l, at = s.pick(); l != nil {
			sc = s.q.take(l, at)
			break
		}
		if s.stopped {
			break
		}
		s.park.enter(bed)
		s.unlock(false)
		woken := s.park.sleep(bed, slowIdle)
		s.mu.Lock()
		if woken {
			s.coming--
		} else if l, _ := s.pick(); l == nil {
			break
		}
	}
	if sc == nil {
		s.threads--
	}
	// More may be able to run than one thread can take.
	s.unlock(s.muster())
	return l, sc
}

// remove forgets a connection that waits for a place in the queue.
func (s *slowPool) remove(c *Conn) {
	s.mu.Lock()
	s.q.forget(c)
	s.mu.Unlock()
}

// stop lets the threads end when no call is left, and waits for them.
func (s *slowPool) stop() {
	s.mu.Lock()
	s.stopped = true
	for s.park.wake() {
		s.coming++
	}
	s.mu.Unlock()
	s.done.Wait()
}
