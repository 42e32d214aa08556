package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"sluice/pkg/admin"
	"sluice/pkg/bench"
	"sluice/test/measure"
	"sluice/test/testenv"
)

// samples makes measurements of a rate, and of CPU seconds for as many bytes.
func samples(cpu float64, rates ...float64) (list []sample) {
	for _, r := range rates {
		x := sample{}
		x.Run.BytesPerSecond, x.Run.Bytes, x.Run.Reads.Ops = r, 1e9, 1
		x.Use.Server.System = cpu
		list = append(list, x)
	}
	return list
}

func TestVerdict(t *testing.T) {
	table := func(own []sample) *group {
		return &group{Rows: []row{
			{Setting: "buffered", Samples: samples(4, 100, 100, 100)},
			{Setting: "dontcache", Samples: samples(2, 50, 50, 50)},
			{Setting: "direct", Samples: samples(1, 80, 80, 80)},
			{Setting: auto, Samples: own},
			{Setting: "fio, direct", Samples: samples(.1, 900, 900, 900)},
		}}
	}
	for _, c := range []struct {
		name string
		own  []sample
		want string
		lack string
	}{
		{"as the fastest", samples(4, 97, 96, 98), "within 5% of it or better. Of the least CPU, that of direct, it takes 4.00", "slowest"},
		{"too slow", samples(4, 90, 91, 89), "not within 5%", "slowest"},
		{"too dear", samples(5, 100, 100, 100), "not within 5%", "slowest"},
		{"in doubt", samples(4, 90, 94, 101), "not told apart", "slowest"},
		{"the worst", samples(4, 40, 41, 42), "It is the slowest", "served"},
	} {
		text := table(c.own).verdictText()
		if !strings.Contains(text, c.want) || strings.Contains(text, c.lack) || !strings.Contains(text, "fastest fixed mode, buffered,") {
			t.Errorf("%s: %s", c.name, text)
		}
	}
	without := table(nil)
	without.Rows = without.Rows[:3]
	if text := without.verdictText(); text != "" {
		t.Errorf("without auto: %q", text)
	}
}

func TestServed(t *testing.T) {
	r := row{Samples: samples(1, 1, 1)}
	r.Samples[0].Run.Served = []bench.Served{{Op: "read", Mode: "direct", Calls: 30}, {Op: "write", Mode: "buffered", Calls: 99}}
	r.Samples[1].Run.Served = []bench.Served{{Op: "read", Mode: "buffered", Calls: 10}}
	if got := r.served(); got != "buffered 25%, direct 75%" {
		t.Error(got)
	}
	r.Samples[0].Reasons = []admin.Count{{Name: "fits", Count: 1}, {Name: "cached", Count: 2}}
	r.Samples[1].Reasons = []admin.Count{{Name: "cached", Count: 1}}
	if got := r.reasons(); got != "`cached` 75%, `fits` 25%" {
		t.Error(got)
	}
}

func TestLimit(t *testing.T) {
	with := func(name string, busy, disk, steal float64) row {
		r := row{Setting: name, Samples: samples(1, 1)}
		r.Samples[0].Use = usage{Seconds: 1, Busy: busy, DiskRead: int64(disk * 1e9), Steal: steal}
		return r
	}
	fio := with("fio, direct", .2, 1, 0)
	for _, c := range []struct {
		row  row
		fio  bool
		want string
	}{
		{with("a", .9, 1, 0), true, "processors"},
		{with("a", .5, .9, 0), true, "disk (90% of fio's rate)"},
		{with("a", .5, .5, 0), true, "waiting (disk at 50% of fio's rate)"},
		{with("a", .5, .5, 0), false, "waiting for the disk"},
		{with("a", .5, 0, 0), true, "round trips"},
		{with("a", .9, 0, .06), true, "processors; the host took 6%"},
		{fio, true, "disk"},
	} {
		g := &group{Rows: []row{c.row}}
		if c.fio {
			g.Rows = append(g.Rows, fio)
		}
		if got := limit(g, c.row); got != c.want {
			t.Errorf("busy %g: %q, want %q", c.row.Samples[0].Use.Busy, got, c.want)
		}
	}
}

