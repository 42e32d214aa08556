package portmap

import (
	"context"
	"net"
	"net/netip"
	"strings"
	"syscall"
	"testing"
	"time"
)

var (
	nfsProgs = []Program{{ProgNFS, []uint32{3}}, {ProgMount, []uint32{1, 2, 3}}}
	served   = Mappings(nfsProgs, []netip.AddrPort{netip.MustParseAddrPort("[::]:12049")})
)

func register(t *testing.T, log *logBuffer, cfg RegistrarConfig) *Registrar {
	t.Helper()
	cfg.Mappings, cfg.Log = served, log.logger()
	cfg.Poll, cfg.Timeout = 50*time.Millisecond, 500*time.Millisecond
	r := Register(cfg)
	t.Cleanup(func() { closeRegistrar(t, r) })
	return r
}

func closeRegistrar(t *testing.T, r *Registrar) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if err := r.Close(ctx); err != nil {
		t.Errorf("Close: %v", err)
	}
}

// Registered in rpcbind as every other program sees it, registered again when
// rpcbind has been started again, and gone after Close.
func TestRegister(t *testing.T) {
	bind := startRpcbind(t)
	var log logBuffer
	r := register(t, &log, RegistrarConfig{})
	check := func() {
		t.Helper()
		out := rpcinfo(t, "-p", "127.0.0.1")
		for _, want := range [][]string{
			{"100003", "3", "tcp", "12049"}, {"100005", "1", "tcp", "12049"},
			{"100005", "2", "tcp", "12049"}, {"100005", "3", "tcp", "12049"},
		} {
			if !fields(out, want...) {
				t.Errorf("version 2 does not list %v:\n%s", want, out)
			}
		}
		out = rpcinfo(t)
		for _, want := range [][]string{{"100003", "3", "tcp6", "::.47.17"}, {"100005", "3", "tcp6", "::.47.17"}} {
			if !fields(out, want...) {
				t.Errorf("version 4 does not list %v:\n%s", want, out)
			}
		}
	}
	if st := r.Status(); !st.Reachable || st.Registered != len(served) || st.Err != nil {
		t.Fatalf("after Register: %+v", st)
	}
	check()

	stopRpcbind(bind)
	waitFor(t, "the loss of rpcbind to be seen", func() bool { return !r.Status().Reachable })
	startRpcbind(t)
	waitFor(t, "a new registration", func() bool { return r.Status().Registered == len(served) })
	check()
	if n := log.lines("registered with rpcbind"); n != 2 {
		t.Errorf("%d log lines about registering, want 2:\n%s", n, log.String())
	}

	closeRegistrar(t, r)
	if out := rpcinfo(t, "-p", "127.0.0.1"); strings.Contains(out, "12049") {
		t.Errorf("still registered after Close:\n%s", out)
	}
}

// Without the Unix socket, over loopback TCP from a reserved port.
func TestRegisterOverTCP(t *testing.T) {
	startRpcbind(t)
	var log logBuffer
	r := register(t, &log, RegistrarConfig{Socket: "/nonexistent"})
	if st := r.Status(); !st.Reachable || st.Registered != len(served)/2 || st.Err != nil {
		t.Fatalf("version 2 holds the IPv4 half of %d mappings; status %+v\n%s", len(served), st, log.String())
	}
	if out := rpcinfo(t, "-p", "127.0.0.1"); !fields(out, "100005", "3", "tcp", "12049") {
		t.Errorf("not registered:\n%s", out)
	}
	closeRegistrar(t, r)
	if out := rpcinfo(t, "-p", "127.0.0.1"); strings.Contains(out, "12049") {
		t.Errorf("still registered after Close:\n%s", out)
	}
}

