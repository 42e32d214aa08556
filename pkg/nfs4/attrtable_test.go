// Every attribute by its number: since which minor version, and its value against what the file system says.

package nfs4

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"sluice/test/testenv"
	"sluice/xdr"
	wire "sluice/xdr/nfs4"
)

// statOf is what Linux knows of a file.
type statOf struct {
	unix.Statx_t
	fs unix.Statfs_t
	fh []byte
}

// attrCheck is an attribute's row: since which minor version, whether it can be read, written and be given to EXCLUSIVE4_1,
// and the text of its value.
type attrCheck struct {
	minor uint32
	how   string                    // r, w, x
	want  func(f *statOf) string    // nil with how "w"
	value func(*xdr.Decoder) string // nil: u64
}

func num(v func(f *statOf) uint64) func(f *statOf) string {
	return func(f *statOf) string { return fmt.Sprint(v(f)) }
}

func is(v any) func(*statOf) string { return func(*statOf) string { return fmt.Sprint(v) } }

func u32(d *xdr.Decoder) string   { return fmt.Sprint(d.Uint32()) }
func flag(d *xdr.Decoder) string  { return fmt.Sprint(d.Bool()) }
func text(d *xdr.Decoder) string  { return string(d.Opaque(300)) }
func pair(d *xdr.Decoder) string  { return fmt.Sprint(d.Uint32(), d.Uint32()) }
func stamp(d *xdr.Decoder) string { return fmt.Sprint(d.Int64(), d.Uint32()) }

// least is for limits: the value's text when it is below.
func least(limit uint64, size func(*xdr.Decoder) uint64) func(*xdr.Decoder) string {
	return func(d *xdr.Decoder) string {
		if v := size(d); v < limit {
			return fmt.Sprint(v)
		}
		return "enough"
	}
}

func u32Value(d *xdr.Decoder) uint64 { return uint64(d.Uint32()) }

func timeOf(t func(f *statOf) unix.StatxTimestamp) func(f *statOf) string {
	return func(f *statOf) string { return fmt.Sprint(t(f).Sec, t(f).Nsec) }
}

// near takes counts that others of the file system may change a little meanwhile.
func near(v func(f *statOf) uint64) func(f *statOf) string {
	return func(f *statOf) string { return fmt.Sprint(v(f) >> 20) }
}

func mega(d *xdr.Decoder) string { return fmt.Sprint(d.Uint64() >> 20) }

