// System calls of the hot paths, on memory that belongs to the thread: names and results lie in Thread's scratch, so that
// nothing is allocated and nothing of a caller's stack is passed to the kernel.
//
// Raw calls (no word to the Go scheduler) are for what cannot sleep: statx of an open file on a local file system, and
// the credential calls. Everything else that may wait for a disk goes through unix.Syscall.

package vfs

import (
	"encoding/binary"
	"strconv"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	maxKernelHandle = 128       // MAX_HANDLE_SZ
	atHandleConnect = 0x2       // AT_HANDLE_CONNECTABLE (Linux 6.13): the handle names the parent too
	treeClone       = 1         // OPEN_TREE_CLONE
	resolveCached   = 0x20      // RESOLVE_CACHED
	setfsQuery      = 1<<32 - 1 // setfsuid(-1) changes nothing and returns the id in force
)

// kernelHandle is struct file_handle with room for the largest.
type kernelHandle struct {
	n   uint32
	typ int32
	b   [maxKernelHandle]byte
}

// scratch is what system calls read and write. It lives in Thread, on the heap, and never moves.
type scratch struct {
	stx   unix.Statx_t
	fh    kernelHandle
	mntID int32 // mount that nameToHandle ended on
	proc  [16]byte
	path  [32]byte // see procPath
	name  [MaxName + 1]byte
	name2 [MaxPath + 1]byte // second names, link targets
	times [2]unix.Timespec
	how   unix.OpenHow
	empty [1]byte
}

// cname copies a name into buf with a NUL behind it. The caller has checked length and content.
func cname(buf []byte, name []byte) {
	n := copy(buf[:len(buf)-1], name)
	buf[n] = 0
}

