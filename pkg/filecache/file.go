// One cached file: its descriptors, opened when first wanted, and what goes
// with them for as long as the file is cached.

package filecache

import (
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"sluice/pkg/trace"
)

// Kind says what a data descriptor is for.
type Kind uint8

// The kinds of data descriptor.
const (
	Read      Kind = iota // O_RDONLY
	Write                 // O_RDWR, else O_WRONLY
	Direct                // O_RDONLY|O_DIRECT
	NoAhead               // O_RDONLY with read-ahead off, for drop-behind and random reads
	Ahead                 // O_RDONLY with more read-ahead, for opens that are read from end to end
	DirectOut             // O_WRONLY|O_DIRECT
	kinds
)

var kindNames = [kinds]string{"read", "write", "direct", "no_readahead", "more_readahead", "direct_write"}

// Align is what statx says of a file's direct I/O (STATX_DIOALIGN and
// STATX_DIO_READ_ALIGN), in bytes, recorded when its first data descriptor is
// opened.
type Align struct {
	Mem        uint32 // of buffers
	Offset     uint32 // of offsets and lengths
	ReadOffset uint32 // the same for reads, where it is smaller; else Offset
	Block      uint32 // the least that the page cache writes out: a page, or a larger block
	Direct     bool   // direct I/O works on this file
	DontCache  bool   // RWF_DONTCACHE works on its file system
}

// File is one cached file. Its descriptors are valid while it is pinned.
type File struct {
	Key    Key
	Mode   uint32 // st_mode at Insert: only its S_IFMT bits are to be trusted
	Grants Grants

	cache  *Cache
	shard  *shard
	fs     *fsState
	pathFD int
	born   time.Time

	mu     sync.Mutex // held while a data descriptor is opened
	shared int        // see Share; the descriptor plus 1
	data   [kinds]atomic.Int32
	align  atomic.Pointer[Align] // DontCache in it is not kept up to date

	order    atomic.Pointer[Order]  // see Order
	unstable atomic.Bool            // written since the last sync began
	access   atomic.Pointer[Access] // how it is read lately; nil until somebody asks
	epoch    atomic.Uint32          // see NewEpoch
	behind   behind
	sync     syncGate

	// Under shard.mu.
	pins       int
	prev, next *File  // in the idle list, when pins is 0
	stamp      uint64 // the epoch in which the last pin went
	idleAt     uint64 // the tick
	dead       bool   // no longer in the cache
	closeData  bool   // close the data descriptors at the last release
}

// Pin adds a reference, for a second holder: the caller must hold one.
func (f *File) Pin() {
	f.shard.mu.Lock()
	if f.pins == 0 {
		panic("filecache: Pin of a file that is not pinned")
	}
	f.pins++
	f.shard.pins++
	f.shard.mu.Unlock()
}

// Release gives a reference back.
func (f *File) Release() {
	s := f.shard
	s.mu.Lock()
	if f.pins <= 0 {
		s.mu.Unlock()
		panic("filecache: Release of a file that is not pinned")
	}
	f.pins--
	s.drops++
	if f.pins > 0 {
		s.mu.Unlock()
		return
	}
	if f.dead {
		s.mu.Unlock()
		f.destroy()
		return
	}
	f.stamp = f.cache.epoch.Load()
	f.idleAt = f.cache.tick.Load()
	f.prev, f.next = s.idle.prev, &s.idle
	f.prev.next, s.idle.prev = f, f
	if f.prev == &s.idle {
		s.oldest.Store(f.stamp)
	}
	if !f.closeData {
		s.mu.Unlock()
		return
	}
	// Taken out under the lock: whoever pins the file next opens new ones.
	f.closeData = false
	fds := f.takeData()
	s.mu.Unlock()
	f.cache.closeFDs(fds[:])
}

func (f *File) takeData() (fds [kinds]int32) {
	for i := range f.data {
		fds[i] = f.data[i].Swap(-1)
	}
	return fds
}

// closeFDs closes descriptors of the cache; -1 stands for none.
func (c *Cache) closeFDs(fds []int32) {
	for _, fd := range fds {
		if fd >= 0 {
			unix.Close(int(fd))
			c.open.Add(-1)
		}
	}
}

// destroy closes everything; f is unpinned and out of the cache.
func (f *File) destroy() {
	c := f.cache
	fds := f.takeData()
	c.closeFDs(fds[:])
	c.closeFDs([]int32{int32(f.pathFD)})
	f.dropOrder()
	age := time.Since(f.born)
	c.closed.Add(1)
	c.ageSum.Add(uint64(age))
	if c.cfg.Trace.Enabled() {
		c.cfg.Trace.Emit(trace.Event{Name: trace.FileClose, File: f.Key.String(), Duration: age})
	}
}

// aheadOf is how far kinds of descriptor read ahead. Drop-behind reads must not:
// pages beyond a READ would look to the next one as if others had cached them.
var aheadOf = map[Kind]int{NoAhead: unix.FADV_RANDOM, Ahead: unix.FADV_SEQUENTIAL}

// PathFD returns the O_PATH descriptor.
func (f *File) PathFD() int { return f.pathFD }

// FD returns the data descriptor of a kind, or -1 when none is open.
func (f *File) FD(k Kind) int { return int(f.data[k].Load()) }

