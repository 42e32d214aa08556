package vfs

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

func TestOperations(t *testing.T) {
	d := exportDir(t)
	b := newBench(t, d+" *(rw,no_root_squash)\n")
	b.as(0, 0, func(u *user) {
		root := u.mount(d)
		fh, a, err := u.create(root, "file", 0o640)
		ok(t, "create", err)
		if a.Type != TypeReg || a.Mode != 0o640 || a.Nlink != 1 || a.UID != 0 || a.Size != 0 {
			t.Errorf("new file: %+v", a)
		}
		w, err := u.write(fh, 3, "hello")
		ok(t, "write", err)
		if w.N != 5 || !w.Change.BeforeOK || w.Change.Before.Size != 0 || w.Change.After.Size != 8 {
			t.Errorf("write: %+v", w)
		}
		data, eof, err := u.read(fh, 0, 100)
		ok(t, "read", err)
		if data != "\x00\x00\x00hello" || !eof {
			t.Errorf("read %q eof %v", data, eof)
		}
		data, eof, err = u.read(fh, 2, 3)
		ok(t, "read", err)
		if data != "\x00he" || eof {
			t.Errorf("read %q eof %v", data, eof)
		}
		if _, eof, err = u.read(fh, 1<<63, 10); err != nil || !eof {
			t.Errorf("read past the largest offset: eof %v, %v", eof, err)
		}
		_, err = u.write(fh, 1<<63, "x")
		want(t, "write past the largest offset", err, unix.EFBIG)

		_, a, err = u.lookup(root, "file")
		ok(t, "lookup", err)
		if a.Size != 8 {
			t.Errorf("lookup: %+v", a)
		}
		_, _, err = u.lookup(root, "none")
		want(t, "lookup of nothing", err, unix.ENOENT)

		sub, err := u.mkdir(root, "sub", 0o755)
		ok(t, "mkdir", err)
		_, err = u.mkdir(root, "sub", 0o755)
		want(t, "mkdir again", err, unix.EEXIST)
		up, ua, err := u.lookup(sub, "..")
		ok(t, "lookup ..", err)
		ra, _ := u.getattr(root)
		if string(up) != string(root) || ua.FileID != ra.FileID {
			t.Error(".. of a directory is not its parent")
		}
		up, _, err = u.lookup(root, "..")
		ok(t, "lookup .. of the root", err)
		if string(up) != string(root) {
			t.Error(".. leads out of the export")
		}
		self, _, err := u.lookup(sub, ".")
		ok(t, "lookup .", err)
		if string(self) != string(sub) {
			t.Error(". is not itself")
		}

		ok(t, "symlink", u.do(root, func(v *View, n Node) error {
			e, c, err := v.Symlink(n, []byte("link"), []byte("file"), &SetAttr{})
			if err == nil && (e.Attr.Type != TypeLnk || !c.BeforeOK || !c.AfterOK || c.After.Change == c.Before.Change) {
				t.Errorf("symlink: %+v %+v", e.Attr, c)
			}
			return err
		}))
		lfh, _, err := u.lookup(root, "link")
		ok(t, "lookup link", err)
		ok(t, "readlink", u.do(lfh, func(v *View, n Node) error {
			var buf [MaxPath]byte
			target, a, err := v.Readlink(n, buf[:])
			if string(target) != "file" || a.Type != TypeLnk {
				t.Errorf("readlink: %q %+v", target, a)
			}
			return err
		}))
		_, _, err = u.read(lfh, 0, 1)
		want(t, "read of a link", err, unix.EINVAL)
		_, _, err = u.read(sub, 0, 1)
		want(t, "read of a directory", err, unix.EISDIR)
		_, _, err = u.lookup(fh, "x")
		want(t, "lookup in a file", err, unix.ENOTDIR)

		for _, k := range []struct {
			t Type
			m uint32
		}{{TypeFifo, unix.S_IFIFO}, {TypeSock, unix.S_IFSOCK}, {TypeChr, unix.S_IFCHR}, {TypeBlk, unix.S_IFBLK}} {
			name := fmt.Sprintf("node%d", k.t)
			ok(t, name, u.do(root, func(v *View, n Node) error {
				e, _, err := v.Mknod(n, []byte(name), k.t, 7, 9, &SetAttr{SetMode: true, Mode: 0o4612})
				if err == nil && (e.Attr.Type != k.t || e.Attr.Mode != 0o4612) {
					t.Errorf("mknod: %+v", e.Attr)
				}
				if (k.t == TypeChr || k.t == TypeBlk) && (e.Attr.RdevMajor != 7 || e.Attr.RdevMinor != 9) {
					t.Errorf("mknod: device %d:%d", e.Attr.RdevMajor, e.Attr.RdevMinor)
				}
				return err
			}))
			var st unix.Stat_t
			if err := unix.Lstat(filepath.Join(d, name), &st); err != nil || st.Mode != k.m|0o4612 {
				t.Errorf("%s: mode %o, %v", name, st.Mode, err)
			}
		}
		want(t, "mknod of a directory", u.do(root, func(v *View, n Node) error {
			_, _, err := v.Mknod(n, []byte("x"), TypeDir, 0, 0, &SetAttr{})
			return err
		}), ErrBadType)

		ok(t, "link", u.do(fh, func(v *View, n Node) error {
			dn, err := v.Node(root)
			if err != nil {
				return err
			}
			a, c, err := v.Link(n, dn, []byte("hard"))
			if err == nil && (a.Nlink != 2 || !c.BeforeOK || !c.AfterOK) {
				t.Errorf("link: %+v %+v", a, c)
			}
			return err
		}))
		ok(t, "link of a symlink", u.do(lfh, func(v *View, n Node) error {
			dn, _ := v.Node(root)
			a, _, err := v.Link(n, dn, []byte("hardlink"))
			if a.Type != TypeLnk || a.Nlink != 2 {
				t.Errorf("link of a symlink: %+v", a)
			}
			return err
		}))
		want(t, "link of a directory", u.do(sub, func(v *View, n Node) error {
			dn, _ := v.Node(root)
			_, _, err := v.Link(n, dn, []byte("d2"))
			return err
		}), unix.EISDIR)

		fc, tc, err := u.rename(root, "file", sub, "moved")
		ok(t, "rename", err)
		if !fc.BeforeOK || !tc.AfterOK || fc.Before.Change == fc.After.Change || tc.Before.Change == tc.After.Change {
			t.Errorf("rename: %+v %+v", fc, tc)
		}
		if a, err := u.getattr(fh); err != nil || a.Size != 8 {
			t.Errorf("a handle does not survive a rename: %v", err)
		}
		_, _, err = u.rename(root, "hard", sub, "moved") // both names of one file
		ok(t, "rename onto itself", err)
		if !exists(d, "hard") || !exists(d, "sub", "moved") {
			t.Error("a rename between two names of one file removed one")
		}
		_, _, err = u.rename(root, "sub", sub, "below")
		want(t, "rename of a directory into itself", err, unix.EINVAL)
		_, _, err = u.rename(root, "hard", root, "node6")
		ok(t, "rename over", err)

		want(t, "rmdir of a full directory", u.do(root, func(v *View, n Node) error {
			_, err := v.Rmdir(n, []byte("sub"))
			return err
		}), unix.ENOTEMPTY)
		want(t, "remove of a directory", u.remove(root, "sub"), unix.EISDIR)
		ok(t, "remove", u.remove(sub, "moved"))
		ok(t, "rmdir", u.do(root, func(v *View, n Node) error {
			c, err := v.Rmdir(n, []byte("sub"))
			if c.Before.Nlink != c.After.Nlink+1 {
				t.Errorf("rmdir: links %d then %d", c.Before.Nlink, c.After.Nlink)
			}
			return err
		}))
		_, err = u.getattr(sub)
		want(t, "a removed directory", err, ErrStale)
		if a, err := u.getattr(fh); err != nil || a.Nlink != 1 {
			t.Errorf("file with one name left: %+v, %v", a, err)
		}
		ok(t, "remove the last", u.remove(root, "node6"))
		_, err = u.getattr(fh)
		want(t, "a removed file", err, ErrStale)
		_, _, err = u.read(fh, 0, 10)
		want(t, "read of a removed file", err, ErrStale)

		ok(t, "fsstat", u.do(root, func(v *View, n Node) error {
			s, err := v.Fsstat(n)
			if s.Tbytes == 0 || s.Tbytes < s.Fbytes || s.Fbytes < s.Abytes || s.Tfiles == 0 || !s.Attr.Valid() {
				t.Errorf("fsstat: %+v", s)
			}
			return err
		}))
		ok(t, "fsinfo", u.do(root, func(v *View, n Node) error {
			s, err := v.Fsinfo(n)
			if s.RtMax != 1<<20 || s.WtMax != 1<<20 || !s.Attr.Valid() {
				t.Errorf("fsinfo: %+v", s)
			}
			return err
		}))
		ok(t, "pathconf", u.do(root, func(v *View, n Node) error {
			s, err := v.Pathconf(n)
			if s.NameMax != 255 || s.LinkMax < 255 || !s.NoTrunc {
				t.Errorf("pathconf: %+v", s)
			}
			return err
		}))
	})
}

