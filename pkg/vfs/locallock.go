// Locks: byte-range locks of clients, as local processes see them. Each owner of a lock has a descriptor of its own on the
// file and takes its locks there as open-file-description locks (fcntl F_OFD_SETLK): the kernel tells owners apart by
// descriptor, and closing it lets all of them go.

package vfs

import (
	"math"
	"sync"

	"golang.org/x/sys/unix"

	"sluice/pkg/filecache"
)

// Locks holds the descriptors. All methods may be called from any goroutine, but not two at once for the same file.
type Locks struct {
	ns     *Namespace
	max    int
	leases *Leases // may be nil

	mu  sync.Mutex
	fds map[lockOwner]int
}

// lockOwner is a file and who locks it. who is comparable.
type lockOwner struct {
	file filecache.Key
	who  any
}

// pendingLock is an operation that waits for a lease to end: typ F_RDLCK, F_WRLCK, or F_UNLCK. forget is not kept: it takes
// those of its owner away.
type pendingLock struct {
	who        any
	typ        int16
	start, end uint64
	forget     bool
}

// NewLocks begins; max bounds the descriptors: past it a lock is refused with unix.ENOLCK.
func (n *Namespace) NewLocks(max int) *Locks {
	return &Locks{ns: n, max: max, fds: make(map[lockOwner]int)}
}

// Close lets all locks go.
func (l *Locks) Close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for k, fd := range l.fds {
		unix.Close(fd)
		delete(l.fds, k)
	}
}

// Count returns how many descriptors there are.
func (l *Locks) Count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.fds)
}

// lockSpan makes the kernel's form of a range with an inclusive end. What lies past the largest offset, no local process can
// lock; then there is nothing to do.
func lockSpan(typ int16, start, end uint64) (f unix.Flock_t, ok bool) {
	if start > math.MaxInt64 {
		return f, false
	}
	f = unix.Flock_t{Type: typ, Whence: unix.SEEK_SET, Start: int64(start)}
	if end < math.MaxInt64 {
		f.Len = int64(end-start) + 1
	}
	return f, true
}

func lockType(write bool) int16 {
	if write {
		return unix.F_WRLCK
	}
	return unix.F_RDLCK
}

// Lock takes the range from start to end, inclusive, changes its kind if the owner has it already, and never waits. file is
// a Node.Key, owner any comparable value. unix.EAGAIN: a local process has a lock in conflict. unix.ENOLCK: too many
// descriptors, or a lock for writing of a file that cannot be opened for it.
func (l *Locks) Lock(file filecache.Key, owner any, write bool, start, end uint64) error {
	if l.leases != nil {
		if held, err := l.leases.deferLock(pendingLock{who: owner, typ: lockType(write), start: start, end: end}, file); held {
			return err
		}
	}
	return asRoot(func() error { return l.lock(file, owner, lockType(write), start, end) })
}

func (l *Locks) lock(file filecache.Key, owner any, typ int16, start, end uint64) error {
	f, ok := lockSpan(typ, start, end)
	if !ok {
		return nil
	}
	k := lockOwner{file, owner}
	fd, err := l.fd(k, true)
	if err != nil {
		return err
	}
	switch err := setLock(fd, &f); err {
	case nil, unix.EAGAIN:
		return err
	case unix.EACCES:
		return unix.EAGAIN
	default: // EBADF: not open for this kind
		return unix.ENOLCK
	}
}

func setLock(fd int, f *unix.Flock_t) error {
	return retry(func() error { return unix.FcntlFlock(uintptr(fd), unix.F_OFD_SETLK, f) })
}

// fd is the owner's descriptor, opened if need be.
func (l *Locks) fd(k lockOwner, open bool) (int, error) {
	l.mu.Lock()
	fd, ok := l.fds[k]
	full := len(l.fds) >= l.max
	l.mu.Unlock()
	if ok {
		return fd, nil
	}
	if !open {
		return -1, nil
	}
	if full {
		return -1, unix.ENOLCK
	}
	// A lock for reading on a descriptor for writing would do, but opening that breaks a lease.
	fd, err := l.ns.openKey(&k.file, unix.O_RDWR)
	if err == unix.EACCES || err == unix.EPERM || err == unix.EROFS || err == unix.ETXTBSY || err == unix.EAGAIN {
		fd, err = l.ns.openKey(&k.file, unix.O_RDONLY)
	}
	switch err {
	case nil:
	case unix.EAGAIN:
		return -1, unix.ENOLCK // a lease of somebody else's
	default:
		return -1, err
	}
	l.mu.Lock()
	l.fds[k] = fd
	l.mu.Unlock()
	return fd, nil
}

