// A client's connection, and the table that events find it through.
//
// One service thread at a time reads a connection (busy); any thread may send
// on it, one at a time (sending). Who finds either taken leaves its work where
// the holder looks before it lets go, so that nobody waits. A connection is
// never reused and its descriptor is closed only when it is neither busy nor
// sending: what is meant for one client cannot reach another that was given
// the same number.
//
// Interest is one-shot. Whoever changes what a connection waits for calls
// rearm; while it is busy that is the reader's last act.

package rpc

import (
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

type peer struct{ remote, local netip.AddrPort }

// Conn is one TCP connection.
type Conn struct {
	// Data is the protocols' own, set by Config.OnConnect and not changed
	// afterwards. Calls of one connection run on several threads at once, so
	// that what hangs here guards itself.
	Data any

	id    uint64
	back  backchannel
	peer  peer
	srv   *Server
	fd    int
	slot  uint32
	gen   uint32
	since time.Time

	calls, bytesIn, bytesOut atomic.Uint64

	// Owned by the thread that has set busy.
	in    assembly
	held  held
	large bool // the last record was large, so the next may be

	flow      atomic.Int32 // how its replies get away; set under mu
	slowReply int          // size of its replies from slow threads; guarded by the pool's lock

	mu       sync.Mutex
	busy     bool   // a service thread reads it
	sending  bool   // a thread sends on it
	closed   bool   // no longer in the table; waits for busy and sending to end
	gone     bool   // released
	eof      bool   // the client has sent its last byte
	eased    bool   // tell the slow pool, after unlocking, that flow is better
	draining bool   // shutting down: read no more
	waiting  bool   // in a queue for memory or for a place on the slow pool
	stalled  bool   // too many calls in flight, or a thread ended: read again when half are done
	reason   string // why it was closed
	armed    uint32 // events asked for
	low      int    // bytes that must be there before the socket counts as readable
	ev       unix.EpollEvent
	inflight int       // calls on the slow pool
	out      []segment // replies that the socket did not take
	outSpare []segment // the other of two slices that take turns
	queued   int       // bytes in out, or being sent from there
	progress int64     // when the queue last moved or began
	active   int64     // when it was last served
	left     int       // shutting down: bytes that the client had not taken at the last look
}

// Peer is the client's address and port; an IPv4 client has an IPv4 address.
func (c *Conn) Peer() netip.AddrPort { return c.peer.remote }

// Local is the server's address and port.
func (c *Conn) Local() netip.AddrPort { return c.peer.local }

// ID is unique in the life of the server.
func (c *Conn) ID() uint64 { return c.id }

// Plain reports that replies go to the socket as they are, so that a payload
// may be a pipe that is spliced to it.
func (c *Conn) Plain() bool { return true }

// Peer is the caller's address and port.
func (c *Call) Peer() netip.AddrPort { return c.peer.remote }

// unlock ends a critical section, and the connection if that was what it
// waited for.
func (c *Conn) unlock() {
	last := c.closed && !c.gone && !c.busy && !c.sending
	if last {
		c.gone = true
	}
	kick := c.eased
	c.eased = false
	c.mu.Unlock()
	if last {
		c.release()
	}
	if kick {
		c.srv.slow.kick(c)
	}
}

// quiet reports that nothing is under way; the lock is held.
func (c *Conn) quiet() bool {
	return !c.busy && !c.sending && !c.waiting && c.inflight == 0 && len(c.out) == 0
}

// shut starts the end of the connection; the lock is held.
func (c *Conn) shut(reason string) {
	if c.closed {
		return
	}
	c.closed, c.reason = true, reason
	c.srv.table.remove(c)
	c.srv.poll.ctl(unix.EPOLL_CTL_DEL, c.fd, &c.ev)
	unix.Shutdown(c.fd, unix.SHUT_RDWR)
	n := size(c.out)
	releaseAll(c.out)
	c.out, c.outSpare = nil, nil
	c.queued -= n
	c.srv.queued.Add(-int64(n))
	c.ease()
}

// close is shut for those who don't hold the lock.
func (c *Conn) close(reason string) {
	c.mu.Lock()
	c.shut(reason)
	c.unlock()
}

// release gives everything back; nobody uses the connection any more.
func (c *Conn) release() {
	unix.Close(c.fd)
	c.srv.queued.Add(-int64(c.queued))
	c.srv.pool.put(c.in.buf)
	c.srv.pool.put(c.held.buf)
	c.in, c.held = assembly{}, held{}
	c.mu.Lock()
	waiting := c.waiting
	c.mu.Unlock()
	if waiting {
		c.srv.pool.remove(c)
		c.srv.slow.remove(c)
	}
	c.srv.disconnected(c)
}

// mayRead reports whether the connection is within its limits; the lock is held.
func (c *Conn) mayRead() bool {
	if c.eof && c.held.buf == nil || c.draining || c.waiting {
		return false
	}
	limit, calls := c.srv.queueLimit(), int(c.srv.limits.inFlight.Load())
	if c.flow.Load() == flowChoked {
		if c.queued > limit/2 {
			return false
		}
		c.ease()
	}
	if c.stalled {
		if c.inflight > calls/2 {
			return false
		}
		c.stalled = false
	}
	return c.queued <= limit && c.inflight < calls
}

// rearm asks for the events that the connection waits for; the lock is held.
// While it is busy, the reader does it in the end.
func (c *Conn) rearm() {
	if c.closed || c.busy {
		return
	}
	if c.eof && c.held.buf == nil && c.inflight == 0 && len(c.out) == 0 && !c.sending {
		c.shut("closed by the client")
		return
	}
	want := uint32(unix.EPOLLERR) // reported in any case, but only to who waits
	if c.mayRead() {
		if c.held.buf == nil {
			want |= unix.EPOLLIN
		} else {
			want |= unix.EPOLLOUT // at once, unless the socket is full
		}
	}
	if len(c.out) > 0 && !c.sending {
		want |= unix.EPOLLOUT
	}
	if want == c.armed {
		return
	}
	if low := c.in.lowWater(); low != c.low {
		c.low = low
		unix.SetsockoptInt(c.fd, unix.SOL_SOCKET, unix.SO_RCVLOWAT, low)
	}
	c.armed = want
	c.ev = event(want|unix.EPOLLONESHOT, c.slot, c.gen)
	if e := c.srv.poll.ctl(unix.EPOLL_CTL_MOD, c.fd, &c.ev); e != 0 {
		c.shut("epoll: " + e.Error())
	}
}

// proceed lets a connection go on that waited in a queue.
func (c *Conn) proceed() {
	c.mu.Lock()
	c.waiting = false
	c.rearm()
	c.unlock()
}

// isClosed reports that no reply can be sent any more.
func (c *Conn) isClosed() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.closed
}

