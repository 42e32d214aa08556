// Wire goldens: for each procedure, the reply is compared byte for byte with
// what a second, independent encoder makes of what the file system says. The
// generated codecs have no part in it, so that a mistake in the order or width
// of a field cannot cancel out.

package nfs3

import (
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"sluice/rpc"
	"sluice/test/nfscall"
	wire3 "sluice/xdr/nfs3"
)

// wire is the independent encoder: a builder of big-endian words.
type wire []byte

func (w wire) u32(vs ...uint32) wire {
	for _, v := range vs {
		w = binary.BigEndian.AppendUint32(w, v)
	}
	return w
}

func (w wire) u64(vs ...uint64) wire {
	for _, v := range vs {
		w = binary.BigEndian.AppendUint64(w, v)
	}
	return w
}

func (w wire) opaque(b []byte) wire {
	w = append(w.u32(uint32(len(b))), b...)
	return append(w, make([]byte, -len(b)&3)...)
}

func statOf(t testing.TB, path string) unix.Stat_t {
	t.Helper()
	var st unix.Stat_t
	if err := unix.Lstat(path, &st); err != nil {
		t.Fatalf("lstat %s: %v", path, err)
	}
	return st
}

var ftypes = map[uint32]uint32{unix.S_IFREG: 1, unix.S_IFDIR: 2, unix.S_IFBLK: 3, unix.S_IFCHR: 4,
	unix.S_IFLNK: 5, unix.S_IFSOCK: 6, unix.S_IFIFO: 7}

// fattr is fattr3 of a stat; the fsid is the server's own, taken from the export's root.
func (w wire) fattr(st unix.Stat_t, fsid uint64) wire {
	w = w.u32(ftypes[st.Mode&unix.S_IFMT], st.Mode&0o7777, uint32(st.Nlink), st.Uid, st.Gid)
	w = w.u64(uint64(st.Size), uint64(st.Blocks)*512)
	w = w.u32(unix.Major(st.Rdev), unix.Minor(st.Rdev))
	w = w.u64(fsid, st.Ino)
	for _, ts := range []unix.Timespec{st.Atim, st.Mtim, st.Ctim} {
		w = w.u32(uint32(ts.Sec), uint32(ts.Nsec))
	}
	return w
}

func (w wire) postOp(st unix.Stat_t, fsid uint64) wire { return w.u32(1).fattr(st, fsid) }

// wcc is wcc_data of an object that looked like before and now like after.
func (w wire) wcc(before, after unix.Stat_t, fsid uint64) wire {
	w = w.u32(1).u64(uint64(before.Size))
	w = w.u32(uint32(before.Mtim.Sec), uint32(before.Mtim.Nsec), uint32(before.Ctim.Sec), uint32(before.Ctim.Nsec))
	return w.postOp(after, fsid)
}

// sameWire compares a reply with what was expected, and shows the first word that differs.
func sameWire(t *testing.T, what string, got []byte, want wire) {
	t.Helper()
	if string(got) == string(want) {
		return
	}
	i := 0
	for i < len(got) && i < len(want) && got[i] == want[i] {
		i++
	}
	i &^= 3
	t.Errorf("%s: the reply differs at byte %d (word %d)\n got %d bytes ...% x\nwant %d bytes ...% x", what, i, i/4,
		len(got), cut(got, i), len(want), cut(want, i))
}

func cut(b []byte, at int) []byte { return b[min(at, len(b)):min(at+64, len(b))] }

