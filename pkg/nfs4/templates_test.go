// The operations that fuzzed COMPOUNDs are made of, with arguments that make sense: what can succeed does.

package nfs4

import (
	"encoding/binary"
	"slices"
	"testing"

	"sluice/xdr"
	wire "sluice/xdr/nfs4"
)

// fuzzPutFH is the template that makes the open file current.
const fuzzPutFH = 1

// newLock locks a range for a lock owner that has no lock by this open yet.
func newLock(clientid uint64, open wire.Stateid4, off, n uint64, openSeq uint32) op {
	return op{wire.OP_LOCK, &wire.LOCK4args{Locktype: wire.WRITE_LT, Offset: off, Length: n, Locker: wire.Locker4{NewLockOwner: true,
		OpenOwner: wire.OpenToLockOwner4{OpenSeqid: openSeq, OpenStateid: open, LockSeqid: 1, LockOwner: wire.StateOwner4{Clientid: clientid, Owner: []byte("l")}}}}}
}

// templates are those for a COMPOUND of a minor version. Their number does not depend on it.
func (g *fuzzer) templates(minor uint8) []op {
	h, clientid := &g.held, g.x.clientid
	if minor == 0 && g.c40 != nil {
		h, clientid = &g.held40, g.c40.clientid
	}
	l := nameTemplates(h)
	l = append(l, attrTemplates(h)...)
	l = append(l, openTemplates(h, clientid)...)
	l = append(l, lockTemplates(h, clientid)...)
	l = append(l, g.ioTemplates(h)...)
	l = append(l, g.clientTemplates(h, clientid)...)
	return append(l, op{wire.NfsOpnum4(200), nil}, op{wire.OP_ILLEGAL, rawArgs{1, 2, 3, 4}})
}

// allAttrs are all that can be read, and some that there are not.
func allAttrs() wire.Bitmap4 {
	w := words{^uint32(0) &^ (1 << wire.FATTR4_RDATTR_ERROR), ^uint32(0), 0x7fffff}
	for n := range attrs {
		if attrs[n].get == nil && attrs[n].set != nil {
			w[n/32] &^= 1 << (n % 32)
		}
	}
	return wire.NewBitmap4(w)
}

func nameTemplates(h *held) []op {
	return []op{
		root(), putfh(h.fh), lookup("f"), lookup("d"), {wire.OP_LOOKUPP, nil}, getfh(), {wire.OP_SAVEFH, nil}, {wire.OP_RESTOREFH, nil}, {wire.OP_PUTPUBFH, nil},
		{wire.OP_ACCESS, &wire.ACCESS4args{Access: 0x3f}},
		{wire.OP_READDIR, &wire.READDIR4args{Dircount: 4096, Maxcount: 4096, AttrRequest: allAttrs()}},
		{wire.OP_CREATE, &wire.CREATE4args{Objtype: wire.Createtype4{Type: wire.NF4DIR}, Objname: []byte("n"), Createattrs: mode(0o755)}},
		{wire.OP_CREATE, &wire.CREATE4args{Objtype: wire.Createtype4{Type: wire.NF4LNK, Linkdata: []byte("f")}, Objname: []byte("l")}},
		remove("n"), remove("l"), remove("d"), {wire.OP_LINK, &wire.LINK4args{Newname: []byte("n")}},
		{wire.OP_RENAME, &wire.RENAME4args{Oldname: []byte("n"), Newname: []byte("d")}}, {wire.OP_READLINK, nil},
		{wire.OP_SECINFO, &wire.SECINFO4args{Name: []byte("f")}}, {wire.OP_SECINFO_NO_NAME, new(wire.SecinfoStyle4)},
		{wire.OP_OPENATTR, &wire.OPENATTR4args{}}, {wire.OP_GET_DIR_DELEGATION, &wire.GETDIRDELEGATION4args{}},
	}
}

