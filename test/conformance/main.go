// Command conformance runs pynfs, a suite of others that is built elsewhere,
// against a server and compares the results with lists of what is expected.
//
// Plan: the suite exits with 0 whatever fails, so what it prints is read: one
// line a test, and its own count. A list (expected-4.N) names each test that
// does not pass, with its reason, and how many pass. Any difference, better
// ones too, is reported and makes the exit status 1: then the list is to be
// changed. Tests that are to be run alone are in single.go.
package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

// outcome is what one run of the suite, or a list, says.
type outcome struct {
	Minor  string            `json:"minor"`
	Passed int               `json:"passed"`
	Others map[string]string `json:"others"` // result by code, of the tests that did not pass
}

// report is what --json prints for a minor version.
type report struct {
	outcome
	Differences []string `json:"differences"`
	Seconds     float64  `json:"seconds"`
}

type options struct {
	suite, server, export, expected, python, tests string
	limit                                          time.Duration
	single                                         bool
	gid                                            int // of the caller
}

func main() {
	var o options
	var minors string
	var asJSON bool
	flag.StringVar(&o.suite, "suite", "", "`directory` of the built suite")
	flag.StringVar(&o.server, "server", "127.0.0.1:2049", "`address` and port of the server; its leases should be 10 s")
	flag.StringVar(&o.export, "export", "", "exported `path` that is empty and has mode 777; the clients are root, unsquashed")
	flag.StringVar(&o.expected, "expected", "test/conformance", "`directory` of the lists")
	flag.StringVar(&o.python, "python", "/usr/bin/python3", "`interpreter` that has the suite's modules")
	flag.StringVar(&o.tests, "tests", "all", "what to run; other than all, only failures are reported")
	flag.BoolVar(&o.single, "single", false, "run the tests in the list single-4.N instead, each in a process of its own; of 4.0 if -minor is not given")
	flag.StringVar(&minors, "minor", "", "minor `versions`, all if not given")
	flag.DurationVar(&o.limit, "limit", 30*time.Minute, "`time` for one minor version")
	flag.BoolVar(&asJSON, "json", false, "print JSON")
	flag.Parse()
	if o.suite == "" || o.export == "" || flag.NArg() > 0 {
		fmt.Fprintln(os.Stderr, "conformance: name the suite's directory with -suite and the exported path with -export\nexample: make conformance SUITE=/src/pynfs SERVER=127.0.0.1:2049 EXPORT=/srv/pynfs")
		os.Exit(2)
	}
	if minors == "" {
		if minors = "0,1,2"; o.single {
			minors = "0"
		}
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	reports, err := runAll(ctx, o, strings.Split(minors, ","))
	if asJSON {
		json.NewEncoder(os.Stdout).Encode(reports) //nolint:errcheck // nobody is left to tell
	} else {
		print(os.Stdout, reports)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "conformance:", err)
		os.Exit(1)
	}
}

func runAll(ctx context.Context, o options, minors []string) (reports []report, err error) {
	bad := 0
	for _, minor := range minors {
		fmt.Fprintf(os.Stderr, "4.%s: running (some minutes)\n", minor)
		start := time.Now()
		one := runMinor
		if o.single {
			one = runSingles
		}
		r, err := one(ctx, o, minor)
		if err != nil {
			return reports, fmt.Errorf("4.%s: %w", minor, err)
		}
		r.Minor, r.Seconds = minor, time.Since(start).Seconds()
		bad += len(r.Differences)
		reports = append(reports, r)
	}
	if bad > 0 {
		return reports, fmt.Errorf("%d differences from what is expected", bad)
	}
	return reports, nil
}

// runMinor runs a minor version's tests together.
func runMinor(ctx context.Context, o options, minor string) (r report, err error) {
	text, err := run(ctx, o, minor)
	if err != nil {
		return r, err
	}
	if r.outcome, err = parse(bytes.NewReader(text)); err != nil {
		return r, err
	}
	want := outcome{Passed: r.Passed}
	if o.tests == "all" {
		if want, err = readList(filepath.Join(o.expected, "expected-4."+minor)); err != nil {
			return r, err
		}
	}
	r.Differences = differences(want, r.outcome)
	return r, nil
}

