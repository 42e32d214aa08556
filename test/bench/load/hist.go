package load

import "math/bits"

// histogram counts nanosecond latencies in log-linear buckets: 64 to each power
// of two, so that a quantile is right to within 1.6 %. It never allocates.
type histogram struct {
	n      uint64
	max    int64
	counts [64 * 59]uint32
}

func (h *histogram) add(ns int64) {
	if ns < 0 {
		ns = 0
	}
	if ns > h.max {
		h.max = ns
	}
	h.n++
	h.counts[bucket(uint64(ns))]++
}

func bucket(v uint64) int {
	if v < 64 {
		return int(v)
	}
	e := bits.Len64(v) - 7
	return e*64 + int(v>>e)
}

// middle is the inverse of bucket: the middle of bucket i.
func middle(i int) float64 {
	if i < 128 {
		return float64(i)
	}
	e := i/64 - 1
	low := uint64(i-e*64) << e
	return float64(low) + float64(uint64(1)<<e)/2
}

// quantile returns the q-quantile in microseconds, 0 when empty.
func (h *histogram) quantile(q float64) float64 {
	if h.n == 0 {
		return 0
	}
	rank := uint64(q * float64(h.n))
	if rank >= h.n {
		rank = h.n - 1
	}
	var seen uint64
	for i, c := range h.counts {
		seen += uint64(c)
		if seen > rank {
			return min(middle(i), float64(h.max)) / 1e3
		}
	}
	return float64(h.max) / 1e3
}
