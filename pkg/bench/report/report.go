// Package report writes the result of a benchmark as one HTML file that needs
// nothing else: no network, no script, no other file.
//
// Plan of the package: report.go fills the page, model.go groups the runs by
// mode, charts.go says what each chart shows, draw.go how charts look, canvas.go
// turns them into SVG, palette.go gives modes their colours, format.go writes
// numbers; page.html is the template and style.css its style.
//
// Every string in a report may come from a server or be the name of a path.
// html/template escapes all of them, in the drawings too. Should one get
// through all the same, the page's Content-Security-Policy permits nothing but
// the page's own style sheet, named by its hash.
package report

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"fmt"
	"html/template"
	"io"
	"slices"
	"strings"

	"sluice/pkg/bench"
)

//go:embed page.html
var pageText string

//go:embed style.css
var styleText string

var pageTemplate = template.Must(template.New("page").Parse(pageText))

// Limits of a page; the report's JSON has everything.
const (
	mostModes = 32  // that are drawn; all are in the summary
	mostRuns  = 400 // in the table of runs
	mostNotes = 50
)

// fewRuns of a mode are too few for its interval: the runs of five blocks lie all
// on one side of the true median once in sixteen times, those of three in four.
const fewRuns = 5

// page is what the template is filled with.
type page struct {
	Style     template.CSS
	StyleHash string
	Title     string
	Server    string
	Facts     []fact
	HowTo     []string
	Warnings  []string
	Notes     []string
	Summary   table
	Charts    []chart
	Runs      table
}

// fact is a line of the description of machine and workload.
type fact struct{ Name, Text string }

// Write writes the page for a report to w. Figures that a report lacks are shown
// as missing, with what would have brought them. It fails only if w does.
func Write(w io.Writer, r *bench.Report) error {
	hash := sha256.Sum256([]byte(styleText))
	all := modes(r)
	p := page{
		Style:     template.CSS(styleText),
		StyleHash: base64.StdEncoding.EncodeToString(hash[:]),
		Title:     title(r),
		Server:    shown(r.Server, nameMax),
		Facts:     facts(r),
		HowTo:     howTo(r),
		Warnings:  warnings(r, all),
		Summary:   summary(r, all),
		Runs:      runs(r),
	}
	for i, n := range r.Notes {
		if i == mostNotes {
			p.Notes = append(p.Notes, fmt.Sprintf("%d more notes are in the JSON.", len(r.Notes)-i))
			break
		}
		p.Notes = append(p.Notes, shown(n, 2000))
	}
	p.Charts = charts(r, all[:min(len(all), mostModes)])
	// In one piece: an error of the template, a bug, leaves no half page behind.
	var b bytes.Buffer
	if err := pageTemplate.Execute(&b, p); err != nil {
		return fmt.Errorf("write the report: %w", err)
	}
	_, err := w.Write(b.Bytes())
	return err
}

func charts(r *bench.Report, drawn []*mode) []chart {
	if len(r.Runs) == 0 {
		return nil
	}
	var list []chart
	if len(drawn) > 1 {
		list = append(list, bandwidthChart(drawn))
	}
	reads, writes := sides(r)
	if reads || !writes {
		list = append(list, latencyChart(drawn, "READ", func(r *bench.Run) *bench.Side { return &r.Reads }))
	}
	if writes {
		list = append(list, latencyChart(drawn, "WRITE", func(r *bench.Run) *bench.Side { return &r.Writes }))
	}
	return append(list, timeChart(drawn), cpuChart(drawn), cacheChart(drawn))
}

// sides tells which kinds of calls a report has.
func sides(r *bench.Report) (reads, writes bool) {
	for i := range r.Runs {
		reads = reads || r.Runs[i].Reads.Ops > 0
		writes = writes || r.Runs[i].Writes.Ops > 0
	}
	return reads, writes
}

func title(r *bench.Report) string {
	w := r.Workload
	what := shown(w.Op, 40)
	if w.Op == "mixed" {
		what = fmt.Sprintf("%d%% read", w.ReadPercent)
	}
	t := fmt.Sprintf("%s %s, %s", shown(w.Pattern, 40), what, blockSize(w.BlockSize))
	if r.Comparison != nil {
		t += fmt.Sprintf(", %d modes compared", len(r.Comparison.Modes))
	}
	return t
}

// blockSize is exact, since alignment is what some experiments are about.
func blockSize(n int) string {
	for _, u := range binarySize {
		if s := int(u.size); n >= s && n%s == 0 {
			return count(uint64(n/s)) + " " + u.name
		}
	}
	return count(uint64(max(n, 0))) + " B"
}

