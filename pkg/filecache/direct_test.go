// Descriptors for direct I/O, and what is known of a file's alignment.

package filecache

import (
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

func TestDirectAlign(t *testing.T) {
	c := newCache(t, Config{Budget: 100})
	f := insert(t, c, tempFile(t, t.TempDir(), "a", "hello"))
	defer f.Release()
	if f.Align() != (Align{}) {
		t.Error("alignment known before anything is open")
	}
	_, err := f.Direct()
	a := f.Align()
	if err == unix.EOPNOTSUPP && !a.Direct {
		t.Skip("the file system of the test's temporary directory has no direct I/O")
	}
	if err != nil {
		t.Fatal(err)
	}
	if !a.Direct || a.Mem == 0 || a.Offset == 0 || a.ReadOffset == 0 || a.ReadOffset > a.Offset {
		t.Errorf("%+v", a)
	}
	if _, err := f.Reader(); err != nil {
		t.Fatal(err)
	}
	if f.fs.dontCache.Load() == dcUnknown {
		t.Error("RWF_DONTCACHE was not probed")
	}
}

// TestGiveUpWriters: a lease for reading is not to be had while any descriptor
// is open for writing, so that both kinds go; what was written is synced.
func TestGiveUpWriters(t *testing.T) {
	c := newCache(t, Config{Budget: 100})
	f := insert(t, c, tempFile(t, t.TempDir(), "a", "hello"))
	defer f.Release()
	fd, err := f.Open(DirectOut, true)
	if err == unix.EOPNOTSUPP {
		t.Skip("the file system of the test's temporary directory has no direct I/O")
	}
	if err != nil || fd != f.FD(DirectOut) {
		t.Fatal(err)
	}
	if fl, err := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0); err != nil || fl&unix.O_ACCMODE != unix.O_WRONLY || fl&unix.O_DIRECT == 0 {
		t.Errorf("flags %#o, %v", fl, err)
	}
	if _, err := f.Reader(); err != nil {
		t.Fatal(err)
	}
	f.MarkUnstable()
	shut := f.GiveUp(Write, false)
	if shut == nil || f.FD(DirectOut) >= 0 || f.FD(Read) < 0 {
		t.Fatal("the descriptor for direct writes stays, or that for reading does not")
	}
	shut()
	if f.Unstable() {
		t.Error("what was written direct is not on stable storage")
	}
	if f.GiveUp(Write, false) != nil {
		t.Error("there was another")
	}
}

func TestTmpfsHasNoDirect(t *testing.T) {
	dir, err := os.MkdirTemp("/dev/shm", "filecache")
	if err != nil {
		t.Skip("no tmpfs at /dev/shm:", err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	c := newCache(t, Config{Budget: 100})
	f := insert(t, c, tempFile(t, dir, "a", "hello"))
	defer f.Release()
	if _, err := f.Direct(); err != unix.EOPNOTSUPP {
		t.Errorf("direct on tmpfs: %v", err)
	}
	if _, err := f.Reader(); err != nil {
		t.Fatal(err)
	}
	if a := f.Align(); a != (Align{Block: uint32(os.Getpagesize())}) {
		t.Errorf("%+v", a)
	}
}
