// One connection: calls in flight by slot, what is being sent, and a reply as
// it comes in.
//
// Nothing here waits. A burst of calls goes out in one system call, headers from
// the connection's buffer and data from the pattern's table; what the socket
// does not take is kept until it does. A record may come in pieces and in
// fragments: its head is gathered and decoded, and a READ's data is compared
// where it lies, or dropped by the kernel without a copy when nobody wants it.

package bench

import (
	"errors"
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	// smallData bytes of a WRITE are copied behind their header: one stretch of
	// memory costs less than two.
	smallData = 8 << 10
	// bulkRead is the size of READs from which the data is received apart from
	// its head.
	bulkRead = 16 << 10
	// maxVectors is the kernel's limit of one writev(2).
	maxVectors = 1024
	// recordSlack is what a reply may have beside the data.
	recordSlack = 64 << 10
)

// slot is one call in flight. Its number is in the low bits of the xid, so that
// replies may come in any order; in a session it is the session's slot too.
type slot struct {
	step
	job  *job
	xid  uint32
	seq  uint32 // sequence id of the session's slot, over the connection's life
	busy bool
	// waiting: it is to get its job's next call as soon as the socket takes one.
	waiting bool
	sent    int64 // nanoseconds since the run's start
	due     int64 // when to send it again, if the server asked for that; else 0
}

// cut is data that goes out before byte at of the buffer.
type cut struct {
	at   int
	data []byte
}

type conn struct {
	fd      int
	sess    *session
	version int
	slots   []slot
	delayed int // slots with a due time
	events  uint32

	out  []byte // of the burst being built or sent
	cuts []cut
	iov  []unix.Iovec
	sent int // vectors of iov that are gone; while it is short of len(iov), the socket is full

	// The record that comes in.
	mark      [4]byte
	markLen   int
	fragLeft  int // bytes of the present fragment
	fragLast  bool
	recordLen int
	state     state
	head      [replyHead]byte
	headLen   int
	cur       *slot // whose reply it is, once the head is there
	v         verdict
	dataLeft  int
	dataAt    int64 // place in the file of the next byte of data
}

type state uint8

const (
	inHead state = iota
	inData
	inRest
)

var errClosed = errors.New("the server closed the connection")

// blocked tells whether the socket has not taken the last burst yet.
func (c *conn) blocked() bool { return c.sent < len(c.iov) }

// push adds the call of a slot to the burst.
func (c *conn) push(i uint32, t *template, xid uint32) {
	s := &c.slots[i]
	s.xid = xid<<slotBits | i
	s.busy = true
	if c.sess != nil {
		s.seq++
	}
	c.out = t.append(c.out, s.xid, &s.step, c.sess, s.seq, i)
	if s.kind != kindWrite {
		return
	}
	data := PatternAt(s.file, s.off, s.length)
	if s.length <= smallData {
		c.out = append(c.out, data...)
	} else {
		c.cuts = append(c.cuts, cut{len(c.out), data})
	}
	for range -s.length & 3 {
		c.out = append(c.out, 0)
	}
}

// flush sends the burst, as far as the socket takes it.
func (c *conn) flush() error {
	if !c.blocked() {
		if len(c.out) == 0 {
			return nil
		}
		c.iov, c.sent = c.iov[:0], 0
		from := 0
		for _, k := range c.cuts {
			if k.at > from {
				c.iov = append(c.iov, vector(c.out[from:k.at]))
				from = k.at
			}
			c.iov = append(c.iov, vector(k.data))
		}
		if from < len(c.out) {
			c.iov = append(c.iov, vector(c.out[from:]))
		}
	}
	for c.blocked() {
		v := c.iov[c.sent:]
		n, errno := rawWritev(c.fd, v[:min(len(v), maxVectors)])
		switch {
		case errno == unix.EINTR:
			continue
		case errno == unix.EAGAIN:
			return nil
		case errno == unix.ECONNRESET, errno == unix.EPIPE:
			return errClosed
		case errno != 0:
			return fmt.Errorf("sending calls: %w", errno)
		}
		for left := uint64(n); left > 0; {
			v := &c.iov[c.sent]
			if left < v.Len {
				v.Base = (*byte)(unsafe.Add(unsafe.Pointer(v.Base), left))
				v.Len -= left
				break
			}
			left -= v.Len
			c.sent++
		}
	}
	c.out, c.cuts = c.out[:0], c.cuts[:0]
	return nil
}

