// What the measurements ran on.

package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// machine describes the place of a run; no names or addresses in it.
type machine struct {
	CPU        string `json:"cpu"`
	Cores      int    `json:"cores"`
	Memory     string `json:"memory"`
	Kernel     string `json:"kernel"`
	TCP        string `json:"tcp_congestion_control"`
	System     string `json:"system"`
	FileSystem string `json:"file_system"`
	Ganesha    string `json:"ganesha"`
	Sluice     string `json:"sluice"`
	Go         string `json:"go"`
	Fio        string `json:"fio"`
}

func describe(o *options) machine {
	m := machine{Cores: runtime.NumCPU(), Go: runtime.Version(), CPU: "unknown", System: "unknown"}
	m.CPU = field("/proc/cpuinfo", "model name", ":")
	m.System = strings.Trim(field("/etc/os-release", "PRETTY_NAME", "="), `"`)
	if kb := strings.Fields(field("/proc/meminfo", "MemTotal", ":")); len(kb) > 0 {
		var n int64
		fmt.Sscan(kb[0], &n)
		m.Memory = fmt.Sprintf("%.1f GiB", float64(n)/(1<<20))
	}
	var u unix.Utsname
	if unix.Uname(&u) == nil {
		m.Kernel = unix.ByteSliceToString(u.Release[:])
	}
	if b, err := os.ReadFile("/proc/sys/net/ipv4/tcp_congestion_control"); err == nil {
		m.TCP = strings.TrimSpace(string(b))
	}
	m.FileSystem = output("findmnt", "-n", "-o", "FSTYPE,OPTIONS", "-T", o.work)
	if strings.HasPrefix(m.FileSystem, "ext4 ") { // what a sync costs depends on it
		sys := "/sys/fs/ext4/" + filepath.Base(output("findmnt", "-n", "-o", "SOURCE", "-T", o.work))
		if task, err := os.ReadFile(sys + "/journal_task"); err == nil {
			if strings.TrimSpace(string(task)) == "<none>" {
				m.FileSystem += ", without a journal"
			} else {
				m.FileSystem += ", with a journal"
			}
		}
	}
	m.Ganesha = output("dpkg-query", "-W", "-f", "nfs-ganesha ${Version}", "nfs-ganesha")
	m.Fio = output("fio", "--version")
	m.Sluice = output(o.sluice, "version")
	if rev := output("git", "describe", "--always", "--dirty"); rev != "unknown" {
		m.Sluice += " (commit " + rev + ")"
	}
	return m
}

// field returns the value of the first line of a file that begins with key.
func field(path, key, sep string) string {
	b, err := os.ReadFile(path)
	if err != nil {
		return "unknown"
	}
	for line := range strings.Lines(string(b)) {
		if k, v, ok := strings.Cut(line, sep); ok && strings.TrimSpace(k) == key {
			return strings.TrimSpace(v)
		}
	}
	return "unknown"
}

// output returns the first line that a command prints.
func output(name string, args ...string) string {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	out, err := exec.CommandContext(ctx, name, args...).Output()
	if err != nil {
		return "unknown"
	}
	line, _, _ := strings.Cut(strings.TrimSpace(string(out)), "\n")
	return strings.Join(strings.Fields(line), " ")
}
