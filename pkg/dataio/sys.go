// System calls of the data path. The iovec of a call lies in its Thread, on
// the heap: nothing is allocated, and no address of a stack is handed out.
//
// A raw call is used only where the kernel was told not to sleep
// (RWF_NOWAIT) and little is copied: the runtime does not notice raw calls, so
// a long one would hold up a garbage collection.

package dataio

import (
	"os"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// pageSize is the page cache's unit, in bytes.
var pageSize = os.Getpagesize()

// rawMax is how many bytes a raw call may copy: some 10 us.
const rawMax = 64 << 10

// The clock: nanoseconds since the process started.
var clockBase = time.Now()

func now() int64 { return int64(time.Since(clockBase)) }

// preadv2 reads once into b, again when interrupted.
func (th *Thread) preadv2(fd int, b []byte, off int64, flags uintptr) (int, error) {
	iov := th.vector(b, nil)
	for {
		var n uintptr
		var errno unix.Errno
		if flags&unix.RWF_NOWAIT != 0 && len(b) <= rawMax {
			n, _, errno = unix.RawSyscall6(unix.SYS_PREADV2, uintptr(fd), uintptr(iov), 1,
				uintptr(off), uintptr(uint64(off)>>32), flags)
		} else {
			n, _, errno = unix.Syscall6(unix.SYS_PREADV2, uintptr(fd), uintptr(iov), 1,
				uintptr(off), uintptr(uint64(off)>>32), flags)
		}
		if errno == 0 {
			return int(n), nil
		}
		if errno != unix.EINTR {
			return 0, errno
		}
	}
}

// vector sets the iovec up: b, and more behind it. It returns its address.
func (th *Thread) vector(b []byte, more [][]byte) unsafe.Pointer {
	th.iov[0].Base = unsafe.SliceData(b)
	th.iov[0].SetLen(len(b))
	for i, b := range more {
		th.iov[1+i].Base = unsafe.SliceData(b)
		th.iov[1+i].SetLen(len(b))
	}
	return unsafe.Pointer(&th.iov)
}

// pwritev2 writes once from b and more, again when interrupted before any byte.
func (th *Thread) pwritev2(fd int, b []byte, more [][]byte, off int64, flags uintptr) (int, error) {
	iov, pieces := th.vector(b, more), 1+len(more)
	defer clear(th.iov[:pieces]) // the records that they lie in are not ours to keep
	for {
		n, _, errno := unix.Syscall6(unix.SYS_PWRITEV2, uintptr(fd), uintptr(iov), uintptr(pieces),
			uintptr(off), uintptr(uint64(off)>>32), flags)
		switch errno {
		case 0:
			return int(n), nil
		case unix.EINTR:
			continue
		}
		return 0, errno
	}
}

// readNoWait reads all of b, but only what is in memory: unix.EAGAIN where
// any of it is not (or the file system cannot tell). Fewer bytes mean the end
// of the file.
func (th *Thread) readNoWait(fd int, b []byte, off int64, flags uintptr) (int, error) {
	n := 0
	for round := 0; n < len(b); round++ {
		if round == 4 {
			return 0, unix.EAGAIN // it trickles in from the disk
		}
		m, err := th.preadv2(fd, b[n:], off+int64(n), flags|unix.RWF_NOWAIT)
		if err != nil {
			if err == unix.EOPNOTSUPP && flags == 0 {
				err = unix.EAGAIN
			}
			return 0, err
		}
		if m == 0 {
			break
		}
		n += m
	}
	return n, nil
}

// cachestat counts into th.cs the pages of th.csRange of th.csFD that are in
// the page cache. unix.EPERM: the calling thread's credentials may not ask.
func (th *Thread) cachestat() error {
	_, _, errno := unix.RawSyscall6(unix.SYS_CACHESTAT, uintptr(th.csFD), uintptr(unsafe.Pointer(&th.csRange)),
		uintptr(unsafe.Pointer(&th.cs)), 0, 0, 0)
	if errno != 0 {
		return errno
	}
	return nil
}
