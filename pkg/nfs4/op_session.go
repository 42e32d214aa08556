// Clients and sessions of 4.1 and 4.2 (RFC 8881, 18.33 to 18.51).

package nfs4

import (
	"sluice/pkg/state"
	wire "sluice/xdr/nfs4"
)

func (c *compound) opSequence() status {
	var args wire.SEQUENCE4args
	if args.Decode(c.d); c.bad() {
		return wire.NFS4ERR_BADXDR
	}
	a := state.SequenceArgs{
		SessionID: state.SessionID(args.SaSessionid), Sequence: args.SaSequenceid, Slot: args.SaSlotid, HighestSlot: args.SaHighestSlotid,
		CacheThis: args.SaCachethis, Last: c.ops == 1, Ops: uint32(c.ops), Size: uint32(c.size), Digest: c.digest(),
	}
	r, err := c.s.st.Sequence(&c.call, &a)
	switch err {
	case nil:
		c.sequence = true
	case state.ErrReplay:
		c.replay = r.Replay
		return replayed
	case state.ErrRetryUncached:
		c.uncached = true
	default:
		return c.statusOf(err)
	}
	c.asked = asked{args.SaSessionid, args.SaSequenceid, args.SaSlotid}
	c.cacheThis = args.SaCachethis
	c.limit, c.tooBig = c.base-rpcHeader+int(r.MaxReply), wire.NFS4ERR_REP_TOO_BIG
	if c.cacheThis && r.MaxCached < r.MaxReply {
		c.limit, c.tooBig = c.base-rpcHeader+int(r.MaxCached), wire.NFS4ERR_REP_TOO_BIG_TO_CACHE
	}
	res := wire.SEQUENCE4resok{
		SrSessionid: args.SaSessionid, SrSequenceid: args.SaSequenceid, SrSlotid: args.SaSlotid,
		SrHighestSlotid: r.Highest, SrTargetHighestSlotid: r.Target, SrStatusFlags: r.Status,
	}
	res.Encode(c.e)
	return ok
}

// machineOps are the operations that SP4_MACH_CRED can protect here.
var machineOps = wire.Bits(wire.OP_EXCHANGE_ID, wire.OP_CREATE_SESSION, wire.OP_DESTROY_SESSION, wire.OP_BIND_CONN_TO_SESSION, wire.OP_DESTROY_CLIENTID)

func (c *compound) opExchangeID() status {
	var args wire.EXCHANGEID4args
	if args.Decode(c.d); c.bad() || len(args.EiaClientImplId) > 1 {
		return wire.NFS4ERR_BADXDR
	}
	c.call.Addr = c.caller.Addr.String()
	a := state.ExchangeIDArgs{
		Verifier: args.EiaClientowner.CoVerifier, Owner: args.EiaClientowner.CoOwnerid, Flags: args.EiaFlags,
		Protect: state.Protect(args.EiaStateProtect.SpaHow),
	}
	for _, impl := range args.EiaClientImplId {
		a.ImplName = string(impl.NiiName[:min(len(impl.NiiName), 256)])
	}
	r, err := c.s.st.ExchangeID(&c.call, &a)
	if err != nil {
		return c.statusOf(err)
	}
	res := wire.EXCHANGEID4resok{
		EirClientid: uint64(r.ClientID), EirSequenceid: r.Sequence, EirFlags: r.Flags,
		EirStateProtect: wire.StateProtect4R{SprHow: wire.StateProtectHow4(r.Protect)},
		EirServerOwner:  wire.ServerOwner4{SoMajorId: c.s.cfg.ServerOwner},
		EirServerScope:  c.s.cfg.Scope,
	}
	if r.Protect == state.ProtectMachCred {
		asked := args.EiaStateProtect.SpaMachOps.SpoMustEnforce.Words
		for i := range asked {
			asked[i] &= machineOps.Words[i]
		}
		res.EirStateProtect.SprMachOps.SpoMustEnforce = wire.NewBitmap4(asked)
	}
	res.Encode(c.e)
	return ok
}

func takeChannel(w *wire.ChannelAttrs4) state.ChannelAttrs {
	return state.ChannelAttrs{
		HeaderPad: w.CaHeaderpadsize, MaxRequest: w.CaMaxrequestsize, MaxResponse: w.CaMaxresponsesize,
		MaxResponseCached: w.CaMaxresponsesizeCached, MaxOps: w.CaMaxoperations, MaxRequests: w.CaMaxrequests,
	}
}

func putChannel(a *state.ChannelAttrs) wire.ChannelAttrs4 {
	return wire.ChannelAttrs4{
		CaHeaderpadsize: a.HeaderPad, CaMaxrequestsize: a.MaxRequest, CaMaxresponsesize: a.MaxResponse,
		CaMaxresponsesizeCached: a.MaxResponseCached, CaMaxoperations: a.MaxOps, CaMaxrequests: a.MaxRequests,
	}
}

