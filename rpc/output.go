// Replies on their way out: straight from a thread's buffer to the socket, and
// what the socket does not take to the connection's queue.
//
// A record is queued whole or behind its own beginning, so that records never
// mix. Any error of the socket closes the connection: after the first byte of
// a record there is no other way to leave the stream in order.

package rpc

import (
	"syscall"

	"sluice/xdr"

	"golang.org/x/sys/unix"
)

// segment is a stretch of a reply: bytes, or a payload.
type segment struct {
	b []byte
	p xdr.Payload
}

func releaseAll(segs []segment) {
	for _, s := range segs {
		if s.p != nil {
			s.p.Release()
		}
	}
}

// sender is a thread's scratch for sending. It lies on the heap.
type sender struct {
	segs []segment
	vec  vector
}

// load takes the records in e, whose bytes stay where they are.
func (w *sender) load(e *xdr.Encoder) {
	b, from := e.Bytes(), 0
	for _, s := range e.Segments() {
		if s.At > from {
			w.segs = append(w.segs, segment{b: b[from:s.At]})
			from = s.At
		}
		w.segs = append(w.segs, segment{p: s.P})
	}
	if len(b) > from {
		w.segs = append(w.segs, segment{b: b[from:]})
	}
}

// send moves segments to the socket until it is full, and returns how many
// bytes went and what is left; payloads that are through are released. A
// socket that is full is no error.
func (w *sender) send(fd int, segs []segment) (sent int, rest []segment, err error) {
	for len(segs) > 0 {
		if p := segs[0].p; p != nil {
			if _, ok := p.Bytes(); !ok {
				n, err := p.SendTo(fd)
				sent += n
				if p.Len() <= 0 {
					p.Release()
					segs[0] = segment{}
					segs = segs[1:]
				}
				switch {
				case err == unix.EAGAIN:
					return sent, segs, nil
				case err != nil:
					return sent, segs, err
				case n <= 0:
					return sent, segs, unix.EIO // would go on for ever
				}
				continue
			}
		}
		n, e := w.gather(fd, segs)
		if e == unix.EAGAIN {
			return sent, segs, nil
		}
		if e == 0 && n <= 0 {
			e = unix.EIO // would go on for ever
		}
		if e != 0 {
			return sent, segs, e
		}
		sent += n
		segs = advance(segs, n)
	}
	return sent, segs, nil
}

// gather sends as many segments from memory as lie before a payload that is
// elsewhere, in one system call.
func (w *sender) gather(fd int, segs []segment) (int, syscall.Errno) {
	if len(segs) == 1 && segs[0].p == nil {
		return send(fd, segs[0].b, 0)
	}
	i := 0
	for ; i < len(segs) && w.vec.n < maxIov; i++ {
		b := segs[i].b
		if p := segs[i].p; p != nil {
			var ok bool
			if b, ok = p.Bytes(); !ok {
				break
			}
		}
		w.vec.add(b)
	}
	flags := 0
	if i < len(segs) {
		flags = unix.MSG_MORE
	}
	n, e := w.vec.send(fd, flags)
	w.vec.reset()
	return n, e
}

// advance drops n sent bytes from the front.
func advance(segs []segment, n int) []segment {
	for n > 0 { // what comes behind may be a payload outside of memory
		s := &segs[0]
		if s.p == nil {
			if n < len(s.b) {
				s.b = s.b[n:]
				return segs
			}
			n -= len(s.b)
		} else {
			l := s.p.Len()
			if n < l {
				s.p.Advance(n)
				return segs
			}
			s.p.Advance(l)
			s.p.Release()
			n -= l
		}
		*s = segment{}
		segs = segs[1:]
	}
	return segs
}

// size is the bytes left in segments.
func size(segs []segment) (n int) {
	for _, s := range segs {
		n += len(s.b)
		if s.p != nil {
			n += s.p.Len()
		}
	}
	return n
}

