// Mode auto: what it decides, that every decision gives the right bytes, what
// it leaves in the page cache, and what the warm path costs.

package dataio

import (
	"bytes"
	"math/rand"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"

	"sluice/pkg/filecache"
	"sluice/pkg/trace"
)

const gib = 1 << 30

func TestDecide(t *testing.T) {
	const big, little = 1 << 20, 4096
	seq, rnd, unsettled := filecache.Sequential, filecache.Random, filecache.Unsettled
	for _, tc := range []struct {
		name string
		q    question
		mode Mode
		why  choice
	}{
		{"nothing is known yet", question{count: big, pattern: seq, share: 100 * gib, streams: 1}, Buffered, choiceFits},
		{"0.81 times memory", question{count: big, pattern: seq, room: gib, share: gib / 100 * 81, streams: 32}, Buffered, choiceFits},
		{"just over what fits", question{count: big, pattern: seq, room: gib, share: gib/16*15 + 1, streams: 64, ahead: 16 << 20}, Direct, choiceMany},
		{"3.125 times memory, 64 jobs", question{count: big, pattern: seq, room: gib, share: 3 * gib, streams: 64, ahead: 16 << 20}, Direct, choiceMany},
		{"the same, little read ahead", question{count: big, pattern: seq, room: gib, share: 3 * gib, streams: 32, ahead: 5 << 20}, Buffered, choiceAhead},
		{"the same, pages are wanted back", question{count: big, pattern: seq, room: gib, share: 3 * gib, streams: 32, ahead: 5 << 20, short: true}, Buffered, choiceAhead},
		{"the same, threads wait for memory", question{count: big, pattern: seq, room: gib, share: 3 * gib, streams: 32, ahead: 5 << 20, short: true, stalled: true}, Direct, choiceMany},
		{"the same, large and at random", question{count: big, pattern: rnd, room: gib, share: 3 * gib, streams: 32, ahead: 5 << 20}, Direct, choiceLarge},
		{"3.125 times memory, 1 job", question{count: big, pattern: seq, room: gib, share: 3 * gib, streams: 1}, DontCache, choiceStreaming},
		{"the same, small records", question{count: 47008, pattern: seq, room: gib, share: 3 * gib, streams: 1}, DontCache, choiceStreaming},
		{"the same, many jobs", question{count: 47008, pattern: seq, room: gib, share: 3 * gib, streams: 64, ahead: 16 << 20}, Buffered, choiceSmall},
		{"free memory would take one stream, which is dropped all the same", question{count: big, pattern: seq, room: gib, share: 3 * gib, streams: 1, spare: true}, DontCache, choiceStreaming},
		{"free memory takes it", question{count: big, pattern: seq, room: gib, share: 3 * gib, streams: 64, spare: true}, Buffered, choiceRoom},
		{"large and at random", question{count: big, pattern: rnd, room: gib, share: 3 * gib}, Direct, choiceLarge},
		{"large, not settled", question{count: big, pattern: unsettled, room: gib, share: 3 * gib}, Direct, choiceLarge},
		{"small and at random", question{count: little, pattern: rnd, room: gib, share: 3 * gib}, DontCache, choiceRandom},
		{"the one that is cached", question{count: little, pattern: rnd, room: gib, share: 3 * gib, admit: true}, Buffered, choiceSmall},
		{"small, not settled", question{count: little, pattern: unsettled, room: gib, share: 3 * gib}, Buffered, choiceSmall},
		{"small, fits", question{count: little, pattern: rnd, room: gib, share: gib / 2}, Buffered, choiceFits},
		{"fits, but memory is short", question{count: big, pattern: seq, room: gib, share: gib / 2, streams: 64, ahead: 16 << 20, short: true}, Direct, choiceShort},
		{"the same, one stream", question{count: big, pattern: seq, room: gib, share: gib / 2, streams: 1, short: true}, DontCache, choiceStreaming},
		{"short memory takes nothing that is free", question{count: big, pattern: rnd, room: gib, share: 3 * gib, spare: true, short: true}, Direct, choiceLarge},
		{"nobody knows the memory, but it is short", question{count: big, pattern: rnd, short: true}, Direct, choiceShort},
		{"dirty pages", question{count: big, pattern: seq, room: gib, share: 3 * gib, streams: 64, dirty: true, short: true}, Buffered, choiceWriting},
	} {
		if mode, why := tc.q.decide(); mode != tc.mode || why != tc.why {
			t.Errorf("%s: %v, %v; want %v, %v", tc.name, mode, why, tc.mode, tc.why)
		}
	}
	if n := AutoReasons(); len(n) != int(choices) || n[0] != "cached" {
		t.Error(n)
	}
}

