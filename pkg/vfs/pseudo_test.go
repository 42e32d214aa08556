package vfs

import (
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"sluice/exports"
)

// v4 makes a user's calls those of version 4.
func (b *bench) v4(th *Thread, uid, gid uint32) *user {
	u := b.user(th, uid, gid)
	u.c.V4 = true
	return u
}

func (u *user) root() []byte {
	h := u.b.ns.RootHandle()
	return append([]byte(nil), h.Bytes()...)
}

// walk looks names up one after the other from the root.
func (u *user) walk(p string) (fh []byte, a Attr, err error) {
	fh = u.root()
	for _, name := range strings.Split(strings.Trim(p, "/"), "/") {
		if fh, a, err = u.lookup(fh, name); err != nil {
			return fh, a, err
		}
	}
	return fh, a, nil
}

func (u *user) lookupp(fh []byte) (up []byte, err error) {
	err = u.do(fh, func(v *View, n Node) error {
		e, err := v.Lookupp(n)
		up = append([]byte(nil), e.Handle.Bytes()...)
		return err
	})
	return up, err
}

// entries lists a directory with attributes.
func (u *user) entries(dir []byte) map[string]DirEntry {
	m := map[string]DirEntry{}
	err := u.do(dir, func(v *View, n Node) error {
		_, err := v.Readdir(n, &ReaddirReq{Plus: true}, func(d *DirEntry) bool {
			if !isDot(d.Name) && !isDotDot(d.Name) {
				e := *d
				e.Name = nil
				m[string(d.Name)] = e
			}
			return true
		})
		return err
	})
	if err != nil {
		panic(err)
	}
	return m
}

func names(m map[string]DirEntry) (l []string) {
	for k := range m {
		l = append(l, k)
	}
	slices.Sort(l)
	return l
}

