// The memory sampler on made-up files: both versions of cgroups, limits above
// the process's own, numbers that mean "none", files that are missing or torn.

package dataio

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"sluice/pkg/filecache"
)

const (
	meminfo  = "MemTotal:       8388608 kB\nMemFree:        1048576 kB\nMemAvailable:   4194304 kB\nBuffers: 1 kB\n"
	psi      = "some avg10=1.00 avg60=0.00 avg300=0.00 total=%\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=7\n"
	unlimit1 = "9223372036854771712\n"
	stat1    = "cache 1\ninactive_file 5\ntotal_inactive_file 268435456\ntotal_active_file 134217728\ntotal_workingset_refault_file 10\n"
	stat2    = "anon 1\ninactive_file 268435456\nactive_file 134217728\nworkingset_refault_file 20\n"
	v1       = "/sys/fs/cgroup/memory"
	v2       = "/sys/fs/cgroup"
)

// fake writes files below a new root.
func fake(t *testing.T, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for name, text := range files {
		p := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func TestReadSample(t *testing.T) {
	const mib = 1 << 20
	page := uint64(pageSize)
	machine := sample{total: 8 * gib, room: 4 * gib, free: gib}
	for _, tc := range []struct {
		name  string
		files map[string]string
		want  sample
	}{
		{"nothing", nil, sample{}},
		{"the machine alone", map[string]string{
			"/proc/meminfo": meminfo, "/proc/pressure/memory": strings.ReplaceAll(psi, "%", "1234"),
			"/proc/vmstat": "nr_free_pages 1\nworkingset_refault_anon 5\nworkingset_refault_file 3\n",
		}, sample{8 * gib, 4 * gib, gib, 1234, 3 * page}},
		{"no limit, version 1", map[string]string{
			"/proc/meminfo": meminfo, "/proc/self/cgroup": "3:cpu:/a\n2:memory:/a\n0::/a\n",
			v1 + "/a/memory.limit_in_bytes": unlimit1, v1 + "/a/memory.usage_in_bytes": "5\n", v1 + "/memory.limit_in_bytes": unlimit1,
		}, machine},
		{"version 1", map[string]string{
			"/proc/meminfo": meminfo, "/proc/self/cgroup": "4:cpu,memory:/a/b\n",
			v1 + "/a/b/memory.limit_in_bytes": "536870912\n", v1 + "/a/b/memory.usage_in_bytes": "503316480\n", v1 + "/a/b/memory.stat": stat1,
		}, sample{512 * mib, 416 * mib, 32 * mib, 0, 10 * page}},
		{"version 1, limit above", map[string]string{
			"/proc/meminfo": meminfo, "/proc/self/cgroup": "4:memory:/a/b\n",
			v1 + "/a/b/memory.limit_in_bytes": unlimit1, v1 + "/a/b/memory.usage_in_bytes": "1\n",
			v1 + "/a/memory.limit_in_bytes": "536870912\n", v1 + "/a/memory.usage_in_bytes": "503316480\n", v1 + "/a/memory.stat": stat1,
		}, sample{512 * mib, 416 * mib, 32 * mib, 0, 0}},
		{"version 1 in a container", map[string]string{ // where the host's path is not to be seen
			"/proc/meminfo": meminfo, "/proc/self/cgroup": "4:memory:/docker/0123\n",
			v1 + "/memory.limit_in_bytes": "536870912\n", v1 + "/memory.usage_in_bytes": "503316480\n", v1 + "/memory.stat": stat1,
		}, sample{512 * mib, 416 * mib, 32 * mib, 0, 10 * page}},
		{"version 2", map[string]string{
			"/proc/meminfo": meminfo, "/proc/self/cgroup": "0::/a\n", "/proc/pressure/memory": strings.ReplaceAll(psi, "%", "1"),
			v2 + "/a/memory.max": "536870912\n", v2 + "/a/memory.high": "max\n", v2 + "/a/memory.current": "503316480\n",
			v2 + "/a/memory.stat": stat2, v2 + "/a/memory.pressure": strings.ReplaceAll(psi, "%", "99"),
		}, sample{512 * mib, 416 * mib, 32 * mib, 99, 20 * page}},
		{"version 2, memory.high is lower", map[string]string{
			"/proc/meminfo": meminfo, "/proc/self/cgroup": "0::/a\n",
			v2 + "/a/memory.max": "max\n", v2 + "/a/memory.high": "536870912\n", v2 + "/a/memory.current": "503316480\n", v2 + "/a/memory.stat": stat2,
		}, sample{512 * mib, 416 * mib, 32 * mib, 0, 20 * page}},
		{"version 2 without a limit", map[string]string{
			"/proc/meminfo": meminfo, "/proc/self/cgroup": "0::/a\n",
			v2 + "/a/memory.max": "max\n", v2 + "/a/memory.high": "max\n", v2 + "/a/memory.current": "503316480\n", v2 + "/a/memory.stat": stat2,
		}, machine},
		{"over the limit", map[string]string{
			"/proc/meminfo": meminfo, "/proc/self/cgroup": "0::/a\n",
			v2 + "/a/memory.max": "1048576\n", v2 + "/a/memory.current": "503316480\n", v2 + "/a/memory.stat": "inactive_file 0\n",
		}, sample{mib, 1, 0, 0, 0}},
		{"torn", map[string]string{
			"/proc/meminfo": "MemTotal:       8388608 kB\nMemFree:\nMemAvailable:   419", "/proc/self/cgroup": "0::/a\n4:mem\n:\n0:",
			"/proc/pressure/memory": "some avg10=1.00 tot", "/proc/vmstat": "workingset_refault_file x\n",
			v2 + "/a/memory.max": "", v2 + "/a/memory.current": "many\n", v2 + "/a/memory.stat": "inactive_file",
		}, sample{total: 8 * gib, room: 419 << 10}},
		{"absurd numbers", map[string]string{
			"/proc/meminfo":     "MemTotal: 99999999999999999999 kB\nMemFree: -1 kB\nMemAvailable: 9223372036854775807 kB\n",
			"/proc/self/cgroup": "0::/../../etc\n4:memory:relative\n", v2 + "/etc/memory.max": "1\n", v2 + "/etc/memory.current": "-5\n",
		}, sample{}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := readSample(fake(t, tc.files)); got != tc.want {
				t.Errorf("%+v, want %+v", got, tc.want)
			}
		})
	}
}

// TestReadSampleHere: on the machine of the test all that matters is there.
func TestReadSampleHere(t *testing.T) {
	if s := readSample(""); s.total <= 0 || s.room <= 0 || s.room > s.total {
		t.Errorf("%+v", s)
	}
}

// TestShort: what counts as a shortage, and how long.
func TestShort(t *testing.T) {
	root := fake(t, map[string]string{"/proc/meminfo": meminfo})
	if err := os.MkdirAll(root+"/proc/pressure", 0o755); err != nil {
		t.Fatal(err)
	}
	var clock int64 = 1
	m := memory{root: root, now: func() int64 { return clock }}
	stall, refault := 0, 0 // microseconds, MiB
	step := func(d time.Duration, stalled time.Duration, mib int) bool {
		t.Helper()
		stall += int(stalled.Microseconds())
		refault += mib
		for name, text := range map[string]string{
			"/proc/pressure/memory": strings.ReplaceAll(psi, "%", strconv.Itoa(stall)),
			"/proc/vmstat":          "workingset_refault_file " + strconv.Itoa(refault<<20/pageSize) + "\n",
		} {
			if err := os.WriteFile(root+name, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		clock += int64(d)
		m.sample()
		return m.short.Load()
	}
	const tick = 250 * time.Millisecond
	stall, refault = 1e9, 1e6 // what was before the first sample is nobody's doing
	if step(tick, time.Hour, 1e6) {
		t.Error("short at once")
	}
	if step(tick, tick/4, 0) {
		t.Error("short for a little waiting")
	}
	if !step(tick, tick/2, 0) {
		t.Error("not short while threads wait for memory")
	}
	n := 1
	for ; step(time.Second, 0, 0) && n < 100; n++ {
	}
	if n != int(shortFor/time.Second) {
		t.Errorf("short for %d s", n)
	}
	// A cache that fills with what it had dropped is none.
	for range 8 {
		if step(tick, 0, 400) {
			t.Fatal("short though all of it would fit")
		}
	}
	for i := 0; !step(tick, 0, 400); i++ {
		if i == 8 {
			t.Fatal("not short though more comes back than fits")
		}
	}
	for i := 0; step(tick, 0, 0); i++ {
		if i == 200 {
			t.Fatal("short for ever")
		}
	}
	step(tick, 0, 5000)
	if step(stale, 0, 5000) {
		t.Error("compared with a sample from before a break")
	}
	refault = 0
	if step(tick, 0, 0) {
		t.Error("a counter that ran backwards")
	}
	if m.room.Load() != 4*gib || m.spare.Load() != gib-gib/2 {
		t.Errorf("room %d, spare %d", m.room.Load(), m.spare.Load())
	}
}

// TestRefresh: one sample at a time and per interval, and windows turn.
func TestRefresh(t *testing.T) {
	root := fake(t, map[string]string{"/proc/meminfo": meminfo})
	var clock int64 = 1
	m := memory{root: root, now: func() int64 { return clock }}
	waitFor := func(tick uint32) {
		t.Helper()
		for i := 0; m.tick.Load() != tick; i++ {
			if i == 5000 {
				t.Fatalf("%d samples, want %d", m.tick.Load(), tick)
			}
			time.Sleep(time.Millisecond)
		}
	}
	for range 10 {
		m.refresh()
	}
	waitFor(filecache.StreamTicks) // begins with one
	clock += int64(sampleEvery) - 1
	m.refresh()
	clock++
	m.refresh()
	m.refresh()
	waitFor(filecache.StreamTicks + 1)
	m.share.add(100)
	m.streams.add(3)
	for m.tick.Load()%filecache.EpochTicks != 0 {
		m.sample()
	}
	if m.share.get() != 100 || m.streams.get() != 0 {
		t.Errorf("after one epoch: share %d, streams %d", m.share.get(), m.streams.get())
	}
	m.streams.add(3)
	clock += int64(stale)
	if m.sample(); m.streams.get() != 0 {
		t.Errorf("%d streams after a break", m.streams.get())
	}
	m.share.add(-10)
	for range filecache.EpochTicks {
		m.sample()
	}
	if m.share.get() != 0 {
		t.Errorf("share of %d after nothing was read for an epoch", m.share.get())
	}
}
