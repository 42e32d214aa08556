// WRITE and COMMIT: against a model, with syncs that fail, and beside direct
// reads.

package dataio

import (
	"bytes"
	"fmt"
	"math"
	"math/rand"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"sluice/pkg/filecache"
	"sluice/pkg/trace"
)

// TestWriteReadModel writes, truncates and reads at random against a model, in
// every mode and with every stable_how.
func TestWriteReadModel(t *testing.T) {
	for _, fs := range fileSystems {
		t.Run(fs, func(t *testing.T) {
			r := newRig(t, Config{SpliceMin: 16 << 10}, filecache.Config{})
			p := filepath.Join(dirOn(t, fs), "f")
			if err := os.WriteFile(p, nil, 0o600); err != nil {
				t.Fatal(err)
			}
			f := r.file(p)
			var model []byte
			rnd := rand.New(rand.NewSource(2))
			for i := range 400 {
				off := rnd.Intn(300 << 10)
				if rnd.Intn(3) == 0 {
					off &^= 511
				}
				n := 1 + rnd.Intn(1<<uint(1+rnd.Intn(17)))
				switch rnd.Intn(4) {
				case 0:
					data := make([]byte, n)
					rnd.Read(data)
					stable := uint32(rnd.Intn(3))
					q := WriteReq{File: f, Offset: uint64(off), Data: data, Stable: stable, Mode: Mode(rnd.Intn(int(modes)))}
					if rnd.Intn(2) == 0 { // as payloads land
						q.Data = landed(uint64(off), data)
					} else if rnd.Intn(3) == 0 {
						q.Data, q.More = data[:n/3], [][]byte{data[n/3 : n/2], data[n/2:]}
					}
					got, committed, verf, err := r.e.Write(r.th, &q)
					if got != n || committed != stable || verf != r.e.Verifier() || err != nil {
						t.Fatal(got, committed, verf, err)
					}
					if len(model) < off+n {
						model = append(model, make([]byte, off+n-len(model))...)
					}
					copy(model[off:], data)
				case 1:
					if i%5 == 0 {
						if err := os.Truncate(p, int64(off)); err != nil {
							t.Fatal(err)
						}
						if off < len(model) {
							model = model[:off:off]
						} else {
							model = append(model, make([]byte, off-len(model))...)
						}
					}
				default:
					mode := Mode(rnd.Intn(int(modes)))
					got, _ := r.read(&ReadReq{File: f, Offset: uint64(off), Count: uint32(n), Mode: mode, First: true, Splice: true})
					if w := want(model, uint64(off), uint32(n), r.e.MaxIO()); !bytes.Equal(got, w) {
						t.Fatalf("step %d: %v read of %d at %d is wrong from byte %d (%d bytes, want %d)", i, mode, n, off, diff(got, w), len(got), len(w))
					}
				}
			}
			if verf, err := r.e.Commit(r.th, f, 0, 0); err != nil || verf != r.e.Verifier() {
				t.Error(verf, err)
			}
			if data, err := os.ReadFile(p); err != nil || !bytes.Equal(data, model) {
				t.Error("the file differs from the model at the end", err)
			}
		})
	}
}

// TestStableHow: each stable_how reaches the kernel as the flag that means it.
func TestStableHow(t *testing.T) {
	r := newRig(t, Config{}, filecache.Config{})
	p, _ := holeyFile(t, t.TempDir(), 100)
	f := r.file(p)
	for stable, want := range map[uint32]uintptr{Unstable: 0, DataSync: unix.RWF_DSYNC, FileSync: unix.RWF_SYNC} {
		var flags uintptr
		r.e.pwrite = func(th *Thread, fd int, b []byte, more [][]byte, off int64, fl uintptr) (int, error) {
			flags = fl
			return th.pwritev2(fd, b, more, off, fl)
		}
		n, committed, _, err := r.e.Write(r.th, &WriteReq{File: f, Offset: 50, Data: []byte("abc"), Stable: stable})
		if n != 3 || committed != stable || err != nil || flags != want {
			t.Errorf("stable_how %d: %d, %d, %v, flags %#x", stable, n, committed, err, flags)
		}
	}
	if !f.Unstable() {
		t.Error("unstable data went unnoticed")
	}
	if _, err := r.e.Commit(r.th, f, 0, 0); err != nil || f.Unstable() {
		t.Error("after COMMIT:", err)
	}
	for _, tc := range []struct {
		q    WriteReq
		want error
	}{
		{WriteReq{Offset: 1 << 63, Data: []byte("x")}, unix.EFBIG},
		{WriteReq{Offset: math.MaxInt64, Data: []byte("x")}, unix.EFBIG},
		{WriteReq{Data: []byte("x"), Stable: 3}, unix.EINVAL},
		{WriteReq{}, nil},
	} {
		tc.q.File = f
		n, committed, _, err := r.e.Write(r.th, &tc.q)
		if err != tc.want || n != 0 || committed != 0 {
			t.Errorf("%+v: %d, %v", tc.q, n, err)
		}
	}
}

