// What exports(5) grants, and who gets at which files, by every operation of version 4: read-only exports, squashed callers,
// flavours, ports, and handles and names that lead elsewhere.

package nfs4

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"sluice/exports"
	"sluice/rpc"
	"sluice/xdr"
	wire "sluice/xdr/nfs4"
)

// rightsDir makes directories with the same files in each: f, g, d/in, and l, which leads to f.
func rightsDir(t testing.TB, names ...string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	must(t, os.Chmod(dir, 0o755))
	for _, n := range names {
		d := filepath.Join(dir, n)
		must(t, os.MkdirAll(filepath.Join(d, "d"), 0o755))
		for _, f := range []string{"f", "g", "d/in"} {
			must(t, os.WriteFile(filepath.Join(d, f), []byte("some data"), 0o644))
		}
		must(t, unix.Setxattr(filepath.Join(d, "f"), "user.a", []byte("v"), 0))
		must(t, os.Symlink("f", filepath.Join(d, "l")))
	}
	return dir
}

// contents lists what is below dir, with all that could be changed.
func contents(t testing.TB, dir string) string {
	t.Helper()
	var b strings.Builder
	must(t, filepath.Walk(dir, func(p string, fi os.FileInfo, err error) error {
		if err != nil {
			return err
		}
		var st unix.Stat_t
		if err := unix.Lstat(p, &st); err != nil {
			return err
		}
		fmt.Fprintln(&b, p, st.Mode, st.Uid, st.Gid, st.Nlink, st.Size, st.Mtim, st.Ctim)
		if fi.Mode().IsRegular() {
			data, err := os.ReadFile(p)
			if err != nil {
				return err
			}
			fmt.Fprintf(&b, "%q\n", data)
		}
		return nil
	}))
	return b.String()
}

// path is the way from the pseudo root to a directory.
func path(dir string) (ops []op) {
	ops = []op{root()}
	for _, n := range strings.Split(strings.Trim(dir, "/"), "/") {
		ops = append(ops, lookup(n))
	}
	return ops
}

// fhOf is the handle of a file at a path.
func (x *session) fhOf(dir string, names ...string) []byte {
	t := x.s.t
	t.Helper()
	var fh []byte
	for _, n := range append([]string{dir}, names...) {
		ops := []op{lookup(n), getfh()}
		if fh == nil {
			ops = append(path(n), getfh())
		} else {
			ops = append([]op{putfh(fh)}, ops...)
		}
		r := x.compound(ops...)
		for _, o := range ops[:len(ops)-1] {
			r.next(t, o.num, ok, nil)
		}
		var g wire.GETFH4res
		r.next(t, wire.OP_GETFH, ok, &g)
		fh = append([]byte(nil), g.Resok4.Object...)
	}
	return fh
}

// change is a COMPOUND that would change something.
type change struct {
	what string
	ops  []op
}

// openers counts owners of opens: one of 4.0 that has been refused has used up its seqid.
var openers int

func opener() string {
	openers++
	return fmt.Sprint("opener", openers)
}