// transmit sends the records in e and takes their payloads; e may be reset
// afterwards. It returns how many bytes the connection has queued.
func (c *Conn) transmit(w *sender, e *xdr.Encoder) (queued int) {
	total := e.Len()
	if total == 0 {
		return 0
	}
	w.load(e)
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		releaseAll(w.segs)
		w.clear()
		return 0
	}
	c.bytesOut.Add(uint64(total))
	if c.sending || len(c.out) > 0 {
		c.enqueue(w.segs)
	} else {
		c.sending = true
		c.mu.Unlock()
		_, rest, err := w.send(c.fd, w.segs)
		c.mu.Lock()
		c.sending = false
		switch {
		case err != nil:
			c.shut("send: " + err.Error())
			releaseAll(rest)
		case c.closed:
			releaseAll(rest)
		case len(rest) > 0:
			c.enqueueFirst(rest)
		default:
			c.flush(w)
		}
		c.rearm()
	}
	queued = c.queued
	c.unlock()
	w.clear()
	if queued > 0 {
		c.srv.shed(c.srv.limits.queuedTotal.Load())
	}
	return queued
}

func (w *sender) clear() {
	clear(w.segs)
	w.segs = w.segs[:0]
}

// flush sends what is queued, as far as the socket takes it; the lock is held,
// but not while sending.
func (c *Conn) flush(w *sender) {
	for len(c.out) > 0 && !c.sending && !c.closed {
		segs := c.out
		c.out, c.outSpare = c.outSpare[:0], nil
		c.sending = true
		c.mu.Unlock()
		sent, rest, err := w.send(c.fd, segs)
		c.mu.Lock()
		c.sending = false
		c.queued -= sent
		c.srv.queued.Add(-int64(sent))
		if sent > 0 {
			c.progress = c.srv.Now()
		}
		if c.queued == 0 || c.flow.Load() == flowChoked && c.queued <= c.srv.queueLimit()/2 {
			c.ease()
		}
		if err != nil {
			c.shut("send: " + err.Error())
		}
		if c.closed {
			releaseAll(rest)
			return
		}
		if len(rest) > 0 {
			c.out = append(rest, c.out...)
			return
		}
		if cap(segs) <= 64 {
			c.outSpare = segs[:0]
		}
	}
}

// enqueue appends segments whose bytes belong to a thread; the lock is held.
func (c *Conn) enqueue(segs []segment) {
	c.account(size(segs))
	for _, s := range segs {
		c.out = append(c.out, c.own(s))
	}
}

// enqueueFirst puts the rest of a record that is partly sent before whatever
// other threads queued in the meantime.
func (c *Conn) enqueueFirst(segs []segment) {
	behind := c.out
	c.out = nil
	c.enqueue(segs)
	c.out = append(c.out, behind...)
}

func (c *Conn) account(n int) {
	if c.queued == 0 {
		c.progress = c.srv.Now()
	}
	c.queued += n
	c.srv.queued.Add(int64(n))
	if c.queued > c.srv.queueLimit() {
		c.flow.Store(flowChoked)
	} else if c.flow.Load() == flowFree {
		c.flow.Store(flowSlow)
	}
}

// How a connection's replies get away. The slow pool works ahead for it
// accordingly.
const (
	flowFree   = iota // the socket takes them
	flowSlow          // the socket is full
	flowChoked        // more is queued than may be
)

// ease notes that the flow is better than it was; the lock is held.
func (c *Conn) ease() {
	flow := int32(flowFree)
	if c.queued > 0 {
		flow = flowSlow
	}
	if c.flow.Swap(flow) != flow {
		c.eased = true
	}
}

func (c *Conn) own(s segment) segment {
	if s.p == nil {
		s.b = append([]byte(nil), s.b...)
	}
	return s
}

// queueLimit is how many bytes of replies a connection may have queued and
// still be read. When half of all that may be queued is, a connection must
// take all its replies before it gets more.
func (s *Server) queueLimit() int {
	if s.queued.Load() > s.limits.queuedTotal.Load()/2 {
		return 0
	}
	return int(s.limits.queued.Load())
}

// shed closes the connections that have stalled longest while more than limit
// bytes are queued. No connection's lock may be held.
func (s *Server) shed(limit int64) {
	if s.queued.Load() <= limit {
		return
	}
	s.shedding.Lock()
	defer s.shedding.Unlock()
	for {
		before := s.queued.Load()
		if before <= limit {
			return
		}
		var victim *Conn
		var oldest int64
		s.table.all(func(c *Conn) {
			c.mu.Lock()
			if c.queued > 0 && !c.closed && (victim == nil || c.progress < oldest) {
				victim, oldest = c, c.progress
			}
			c.mu.Unlock()
		})
		if victim == nil {
			return
		}
		victim.close(reasonStalled)
		if s.queued.Load() >= before {
			return // in use just now; it gives its bytes back in a moment
		}
	}
}
