// Buffers and pipes: what happens at their limits and between.

package dataio

import (
	"bytes"
	"testing"

	"golang.org/x/sys/unix"

	"sluice/pkg/filecache"
)

// TestPools: what happens when buffers and pipes are used up.
func TestPools(t *testing.T) {
	p, model := holeyFile(t, t.TempDir(), 8<<20)
	t.Run("direct", func(t *testing.T) {
		r := newRig(t, Config{}, filecache.Config{})
		f := r.file(p)
		var held []ReadRes
		q := &ReadReq{File: f, Count: 1 << 20, Mode: Direct, First: true}
		for {
			res, err := r.e.Read(r.th, q)
			if err != nil {
				t.Fatal(err)
			}
			if res.Used != Direct {
				if !bytes.Equal(r.take(res), model[:1<<20]) {
					t.Error("wrong bytes")
				}
				break
			}
			held = append(held, res)
			if len(held) > 100 {
				t.Fatal("the pool has no limit")
			}
		}
		st := r.e.Stats()
		if st.Read["direct"].Fallbacks["no_aligned_buffer"] != 1 || st.DirectBuffers.Denied != 1 || st.DirectBuffers.Bytes > st.DirectBuffers.Limit {
			t.Errorf("%+v", st)
		}
		for _, res := range held {
			r.take(res)
		}
		if _, res := r.read(q); res.Used != Direct {
			t.Error("not direct although the buffers are back")
		}
	})
	t.Run("plain", func(t *testing.T) {
		r := newRig(t, Config{BufferBytes: 5 << 20, SpliceMin: -1}, filecache.Config{})
		f := r.file(p)
		var held []ReadRes
		q := &ReadReq{File: f, Count: 1 << 20}
		for range 4 {
			res, err := r.e.Read(r.th, q)
			if err != nil {
				t.Fatal(err)
			}
			held = append(held, res)
		}
		q.NoWait = true
		if _, err := r.e.Read(r.th, q); err != unix.EAGAIN {
			t.Fatalf("service thread, no buffer: %v", err)
		}
		q.NoWait = false
		if _, err := r.e.Read(r.th, q); err != unix.EMFILE {
			t.Fatalf("no buffer: %v", err)
		}
		// Small ones need none of the pool's.
		if _, res := r.read(&ReadReq{File: f, Count: 4096}); res.N != 4096 {
			t.Error(res.N)
		}
		for _, res := range held {
			res.Data.Release()
		}
		// Other sizes are made out of the free ones.
		for range 50 {
			res, err := r.e.Read(r.th, &ReadReq{File: f, Count: 60 << 10})
			if err != nil {
				t.Fatal(err)
			}
			held = append(held[:0], res)
			r.take(res)
		}
		if st := r.e.Stats().Buffers; st.Bytes > st.Limit {
			t.Errorf("%+v", st)
		}
	})
	t.Run("small_twice", func(t *testing.T) {
		r := newRig(t, Config{}, filecache.Config{})
		f := r.file(p)
		a, err := r.e.Read(r.th, &ReadReq{File: f, Count: 100})
		if err != nil {
			t.Fatal(err)
		}
		b, err := r.e.Read(r.th, &ReadReq{File: f, Offset: 1 << 20, Count: 100})
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(r.take(a), model[:100]) || !bytes.Equal(r.take(b), model[1<<20:1<<20+100]) {
			t.Error("two replies shared a buffer")
		}
	})
	t.Run("trim", func(t *testing.T) {
		r := newRig(t, Config{}, filecache.Config{})
		f := r.file(p)
		hold := func(n int) {
			var held []ReadRes
			for range n {
				for _, q := range []*ReadReq{{File: f, Count: 1 << 20, Splice: true}, {File: f, Count: 1 << 20}, {File: f, Count: 1 << 20, Mode: Direct, First: true}} {
					res, err := r.e.Read(r.th, q)
					if err != nil {
						t.Fatal(err)
					}
					held = append(held, res)
				}
			}
			for _, res := range held {
				r.take(res)
			}
		}
		trim := func() (pipes, plain, direct int) {
			r.e.pipes.trim()
			r.e.plain.trim()
			r.e.direct.trim()
			st := r.e.Stats()
			one := int64(1<<20 + classSlack)
			return st.Pipes.Open, int(st.Buffers.Bytes / one), int(st.DirectBuffers.Bytes / one)
		}
		hold(8)
		if a, b, c := trim(); a != 8 || b != 8 || c != 8 {
			t.Errorf("in use since the last trim: %d, %d, %d", a, b, c)
		}
		hold(2)
		if a, b, c := trim(); a != 2 || b != 2 || c != 2 {
			t.Errorf("two in use since the last trim: %d, %d, %d", a, b, c)
		}
		if a, b, c := trim(); a != 0 || b != 0 || c != 0 {
			t.Errorf("none in use since the last trim: %d, %d, %d", a, b, c)
		}
		hold(1)
	})
	t.Run("pipes", func(t *testing.T) {
		r := newRig(t, Config{Pipes: 3}, filecache.Config{})
		f := r.file(p)
		q := &ReadReq{File: f, Count: 1 << 20, Splice: true}
		var held []ReadRes
		for range 4 {
			res, err := r.e.Read(r.th, q)
			if err != nil {
				t.Fatal(err)
			}
			held = append(held, res)
		}
		if _, inMemory := held[3].Data.Bytes(); !inMemory {
			t.Error("a fourth pipe")
		}
		st := r.e.Stats()
		if st.Pipes.Open != 3 || st.Pipes.InUse != 3 || st.Read["buffered"].Fallbacks["no_pipe"] != 1 {
			t.Errorf("%+v", st)
		}
		for i, res := range held {
			if i == 0 {
				res.Data.Release() // abandoned, full
				continue
			}
			if !bytes.Equal(r.take(res), model[:1<<20]) {
				t.Error("wrong bytes")
			}
		}
		st = r.e.Stats()
		if st.Pipes.Open != 2 || st.Pipes.InUse != 0 || st.Pipes.Dropped != 1 {
			t.Errorf("%+v", st)
		}
	})
	t.Run("no_descriptors", func(t *testing.T) {
		r := newRig(t, Config{}, filecache.Config{})
		f := r.file(p)
		if _, err := f.Reader(); err != nil {
			t.Fatal(err)
		}
		var old unix.Rlimit
		if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &old); err != nil {
			t.Fatal(err)
		}
		low := old
		low.Cur = 3
		if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &low); err != nil {
			t.Fatal(err)
		}
		res, err := r.e.Read(r.th, &ReadReq{File: f, Count: 1 << 20, Splice: true})
		if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &old); err != nil {
			t.Fatal(err)
		}
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(r.take(res), model[:1<<20]) || r.e.Stats().Read["buffered"].Fallbacks["no_pipe"] != 1 {
			t.Error("not served by a copy")
		}
	})
}

