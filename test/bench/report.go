// Printing a run: text, markdown, JSON.

package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

type document struct {
	Date    string    `json:"date"`
	Command string    `json:"command"`
	Took    string    `json:"took"`
	Rounds  int       `json:"rounds"`
	Seconds float64   `json:"seconds_each"`
	Machine machine   `json:"machine"`
	Rows    []outcome `json:"rows"`
}

func (b *bench) report(took time.Duration) error {
	d := document{
		Date: time.Now().UTC().Format("2006-01-02"), Took: took.Round(time.Second).String(),
		Rounds: b.o.rounds, Seconds: b.o.secs, Machine: describe(b.o), Rows: b.outcomes,
		Command: fmt.Sprintf("make bench ROWS=%s ROUNDS=%d SECS=%g", b.o.rows, b.o.rounds, b.o.secs),
	}
	fmt.Print(d.markdown())
	if b.o.out == "" {
		return nil
	}
	text, err := json.MarshalIndent(d, "", "\t")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(b.o.out), 0755); err != nil {
		return err
	}
	if err := os.WriteFile(b.o.out+".json", append(text, '\n'), 0644); err != nil {
		return err
	}
	return os.WriteFile(b.o.out+".md", []byte(d.markdown()), 0644)
}

func (d document) markdown() string {
	var b strings.Builder
	m := d.Machine
	fmt.Fprintf(&b, "# sluice beside nfs-ganesha, %s\n\n", d.Date)
	fmt.Fprintf(&b, "Made by `%s`, which took %s. All traffic is over loopback TCP, NFSv3 where a row does not say 4.1.\n\n", d.Command, d.Took)
	fmt.Fprintf(&b, "- Machine: %s, %d cores, %s of memory; client and servers share the cores\n", m.CPU, m.Cores, m.Memory)
	fmt.Fprintf(&b, "- Kernel %s (TCP %s), %s; file system %s\n", m.Kernel, m.TCP, m.System, m.FileSystem)
	fmt.Fprintf(&b, "- Servers: %s; %s, built with %s; %s\n", m.Ganesha, m.Sluice, m.Go, m.Fio)
	fmt.Fprintf(&b, "- %d rounds of %g s for each server, alternating. Rates and CPU are medians; a ratio is the median of the rounds' ratios, with the least and the greatest.\n", d.Rounds, d.Seconds)
	fmt.Fprintf(&b, "- CPU is the server's, user and system, from /proc: microseconds for a call, seconds for 10^9 bytes. \"CPU 50%%\" in a ratio: half of ganesha's for the same work.\n\n")
	b.WriteString("| work | ganesha | sluice | ratio | wanted | reached |\n|---|---|---|---|---|---|\n")
	var notes []string
	for _, o := range d.Rows {
		work := o.Work
		for _, n := range o.Notes {
			notes = append(notes, n)
			work += fmt.Sprintf(" [%d]", len(notes))
		}
		cells := []string{work, o.Ganesha, o.Sluice, o.Ratio, o.Wanted, o.Reached}
		for i, c := range cells {
			cells[i] = strings.ReplaceAll(c, "|", "\\|")
		}
		fmt.Fprintf(&b, "| %s |\n", strings.Join(cells, " | "))
	}
	if len(notes) > 0 {
		b.WriteString("\n")
	}
	for i, n := range notes {
		fmt.Fprintf(&b, "%s[%d] %s\n", map[bool]string{true: "\n"}[i > 0], i+1, strings.ReplaceAll(n, "\n", " "))
	}
	return b.String()
}
