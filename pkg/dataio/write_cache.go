// dontcache WRITEs: through the page cache without staying there.
//
// The kernel's RWF_DONTCACHE starts to write the data out at once, and drops
// each page when that is done, if this write brought it in. Where it is refused
// the same is done from here: the pages of the range that are absent are noted
// before, write-out is started after, and the noted pages are dropped when they
// are clean: at once after a stable WRITE, else with a COMMIT or some WRITEs
// later (filecache.DropLater). Pages that were cached before stay, being
// somebody else's. A page that somebody else reads in between is dropped too:
// it is clean, and only read again.

package dataio

import (
	"golang.org/x/sys/unix"
)

// planDontCache chooses between the kernel's way and ours.
func (e *Engine) planDontCache(th *Thread, q *WriteReq, size int, p *writePlan) {
	if q.File.Align().DontCache {
		p.flags = unix.RWF_DONTCACHE
		return
	}
	e.planDrop(th, q, size, p)
}

// planDrop notes which pages are absent; what cannot be told is not dropped.
func (e *Engine) planDrop(th *Thread, q *WriteReq, size int, p *writePlan) {
	p.flags, p.drop = 0, true
	p.fellBack(DontCache, noDontCache)
	th.missing = th.missing[:0]
	page := int64(pageSize)
	off := int64(q.Offset) &^ (page - 1)
	n := pages(int64(q.Offset), int64(q.Offset)+int64(size))
	end := off + int64(n)*page
	have, err := e.cached(th, p.fd, off, end)
	if err != nil {
		p.fellBack(DontCache, noCachestat)
		p.used = Buffered
		p.drop = false
		return
	}
	looks := maxLooks
	e.split(th, p.fd, off, end, have, &looks)
}

// dontCache writes q without leaving more in the page cache than was there.
func (e *Engine) dontCache(th *Thread, q *WriteReq, p *writePlan) (n int, err error) {
	if !p.drop {
		if n, err = e.put(th, q, p.fd, q.Data, q.More, 0, p.flags); err != unix.EOPNOTSUPP {
			return n, err
		}
		e.planDrop(th, q, int(q.size()), p) // refused for this file, though not for others
	}
	if n, err = e.put(th, q, p.fd, q.Data, q.More, 0, 0); n == 0 || !p.drop {
		return n, err
	}
	if q.Stable == Unstable {
		unix.SyncFileRange(p.fd, int64(q.Offset), int64(n), unix.SYNC_FILE_RANGE_WRITE) //nolint:errcheck // a failure shows in fsync
	}
	for _, s := range th.missing {
		if q.Stable == Unstable {
			q.File.DropLater(p.fd, s.off, s.len)
		} else {
			unix.Fadvise(p.fd, s.off, s.len, unix.FADV_DONTNEED) //nolint:errcheck // advice
		}
	}
	return n, err
}
