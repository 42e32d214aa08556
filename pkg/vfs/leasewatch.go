// The thread that hears of broken leases, and of changes that fanotify tells of.
//
// One OS thread, locked for good, blocks a real-time signal for itself and reads it from a signalfd; each lease names the
// thread with F_SETOWN_EX and the signal with F_SETSIG, and the event carries the lease's descriptor. When the queue of
// signals was full the kernel sends a plain SIGIO instead: then all leases are looked at.

package vfs

import (
	"encoding/binary"
	"fmt"
	"os"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"

	"sluice/pkg/filecache"
)

const (
	leaseSignal = 46 // of the real-time ones, clear of those that the Go runtime and C libraries use (32 to 34)

	fSetOwnEx  = 15 // F_SETOWN_EX
	fSetSig    = 10 // F_SETSIG
	fOwnerTID  = 0  // F_OWNER_TID
	fanVersion = unix.FANOTIFY_METADATA_VERSION

	fanNames = unix.FAN_ATTRIB | unix.FAN_DELETE_SELF | unix.FAN_MOVE_SELF
	fanData  = unix.FAN_MODIFY | unix.FAN_OPEN
)

type leaseWatch struct {
	l     *Leases
	tid   int32
	sigFD int
	fan   int // -1: there is none
	wake  int // eventfd: ends the thread
	done  chan struct{}
	buf   []byte
}

func newLeaseWatch(l *Leases) (*leaseWatch, error) {
	w := &leaseWatch{l: l, fan: -1, done: make(chan struct{}), buf: make([]byte, 16<<10)}
	ready := make(chan error, 1)
	go w.run(ready)
	return w, <-ready
}

func (w *leaseWatch) run(ready chan<- error) {
	runtime.LockOSThread() // never unlocked: the thread has a signal blocked, and ends with the goroutine
	defer close(w.done)
	if err := w.open(); err != nil {
		w.shut()
		ready <- err
		return
	}
	ready <- nil
	defer w.shut()
	fds := []unix.PollFd{{Fd: int32(w.wake), Events: unix.POLLIN}, {Fd: int32(w.sigFD), Events: unix.POLLIN}, {Fd: int32(w.fan), Events: unix.POLLIN}}
	for {
		if _, err := unix.Poll(fds, -1); err != nil && err != unix.EINTR {
			panic(fmt.Sprintf("vfs: poll: %v", err)) // only a descriptor closed by mistake does this
		}
		if fds[0].Revents != 0 {
			return
		}
		if fds[1].Revents != 0 {
			w.signals()
		}
		if fds[2].Revents != 0 {
			w.changes()
		}
	}
}

func (w *leaseWatch) open() (err error) {
	w.sigFD, w.wake = -1, -1
	w.tid = int32(unix.Gettid())
	var set unix.Sigset_t
	for _, s := range []int{leaseSignal, int(unix.SIGIO)} {
		set.Val[(s-1)/64] |= 1 << ((s - 1) % 64)
	}
	if err = unix.PthreadSigmask(unix.SIG_BLOCK, &set, nil); err != nil {
		return err
	}
	if w.sigFD, err = unix.Signalfd(-1, &set, unix.SFD_CLOEXEC|unix.SFD_NONBLOCK); err != nil {
		return fmt.Errorf("signalfd: %w", err)
	}
	if w.wake, err = unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK); err != nil {
		return fmt.Errorf("eventfd: %w", err)
	}
	if w.fan, err = unix.FanotifyInit(unix.FAN_CLASS_NOTIF|unix.FAN_CLOEXEC|unix.FAN_NONBLOCK|unix.FAN_REPORT_FID|unix.FAN_UNLIMITED_MARKS, unix.O_RDONLY); err != nil {
		w.fan = -1
		w.l.ns.cfg.Log.Warn().Msgf("delegations do not notice local processes that change the mode, owner or names of a file (fanotify: %v): run with CAP_SYS_ADMIN", err)
	}
	return nil
}

func (w *leaseWatch) shut() {
	for _, fd := range []int{w.sigFD, w.fan, w.wake} {
		if fd >= 0 {
			unix.Close(fd)
		}
	}
}

func (w *leaseWatch) close() {
	unix.Write(w.wake, []byte{1, 0, 0, 0, 0, 0, 0, 0}) //nolint:errcheck // an eventfd
	<-w.done
}

// own makes the thread hear of a descriptor's lease. It must be done anew for each lease: giving one back clears it.
func (w *leaseWatch) own(fd int) error {
	who := [2]int32{fOwnerTID, w.tid}
	if _, _, e := unix.Syscall(unix.SYS_FCNTL, uintptr(fd), fSetOwnEx, uintptr(unsafe.Pointer(&who))); e != 0 {
		return e
	}
	if _, err := unix.FcntlInt(uintptr(fd), fSetSig, leaseSignal); err != nil {
		return err
	}
	return nil
}

