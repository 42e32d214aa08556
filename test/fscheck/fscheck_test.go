// Plan of this file: the checks pass on a local file system, and each notices
// damage. Damage is done between a check's two phases, or for checks of one
// phase by a saboteur that overwrites bytes while the check runs.

package fscheck

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

type options = map[string]string

func with(o options, key, value string) options {
	c := options{key: value}
	for k, v := range o {
		c[k] = v
	}
	return c
}

func needRoot(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("device nodes and foreign owners need root")
	}
}

func TestLocal(t *testing.T) {
	for _, tc := range []struct {
		name string
		root bool
		opts options
	}{
		{"bigfile", false, options{"size": "3000001"}},
		{"exclusive", false, nil},
		{"fsx", false, options{"ops": "2000", "mmap": "1"}},
		{"fsx", false, options{"ops": "500", "seed": "7"}},
		{"links", false, nil},
		{"load", false, options{"seconds": "1", "names": "1"}},
		{"lock", false, nil},
		{"lock", false, options{"kind": "flock", "type": "read"}},
		{"many", false, options{"phase": "create", "files": "300"}},
		{"nodes", true, nil},
		{"openfiles", false, nil},
		{"randread", false, options{"reads": "300"}},
		{"sparse", false, options{"limit": "1099511627776"}},
		{"times", true, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if tc.root {
				needRoot(t)
			}
			if err := Run(tc.name, t.TempDir(), tc.opts, t.Output()); err != nil {
				t.Error(err)
			}
		})
	}
}

func Test42(t *testing.T) {
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	at := func(name string) func(dir string) string {
		return func(dir string) string { return filepath.Join(dir, "v42", name) }
	}
	clone := "0"
	if hasClones(t) {
		clone = "1"
	}
	for _, tc := range []struct {
		name   string
		file   func(dir string) string
		damage func(file string) error
		want   string
	}{
		{"nothing", at(""), func(string) error { return nil }, ""},
		{"byte in the hole", at("punched"), writeByte(holeStart+9000, 1), "wrong bytes"},
		{"no hole", at("punched"), writeByte(holeStart+9000, 0), "looked for data behind the hole"},
		{"byte of a copy", at("copied"), writeByte(12, 0), "wrong bytes"},
		{"byte between copies", at("copied"), writeByte(150_000, 1), "wrong bytes"},
		{"byte of the source", at("whole"), writeByte(wholeSize-1, 0), "wrong bytes"},
		{"allocation cut", at("allocated"), func(f string) error { return os.Truncate(f, allocStart) }, "size 1048576"},
		{"allocation given back", at("allocated"), func(f string) error {
			return errors.Join(os.Truncate(f, 4), os.Truncate(f, allocEnd))
		}, "space"},
		{"value", at("attributes"), func(f string) error { return unix.Setxattr(f, "user.text", []byte("secone"), 0) }, "user.text"},
		{"value of a directory", at("plain"), func(f string) error { return unix.Setxattr(f, "user.empty", []byte("x"), 0) }, "user.empty"},
		{"attribute gone", at("attributes"), func(f string) error { return unix.Removexattr(f, "user.empty") }, "user.binary user.text"},
		{"attribute more", at("plain"), func(f string) error { return unix.Setxattr(f, "user.more", nil, 0) }, "user.more"},
		{"umask in spite of the ACL", at("inherit/file"), func(f string) error { return os.Chmod(f, 0o600) }, "inherit/file has mode"},
		{"no umask", at("plain/dir"), func(f string) error { return os.Chmod(f, 0o777) }, "plain/dir has mode"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dir := t.TempDir()
			must(Run("v42", dir, options{"phase": "prepare"}, io.Discard))
			must(Run("v42", dir, options{"phase": "write", "clone": clone}, io.Discard))
			must(tc.damage(tc.file(dir)))
			err := Run("v42", dir, options{"phase": "verify", "clone": clone}, io.Discard)
			if tc.want == "" {
				must(err)
				return
			}
			expect(t, err, tc.want)
		})
	}
}

