// File systems to measure on, and the files in them.

package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"sluice/pkg/bench"
	"sluice/test/measure"
)

// dataDir, below the working directory, holds what is exported.
const dataDir = "data"

// disk is a file system.
type disk struct {
	name string // "ext4" or "xfs"
	dir  string // exported
	what string // for the report
	sets map[string]*dataset
}

// dataset is a directory of equal files.
type dataset struct {
	disk  *disk
	dir   string // below the disk's directory
	files []string
	each  int64 // bytes
}

func (s *dataset) bytes() int64 { return s.each * int64(len(s.files)) }

// disk returns the file system of that name, made when it is first asked for.
// ext4 is the disk's own, where the working directory is; XFS lies in an image
// on it, over a loop device that does direct I/O, so that nothing is cached twice.
func (l *lab) disk(name string) (*disk, error) {
	if d := l.disks[name]; d != nil {
		return d, nil
	}
	d := &disk{name: name, dir: filepath.Join(l.o.work, dataDir, name), sets: map[string]*dataset{}}
	if err := os.MkdirAll(d.dir, 0755); err != nil {
		return nil, err
	}
	switch name {
	case "ext4":
		var st unix.Statfs_t
		if err := unix.Statfs(d.dir, &st); err != nil {
			return nil, err
		}
		if st.Type != unix.EXT4_SUPER_MAGIC {
			if err := mountImage(d.dir, 5*l.o.memory, "ext4", "mkfs.ext4", "-q", "-F"); err != nil {
				return nil, err
			}
			d.what = "in an image, over a loop device with direct I/O"
			break
		}
		d.what = "the disk's own"
	case "xfs":
		if err := mountImage(d.dir, 5*l.o.memory, "xfs", "mkfs.xfs", "-q", "-f"); err != nil {
			return nil, err
		}
		d.what = "in an image on the disk's file system, over a loop device with direct I/O"
	}
	d.what = fmt.Sprintf("%s (%s); the kernel reads ahead %d KiB at most", measure.FileSystem(d.dir), d.what, measure.ReadAhead(d.dir))
	l.disks[name] = d
	return d, nil
}

// mountImage makes an image of at least 320 MiB, which is what XFS asks for, a
// file system in it, and mounts it. The image has no name any more and the
// loop device frees itself, so that both go with the mount, and the mount with
// this program's namespace.
func mountImage(dir string, size int64, fs string, mkfs ...string) (err error) {
	image := dir + ".img"
	f, err := os.Create(image)
	if err != nil {
		return err
	}
	// Space set aside now is not searched for while something is measured.
	err = errors.Join(unix.Fallocate(int(f.Fd()), 0, 0, max(size, 320<<20)), f.Close())
	defer os.Remove(image)
	if err != nil {
		return fmt.Errorf("an image of %d MiB for %s: %w", size>>20, fs, err)
	}
	out, err := exec.Command("losetup", "--find", "--show", "--direct-io=on", image).CombinedOutput()
	if err != nil {
		return fmt.Errorf("losetup: %w: %s", err, out)
	}
	device := strings.TrimSpace(string(out))
	detach := func() error { // one in use goes with its last user
		if out, err := exec.Command("losetup", "--detach", device).CombinedOutput(); err != nil {
			return fmt.Errorf("losetup --detach %s: %w: %s", device, err, out)
		}
		return nil
	}
	err = func() error {
		dio, err := os.ReadFile(filepath.Join("/sys/block", filepath.Base(device), "loop/dio"))
		if err != nil {
			return err
		}
		if strings.TrimSpace(string(dio)) != "1" {
			return fmt.Errorf("%s does no direct I/O on %s, so that data would be cached twice; name another directory with -dir", device, image)
		}
		if out, err := exec.Command(mkfs[0], append(mkfs[1:], device)...).CombinedOutput(); err != nil {
			return fmt.Errorf("%s: %w: %s", mkfs[0], err, out)
		}
		if err := unix.Mount(device, dir, fs, 0, ""); err != nil {
			return fmt.Errorf("mount %s: %w", fs, err)
		}
		return nil
	}()
	return errors.Join(err, detach())
}

// dataset returns a directory of n files of size bytes each, made when it is
// first asked for, past the page cache: nothing of it is charged to anybody.
func (d *disk) dataset(name string, n int, size int64) (*dataset, error) {
	if s := d.sets[name]; s != nil {
		return s, nil
	}
	s := &dataset{disk: d, dir: name, each: size &^ (fillPiece - 1)}
	if err := os.Mkdir(filepath.Join(d.dir, name), 0755); err != nil {
		return nil, err
	}
	for i := range n {
		path := filepath.Join(d.dir, name, bench.FileName(filePrefix, i))
		if err := fill(path, s.each); err != nil {
			return nil, fmt.Errorf("make %s: %w", path, err)
		}
		s.files = append(s.files, path)
	}
	d.sets[name] = s
	return s, nil
}

// fillPiece is what is written at a time, and what file sizes are multiples of.
const fillPiece = 1 << 20

// fill writes a file with direct I/O and syncs it.
func fill(path string, size int64) error {
	fd, err := unix.Open(path, unix.O_CREAT|unix.O_EXCL|unix.O_WRONLY|unix.O_DIRECT|unix.O_CLOEXEC, 0644)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if err := unix.Fallocate(fd, 0, 0, size); err != nil {
		return err
	}
	data, err := unix.Mmap(-1, 0, fillPiece, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		return err
	}
	defer unix.Munmap(data)
	for i := range data {
		data[i] = byte(i * 131)
	}
	for off := int64(0); off < size; {
		n, err := unix.Pwrite(fd, data[:min(int64(len(data)), size-off)], off)
		if err != nil {
			return err
		}
		off += int64(n)
	}
	return unix.Fsync(fd)
}

// settle writes dirty data out.
func (d *disk) settle() error {
	f, err := os.Open(d.dir)
	if err != nil {
		return err
	}
	defer f.Close()
	return unix.Syncfs(int(f.Fd()))
}

// cool writes out what is dirty and makes all files of all datasets cold, so
// that no measurement pays for the last one or is helped by it.
func (l *lab) cool() error {
	for _, d := range l.disks {
		if err := d.settle(); err != nil {
			return err
		}
		for _, s := range d.sets {
			for _, f := range s.files {
				if err := measure.Evict(f); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// cached returns how many bytes of the files are in the page cache.
func (s *dataset) cached() (int64, error) {
	var sum int64
	for _, f := range s.files {
		n, err := measure.Cached(f)
		if err != nil {
			return 0, err
		}
		sum += n
	}
	return sum, nil
}
