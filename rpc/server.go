// The server: its life from NewServer to Shutdown, and what it tells of itself.

package rpc

import (
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"net/netip"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// stopSlot in an event means that the server stops.
const stopSlot = ^uint32(0)

// Server serves programs over TCP.
type Server struct {
	cfg        Config
	poll       poller
	stop       int // eventfd in poll
	stopAccept int // eventfd that ends accepting
	pool       *pool
	table      *table
	slow       *slowPool

	caches [2]*replyCache // by Proc.Bulk

	waiting   atomic.Int32 // service threads at epoll
	lingering atomic.Bool  // one looks for events before it sleeps
	services  atomic.Pointer[[]*service]
	spares    parker
	mon       monitor
	threads   sync.WaitGroup // service threads and the monitor

	limits   limits
	queued   atomic.Int64 // bytes of replies queued
	shedding sync.Mutex

	stopping   atomic.Bool
	nextID     atomic.Uint64
	nextThread atomic.Uint32
	roomHand   atomic.Uint32 // where makeRoom looks next
	nreplaced  atomic.Uint64
	rejects    [NumReasons]atomic.Uint64
	logLimit   [NumReasons]limiter
	encLimit   limiter
	endLimit   limiter

	mu        sync.Mutex
	workers   []*worker
	retired   totals // of workers that ended
	accepting sync.WaitGroup
	chores    chan struct{} // closed to end the janitor
	choresEnd chan struct{}
}

type totals struct{ calls, in, out uint64 }

// NewServer checks cfg and starts the threads. GOMAXPROCS is raised to at least
// four more than there are service threads: without a free P, a thread that
// returns from a system call would wait for one, with a connection in hand, and
// threads that sleep in the kernel keep theirs for a while.
func NewServer(cfg Config) (*Server, error) {
	fixedShare := cfg.SlowPerConn != 0
	if err := cfg.complete(); err != nil {
		return nil, err
	}
	s := &Server{cfg: cfg, chores: make(chan struct{}), choresEnd: make(chan struct{})}
	if err := s.open(); err != nil {
		s.closeFDs()
		return nil, err
	}
	if want := cfg.Threads + 4; runtime.GOMAXPROCS(0) < want {
		runtime.GOMAXPROCS(want)
	}
	s.pool = newPool(cfg.RecordMemory, cfg.MaxRecord, readSize)
	s.pool.land = s.lander()
	s.pool.poison = cfg.poison
	s.table = newTable(cfg.MaxConns)
	s.slow = newSlowPool(s)
	s.slow.fixedShare = fixedShare
	s.limits.inFlight.Store(int64(cfg.MaxInFlight))
	s.limits.queued.Store(int64(cfg.MaxQueuedPerConn))
	s.limits.queuedTotal.Store(cfg.MaxQueuedTotal)
	for i := range s.caches {
		s.caches[i] = newReplyCache(cfg.CacheEntries, int64(cfg.CacheAge))
	}
	// The sum leaves out most of a WRITE's data. Two programs on one host whose
	// XIDs start at the same number must not get each other's answer for other
	// data; running a WRITE twice does no harm.
	s.caches[1].byPort = true
	s.services.Store(new([]*service))
	for range cfg.Threads {
		s.startService()
	}
	s.threads.Add(1)
	s.mon.armed.Store(true) // the threads may be at work before they ever wait
	go s.mon.run(s)
	go s.janitor()
	return s, nil
}

// open makes the descriptors of the server itself.
func (s *Server) open() (err error) {
	s.poll.fd, s.stop, s.stopAccept = -1, -1, -1
	if s.poll, err = newPoller(); err != nil {
		return fmt.Errorf("rpc: cannot create an epoll instance: %w", err)
	}
	for _, fd := range []*int{&s.stop, &s.stopAccept} {
		if *fd, err = unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK); err != nil {
			return fmt.Errorf("rpc: cannot create an eventfd: %w", err)
		}
	}
	ev := new(unix.EpollEvent)
	*ev = event(unix.EPOLLIN, stopSlot, 0)
	if e := s.poll.ctl(unix.EPOLL_CTL_ADD, s.stop, ev); e != 0 {
		return fmt.Errorf("rpc: cannot watch an eventfd: %w", e)
	}
	return nil
}

func (s *Server) closeFDs() {
	for _, fd := range []int{s.poll.fd, s.stop, s.stopAccept} {
		if fd >= 0 {
			unix.Close(fd)
		}
	}
}

// signal makes an eventfd readable for good.
func signal(fd int) { unix.Write(fd, binary.NativeEndian.AppendUint64(nil, 1)) }

// Now is the server's monotonic clock, in nanoseconds.
func (s *Server) Now() int64 { return int64(time.Since(epoch)) }

var epoch = time.Now()

func (s *Server) cache(p *Proc) *replyCache {
	if p.Bulk {
		return s.caches[1]
	}
	return s.caches[0]
}

func (s *Server) enlist(w *worker) {
	s.mu.Lock()
	s.workers = append(s.workers, w)
	s.mu.Unlock()
}