// run gives what the suite printed.
func run(ctx context.Context, o options, minor string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, o.limit)
	defer cancel()
	dir, args := "nfs4.1", []string{"-u", "testserver.py", o.server + o.export, "--maketree", "-v", "--showomit", fmt.Sprint("--gid=", o.gid)}
	if minor == "0" {
		dir = "nfs4.0"
	} else {
		args = append(args, "--minorversion="+minor)
	}
	cmd := exec.CommandContext(ctx, o.python, append(args, strings.Fields(o.tests)...)...)
	cmd.Dir = filepath.Join(o.suite, dir)
	var out bytes.Buffer
	cmd.Stdout = io.MultiWriter(&out, &progress{w: os.Stderr, minor: minor})
	cmd.Stderr = cmd.Stdout
	err := cmd.Run()
	if ctx.Err() != nil {
		return nil, fmt.Errorf("stopped: %w; the end of its output:\n%s", ctx.Err(), tail(out.Bytes()))
	}
	if err != nil {
		return nil, fmt.Errorf("the suite failed to run: %w\n%s", err, tail(out.Bytes()))
	}
	return out.Bytes(), nil
}

// progress tells how far the suite is: a line for every 50th test it begins.
type progress struct {
	w     io.Writer
	minor string
	line  []byte // not ended yet
	began int
}

func (p *progress) Write(b []byte) (int, error) {
	for _, c := range b {
		if c != '\n' {
			p.line = append(p.line, c)
			continue
		}
		if m := resultLine.FindSubmatch(p.line); m != nil && string(m[2]) == "RUNNING" {
			if p.began++; p.began%50 == 0 {
				fmt.Fprintf(p.w, "4.%s: %d tests begun, now at %s\n", p.minor, p.began, m[1])
			}
		}
		p.line = p.line[:0]
	}
	return len(b), nil
}

func tail(b []byte) []byte { return b[max(0, len(b)-2000):] }

var (
	resultLine = regexp.MustCompile(`^(\w+)\s+st_\w+\.\w+\s*: (\w+)`)
	countLine  = regexp.MustCompile(`^Of those: (\d+) Skipped, (\d+) Failed, (\d+) Warned, (\d+) Passed`)
)

// parse reads the suite's output. The results stand between two lines of
// asterisks; what comes before tells of the work.
func parse(r io.Reader) (outcome, error) {
	o := outcome{Others: map[string]string{}}
	seen, counted := 0, false
	in := bufio.NewScanner(r)
	in.Buffer(nil, 1<<20)
	for inside := false; in.Scan(); {
		line := in.Text()
		switch m, n := resultLine.FindStringSubmatch(line), countLine.FindStringSubmatch(line); {
		case strings.HasPrefix(line, "**********"):
			inside = !inside
		case inside && m != nil && m[2] == "PASS":
			seen++
		case inside && m != nil:
			o.Others[m[1]] = m[2]
		case n != nil:
			counted = true
			fmt.Sscan(n[4], &o.Passed) //nolint:errcheck // digits
		}
	}
	switch {
	case in.Err() != nil:
		return o, in.Err()
	case !counted:
		return o, errors.New("the suite did not come to its end")
	case seen != o.Passed:
		return o, fmt.Errorf("the suite counts %d passes and prints %d", o.Passed, seen)
	}
	return o, nil
}

// readList reads lines "CODE RESULT reason"; "passed N" is the count, and #
// begins a comment.
func readList(name string) (outcome, error) {
	o := outcome{Others: map[string]string{}}
	b, err := os.ReadFile(name)
	if err != nil {
		return o, err
	}
	for i, line := range strings.Split(string(b), "\n") {
		f := strings.Fields(line)
		switch {
		case len(f) == 0 || strings.HasPrefix(f[0], "#"):
		case f[0] == "passed" && len(f) == 2:
			if _, err := fmt.Sscan(f[1], &o.Passed); err != nil {
				return o, fmt.Errorf("%s:%d: %w", name, i+1, err)
			}
		case len(f) < 3:
			return o, fmt.Errorf("%s:%d: a test that does not pass needs its result and a reason", name, i+1)
		default:
			o.Others[f[0]] = f[1]
		}
	}
	return o, nil
}

// differences lists what is not as expected, in order.
func differences(want, got outcome) []string {
	list := []string{}
	for code, result := range got.Others {
		switch w, ok := want.Others[code]; {
		case !ok:
			list = append(list, fmt.Sprintf("%s: %s, expected to pass", code, result))
		case w != result:
			list = append(list, fmt.Sprintf("%s: %s, expected %s", code, result, w))
		}
	}
	for code, result := range want.Others {
		if _, ok := got.Others[code]; !ok {
			list = append(list, fmt.Sprintf("%s: passes or was not run, expected %s", code, result))
		}
	}
	slices.Sort(list)
	if want.Passed != got.Passed {
		list = append(list, fmt.Sprintf("%d passed, expected %d", got.Passed, want.Passed))
	}
	return list
}

func print(w io.Writer, reports []report) {
	for _, r := range reports {
		fmt.Fprintf(w, "4.%s: %d passed, %d others, in %.0f s\n", r.Minor, r.Passed, len(r.Others), r.Seconds)
		for _, d := range r.Differences {
			fmt.Fprintln(w, "  "+d)
		}
	}
}