func attrTemplates(h *held) []op {
	return []op{
		{wire.OP_GETATTR, &wire.GETATTR4args{AttrRequest: allAttrs()}},
		{wire.OP_SETATTR, &wire.SETATTR4args{Stateid: h.open, ObjAttributes: fattr(func(e *xdr.Encoder) { e.Uint64(5); e.Uint32(0o600) }, wire.FATTR4_SIZE, wire.FATTR4_MODE)}},
		{wire.OP_SETATTR, &wire.SETATTR4args{ObjAttributes: fattr(func(e *xdr.Encoder) {
			e.Uint32(2)
			for _, who := range []string{"OWNER@", "123"} {
				a := wire.Nfsace4{AccessMask: 7, Who: []byte(who)}
				a.Encode(e)
			}
		}, wire.FATTR4_ACL)}},
		{wire.OP_VERIFY, &wire.VERIFY4args{ObjAttributes: fattr(func(e *xdr.Encoder) { e.Uint32(1) }, wire.FATTR4_TYPE)}},
		{wire.OP_NVERIFY, &wire.NVERIFY4args{ObjAttributes: fattr(func(e *xdr.Encoder) { e.Uint64(1) }, wire.FATTR4_SIZE)}},
		{wire.OP_GETXATTR, &wire.GETXATTR4args{GxaName: []byte("a")}}, {wire.OP_SETXATTR, &wire.SETXATTR4args{SxaKey: []byte("a"), SxaValue: []byte("v")}},
		{wire.OP_LISTXATTRS, &wire.LISTXATTRS4args{LxaMaxcount: 4096}}, {wire.OP_REMOVEXATTR, &wire.REMOVEXATTR4args{RxaName: []byte("a")}},
	}
}

// openTemplates open a new file, the one that is open, and by each claim.
func openTemplates(h *held, clientid uint64) []op {
	open := func(name string, access, deny uint32, create bool, claim wire.OpenClaim4) op {
		a := openArgs("o", 0, clientid, name, access, deny, create)
		if claim.Claim != wire.CLAIM_NULL {
			a.Claim = claim
		}
		return op{wire.OP_OPEN, a}
	}
	exclusive := openArgs("o", 0, clientid, "x", wire.OPEN4_SHARE_ACCESS_BOTH, 0, true)
	exclusive.Openhow.How = wire.Createhow4{Mode: wire.EXCLUSIVE4_1, ChCreateboth: wire.Creatverfattr{CvaVerf: wire.Verifier4{1}, CvaAttrs: mode(0o600)}}
	null := wire.OpenClaim4{}
	return []op{
		open("g", wire.OPEN4_SHARE_ACCESS_BOTH, 0, true, null), open("f", wire.OPEN4_SHARE_ACCESS_READ, 0, false, null), open("h", wire.OPEN4_SHARE_ACCESS_WRITE, 0, false, null),
		open("g", wire.OPEN4_SHARE_ACCESS_READ, wire.OPEN4_SHARE_DENY_WRITE, true, null), {wire.OP_OPEN, exclusive},
		open("", wire.OPEN4_SHARE_ACCESS_BOTH, 0, false, wire.OpenClaim4{Claim: wire.CLAIM_FH}),
		open("", wire.OPEN4_SHARE_ACCESS_READ, 0, false, wire.OpenClaim4{Claim: wire.CLAIM_DELEG_CUR_FH, OcDelegateStateid: h.deleg}),
		open("", wire.OPEN4_SHARE_ACCESS_READ, 0, false, wire.OpenClaim4{Claim: wire.CLAIM_DELEGATE_CUR, DelegateCurInfo: wire.OpenClaimDelegateCur4{DelegateStateid: h.deleg, File: []byte("f")}}),
		open("", wire.OPEN4_SHARE_ACCESS_READ, 0, false, wire.OpenClaim4{Claim: wire.CLAIM_PREVIOUS, DelegateType: wire.OPEN_DELEGATE_READ}),
		{wire.OP_OPEN_CONFIRM, &wire.OPENCONFIRM4args{OpenStateid: h.open}},
		{wire.OP_OPEN_DOWNGRADE, &wire.OPENDOWNGRADE4args{OpenStateid: h.open, ShareAccess: wire.OPEN4_SHARE_ACCESS_BOTH}},
		{wire.OP_OPEN_DOWNGRADE, &wire.OPENDOWNGRADE4args{OpenStateid: wire.Stateid4{Seqid: 1}, ShareAccess: 1}},
		{wire.OP_CLOSE, &wire.CLOSE4args{OpenStateid: h.open}}, {wire.OP_CLOSE, &wire.CLOSE4args{OpenStateid: wire.Stateid4{Seqid: 1}}},
		{wire.OP_DELEGRETURN, &wire.DELEGRETURN4args{DelegStateid: h.deleg}}, {wire.OP_DELEGPURGE, &wire.DELEGPURGE4args{Clientid: clientid}},
		{wire.OP_WANT_DELEGATION, &wire.WANTDELEGATION4args{WdaClaim: wire.DelegClaim4{DcClaim: wire.CLAIM_FH}}},
		{wire.OP_TEST_STATEID, &wire.TESTSTATEID4args{TsStateids: []wire.Stateid4{h.open, h.lock, h.deleg, {}}}},
		{wire.OP_FREE_STATEID, &wire.FREESTATEID4args{FsaStateid: h.lock}},
	}
}

