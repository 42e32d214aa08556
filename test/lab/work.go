// The load: pkg/bench drives the server from outside its cgroup.

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"sluice/pkg/bench"
)

// load is what is asked of a server, or of fio.
type load struct {
	op      string // "read" or "write", which is UNSTABLE and ends with COMMIT
	pattern string // "sequential" or "random"
	jobs    int    // each with a connection and files of its own
	depth   int    // calls in flight of each job
	block   int    // bytes
	seconds float64
	// passes, if not 0, ends the load when it has moved so many times the files' bytes.
	passes float64
	// prime has the server read or write the files once before, in its mode: what can stay in memory does.
	prime bool
}

// filePrefix begins the names of the files of a dataset.
const filePrefix = "f"

// drive puts the load on a server by NFSv3. Calls that failed are an error.
func (l *lab) drive(ctx context.Context, sv *server, set *dataset, w load) (r bench.Run, err error) {
	b, err := bench.Open(ctx, bench.Options{
		Server: host, Port: sv.port, MountPort: sv.port, Path: filepath.Join(set.disk.dir, set.dir), Existing: filePrefix,
		Watch: bench.Watch{Admin: sv.admin},
		Workload: bench.Workload{
			Op: w.op, Pattern: w.pattern, Jobs: w.jobs, Depth: w.depth, BlockSize: w.block,
			Files: len(set.files), FileBytes: set.each, Seconds: w.seconds, MaxBytes: int64(w.passes * float64(set.bytes())),
		},
	})
	if err == nil {
		r, err = b.Run(ctx)
		err = errors.Join(err, b.Close())
	}
	if err == nil && r.Errors > 0 {
		err = fmt.Errorf("%d calls failed: %s", r.Errors, r.FirstError)
	}
	if err == nil && r.Ops == 0 {
		err = errors.New("no call was answered")
	}
	return r, errors.Join(err, sv.alive())
}

// fioNames gives the files the names that fio makes for itself, as further
// links: each of the jobs gets the files that a job of ours has. It returns the
// pattern for fio and the number of files of each job.
func (s *dataset) fioNames(jobs int) (pattern string, each int, err error) {
	name := func(job, n string) string {
		return filepath.Join(s.disk.dir, s.dir, fmt.Sprintf("fio%d.%s.%s", jobs, job, n))
	}
	for i, f := range s.files {
		err := os.Link(f, name(fmt.Sprint(i%jobs), fmt.Sprint(i/jobs)))
		if err != nil && !errors.Is(err, os.ErrExist) {
			return "", 0, err
		}
	}
	return name("$jobnum", "$filenum"), len(s.files) / jobs, nil
}
