package nfs4

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"sluice/xdr"
	wire "sluice/xdr/nfs4"
)

func modeMasked(value, mask uint32) wire.Fattr4 {
	return fattr(func(e *xdr.Encoder) { e.Uint32(value); e.Uint32(mask) }, wire.FATTR4_MODE_SET_MASKED)
}

// mode_set_masked changes the bits that its mask has, and no others (RFC 8881, 6.2.5).
func TestModeSetMasked(t *testing.T) {
	s := startServer(t)
	f := filepath.Join(s.dir, "f")
	must(t, os.WriteFile(f, nil, 0o600))
	must(t, unix.Chmod(f, 0o4750))
	x := s.session(1, "x")
	for _, c := range []struct {
		value, mask uint32
		want        wire.Nfsstat4
		mode        uint32
	}{
		{0o022, 0o077, ok, 0o4722}, {0, 0o4000, ok, 0o722}, {0o7777, 0, ok, 0o722}, {0o644, 0o7777, ok, 0o644},
		{0o10000, 0o7777, wire.NFS4ERR_INVAL, 0o644}, {0, 0o10000, wire.NFS4ERR_INVAL, 0o644},
	} {
		r := x.compound(root(), lookup("f"), op{wire.OP_SETATTR, &wire.SETATTR4args{ObjAttributes: modeMasked(c.value, c.mask)}})
		var st unix.Stat_t
		must(t, unix.Stat(f, &st))
		if r.status != c.want || st.Mode&0o7777 != c.mode {
			t.Errorf("%o of %o: %v, mode %o, want %v, %o", c.value, c.mask, r.status, st.Mode&0o7777, c.want, c.mode)
		}
	}
	both := fattr(func(e *xdr.Encoder) { e.Uint32(0o600); e.Uint32(0o600); e.Uint32(0o600) }, wire.FATTR4_MODE, wire.FATTR4_MODE_SET_MASKED)
	if r := x.compound(root(), lookup("f"), op{wire.OP_SETATTR, &wire.SETATTR4args{ObjAttributes: both}}); r.status != wire.NFS4ERR_INVAL {
		t.Errorf("beside a mode: %v", r.status)
	}
	mk := &wire.CREATE4args{Objtype: wire.Createtype4{Type: wire.NF4DIR}, Objname: []byte("d"), Createattrs: modeMasked(0o777, 0o705)}
	if r := x.compound(root(), op{wire.OP_CREATE, mk}); r.status != ok {
		t.Fatalf("CREATE: %v", r.status)
	}
	if st, err := os.Stat(filepath.Join(s.dir, "d")); err != nil || st.Mode().Perm() != 0o705 {
		t.Errorf("a new directory is %v, %v", st.Mode(), err)
	}
}
