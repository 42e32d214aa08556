// Tests of matching: precedence whatever the order, names that must prove themselves, and no allocation for addresses.

package exports

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"
)

// fakeResolver answers from maps and counts the questions.
type fakeResolver struct {
	hosts     map[string][]string
	names     map[string][]string
	netgroups map[string][]string
	asked     []string
}

func (f *fakeResolver) LookupHost(name string) []netip.Addr {
	f.asked = append(f.asked, "host "+name)
	var list []netip.Addr
	for _, a := range f.hosts[name] {
		list = append(list, netip.MustParseAddr(a))
	}
	return list
}

func (f *fakeResolver) ReverseNames(addr netip.Addr) []string {
	f.asked = append(f.asked, "addr "+addr.String())
	return f.names[addr.String()]
}

func (f *fakeResolver) InNetgroup(group, host string, addr netip.Addr) bool {
	f.asked = append(f.asked, "netgroup "+group+" "+host)
	return slices.Contains(f.netgroups[group], host) || slices.Contains(f.netgroups[group], addr.String())
}

func lab() *fakeResolver {
	return &fakeResolver{
		hosts: map[string][]string{
			"one":             {"10.0.0.1", "2001:db8::1"},
			"one.example.org": {"10.0.0.1", "2001:db8::1"},
			"two.example.org": {"10.0.0.2"},
			"liar.example.org": {
				"10.9.9.9",
			},
		},
		names: map[string][]string{
			"10.0.0.1":    {"One.Example.Org.", "one"},
			"2001:db8::1": {"one.example.org."},
			"10.0.0.2":    {"two.example.org"},
			"10.0.0.3":    {"liar.example.org"}, // does not lead back
			"10.0.0.4":    {"10.0.0.4"},
		},
		netgroups: map[string][]string{
			"g": {"one.example.org"}, "byaddr": {"10.0.0.3"}, "liars": {"liar.example.org"},
		},
	}
}

