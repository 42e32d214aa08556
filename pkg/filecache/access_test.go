package filecache

import (
	"math"
	"math/rand"
	"sync"
	"testing"
)

// replay notes READs and returns how many were taken for sequential and for
// random ones.
func replay(a *Access, size, n int64, offs []int64) (seq, rnd int) {
	for _, off := range offs {
		switch a.Note(off, n, size, 1).Pattern {
		case Sequential:
			seq++
		case Random:
			rnd++
		}
	}
	return seq, rnd
}

// TestPatterns: streams are found whether their READs come in order, mixed up,
// or among those of others, and READs here and there are not taken for streams.
func TestPatterns(t *testing.T) {
	const size = 4 << 30
	rnd := rand.New(rand.NewSource(1))
	streams := func(n int, count int64, shuffle int) (offs []int64) {
		for i := range 200 {
			for s := range n {
				offs = append(offs, int64(s)*(size/int64(n))+int64(i)*count)
			}
		}
		for i := 0; i+shuffle <= len(offs) && shuffle > 0; i += shuffle {
			part := offs[i : i+shuffle]
			rnd.Shuffle(shuffle, func(i, j int) { part[i], part[j] = part[j], part[i] })
		}
		return offs
	}
	scattered := func(n int, count int64) (offs []int64) {
		for range n {
			offs = append(offs, rnd.Int63n(size/count)*count)
		}
		return offs
	}
	gaps := func(each int64, n int) (offs []int64) { // what misses when the kernel reads ahead
		for i := range n {
			offs = append(offs, int64(i)*each)
		}
		return offs
	}
	for _, tc := range []struct {
		name           string
		count          int64
		offs           []int64
		leastSeq       float64 // parts of all
		mostSeq, rndIs float64 // rndIs: at least; -1: next to none
	}{
		{"one stream of 1 MiB", 1 << 20, streams(1, 1<<20, 0), 0.98, 1, -1},
		{"one stream of 1 MiB, 16 in flight", 1 << 20, streams(1, 1<<20, 8), 0.95, 1, -1},
		{"one stream of 4 KiB, mixed up", 4096, streams(1, 4096, 16), 0.95, 1, -1},
		{"records of 47,008 bytes", 47008, streams(1, 47008, 4), 0.98, 1, -1},
		{"32 streams", 1 << 20, streams(32, 1<<20, 0), 0.98, 1, -1},
		{"32 streams, mixed up", 128 << 10, streams(32, 128<<10, 64), 0.97, 1, -1},
		{"64 streams", 1 << 20, streams(64, 1<<20, 0), 0.98, 1, -1},
		{"one stream with gaps", 4096, gaps(48<<10, 200), 0.98, 1, -1},
		{"one block again and again", 4096, make([]int64, 100), 0, 0, 0.8},
		{"4 KiB at random", 4096, scattered(2000, 4096), 0, 0.03, 0.8},
		{"128 KiB at random", 128 << 10, scattered(2000, 128<<10), 0, 0.2, 0.2},
		{"strides of 64 MiB", 1 << 20, gaps(64<<20, 64)[1:], 0, 0, 0.7},
		{"the start of the file", 1 << 20, []int64{0}, 1, 1, -1},
		{"the head of the file", 4096, []int64{0}, 0, 0, -1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			seq, random := replay(new(Access), size, tc.count, tc.offs)
			n := float64(len(tc.offs))
			if s := float64(seq) / n; s < tc.leastSeq || s > tc.mostSeq {
				t.Errorf("%.3f of %g taken for streams, want %g to %g", s, n, tc.leastSeq, tc.mostSeq)
			}
			if r := float64(random) / n; r < tc.rndIs || tc.rndIs < 0 && r > 0.01 { // the first of many streams come before their second
				t.Errorf("%.3f of %g taken for random, want %g", r, n, tc.rndIs)
			}
		})
	}
}

