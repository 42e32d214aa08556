// Extended attributes (RFC 8276): GETXATTR, SETXATTR, LISTXATTRS, REMOVEXATTR.
// Names on the wire are without the "user." prefix; a client's own "user." in a
// name stays part of it.

package nfs4

import (
	"golang.org/x/sys/unix"

	"sluice/pkg/vfs"
	wire "sluice/xdr/nfs4"
)

// xattrFile readies the current file, and checks a name.
func (c *compound) xattrFile(name []byte) status {
	if st := c.openFH(); st != ok {
		return st
	}
	switch {
	case len(name) == 0:
		return wire.NFS4ERR_INVAL
	case len(name) > vfs.MaxXattrName:
		return wire.NFS4ERR_NAMETOOLONG
	}
	for _, b := range name {
		if b == 0 {
			return wire.NFS4ERR_INVAL
		}
	}
	if !c.validText(name) {
		return wire.NFS4ERR_INVAL
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
	if !c.call.MayBlock {
		return wouldBlock
	}
	v, err := c.view.Getxattr(c.node, args.GxaName, make([]byte, vfs.MaxXattrValue))
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
	if len(args.SxaValue) > vfs.MaxXattrValue {
		return wire.NFS4ERR_XATTR2BIG
	}
	ch, err := c.view.Setxattr(c.node, args.SxaKey, args.SxaValue, vfs.XattrHow(args.SxaOption))
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
	ch, err := c.view.Removexattr(c.node, args.RxaName)
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
	eof, err := c.view.Listxattr(c.node, args.LxaCookie, func(name []byte) bool {
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
