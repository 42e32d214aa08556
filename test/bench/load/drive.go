package load

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"sluice/test/measure"
)

const (
	inSize     = 256 << 10 // receive buffer of a connection
	bulkRead   = 16 << 10  // READs of at least this size are dropped in the kernel
	writeFile  = 256 << 20 // span that WRITEs cover when the file is smaller
	flushBytes = 4 << 20   // payload bytes gathered before a burst is sent

	// Up to here a payload is copied behind its header: one stretch of memory
	// costs the kernel less than many.
	smallPayload = 32 << 10

	idleTimeout = 100 // milliseconds of one epoll_wait
	silence     = 30  // seconds without any reply that end a run
)

// slot is one call in flight. Its index is in the low bits of the xid, so that
// replies may come in any order.
type slot struct {
	xid  uint32
	busy bool
	kind kind
	sent int64
	off  uint64 // in the file
	size int    // bytes asked for or sent
	seq  uint32 // sequence id of the last call in a session's slot of the same number
}

type conn struct {
	fd    int
	sess  sessionID // when the calls are made in one
	slots []slot
	free  []uint32

	in   []byte // small replies: the bytes in[r:w] are not parsed yet
	r, w int

	// Bulk READ replies: hdr[:hn] is what has come of a reply's bytes before
	// the data; then left bytes of the fragment are dropped.
	hdr  []byte
	hn   int
	left int
	more bool // the fragment being dropped is not the record's last
	mid  bool // the next fragment continues a record that is already counted
}

// driver is one run of the loop. Only its thread touches it.
type driver struct {
	c     *Config
	tmpl  []template // they take turns, callers innermost: tmpl[i*len(UIDs)+u]
	turn  int
	conns []conn
	ep    int

	base    time.Time
	xid     uint32 // counter in the bits above the slot's
	seq     uint32 // names of CREATE
	blocks  uint64
	block   uint64
	rnd     *rand.Rand
	payload []byte
	junk    []byte

	out  []byte // headers of the burst being built
	iov  []unix.Iovec
	cuts []int // for each payload of the burst: where in out it goes
	held int   // payload bytes in cuts

	calls, bytes, errs uint64
	written            uint64 // offset of the last WRITE that was answered
	firstErr           error
	hist               histogram
}

// Run makes the measurement that c describes.
func Run(c Config) (Result, error) {
	if err := c.check(); err != nil {
		return Result{}, err
	}
	file := c.File
	if c.Op == "null" || c.Op == "create" || c.Op == "readdirplus" {
		file = ""
	}
	if c.V41 {
		t, err := begin41(&c)
		if err != nil {
			return Result{}, err
		}
		r, err := runLoop(&c, t)
		return r, errors.Join(err, t.v41.end())
	}
	t, err := find(&c, c.Export, c.Dir, file, c.Op == "write")
	if err != nil {
		return Result{}, err
	}
	return runLoop(&c, t)
}

// runLoop runs the loop, and the checks before and after it.
func runLoop(c *Config, t target) (Result, error) {
	d, err := newDriver(c, t)
	if err != nil {
		return Result{}, err
	}
	defer d.close()
	if c.Verify && c.Op == "read" {
		if err := verifyRead(c, t); err != nil {
			return Result{}, err
		}
	}
	r, err := d.run()
	if err == nil && r.Errors == 0 && c.Verify && c.Op == "write" {
		err = verifyWrite(c, t, d.written, d.payload)
	}
	return r, err
}

