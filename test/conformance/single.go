// Tests that are run each in a process of its own: a client of the suite's that
// one leaves behind would get in the way of the next.

package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// firstGID is the group of the first test's caller, who is root.
const firstGID = 30000

// single is a test to be run alone, and the results that are taken for it.
type single struct {
	code    string
	results []string
}

// readSingles reads lines "CODE RESULT reason"; one that passes needs no
// reason, and "PASS|FAILURE" is for one that may do either. # begins a comment.
func readSingles(name string) (list []single, err error) {
	b, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	for i, line := range strings.Split(string(b), "\n") {
		f := strings.Fields(line)
		switch {
		case len(f) == 0 || strings.HasPrefix(f[0], "#"):
		case len(f) < 2 || f[1] != "PASS" && len(f) < 3:
			return nil, fmt.Errorf("%s:%d: a test needs its result, and a reason unless that is PASS", name, i+1)
		default:
			list = append(list, single{f[0], strings.Split(f[1], "|")})
		}
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("%s: no tests", name)
	}
	return list, nil
}

// runSingles runs the tests of a list one after the other.
func runSingles(ctx context.Context, o options, minor string) (r report, err error) {
	list, err := readSingles(filepath.Join(o.expected, "single-4."+minor))
	if err != nil {
		return r, err
	}
	r.Differences, r.Others = []string{}, map[string]string{}
	for i, t := range list {
		// Each process numbers its calls from 0. The server would take those
		// that make the tree for copies of the last one's, if they were all of
		// one caller, and not do them.
		o.tests, o.gid = t.code, firstGID+i
		fmt.Fprintf(os.Stderr, "4.%s: %s\n", minor, t.code)
		text, err := run(ctx, o, minor)
		if err != nil {
			return r, fmt.Errorf("%s: %w", t.code, err)
		}
		got, err := parse(bytes.NewReader(text))
		if err != nil {
			return r, fmt.Errorf("%s: %w", t.code, err)
		}
		r.add(t, got)
	}
	return r, nil
}

// add takes one test's result into the report.
func (r *report) add(t single, got outcome) {
	result, failed := got.Others[t.code]
	switch {
	case failed:
		r.Others[t.code] = result
	case got.Passed > 0:
		result = "PASS"
		r.Passed++
	default:
		result = "nothing"
	}
	if !slices.Contains(t.results, result) {
		r.Differences = append(r.Differences, fmt.Sprintf("%s: %s, expected %s", t.code, result, strings.Join(t.results, " or ")))
	}
}
