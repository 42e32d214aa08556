// Command testsum runs `go test -json` and prints what a person wants to see:
// go test's own closing line of each package, each failure with its output,
// each skip with its reason, the tests of slow packages as they end, and a
// closing count. With -strict a skip is a failure.
//
//	testsum [-strict] [go test arguments]...
//
// It is the one way the Makefile runs tests, so that neither a skip nor a
// package without a result can go unseen.
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"
)

// event is a line of `go test -json` (go doc test2json).
type event struct {
	Action     string
	Package    string
	ImportPath string
	Test       string
	Output     string
	Elapsed    float64
}

// slow is how long a test takes whose end is worth a line.
const slow = 5.0

// summary collects events.
type summary struct {
	out     io.Writer
	output  map[string][]string // of tests and packages under way, by "package test"
	parents map[string]bool     // tests that have subtests, likewise
	passed  int
	failed  []string
	skipped []string
	strict  bool
}

func main() {
	strict, args := false, os.Args[1:]
	if len(args) > 0 && args[0] == "-strict" {
		strict, args = true, args[1:]
	}
	os.Exit(run(strict, args))
}

func run(strict bool, args []string) int {
	// An interrupt reaches go test too, which ends the tests; then we end.
	signal.Ignore(syscall.SIGINT)
	cmd := exec.Command("go", append([]string{"test", "-json"}, args...)...)
	cmd.Stderr = os.Stderr
	pipe, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "testsum:", err)
		return 1
	}
	s := newSummary(os.Stdout, strict)
	began := time.Now()
	s.read(pipe)
	err = cmd.Wait()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		fmt.Fprintln(os.Stderr, "testsum:", err)
	}
	ok := s.close(time.Since(began))
	if err != nil || !ok {
		return 1
	}
	return 0
}

func newSummary(out io.Writer, strict bool) *summary {
	return &summary{out: out, strict: strict, output: map[string][]string{}, parents: map[string]bool{}}
}

// read takes in all events; lines that are none pass through.
func (s *summary) read(r io.Reader) {
	in := bufio.NewReader(r)
	for {
		line, err := in.ReadString('\n')
		if line != "" {
			var e event
			if json.Unmarshal([]byte(line), &e) != nil {
				fmt.Fprint(s.out, line)
			} else {
				s.add(e)
			}
		}
		if err != nil {
			return
		}
	}
}

func (s *summary) add(e event) {
	key := e.Package + " " + e.Test
	switch e.Action {
	case "build-output":
		fmt.Fprint(s.out, e.Output)
	case "run":
		if i := strings.LastIndexByte(e.Test, '/'); i >= 0 {
			s.parents[e.Package+" "+e.Test[:i]] = true
		}
	case "output":
		if e.Test == "" {
			s.packageOutput(e.Output)
			return
		}
		s.output[key] = append(s.output[key], e.Output)
	case "pass", "fail", "skip":
		if e.Test == "" {
			// What the package printed of itself was printed as it came.
			if e.Action == "fail" && !slices.ContainsFunc(s.failed, func(key string) bool {
				return strings.HasPrefix(key, e.Package+" ")
			}) {
				s.failed = append(s.failed, e.Package) // it did not build, or its process died
			}
			return
		}
		s.ended(e, key)
	}
}

// packageOutput prints go test's closing lines and what a package prints of its
// own, without the words that only -v shows.
func (s *summary) packageOutput(text string) {
	switch strings.TrimSpace(text) {
	case "PASS", "FAIL":
	default:
		fmt.Fprint(s.out, text)
	}
}

// ended counts a test and prints what is worth it. A test with subtests is
// counted by them alone, unless it failed.
func (s *summary) ended(e event, key string) {
	output := s.output[key]
	delete(s.output, key)
	switch e.Action {
	case "pass":
		if !s.parents[key] {
			s.passed++
		}
		if e.Elapsed >= slow {
			fmt.Fprintf(s.out, "    pass %s (%.1f s)\n", e.Test, e.Elapsed)
		}
	case "skip":
		s.skipped = append(s.skipped, key)
		fmt.Fprintf(s.out, "    SKIP %s %s\n", key, reason(output))
	case "fail":
		s.failed = append(s.failed, key)
		fmt.Fprintf(s.out, "    FAIL %s (%.1f s)\n", key, e.Elapsed)
		for _, line := range output {
			if !strings.HasPrefix(line, "=== ") {
				fmt.Fprint(s.out, "        ", line)
			}
		}
	}
}

// reason is the text a skipped test gave.
func reason(output []string) string {
	var b strings.Builder
	for _, line := range output {
		if text := strings.TrimSpace(line); !strings.HasPrefix(text, "=== ") && !strings.HasPrefix(text, "--- ") {
			fmt.Fprintf(&b, "[%s]", text)
		}
	}
	return b.String()
}

// close prints the count and says whether the run was good.
func (s *summary) close(elapsed time.Duration) bool {
	// A test that began and never ended died with its process.
	for _, key := range slices.Sorted(maps.Keys(s.output)) {
		if len(s.failed) > 0 && len(s.output[key]) > 0 {
			fmt.Fprintf(s.out, "    unfinished %s\n", key)
			for _, line := range s.output[key] {
				fmt.Fprint(s.out, "        ", line)
			}
		}
	}
	for _, key := range s.failed {
		fmt.Fprintf(s.out, "FAILED %s\n", key)
	}
	for _, key := range s.skipped {
		fmt.Fprintf(s.out, "SKIPPED %s\n", key)
	}
	fmt.Fprintf(s.out, "in %v:\n%d passed, %d failed, %d skipped\n",
		elapsed.Round(time.Second), s.passed, len(s.failed), len(s.skipped))
	if s.strict && len(s.skipped) > 0 {
		fmt.Fprintln(s.out, "every part is required, and some were skipped")
		return false
	}
	return len(s.failed) == 0 && s.passed > 0
}
