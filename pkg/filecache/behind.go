// Behind: what writes have brought into the page cache and nobody wants there.
// Pages can only be dropped once they
// are clean, so a write notes what it brought in, and a later write or sync of
// the file drops it. The kernel keeps what is still dirty by then, or being
// written out: nothing is lost by asking too early, it only stays cached.

package filecache

import (
	"sync"

	"golang.org/x/sys/unix"
)

const (
	behindSpans = 16      // noted of one file; the oldest is dropped for a new one
	behindJoin  = 1 << 20 // bytes up to which neighbours are one
)

type behind struct {
	mu    sync.Mutex
	n     int
	spans [behindSpans]struct{ off, len int64 }
}

// DropLater notes whole pages that a write brought into the page cache. fd is
// a descriptor of f, to drop others that were noted long ago.
func (f *File) DropLater(fd int, off, n int64) {
	b := &f.behind
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.n > 0 {
		if l := &b.spans[b.n-1]; l.off+l.len == off && l.len+n <= behindJoin {
			l.len += n
			return
		}
	}
	if b.n == behindSpans {
		unix.Fadvise(fd, b.spans[0].off, b.spans[0].len, unix.FADV_DONTNEED) //nolint:errcheck // advice
		copy(b.spans[:], b.spans[1:])
		b.n--
	}
	b.spans[b.n].off, b.spans[b.n].len = off, n
	b.n++
}

// DropNow drops all that was noted, after a sync of f.
func (f *File) DropNow(fd int) {
	b := &f.behind
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, s := range b.spans[:b.n] {
		unix.Fadvise(fd, s.off, s.len, unix.FADV_DONTNEED) //nolint:errcheck // advice
	}
	b.n = 0
}
