// The order of writes and direct reads, and the sync gate.

package filecache

import (
	"errors"
	"math/rand"
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
