package rpc

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestShutdownFinishesCalls: what was begun is answered, nothing new is begun.
func TestShutdownFinishesCalls(t *testing.T) {
	ts := start(t, nil)
	p, idle := ts.dial(t), ts.dial(t)
	idle.alive()
	p.send(append(burst(1, 4, procLater, kindPipe, 1<<20), burst(5, 4, procLater, kindMemory, 1<<20)...))
	eventually(t, "the calls run", func() bool { return ts.asleep.Load() == 8 })
	done := make(chan error, 1)
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), 15*time.Second)
		defer cancel()
		done <- ts.Shutdown(ctx)
	}()
	idle.closed()
	if _, err := net.Dial("tcp", ts.addr); err == nil {
		t.Error("connections are still accepted")
	}
	p.send(record(100, procNull))
	select {
	case err := <-done:
		t.Fatalf("shut down with calls in flight: %v", err)
	case <-time.After(20 * time.Millisecond):
	}
	ts.openGate()
	time.Sleep(20 * time.Millisecond) // let the replies queue up
	p.reads(1, 8, 1<<20)
	p.closed()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// TestShutdownAfterReset: a client that is gone takes nothing more, and is not
// waited for.
func TestShutdownAfterReset(t *testing.T) {
	for range 20 {
		ts := start(t, nil)
		p := ts.dial(t)
		p.send(burst(1, 4, procMay, 1))
		q := ts.dial(t)
		q.send(burst(1, 3, procRead, kindMemory, 1<<20))
		p.Conn.(*net.TCPConn).SetLinger(0)
		q.Conn.(*net.TCPConn).SetLinger(0)
		done := make(chan error, 1)
		go func() {
			ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
			defer cancel()
			done <- ts.Shutdown(ctx)
		}()
		p.Close()
		q.Close()
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	}
}

func TestShutdownGivesUp(t *testing.T) {
	ts := start(t, nil)
	p := ts.dial(t)
	p.send(append(record(1, procGate), record(2, procBlock)...))
	eventually(t, "the calls run", func() bool { return ts.asleep.Load() == 2 })
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	if err := ts.Shutdown(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("shutdown: %v", err)
	}
	p.closed()
	ts.openGate()
	eventually(t, "the threads end", func() bool { return ts.local.Load() == 0 && ts.Stats().SlowThreads == 0 && ts.pool.used.Load() == 0 })
	eventually(t, "the descriptors are closed", func() bool {
		_, err := unix.FcntlInt(uintptr(ts.poll.fd), unix.F_GETFD, 0)
		return err != nil
	})
}

func TestConnectionLimit(t *testing.T) {
	var refused atomic.Int64
	ts := start(t, func(c *Config) {
		c.MaxConns = 3
		c.Observer = &observer{reject: func(r Reason) {
			if r == ReasonConnLimit {
				refused.Add(1)
			}
		}}
	})
	var peers []*peerConn
	for range 3 {
		p := ts.dial(t)
		p.alive()
		peers = append(peers, p)
	}
	for range 5 {
		ts.dial(t).closed()
	}
	for _, p := range peers {
		p.alive()
	}
	if refused.Load() != 5 || !strings.Contains(ts.log.String(), "the limit is reached") {
		t.Errorf("%d refused; log: %s", refused.Load(), ts.log.String())
	}
	peers[0].Close()
	eventually(t, "there is room", func() bool { return ts.Stats().Conns == 2 })
	ts.dial(t).alive()
}

// TestOutOfDescriptors: a client that comes then waits, and is served later.
func TestOutOfDescriptors(t *testing.T) {
	ts := start(t, nil)
	before := ts.dial(t)
	before.alive()
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	var lim unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &lim); err != nil {
		t.Fatal(err)
	}
	least, err := unix.FcntlInt(0, unix.F_DUPFD_CLOEXEC, 0) // the lowest free number
	if err != nil {
		t.Fatal(err)
	}
	unix.Close(least)
	low := lim
	low.Cur = uint64(least)
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &low); err != nil {
		t.Fatal(err)
	}
	defer unix.Setrlimit(unix.RLIMIT_NOFILE, &lim)
	addr := netip.MustParseAddrPort(ts.addr)
	if err := unix.Connect(fd, &unix.SockaddrInet4{Port: int(addr.Port()), Addr: addr.Addr().As4()}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "accept fails", func() bool { return ts.rejects[ReasonDescriptors].Load() > 1 })
	before.alive()
	unix.Setrlimit(unix.RLIMIT_NOFILE, &lim)
	if _, err := unix.Write(fd, record(1, procNull)); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, 28)
	for n := 0; n < len(got); {
		k, err := unix.Read(fd, got[n:])
		if err != nil || k == 0 {
			t.Fatalf("read %d, %v", k, err)
		}
		n += k
	}
	if !bytes.Equal(got[4:], success(1)) {
		t.Errorf("got % x", got)
	}
}

func TestIdleTimeout(t *testing.T) {
	ts := start(t, func(c *Config) { c.IdleTimeout = time.Minute })
	idle, half, active := ts.dial(t), ts.dial(t), ts.dial(t)
	idle.alive()
	half.send(record(1, procNull)[:20])
	active.send(record(1, procGate))
	eventually(t, "all is read", func() bool { return ts.asleep.Load() == 1 && ts.pool.live.Load() == 2 })
	ts.sweep(ts.Now() + int64(50*time.Second))
	idle.alive()
	eventually(t, "the idle ones are closed", func() bool {
		ts.sweep(ts.Now() + int64(61*time.Second))
		return ts.Stats().Conns == 1
	})
	idle.closed()
	half.closed()
	ts.openGate()
	active.expect(1, 1)
	active.alive()
}