// statxNull says that the kernel takes a NULL path with AT_EMPTY_PATH (Linux 6.11), which saves it the copy of "".
var statxNull = func() bool {
	fd, err := unix.Open("/", unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	var stx unix.Statx_t
	_, _, e := unix.Syscall6(unix.SYS_STATX, uintptr(fd), 0, unix.AT_EMPTY_PATH, unix.STATX_TYPE, uintptr(unsafe.Pointer(&stx)), 0)
	return e == 0
}()

// statx reads the attributes of an open file into th.stx. With raw it must not be able to sleep.
func (th *Thread) statx(fd int, raw bool) unix.Errno {
	path := uintptr(0)
	if !statxNull {
		path = uintptr(unsafe.Pointer(&th.empty[0]))
	}
	for {
		var e unix.Errno
		if raw {
			_, _, e = unix.RawSyscall6(unix.SYS_STATX, uintptr(fd), path, unix.AT_EMPTY_PATH, unix.STATX_BASIC_STATS|unix.STATX_BTIME, uintptr(unsafe.Pointer(&th.stx)), 0)
		} else {
			_, _, e = unix.Syscall6(unix.SYS_STATX, uintptr(fd), path, unix.AT_EMPTY_PATH, unix.STATX_BASIC_STATS|unix.STATX_BTIME, uintptr(unsafe.Pointer(&th.stx)), 0)
		}
		if e != unix.EINTR {
			return e
		}
	}
}

// nameToHandle looks name up below dirfd under the thread's credentials and leaves its handle in th.fh and its mount in
// th.mntID. Symbolic links are not followed; mount points are.
func (th *Thread) nameToHandle(dirfd int, name []byte, flags int) unix.Errno {
	cname(th.name[:], name)
	return th.toHandle(dirfd, flags)
}

// fdToHandle is nameToHandle of an open file itself.
func (th *Thread) fdToHandle(fd int, flags int) unix.Errno {
	th.name[0] = 0
	return th.toHandle(fd, flags|unix.AT_EMPTY_PATH)
}

func (th *Thread) toHandle(fd int, flags int) unix.Errno {
	for {
		th.fh.n = maxKernelHandle
		_, _, e := unix.Syscall6(unix.SYS_NAME_TO_HANDLE_AT, uintptr(fd), uintptr(unsafe.Pointer(&th.name[0])),
			uintptr(unsafe.Pointer(&th.fh)), uintptr(unsafe.Pointer(&th.mntID)), uintptr(flags), 0)
		if e != unix.EINTR {
			return e
		}
	}
}

// openByHandle opens the file whose handle is in th.fh. The thread must have the server's credentials.
func (th *Thread) openByHandle(mountFD int, flags int) (int, unix.Errno) {
	for {
		fd, _, e := unix.Syscall(unix.SYS_OPEN_BY_HANDLE_AT, uintptr(mountFD), uintptr(unsafe.Pointer(&th.fh)), uintptr(flags|unix.O_CLOEXEC))
		if e != unix.EINTR {
			return int(fd), e
		}
	}
}

// openat opens name below dirfd, never through a symbolic link in its place.
func (th *Thread) openat(dirfd int, name []byte, flags int) (int, unix.Errno) {
	cname(th.name[:], name)
	return th.openatC(dirfd, &th.name[0], flags|unix.O_NOFOLLOW)
}

func (th *Thread) openatC(dirfd int, name *byte, flags int) (int, unix.Errno) {
	for {
		fd, _, e := unix.Syscall6(unix.SYS_OPENAT, uintptr(dirfd), uintptr(unsafe.Pointer(name)), uintptr(flags|unix.O_CLOEXEC), 0, 0, 0)
		if e != unix.EINTR {
			return int(fd), e
		}
	}
}

// cached reports whether the kernel has name below dirfd in memory, so that looking it up will not wait for a disk.
func (th *Thread) cached(dirfd int, name []byte) bool {
	cname(th.name[:], name)
	th.how = unix.OpenHow{Flags: unix.O_PATH | unix.O_NOFOLLOW | unix.O_CLOEXEC, Resolve: resolveCached}
	fd, _, e := unix.Syscall6(unix.SYS_OPENAT2, uintptr(dirfd), uintptr(unsafe.Pointer(&th.name[0])), uintptr(unsafe.Pointer(&th.how)), unix.SizeofOpenHow, 0, 0)
	if e == 0 {
		unix.Close(int(fd)) //nolint:errcheck // an O_PATH descriptor
	}
	return e != unix.EAGAIN
}

// procName writes the name of a descriptor under /proc/self/fd to th.proc.
func (th *Thread) procName(fd int) *byte {
	b := strconv.AppendUint(th.proc[:0], uint64(fd), 10)
	th.proc[len(b)] = 0
	return &th.proc[0]
}

// reopen opens the file of descriptor fd anew under the thread's credentials.
func (th *Thread) reopen(fd int, flags int) (int, unix.Errno) {
	return th.openatC(th.ns.procFD, th.procName(fd), flags)
}

// access asks the kernel whether the thread's credentials permit mode (unix.R_OK and so on) on an open file.
func (th *Thread) access(fd int, mode uint32) unix.Errno {
	for {
		_, _, e := unix.Syscall6(unix.SYS_FACCESSAT2, uintptr(fd), uintptr(unsafe.Pointer(&th.empty[0])), uintptr(mode), unix.AT_EACCESS|unix.AT_EMPTY_PATH, 0, 0)
		if e != unix.EINTR {
			return e
		}
	}
}

// utimes sets times as given in th.times.
func (th *Thread) utimes(fd int) unix.Errno {
	for {
		_, _, e := unix.Syscall6(unix.SYS_UTIMENSAT, uintptr(fd), uintptr(unsafe.Pointer(&th.empty[0])), uintptr(unsafe.Pointer(&th.times[0])), unix.AT_EMPTY_PATH, 0, 0)
		if e != unix.EINTR {
			return e
		}
	}
}

// retry runs a call until a signal no longer interrupts it.
func retry(f func() error) error {
	for {
		if err := f(); err != unix.EINTR {
			return err
		}
	}
}

// errnoOf gives an error of x/sys its number; nil is 0.
func errnoOf(err error) unix.Errno {
	if err == nil {
		return 0
	}
	if e, ok := err.(unix.Errno); ok {
		return e
	}
	return unix.EIO
}

// fail turns an errno into what operations return: nil for 0, and the namespace's own errors where they say more.
func fail(e unix.Errno) error {
	switch e {
	case 0:
		return nil
	case unix.ESTALE:
		return ErrStale
	case unix.EMFILE, unix.ENFILE, unix.ENOMEM:
		return ErrJukebox
	case unix.EOPNOTSUPP, unix.ENOSYS:
		return ErrNotSupported
	}
	return e // no allocation: errnos are small numbers
}

// word reads 8 bytes in the host's order.
func word(b []byte) uint64 { return binary.NativeEndian.Uint64(b) }

// chmod changes an open file's mode. fchmodat2 came with Linux 6.6; before, the way is through /proc.
func (th *Thread) chmod(fd int, mode uint32) unix.Errno {
	for {
		_, _, e := unix.Syscall6(unix.SYS_FCHMODAT2, uintptr(fd), uintptr(unsafe.Pointer(&th.empty[0])), uintptr(mode), unix.AT_EMPTY_PATH, 0, 0)
		if e == unix.ENOSYS {
			_, _, e = unix.Syscall(unix.SYS_FCHMODAT, uintptr(th.ns.procFD), uintptr(unsafe.Pointer(th.procName(fd))), uintptr(mode))
		}
		if e != unix.EINTR {
			return e
		}
	}
}
