// Rows that are not ratios of rates to ganesha's.

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"sluice/test/bench/load"
	"sluice/test/bench/slowfs"
	"sluice/test/measure"
)

// syncCalls are the system calls that put a name on stable storage.
var syncCalls = []string{"fsync", "fdatasync", "syncfs", "sync_file_range"}

// createSync measures creates that are durable before they are answered, at
// three numbers in flight: group commit makes the rate grow. That they are
// durable shows in the system calls of a short run apart from the timed ones.
func (b *bench) createSync(r row) []outcome {
	s := b.main
	shapes := []struct{ conns, depth int }{{1, 1}, {1, 8}, {8, 8}}
	results := make([][]load.Result, len(shapes))
	for range b.o.rounds {
		for i, sh := range shapes {
			x := row{freshDir: dirSync, job: job{op: "create", conns: sh.conns, depth: sh.depth}}
			res, err := b.once(s, x, b.o.secs)
			if err != nil {
				return failed(r, err)
			}
			results[i] = append(results[i], res)
		}
	}
	out := make([]outcome, len(shapes))
	for i, sh := range shapes {
		o := outcome{Work: fmt.Sprintf("CREATE %dx%d, export sync", sh.conns, sh.depth), Ganesha: "-", Ratio: "-",
			Sluice: cell(results[i]), Wanted: "each durable", Data: results[i]}
		ok := true
		if i == 0 {
			n, calls, err := b.countSyncs(s, sh.conns, sh.depth)
			// One create at a time cannot share a sync with another.
			ok = err == nil && n >= calls
			o.Notes = append(o.Notes, syncNote(n, calls, err))
		} else {
			n, calls, err := b.countSyncs(s, sh.conns, sh.depth)
			ok = err == nil && n > 0
			o.Notes = append(o.Notes, syncNote(n, calls, err))
			ratios := make([]float64, len(results[i]))
			for k := range ratios {
				ratios[k] = results[i][k].OpsPerSec / results[0][k].OpsPerSec
			}
			o.Ratio = fmt.Sprintf("%.2f (%.2f-%.2f) to 1x1", median(ratios), slices.Min(ratios), slices.Max(ratios))
			if i == 2 {
				o.Wanted = "3 times 1x1, each durable"
				ok = ok && median(ratios) >= 3
			}
		}
		for _, res := range results[i] {
			if res.Errors > 0 {
				ok = false
				o.Notes = append(o.Notes, fmt.Sprintf("%d of %d calls failed: %s", res.Errors, res.Calls, res.FirstError))
			}
		}
		o.Reached = yesNo(ok)
		out[i] = o
	}
	return out
}

func syncNote(n, calls int, err error) string {
	if err != nil {
		return "syncs not counted: " + err.Error()
	}
	return fmt.Sprintf("%.2f syncs per create (%d in %d)", float64(n)/float64(calls), n, calls)
}

// countSyncs counts with strace the sync calls of a server during creates.
func (b *bench) countSyncs(s *server, conns, depth int) (syncs, creates int, err error) {
	dir, err := b.freshDir(dirSync)
	if err != nil {
		return 0, 0, err
	}
	file := filepath.Join(b.work, "strace")
	st := exec.Command("strace", "-f", "-c", "-U", "name,calls", "-e", "trace="+strings.Join(syncCalls, ","), "-o", file, "-p", strconv.Itoa(s.pid()))
	if err := st.Start(); err != nil {
		return 0, 0, err
	}
	err = waitTraced(s.pid())
	var res load.Result
	if err == nil {
		res, err = b.measure(s, job{op: "create", dir: dir, conns: conns, depth: depth, count: 400, secs: 30})
	}
	st.Process.Signal(syscall.SIGINT)
	st.Wait() // ends by the signal it was sent
	if err != nil {
		return 0, 0, err
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return 0, 0, err
	}
	for line := range strings.Lines(string(text)) {
		if f := strings.Fields(line); len(f) == 2 && slices.Contains(syncCalls, f[0]) {
			n, err := strconv.Atoi(f[1])
			if err != nil {
				return 0, 0, fmt.Errorf("strace: %q", line)
			}
			syncs += n
		}
	}
	return syncs, int(res.Calls), nil
}

