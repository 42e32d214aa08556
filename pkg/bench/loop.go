// One thread of the load: an epoll loop over some of the connections.
//
// A reply that has been counted makes its slot free, and the slot's job says
// what is sent next on it: each job has as many calls in flight as it may. The
// replies of one wake-up are answered by one burst. Only the loop's own thread
// touches its connections, jobs and counters.

package bench

import (
	"errors"
	"fmt"
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

const (
	slotBits = 12 // of an xid; 1<<slotBits is maxSlots

	recvBuffer = 1 << 20 // of each thread
	// silence without any reply, though calls are under way, ends a run: a COMMIT
	// of a large file may take as long as the disk needs for it.
	silence = 120 * time.Second
	// laterWait is how long a call waits that the server did not want now.
	laterWait = 50 * time.Millisecond
	// maxErrors of calls end a run: more tell nothing new.
	maxErrors = 1000
	// poll bounds how long a loop does not look at the clock.
	poll = 50 * time.Millisecond
)

type loop struct {
	p         *phase
	conns     []*conn
	ep        int
	buf       []byte
	now       int64
	xid       uint32
	bulk      bool
	verify    bool
	usualHead int

	flying    int
	retries   uint64
	errs      uint64
	firstErr  error
	lastReply int64 // of any call
	lastData  int64 // of a READ or WRITE that is counted
	sides     [2]side
	series    series

	verf    [8]byte // of UNSTABLE WRITEs
	hasVerf bool
}

// side is what a run counts of READs or of WRITEs.
type side struct {
	ops, bytes uint64
	lat        latencies
}

// clock is the time since the phase began, in nanoseconds.
func (l *loop) clock() int64 { return int64(time.Since(l.p.base)) }

func newLoop(p *phase) *loop {
	l := &loop{p: p, ep: -1, buf: make([]byte, recvBuffer), bulk: p.w.BlockSize >= bulkRead, verify: p.w.Verify, usualHead: usualHead3}
	if p.w.Protocol == "4.1" {
		l.usualHead = usualHead4
	}
	for i := range l.sides {
		l.sides[i].lat = newLatencies()
	}
	l.series.interval = p.interval
	return l
}

// run drives the connections until their jobs are done.
func (l *loop) run() error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var err error
	if l.ep, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return fmt.Errorf("epoll: %w", err)
	}
	defer unix.Close(l.ep)
	for i, c := range l.conns {
		c.events = unix.EPOLLIN
		if err := unix.EpollCtl(l.ep, unix.EPOLL_CTL_ADD, c.fd, &unix.EpollEvent{Events: c.events, Fd: int32(i)}); err != nil {
			return fmt.Errorf("epoll: %w", err)
		}
	}
	l.now = l.clock()
	l.lastReply = l.now
	for i, c := range l.conns {
		for k := range c.slots {
			if c.slots[k].job != nil {
				l.advance(c, uint32(k))
			}
		}
		if err := l.send(i, c); err != nil {
			return err
		}
	}
	events := make([]unix.EpollEvent, 64)
	for l.flying > 0 {
		n, err := unix.EpollWait(l.ep, events, int(poll/time.Millisecond))
		if err != nil && err != unix.EINTR {
			return fmt.Errorf("epoll: %w", err)
		}
		l.now = l.clock()
		for _, e := range events[:max(n, 0)] {
			if err := l.event(int(e.Fd), e.Events); err != nil {
				return err
			}
		}
		if err := l.tick(); err != nil {
			return err
		}
	}
	return nil
}

func (l *loop) event(i int, events uint32) error {
	c := l.conns[i]
	if events&^unix.EPOLLOUT != 0 {
		if err := l.receive(c); err != nil {
			return err
		}
	}
	return l.send(i, c)
}

// tick does what no reply asks for.
func (l *loop) tick() error {
	if l.p.aborted() {
		return l.p.ctx.Err()
	}
	if l.errs >= maxErrors {
		return fmt.Errorf("%d calls have failed, the first so: %w", l.errs, l.firstErr)
	}
	if l.now-l.lastReply > int64(silence) {
		return fmt.Errorf("the server has not answered for %v; is it there still, and does it serve other clients?", silence)
	}
	for i, c := range l.conns {
		if c.delayed == 0 {
			continue
		}
		l.lastReply = l.now // the server has said that it wants time
		for k := range c.slots {
			if s := &c.slots[k]; s.due != 0 && s.due <= l.now && !c.blocked() {
				s.due = 0
				c.delayed--
				l.push(c, uint32(k))
			}
		}
		if err := l.send(i, c); err != nil {
			return err
		}
	}
	return nil
}

// send flushes a burst, and asks to be told when a full socket is not any more.
func (l *loop) send(i int, c *conn) error {
	was := c.blocked()
	if err := c.flush(); err != nil {
		return err
	}
	if was && !c.blocked() { // what had to wait goes now
		for k := range c.slots {
			if s := &c.slots[k]; s.job != nil && !s.busy && s.due == 0 {
				l.advance(c, uint32(k))
			}
		}
		if err := c.flush(); err != nil {
			return err
		}
	}
	events := uint32(unix.EPOLLIN)
	if c.blocked() {
		events |= unix.EPOLLOUT
	}
	if events == c.events {
		return nil
	}
	c.events = events
	if err := unix.EpollCtl(l.ep, unix.EPOLL_CTL_MOD, c.fd, &unix.EpollEvent{Events: events, Fd: int32(i)}); err != nil {
		return fmt.Errorf("epoll: %w", err)
	}
	return nil
}

