// Plan of this file: the canvas that gonum/plot draws a chart on. It keeps what
// was drawn as a list of marks, and the page's template writes them as SVG: so
// every text goes through html/template, and colours are classes that the style
// sheet gives a value for light, dark and paper.

package report

import (
	"image"
	"image/color"
	"math"
	"strconv"
	"strings"

	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/vg"
)

// ink is a colour by name: the class of what is drawn with it.
type ink string

// RGBA makes an ink a color.Color, which the library passes on as it is.
func (ink) RGBA() (r, g, b, a uint32) { return color.Black.RGBA() }

// mark is one element of a drawing: a path or a text.
type mark struct {
	Class string
	// Path is the d of a <path>, Width and Dash its stroke; "" for a text.
	Path, Width, Dash string
	// Text stands at X, Y, and is to be Length wide whatever font is there.
	Text, X, Y, Length, Size string
}

// drawing is a chart at one size, in CSS pixels.
type drawing struct {
	Width, Height int
	Marks         []mark
}

// pen is what Push saves.
type pen struct {
	ink   string
	width float64
	dash  string
}

// canvas is a vg.CanvasSizer. The library has its origin at the bottom.
type canvas struct {
	drawing
	pen
	saved []pen
}

func newCanvas(width, height int) *canvas {
	c := &canvas{drawing: drawing{Width: width, Height: height}}
	vg.Initialize(c)
	return c
}

func (c *canvas) Size() (w, h vg.Length) { return vg.Length(c.Width), vg.Length(c.Height) }

func (c *canvas) SetLineWidth(w vg.Length) { c.width = w.Points() }

func (c *canvas) SetLineDash(pattern []vg.Length, _ vg.Length) {
	parts := make([]string, len(pattern))
	for i, l := range pattern {
		parts[i] = decimal(l.Points())
	}
	c.dash = strings.Join(parts, " ")
}

// SetColor takes inks. Any other colour, the library's default of black, becomes
// that of text, since it would not follow the reader's colour scheme.
func (c *canvas) SetColor(col color.Color) {
	i, ok := col.(ink)
	if !ok {
		i = inkText
	}
	c.ink = string(i)
}

func (c *canvas) Push() { c.saved = append(c.saved, c.pen) }

func (c *canvas) Pop() {
	c.pen = c.saved[len(c.saved)-1]
	c.saved = c.saved[:len(c.saved)-1]
}

// The charts have no rotated text and no pictures, and nothing else is turned,
// moved, scaled or painted.

func (c *canvas) Rotate(float64)                      { panic("report: a chart is rotated") }
func (c *canvas) Translate(vg.Point)                  { panic("report: a chart is moved") }
func (c *canvas) Scale(float64, float64)              { panic("report: a chart is scaled") }
func (c *canvas) DrawImage(vg.Rectangle, image.Image) { panic("report: a chart has a picture") }

func (c *canvas) Stroke(p vg.Path) {
	if c.width <= 0 {
		return
	}
	if d := c.outline(p); d != "" {
		c.Marks = append(c.Marks, mark{Class: "line " + c.ink, Path: d, Width: decimal(c.width), Dash: c.dash})
	}
}

func (c *canvas) Fill(p vg.Path) {
	if d := c.outline(p); d != "" {
		c.Marks = append(c.Marks, mark{Class: "area " + c.ink, Path: d})
	}
}

// FillString keeps the width that the layout was made with, so that a reader
// without this font sees the text where it belongs.
func (c *canvas) FillString(f font.Face, p vg.Point, text string) {
	x, y := p.X.Points(), float64(c.Height)-p.Y.Points()
	if f.Font.Size <= 0 || strings.TrimSpace(text) == "" || !finite(x) || !finite(y) {
		return
	}
	c.Marks = append(c.Marks, mark{
		Class: c.ink, Text: text, X: decimal(x), Y: decimal(y),
		Length: decimal(f.Width(text).Points()), Size: decimal(f.Font.Size.Points()),
	})
}

// outline is the d attribute of a path, to a tenth of a pixel. A point that
// falls on the one before, or a level line that only goes on, adds nothing: a
// long series is no larger than what can be seen of it. A path with a place that
// is no number is left out as a whole.
func (c *canvas) outline(p vg.Path) string {
	var d []string // one command each
	type place struct{ x, y string }
	var before, last place
	run := 0 // lines since a command of another kind
	for _, comp := range p {
		px, py := comp.Pos.X.Points(), float64(c.Height)-comp.Pos.Y.Points()
		if !finite(px) || !finite(py) {
			return ""
		}
		here := place{decimal(px), decimal(py)}
		switch comp.Type {
		case vg.MoveComp:
			d, run = append(d, "M"+here.x+" "+here.y), 0
		case vg.LineComp:
			if here == last && len(d) > 1 {
				continue
			}
			if run > 1 && here.y == last.y && last.y == before.y {
				d, run = d[:len(d)-1], run-1
			}
			d, run = append(d, "L"+here.x+" "+here.y), run+1
		case vg.ArcComp:
			// Whole circles only, the dots: two halves, from the right end.
			r := comp.Radius.Points()
			half := "A" + decimal(r) + " " + decimal(r) + " 0 1 0 "
			d, run = append(d, half+decimal(px-r)+" "+here.y, half+decimal(px+r)+" "+here.y), 0
		case vg.CloseComp:
			d, run = append(d, "Z"), 0
			continue
		default:
			panic("report: a chart has a curve")
		}
		before, last = last, here
	}
	if len(d) < 2 {
		return ""
	}
	return strings.Join(d, "")
}

// decimal writes a length to a tenth of a pixel.
func decimal(f float64) string {
	s := strings.TrimSuffix(strconv.FormatFloat(f, 'f', 1, 64), ".0")
	if s == "-0" {
		return "0"
	}
	return s
}

func finite(f float64) bool { return !math.IsNaN(f) && !math.IsInf(f, 0) }

// drawable tells what can be drawn: a number, and none whose sums and
// differences with its like are not.
func drawable(f float64) bool { return math.Abs(f) < 1e100 }
