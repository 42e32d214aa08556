// One run: the jobs are dealt to the connections and these to threads, which
// work until time or bytes are over; meanwhile somebody watches the server.

package bench

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// phase is one run as its loops see it.
type phase struct {
	ctx       context.Context
	w         *Workload
	files     []file
	templates [][kinds]*template
	stable    uint32
	commit    bool
	base      time.Time
	warmup    int64 // nanoseconds from base; calls that were sent before are not counted
	until     int64 // when no more calls are sent
	interval  int64 // of the series
	stop      atomic.Bool
	bytes     atomic.Int64 // moved so far
}

// stopped tells the loops to send nothing more; aborted, to leave at once.
func (p *phase) stopped() bool { return p.stop.Load() }
func (p *phase) aborted() bool { return p.ctx.Err() != nil }

func (p *phase) name(file int) string { return p.files[file].name }

var stabilities = map[string]uint32{"unstable": 0, "data_sync": 1, "file_sync": 2}

// Run makes one measurement. An error means that there is none, and that the
// Bench can only be closed; calls that fail one by one are counted in the Run.
func (b *Bench) Run(ctx context.Context) (Run, error) {
	return b.phase(ctx, &b.w, "running", false)
}

// phase runs a workload over the first of the connections; once: each job goes
// through its files a single time.
func (b *Bench) phase(ctx context.Context, w *Workload, step string, once bool) (Run, error) {
	if b.broken {
		return Run{}, errors.New("an earlier run has failed: open another Bench")
	}
	p := &phase{
		ctx: ctx, w: w, files: b.files, stable: stabilities[w.Stable], commit: w.ReadPercent < 100 && w.Stable == "unstable",
		warmup: seconds(w.WarmupSeconds), until: math.MaxInt64,
	}
	if w.Seconds > 0 {
		p.until = p.warmup + seconds(w.Seconds)
	}
	p.interval = max(seconds(w.Seconds)/200, seconds(0.1))
	p.templates = make([][kinds]*template, len(b.files))
	for i := range b.files {
		for k := range kinds {
			if k == kindRead && w.ReadPercent > 0 || k != kindRead && w.ReadPercent < 100 {
				p.templates[i][k] = b.cl.template(k, &b.files[i], p.stable)
			}
		}
	}
	if w.ReadPercent < 100 || w.Verify {
		pattern() // computed before the clock runs
	}
	loops := b.deal(p, w, once)
	total := w.MaxBytes
	if once {
		total = w.DatasetBytes
	}

	r := Run{Start: time.Now()}
	watch := b.o.Watch.begin(step == "running")
	p.base = time.Now()
	if p.warmup > 0 { // what is used before does not count
		defer time.AfterFunc(time.Duration(p.warmup), watch.again).Stop()
	}
	errs := make([]error, len(loops))
	var wg sync.WaitGroup
	for i, l := range loops {
		wg.Go(func() {
			if errs[i] = l.run(); errs[i] != nil {
				p.stop.Store(true)
			}
		})
	}
	done := make(chan struct{})
	go func() {
		wg.Wait()
		close(done)
	}()
	b.follow(p, step, total, watch, done)
	if err := errors.Join(errs...); err != nil {
		b.broken = true
		watch.end(&r)
		if ctx.Err() != nil {
			return r, ctx.Err()
		}
		return r, fmt.Errorf("%v: %w", b.at, firstOf(errs))
	}
	r.sum(p, loops)
	watch.end(&r)
	for _, c := range []*CPU{r.CPU, &r.ClientCPU} {
		if c != nil && r.Bytes > 0 {
			c.PerGB = (c.UserSeconds + c.SystemSeconds) / (float64(r.Bytes) / 1e9)
		}
	}
	return r, nil
}