func newDriver(c *Config, t target) (*driver, error) {
	if (c.Op == "read" || c.Op == "mixed") && t.size < uint64(c.Size) {
		return nil, fmt.Errorf("%s: %d bytes, shorter than one READ of %d", c.File, t.size, c.Size)
	}
	d := &driver{
		c: c, base: time.Now(), xid: rand.Uint32(), ep: -1,
		rnd:  rand.New(rand.NewPCG(1, 2)), // the same order each time
		out:  make([]byte, 0, 1<<20),
		iov:  make([]unix.Iovec, 0, 2*MaxDepth+1),
		cuts: make([]int, 0, MaxDepth),
	}
	span := t.size
	if c.Op == "write" {
		span = max(span, writeFile)
	}
	d.blocks = max(span/uint64(c.Size), 1)
	run := rand.Uint32()
	ops := []string{c.Op}
	if c.Op == "mixed" {
		ops = mixedOps
	}
	for _, op := range ops {
		for _, size := range mixSizes(c) {
			one := *c
			one.Size = size
			for _, uid := range c.UIDs {
				if t.v41 != nil {
					d.tmpl = append(d.tmpl, newTemplate41(&one, op, uid, t))
				} else {
					d.tmpl = append(d.tmpl, newTemplate(&one, op, uid, t, run))
				}
			}
		}
	}
	d.payload = make([]byte, (c.Size+3)&^3)
	for i := range d.payload[:c.Size] {
		d.payload[i] = byte(i * 131)
	}
	d.junk = make([]byte, MaxSize)
	var err error
	if d.ep, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return nil, err
	}
	d.conns = make([]conn, c.Conns)
	for i := range d.conns {
		cn := &d.conns[i]
		cn.fd = -1
		cn.slots = make([]slot, c.Depth)
		cn.free = make([]uint32, c.Depth)
		for k := range cn.free {
			cn.free[k] = uint32(k)
		}
		cn.in = make([]byte, inSize)
		cn.hdr = make([]byte, readData)
		if t.v41 != nil {
			cn.hdr, cn.sess = cn.hdr[:readData41], t.v41.sessions[i]
		}
	}
	for i := range d.conns {
		cn := &d.conns[i]
		if cn.fd, err = dial(c, c.Port); err != nil {
			d.close()
			return nil, err
		}
		ev := unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(i)}
		if err := unix.EpollCtl(d.ep, unix.EPOLL_CTL_ADD, cn.fd, &ev); err != nil {
			d.close()
			return nil, err
		}
	}
	return d, nil
}

// mixSizes returns the sizes of one turn of the templates: with c.Sizes each
// as often as makes it move c.Size bytes, in an order that is the same each time.
func mixSizes(c *Config) []int {
	if len(c.Sizes) == 0 {
		return []int{c.Size}
	}
	var mix []int
	for _, s := range c.Sizes {
		for range c.Size / s {
			mix = append(mix, s)
		}
	}
	rand.New(rand.NewPCG(3, 4)).Shuffle(len(mix), func(i, k int) { mix[i], mix[k] = mix[k], mix[i] })
	return mix
}

func (d *driver) close() {
	for i := range d.conns {
		if d.conns[i].fd >= 0 {
			unix.Close(d.conns[i].fd)
		}
	}
	if d.ep >= 0 {
		unix.Close(d.ep)
	}
}

func (d *driver) now() int64 { return int64(time.Since(d.base)) }

// issue appends one call on cn to the burst.
func (d *driver) issue(cn *conn, now int64) {
	n := len(cn.free) - 1
	i := cn.free[n]
	cn.free = cn.free[:n]
	t := &d.tmpl[d.turn]
	if d.turn++; d.turn == len(d.tmpl) {
		d.turn = 0
	}
	d.xid++
	xid := d.xid*MaxDepth | i
	cn.slots[i] = slot{xid: xid, busy: true, kind: t.kind, size: t.size, sent: now, seq: cn.slots[i].seq + 1}

	at := len(d.out)
	d.out = append(d.out, t.b...)
	be.PutUint32(d.out[at+atXID:], xid)
	if t.atOffset != 0 {
		k := d.block
		if d.c.Random {
			k = d.rnd.Uint64N(d.blocks)
		} else if d.block++; d.block == d.blocks {
			d.block = 0
		}
		off := k * uint64(d.c.Size)
		be.PutUint64(d.out[at+t.atOffset:], off)
		cn.slots[i].off = off
	}
	if t.atSeq != 0 {
		t.inSession(d.out[at:], &cn.sess, i, cn.slots[i].seq)
	}
	if t.atName != 0 {
		putHex(d.out[at+t.atName:], d.seq)
		d.seq++
	}
	switch {
	case t.payload == 0:
	case t.payload <= smallPayload:
		d.out = append(d.out, d.payload...)
	default:
		d.cuts = append(d.cuts, len(d.out))
		d.held += t.payload
	}
}

// topUp issues calls until depth are in flight on cn, and sends them.
func (d *driver) topUp(cn *conn) error {
	now := d.now()
	for len(cn.free) > 0 {
		d.issue(cn, now)
		if d.held+len(d.out) >= flushBytes {
			if err := d.flush(cn); err != nil {
				return err
			}
		}
	}
	return d.flush(cn)
}