// TestShare: what a file counts for in the working set.
func TestShare(t *testing.T) {
	const size = 1 << 30
	sum := func(offs []int64, count int64) (share int64) {
		a := new(Access)
		for _, off := range offs {
			share += a.Note(off, count, size, 3).Share
		}
		return share
	}
	seq := func(from, to, count int64, times int) (offs []int64) {
		for range times {
			for off := from; off < to; off += count {
				offs = append(offs, off)
			}
		}
		return offs
	}
	for _, tc := range []struct {
		name  string
		share int64
		want  int64
	}{
		{"a READ", sum([]int64{5 << 20}, 4096), 16 << 20},
		{"two ends", sum([]int64{0, size - 4096}, 4096), 32 << 20},
		{"the beginning of a stream", sum(seq(0, 8<<20, 1<<20, 1), 1<<20), size},
		{"all of it", sum(seq(0, size, 1<<20, 2), 1<<20), size},
		{"a part, again and again", sum(seq(64<<20, 128<<20, 1<<20, 4), 1<<20), 64 << 20},
		{"past the end", sum([]int64{size, size + 4096, math.MaxInt64 - 4096}, 4096), 0},
	} {
		if tc.share != tc.want {
			t.Errorf("%s: %d MiB, want %d", tc.name, tc.share>>20, tc.want>>20)
		}
	}
	// An epoch starts from nothing, and counts again.
	a := new(Access)
	first := a.Note(0, 4096, size, EpochTicks).Share
	again := a.Note(8<<20, 4096, size, EpochTicks+1).Share // in the same region
	next := a.Note(512<<20, 4096, size, 2*EpochTicks).Share
	if first == 0 || again != 0 || next != first {
		t.Error(first, again, next)
	}
}

// TestFresh: each stream is told of once in StreamTicks.
func TestFresh(t *testing.T) {
	a := new(Access)
	fresh := func(from, to int64, tick uint32) (n int) {
		for off := from; off < to; off += 1 << 20 {
			for _, base := range []int64{0, 1 << 40} {
				if a.Note(base+off, 1<<20, 1<<41, tick).Streams > 0 {
					n++
				}
			}
		}
		return n
	}
	if n := fresh(0, 50<<20, StreamTicks); n != 2 {
		t.Errorf("%d in one interval", n)
	}
	if n := fresh(50<<20, 100<<20, 2*StreamTicks-1); n != 0 {
		t.Errorf("%d more in the same", n)
	}
	if n := fresh(100<<20, 150<<20, 2*StreamTicks); n != 2 {
		t.Errorf("%d in the next", n)
	}
}

// TestFreshAgain: streams that run over where others ended long ago count once
// all the same.
func TestFreshAgain(t *testing.T) {
	a := new(Access)
	const n, size, jobs = 1 << 20, 1 << 30, 4
	told := 0
	for tick, pass := uint32(0), 0; pass < 12; pass++ {
		start := int64(pass*37%50) << 20 // each pass ends elsewhere
		for i := range int64(400) {
			if i%100 == 0 {
				tick += StreamTicks
				if pass > 0 && i > 0 && told > jobs+1 { // one may have begun at the front again
					t.Fatalf("pass %d: %d streams", pass, told)
				}
				told = 0
			}
			for j := range int64(jobs) {
				off := (start + j*size/jobs + i*n) % size
				if a.Note(off, n, size, tick).Streams > 0 {
					told++
				}
			}
		}
	}
}

// TestFollow moves a stream over a page cache that is a model: pieces that
// others had cached are never dropped, all others are, and at no time does the
// stream hold more than it may.
func TestFollow(t *testing.T) {
	for _, shuffle := range []int{1, 4, 8} {
		a := new(Access)
		const size, n = 2 << 30, 1 << 20
		theirs := map[int64]bool{3: true, 40: true, 41: true, 100: true}
		cached := map[int64]bool{}
		for p := range theirs {
			cached[p] = true
		}
		rnd := rand.New(rand.NewSource(int64(shuffle)))
		var offs []int64
		for off := int64(0); off < size; off += n {
			offs = append(offs, off)
		}
		for i := 0; i+shuffle <= len(offs); i += shuffle {
			part := offs[i : i+shuffle]
			rnd.Shuffle(shuffle, func(i, j int) { part[i], part[j] = part[j], part[i] })
		}
		most := 0
		for i, off := range offs {
			for p := off / Piece; p <= (off+2*Piece)/Piece && p < size/Piece; p++ {
				cached[p] = true // what the kernel reads ahead
			}
			if i < settled {
				a.Note(off, n, size, 1)
			} else if due, _ := a.Due(off, n, 1); !due {
				continue
			}
			if task, ok := a.Take(off, n); ok {
				if _, again := a.Take(off, n); again {
					t.Fatal("a task for two")
				}
				for p := task.LookFrom; p < task.LookTo; p++ {
					if !cached[p] {
						task.Absent(p)
					}
				}
				for p := task.DropFrom; p < task.DropTo; p++ {
					if task.Mine(p) {
						if theirs[p] {
							t.Fatalf("piece %d was somebody else's", p)
						}
						if last := size/Piece - 1; p >= off/Piece && p < int64(last) || p == int64(last) && task.Keep > size-endReads*n {
							t.Fatalf("piece %d dropped at %d, but for what follows %d", p, off/Piece, task.Keep)
						}
						delete(cached, p)
					}
				}
				a.Done(&task)
			}
			most = max(most, len(cached)-len(theirs))
		}
		if limit := FollowedBytes/Piece + 5; most > limit { // 5: what it read before it was followed
			t.Errorf("mixed up by %d: %d pieces at once, want %d", shuffle, most, limit)
		}
		if left := len(cached) - len(theirs); left > 4 { // what was read ahead before somebody looked
			t.Errorf("mixed up by %d: %d pieces left at the end", shuffle, left)
		}
		for p := range theirs {
			if !cached[p] {
				t.Errorf("piece %d is gone", p)
			}
		}
	}
}