// changes are all ways to change a file f, or names in the directory of d, with the anonymous stateid where one is needed.
// Names n... are not there before.
func changes(x *session, d, f, l []byte) []change {
	save := op{wire.OP_SAVEFH, nil}
	var anon wire.Stateid4
	size := fattr(func(e *xdr.Encoder) { e.Uint64(1) }, wire.FATTR4_SIZE)
	set := func(a wire.Fattr4) op { return op{wire.OP_SETATTR, &wire.SETATTR4args{ObjAttributes: a}} }
	create := func(t wire.NfsFtype4) op {
		return op{wire.OP_CREATE, &wire.CREATE4args{Objtype: wire.Createtype4{Type: t, Linkdata: []byte("f")}, Objname: []byte("n"), Createattrs: mode(0o644)}}
	}
	open := func(name string, access uint32, how wire.Createmode4, attrs wire.Fattr4) op {
		a := openArgs(opener(), 0, x.clientid, name, access, 0, true)
		a.Openhow.How = wire.Createhow4{Mode: how, Createattrs: attrs, Createverf: wire.Verifier4{1}, ChCreateboth: wire.Creatverfattr{CvaVerf: wire.Verifier4{2}}}
		return op{wire.OP_OPEN, a}
	}
	openFH := openArgs(opener(), 0, x.clientid, "", wire.OPEN4_SHARE_ACCESS_WRITE, 0, false)
	openFH.Claim = wire.OpenClaim4{Claim: wire.CLAIM_FH}
	acl := fattr(func(e *xdr.Encoder) {
		e.Uint32(1)
		a := wire.Nfsace4{AccessMask: wire.ACE4_READ_DATA, Who: []byte("EVERYONE@")}
		a.Encode(e)
	}, wire.FATTR4_ACL)
	now := fattr(func(e *xdr.Encoder) { e.Uint32(uint32(wire.SET_TO_SERVER_TIME4)) }, wire.FATTR4_TIME_MODIFY_SET)
	then := fattr(func(e *xdr.Encoder) {
		e.Uint32(uint32(wire.SET_TO_CLIENT_TIME4))
		e.Int64(5)
		e.Uint32(0)
	}, wire.FATTR4_TIME_ACCESS_SET)
	owner := fattr(func(e *xdr.Encoder) { e.Opaque([]byte("12")) }, wire.FATTR4_OWNER)
	group := fattr(func(e *xdr.Encoder) { e.Opaque([]byte("12")) }, wire.FATTR4_OWNER_GROUP)
	l4 := []change{
		{"SETATTR of the mode", []op{putfh(f), set(mode(0o600))}},
		{"SETATTR of the size", []op{putfh(f), set(size)}},
		{"SETATTR of the owner", []op{putfh(f), set(owner)}},
		{"SETATTR of the group", []op{putfh(f), set(group)}},
		{"SETATTR of a time to now", []op{putfh(f), set(now)}},
		{"SETATTR of a time", []op{putfh(f), set(then)}},
		{"SETATTR of the list", []op{putfh(f), set(acl)}},
		{"SETATTR of a directory", []op{putfh(d), set(mode(0o700))}},
		{"CREATE of a directory", []op{putfh(d), create(wire.NF4DIR)}},
		{"CREATE of a link", []op{putfh(d), create(wire.NF4LNK)}},
		{"CREATE of a FIFO", []op{putfh(d), create(wire.NF4FIFO)}},
		{"CREATE of a socket", []op{putfh(d), create(wire.NF4SOCK)}},
		{"CREATE of a device", []op{putfh(d), create(wire.NF4CHR)}},
		{"LINK", []op{putfh(f), save, putfh(d), op{wire.OP_LINK, &wire.LINK4args{Newname: []byte("n")}}}},
		{"RENAME", []op{putfh(d), save, op{wire.OP_RENAME, &wire.RENAME4args{Oldname: []byte("g"), Newname: []byte("n")}}}},
		{"REMOVE", []op{putfh(d), remove("g")}},
		{"REMOVE of a link", []op{putfh(d), remove("l")}},
		{"WRITE", []op{putfh(f), write(anon, 0, "evil")}},
		{"OPEN to make a file", []op{putfh(d), open("n", wire.OPEN4_SHARE_ACCESS_READ, wire.UNCHECKED4, mode(0o644))}},
		{"OPEN to make a file, guarded", []op{putfh(d), open("n", wire.OPEN4_SHARE_ACCESS_READ, wire.GUARDED4, mode(0o644))}},
		{"OPEN to make a file, exclusively", []op{putfh(d), open("n", wire.OPEN4_SHARE_ACCESS_READ, wire.EXCLUSIVE4, mode(0o644))}},
		{"OPEN to cut a file", []op{putfh(d), open("f", wire.OPEN4_SHARE_ACCESS_READ, wire.UNCHECKED4, fattr(func(e *xdr.Encoder) { e.Uint64(0) }, wire.FATTR4_SIZE))}},
		{"OPEN to write", []op{putfh(d), op{wire.OP_OPEN, openArgs(opener(), 0, x.clientid, "f", wire.OPEN4_SHARE_ACCESS_WRITE, 0, false)}}},
		{"OPEN to read and write", []op{putfh(d), op{wire.OP_OPEN, openArgs(opener(), 0, x.clientid, "f", wire.OPEN4_SHARE_ACCESS_BOTH, 0, false)}}},
	}
	if x.minor >= 1 {
		l4 = append(l4, change{"OPEN to write, by handle", []op{putfh(f), op{wire.OP_OPEN, openFH}}},
			change{"OPEN to make a file, exclusively with attributes", []op{putfh(d), open("n", wire.OPEN4_SHARE_ACCESS_READ, wire.EXCLUSIVE4_1, mode(0o644))}})
	}
	if x.minor >= 2 {
		l4 = append(l4,
			change{"ALLOCATE", []op{putfh(f), op{wire.OP_ALLOCATE, &wire.ALLOCATE4args{AaLength: 100}}}},
			change{"DEALLOCATE", []op{putfh(f), op{wire.OP_DEALLOCATE, &wire.DEALLOCATE4args{DaLength: 4}}}},
			change{"COPY", []op{putfh(f), save, putfh(l), op{wire.OP_COPY, &wire.COPY4args{CaCount: 4, CaSynchronous: true}}}},
			change{"CLONE", []op{putfh(f), save, putfh(l), op{wire.OP_CLONE, &wire.CLONE4args{}}}},
			change{"SETXATTR", []op{putfh(f), op{wire.OP_SETXATTR, &wire.SETXATTR4args{SxaKey: []byte("b"), SxaValue: []byte("v")}}}},
			change{"REMOVEXATTR", []op{putfh(f), op{wire.OP_REMOVEXATTR, &wire.REMOVEXATTR4args{RxaName: []byte("a")}}}})
	}
	return l4
}

