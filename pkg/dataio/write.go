// WRITE and COMMIT, and the verifier that ties them together.
//
// Plan: Write decides how the data goes in (plan): through the page cache, the
// same without staying there (write_cache.go), or direct with what is not
// aligned beside it (write_direct.go). Then it takes its turn among the
// operations on the file (filecache.Order), writes piece by piece (put), and
// says how much of it, from the first byte on, is in.
//
// The promise (RFC 1813 sections 3.3.7 and 3.3.21): a client may forget its
// copy of UNSTABLE data once a COMMIT returns the verifier that the WRITE
// returned. So the verifier is random per start, is taken before the data is
// written, and changes before anybody hears of a sync that failed: after such a
// failure the kernel has marked the lost pages clean, will not write them
// again, and will not report it a second time. Clients then send again what
// they have not committed.
//
// stable_how is neither weakened nor promoted in any mode: UNSTABLE is written
// as it is, DATA_SYNC adds RWF_DSYNC, FILE_SYNC adds RWF_SYNC, to each piece: so
// the pieces before one that fails are on stable storage, and may be
// acknowledged. One sync at the end could not tell, and would write out other
// clients' unstable data too. Data written direct may lie in the device's own
// cache, for which COMMIT's fsync is as needed as for the page cache.

package dataio

import (
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"math"
	"time"

	"golang.org/x/sys/unix"

	"sluice/pkg/filecache"
	"sluice/pkg/trace"
)

// stable_how (RFC 1813 section 3.3.7); NFSv4's stable_how4 has the same numbers.
const (
	Unstable uint32 = iota
	DataSync
	FileSync
)

// Verifier returns the write verifier in force.
func (e *Engine) Verifier() (v [8]byte) {
	binary.BigEndian.PutUint64(v[:], e.verf.Load())
	return v
}

// newVerifier replaces the verifier with another random one.
func (e *Engine) newVerifier() error {
	var b [8]byte
	for {
		if _, err := rand.Read(b[:]); err != nil {
			return fmt.Errorf("dataio: no random bytes for the write verifier: %w", err)
		}
		old, v := e.verf.Load(), binary.BigEndian.Uint64(b[:])
		if v != 0 && v != old && e.verf.CompareAndSwap(old, v) {
			return nil
		}
	}
}

// WriteFailed changes the verifier: data of f that was acknowledged as
// UNSTABLE may be lost. The cache calls it too, for syncs of its own.
func (e *Engine) WriteFailed(f *filecache.File) {
	if err := e.newVerifier(); err != nil {
		e.verf.Add(1)
	}
	e.counts.syncErrors.Add(1)
	e.warning(warnLostWrite, Warning{
		What: "data could not be put on stable storage; clients will send it again: check the disk and its space",
		File: f.Key,
		Err:  unix.EIO,
	})
}

// Write writes q.Data, and q.More behind it, and returns how many bytes were written, how they were
// committed (always as asked) and the verifier. Fewer bytes than given are no
// error: the kernel stopped at a full disk, a quota or a limit, or a later piece
// failed; the client's next WRITE, for the rest, is told why. Going on here would only
// trade that count for an error. Errors are errnos, with nothing acknowledged:
// unix.EAGAIN with q.NoWait (a direct write always sleeps) or while a lease is given back, unix.EMFILE as for
// Read, unix.EFBIG past the largest offset, unix.EIO when stable storage was
// asked for and failed.
func (e *Engine) Write(th *Thread, q *WriteReq) (n int, committed uint32, verf [8]byte, err error) {
	verf = e.Verifier() // before the data: a failure from here on must show
	size := q.size()
	if q.Offset > math.MaxInt64 || size > math.MaxInt64-q.Offset {
		return 0, 0, verf, unix.EFBIG
	}
	if q.Stable > FileSync {
		return 0, 0, verf, unix.EINVAL
	}
	if size == 0 {
		return 0, q.Stable, verf, nil
	}
	start := now()
	var p writePlan
	if err = e.plan(th, q, int(size), &p); err == nil {
		n, err = e.ordered(th, q, &p, size)
	}
	if p.buf != nil {
		p.buf.Release()
	}
	if err == unix.EAGAIN && q.NoWait {
		return 0, 0, verf, err // counted and traced when it is run again
	}
	took := now() - start
	for _, f := range p.fell[:p.falls] {
		e.counts.write[f.mode].fallbacks[f.why].Add(1)
	}
	if e.bus.Enabled() {
		e.traceWrite(q, &p, n, took, err)
	}
	if err != nil {
		return 0, 0, verf, err
	}
	c := &e.counts.write[p.used]
	c.bytes.Add(th.shard, int64(n))
	for range 1 + len(q.More) { // each of these WRITEs took so long
		c.calls.Add(th.shard, 1)
		c.latency.Observe(th.shard, time.Duration(took))
	}
	return n, q.Stable, verf, nil
}

// writePlan is how one WRITE goes in.
type writePlan struct {
	used  Mode
	fd    int     // for the page cache; -1 when all is direct
	flags uintptr // dontcache

	// Direct: data is all of it in one piece, of which mid bytes after the
	// first head are aligned; to be written through dfd.
	data      []byte
	buf       *buffer // holds data, or nil when that is the request's own
	dfd       int
	head, mid int
	unit      int // a direct write may go on at multiples of it

	falls int // fallbacks
	fell  [4]struct {
		mode Mode
		why  reason
	}
}

// fellBack notes that mode does not serve the WRITE, or not all of it.
func (p *writePlan) fellBack(mode Mode, why reason) {
	p.fell[p.falls].mode, p.fell[p.falls].why = mode, why
	p.falls++
}

