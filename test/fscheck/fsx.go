// Plan of this file: one file, one model in memory, a long random sequence of
// operations on both; whatever is read must equal the model. The sequence
// follows from the seed, and an error prints the last operations, so a failure
// can be run again.

package fscheck

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

type fsxState struct {
	r     *run
	rng   *rand.Rand
	name  string
	f     *os.File
	max   int
	model []byte // as long as the file is
	buf   []byte
	past  []string // what was done last, newest at the end
}

func fsx(r *run) error {
	s := &fsxState{
		r: r, rng: r.random(), max: int(r.int("size", 300<<10)),
		name: r.path(fmt.Sprintf("fsx%d", r.int("seed", 1))),
	}
	s.buf = make([]byte, s.max)
	if err := s.reopen(os.O_CREATE | os.O_TRUNC); err != nil {
		return err
	}
	defer func() { s.f.Close() }()
	ops := r.int("ops", 1000)
	for i := range ops {
		if err := s.step(i); err != nil {
			return fmt.Errorf("operation %d: %w\nlast operations, newest first:\n%s", i, err, s.history())
		}
	}
	if err := s.read(0, len(s.model)+1); err != nil {
		return fmt.Errorf("whole file: %w\nlast operations, newest first:\n%s", err, s.history())
	}
	r.logf("fsx %d operations", ops)
	return nil
}

func (s *fsxState) note(format string, args ...any) {
	s.past = append(s.past, fmt.Sprintf(format, args...))
	if len(s.past) > 40 {
		s.past = s.past[1:]
	}
}

func (s *fsxState) history() string {
	var b strings.Builder
	for i := len(s.past) - 1; i >= 0; i-- {
		fmt.Fprintln(&b, s.past[i])
	}
	return b.String()
}

func (s *fsxState) reopen(flags int) error {
	if s.f != nil {
		if err := s.f.Close(); err != nil {
			return err
		}
	}
	f, err := s.r.open(s.name, os.O_RDWR|flags)
	if err == nil {
		s.f = f
	}
	return err
}

// extent picks a range that may reach past the end, sometimes at round edges.
func (s *fsxState) extent(limit int) (off, n int) {
	off = s.rng.IntN(limit)
	n = 1 + s.rng.IntN([]int{16, 600, 5000, 70000, s.max}[s.rng.IntN(5)])
	if s.rng.IntN(4) == 0 {
		off &^= 511
	}
	if s.rng.IntN(4) == 0 {
		n = (n + 4095) &^ 4095
	}
	return off, min(n, s.max-off)
}

func (s *fsxState) step(i int64) error {
	mmap := s.r.flag("mmap")
	switch k := s.rng.IntN(100); {
	case k < 30:
		off, n := s.extent(s.max)
		return s.write(off, n, uint64(i)+1000)
	case k < 62:
		off, n := s.extent(s.max)
		return s.read(off, n)
	case k < 70 && mmap:
		return s.mapped(false, uint64(i)+1000)
	case k < 78 && mmap:
		return s.mapped(true, uint64(i)+1000)
	case k < 84:
		return s.truncate(s.rng.IntN(s.max))
	case k < 88:
		s.note("truncate through the path and fsync")
		n := s.rng.IntN(s.max)
		s.resize(n)
		return errors.Join(s.f.Sync(), os.Truncate(s.name, int64(n)))
	case k < 92:
		s.note("close and open")
		return s.reopen(0)
	case k < 96:
		s.note("fsync")
		return s.f.Sync()
	default:
		s.note("fsync and drop the cache")
		return errors.Join(s.f.Sync(), Forget(s.f))
	}
}

func (s *fsxState) resize(n int) {
	if n <= len(s.model) {
		s.model = s.model[:n]
		return
	}
	s.model = append(s.model, make([]byte, n-len(s.model))...)
}

func (s *fsxState) write(off, n int, seed uint64) error {
	s.note("write %d at %d (file has %d)", n, off, len(s.model))
	b := s.buf[:n]
	pattern(b, seed, int64(off))
	if _, err := s.f.WriteAt(b, int64(off)); err != nil {
		return err
	}
	if off+n > len(s.model) {
		s.resize(off + n)
	}
	copy(s.model[off:], b)
	return nil
}

func (s *fsxState) read(off, n int) error {
	s.note("read %d at %d (file has %d)", n, off, len(s.model))
	b := make([]byte, n)
	k, err := s.f.ReadAt(b, int64(off))
	if err != nil && err != io.EOF {
		return err
	}
	var want []byte
	if off < len(s.model) {
		want = s.model[off:min(off+n, len(s.model))]
	}
	return differ("fsx", b[:k], want, int64(off))
}

func (s *fsxState) truncate(n int) error {
	s.note("truncate to %d (file has %d)", n, len(s.model))
	if err := s.f.Truncate(int64(n)); err != nil {
		return err
	}
	s.resize(n)
	st, err := s.f.Stat()
	if err == nil && st.Size() != int64(n) {
		err = fmt.Errorf("size is %d after a truncate to %d", st.Size(), n)
	}
	return err
}

// mapped reads or writes a range through a shared mapping, within the file.
func (s *fsxState) mapped(write bool, seed uint64) error {
	if len(s.model) == 0 {
		return nil
	}
	off, n := s.extent(len(s.model))
	n = min(n, len(s.model)-off)
	s.note("mapped write=%v %d at %d (file has %d)", write, n, off, len(s.model))
	prot := unix.PROT_READ
	if write {
		prot |= unix.PROT_WRITE
	}
	m, err := unix.Mmap(int(s.f.Fd()), 0, len(s.model), prot, unix.MAP_SHARED)
	if err != nil {
		return err
	}
	if write {
		pattern(m[off:off+n], seed, int64(off))
		copy(s.model[off:], m[off:off+n])
	} else {
		err = differ("fsx mapped", m[off:off+n], s.model[off:off+n], int64(off))
	}
	if write && s.rng.IntN(2) == 0 {
		err = errors.Join(err, unix.Msync(m, unix.MS_SYNC))
	}
	return errors.Join(err, unix.Munmap(m))
}
