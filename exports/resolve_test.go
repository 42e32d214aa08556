// Tests of the system's resolver: a DNS server and a getent of our own, both of which can hang, and the real getent over a
// netgroup file in a mount namespace of its own.

package exports

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// dnsServer answers A and PTR questions on a loopback port.
type dnsServer struct {
	mu      sync.Mutex
	a, ptr  map[string]string // "host.test" -> "10.0.0.1", and back
	mode    atomic.Int32
	queries atomic.Int64
}

const (
	dnsAnswer = iota
	dnsFail
	dnsSilent
)

func startDNS(t *testing.T) (*dnsServer, *net.Resolver) {
	t.Helper()
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	d := &dnsServer{a: make(map[string]string), ptr: make(map[string]string)}
	done := make(chan struct{})
	go func() {
		defer close(done)
		buf := make([]byte, 1500)
		for {
			n, from, err := conn.ReadFrom(buf)
			if err != nil {
				return
			}
			d.queries.Add(1)
			if d.mode.Load() != dnsSilent {
				_, _ = conn.WriteTo(d.reply(buf[:n]), from)
			}
		}
	}()
	t.Cleanup(func() {
		conn.Close()
		<-done
	})
	addr := conn.LocalAddr().String()
	return d, &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		var dialer net.Dialer
		return dialer.DialContext(ctx, "udp", addr)
	}}
}

func (d *dnsServer) add(name, addr string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.a[name] = addr
	b := netip.MustParseAddr(addr).As4()
	d.ptr[fmt.Sprintf("%d.%d.%d.%d.in-addr.arpa", b[3], b[2], b[1], b[0])] = name
}

// reply builds the answer to one question (RFC 1035 section 4).
func (d *dnsServer) reply(q []byte) []byte {
	var labels []string
	p := 12
	for q[p] != 0 {
		labels = append(labels, string(q[p+1:p+1+int(q[p])]))
		p += 1 + int(q[p])
	}
	end := p + 5
	qtype := binary.BigEndian.Uint16(q[p+1:])
	name := strings.ToLower(strings.Join(labels, "."))
	out := append([]byte{q[0], q[1], 0x81, 0x80, 0, 1, 0, 0, 0, 0, 0, 0}, q[12:end]...)
	if d.mode.Load() == dnsFail {
		out[3] |= 2 // SERVFAIL
		return out
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	var data []byte
	switch {
	case qtype == 1 && d.a[name] != "":
		b := netip.MustParseAddr(d.a[name]).As4()
		data = b[:]
	case qtype == 12 && d.ptr[name] != "":
		for l := range strings.SplitSeq(d.ptr[name], ".") {
			data = append(append(data, byte(len(l))), l...)
		}
		data = append(data, 0)
	case d.a[name] == "" && d.ptr[name] == "":
		out[3] |= 3 // NXDOMAIN
		return out
	default:
		return out // no record of that type
	}
	out[7] = 1
	out = append(out, 0xc0, 12, 0, byte(qtype), 0, 1, 0, 0, 0, 60, 0, byte(len(data)))
	return append(out, data...)
}

// fakeGetent writes a script that stands in for getent.
func fakeGetent(t *testing.T, script string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "getent")
	if err := os.WriteFile(name, []byte("#!/bin/sh\n"+script), 0o755); err != nil {
		t.Fatal(err)
	}
	return name
}

// clock is a settable time for cache lifetimes.
type clock struct{ offset atomic.Int64 }

func (c *clock) now() time.Time          { return time.Now().Add(time.Duration(c.offset.Load())) }
func (c *clock) advance(d time.Duration) { c.offset.Add(int64(d)) }

func newTestResolver(t *testing.T, cfg ResolverConfig) (*SystemResolver, *clock) {
	t.Helper()
	r := NewSystemResolver(cfg)
	c := &clock{}
	r.now = c.now
	t.Cleanup(func() {
		for deadline := time.Now().Add(10 * time.Second); r.Stats().Running > 0; time.Sleep(time.Millisecond) {
			if time.Now().After(deadline) {
				t.Error("lookups still run")
				return
			}
		}
	})
	return r, c
}

