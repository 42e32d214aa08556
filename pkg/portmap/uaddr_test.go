package portmap

import (
	"net/netip"
	"strings"
	"testing"
)

func TestUaddr(t *testing.T) {
	for uaddr, addr := range map[string]string{
		"192.0.2.1.8.1":       "192.0.2.1:2049",
		"0.0.0.0.0.111":       "0.0.0.0:111",
		"::.8.1":              "[::]:2049",
		"2001:db8::1.255.255": "[2001:db8::1]:65535",
	} {
		a := netip.MustParseAddrPort(addr)
		if got := FormatUaddr(a); got != uaddr {
			t.Errorf("FormatUaddr(%s) = %q, want %q", a, got, uaddr)
		}
		if got, err := ParseUaddr(uaddr); err != nil || got != a {
			t.Errorf("ParseUaddr(%q) = %v, %v; want %s", uaddr, got, err, a)
		}
	}
	if got := FormatUaddr(netip.MustParseAddrPort("[::ffff:192.0.2.1]:2049")); got != "192.0.2.1.8.1" {
		t.Errorf("a mapped address is written %q", got)
	}
	if got := FormatUaddr(netip.MustParseAddrPort("[fe80::1%eth0]:2049")); got != "fe80::1.8.1" {
		t.Errorf("an address with a zone is written %q", got)
	}
	for _, bad := range []string{"", ".", "..", "1.2", "1.2.3.4", "1.2.3.4.5", "1.2.3.4.256.1", "1.2.3.4.1.-1",
		"x.1.1", "::1", "/run/rpcbind.sock", strings.Repeat("1", 2000)} {
		if a, err := ParseUaddr(bad); err == nil {
			t.Errorf("ParseUaddr(%.40q) = %v, want an error", bad, a)
		}
	}
}

func FuzzParseUaddr(f *testing.F) {
	for _, s := range []string{"192.0.2.1.8.1", "::.8.1", "fe80::1%e.0.1", "1.2.3.4.5"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		a, err := ParseUaddr(s)
		if err != nil {
			return
		}
		b, err := ParseUaddr(FormatUaddr(a))
		if err != nil {
			t.Fatalf("%q reads as %v, whose form does not read: %v", s, a, err)
		}
		if want := netip.AddrPortFrom(a.Addr().Unmap().WithZone(""), a.Port()); b != want {
			t.Fatalf("%q reads as %v and then as %v", s, a, b)
		}
	})
}

func TestMappings(t *testing.T) {
	progs := []Program{{ProgNFS, []uint32{3}}, {ProgMount, []uint32{1, 2, 3}}}
	for listen, want := range map[string]string{
		"0.0.0.0:2049":     "tcp 0.0.0.0.8.1",
		"[::]:2049":        "tcp 0.0.0.0.8.1,tcp6 ::.8.1",
		"192.0.2.1:2049":   "tcp 192.0.2.1.8.1",
		"[2001:db8::1]:80": "tcp6 2001:db8::1.0.80",
	} {
		ms := Mappings(progs, []netip.AddrPort{netip.MustParseAddrPort(listen)})
		var got []string
		for _, m := range ms {
			if m.Prog == ProgNFS {
				got = append(got, m.Netid+" "+FormatUaddr(m.Addr))
			}
		}
		if s := strings.Join(got, ","); s != want {
			t.Errorf("%s: NFS at %s, want %s", listen, s, want)
		}
		if len(ms) != 4*len(got) {
			t.Errorf("%s: %d mappings for %d of NFS", listen, len(ms), len(got))
		}
	}
	two := Mappings(progs[:1], []netip.AddrPort{netip.MustParseAddrPort("192.0.2.1:1"), netip.MustParseAddrPort("192.0.2.2:1")})
	if len(two) != 1 {
		t.Errorf("two IPv4 listeners make %d mappings; rpcbind keeps one for each netid", len(two))
	}
}

func TestTable(t *testing.T) {
	var tab table
	at := netip.MustParseAddrPort("0.0.0.0:2049")
	m := Mapping{Prog: 7, Vers: 3, Netid: NetTCP, Addr: at}
	for _, what := range []string{"a new row", "the same again"} {
		if !tab.set(m) {
			t.Fatalf("set of %s failed", what)
		}
	}
	m.Addr = netip.MustParseAddrPort("0.0.0.0:2050")
	if tab.set(m) {
		t.Fatal("set replaced an address")
	}
	if r, ok := tab.find(7, 4, NetTCP); !ok || r.Vers != 3 {
		t.Fatalf("another version is found as %v, %v", r, ok)
	}
	if _, ok := tab.find(7, 3, NetUDP); ok {
		t.Fatal("found over udp")
	}
	tab.set(Mapping{Prog: 7, Vers: 3, Netid: NetTCP6, Addr: at, fixed: true})
	if tab.unset(7, 3, NetTCP6) {
		t.Fatal("unset removed a row of the server itself")
	}
	if !tab.unset(7, 3, "") || len(tab.list()) != 1 {
		t.Fatal("unset left the row")
	}
	for i := range uint32(2 * maxEntries) {
		tab.set(Mapping{Prog: i, Vers: 1, Netid: NetTCP, Addr: at})
	}
	if n := len(tab.list()); n != maxEntries {
		t.Fatalf("%d rows, limit %d", n, maxEntries)
	}
}
