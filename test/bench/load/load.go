// Package load drives an NFSv3 or NFSv4.1 server with raw ONC RPC over TCP and measures
// rate, latency and the server's CPU and memory.
//
// Plan: one locked OS thread, one epoll set, a fixed number of calls in flight
// on each connection. Calls are prebuilt templates in which only the xid, the
// offset or the name is patched; all calls of one burst leave in one write, and
// all small replies that have arrived are parsed from one recv. Bulk READ
// payloads are dropped by the kernel with MSG_TRUNC and WRITE payloads are sent
// from one shared page-aligned buffer. The client's own cost therefore stays
// small against the server's, which shares the machine with it. Nothing here
// uses the server's codecs, so a mistake there cannot cancel itself out.
//
// Files: load.go (configuration and results), wire.go (templates and reply
// checks), setup.go (MOUNT, LOOKUP and other calls made one at a time),
// wire41.go and session.go (the same two for NFSv4.1),
// drive.go (the loop), scenario.go (stalled, idle and slow-read clients),
// hist.go (latencies), proc.go (/proc).
package load

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Config says what to measure. The zero value is not usable; see the fields.
type Config struct {
	Addr      string // IPv4 address of the server
	Port      int    // NFS port
	MountPort int    // MOUNT port; 0 means Port
	Export    string // path given to MNT; with V41 from the server's root
	Dir       string // directory below the export, slash separated; may be empty
	File      string // file in Dir that the calls are about

	V41    bool     // NFSv4.1 in sessions instead of NFSv3
	Op     string   // one of Ops, with V41 one of Ops41
	Size   int      // bytes per READ or WRITE, at most MaxSize
	Sizes  []int    // READ only: sizes, none over Size, mixed so that each moves as many bytes
	Conns  int      // connections
	Depth  int      // calls in flight on each connection, at most MaxDepth
	Random bool     // random block order instead of sequential
	UIDs   []uint32 // callers; several take turns call by call (gid = uid)

	Duration time.Duration // time limit of the measurement
	Count    uint64        // calls to complete, 0 for no such limit
	Verify   bool          // compare some READ and WRITE data with the pattern

	ServerPID int  // process to account CPU and memory to, 0 for none; WholeMachine for CPU alone
	Reserved  bool // bind to a source port below 1024 (needs root)
	// Dedicated says that nothing else in this process needs the processor
	// while the loop runs, and that the collector is off: the loop then waits
	// without telling the Go runtime.
	Dedicated bool

	// Only for the scenarios of scenario.go.
	SlowExport string // export whose file answers READ slowly
	SlowFile   string // that file
	SlowDepth  int    // slow READs in flight
}

// WholeMachine as ServerPID stands for all that the machine does, the client
// included: for a server in the kernel, whose work is no process's own.
const WholeMachine = -1

// Limits of a Config.
const (
	MaxSize  = 4 << 20
	MaxDepth = 1024
)

// Ops are the operations a Config may name.
var Ops = []string{"null", "getattr", "lookup", "access", "read", "write", "create", "readdirplus", "mixed"}

// Ops41 are those for which V41 may be set: SEQUENCE, PUTFH and the operation.
var Ops41 = []string{"getattr", "read", "write"}

// Result is what one measurement found. Latencies are in microseconds.
type Result struct {
	Op      string  `json:"op"`
	V41     bool    `json:"v41,omitempty"`
	Conns   int     `json:"conns"`
	Depth   int     `json:"depth"`
	Size    int     `json:"size,omitempty"`
	Seconds float64 `json:"seconds"`
	Calls   uint64  `json:"calls"`
	Bytes   uint64  `json:"bytes,omitempty"`
	Errors  uint64  `json:"errors"`
	// FirstError describes the first call that was not answered as it should be.
	FirstError string `json:"first_error,omitempty"`

	OpsPerSec float64 `json:"ops_per_s"`
	MBPerSec  float64 `json:"mb_per_s,omitempty"` // 10^6 bytes per second
	P50       float64 `json:"p50_us"`
	P99       float64 `json:"p99_us"`
	P999      float64 `json:"p99_9_us"`
	Max       float64 `json:"max_us"`

	ClientCPU float64 `json:"client_cpu_s"`
	ServerCPU float64 `json:"server_cpu_s,omitempty"`
	CPUPerOp  float64 `json:"server_us_per_op,omitempty"`
	CPUPerGB  float64 `json:"server_s_per_gb,omitempty"` // per 10^9 bytes
}

