// Wire goldens of the operations of 4.1, and of the callback program.

package nfs4

import "testing"

const (
	sessWire = ` 101112131415161718191a1b1c1d1e1f `
	chanWire = ` 00000000 00100400 00100200 00001800 00000008 00000040 00000000 `
	devWire  = ` d0d1d2d3d4d5d6d7d8d9dadbdcdddedf `
)

var (
	sess   = [16]byte{0x10, 0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18, 0x19, 0x1a, 0x1b, 0x1c, 0x1d, 0x1e, 0x1f}
	dev    = [16]byte{0xd0, 0xd1, 0xd2, 0xd3, 0xd4, 0xd5, 0xd6, 0xd7, 0xd8, 0xd9, 0xda, 0xdb, 0xdc, 0xdd, 0xde, 0xdf}
	attr41 = ChannelAttrs4{CaMaxrequestsize: 0x100400, CaMaxresponsesize: 0x100200, CaMaxresponsesizeCached: 0x1800, CaMaxoperations: 8, CaMaxrequests: 64}
)

func TestGoldenSessions(t *testing.T) {
	impl := NfsImplId4{NiiDomain: []byte("example"), NiiName: []byte("v1"), NiiDate: when}
	const implWire = ` 00000007 "example" 00 00000002 "v1" 0000 ` + timeWire
	const clientWire = verfWire + ` 00000002 "me" 0000 `
	client := ClientOwner4{CoVerifier: verf, CoOwnerid: []byte("me")}
	ops := StateProtectOps4{SpoMustEnforce: Bits(OP_EXCHANGE_ID, OP_CREATE_SESSION, OP_DESTROY_CLIENTID), SpoMustAllow: Bits(OP_CLOSE, OP_LOCKU)}
	const opsWire = `
		00000002 00000000 02000c00   // 42, 43 and 57 are bits 10, 11 and 25 of word 1
		00000001 00004010            // 4 and 14
	`
	run(t, []golden{
		{"EXCHANGE_ID", &EXCHANGEID4args{EiaClientowner: client, EiaFlags: EXCHGID4_FLAG_SUPP_MOVED_REFER | EXCHGID4_FLAG_BIND_PRINC_STATEID, EiaClientImplId: []NfsImplId4{impl}},
			clientWire + `00000101 00000000 00000001` + implWire},
		{"EXCHANGE_ID, machine credential", &EXCHANGEID4args{EiaClientowner: client, EiaFlags: EXCHGID4_FLAG_UPD_CONFIRMED_REC_A,
			EiaStateProtect: StateProtect4A{SpaHow: SP4_MACH_CRED, SpaMachOps: ops}},
			clientWire + `40000000 00000001` + opsWire + `00000000`},
		{"EXCHANGE_ID, SSV", &EXCHANGEID4args{EiaClientowner: client,
			EiaStateProtect: StateProtect4A{SpaHow: SP4_SSV, SpaSsvParms: SsvSpParms4{SspOps: ops, SspHashAlgs: [][]byte{name}, SspEncrAlgs: [][]byte{name, fh}, SspWindow: 3, SspNumGssHandles: 1}}},
			clientWire + `00000000 00000002` + opsWire + `00000001` + nameWire + `00000002` + nameWire + fhWire + `00000003 00000001 00000000`},
		{"EXCHANGE_ID ok", &EXCHANGEID4res{EirResok4: EXCHANGEID4resok{EirClientid: 0x1122334455667788, EirSequenceid: 1, EirFlags: EXCHGID4_FLAG_CONFIRMED_R | EXCHGID4_FLAG_USE_NON_PNFS,
			EirServerOwner: ServerOwner4{SoMinorId: 1, SoMajorId: []byte("major")}, EirServerScope: []byte("scope"), EirServerImplId: []NfsImplId4{impl}}},
			`00000000 1122334455667788 00000001 80010000 00000000 0000000000000001 00000005 "major" 000000 00000005 "scope" 000000 00000001` + implWire},
		{"EXCHANGE_ID ok, machine credential", &EXCHANGEID4res{EirResok4: EXCHANGEID4resok{EirStateProtect: StateProtect4R{SprHow: SP4_MACH_CRED, SprMachOps: ops},
			EirServerOwner: ServerOwner4{SoMajorId: []byte("m")}, EirServerScope: []byte("s")}},
			`00000000 0000000000000000 00000000 00000000 00000001` + opsWire + `0000000000000000 00000001 "m" 000000 00000001 "s" 000000 00000000`},
		{"EXCHANGE_ID fails", &EXCHANGEID4res{EirStatus: NFS4ERR_CLID_INUSE}, `00002721`},

		{"CREATE_SESSION", &CREATESESSION4args{CsaClientid: 0x1122334455667788, CsaSequence: 1, CsaFlags: CREATE_SESSION4_FLAG_CONN_BACK_CHAN,
			CsaForeChanAttrs: attr41, CsaBackChanAttrs: ChannelAttrs4{CaMaxrequestsize: 4096, CaMaxresponsesize: 4096, CaMaxoperations: 2, CaMaxrequests: 16, CaRdmaIrd: []uint32{7}},
			CsaCbProgram: NFS4_CALLBACK, CsaSecParms: []CallbackSecParms4{
				{CbSecflavor: AUTH_SYS, CbspSysCred: AuthsysParms{Stamp: 5, Machinename: []byte("host"), Uid: 1000, Gid: 1001, Gids: []uint32{4, 24}}},
				{CbSecflavor: AUTH_NONE},
				{CbSecflavor: RPCSEC_GSS, CbspGssHandles: GssCbHandles4{GcbpService: RPC_GSS_SVC_PRIVACY, GcbpHandleFromServer: name, GcbpHandleFromClient: fh}}}},
			`1122334455667788 00000001 00000002` + chanWire + `
			00000000 00001000 00001000 00000000 00000002 00000010 00000001 00000007
			40000000 00000003
			00000001 00000005 00000004 "host" 000003e8 000003e9 00000002 00000004 00000018
			00000000
			00000006 00000003` + nameWire + fhWire},
		{"CREATE_SESSION ok", &CREATESESSION4res{CsrResok4: CREATESESSION4resok{CsrSessionid: sess, CsrSequence: 1, CsrFlags: CREATE_SESSION4_FLAG_PERSIST, CsrForeChanAttrs: attr41, CsrBackChanAttrs: attr41}},
			`00000000` + sessWire + `00000001 00000001` + chanWire + chanWire},
		{"CREATE_SESSION fails", &CREATESESSION4res{CsrStatus: NFS4ERR_SEQ_MISORDERED}, `0000274f`},
		{"DESTROY_SESSION", &DESTROYSESSION4args{DsaSessionid: sess}, sessWire},
		{"DESTROY_CLIENTID", &DESTROYCLIENTID4args{DcaClientid: 1}, `0000000000000001`},
		{"DESTROY_CLIENTID fails", &DESTROYCLIENTID4res{DcrStatus: NFS4ERR_CLIENTID_BUSY}, `0000275a`},

		{"SEQUENCE", &SEQUENCE4args{SaSessionid: sess, SaSequenceid: 0xfffffffe, SaSlotid: 3, SaHighestSlotid: 63, SaCachethis: true},
			sessWire + `fffffffe 00000003 0000003f 00000001`},
		{"SEQUENCE ok", &SEQUENCE4res{SrResok4: SEQUENCE4resok{SrSessionid: sess, SrSequenceid: 0xfffffffe, SrSlotid: 3, SrHighestSlotid: 63, SrTargetHighestSlotid: 31,
			SrStatusFlags: SEQ4_STATUS_CB_PATH_DOWN | SEQ4_STATUS_RESTART_RECLAIM_NEEDED}},
			`00000000` + sessWire + `fffffffe 00000003 0000003f 0000001f 00000101`},
		{"SEQUENCE fails", &SEQUENCE4res{SrStatus: NFS4ERR_BADSESSION}, `00002744`},
		{"BACKCHANNEL_CTL", &BACKCHANNELCTL4args{BcaCbProgram: 0x40000001, BcaSecParms: []CallbackSecParms4{{}}}, `40000001 00000001 00000000`},
		{"BIND_CONN_TO_SESSION", &BINDCONNTOSESSION4args{BctsaSessid: sess, BctsaDir: CDFC4_BACK_OR_BOTH}, sessWire + `00000007 00000000`},
		{"BIND_CONN_TO_SESSION, unknown direction", &BINDCONNTOSESSION4args{BctsaSessid: sess, BctsaDir: 4}, sessWire + `00000004 00000000`},
		{"BIND_CONN_TO_SESSION ok", &BINDCONNTOSESSION4res{BctsrResok4: BINDCONNTOSESSION4resok{BctsrSessid: sess, BctsrDir: CDFS4_BOTH}}, `00000000` + sessWire + `00000003 00000000`},
		{"SET_SSV", &SETSSV4args{SsaSsv: name, SsaDigest: fh}, nameWire + fhWire},
		{"TEST_STATEID", &TESTSTATEID4args{TsStateids: []Stateid4{sid, {}}}, `00000002` + sidWire + `00000000 000000000000000000000000`},
		{"TEST_STATEID ok", &TESTSTATEID4res{TsrResok4: TESTSTATEID4resok{TsrStatusCodes: []Nfsstat4{NFS4_OK, NFS4ERR_BAD_STATEID}}}, `00000000 00000002 00000000 00002729`},
		{"FREE_STATEID", &FREESTATEID4args{FsaStateid: sid}, sidWire},
		{"RECLAIM_COMPLETE", &RECLAIMCOMPLETE4args{RcaOneFs: true}, `00000001`},
		{"RECLAIM_COMPLETE fails", &RECLAIMCOMPLETE4res{RcrStatus: NFS4ERR_COMPLETE_ALREADY}, `00002746`},
	})
	parent := SECINFONONAME4args(SECINFO_STYLE4_PARENT)
	unknown := SECINFONONAME4args(2)
	run(t, []golden{{"SECINFO_NO_NAME", &parent, `00000001`}, {"SECINFO_NO_NAME, unknown style", &unknown, `00000002`}})
}