func vector(b []byte) unix.Iovec { return unix.Iovec{Base: &b[0], Len: uint64(len(b))} }

// rawWritev and rawRecv do not tell the scheduler: the socket is nonblocking,
// and they never sleep.
func rawWritev(fd int, v []unix.Iovec) (int, unix.Errno) {
	n, _, e := unix.RawSyscall(unix.SYS_WRITEV, uintptr(fd), uintptr(unsafe.Pointer(&v[0])), uintptr(len(v)))
	return int(n), e
}

// rawRecv reads into b; with drop the kernel throws the bytes away (tcp(7), MSG_TRUNC).
func rawRecv(fd int, b []byte, drop bool) (int, unix.Errno) {
	flags := unix.MSG_DONTWAIT
	if drop {
		flags |= unix.MSG_TRUNC
	}
	for {
		n, _, e := unix.RawSyscall6(unix.SYS_RECVFROM, uintptr(fd), uintptr(unsafe.Pointer(&b[0])), uintptr(len(b)), uintptr(flags), 0, 0)
		if e != unix.EINTR {
			return int(n), e
		}
	}
}

// receive takes in what has arrived. It returns when there is nothing more, or
// after a burst's worth, so that other connections get their turn.
func (l *loop) receive(c *conn) error {
	for range 64 {
		buf, drop := l.buf, false
		switch {
		case c.state == inData && !l.verify && c.fragLeft > 0:
			buf, drop = l.buf[:min(c.dataLeft, c.fragLeft, len(l.buf))], true
		case l.bulk && c.state == inHead:
			buf = l.buf[:max(l.usualHead-c.headLen-c.markLen, 4)]
		case l.bulk:
			buf = l.buf[:min(max(c.fragLeft, 4), len(l.buf))]
		}
		n, errno := rawRecv(c.fd, buf, drop)
		switch {
		case errno == unix.EAGAIN:
			return nil
		case errno == 0 && n == 0, errno == unix.ECONNRESET:
			return errClosed
		case errno != 0:
			return fmt.Errorf("waiting for replies: %w", errno)
		}
		l.now = l.clock()
		if drop {
			if err := l.passed(c, n); err != nil {
				return err
			}
			continue
		}
		if err := l.consume(c, buf[:n]); err != nil {
			return err
		}
		if n < len(buf) {
			return nil // a short read: the socket is empty
		}
	}
	return nil
}

// passed accounts for n bytes of data that are gone.
func (l *loop) passed(c *conn, n int) error {
	c.fragLeft -= n
	c.dataLeft -= n
	c.dataAt += int64(n)
	if c.dataLeft == 0 {
		c.state = inRest
	}
	return l.endOfFragment(c)
}

// consume takes in bytes of the stream.
func (l *loop) consume(c *conn, p []byte) error {
	for len(p) > 0 {
		if c.fragLeft == 0 {
			var err error
			if p, err = l.takeMark(c, p); err != nil {
				return err
			}
			continue
		}
		k := min(len(p), c.fragLeft)
		switch c.state {
		case inHead:
			k = min(k, len(c.head)-c.headLen)
			copy(c.head[c.headLen:], p[:k])
			c.headLen += k
		case inData:
			k = min(k, c.dataLeft)
			l.compare(c, p[:k])
			if c.dataLeft -= k; c.dataLeft == 0 {
				c.state = inRest
			}
		}
		c.fragLeft -= k
		p = p[k:]
		if c.state == inHead {
			if err := l.tryHead(c); err != nil {
				return err
			}
		}
		if err := l.endOfFragment(c); err != nil {
			return err
		}
	}
	return nil
}

