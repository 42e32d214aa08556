// Splice against copy: matched blocks of short runs.
//
// Plan: a match is one piece of work that can be done in several ways; the first
// way is the base. A block runs each of a match's ways once, in random order, one
// after the other, so that what changes slowly on the machine is the same for
// all. Ratios are taken within blocks; a match quotes their median with the
// bootstrap's 95% interval. A block in which anything else on the machine used
// more than a part of a processor is run again: what is measured decides
// nothing about that.
//
// The parts: READ by size, READ of mixed sizes by threshold (spliceread.go),
// WRITE payloads (splicewrite.go). Each part replaces its own section of the
// document (splicereport.go), so that they may be run apart.

package main

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	pkgbench "sluice/pkg/bench"
	"sluice/test/measure"
)

// sample is one run.
type sample struct {
	GBPerSec float64 `json:"gb_per_s"`
	CPUPerGB float64 `json:"cpu_s_per_gb"`    // of the server or the sink
	PeerCPU  float64 `json:"client_s_per_gb"` // of what it talks to
	Others   float64 `json:"others"`          // processors that anything else used, or the host took
	Full     float64 `json:"full,omitempty"`  // times in a payload that the pipe was full
	InBytes  float64 `json:"in,omitempty"`    // payload bytes per call that takes them from the socket
	OutBytes float64 `json:"out,omitempty"`   // payload bytes per call that gives them to the file
}

type way struct {
	name string
	run  func() (sample, error)
}

type match struct {
	FS, Work, Shape string
	Size            int
	kernel          bool // threads of the kernel take part, which count as others
	ways            []way
}

// matchResult is what a match measured.
type matchResult struct {
	FS     string      `json:"file_system"`
	Work   string      `json:"work"`
	Shape  string      `json:"shape"`
	Size   int         `json:"size"` // bytes, 0 for mixed
	Ways   []wayResult `json:"ways"`
	Blocks [][]sample  `json:"blocks"` // in the order of Ways
}

type wayResult struct {
	Way    string             `json:"way"`
	Median sample             `json:"median"`
	Rate   *pkgbench.Interval `json:"rate_ratio,omitempty"` // to the first way's
	CPU    *pkgbench.Interval `json:"cpu_ratio,omitempty"`
}

const (
	maxOthers = .2 // processors
	maxTries  = 4  // of a block

	// How long a part waits in all for others to end; later, blocks are taken
	// as they come.
	maxWait = 10 * time.Minute
)

// calm waits until others let the machine be, for a minute at most, and takes
// that off patience; a variable for tests.
var calm = func(patience *time.Duration) error {
	start := time.Now()
	defer func() { *patience -= time.Since(start) }()
	for time.Since(start) < time.Minute {
		others, err := watch(func() error { time.Sleep(time.Second / 2); return nil })
		if err != nil || others < maxOthers/2 {
			return err
		}
	}
	return nil
}

// part is one section of the document.
type part struct {
	Date     string        `json:"date"`
	Command  string        `json:"command"`
	Took     string        `json:"took"`
	Blocks   int           `json:"blocks"`
	Seconds  float64       `json:"seconds_each"`
	Repeated int           `json:"blocks_repeated"`  // since others were at work
	Noisy    int           `json:"blocks_disturbed"` // that stayed so
	Machine  machine       `json:"machine"`
	Matches  []matchResult `json:"matches"`
}

// spliceParts are what -splice may name.
var spliceParts = []struct {
	name string
	run  func(*bench) ([]match, error)
}{
	{"size", (*bench).sizeMatches},
	{"mixed", (*bench).mixedMatches},
	{"write", (*bench).writeMatches},
}

// splice runs the parts that the option names.
func (b *bench) splice() error {
	doc, err := readSplice(b.o.out)
	if err != nil {
		return err
	}
	for name := range strings.SplitSeq(b.o.splice, ",") {
		found := false
		for _, p := range spliceParts {
			if name != p.name && name != "all" {
				continue
			}
			found = true
			start := time.Now()
			matches, err := p.run(b)
			if err != nil {
				return fmt.Errorf("%s: %w", p.name, err)
			}
			out := &part{
				Date: start.UTC().Format("2006-01-02"), Blocks: b.o.rounds, Seconds: b.o.secs, Machine: describe(b.o),
				Command: fmt.Sprintf("make bench-splice PARTS=%s BLOCKS=%d SECS=%g", p.name, b.o.rounds, b.o.secs),
			}
			if err := b.measureMatches(out, matches); err != nil {
				return fmt.Errorf("%s: %w", p.name, err)
			}
			out.Took = time.Since(start).Round(time.Second).String()
			doc[p.name] = out
			if err := doc.save(b.o.out); err != nil {
				return err
			}
		}
		if !found {
			return fmt.Errorf("no part %q; there are size, mixed, write and all", name)
		}
	}
	fmt.Print(doc.markdown())
	return nil
}

