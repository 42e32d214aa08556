// Plan of this file: sluice bench as people call it, against a server with
// traffic of its own. What a run counts is the business of pkg/bench's tests.

package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"sluice/pkg/bench"
	"sluice/test/nfscall"
)

// load is the command line of a short run against l.
func (l *live) load(more ...string) []string {
	args := append([]string{"bench"}, more...)
	return append(args, "--server", l.addr, "--path", l.dir1(), "--dataset", "1MiB", "--size", "1MiB", "--bs", "64k")
}

// dir1 is the first export.
func (l *live) dir1() string { return l.daemon.dir }

// nothingLeft fails when a benchmark's files are in the export.
func (l *live) nothingLeft(t *testing.T) {
	t.Helper()
	if left, _ := filepath.Glob(filepath.Join(l.dir1(), "sluice-bench-*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

// reported runs a command with --json and decodes what it prints.
func reported(t *testing.T, args ...string) *bench.Report {
	t.Helper()
	status, stdout, stderr := command(t, append(args, "--json")...)
	if status != 0 || stderr != "" {
		t.Fatalf("sluice %s: status %d, %q", strings.Join(args, " "), status, stderr)
	}
	var r bench.Report
	dec := json.NewDecoder(strings.NewReader(stdout))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&r); err != nil || r.Format != bench.Format || len(r.Runs) == 0 || r.Machine.Cores == 0 || !r.Machine.Local {
		t.Fatalf("%v, %+v", err, r)
	}
	return &r
}

func TestBench(t *testing.T) {
	l := newLive(t)
	for _, op := range []string{"read", "write", "mixed"} {
		status, stdout, stderr := command(t, l.load(op, "--admin", l.socket(), "--jobs", "2")...)
		want := `^` + strings.ToUpper(op) + ` of 127\.0\.0\.1:\d+` + regexp.QuoteMeta(l.dir1()) + ` \(sluice \S+\) by v3: 2 jobs x 8 calls of 64 KiB, sequential.*
dataset: 1 MiB in 2 files, over 2 connections

bandwidth +[0-9.]+ [MG]B/s, \d+ calls/s, [0-9.]+ s
(?s:.*)server CPU +[0-9.]+ s/GB: .*
own CPU .*
page cache .*
(?s:.*)served buffered +\d+ (?:READ|WRITE)s?
(?s:.*) CALLS +MEAN +P50 +P99 +P99\.9 +MAX
(?:READ +\d+(?: +[0-9.]+ [mu]?s){5}
)?(?:WRITE +\d+(?: +[0-9.]+ [mu]?s){5}
)?$`
		if status != 0 || !regexp.MustCompile(want).MatchString(stdout) {
			t.Errorf("%s: status %d, %s\n%s", op, status, stderr, stdout)
		}
		if !regexp.MustCompile(`(?m)^running: 1 MiB$`).MatchString(stderr) && op != "mixed" && strings.Contains(stderr, "running") {
			t.Errorf("%s: progress:\n%s", op, stderr)
		}
	}
	r := reported(t, l.load("--protocol", "4.1", "--existing", "", "--verify", "--label", "a server", "--memory", "4MiB")...)
	if r.ServerKind != "a server" || r.Workload.Protocol != "4.1" || r.Runs[0].Bytes != 1<<20 || r.Runs[0].CPU != nil || r.Runs[0].Cache == nil || r.Machine.FileSystem != "xfs" {
		t.Errorf("%+v", r)
	}
	r = reported(t, "bench", "--server", l.addr, "--path", l.dir1(), "--dataset", "0.5x", "--memory", "4MiB", "--size", "64k", "--bs", "4k")
	if r.Workload.DatasetBytes != 2<<20 {
		t.Errorf("half of 4 MiB is %d", r.Workload.DatasetBytes)
	}
	l.nothingLeft(t)
}

func TestBenchCompare(t *testing.T) {
	l := newLive(t)
	l.do(t, "mode", "read", "dontcache")
	html := filepath.Join(t.TempDir(), "r.html")
	args := append(l.load("compare"), "--admin", l.socket(), "--modes", "buffered,direct", "--blocks", "2")
	r := reported(t, append(args, "--html", html, "--drop-caches")...)
	if len(r.Runs) != 4 || r.Comparison == nil || len(r.Comparison.Modes) != 2 || r.Comparison.Modes[1].Mode != "direct" || r.Comparison.Modes[1].Runs != 2 || !r.Workload.CachesDropped {
		t.Errorf("%d runs, %+v", len(r.Runs), r.Comparison)
	}
	for i, want := range []string{"buffered 1 1", "direct 1 2", "direct 2 1", "buffered 2 2"} {
		run := &r.Runs[i]
		mode, _, _ := strings.Cut(want, " ")
		if got := run.Mode + " " + string(rune('0'+run.Block)) + " " + string(rune('0'+run.Order)); got != want {
			t.Errorf("run %d is %s, want %s", i, got, want)
		}
		if len(run.Served) != 1 || run.Served[0].Mode != mode || run.Served[0].Calls != 16 {
			t.Errorf("run %d in mode %s was served %+v", i, mode, run.Served)
		}
	}
	if page, err := os.ReadFile(html); err != nil || !bytes.Contains(page, []byte("<svg")) {
		t.Errorf("the page: %v, %d bytes", err, len(page))
	}
	l.want(t, `.*\nserver +dontcache +buffered\n.*`, "mode")

	// An export's own mode hides the server's: it has to be named.
	l.do(t, "mode", "read", "direct", "--export", l.dir1())
	if status, _, stderr := command(t, args...); status != exitFailed || !strings.Contains(stderr, "compare with --export "+l.dir1()) {
		t.Errorf("status %d, %s", status, stderr)
	}
	r = reported(t, append(args, "--export", l.dir1())...)
	if len(r.Runs) != 4 {
		t.Errorf("%d runs", len(r.Runs))
	}
	l.want(t, `.*\nserver +dontcache +buffered.*\n`+regexp.QuoteMeta(l.dir1())+` +direct +default.*`, "mode")
	// So does a client's.
	l.do(t, "mode", "read", "direct", "--client", "127.0.0.0/8")
	if status, _, stderr := command(t, append(args, "--export", l.dir1())...); status != exitFailed || !strings.Contains(stderr, "sluice mode read default --client 127.0.0.0/8") {
		t.Errorf("status %d, %s", status, stderr)
	}
	l.do(t, "mode", "read", "default", "--client", "127.0.0.0/8")
	l.do(t, "mode", "read", "direct", "--client", "192.0.2.0/24")
	status, stdout, stderr := command(t, append(l.load("compare"), "--admin", l.socket(), "--modes", "buffered,direct", "--blocks", "1", "--export", l.dir1())...)
	if status != 0 || !regexp.MustCompile(`(?m)^MODE +RUNS +BANDWIDTH .*\nbuffered +1 .* 1\.00 .*\ndirect +1 `).MatchString(stdout) || !strings.Contains(stderr, "block 1 of 1, run 2 of 2, direct: ") {
		t.Errorf("status %d, %s\n%s", status, stderr, stdout)
	}
	l.nothingLeft(t)
}

// TestBenchIsInterrupted: by Ctrl-C or SIGTERM; the files are removed, and the
// modes as they were.
func TestBenchIsInterrupted(t *testing.T) {
	l := newLive(t)
	for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM} {
		for _, args := range [][]string{{"bench"}, {"bench", "compare", "--modes", "direct,dontcache", "--blocks", "9"}} {
			cmd := self(nil, append(args, "--server", l.addr, "--path", l.dir1(), "--admin", l.socket(), "--dataset", "2MiB", "--jobs", "2", "--time", "1h", "--protocol", "4.1")...)
			var out output
			cmd.Stdout, cmd.Stderr = &out, &out
			nfscall.Must(t, cmd.Start())
			waitFor(t, "the run", func() bool { return strings.Contains(out.String(), "running: 1h0m0s") })
			nfscall.Must(t, cmd.Process.Signal(sig))
			cmd.Wait()
			if cmd.ProcessState.ExitCode() != exitFailed || !strings.Contains(out.String(), "sluice: interrupted\n") {
				t.Errorf("%v after %v: %v\n%s", args, sig, cmd.ProcessState, &out)
			}
			l.nothingLeft(t)
			l.want(t, `.*\nserver +buffered +buffered.*`, "mode")
			l.want(t, `SESSION .*\n`, "sessions")
		}
	}
}

func TestBenchRefuses(t *testing.T) {
	for _, tc := range []struct {
		args []string
		want string
	}{
		{[]string{"bench"}, "--path is needed"},
		{[]string{"bench", "erase", "--path", "/x"}, `the load is read, write or mixed, not "erase"`},
		{[]string{"bench", "read", "write", "--path", "/x"}, `unexpected argument "write"`},
		{[]string{"bench", "--path", "/x", "--bs", "large"}, `--bs: "large" is not a size`},
		{[]string{"bench", "--path", "/x", "--bs", "5MiB"}, "--bs: 5 MiB is more than 4 MiB"},
		{[]string{"bench", "--path", "/x", "--jobs", "0"}, "--jobs: 0 is not a number from 1 on"},
		{[]string{"bench", "--path", "/x", "--jobs", "2000"}, "--jobs: 2000 is not between 1 and 1024"},
		{[]string{"bench", "--path", "/x", "--iodepth", "many"}, `--iodepth: "many" is not a whole number`},
		{[]string{"bench", "--path", "/x", "--time", "10"}, `--time: "10" is not a time with its unit`},
		{[]string{"bench", "--path", "/x", "--dataset", "0x"}, "--dataset: "},
		{[]string{"bench", "--path", "/x", "--dataset", "2x", "--memory", "much"}, `--memory: "much" is not a size`},
		{[]string{"bench", "--path", "/x", "--protocol", "v2"}, "--protocol"},
		{[]string{"bench", "--path", "/x", "--port", "0"}, "--port: 0 is not a port"},
		{[]string{"bench", "--path", "/x", "--uid", "-1"}, "--uid: -1 is not an ID"},
		{[]string{"bench", "--path", "/x", "--threads", "99"}, "--threads: 99"},
		{[]string{"bench", "--path", "/x", "--html", "/no/such/dir/r.html"}, "--html: /no/such/dir is no directory"},
		{[]string{"bench", "--path", "/x", "--html", "/"}, "--html: / is a directory"},
		{[]string{"bench", "write", "--path", "/x", "--verify"}, "--verify is about READs"},
		{[]string{"bench", "write", "--path", "/x", "--stable", "sometimes"}, "--stable"},
		{[]string{"bench", "--jobs", "3", "compare", "--path", "/x"}, "flags stand behind compare"},
		{[]string{"bench", "compare", "--path", "/x", "--modes", "direct"}, "--modes: name 2 to 16 modes"},
		{[]string{"bench", "compare", "--path", "/x", "--modes", "direct,direct"}, "is named twice"},
		{[]string{"bench", "compare", "--path", "/x", "--modes", "a/b,c"}, "names a mode for reads and one for writes"},
		{[]string{"bench", "compare", "--path", "/x", "--blocks", "0"}, "--blocks: 0"},
	} {
		status, stdout, stderr := command(t, tc.args...)
		if status != exitUsage || stdout != "" || !strings.Contains(stderr, tc.want) || !strings.Contains(stderr, "--help`\n") {
			t.Errorf("%v: status %d, %q, want %q", tc.args, status, stderr, tc.want)
		}
	}
	none := filepath.Join(t.TempDir(), "none.sock")
	for _, tc := range []struct {
		args []string
		want string
	}{
		{[]string{"bench", "--server", "127.0.0.1:1", "--path", "/x"}, "no NFS server answers at 127.0.0.1:1"},
		{[]string{"bench", "--path", "/x", "--admin", none}, "no server's admin socket at " + none},
		{[]string{"bench", "--path", "/x", "--pid", "2147483647"}, "--pid: processor time of process 2147483647"},
		{[]string{"bench", "compare", "--path", "/x", "--admin", none}, "start `sluice serve`"},
		{[]string{"bench", "--path", "/x", "--dataset", "2x", "--admin", none}, none},
	} {
		status, stdout, stderr := command(t, tc.args...)
		if status != exitFailed || stdout != "" || !strings.Contains(stderr, tc.want) {
			t.Errorf("%v: status %d, %q, want %q", tc.args, status, stderr, tc.want)
		}
	}
}

func TestBenchTellsOfUnknownModesBeforeItPrepares(t *testing.T) {
	l := newLive(t)
	status, stdout, stderr := command(t, append(l.load("compare"), "--admin", l.socket(), "--modes", "buffered,sideways")...)
	if status != exitFailed || stdout != "" || !strings.Contains(stderr, "--modes: sideways: ") || strings.Contains(stderr, "preparing") {
		t.Errorf("status %d, %s", status, stderr)
	}
	l.want(t, `.*\nserver +buffered +buffered.*`, "mode")
	status, _, stderr = command(t, append(l.load("compare"), "--admin", l.socket(), "--export", "/nowhere")...)
	if status != exitFailed || !strings.Contains(stderr, "/nowhere") || strings.Contains(stderr, "could not be set again") {
		t.Errorf("an export that isn't there: status %d, %q; nothing was changed, so there is nothing to set again", status, stderr)
	}
}

// TestBenchProgress: a bar on a terminal, a line for each step elsewhere, and
// nothing with --json.
func TestBenchProgress(t *testing.T) {
	steps := []bench.Progress{
		{Step: "preparing", Done: 1 << 20, Total: 4 << 20, Unit: "bytes", BytesPerSecond: 2e9},
		{Step: "running", Done: 0, Total: 2e9, Unit: "time"},
		{Step: "running", Done: 1e9, Total: 2e9, Unit: "time", BytesPerSecond: 3e6},
		{Step: "removing", Done: 2, Total: 2, Unit: "files"},
	}
	for _, tc := range []struct {
		silent, tty bool
		want        string
	}{
		{tty: true, want: `(?s)^.*preparing  2\.00 GB/s  25% \|.*running  3\.0 MB/s  50% \|.*removing.*\r$`},
		{want: `^preparing: 4 MiB\nrunning: 2s\nremoving: 2 files\n$`},
		{silent: true, want: `^$`},
		{silent: true, tty: true, want: `^$`},
	} {
		var out bytes.Buffer
		p := &progress{w: &out, silent: tc.silent, tty: tc.tty}
		for _, s := range steps {
			if tc.tty {
				time.Sleep(250 * time.Millisecond) // the bar is drawn five times a second at most
			}
			p.step(s)
		}
		p.done()
		if !regexp.MustCompile(tc.want).MatchString(out.String()) {
			t.Errorf("silent %t, terminal %t: %q", tc.silent, tc.tty, out.String())
		}
	}
	var out bytes.Buffer
	p := &progress{w: &out}
	on := p.run(2, 3)
	on("direct", 1, 2, nil)
	p.step(steps[1])
	on("direct", 1, 2, &bench.Run{BytesPerSecond: 1.5e9})
	p.done()
	if want := "block 1 of 2, run 2 of 3, direct: running: 2s\nblock 1 of 2, run 2 of 3, direct: 1.50 GB/s\n"; out.String() != want {
		t.Errorf("%q, want %q", out.String(), want)
	}
}

// TestComparisonTable: an interval is in its median's unit, and a mode that never ran has no figures.
func TestComparisonTable(t *testing.T) {
	var out bytes.Buffer
	printComparison(&out, &bench.Comparison{Modes: []bench.ModeSummary{
		{Mode: "slow", Runs: 2, BytesPerSecond: bench.Interval{Median: 550e6, Low: 470e6, High: 1200e6}},
		{Mode: "fast", Runs: 2, BytesPerSecond: bench.Interval{Median: 2e9, Low: 900e6, High: 3e9}},
		{Mode: "never"},
	}})
	for _, want := range []string{"\nslow\t2\t550.0 MB/s\t470.0-1200.0\t", "\nfast\t2\t2.00 GB/s\t0.90-3.00\t", "\nnever\t0\t-\t-\t-\t-\t-\t-\t-\t-\t-\t-\t0\n"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, out.String())
		}
	}
}
