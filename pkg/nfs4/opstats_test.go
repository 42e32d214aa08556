package nfs4

import (
	"testing"

	wire "sluice/xdr/nfs4"
)

// Every operation of a COMPOUND counts once, also when the COMPOUND had to move
// to a thread that may sleep, and a failure under the operation that failed.
func TestOpStats(t *testing.T) {
	s := startServer(t)
	x := s.session(2, "counted")
	before := map[string]uint64{}
	for _, o := range s.svc.Ops() {
		before[o.Name] = o.Calls
	}
	_, o, fh := x.open("f", wire.OPEN4_SHARE_ACCESS_BOTH) // on a slow thread
	x.compound(putfh(fh), write(o.Stateid, 0, "0123456789"), getattr(wire.FATTR4_SIZE))
	x.compound(putfh(fh), read(o.Stateid, 0, 100)) // may begin on a fast one
	x.compound(root(), lookup("missing"), getfh())
	x.compound(root(), lookup("missing"))
	x.compound(op{wire.NfsOpnum4(3000), nil})
	want := map[string]uint64{"SEQUENCE": 6, "PUTROOTFH": 3, "PUTFH": 2, "OPEN": 1, "GETFH": 1, "WRITE": 1, "GETATTR": 1, "READ": 1, "LOOKUP": 2, "ILLEGAL": 1}
	for _, o := range s.svc.Ops() {
		if got := o.Calls - before[o.Name]; got != want[o.Name] {
			t.Errorf("%s: %d calls, want %d", o.Name, got, want[o.Name])
		}
		delete(want, o.Name)
		switch {
		case o.Name == "LOOKUP" && (len(o.Errors) != 1 || o.Errors[0] != OpErrors{"NFS4ERR_NOENT", 2}),
			o.Name == "ILLEGAL" && (len(o.Errors) != 1 || o.Errors[0] != OpErrors{"NFS4ERR_OP_ILLEGAL", 1}),
			o.Name == "READ" && len(o.Errors) != 0:
			t.Errorf("%s: errors %v", o.Name, o.Errors)
		}
	}
	if len(want) != 0 {
		t.Errorf("not counted: %v", want)
	}
}

func TestErrorPlaces(t *testing.T) {
	for _, st := range []status{wire.NFS4ERR_PERM, wire.NFS4ERR_STALE, wire.NFS4ERR_BADHANDLE, wire.NFS4ERR_XATTR2BIG} {
		if got := errorAt(errorPlace(st)); got != st {
			t.Errorf("%v is counted as %v", st, got)
		}
	}
	for _, st := range []status{smallErrors, 9999, 20000} {
		if p := errorPlace(st); p < 0 || p >= smallErrors+largeErrors {
			t.Errorf("%d is counted at %d", st, p)
		}
	}
}