func mustParse(t testing.TB, text string) *Set {
	t.Helper()
	s, _, err := Parse("f", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestPrecedence(t *testing.T) {
	// One client of each class, all matching 10.0.0.1, told apart by anonuid = 1 + class.
	specs := []string{"10.0.0.1", "10.0.0.0/24", "*.example.org", "@g", "*"}
	addr := netip.MustParseAddr("10.0.0.1")
	for set := 1; set < 1<<len(specs); set++ {
		var list []string
		best := -1
		for i, spec := range specs {
			if set&(1<<i) != 0 {
				list = append(list, fmt.Sprintf("%s(anonuid=%d)", spec, i+1))
				if best < 0 {
					best = i
				}
			}
		}
		for range 8 { // whatever the order
			rand.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
			s := mustParse(t, "/a "+strings.Join(list, " "))
			o, ok := s.Match(s.Get("/a"), addr, lab())
			if !ok || o.AnonUID != uint32(best+1) {
				t.Errorf("%v: got %d %v, want class %s", list, o.AnonUID, ok, Class(best))
			}
		}
	}
}

func TestFirstOfAClassCounts(t *testing.T) {
	for _, test := range []struct{ line, want string }{
		{"10.0.0.0/8(anonuid=1) 10.0.0.0/24(anonuid=2)", "10.0.0.0/8"}, // order, not the longer prefix
		{"10.0.0.0/24(anonuid=1) 10.0.0.0/8(anonuid=2)", "10.0.0.0/24"},
		{"one.* *.org", "one.*"},
		{"*.org one.*", "*.org"},
		{"@liars @g @g2", "@g"},
		{"one 10.0.0.1", "one"},
		{"10.0.0.1 one", "10.0.0.1"},
		{"two.example.org one one.example.org 10.0.0.1", "one"},
	} {
		s := mustParse(t, "/a "+test.line)
		c, _ := s.Which(s.Get("/a"), netip.MustParseAddr("10.0.0.1"), lab())
		if c == nil || c.Spec != test.want {
			t.Errorf("%s: got %v, want %s", test.line, c, test.want)
		}
	}
}

func TestMatch(t *testing.T) {
	for _, test := range []struct {
		spec, addr string
		want       bool
	}{
		{"10.0.0.1", "10.0.0.1", true},
		{"10.0.0.1", "::ffff:10.0.0.1", true},
		{"10.0.0.1", "10.0.0.2", false},
		{"::ffff:10.0.0.1", "10.0.0.1", true},
		{"2001:db8::1", "2001:db8:0::1", true},
		{"fe80::1%eth0", "fe80::1%eth0", true},
		{"fe80::1%eth0", "fe80::1%eth1", false},
		{"fe80::1", "fe80::1%eth0", false},
		{"fe80::/10", "fe80::1%eth0", true},
		{"0.0.0.0/0", "10.0.0.1", true},
		{"0.0.0.0/0", "::1", false},
		{"::/0", "::1", true},
		{"::/0", "10.0.0.1", false},
		{"::/0", "::ffff:10.0.0.1", false},
		{"::ffff:10.0.0.0/120", "10.0.0.77", true},
		{"10.0.0.0/255.255.0.255", "10.0.7.0", true},
		{"10.0.0.0/255.255.0.255", "10.0.7.1", false},
		{"10.0.0.1/32", "10.0.0.1", true},
		{"10.0.0.1/31", "10.0.0.0", true},
		{"10.0.0.1/31", "10.0.0.2", false},
		{"2001:db8::/33", "2001:db8:7fff::1", true},
		{"2001:db8::/33", "2001:db8:8000::1", false},
		{"2001:db8::/66", "2001:db8:0:0:3fff::1", true},
		{"2001:db8::/66", "2001:db8:0:0:4000::1", false},
		{"2001:db8::1/128", "2001:db8::1", true},
		{"2001:db8::1/128", "2001:db8::2", false},

		{"one", "10.0.0.1", true},
		{"ONE", "::ffff:10.0.0.1", true},
		{"one", "2001:db8::1", true},
		{"one", "10.0.0.2", false},
		{"unknown", "10.0.0.1", false},
		{"*.example.org", "10.0.0.1", true},
		{"*.EXAMPLE.org", "2001:db8::1", true},
		{"on?", "10.0.0.1", true}, // the alias
		{"*.org", "10.0.0.1", true},
		{"*.example.org", "10.0.0.3", false}, // its name does not lead back to it
		{"10.0.0.?", "10.0.0.4", false},      // an address is no name, not even if DNS says so
		{"*.example.org", "10.0.0.5", false},
		{"@g", "10.0.0.1", true},
		{"@g", "10.0.0.2", false},
		{"@byaddr", "10.0.0.3", true},
		{"@liars", "10.0.0.3", false},
		{"@none", "10.0.0.1", false},
		{"*", "10.0.0.1", true},
		{"*", "2001:db8::ffff", true},
	} {
		s := mustParse(t, "/a "+test.spec)
		if _, ok := s.Match(s.Get("/a"), netip.MustParseAddr(test.addr), lab()); ok != test.want {
			t.Errorf("%s, %s: %v", test.spec, test.addr, ok)
		}
		if test.want && strings.ContainsAny(test.spec, "one@g?") && !strings.ContainsAny(test.spec, "/:") && test.spec != "*" && test.spec != "10.0.0.1" {
			if _, ok := s.Match(s.Get("/a"), netip.MustParseAddr(test.addr), nil); ok {
				t.Errorf("%s, %s: matched without a resolver", test.spec, test.addr)
			}
		}
	}
	s := mustParse(t, "/a 0.0.0.0/0 ::/0 @g *.x one")
	if _, ok := s.Match(s.Get("/a"), netip.Addr{}, lab()); ok {
		t.Error("no address matched")
	}
}

func TestResolverIsAskedOnlyWhenNeeded(t *testing.T) {
	for _, test := range []struct{ line, addr, asked string }{
		{"10.0.0.1 one *.x @g", "10.0.0.1", ""},
		{"10.0.0.1 10.0.0.0/8 *.x @g", "10.0.0.2", ""},
		{"one 10.0.0.0/8 *.x @g", "10.0.0.2", "host one"},
		{"two.example.org 10.0.0.1 one", "10.0.0.1", "host two.example.org"},
		{"*", "10.0.0.1", ""},
		{"*.org @g *", "10.0.0.2", "addr 10.0.0.2,host two.example.org"},
		{"@g", "10.0.0.9", "addr 10.0.0.9,netgroup g "},
	} {
		s := mustParse(t, "/a "+test.line)
		r := lab()
		s.Match(s.Get("/a"), netip.MustParseAddr(test.addr), r)
		if got := strings.Join(r.asked, ","); got != test.asked {
			t.Errorf("%s, %s: asked %q, want %q", test.line, test.addr, got, test.asked)
		}
	}
}

func TestIdentify(t *testing.T) {
	c := Identify(netip.MustParseAddr("::ffff:10.0.0.1"), lab())
	if c.Addr.String() != "10.0.0.1" || strings.Join(c.Names, " ") != "one.example.org one" {
		t.Errorf("%+v", c)
	}
	if c := Identify(netip.MustParseAddr("10.0.0.3"), lab()); len(c.Names) > 0 {
		t.Errorf("unverified name: %+v", c)
	}
	if c := Identify(netip.Addr{}, lab()); len(c.Names) > 0 {
		t.Errorf("%+v", c)
	}
}

func TestGlob(t *testing.T) {
	for _, test := range []struct {
		pattern, name string
		want          bool
	}{
		{"*.x", "a.x", true}, {"*.x", "a.b.x", true}, {"*.x", ".x", true}, {"*.x", "x", false}, {"*.x", "a.xx", false},
		{"a*", "a", true}, {"a*", "a.b.c", true}, {"a*c*e", "abcde", true}, {"a*c*e", "abcd", false},
		{"a?c", "abc", true}, {"a?c", "a.c", true}, {"a?c", "ac", false},
		{"[abc]x", "bx", true}, {"[abc]x", "dx", false}, {"[^abc]x", "dx", true}, {"[^abc]x", "ax", false},
		{"[a-c]x", "bx", true}, {"[a-c]x", "-x", false}, {"[a-]x", "-x", true}, {"[-a]x", "-x", true}, {"[-a]x", "ax", true},
		{"[]a]x", "]x", true}, {"[]a]x", "ax", true}, {"[^]a]x", "]x", false}, {"[^]a]x", "bx", true}, {"[^-a]x", "-x", false},
		{"[a-c-e]x", "dx", true}, {"[0-9a]", "7", true}, {"[0-9a]", "a", true}, {"[0-9a]", "b", false},
		{"h[0-9]", "h", false}, {"*[0-9]", "host7", true}, {"*[0-9]x", "host7", false}, {"***", "", true}, {"?", "", false},
		{"*a*a*a*a*a*a*a*b", strings.Repeat("a", 255), false},
	} {
		if got := glob(test.pattern, test.name); got != test.want {
			t.Errorf("%s, %s: %v", test.pattern, test.name, got)
		}
	}
}

// FuzzGlob: patterns that the parser lets through never make glob panic.
func FuzzGlob(f *testing.F) {
	f.Add("*.[a-z]x", "a.bx")
	f.Add("[]-a]", "]")
	f.Fuzz(func(t *testing.T, pattern, name string) {
		c, _, problem, _ := parseClient(pattern)
		if problem == "" && c.Class == ClassWildcard {
			_ = glob(c.Spec, canonicalName(name))
		}
	})
}

func TestIdentity(t *testing.T) {
	const max = InvalidID
	for _, test := range []struct {
		list     string
		auth     AuthFlavor
		uid, gid uint32
		groups   []uint32
		want     string
	}{
		{"rw", AuthSys, 0, 0, []uint32{0, 5}, "65534 65534 [65534 5]"},
		{"rw", AuthSys, 7, 0, []uint32{5}, "7 65534 [5]"},
		{"rw", AuthSys, 0, 7, nil, "65534 7 []"},
		{"rw,anonuid=1,anongid=2", AuthSys, 0, 0, []uint32{0}, "1 2 [2]"},
		{"no_root_squash", AuthSys, 0, 0, []uint32{0, 5}, "0 0 [0 5]"},
		{"no_root_squash", AuthSys, max, max, []uint32{max, 5}, "65534 65534 [65534 5]"},
		{"root_squash", AuthSys, max, 4, []uint32{max, 0}, "65534 4 [65534 65534]"},
		{"all_squash,anonuid=1,anongid=2", AuthSys, 7, 8, []uint32{9}, "1 2 []"},
		{"sec=none,no_root_squash", AuthNone, 0, 0, []uint32{0}, "65534 65534 []"},
		{"sec=sys:none,no_root_squash", AuthSys, 0, 0, []uint32{0}, "0 0 [0]"},
		{"sec=sys,no_root_squash,sec=none,all_squash", AuthSys, 0, 3, nil, "0 3 []"},
	} {
		s := mustParse(t, "/a *("+test.list+")")
		o, _ := s.Match(s.Get("/a"), netip.MustParseAddr("10.0.0.1"), nil)
		f, ok := o.For(test.auth)
		if !ok {
			t.Errorf("%s: flavour not allowed", test.list)
			continue
		}
		uid, gid, groups := o.Identity(f, test.uid, test.gid, slices.Clone(test.groups))
		if got := fmt.Sprint(uid, gid, groups); got != test.want {
			t.Errorf("%s: %d %d %v became %s, want %s", test.list, test.uid, test.gid, test.groups, got, test.want)
		}
	}
	s := mustParse(t, "/a *(sec=sys)\n/b *(sec=none)")
	if _, ok := s.Get("/a").Clients[0].Options.For(AuthNone); ok {
		t.Error("AUTH_NONE allowed by default")
	}
	if _, ok := s.Get("/b").Clients[0].Options.For(AuthSys); ok {
		t.Error("AUTH_SYS allowed by sec=none")
	}
}

func TestMatchAllocatesNothing(t *testing.T) {
	s := mustParse(t, "/a 10.0.0.1 10.1.0.0/16 2001:db8::/32 192.168.0.0/255.255.0.255 one *.x @g *(sec=sys:none)")
	e := s.Get("/a")
	for _, a := range []string{"10.0.0.1", "::ffff:10.0.0.1", "10.1.2.3", "2001:db8::7", "192.168.3.0"} {
		addr := netip.MustParseAddr(a)
		if n := testing.AllocsPerRun(100, func() { s.Match(e, addr, nil) }); n != 0 {
			t.Errorf("%s: %v allocations", a, n)
		}
	}
	// With a resolver too, as long as it need not be asked.
	s = mustParse(t, "/a 10.0.0.1 10.1.0.0/16 *.x @g")
	e = s.Get("/a")
	var r Resolver = NewSystemResolver(ResolverConfig{})
	for _, a := range []string{"10.0.0.1", "10.1.2.3"} {
		addr := netip.MustParseAddr(a)
		if n := testing.AllocsPerRun(100, func() { s.Match(e, addr, r) }); n != 0 {
			t.Errorf("%s with a resolver: %v allocations", a, n)
		}
	}
	o, groups := e.Clients[0].Options, make([]uint32, 16)
	if n := testing.AllocsPerRun(100, func() {
		f, _ := o.For(AuthSys)
		o.Identity(f, 0, 0, groups)
	}); n != 0 {
		t.Errorf("Identity: %v allocations", n)
	}
}

func BenchmarkMatch(b *testing.B) {
	var hosts, nets strings.Builder
	for i := range 1000 {
		fmt.Fprintf(&hosts, "/a 10.1.%d.%d(rw)\n", i/250, i%250)
		fmt.Fprintf(&nets, "/a 10.%d.%d.0/24(rw)\n", 1+i/250, i%250)
	}
	for _, bench := range []struct{ name, table, addr string }{
		{"one address", "/a 10.0.0.1(rw)", "10.0.0.1"},
		{"one network", "/a 10.0.0.0/8(rw)", "10.0.0.1"},
		{"one network of 1000", nets.String(), "10.4.249.1"},
		{"one address of 1000", hosts.String(), "10.1.3.249"},
		{"everyone", "/a *(rw)", "2001:db8::1"},
	} {
		b.Run(bench.name, func(b *testing.B) {
			s := mustParse(b, bench.table)
			e, addr := s.Get("/a"), netip.MustParseAddr(bench.addr)
			b.ReportAllocs()
			for b.Loop() {
				if _, ok := s.Match(e, addr, nil); !ok {
					b.Fatal("no match")
				}
			}
		})
	}
}

func BenchmarkParse(b *testing.B) {
	var table strings.Builder
	for i := range 1000 {
		fmt.Fprintf(&table, "/srv/data%d 10.%d.%d.0/24(rw,no_root_squash,async) host%d.example.org(ro)\n", i, i/250, i%250, i)
	}
	b.SetBytes(int64(table.Len()))
	b.ReportAllocs()
	for b.Loop() {
		if _, _, err := Parse("f", []byte(table.String())); err != nil {
			b.Fatal(err)
		}
	}
}
