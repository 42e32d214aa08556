// The order of writes and direct reads, and the sync gate.

package filecache

import (
	"errors"
	"math/rand"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestOrderTable(t *testing.T) {
	for _, tc := range []struct {
		name     string
		a, b     Class
		aOff, aN uint64
		bOff, bN uint64
		waits    bool
	}{
		{"write then overlapping read", BufferedWrite, DirectRead, 0, 100, 50, 100, true},
		{"read then overlapping write", DirectRead, BufferedWrite, 50, 100, 0, 51, true},
		{"touching", BufferedWrite, DirectRead, 0, 100, 100, 100, false},
		{"inside", DirectRead, BufferedWrite, 0, 4096, 100, 1, true},
		{"around", DirectRead, BufferedWrite, 100, 1, 0, 4096, true},
		{"two writes", BufferedWrite, BufferedWrite, 0, 100, 0, 100, false},
		{"two reads", DirectRead, DirectRead, 0, 100, 0, 100, false},
		{"apart", BufferedWrite, DirectRead, 0, 100, 1 << 40, 100, false},
		{"buffered then direct write", BufferedWrite, DirectWrite, 0, 100, 50, 100, true},
		{"direct then buffered write", DirectWrite, BufferedWrite, 0, 100, 99, 1, true},
		{"two direct writes", DirectWrite, DirectWrite, 0, 100, 99, 100, true},
		{"direct write then direct read", DirectWrite, DirectRead, 0, 100, 99, 100, true},
		{"direct read then direct write", DirectRead, DirectWrite, 0, 100, 99, 100, true},
		{"touching direct writes", DirectWrite, DirectWrite, 0, 100, 100, 100, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var o Order
			a, ok := o.Begin(tc.a, tc.aOff, tc.aN, false)
			if !ok {
				t.Fatal("the first had to wait")
			}
			b, ok := o.Begin(tc.b, tc.bOff, tc.bN, false)
			if ok == tc.waits {
				t.Fatalf("the second entered: %t", ok)
			}
			if ok {
				o.End(b)
				o.End(a)
				return
			}
			entered := make(chan uint64)
			go func() {
				b, _ := o.Begin(tc.b, tc.bOff, tc.bN, true)
				entered <- b
			}()
			select {
			case <-entered:
				t.Fatal("entered beside the first")
			case <-time.After(5 * time.Millisecond):
			}
			o.End(a)
			o.End(<-entered)
			if len(o.spans) != 0 {
				t.Error("spans left")
			}
		})
	}
}

// TestOrderOfSplitWrites: neighbours that share a page wait only where one of
// them is direct there.
func TestOrderOfSplitWrites(t *testing.T) {
	type w struct{ off, n, from, m uint64 }
	read := func(off, n uint64) w { return w{off, n, 0, 1 << 63} } // marks a direct read
	for _, tc := range []struct {
		name  string
		a, b  w
		waits bool
	}{
		{"a stream of misaligned records", w{0, 47008, 0, 45056}, w{47008, 47008, 49152, 40960}, false},
		{"an aligned write after a tail in its first page", w{0, 5000, 0, 4096}, w{4608, 512, 4608, 512}, true},
		{"a buffered write into the tail", w{0, 5000, 0, 4096}, w{4096, 10, 0, 0}, false},
		{"a buffered write into the middle", w{0, 5000, 0, 4096}, w{4000, 10, 0, 0}, true},
		{"a buffered write beside it in a page", w{512, 512, 512, 512}, w{0, 10, 0, 0}, true},
		{"two buffered writes of one byte", w{5, 1, 0, 0}, w{5, 1, 0, 0}, false},
		{"a direct read of the tail", w{0, 5000, 0, 4096}, read(4096, 4096), true},
		{"a direct read behind it", w{0, 5000, 0, 4096}, read(8192, 4096), false},
	} {
		for range 2 {
			o := Order{unit: 4096}
			enter := func(x w) (uint64, bool) {
				if x.m == 1<<63 {
					return o.Begin(DirectRead, x.off, x.n, false)
				}
				return o.BeginPart(DirectWrite, x.off, x.n, x.from, x.m, false)
			}
			if _, ok := enter(tc.a); !ok {
				t.Errorf("%s: the first had to wait", tc.name)
			}
			if _, ok := enter(tc.b); ok == tc.waits {
				t.Errorf("%s: the second entered: %t", tc.name, ok)
			}
			tc.a, tc.b = tc.b, tc.a // it is the same the other way round
		}
	}
}

