// Tests of crossmnt and nohide together with subtree_check.

package vfs

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"golang.org/x/sys/unix"
)

// TestCrossWithSubtreeCheck crosses into mounts of each kind below exports of each kind: what subtree_check asks of a file system,
// one that cannot do it does not have, and shows no less for it.
func TestCrossWithSubtreeCheck(t *testing.T) {
	kinds := map[string]func(t *testing.T, at string){
		"tmpfs": func(t *testing.T, at string) { mountFS(t, "tmpfs", at, "tmpfs", 0, "") },
		"ext4": func(t *testing.T, at string) {
			mountFS(t, ext4Dir(t, 16<<20), at, "", unix.MS_BIND, "")
		},
	}
	for outer, mountOuter := range kinds {
		for inner, mountInner := range kinds {
			t.Run(outer+" "+inner, func(t *testing.T) {
				d := exportDir(t)
				mountOuter(t, d)
				for _, s := range []string{"crossed", "nohide"} {
					m := filepath.Join(d, s)
					os.Mkdir(m, 0o755)
					mountInner(t, m)
					os.WriteFile(filepath.Join(m, "x"), []byte("x"), 0o644)
				}
				b := newBench(t, d+" *(rw,no_root_squash,crossmnt,subtree_check)\n"+filepath.Join(d, "nohide")+" *(rw,no_root_squash,nohide,subtree_check)\n")
				b.as(0, 0, func(u *user) {
					root := u.mount(d)
					for _, s := range []string{"crossed", "nohide"} {
						fh, _, err := u.lookup(root, s)
						ok(t, "lookup of "+s, err)
						x, _, err := u.lookup(fh, "x")
						ok(t, "lookup in "+s, err)
						if data, _, err := u.read(x, 0, 9); err != nil || data != "x" {
							t.Errorf("read in %s: %q, %v", s, data, err)
						}
						names, err := u.list(fh, true, 10)
						if err != nil || !slices.Contains(names, "x") {
							t.Errorf("list of %s: %q, %v", s, names, err)
						}
						if e, found := entries4(b, u.th, d)[s]; !found || string(e.Handle.Bytes()) != string(fh) {
							t.Errorf("listed by version 4, %s has another handle", s)
						}
					}
				})
			})
		}
	}
}

// entries4 lists an export's directory as a client of version 4 does.
func entries4(b *bench, th *Thread, d string) map[string]DirEntry {
	u := b.v4(th, 0, 0)
	return u.entries(u.mount(d))
}
