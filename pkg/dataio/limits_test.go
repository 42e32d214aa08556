// Limits that change while the engine works.

package dataio

import (
	"bytes"
	"math/rand"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"sluice/pkg/filecache"
)

func TestSpliceMinChanges(t *testing.T) {
	p, _ := holeyFile(t, t.TempDir(), 1<<20)
	r := newRig(t, Config{}, filecache.Config{})
	f := r.file(p)
	spliced := func(n uint32) bool {
		was := r.e.Stats().Spliced
		r.read(&ReadReq{File: f, Count: n, Splice: true})
		return r.e.Stats().Spliced > was
	}
	for _, c := range []struct {
		set, is           int
		at4K, at64K, at1M bool
	}{
		{0, DefaultSpliceMin, false, DefaultSpliceMin <= 64<<10, true},
		{1, 1, true, true, true},
		{64<<10 + 1, 64<<10 + 1, false, false, true},
		{-1, -1, false, false, false},
		{4096, 4096, true, true, true},
	} {
		r.e.SetSpliceMin(c.set)
		if got := r.e.SpliceMin(); got != c.is {
			t.Errorf("set %d, is %d", c.set, got)
		}
		if a, b, d := spliced(4096), spliced(64<<10), spliced(1<<20); a != c.at4K || b != c.at64K || d != c.at1M {
			t.Errorf("from %d on: 4 KiB %v, 64 KiB %v, 1 MiB %v", c.set, a, b, d)
		}
	}
	none := newRig(t, Config{Pipes: -1}, filecache.Config{})
	if none.e.SetSpliceMin(1); none.e.SpliceMin() != -1 {
		t.Error("spliced without pipes")
	}
}

// TestPoolShrinks: what is free goes at once, what is out when it comes back,
// and nothing new is made while more is out than may be.
func TestPoolShrinks(t *testing.T) {
	p := newBufferPool(16<<20, 0)
	const size = 1<<20 + classSlack
	var out []*buffer
	for range 12 {
		out = append(out, p.get(1<<20, false))
	}
	for range 4 {
		out[0].Release()
		out = out[1:]
	}
	if st := p.stats(); st.Bytes != 12*size || st.InUse != 8 {
		t.Fatalf("%+v", st)
	}
	p.setLimit(6 << 20)
	if st := p.stats(); st.Bytes != 8*size || st.Limit != 6<<20 {
		t.Errorf("what is free has not gone: %+v", st)
	}
	if p.get(4096, true) != nil {
		t.Error("a buffer past the limit")
	}
	for len(out) > 0 {
		before := p.stats().Bytes
		out[0].Release()
		out = out[1:]
		if st := p.stats(); st.Bytes > max(before-size, st.Limit) {
			t.Errorf("%d bytes held before a buffer came back, %d after", before, st.Bytes)
		}
	}
	if st := p.stats(); st.Bytes > st.Limit || st.Bytes != 5*size {
		t.Errorf("at the end: %+v", st)
	}
	p.setLimit(8 << 20)
	for range 7 {
		if b := p.get(1<<20, false); b != nil {
			out = append(out, b)
		}
	}
	if len(out) != 7 {
		t.Errorf("%d buffers of 7 after the limit was raised", len(out))
	}
	for _, b := range out {
		b.Release()
	}
	if p.setLimit(0); p.stats().Limit != MinPoolBytes {
		t.Errorf("the least limit is %d", p.stats().Limit)
	}
	if b := p.get(4<<20, false); b == nil {
		t.Error("the smallest pool has no buffer of the largest size")
	} else {
		b.Release()
	}
	p.close()
}

// TestWaitForABuffer: those who wait get what comes back, each in his turn, of whatever size.
func TestWaitForABuffer(t *testing.T) {
	p := newBufferPool(MinPoolBytes, time.Minute)
	first := p.get(4<<20, false)
	var wg sync.WaitGroup
	for i := range 12 {
		wg.Go(func() {
			b := p.get([]int{4096, 1 << 20, 4 << 20}[i%3], true)
			if b == nil {
				t.Error("no buffer, though all came back")
				return
			}
			b.Release()
		})
	}
	for p.waiting.Load() < 12 {
		time.Sleep(time.Millisecond)
	}
	first.Release()
	wg.Wait()
	if st := p.stats(); st.Waits != 12 || st.Denied != 0 || p.waiting.Load() != 0 || st.Bytes > st.Limit {
		t.Errorf("%+v", st)
	}
	p.close()
}