func facts(r *bench.Report) []fact {
	var list []fact
	add := func(name, text string) {
		if text != "" {
			list = append(list, fact{name, text})
		}
	}
	w, m := r.Workload, r.Machine
	kind := shown(r.ServerKind, nameMax)
	if m.FileSystem != "" {
		kind = strings.TrimPrefix(kind+", exporting "+shown(m.FileSystem, nameMax), ", ")
	}
	add("Server software", kind)
	add("Protocol", "NFS "+shown(w.Protocol, 40))
	load := fmt.Sprintf("%s jobs with %s calls in flight each, on %s connections",
		count(uint64(max(w.Jobs, 0))), count(uint64(max(w.Depth, 0))), count(uint64(max(w.Connections, 0))))
	add("Load", load)
	calls := fmt.Sprintf("%s %s, %s each", shown(w.Pattern, 40), shown(w.Op, 40), blockSize(w.BlockSize))
	if w.Op == "mixed" {
		calls += fmt.Sprintf(", %d%% of them READs", w.ReadPercent)
	}
	if w.Misalignment != 0 {
		calls += fmt.Sprintf(", offsets shifted by %d bytes", w.Misalignment)
	}
	if w.Stable != "" {
		calls += ", WRITEs " + shown(w.Stable, 40)
	}
	add("Calls", calls)
	data := size(float64(w.DatasetBytes))
	if m.ServerMemoryBytes > 0 {
		data += fmt.Sprintf(", %s times the server's memory of %s", digits(float64(w.DatasetBytes)/float64(m.ServerMemoryBytes)), size(float64(m.ServerMemoryBytes)))
	}
	add("Dataset", data+fmt.Sprintf(", in %s files", count(uint64(max(w.Files, 0)))))
	var length []string
	if w.Seconds > 0 {
		length = append(length, short(w.Seconds)+" s")
	}
	if w.MaxBytes > 0 {
		length = append(length, "at most "+size(float64(w.MaxBytes)))
	}
	if w.WarmupSeconds > 0 {
		length = append(length, "after "+short(w.WarmupSeconds)+" s that are not counted")
	}
	add("Each run", strings.Join(length, ", "))
	if w.Blocks > 0 {
		blocks := fmt.Sprintf("%d, each with every mode once, in an order that changes", w.Blocks)
		if w.CachesDropped {
			blocks += "; the dataset was dropped from the page cache before each run"
		}
		add("Blocks", blocks)
	}
	if w.Verify {
		add("Data", "what READs brought was compared with what had been written")
	}
	where := "Load made on"
	if m.Local {
		where = "Server and load on one machine"
	}
	machine := []string{shown(m.CPU, nameMax)}
	if m.Cores > 0 {
		machine = append(machine, fmt.Sprintf("%d cores", m.Cores))
	}
	if m.MemoryBytes > 0 {
		machine = append(machine, size(float64(m.MemoryBytes))+" of memory")
	}
	if m.Kernel != "" {
		machine = append(machine, "kernel "+shown(m.Kernel, nameMax))
	}
	add(where, strings.Join(slices.DeleteFunc(machine, func(s string) bool { return s == "" }), ", "))
	made := "sluice bench " + shown(r.Version, 100)
	if !r.Started.IsZero() {
		made += ", " + r.Started.UTC().Format("2 January 2006, 15:04 UTC")
	}
	add("Made by", made)
	return list
}

// howTo are the three sentences on how to read the page.
func howTo(r *bench.Report) []string {
	curve := "In a latency chart, go to the right for rarer calls: at 99% one call in a hundred took longer than the curve says, and the right end is the slowest of all."
	cpu := "CPU is the server's time for each 10⁹ bytes moved, so that modes of different bandwidth can be compared."
	if r.Machine.Local {
		cpu = "CPU is the server's time for each 10⁹ bytes moved; server and load shared one machine, so that bandwidth is bounded by the CPU of both."
	}
	if r.Comparison == nil {
		return []string{"The load is a closed loop: a call is sent when an earlier one has been answered, so that bandwidth is what is in flight divided by its latency.", curve, cpu}
	}
	return []string{
		fmt.Sprintf("Figures are medians over the runs of a mode, and brackets hold their %s%% interval; × is the ratio to the first mode, and with ≈ its interval includes 1: no difference was shown.", short(100*r.Comparison.Confidence)),
		curve, cpu}
}

func warnings(r *bench.Report, all []*mode) []string {
	var list []string
	if len(r.Runs) == 0 {
		list = append(list, "No run was finished: there is nothing to show.")
	}
	if r.Interrupted {
		list = append(list, "The command was ended before all runs were done.")
	}
	failed := uint64(0)
	first := ""
	for _, run := range r.Runs {
		failed += run.Errors
		if first == "" {
			first = run.FirstError
		}
	}
	if failed > 0 {
		s := fmt.Sprintf("%s calls failed or brought wrong data; they are not in the figures.", count(failed))
		if first != "" {
			s += " The first: " + shown(first, 500)
		}
		list = append(list, s)
	}
	if r.Comparison != nil && len(all) > 0 {
		fewest := slices.MinFunc(all, func(a, b *mode) int { return cmp.Compare(len(a.runs), len(b.runs)) })
		switch n := len(fewest.runs); {
		case n == 1:
			list = append(list, "A mode has a single run: there is no interval, and a ratio may be chance. Use more blocks.")
		case n > 1 && n < fewRuns:
			list = append(list, fmt.Sprintf("A mode has only %d runs: intervals of fewer than %d are too narrow to be relied on. Use more blocks.", n, fewRuns))
		}
	}
	if len(all) > mostModes {
		list = append(list, fmt.Sprintf("The charts have the first %d of %d modes.", mostModes, len(all)))
	}
	return list
}