func TestNumber(t *testing.T) {
	for v, want := range map[float64]string{0: "0", 1234.5: "1234", 12.345: "12.3", 1.2345: "1.23", .12345: "0.123", .00012: "0.00012", -5: "-5.00"} {
		if got := number(v); got != want {
			t.Errorf("%g: %s, want %s", v, got, want)
		}
	}
}

// What a reading took is the difference to the one before; what is left of the
// processors' time is never below 0.
func TestUntil(t *testing.T) {
	a := reading{at: time.Unix(0, 0), system: measure.System{Busy: 10, Idle: 10}, read: 5, cache: 7}
	b := reading{at: time.Unix(2, 0), system: measure.System{Busy: 12, Idle: 11, Steal: 1}, read: 15, written: 3, cache: 9,
		server: measure.CPU{User: .5, System: 1}, client: measure.CPU{User: .25}}
	u := a.until(b, 8)
	want := usage{Seconds: 2, Server: b.server, Client: b.client, Other: .25, Busy: .5, Steal: .25, DiskRead: 10, DiskWritten: 3, CacheStart: 7, CachePeak: 9, CacheEnd: 9}
	if u != want {
		t.Errorf("%+v, want %+v", u, want)
	}
	b.client.User = 5
	if u := a.until(b, 0); u.Other != 0 {
		t.Errorf("other: %g", u.Other)
	}
}

func TestFioRun(t *testing.T) {
	const text = `{"jobs":[{"error":0,"read":{"io_bytes":0},"write":{"io_bytes":4000,"total_ios":4,"runtime":1500,
		"lat_ns":{"mean":12.5,"max":99,"percentile":{"50.000000":10,"99.000000":20,"99.900000":30}}}}]}`
	r, err := fioRun([]byte(text), "write", 500*time.Millisecond)
	if err != nil || r.Seconds != 2 || r.CommitSeconds != .5 || r.BytesPerSecond != 2000 || r.OpsPerSecond != 2 ||
		r.Writes.Latency != (bench.Latency{MeanNS: 12, P50NS: 10, P99NS: 20, P999NS: 30, MaxNS: 99}) {
		t.Errorf("%+v, %v", r, err)
	}
	for _, bad := range []string{"", "{}", `{"jobs":[{"error":5,"write":{"io_bytes":4000,"runtime":1}}]}`, `{"jobs":[{}]}`} {
		if _, err := fioRun([]byte(bad), "write", 0); err == nil {
			t.Errorf("%q was taken", bad)
		}
	}
}

func TestChoose(t *testing.T) {
	good := options{rounds: 1, secs: 1, memory: quickMemory}
	if e, err := choose(&good, []string{"all"}); err != nil || len(e) != len(experiments) {
		t.Errorf("all: %d experiments, %v", len(e), err)
	}
	if e, err := choose(&good, []string{"noisy", "stream"}); err != nil || len(e) != 2 || e[0].name != "noisy" {
		t.Errorf("two: %v, %v", e, err)
	}
	small := good
	small.memory--
	for _, c := range []struct {
		o     *options
		names []string
	}{{&good, nil}, {&good, []string{"none"}}, {&small, []string{"all"}}, {&options{}, []string{"all"}}} {
		if _, err := choose(c.o, c.names); err == nil {
			t.Errorf("%v with %+v was taken", c.names, c.o)
		}
	}
}

