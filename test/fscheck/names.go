// Plan of this file: checks of names and of the objects behind them while the
// names change.

package fscheck

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// settle is how long a client may take with what it does after a close.
const settle = 30 * time.Second

// openfiles keeps files open while their names go away, move or are taken by
// other files: a descriptor stays with its file.
func openfiles(r *run) error {
	dir, err := r.emptyDir("openfiles")
	if err != nil {
		return err
	}
	const size = 70000
	content := func(seed uint64) []byte {
		b := make([]byte, size)
		pattern(b, seed, 0)
		return b
	}
	create := func(name string, seed uint64) (*os.File, error) {
		f, err := os.Create(filepath.Join(dir, name))
		if err != nil {
			return nil, err
		}
		if _, err := f.WriteAt(content(seed), 0); err != nil {
			f.Close()
			return nil, err
		}
		return f, f.Sync()
	}
	verify := func(f *os.File, what string, seed uint64) error {
		if err := Forget(f); err != nil {
			return err
		}
		got := make([]byte, size+1)
		n, err := f.ReadAt(got, 0)
		if err != io.EOF {
			return fmt.Errorf("%s: read: %w", what, err)
		}
		return differ(what, got[:n], content(seed), 0)
	}
	verifyPath := func(name string, seed uint64) error {
		got, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			return err
		}
		return differ(name, got, content(seed), 0)
	}
	files := map[string]*os.File{}
	defer func() {
		for _, f := range files {
			f.Close()
		}
	}()
	for i, name := range []string{"removed", "renamed", "replaced", "replacing", "truncated"} {
		if files[name], err = create(name, uint64(i)); err != nil {
			return err
		}
	}
	at := func(name string) string { return filepath.Join(dir, name) }
	sub := at("sub")
	err = errors.Join(
		os.Mkdir(sub, 0o755),
		os.Rename(at("renamed"), filepath.Join(sub, "moved")),
		os.Rename(sub, at("sub2")), // and the directory above it
		os.Remove(at("removed")),
		os.Rename(at("replacing"), at("replaced")),
	)
	if err != nil {
		return err
	}
	if _, err := os.Lstat(at("removed")); !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("a removed name is still there: %v", err)
	}
	err = errors.Join(
		verify(files["removed"], "removed file, still open", 0),
		verify(files["renamed"], "renamed file", 1),
		verify(files["replaced"], "replaced file, still open", 2),
		verify(files["replacing"], "file that replaced another", 3),
		verifyPath("replaced", 3),
		verifyPath("sub2/moved", 1),
	)
	if err != nil {
		return err
	}
	// A removed file can still be written and grown.
	if _, err := files["removed"].WriteAt(content(9), 0); err != nil {
		return fmt.Errorf("write to a removed file: %w", err)
	}
	if err := errors.Join(files["removed"].Sync(), verify(files["removed"], "removed file, rewritten", 9)); err != nil {
		return err
	}
	// A new file under a removed file's name is another file.
	again, err := create("removed", 10)
	if err != nil {
		return err
	}
	files["again"] = again
	if err := errors.Join(verify(files["removed"], "removed file beside its successor", 9), verifyPath("removed", 10)); err != nil {
		return err
	}
	for name, f := range files {
		if err := f.Close(); err != nil {
			return fmt.Errorf("close %s: %w", name, err)
		}
	}
	clear(files)
	// With the last descriptor, every trace of a removed file goes. A client
	// of NFSv4 closes, and removes what it had renamed, a little later.
	for end := time.Now().Add(settle); ; time.Sleep(50 * time.Millisecond) {
		err := expectNames(dir, "removed", "replaced", "sub2", "truncated")
		if err == nil || time.Now().After(end) {
			return err
		}
	}
}

func expectNames(dir string, want ...string) error {
	list, err := os.ReadDir(dir) // sorted
	if err != nil {
		return err
	}
	var got []string
	for _, e := range list {
		got = append(got, e.Name())
	}
	if strings.Join(got, " ") != strings.Join(want, " ") {
		return fmt.Errorf("%s holds %q, want %q", dir, got, want)
	}
	return nil
}

// manyName gives names of many lengths, the longest 255 bytes.
func manyName(i int64) string {
	name := fmt.Sprintf("n%06d", i)
	switch {
	case i%1000 == 999:
		return name + strings.Repeat("x", 255-len(name))
	case i%10 == 7:
		return name + strings.Repeat("-", int(i%90))
	}
	return name
}

