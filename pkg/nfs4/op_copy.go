// COPY, CLONE, OFFLOAD_STATUS, OFFLOAD_CANCEL (RFC 7862, 15.2 to 15.9 and 15.13).

package nfs4

import (
	"math"
	"slices"

	"sluice/pkg/state"
	"sluice/pkg/vfs"
	wire "sluice/xdr/nfs4"
)

// copyEnds readies source and target of COPY and CLONE: the saved and the current file.
func (c *compound) copyEnds(src, dst *wire.Stateid4) (vfs.Node, status) {
	if st := c.openFH(); st != ok {
		return vfs.Node{}, st
	}
	n, err := c.view.Source(c.saved.bytes())
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
	if !args.CaSynchronous {
		if done, st := c.copyLater(src, &args); done || st != ok {
			return st
		}
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

// copyLater leaves a copy to be done after the answer, if it can be.
func (c *compound) copyLater(src vfs.Node, args *wire.COPY4args) (done bool, st status) {
	a, err := c.view.Getattr(src)
	if err != nil {
		return false, c.statusOf(err)
	}
	if args.CaSrcOffset >= a.Size {
		return false, ok
	}
	// The end is fixed now: it must not run after a file that grows, or after itself.
	left := a.Size - args.CaSrcOffset
	if args.CaCount > 0 {
		left = min(left, args.CaCount)
	}
	if args.CaDstOffset > math.MaxInt64 || left > math.MaxInt64-args.CaDstOffset {
		return false, wire.NFS4ERR_FBIG
	}
	if src.Key() == c.node.Key() && vfs.Overlap(args.CaSrcOffset, args.CaDstOffset, left) {
		return false, wire.NFS4ERR_INVAL
	}
	o := &offload{
		asked: c.asked, client: c.call.Client, principal: c.call.Principal, caller: c.caller, src: c.saved, dst: c.cur,
		srcSid: c.copySid(&args.CaSrcStateid, c.savedSid), dstSid: c.copySid(&args.CaDstStateid, c.sid),
		srcOff: args.CaSrcOffset, dstOff: args.CaDstOffset, left: left,
		srcKey: src.Key(), dstKey: c.node.Key(), bytes: left,
	}
	o.caller.Cred.Groups = slices.Clone(o.caller.Cred.Groups)
	o.caller.Splice, o.caller.MayBlock, o.caller.Memo = false, true, nil
	if !c.s.copies.begin(o) {
		return false, ok
	}
	res := wire.COPY4resok{
		CrResponse:     wire.WriteResponse4{WrCallbackId: []wire.Stateid4{o.stateid()}, WrCommitted: wire.UNSTABLE4, WrWriteverf: c.view.Verifier()},
		CrRequirements: wire.CopyRequirements4{CrConsecutive: true},
	}
	res.Encode(c.e)
	return true, ok
}

// copySid is a stateid to look at again later, whatever has been done with the same open meanwhile.
func (c *compound) copySid(w *wire.Stateid4, current state.Stateid) state.Stateid {
	s := state.Stateid{Seqid: w.Seqid, Other: w.Other}
	if s == state.CurrentStateid {
		s = current
	}
	if !s.Special() {
		s.Seqid = 0
	}
	return s
}

func (c *compound) opOffloadStatus() status {
	var args wire.OFFLOADSTATUS4args
	if args.Decode(c.d); c.bad() {
		return wire.NFS4ERR_BADXDR
	}
	copied, finished, st, result := c.s.copies.query(c.call.Client, &args.OsaStateid)
	if st != ok {
		return st
	}
	res := wire.OFFLOADSTATUS4resok{OsrCount: copied}
	if finished {
		res.OsrComplete = []wire.Nfsstat4{result}
	}
	res.Encode(c.e)
	return ok
}

func (c *compound) opOffloadCancel() status {
	var args wire.OFFLOADCANCEL4args
	if args.Decode(c.d); c.bad() {
		return wire.NFS4ERR_BADXDR
	}
	return c.s.copies.cancel(c.call.Client, &args.OcaStateid)
}
