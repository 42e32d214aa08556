// The table of rows, and how a row that compares rates is measured.

package main

import (
	"fmt"
	"slices"
	"strings"

	"sluice/test/bench/load"
)

// row is one line of work. run returns what to print, one outcome or more.
type row struct {
	name, work string
	extra      bool // not one of the figures to reach
	run        func(*bench, row) []outcome

	// For rows that compare rates.
	job      job
	want     float64 // least ratio to ganesha, 0 for none
	wantCPU  float64 // greatest ratio of CPU per byte, 0 for none
	freshDir string  // make the calls in a new directory below this one
}

// outcome is one line of the printed table.
type outcome struct {
	Row     string   `json:"row"`
	Work    string   `json:"work"`
	Ganesha string   `json:"ganesha"`
	Sluice  string   `json:"sluice"`
	Ratio   string   `json:"ratio"`
	Wanted  string   `json:"wanted"`
	Reached string   `json:"reached"` // yes, no, or - where nothing is wanted
	Notes   []string `json:"notes,omitempty"`
	Data    any      `json:"data,omitempty"` // every measurement
}

func (o outcome) line() string {
	s := fmt.Sprintf("%s: ganesha %s; sluice %s; ratio %s; wanted %s: %s", o.Work, o.Ganesha, o.Sluice, o.Ratio, o.Wanted, o.Reached)
	if len(o.Notes) > 0 {
		s += " [" + strings.Join(o.Notes, "; ") + "]"
	}
	return s
}

func yesNo(ok bool) string {
	if ok {
		return "yes"
	}
	return "no"
}

// failed is the outcome of a row that could not be measured.
func failed(r row, err error) []outcome {
	return []outcome{{Work: r.work, Ganesha: "-", Sluice: "-", Ratio: "-", Wanted: wanted(r), Reached: "no", Notes: []string{"failed: " + err.Error()}}}
}

func allRows() []row {
	const kib, mib = 1 << 10, 1 << 20
	warm := func(op string, conns, depth int) job {
		return job{op: op, file: warmFile, conns: conns, depth: depth}
	}
	sized := func(op string, size, conns, depth int) job {
		j := job{op: op, file: warmFile, size: size, conns: conns, depth: depth, verify: true}
		if op == "write" {
			j.file = writeFile
		}
		return j
	}
	lookup := func(uids string) job {
		j := warm("lookup", 8, 8)
		j.uids = uids
		return j
	}
	cmp := (*bench).compare
	rows := []row{
		{name: "getattr16", work: "GETATTR, 1 connection x 16 in flight", run: cmp, want: 6, job: warm("getattr", 1, 16)},
		{name: "getattr64", work: "GETATTR, 8x8", run: cmp, want: 10, job: warm("getattr", 8, 8)},
		{name: "lookup", work: "LOOKUP, 8x8, one uid", run: cmp, want: 6, job: lookup("1000")},
		{name: "lookup2", work: "LOOKUP, 8x8, two uids alternating", run: cmp, want: 6, job: lookup("1000,1001")},
		{name: "getattr1", work: "GETATTR one at a time", run: cmp, want: 1.2, job: warm("getattr", 1, 1)},
		{name: "read4k", work: "READ 4 KiB, 1x8", run: cmp, want: 4, job: sized("read", 4*kib, 1, 8)},
		{name: "read64k", work: "READ 64 KiB, 1x8", run: cmp, want: 2, job: sized("read", 64*kib, 1, 8)},
		{name: "read1m", work: "READ 1 MiB warm, buffered, 1x8", run: cmp, want: 2, wantCPU: .6, job: sized("read", mib, 1, 8)},
		{name: "read1m44", work: "READ 1 MiB warm, buffered, 4x4", run: cmp, want: 1.8, wantCPU: .6, job: sized("read", mib, 4, 4)},
		{name: "write4k", work: "WRITE 4 KiB UNSTABLE, 1x8", run: cmp, want: 4.5, job: sized("write", 4*kib, 1, 8)},
		{name: "write1m", work: "WRITE 1 MiB UNSTABLE, 1x8", run: cmp, want: 1.5, job: sized("write", mib, 1, 8)},
		{name: "create", work: "CREATE 1x8, export async", run: cmp, want: 1.5, job: job{op: "create", conns: 1, depth: 8}, freshDir: dirAsync},
		{name: "createsync", work: "CREATE, export sync", run: (*bench).createSync},
		{name: "slowread", work: "GETATTR p99 beside 8 READs of 50 ms, same connection", run: (*bench).slowRead},
		{name: "direct", work: "READ 1 MiB direct, cold file larger than the memory limit, 1x8", run: (*bench).direct},
		{name: "idle", work: "10,000 idle connections", run: (*bench).idle},
		{name: "stall", work: "64 clients that stop reading, 32 READs of 1 MiB each", run: (*bench).stall},

		{name: "null64", work: "NULL, 8x8", extra: true, run: cmp, job: warm("null", 8, 8)},
		{name: "access64", work: "ACCESS, 8x8, two uids alternating", extra: true, run: cmp, job: job{op: "access", file: warmFile, conns: 8, depth: 8, uids: "1000,1001"}},
		{name: "lookup1", work: "LOOKUP one at a time", extra: true, run: cmp, job: warm("lookup", 1, 1)},
		{name: "read256k", work: "READ 256 KiB, 1x8", extra: true, run: cmp, job: sized("read", 256*kib, 1, 8)},
		{name: "read4kr", work: "READ 4 KiB, 8x8, random", extra: true, run: cmp, job: job{op: "read", file: warmFile, size: 4 * kib, conns: 8, depth: 8, verify: true, extra: []string{"-random"}}},
		{name: "write64k", work: "WRITE 64 KiB UNSTABLE, 1x8", extra: true, run: cmp, job: sized("write", 64*kib, 1, 8)},
		{name: "readdirplus", work: "READDIRPLUS of 64 KiB, 1x4", extra: true, run: (*bench).readdirplus, job: job{op: "readdirplus", conns: 1, depth: 4}},
		{name: "mixed", work: "mixed (of 20: 10 GETATTR, 4 LOOKUP, 3 ACCESS, 2 READ and 1 WRITE of 4 KiB), 8x8", extra: true, run: cmp, job: job{op: "mixed", file: writeFile, size: 4 * kib, conns: 8, depth: 8}},
	}
	return append(rows, rows41()...)
}

