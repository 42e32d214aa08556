// Loading: the files of exports(5), the --export arguments, and the Table that holds the Set in force. A reload reads and
// checks everything first and then swaps one pointer; a broken file leaves the Set in force untouched. Nothing waits.

package exports

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// DefaultFile is where exports(5) keeps its table.
const DefaultFile = "/etc/exports"

// Load reads file and, if withDropIns, then the files *.exports of the directory file + ".d" in the order of their names,
// digits by value ("9.exports" before "10.exports"), without those that start with a dot. A missing drop-in directory is
// no error; a missing file is one, unless there are drop-ins. The error holds every mistake of every file.
func Load(file string, withDropIns bool) (*Set, []Warning, error) {
	return load(Source{File: file, DropIns: withDropIns})
}

func load(src Source) (*Set, []Warning, error) {
	b := newBuilder()
	var failed []error
	if src.File != "" {
		var dropIns []string
		if src.DropIns {
			var err error
			if dropIns, err = dropInFiles(src.File + ".d"); err != nil {
				failed = append(failed, err)
			}
		}
		for i, name := range append([]string{src.File}, dropIns...) {
			text, err := readTable(name)
			if err == nil {
				b.parse(name, text)
				continue
			}
			if i == 0 && len(dropIns) > 0 && errors.Is(err, fs.ErrNotExist) {
				b.d.warn(name, 0, 0, "the file does not exist", "only the drop-in files are in force")
				continue
			}
			failed = append(failed, err)
		}
	}
	for _, spec := range src.Inline {
		s, warns, err := Inline(spec)
		b.d.warns = append(b.d.warns, warns...)
		if err != nil {
			failed = append(failed, err)
			continue
		}
		b.merge(s)
	}
	s, warns, err := b.finish()
	if err != nil {
		failed = append(failed, err)
	}
	if len(failed) > 0 {
		return nil, warns, errors.Join(failed...)
	}
	if src.RealPath != nil {
		var more []Warning
		if s, more, err = s.ResolvePaths(src.RealPath); err != nil {
			return nil, append(warns, more...), err
		}
		warns = append(warns, more...)
	}
	if len(s.exports) == 0 {
		warns = append(warns, Warning{File: src.File, Msg: "there are no exports", Remedy: "add a line such as: /srv/data 192.168.1.0/24(rw)"})
	}
	return s, warns, nil
}

// readTable reads one file within the limit.
func readTable(name string) ([]byte, error) {
	f, err := os.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0) // a FIFO would keep the caller, and its signals, waiting
	if err != nil {
		return nil, fmt.Errorf("cannot read the exports: %w; %s", err, openRemedy(err))
	}
	defer f.Close()
	switch st, err := f.Stat(); {
	case err != nil:
		return nil, fmt.Errorf("cannot read the exports: %w; check the disk", err)
	case st.IsDir():
		return nil, fmt.Errorf("cannot read the exports: %s is a directory; name the file, its drop-ins are found in %s.d", name, name)
	case !st.Mode().IsRegular() && st.Mode()&fs.ModeCharDevice == 0: // /dev/null is the empty table
		return nil, fmt.Errorf("cannot read the exports: %s is no regular file, and could not be read again on a reload; put the table into a file", name)
	}
	text, err := io.ReadAll(io.LimitReader(f, MaxFileSize+1)) // parse reports the excess
	if err != nil {
		return nil, fmt.Errorf("cannot read the exports: %w; check the disk", err)
	}
	return text, nil
}

func openRemedy(err error) string {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "create it, name another with --exports FILE, or export directories with --export DIR"
	case errors.Is(err, fs.ErrPermission):
		return "make it readable for the server's user"
	}
	return "check the path"
}

// dropInFiles lists the tables of a drop-in directory in reading order.
func dropInFiles(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	// Lstat's ENOTDIR is of what dir would be below, which is for the table's own error to tell.
	if _, e := os.Lstat(dir); errors.Is(err, fs.ErrNotExist) || errors.Is(e, syscall.ENOTDIR) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("cannot read the drop-in directory: %w; make it a readable directory, or remove it", err)
	}
	var files []string
	for _, e := range entries {
		name := e.Name()
		if strings.HasPrefix(name, ".") || !strings.HasSuffix(name, ".exports") || !e.Type().IsRegular() && e.Type()&fs.ModeSymlink == 0 {
			continue // as nfs-utils' export_d_read
		}
		files = append(files, name)
	}
	if len(files) > MaxDropIns {
		return nil, fmt.Errorf("%s holds more than %d exports files; join some of them", dir, MaxDropIns)
	}
	sort.Slice(files, func(i, j int) bool { return versionLess(files[i], files[j]) })
	for i, name := range files {
		files[i] = filepath.Join(dir, name)
	}
	return files, nil
}

