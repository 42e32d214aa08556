// Order and the sync gate: what keeps operations on one file apart.
//
// Order: direct I/O and the page cache meet only in the kernel's hands, and
// what it does about that, it does before and after the direct operation, not
// during it. A buffered write that starts meanwhile can hand a direct reader a
// mixture of old and new blocks (met in the kernel's own server); it can dirty
// a page of which a direct write has just replaced a part, and when that page
// is written out later the old bytes come back. So the direct part of an
// operation and any part of another that it meets take turns, in order of
// arrival, unless both only read. What goes through the page cache on both
// sides does not wait here: the kernel orders that itself.
//
// A range is widened to whole units, as the kernel writes no less of a dirty
// page: two operations may share no byte and yet a page.
//
// A file that two exports lead to is cached twice, but has one Order, found by
// device and inode. There are never more than cached files.
//
// The sync gate: the kernel reports a failed write-back once for each open
// descriptor. Of two COMMITs at the same time only one sees the error; the
// other must not answer that all is well. An operation that syncs therefore
// leaves only after those it overlapped with have told what they saw.

package filecache

import (
	"os"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// Class is the kind of an ordered operation.
type Class uint8

// The classes. A buffered write has no direct part, the others are direct from
// end to end; see BeginPart for what is both.
const (
	BufferedWrite Class = iota
	DirectRead
	DirectWrite
)

// span is an operation in whole units: all of it, and its direct part, which
// is empty where there is none.
type span struct {
	ticket      uint64
	off, end    uint64
	from, until uint64
	reads       bool
}

// meets reports whether two operations take turns.
func (s *span) meets(e *span) bool {
	return !(s.reads && e.reads) && (e.from < s.end && s.off < e.until || s.from < e.end && e.off < s.until)
}

// Order holds the operations of one file that are running or waiting, in order
// of arrival. Everybody waits only for earlier ones, so none waits for ever.
// It is as large as the number of threads inside the file at once.
type Order struct {
	unit uint64 // a power of two; 0 stands for 1

	key  inode
	refs int // cached files that use it; under orders.mu

	mu      sync.Mutex
	turn    sync.Cond // L is set by the first who waits
	spans   []span
	waiting int
	tickets uint64
}

// Begin enters [off, off+n) and waits until no earlier operation forbids it.
// With !wait it returns false instead, and has not entered. The ticket is for
// End.
func (o *Order) Begin(c Class, off, n uint64, wait bool) (ticket uint64, ok bool) {
	m := n
	if c == BufferedWrite {
		m = 0
	}
	return o.BeginPart(c, off, n, off, m, wait)
}

// BeginPart is Begin of an operation of which only [from, from+m) is direct,
// and nothing with m 0.
func (o *Order) BeginPart(c Class, off, n, from, m uint64, wait bool) (ticket uint64, ok bool) {
	s := span{off: off, end: off + n, reads: c == DirectRead}
	if m > 0 {
		s.from, s.until = from, from+m
	}
	return o.begin(s, wait)
}

func (o *Order) begin(s span, wait bool) (ticket uint64, ok bool) {
	if mask := o.unit - 1; o.unit > 1 {
		s.off, s.end = s.off&^mask, (s.end+mask)&^mask
		if s.until > s.from {
			s.from, s.until = s.from&^mask, (s.until+mask)&^mask
		}
	}
	o.mu.Lock()
	o.tickets++
	s.ticket = o.tickets
	if o.blocked(&s) {
		if !wait {
			o.mu.Unlock()
			return 0, false
		}
		o.turn.L = &o.mu
		o.spans = append(o.spans, s)
		o.waiting++
		for o.blocked(&s) {
			o.turn.Wait()
		}
		o.waiting--
		o.mu.Unlock()
		return s.ticket, true
	}
	o.spans = append(o.spans, s)
	o.mu.Unlock()
	return s.ticket, true
}

func (o *Order) blocked(s *span) bool {
	for i := range o.spans {
		e := &o.spans[i]
		if e.ticket >= s.ticket {
			return false
		}
		if s.meets(e) {
			return true
		}
	}
	return false
}

// Waiting returns how many operations wait for their turn.
func (o *Order) Waiting() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.waiting
}

// End leaves.
func (o *Order) End(ticket uint64) {
	o.mu.Lock()
	for i := range o.spans {
		if o.spans[i].ticket == ticket {
			o.spans = append(o.spans[:i], o.spans[i+1:]...)
			if o.waiting > 0 {
				o.turn.Broadcast()
			}
			o.mu.Unlock()
			return
		}
	}
	o.mu.Unlock()
	panic("filecache: End without Begin")
}

// inode names a file whichever export it was reached through. While one of its
// users has it open, the number is no other file's.
type inode struct {
	major, minor uint32
	ino          uint64
}

// orders are the Orders in use.
type orders struct {
	mu sync.Mutex
	of map[inode]*Order
}

