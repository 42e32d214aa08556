package nfs4

import (
	"os"
	"path/filepath"
	"testing"

	wire "sluice/xdr/nfs4"
)

// A file that lost its last name, here by a RENAME over it, can be used and
// closed by whoever has it open (RFC 8881 18.25.4), as with Linux.
func TestOpenFileWithoutName(t *testing.T) {
	s := startServer(t)
	x := s.session(1, "nameless")
	r := x.compound(root(), op{wire.OP_OPEN, openArgs("o", 0, x.clientid, "f", wire.OPEN4_SHARE_ACCESS_BOTH, 0, true)}, getfh())
	skipTo(t, r, wire.OP_PUTROOTFH)
	var o wire.OPEN4res
	r.next(t, wire.OP_OPEN, ok, &o)
	var g wire.GETFH4res
	r.next(t, wire.OP_GETFH, ok, &g)
	sid, fh := o.Resok4.Stateid, append([]byte(nil), g.Resok4.Object...)

	must(t, os.WriteFile(filepath.Join(s.dir, "other"), nil, 0o644))
	r = x.compound(root(), op{wire.OP_SAVEFH, nil}, op{wire.OP_RENAME, &wire.RENAME4args{Oldname: []byte("other"), Newname: []byte("f")}})
	skipTo(t, r, wire.OP_PUTROOTFH, wire.OP_SAVEFH, wire.OP_RENAME)

	r = x.compound(putfh(fh), write(sid, 0, "data"), op{wire.OP_CLOSE, &wire.CLOSE4args{OpenStateid: sid}})
	skipTo(t, r, wire.OP_PUTFH)
	var w wire.WRITE4res
	r.next(t, wire.OP_WRITE, ok, &w)
	var c wire.CLOSE4res
	r.next(t, wire.OP_CLOSE, ok, &c)
	if b, err := os.ReadFile(filepath.Join(s.dir, "f")); err != nil || len(b) != 0 {
		t.Errorf("the file that has the name now holds %q (%v)", b, err)
	}
}