// waitTraced waits until every thread of pid has a tracer.
func waitTraced(pid int) error {
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		files, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/status", pid))
		if err != nil {
			return err
		}
		all := len(files) > 0
		for _, f := range files {
			t, err := os.ReadFile(f)
			all = all && err == nil && !strings.Contains(string(t), "TracerPid:\t0\n")
		}
		if all {
			return nil
		}
	}
	return errors.New("strace did not attach")
}

// slowRead measures GETATTR on a connection that has slow READs in flight.
func (b *bench) slowRead(r row) []outcome {
	const delay, depth = 50 * time.Millisecond, 8
	const limit = 2000 // microseconds
	r.work = fmt.Sprintf("GETATTR p99 beside %d READs of %v, same connection", depth, delay)
	dir := "/run/slow"
	if err := os.MkdirAll(dir, 0755); err != nil {
		return failed(r, err)
	}
	slow, err := slowfs.Mount(dir, delay, load.Pattern)
	if err != nil {
		return failed(r, err)
	}
	defer slow.Unmount() // the mount namespace's end does it otherwise
	s, err := b.startSluice(sluiceOptions{exports: dir + " *(ro,no_root_squash,insecure,fsid=4711)\n"})
	if err != nil {
		return failed(r, err)
	}
	defer s.stop()
	var all []load.SlowReadResult
	var p99 []float64
	o := outcome{Work: r.work, Ganesha: "-", Ratio: "-", Wanted: "under 2 ms"}
	ok := true
	for range b.o.rounds {
		var res load.SlowReadResult
		err := b.nfsload(s, job{op: "slowread", file: warmFile, secs: b.o.secs, extra: []string{
			"-slow-export", dir, "-slow-file", slowfs.FileName, "-slow-depth", strconv.Itoa(depth)}}, &res)
		if err != nil {
			return failed(r, err)
		}
		all = append(all, res)
		p99 = append(p99, res.Getattr.P99)
		if res.Getattr.Errors > 0 {
			ok = false
			o.Notes = append(o.Notes, fmt.Sprintf("%d calls failed: %s", res.Getattr.Errors, res.Getattr.FirstError))
		}
		if res.SlowCalls == 0 || res.SlowMin < float64(delay.Microseconds()) {
			ok = false
			o.Notes = append(o.Notes, fmt.Sprintf("%d READs, the fastest took %.1f ms: they were not slow", res.SlowCalls, res.SlowMin/1e3))
		}
	}
	o.Data = all
	o.Sluice = fmt.Sprintf("p99 %.0f us (%.0f-%.0f)", median(p99), slices.Min(p99), slices.Max(p99))
	o.Notes = append(o.Notes, fmt.Sprintf("%.1fk GETATTR/s beside %.0f READs/s, whose median is %.1f ms",
		all[0].Getattr.OpsPerSec/1e3, all[0].SlowRate, all[0].SlowP50/1e3))
	o.Reached = yesNo(ok && median(p99) < limit)
	return []outcome{o}
}

// directRound is one pair of measurements of the row direct.
type directRound struct {
	Fio        float64     `json:"fio_mb_per_s"`
	Sluice     load.Result `json:"sluice"`
	Ratio      float64     `json:"ratio"`
	CacheStart int64       `json:"page_cache_before"`
	CachePeak  int64       `json:"page_cache_peak"`
	Resident   int64       `json:"file_pages_cached_after"`
}

