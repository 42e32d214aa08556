// Watching the server while it is loaded: its processor time and the page cache,
// from /proc for processes of this machine, or from a sluice server's admin socket.

package bench

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"sluice/pkg/admin"
	"sluice/pkg/usage"
)

// Watch says how to look at the server. The zero value looks at nothing.
type Watch struct {
	// PIDs are the server's processes on this machine: one, or the threads of a
	// kernel's server. Their CPU times are added up; the memory is the first's.
	PIDs []int
	// Admin is the admin socket of a sluice server; it is used where PIDs is empty.
	Admin string
	// Machine: the server is on this machine, and without PIDs and Admin the page
	// cache to look at is the machine's.
	Machine bool
}

const (
	lookEvery    = 500 * time.Millisecond // at the page cache
	adminTimeout = 10 * time.Second
)

// reading is one look at the server; hasCPU and hasCache say what was seen.
type reading struct {
	cpu              CPU
	cache, memory    int64
	cacheFrom        string
	hasCPU, hasCache bool
	served           map[Served]uint64
}

// ServerKind says what answers at the admin socket: "sluice" and its version; ""
// without a socket.
func (w Watch) ServerKind(ctx context.Context) string {
	if w.Admin == "" {
		return ""
	}
	c := admin.NewClient(w.Admin)
	defer c.Close()
	var st admin.Status
	if c.Do(ctx, http.MethodGet, admin.PathStatus, nil, &st) != nil {
		return ""
	}
	return "sluice " + st.Version
}

// IsLocal tells whether a server, HOST or HOST:PORT, is this machine.
func IsLocal(server string) bool {
	at, err := parseServer(server)
	if err != nil {
		return false
	}
	host := at.host
	ip, err := netip.ParseAddr(host)
	if err != nil {
		addrs, err := net.LookupHost(host)
		if err != nil || len(addrs) == 0 {
			return false
		}
		if ip, err = netip.ParseAddr(addrs[0]); err != nil {
			return false
		}
	}
	if ip.IsLoopback() {
		return true
	}
	return slices.Contains(ownAddresses(), ip.Unmap().WithZone(""))
}

// ownAddresses are this machine's.
func ownAddresses() []netip.Addr {
	var out []netip.Addr
	list, _ := net.InterfaceAddrs()
	for _, a := range list {
		if p, err := netip.ParsePrefix(a.String()); err == nil {
			out = append(out, p.Addr())
		}
	}
	return out
}

// Check looks at the server once, and says what is wrong with what was asked for.
func (w Watch) Check(ctx context.Context) error {
	_, err := w.look(ctx, true)
	return err
}

// Memory is how much memory the server has, in bytes: what a dataset may be a
// multiple of.
func (w Watch) Memory(ctx context.Context) (int64, error) {
	r, err := w.look(ctx, false)
	if err == nil && r.memory == 0 {
		err = fmt.Errorf("the server's memory can't be seen from here: name it with --memory, the server's process with --pid, or a sluice server's socket with --admin")
	}
	return r.memory, err
}

func (w Watch) look(ctx context.Context, served bool) (r reading, err error) {
	switch {
	case len(w.PIDs) > 0:
		for _, pid := range w.PIDs {
			user, sys, err := usage.CPU(pid)
			if err != nil {
				return r, fmt.Errorf("--pid: %w", err)
			}
			r.cpu.UserSeconds += user
			r.cpu.SystemSeconds += sys
		}
		r.hasCPU = true
		r.cpu.Source = "process " + strings.Trim(strings.ReplaceAll(fmt.Sprint(w.PIDs), " ", ", "), "[]")
		if err := r.memoryOf(w.PIDs[0]); err != nil {
			return r, err
		}
	case w.Admin != "":
		return r, w.ask(ctx, &r, served)
	case w.Machine:
		return r, r.memoryOf(0)
	}
	if w.Admin != "" && served {
		c := admin.NewClient(w.Admin)
		defer c.Close()
		r.served, err = servedBy(ctx, c)
	}
	return r, err
}

func (r *reading) memoryOf(pid int) error {
	m, err := usage.MemoryOf(pid)
	r.cache, r.memory, r.cacheFrom, r.hasCache = m.CacheBytes, m.TotalBytes, m.Source, err == nil
	return err
}

