// Plan of this file: a report's runs by mode, with the medians that the page
// shows: those of the comparison, or of the runs where there is none; and what
// the charts draw from the runs: latency distributions, progress.

package report

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"gonum.org/v1/plot/plotter"

	"sluice/pkg/bench"
)

// mode is one mode of a report, or its only run.
type mode struct {
	Name  string // fit to be shown
	style style
	runs  []*bench.Run
	// compared: the medians below have intervals, and there are ratios.
	compared *bench.ModeSummary

	bandwidth, mean, p50, p99, p999, max bench.Interval
	cpu, user, system, growth            *bench.Interval
	errors                               uint64
}

// unnamed is a mode that the command did not set.
const unnamed = "as set"

// modes groups the runs of a report: in the comparison's order, then by first
// appearance.
func modes(r *bench.Report) []*mode {
	var names []string
	byName := map[string]*mode{}
	add := func(name string) *mode {
		m, ok := byName[name]
		if !ok {
			m = &mode{Name: shown(name, nameMax)}
			if name == "" {
				m.Name = unnamed
			}
			byName[name] = m
			names = append(names, name)
		}
		return m
	}
	if r.Comparison != nil {
		for i := range r.Comparison.Modes {
			s := &r.Comparison.Modes[i]
			add(s.Mode).compared = s
		}
	}
	for i := range r.Runs {
		m := add(r.Runs[i].Mode)
		m.runs = append(m.runs, &r.Runs[i])
	}
	look := styles(names)
	var list []*mode
	for _, name := range names {
		m := byName[name]
		m.style = look[name]
		if m.compared != nil {
			m.fromSummary(m.compared)
		} else {
			m.fromRuns()
		}
		list = append(list, m)
	}
	return list
}

func (m *mode) fromSummary(s *bench.ModeSummary) {
	m.bandwidth, m.mean, m.p50, m.p99, m.p999, m.max = s.BytesPerSecond, s.MeanNS, s.P50NS, s.P99NS, s.P999NS, s.MaxNS
	m.errors = s.Errors
	m.growth = s.CacheGrowth
	if s.CPUPerGB != nil && s.UserPerGB != nil && s.SystemPerGB != nil {
		m.cpu, m.user, m.system = s.CPUPerGB, s.UserPerGB, s.SystemPerGB
	}
}

// fromRuns takes medians over the runs; they have no intervals.
func (m *mode) fromRuns() {
	of := func(f func(*bench.Run) float64) bench.Interval {
		var all []float64
		for _, r := range m.runs {
			all = append(all, f(r))
		}
		return bench.Interval{Median: median(all), Low: math.NaN(), High: math.NaN()}
	}
	if len(m.runs) == 0 {
		return
	}
	m.bandwidth = of(func(r *bench.Run) float64 { return r.BytesPerSecond })
	latency := func(f func(bench.Latency) int64) bench.Interval {
		return of(func(r *bench.Run) float64 { return float64(f(mainSide(r).Latency)) })
	}
	m.mean = latency(func(l bench.Latency) int64 { return l.MeanNS })
	m.p50 = latency(func(l bench.Latency) int64 { return l.P50NS })
	m.p99 = latency(func(l bench.Latency) int64 { return l.P99NS })
	m.p999 = latency(func(l bench.Latency) int64 { return l.P999NS })
	m.max = latency(func(l bench.Latency) int64 { return l.MaxNS })
	for _, r := range m.runs {
		m.errors += r.Errors
	}
	all := func(has func(*bench.Run) bool) bool {
		return !slices.ContainsFunc(m.runs, func(r *bench.Run) bool { return !has(r) })
	}
	if all(func(r *bench.Run) bool { return r.CPU != nil && r.Bytes > 0 }) {
		cpu := of(func(r *bench.Run) float64 { return r.CPU.PerGB })
		user := of(func(r *bench.Run) float64 { return r.CPU.UserSeconds / (float64(r.Bytes) / 1e9) })
		system := of(func(r *bench.Run) float64 { return r.CPU.SystemSeconds / (float64(r.Bytes) / 1e9) })
		m.cpu, m.user, m.system = &cpu, &user, &system
	}
	if all(func(r *bench.Run) bool { return r.Cache != nil }) {
		g := of(func(r *bench.Run) float64 { return float64(r.Cache.EndBytes) - float64(r.Cache.StartBytes) })
		m.growth = &g
	}
}

// mainSide is the side that a summary's latencies are of.
func mainSide(r *bench.Run) *bench.Side {
	if r.Reads.Ops > 0 {
		return &r.Reads
	}
	return &r.Writes
}

// label is the name as it fits into a chart.
func (m *mode) label() string { return shown(m.Name, labelMax) }

// hasIntervals tells whether the medians' intervals say anything: one run has none.
func (m *mode) hasIntervals() bool { return m.compared != nil && m.compared.Runs > 1 }

// interval is what a chart draws around a median; nil without one.
func (m *mode) interval(v bench.Interval) *bench.Interval {
	if !m.hasIntervals() {
		return nil
	}
	return &v
}

func (m *mode) cell(scale []unit, v bench.Interval) cell {
	median, ends := interval(scale, v)
	c := text1(median)
	if ends != "" && m.hasIntervals() {
		c.Small = []string{ends}
	}
	return c
}

