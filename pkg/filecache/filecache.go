// Package filecache keeps files open: from a file's identity (the kernel's
// file handle) to an O_PATH descriptor, and from there to data descriptors.
//
// Plan: files live in shards, each a map and a list of idle files under one
// mutex. A file is pinned while somebody uses it; when the last pin goes it
// joins its shard's idle list. Before a descriptor is opened, the cache makes
// room for it within a budget taken from RLIMIT_NOFILE: the idle file unused
// for longest is closed, over all shards. Descriptors close only with the last
// pin gone, so a number that somebody holds never comes to mean another file.
//
// Idle files do not stay open for long even where there is room (sweep): an
// open descriptor keeps the space of a file that was removed locally, keeps a
// file that was written from being executed, and keeps others from leases.
//
// A file with unstable writes is not closed until they are on stable storage:
// the kernel reports a failed write-back once, to descriptors that were open,
// and forgets it when it drops the inode. The cache syncs such a file first
// (clean), through the same gate as COMMIT (Sync).
package filecache

import (
	"encoding/binary"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"sluice/pkg/trace"
)

// Key is the identity of a file: which file system, and the kernel's handle.
type Key struct {
	FS    uint64 // the server's id of the file system
	Type  int32  // handle_type of name_to_handle_at
	Len   uint8  // bytes used of Bytes; the rest is zero
	Bytes [40]byte
}

// hash mixes a key into 64 bits. Handles begin with inode and generation
// numbers, so its words differ in few bits: each is multiplied in.
func (k *Key) hash() uint64 {
	const m = 0x9E3779B97F4A7C15
	h := (k.FS ^ uint64(uint32(k.Type))<<32 ^ uint64(k.Len)) * m
	for i := 0; i < int(k.Len) && i < len(k.Bytes); i += 8 {
		h = (h ^ h>>29 ^ binary.LittleEndian.Uint64(k.Bytes[i:])) * m
	}
	return h ^ h>>32
}

// String gives a short name of the file for traces and logs.
func (k *Key) String() string { return fmt.Sprintf("%x:%016x", k.FS, k.hash()) }

const (
	shardCount = 16
	minBudget  = 16
	maxBudget  = 65536 // some 100 MiB of kernel memory in pinned inodes
	maxWait    = time.Second
	never      = math.MaxUint64

	// Data descriptors of a file close when it was idle for two to three
	// ticks (4 to 6 s), the file itself after sweepFile (30 s).
	sweepTick = 2 * time.Second
	sweepData = 2
	sweepFile = 15
)

// Budget returns how many descriptors the cache may hold when the process may
// hold limit (RLIMIT_NOFILE, soft). Half of the limit, but 80 are left for
// sockets, pipes and the threads' own short-lived descriptors where the limit
// is small.
func Budget(limit uint64) int {
	b := int(min(limit, 1<<30)) / 2
	if limit < 160 {
		b = int(limit) - 80
	}
	return min(max(b, minBudget), maxBudget)
}

// Config sets a cache up.
type Config struct {
	Budget int        // most descriptors open at once; see Budget
	Trace  *trace.Bus // file_open and file_close; may be nil

	NoDontCache bool // act as if RWF_DONTCACHE worked on no file system
}

// Cache holds the open files. All methods may be called from any goroutine.
type Cache struct {
	cfg    Config
	lost   func(*File)   // see OnWriteError
	open   atomic.Int64  // descriptors held
	epoch  atomic.Uint64 // counts insertions; stamps idle files
	fs     sync.Map      // uint64 -> *fsState
	cleans chan struct{} // bounds background syncs
	tick   atomic.Uint64 // counts sweeps
	orders orders
	stop   func()

	evictions, exhausted, closed, ageSum atomic.Uint64

	shards [shardCount]shard
}

type shard struct {
	mu     sync.Mutex
	files  map[Key]*File
	idle   File // list head: next is the file idle for longest
	hits   uint64
	misses uint64
	pins   uint64
	drops  uint64

	oldest atomic.Uint64 // stamp of idle.next, or never; written under mu
	_      [64]byte
}

