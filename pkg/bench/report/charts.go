// Plan of this file: the charts, each as two drawings, a text that says the same,
// and the table of its figures: bandwidth by mode, latency distribution, bandwidth
// over time, CPU, page cache. What a run lacks is said in the chart's place.

package report

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"sluice/pkg/bench"
)

// chart is a figure of the page.
type chart struct {
	ID, Title string
	// Caption says what is drawn, Alt what can be seen in it.
	Caption, Alt string
	// Missing says why nothing is drawn; "" when something is.
	Missing string
	Sizes   []sized
	Legend  []entry
	Table   table
}

// sized is a drawing with the class that shows it.
type sized struct {
	Class string
	drawing
}

// entry is a line of a legend.
type entry struct{ Name, Class, Dash string }

// table is a table of text. Cells may have smaller lines below the first.
type table struct {
	Caption string
	Head    []string
	Rows    [][]cell
}

type cell struct {
	Text  string
	Small []string // lines below
}

func text1(s string) cell { return cell{Text: s} }

// bothSizes draws a chart for wide pages and for narrow ones.
func bothSizes(d func(width int) drawing) []sized {
	return []sized{{"wide", d(wide)}, {"narrow", d(narrow)}}
}

// legend has an entry for each mode; a single one needs none.
func legend(modes []*mode) []entry {
	if len(modes) == 1 {
		return nil
	}
	var list []entry
	for _, m := range modes {
		var dash []string
		for _, l := range m.style.dash {
			dash = append(dash, decimal(l.Points()))
		}
		list = append(list, entry{m.Name, string(m.style.ink), strings.Join(dash, " ")})
	}
	return list
}

// series is one line of a chart.
type series struct {
	style style
	faint bool
	pts   plotter.XYs
}

// lines draws series over axes; one that is only a point is a dot.
func lines(x, y axis, list []series) func(width int) drawing {
	return func(width int) drawing {
		height := 380
		if width == narrow {
			height = 300
		}
		p := newPlot(x, y, width, height)
		for _, s := range list {
			l := &plotter.Line{XYs: s.pts, LineStyle: stroke(s.style.ink, 2, s.style.dash)}
			if s.faint {
				l.LineStyle = stroke(s.style.ink+" faint", 1, nil)
			}
			p.Add(l)
			if len(s.pts) == 1 {
				p.Add(dots(s.pts, s.style.ink))
			}
		}
		return finish(p, x.title, y.title, width, height)
	}
}

func dots(pts plotter.XYs, col ink) *plotter.Scatter {
	return &plotter.Scatter{XYs: pts, GlyphStyle: draw.GlyphStyle{Color: col, Radius: 3, Shape: draw.CircleGlyph{}}}
}

// bar is a row of a bar chart: its parts lie one behind the other.
type bar struct {
	label string
	parts []part
	// whisker is the interval around the end, dots are single runs; both may be nil.
	whisker *bench.Interval
	dots    []float64
	ink     ink
}

type part struct {
	value float64
	ink   ink
}

func (b bar) total() (sum float64) {
	for _, p := range b.parts {
		sum += p.value
	}
	return sum
}

// bars draws rows, the first one at the top, each below its label.
func bars(title string, scale []unit, list []bar) func(width int) drawing {
	lo, hi := 0.0, 0.0
	reach := func(v float64) {
		if drawable(v) {
			lo, hi = math.Min(lo, v), math.Max(hi, v)
		}
	}
	for _, b := range list {
		reach(b.total())
		if b.whisker != nil {
			reach(b.whisker.Low)
			reach(b.whisker.High)
		}
		for _, d := range b.dots {
			reach(d)
		}
	}
	u := pick(scale, math.Max(hi, -lo))
	if hi == lo {
		u = scale[len(scale)/2] // nothing but zeros
	}
	if u.name != "" {
		title += ", " + u.name
	}
	return func(width int) drawing {
		steps := 8
		if width == narrow {
			steps = 4
		}
		x := linear(title, lo, hi, steps, u)
		y := axis{min: 0, max: float64(len(list))}
		height := 50 + rowHeight*len(list)
		p := newPlot(x, y, width, height)
		p.HideY()
		for i, b := range list {
			drawBar(p, b, y.max-float64(i)-0.68, x)
		}
		return finish(p, x.title, "", width, height)
	}
}

