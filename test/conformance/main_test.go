package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const printed = `INFO   :test.env:Created client to 127.0.0.1, 2049
MKTWO    st_x.testLooksLikeAResult                                : FAILURE
**************************************************
ACC1a    st_access.testReadAll                                    : PASS
RNM21    st_rename.testStale                                      : FAILURE
           should return NFS4_OK, instead got NFS4ERR_STALE
WRT18    st_write.testChange                                      : WARNING
**************************************************
Command line asked for 3 of 264 tests
Of those: 0 Skipped, 1 Failed, 1 Warned, 1 Passed
`

func TestParse(t *testing.T) {
	o, err := parse(strings.NewReader(printed))
	if err != nil || o.Passed != 1 || len(o.Others) != 2 || o.Others["RNM21"] != "FAILURE" || o.Others["WRT18"] != "WARNING" {
		t.Errorf("%+v, %v", o, err)
	}
	for what, text := range map[string]string{
		"no end":     printed[:strings.Index(printed, "Command")],
		"a miscount": strings.Replace(printed, "1 Passed", "2 Passed", 1),
	} {
		if _, err := parse(strings.NewReader(text)); err == nil {
			t.Errorf("%s is no error", what)
		}
	}
}

// A list is compared in both directions.
func TestDifferences(t *testing.T) {
	name := filepath.Join(t.TempDir(), "list")
	list := "# comment\npassed 2\nRNM21 FAILURE not mended yet\nOLD1 FAILURE it was so\nWRT18 FAILURE the clock\n"
	if err := os.WriteFile(name, []byte(list), 0o600); err != nil {
		t.Fatal(err)
	}
	want, err := readList(name)
	if err != nil {
		t.Fatal(err)
	}
	got, err := parse(strings.NewReader(printed))
	if err != nil {
		t.Fatal(err)
	}
	expected := []string{
		"OLD1: passes or was not run, expected FAILURE", "WRT18: WARNING, expected FAILURE", "1 passed, expected 2",
	}
	if d := differences(want, got); !slices.Equal(d, expected) {
		t.Errorf("%q", d)
	}
	if d := differences(got, got); len(d) != 0 {
		t.Errorf("a run differs from itself: %q", d)
	}
	if err := os.WriteFile(name, []byte("X1 FAILURE\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := readList(name); err == nil {
		t.Error("a test may fail without a reason")
	}
}

// Each list in the tree can be read.
func TestLists(t *testing.T) {
	for _, minor := range []string{"0", "1", "2"} {
		o, err := readList("expected-4." + minor)
		if err != nil || o.Passed == 0 {
			t.Errorf("4.%s: %d passed, %v", minor, o.Passed, err)
		}
	}
}

// Tests run alone have lists with the ones that pass, too, and may have more than one result.
func TestSingles(t *testing.T) {
	list, err := readSingles("single-4.0")
	if err != nil || len(list) != 32 {
		t.Errorf("4.0: %d tests, %v", len(list), err)
	}
	name := filepath.Join(t.TempDir(), "list")
	for text, want := range map[string]string{"A1\n": ":1:", "A1 PASS\nA2 FAILURE\n": ":2:", "# nothing\n": "no tests"} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := readSingles(name); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", text, err)
		}
	}
	r := report{outcome: outcome{Others: map[string]string{}}}
	failed := outcome{Others: map[string]string{"A": "FAILURE"}}
	r.add(single{"A", []string{"PASS", "FAILURE"}}, failed)
	r.add(single{"A", []string{"PASS"}}, failed)
	r.add(single{"A", []string{"PASS", "FAILURE"}}, outcome{Passed: 1})
	r.add(single{"A", []string{"FAILURE"}}, outcome{Passed: 1})
	r.add(single{"A", []string{"PASS"}}, outcome{})
	want := []string{"A: FAILURE, expected PASS", "A: PASS, expected FAILURE", "A: nothing, expected PASS"}
	if r.Passed != 2 || !slices.Equal(r.Differences, want) {
		t.Errorf("%d passed, %q", r.Passed, r.Differences)
	}
}

// Progress is told whatever pieces the output comes in.
func TestProgress(t *testing.T) {
	var told strings.Builder
	p := &progress{w: &told, minor: "1"}
	text := strings.Repeat("RNM21    st_rename.testStale    : RUNNING\nRNM21    st_rename.testStale    : PASS\n", 120)
	for i := 0; i < len(text); i += 7 {
		if _, err := p.Write([]byte(text[i:min(i+7, len(text))])); err != nil {
			t.Fatal(err)
		}
	}
	if got, want := told.String(), "4.1: 50 tests begun, now at RNM21\n4.1: 100 tests begun, now at RNM21\n"; got != want {
		t.Errorf("told %q, want %q", got, want)
	}
}
