// Package dataio is the data path: READ, WRITE and COMMIT in the I/O mode the
// administrator chose.
//
// Plan: Read dispatches on the mode (read.go) and tries, in turn, the ways
// that the mode allows: each either serves the READ, or says why it cannot and
// the next one is tried (direct, dontcache, buffered), the reason being
// counted. What a READ returns is a payload: a pooled buffer (buffer.go) or
// filled pipes (pipe.go). On a service thread nothing sleeps: what is not in
// memory is answered with unix.EAGAIN, and the call is run again where it may
// (warm.go). Write and Commit (write.go) keep the promise of the verifier.
//
// Whether READ reached the end of the file is vfs's to say, from the size.
package dataio

import (
	"fmt"
	"net/netip"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"sluice/pkg/filecache"
	"sluice/pkg/stats"
	"sluice/pkg/trace"
	"sluice/xdr"
)

// Defaults and limits, in bytes.
const (
	DefaultSpliceMin   = 128 << 10 // docs/decisions/0004-splice-min.md
	DefaultMaxIO       = 1 << 20
	MaxMaxIO           = 4 << 20
	DefaultBufferBytes = 64 << 20
	smallBuffer        = xdr.SmallPayload

	trimEvery = 30 * time.Second

	// How long a call may wait for a buffer. Without a plain one a READ is not
	// served; without an aligned one it is, through the page cache, so that a
	// longer wait than for the disk would be a loss.
	plainPatience  = time.Second
	directPatience = 20 * time.Millisecond
)

// Config sets an engine up; zero values mean the default.
type Config struct {
	Cache       *filecache.Cache // required: its lost writes change the engine's verifier
	SpliceMin   int              // smaller READs are copied; negative: all are
	MaxIO       int              // largest READ; at most MaxMaxIO
	BufferBytes int              // most memory for reply buffers
	DirectBytes int              // most memory for buffers of direct reads
	Pipes       int              // most pipes, two descriptors each; see PipeBudget. Negative: none
	Trace       *trace.Bus       // may be nil

	// Warn is told of what an administrator should know of and cannot see
	// otherwise, at most once a minute for each kind. May be nil.
	Warn func(Warning)
}

// Warning says that something is served in a way other than configured, or
// was lost.
type Warning struct {
	What   string // one sentence, with the remedy
	File   filecache.Key
	Export string
	Err    error
}

// Engine serves reads and writes. All methods may be called from any
// goroutine; a Thread belongs to one at a time.
type Engine struct {
	spliceMin atomic.Int64 // see SetSpliceMin
	maxIO     int
	bus       *trace.Bus
	warn      func(Warning)
	plain     *bufferPool
	direct    *bufferPool
	pipes     pipePool
	verf      atomic.Uint64
	counts    counters
	auto      autoState
	warned    [warnings]atomic.Int64 // when last, by the clock, plus 1

	noCachestat atomic.Bool   // the kernel has none
	stop        chan struct{} // ends trimming

	// The calls that tests make fail, and the order that they do without.
	enter  func(o *filecache.Order, c filecache.Class, off, n, from, m uint64, wait bool) (ticket uint64, ok bool)
	leave  func(o *filecache.Order, ticket uint64)
	fsync  func(fd int) error
	pread  func(th *Thread, fd int, b []byte, off int64, flags uintptr) (int, error) // direct reads
	pwrite func(th *Thread, fd int, b []byte, more [][]byte, off int64, flags uintptr) (int, error)
}

// New returns an engine with a fresh write verifier.
func New(cfg Config) (*Engine, error) {
	def := func(v *int, d int) {
		if *v == 0 {
			*v = d
		}
	}
	def(&cfg.MaxIO, DefaultMaxIO)
	def(&cfg.BufferBytes, DefaultBufferBytes)
	def(&cfg.DirectBytes, DefaultBufferBytes)
	def(&cfg.Pipes, PipeBudget(1024))
	switch {
	case cfg.Cache == nil:
		return nil, fmt.Errorf("dataio: no file cache given")
	case cfg.MaxIO < pageSize || cfg.MaxIO > MaxMaxIO:
		return nil, fmt.Errorf("largest READ of %d bytes: use %d to %d", cfg.MaxIO, pageSize, MaxMaxIO)
	}
	e := &Engine{
		maxIO:  cfg.MaxIO,
		bus:    cfg.Trace,
		warn:   cfg.Warn,
		plain:  newBufferPool(cfg.BufferBytes, plainPatience),
		direct: newBufferPool(cfg.DirectBytes, directPatience),
		pipes:  pipePool{max: max(cfg.Pipes, 0)},
		enter:  (*filecache.Order).BeginPart,
		leave:  (*filecache.Order).End,
		fsync:  unix.Fsync,
		pread:  (*Thread).preadv2,
		pwrite: (*Thread).pwritev2,
		stop:   make(chan struct{}),
	}
	e.auto.memory.now = now
	e.SetSpliceMin(cfg.SpliceMin)
	if e.warn == nil {
		e.warn = func(Warning) {}
	}
	if err := e.newVerifier(); err != nil {
		return nil, err
	}
	cfg.Cache.OnWriteError(e.WriteFailed)
	go e.trimLoop()
	return e, nil
}