// flush sends the burst, headers and payloads in their order, in one call
// where the socket takes it.
func (d *driver) flush(cn *conn) error {
	if len(d.out) == 0 {
		return nil
	}
	d.iov = d.iov[:0]
	from := 0
	for _, cut := range d.cuts {
		d.iov = append(d.iov, vec(d.out[from:cut]), vec(d.payload))
		from = cut
	}
	if from < len(d.out) {
		d.iov = append(d.iov, vec(d.out[from:]))
	}
	d.out, d.cuts, d.held = d.out[:0], d.cuts[:0], 0
	for v := d.iov; len(v) > 0; {
		// The kernel takes at most 1024 vectors. The socket is blocking.
		n, e := d.blocking(unix.SYS_WRITEV, uintptr(cn.fd), uintptr(unsafe.Pointer(&v[0])), uintptr(min(len(v), 1024)), 0)
		if e == unix.EINTR {
			continue
		}
		if e != 0 {
			return fmt.Errorf("write: %w", e)
		}
		left := uint64(n)
		for len(v) > 0 && left >= v[0].Len {
			left -= v[0].Len
			v = v[1:]
		}
		if left > 0 {
			v[0].Base = (*byte)(unsafe.Add(unsafe.Pointer(v[0].Base), left))
			v[0].Len -= left
		}
	}
	return nil
}

// blocking makes a system call that may wait. Telling the runtime, which could
// not stop the world otherwise, makes its monitor wake up thousands of times a
// second: a tenth of the client's CPU.
//
//go:uintptrescapes
func (d *driver) blocking(nr, a, b, c, e uintptr) (uintptr, unix.Errno) {
	if d.c.Dedicated {
		n, _, errno := unix.RawSyscall6(nr, a, b, c, e, 0, 0)
		return n, errno
	}
	n, _, errno := unix.Syscall6(nr, a, b, c, e, 0, 0)
	return n, errno
}

func vec(b []byte) unix.Iovec { return unix.Iovec{Base: &b[0], Len: uint64(len(b))} }

