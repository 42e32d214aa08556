// The order of what is direct: shown to matter, by doing without it, and kept
// under load.

package dataio

import (
	"bytes"
	"fmt"
	"math/rand"
	"os"
	"sync"
	"testing"
	"time"

	"sluice/pkg/filecache"
)

// TestOrderMatters stops one operation half-way, starts another on the same
// range, lets the first go on, and looks whether the two were mixed. With the
// order they never are. Without it they are, each time: so this would notice if
// it were gone.
func TestOrderMatters(t *testing.T) {
	const size, off, n = 64 << 10, 1000, 40_000
	fill := func(c byte, n int) []byte { return bytes.Repeat([]byte{c}, n) }
	write := func(mode Mode, at uint64, n int) func(r *rig, th *Thread, f *filecache.File) ([]byte, error) {
		return func(r *rig, th *Thread, f *filecache.File) ([]byte, error) {
			got, _, _, err := r.e.Write(th, &WriteReq{File: f, Offset: at, Data: fill('B', n), Mode: mode})
			if err == nil && got != n {
				err = fmt.Errorf("%d bytes of %d written", got, n)
			}
			return nil, err
		}
	}
	read := func(r *rig, th *Thread, f *filecache.File) ([]byte, error) {
		res, err := r.e.Read(th, &ReadReq{File: f, Offset: off, Count: n, Mode: Direct, First: true})
		if err != nil {
			return nil, err
		}
		if res.Used != Direct {
			t.Error("the read was served", res.Used)
		}
		return r.take(res), nil
	}
	for _, tc := range []struct {
		name   string
		first  Mode
		second func(r *rig, th *Thread, f *filecache.File) ([]byte, error)
	}{
		{"direct write, direct read", Direct, read},
		{"direct write, buffered write", Direct, write(Buffered, 0, size)},
		{"direct write, uncached write", Direct, write(DontCache, 0, size)},
		{"direct write, direct write", Direct, write(Direct, 0, size)},
		{"buffered write, direct read", Buffered, read},
		{"buffered write, direct write", Buffered, write(Direct, 0, size)},
		{"uncached write, direct read", DontCache, read},
	} {
		for _, ordered := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, ordered %t", tc.name, ordered), func(t *testing.T) {
				r := newRig(t, Config{}, filecache.Config{})
				if !ordered {
					r.e.enter = func(*filecache.Order, filecache.Class, uint64, uint64, uint64, uint64, bool) (uint64, bool) {
						return 0, true
					}
					r.e.leave = func(*filecache.Order, uint64) {}
				}
				f, path, _ := directFile(t, r, "disk", 0)
				if err := os.WriteFile(path, fill('o', size), 0o600); err != nil {
					t.Fatal(err)
				}
				halfway, goOn := make(chan bool), make(chan bool)
				var once sync.Once
				r.e.pwrite = func(th *Thread, fd int, b []byte, more [][]byte, at int64, fl uintptr) (int, error) {
					if b[0] != 'A' {
						return th.pwritev2(fd, b, more, at, fl)
					}
					// The first operation's first piece, or half of its only one, is written.
					k := min(len(b), n/2)
					m, err := th.pwritev2(fd, b[:k], nil, at, fl)
					once.Do(func() { halfway <- true; <-goOn })
					if err == nil && k < len(b) && fd == f.FD(filecache.Write) {
						_, err = th.pwritev2(fd, b[k:], nil, at+int64(k), fl)
						m = len(b)
					}
					return m, err
				}
				done := make(chan error, 2)
				go func() {
					th := r.e.NewThread()
					got, _, _, err := r.e.Write(th, &WriteReq{File: f, Offset: off, Data: fill('A', n), Mode: tc.first})
					if err == nil && got != n {
						err = fmt.Errorf("%d bytes of %d written", got, n)
					}
					done <- err
				}()
				<-halfway
				var seen []byte
				second := make(chan bool)
				go func() {
					var err error
					seen, err = tc.second(r, r.e.NewThread(), f)
					done <- err
					close(second)
				}()
				if ordered {
					for f.Order().Waiting() == 0 {
						select {
						case <-second:
							t.Error("the second operation did not wait")
						case <-time.After(time.Millisecond):
							continue
						}
						break
					}
				} else {
					<-second
				}
				close(goOn)
				for range 2 {
					if err := <-done; err != nil {
						t.Fatal(err)
					}
				}
				<-second
				if seen == nil {
					dropCache(t, path)
					got, err := os.ReadFile(path)
					if err != nil {
						t.Fatal(err)
					}
					seen = got[off : off+n]
				}
				if same := bytes.Count(seen, seen[:1]) == n; same != ordered {
					t.Errorf("ordered %t, and the bytes are all the same: %t", ordered, same)
				}
			})
		}
	}
}

// TestOrderUnderLoad: writers in every mode and direct readers of records that
// lie side by side and share pages. A record is read as one writer wrote it, no
// neighbour's bytes are in it, and that is what the disk has in the end.
func TestOrderUnderLoad(t *testing.T) {
	const records, size = 8, 47_008
	for _, fs := range directFS {
		t.Run(fs, func(t *testing.T) {
			r := newRig(t, Config{}, filecache.Config{})
			f, path, _ := directFile(t, r, fs, records*size)
			check := func(i int, b []byte) bool {
				if len(b) == size && bytes.Count(b, b[:1]) == size && int(b[0]>>4) == i {
					return true
				}
				t.Errorf("record %d: %d bytes, %d like the first, which is %#x", i, len(b), bytes.Count(b, b[:1]), b[0])
				return false
			}
			put := func(th *Thread, i, version int, mode Mode, stable uint32) bool {
				b := bytes.Repeat([]byte{byte(i<<4 | version&15)}, size)
				n, _, _, err := r.e.Write(th, &WriteReq{File: f, Offset: uint64(i * size), Data: b, Mode: mode, Stable: stable})
				if n != size || err != nil {
					t.Error(n, err)
				}
				return err == nil
			}
			for i := range records {
				put(r.th, i, 0, Buffered, Unstable)
			}
			var wg sync.WaitGroup
			for g := range 6 {
				wg.Add(1)
				go func() {
					defer wg.Done()
					th := r.e.NewThread()
					mine := &rig{t, r.e, r.cache, th}
					rnd := rand.New(rand.NewSource(int64(g)))
					for version := range 120 {
						i := rnd.Intn(records)
						if g < 4 {
							if !put(th, i, version, Mode(1+rnd.Intn(3)), uint32(rnd.Intn(20)/19)) {
								return
							}
							continue
						}
						res, err := r.e.Read(th, &ReadReq{File: f, Offset: uint64(i * size), Count: size, Mode: Direct, First: true})
						if err != nil || res.Used != Direct {
							t.Error(res.Used, err)
							return
						}
						if !check(i, mine.take(res)) {
							return
						}
					}
				}()
			}
			wg.Wait()
			if _, err := r.e.Commit(r.th, f, 0, 0); err != nil {
				t.Error(err)
			}
			cached, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			dropCache(t, path)
			disk, err := os.ReadFile(path)
			if err != nil || !bytes.Equal(cached, disk) {
				t.Errorf("the page cache and the disk differ from byte %d: %v", diff(cached, disk), err)
			}
			for i := range records {
				check(i, disk[i*size:(i+1)*size])
			}
			if st := r.e.Stats().Write; st["direct"].Calls == 0 || st["dontcache"].Calls == 0 || st["buffered"].Calls < records {
				t.Errorf("not all modes were tried: %+v", st)
			}
		})
	}
}
