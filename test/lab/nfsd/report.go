// Plan of this file: the guest's events become rounds of pairs, those ratios,
// and those tables, one for each run of the guest. Rates of an emulated machine mean nothing by themselves:
// the table has ratios alone, the JSON every measurement.

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"sluice/test/lab/nfsd/job"
	"sluice/test/measure"
)

type document struct {
	Date     string          `json:"date"`
	Command  string          `json:"command"`
	Took     string          `json:"took"`
	Rounds   int             `json:"rounds"`
	Seconds  float64         `json:"seconds_each"`
	Machine  measure.Machine `json:"host"`
	Emulator string          `json:"emulator"`
	CPU      string          `json:"emulated_cpu"`
	Programs string          `json:"kernel_server_programs"`
	Tables   []*table        `json:"tables"`
}

// table is what one run of the guest found.
type table struct {
	kind
	Guest  *job.Facts   `json:"guest"`
	Rows   []*rowResult `json:"rows"`
	rounds int
}

// rowResult is one line of the table.
type rowResult struct {
	Row    string  `json:"row"`
	Work   string  `json:"work"`
	Failed string  `json:"failed,omitempty"`
	Rounds []*pair `json:"rounds"`
	Rate   ratio   `json:"rate"`        // calls per second
	CPU    ratio   `json:"machine_cpu"` // of the whole machine, for one call
	Own    ratio   `json:"server_cpu"`  // of the server alone, for one call
}

// pair is one round.
type pair struct {
	Kernel *job.Sample `json:"kernel"`
	Sluice *job.Sample `json:"sluice"`
}

// ratio is sluice's figure divided by the kernel's: the median of the rounds,
// with the least and the greatest.
type ratio struct {
	Median float64 `json:"median"`
	Least  float64 `json:"least"`
	Most   float64 `json:"greatest"`
}

func (r ratio) String() string { return fmt.Sprintf("%.2f (%.2f-%.2f)", r.Median, r.Least, r.Most) }

func newDocument(o *options, p *parts) *document {
	d := &document{
		Date: time.Now().UTC().Format(time.DateOnly), Rounds: o.rounds, Seconds: o.secs,
		Command: fmt.Sprintf("make lab-nfsd ROUNDS=%d SECS=%g", o.rounds, o.secs),
		Machine: measure.Describe(o.sluice), Emulator: measure.Output("qemu-system-x86_64", "--version"),
		CPU: o.features, Programs: p.server,
	}
	if o.rows != "all" {
		d.Command += " ROWS=" + o.rows
	}
	if o.kinds != "counted,parallel" {
		d.Command += " KINDS=" + o.kinds
	}
	return d
}

// add begins a table.
func (d *document) add(k kind, rows []job.Row) *table {
	t := &table{kind: k, rounds: d.Rounds}
	for _, r := range rows {
		t.Rows = append(t.Rows, &rowResult{Row: r.Name, Work: r.Work})
	}
	d.Tables = append(d.Tables, t)
	return t
}

// take enters an event of the guest.
func (t *table) take(e job.Event) error {
	switch {
	case e.Say != "":
		progress("  guest: %s", e.Say)
	case e.Facts != nil:
		t.Guest = e.Facts
	case e.Sample != nil:
		return t.enter(e.Sample)
	case e.Failed != nil && e.Failed.Row == "":
		return errors.New(e.Failed.Error)
	case e.Failed != nil:
		progress("  guest: %s failed: %s", e.Failed.Row, e.Failed.Error)
		if r := t.row(e.Failed.Row); r != nil {
			r.Failed = e.Failed.Error
		}
	}
	return nil
}

func (t *table) row(name string) *rowResult {
	for _, r := range t.Rows {
		if r.Row == name {
			return r
		}
	}
	return nil
}

