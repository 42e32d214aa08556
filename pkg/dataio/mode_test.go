// Modes: of the server, of exports and of clients.

package dataio

import (
	"fmt"
	"net/netip"
	"strings"
	"sync"
	"testing"
)

func TestModes(t *testing.T) {
	for s, want := range map[string]Mode{"default": Default, "buffered": Buffered, "0": Buffered, "dontcache": DontCache, "1": DontCache, "direct": Direct, "2": Direct, "auto": Auto} {
		if m, err := ParseMode(s); m != want || err != nil {
			t.Errorf("%s: %v, %v", s, m, err)
		}
	}
	for _, s := range []string{"", "3", "Direct", "Auto"} {
		if _, err := ParseMode(s); err == nil || !strings.Contains(err.Error(), "dontcache") {
			t.Errorf("%q: %v", s, err)
		}
	}
	var m Modes
	var none netip.Addr
	o := m.Export("/a")
	if m.Read(nil, none) != Buffered || m.Write(o, none) != Buffered || m.Export("/a") != o {
		t.Error("zero value")
	}
	m.SetRead(Direct)
	m.SetWrite(DontCache)
	m.SetExportRead("/a", DontCache)
	m.SetExportWrite("/b", Direct)
	if m.Read(o, none) != DontCache || m.Write(o, none) != DontCache || m.Read(m.Export("/b"), none) != Direct || m.Write(m.Export("/b"), none) != Direct {
		t.Error("override")
	}
	s := m.Snapshot()
	if s.Server != (ModePair{"direct", "dontcache"}) || len(s.Exports) != 2 || s.Exports["/a"] != (ModePair{"dontcache", "default"}) {
		t.Errorf("%+v", s)
	}
	m.SetExportRead("/a", Default)
	if s = m.Snapshot(); m.Read(o, none) != Direct || len(s.Exports) != 1 {
		t.Errorf("%+v", s)
	}
}