func TestWireGoldens(t *testing.T) {
	s := startServer(t, "rw,no_root_squash,insecure,async")
	c := s.client(t)
	root := c.Mount(t, s.dir)
	path := func(elem ...string) string { return filepath.Join(append([]string{s.dir}, elem...)...) }
	nfscall.Must(t, os.WriteFile(path("file"), []byte("hello, world"), 0o640))
	nfscall.Must(t, os.Mkdir(path("dir"), 0o755))
	nfscall.Must(t, os.Symlink("../some/target", path("lnk")))
	nfscall.Must(t, unix.Mknod(path("null"), unix.S_IFCHR|0o600, int(unix.Mkdev(1, 3))))
	nfscall.Must(t, unix.Mkfifo(path("fifo"), 0o644))

	var rootAttr wire3.GETATTR3res
	c.Do(t, wire3.NFSPROC3_GETATTR, &wire3.GETATTR3args{Object: nfscall.FH(root)}, &rootAttr)
	fsid := rootAttr.Resok.ObjAttributes.Fsid

	// GETATTR of every type.
	for _, name := range []string{".", "file", "dir", "lnk", "null", "fifo"} {
		h := root
		if name != "." {
			h = c.Lookup(t, root, name)
		}
		got := c.Raw(t, wire3.NFSPROC3_GETATTR, &wire3.GETATTR3args{Object: nfscall.FH(h)})
		sameWire(t, "GETATTR "+name, got, wire{}.u32(0).fattr(statOf(t, path(name)), fsid))
	}
	file, dir, lnk := c.Lookup(t, root, "file"), c.Lookup(t, root, "dir"), c.Lookup(t, root, "lnk")

	// LOOKUP: the handle's bytes are the server's own, everything around them is not.
	got := c.Raw(t, wire3.NFSPROC3_LOOKUP, &wire3.LOOKUP3args{What: nfscall.Dirop(root, "file")})
	sameWire(t, "LOOKUP", got, wire{}.u32(0).opaque(file).postOp(statOf(t, path("file")), fsid).postOp(statOf(t, s.dir), fsid))
	got = c.Raw(t, wire3.NFSPROC3_LOOKUP, &wire3.LOOKUP3args{What: nfscall.Dirop(root, "absent")})
	sameWire(t, "LOOKUP of nothing", got, wire{}.u32(2).postOp(statOf(t, s.dir), fsid))

	got = c.Raw(t, wire3.NFSPROC3_ACCESS, &wire3.ACCESS3args{Object: nfscall.FH(dir), Access: 0x3f})
	sameWire(t, "ACCESS", got, wire{}.u32(0).postOp(statOf(t, path("dir")), fsid).u32(0x1f)) // EXECUTE has no meaning for a directory

	got = c.Raw(t, wire3.NFSPROC3_READLINK, &wire3.READLINK3args{Symlink: nfscall.FH(lnk)})
	sameWire(t, "READLINK", got, wire{}.u32(0).postOp(statOf(t, path("lnk")), fsid).opaque([]byte("../some/target")))
	got = c.Raw(t, wire3.NFSPROC3_READLINK, &wire3.READLINK3args{Symlink: nfscall.FH(file)})
	sameWire(t, "READLINK of a file", got, wire{}.u32(22).postOp(statOf(t, path("file")), fsid))

	got = c.Raw(t, wire3.NFSPROC3_READ, &wire3.READ3args{File: nfscall.FH(file), Offset: 7, Count: 100})
	sameWire(t, "READ", got, wire{}.u32(0).postOp(statOf(t, path("file")), fsid).u32(5, 1).opaque([]byte("world")))
	got = c.Raw(t, wire3.NFSPROC3_READ, &wire3.READ3args{File: nfscall.FH(file), Offset: 0, Count: 5})
	sameWire(t, "READ of the start", got, wire{}.u32(0).postOp(statOf(t, path("file")), fsid).u32(5, 0).opaque([]byte("hello")))

	// WRITE and COMMIT: the verifier is random and the same in both.
	before := statOf(t, path("file"))
	got = c.Raw(t, wire3.NFSPROC3_WRITE, &wire3.WRITE3args{File: nfscall.FH(file), Offset: 7, Count: 6, Stable: wire3.UNSTABLE, Data: []byte("there!")})
	if len(got) < 8 {
		t.Fatalf("WRITE: reply of %d bytes", len(got))
	}
	verf := binary.BigEndian.Uint64(got[len(got)-8:])
	sameWire(t, "WRITE", got, wire{}.u32(0).wcc(before, statOf(t, path("file")), fsid).u32(6, 0).u64(verf))
	before = statOf(t, path("file"))
	got = c.Raw(t, wire3.NFSPROC3_COMMIT, &wire3.COMMIT3args{File: nfscall.FH(file)})
	sameWire(t, "COMMIT", got, wire{}.u32(0).wcc(before, statOf(t, path("file")), fsid).u64(verf))
	if verf == 0 {
		t.Error("the write verifier is 0")
	}

	before = statOf(t, path("file"))
	got = c.Raw(t, wire3.NFSPROC3_SETATTR, &wire3.SETATTR3args{Object: nfscall.FH(file), NewAttributes: wire3.Sattr3{
		Mode: wire3.SetMode3{SetIt: true, Mode: 0o4711}, Size: wire3.SetSize3{SetIt: true, Size: 5},
		Mtime: wire3.SetMtime{SetIt: wire3.SET_TO_CLIENT_TIME, Mtime: wire3.Nfstime3{Seconds: 1_000_000_000, Nseconds: 123_456_789}}}})
	sameWire(t, "SETATTR", got, wire{}.u32(0).wcc(before, statOf(t, path("file")), fsid))
	if st := statOf(t, path("file")); st.Mode&0o7777 != 0o4711 || st.Size != 5 || st.Mtim.Nano() != 1_000_000_000_123_456_789 {
		t.Errorf("SETATTR left mode %o, size %d, mtime %d", st.Mode, st.Size, st.Mtim.Nano())
	}

	// The makers: handle, attributes, and the directory around it.
	for _, x := range []struct {
		name string
		proc uint32
		args rpc.Encodable
	}{
		{"created", wire3.NFSPROC3_CREATE, &wire3.CREATE3args{Where: nfscall.Dirop(dir, "created"), How: wire3.Createhow3{Mode: wire3.GUARDED, ObjAttributes: nfscall.Mode(0o604)}}},
		{"unchecked", wire3.NFSPROC3_CREATE, &wire3.CREATE3args{Where: nfscall.Dirop(dir, "unchecked"), How: wire3.Createhow3{Mode: wire3.UNCHECKED, ObjAttributes: nfscall.Mode(0o644)}}},
		{"subdir", wire3.NFSPROC3_MKDIR, &wire3.MKDIR3args{Where: nfscall.Dirop(dir, "subdir"), Attributes: nfscall.Mode(0o1777)}},
		{"slnk", wire3.NFSPROC3_SYMLINK, &wire3.SYMLINK3args{Where: nfscall.Dirop(dir, "slnk"), Symlink: wire3.Symlinkdata3{SymlinkData: []byte("to here")}}},
		{"dev", wire3.NFSPROC3_MKNOD, &wire3.MKNOD3args{Where: nfscall.Dirop(dir, "dev"), What: wire3.Mknoddata3{Type: wire3.NF3BLK,
			Device: wire3.Devicedata3{DevAttributes: nfscall.Mode(0o660), Spec: wire3.Specdata3{Specdata1: 7, Specdata2: 300}}}}},
		{"sock", wire3.NFSPROC3_MKNOD, &wire3.MKNOD3args{Where: nfscall.Dirop(dir, "sock"), What: wire3.Mknoddata3{Type: wire3.NF3SOCK, PipeAttributes: nfscall.Mode(0o600)}}},
	} {
		before := statOf(t, path("dir"))
		got := c.Raw(t, x.proc, x.args)
		if _, err := os.Lstat(path("dir", x.name)); err != nil {
			t.Errorf("%s: %v; reply % x", x.name, err, cut(got, 0))
			continue
		}
		h := c.Lookup(t, dir, x.name)
		sameWire(t, fmt.Sprintf("procedure %d, %s", x.proc, x.name), got,
			wire{}.u32(0).u32(1).opaque(h).postOp(statOf(t, path("dir", x.name)), fsid).wcc(before, statOf(t, path("dir")), fsid))
	}
	if st := statOf(t, path("dir", "dev")); st.Mode != unix.S_IFBLK|0o660 || st.Rdev != unix.Mkdev(7, 300) {
		t.Errorf("the device node has mode %o and number %x", st.Mode, st.Rdev)
	}

	before = statOf(t, path("dir"))
	got = c.Raw(t, wire3.NFSPROC3_LINK, &wire3.LINK3args{File: nfscall.FH(file), Link: nfscall.Dirop(dir, "hard")})
	sameWire(t, "LINK", got, wire{}.u32(0).postOp(statOf(t, path("file")), fsid).wcc(before, statOf(t, path("dir")), fsid))

	fromBefore, toBefore := statOf(t, s.dir), statOf(t, path("dir"))
	got = c.Raw(t, wire3.NFSPROC3_RENAME, &wire3.RENAME3args{From: nfscall.Dirop(root, "fifo"), To: nfscall.Dirop(dir, "moved")})
	sameWire(t, "RENAME", got, wire{}.u32(0).wcc(fromBefore, statOf(t, s.dir), fsid).wcc(toBefore, statOf(t, path("dir")), fsid))

	before = statOf(t, path("dir"))
	got = c.Raw(t, wire3.NFSPROC3_REMOVE, &wire3.REMOVE3args{Object: nfscall.Dirop(dir, "hard")})
	sameWire(t, "REMOVE", got, wire{}.u32(0).wcc(before, statOf(t, path("dir")), fsid))
	before = statOf(t, path("dir"))
	got = c.Raw(t, wire3.NFSPROC3_RMDIR, &wire3.RMDIR3args{Object: nfscall.Dirop(dir, "subdir")})
	sameWire(t, "RMDIR", got, wire{}.u32(0).wcc(before, statOf(t, path("dir")), fsid))

	// READDIR of an empty directory: the two dots, whose cookies are the file system's own.
	nfscall.Must(t, os.Mkdir(path("empty"), 0o700))
	empty := c.Lookup(t, root, "empty")
	var rd wire3.READDIR3res
	c.Do(t, wire3.NFSPROC3_READDIR, &wire3.READDIR3args{Dir: nfscall.FH(empty), Count: 4096}, &rd)
	if len(rd.Resok.Reply.Entries) != 2 {
		t.Fatalf("an empty directory lists %d entries", len(rd.Resok.Reply.Entries))
	}
	w := wire{}.u32(0).postOp(statOf(t, path("empty")), fsid)
	w = append(w, rd.Resok.Cookieverf[:]...)
	for _, e := range rd.Resok.Reply.Entries {
		st := statOf(t, path("empty", string(e.Name)))
		w = w.u32(1).u64(st.Ino).opaque(e.Name).u64(e.Cookie)
	}
	got = c.Raw(t, wire3.NFSPROC3_READDIR, &wire3.READDIR3args{Dir: nfscall.FH(empty), Count: 4096})
	sameWire(t, "READDIR", got, w.u32(0, 1))

	nfscall.Must(t, os.WriteFile(path("empty", "one"), nil, 0o600))
	one := c.Lookup(t, empty, "one")
	var rp wire3.READDIRPLUS3res
	c.Do(t, wire3.NFSPROC3_READDIRPLUS, &wire3.READDIRPLUS3args{Dir: nfscall.FH(empty), Dircount: 4096, Maxcount: 4096}, &rp)
	w = wire{}.u32(0).postOp(statOf(t, path("empty")), fsid)
	w = append(w, rp.Resok.Cookieverf[:]...)
	handles := map[string][]byte{".": empty, "..": root, "one": one}
	for _, e := range rp.Resok.Reply.Entries {
		st := statOf(t, path("empty", string(e.Name)))
		w = w.u32(1).u64(st.Ino).opaque(e.Name).u64(e.Cookie).postOp(st, fsid).u32(1).opaque(handles[string(e.Name)])
	}
	got = c.Raw(t, wire3.NFSPROC3_READDIRPLUS, &wire3.READDIRPLUS3args{Dir: nfscall.FH(empty), Dircount: 4096, Maxcount: 4096})
	sameWire(t, "READDIRPLUS", got, w.u32(0, 1))

	// FSSTAT moves under us on a busy file system: what must agree is what does not move.
	var vs unix.Statfs_t
	nfscall.Must(t, unix.Statfs(s.dir, &vs))
	got = c.Raw(t, wire3.NFSPROC3_FSSTAT, &wire3.FSSTAT3args{Fsroot: nfscall.FH(root)})
	want := wire{}.u32(0).postOp(statOf(t, s.dir), fsid).u64(vs.Blocks * uint64(vs.Frsize))
	if len(got) != len(want)+5*8+4 || string(got[:len(want)]) != string(want) {
		t.Errorf("FSSTAT: % x", got)
	}

	got = c.Raw(t, wire3.NFSPROC3_FSINFO, &wire3.FSINFO3args{Fsroot: nfscall.FH(root)})
	const mib = 1 << 20
	head := wire{}.u32(0).postOp(statOf(t, s.dir), fsid).u32(mib, mib, 4096, mib, mib, 4096, mib)
	tail := wire{}.u32(0, 1, 0x1b) // times to the nanosecond; LINK, SYMLINK, HOMOGENEOUS, CANSETTIME
	if len(got) != len(head)+8+len(tail) || string(got[:len(head)]) != string(head) || string(got[len(head)+8:]) != string(tail) {
		t.Errorf("FSINFO:\n got % x\nwant % x (maxfilesize) % x", got, []byte(head), []byte(tail))
	}

	got = c.Raw(t, wire3.NFSPROC3_PATHCONF, &wire3.PATHCONF3args{Object: nfscall.FH(root)})
	head = wire{}.u32(0).postOp(statOf(t, s.dir), fsid)
	tail = wire{}.u32(255, 1, 1, 0, 1)
	if len(got) != len(head)+4+len(tail) || string(got[:len(head)]) != string(head) || string(got[len(head)+4:]) != string(tail) {
		t.Errorf("PATHCONF:\n got % x\nwant % x (linkmax) % x", got, []byte(head), []byte(tail))
	}

	if got = c.Raw(t, wire3.NFSPROC3_NULL, nil); len(got) != 0 {
		t.Errorf("NULL answers with % x", got)
	}
	if strings.Contains(s.log.String(), "panic") {
		t.Error(s.log.String())
	}
}
