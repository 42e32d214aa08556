// The hot paths: GETATTR, LOOKUP, ACCESS, READ and WRITE allocate nothing, and what they cost.

package vfs

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"sluice/pkg/dataio"
	"sluice/pkg/filecache"
)

// hot returns a thread's user and the handles of an export and of files in it.
func hot(t testing.TB, f func(u *user, root, file []byte)) {
	d := exportDir(t)
	for _, n := range []string{"file", "other"} {
		if err := os.WriteFile(filepath.Join(d, n), make([]byte, 1<<16), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	os.Chown(filepath.Join(d, "file"), 1000, 1000)
	b := newBench(t, d+" *(rw,async,no_root_squash)\n")
	b.as(1000, 1000, func(u *user) {
		root := u.mount(d)
		fh, _, err := u.lookup(root, "file")
		ok(t, "lookup", err)
		u.c.MayBlock = false
		if _, bench := t.(*testing.B); bench {
			time.Sleep(grantAge + 100*time.Millisecond) // what is new is not remembered
		}
		f(u, root, fh)
	})
}

type hotOp struct {
	name string
	run  func(u *user, root, file []byte) error
}

var (
	hotData   = make([]byte, 4096)
	hotName   = []byte("file")
	hotGroups = []uint32{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}
)

// The Views are opened in place: one that is passed to a function value would be on the heap.
func hotOps() []hotOp {
	return []hotOp{
		{"Getattr", func(u *user, root, file []byte) error {
			v, n, err := u.b.ns.View(u.th, &u.c, file)
			if err != nil {
				return err
			}
			_, err = v.Getattr(n)
			v.Close()
			return err
		}},
		{"Lookup", func(u *user, root, file []byte) error {
			v, n, err := u.b.ns.View(u.th, &u.c, root)
			if err != nil {
				return err
			}
			_, _, err = v.Lookup(n, hotName)
			v.Close()
			return err
		}},
		{"LookupNew", func(u *user, root, file []byte) error { // a name not noted by the thread
			u.b.ns.stale.Add(1)
			v, n, err := u.b.ns.View(u.th, &u.c, root)
			if err != nil {
				return err
			}
			_, _, err = v.Lookup(n, hotName)
			v.Close()
			return err
		}},
		{"LookupGroups", func(u *user, root, file []byte) error {
			u.c.Cred.Groups = hotGroups
			v, n, err := u.b.ns.View(u.th, &u.c, root)
			if err != nil {
				return err
			}
			_, _, err = v.Lookup(n, hotName)
			v.Close()
			return err
		}},
		{"LookupTwoUsers", func(u *user, root, file []byte) error {
			u.c.Cred.UID ^= 1
			v, n, err := u.b.ns.View(u.th, &u.c, root)
			if err != nil {
				return err
			}
			_, _, err = v.Lookup(n, hotName)
			v.Close()
			return err
		}},
		{"Access", func(u *user, root, file []byte) error {
			v, n, err := u.b.ns.View(u.th, &u.c, file)
			if err != nil {
				return err
			}
			_, _, err = v.Access(n, 0x3f)
			v.Close()
			return err
		}},
		{"Read4K", func(u *user, root, file []byte) error {
			v, n, err := u.b.ns.View(u.th, &u.c, file)
			if err != nil {
				return err
			}
			var r ReadResult
			if r, err = v.Read(n, 4096, 4096); r.Data != nil {
				r.Data.Release()
			}
			v.Close()
			return err
		}},
		{"Write4K", func(u *user, root, file []byte) error {
			v, n, err := u.b.ns.View(u.th, &u.c, file)
			if err != nil {
				return err
			}
			_, err = v.Write(n, 4096, hotData, dataio.Unstable)
			v.Close()
			return err
		}},
	}
}

// runHot runs an operation as the server does: again where it may sleep, if it has to (the machine may be busy).
func runHot(t testing.TB, op hotOp, u *user, root, file []byte) {
	err := op.run(u, root, file)
	if err == ErrWouldBlock {
		u.c.MayBlock = true
		err = op.run(u, root, file)
		u.c.MayBlock = false
	}
	if err != nil {
		panic(op.name + ": " + err.Error())
	}
}

func TestHotPathsDoNotAllocate(t *testing.T) {
	for _, op := range hotOps() {
		t.Run(op.name, func(t *testing.T) {
			hot(t, func(u *user, root, file []byte) {
				runHot(t, op, u, root, file)
				if n := testing.AllocsPerRun(200, func() { runHot(t, op, u, root, file) }); n != 0 {
					t.Errorf("%v allocations", n)
				}
			})
		})
	}
}

// openGuard lets everything go on.
type openGuard struct{}

func (openGuard) CheckRead(*filecache.Key, uint64, bool) error          { return nil }
func (openGuard) CheckWrite(*filecache.Key, uint64, bool) error         { return nil }
func (openGuard) CheckSetattr(*filecache.Key, uint64, bool, bool) error { return nil }
func (openGuard) CheckGetattr(*filecache.Key, uint64, bool) error       { return nil }
func (openGuard) Held(*filecache.Key, uint64) bool                      { return false }
func (openGuard) Ended() uint64                                         { return 0 }
func (openGuard) CheckNames(*filecache.Key, uint64) error               { return nil }

func TestHotPathsWithGuardDoNotAllocate(t *testing.T) {
	for _, op := range hotOps() {
		hot(t, func(u *user, root, file []byte) {
			u.b.ns.SetGuard(openGuard{})
			for _, v4 := range []bool{false, true} {
				u.c.V4 = v4
				runHot(t, op, u, root, file)
				if n := testing.AllocsPerRun(100, func() { runHot(t, op, u, root, file) }); n != 0 {
					t.Errorf("%s, version 4 %v: %v allocations", op.name, v4, n)
				}
			}
		})
	}
}

func BenchmarkHot(b *testing.B) {
	for _, op := range hotOps() {
		b.Run(op.name, func(b *testing.B) {
			hot(b, func(u *user, root, file []byte) {
				b.ReportAllocs()
				var before, after unix.Rusage
				unix.Getrusage(unix.RUSAGE_THREAD, &before)
				b.ResetTimer()
				for b.Loop() {
					runHot(b, op, u, root, file)
				}
				unix.Getrusage(unix.RUSAGE_THREAD, &after)
				cpu := after.Utime.Nano() + after.Stime.Nano() - before.Utime.Nano() - before.Stime.Nano()
				b.ReportMetric(float64(cpu)/float64(b.N), "cpu-ns/op") // what a busy machine does not change
			})
		})
	}
}

// BenchmarkCreate makes files on a given number of threads, on exports with sync and async.
func BenchmarkCreate(b *testing.B) {
	for _, opt := range []string{"async", "sync"} {
		for _, threads := range []int{1, 8, 64} {
			b.Run(fmt.Sprintf("%s/%d", opt, threads), func(b *testing.B) {
				d := ext4Dir(b, 64<<20)
				s := newBench(b, d+" *(rw,no_root_squash,"+opt+")\n")
				var next atomic.Int64
				var wg sync.WaitGroup
				start := make(chan struct{})
				for range threads {
					wg.Add(1)
					go func() {
						defer wg.Done()
						s.as(1000, 1000, func(u *user) {
							root := u.mount(d)
							<-start
							for i := next.Add(1); i <= int64(b.N); i = next.Add(1) {
								_, _, err := u.create(root, strconv.FormatInt(i, 10), 0o644)
								ok(b, "create", err)
							}
						})
					}()
				}
				b.ResetTimer()
				close(start)
				wg.Wait()
				b.StopTimer()
				if st := s.ns.DurableStats(); st.Syncs > 0 {
					b.ReportMetric(float64(st.Changes)/float64(st.Syncs), "changes/sync")
				}
			})
		}
	}
}