// Nothing is changed on a read-only export, by whoever and whatever operation.
func TestReadOnlyExports(t *testing.T) {
	dir := rightsDir(t, "ro")
	ro := filepath.Join(dir, "ro")
	s := startTable(t, dir, ro+" *(ro,no_root_squash,insecure)\n", func(*Config) {})
	before := contents(t, ro)
	for minor := range uint32(3) {
		x := s.session(minor, fmt.Sprint("ro", minor))
		d := x.fhOf(ro)
		f, g := x.fhOf(ro, "f"), x.fhOf(ro, "g")
		for _, c := range changes(x, d, f, g) {
			if r := x.compound(c.ops...); r.status != wire.NFS4ERR_ROFS {
				t.Errorf("4.%d: %s: %v", minor, c.what, r.status)
			}
		}
		r := x.compound(putfh(f), op{wire.OP_ACCESS, &wire.ACCESS4args{Access: 0x3f}})
		skipTo(t, r, wire.OP_PUTFH)
		var a wire.ACCESS4res
		if r.next(t, wire.OP_ACCESS, ok, &a); a.Resok4.Access&(wire.ACCESS4_MODIFY|wire.ACCESS4_EXTEND|wire.ACCESS4_DELETE) != 0 {
			t.Errorf("4.%d: ACCESS grants %#x", minor, a.Resok4.Access)
		}
	}
	if after := contents(t, ro); after != before {
		t.Errorf("something was changed:\n%s\nwas\n%s", after, before)
	}
}

