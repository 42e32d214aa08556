// A place for threads to sleep in that are not needed just now.
//
// They sleep in the kernel, on a futex each, and not in the Go scheduler:
// waking a goroutine that is locked to its thread takes the scheduler two
// threads and twice the time. Who came last is woken first, so that what is
// warm stays so and threads that are not needed notice it.

package rpc

import (
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// sleeper is one thread's bed. It lies on the heap.
type sleeper struct {
	woken atomic.Uint32
	limit unix.Timespec // of the present sleep
}

type parker struct {
	mu    sync.Mutex
	stack []*sleeper
}

// enter announces that the calling thread is about to sleep, so that wake
// finds it. The caller holds the lock under which it found nothing to do.
func (p *parker) enter(s *sleeper) {
	s.woken.Store(0)
	p.mu.Lock()
	p.stack = append(p.stack, s)
	p.mu.Unlock()
}

// sleep waits to be woken; false when that took longer than max.
func (p *parker) sleep(s *sleeper, max time.Duration) bool {
	deadline := time.Now().Add(max)
	for s.woken.Load() == 0 {
		left := time.Until(deadline)
		if left <= 0 {
			if p.leave(s) {
				return false
			}
			left = time.Second // being woken just now
		}
		s.wait(left)
	}
	return true
}

func (p *parker) leave(s *sleeper) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, x := range p.stack {
		if x == s {
			p.stack = append(p.stack[:i], p.stack[i+1:]...)
			return true
		}
	}
	return false
}

// wake wakes one thread; false when none sleeps.
func (p *parker) wake() bool {
	p.mu.Lock()
	n := len(p.stack)
	if n == 0 {
		p.mu.Unlock()
		return false
	}
	s := p.stack[n-1]
	p.stack = p.stack[:n-1]
	p.mu.Unlock()
	s.woken.Store(1)
	futexWake(&s.woken)
	return true
}

const (
	futexWaitPrivate = 0 | 128
	futexWakePrivate = 1 | 128
)

// wait sleeps while s is not woken, for at most d.
func (s *sleeper) wait(d time.Duration) {
	s.limit = unix.NsecToTimespec(int64(d))
	unix.Syscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(&s.woken)), futexWaitPrivate, 0, uintptr(unsafe.Pointer(&s.limit)), 0, 0)
}

func futexWake(a *atomic.Uint32) {
	unix.RawSyscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(a)), futexWakePrivate, 1, 0, 0, 0)
}
