package nfs4

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"sluice/pkg/dataio"
	"sluice/test/testenv"
	wire "sluice/xdr/nfs4"
)

const hole64 = 64 << 10 // holes and data come in pieces of this size

// on sends operations on a file.
func (x *session) on(fh []byte, ops ...op) *results {
	x.s.t.Helper()
	r := x.compound(append([]op{putfh(fh)}, ops...)...)
	skipTo(x.s.t, r, wire.OP_PUTFH)
	return r
}

func (x *session) readPlus(fh []byte, sid wire.Stateid4, off uint64, n uint32) wire.ReadPlusRes4 {
	t := x.s.t
	t.Helper()
	var res wire.READPLUS4res
	x.on(fh, op{wire.OP_READ_PLUS, &wire.READPLUS4args{RpaStateid: sid, RpaOffset: off, RpaCount: n}}).next(t, wire.OP_READ_PLUS, ok, &res)
	return res.RpResok4
}

// segments describes an answer of READ_PLUS, in units of hole64.
func segments(r *wire.ReadPlusRes4) string {
	var b strings.Builder
	for _, c := range r.RprContents {
		if c.RpcContent == wire.NFS4_CONTENT_HOLE {
			fmt.Fprintf(&b, "hole %d+%d ", c.RpcHole.DiOffset/hole64, c.RpcHole.DiLength/hole64)
		} else {
			fmt.Fprintf(&b, "data %d+%d ", c.RpcData.DOffset/hole64, c.RpcData.DData.Len()/hole64)
		}
	}
	return fmt.Sprintf("%s%v", b.String(), r.RprEof)
}

