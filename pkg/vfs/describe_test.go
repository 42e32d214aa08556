package vfs

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"sluice/pkg/filecache"
)

// A file's path is found in whichever export it was reached, also of two on one file system and below a mount, follows a
// rename, and is none when the file is gone or was never named.
func TestDescribe(t *testing.T) {
	d := exportDir(t)
	a, c := filepath.Join(d, "a"), filepath.Join(d, "c")
	for _, dir := range []string{a, c, filepath.Join(a, "mnt")} {
		ok(t, "mkdir", os.Mkdir(dir, 0o755))
	}
	mountFS(t, "tmpfs", filepath.Join(a, "mnt"), "tmpfs", 0, "")
	files := []string{filepath.Join(a, "f"), filepath.Join(c, "g"), filepath.Join(a, "mnt", "h")}
	for _, f := range files {
		ok(t, "write", os.WriteFile(f, []byte("x"), 0o644))
	}
	b := newBench(t, a+" *(rw,crossmnt,no_root_squash)\n"+c+" *(rw,no_root_squash,subtree_check)\n")
	keys := map[string]filecache.Key{}
	b.on(func(th *Thread) {
		u := b.v4(th, 0, 0)
		for _, f := range files {
			fh, _, err := u.walk(f)
			ok(t, f, err)
			ok(t, "View", u.do(fh, func(_ *View, n Node) error { keys[f] = n.Key(); return nil }))
		}
	})
	for _, f := range files {
		var st unix.Stat_t
		ok(t, "stat", unix.Stat(f, &st))
		want := FileInfo{Major: unix.Major(st.Dev), Minor: unix.Minor(st.Dev), Inode: st.Ino, Path: f}
		if got, found := b.ns.Describe(keys[f]); !found || got != want {
			t.Errorf("%s: %+v, %v; want %+v", f, got, found, want)
		}
	}
	moved := filepath.Join(a, "moved")
	ok(t, "rename", os.Rename(files[0], moved))
	if got, found := b.ns.Describe(keys[files[0]]); !found || got.Path != moved {
		t.Errorf("after a rename: %+v, %v", got, found)
	}
	// Another file under its name is not taken for it.
	ok(t, "remove", os.Remove(moved))
	ok(t, "write", os.WriteFile(moved, nil, 0o644))
	if got, _ := b.ns.Describe(keys[files[0]]); got.Path != "" {
		t.Errorf("after its end: %+v", got)
	}
	if got, found := b.ns.Describe(filecache.Key{FS: 1 << 60, Len: 8}); found || got != (FileInfo{}) {
		t.Errorf("of no file system: %+v", got)
	}
}
