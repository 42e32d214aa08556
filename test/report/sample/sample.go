// Package sample makes benchmark results for the tests of the HTML report: such
// as a server gives, and such as none should give. No server is asked; the same
// arguments give the same figures.
package sample

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"sluice/pkg/bench"
)

// shape is roughly what a mode does to a server.
type shape struct {
	bps, user, system float64 // bytes per second, CPU seconds per GB
	fast, slow        float64 // ns: the usual latency, and that of one call in a hundred
	growth            float64 // bytes of page cache
}

var shapes = []shape{
	{3.2e9, 0.05, 0.31, 2.1e6, 180e6, 1.1e9},
	{2.9e9, 0.06, 0.38, 2.4e6, 60e6, 4e6},
	{2.6e9, 0.05, 0.11, 6.0e6, 9e6, -2e6},
	{3.1e9, 0.05, 0.14, 2.3e6, 12e6, 2.5e8},
}

func machine() bench.Machine {
	return bench.Machine{CPU: "AMD EPYC 9B14", Cores: 2, MemoryBytes: 24 << 30, Kernel: "6.6.0",
		ServerMemoryBytes: 1 << 30, FileSystem: "ext4", Local: true}
}

// Single is one run of READs, without comparison.
func Single() *bench.Report {
	r := base()
	r.Runs = []bench.Run{run(rand.New(rand.NewPCG(7, 7)), shapes[0], "", 0, 0, 20)}
	return r
}

// Mixed is one run of READs and WRITEs.
func Mixed() *bench.Report {
	r := Single()
	r.Workload.Op, r.Workload.ReadPercent, r.Workload.Stable = "mixed", 70, "unstable"
	r.Runs[0].Writes = r.Runs[0].Reads
	return r
}

func base() *bench.Report {
	return &bench.Report{
		Format: bench.Format, Version: "1.2.0", Started: time.Date(2026, 12, 1, 9, 30, 0, 0, time.UTC),
		Server: "127.0.0.1:2049/srv/data", ServerKind: "sluice 1.2.0", Machine: machine(),
		Workload: bench.Workload{Protocol: "v3", Op: "read", Pattern: "sequential", ReadPercent: 100, Jobs: 8, Depth: 2,
			Connections: 8, BlockSize: 1 << 20, Files: 8, FileBytes: 400 << 20, DatasetBytes: 3200 << 20, Seconds: 20, WarmupSeconds: 2},
	}
}

// Comparison has each of the modes in each of the blocks.
func Comparison(blocks int, modes ...string) *bench.Report {
	r := base()
	r.Workload.Blocks, r.Workload.CachesDropped = blocks, true
	rnd := rand.New(rand.NewPCG(1, 2))
	for b := range blocks {
		for o := range modes {
			i := (o + b) % len(modes)
			s := shapes[i%len(shapes)]
			k := 1 + 0.15*float64(i/len(shapes))
			s.bps, s.fast, s.slow = s.bps/k, s.fast*k, s.slow*k
			r.Runs = append(r.Runs, run(rnd, s, modes[i], b+1, o+1, 20))
		}
	}
	r.Comparison = &bench.Comparison{Confidence: 0.95, Seed: 1, Resamples: 1000}
	for _, m := range modes {
		r.Comparison.Modes = append(r.Comparison.Modes, sum(r.Runs, m, modes[0]))
	}
	return r
}

// Many is a comparison of n modes, the four of a server first.
func Many(n int) *bench.Report {
	modes := []string{"buffered", "dontcache", "direct", "auto"}
	for i := len(modes); i < n; i++ {
		modes = append(modes, fmt.Sprintf("buffered, splice-min %d KiB", 1<<(i-4)))
	}
	return Comparison(3, modes[:n]...)
}

// Empty is a report of a command that was ended in its first run.
func Empty() *bench.Report {
	r := base()
	r.Interrupted = true
	return r
}

// Bare has two modes and nothing that could be left out.
func Bare() *bench.Report {
	r := base()
	r.Machine = bench.Machine{}
	for _, m := range []string{"buffered", "direct"} {
		r.Runs = append(r.Runs, bench.Run{Mode: m, Seconds: 1, Ops: 10, Bytes: 10 << 20, BytesPerSecond: 10 << 20})
	}
	return r
}

