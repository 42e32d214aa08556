package vfs

import (
	"bytes"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"sluice/test/testenv"
)

// xfsDir mounts a new XFS with reflinks.
func xfsDir(t testing.TB) string {
	t.Helper()
	needRoot(t)
	needTool(t, "mkfs.xfs", "losetup")
	d := t.TempDir()
	image, at := filepath.Join(d, "tmpfs", "image"), filepath.Join(d, "mnt")
	mountFS(t, "tmpfs", filepath.Join(d, "tmpfs"), "tmpfs", 0, "")
	os.WriteFile(image, nil, 0o600)
	if err := os.Truncate(image, 320<<20); err != nil {
		t.Fatal(err)
	}
	sh(t, "mkfs.xfs", "-q", "-m", "reflink=1", image)
	mountFS(t, loopImage(t, image), at, "xfs", 0, "")
	os.Chmod(at, 0o777)
	return at
}

func tmpfsDir(t testing.TB) string {
	d := filepath.Join(t.TempDir(), "mnt")
	mountFS(t, "tmpfs", d, "tmpfs", 0, "")
	os.Chmod(d, 0o777)
	return d
}

// onEach runs a test on ext4, tmpfs and XFS.
func onEach(t *testing.T, f func(t *testing.T, dir string)) {
	t.Run("ext4", func(t *testing.T) { f(t, ext4Dir(t, 64<<20)) })
	t.Run("tmpfs", func(t *testing.T) { f(t, tmpfsDir(t)) })
	t.Run("xfs", func(t *testing.T) { f(t, xfsDir(t)) })
}

// serve exports one directory, by a number since tmpfs has nothing to name it by.
func serve(t testing.TB, dir, opts string, mod ...func(*Config)) *bench {
	return newBench(t, dir+" *("+opts+",fsid=44)\n", mod...)
}

func TestRanges(t *testing.T) {
	onEach(t, func(t *testing.T, d string) {
		b := serve(t, d, "rw,no_root_squash")
		b.as(1000, 1000, func(u *user) {
			root := u.mount(d)
			fh, _, err := u.create(root, "f", 0o600)
			ok(t, "create", err)
			const block = 64 << 10
			for _, at := range []uint64{0, 4 * block} {
				_, err := u.write(fh, at, strings.Repeat("d", block))
				ok(t, "write", err)
			}
			ok(t, "setattr", func() error { _, err := u.setattr(fh, SetAttr{SetSize: true, Size: 8 * block}); return err }())
			seek := func(off uint64, hole bool) string {
				var s string
				u.do(fh, func(v *View, n Node) error {
					at, eof, err := v.Seek(n, off, hole)
					s = fmt.Sprint(at/block, eof, err)
					return nil
				})
				return s
			}
			for _, c := range []struct {
				off  uint64
				hole bool
				want string
			}{
				{0, false, "0 false <nil>"}, {0, true, "1 false <nil>"}, {block, false, "4 false <nil>"}, {4 * block, true, "5 false <nil>"},
				{5 * block, false, "0 false no such device or address"}, {8*block - 1, true, "7 false <nil>"},
				{8 * block, true, "0 false no such device or address"}, {1 << 63, true, "0 false no such device or address"},
			} {
				if got := seek(c.off, c.hole); got != c.want {
					t.Errorf("seek %d %v: %s, want %s", c.off, c.hole, got, c.want)
				}
			}
			ok(t, "deallocate", u.do(fh, func(v *View, n Node) error { return v.Deallocate(n, 4*block, block) }))
			if got := seek(block, false); got != "0 false no such device or address" {
				t.Errorf("data after deallocation: %s", got)
			}
			if got := seek(1<<10, true); got != "1 false <nil>" {
				t.Errorf("hole: %s", got)
			}
			if got, _, _ := u.read(fh, 4*block, 10); got != strings.Repeat("\x00", 10) {
				t.Errorf("deallocated data reads as %q", got)
			}
			u.do(fh, func(v *View, n Node) error {
				before, _ := v.Getattr(n)
				want(t, "allocate", v.Allocate(n, 8*block, block), nil)
				after, _ := v.Getattr(n)
				if after.Size != 9*block || after.Used < before.Used+block || after.Change == before.Change {
					t.Errorf("after allocation: %+v", after)
				}
				want(t, "allocate nothing", v.Allocate(n, 0, 0), unix.EINVAL)
				want(t, "allocate too far", v.Allocate(n, 1<<63-1, 1<<63), unix.EFBIG)
				longest := unix.ENOSPC // files of XFS and tmpfs may be so long
				if strings.HasSuffix(t.Name(), "ext4") {
					longest = unix.EFBIG
				}
				want(t, "allocate the longest file", v.Allocate(n, 0, 1<<62), longest)
				want(t, "allocate more than there is", v.Allocate(n, 0, 1<<40), unix.ENOSPC)
				if again, _ := v.Getattr(n); again.Used != after.Used || again.Size != after.Size {
					t.Errorf("what could not be allocated was, in part: %+v", again)
				}
				want(t, "deallocate to the end of all files", v.Deallocate(n, 2*block, 1<<64-1), nil)
				if a, _ := v.Getattr(n); a.Size != 9*block {
					t.Errorf("deallocation made it %d long", a.Size)
				}
				return nil
			})
			o := b.user(u.th, 2000, 2000)
			o.do(fh, func(v *View, n Node) error {
				_, _, err := v.Seek(n, 0, false)
				want(t, "seek by a stranger", err, unix.EACCES)
				want(t, "allocate by a stranger", v.Allocate(n, 0, 1), unix.EACCES)
				want(t, "deallocate by a stranger", v.Deallocate(n, 0, 1), unix.EACCES)
				want(t, "advise by a stranger", v.Advise(n, 0, 0, AdviseWillNeed), unix.EACCES)
				return nil
			})
			o.c.MayBlock = false
			o.do(fh, func(v *View, n Node) error {
				want(t, "allocate on a service thread", v.Allocate(n, 0, 1), ErrWouldBlock)
				return nil
			})
		})
	})
}

