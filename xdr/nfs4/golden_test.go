// Wire goldens: the bytes are worked out by hand from the RFCs that nfs4.x
// names and from RFC 4506. Here the pieces and the operations of 4.0; those of
// 4.1, 4.2 and the callbacks are in the files beside this one.

package nfs4

import (
	"testing"

	"sluice/xdr"
	"sluice/xdr/xdrtest"
)

// Pieces that occur again and again, in both notations.
const (
	fhWire    = ` 00000005 0102030405 000000 `
	nameWire  = ` 00000003 "a.c" 00 `
	sidWire   = ` 00000007 a0a1a2a3a4a5a6a7a8a9aaab `
	verfWire  = ` cafebabedeadbeef `
	ownerWire = ` 1122334455667788 00000003 "own" 00 `
	timeWire  = ` 000000005f000001 00000002 `
	cinfoWire = ` 00000001 0000000000000005 0000000000000006 `
	attrsWire = `
		00000002 00000010 00000002   // size is bit 4 of word 0, mode is bit 1 of word 1
		0000000c                     // bytes of values
		0000000000001000             // size
		000001a4                     // mode 0644
	`
	maskWire = ` 00000002 00000010 00000002 `
	aceWire  = `
		00000000 00000000 00000001   // allow, no flags, READ_DATA
		00000006 "OWNER@" 0000
	`
	notFound = ` 00000002 `
)

var (
	fh    = []byte{1, 2, 3, 4, 5}
	name  = []byte("a.c")
	sid   = Stateid4{7, [12]byte{0xa0, 0xa1, 0xa2, 0xa3, 0xa4, 0xa5, 0xa6, 0xa7, 0xa8, 0xa9, 0xaa, 0xab}}
	verf  = [8]byte{0xca, 0xfe, 0xba, 0xbe, 0xde, 0xad, 0xbe, 0xef}
	owner = StateOwner4{Clientid: 0x1122334455667788, Owner: []byte("own")}
	when  = Nfstime4{0x5f000001, 2}
	cinfo = ChangeInfo4{Atomic: true, Before: 5, After: 6}
	mask  = Bits(FATTR4_SIZE, FATTR4_MODE)
	attrs = Fattr4{Attrmask: mask, AttrVals: []byte{0, 0, 0, 0, 0, 0, 16, 0, 0, 0, 1, 0xa4}}
	// noAttrs has no attribute; opaque of no bytes decodes as a slice that is not nil.
	noAttrs = Fattr4{AttrVals: []byte{}}
	ace     = Nfsace4{AccessMask: ACE4_READ_DATA, Who: []byte("OWNER@")}
)

// golden is one message in both notations.
type golden struct {
	name string
	v    xdr.Type
	wire string
}

func run(t *testing.T, goldens []golden) {
	t.Helper()
	for _, c := range goldens {
		t.Run(c.name, func(t *testing.T) { xdrtest.Golden(t, c.v, c.wire) })
	}
}