func TestDoubleReleasePanics(t *testing.T) {
	p, _ := holeyFile(t, t.TempDir(), 1<<20)
	for _, q := range []ReadReq{{Count: 4096}, {Count: 100 << 10}, {Count: 512 << 10, Splice: true}, {Count: 4096, Mode: Direct, First: true}} {
		r := newRig(t, Config{}, filecache.Config{})
		q.File = r.file(p)
		res, err := r.e.Read(r.th, &q)
		if err != nil {
			t.Fatal(err)
		}
		res.Data.Release()
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%+v: released twice without a word", q)
				}
			}()
			res.Data.Release()
		}()
	}
}

func TestLimits(t *testing.T) {
	p, _ := holeyFile(t, t.TempDir(), 100)
	r := newRig(t, Config{}, filecache.Config{})
	f := r.file(p)
	if _, err := r.e.Read(r.th, &ReadReq{File: f, Offset: 1 << 63, Count: 1}); err != unix.EINVAL {
		t.Error(err)
	}
	for _, cfg := range []Config{{}, {Cache: r.cache, MaxIO: 100}, {Cache: r.cache, MaxIO: MaxMaxIO + 1}} {
		if _, err := New(cfg); err == nil {
			t.Errorf("%+v accepted", cfg)
		}
	}
	for limit, want := range map[uint64]int{0: 4, 128: 8, 1024: 64, 20000: 1024, ^uint64(0): 1024} {
		if got := PipeBudget(limit); got != want {
			t.Errorf("PipeBudget(%d) = %d", limit, got)
		}
	}
}