func (s *Server) retire(w *worker) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.workers = slices.DeleteFunc(s.workers, func(x *worker) bool { return x == w })
	s.retired.add(w)
}

func (t *totals) add(w *worker) {
	t.calls += w.ncalls.Load()
	t.in += w.nbytesIn.Load()
	t.out += w.nbytesOut.Load()
}

func (s *Server) reject(r Reason) {
	s.rejects[r].Add(1)
	if o := s.cfg.Observer; o != nil {
		o.Reject(r)
	}
}

func (s *Server) logEncode(p *Proc, err error) {
	if n, ok := s.encLimit.allow(); ok {
		s.cfg.Log.Error().Str("procedure", p.Name).Err(err).Uint64("suppressed", n).
			Msg("a reply could not be encoded; the client gets SYSTEM_ERR")
	}
}

// limiter lets one message through a second.
type limiter struct {
	last    atomic.Int64
	dropped atomic.Uint64
}

// allow reports whether to log, and how many messages were dropped since the last.
func (l *limiter) allow() (dropped uint64, ok bool) {
	now, last := int64(time.Since(epoch))+int64(time.Second), l.last.Load()
	if now-last < int64(time.Second) || !l.last.CompareAndSwap(last, now) {
		l.dropped.Add(1)
		return 0, false
	}
	return l.dropped.Swap(0), true
}

// janitor does what is due once a second: it closes idle connections, frees
// memory that is not used, and ends a shortage that does not end by itself.
func (s *Server) janitor() {
	defer close(s.choresEnd)
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for n := 1; ; n++ {
		select {
		case <-s.chores:
			return
		case <-tick.C:
		}
		s.sweep(s.Now())
		if n%30 == 0 {
			s.pool.trim()
		}
	}
}

// patience is how long a connection may take for a record while others wait
// for the memory that is kept for the rest of it.
const patience = int64(5 * time.Second)

// silence is how long it may send nothing then.
const silence = int64(2 * time.Second)

// sweep closes what has been idle too long and, when memory is short, as many
// connections as wait for some: those that keep calls waiting because they
// take no replies, and those whose unfinished records come in most slowly. What
// else such a connection does, or leaves undone, is no excuse: only while the
// server does not read it for reasons of its own is it spared.
func (s *Server) sweep(now int64) {
	type hog struct {
		c      *Conn
		rate   float64 // bytes a nanosecond
		reason string
	}
	var hogs []hog
	short := int(s.pool.waiting.Load())
	s.table.all(func(c *Conn) {
		c.mu.Lock()
		choked := c.flow.Load() == flowChoked
		switch {
		case s.cfg.IdleTimeout > 0 && c.quiet() && now-c.active > int64(s.cfg.IdleTimeout):
			c.shut(reasonIdle)
		case short == 0:
		case !c.busy && c.in.buf != nil && (now-c.in.since > patience || now-c.active > silence) && (choked || c.armed&unix.EPOLLIN != 0):
			hogs = append(hogs, hog{c, float64(c.in.got) / float64(now-c.in.since), reasonUnfilled})
		case !c.busy && choked && (c.inflight > 0 || c.held.buf != nil) && now-c.progress > patience:
			hogs = append(hogs, hog{c, 0, reasonStalled})
		}
		c.unlock()
	})
	slices.SortFunc(hogs, func(a, b hog) int { return cmp.Compare(a.rate, b.rate) })
	for _, h := range hogs[:min(short, len(hogs))] {
		h.c.close(h.reason)
	}
	s.pool.wake()
}

// Shutdown stops accepting and reading, lets the calls in flight finish and
// their replies reach the clients, but for those that take nothing for five
// seconds, and closes everything. When ctx ends first,
// it closes the connections at once and returns ctx's error; procedures that
// are still running then keep their threads until they return.
func (s *Server) Shutdown(ctx context.Context) error {
	s.mu.Lock() // either Serve sees that the server stops, or accepting knows of it
	stopped := s.stopping.Swap(true)
	s.mu.Unlock()
	if stopped {
		return nil
	}
	signal(s.stopAccept)
	s.accepting.Wait()
	err := s.drain(ctx)
	close(s.chores)
	<-s.choresEnd
	s.table.all(func(c *Conn) { c.close(reasonShutdown) })

	signal(s.stop)
	for s.spares.wake() {
	}
	s.mon.halt()
	ended := make(chan struct{})
	go func() {
		s.threads.Wait()
		s.slow.stop()
		s.closeFDs()
		s.pool.close()
		close(ended)
	}()
	select {
	case <-ended:
	case <-ctx.Done():
		if err == nil {
			err = ctx.Err()
		}
	}
	return err
}

