package vfs

import (
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// listing lists a directory with handles and attributes.
func (u *user) listing(t *testing.T, dir []byte) map[string]DirEntry {
	t.Helper()
	m := map[string]DirEntry{}
	ok(t, "readdir", u.do(dir, func(v *View, n Node) error {
		_, err := v.Readdir(n, &ReaddirReq{Plus: true}, func(e *DirEntry) bool {
			x := *e
			x.Name = nil
			m[string(e.Name)] = x
			return true
		})
		return err
	}))
	return m
}

// matchLookup checks that each entry has the handle and the attributes that LOOKUP gives.
func (u *user) matchLookup(t *testing.T, when string, dir []byte, entries map[string]DirEntry) {
	t.Helper()
	for name, e := range entries {
		fh, a, err := u.lookup(dir, name)
		ok(t, "lookup "+name, err)
		e.Attr.Atime = a.Atime // a listing sets the directory's
		if string(e.Handle.Bytes()) != string(fh) || e.Attr != a {
			t.Errorf("%s: %s: handle and attributes differ from LOOKUP's", when, name)
		}
	}
}

// Entries are what LOOKUP finds: at first, when their handles are kept, and when their names mean other files since.
func TestEntriesByName(t *testing.T) {
	onEach(t, func(t *testing.T, d string) {
		const n = 40
		fillDir(t, d, n)
		os.Mkdir(filepath.Join(d, "dir"), 0o755)
		os.Symlink("dir", filepath.Join(d, "link"))
		unix.Mkfifo(filepath.Join(d, "fifo"), 0o644)
		b := serve(t, d, "rw,async,no_root_squash")
		b.as(0, 0, func(u *user) {
			root := u.mount(d)
			u.matchLookup(t, "young", root, u.listing(t, root))
			time.Sleep(noteAge + 100*time.Millisecond)
			u.listing(t, root)
			kept := 0
			for i := range b.ns.births.slots {
				if b.ns.births.slots[i].ino != 0 {
					kept++
				}
			}
			if kept < n {
				t.Errorf("%d handles kept, want at least %d", kept, n)
			}
			u.matchLookup(t, "kept", root, u.listing(t, root))
			for i := range n { // inode numbers are used again
				path := filepath.Join(d, "file"+strconv.Itoa(i))
				os.Remove(path)
				if i%2 == 0 {
					os.WriteFile(path, []byte("new"), 0o600)
				}
			}
			fillDir(t, d, n)
			u.matchLookup(t, "replaced", root, u.listing(t, root))
		})
	})
}

// The inode number within a kernel handle is read as each file system writes it.
func TestHandleIno(t *testing.T) {
	onEach(t, func(t *testing.T, d string) {
		fillDir(t, d, 3)
		var sf unix.Statfs_t
		ok(t, "statfs", unix.Statfs(d, &sf))
		b := serve(t, d, "rw,async,no_root_squash")
		b.as(0, 0, func(u *user) {
			fh, a, err := u.lookup(u.mount(d), "file2")
			ok(t, "lookup", err)
			ok(t, "key", u.do(fh, func(_ *View, n Node) error {
				if ino, known := handleIno(int64(sf.Type), &n.f.Key); !known || ino != a.FileID {
					t.Errorf("inode %d in the handle (%v), is %d", ino, known, a.FileID)
				}
				return nil
			}))
		})
	})
}

func BenchmarkReaddirplus(b *testing.B) {
	d := ext4Dir(b, 32<<20)
	fillDir(b, d, 1000)
	x := newBench(b, d+" *(rw,async,no_root_squash)\n")
	time.Sleep(noteAge + 100*time.Millisecond)
	x.as(0, 0, func(u *user) {
		root := u.mount(d)
		b.ReportAllocs()
		for b.Loop() {
			n := 0
			if err := u.do(root, func(v *View, dir Node) error {
				_, err := v.Readdir(dir, &ReaddirReq{Plus: true}, func(*DirEntry) bool { n++; return true })
				return err
			}); err != nil || n < 1000 {
				b.Fatal(n, err)
			}
		}
	})
}
