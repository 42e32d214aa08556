// Messages that must not decode, limit by limit, and the cost of refusing them.

package nfs4

import (
	"fmt"
	"strings"
	"testing"

	"sluice/xdr"
	"sluice/xdr/xdrtest"
)

// filled returns n bytes in the notation of goldens.
func filled(n int) string { return strings.Repeat("00", n) }

func TestRefused(t *testing.T) {
	const head = ` 00000009 00000003 00000002 ` + ownerWire // of OPEN
	for _, c := range []struct {
		name string
		v    xdr.Type
		wire string
		want error
	}{
		{"handle of 129 bytes", new(PUTFH4args), `00000081` + filled(132), xdr.ErrTooLong},
		{"handle cut off", new(PUTFH4args), `00000008 01020304`, xdr.ErrShort},
		{"padding cut off", new(PUTFH4args), `00000005 0102030405`, xdr.ErrShort},
		{"name of 4 GiB", new(LOOKUP4args), `ffffffff 61000000`, xdr.ErrTooLong},
		{"name of 2 GiB", new(LOOKUP4args), `7fffffff 61000000`, xdr.ErrShort},
		{"nothing", new(GETATTR4args), ``, xdr.ErrShort},
		{"attributes longer than the message", new(SETATTR4args), sidWire + maskWire + `00000010 0000000000001000 000001a4`, xdr.ErrShort},

		{"open owner of 1025 bytes", new(OPEN4args), `00000009 00000003 00000002 1122334455667788 00000401` + filled(1028), xdr.ErrTooLong},
		{"lock owner of 1025 bytes", new(LOCKT4args), `00000001` + filled(16) + `1122334455667788 00000401` + filled(1028), xdr.ErrTooLong},
		{"4.0 client of 1025 bytes", new(SETCLIENTID4args), verfWire + `00000401` + filled(1028), xdr.ErrTooLong},
		{"4.1 client of 1025 bytes", new(EXCHANGEID4args), verfWire + `00000401` + filled(1028), xdr.ErrTooLong},
		{"two implementations of a client", new(EXCHANGEID4args), verfWire + `00000002 "me" 0000 00000000 00000000 00000002` + filled(64), xdr.ErrTooLong},
		{"SP4 of 3", new(EXCHANGEID4args), verfWire + `00000002 "me" 0000 00000000 00000003 00000000`, xdr.ErrBadValue},
		{"33 hash algorithms", new(SsvSpParms4), `00000000 00000000 00000021` + filled(33*4), xdr.ErrTooLong},
		{"33 encryption algorithms", new(SsvSpParms4), `00000000 00000000 00000000 00000021` + filled(33*4), xdr.ErrTooLong},
		{"two RDMA credits", new(CREATESESSION4args), filled(16) + filled(24) + `00000002` + filled(64), xdr.ErrTooLong},
		{"17 flavours", new(BACKCHANNELCTL4args), `40000000 00000011` + filled(17*4), xdr.ErrTooLong},
		{"flavour of 2", new(BACKCHANNELCTL4args), `40000000 00000001 00000002`, xdr.ErrBadValue},
		{"machine name of 256 bytes", new(AuthsysParms), `00000000 00000100` + filled(256), xdr.ErrTooLong},
		{"17 groups", new(AuthsysParms), `00000000 00000000 00000000 00000000 00000011` + filled(17*4), xdr.ErrTooLong},
		{"4097 stateids", new(TESTSTATEID4args), `00001001` + filled(4097*16), xdr.ErrTooLong},
		{"stateids beyond the message", new(TESTSTATEID4args), `00001000 00000007` + filled(12), xdr.ErrShort},
		{"65 device errors", new(LAYOUTERROR4args), filled(32) + `00000041` + filled(65*24), xdr.ErrTooLong},
		{"65 servers of a copy", new(COPY4args), filled(32+24+8) + `00000041` + filled(65*8), xdr.ErrTooLong},
		{"2049 entries of an ACL", new(Fattr4Acl), `00000801` + filled(2049*16), xdr.ErrTooLong},
		{"2049 entries of a dacl", new(Nfsacl41), `00000000 00000801` + filled(2049*16), xdr.ErrTooLong},
		{"1025 components", new(Pathname4), `00000401` + filled(1025*4), xdr.ErrTooLong},
		{"257 replicas", new(FsLocations4), `00000000 00000101` + filled(257*8), xdr.ErrTooLong},
		{"1025 segments", new(READPLUS4res), `00000000 00000000 00000401` + filled(1025*8), xdr.ErrTooLong},
		{"32769 names", new(LISTXATTRS4res), `00000000 0000000000000000 00008001` + filled(32769*4), xdr.ErrTooLong},
		{"two stateids of a copy", new(COPY4res), `00000000 00000002` + filled(64), xdr.ErrTooLong},
		{"65 sessions referred to", new(CBSEQUENCE4args), sessWire + filled(16) + `00000041` + filled(65*20), xdr.ErrTooLong},
		{"65 calls referred to", new(ReferringCallList4), sessWire + `00000041` + filled(65*8), xdr.ErrTooLong},
		{"1025 changes", new(CBNOTIFY4args), sidWire + fhWire + `00000401` + filled(1025*8), xdr.ErrTooLong},
		{"17 flavours of SECINFO", new(SECINFO4res), `00000000 00000011` + filled(17*4), xdr.ErrTooLong},

		{"opentype of 2", new(OPEN4args), head + `00000002 00000000` + nameWire, xdr.ErrBadValue},
		{"createmode of 4", new(OPEN4args), head + `00000001 00000004` + attrsWire + `00000000` + nameWire, xdr.ErrBadValue},
		{"claim of 7", new(OPEN4args), head + `00000000 00000007` + nameWire, xdr.ErrBadValue},
		{"reclaim of delegation type 6", new(OPEN4args), head + `00000000 00000001 00000006`, xdr.ErrBadValue},
		{"claim without an arm in WANT_DELEGATION", new(WANTDELEGATION4args), `00000000 00000000`, xdr.ErrBadValue},
		{"stable_how of 3", new(WRITE4args), sidWire + `0000000000000009 00000003 00000000`, xdr.ErrBadValue},
		{"lock type of 0", new(LOCK4args), filled(64), xdr.ErrBadValue},
		{"lock type of 5", new(LOCKU4args), `00000005` + filled(64), xdr.ErrBadValue},
		{"bool of 2", new(OPENATTR4args), `00000002`, xdr.ErrBadValue},
		{"bool of 2 in a run", new(SEQUENCE4args), sessWire + `00000001 00000000 00000000 00000002`, xdr.ErrBadValue},
		{"time_how of 2", new(Settime4), `00000002`, xdr.ErrBadValue},
		{"server of type 0", new(Netloc4), `00000000 00000000`, xdr.ErrBadValue},
		{"LAYOUTRETURN of 0", new(LAYOUTRETURN4args), filled(16), xdr.ErrBadValue},
		{"SEQUENCE cut off", new(SEQUENCE4args), sessWire + `00000001 00000000 00000000`, xdr.ErrShort},
	} {
		t.Run(c.name, func(t *testing.T) { xdrtest.Refused(t, c.v, c.wire, c.want) })
	}
}