func TestGoldenDelegations(t *testing.T) {
	run(t, []golden{
		{"WANT_DELEGATION", &WANTDELEGATION4args{WdaWant: OPEN4_SHARE_ACCESS_WANT_ANY_DELEG, WdaClaim: DelegClaim4{DcClaim: CLAIM_PREVIOUS, DcDelegateType: OPEN_DELEGATE_READ}},
			`00000300 00000001 00000001`},
		{"WANT_DELEGATION of the handle", &WANTDELEGATION4args{WdaClaim: DelegClaim4{DcClaim: CLAIM_FH}}, `00000000 00000004`},
		{"WANT_DELEGATION ok", &WANTDELEGATION4res{WdrResok4: OpenDelegation4{}}, `00000000 00000000`},
		{"GET_DIR_DELEGATION", &GETDIRDELEGATION4args{GddaNotificationTypes: Bits(NOTIFY4_ADD_ENTRY), GddaChildAttrDelay: when, GddaDirAttrDelay: when, GddaChildAttributes: mask},
			`00000000 00000001 00000008` + timeWire + timeWire + maskWire + `00000000`},
		{"GET_DIR_DELEGATION ok", &GETDIRDELEGATION4res{GddrResNonFatal4: GETDIRDELEGATION4resNonFatal{GddrnfResok4: GETDIRDELEGATION4resok{GddrCookieverf: verf, GddrStateid: sid, GddrChildAttributes: mask}}},
			`00000000 00000000` + verfWire + sidWire + `00000000` + maskWire + `00000000`},
		{"GET_DIR_DELEGATION, none now", &GETDIRDELEGATION4res{GddrResNonFatal4: GETDIRDELEGATION4resNonFatal{GddrnfStatus: GDD4_UNAVAIL, GddrnfWillSignalDelegAvail: true}},
			`00000000 00000001 00000001`},
	})
}

