// Disks that fail or are full in the middle of a WRITE: a loop device over a
// FUSE file that refuses to store blocks with a mark in them, and a file system
// with hardly any room.

package dataio

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"sluice/pkg/filecache"
)

// mark is what a failing disk will not store.
var mark = bytes.Repeat([]byte("\xa5never\x5a"), 8)

// failingDisk is a FUSE file: its bytes are another file's, and while bad is
// set, a write with a mark in it fails with EIO.
type failingDisk struct {
	fs.Inode
	store *os.File
	size  int64
	bad   atomic.Bool
	fails atomic.Int64
}

func (d *failingDisk) Getattr(_ context.Context, _ fs.FileHandle, out *fuse.AttrOut) syscall.Errno {
	out.Mode, out.Size = unix.S_IFREG|0o600, uint64(d.size)
	return 0
}

func (d *failingDisk) Open(context.Context, uint32) (fs.FileHandle, uint32, syscall.Errno) {
	return nil, 0, 0
}

func (d *failingDisk) Read(_ context.Context, _ fs.FileHandle, b []byte, off int64) (fuse.ReadResult, syscall.Errno) {
	n, _ := d.store.ReadAt(b, off)
	return fuse.ReadResultData(b[:n]), 0
}

func (d *failingDisk) Write(_ context.Context, _ fs.FileHandle, b []byte, off int64) (uint32, syscall.Errno) {
	if d.bad.Load() && bytes.Contains(b, mark) {
		d.fails.Add(1)
		return 0, syscall.EIO
	}
	n, err := d.store.WriteAt(b, off)
	return uint32(n), fs.ToErrno(err)
}

func (d *failingDisk) Fsync(context.Context, fs.FileHandle, uint32) syscall.Errno { return 0 }

type failingRoot struct {
	fs.Inode
	disk *failingDisk
}

func (r *failingRoot) OnAdd(ctx context.Context) {
	r.AddChild("disk", r.NewPersistentInode(ctx, r.disk, fs.StableAttr{Mode: unix.S_IFREG, Ino: 2}), false)
}

// mountDisk makes a file system on the image and mounts it at a directory.
func mountDisk(t *testing.T, img, kind string, mkfs ...string) (at string) {
	t.Helper()
	run(t, mkfs[0], append(mkfs[1:], img)...)
	dev := run(t, "losetup", "--find", "--show", img)
	// The loop driver takes a request that its file took in part for done, so
	// requests must not be larger than the FUSE file takes at once.
	if err := os.WriteFile("/sys/block/"+filepath.Base(dev)+"/queue/max_sectors_kb", []byte("64"), 0); err != nil {
		t.Error(err)
	}
	at = t.TempDir()
	err := unix.Mount(dev, at, kind, 0, "")
	exec.Command("losetup", "--detach", dev).Run() //nolint:errcheck // when mounted, it goes with the last use of it
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Unmount(at, 0) })
	return at
}