// TestFollowJump: a stream that has jumped ahead of where somebody looked may
// not drop what lies there.
func TestFollowJump(t *testing.T) {
	a := new(Access)
	const n = 1 << 20
	var off int64
	for ; off < 10*n; off += n {
		a.Note(off, n, 1<<40, 1)
	}
	task, ok := a.Take(off, n)
	if !ok || task.LookTo-task.LookFrom != lookPieces || task.DropTo != task.DropFrom {
		t.Fatalf("%+v, %t", task, ok)
	}
	for p := task.LookFrom; p < task.LookTo; p++ {
		task.Absent(p)
	}
	a.Done(&task)
	for range 12 { // by as much as still counts as the same stream
		off += mostSlack
		a.Note(off, n, 1<<40, 1)
	}
	if task, ok = a.Take(off, n); !ok || task.DropTo != task.DropFrom || task.LookFrom != (off+n)/Piece+1 {
		t.Errorf("%+v, %t", task, ok)
	}
	// A task that comes back after its stream's place was taken changes nothing.
	for i := range int64(maxStreams) {
		a.Note(1<<35+i<<30, n, 1<<40, 1)
	}
	a.Done(&task)
	for i := range a.streams {
		if a.streams[i].looked != 0 {
			t.Error("the task was given to another stream")
		}
	}
}

// FuzzAccess: whatever is read, nothing grows, panics, or goes below nothing.
func FuzzAccess(f *testing.F) {
	f.Add([]byte("\x00\x01\x02\x03\x04\x05\x06\x07 some bytes"), int64(1<<30))
	f.Add([]byte{255, 255, 255, 255, 0, 0, 0, 0, 9, 9}, int64(0))
	f.Fuzz(func(t *testing.T, b []byte, size int64) {
		size &= math.MaxInt64
		a := new(Access)
		var share int64
		var epoch uint32
		for i, c := range b {
			off := int64(c) << (i * 7 % 60) & math.MaxInt64
			n := min(int64(c)*4096+1, math.MaxInt64-off)
			tick := uint32(i) * uint32(c)
			if tick/EpochTicks != epoch {
				epoch, share = tick/EpochTicks, 0
			}
			share += a.Note(off, n, size, tick).Share
			if share < 0 || share > size {
				t.Fatalf("share of %d in a file of %d", share, size)
			}
			a.Due(off, n, tick)
			if task, ok := a.Take(off, n); ok {
				if l := task.LookTo - task.LookFrom; l < 0 || l > lookPieces+lagPieces {
					t.Fatalf("%d pieces to look at", l)
				}
				if l := task.DropTo - task.DropFrom; l < 0 || l > 2*(lookPieces+lagPieces) {
					t.Fatalf("%d pieces to drop", l)
				}
				if c%3 > 0 {
					a.Done(&task)
				}
			}
		}
	})
}

// TestAccessTogether: for the race detector.
func TestAccessTogether(t *testing.T) {
	a := new(Access)
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for i := range int64(2000) {
				off := int64(g)<<32 + i<<20
				a.Note(off, 1<<20, 1<<40, uint32(i))
				a.Due(off, 1<<20, uint32(i))
				if task, ok := a.Take(off, 1<<20); ok {
					a.Done(&task)
				}
				a.SetScattered(i%2 == 0)
			}
		}()
	}
	wg.Wait()
	if n := testing.AllocsPerRun(100, func() { a.Note(0, 1, 2, 3); a.Due(0, 1, 3) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
