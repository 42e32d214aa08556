// The arithmetic of direct reads.

package dataio

import (
	"math"
	"testing"
)

func TestWidenTable(t *testing.T) {
	for _, tc := range []struct {
		off   int64
		count int
		unit  uint32
		from  int64
		wide  int
		ok    bool
	}{
		{0, 1, 512, 0, 512, true},
		{0, 512, 512, 0, 512, true},
		{0, 513, 512, 0, 1024, true},
		{511, 1, 512, 0, 512, true},
		{511, 2, 512, 0, 1024, true},
		{512, 512, 512, 512, 512, true},
		{4095, 2, 4096, 0, 8192, true},
		{4097, 1, 4096, 4096, 4096, true},
		{1, 1 << 20, 4096, 0, 1<<20 + 4096, true},
		{7, 3, 1, 7, 3, true},
		{1 << 40, 100, 4096, 1 << 40, 4096, true},
		{1, MaxMaxIO, 4096, 0, MaxMaxIO + 4096, true},
		{1, MaxMaxIO, 8192, 0, MaxMaxIO + 8192, true},
		{1, MaxMaxIO, 16384, 0, MaxMaxIO + 16384, true},
		{1, MaxMaxIO, 32768, 0, 0, false},
		{1, 1, 1 << 30, 0, 0, false},
		{math.MaxInt64 - 10, 10, 512, 0, 0, false},
		{math.MaxInt64 - 1023, 1, 512, math.MaxInt64 - 1023, 512, true},
		{math.MaxInt64 - 511, 1, 512, 0, 0, false},
	} {
		from, wide, ok := widen(tc.off, tc.count, tc.unit)
		if from != tc.from || wide != tc.wide || ok != tc.ok {
			t.Errorf("widen(%d, %d, %d) = %d, %d, %t; want %d, %d, %t", tc.off, tc.count, tc.unit, from, wide, ok, tc.from, tc.wide, tc.ok)
		}
	}
}

// FuzzWiden: whatever is asked of a file of any length, the bytes given are
// those asked for that the file has, and no others.
func FuzzWiden(f *testing.F) {
	f.Add(int64(0), 1, uint8(9), int64(100))
	f.Add(int64(4095), 4098, uint8(12), int64(5000))
	f.Add(int64(1000), 1<<20, uint8(12), int64(1<<20))
	f.Add(int64(math.MaxInt64-1), 1, uint8(16), int64(0))
	f.Add(int64(513), 511, uint8(0), int64(1024))
	f.Fuzz(func(t *testing.T, off int64, count int, shift uint8, size int64) {
		if off < 0 || size < 0 || count < 1 || count > MaxMaxIO || shift > 30 || int64(count) > math.MaxInt64-off {
			return
		}
		unit := int64(1) << shift
		from, wide, ok := widen(off, count, uint32(unit))
		if !ok {
			if unit <= classSlack/2 && off < math.MaxInt64-MaxMaxIO-classSlack {
				t.Fatalf("refused %d at %d with alignment %d", count, off, unit)
			}
			return
		}
		to := from + int64(wide)
		if from%unit != 0 || to%unit != 0 || from > off || to < off+int64(count) || off-from >= unit || to-off-int64(count) >= unit {
			t.Fatalf("widen(%d, %d, %d) = [%d, %d)", off, count, unit, from, to)
		}
		n := int(max(0, min(size, to)-from)) // what the kernel gives
		skip, give := trim(from, n, off, count)
		if want := max(0, min(size, off+int64(count))-off); int64(give) != want || give > 0 && (from+int64(skip) != off || skip+give > n) {
			t.Fatalf("of %d bytes at %d, for %d at %d of a file of %d: skip %d, give %d", n, from, count, off, size, skip, give)
		}
	})
}
