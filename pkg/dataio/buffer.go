// Reply buffers. All are page-aligned and lie outside of Go's heap, so that
// one kind serves copies and direct I/O, and the collector's goal does not
// grow with the data in flight.
//
// Plan: a pool keeps free buffers in a few sizes under one mutex and maps new
// ones until its limit; at the limit it takes apart free buffers of other
// sizes, and when none is free the caller waits, falls back, or is told to.
// What a while of service did not need is unmapped (trim).

package dataio

import (
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// classSizes are what one READ may need; each buffer has slack on top for the
// widening of a direct read. Untouched memory of a mapping costs nothing.
var classSizes = [...]int{16 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20}

const classSlack = 16 << 10

// waitAgain is how long a wait for a buffer lasts before it looks by itself.
const waitAgain = 20 * time.Millisecond

// buffer is a pooled buffer and, once filled, the payload of one reply.
type buffer struct {
	mem   []byte // all of it
	data  []byte // what is left to send
	pool  *bufferPool
	class int8
	inUse atomic.Bool
}

type bufferPool struct {
	patience time.Duration // how long a get that waits does so

	mu    sync.Mutex
	limit int64 // of bytes; see SetBufferBytes
	free  [len(classSizes)][]*buffer
	spare [len(classSizes)]int // fewest free since the last trim
	bytes int64                // mapped

	waiting atomic.Int32  // gets that wait just now
	back    chan struct{} // holds one when a buffer has come back

	used   atomic.Int64  // buffers out
	waits  atomic.Uint64 // gets that found none free
	denied atomic.Uint64 // gets that returned none
}

func newBufferPool(limit int, patience time.Duration) *bufferPool {
	return &bufferPool{limit: int64(max(limit, MinPoolBytes)), patience: patience, back: make(chan struct{}, 1)}
}

// get returns a buffer of at least n bytes, or nil when none can be had: at
// once, or with wait within the pool's patience.
func (p *bufferPool) get(n int, wait bool) *buffer {
	class := 0
	for ; class < len(classSizes) && n > classSizes[class]+classSlack; class++ {
	}
	if class == len(classSizes) {
		p.denied.Add(1)
		return nil
	}
	b := p.tryGet(class)
	if b == nil && wait {
		b = p.waitGet(class)
	}
	if b == nil {
		p.denied.Add(1)
		return nil
	}
	b.inUse.Store(true)
	p.used.Add(1)
	return b
}

// waitGet tries again whenever a buffer has come back, and from time to time
// all the same: what came back may have been too small for the one who was told.
func (p *bufferPool) waitGet(class int) *buffer {
	p.waits.Add(1)
	p.waiting.Add(1)
	defer p.waiting.Add(-1)
	deadline := time.Now().Add(p.patience)
	again := time.NewTimer(waitAgain)
	defer again.Stop()
	for {
		if b := p.tryGet(class); b != nil {
			p.tell() // there may be another
			return b
		}
		left := time.Until(deadline)
		if left <= 0 {
			return nil
		}
		again.Reset(min(left, waitAgain))
		select {
		case <-p.back:
		case <-again.C:
		}
	}
}

// tell lets one of those who wait for a buffer try again.
func (p *bufferPool) tell() {
	if p.waiting.Load() > 0 {
		select {
		case p.back <- struct{}{}:
		default:
		}
	}
}

func (p *bufferPool) tryGet(class int) *buffer {
	p.mu.Lock()
	defer p.mu.Unlock()
	if l := len(p.free[class]); l > 0 {
		b := p.free[class][l-1]
		p.free[class] = p.free[class][:l-1]
		p.spare[class] = min(p.spare[class], l-1)
		return b
	}
	size := classSizes[class] + classSlack
	p.makeRoom(int64(size)) // out of the other sizes
	if p.bytes+int64(size) > p.limit {
		return nil
	}
	mem, err := unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		return nil // out of memory or of mappings: the same as a pool used up
	}
	p.bytes += int64(size)
	return &buffer{mem: mem, pool: p, class: int8(class)}
}

// unmap gives a free buffer's memory back; p.mu is held.
func (p *bufferPool) unmap(b *buffer) {
	p.bytes -= int64(len(b.mem))
	if err := unix.Munmap(b.mem); err != nil {
		panic("dataio: munmap: " + err.Error())
	}
	b.mem = nil
}

func (p *bufferPool) put(b *buffer) {
	p.used.Add(-1)
	p.mu.Lock()
	if p.bytes > p.limit { // the limit was lowered meanwhile
		p.unmap(b)
	} else {
		p.free[b.class] = append(p.free[b.class], b)
	}
	p.mu.Unlock()
	p.tell()
}

// trim unmaps the buffers that nobody has needed since it last ran.
func (p *bufferPool) trim() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.free {
		for range p.spare[c] {
			l := len(p.free[c]) - 1
			p.unmap(p.free[c][0]) // the end of the list was used last
			copy(p.free[c], p.free[c][1:])
			p.free[c] = p.free[c][:l]
		}
		p.spare[c] = len(p.free[c])
	}
}

// close unmaps what is free and returns how many buffers are still out.
func (p *bufferPool) close() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.free {
		for _, b := range p.free[c] {
			p.unmap(b)
		}
		p.free[c], p.spare[c] = nil, 0
	}
	return p.used.Load()
}

// PoolStats describes a pool of reply buffers.
type PoolStats struct {
	Bytes  int64  `json:"bytes"` // mapped, free ones included
	Limit  int64  `json:"limit_bytes"`
	InUse  int64  `json:"in_use"` // buffers
	Waits  uint64 `json:"waits"`
	Denied uint64 `json:"denied"`
}

func (p *bufferPool) stats() PoolStats {
	p.mu.Lock()
	defer p.mu.Unlock()
	return PoolStats{p.bytes, p.limit, p.used.Load(), p.waits.Load(), p.denied.Load()}
}

// Len returns the bytes left.
func (b *buffer) Len() int { return len(b.data) }

// Bytes returns the bytes left.
func (b *buffer) Bytes() ([]byte, bool) { return b.data, true }

// SendTo is not for payloads in memory.
func (b *buffer) SendTo(int) (int, error) { return 0, unix.EINVAL }

// ReadAll copies the bytes left.
func (b *buffer) ReadAll(dst []byte) (int, error) {
	n := copy(dst, b.data)
	b.data = b.data[n:]
	return n, nil
}

// Advance drops the first n bytes.
func (b *buffer) Advance(n int) { b.data = b.data[n:] }

// Release gives the buffer back. A second call would let two replies share it,
// so it panics.
func (b *buffer) Release() {
	if !b.inUse.CompareAndSwap(true, false) {
		panic("dataio: buffer released twice")
	}
	b.data = nil
	if b.pool != nil {
		b.pool.put(b)
	}
}