// drawBar adds one row; at is the middle of the bar, the label is above it.
func drawBar(p *plot.Plot, b bar, at float64, x axis) {
	var below *plotter.BarChart
	for _, part := range b.parts {
		if !drawable(part.value) {
			continue
		}
		c := &plotter.BarChart{Values: plotter.Values{part.value}, Width: barHeight, Color: part.ink, XMin: at, Horizontal: true}
		if below != nil {
			c.StackOn(below)
		}
		below = c
		p.Add(c)
	}
	if w := b.whisker; w != nil && drawable(w.Median) && drawable(w.Low) && drawable(w.High) && w.High > w.Low {
		p.Add(&plotter.XErrorBars{
			XYs:       plotter.XYs{{X: w.Median, Y: at}},
			XErrors:   plotter.XErrors{{Low: w.Median - w.Low, High: w.High - w.Median}},
			LineStyle: stroke(inkText, 1.5, nil), CapWidth: 9,
		})
	}
	var single plotter.XYs
	for _, d := range b.dots {
		if drawable(d) {
			single = append(single, plotter.XY{X: d, Y: at})
		}
	}
	p.Add(dots(single, b.ink))
	sty := writing(inkText)
	sty.YAlign = draw.YBottom
	p.Add(&plotter.Labels{
		XYs: plotter.XYs{{X: x.min, Y: at}}, Labels: []string{b.label},
		TextStyle: []draw.TextStyle{sty}, Offset: vg.Point{X: 1, Y: barHeight/2 + 2},
	})
}

// bandwidthChart compares the modes' bandwidth.
func bandwidthChart(modes []*mode) chart {
	c := chart{ID: "bandwidth", Title: "Bandwidth by mode",
		Caption: "Bar: the median of the runs. Dots: single runs. Line with ends: the interval of the median."}
	var list []bar
	var alt []string
	for _, m := range modes {
		b := bar{label: m.label() + ": " + rate(m.bandwidth.Median), ink: m.style.ink,
			parts: []part{{m.bandwidth.Median, m.style.pale()}}, whisker: m.interval(m.bandwidth)}
		for _, r := range m.runs {
			b.dots = append(b.dots, r.BytesPerSecond)
		}
		list = append(list, b)
		alt = append(alt, m.Name+" "+rate(m.bandwidth.Median))
	}
	c.Alt = "Bar chart of bandwidth: " + strings.Join(alt, ", ") + "."
	c.Sizes = bothSizes(bars("bandwidth", rates, list))
	return c
}

// latencyChart is the distribution of all READs or WRITEs of each mode.
func latencyChart(modes []*mode, op string, side func(*bench.Run) *bench.Side) chart {
	c := chart{ID: "latency-" + strings.ToLower(op), Title: op + " latency",
		Caption: "All calls of a mode's runs together. Each step to the right is ten times rarer; both axes are logarithmic."}
	c.Table = table{Caption: op + " latency of all runs together",
		Head: []string{"Mode", "calls", "50%", "90%", "99%", "99.9%", "99.99%", "largest"}}
	var list []series
	var drawn []*mode
	var alt []string
	lo, hi, most := math.Inf(1), 0.0, 0.0
	for _, m := range modes {
		d := pool(m.runs, side)
		if d.calls == 0 {
			continue
		}
		row := []cell{text1(m.Name), text1(digits(d.calls))}
		for _, q := range []float64{0.5, 0.9, 0.99, 0.999, 0.9999} {
			if d.calls*(1-q) < 1 { // not one call was slower: nobody can tell
				row = append(row, text1(none))
				continue
			}
			row = append(row, text1(nanoseconds(d.quantile(q))))
		}
		c.Table.Rows = append(c.Table.Rows, append(row, text1(nanoseconds(d.largest))))
		drawn = append(drawn, m)
		list = append(list, series{style: m.style, pts: d.curve()})
		alt = append(alt, fmt.Sprintf("%s: half of the calls within %s, 99%% within %s, the largest %s", m.Name,
			nanoseconds(d.quantile(0.5)), nanoseconds(d.quantile(0.99)), nanoseconds(d.largest)))
		lo, hi, most = math.Min(lo, d.least), math.Max(hi, d.largest), math.Max(most, float64(d.calls))
	}
	if len(list) == 0 {
		c.Missing = "No latencies were recorded."
		return c
	}
	y := latencies(lo, hi)
	y.title = "latency, logarithmic"
	c.Alt = "Line chart of latency by share of calls. " + strings.Join(alt, "; ") + "."
	c.Legend = legend(drawn)
	c.Sizes = bothSizes(lines(percentiles(most), y, list))
	return c
}