func firstOf(errs []error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

func seconds(s float64) int64 { return int64(s * 1e9) }

// deal gives jobs to connections and connections to loops, in turn.
func (b *Bench) deal(p *phase, w *Workload, once bool) []*loop {
	threads := b.o.Threads
	def(&threads, max(runtime.NumCPU()/2, 1))
	loops := make([]*loop, min(threads, w.Connections))
	for i := range loops {
		loops[i] = newLoop(p)
	}
	used := make([]int, w.Connections) // slots
	for n := range w.Jobs {
		c := b.conns[n%w.Connections]
		j := newJob(w, n)
		if once {
			j.left = j.perFile * int64(len(j.files))
		}
		for range w.Depth {
			s := &c.slots[used[n%w.Connections]]
			*s = slot{job: j, seq: s.seq}
			used[n%w.Connections]++
		}
	}
	for i, c := range b.conns[:w.Connections] {
		l := loops[i%len(loops)]
		l.conns = append(l.conns, c)
	}
	return loops
}

// follow shows progress and watches the server until the loops are done.
func (b *Bench) follow(p *phase, step string, total int64, watch *watcher, done <-chan struct{}) {
	tick := time.NewTicker(250 * time.Millisecond)
	defer tick.Stop()
	var last int64
	lastAt := p.base
	for {
		select {
		case <-done:
			return
		case <-tick.C:
		}
		watch.look()
		now, bytes := time.Now(), p.bytes.Load()
		pr := Progress{Step: step, Done: min(bytes, total), Total: total, Unit: "bytes", BytesPerSecond: float64(bytes-last) / now.Sub(lastAt).Seconds()}
		last, lastAt = bytes, now
		if p.until != math.MaxInt64 {
			at := int64(now.Sub(p.base))
			if pr.Unit, pr.Done, pr.Total = "time", min(at, p.until)-p.warmup, p.until-p.warmup; at < p.warmup {
				pr.Step, pr.Done, pr.Total = "warming up", at, p.warmup
			}
		}
		b.progress(pr)
	}
}

// sum adds up what the loops have counted.
func (r *Run) sum(p *phase, loops []*loop) {
	first := loops[0]
	lastData, lastReply := first.lastData, first.lastReply
	for _, l := range loops[1:] {
		for i := range l.sides {
			first.sides[i].ops += l.sides[i].ops
			first.sides[i].bytes += l.sides[i].bytes
			first.sides[i].lat.merge(&l.sides[i].lat)
		}
		first.series.merge(&l.series)
		first.retries += l.retries
		if first.errs == 0 {
			first.firstErr = l.firstErr
		}
		first.errs += l.errs
		lastData, lastReply = max(lastData, l.lastData), max(lastReply, l.lastReply)
	}
	r.Start = p.base.Add(time.Duration(p.warmup))
	r.Seconds = float64(max(lastReply-p.warmup, 1)) / 1e9
	if p.commit && lastData > 0 {
		r.CommitSeconds = float64(lastReply-lastData) / 1e9
	}
	for i, side := range []*Side{kindRead: &r.Reads, kindWrite: &r.Writes} {
		s := &first.sides[i]
		side.Ops, side.Bytes = s.ops, s.bytes
		side.Latency, side.Histogram = s.lat.result()
		r.Ops += s.ops
		r.Bytes += s.bytes
	}
	r.BytesPerSecond, r.OpsPerSecond = float64(r.Bytes)/r.Seconds, float64(r.Ops)/r.Seconds
	r.Errors, r.Retries = first.errs, first.retries
	if first.firstErr != nil {
		r.FirstError = first.firstErr.Error()
	}
	r.IntervalSeconds = float64(first.series.interval) / 1e9
	r.Series = first.series.samples
	for i := range r.Series {
		r.Series[i].AtSeconds = min(float64(i+1)*r.IntervalSeconds, r.Seconds)
	}
}

// ownCPU is the processor time of this process so far.
func ownCPU() CPU {
	var ru unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &ru) != nil {
		return CPU{}
	}
	return CPU{UserSeconds: float64(ru.Utime.Nano()) / 1e9, SystemSeconds: float64(ru.Stime.Nano()) / 1e9}
}

// since is the difference of two readings.
func (c CPU) since(start CPU) CPU {
	c.UserSeconds = max(c.UserSeconds-start.UserSeconds, 0)
	c.SystemSeconds = max(c.SystemSeconds-start.SystemSeconds, 0)
	return c
}
