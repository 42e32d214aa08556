// Leases: how local processes are kept from what a delegation promised to a client. A delegation is backed by a kernel lease
// (fcntl F_SETLEASE) on a descriptor of its own: an open in conflict waits, up to /proc/sys/fs/lease-break-time, until the
// lease is given back, which happens when the client has returned the delegation. leasewatch.go hears of it.
//
// What leases do not stop, since it takes no open (a change of mode, owner or names), is told by fanotify, which also
// says by whom: what this process does itself, for clients, the Guard has asked about.
//
// The kernel gives a lease for reading only while nobody has the file open for writing, and one for writing only while
// nobody else has it open at all. The server's own descriptors count. So the file cache gives up those it keeps, which takes
// until all calls that may use them have ended: that lease is refused, and the next one had. Under a lease for writing the
// cache works on duplicates of the lease's descriptor (filecache.File.Share).
//
// A change that a client without a stateid makes may meet a delegation that is just being granted. The state refuses it from
// the moment when it asks for the lease; what began before is seen here by its span, and the lease is refused.

package vfs

import (
	"fmt"
	"slices"
	"sync"

	"golang.org/x/sys/unix"

	"sluice/pkg/filecache"
)

// Leases holds the leases on files. All methods may be called from any goroutine.
type Leases struct {
	ns     *Namespace
	broken func(filecache.Key)
	max    int
	watch  *leaseWatch
	locks  *Locks // may be nil

	mu   sync.Mutex
	held map[filecache.Key]*lease // by Node.Key
	fids map[filecache.Key]*lease // by what fanotify calls the file, see fanKey
	fds  map[int]*lease
}

// lease is one file's.
type lease struct {
	key   filecache.Key
	fid   filecache.Key
	write bool
	fd    int // the lease's own descriptor; -1 when it was weakened
	files []*filecache.File
	told  bool // broken has been called

	// What was locked under a lease for writing: no local process has the file open, so none need see it, and another open
	// here would break the lease.
	pending []pendingLock
}

// maxPending bounds a lease's pending locks; past it a lock is refused.
const maxPending = 4096

// NewLeases begins. broken is called, on a thread of its own, when a local process wants what a lease or watch is there to
// keep from it; at most once for each Acquire. max bounds the leases, each a descriptor. locks may be nil. Call Close before
// the Namespace's.
func (n *Namespace) NewLeases(max int, locks *Locks, broken func(filecache.Key)) (*Leases, error) {
	l := &Leases{ns: n, broken: broken, max: max, locks: locks,
		held: make(map[filecache.Key]*lease), fids: make(map[filecache.Key]*lease), fds: make(map[int]*lease)}
	var err error
	if l.watch, err = newLeaseWatch(l); err != nil {
		return nil, fmt.Errorf("leases: %w; switch delegations off, or run as root", err)
	}
	if locks != nil {
		locks.leases = l
	}
	return l, nil
}

// Close gives all leases back.
func (l *Leases) Close() {
	l.mu.Lock()
	keys := make([]filecache.Key, 0, len(l.held))
	for k := range l.held {
		keys = append(keys, k)
	}
	l.mu.Unlock()
	for _, k := range keys {
		l.Release(k)
	}
	l.watch.close()
}

// asRoot runs f where the thread has the server's own credentials, which the caller's may not.
func asRoot(f func() error) error {
	done := make(chan error, 1)
	go func() { done <- f() }()
	return <-done
}

// Acquire takes a lease for reading or writing. It does not wait for anybody; an error means that there is none to be had
// now. unix.EMFILE: there are max already.
func (l *Leases) Acquire(file filecache.Key, write bool) error {
	return asRoot(func() error { return l.acquire(file, write) })
}

func (l *Leases) acquire(file filecache.Key, write bool) (err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if x := l.held[file]; x != nil {
		if x.write == write && x.fd >= 0 && !x.told {
			return nil
		}
		return unix.EBUSY
	}
	if len(l.held) >= l.max {
		return unix.EMFILE
	}
	x := &lease{key: file, write: write, fd: -1}
	if x.files, err = l.ns.cached(file); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			l.undo(x)
		}
	}()
	flags, typ := unix.O_RDONLY, unix.F_RDLCK
	if write {
		flags, typ = unix.O_RDWR, unix.F_WRLCK
	}
	path := fmt.Sprintf("/proc/self/fd/%d", x.files[0].PathFD())
	if x.fd, err = l.ns.cfg.Cache.Room(false, func() (int, error) {
		return unix.Open(path, flags|unix.O_NONBLOCK|unix.O_CLOEXEC|unix.O_NOCTTY, 0)
	}); err != nil {
		x.fd = -1
		return err
	}
	if write {
		for _, f := range x.files {
			f.Share(x.fd)
		}
	}
	if l.giveUp(x) {
		return unix.EAGAIN
	}
	if x.fid, err = fanKey(x.fd); err != nil {
		return err
	}
	if err = l.watch.own(x.fd); err != nil {
		return err
	}
	l.held[file], l.fids[x.fid], l.fds[x.fd] = x, x, x
	l.watch.mark(unix.FAN_MARK_ADD, x, fanNames)
	if _, err = unix.FcntlInt(uintptr(x.fd), unix.F_SETLEASE, typ); err == nil && !l.ns.spans.quiet(&x.files[0].Key) {
		err = unix.EAGAIN
	}
	return err
}

