// What an experiment writes: text, markdown, JSON.

package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"sluice/test/measure"
)

// document is the JSON of an experiment.
type document struct {
	Format      int               `json:"format"`
	Experiment  string            `json:"experiment"`
	Date        string            `json:"date"`
	Command     string            `json:"command"`
	Took        string            `json:"took"`
	Blocks      int               `json:"blocks"`
	Seconds     float64           `json:"seconds_each"`
	Memory      int64             `json:"server_memory_bytes"`
	Cgroup      int               `json:"cgroup_version"`
	Machine     measure.Machine   `json:"machine"`
	FileSystems map[string]string `json:"file_systems"`
	Groups      []*group          `json:"groups"`
	experiment  experiment
}

func (l *lab) report(e experiment, groups []*group, took time.Duration) error {
	d := document{
		Format: 1, Experiment: e.name, Date: time.Now().UTC().Format("2006-01-02"), Took: took.Round(time.Second).String(),
		Command: fmt.Sprintf("make lab-%s ROUNDS=%d SECS=%g MEMORY=%d", e.name, l.o.rounds, l.o.secs, l.o.memory>>20),
		Blocks:  l.o.rounds, Seconds: l.o.secs, Memory: l.o.memory, Cgroup: l.cgroup.Version(),
		Machine: measure.Describe(l.o.sluice), FileSystems: map[string]string{}, Groups: groups, experiment: e,
	}
	for name, disk := range l.disks {
		d.FileSystems[name] = disk.what
	}
	text := d.markdown()
	fmt.Print(text)
	js, err := json.Marshal(d)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(l.o.out, 0755); err != nil {
		return err
	}
	path := filepath.Join(l.o.out, e.file)
	if err := os.WriteFile(path+".json", append(js, '\n'), 0644); err != nil {
		return err
	}
	return os.WriteFile(path+".md", []byte(text), 0644)
}

func (d document) markdown() string {
	var b strings.Builder
	m := d.Machine
	fmt.Fprintf(&b, "# %s, %s\n\n%s\n\n", d.experiment.title, d.Date, d.experiment.text)
	fmt.Fprintf(&b, "Made by `%s`, which took %s. What follows from it is in [choosing a mode](../choosing-a-mode.md).\n\n", d.Command, d.Took)
	fmt.Fprintf(&b, "- Machine: %s, %d cores, %s of memory; client and server share the cores\n", m.CPU, m.Cores, m.Memory)
	fmt.Fprintf(&b, "- Server's memory: %d MiB, a cgroup of version %d\n", d.Memory>>20, d.Cgroup)
	for _, name := range sortedKeys(d.FileSystems) {
		fmt.Fprintf(&b, "- %s: %s\n", name, d.FileSystems[name])
	}
	fmt.Fprintf(&b, "- Kernel %s, %s; %s, built with %s; %s; NFSv3 over loopback TCP (%s)\n", m.Kernel, m.System, m.Sluice, m.Go, m.Fio, m.TCP)
	fmt.Fprintf(&b, "- %d blocks; each has every row once, for %g s or as the row says, with a server and cold files of its own, in balanced order. Figures are medians over the blocks, with the 95%% interval of the median by bootstrap; no run is left out\n", d.Blocks, d.Seconds)
	fmt.Fprintf(&b, "- Server CPU is the server process's (fio's in its rows) from /proc; other CPU is the rest but the client's: the kernel's threads and interrupts, and whatever else runs. A GB has 10^9 bytes\n")
	for _, g := range d.Groups {
		fmt.Fprintf(&b, "\n## %s\n\n| mode |", g.Name)
		for _, c := range g.columns {
			fmt.Fprintf(&b, " %s |", c.head)
		}
		b.WriteString("\n|---|" + strings.Repeat("---|", len(g.columns)) + "\n")
		for _, r := range g.Rows {
			fmt.Fprintf(&b, "| %s |", r.Setting)
			for _, c := range g.columns {
				fmt.Fprintf(&b, " %s |", c.cell(g, r))
			}
			b.WriteString("\n")
		}
		if text := g.verdictText(); g.judged && text != "" {
			fmt.Fprintf(&b, "\n%s\n", text)
		}
	}
	return b.String()
}

func sortedKeys(m map[string]string) []string {
	var keys []string
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
