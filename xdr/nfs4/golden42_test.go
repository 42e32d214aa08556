// Wire goldens of the operations of 4.2, extended attributes among them.

package nfs4

import (
	"testing"

	"sluice/xdr"
)

func TestGolden42(t *testing.T) {
	response := WriteResponse4{WrCount: 1 << 32, WrCommitted: UNSTABLE4, WrWriteverf: verf}
	const responseWire = ` 00000000 0000000100000000 00000000 ` + verfWire
	run(t, []golden{
		{"READ_PLUS", &READPLUS4args{RpaStateid: sid, RpaOffset: 1, RpaCount: 2}, sidWire + `0000000000000001 00000002`},
		{"READ_PLUS ok", &READPLUS4res{RpResok4: ReadPlusRes4{RprEof: true, RprContents: []ReadPlusContent{
			{RpcContent: NFS4_CONTENT_DATA, RpcData: Data4{DOffset: 1, DData: xdr.NewBytes([]byte("data!"))}},
			{RpcContent: NFS4_CONTENT_HOLE, RpcHole: DataInfo4{DiOffset: 6, DiLength: 1 << 40}},
			{RpcContent: NFS4_CONTENT_DATA, RpcData: Data4{DOffset: 7, DData: xdr.NewBytes([]byte{})}}}}},
			`00000000 00000001 00000003
			00000000 0000000000000001 00000005 "data!" 000000
			00000001 0000000000000006 0000010000000000
			00000000 0000000000000007 00000000`},
		{"READ_PLUS at the end", &READPLUS4res{RpResok4: ReadPlusRes4{RprEof: true}}, `00000000 00000001 00000000`},
		{"SEEK", &SEEK4args{SaStateid: sid, SaOffset: 1, SaWhat: NFS4_CONTENT_HOLE}, sidWire + `0000000000000001 00000001`},
		{"SEEK of something else", &SEEK4args{SaStateid: sid, SaOffset: 1, SaWhat: 5}, sidWire + `0000000000000001 00000005`},
		{"SEEK ok", &SEEK4res{Resok4: SeekRes4{SrEof: true, SrOffset: 3}}, `00000000 00000001 0000000000000003`},
		{"ALLOCATE", &ALLOCATE4args{sid, 1, 2}, sidWire + `0000000000000001 0000000000000002`},
		{"DEALLOCATE", &DEALLOCATE4args{sid, 1, 2}, sidWire + `0000000000000001 0000000000000002`},
		{"IO_ADVISE", &IOADVISE4args{IaaStateid: sid, IaaOffset: 1, IaaCount: 2, IaaHints: Bits(IO_ADVISE4_SEQUENTIAL, IO_ADVISE4_NOREUSE, IO_ADVISE4_READ)},
			sidWire + `0000000000000001 0000000000000002 00000001 00000182`},
		{"IO_ADVISE ok", &IOADVISE4res{Resok4: IOADVISE4resok{Bits(IO_ADVISE4_NOREUSE)}}, `00000000 00000001 00000080`},
		{"WRITE_SAME", &WRITESAME4args{WsaStateid: sid, WsaStable: DATA_SYNC4, WsaAdb: AppDataBlock4{1, 2, 3, 4, 5, 6, name}},
			sidWire + `00000001 0000000000000001 0000000000000002 0000000000000003 0000000000000004 00000005 0000000000000006` + nameWire},
		{"WRITE_SAME ok", &WRITESAME4res{Resok4: response}, `00000000` + responseWire},
		{"CLONE", &CLONE4args{sid, Stateid4{}, 1, 2, 3}, sidWire + `00000000 000000000000000000000000 0000000000000001 0000000000000002 0000000000000003`},

		{"COPY on this server", &COPY4args{CaSrcStateid: sid, CaDstStateid: sid, CaSrcOffset: 1, CaDstOffset: 2, CaCount: 3, CaConsecutive: true, CaSynchronous: false},
			sidWire + sidWire + `0000000000000001 0000000000000002 0000000000000003 00000001 00000000 00000000`},
		{"COPY from another", &COPY4args{CaSynchronous: true, CaSourceServer: []Netloc4{
			{NlType: NL4_NAME, NlName: name}, {NlType: NL4_URL, NlUrl: name}, {NlType: NL4_NETADDR, NlAddr: Netaddr4{[]byte("tcp"), name}}}},
			zeroWords(8) + `0000000000000000 0000000000000000 0000000000000000 00000000 00000001 00000003
			00000001` + nameWire + `00000002` + nameWire + `00000003 00000003 "tcp" 00` + nameWire},
		{"COPY ok", &COPY4res{CrResok4: COPY4resok{CrResponse: response, CrRequirements: CopyRequirements4{true, true}}}, `00000000` + responseWire + `00000001 00000001`},
		{"COPY goes on", &COPY4res{CrResok4: COPY4resok{CrResponse: WriteResponse4{WrCallbackId: []Stateid4{sid}, WrCommitted: FILE_SYNC4, WrWriteverf: verf}, CrRequirements: CopyRequirements4{CrConsecutive: true}}},
			`00000000 00000001` + sidWire + `0000000000000000 00000002` + verfWire + `00000001 00000000`},
		{"COPY cannot do that", &COPY4res{CrStatus: NFS4ERR_OFFLOAD_NO_REQS, CrRequirements: CopyRequirements4{CrSynchronous: true}}, `0000276e 00000000 00000001`},
		{"COPY fails", &COPY4res{CrStatus: NFS4ERR_PARTNER_NOTSUPP}, `00002768`},
		{"COPY_NOTIFY", &COPYNOTIFY4args{CnaSrcStateid: sid, CnaDestinationServer: Netloc4{NlType: NL4_NAME, NlName: name}}, sidWire + `00000001` + nameWire},
		{"COPY_NOTIFY ok", &COPYNOTIFY4res{Resok4: COPYNOTIFY4resok{CnrLeaseTime: when, CnrStateid: sid, CnrSourceServer: []Netloc4{{NlType: NL4_NAME, NlName: name}}}},
			`00000000` + timeWire + sidWire + `00000001 00000001` + nameWire},
		{"OFFLOAD_CANCEL", &OFFLOADCANCEL4args{sid}, sidWire},
		{"OFFLOAD_STATUS", &OFFLOADSTATUS4args{sid}, sidWire},
		{"OFFLOAD_STATUS under way", &OFFLOADSTATUS4res{OsrResok4: OFFLOADSTATUS4resok{OsrCount: 9}}, `00000000 0000000000000009 00000000`},
		{"OFFLOAD_STATUS done", &OFFLOADSTATUS4res{OsrResok4: OFFLOADSTATUS4resok{OsrCount: 9, OsrComplete: []Nfsstat4{NFS4ERR_NOSPC}}}, `00000000 0000000000000009 00000001 0000001c`},

		{"GETXATTR", &GETXATTR4args{name}, nameWire},
		{"GETXATTR ok", &GETXATTR4res{GxrValue: []byte("value")}, `00000000 00000005 "value" 000000`},
		{"GETXATTR fails", &GETXATTR4res{GxrStatus: NFS4ERR_NOXATTR}, `0000276f`},
		{"SETXATTR", &SETXATTR4args{SETXATTR4_REPLACE, name, []byte("value")}, `00000002` + nameWire + `00000005 "value" 000000`},
		{"SETXATTR, unknown option", &SETXATTR4args{3, name, []byte("value")}, `00000003` + nameWire + `00000005 "value" 000000`},
		{"SETXATTR ok", &SETXATTR4res{SxrInfo: cinfo}, `00000000` + cinfoWire},
		{"SETXATTR fails", &SETXATTR4res{SxrStatus: NFS4ERR_XATTR2BIG}, `00002770`},
		{"LISTXATTRS", &LISTXATTRS4args{1, 0x10000}, `0000000000000001 00010000`},
		{"LISTXATTRS ok", &LISTXATTRS4res{LxrValue: LISTXATTRS4resok{LxrCookie: 2, LxrNames: [][]byte{name, []byte("b")}, LxrEof: true}},
			`00000000 0000000000000002 00000002` + nameWire + `00000001 "b" 000000 00000001`},
		{"REMOVEXATTR", &REMOVEXATTR4args{name}, nameWire},
		{"REMOVEXATTR ok", &REMOVEXATTR4res{RxrInfo: cinfo}, `00000000` + cinfoWire},
	})
}
