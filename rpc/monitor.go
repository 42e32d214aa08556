// The monitor: what if a procedure sleeps on a service thread after all, in a
// cold directory or because there are too many dirty pages?
//
// When all service threads are busy, it looks at them every millisecond. One
// that runs the same procedure as at the last look, and sleeps, is replaced at
// epoll by a spare thread, and becomes a spare when it gets back; when there is
// no spare it may be the one itself. As long as a thread waits for events
// nobody is kept from service, and the monitor sleeps: a server that is idle,
// or has one busy client and two cores, pays nothing for it.

package rpc

import (
	"bytes"
	"runtime"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

const (
	lookEvery = int64(time.Millisecond)
	spareIdle = time.Minute
	calmTicks = 4 // the monitor sleeps after so many looks at threads that wait
)

type monitor struct {
	bed   sleeper
	armed atomic.Bool
	stop  atomic.Bool
	owed  bool // a thread was told that it is replaced, and is not yet
}

// arm is called when the last waiting thread gets to work.
func (m *monitor) arm() {
	if !m.armed.Load() && m.armed.CompareAndSwap(false, true) {
		m.bed.woken.Store(1)
		futexWake(&m.bed.woken)
	}
}

// run is the monitor's thread.
func (m *monitor) run(s *Server) {
	defer s.threads.Done()
	runtime.LockOSThread()
	calm, pause := 0, new(unix.Timespec)
	*pause = unix.NsecToTimespec(lookEvery)
	for !m.stop.Load() {
		if !m.armed.Load() {
			m.bed.wait(time.Hour)
			m.bed.woken.Store(0)
			calm = 0
			continue
		}
		nanosleep(pause)
		if s.waiting.Load() > 0 && !m.owed {
			if calm++; calm >= calmTicks {
				m.armed.Store(false)
				if s.waiting.Load() == 0 {
					m.armed.Store(true) // the last one went to work just now
				}
			}
			continue
		}
		calm = 0
		s.relieve()
	}
}

// halt ends the monitor's thread.
func (m *monitor) halt() {
	m.stop.Store(true)
	m.armed.Store(true)
	m.bed.woken.Store(1)
	futexWake(&m.bed.woken)
}

// relieve replaces the service threads that run the same procedure as when the
// monitor looked last. A thread learns of it when that procedure ends, and one
// whose procedure has just ended is left alone: there are always as many
// threads at epoll, or on their way, as there should be.
func (s *Server) relieve() {
	for _, t := range *s.services.Load() {
		if s.mon.owed && !s.replace() {
			return // no more spares: the stuck ones must do
		}
		at := t.running.Load()
		stuck := at != 0 && at == t.seen
		t.seen = at
		if stuck && at&taken == 0 && asleep(int(t.tid.Load())) {
			s.mon.owed = t.running.CompareAndSwap(at, at|taken)
		}
	}
	if s.mon.owed {
		s.replace()
	}
}

// replace has a spare thread take a place at epoll.
func (s *Server) replace() bool {
	if !s.spares.wake() && !s.startSpare() {
		return false
	}
	s.mon.owed = false
	s.nreplaced.Add(1)
	return true
}

// asleep reports whether a thread sleeps, or may do so. One that computes, or
// waits for a core on a busy machine, would only get a rival.
func asleep(tid int) bool {
	var buf [256]byte
	fd, err := unix.Open("/proc/self/task/"+strconv.Itoa(tid)+"/stat", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return true
	}
	defer unix.Close(fd)
	n, err := unix.Read(fd, buf[:])
	if err != nil {
		return true
	}
	// The state follows the name, which may hold anything but ends with the last parenthesis.
	at := bytes.LastIndex(buf[:n], []byte(") "))
	return at < 0 || at+2 >= n || buf[at+2] != 'R'
}

// spare lays a replaced thread to rest until it is needed again; false when it
// should end.
func (s *Server) spare(t *service, bed *sleeper) bool {
	s.pool.giveBack(t.pocket)
	t.pocket = 0
	s.spares.enter(bed)
	if s.stopping.Load() {
		s.spares.wake()
	}
	if !s.spares.sleep(bed, spareIdle) {
		return false
	}
	t.replaced = false
	return !s.stopping.Load()
}

// startSpare starts another service thread if there may be one.
func (s *Server) startSpare() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(*s.services.Load()) < s.cfg.Threads+s.cfg.SpareThreads && s.startLocked()
}

// startService starts a service thread in the place of one that ends.
func (s *Server) startService() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.startLocked()
}

func (s *Server) startLocked() bool {
	if s.stopping.Load() {
		return false
	}
	t := new(service)
	list := append(slices.Clone(*s.services.Load()), t)
	s.services.Store(&list)
	s.threads.Add(1)
	go t.run(s)
	return true
}

// dismiss takes an ending service thread off the list.
func (s *Server) dismiss(t *service) {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := slices.DeleteFunc(slices.Clone(*s.services.Load()), func(x *service) bool { return x == t })
	s.services.Store(&list)
}