// many makes, lists or removes a directory of many files. The phases are apart
// because caches must be dropped and mount options changed between them. A
// client changes one name in a directory at a time; via= names other mounts of
// the same directory, separated by commas, which share the work with this one,
// so that a server has several names to put on stable storage at once.
func many(r *run) error {
	files := r.int("files", 2000)
	dirs := []string{r.path("many")}
	for _, mnt := range strings.FieldsFunc(r.text("via", ""), func(c rune) bool { return c == ',' }) {
		dirs = append(dirs, filepath.Join(mnt, "many"))
	}
	switch phase := r.text("phase", ""); phase {
	case "create":
		return manyCreate(r, dirs, files)
	case "list":
		return manyList(r, dirs[0], files)
	case "remove":
		return manyRemove(r, dirs, files)
	default:
		return fmt.Errorf("phase=%q, want create, list or remove", phase)
	}
}

func manyCreate(r *run, dirs []string, files int64) error {
	if err := os.Mkdir(dirs[0], 0o755); err != nil {
		return err
	}
	err := parallel(len(dirs), func(id int) error {
		for i := int64(id); i < files; i += int64(len(dirs)) {
			if err := r.createOneOfMany(filepath.Join(dirs[id], manyName(i)), i); err != nil {
				return err
			}
		}
		return nil
	})
	r.logf("many: %d created", files)
	return err
}

func (r *run) createOneOfMany(name string, i int64) error {
	// mknod makes an empty file in one call, to client and server alike.
	if err := unix.Mknod(name, unix.S_IFREG|0o644, 0); err != nil {
		return fmt.Errorf("create %s: %w", name, err)
	}
	if i%100 != 0 {
		return nil
	}
	// Some have content, to see that a listing's attributes are each one's own.
	return r.create(name, func(f *os.File) error {
		_, err := fmt.Fprint(f, i)
		return err
	})
}

// manyList lists and compares; with plain=1 it asks for names alone, where a
// listing has nothing else and each kind would be a call.
func manyList(r *run, dir string, files int64) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	var list []string
	if r.flag("plain") {
		list, err = d.Readdirnames(-1)
	} else {
		list, err = regular(d)
	}
	if err != nil {
		return err
	}
	seen := make(map[string]bool, len(list))
	for _, name := range list {
		if seen[name] {
			return fmt.Errorf("%s is listed twice", name)
		}
		seen[name] = true
	}
	for i := range files {
		if !seen[manyName(i)] {
			return fmt.Errorf("%s is missing among %d names", manyName(i), len(list))
		}
	}
	if int64(len(list)) != files {
		return fmt.Errorf("%d names, want %d", len(list), files)
	}
	for i := int64(0); i < files; i += 50 {
		st, err := os.Lstat(filepath.Join(dir, manyName(i)))
		if err != nil {
			return err
		}
		want := 0
		if i%100 == 0 {
			want = len(fmt.Sprint(i))
		}
		if st.Size() != int64(want) {
			return fmt.Errorf("%s has size %d, want %d", manyName(i), st.Size(), want)
		}
	}
	r.logf("many: %d listed", files)
	return nil
}

// regular lists a directory of regular files.
func regular(d *os.File) (names []string, err error) {
	list, err := d.ReadDir(-1)
	for _, e := range list {
		if !e.Type().IsRegular() {
			return nil, fmt.Errorf("%s is listed as %v", e.Name(), e.Type())
		}
		names = append(names, e.Name())
	}
	return names, err
}

// manyRemove removes as rm -r does, while the listing goes on: it must end, and
// meet every name.
func manyRemove(r *run, dirs []string, files int64) error {
	d, err := os.Open(dirs[0])
	if err != nil {
		return err
	}
	defer d.Close()
	removed := int64(0)
	for {
		names, err := d.Readdirnames(500)
		if removed += int64(len(names)); removed > files {
			return fmt.Errorf("more than %d names met while removing", files)
		}
		if err := removeAll(dirs, names); err != nil {
			return err
		}
		if err == io.EOF {
			break
		}
		if err != nil {
			return err
		}
	}
	// What the walk missed because the directory changed is left to a second
	// look, as POSIX allows; nothing may remain after that.
	rest, err := os.ReadDir(dirs[0])
	if err != nil {
		return err
	}
	for _, e := range rest {
		if err := os.Remove(filepath.Join(dirs[0], e.Name())); err != nil {
			return err
		}
		removed++
	}
	if removed != files {
		return fmt.Errorf("%d names met while removing, want %d", removed, files)
	}
	r.logf("many: %d removed, %d of them at a second look", removed, len(rest))
	return os.Remove(dirs[0])
}