// direct measures direct READs of a file that the memory limit cannot hold,
// against fio on the same file under the same limit.
func (b *bench) direct(r row) []outcome {
	const limit = 512 << 20
	const flat = 16 << 20 // growth of the page cache that counts as none
	cold := filepath.Join(b.data, dirSync, coldFile)
	if err := load.FillFile(cold, coldSize); err != nil {
		return failed(r, err)
	}
	defer os.Remove(cold)
	if err := measure.Evict(cold); err != nil {
		return failed(r, err)
	}
	cg, err := measure.NewCgroup(filepath.Base(b.work), limit)
	if err != nil {
		return failed(r, err)
	}
	defer cg.Remove()
	s, err := b.startSluice(sluiceOptions{readMode: "direct", cgroup: cg})
	if err != nil {
		return failed(r, err)
	}
	defer s.stop()
	o := outcome{Work: r.work, Wanted: "90% of fio O_DIRECT, page cache flat"}
	rounds := make([]directRound, 3*b.o.rounds) // the disk itself varies by two from second to second
	var ratios, fios []float64
	var results []load.Result
	ok := true
	for i := range rounds {
		x := &rounds[i]
		steps := []func() error{
			func() (err error) { x.Fio, err = b.fio(cg, cold); return err },
			func() error { return b.directOnce(s, cg, cold, x) },
		}
		if i%2 == 1 {
			slices.Reverse(steps)
		}
		for _, step := range steps {
			if err := step(); err != nil {
				return failed(r, err)
			}
		}
		x.Ratio = x.Sluice.MBPerSec / x.Fio
		ratios, fios, results = append(ratios, x.Ratio), append(fios, x.Fio), append(results, x.Sluice)
		if x.Sluice.Errors > 0 {
			ok = false
			o.Notes = append(o.Notes, fmt.Sprintf("%d of %d calls failed: %s", x.Sluice.Errors, x.Sluice.Calls, x.Sluice.FirstError))
		}
		if x.CachePeak-x.CacheStart > flat || x.Resident > flat {
			ok = false
		}
	}
	last := rounds[len(rounds)-1]
	o.Ganesha = fmt.Sprintf("fio: %.2f GB/s", median(fios)/1e3)
	o.Sluice = cell(results)
	o.Ratio = fmt.Sprintf("%.2f (%.2f-%.2f) to fio", median(ratios), slices.Min(ratios), slices.Max(ratios))
	o.Notes = append(o.Notes, fmt.Sprintf("limit %d MiB, file %d MiB; page cache of the group %.1f MiB before, %.1f peak; %.1f MiB of the file cached after",
		limit>>20, coldSize>>20, mib(rounds[0].CacheStart), mib(peakCache(rounds)), mib(last.Resident)))
	o.Reached = yesNo(ok && median(ratios) >= .9)
	o.Data = rounds
	return []outcome{o}
}

func peakCache(rounds []directRound) int64 {
	var n int64
	for _, x := range rounds {
		n = max(n, x.CachePeak)
	}
	return n
}

func mib(n int64) float64 { return float64(n) / (1 << 20) }

// directOnce measures one round of direct READs and watches the page cache.
func (b *bench) directOnce(s *server, cg *measure.Cgroup, cold string, x *directRound) (err error) {
	if x.CacheStart, err = cg.PageCache(); err != nil {
		return err
	}
	x.CachePeak = x.CacheStart
	stop := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			if n, err := cg.PageCache(); err == nil {
				x.CachePeak = max(x.CachePeak, n)
			}
			select {
			case <-stop:
				return
			case <-time.After(50 * time.Millisecond):
			}
		}
	})
	x.Sluice, err = b.measure(s, job{op: "read", file: coldFile, size: 1 << 20, conns: 1, depth: 8, verify: true, secs: b.o.secs})
	close(stop)
	wg.Wait()
	if err != nil {
		return err
	}
	x.Resident, err = measure.Cached(cold)
	return err
}