// ALLOCATE, DEALLOCATE, SEEK and READ_PLUS on one file, which has data in pieces 1 and 3 of 6.
func TestHoles(t *testing.T) {
	s := startServerOn(t, testenv.XFS(t, 512))
	x := s.session(2, "holes")
	_, o, fh := x.open("f", wire.OPEN4_SHARE_ACCESS_BOTH)
	sid := o.Stateid
	data := strings.Repeat("d", hole64)
	x.on(fh, write(sid, hole64, data), write(sid, 3*hole64, data))
	must(t, os.Truncate(filepath.Join(s.dir, "f"), 6*hole64))

	seek := func(what wire.DataContent4, off uint64, want wire.Nfsstat4) string {
		t.Helper()
		r := x.on(fh, op{wire.OP_SEEK, &wire.SEEK4args{SaStateid: sid, SaOffset: off, SaWhat: what}})
		if want != ok {
			r.next(t, wire.OP_SEEK, want, nil)
			return ""
		}
		var res wire.SEEK4res
		r.next(t, wire.OP_SEEK, ok, &res)
		return fmt.Sprintf("%d %v", res.Resok4.SrOffset/hole64, res.Resok4.SrEof)
	}
	for _, c := range []struct {
		what wire.DataContent4
		off  uint64
		want string
	}{
		{wire.NFS4_CONTENT_DATA, 0, "1 false"}, {wire.NFS4_CONTENT_DATA, 2 * hole64, "3 false"}, {wire.NFS4_CONTENT_HOLE, 0, "0 false"},
		{wire.NFS4_CONTENT_HOLE, hole64, "2 false"}, {wire.NFS4_CONTENT_HOLE, 3*hole64 + 7, "4 false"},
	} {
		if got := seek(c.what, c.off, ok); got != c.want {
			t.Errorf("SEEK %v from %d: %s, want %s", c.what, c.off, got, c.want)
		}
	}
	seek(wire.NFS4_CONTENT_DATA, 6*hole64, wire.NFS4ERR_NXIO)
	seek(2, 0, wire.NFS4ERR_UNION_NOTSUPP)

	for _, c := range []struct {
		off  uint64
		n    uint32
		want string
	}{
		{0, 6 * hole64, "hole 0+1 data 1+1 hole 2+1 data 3+1 hole 4+2 true"}, {0, hole64, "hole 0+1 false"}, {hole64, 2 * hole64, "data 1+1 hole 2+1 false"},
		{4 * hole64, 20 * hole64, "hole 4+2 true"}, {6 * hole64, 10, "true"}, {1 << 62, 10, "true"},
	} {
		r := x.readPlus(fh, sid, c.off, c.n)
		if got := segments(&r); got != c.want {
			t.Errorf("READ_PLUS %d+%d: %s, want %s", c.off, c.n, got, c.want)
		}
		for _, seg := range r.RprContents {
			if seg.RpcContent != wire.NFS4_CONTENT_DATA {
				continue
			}
			if b, _ := seg.RpcData.DData.Bytes(); string(b) != data[:len(b)] {
				t.Errorf("READ_PLUS %d+%d: wrong data", c.off, c.n)
			}
		}
	}

	allocate := func(off, n uint64, want wire.Nfsstat4) {
		t.Helper()
		x.on(fh, op{wire.OP_ALLOCATE, &wire.ALLOCATE4args{AaStateid: sid, AaOffset: off, AaLength: n}}).next(t, wire.OP_ALLOCATE, want, nil)
	}
	deallocate := func(off, n uint64, want wire.Nfsstat4) {
		t.Helper()
		x.on(fh, op{wire.OP_DEALLOCATE, &wire.DEALLOCATE4args{DaStateid: sid, DaOffset: off, DaLength: n}}).next(t, wire.OP_DEALLOCATE, want, nil)
	}
	size := func() (length, used int64) {
		var st unix.Stat_t
		must(t, unix.Stat(filepath.Join(s.dir, "f"), &st))
		return st.Size / hole64, st.Blocks * 512 / hole64
	}
	deallocate(3*hole64, hole64, ok)
	if r := x.readPlus(fh, sid, 0, 6*hole64); segments(&r) != "hole 0+1 data 1+1 hole 2+4 true" {
		t.Errorf("after DEALLOCATE: %s", segments(&r))
	}
	deallocate(2*hole64, 1<<63, ok) // past the end: the file keeps its length
	allocate(6*hole64, 2*hole64, ok)
	if n, used := size(); n != 8 || used != 3 {
		t.Errorf("after ALLOCATE: %d long, %d used", n, used)
	}
	for _, n := range []uint64{1 << 40, 1 << 62} {
		allocate(0, n, wire.NFS4ERR_NOSPC)
	}
	allocate(1<<63-1, 1<<62, wire.NFS4ERR_FBIG)
	allocate(0, 0, wire.NFS4ERR_INVAL)
	allocate(1<<63, 1<<63, wire.NFS4ERR_INVAL) // ends past 2^64
	deallocate(0, 0, wire.NFS4ERR_INVAL)
	if n, used := size(); n != 8 || used != 3 {
		t.Errorf("after what could not be: %d long, %d used", n, used)
	}
	_, r, fh := x.open("g", wire.OPEN4_SHARE_ACCESS_READ)
	x.on(fh, op{wire.OP_ALLOCATE, &wire.ALLOCATE4args{AaStateid: r.Stateid, AaLength: 1}}).next(t, wire.OP_ALLOCATE, wire.NFS4ERR_OPENMODE, nil)
	x.on(fh, op{wire.OP_ALLOCATE, &wire.ALLOCATE4args{AaStateid: sid, AaLength: 1}}).next(t, wire.OP_ALLOCATE, wire.NFS4ERR_BAD_STATEID, nil)
}