// A caller who is root at home is nobody here, and can change nothing of others'; neither can another user.
func TestSquashedCallers(t *testing.T) {
	dir := rightsDir(t, "squash", "all", "none")
	at := func(n string) string { return filepath.Join(dir, n) }
	s := startTable(t, dir, at("squash")+" *(rw,insecure)\n"+at("all")+" *(rw,all_squash,insecure)\n"+at("none")+" *(rw,no_root_squash,insecure)\n", func(*Config) {})
	before := contents(t, dir)
	for minor := range uint32(3) {
		x := s.session(minor, fmt.Sprint("squash", minor))
		for _, who := range []struct {
			export string
			uid    uint32
		}{{"squash", 0}, {"squash", 1000}, {"squash", 1<<32 - 1}, {"all", 0}, {"all", 1000}, {"none", 1000}, {"none", 1<<32 - 1}} {
			x.cred = rpc.Cred{Flavor: rpc.FlavorSys, UID: who.uid, GID: who.uid, Groups: []uint32{who.uid, 1<<32 - 1}, Machine: []byte("test")}
			d, f, g := x.fhOf(at(who.export)), x.fhOf(at(who.export), "f"), x.fhOf(at(who.export), "g")
			for _, c := range changes(x, d, f, g) {
				if r := x.compound(c.ops...); r.status != wire.NFS4ERR_ACCESS && r.status != wire.NFS4ERR_PERM {
					t.Errorf("4.%d: uid %d on %s: %s: %v", minor, who.uid, who.export, c.what, r.status)
				}
			}
			x.cred = rpc.Cred{Flavor: rpc.FlavorSys, Machine: []byte("test")}
		}
	}
	if after := contents(t, dir); after != before {
		t.Errorf("something was changed:\n%s\nwas\n%s", after, before)
	}
}

// A handle with any byte altered is none, and neither is one cut off, lengthened, or of another server.
func TestAlteredHandles(t *testing.T) {
	dir := rightsDir(t, "a")
	a := filepath.Join(dir, "a")
	s := startTable(t, dir, a+" *(rw,no_root_squash,insecure)\n", func(*Config) {})
	foreign := startTable(t, dir, a+" *(rw,no_root_squash,insecure)\n", func(*Config) {})
	x := s.session(2, "handles")
	refused := func(what string, fh []byte) {
		t.Helper()
		for _, ops := range [][]op{{putfh(fh), getattr(wire.FATTR4_SIZE)}, {putfh(fh), write(wire.Stateid4{}, 0, "evil")}} {
			if r := x.compound(ops...); r.status != wire.NFS4ERR_BADHANDLE && r.status != wire.NFS4ERR_STALE || r.n != 2 {
				t.Errorf("%s: %v, %d results", what, r.status, r.n)
			}
		}
	}
	var top wire.GETFH4res
	r := x.compound(root(), getfh())
	skipTo(t, r, wire.OP_PUTROOTFH)
	r.next(t, wire.OP_GETFH, ok, &top)
	file := x.fhOf(a, "f")
	for what, fh := range map[string][]byte{"a file's": file, "the root's": bytes.Clone(top.Resok4.Object)} {
		for i := range fh {
			for bit := range 8 {
				h := bytes.Clone(fh)
				h[i] ^= 1 << bit
				refused(fmt.Sprintf("%s, bit %d of byte %d", what, bit, i), h)
			}
			refused(fmt.Sprintf("%s, cut to %d", what, i), fh[:i])
		}
		for n := len(fh) + 1; n <= 128; n += 9 {
			refused(fmt.Sprintf("%s, %d long", what, n), append(bytes.Clone(fh), make([]byte, n-len(fh))...))
		}
		if r := x.compound(putfh(fh), getattr(wire.FATTR4_TYPE)); r.status != ok {
			t.Errorf("%s: %v", what, r.status)
		}
	}
	y := foreign.session(2, "handles")
	refused("another server's", y.fhOf(a, "f"))
	if r := x.compound(op{wire.OP_PUTFH, rawArgs{0, 0, 0, 129, 1}}); r.status != wire.NFS4ERR_BADXDR {
		t.Errorf("129 bytes: %v", r.status)
	}
	if b, err := os.ReadFile(filepath.Join(a, "f")); err != nil || string(b) != "some data" {
		t.Errorf("the file is %q, %v", b, err)
	}
}

