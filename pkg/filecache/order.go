// Order and the sync gate: what keeps operations on one file apart.
//
// Order: the kernel makes a direct read write back and wait for dirty pages
// first, but a buffered write that starts just then can hand the reader a
// mixture of old and new blocks (met in the kernel's own server). So a direct
// read and a buffered write that overlap take turns, in order of arrival.
// Reads among themselves and writes among themselves do not wait here.
//
// The sync gate: the kernel reports a failed write-back once for each open
// descriptor. Of two COMMITs at the same time only one sees the error; the
// other must not answer that all is well. An operation that syncs therefore
// leaves only after those it overlapped with have told what they saw.

package filecache

import (
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// Class is the kind of an ordered operation.
type Class uint8

// Operations of one class never wait for each other.
const (
	BufferedWrite Class = iota
	DirectRead
)

type span struct {
	ticket   uint64
	off, end uint64
	class    Class
}

// Order holds the operations of one file that are running or waiting, in order
// of arrival. Everybody waits only for earlier ones, so none waits for ever.
// It is as large as the number of threads inside the file at once.
type Order struct {
	mu      sync.Mutex
	turn    sync.Cond // L is set by the first who waits
	spans   []span
	waiting int
	tickets uint64
}

// Begin enters [off, off+n) and waits until no earlier operation of the other
// class overlaps it. With !wait it returns false instead, and has not entered.
// The ticket is for End.
func (o *Order) Begin(c Class, off, n uint64, wait bool) (ticket uint64, ok bool) {
	s := span{off: off, end: off + n, class: c}
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
		if e.class != s.class && e.off < s.end && s.off < e.end {
			return true
		}
	}
	return false
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
// when no data descriptor is open.
func (f *File) Sync(fsync func(fd int) error) error {
	fd := f.FD(Write)
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

// clean syncs unstable writes. Its failure has changed the verifier, which is
// how clients learn of it.
func (f *File) clean() {
	if f.FD(Write) < 0 {
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
