// Direct and dontcache WRITEs: where they are cut, what is written when a piece
// falls short or fails, and what stays in the page cache.

package dataio

import (
	"bytes"
	"math/rand"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"sluice/pkg/filecache"
)

// landed returns a copy of data that lies in memory as off is aligned.
func landed(off uint64, data []byte) []byte {
	skew := int(off) & (pageSize - 1)
	mem, err := unix.Mmap(-1, 0, skew+len(data), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		panic(err)
	}
	copy(mem[skew:], data) // some tests write little: it goes with the process
	return mem[skew:]
}

func noise(seed int64, n int) []byte {
	b := make([]byte, n)
	rand.New(rand.NewSource(seed)).Read(b)
	return b
}

func TestSplitTable(t *testing.T) {
	for _, tc := range []struct {
		unit, block uint32
		off         uint64
		size        int
		head, mid   int
	}{
		{512, 4096, 0, 4096, 0, 4096},
		{512, 4096, 512, 512, 0, 512},
		{512, 4096, 1 << 40, 1 << 20, 0, 1 << 20},
		{512, 4096, 512, 8192, 0, 8192},
		{512, 4096, 512, 8193, 3584, 4096},
		{512, 4096, 1, 4095, 0, 0},
		{512, 4096, 1, 8190, 0, 0},
		{512, 4096, 1, 8191, 4095, 4096},
		{512, 4096, 0, 511, 0, 0},
		{512, 4096, 0, 4097, 0, 4096},
		{512, 4096, 47008, 47008, 2144, 40960},
		{512, 4096, 1, 1, 0, 0},
		{4096, 4096, 512, 8192, 3584, 4096},
		{4096, 4096, 4096, 512, 0, 0},
		{512, 16384, 4096, 32768, 0, 32768},
		{512, 16384, 4000, 32768, 12384, 16384},
		{512, 16384, 4096, 16383, 0, 0},
		{1, 4096, 5, 5, 0, 5},
	} {
		a := filecache.Align{Offset: tc.unit, Block: tc.block}
		if head, mid := split(tc.off, tc.size, &a); head != tc.head || mid != tc.mid {
			t.Errorf("%+v: head %d, middle %d", tc, head, mid)
		}
	}
}

// FuzzSplit: the middle is aligned and inside; and where there is a head or a
// tail, no page is shared with the middle, and none could be added to it.
func FuzzSplit(f *testing.F) {
	f.Add(uint64(700), uint32(10000), uint8(9), uint8(12))
	f.Fuzz(func(t *testing.T, off uint64, size uint32, unit, block uint8) {
		a := filecache.Align{Offset: 1 << (unit % 13), Block: 4096 << (block % 5)}
		off &= 1<<62 - 1
		n := int(size%MaxMaxIO) + 1
		head, mid := split(off, n, &a)
		cut := uint64(a.Offset)
		if head > 0 || mid < n {
			cut = max(cut, uint64(a.Block))
		}
		from, until := off+uint64(head), off+uint64(head+mid)
		switch {
		case head < 0 || mid < 0 || head+mid > n:
			t.Fatal("outside")
		case mid == 0:
			if start := (off + cut - 1) / cut * cut; start+cut <= off+uint64(n) {
				t.Fatal("a block was there")
			}
		case from%cut != 0 || until%cut != 0 && mid < n:
			t.Fatal("not aligned")
		case uint64(head) >= cut || uint64(n-head-mid) >= cut:
			t.Fatal("more could be direct")
		}
	})
}

// pieces is what reached pwrite.
type pieceAt struct {
	off    int64
	n      int
	direct bool
	flags  uintptr
}

// recordWrites has r note its writes, and change them first where alter is given.
func recordWrites(r *rig, f *filecache.File, alter func(i int, p *pieceAt) (int, error)) *[]pieceAt {
	var seen []pieceAt
	r.e.pwrite = func(th *Thread, fd int, b []byte, more [][]byte, off int64, fl uintptr) (int, error) {
		p := pieceAt{off, len(b), fd == f.FD(filecache.DirectOut), fl}
		i := len(seen)
		seen = append(seen, p)
		if alter != nil {
			n, err := alter(i, &p)
			if err != nil || n == 0 {
				return 0, err
			}
			if b = b[:n]; p.direct && n%512 != 0 {
				fd = f.FD(filecache.Write) // what no disk here does: stop between blocks
			}
		}
		n, err := th.pwritev2(fd, b, more, off, fl)
		if n > len(b) {
			panic("gathered")
		}
		return n, err
	}
	return &seen
}

