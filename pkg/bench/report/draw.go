// Plan of this file: what all charts share. A chart is drawn twice, for wide
// pages and for telephones, and the style sheet shows one of the two, so that
// text has the same size on both. Axes are plain: a title with the unit above
// the vertical one and below the horizontal one, labels that don't touch, a
// light grid.

package report

import (
	"math"
	"strconv"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// Widths of the two drawings of a chart, in CSS pixels.
const (
	wide   = 900
	narrow = 360
)

const (
	fontSize  = vg.Length(12)
	rowHeight = 46 // of a bar with its label
	barHeight = vg.Length(15)
)

func sans(size vg.Length) font.Font {
	return font.Font{Typeface: "Liberation", Variant: "Sans", Size: size}
}

// writing is a style of text in a chart.
func writing(col ink) text.Style {
	return text.Style{Color: col, Font: sans(fontSize), Handler: plot.DefaultTextHandler}
}

func stroke(col ink, width vg.Length, dash []vg.Length) draw.LineStyle {
	return draw.LineStyle{Color: col, Width: width, Dashes: dash}
}

// axis is a range with its marks; log axes have positive ends only.
type axis struct {
	title    string
	min, max float64
	log      bool
	ticks    []plot.Tick
}

func (a axis) norm(v float64) float64 {
	if a.log {
		return plot.LogScale{}.Normalize(a.min, a.max, v)
	}
	return plot.LinearScale{}.Normalize(a.min, a.max, v)
}

func (a axis) set(to *plot.Axis) {
	to.Min, to.Max = a.min, a.max
	if a.log {
		to.Scale = plot.LogScale{}
	}
	to.Tick.Marker = plot.ConstantTicks(a.ticks)
	to.Tick.Length = 4
	to.Tick.LineStyle = stroke(inkAxis, 1, nil)
	to.LineStyle = stroke(inkAxis, 1, nil)
	to.Tick.Label.Color, to.Tick.Label.Font = inkMuted, sans(fontSize)
	to.Padding = 0
}

// newPlot makes a plot with its axes and grid for a drawing of the given size,
// of which the labels take some. The titles are finish's.
func newPlot(x, y axis, width, height int) *plot.Plot {
	p := plot.New()
	p.BackgroundColor = nil
	x.ticks = spaced(x, vg.Length(width)-80, beside)
	y.ticks = spaced(y, vg.Length(height)-80, above)
	x.set(&p.X)
	y.set(&p.Y)
	p.Title.TextStyle.Font, p.Title.Padding = sans(fontSize), 10
	p.Add(&plotter.Grid{Vertical: stroke(inkGrid, 1, nil), Horizontal: stroke(inkGrid, 1, nil)})
	return p
}

// finish draws the plot and the titles of its axes: of y above it, so that no
// text has to be turned; of x below it, since the library leaves too much room
// beside that of a logarithmic axis.
func finish(p *plot.Plot, xTitle, yTitle string, width, height int) drawing {
	c := newCanvas(width, height)
	page := draw.New(c)
	// Room for half of the first label where no vertical axis gives it, and for
	// the ends of thick lines.
	left := vg.Length(1)
	if yTitle != "" {
		p.Title.Text = " " // keeps the room
	} else if ticks := p.X.Tick.Marker.Ticks(p.X.Min, p.X.Max); len(ticks) > 0 {
		left = 2 + p.X.Tick.Label.Width(ticks[0].Label)/2
	}
	p.Draw(draw.Crop(page, left, -6, 24, -2))
	sty := writing(inkText)
	sty.YAlign = draw.YTop
	page.FillText(sty, vg.Point{X: 1, Y: page.Max.Y - 1}, yTitle)
	sty.XAlign, sty.YAlign = draw.XCenter, draw.YBottom
	page.FillText(sty, vg.Point{X: page.Center().X, Y: 4}, xTitle)
	return c.drawing
}

// spaced takes the labels of those ticks away that would touch the one before:
// room is the axis' length, across how much of it a label takes.
func spaced(a axis, room vg.Length, across func(label string) vg.Length) []plot.Tick {
	kept := make([]plot.Tick, 0, len(a.ticks))
	end := vg.Length(math.Inf(-1))
	for _, t := range a.ticks {
		at, half := room*vg.Length(a.norm(t.Value)), across(t.Label)/2
		if t.Label != "" && at-half < end {
			t.Label = ""
		}
		if t.Label != "" {
			end = at + half
		}
		kept = append(kept, t)
	}
	return kept
}

// What labels side by side take, and labels one above the other, with a gap.
func beside(label string) vg.Length { return writing(inkMuted).Width(label) + 8 }
func above(string) vg.Length        { return fontSize + 5 }

// linear is an axis from or through 0 with round steps, about n of them, whose
// labels are in the unit.
func linear(title string, lo, hi float64, n int, u unit) axis {
	lo, hi = math.Min(lo, 0), math.Max(hi, 0)
	if hi-lo <= 0 || !finite(hi-lo) {
		lo, hi = 0, u.size
	}
	step := roundStep((hi - lo) / u.size / float64(n)) // in the unit
	first, last := math.Floor(lo/u.size/step), math.Ceil(hi/u.size/step)
	a := axis{title: title, min: first * step * u.size, max: last * step * u.size}
	for i := first; i <= last; i++ {
		a.ticks = append(a.ticks, plot.Tick{Value: i * step * u.size, Label: short(i * step)})
	}
	return a
}

// roundStep is the next of 1, 2 and 5 times a power of ten.
func roundStep(least float64) float64 {
	power := math.Pow(10, math.Floor(math.Log10(least)))
	for _, m := range []float64{1, 2, 5} {
		if m*power >= least*(1-1e-9) {
			return m * power
		}
	}
	return 10 * power
}

// short writes a tick's value with no more digits than it has.
func short(v float64) string {
	if math.Abs(v) >= 1e6 {
		return strconv.FormatFloat(v, 'g', 3, 64)
	}
	return strconv.FormatFloat(v, 'g', 6, 64)
}

// latencies is a logarithmic axis of nanoseconds around the values given, with
// labels at 1, 2 and 5 of each decade, or at 1 only where there are many.
func latencies(lo, hi float64) axis {
	if !(lo >= 1) || !finite(lo) {
		lo = 1
	}
	if !(hi > lo) || !finite(hi) {
		hi = lo
	}
	a := axis{log: true, min: grid125(lo, false), max: grid125(hi, true)}
	if a.max <= a.min {
		a.max = a.min * 10
	}
	all := math.Log10(a.max/a.min) <= 3
	for power := math.Pow(10, math.Floor(math.Log10(a.min))); power <= a.max*1.001; power *= 10 {
		for m := 1.0; m < 10; m++ {
			v := m * power
			if v < a.min*0.999 || v > a.max*1.001 {
				continue
			}
			t := plot.Tick{Value: v}
			if m == 1 || all && (m == 2 || m == 5) {
				u := pick(durations, math.Round(v))
				t.Label = short(math.Round(v)/u.size) + " " + u.name
			}
			a.ticks = append(a.ticks, t)
		}
	}
	return a
}

// grid125 is the nearest of 1, 2 and 5 times a power of ten that is not above,
// or not below, v.
func grid125(v float64, up bool) float64 {
	power := math.Pow(10, math.Floor(math.Log10(v)))
	steps := []float64{1, 2, 5, 10}
	for i, m := range steps {
		if m*power >= v*(1-1e-9) {
			if up || m*power <= v*(1+1e-9) {
				return m * power
			}
			return steps[i-1] * power
		}
	}
	return 10 * power
}

// percentiles is an axis on which each step to the right is ten times rarer:
// a share q of the calls is at 1/(1-q). most is the number of calls.
func percentiles(most float64) axis {
	a := axis{log: true, min: 1, max: math.Max(10, most), title: "share of the calls that were this fast or faster"}
	a.ticks = []plot.Tick{{Value: 1, Label: "0%"}, {Value: 2, Label: "50%"}}
	label := "90%"
	for v := 10.0; v <= a.max; v *= 10 {
		a.ticks = append(a.ticks, plot.Tick{Value: v, Label: label})
		switch label {
		case "90%":
			label = "99%"
		case "99%":
			label = "99.9%"
		default:
			label = label[:len(label)-1] + "9%"
		}
	}
	return a
}
