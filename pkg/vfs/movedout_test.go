package vfs

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// A directory that somebody on the server has moved out of the export is still where its handle says, but there is no way
// from it to what is around it now.
func TestMovedOut(t *testing.T) {
	for _, opts := range []string{"rw,no_root_squash", "rw,no_root_squash,crossmnt"} {
		t.Run(opts, func(t *testing.T) {
			d := ext4Dir(t, 32<<20)
			exp := filepath.Join(d, "exp")
			ok(t, "mkdir", os.MkdirAll(filepath.Join(exp, "sub", "deep"), 0o777))
			ok(t, "mkdir", os.MkdirAll(filepath.Join(d, "secret"), 0o777))
			b := newBench(t, exp+" *("+opts+")\n")
			b.as(0, 0, func(u *user) {
				root := u.mount(exp)
				sub, _, err := u.lookup(root, "sub")
				ok(t, "lookup", err)
				if up, _, err := u.lookup(sub, ".."); err != nil || string(up) != string(root) {
					t.Errorf("..: %v", err)
				}
				ok(t, "move", os.Rename(filepath.Join(exp, "sub"), filepath.Join(d, "secret", "sub")))
				deep, _, err := u.lookup(sub, "deep")
				ok(t, "lookup below what was moved", err)
				if up, _, err := u.lookup(deep, ".."); err == nil && string(up) != string(sub) {
					t.Errorf(".. of what was moved along: another directory")
				}
				_, _, err = u.lookup(sub, "..")
				want(t, ".. of what was moved", err, unix.ENOENT)
				u.c.V4 = true
				want(t, "LOOKUPP of what was moved", u.do(sub, func(v *View, n Node) error {
					_, err := v.Lookupp(n)
					return err
				}), unix.ENOENT)
				u.c.V4 = false
				ok(t, "readdirplus", u.do(sub, func(v *View, n Node) error {
					_, err := v.Readdir(n, &ReaddirReq{Plus: true}, func(e *DirEntry) bool {
						if string(e.Name) == ".." && (e.Handle.Len > 0 || e.Attr.Valid()) {
							t.Errorf(".. is listed with handle and attributes")
						}
						return true
					})
					return err
				}))
			})
		})
	}
}

// Neither is there one from a mount below the export that has been moved to another place.
func TestMountMovedOut(t *testing.T) {
	d := ext4Dir(t, 32<<20)
	exp, other := filepath.Join(d, "exp"), filepath.Join(d, "other")
	ok(t, "private", unix.Mount("", d, "", unix.MS_PRIVATE, "")) // what is mounted on a shared one cannot be moved
	for _, p := range []string{"a/mnt", "b/mnt"} {
		ok(t, "mkdir", os.MkdirAll(filepath.Join(exp, p), 0o777))
	}
	ok(t, "mkdir", os.MkdirAll(filepath.Join(other, "mnt"), 0o777))
	inner := ext4Dir(t, 16<<20)
	ok(t, "bind", unix.Mount(inner, filepath.Join(exp, "a/mnt"), "", unix.MS_BIND, ""))
	b := newBench(t, exp+" *(rw,no_root_squash,crossmnt)\n")
	b.as(0, 0, func(u *user) {
		root := u.mount(exp)
		dirs := map[string][]byte{}
		for _, n := range []string{"a", "b"} {
			fh, _, err := u.lookup(root, n)
			ok(t, "lookup", err)
			dirs[n] = fh
		}
		mnt, _, err := u.lookup(dirs["a"], "mnt")
		ok(t, "lookup", err)
		up := func() ([]byte, error) {
			fh, _, err := u.lookup(mnt, "..")
			return fh, err
		}
		if fh, err := up(); err != nil || string(fh) != string(dirs["a"]) {
			t.Errorf(".. of the mount: %v", err)
		}
		move := func(from, to string) {
			t.Helper()
			ok(t, "move", unix.Mount(from, to, "", unix.MS_MOVE, ""))
		}
		u.th.asServer()
		move(filepath.Join(exp, "a/mnt"), filepath.Join(exp, "b/mnt"))
		if fh, err := up(); err != nil || string(fh) != string(dirs["b"]) {
			t.Errorf(".. of the mount where it was moved within the export: %v", err)
		}
		u.th.asServer()
		move(filepath.Join(exp, "b/mnt"), filepath.Join(other, "mnt"))
		_, err = up()
		want(t, ".. of the mount that was moved out", err, unix.ENOENT)
		u.th.asServer()
		ok(t, "unmount", unix.Unmount(filepath.Join(other, "mnt"), unix.MNT_DETACH))
	})
}
