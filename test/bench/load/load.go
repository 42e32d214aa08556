// Package load drives an NFSv3 server with raw ONC RPC over TCP and measures
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
// drive.go (the loop), scenario.go (stalled, idle and slow-read clients),
// hist.go (latencies), proc.go (/proc).
package load

import (
	"fmt"
	"strings"
	"time"
)

// Config says what to measure. The zero value is not usable; see the fields.
type Config struct {
	Addr      string // IPv4 address of the server
	Port      int    // NFS port
	MountPort int    // MOUNT port; 0 means Port
	Export    string // path given to MNT
	Dir       string // directory below the export, slash separated; may be empty
	File      string // file in Dir that the calls are about

	Op     string   // one of Ops
	Size   int      // bytes per READ or WRITE, at most MaxSize
	Conns  int      // connections
	Depth  int      // calls in flight on each connection, at most MaxDepth
	Random bool     // random block order instead of sequential
	UIDs   []uint32 // callers; several take turns call by call (gid = uid)

	Duration time.Duration // time limit of the measurement
	Count    uint64        // calls to complete, 0 for no such limit
	Verify   bool          // compare some READ and WRITE data with the pattern

	ServerPID int  // process to account CPU and memory to, 0 for none
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

// Limits of a Config.
const (
	MaxSize  = 4 << 20
	MaxDepth = 1024
)

// Ops are the operations a Config may name.
var Ops = []string{"null", "getattr", "lookup", "access", "read", "write", "create", "readdirplus", "mixed"}

// Result is what one measurement found. Latencies are in microseconds.
type Result struct {
	Op      string  `json:"op"`
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
	if c.Duration <= 0 {
		return fmt.Errorf("duration: %v, want more than 0", c.Duration)
	}
	for _, op := range Ops {
		if op == c.Op {
			return nil
		}
	}
	return fmt.Errorf("operation %q: want one of %s", c.Op, strings.Join(Ops, " "))
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
