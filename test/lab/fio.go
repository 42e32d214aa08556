// fio does the same work without a server: what the disk gives.

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"time"

	"sluice/pkg/bench"
	"sluice/test/measure"
)

// fioSide is one direction of fio's report; times are in nanoseconds.
type fioSide struct {
	Bytes     uint64  `json:"io_bytes"`
	Ops       uint64  `json:"total_ios"`
	RuntimeMS float64 `json:"runtime"`
	Latency   struct {
		Mean       float64          `json:"mean"`
		Max        int64            `json:"max"`
		Percentile map[string]int64 `json:"percentile"`
	} `json:"lat_ns"`
}

// fio measures the load in the server's cgroup, with O_DIRECT or without. What
// it wrote is synced within its time, as a COMMIT of the server's would be.
func (l *lab) fio(ctx context.Context, direct bool, set *dataset, w load) (x sample, err error) {
	if err := l.cool(); err != nil {
		return x, err
	}
	names, each, err := set.fioNames(w.jobs)
	if err != nil {
		return x, err
	}
	rw := map[string]string{"sequential": "", "random": "rand"}[w.pattern] + w.op
	argv := []string{"fio", "--name=disk", "--thread", "--output-format=json", "--group_reporting", "--time_based",
		"--filename_format=" + names, fmt.Sprintf("--nrfiles=%d", each), "--file_service_type=" + map[bool]string{true: "random", false: "sequential"}[w.pattern == "random"],
		"--rw=" + rw, fmt.Sprintf("--bs=%d", w.block), fmt.Sprintf("--filesize=%d", set.each/int64(w.block)*int64(w.block)),
		fmt.Sprintf("--numjobs=%d", w.jobs), "--ioengine=libaio", fmt.Sprintf("--iodepth=%d", w.depth),
		fmt.Sprintf("--direct=%d", map[bool]int{true: 1}[direct]), "--allow_file_create=0", "--norandommap", "--randrepeat=0",
		fmt.Sprintf("--runtime=%dms", int(w.seconds*1e3)), fmt.Sprintf("--ramp_time=%dms", int(l.o.warmup()*1e3)),
		"--lat_percentiles=1", "--clat_percentiles=0", "--percentile_list=50:99:99.9"}
	argv = l.cgroup.Command(argv)
	ctx, cancel := context.WithTimeout(ctx, time.Duration(w.seconds*float64(time.Second))+2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	var out []byte
	var synced time.Duration
	x.Use, err = l.watch(0, set.disk, func() (err error) {
		if out, err = cmd.Output(); err != nil {
			return fmt.Errorf("fio: %w: %s", err, out)
		}
		start := time.Now()
		err = set.disk.settle()
		synced = time.Since(start)
		return err
	})
	if err != nil {
		return x, err
	}
	used := measure.CPU{User: cmd.ProcessState.UserTime().Seconds(), System: cmd.ProcessState.SystemTime().Seconds()}
	if x.Run, err = fioRun(out, w.op, synced); err != nil {
		return x, err
	}
	// fio's time is that of its ramp too: what counts is a share of it.
	share := x.Run.Seconds / (x.Run.Seconds + l.o.warmup())
	x.Use.Server = measure.CPU{User: used.User * share, System: used.System * share}
	x.Use.Other = max(0, x.Use.Other-used.Total()) * share
	x.Use.DiskRead, x.Use.DiskWritten = int64(float64(x.Use.DiskRead)*share), int64(float64(x.Use.DiskWritten)*share)
	x.Use.Seconds = x.Run.Seconds
	x.Resident, err = set.cached()
	return x, err
}

// fioRun puts fio's report into the form of our own.
func fioRun(out []byte, op string, synced time.Duration) (r bench.Run, err error) {
	var report struct {
		Jobs []struct {
			Error int     `json:"error"`
			Read  fioSide `json:"read"`
			Write fioSide `json:"write"`
		} `json:"jobs"`
	}
	if err := json.Unmarshal(out, &report); err != nil {
		return r, fmt.Errorf("fio's report: %w", err)
	}
	if len(report.Jobs) != 1 {
		return r, fmt.Errorf("fio's report has %d groups of jobs, want 1", len(report.Jobs))
	}
	j := report.Jobs[0]
	f, side := j.Read, &r.Reads
	if op == "write" {
		f, side = j.Write, &r.Writes
		r.CommitSeconds = synced.Seconds()
	}
	if j.Error != 0 || f.Bytes == 0 || f.RuntimeMS <= 0 {
		return r, fmt.Errorf("fio did nothing: error %d, %d bytes in %g ms", j.Error, f.Bytes, f.RuntimeMS)
	}
	r.Seconds = f.RuntimeMS/1e3 + r.CommitSeconds
	r.Ops, r.Bytes = f.Ops, f.Bytes
	r.BytesPerSecond, r.OpsPerSecond = float64(r.Bytes)/r.Seconds, float64(r.Ops)/r.Seconds
	side.Ops, side.Bytes = f.Ops, f.Bytes
	side.Latency = bench.Latency{
		MeanNS: int64(f.Latency.Mean), MaxNS: f.Latency.Max, P50NS: f.Latency.Percentile["50.000000"],
		P99NS: f.Latency.Percentile["99.000000"], P999NS: f.Latency.Percentile["99.900000"],
	}
	return r, nil
}
