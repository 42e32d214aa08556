// Comparing the I/O modes of a sluice server: runs in matched blocks.
//
// Each block has each mode once, so that what changes slowly (a disk that fills,
// a neighbour that wakes up) meets all of them alike, and over as many blocks as
// there are modes each has each place. Ratios are formed within a block. What
// was set before is set again at the end, also after an interruption.

package bench

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"time"

	"sluice/pkg/admin"
	"sluice/pkg/usage"
)

// Limits of a comparison.
const (
	MaxModes  = 16
	MaxBlocks = 100

	restoreTimeout = 10 * time.Second
)

// CompareOptions say what to compare.
type CompareOptions struct {
	// Modes by their names, in the order of the report; the ratios are to the
	// first. A mode is set for the operations that the workload has. "A/B" sets
	// A for reads and B for writes.
	Modes []string
	// Blocks is how often each mode runs, 1 to MaxBlocks.
	Blocks int
	// Admin is the server's admin socket.
	Admin string
	// Export sets the mode of one export; "": of the whole server.
	Export string
	// LocalDir, if set, is where the dataset lies on this machine: it is dropped
	// from the page cache before each run. That takes the right to read it.
	LocalDir string
	// OnRun, if set, is called before a run (r is nil) and after it.
	OnRun func(mode string, block, order int, r *Run)
}

// Check looks at the options before anything is touched.
func (o *CompareOptions) Check(w *Workload) error {
	switch {
	case len(o.Modes) < 2 || len(o.Modes) > MaxModes:
		return fmt.Errorf("--modes: name 2 to %d modes, as in buffered,direct", MaxModes)
	case o.Blocks < 1 || o.Blocks > MaxBlocks:
		return fmt.Errorf("--blocks: %d is not between 1 and %d", o.Blocks, MaxBlocks)
	case o.Admin == "":
		return errors.New("--admin: name the server's admin socket, by which modes are switched")
	}
	for i, m := range o.Modes {
		if slices.Contains(o.Modes[:i], m) {
			return fmt.Errorf("--modes: %q is named twice", m)
		}
		read, write, both := strings.Cut(m, "/")
		if m == "" || both && (read == "" || write == "") {
			return fmt.Errorf("--modes: %q is no mode", m)
		}
		if both && w.Op != "mixed" {
			return fmt.Errorf("--modes: %q names a mode for reads and one for writes, and the load only has %ss", m, w.Op)
		}
	}
	return nil
}

// setting is the mode of an operation.
type setting struct{ op, mode string }

func (o *CompareOptions) settings(w *Workload, mode string) []setting {
	read, write, both := strings.Cut(mode, "/")
	if !both {
		write = read
	}
	var out []setting
	if w.ReadPercent > 0 {
		out = append(out, setting{"read", read})
	}
	if w.ReadPercent < 100 {
		out = append(out, setting{"write", write})
	}
	return out
}

// Try sets each mode once, and then what was set before: what can't be compared
// is found out before a dataset is made. path is what will be loaded.
func (o *CompareOptions) Try(ctx context.Context, w *Workload, path string) error {
	return o.switching(ctx, w, path, func(*admin.Client) error { return nil })
}

// switching runs f between finding out what is set and setting it again.
func (o *CompareOptions) switching(ctx context.Context, w *Workload, path string, f func(*admin.Client) error) (err error) {
	if err := o.Check(w); err != nil {
		return err
	}
	c := admin.NewClient(o.Admin)
	defer c.Close()
	before, err := o.inForce(ctx, c, w, path)
	if err != nil {
		return err
	}
	touched := false // something was changed, or may have been: a request was broken off
	set := func(list []setting) error {
		n, err := o.set(ctx, c, list)
		touched = touched || n > 0 || ctx.Err() != nil
		return err
	}
	defer func() {
		if !touched {
			return
		}
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), restoreTimeout)
		defer cancel()
		if _, rerr := o.set(ctx, c, before); rerr != nil {
			err = errors.Join(err, fmt.Errorf("the modes that were set before could not be set again: %w; see `sluice mode`", rerr))
		}
	}()
	for _, m := range o.Modes {
		if err := set(o.settings(w, m)); err != nil {
			return fmt.Errorf("--modes: %s: %w", m, err)
		}
	}
	return f(c)
}

