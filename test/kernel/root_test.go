// Plan of this file: the root that NFSv4 clients mount. Without an export of
// fsid=0 it is a tree of names that lead to the exports, and to nothing else;
// with one it is that export.

package kernel

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sluice/test/testenv"
)

var versions4 = []string{"", "4.1", "4.0"}

// exported makes a directory below base with a file that has its name in it.
func exported(t *testing.T, base, name string) string {
	t.Helper()
	dir := filepath.Join(base, name)
	err := errors.Join(os.MkdirAll(dir, 0o755), os.WriteFile(filepath.Join(dir, "name"), []byte(name), 0o644))
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestPseudoRoot mounts server:/ where three exports of two file systems lie
// below directories that are not exported.
func TestPseudoRoot(t *testing.T) {
	t.Parallel()
	base, other := testenv.Disk(t), testenv.Tmpfs(t)
	one, two, three := exported(t, base, "one"), exported(t, base, "deep/below/two"), exported(t, other, "three")
	exported(t, base, "secret")
	server := testenv.StartServer(t, testenv.ServerConfig{Exports: []testenv.Export{{Dir: one}, {Dir: two}, {Dir: three}}})
	g := Boot(t)
	for _, version := range versions4 {
		at := "/mnt/root" + version
		t.Run("version "+version, func(t *testing.T) {
			g.MountVersion(t, server, version, "/", at, "")
			for _, dir := range []string{one, two, three} {
				name, err := os.ReadFile(filepath.Join(dir, "name"))
				if err != nil {
					t.Fatal(err)
				}
				if got := g.Sh(t, "cat %s%s/name; touch %[1]s%[2]s/new; rm %[1]s%[2]s/new", at, dir); got != string(name) {
					t.Errorf("%s holds %q, want %q", dir, got, name)
				}
			}
			if got := g.Sh(t, "ls -A %s%s", at, base); got != "deep\none\n" {
				t.Errorf("below a directory that is not exported: %q", got)
			}
			if got := g.Sh(t, "ls -A %s%s/deep %[1]s%[2]s/deep/below | grep -v :", at, base); strings.Join(strings.Fields(got), " ") != "below two" {
				t.Errorf("on the way to an export: %q", got)
			}
			s := &station{guest: g}
			s.steps(t, at+base, []steps{{root, `
				stat secret = ENOENT
				read secret/name = ENOENT
				create 0644 new = EROFS
				mkdir 0755 new = EROFS
				unlink one = EROFS|EISDIR|EBUSY
				rmdir deep = EROFS
				rename deep elsewhere = EROFS
				chmod 0777 deep = EROFS
				rename one/name deep/below/two/moved = EXDEV
				link one/name deep/below/two/moved = EXDEV
				list deep`}})
			// An export on another file system is another file system here too.
			out := g.Sh(t, "stat -c %%d %s%s %[1]s%[3]s", at, one, three)
			if d := strings.Fields(out); len(d) != 2 || d[0] == d[1] {
				t.Errorf("device numbers %q, want two", d)
			}
			// ..: up out of an export to where it is mounted.
			if got := g.Sh(t, "ls %s%s/..", at, two); got != "two\n" {
				t.Errorf("above an export: %q", got)
			}
		})
	}
	// Subtests have unmounted what they mounted.
	nothingHeld(t, server)
}

// TestRootExport mounts server:/ where an export with fsid=0 is the root, and
// another lies below it.
func TestRootExport(t *testing.T) {
	t.Parallel()
	base := testenv.Disk(t)
	exported(t, base, ".")
	// As in Linux, the other is reached by its name from the root only where it
	// is mounted: a directory of the root's own file system stays the root's.
	below := exported(t, base, "below")
	testenv.MountTmpfs(t, below)
	exported(t, base, "below")
	server := testenv.StartServer(t, testenv.ServerConfig{Exports: []testenv.Export{
		{Dir: base, Options: "rw,insecure,no_root_squash,fsid=0"},
		{Dir: below, Options: "ro,insecure,no_root_squash"},
	}})
	g := Boot(t)
	for _, version := range versions4 {
		at := "/mnt/root" + version
		t.Run("version "+version, func(t *testing.T) {
			g.MountVersion(t, server, version, "/", at, "")
			if got := g.Sh(t, "cat %s/name %[1]s/below/name", at); got != ".below" {
				t.Errorf("the root and what is below it hold %q", got)
			}
			s := &station{guest: g}
			s.steps(t, at, []steps{{root, `
				create 0644 new
				holds new new
				unlink new
				create 0644 below/new = EROFS
				unlink below/name = EROFS`}})
			// The export's name from the root works as well, as a mount of its own.
			g.MountVersion(t, server, version, "/below", at+"-below", "")
			if got := g.Sh(t, "cat %s-below/name", at); got != "below" {
				t.Errorf("/below holds %q", got)
			}
		})
	}
}