// hasClones tells whether the temporary directory's file system can clone.
func hasClones(t *testing.T) bool {
	f, err := os.Create(filepath.Join(t.TempDir(), "from"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	to, err := os.Create(f.Name() + "-to")
	if err != nil {
		t.Fatal(err)
	}
	defer to.Close()
	return unix.IoctlFileClone(int(to.Fd()), int(f.Fd())) == nil
}

// writeByte changes one byte of a file.
func writeByte(off int64, b byte) func(file string) error {
	return func(file string) error {
		f, err := os.OpenFile(file, os.O_WRONLY, 0)
		if err != nil {
			return err
		}
		_, err = f.WriteAt([]byte{b}, off)
		return errors.Join(err, f.Close())
	}
}

// TestLock has one lock in another's way.
func TestLock(t *testing.T) {
	dir := t.TempDir()
	until := filepath.Join(t.TempDir(), "until")
	held := make(chan error, 1)
	go func() {
		held <- Run("lock", dir, options{"kind": "ofd", "start": "5", "len": "5", "until": until}, io.Discard)
	}()
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); time.Sleep(time.Millisecond) {
		if _, err := os.Stat(until + ".ready"); err == nil {
			break
		}
	}
	for _, o := range []options{
		{"want": "refused", "start": "9", "len": "1"},
		{"want": "refused", "start": "9", "len": "1", "type": "read", "kind": "ofd"},
		{"start": "10"},
		{"kind": "flock"}, // another kind of lock on a local file system
	} {
		if err := Run("lock", dir, o, t.Output()); err != nil {
			t.Errorf("%v: %v", o, err)
		}
	}
	expect(t, Run("lock", dir, options{"start": "9"}, io.Discard), "refused")
	expect(t, Run("lock", dir, options{"start": "10", "want": "refused"}, io.Discard), "granted")
	if err := os.WriteFile(until, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := <-held; err != nil {
		t.Error(err)
	}
}

func TestReadLoad(t *testing.T) {
	dir := t.TempDir()
	if err := Run("randread", dir, options{"phase": "write"}, io.Discard); err != nil {
		t.Fatal(err)
	}
	if err := Run("readload", dir, options{"seconds": "1", "buffered": "1"}, t.Output()); err != nil {
		t.Error(err)
	}
	flip(t, filepath.Join(dir, "randread1"), 3<<20)
	err := Run("readload", dir, options{"seconds": "1", "buffered": "1"}, t.Output())
	expect(t, err, "wrong bytes")
}

// flip changes one byte of a file and keeps its times.
func flip(t *testing.T, name string, off int64) {
	t.Helper()
	f, err := os.OpenFile(name, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 1)
	if _, err := f.ReadAt(b, off); err != nil {
		t.Fatal(err)
	}
	b[0] ^= 1
	if _, err := f.WriteAt(b, off); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(name, st.ModTime(), st.ModTime()); err != nil {
		t.Fatal(err)
	}
}

func expect(t *testing.T, err error, text string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), text) {
		t.Errorf("damage gave error %v, want one that says %q", err, text)
	}
}