// timeChart is bandwidth over time.
func timeChart(modes []*mode) chart {
	c := chart{ID: "time", Title: "Bandwidth over time",
		Caption: "Strong line: at each moment the median of the mode's runs. Faint lines: single runs."}
	c.Table = table{Caption: "Bandwidth of the runs' intervals",
		Head: []string{"Mode", "intervals", "lowest", "10%", "median", "90%", "highest", "without any byte"}}
	var list, strong []series
	var drawn []*mode
	var alt []string
	highest, longest := 0.0, 0.0
	for _, m := range modes {
		var runs [][]point
		var all []float64
		idle := 0
		for _, r := range m.runs {
			pts := overTime(r)
			runs = append(runs, thin(pts))
			for _, p := range pts {
				all = append(all, p.y)
				if p.y == 0 {
					idle++
				}
			}
		}
		if len(all) == 0 {
			continue
		}
		slices.Sort(all)
		at := func(q float64) string { return rate(all[min(len(all)-1, int(q*float64(len(all))))]) }
		c.Table.Rows = append(c.Table.Rows, []cell{text1(m.Name), text1(count(uint64(len(all)))),
			text1(rate(all[0])), text1(at(0.1)), text1(at(0.5)), text1(at(0.9)), text1(rate(all[len(all)-1])), text1(count(uint64(idle)))})
		drawn = append(drawn, m)
		alt = append(alt, fmt.Sprintf("%s: from %s to %s, median %s", m.Name, rate(all[0]), rate(all[len(all)-1]), at(0.5)))
		if len(runs) > 1 && len(modes) <= 4 && len(runs) <= 12 {
			for _, r := range runs {
				list = append(list, series{style: m.style, faint: true, pts: xys(r)})
			}
		}
		mid := middle(runs)
		strong = append(strong, series{style: m.style, pts: xys(mid)})
		for _, r := range append(runs, mid) {
			for _, p := range r {
				highest, longest = math.Max(highest, p.y), math.Max(longest, p.x)
			}
		}
	}
	if len(strong) == 0 {
		c.Missing = "No progress was recorded: the runs were shorter than one interval."
		return c
	}
	if len(list) == 0 {
		c.Caption = "At each moment the median of the mode's runs."
		if !slices.ContainsFunc(modes, func(m *mode) bool { return len(m.runs) > 1 }) {
			c.Caption = "Bytes of each interval, divided by its length."
		}
	}
	c.Alt = "Line chart of bandwidth over time. " + strings.Join(alt, "; ") + "."
	c.Legend = legend(drawn)
	u := pick(rates, highest)
	c.Sizes = bothSizes(func(width int) drawing {
		steps := 10
		if width == narrow {
			steps = 5
		}
		x := linear("time since the start of a run, s", 0, longest, steps, unit{1, "s"})
		return lines(x, linear("bandwidth, "+u.name, 0, highest, 5, u), append(list, strong...))(width)
	})
	return c
}

// cpuChart is the server's CPU for each GB moved, user and system.
func cpuChart(modes []*mode) chart {
	c := chart{ID: "cpu", Title: "Server CPU for each GB",
		Caption: "Medians, seconds of processor time for 10⁹ bytes: solid is system time, pale is user time; the line with ends is the interval of their sum."}
	c.Table = table{Caption: "Server CPU", Head: []string{"Mode", "in all", "user", "system", "whose"}}
	var list []bar
	var alt []string
	for _, m := range modes {
		if m.cpu == nil {
			continue
		}
		list = append(list, bar{label: m.label() + ": " + cpuSeconds(m.cpu.Median), ink: m.style.ink, whisker: m.interval(*m.cpu),
			parts: []part{{m.system.Median, m.style.ink}, {m.user.Median, m.style.pale()}}})
		c.Table.Rows = append(c.Table.Rows, []cell{text1(m.Name), m.seconds(m.cpu), m.seconds(m.user), m.seconds(m.system),
			text1(m.source(cpuSource))})
		alt = append(alt, fmt.Sprintf("%s %s, of it %s user and %s system", m.Name,
			cpuSeconds(m.cpu.Median), digits(m.user.Median), digits(m.system.Median)))
	}
	if len(list) == 0 {
		c.Missing = "The server's CPU time could not be seen: name its process with --pid, or its admin socket with --admin."
		return c
	}
	c.Alt = "Bar chart of CPU: " + strings.Join(alt, "; ") + "."
	c.Sizes = bothSizes(bars("CPU seconds for each GB", []unit{{1, ""}}, list))
	return c
}

// cacheChart is how much the page cache grew in a run.
func cacheChart(modes []*mode) chart {
	c := chart{ID: "cache", Title: "Page cache growth",
		Caption: "Bar: the median of the growth from the start to the end of a run. Dots: single runs."}
	c.Table = table{Caption: "Page cache", Head: []string{"Mode", "growth", "largest growth within a run", "whose"}}
	var list []bar
	var alt []string
	for _, m := range modes {
		if m.growth == nil {
			continue
		}
		b := bar{label: m.label() + ": " + growth(m.growth.Median), ink: m.style.ink,
			parts: []part{{m.growth.Median, m.style.pale()}}, whisker: m.interval(*m.growth)}
		peak := math.NaN()
		for _, r := range m.runs {
			if r.Cache == nil {
				continue
			}
			b.dots = append(b.dots, float64(r.Cache.EndBytes)-float64(r.Cache.StartBytes))
			if p := float64(r.Cache.PeakBytes) - float64(r.Cache.StartBytes); !(p <= peak) {
				peak = p
			}
		}
		list = append(list, b)
		c.Table.Rows = append(c.Table.Rows, []cell{text1(m.Name), m.growthCell(), text1(growth(peak)),
			text1(m.source(cacheSource))})
		alt = append(alt, m.Name+" "+growth(m.growth.Median))
	}
	if len(list) == 0 {
		c.Missing = "The server's page cache could not be seen: it is read from its memory cgroup, its admin socket, or, on the same machine, /proc/meminfo."
		return c
	}
	c.Alt = "Bar chart of page cache growth: " + strings.Join(alt, ", ") + "."
	c.Sizes = bothSizes(bars("growth of the page cache", binarySize, list))
	return c
}
