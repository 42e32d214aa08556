// Plan of this file: checks of file contents that are written once and read in
// many ways: one large file, a file of data and holes read at odd places, and
// a file with data far out.

package fscheck

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// open opens a file, with O_DIRECT where the option direct=1 asks for it: on an
// NFS mount such a read reaches the server with exactly this offset and count.
func (r *run) open(name string, flags int) (*os.File, error) {
	if r.flag("direct") {
		flags |= unix.O_DIRECT
	}
	return os.OpenFile(name, flags, 0o644)
}

// create makes a file, has fill write it, and puts it on stable storage.
func (r *run) create(name string, fill func(*os.File) error) error {
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	defer f.Close()
	return errors.Join(fill(f), f.Sync(), f.Close())
}

// Forget drops the pages of a file from this machine's page cache, so that the
// next read asks the server.
func Forget(f *os.File) error {
	return unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED)
}

func bigfile(r *run) error {
	const block = 1 << 20
	size, seed := r.int("size", 64<<20), uint64(r.int("seed", 1))
	name := r.path("bigfile")
	if r.phase("write") {
		buf := alignedBuffer(block)
		err := r.create(name, func(f *os.File) error {
			for off := int64(0); off < size; off += block {
				b := buf[:min(block, size-off)]
				pattern(b, seed, off)
				if _, err := f.Write(b); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	if !r.phase("verify") {
		return nil
	}
	f, err := r.open(name, os.O_RDONLY)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := Forget(f); err != nil {
		return err
	}
	buf, want := alignedBuffer(block), make([]byte, block)
	for off := int64(0); ; {
		n, err := f.Read(buf)
		if err == io.EOF {
			if off != size {
				return fmt.Errorf("the file ends at %d, want %d", off, size)
			}
			break
		}
		if err != nil {
			return err
		}
		pattern(want[:n], seed, off)
		if err := differ("bigfile", buf[:n], want[:n], off); err != nil {
			return err
		}
		off += int64(n)
	}
	r.logf("bigfile %d bytes", size)
	return nil
}

// alignedBuffer returns memory aligned for O_DIRECT on any local file system.
func alignedBuffer(n int) []byte {
	const align = 4096
	b := make([]byte, n+align)
	skip := align - int(addressOf(b)%align)
	return b[skip : skip+n : skip+n]
}

// randreadSize is odd, so that the end of the file is aligned to nothing.
const randreadSize = 6<<20 + 1237

// randreadModel is the content of the file that randread makes: extents of data
// and holes of odd lengths, some smaller and some larger than a page, a hole at
// the very end.
func randreadModel(seed uint64) (model []byte, extents [][2]int64) {
	rng := rand.New(rand.NewPCG(seed, 1))
	model = make([]byte, randreadSize)
	off := int64(0)
	for off < randreadSize-64<<10 {
		n := 1 + rng.Int64N([]int64{700, 9000, 300 << 10}[rng.IntN(3)])
		n = min(n, randreadSize-64<<10-off)
		pattern(model[off:off+n], seed, off)
		extents = append(extents, [2]int64{off, n})
		off += n
		if rng.IntN(2) == 0 {
			off += 1 + rng.Int64N([]int64{5000, 100 << 10}[rng.IntN(2)])
		}
	}
	return model, extents
}

func randread(r *run) error {
	seed := uint64(r.int("seed", 1))
	name := r.path(fmt.Sprintf("randread%d", seed))
	model, extents := randreadModel(seed)
	if r.phase("write") {
		err := r.create(name, func(f *os.File) error {
			for _, e := range extents {
				if _, err := f.WriteAt(model[e[0]:e[0]+e[1]], e[0]); err != nil {
					return err
				}
			}
			return f.Truncate(randreadSize)
		})
		if err != nil {
			return err
		}
	}
	if !r.phase("verify") {
		return nil
	}
	f, err := r.open(name, os.O_RDONLY)
	if err != nil {
		return err
	}
	defer f.Close()
	if st, err := f.Stat(); err != nil || st.Size() != randreadSize {
		return fmt.Errorf("size of %s: %v, %v; want %d", name, st.Size(), err, randreadSize)
	}
	rng, reads := r.random(), r.int("reads", 400)
	buf := make([]byte, 2<<20)
	for i := range reads {
		off, n := oddRange(rng)
		if !r.flag("direct") && i%16 == 0 {
			if err := Forget(f); err != nil {
				return err
			}
		}
		if err := readOne(f, name, buf[:n], model, off); err != nil {
			return err
		}
	}
	r.logf("randread %d reads", reads)
	return nil
}

// oddRange picks a range whose ends are where mistakes live.
func oddRange(rng *rand.Rand) (off int64, n int) {
	lengths := [...]int{1, 2, 511, 512, 513, 4095, 4096, 4097, 12345, 65535, 65537, 1<<20 - 1, 1<<20 + 1}
	n = lengths[rng.IntN(len(lengths))]
	switch rng.IntN(8) {
	case 0: // at a page's or sector's edge
		off = rng.Int64N(randreadSize/512)*512 + rng.Int64N(3) - 1
	case 1: // across the end of the file
		off = randreadSize - rng.Int64N(int64(n)+1)
	case 2: // just before, at and past the end
		off = randreadSize + rng.Int64N(3) - 1
	case 3:
		off = 0
	default:
		off = rng.Int64N(randreadSize)
	}
	return max(off, 0), n
}

// readOne reads once and compares length, bytes and end of file with the model.
func readOne(f *os.File, name string, buf, model []byte, off int64) error {
	var want []byte
	if off < int64(len(model)) {
		want = model[off:min(off+int64(len(buf)), int64(len(model)))]
	}
	n, err := f.ReadAt(buf, off)
	if err != nil && err != io.EOF {
		return fmt.Errorf("read %d at %d: %w", len(buf), off, err)
	}
	if (err == io.EOF) != (len(want) < len(buf)) {
		return fmt.Errorf("%s: read %d at %d returned %d bytes and %v", name, len(buf), off, n, err)
	}
	return differ(name, buf[:n], want, off)
}

// readload reads randread's file (seed=) from several goroutines until its
// seconds are over, half of them with O_DIRECT and all verified.
func readload(r *run) error {
	seed := uint64(r.int("seed", 1))
	name := r.path(fmt.Sprintf("randread%d", seed))
	model, _ := randreadModel(seed)
	end := time.Now().Add(time.Duration(r.int("seconds", 3)) * time.Second)
	var reads atomic.Int64
	err := parallel(int(r.int("workers", 4)), func(id int) error {
		flags := os.O_RDONLY
		if id%2 == 0 && !r.flag("buffered") {
			flags |= unix.O_DIRECT
		}
		f, err := os.OpenFile(name, flags, 0)
		if err != nil {
			return err
		}
		defer f.Close()
		rng := rand.New(rand.NewPCG(seed, uint64(id)))
		buf := make([]byte, 2<<20)
		for i := 0; time.Now().Before(end); i++ {
			off, n := oddRange(rng)
			if flags&unix.O_DIRECT == 0 && i%4 == 0 {
				if err := Forget(f); err != nil {
					return err
				}
			}
			if err := readOne(f, name, buf[:n], model, off); err != nil {
				return err
			}
			reads.Add(1)
		}
		return nil
	})
	r.logf("readload %d reads", reads.Load())
	return err
}

// parallel runs fn in n goroutines and returns the first error.
func parallel(n int, fn func(id int) error) error {
	errs := make([]error, n)
	var wg sync.WaitGroup
	for id := range n {
		wg.Go(func() { errs[id] = fn(id) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

// sparse writes a few bytes around each power of two where 32-bit arithmetic
// breaks, up to the option limit (a file system's largest offset).
func sparse(r *run) error {
	const seed, n = 77, 8193
	limit := r.int("limit", 1<<40)
	name := r.path("sparse")
	var offsets []int64
	for _, base := range []int64{1 << 31, 1 << 32, 1 << 33, 1 << 40, 1 << 43} {
		for _, off := range []int64{base - 4097, base + 10000} {
			if off+n <= limit {
				offsets = append(offsets, off)
			}
		}
	}
	size := offsets[len(offsets)-1] + n
	if r.phase("write") {
		buf := make([]byte, n)
		err := r.create(name, func(f *os.File) error {
			for _, off := range offsets {
				pattern(buf, seed, off)
				if _, err := f.WriteAt(buf, off); err != nil {
					return fmt.Errorf("write at %d: %w", off, err)
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	if !r.phase("verify") {
		return nil
	}
	for _, flags := range []int{os.O_RDONLY, os.O_RDONLY | unix.O_DIRECT} {
		if flags&unix.O_DIRECT != 0 && !r.flag("direct") {
			continue
		}
		if err := verifySparse(name, flags, size, offsets, seed, n); err != nil {
			return err
		}
	}
	return nil
}

func verifySparse(name string, flags int, size int64, offsets []int64, seed uint64, n int) error {
	f, err := os.OpenFile(name, flags, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return err
	}
	if st.Size != size {
		return fmt.Errorf("size %d, want %d", st.Size, size)
	}
	// Each extent touches at most a few blocks of at most 64 KiB.
	if used, most := st.Blocks*512, int64(len(offsets))*(256<<10); used > most {
		return fmt.Errorf("%d bytes allocated for a sparse file, want at most %d", used, most)
	}
	if err := Forget(f); err != nil {
		return err
	}
	const around = 5000
	got, want := make([]byte, n+2*around), make([]byte, n+2*around)
	for _, off := range offsets {
		clear(want)
		pattern(want[around:around+n], seed, off)
		k, err := f.ReadAt(got, off-around)
		if err != nil && err != io.EOF {
			return fmt.Errorf("read at %d: %w", off-around, err)
		}
		end := min(int64(len(want)), size-(off-around))
		if err := differ(name, got[:k], want[:end], off-around); err != nil {
			return err
		}
	}
	return nil
}

func addressOf(b []byte) int { return int(uintptr(unsafe.Pointer(unsafe.SliceData(b)))) }
