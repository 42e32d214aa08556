// The tables' columns.

package main

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"sluice/pkg/bench"
)

// column is one column of a table.
type column struct {
	head string
	cell func(g *group, r row) string
}

// values takes a figure of each measurement.
func (r row) values(f func(sample) float64) []float64 {
	v := make([]float64, len(r.Samples))
	for i, x := range r.Samples {
		v[i] = f(x)
	}
	return v
}

// isFio tells whether no server was measured, alone whether nothing disturbed.
func (r row) isFio() bool { return strings.HasPrefix(r.Setting, fioPrefix) }
func (r row) alone() bool { return len(r.Samples) == 0 || r.Samples[0].Beside == nil }

func (r row) median(f func(sample) float64) float64 { return bench.Bootstrap(r.values(f)).Median }

// Figures of a measurement.
func rate(x sample) float64      { return x.Run.BytesPerSecond }
func calls(x sample) float64     { return x.Run.OpsPerSecond }
func busy(x sample) float64      { return x.Use.Busy }
func perByte(x sample) float64   { return x.Use.Server.Total() / float64(x.Run.Bytes) }
func otherByte(x sample) float64 { return x.Use.Other / float64(x.Run.Bytes) }
func diskByte(x sample) float64  { return diskBytes(x) / float64(x.Run.Bytes) }
func diskBytes(x sample) float64 { return float64(x.Use.DiskRead + x.Use.DiskWritten) }
func diskRate(x sample) float64  { return diskBytes(x) / x.Use.Seconds }
func cachePeak(x sample) float64 { return float64(x.Use.CachePeak) }
func resident(x sample) float64  { return float64(x.Resident) }

// number prints three digits that count.
func number(v float64) string {
	switch a := math.Abs(v); {
	case a == 0:
		return "0"
	case a >= 100:
		return fmt.Sprintf("%.0f", v)
	case a >= 10:
		return fmt.Sprintf("%.1f", v)
	case a >= 1:
		return fmt.Sprintf("%.2f", v)
	case a >= .0095:
		return fmt.Sprintf("%.3f", v)
	}
	return fmt.Sprintf("%.2g", v)
}

// interval prints a median with its 95% interval.
func interval(v []float64) string {
	i := bench.Bootstrap(v)
	return fmt.Sprintf("%s (%s to %s)", number(i.Median), number(i.Low), number(i.High))
}

func withInterval(head string, unit float64, f func(sample) float64) column {
	return column{head, func(_ *group, r row) string {
		return interval(r.values(func(x sample) float64 { return f(x) / unit }))
	}}
}

func medianOf(head string, unit float64, f func(sample) float64) column {
	return column{head, func(_ *group, r row) string { return number(r.median(f) / unit) }}
}

// latency is a column of milliseconds.
func latency(head string, f func(bench.Latency) int64) column {
	return medianOf(head, 1e6, func(x sample) float64 { return float64(f(x.side().Latency)) })
}

// largest gives the median of the runs' largest latencies and the largest of all.
var largest = column{"largest, ms", func(_ *group, r row) string {
	v := r.values(func(x sample) float64 { return float64(x.side().Latency.MaxNS) / 1e6 })
	return fmt.Sprintf("%s, once %s", number(bench.Bootstrap(v).Median), number(slices.Max(v)))
}}

var latencies = []column{
	latency("mean, ms", func(l bench.Latency) int64 { return l.MeanNS }),
	latency("p50, ms", func(l bench.Latency) int64 { return l.P50NS }),
	latency("p99, ms", func(l bench.Latency) int64 { return l.P99NS }),
	latency("p99.9, ms", func(l bench.Latency) int64 { return l.P999NS }),
	largest,
}

const gb, mib = 1e9, 1 << 20

var costs = []column{
	withInterval("server CPU, s/GB", 1/gb, perByte),
	medianOf("of it user", 1/gb, func(x sample) float64 { return x.Use.Server.User / float64(x.Run.Bytes) }),
	medianOf("other CPU, s/GB", 1/gb, otherByte),
	medianOf("page cache, MiB", mib, cachePeak),
	medianOf("disk, bytes per byte", 1, diskByte),
	{"processors busy", func(_ *group, r row) string { return fmt.Sprintf("%.0f%%", 100*r.median(busy)) }},
	{"limited by", limit},
}

var streamColumns = slices.Concat([]column{withInterval("GB/s", gb, rate)}, latencies, costs)

var smallColumns = slices.Concat([]column{
	withInterval("MB/s", 1e6, rate),
	medianOf("calls/s", 1, calls)}, latencies, costs)

var noisyColumns = slices.Concat([]column{withInterval("READs/s", 1, calls)}, latencies, []column{
	{"writer, GB/s", func(_ *group, r row) string {
		if r.alone() {
			return "-"
		}
		return interval(r.values(func(x sample) float64 { return x.Beside.BytesPerSecond / gb }))
	}},
	{"writer's p99, ms", func(_ *group, r row) string {
		if r.alone() {
			return "-"
		}
		return number(r.median(func(x sample) float64 { return float64(x.Beside.Writes.Latency.P99NS) / 1e6 }))
	}},
	medianOf("of the hot file in memory, MiB", mib, resident),
	{"processors busy", func(_ *group, r row) string { return fmt.Sprintf("%.0f%%", 100*r.median(busy)) }},
})