func TestPseudoRoot(t *testing.T) {
	d := exportDir(t)
	for _, s := range []string{"a/one", "b", "c"} {
		os.MkdirAll(filepath.Join(d, s), 0o777)
	}
	os.WriteFile(filepath.Join(d, "a/one/file"), []byte("x"), 0o644)
	table := filepath.Join(d, "a/one") + " *(rw,no_root_squash)\n" +
		filepath.Join(d, "b") + " 10.1.2.3(rw)\n" +
		filepath.Join(d, "missing") + " *(rw)\n" +
		filepath.Join(d, "c/deep/er") + " 10.1.2.3(rw)\n"
	os.MkdirAll(filepath.Join(d, "c/deep/er"), 0o755)
	b := newBench(t, table)
	b.on(func(th *Thread) {
		u := b.v4(th, 0, 0)
		top, err := u.getattr(u.root())
		ok(t, "getattr of the root", err)
		if top.Type != TypeDir || top.FSID != 0 || top.MountedOnFileID != top.FileID || top.Mode != 0o555 {
			t.Errorf("root: %+v", top)
		}
		dir, _, err := u.walk(d)
		ok(t, "walk to "+d, err)
		list := u.entries(dir)
		if got := names(list); !slices.Equal(got, []string{"a"}) {
			t.Errorf("a stranger sees %q; the way to b and c is not his, and missing is not there", got)
		}
		if e := list["a"]; e.FileID != e.Attr.FileID || e.Handle.Len == 0 || e.Attr.FSID != 0 {
			t.Errorf("pseudo entry: %+v", e)
		}
		_, _, err = u.lookup(dir, "b")
		want(t, "an export that is not for this client", err, unix.ENOENT)
		_, _, err = u.lookup(dir, "c")
		want(t, "the way to one", err, unix.ENOENT)
		_, _, err = u.lookup(dir, "missing")
		want(t, "an export without its directory", err, unix.ENOENT)

		// Into the export and up again.
		a, _, err := u.lookup(dir, "a")
		ok(t, "a", err)
		in := u.entries(a)["one"]
		one, oa, err := u.lookup(a, "one")
		ok(t, "one", err)
		if string(one) != string(u.mount(filepath.Join(d, "a/one"))) || string(in.Handle.Bytes()) != string(one) {
			t.Error("the export's handle is not the one that MOUNT gives, or READDIR another")
		}
		if oa.MountedOnFileID != in.FileID || oa.FileID == in.FileID || oa.FSID == 0 || in.Attr != oa {
			t.Errorf("the export's root: %+v in the entry %d %+v", oa, in.FileID, in.Attr)
		}
		if ga, _ := u.getattr(one); ga.MountedOnFileID != in.FileID {
			t.Errorf("GETATTR has mounted_on_fileid %d, READDIR %d", ga.MountedOnFileID, in.FileID)
		}
		_, fa, err := u.lookup(one, "file")
		if err != nil || fa.MountedOnFileID != fa.FileID || fa.Btime == (Time{}) {
			t.Errorf("a file: %v %+v", err, fa)
		}
		for fh, up := one, a; ; {
			got, err := u.lookupp(fh)
			if string(fh) == string(u.root()) {
				want(t, "above the root", err, unix.ENOENT)
				break
			}
			ok(t, "lookupp", err)
			if up != nil && string(got) != string(up) {
				t.Error("LOOKUPP leads elsewhere")
			}
			fh, up = got, nil
		}

		// Nothing can be done to pseudo directories.
		u.do(a, func(v *View, n Node) error {
			if !v.Pseudo() || !v.ReadOnly() || n.Type() != TypeDir || v.Export() != filepath.Join(d, "a") {
				t.Errorf("pseudo %v, read-only %v, type %v, at %s", v.Pseudo(), v.ReadOnly(), n.Type(), v.Export())
			}
			got, _, err := v.Access(n, AccessRead|AccessLookup|AccessModify|AccessDelete|AccessExtend)
			if err != nil || got != AccessRead|AccessLookup {
				t.Errorf("access %#x, %v", got, err)
			}
			name := []byte("x")
			s := &SetAttr{SetMode: true, Mode: 0o644}
			for what, do := range map[string]func() error{
				"create":  func() error { _, _, err := v.Create(n, name, Guarded, [8]byte{}, s); return err },
				"mkdir":   func() error { _, _, err := v.Mkdir(n, name, s); return err },
				"symlink": func() error { _, _, err := v.Symlink(n, name, name, s); return err },
				"mknod":   func() error { _, _, err := v.Mknod(n, name, TypeFifo, 0, 0, s); return err },
				"remove":  func() error { _, err := v.Remove(n, []byte("one")); return err },
				"rmdir":   func() error { _, err := v.Rmdir(n, []byte("one")); return err },
				"rename":  func() error { _, _, err := v.Rename(n, []byte("one"), n, name); return err },
				"setattr": func() error { _, err := v.Setattr(n, s); return err },
				"xattr":   func() error { _, err := v.Setxattr(n, name, name, XattrEither); return err },
				"acl":     func() error { return v.SetACL(n, &ACL{}, nil) },
			} {
				want(t, what, do(), unix.EROFS)
			}
			_, err = v.Read(n, 0, 1)
			want(t, "read", err, unix.EISDIR)
			_, err = v.Write(n, 0, name, 0)
			want(t, "write", err, unix.EISDIR)
			_, _, err = v.Commit(n, 0, 0)
			want(t, "commit", err, unix.EISDIR)
			_, _, err = v.Link(n, n, name)
			want(t, "link", err, unix.EISDIR)
			_, _, err = v.Readlink(n, make([]byte, 9))
			want(t, "readlink", err, unix.EINVAL)
			want(t, "open", v.OpenCheck(n, true, false), unix.EISDIR)
			_, err = v.Node(one)
			want(t, "a second handle of an export", err, unix.EXDEV)
			second, err := v.Node(u.root())
			ok(t, "a second handle of a pseudo directory", err)
			_, _, err = v.Rename(second, []byte("one"), n, name)
			want(t, "rename between pseudo directories", err, unix.EROFS)
			_, err = v.Getxattr(n, name, nil)
			want(t, "getxattr", err, ErrNotSupported)
			if _, err := v.GetACL(n, false); err != ErrNotSupported || v.ACLSupport(n) || v.XattrSupport(n) {
				t.Errorf("access lists of pseudo directories: %v", err)
			}
			_, err = v.Listxattr(n, 0, nil)
			want(t, "listxattr", err, ErrNotSupported)
			want(t, "allocate", v.Allocate(n, 0, 1), unix.EISDIR)
			want(t, "advise", v.Advise(n, 0, 1, AdviseWillNeed), unix.EISDIR)
			_, _, err = v.Seek(n, 0, false)
			want(t, "seek", err, unix.EISDIR)
			for what, do := range map[string]func() (Attr, error){
				"fsstat":   func() (Attr, error) { s, err := v.Fsstat(n); return s.Attr, err },
				"fsinfo":   func() (Attr, error) { s, err := v.Fsinfo(n); return s.Attr, err },
				"pathconf": func() (Attr, error) { s, err := v.Pathconf(n); return s.Attr, err },
			} {
				if a, err := do(); err != nil || a.FileID == 0 {
					t.Errorf("%s: %v %+v", what, err, a)
				}
			}
			if k := n.Key(); k.Len == 0 || n.Pin() != nil {
				t.Errorf("key %v", k)
			}
			return nil
		})
		u.do(one, func(v *View, n Node) error {
			_, err := v.Node(a)
			want(t, "a second handle of the pseudo file system", err, unix.EXDEV)
			return nil
		})

		// Handles are good after a reload and bad when made up.
		ok(t, "reload", b.ns.Reload(mustSet(t, table)))
		_, err = u.getattr(a)
		want(t, "a pseudo handle after a reload", err, nil)
		for i := range a {
			bad := slices.Clone(a)
			bad[i] ^= 0x10
			_, err := u.getattr(bad)
			want(t, "a handle made up", err, ErrBadHandle)
		}

		// Another client sees the rest.
		o := b.v4(th, 0, 0)
		o.c.Addr = netip.MustParseAddr("10.1.2.3")
		dir, _, err = o.walk(d)
		ok(t, "walk", err)
		if got := names(o.entries(dir)); !slices.Equal(got, []string{"a", "b", "c"}) {
			t.Errorf("the other client sees %q", got)
		}
		er, _, err := o.walk(filepath.Join(d, "c/deep/er"))
		ok(t, "er", err)
		cd, err := o.lookupp(er)
		ok(t, "up", err)
		_, err = o.getattr(cd)
		ok(t, "the way to an export, for whom it is for", err)
		_, err = u.getattr(cd)
		want(t, "for whom it is not", err, ErrStale)
	})
}