func (t *table) enter(s *job.Sample) error {
	r := t.row(s.Row)
	if r == nil || s.Round < 0 || s.Round > len(r.Rounds) || s.Round >= t.rounds {
		return fmt.Errorf("the guest measured round %d of %q, which was not asked", s.Round, s.Row)
	}
	if s.Round == len(r.Rounds) {
		r.Rounds = append(r.Rounds, new(pair))
	}
	p := r.Rounds[s.Round]
	switch s.Server {
	case job.Kernel:
		p.Kernel = s
	case job.SluiceName:
		p.Sluice = s
	default:
		return fmt.Errorf("the guest measured the server %q", s.Server)
	}
	if s.Result.Errors > 0 && r.Failed == "" {
		r.Failed = fmt.Sprintf("%s: %d of %d calls failed: %s", s.Server, s.Result.Errors, s.Result.Calls, s.Result.FirstError)
	}
	if p.Kernel != nil && p.Sluice != nil && s.Round == t.rounds-1 {
		r.conclude(t.rounds)
		progress("  %s: rate %v, machine's CPU %v, server's %v %s", r.Work, r.Rate, r.CPU, r.Own, r.Failed)
	}
	return nil
}

// conclude computes the ratios of a row that has all its rounds.
func (r *rowResult) conclude(rounds int) {
	of := func(f func(*job.Sample) float64) ratio {
		v := make([]float64, 0, rounds)
		for _, p := range r.Rounds {
			if p.Kernel == nil || p.Sluice == nil || f(p.Kernel) <= 0 {
				r.Failed = "a round was not measured"
				return ratio{}
			}
			v = append(v, f(p.Sluice)/f(p.Kernel))
		}
		return summarize(v)
	}
	r.Rate = of(func(s *job.Sample) float64 { return s.Result.OpsPerSec })
	r.CPU = of(func(s *job.Sample) float64 { return s.Result.CPUPerOp })
	r.Own = of(func(s *job.Sample) float64 { return s.OwnCPU / float64(max(s.Result.Calls, 1)) })
}

func summarize(v []float64) ratio {
	v = slices.Sorted(slices.Values(v))
	n := len(v)
	return ratio{Median: (v[(n-1)/2] + v[n/2]) / 2, Least: v[0], Most: v[n-1]}
}

// readingHeading begins the part of the page that a person writes: it is kept
// when the page is made again.
const readingHeading = "## Reading\n"

// finish prints the table and writes both files. Rows that failed are in them,
// and make an error.
func (d *document) finish(out string) error {
	var failed []string
	for _, t := range d.Tables {
		for _, r := range t.Rows {
			if r.Rate == (ratio{}) && r.Failed == "" {
				r.Failed = "not measured"
			}
			if r.Failed != "" {
				failed = append(failed, fmt.Sprintf("%s, %s: %s", t.Name, r.Row, r.Failed))
			}
		}
	}
	fmt.Print(d.markdown())
	if out != "" {
		if err := d.write(out); err != nil {
			return err
		}
	}
	if failed != nil {
		return fmt.Errorf("%d rows failed:\n%s", len(failed), strings.Join(failed, "\n"))
	}
	return nil
}

func (d *document) write(out string) error {
	text, err := json.MarshalIndent(d, "", "\t")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(out), 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(out+".json", append(text, '\n'), 0o644); err != nil {
		return err
	}
	old, err := os.ReadFile(out + ".md")
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return os.WriteFile(out+".md", []byte(d.markdown()+reading(string(old))), 0o644)
}

// reading returns what a person wrote below the table of an earlier page.
func reading(page string) string {
	if i := strings.Index(page, "\n"+readingHeading); i >= 0 {
		return page[i:]
	}
	return ""
}

func (d *document) markdown() string {
	var b strings.Builder
	fmt.Fprintf(&b, "# sluice beside the kernel's NFS server, %s\n\n", d.Date)
	fmt.Fprintf(&b, "Made by `%s`, which took %s. Ratios are sluice to the kernel: a rate above 1 means that sluice makes more calls\n", d.Command, d.Took)
	fmt.Fprintf(&b, "in a time, cost below 1 that it needs less for a call. Each is the median of %d rounds of %g s, with the least and the greatest.\n", d.Rounds, d.Seconds)
	for _, t := range d.Tables {
		t.markdown(&b)
	}
	m := d.Machine
	fmt.Fprintf(&b, "\n## What it ran on\n\n")
	fmt.Fprintf(&b, "- Host: %s, %d cores, %s of memory, kernel %s, %s; no KVM\n", m.CPU, m.Cores, m.Memory, m.Kernel, m.System)
	fmt.Fprintf(&b, "- Virtual machine: %s, `-cpu %s`\n", d.Emulator, d.CPU)
	for _, t := range d.Tables {
		g := t.Guest
		if g == nil {
			g = &job.Facts{}
		}
		fmt.Fprintf(&b, "- %s: `%s`, %d MiB of memory; kernel %s, clock source %s, TCP %s, file system %s on a virtio disk; the kernel's server with %d threads, READ and WRITE up to %d KiB\n",
			title(t.Name), t.Args, g.MemoryMiB, g.Kernel, g.Clock, g.TCP, g.FileSystem, g.Threads, g.MaxBlock>>10)
	}
	fmt.Fprintf(&b, "- The kernel's server was set up by Debian's %s\n", d.Programs)
	fmt.Fprintf(&b, "- sluice: %s, built with %s, read mode buffered\n", m.Sluice, m.Go)
	b.WriteString(method)
	return b.String()
}

