// Plan of this file: whole runs against a sluice server in this process. What
// was counted is compared with what was asked for, and with what lies in the
// export.

package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// measure opens, runs once and closes.
func measure(t testing.TB, o Options) (Run, Workload) {
	t.Helper()
	b, err := Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	r, err := b.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	return r, b.Workload()
}

func TestWorkloads(t *testing.T) {
	s := serve(t, open)
	for _, protocol := range []string{"v3", "4.1"} {
		for name, w := range map[string]Workload{
			"large reads":            {BlockSize: 1 << 20, Jobs: 2, DatasetBytes: 4 << 20, Verify: true},
			"large reads, unlooked":  {BlockSize: 256 << 10, Jobs: 2, DatasetBytes: 4 << 20},
			"small reads":            {BlockSize: 4096, Jobs: 3, Depth: 16, DatasetBytes: 3 << 20, Pattern: "random", Verify: true},
			"small reads, unlooked":  {BlockSize: 512, Depth: 64, DatasetBytes: 1 << 20, Pattern: "random", MaxBytes: 1 << 20},
			"odd records":            {BlockSize: 47008, Jobs: 2, FileBytes: 1 << 20, Files: 2, Verify: true},
			"misaligned":             {BlockSize: 64 << 10, Misalignment: 777, DatasetBytes: 2 << 20, Verify: true},
			"jobs that share a file": {BlockSize: 32 << 10, Jobs: 4, Connections: 2, Files: 1, DatasetBytes: 2 << 20, Verify: true},
			"many files":             {BlockSize: 32 << 10, Jobs: 2, Files: 7, DatasetBytes: 2 << 20, Verify: true},
			"writes":                 {Op: "write", BlockSize: 1 << 20, Jobs: 2, DatasetBytes: 4 << 20},
			"stable writes":          {Op: "write", Stable: "file_sync", BlockSize: 8192, Jobs: 2, DatasetBytes: 1 << 20, MaxBytes: 1 << 18},
			"data_sync writes":       {Op: "write", Stable: "data_sync", BlockSize: 5000, Jobs: 1, DatasetBytes: 1 << 20, MaxBytes: 1 << 17},
			"random writes":          {Op: "write", Pattern: "random", BlockSize: 16 << 10, Jobs: 2, DatasetBytes: 1 << 20},
			"mixed":                  {Op: "mixed", ReadPercent: 60, Pattern: "random", BlockSize: 20000, Jobs: 4, DatasetBytes: 4 << 20, Verify: true},
		} {
			t.Run(protocol+" "+name, func(t *testing.T) {
				w.Protocol = protocol
				o := s.options(w)
				o.Threads = 2
				r, w := measure(t, o)
				if r.Errors != 0 || r.Retries != 0 {
					t.Fatalf("%d errors, the first %s; %d retries", r.Errors, r.FirstError, r.Retries)
				}
				want := uint64((w.MaxBytes + int64(w.BlockSize) - 1) / int64(w.BlockSize))
				if r.Ops != want || r.Bytes > want*uint64(w.BlockSize) {
					t.Errorf("%d calls and %d bytes, want %d calls of %d", r.Ops, r.Bytes, want, w.BlockSize)
				}
				if r.Reads.Ops+r.Writes.Ops != r.Ops || r.Reads.Bytes+r.Writes.Bytes != r.Bytes {
					t.Errorf("reads %d and writes %d are not %d", r.Reads.Ops, r.Writes.Ops, r.Ops)
				}
				if (r.Reads.Ops > 0) != (w.ReadPercent > 0) || (r.Writes.Ops > 0) != (w.ReadPercent < 100) {
					t.Errorf("%d reads and %d writes", r.Reads.Ops, r.Writes.Ops)
				}
				checkRun(t, &r)
				if left := s.left(t); len(left) > 0 {
					t.Errorf("left behind: %v", left)
				}
			})
		}
	}
}