// fsState is what is known of a file system as a whole.
type fsState struct{ dontCache atomic.Uint32 }

const (
	dcUnknown uint32 = iota
	dcYes
	dcNo
)

// New returns an empty cache.
func New(cfg Config) *Cache {
	cfg.Budget = max(cfg.Budget, minBudget)
	c := &Cache{cfg: cfg, lost: func(*File) {}, cleans: make(chan struct{}, 4)}
	for i := range c.shards {
		s := &c.shards[i]
		s.files = make(map[Key]*File)
		s.idle.prev, s.idle.next = &s.idle, &s.idle
		s.oldest.Store(never)
	}
	stopped := make(chan struct{})
	c.stop = sync.OnceFunc(func() { close(stopped) })
	go func() {
		t := time.NewTicker(sweepTick)
		defer t.Stop()
		for {
			select {
			case <-stopped:
				return
			case <-t.C:
				c.sweep()
			}
		}
	}()
	return c
}

// OnWriteError has lost called whenever data of a file could not be put on
// stable storage: the write verifier must have changed when it returns. Call
// it before the cache is used; dataio.New does.
func (c *Cache) OnWriteError(lost func(*File)) { c.lost = lost }

func (c *Cache) shard(k *Key) *shard { return &c.shards[k.hash()%shardCount] }

// Get returns the file if it is cached, pinned: Release it.
func (c *Cache) Get(k *Key) (*File, bool) {
	s := c.shard(k)
	s.mu.Lock()
	f := s.files[*k]
	if f == nil {
		s.misses++
		s.mu.Unlock()
		return nil, false
	}
	s.hits++
	s.pin(f)
	s.mu.Unlock()
	return f, true
}

// Insert adopts pathFD (an O_PATH descriptor; mode is the file's st_mode) and
// returns the file pinned: Release it. When k is cached already, pathFD is
// closed and the cached file returned. It never fails: make room with Room
// before opening pathFD.
func (c *Cache) Insert(k *Key, pathFD int, mode uint32) *File {
	s := c.shard(k)
	s.mu.Lock()
	if f := s.files[*k]; f != nil {
		s.pin(f)
		s.mu.Unlock()
		unix.Close(pathFD)
		return f
	}
	f := &File{Key: *k, Mode: mode, cache: c, shard: s, pathFD: pathFD, born: time.Now(), fs: c.fsState(k.FS)}
	for i := range f.data {
		f.data[i].Store(-1)
	}
	s.files[*k] = f
	s.pins++
	f.pins = 1
	s.mu.Unlock()
	c.epoch.Add(1)
	if c.open.Add(1) > int64(c.cfg.Budget) {
		c.evict()
	}
	return f
}

func (c *Cache) fsState(fs uint64) *fsState {
	if v, ok := c.fs.Load(fs); ok {
		return v.(*fsState)
	}
	st := new(fsState)
	if c.cfg.NoDontCache {
		st.dontCache.Store(dcNo)
	}
	v, _ := c.fs.LoadOrStore(fs, st)
	return v.(*fsState)
}

// pin adds a pin; s.mu is held.
func (s *shard) pin(f *File) {
	s.pins++
	f.pins++
	if f.pins == 1 {
		s.unlink(f)
	}
}

// unlink takes f from the idle list; s.mu is held.
func (s *shard) unlink(f *File) {
	f.prev.next, f.next.prev = f.next, f.prev
	f.prev, f.next = nil, nil
	s.restamp()
}

func (s *shard) restamp() {
	if s.idle.next == &s.idle {
		s.oldest.Store(never)
	} else {
		s.oldest.Store(s.idle.next.stamp)
	}
}

// Budget is the most descriptors that the cache has open at once.
func (c *Cache) Budget() int { return c.cfg.Budget }

