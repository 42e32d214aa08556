// A memory cgroup, of version 1 or 2, that limits a server and what it caches.

package measure

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// Cgroup is a memory cgroup that NewCgroup made.
type Cgroup struct {
	path string
	v2   bool
}

// memoryRoot finds where memory cgroups are made.
func memoryRoot() (dir string, v2 bool, err error) {
	if _, err := os.Stat("/sys/fs/cgroup/memory/memory.limit_in_bytes"); err == nil {
		return "/sys/fs/cgroup/memory", false, nil
	}
	if _, err := os.Stat("/sys/fs/cgroup/cgroup.controllers"); err == nil {
		return "/sys/fs/cgroup", true, nil
	}
	return "", false, errors.New("no memory cgroup controller is mounted on /sys/fs/cgroup")
}

// NewCgroup makes the cgroup name with a memory limit in bytes.
func NewCgroup(name string, limit int64) (*Cgroup, error) {
	root, v2, err := memoryRoot()
	if err != nil {
		return nil, err
	}
	file := "memory.limit_in_bytes"
	if v2 {
		file = "memory.max"
		if err := os.WriteFile(filepath.Join(root, "cgroup.subtree_control"), []byte("+memory"), 0); err != nil {
			return nil, fmt.Errorf("enable the memory controller: %w", err)
		}
	}
	c := &Cgroup{filepath.Join(root, name), v2}
	if err := os.Mkdir(c.path, 0755); err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(c.path, file), []byte(strconv.FormatInt(limit, 10)), 0); err != nil {
		return nil, errors.Join(err, c.Remove())
	}
	return c, nil
}

// Version is 1 or 2, the kernel's interface of memory cgroups.
func (c *Cgroup) Version() int {
	if c.v2 {
		return 2
	}
	return 1
}

// Command wraps argv so that it runs inside.
func (c *Cgroup) Command(argv []string) []string {
	return append([]string{"/bin/sh", "-c", `echo $$ > "$0/cgroup.procs" && exec "$@"`, c.path}, argv...)
}

// PageCache returns the bytes of page cache charged to it.
func (c *Cgroup) PageCache() (int64, error) {
	if c.v2 {
		return c.stat("file")
	}
	return c.stat("cache")
}

func (c *Cgroup) stat(key string) (int64, error) {
	b, err := os.ReadFile(filepath.Join(c.path, "memory.stat"))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(b)) {
		if f := strings.Fields(line); len(f) == 2 && f[0] == key {
			return strconv.ParseInt(f[1], 10, 64)
		}
	}
	return 0, fmt.Errorf("%s/memory.stat: no %q", c.path, key)
}

// Remove removes the cgroup, which no process may be in any more. The kernel
// takes a moment to forget a process that has ended: it is asked for a second.
func (c *Cgroup) Remove() error {
	for i := 0; ; i++ {
		err := os.Remove(c.path)
		if err == nil || errors.Is(err, os.ErrNotExist) {
			return nil
		}
		if i == 50 {
			return err
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// RemoveCgroup removes the cgroup that a run which was killed left behind, if
// there is one.
func RemoveCgroup(name string) error {
	root, v2, err := memoryRoot()
	if err != nil {
		return nil // none can have been made
	}
	return (&Cgroup{filepath.Join(root, name), v2}).Remove()
}

// Cgroups returns the names of memory cgroups that begin with prefix.
func Cgroups(prefix string) []string {
	root, _, err := memoryRoot()
	if err != nil {
		return nil
	}
	var names []string
	entries, err := os.ReadDir(root)
	if err != nil {
		return nil
	}
	for _, e := range entries {
		if e.IsDir() && strings.HasPrefix(e.Name(), prefix) {
			names = append(names, e.Name())
		}
	}
	return names
}
