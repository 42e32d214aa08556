// What the namespace serves beyond version 3, by small interfaces: a View that
// has a method serves the operation, one that has not answers NFS4ERR_NOTSUPP.

package nfs4

import (
	"golang.org/x/sys/unix"

	"sluice/pkg/state"
	"sluice/pkg/vfs"
	wire "sluice/xdr/nfs4"
)

type (
	rooter   interface{ RootHandle() vfs.Handle }
	parenter interface {
		Lookupp(n vfs.Node) (vfs.Entry, error)
	}
	flavorer    interface{ Flavors(dst []uint32) []uint32 }
	openChecker interface {
		OpenCheck(n vfs.Node, read, write bool) error
	}
	seeker interface {
		Seek(n vfs.Node, off uint64, hole bool) (at uint64, eof bool, err error)
	}
	allocator interface {
		Allocate(n vfs.Node, off, length uint64) error
		Deallocate(n vfs.Node, off, length uint64) error
	}
	copier interface {
		Copy(src, dst vfs.Node, srcOff, dstOff, count uint64) (copied uint64, err error)
	}
	cloner interface {
		Clone(src, dst vfs.Node, srcOff, dstOff, count uint64) error
	}
	xattrSupporter interface{ XattrSupport(n vfs.Node) bool }
	getxattrer     interface {
		Getxattr(n vfs.Node, name, buf []byte) ([]byte, error)
	}
)

// key is the identity of the current file for pkg/state.
func (c *compound) key() state.FileKey { return c.node.Key() }

// rootHandle is where PUTROOTFH leads.
func (c *compound) rootHandle() (h vfs.Handle, st status) {
	if r, has := any(c.s.ns).(rooter); has {
		return r.RootHandle(), ok
	}
	if c.s.root.Len > 0 {
		return c.s.root, ok
	}
	return h, wire.NFS4ERR_SERVERFAULT
}

// parent is the directory above the current one.
func (c *compound) parent() (vfs.Handle, status) {
	if p, has := any(&c.view).(parenter); has {
		e, err := p.Lookupp(c.node)
		return e.Handle, c.statusOf(err)
	}
	e, _, err := c.view.Lookup(c.node, []byte(".."))
	if err == nil && string(e.Handle.Bytes()) == string(c.cur.bytes()) {
		err = unix.ENOENT // the export's own directory: nothing is above it
	}
	return e.Handle, c.statusOf(err)
}

// flavors are those with which h, nil for the current file, may be used.
func (c *compound) flavors(h *vfs.Handle) []uint32 {
	if f, has := any(&c.view).(flavorer); has {
		return f.Flavors(nil)
	}
	return []uint32{wire.AUTH_SYS}
}

// openCheck asks whether the caller may open the current file so.
func (c *compound) openCheck(read, write bool) status {
	if o, has := any(&c.view).(openChecker); has {
		return c.statusOf(o.OpenCheck(c.node, read, write))
	}
	var want uint32
	if read {
		want |= vfs.AccessRead
	}
	if write {
		want |= vfs.AccessModify
	}
	got, _, err := c.view.Access(c.node, want)
	if err == nil && got != want {
		err = unix.EACCES
	}
	return c.statusOf(err)
}

func (c *compound) xattrSupport() bool {
	x, has := any(&c.view).(xattrSupporter)
	return has && x.XattrSupport(c.node)
}

// fsidOf is a file system's fsid.
func fsidOf(a *vfs.Attr) (major, minor uint64) { return a.FSID, 0 }

// birthOf is when a file was made; its last change where that is not known.
func birthOf(a *vfs.Attr) vfs.Time { return a.Ctime }

func mountedOn(a *vfs.Attr) uint64            { return a.FileID }
func setMountedOn(a *vfs.Attr, fileID uint64) {}

// applyUmask takes the umask off the mode (RFC 8275).
func (a *attrSetter) applyUmask() {
	if a.masked {
		a.s.Mode &^= a.umask
	}
}

// openExclusive makes a file by EXCLUSIVE4 or EXCLUSIVE4_1. Attributes given along are set after it, so often as it is
// asked for: they are the same then.
func (c *compound) openExclusive(name []byte, verf [8]byte, a *attrSetter, o *opened) status {
	e, ch, err := c.view.Create(c.node, name, vfs.Exclusive, verf, &a.s)
	if err != nil {
		return c.statusOf(err)
	}
	if st := c.openMade(name, &e, &ch, a, o, true); st != ok {
		return st
	}
	if a.s != (vfs.SetAttr{}) {
		if _, err := c.view.Setattr(c.node, &a.s); err != nil {
			return c.statusOf(err)
		}
	}
	return ok
}
