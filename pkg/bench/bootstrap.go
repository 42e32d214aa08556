// Medians with confidence intervals, and the order of a comparison's runs.

package bench

import (
	"math"
	"math/rand/v2"
	"slices"
)

// The bootstrap's parameters, which a Comparison repeats. The seed is fixed: the
// same runs give the same interval.
const (
	Confidence = 0.95
	resamples  = 2000
	seed       = 1
)

// Bootstrap returns the median of the samples with the ends of its 95% interval
// by the percentile bootstrap: of 2,000 draws with replacement, the quantiles of
// their medians. Of one sample the interval is the sample; of none all is 0. NaN
// and infinite samples are left out.
func Bootstrap(samples []float64) Interval {
	s := slices.DeleteFunc(slices.Clone(samples), func(v float64) bool { return math.IsNaN(v) || math.IsInf(v, 0) })
	if len(s) == 0 {
		return Interval{}
	}
	slices.Sort(s)
	mid := sortedMedian(s)
	if s[0] == s[len(s)-1] {
		return Interval{mid, mid, mid}
	}
	rng := rand.New(rand.NewPCG(seed, uint64(len(s))))
	medians, draw := make([]float64, resamples), make([]float64, len(s))
	for i := range medians {
		for k := range draw {
			draw[k] = s[rng.IntN(len(s))]
		}
		slices.Sort(draw)
		medians[i] = sortedMedian(draw)
	}
	slices.Sort(medians)
	tail := (1 - Confidence) / 2
	return Interval{Median: mid, Low: quantile(medians, tail), High: quantile(medians, 1-tail)}
}

// Ratios divides each sample by the one of the base in the same block. Pairs
// that have no quotient are left out.
func Ratios(samples, base []float64) []float64 {
	var out []float64
	for i := range min(len(samples), len(base)) {
		if base[i] != 0 {
			out = append(out, samples[i]/base[i])
		}
	}
	return out
}

func sortedMedian(s []float64) float64 { return quantile(s, 0.5) }

// quantile of sorted samples, linear between neighbours.
func quantile(s []float64, q float64) float64 {
	at := q * float64(len(s)-1)
	i := int(at)
	if i+1 >= len(s) {
		return s[len(s)-1]
	}
	return s[i] + (at-float64(i))*(s[i+1]-s[i])
}

// Order returns the places of n things in block b, counted from 0. Over n blocks
// each thing stands in each place once; over 2n, what comes before it changes too.
func Order(n, b int) []int {
	out := make([]int, n)
	for i := range out {
		out[i] = (i + b) % n
	}
	if (b/n)%2 == 1 {
		slices.Reverse(out)
	}
	return out
}
