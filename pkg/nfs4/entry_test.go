package nfs4

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sluice/rpc"
	wire "sluice/xdr/nfs4"
)

// flavorsOf takes a SECINFO result apart.
func flavorsOf(t testing.TB, r *results, num wire.NfsOpnum4) (l []uint32) {
	t.Helper()
	var res wire.SECINFO4res // SECINFO_NO_NAME's is the same
	r.next(t, num, ok, &res)
	for _, f := range res.Resok4 {
		l = append(l, f.Flavor)
	}
	return l
}

// An export's flavours are kept to by every way in, and told to those who ask.
func TestFlavors(t *testing.T) {
	dir := rightsDir(t, "sys", "none", "both")
	at := func(n string) string { return filepath.Join(dir, n) }
	s := startTable(t, dir, at("sys")+" *(rw,insecure)\n"+at("none")+" *(rw,sec=none,insecure)\n"+at("both")+" *(rw,sec=none:sys,insecure)\n", func(*Config) {})
	x := s.session(1, "flavors")
	sys, none := x.cred, rpc.Cred{Flavor: rpc.FlavorNone}
	fhs := map[string][]byte{"sys": x.fhOf(at("sys"), "f"), "both": x.fhOf(at("both"), "f")}
	x.cred = none
	fhs["none"] = x.fhOf(at("none"), "f")
	x.cred = sys
	for _, c := range []struct {
		export string
		cred   rpc.Cred
		want   wire.Nfsstat4
	}{
		{"sys", sys, ok}, {"sys", none, wire.NFS4ERR_WRONGSEC}, {"none", sys, wire.NFS4ERR_WRONGSEC}, {"none", none, ok}, {"both", sys, ok}, {"both", none, ok},
	} {
		x.cred = c.cred
		for what, ops := range map[string][]op{
			"by name":   append(path(at(c.export)), getattr(wire.FATTR4_SIZE)),
			"by handle": {putfh(fhs[c.export]), getattr(wire.FATTR4_SIZE)},
			"to read":   {putfh(fhs[c.export]), read(wire.Stateid4{}, 0, 10)},
		} {
			if r := x.compound(ops...); r.status != c.want {
				t.Errorf("%s with flavour %d, %s: %v, want %v", c.export, c.cred.Flavor, what, r.status, c.want)
			}
		}
		want := map[string][]uint32{"sys": {rpc.FlavorSys}, "none": {rpc.FlavorNone}, "both": {rpc.FlavorNone, rpc.FlavorSys}}[c.export]
		ops := append(path(dir), op{wire.OP_SECINFO, &wire.SECINFO4args{Name: []byte(c.export)}})
		r := x.compound(ops...)
		skipAll(t, r, ops[:len(ops)-1])
		if got := flavorsOf(t, r, wire.OP_SECINFO); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("SECINFO of %s with flavour %d: %v, want %v", c.export, c.cred.Flavor, got, want)
		}
		if c.want != ok {
			continue
		}
		style := wire.SECINFO_STYLE4_CURRENT_FH
		r = x.compound(putfh(fhs[c.export]), op{wire.OP_SECINFO_NO_NAME, &style}, getfh())
		skipTo(t, r, wire.OP_PUTFH)
		if got := flavorsOf(t, r, wire.OP_SECINFO_NO_NAME); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("SECINFO_NO_NAME of %s: %v, want %v", c.export, got, want)
		}
		r.next(t, wire.OP_GETFH, wire.NFS4ERR_NOFILEHANDLE, nil)
	}
	// A caller without credentials is nobody.
	x.cred = none
	if r := x.compound(append(path(at("both")), remove("g"))...); r.status != wire.NFS4ERR_ACCESS {
		t.Errorf("REMOVE by nobody: %v", r.status)
	}
}

func skipAll(t testing.TB, r *results, ops []op) {
	t.Helper()
	for _, o := range ops {
		r.next(t, o.num, ok, nil)
	}
}