func TestGoldenNames(t *testing.T) {
	run(t, []golden{
		{"PUTFH", &PUTFH4args{Object: fh}, fhWire},
		{"PUTFH fails", &PUTFH4res{Status: NFS4ERR_BADHANDLE}, `00002711`},
		{"PUTROOTFH", &PUTROOTFH4args{}, ``},
		{"GETFH ok", &GETFH4res{Resok4: GETFH4resok{Object: fh}}, `00000000` + fhWire},
		{"GETFH fails", &GETFH4res{Status: NFS4ERR_NOFILEHANDLE}, `00002724`},
		{"RESTOREFH fails", &RESTOREFH4res{Status: NFS4ERR_RESTOREFH}, `0000272e`},
		{"LOOKUP", &LOOKUP4args{Objname: name}, nameWire},
		{"LOOKUP fails", &LOOKUP4res{Status: NFS4ERR_NOENT}, notFound},
		{"CREATE link", &CREATE4args{Objtype: Createtype4{Type: NF4LNK, Linkdata: []byte("to")}, Objname: name, Createattrs: attrs},
			`00000005 00000002 "to" 0000` + nameWire + attrsWire},
		{"CREATE device", &CREATE4args{Objtype: Createtype4{Type: NF4BLK, Devdata: Specdata4{8, 1}}, Objname: name, Createattrs: noAttrs},
			`00000003 00000008 00000001` + nameWire + `00000000 00000000`},
		{"CREATE character device", &Createtype4{Type: NF4CHR, Devdata: Specdata4{8, 1}}, `00000004 00000008 00000001`},
		{"CREATE directory", &CREATE4args{Objtype: Createtype4{Type: NF4DIR}, Objname: name, Createattrs: attrs}, `00000002` + nameWire + attrsWire},
		{"CREATE fifo", &Createtype4{Type: NF4FIFO}, `00000007`},
		{"CREATE of a regular file", &Createtype4{Type: NF4REG}, `00000001`},
		{"CREATE of an unknown type", &Createtype4{Type: 0x4d2}, `000004d2`},
		{"CREATE ok", &CREATE4res{Resok4: CREATE4resok{Cinfo: cinfo, Attrset: mask}}, `00000000` + cinfoWire + maskWire},
		{"LINK", &LINK4args{Newname: name}, nameWire},
		{"LINK ok", &LINK4res{Resok4: LINK4resok{Cinfo: cinfo}}, `00000000` + cinfoWire},
		{"REMOVE", &REMOVE4args{Target: name}, nameWire},
		{"REMOVE ok", &REMOVE4res{Resok4: REMOVE4resok{Cinfo: cinfo}}, `00000000` + cinfoWire},
		{"RENAME", &RENAME4args{Oldname: name, Newname: []byte("long")}, nameWire + `00000004 "long"`},
		{"RENAME ok", &RENAME4res{Resok4: RENAME4resok{SourceCinfo: cinfo, TargetCinfo: ChangeInfo4{Before: 8, After: 9}}},
			`00000000` + cinfoWire + `00000000 0000000000000008 0000000000000009`},
		{"READLINK ok", &READLINK4res{Resok4: READLINK4resok{Link: name}}, `00000000` + nameWire},
		{"READDIR", &READDIR4args{Cookie: 3, Cookieverf: verf, Dircount: 0x200, Maxcount: 0x8000, AttrRequest: mask},
			`0000000000000003` + verfWire + `00000200 00008000` + maskWire},
		{"READDIR ok", &READDIR4res{Resok4: READDIR4resok{Cookieverf: verf, Reply: Dirlist4{
			Entries: []Entry4{{Cookie: 3, Name: name, Attrs: attrs}, {Cookie: 4, Name: []byte("b"), Attrs: noAttrs}}, Eof: true}}},
			`00000000` + verfWire + `
			00000001 0000000000000003` + nameWire + attrsWire + `
			00000001 0000000000000004 00000001 "b" 000000 00000000 00000000
			00000000 00000001`},
		{"READDIR of nothing", &READDIR4res{Resok4: READDIR4resok{Cookieverf: verf, Reply: Dirlist4{Eof: true}}}, `00000000` + verfWire + `00000000 00000001`},
		{"OPENATTR", &OPENATTR4args{Createdir: true}, `00000001`},
		{"ILLEGAL", &ILLEGAL4res{Status: NFS4ERR_OP_ILLEGAL}, `0000273c`},
	})
}