// TestPseudoLinks: what a pseudo directory's attributes say does not depend on exports that the caller may not see, nor do
// they claim that it has no directories.
func TestPseudoLinks(t *testing.T) {
	d := exportDir(t)
	table := ""
	for _, s := range []string{"a one", "a two", "b", "c"} {
		s = strings.ReplaceAll(s, " ", "/")
		os.MkdirAll(filepath.Join(d, s), 0o777)
		table += filepath.Join(d, s) + map[bool]string{true: " *(rw)\n", false: " 10.1.2.3(rw)\n"}[s == "a/one"]
	}
	b := newBench(t, table)
	b.on(func(th *Thread) {
		u, o := b.v4(th, 0, 0), b.v4(th, 0, 0)
		o.c.Addr = netip.MustParseAddr("10.1.2.3")
		for _, at := range []string{d, filepath.Join(d, "a")} {
			fh, few, err := u.walk(at)
			ok(t, "walk", err)
			_, all, err := o.walk(at)
			ok(t, "walk of the other", err)
			got, err := u.getattr(fh)
			ok(t, "getattr", err)
			if few != all || got != few || few.Nlink != 1 {
				t.Errorf("%s: who sees one export gets %+v and %+v, who sees all %+v", at, few, got, all)
			}
		}
	})
}