// fio returns the MB/s of sequential O_DIRECT reads of 1 MiB, 8 in flight.
func (b *bench) fio(cg *measure.Cgroup, file string) (float64, error) {
	argv := cg.Command([]string{"fio", "--name=direct", "--readonly", "--filename=" + file, "--rw=read", "--bs=1M", "--direct=1",
		"--ioengine=libaio", "--iodepth=8", fmt.Sprintf("--runtime=%dms", int(b.o.secs*1e3)), "--time_based", "--output-format=json"})
	out, err := exec.Command(argv[0], argv[1:]...).Output()
	if err != nil {
		return 0, fmt.Errorf("fio: %w: %s", err, out)
	}
	var r struct {
		Jobs []struct {
			Read struct {
				BytesPerSec float64 `json:"bw_bytes"`
			} `json:"read"`
		} `json:"jobs"`
	}
	if err := json.Unmarshal(out, &r); err != nil {
		return 0, fmt.Errorf("fio: %w", err)
	}
	if len(r.Jobs) != 1 || r.Jobs[0].Read.BytesPerSec == 0 {
		return 0, fmt.Errorf("fio: nothing read: %s", out)
	}
	return r.Jobs[0].Read.BytesPerSec / 1e6, nil
}

// idleConns is how many connections the row idle opens.
const idleConns = 10000

// idle measures the memory that idle connections cost.
func (b *bench) idle(r row) []outcome {
	const limit = 64 << 20
	o := outcome{Work: r.work, Ganesha: "-", Ratio: "-", Wanted: "under 64 MiB resident"}
	s, err := b.startSluice(sluiceOptions{})
	if err != nil {
		return failed(r, err)
	}
	defer s.stop()
	var res load.IdleResult
	if err := b.nfsload(s, job{op: "idle", conns: idleConns, secs: b.o.secs}, &res); err != nil {
		return failed(r, err)
	}
	o.Sluice = fmt.Sprintf("%.1f MiB, %.1f before", mib(res.RSSPeak), mib(res.RSSBefore))
	o.Notes = append(o.Notes, res.String())
	o.Reached = yesNo(res.Alive == idleConns && res.RSSPeak < limit)
	o.Data = res
	return []outcome{o}
}

// stall measures what clients that stop reading do to the server's memory and
// to another client.
func (b *bench) stall(r row) []outcome {
	const limit = 64 << 20 // growth of resident memory that counts as bounded
	o := outcome{Work: r.work, Ganesha: "-", Ratio: "-", Wanted: "other client's p99 within 2 ms or twice, memory bounded (64 MiB)"}
	s, err := b.startSluice(sluiceOptions{})
	if err != nil {
		return failed(r, err)
	}
	defer s.stop()
	j := job{op: "stall", file: warmFile, size: 1 << 20, conns: 64, depth: 32, secs: b.o.secs}
	var res load.StallResult
	if err := b.nfsload(s, j, &res); err != nil {
		return failed(r, err)
	}
	o.Sluice = stallCell(res)
	o.Notes = append(o.Notes, fmt.Sprintf("%d stalled connections closed by the server; %d of the others then read all replies, data right%s",
		res.Dropped, res.Resumed, res.ResumedErr))
	o.Reached = yesNo(res.ResumedErr == "" && res.RSSPeak-res.RSSBefore < limit && res.Beside.Errors == 0 &&
		res.Beside.P99 <= max(2000, 2*res.Alone.P99))
	data := map[string]any{"sluice": res}
	if b.ganesha != nil {
		var g load.StallResult
		if err := b.nfsload(b.ganesha, j, &g); err != nil {
			o.Notes = append(o.Notes, err.Error())
		} else {
			o.Ganesha = stallCell(g)
			data["ganesha"] = g
		}
	}
	o.Data = data
	return []outcome{o}
}

func stallCell(r load.StallResult) string {
	return fmt.Sprintf("+%.1f MiB; GETATTR p99 %.0f us alone, %.0f beside", mib(r.RSSPeak-r.RSSBefore), r.Alone.P99, r.Beside.P99)
}

// readdirplus compares listings of a directory of 2,000 files.
func (b *bench) readdirplus(r row) []outcome {
	dir, err := b.freshDir(dirSync)
	if err != nil {
		return failed(r, err)
	}
	for i := range 2000 {
		if err := os.WriteFile(filepath.Join(b.data, dir, fmt.Sprintf("file-%04d", i)), nil, 0644); err != nil {
			return failed(r, err)
		}
	}
	r.job.dir = dir
	return b.compare(r)
}