// versionLess orders names as export_d_read's versionsort(3) does: runs of digits by value, all else by bytes.
func versionLess(a, b string) bool {
	x, y := a, b
	for x != "" && y != "" {
		dx, dy := digits(x), digits(y)
		if dx == 0 || dy == 0 {
			if x[0] != y[0] {
				return x[0] < y[0]
			}
			x, y = x[1:], y[1:]
			continue
		}
		nx, ny := strings.TrimLeft(x[:dx], "0"), strings.TrimLeft(y[:dy], "0")
		if len(nx) != len(ny) {
			return len(nx) < len(ny)
		}
		if nx != ny {
			return nx < ny
		}
		x, y = x[dx:], y[dy:]
	}
	if x != "" || y != "" {
		return x == ""
	}
	return a < b
}

func digits(s string) int {
	n := 0
	for n < len(s) && s[n] >= '0' && s[n] <= '9' {
		n++
	}
	return n
}

// A Source says where the exports come from. Its parts are read in the order of the fields.
type Source struct {
	File    string   // "" for none
	DropIns bool     // also the files of File + ".d"
	Inline  []string // arguments of --export

	// RealPath, if set, resolves symbolic links in the paths, as Set.ResolvePaths describes; filepath.EvalSymlinks fits.
	RealPath func(string) (string, error)
}

// A Table holds the Set in force and replaces it as a whole.
type Table struct {
	src     Source
	current atomic.Pointer[Set]

	mu     sync.Mutex // one reload at a time; guards status
	status TableStatus
}

// TableStatus tells about the loads of a Table.
type TableStatus struct {
	Generation uint64    `json:"generation"`           // of the Set in force, from 1
	LoadedAt   time.Time `json:"loaded_at"`            // when it came into force
	TriedAt    time.Time `json:"tried_at"`             // when a load was last tried
	LastError  string    `json:"last_error,omitempty"` // why the last try kept the old Set; "" if it did not
	Warnings   []Warning `json:"warnings,omitempty"`   // of the Set in force
}

// NewTable loads the exports for the first time. Without a valid Set there is no Table.
func NewTable(src Source) (*Table, []Warning, error) {
	t := &Table{src: src}
	_, warns, err := t.Reload()
	if err != nil {
		return nil, warns, err
	}
	return t, warns, nil
}

// Set is the Set in force. It costs one atomic load.
func (t *Table) Set() *Set { return t.current.Load() }

// Reload reads the exports again. On an error the Set in force stays, and the error says why.
func (t *Table) Reload() (Changes, []Warning, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	s, warns, err := load(t.src)
	t.status.TriedAt = time.Now()
	if err != nil {
		t.status.LastError = err.Error()
		return Changes{}, warns, err
	}
	old := t.current.Load()
	s.generation = t.status.Generation + 1 // nobody else has seen s yet
	t.current.Store(s)
	t.status.Generation, t.status.LoadedAt = s.generation, t.status.TriedAt
	t.status.LastError, t.status.Warnings = "", warns
	return Diff(old, s), warns, nil
}

// Status tells about the last loads.
func (t *Table) Status() TableStatus {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.status
}

// Changes lists the paths in which two Sets differ.
type Changes struct {
	Added   []string `json:"added,omitempty"`
	Removed []string `json:"removed,omitempty"`
	Changed []string `json:"changed,omitempty"` // other clients, another order of them, or other options
}

// Diff compares two Sets; either may be nil.
func Diff(old, new *Set) Changes {
	var c Changes
	if old == nil {
		old = &Set{}
	}
	if new == nil {
		new = &Set{}
	}
	for _, e := range old.exports {
		if n := new.byPath[e.Path]; n == nil || n.Path != e.Path {
			c.Removed = append(c.Removed, e.Path)
		}
	}
	for _, e := range new.exports {
		o := old.byPath[e.Path]
		switch {
		case o == nil || o.Path != e.Path:
			c.Added = append(c.Added, e.Path)
		case !sameClients(o, e):
			c.Changed = append(c.Changed, e.Path)
		}
	}
	return c
}

func sameClients(a, b *Export) bool {
	if len(a.Clients) != len(b.Clients) {
		return false
	}
	for i := range a.Clients {
		x, y := &a.Clients[i], &b.Clients[i]
		if x.Spec != y.Spec || x.Class != y.Class || !x.Options.equal(&y.Options) {
			return false
		}
	}
	return true
}
