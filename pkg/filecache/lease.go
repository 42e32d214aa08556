// What kernel leases (fcntl F_SETLEASE) ask of the cache. A lease for writing
// is only to be had on the one open descriptor of a file, and any further open
// breaks it, also one by the process that holds it. So the cache gives up its
// data descriptors when a lease is wanted, and while there is one it makes its
// descriptors by dup of the lease's own.

package filecache

import "golang.org/x/sys/unix"

// GiveUp takes the data descriptors of a kind (Write: all that are open for
// writing), or with all those of every kind, out of f, and returns what closes them; nil when none is open. Who
// holds a number may still use it: call the function when nobody can, and as
// the one who calls it, with f pinned until then. Data that is not on stable
// storage is synced first.
func (f *File) GiveUp(k Kind, all bool) (shut func()) {
	var fds [kinds]int32
	f.mu.Lock()
	n := 0
	for i := range fds {
		fds[i] = -1
		if all || Kind(i) == k || k == Write && Kind(i) == DirectOut {
			if fds[i] = f.data[i].Swap(-1); fds[i] >= 0 {
				n++
			}
		}
	}
	f.mu.Unlock()
	if n == 0 {
		return nil
	}
	return func() {
		fd := fds[Write]
		for i := 0; fd < 0; i++ {
			fd = fds[i]
		}
		if f.unstable.Load() {
			began := f.SyncBegin()
			f.unstable.Store(false)
			var err error
			for err = unix.EINTR; err == unix.EINTR; {
				err = unix.Fsync(int(fd))
			}
			f.SyncEnd(began, err, true) //nolint:errcheck // a failure has changed the verifier
		}
		f.cache.closeFDs(fds[:])
	}
}

// Share makes Open give duplicates of fd, which is open for reading and
// writing, in place of opening the file; direct I/O is then not supported. -1
// ends that.
func (f *File) Share(fd int) {
	f.mu.Lock()
	f.shared = fd + 1
	f.mu.Unlock()
}

// dupShared is Open's way while a descriptor is shared; f.mu is held.
func (f *File) dupShared(k Kind) (int, error) {
	if k == Direct || k == DirectOut {
		return -1, unix.EOPNOTSUPP
	}
	return unix.FcntlInt(uintptr(f.shared-1), unix.F_DUPFD_CLOEXEC, 0)
}
