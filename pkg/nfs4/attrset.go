// Attributes that clients set: SETATTR, CREATE and OPEN.
//
// Plan: values are taken in ascending order of their numbers by the rows of the
// table (attr.go) into a vfs.SetAttr. What is set is answered in a bitmap; it
// never has a bit that was not asked for.

package nfs4

import (
	"math/bits"

	"sluice/pkg/vfs"
	"sluice/xdr"
	wire "sluice/xdr/nfs4"
)

// attrSetter is what a client's values become.
type attrSetter struct {
	c      *compound
	create bool // of a new file: mode_umask is allowed
	s      vfs.SetAttr
	w      words // what was given
	umask  uint32
	masked bool // umask is given
	acl    aclSetter
}

// take decodes a fattr4. allowed bounds what may be given, beyond what is
// supported; a nil one is everything.
func (a *attrSetter) take(c *compound, f *wire.Fattr4, create bool, allowed *words) status {
	*a = attrSetter{c: c, create: create, acl: a.acl}
	a.acl.reset()
	src := c.beginAttrs(&f.Attrmask)
	a.w = words(f.Attrmask.Words)
	if f.Attrmask.Beyond() {
		return wire.NFS4ERR_ATTRNOTSUPP
	}
	for i, v := range a.w {
		if v&^src.supported[i] != 0 {
			return wire.NFS4ERR_ATTRNOTSUPP
		}
		if v&^writable[i] != 0 || allowed != nil && v&^allowed[i] != 0 {
			return wire.NFS4ERR_INVAL
		}
	}
	var d xdr.Decoder
	d.Reset(f.AttrVals)
	for i, v := range a.w {
		for ; v != 0; v &= v - 1 {
			st := attrs[32*i+bits.TrailingZeros32(v)].set(a, &d)
			if d.Err() != nil {
				return wire.NFS4ERR_BADXDR
			}
			if st != ok {
				return st
			}
		}
	}
	if d.Len() != 0 {
		return wire.NFS4ERR_BADXDR
	}
	return ok
}

// bitmap is the answer when all was set.
func (a *attrSetter) bitmap() wire.Bitmap4 { return wire.NewBitmap4(a.w) }

func setSize(a *attrSetter, d *xdr.Decoder) status {
	a.s.SetSize, a.s.Size = true, d.Uint64()
	return ok
}

func setMode(a *attrSetter, d *xdr.Decoder) status {
	a.s.SetMode, a.s.Mode = true, d.Uint32()&0o7777
	return ok
}

// setModeMasked sets some bits of the mode (RFC 8881, 6.2.5).
func setModeMasked(a *attrSetter, d *xdr.Decoder) status {
	var m wire.ModeMasked4
	m.Decode(d)
	if a.s.SetMode || m.MmValueToSet&^0o7777 != 0 || m.MmMaskBits&^0o7777 != 0 {
		return wire.NFS4ERR_INVAL
	}
	a.s.SetMode, a.s.Mode, a.s.KeepMode = true, m.MmValueToSet, ^m.MmMaskBits
	return ok
}

// setModeUmask: RFC 8275, 4.
func setModeUmask(a *attrSetter, d *xdr.Decoder) status {
	mode, umask := d.Uint32(), d.Uint32()
	if !a.create || a.s.SetMode || mode&^0o7777 != 0 || umask&^0o777 != 0 {
		return wire.NFS4ERR_INVAL
	}
	a.s.SetMode, a.s.Mode = true, mode
	a.masked, a.umask = true, umask
	return ok
}

func setOwner(a *attrSetter, d *xdr.Decoder) (st status) {
	name := d.Opaque(xdr.Unbounded)
	if d.Err() == nil {
		a.s.SetUID = true
		a.s.UID, st = a.c.id(name, false)
	}
	return st
}

func setGroup(a *attrSetter, d *xdr.Decoder) (st status) {
	name := d.Opaque(xdr.Unbounded)
	if d.Err() == nil {
		a.s.SetGID = true
		a.s.GID, st = a.c.id(name, true)
	}
	return st
}

// id finds the number that an owner string stands for.
func (c *compound) id(name []byte, group bool) (uint32, status) {
	if len(name) == 0 {
		return 0, wire.NFS4ERR_INVAL
	}
	id, err := c.s.ids.id(name, group, c.call.MayBlock)
	switch err {
	case nil:
		return id, ok
	case vfs.ErrWouldBlock:
		return 0, wouldBlock
	}
	return 0, wire.NFS4ERR_BADOWNER
}

func takeTime(d *xdr.Decoder, how *vfs.TimeHow, t *vfs.Time) status {
	var v wire.Settime4
	v.Decode(d)
	if v.SetIt == wire.SET_TO_SERVER_TIME4 {
		*how = vfs.TimeServer
		return ok
	}
	if v.Time.Nseconds >= 1e9 {
		return wire.NFS4ERR_INVAL
	}
	*how, t.Sec, t.Nsec = vfs.TimeClient, v.Time.Seconds, v.Time.Nseconds
	return ok
}

func setAtime(a *attrSetter, d *xdr.Decoder) status { return takeTime(d, &a.s.AtimeHow, &a.s.Atime) }
func setMtime(a *attrSetter, d *xdr.Decoder) status { return takeTime(d, &a.s.MtimeHow, &a.s.Mtime) }
