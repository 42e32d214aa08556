// Wire goldens: the bytes are worked out by hand from RFC 1833 and RFC 4506.

package rpcb

import (
	"testing"

	"sluice/xdr"
	"sluice/xdr/xdrtest"
)

const nfsTCP = `000186a3 00000003 00000003 "tcp" 00 0000000d "0.0.0.0.8.1" 00 00 000000 00000001 "0" 000000`

func TestGolden(t *testing.T) {
	nfs := Rpcb{RProg: 100003, RVers: 3, RNetid: []byte("tcp"), RAddr: []byte("0.0.0.0.8.1\x00\x00"), ROwner: []byte("0")}
	var stat RpcbStatByvers
	stat[1].Info[3] = 9
	stat[1].Setinfo, stat[1].Unsetinfo = 1, 2
	stat[1].Addrinfo = RpcbsAddrlistPtr{{Prog: 100003, Vers: 3, Success: 4, Failure: -1, Netid: []byte("tcp6")}}
	stat[2].Rmtinfo = RpcbsRmtcalllistPtr{{Prog: 1, Vers: 2, Proc: 3, Success: 4, Failure: 5, Indirect: 6, Netid: []byte("udp")}}
	const thirteen = `00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000 `

	for _, c := range []struct {
		name string
		v    xdr.Type
		wire string
	}{
		{"GETPORT", &Mapping{Prog: 100005, Vers: 3, Prot: IPPROTO_TCP, Port: 0}, `000186a5 00000003 00000006 00000000`},
		{"DUMP v2", &Pmaplist{{Map: Mapping{100000, 2, 6, 111}}, {Map: Mapping{100003, 3, 17, 2049}}},
			`00000001 000186a0 00000002 00000006 0000006f
			00000001 000186a3 00000003 00000011 00000801
			00000000`},
		{"CALLIT v2", &CallArgs{Prog: 1, Vers: 2, Proc: 3, Args: []byte{1, 2, 3, 4, 5}}, `00000001 00000002 00000003 00000005 0102030405 000000`},
		{"CALLIT v2 result", &CallResult{Port: 2049, Res: []byte{7}}, `00000801 00000001 07 000000`},
		{"SET", &nfs, nfsTCP},
		{"DUMP", &RpcblistPtr{{RpcbMap: nfs}}, `00000001` + nfsTCP + `00000000`},
		{"CALLIT", &RpcbRmtcallargs{Prog: 1, Vers: 2, Proc: 3, Args: []byte{}}, `00000001 00000002 00000003 00000000`},
		{"CALLIT result", &RpcbRmtcallres{Addr: []byte("1.2"), Results: []byte{7}}, `00000003 "1.2" 00 00000001 07 000000`},
		{"GETADDRLIST", &RpcbEntryListPtr{{RpcbEntryMap: RpcbEntry{RMaddr: []byte("::1.8.1"), RNcNetid: []byte("tcp6"), RNcSemantics: 3, RNcProtofmly: []byte("inet6"), RNcProto: []byte("tcp")}}},
			`00000001 00000007 "::1.8.1" 00 00000004 "tcp6" 00000003 00000005 "inet6" 000000 00000003 "tcp" 00 00000000`},
		{"UADDR2TADDR", &Netbuf{Maxlen: 16, Buf: []byte{2, 0}}, `00000010 00000002 0200 0000`},
		{"GETSTAT", &stat,
			thirteen + `00000000 00000000 00000000 00000000
			00000000 00000000 00000000 00000009 00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000
			00000001 00000002
			00000001 000186a3 00000003 00000004 ffffffff 00000004 "tcp6" 00000000
			00000000` +
				thirteen + `00000000 00000000
			00000000
			00000001 00000001 00000002 00000003 00000004 00000005 00000006 00000003 "udp" 00 00000000`},
	} {
		t.Run(c.name, func(t *testing.T) { xdrtest.Golden(t, c.v, c.wire) })
	}
}

func TestRefused(t *testing.T) {
	for _, c := range []struct {
		name string
		v    xdr.Type
		wire string
		want error
	}{
		{"network id of 1025 bytes", new(Rpcb), `000186a3 00000003 00000401`, xdr.ErrTooLong},
		{"arguments of 64 KiB and one", new(CallArgs), `00000001 00000002 00000003 00010001`, xdr.ErrTooLong},
		{"mapping cut off", new(Mapping), `000186a3 00000003 00000006`, xdr.ErrShort},
		{"list flag of 2", new(Pmaplist), `00000002`, xdr.ErrBadValue},
	} {
		t.Run(c.name, func(t *testing.T) { xdrtest.Refused(t, c.v, c.wire, c.want) })
	}
}

func TestNames(t *testing.T) {
	for vers, names := range map[uint32][]string{
		2: {"NULL", "SET", "UNSET", "GETPORT", "DUMP", "CALLIT", ""},
		3: {"NULL", "SET", "UNSET", "GETADDR", "DUMP", "CALLIT", "GETTIME", "UADDR2TADDR", "TADDR2UADDR", ""},
		4: {"NULL", "SET", "UNSET", "GETADDR", "DUMP", "BCAST", "GETTIME", "UADDR2TADDR", "TADDR2UADDR", "GETVERSADDR", "INDIRECT", "GETADDRLIST", "GETSTAT", ""},
	} {
		for proc, want := range names {
			if got := ProcName(100000, vers, uint32(proc)); got != want {
				t.Errorf("version %d procedure %d is called %q, want %q", vers, proc, got, want)
			}
		}
	}
}