func client(t *testing.T, s string) netip.Prefix {
	t.Helper()
	p, err := ParseClient(s)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestParseClient(t *testing.T) {
	for s, want := range map[string]string{
		"192.0.2.7": "192.0.2.7", "192.0.2.7/32": "192.0.2.7", "192.0.2.7/24": "192.0.2.0/24", "0.0.0.0/0": "0.0.0.0/0",
		"2001:db8::1": "2001:db8::1", "2001:db8::1/32": "2001:db8::/32", "::/0": "::/0",
		"::ffff:192.0.2.7": "192.0.2.7", "::ffff:192.0.2.7/120": "192.0.2.0/24",
	} {
		p, err := ParseClient(s)
		if err != nil || ClientName(p) != want || client(t, ClientName(p)) != p {
			t.Errorf("%s: %v, %v; want %s", s, p, err, want)
		}
	}
	for _, s := range []string{"", "host", "*.example.org", "192.0.2", "192.0.2.0/33", "192.0.2.0/255.255.255.0", "fe80::1%eth0", "192.0.2.7 ", "@group", "192.0.2.0/-1"} {
		if p, err := ParseClient(s); err == nil || !strings.Contains(err.Error(), "192.0.2.0/24") || !strings.Contains(err.Error(), fmt.Sprintf("%q", s)) {
			t.Errorf("%q: %v, %v", s, p, err)
		}
	}
}

// TestClientModes: a client's mode wins over the export's and the server's, and
// the longest prefix that sets it over the others; reads and writes by themselves.
func TestClientModes(t *testing.T) {
	var m Modes
	o := m.Export("/a")
	m.SetRead(DontCache)
	m.SetExportWrite("/a", Auto)
	set := func(s string, read, write Mode) {
		t.Helper()
		if err := m.SetClient(client(t, s), read, write); err != nil {
			t.Fatal(err)
		}
	}
	check := func(addr string, read, write Mode) {
		t.Helper()
		a := netip.MustParseAddr(addr)
		if r, w := m.Read(o, a), m.Write(o, a); r != read || w != write {
			t.Errorf("%s: %v and %v, want %v and %v", addr, r, w, read, write)
		}
	}
	check("192.0.2.7", DontCache, Auto)
	set("192.0.2.0/24", Direct, Default)
	set("192.0.2.7", Default, Direct)
	set("192.0.0.0/16", Buffered, Buffered)
	set("2001:db8::/32", Auto, Default)
	set("fe80::/10", Direct, Default)
	check("192.0.2.7", Direct, Direct)
	check("::ffff:192.0.2.7", Direct, Direct)
	check("192.0.2.8", Direct, Buffered)
	check("192.0.3.8", Buffered, Buffered)
	check("192.1.0.1", DontCache, Auto)
	check("2001:db8::9", Auto, Auto)
	check("2001:db9::9", DontCache, Auto)
	check("fe80::1%eth0", Direct, Auto)
	if m.Read(o, netip.Addr{}) != DontCache || m.Read(nil, netip.Addr{}) != DontCache {
		t.Error("no client")
	}
	if s := m.Snapshot().Clients; len(s) != 5 || s["192.0.2.7"] != (ModePair{"default", "direct"}) {
		t.Errorf("%v", s)
	}
	set("192.0.2.0/24", Default, Default)
	check("192.0.2.7", Buffered, Direct)
	set("192.0.2.0/24", Default, Default) // again, and no harm
	for _, s := range []string{"192.0.2.7", "192.0.0.0/16", "2001:db8::/32", "fe80::/10"} {
		set(s, Default, Default)
	}
	check("192.0.2.7", DontCache, Auto)
	if m.clients.Load() != nil {
		t.Error("no rule is left, and calls still look for some")
	}
}

func TestClientModesAreBounded(t *testing.T) {
	var m Modes
	nth := func(i int) netip.Prefix { return client(t, fmt.Sprintf("10.0.%d.0/24", i)) }
	for i := range MaxClientModes {
		if err := m.SetClient(nth(i), Direct, Default); err != nil {
			t.Fatal(err)
		}
	}
	err := m.SetClient(nth(MaxClientModes), Direct, Default)
	if err == nil || !strings.Contains(err.Error(), "64 clients") || !strings.Contains(err.Error(), "default --client") {
		t.Errorf("one too many: %v", err)
	}
	if err := m.SetClient(nth(0), Buffered, Direct); err != nil {
		t.Errorf("a rule that is there: %v", err)
	}
	if err := m.SetClient(nth(MaxClientModes), Default, Default); err != nil {
		t.Errorf("removing what isn't there: %v", err)
	}
	if err := m.SetClient(nth(1), Default, Default); err != nil {
		t.Fatal(err)
	}
	if err := m.SetClient(nth(MaxClientModes), Direct, Default); err != nil {
		t.Errorf("after one was removed: %v", err)
	}
	if n := len(m.Snapshot().Clients); n != MaxClientModes {
		t.Errorf("%d rules", n)
	}
}

// TestClientModesAllocateNothing: the hot path, with rules and without.
func TestClientModesAllocateNothing(t *testing.T) {
	var m Modes
	o, a := m.Export("/a"), netip.MustParseAddr("192.0.2.7")
	look := func() { m.Read(o, a); m.Write(o, a) }
	if n := testing.AllocsPerRun(100, look); n != 0 {
		t.Errorf("%v allocations without rules", n)
	}
	for i := range MaxClientModes {
		m.SetClient(client(t, fmt.Sprintf("10.0.%d.0/24", i)), Direct, Direct) //nolint:errcheck // below the limit
	}
	if n := testing.AllocsPerRun(100, look); n != 0 {
		t.Errorf("%v allocations with rules", n)
	}
}

// TestClientModesWhileTheyChange is for the race detector.
func TestClientModesWhileTheyChange(t *testing.T) {
	var m Modes
	a := netip.MustParseAddr("10.0.3.1")
	var wg sync.WaitGroup
	for g := range 2 {
		wg.Go(func() {
			for i := range 500 {
				m.SetClient(client(t, fmt.Sprintf("10.0.%d.0/24", (i+g)%8)), Mode(i%int(modes)), Direct) //nolint:errcheck // below the limit
			}
		})
		wg.Go(func() {
			for range 2000 {
				if v := m.Read(nil, a); v < Buffered || v > Auto {
					t.Errorf("mode %v", v)
				}
			}
		})
	}
	wg.Wait()
}

// TestClientPlaces compares the numbers with what netip says.
func TestClientPlaces(t *testing.T) {
	addrs := []string{"0.0.0.0", "10.0.0.1", "10.0.255.255", "192.0.2.129", "255.255.255.255", "::", "::1", "::ffff:10.0.0.1", "2001:db8::1", "2001:db8:0:8000::", "ffff::ffff", "fe80::1%x"}
	for _, net := range addrs {
		base := netip.MustParseAddr(net).Unmap().WithZone("")
		for bits := range base.BitLen() + 1 {
			p := netip.PrefixFrom(base, bits).Masked()
			c := clientMode{at: placeOf(p.Addr())}
			c.maskHi, c.maskLo = maskOf(bits, c.at.kind)
			for _, s := range addrs {
				a := netip.MustParseAddr(s)
				if got, want := c.holds(placeOf(a)), p.Contains(a.Unmap().WithZone("")); got != want {
					t.Fatalf("%v holds %v: %v, want %v", p, a, got, want)
				}
			}
			if c.holds(placeOf(netip.Addr{})) {
				t.Fatalf("%v holds no address", p)
			}
		}
	}
}

func BenchmarkModesRead(b *testing.B) {
	a := netip.MustParseAddr("192.0.2.7")
	for _, rules := range []int{0, 1, MaxClientModes} {
		b.Run(fmt.Sprint(rules), func(b *testing.B) {
			var m Modes
			o := m.Export("/a")
			for i := range rules {
				p, _ := ParseClient(fmt.Sprintf("10.0.%d.0/24", i))
				m.SetClient(p, Direct, Direct) //nolint:errcheck // below the limit
			}
			for b.Loop() {
				m.Read(o, a)
			}
		})
	}
}