// TestLimitsUnderLoad changes all limits while threads read in every mode, and
// checks every byte and that the pools stay within the largest limit.
func TestLimitsUnderLoad(t *testing.T) {
	path, model := holeyFile(t, t.TempDir(), 4<<20+77)
	r := newRig(t, Config{}, filecache.Config{})
	f := r.file(path)
	const most = 9 << 20
	stop := make(chan struct{})
	var readers, changer sync.WaitGroup
	changer.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			r.e.SetBufferBytes(most-i%3*(2<<20), most-i%5*(1<<20))
			r.e.SetSpliceMin(i%4*(100<<10) - 1)
			if st := r.e.Stats(); i > 0 && (st.Buffers.Bytes > most || st.DirectBuffers.Bytes > most) {
				t.Errorf("past the largest limit: %+v, %+v", st.Buffers, st.DirectBuffers)
				return
			}
		}
	})
	for g := range 4 {
		readers.Go(func() {
			th := r.e.NewThread()
			defer th.Close()
			rnd := rand.New(rand.NewSource(int64(g)))
			mine := &rig{t, r.e, r.cache, th}
			for range 200 {
				off, n := uint64(rnd.Intn(len(model))), uint32(1+rnd.Intn(1<<20))
				res, err := r.e.Read(th, &ReadReq{File: f, Offset: off, Count: n, Mode: Mode(rnd.Intn(int(Auto))), First: true, Splice: rnd.Intn(2) == 0})
				if err != nil {
					t.Error(err)
					return
				}
				if !bytes.Equal(mine.take(res), want(model, off, n, r.e.MaxIO())) {
					t.Errorf("wrong bytes at %d", off)
				}
			}
		})
	}
	readers.Wait()
	close(stop)
	changer.Wait()
}

// BenchmarkEmptyDirectPool reads 1 MiB direct from 32 threads with 7 aligned
// buffers: how many READs go through the page cache, by how long they may wait
// (docs/decisions/0040-kept-choices.md).
func BenchmarkEmptyDirectPool(b *testing.B) {
	p := filepath.Join(b.TempDir(), "f")
	if err := os.WriteFile(p, bytes.Repeat([]byte("sluice  "), 8<<20), 0o600); err != nil {
		b.Fatal(err)
	}
	for _, patience := range []time.Duration{0, 5 * time.Millisecond, directPatience, 100 * time.Millisecond} {
		b.Run(patience.String(), func(b *testing.B) {
			cache := filecache.New(filecache.Config{Budget: 100})
			e, err := New(Config{Cache: cache, DirectBytes: 8 << 20})
			if err != nil {
				b.Fatal(err)
			}
			defer e.Close()
			defer cache.Close()
			e.direct.patience = patience
			fd, err := unix.Open(p, unix.O_PATH|unix.O_CLOEXEC, 0)
			if err != nil {
				b.Fatal(err)
			}
			f := cache.Insert(&filecache.Key{FS: 1}, fd, unix.S_IFREG)
			defer f.Release()
			b.SetBytes(1 << 20)
			b.SetParallelism(16)
			var next atomic.Uint64
			b.ResetTimer()
			b.RunParallel(func(pb *testing.PB) {
				th := e.NewThread()
				for pb.Next() {
					off := next.Add(1) % 64 << 20
					res, err := e.Read(th, &ReadReq{File: f, Offset: off, Count: 1 << 20, Mode: Direct, First: true})
					if err != nil {
						b.Error(err)
						return
					}
					res.Data.Release()
				}
			})
			st := e.Stats()
			b.ReportMetric(100*float64(st.Read["direct"].Fallbacks["no_aligned_buffer"])/float64(b.N), "%fallback")
			b.ReportMetric(float64(st.Read["direct"].Latency.P99)/1e6, "ms-p99")
		})
	}
}