func TestCopy(t *testing.T) {
	d, other := xfsDir(t), tmpfsDir(t)
	b := newBench(t, d+" *(rw,no_root_squash)\n"+other+" *(rw,no_root_squash,fsid=9)\n")
	b.as(1000, 1000, func(u *user) {
		text := strings.Repeat("0123456789abcdef", 20<<10)
		root := u.mount(d)
		src, _, err := u.create(root, "src", 0o600)
		ok(t, "create", err)
		_, err = u.write(src, 0, text)
		ok(t, "write", err)
		dst, _, err := u.create(root, "dst", 0o600)
		ok(t, "create", err)
		far, _, err := u.create(u.mount(other), "far", 0o600)
		ok(t, "create", err)

		copyTo := func(u *user, from, to []byte, so, do, n uint64) (got uint64, err error) {
			err = u.do(to, func(v *View, dn Node) error {
				sn, err := v.Source(from)
				if err != nil {
					return err
				}
				got, err = v.Copy(sn, dn, so, do, n)
				return err
			})
			return got, err
		}
		for what, to := range map[string][]byte{"same": dst, "other file system": far} {
			n, err := copyTo(u, src, to, 100, 7, 200_000)
			if got, _, _ := u.read(to, 7, 200_000); err != nil || n != 200_000 || got != text[100:200_100] {
				t.Errorf("%s: %d, %v", what, n, err)
			}
			n, err = copyTo(u, src, to, 300_000, 0, 0)
			if got, _, _ := u.read(to, 0, uint32(n)); err != nil || int(n) != len(text)-300_000 || got != text[300_000:] {
				t.Errorf("%s, to the end: %d, %v", what, n, err)
			}
			n, err = copyTo(u, src, to, uint64(len(text)), 0, 0)
			if n != 0 || err != nil {
				t.Errorf("%s, from the end: %d, %v", what, n, err)
			}
		}
		_, err = copyTo(u, src, src, 0, 1000, 2000)
		want(t, "onto itself", err, unix.EINVAL)
		n, err := copyTo(u, src, src, 0, 1000, 1000)
		if got, _, _ := u.read(src, 1000, 1000); n != 1000 || err != nil || got != text[:1000] {
			t.Errorf("within a file: %d %v", n, err)
		}
		o := b.user(u.th, 2000, 2000)
		mine, _, err := o.create(root, "mine", 0o666)
		ok(t, "create", err)
		_, err = copyTo(o, src, mine, 0, 0, 10)
		want(t, "from what may not be read", err, unix.EACCES)
		_, err = copyTo(o, far, mine, 0, 0, 10)
		want(t, "from what may not be read elsewhere", err, unix.EACCES)
		_, err = copyTo(o, mine, dst, 0, 0, 10)
		want(t, "an empty file to what may not be written", err, nil)
		_, err = o.write(mine, 0, "words")
		ok(t, "write", err)
		_, err = copyTo(o, mine, dst, 0, 0, 10)
		want(t, "to what may not be written", err, unix.EACCES)

		clone := func(from, to []byte, so, do, n uint64) error {
			return u.do(to, func(v *View, dn Node) error {
				sn, err := v.Source(from)
				if err != nil {
					return err
				}
				return v.Clone(sn, dn, so, do, n)
			})
		}
		ok(t, "clone", clone(src, dst, 4096, 8192, 65536))
		want, _, _ := u.read(src, 4096, 65536)
		if got, _, _ := u.read(dst, 8192, 65536); got != want {
			t.Error("a clone differs")
		}
		_, err = u.write(src, 4096, "changed")
		ok(t, "write", err)
		if got, _, _ := u.read(dst, 8192, 65536); got != want {
			t.Error("a clone changed with its source")
		}
		ok(t, "clone to the end", clone(src, dst, 0, 0, 0))
		if a, _ := u.getattr(dst); a.Size != uint64(len(text)) {
			t.Errorf("a whole clone is %d long", a.Size)
		}
		if err := clone(src, dst, 1, 0, 4096); err != unix.EINVAL {
			t.Errorf("unaligned: %v", err)
		}
		if err := clone(src, far, 0, 0, 4096); err != unix.EXDEV {
			t.Errorf("to another file system: %v", err)
		}
		near, _, err := u.create(u.mount(other), "near", 0o600)
		ok(t, "create", err)
		if err := clone(far, near, 0, 0, 4096); err != ErrNotSupported {
			t.Errorf("on a file system without reflinks: %v", err)
		}
	})
}

