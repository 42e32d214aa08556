// Experiment 1: a stream through files larger than memory.

package main

import (
	"context"
	"fmt"
)

var stream = experiment{
	name: "stream", file: "lab-1-stream", title: "Streams larger and smaller than the server's memory",
	text: `32 jobs go sequentially through a file each, calls of 1 MiB, 2 in flight, and begin anew at its end. Together the files
have 3.125 times the memory of the server; in the control 0.81 times. The same is asked of fio (libaio) in the same cgroup, with no server
between. WRITEs are UNSTABLE and overwrite; the time of the COMMITs at the end counts.`,
	groups: func(l *lab) (list []*group) {
		disks := []string{"ext4", "xfs"}
		if l.o.quick {
			disks = []string{"xfs"}
		}
		for _, fs := range disks {
			for _, op := range []string{"read", "write"} {
				list = append(list, l.streamGroup(fs, op, "big", streamFactor, l.fios()))
			}
		}
		if !l.o.quick {
			for _, op := range []string{"read", "write"} {
				list = append(list, l.streamGroup("ext4", op, "control", controlFactor, nil))
			}
		}
		return list
	},
}

const (
	streamFactor  = 3.125
	controlFactor = 0.81
)

// streamJobs is the number of jobs, and of files.
func (l *lab) streamJobs() int {
	if l.o.quick {
		return 4
	}
	return 32
}

// bigSet is the dataset of 3.125 times the memory, shared by experiments.
func (l *lab) bigSet(d *disk) (*dataset, error) {
	return d.dataset("big", l.streamJobs(), l.perFile(streamFactor))
}

// perFile is the size of each file of a dataset of that multiple of memory.
func (l *lab) perFile(factor float64) int64 {
	return max(int64(float64(l.o.memory)*factor)/int64(l.streamJobs()), fillPiece)
}

func (l *lab) streamGroup(fs, op, set string, factor float64, more []setting) *group {
	w := load{op: op, pattern: "sequential", jobs: l.streamJobs(), depth: 2, block: 1 << 20, seconds: l.o.secs, prime: factor < 1}
	return &group{
		Name:     fmt.Sprintf("%s, %g times memory, %s", opName(op), factor, fs),
		settings: append(l.modes(), more...), columns: streamColumns, judged: true,
		measure: func(ctx context.Context, s setting) (x sample, err error) {
			d, err := l.disk(fs)
			if err != nil {
				return x, err
			}
			files, err := d.dataset(set, l.streamJobs(), l.perFile(factor))
			if err != nil {
				return x, err
			}
			if s.fio != "" {
				return l.fio(ctx, s.fio == "direct", files, w)
			}
			return l.serve(ctx, s, files, w)
		},
	}
}

func opName(op string) string { return map[string]string{"read": "READ", "write": "WRITE"}[op] }