// TestShortWrite: what the kernel took is reported, not hidden or retried.
func TestShortWrite(t *testing.T) {
	dir := dirOn(t, "tmpfs")
	small := filepath.Join(dir, "small")
	if err := os.Mkdir(small, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("tmpfs", small, "tmpfs", 0, "size=64k"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Unmount(small, unix.MNT_DETACH) })
	r := newRig(t, Config{}, filecache.Config{})
	p := filepath.Join(small, "f")
	if err := os.WriteFile(p, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	f := r.file(p)
	data := bytes.Repeat([]byte("x"), 100<<10)
	n, _, _, err := r.e.Write(r.th, &WriteReq{File: f, Data: data})
	if err != nil || n == 0 || n >= len(data) {
		t.Fatalf("%d bytes, %v", n, err)
	}
	if _, _, _, err := r.e.Write(r.th, &WriteReq{File: f, Offset: uint64(n), Data: data[n:]}); err != unix.ENOSPC {
		t.Errorf("the rest: %v", err)
	}
	if b, _ := os.ReadFile(p); len(b) != n {
		t.Errorf("the file has %d bytes, %d were acknowledged", len(b), n)
	}
}

func TestVerifierIsRandom(t *testing.T) {
	seen := make(map[[8]byte]bool)
	for range 50 {
		r := newRig(t, Config{}, filecache.Config{})
		if v := r.e.Verifier(); seen[v] || v == [8]byte{} {
			t.Fatalf("%x again", v)
		} else {
			seen[v] = true
		}
	}
}

// TestVerifierChangesWhenSyncFails: for COMMIT, for a stable WRITE, and for
// WRITEs whose data may be among the lost.
func TestVerifierChangesWhenSyncFails(t *testing.T) {
	var warned atomic.Int32
	r := newRig(t, Config{Warn: func(Warning) { warned.Add(1) }}, filecache.Config{})
	p, _ := holeyFile(t, t.TempDir(), 100)
	f := r.file(p)
	_, _, v1, err := r.e.Write(r.th, &WriteReq{File: f, Data: []byte("x")})
	if err != nil {
		t.Fatal(err)
	}
	if v, err := r.e.Commit(r.th, f, 0, 0); v != v1 || err != nil {
		t.Fatal("COMMIT's verifier differs from WRITE's", err)
	}
	for _, errno := range []error{unix.EIO, unix.ENOSPC} {
		r.e.fsync = func(int) error { return errno }
		if _, err := r.e.Commit(r.th, f, 0, 0); err != unix.EIO {
			t.Errorf("COMMIT with %v: %v", errno, err)
		}
		v2 := r.e.Verifier()
		if v2 == v1 {
			t.Error("the verifier is the same after a failed COMMIT")
		}
		v1 = v2
	}
	// The kernel reports it once; so the next COMMIT succeeds, with the new verifier.
	r.e.fsync = unix.Fsync
	if v, err := r.e.Commit(r.th, f, 0, 0); v != v1 || err != nil {
		t.Error(err)
	}

	// A WRITE that was under way when another sync failed returns the old verifier.
	writing, failed := make(chan bool), make(chan bool)
	r.e.pwrite = func(th *Thread, fd int, b []byte, more [][]byte, off int64, fl uintptr) (int, error) {
		n, err := th.pwritev2(fd, b, more, off, fl)
		writing <- true
		<-failed
		return n, err
	}
	got := make(chan [8]byte)
	go func() {
		th := r.e.NewThread()
		defer th.Close()
		_, _, v, _ := r.e.Write(th, &WriteReq{File: f, Data: []byte("y")})
		got <- v
	}()
	<-writing
	r.e.fsync = func(int) error { return unix.EIO }
	if _, err := r.e.Commit(r.th, f, 0, 0); err != unix.EIO {
		t.Error(err)
	}
	close(failed)
	if v := <-got; v != v1 {
		t.Error("a WRITE whose data may be lost returned the new verifier")
	}

	// Stable WRITEs.
	for _, tc := range []struct {
		err     error
		changes bool
	}{{unix.EIO, true}, {unix.ENOSPC, true}, {unix.EFBIG, false}, {unix.EROFS, false}} {
		r.e.pwrite = func(*Thread, int, []byte, [][]byte, int64, uintptr) (int, error) { return 0, tc.err }
		before := r.e.Verifier()
		if _, _, _, err := r.e.Write(r.th, &WriteReq{File: f, Data: []byte("y"), Stable: FileSync}); err != tc.err {
			t.Error(err)
		}
		if changed := r.e.Verifier() != before; changed != tc.changes {
			t.Errorf("stable WRITE with %v: verifier changed: %t", tc.err, changed)
		}
	}
	if warned.Load() != 1 || r.e.Stats().VerifierResets != 5 {
		t.Errorf("%d warnings, %d resets", warned.Load(), r.e.Stats().VerifierResets)
	}
}

// TestRealFsyncFailure: a disk (a loop device) whose blocks cannot all be
// stored fails in fsync after the WRITE was acknowledged.
func TestRealFsyncFailure(t *testing.T) {
	dir := dirOn(t, "tmpfs")
	img := filepath.Join(dir, "store", "disk.img")
	at := filepath.Join(dir, "at")
	for _, d := range []string{filepath.Dir(img), at} {
		if err := os.Mkdir(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	// 8 MiB of room for a disk of 64 MiB.
	if err := unix.Mount("tmpfs", filepath.Dir(img), "tmpfs", 0, "size=8m"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Unmount(filepath.Dir(img), unix.MNT_DETACH) })
	if err := os.WriteFile(img, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(img, 64<<20); err != nil {
		t.Fatal(err)
	}
	run(t, "mkfs.ext4", "-q", "-O", "^has_journal", "-E", "nodiscard,lazy_itable_init=1", img)
	dev := run(t, "losetup", "--find", "--show", img)
	defer run(t, "losetup", "--detach", dev)
	if err := unix.Mount(dev, at, "ext4", 0, "errors=continue"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Unmount(at, unix.MNT_DETACH) })

	r := newRig(t, Config{}, filecache.Config{})
	p := filepath.Join(at, "f")
	if err := os.WriteFile(p, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	f := r.file(p)
	data := bytes.Repeat([]byte("not all zero "), 1<<20/13)
	verf := r.e.Verifier()
	for i := range 20 {
		n, _, v, err := r.e.Write(r.th, &WriteReq{File: f, Offset: uint64(i) << 20, Data: data})
		if n != len(data) || v != verf || err != nil {
			t.Fatal(n, err)
		}
	}
	if _, err := r.e.Commit(r.th, f, 0, 0); err != unix.EIO {
		t.Fatalf("COMMIT on a failing disk: %v", err)
	}
	if r.e.Verifier() == verf {
		t.Error("the verifier is the same")
	}

	// The same when nobody commits, and the cache needs the descriptors.
	verf = r.e.Verifier()
	for i := range 4 {
		if _, _, _, err := r.e.Write(r.th, &WriteReq{File: f, Offset: uint64(20+i) << 20, Data: data}); err != nil {
			t.Fatal(err)
		}
	}
	r.cache.Purge(f.Key.FS)
	if r.e.Verifier() == verf {
		t.Error("data lost on the way out of the cache went unnoticed")
	}
}

// TestDirectReadNeverSeesATornWrite: a block that a buffered write is
// replacing is read direct as it was before or after, never as a mixture.
// ext4 and XFS see to that themselves within one system call, others do not:
// here each write takes two.
func TestDirectReadNeverSeesATornWrite(t *testing.T) {
	r := newRig(t, Config{}, filecache.Config{})
	r.e.pwrite = func(th *Thread, fd int, b []byte, _ [][]byte, off int64, fl uintptr) (int, error) {
		half := len(b) / 2
		if _, err := th.pwritev2(fd, b[:half], nil, off, fl); err != nil {
			return 0, err
		}
		time.Sleep(100 * time.Microsecond)
		_, err := th.pwritev2(fd, b[half:], nil, off+int64(half), fl)
		return len(b), err
	}
	p := filepath.Join(t.TempDir(), "f")
	const size = 64 << 10
	if err := os.WriteFile(p, make([]byte, size), 0o600); err != nil {
		t.Fatal(err)
	}
	f := r.file(p)
	stop := make(chan struct{})
	var wg sync.WaitGroup
	wg.Add(1)
	go func() {
		defer wg.Done()
		th := r.e.NewThread()
		defer th.Close()
		data := make([]byte, size)
		for i := 1; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			for j := range data {
				data[j] = byte(i)
			}
			if n, _, _, err := r.e.Write(th, &WriteReq{File: f, Data: data}); n != size || err != nil {
				t.Error(n, err)
				return
			}
		}
	}()
	seen := make(map[byte]bool)
	for range 200 {
		res, err := r.e.Read(r.th, &ReadReq{File: f, Count: size, Mode: Direct, First: true})
		if err != nil || res.Used != Direct {
			t.Fatal(res.Used, err)
		}
		got := r.take(res)
		if n := bytes.Count(got, got[:1]); n != size {
			t.Errorf("torn: only %d of %d bytes are %d", n, size, got[0])
			break
		}
		seen[got[0]] = true
	}
	close(stop)
	wg.Wait()
	if len(seen) < 3 {
		t.Errorf("the reads saw %d versions: no race was tried", len(seen))
	}
}

// TestWriteNoWait: a service thread does not wait for a direct read.
func TestWriteNoWait(t *testing.T) {
	r := newRig(t, Config{}, filecache.Config{})
	p, _ := holeyFile(t, t.TempDir(), 100<<10)
	f := r.file(p)
	reading, goOn := make(chan bool), make(chan bool)
	r.e.pread = func(th *Thread, fd int, b []byte, off int64, fl uintptr) (int, error) {
		reading <- true
		<-goOn
		return th.preadv2(fd, b, off, fl)
	}
	done := make(chan bool)
	go func() {
		th := r.e.NewThread()
		defer th.Close()
		res, err := r.e.Read(th, &ReadReq{File: f, Count: 8192, Mode: Direct, First: true})
		if err != nil {
			t.Error(err)
		} else {
			res.Data.Release()
		}
		done <- true
	}()
	<-reading
	q := WriteReq{File: f, Offset: 100, Data: []byte("abc"), NoWait: true}
	if _, _, _, err := r.e.Write(r.th, &q); err != unix.EAGAIN {
		t.Errorf("write beside a direct read of the range: %v", err)
	}
	q.Offset = 64 << 10
	if n, _, _, err := r.e.Write(r.th, &q); n != 3 || err != nil {
		t.Errorf("write elsewhere: %d, %v", n, err)
	}
	close(goOn)
	<-done
	q.Offset = 100
	if n, _, _, err := r.e.Write(r.th, &q); n != 3 || err != nil {
		t.Errorf("write after it: %d, %v", n, err)
	}
}

func TestWriteTrace(t *testing.T) {
	bus := new(trace.Bus)
	sub := bus.Subscribe(100)
	defer sub.Close()
	r := newRig(t, Config{Trace: bus}, filecache.Config{})
	p, _ := holeyFile(t, t.TempDir(), 100)
	f := r.file(p)
	if _, _, _, err := r.e.Write(r.th, &WriteReq{File: f, Data: []byte("abc"), XID: 9, Export: "/e"}); err != nil {
		t.Fatal(err)
	}
	if _, err := r.e.Commit(r.th, f, 1, 2); err != nil {
		t.Fatal(err)
	}
	var got []string
	for range 4 {
		e, _ := sub.Next(t.Context())
		got = append(got, fmt.Sprint(e.Name, " ", e.Count))
	}
	if s := strings.Join(got, ", "); s != "file_open 0, write_start 3, write_done 3, commit 2" {
		t.Error(s)
	}
}

// TestReadersAndWriters runs everything at once, for the race detector.
func TestReadersAndWriters(t *testing.T) {
	r := newRig(t, Config{BufferBytes: 8 << 20, DirectBytes: 8 << 20, Pipes: 3, SpliceMin: 16 << 10}, filecache.Config{})
	p := filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(p, bytes.Repeat([]byte{'a'}, 1<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	f := r.file(p)
	var wg sync.WaitGroup
	stop := time.Now().Add(time.Second)
	for g := range 6 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			th := r.e.NewThread()
			defer th.Close()
			mine := &rig{t, r.e, r.cache, th}
			rnd := rand.New(rand.NewSource(int64(g)))
			data := bytes.Repeat([]byte{byte('a' + g)}, 100<<10)
			for time.Now().Before(stop) {
				off := uint64(rnd.Intn(1 << 20))
				n := 1 + rnd.Intn(len(data)-1)
				switch {
				case g < 2:
					if _, _, _, err := r.e.Write(th, &WriteReq{File: f, Offset: off, Data: data[:n], Stable: uint32(rnd.Intn(2))}); err != nil {
						t.Error(err)
					}
				case g == 2:
					if _, err := r.e.Commit(th, f, 0, 0); err != nil {
						t.Error(err)
					}
					time.Sleep(5 * time.Millisecond)
				default:
					res, err := r.e.Read(th, &ReadReq{File: f, Offset: off, Count: uint32(n), Mode: Mode(rnd.Intn(int(modes))), First: true, Splice: true})
					if err != nil {
						t.Error(err)
						return
					}
					for _, c := range mine.take(res) {
						if c < 'a' || c > 'b' {
							t.Errorf("a byte that nobody wrote: %#x", c)
							return
						}
					}
				}
			}
		}()
	}
	wg.Wait()
}

func TestWriteDoesNotAllocate(t *testing.T) {
	r := newRig(t, Config{}, filecache.Config{})
	p, _ := holeyFile(t, t.TempDir(), 100)
	f, data := r.file(p), make([]byte, 4096)
	if n := testing.AllocsPerRun(100, func() {
		q := &WriteReq{File: f, Data: data}
		if _, _, _, err := r.e.Write(r.th, q); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