// TestPseudoListing lists more directories than fit one call, with a reload in between.
func TestPseudoListing(t *testing.T) {
	d := exportDir(t)
	var table strings.Builder
	var wanted []string
	for i := range 50 {
		name := string(rune('a'+i%26)) + strings.Repeat("x", i)
		wanted = append(wanted, name)
		os.Mkdir(filepath.Join(d, name), 0o755)
		table.WriteString(filepath.Join(d, name) + " *(rw)\n")
	}
	b := newBench(t, table.String())
	b.on(func(th *Thread) {
		u := b.v4(th, 0, 0)
		dir, _, err := u.walk(d)
		ok(t, "walk", err)
		var got []string
		q := ReaddirReq{}
		for eof := false; !eof; {
			n := 0
			ok(t, "readdir", u.do(dir, func(v *View, node Node) error {
				r, err := v.Readdir(node, &q, func(e *DirEntry) bool {
					if n == 7 {
						return false
					}
					n++
					got = append(got, string(e.Name))
					q.Cookie = e.Cookie
					return true
				})
				eof = r.EOF
				return err
			}))
			ok(t, "reload", b.ns.Reload(mustSet(t, table.String())))
		}
		slices.Sort(got)
		slices.Sort(wanted)
		if !slices.Equal(got, wanted) {
			t.Errorf("listed %d of %d names: %q", len(got), len(wanted), got)
		}
	})
}

// TestFsidZero has the fsid=0 export as the root, and other exports below it, one mounted.
func TestFsidZero(t *testing.T) {
	d := exportDir(t)
	top := filepath.Join(d, "top")
	os.MkdirAll(filepath.Join(top, "plain"), 0o755)
	os.MkdirAll(filepath.Join(top, "sub/mnt"), 0o755)
	os.MkdirAll(filepath.Join(d, "outside"), 0o755)
	var under unix.Stat_t
	if err := unix.Stat(filepath.Join(top, "sub/mnt"), &under); err != nil {
		t.Fatal(err)
	}
	mountFS(t, "tmpfs", filepath.Join(top, "sub/mnt"), "tmpfs", 0, "")
	b := newBench(t, top+" *(rw,fsid=0,no_root_squash)\n"+filepath.Join(top, "sub/mnt")+" *(rw,fsid=7,no_root_squash)\n"+
		filepath.Join(d, "outside")+" *(rw)\n")
	b.on(func(th *Thread) {
		u := b.v4(th, 0, 0)
		root := u.root()
		if string(root) != string(u.mount(top)) {
			t.Fatal("the root is not the fsid=0 export")
		}
		_, err := u.lookupp(root)
		want(t, "above the root", err, unix.ENOENT)
		sub, _, err := u.lookup(root, "sub")
		ok(t, "sub", err)
		mnt, ma, err := u.lookup(sub, "mnt")
		ok(t, "mnt", err)
		if ma.FSID != 7 || ma.MountedOnFileID != under.Ino || ma.FileID == under.Ino || !ma.MountPoint {
			t.Errorf("the mounted export: %+v, over %d", ma, under.Ino)
		}
		e := u.entries(sub)["mnt"]
		if e.FileID != under.Ino || e.Attr != ma || string(e.Handle.Bytes()) != string(mnt) {
			t.Errorf("READDIR has %d %+v, LOOKUP %+v", e.FileID, e.Attr, ma)
		}
		if ga, _ := u.getattr(mnt); ga != ma {
			t.Errorf("GETATTR has %+v", ga)
		}
		up, err := u.lookupp(mnt)
		if err != nil || string(up) != string(sub) {
			t.Errorf("LOOKUPP of the mounted export: %v", err)
		}
		_, err = u.lookupp(u.mount(filepath.Join(d, "outside")))
		want(t, "above an export that is not below the root", err, unix.ENOENT)
		// Version 3 sees what is underneath.
		u.c.V4 = false
		if _, a, err := u.lookup(sub, "mnt"); err != nil || a.FileID != under.Ino {
			t.Errorf("version 3 sees %d, %v", a.FileID, err)
		}
		if e := u.entries(sub)["mnt"]; e.Attr.Valid() || e.FileID != under.Ino {
			t.Errorf("version 3 lists %+v", e)
		}
	})
}

