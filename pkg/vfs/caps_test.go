// Tests of a server that lacks capabilities.

package vfs

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// Without CAP_SYS_ADMIN exports are served all the same; only names that are mount points are refused.
func TestWithoutSysAdmin(t *testing.T) {
	d := exportDir(t)
	os.WriteFile(filepath.Join(d, "f"), []byte("data"), 0o644)
	mountFS(t, "tmpfs", filepath.Join(d, "sub"), "tmpfs", 0, "")
	done := make(chan *bench)
	go func() {
		lockForGood()
		dropCap(t, unix.CAP_SYS_ADMIN)
		done <- newBench(t, d+" *(rw,no_root_squash)\n")
	}()
	b := <-done
	if !strings.Contains(b.log.String(), "CAP_SYS_ADMIN") {
		t.Errorf("log:\n%s", b.log)
	}
	b.on(func(th *Thread) {
		dropCap(t, unix.CAP_SYS_ADMIN)
		u := b.user(th, 1000, 1000)
		root := u.mount(d)
		fh, _, err := u.lookup(root, "f")
		ok(t, "lookup", err)
		if data, _, err := u.read(fh, 0, 9); err != nil || data != "data" {
			t.Errorf("read %q, %v", data, err)
		}
		_, _, err = u.lookup(root, "sub")
		want(t, "lookup of a mount point", err, unix.EACCES)
		names, err := u.list(root, true, 10)
		if err != nil || len(names) != 4 {
			t.Errorf("list %q, %v", names, err)
		}
	})
}

// Without CAP_DAC_READ_SEARCH nothing can be served, and the reason is said.
func TestWithoutDacReadSearch(t *testing.T) {
	d := exportDir(t)
	done := make(chan *bench)
	go func() {
		lockForGood()
		dropCap(t, unix.CAP_DAC_READ_SEARCH)
		done <- newBench(t, d+" *(rw)\n", func(c *Config) { c.CheckEvery = time.Hour })
	}()
	b := <-done
	if p := b.ns.Problems()[d]; !strings.Contains(p, "CAP_DAC_READ_SEARCH") {
		t.Errorf("problem: %q", p)
	}
}

// dropCap takes a capability from the calling thread, which is locked for good.
func dropCap(t testing.TB, capability uint) {
	hdr := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if err := unix.Capget(&hdr, &data[0]); err != nil {
		t.Error(err)
	}
	data[capability/32].Effective &^= 1 << (capability % 32)
	if err := unix.Capset(&hdr, &data[0]); err != nil {
		t.Error(err)
	}
}