// directFile makes a file of n bytes on a file system and says whether it has direct I/O.
func directFile(t *testing.T, r *rig, fs string, n int) (f *filecache.File, path string, model []byte) {
	t.Helper()
	path, model = filepath.Join(dirOn(t, fs), "f"), noise(7, n)
	if err := os.WriteFile(path, model, 0o600); err != nil {
		t.Fatal(err)
	}
	f = r.file(path)
	if _, err := f.Open(filecache.DirectOut, true); err == unix.EOPNOTSUPP {
		t.Skipf("%s has no direct I/O", fs)
	} else if err != nil {
		t.Fatal(err)
	}
	return f, path, model
}

var directFS = []string{"disk", "xfs512", "xfs4k"}

// TestDirectPieces: what goes direct, what does not, in which order, and as
// stable as asked.
func TestDirectPieces(t *testing.T) {
	for _, fs := range directFS {
		t.Run(fs, func(t *testing.T) {
			r := newRig(t, Config{}, filecache.Config{})
			f, path, model := directFile(t, r, fs, 200<<10)
			seen := recordWrites(r, f, nil)
			for stable, flags := range []uintptr{0, unix.RWF_DSYNC, unix.RWF_SYNC} {
				*seen = nil
				data := noise(int64(stable), 47008)
				before := r.e.Stats()
				n, committed, _, err := r.e.Write(r.th, &WriteReq{File: f, Offset: 47008, Data: landed(47008, data), Mode: Direct, Stable: uint32(stable)})
				if n != len(data) || committed != uint32(stable) || err != nil {
					t.Fatal(n, committed, err)
				}
				copy(model[47008:], data)
				want := []pieceAt{{47008, 2144, false, flags}, {49152, 40960, true, flags}, {90112, 3904, false, flags}}
				// The buffered pieces are given the rest of their part.
				if !slices.Equal(*seen, want) {
					t.Errorf("stable_how %d: %+v", stable, *seen)
				}
				st := r.e.Stats()
				if st.Write["direct"].Calls != before.Write["direct"].Calls+1 || st.WriteLanded != before.WriteLanded+1 || st.WriteCopied != 0 {
					t.Errorf("%+v", st)
				}
			}
			if got, _ := os.ReadFile(path); !bytes.Equal(got, model) {
				t.Error("the file is wrong from byte", diff(got, model))
			}
			// On a service thread: not when there is a middle.
			q := WriteReq{File: f, Offset: 4096, Data: landed(4096, make([]byte, 4096)), Mode: Direct, NoWait: true}
			*seen = nil
			if _, _, _, err := r.e.Write(r.th, &q); err != unix.EAGAIN || len(*seen) > 0 || !r.e.Sleeps(f, Direct, 4096, 4096) {
				t.Error("direct without sleeping:", err)
			}
			if q.Data = q.Data[:100]; r.e.Sleeps(f, Direct, 4096, 100) || r.e.Sleeps(f, Buffered, 4096, 4096) {
				t.Error("a buffered WRITE is said to sleep")
			}
			if n, _, _, err := r.e.Write(r.th, &q); n != 100 || err != nil {
				t.Error(n, err)
			}
			if st := r.e.Stats(); st.Write["direct"].Fallbacks["no_aligned_part"] != 1 || st.Write["buffered"].Calls != 1 {
				t.Errorf("%+v", st.Write)
			}
		})
	}
}

