// Plan of this file: the rounds of a row, which alternate the two servers and
// which of them is first, and one run of the load generator.

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"sluice/test/bench/load"
	"sluice/test/lab/nfsd/job"
)

// probe is work that shows that a server answers.
var probe = job.Row{Op: "getattr", Conns: 1, Depth: 1}

// measureRow makes all measurements of a row and reports each.
func (s *servers) measureRow(r job.Row, j *job.Job) error {
	order := []string{job.Kernel, job.SluiceName}
	for _, server := range order { // fill caches
		if _, err := s.call(server, r, .5); err != nil {
			return err
		}
	}
	for round := range j.Rounds {
		for _, server := range order {
			sample, err := s.call(server, r, j.Seconds)
			if err != nil {
				return err
			}
			sample.Row, sample.Round = r.Name, round
			tell(job.Event{Sample: sample})
		}
		slices.Reverse(order)
	}
	return nil
}

// call runs the load generator against a server.
func (s *servers) call(server string, r job.Row, seconds float64) (*job.Sample, error) {
	dir := ""
	if r.Op == "create" {
		// Each run in a new directory, which stays: freeing inodes again would
		// make later creates look for others.
		s.dirs++
		dir = fmt.Sprintf("d%d", s.dirs)
		if err := os.Mkdir(filepath.Join(job.Export, dir), 0o777); err != nil {
			return nil, err
		}
	}
	if r.Op == "create" || r.Op == "write" { // none pays for what the last one left
		if err := syncDisk(); err != nil {
			return nil, err
		}
	}
	before, err := s.ownCPU(server)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Duration(3*seconds*float64(time.Second))+2*time.Minute)
	defer cancel()
	out, err := exec.CommandContext(ctx, job.Load, arguments(server, r, dir, seconds)...).Output()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		return nil, fmt.Errorf("%s: %v: %s", server, err, strings.TrimSpace(string(exit.Stderr)))
	}
	if err != nil {
		return nil, err
	}
	sample := &job.Sample{Server: server}
	if err := json.Unmarshal(out, &sample.Result); err != nil {
		return nil, err
	}
	after, err := s.ownCPU(server)
	if err != nil {
		return nil, err
	}
	sample.OwnCPU = after - before
	return sample, nil
}

// arguments are those of nfsload for a row.
func arguments(server string, r job.Row, dir string, seconds float64) []string {
	port, mport, export := sluicePort, sluicePort, job.Export
	if server == job.Kernel {
		port, mport = kernelPort, mountdPort
		if r.V41 {
			export = "/"
		}
	}
	file := job.Warm
	if r.Op == "write" {
		file = job.Write
	}
	args := []string{"-json", "-addr", "127.0.0.1", "-port", strconv.Itoa(port), "-mport", strconv.Itoa(mport),
		"-export", export, "-dir", dir, "-file", file, "-op", r.Op, "-pid", strconv.Itoa(load.WholeMachine),
		"-conns", strconv.Itoa(r.Conns), "-depth", strconv.Itoa(r.Depth), "-size", strconv.Itoa(max(r.Size, 1)),
		"-time", time.Duration(seconds * float64(time.Second)).String()}
	if r.V41 {
		args = append(args, "-v41")
	}
	if r.Op == "read" || r.Op == "write" {
		args = append(args, "-verify")
	}
	return args
}

func syncDisk() error {
	f, err := os.Open(job.Export)
	if err != nil {
		return err
	}
	defer f.Close()
	return unix.Syncfs(int(f.Fd()))
}