// recv reads what is there into b; with drop the kernel throws it away.
func recv(fd int, b []byte, drop bool) (int, unix.Errno) {
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

var errClosed = errors.New("the server closed the connection")

// receive takes in the replies that have arrived on cn.
func (d *driver) receive(cn *conn) error {
	if d.c.Op == "read" && d.c.Size >= bulkRead {
		return d.receiveBulk(cn)
	}
	for {
		if cn.w == len(cn.in) {
			if cn.r == 0 {
				return fmt.Errorf("reply longer than %d bytes", len(cn.in))
			}
			cn.w = copy(cn.in, cn.in[cn.r:cn.w])
			cn.r = 0
		}
		room := len(cn.in) - cn.w
		n, e := recv(cn.fd, cn.in[cn.w:], false)
		if e == unix.EAGAIN {
			return nil
		}
		if e != 0 {
			return fmt.Errorf("recv: %w", e)
		}
		if n == 0 {
			return errClosed
		}
		cn.w += n
		now := d.now()
		for cn.w-cn.r >= 4 {
			mark := be.Uint32(cn.in[cn.r:])
			end := cn.r + 4 + int(mark&0x7fffffff)
			if end > cn.w {
				break
			}
			if err := d.record(cn, cn.in[cn.r:end], mark>>31 != 0, now); err != nil {
				return err
			}
			cn.r = end
		}
		if cn.r == cn.w {
			cn.r, cn.w = 0, 0
		}
		if n < room { // a short read: nothing is left
			return nil
		}
	}
}

// record handles one whole fragment. Only a record's first one is looked at,
// which holds the checked header with every server met so far.
func (d *driver) record(cn *conn, r []byte, last bool, now int64) error {
	if !cn.mid {
		if err := d.reply(cn, r, now); err != nil {
			return err
		}
	}
	cn.mid = !last
	return nil
}

// reply accounts for the reply r, which may be cut behind its header.
func (d *driver) reply(cn *conn, r []byte, now int64) error {
	if len(r) < 8 {
		return fmt.Errorf("record of %d bytes", len(r)-4)
	}
	xid := be.Uint32(r[atXID:])
	i := xid % MaxDepth
	if int(i) >= len(cn.slots) || !cn.slots[i].busy || cn.slots[i].xid != xid {
		return fmt.Errorf("reply to xid %#x, which is not in flight on this connection", xid)
	}
	s := &cn.slots[i]
	n, err := d.verdict(cn, r, i)
	if errors.Is(err, errSequence) {
		return err
	}
	if err != nil {
		if d.errs == 0 {
			d.firstErr = err
		}
		d.errs++
	}
	if s.kind == kindWrite && err == nil {
		d.written = s.off
	}
	d.hist.add(now - s.sent)
	d.calls++
	d.bytes += uint64(n)
	s.busy = false
	cn.free = append(cn.free, i)
	return nil
}

// verdict checks the reply r to the call in slot i.
func (d *driver) verdict(cn *conn, r []byte, i uint32) (int, error) {
	s := &cn.slots[i]
	if d.c.V41 {
		return verdict41(r, s.kind, s.size, &cn.sess, i, s.seq)
	}
	return verdict(r, s.kind, s.size)
}

func (d *driver) receiveBulk(cn *conn) error {
	for {
		if cn.left > 0 {
			n, e := recv(cn.fd, d.junk[:min(cn.left, len(d.junk))], true)
			switch {
			case e == unix.EAGAIN:
				return nil
			case e != 0:
				return fmt.Errorf("recv: %w", e)
			case n == 0:
				return errClosed
			}
			if cn.left -= n; cn.left > 0 {
				continue
			}
			if !cn.more {
				if err := d.reply(cn, cn.hdr, d.now()); err != nil {
					return err
				}
			}
			cn.mid = cn.more
			cn.hn = 0
		}
		want := len(cn.hdr)
		if cn.mid { // only the mark: the reply's header is still in hdr
			want = 4
		}
		var mark [4]byte
		buf := cn.hdr
		if cn.mid {
			buf = mark[:]
		}
		n, e := recv(cn.fd, buf[cn.hn:want], false)
		switch {
		case e == unix.EAGAIN:
			return nil
		case e != 0:
			return fmt.Errorf("recv: %w", e)
		case n == 0:
			return errClosed
		}
		if cn.hn += n; cn.mid && cn.hn < 4 {
			return errors.New("a continued record's mark came in pieces")
		}
		// An error reply is shorter than hdr: what is behind it stays.
		for cn.hn >= 4 {
			m := be.Uint32(buf)
			end := 4 + int(m&0x7fffffff)
			if cn.mid || (end > len(cn.hdr) && cn.hn == len(cn.hdr)) {
				cn.more = m>>31 == 0
				cn.left = end - cn.hn
				break
			}
			if end > cn.hn {
				break
			}
			if m>>31 == 0 {
				return errors.New("a record's first fragment ends within the reply's header")
			}
			if err := d.reply(cn, cn.hdr[:end], d.now()); err != nil {
				return err
			}
			cn.hn = copy(cn.hdr, cn.hdr[end:cn.hn])
		}
	}
}

// run is the measured loop.
func (d *driver) run() (Result, error) {
	// A locked thread, and system calls of its own: the scheduler and the
	// poller have no part in the loop.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if d.c.Dedicated { // the runtime's wish to preempt it would interrupt calls
		var old unix.Sigset_t
		if err := unix.PthreadSigmask(unix.SIG_BLOCK, &unix.Sigset_t{Val: [16]uint64{1 << (unix.SIGURG - 1)}}, &old); err != nil {
			return Result{}, err
		}
		defer unix.PthreadSigmask(unix.SIG_SETMASK, &old, nil)
	}
	c := d.c
	var events [64]unix.EpollEvent
	cpu0, err := serverCPU(c.ServerPID)
	if err != nil {
		return Result{}, err
	}
	own0 := measure.OwnCPU()
	d.base = time.Now()
	limit := int64(c.Duration)
	for i := range d.conns {
		if err := d.topUp(&d.conns[i]); err != nil {
			return Result{}, err
		}
	}
	now, heard := d.now(), d.now()
	for now < limit && (c.Count == 0 || d.calls < c.Count) {
		n, e := d.blocking(unix.SYS_EPOLL_WAIT, uintptr(d.ep), uintptr(unsafe.Pointer(&events[0])), uintptr(len(events)), idleTimeout)
		if e != 0 && e != unix.EINTR {
			return Result{}, fmt.Errorf("epoll_wait: %w", e)
		}
		if e != 0 {
			n = 0
		}
		for _, ev := range events[:n] {
			cn := &d.conns[ev.Fd]
			if err := d.receive(cn); err != nil {
				return Result{}, err
			}
			if err := d.topUp(cn); err != nil {
				return Result{}, err
			}
		}
		now = d.now()
		if n > 0 {
			heard = now
		} else if now-heard > silence*int64(time.Second) {
			return Result{}, fmt.Errorf("no reply for %d s", silence)
		}
	}
	r := d.result(now)
	r.ClientCPU = measure.OwnCPU().Sub(own0).Total()
	cpu1, err := serverCPU(c.ServerPID)
	if err != nil {
		return Result{}, err
	}
	r.account(cpu1 - cpu0)
	return r, nil
}

func serverCPU(pid int) (float64, error) {
	switch pid {
	case 0:
		return 0, nil
	case WholeMachine:
		all, err := measure.SystemCPU()
		return all.Busy, err
	}
	return measure.ProcessTime(pid)
}
