// Tests of what the program concludes from measurements.
package main

import (
	"strings"
	"testing"

	"sluice/test/bench/load"
)

func rate(ops, cpu float64) *load.Result { return &load.Result{OpsPerSec: ops, CPUPerOp: cpu} }

func TestSummary(t *testing.T) {
	r := row{work: "w", want: 2, wantCPU: .6}
	rounds := []round{
		{Ganesha: rate(10, 10), Sluice: rate(20, 5), Ratio: 2, CPURatio: .5},
		{Ganesha: rate(10, 10), Sluice: rate(90, 1), Ratio: 9, CPURatio: .1},
		{Ganesha: rate(10, 10), Sluice: rate(10, 5), Ratio: 1, CPURatio: .5},
	}
	for _, c := range []struct {
		name   string
		change func()
		want   string
	}{
		{"the median is reached", func() {}, "yes"},
		{"the median ratio falls short", func() { rounds[0].Ratio = 1.9 }, "no"},
		{"too much CPU", func() { rounds[0].Ratio, rounds[0].CPURatio, rounds[2].CPURatio = 2, .7, .7 }, "no"},
		{"a call failed", func() { rounds[0].CPURatio = .5; rounds[1].Sluice.Errors = 1 }, "no"},
		{"a call of the peer failed", func() { rounds[1].Sluice.Errors, rounds[1].Ganesha.Errors = 0, 1 }, "no"},
	} {
		c.change()
		if o := summary(r, rounds); o.Reached != c.want {
			t.Errorf("%s: reached %q, want %q: %s", c.name, o.Reached, c.want, o.line())
		}
	}
	r.want, r.wantCPU = 0, 0
	rounds[1].Ganesha.Errors = 0
	if o := summary(r, rounds); o.Reached != "-" {
		t.Errorf("nothing wanted: reached %q", o.Reached)
	}
	r.want = 2
	if o := summary(r, []round{{Sluice: rate(20, 5)}}); o.Reached != "no" || len(o.Notes) != 1 {
		t.Errorf("no peer: %s", o.line())
	}
}

func TestPick(t *testing.T) {
	names := func(rows []row) (s []string) {
		seen := map[string]bool{}
		for _, r := range rows {
			if seen[r.name] {
				t.Errorf("%s is there twice", r.name)
			}
			seen[r.name] = true
			s = append(s, r.name)
		}
		return s
	}
	figures, err := pick("figures")
	if err != nil {
		t.Fatal(err)
	}
	extra, err := pick("extra")
	if err != nil {
		t.Fatal(err)
	}
	if all, err := pick("all"); err != nil || len(names(all)) != len(figures)+len(extra) {
		t.Errorf("all: %v, %v", names(all), err)
	}
	if two, err := pick("read1m,idle"); err != nil || strings.Join(names(two), " ") != "read1m idle" {
		t.Errorf("two names: %v, %v", names(two), err)
	}
	if _, err := pick("read1m,nonsense"); err == nil {
		t.Error("an unknown row is no error")
	}
}

func TestMarkdown(t *testing.T) {
	d := document{Rows: []outcome{
		{Work: "a|b", Reached: "yes", Notes: []string{"first", "second\nline"}},
		{Work: "c", Reached: "no", Notes: []string{"third"}},
	}}
	text := d.markdown()
	for _, want := range []string{`| a\|b [1] [2] |`, "| c [3] |", "[2] second line\n", "[3] third\n"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing in:\n%s", want, text)
		}
	}
}

func TestMedian(t *testing.T) {
	for want, v := range map[float64][]float64{1: {1}, 2: {3, 1, 2}, 2.5: {4, 1, 2, 3}} {
		if got := median(v); got != want {
			t.Errorf("median of %v: %g, want %g", v, got, want)
		}
	}
}

func TestOwnSummary(t *testing.T) {
	r := row{work: "w", want: .95}
	rounds := []ownRound{
		{V3: *rate(10, 10), V41: *rate(10, 11), Ratio: .95, CPURatio: 1.1},
		{V3: *rate(10, 10), V41: *rate(20, 10), Ratio: 2, CPURatio: 1},
		{V3: *rate(10, 10), V41: *rate(1, 10), Ratio: .1, CPURatio: 1},
	}
	for _, c := range []struct {
		name   string
		change func()
		want   string
	}{
		{"the median is reached", func() {}, "yes"},
		{"the median falls short", func() { rounds[0].Ratio = .94 }, "no"},
		{"a call failed", func() { rounds[0].Ratio = .95; rounds[2].V3.Errors = 1 }, "no"},
	} {
		c.change()
		if o := ownSummary(r, rounds); o.Reached != c.want {
			t.Errorf("%s: reached %q, want %q: %s", c.name, o.Reached, c.want, o.line())
		}
	}
}