func TestNames(t *testing.T) {
	d := exportDir(t)
	b := newBench(t, d+" *(rw,no_root_squash)\n")
	long := make([]byte, 256)
	for i := range long {
		long[i] = 'x'
	}
	b.as(0, 0, func(u *user) {
		root := u.mount(d)
		fh, _, err := u.create(root, string(long[:255]), 0o644)
		ok(t, "a name of 255 bytes", err)
		for _, c := range []struct {
			name        string
			lookup, new error
		}{
			{"", unix.EACCES, unix.EACCES},
			{"a/b", unix.EACCES, unix.EACCES},
			{"/etc", unix.EACCES, unix.EACCES},
			{"../x", unix.EACCES, unix.EACCES},
			{"a\x00b", unix.EACCES, unix.EACCES},
			{string(long), unix.ENAMETOOLONG, unix.ENAMETOOLONG},
			{".", nil, unix.EEXIST},
			{"..", nil, unix.EEXIST},
		} {
			_, _, err := u.lookup(root, c.name)
			want(t, fmt.Sprintf("lookup %.10q", c.name), err, c.lookup)
			_, _, err = u.create(root, c.name, 0o644)
			want(t, fmt.Sprintf("create %.10q", c.name), err, c.new)
			_, err = u.mkdir(root, c.name, 0o755)
			want(t, fmt.Sprintf("mkdir %.10q", c.name), err, c.new)
			err = u.do(root, func(v *View, n Node) error {
				_, _, err := v.Symlink(n, []byte(c.name), []byte("t"), &SetAttr{})
				return err
			})
			want(t, fmt.Sprintf("symlink %.10q", c.name), err, c.new)
			err = u.do(fh, func(v *View, n Node) error {
				dn, _ := v.Node(root)
				_, _, err := v.Link(n, dn, []byte(c.name))
				return err
			})
			want(t, fmt.Sprintf("link %.10q", c.name), err, c.new)
			bad := c.lookup
			if bad == nil {
				bad = unix.EINVAL
			}
			_, _, err = u.rename(root, c.name, root, "t")
			want(t, fmt.Sprintf("rename from %.10q", c.name), err, bad)
			_, _, err = u.rename(root, string(long[:255]), root, c.name)
			want(t, fmt.Sprintf("rename to %.10q", c.name), err, bad)
			if c.lookup == nil {
				bad = unix.EACCES
			}
			want(t, fmt.Sprintf("remove %.10q", c.name), u.remove(root, c.name), bad)
		}
		for name, e := range map[string]error{".": unix.EINVAL, "..": unix.EEXIST} {
			want(t, "rmdir "+name, u.do(root, func(v *View, n Node) error { _, err := v.Rmdir(n, []byte(name)); return err }), e)
		}
		for _, target := range []string{"", "a\x00b"} {
			want(t, "symlink to a bad target", u.do(root, func(v *View, n Node) error {
				_, _, err := v.Symlink(n, []byte("s"), []byte(target), &SetAttr{})
				return err
			}), unix.EINVAL)
		}
		ok(t, "symlink to a path of 4095 bytes", u.do(root, func(v *View, n Node) error {
			_, _, err := v.Symlink(n, []byte("s"), append([]byte("/"), make4095()...), &SetAttr{})
			return err
		}))
		want(t, "symlink to a path of 4096 bytes", u.do(root, func(v *View, n Node) error {
			_, _, err := v.Symlink(n, []byte("s2"), append([]byte("/x"), make4095()...), &SetAttr{})
			return err
		}), unix.ENAMETOOLONG)
		// A symbolic link is never followed.
		if err := os.Symlink("/", filepath.Join(d, "out")); err != nil {
			t.Error(err)
		}
		out, a, err := u.lookup(root, "out")
		ok(t, "lookup of a link", err)
		if a.Type != TypeLnk {
			t.Errorf("lookup followed a link: %+v", a)
		}
		_, _, err = u.lookup(out, "etc")
		want(t, "lookup through a link", err, unix.ENOTDIR)
	})
	if names, _ := os.ReadDir(d); len(names) != 3 {
		t.Errorf("%d names were made", len(names))
	}
}

