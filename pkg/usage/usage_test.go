package usage

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// tree makes files below a folder: a /proc and a /sys/fs/cgroup of our own.
func tree(t *testing.T, files map[string]string) places {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return places{dir + "/proc", dir + "/cgroup"}
}

const meminfo = "MemTotal:  1000 kB\nMemFree: 10 kB\nCached:  300 kB\n"

func TestMemoryOf(t *testing.T) {
	for name, tc := range map[string]struct {
		files map[string]string
		want  Memory
	}{
		"no cgroup": {map[string]string{}, Memory{"machine", 1000 << 10, 300 << 10}},
		"the root":  {map[string]string{"proc/7/cgroup": "4:memory:/\n0::/\n"}, Memory{"machine", 1000 << 10, 300 << 10}},
		"version 1": {map[string]string{
			"proc/7/cgroup":                           "9:name=systemd:/\n4:cpu,memory:/a/b\n0::/x\n",
			"cgroup/memory/a/b/memory.stat":           "cache 1\ntotal_cache 4096\n",
			"cgroup/memory/a/b/memory.limit_in_bytes": "9223372036854771712\n",
			"cgroup/memory/a/memory.limit_in_bytes":   "65536\n",
		}, Memory{"cgroup /a/b", 65536, 4096}},
		"version 2": {map[string]string{
			"proc/7/cgroup":          "0::/s/u\n",
			"cgroup/s/u/memory.stat": "anon 5\nfile 8192\n",
			"cgroup/s/u/memory.max":  "131072\n",
			"cgroup/s/memory.max":    "max\n",
		}, Memory{"cgroup /s/u", 131072, 8192}},
		"no limit at all": {map[string]string{
			"proc/7/cgroup":          "0::/s\n",
			"cgroup/s/memory.stat":   "file 8192\n",
			"cgroup/s/memory.max":    "max\n",
			"cgroup/memory.whatever": "",
		}, Memory{"cgroup /s", 1000 << 10, 8192}},
		"a cgroup that can't be seen": {map[string]string{"proc/7/cgroup": "4:memory:/elsewhere\n"}, Memory{"machine", 1000 << 10, 300 << 10}},
	} {
		tc.files["proc/meminfo"] = meminfo
		got, err := tree(t, tc.files).memoryOf(7)
		if err != nil || got != tc.want {
			t.Errorf("%s: %+v, %v, want %+v", name, got, err, tc.want)
		}
	}
	if _, err := tree(t, map[string]string{"proc/meminfo": "MemFree: 1 kB\n"}).memoryOf(0); err == nil || !strings.Contains(err.Error(), "no MemTotal") {
		t.Errorf("without MemTotal: %v", err)
	}
}

func TestCPUAndResident(t *testing.T) {
	s := tree(t, map[string]string{
		"proc/7/stat":   "7 (a (b) c) S 1 7 7 0 -1 4194560 1 2 3 4 150 25 0 0 20 0 1 0 1 1 1\n",
		"proc/7/status": "Name: x\nVmRSS:\t  12 kB\n",
		"proc/8/stat":   "8 (short) S 1\n",
		"proc/9/stat":   "9 (words) S 1 7 7 0 -1 4194560 1 2 3 4 x 25 0 0\n",
	})
	if u, k, err := s.cpu(7); u != 1.5 || k != 0.25 || err != nil {
		t.Errorf("CPU: %v, %v, %v", u, k, err)
	}
	if n, err := s.resident(7); n != 12<<10 || err != nil {
		t.Errorf("resident: %d, %v", n, err)
	}
	for _, pid := range []int{8, 9, 10} {
		if _, _, err := s.cpu(pid); err == nil {
			t.Errorf("CPU of process %d: no error", pid)
		}
	}
}

// TestThisProcess asks the machine itself.
func TestThisProcess(t *testing.T) {
	if _, _, err := CPU(os.Getpid()); err != nil {
		t.Error(err)
	}
	if n, err := Resident(os.Getpid()); err != nil || n <= 0 {
		t.Errorf("resident: %d, %v", n, err)
	}
	for _, pid := range []int{0, os.Getpid()} {
		m, err := MemoryOf(pid)
		if err != nil || m.TotalBytes <= 0 || m.CacheBytes < 0 || m.Source == "" {
			t.Errorf("memory of process %d: %+v, %v", pid, m, err)
		}
	}
}