// moves reports whether op carries file data.
func moves(op string) bool { return op == "read" || op == "write" }

// check validates c and fills in defaults.
func (c *Config) check() error {
	if c.MountPort == 0 {
		c.MountPort = c.Port
	}
	if len(c.UIDs) == 0 {
		c.UIDs = []uint32{0}
	}
	if c.Conns < 1 {
		return fmt.Errorf("connections: %d, want at least 1", c.Conns)
	}
	if c.Depth < 1 || c.Depth > MaxDepth {
		return fmt.Errorf("depth: %d, want 1 to %d", c.Depth, MaxDepth)
	}
	if c.Size < 1 || c.Size > MaxSize {
		return fmt.Errorf("size: %d, want 1 to %d", c.Size, MaxSize)
	}
	for _, s := range c.Sizes {
		if s < 1 || s > c.Size || c.Op != "read" {
			return fmt.Errorf("sizes: %d of a %s, want 1 to %d, of READs", s, c.Op, c.Size)
		}
	}
	if c.Duration <= 0 {
		return fmt.Errorf("duration: %v, want more than 0", c.Duration)
	}
	ops := Ops
	if c.V41 {
		ops = Ops41
	}
	if !slices.Contains(ops, c.Op) {
		return fmt.Errorf("operation %q: want one of %s", c.Op, strings.Join(ops, " "))
	}
	return nil
}

// String prints r on one line.
func (r Result) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%-11s", r.Op)
	if r.Size != 0 {
		fmt.Fprintf(&b, " size %7d", r.Size)
	}
	fmt.Fprintf(&b, " %dx%d: %9.0f op/s", r.Conns, r.Depth, r.OpsPerSec)
	if r.MBPerSec != 0 {
		fmt.Fprintf(&b, " %7.1f MB/s", r.MBPerSec)
	}
	fmt.Fprintf(&b, "  us p50 %.0f p99 %.0f p99.9 %.0f max %.0f  errors %d", r.P50, r.P99, r.P999, r.Max, r.Errors)
	if r.FirstError != "" {
		fmt.Fprintf(&b, " (%s)", r.FirstError)
	}
	fmt.Fprintf(&b, "  client cpu %.2f s", r.ClientCPU)
	if r.CPUPerGB != 0 {
		fmt.Fprintf(&b, "  server cpu %.2f s = %.3f s/GB", r.ServerCPU, r.CPUPerGB)
	} else if r.CPUPerOp != 0 {
		fmt.Fprintf(&b, "  server cpu %.2f s = %.2f us/op", r.ServerCPU, r.CPUPerOp)
	}
	return b.String()
}

func (d *driver) result(elapsed int64) Result {
	r := Result{
		Op: d.c.Op, V41: d.c.V41, Conns: d.c.Conns, Depth: d.c.Depth, Seconds: float64(elapsed) / 1e9,
		Calls: d.calls, Bytes: d.bytes, Errors: d.errs,
		P50: d.hist.quantile(.5), P99: d.hist.quantile(.99), P999: d.hist.quantile(.999),
		Max: float64(d.hist.max) / 1e3,
	}
	if d.firstErr != nil {
		r.FirstError = d.firstErr.Error()
	}
	r.OpsPerSec = float64(r.Calls) / r.Seconds
	if moves(r.Op) || r.Op == "mixed" {
		r.Size = d.c.Size
	}
	if moves(r.Op) {
		r.MBPerSec = float64(r.Bytes) / r.Seconds / 1e6
	}
	return r
}

// account enters the server's CPU seconds.
func (r *Result) account(cpu float64) {
	r.ServerCPU = cpu
	if r.Calls > 0 {
		r.CPUPerOp = cpu / float64(r.Calls) * 1e6
	}
	if moves(r.Op) && r.Bytes > 0 {
		r.CPUPerGB = cpu / (float64(r.Bytes) / 1e9)
	}
}
