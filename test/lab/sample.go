// One measurement, and what is read around it.

package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"sluice/pkg/admin"
	"sluice/pkg/bench"
	"sluice/test/measure"
)

// sample is one measurement of one setting.
type sample struct {
	Block int `json:"block"` // from 1
	Order int `json:"order"` // place in the block, from 1
	// Run is the load that the group is about; fio's figures are put in the same form.
	Run bench.Run `json:"run"`
	// Beside is the load that disturbs it.
	Beside *bench.Run `json:"beside,omitempty"`
	Use    usage      `json:"use"`
	// Resident is how much of the files that the load is about was in the page
	// cache afterwards, in bytes.
	Resident  int64           `json:"resident_bytes"`
	Neighbour *neighbourState `json:"neighbour,omitempty"`
	// Reasons are those of mode auto for READs, since the server's start.
	Reasons []admin.Count `json:"auto_reasons,omitempty"`
}

// side is the half of the run that its figures are about.
func (s sample) side() bench.Side {
	if s.Run.Reads.Ops > 0 {
		return s.Run.Reads
	}
	return s.Run.Writes
}

// usage is what a measurement took of the machine.
type usage struct {
	Seconds float64     `json:"seconds"`
	Server  measure.CPU `json:"server"`
	Client  measure.CPU `json:"client"`
	// Other is the rest of the processors' time in seconds: the kernel's
	// threads, which write back and serve loop devices, and interrupts. What
	// else runs on the machine is in it too.
	Other float64 `json:"other_s"`
	// Busy and Steal are shares of the time of all processors.
	Busy  float64 `json:"busy"`
	Steal float64 `json:"steal"`
	// What the block device moved, in bytes.
	DiskRead    int64 `json:"disk_read_bytes"`
	DiskWritten int64 `json:"disk_written_bytes"`
	// Page cache charged to the cgroup, in bytes.
	CacheStart int64 `json:"cache_start_bytes"`
	CachePeak  int64 `json:"cache_peak_bytes"`
	CacheEnd   int64 `json:"cache_end_bytes"`
}

// reading is the state of everything at one moment.
type reading struct {
	at             time.Time
	server, client measure.CPU
	system         measure.System
	read, written  int64
	cache          int64
}

func (l *lab) read(pid int, d *disk) (r reading, err error) {
	var errs [4]error
	if pid != 0 {
		r.server, errs[0] = measure.ProcessCPU(pid)
	}
	r.system, errs[1] = measure.SystemCPU()
	r.read, r.written, errs[2] = measure.DiskBytes(d.dir)
	r.cache, errs[3] = l.cgroup.PageCache()
	r.client = measure.OwnCPU()
	r.at = time.Now()
	return r, errors.Join(errs[:]...)
}

// cacheInterval is how often the page cache is looked at.
const cacheInterval = 50 * time.Millisecond

// watch runs f and tells what it took. pid is the server's, 0 when there is none.
func (l *lab) watch(pid int, d *disk, f func() error) (u usage, err error) {
	before, err := l.read(pid, d)
	if err != nil {
		return u, err
	}
	peak := before.cache
	stop := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		tick := time.NewTicker(cacheInterval)
		defer tick.Stop()
		for {
			select {
			case <-stop:
				return
			case <-tick.C:
				if n, err := l.cgroup.PageCache(); err == nil {
					peak = max(peak, n)
				}
			}
		}
	})
	err = f()
	close(stop)
	wg.Wait()
	if err != nil {
		return u, err
	}
	after, err := l.read(pid, d)
	return before.until(after, peak), err
}

// until is the difference of two readings.
func (r reading) until(after reading, peak int64) usage {
	u := usage{
		Seconds: after.at.Sub(r.at).Seconds(),
		Server:  after.server.Sub(r.server), Client: after.client.Sub(r.client),
		DiskRead: after.read - r.read, DiskWritten: after.written - r.written,
		CacheStart: r.cache, CachePeak: max(peak, after.cache), CacheEnd: after.cache,
	}
	busy, idle, steal := after.system.Busy-r.system.Busy, after.system.Idle-r.system.Idle, after.system.Steal-r.system.Steal
	u.Other = max(0, busy-u.Server.Total()-u.Client.Total())
	if all := busy + idle + steal; all > 0 {
		u.Busy, u.Steal = busy/all, steal/all
	}
	return u
}

// serve measures a load on a server of its own: the files are cold, or warm
// where the load says prime, and nothing is left to be written.
func (l *lab) serve(ctx context.Context, s setting, set *dataset, w load) (x sample, err error) {
	if err := l.cool(); err != nil {
		return x, err
	}
	read, write := s.read, "buffered" // the other direction is not in use
	if w.op == "write" {
		read, write = "buffered", s.write
	}
	sv, err := l.start(ctx, set.disk, read, write)
	if err != nil {
		return x, err
	}
	defer func() { err = errors.Join(err, sv.stop()) }()
	if w.prime {
		once := load{op: w.op, pattern: "sequential", jobs: w.jobs, depth: w.depth, block: 1 << 20, seconds: 120, passes: 1}
		if _, err := l.drive(ctx, sv, set, once); err != nil {
			return x, err
		}
	}
	warm := w
	warm.seconds = l.o.warmup()
	if w.passes > 0 { // a part of the files is the load: no warming up
		warm.seconds = 0
	}
	if warm.seconds > 0 {
		if _, err := l.drive(ctx, sv, set, warm); err != nil {
			return x, err
		}
	}
	x.Use, err = l.watch(sv.pid(), set.disk, func() (err error) {
		x.Run, err = l.drive(ctx, sv, set, w)
		return err
	})
	if err != nil {
		return x, err
	}
	if x.Resident, err = set.cached(); err == nil && read == auto {
		x.Reasons, err = sv.reasons(ctx)
	}
	return x, errors.Join(err, sv.alive())
}

// reasons asks the server why mode auto chose what it chose.
func (s *server) reasons(ctx context.Context) (list []admin.Count, err error) {
	c := admin.NewClient(s.admin)
	defer c.Close()
	var st admin.Stats
	if err := c.Do(ctx, http.MethodGet, admin.PathStats, nil, &st); err != nil {
		return nil, err
	}
	for _, r := range st.Auto {
		if r.Count > 0 {
			list = append(list, r)
		}
	}
	return list, nil
}

func unmount(dir string) error {
	if err := unix.Unmount(dir, 0); err != nil {
		return fmt.Errorf("unmount %s: %w", dir, err)
	}
	return nil
}