// lockTemplates lock by the open and by the lock that there is, and let go of all and of a part.
func lockTemplates(h *held, clientid uint64) []op {
	who := wire.StateOwner4{Clientid: clientid, Owner: []byte("l")}
	other := newLock(clientid, h.open, 200, 10, 0)
	other.args.(*wire.LOCK4args).Locker.OpenOwner.LockOwner.Owner = []byte("m")
	return []op{
		other, newLock(clientid, h.open, 0, 10, 0),
		{wire.OP_LOCK, &wire.LOCK4args{Locktype: wire.READ_LT, Offset: 50, Length: 100, Locker: wire.Locker4{LockOwner: wire.ExistLockOwner4{LockStateid: h.lock}}}},
		{wire.OP_LOCKT, &wire.LOCKT4args{Locktype: wire.READ_LT, Length: 10, Owner: wire.StateOwner4{Clientid: clientid, Owner: []byte("m")}}},
		{wire.OP_LOCKU, &wire.LOCKU4args{Locktype: wire.WRITE_LT, LockStateid: h.lock, Offset: 20, Length: 10}},
		{wire.OP_LOCKU, &wire.LOCKU4args{Locktype: wire.WRITE_LT, LockStateid: h.lock, Length: ^uint64(0)}},
		{wire.OP_RELEASE_LOCKOWNER, &wire.RELEASELOCKOWNER4args{LockOwner: who}},
	}
}

func (g *fuzzer) ioTemplates(h *held) []op {
	copyOther := h.open.Other // that of the client's first copy
	q := &g.svc.copies
	q.mu.Lock()
	binary.BigEndian.PutUint32(copyOther[8:], firstCopyStateid+q.last+1)
	q.mu.Unlock()
	return []op{
		read(h.open, 0, 4096), read(wire.Stateid4{}, 3, 10), read(h.deleg, 1, 100), read(h.lock, 0, 1<<20), write(h.open, 0, "xyz"), write(wire.Stateid4{Seqid: 1}, 100, "xyz"),
		{wire.OP_WRITE, &wire.WRITE4args{Stateid: h.lock, Offset: 4096, Data: []byte("unstable")}}, {wire.OP_COMMIT, &wire.COMMIT4args{}},
		{wire.OP_SEEK, &wire.SEEK4args{SaStateid: h.open}}, {wire.OP_READ_PLUS, &wire.READPLUS4args{RpaStateid: h.open, RpaCount: 4096}},
		{wire.OP_ALLOCATE, &wire.ALLOCATE4args{AaStateid: h.open, AaLength: 100}}, {wire.OP_DEALLOCATE, &wire.DEALLOCATE4args{DaStateid: h.open, DaLength: 100}},
		{wire.OP_COPY, &wire.COPY4args{CaSrcStateid: h.open, CaDstStateid: h.open, CaDstOffset: 4096, CaCount: 3}},
		{wire.OP_COPY, &wire.COPY4args{CaSrcStateid: h.open, CaDstStateid: h.open, CaDstOffset: 4096, CaCount: 3, CaSynchronous: true}},
		{wire.OP_OFFLOAD_STATUS, &wire.OFFLOADSTATUS4args{}}, {wire.OP_OFFLOAD_STATUS, &wire.OFFLOADSTATUS4args{OsaStateid: wire.Stateid4{Seqid: 1, Other: copyOther}}},
		{wire.OP_OFFLOAD_CANCEL, &wire.OFFLOADCANCEL4args{OcaStateid: wire.Stateid4{Seqid: 1, Other: copyOther}}},
		{wire.OP_CLONE, &wire.CLONE4args{ClSrcStateid: h.open, ClDstStateid: h.open, ClDstOffset: 4096, ClCount: 4096}},
		{wire.OP_IO_ADVISE, &wire.IOADVISE4args{IaaStateid: h.open, IaaHints: wire.Bits(wire.IO_ADVISE4_NOREUSE)}},
		{wire.OP_LAYOUTGET, &wire.LAYOUTGET4args{LogaIomode: 1}},
	}
}

