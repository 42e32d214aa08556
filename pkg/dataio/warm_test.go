// Service threads: what they pass on, and under whose credentials they look.

package dataio

import (
	"bytes"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"sluice/pkg/filecache"
)

// TestColdIsPassedOn: a service thread is told so, in every mode, and does not
// sleep; once warm it is served (direct apart, which always asks the disk).
// Short copies may succeed: the disk can answer while they look.
func TestColdIsPassedOn(t *testing.T) {
	for _, fs := range []string{"disk", "xfs512"} {
		dir := dirOn(t, fs)
		p := filepath.Join(dir, "dense")
		model := bytes.Repeat([]byte("dense "), (6<<20+100)/6+1)[:6<<20+100]
		if err := os.WriteFile(p, model, 0o600); err != nil {
			t.Fatal(err)
		}
		for _, way := range ways {
			if way.name == "direct_einval" || way.name == "no_cachestat" {
				continue
			}
			t.Run(fs+"/"+way.name, func(t *testing.T) {
				r := newRig(t, way.cfg, way.cache)
				f := r.file(p)
				for _, n := range []uint32{4096, 64 << 10, 1 << 20} {
					dropCache(t, p)
					q := &ReadReq{File: f, Offset: 5 << 20, Count: n, Mode: way.mode, First: !way.later, Splice: way.splice, NoWait: true}
					res, err := r.e.Read(r.th, q)
					if err == nil && n <= rawMax {
						if !bytes.Equal(r.take(res), model[5<<20:5<<20+int(n)]) {
							t.Error("wrong bytes")
						}
					} else if err != unix.EAGAIN {
						t.Fatalf("cold read of %d: %v", n, err)
					}
					dropCache(t, p) // pages that a dontcache read began with go at the next use
					if way.mode == Direct && !way.later {
						warmUp(t, p)
						if _, err = r.e.Read(r.th, q); err != unix.EAGAIN {
							t.Fatalf("direct read on a service thread: %v", err)
						}
						continue
					}
					res = r.warmRead(p, q)
					if !bytes.Equal(r.take(res), model[5<<20:5<<20+int(n)]) {
						t.Error("wrong bytes")
					}
					// Across the end of the file, too.
					q.Offset = 6<<20 - 10
					res = r.warmRead(p, q)
					if r.take(res); res.N != 110 {
						t.Errorf("%d bytes", res.N)
					}
				}
			})
		}
	}
}

func warmUp(t testing.TB, path string) {
	t.Helper()
	if _, err := os.ReadFile(path); err != nil {
		t.Fatal(err)
	}
}

// warmRead reads path into memory and then serves q as on a service thread. The
// kernel may move or drop pages in between, so it tries a few times.
func (r *rig) warmRead(path string, q *ReadReq) ReadRes {
	r.Helper()
	for try := 0; ; try++ {
		warmUp(r.T, path)
		res, err := r.e.Read(r.th, q)
		if err == nil {
			return res
		}
		if err != unix.EAGAIN || try == 20 {
			r.Fatalf("%v read of %d at %d, warm: %v", q.Mode, q.Count, q.Offset, err)
		}
		time.Sleep(time.Millisecond)
	}
}

// TestForeignCredentials: under a caller's credentials that may not write the
// file, cachestat is refused; the server's own are then used for the question,
// and only for that.
func TestForeignCredentials(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can take on another user's credentials")
	}
	p, model := holeyFile(t, t.TempDir(), 1<<20)
	warmUp(t, p)
	r := newRig(t, Config{}, filecache.Config{})
	f := r.file(p)
	q := &ReadReq{File: f, Count: 1 << 20, Splice: true, NoWait: true}
	if _, err := f.Reader(); err != nil {
		t.Fatal(err)
	}
	runtime.LockOSThread() // never unlocked: the thread ends with the test's goroutine
	if err := unix.Setfsuid(12345); err != nil {
		t.Fatal(err)
	}
	if _, err := r.e.Read(r.th, q); err != unix.EAGAIN {
		t.Fatalf("without a way to be the server: %v", err)
	}
	asked := 0
	r.th.AsServer = func(f func() error) error {
		asked++
		unix.Setfsuid(0)
		defer unix.Setfsuid(12345)
		return f()
	}
	res, err := r.e.Read(r.th, q)
	for try := 0; err == unix.EAGAIN && try < 20; try++ { // the kernel moved a page
		time.Sleep(time.Millisecond)
		res, err = r.e.Read(r.th, q)
	}
	if err != nil || asked == 0 || !bytes.Equal(r.take(res), model) {
		t.Errorf("%v; asked %d times as the server", err, asked)
	}
	unix.Setfsuid(0)
}