func make4095() []byte {
	b := make([]byte, 4094)
	for i := range b {
		b[i] = 'y'
	}
	return b
}

func TestReadOnly(t *testing.T) {
	d := exportDir(t)
	os.WriteFile(filepath.Join(d, "f"), []byte("data"), 0o666)
	os.Mkdir(filepath.Join(d, "dir"), 0o777)
	b := newBench(t, d+" *(ro,no_root_squash)\n")
	b.as(0, 0, func(u *user) {
		root := u.mount(d)
		fh, _, err := u.lookup(root, "f")
		ok(t, "lookup", err)
		name := []byte("x")
		for what, op := range map[string]func(v *View, dir, f Node) error{
			"create": func(v *View, dir, f Node) error {
				_, _, err := v.Create(dir, name, Unchecked, [8]byte{}, &SetAttr{})
				return err
			},
			"mkdir":   func(v *View, dir, f Node) error { _, _, err := v.Mkdir(dir, name, &SetAttr{}); return err },
			"symlink": func(v *View, dir, f Node) error { _, _, err := v.Symlink(dir, name, name, &SetAttr{}); return err },
			"mknod": func(v *View, dir, f Node) error {
				_, _, err := v.Mknod(dir, name, TypeFifo, 0, 0, &SetAttr{})
				return err
			},
			"link":    func(v *View, dir, f Node) error { _, _, err := v.Link(f, dir, name); return err },
			"remove":  func(v *View, dir, f Node) error { _, err := v.Remove(dir, []byte("f")); return err },
			"rmdir":   func(v *View, dir, f Node) error { _, err := v.Rmdir(dir, []byte("dir")); return err },
			"rename":  func(v *View, dir, f Node) error { _, _, err := v.Rename(dir, []byte("f"), dir, name); return err },
			"setattr": func(v *View, dir, f Node) error { _, err := v.Setattr(f, &SetAttr{SetMode: true}); return err },
			"write":   func(v *View, dir, f Node) error { _, err := v.Write(f, 0, name, 0); return err },
			"commit":  func(v *View, dir, f Node) error { _, _, err := v.Commit(f, 0, 0); return err },
		} {
			want(t, what, u.do(root, func(v *View, dir Node) error {
				f, err := v.Node(fh)
				if err != nil {
					return err
				}
				return op(v, dir, f)
			}), unix.EROFS)
		}
		ok(t, "access", u.do(fh, func(v *View, n Node) error {
			g, _, err := v.Access(n, 0x3f)
			if g != AccessRead {
				t.Errorf("access grants %#x", g)
			}
			return err
		}))
		if data, _, err := u.read(fh, 0, 10); data != "data" || err != nil {
			t.Errorf("read %q, %v", data, err)
		}
	})
}