// TestCopySource checks that a source in another export is read under that export's rules.
func TestCopySource(t *testing.T) {
	d := exportDir(t)
	secret, public := filepath.Join(d, "secret"), filepath.Join(d, "public")
	os.Mkdir(secret, 0o777)
	os.Mkdir(public, 0o777)
	os.WriteFile(filepath.Join(secret, "f"), []byte("root's alone"), 0o600)
	b := newBench(t, secret+" *(rw,root_squash)\n"+public+" *(rw,no_root_squash)\n")
	b.as(0, 0, func(u *user) {
		src, _, err := u.lookup(u.mount(secret), "f")
		ok(t, "lookup", err)
		dst, _, err := u.create(u.mount(public), "f", 0o600)
		ok(t, "create", err)
		u.do(dst, func(v *View, dn Node) error {
			sn, err := v.Source(src)
			ok(t, "source", err)
			_, err = v.Copy(sn, dn, 0, 0, 0)
			want(t, "copy", err, unix.EACCES)
			if v.uid != 0 {
				t.Errorf("the View acts for %d now", v.uid)
			}
			return nil
		})
	})
}

func TestOpenCheck(t *testing.T) {
	d := exportDir(t)
	b := newBench(t, d+" 127.0.0.1(rw,no_root_squash) 10.0.0.1(ro)\n")
	b.as(1000, 1000, func(u *user) {
		root := u.mount(d)
		fh, _, err := u.create(root, "f", 0o444)
		ok(t, "create", err)
		x, _, err := u.create(root, "x", 0o111)
		ok(t, "create", err)
		check := func(fh []byte, r, w bool) error {
			return u.do(fh, func(v *View, n Node) error { return v.OpenCheck(n, r, w) })
		}
		want(t, "read", check(fh, true, false), nil)
		want(t, "write what its owner made read-only", check(fh, true, true), unix.EACCES)
		want(t, "read what may be executed", check(x, true, false), nil)
		want(t, "read and write that", check(x, true, true), unix.EACCES)
		want(t, "a directory", check(root, true, false), unix.EISDIR)
		_, err = u.setattr(fh, SetAttr{SetMode: true, Mode: 0o600})
		ok(t, "chmod", err)
		want(t, "write", check(fh, false, true), nil)
		u.c.Addr = addr("10.0.0.1")
		u.c.Memo = new(ClientMemo)
		want(t, "write on a read-only export", check(fh, false, true), unix.EROFS)
		want(t, "read there", check(fh, true, false), nil)
	})
	b.as(2000, 2000, func(u *user) {
		fh, _, err := u.lookup(u.mount(d), "f")
		ok(t, "lookup", err)
		want(t, "a stranger", u.do(fh, func(v *View, n Node) error { return v.OpenCheck(n, true, false) }), unix.EACCES)
		u.symlink(u.mount(d), "l", "f")
		l, _, err := u.lookup(u.mount(d), "l")
		ok(t, "lookup", err)
		want(t, "a link", u.do(l, func(v *View, n Node) error { return v.OpenCheck(n, true, false) }), unix.ELOOP)
	})
}