var attrChecks = map[int]attrCheck{
	0:  {0, "r", nil, nil}, // of which below
	1:  {0, "r", is(wire.NF4REG), func(d *xdr.Decoder) string { return fmt.Sprint(wire.NfsFtype4(d.Int32())) }},
	2:  {0, "r", is(wire.FH4_PERSISTENT), u32},
	3:  {0, "r", is("enough"), least(1, (*xdr.Decoder).Uint64)},
	4:  {0, "rwx", num(func(f *statOf) uint64 { return f.Size }), nil},
	5:  {0, "r", is(true), flag},
	6:  {0, "r", is(true), flag},
	7:  {0, "r", is(false), flag},
	8:  {0, "r", is("0 0"), func(d *xdr.Decoder) string { return fmt.Sprint(d.Uint64(), d.Uint64()) }}, // the export has fsid=0
	9:  {0, "r", is(true), flag},
	10: {0, "r", is(90), u32},
	11: {0, "r", is(0), u32},
	12: {0, "rwx", is("owner, group, everyone"), func(d *xdr.Decoder) string {
		who := map[string]bool{}
		for range d.Uint32() {
			var a wire.Nfsace4
			a.Decode(d)
			who[string(a.Who)] = true
		}
		if len(who) == 3 && who["OWNER@"] && who["GROUP@"] && who["EVERYONE@"] {
			return "owner, group, everyone"
		}
		return fmt.Sprint(who)
	}},
	13: {0, "r", is(wire.ACL4_SUPPORT_ALLOW_ACL | wire.ACL4_SUPPORT_DENY_ACL), u32},
	15: {0, "r", is(true), flag},
	16: {0, "r", is(false), flag},
	17: {0, "r", is(true), flag},
	18: {0, "r", is(true), flag},
	19: {0, "r", func(f *statOf) string { return string(f.fh) }, text},
	20: {0, "r", num(func(f *statOf) uint64 { return f.Ino }), nil},
	21: {0, "r", num(func(f *statOf) uint64 { return f.fs.Ffree }), nil},
	22: {0, "r", num(func(f *statOf) uint64 { return f.fs.Ffree }), nil},
	23: {0, "r", num(func(f *statOf) uint64 { return f.fs.Files }), nil},
	24: {0, "r", is("0 0"), pair},
	26: {0, "r", is(true), flag},
	27: {0, "r", is("enough"), least(1<<43, (*xdr.Decoder).Uint64)},
	28: {0, "r", is("enough"), least(32000, u32Value)},
	29: {0, "r", is(255), u32},
	30: {0, "r", is("enough"), least(1<<20, (*xdr.Decoder).Uint64)},
	31: {0, "r", is("enough"), least(1<<20, (*xdr.Decoder).Uint64)},
	33: {0, "rwx", num(func(f *statOf) uint64 { return uint64(f.Mode) & 0o7777 }), u32},
	34: {0, "r", is(true), flag},
	35: {0, "r", num(func(f *statOf) uint64 { return uint64(f.Nlink) }), u32},
	36: {0, "rwx", num(func(f *statOf) uint64 { return uint64(f.Uid) }), text},
	37: {0, "rwx", num(func(f *statOf) uint64 { return uint64(f.Gid) }), text},
	41: {0, "r", func(f *statOf) string { return fmt.Sprint(f.Rdev_major, f.Rdev_minor) }, pair},
	42: {0, "r", near(func(f *statOf) uint64 { return f.fs.Bavail * uint64(f.fs.Bsize) }), mega},
	43: {0, "r", near(func(f *statOf) uint64 { return f.fs.Bfree * uint64(f.fs.Bsize) }), mega},
	44: {0, "r", num(func(f *statOf) uint64 { return f.fs.Blocks * uint64(f.fs.Bsize) }), nil},
	45: {0, "r", num(func(f *statOf) uint64 { return f.Blocks * 512 }), nil},
	47: {0, "r", timeOf(func(f *statOf) unix.StatxTimestamp { return f.Atime }), stamp},
	48: {0, "w", nil, nil},
	50: {0, "r", timeOf(func(f *statOf) unix.StatxTimestamp { return f.Btime }), stamp},
	51: {0, "r", is("0 1"), stamp},
	52: {0, "r", timeOf(func(f *statOf) unix.StatxTimestamp { return f.Ctime }), stamp},
	53: {0, "r", timeOf(func(f *statOf) unix.StatxTimestamp { return f.Mtime }), stamp},
	54: {0, "w", nil, nil},
	55: {0, "r", num(func(f *statOf) uint64 { return f.Ino }), nil},
	74: {1, "wx", nil, nil},
	75: {1, "r", nil, nil}, // of which below
	77: {2, "r", num(func(f *statOf) uint64 { return uint64(f.fs.Bsize) }), u32},
	79: {2, "r", is(int(wire.NFS4_CHANGE_TYPE_IS_TIME_METADATA)), u32},
	81: {2, "wx", nil, nil},
	82: {2, "r", is(true), flag},
	86: {1, "r", is("decodes"), func(d *xdr.Decoder) string {
		var a wire.OpenArguments4
		if a.Decode(d); d.Err() != nil || !a.OaShareAccess.Has(uint32(wire.OPEN_ARGS_SHARE_ACCESS_BOTH)) || !a.OaOpenClaim.Has(uint32(wire.OPEN_ARGS_OPEN_CLAIM_FH)) {
			return fmt.Sprintf("%+v", a)
		}
		return "decodes"
	}},
}

// offered are the attributes of a minor version that can be done with what any of the letters says.
func offered(minor uint32, letters string) (list []int) {
	for n, a := range attrChecks {
		if a.minor <= minor && slices.ContainsFunc([]byte(a.how), func(c byte) bool { return bytes.IndexByte([]byte(letters), c) >= 0 }) {
			list = append(list, n)
		}
	}
	slices.Sort(list)
	return list
}

func TestEveryAttribute(t *testing.T) {
	s := startServerOn(t, testenv.XFS(t, 512))
	path := filepath.Join(s.dir, "f")
	randomFile(t, path, 100001)
	must(t, os.Link(path, filepath.Join(s.dir, "second")))
	must(t, os.Chown(path, 1234, 54321))
	must(t, os.Chmod(path, 0o640))
	must(t, os.Chtimes(path, time.Unix(1e9, 123456789), time.Unix(11e8, 987654321)))
	must(t, os.WriteFile(filepath.Join(s.dir, "written last"), nil, 0o600))
	unix.Sync() // for f_bfree
	for minor := range uint32(3) {
		x := s.session(minor, fmt.Sprint("attributes", minor))
		r := x.compound(root(), lookup("f"), getfh())
		skipTo(t, r, wire.OP_PUTROOTFH, wire.OP_LOOKUP)
		var g wire.GETFH4res
		r.next(t, wire.OP_GETFH, ok, &g)
		f := statOf{fh: bytes.Clone(g.Resok4.Object)}
		must(t, unix.Statx(unix.AT_FDCWD, path, 0, unix.STATX_ALL, &f.Statx_t))
		must(t, unix.Statfs(path, &f.fs))
		for n := range 96 {
			x.checkAttribute(&f, n)
		}
	}
}

