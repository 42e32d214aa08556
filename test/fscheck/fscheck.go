// Package fscheck is a set of checks that any POSIX file system must pass,
// written so that they can run on any mount. Each check makes what it needs in
// the directory it is given, compares bytes, names and attributes with what it
// wrote, and returns the first difference as an error.
//
// Checks take their options as key=value text, so that a harness can run them
// in another machine or process. Those that write first and verify later split
// in two with phase=write and phase=verify: between the two a harness may
// restart a server, switch its mode, drop caches or look at the directory from
// another side.
package fscheck

import (
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A check gets its surroundings in a run and returns the first difference.
type check struct {
	about string
	fn    func(*run) error
}

var checks map[string]check

// In init, because Names reads the table that holds functions using run.
func init() {
	checks = map[string]check{
		"bigfile":   {"a large file, every byte verified: size= seed= phase= direct=", bigfile},
		"compare":   {"the directory equals another tree: src=", compare},
		"exclusive": {"O_EXCL creates once, also under a race: workers=", exclusive},
		"fsx":       {"random operations against a model: ops= size= seed= direct= mmap=", fsx},
		"links":     {"hard links and symbolic links: phase=", links},
		"load":      {"verified reads and writes: seconds= or until=, workers= names=", load},
		"lock":      {"a lock, and whether it is granted: file= kind=fcntl|ofd|flock type= start= len= want= wait= until= ready=", lock},
		"many":      {"many names in one directory: files= phase=create|list|remove via= plain=", many},
		"nodes":     {"FIFOs, sockets and device nodes: phase=", nodes},
		"openfiles": {"open files that are renamed, replaced and removed", openfiles},
		"randread":  {"reads at odd offsets and lengths, holes, end of file: reads= seed= direct= phase=", randread},
		"readload":  {"verified reads of randread's file: seconds= workers= seed=", readload},
		"sparse":    {"data at offsets past 2^31, 2^32 and limit: limit= phase=", sparse},
		"steps":     {"system calls and the errno each must give, see steps.go: steps=", steps},
		"times":     {"times to the nanosecond, modes and owners: phase=", times},
		"v42":       {"holes, allocation, copies, clones, extended attributes, umask: phase=prepare|write|verify clone=", v42},
	}
}

// Names lists the checks with a line about each, for usage messages.
func Names() []string {
	var names []string
	for name, c := range checks {
		names = append(names, name+": "+c.about)
	}
	slices.Sort(names)
	return names
}

// Run runs the named check on dir, which must exist. It writes what was done to
// log, one line, and returns an error that names the first difference.
func Run(name, dir string, options map[string]string, log io.Writer) error {
	c, ok := checks[name]
	if !ok {
		return fmt.Errorf("no check is named %q; there are:\n%s", name, strings.Join(Names(), "\n"))
	}
	r := &run{dir: dir, log: log, options: options, began: time.Now()}
	err := c.fn(r)
	if err == nil {
		err = r.optionErr
	}
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// run is one check under way.
type run struct {
	dir       string
	log       io.Writer
	options   map[string]string
	optionErr error
	began     time.Time
}

// logf tells what was done and how long it took.
func (r *run) logf(format string, args ...any) {
	fmt.Fprintf(r.log, format+" (%.1f s)\n", append(args, time.Since(r.began).Seconds())...)
}

// path names a file below the check's directory.
func (r *run) path(names ...string) string {
	return filepath.Join(append([]string{r.dir}, names...)...)
}

func (r *run) text(key, standard string) string {
	if v, ok := r.options[key]; ok {
		return v
	}
	return standard
}

func (r *run) int(key string, standard int64) int64 {
	v, ok := r.options[key]
	if !ok {
		return standard
	}
	n, err := strconv.ParseInt(v, 0, 64)
	if err != nil && r.optionErr == nil {
		r.optionErr = fmt.Errorf("option %s: %w", key, err)
	}
	return n
}

func (r *run) flag(key string) bool { return r.int(key, 0) != 0 }

// phase says whether the named half of the check is to run; both do unless
// phase= asks for one.
func (r *run) phase(name string) bool {
	p := r.text("phase", "")
	return p == "" || p == name
}

func (r *run) random() *rand.Rand {
	return rand.New(rand.NewPCG(uint64(r.int("seed", 1)), 0))
}

// emptyDir makes a fresh directory below the check's own.
func (r *run) emptyDir(name string) (string, error) {
	dir := r.path(name)
	if err := os.RemoveAll(dir); err != nil {
		return "", err
	}
	return dir, os.MkdirAll(dir, 0o755) // a server that is killed may have made it before its answer
}