func TestDamageBetweenPhases(t *testing.T) {
	must := func(t *testing.T, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, tc := range []struct {
		name, check string
		opts        options
		verify      string // the phase after the damage
		damage      func(t *testing.T, dir string)
		want        string
	}{
		{"byte of a large file", "bigfile", options{"size": "3000001"}, "verify",
			func(t *testing.T, dir string) { flip(t, dir+"/bigfile", 3000000) }, "offset 3000000"},
		{"large file cut", "bigfile", options{"size": "3000001"}, "verify",
			func(t *testing.T, dir string) { must(t, os.Truncate(dir+"/bigfile", 3000000)) }, "ends at 3000000"},
		{"large file grown", "bigfile", options{"size": "3000001"}, "verify",
			func(t *testing.T, dir string) { must(t, os.Truncate(dir+"/bigfile", 3000002)) }, "offset 3000001"},
		{"byte in a hole", "randread", options{"reads": "300"}, "verify",
			func(t *testing.T, dir string) { flip(t, dir+"/randread1", randreadSize-2) }, "wrong bytes"},
		{"file longer", "randread", options{"reads": "300"}, "verify",
			func(t *testing.T, dir string) { must(t, os.Truncate(dir+"/randread1", randreadSize+1)) }, "want 6292693"},
		{"byte past 4 GiB", "sparse", nil, "verify",
			func(t *testing.T, dir string) { flip(t, dir+"/sparse", 1<<32+9005) }, "offset 4294976301"},
		{"byte before 2 GiB", "sparse", nil, "verify",
			func(t *testing.T, dir string) { flip(t, dir+"/sparse", 1<<31-1) }, "offset 2147483647"},
		{"name gone", "many", options{"files": "200"}, "list",
			func(t *testing.T, dir string) { must(t, os.Remove(dir+"/many/n000150")) }, "n000150 is missing"},
		{"extra name", "many", options{"files": "200"}, "list",
			func(t *testing.T, dir string) { must(t, os.WriteFile(dir+"/many/extra", nil, 0o600)) }, "201 names"},
		{"other file's attributes", "many", options{"files": "200"}, "list",
			func(t *testing.T, dir string) { must(t, os.Rename(dir+"/many/n000050", dir+"/many/n000100")) }, "n000050 is missing"},
		{"size of one of many", "many", options{"files": "200"}, "list",
			func(t *testing.T, dir string) { must(t, os.Truncate(dir+"/many/n000150", 5)) }, "n000150 has size 5"},
		{"extra name while removing", "many", options{"files": "200"}, "remove",
			func(t *testing.T, dir string) { must(t, os.WriteFile(dir+"/many/extra", nil, 0o600)) }, "more than 200"},
		{"name gone before removing", "many", options{"files": "200"}, "remove",
			func(t *testing.T, dir string) { must(t, os.Remove(dir+"/many/n000150")) }, "199 names"},
		{"link is a copy", "links", nil, "verify", func(t *testing.T, dir string) {
			must(t, os.Remove(dir+"/links/hard3"))
			must(t, os.WriteFile(dir+"/links/hard3", []byte("linked"), 0o600))
		}, "8 links"},
		{"symbolic link's text", "links", nil, "verify", func(t *testing.T, dir string) {
			must(t, os.Remove(dir+"/links/sym-short"))
			must(t, os.Symlink("y", dir+"/links/sym-short"))
		}, `links to "y"`},
		{"nanosecond", "times", nil, "verify", func(t *testing.T, dir string) {
			must(t, os.Chtimes(dir+"/times/billennium", time.Unix(1e9, 123456789), time.Unix(1e9, 2)))
		}, "billennium: times"},
		{"set-user-ID bit", "times", nil, "verify", func(t *testing.T, dir string) {
			must(t, unix.Chmod(dir+"/times/billennium", 0o755))
		}, "billennium: mode 755"},
		{"device number", "nodes", nil, "verify", func(t *testing.T, dir string) {
			must(t, os.Remove(dir+"/nodes/char"))
			must(t, unix.Mknod(dir+"/nodes/char", unix.S_IFCHR|0o660, int(unix.Mkdev(1, 4))))
		}, "char: mode"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if tc.check == "nodes" || tc.check == "times" {
				needRoot(t)
			}
			dir, phase := t.TempDir(), "write"
			if tc.check == "many" {
				phase = "create"
			}
			must(t, Run(tc.check, dir, with(tc.opts, "phase", phase), io.Discard))
			tc.damage(t, dir)
			expect(t, Run(tc.check, dir, with(tc.opts, "phase", tc.verify), io.Discard), tc.want)
		})
	}
}

func TestDamageMeanwhile(t *testing.T) {
	for _, tc := range []struct {
		check string
		opts  options
		want  string
	}{
		{"exclusive", nil, "holds"},
		{"fsx", options{"ops": "5000"}, "wrong bytes"},
		{"load", options{"seconds": "1"}, "wrong bytes"},
		{"openfiles", nil, "wrong bytes"},
	} {
		t.Run(tc.check, func(t *testing.T) {
			dir, stop, done := t.TempDir(), make(chan struct{}), make(chan struct{})
			go func() {
				defer close(done)
				for {
					select {
					case <-stop:
						return
					default:
						sabotage(dir)
					}
				}
			}()
			defer func() { close(stop); <-done }()
			// Where the saboteur comes at the wrong moment, another try is due.
			var err error
			for range 50 {
				if err = Run(tc.check, dir, tc.opts, io.Discard); err != nil {
					break
				}
			}
			expect(t, err, tc.want)
		})
	}
}