// Compare runs the workload in each mode. It returns the runs that were made,
// also with an error; one of them is that the modes set before could not be set
// again.
func (b *Bench) Compare(ctx context.Context, o CompareOptions) (runs []Run, err error) {
	err = o.switching(ctx, &b.w, b.o.Path, func(c *admin.Client) error {
		for block := range o.Blocks {
			for i, at := range Order(len(o.Modes), block) {
				r, err := b.inMode(ctx, c, &o, o.Modes[at], block+1, i+1)
				if err != nil {
					return err
				}
				runs = append(runs, r)
			}
		}
		return nil
	})
	return runs, err
}

func (b *Bench) inMode(ctx context.Context, c *admin.Client, o *CompareOptions, mode string, block, order int) (Run, error) {
	if _, err := o.set(ctx, c, o.settings(&b.w, mode)); err != nil {
		return Run{}, err
	}
	if o.LocalDir != "" {
		for i := range b.files {
			if err := usage.DropCache(o.LocalDir + "/" + b.files[i].name); err != nil {
				return Run{}, fmt.Errorf("--drop-caches: %w; the export must be a directory of this machine, and you must be root", err)
			}
		}
	}
	if o.OnRun != nil {
		o.OnRun(mode, block, order, nil)
	}
	r, err := b.Run(ctx)
	r.Mode, r.Block, r.Order = mode, block, order
	if err == nil && o.OnRun != nil {
		o.OnRun(mode, block, order, &r)
	}
	return r, err
}

// inForce asks what is set now, for the server or the export.
func (o *CompareOptions) inForce(ctx context.Context, c *admin.Client, w *Workload, path string) ([]setting, error) {
	var m admin.IOMode
	if err := c.Do(ctx, http.MethodGet, admin.PathIOMode, nil, &m); err != nil {
		return nil, err
	}
	now := map[string]string{"read": m.Read, "write": m.Write}
	if o.Export != "" {
		now = map[string]string{"read": "default", "write": "default"}
	}
	for _, e := range m.Exports {
		own := map[string]string{"read": e.Read, "write": e.Write}
		for op := range now {
			switch {
			case own[op] == "":
			case o.Export == e.Path:
				now[op] = own[op]
			case o.Export == "" && (path == e.Path || strings.HasPrefix(path, strings.TrimSuffix(e.Path, "/")+"/")):
				return nil, fmt.Errorf("the export %s has a mode of its own for %ss, which hides the server's: compare with --export %s", e.Path, op, e.Path)
			}
		}
	}
	var out []setting
	for _, s := range o.settings(w, o.Modes[0]) {
		out = append(out, setting{s.op, now[s.op]})
		for _, rule := range m.Clients {
			own := map[string]string{"read": rule.Read, "write": rule.Write}
			if own[s.op] != "" && isOurs(rule.Client) {
				return nil, fmt.Errorf("%ss of the client %s have a mode of their own, which hides the others, and this machine is one: take it away with `sluice mode %s default --client %s`",
					s.op, rule.Client, s.op, rule.Client)
			}
		}
	}
	return out, nil
}

// isOurs tells whether an address or network has an address of this machine.
func isOurs(client string) bool {
	network, err := netip.ParsePrefix(client)
	if err != nil {
		ip, err := netip.ParseAddr(client)
		if err != nil {
			return false
		}
		network = netip.PrefixFrom(ip, ip.BitLen())
	}
	for _, ip := range ownAddresses() {
		if network.Contains(ip) {
			return true
		}
	}
	return false
}

// set sets modes, in order, and returns how many it has set.
func (o *CompareOptions) set(ctx context.Context, c *admin.Client, list []setting) (n int, err error) {
	for _, s := range list {
		if err := c.Do(ctx, http.MethodPut, admin.PathIOMode, admin.ModeChange{Op: s.op, Mode: s.mode, Export: o.Export}, nil); err != nil {
			return n, err
		}
		n++
	}
	return n, nil
}