// takeMark takes the mark of a fragment from p, and with it the whole record
// where p has it in one piece. It returns what is left of p.
func (l *loop) takeMark(c *conn, p []byte) ([]byte, error) {
	if c.markLen == 0 && c.recordLen == 0 && len(p) >= 4 {
		m := be.Uint32(p)
		n := int(m &^ lastFragment)
		if m&lastFragment != 0 && n <= len(p)-4 {
			return p[4+n:], l.whole(c, p[4:4+n])
		}
	}
	k := copy(c.mark[c.markLen:], p)
	if c.markLen += k; c.markLen < 4 {
		return nil, nil
	}
	m := be.Uint32(c.mark[:])
	c.markLen = 0
	c.fragLeft, c.fragLast = int(m&^lastFragment), m&lastFragment != 0
	if c.recordLen += c.fragLeft; c.recordLen > MaxBlockSize+recordSlack {
		return nil, fmt.Errorf("a reply of more than %d bytes", MaxBlockSize+recordSlack)
	}
	if c.fragLeft == 0 && !c.fragLast {
		return nil, errors.New("an empty fragment of a reply")
	}
	return p[k:], l.endOfFragment(c)
}

// whole takes in a record that lies in memory.
func (l *loop) whole(c *conn, rec []byte) error {
	if err := l.find(c, rec); err != nil {
		return err
	}
	if err := c.v.head(rec, true, c.version, c.cur.kind); err != nil {
		return err
	}
	if c.v.err == nil && c.v.data > 0 {
		if c.v.data > c.v.rest {
			return fmt.Errorf("a reply ends %d bytes before its data", c.v.data-c.v.rest)
		}
		c.dataAt = c.cur.off
		l.compare(c, rec[len(rec)-c.v.rest:][:c.v.data])
	}
	return l.finish(c)
}

// tryHead decodes the head, if enough of it is there.
func (l *loop) tryHead(c *conn) error {
	whole := c.fragLast && c.fragLeft == 0
	if c.headLen < 4 && !whole {
		return nil
	}
	head := c.head[:c.headLen]
	if err := l.find(c, head); err != nil {
		return err
	}
	switch err := c.v.head(head, whole, c.version, c.cur.kind); {
	case errors.Is(err, errNeedMore):
		if c.headLen == len(c.head) {
			return fmt.Errorf("a reply whose first %d bytes do not say what it is", len(head))
		}
		return nil
	case err != nil:
		return err
	}
	c.state = inRest
	if c.v.err == nil && c.v.data > 0 {
		c.state, c.dataLeft, c.dataAt = inData, c.v.data, c.cur.off
		k := min(c.v.rest, c.dataLeft)
		l.compare(c, head[len(head)-c.v.rest:][:k])
		if c.dataLeft -= k; c.dataLeft == 0 {
			c.state = inRest
		}
	}
	return nil
}

// endOfFragment ends the record when its last fragment is through.
func (l *loop) endOfFragment(c *conn) error {
	if c.fragLeft > 0 || !c.fragLast {
		return nil
	}
	if c.state == inHead {
		if err := l.tryHead(c); err != nil {
			return err
		}
	}
	if c.state == inData {
		return fmt.Errorf("a reply ends %d bytes before its data", c.dataLeft)
	}
	c.state, c.headLen, c.recordLen, c.fragLast = inHead, 0, 0, false
	return l.finish(c)
}

// find finds the call that a reply is for.
func (l *loop) find(c *conn, rec []byte) error {
	if len(rec) < 4 {
		return fmt.Errorf("a reply of %d bytes", len(rec))
	}
	xid := be.Uint32(rec)
	i := xid & (1<<slotBits - 1)
	if int(i) >= len(c.slots) || !c.slots[i].busy || c.slots[i].xid != xid {
		return fmt.Errorf("a reply to xid 0x%08x, which is not under way on this connection", xid)
	}
	c.cur = &c.slots[i]
	return nil
}

// compare looks at bytes of data, when that was asked for.
func (l *loop) compare(c *conn, p []byte) {
	if l.verify && len(p) > 0 && c.v.err == nil && len(p) <= MaxBlockSize {
		c.v.err = wrongByte(c.cur.file, c.dataAt, p)
	}
	c.dataAt += int64(len(p))
}