func takeCBSec(list []wire.CallbackSecParms4) []state.CBSec {
	out := make([]state.CBSec, len(list))
	for i := range list {
		out[i].Flavor = list[i].CbSecflavor
		if out[i].Flavor == wire.AUTH_SYS {
			p := &list[i].CbspSysCred
			out[i].UID, out[i].GID, out[i].Groups, out[i].Machine = p.Uid, p.Gid, p.Gids, string(p.Machinename)
		}
	}
	return out
}

func (c *compound) opCreateSession() status {
	var args wire.CREATESESSION4args
	if args.Decode(c.d); c.bad() || len(args.CsaForeChanAttrs.CaRdmaIrd) > 1 || len(args.CsaBackChanAttrs.CaRdmaIrd) > 1 {
		return wire.NFS4ERR_BADXDR
	}
	c.call.Addr = c.caller.Addr.String()
	r, err := c.s.st.CreateSession(&c.call, &state.CreateSessionArgs{
		ClientID: state.ClientID(args.CsaClientid), Sequence: args.CsaSequence, Flags: args.CsaFlags,
		Fore: takeChannel(&args.CsaForeChanAttrs), Back: takeChannel(&args.CsaBackChanAttrs),
		CBProgram: args.CsaCbProgram, CBSec: takeCBSec(args.CsaSecParms),
	})
	if err != nil {
		return c.statusOf(err)
	}
	res := wire.CREATESESSION4resok{
		CsrSessionid: r.SessionID, CsrSequence: r.Sequence, CsrFlags: r.Flags,
		CsrForeChanAttrs: putChannel(&r.Fore), CsrBackChanAttrs: putChannel(&r.Back),
	}
	res.Encode(c.e)
	return ok
}

func (c *compound) opDestroySession() status {
	var args wire.DESTROYSESSION4args
	if args.Decode(c.d); c.bad() {
		return wire.NFS4ERR_BADXDR
	}
	id := state.SessionID(args.DsaSessionid)
	if s := c.call.Session(); s != nil && s.ID() == id && c.index+1 < c.ops {
		return wire.NFS4ERR_NOT_ONLY_OP // RFC 8881, 18.37.3: the last one then
	}
	return c.statusOf(c.s.st.DestroySession(&c.call, id))
}

func (c *compound) opDestroyClientID() status {
	var args wire.DESTROYCLIENTID4args
	if args.Decode(c.d); c.bad() {
		return wire.NFS4ERR_BADXDR
	}
	return c.statusOf(c.s.st.DestroyClientID(&c.call, state.ClientID(args.DcaClientid)))
}

func (c *compound) opBindConn() status {
	var args wire.BINDCONNTOSESSION4args
	if args.Decode(c.d); c.bad() {
		return wire.NFS4ERR_BADXDR
	}
	if c.index > 0 {
		return wire.NFS4ERR_NOT_ONLY_OP
	}
	if args.BctsaDir < 0 || args.BctsaDir > 255 {
		return wire.NFS4ERR_INVAL
	}
	dir, err := c.s.st.BindConn(&c.call, state.SessionID(args.BctsaSessid), state.BindDir(args.BctsaDir))
	if err != nil {
		return c.statusOf(err)
	}
	res := wire.BINDCONNTOSESSION4resok{BctsrSessid: args.BctsaSessid, BctsrDir: wire.ChannelDirFromServer4(dir)}
	res.Encode(c.e)
	return ok
}

func (c *compound) opBackchannelCtl() status {
	var args wire.BACKCHANNELCTL4args
	if args.Decode(c.d); c.bad() {
		return wire.NFS4ERR_BADXDR
	}
	return c.statusOf(c.s.st.BackchannelCtl(&c.call, args.BcaCbProgram, takeCBSec(args.BcaSecParms)))
}

func (c *compound) opReclaimComplete() status {
	var args wire.RECLAIMCOMPLETE4args
	if args.Decode(c.d); c.bad() {
		return wire.NFS4ERR_BADXDR
	}
	if args.RcaOneFs && c.cur.n == 0 {
		return wire.NFS4ERR_NOFILEHANDLE
	}
	return c.statusOf(c.s.st.ReclaimComplete(&c.call, args.RcaOneFs))
}

func (c *compound) opTestStateid() status {
	var args wire.TESTSTATEID4args
	if args.Decode(c.d); c.bad() {
		return wire.NFS4ERR_BADXDR
	}
	c.e.Uint32(uint32(len(args.TsStateids)))
	for i := range args.TsStateids {
		sid, st := c.stateid(&args.TsStateids[i])
		if st == ok {
			st = c.statusOf(c.s.st.TestStateid(&c.call, sid))
		}
		if st == wouldBlock {
			return st
		}
		c.e.Uint32(uint32(st))
	}
	return ok
}

func (c *compound) opFreeStateid() status {
	var args wire.FREESTATEID4args
	if args.Decode(c.d); c.bad() {
		return wire.NFS4ERR_BADXDR
	}
	sid, st := c.stateid(&args.FsaStateid)
	if st != ok {
		return st
	}
	return c.statusOf(c.s.st.FreeStateid(&c.call, sid))
}