// A secure export wants calls from a port below 1024; the way to it may be seen from any.
func TestPorts(t *testing.T) {
	dir := rightsDir(t, "s")
	at := filepath.Join(dir, "s")
	s := startTable(t, dir, at+" *(rw,no_root_squash)\n", func(*Config) {})
	low := s.connFrom(700)
	c := s.conn()
	get := func(c *conn, ops ...op) wire.Nfsstat4 {
		return c.compound(append(ops, getattr(wire.FATTR4_TYPE))...).status
	}
	if st := get(c, path(dir)...); st != ok {
		t.Errorf("the directory above, from a high port: %v", st)
	}
	if st := get(c, path(at)...); st != wire.NFS4ERR_PERM {
		t.Errorf("the export, from a high port: %v", st)
	}
	r := low.compound(append(path(at), lookup("f"), getfh())...)
	skipAll(t, r, append(path(at), lookup("f")))
	var g wire.GETFH4res
	r.next(t, wire.OP_GETFH, ok, &g)
	for _, ops := range [][]op{{putfh(g.Resok4.Object), read(wire.Stateid4{}, 0, 10)}, {putfh(g.Resok4.Object), write(wire.Stateid4{}, 0, "evil")}} {
		if st := get(c, ops...); st != wire.NFS4ERR_PERM {
			t.Errorf("by handle from a high port: %v", st)
		}
	}
	if st := get(low, putfh(g.Resok4.Object), read(wire.Stateid4{}, 0, 10)); st != ok {
		t.Errorf("by handle from a low port: %v", st)
	}
}

// connFrom is conn from a port from that number on.
func (s *testServer) connFrom(port int) *conn {
	s.t.Helper()
	for ; port < 1024; port++ {
		d := net.Dialer{Timeout: 5 * time.Second, LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: port}}
		nc, err := d.Dial("tcp", s.addr)
		if err != nil {
			continue
		}
		c := rpc.NewClient(nc)
		c.Timeout = 60 * time.Second
		s.t.Cleanup(func() { c.Close() })
		return &conn{Client: c, s: s, nc: nc, cred: rpc.Cred{Flavor: rpc.FlavorSys, Machine: []byte("test")}}
	}
	s.t.Fatal("no port below 1024 is free")
	return nil
}

// named are all operations that take a name, with the name in each place.
func named(x *session, d, f []byte, name string) map[string][]op {
	save := op{wire.OP_SAVEFH, nil}
	create := func(t wire.NfsFtype4) op {
		return op{wire.OP_CREATE, &wire.CREATE4args{Objtype: wire.Createtype4{Type: t, Linkdata: []byte("f")}, Objname: []byte(name), Createattrs: mode(0o755)}}
	}
	open := func(create bool) op {
		return op{wire.OP_OPEN, openArgs(opener(), 0, x.clientid, name, wire.OPEN4_SHARE_ACCESS_BOTH, 0, create)}
	}
	excl := openArgs(opener(), 0, x.clientid, name, wire.OPEN4_SHARE_ACCESS_BOTH, 0, true)
	excl.Openhow.How = wire.Createhow4{Mode: wire.EXCLUSIVE4_1}
	if x.minor == 0 {
		excl.Openhow.How.Mode = wire.EXCLUSIVE4
	}
	deleg := openArgs(opener(), 0, x.clientid, name, wire.OPEN4_SHARE_ACCESS_BOTH, 0, false)
	deleg.Claim = wire.OpenClaim4{Claim: wire.CLAIM_DELEGATE_CUR, DelegateCurInfo: wire.OpenClaimDelegateCur4{File: []byte(name)}}
	return map[string][]op{
		"LOOKUP": {putfh(d), lookup(name)}, "SECINFO": {putfh(d), op{wire.OP_SECINFO, &wire.SECINFO4args{Name: []byte(name)}}},
		"CREATE of a directory": {putfh(d), create(wire.NF4DIR)}, "CREATE of a link": {putfh(d), create(wire.NF4LNK)}, "CREATE of a FIFO": {putfh(d), create(wire.NF4FIFO)},
		"LINK": {putfh(f), save, putfh(d), op{wire.OP_LINK, &wire.LINK4args{Newname: []byte(name)}}}, "REMOVE": {putfh(d), remove(name)},
		"RENAME from": {putfh(d), save, op{wire.OP_RENAME, &wire.RENAME4args{Oldname: []byte(name), Newname: []byte("z")}}},
		"RENAME to":   {putfh(d), save, op{wire.OP_RENAME, &wire.RENAME4args{Oldname: []byte("g"), Newname: []byte(name)}}},
		"OPEN":        {putfh(d), open(false)}, "OPEN to make": {putfh(d), open(true)}, "OPEN to make, exclusively": {putfh(d), {wire.OP_OPEN, excl}},
		"OPEN by a delegation": {putfh(d), {wire.OP_OPEN, deleg}},
	}
}