// checkRun looks at what must hold in every run.
func checkRun(t *testing.T, r *Run) {
	t.Helper()
	var bytes, ops uint64
	for i, a := range r.Series {
		bytes += a.Bytes
		ops += a.Ops
		if i > 0 && a.AtSeconds < r.Series[i-1].AtSeconds {
			t.Errorf("the series goes back at %d", i)
		}
	}
	if bytes != r.Bytes || ops != r.Ops {
		t.Errorf("the series has %d bytes and %d calls of %d and %d", bytes, ops, r.Bytes, r.Ops)
	}
	for name, side := range map[string]Side{"read": r.Reads, "write": r.Writes} {
		l, sum := side.Latency, uint64(0)
		for i, b := range side.Histogram {
			sum += b.Count
			if b.FromNS >= b.UpToNS || i > 0 && b.FromNS < side.Histogram[i-1].UpToNS {
				t.Errorf("%s: bucket %d is from %d to %d", name, i, b.FromNS, b.UpToNS)
			}
		}
		if sum != side.Ops {
			t.Errorf("%s: the histogram has %d calls of %d", name, sum, side.Ops)
		}
		if side.Ops > 0 && !(0 < l.P50NS && l.P50NS <= l.P99NS && l.P99NS <= l.P999NS && l.P999NS <= l.MaxNS && 0 < l.MeanNS && l.MeanNS <= l.MaxNS) {
			t.Errorf("%s: latencies %+v", name, l)
		}
	}
	if r.Seconds <= 0 || r.BytesPerSecond <= 0 || r.OpsPerSecond <= 0 || r.ClientCPU.Source == "" || r.CommitSeconds < 0 || r.CommitSeconds > r.Seconds {
		t.Errorf("%g s, of which COMMIT %g, %g B/s, client %+v", r.Seconds, r.CommitSeconds, r.BytesPerSecond, r.ClientCPU)
	}
}

