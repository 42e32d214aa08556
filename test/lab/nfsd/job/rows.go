package job

import (
	"fmt"
	"strings"
)

// Rows returns all rows in the order of the table.
func Rows() []Row {
	const kib, mib = 1 << 10, 1 << 20
	rows := []Row{
		{Name: "getattr16", Work: "GETATTR, 1x16", Op: "getattr", Conns: 1, Depth: 16},
		{Name: "getattr64", Work: "GETATTR, 8x8", Op: "getattr", Conns: 8, Depth: 8},
		{Name: "lookup64", Work: "LOOKUP, 8x8", Op: "lookup", Conns: 8, Depth: 8},
		{Name: "read4k", Work: "READ 4 KiB, 1x8", Op: "read", Size: 4 * kib, Conns: 1, Depth: 8},
		{Name: "read64k", Work: "READ 64 KiB, 1x8", Op: "read", Size: 64 * kib, Conns: 1, Depth: 8},
		{Name: "read1m", Work: "READ 1 MiB, 1x8", Op: "read", Size: mib, Conns: 1, Depth: 8},
		{Name: "read1m44", Work: "READ 1 MiB, 4x4", Op: "read", Size: mib, Conns: 4, Depth: 4},
		{Name: "write4k", Work: "WRITE 4 KiB UNSTABLE, 1x8", Op: "write", Size: 4 * kib, Conns: 1, Depth: 8},
		{Name: "write1m", Work: "WRITE 1 MiB UNSTABLE, 1x8", Op: "write", Size: mib, Conns: 1, Depth: 8},
		{Name: "create", Work: "CREATE, export sync, 1x8", Op: "create", Conns: 1, Depth: 8},
	}
	for _, r := range []Row{
		{Name: "getattr41", Work: "GETATTR, 1x8", Op: "getattr"},
		{Name: "read4k41", Work: "READ 4 KiB, 1x8", Op: "read", Size: 4 * kib},
		{Name: "read1m41", Work: "READ 1 MiB, 1x8", Op: "read", Size: mib},
		{Name: "write4k41", Work: "WRITE 4 KiB UNSTABLE, 1x8", Op: "write", Size: 4 * kib},
	} {
		r.V41, r.Work, r.Conns, r.Depth = true, "4.1 "+r.Work, 1, 8
		rows = append(rows, r)
	}
	return rows
}

// Pick returns the rows with the given names, comma separated; "all" is all.
func Pick(names string) ([]Row, error) {
	all := Rows()
	if names == "all" {
		return all, nil
	}
	var picked []Row
next:
	for name := range strings.SplitSeq(names, ",") {
		for _, r := range all {
			if r.Name == name {
				picked = append(picked, r)
				continue next
			}
		}
		return nil, fmt.Errorf("no row %q; -list names them", name)
	}
	return picked, nil
}