func TestGoldenAttributes(t *testing.T) {
	run(t, []golden{
		{"GETATTR", &GETATTR4args{AttrRequest: mask}, maskWire},
		{"GETATTR of nothing", &GETATTR4args{}, `00000000`},
		{"GETATTR ok", &GETATTR4res{Resok4: GETATTR4resok{ObjAttributes: attrs}}, `00000000` + attrsWire},
		{"SETATTR", &SETATTR4args{Stateid: sid, ObjAttributes: attrs}, sidWire + attrsWire},
		{"SETATTR ok", &SETATTR4res{Attrsset: mask}, `00000000` + maskWire},
		{"SETATTR fails", &SETATTR4res{Status: NFS4ERR_PERM}, `00000001 00000000`},
		{"VERIFY", &VERIFY4args{ObjAttributes: attrs}, attrsWire},
		{"NVERIFY", &NVERIFY4args{ObjAttributes: attrs}, attrsWire},
		{"NVERIFY fails", &NVERIFY4res{Status: NFS4ERR_SAME}, `00002719`},
		{"ACCESS", &ACCESS4args{Access: ACCESS4_READ | ACCESS4_EXECUTE}, `00000021`},
		{"ACCESS ok", &ACCESS4res{Resok4: ACCESS4resok{Supported: 0x3f, Access: 0x21}}, `00000000 0000003f 00000021`},
		{"SECINFO", &SECINFO4args{Name: name}, nameWire},
		{"SECINFO ok", &SECINFO4res{Resok4: SECINFO4resok{
			{Flavor: RPCSEC_GSS, FlavorInfo: RpcsecGssInfo{Oid: []byte{0x2a, 0x86, 0x48}, Qop: 0, Service: RPC_GSS_SVC_INTEGRITY}}, {Flavor: AUTH_SYS}}},
			`00000000 00000002 00000006 00000003 2a8648 00 00000000 00000002 00000001`},
		{"SECINFO of nothing", &SECINFO4res{}, `00000000 00000000`},

		{"nfstime4 before 1970", &Nfstime4{-1, 999999999}, `ffffffffffffffff 3b9ac9ff`},
		{"settime4 server", &Settime4{}, `00000000`},
		{"settime4 client", &Settime4{SetIt: SET_TO_CLIENT_TIME4, Time: when}, `00000001` + timeWire},
		{"fsid4", &Fsid4{1, 2}, `0000000000000001 0000000000000002`},
		{"acl", &Fattr4Acl{ace, {Type: ACE4_ACCESS_DENIED_ACE_TYPE, Flag: ACE4_IDENTIFIER_GROUP, AccessMask: ACE4_DELETE, Who: []byte("1000")}},
			`00000002` + aceWire + `00000001 00000040 00010000 00000004 "1000"`},
		{"fs_locations4", &FsLocations4{FsRoot: Pathname4{name}, Locations: []FsLocation4{{Server: [][]byte{[]byte("host")}}}},
			`00000001` + nameWire + `00000001 00000001 00000004 "host" 00000000`},
		{"mode_umask4", &ModeUmask4{0o666, 0o22}, `000001b6 00000012`},
		{"dacl", &Nfsacl41{Na41Flag: ACL4_PROTECTED, Na41Aces: []Nfsace4{ace}}, `00000002 00000001` + aceWire},
		{"retention_set4", &RetentionSet4{RsEnable: true, RsDuration: []uint64{RET4_DURATION_INFINITE}}, `00000001 00000001 ffffffffffffffff`},
		{"change_attr_type4", &[]ChangeAttrType4{NFS4_CHANGE_TYPE_IS_TIME_METADATA}[0], `00000003`},
		{"sec_label4", &SecLabel4{LabelformatSpec4{1, 2}, name}, `00000001 00000002` + nameWire},
		{"open_arguments4", &OpenArguments4{
			OaShareAccess:     Bits(OPEN_ARGS_SHARE_ACCESS_READ, OPEN_ARGS_SHARE_ACCESS_WRITE, OPEN_ARGS_SHARE_ACCESS_BOTH),
			OaShareDeny:       Bits(OPEN_ARGS_SHARE_DENY_NONE),
			OaShareAccessWant: Bits(OPEN_ARGS_SHARE_ACCESS_WANT_DELEG_TIMESTAMPS, OPEN_ARGS_SHARE_ACCESS_WANT_OPEN_XOR_DELEGATION),
			OaOpenClaim:       Bits(OPEN_ARGS_OPEN_CLAIM_NULL, OPEN_ARGS_OPEN_CLAIM_DELEG_PREV_FH),
			OaCreateMode:      Bits(OPEN_ARGS_CREATE_MODE_EXCLUSIVE4_1),
		}, `00000001 0000000e 00000001 00000001 00000001 00300000 00000001 00000041 00000001 00000008`},
	})
}

