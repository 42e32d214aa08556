package report

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
)

func labels(ticks []plot.Tick) (list []string) {
	for _, t := range ticks {
		if t.Label != "" {
			list = append(list, t.Label)
		}
	}
	return list
}

func TestAxes(t *testing.T) {
	gb := unit{1e9, "GB/s"}
	for _, c := range []struct {
		name     string
		a        axis
		min, max float64
		want     string
	}{
		{"from 0", linear("", 0, 3.4e9, 8, gb), 0, 3.5e9, "0 0.5 1 1.5 2 2.5 3 3.5"},
		{"exact end", linear("", 0, 4e9, 4, gb), 0, 4e9, "0 1 2 3 4"},
		{"through 0", linear("", -3e6, 1e9, 4, gb), -5e8, 1e9, "-0.5 0 0.5 1"},
		{"in binary units", linear("", 0, 3<<29, 4, unit{1 << 30, "GiB"}), 0, 3 << 29, "0 0.5 1 1.5"},
		{"nothing", linear("", 0, 0, 4, unit{1, ""}), 0, 1, "0 0.5 1"},
		{"no numbers", linear("", math.NaN(), math.NaN(), 4, unit{1, ""}), 0, 1, "0 0.5 1"},
		{"two decades", latencies(1.4e6, 90e6), 1e6, 1e8, "1 ms 2 ms 5 ms 10 ms 20 ms 50 ms 100 ms"},
		{"many decades", latencies(30e3, 3.1e9), 2e4, 5e9, "100 µs 1 ms 10 ms 100 ms 1 s"},
		{"one value", latencies(1e6, 1e6), 1e6, 1e7, "1 ms 2 ms 5 ms 10 ms"},
		{"no latency", latencies(math.Inf(1), 0), 1, 10, "1 ns 2 ns 5 ns 10 ns"},
		{"ten calls", percentiles(10), 1, 10, "0% 50% 90%"},
		{"a few calls", percentiles(2), 1, 10, "0% 50% 90%"},
		{"a million", percentiles(1e6), 1, 1e6, "0% 50% 90% 99% 99.9% 99.99% 99.999% 99.9999%"},
	} {
		near := func(a, b float64) bool { return math.Abs(a-b) <= 1e-9*math.Max(math.Abs(a), math.Abs(b)) }
		if !near(c.a.min, c.min) || !near(c.a.max, c.max) {
			t.Errorf("%s: from %g to %g, want %g to %g", c.name, c.a.min, c.a.max, c.min, c.max)
		}
		if got := strings.Join(labels(c.a.ticks), " "); got != c.want {
			t.Errorf("%s: labels %s, want %s", c.name, got, c.want)
		}
	}
}

func TestLabelsDoNotTouch(t *testing.T) {
	for _, width := range []vg.Length{60, 280, 820} {
		a := percentiles(1e9)
		end := vg.Length(math.Inf(-1))
		for _, tick := range spaced(a, width, beside) {
			if tick.Label == "" {
				continue
			}
			at, half := width*vg.Length(a.norm(tick.Value)), writing(inkMuted).Width(tick.Label)/2
			if at-half < end {
				t.Errorf("width %v: %s touches the label before", width, tick.Label)
			}
			end = at + half
		}
		if math.IsInf(float64(end), -1) {
			t.Errorf("width %v: no label is left", width)
		}
	}
	if got := len(labels(spaced(latencies(1, 1e18), 200, above))); got < 5 || got > 12 {
		t.Errorf("%d labels one above the other on 200 pixels", got)
	}
}

func TestStepsAreRound(t *testing.T) {
	for in, want := range map[float64]float64{0.11: 0.2, 0.2: 0.2, 0.21: 0.5, 0.51: 1, 1: 1, 30: 50, 7e9: 1e10} {
		if got := roundStep(in); math.Abs(got-want) > 1e-9*want {
			t.Errorf("%g: %g, want %g", in, got, want)
		}
	}
}

func TestOutlines(t *testing.T) {
	at := func(x, y float64) vg.Point { return vg.Point{X: vg.Length(x), Y: vg.Length(y)} }
	path := func(points ...vg.Point) (p vg.Path) {
		p.Move(points[0])
		for _, pt := range points[1:] {
			p.Line(pt)
		}
		return p
	}
	closed := path(at(0, 0), at(0, 5), at(5, 5))
	closed.Close()
	var dot vg.Path
	dot.Move(at(13, 10))
	dot.Arc(at(10, 10), 3, 0, 2*math.Pi)
	dot.Close()
	for _, c := range []struct {
		name string
		in   vg.Path
		want string
	}{
		{"the origin is at the bottom", path(at(0, 0), at(10, 20)), "M0 100L10 80"},
		{"the same place twice", path(at(0, 0), at(1, 1), at(1.01, 1.01), at(2, 2)), "M0 100L1 99L2 98"},
		{"a level line goes on", path(at(0, 5), at(1, 7), at(2, 7), at(3, 7), at(4, 7), at(5, 5)), "M0 95L1 93L4 93L5 95"},
		{"only one place", path(at(1, 1), at(1, 1)), "M1 99L1 99"},
		{"closed", closed, "M0 100L0 95L5 95Z"},
		{"a dot", dot, "M13 90A3 3 0 1 0 7 90A3 3 0 1 0 13 90Z"},
		{"no number", path(at(0, 0), at(math.NaN(), 1), at(2, 2)), ""},
		{"infinite", path(at(0, 0), at(1, math.Inf(1))), ""},
		{"nothing", nil, ""},
		{"a place", vg.Path{{Type: vg.MoveComp, Pos: at(1, 1)}}, ""},
	} {
		if got := newCanvas(100, 100).outline(c.in); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

func TestLongLinesAreNoLongerThanTheyLook(t *testing.T) {
	var p vg.Path
	p.Move(vg.Point{})
	for i := range 100_000 {
		p.Line(vg.Point{X: vg.Length(i) / 200, Y: vg.Length(i/1000%2) * 10})
	}
	if d := newCanvas(500, 100).outline(p); strings.Count(d, "L") > 500 {
		t.Errorf("%d points on 500 pixels", strings.Count(d, "L"))
	}
}

func TestEveryModeLooksDifferent(t *testing.T) {
	var names []string
	for i := range mostModes {
		names = append(names, fmt.Sprint("mode ", i))
	}
	names[3], names[20], names[31] = "auto", "buffered", "direct"
	seen := map[string]string{}
	for name, s := range styles(names) {
		look := fmt.Sprint(s.ink, s.dash)
		if other, ok := seen[look]; ok {
			t.Errorf("%s and %s look the same: %s", name, other, look)
		}
		seen[look] = name
	}
	if len(seen) != mostModes {
		t.Errorf("%d modes, want %d", len(seen), mostModes)
	}
}

func TestTheServersModesAlwaysLookTheSame(t *testing.T) {
	want := styles([]string{"buffered", "dontcache", "direct", "auto"})
	for _, names := range [][]string{
		{"auto", "direct"}, {"other", "direct", "buffered"}, {"x", "y", "z", "dontcache", "auto", "buffered", "direct"},
	} {
		for name, s := range styles(names) {
			if w, ok := want[name]; ok && (w.ink != s.ink || !slices.Equal(w.dash, s.dash)) {
				t.Errorf("of %v, %s is %v, elsewhere %v", names, name, s, w)
			}
		}
	}
	if got := styles([]string{"other"})["other"]; got.ink != "m0" {
		t.Errorf("a mode alone has the colour %s", got.ink)
	}
}