var neighbourColumns = []column{
	{"of the neighbour's files left", func(_ *group, r row) string {
		return interval(r.values(func(x sample) float64 {
			return 100 * float64(x.Neighbour.CachedEnd) / float64(x.Neighbour.Bytes)
		})) + " %"
	}},
	medianOf("its pass after, ms", 1, func(x sample) float64 { return x.Neighbour.AfterMS }),
	{"its slowest pass meanwhile, ms", func(_ *group, r row) string {
		if r.median(func(x sample) float64 { return float64(x.Neighbour.Passes) }) == 0 {
			return "-"
		}
		return number(r.median(func(x sample) float64 { return x.Neighbour.SlowestMS }))
	}},
	withInterval("stream, GB/s", gb, rate),
	withInterval("server CPU, s/GB", 1/gb, perByte),
	medianOf("page cache, MiB", mib, cachePeak),
	{"limited by", limit},
}

// limit says what a figure is limited by, as far as the readings tell: all
// processors busy; the disk as fast as fio has had it in this group; or the
// time that single calls wait.
func limit(g *group, r row) string {
	var what string
	best := 0.0
	for _, f := range g.Rows {
		if f.isFio() {
			best = max(best, f.median(diskRate))
		}
	}
	share := r.median(diskRate) / best
	switch {
	case r.median(busy) >= .85:
		what = "processors"
	case r.isFio():
		what = "disk"
		if share < .8 {
			what = "waiting for the disk"
		}
	case best > 0 && share >= .8:
		what = fmt.Sprintf("disk (%.0f%% of fio's rate)", 100*share)
	case r.median(diskByte) < .05:
		what = "round trips"
	case best > 0:
		what = fmt.Sprintf("waiting (disk at %.0f%% of fio's rate)", 100*share)
	default:
		what = "waiting for the disk"
	}
	if s := r.median(func(x sample) float64 { return x.Use.Steal }); s >= .05 {
		what += fmt.Sprintf("; the host took %.0f%%", 100*s)
	}
	return what
}

// verdict is how auto stands beside the fixed modes of a group.
type verdict struct {
	fastest, thriftiest string         // fixed modes
	rate, cpu           bench.Interval // of the fastest one's, auto's CPU per byte likewise
	least               bench.Interval // auto's CPU per byte, of the thriftiest one's
	judge               string
	slowest             bool // auto is slower than each fixed mode
}

// verdict compares within blocks; ok is false where a group has no auto.
func (g *group) verdict() (v verdict, ok bool) {
	var own *row
	var fixed []row
	for i, r := range g.Rows {
		switch {
		case r.Setting == auto:
			own = &g.Rows[i]
		case slices.Contains(fixedModes, r.Setting):
			fixed = append(fixed, r)
		}
	}
	if own == nil || len(fixed) == 0 {
		return v, false
	}
	fastest, thriftiest := fixed[0], fixed[0]
	v.slowest = true
	for _, r := range fixed {
		if r.median(rate) > fastest.median(rate) {
			fastest = r
		}
		if r.median(perByte) < thriftiest.median(perByte) {
			thriftiest = r
		}
		v.slowest = v.slowest && own.median(rate) < r.median(rate)
	}
	ratio := func(to row, f func(sample) float64) bench.Interval {
		return bench.Bootstrap(bench.Ratios(own.values(f), to.values(f)))
	}
	v.fastest, v.thriftiest = fastest.Setting, thriftiest.Setting
	v.rate, v.cpu, v.least = ratio(fastest, rate), ratio(fastest, perByte), ratio(thriftiest, perByte)
	v.judge = "not within 5% of it"
	switch {
	case v.rate.Median >= .95 && v.cpu.Median <= 1.05:
		v.judge = "within 5% of it or better"
	case v.rate.High >= .95 && v.cpu.Low <= 1.05:
		v.judge = "not told apart from 5% of it"
	}
	return v, true
}

// verdictText says it in a sentence; "" where a group has no auto.
func (g *group) verdictText() string {
	v, ok := g.verdict()
	if !ok {
		return ""
	}
	text := fmt.Sprintf("`auto` has %s of the rate of the fastest fixed mode, %s, for %s of its CPU per byte: %s. Of the least CPU, that of %s, it takes %s.",
		span(v.rate), v.fastest, span(v.cpu), v.judge, v.thriftiest, span(v.least))
	if v.slowest {
		text += " It is the slowest."
	}
	for _, r := range g.Rows {
		if s := r.served(); r.Setting == auto && s != "" {
			text += " Its calls were served " + s
			if why := r.reasons(); why != "" {
				text += ", because " + why
			}
			text += "."
		}
	}
	return text
}

func span(i bench.Interval) string {
	return fmt.Sprintf("%.2f (%.2f to %.2f)", i.Median, i.Low, i.High)
}

// served says which modes served the calls of a row, by their share.
func (r row) served() string {
	count := map[string]float64{}
	var all float64
	for _, x := range r.Samples {
		for _, s := range x.Run.Served {
			if (s.Op == "read") == (x.Run.Reads.Ops > 0) {
				count[s.Mode] += float64(s.Calls)
				all += float64(s.Calls)
			}
		}
	}
	var parts []string
	for _, m := range fixedModes {
		if count[m] > 0 {
			parts = append(parts, fmt.Sprintf("%s %.3g%%", m, 100*count[m]/all))
		}
	}
	return strings.Join(parts, ", ")
}

// reasons says why auto chose, by shares of the decisions.
func (r row) reasons() string {
	count := map[string]float64{}
	var names []string
	var all float64
	for _, x := range r.Samples {
		for _, c := range x.Reasons {
			if count[c.Name] == 0 {
				names = append(names, c.Name)
			}
			count[c.Name] += float64(c.Count)
			all += float64(c.Count)
		}
	}
	slices.SortStableFunc(names, func(a, b string) int { return cmp.Compare(count[b], count[a]) })
	for i, n := range names {
		names[i] = fmt.Sprintf("`%s` %.3g%%", n, 100*count[n]/all)
	}
	return strings.Join(names, ", ")
}
