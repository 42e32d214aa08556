// A symbolic link where an exported directory was.

package vfs

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestLinkInPlaceOfExport: who may write the directory above an export must not make the server serve any other
// directory by putting a link in the export's place, or above it.
func TestLinkInPlaceOfExport(t *testing.T) {
	for _, at := range []string{"home/share", "home"} {
		t.Run(at, func(t *testing.T) {
			top := exportDir(t)
			d := filepath.Join(top, "home/share")
			secret := filepath.Join(top, "secret")
			for _, p := range []string{d, filepath.Join(secret, "share"), filepath.Join(secret, "private")} {
				if err := os.MkdirAll(p, 0o755); err != nil {
					t.Fatal(err)
				}
			}
			b := newBench(t, d+" *(rw,no_root_squash)\n")
			at = filepath.Join(top, at)
			if err := os.Rename(at, at+".away"); err != nil {
				t.Fatal(err)
			}
			if err := os.Symlink(secret, at); err != nil {
				t.Fatal(err)
			}
			b.as(0, 0, func(u *user) {
				// The directory itself is still there, under another name, and goes on being served.
				if _, _, err := u.lookup(u.mount(d), "private"); err != unix.ENOENT {
					t.Errorf("a name behind the link: %v", err)
				}
			})
			if err := os.RemoveAll(at + ".away"); err != nil {
				t.Fatal(err)
			}
			b.restart() // with the table as it was resolved
			b.as(0, 0, func(u *user) {
				if h, _, err := b.ns.Mount(u.th, &u.c, d); err == nil {
					t.Errorf("MOUNT through the link: handle %x", h.Bytes())
				}
			})
			if !strings.Contains(b.log.String(), "symbolic link") {
				t.Errorf("the log says nothing of the link:\n%s", b.log)
			}
		})
	}
}