// checkAttribute asks for one attribute.
func (x *session) checkAttribute(f *statOf, n int) {
	t := x.s.t
	t.Helper()
	a, known := attrChecks[n]
	there := known && a.minor <= x.minor
	r := x.compound(putfh(f.fh), getattr(n))
	skipTo(t, r, wire.OP_PUTFH)
	if there && a.how[0] != 'r' {
		r.next(t, wire.OP_GETATTR, wire.NFS4ERR_INVAL, nil)
		return
	}
	var res wire.GETATTR4res
	r.next(t, wire.OP_GETATTR, ok, &res)
	got := &res.Resok4.ObjAttributes
	if want := there || n == wire.FATTR4_RDATTR_ERROR; got.Attrmask.Has(uint32(n)) != want {
		t.Errorf("4.%d, attribute %d: given %v, want %v", x.minor, n, !want, want)
		return
	}
	if !there {
		return
	}
	var d xdr.Decoder
	d.Reset(got.AttrVals)
	value, want := "", ""
	switch {
	case n == wire.FATTR4_SUPPORTED_ATTRS:
		value, want = setOf(&d), fmt.Sprint(offered(x.minor, "rw"))
	case n == wire.FATTR4_SUPPATTR_EXCLCREAT:
		value, want = setOf(&d), fmt.Sprint(offered(x.minor, "x"))
	case a.value == nil:
		value, want = fmt.Sprint(d.Uint64()), a.want(f)
	default:
		value, want = a.value(&d), a.want(f)
	}
	if value != want || d.Err() != nil || d.Len() != 0 {
		t.Errorf("4.%d, attribute %d: %q, want %q; %v, %d bytes behind", x.minor, n, value, want, d.Err(), d.Len())
	}
}

func setOf(d *xdr.Decoder) string {
	var b wire.Bitmap4
	b.Decode(d)
	list := []int{}
	for n := range 96 {
		if b.Has(uint32(n)) {
			list = append(list, n)
		}
	}
	return fmt.Sprint(list)
}

// mode_umask (RFC 8275): the umask counts where the directory has no default list, and is nothing to set later.
func TestModeUmask(t *testing.T) {
	s := startServerOn(t, testenv.XFS(t, 512))
	x := s.session(2, "umask")
	for _, c := range []struct{ mode, umask, got uint32 }{{0o666, 0o027, 0o640}, {0o666, 0, 0o666}, {0o777, 0o777, 0}} {
		name := fmt.Sprintf("%o-%o", c.mode, c.umask)
		attrs := fattr(func(e *xdr.Encoder) { e.Uint32(c.mode); e.Uint32(c.umask) }, wire.FATTR4_MODE_UMASK)
		a := openArgs("o", 0, x.clientid, name, wire.OPEN4_SHARE_ACCESS_BOTH, 0, true)
		a.Openhow.How.Createattrs = attrs
		r := x.compound(root(), op{wire.OP_OPEN, a})
		skipTo(t, r, wire.OP_PUTROOTFH)
		var o wire.OPEN4res
		r.next(t, wire.OP_OPEN, ok, &o)
		if !o.Resok4.Attrset.Has(wire.FATTR4_MODE_UMASK) {
			t.Errorf("%s: attrset %v", name, o.Resok4.Attrset)
		}
		fi, err := os.Stat(filepath.Join(s.dir, name))
		must(t, err)
		if got := uint32(fi.Mode().Perm()); got != c.got {
			t.Errorf("%s: mode %o, want %o", name, got, c.got)
		}
		r = x.compound(root(), lookup(name), op{wire.OP_SETATTR, &wire.SETATTR4args{ObjAttributes: attrs}})
		skipTo(t, r, wire.OP_PUTROOTFH, wire.OP_LOOKUP)
		r.next(t, wire.OP_SETATTR, wire.NFS4ERR_INVAL, &wire.SETATTR4res{})
	}
}
