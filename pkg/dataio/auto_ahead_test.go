// What is read ahead on a file system, and streams that end, by auto's own look.

package dataio

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"sluice/pkg/filecache"
)

func TestAhead(t *testing.T) {
	root := fake(t, map[string]string{
		"/sys/class/bdi/8:1/read_ahead_kb": "8192\n",
		"/sys/class/bdi/8:2/read_ahead_kb": "0\n",
		"/sys/class/bdi/8:3/read_ahead_kb": "a lot\n",
		"/sys/class/bdi/8:4/read_ahead_kb": "-1\n",
	})
	var m memory
	m.root = root
	var a aheads
	for minor, want := range map[uint32]int64{1: 16 << 20, 2: 0, 3: aheadGuess, 4: aheadGuess, 5: aheadGuess} {
		if got := a.of(&m, unix.Mkdev(8, minor)); got != want {
			t.Errorf("8:%d: %d bytes, want %d", minor, got, want)
		}
	}
	if err := os.WriteFile(root+"/sys/class/bdi/8:1/read_ahead_kb", []byte("128\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := a.of(&m, unix.Mkdev(8, 1)); got != 16<<20 {
		t.Errorf("asked again at once: %d", got)
	}
	m.tick.Add(aheadFor)
	if got := a.of(&m, unix.Mkdev(8, 1)); got != 256<<10 {
		t.Errorf("%d bytes after the administrator has changed it", got)
	}
	for i := range uint32(3 * maxAheads) {
		a.of(&m, unix.Mkdev(9, i))
	}
	if n := len(a.dev); n > maxAheads {
		t.Errorf("%d file systems are remembered", n)
	}
}

// TestAutoEnds: a file that is streamed from its start to its end leaves next
// to nothing, however short it is, and no longer counts as a stream.
func TestAutoEnds(t *testing.T) {
	for _, size := range []int64{6 << 20, 20 << 20, 50<<20 + 4567} {
		p := filepath.Join(t.TempDir(), "f")
		if err := os.WriteFile(p, make([]byte, size), 0o600); err != nil {
			t.Fatal(err)
		}
		r := newRig(t, Config{}, filecache.Config{})
		f := r.file(p)
		dropCache(t, p)
		const n = 256 << 10
		for off := int64(0); off < size; off += n {
			setMemory(r.e, 512<<20, gib, 0, false)
			r.read(&ReadReq{File: f, Offset: uint64(off), Count: n, Mode: Auto, First: true})
			if streams := r.e.auto.memory.streams.get(); off+n < size && streams != 1 {
				t.Fatalf("%d streams at %d of %d", streams, off, size)
			}
		}
		if streams := r.e.auto.memory.streams.get(); streams != 0 {
			t.Errorf("%d bytes: %d streams at the end", size, streams)
		}
		fd, err := f.Reader()
		if err != nil {
			t.Fatal(err)
		}
		// The last READs, and the rest of a folio (2 MiB at most) that they are in.
		if left := cachedBytes(r, fd, 0, size); left > 5*n+2<<20 {
			t.Errorf("%d bytes: %d KiB are left in the page cache; %v", size, left>>10, r.e.Stats().ReadAuto)
		}
	}
}

// TestSettle: what was read before is forgotten once reading keeps to the same
// files, and not while new ones come up.
func TestSettle(t *testing.T) {
	root := fake(t, map[string]string{"/proc/meminfo": meminfo})
	var clock int64 = 1
	m := memory{root: root, now: func() int64 { return clock }}
	sample := func(next func(epoch uint32)) {
		clock += int64(sampleEvery)
		m.sample()
		next(m.tick.Load() / filecache.EpochTicks)
	}
	var epoch uint32
	same := func(now uint32) { // the same 100 bytes in each epoch
		if now != epoch {
			epoch = now
			m.share.add(100)
		}
	}
	sample(func(uint32) { m.share.add(5000) })
	n := 0
	for ; m.share.get() != 100 && n < 100; n++ {
		sample(same)
	}
	if most := 3 * (settled + filecache.StreamTicks); n > most {
		t.Errorf("forgotten after %d samples, want %d at most", n, most)
	}
	m.share.add(5000)
	for n = 0; n < filecache.EpochTicks-1; n++ {
		sample(func(uint32) { m.share.add(max(m.share.cur.Load()/20, 100)) })
		if m.share.get() < 5000 {
			t.Fatalf("forgotten after %d samples though new files come up", n)
		}
	}
}
