// Plan of this file: numbers as people read them, three digits and a unit, and
// names as they may be shown. What is no number, or was not measured, is a dash.

package report

import (
	"math"
	"strconv"
	"strings"
	"unicode"

	"sluice/pkg/bench"
)

const none = "–"

// unit is one step of a scale: values from Size on are written in it.
type unit struct {
	size float64
	name string
}

var (
	durations  = []unit{{1e9, "s"}, {1e6, "ms"}, {1e3, "µs"}, {1, "ns"}}                         // of nanoseconds
	rates      = []unit{{1e12, "TB/s"}, {1e9, "GB/s"}, {1e6, "MB/s"}, {1e3, "kB/s"}, {1, "B/s"}} // of bytes per second
	binarySize = []unit{{1 << 40, "TiB"}, {1 << 30, "GiB"}, {1 << 20, "MiB"}, {1 << 10, "KiB"}, {1, "B"}}
	perGB      = []unit{{1, "s/GB"}} // of seconds of CPU for 10^9 bytes
)

// pick is the unit for values up to the given one.
func pick(scale []unit, most float64) unit {
	for _, u := range scale {
		if math.Abs(most) >= u.size {
			return u
		}
	}
	return scale[len(scale)-1]
}

// in writes a value with the unit that fits it.
func in(scale []unit, v float64) string {
	if !finite(v) {
		return none
	}
	if v == 0 {
		return "0"
	}
	u := pick(scale, v)
	return digits(v/u.size) + " " + u.name
}

// digits writes three digits, more only before the point.
func digits(v float64) string {
	switch abs := math.Abs(v); {
	case !finite(v):
		return none
	case abs >= 1e15:
		return strconv.FormatFloat(v, 'g', 3, 64)
	case v == 0:
		return "0"
	case abs >= 100:
		return grouped(strconv.FormatFloat(v, 'f', 0, 64))
	case abs >= 10:
		return strconv.FormatFloat(v, 'f', 1, 64)
	case abs >= 0.1:
		return strconv.FormatFloat(v, 'f', 2, 64)
	default:
		return strconv.FormatFloat(v, 'g', 2, 64)
	}
}

// grouped sets commas between thousands.
func grouped(s string) string {
	sign := ""
	if strings.HasPrefix(s, "-") {
		sign, s = "-", s[1:]
	}
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return sign + s
}

func count(n uint64) string { return grouped(strconv.FormatUint(n, 10)) }

func nanoseconds(ns float64) string { return in(durations, ns) }
func rate(bps float64) string       { return in(rates, bps) }
func cpuSeconds(s float64) string   { return in(perGB, s) }

// size writes round sizes, which people choose, without digits after the point.
func size(b float64) string {
	if u := pick(binarySize, b); b != 0 && math.Abs(b) < 1e15 && math.Mod(b, u.size) == 0 {
		return grouped(strconv.FormatFloat(b/u.size, 'f', 0, 64)) + " " + u.name
	}
	return in(binarySize, b)
}

// growth is a size with its sign.
func growth(b float64) string {
	if b > 0 {
		return "+" + size(b)
	}
	return size(b)
}

// interval writes a median with its interval in one unit, as two lines of a cell.
func interval(scale []unit, v bench.Interval) (median, ends string) {
	if !finite(v.Median) {
		return none, ""
	}
	median = in(scale, v.Median)
	if !finite(v.Low) || !finite(v.High) {
		return median, ""
	}
	u := pick(scale, v.Median)
	return median, "[" + digits(v.Low/u.size) + ", " + digits(v.High/u.size) + "]"
}

// longest name that is shown whole, in a table and in a chart.
const (
	nameMax  = 200
	labelMax = 34
)

// shown makes a text of somebody else's fit to be shown: no control characters
// and none that change the direction of the text around it, at most n runes.
func shown(s string, n int) string {
	var b strings.Builder
	runes := 0
	for _, r := range strings.ToValidUTF8(s, "\uFFFD") {
		if runes++; runes > n {
			return b.String() + "…"
		}
		if unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) {
			r = '\uFFFD'
		}
		b.WriteRune(r)
	}
	return b.String()
}
