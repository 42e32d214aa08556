// The tables of docs/choosing-a-mode.md: extracts of the experiments' results.

package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// pageCommand is this program's first argument when it is to write the tables
// into the page, and behind it the directory docs.
const pageCommand = "page"

// The tables stand in the page between these lines.
const (
	tableBegin = "<!-- lab table: "
	tableEnd   = "<!-- end of lab table -->"
)

// extract is one table of the page.
type extract struct {
	name    string // as the page's line has it
	file    string // of the results
	first   string // heading of the first column, which has a group's name
	groups  func(name string) bool
	label   func(name string) string
	columns []column
}

func all(string) bool         { return true }
func same(name string) string { return strings.TrimSuffix(name, ", ext4") }
func starts(p string) func(string) bool {
	return func(name string) bool { return strings.HasPrefix(name, p) }
}

// lastPart is what stands behind the last comma of a group's name.
func lastPart(name string) string { return name[strings.LastIndex(name, ", ")+2:] }

// Rate and CPU have their intervals on the page, for its claims rest on those.
var (
	p50, p99, p999 = latencies[1], latencies[2], latencies[3]
	serverCPU      = withInterval("server CPU, s/GB", 1/gb, perByte)
)

var streamExtract = []column{withInterval("GB/s", gb, rate), p99, largest, serverCPU,
	medianOf("other CPU, s/GB", 1/gb, otherByte), medianOf("page cache, MiB", mib, cachePeak), {"limited by", limit}}

var extracts = []extract{
	{"stream-read", stream.file, "file system", starts("READ, 3.125"), lastPart, streamExtract},
	{"stream-write", stream.file, "file system", starts("WRITE, 3.125"), lastPart, streamExtract},
	{"control", stream.file, "stream", func(name string) bool { return strings.Contains(name, " 0.81 ") },
		func(name string) string { return name[:strings.Index(name, ",")] }, streamExtract},
	{"noisy", noisy.file, "", all, nil, []column{withInterval("READs/s", 1, calls), p50, p99, p999, largest, noisyColumns[6], noisyColumns[8]}},
	{"neighbour", neighbour.file, "files and stream", all, same, []column{neighbourColumns[0], neighbourColumns[1], neighbourColumns[2],
		withInterval("stream, GB/s", gb, rate), serverCPU}},
	{"misaligned", misaligned.file, "work", all, same, []column{withInterval("MB/s", 1e6, rate), p50, p99, serverCPU,
		medianOf("disk, bytes per byte", 1, diskByte), {"limited by", limit}}},
}

// table makes an extract's table of the results.
func (e extract) table(groups []*group) string {
	var b strings.Builder
	heads := []string{"mode"}
	if e.first != "" {
		heads = []string{e.first, "mode"}
	}
	for _, c := range e.columns {
		heads = append(heads, c.head)
	}
	fmt.Fprintf(&b, "| %s |\n%s|\n", strings.Join(heads, " | "), strings.Repeat("|---", len(heads)))
	for _, g := range groups {
		if !e.groups(g.Name) {
			continue
		}
		for _, r := range g.Rows {
			cells := []string{r.Setting}
			if e.first != "" {
				cells = []string{e.label(g.Name), r.Setting}
			}
			for _, c := range e.columns {
				cells = append(cells, c.cell(g, r))
			}
			fmt.Fprintf(&b, "| %s |\n", strings.Join(cells, " | "))
		}
	}
	return b.String()
}

// verdicts is the table of how auto stands beside the fixed modes.
func verdicts(groups []*group) string {
	var b strings.Builder
	b.WriteString("| work | fastest fixed mode | `auto`'s rate to it | `auto`'s CPU to it | least CPU | `auto`'s CPU to it | `auto` and the fastest |\n|---|---|---|---|---|---|---|\n")
	for _, g := range groups {
		v, ok := g.verdict()
		if !ok {
			continue
		}
		judge := v.judge
		if v.slowest {
			judge += "; the slowest"
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %s | %s |\n", g.Name, v.fastest, span(v.rate), span(v.cpu), v.thriftiest, span(v.least), judge)
	}
	return b.String()
}

// page puts the tables of the results in docs/benchmarks into the text of the page.
func page(docs, text string) (string, error) {
	results := map[string][]*group{}
	for _, e := range experiments {
		js, err := os.ReadFile(filepath.Join(docs, "benchmarks", e.file+".json"))
		if err != nil {
			return "", fmt.Errorf("%w; make lab-%s writes it", err, e.name)
		}
		var d document
		if err := json.Unmarshal(js, &d); err != nil {
			return "", fmt.Errorf("%s.json: %w", e.file, err)
		}
		results[e.file] = d.Groups
	}
	var out []string
	lines := strings.Split(text, "\n")
	for i := 0; i < len(lines); i++ {
		out = append(out, lines[i])
		name, ok := strings.CutPrefix(lines[i], tableBegin)
		if !ok {
			continue
		}
		name = strings.TrimSuffix(name, " -->")
		n := slices.Index(lines[i:], tableEnd)
		if n < 0 {
			return "", fmt.Errorf("line %d: the table %s does not end", i+1, name)
		}
		var table string
		k := slices.IndexFunc(extracts, func(e extract) bool { return e.name == name })
		switch {
		case k >= 0:
			table = extracts[k].table(results[extracts[k].file])
		case name == "auto":
			table = verdicts(slices.Concat(results[stream.file], results[misaligned.file]))
		default:
			return "", fmt.Errorf("line %d: there is no table %q", i+1, name)
		}
		out = append(out, strings.TrimSuffix(table, "\n"), tableEnd)
		i += n
	}
	return strings.Join(out, "\n"), nil
}

// pageName is the page, below docs.
const pageName = "choosing-a-mode.md"

func pageMain(args []string) error {
	if len(args) != 1 {
		return fmt.Errorf("usage: lab %s DOCS, the directory that has %s and benchmarks/", pageCommand, pageName)
	}
	path := filepath.Join(args[0], pageName)
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	made, err := page(args[0], string(text))
	if err != nil {
		return err
	}
	return os.WriteFile(path, []byte(made), 0644)
}