func TestGoldenLayouts(t *testing.T) {
	run(t, []golden{
		{"LAYOUTGET", &LAYOUTGET4args{LogaLayoutType: LAYOUT4_FLEX_FILES, LogaIomode: LAYOUTIOMODE4_RW, LogaOffset: 1, LogaLength: NFS4_UINT64_MAX, LogaMinlength: 2, LogaStateid: sid, LogaMaxcount: 4096},
			`00000000 00000004 00000002 0000000000000001 ffffffffffffffff 0000000000000002` + sidWire + `00001000`},
		{"LAYOUTGET of an unknown type and mode", &LAYOUTGET4args{LogaLayoutType: 99, LogaIomode: 4},
			`00000000 00000063 00000004 0000000000000000 0000000000000000 0000000000000000 00000000 000000000000000000000000 00000000`},
		{"LAYOUTGET ok", &LAYOUTGET4res{LogrResok4: LAYOUTGET4resok{LogrReturnOnClose: true, LogrStateid: sid, LogrLayout: []Layout4{
			{LoOffset: 1, LoLength: 2, LoIomode: LAYOUTIOMODE4_READ, LoContent: LayoutContent4{LAYOUT4_NFSV4_1_FILES, name}}}}},
			`00000000 00000001` + sidWire + `00000001 0000000000000001 0000000000000002 00000001 00000001` + nameWire},
		{"LAYOUTGET later", &LAYOUTGET4res{LogrStatus: NFS4ERR_LAYOUTTRYLATER, LogrWillSignalLayoutAvail: true}, `0000274a 00000001`},
		{"LAYOUTGET fails", &LAYOUTGET4res{LogrStatus: NFS4ERR_LAYOUTUNAVAILABLE}, `0000274b`},
		{"LAYOUTCOMMIT", &LAYOUTCOMMIT4args{LocaOffset: 1, LocaLength: 2, LocaStateid: sid, LocaLastWriteOffset: Newoffset4{true, 2}, LocaTimeModify: Newtime4{true, when},
			LocaLayoutupdate: Layoutupdate4{LAYOUT4_BLOCK_VOLUME, name}},
			`0000000000000001 0000000000000002 00000000` + sidWire + `00000001 0000000000000002 00000001` + timeWire + `00000003` + nameWire},
		{"LAYOUTCOMMIT ok", &LAYOUTCOMMIT4res{LocrResok4: LAYOUTCOMMIT4resok{Newsize4{true, 9}}}, `00000000 00000001 0000000000000009`},
		{"LAYOUTRETURN of a file", &LAYOUTRETURN4args{LoraLayoutType: LAYOUT4_NFSV4_1_FILES, LoraIomode: LAYOUTIOMODE4_ANY,
			LoraLayoutreturn: Layoutreturn4{LAYOUTRETURN4_FILE, LayoutreturnFile4{1, 2, sid, name}}},
			`00000000 00000001 00000003 00000001 0000000000000001 0000000000000002` + sidWire + nameWire},
		{"LAYOUTRETURN of all", &LAYOUTRETURN4args{LoraLayoutreturn: Layoutreturn4{LrReturntype: LAYOUTRETURN4_ALL}}, `00000000 00000000 00000000 00000003`},
		{"LAYOUTRETURN ok", &LAYOUTRETURN4res{LorrStateid: LayoutreturnStateid{true, sid}}, `00000000 00000001` + sidWire},
		{"GETDEVICEINFO", &GETDEVICEINFO4args{GdiaDeviceId: dev, GdiaLayoutType: LAYOUT4_SCSI, GdiaMaxcount: 8, GdiaNotifyTypes: Bits(NOTIFY_DEVICEID4_DELETE)},
			devWire + `00000005 00000008 00000001 00000004`},
		{"GETDEVICEINFO too small", &GETDEVICEINFO4res{GdirStatus: NFS4ERR_TOOSMALL, GdirMincount: 100}, `00002715 00000064`},
		{"GETDEVICELIST", &GETDEVICELIST4args{GdlaLayoutType: LAYOUT4_NFSV4_1_FILES, GdlaMaxdevices: 2, GdlaCookie: 1, GdlaCookieverf: verf}, `00000001 00000002 0000000000000001` + verfWire},
		{"GETDEVICELIST ok", &GETDEVICELIST4res{GdlrResok4: GETDEVICELIST4resok{GdlrCookie: 1, GdlrCookieverf: verf, GdlrDeviceidList: [][16]byte{dev, dev}, GdlrEof: true}},
			`00000000 0000000000000001` + verfWire + `00000002` + devWire + devWire + `00000001`},
		{"LAYOUTERROR", &LAYOUTERROR4args{LeaOffset: 1, LeaLength: 2, LeaStateid: sid, LeaErrors: []DeviceError4{{dev, NFS4ERR_NXIO, OP_READ}}},
			`0000000000000001 0000000000000002` + sidWire + `00000001` + devWire + `00000006 00000019`},
		{"LAYOUTSTATS", &LAYOUTSTATS4args{LsaOffset: 1, LsaLength: 2, LsaStateid: sid, LsaRead: IoInfo4{3, 4}, LsaWrite: IoInfo4{5, 6}, LsaDeviceid: dev, LsaLayoutupdate: Layoutupdate4{LAYOUT4_FLEX_FILES, name}},
			`0000000000000001 0000000000000002` + sidWire + `0000000000000003 0000000000000004 0000000000000005 0000000000000006` + devWire + `00000004` + nameWire},
	})
}