func failingFS(t *testing.T, kind string, mkfs ...string) (*failingDisk, string) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root can mount")
	}
	store, err := os.Create(filepath.Join(dirOn(t, "tmpfs"), "store"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	d := &failingDisk{store: store, size: 340 << 20}
	if err := store.Truncate(d.size); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	srv, err := fs.Mount(dir, &failingRoot{disk: d}, &fs.Options{MountOptions: fuse.MountOptions{DirectMountStrict: true, FsName: "failing", Name: "failing"}})
	if err != nil {
		t.Fatalf("%v (needs root and /dev/fuse)", err)
	}
	t.Cleanup(func() {
		if err := srv.Unmount(); err != nil {
			unix.Unmount(dir, unix.MNT_DETACH)
		}
	})
	return d, mountDisk(t, filepath.Join(dir, "disk"), kind, mkfs...)
}

// TestDiskFails: EIO in the head, the middle or the tail of a split WRITE, for
// each mode and stable_how. What was counted is in the file after a COMMIT that
// returns the WRITE's verifier; what was lost is told by EIO or by another one.
func TestDiskFails(t *testing.T) {
	for kind, mkfs := range map[string][]string{
		"ext4": {"mkfs.ext4", "-q", "-b", "4096", "-E", "nodiscard,lazy_itable_init=1"},
		"xfs":  {"mkfs.xfs", "-q", "-f", "-K"},
	} {
		t.Run(kind, func(t *testing.T) {
			d, at := failingFS(t, kind, mkfs...)
			path := filepath.Join(at, "f")
			const size, off, head, middle = 256 << 10, 1000, 3096, 160 << 10
			for where, place := range map[string]int{"head": 100, "middle": 50_000, "tail": head + middle + 50} {
				for mode := Buffered; mode < Auto; mode++ {
					for stable := range uint32(3) {
						name := fmt.Sprintf("%s, %v, stable_how %d", where, mode, stable)
						d.bad.Store(false)
						// Each time a file of its own, all there: only data is written.
						old := bytes.Repeat([]byte("o"), size)
						os.Remove(path)
						if err := os.WriteFile(path, old, 0o600); err != nil {
							t.Fatal(err)
						}
						dropCache(t, path)
						r := newRig(t, Config{}, filecache.Config{})
						f := r.file(path)
						data := bytes.Repeat([]byte("n"), head+middle+500)
						copy(data[place:], mark)
						d.fails.Store(0)
						d.bad.Store(true)
						n, committed, verf, err := r.e.Write(r.th, &WriteReq{File: f, Offset: off, Data: data, Mode: mode, Stable: stable})
						changed := r.e.Verifier() != verf
						most := len(data)
						if mode == Direct {
							most = map[string]int{"head": 0, "middle": head, "tail": head + middle}[where]
							if where != "middle" && stable == Unstable {
								most = len(data) // it fails when it is written out
							}
						} else if stable != Unstable {
							most = 0
						}
						if n > most || err == nil && (n == 0 || committed != stable) || err != nil && (n != 0 || err != unix.EIO) {
							t.Errorf("%s: %d bytes of at most %d counted, %v", name, n, most, err)
						}
						if n < most {
							t.Errorf("%s: %d bytes counted, and %d were written", name, n, most)
						}
						if stable != Unstable && where != "middle" && !changed {
							t.Errorf("%s: a sync failed, and the verifier is the same", name)
						}
						v, cerr := r.e.Commit(r.th, f, 0, 0)
						if d.fails.Load() == 0 {
							t.Fatalf("%s: the disk did not fail", name)
						}
						lost := cerr != nil || v != verf || stable != Unstable && n == 0
						if cerr != nil && (cerr != unix.EIO || r.e.Verifier() == verf) {
							t.Errorf("%s: COMMIT: %v", name, cerr)
						}
						if stable == Unstable && n > place && !lost {
							t.Errorf("%s: lost, and COMMIT says that all is well", name)
						}
						// What is promised is on the disk.
						d.bad.Store(false)
						dropped(path)
						got, rerr := os.ReadFile(path)
						if rerr != nil {
							t.Fatal(rerr)
						}
						if promised := n; !lost || stable != Unstable {
							if !bytes.Equal(got[off:off+promised], data[:promised]) {
								t.Errorf("%s: of %d bytes promised the %dth is wrong", name, promised, diff(got[off:], data[:promised]))
							}
						}
						if !bytes.Equal(got[:off], old[:off]) || !bytes.Equal(got[off+len(data):], old[off+len(data):]) {
							t.Errorf("%s: other bytes have changed", name)
						}
						// The client sends it again.
						n, _, verf, err = r.e.Write(r.th, &WriteReq{File: f, Offset: off, Data: data, Mode: mode})
						if v, cerr := r.e.Commit(r.th, f, 0, 0); n != len(data) || err != nil || cerr != nil || v != verf {
							t.Errorf("%s, again: %d, %v, %v", name, n, err, cerr)
						}
						dropped(path)
						if got, _ := os.ReadFile(path); !bytes.Equal(got[off:off+len(data)], data) {
							t.Errorf("%s, again: wrong from byte %d", name, diff(got[off:], data))
						}
						if st := r.e.Stats(); st.DirectBuffers.InUse != 0 {
							t.Errorf("%s: buffers in use", name)
						}
					}
				}
			}
		})
	}
}

// TestDiskFull: ENOSPC in the middle of split WRITEs at the end of a file.
func TestDiskFull(t *testing.T) {
	for _, mode := range []Mode{Buffered, DontCache, Direct} {
		t.Run(mode.String(), func(t *testing.T) {
			img := filepath.Join(dirOn(t, "tmpfs"), "small.img")
			if err := os.WriteFile(img, nil, 0o600); err != nil {
				t.Fatal(err)
			}
			if err := os.Truncate(img, 6<<20); err != nil {
				t.Fatal(err)
			}
			at := mountDisk(t, img, "ext4", "mkfs.ext4", "-q", "-b", "4096", "-O", "^has_journal")
			path := filepath.Join(at, "f")
			if err := os.WriteFile(path, nil, 0o600); err != nil {
				t.Fatal(err)
			}
			r := newRig(t, Config{}, filecache.Config{})
			f := r.file(path)
			var model []byte
			full, verf := 0, r.e.Verifier()
			for i := 0; full < 3; i++ {
				if i > 200 {
					t.Fatal("never full")
				}
				data := noise(int64(i), 300_001)
				n, _, v, err := r.e.Write(r.th, &WriteReq{File: f, Offset: uint64(len(model)), Data: data, Mode: mode, Stable: uint32(i % 3)})
				if v != verf {
					t.Errorf("the verifier changed at %d bytes, and nothing was lost", len(model))
					verf = v
				}
				if err != nil {
					if err != unix.ENOSPC || n != 0 {
						t.Fatal(n, err)
					}
					full++
				}
				if n < len(data) && i%3 != 0 {
					verf = r.e.Verifier() // the error of a stable WRITE may be that of its sync, so it may change
				}
				model = append(model, data[:n]...)
			}
			if _, err := r.e.Commit(r.th, f, 0, 0); err != nil {
				t.Error(err)
			}
			if len(model) < 3<<20 {
				t.Errorf("full after %d bytes", len(model))
			}
			dropCache(t, path)
			got, err := os.ReadFile(path)
			if err != nil || len(got) < len(model) || !bytes.Equal(got[:len(model)], model) {
				t.Errorf("%d bytes of %d counted are there, wrong from byte %d: %v", len(got), len(model), diff(got, model), err)
			}
		})
	}
}

// dropped empties the page cache of a file as far as it can be.
func dropped(path string) {
	f, err := os.Open(path)
	if err != nil {
		return
	}
	defer f.Close()
	f.Sync()                                            //nolint:errcheck // it may have failed for good
	unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED) //nolint:errcheck // advice
}
