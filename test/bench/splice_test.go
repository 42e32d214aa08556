// Tests of how the splice experiment runs blocks and what it concludes.
package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"sluice/test/bench/payload"
)

// TestBlock: each way runs once in a block, the order changes, and a disturbed
// block is run again, but not for ever.
func TestBlock(t *testing.T) {
	defer func(old func(*time.Duration) error) { calm = old }(calm)
	calm = func(patience *time.Duration) error {
		*patience -= time.Minute
		return nil
	}
	patience := time.Hour
	var ran []string
	others := 0.
	m := match{}
	for _, name := range []string{"a", "b", "c"} {
		m.ways = append(m.ways, way{name, func() (sample, error) {
			ran = append(ran, name)
			return sample{GBPerSec: float64(name[0]), Others: others}, nil
		}})
	}
	orders := make(map[string]bool)
	for i := range 20 {
		ran = nil
		block, tries, err := m.block(i, &patience)
		if err != nil || tries != 1 || len(block) != 3 || block[0].GBPerSec != 'a' || block[2].GBPerSec != 'c' {
			t.Fatalf("%v, %d tries, %v", block, tries, err)
		}
		orders[strings.Join(ran, "")] = true
		if slices.Sort(ran); strings.Join(ran, "") != "abc" {
			t.Fatalf("ran %v", ran)
		}
	}
	if len(orders) < 4 {
		t.Errorf("20 blocks had the orders %v", orders)
	}
	others = 2 * maxOthers
	if block, tries, err := m.block(0, &patience); err != nil || tries != maxTries || !m.disturbed(block) {
		t.Errorf("disturbed: %d tries, %v", tries, err)
	}
	impatient := 90 * time.Second // enough for two waits
	if _, tries, err := m.block(0, &impatient); err != nil || tries != 3 {
		t.Errorf("disturbed for long: %d tries, %v", tries, err)
	}
	m.kernel = true
	if _, tries, err := m.block(0, &patience); err != nil || tries != 1 {
		t.Errorf("disturbed by itself: %d tries, %v", tries, err)
	}
	broken := errors.New("broken")
	m.ways[1].run = func() (sample, error) { return sample{}, broken }
	if _, _, err := m.block(0, &patience); !errors.Is(err, broken) || !strings.Contains(err.Error(), "b: ") {
		t.Errorf("a run that fails: %v", err)
	}
}

func TestSummarize(t *testing.T) {
	r := matchResult{Ways: []wayResult{{Way: "copy"}, {Way: "splice"}}}
	for i := range 9 { // the machine gets slower, the ratio stays
		speed := float64(10 - i)
		r.Blocks = append(r.Blocks, []sample{{GBPerSec: speed, CPUPerGB: 1 / speed}, {GBPerSec: 2 * speed, CPUPerGB: .5 / speed, InBytes: 7}})
	}
	r.summarize()
	w := r.Ways[1]
	if w.Rate.Median != 2 || w.Rate.Low != 2 || w.Rate.High != 2 || w.CPU.Median != .5 || w.Median.GBPerSec != 12 || w.Median.InBytes != 7 {
		t.Errorf("%+v, %+v, %+v", w, w.Rate, w.CPU)
	}
	if r.Ways[0].Rate != nil || r.Ways[0].Median.GBPerSec != 6 {
		t.Errorf("the base: %+v", r.Ways[0])
	}
}

// TestSpliceDoc: a part that is measured replaces its own section only.
func TestSpliceDoc(t *testing.T) {
	out := filepath.Join(t.TempDir(), "deep", "splice")
	make1 := func(name, fs string) spliceDoc {
		r := matchResult{FS: fs, Work: "READ", Shape: "1x8", Size: 64 << 10, Ways: []wayResult{{Way: "copied"}, {Way: "spliced"}},
			Blocks: [][]sample{{{GBPerSec: 1, CPUPerGB: 1}, {GBPerSec: 3, CPUPerGB: .5}}}}
		r.summarize()
		return spliceDoc{name: {Blocks: 1, Matches: []matchResult{r}}}
	}
	if err := make1("size", "first").save(out); err != nil {
		t.Fatal(err)
	}
	d, err := readSplice(out)
	if err != nil {
		t.Fatal(err)
	}
	d["write"] = make1("write", "second")["write"]
	if err := d.save(out); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(out + ".md")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"| first | READ | 1x8 | 64 KiB | spliced | 3.00 | 0.500 | 3.00 (3.00-3.00) | 0.50 (0.50-0.50) |\n",
		"| second | READ | 1x8 | 64 KiB | spliced | 3.00 | 0.500 | 3.00 (3.00-3.00) | 0.50 (0.50-0.50) | 0 KiB |",
	} {
		if !strings.Contains(string(text), want) {
			t.Errorf("%q is missing in:\n%s", want, text)
		}
	}
	if err := os.WriteFile(out+".json", []byte("{"), 0600); err != nil {
		t.Fatal(err)
	}
	if _, err := readSplice(out); err == nil || !strings.Contains(err.Error(), "splice.json") {
		t.Errorf("a document that is no JSON: %v", err)
	}
	if err := (&bench{o: &options{splice: "nonsense"}}).splice(); err == nil || !strings.Contains(err.Error(), "nonsense") {
		t.Errorf("an unknown part: %v", err)
	}
}

// TestPrepare: what a sink finds is as it has to be, whatever was left.
func TestPrepare(t *testing.T) {
	b := &bench{data: t.TempDir()}
	c := payload.Config{Dir: filepath.Join(b.data, "sink"), Span: 1 << 20}
	have := func() string {
		files, err := filepath.Glob(c.Dir + "/*")
		if err != nil {
			t.Fatal(err)
		}
		s := ""
		for _, f := range files {
			st, err := os.Stat(f)
			if err != nil {
				t.Fatal(err)
			}
			s += fmt.Sprintf("%s:%d ", filepath.Base(f), st.Size()>>20)
		}
		return s
	}
	for _, step := range []struct {
		conns int
		span  int64
		fresh bool
		want  string
	}{
		{4, 1 << 20, false, "0:1 1:1 2:1 3:1 "},
		{1, 3 << 20, false, "0:3 "},
		{2, 3 << 20, true, ""},
		{2, 1 << 20, false, "0:1 1:1 "},
	} {
		c.Conns, c.Span = step.conns, step.span
		if err := b.prepare(c, step.fresh); err != nil {
			t.Fatal(err)
		}
		if got := have(); got != step.want {
			t.Errorf("%+v: %q", step, got)
		}
	}
}