// sabotage overwrites a byte in each file, without changing its size.
func sabotage(dir string) {
	filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return nil
		}
		f, err := os.OpenFile(path, os.O_WRONLY, 0)
		if err != nil {
			return nil
		}
		defer f.Close()
		if st, err := f.Stat(); err == nil && st.Size() > 0 {
			f.WriteAt([]byte{0}, 0)
		}
		return nil
	})
}

func TestCompareNotices(t *testing.T) {
	for _, tc := range []struct {
		name   string
		damage func(dir string) error
		want   string
	}{
		{"nothing", func(string) error { return nil }, ""},
		{"byte", func(dir string) error {
			old := time.Unix(1e9, 5)
			if err := os.WriteFile(dir+"/d/f", []byte("contenT"), 0o644); err != nil {
				return err
			}
			return os.Chtimes(dir+"/d/f", old, old)
		}, "wrong bytes"},
		{"time", func(dir string) error { return os.Chtimes(dir+"/d/f", time.Unix(1e9, 6), time.Unix(1e9, 6)) }, "modified"},
		{"mode", func(dir string) error { return os.Chmod(dir+"/d", 0o700) }, "mode"},
		{"missing", func(dir string) error { return os.Remove(dir + "/d/f") }, "no such file"},
		{"extra", func(dir string) error { return os.Mkdir(dir+"/d/g", 0o755) }, "extra name d/g"},
		{"link", func(dir string) error {
			var st unix.Stat_t
			if err := unix.Lstat(dir+"/l", &st); err != nil {
				return err
			}
			if err := os.Remove(dir + "/l"); err != nil {
				return err
			}
			if err := os.Symlink("d/g", dir+"/l"); err != nil {
				return err
			}
			return unix.UtimesNanoAt(unix.AT_FDCWD, dir+"/l", []unix.Timespec{st.Atim, st.Mtim}, unix.AT_SYMLINK_NOFOLLOW)
		}, "links to"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			src, dst := t.TempDir(), t.TempDir()
			old := []unix.Timespec{unix.NsecToTimespec(1e18 + 5), unix.NsecToTimespec(1e18 + 5)}
			for _, dir := range []string{src, dst} {
				if err := os.Mkdir(dir+"/d", 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(dir+"/d/f", []byte("content"), 0o644); err != nil {
					t.Fatal(err)
				}
				if err := os.Symlink("d/f", dir+"/l"); err != nil {
					t.Fatal(err)
				}
				for _, name := range []string{"/l", "/d/f"} {
					if err := unix.UtimesNanoAt(unix.AT_FDCWD, dir+name, old, unix.AT_SYMLINK_NOFOLLOW); err != nil {
						t.Fatal(err)
					}
				}
			}
			if err := tc.damage(dst); err != nil {
				t.Fatal(err)
			}
			err := Run("compare", dst, options{"src": src}, io.Discard)
			if tc.want == "" && err == nil {
				return
			}
			expect(t, err, tc.want)
		})
	}
}

func TestSteps(t *testing.T) {
	for _, tc := range []struct{ steps, want string }{
		{"create 0600 f\nholds f new\nmode f 0600\nmkdir 0700 f = EEXIST\nrmdir f = ENOTDIR|EPERM\nlist g = ENOENT", ""},
		{"create 0600 f\nholds f old", `holds "new"`},
		{"create 0600 f = EROFS", "create 0600 f: ok, want EROFS"},
		{"stat f", "stat f: ENOENT, want ok"},
		{"frob f", "is not a step"},
		{"read", "is not a step"},
		{"", "empty"},
	} {
		t.Run(tc.steps, func(t *testing.T) {
			here, err := os.Getwd()
			if err != nil {
				t.Fatal(err)
			}
			defer os.Chdir(here)
			err = Run("steps", t.TempDir(), options{"steps": tc.steps}, io.Discard)
			if tc.want == "" && err == nil {
				return
			}
			expect(t, err, tc.want)
		})
	}
}

func TestUnknown(t *testing.T) {
	expect(t, Run("nonsense", t.TempDir(), nil, io.Discard), "bigfile: a large file")
	expect(t, Run("bigfile", t.TempDir(), options{"size": "x"}, io.Discard), "option size")
}
