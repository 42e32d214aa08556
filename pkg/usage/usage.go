// Package usage tells what a process uses and may use: processor time, resident
// memory, the memory that it can have and the page cache that it shares.
//
// Plan: everything is read from /proc and /sys/fs/cgroup, versions 1 and 2. The
// memory of a process is that of the machine or, in a memory cgroup with a limit,
// of the cgroup: page cache is charged to the cgroup of whoever brought it in.
package usage

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path"
	"strconv"
	"strings"
)

// tick is the unit of times in /proc/PID/stat, in seconds: USER_HZ is 100 on
// every architecture that Go runs on.
const tick = 0.01

// places of the files, for tests.
type places struct{ proc, cgroup string }

var system = places{"/proc", "/sys/fs/cgroup"}

// CPU returns the user and system time of a process, its threads included, in
// seconds, to 10 ms. For a kernel thread all of it is system time.
func CPU(pid int) (user, sys float64, err error) { return system.cpu(pid) }

func (s places) cpu(pid int) (user, sys float64, err error) {
	name := fmt.Sprintf("%s/%d/stat", s.proc, pid)
	b, err := os.ReadFile(name)
	if err != nil {
		return 0, 0, fmt.Errorf("processor time of process %d: %w", pid, err)
	}
	// The command's name may hold spaces and parentheses: count from its end.
	f := strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:]))
	if len(f) < 13 {
		return 0, 0, fmt.Errorf("%s: %d fields behind the name, want 13", name, len(f))
	}
	u, err1 := strconv.ParseFloat(f[11], 64)
	k, err2 := strconv.ParseFloat(f[12], 64)
	if err := errors.Join(err1, err2); err != nil {
		return 0, 0, fmt.Errorf("%s: %w", name, err)
	}
	return u * tick, k * tick, nil
}

// Resident returns the bytes of physical memory that a process has.
func Resident(pid int) (int64, error) { return system.resident(pid) }

func (s places) resident(pid int) (int64, error) {
	return field(fmt.Sprintf("%s/%d/status", s.proc, pid), "VmRSS:", 1<<10)
}

// Memory is what a process can have.
type Memory struct {
	// Source says whose memory it is: "cgroup PATH" or "machine".
	Source string
	// TotalBytes is its size: the smallest limit, or the machine's memory.
	TotalBytes int64
	// CacheBytes is the page cache in it.
	CacheBytes int64
}

// MemoryOf looks up the memory of a process; pid 0 stands for the machine's.
func MemoryOf(pid int) (Memory, error) { return system.memoryOf(pid) }

func (s places) memoryOf(pid int) (Memory, error) {
	total, err := field(s.proc+"/meminfo", "MemTotal:", 1<<10)
	if err != nil {
		return Memory{}, err
	}
	if pid != 0 {
		if m, ok := s.cgroupOf(pid, total); ok {
			return m, nil
		}
	}
	cached, err := field(s.proc+"/meminfo", "Cached:", 1<<10)
	return Memory{Source: "machine", TotalBytes: total, CacheBytes: cached}, err
}

// cgroupOf looks at the memory cgroup of a process; ok is false for the root of
// the tree, which is the machine, and where there is none.
func (s places) cgroupOf(pid int, total int64) (m Memory, ok bool) {
	b, err := os.ReadFile(fmt.Sprintf("%s/%d/cgroup", s.proc, pid))
	if err != nil {
		return m, false
	}
	root, at, cache := "", "", "file"
	for line := range strings.Lines(string(b)) { // ID:CONTROLLERS:PATH
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(parts) != 3 {
			continue
		}
		for name := range strings.SplitSeq(parts[1], ",") {
			if name == "memory" { // version 1
				root, at, cache = s.cgroup+"/memory", parts[2], "total_cache"
			}
		}
		if parts[1] == "" && root == "" {
			root, at = s.cgroup, parts[2]
		}
	}
	if at == "/" || at == "" {
		return m, false
	}
	dir := path.Join(root, at)
	if m.CacheBytes, err = field(dir+"/memory.stat", cache, 1); err != nil {
		return m, false
	}
	m.Source, m.TotalBytes = "cgroup "+at, total
	for ; len(dir) > len(root); dir = path.Dir(dir) {
		for _, name := range []string{"memory.max", "memory.limit_in_bytes"} {
			b, err := os.ReadFile(dir + "/" + name)
			if err != nil {
				continue
			}
			if n, err := strconv.ParseInt(strings.TrimSpace(string(b)), 10, 64); err == nil { // else "max"
				m.TotalBytes = min(m.TotalBytes, n)
			}
		}
	}
	return m, true
}

// field returns the number behind a word that begins a line of a file.
func field(file, word string, unit int64) (int64, error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(b)) {
		if f := strings.Fields(line); len(f) >= 2 && f[0] == word {
			n, err := strconv.ParseInt(f[1], 10, 64)
			return n * unit, err
		}
	}
	return 0, fmt.Errorf("%s: no %s", file, strings.TrimSuffix(word, ":"))
}
