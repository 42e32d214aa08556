package nfs4

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"sluice/xdr"
	wire "sluice/xdr/nfs4"
)

// Listings with sizes, cookies and verifiers that make no sense are refused or answered within the size asked for, and with
// any size that has room for one entry every name comes once.
func TestHostileListings(t *testing.T) {
	s := startServer(t)
	want := map[string]int{}
	for i := range 60 {
		name := fmt.Sprintf("name-%d-%.*s", i, i*4, "nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn")
		want[name] = 1
		must(t, os.WriteFile(filepath.Join(s.dir, name), nil, 0o644))
	}
	x := s.session(2, "listings")
	all := wire.NewBitmap4([3]uint32{^uint32(0), (1<<(wire.FATTR4_TIME_MODIFY-31) - 1) &^ (1 << (wire.FATTR4_TIME_ACCESS_SET - 32)), 0})
	list := func(a *wire.READDIR4args) (*wire.READDIR4resok, wire.Nfsstat4, int) {
		r := x.compound(root(), op{wire.OP_READDIR, a})
		skipTo(t, r, wire.OP_PUTROOTFH)
		if r.status != ok {
			return nil, r.status, 0
		}
		before := r.d.Len() - 8 // number and status
		var res wire.READDIR4res
		r.next(t, wire.OP_READDIR, ok, &res)
		return &res.Resok4, ok, before
	}
	for _, bits := range []wire.Bitmap4{{}, wire.Bits(wire.FATTR4_FILEID), wire.Bits(wire.FATTR4_RDATTR_ERROR, wire.FATTR4_FILEHANDLE, wire.FATTR4_TYPE), all} {
		for _, max := range []uint32{0, 1, 15, 16, 20, 40, 100, 200, 500, 1000, 4096, math.MaxInt32, math.MaxUint32} {
			for _, dir := range []uint32{0, 1, 30, 4096, math.MaxUint32} {
				got := map[string]int{}
				a := wire.READDIR4args{Dircount: dir, Maxcount: max, AttrRequest: bits}
				for range len(want) + 2 {
					l, st, n := list(&a)
					if st == wire.NFS4ERR_TOOSMALL && max < 1000 {
						got = nil
						break
					}
					if st != ok {
						t.Fatalf("maxcount %d, dircount %d: %v", max, dir, st)
					}
					if n > int(min(max, 1<<20)) {
						t.Errorf("maxcount %d: a result of %d bytes", max, n)
					}
					for _, e := range l.Reply.Entries {
						got[string(e.Name)]++
						a.Cookie = e.Cookie
					}
					a.Cookieverf = l.Cookieverf
					if l.Reply.Eof {
						break
					}
					if len(l.Reply.Entries) == 0 {
						t.Fatalf("maxcount %d, dircount %d: an empty answer that is not the end", max, dir)
					}
				}
				if got != nil && fmt.Sprint(got) != fmt.Sprint(want) {
					t.Errorf("maxcount %d, dircount %d: %d names of %d", max, dir, len(got), len(want))
				}
			}
		}
	}
	for range 300 {
		a := wire.READDIR4args{Dircount: 4096, Maxcount: 4096, Cookie: rand.Uint64() >> rand.UintN(64), AttrRequest: wire.Bits(wire.FATTR4_FILEID)}
		a.Cookieverf[rand.IntN(8)] = byte(rand.Uint32())
		if _, st, _ := list(&a); st != ok && st != wire.NFS4ERR_BAD_COOKIE && st != wire.NFS4ERR_NOT_SAME {
			t.Errorf("cookie %#x: %v", a.Cookie, st)
		}
	}
	for _, c := range []uint64{1, 2, 1 << 63, math.MaxUint64} {
		if _, st, _ := list(&wire.READDIR4args{Dircount: 4096, Maxcount: 4096, Cookie: c}); st != wire.NFS4ERR_BAD_COOKIE {
			t.Errorf("cookie %#x: %v", c, st)
		}
	}
	x.usable("listings")
}