// No rpcbind: one line in the log, no delay, and a registration when it comes.
func TestRegisterWithout(t *testing.T) {
	var log logBuffer
	start := time.Now()
	r := register(t, &log, RegistrarConfig{})
	if d := time.Since(start); d > 5*time.Second {
		t.Errorf("Register took %v", d)
	}
	time.Sleep(300 * time.Millisecond) // several rounds
	if n := log.lines(""); r.Status().Reachable || strings.Count(log.String(), "\n") != 1 {
		t.Fatalf("want one line in the log, and rpcbind not reachable (%d):\n%s", n, log.String())
	}
	startRpcbind(t)
	waitFor(t, "the registration", func() bool { return r.Status().Registered == len(served) })
}

// An rpcbind that hangs costs the time-out once, not once for each call.
func TestRegisterHanging(t *testing.T) {
	bind := startRpcbind(t)
	bind.Process.Signal(syscall.SIGSTOP)
	var log logBuffer
	start := time.Now()
	r := register(t, &log, RegistrarConfig{})
	if d := time.Since(start); d > 3*time.Second {
		t.Errorf("Register took %v with a time-out of 500 ms", d)
	}
	if r.Status().Reachable {
		t.Errorf("a stopped rpcbind counts as reachable: %+v", r.Status())
	}
	bind.Process.Signal(syscall.SIGCONT)
	waitFor(t, "the registration", func() bool { return r.Status().Registered == len(served) })

	bind.Process.Signal(syscall.SIGSTOP)
	start = time.Now()
	closeRegistrar(t, r)
	if d := time.Since(start); d > 3*time.Second {
		t.Errorf("Close took %v with a time-out of 500 ms", d)
	}
}

// Another server that lives keeps its registration; a dead one's is replaced;
// and what another has taken over meanwhile is not withdrawn.
func TestRegisterBesideOthers(t *testing.T) {
	startRpcbind(t)
	other := startNull(t, "0.0.0.0:0", nfsProgs[0])
	b, err := dial(DefaultSocket, DefaultTCP, time.Second)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	put := func(prog, vers uint32, port uint16) {
		t.Helper()
		m := Mapping{Prog: prog, Vers: vers, Netid: NetTCP, Owner: ownerSuperuser,
			Addr: netip.AddrPortFrom(netip.IPv4Unspecified(), port)}
		if _, err := b.unset(m); err != nil {
			t.Fatal(err)
		}
		if ok, err := b.set(m); err != nil || !ok {
			t.Fatalf("set: %v, %v", ok, err)
		}
	}
	ln, err := net.Listen("tcp4", "127.0.0.1:0") // a port where nobody will be
	if err != nil {
		t.Fatal(err)
	}
	dead := ln.Addr().(*net.TCPAddr).AddrPort().Port()
	ln.Close()
	put(ProgNFS, 3, other.Port())   // lives
	put(ProgMount, 3, dead)         // does not
	put(ProgMount, 1, other.Port()) // a port that is somebody else's now: no MOUNT there

	var log logBuffer
	r := register(t, &log, RegistrarConfig{})
	if st := r.Status(); st.Taken != 1 || st.Registered != len(served)-1 {
		t.Fatalf("status %+v\n%s", st, log.String())
	}
	out := rpcinfo(t, "-p", "127.0.0.1")
	if !fields(out, "100005", "3", "tcp", "12049") || !fields(out, "100005", "1", "tcp", "12049") {
		t.Errorf("a dead server's registration was not replaced:\n%s", out)
	}
	if log.lines("another NFS server") != 1 {
		t.Errorf("no word about the other server:\n%s", log.String())
	}
	put(ProgMount, 2, other.Port()) // taken over from us
	closeRegistrar(t, r)
	out = rpcinfo(t, "-p", "127.0.0.1")
	if strings.Contains(out, "12049") {
		t.Errorf("still registered after Close:\n%s", out)
	}
	if !fields(out, "100003", "3", "tcp") || !fields(out, "100005", "2", "tcp") {
		t.Errorf("another server's registration was withdrawn:\n%s", out)
	}
}
