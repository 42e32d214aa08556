// Operations for which the answer is "no", and not just NFS4ERR_NOTSUPP (which
// the table gives to those without a function).

package nfs4

import wire "sluice/xdr/nfs4"

// opGetDirDelegation: there is none to be had, now; a client that hears NOTSUPP never asks again, and one that hears this
// goes on without (RFC 8881, 18.39.3; newer Linux).
func (c *compound) opGetDirDelegation() status {
	var args wire.GETDIRDELEGATION4args
	if args.Decode(c.d); c.bad() {
		return wire.NFS4ERR_BADXDR
	}
	if st := c.openFH(); st != ok {
		return st
	}
	if st := c.directory(wire.NFS4ERR_NOTDIR); st != ok {
		return st
	}
	res := wire.GETDIRDELEGATION4resNonFatal{GddrnfStatus: wire.GDD4_UNAVAIL}
	res.Encode(c.e)
	return ok
}

// opLayoutGet: no file system here has layouts (fs_layout_types is not supported).
func (c *compound) opLayoutGet() status {
	var args wire.LAYOUTGET4args
	if args.Decode(c.d); c.bad() {
		return wire.NFS4ERR_BADXDR
	}
	switch args.LogaIomode {
	case wire.LAYOUTIOMODE4_READ, wire.LAYOUTIOMODE4_RW:
		return wire.NFS4ERR_LAYOUTUNAVAILABLE
	}
	return wire.NFS4ERR_BADIOMODE
}
