// Plan of this file: load that goes on for a while from several goroutines,
// everything verified, so that a server can be restarted or switched below it.

package fscheck

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"
)

// load writes and reads files until its seconds are over, or, with until=, until
// a file of that name exists; a round that begins after that is each worker's
// last. Each worker has its own files, rewrites them with ever new patterns, and
// reads them back past the cache. With names=1 it also creates, links, renames and removes: calls that
// a server which loses its memory may see twice, so that they may fail across
// a crash (RFC 1813, 4.1) but never across an orderly restart.
func load(r *run) error {
	dir, err := r.emptyDir("load")
	if err != nil {
		return err
	}
	end, until := time.Now().Add(time.Duration(r.int("seconds", 3))*time.Second), r.text("until", "")
	over := func() bool {
		if until == "" {
			return time.Now().After(end)
		}
		_, err := os.Stat(until)
		return err == nil
	}
	var rounds atomic.Int64
	err = parallel(int(r.int("workers", 4)), func(id int) error {
		rng := rand.New(rand.NewPCG(uint64(id), 5))
		own := filepath.Join(dir, fmt.Sprint("worker", id))
		if err := os.MkdirAll(own, 0o755); err != nil { // made already, if a server was killed before its answer
			return err
		}
		last := false
		for gen := uint64(1); !last; gen++ {
			last = over()
			if err := rewrite(filepath.Join(own, fmt.Sprint("f", gen%4)), gen, rng); err != nil {
				return fmt.Errorf("worker %d, round %d: %w", id, gen, err)
			}
			if r.flag("names") {
				if err := rename(own, gen); err != nil {
					return fmt.Errorf("worker %d, round %d: %w", id, gen, err)
				}
			}
			rounds.Add(1)
		}
		return nil
	})
	r.logf("load %d rounds", rounds.Load())
	return err
}

// rewrite gives a file new content in pieces of odd sizes and reads it back.
func rewrite(name string, seed uint64, rng *rand.Rand) error {
	f, err := os.OpenFile(name, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return err
	}
	defer f.Close()
	size := 1 + rng.IntN(600<<10)
	want := make([]byte, size)
	pattern(want, seed, 0)
	if err := f.Truncate(int64(size)); err != nil {
		return err
	}
	for off := 0; off < size; {
		n := min(1+rng.IntN(100<<10), size-off)
		if _, err := f.WriteAt(want[off:off+n], int64(off)); err != nil {
			return err
		}
		off += n
	}
	if err := errors.Join(f.Sync(), Forget(f)); err != nil {
		return err
	}
	got := make([]byte, size)
	if _, err := f.ReadAt(got, 0); err != nil {
		return err
	}
	return differ(name, got, want, 0)
}

// rename takes one file through every kind of name change.
func rename(dir string, gen uint64) error {
	a, b, c := filepath.Join(dir, "a"), filepath.Join(dir, "b"), filepath.Join(dir, "c")
	text := fmt.Sprint("generation ", gen)
	err := errors.Join(
		os.WriteFile(a, []byte(text), 0o644),
		os.Link(a, b),
		os.Rename(b, c),
		os.Remove(a),
	)
	if err != nil {
		return err
	}
	got, err := os.ReadFile(c)
	if err == nil && string(got) != text {
		err = fmt.Errorf("%s holds %q, want %q", c, got, text)
	}
	return errors.Join(err, os.Remove(c), os.Mkdir(a, 0o700), os.Remove(a))
}