// plan decides how q goes in. It does not sleep with q.NoWait, and writes nothing.
func (e *Engine) plan(th *Thread, q *WriteReq, size int, p *writePlan) error {
	mode := max(q.Mode, Buffered)
	if mode == Auto {
		mode = e.autoWrite(q)
	}
	p.used, p.fd = mode, -1
	if mode == Direct {
		why, err := e.planDirect(th, q, size, p)
		if why == served || err != nil {
			return err
		}
		p.fellBack(Direct, why)
		p.used = DontCache
		if why == noMiddle { // its neighbours' ends share its pages: they are wanted again
			p.used = Buffered
		}
	}
	fd, err := th.fd(q.File, filecache.Write, !q.NoWait)
	if err != nil {
		return err
	}
	p.fd = fd
	if p.used == DontCache {
		e.planDontCache(th, q, size, p)
	}
	return nil
}

// ordered writes q as planned when its turn has come.
func (e *Engine) ordered(th *Thread, q *WriteReq, p *writePlan, size uint64) (n int, err error) {
	ticket, ok := e.enter(q.File.Order(), filecache.DirectWrite, q.Offset, size, q.Offset+uint64(p.head), uint64(p.mid), !q.NoWait)
	if !ok {
		return 0, unix.EAGAIN
	}
	if e.bus.Enabled() {
		e.bus.Emit(q.event(trace.WriteStart, p.used, 0, 0, nil))
	}
	switch {
	case p.mid > 0:
		n, err = e.pieces(th, q, p)
	case p.used == DontCache:
		n, err = e.dontCache(th, q, p)
	default:
		n, err = e.put(th, q, p.fd, q.Data, q.More, 0, 0)
	}
	if q.Stable == Unstable {
		q.File.MarkUnstable()
	}
	e.leave(q.File.Order(), ticket)
	if n > 0 { // what follows is the next WRITE's to hear of
		err = nil
	}
	return n, err
}

// put writes b, and more behind it, at off bytes into q, once, as stable as q asks.
func (e *Engine) put(th *Thread, q *WriteReq, fd int, b []byte, more [][]byte, off int, flags uintptr) (n int, err error) {
	at := int64(q.Offset) + int64(off)
	switch q.Stable {
	case Unstable:
		return e.pwrite(th, fd, b, more, at, flags)
	case DataSync:
		flags |= unix.RWF_DSYNC
	default:
		flags |= unix.RWF_SYNC
	}
	began := q.File.SyncBegin()
	n, err = e.pwrite(th, fd, b, more, at, flags)
	if err = q.File.SyncEnd(began, err, err != nil && mayHaveLost(err)); err != nil {
		n = 0
	}
	return n, err
}

// size is the number of bytes of a request.
func (q *WriteReq) size() uint64 {
	n := len(q.Data)
	for _, b := range q.More {
		n += len(b)
	}
	return uint64(n)
}

// mayHaveLost tells whether a stable write that failed with err may have
// failed in its sync, which then covers earlier data too. The errors named
// come before anything is written.
func mayHaveLost(err error) bool {
	switch err {
	case unix.EAGAIN, unix.ENOTBLK, unix.EBADF, unix.EFAULT, unix.EFBIG, unix.EINVAL, unix.EACCES, unix.EPERM, unix.EROFS, unix.ESTALE, unix.EOPNOTSUPP:
		return false
	}
	return true
}

// traceWrite tells how q went.
func (e *Engine) traceWrite(q *WriteReq, p *writePlan, n int, took int64, err error) {
	for _, f := range p.fell[:p.falls] {
		ev := q.event(trace.Fallback, f.mode, 0, 0, nil)
		ev.Reason = f.why.String()
		e.bus.Emit(ev)
	}
	e.bus.Emit(q.event(trace.WriteDone, p.used, n, took, err))
}

func (q *WriteReq) event(name trace.Name, mode Mode, n int, took int64, err error) trace.Event {
	ev := trace.Event{
		Name: name, XID: q.XID, Client: q.Client, Export: q.Export, File: q.File.Key.String(),
		Offset: q.Offset, Count: q.size(), Len: uint64(n), Mode: mode.String(), Duration: time.Duration(took),
	}
	if err != nil {
		ev.Reason = err.Error()
	}
	return ev
}

// Commit puts all data of f on stable storage, whatever mode wrote it, and
// returns the verifier in force after that. The range is for the trace only:
// fsync has none. Any failure of the sync is unix.EIO, and has changed the
// verifier.
func (e *Engine) Commit(th *Thread, f *filecache.File, off uint64, count uint32) (verf [8]byte, err error) {
	start := now()
	if f.FD(filecache.Write) < 0 && f.FD(filecache.DirectOut) < 0 {
		if _, err := th.fd(f, filecache.Read, true); err != nil {
			return verf, err
		}
	}
	err = f.Sync(e.fsyncRetry)
	took := now() - start
	verf = e.Verifier()
	if e.bus.Enabled() {
		ev := trace.Event{Name: trace.Commit, File: f.Key.String(), Offset: off, Count: uint64(count), Duration: time.Duration(took)}
		if err != nil {
			ev.Reason = err.Error()
		}
		e.bus.Emit(ev)
	}
	if err != nil {
		return verf, unix.EIO
	}
	if fd := f.FD(filecache.Write); fd >= 0 {
		f.DropNow(fd) // clean by now
	}
	e.counts.commits.Add(th.shard, 1)
	e.counts.commitLatency.Observe(th.shard, time.Duration(took))
	return verf, nil
}

func (e *Engine) fsyncRetry(fd int) error {
	for {
		if err := e.fsync(fd); err != unix.EINTR {
			return err
		}
	}
}