// setMemory fixes what auto takes memory to be; no sample is taken any more.
func setMemory(e *Engine, room, share, spare int64, short bool) {
	m := &e.auto.memory
	m.next.Store(1 << 62)
	m.room.Store(room)
	m.spare.Store(spare)
	m.short.Store(short)
	m.share.cur.Store(share)
}

// TestAutoModel compares what auto gives with a model while memory is plenty,
// too small and short, for streams, READs at random and both, warm and cold.
func TestAutoModel(t *testing.T) {
	for _, fs := range fileSystems {
		dir := dirOn(t, fs)
		p, model := holeyFile(t, dir, 6<<20+123)
		for _, mem := range []struct {
			name        string
			room, share int64
			spare       int64
			short       bool
		}{
			{"plenty", gib, 0, gib, false},
			{"too_small", 64 << 20, gib, 0, false},
			{"tiny", 1 << 20, gib, 0, false},
			{"short", gib, 0, 0, true},
			{"some_room", 64 << 20, gib, 2 << 20, false},
		} {
			t.Run(fs+"/"+mem.name, func(t *testing.T) {
				r := newRig(t, Config{}, filecache.Config{})
				f := r.file(p)
				rnd := rand.New(rand.NewSource(1))
				check := func(off uint64, n uint32) {
					t.Helper()
					setMemory(r.e, mem.room, mem.share, r.e.auto.memory.spare.Load(), mem.short)
					got, _ := r.read(&ReadReq{File: f, Offset: off, Count: n, Mode: Auto, First: rnd.Intn(8) > 0, Splice: rnd.Intn(2) == 0})
					if w := want(model, off, n, r.e.MaxIO()); !bytes.Equal(got, w) {
						t.Fatalf("read of %d at %d gave %d bytes, want %d; first difference at %d", n, off, len(got), len(w), diff(got, w))
					}
				}
				r.e.auto.memory.spare.Store(mem.spare)
				for _, size := range []uint32{4096, 47008, 256 << 10, 1 << 20} {
					if fs != "tmpfs" {
						dropCache(t, p)
					}
					for i, off := 0, uint64(0); i < 100 && off < uint64(len(model)+5000); i, off = i+1, off+uint64(size) {
						check(off, size)
					}
					for range 40 {
						check(uint64(rnd.Intn(len(model))), uint32(1+rnd.Intn(int(size))))
					}
				}
				var decided int64
				for _, n := range r.e.Stats().ReadAuto {
					decided += n
				}
				var served int64
				for _, s := range r.e.Stats().Read {
					served += s.Calls
				}
				if decided != served {
					t.Errorf("%d decisions, %d READs: %v", decided, served, r.e.Stats().ReadAuto)
				}
			})
		}
	}
}

// TestAutoDecides: which decision a READ gets, end to end, what serves it, and
// what trace and stats say.
func TestAutoDecides(t *testing.T) {
	p := filepath.Join(t.TempDir(), "f")
	model := bytes.Repeat([]byte("0123456789abcdef"), 64<<20/16)
	if err := os.WriteFile(p, model, 0o600); err != nil {
		t.Fatal(err)
	}
	stream := func(n uint32) (offs []uint64) {
		for i := range uint64(6) {
			offs = append(offs, i*uint64(n))
		}
		return offs
	}
	var scattered []uint64
	for i := range uint64(40) {
		scattered = append(scattered, i*37%64<<20)
	}
	for _, tc := range []struct {
		name        string
		room, share int64
		streams     int64
		count       uint32
		offs        []uint64
		later       bool
		last        string // reason of the last READ
		used        Mode
	}{
		{name: "fits", room: gib, count: 1 << 20, offs: stream(1 << 20), last: "fits", used: Buffered},
		{name: "streaming", room: 512 << 20, share: gib, count: 1 << 20, offs: stream(1 << 20), last: "streaming", used: DontCache},
		{name: "many_streams", room: 512 << 20, share: gib, streams: 64, count: 1 << 20, offs: stream(1 << 20), last: "many_streams", used: Direct},
		{name: "many_streams_not_first", room: 512 << 20, share: gib, streams: 64, count: 1 << 20, offs: stream(1 << 20), later: true, last: "many_streams", used: DontCache},
		{name: "large", room: 512 << 20, share: gib, count: 1 << 20, offs: []uint64{9 << 20}, last: "large", used: Direct},
		{name: "random", room: 512 << 20, share: gib, count: 4096, offs: scattered[:31], last: "random", used: DontCache},
	} {
		t.Run(tc.name, func(t *testing.T) {
			bus := new(trace.Bus)
			sub := bus.Subscribe(1000)
			defer sub.Close()
			r := newRig(t, Config{Trace: bus}, filecache.Config{})
			f := r.file(p)
			var used Mode
			for _, off := range tc.offs {
				dropCache(t, p) // what was read ahead, too
				setMemory(r.e, tc.room, tc.share, 0, false)
				r.e.auto.memory.streams.cur.Store(tc.streams)
				res, err := r.e.Read(r.th, &ReadReq{File: f, Offset: off, Count: tc.count, Mode: Auto, First: !tc.later, XID: 7})
				if err != nil {
					t.Fatal(err)
				}
				if !bytes.Equal(r.take(res), model[off:off+uint64(tc.count)]) {
					t.Fatal("wrong bytes")
				}
				used = res.Used
			}
			var last trace.Event
			n := 0
			for sub.Pending() > 0 {
				if e, _ := sub.Next(t.Context()); e.Name == trace.ReadAuto {
					last, n = e, n+1
				}
			}
			if n != len(tc.offs) || last.Reason != tc.last || last.XID != 7 || used != tc.used {
				t.Errorf("%d decisions, the last one %v, served %v; stats %v", n, last, used, r.e.Stats().ReadAuto)
			}
			if r.e.Stats().ReadAuto[tc.last] == 0 {
				t.Errorf("%v", r.e.Stats().ReadAuto)
			}
		})
	}
}