// advance puts a free slot to its job's next call. While the socket is full the
// slot stays free, and counts as under way, so that the loop goes on.
func (l *loop) advance(c *conn, i uint32) {
	s := &c.slots[i]
	j := s.job
	if !s.waiting {
		j.flying++
		l.flying++
		s.waiting = true
	}
	if c.blocked() {
		return
	}
	s.waiting = false
	if l.now >= l.p.until || l.p.stopped() {
		j.ended = true
	}
	st, ok := j.next()
	if !ok {
		j.flying--
		l.flying--
		if j.flying > 0 || !j.wrote || !l.p.commit || j.commits == len(j.files) {
			s.job = nil
			return
		}
		st = step{kind: kindCommit, file: j.files[j.commits]}
		j.commits++
		j.flying++
		l.flying++
	}
	s.step = st
	s.sent = l.now
	l.push(c, i)
}

func (l *loop) push(c *conn, i uint32) {
	s := &c.slots[i]
	l.xid++
	c.push(i, l.p.templates[s.file][s.kind], l.xid)
}

// finish accounts for the reply that c.cur has got.
func (l *loop) finish(c *conn) error {
	s, v := c.cur, &c.v
	c.cur = nil
	l.lastReply = l.now
	s.busy = false
	i := s.xid & (1<<slotBits - 1)
	if errors.Is(v.err, errNoReply) || c.sess != nil && !v.slot {
		return v.err // what the session makes of the slot is not known
	}
	if v.later {
		l.retries++
		s.due = l.now + int64(laterWait)
		c.delayed++
		return nil
	}
	if v.err == nil {
		v.err = l.check(s, v)
	}
	switch {
	case v.err != nil:
		if l.errs == 0 {
			l.firstErr = fmt.Errorf("%v of %d bytes at %d of %s: %w", s.kind, s.length, s.off, l.p.name(s.file), v.err)
		}
		l.errs++
	case s.kind != kindCommit && s.sent >= l.p.warmup:
		d := &l.sides[s.kind]
		d.ops++
		d.bytes += uint64(v.count)
		d.lat.add(l.now - s.sent)
		l.series.add(l.now-l.p.warmup, v.count)
		l.lastData = l.now
	}
	if s.kind != kindCommit {
		l.p.bytes.Add(int64(v.count))
	}
	s.job.flying--
	l.flying--
	l.advance(c, i)
	return nil
}

// check looks at what a call that succeeded says it has done.
func (l *loop) check(s *slot, v *verdict) error {
	switch s.kind {
	case kindRead:
		if v.count != s.length {
			return fmt.Errorf("%d bytes came, eof is %t", v.count, v.eof)
		}
		return nil
	case kindWrite:
		if v.count != s.length {
			return fmt.Errorf("%d bytes were taken", v.count)
		}
		if v.level < l.p.stable {
			return fmt.Errorf("the server says stability %d, asked for %d", v.level, l.p.stable)
		}
		if v.level != 0 {
			return nil
		}
	}
	// RFC 1813, 3.3.7 and 3.3.21: another verifier says that the server may have
	// lost what was not committed.
	if l.hasVerf && v.verf != l.verf {
		l.verf = v.verf
		return errors.New("the write verifier has changed: the server was started again, or a write-back failed, and data may be lost")
	}
	l.verf, l.hasVerf = v.verf, true
	return nil
}

// series counts what was moved in each interval.
type series struct {
	interval int64 // nanoseconds
	samples  []Sample
}

const maxSamples = 1200

func (s *series) add(at int64, bytes int) {
	i := int(max(at, 0) / s.interval)
	for i >= maxSamples {
		s.coarsen()
		i = int(at / s.interval)
	}
	for len(s.samples) <= i {
		s.samples = append(s.samples, Sample{})
	}
	s.samples[i].Bytes += uint64(bytes)
	s.samples[i].Ops++
}

// coarsen makes intervals twice as long.
func (s *series) coarsen() {
	s.interval *= 2
	n := 0
	for i := 0; i < len(s.samples); i += 2 {
		a := s.samples[i]
		if i+1 < len(s.samples) {
			a.Bytes += s.samples[i+1].Bytes
			a.Ops += s.samples[i+1].Ops
		}
		s.samples[n] = a
		n++
	}
	s.samples = s.samples[:n]
}

// merge adds the samples of another thread.
func (s *series) merge(from *series) {
	for from.interval < s.interval {
		from.coarsen()
	}
	for s.interval < from.interval {
		s.coarsen()
	}
	for len(s.samples) < len(from.samples) {
		s.samples = append(s.samples, Sample{})
	}
	for i, a := range from.samples {
		s.samples[i].Bytes += a.Bytes
		s.samples[i].Ops += a.Ops
	}
}
