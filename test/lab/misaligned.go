// Experiment 4: what does not fit blocks and pages, small random reads, and
// data that is written again and again.

package main

import (
	"context"
	"fmt"
)

var misaligned = experiment{
	name: "misaligned", file: "lab-4-misaligned", title: "Records that fit no page, small random reads, a hot set written again",
	text: `Records of 47,008 bytes begin and end inside pages, as in the IO500's hard workload. Random READs of 4 KiB go over files larger
than memory and over a set of a quarter of it. The hot set is a sixteenth of memory, written in random blocks of 64 KiB; the COMMITs
at the end count. fio does the same with no server between; with O_DIRECT it can't read or write records that aren't aligned.`,
	groups: func(l *lab) (list []*group) {
		const record = 47008
		type workload struct {
			name   string
			set    string
			factor float64
			fios   []setting
			load
		}
		fios := l.fios()
		for _, w := range []workload{
			{"47,008-byte sequential READ, 3.125 times memory", "big", streamFactor, fios[:1], load{op: "read", pattern: "sequential", jobs: 8, depth: 2, block: record}},
			{"47,008-byte sequential WRITE, 3.125 times memory", "big", streamFactor, fios[:1], load{op: "write", pattern: "sequential", jobs: 8, depth: 2, block: record}},
			{"4 KiB random READ, 3.125 times memory", "big", streamFactor, fios, load{op: "read", pattern: "random", jobs: 8, depth: 4, block: 4 << 10}},
			{"4 KiB random READ, a quarter of memory", "quarter", .25, nil, load{op: "read", pattern: "random", jobs: 8, depth: 4, block: 4 << 10, prime: true}},
			{"64 KiB random WRITE, a sixteenth of memory", "sixteenth", 1. / 16, fios, load{op: "write", pattern: "random", jobs: 4, depth: 2, block: 64 << 10}},
		} {
			if l.o.quick {
				w.fios = nil
			}
			w.seconds, w.jobs = l.o.secs, min(w.jobs, l.streamJobs())
			list = append(list, &group{
				Name: fmt.Sprintf("%s, ext4", w.name), settings: append(l.modes(), w.fios...), columns: smallColumns, judged: true,
				measure: func(ctx context.Context, s setting) (x sample, err error) {
					d, err := l.disk("ext4")
					if err != nil {
						return x, err
					}
					set, err := d.dataset(w.set, l.streamJobs(), l.perFile(w.factor))
					if err != nil {
						return x, err
					}
					if s.fio != "" {
						return l.fio(ctx, s.fio == "direct", set, w.load)
					}
					return l.serve(ctx, s, set, w.load)
				},
			})
		}
		return list
	},
}
