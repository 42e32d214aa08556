// Plan of this file: checks of attributes: special files, times, modes and
// owners. They need root.

package fscheck

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// nodes makes one special file of each kind; the FIFO must carry bytes.
func nodes(r *run) error {
	dir := r.path("nodes")
	want := []struct {
		name string
		mode uint32
		dev  uint64
	}{
		{"fifo", unix.S_IFIFO | 0o644, 0},
		{"sock", unix.S_IFSOCK | 0o600, 0},
		{"char", unix.S_IFCHR | 0o660, unix.Mkdev(1, 3)},
		{"block", unix.S_IFBLK | 0o640, unix.Mkdev(8, 17)},
		{"char-large", unix.S_IFCHR | 0o666, unix.Mkdev(511, 1<<18-1)}, // the largest that XFS can store
	}
	if r.phase("write") {
		if _, err := r.emptyDir("nodes"); err != nil {
			return err
		}
		old := unix.Umask(0)
		defer unix.Umask(old)
		for _, w := range want {
			if err := unix.Mknod(filepath.Join(dir, w.name), w.mode, int(w.dev)); err != nil {
				return fmt.Errorf("mknod %s: %w", w.name, err)
			}
		}
		if err := throughFIFO(filepath.Join(dir, "fifo")); err != nil {
			return err
		}
	}
	if !r.phase("verify") {
		return nil
	}
	for _, w := range want {
		var st unix.Stat_t
		if err := unix.Lstat(filepath.Join(dir, w.name), &st); err != nil {
			return fmt.Errorf("stat %s: %w", w.name, err)
		}
		if st.Mode != w.mode || st.Rdev != w.dev {
			return fmt.Errorf("%s: mode %o device %#x, want %o %#x", w.name, st.Mode, st.Rdev, w.mode, w.dev)
		}
	}
	r.logf("nodes %d", len(want))
	return nil
}

func throughFIFO(name string) error {
	f, err := os.OpenFile(name, os.O_RDWR, 0) // both ends, so that open does not wait
	if err != nil {
		return err
	}
	defer f.Close()
	if _, err := f.WriteString("through"); err != nil {
		return err
	}
	b := make([]byte, 16)
	n, err := f.Read(b)
	if string(b[:n]) != "through" {
		return fmt.Errorf("FIFO gave %q, %v", b[:n], err)
	}
	return nil
}

// times sets times, modes and owners and reads them back; what the server's
// clock sets must lie near this machine's.
func times(r *run) error {
	dir := r.path("times")
	want := []struct {
		name         string
		atime, mtime time.Time
		mode         uint32
		uid, gid     int
	}{
		{"epoch", time.Unix(0, 0), time.Unix(1, 999999999), 0o600, 0, 0},
		{"billennium", time.Unix(1e9, 123456789), time.Unix(1e9, 1), 0o4755, 1001, 1002},
		{"past-2038", time.Unix(1<<31+5, 500000001), time.Unix(4102444800, 7), 0o2750, 70000, 70001},
		{"large-ids", time.Unix(1500000000, 0), time.Unix(1500000001, 42), 0o1777, 4000000000, 4000000001},
	}
	if r.phase("write") {
		if _, err := r.emptyDir("times"); err != nil {
			return err
		}
		for _, w := range want {
			name := filepath.Join(dir, w.name)
			err := errors.Join(
				os.WriteFile(name, []byte("x"), 0o600),
				os.Lchown(name, w.uid, w.gid),
				unix.Chmod(name, w.mode), // after chown, which clears set-id bits
				os.Chtimes(name, w.atime, w.mtime),
			)
			if err != nil {
				return err
			}
		}
		if err := serverTime(dir); err != nil {
			return err
		}
	}
	if !r.phase("verify") {
		return nil
	}
	for _, w := range want {
		var st unix.Stat_t
		if err := unix.Lstat(filepath.Join(dir, w.name), &st); err != nil {
			return err
		}
		a, m := time.Unix(st.Atim.Unix()), time.Unix(st.Mtim.Unix())
		if !a.Equal(w.atime) || !m.Equal(w.mtime) {
			return fmt.Errorf("%s: times %d.%09d %d.%09d, want %d.%09d %d.%09d", w.name, a.Unix(), a.Nanosecond(),
				m.Unix(), m.Nanosecond(), w.atime.Unix(), w.atime.Nanosecond(), w.mtime.Unix(), w.mtime.Nanosecond())
		}
		if st.Mode&0o7777 != w.mode || int(st.Uid) != w.uid || int(st.Gid) != w.gid {
			return fmt.Errorf("%s: mode %o owner %d:%d, want %o %d:%d", w.name, st.Mode&0o7777, st.Uid, st.Gid, w.mode, w.uid, w.gid)
		}
	}
	r.logf("times %d files", len(want))
	return nil
}

// serverTime checks the times that are not named by the caller: now, omitted,
// and those that follow from a change.
func serverTime(dir string) error {
	name := filepath.Join(dir, "now")
	if err := os.WriteFile(name, []byte("x"), 0o600); err != nil {
		return err
	}
	old := time.Unix(1e9, 55)
	if err := os.Chtimes(name, old, old); err != nil {
		return err
	}
	utimes := func(a, m int64) error {
		return unix.UtimesNanoAt(unix.AT_FDCWD, name, []unix.Timespec{{Nsec: a}, {Nsec: m}}, 0)
	}
	stat := func(path string) (a, m time.Time, err error) {
		var st unix.Stat_t
		err = unix.Lstat(path, &st)
		return time.Unix(st.Atim.Unix()), time.Unix(st.Mtim.Unix()), err
	}
	near := func(t time.Time) bool { return time.Since(t).Abs() < time.Minute }
	if err := utimes(unix.UTIME_NOW, unix.UTIME_OMIT); err != nil {
		return err
	}
	if a, m, err := stat(name); err != nil || !near(a) || !m.Equal(old) {
		return fmt.Errorf("access time now, modification time kept: %v %v %v", a, m, err)
	}
	if err := utimes(unix.UTIME_OMIT, unix.UTIME_NOW); err != nil {
		return err
	}
	if _, m, err := stat(name); err != nil || !near(m) {
		return fmt.Errorf("modification time now: %v %v", m, err)
	}
	// A new name changes its directory's modification time.
	if err := os.Chtimes(dir, old, old); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "touch"), nil, 0o600); err != nil {
		return err
	}
	if _, m, err := stat(dir); err != nil || !near(m) {
		return fmt.Errorf("directory's modification time after a new name: %v %v", m, err)
	}
	return nil
}
