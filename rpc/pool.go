// Memory for records: calls that are incomplete, wait for a slow thread or wait
// until their connection may go on.
//
// One budget of bytes bounds it all. A thread reads from a socket only with
// enough of the budget in its pocket to keep whatever comes, so that no byte
// is ever read that cannot be stored; when the budget is spent, connections
// are left unread and queue here for memory that is given back.
//
// What is read but cannot run yet gets at most three quarters, and five eighths
// if its connection has never sent more than one call may have: who begins large
// calls on many connections, to keep the memory, has to pay with traffic before
// that of others is his. The last quarter is for calls on the slow pool alone:
// they end by themselves, so that there is always something to wait for. One
// small call of a connection is taken there in any case, so that nobody is shut
// out by others.
//
// Buffers come in a few sizes and are kept for reuse. Large ones are mapped
// outside the collector's heap: they neither feed nor pace it, they go back to
// the system at once, and a page that no client filled is never backed.

package rpc

import (
	"slices"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

const mapFrom = 64 << 10 // sizes from here on are mapped

type buffer struct {
	b     []byte
	at    int // where the record starts, see land.go
	class int
	next  *buffer
}

type sizeClass struct {
	size   int
	free   *buffer
	n      int // in free
	unused int // least n since the last trim
}

type pool struct {
	limit   int64
	maxIdle int64
	pocket  int64 // what a thread needs in hand to read

	used atomic.Int64 // bytes in use or in pockets
	live atomic.Int64 // buffers in use
	held atomic.Int64 // their bytes

	mu      sync.Mutex
	classes []sizeClass
	idle    int64 // bytes in the free lists
	closed  bool

	queues  [numWants][]*Conn
	waiting atomic.Int32 // how many connections are in them

	land   lander // where records belong; nil: at the start
	poison bool   // tests: overwrite what is given back
}

// want is what a connection wants memory for.
type want int

const (
	wantNew  want = iota // to be read: a pocket full
	wantRead             // the same, and it has sent more than one call may have
	wantRun              // to hand a call to the slow pool
	numWants
)

// wants says which of the first two it is.
func (c *Conn) wants() want {
	if c.bytesIn.Load() > uint64(c.srv.cfg.MaxRecord) {
		return wantRead
	}
	return wantNew
}

// share is how much of the budget may be spent when w gets its part.
func (p *pool) share(w want) int64 { return p.limit / 8 * [numWants]int64{5, 6, 8}[w] }

// newPool makes a pool of limit bytes for records up to maxRecord bytes and
// reads of up to maxRead bytes.
func newPool(limit int64, maxRecord, maxRead int) *pool {
	p := &pool{limit: limit, maxIdle: limit / 4}
	page := func(n int) int { return (n + 4095) &^ 4095 }
	top, most := page(maxRecord+landUnit), page(maxRecord+maxRead+4)
	const more = 2 * landUnit // room for a header, and to land
	for _, n := range []int{1 << 10, 4 << 10, 16 << 10, 64<<10 + more, 256<<10 + more} {
		if n < top {
			p.classes = append(p.classes, sizeClass{size: n})
		}
	}
	p.classes = append(p.classes, sizeClass{size: top}, sizeClass{size: most})
	// One read can leave: a record that grew through all sizes and became
	// complete, the beginning of the next, and everything kept for later.
	for _, k := range p.classes {
		p.pocket += int64(k.size)
	}
	p.pocket += int64(top)
	return p
}

func (p *pool) class(n int) int {
	for i := range p.classes {
		if n <= p.classes[i].size {
			return i
		}
	}
	panic("rpc: a buffer larger than any record was asked for")
}

// fill moves n bytes of the budget to a thread's pocket.
func (p *pool) fill(n int64, w want) bool { return p.take(n, p.share(w)) }

func (p *pool) take(n, limit int64) bool {
	if p.used.Add(n) <= limit {
		return true
	}
	p.giveBack(n)
	return false
}

func (p *pool) giveBack(n int64) {
	p.used.Add(-n)
	if p.waiting.Load() > 0 {
		p.wake()
	}
}

// get returns a buffer of at least n bytes for a call on the slow pool; nil
// when the budget is spent, unless it must be.
func (p *pool) get(n int, must bool) *buffer {
	i := p.class(n)
	if size := int64(p.classes[i].size); must {
		p.used.Add(size)
	} else if !p.take(size, p.share(wantRun)) {
		return nil
	}
	return p.issue(i)
}

// getFrom is get, paid from a pocket that is known to hold enough.
func (p *pool) getFrom(pocket *int64, n int) *buffer {
	i := p.class(n)
	*pocket -= int64(p.classes[i].size)
	if *pocket < 0 {
		panic("rpc: a read left more than a thread's pocket of memory holds")
	}
	return p.issue(i)
}

func (p *pool) issue(i int) *buffer {
	p.live.Add(1)
	p.held.Add(int64(p.classes[i].size))
	p.mu.Lock()
	k := &p.classes[i]
	b := k.free
	if b != nil {
		k.free, b.next = b.next, nil
		k.n--
		k.unused = min(k.unused, k.n)
		p.idle -= int64(k.size)
	}
	p.mu.Unlock()
	if b != nil {
		b.at = 0
		return b
	}
	if k.size < mapFrom {
		return &buffer{b: make([]byte, k.size), class: i}
	}
	m, err := unix.Mmap(-1, 0, k.size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil { // no address space: the heap, or the runtime's own report
		m = make([]byte, k.size)
		return &buffer{b: m, class: -1 - i}
	}
	return &buffer{b: m, class: i}
}

// put gives a buffer back; nil is allowed. No connection's lock may be held,
// for it may let another connection go on.
func (p *pool) put(b *buffer) {
	if b == nil {
		return
	}
	if p.poison {
		b.b[0] = 0xdb
		for n := 1; n < len(b.b); n *= 2 {
			copy(b.b[n:], b.b[:n])
		}
	}
	size := int64(len(b.b))
	p.live.Add(-1)
	p.held.Add(-size)
	if b.class >= 0 {
		p.mu.Lock()
		keep := !p.closed && p.idle+size <= p.maxIdle
		if keep {
			k := &p.classes[b.class]
			b.next, k.free = k.free, b
			k.n++
			p.idle += size
		}
		p.mu.Unlock()
		if !keep {
			b.unmap()
		}
	}
	p.giveBack(size)
}

func (b *buffer) unmap() {
	if len(b.b) >= mapFrom && b.class >= 0 {
		unix.Munmap(b.b)
	}
	b.b = nil
}

// trim frees the buffers that have lain unused since the last trim.
func (p *pool) trim() {
	var drop *buffer
	p.mu.Lock()
	for i := range p.classes {
		k := &p.classes[i]
		for ; k.unused > 0; k.unused-- {
			b := k.free
			k.free = b.next
			k.n--
			p.idle -= int64(k.size)
			b.next, drop = drop, b
		}
		k.unused = k.n
	}
	p.mu.Unlock()
	for drop != nil {
		b := drop
		drop = b.next
		b.unmap()
	}
}

// close frees what is idle; what is still in use is freed when it is put.
func (p *pool) close() {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.trim()
	p.trim()
}

// await queues c for memory. c.waiting is set and c's lock held. It reports
// false when there is memory after all.
func (p *pool) await(c *Conn, w want) bool {
	p.mu.Lock()
	p.queues[w] = append(p.queues[w], c)
	p.waiting.Add(1)
	p.mu.Unlock()
	// Whoever gave memory back before it could see this waiter has made
	// room by now.
	if p.room(w) > 0 && p.remove(c) {
		return false
	}
	return true
}

// room is for how many there is memory. Of calls to be run, the sizes are not
// known: it is one if there is room for the largest.
func (p *pool) room(w want) int {
	left := p.share(w) - p.used.Load()
	if w == wantRun {
		if left < int64(p.classes[len(p.classes)-1].size) {
			return 0
		}
		return 1
	}
	return int(max(0, left) / p.pocket)
}

func (p *pool) remove(c *Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for w := range p.queues {
		q := &p.queues[w]
		if i := slices.Index(*q, c); i >= 0 {
			*q = slices.Delete(*q, i, i+1)
			p.waiting.Add(-1)
			return true
		}
	}
	return false
}

// wake lets those connections that have waited longest try again, as many as
// there is room for. No connection's lock may be held.
func (p *pool) wake() {
	var first [8]*Conn
	list := first[:0]
	p.mu.Lock()
	for w := numWants - 1; w >= 0; w-- {
		room := p.room(w)
		if w != wantRun {
			room -= len(list)
		}
		if n := min(room, len(p.queues[w])); n > 0 {
			list = append(list, p.queues[w][:n]...)
			p.queues[w] = slices.Delete(p.queues[w], 0, n)
		}
	}
	p.waiting.Add(-int32(len(list)))
	p.mu.Unlock()
	for _, c := range list {
		c.proceed()
	}
}