func TestResolverDNS(t *testing.T) {
	dns, res := startDNS(t)
	dns.add("one.test", "10.77.0.1")
	dns.add("two.test", "10.77.0.2")
	r, clock := newTestResolver(t, ResolverConfig{Net: res})
	s := mustParse(t, "/a one.test(anonuid=1) *.test(anonuid=2)")
	e := s.Get("/a")
	check := func(addr string, want uint32) {
		t.Helper()
		o, ok := s.Match(e, netip.MustParseAddr(addr), r)
		if ok != (want != 0) || o.AnonUID != want {
			t.Errorf("%s: %d %v, want %d", addr, o.AnonUID, ok, want)
		}
	}
	check("10.77.0.1", 1)
	check("10.77.0.2", 2)
	check("10.77.0.3", 0)
	n := dns.queries.Load()
	check("10.77.0.1", 1)
	check("10.77.0.2", 2)
	check("10.77.0.3", 0)
	if dns.queries.Load() != n {
		t.Error("a fresh answer was looked up again")
	}

	// one.test moves; the change counts once the old answer is due. Until then the new address's name does not lead back.
	dns.add("one.test", "10.77.0.9")
	check("10.77.0.9", 0)
	check("10.77.0.1", 1)
	clock.advance(2 * r.TTL())
	check("10.77.0.9", 1)
	check("10.77.0.1", 0)
}

func TestResolverTTL(t *testing.T) {
	dns, res := startDNS(t)
	dns.add("one.test", "10.77.0.1")
	r, clock := newTestResolver(t, ResolverConfig{Net: res})
	first := r.LookupHost("one.test")
	dns.add("one.test", "10.77.0.9")
	if again := r.LookupHost("ONE.test."); len(first) != 1 || again[0] != first[0] {
		t.Fatal("not from memory")
	}
	clock.advance(r.TTL() + time.Second)
	if got := r.LookupHost("one.test"); len(got) != 1 || got[0].String() != "10.77.0.9" {
		t.Errorf("after the TTL: %v", got)
	}
	dns.add("one.test", "10.77.0.10")
	r.Flush()
	if got := r.LookupHost("one.test"); len(got) != 1 || got[0].String() != "10.77.0.10" {
		t.Errorf("after Flush: %v", got)
	}

	// What does not exist is asked again sooner.
	if got := r.LookupHost("new.test"); got != nil {
		t.Errorf("new.test: %v", got)
	}
	dns.add("new.test", "10.77.0.11")
	clock.advance(11 * time.Second)
	if got := r.LookupHost("new.test"); len(got) != 1 {
		t.Errorf("new.test is not seen after the negative TTL")
	}
}

func TestResolverOutage(t *testing.T) {
	dns, res := startDNS(t)
	dns.add("one.test", "10.77.0.1")
	var reported atomic.Int64
	r, clock := newTestResolver(t, ResolverConfig{Net: res, OnError: func(err error) {
		if strings.Contains(err.Error(), "look up host one.test") {
			reported.Add(1)
		}
	}})
	s := mustParse(t, "/a one.test(rw)\n/b *(ro) one.test(rw)")
	one := netip.MustParseAddr("10.77.0.1")
	if c, provisional := s.Which(s.Get("/a"), one, r); c == nil || provisional {
		t.Fatal("no match at first")
	}
	dns.mode.Store(dnsFail)
	clock.advance(2 * r.TTL())
	if c, _ := s.Which(s.Get("/a"), one, r); c == nil {
		t.Error("an outage of DNS took the access away")
	}
	if reported.Load() == 0 || r.Stats().Failures == 0 {
		t.Error("the failure was not reported")
	}
	clock.advance(25 * time.Hour)
	if c, provisional := s.Which(s.Get("/a"), one, r); c != nil || !provisional {
		t.Errorf("after a day: %v, provisional %v", c, provisional)
	}
	// The class below answers, but only for now.
	if c, provisional := s.Which(s.Get("/b"), one, r); c == nil || c.Spec != "*" || !provisional {
		t.Errorf("%v, provisional %v", c, provisional)
	}
	dns.mode.Store(dnsAnswer)
	clock.advance(11 * time.Second)
	if c, provisional := s.Which(s.Get("/b"), one, r); c == nil || c.Spec != "one.test" || provisional {
		t.Errorf("after the outage: %v, provisional %v", c, provisional)
	}
}

