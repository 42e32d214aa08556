package main

import (
	"strings"
	"testing"
	"time"
)

func TestSummary(t *testing.T) {
	const pass = `{"Action":"run","Package":"p","Test":"TestA"}
{"Action":"output","Package":"p","Test":"TestA","Output":"=== RUN   TestA\n"}
{"Action":"pass","Package":"p","Test":"TestA","Elapsed":0.1}
{"Action":"output","Package":"p","Output":"PASS\n"}
{"Action":"output","Package":"p","Output":"ok  \tp\t0.1s\n"}
{"Action":"pass","Package":"p","Elapsed":0.1}
`
	for _, tc := range []struct {
		name, events string
		strict, ok   bool
		want         []string
	}{
		{"pass", pass, true, true, []string{"ok  \tp\t0.1s\n", "\n1 passed, 0 failed, 0 skipped\n"}},
		{"skip", pass + `{"Action":"output","Package":"p","Test":"TestB","Output":"    x_test.go:1: not root\n"}
{"Action":"skip","Package":"p","Test":"TestB"}`, false, true,
			[]string{"SKIP p TestB [x_test.go:1: not root]", "1 passed, 0 failed, 1 skipped"}},
		{"strict skip", pass + `{"Action":"skip","Package":"p","Test":"TestB"}`, true, false,
			[]string{"SKIPPED p TestB", "some were skipped"}},
		{"subtests", `{"Action":"run","Package":"p","Test":"TestA"}
{"Action":"run","Package":"p","Test":"TestA/x"}
{"Action":"run","Package":"p","Test":"TestA/y"}
{"Action":"pass","Package":"p","Test":"TestA/x"}
{"Action":"pass","Package":"p","Test":"TestA/y","Elapsed":7}
{"Action":"pass","Package":"p","Test":"TestA"}`, true, true,
			[]string{"pass TestA/y (7.0 s)", "2 passed, 0 failed"}},
		{"fail", pass + `{"Action":"output","Package":"p","Test":"TestB","Output":"    x_test.go:1: broken\n"}
{"Action":"fail","Package":"p","Test":"TestB"}
{"Action":"fail","Package":"p"}`, false, false, []string{"x_test.go:1: broken", "FAILED p TestB", "1 passed, 1 failed"}},
		{"build", `{"ImportPath":"p","Action":"build-output","Output":"x.go:1: no\n"}
{"Action":"fail","Package":"p","FailedBuild":"p"}`, false, false, []string{"x.go:1: no", "FAILED p\n", "0 passed, 1 failed"}},
		{"died", `{"Action":"run","Package":"p","Test":"TestA"}
{"Action":"output","Package":"p","Test":"TestA","Output":"last words\n"}
{"Action":"fail","Package":"p"}`, false, false, []string{"unfinished p TestA", "last words", "FAILED p\n"}},
		{"nothing", "", false, false, []string{"0 passed, 0 failed, 0 skipped"}},
		{"no event", "plain text\n" + pass, false, true, []string{"plain text\n"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var out strings.Builder
			s := newSummary(&out, tc.strict)
			s.read(strings.NewReader(tc.events))
			if ok := s.close(time.Second); ok != tc.ok {
				t.Errorf("good run: %v, want %v", ok, tc.ok)
			}
			for _, want := range tc.want {
				if !strings.Contains(out.String(), want) {
					t.Errorf("no %q in:\n%s", want, out.String())
				}
			}
		})
	}
}