// giveUp makes the cache close what is in a lease's way. It reports whether there was anything: then it is gone soon.
func (l *Leases) giveUp(x *lease) bool {
	found := false
	for _, f := range x.files {
		shut := f.GiveUp(filecache.Write, x.write)
		if shut == nil {
			continue
		}
		found = true
		f.Pin()
		l.ns.retired.Add(1)
		go func() {
			defer l.ns.retired.Done()
			l.ns.quiesce()
			shut()
			f.Release()
		}()
	}
	return found
}

// undo takes a lease apart; l.mu is held.
func (l *Leases) undo(x *lease) {
	if l.held[x.key] == x {
		l.watch.mark(unix.FAN_MARK_REMOVE, x, fanNames|fanData)
		delete(l.held, x.key)
		delete(l.fids, x.fid)
	}
	l.giveBack(x)
	for _, f := range x.files {
		f.Release()
	}
}

// giveBack ends the kernel's lease; l.mu is held.
func (l *Leases) giveBack(x *lease) {
	if x.fd < 0 {
		return
	}
	delete(l.fds, x.fd)
	if x.write {
		// Duplicates keep it open for writing, and with that programs from being executed.
		for _, f := range x.files {
			f.Share(-1)
		}
	}
	unix.FcntlInt(uintptr(x.fd), unix.F_SETLEASE, unix.F_UNLCK) //nolint:errcheck // not held
	unix.Close(x.fd)
	x.fd = -1
	if x.write {
		l.giveUp(x)
	}
	if len(x.pending) > 0 {
		l.locks.replay(x.key, x.pending)
		x.pending = nil
	}
}

// Release gives lease and watch up; of a file without it does nothing.
func (l *Leases) Release(file filecache.Key) {
	asRoot(func() error { //nolint:errcheck // nil
		l.mu.Lock()
		defer l.mu.Unlock()
		if x := l.held[file]; x != nil {
			l.undo(x)
		}
		return nil
	})
}

// Weaken gives up a lease for reading but goes on watching the file: from now on local processes that open, change, rename
// or remove it are told of, though not held back. false: they cannot be, or one has it open already.
func (l *Leases) Weaken(file filecache.Key) bool {
	err := asRoot(func() error {
		l.mu.Lock()
		defer l.mu.Unlock()
		x := l.held[file]
		if x == nil || x.write || x.told {
			return unix.ENOENT
		}
		if x.fd < 0 {
			return nil
		}
		if err := l.watch.mark(unix.FAN_MARK_ADD, x, fanNames|fanData); err != nil {
			return err
		}
		l.giveBack(x)
		return nil
	})
	return err == nil
}

// tell reports a lease as broken, once.
func (l *Leases) tell(pick func() *lease) {
	l.mu.Lock()
	x := pick()
	if x == nil || x.told {
		l.mu.Unlock()
		return
	}
	x.told = true
	key := x.key
	l.mu.Unlock()
	l.broken(key)
}

// deferLock keeps an operation of Locks until the lease for writing that file has is given back. held: it has one.
func (l *Leases) deferLock(p pendingLock, file filecache.Key) (held bool, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	x := l.held[file]
	if x == nil || !x.write {
		return false, nil
	}
	full := len(x.pending) >= maxPending
	switch {
	case p.forget, full && p.typ == unix.F_UNLCK:
		// Of a file that nobody else has open, what is pending is all that the owner has. An unlock that finds no place takes
		// all of it away: rather none than a lock that stays for ever.
		x.pending = slices.DeleteFunc(x.pending, func(o pendingLock) bool { return o.who == p.who })
	case full:
		return true, unix.ENOLCK
	default:
		x.pending = append(x.pending, p)
	}
	return true, nil
}

// Count returns how many leases there are.
func (l *Leases) Count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.held)
}

// cached returns the file of a Node.Key as the cache knows it, pinned, once for each export it is open through.
func (n *Namespace) cached(file filecache.Key) (files []*filecache.File, err error) {
	for _, m := range n.mountsOn(file.FS) {
		if m.connect {
			err = unix.EOPNOTSUPP // the cache knows its files by handles with a parent
			break
		}
		k := file
		k.FS = m.cacheFS
		if f, ok := n.cfg.Cache.Get(&k); ok {
			files = append(files, f)
		}
	}
	if err == nil && len(files) == 0 {
		err = unix.ESTALE // no open of it keeps it
	}
	if err != nil {
		for _, f := range files {
			f.Release()
		}
		return nil, err
	}
	return files, nil
}

// quiet tells whether no change of a file is under way.
func (s *spans) quiet(k *filecache.Key) bool {
	x := &s[stripe(k)]
	return x.begun.Load() == x.ended.Load()
}