// Only the first READ or READ_PLUS of a COMPOUND goes direct, and all give the same bytes.
func TestReadPlusDirect(t *testing.T) {
	s := startServerOn(t, testenv.XFS(t, 512))
	data := randomFile(t, filepath.Join(s.dir, "f"), 4*hole64)
	s.modes.SetRead(dataio.Direct)
	x := s.session(2, "direct")
	_, o, fh := x.open("f", wire.OPEN4_SHARE_ACCESS_READ)
	plus := func(off uint64) op {
		return op{wire.OP_READ_PLUS, &wire.READPLUS4args{RpaStateid: o.Stateid, RpaOffset: off, RpaCount: hole64}}
	}
	for what, ops := range map[string][]op{
		"READ_PLUS first": {plus(0), read(o.Stateid, hole64, hole64), plus(2 * hole64)},
		"READ first":      {read(o.Stateid, 0, hole64), plus(hole64), read(o.Stateid, 2*hole64, hole64)},
	} {
		before := s.engine.Stats().Read
		r := x.on(fh, ops...)
		for i, p := range ops {
			var b []byte
			if p.num == wire.OP_READ {
				var res wire.READ4res
				r.next(t, p.num, ok, &res)
				b, _ = res.Resok4.Data.Bytes()
			} else {
				var res wire.READPLUS4res
				r.next(t, p.num, ok, &res)
				b, _ = res.RpResok4.RprContents[0].RpcData.DData.Bytes()
			}
			if !bytes.Equal(b, data[i*hole64:(i+1)*hole64]) {
				t.Errorf("%s: wrong data in %d", what, i)
			}
		}
		after := s.engine.Stats().Read
		ran := func(mode string) int64 { return int64(after[mode].Calls - before[mode].Calls) }
		if ran("direct") != 1 || ran("buffered")+ran("dontcache") != 2 {
			t.Errorf("%s: %d direct, %d dontcache, %d buffered", what, ran("direct"), ran("dontcache"), ran("buffered"))
		}
	}
}

// CLONE shares storage, of whole blocks, and leaves source and target independent.
func TestClone(t *testing.T) {
	s := startServerOn(t, testenv.XFS(t, 512))
	data := randomFile(t, filepath.Join(s.dir, "src"), 4*hole64)
	c := newCopier(s, "clone", "src", "dst")
	clone := func(src, dst, n uint64, want wire.Nfsstat4) {
		t.Helper()
		r := c.compound(putfh(c.srcFH), op{wire.OP_SAVEFH, nil}, putfh(c.dstFH), op{wire.OP_CLONE, &wire.CLONE4args{
			ClSrcStateid: c.srcSid, ClDstStateid: c.dstSid, ClSrcOffset: src, ClDstOffset: dst, ClCount: n}})
		skipTo(t, r, wire.OP_PUTFH, wire.OP_SAVEFH, wire.OP_PUTFH)
		r.next(t, wire.OP_CLONE, want, nil)
	}
	clone(hole64, 0, 2*hole64, ok)
	dst := filepath.Join(s.dir, "dst")
	if b, _ := os.ReadFile(dst); !bytes.Equal(b, data[hole64:3*hole64]) {
		t.Error("the clone differs")
	}
	c.on(c.dstFH, write(c.dstSid, 0, "changed"))
	if b, _ := os.ReadFile(filepath.Join(s.dir, "src")); !bytes.Equal(b, data) {
		t.Error("a change of the clone changed the source")
	}
	clone(0, 0, 0, ok) // 0: to the end
	if b, _ := os.ReadFile(dst); !bytes.Equal(b, data) {
		t.Error("the whole clone differs")
	}
	clone(1, 0, hole64, wire.NFS4ERR_INVAL)
	clone(0, 0, 1<<40, wire.NFS4ERR_INVAL)
	must(t, os.Truncate(dst, 0))
	must(t, unix.Chmod(dst, 0o644))
	c.srcSid, c.dstSid = c.dstSid, c.srcSid
	clone(0, 0, 0, wire.NFS4ERR_BAD_STATEID)
}

