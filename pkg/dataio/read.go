// READ: which way it takes, and each way.

package dataio

import (
	"errors"
	"math"
	"time"

	"golang.org/x/sys/unix"

	"sluice/pkg/filecache"
	"sluice/pkg/trace"
)

var errNoPipe = errors.New("no pipe")

// Read serves q. Errors are errnos: unix.EAGAIN with q.NoWait (run the READ
// again where it may sleep) or while somebody gives back a lease, unix.EMFILE
// when a bounded resource stayed used up (both to the client: try later),
// unix.EINVAL for an offset over 2^63-1.
func (e *Engine) Read(th *Thread, q *ReadReq) (ReadRes, error) {
	if q.Offset > math.MaxInt64 {
		return ReadRes{}, unix.EINVAL
	}
	// The kernel refuses a range that ends past the largest offset.
	count := int(min(uint64(q.Count), uint64(e.maxIO), math.MaxInt64-q.Offset))
	mode := max(q.Mode, Buffered)
	if count == 0 {
		return ReadRes{Short: q.Count > 0, Used: mode}, nil
	}
	start := now()
	traced := e.bus.Enabled()
	if traced {
		th.events = th.events[:0]
		th.event(q, trace.ReadStart, mode, 0, 0)
	}
	r := &th.read // so that q may lie on the caller's stack
	*r = read{e: e, th: th, q: *q, off: int64(q.Offset), count: count, traced: traced, start: start}
	res, err := r.run(mode)
	if q.NoWait && err == unix.EAGAIN {
		e.counts.cold.Add(th.shard, 1) // the rest is counted and traced when it is run again
		return ReadRes{}, err
	}
	for _, f := range r.fell[:r.falls] {
		e.counts.read[f.mode].fallbacks[f.why].Add(1)
	}
	if err != nil {
		if traced {
			th.event(q, trace.ReadDone, mode, 0, now()-start).Reason = err.Error()
			e.flush(th)
		}
		return ReadRes{}, err
	}
	res.Short = res.N < int(min(q.Count, math.MaxInt32))
	took := now() - start
	c := &e.counts.read[res.Used]
	c.calls.Add(th.shard, 1)
	c.bytes.Add(th.shard, int64(res.N))
	c.latency.Observe(th.shard, time.Duration(took))
	if traced {
		th.event(q, trace.ReadDone, res.Used, res.N, took)
		e.flush(th)
	}
	return res, nil
}

// read is one READ on its way.
type read struct {
	e      *Engine
	th     *Thread
	q      ReadReq
	off    int64
	count  int
	start  int64
	traced bool

	falls int // fallbacks so far
	fell  [4]struct {
		mode Mode
		why  reason
	}
}

// run tries the ways that mode allows.
func (r *read) run(mode Mode) (ReadRes, error) {
	if mode == Auto {
		return r.auto()
	}
	if mode == Direct {
		res, why, err := r.direct()
		if why == served {
			return res, err
		}
		r.fellBack(Direct, why)
		if why == einval {
			return r.buffered()
		}
		mode = DontCache
	}
	if mode == DontCache {
		res, why, err := r.dontCache()
		if why == served {
			return res, err
		}
		r.fellBack(DontCache, why)
	}
	return r.buffered()
}

// fellBack notes that mode did not serve the READ.
func (r *read) fellBack(mode Mode, why reason) {
	r.fell[r.falls].mode, r.fell[r.falls].why = mode, why
	r.falls++
	if r.traced {
		r.th.event(&r.q, trace.Fallback, mode, 0, 0).Reason = why.String()
	}
}

// way and ioDone trace how the READ is served and what the file system gave.
func (r *read) way(name trace.Name, mode Mode) {
	if r.traced {
		r.th.event(&r.q, name, mode, 0, 0)
	}
}

func (r *read) ioDone(mode Mode, n int) {
	if r.traced {
		r.th.event(&r.q, trace.ReadIODone, mode, n, now()-r.start)
	}
}

// result makes b's first n bytes after skip the reply.
func (r *read) result(b *buffer, skip, n int, used Mode) ReadRes {
	if n == 0 {
		b.Release()
		return ReadRes{Used: used}
	}
	b.data = b.mem[skip : skip+n]
	return ReadRes{Data: b, N: n, Used: used}
}

// buffer returns a buffer for a copy: the thread's own where the encoder will
// copy the bytes and give it back at once.
func (r *read) buffer() (*buffer, error) {
	if r.count <= smallBuffer && r.th.small.inUse.CompareAndSwap(false, true) {
		return &r.th.small, nil
	}
	if b := r.e.plain.get(r.count, !r.q.NoWait); b != nil {
		return b, nil
	}
	if r.q.NoWait {
		return nil, unix.EAGAIN
	}
	return nil, unix.EMFILE
}