// trimLoop gives back, after each interval, memory and pipes not needed in it.
func (e *Engine) trimLoop() {
	tick := time.NewTicker(trimEvery)
	defer tick.Stop()
	for {
		select {
		case <-e.stop:
			return
		case <-tick.C:
			e.plain.trim()
			e.direct.trim()
			e.pipes.trim()
		}
	}
}

// Close frees the pools; call it once. It fails, naming the number, when
// payloads have not been released; their memory and descriptors stay.
func (e *Engine) Close() error {
	close(e.stop)
	b, d, p := e.plain.close(), e.direct.close(), e.pipes.close()
	if b+d+p != 0 {
		return fmt.Errorf("dataio: %d buffers, %d direct buffers and %d pipes are still in use", b, d, p)
	}
	return nil
}

// MaxIO returns the largest READ that is served whole, in bytes.
func (e *Engine) MaxIO() int { return e.maxIO }

// Thread is the data path's state for one OS thread (or goroutine): one call
// at a time.
type Thread struct {
	// AsServer runs f under the server's own credentials and returns to the
	// caller's. nil: the thread has the server's at all times.
	AsServer func(f func() error) error

	read    read
	shard   stats.Shard
	iov     [1 + MaxMore]unix.Iovec
	small   buffer // for READs that the encoder copies at once
	probe   [1]byte
	missing []pageSpan // see absent
	events  []trace.Event

	csFD     int
	csRange  unix.CachestatRange
	cs       unix.Cachestat_t
	askAgain func() error // cachestat as a value, made once
}

// NewThread returns the state for one thread.
func (e *Engine) NewThread() *Thread {
	th := &Thread{shard: stats.NewShard()}
	th.small.mem = make([]byte, smallBuffer)
	th.askAgain = th.cachestat
	return th
}

// Close frees it. A payload that is still out stays good.
func (th *Thread) Close() {}

// fd returns a data descriptor of f, opened under the server's credentials.
func (th *Thread) fd(f *filecache.File, k filecache.Kind, wait bool) (int, error) {
	if fd := f.FD(k); fd >= 0 {
		return fd, nil
	}
	if th.AsServer == nil {
		return f.Open(k, wait)
	}
	fd := -1
	err := th.AsServer(func() (err error) {
		fd, err = f.Open(k, wait)
		return err
	})
	return fd, err
}

// ReadReq is one READ. The caller holds a pin on File and has checked that it
// may be read.
type ReadReq struct {
	File   *filecache.File
	Offset uint64 // at most 2^63-1
	Count  uint32 // more than MaxIO is served in part
	Mode   Mode
	First  bool // the first READ of its COMPOUND: direct is permitted
	Splice bool // the reply goes to a plain TCP socket: a pipe may carry it
	NoWait bool // service thread: return unix.EAGAIN rather than sleep
	Random bool // the client reads here and there: no read-ahead where the page cache is used
	Ahead  bool // it reads from end to end: more read-ahead there

	XID    uint32 // these three for trace events
	Client netip.Addr
	Export string
}

// ReadRes is what a READ gives. Data is the caller's to release.
type ReadRes struct {
	Data  xdr.Payload // nil when N is 0
	N     int
	Short bool // fewer than asked, as at the end of the file
	Used  Mode // what served it, after fallbacks
}

// MaxMore is how many pieces may follow the first in one WriteReq.
const MaxMore = 15

// WriteReq is one WRITE, or several adjacent ones. The caller holds a pin on File and has checked that
// it may be written.
type WriteReq struct {
	File   *filecache.File
	Offset uint64
	Data   []byte
	More   [][]byte // what follows Data in the file, at most MaxMore pieces: WRITEs that are served together
	Stable uint32
	Mode   Mode
	NoWait bool // service thread: return unix.EAGAIN, before any effect, rather than wait for direct I/O or a lease

	XID    uint32
	Client netip.Addr
	Export string
}

// The kinds of warning, each told at most once a minute.
const (
	warnDirectEINVAL = iota
	warnWriteEINVAL
	warnNotBlock
	warnLostWrite
	warnings
)

func (e *Engine) warning(kind int, w Warning) {
	t := now() + 1
	last := e.warned[kind].Load()
	if (last == 0 || t-last > int64(time.Minute)) && e.warned[kind].CompareAndSwap(last, t) {
		e.warn(w)
	}
}
