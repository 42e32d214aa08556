package nfs4

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"sluice/test/testenv"
	"sluice/xdr"
	wire "sluice/xdr/nfs4"
)

// Each attribute says the same in a listing and by GETATTR: of files that have access lists or cannot, where another file
// system is mounted, and of exports in the pseudo file system.
func TestListingAttributes(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "export") // a file system that nobody else writes to
	must(t, os.Mkdir(dir, 0o755))
	testenv.MountTmpfs(t, dir)
	at := func(n string) string { return filepath.Join(dir, n) }
	must(t, os.WriteFile(at("file"), make([]byte, 1<<20), 0o640))
	must(t, os.Symlink("file", at("link")))
	must(t, os.MkdirAll(at("mnt"), 0o755))
	must(t, os.MkdirAll(at("sub"), 0o755))
	must(t, unix.Mkfifo(at("fifo"), 0o644))
	testenv.MountTmpfs(t, at("mnt"))
	s := startTable(t, dir, dir+" *(rw,no_root_squash,insecure,crossmnt)\n", func(*Config) {})
	x := s.session(2, "x")
	acl := fattr(func(e *xdr.Encoder) {
		e.Uint32(2)
		for who, m := range map[string]uint32{"4711": wire.ACE4_READ_DATA, "EVERYONE@": wire.ACE4_READ_DATA | wire.ACE4_EXECUTE} {
			a := wire.Nfsace4{Type: wire.ACE4_ACCESS_ALLOWED_ACE_TYPE, AccessMask: m, Who: []byte(who)}
			a.Encode(e)
		}
	}, wire.FATTR4_ACL)
	for _, n := range []string{"file", "mnt"} {
		if r := x.compound(append(path(at(n)), op{wire.OP_SETATTR, &wire.SETATTR4args{ObjAttributes: acl}})...); r.status != ok {
			t.Fatalf("SETATTR of a list on %s: %v", n, r.status)
		}
	}
	get := func(p string, n int) []byte {
		ops := append(path(p), getattr(n))
		r := x.compound(ops...)
		skipAll(t, r, ops[:len(ops)-1])
		var g wire.GETATTR4res
		r.next(t, wire.OP_GETATTR, ok, &g)
		return append([]byte(nil), g.Resok4.ObjAttributes.AttrVals...)
	}
	for n := range numAttrs {
		if !supported[2].has(n) || attrs[n].get == nil || n == wire.FATTR4_RDATTR_ERROR || n == wire.FATTR4_TIME_ACCESS {
			continue // what listing itself changes
		}
		for in, names := range map[string]int{dir: 5, filepath.Dir(dir): 1} {
			ops := append(path(in), op{wire.OP_READDIR, &wire.READDIR4args{Dircount: 8192, Maxcount: 8192, AttrRequest: wire.Bits(n)}})
			r := x.compound(ops...)
			skipAll(t, r, ops[:len(ops)-1])
			var res wire.READDIR4res
			r.next(t, wire.OP_READDIR, ok, &res)
			if l := res.Resok4.Reply.Entries; len(l) != names {
				t.Fatalf("attribute %d: %d entries", n, len(l))
			}
			for _, e := range res.Resok4.Reply.Entries {
				if want := get(filepath.Join(in, string(e.Name)), n); !bytes.Equal(e.Attrs.AttrVals, want) {
					t.Errorf("attribute %d of %s: %x, by GETATTR %x", n, e.Name, e.Attrs.AttrVals, want)
				}
			}
		}
	}
	if bytes.Equal(get(dir, wire.FATTR4_SPACE_FREE), get(at("mnt"), wire.FATTR4_SPACE_FREE)) {
		t.Error("both file systems have as much room: this shows nothing")
	}
}

// rdattr_error tells what to do about an entry: another flavour, for an export that wants one.
func TestListingErrors(t *testing.T) {
	dir := t.TempDir()
	for _, n := range []string{"sys", "none"} {
		must(t, os.Mkdir(filepath.Join(dir, n), 0o755))
		testenv.MountTmpfs(t, filepath.Join(dir, n))
	}
	s := startTable(t, dir, dir+" *(rw,insecure)\n"+filepath.Join(dir, "sys")+" *(rw,insecure)\n"+filepath.Join(dir, "none")+" *(rw,sec=none,insecure)\n", func(*Config) {})
	x := s.session(2, "x")
	got := map[string]string{}
	ops := append(path(dir), op{wire.OP_READDIR, &wire.READDIR4args{Dircount: 8192, Maxcount: 8192,
		AttrRequest: wire.Bits(wire.FATTR4_RDATTR_ERROR, wire.FATTR4_TYPE)}})
	r := x.compound(ops...)
	skipAll(t, r, ops[:len(ops)-1])
	var res wire.READDIR4res
	r.next(t, wire.OP_READDIR, ok, &res)
	for _, e := range res.Resok4.Reply.Entries {
		got[string(e.Name)] = fmt.Sprintf("%x", e.Attrs.AttrVals)
	}
	if want := fmt.Sprintf("%08x", uint32(wire.NFS4ERR_WRONGSEC)); got["none"] != want || got["sys"] != "0000000200000000" {
		t.Errorf("entries %v, want none %s", got, want)
	}
}
