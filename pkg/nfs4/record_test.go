// Client records over the wire: who may take a name over, and state protection.

package nfs4

import (
	"testing"
	"time"

	wire "sluice/xdr/nfs4"
)

// exchange sends EXCHANGE_ID.
func (c *conn) exchange(name string, verf byte, flags uint32, want wire.Nfsstat4) wire.EXCHANGEID4resok {
	t := c.s.t
	t.Helper()
	r := c.compound(op{wire.OP_EXCHANGE_ID, &wire.EXCHANGEID4args{EiaFlags: flags,
		EiaClientowner: wire.ClientOwner4{CoVerifier: wire.Verifier4{verf}, CoOwnerid: []byte(name)}}})
	if want != ok {
		r.next(t, wire.OP_EXCHANGE_ID, want, nil)
		return wire.EXCHANGEID4resok{}
	}
	var res wire.EXCHANGEID4res
	r.next(t, wire.OP_EXCHANGE_ID, ok, &res)
	return res.EirResok4
}

// confirm makes a session, by which the client is confirmed.
func (c *conn) confirm(eid *wire.EXCHANGEID4resok) {
	c.s.t.Helper()
	r := c.compound(op{wire.OP_CREATE_SESSION, &wire.CREATESESSION4args{CsaClientid: eid.EirClientid, CsaSequence: eid.EirSequenceid,
		CsaForeChanAttrs: testChannel, CsaBackChanAttrs: testChannel, CsaSecParms: []wire.CallbackSecParms4{{}}}})
	r.next(c.s.t, wire.OP_CREATE_SESSION, ok, &wire.CREATESESSION4res{})
}

// Another principal has no right to a name whose client holds something, until that one's lease has run out
// (RFC 8881, 18.35.4, case 3).
func TestNameOfAnother(t *testing.T) {
	s := startServer(t)
	a, b := s.session(2, "name"), s.conn()
	b.minor, b.cred.UID, b.cred.GID = 2, 1000, 1000
	a.open("f", wire.OPEN4_SHARE_ACCESS_READ)
	b.exchange("name", 1, 0, wire.NFS4ERR_CLID_INUSE)
	b.exchange("name", 1, wire.EXCHGID4_FLAG_UPD_CONFIRMED_REC_A, wire.NFS4ERR_PERM)
	if r := a.compound(root(), getfh()); r.status != ok {
		t.Fatalf("the holder after the attempts: %v", r.status)
	}
	s.clock.Add(int64(s.st.Lease() + time.Second))
	eid := b.exchange("name", 1, 0, ok)
	if eid.EirClientid == a.clientid || eid.EirFlags&wire.EXCHGID4_FLAG_CONFIRMED_R != 0 {
		t.Errorf("the id of another, or a confirmed one: %#x, flags %#x", eid.EirClientid, eid.EirFlags)
	}
	b.confirm(&eid)
	if c := s.st.Counters(); c.Clients != 1 || c.Opens != 0 {
		t.Errorf("of the expired client is left: %+v", c)
	}
	a.seq++
	a.conn.compound(a.sequence()).next(t, wire.OP_SEQUENCE, wire.NFS4ERR_BADSESSION, nil)
}

// A client that comes again with 4.1 takes the place of its record of 4.0, which cannot be updated (RFC 8881, 18.35.4: one
// name, one record).
func TestNameOf40(t *testing.T) {
	s := startServer(t)
	c := s.client40("name", 1)
	c.compound(root(), op{wire.OP_OPEN, openArgs("o", 1, c.clientid, "f", wire.OPEN4_SHARE_ACCESS_READ, 0, true)})
	x := s.conn()
	x.minor = 1
	x.exchange("name", 1, wire.EXCHGID4_FLAG_UPD_CONFIRMED_REC_A, wire.NFS4ERR_INVAL)
	eid := x.exchange("name", 1, 0, ok)
	renew := op{wire.OP_RENEW, &wire.RENEW4args{Clientid: c.clientid}}
	c.compound(renew).next(t, wire.OP_RENEW, ok, nil) // as long as the new one is not confirmed
	x.confirm(&eid)
	if r := c.compound(renew); r.status != wire.NFS4ERR_STALE_CLIENTID && r.status != wire.NFS4ERR_EXPIRED {
		t.Errorf("RENEW by the record of 4.0: %v", r.status)
	}
	if n := s.st.Counters(); n.Clients != 1 || n.Opens != 0 {
		t.Errorf("left of the record of 4.0: %+v", n)
	}
}

