package vfs

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// Somebody on the server swaps a directory of the export for a link that leads out of it, again and again. Whatever a client
// does meanwhile, nothing outside is found, listed, made or changed.
func TestSwappedLinks(t *testing.T) {
	d := exportDir(t)
	in, out := filepath.Join(d, "in"), filepath.Join(d, "out")
	for _, p := range []string{in, out} {
		ok(t, "mkdir", os.MkdirAll(filepath.Join(p, "a", "sub"), 0o777))
	}
	ok(t, "write", os.WriteFile(filepath.Join(out, "a", "sub", "secret"), []byte("secret"), 0o666))
	ok(t, "link", os.Symlink(filepath.Join(out, "a"), filepath.Join(in, "b")))
	b := newBench(t, in+" *(rw,no_root_squash)\n")
	stop, done := make(chan struct{}), make(chan int)
	go func() {
		n := 0
		for ; ; n++ {
			select {
			case <-stop:
				done <- n
				return
			default:
				unix.Renameat2(unix.AT_FDCWD, filepath.Join(in, "a"), unix.AT_FDCWD, filepath.Join(in, "b"), unix.RENAME_EXCHANGE) //nolint:errcheck // looked at below
			}
		}
	}()
	before := listing(t, out)
	mounted, walked := 0, 0
	b.on(func(th *Thread) {
		u := b.user(th, 0, 0)
		root := u.mount(in)
		inside := func(what string, fh []byte) {
			t.Helper()
			names, err := u.list(fh, true, 10)
			if err != nil {
				t.Errorf("%s: list: %v", what, err)
			}
			for _, n := range names {
				if n == "secret" {
					t.Errorf("%s leads out of the export", what)
				}
			}
			if _, _, err := u.create(fh, "made", 0o644); err != nil && err != unix.EEXIST {
				t.Errorf("%s: create: %v", what, err)
			}
		}
		c := u.c
		for end := time.Now().Add(time.Minute); (mounted < 100 || walked < 100) && time.Now().Before(end); {
			if h, _, err := b.ns.Mount(th, &c, filepath.Join(in, "a", "sub")); err == nil {
				mounted++
				inside("MOUNT", append([]byte(nil), h.Bytes()...))
			}
			fh, a, err := u.lookup(root, "a")
			if err != nil || a.Type != TypeDir {
				continue
			}
			if fh, _, err = u.lookup(fh, "sub"); err == nil {
				walked++
				inside("LOOKUP", fh)
			}
			if fh, err := u.mkdir(root, "a", 0o755); err == nil {
				t.Errorf("mkdir of a name that is there: % x", fh)
			}
		}
	})
	close(stop)
	n := <-done
	if mounted == 0 || walked == 0 || n == 0 {
		t.Errorf("%d swaps, %d MOUNTs, %d LOOKUPs: the race was not run", n, mounted, walked)
	}
	if after := listing(t, out); after != before {
		t.Errorf("outside there is now %s, was %s", after, before)
	}
}

func listing(t testing.TB, dir string) (l string) {
	ok(t, "walk", filepath.Walk(dir, func(p string, fi os.FileInfo, err error) error {
		l += p + " " + fi.Mode().String() + "\n"
		return err
	}))
	return l
}
