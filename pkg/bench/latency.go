// Latencies: an HDR histogram for each direction and thread.

package bench

import (
	"math"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Range and exactness of the histograms: some 300 KiB each.
const (
	minLatency = 1000            // nanoseconds; what is shorter counts as this
	maxLatency = 600_000_000_000 // what is longer is counted as this, but for the maximum
	digits     = 3
	// bucketsPerOctave is how finely a Report's histogram is cut: 9% each.
	bucketsPerOctave = 8
)

// latencies collects durations in nanoseconds.
type latencies struct {
	h   *hdrhistogram.Histogram
	sum float64
	max int64
}

func newLatencies() latencies {
	return latencies{h: hdrhistogram.New(minLatency, maxLatency, digits)}
}

func (l *latencies) add(ns int64) {
	l.sum += float64(ns)
	l.max = max(l.max, ns)
	l.h.RecordValue(min(max(ns, minLatency), maxLatency)) // within the range: never an error
}

func (l *latencies) merge(from *latencies) {
	l.h.Merge(from.h)
	l.sum += from.sum
	l.max = max(l.max, from.max)
}

// result is what a Report says of them.
func (l *latencies) result() (Latency, []Bucket) {
	n := l.h.TotalCount()
	if n == 0 {
		return Latency{}, nil
	}
	at := func(percent float64) int64 { return min(l.h.ValueAtQuantile(percent), l.max) }
	lat := Latency{MeanNS: int64(l.sum / float64(n)), P50NS: at(50), P99NS: at(99), P999NS: at(99.9), MaxNS: l.max}
	var out []Bucket
	for _, b := range l.h.Distribution() {
		if b.Count == 0 {
			continue
		}
		step := math.Ceil(math.Log2(float64(b.To)/minLatency)*bucketsPerOctave - 1e-9)
		from, to := bucketEnd(step-1), bucketEnd(step)
		if k := len(out) - 1; k >= 0 && out[k].UpToNS == to {
			out[k].Count += uint64(b.Count)
			continue
		}
		out = append(out, Bucket{FromNS: from, UpToNS: to, Count: uint64(b.Count)})
	}
	return lat, out
}

// bucketEnd is the upper end of a bucket, counted from that which ends at minLatency.
func bucketEnd(step float64) int64 {
	return int64(math.Round(minLatency * math.Pow(2, max(step, -bucketsPerOctave)/bucketsPerOctave)))
}