// Broken has what no run should have: figures that are no numbers, huge ones,
// negative ones, and series and histograms that make no sense.
func Broken() *bench.Report {
	nan, inf := math.NaN(), math.Inf(1)
	r := Comparison(2, "buffered", "direct", "dontcache", "auto")
	odd := bench.Interval{Median: nan, Low: inf, High: -inf}
	c := r.Comparison.Modes
	c[0].BytesPerSecond, c[0].P99NS, c[0].CPUPerGB, c[0].CacheGrowth = odd, odd, &odd, &odd
	c[1].BytesPerSecond = bench.Interval{Median: 1e300, Low: -1e308, High: 1e308}
	c[2].CPUPerGB = &bench.Interval{Median: -5, Low: inf, High: nan}
	c[2].CacheGrowth = &bench.Interval{Median: -1e300, Low: -1e301, High: 0}
	c[3].CPUPerGB, c[3].BandwidthRatio = nil, odd
	for i := range r.Runs {
		run := &r.Runs[i]
		run.BytesPerSecond = []float64{nan, inf, -inf, 1e300}[i%4]
		run.Reads.Histogram = []bench.Bucket{{FromNS: 5, UpToNS: -9, Count: 3}, {FromNS: 1 << 62, UpToNS: math.MaxInt64, Count: math.MaxUint64}, {UpToNS: 0, Count: 0}, {UpToNS: 1, Count: math.MaxUint64}}
		run.Reads.Latency.MaxNS = math.MinInt64
		run.Ops, run.Bytes, run.Errors = math.MaxUint64, math.MaxUint64, math.MaxUint64
		run.Cache = &bench.Cache{StartBytes: math.MinInt64, EndBytes: math.MaxInt64, PeakBytes: math.MaxInt64}
		run.CPU = []*bench.CPU{nil, {UserSeconds: nan, SystemSeconds: inf, PerGB: -inf}}[i%2]
		run.Series = []bench.Sample{{AtSeconds: nan, Bytes: 1}, {AtSeconds: -1, Bytes: 1}, {AtSeconds: 1e-300, Bytes: math.MaxUint64},
			{AtSeconds: 1, Bytes: 0}, {AtSeconds: 1, Bytes: 5}, {AtSeconds: 1e300, Bytes: 1}, {AtSeconds: inf, Bytes: 1}}
	}
	r.Workload.BlockSize, r.Workload.Jobs, r.Workload.DatasetBytes = math.MinInt, math.MaxInt, math.MinInt64
	return r
}

// Long is a run of a day with a sample every tenth of a second.
func Long() *bench.Report {
	r := base()
	r.Runs = []bench.Run{run(rand.New(rand.NewPCG(3, 3)), shapes[1], "dontcache", 0, 0, 864000)}
	return r
}

// Hostile has in every string what would load the address, run a script, or
// break out of where it stands, if it were not escaped.
func Hostile(address string) *bench.Report {
	evil := []string{
		`<script>fetch("` + address + `")</script>`,
		`"><img src=` + address + ` onerror="document.title='broken'">`,
		`</style></svg></title><link rel=stylesheet href='` + address + `'>`,
		`'/><image href="` + address + `"/><style>@import url(` + address + `)</style>`,
		`{{.}} ${7*7} javascript:alert(1) &#60;b&#62;`,
		"\x00\x1b[31m\r\n\u202eevil\u2066\xff\xfe" + strings.Repeat("very long ", 50),
	}
	next := 0
	e := func() string { next++; return evil[next%len(evil)] }
	r := Comparison(2, evil...)
	r.Version, r.Server, r.ServerKind = e(), e(), e()
	r.Machine.CPU, r.Machine.Kernel, r.Machine.FileSystem = e(), e(), e()
	r.Workload.Protocol, r.Workload.Op, r.Workload.Pattern, r.Workload.Stable = e(), e(), e(), e()
	r.Notes = slices.Clone(evil)
	for i := range r.Runs {
		run := &r.Runs[i]
		run.Errors, run.FirstError = 1, e()
		run.CPU.Source, run.Cache.Source = e(), e()
		run.Served = []bench.Served{{Op: e(), Mode: e(), Calls: 1}}
	}
	return r
}