// Summarize sums up the runs of a comparison, mode by mode. Blocks that lack a
// mode are left out, as long as one block has all.
func Summarize(modes []string, runs []Run) *Comparison {
	byBlock := map[int]map[string]*Run{}
	for i := range runs {
		r := &runs[i]
		if byBlock[r.Block] == nil {
			byBlock[r.Block] = map[string]*Run{}
		}
		byBlock[r.Block][r.Mode] = r
	}
	var full, all []int
	for block, m := range byBlock {
		all = append(all, block)
		if len(m) == len(modes) {
			full = append(full, block)
		}
	}
	if len(full) == 0 {
		full = all
	}
	slices.Sort(full)

	out := &Comparison{Confidence: Confidence, Seed: seed, Resamples: resamples}
	runsOf := func(mode string) (list []*Run) {
		for _, block := range full {
			if r := byBlock[block][mode]; r != nil {
				list = append(list, r)
			}
		}
		return list
	}
	base := runsOf(modes[0])
	for _, mode := range modes {
		list := runsOf(mode)
		s := ModeSummary{Mode: mode, Runs: len(list),
			BytesPerSecond: over(list, bandwidth),
			MeanNS:         over(list, func(r *Run) float64 { return float64(r.main().MeanNS) }),
			P50NS:          over(list, func(r *Run) float64 { return float64(r.main().P50NS) }),
			P99NS:          over(list, p99),
			P999NS:         over(list, func(r *Run) float64 { return float64(r.main().P999NS) }),
			MaxNS:          over(list, func(r *Run) float64 { return float64(r.main().MaxNS) }),
			BandwidthRatio: Bootstrap(Ratios(each(list, bandwidth), each(base, bandwidth))),
			P99Ratio:       Bootstrap(Ratios(each(list, p99), each(base, p99))),
		}
		for _, r := range list {
			s.Errors += r.Errors
		}
		if hasAll(list, func(r *Run) bool { return r.CPU != nil && r.Bytes > 0 }) {
			part := func(f func(*CPU) float64) *Interval {
				v := over(list, func(r *Run) float64 { return f(r.CPU) / (float64(r.Bytes) / 1e9) })
				return &v
			}
			s.CPUPerGB = part(func(c *CPU) float64 { return c.UserSeconds + c.SystemSeconds })
			s.UserPerGB = part(func(c *CPU) float64 { return c.UserSeconds })
			s.SystemPerGB = part(func(c *CPU) float64 { return c.SystemSeconds })
			if hasAll(base, func(r *Run) bool { return r.CPU != nil }) {
				perGB := func(r *Run) float64 { return r.CPU.PerGB }
				v := Bootstrap(Ratios(each(list, perGB), each(base, perGB)))
				s.CPURatio = &v
			}
		}
		if hasAll(list, func(r *Run) bool { return r.Cache != nil }) {
			v := over(list, func(r *Run) float64 { return float64(r.Cache.EndBytes - r.Cache.StartBytes) })
			s.CacheGrowth = &v
		}
		out.Modes = append(out.Modes, s)
	}
	return out
}

func bandwidth(r *Run) float64 { return r.BytesPerSecond }
func p99(r *Run) float64       { return float64(r.main().P99NS) }

// main is the latency that a run is summed up by: of READs, if there are any.
func (r *Run) main() *Latency {
	if r.Reads.Ops > 0 {
		return &r.Reads.Latency
	}
	return &r.Writes.Latency
}

func each(list []*Run, f func(*Run) float64) []float64 {
	var out []float64
	for _, r := range list {
		out = append(out, f(r))
	}
	return out
}

func over(list []*Run, f func(*Run) float64) Interval { return Bootstrap(each(list, f)) }

func hasAll(list []*Run, has func(*Run) bool) bool {
	return len(list) > 0 && !slices.ContainsFunc(list, func(r *Run) bool { return !has(r) })
}
