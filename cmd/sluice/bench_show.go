// What `sluice bench` prints: progress on standard error while it runs, and the
// report behind it.

package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/mattn/go-isatty"
	"github.com/schollz/progressbar/v3"
	"github.com/urfave/cli/v2"

	"sluice/pkg/bench"
	"sluice/pkg/bench/report"
)

// progress shows how far a benchmark is: a bar on a terminal, else a line for
// each step; nothing with --json.
type progress struct {
	w      io.Writer
	silent bool
	tty    bool

	mu    sync.Mutex
	bar   *progressbar.ProgressBar
	drawn time.Time
	title string // of the step shown last
	run1  string // which run of a comparison it is
}

// redraw is how long a bar stays as it is: files are removed by the thousands.
const redraw = 200 * time.Millisecond

func newProgress(c *cli.Context) *progress {
	f, isFile := c.App.ErrWriter.(*os.File)
	return &progress{w: c.App.ErrWriter, silent: wantsJSON(c), tty: isFile && isatty.IsTerminal(f.Fd())}
}

// step is the callback of bench.Options.
func (p *progress) step(s bench.Progress) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.silent {
		return
	}
	title := s.Step
	if p.run1 != "" && (s.Step == "running" || s.Step == "warming up") {
		title = p.run1 + ": " + s.Step
	}
	if !p.tty {
		if title != p.title {
			fmt.Fprintf(p.w, "%s: %s\n", title, amount(s.Total, s.Unit))
			p.title = title
		}
		return
	}
	if p.bar == nil || title != p.title {
		p.clear()
		p.title, p.drawn = title, time.Time{}
		p.bar = progressbar.NewOptions64(max(s.Total, 1), progressbar.OptionSetWriter(p.w), progressbar.OptionSetWidth(30), progressbar.OptionFullWidth(),
			progressbar.OptionSetPredictTime(true), progressbar.OptionUseANSICodes(true), progressbar.OptionClearOnFinish())
	}
	if now := time.Now(); now.Sub(p.drawn) >= redraw {
		p.drawn = now
	} else {
		return
	}
	text := title
	if s.BytesPerSecond > 0 {
		text += "  " + rate(s.BytesPerSecond)
	}
	p.bar.Describe(text)
	p.bar.Set64(min(s.Done, max(s.Total, 1)-1)) //nolint:errcheck // the bar is not worth an error
}

// run is the callback of bench.CompareOptions.
func (p *progress) run(blocks, modes int) func(mode string, block, order int, r *bench.Run) {
	return func(mode string, block, order int, r *bench.Run) {
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.silent {
			return
		}
		p.run1 = fmt.Sprintf("block %d of %d, run %d of %d, %s", block, blocks, order, modes, mode)
		if r == nil {
			return
		}
		p.clear()
		fmt.Fprintf(p.w, "%s: %s\n", p.run1, rate(r.BytesPerSecond))
		p.run1, p.title = "", p.run1 // its line is there
	}
}

// clear takes the bar away.
func (p *progress) clear() {
	if p.bar != nil {
		p.bar.Clear() //nolint:errcheck // as above
		p.bar = nil
	}
}

func (p *progress) done() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.clear()
}

func amount(n int64, unit string) string {
	switch unit {
	case "time":
		return time.Duration(n).Round(time.Millisecond).String()
	case "files":
		return number(int(n), "file")
	}
	return bench.SizeText(n)
}

// rate writes a bandwidth in decimal units, as disks and networks are sold.
func rate(bytesPerSecond float64) string {
	if bytesPerSecond >= 1e9 {
		return fmt.Sprintf("%.2f GB/s", bytesPerSecond/1e9)
	}
	return fmt.Sprintf("%.1f MB/s", bytesPerSecond/1e6)
}

// figure is a rate without its unit, in the one that rate has for like.
func figure(bytesPerSecond, like float64) string {
	if like >= 1e9 {
		return fmt.Sprintf("%.2f", bytesPerSecond/1e9)
	}
	return fmt.Sprintf("%.1f", bytesPerSecond/1e6)
}

func nanoseconds(ns float64) string {
	switch {
	case ns >= 1e9:
		return fmt.Sprintf("%.2f s", ns/1e9)
	case ns >= 1e6:
		return fmt.Sprintf("%.2f ms", ns/1e6)
	}
	return fmt.Sprintf("%.1f us", ns/1e3)
}

func printReport(w io.Writer, r *bench.Report) {
	l := &r.Workload
	fmt.Fprintf(w, "%s of %s", strings.ToUpper(l.Op), r.Server)
	if r.ServerKind != "" {
		fmt.Fprintf(w, " (%s)", r.ServerKind)
	}
	fmt.Fprintf(w, " by %s: %s x %s of %s, %s", l.Protocol, number(l.Jobs, "job"), number(l.Depth, "call"), bench.SizeText(int64(l.BlockSize)), l.Pattern)
	if l.Op == "mixed" {
		fmt.Fprintf(w, ", %d%% READs", l.ReadPercent)
	}
	if l.Stable != "" {
		fmt.Fprintf(w, ", %s", l.Stable)
	}
	fmt.Fprintf(w, "\ndataset: %s in %s, over %s\n\n", bench.SizeText(l.DatasetBytes), number(l.Files, "file"), number(l.Connections, "connection"))
	if r.Comparison != nil {
		table(w, func(w io.Writer) { printComparison(w, r.Comparison) })
	} else if len(r.Runs) == 1 {
		printRun(w, &r.Runs[0])
	}
	for _, note := range r.Notes {
		fmt.Fprintf(w, "note: %s\n", note)
	}
}

