// How far the kernel reads ahead on a file system: what a stream takes of the
// page cache.
//
// Plan: /sys says it by the device number that stat gives. What was read is
// kept for some time, as an administrator may change it. A file system that /sys
// does not know by its number (btrfs) counts as reading ahead a lot: then fewer
// streams are left to the page cache.

package dataio

import (
	"strconv"
	"sync"

	"golang.org/x/sys/unix"

	"sluice/pkg/filecache"
)

const (
	aheadFor   = 4 * filecache.EpochTicks // ticks that a figure counts
	maxAheads  = 64                       // file systems that are remembered
	aheadGuess = 16 << 20                 // bytes, of a file system that is not known
)

// aheads remembers figures by device number. The zero value knows none.
type aheads struct {
	mu  sync.Mutex
	dev map[uint64]aheadAt
}

type aheadAt struct {
	bytes int64
	tick  uint32
}

// of returns how many bytes a stream of READs on a file system holds in the
// page cache: what is used, and what is read ahead meanwhile.
func (a *aheads) of(m *memory, dev uint64) int64 {
	tick := m.tick.Load()
	a.mu.Lock()
	defer a.mu.Unlock()
	if f, ok := a.dev[dev]; ok && tick-f.tick < aheadFor {
		return f.bytes
	}
	if a.dev == nil || len(a.dev) >= maxAheads {
		a.dev = make(map[uint64]aheadAt)
	}
	at := m.root + "/sys/class/bdi/" + strconv.FormatUint(uint64(unix.Major(dev)), 10) + ":" +
		strconv.FormatUint(uint64(unix.Minor(dev)), 10) + "/read_ahead_kb"
	f := aheadAt{bytes: aheadGuess, tick: tick}
	if n := number(readFile(make([]byte, 32), at)); n >= 0 && n < 1<<30 {
		f.bytes = 2 * n << 10
	}
	a.dev[dev] = f
	return f.bytes
}
