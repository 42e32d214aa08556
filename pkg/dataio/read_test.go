// READ against a model, in every way on every file system; who serves it, what
// it leaves in the page cache, and what it tells.

package dataio

import (
	"bytes"
	"fmt"
	"math"
	"math/rand"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"sluice/pkg/filecache"
	"sluice/pkg/trace"
)

// holeyFile makes a file of size bytes with data and holes, and returns its
// path and content.
func holeyFile(t testing.TB, dir string, size int) (string, []byte) {
	t.Helper()
	r := rand.New(rand.NewSource(int64(size)))
	model := make([]byte, size)
	p := filepath.Join(dir, fmt.Sprint("holey", size))
	f, err := os.Create(p)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for at := 0; at < size; {
		n := min(1+r.Intn(200<<10), size-at)
		if r.Intn(3) > 0 {
			for i := at; i < at+n; i++ {
				model[i] = byte(i*7 + i>>8 + i>>16)
			}
			if _, err := f.WriteAt(model[at:at+n], int64(at)); err != nil {
				t.Fatal(err)
			}
		}
		at += n
	}
	if err := f.Truncate(int64(size)); err != nil {
		t.Fatal(err)
	}
	if err := f.Sync(); err != nil {
		t.Fatal(err)
	}
	return p, model
}

// want returns what a READ must give.
func want(model []byte, off uint64, count uint32, most int) []byte {
	if off >= uint64(len(model)) {
		return nil
	}
	return model[off:min(uint64(len(model)), off+min(uint64(count), uint64(most)))]
}

// ways are the ways a READ can be served, each forced by configuration.
var ways = []struct {
	name   string
	mode   Mode
	splice bool
	later  bool // not the first READ
	cfg    Config
	cache  filecache.Config
	set    func(*Engine)
}{
	{name: "copy", mode: Buffered},
	{name: "default", mode: Default, splice: true},
	{name: "splice", mode: Buffered, splice: true, cfg: Config{SpliceMin: 1}},
	{name: "splice_one_pipe", mode: Buffered, splice: true, cfg: Config{SpliceMin: 1, Pipes: 1}},
	{name: "splice_4M", mode: Buffered, splice: true, cfg: Config{SpliceMin: 1, MaxIO: MaxMaxIO}},
	{name: "dontcache", mode: DontCache, splice: true},
	{name: "dropbehind", mode: DontCache, cache: filecache.Config{NoDontCache: true}},
	{name: "no_cachestat", mode: DontCache, cache: filecache.Config{NoDontCache: true},
		set: func(e *Engine) { e.noCachestat.Store(true) }},
	{name: "direct", mode: Direct, splice: true},
	{name: "direct_4M", mode: Direct, cfg: Config{MaxIO: MaxMaxIO}},
	{name: "auto", mode: Auto, splice: true},
	{name: "direct_later", mode: Direct, later: true},
	{name: "direct_einval", mode: Direct, set: func(e *Engine) {
		e.pread = func(*Thread, int, []byte, int64, uintptr) (int, error) { return 0, unix.EINVAL }
	}},
	{name: "direct_in_pieces", mode: Direct, set: func(e *Engine) {
		e.pread = func(th *Thread, fd int, b []byte, off int64, flags uintptr) (int, error) {
			return th.preadv2(fd, b[:min(len(b), 8192)], off, flags)
		}
	}},
}

