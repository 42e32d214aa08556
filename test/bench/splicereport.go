// The document of the splice experiment.

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	pkgbench "sluice/pkg/bench"
)

// spliceDoc holds the parts by name.
type spliceDoc map[string]*part

// readSplice reads the document that a run adds to. One that isn't there is empty.
func readSplice(out string) (spliceDoc, error) {
	d := spliceDoc{}
	text, err := os.ReadFile(out + ".json")
	if out == "" || errors.Is(err, fs.ErrNotExist) {
		return d, nil
	}
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(text, &d); err != nil {
		return nil, fmt.Errorf("%s.json: %w; remove it if it is of no use", out, err)
	}
	return d, nil
}

// save writes the document, unless out is empty.
func (d spliceDoc) save(out string) error {
	if out == "" {
		return nil
	}
	text, err := json.MarshalIndent(d, "", "\t")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(out), 0755); err != nil {
		return err
	}
	if err := os.WriteFile(out+".json", append(text, '\n'), 0644); err != nil {
		return err
	}
	return os.WriteFile(out+".md", []byte(d.markdown()), 0644)
}

var headings = map[string]string{
	"size": `## READ by size

Two sluices that differ in splice-min only: one splices every READ, one none. The file is warm; NFSv3 over loopback TCP.
A rate ratio over 1 and a CPU ratio under 1 speak for splice.
`,
	"mixed": `## READ of mixed sizes by threshold

READs of all the sizes above, mixed so that each size moves as many bytes; sluices that splice from different sizes on.
Ratios are to the one that never splices.
`,
	"write": `## WRITE payloads

No server of ours: two small processes (test/bench/payload) with the framing and the head of an NFSv3 WRITE, 8 (or 4 times
4) records in flight over loopback TCP; one moves payloads from its socket to a file, through the page cache. "copy" receives
into one buffer and writes it; "splice" collects a payload in a pipe and gives it to the file in one call; "arrival" gives
the file what has come; "4k" gives it pieces of 4 KiB. "sluice" is a whole server under NFSv3 WRITEs (UNSTABLE) to one file. "Small packets": the loopback device hands over packets of 1,500 bytes,
neither joined nor cut later. In and out are payload bytes per system call on the side of the socket and of the file, calls that
found nothing included; full is how often the pipe was full before a payload was whole.
`,
}

func (d spliceDoc) markdown() string {
	var b strings.Builder
	b.WriteString("# Splice against copy\n\nMade by `make bench-splice`; what follows from it is in decisions " +
		"[0004](../decisions/0004-splice-min.md) (READ) and [0043](../decisions/0043-write-splice.md) (WRITE).\n")
	for _, p := range spliceParts {
		if d[p.name] != nil {
			d[p.name].markdown(&b, p.name)
		}
	}
	return b.String()
}

func (p *part) markdown(b *strings.Builder, name string) {
	m := p.Machine
	fmt.Fprintf(b, "\n%s\n", headings[name])
	fmt.Fprintf(b, "- %s, by `%s`, which took %s\n", p.Date, p.Command, p.Took)
	fmt.Fprintf(b, "- %s, %d cores, %s of memory, shared by both ends; kernel %s (TCP %s), %s; disk: %s\n", m.CPU, m.Cores, m.Memory, m.Kernel, m.TCP, m.System, m.FileSystem)
	fmt.Fprintf(b, "- %s, built with %s\n", m.Sluice, m.Go)
	fmt.Fprintf(b, "- %d blocks of runs of about %g s, each way once in a block, in random order. Rates and CPU (user and system, of the server or sink, seconds for 10^9 bytes) are medians; "+
		"ratios are medians of the blocks' ratios with the bootstrap's 95%% interval.\n", p.Blocks, p.Seconds)
	fmt.Fprintf(b, "- %d blocks were run again since anything else used more than %g of a processor meanwhile, up to %d times; %d were kept though it did.\n\n", p.Repeated, maxOthers, maxTries-1, p.Noisy)
	write := name == "write"
	head := "| file system | work | in flight | size | way | GB/s | CPU s/GB | rate ratio | CPU ratio |"
	if write {
		head += " in | out | full |"
	}
	fmt.Fprintf(b, "%s\n%s|\n", head, strings.Repeat("|---", strings.Count(head, "|")-1))
	for _, c := range p.Matches {
		for k, w := range c.Ways {
			rate, cpu := "", ""
			if k > 0 {
				rate, cpu = interval(w.Rate), interval(w.CPU)
			}
			fmt.Fprintf(b, "| %s | %s | %s | %s | %s | %.2f | %.3f | %s | %s |", c.FS, c.Work, c.Shape, c.size(), w.Way, w.Median.GBPerSec, w.Median.CPUPerGB, rate, cpu)
			if write {
				fmt.Fprintf(b, " %.0f KiB | %.0f KiB | %.2g |", w.Median.InBytes/1024, w.Median.OutBytes/1024, w.Median.Full)
			}
			b.WriteString("\n")
		}
	}
}

func (c *matchResult) size() string {
	if c.Size == 0 {
		return "all"
	}
	return sizeName(c.Size)
}

func (c *matchResult) line() string {
	s := fmt.Sprintf("%s, %s %s, %s:", c.FS, c.Work, c.Shape, c.size())
	for k, w := range c.Ways {
		s += fmt.Sprintf(" %s %.2f GB/s %.3f s/GB", w.Way, w.Median.GBPerSec, w.Median.CPUPerGB)
		if k > 0 {
			s += fmt.Sprintf(" = %s, CPU %s", interval(w.Rate), interval(w.CPU))
		}
		s += fmt.Sprintf(" [others %.2f];", w.Median.Others)
	}
	return s
}

func interval(i *pkgbench.Interval) string {
	return fmt.Sprintf("%.2f (%.2f-%.2f)", i.Median, i.Low, i.High)
}