// kind is the descriptor for reads through the page cache.
func (r *read) kind() filecache.Kind {
	switch {
	case r.q.Random:
		return filecache.NoAhead
	case r.q.Ahead:
		return filecache.Ahead
	}
	return filecache.Read
}

// buffered goes through the page cache, as the kernel does by default.
func (r *read) buffered() (ReadRes, error) {
	fd, err := r.th.fd(r.q.File, r.kind(), !r.q.NoWait)
	if err != nil {
		return ReadRes{}, err
	}
	if r.e.useSplice(&r.q, r.count) {
		res, why, err := r.splice(fd)
		if why == served {
			return res, err
		}
		r.fellBack(Buffered, why)
	}
	r.way(trace.ReadVector, Buffered)
	return r.copy(fd, 0, Buffered)
}

// copy reads into a buffer, with flags for preadv2.
func (r *read) copy(fd int, flags uintptr, used Mode) (ReadRes, error) {
	if r.q.NoWait && r.count > rawMax && !r.e.noCachestat.Load() {
		// Asking first is cheap beside a copy as long as this, and keeps the
		// work of starting a long read off the service thread.
		if err := r.e.warm(r.th, fd, r.off, r.count); err != nil {
			return ReadRes{}, err
		}
	}
	b, err := r.buffer()
	if err != nil {
		return ReadRes{}, err
	}
	var n int
	if r.q.NoWait {
		n, err = r.th.readNoWait(fd, b.mem[:r.count], r.off, flags)
	} else {
		n, err = r.th.preadv2(fd, b.mem[:r.count], r.off, flags)
	}
	if err != nil {
		b.Release()
		return ReadRes{}, err
	}
	r.ioDone(used, n)
	return r.result(b, 0, n, used), nil
}

// useSplice decides between moving pages and copying bytes.
func (e *Engine) useSplice(q *ReadReq, count int) bool {
	return q.Splice && int64(count) >= e.spliceMin.Load()
}

// splice moves page-cache pages into pipes.
func (r *read) splice(fd int) (ReadRes, reason, error) {
	if r.q.NoWait {
		if err := r.e.warm(r.th, fd, r.off, r.count); err != nil {
			return ReadRes{}, served, err
		}
	}
	r.way(trace.ReadSplice, Buffered)
	pp := r.e.pipes.payload()
	n, err := pp.fill(fd, r.off, r.count)
	if err != nil || n == 0 {
		pp.Release()
		switch err {
		case nil:
			r.ioDone(Buffered, 0)
			return ReadRes{Used: Buffered}, served, nil
		case errNoPipe:
			return ReadRes{}, noPipe, nil
		case unix.EINVAL, unix.EAGAIN:
			return ReadRes{}, noSplice, nil
		}
		return ReadRes{}, served, err
	}
	r.ioDone(Buffered, n)
	r.e.counts.spliced.Add(r.th.shard, 1)
	return ReadRes{Data: pp, N: n, Used: Buffered}, served, nil
}

// dontCache reads without leaving in the page cache what was not there before.
func (r *read) dontCache() (ReadRes, reason, error) {
	fd, err := r.th.fd(r.q.File, r.kind(), !r.q.NoWait)
	if err != nil {
		return ReadRes{}, served, err
	}
	if r.q.File.Align().DontCache {
		r.way(trace.ReadDontCache, DontCache)
		res, err := r.copy(fd, unix.RWF_DONTCACHE, DontCache)
		if err != unix.EOPNOTSUPP { // refused for this file, though not for others
			return res, served, err
		}
	}
	return r.dropBehind(fd)
}

// dropBehind does what RWF_DONTCACHE would where it is missing: it notes which
// pages are absent, reads, and drops just those. Its descriptor does not read
// ahead, for pages brought in beyond this READ would look to the next one as
// if others had cached them. Pages that somebody else brings in between the
// look and the drop may be dropped too: they are clean, and only read again.
func (r *read) dropBehind(fd int) (ReadRes, reason, error) {
	whole, err := r.e.absent(r.th, fd, r.off, r.count)
	if err != nil {
		return ReadRes{}, noCachestat, nil
	}
	r.fellBack(DontCache, noDontCache)
	if !whole {
		if r.q.NoWait {
			return ReadRes{}, served, unix.EAGAIN
		}
		if fd, err = r.th.fd(r.q.File, filecache.NoAhead, true); err != nil {
			return ReadRes{}, served, err
		}
	}
	r.way(trace.ReadDontCache, DontCache)
	res, err := r.copy(fd, 0, DontCache)
	for _, s := range r.th.missing {
		unix.Fadvise(fd, s.off, s.len, unix.FADV_DONTNEED) //nolint:errcheck // advice
	}
	return res, served, err
}