// Names that are none, in each place of each operation that takes one.
func TestBadNames(t *testing.T) {
	dir := rightsDir(t, "n")
	at := filepath.Join(dir, "n")
	s := startTable(t, dir, at+" *(rw,no_root_squash,insecure)\n", func(*Config) {})
	before := contents(t, dir)
	for minor := range uint32(3) {
		x := s.session(minor, fmt.Sprint("names", minor))
		top, d, f := x.fhOf(at), x.fhOf(at, "d"), x.fhOf(at, "f")
		long := strings.Repeat("n", 256)
		for _, c := range []struct {
			name string
			want wire.Nfsstat4
		}{
			{"", wire.NFS4ERR_INVAL}, {".", wire.NFS4ERR_BADNAME}, {"..", wire.NFS4ERR_BADNAME}, {"/", wire.NFS4ERR_BADNAME}, {"a/b", wire.NFS4ERR_BADNAME},
			{"../f", wire.NFS4ERR_BADNAME}, {"/etc/passwd", wire.NFS4ERR_BADNAME}, {"nul\x00", wire.NFS4ERR_BADNAME}, {"\x00", wire.NFS4ERR_BADNAME},
			{long, wire.NFS4ERR_NAMETOOLONG}, {strings.Repeat("n", 4096), wire.NFS4ERR_NAMETOOLONG},
		} {
			for _, in := range [][]byte{top, d} {
				for what, ops := range named(x, in, f, c.name) {
					r := x.compound(ops...)
					if what == "OPEN by a delegation" && r.status == wire.NFS4ERR_BAD_STATEID {
						continue // there is none; which is said first does not matter
					}
					if r.status != c.want {
						t.Errorf("4.%d: %s of %.20q: %v, want %v", minor, what, c.name, r.status, c.want)
					}
				}
			}
		}
		if r := x.compound(putfh(d), lookup(long[:255])); r.status != wire.NFS4ERR_NOENT {
			t.Errorf("LOOKUP of 255 bytes: %v", r.status)
		}
	}
	if after := contents(t, dir); after != before {
		t.Errorf("something was changed:\n%s\nwas\n%s", after, before)
	}
}

// LOOKUPP goes from a directory to the one above, out of an export only to the pseudo directory or export above it, and not
// from what is no directory.
func TestUp(t *testing.T) {
	dir := rightsDir(t, "top", "top/inner")
	must(t, os.Mkdir(filepath.Join(dir, "top/inner/deep"), 0o755))
	at := func(n string) string { return filepath.Join(dir, n) }
	for what, table := range map[string]string{
		"pseudo": at("top/inner") + " *(rw,no_root_squash,insecure)\n",
		"export": at("top") + " *(rw,no_root_squash,insecure)\n" + at("top/inner") + " *(rw,no_root_squash,insecure,fsid=9)\n",
		"others": at("top") + " 192.0.2.1(rw,no_root_squash,insecure)\n" + at("top/inner") + " *(rw,no_root_squash,insecure,fsid=9)\n",
		"fsid=0": at("top/inner") + " *(rw,no_root_squash,insecure,fsid=0)\n",
	} {
		s := startTable(t, dir, table, func(*Config) {})
		x := s.session(1, "up")
		way := path(at("top/inner/deep"))
		if what == "fsid=0" {
			way = []op{root(), lookup("deep")}
		}
		fhOf := func(ops ...op) (fh []byte, st wire.Nfsstat4) {
			r := x.compound(append(ops[:len(ops):len(ops)], getfh())...)
			if r.status != ok {
				return nil, r.status
			}
			skipAll(t, r, ops)
			var g wire.GETFH4res
			r.next(t, wire.OP_GETFH, ok, &g)
			return bytes.Clone(g.Resok4.Object), ok
		}
		// What is met on the way up is what is met on the way down, and above the top there is nothing.
		fh, _ := fhOf(way...)
		for n := len(way) - 1; n > 0; n-- {
			above, st := fhOf(putfh(fh), op{wire.OP_LOOKUPP, nil})
			if down, _ := fhOf(way[:n]...); st != ok || !bytes.Equal(above, down) {
				t.Errorf("%s: %d below the top, LOOKUPP: %v, % x; from above % x", what, n, st, above, down)
			}
			fh = above
		}
		if _, st := fhOf(putfh(fh), op{wire.OP_LOOKUPP, nil}); st != wire.NFS4ERR_NOENT {
			t.Errorf("%s: LOOKUPP of the top: %v", what, st)
		}
		for name, want := range map[string]wire.Nfsstat4{"f": wire.NFS4ERR_NOTDIR, "l": wire.NFS4ERR_SYMLINK} {
			if _, st := fhOf(append(way[:len(way)-1:len(way)-1], lookup(name), op{wire.OP_LOOKUPP, nil})...); st != want {
				t.Errorf("%s: LOOKUPP of %s: %v", what, name, st)
			}
		}
	}
}
