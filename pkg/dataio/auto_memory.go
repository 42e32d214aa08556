// What memory there is for the page cache: what mode auto rests on.
//
// Plan: a sample is taken at most once in sampleEvery, and only while auto
// READs come in that are not in memory: such a READ starts a goroutine that
// reads a few files of /proc and of the memory cgroup (v1 or v2) and ends. So
// nothing runs, and nothing is left to stop, while auto is not in use.
//
// The page cache's room is what is free and what can be reclaimed: the smaller
// of the machine's MemAvailable and of what the limits of the process's cgroup
// and those above it leave. Pages of files that a cgroup is full of are room,
// not a shortage. A shortage is when pages that were dropped are wanted back in
// numbers that no cache of this size could satisfy (more than its whole size
// within half a minute or so), or when threads spend their time waiting for
// memory (PSI).

package dataio

import (
	"bytes"
	"os"
	"path"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"sluice/pkg/filecache"
)

const (
	sampleEvery = 250 * time.Millisecond

	// stale is the age of a sample with which the next one is not compared:
	// auto was not in use, and what happened meanwhile was not its doing.
	stale = 2 * time.Second

	// shortFor is how long a shortage seen lasts at least.
	shortFor = 5 * time.Second

	// stallMost is the part of time, in percent, that some thread may wait for
	// memory before it counts as short.
	stallMost = 40

	refaultHalf = 15 * time.Second // refaults count half after this time

	// settled is for how many samples the files read must have stayed the same
	// for what was read before them to be forgotten.
	settled = 4

	maxLevels = 16       // of nested cgroups that are looked at
	maxSample = 64 << 10 // of a file of /proc, in bytes
)

// memory is what the last sample said. The zero value knows nothing, which
// counts as enough.
type memory struct {
	root string       // of the file system: "" outside of tests
	now  func() int64 // the clock, in nanoseconds

	next atomic.Int64  // when the next sample is due
	tick atomic.Uint32 // samples so far

	room  atomic.Int64 // bytes that the page cache can take, used ones included; 0: unknown
	spare atomic.Int64 // bytes of it that nothing occupies; READs that are cached take from it
	most  atomic.Int64 // bytes that streams which are followed may hold
	short atomic.Bool

	stalled atomic.Bool // short as threads wait for memory

	share   window // of files read, in bytes: the working set as auto sees it
	streams window // that are read

	mu       sync.Mutex // one sample at a time; guards what follows
	at       int64      // when the last one was taken
	stall    uint64     // some thread waiting for memory, in microseconds
	refault  uint64     // bytes, over time
	back     float64    // bytes that were refaulted, older ones counting less
	shortEnd int64
	stallEnd int64
	seen     int64 // of share, in this epoch
	still    int   // samples since it grew
}

// left is what READs may still take of the free memory, in bytes. What streams that
// are followed hold is not for others: as much as they are allowed, and once more
// for pieces that were read ahead before somebody looked.
func (m *memory) left() int64 {
	return m.spare.Load() - min(m.streams.get()*2*filecache.FollowedBytes, m.most.Load())
}

// window is a sum over this interval, or over the last one where that was more.
type window struct{ cur, prev atomic.Int64 }

func (w *window) add(n int64) { w.cur.Add(n) }
func (w *window) get() int64  { return max(w.cur.Load(), w.prev.Load()) }
func (w *window) turn()       { w.prev.Store(max(w.cur.Swap(0), 0)) }

// refresh starts a sample if one is due.
func (m *memory) refresh() {
	t := m.now()
	if due := m.next.Load(); t >= due && m.next.CompareAndSwap(due, t+int64(sampleEvery)) {
		go m.sample()
	}
}

