// Package stats counts: lock-free counters, spread over cache lines where
// many threads add to them, and latency histograms of fixed size.
//
// Plan: whoever counts on a hot path holds a Shard (one per service thread)
// and adds to its own cache line; whoever reads sums the shards. Reading gives
// no atomic picture of several counters, only a close one.
package stats

import (
	"math/bits"
	"sync/atomic"
	"time"
)

// Shards is how many cache lines a counter is spread over.
const Shards = 8

// Shard picks a cache line; any value will do, taken modulo Shards.
type Shard uint32

var nextShard atomic.Uint32

// NewShard returns the next shard in turn, for a thread to keep.
func NewShard() Shard { return Shard(nextShard.Add(1) - 1) }

type line struct {
	n atomic.Int64
	_ [56]byte
}

// Counter is a sum spread over cache lines. The zero value is 0.
type Counter struct{ lines [Shards]line }

// Add adds n, which may be negative.
func (c *Counter) Add(s Shard, n int64) { c.lines[s%Shards].n.Add(n) }

// Load returns the sum.
func (c *Counter) Load() int64 {
	var sum int64
	for i := range c.lines {
		sum += c.lines[i].n.Load()
	}
	return sum
}

// Histogram buckets durations: eight buckets to each power of two, so that a
// quantile is off by less than 13%. Under 128 ns and over some 137 s there is
// one bucket each. About 16 KiB in all.
const (
	subBits    = 3
	minExp     = 7
	maxExp     = 37
	histShards = 8
	buckets    = (maxExp-minExp)<<subBits + 2
)

type histShard struct {
	n   [buckets]atomic.Uint64
	sum atomic.Uint64
	max atomic.Uint64
	_   [48]byte
}

// Histogram holds latencies. The zero value is empty.
type Histogram struct{ shards [histShards]histShard }

func bucketOf(ns uint64) int {
	if ns < 1<<minExp {
		return 0
	}
	exp := bits.Len64(ns) - 1
	if exp >= maxExp {
		return buckets - 1
	}
	sub := int(ns>>(exp-subBits)) & (1<<subBits - 1)
	return 1 + (exp-minExp)<<subBits + sub
}

// bucketTop is the largest value that falls into bucket i.
func bucketTop(i int) uint64 {
	if i == 0 {
		return 1<<minExp - 1
	}
	i--
	exp, sub := minExp+i>>subBits, uint64(i&(1<<subBits-1))
	return 1<<exp + (sub+1)<<(exp-subBits) - 1
}

// Observe counts one duration; a negative one counts as 0.
func (h *Histogram) Observe(s Shard, d time.Duration) {
	ns := uint64(max(d, 0))
	sh := &h.shards[s%histShards]
	sh.n[bucketOf(ns)].Add(1)
	sh.sum.Add(ns)
	for {
		old := sh.max.Load()
		if ns <= old || sh.max.CompareAndSwap(old, ns) {
			return
		}
	}
}

// Latency is a histogram's summary. All but Count are in nanoseconds; a
// quantile is the upper edge of its bucket, never more than Max.
type Latency struct {
	Count uint64 `json:"count"`
	Mean  uint64 `json:"mean_ns"`
	P50   uint64 `json:"p50_ns"`
	P99   uint64 `json:"p99_ns"`
	P999  uint64 `json:"p999_ns"`
	Max   uint64 `json:"max_ns"`
}

// Latency sums the shards up.
func (h *Histogram) Latency() Latency {
	var n [buckets]uint64
	var l Latency
	var sum uint64
	for i := range h.shards {
		sh := &h.shards[i]
		for j := range sh.n {
			c := sh.n[j].Load()
			n[j] += c
			l.Count += c
		}
		sum += sh.sum.Load()
		l.Max = max(l.Max, sh.max.Load())
	}
	if l.Count == 0 {
		return Latency{}
	}
	l.Mean = sum / l.Count
	quantile := func(permille uint64) uint64 {
		rank := (l.Count*permille + 999) / 1000
		var seen uint64
		for i, c := range n {
			if seen += c; seen >= rank {
				if i == buckets-1 {
					break
				}
				return min(bucketTop(i), l.Max)
			}
		}
		return l.Max
	}
	l.P50, l.P99, l.P999 = quantile(500), quantile(990), quantile(999)
	return l
}
