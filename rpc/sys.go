// System calls of the hot path, raw: on a nonblocking socket they cannot sleep,
// so that the runtime need not be told and about 50 ns a call are saved. Every
// buffer given to them lies on the heap or outside of it, never on a stack.

package rpc

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// recv reads what is there into b.
func recv(fd int, b []byte, flags int) (int, syscall.Errno) {
	for {
		n, _, e := unix.RawSyscall6(unix.SYS_RECVFROM, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(len(b)), uintptr(flags|unix.MSG_DONTWAIT), 0, 0)
		if e != unix.EINTR {
			return int(n), e
		}
	}
}

// send writes b without waiting.
func send(fd int, b []byte, flags int) (int, syscall.Errno) {
	for {
		n, _, e := unix.RawSyscall6(unix.SYS_SENDTO, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(len(b)), uintptr(flags|unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL), 0, 0)
		if e != unix.EINTR {
			return int(n), e
		}
	}
}

var switchOn int32 = 1 // of the options that are switched on; not on a stack

// quickAck has what has come acknowledged now, once.
func quickAck(fd int) {
	unix.RawSyscall6(unix.SYS_SETSOCKOPT, uintptr(fd), unix.IPPROTO_TCP, unix.TCP_QUICKACK, uintptr(unsafe.Pointer(&switchOn)), 4, 0)
}

// maxIov is how many stretches one system call moves.
const maxIov = 64

// vector is the scratch of a scattered read or a gathered write. It must lie
// on the heap.
type vector struct {
	n   int
	iov [maxIov]unix.Iovec
	msg unix.Msghdr
}

func (v *vector) add(b []byte) {
	v.iov[v.n].Base = unsafe.SliceData(b)
	v.iov[v.n].Len = uint64(len(b))
	v.n++
}

// reset forgets the stretches, so that nothing is kept alive by them.
func (v *vector) reset() {
	clear(v.iov[:v.n])
	v.n = 0
}

func (v *vector) recv(fd int) (int, syscall.Errno) {
	for {
		n, _, e := unix.RawSyscall(unix.SYS_READV, uintptr(fd), uintptr(unsafe.Pointer(&v.iov)), uintptr(v.n))
		if e != unix.EINTR {
			return int(n), e
		}
	}
}

func (v *vector) send(fd int, flags int) (int, syscall.Errno) {
	v.msg.Iov = &v.iov[0]
	v.msg.Iovlen = uint64(v.n)
	for {
		n, _, e := unix.RawSyscall(unix.SYS_SENDMSG, uintptr(fd), uintptr(unsafe.Pointer(&v.msg)), uintptr(flags|unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL))
		if e != unix.EINTR {
			return int(n), e
		}
	}
}

// poller is an epoll instance whose events carry a slot and its generation,
// never a descriptor: a number that was closed and given out again cannot be
// mistaken for its predecessor.
type poller struct{ fd int }

func newPoller() (poller, error) {
	fd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	return poller{fd}, err
}

func event(mask, slot, gen uint32) unix.EpollEvent {
	return unix.EpollEvent{Events: mask, Fd: int32(slot), Pad: int32(gen)}
}

// ctl changes the interest in fd. ev must not lie on a stack.
func (p poller) ctl(op, fd int, ev *unix.EpollEvent) syscall.Errno {
	_, _, e := unix.RawSyscall6(unix.SYS_EPOLL_CTL, uintptr(p.fd), uintptr(op), uintptr(fd), uintptr(unsafe.Pointer(ev)), 0, 0)
	return e
}

// try takes one event if one comes within so many milliseconds. The runtime is
// not told: a thread that lets go of its P in each pause of a busy server keeps
// the runtime's monitor at its shortest period, which was 10% of the server's
// CPU. A collection interrupts the wait by its signal.
func (p poller) try(ev *unix.EpollEvent, ms int) bool {
	n, _, e := unix.RawSyscall6(unix.SYS_EPOLL_WAIT, uintptr(p.fd), uintptr(unsafe.Pointer(ev)), 1, uintptr(ms), 0, 0)
	return e == 0 && n == 1
}

// wait sleeps until an event is there; false after an interruption.
func (p poller) wait(ev *unix.EpollEvent) bool {
	n, _, e := unix.Syscall6(unix.SYS_EPOLL_WAIT, uintptr(p.fd), uintptr(unsafe.Pointer(ev)), 1, ^uintptr(0), 0, 0)
	return e == 0 && n == 1
}

// nanosleep may return early. The runtime is not told, for the reason given at try.
// ts must lie on the heap.
func nanosleep(ts *unix.Timespec) {
	unix.RawSyscall(unix.SYS_NANOSLEEP, uintptr(unsafe.Pointer(ts)), 0, 0)
}