// A name server that never answers holds a Match up to the time-out for all names together.
func TestResolverSilentDNS(t *testing.T) {
	dns, res := startDNS(t)
	dns.mode.Store(dnsSilent)
	const timeout = 300 * time.Millisecond
	r, _ := newTestResolver(t, ResolverConfig{Net: res, Timeout: timeout, MaxLookups: 8})
	var line strings.Builder
	line.WriteString("/a *(ro)")
	for i := range 50 {
		fmt.Fprintf(&line, " host%d.test(rw)", i)
	}
	s := mustParse(t, line.String())
	start := time.Now()
	c, provisional := s.Which(s.Get("/a"), netip.MustParseAddr("10.77.0.1"), r)
	if took := time.Since(start); took > 25*timeout { // one after the other, the names would take twice that at least
		t.Errorf("took %v", took)
	}
	if c == nil || c.Class != ClassAny || !provisional {
		t.Errorf("%v, provisional %v", c, provisional)
	}
	if st := r.Stats(); st.Running > 8 || st.Late == 0 {
		t.Errorf("%+v", st)
	}
}

func TestNetgroups(t *testing.T) {
	getent := fakeGetent(t, `
[ "$1" = netgroup ] || exit 1
echo "$2" >> "$0.log"
case $2 in
trusted) echo "trusted    (one.test,,) ( ,,) (-,user,) (Short,-,nis) (10.77.0.5,,) (2001:DB8::5,,)" ;;
empty) exit 2 ;;
broken) echo oops >&2; exit 3 ;;
huge) exec yes '(host,,)' ;;
esac
`)
	r, _ := newTestResolver(t, ResolverConfig{Getent: getent})
	for _, test := range []struct {
		group, host, addr string
		want              bool
	}{
		{"trusted", "one.test", "10.77.0.1", true},
		{"trusted", "ONE.test.", "10.77.0.1", true},
		{"trusted", "two.test", "10.77.0.1", false},
		{"trusted", "short.example.org", "10.77.0.1", true},
		{"trusted", "", "10.77.0.5", true},
		{"trusted", "", "::ffff:10.77.0.5", true},
		{"trusted", "", "2001:db8::5", true},
		{"trusted", "", "10.77.0.1", false}, // neither "" nor - nor a user name counts
		{"trusted", "-", "10.77.0.1", false},
		{"trusted", "user", "10.77.0.1", false},
		{"empty", "one.test", "10.77.0.1", false},
		{"broken", "one.test", "10.77.0.1", false},
		{"huge", "host", "10.77.0.1", false},
	} {
		if got := r.InNetgroup(test.group, test.host, netip.MustParseAddr(test.addr)); got != test.want {
			t.Errorf("%s %q %s: %v", test.group, test.host, test.addr, got)
		}
	}
	log, err := os.ReadFile(getent + ".log")
	if err != nil || string(log) != "trusted\nempty\nbroken\nhuge\n" {
		t.Errorf("getent ran for %q, %v", log, err)
	}
	if st := r.Stats(); st.Failures != 2 {
		t.Errorf("%+v", st)
	}

	missing, _ := newTestResolver(t, ResolverConfig{Getent: "/nonexistent/getent", OnError: func(err error) {
		if !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%v", err)
		}
	}})
	if missing.InNetgroup("trusted", "one.test", netip.MustParseAddr("10.77.0.1")) {
		t.Error("a missing getent knows a member")
	}
}

// A getent that hangs, with a child that holds the pipe open, costs one time-out and leaves nothing behind.
func TestHangingGetent(t *testing.T) {
	pids := filepath.Join(t.TempDir(), "pids")
	getent := fakeGetent(t, "sleep 1000 & echo $! $$ > "+pids+"; trap '' TERM; wait; wait\n")
	const timeout = 300 * time.Millisecond
	r, _ := newTestResolver(t, ResolverConfig{Getent: getent, Timeout: timeout})
	s := mustParse(t, "/a @g1(rw) @g1x(rw)")
	start := time.Now()
	c, provisional := s.Which(s.Get("/a"), netip.MustParseAddr("127.0.0.1"), r)
	if took := time.Since(start); c != nil || !provisional || took > 100*timeout { // the fake sleeps for 1000 s
		t.Errorf("%v, provisional %v, took %v", c, provisional, took)
	}
	for deadline := time.Now().Add(10 * time.Second); r.Stats().Running > 0 && time.Now().Before(deadline); {
		time.Sleep(time.Millisecond)
	}
	text, err := os.ReadFile(pids)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range strings.Fields(string(text)) {
		pid, _ := strconv.Atoi(f)
		alive := func() bool {
			stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
			return err == nil && !strings.Contains(string(stat), ") Z ")
		}
		for deadline := time.Now().Add(10 * time.Second); alive(); time.Sleep(time.Millisecond) {
			if time.Now().After(deadline) {
				t.Errorf("process %d still runs", pid)
				_ = syscall.Kill(pid, syscall.SIGKILL)
				break
			}
		}
	}
	// The failure is remembered: the next Match does not wait.
	before := r.Stats().Lookups
	s.Match(s.Get("/a"), netip.MustParseAddr("127.0.0.1"), r)
	if after := r.Stats().Lookups; after > before {
		t.Errorf("%d new lookups", after-before)
	}
}

