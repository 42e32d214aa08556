package rpc

import (
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"
)

// The replies to the first half of a burst do not wait for the second, when a
// thread is free.
func TestHalfABurstLeavesEarly(t *testing.T) {
	ts := start(t, nil)
	p := ts.dial(t)
	p.alive()
	eventually(t, "both threads wait", func() bool { return ts.waiting.Load() == 2 })
	b := burst(1, 2, procEcho, 0)
	b = append(b, record(3, procBlock)...)
	p.send(append(b, record(4, procEcho, 0)...))
	p.expect(1, 2) // or for ever: call 3 waits for the gate
	ts.openGate()
	p.expect(3, 2)
}

// For a client on this host congestion control has nothing to do, and pacing
// would only slow it down.
func TestCongestionControlWithinHost(t *testing.T) {
	var fd atomic.Int64
	ts := start(t, func(c *Config) { c.OnConnect = func(c *Conn) { fd.Store(int64(c.fd)) } })
	p := ts.dial(t)
	p.alive()
	name, err := unix.GetsockoptString(int(fd.Load()), unix.IPPROTO_TCP, unix.TCP_CONGESTION)
	if err != nil || name != "reno" {
		t.Errorf("loopback uses %q (%v)", name, err)
	}
}

// Looking in vain makes a thread look less often; an event makes it look again
// at once.
func TestLingerBacksOff(t *testing.T) {
	s := &Server{}
	var err error
	if s.poll, err = newPoller(); err != nil {
		t.Fatal(err)
	}
	defer unix.Close(s.poll.fd)
	th := &service{}
	th.srv = s

	if th.linger(); th.vain != 0 {
		t.Error("it lingers though no core is free: nobody waits")
	}
	s.waiting.Store(1)
	looked := 0
	for range 24 {
		before := th.vain
		out := th.sitOut
		if th.linger() {
			t.Fatal("an event out of nothing")
		}
		if out == 0 {
			looked++
			if th.vain < before || th.vain > maxSitOut {
				t.Errorf("after a look in vain %d waits are left out, before it %d", th.vain, before)
			}
		}
	}
	if looked != 5 { // in waits 1, 3, 7 and 15, then in each eighth
		t.Errorf("%d looks in 24 waits without events", looked)
	}

	fd, err := unix.Eventfd(1, unix.EFD_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	ev := event(unix.EPOLLIN, 1, 1)
	if e := s.poll.ctl(unix.EPOLL_CTL_ADD, fd, &ev); e != 0 {
		t.Fatal(e)
	}
	th.sitOut = 0
	if !th.linger() || th.vain != 0 || th.sitOut != 0 {
		t.Errorf("an event: vain %d, sitting out %d", th.vain, th.sitOut)
	}
}