// Bitmaps of any length are taken, as far as a request goes: bits that mean nothing are not answered, and cannot be set.
func TestHostileBitmaps(t *testing.T) {
	s := startServer(t)
	must(t, os.WriteFile(filepath.Join(s.dir, "f"), []byte("data"), 0o644))
	x := s.session(2, "bitmaps")
	raw := func(words int, w uint32, vals int) rawArgs {
		var e xdr.Encoder
		e.Uint32(uint32(words))
		for range words {
			e.Uint32(w)
		}
		if vals >= 0 {
			e.Opaque(make([]byte, vals))
		}
		return rawArgs(e.Bytes())
	}
	for _, words := range []int{0, 1, 2, 3, 4, 8, 100, 10000} {
		file := []op{root(), lookup("f")}
		with := func(o ...op) *results { return x.compound(append(file[:2:2], o...)...) }
		r := with(op{wire.OP_GETATTR, raw(words, 0, -1)}, getfh())
		if r.status != ok {
			t.Errorf("GETATTR of nothing in %d words: %v", words, r.status)
		}
		if words > 1 {
			if st := with(op{wire.OP_GETATTR, raw(words, ^uint32(0), -1)}).status; st != wire.NFS4ERR_INVAL { // some can only be set
				t.Errorf("GETATTR of %d words: %v", words, st)
			}
		}
		for _, num := range []wire.NfsOpnum4{wire.OP_VERIFY, wire.OP_NVERIFY} {
			want := wire.NFS4ERR_ATTRNOTSUPP
			if words == 0 {
				want = map[wire.NfsOpnum4]wire.Nfsstat4{wire.OP_VERIFY: ok, wire.OP_NVERIFY: wire.NFS4ERR_SAME}[num]
			}
			if st := with(op{num, raw(words, ^uint32(0), 0)}).status; st != want {
				t.Errorf("%v of %d words: %v", num, words, st)
			}
		}
		set := append(make(rawArgs, 16), raw(words, ^uint32(0), 64)...)
		if st := with(op{wire.OP_SETATTR, set}).status; words > 0 && st != wire.NFS4ERR_ATTRNOTSUPP || words == 0 && st != wire.NFS4ERR_BADXDR {
			t.Errorf("SETATTR of %d words: %v", words, st)
		}
	}
	// Values that go on after the last attribute, or stop before it.
	for _, n := range []int{0, 3, 5, 8, 100} {
		a := wire.Fattr4{Attrmask: wire.Bits(wire.FATTR4_MODE), AttrVals: make([]byte, n)}
		if r := x.compound(root(), lookup("f"), op{wire.OP_SETATTR, &wire.SETATTR4args{ObjAttributes: a}}); r.status != wire.NFS4ERR_BADXDR {
			t.Errorf("SETATTR of a mode in %d bytes: %v", n, r.status)
		}
	}
	if st, err := os.Stat(filepath.Join(s.dir, "f")); err != nil || st.Mode() != 0o644 || st.Size() != 4 {
		t.Errorf("the file is %v, %v", st, err)
	}
	x.usable("bitmaps")
}

// Access control lists that are too long, name nobody, or are others' to set.
func TestHostileLists(t *testing.T) {
	s := startServer(t)
	f := filepath.Join(s.dir, "f")
	must(t, os.WriteFile(f, nil, 0o640))
	before := contents(t, s.dir)
	x := s.session(2, "lists")
	set := func(n int, who func(i int) string, typ, flag uint32) wire.Nfsstat4 {
		a := fattr(func(e *xdr.Encoder) {
			e.Uint32(uint32(n))
			for i := range n {
				ace := wire.Nfsace4{Type: typ, Flag: flag, AccessMask: 7, Who: []byte(who(i))}
				ace.Encode(e)
			}
		}, wire.FATTR4_ACL)
		return x.compound(root(), lookup("f"), op{wire.OP_SETATTR, &wire.SETATTR4args{ObjAttributes: a}}).status
	}
	user := func(i int) string { return fmt.Sprint(5000 + i) }
	for _, c := range []struct {
		what string
		st   wire.Nfsstat4
		want []wire.Nfsstat4
	}{
		{"5,000 users", set(5000, user, 0, 0), []wire.Nfsstat4{wire.NFS4ERR_INVAL, wire.NFS4ERR_BADXDR}},
		{"1,000 users", set(1000, user, 0, 0), []wire.Nfsstat4{wire.NFS4ERR_NOSPC}},
		{"nobody known", set(1, func(int) string { return "no such user" }, 0, 0), []wire.Nfsstat4{wire.NFS4ERR_BADOWNER}},
		{"an option", set(1, func(int) string { return "--help" }, 0, 0), []wire.Nfsstat4{wire.NFS4ERR_BADOWNER}},
		{"an id too large", set(1, func(int) string { return "4294967295" }, 0, 0), []wire.Nfsstat4{wire.NFS4ERR_BADOWNER}},
		{"an empty name", set(1, func(int) string { return "" }, 0, 0), []wire.Nfsstat4{wire.NFS4ERR_INVAL}},
		{"an audit entry", set(1, user, wire.ACE4_SYSTEM_AUDIT_ACE_TYPE, 0), []wire.Nfsstat4{wire.NFS4ERR_ATTRNOTSUPP}},
		{"an unknown flag", set(1, user, 0, 1<<30), []wire.Nfsstat4{wire.NFS4ERR_ATTRNOTSUPP}},
		{"what a file hands on", set(1, user, 0, wire.ACE4_FILE_INHERIT_ACE), []wire.Nfsstat4{wire.NFS4ERR_INVAL}},
	} {
		good := false
		for _, w := range c.want {
			good = good || c.st == w
		}
		if !good {
			t.Errorf("%s: %v, want %v", c.what, c.st, c.want)
		}
	}
	x.cred.UID, x.cred.GID = 1000, 1000
	if st := set(1, user, 0, 0); st != wire.NFS4ERR_PERM {
		t.Errorf("a list set by another: %v", st)
	}
	if after := contents(t, s.dir); after != before {
		t.Errorf("something was changed:\n%s\nwas\n%s", after, before)
	}
	x.usable("lists")
}