// ask asks a sluice server.
func (w Watch) ask(ctx context.Context, r *reading, served bool) (err error) {
	ctx, cancel := context.WithTimeout(ctx, adminTimeout)
	defer cancel()
	c := admin.NewClient(w.Admin)
	defer c.Close()
	var st admin.Status
	if err := c.Do(ctx, http.MethodGet, admin.PathStatus, nil, &st); err != nil {
		return err
	}
	p := st.Process
	r.cpu = CPU{UserSeconds: p.UserSeconds, SystemSeconds: p.SystemSeconds, Source: "admin socket"}
	r.cache, r.memory, r.cacheFrom = p.CacheBytes, p.MemoryBytes, p.Memory
	r.hasCPU, r.hasCache = p.Memory != "", p.Memory != ""
	if served {
		r.served, err = servedBy(ctx, c)
	}
	return err
}

// servedBy asks how many calls each mode has served.
func servedBy(ctx context.Context, c *admin.Client) (map[Served]uint64, error) {
	var st admin.Stats
	if err := c.Do(ctx, http.MethodGet, admin.PathStats, nil, &st); err != nil {
		return nil, err
	}
	out := map[Served]uint64{}
	for op, list := range map[string][]admin.ModeStats{"read": st.Read, "write": st.Write} {
		for _, m := range list {
			out[Served{Op: op, Mode: m.Mode}] = m.Calls
		}
	}
	return out, nil
}

// watcher looks at the server during one run. A look that fails is left out.
type watcher struct {
	w  Watch
	on bool

	mu     sync.Mutex
	start  reading
	own    CPU
	base   time.Time
	lastAt time.Time
	peak   int64
	caches []cacheAt
}

type cacheAt struct {
	at    float64 // seconds since base
	bytes int64
}

func (w Watch) begin(on bool) *watcher {
	t := &watcher{w: w, on: on}
	t.again()
	return t
}

// again forgets what has been seen: what counts begins now.
func (t *watcher) again() {
	start := reading{}
	if t.on {
		start, _ = t.w.look(context.Background(), true)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.start, t.own = start, ownCPU()
	t.base, t.lastAt = time.Now(), time.Now()
	t.peak, t.caches = start.cache, nil
}

// look looks at the page cache, if the last look is some time ago.
func (t *watcher) look() {
	t.mu.Lock()
	due := t.on && t.start.hasCache && time.Since(t.lastAt) >= lookEvery
	t.mu.Unlock()
	if !due {
		return
	}
	r, err := t.w.look(context.Background(), false)
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.lastAt = time.Now(); err != nil || !r.hasCache || len(t.caches) > 10*maxSamples {
		return
	}
	t.peak = max(t.peak, r.cache)
	t.caches = append(t.caches, cacheAt{time.Since(t.base).Seconds(), r.cache})
}

// end enters what was seen into the run.
func (t *watcher) end(r *Run) {
	t.mu.Lock()
	defer t.mu.Unlock()
	r.ClientCPU = ownCPU().since(t.own)
	r.ClientCPU.Source = "this process"
	if !t.on {
		return
	}
	now, err := t.w.look(context.Background(), true)
	if err != nil {
		return
	}
	if now.hasCPU && t.start.hasCPU {
		cpu := now.cpu.since(t.start.cpu)
		r.CPU = &cpu
	}
	if now.hasCache && t.start.hasCache {
		r.Cache = &Cache{StartBytes: t.start.cache, EndBytes: now.cache, PeakBytes: max(t.peak, now.cache), Source: now.cacheFrom}
		k := 0
		for i := range r.Series {
			for k+1 < len(t.caches) && t.caches[k+1].at <= r.Series[i].AtSeconds {
				k++
			}
			if k < len(t.caches) && t.caches[k].at <= r.Series[i].AtSeconds {
				bytes := t.caches[k].bytes
				r.Series[i].CacheBytes = &bytes
			}
		}
	}
	for key, n := range now.served {
		if n -= t.start.served[key]; t.start.served != nil && n > 0 {
			r.Served = append(r.Served, Served{key.Op, key.Mode, n})
		}
	}
	slices.SortFunc(r.Served, func(a, b Served) int { return strings.Compare(a.Op+a.Mode, b.Op+b.Mode) })
}