// TestModel reads at random and at awkward places in every way on every file
// system, warm and cold, and compares each byte with a model.
func TestModel(t *testing.T) {
	for _, fs := range fileSystems {
		t.Run(fs, func(t *testing.T) {
			dir := dirOn(t, fs)
			p, model := holeyFile(t, dir, 1<<20+300<<10+123)
			small, smallModel := holeyFile(t, dir, 700)
			empty, _ := holeyFile(t, dir, 0)
			for _, way := range ways {
				t.Run(way.name, func(t *testing.T) {
					r := newRig(t, way.cfg, way.cache)
					if way.set != nil {
						way.set(r.e)
					}
					check := func(path string, f *filecache.File, model []byte, off uint64, n uint32) {
						t.Helper()
						got, res := r.read(&ReadReq{File: f, Offset: off, Count: n, Mode: way.mode, First: !way.later, Splice: way.splice})
						w := want(model, off, n, r.e.MaxIO())
						if !bytes.Equal(got, w) {
							t.Fatalf("read of %d at %d gave %d bytes, want %d; first difference at %d",
								n, off, len(got), len(w), diff(got, w))
						}
						if res.Short != (len(w) < int(n)) {
							t.Fatalf("read of %d at %d: Short is %t for %d bytes", n, off, res.Short, len(w))
						}
					}
					f, s, z := r.file(p), r.file(small), r.file(empty)
					size := uint64(len(model))
					edges := []uint64{0, 1, 511, 512, 513, 4095, 4096, 4097, 1 << 20,
						size - 4097, size - 4096, size - 513, size - 1, size, size + 1, size + 4096, 1 << 40, math.MaxInt64 - 1, math.MaxInt64}
					counts := []uint32{0, 1, 511, 513, 4095, 4096, 4097, 65537}
					for _, off := range []uint64{0, 1, 4095, 4096, size - 1<<20, size - 1, 1 << 50} {
						for _, n := range []uint32{1<<20 - 1, 1 << 20, 1<<20 + 1, math.MaxUint32} {
							check(p, f, model, off, n)
						}
					}
					for _, off := range edges {
						for _, n := range counts {
							check(p, f, model, off, n)
						}
					}
					for _, off := range []uint64{0, 1, 512, 699, 700, 701, 4096} {
						for _, n := range []uint32{1, 512, 700, 4096, 1 << 20} {
							check(small, s, smallModel, off, n)
							check(empty, z, nil, off, n)
						}
					}
					rnd := rand.New(rand.NewSource(1))
					for i := range 80 {
						if i%20 == 0 && fs != "tmpfs" {
							dropCache(t, p)
						}
						off := uint64(rnd.Intn(len(model) + 5000))
						n := uint32(1 + rnd.Intn(1<<uint(1+rnd.Intn(20))))
						check(p, f, model, off, n)
					}
				})
			}
		})
	}
}

func diff(a, b []byte) int {
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return i
		}
	}
	return min(len(a), len(b))
}

// TestWhoServes: which mode and way serves a READ, by file system, and what
// the fallbacks are counted as.
func TestWhoServes(t *testing.T) {
	type row struct {
		way       string
		used      Mode
		fallbacks map[Mode]string
	}
	none := map[Mode]string{}
	disk := []row{
		{"copy", Buffered, none}, {"splice", Buffered, none}, {"dontcache", DontCache, none},
		{"dropbehind", DontCache, map[Mode]string{DontCache: "no_rwf_dontcache"}},
		{"no_cachestat", Buffered, map[Mode]string{DontCache: "no_cachestat"}},
		{"direct", Direct, none},
		{"direct_later", DontCache, map[Mode]string{Direct: "not_first_read"}},
		{"direct_einval", Buffered, map[Mode]string{Direct: "einval"}},
	}
	mem := []row{
		{"copy", Buffered, none}, {"splice", Buffered, none},
		{"dontcache", DontCache, map[Mode]string{DontCache: "no_rwf_dontcache"}},
		{"direct", DontCache, map[Mode]string{Direct: "no_direct_io", DontCache: "no_rwf_dontcache"}},
		{"no_cachestat", Buffered, map[Mode]string{DontCache: "no_cachestat"}},
	}
	for _, fs := range fileSystems {
		rows := disk
		if fs == "tmpfs" {
			rows = mem
		}
		dir := dirOn(t, fs)
		p, _ := holeyFile(t, dir, 300<<10)
		for _, row := range rows {
			for _, way := range ways {
				if way.name != row.way {
					continue
				}
				t.Run(fs+"/"+way.name, func(t *testing.T) {
					r := newRig(t, way.cfg, way.cache)
					if way.set != nil {
						way.set(r.e)
					}
					q := &ReadReq{File: r.file(p), Offset: 5, Count: 200 << 10, Mode: way.mode, First: !way.later, Splice: way.splice, NoWait: true}
					if fs != "tmpfs" && way.name != "no_cachestat" { // which just tries
						dropCache(t, p)
						if _, err := r.e.Read(r.th, q); err != unix.EAGAIN { // counts nothing but itself
							t.Fatal(err)
						}
					}
					q.NoWait = false
					res, err := r.e.Read(r.th, q)
					if err != nil {
						t.Fatal(err)
					}
					r.take(res)
					if res.Used != row.used {
						t.Errorf("served %v, want %v", res.Used, row.used)
					}
					st := r.e.Stats()
					for m := Buffered; m < Auto; m++ {
						ms := st.Read[m.String()]
						if want := row.fallbacks[m]; len(ms.Fallbacks) != b2i(want != "") || want != "" && ms.Fallbacks[want] != 1 {
							t.Errorf("fallbacks of %v: %v, want %q", m, ms.Fallbacks, want)
						}
						if ms.Calls != int64(b2i(m == row.used)) || m == row.used && (ms.Bytes != 200<<10 || ms.Latency.Count != 1) {
							t.Errorf("%v: %+v", m, ms)
						}
					}
					if st.Spliced != int64(b2i(way.splice && row.used == Buffered)) {
						t.Errorf("spliced: %d", st.Spliced)
					}
				})
			}
		}
	}
}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}