// Open returns the data descriptor of a kind. If none is open it opens one
// through /proc/self/fd, under the calling thread's credentials (the server's
// own, for a caller whose permission was decided before). unix.EAGAIN says that
// somebody has a lease on the file, which is being given back now; with !wait
// also that it would have had to sleep for room. With wait unix.EMFILE says
// that no room came free. Errors are errnos;
// unix.EOPNOTSUPP means that a direct descriptor was asked for a file without
// direct I/O, unix.EINVAL that the file is not a regular one.
func (f *File) Open(k Kind, wait bool) (int, error) {
	if fd := f.data[k].Load(); fd >= 0 {
		return int(fd), nil
	}
	if f.Mode&unix.S_IFMT != unix.S_IFREG {
		return -1, unix.EINVAL // opening a device or a FIFO has effects
	}
	if wait {
		f.mu.Lock()
	} else if !f.mu.TryLock() {
		return -1, unix.EAGAIN
	}
	defer f.mu.Unlock()
	if fd := f.data[k].Load(); fd >= 0 {
		return int(fd), nil
	}
	if f.align.Load() == nil {
		a := f.readAlign()
		f.align.Store(&a)
	}
	if (k == Direct || k == DirectOut) && !f.align.Load().Direct {
		return -1, unix.EOPNOTSUPP
	}
	fd, err := f.cache.Room(wait, func() (int, error) {
		if f.shared > 0 {
			return f.dupShared(k)
		}
		return f.reopen(k)
	})
	if err != nil {
		return -1, err
	}
	f.cache.open.Add(1)
	if advice, ok := aheadOf[k]; ok && f.shared == 0 {
		if err := unix.Fadvise(fd, 0, 0, advice); err != nil {
			f.cache.closeFDs([]int32{int32(fd)})
			return -1, err
		}
	}
	if k != Direct && k != DirectOut && f.fs.dontCache.Load() == dcUnknown {
		f.fs.probe(fd)
	}
	f.data[k].Store(int32(fd))
	if bus := f.cache.cfg.Trace; bus.Enabled() {
		a := f.Align()
		bus.Emit(trace.Event{Name: trace.FileOpen, File: f.Key.String(), Mode: kindNames[k],
			Align: trace.Align{Mem: a.Mem, Offset: a.Offset, ReadOffset: a.ReadOffset, DontCache: a.DontCache}})
	}
	return fd, nil
}

func (f *File) reopen(k Kind) (int, error) {
	path := "/proc/self/fd/" + strconv.Itoa(f.pathFD)
	try := func(flags int) (int, error) {
		// On a regular file O_NONBLOCK only keeps the open from waiting while a
		// lease is given back (up to 45 s), perhaps by a client's delegation.
		return openRetry(path, flags|unix.O_CLOEXEC|unix.O_NOCTTY|unix.O_NONBLOCK)
	}
	switch k {
	case Write:
		fd, err := try(unix.O_RDWR)
		if err == unix.EACCES || err == unix.EPERM {
			return try(unix.O_WRONLY)
		}
		return fd, err
	case Direct:
		return try(unix.O_RDONLY | unix.O_DIRECT)
	case DirectOut:
		return try(unix.O_WRONLY | unix.O_DIRECT)
	default:
		return try(unix.O_RDONLY)
	}
}

func openRetry(path string, flags int) (int, error) {
	for {
		fd, err := unix.Open(path, flags, 0)
		if err != unix.EINTR {
			return fd, err
		}
	}
}

// Reader is Open(Read, true).
func (f *File) Reader() (int, error) { return f.Open(Read, true) }

// Writer is Open(Write, true).
func (f *File) Writer() (int, error) { return f.Open(Write, true) }

// Direct is Open(Direct, true).
func (f *File) Direct() (int, error) { return f.Open(Direct, true) }

// readAlign asks statx, which also tells whose Order the file has. A kernel or
// file system that says nothing has no direct I/O as far as this server is
// concerned: what alignment a read would need could only be guessed.
func (f *File) readAlign() Align {
	var st unix.Statx_t
	if statx(f.pathFD, unix.STATX_INO|unix.STATX_DIOALIGN|unix.STATX_DIO_READ_ALIGN, &st) != nil {
		return Align{Block: blockOf(&st)}
	}
	f.setOrder(&st)
	a := Align{Block: blockOf(&st)}
	if st.Mask&unix.STATX_DIOALIGN == 0 || !pow2(st.Dio_mem_align) || !pow2(st.Dio_offset_align) {
		return a
	}
	read := st.Dio_offset_align
	if st.Mask&unix.STATX_DIO_READ_ALIGN != 0 && st.Dio_read_offset_align != 0 {
		read = st.Dio_read_offset_align
	}
	if !pow2(read) {
		return a
	}
	a.Mem, a.Offset, a.ReadOffset, a.Direct = st.Dio_mem_align, st.Dio_offset_align, read, true
	return a
}

func statx(fd, mask int, st *unix.Statx_t) error {
	for {
		if err := unix.Statx(fd, "", unix.AT_EMPTY_PATH, mask, st); err != unix.EINTR {
			return err
		}
	}
}

func pow2(n uint32) bool { return n != 0 && n&(n-1) == 0 }

// Align returns what was recorded when the first data descriptor was opened;
// all zero before that.
func (f *File) Align() Align {
	p := f.align.Load()
	if p == nil {
		return Align{}
	}
	a := *p
	a.DontCache = f.fs.dontCache.Load() == dcYes
	return a
}

// probe finds out whether RWF_DONTCACHE works by a read so far out that no
// file has data there: it brings nothing into the page cache. A descriptor that
// cannot be read leaves the question open.
func (fs *fsState) probe(fd int) {
	var b [1]byte
	_, err := unix.Preadv2(fd, [][]byte{b[:]}, 1<<62, unix.RWF_DONTCACHE)
	switch err {
	case nil:
		fs.dontCache.Store(dcYes)
	case unix.EOPNOTSUPP, unix.EINVAL, unix.ENOSYS:
		fs.dontCache.Store(dcNo)
	}
}