// round is one pair of measurements.
type round struct {
	Ganesha  *load.Result `json:"ganesha,omitempty"`
	Sluice   *load.Result `json:"sluice"`
	Ratio    float64      `json:"ratio,omitempty"`     // of rates, sluice to ganesha
	CPURatio float64      `json:"cpu_ratio,omitempty"` // of CPU per call or byte
}

// compare measures a row of rates: rounds that alternate the two servers, and
// which of them is first.
func (b *bench) compare(r row) []outcome {
	servers := []*server{b.main}
	if b.ganesha != nil {
		servers = append(servers, b.ganesha)
	}
	for _, sv := range servers { // fill caches
		if _, err := b.once(sv, r, .5); err != nil {
			return failed(r, err)
		}
	}
	rounds := make([]round, b.o.rounds)
	for i := range rounds {
		for _, sv := range servers {
			res, err := b.once(sv, r, b.o.secs)
			if err != nil {
				return failed(r, err)
			}
			if sv == b.ganesha {
				rounds[i].Ganesha = &res
			} else {
				rounds[i].Sluice = &res
			}
		}
		if g, s := rounds[i].Ganesha, rounds[i].Sluice; g != nil {
			rounds[i].Ratio = s.OpsPerSec / g.OpsPerSec
			if g.CPUPerOp > 0 {
				rounds[i].CPURatio = s.CPUPerOp / g.CPUPerOp
			}
		}
		slices.Reverse(servers)
	}
	return []outcome{summary(r, rounds)}
}

// once makes one measurement of a row.
func (b *bench) once(s *server, r row, secs float64) (load.Result, error) {
	j := r.job
	j.secs = secs
	if r.freshDir != "" {
		dir, err := b.freshDir(r.freshDir)
		if err != nil {
			return load.Result{}, err
		}
		j.dir = dir
	}
	if r.freshDir != "" || j.op == "write" {
		if err := b.settle(); err != nil {
			return load.Result{}, err
		}
	}
	return b.measure(s, j)
}

func summary(r row, rounds []round) outcome {
	o := outcome{Work: r.work, Ganesha: "-", Ratio: "-", Wanted: wanted(r), Reached: "-", Data: rounds}
	o.Sluice = cell(pluck(rounds, func(x round) *load.Result { return x.Sluice }))
	if rounds[0].Ganesha != nil {
		o.Ganesha = cell(pluck(rounds, func(x round) *load.Result { return x.Ganesha }))
		ratios := make([]float64, len(rounds))
		cpus := make([]float64, len(rounds))
		for i, x := range rounds {
			ratios[i], cpus[i] = x.Ratio, x.CPURatio
		}
		ratio, cpu := median(ratios), median(cpus)
		o.Ratio = fmt.Sprintf("%.2f (%.2f-%.2f), CPU %.0f%%", ratio, slices.Min(ratios), slices.Max(ratios), cpu*100)
		if r.want > 0 {
			o.Reached = yesNo(ratio >= r.want && (r.wantCPU == 0 || cpu <= r.wantCPU))
		}
	} else if r.want > 0 {
		o.Reached = "no"
		o.Notes = append(o.Notes, "ganesha was not measured")
	}
	for _, x := range rounds {
		for name, res := range map[string]*load.Result{"ganesha": x.Ganesha, "sluice": x.Sluice} {
			if res != nil && res.Errors > 0 {
				o.Notes = append(o.Notes, fmt.Sprintf("%s: %d of %d calls failed: %s", name, res.Errors, res.Calls, res.FirstError))
				o.Reached = "no"
			}
		}
	}
	return o
}

func wanted(r row) string {
	if r.want == 0 {
		return "-"
	}
	s := fmt.Sprintf("%g times", r.want)
	if r.wantCPU > 0 {
		s += fmt.Sprintf(", CPU at most %.0f%%", r.wantCPU*100)
	}
	return s
}

func pluck(rounds []round, f func(round) *load.Result) []load.Result {
	rs := make([]load.Result, len(rounds))
	for i, x := range rounds {
		rs[i] = *f(x)
	}
	return rs
}

// cell prints the medians of some measurements of one kind.
func cell(rs []load.Result) string {
	med := func(f func(load.Result) float64) float64 {
		v := make([]float64, len(rs))
		for i, r := range rs {
			v[i] = f(r)
		}
		return median(v)
	}
	cpu := med(func(r load.Result) float64 { return r.CPUPerOp })
	if rs[0].MBPerSec > 0 && rs[0].Size >= 64<<10 {
		return fmt.Sprintf("%.2f GB/s, %.3f s/GB", med(func(r load.Result) float64 { return r.MBPerSec })/1e3,
			med(func(r load.Result) float64 { return r.CPUPerGB }))
	}
	return fmt.Sprintf("%.1fk/s, %.1f us", med(func(r load.Result) float64 { return r.OpsPerSec })/1e3, cpu)
}

func median(v []float64) float64 {
	v = slices.Sorted(slices.Values(v))
	n := len(v)
	if n%2 == 1 {
		return v[n/2]
	}
	return (v[n/2-1] + v[n/2]) / 2
}
