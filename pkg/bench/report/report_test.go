package report

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"html"
	"math"
	"regexp"
	"strings"
	"testing"

	"sluice/pkg/bench"
	"sluice/test/report/sample"
)

// write returns the page of a report.
func write(t *testing.T, r *bench.Report) string {
	t.Helper()
	var b bytes.Buffer
	if err := Write(&b, r); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// headings are the sections of a page, by id.
func headings(page string) []string {
	var ids []string
	for _, m := range regexp.MustCompile(`<h2 id="([^"]*)"`).FindAllStringSubmatch(page, -1) {
		ids = append(ids, m[1])
	}
	return ids
}

func TestEveryReportHasItsSections(t *testing.T) {
	const common, end = "how summary ", " what runs"
	for _, c := range []struct {
		name    string
		in      *bench.Report
		want    string
		charts  int // drawings: two sizes of each
		missing int
	}{
		{"one run", sample.Single(), common + "latency-read time cpu cache" + end, 8, 0},
		{"READ and WRITE", sample.Mixed(), common + "latency-read latency-write time cpu cache" + end, 10, 0},
		{"four modes", sample.Comparison(3, "buffered", "dontcache", "direct", "auto"), common + "bandwidth latency-read time cpu cache" + end, 10, 0},
		{"no run", sample.Empty(), common + "what", 0, 0},
		{"nothing that may be missing", sample.Bare(), common + "bandwidth latency-read time cpu cache" + end, 2, 4},
		{"a day", sample.Long(), common + "latency-read time cpu cache" + end, 8, 0},
		{"no numbers", sample.Broken(), common + "bandwidth latency-read time cpu cache" + end, 10, 0},
		{"hostile", sample.Hostile("x"), common + "bandwidth latency-read time cpu cache" + end, 10, 0},
		{"more modes than drawn", sample.Many(40), common + "bandwidth latency-read time cpu cache" + end, 10, 0},
		{"an empty report", &bench.Report{}, common + "what", 0, 0},
		{"an empty comparison", &bench.Report{Comparison: &bench.Comparison{}, Runs: make([]bench.Run, 1)}, common + "latency-read time cpu cache" + end, 0, 4},
	} {
		t.Run(c.name, func(t *testing.T) {
			page := write(t, c.in)
			if got := strings.Join(headings(page), " "); got != c.want {
				t.Errorf("sections %s, want %s", got, c.want)
			}
			if got := strings.Count(page, `<svg class="chart `); got != c.charts {
				t.Errorf("%d drawings, want %d", got, c.charts)
			}
			if got := strings.Count(page, `class="missing"`); got != c.missing {
				t.Errorf("%d charts missing, want %d", got, c.missing)
			}
			for _, bad := range []string{"NaN", "Inf", "ZgotmplZ", "%!", "<nil>", `""`} {
				if strings.Contains(page, bad) {
					t.Errorf("%s in the page: %.200s", bad, page[strings.Index(page, bad):])
				}
			}
			if len(page) > 2<<20 {
				t.Errorf("%d bytes", len(page))
			}
		})
	}
}

func TestTheStyleIsTheOneThatThePolicyNames(t *testing.T) {
	page := write(t, sample.Single())
	_, rest, _ := strings.Cut(page, "<style>")
	style, _, ok := strings.Cut(rest, "</style>")
	if !ok {
		t.Fatal("no style in the page")
	}
	hash := sha256.Sum256([]byte(style))
	m := regexp.MustCompile(`http-equiv="Content-Security-Policy" content="([^"]*)"`).FindStringSubmatch(page)
	if m == nil {
		t.Fatal("no policy in the page")
	}
	want := "default-src 'none'; style-src 'sha256-" + base64.StdEncoding.EncodeToString(hash[:]) + "'; base-uri 'none'; form-action 'none'"
	if got := html.UnescapeString(m[1]); got != want {
		t.Errorf("policy %s\nwant   %s", got, want)
	}
	if strings.Index(page, m[0]) > strings.Index(page, "<title>") {
		t.Error("the policy comes after something it should cover")
	}
}

// Tags that the template has; whatever else is in a page came from the report.
var tag = regexp.MustCompile(`<[/!]?([a-zA-Z0-9]+)`)

func TestHostileStringsStayText(t *testing.T) {
	known := map[string]bool{}
	for _, m := range tag.FindAllStringSubmatch(pageText, -1) {
		known[m[1]] = true
	}
	page := write(t, sample.Hostile("http://192.0.2.1/leak"))
	for _, m := range tag.FindAllStringSubmatch(page, -1) {
		if !known[m[1]] {
			t.Errorf("an element <%s> that the template does not have", m[1])
		}
	}
	if n := strings.Count(page, "<style"); n != 1 {
		t.Errorf("%d style sheets", n)
	}
	for _, r := range []string{"\x00", "\x1b", "\u202e", "\u2066"} {
		if strings.Contains(page, r) {
			t.Errorf("%q in the page", r)
		}
	}
	if !strings.Contains(page, "&lt;script&gt;") {
		t.Error("the hostile names are not shown at all")
	}
}

func TestTheSummarysFigures(t *testing.T) {
	r := sample.Comparison(3, "buffered", "direct")
	m := &r.Comparison.Modes[1]
	m.BytesPerSecond = bench.Interval{Median: 2.5e9, Low: 2.4e9, High: 2.7e9}
	m.BandwidthRatio = bench.Interval{Median: 0.8, Low: 0.7, High: 0.9}
	m.P99NS = bench.Interval{Median: 37e6, Low: 30e6, High: 40e6}
	m.P99Ratio = bench.Interval{Median: 1.01, Low: 0.9, High: 1.1}
	*m.CPUPerGB = bench.Interval{Median: 0.15, Low: 0.14, High: 0.16}
	*m.CPURatio = bench.Interval{Median: 0.5, Low: 0.4, High: 0.6}
	*m.CacheGrowth = bench.Interval{Median: 3 << 20, Low: 1 << 20, High: 4 << 20}
	row := summary(r, modes(r)).Rows[1]
	var got []string
	for _, i := range []int{0, 1, 4, 7, 8} {
		got = append(got, strings.Join(append([]string{row[i].Text}, row[i].Small...), " "))
	}
	want := []string{"direct", "2.50 GB/s [2.40, 2.70] ×0.80 [0.70, 0.90]", "37.0 ms [30.0, 40.0] ≈ ×1.01 [0.90, 1.10]",
		"0.15 s/GB [0.14, 0.16] ×0.50 [0.40, 0.60]", "+3 MiB [1.00, 4.00]"}
	if strings.Join(got, "; ") != strings.Join(want, "; ") {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if c := summary(r, modes(r)).Caption; strings.Contains(c, "READs") {
		t.Errorf("caption %q", c)
	}
	mixed := sample.Mixed()
	if c := summary(mixed, modes(mixed)).Caption; !strings.Contains(c, "READs") {
		t.Errorf("caption %q", c)
	}
	// Without a comparison: medians of the runs, and no intervals.
	r.Comparison = nil
	r.Runs = r.Runs[:3]
	for i := range r.Runs {
		r.Runs[i].Mode, r.Runs[i].BytesPerSecond = "", float64(i+1)*1e9
	}
	rows := summary(r, modes(r)).Rows
	if len(rows) != 1 || rows[0][0].Text != unnamed || rows[0][1].Text != "2.00 GB/s" || rows[0][1].Small != nil {
		t.Errorf("got %v", rows)
	}
}

func TestErrorsAndLimitsAreSaid(t *testing.T) {
	r := sample.Comparison(1, "buffered", "direct")
	r.Runs[1].Errors, r.Runs[1].FirstError = 12, "READ at 4096: NFS3ERR_IO"
	r.Comparison.Modes[1].Errors = 12
	r.Interrupted = true
	for range mostNotes + 3 {
		r.Notes = append(r.Notes, "a note")
	}
	for len(r.Runs) < mostRuns+1 {
		r.Runs = append(r.Runs, r.Runs[0])
	}
	page := html.UnescapeString(write(t, r))
	for _, want := range []string{"12 calls failed", "READ at 4096: NFS3ERR_IO", "ended before all runs", "3 more notes are in the JSON", "The first 400 of 401 runs"} {
		if !strings.Contains(page, want) {
			t.Errorf("%q is not in the page", want)
		}
	}
	for blocks, want := range map[int]string{1: "a single run", 2: "only 2 runs", 4: "only 4 runs", 5: ""} {
		page := write(t, sample.Comparison(blocks, "buffered", "direct"))
		if got := strings.Contains(page, "Use more blocks"); got != (want != "") || !strings.Contains(page, want) {
			t.Errorf("%d blocks: want %q in the page", blocks, want)
		}
		if got := strings.Contains(page, "≈ ×") || strings.Contains(page, "]</small>"); got != (blocks > 1) {
			t.Errorf("%d blocks: intervals %v", blocks, got)
		}
	}
	if page := write(t, sample.Many(mostModes+1)); !strings.Contains(page, "The charts have the first 32 of 33 modes.") {
		t.Error("modes that are not drawn are not spoken of")
	}
}

type full struct{}

var errFull = errors.New("disk full")

func (full) Write([]byte) (int, error) { return 0, errFull }

func TestAWritersErrorIsReturned(t *testing.T) {
	if err := Write(full{}, sample.Single()); !errors.Is(err, errFull) {
		t.Errorf("got %v", err)
	}
}

func TestDistributions(t *testing.T) {
	side := func(r *bench.Run) *bench.Side { return &r.Reads }
	runs := []*bench.Run{
		{Reads: bench.Side{Latency: bench.Latency{MaxNS: 990}, Histogram: []bench.Bucket{{FromNS: 90, UpToNS: 100, Count: 60}, {FromNS: 900, UpToNS: 1000, Count: 1}}}},
		{Reads: bench.Side{Latency: bench.Latency{MaxNS: 200}, Histogram: []bench.Bucket{{FromNS: 90, UpToNS: 100, Count: 30}, {FromNS: 190, UpToNS: 200, Count: 9}}}},
	}
	d := pool(runs, side)
	if d.calls != 100 || d.least != 90 || d.largest != 990 {
		t.Errorf("%v calls from %v to %v", d.calls, d.least, d.largest)
	}
	for q, want := range map[float64]float64{0.5: 100, 0.9: 100, 0.901: 200, 0.99: 200, 0.999: 990, 1: 990} {
		if got := d.quantile(q); got != want {
			t.Errorf("quantile %v: %v, want %v", q, got, want)
		}
	}
	last := d.curve()[0]
	if last.X != 1 || last.Y != 90 {
		t.Errorf("the curve starts at %v", last)
	}
	for _, p := range d.curve() {
		if p.X < last.X || p.Y < last.Y || p.X > 100 || p.Y > 990 {
			t.Errorf("%v after %v", p, last)
		}
		last = p
	}
	if last.X != 100 || last.Y != 990 {
		t.Errorf("the curve ends at %v", last)
	}
	// What only one call in ten thousand exceeds, a hundred calls do not tell.
	c := latencyChart([]*mode{{Name: "m", runs: runs}}, "READ", side)
	var row []string
	for _, cell := range c.Table.Rows[0] {
		row = append(row, cell.Text)
	}
	if got := strings.Join(row, ", "); got != "m, 100, 100 ns, 100 ns, 200 ns, –, –, 990 ns" {
		t.Errorf("row %s", got)
	}
	if d := pool([]*bench.Run{{}}, side); d.calls != 0 {
		t.Errorf("no bucket, but %v calls", d.calls)
	}
}

func TestProgress(t *testing.T) {
	pts := overTime(&bench.Run{Series: []bench.Sample{{AtSeconds: 1, Bytes: 10}, {AtSeconds: math.NaN(), Bytes: 5}, {AtSeconds: 0.5, Bytes: 5}, {AtSeconds: 3, Bytes: 10}}})
	if len(pts) != 2 || pts[0] != (point{0.5, 10}) || pts[1] != (point{2, 5}) {
		t.Errorf("got %v", pts)
	}
	var long []point
	for i := range 1000 {
		long = append(long, point{float64(i), float64(i % 4)})
	}
	short := thin(long)
	if len(short) > mostPoints || short[0] != (point{1.5, 1.5}) {
		t.Errorf("%d points, the first %v", len(short), short[0])
	}
	mid := middle([][]point{{{1, 1}, {2, 1}, {3, 1}}, {{1, 5}, {2, 5}}, {{1, 9}}, {{1, 3}}})
	if len(mid) != 2 || mid[0] != (point{1, 4}) || mid[1] != (point{2, 3}) {
		t.Errorf("got %v", mid)
	}
}
