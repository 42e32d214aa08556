// What may be asked for: defaults and limits of a Workload, and how a job goes
// through its part of the dataset.

package bench

import (
	"fmt"
	"math"
	"math/rand/v2"
)

// Limits of a workload. They bound the load generator's own memory: some 100
// bytes for each call in flight, 1 KiB for each connection and job, and 2 MiB
// for each thread.
const (
	MaxJobs        = 1024
	MaxDepth       = 1024
	MaxInFlight    = 65536
	MaxConnections = 1024
	MaxBlockSize   = 4 << 20
	MaxFiles       = 16384
	MaxSeconds     = 24 * 3600
	MaxThreads     = 64

	maxSlots = 4096 // calls in flight on one connection: the width of an xid's slot number

	defaultDataset = 256 << 20
	defaultSeconds = 10
)

// Complete fills in defaults and checks the rest. An error names what is wrong
// as the command line calls it.
func (w *Workload) Complete() error {
	def(&w.Protocol, "v3")
	def(&w.Op, "read")
	def(&w.Pattern, "sequential")
	def(&w.Jobs, 1)
	def(&w.Depth, 8)
	def(&w.BlockSize, 1<<20)
	def(&w.Connections, min(w.Jobs, MaxConnections))
	def(&w.Files, w.Jobs)
	if w.DatasetBytes == 0 && w.FileBytes == 0 {
		w.DatasetBytes = defaultDataset
	}
	if w.Seconds == 0 && w.MaxBytes == 0 {
		w.Seconds = defaultSeconds
	}
	switch w.Op {
	case "read":
		w.ReadPercent = 100
	case "write":
		w.ReadPercent = 0
	case "mixed":
		def(&w.ReadPercent, 70)
	}
	if w.ReadPercent < 100 {
		def(&w.Stable, "unstable")
	}
	if err := w.check(); err != nil {
		return err
	}
	if w.FileBytes == 0 {
		w.FileBytes = max(w.DatasetBytes/int64(w.Files), 1)
		if whole := w.FileBytes / int64(w.BlockSize) * int64(w.BlockSize); whole > 0 {
			w.FileBytes = whole
		}
	}
	w.DatasetBytes = w.FileBytes * int64(w.Files)
	if w.FileBytes <= int64(w.Misalignment) || w.FileBytes > math.MaxInt64/MaxFiles {
		return fmt.Errorf("--dataset: %s in %d files is %s for each, which does not hold a block; ask for more", SizeText(w.DatasetBytes), w.Files, SizeText(w.FileBytes))
	}
	return nil
}

