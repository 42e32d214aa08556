// dontcache WRITEs: through the page cache without staying there.
//
// The kernel's RWF_DONTCACHE starts to write the data out at once, and drops
// each page when that is done, if this write brought it in; where it is
// refused, the write-out is started from here. Not every file system drops: on
// ext4 an overwrite's pages stay (Linux 6.18; the write-out ends in an
// interrupt, where nothing can be dropped). So the pages of the range that are
// absent are noted before in any case, and dropped when they are clean: at once
// after a stable WRITE, else with a COMMIT or some WRITEs later
// (filecache.DropLater). Pages that were cached before stay, being somebody
// else's. A page that somebody else reads in between is dropped too: it is
// clean, and only read again.

package dataio

import (
	"golang.org/x/sys/unix"
)

// planDontCache chooses between the kernel's way and ours, and notes which
// pages are absent. What cannot be told is not dropped.
func (e *Engine) planDontCache(th *Thread, q *WriteReq, size int, p *writePlan) {
	th.missing = th.missing[:0]
	page := int64(pageSize)
	off := int64(q.Offset) &^ (page - 1)
	end := off + int64(pages(int64(q.Offset), int64(q.Offset)+int64(size)))*page
	have, err := e.cached(th, p.fd, off, end)
	if err == nil {
		looks := maxLooks
		e.split(th, p.fd, off, end, have, &looks)
	}
	if q.File.Align().DontCache {
		p.flags = unix.RWF_DONTCACHE
		return
	}
	p.fellBack(DontCache, noDontCache)
	if err != nil {
		p.fellBack(DontCache, noCachestat)
		p.used = Buffered
	}
}

// dontCache writes q without leaving more in the page cache than was there.
func (e *Engine) dontCache(th *Thread, q *WriteReq, p *writePlan) (n int, err error) {
	n, err = e.put(th, q, p.fd, q.Data, q.More, 0, p.flags)
	if err == unix.EOPNOTSUPP && p.flags != 0 { // refused for this file, though not for others
		p.fellBack(DontCache, noDontCache)
		p.flags = 0
		n, err = e.put(th, q, p.fd, q.Data, q.More, 0, 0)
	}
	if n == 0 {
		return 0, err
	}
	if q.Stable == Unstable && p.flags == 0 {
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
