// Wire goldens: the bytes are worked out by hand from RFC 1813, chapter 5,
// RFC 1094, appendix A, and RFC 4506.

package mount3

import (
	"testing"

	"sluice/xdr"
	"sluice/xdr/xdrtest"
)

func TestGolden(t *testing.T) {
	for _, c := range []struct {
		name string
		v    xdr.Type
		wire string
	}{
		{"MNT ok", &Mountres3{Mountinfo: Mountres3Ok{Fhandle: []byte{1, 2, 3}, AuthFlavors: []int32{1, 0}}},
			`00000000 00000003 010203 00 00000002 00000001 00000000`},
		{"MNT acces", &Mountres3{FhsStatus: MNT3ERR_ACCES}, `0000000d`},
		{"MNT notsupp", &Mountres3{FhsStatus: MNT3ERR_NOTSUPP}, `00002714`},
		{"MNT v1 ok", &Fhstatus{FhsFhandle: Fhandle{0: 0xa1, 31: 0xa2}},
			`00000000 a100000000000000 0000000000000000 0000000000000000 00000000000000a2`},
		{"MNT v1 fails", &Fhstatus{FhsStatus: 13}, `0000000d`},
		{"DUMP", &Mountlist{{MlHostname: []byte("h"), MlDirectory: []byte("/srv")}, {MlHostname: []byte("i"), MlDirectory: []byte("/a")}},
			`00000001 00000001 "h" 000000 00000004 "/srv"
			00000001 00000001 "i" 000000 00000002 "/a" 0000
			00000000`},
		{"DUMP empty", new(Mountlist), `00000000`},
		{"EXPORT", &Exports{
			{ExDir: []byte("/srv"), ExGroups: Groups{{GrName: []byte("h")}, {GrName: []byte("10/8")}}},
			{ExDir: []byte("/a")}},
			`00000001 00000004 "/srv"
				00000001 00000001 "h" 000000
				00000001 00000004 "10/8"
				00000000
			00000001 00000002 "/a" 0000
				00000000
			00000000`},
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
		{"2^31 flavours", new(Mountres3), `00000000 00000000 80000000`, xdr.ErrTooLong},
		{"flavours beyond the message", new(Mountres3), `00000000 00000000 00000002 00000001`, xdr.ErrShort},
		{"host name of 256 bytes", new(Mountlist), `00000001 00000100`, xdr.ErrTooLong},
		{"endless list", new(Groups), `00000001 00000001 "h" 000000`, xdr.ErrShort},
		{"status of 4", new(Mountres3), `00000004`, xdr.ErrBadValue},
	} {
		t.Run(c.name, func(t *testing.T) { xdrtest.Refused(t, c.v, c.wire, c.want) })
	}
}

func TestNames(t *testing.T) {
	names := []string{"NULL", "MNT", "DUMP", "UMNT", "UMNTALL", "EXPORT", "EXPORTALL"}
	for proc, want := range names {
		if got := ProcName(100005, 1, uint32(proc)); got != want {
			t.Errorf("version 1 procedure %d is called %q, want %q", proc, got, want)
		}
		if want == "EXPORTALL" { // not in version 3
			want = ""
		}
		if got := ProcName(100005, 3, uint32(proc)); got != want {
			t.Errorf("version 3 procedure %d is called %q, want %q", proc, got, want)
		}
	}
}