// Extended attributes (RFC 8276): all ways to set one, lists in pieces, limits.
func TestXattrs(t *testing.T) {
	s := startServerOn(t, testenv.XFS(t, 512))
	x := s.session(2, "xattr")
	_, _, fh := x.open("f", wire.OPEN4_SHARE_ACCESS_BOTH)
	set := func(how wire.SetxattrOption4, name, value string, want wire.Nfsstat4) {
		t.Helper()
		x.on(fh, op{wire.OP_SETXATTR, &wire.SETXATTR4args{SxaOption: how, SxaKey: []byte(name), SxaValue: []byte(value)}}).next(t, wire.OP_SETXATTR, want, nil)
	}
	get := func(name, value string, want wire.Nfsstat4) {
		t.Helper()
		var res wire.GETXATTR4res
		r := x.on(fh, op{wire.OP_GETXATTR, &wire.GETXATTR4args{GxaName: []byte(name)}})
		if want != ok {
			r.next(t, wire.OP_GETXATTR, want, nil)
			return
		}
		if r.next(t, wire.OP_GETXATTR, ok, &res); string(res.GxrValue) != value {
			t.Errorf("%s is %q", name, res.GxrValue)
		}
	}
	gone := func(name string, want wire.Nfsstat4) {
		t.Helper()
		x.on(fh, op{wire.OP_REMOVEXATTR, &wire.REMOVEXATTR4args{RxaName: []byte(name)}}).next(t, wire.OP_REMOVEXATTR, want, nil)
	}
	list := func(max uint32) map[string]int {
		t.Helper()
		names := map[string]int{}
		for cookie := uint64(0); ; {
			var res wire.LISTXATTRS4res
			x.on(fh, op{wire.OP_LISTXATTRS, &wire.LISTXATTRS4args{LxaCookie: cookie, LxaMaxcount: max}}).next(t, wire.OP_LISTXATTRS, ok, &res)
			for _, n := range res.LxrValue.LxrNames {
				names[string(n)]++
			}
			if res.LxrValue.LxrEof {
				return names
			}
			if len(res.LxrValue.LxrNames) == 0 || res.LxrValue.LxrCookie <= cookie {
				t.Fatalf("the list stands still at %d", cookie)
			}
			cookie = res.LxrValue.LxrCookie
		}
	}
	if n := list(4096); len(n) != 0 {
		t.Errorf("a new file has %v", n)
	}
	set(wire.SETXATTR4_REPLACE, "a", "0", wire.NFS4ERR_NOXATTR)
	set(wire.SETXATTR4_CREATE, "a", "1", ok)
	set(wire.SETXATTR4_CREATE, "a", "2", wire.NFS4ERR_EXIST)
	get("a", "1", ok)
	set(wire.SETXATTR4_REPLACE, "a", "3", ok)
	set(wire.SETXATTR4_EITHER, "b", "", ok)
	get("a", "3", ok)
	get("b", "", ok)
	set(3, "c", "", wire.NFS4ERR_INVAL)
	get("none", "", wire.NFS4ERR_NOXATTR)
	gone("none", wire.NFS4ERR_NOXATTR)
	gone("b", ok)
	get("b", "", wire.NFS4ERR_NOXATTR)

	// On the server they are in the namespace of users, and others are not to be seen.
	b := make([]byte, 10)
	if n, err := unix.Getxattr(filepath.Join(s.dir, "f"), "user.a", b); err != nil || string(b[:n]) != "3" {
		t.Errorf("user.a: %q, %v", b[:max(n, 0)], err)
	}
	must(t, unix.Setxattr(filepath.Join(s.dir, "f"), "trusted.t", []byte("x"), 0))
	want := map[string]int{"a": 1}
	for i := range 100 {
		name := fmt.Sprintf("name%d", i)
		set(wire.SETXATTR4_EITHER, name, "v", ok)
		want[name] = 1
	}
	for _, max := range []uint32{64, 200, 4096, 1 << 20} {
		if got := list(max); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("lists of %d bytes: %v", max, got)
		}
	}
	x.on(fh, op{wire.OP_LISTXATTRS, &wire.LISTXATTRS4args{LxaMaxcount: 8}}).next(t, wire.OP_LISTXATTRS, wire.NFS4ERR_TOOSMALL, nil)
	x.on(fh, op{wire.OP_LISTXATTRS, &wire.LISTXATTRS4args{LxaMaxcount: 18}}).next(t, wire.OP_LISTXATTRS, wire.NFS4ERR_TOOSMALL, nil)

	set(wire.SETXATTR4_EITHER, "", "v", wire.NFS4ERR_INVAL)
	set(wire.SETXATTR4_EITHER, "nul\x00", "v", wire.NFS4ERR_INVAL)
	set(wire.SETXATTR4_EITHER, strings.Repeat("n", 250), "v", ok)
	set(wire.SETXATTR4_EITHER, strings.Repeat("n", 251), "v", wire.NFS4ERR_NAMETOOLONG)
	big := strings.Repeat("v", 65536)
	set(wire.SETXATTR4_EITHER, "big", big, ok)
	get("big", big, ok)
	set(wire.SETXATTR4_EITHER, "bigger", big+"v", wire.NFS4ERR_XATTR2BIG)
}