// Order returns what operations on the file's data enter, and makes it if this
// is the first time that any is wanted. It is valid while f is pinned.
func (f *File) Order() *Order {
	if o := f.order.Load(); o != nil {
		return o
	}
	var st unix.Statx_t
	statx(f.pathFD, unix.STATX_INO, &st) //nolint:errcheck // on the descriptor of a file it cannot but succeed
	return f.setOrder(&st)
}

// setOrder gives f its Order, by what statx says.
func (f *File) setOrder(st *unix.Statx_t) *Order {
	k := inode{st.Dev_major, st.Dev_minor, st.Ino}
	t := &f.cache.orders
	t.mu.Lock()
	defer t.mu.Unlock()
	if o := f.order.Load(); o != nil {
		return o
	}
	o := t.of[k]
	if o == nil {
		if t.of == nil {
			t.of = make(map[inode]*Order)
		}
		o = &Order{unit: uint64(blockOf(st)), key: k}
		t.of[k] = o
	}
	o.refs++
	f.order.Store(o)
	return o
}

// dropOrder lets go of it; nobody uses f any more.
func (f *File) dropOrder() {
	o := f.order.Load()
	if o == nil {
		return
	}
	t := &f.cache.orders
	t.mu.Lock()
	if o.refs--; o.refs == 0 {
		delete(t.of, o.key)
	}
	t.mu.Unlock()
}

// maxBlock bounds what blockOf believes: a preferred size of I/O that is larger
// says nothing of the page cache.
const maxBlock = 64 << 10

// blockOf returns the least that the page cache writes out of a file at once:
// a page, or a block of the file system where that is larger.
func blockOf(st *unix.Statx_t) uint32 {
	page := uint32(os.Getpagesize())
	if b := st.Blksize; pow2(b) && b > page && b <= maxBlock {
		return b
	}
	return page
}

type syncGate struct {
	mu      sync.RWMutex // read-held by each sync in flight
	flights atomic.Int32
	errs    atomic.Uint64 // failures seen so far
}

// SyncBegin enters an operation that syncs data of f (a COMMIT, a stable
// WRITE). Give what it returns to SyncEnd.
func (f *File) SyncBegin() uint64 {
	f.sync.mu.RLock()
	f.sync.flights.Add(1)
	return f.sync.errs.Load()
}

// SyncEnd leaves with the operation's error; lost says that it means that
// data written earlier may not have reached stable storage. It returns err, or
// unix.EIO when another sync of the file that ran at the same time lost data.
// Before it returns, the verifier has changed if anything was lost.
func (f *File) SyncEnd(began uint64, err error, lost bool) error {
	g := &f.sync
	if err != nil && lost {
		f.cache.lost(f)
		g.errs.Add(1)
	}
	left := g.flights.Add(-1)
	errs := g.errs.Load()
	g.mu.RUnlock()
	if left > 0 {
		g.mu.Lock() // wait for those I overlapped with
		errs = g.errs.Load()
		g.mu.Unlock()
	}
	if err == nil && errs != began {
		return unix.EIO
	}
	return err
}

// MarkUnstable says that data was written that is not on stable storage. Call
// it after the write, before its reply: a sync that clears the mark between
// the two has covered the data.
func (f *File) MarkUnstable() {
	if !f.unstable.Load() {
		f.unstable.Store(true)
	}
}

// Unstable reports whether there may be such data.
func (f *File) Unstable() bool { return f.unstable.Load() }

// Sync puts all data of f on stable storage through fsync (a parameter for
// tests' sake; it gets a descriptor). Any error means lost data and has
// changed the verifier by the time Sync returns. It opens a read descriptor
// when none for writing is open.
func (f *File) Sync(fsync func(fd int) error) error {
	fd := f.written()
	if fd < 0 {
		var err error
		if fd, err = f.Reader(); err != nil {
			return err
		}
	}
	began := f.SyncBegin()
	f.unstable.Store(false) // a write from here on sets it again
	err := fsync(fd)
	return f.SyncEnd(began, err, true)
}

// written returns a descriptor that the file was written through, or -1.
func (f *File) written() int {
	if fd := f.FD(Write); fd >= 0 {
		return fd
	}
	return f.FD(DirectOut)
}

// clean syncs unstable writes. Its failure has changed the verifier, which is
// how clients learn of it.
func (f *File) clean() {
	if f.written() < 0 {
		// CloseData came between: most often the file has lost its last name.
		var st unix.Stat_t
		if unix.Fstat(f.pathFD, &st) == nil && st.Nlink == 0 {
			f.unstable.Store(false)
			return
		}
	}
	f.Sync(func(fd int) error { //nolint:errcheck // told through OnWriteError
		for {
			if err := unix.Fdatasync(fd); err != unix.EINTR {
				return err
			}
		}
	})
}
