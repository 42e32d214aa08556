// Direct WRITEs: head and tail through the page cache, the middle past it.
//
// Plan: split cuts a WRITE that is not aligned. The middle must lie in memory
// as the file system asks. The payload of a large WRITE was put there as it
// came off the socket (rpc.Proc.Land); any other is copied into an aligned
// buffer of the bounded pool. When none comes free in a short while, the WRITE
// goes the way of dontcache.
//
// A WRITE that starts and ends at multiples of the offset alignment is direct
// as a whole. Any other is cut at pages (or at the file system's blocks, where
// those are larger), even where the alignment is finer. For then what is
// written through the page cache shares no page with what is written past it,
// which would have to be written out, dropped and read again for each WRITE of
// a stream; and two neighbours of that stream need not wait for one another,
// as they share pages only where both are buffered.

package dataio

import (
	"math"
	"unsafe"

	"golang.org/x/sys/unix"

	"sluice/pkg/filecache"
)

// split returns how many bytes of [off, off+size) come before the direct part,
// and how many are in it: none if there is no such part.
func split(off uint64, size int, a *filecache.Align) (head, mid int) {
	unit := uint64(a.Offset)
	if off%unit == 0 && uint64(size)%unit == 0 {
		return 0, size
	}
	mask := max(unit, uint64(a.Block)) - 1
	from, until := (off+mask)&^mask, (off+uint64(size))&^mask
	if from >= until {
		return 0, 0
	}
	return int(from - off), int(until - from)
}

// Sleeps tells, without asking the file system, that a WRITE in mode will not
// be served on a thread that must not sleep.
func (e *Engine) Sleeps(f *filecache.File, mode Mode, off uint64, size int) bool {
	if mode != Direct || size == 0 || off > math.MaxInt64 {
		return false
	}
	a := f.Align() // all zero before the first I/O: then the engine finds out
	if !a.Direct {
		return false
	}
	_, mid := split(off, size, &a)
	return mid > 0
}

// planDirect prepares a direct write, or says why there is none.
func (e *Engine) planDirect(th *Thread, q *WriteReq, size int, p *writePlan) (reason, error) {
	f := q.File
	dfd, err := th.fd(f, filecache.DirectOut, !q.NoWait)
	if err == unix.EOPNOTSUPP || err == unix.EINVAL {
		return noDirect, nil
	}
	if err != nil {
		return served, err
	}
	a := f.Align()
	if int64(a.Mem) > int64(pageSize) {
		return memAlign, nil
	}
	head, mid := split(q.Offset, size, &a)
	if mid == 0 {
		return noMiddle, nil
	}
	if q.NoWait {
		return served, unix.EAGAIN // the disk is asked in any case
	}
	if head > 0 || head+mid < size {
		if p.fd, err = th.fd(f, filecache.Write, true); err != nil {
			return served, err
		}
	}
	if len(q.More) == 0 && alignedTo(q.Data[head:], a.Mem) {
		p.data = q.Data
		e.counts.landed.Add(th.shard, 1)
	} else {
		skew := -head & (pageSize - 1) // the middle starts at a page
		if p.buf = e.direct.get(skew+size, true); p.buf == nil {
			return noBuffer, nil
		}
		p.data = p.buf.mem[skew : skew+size]
		n := copy(p.data, q.Data)
		for _, b := range q.More {
			n += copy(p.data[n:], b)
		}
		e.counts.copied.Add(th.shard, 1)
	}
	p.dfd, p.head, p.mid = dfd, head, mid
	p.unit = int(max(a.Offset, a.Mem))
	return served, nil
}

// alignedTo reports that b, which is not empty, starts at a multiple of unit.
func alignedTo(b []byte, unit uint32) bool {
	return uintptr(unsafe.Pointer(&b[0]))&uintptr(unit-1) == 0
}

// pieces writes head, middle and tail in this order, so that what is counted is
// contiguous, each piece from where the last one ended. It stops at the first
// error. What the kernel will not write direct goes through the page cache with
// all that follows.
func (e *Engine) pieces(th *Thread, q *WriteReq, p *writePlan) (n int, err error) {
	if n, err = e.through(th, q, p, 0, p.head); n < p.head {
		return n, err
	}
	for end := p.head + p.mid; n < end; {
		m, err := e.put(th, q, p.dfd, p.data[n:end], nil, n, 0)
		n += m
		switch {
		case err == unix.EINVAL, err == unix.ENOTBLK:
			return e.refused(th, q, p, n, err)
		case err != nil || m == 0:
			return n, err
		case n < end && m%p.unit != 0:
			p.fellBack(Direct, shortDirect)
			m, err = e.rest(th, q, p, n)
			return n + m, err
		}
	}
	m, err := e.through(th, q, p, n, len(p.data))
	return n + m, err
}

// through writes data[n:end] through the page cache, and returns how much of it.
func (e *Engine) through(th *Thread, q *WriteReq, p *writePlan, n, end int) (done int, err error) {
	for n+done < end {
		m, err := e.put(th, q, p.fd, p.data[n+done:end], nil, n+done, 0)
		if done += m; err != nil || m == 0 {
			return done, err
		}
	}
	return done, nil
}

// rest writes data from n on through the page cache, by its turn with all to
// itself: the direct part of the range is this WRITE's alone.
func (e *Engine) rest(th *Thread, q *WriteReq, p *writePlan, n int) (done int, err error) {
	if p.fd < 0 {
		if p.fd, err = th.fd(q.File, filecache.Write, true); err != nil {
			return 0, err
		}
	}
	return e.through(th, q, p, n, len(p.data))
}

// refused goes on, from n, where the kernel refused a direct write.
func (e *Engine) refused(th *Thread, q *WriteReq, p *writePlan, n int, why error) (int, error) {
	kind := warnWriteEINVAL
	w := Warning{
		What:   "a direct write was refused and served buffered: the file system's alignment is not what statx says; set the export's write mode to dontcache or buffered if this goes on",
		File:   q.File.Key,
		Export: q.Export,
		Err:    why,
	}
	p.fellBack(Direct, einval)
	if why == unix.ENOTBLK {
		kind = warnNotBlock
		w.What = "a direct write was served buffered: pages of its range could not be taken out of the page cache, as when a local program has them mapped; set the export's write mode to dontcache or buffered if this goes on"
		p.fell[p.falls-1].why = notBlock
	}
	e.warning(kind, w)
	if n <= p.head {
		p.used = Buffered
	}
	m, err := e.rest(th, q, p, n)
	return n + m, err
}