// IO_ADVISE steers what follows on the same open, and no other: seen by the ways READs take.
func TestIOAdvise(t *testing.T) {
	s := startServer(t)
	randomFile(t, filepath.Join(s.dir, "f"), 1<<20)
	x, y := s.session(2, "advise"), s.session(2, "other")
	_, o, fh := x.open("f", wire.OPEN4_SHARE_ACCESS_READ)
	_, oo, _ := y.open("f", wire.OPEN4_SHARE_ACCESS_READ)
	uncached := func() int64 { return int64(s.engine.Stats().Read["dontcache"].Calls) }
	// A hint that nothing is known of is not answered.
	x.advise(fh, o.Stateid, 0, 0, []wire.IOADVISEType4{wire.IO_ADVISE4_NOREUSE, wire.IO_ADVISE4_INIT_PROXIMITY}, wire.IO_ADVISE4_NOREUSE)
	x.get(fh, o.Stateid, 0, 1<<20)
	if n := uncached(); n != 1 {
		t.Errorf("NOREUSE: %d READs in dontcache", n)
	}
	y.get(fh, oo.Stateid, 0, 1<<20)
	if n := uncached(); n != 1 {
		t.Errorf("another open's READ took the way of NOREUSE")
	}
	x.advise(fh, o.Stateid, 0, 0, nil)
	x.get(fh, o.Stateid, 0, 1<<20)
	if n := uncached(); n != 1 {
		t.Errorf("NOREUSE stayed after it was taken back")
	}
}

// What the hints bring into memory, each on a file that nobody has read before.
func TestIOAdviseReadahead(t *testing.T) {
	s := startServerOn(t, testenv.XFS(t, 512))
	x := s.session(2, "advise")
	// brings is how many pages a READ brings in after a hint.
	brings := func(hint wire.IOADVISEType4, adviseAt, advised, off uint64, count uint32) int {
		t.Helper()
		name := fmt.Sprint("f", hint)
		path := filepath.Join(s.dir, name)
		testenv.ColdFile(t, path, 8)
		_, o, fh := x.open(name, wire.OPEN4_SHARE_ACCESS_READ)
		x.advise(fh, o.Stateid, adviseAt, advised, []wire.IOADVISEType4{hint}, hint)
		if count > 0 {
			x.get(fh, o.Stateid, off, count)
		}
		return settledPages(t, path)
	}
	if n := brings(wire.IO_ADVISE4_RANDOM, 0, 0, 1<<20, 4096); n != 1 {
		t.Errorf("RANDOM: a READ of one page brought %d in", n)
	}
	normal := brings(wire.IO_ADVISE4_NORMAL, 0, 0, 0, 128<<10)
	if normal <= 1 {
		t.Errorf("NORMAL: a READ brought %d in", normal)
	}
	if n := brings(wire.IO_ADVISE4_SEQUENTIAL, 0, 0, 0, 128<<10); n <= normal {
		t.Errorf("SEQUENTIAL: a READ brought %d in, with NORMAL %d", n, normal)
	}
	if n, want := brings(wire.IO_ADVISE4_WILLNEED, 1<<20, 4<<20, 0, 0), 4<<20/os.Getpagesize(); n < want {
		t.Errorf("WILLNEED: %d of %d pages are there", n, want)
	}
}

