// The machine, and the report around the runs.

package bench

import (
	"context"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"sluice/pkg/usage"
)

// Machine describes this machine and, as far as it can be seen, the server's.
func (b *Bench) Machine(ctx context.Context) Machine {
	m := Machine{CPU: cpuModel("/proc/cpuinfo"), Cores: runtime.NumCPU(), Kernel: firstLine("/proc/sys/kernel/osrelease"), Local: IsLocal(b.o.Server)}
	if mem, err := usage.MemoryOf(0); err == nil {
		m.MemoryBytes = mem.TotalBytes
	}
	if n, err := b.o.Watch.Memory(ctx); err == nil {
		m.ServerMemoryBytes = n
	}
	if dir := b.LocalDir(); dir != "" {
		m.FileSystem = fileSystem("/proc/self/mountinfo", dir)
	}
	return m
}

// LocalDir is the directory of this machine that has the dataset; "" when the
// server is elsewhere, or names it otherwise.
func (b *Bench) LocalDir() string {
	dir := "/" + joined(b.o.Path)
	if len(b.files) == 0 || !IsLocal(b.o.Server) {
		return ""
	}
	if _, err := os.Lstat(dir + "/" + b.files[0].name); err != nil {
		return ""
	}
	return dir
}

// Report puts runs together with what was asked for.
func (b *Bench) Report(ctx context.Context, version string, started time.Time, runs []Run) *Report {
	return &Report{Format: Format, Version: version, Started: started, Server: b.Server(), Machine: b.Machine(ctx), Workload: b.w, Runs: runs}
}

func firstLine(file string) string {
	text, err := os.ReadFile(file)
	if err != nil {
		return ""
	}
	line, _, _ := strings.Cut(string(text), "\n")
	return line
}

func cpuModel(file string) string {
	text, err := os.ReadFile(file)
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(text)) {
		if key, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(key) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// fileSystem finds the type of the mount that a directory is in (proc(5), mountinfo).
func fileSystem(mountinfo, dir string) string {
	if real, err := filepath.EvalSymlinks(dir); err == nil {
		dir = real
	}
	text, err := os.ReadFile(mountinfo)
	if err != nil {
		return ""
	}
	best, typ := -1, ""
	for line := range strings.Lines(string(text)) {
		left, right, ok := strings.Cut(line, " - ")
		f := strings.Fields(left)
		if !ok || len(f) < 5 {
			continue
		}
		at := f[4] // spaces in it are written as \040, and such a mount is not found
		if (at == "/" || dir == at || strings.HasPrefix(dir, at+"/")) && len(at) >= best {
			best, typ = len(at), strings.Fields(right)[0]
		}
	}
	return typ
}
