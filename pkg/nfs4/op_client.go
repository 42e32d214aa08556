// Clients of 4.0 (RFC 7530, 16.27 to 16.37).

package nfs4

import (
	"sluice/pkg/state"
	wire "sluice/xdr/nfs4"
)

// maxAddr bounds the words of a callback address, in bytes: a universal address is far shorter.
const maxAddr = 128

func (c *compound) opSetClientID() status {
	var args wire.SETCLIENTID4args
	if args.Decode(c.d); c.bad() {
		return wire.NFS4ERR_BADXDR
	}
	loc := &args.Callback.CbLocation
	if len(loc.NaRNetid) > maxAddr || len(loc.NaRAddr) > maxAddr {
		return wire.NFS4ERR_INVAL
	}
	c.call.Addr = c.caller.Addr.String()
	r, err := c.s.st.SetClientID(&c.call, &state.SetClientIDArgs{
		Verifier: args.Client.Verifier, ID: args.Client.Id,
		Callback: state.CallbackTarget{
			Program: args.Callback.CbProgram, NetID: string(loc.NaRNetid), Addr: string(loc.NaRAddr), Ident: args.CallbackIdent,
		},
	})
	if err != nil {
		st := c.statusOf(err)
		if st == wire.NFS4ERR_CLID_INUSE {
			using := wire.Clientaddr4{NaRNetid: []byte(r.Holder.NetID), NaRAddr: []byte(r.Holder.Addr)}
			using.Encode(c.e)
			c.keepBody = true
		}
		return st
	}
	res := wire.SETCLIENTID4resok{Clientid: uint64(r.ClientID), SetclientidConfirm: r.Confirm}
	res.Encode(c.e)
	return ok
}

func (c *compound) opSetClientIDConfirm() status {
	var args wire.SETCLIENTIDCONFIRM4args
	if args.Decode(c.d); c.bad() {
		return wire.NFS4ERR_BADXDR
	}
	return c.statusOf(c.s.st.SetClientIDConfirm(&c.call, state.ClientID(args.Clientid), args.SetclientidConfirm))
}

func (c *compound) opRenew() status {
	var args wire.RENEW4args
	if args.Decode(c.d); c.bad() {
		return wire.NFS4ERR_BADXDR
	}
	return c.statusOf(c.s.st.Renew(&c.call, state.ClientID(args.Clientid)))
}

func (c *compound) opReleaseLockOwner() status {
	var args wire.RELEASELOCKOWNER4args
	if args.Decode(c.d); c.bad() {
		return wire.NFS4ERR_BADXDR
	}
	return c.statusOf(c.s.st.ReleaseLockOwner(&c.call, state.ClientID(args.LockOwner.Clientid), args.LockOwner.Owner))
}
