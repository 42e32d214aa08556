// COPY, CLONE, OFFLOAD_STATUS, OFFLOAD_CANCEL (RFC 7862, 15.2 to 15.9 and 15.13).

package nfs4

import (
	"sluice/pkg/state"
	"sluice/pkg/vfs"
	wire "sluice/xdr/nfs4"
)

// copyEnds readies source and target of COPY and CLONE: the saved and the current file.
func (c *compound) copyEnds(src, dst *wire.Stateid4) (vfs.Node, status) {
	if st := c.openFH(); st != ok {
		return vfs.Node{}, st
	}
	n, err := c.view.Node(c.saved.bytes())
	if err != nil {
		return n, c.statusOf(err)
	}
	if st := c.regularType(n.Type()); st != ok {
		return n, st
	}
	if st := c.regular(); st != ok {
		return n, st
	}
	// The source's stateid goes with the saved handle (RFC 7862, 15.2.3).
	sid, has := c.sid, c.hasSid
	c.sid, c.hasSid = c.savedSid, c.hasSavedSid
	st := c.checkIOOn(src, state.AccessRead, n.Key())
	c.sid, c.hasSid = sid, has
	if st != ok {
		return n, st
	}
	return n, c.checkIO(dst, state.AccessWrite)
}

func (c *compound) opCopy() status {
	var args wire.COPY4args
	if args.Decode(c.d); c.bad() {
		return wire.NFS4ERR_BADXDR
	}
	if len(args.CaSourceServer) > 0 {
		return wire.NFS4ERR_NOTSUPP // copies between servers
	}
	src, st := c.copyEnds(&args.CaSrcStateid, &args.CaDstStateid)
	if st != ok {
		return st
	}
	n, err := c.view.Copy(src, c.node, args.CaSrcOffset, args.CaDstOffset, args.CaCount)
	if err != nil {
		return c.statusOf(err)
	}
	verf, _, err := c.view.Commit(c.node, 0, 0)
	if err != nil {
		return c.statusOf(err)
	}
	res := wire.COPY4resok{
		CrResponse:     wire.WriteResponse4{WrCount: n, WrCommitted: wire.FILE_SYNC4, WrWriteverf: verf},
		CrRequirements: wire.CopyRequirements4{CrConsecutive: true, CrSynchronous: true},
	}
	res.Encode(c.e)
	return ok
}

func (c *compound) opClone() status {
	var args wire.CLONE4args
	if args.Decode(c.d); c.bad() {
		return wire.NFS4ERR_BADXDR
	}
	src, st := c.copyEnds(&args.ClSrcStateid, &args.ClDstStateid)
	if st != ok {
		return st
	}
	return c.statusOf(c.view.Clone(src, c.node, args.ClSrcOffset, args.ClDstOffset, args.ClCount))
}

// All copies are done when they are answered: no stateid names one.

func (c *compound) opOffloadStatus() status {
	var args wire.OFFLOADSTATUS4args
	if args.Decode(c.d); c.bad() {
		return wire.NFS4ERR_BADXDR
	}
	return wire.NFS4ERR_BAD_STATEID
}

func (c *compound) opOffloadCancel() status {
	var args wire.OFFLOADCANCEL4args
	if args.Decode(c.d); c.bad() {
		return wire.NFS4ERR_BADXDR
	}
	return wire.NFS4ERR_BAD_STATEID
}
