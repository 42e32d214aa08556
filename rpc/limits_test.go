// Limits that change while calls are in flight.

package rpc

import (
	"testing"
	"time"
)

// TestFewerAndMoreSlowThreads: with fewer threads allowed, those that are too
// many answer what they run and end; with more, calls that wait run at once.
func TestFewerAndMoreSlowThreads(t *testing.T) {
	ts := start(t, func(c *Config) { c.SlowThreads = 8 })
	var peers []*peerConn
	for range 5 {
		p := ts.dial(t)
		p.send(burst(1, 10, procGate))
		peers = append(peers, p)
	}
	// One thread may be kept for a newcomer, as lanes come to be served.
	eventually(t, "the threads are taken", func() bool { return ts.slowRunning() >= 7 })
	ts.SetLimits(Limits{SlowThreads: 12})
	eventually(t, "more run", func() bool { return ts.slowRunning() > 8 })
	running := ts.slowRunning()
	ts.SetLimits(Limits{SlowThreads: 2})
	if n := ts.slowRunning(); n < running {
		t.Errorf("%d calls run, of %d", n, running)
	}
	ts.openGate()
	for _, p := range peers {
		p.expect(1, 10)
		p.alive()
	}
	eventually(t, "the others end", func() bool { st := ts.Stats(); return st.SlowThreads <= 2 && st.SlowRunning == 0 })
	// Threads that sleep end too.
	ts.SetLimits(Limits{SlowThreads: 6})
	for i, p := range peers {
		p.send(burst(uint32(100*i), 4, procSleep, 20))
	}
	for i, p := range peers {
		p.expect(uint32(100*i), 4)
	}
	ts.SetLimits(Limits{SlowThreads: 1})
	eventually(t, "one is left", func() bool { return ts.Stats().SlowThreads <= 1 })
	peers[0].send(burst(1000, 3, procSleep, 0))
	peers[0].expect(1000, 3)
}

// TestMoreInFlight: a connection that waits at its limit goes on when that is raised.
func TestMoreInFlight(t *testing.T) {
	ts := start(t, func(c *Config) { c.MaxInFlight, c.SlowThreads = 4, 2 })
	p := ts.dial(t)
	p.send(burst(1, 40, procGate))
	inFlight := func() int { return ts.Connections()[0].InFlight }
	eventually(t, "four are in flight", func() bool { return inFlight() == 4 })
	ts.SetLimits(Limits{MaxInFlight: 20})
	eventually(t, "twenty are", func() bool { return inFlight() == 20 })
	ts.SetLimits(Limits{MaxInFlight: 2})
	ts.openGate()
	p.expect(1, 40)
	p.alive()
}

// TestLimitsUnderLoad changes every limit again and again while connections
// call: each gets all its answers.
func TestLimitsUnderLoad(t *testing.T) {
	ts := start(t, func(c *Config) { c.SlowThreads = 8 })
	stop, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for i := 1; ; i++ {
			select {
			case <-stop:
				return
			case <-time.After(time.Millisecond):
			}
			ts.SetLimits(Limits{SlowThreads: 1 + i*5%16, MaxInFlight: 1 + i*7%64, MaxQueuedPerConn: 1 << (10 + i%10)})
		}
	}()
	var peers []*peerConn
	for range 4 {
		peers = append(peers, ts.dial(t))
	}
	for i := range uint32(20) {
		for _, p := range peers {
			p.send(burst(1+100*i, 50, procSleep, 0))
		}
		for _, p := range peers {
			p.expect(1+100*i, 50)
		}
	}
	close(stop)
	<-ended
}
