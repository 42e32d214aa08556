// A memory cgroup, of version 1 or 2, that limits a server and what it caches.

package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

type cgroup struct {
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

// newCgroup makes the cgroup name with a memory limit in bytes.
func newCgroup(name string, limit int64) (*cgroup, error) {
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
	c := &cgroup{filepath.Join(root, name), v2}
	if err := os.Mkdir(c.path, 0755); err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(c.path, file), []byte(strconv.FormatInt(limit, 10)), 0); err != nil {
		c.remove()
		return nil, err
	}
	return c, nil
}

// command wraps argv so that it runs inside.
func (c *cgroup) command(argv []string) []string {
	return append([]string{"/bin/sh", "-c", `echo $$ > "$0/cgroup.procs" && exec "$@"`, c.path}, argv...)
}

// pageCache returns the bytes of page cache charged to it.
func (c *cgroup) pageCache() (int64, error) {
	key := "cache"
	if c.v2 {
		key = "file"
	}
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

func (c *cgroup) remove() error { return os.Remove(c.path) }

// removeCgroup removes what a run that was killed left behind.
func removeCgroup(name string) {
	if root, _, err := memoryRoot(); err == nil {
		os.Remove(filepath.Join(root, name))
	}
}