func TestGoldenOpens(t *testing.T) {
	open := func(how Openflag4, claim OpenClaim4) *OPEN4args {
		return &OPEN4args{Seqid: 9, ShareAccess: OPEN4_SHARE_ACCESS_BOTH, ShareDeny: OPEN4_SHARE_DENY_WRITE, Owner: owner, Openhow: how, Claim: claim}
	}
	const head = ` 00000009 00000003 00000002 ` + ownerWire
	null := OpenClaim4{Claim: CLAIM_NULL, File: name}
	const nullWire = ` 00000000 ` + nameWire
	create := func(how Createhow4) Openflag4 { return Openflag4{Opentype: OPEN4_CREATE, How: how} }
	granted := func(d OpenDelegation4) *OPEN4res {
		return &OPEN4res{Resok4: OPEN4resok{Stateid: sid, Cinfo: cinfo, Rflags: OPEN4_RESULT_CONFIRM | OPEN4_RESULT_LOCKTYPE_POSIX, Attrset: mask, Delegation: d}}
	}
	const grantedWire = ` 00000000 ` + sidWire + cinfoWire + ` 00000006 ` + maskWire
	run(t, []golden{
		{"no create, NULL", open(Openflag4{}, null), head + `00000000` + nullWire},
		{"UNCHECKED", open(create(Createhow4{Mode: UNCHECKED4, Createattrs: attrs}), null), head + `00000001 00000000` + attrsWire + nullWire},
		{"GUARDED", open(create(Createhow4{Mode: GUARDED4, Createattrs: attrs}), null), head + `00000001 00000001` + attrsWire + nullWire},
		{"EXCLUSIVE", open(create(Createhow4{Mode: EXCLUSIVE4, Createverf: verf}), null), head + `00000001 00000002` + verfWire + nullWire},
		{"EXCLUSIVE4_1", open(create(Createhow4{Mode: EXCLUSIVE4_1, ChCreateboth: Creatverfattr{CvaVerf: verf, CvaAttrs: attrs}}), null),
			head + `00000001 00000003` + verfWire + attrsWire + nullWire},
		{"PREVIOUS", open(Openflag4{}, OpenClaim4{Claim: CLAIM_PREVIOUS, DelegateType: OPEN_DELEGATE_WRITE}), head + `00000000 00000001 00000002`},
		{"DELEGATE_CUR", open(Openflag4{}, OpenClaim4{Claim: CLAIM_DELEGATE_CUR, DelegateCurInfo: OpenClaimDelegateCur4{DelegateStateid: sid, File: name}}),
			head + `00000000 00000002` + sidWire + nameWire},
		{"DELEGATE_PREV", open(Openflag4{}, OpenClaim4{Claim: CLAIM_DELEGATE_PREV, FileDelegatePrev: name}), head + `00000000 00000003` + nameWire},
		{"FH", open(Openflag4{}, OpenClaim4{Claim: CLAIM_FH}), head + `00000000 00000004`},
		{"DELEG_CUR_FH", open(Openflag4{}, OpenClaim4{Claim: CLAIM_DELEG_CUR_FH, OcDelegateStateid: sid}), head + `00000000 00000005` + sidWire},
		{"DELEG_PREV_FH", open(Openflag4{}, OpenClaim4{Claim: CLAIM_DELEG_PREV_FH}), head + `00000000 00000006`},

		{"no delegation", granted(OpenDelegation4{}), grantedWire + `00000000`},
		{"read delegation", granted(OpenDelegation4{DelegationType: OPEN_DELEGATE_READ, Read: OpenReadDelegation4{Stateid: sid, Recall: true, Permissions: ace}}),
			grantedWire + `00000001` + sidWire + `00000001` + aceWire},
		{"write delegation", granted(OpenDelegation4{DelegationType: OPEN_DELEGATE_WRITE, Write: OpenWriteDelegation4{Stateid: sid,
			SpaceLimit: NfsSpaceLimit4{Limitby: NFS_LIMIT_SIZE, Filesize: NFS4_UINT64_MAX}, Permissions: ace}}),
			grantedWire + `00000002` + sidWire + `00000000 00000001 ffffffffffffffff` + aceWire},
		{"write delegation in blocks", granted(OpenDelegation4{DelegationType: OPEN_DELEGATE_WRITE_ATTRS_DELEG, Write: OpenWriteDelegation4{Stateid: sid,
			SpaceLimit: NfsSpaceLimit4{Limitby: NFS_LIMIT_BLOCKS, ModBlocks: NfsModifiedLimit4{4, 512}}, Permissions: ace}}),
			grantedWire + `00000005` + sidWire + `00000000 00000002 00000004 00000200` + aceWire},
		{"no delegation, contention", granted(OpenDelegation4{DelegationType: OPEN_DELEGATE_NONE_EXT, OdWhynone: OpenNoneDelegation4{OndWhy: WND4_CONTENTION, OndServerWillPushDeleg: true}}),
			grantedWire + `00000003 00000001 00000001`},
		{"no delegation, resource", granted(OpenDelegation4{DelegationType: OPEN_DELEGATE_NONE_EXT, OdWhynone: OpenNoneDelegation4{OndWhy: WND4_RESOURCE}}),
			grantedWire + `00000003 00000002 00000000`},
		{"no delegation, not wanted", granted(OpenDelegation4{DelegationType: OPEN_DELEGATE_NONE_EXT}), grantedWire + `00000003 00000000`},
		{"OPEN fails", &OPEN4res{Status: NFS4ERR_SHARE_DENIED}, `0000271f`},

		{"OPEN_CONFIRM", &OPENCONFIRM4args{OpenStateid: sid, Seqid: 3}, sidWire + `00000003`},
		{"OPEN_CONFIRM ok", &OPENCONFIRM4res{Resok4: OPENCONFIRM4resok{sid}}, `00000000` + sidWire},
		{"OPEN_DOWNGRADE", &OPENDOWNGRADE4args{OpenStateid: sid, Seqid: 3, ShareAccess: 1, ShareDeny: 2}, sidWire + `00000003 00000001 00000002`},
		{"OPEN_DOWNGRADE ok", &OPENDOWNGRADE4res{Resok4: OPENDOWNGRADE4resok{sid}}, `00000000` + sidWire},
		{"CLOSE", &CLOSE4args{Seqid: 3, OpenStateid: sid}, `00000003` + sidWire},
		{"CLOSE ok", &CLOSE4res{OpenStateid: sid}, `00000000` + sidWire},
		{"DELEGPURGE", &DELEGPURGE4args{Clientid: 1}, `0000000000000001`},
		{"DELEGRETURN", &DELEGRETURN4args{DelegStateid: sid}, sidWire},
	})
}