// summary has a row for each mode.
func summary(r *bench.Report, all []*mode) table {
	t := table{Caption: "Summary", Head: []string{"Mode", "bandwidth", "mean latency", "50%", "99%", "99.9%", "largest",
		"server CPU", "page cache growth"}}
	failed := slices.ContainsFunc(all, func(m *mode) bool { return m.errors > 0 })
	if failed {
		t.Head = append(t.Head, "errors")
	}
	if r.Comparison != nil {
		t.Caption = fmt.Sprintf("Medians with their %s%% intervals, and ratios (×) to the first mode", short(100*r.Comparison.Confidence))
	}
	if reads, writes := sides(r); reads && writes {
		t.Caption += "; latencies are those of READs"
	}
	for i, m := range all {
		// The first mode's ratios are 1.
		ratio := func(c cell, of func(*bench.ModeSummary) *bench.Interval) cell {
			if i > 0 && m.compared != nil {
				if s := ratioTo(of(m.compared), m.hasIntervals()); s != "" {
					c.Small = append(c.Small, s)
				}
			}
			return c
		}
		row := []cell{
			text1(m.Name),
			ratio(m.cell(rates, m.bandwidth), func(s *bench.ModeSummary) *bench.Interval { return &s.BandwidthRatio }),
			m.cell(durations, m.mean),
			m.cell(durations, m.p50),
			ratio(m.cell(durations, m.p99), func(s *bench.ModeSummary) *bench.Interval { return &s.P99Ratio }),
			m.cell(durations, m.p999),
			m.cell(durations, m.max),
			ratio(m.seconds(m.cpu), func(s *bench.ModeSummary) *bench.Interval { return s.CPURatio }),
			m.growthCell(),
		}
		if failed {
			row = append(row, text1(count(m.errors)))
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

// ratioTo is a ratio, and if it has one its interval, marked where that includes 1.
func ratioTo(v *bench.Interval, hasInterval bool) string {
	if v == nil || !finite(v.Median) || !finite(v.Low) || !finite(v.High) {
		return ""
	}
	s := "×" + digits(v.Median)
	if !hasInterval {
		return s
	}
	s += " [" + digits(v.Low) + ", " + digits(v.High) + "]"
	if v.Low <= 1 && 1 <= v.High {
		s = "≈ " + s
	}
	return s
}

// runs has a row for each run.
func runs(r *bench.Report) table {
	t := table{Caption: "Every run",
		Head: []string{"Mode", "block, place", "length", "calls", "bandwidth", "99%", "largest", "server CPU", "retries", "errors", "served by"}}
	for i := range r.Runs {
		if i == mostRuns {
			t.Caption = fmt.Sprintf("The first %d of %d runs", mostRuns, len(r.Runs))
			break
		}
		run := &r.Runs[i]
		place := none
		if run.Block > 0 {
			place = fmt.Sprintf("%d, %d", run.Block, run.Order)
		}
		cpu := none
		if run.CPU != nil {
			cpu = cpuSeconds(run.CPU.PerGB)
		}
		length := in(durations, run.Seconds*1e9)
		l := mainSide(run).Latency
		name := shown(run.Mode, nameMax)
		if name == "" {
			name = unnamed
		}
		t.Rows = append(t.Rows, []cell{text1(name), text1(place), text1(length), text1(count(run.Ops)), text1(rate(run.BytesPerSecond)),
			text1(nanoseconds(float64(l.P99NS))), text1(nanoseconds(float64(l.MaxNS))), text1(cpu), text1(count(run.Retries)),
			failures(run), text1(servedBy(run.Served))})
	}
	return t
}

func failures(r *bench.Run) cell {
	c := text1(count(r.Errors))
	if r.FirstError != "" {
		c.Small = []string{shown(r.FirstError, nameMax)}
	}
	return c
}

// servedBy is what the server itself counted.
func servedBy(list []bench.Served) string {
	var parts []string
	for i, s := range list {
		if i == 16 {
			parts = append(parts, "and more")
			break
		}
		parts = append(parts, fmt.Sprintf("%s %s: %s", shown(s.Op, 20), shown(s.Mode, 40), count(s.Calls)))
	}
	if parts == nil {
		return none
	}
	return strings.Join(parts, ", ")
}
