package testenv

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestMain(m *testing.M) { os.Exit(Main(m, nil)) }

// verdict records what became of a test.
type verdict struct {
	testing.TB
	text string
}

func (v *verdict) Helper()                   {}
func (v *verdict) Skip(a ...any)             { v.text = "skip: " + fmt.Sprint(a...) }
func (v *verdict) Fatalf(f string, a ...any) { v.text = "fail: " + fmt.Sprintf(f, a...) }

func TestSkip(t *testing.T) {
	for _, c := range []struct{ require, want string }{
		{"", "skip: no-such-tool is not installed (Debian package unknown)"},
		{"1", "fail: cannot run, and every part is required: no-such-tool is not installed"},
	} {
		t.Setenv("SLUICE_REQUIRE_ALL", c.require)
		var v verdict
		Commands(&v, "sh", "no-such-tool")
		if !strings.HasPrefix(v.text, c.want) {
			t.Errorf("SLUICE_REQUIRE_ALL=%q: %q, want %q", c.require, v.text, c.want)
		}
	}
}

func TestPackages(t *testing.T) {
	list := Packages()
	if len(list) < 5 {
		t.Fatalf("packages.txt has %d entries", len(list))
	}
	if got := packageOf("mount.nfs"); got != "nfs-common" {
		t.Errorf("mount.nfs is in %q", got)
	}
}

func TestSandbox(t *testing.T) {
	Sandboxed(t)
	if os.Getpid() != 1 {
		t.Errorf("process %d, want 1 of a PID namespace", os.Getpid())
	}
	out, err := exec.Command("ip", "-brief", "addr").CombinedOutput()
	if err != nil || !strings.Contains(string(out), ServerIP) || strings.Count(string(out), "\n") != 2 {
		t.Errorf("interfaces, want lo and the bridge: %v\n%s", err, out)
	}
}

// TestFileSystems shows that the file systems differ in what direct I/O must be
// aligned to, and that nothing stays mounted.
func TestFileSystems(t *testing.T) {
	Sandboxed(t)
	before := mounts(t)
	for _, c := range []struct {
		name  string
		dir   func(testing.TB) string
		magic int64
		align uint32 // 0: no direct I/O
	}{
		{"disk", Disk, unix.EXT4_SUPER_MAGIC, 512},
		{"xfs512", func(t testing.TB) string { return XFS(t, 512) }, unix.XFS_SUPER_MAGIC, 512},
		{"xfs4096", func(t testing.TB) string { return XFS(t, 4096) }, unix.XFS_SUPER_MAGIC, 4096},
		{"tmpfs", Tmpfs, unix.TMPFS_MAGIC, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := c.dir(t)
			var fs unix.Statfs_t
			if err := unix.Statfs(dir, &fs); err != nil || fs.Type != c.magic {
				t.Errorf("type %#x, %v; want %#x", fs.Type, err, c.magic)
			}
			if list, err := os.ReadDir(dir); err != nil || len(list) > 1 { // lost+found
				t.Errorf("not empty: %v, %v", list, err)
			}
			name := filepath.Join(dir, "f")
			if err := os.WriteFile(name, []byte("x"), 0o600); err != nil {
				t.Fatal(err)
			}
			var st unix.Statx_t
			if err := unix.Statx(unix.AT_FDCWD, name, 0, unix.STATX_DIOALIGN, &st); err != nil {
				t.Fatal(err)
			}
			if c.name == "disk" && st.Dio_offset_align > 0 {
				return // a disk's sectors are what they are
			}
			if st.Dio_offset_align != c.align {
				t.Errorf("offset alignment %d, want %d", st.Dio_offset_align, c.align)
			}
		})
	}
	if after := mounts(t); after != before {
		t.Errorf("mounts before:\n%s\nafter:\n%s", before, after)
	}
}

func mounts(t *testing.T) string {
	b, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