// TestOrderIsOneForEachInode: a file that is cached under two keys, as by two
// exports, has one Order, and it goes with the last of them.
func TestOrderIsOneForEachInode(t *testing.T) {
	c := newCache(t, Config{Budget: 100})
	dir := t.TempDir()
	p := tempFile(t, dir, "a", "x")
	a, other := insert(t, c, p), insert(t, c, tempFile(t, dir, "b", "x"))
	k := a.Key
	k.FS++
	fd, err := unix.Open(p, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	b := c.Insert(&k, fd, a.Mode)
	if a == b {
		t.Fatal("one file")
	}
	if _, err := a.Writer(); err != nil {
		t.Fatal(err)
	}
	if a.Order() != b.Order() || a.Order() == other.Order() {
		t.Error("not one Order for each file")
	}
	if a.Order().unit != uint64(os.Getpagesize()) {
		t.Errorf("its unit is %d", a.Order().unit)
	}
	ticket, _ := a.Order().Begin(DirectWrite, 0, 10, false)
	if _, ok := b.Order().Begin(BufferedWrite, 4000, 10, false); ok {
		t.Error("the other export's write entered")
	}
	a.Order().End(ticket)
	for _, f := range []*File{a, b, other} {
		f.Release()
		c.Forget(&f.Key)
	}
	if n := len(c.orders.of); n != 0 {
		t.Errorf("%d Orders left", n)
	}
}

// TestOrderIsFair: a steady run of overlapping reads does not starve a write.
func TestOrderIsFair(t *testing.T) {
	var o Order
	a, _ := o.Begin(DirectRead, 0, 10, true)
	wrote := make(chan uint64)
	go func() { w, _ := o.Begin(BufferedWrite, 0, 10, true); wrote <- w }()
	for {
		o.mu.Lock()
		queued := o.waiting == 1
		o.mu.Unlock()
		if queued {
			break
		}
		time.Sleep(time.Millisecond)
	}
	if _, ok := o.Begin(DirectRead, 0, 10, false); ok {
		t.Fatal("a later read overtook the waiting write")
	}
	o.End(a)
	o.End(<-wrote)
}

func TestOrderExcludes(t *testing.T) {
	var o Order
	var inside [2][16]atomic.Int32
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			r := rand.New(rand.NewSource(int64(g)))
			class := Class(g % 2)
			for range 2000 {
				off, n := uint64(r.Intn(12)), uint64(1+r.Intn(4))
				ticket, _ := o.Begin(class, off, n, true)
				for i := off; i < off+n; i++ {
					inside[class][i].Add(1)
					if inside[1-class][i].Load() != 0 {
						t.Error("a write and a direct read of one byte at once")
					}
				}
				for i := off; i < off+n; i++ {
					inside[class][i].Add(-1)
				}
				o.End(ticket)
			}
		}()
	}
	wg.Wait()
}

// TestSyncGateTellsAll: of syncs in flight together only one gets the kernel's
// error; none may return success, and the verifier has changed before any
// returns.
func TestSyncGateTellsAll(t *testing.T) {
	var verf atomic.Int32
	c := newCache(t, Config{Budget: 100})
	c.OnWriteError(func(*File) { time.Sleep(5 * time.Millisecond); verf.Add(1) })
	f := insert(t, c, tempFile(t, t.TempDir(), "a", "x"))
	defer f.Release()
	for range 20 {
		before := verf.Load()
		var once atomic.Bool
		var wg sync.WaitGroup
		var in sync.WaitGroup
		in.Add(4)
		for range 4 {
			wg.Add(1)
			go func() {
				defer wg.Done()
				err := f.Sync(func(int) error {
					in.Done()
					in.Wait() // all four overlap
					if once.CompareAndSwap(false, true) {
						return unix.EIO
					}
					return nil
				})
				if err != unix.EIO {
					t.Errorf("a sync beside a failed one returned %v", err)
				}
				if verf.Load() != before+1 {
					t.Error("returned before the verifier had changed")
				}
			}()
		}
		wg.Wait()
	}
	// The next one is unaffected, and an error that loses nothing leaves the verifier alone.
	if err := f.Sync(func(int) error { return nil }); err != nil {
		t.Error(err)
	}
	before, odd := verf.Load(), errors.New("odd")
	if err := f.SyncEnd(f.SyncBegin(), odd, false); err != odd || verf.Load() != before {
		t.Error(err)
	}
}

func BenchmarkOrder(b *testing.B) {
	var o Order
	b.ReportAllocs()
	for b.Loop() {
		t, _ := o.Begin(BufferedWrite, 0, 4096, true)
		o.End(t)
	}
}