// TestDirectShortAndRefused: whichever piece falls short, fails or is refused,
// and wherever: the bytes counted are in the file, and no other has changed
// that was not asked for.
func TestDirectShortAndRefused(t *testing.T) {
	var warned []error
	r := newRig(t, Config{Warn: func(w Warning) { warned = append(warned, w.Err) }}, filecache.Config{})
	f, path, _ := directFile(t, r, "disk", 0)
	const size, off = 64 << 10, 1000
	for _, fault := range []struct {
		name  string
		err   error
		short func(n int) int
	}{
		{"short by a block", nil, func(n int) int { return n - 4096 }},
		{"short by half a block", nil, func(n int) int { return n - 2048 }},
		{"one byte", nil, func(int) int { return 1 }},
		{"nothing", nil, func(int) int { return 0 }},
		{"EIO", unix.EIO, nil},
		{"ENOSPC", unix.ENOSPC, nil},
		{"EINVAL", unix.EINVAL, nil},
		{"ENOTBLK", unix.ENOTBLK, nil},
	} {
		for at := range 5 {
			model := noise(1, size)
			if err := os.WriteFile(path, model, 0o600); err != nil {
				t.Fatal(err)
			}
			faulted, direct := false, false
			seen := recordWrites(r, f, func(i int, p *pieceAt) (int, error) {
				if i != at {
					return p.n, nil
				}
				faulted, direct = true, p.direct
				if fault.err != nil {
					return 0, fault.err
				}
				n := fault.short(p.n)
				if n < 0 {
					n = p.n
				}
				return n, nil
			})
			data := noise(int64(at+2), 40_000)
			stable := uint32(at % 3)
			n, committed, _, err := r.e.Write(r.th, &WriteReq{File: f, Offset: off, Data: data, Mode: Direct, Stable: stable})
			if !faulted && (n != len(data) || err != nil) {
				t.Fatalf("%s: no fault at piece %d, and %d, %v", fault.name, at, n, err)
			}
			goesOn := fault.short != nil && fault.name != "nothing" || direct && (fault.err == unix.EINVAL || fault.err == unix.ENOTBLK)
			switch {
			case goesOn && (n != len(data) || err != nil):
				t.Errorf("%s at piece %d: %d, %v; %+v", fault.name, at, n, err, *seen)
			case faulted && at == 0 && fault.err != nil && !goesOn && err != fault.err:
				t.Errorf("%s at once: %d, %v", fault.name, n, err)
			case err == nil && committed != stable:
				t.Errorf("%s at piece %d: committed %d", fault.name, at, committed)
			case err != nil && n != 0:
				t.Errorf("%s at piece %d: %d with %v", fault.name, at, n, err)
			}
			// Each piece starts where the last one ended.
			copy(model[off:], data[:n])
			got, rerr := os.ReadFile(path)
			if rerr != nil || !bytes.Equal(got, model) {
				t.Errorf("%s at piece %d: %d counted, the file is wrong from byte %d; %+v", fault.name, at, n, diff(got, model), *seen)
			}
		}
	}
	if !slices.Equal(warned, []error{unix.EINVAL, unix.ENOTBLK}) && len(warned) > 4 {
		t.Errorf("warnings: %v", warned)
	}
	fell := r.e.Stats().Write["direct"].Fallbacks
	if fell["einval"] != 1 || fell["enotblk"] != 1 || fell["short_direct_write"] == 0 {
		t.Errorf("%v", fell)
	}
	if st := r.e.Stats(); st.DirectBuffers.InUse != 0 || st.WriteCopied == 0 {
		t.Errorf("%+v", st.DirectBuffers)
	}
}

// TestDirectWithoutBuffers: when no aligned buffer is to be had, data that did
// not land goes round the page cache as dontcache does it.
func TestDirectWithoutBuffers(t *testing.T) {
	r := newRig(t, Config{DirectBytes: 1}, filecache.Config{}) // one of the largest
	f, path, _ := directFile(t, r, "disk", 0)
	var out []*buffer
	for b := r.e.direct.get(MaxMaxIO, false); b != nil; b = r.e.direct.get(MaxMaxIO, false) {
		out = append(out, b)
	}
	data := noise(1, 1<<20)
	for i, d := range [][]byte{append([]byte{0}, data...)[1:], landed(0, data)} {
		if i == 0 && alignedTo(d, 512) {
			t.Fatal("by chance it is aligned")
		}
		if n, _, _, err := r.e.Write(r.th, &WriteReq{File: f, Data: d, Mode: Direct}); n != len(d) || err != nil {
			t.Fatal(n, err)
		}
	}
	st := r.e.Stats()
	if st.Write["direct"].Fallbacks["no_aligned_buffer"] != 1 || st.Write["dontcache"].Calls != 1 || st.Write["direct"].Calls != 1 || st.WriteLanded != 1 {
		t.Errorf("%+v", st.Write)
	}
	for _, b := range out {
		b.Release()
	}
	if got, _ := os.ReadFile(path); !bytes.Equal(got, data) {
		t.Error("the file is wrong")
	}
}