// TestAutoWriting: a range with dirty pages is not read direct.
func TestAutoWriting(t *testing.T) {
	p := filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(p, make([]byte, 8<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	r := newRig(t, Config{}, filecache.Config{})
	f := r.file(p)
	dropCache(t, p)
	setMemory(r.e, 512<<20, gib, 0, false)
	if n, _, _, err := r.e.Write(r.th, &WriteReq{File: f, Data: []byte("new"), Offset: 1 << 20}); n != 3 || err != nil {
		t.Fatal(n, err)
	}
	res, err := r.e.Read(r.th, &ReadReq{File: f, Offset: 1 << 20, Count: 1 << 20, Mode: Auto, First: true})
	if err != nil {
		t.Fatal(err)
	}
	if got := r.take(res); string(got[:3]) != "new" || r.e.Stats().ReadAuto["writing"] != 1 || res.Used != Buffered {
		t.Errorf("%q, %v, %v", got[:3], res.Used, r.e.Stats().ReadAuto)
	}
}

// TestAutoDropsBehind: a stream that doesn't fit is read ahead, leaves next to
// nothing behind, and leaves what others had cached alone.
func TestAutoDropsBehind(t *testing.T) {
	for _, fs := range []string{"disk", "xfs512"} {
		p := filepath.Join(dirOn(t, fs), "f")
		const size = 96 << 20
		if err := os.WriteFile(p, make([]byte, size), 0o600); err != nil {
			t.Fatal(err)
		}
		for _, tc := range []struct {
			count  uint32
			splice bool
		}{{1 << 20, false}, {1 << 20, true}, {47008, true}} {
			r := newRig(t, Config{SpliceMin: 1 << 10}, filecache.Config{})
			f := r.file(p)
			dropCache(t, p)
			fd, err := unix.Open(p, unix.O_RDONLY, 0)
			if err != nil {
				t.Fatal(err)
			}
			defer unix.Close(fd)
			const theirs = 5 * filecache.Piece // a page in the sixth piece
			if err := unix.Fadvise(fd, 0, 0, unix.FADV_RANDOM); err != nil {
				t.Fatal(err)
			}
			if _, err := unix.Pread(fd, make([]byte, 1), theirs); err != nil {
				t.Fatal(err)
			}
			most := 0
			for off := uint64(0); off < size; off += uint64(tc.count) {
				setMemory(r.e, 512<<20, gib, 0, false)
				r.e.auto.memory.streams.cur.Store(1)
				r.read(&ReadReq{File: f, Offset: off, Count: tc.count, Mode: Auto, First: true, Splice: tc.splice})
				if off/filecache.Piece != (off+uint64(tc.count))/filecache.Piece {
					most = max(most, cachedBytes(r, fd, 0, size))
				}
			}
			if cachedBytes(r, fd, theirs, int64(pageSize)) == 0 {
				t.Errorf("%s, %+v: a page of somebody else's was dropped", fs, tc)
			}
			// Its own allowance, the piece with the page, and where it began.
			if limit := filecache.FollowedBytes + 3*filecache.Piece; most > limit {
				t.Errorf("%s, %+v: %d MiB cached at once, want %d", fs, tc, most>>20, limit>>20)
			}
			if st := r.e.Stats(); st.Read["direct"].Calls > 3 || st.Read["dontcache"].Calls != st.ReadAuto["streaming"] {
				t.Errorf("%s, %+v: %v", fs, tc, st.ReadAuto)
			}
		}
	}
}

// cachedBytes is how much of [off, off+n) is cached.
func cachedBytes(r *rig, fd int, off, n int64) int {
	have, err := r.e.cached(r.th, fd, off, off+n)
	if err != nil {
		r.Fatal(err)
	}
	return have * pageSize
}

// TestAutoAdmits: of small READs at random that don't fit, most leave nothing
// in the page cache and some do, and those there are served.
func TestAutoAdmits(t *testing.T) {
	p := filepath.Join(t.TempDir(), "f")
	const size = 64 << 20
	if err := os.WriteFile(p, make([]byte, size), 0o600); err != nil {
		t.Fatal(err)
	}
	r := newRig(t, Config{}, filecache.Config{})
	f := r.file(p)
	dropCache(t, p)
	rnd := rand.New(rand.NewSource(5))
	const reads = 1000
	for range reads {
		setMemory(r.e, 64<<20, gib, 0, false)
		r.read(&ReadReq{File: f, Offset: uint64(rnd.Intn(size/4096)) * 4096, Count: 4096, Mode: Auto, First: true})
	}
	fd, err := f.Reader()
	if err != nil {
		t.Fatal(err)
	}
	if !f.Align().DontCache {
		t.Skip("the file system has no RWF_DONTCACHE")
	}
	cached := cachedBytes(r, fd, 0, size) / pageSize
	if cached < reads/admitOf/2 || cached > reads/admitOf*3 {
		t.Errorf("%d of %d READs are cached, want about %d; %v", cached, reads, reads/admitOf, r.e.Stats().ReadAuto)
	}
}

func TestAutoWarmDoesNotAllocate(t *testing.T) {
	p, _ := holeyFile(t, t.TempDir(), 2<<20)
	warmUp(t, p)
	r := newRig(t, Config{}, filecache.Config{})
	f := r.file(p)
	f.Access().SetScattered(true) // both ways
	for _, n := range []uint32{1, 4096, 64 << 10, 1 << 20} {
		if got := testing.AllocsPerRun(50, func() {
			q := &ReadReq{File: f, Offset: 1, Count: n, Mode: Auto, First: true, NoWait: true}
			res, err := r.e.Read(r.th, q)
			if err == unix.EAGAIN { // the kernel moved a page
				setMemory(r.e, gib, 0, 0, false)
				q.NoWait = false
				res, err = r.e.Read(r.th, q)
			}
			if err != nil {
				t.Fatal(err)
			}
			res.Data.Release()
		}); got != 0 {
			t.Errorf("%d bytes: %v allocations", n, got)
		}
	}
	if n := r.e.Stats().ReadAuto["cached"]; n < 200 {
		t.Errorf("%d served from memory", n)
	}
}

// BenchmarkAuto compares a warm READ in mode auto with mode buffered, on a
// service thread: the price of asking (docs/decisions/0039-auto.md). cpu-ns/op
// is the thread's own time, of use on a machine that does other things as well.
func BenchmarkAuto(b *testing.B) {
	p := b.TempDir() + "/data"
	const size = 64 << 20
	if err := os.WriteFile(p, make([]byte, size), 0o600); err != nil {
		b.Fatal(err)
	}
	cache := filecache.New(filecache.Config{Budget: 100})
	e, err := New(Config{Cache: cache})
	if err != nil {
		b.Fatal(err)
	}
	defer e.Close() //nolint:errcheck // a test's
	defer cache.Close()
	for _, way := range []string{"buffered", "auto", "auto_tight"} {
		mode := Auto
		if way == "buffered" {
			mode = Buffered
		}
		fd, err := unix.Open(p, unix.O_PATH|unix.O_CLOEXEC, 0)
		if err != nil {
			b.Fatal(err)
		}
		f := cache.Insert(&filecache.Key{FS: 1, Len: uint8(len(way)), Bytes: [40]byte{1}}, fd, unix.S_IFREG)
		defer f.Release()
		e.auto.tight.Store(way == "auto_tight")
		f.Access() // all of its streams are elsewhere
		th := e.NewThread()
		for _, kib := range []int{4, 64, 1024} {
			b.Run("size="+strconv.Itoa(kib)+"K/"+way, func(b *testing.B) {
				runtime.LockOSThread()
				defer runtime.UnlockOSThread()
				q := &ReadReq{File: f, Count: uint32(kib << 10), Mode: mode, First: true, NoWait: true}
				b.SetBytes(int64(kib << 10))
				b.ReportAllocs()
				before := threadTime()
				for i := 0; b.Loop(); i++ {
					q.Offset = uint64(i*kib<<10) * 61 % (size - 1<<20) // no stream
					res, err := e.Read(th, q)
					if err == unix.EAGAIN { // the kernel moved a page
						continue
					}
					if err != nil {
						b.Fatal(err)
					}
					res.Data.Release()
				}
				b.ReportMetric(float64(threadTime()-before)/float64(b.N), "cpu-ns/op")
			})
		}
	}
}

// threadTime is the thread's user and system time, in nanoseconds.
func threadTime() int64 {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &ts); err != nil {
		panic(err)
	}
	return ts.Nano()
}