// Exports of others are not there: not by name, not by handle, not as the other end of two-handled operations.
func TestExportsOfOthers(t *testing.T) {
	dir := rightsDir(t, "mine", "theirs", "mine/inner")
	at := func(n string) string { return filepath.Join(dir, n) }
	table := func(theirs string) string {
		return at("mine") + " *(rw,no_root_squash,insecure)\n" + at("theirs") + " " + theirs + "(rw,no_root_squash,insecure)\n"
	}
	s := startTable(t, dir, table("*"), func(*Config) {})
	x := s.session(2, "others")
	theirs, theirFile := x.fhOf(at("theirs")), x.fhOf(at("theirs"), "f")
	mine, myFile := x.fhOf(at("mine")), x.fhOf(at("mine"), "f")
	s.reload(table("192.0.2.1"))

	for what, ops := range map[string][]op{"the export": {putfh(theirs)}, "a file": {putfh(theirFile), read(wire.Stateid4{}, 0, 10)}} {
		if r := x.compound(ops...); r.status != wire.NFS4ERR_STALE {
			t.Errorf("%s, by handle: %v", what, r.status)
		}
	}
	if r := x.compound(path(at("theirs"))...); r.status != wire.NFS4ERR_NOENT {
		t.Errorf("the export, by name: %v", r.status)
	}
	if r := x.compound(append(path(at("")), op{wire.OP_SECINFO, &wire.SECINFO4args{Name: []byte("theirs")}})...); r.status != wire.NFS4ERR_NOENT {
		t.Errorf("SECINFO of the export: %v", r.status)
	}
	r := x.compound(append(path(at("")), op{wire.OP_READDIR, &wire.READDIR4args{Dircount: 8192, Maxcount: 8192}})...)
	for _, o := range path(at("")) {
		r.next(t, o.num, ok, nil)
	}
	var list wire.READDIR4res
	if r.next(t, wire.OP_READDIR, ok, &list); len(list.Resok4.Reply.Entries) != 1 || string(list.Resok4.Reply.Entries[0].Name) != "mine" {
		t.Errorf("the directory above lists %+v", list.Resok4.Reply.Entries)
	}
	before := contents(t, dir)
	save := op{wire.OP_SAVEFH, nil}
	for what, ops := range map[string][]op{
		"LINK":   {putfh(theirFile), save, putfh(mine), {wire.OP_LINK, &wire.LINK4args{Newname: []byte("n")}}},
		"RENAME": {putfh(theirs), save, putfh(mine), {wire.OP_RENAME, &wire.RENAME4args{Oldname: []byte("f"), Newname: []byte("n")}}},
		"COPY":   {putfh(theirFile), save, putfh(myFile), {wire.OP_COPY, &wire.COPY4args{CaCount: 4, CaSynchronous: true}}},
		"CLONE":  {putfh(theirFile), save, putfh(myFile), {wire.OP_CLONE, &wire.CLONE4args{}}},
	} {
		if r := x.compound(ops...); r.status != wire.NFS4ERR_STALE {
			t.Errorf("%s: %v", what, r.status)
		}
	}
	// Both are the client's again, and still two file systems as far as names go.
	s.reload(table("*"))
	for what, ops := range map[string][]op{
		"LINK":   {putfh(theirFile), save, putfh(mine), {wire.OP_LINK, &wire.LINK4args{Newname: []byte("n")}}},
		"RENAME": {putfh(theirs), save, putfh(mine), {wire.OP_RENAME, &wire.RENAME4args{Oldname: []byte("f"), Newname: []byte("n")}}},
	} {
		if r := x.compound(ops...); r.status != wire.NFS4ERR_XDEV {
			t.Errorf("%s between exports: %v", what, r.status)
		}
	}
	if after := contents(t, dir); after != before {
		t.Errorf("something was changed:\n%s\nwas\n%s", after, before)
	}
}

// reload puts other exports into force.
func (s *testServer) reload(table string) {
	s.t.Helper()
	set, _, err := exports.Parse("exports", []byte(table))
	must(s.t, err)
	must(s.t, s.ns.Reload(set))
}