// clientTemplates make, change and end clients and sessions.
func (g *fuzzer) clientTemplates(h *held, clientid uint64) []op {
	session := func(id uint64, seq uint32) op {
		return op{wire.OP_CREATE_SESSION, &wire.CREATESESSION4args{CsaClientid: id, CsaSequence: seq, CsaFlags: wire.CREATE_SESSION4_FLAG_CONN_BACK_CHAN,
			CsaCbProgram: 0x40000000, CsaForeChanAttrs: testChannel, CsaBackChanAttrs: testChannel, CsaSecParms: []wire.CallbackSecParms4{{}}}}
	}
	exchange := func(name string, verf uint8, flags uint32) op {
		return op{wire.OP_EXCHANGE_ID, &wire.EXCHANGEID4args{EiaFlags: flags, EiaClientowner: wire.ClientOwner4{CoVerifier: wire.Verifier4{verf}, CoOwnerid: []byte(name)}}}
	}
	set := func(name string, verf uint8) op {
		return op{wire.OP_SETCLIENTID, &wire.SETCLIENTID4args{Client: wire.NfsClientId4{Verifier: wire.Verifier4{verf}, Id: []byte(name)},
			Callback: wire.CbClient4{CbProgram: 0x40000000, CbLocation: wire.Clientaddr4{NaRNetid: []byte("tcp"), NaRAddr: []byte("127.0.0.1.0.1")}}}}
	}
	return []op{
		session(g.spare.EirClientid, g.spare.EirSequenceid), session(g.x.clientid, 2), session(g.x.clientid, 3),
		exchange("other", 0, 0), exchange("spare", 1, 0), exchange("fuzz", g.x.lives, wire.EXCHGID4_FLAG_UPD_CONFIRMED_REC_A), exchange("fuzz40", 0, 0),
		set("other40", 1), set("fuzz40", g.lives), set("fuzz", 0),
		{wire.OP_SETCLIENTID_CONFIRM, &wire.SETCLIENTIDCONFIRM4args{Clientid: clientid}}, {wire.OP_RENEW, &wire.RENEW4args{Clientid: clientid}},
		{wire.OP_BIND_CONN_TO_SESSION, &wire.BINDCONNTOSESSION4args{BctsaSessid: g.x.id, BctsaDir: wire.CDFC4_FORE_OR_BOTH}},
		{wire.OP_BACKCHANNEL_CTL, &wire.BACKCHANNELCTL4args{}}, {wire.OP_BACKCHANNEL_CTL, &wire.BACKCHANNELCTL4args{BcaCbProgram: 0x40000001, BcaSecParms: []wire.CallbackSecParms4{{}}}},
		{wire.OP_RECLAIM_COMPLETE, &wire.RECLAIMCOMPLETE4args{}}, {wire.OP_SET_SSV, &wire.SETSSV4args{}},
		{wire.OP_DESTROY_SESSION, &wire.DESTROYSESSION4args{DsaSessionid: g.x.id}},
		{wire.OP_DESTROY_CLIENTID, &wire.DESTROYCLIENTID4args{DcaClientid: clientid}}, {wire.OP_DESTROY_CLIENTID, &wire.DESTROYCLIENTID4args{DcaClientid: g.spare.EirClientid}},
	}
}

// pick names a template: of those of an operation the first, second...
type pick struct {
	num wire.NfsOpnum4
	nth int
}