func TestGoldenData(t *testing.T) {
	run(t, []golden{
		{"READ", &READ4args{Stateid: sid, Offset: 1 << 40, Count: 1 << 20}, sidWire + `0000010000000000 00100000`},
		{"READ ok", &READ4res{Resok4: READ4resok{Eof: true, Data: xdr.NewBytes([]byte("data!"))}}, `00000000 00000001 00000005 "data!" 000000`},
		{"READ of nothing", &READ4res{Resok4: READ4resok{Data: xdr.NewBytes([]byte{})}}, `00000000 00000000 00000000`},
		{"READ fails", &READ4res{Status: NFS4ERR_LOCKED}, `0000271c`},
		{"WRITE", &WRITE4args{Stateid: sid, Offset: 9, Stable: FILE_SYNC4, Data: []byte("xyz")}, sidWire + `0000000000000009 00000002 00000003 "xyz" 00`},
		{"WRITE ok", &WRITE4res{Resok4: WRITE4resok{Count: 3, Committed: DATA_SYNC4, Writeverf: verf}}, `00000000 00000003 00000001` + verfWire},
		{"COMMIT", &COMMIT4args{Offset: 1, Count: 2}, `0000000000000001 00000002`},
		{"COMMIT ok", &COMMIT4res{Resok4: COMMIT4resok{verf}}, `00000000` + verfWire},

		{"LOCK, new owner", &LOCK4args{Locktype: WRITEW_LT, Reclaim: true, Offset: 8, Length: NFS4_UINT64_MAX,
			Locker: Locker4{NewLockOwner: true, OpenOwner: OpenToLockOwner4{OpenSeqid: 2, OpenStateid: sid, LockSeqid: 1, LockOwner: owner}}},
			`00000004 00000001 0000000000000008 ffffffffffffffff 00000001 00000002` + sidWire + `00000001` + ownerWire},
		{"LOCK, known owner", &LOCK4args{Locktype: READ_LT, Offset: 8, Length: 1, Locker: Locker4{LockOwner: ExistLockOwner4{LockStateid: sid, LockSeqid: 4}}},
			`00000001 00000000 0000000000000008 0000000000000001 00000000` + sidWire + `00000004`},
		{"LOCK ok", &LOCK4res{Resok4: LOCK4resok{sid}}, `00000000` + sidWire},
		{"LOCK denied", &LOCK4res{Status: NFS4ERR_DENIED, Denied: LOCK4denied{Offset: 8, Length: 1, Locktype: WRITE_LT, Owner: owner}},
			`0000271a 0000000000000008 0000000000000001 00000002` + ownerWire},
		{"LOCK fails", &LOCK4res{Status: NFS4ERR_GRACE}, `0000271d`},
		{"LOCKT", &LOCKT4args{Locktype: READ_LT, Offset: 8, Length: 1, Owner: owner}, `00000001 0000000000000008 0000000000000001` + ownerWire},
		{"LOCKT ok", &LOCKT4res{}, `00000000`},
		{"LOCKT denied", &LOCKT4res{Status: NFS4ERR_DENIED, Denied: LOCK4denied{Offset: 8, Length: 1, Locktype: WRITE_LT, Owner: owner}},
			`0000271a 0000000000000008 0000000000000001 00000002` + ownerWire},
		{"LOCKU", &LOCKU4args{Locktype: READ_LT, Seqid: 5, LockStateid: sid, Offset: 8, Length: 1}, `00000001 00000005` + sidWire + `0000000000000008 0000000000000001`},
		{"LOCKU ok", &LOCKU4res{LockStateid: sid}, `00000000` + sidWire},
		{"RELEASE_LOCKOWNER", &RELEASELOCKOWNER4args{LockOwner: owner}, ownerWire},
	})
}

