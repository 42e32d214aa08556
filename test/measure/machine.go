// What the measurements ran on.

package measure

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

// Machine describes the place of a run; no names or addresses in it.
type Machine struct {
	CPU    string `json:"cpu"`
	Cores  int    `json:"cores"`
	Memory string `json:"memory"`
	Kernel string `json:"kernel"`
	TCP    string `json:"tcp_congestion_control"`
	System string `json:"system"`
	Sluice string `json:"sluice"`
	Go     string `json:"go"`
	Fio    string `json:"fio"`
}

// Describe describes this machine and the sluice binary measured.
func Describe(sluice string) Machine {
	m := Machine{Cores: runtime.NumCPU(), Go: runtime.Version()}
	m.CPU = Field("/proc/cpuinfo", "model name", ":")
	m.System = strings.Trim(Field("/etc/os-release", "PRETTY_NAME", "="), `"`)
	if kb := strings.Fields(Field("/proc/meminfo", "MemTotal", ":")); len(kb) > 0 {
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
	m.Fio = Output("fio", "--version")
	m.Sluice = Output(sluice, "version")
	if rev := Output("git", "describe", "--always", "--dirty"); rev != "unknown" {
		m.Sluice += " (commit " + rev + ")"
	}
	return m
}

// FileSystem describes the file system that a path is on: its type, options,
// and for ext4 whether it has a journal, which decides what a sync costs.
func FileSystem(path string) string {
	fs := Output("findmnt", "-n", "-o", "FSTYPE,OPTIONS", "-T", path)
	if strings.HasPrefix(fs, "ext4 ") {
		sys := "/sys/fs/ext4/" + filepath.Base(Output("findmnt", "-n", "-o", "SOURCE", "-T", path))
		if task, err := os.ReadFile(sys + "/journal_task"); err == nil {
			if strings.TrimSpace(string(task)) == "<none>" {
				fs += ", without a journal"
			} else {
				fs += ", with a journal"
			}
		}
	}
	return fs
}

// Field returns the value of the first line of a file that begins with key.
func Field(path, key, sep string) string {
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

// Output returns the first line that a command prints, "unknown" if it fails
// or takes longer than 10 s.
func Output(name string, args ...string) string {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	out, err := exec.CommandContext(ctx, name, args...).Output()
	if err != nil {
		return "unknown"
	}
	line, _, _ := strings.Cut(strings.TrimSpace(string(out)), "\n")
	return strings.Join(strings.Fields(line), " ")
}