// Room runs open, which opens one descriptor, when the budget has room for
// one: idle files are closed first, and when the process runs out of
// descriptors all the same, more are closed and open is tried again. When all
// files are in use it returns unix.EAGAIN if !wait; otherwise it waits up to a
// second and then returns unix.EMFILE. The descriptor is the caller's. Use it
// for short-lived descriptors outside of the cache too.
func (c *Cache) Room(wait bool, open func() (int, error)) (int, error) {
	pause := time.Millisecond
	deadline := time.Time{}
	for {
		room := true
		for c.open.Load() >= int64(c.cfg.Budget) && room {
			room = c.evict() || wait && c.cleanOldest()
		}
		if room {
			fd, err := open()
			if err != unix.EMFILE && err != unix.ENFILE {
				return fd, err
			}
			closed := 0
			for closed < 8 && c.evict() {
				closed++
			}
			if closed > 0 || wait && c.cleanOldest() {
				continue
			}
		}
		if !wait {
			return -1, unix.EAGAIN
		}
		now := time.Now()
		if deadline.IsZero() {
			deadline = now.Add(maxWait)
		}
		if now.After(deadline) {
			c.exhausted.Add(1)
			return -1, unix.EMFILE
		}
		time.Sleep(pause)
		pause = min(2*pause, 50*time.Millisecond)
	}
}

// oldestShard returns the shard that holds the file idle for longest, or nil.
func (c *Cache) oldestShard() *shard {
	var pick *shard
	best := uint64(never)
	for i := range c.shards {
		if o := c.shards[i].oldest.Load(); o < best {
			best, pick = o, &c.shards[i]
		}
	}
	return pick
}

// evict closes the idle file unused for longest and reports whether there was
// one. Files with unstable writes are passed over; cleanings of them start in
// the background.
func (c *Cache) evict() bool {
	first := c.oldestShard()
	if first == nil {
		return false
	}
	if c.evictFrom(first) {
		return true
	}
	// Its idle files all wait to be cleaned: any other shard will do.
	for i := range c.shards {
		if s := &c.shards[i]; s != first && c.evictFrom(s) {
			return true
		}
	}
	return false
}

func (c *Cache) evictFrom(s *shard) bool {
	s.mu.Lock()
	for f := s.idle.next; f != &s.idle; f = f.next {
		if f.unstable.Load() {
			c.cleanLater(s, f)
			if f.pins > 0 { // it left the list: look again at the next call
				break
			}
			continue
		}
		s.forget(f)
		s.mu.Unlock()
		c.evictions.Add(1)
		f.destroy()
		return true
	}
	s.mu.Unlock()
	return false
}

// sweep closes what has been idle for too long. Files with unstable writes
// keep their descriptors until a COMMIT, or until room is needed.
func (c *Cache) sweep() {
	now := c.tick.Add(1)
	var files []*File
	var fds []int32
	for i := range c.shards {
		s := &c.shards[i]
		s.mu.Lock()
		for f := s.idle.next; f != &s.idle && f.idleAt+sweepData < now; {
			next := f.next
			switch {
			case f.unstable.Load():
			case f.idleAt+sweepFile < now:
				s.forget(f)
				files = append(files, f)
			default:
				for _, fd := range f.takeData() {
					if fd >= 0 {
						fds = append(fds, fd)
					}
				}
			}
			f = next
		}
		s.mu.Unlock()
		// Closing the last descriptor of a removed file frees its blocks, which
		// may take long.
		c.closeFDs(fds)
		for _, f := range files {
			f.destroy()
		}
		files, fds = files[:0], fds[:0]
	}
}

// cleanLater pins f and syncs it in the background if a place is free; s.mu is
// held.
func (c *Cache) cleanLater(s *shard, f *File) {
	select {
	case c.cleans <- struct{}{}:
		s.pin(f)
		go func() {
			f.clean()
			f.Release()
			<-c.cleans
		}()
	default:
	}
}

// cleanOldest syncs one idle file with unstable writes, so that it can be
// evicted, and reports whether there was one.
func (c *Cache) cleanOldest() bool {
	for i := range c.shards {
		s := &c.shards[i]
		s.mu.Lock()
		for f := s.idle.next; f != &s.idle; f = f.next {
			if f.unstable.Load() {
				s.pin(f)
				s.mu.Unlock()
				f.clean()
				f.Release()
				return true
			}
		}
		s.mu.Unlock()
	}
	return false
}

