// Limits that change while the engine works.

package dataio

import (
	"bytes"
	"math/rand"
	"sync"
	"testing"

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