// removeAll removes names through several mounts of their directory at once.
func removeAll(dirs, names []string) error {
	return parallel(len(dirs), func(id int) error {
		for i := id; i < len(names); i += len(dirs) {
			if err := os.Remove(filepath.Join(dirs[id], names[i])); err != nil {
				return err
			}
		}
		return nil
	})
}

// exclusive lets workers race to create the same names with O_EXCL: each name
// has one winner, and the winner's mode and content stand.
func exclusive(r *run) error {
	dir, err := r.emptyDir("exclusive")
	if err != nil {
		return err
	}
	const rounds = 40
	var wins [rounds]atomic.Int64
	err = parallel(int(r.int("workers", 4)), func(id int) error {
		for i := range rounds {
			name := filepath.Join(dir, fmt.Sprint("x", i))
			f, err := os.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o640)
			if errors.Is(err, syscall.EEXIST) {
				continue
			}
			if err != nil {
				return err
			}
			wins[i].Add(1)
			_, err = fmt.Fprintf(f, "winner %d", id)
			if err := errors.Join(err, f.Close()); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	for i := range rounds {
		if n := wins[i].Load(); n != 1 {
			return fmt.Errorf("%d workers created x%d, want 1", n, i)
		}
		name := filepath.Join(dir, fmt.Sprint("x", i))
		b, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		if !strings.HasPrefix(string(b), "winner ") {
			return fmt.Errorf("%s holds %q", name, b)
		}
		st, err := os.Lstat(name)
		if err != nil {
			return err
		}
		if st.Mode() != 0o640 {
			return fmt.Errorf("%s has mode %v, want 0640", name, st.Mode())
		}
	}
	r.logf("exclusive %d names", rounds)
	return nil
}

// links makes hard links and symbolic links of every allowed length.
func links(r *run) error {
	dir := r.path("links")
	targets := map[string]string{
		"sym-short": "x", "sym-long": strings.Repeat("d/", 511) + "e", // 1023 bytes
		"sym-dangling": "/no/such/place", "sym-dots": "../links/./file", "sym-odd": "a b\tc\n\xff\xfe",
	}
	if r.phase("write") {
		if _, err := r.emptyDir("links"); err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, "file"), []byte("linked"), 0o600); err != nil {
			return err
		}
		for i := range 9 {
			if err := os.Link(filepath.Join(dir, "file"), filepath.Join(dir, fmt.Sprint("hard", i))); err != nil {
				return err
			}
		}
		for name, target := range targets {
			if err := os.Symlink(target, filepath.Join(dir, name)); err != nil {
				return err
			}
		}
		// One name of ten goes, the file stays; a link over an existing name fails.
		if err := os.Remove(filepath.Join(dir, "hard8")); err != nil {
			return err
		}
		if err := os.Link(filepath.Join(dir, "file"), filepath.Join(dir, "hard0")); !errors.Is(err, syscall.EEXIST) {
			return fmt.Errorf("link over a name: %v, want EEXIST", err)
		}
	}
	if !r.phase("verify") {
		return nil
	}
	first, err := os.Lstat(filepath.Join(dir, "file"))
	if err != nil {
		return err
	}
	if n := first.Sys().(*syscall.Stat_t).Nlink; n != 9 {
		return fmt.Errorf("%d links, want 9", n)
	}
	for i := range 8 {
		name := filepath.Join(dir, fmt.Sprint("hard", i))
		st, err := os.Lstat(name)
		if err != nil {
			return err
		}
		if !os.SameFile(first, st) {
			return fmt.Errorf("%s is another file", name)
		}
		if b, err := os.ReadFile(name); string(b) != "linked" {
			return fmt.Errorf("%s holds %q, %v", name, b, err)
		}
	}
	for name, target := range targets {
		got, err := os.Readlink(filepath.Join(dir, name))
		if got != target {
			return fmt.Errorf("%s links to %q, %v; want %q", name, got, err, target)
		}
		st, err := os.Lstat(filepath.Join(dir, name))
		if err != nil {
			return err
		}
		if st.Size() != int64(len(target)) {
			return fmt.Errorf("%s has size %d, want %d", name, st.Size(), len(target))
		}
	}
	if b, err := os.ReadFile(filepath.Join(dir, "sym-dots")); string(b) != "linked" {
		return fmt.Errorf("through a symbolic link: %q, %v", b, err)
	}
	r.logf("links %d", len(targets)+9)
	return nil
}