// A lookup that nothing can end holds one of the limited places, and nobody waits for it twice.
func TestStuckLookup(t *testing.T) {
	r := NewSystemResolver(ResolverConfig{Timeout: time.Hour, MaxLookups: 1})
	q := question{kind: askNetgroup, name: "g"}
	r.answers[q] = &answer{started: time.Now().Add(-2 * time.Hour), done: make(chan struct{})}
	r.running = 1
	if r.InNetgroup("g", "h", netip.MustParseAddr("10.0.0.1")) { // would wait for an hour
		t.Error("member of an unknown group")
	}
	sess := r.begin()
	if sess.InNetgroup("other", "h", netip.MustParseAddr("10.0.0.1")) || !sess.missed {
		t.Error("a lookup beyond the limit")
	}
	if st := r.Stats(); st.Late != 2 || st.Entries != 1 {
		t.Errorf("%+v", st)
	}
}

func TestResolverIsBounded(t *testing.T) {
	_, res := startDNS(t)
	r, _ := newTestResolver(t, ResolverConfig{Net: res, MaxEntries: 16})
	for i := range 100 {
		r.LookupHost(fmt.Sprintf("host%d.test", i))
		if n := r.Stats().Entries; n > 16 {
			t.Fatalf("%d entries", n)
		}
	}
}

// Many callers with one question make one lookup.
func TestOneLookupForMany(t *testing.T) {
	getent := fakeGetent(t, "echo x >> \"$0.log\"; sleep 0.2; echo 'g (h,,)'\n")
	r, _ := newTestResolver(t, ResolverConfig{Getent: getent})
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			if !r.InNetgroup("g", "h", netip.MustParseAddr("10.0.0.1")) {
				t.Error("not a member")
			}
		})
	}
	wg.Wait()
	if log, _ := os.ReadFile(getent + ".log"); string(log) != "x\n" {
		t.Errorf("getent ran %d times", len(log)/2)
	}
}

// The real getent over /etc/netgroup, in a mount namespace where /etc is ours.
func TestRealGetent(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root for a mount namespace")
	}
	for _, tool := range []string{"getent", "unshare"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("needs %s (packages libc-bin and util-linux)", tool)
		}
	}
	etc := t.TempDir()
	for name, text := range map[string]string{
		"nsswitch.conf": "netgroup: files\n",
		"netgroup":      "all inner (direct.test,,)\ninner (nested.test,user,dom) (,other,) (-,,)\n",
	} {
		if err := os.WriteFile(filepath.Join(etc, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	getent := fakeGetent(t, fmt.Sprintf("exec unshare -m --propagation private sh -c 'mount --bind %s /etc && exec getent \"$@\"' getent \"$@\"\n", etc))
	r, _ := newTestResolver(t, ResolverConfig{Getent: getent, OnError: func(err error) { t.Error(err) }})
	addr := netip.MustParseAddr("10.0.0.1")
	for host, want := range map[string]bool{"direct.test": true, "nested.test": true, "other.test": false, "": false, "user": false} {
		if got := r.InNetgroup("all", host, addr); got != want {
			t.Errorf("%q: %v", host, got)
		}
	}
	if r.InNetgroup("nosuch", "direct.test", addr) {
		t.Error("member of a group that does not exist")
	}
}

// This machine's hosts file through the default resolver.
func TestLocalhost(t *testing.T) {
	r, _ := newTestResolver(t, ResolverConfig{})
	s := mustParse(t, "/a localhost(rw)\n/b local*(rw)")
	for _, path := range []string{"/a", "/b"} {
		if _, ok := s.Match(s.Get(path), netip.MustParseAddr("127.0.0.1"), r); !ok {
			t.Errorf("%s: 127.0.0.1 is not localhost", path)
		}
	}
	if got := r.ReverseNames(netip.MustParseAddr("127.0.0.1")); len(got) == 0 {
		t.Error("127.0.0.1 has no name")
	}
}
