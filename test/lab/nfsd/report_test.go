package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sluice/test/bench/load"
	"sluice/test/lab/nfsd/job"
)

func sample(row, server string, round int, rate, machineCPU, ownCPU float64) job.Event {
	return job.Event{Sample: &job.Sample{Row: row, Server: server, Round: round, OwnCPU: ownCPU,
		Result: load.Result{Calls: 10, OpsPerSec: rate, CPUPerOp: machineCPU}}}
}

// feed gives events to a document of two rows and three rounds.
func feed(t *testing.T, events ...job.Event) *document {
	t.Helper()
	d := &document{Rounds: 3}
	table := d.add(counted, []job.Row{{Name: "a", Work: "work a"}, {Name: "b", Work: "work b"}})
	for _, e := range events {
		if err := table.take(e); err != nil {
			t.Fatal(err)
		}
	}
	return d
}

// whole is a row with three rounds, whose order changes.
func whole(row string) []job.Event {
	return []job.Event{
		sample(row, job.Kernel, 0, 1234, 8, 4), sample(row, job.SluiceName, 0, 2468, 4, 1),
		sample(row, job.SluiceName, 1, 617, 4, 2), sample(row, job.Kernel, 1, 1234, 8, 4),
		sample(row, job.Kernel, 2, 1234, 8, 4), sample(row, job.SluiceName, 2, 4936, 6, 4),
	}
}

func TestRatios(t *testing.T) {
	d := feed(t, append(whole("a"), whole("b")...)...)
	for _, r := range d.Tables[0].Rows {
		if r.Rate != (ratio{2, .5, 4}) || r.CPU != (ratio{.5, .5, .75}) || r.Own != (ratio{.5, .25, 1}) || r.Failed != "" {
			t.Errorf("%+v", r)
		}
	}
	page := d.markdown()
	if !strings.Contains(page, "| work a | 2.00 (0.50-4.00) | 0.50 (0.50-0.75) | 0.50 (0.25-1.00) |\n") {
		t.Errorf("the table lacks a row:\n%s", page)
	}
	if strings.Contains(page, "1234") {
		t.Error("the page has a rate of an emulated machine")
	}
	if err := d.finish(""); err != nil {
		t.Error(err)
	}
	if got := summarize([]float64{4, 1, 2, 3}); got != (ratio{2.5, 1, 4}) {
		t.Errorf("an even number: %v", got)
	}
}

// No failure is taken for a result.
func TestFailures(t *testing.T) {
	wrong := whole("a")
	wrong[1].Sample.Result.Errors, wrong[1].Sample.Result.FirstError = 2, "NFS status 5"
	idle := whole("a")
	idle[0].Sample.Result.OpsPerSec = 0
	for name, c := range map[string]struct {
		events []job.Event
		want   string
	}{
		"calls failed":       {wrong, "sluice: 2 of 10 calls failed: NFS status 5"},
		"a row failed":       {[]job.Event{{Failed: &job.Failed{Row: "a", Error: "no reply"}}}, "no reply"},
		"rounds are missing": {whole("a")[:4], "not measured"},
		"no calls were made": {idle, "a round was not measured"},
	} {
		d := feed(t, append(whole("b"), c.events...)...)
		if err := d.finish(""); err == nil || !strings.Contains(err.Error(), "counted, a: "+c.want) || strings.Contains(err.Error(), "b: ") {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
		if page := d.markdown(); !strings.Contains(page, "| work a [1] |") || !strings.Contains(page, "failed: "+c.want) {
			t.Errorf("%s: the page does not say it:\n%s", name, page[:800])
		}
	}
	for name, e := range map[string]job.Event{
		"the whole run fails": {Failed: &job.Failed{Error: "mount /dev/vda"}},
		"an unknown row":      sample("c", job.Kernel, 0, 1, 1, 1),
		"a round too many":    sample("a", job.Kernel, 3, 1, 1, 1),
		"a round left out":    sample("a", job.Kernel, 1, 1, 1, 1),
		"an unknown server":   sample("a", "other", 0, 1, 1, 1),
	} {
		d := &document{Rounds: 3}
		if err := d.add(parallel, []job.Row{{Name: "a"}}).take(e); err == nil {
			t.Errorf("%s is no error", name)
		}
	}
}

func TestReadingIsKept(t *testing.T) {
	out := filepath.Join(t.TempDir(), "new", "page")
	write := func() string {
		t.Helper()
		if err := feed(t, append(whole("a"), whole("b")...)...).write(out); err != nil {
			t.Fatal(err)
		}
		b, err := os.ReadFile(out + ".md")
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	first := write()
	const mine = "\n## Reading\n\nThe kernel is ahead.\n"
	if err := os.WriteFile(out+".md", []byte("# old\n"+mine), 0o644); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if got := write(); got != first+mine {
			t.Errorf("page: %q", got)
		}
	}
}

func TestPick(t *testing.T) {
	all, err := job.Pick("all")
	if err != nil || len(all) < 10 {
		t.Fatalf("%d rows, %v", len(all), err)
	}
	seen := map[string]bool{}
	for _, r := range all {
		if seen[r.Name] || seen[r.Work] {
			t.Errorf("%s: %s is there twice", r.Name, r.Work)
		}
		seen[r.Name], seen[r.Work] = true, true
	}
	if two, err := job.Pick("create,read1m41"); err != nil || len(two) != 2 || two[0].Op != "create" || !two[1].V41 {
		t.Errorf("%+v, %v", two, err)
	}
	for _, bad := range []string{"", "create,", "nonsense"} {
		if rows, err := job.Pick(bad); err == nil {
			t.Errorf("%q: %v", bad, rows)
		}
	}
}