// TestReadAlign: on XFS a file that shares extents may be read at sector
// alignment but written at block alignment only; reads use the smaller.
func TestReadAlign(t *testing.T) {
	dir := dirOn(t, "xfs512")
	p, model := holeyFile(t, dir, 300<<10)
	shared := filepath.Join(dir, "shared")
	if out, err := exec.Command("cp", "--reflink=always", p, shared).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	r := newRig(t, Config{}, filecache.Config{})
	f := r.file(shared)
	got, res := r.read(&ReadReq{File: f, Offset: 700, Count: 100, Mode: Direct, First: true})
	if res.Used != Direct || !bytes.Equal(got, model[700:800]) {
		t.Fatal("wrong bytes or mode", res.Used)
	}
	a := f.Align()
	t.Logf("shared extents: %+v", a)
	if a.ReadOffset != 512 || a.Offset < a.ReadOffset {
		t.Errorf("%+v", a)
	}
	if ex := r.e.Stats().Read["direct"].Excess; ex != 1024-512-100 { // one sector read for 100 bytes
		t.Errorf("excess of %d bytes", ex)
	}
}

// TestNewFileRecordsAlignment: a file that this server has just created and
// written is read direct like any other.
func TestNewFileRecordsAlignment(t *testing.T) {
	r := newRig(t, Config{}, filecache.Config{})
	p := filepath.Join(t.TempDir(), "new")
	if err := os.WriteFile(p, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	f := r.file(p)
	if n, _, _, err := r.e.Write(r.th, &WriteReq{File: f, Data: []byte("hello, world"), Offset: 3}); n != 12 || err != nil {
		t.Fatal(n, err)
	}
	if f.Align().Offset == 0 {
		t.Error("no alignment after the first write")
	}
	got, res := r.read(&ReadReq{File: f, Count: 100, Mode: Direct, First: true})
	if string(got) != "\x00\x00\x00hello, world" || res.Used != Direct {
		t.Errorf("%q, %v", got, res.Used)
	}
}

// TestPageCache checks what each mode leaves in the page cache, and that none
// takes out what was there before.
func TestPageCache(t *testing.T) {
	for _, fs := range []string{"disk", "xfs512", "xfs4k"} {
		dir := dirOn(t, fs)
		p := filepath.Join(dir, "cached")
		if err := os.WriteFile(p, bytes.Repeat([]byte("0123456789abcdef"), 4<<20/16), 0o600); err != nil {
			t.Fatal(err)
		}
		for _, way := range ways {
			if way.mode == Default || way.name == "direct_einval" || way.name == "no_cachestat" {
				continue
			}
			t.Run(fs+"/"+way.name, func(t *testing.T) {
				r := newRig(t, way.cfg, way.cache)
				if way.set != nil {
					way.set(r.e)
				}
				f := r.file(p)
				dropCache(t, p)
				// Somebody else has pages 3, 10-13 and 300 cached.
				fd, err := unix.Open(p, unix.O_RDONLY, 0)
				if err != nil {
					t.Fatal(err)
				}
				defer unix.Close(fd)
				if err := unix.Fadvise(fd, 0, 0, unix.FADV_RANDOM); err != nil {
					t.Fatal(err)
				}
				theirs := []int{3, 10, 11, 12, 13, 300}
				for _, pg := range theirs {
					if _, err := unix.Pread(fd, make([]byte, 1), int64(pg*pageSize)); err != nil {
						t.Fatal(err)
					}
				}
				before := cachedPages(t, p)
				for off := uint64(1000); off < 3<<20; off += 1 << 20 {
					r.read(&ReadReq{File: f, Offset: off, Count: 1 << 20, Mode: way.mode, First: !way.later, Splice: way.splice})
				}
				after := cachedPages(t, p)
				for i := range before {
					if before[i] && !after[i] {
						t.Errorf("page %d was cached before and is not any more", i)
					}
				}
				grew := count(after) - count(before)
				switch {
				case way.mode == Buffered && grew < 3<<20/pageSize-10:
					t.Errorf("buffered reads cached %d pages", grew)
				case way.mode == Direct && !way.later && grew != 0:
					t.Errorf("direct reads cached %d pages", grew)
				case way.name == "dropbehind" && grew != 0:
					t.Errorf("drop-behind reads cached %d pages", grew)
				case way.name == "dontcache" && grew > 600:
					// The kernel reads ahead for RWF_DONTCACHE; what it has read
					// ahead goes when the next READ has used it.
					t.Errorf("dontcache reads cached %d pages", grew)
				}
			})
		}
	}
}

// TestTruncatedMeanwhile: a file cut short between READ and sending gives what
// the reply's header promised.
func TestTruncatedMeanwhile(t *testing.T) {
	for _, fs := range fileSystems {
		dir := dirOn(t, fs)
		p, _ := holeyFile(t, dir, 1<<20)
		r := newRig(t, Config{}, filecache.Config{})
		f := r.file(p)
		res, err := r.e.Read(r.th, &ReadReq{File: f, Count: 1 << 20, Splice: true})
		if err != nil {
			t.Fatal(err)
		}
		if _, inMemory := res.Data.Bytes(); inMemory {
			t.Fatal("not a pipe")
		}
		if err := os.Truncate(p, 10); err != nil {
			t.Fatal(err)
		}
		if n := len(r.take(res)); n != 1<<20 {
			t.Errorf("%s: %d bytes", fs, n)
		}
		if got, res := r.read(&ReadReq{File: f, Count: 1 << 20, Splice: true}); len(got) != 10 || !res.Short {
			t.Errorf("%s: after the cut %d bytes", fs, len(got))
		}
	}
}

func TestTrace(t *testing.T) {
	p, _ := holeyFile(t, t.TempDir(), 1<<20)
	for _, tc := range []struct {
		q    ReadReq
		want string
	}{
		{ReadReq{Count: 4096}, "file_open read_start read_vector read_io_done read_done"},
		{ReadReq{Count: 512 << 10, Splice: true}, "file_open read_start read_splice read_io_done read_done"},
		{ReadReq{Count: 4096, Mode: DontCache}, "file_open read_start read_dontcache read_io_done read_done"},
		{ReadReq{Count: 4096, Mode: Direct, First: true}, "file_open read_start read_direct read_io_done read_done"},
		{ReadReq{Count: 4096, Mode: Direct}, "file_open read_start fallback read_dontcache read_io_done read_done"},
	} {
		bus := new(trace.Bus)
		sub := bus.Subscribe(100)
		r := newRig(t, Config{Trace: bus}, filecache.Config{})
		tc.q.File, tc.q.XID, tc.q.Export, tc.q.Offset = r.file(p), 7, "/e", 4096
		_, res := r.read(&tc.q)
		var names []string
		for range strings.Count(tc.want, " ") + 1 {
			e, ok := sub.Next(t.Context())
			if !ok {
				t.Fatal("stream ended")
			}
			names = append(names, string(e.Name))
			switch e.Name {
			case trace.FileOpen:
				if e.Align.Offset == 0 {
					t.Errorf("no alignment: %v", e)
				}
			case trace.ReadDone:
				if e.Mode != res.Used.String() || e.Len != uint64(res.N) || e.XID != 7 || e.Export != "/e" || e.Offset != 4096 || e.Duration == 0 {
					t.Errorf("%v", e)
				}
			}
		}
		if got := strings.Join(names, " "); got != tc.want {
			t.Errorf("%+v:\ngot  %s\nwant %s", tc.q, got, tc.want)
		}
		sub.Close()
	}
}

func TestWarmReadsDoNotAllocate(t *testing.T) {
	p, _ := holeyFile(t, t.TempDir(), 2<<20)
	warmUp(t, p)
	sock, stop := drained(t)
	defer stop()
	for _, way := range ways {
		if way.set != nil {
			continue
		}
		r := newRig(t, way.cfg, way.cache)
		f := r.file(p)
		r.th.AsServer = func(f func() error) error { return f() }
		for _, n := range []uint32{1, 4096, 64 << 10, 1 << 20} {
			if got := testing.AllocsPerRun(50, func() {
				q := &ReadReq{File: f, Offset: 1, Count: n, Mode: way.mode, First: !way.later, Splice: way.splice,
					NoWait: way.mode != Direct || way.later}
				res, err := r.e.Read(r.th, q)
				if err == unix.EAGAIN { // the kernel moved a page
					q.NoWait = false
					res, err = r.e.Read(r.th, q)
				}
				if err != nil {
					t.Fatal(err)
				}
				send(t, sock, res)
			}); got != 0 {
				t.Errorf("%s, %d bytes: %v allocations", way.name, n, got)
			}
		}
	}
}

func TestEINVALWarnsOnce(t *testing.T) {
	p, _ := holeyFile(t, t.TempDir(), 100)
	var warned []Warning
	r := newRig(t, Config{Warn: func(w Warning) { warned = append(warned, w) }}, filecache.Config{})
	f := r.file(p)
	r.e.pread = func(*Thread, int, []byte, int64, uintptr) (int, error) { return 0, unix.EINVAL }
	for range 5 {
		r.read(&ReadReq{File: f, Count: 10, Mode: Direct, First: true, Export: "/e"})
	}
	if len(warned) != 1 || warned[0].Export != "/e" || warned[0].File != f.Key {
		t.Errorf("%+v", warned)
	}
	if n := r.e.Stats().Read["direct"].Fallbacks["einval"]; n != 5 {
		t.Errorf("%d counted", n)
	}
}

// TestModesUnderLoad switches modes while several threads read, and checks
// every byte.
func TestModesUnderLoad(t *testing.T) {
	p, model := holeyFile(t, t.TempDir(), 2<<20+77)
	r := newRig(t, Config{BufferBytes: 8 << 20, DirectBytes: 5 << 20, Pipes: 2, SpliceMin: 32 << 10}, filecache.Config{})
	f := r.file(p)
	var m Modes
	stop := make(chan struct{})
	var readers, switcher sync.WaitGroup
	switcher.Add(1)
	go func() {
		defer switcher.Done()
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
				m.SetRead(Mode(i % int(modes)))
			}
		}
	}()
	for g := range 4 {
		readers.Add(1)
		go func() {
			defer readers.Done()
			th := r.e.NewThread()
			defer th.Close()
			rnd := rand.New(rand.NewSource(int64(g)))
			mine := &rig{t, r.e, r.cache, th}
			for range 250 {
				off := uint64(rnd.Intn(len(model)))
				n := uint32(1 + rnd.Intn(300<<10))
				res, err := r.e.Read(th, &ReadReq{File: f, Offset: off, Count: n, Mode: m.Read(nil, netip.Addr{}), First: true, Splice: rnd.Intn(2) == 0})
				if err != nil {
					t.Error(err)
					return
				}
				if !bytes.Equal(mine.take(res), want(model, off, n, r.e.MaxIO())) {
					t.Errorf("wrong bytes at %d", off)
				}
			}
		}()
	}
	readers.Wait()
	close(stop)
	switcher.Wait()
}