func printRun(out io.Writer, r *bench.Run) {
	table(out, func(w io.Writer) {
		fmt.Fprintf(w, "bandwidth\t%s, %.0f calls/s, %.1f s\n", rate(r.BytesPerSecond), r.OpsPerSecond, r.Seconds)
		if r.CommitSeconds > 0 {
			fmt.Fprintf(w, "COMMIT\t%.2f s of it\n", r.CommitSeconds)
		}
		if r.CPU != nil {
			fmt.Fprintf(w, "server CPU\t%.3f s/GB: %.2f s user, %.2f s system\n", r.CPU.PerGB, r.CPU.UserSeconds, r.CPU.SystemSeconds)
		}
		fmt.Fprintf(w, "own CPU\t%.3f s/GB: %.2f s user, %.2f s system\n", r.ClientCPU.PerGB, r.ClientCPU.UserSeconds, r.ClientCPU.SystemSeconds)
		if r.Cache != nil {
			fmt.Fprintf(w, "page cache\t%+.1f MiB, to %s (%s)\n", float64(r.Cache.EndBytes-r.Cache.StartBytes)/(1<<20), bytesText(float64(r.Cache.EndBytes)), r.Cache.Source)
		}
		for _, s := range r.Served {
			fmt.Fprintf(w, "served %s\t%s\n", s.Mode, number(int(s.Calls), strings.ToUpper(s.Op)))
		}
		if r.Retries > 0 {
			fmt.Fprintf(w, "sent again\t%s that the server put off\n", number(int(r.Retries), "call"))
		}
		if r.Errors > 0 {
			fmt.Fprintf(w, "failed\t%s\n", number(int(r.Errors), "call"))
		}
	})
	fmt.Fprintln(out)
	table(out, func(w io.Writer) {
		fmt.Fprintln(w, "\tCALLS\tMEAN\tP50\tP99\tP99.9\tMAX")
		for i, side := range []*bench.Side{&r.Reads, &r.Writes} {
			if side.Ops == 0 {
				continue
			}
			fmt.Fprintf(w, "%s\t%d", []string{"READ", "WRITE"}[i], side.Ops)
			for _, ns := range []int64{side.Latency.MeanNS, side.Latency.P50NS, side.Latency.P99NS, side.Latency.P999NS, side.Latency.MaxNS} {
				fmt.Fprintf(w, "\t%s", nanoseconds(float64(ns)))
			}
			fmt.Fprintln(w)
		}
	})
}

func printComparison(w io.Writer, c *bench.Comparison) {
	fmt.Fprintln(w, "MODE\tRUNS\tBANDWIDTH\t95%\tRATIO\t95%\tP50\tP99\tP99.9\tMAX\tCPU S/GB\tCACHE\tFAILED")
	for _, m := range c.Modes {
		cpu, cache := "", ""
		if m.CPUPerGB != nil {
			cpu = fmt.Sprintf("%.3f", m.CPUPerGB.Median)
		}
		if m.CacheGrowth != nil {
			cache = fmt.Sprintf("%+.0f MiB", m.CacheGrowth.Median/(1<<20))
		}
		if m.Runs == 0 { // it ended before: there is nothing to say of this mode
			fmt.Fprintf(w, "%s\t0%s\t%d\n", m.Mode, strings.Repeat("\t-", 10), m.Errors)
			continue
		}
		b, ratio := m.BytesPerSecond, m.BandwidthRatio
		fmt.Fprintf(w, "%s\t%d\t%s\t%s-%s\t%.2f\t%.2f-%.2f\t%s\t%s\t%s\t%s\t%s\t%s\t%d\n", m.Mode, m.Runs,
			rate(b.Median), figure(b.Low, b.Median), figure(b.High, b.Median), ratio.Median, ratio.Low, ratio.High,
			nanoseconds(m.P50NS.Median), nanoseconds(m.P99NS.Median), nanoseconds(m.P999NS.Median), nanoseconds(m.MaxNS.Median), cpu, cache, m.Errors)
	}
}

// writeHTML writes the report with charts. A file that could not be written
// whole is not left there.
func writeHTML(name string, r *bench.Report) error {
	f, err := os.Create(name)
	if err != nil {
		return fmt.Errorf("--html: %w", err)
	}
	err = report.Write(f, r)
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		os.Remove(name)
		return fmt.Errorf("--html %s: %w", name, err)
	}
	return nil
}
