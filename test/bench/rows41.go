// Rows of NFSv4.1: sessions with as many slots as calls are in flight.

package main

import (
	"fmt"
	"slices"

	"sluice/test/bench/load"
)

// rows41 compare small operations with ganesha's, and large READs with sluice's
// own NFSv3, which shares all but the protocol with them.
func rows41() []row {
	const kib, mib = 1 << 10, 1 << 20
	session := func(op string, size, slots int) job {
		j := job{op: op, v41: true, file: warmFile, size: size, conns: 1, depth: slots, verify: op != "getattr"}
		if op == "write" {
			j.file = writeFile
		}
		return j
	}
	cmp, own := (*bench).compare, (*bench).compareOwnV3
	rows := []row{}
	for _, n := range []int{8, 16} {
		rows = append(rows,
			row{name: fmt.Sprintf("getattr41x%d", n), work: fmt.Sprintf("4.1 GETATTR, %d slots", n), run: cmp, want: 3, job: session("getattr", 0, n)},
			row{name: fmt.Sprintf("read4k41x%d", n), work: fmt.Sprintf("4.1 READ 4 KiB, %d slots", n), run: cmp, want: 3, job: session("read", 4*kib, n)},
			row{name: fmt.Sprintf("read1m41x%d", n), work: fmt.Sprintf("4.1 READ 1 MiB warm, buffered, %d slots, beside v3", n), run: own, want: .95, job: session("read", mib, n)},
			row{name: fmt.Sprintf("write4k41x%d", n), work: fmt.Sprintf("4.1 WRITE 4 KiB UNSTABLE, %d slots", n), extra: true, run: cmp, job: session("write", 4*kib, n)},
		)
	}
	return rows
}

// ownRound is one round of sluice's two versions.
type ownRound struct {
	V3       load.Result `json:"v3"`
	V41      load.Result `json:"v41"`
	Ratio    float64     `json:"ratio"`     // of rates, 4.1 to 3
	CPURatio float64     `json:"cpu_ratio"` // of CPU per call
}

// compareOwnV3 measures a row in rounds that alternate the versions of the
// protocol on the same sluice, and which of them is first.
func (b *bench) compareOwnV3(r row) []outcome {
	v3 := r
	v3.job.v41 = false
	order := []row{r, v3}
	for _, x := range order { // fill caches
		if _, err := b.once(b.main, x, .5); err != nil {
			return failed(r, err)
		}
	}
	rounds := make([]ownRound, b.o.rounds)
	for i := range rounds {
		x := &rounds[i]
		for _, one := range order {
			res, err := b.once(b.main, one, b.o.secs)
			if err != nil {
				return failed(r, err)
			}
			if res.V41 {
				x.V41 = res
			} else {
				x.V3 = res
			}
		}
		x.Ratio, x.CPURatio = x.V41.OpsPerSec/x.V3.OpsPerSec, x.V41.CPUPerOp/x.V3.CPUPerOp
		slices.Reverse(order)
	}
	return []outcome{ownSummary(r, rounds)}
}

func ownSummary(r row, rounds []ownRound) outcome {
	var ratios, cpus []float64
	var v3, v41 []load.Result
	failures := uint64(0)
	for _, x := range rounds {
		ratios, cpus = append(ratios, x.Ratio), append(cpus, x.CPURatio)
		v3, v41 = append(v3, x.V3), append(v41, x.V41)
		failures += x.V3.Errors + x.V41.Errors
	}
	ratio := median(ratios)
	o := outcome{
		Work: r.work, Ganesha: "own v3: " + cell(v3), Sluice: cell(v41),
		Ratio:   fmt.Sprintf("%.2f (%.2f-%.2f), CPU %.0f%%", ratio, slices.Min(ratios), slices.Max(ratios), median(cpus)*100),
		Wanted:  fmt.Sprintf("%g of own v3", r.want),
		Reached: yesNo(ratio >= r.want && failures == 0), Data: rounds,
	}
	if failures > 0 {
		o.Notes = append(o.Notes, fmt.Sprintf("%d calls failed", failures))
	}
	return o
}
