// Plan of this file: what happens around the calls: the mode switched
// under load, exports reloaded under load, nested mounts, mounting through the
// portmapper, and a server short of descriptors.

package kernel

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"sluice/test/testenv"
)

// one starts a server with one export and a guest that has mounted it, by a
// version as MountVersion has it.
func one(t *testing.T, version string, cfg testenv.ServerConfig) *station {
	s := &station{mnt: "/mnt/one"}
	s.export = cfg.Exports[0].Dir
	s.server = testenv.StartServer(t, cfg)
	s.guest = Boot(t)
	s.guest.MountVersion(t, s.server, version, s.export, s.mnt, "")
	return s
}

// allVersions are those that a server serves.
var allVersions = []string{"3", "4.0", "4.1", "4.2"}

// byVersion runs a test by each version.
func byVersion(t *testing.T, versions []string, fn func(t *testing.T, version string)) {
	t.Parallel()
	for _, version := range versions {
		t.Run("v"+version, func(t *testing.T) {
			t.Parallel()
			fn(t, version)
		})
	}
}

// meanwhile runs a check in the guest and calls fn every interval until it has
// ended; it returns how often fn was called.
func (s *station) meanwhile(t *testing.T, every time.Duration, fn func(i int) error, check string, options ...string) int {
	done := make(chan error, 1)
	go func() { done <- s.guest.CheckAs(t, root, check, s.mnt, options...) }()
	tick := time.NewTicker(every)
	defer tick.Stop()
	for i := 0; ; i++ {
		select {
		case err := <-done:
			if err != nil {
				t.Error(err)
			}
			return i
		case <-tick.C:
			if err := fn(i); err != nil {
				t.Error(err)
				<-done
				return i
			}
		}
	}
}

// TestModeSwitch switches the mode of READ and WRITE every 50 ms below a load
// that reads what is known, and below one that writes and reads it back.
func TestModeSwitch(t *testing.T) { byVersion(t, allVersions, modeSwitch) }

func modeSwitch(t *testing.T, version string) {
	s := one(t, version, testenv.ServerConfig{Exports: []testenv.Export{{Dir: testenv.XFS(t, 4096)}}})
	modes := append(s.server.Modes(), "auto")
	s.guest.Check(t, "randread", s.mnt, "phase=write")
	for _, load := range [][]string{{"readload", "seconds=5", "workers=4"}, {"load", "seconds=3"}} {
		n := s.meanwhile(t, 50*time.Millisecond, func(i int) error {
			if i%10 == 0 {
				evict(t, filepath.Join(s.export, "randread1"))
			}
			return s.server.SetMode(modes[i%len(modes)])
		}, load[0], load[1:]...)
		t.Logf("%s: switched %d times", load[0], n)
		if n < len(modes) {
			t.Errorf("%s: switched only %d times", load[0], n)
		}
	}
}

// TestReload reloads the exports by SIGHUP below a load; nobody notices.
func TestReload(t *testing.T) { byVersion(t, []string{"3", newest}, reload) }

func reload(t *testing.T, version string) {
	s := one(t, version, testenv.ServerConfig{Exports: []testenv.Export{{Dir: testenv.Disk(t)}}})
	n := s.meanwhile(t, 50*time.Millisecond, func(int) error {
		return s.server.Signal(syscall.SIGHUP)
	}, "load", "seconds=3", "names=1")
	t.Logf("reloaded %d times", n)
}

// TestNested mounts file systems below an export: crossmnt shows them to a
// client that mounted the parent, nohide to one that would not see them
// otherwise, and without either the bare mount point is seen.
func TestNested(t *testing.T) { byVersion(t, allVersions, nested) }

