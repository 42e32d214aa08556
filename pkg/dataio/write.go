// WRITE and COMMIT, and the verifier that ties them together.
//
// The promise (RFC 1813 sections 3.3.7 and 3.3.21): a client may forget its
// copy of UNSTABLE data once a COMMIT returns the verifier that the WRITE
// returned. So the verifier is random per start, is taken before the data is
// written, and changes before anybody hears of a sync that failed: after such a
// failure the kernel has marked the lost pages clean, will not write them
// again, and will not report it a second time. Clients then send again what
// they have not committed.
//
// stable_how is neither weakened nor promoted: UNSTABLE goes to the page
// cache, DATA_SYNC adds RWF_DSYNC, FILE_SYNC adds RWF_SYNC.

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
// error: the kernel stopped at a full disk, a quota or a limit, and the
// client's next WRITE, for the rest, is told which; going on here would only
// trade that count for an error. Errors are errnos, with nothing written:
// unix.EAGAIN with q.NoWait or while a lease is given back, unix.EMFILE as for
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
	fd, err := th.fd(q.File, filecache.Write, !q.NoWait)
	if err != nil {
		return 0, 0, verf, err
	}
	used := Buffered // the other write modes are not built yet
	ticket, ok := q.File.Order.Begin(filecache.BufferedWrite, q.Offset, size, !q.NoWait)
	if !ok {
		return 0, 0, verf, unix.EAGAIN
	}
	if e.bus.Enabled() {
		e.bus.Emit(q.event(trace.WriteStart, used, 0, 0, nil))
	}
	if q.Stable == Unstable {
		n, err = e.pwrite(th, fd, q.Data, q.More, int64(q.Offset), 0)
		q.File.MarkUnstable()
	} else {
		flags := uintptr(unix.RWF_SYNC)
		if q.Stable == DataSync {
			flags = unix.RWF_DSYNC
		}
		began := q.File.SyncBegin()
		n, err = e.pwrite(th, fd, q.Data, q.More, int64(q.Offset), flags)
		err = q.File.SyncEnd(began, err, err != nil && mayHaveLost(err))
	}
	q.File.Order.End(ticket)
	took := now() - start
	if e.bus.Enabled() {
		e.bus.Emit(q.event(trace.WriteDone, used, n, took, err))
	}
	if err != nil {
		return 0, 0, verf, err
	}
	c := &e.counts.write[used]
	c.bytes.Add(th.shard, int64(n))
	for range 1 + len(q.More) { // each of these WRITEs took so long
		c.calls.Add(th.shard, 1)
		c.latency.Observe(th.shard, time.Duration(took))
	}
	return n, q.Stable, verf, nil
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
	case unix.EAGAIN, unix.EBADF, unix.EFAULT, unix.EFBIG, unix.EINVAL, unix.EACCES, unix.EPERM, unix.EROFS, unix.ESTALE, unix.EOPNOTSUPP:
		return false
	}
	return true
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
	if f.FD(filecache.Write) < 0 {
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