// run invents one run.
func run(rnd *rand.Rand, s shape, mode string, block, order, intervals int) bench.Run {
	wobble := func(by float64) float64 { return 1 + by*(2*rnd.Float64()-1) }
	bps := s.bps * wobble(0.06)
	r := bench.Run{Mode: mode, Block: block, Order: order, Seconds: float64(intervals), IntervalSeconds: 1}
	for i := range intervals {
		b := bps * wobble(0.08)
		if mode == "buffered" && i%7 == 6 {
			b /= 8 // writeback
		}
		r.Series = append(r.Series, bench.Sample{AtSeconds: float64(i + 1), Bytes: uint64(b), Ops: uint64(b) >> 20})
		r.Bytes += uint64(b)
	}
	r.Ops = r.Bytes >> 20
	r.BytesPerSecond = float64(r.Bytes) / r.Seconds
	r.OpsPerSecond = float64(r.Ops) / r.Seconds
	r.Reads = bench.Side{Ops: r.Ops, Bytes: r.Bytes}
	// Latencies: most around the usual one, one in a hundred around the slow one.
	counts := map[int64]uint64{}
	n := min(r.Ops, 8000)
	for range n {
		ns := s.fast * math.Exp(0.25*rnd.NormFloat64())
		if rnd.Float64() < 0.01 {
			ns = s.slow * math.Exp(0.4*rnd.NormFloat64())
		}
		step := math.Pow(10, math.Floor(math.Log10(ns))-2)
		counts[int64(math.Ceil(ns/step)*step)]++
	}
	for up, c := range counts {
		r.Reads.Histogram = append(r.Reads.Histogram, bench.Bucket{FromNS: up * 99 / 100, UpToNS: up, Count: c})
	}
	slices.SortFunc(r.Reads.Histogram, func(a, b bench.Bucket) int { return int(a.UpToNS - b.UpToNS) })
	at := func(q float64) int64 {
		seen := uint64(0)
		for _, b := range r.Reads.Histogram {
			if seen += b.Count; float64(seen) >= q*float64(n) {
				return b.UpToNS
			}
		}
		return 0
	}
	r.Reads.Latency = bench.Latency{MeanNS: at(0.6), P50NS: at(0.5), P99NS: at(0.99), P999NS: at(0.999), MaxNS: at(1)}
	gb := float64(r.Bytes) / 1e9
	cpu := bench.CPU{UserSeconds: s.user * gb * wobble(0.1), SystemSeconds: s.system * gb * wobble(0.1), Source: "process 4711"}
	cpu.PerGB = (cpu.UserSeconds + cpu.SystemSeconds) / gb
	r.CPU, r.ClientCPU = &cpu, cpu
	start := int64(3e8)
	end := start + int64(s.growth*wobble(0.1))
	r.Cache = &bench.Cache{StartBytes: start, EndBytes: end, PeakBytes: max(start, end) + 5e6, Source: "cgroup /lab/server"}
	r.Served = []bench.Served{{Op: "read", Mode: mode, Calls: r.Ops}}
	return r
}

// sum makes a mode's summary; its intervals are the least and the greatest run.
func sum(runs []bench.Run, mode, first string) bench.ModeSummary {
	of := func(mode string, f func(*bench.Run) float64) (all []float64) {
		for i := range runs {
			if runs[i].Mode == mode {
				all = append(all, f(&runs[i]))
			}
		}
		return all
	}
	interval := func(f func(*bench.Run) float64) bench.Interval { return spread(of(mode, f)) }
	ratio := func(f func(*bench.Run) float64) bench.Interval {
		mine, theirs := of(mode, f), of(first, f)
		for i := range mine {
			mine[i] /= theirs[i]
		}
		return spread(mine)
	}
	bps := func(r *bench.Run) float64 { return r.BytesPerSecond }
	p99 := func(r *bench.Run) float64 { return float64(r.Reads.Latency.P99NS) }
	cpu := func(r *bench.Run) float64 { return r.CPU.PerGB }
	c, cr := interval(cpu), ratio(cpu)
	user := interval(func(r *bench.Run) float64 { return r.CPU.UserSeconds / (float64(r.Bytes) / 1e9) })
	system := interval(func(r *bench.Run) float64 { return r.CPU.SystemSeconds / (float64(r.Bytes) / 1e9) })
	growth := interval(func(r *bench.Run) float64 { return float64(r.Cache.EndBytes - r.Cache.StartBytes) })
	return bench.ModeSummary{
		Mode: mode, Runs: len(of(mode, bps)), BytesPerSecond: interval(bps), P99NS: interval(p99),
		MeanNS:   interval(func(r *bench.Run) float64 { return float64(r.Reads.Latency.MeanNS) }),
		P50NS:    interval(func(r *bench.Run) float64 { return float64(r.Reads.Latency.P50NS) }),
		P999NS:   interval(func(r *bench.Run) float64 { return float64(r.Reads.Latency.P999NS) }),
		MaxNS:    interval(func(r *bench.Run) float64 { return float64(r.Reads.Latency.MaxNS) }),
		CPUPerGB: &c, UserPerGB: &user, SystemPerGB: &system, CacheGrowth: &growth,
		BandwidthRatio: ratio(bps), P99Ratio: ratio(p99), CPURatio: &cr,
	}
}

func spread(v []float64) bench.Interval {
	slices.Sort(v)
	return bench.Interval{Median: v[len(v)/2], Low: v[0], High: v[len(v)-1]}
}