// advise gives hints, and looks at which are taken.
func (x *session) advise(fh []byte, sid wire.Stateid4, off, n uint64, hints []wire.IOADVISEType4, want ...wire.IOADVISEType4) {
	t := x.s.t
	t.Helper()
	var res wire.IOADVISE4res
	x.on(fh, op{wire.OP_IO_ADVISE, &wire.IOADVISE4args{IaaStateid: sid, IaaOffset: off, IaaCount: n, IaaHints: wire.Bits(hints...)}}).
		next(t, wire.OP_IO_ADVISE, ok, &res)
	if res.Resok4.IorHints.Words != wire.Bits(want...).Words {
		t.Errorf("hints %v: answered %v", hints, res.Resok4.IorHints)
	}
}

func (x *session) get(fh []byte, sid wire.Stateid4, off uint64, n uint32) {
	x.s.t.Helper()
	x.on(fh, read(sid, off, n)).next(x.s.t, wire.OP_READ, ok, &wire.READ4res{})
}

// settledPages is how many pages are in memory once no more come.
func settledPages(t testing.TB, path string) int {
	t.Helper()
	last, same := -1, 0
	for same < 10 {
		n := testenv.CachedPages(t, path)
		if same++; n != last {
			last, same = n, 0
		}
		time.Sleep(5 * time.Millisecond)
	}
	return last
}

// Names are any bytes, unless they are to be in UTF-8.
func TestNames(t *testing.T) {
	for _, strict := range []bool{false, true} {
		s := startService(t, t.TempDir(), func(c *Config) { c.UTF8Names = strict })
		want := ok
		if strict {
			want = wire.NFS4ERR_INVAL
		}
		x := s.session(2, fmt.Sprint("names", strict))
		const bad, good = "caf\xe9", "caf\u00e9"
		mkdir := func(name string) op {
			return op{wire.OP_CREATE, &wire.CREATE4args{Objtype: wire.Createtype4{Type: wire.NF4DIR}, Objname: []byte(name), Createattrs: mode(0o755)}}
		}
		for _, c := range []struct {
			name string
			want wire.Nfsstat4
		}{{bad, want}, {good, ok}} {
			if !strict || c.want == ok {
				must(t, os.WriteFile(filepath.Join(s.dir, c.name), nil, 0o644))
			}
			for i, ops := range [][]op{
				{root(), lookup(c.name)}, {root(), op{wire.OP_SECINFO, &wire.SECINFO4args{Name: []byte(c.name)}}}, {root(), mkdir(c.name + "d")},
				{root(), op{wire.OP_SAVEFH, nil}, op{wire.OP_RENAME, &wire.RENAME4args{Oldname: []byte(c.name + "d"), Newname: []byte(c.name + "e")}}},
				{root(), op{wire.OP_OPEN, openArgs("o", 0, x.clientid, c.name, wire.OPEN4_SHARE_ACCESS_BOTH, 0, true)}, op{wire.OP_SETXATTR, &wire.SETXATTR4args{SxaKey: []byte(c.name)}}},
				{root(), lookup(c.name), op{wire.OP_SAVEFH, nil}, root(), op{wire.OP_LINK, &wire.LINK4args{Newname: []byte(c.name + "l")}}},
				{root(), remove(c.name + "e")}, {root(), remove(c.name + "l")}, {root(), remove(c.name)},
			} {
				if r := x.compound(ops...); r.status != c.want {
					t.Errorf("strict %v, %q, %d: %v, want %v", strict, c.name, i, r.status, c.want)
				}
			}
		}
	}
}
