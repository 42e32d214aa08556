// Plan of this file: file systems to export. Each is a fresh, empty directory.
// Images lose their name as soon as a loop device has them, and loop devices
// release themselves with the last mount, so that nothing is left even if the
// tests are killed.

package testenv

import (
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

const ext4Magic = 0xEF53

// Disk returns a directory on ext4: the disk's own where the temporary
// directory is on ext4, else an image's.
func Disk(t testing.TB) string {
	t.Helper()
	dir := workDir(t)
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		t.Fatal(err)
	}
	if st.Type != ext4Magic {
		loop(t, dir, 4<<30, 512, "mkfs.ext4", "-q", "-F")
		return dir
	}
	return exportDir(t, dir)
}

// XFS returns a directory on a fresh XFS whose device has sectors of the given
// size: 512 or 4096 bytes, which is what direct I/O must be aligned to.
func XFS(t testing.TB, sector int) string {
	t.Helper()
	dir := workDir(t)
	loop(t, dir, 2<<30, sector, "mkfs.xfs", "-q", "-f")
	return dir
}

// Tmpfs returns a directory on a fresh tmpfs, which knows neither direct I/O
// nor uncached buffered I/O.
func Tmpfs(t testing.TB) string {
	t.Helper()
	dir := workDir(t)
	MountTmpfs(t, dir)
	return dir
}

// MountTmpfs mounts a tmpfs on dir until the test's end.
func MountTmpfs(t testing.TB, dir string) {
	t.Helper()
	Sandboxed(t)
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=2G,mode=755"); err != nil {
		t.Fatalf("mount tmpfs on %s: %v", dir, err)
	}
	t.Cleanup(func() { unmount(t, dir) })
}

// ColdFile makes a file of whole mebibytes, none of which the page cache holds:
// it is written past it, with direct I/O. A test that counts what a READ brings
// into memory takes a new file for each READ, since there is no emptying the
// cache of a file once it was served: pages that were spliced to a socket stay
// for as long as the kernel keeps the packets, which may be until that CPU
// receives others.
func ColdFile(t testing.TB, path string, mebibytes int) {
	t.Helper()
	fd, err := unix.Open(path, unix.O_CREAT|unix.O_EXCL|unix.O_WRONLY|unix.O_DIRECT|unix.O_CLOEXEC, 0o644)
	if err != nil {
		t.Fatalf("making %s: %v", path, err)
	}
	defer unix.Close(fd)
	const piece = 1 << 20
	data, err := unix.Mmap(-1, 0, piece, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS) // aligned
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Munmap(data) //nolint:errcheck // the test's memory
	rand.Read(data)         //nolint:errcheck // never fails
	for i := range mebibytes {
		if n, err := unix.Pwrite(fd, data, int64(i)*piece); n != piece || err != nil {
			t.Fatalf("writing %s: %d bytes, %v", path, n, err)
		}
	}
	if err := unix.Fsync(fd); err != nil {
		t.Fatal(err)
	}
	if n := CachedPages(t, path); n != 0 {
		t.Fatalf("%d pages of %s, just written past the page cache, are in it", n, path)
	}
}

// CachedPages is how many pages of a file the page cache holds.
func CachedPages(t testing.TB, path string) int {
	t.Helper()
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	var cs unix.Cachestat_t
	if err := unix.Cachestat(uint(fd), new(unix.CachestatRange), &cs, 0); err != nil {
		t.Fatalf("cachestat of %s: %v", path, err)
	}
	return int(cs.Cache)
}

// exportDir makes the directory inside a work directory that is exported.
func exportDir(t testing.TB, dir string) string {
	t.Helper()
	dir = filepath.Join(dir, "export")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

// loop makes an image, a file system in it with mkfs, and mounts it on dir.
func loop(t testing.TB, dir string, size int64, sector int, mkfs ...string) {
	t.Helper()
	Sandboxed(t)
	Commands(t, mkfs[0], "losetup")
	image := dir + ".img"
	if err := errors.Join(os.WriteFile(image, nil, 0o600), os.Truncate(image, size)); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("losetup", "--find", "--show", "--sector-size", fmt.Sprint(sector), image).CombinedOutput()
	if err != nil {
		Skip(t, "no loop device with sectors of %d bytes: %v: %s", sector, err, out)
	}
	device := strings.TrimSpace(string(out))
	// The device keeps the image; without a name, it goes with the device.
	if err := os.Remove(image); err != nil {
		t.Fatal(err)
	}
	detach := func() error { return exec.Command("losetup", "--detach", device).Run() }
	if out, err := exec.Command(mkfs[0], append(mkfs[1:], device)...).CombinedOutput(); err != nil {
		detach()
		t.Fatalf("%v: %v: %s", mkfs, err, out)
	}
	fs := strings.TrimPrefix(mkfs[0], "mkfs.")
	if err := unix.Mount(device, dir, fs, 0, ""); err != nil {
		detach()
		t.Fatalf("mount %s on %s: %v", device, dir, err)
	}
	t.Cleanup(func() { unmount(t, dir) })
	// Detaching a device in use marks it to go with its last user.
	if err := detach(); err != nil {
		t.Fatalf("detach %s: %v", device, err)
	}
}

// unmount takes a file system away, lazily if something still holds it.
func unmount(t testing.TB, dir string) {
	if err := unix.Unmount(dir, 0); err != nil {
		if err2 := unix.Unmount(dir, unix.MNT_DETACH); err2 != nil {
			t.Errorf("unmount %s: %v", dir, err2)
			return
		}
		t.Errorf("%s was still in use at the test's end: %v", dir, err)
	}
}

// Freeze stops a file system: what would change it waits until thaw, which the
// test's end calls at the latest.
func Freeze(t testing.TB, dir string) (thaw func()) {
	t.Helper()
	Sandboxed(t)
	const freeze, unfreeze = 0xC0045877, 0xC0045878 // FIFREEZE and FITHAW of linux/fs.h
	f, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.IoctlSetInt(int(f.Fd()), freeze, 0); err != nil {
		t.Fatalf("freeze %s: %v", dir, err)
	}
	thaw = sync.OnceFunc(func() {
		if err := unix.IoctlSetInt(int(f.Fd()), unfreeze, 0); err != nil {
			t.Errorf("thaw %s: %v", dir, err)
		}
		f.Close()
	})
	t.Cleanup(thaw)
	return thaw
}
