// Plan of this file: which colour and which line a mode has, the same in every
// chart, legend and table of a page.
//
// The eight colours are told apart by people who lack one of the three kinds of
// cones, by day, by night and on paper, and stand out from the page: colours_test.go
// holds style.css to that. They were found by a search for the greatest least
// distance, with the four of the server's modes told apart best.
// Dashes tell more than eight modes apart, and help in print.

package report

import (
	"strconv"

	"gonum.org/v1/plot/vg"
)

// Inks that are not of a mode.
const (
	inkText  ink = "t" // axis titles and values
	inkMuted ink = "u" // tick labels
	inkGrid  ink = "g"
	inkAxis  ink = "a"
)

// inks is how many colours there are, m0 to m7 in style.css.
const inks = 8

// known are the modes that have the same colour in every report, by number.
var known = map[string]int{"buffered": 0, "dontcache": 1, "direct": 2, "auto": 3}

// dashes part the modes that share a colour: solid, dashed, dotted, mixed.
var dashes = [][]vg.Length{nil, {7, 4}, {2, 3}, {8, 3, 2, 3}}

// style is how a mode is drawn.
type style struct {
	ink  ink
	dash []vg.Length
}

// pale is the same colour, half seen through.
func (s style) pale() ink { return s.ink + " pale" }

// styles gives each name a style of its own, up to 32 names.
func styles(names []string) map[string]style {
	all := make(map[string]style, len(names))
	taken := map[int]bool{}
	give := func(name string, n int) {
		taken[n] = true
		all[name] = style{
			ink:  ink("m" + strconv.Itoa(n%inks)),
			dash: dashes[n/inks%len(dashes)],
		}
	}
	for _, name := range names {
		if n, ok := known[name]; ok {
			give(name, n)
		}
	}
	next := 0
	for _, name := range names {
		if _, done := all[name]; done {
			continue
		}
		for taken[next] {
			next++
		}
		give(name, next)
	}
	return all
}