// Unlock lets a range go.
func (l *Locks) Unlock(file filecache.Key, owner any, start, end uint64) {
	if l.leases != nil {
		if held, err := l.leases.deferLock(pendingLock{who: owner, typ: unix.F_UNLCK, start: start, end: end}, file); held && err == nil {
			return
		}
	}
	l.unlock(file, owner, start, end)
}

func (l *Locks) unlock(file filecache.Key, owner any, start, end uint64) {
	fd, _ := l.fd(lockOwner{file, owner}, false)
	f, ok := lockSpan(unix.F_UNLCK, start, end)
	if fd < 0 || !ok {
		return
	}
	if setLock(fd, &f) != nil {
		// Cutting a lock in two takes memory. Rather none than one that stays for ever: state.Forget closes it, too.
		f, _ = lockSpan(unix.F_UNLCK, 0, math.MaxUint64)
		setLock(fd, &f) //nolint:errcheck // takes no memory
	}
}

// Test looks for a lock of a local process in conflict, for those who know that no client has one: whether it is one for writing, its range (end inclusive, 2^64-1 for
// the end of the file), and the process's id, -1 where the kernel does not tell.
func (l *Locks) Test(file filecache.Key, owner any, write bool, start, end uint64) (w bool, from, to uint64, pid int32, found bool) {
	f, ok := lockSpan(lockType(write), start, end)
	if !ok {
		return false, 0, 0, 0, false
	}
	err := asRoot(func() error {
		fd, _ := l.fd(lockOwner{file, owner}, false)
		if fd < 0 {
			var err error
			if fd, err = l.ns.openKey(&file, unix.O_RDONLY); err != nil {
				return err
			}
			defer unix.Close(fd)
		}
		return retry(func() error { return unix.FcntlFlock(uintptr(fd), unix.F_OFD_GETLK, &f) })
	})
	if err != nil || f.Type == unix.F_UNLCK {
		return false, 0, 0, 0, false
	}
	to = math.MaxUint64
	if f.Len > 0 {
		to = uint64(f.Start + f.Len - 1)
	}
	return f.Type == unix.F_WRLCK, uint64(f.Start), to, f.Pid, true
}

// Forget closes the owner's descriptor: whatever it still has locked is free.
func (l *Locks) Forget(file filecache.Key, owner any) {
	if l.leases != nil {
		if held, err := l.leases.deferLock(pendingLock{who: owner, forget: true}, file); held && err == nil {
			return
		}
	}
	l.forget(file, owner)
}

func (l *Locks) forget(file filecache.Key, owner any) {
	k := lockOwner{file, owner}
	l.mu.Lock()
	fd, ok := l.fds[k]
	delete(l.fds, k)
	l.mu.Unlock()
	if ok {
		unix.Close(fd)
	}
}

// replay takes the locks that a lease for writing made needless.
func (l *Locks) replay(file filecache.Key, ops []pendingLock) {
	for _, p := range ops {
		var err error
		switch {
		case p.typ == unix.F_UNLCK:
			l.unlock(file, p.who, p.start, p.end)
		default:
			err = l.lock(file, p.who, p.typ, p.start, p.end)
		}
		if err != nil {
			l.ns.cfg.Log.Warn().Msgf("a client's lock on %s is not seen by local processes: %v", file.String(), err)
		}
	}
}

// openKey opens the file of a Node.Key by its handle, as the server; the thread must have its credentials. It does not wait
// for leases: unix.EAGAIN.
func (n *Namespace) openKey(file *filecache.Key, flags int) (int, error) {
	n.closing.RLock() // mounts stay open
	defer n.closing.RUnlock()
	for _, m := range n.mountsOn(file.FS) {
		return m.openKey(file, flags)
	}
	return -1, unix.ESTALE
}

// openKey opens a file of m's file system; the caller keeps m open.
func (m *fsMount) openKey(file *filecache.Key, flags int) (int, error) {
	return m.tree.ns.cfg.Cache.Room(false, func() (int, error) {
		h := unix.NewFileHandle(file.Type, file.Bytes[:file.Len])
		fd := -1
		err := retry(func() (err error) {
			fd, err = unix.OpenByHandleAt(m.fd, h, flags|unix.O_NONBLOCK|unix.O_CLOEXEC|unix.O_NOCTTY)
			return err
		})
		return fd, err
	})
}
