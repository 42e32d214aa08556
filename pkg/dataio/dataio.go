// Package dataio is the data path: READ, WRITE and COMMIT in the mode the administrator chose.
package dataio

import (
	"net/netip"

	"sluice/pkg/filecache"
	"sluice/pkg/stats"
	"sluice/pkg/trace"
	"sluice/xdr"
)

// stable_how of RFC 1813 section 3.3.7, the same numbers as stable_how4.
const (
	Unstable uint32 = iota
	DataSync
	FileSync
)

// Config sets an engine up; zero values mean the default.
type Config struct {
	SpliceMin   int // bytes; smaller READs are copied
	MaxIO       int // largest READ, in bytes; 1 MiB
	BufferBytes int // most bytes of reply buffers; 64 MiB
	DirectBytes int // most bytes of direct-I/O buffers; 64 MiB
	Pipes       int // most pipes (two descriptors each); see PipeBudget
	Trace       *trace.Bus
	Warn        func(f *filecache.File, export, what string, err error) // rate-limited: a fallback that an administrator should know of
}

// PipeBudget returns how many pipes suit a limit of descriptors.
func PipeBudget(limit uint64) int { panic("dataio: not built yet") }

// Engine serves reads and writes.
type Engine struct{ _ int }

// New returns an engine with a fresh write verifier.
func New(cfg Config) (*Engine, error) { panic("dataio: not built yet") }

// Close frees the pools. Every payload must have been released.
func (e *Engine) Close() { panic("dataio: not built yet") }

// Thread is one OS thread's state. Not for use by two goroutines at once.
type Thread struct {
	// AsServer runs f under the server's own credentials and comes back to the caller's. nil: the thread always has the server's.
	AsServer func(f func() error) error
	shard    stats.Shard
}

// NewThread returns the state for one service thread.
func (e *Engine) NewThread() *Thread { panic("dataio: not built yet") }

// Close frees it.
func (t *Thread) Close() { panic("dataio: not built yet") }

// ReadReq is one READ. The caller has checked that File may be read and holds a pin on it.
type ReadReq struct {
	File   *filecache.File
	Offset uint64
	Count  uint32
	Mode   Mode
	First  bool // the first READ of its COMPOUND: direct is permitted
	Splice bool // the reply goes to a plain TCP socket: a pipe may carry it
	NoWait bool // service thread: return unix.EAGAIN rather than sleep

	XID    uint32 // these three for trace events
	Client netip.Addr
	Export string
}

// ReadRes is what a READ gives. The caller owns Data.
type ReadRes struct {
	Data  xdr.Payload // nil when N is 0
	N     int
	Short bool // fewer than asked: the end of the file was met; vfs decides eof from the size
	Used  Mode // after fallbacks
}

// Read serves q. Errors are errnos: unix.EAGAIN only with q.NoWait (run again where it may sleep),
// unix.EMFILE when a bounded resource stayed used up (JUKEBOX, DELAY).
func (e *Engine) Read(th *Thread, q *ReadReq) (ReadRes, error) { panic("dataio: not built yet") }

// WriteReq is one WRITE. The caller has checked that File may be written and holds a pin on it.
type WriteReq struct {
	File   *filecache.File
	Offset uint64
	Data   []byte
	Stable uint32
	Mode   Mode
	NoWait bool // service thread: return unix.EAGAIN, before any effect, rather than wait for a direct read in flight

	XID    uint32
	Client netip.Addr
	Export string
}

// Write writes q.Data and returns how many bytes were written (may be fewer), how they were committed and the verifier.
func (e *Engine) Write(th *Thread, q *WriteReq) (n int, committed uint32, verf [8]byte, err error) {
	panic("dataio: not built yet")
}

// Commit puts all data of f on stable storage. Any failure is unix.EIO and changes the verifier.
func (e *Engine) Commit(th *Thread, f *filecache.File, off uint64, count uint32) (verf [8]byte, err error) {
	panic("dataio: not built yet")
}

// Verifier returns the write verifier in force.
func (e *Engine) Verifier() [8]byte { panic("dataio: not built yet") }

// Stats is a snapshot of the engine's counters.
type Stats struct{}

// Stats returns the counters.
func (e *Engine) Stats() Stats { panic("dataio: not built yet") }