// results writes results of one group for each experiment below docs.
func results(t *testing.T, docs string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Join(docs, "benchmarks"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, e := range experiments {
		g := &group{Name: "READ, 3.125 times memory, ext4", Rows: []row{
			{Setting: "buffered", Samples: samples(4, 2e9)}, {Setting: "direct", Samples: samples(1, 1e9)},
			{Setting: auto, Samples: samples(2, 2e9)}, {Setting: "fio, direct", Samples: samples(1, 3e9)},
		}}
		for i := range g.Rows {
			g.Rows[i].Samples[0].Neighbour = &neighbourState{Bytes: 100, CachedEnd: 40}
		}
		js, err := json.Marshal(document{Experiment: e.name, Groups: []*group{g}})
		if err == nil {
			err = os.WriteFile(filepath.Join(docs, "benchmarks", e.file+".json"), js, 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// Tables go between their lines, again and again, and nothing else changes.
func TestPage(t *testing.T) {
	docs := t.TempDir()
	results(t, docs)
	frame := "# Title\n"
	for _, e := range extracts {
		frame += tableBegin + e.name + " -->\nold\n" + tableEnd + "\ntext\n"
	}
	frame += tableBegin + "auto -->\n" + tableEnd + "\nlast\n"
	path := filepath.Join(docs, pageName)
	if err := os.WriteFile(path, []byte(frame), 0o644); err != nil {
		t.Fatal(err)
	}
	var made [2]string
	for i := range made {
		if err := pageMain([]string{docs}); err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		made[i] = string(text)
	}
	if made[0] != made[1] {
		t.Error("tables that are there already are not replaced by the same")
	}
	for _, want := range []string{"| ext4 | direct | 1.00 (1.00 to 1.00) |", "| 40.0 (40.0 to 40.0) % |", "# Title\n", "\ntext\n", "\nlast\n",
		"| READ, 3.125 times memory, ext4 | buffered | 1.00 (1.00 to 1.00) | 0.50 (0.50 to 0.50) | direct | 2.00"} {
		if !strings.Contains(made[0], want) {
			t.Errorf("no %q in:\n%s", want, made[0])
		}
	}
	if strings.Contains(made[0], "old") || strings.Contains(made[0], "NaN") {
		t.Errorf("old text or no number:\n%s", made[0])
	}
	for _, bad := range []string{tableBegin + "none -->\n" + tableEnd, tableBegin + "auto -->\n"} {
		if _, err := page(docs, bad); err == nil {
			t.Errorf("%q was taken", bad)
		}
	}
	if _, err := page(t.TempDir(), frame); err == nil || !strings.Contains(err.Error(), "make lab-") {
		t.Errorf("no results: %v", err)
	}
}

// labRun is the lab as a process of its own, whose results and working files
// are below dir.
func labRun(t *testing.T, dir string, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(filepath.Join(dir, "lab"), append([]string{"-quick", "-sluice", filepath.Join(dir, "sluice"), "-dir", dir, "-out", filepath.Join(dir, "out")}, args...)...)
	return cmd
}

// build makes a directory with the programs in it, on a disk.
func build(t *testing.T) string {
	t.Helper()
	if os.Geteuid() != 0 {
		testenv.Skip(t, "the lab needs root, for namespaces and loop devices")
	}
	t.Setenv("PATH", os.Getenv("PATH")+":/usr/local/sbin:/usr/sbin:/sbin")
	if m := measure.MissingPackages(packages); len(m) > 0 {
		testenv.Skip(t, "not installed: %s", strings.Join(m, " "))
	}
	dir, err := os.MkdirTemp("/var/tmp", "sluice-lab-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	t.Setenv("TMPDIR", dir)
	binary := os.Getenv("SLUICE_TEST_BINARY") // one that is built already, as in other tests
	_, err = testenv.Build("./test/lab", "lab")
	if err == nil && binary == "" {
		binary, err = testenv.Build("./cmd/sluice", "sluice")
	}
	if err == nil && binary != filepath.Join(dir, "sluice") {
		err = os.Symlink(binary, filepath.Join(dir, "sluice"))
	}
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// left lists what a run has left: files, mounts and loop devices below dir.
// Loop devices go a moment after their last mount.
func left(t *testing.T, dir string) []string {
	t.Helper()
	var found []string
	for range 100 {
		found = nil
		old, err := filepath.Glob(filepath.Join(dir, prefix+"*"))
		if err != nil {
			t.Fatal(err)
		}
		found = append(found, old...)
		mounts, err1 := os.ReadFile("/proc/self/mountinfo")
		loops, err2 := exec.Command("losetup", "--list", "--noheadings", "--output", "NAME,BACK-FILE").Output()
		if err := errors.Join(err1, err2); err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(mounts) + string(loops)) {
			if strings.Contains(line, dir) {
				found = append(found, strings.TrimSpace(line))
			}
		}
		if len(found) == 0 {
			break
		}
		time.Sleep(50 * time.Millisecond)
	}
	return found
}

// The program as it is started by hand.
func TestProgram(t *testing.T) {
	dir := build(t)
	t.Run("quick", func(t *testing.T) { testQuick(t, dir) })
	t.Run("interrupted", func(t *testing.T) { testInterrupted(t, dir) })
}

// Every experiment runs in its quick form, writes its files, and leaves nothing.
func testQuick(t *testing.T, dir string) {
	cmd := labRun(t, dir, "all")
	var errs bytes.Buffer
	cmd.Stderr = &errs
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v\n%s", err, errs.String())
	}
	for _, e := range experiments {
		base := filepath.Join(dir, "out", e.file)
		md, err1 := os.ReadFile(base + ".md")
		js, err2 := os.ReadFile(base + ".json")
		var d document
		if err := errors.Join(err1, err2, json.Unmarshal(js, &d)); err != nil {
			t.Errorf("%s: %v", e.name, err)
			continue
		}
		for _, g := range d.Groups {
			if !bytes.Contains(md, []byte("\n## "+g.Name+"\n")) {
				t.Errorf("%s: no table of %s", e.name, g.Name)
			}
			for _, r := range g.Rows {
				if len(r.Samples) != 1 || r.Samples[0].Run.Bytes == 0 || r.Samples[0].Run.Errors != 0 {
					t.Errorf("%s, %s, %s: %+v", e.name, g.Name, r.Setting, r.Samples)
				}
			}
		}
		if len(d.Groups) == 0 || bytes.Contains(md, []byte("NaN")) {
			t.Errorf("%s:\n%s", e.name, md)
		}
	}
	if l := left(t, dir); len(l) > 0 {
		t.Errorf("left: %q", l)
	}
}

// A run that is interrupted removes what it made; what a killed one had to
// leave, its directory and cgroup, goes with the next run.
func testInterrupted(t *testing.T, dir string) {
	var cgroups []string
	for _, sig := range []os.Signal{unix.SIGTERM, unix.SIGKILL} {
		cmd := labRun(t, dir, "stream")
		errs, err := cmd.StderrPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		for buf := make([]byte, 1); ; { // until a measurement is done
			if _, err := errs.Read(buf); err != nil {
				t.Fatalf("%v: it ended before: %v", sig, err)
			}
			if buf[0] == '[' {
				break
			}
		}
		made, err := filepath.Glob(filepath.Join(dir, prefix+"*"))
		if err != nil || len(made) == 0 || !slices.Contains(measure.Cgroups(prefix), filepath.Base(made[len(made)-1])) {
			t.Fatalf("while it runs: directories %q, cgroups %q, %v", made, measure.Cgroups(prefix), err)
		}
		cgroups = append(cgroups, filepath.Base(made[len(made)-1]))
		cmd.Process.Signal(sig)
		cmd.Wait()
		if cmd.ProcessState.Success() {
			t.Errorf("%v: the run ended as if nothing were", sig)
		}
		l := left(t, dir)
		if sig == unix.SIGTERM && len(l) > 0 || slices.ContainsFunc(l, func(s string) bool { return !strings.HasPrefix(s, dir) }) {
			t.Errorf("%v: left: %q", sig, l)
		}
	}
	if out, err := labRun(t, dir, "noisy").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if l := left(t, dir); len(l) > 0 {
		t.Errorf("the run after the killed one: left: %q", l)
	}
	for _, name := range cgroups {
		if slices.Contains(measure.Cgroups(prefix), name) {
			t.Errorf("the cgroup %s is left", name)
		}
	}
}

// A disk that is too small is refused with what is needed.
func TestRoom(t *testing.T) {
	err := room(&options{dir: t.TempDir(), memory: math.MaxInt64 / 100})
	if err == nil || !strings.Contains(err.Error(), "-dir") {
		t.Errorf("%v", err)
	}
	if err := room(&options{dir: "/nonexistent", memory: quickMemory}); err == nil {
		t.Error("a directory that isn't there has room")
	}
}
