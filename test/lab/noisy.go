// Experiment 2: a reader of small blocks that wants short latencies, beside a
// stream of WRITEs.

package main

import (
	"context"
	"errors"
	"fmt"

	"sluice/pkg/bench"
)

var noisy = experiment{
	name: "noisy", file: "lab-2-noisy", title: "A streaming writer beside a reader that wants short latencies",
	text: `One job reads random blocks of 4 KiB, one at a time, from a file of an eighth of the server's memory, which was read once
through the server before. At the same time 4 jobs, 4 calls in flight each, write 1 MiB UNSTABLE through files of 3.125 times memory.
Latencies are the reader's. The first row has no writer.`,
	groups: func(l *lab) []*group {
		settings := []setting{
			{name: "no writer; buffered", read: "buffered", write: "buffered", alone: true},
			{name: "read buffered, write buffered", read: "buffered", write: "buffered"},
			{name: "read buffered, write dontcache", read: "buffered", write: "dontcache"},
			{name: "read buffered, write direct", read: "buffered", write: "direct"},
			{name: "read dontcache, write dontcache", read: "dontcache", write: "dontcache"},
			{name: "read direct, write direct", read: "direct", write: "direct"},
			{name: "read auto, write auto", read: auto, write: auto},
		}
		if l.o.quick {
			settings = []setting{settings[1], settings[3]}
		}
		return []*group{{Name: "4 KiB random READ beside 1 MiB WRITE, ext4", settings: settings, columns: noisyColumns, measure: l.noisyOnce}}
	},
}

func (l *lab) noisyOnce(ctx context.Context, s setting) (x sample, err error) {
	d, err := l.disk("ext4")
	if err != nil {
		return x, err
	}
	hot, err := d.dataset("hot", 1, l.o.memory/8)
	if err != nil {
		return x, err
	}
	big, err := l.bigSet(d)
	if err != nil {
		return x, err
	}
	if err := l.cool(); err != nil {
		return x, err
	}
	sv, err := l.start(ctx, d, s.read, s.write)
	if err != nil {
		return x, err
	}
	defer func() { err = errors.Join(err, sv.stop()) }()
	if _, err := l.drive(ctx, sv, hot, load{op: "read", pattern: "sequential", jobs: 1, depth: 2, block: 1 << 20, seconds: 60, passes: 1}); err != nil {
		return x, fmt.Errorf("reading the hot file once: %w", err)
	}
	type result struct {
		run bench.Run
		err error
	}
	writer := make(chan result, 1)
	if !s.alone {
		w := load{op: "write", pattern: "sequential", jobs: min(4, l.streamJobs()), depth: 4, block: 1 << 20, seconds: l.o.warmup() + l.o.secs + .2}
		go func() {
			r, err := l.drive(ctx, sv, big, w)
			writer <- result{r, err}
		}()
	}
	// The writer has filled the memory when the reader is measured, and goes on until after it.
	reader := load{op: "read", pattern: "random", jobs: 1, depth: 1, block: 4 << 10, seconds: l.o.warmup()}
	if _, err := l.drive(ctx, sv, hot, reader); err != nil {
		return x, err
	}
	reader.seconds = l.o.secs
	x.Use, err = l.watch(sv.pid(), d, func() (err error) {
		x.Run, err = l.drive(ctx, sv, hot, reader)
		return err
	})
	if err != nil {
		return x, err
	}
	if x.Resident, err = hot.cached(); err != nil {
		return x, err
	}
	if !s.alone {
		r := <-writer
		if r.err != nil {
			return x, fmt.Errorf("the writer: %w", r.err)
		}
		x.Beside = &r.run
	}
	return x, sv.alive()
}
