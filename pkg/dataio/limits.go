// Limits that may be changed while the engine works. Calls in flight keep what
// they have; the next one meets the new limit.

package dataio

import "math"

// MinPoolBytes is the least that a pool of buffers holds: one buffer of the largest size.
const MinPoolBytes = 4<<20 + classSlack

// SetSpliceMin sets the size, in bytes, from which a buffered READ may be spliced: 0 is DefaultSpliceMin, and
// with a negative one none is.
func (e *Engine) SetSpliceMin(n int) {
	switch {
	case n < 0 || e.pipes.max == 0:
		n = math.MaxInt
	case n == 0:
		n = DefaultSpliceMin
	}
	e.spliceMin.Store(int64(n))
}

// SpliceMin returns the size from which READs are spliced, in bytes, or -1 when none is.
func (e *Engine) SpliceMin() int {
	if n := e.spliceMin.Load(); n < math.MaxInt {
		return int(n)
	}
	return -1
}

// SetBufferBytes sets the most memory, in bytes, of the buffers for replies that are copied (plain), and of the
// aligned ones for direct I/O (direct). A pool holds MinPoolBytes in any case. What is free goes at once when a
// pool shrinks, and what is out as it comes back: memory never grows beyond what is out and the new limit.
func (e *Engine) SetBufferBytes(plain, direct int) {
	e.plain.setLimit(plain)
	e.direct.setLimit(direct)
}

func (p *bufferPool) setLimit(limit int) {
	p.mu.Lock()
	p.limit = int64(max(limit, MinPoolBytes))
	p.makeRoom(0)
	p.mu.Unlock()
	p.tell()
}

// makeRoom unmaps free buffers, the largest first, until size more bytes fit
// or none is left; p.mu is held.
func (p *bufferPool) makeRoom(size int64) {
	for c := len(classSizes) - 1; c >= 0 && p.bytes+size > p.limit; c-- {
		for len(p.free[c]) > 0 && p.bytes+size > p.limit {
			l := len(p.free[c]) - 1
			p.unmap(p.free[c][l])
			p.free[c] = p.free[c][:l]
			p.spare[c] = min(p.spare[c], l)
		}
	}
}