// sample takes one.
func (m *memory) sample() {
	m.mu.Lock()
	defer m.mu.Unlock()
	t := m.now()
	s := readSample(m.root)
	elapsed := t - m.at
	tick := m.tick.Load() + 1
	if m.at != 0 && elapsed < int64(stale) {
		m.judge(&s, t, elapsed)
	} else {
		m.back, m.shortEnd, m.stallEnd = 0, 0, 0
		m.short.Store(false)
		m.stalled.Store(false)
		m.streams.turn() // those of before the break have ended
		tick = (tick + filecache.StreamTicks - 1) / filecache.StreamTicks * filecache.StreamTicks
	}
	m.at, m.stall, m.refault = t, s.stall, s.refault
	m.room.Store(s.room)
	// What is left free is what the kernel wants to have at hand and what READs
	// bring in until the next sample.
	m.spare.Store(max(s.free-max(s.total/16, 32<<20), 0))
	m.most.Store(s.total / followOf)
	tick = m.settle(tick)
	m.tick.Store(tick)
	if tick%filecache.EpochTicks == 0 {
		m.share.turn()
		m.seen, m.still = 0, 0
	}
	if tick%filecache.StreamTicks == 0 {
		m.streams.turn()
	}
}

// settle ends an epoch early, by giving the tick at which it ends, when reading
// has kept to the same files for a while: two such epochs forget what was read
// before. A set of which new parts come up all the time is never known whole, and
// its epochs have their full length.
func (m *memory) settle(tick uint32) uint32 {
	if n := m.share.cur.Load(); n > m.seen+m.seen/32 {
		m.seen, m.still = n, 0
	} else if n > 0 {
		m.still++
	}
	if m.still >= settled && tick%filecache.StreamTicks == 0 {
		tick = (tick + filecache.EpochTicks - 1) / filecache.EpochTicks * filecache.EpochTicks
	}
	return tick
}

// judge says whether memory is short, from what has happened since the last
// sample. A counter that ran backwards is another cgroup's.
func (m *memory) judge(s *sample, t, elapsed int64) {
	m.back /= 1 + float64(elapsed)/float64(refaultHalf)
	if s.refault > m.refault {
		m.back += float64(s.refault - m.refault)
	}
	stalled := s.stall > m.stall && (s.stall-m.stall)*1000*100 > stallMost*uint64(elapsed)
	if stalled {
		m.stallEnd = t + int64(shortFor)
	}
	if s.room > 0 && m.back > float64(s.room) || stalled {
		m.shortEnd = t + int64(shortFor)
	}
	m.short.Store(t < m.shortEnd)
	m.stalled.Store(t < m.stallEnd)
}

// sample is what the files say, in bytes unless named otherwise.
type sample struct {
	total   int64
	room    int64
	free    int64
	stall   uint64 // microseconds
	refault uint64
}

// readSample reads the files below root. What is missing or makes no sense is
// left out.
func readSample(root string) (s sample) {
	buf := make([]byte, maxSample)
	info := readFile(buf, root+"/proc/meminfo")
	s.total = field(info, "MemTotal:") << 10
	s.room = field(info, "MemAvailable:") << 10
	s.free = field(info, "MemFree:") << 10
	s.stall = pressure(readFile(buf, root+"/proc/pressure/memory"))
	s.refault = uint64(field(readFile(buf, root+"/proc/vmstat"), "workingset_refault_file")) * uint64(pageSize)
	for _, line := range strings.Split(string(readFile(buf, root+"/proc/self/cgroup")), "\n") {
		id, rest, _ := strings.Cut(line, ":")
		names, at, ok := strings.Cut(rest, ":")
		switch {
		case !ok || !strings.HasPrefix(at, "/"):
		case id == "0" && names == "":
			for _, mount := range []string{"/sys/fs/cgroup", "/sys/fs/cgroup/unified"} {
				s.limit(buf, root+mount, at, &cgroup2)
			}
		case hasWord(names, "memory"):
			s.limit(buf, root+"/sys/fs/cgroup/memory", at, &cgroup1)
		}
	}
	return s
}

// cgroupFiles are the names of one version's files.
type cgroupFiles struct {
	limits []string // one of them may say "max"
	usage  string
	prefix string // of the entries of memory.stat that include what lies below
}

