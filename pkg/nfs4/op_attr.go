// GETATTR, SETATTR, VERIFY, NVERIFY and ACCESS.

package nfs4

import (
	"bytes"

	"sluice/pkg/state"
	"sluice/pkg/vfs"
	wire "sluice/xdr/nfs4"
)

func (c *compound) opGetattr() status {
	var args wire.GETATTR4args
	if args.Decode(c.d); c.bad() {
		return wire.NFS4ERR_BADXDR
	}
	if st := c.openFH(); st != ok {
		return st
	}
	s := c.beginAttrs(&args.AttrRequest)
	w := s.known(&args.AttrRequest)
	if w.unreadable() {
		return wire.NFS4ERR_INVAL
	}
	if st := c.gather(s, &w); st != ok {
		return st
	}
	s.encode(c.e, w)
	return ok
}

func (c *compound) opVerify() status {
	st := c.compare()
	if st == wire.NFS4ERR_SAME {
		return ok
	}
	return st
}

func (c *compound) opNverify() status {
	st := c.compare()
	if st == wire.NFS4ERR_NOT_SAME {
		return ok
	}
	return st
}

// compare encodes the file's attributes and compares them with the client's: SAME, NOT_SAME, or an error.
func (c *compound) compare() status {
	var args wire.VERIFY4args
	if args.Decode(c.d); c.bad() {
		return wire.NFS4ERR_BADXDR
	}
	if st := c.openFH(); st != ok {
		return st
	}
	s := c.beginAttrs(&args.ObjAttributes.Attrmask)
	w := words(args.ObjAttributes.Attrmask.Words)
	if args.ObjAttributes.Attrmask.Beyond() {
		return wire.NFS4ERR_ATTRNOTSUPP
	}
	for i := range w {
		if w[i]&^s.supported[i] != 0 {
			return wire.NFS4ERR_ATTRNOTSUPP
		}
	}
	if w.has(wire.FATTR4_RDATTR_ERROR) || w.unreadable() {
		return wire.NFS4ERR_INVAL
	}
	if st := c.gather(s, &w); st != ok {
		return st
	}
	m, at := c.e.Mark(), len(c.e.Bytes())
	s.values(c.e, w)
	same := bytes.Equal(c.e.Bytes()[at:], args.ObjAttributes.AttrVals)
	c.e.Rollback(m)
	if same {
		return wire.NFS4ERR_SAME
	}
	return wire.NFS4ERR_NOT_SAME
}

func (c *compound) opSetattr() status {
	st := c.setattr()
	if st != ok && st != wouldBlock {
		c.emptyBitmap() // nothing has been set: a vfs.Setattr that fails may have set some, which the client finds out by GETATTR
	}
	return st
}

func (c *compound) setattr() status {
	var args wire.SETATTR4args
	if args.Decode(c.d); c.bad() {
		return wire.NFS4ERR_BADXDR
	}
	if st := c.openFH(); st != ok {
		return st
	}
	if st := c.set.take(c, &args.ObjAttributes, false, nil); st != ok {
		return st
	}
	a := &c.set
	// The stateid counts when the size is set; with any other it is looked at only if it is not a special one, as Linux does.
	c.caller.Opened = false
	if a.s.SetSize {
		if st := c.checkIO(&args.Stateid, state.AccessWrite); st != ok {
			return st
		}
	}
	if st := c.setAttrs(a); st != ok {
		return st
	}
	b := a.bitmap()
	b.Encode(c.e)
	return ok
}

// setAttrs sets what was taken on the current file.
func (c *compound) setAttrs(a *attrSetter) status {
	if a.s != (vfs.SetAttr{}) {
		if _, err := c.view.Setattr(c.node, &a.s); err != nil {
			return c.statusOf(err)
		}
	}
	return c.applyACL(a)
}

// accessXattr are the rights of RFC 8276, from 4.2 on.
const accessXattr = wire.ACCESS4_XAREAD | wire.ACCESS4_XAWRITE | wire.ACCESS4_XALIST

func (c *compound) opAccess() status {
	var args wire.ACCESS4args
	if args.Decode(c.d); c.bad() {
		return wire.NFS4ERR_BADXDR
	}
	if st := c.openFH(); st != ok {
		return st
	}
	known := uint32(0x3f)
	if c.minor >= 2 {
		known |= accessXattr
	}
	if args.Access&^known != 0 {
		if args.Access&^uint32(0x3f|accessXattr) != 0 || c.minor >= 2 {
			return wire.NFS4ERR_INVAL
		}
	}
	can := uint32(vfs.AccessRead | vfs.AccessModify | vfs.AccessExtend | vfs.AccessExecute)
	if c.node.Type() == vfs.TypeDir {
		can = vfs.AccessRead | vfs.AccessLookup | vfs.AccessModify | vfs.AccessExtend | vfs.AccessDelete
	}
	if c.minor >= 2 && c.view.XattrSupport(c.node) {
		can |= accessXattr
	}
	want := args.Access & known & can
	ask := want & 0x3f
	// Reading extended attributes takes what reading the file takes, and so on (RFC 8276, 8.4).
	if want&(wire.ACCESS4_XAREAD|wire.ACCESS4_XALIST) != 0 {
		ask |= vfs.AccessRead
	}
	if want&wire.ACCESS4_XAWRITE != 0 {
		ask |= vfs.AccessModify
	}
	granted, _, err := c.view.Access(c.node, ask)
	if err != nil {
		return c.statusOf(err)
	}
	got := granted & want & 0x3f
	if granted&vfs.AccessRead != 0 {
		got |= want & (wire.ACCESS4_XAREAD | wire.ACCESS4_XALIST)
	}
	if granted&vfs.AccessModify != 0 {
		got |= want & wire.ACCESS4_XAWRITE
	}
	res := wire.ACCESS4resok{Supported: want, Access: got}
	res.Encode(c.e)
	return ok
}
