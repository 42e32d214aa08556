// Extended attributes (RFC 8276): GETXATTR, SETXATTR, LISTXATTRS, REMOVEXATTR.
// Names on the wire are without the "user." prefix; a client's own "user." in a
// name stays part of it.

package nfs4

import (
	"golang.org/x/sys/unix"

	"sluice/pkg/vfs"
	wire "sluice/xdr/nfs4"
)

const (
	maxXattrName  = 255 - len("user.") // bytes: XATTR_NAME_MAX
	maxXattrValue = 64 << 10           // bytes: XATTR_SIZE_MAX
)

type (
	xattrGetter interface {
		Getxattr(n vfs.Node, name, buf []byte) ([]byte, error)
	}
	xattrSetter interface {
		Setxattr(n vfs.Node, name, value []byte, how vfsXattrHow) (vfs.Change, error)
	}
	xattrLister interface {
		Listxattr(n vfs.Node, cookie uint64, emit func(name []byte) bool) (eof bool, err error)
	}
	xattrRemover interface {
		Removexattr(n vfs.Node, name []byte) (vfs.Change, error)
	}
)

type vfsXattrHow = uint8

// xattrFile readies the current file, and checks a name.
func (c *compound) xattrFile(name []byte) status {
	if st := c.openFH(); st != ok {
		return st
	}
	switch {
	case len(name) == 0:
		return wire.NFS4ERR_INVAL
	case len(name) > maxXattrName:
		return wire.NFS4ERR_NAMETOOLONG
	}
	for _, b := range name {
		if b == 0 {
			return wire.NFS4ERR_INVAL
		}
	}
	return ok
}

// xattrStatus is statusOf; the kernel's EPERM is for files that are neither regular nor directories.
func (c *compound) xattrStatus(err error) status {
	if err == unix.EPERM && c.node.Type() != vfs.TypeReg && c.node.Type() != vfs.TypeDir {
		return wire.NFS4ERR_WRONG_TYPE
	}
	return c.statusOf(err)
}

func (c *compound) opGetXattr() status {
	var args wire.GETXATTR4args
	if args.Decode(c.d); c.bad() {
		return wire.NFS4ERR_BADXDR
	}
	if st := c.xattrFile(args.GxaName); st != ok {
		return st
	}
	g, has := any(&c.view).(xattrGetter)
	if !has {
		return wire.NFS4ERR_NOTSUPP
	}
	if !c.call.MayBlock {
		return wouldBlock
	}
	v, err := g.Getxattr(c.node, args.GxaName, make([]byte, maxXattrValue))
	if err != nil {
		return c.xattrStatus(err)
	}
	c.e.Opaque(v)
	return ok
}

func (c *compound) opSetXattr() status {
	var args wire.SETXATTR4args
	if args.Decode(c.d); c.bad() {
		return wire.NFS4ERR_BADXDR
	}
	if args.SxaOption < wire.SETXATTR4_EITHER || args.SxaOption > wire.SETXATTR4_REPLACE {
		return wire.NFS4ERR_INVAL
	}
	if st := c.xattrFile(args.SxaKey); st != ok {
		return st
	}
	if len(args.SxaValue) > maxXattrValue {
		return wire.NFS4ERR_XATTR2BIG
	}
	s, has := any(&c.view).(xattrSetter)
	if !has {
		return wire.NFS4ERR_NOTSUPP
	}
	ch, err := s.Setxattr(c.node, args.SxaKey, args.SxaValue, vfsXattrHow(args.SxaOption))
	if err != nil {
		return c.xattrStatus(err)
	}
	i := cinfo(&ch)
	i.Encode(c.e)
	return ok
}

func (c *compound) opRemoveXattr() status {
	var args wire.REMOVEXATTR4args
	if args.Decode(c.d); c.bad() {
		return wire.NFS4ERR_BADXDR
	}
	if st := c.xattrFile(args.RxaName); st != ok {
		return st
	}
	r, has := any(&c.view).(xattrRemover)
	if !has {
		return wire.NFS4ERR_NOTSUPP
	}
	ch, err := r.Removexattr(c.node, args.RxaName)
	if err != nil {
		return c.xattrStatus(err)
	}
	i := cinfo(&ch)
	i.Encode(c.e)
	return ok
}

// opListXattrs: a cookie is how many names have been listed. maxcount bounds the result but its status (RFC 8276, 8.4.3.2).
func (c *compound) opListXattrs() status {
	var args wire.LISTXATTRS4args
	if args.Decode(c.d); c.bad() {
		return wire.NFS4ERR_BADXDR
	}
	if st := c.openFH(); st != ok {
		return st
	}
	l, has := any(&c.view).(xattrLister)
	if !has {
		return wire.NFS4ERR_NOTSUPP
	}
	if !c.call.MayBlock {
		return wouldBlock
	}
	const head, tail = 8 + 4, 4
	room, st := c.dataRoom(min(args.LxaMaxcount, maxDirReply), 0)
	if st != ok {
		return st
	}
	if room < head+tail {
		return wire.NFS4ERR_TOOSMALL
	}
	e := c.e
	at, limit := len(e.Bytes()), e.Len()+int(room)-tail
	e.Uint64(0)
	e.Uint32(0)
	n, full := uint32(0), false
	eof, err := l.Listxattr(c.node, args.LxaCookie, func(name []byte) bool {
		if e.Len()+4+(len(name)+3)&^3 > limit || n == wire.LIMIT_XATTRS {
			full = true
			return false
		}
		e.Opaque(name)
		n++
		return true
	})
	switch {
	case err != nil:
		return c.xattrStatus(err)
	case full && n == 0:
		return wire.NFS4ERR_TOOSMALL
	}
	cookie := args.LxaCookie + uint64(n)
	e.PatchUint32(at, uint32(cookie>>32))
	e.PatchUint32(at+4, uint32(cookie))
	e.PatchUint32(at+8, n)
	e.Bool(eof && !full)
	return ok
}