// TestDirectNotHere: a file system without direct I/O.
func TestDirectNotHere(t *testing.T) {
	r := newRig(t, Config{}, filecache.Config{})
	path := filepath.Join(dirOn(t, "tmpfs"), "f")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	f, data := r.file(path), noise(1, 10000)
	if n, _, _, err := r.e.Write(r.th, &WriteReq{File: f, Data: data, Mode: Direct, NoWait: true}); n != len(data) || err != nil {
		t.Fatal(n, err)
	}
	if got, _ := os.ReadFile(path); !bytes.Equal(got, data) {
		t.Error("the file is wrong")
	}
	if fell := r.e.Stats().Write["direct"].Fallbacks; fell["no_direct_io"] != 1 {
		t.Error(fell)
	}
}

// TestWhatStaysCached: after a WRITE and a COMMIT, dontcache leaves just those
// pages that were cached before, by the kernel's way and by ours; direct none
// of the middle.
func TestWhatStaysCached(t *testing.T) {
	for _, fs := range directFS {
		for _, mode := range []Mode{Buffered, DontCache, Direct} {
			for _, ours := range []bool{false, true} {
				r := newRig(t, Config{}, filecache.Config{NoDontCache: ours})
				f, path, model := directFile(t, r, fs, 64*pageSize)
				for stable := range uint32(3) {
					dropCache(t, path)
					one := make([]byte, pageSize)
					fd, err := f.Open(filecache.NoAhead, true)
					if err != nil {
						t.Fatal(err)
					}
					for _, p := range []int{5, 20} {
						if _, err := unix.Pread(fd, one, int64(p*pageSize)); err != nil {
							t.Fatal(err)
						}
					}
					had := cachedPages(t, path)
					off := 4*pageSize - 100
					data := noise(int64(stable), 30*pageSize)
					if n, _, _, err := r.e.Write(r.th, &WriteReq{File: f, Offset: uint64(off), Data: data, Mode: mode, Stable: stable}); n != len(data) || err != nil {
						t.Fatal(n, err)
					}
					copy(model[off:], data)
					if _, err := r.e.Commit(r.th, f, 0, 0); err != nil {
						t.Fatal(err)
					}
					has := cachedPages(t, path)
					switch mode {
					case Buffered:
						if count(has) < 31 {
							t.Errorf("%s, buffered: %d pages", fs, count(has))
						}
					case DontCache:
						if !slices.Equal(had, has) {
							t.Errorf("%s, dontcache (ours %t, stable_how %d): %d pages cached before, %d after", fs, ours, stable, count(had), count(has))
						}
					case Direct:
						if n := count(has[4:33]); n != 0 {
							t.Errorf("%s, direct: %d pages of the middle", fs, n)
						}
					}
				}
				if got, _ := os.ReadFile(path); !bytes.Equal(got, model) {
					t.Errorf("%s, %v: the file is wrong from byte %d", fs, mode, diff(got, model))
				}
				fell := r.e.Stats().Write["dontcache"].Fallbacks["no_rwf_dontcache"]
				if want := 0; mode == DontCache && ours {
					if want = 3; fell != uint64(want) {
						t.Errorf("%s: %d fallbacks, not %d", fs, fell, want)
					}
				}
			}
		}
	}
}

func TestDirectWriteDoesNotAllocate(t *testing.T) {
	r := newRig(t, Config{}, filecache.Config{})
	f, _, _ := directFile(t, r, "disk", 0)
	data := make([]byte, 20000)
	for _, q := range []WriteReq{
		{File: f, Data: landed(0, data), Mode: Direct},
		{File: f, Offset: 100, Data: landed(0, data), Mode: Direct},
		{File: f, Data: data, Mode: DontCache},
	} {
		if n := testing.AllocsPerRun(20, func() {
			if _, _, _, err := r.e.Write(r.th, &q); err != nil {
				t.Fatal(err)
			}
		}); n != 0 {
			t.Errorf("%v: %v allocations", q.Mode, n)
		}
	}
}
