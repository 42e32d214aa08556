// WRITE and COMMIT.

package vfs

import (
	"math"

	"golang.org/x/sys/unix"

	"sluice/pkg/dataio"
)

// Write writes data at off. stable is RFC 1813's stable_how, and is kept to on async exports too.
//
// It runs under the caller's credentials although the descriptor is open: so the kernel clears set-user-ID and
// set-group-ID, and counts quotas and reserved blocks, as for the caller's own write.
func (v *View) Write(n Node, off uint64, data []byte, stable uint32) (w WriteResult, err error) {
	return v.WriteRun(n, off, data, nil, stable)
}

// MaxMore is how many pieces may follow the first in a WriteRun.
const MaxMore = dataio.MaxMore

// WriteRun is Write of data and, behind it, at most MaxMore further pieces that lie in memory elsewhere: of adjacent WRITEs by
// one caller, which the file system takes faster together. WriteResult.N counts the bytes of all. Together they are not
// larger than a Write may be.
func (v *View) WriteRun(n Node, off uint64, data []byte, more [][]byte, stable uint32) (w WriteResult, err error) {
	if err = regular(n); err != nil {
		return w, err
	}
	if v.ro {
		return w, unix.EROFS
	}
	if !v.c.MayBlock && (stable != dataio.Unstable || n.m.gate.closed()) {
		return w, ErrWouldBlock
	}
	mode := v.ns.cfg.Modes.Write(v.exp.mode, v.c.Addr)
	if !v.c.MayBlock && v.ns.cfg.Engine.Sleeps(n.f, mode, off, len(data)) {
		return w, ErrWouldBlock
	}
	th := v.th
	span := v.ns.spans.begin(&n.f.Key)
	defer func() {
		if !v.ns.spans.end(&n.f.Key, span) {
			w.Change.Before, w.Change.BeforeOK = Attr{}, false
		}
	}()
	if err = v.stat(n); err != nil {
		return w, err
	}
	w.Change.Before.fill(&th.stx, n.fsid())
	w.Change.BeforeOK = true
	if err = v.mayWrite(n.f); err == nil {
		err = v.guardWrite(n)
	}
	if err != nil {
		w.Change.AfterOK = v.attr(n, &w.Change.After) == nil
		w.Change.Before.Held = w.Change.After.Held
		return w, err
	}
	if len(data) > int(v.ns.cfg.MaxWrite) {
		data, more = data[:v.ns.cfg.MaxWrite], nil // a short write is no error (RFC 1813 3.3.7); the client sends the rest again
	}
	// RFC 1813 3.3.7: data that would end past the largest offset is refused as a whole.
	if off > math.MaxInt64 || uint64(len(data)) > math.MaxInt64-off {
		w.Change.After, w.Change.AfterOK = w.Change.Before, true
		return w, unix.EFBIG
	}
	v.become()
	start := nanotime()
	th.wq = dataio.WriteReq{
		File: n.f, Offset: off, Data: data, More: more, Stable: stable,
		Mode: mode, NoWait: !v.c.MayBlock,
		XID: v.c.XID, Client: v.c.Addr, Export: v.exp.cfg.Path,
	}
	w.N, w.Committed, w.Verf, err = v.ns.cfg.Engine.Write(th.data, &th.wq)
	if !v.c.MayBlock {
		n.m.gate.done(th, start)
	}
	if err != nil {
		err = v.dataError(n, err)
	}
	if err != ErrWouldBlock {
		w.Change.AfterOK = v.attrNow(n, &w.Change.After) == nil
	}
	return w, err
}

// Commit makes earlier unstable writes stable. The file is not changed by it, so there is no permission to ask for beyond
// what Linux asks: the export must be writable.
func (v *View) Commit(n Node, off uint64, count uint32) (verf [8]byte, c Change, err error) {
	if err = regular(n); err != nil {
		return verf, c, err
	}
	if v.ro {
		return verf, c, unix.EROFS
	}
	if !v.c.MayBlock {
		return verf, c, ErrWouldBlock
	}
	c.BeforeOK = v.attr(n, &c.Before) == nil
	verf, err = v.ns.cfg.Engine.Commit(v.th.data, n.f, off, count)
	if err != nil {
		err = v.dataError(n, err)
	}
	c.AfterOK = v.attr(n, &c.After) == nil
	return verf, c, err
}