// State protection by machine credentials is for RPCSEC_GSS (RFC 8881, 2.10.8.3, 18.35.3), by SSV not served.
func TestStateProtection(t *testing.T) {
	s := startServer(t)
	c := s.conn()
	c.minor = 1
	ops := wire.StateProtectOps4{SpoMustEnforce: wire.Bits(int(wire.OP_CREATE_SESSION), int(wire.OP_DESTROY_SESSION))}
	for _, p := range []struct {
		protect wire.StateProtect4A
		want    wire.Nfsstat4
	}{
		{wire.StateProtect4A{SpaHow: wire.SP4_MACH_CRED, SpaMachOps: ops}, wire.NFS4ERR_INVAL},
		{wire.StateProtect4A{SpaHow: wire.SP4_SSV}, wire.NFS4ERR_ENCR_ALG_UNSUPP},
		{wire.StateProtect4A{SpaHow: 3}, wire.NFS4ERR_BADXDR},
		{wire.StateProtect4A{}, ok},
	} {
		r := c.compound(op{wire.OP_EXCHANGE_ID, &wire.EXCHANGEID4args{EiaStateProtect: p.protect, EiaClientowner: wire.ClientOwner4{CoOwnerid: []byte("protected")}}})
		if r.status != p.want {
			t.Errorf("protection %v: %v, want %v", p.protect.SpaHow, r.status, p.want)
		}
	}
	if c := s.st.Counters(); c.Clients != 0 || c.Unconfirmed != 1 {
		t.Errorf("a refused one left something: %+v", c)
	}
}

// The holder of a delegation that is being recalled may still open by it, which it does before it returns it
// (RFC 8881, 10.4.6).
func TestOpenDuringRecall(t *testing.T) {
	for _, claim := range []wire.OpenClaimType4{wire.CLAIM_DELEG_CUR_FH, wire.CLAIM_DELEGATE_CUR} {
		s := startServer(t, delegations)
		a, b := s.session(2, "a"), s.session(2, "b")
		_, o, fh := a.open("f", wire.OPEN4_SHARE_ACCESS_READ)
		if o.Delegation.DelegationType != wire.OPEN_DELEGATE_READ {
			t.Fatalf("no delegation: %+v", o.Delegation)
		}
		sid := o.Delegation.Read.Stateid
		if st, _, _ := b.open("f", wire.OPEN4_SHARE_ACCESS_WRITE); st != wire.NFS4ERR_DELAY {
			t.Fatalf("the OPEN in conflict: %v", st)
		}
		args := openArgs("another", 0, a.clientid, "", wire.OPEN4_SHARE_ACCESS_READ, 0, false)
		args.Claim = wire.OpenClaim4{Claim: claim, OcDelegateStateid: sid, DelegateCurInfo: wire.OpenClaimDelegateCur4{DelegateStateid: sid, File: []byte("f")}}
		at := putfh(fh)
		if claim == wire.CLAIM_DELEGATE_CUR {
			at = root()
		}
		r := a.compound(at, op{wire.OP_OPEN, args}, op{wire.OP_DELEGRETURN, &wire.DELEGRETURN4args{DelegStateid: sid}})
		skipTo(t, r, at.num)
		var own wire.OPEN4res
		r.next(t, wire.OP_OPEN, ok, &own)
		if d := own.Resok4.Delegation.DelegationType; d == wire.OPEN_DELEGATE_READ || d == wire.OPEN_DELEGATE_WRITE {
			t.Errorf("%v: a delegation of what is being recalled", claim)
		}
		r.next(t, wire.OP_DELEGRETURN, ok, nil)
		if st, _, _ := b.open("f", wire.OPEN4_SHARE_ACCESS_WRITE); st != ok {
			t.Errorf("%v: the OPEN after the return: %v", claim, st)
		}
	}
}