func TestExclusive41(t *testing.T) {
	d := exportDir(t)
	b := newBench(t, d+" *(rw,no_root_squash)\n")
	b.as(1000, 1000, func(u *user) {
		root := u.mount(d)
		verf := [8]byte{1, 2, 3, 4, 5, 6, 7, 8}
		s := SetAttr{SetMode: true, Mode: 0o640, SetGID: true, GID: 4000, MtimeHow: TimeServer, SetUmask: true, Umask: 0o040}
		make := func(verf [8]byte) (h []byte, a Attr, err error) {
			err = u.do(root, func(v *View, n Node) error {
				e, _, err := v.Create(n, []byte("f"), Exclusive41, verf, &s)
				h, a = append([]byte(nil), e.Handle.Bytes()...), e.Attr
				return err
			})
			return h, a, err
		}
		h, a, err := make(verf)
		if err != nil || a.Mode != 0o600 || a.GID != 1000 || a.UID != 1000 {
			t.Errorf("made: %v %+v", err, a)
		}
		again, _, err := make(verf)
		if err != nil || !bytes.Equal(h, again) {
			t.Errorf("sent again: %v", err)
		}
		verf[7]++
		_, _, err = make(verf)
		want(t, "another's", err, unix.EEXIST)
	})
}

// TestAdvise looks at what hints do to READs: which way they take, and what they bring into the page cache, each from a file of its own that nobody has read.
func TestAdvise(t *testing.T) {
	d := ext4Dir(t, 64<<20)
	b := serve(t, d, "rw,no_root_squash")
	b.as(0, 0, func(u *user) {
		cold := func(name string) (fh []byte, cached func() int) {
			path := filepath.Join(d, name)
			testenv.ColdFile(t, path, 8)
			fh, _, err := u.lookup(u.mount(d), name)
			ok(t, "lookup", err)
			return fh, func() int { return testenv.CachedPages(t, path) }
		}
		fh, _ := cold("noreuse")
		u.c.Advice = AdviseNoReuse
		_, _, err := u.read(fh, 0, 1<<20)
		ok(t, "read", err)
		if s := b.eng.Stats(); s.Read["dontcache"].Calls != 1 {
			t.Errorf("NOREUSE was served %+v", s.Read)
		}
		fh, cached := cold("random")
		u.c.Advice = AdviseRandom
		_, _, err = u.read(fh, 1<<20, 4096)
		ok(t, "read", err)
		if n := cached(); n != 1 {
			t.Errorf("RANDOM: a READ of one page brought %d in", n)
		}
		u.c.Advice = 0
		_, _, err = u.read(fh, 0, 4096)
		ok(t, "read", err)
		if n := cached(); n < 3 {
			t.Errorf("without hints: a READ of one page brought %d in", n-1)
		}
		fh, cached = cold("willneed")
		ok(t, "advise", u.do(fh, func(v *View, n Node) error { return v.Advise(n, 0, 4<<20, AdviseWillNeed) }))
		eventually(t, "WILLNEED reads ahead", func() bool { return cached() >= 4<<20/os.Getpagesize() })
		for _, h := range []uint64{AdviseNormal, AdviseSequential, 1 << 40} {
			ok(t, "advise", u.do(fh, func(v *View, n Node) error { return v.Advise(n, 0, 0, h) }))
		}
	})
}

func (u *user) symlink(dir []byte, name, target string) {
	err := u.do(dir, func(v *View, n Node) error {
		_, _, err := v.Symlink(n, []byte(name), []byte(target), new(SetAttr))
		return err
	})
	if err != nil {
		panic(err)
	}
}

func addr(s string) netip.Addr { return netip.MustParseAddr(s) }