func def[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

func (w *Workload) check() error {
	oneOf := func(what, got string, want ...string) error {
		for _, s := range want {
			if s == got {
				return nil
			}
		}
		return fmt.Errorf("%s: %q is none of %v", what, got, want)
	}
	within := func(what string, got, low, high int) error {
		if got < low || got > high {
			return fmt.Errorf("%s: %d is not between %d and %d", what, got, low, high)
		}
		return nil
	}
	stable := w.Stable
	def(&stable, "unstable")
	readLow, readHigh := 0, 100
	if w.Op == "mixed" {
		readLow, readHigh = 1, 99
	}
	for _, err := range []error{
		oneOf("--protocol", w.Protocol, "v3", "4.1"),
		oneOf("the operation", w.Op, "read", "write", "mixed"),
		oneOf("--pattern", w.Pattern, "sequential", "random"),
		oneOf("--stable", stable, "unstable", "data_sync", "file_sync"),
		within("--read-percent", w.ReadPercent, readLow, readHigh),
		within("--jobs", w.Jobs, 1, MaxJobs),
		within("--iodepth", w.Depth, 1, MaxDepth),
		within("--jobs times --iodepth", w.Jobs*w.Depth, 1, MaxInFlight),
		within("--connections", w.Connections, 1, min(w.Jobs, MaxConnections)),
		within("calls in flight on one connection (--jobs times --iodepth over --connections)", w.slots(0), 1, maxSlots),
		within("--bs", w.BlockSize, 1, MaxBlockSize),
		within("--misalign", w.Misalignment, 0, MaxBlockSize),
		within("--files", w.Files, 1, MaxFiles),
	} {
		if err != nil {
			return err
		}
	}
	for what, v := range map[string]float64{"--time": w.Seconds, "--warmup": w.WarmupSeconds} {
		if !(v >= 0 && v <= MaxSeconds) {
			return fmt.Errorf("%s: %g seconds is not between 0 and a day", what, v)
		}
	}
	if w.WarmupSeconds > 0 && w.Seconds == 0 {
		return fmt.Errorf("--warmup needs --time: a run that ends by size alone may be over before")
	}
	if w.MaxBytes < 0 || w.FileBytes < 0 || w.DatasetBytes < 0 {
		return fmt.Errorf("a size below 0")
	}
	if w.Verify && w.Op == "write" {
		return fmt.Errorf("--verify is about READs: use it with read or mixed")
	}
	return nil
}

// jobsOf is how many jobs a connection serves; they take turns.
func (w *Workload) jobsOf(conn int) int {
	return (w.Jobs - conn + w.Connections - 1) / w.Connections
}

// slots is how many calls a connection has in flight.
func (w *Workload) slots(conn int) int { return w.jobsOf(conn) * w.Depth }

// kind is what a call in flight is.
type kind uint8

const (
	kindRead kind = iota
	kindWrite
	kindCommit
	kinds
)

// step is one call of a job. Length 0 is for COMMIT, which is for a whole file.
type step struct {
	kind   kind
	file   int
	off    int64
	length int
}

// job walks through its part of the dataset. With as many files as jobs or more,
// job j has the files j, j+Jobs and so on, one after the other; with fewer, jobs
// share files and begin in different places of them.
type job struct {
	w       *Workload
	files   []int
	perFile int64 // blocks
	pos     int64
	left    int64 // steps; -1: no end
	rng     *rand.Rand
	wrote   bool
	commits int // files whose COMMIT is still to be sent, once it has ended
	flying  int
	ended   bool
}

func newJob(w *Workload, n int) *job {
	j := &job{w: w, left: -1, rng: rand.New(rand.NewPCG(2, uint64(n)))}
	bs := int64(w.BlockSize)
	j.perFile = max((w.FileBytes-int64(w.Misalignment)+bs-1)/bs, 1)
	if w.Files >= w.Jobs {
		for f := n; f < w.Files; f += w.Jobs {
			j.files = append(j.files, f)
		}
	} else {
		j.files = []int{n % w.Files}
		sharers := int64(w.Jobs-n%w.Files+w.Files-1) / int64(w.Files)
		j.pos = int64(n/w.Files) * j.perFile / sharers
	}
	if w.MaxBytes > 0 {
		blocks := max((w.MaxBytes+bs-1)/bs, 1)
		j.left = blocks / int64(w.Jobs)
		if int64(n) < blocks%int64(w.Jobs) {
			j.left++
		}
	}
	return j
}

// next is the step after the last one; ok is false when there is none.
func (j *job) next() (s step, ok bool) {
	if j.ended || j.left == 0 {
		return s, false
	}
	if j.left > 0 {
		j.left--
	}
	total := j.perFile * int64(len(j.files))
	k := j.pos
	if j.w.Pattern == "random" {
		k = j.rng.Int64N(total)
	} else if j.pos++; j.pos >= total {
		j.pos = 0
	}
	s.file = j.files[k/j.perFile]
	s.off = k%j.perFile*int64(j.w.BlockSize) + int64(j.w.Misalignment)
	s.length = int(min(int64(j.w.BlockSize), j.w.FileBytes-s.off))
	switch p := j.w.ReadPercent; {
	case p == 0, p < 100 && j.rng.IntN(100) >= p:
		s.kind = kindWrite
		j.wrote = true
	}
	return s, true
}
