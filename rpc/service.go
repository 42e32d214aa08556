// Service threads: one per core, each locked to its operating-system thread.
//
// A thread takes one event, reads what the connection has, runs the calls it
// finds and sends their replies in one system call. Two things decide its
// speed: that the replies to a burst leave together, and that a burst is
// grouped by caller, since procedures keep the last caller's credentials.
//
//	GETATTR, calls/s:          1 connection x 16 in flight   8 x 8
//	one write per reply                               93k    108k
//	one write per burst                              294k    702k
//	LOOKUP by two callers in turn, 8x8: grouped 420k, not grouped 247k
//
// It takes one event at a time, so that no connection waits behind another's
// call when a second thread is free.

package rpc

import (
	"bytes"
	"runtime"
	"sync/atomic"
	"syscall"

	"golang.org/x/sys/unix"
)

const (
	readSize  = 256 << 10 // a thread's read buffer
	largeRead = 16 << 10  // how much is read where the next record may be large
	largeFrom = 64 << 10  // a large record has so many bytes
	outSize   = 256 << 10 // a thread's reply buffer
	flushOut  = 64 << 10  // encoded bytes that are sent before the burst ends
	flushData = 256 << 10 // the same with payloads
	maxBurst  = 128       // calls of a burst
	minHalved = 4         // calls of the least burst whose first half is sent early
	nap       = 5         // milliseconds of a wait that ends soon, on a busy server
	lingerFor = 50_000    // nanoseconds, about what two wake-ups take
	maxSitOut = 7         // waits without a look, at most
	maxRounds = 16        // reads of one connection before others get their turn
	turn      = 2_000_000 // nanoseconds of serving one connection, likewise
)

// taken, in service.running: the procedure sleeps, and another thread takes
// this one's place, now or when there is one.
const taken = 1 << 63

// service is one service thread.
type service struct {
	worker
	ev     unix.EpollEvent
	in     []byte
	pocket int64 // of the record memory
	vec    vector
	calls  []incoming
	order  []int

	tid        atomic.Int32
	began      int64  // when the present event was first read for
	lastCaller []byte // flavour and identity of the last call that ran
	waited     bool   // nothing was to be done before the present event
	vain       int    // grows with each look in vain, see linger
	sitOut     int    // waits without a look, from now on

	serial   uint64        // of the last procedure
	running  atomic.Uint64 // serial of the procedure that runs, 0 when none does; and taken
	seen     uint64        // the monitor's: what running was when it looked last
	replaced bool          // another thread has taken this one's place
}

// run is a service thread's life.
func (t *service) run(s *Server) {
	defer s.threads.Done()
	runtime.LockOSThread() // for good: the thread ends with the goroutine
	t.tid.Store(int32(unix.Gettid()))
	t.in = make([]byte, readSize)
	t.calls = make([]incoming, 0, maxBurst)
	t.order = make([]int, 0, maxBurst)
	t.init(s, outSize)
	s.enlist(&t.worker)
	bed := new(sleeper)
	for t.event() {
		if t.doomed {
			if !t.replaced {
				s.startService()
			}
			break
		}
		if t.replaced && !s.spare(t, bed) {
			break
		}
	}
	s.pool.giveBack(t.pocket)
	s.dismiss(t)
	t.worker.end()
}

// event waits for an event and serves it; false when the server stops.
func (t *service) event() bool {
	s := t.srv
	t.waited = false
	for !s.poll.try(&t.ev, 0) {
		t.waited = true
		if t.linger() {
			break
		}
		s.waiting.Add(1)
		ok := s.poll.try(&t.ev, nap) || s.poll.wait(&t.ev)
		if s.waiting.Add(-1) == 0 {
			s.mon.arm()
		}
		if ok {
			break
		}
	}
	slot, gen := uint32(t.ev.Fd), uint32(t.ev.Pad)
	if slot == stopSlot {
		return false
	}
	if c := s.table.get(slot, gen); c != nil {
		t.serve(c, t.ev.Events)
	}
	return true
}

// linger looks for an event for a little while before the thread sleeps: for
// one client that waits for each reply, or sends its next burst at once, the
// two wake-ups of a round trip cost more time than the call, and as much CPU
// as the looking. One thread lingers, while another sleeps and so a core is
// free; and after looks in vain it is left out for the next 1, 3 or 7
// waits, so that it costs a server with little to do nearly nothing.
func (t *service) linger() bool {
	s := t.srv
	if t.sitOut > 0 {
		t.sitOut--
		return false
	}
	if s.waiting.Load() == 0 || !s.lingering.CompareAndSwap(false, true) {
		return false
	}
	defer s.lingering.Store(false)
	for start := s.Now(); s.Now()-start < lingerFor; {
		if s.poll.try(&t.ev, 0) {
			t.vain = 0
			return true
		}
	}
	t.vain = min(2*t.vain+1, maxSitOut)
	t.sitOut = t.vain
	return false
}