// drain waits until every connection has got its answers, or takes none, and
// closes it.
func (s *Server) drain(ctx context.Context) error {
	for {
		left := 0
		s.table.all(func(c *Conn) {
			c.mu.Lock()
			c.draining = true
			if c.closed {
				left++ // in use just now
			} else if c.stuck(s.Now()) {
				left++
				c.shut(reasonStalled)
			} else if c.busy || c.sending || c.inflight > 0 || len(c.out) > 0 || unsent(c.fd) > 0 {
				left++
				c.rearm()
			} else {
				c.shut(reasonShutdown)
			}
			c.unlock()
		})
		if left == 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(2 * time.Millisecond):
		}
	}
}

// stuck reports that a client has taken nothing of what is there for it for so
// long that a server which shuts down need not wait; the lock is held.
func (c *Conn) stuck(now int64) bool {
	left := c.queued + unsent(c.fd)
	if left != c.left {
		c.left, c.progress = left, now
	}
	return left > 0 && !c.busy && !c.sending && now-c.progress > patience
}

// unsent is how many bytes the peer has not acknowledged. Closing a socket
// whose client has sent more than was read resets it, and they would be lost.
func unsent(fd int) int {
	n, err := unix.IoctlGetInt(fd, unix.SIOCOUTQ)
	if err != nil {
		return 0
	}
	return n
}

// Stats is a snapshot of the server's counters.
type Stats struct {
	Conns         int               `json:"connections"`
	ConnsTotal    uint64            `json:"connections_total"`
	Calls         uint64            `json:"calls"`
	BytesIn       uint64            `json:"bytes_in"`
	BytesOut      uint64            `json:"bytes_out"`
	Threads       int               `json:"service_threads"`
	Replaced      uint64            `json:"service_threads_replaced"`
	SlowCalls     uint64            `json:"slow_calls"`
	SlowQueued    int               `json:"slow_queued"`
	SlowRunning   int               `json:"slow_running"`
	SlowThreads   int               `json:"slow_threads"`
	QueuedBytes   int64             `json:"queued_bytes"`
	RecordBytes   int64             `json:"record_bytes"`
	CacheHits     uint64            `json:"reply_cache_hits"`
	CacheMisses   uint64            `json:"reply_cache_misses"`
	CacheDropped  uint64            `json:"reply_cache_in_progress"`
	CacheUncached uint64            `json:"reply_cache_not_kept"`
	Rejects       map[string]uint64 `json:"rejects"`
}

// Stats takes a snapshot.
func (s *Server) Stats() Stats {
	st := Stats{
		ConnsTotal:  s.nextID.Load(),
		Threads:     len(*s.services.Load()),
		Replaced:    s.nreplaced.Load(),
		SlowCalls:   s.slow.total.Load(),
		QueuedBytes: s.queued.Load(),
		RecordBytes: s.pool.held.Load(),
		Rejects:     make(map[string]uint64, NumReasons),
	}
	for i := range s.rejects {
		st.Rejects[Reason(i).String()] = s.rejects[i].Load()
	}
	s.mu.Lock()
	t := s.retired
	for _, w := range s.workers {
		t.add(w)
	}
	s.mu.Unlock()
	st.Calls, st.BytesIn, st.BytesOut = t.calls, t.in, t.out
	s.table.mu.Lock()
	st.Conns = s.table.n
	s.table.mu.Unlock()
	s.slow.mu.Lock()
	st.SlowQueued, st.SlowRunning, st.SlowThreads = s.slow.q.queued+s.slow.q.parked, s.slow.q.running, s.slow.threads
	s.slow.mu.Unlock()
	for _, r := range s.caches {
		st.CacheHits += r.hits.Load()
		st.CacheMisses += r.misses.Load()
		st.CacheDropped += r.running.Load()
		st.CacheUncached += r.unkept.Load()
	}
	return st
}

// ConnInfo describes one connection, for `sluice clients`.
type ConnInfo struct {
	ID       uint64         `json:"id"`
	Peer     netip.AddrPort `json:"peer"`
	Local    netip.AddrPort `json:"local"`
	Since    time.Time      `json:"since"`
	Idle     time.Duration  `json:"idle_ns"` // since it was last served
	Calls    uint64         `json:"calls"`
	BytesIn  uint64         `json:"bytes_in"`
	BytesOut uint64         `json:"bytes_out"`
	InFlight int            `json:"in_flight"`    // on slow threads or waiting for one
	Queued   int            `json:"queued_bytes"` // of replies that the client has not taken
}

// Connections lists the open connections, the oldest first.
func (s *Server) Connections() []ConnInfo {
	var list []ConnInfo
	s.table.all(func(c *Conn) {
		c.mu.Lock()
		inflight, queued, idle := c.inflight, c.queued, s.Now()-c.active
		c.mu.Unlock()
		list = append(list, ConnInfo{ID: c.id, Peer: c.peer.remote, Local: c.peer.local, Since: c.since, Idle: time.Duration(idle),
			Calls: c.calls.Load(), BytesIn: c.bytesIn.Load(), BytesOut: c.bytesOut.Load(), InFlight: inflight, Queued: queued})
	})
	slices.SortFunc(list, func(a, b ConnInfo) int { return cmp.Compare(a.ID, b.ID) })
	return list
}