func TestGoldenClients(t *testing.T) {
	run(t, []golden{
		{"SETCLIENTID", &SETCLIENTID4args{Client: NfsClientId4{Verifier: verf, Id: []byte("me")},
			Callback: CbClient4{CbProgram: NFS4_CALLBACK, CbLocation: Clientaddr4{NaRNetid: []byte("tcp"), NaRAddr: []byte("10.0.0.1.8.1")}}, CallbackIdent: 1},
			verfWire + `00000002 "me" 0000 40000000 00000003 "tcp" 00 0000000c "10.0.0.1.8.1" 00000001`},
		{"SETCLIENTID ok", &SETCLIENTID4res{Resok4: SETCLIENTID4resok{Clientid: 0x1122334455667788, SetclientidConfirm: verf}}, `00000000 1122334455667788` + verfWire},
		{"SETCLIENTID in use", &SETCLIENTID4res{Status: NFS4ERR_CLID_INUSE, ClientUsing: Clientaddr4{NaRNetid: []byte("tcp"), NaRAddr: []byte("10.0.0.1.8.1")}},
			`00002721 00000003 "tcp" 00 0000000c "10.0.0.1.8.1"`},
		{"SETCLIENTID_CONFIRM", &SETCLIENTIDCONFIRM4args{Clientid: 1, SetclientidConfirm: verf}, `0000000000000001` + verfWire},
		{"SETCLIENTID_CONFIRM fails", &SETCLIENTIDCONFIRM4res{Status: NFS4ERR_STALE_CLIENTID}, `00002726`},
		{"RENEW", &RENEW4args{Clientid: 1}, `0000000000000001`},
	})
}

