// Is it in memory? What a service thread asks before it does something that
// would sleep for the disk, and what drop-behind asks before it reads.
//
// A short copy needs no question: preadv2 with RWF_NOWAIT over the whole range
// either gives all of it or says no. (It starts the read, so asking for a part
// would make the rest look present soon after.) Splice has no such flag (and on a cold
// file sleeps even with SPLICE_F_NONBLOCK), so cachestat counts the pages
// first. It also counts pages that are still being read, hence one byte at
// each end is read with RWF_NOWAIT as well: read-ahead fills in order, so with
// both ends there, the range is.

package dataio

import "golang.org/x/sys/unix"

// maxLooks bounds the calls that drop-behind spends on finding out which pages
// of a READ are absent. What it could not find out is not dropped.
const maxLooks = 64

// pageSpan is a run of whole pages, in bytes.
type pageSpan struct{ off, len int64 }

// pages returns how many pages [off, end) touches.
func pages(off, end int64) int {
	if end <= off {
		return 0
	}
	page := int64(pageSize)
	return int((end-1)/page - off/page + 1)
}

// warm returns nil when all of [off, off+n), up to the end of the file, is in
// memory, and unix.EAGAIN when it is not or cannot be told.
func (e *Engine) warm(th *Thread, fd int, off int64, n int) error {
	end, have, err := e.look(th, fd, off, n)
	if err != nil || have < pages(off, end) {
		return unix.EAGAIN
	}
	if end <= off {
		return nil // nothing to read
	}
	if _, err := th.preadv2(fd, th.probe[:], end-1, unix.RWF_NOWAIT); err != nil {
		return unix.EAGAIN
	}
	if _, err := th.preadv2(fd, th.probe[:], off, unix.RWF_NOWAIT); err != nil {
		return unix.EAGAIN
	}
	return nil
}

// look counts the cached pages of [off, off+n) and returns the range's end,
// cut at the end of the file if pages are missing.
func (e *Engine) look(th *Thread, fd int, off int64, n int) (end int64, have int, err error) {
	end = off + int64(n)
	have, err = e.cached(th, fd, off, end)
	if err != nil || have >= pages(off, end) {
		return end, have, err
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return end, have, err
	}
	return min(end, st.Size), have, nil
}

// cached counts the pages of [off, end) in the page cache. cachestat tells
// only those who own the file or may write it, so under a caller's credentials
// it may have to be asked as the server.
func (e *Engine) cached(th *Thread, fd int, off, end int64) (int, error) {
	if e.noCachestat.Load() {
		return 0, unix.ENOSYS
	}
	th.csFD = fd
	th.csRange = unix.CachestatRange{Off: uint64(off), Len: uint64(end - off)}
	err := th.cachestat()
	if err == unix.EPERM && th.AsServer != nil {
		err = th.AsServer(th.askAgain)
	}
	if err == unix.ENOSYS { // older than Linux 6.5
		e.noCachestat.Store(true)
	}
	return int(th.cs.Cache), err
}

// absent notes in th.missing which pages of [off, off+n) are not in the page
// cache, and reports whether all are there, up to the end of the file.
func (e *Engine) absent(th *Thread, fd int, off int64, n int) (whole bool, err error) {
	th.missing = th.missing[:0]
	end, have, err := e.look(th, fd, off, n)
	if err != nil {
		return false, err
	}
	if have >= pages(off, end) {
		return true, nil
	}
	looks := maxLooks
	page := int64(pageSize)
	first := off &^ (page - 1)
	e.split(th, fd, first, first+int64(pages(off, end))*page, have, &looks)
	return false, nil
}

// split halves [off, end), of which have pages are cached, until each piece is
// wholly cached or wholly absent.
func (e *Engine) split(th *Thread, fd int, off, end int64, have int, looks *int) {
	total := pages(off, end)
	if have >= total {
		return
	}
	if have == 0 {
		if l := len(th.missing); l > 0 && th.missing[l-1].off+th.missing[l-1].len == off {
			th.missing[l-1].len += end - off
		} else {
			th.missing = append(th.missing, pageSpan{off, end - off})
		}
		return
	}
	if *looks == 0 {
		return
	}
	*looks--
	mid := off + int64(total/2)*int64(pageSize)
	left, err := e.cached(th, fd, off, mid)
	if err != nil {
		return
	}
	e.split(th, fd, off, mid, left, looks)
	e.split(th, fd, mid, end, have-left, looks)
}
