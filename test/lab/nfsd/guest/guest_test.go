package main

import (
	"strings"
	"testing"

	"sluice/test/lab/nfsd/job"
)

func TestArguments(t *testing.T) {
	rows, err := job.Pick("create,read1m,write4k41")
	if err != nil {
		t.Fatal(err)
	}
	line := func(server string, r job.Row) string {
		return strings.Join(arguments(server, r, "d1", 1.5), " ") + " "
	}
	for _, c := range []struct {
		server string
		row    job.Row
		want   []string
		not    string
	}{
		{job.Kernel, rows[0], []string{"-port 2049 ", "-mport 13801 ", "-export /data ", "-dir d1 ", "-op create ", "-time 1.5s ", "-pid -1 "}, "-verify"},
		{job.SluiceName, rows[0], []string{"-port 13800 ", "-mport 13800 ", "-export /data ", "-conns 1 -depth 8 "}, "-v41"},
		{job.Kernel, rows[1], []string{"-size 1048576 ", "-verify ", "-file warm "}, "-v41"},
		// The kernel shows the export with fsid=0 as the root, sluice each by its path.
		{job.Kernel, rows[2], []string{"-v41 ", "-export / ", "-file write ", "-verify "}, "/data"},
		{job.SluiceName, rows[2], []string{"-v41 ", "-export /data ", "-port 13800 "}, "-export / "},
	} {
		got := line(c.server, c.row)
		for _, w := range c.want {
			if !strings.Contains(got, w) {
				t.Errorf("%s, %s: %q lacks %q", c.server, c.row.Work, got, w)
			}
		}
		if strings.Contains(got, c.not) {
			t.Errorf("%s, %s: %q has %q", c.server, c.row.Work, got, c.not)
		}
	}
}

func TestVersionWord(t *testing.T) {
	const version = "Linux version 6.1.0 (x@y) (gcc 12) #1 SMP Debian 6.1.2-3 (2026-01-01)"
	if got := field(version, "Debian"); got != "6.1.2-3" {
		t.Errorf("%q", got)
	}
	if got := field(version, "Other"); got != "" {
		t.Errorf("%q", got)
	}
}