// CloseData closes the data descriptors of a file that is about to lose a
// name: at once, or at its last release. It lets file systems below that hide
// open files instead of removing them (NFS, FUSE) remove this one. Unstable
// writes of a file that has other names are put on stable storage first, so
// this may sleep.
func (c *Cache) CloseData(k *Key) {
	f, ok := c.Get(k)
	if !ok {
		return
	}
	if f.unstable.Load() {
		var st unix.Stat_t
		if unix.Fstat(f.pathFD, &st) == nil && st.Nlink > 1 {
			f.clean()
		}
	}
	f.shard.mu.Lock()
	f.closeData = true
	f.shard.mu.Unlock()
	f.Release()
}

// Forget drops a file that was removed or whose handle went stale; its
// descriptors close now, or at its last release. Nothing is synced.
func (c *Cache) Forget(k *Key) {
	s := c.shard(k)
	s.mu.Lock()
	f := s.files[*k]
	if f == nil {
		s.mu.Unlock()
		return
	}
	last := s.forget(f)
	s.mu.Unlock()
	if last {
		f.destroy()
	}
}

// forget takes f out of the shard and reports whether it is to be destroyed
// now; s.mu is held.
func (s *shard) forget(f *File) bool {
	delete(s.files, f.Key)
	f.dead = true
	if f.pins > 0 {
		return false
	}
	s.unlink(f)
	return true
}

// Purge drops every file of a file system, syncing those with unstable writes
// first. It may sleep.
func (c *Cache) Purge(fs uint64) {
	c.purge(func(f *File) bool { return f.Key.FS == fs })
	c.fs.Delete(fs)
}

// Close drops every file, syncing those with unstable writes first. Files
// still pinned close at their last release. It waits for syncs in the
// background.
func (c *Cache) Close() {
	c.stop()
	for range cap(c.cleans) {
		c.cleans <- struct{}{}
	}
	c.purge(func(*File) bool { return true })
	for range cap(c.cleans) {
		<-c.cleans
	}
}

func (c *Cache) purge(match func(*File) bool) {
	for i := range c.shards {
		s := &c.shards[i]
		var found []*File
		s.mu.Lock()
		for _, f := range s.files {
			if match(f) {
				s.pin(f)
				found = append(found, f)
			}
		}
		s.mu.Unlock()
		for _, f := range found {
			if f.unstable.Load() {
				f.clean()
			}
			s.mu.Lock()
			if !f.dead {
				s.forget(f) // pinned by us, so never destroyed here
			}
			s.mu.Unlock()
			f.Release()
		}
	}
}

// Stats is a snapshot of the counters.
type Stats struct {
	Files        int    `json:"files"`
	Descriptors  int    `json:"descriptors"`
	Budget       int    `json:"budget"`
	Hits         uint64 `json:"hits"`
	Misses       uint64 `json:"misses"`
	Acquisitions uint64 `json:"acquisitions"`
	Releases     uint64 `json:"releases"`
	Evictions    uint64 `json:"evictions"`
	Exhausted    uint64 `json:"exhausted"`   // opens refused since every file was in use
	MeanAgeMS    uint64 `json:"mean_age_ms"` // of the files closed so far
}

// Stats returns the counters.
func (c *Cache) Stats() Stats {
	st := Stats{
		Descriptors: int(c.open.Load()),
		Budget:      c.cfg.Budget,
		Evictions:   c.evictions.Load(),
		Exhausted:   c.exhausted.Load(),
	}
	for i := range c.shards {
		s := &c.shards[i]
		s.mu.Lock()
		st.Files += len(s.files)
		st.Hits += s.hits
		st.Misses += s.misses
		st.Acquisitions += s.pins
		st.Releases += s.drops
		s.mu.Unlock()
	}
	if n := c.closed.Load(); n > 0 {
		st.MeanAgeMS = c.ageSum.Load() / n / uint64(time.Millisecond)
	}
	return st
}