// serve does what an event on c asks for.
func (t *service) serve(c *Conn, events uint32) {
	c.mu.Lock()
	c.armed = 0
	if c.closed || c.busy {
		c.mu.Unlock()
		return
	}
	c.busy = true
	c.flush(&t.snd)
	read := !c.closed && c.mayRead()
	if !read && events&(unix.EPOLLERR|unix.EPOLLHUP) != 0 {
		c.shut("connection lost")
	}
	c.unlock()
	if read {
		t.began = t.srv.Now()
		for n := 0; n < maxRounds && t.round(c); n++ {
		}
	}
	c.mu.Lock()
	c.busy = false
	c.active = t.srv.Now()
	c.in.note(c.active)
	c.rearm()
	c.unlock()
}

// round reads once and serves what came. It reports whether to go on at once.
func (t *service) round(c *Conn) bool {
	if c.held.buf != nil {
		return t.resume(c)
	}
	t.calls = t.calls[:0]
	in, full, ok := t.read(c)
	sent := t.nbytesOut.Load()
	now := t.srv.Now()
	for more := ok; more && ok; {
		var err error
		in, err = t.split(c, in)
		more = len(in) > 0 && err == nil
		order, sane := t.group()
		n, going := t.burst(c, order, now)
		switch {
		case err != nil:
			c.close(err.Error())
			ok = false
		case !sane:
			c.close("not an RPC call")
			ok = false
		case !going:
			t.hold(c, order[n:], in)
			ok = false
		case more && t.overtime():
			t.hold(c, nil, in)
			ok = false
		}
		t.release()
	}
	// A client that sends a record in pieces, without TCP_NODELAY, sends the
	// second when the first is acknowledged: 40 ms later, if left to TCP. The
	// pieces of large records are many, and acknowledged as they come.
	if ok && c.in.active() && c.in.got+c.in.left < largeFrom {
		quickAck(c.fd)
	}
	// A client that got small replies may have sent the next calls by now.
	// With nobody else waiting, a look is cheaper than another event, which
	// may go to the other thread while this one still asks for it: 20 us of
	// CPU in place of 60 for one call at a time.
	small := t.nbytesOut.Load()-sent < largeFrom && c.in.left < largeFrom
	return ok && (full || small && t.waited) && now-t.began < turn
}

// overtime reports that other connections should be looked at: 256 KiB of small
// calls, as much as one read takes, are 6,000. What is left is held, and the
// connection goes on when its turn comes again.
func (t *service) overtime() bool { return t.srv.Now()-t.began > turn }

// release ends the life of t.calls.
func (t *service) release() {
	for i := range t.calls {
		t.srv.pool.put(t.calls[i].buf)
		t.calls[i] = incoming{}
	}
	t.calls = t.calls[:0]
}

// read reads from the socket: the rest of an incomplete record to where it
// belongs, what follows to the thread's buffer. A record that became complete
// is the first of t.calls. full reports that there may be more.
func (t *service) read(c *Conn) (in []byte, full, ok bool) {
	s := t.srv
	size := len(t.in)
	if c.large {
		size = largeRead
	}
	if t.pocket < s.pool.pocket {
		if size, ok = t.refill(c, size); !ok {
			return nil, false, false
		}
	}
	room := c.in.room()
	var n int
	var e syscall.Errno
	switch {
	case len(room) == 0:
		n, e = recv(c.fd, t.in[:size], 0)
	case size == 0:
		n, e = recv(c.fd, room, 0)
	default:
		t.vec.add(room)
		t.vec.add(t.in[:size])
		n, e = t.vec.recv(c.fd)
		t.vec.reset()
	}
	switch {
	case e == unix.EAGAIN:
		return nil, false, false
	case e != 0:
		c.close("receive: " + e.Error())
		return nil, false, false
	case n == 0:
		s.pool.put(c.in.buf) // the rest of that call will not come
		c.in = assembly{}
		c.mu.Lock()
		c.eof = true
		c.mu.Unlock()
		return nil, false, false
	}
	c.bytesIn.Add(uint64(n))
	k := min(n, len(room))
	if k > 0 && c.in.added(k) {
		t.complete(c)
	}
	return t.in[:n-k], n == len(room)+size, true
}

// complete makes a call of the assembled record.
func (t *service) complete(c *Conn) {
	body, buf := c.in.finish()
	c.large = len(body) >= largeFrom
	t.calls = append(t.calls, incoming{body: body, buf: buf})
}