// signals takes the signals that are there.
func (w *leaseWatch) signals() {
	const size = unsafe.Sizeof(unix.SignalfdSiginfo{})
	for {
		n, err := unix.Read(w.sigFD, w.buf[:32*size])
		if err == unix.EINTR {
			continue
		}
		if err != nil || n < int(size) {
			return
		}
		for b := w.buf[:n]; len(b) >= int(size); b = b[size:] {
			info := (*unix.SignalfdSiginfo)(unsafe.Pointer(&b[0]))
			if info.Signo == leaseSignal {
				w.l.tell(func() *lease { return w.l.breaking(int(info.Fd)) })
			} else {
				w.all()
			}
		}
	}
}

// breaking finds the lease of a descriptor, if it is being broken: the signal may be of an earlier one; l.mu is held.
func (l *Leases) breaking(fd int) *lease {
	x := l.fds[fd]
	if x == nil {
		return nil
	}
	want := unix.F_RDLCK
	if x.write {
		want = unix.F_WRLCK
	}
	// While a lease is being broken it shows as what it is to become.
	if got, err := unix.FcntlInt(uintptr(fd), unix.F_GETLEASE, 0); err == nil && got == want {
		return nil
	}
	return x
}

// all looks at every lease.
func (w *leaseWatch) all() {
	w.l.mu.Lock()
	fds := make([]int, 0, len(w.l.fds))
	for fd := range w.l.fds {
		fds = append(fds, fd)
	}
	w.l.mu.Unlock()
	for _, fd := range fds {
		w.l.tell(func() *lease { return w.l.breaking(fd) })
	}
}

// mark adds or removes what is watched of a file. Files of one handle share a mark.
func (w *leaseWatch) mark(how uint, x *lease, mask uint64) error {
	if w.fan < 0 {
		return unix.ENOSYS
	}
	err := unix.FanotifyMark(w.fan, how, mask, unix.AT_FDCWD, fmt.Sprintf("/proc/self/fd/%d", x.files[0].PathFD()))
	if err != nil && how == unix.FAN_MARK_ADD {
		w.l.ns.cfg.Log.Debug().Msgf("fanotify mark: %v", err)
	}
	return err
}

// changes takes the events that are there. What this process did is no news.
func (w *leaseWatch) changes() {
	const head = int(unsafe.Sizeof(unix.FanotifyEventMetadata{}))
	self := int32(os.Getpid())
	for {
		n, err := unix.Read(w.fan, w.buf)
		if err == unix.EINTR {
			continue
		}
		if err != nil || n < head {
			return
		}
		for b := w.buf[:n]; len(b) >= head; {
			ev := (*unix.FanotifyEventMetadata)(unsafe.Pointer(&b[0]))
			size := int(ev.Event_len)
			if ev.Vers != fanVersion || size < head || size > len(b) {
				return
			}
			info := b[ev.Metadata_len:size]
			b = b[size:]
			if ev.Mask&unix.FAN_Q_OVERFLOW != 0 {
				w.lost()
				continue
			}
			if ev.Pid == self {
				continue
			}
			if k, ok := fidOf(info); ok {
				w.l.tell(func() *lease { return w.l.fids[k] })
			}
		}
	}
}

// lost is for when events were: nothing is known any more of what happened to the files.
func (w *leaseWatch) lost() {
	w.l.mu.Lock()
	keys := make([]filecache.Key, 0, len(w.l.held))
	for k := range w.l.held {
		keys = append(keys, k)
	}
	w.l.mu.Unlock()
	for _, k := range keys {
		w.l.tell(func() *lease { return w.l.held[k] })
	}
}

// fidOf reads the file out of an event's struct fanotify_event_info_fid: type, padding, length; f_fsid; struct file_handle.
func fidOf(b []byte) (k filecache.Key, ok bool) {
	if len(b) < 20 || b[0] != unix.FAN_EVENT_INFO_TYPE_FID {
		return k, false
	}
	n := int(binary.NativeEndian.Uint32(b[12:]))
	if n > len(k.Bytes) || len(b) < 20+n {
		return k, false
	}
	k.FS = binary.NativeEndian.Uint64(b[4:])
	k.Type = int32(binary.NativeEndian.Uint32(b[16:])) &^ typeFlags
	k.Len = uint8(copy(k.Bytes[:], b[20:20+n]))
	return k, true
}

// fanKey is how fanotify names an open file: by f_fsid and handle.
func fanKey(fd int) (k filecache.Key, err error) {
	var sf unix.Statfs_t
	if err = unix.Fstatfs(fd, &sf); err != nil {
		return k, err
	}
	var h scratchHandle
	if err = h.of(fd); err != nil {
		return k, err
	}
	if !keyOf(&h.fh, uint64(uint32(sf.Fsid.Val[0]))|uint64(uint32(sf.Fsid.Val[1]))<<32, &k) {
		return k, unix.EOPNOTSUPP
	}
	k.Type &^= typeFlags
	return k, nil
}