var (
	cgroup1 = cgroupFiles{[]string{"memory.limit_in_bytes"}, "memory.usage_in_bytes", "total_"}
	cgroup2 = cgroupFiles{[]string{"memory.max", "memory.high"}, "memory.current", ""}
)

// limit takes into account what the cgroup at, below mount, and those above it
// allow. In a container the path may be one of the host's, and what is mounted
// is the process's own: then that is looked at.
func (s *sample) limit(buf []byte, mount, at string, files *cgroupFiles) {
	at = path.Clean(at)
	whole := s.total
	if whole == 0 {
		whole = 1 << 52
	}
	if _, err := os.Stat(mount + at + "/" + files.usage); err != nil && at != "/" {
		at = "/"
	}
	for level := 0; level < maxLevels; level++ {
		dir := mount + at + "/"
		limit := int64(0)
		for _, name := range files.limits {
			// The root has none; no limit is "max", or in version 1 a number that
			// no machine has.
			if n := number(readFile(buf, dir+name)); n > 0 && n < whole && (limit == 0 || n < limit) {
				limit = n
			}
		}
		usage := number(readFile(buf, dir+files.usage))
		if limit > 0 && usage >= 0 {
			stat := readFile(buf, dir+"memory.stat")
			get := func(name string) int64 { return field(stat, files.prefix+name) }
			cached := get("inactive_file") + get("active_file")
			s.room = atMost(s.room, max(limit-usage+cached, 1))
			s.free = atMost(s.free, max(limit-usage, 0))
			s.total = atMost(s.total, limit)
			if n := get("workingset_refault_file"); level == 0 {
				s.refault = uint64(n) * uint64(pageSize)
			}
			if some := pressure(readFile(buf, dir+"memory.pressure")); level == 0 && some > 0 {
				s.stall = some
			}
		}
		if at == "/" {
			return
		}
		at = path.Dir(at)
	}
}

// atMost is the smaller of two, 0 in the first standing for unknown.
func atMost(known, n int64) int64 {
	if known == 0 {
		return n
	}
	return min(known, n)
}

// readFile returns as much of a file as buf takes; nothing if it cannot be read.
func readFile(buf []byte, name string) []byte {
	f, err := os.Open(name)
	if err != nil {
		return nil
	}
	defer f.Close()
	n := 0
	for n < len(buf) {
		m, err := f.Read(buf[n:])
		n += m
		if err != nil || m == 0 {
			break
		}
	}
	return buf[:n]
}

// field returns the number behind a name at the start of a line, else 0.
func field(text []byte, name string) int64 {
	for len(text) > 0 {
		line, rest, _ := bytes.Cut(text, []byte("\n"))
		text = rest
		if f := bytes.Fields(line); len(f) >= 2 && string(f[0]) == name {
			if n, err := strconv.ParseInt(string(f[1]), 10, 64); err == nil && n >= 0 && n < 1<<52 {
				return n
			}
			return 0
		}
	}
	return 0
}

// number is a file that holds one; -1 for anything else, "max" too.
func number(text []byte) int64 {
	n, err := strconv.ParseInt(string(bytes.TrimSpace(text)), 10, 64)
	if err != nil || n < 0 {
		return -1
	}
	return n
}

// pressure returns the total of a PSI file's line "some", in microseconds.
func pressure(text []byte) uint64 {
	line, _, _ := bytes.Cut(text, []byte("\n"))
	if !bytes.HasPrefix(line, []byte("some ")) {
		return 0
	}
	_, total, _ := bytes.Cut(line, []byte("total="))
	n, err := strconv.ParseUint(string(bytes.TrimSpace(total)), 10, 64)
	if err != nil {
		return 0
	}
	return n
}

func hasWord(list, word string) bool {
	for _, w := range strings.Split(list, ",") {
		if w == word {
			return true
		}
	}
	return false
}