// TestWritesArrive: what was written is in the files.
func TestWritesArrive(t *testing.T) {
	s := serve(t, open)
	for _, protocol := range []string{"v3", "4.1"} {
		o := s.options(Workload{Protocol: protocol, Op: "write", BlockSize: 10001, Jobs: 2, Files: 4, FileBytes: 300_000, MaxBytes: 4 * 300_000})
		o.Keep = true
		b, err := Open(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		r, err := b.Run(t.Context())
		if err != nil || r.Errors > 0 {
			t.Fatalf("%v, %s", err, r.FirstError)
		}
		if err := b.Close(); err != nil {
			t.Fatal(err)
		}
		var total int
		for n := range 4 {
			name := filepath.Join(s.dir, FileName(b.Prefix(), n))
			got, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			total += len(got)
			if err := wrongByte(n, 0, got); err != nil {
				t.Errorf("%s: %v", protocol, err)
			}
			os.Remove(name)
		}
		if uint64(total) != r.Bytes {
			t.Errorf("%s: the files have %d bytes, and %d were written", protocol, total, r.Bytes)
		}
	}
}

// existing makes a dataset past the server.
func (s *sluice) existing(t testing.TB, prefix string, files, size int) {
	t.Helper()
	for n := range files {
		if err := os.WriteFile(filepath.Join(s.dir, FileName(prefix, n)), PatternAt(n, 0, size), 0o666); err != nil {
			t.Fatal(err)
		}
	}
}

func TestVerifyFindsAWrongByte(t *testing.T) {
	s := serve(t, open)
	const size = 1 << 20
	s.existing(t, "set-", 2, size)
	name := filepath.Join(s.dir, FileName("set-", 1))
	for _, protocol := range []string{"v3", "4.1"} {
		for _, bs := range []int{4096, 1 << 20} {
			for _, at := range []int64{0, 4097, size / 2, size - 1} {
				f, err := os.OpenFile(name, os.O_RDWR, 0)
				if err != nil {
					t.Fatal(err)
				}
				right := PatternAt(1, at, 1)[0]
				f.WriteAt([]byte{right ^ 1}, at)
				o := s.options(Workload{Protocol: protocol, BlockSize: bs, Jobs: 2, FileBytes: size, Files: 2, MaxBytes: 2 * size, Verify: true})
				o.Existing = "set-"
				r, _ := measure(t, o)
				want := fmt.Sprintf("at byte %d: 0x%02x, want 0x%02x", at, right^1, right)
				if r.Errors != 1 || !strings.Contains(r.FirstError, want) || r.Bytes != 2*size-uint64(bs) {
					t.Errorf("%s, blocks of %d: %d errors, %q, want %q", protocol, bs, r.Errors, r.FirstError, want)
				}
				f.WriteAt([]byte{right}, at)
				f.Close()
			}
		}
	}
	if len(s.left(t)) != 2 {
		t.Errorf("files that were there are gone: %v", s.left(t))
	}
}

func TestTimeEndsARun(t *testing.T) {
	s := serve(t, open)
	for _, op := range []string{"read", "write"} {
		r, _ := measure(t, s.options(Workload{Op: op, Seconds: 0.3, WarmupSeconds: 0.1, DatasetBytes: 8 << 20, Jobs: 2}))
		if r.Errors > 0 || r.Ops == 0 || r.Seconds < 0.2 {
			t.Errorf("%s: %d calls in %g s, %d errors, %s", op, r.Ops, r.Seconds, r.Errors, r.FirstError)
		}
		checkRun(t, &r)
	}
}

func TestAdminSocketIsWatched(t *testing.T) {
	s := serve(t, open)
	o := s.options(Workload{Seconds: 0.7, DatasetBytes: 4 << 20})
	o.Watch.Admin = s.admin
	r, _ := measure(t, o)
	if r.CPU == nil || r.CPU.Source != "admin socket" || r.CPU.PerGB <= 0 || r.Cache == nil || r.Cache.PeakBytes < r.Cache.EndBytes {
		t.Errorf("CPU %+v, cache %+v", r.CPU, r.Cache)
	}
	if len(r.Served) != 1 || r.Served[0].Op != "read" || r.Served[0].Mode != "buffered" || r.Served[0].Calls < r.Ops {
		t.Errorf("served %+v, of %d", r.Served, r.Ops)
	}
	if r.Series[len(r.Series)-1].CacheBytes == nil {
		t.Error("the series has no page cache")
	}
	o = s.options(Workload{DatasetBytes: 4 << 20})
	o.Watch.PIDs = []int{os.Getpid()}
	if r, _ := measure(t, o); r.CPU == nil || !strings.HasPrefix(r.CPU.Source, "process ") || r.Cache == nil {
		t.Errorf("by process: CPU %+v, cache %+v", r.CPU, r.Cache)
	}
}

// TestInterruption: a run that is ended leaves nothing in the export, in
// whatever it is busy with.
func TestInterruption(t *testing.T) {
	s := serve(t, open)
	for _, protocol := range []string{"v3", "4.1"} {
		ctx, cancel := context.WithCancel(t.Context())
		o := s.options(Workload{Protocol: protocol, Seconds: 60, DatasetBytes: 4 << 20, Jobs: 4})
		o.OnProgress = func(p Progress) {
			if p.Step == "running" {
				cancel()
			}
		}
		b, err := Open(ctx, o)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := b.Run(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", protocol, err)
		}
		if _, err := b.Run(t.Context()); err == nil {
			t.Error("the connections were used again")
		}
		if err := b.Close(); err != nil {
			t.Error(err)
		}
		if left := s.left(t); len(left) > 0 {
			t.Errorf("%s: left behind: %v", protocol, left)
		}
		// While it prepares.
		ctx, cancel = context.WithCancel(t.Context())
		o = s.options(Workload{Protocol: protocol, Seconds: 60, Files: 200, DatasetBytes: 1 << 30, Jobs: 1})
		time.AfterFunc(20*time.Millisecond, cancel)
		if _, err := Open(ctx, o); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", protocol, err)
		}
		if left := s.left(t); len(left) > 0 {
			t.Errorf("%s: left behind while preparing: %v", protocol, left)
		}
	}
}