func nested(t *testing.T, version string) {
	base := testenv.Disk(t)
	make := func(option string) string {
		dir := filepath.Join(base, option)
		for _, d := range []string{dir, filepath.Join(dir, "below"), filepath.Join(dir, "below/deep")} {
			if err := os.Mkdir(d, 0o755); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.WriteFile(filepath.Join(dir, "below/covered"), []byte("covered"), 0o644); err != nil {
			t.Fatal(err)
		}
		return dir
	}
	cover := func(dir, text string) {
		testenv.MountTmpfs(t, dir)
		if err := os.WriteFile(filepath.Join(dir, "file"), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	cross, hide, plain := make("crossmnt"), make("nohide"), make("plain")
	for _, dir := range []string{cross, hide, plain} {
		cover(filepath.Join(dir, "below"), "first-"+filepath.Base(dir))
	}
	if err := os.Mkdir(filepath.Join(cross, "below/deep"), 0o755); err != nil {
		t.Fatal(err)
	}
	cover(filepath.Join(cross, "below/deep"), "second")
	const rw = "rw,insecure,no_root_squash"
	server := testenv.StartServer(t, testenv.ServerConfig{Exports: []testenv.Export{
		{Dir: cross, Options: rw + ",crossmnt"},
		{Dir: hide, Options: rw},
		{Dir: filepath.Join(hide, "below"), Options: rw + ",nohide"},
		{Dir: plain, Options: rw},
	}})
	g := Boot(t)
	t.Run("mounted", func(t *testing.T) {
		s := &station{guest: g}
		for _, dir := range []string{cross, hide, plain} {
			g.MountVersion(t, server, version, dir, "/mnt/"+filepath.Base(dir), "")
		}
		t.Run("crossmnt", func(t *testing.T) {
			s.steps(t, "/mnt/crossmnt", []steps{{root, `
				holds below/file first-crossmnt
				holds below/deep/file second
				stat below/covered = ENOENT
				create 0600 below/new
				rename below/new elsewhere = EXDEV
				link below/new elsewhere = EXDEV
				rename below/deep/file below/file = EXDEV
				unlink below/new
				list below
				list below/deep`}})
			// Distinct file systems stay distinct: one device number each.
			out := g.Sh(t, "stat -c %%d /mnt/crossmnt /mnt/crossmnt/below /mnt/crossmnt/below/deep")
			if d := strings.Fields(out); len(d) != 3 || d[0] == d[1] || d[1] == d[2] || d[0] == d[2] {
				t.Errorf("device numbers %q, want three different ones", d)
			}
			g.Sh(t, "test $(find /mnt/crossmnt -type f | wc -l) = 2")
			g.Sh(t, "umount /mnt/crossmnt/below/deep /mnt/crossmnt/below")
		})
		t.Run("nohide", func(t *testing.T) {
			s.steps(t, "/mnt/nohide", []steps{{root, "holds below/file first-nohide\nlist below"}})
			g.Sh(t, "umount /mnt/nohide/below")
		})
		t.Run("neither", func(t *testing.T) {
			s.steps(t, "/mnt/plain", []steps{{root, "stat below/file = ENOENT\nstat below"}})
		})
		t.Run("mounted while the server runs", func(t *testing.T) {
			late := filepath.Join(cross, "late")
			if err := os.Mkdir(late, 0o755); err != nil {
				t.Fatal(err)
			}
			s.steps(t, "/mnt/crossmnt", []steps{{root, "list late\ncreate 0600 late/before"}})
			cover(late, "late")
			defer g.Sh(t, "umount /mnt/crossmnt/late")
			g.DropCaches(t)
			g.Sh(t, "sleep 1; ls /mnt/crossmnt/late") // the attribute cache runs out
			s.steps(t, "/mnt/crossmnt", []steps{{root, "holds late/file late\nstat late/before = ENOENT"}})
		})
	})
	// Like the kernel's server, ours keeps a file system busy that a client uses:
	// the one mounted last is unmounted first, and needs the server gone. That in
	// turn must not be before the client has unmounted.
	if err := server.Stop(); err != nil {
		t.Error(err)
	}
}

// TestPortmapper mounts as an administrator would, with no port named, and asks
// the server what it exports.
func TestPortmapper(t *testing.T) {
	t.Parallel()
	dir := testenv.Disk(t)
	server := testenv.StartServer(t, testenv.ServerConfig{
		Exports: []testenv.Export{{Dir: dir}}, Portmapper: true,
	})
	g := Boot(t)
	g.Sh(t, "mkdir /mnt/p; mount -t nfs -o vers=3,nolock %s:%s /mnt/p", testenv.ServerIP, dir)
	s := &station{guest: g}
	s.steps(t, "/mnt/p", []steps{{root, "create 0600 f\nholds f new"}})
	list := g.Sh(t, "showmount --no-headers --exports %s", testenv.ServerIP)
	if f := strings.Fields(list); len(f) != 2 || f[0] != dir || f[1] != "*" && f[1] != "(everyone)" {
		t.Errorf("showmount -e says %q, want %s *", list, dir)
	}
	if out := g.Sh(t, "showmount --no-headers --directories %s", testenv.ServerIP); !strings.Contains(out, dir) {
		t.Errorf("showmount -d says %q while %s is mounted", out, dir)
	}
	g.Sh(t, "umount /mnt/p")
	if out := g.Sh(t, "showmount --no-headers --directories %s", testenv.ServerIP); strings.Contains(out, dir) {
		t.Errorf("showmount -d says %q after the last unmount", out)
	}
	_ = server
}

// TestFewDescriptors gives the server 128 descriptors and the client 11,000
// files to create, read and remove: the limit must never reach the client.
func TestFewDescriptors(t *testing.T) { byVersion(t, []string{"3", newest}, fewDescriptors) }

func fewDescriptors(t *testing.T, version string) {
	files := "files=11000"
	if version != "3" {
		files = "files=1000" // an open and a close for each; what counts comes below
	}
	s := one(t, version, testenv.ServerConfig{Exports: []testenv.Export{{Dir: testenv.Tmpfs(t)}}, Descriptor: 128})
	for _, phase := range []string{"create", "list", "remove"} {
		s.guest.Check(t, "many", s.mnt, files, "phase="+phase)
	}
	// And while they are all in use: more files are read at once than there
	// are descriptors.
	s.guest.Sh(t, `cd %s; mkdir d; for i in $(seq 300); do echo "content $i" > d/$i; done`, s.mnt)
	s.guest.DropCaches(t)
	s.guest.Sh(t, `cd %s/d; exec 3<1
		fds=(); for i in $(seq 300); do exec {fd}<$i; fds+=($fd); done
		for i in $(seq 300); do read -r line <&${fds[i-1]}; [ "$line" = "content $i" ]; done`, s.mnt)
	if fds, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", s.server.PID())); err != nil || len(fds) > 128 {
		t.Errorf("%d descriptors, %v", len(fds), err)
	}
}

// TestCleanStop ends an idle server that has a client: status 0, and the
// client goes on with its successor.
func TestCleanStop(t *testing.T) { byVersion(t, allVersions, cleanStop) }

func cleanStop(t *testing.T, version string) {
	s := one(t, version, testenv.ServerConfig{Exports: []testenv.Export{{Dir: testenv.Tmpfs(t)}}})
	s.guest.Sh(t, "echo before > %s/f", s.mnt)
	began := time.Now()
	if err := errors.Join(s.server.Stop(), s.server.Start()); err != nil {
		t.Fatal(err)
	}
	t.Logf("stopped and started in %v", time.Since(began))
	s.guest.DropCaches(t)
	s.guest.Sh(t, "test $(cat %[1]s/f) = before; echo after > %[1]s/f; sync %[1]s/f", s.mnt)
	if b, err := os.ReadFile(filepath.Join(s.export, "f")); string(b) != "after\n" {
		t.Errorf("the file holds %q, %v", b, err)
	}
}