// split makes calls of the records in in, until there are maxBurst, and
// returns what it has not looked at. An incomplete record at the end moves to
// c.in.
func (t *service) split(c *Conn, in []byte) ([]byte, error) {
	p, limit := t.srv.pool, t.srv.cfg.MaxRecord
	for len(in) > 0 && len(t.calls) < maxBurst {
		if c.in.active() {
			n, done, err := c.in.feed(in, p, &t.pocket, limit)
			if err != nil {
				return nil, err
			}
			in = in[n:]
			if done {
				t.complete(c)
			}
			continue
		}
		body, n, err := whole(in, limit)
		if err != nil {
			return nil, err
		}
		if n == 0 {
			_, _, err = c.in.feed(in, p, &t.pocket, limit)
			c.large = c.in.left+c.in.got >= largeFrom
			return nil, err
		}
		c.large = n >= largeFrom
		t.calls = append(t.calls, incoming{body: body})
		in = in[n:]
	}
	return in, nil
}

// burst serves t.calls in the given order and sends the replies. It returns
// how many were served, and false when the connection may not go on.
func (t *service) burst(c *Conn, order []int, now int64) (n int, going bool) {
	s := t.srv
	going = true
	for n < len(order) && going {
		p := &t.calls[order[n]]
		t.serial++
		t.runs(t.serial)
		t.ahead = ahead{t.calls, order[n+1:]}
		if t.worker.run(c, p, now, false) && !s.slow.submit(c, p, now) {
			going = false
			break
		}
		n++
		if t.early(n, order) {
			t.runs(0) // sending is never stuck, and may take a while
			queued := t.flush(c)
			going = queued == 0 || queued <= s.queueLimit()
		}
		if t.doomed || t.lost {
			going = false
		}
	}
	t.runs(0)
	t.ahead = ahead{}
	t.untake(order[n:])
	c.calls.Add(uint64(n))
	if queued := t.flush(c); queued > s.queueLimit() {
		going = false
	}
	if t.lost {
		t.lost = false
		c.close("not an RPC call")
	}
	if !going {
		c.mu.Lock()
		c.stalled = true
		c.mu.Unlock()
	}
	return n, going
}

// runs notes which procedure runs, and whether the last one was found asleep.
func (t *service) runs(serial uint64) {
	if t.running.Swap(serial)&taken != 0 {
		t.replaced = true
	}
}

// early reports whether the replies to the first n calls of a burst
// leave before the others are served: when there are many bytes of them, or
// when they are half of the burst and a core is idle. The client then answers
// the first half with its next calls while the second is served, and neither
// waits for the other: GETATTR with 16 calls in flight +35%, WRITE of 4 KiB
// with 8 in flight +30%, for the same CPU. Where the second half was taken by
// the first (Call.Take), there is no work left to do meanwhile.
func (t *service) early(n int, order []int) bool {
	if t.enc.Len() >= flushOut && (len(t.enc.Bytes()) >= flushOut || t.enc.Len() >= flushData) {
		return true
	}
	return n == len(order)/2 && len(order) >= minHalved && t.waited && t.srv.waiting.Load() > 0 &&
		!t.calls[order[n]].taken
}

// group decodes the calls' headers and puts the calls in order: those of one
// caller together, each caller's in the order of arrival, and first those of
// the caller that this thread served last. It is not sane if the client sent
// something that is not a call; what comes after that is left out.
func (t *service) group() (order []int, sane bool) {
	order, calls := t.order[:0], t.calls
	groups := 0
	sane = true
	for i := range calls {
		p := &calls[i]
		t.srv.look(p)
		if p.head.fault == faultNotCall {
			calls, sane = calls[:i], false
			break
		}
		p.group = -1
		for j := i - 1; j >= 0; j-- {
			if sameCaller(&calls[j].head, &p.head) {
				p.group = calls[j].group
				break
			}
		}
		if p.group < 0 {
			p.group = groups
			groups++
		}
	}
	switch {
	case len(calls) == 0:
		return order, sane
	case groups == 1:
		for i := range calls {
			order = append(order, i)
		}
	default:
		first := 0
		for i := range calls {
			if bytes.Equal(calls[i].head.identity, t.lastCaller) {
				first = calls[i].group
				break
			}
		}
		for g := range groups {
			for i := range calls {
				if calls[i].group == (first+g)%groups {
					order = append(order, i)
				}
			}
		}
	}
	t.lastCaller = append(t.lastCaller[:0], calls[order[len(order)-1]].head.identity...)
	return order, sane
}

func sameCaller(a, b *header) bool {
	return a.flavor == b.flavor && bytes.Equal(a.identity, b.identity)
}