type observer struct {
	call    func(*Call, int64, int, int)
	reject  func(Reason)
	connect func(*Conn)
	leave   func(*Conn, string)
}

func (o *observer) Call(c *Call, ns int64, in, out int) {
	if o.call != nil {
		o.call(c, ns, in, out)
	}
}
func (o *observer) Reject(r Reason) {
	if o.reject != nil {
		o.reject(r)
	}
}
func (o *observer) Connect(c *Conn) {
	if o.connect != nil {
		o.connect(c)
	}
}
func (o *observer) Disconnect(c *Conn, why string) {
	if o.leave != nil {
		o.leave(c, why)
	}
}

func TestObserver(t *testing.T) {
	var mu sync.Mutex
	var log []string
	note := func(s string) { mu.Lock(); log = append(log, s); mu.Unlock() }
	ts := start(t, func(c *Config) {
		c.OnConnect = func(c *Conn) { c.Data = c.ID() }
		c.Observer = &observer{
			call: func(c *Call, ns int64, in, out int) {
				if ns < 0 || c.Conn.Data != c.Conn.ID() || c.Prog != testProg || c.Vers != testVers {
					note("odd")
				}
				if c.Proc == procEcho && in == len(withOpaque(1, procEcho, be(1, 2))) && out == 28+12 {
					note("echo")
				} else {
					note("call")
				}
			},
			reject:  func(r Reason) { note(r.String()) },
			connect: func(c *Conn) { note("connect") },
			leave:   func(c *Conn, why string) { note("leave: " + why) },
		}
	})
	p := ts.dial(t)
	p.alive()
	p.send(withOpaque(1, procEcho, be(1, 2)))
	p.recv()
	p.send(record(1, 99))
	p.recv()
	if l := ts.Connections(); len(l) != 1 || l[0].Calls != 3 || l[0].BytesIn == 0 || l[0].BytesOut == 0 ||
		l[0].Peer.String() != p.LocalAddr().String() || l[0].Local.String() != ts.addr || l[0].Since.IsZero() {
		t.Errorf("%+v", l)
	}
	p.Close()
	eventually(t, "it left", func() bool { mu.Lock(); defer mu.Unlock(); return len(log) == 5 })
	if got := strings.Join(log, ", "); got != "connect, call, echo, proc_unavail, leave: closed by the client" {
		t.Error(got)
	}
}

func TestSeveralListeners(t *testing.T) {
	ts := start(t, nil)
	a, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv6loopback})
	if err != nil {
		t.Skipf("no IPv6 loopback address here: %v", err)
	}
	b, err := net.ListenTCP("tcp", &net.TCPAddr{})
	if err != nil {
		t.Fatal(err)
	}
	addrs := []string{a.Addr().String(), b.Addr().String()}
	served := make(chan error, 1)
	go func(lns ...*net.TCPListener) { served <- ts.Serve(lns...) }(a, b)
	runtime.GC() // the listeners must stay open without us
	for _, addr := range addrs {
		nc, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		p := &peerConn{nc, t}
		p.alive()
		for _, c := range ts.Connections() {
			if c.Peer.Addr().Is4In6() {
				t.Errorf("an IPv4 peer is %s", c.Peer)
			}
		}
		nc.Close()
	}
	if err := ts.Shutdown(context.Background()); err != nil {
		t.Error(err)
	}
	if err := <-served; err != nil {
		t.Error(err)
	}
	ln, _ := net.ListenTCP("tcp", nil)
	if err := ts.Serve(ln); err != nil {
		t.Errorf("after shutdown: %v", err)
	}
	if _, err := ln.Accept(); err == nil {
		t.Error("a listener given after shutdown stays open")
	}
}

func TestConfigErrors(t *testing.T) {
	one := []Version{{Vers: 1}}
	for _, tc := range []struct {
		cfg  Config
		want string
	}{
		{Config{Threads: -1}, "negative"},
		{Config{MaxRecord: 100}, "record limit"},
		{Config{RecordMemory: 1 << 20}, "too few"},
		{Config{Programs: []Program{{Prog: 1, Versions: one}, {Prog: 1, Versions: one}}}, "twice"},
		{Config{Programs: []Program{{Prog: 1}}}, "no version"},
	} {
		if s, err := NewServer(tc.cfg); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%v, want %q", err, tc.want)
			if err == nil {
				s.Shutdown(context.Background())
			}
		}
	}
}

// TestManyClients mixes everything for a while.
func TestManyClients(t *testing.T) {
	ts := start(t, func(c *Config) { c.MaxQueuedPerConn = 128 << 10 })
	var wg sync.WaitGroup
	for i := range 16 {
		wg.Go(func() {
			for j := range 8 {
				p := ts.dial(t)
				data := pattern(uint64(i), 1000*j)
				var sent sync.WaitGroup
				sent.Go(func() {
					for k := range uint32(40) {
						switch k % 5 {
						case 0:
							p.Write(withOpaque(k, procEcho, data))
						case 1:
							p.Write(record(k, procRead, k/5%2, 20_000*uint32(j)))
						case 2:
							p.Write(record(k, procMay, 0))
						case 3:
							p.Write(fragment(withOpaque(k, procSink, pattern(1, 30_000*j))[4:], 7, 0, 10_000))
						case 4:
							p.Write(record(k, procCount, k%2, uint32(i), uint32(j)))
						}
					}
				})
				if j%3 == 2 { // leave in the middle
					io.CopyN(io.Discard, p, int64(10_000*j))
				} else {
					p.expect(0, 40)
				}
				p.Close()
				sent.Wait()
			}
		})
	}
	wg.Wait()
	eventually(t, "all are gone", func() bool { return ts.Stats().Conns == 0 })
}
