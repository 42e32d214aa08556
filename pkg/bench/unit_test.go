package bench

import (
	"bytes"
	"math"
	"slices"
	"strings"
	"testing"
)

func TestParseSize(t *testing.T) {
	for text, want := range map[string]int64{
		"1": 1, "4096": 4096, "4k": 4096, "4K": 4096, "1MiB": 1 << 20, "1 mib": 1 << 20, "1.5GB": 1_500_000_000, "0.5k": 512, "2T": 2 << 40, "47008": 47008, "7b": 7, " 3 kb ": 3000,
	} {
		if got, err := ParseSize(text); got != want || err != nil {
			t.Errorf("%q: %d, %v, want %d", text, got, err, want)
		}
	}
	for _, text := range []string{"", "k", "0", "-1", "1.5", "1e3", "0.3k", "nan", "inf", "1..2", "9999999T", "1x", "0x10", "1 2"} {
		if got, err := ParseSize(text); err == nil || !strings.Contains(err.Error(), "is not a size; write it as") {
			t.Errorf("%q: %d, %v", text, got, err)
		}
	}
	for n, want := range map[int64]string{512: "512 B", 4096: "4 KiB", 47008: "47008 B", 27_400_000_000: "25.5 GiB", 11<<20 + 512: "11 MiB", 5000: "5000 B", 1 << 20: "1 MiB", 3 << 29: "1536 MiB", 5 << 40: "5 TiB"} {
		if got := SizeText(n); got != want {
			t.Errorf("%d: %q, want %q", n, got, want)
		}
	}
}

func TestParseDataset(t *testing.T) {
	for text, want := range map[string]struct {
		n int64
		x float64
	}{"3.125x": {0, 3.125}, "0.81X": {0, 0.81}, "2GiB": {2 << 30, 0}} {
		if n, x, err := ParseDataset(text); n != want.n || x != want.x || err != nil {
			t.Errorf("%q: %d, %g, %v", text, n, x, err)
		}
	}
	for _, text := range []string{"x", "0x", "-1x", "1001x", "big", ""} {
		if n, x, err := ParseDataset(text); err == nil {
			t.Errorf("%q: %d, %g", text, n, x)
		}
	}
}