func (m *mode) growthCell() cell {
	if m.growth == nil {
		return text1(none)
	}
	c := m.cell(binarySize, *m.growth)
	c.Text = growth(m.growth.Median)
	return c
}

// seconds is a cell of CPU seconds for each GB.
func (m *mode) seconds(v *bench.Interval) cell {
	if v == nil {
		return text1(none)
	}
	return m.cell(perGB, *v)
}

// source names what the runs' figures are of; of gives "" where a run has none.
func (m *mode) source(of func(*bench.Run) string) string {
	var all []string
	for _, r := range m.runs {
		if s := shown(of(r), nameMax); s != "" && !slices.Contains(all, s) {
			all = append(all, s)
		}
	}
	return shown(strings.Join(all, ", "), nameMax)
}

func cpuSource(r *bench.Run) string {
	if r.CPU == nil {
		return ""
	}
	return r.CPU.Source
}

func cacheSource(r *bench.Run) string {
	if r.Cache == nil {
		return ""
	}
	return r.Cache.Source
}

func median(v []float64) float64 {
	v = slices.DeleteFunc(slices.Clone(v), func(f float64) bool { return !finite(f) })
	if len(v) == 0 {
		return math.NaN()
	}
	slices.Sort(v)
	return (v[(len(v)-1)/2] + v[len(v)/2]) / 2
}

// distribution is the latencies of several runs together. Counts are floats:
// their sum may be more than a word holds.
type distribution struct {
	calls          float64
	least, largest float64
	buckets        []bench.Bucket
}

func pool(runs []*bench.Run, side func(*bench.Run) *bench.Side) distribution {
	var d distribution
	for _, r := range runs {
		s := side(r)
		for _, b := range s.Histogram {
			if b.Count > 0 && b.UpToNS > 0 {
				d.buckets = append(d.buckets, b)
				d.calls += float64(b.Count)
			}
		}
		d.largest = math.Max(d.largest, float64(s.Latency.MaxNS))
	}
	if len(d.buckets) == 0 {
		return distribution{}
	}
	slices.SortFunc(d.buckets, func(a, b bench.Bucket) int { return cmp.Compare(a.UpToNS, b.UpToNS) })
	d.least = math.Max(1, float64(d.buckets[0].FromNS))
	if last := d.buckets[len(d.buckets)-1]; d.largest < float64(last.FromNS) {
		d.largest = float64(last.UpToNS) // no maximum, or a wrong one
	}
	d.largest = math.Max(d.largest, d.least)
	return d
}

// quantile is the upper end of the bucket that the share q of the calls ends in.
func (d distribution) quantile(q float64) float64 {
	sum := 0.0
	for _, b := range d.buckets {
		if sum += float64(b.Count); sum >= q*d.calls {
			return math.Min(float64(b.UpToNS), d.largest)
		}
	}
	return d.largest
}

// curve has a point for the end of each bucket: the share of calls up to there
// as 1/(1-share), and its latency. Points within a hundredth of the one before
// are left out; they can't be seen.
func (d distribution) curve() plotter.XYs {
	pts := plotter.XYs{{X: 1, Y: d.least}}
	sum := 0.0
	for _, b := range d.buckets {
		sum += float64(b.Count)
		p := plotter.XY{X: math.Min(d.calls/math.Max(d.calls-sum, 1), d.calls), Y: math.Max(1, math.Min(float64(b.UpToNS), d.largest))}
		if last := pts[len(pts)-1]; p.X > last.X*1.01 || p.Y > last.Y*1.01 {
			pts = append(pts, p)
		}
	}
	return append(pts, plotter.XY{X: d.calls, Y: d.largest})
}

// point is a moment of a run, in seconds, and its bandwidth.
type point struct{ x, y float64 }

// overTime gives each interval's bandwidth, at its middle.
func overTime(r *bench.Run) []point {
	var pts []point
	before := 0.0
	for _, s := range r.Series {
		length := s.AtSeconds - before
		if p := (point{before + length/2, float64(s.Bytes) / length}); length > 0 && drawable(p.x) && drawable(p.y) {
			pts = append(pts, p)
			before = s.AtSeconds
		}
	}
	return pts
}

// mostPoints of one line over time: more can't be told apart.
const mostPoints = 300

// thin joins neighbours until there are few enough points.
func thin(pts []point) []point {
	k := (len(pts) + mostPoints - 1) / mostPoints
	if k <= 1 {
		return pts
	}
	var out []point
	for part := range slices.Chunk(pts, k) {
		var p point
		for _, q := range part {
			p.x += q.x / float64(len(part))
			p.y += q.y / float64(len(part))
		}
		out = append(out, p)
	}
	return out
}

// middle is the median of several runs at each moment that at least half of
// them reached.
func middle(runs [][]point) []point {
	var out []point
	for i := 0; ; i++ {
		var xs, ys []float64
		for _, r := range runs {
			if i < len(r) {
				xs, ys = append(xs, r[i].x), append(ys, r[i].y)
			}
		}
		if len(xs) == 0 || 2*len(xs) < len(runs) {
			return out
		}
		out = append(out, point{median(xs), median(ys)})
	}
}

func xys(pts []point) plotter.XYs {
	out := make(plotter.XYs, len(pts))
	for i, p := range pts {
		out[i] = plotter.XY{X: p.x, Y: p.y}
	}
	return out
}