// fuzzSeeds are COMPOUNDs that succeed to the end, so that the state they change is in reach of what is made of them.
var fuzzSeeds = []struct {
	minor uint8
	picks []pick
}{
	{0, []pick{{wire.OP_PUTFH, 0}, {wire.OP_LOCK, 2}, {wire.OP_LOCKU, 0}, {wire.OP_LOCKU, 1}, {wire.OP_RELEASE_LOCKOWNER, 0}, {wire.OP_CLOSE, 0}}},
	{0, []pick{{wire.OP_PUTFH, 0}, {wire.OP_WRITE, 0}, {wire.OP_WRITE, 2}, {wire.OP_READ, 0}, {wire.OP_READ, 3}, {wire.OP_COMMIT, 0}, {wire.OP_LOCK, 0}, {wire.OP_OPEN_DOWNGRADE, 0}}},
	{0, []pick{{wire.OP_PUTROOTFH, 0}, {wire.OP_OPEN, 0}, {wire.OP_GETATTR, 0}, {wire.OP_PUTROOTFH, 0}, {wire.OP_OPEN, 2}}},
	{0, []pick{{wire.OP_SETCLIENTID, 0}, {wire.OP_SETCLIENTID, 1}, {wire.OP_RENEW, 0}}},
	{1, []pick{{wire.OP_PUTFH, 0}, {wire.OP_GETATTR, 0}, {wire.OP_ACCESS, 0}, {wire.OP_LOCK, 2}, {wire.OP_LOCKU, 1}, {wire.OP_FREE_STATEID, 0}, {wire.OP_CLOSE, 0}}},
	{1, []pick{{wire.OP_PUTROOTFH, 0}, {wire.OP_OPEN, 4}, {wire.OP_WRITE, 1}, {wire.OP_CLOSE, 1}, {wire.OP_PUTROOTFH, 0}, {wire.OP_READDIR, 0}, {wire.OP_SECINFO_NO_NAME, 0}}},
	{1, []pick{{wire.OP_EXCHANGE_ID, 1}}},
	{2, []pick{{wire.OP_PUTFH, 0}, {wire.OP_WRITE, 0}, {wire.OP_READ, 2}, {wire.OP_SEEK, 0}, {wire.OP_READ_PLUS, 0}, {wire.OP_ALLOCATE, 0}, {wire.OP_DEALLOCATE, 0}, {wire.OP_IO_ADVISE, 0}}},
	{2, []pick{{wire.OP_PUTFH, 0}, {wire.OP_SAVEFH, 0}, {wire.OP_COPY, 1}, {wire.OP_COPY, 0}, {wire.OP_OFFLOAD_STATUS, 1}}},
	{2, []pick{{wire.OP_PUTFH, 0}, {wire.OP_SETXATTR, 0}, {wire.OP_GETXATTR, 0}, {wire.OP_LISTXATTRS, 0}, {wire.OP_REMOVEXATTR, 0}, {wire.OP_SETATTR, 0}, {wire.OP_TEST_STATEID, 0}}},
	{2, []pick{{wire.OP_PUTFH, 0}, {wire.OP_OPEN, 5}, {wire.OP_PUTFH, 0}, {wire.OP_OPEN, 6}, {wire.OP_DELEGRETURN, 0}, {wire.OP_OPEN_DOWNGRADE, 0}}},
	{2, []pick{{wire.OP_PUTROOTFH, 0}, {wire.OP_OPEN, 0}, {wire.OP_CLOSE, 1}, {wire.OP_PUTROOTFH, 0}, {wire.OP_OPEN, 7}}},
	{2, []pick{{wire.OP_PUTROOTFH, 0}, {wire.OP_CREATE, 0}, {wire.OP_PUTROOTFH, 0}, {wire.OP_SAVEFH, 0}, {wire.OP_RENAME, 0}, {wire.OP_REMOVE, 2}}},
	{2, []pick{{wire.OP_BACKCHANNEL_CTL, 1}, {wire.OP_DESTROY_CLIENTID, 1}}},
	{fuzzBare, []pick{{wire.OP_CREATE_SESSION, 0}}},
	{fuzzBare, []pick{{wire.OP_CREATE_SESSION, 1}}},
	{fuzzBare, []pick{{wire.OP_BIND_CONN_TO_SESSION, 0}}},
	{fuzzBare, []pick{{wire.OP_EXCHANGE_ID, 2}}},
	{fuzzBare, []pick{{wire.OP_DESTROY_SESSION, 0}}},
}

// program is what makes FuzzCompound run these, with their arguments as they are.
func (g *fuzzer) program(picks []pick) (b []byte) {
	g.t.Helper()
	l := g.templates(2)
	for _, p := range picks {
		at := -1
		for range p.nth + 1 {
			at++
			n := slices.IndexFunc(l[at:], func(o op) bool { return o.num == p.num })
			if n < 0 {
				g.t.Fatalf("there is no template %d of %v", p.nth, p.num)
			}
			at += n
		}
		b = append(b, byte(at), 0)
	}
	return b
}

// The seeds do what they are for.
func TestFuzzSeeds(t *testing.T) {
	g := newFuzzer(t)
	if n := len(g.templates(2)); n > fuzzWait {
		t.Errorf("%d templates, of which one byte cannot tell", n)
	}
	for _, seed := range fuzzSeeds {
		g.fresh()
		if seed.minor == 0 && !g.fresh40() {
			t.Fatal("no client of 4.0")
		}
		script, n := g.build(seed.minor, g.program(seed.picks))
		if st, done := g.compound(t, script, n); st != ok {
			t.Errorf("4.%d %v: %v in the %dth", seed.minor, seed.picks, st, done)
		}
	}
	g.fresh()
}
