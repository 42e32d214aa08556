// Tests of the slow file system through the kernel: reads take their time, side
// by side, and a file handle opens the file.
package slowfs

import (
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func mountSlow(t *testing.T, delay time.Duration, fill func([]byte, uint64)) string {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("mounting needs root")
	}
	if _, err := os.Stat("/dev/fuse"); err != nil {
		t.Skip("/dev/fuse is missing")
	}
	dir := t.TempDir()
	f, err := Mount(dir, delay, fill)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := f.Unmount(); err != nil {
			t.Error(err)
		}
	})
	return dir
}

func offsets(p []byte, off uint64) {
	for i := range p {
		p[i] = byte(off + uint64(i))
	}
}

func TestReadIsSlow(t *testing.T) {
	const delay = 100 * time.Millisecond
	f, err := os.Open(filepath.Join(mountSlow(t, delay, offsets), FileName))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	start := time.Now()
	p := make([]byte, 4096)
	if _, err := f.ReadAt(p, 1<<32|512); err != nil {
		t.Fatal(err)
	}
	if d := time.Since(start); d < delay {
		t.Errorf("the read took %v, want at least %v", d, delay)
	}
	if p[255] != 255 {
		t.Error("wrong data")
	}
}

// Each read waits for all the others to have arrived: if the file system, or
// the kernel's side of it, served them one by one, none would ever return.
func TestReadsAreSideBySide(t *testing.T) {
	const readers = 8
	var arrived sync.WaitGroup
	arrived.Add(readers)
	f, err := os.Open(filepath.Join(mountSlow(t, 0, func([]byte, uint64) { arrived.Done(); arrived.Wait() }), FileName))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var wg sync.WaitGroup
	for i := range readers {
		wg.Go(func() {
			if _, err := f.ReadAt(make([]byte, 4096), int64(i+1)<<32); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
}

func TestHandleOpensFile(t *testing.T) {
	dir := mountSlow(t, 0, offsets)
	h, _, err := unix.NameToHandleAt(unix.AT_FDCWD, filepath.Join(dir, FileName), 0)
	if err != nil {
		t.Fatal(err)
	}
	m, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	// Make the kernel forget the node if it can; the handle must work anyway.
	if err := os.WriteFile("/proc/sys/vm/drop_caches", []byte("2"), 0); err != nil {
		t.Logf("caches not dropped: %v", err)
	}
	fd, err := unix.OpenByHandleAt(int(m.Fd()), h, unix.O_RDONLY)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	p := make([]byte, 16)
	if n, err := unix.Pread(fd, p, 32); err != nil || n != 16 || p[0] != 32 {
		t.Fatalf("read by handle: %d bytes %v, error %v", n, p, err)
	}
}