// TestWrongSec is an export for a flavour that the caller does not have.
func TestWrongSec(t *testing.T) {
	d := exportDir(t)
	b := newBench(t, d+" *(rw,sec=sys)\n")
	b.on(func(th *Thread) {
		u := b.v4(th, 0, 0)
		u.c.Cred.Flavor = FlavorNone
		up, _, err := u.walk(filepath.Dir(d))
		ok(t, "walk", err)
		if e := u.entries(up)[filepath.Base(d)]; e.Cookie == 0 || e.Handle.Len != 0 {
			t.Errorf("the export in a listing: %+v", e)
		}
		u.do(up, func(v *View, n Node) error {
			e, _, err := v.Lookup(n, []byte(filepath.Base(d)))
			want(t, "lookup", err, ErrWrongSec)
			if got := v.FlavorsOf(&e.Handle, nil); !slices.Equal(got, []uint32{uint32(exports.AuthSys)}) {
				t.Errorf("flavours %v", got)
			}
			if got := v.FlavorsOf(nil, nil); len(got) < 2 {
				t.Errorf("flavours of a pseudo directory: %v", got)
			}
			return nil
		})
		fh := u.mount(d)
		_, err = u.getattr(fh)
		want(t, "version 4", err, ErrWrongSec)
		u.c.V4 = false
		_, err = u.getattr(fh)
		want(t, "version 3", err, unix.EACCES)
	})
}

// TestCrossmntListing has a file system mounted in an export with crossmnt, and one without file handles.
func TestCrossmntListing(t *testing.T) {
	d := exportDir(t)
	os.Mkdir(filepath.Join(d, "mnt"), 0o755)
	os.Mkdir(filepath.Join(d, "proc"), 0o755)
	var under, proc unix.Stat_t
	unix.Stat(filepath.Join(d, "mnt"), &under)
	unix.Stat(filepath.Join(d, "proc"), &proc)
	mountFS(t, "tmpfs", filepath.Join(d, "mnt"), "tmpfs", 0, "")
	mountFS(t, "proc", filepath.Join(d, "proc"), "proc", 0, "")
	b := newBench(t, d+" *(rw,crossmnt,no_root_squash)\n")
	b.on(func(th *Thread) {
		u := b.v4(th, 0, 0)
		root := u.mount(d)
		mnt, a, err := u.lookup(root, "mnt")
		ok(t, "lookup", err)
		list := u.entries(root)
		if e := list["mnt"]; e.Attr != a || string(e.Handle.Bytes()) != string(mnt) || a.MountedOnFileID != under.Ino || a.FileID == under.Ino || e.FileID != under.Ino {
			t.Errorf("READDIR has %+v, LOOKUP %+v, over %d", e, a, under.Ino)
		}
		if up, err := u.lookupp(mnt); err != nil || string(up) != string(root) {
			t.Errorf("LOOKUPP out of a mount: %v", err)
		}
		// What cannot be shown is the directory underneath.
		if _, a, err := u.lookup(root, "proc"); err != nil || a.FileID != proc.Ino || list["proc"].Attr != a {
			t.Errorf("a file system without handles: %v, %+v in a listing %+v", err, a, list["proc"].Attr)
		}
	})
}