// TestEncodeRefused: a union without an arm for its discriminant could not be
// read, so it is an error to write it.
func TestEncodeRefused(t *testing.T) {
	for _, v := range []xdr.Type{
		&OpenDelegation4{DelegationType: 6}, &Createhow4{Mode: 4}, &OpenClaim4{Claim: 7}, &CallbackSecParms4{CbSecflavor: 2}, &Netloc4{}, &NfsSpaceLimit4{},
	} {
		var e xdr.Encoder
		if v.Encode(&e); e.Err() != xdr.ErrBadValue {
			t.Errorf("encoding %+v: error %v", v, e.Err())
		}
	}
}

// TestLongestAccepted: the limits themselves are not above the limits.
func TestLongestAccepted(t *testing.T) {
	for _, c := range []struct {
		v    xdr.Type
		wire string
	}{
		{new(PUTFH4args), `00000080` + filled(128)},
		{new(NfsClientId4), verfWire + `00000400` + filled(1024)},
		{new(TESTSTATEID4args), `00001000` + filled(4096*16)},
		{new(AuthsysParms), `00000000 000000ff` + filled(256) + `00000000 00000000 00000010` + filled(64)},
		{new(Fattr4Acl), `00000800` + filled(2048*16)},
		{new(BACKCHANNELCTL4args), `40000000 00000010` + filled(16*4)},
		{new(LOOKUP4args), fmt.Sprintf("%08x", 1<<20) + filled(1<<20)},
	} {
		var d xdr.Decoder
		d.Reset(xdrtest.Wire(t, c.wire))
		if c.v.Decode(&d); d.Err() != nil || d.Len() != 0 {
			t.Errorf("%T: %d bytes left, error %v", c.v, d.Len(), d.Err())
		}
	}
}
