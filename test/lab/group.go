// Groups of settings that are compared, and the order in which they run.

package main

import (
	"context"
	"fmt"

	"sluice/pkg/bench"
)

// experiment is one make target and one page of docs/benchmarks.
type experiment struct {
	name  string
	file  string // of its results, without .md and .json
	title string
	text  string // what is done and why, for the top of the page
	// groups makes its groups; what they need is made when they run.
	groups func(l *lab) []*group
}

var experiments = []experiment{stream, noisy, neighbour, misaligned}

// setting is one row of a group's table.
type setting struct {
	name        string
	read, write string // the server's modes
	fio         string // "buffered" or "direct": fio, without a server
	// alone leaves out the load that disturbs.
	alone bool
}

// fixedModes are the modes that an administrator chooses between; auto chooses itself.
var fixedModes = []string{"buffered", "dontcache", "direct"}

const auto = "auto"

// modes returns a setting for each mode, for reads and writes alike.
func (l *lab) modes() []setting {
	names := append(fixedModes[:len(fixedModes):len(fixedModes)], auto)
	if l.o.quick {
		names = []string{"buffered", "direct"}
	}
	var list []setting
	for _, m := range names {
		list = append(list, setting{name: m, read: m, write: m})
	}
	return list
}

// fios returns the settings that tell what the disk gives.
func (l *lab) fios() []setting {
	return []setting{{name: fioPrefix + "buffered", fio: "buffered"}, {name: fioPrefix + "direct", fio: "direct"}}
}

const fioPrefix = "fio, " // of a setting's name

// row is a setting with its measurements.
type row struct {
	Setting string   `json:"setting"`
	Samples []sample `json:"samples"`
}

// group is a workload in several settings: one table.
type group struct {
	Name     string `json:"name"`
	Rows     []row  `json:"rows"`
	settings []setting
	columns  []column
	// judged: the table is followed by how auto stands beside the fixed modes.
	judged  bool
	measure func(ctx context.Context, s setting) (sample, error)
}

// run measures a group: blocks that have each setting once, in balanced order.
func (l *lab) run(g *group) error {
	ctx := context.Background()
	g.Rows = make([]row, len(g.settings))
	for i, s := range g.settings {
		g.Rows[i] = row{Setting: s.name}
	}
	for b := range l.o.rounds {
		for place, i := range bench.Order(len(g.settings), b) {
			x, err := g.measure(ctx, g.settings[i])
			if err != nil {
				return fmt.Errorf("%s: %w", g.settings[i].name, err)
			}
			x.Block, x.Order = b+1, place+1
			trimRun(&x.Run)
			if x.Beside != nil {
				trimRun(x.Beside)
			}
			g.Rows[i].Samples = append(g.Rows[i].Samples, x)
			l.done++
			l.progress("[%d/%d] %s, block %d, %s: %s", l.done, l.runs, g.Name, b+1, g.settings[i].name, x.line())
		}
	}
	return nil
}

// trimRun leaves out what would make the committed files large.
func trimRun(r *bench.Run) {
	r.Series = nil
	r.Reads.Histogram, r.Writes.Histogram = nil, nil
}

// line sums a measurement up for the person who waits.
func (x sample) line() string {
	lat := x.side().Latency
	text := fmt.Sprintf("%.2f GB/s, %.0f calls/s, p50 %.2f ms, p99 %.2f, CPU %.2f s", x.Run.BytesPerSecond/1e9, x.Run.OpsPerSecond,
		float64(lat.P50NS)/1e6, float64(lat.P99NS)/1e6, x.Use.Server.Total())
	if x.Run.Errors > 0 {
		text += fmt.Sprintf(", %d ERRORS: %s", x.Run.Errors, x.Run.FirstError)
	}
	return text
}