func TestParseServer(t *testing.T) {
	for text, want := range map[string]address{
		"h": {"h", 0}, "h:1": {"h", 1}, "192.0.2.1:65535": {"192.0.2.1", 65535}, "::1": {"::1", 0}, "[::1]": {"::1", 0}, "[2001:db8::7]:2049": {"2001:db8::7", 2049},
	} {
		if got, err := parseServer(text); got != want || err != nil {
			t.Errorf("%q: %+v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", ":1", "h:0", "h:x", "h:65536", "[::1]x"} {
		if got, err := parseServer(text); err == nil {
			t.Errorf("%q: %+v", text, got)
		}
	}
	if !IsLocal("127.0.0.1:99") || !IsLocal("::1") || IsLocal("192.0.2.1") || IsLocal("") {
		t.Error("what is local")
	}
}

func TestWorkloadDefaultsAndLimits(t *testing.T) {
	var w Workload
	if err := w.Complete(); err != nil || w.Op != "read" || w.Protocol != "v3" || w.Seconds != defaultSeconds || w.Files != 1 || w.FileBytes != defaultDataset || w.ReadPercent != 100 || w.Stable != "" {
		t.Errorf("%+v, %v", w, err)
	}
	w = Workload{Jobs: 3, Op: "mixed", DatasetBytes: 10 << 20}
	if err := w.Complete(); err != nil || w.Connections != 3 || w.FileBytes != 3<<20 || w.DatasetBytes != 9<<20 || w.ReadPercent != 70 || w.Stable != "unstable" {
		t.Errorf("%+v, %v", w, err)
	}
	for name, tc := range map[string]struct {
		w    Workload
		want string
	}{
		"protocol":            {Workload{Protocol: "v2"}, "--protocol"},
		"operation":           {Workload{Op: "erase"}, "none of [read write mixed]"},
		"pattern":             {Workload{Pattern: "zigzag"}, "--pattern"},
		"stable":              {Workload{Op: "write", Stable: "maybe"}, "--stable"},
		"jobs":                {Workload{Jobs: 1025}, "--jobs: 1025 is not between 1 and 1024"},
		"no jobs":             {Workload{Jobs: -1}, "--jobs"},
		"depth":               {Workload{Depth: 1025}, "--iodepth"},
		"calls in flight":     {Workload{Jobs: 1024, Depth: 1024}, "--jobs times --iodepth"},
		"slots":               {Workload{Jobs: 64, Depth: 1000, Connections: 1}, "calls in flight on one connection"},
		"connections":         {Workload{Connections: 2}, "--connections"},
		"block":               {Workload{BlockSize: 5 << 20}, "--bs"},
		"misalignment":        {Workload{Misalignment: -1}, "--misalign"},
		"files":               {Workload{Files: 20000}, "--files"},
		"time":                {Workload{Seconds: 90000}, "--time"},
		"no time":             {Workload{Seconds: math.NaN()}, "--time"},
		"warm-up by size":     {Workload{WarmupSeconds: 1, MaxBytes: 1}, "--warmup needs --time"},
		"verify of writes":    {Workload{Op: "write", Verify: true}, "--verify"},
		"mixed without reads": {Workload{Op: "mixed", ReadPercent: 100}, "--read-percent"},
		"no room":             {Workload{FileBytes: 100, Misalignment: 100}, "--dataset"},
		"below 0":             {Workload{DatasetBytes: -1}, "below 0"},
	} {
		if err := tc.w.Complete(); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v, want %q", name, err, tc.want)
		}
	}
}

// TestJobsCoverTheDataset: once through, each byte of each file is met once,
// whatever sizes and numbers there are.
func TestJobsCoverTheDataset(t *testing.T) {
	for _, w := range []Workload{
		{Jobs: 1, BlockSize: 4096, FileBytes: 1 << 20},
		{Jobs: 3, Files: 7, BlockSize: 47008, FileBytes: 1 << 20},
		{Jobs: 5, Files: 5, BlockSize: 1000, FileBytes: 99_999, Misalignment: 11},
	} {
		if err := w.Complete(); err != nil {
			t.Fatal(err)
		}
		met := make([][]bool, w.Files)
		for f := range met {
			met[f] = make([]bool, w.FileBytes)
		}
		for n := range w.Jobs {
			j := newJob(&w, n)
			j.left = j.perFile * int64(len(j.files))
			for s, ok := j.next(); ok; s, ok = j.next() {
				for i := range s.length {
					if met[s.file][s.off+int64(i)] {
						t.Fatalf("%+v: byte %d of file %d twice", w, s.off, s.file)
					}
					met[s.file][s.off+int64(i)] = true
				}
			}
		}
		for f := range met {
			if i := slices.Index(met[f][w.Misalignment:], false); i >= 0 {
				t.Errorf("%+v: byte %d of file %d never", w, i, f)
			}
		}
	}
	// Jobs that share a file begin apart, and random steps stay inside.
	w := Workload{Jobs: 4, Files: 1, Connections: 1, BlockSize: 1 << 10, FileBytes: 64 << 10, Pattern: "random"}
	if err := w.Complete(); err != nil {
		t.Fatal(err)
	}
	starts := map[int64]bool{}
	for n := range w.Jobs {
		j := newJob(&w, n)
		starts[j.pos] = true
		for range 1000 {
			if s, ok := j.next(); !ok || s.off < 0 || s.off+int64(s.length) > w.FileBytes || s.off%1024 != 0 {
				t.Fatalf("step %+v", s)
			}
		}
	}
	if len(starts) != 4 {
		t.Errorf("jobs of one file start at %v", starts)
	}
}

func TestPattern(t *testing.T) {
	whole := PatternAt(3, 100, 10_000)
	for _, off := range []int64{0, 1, 4095, 9000} {
		if !bytes.Equal(PatternAt(3, 100+off, 1000), whole[off:off+1000]) {
			t.Errorf("pieces differ at %d", off)
		}
	}
	if bytes.Equal(PatternAt(0, 0, 512), PatternAt(1, 0, 512)) || bytes.Equal(PatternAt(0, 0, 512), PatternAt(0, 1<<20, 512)) || bytes.Equal(PatternAt(0, 0, 512), PatternAt(0, 4<<20, 512)) {
		t.Error("files or blocks look alike")
	}
	if len(PatternAt(MaxFiles, 1<<50, MaxBlockSize)) != MaxBlockSize {
		t.Error("the largest block")
	}
	if wrongByte(0, 0, PatternAt(0, 0, 100)) != nil || wrongByte(0, 1, PatternAt(0, 0, 100)) == nil {
		t.Error("comparison")
	}
}

func TestLatencies(t *testing.T) {
	l := newLatencies()
	for i := range int64(1000) {
		l.add((i + 1) * 1e6)
	}
	other := newLatencies()
	other.add(1)      // below the range
	other.add(700e12) // above it
	got, _ := l.result()
	near := func(got, want int64) bool { return math.Abs(float64(got-want)) <= float64(want)/500 }
	if got.MaxNS != 1000e6 || got.MeanNS != 500_500_000 || !near(got.P50NS, 500e6) || !near(got.P99NS, 990e6) || !near(got.P999NS, 999e6) {
		t.Errorf("%+v", got)
	}
	l.merge(&other)
	got, buckets := l.result()
	var n uint64
	for _, b := range buckets {
		n += b.Count
	}
	if got.MaxNS != 700e12 || n != 1002 {
		t.Errorf("%+v, %d in buckets", got, n)
	}
	if len(buckets) > 150 {
		t.Errorf("%d buckets", len(buckets))
	}
	none := newLatencies()
	if got, buckets := none.result(); got != (Latency{}) || buckets != nil {
		t.Errorf("of nothing: %+v", got)
	}
}

func TestSeries(t *testing.T) {
	s, other := series{interval: 10}, series{interval: 10}
	for i := range int64(5 * maxSamples) {
		s.add(i*10, 1)
	}
	other.add(35, 7)
	s.merge(&other)
	var sum uint64
	for _, a := range s.samples {
		sum += a.Bytes
	}
	if sum != 5*maxSamples+7 || len(s.samples) > maxSamples || s.interval != 80 || s.samples[0].Bytes != 15 {
		t.Errorf("%d bytes in %d samples of %d, %+v", sum, len(s.samples), s.interval, s.samples[0])
	}
}

func TestBootstrap(t *testing.T) {
	for _, tc := range []struct {
		samples         []float64
		mid, low, high  float64
		exactly, inside bool
	}{
		{samples: nil, exactly: true},
		{samples: []float64{7}, mid: 7, low: 7, high: 7, exactly: true},
		{samples: []float64{3, 3, 3}, mid: 3, low: 3, high: 3, exactly: true},
		{samples: []float64{1, math.NaN(), 3, math.Inf(1)}, mid: 2, low: 1, high: 3, exactly: true},
		// The median of 1..101 is 51; its 95% interval by order statistics is some
		// 51 ± 1.96*sqrt(101)/2, which is 41 to 61.
		{samples: upTo(101), mid: 51, low: 41, high: 61},
	} {
		got := Bootstrap(tc.samples)
		want := Interval{tc.mid, tc.low, tc.high}
		off := 0.0
		if !tc.exactly {
			off = 3
		}
		if got.Median != want.Median || math.Abs(got.Low-want.Low) > off || math.Abs(got.High-want.High) > off {
			t.Errorf("%d samples: %+v, want %+v", len(tc.samples), got, want)
		}
		if again := Bootstrap(tc.samples); again != got {
			t.Errorf("not the same again: %+v and %+v", got, again)
		}
	}
	if got := Ratios([]float64{2, 9, 8}, []float64{1, 0, 4}); !slices.Equal(got, []float64{2, 2}) {
		t.Errorf("ratios %v", got)
	}
}

func upTo(n int) []float64 {
	var out []float64
	for i := range n {
		out = append(out, float64((i*37)%n+1))
	}
	return out
}

// TestOrderIsBalanced: over n blocks each thing stands in each place once.
func TestOrderIsBalanced(t *testing.T) {
	for n := 1; n <= 5; n++ {
		for cycle := range 2 {
			seen := map[[2]int]bool{}
			for b := range n {
				for place, what := range Order(n, cycle*n+b) {
					seen[[2]int{place, what}] = true
				}
			}
			if len(seen) != n*n {
				t.Errorf("%d things, cycle %d: %d of %d places", n, cycle, len(seen), n*n)
			}
		}
	}
}