func title(s string) string { return strings.ToUpper(s[:1]) + s[1:] }

var headings = map[string]string{
	counted.Name: "\n## Counted: one processor, time is instructions\n\n" +
		"| work | rate | instructions of the whole machine for a call | of the server alone |\n|---|---|---|---|\n",
	parallel.Name: "\n## Parallel: two processors\n\n" +
		"| work | rate | CPU of the whole machine for a call | of the server alone |\n|---|---|---|---|\n",
}

func (t *table) markdown(b *strings.Builder) {
	b.WriteString(headings[t.Name])
	var notes []string
	for _, r := range t.Rows {
		work := r.Work
		if r.Failed != "" {
			notes = append(notes, strings.ReplaceAll(r.Failed, "\n", " "))
			work += fmt.Sprintf(" [%d]", len(notes))
		}
		if r.Rate == (ratio{}) {
			fmt.Fprintf(b, "| %s | - | - | - |\n", work)
			continue
		}
		fmt.Fprintf(b, "| %s | %v | %v | %v |\n", work, r.Rate, r.CPU, r.Own)
	}
	for i, n := range notes {
		fmt.Fprintf(b, "\n[%d] failed: %s\n", i+1, n)
	}
}

const method = `
## How it is measured

- Both servers run in the same guest, export the same directory with ` + "`rw,sync,no_root_squash`" + `, and stay up for the whole
  run; the one that is not asked is idle. The load generator (` + "`test/bench/nfsload`" + `) is the same program for both and talks
  to them over the guest's loopback. "4x4" is 4 connections with 4 calls in flight on each. Rows are NFSv3 where they do not
  say 4.1, which is a COMPOUND of SEQUENCE, PUTFH and the operation in a session with 8 slots.
- A row alternates the servers round by round, and each round changes who is first; no round is left out. READ is of a
  file of 128 MiB in the page cache and its data is compared with what was written; WRITE goes over a file of 256 MiB, dirty
  data is written out before each measurement, and a block is read back; each measurement of CREATE has a directory of its own.
- There is no KVM here, so an emulator translates the guest's machine code. It has no caches, no pipeline, no prediction,
  and a system call, a page-table switch, an atomic operation cost other multiples of a plain instruction than on hardware.
  So rates do not carry over, and the tables have ratios alone; every single measurement is in the JSON.
- Counted: the guest's clock advances by 8 ns for each instruction, so that "time" and "CPU" are exact counts of
  instructions, whatever else the host does. Only where the guest waits, for the disk, real time passes: CREATE's rate and
  partly WRITE's. One processor does the client's work too, so a rate's ratio is that of all instructions, client
  included, whose part is the same for both and draws the ratio to 1.
- Parallel: servers and client run at once on two processors, which are threads on the host's two cores. Time is the
  host's, other work of the host disturbs it, and what the host takes away counts as the guest's CPU.
- CPU of the whole machine is what /proc/stat counts as busy, client and interrupts included, while the calls are made; it is
  sampled 250 times a second. The server alone is sluice's process, or the kernel's nfsd threads: what either leaves to
  interrupts that come while others run and to write-back is not in it, the few calls before and after the measured ones are.
- The emulated processor is without ERMS and FSRM, features that make the kernel copy memory with ` + "`rep movsb`" + `, which the
  emulator does byte by byte.
`