// What happens on the server itself: files that are removed or replaced there are stale to clients, at once.
func TestChangesOnTheServer(t *testing.T) {
	d := exportDir(t)
	b := newBench(t, d+" *(rw,no_root_squash)\n")
	b.as(0, 0, func(u *user) {
		root := u.mount(d)
		fh, _, err := u.create(root, "f", 0o644)
		ok(t, "create", err)
		_, err = u.write(fh, 0, "old")
		ok(t, "write", err)
		os.WriteFile(filepath.Join(d, "new"), []byte("new"), 0o644)
		os.Rename(filepath.Join(d, "new"), filepath.Join(d, "f"))
		_, err = u.getattr(fh)
		want(t, "a file that was replaced", err, ErrStale)
		fh, _, err = u.lookup(root, "f")
		ok(t, "lookup", err)
		if data, _, err := u.read(fh, 0, 9); data != "new" || err != nil {
			t.Errorf("read %q, %v", data, err)
		}
		os.Remove(filepath.Join(d, "f"))
		_, err = u.write(fh, 0, "lost")
		want(t, "write to a file that was removed", err, ErrStale)
		_, _, err = u.read(fh, 0, 9)
		want(t, "read of it", err, ErrStale)
		dir, err := u.mkdir(root, "d", 0o755)
		ok(t, "mkdir", err)
		os.Remove(filepath.Join(d, "d"))
		_, _, err = u.create(dir, "x", 0o644)
		if err != ErrStale && err != unix.ENOENT {
			t.Errorf("create in a removed directory: %v", err)
		}
		os.WriteFile(filepath.Join(d, "t"), []byte("0123456789"), 0o644)
		fh, _, err = u.lookup(root, "t")
		ok(t, "lookup", err)
		os.Truncate(filepath.Join(d, "t"), 4)
		if data, eof, err := u.read(fh, 0, 9); data != "0123" || !eof || err != nil {
			t.Errorf("read %q eof %v, %v", data, eof, err)
		}
	})
}