func TestGoldenCallbacks(t *testing.T) {
	run(t, []golden{
		{"CB_GETATTR", &CBGETATTR4args{Fh: fh, AttrRequest: mask}, fhWire + maskWire},
		{"CB_GETATTR ok", &CBGETATTR4res{Resok4: CBGETATTR4resok{attrs}}, `00000000` + attrsWire},
		{"CB_RECALL", &CBRECALL4args{Stateid: sid, Truncate: true, Fh: fh}, sidWire + `00000001` + fhWire},
		{"CB_LAYOUTRECALL of a file", &CBLAYOUTRECALL4args{CloraType: LAYOUT4_NFSV4_1_FILES, CloraIomode: LAYOUTIOMODE4_ANY, CloraChanged: true,
			CloraRecall: Layoutrecall4{LorRecalltype: LAYOUTRECALL4_FILE, LorLayout: LayoutrecallFile4{fh, 1, 2, sid}}},
			`00000001 00000003 00000001 00000001` + fhWire + `0000000000000001 0000000000000002` + sidWire},
		{"CB_LAYOUTRECALL of a file system", &Layoutrecall4{LorRecalltype: LAYOUTRECALL4_FSID, LorFsid: Fsid4{1, 2}}, `00000002 0000000000000001 0000000000000002`},
		{"CB_LAYOUTRECALL of all", &Layoutrecall4{LorRecalltype: LAYOUTRECALL4_ALL}, `00000003`},
		{"CB_NOTIFY", &CBNOTIFY4args{CnaStateid: sid, CnaFh: fh, CnaChanges: []Notify4{{Bits(NOTIFY4_REMOVE_ENTRY), name}}}, sidWire + fhWire + `00000001 00000001 00000004` + nameWire},
		{"notify_add4", &NotifyAdd4{NadOldEntry: []NotifyRemove4{{NotifyEntry4{name, noAttrs}, 7}}, NadNewEntry: NotifyEntry4{name, attrs}, NadNewEntryCookie: []uint64{8},
			NadPrevEntry: []PrevEntry4{{NotifyEntry4{name, noAttrs}, 9}}, NadLastEntry: true},
			`00000001` + nameWire + `00000000 00000000 0000000000000007` + nameWire + attrsWire + `00000001 0000000000000008 00000001` + nameWire + `00000000 00000000 0000000000000009 00000001`},
		{"CB_NOTIFY_LOCK", &CBNOTIFYLOCK4args{CnlaFh: fh, CnlaLockOwner: owner}, fhWire + ownerWire},
		{"CB_PUSH_DELEG", &CBPUSHDELEG4args{CpdaFh: fh, CpdaDelegation: OpenDelegation4{DelegationType: OPEN_DELEGATE_READ, Read: OpenReadDelegation4{Stateid: sid, Permissions: ace}}},
			fhWire + `00000001` + sidWire + `00000000` + aceWire},
		{"CB_RECALL_ANY", &CBRECALLANY4args{CraaObjectsToKeep: 10, CraaTypeMask: Bits(RCA4_TYPE_MASK_RDATA_DLG, RCA4_TYPE_MASK_OTHER_LAYOUT_MAX)}, `0000000a 00000001 00008001`},
		{"CB_RECALL_SLOT", &CBRECALLSLOT4args{RsaTargetHighestSlotid: 3}, `00000003`},
		{"CB_SEQUENCE", &CBSEQUENCE4args{CsaSessionid: sess, CsaSequenceid: 1, CsaHighestSlotid: 15, CsaReferringCallLists: []ReferringCallList4{{sess, []ReferringCall4{{9, 2}}}}},
			sessWire + `00000001 00000000 0000000f 00000000 00000001` + sessWire + `00000001 00000009 00000002`},
		{"CB_SEQUENCE ok", &CBSEQUENCE4res{CsrResok4: CBSEQUENCE4resok{CsrSessionid: sess, CsrSequenceid: 1, CsrSlotid: 0, CsrHighestSlotid: 15, CsrTargetHighestSlotid: 14}},
			`00000000` + sessWire + `00000001 00000000 0000000f 0000000e`},
		{"CB_WANTS_CANCELLED", &CBWANTSCANCELLED4args{true, false}, `00000001 00000000`},
		{"CB_NOTIFY_DEVICEID", &CBNOTIFYDEVICEID4args{CndaChanges: []Notify4{{Bits(NOTIFY_DEVICEID4_CHANGE), name}}}, `00000001 00000001 00000002` + nameWire},
		{"notify_deviceid_change4", &NotifyDeviceidChange4{LAYOUT4_FLEX_FILES, dev, true}, `00000004` + devWire + `00000001`},
		{"CB_OFFLOAD done", &CBOFFLOAD4args{CoaFh: fh, CoaStateid: sid, CoaOffloadInfo: OffloadInfo4{CoaResok4: WriteResponse4{WrCount: 9, WrCommitted: FILE_SYNC4, WrWriteverf: verf}}},
			fhWire + sidWire + `00000000 00000000 0000000000000009 00000002` + verfWire},
		{"CB_OFFLOAD failed", &CBOFFLOAD4args{CoaFh: fh, CoaStateid: sid, CoaOffloadInfo: OffloadInfo4{CoaStatus: NFS4ERR_NOSPC, CoaBytesCopied: 8}},
			fhWire + sidWire + `0000001c 0000000000000008`},
		{"CB_ILLEGAL", &CBILLEGAL4res{NFS4ERR_OP_ILLEGAL}, `0000273c`},
	})
}
