// READ and READLINK.

package vfs

import (
	"math"
	"unsafe"

	"golang.org/x/sys/unix"

	"sluice/pkg/dataio"
)

// regular checks that n can be read and written.
func regular(n Node) error {
	switch n.Type() {
	case TypeReg:
		return nil
	case TypeDir:
		return unix.EISDIR
	}
	return unix.EINVAL
}

// Read reads count bytes at off; more than the server's limit are cut to it. Past the largest offset it is an empty read at
// the end of the file.
//
// The attributes that the reply needs are read after the data, and decide: whether this was the end of the file, and
// whether the caller may have the data. A permission taken away while the data was read, or since the thread last checked,
// is thereby noticed, and the data dropped. A caller that the thread has not served this file to lately is also checked
// before, so that the refused cause no I/O.
func (v *View) Read(n Node, off uint64, count uint32) (r ReadResult, err error) {
	if err = regular(n); err != nil {
		return r, err
	}
	th := v.th
	who := v.who()
	if !th.recent.has(n.f, &who) {
		if err = v.stat(n); err != nil {
			return r, err
		}
		if err = v.mayRead(n.f); err != nil {
			r.Attr.fill(&th.stx, n.fsid())
			return r, err
		}
		th.recent.add(n.f, &who)
	}
	if err = v.guardRead(n); err != nil { // who may not read calls no delegation back
		return r, err
	}
	if count = min(count, v.ns.cfg.MaxRead); off > math.MaxInt64 {
		count = 0
	} else if uint64(count) > math.MaxInt64-off {
		count = uint32(math.MaxInt64 - off)
	}
	var res dataio.ReadRes
	if count > 0 {
		th.rq = dataio.ReadReq{
			File: n.f, Offset: off, Count: count,
			Mode: v.readMode(), First: !v.c.NoDirect, Random: v.c.Advice&AdviseRandom != 0, Ahead: v.c.Advice&AdviseSequential != 0,
			Splice: v.c.Splice, NoWait: !v.c.MayBlock,
			XID: v.c.XID, Client: v.c.Addr, Export: v.exp.cfg.Path,
		}
		if res, err = v.ns.cfg.Engine.Read(th.data, &th.rq); err != nil {
			return r, v.dataError(n, err)
		}
	}
	if err = v.attrNow(n, &r.Attr); err == nil {
		err = v.mayRead(n.f)
	}
	if err != nil {
		if res.Data != nil {
			res.Data.Release()
		}
		return r, err
	}
	r.Data, r.N = res.Data, res.N
	// RFC 1813 3.3.6: eof says that the read ended at the end of the file. A read that stopped short of it for other
	// reasons is not the end.
	r.EOF = off > math.MaxInt64 || off+uint64(res.N) >= r.Attr.Size
	return r, nil
}

// dataError turns an error of the data path into one of ours.
func (v *View) dataError(n Node, err error) error {
	e := errnoOf(err)
	if e == unix.EAGAIN {
		if !v.c.MayBlock {
			return ErrWouldBlock
		}
		return ErrJukebox // somebody holds a lease on the file
	}
	return v.stale(n, e)
}

// Readlink reads a symbolic link into buf and returns the target, which aliases buf.
func (v *View) Readlink(n Node, buf []byte) (target []byte, a Attr, err error) {
	if n.Type() != TypeLnk {
		v.attr(n, &a) //nolint:errcheck // optional
		return nil, a, unix.EINVAL
	}
	if !v.mayBlock(n.m) {
		return nil, a, ErrWouldBlock
	}
	if len(buf) == 0 {
		return nil, a, ErrTooSmall
	}
	th := v.th
	start := nanotime()
	for {
		l, _, e := unix.Syscall6(unix.SYS_READLINKAT, uintptr(n.f.PathFD()), uintptr(unsafe.Pointer(&th.empty[0])),
			uintptr(unsafe.Pointer(&buf[0])), uintptr(len(buf)), 0, 0)
		if e == unix.EINTR {
			continue
		}
		n.m.gate.done(th, start)
		if e != 0 {
			return nil, a, v.stale(n, e)
		}
		target = buf[:l]
		break
	}
	v.attr(n, &a) //nolint:errcheck // optional
	return target, a, nil
}