// TestCompound reads and writes a COMPOUND as the interpreter does.
func TestCompound(t *testing.T) {
	wire := xdrtest.Wire(t, `
		00000003 "tag" 00 00000001 00000003
		00000016`+fhWire+`          // PUTFH
		0000000a                    // GETFH
		00000009`+maskWire)
	var d xdr.Decoder
	d.Reset(wire)
	var c COMPOUND4args
	c.Decode(&d)
	if string(c.Tag) != "tag" || c.Minorversion != 1 || c.Argarray != 3 || d.Err() != nil {
		t.Fatalf("decoded %+v, error %v", c, d.Err())
	}
	var got []NfsOpnum4
	for range c.Argarray {
		op := NfsOpnum4(d.Int32())
		got = append(got, op)
		operations[op][0].Decode(&d)
	}
	if d.Err() != nil || d.Len() != 0 || len(got) != 3 || got[0] != OP_PUTFH || got[1] != OP_GETFH || got[2] != OP_GETATTR {
		t.Errorf("operations %v, %d bytes left, error %v", got, d.Len(), d.Err())
	}
	if a := operations[OP_GETATTR][0].(*GETATTR4args); !a.AttrRequest.Has(FATTR4_MODE) {
		t.Errorf("GETATTR asks for %+v", a)
	}

	var e xdr.Encoder
	(&COMPOUND4res{Status: NFS4ERR_STALE, Tag: []byte("tag"), Resarray: 1}).Encode(&e)
	e.Int32(int32(OP_PUTFH))
	(&PUTFH4res{Status: NFS4ERR_STALE}).Encode(&e)
	if want := xdrtest.Wire(t, `00000046 00000003 "tag" 00 00000001 00000016 00000046`); string(e.Bytes()) != string(want) {
		t.Errorf("encoded %x, want %x", e.Bytes(), want)
	}

	e.Reset(nil)
	(&CBCOMPOUND4args{Tag: []byte("tag"), Minorversion: 1, CallbackIdent: 7, Argarray: 2}).Encode(&e)
	if want := xdrtest.Wire(t, `00000003 "tag" 00 00000001 00000007 00000002`); string(e.Bytes()) != string(want) {
		t.Errorf("callback encoded %x, want %x", e.Bytes(), want)
	}
	d.Reset(xdrtest.Wire(t, `00002729 00000003 "tag" 00 00000001 00000004 00002729`)) // CB_RECALL: BAD_STATEID
	var answer CBCOMPOUND4res
	var recall CBRECALL4res
	answer.Decode(&d)
	op := NfsCbOpnum4(d.Int32())
	recall.Decode(&d)
	if answer.Status != NFS4ERR_BAD_STATEID || answer.Resarray != 1 || op != OP_CB_RECALL || recall.Status != NFS4ERR_BAD_STATEID || d.Len() != 0 || d.Err() != nil {
		t.Errorf("callback's answer %+v, %v, %+v, error %v", answer, op, recall, d.Err())
	}

	d.Reset(xdrtest.Wire(t, `00000000 00000000 00000003 00000016 00000000`)) // three operations in eight bytes
	if c.Decode(&d); d.Err() != xdr.ErrShort {
		t.Errorf("count beyond the message: error %v", d.Err())
	}
}
