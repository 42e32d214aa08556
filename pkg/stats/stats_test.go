package stats

import (
	"math"
	"math/rand"
	"slices"
	"sync"
	"testing"
	"time"
)

func TestCounter(t *testing.T) {
	var c Counter
	var wg sync.WaitGroup
	for range 20 {
		s := NewShard()
		wg.Add(1)
		go func() {
			defer wg.Done()
			for range 1000 {
				c.Add(s, 3)
				c.Add(s, -1)
			}
		}()
	}
	wg.Wait()
	if n := c.Load(); n != 40000 {
		t.Error(n)
	}
}

func TestBuckets(t *testing.T) {
	last := -1
	for _, ns := range []uint64{0, 1, 127, 128, 129, 143, 144, 255, 256, 1000, 1e6, 1e9, 1e11, 1<<37 - 1, 1 << 37, math.MaxUint64} {
		b := bucketOf(ns)
		if b < last || b >= buckets {
			t.Errorf("%d falls into bucket %d after %d", ns, b, last)
		}
		last = b
		if b == buckets-1 {
			continue
		}
		if top := bucketTop(b); top < ns || b > 0 && bucketTop(b-1) >= ns || b > 0 && float64(top) > 1.13*float64(ns) {
			t.Errorf("%d falls into bucket %d, whose top is %d", ns, b, top)
		}
	}
	// Every value's bucket is the first whose top is not below it.
	for b := range buckets - 1 {
		if got := bucketOf(bucketTop(b)); got != b {
			t.Errorf("the top of bucket %d falls into %d", b, got)
		}
		if got := bucketOf(bucketTop(b) + 1); got != b+1 {
			t.Errorf("just over the top of bucket %d falls into %d", b, got)
		}
	}
}

func TestLatency(t *testing.T) {
	var h Histogram
	if l := h.Latency(); l != (Latency{}) {
		t.Errorf("empty: %+v", l)
	}
	h.Observe(0, -5)
	if l := h.Latency(); l != (Latency{Count: 1}) {
		t.Errorf("one of nothing: %+v", l)
	}
	h = Histogram{}
	r := rand.New(rand.NewSource(1))
	var all []uint64
	var sum uint64
	for i := range 10000 {
		ns := uint64(math.Exp(4 + 14*r.Float64()))
		all = append(all, ns)
		sum += ns
		h.Observe(Shard(i), time.Duration(ns))
	}
	slices.Sort(all)
	l := h.Latency()
	if l.Count != 10000 || l.Mean != sum/10000 || l.Max != all[9999] {
		t.Errorf("%+v", l)
	}
	for _, q := range []struct {
		got  uint64
		rank int
	}{{l.P50, 5000}, {l.P99, 9900}, {l.P999, 9990}} {
		exact := all[q.rank-1]
		if q.got < exact || float64(q.got) > 1.13*float64(exact) {
			t.Errorf("quantile of rank %d is %d, exactly %d", q.rank, q.got, exact)
		}
	}
	h = Histogram{}
	h.Observe(0, 300*time.Second)
	if l := h.Latency(); l.P50 != uint64(300*time.Second) || l.Max != l.P999 {
		t.Errorf("over the top: %+v", l)
	}
}

func TestNoAllocations(t *testing.T) {
	var h Histogram
	var c Counter
	if n := testing.AllocsPerRun(100, func() { h.Observe(3, 12345); c.Add(3, 1) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkObserve(b *testing.B) {
	var h Histogram
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		s := NewShard()
		for pb.Next() {
			h.Observe(s, 12345)
		}
	})
}