// direct bypasses the page cache: the range is widened to the file's read
// alignment, read into an aligned buffer, and cut down to what was asked.
func (r *read) direct() (ReadRes, reason, error) {
	f := r.q.File
	if !r.q.First {
		return ReadRes{}, notFirst, nil
	}
	fd, err := r.th.fd(f, filecache.Direct, !r.q.NoWait)
	if err == unix.EOPNOTSUPP || err == unix.EINVAL {
		return ReadRes{}, noDirect, nil
	}
	if err != nil {
		return ReadRes{}, served, err
	}
	if r.q.NoWait {
		return ReadRes{}, served, unix.EAGAIN // the disk is asked in any case
	}
	a := f.Align()
	if int64(a.Mem) > int64(pageSize) {
		return ReadRes{}, memAlign, nil
	}
	from, wide, ok := widen(r.off, r.count, a.ReadOffset)
	if !ok {
		return ReadRes{}, tooWide, nil
	}
	b := r.e.direct.get(wide, true)
	if b == nil {
		return ReadRes{}, noBuffer, nil
	}
	r.way(trace.ReadDirect, Direct)
	ticket, _ := r.e.enter(f.Order(), filecache.DirectRead, uint64(from), uint64(wide), uint64(from), uint64(wide), true)
	n, err := r.readAligned(fd, b.mem[:wide], from, int(a.ReadOffset))
	r.e.leave(f.Order(), ticket)
	if err != nil {
		b.Release()
		if err == unix.EINVAL {
			r.e.warning(warnDirectEINVAL, Warning{
				What:   "a direct read was refused and served buffered: the file system's alignment is not what statx says; set the export's read mode to dontcache or buffered if this goes on",
				File:   f.Key,
				Export: r.q.Export,
				Err:    err,
			})
			return ReadRes{}, einval, nil
		}
		return ReadRes{}, served, err
	}
	r.ioDone(Direct, n)
	skip, give := trim(from, n, r.off, r.count)
	r.e.counts.read[Direct].excess.Add(r.th.shard, int64(n-give))
	return r.result(b, skip, give, Direct), served, nil
}

// widen returns the smallest range [from, from+wide) that holds [off,
// off+count) and starts and ends at multiples of unit, a power of two; false
// when it ends past the largest offset or no buffer is large enough.
func widen(off int64, count int, unit uint32) (from int64, wide int, ok bool) {
	mask := uint64(unit) - 1
	from = off &^ int64(mask)
	to := (uint64(off) + uint64(count) + mask) &^ mask
	if to > math.MaxInt64 || to-uint64(from) > MaxMaxIO+classSlack {
		return 0, 0, false
	}
	return from, int(to - uint64(from)), true
}

// trim returns which of n bytes read at from were asked for by [off,
// off+count): give bytes after the first skip.
func trim(from int64, n int, off int64, count int) (skip, give int) {
	skip = int(off - from)
	return skip, min(max(n-skip, 0), count)
}

// readAligned reads until b is full or the file ends: where a read ended off
// the alignment, or gave nothing.
func (r *read) readAligned(fd int, b []byte, off int64, unit int) (int, error) {
	n := 0
	for n < len(b) {
		m, err := r.e.pread(r.th, fd, b[n:], off+int64(n), 0)
		if err != nil {
			if n > 0 && err != unix.EINVAL {
				return n, nil // the next READ, which starts there, gets the error
			}
			return 0, err
		}
		n += m
		if m == 0 || m%unit != 0 {
			break
		}
	}
	return n, nil
}

// event appends a trace event about q; its time is now.
func (th *Thread) event(q *ReadReq, name trace.Name, mode Mode, n int, took int64) *trace.Event {
	th.events = append(th.events, trace.Event{
		Time: time.Now(), Name: name, XID: q.XID, Client: q.Client, Export: q.Export, File: q.File.Key.String(),
		Offset: q.Offset, Count: uint64(q.Count), Len: uint64(n), Mode: mode.String(), Duration: time.Duration(took),
	})
	return &th.events[len(th.events)-1]
}

func (e *Engine) flush(th *Thread) {
	for i := range th.events {
		e.bus.Emit(th.events[i])
	}
	clear(th.events)
	th.events = th.events[:0]
}
