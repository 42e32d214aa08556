package vfs

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestNotedNames: whatever happens to a name between two lookups, the second finds what is there.
func TestNotedNames(t *testing.T) {
	d := exportDir(t)
	mountFS(t, "tmpfs", d, "tmpfs", 0, "mode=777")
	for _, n := range []string{"a", "b", "c", "d", "dir/in", "mounted/x"} {
		os.MkdirAll(filepath.Dir(filepath.Join(d, n)), 0o755)
		os.WriteFile(filepath.Join(d, n), []byte(n), 0o644)
	}
	os.Chmod(filepath.Join(d, "dir"), 0o755)
	time.Sleep(noteAge + 50*time.Millisecond)
	b := newBench(t, d+" *(rw,async,no_root_squash,crossmnt)\n")
	b.on(func(th *Thread) {
		root := b.user(th, 0, 0)
		bob := b.user(th, 1001, 1001)
		top := root.mount(d)
		bob.mount(d)
		root.c.MayBlock, bob.c.MayBlock = false, false
		noted := func() (n int) {
			if th.notes != nil {
				for i := range th.notes {
					if th.notes[i].n > 0 {
						n++
					}
				}
			}
			return n
		}
		look := func(u *user, dir []byte, name string) ([]byte, Attr, error) {
			t.Helper()
			fh, a, err := u.lookup(dir, name)
			if err == ErrWouldBlock {
				u.c.MayBlock = true
				fh, a, err = u.lookup(dir, name)
				u.c.MayBlock = false
			}
			if err == nil {
				if ga, err := u.getattr(fh); err != nil || ga != a {
					t.Errorf("%s: lookup says %+v, its handle %+v, %v", name, a, ga, err)
				}
			}
			return fh, a, err
		}
		afh, _, err := look(root, top, "a")
		ok(t, "lookup", err)
		if noted() != 1 {
			t.Errorf("%d names noted", noted())
		}
		fh, a, err := look(root, top, "a")
		ok(t, "lookup", err)
		if string(fh) != string(afh) {
			t.Error("the noted name has another handle")
		}
		_, err = root.write(afh, 0, "longer than before")
		ok(t, "write", err)
		if _, a2, _ := look(root, top, "a"); a2.Size == a.Size {
			t.Error("old attributes")
		}
		// Another file under the name.
		bfh, _, _ := look(root, top, "b")
		os.Rename(filepath.Join(d, "b"), filepath.Join(d, "a"))
		if fh, _, err := look(root, top, "a"); err != nil || string(fh) != string(bfh) {
			t.Errorf("after a rename the name is still the old file: %v", err)
		}
		os.Remove(filepath.Join(d, "a"))
		_, _, err = look(root, top, "a")
		want(t, "lookup after a remove", err, unix.ENOENT)
		// Made again, and again: inode numbers may repeat.
		cfh, _, _ := look(root, top, "c")
		last := cfh
		for range 20 {
			os.Remove(filepath.Join(d, "c"))
			os.WriteFile(filepath.Join(d, "c"), nil, 0o644)
			fh, _, err := look(root, top, "c")
			ok(t, "lookup", err)
			if string(fh) == string(last) {
				t.Error("a new file has the old one's handle")
			}
			last = fh
		}
		// Permission is asked for each time.
		dfh, _, _ := look(root, top, "dir")
		_, _, err = look(bob, dfh, "in")
		ok(t, "lookup", err)
		th.asServer()
		os.Chmod(filepath.Join(d, "dir"), 0o700)
		_, _, err = look(bob, dfh, "in")
		want(t, "lookup in a directory that was closed", err, unix.EACCES)
		_, _, err = look(root, dfh, "in")
		ok(t, "lookup by root", err)
		// Mounted over.
		mfh, _, _ := look(root, top, "mounted")
		look(root, top, "mounted")
		mountFS(t, "tmpfs", filepath.Join(d, "mounted"), "tmpfs", 0, "")
		if fh, _, err := look(root, top, "mounted"); err != nil || string(fh) == string(mfh) {
			t.Errorf("a noted name hides what is mounted there: %v", err)
		}
		// A stale handle voids all notes.
		before := b.ns.stale.Load()
		_, err = root.getattr(last[:len(last)-1])
		want(t, "a cut handle", err, ErrBadHandle)
		if b.ns.stale.Load() != before {
			t.Error("a forged handle counts")
		}
		for range 2 { // from the cache, and by the kernel
			_, err = root.getattr(cfh)
			want(t, "a removed file", err, ErrStale)
		}
		if b.ns.stale.Load() == before {
			t.Error("a stale handle does not count")
		}
	})
}