// callDone ends a call on the slow pool.
func (c *Conn) callDone() {
	c.mu.Lock()
	c.inflight--
	c.rearm()
	c.unlock()
}

// table finds connections by slot and generation.
type table struct {
	slots []atomic.Pointer[Conn]

	mu   sync.Mutex
	gens []uint32 // of the present or next user of a slot
	free []uint32
	next uint32 // slots from here on were never used
	n    int
}

func newTable(size int) *table {
	return &table{slots: make([]atomic.Pointer[Conn], size), gens: make([]uint32, size)}
}

// add gives c a slot; false when all are taken.
func (t *table) add(c *Conn) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if n := len(t.free); n > 0 {
		c.slot = t.free[n-1]
		t.free = t.free[:n-1]
	} else if int(t.next) < len(t.slots) {
		c.slot = t.next
		t.next++
	} else {
		return false
	}
	c.gen = t.gens[c.slot]
	t.slots[c.slot].Store(c)
	t.n++
	return true
}

// full reports that all slots are taken.
func (t *table) full() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.n == len(t.slots)
}

func (t *table) remove(c *Conn) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.slots[c.slot].Store(nil)
	t.gens[c.slot]++
	t.free = append(t.free, c.slot)
	t.n--
}

// get returns the connection that an event means, nil when it is gone.
func (t *table) get(slot, gen uint32) *Conn {
	if c := t.slots[slot].Load(); c != nil && c.gen == gen {
		return c
	}
	return nil
}

// all calls f for each connection.
func (t *table) all(f func(*Conn)) {
	t.mu.Lock()
	n := t.next
	t.mu.Unlock()
	for i := range n {
		if c := t.slots[i].Load(); c != nil {
			f(c)
		}
	}
}
