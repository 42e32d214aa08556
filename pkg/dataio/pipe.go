// Pipes carry page-cache pages from a file to a socket without a copy.
//
// Plan: the pipe is filled before the reply's header is written, so the length
// that the header promises is what the pipe holds, whatever happens to the
// file meanwhile. One pipe takes as many pages as the kernel lets it
// (pipe-max-size, 1 MiB as a rule); a READ that covers more pages, being
// larger or unaligned, goes on in a second one. A pipe that was emptied goes
// back to the pool, one that was not is closed, which frees its pages.
//
// The pages in a pipe are the file's own. If the file is written between the
// READ and the moment the network sends (or sends again), the client may see
// newer bytes than those of the READ's instant, never another file's; the
// kernel's own NFS server does the same. Use dontcache or direct to rule it out.

package dataio

import (
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

const (
	maxChain   = 6 // pipes to one reply: 4 MiB, unaligned
	pipeWanted = 1 << 20

	// After the kernel refused a pipe (descriptors, pipe-user-pages), none is
	// asked for during this time.
	pipeRetry = time.Second
)

type pipe struct {
	r, w  int
	slots int // pages it takes
	n     int // bytes in it
}

type pipePool struct {
	max int // pipes

	mu       sync.Mutex
	free     []*pipe
	spare    int            // fewest free since the last trim
	payloads []*pipePayload // free
	open     int
	retry    int64 // no new pipes before this time

	used    atomic.Int64  // pipes out
	made    atomic.Uint64 // over the pool's life
	dropped atomic.Uint64 // closed with bytes in them
	denied  atomic.Uint64 // gets that returned none
}

// PipeBudget returns how many pipes (two descriptors each) suit a process that
// may hold limit descriptors: an eighth of them, at most 2,048.
func PipeBudget(limit uint64) int { return int(min(max(limit/16, 4), 1024)) }

// get returns an empty pipe, or nil when none can be had.
func (p *pipePool) get() *pipe {
	p.mu.Lock()
	if l := len(p.free); l > 0 {
		pi := p.free[l-1]
		p.free = p.free[:l-1]
		p.spare = min(p.spare, l-1)
		p.mu.Unlock()
		p.used.Add(1)
		return pi
	}
	if p.open >= p.max || p.retry != 0 && now() < p.retry {
		p.mu.Unlock()
		p.denied.Add(1)
		return nil
	}
	p.open++
	p.mu.Unlock()
	pi := newPipe()
	if pi == nil {
		p.mu.Lock()
		p.open--
		p.retry = now() + int64(pipeRetry)
		p.mu.Unlock()
		p.denied.Add(1)
		return nil
	}
	p.made.Add(1)
	p.used.Add(1)
	return pi
}

// newPipe makes a pipe as large as wanted, or returns nil: a small one, which
// is all that a user over pipe-user-pages-soft gets, would take more calls than
// it saves copying.
func newPipe() *pipe {
	var fds [2]int
	if err := unix.Pipe2(fds[:], unix.O_CLOEXEC|unix.O_NONBLOCK); err != nil {
		return nil
	}
	size, err := unix.FcntlInt(uintptr(fds[1]), unix.F_SETPIPE_SZ, pipeWanted)
	if err != nil {
		size, err = unix.FcntlInt(uintptr(fds[1]), unix.F_SETPIPE_SZ, pipeWanted/4)
	}
	if err != nil {
		unix.Close(fds[0])
		unix.Close(fds[1])
		return nil
	}
	return &pipe{r: fds[0], w: fds[1], slots: size / pageSize}
}

// put takes a pipe back.
func (p *pipePool) put(pi *pipe) {
	p.used.Add(-1)
	if pi.n != 0 {
		p.dropped.Add(1)
		unix.Close(pi.r)
		unix.Close(pi.w)
		p.mu.Lock()
		p.open--
		p.mu.Unlock()
		return
	}
	p.mu.Lock()
	p.free = append(p.free, pi)
	p.mu.Unlock()
}

// trim closes the pipes that nobody has needed since it last ran.
func (p *pipePool) trim() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, pi := range p.free[:p.spare] {
		unix.Close(pi.r)
		unix.Close(pi.w)
		p.open--
	}
	p.free = append(p.free[:0], p.free[p.spare:]...)
	p.spare = len(p.free)
}

// close closes the free pipes and returns how many are still out.
func (p *pipePool) close() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, pi := range p.free {
		unix.Close(pi.r)
		unix.Close(pi.w)
		p.open--
	}
	p.free, p.spare = nil, 0
	return p.used.Load()
}

// PipeStats describes the pool of pipes.
type PipeStats struct {
	Open    int    `json:"open"`
	Max     int    `json:"max"`
	InUse   int64  `json:"in_use"`
	Made    uint64 `json:"made"`
	Dropped uint64 `json:"dropped"` // closed since a reply was abandoned
	Denied  uint64 `json:"denied"`
}

func (p *pipePool) stats() PipeStats {
	p.mu.Lock()
	defer p.mu.Unlock()
	return PipeStats{p.open, p.max, p.used.Load(), p.made.Load(), p.dropped.Load(), p.denied.Load()}
}

