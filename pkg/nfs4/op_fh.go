// Operations on the two file handles: PUTFH and its kin, LOOKUP, LOOKUPP,
// SECINFO.

package nfs4

import (
	"unicode/utf8"

	"sluice/pkg/vfs"
	wire "sluice/xdr/nfs4"
)

// opPutFH opens the file at once: whether a handle is any good is PUTFH's to
// say.
func (c *compound) opPutFH() status {
	var args wire.PUTFH4args
	if args.Decode(c.d); c.bad() {
		return wire.NFS4ERR_BADXDR
	}
	if len(args.Object) > len(c.cur.b) || len(args.Object) == 0 {
		return wire.NFS4ERR_BADHANDLE
	}
	old, sid, has := c.cur, c.sid, c.hasSid
	c.setFH(args.Object)
	st := c.openFH()
	if st != ok {
		c.cur, c.sid, c.hasSid = old, sid, has
	}
	return st
}

func (c *compound) opPutRootFH() status {
	h := c.s.ns.RootHandle()
	c.setFH(h.Bytes())
	return c.openFH()
}

func (c *compound) opGetFH() status {
	c.e.Opaque(c.cur.bytes())
	return ok
}

func (c *compound) opSaveFH() status {
	c.saved = c.cur
	c.savedSid, c.hasSavedSid = c.sid, c.hasSid
	return ok
}

func (c *compound) opRestoreFH() status {
	if c.saved.n == 0 {
		if c.minor == 0 {
			return wire.NFS4ERR_RESTOREFH
		}
		return wire.NFS4ERR_NOFILEHANDLE
	}
	c.close()
	c.cur = c.saved
	c.sid, c.hasSid = c.savedSid, c.hasSavedSid
	return ok
}

// checkName checks a name as version 4 has it: "." and ".." are no names, and an
// empty one is invalid. So is one that is not in UTF-8, if names must be (RFC
// 8881, 14.5); Linux takes any bytes. What is left is vfs's to say.
func (c *compound) checkName(name []byte) status {
	switch {
	case len(name) == 0:
		return wire.NFS4ERR_INVAL
	case len(name) > vfs.MaxName:
		return wire.NFS4ERR_NAMETOOLONG
	case string(name) == ".", string(name) == "..":
		return wire.NFS4ERR_BADNAME
	}
	for _, b := range name {
		if b == '/' || b == 0 {
			return wire.NFS4ERR_BADNAME
		}
	}
	if !c.validText(name) {
		return wire.NFS4ERR_INVAL
	}
	return ok
}

// validText tells whether a name's bytes will do.
func (c *compound) validText(name []byte) bool { return !c.s.cfg.UTF8Names || utf8.Valid(name) }

// directory checks that the current file is one, as LOOKUP's kin want it told.
func (c *compound) directory(forLink status) status {
	switch c.node.Type() {
	case vfs.TypeDir:
		return ok
	case vfs.TypeLnk:
		return forLink
	}
	return wire.NFS4ERR_NOTDIR
}

func (c *compound) opLookup() status {
	var args wire.LOOKUP4args
	if args.Decode(c.d); c.bad() {
		return wire.NFS4ERR_BADXDR
	}
	if st := c.openFH(); st != ok {
		return st
	}
	if st := c.directory(wire.NFS4ERR_SYMLINK); st != ok {
		return st
	}
	if st := c.checkName(args.Objname); st != ok {
		return st
	}
	e, _, err := c.view.Lookup(c.node, args.Objname)
	if err != nil {
		return c.statusOf(err)
	}
	c.setFH(e.Handle.Bytes())
	return ok
}

func (c *compound) opLookupp() status {
	if st := c.openFH(); st != ok {
		return st
	}
	if st := c.directory(wire.NFS4ERR_SYMLINK); st != ok {
		return st
	}
	h, st := c.parent()
	if st != ok {
		return st
	}
	c.setFH(h.Bytes())
	return ok
}

// opSecinfo tells with which flavours a name may be used: those of the export
// that it leads to.
func (c *compound) opSecinfo() status {
	var args wire.SECINFO4args
	if args.Decode(c.d); c.bad() {
		return wire.NFS4ERR_BADXDR
	}
	if st := c.openFH(); st != ok {
		return st
	}
	if st := c.directory(wire.NFS4ERR_NOTDIR); st != ok {
		return st
	}
	if st := c.checkName(args.Name); st != ok {
		return st
	}
	e, _, err := c.view.Lookup(c.node, args.Name)
	if err != nil && err != vfs.ErrWrongSec {
		return c.statusOf(err)
	}
	c.putSecinfo(&e.Handle)
	return ok
}

func (c *compound) opSecinfoNoName() status {
	var args wire.SECINFONONAME4args
	if args.Decode(c.d); c.bad() {
		return wire.NFS4ERR_BADXDR
	}
	if st := c.openFH(); st != ok {
		return st
	}
	switch wire.SecinfoStyle4(args) {
	case wire.SECINFO_STYLE4_CURRENT_FH:
		c.putSecinfo(nil)
	case wire.SECINFO_STYLE4_PARENT:
		if st := c.directory(wire.NFS4ERR_NOTDIR); st != ok {
			return st
		}
		h, st := c.parent()
		if st != ok {
			return st
		}
		c.putSecinfo(&h)
	default:
		return wire.NFS4ERR_INVAL
	}
	return ok
}

// putSecinfo appends the flavours, and from 4.1 on takes the current handle
// away (RFC 8881, 18.29.3).
func (c *compound) putSecinfo(h *vfs.Handle) {
	var room [wire.LIMIT_SECFLAVORS]uint32
	flavors := c.view.FlavorsOf(h, room[:0])
	c.e.Uint32(uint32(len(flavors)))
	for _, f := range flavors {
		s := wire.Secinfo4{Flavor: f}
		s.Encode(c.e)
	}
	if c.minor > 0 {
		c.close()
		c.cur.n, c.hasSid = 0, false
	}
}