func (b *bench) measureMatches(p *part, matches []match) error {
	patience := maxWait
	for _, c := range matches {
		r := matchResult{FS: c.FS, Work: c.Work, Shape: c.Shape, Size: c.Size}
		for _, w := range c.ways { // fill caches
			if _, err := w.run(); err != nil {
				return fmt.Errorf("%s %s %s of %d bytes, %s: %w", c.FS, c.Work, c.Shape, c.Size, w.name, err)
			}
			r.Ways = append(r.Ways, wayResult{Way: w.name})
		}
		for i := range b.o.rounds {
			block, tries, err := c.block(i, &patience)
			if err != nil {
				return fmt.Errorf("%s %s %s of %d bytes: %w", c.FS, c.Work, c.Shape, c.Size, err)
			}
			p.Repeated += tries - 1
			if c.disturbed(block) {
				p.Noisy++
			}
			r.Blocks = append(r.Blocks, block)
		}
		r.summarize()
		p.Matches = append(p.Matches, r)
		fmt.Fprintf(os.Stderr, "%s\n", r.line())
	}
	return nil
}

// block runs the i-th block: again while others disturb it, but
// not for ever.
func (m *match) block(i int, patience *time.Duration) (block []sample, tries int, err error) {
	for tries = 1; ; tries++ {
		block = make([]sample, len(m.ways))
		for _, k := range rand.New(rand.NewPCG(uint64(i), uint64(tries))).Perm(len(m.ways)) {
			if block[k], err = m.ways[k].run(); err != nil {
				return nil, tries, fmt.Errorf("%s: %w", m.ways[k].name, err)
			}
		}
		if tries == maxTries || *patience <= 0 || !m.disturbed(block) {
			return block, tries, nil
		}
		if err := calm(patience); err != nil {
			return nil, tries, err
		}
	}
}

func (m *match) disturbed(block []sample) bool {
	return !m.kernel && slices.ContainsFunc(block, func(s sample) bool { return s.Others > maxOthers })
}

// summarize makes medians and ratios of the blocks.
func (r *matchResult) summarize() {
	column := func(k int, f func(sample) float64) []float64 {
		v := make([]float64, len(r.Blocks))
		for i, block := range r.Blocks {
			v[i] = f(block[k])
		}
		return v
	}
	for k := range r.Ways {
		w := &r.Ways[k]
		for _, f := range []func(*sample) *float64{
			func(s *sample) *float64 { return &s.GBPerSec },
			func(s *sample) *float64 { return &s.CPUPerGB },
			func(s *sample) *float64 { return &s.PeerCPU },
			func(s *sample) *float64 { return &s.Others },
			func(s *sample) *float64 { return &s.Full },
			func(s *sample) *float64 { return &s.InBytes },
			func(s *sample) *float64 { return &s.OutBytes },
		} {
			*f(&w.Median) = median(column(k, func(s sample) float64 { return *f(&s) }))
		}
		if k == 0 {
			continue
		}
		ratio := func(f func(sample) float64) *pkgbench.Interval {
			i := pkgbench.Bootstrap(pkgbench.Ratios(column(k, f), column(0, f)))
			return &i
		}
		w.Rate = ratio(func(s sample) float64 { return s.GBPerSec })
		w.CPU = ratio(func(s sample) float64 { return s.CPUPerGB })
	}
}

// watch runs f and returns how many processors were busy meanwhile with
// anything but this process, its children that ended, and the processes pids.
func watch(f func() error, pids ...int) (others float64, err error) {
	own := func() (float64, error) {
		sum := measure.OwnCPU().Total()
		var ru unix.Rusage
		if err := unix.Getrusage(unix.RUSAGE_CHILDREN, &ru); err != nil {
			return 0, err
		}
		sum += float64(ru.Utime.Nano()+ru.Stime.Nano()) / 1e9
		for _, pid := range pids {
			t, err := measure.ProcessTime(pid)
			if err != nil {
				return 0, err
			}
			sum += t
		}
		return sum, nil
	}
	before, err := own()
	if err != nil {
		return 0, err
	}
	sys0, err := measure.SystemCPU()
	if err != nil {
		return 0, err
	}
	start := time.Now()
	if err := f(); err != nil {
		return 0, err
	}
	took := time.Since(start).Seconds()
	sys1, err := measure.SystemCPU()
	if err != nil {
		return 0, err
	}
	after, err := own()
	if err != nil {
		return 0, err
	}
	busy := sys1.Busy - sys0.Busy + sys1.Steal - sys0.Steal
	return max(busy-(after-before), 0) / took, nil
}