// pipePayload is a reply's content in pipes, in order.
type pipePayload struct {
	pool  *pipePool
	pipes [maxChain]*pipe
	next  int // first pipe with bytes in it
	end   int
	left  int
	inUse bool
}

func (p *pipePool) payload() *pipePayload {
	p.mu.Lock()
	var pp *pipePayload
	if l := len(p.payloads); l > 0 {
		pp = p.payloads[l-1]
		p.payloads = p.payloads[:l-1]
	}
	p.mu.Unlock()
	if pp == nil {
		pp = &pipePayload{pool: p}
	}
	pp.inUse = true
	return pp
}

// reserve takes from the pool the pipes that n bytes at off need, and reports
// whether it got them.
func (pp *pipePayload) reserve(off int64, n int) bool {
	for need := pages(off, off+int64(n)); need > 0; {
		if !pp.another() {
			return false
		}
		need -= pp.pipes[pp.end-1].slots
	}
	return true
}

func (pp *pipePayload) another() bool {
	if pp.end == maxChain {
		return false
	}
	pi := pp.pool.get()
	if pi == nil {
		return false
	}
	pp.pipes[pp.end] = pi
	pp.end++
	return true
}

// fill moves up to n bytes of the file at off into pipes and returns how many
// there were; fewer than n is the end of the file. errNoPipe: the pool ran out,
// and what is in the payload is of no use.
func (pp *pipePayload) fill(fd int, off int64, n int) (int, error) {
	if !pp.reserve(off, n) {
		return 0, errNoPipe
	}
	start := off
	for i := 0; n > 0; i++ {
		if i == pp.end && !pp.another() { // pages that came in pieces took more slots
			return 0, errNoPipe
		}
		pi := pp.pipes[i]
		for n > 0 && pi.n < pi.slots*pageSize-(pageSize-1) { // room for a page
			ask := min(n, pi.slots*pageSize-int(off)&(pageSize-1))
			m, err := unix.Splice(fd, &off, pi.w, nil, ask, unix.SPLICE_F_MOVE|unix.SPLICE_F_NONBLOCK)
			if err == unix.EINTR {
				continue
			}
			if err == unix.EAGAIN && pi.n > 0 { // full
				break
			}
			if err != nil && off == start {
				return 0, err
			}
			if err != nil || m == 0 { // an error further on waits for the READ that starts there
				return int(off - start), nil
			}
			pi.n += int(m)
			pp.left += int(m)
			n -= int(m)
		}
	}
	return int(off - start), nil
}

// current returns the first pipe with bytes in it, giving back those before
// it; nil when none has any.
func (pp *pipePayload) current() *pipe {
	for ; pp.next < pp.end; pp.next++ {
		pi := pp.pipes[pp.next]
		if pi.n > 0 {
			return pi
		}
		pp.pool.put(pi)
	}
	return nil
}

// Len returns the bytes left.
func (pp *pipePayload) Len() int { return pp.left }

// Bytes returns false: the bytes are not in this process's memory.
func (pp *pipePayload) Bytes() ([]byte, bool) { return nil, false }

// Advance is for payloads in memory only.
func (pp *pipePayload) Advance(n int) {
	if n != 0 {
		panic("dataio: Advance of a pipe")
	}
}

// SendTo moves what the nonblocking socket takes.
func (pp *pipePayload) SendTo(sock int) (int, error) {
	total := 0
	for pi := pp.current(); pi != nil; pi = pp.current() {
		flags := unix.SPLICE_F_MOVE | unix.SPLICE_F_NONBLOCK
		if pi.n < pp.left {
			flags |= unix.SPLICE_F_MORE
		}
		m, err := unix.Splice(pi.r, nil, sock, nil, pi.n, flags)
		if err == unix.EINTR {
			continue
		}
		if err == nil && m == 0 {
			err = unix.EIO // the pipe holds less than was counted
		}
		if err != nil {
			if total > 0 && err == unix.EAGAIN {
				return total, nil
			}
			return total, err
		}
		pi.n -= int(m)
		pp.left -= int(m)
		total += int(m)
	}
	return total, nil
}

// ReadAll reads the bytes left into dst.
func (pp *pipePayload) ReadAll(dst []byte) (int, error) {
	total := 0
	for pi := pp.current(); pi != nil; pi = pp.current() {
		m, err := unix.Read(pi.r, dst[total:min(len(dst), total+pi.n)])
		if err == unix.EINTR {
			continue
		}
		if err == nil && m == 0 {
			err = unix.EIO // dst has no room, or the pipe holds less than was counted
		}
		if err != nil {
			return total, err
		}
		pi.n -= m
		pp.left -= m
		total += m
	}
	return total, nil
}

// Release gives the pipes back.
func (pp *pipePayload) Release() {
	if !pp.inUse {
		panic("dataio: pipe payload released twice")
	}
	for ; pp.next < pp.end; pp.next++ {
		pp.pool.put(pp.pipes[pp.next])
	}
	*pp = pipePayload{pool: pp.pool}
	pp.pool.mu.Lock()
	pp.pool.payloads = append(pp.pool.payloads, pp)
	pp.pool.mu.Unlock()
}
