package nfs3

import (
	"fmt"
	"net/netip"
	"testing"
)

func TestMountList(t *testing.T) {
	l := newMountList()
	a, b := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("2001:db8::1")
	paths := func() (out []string) {
		for _, m := range l.all() {
			out = append(out, m.Client.String()+" "+m.Path)
		}
		return out
	}
	want := func(w ...string) {
		t.Helper()
		if got := paths(); fmt.Sprint(got) != fmt.Sprint(w) {
			t.Fatalf("list is %q, want %q", got, w)
		}
	}
	l.add(a, "/x")
	l.add(b, "/x")
	l.add(a, "/y")
	l.add(a, "/x") // a second mount of the same directory is one entry, now the newest
	want("2001:db8::1 /x", "192.0.2.1 /y", "192.0.2.1 /x")
	l.remove(a, "/y")
	l.remove(a, "/unknown")
	want("2001:db8::1 /x", "192.0.2.1 /x")
	l.removeAll(a)
	l.removeAll(a)
	want("2001:db8::1 /x")
	if len(l.perClient) != 1 || len(l.byKey) != 1 {
		t.Fatalf("left behind: %d counts, %d keys", len(l.perClient), len(l.byKey))
	}
}

// One client that mounts without end keeps its share and pushes nobody out;
// many clients together keep the list at its limit.
func TestMountListBounds(t *testing.T) {
	l := newMountList()
	other := netip.MustParseAddr("192.0.2.9")
	l.add(other, "/kept")
	greedy := netip.MustParseAddr("192.0.2.1")
	for i := range 10 * maxMounts {
		l.add(greedy, fmt.Sprintf("/%d", i))
	}
	all := l.all()
	if len(all) != 1+maxMountsPerClient || all[0].Path != "/kept" {
		t.Fatalf("%d entries, the first %v; want %d and /kept", len(all), all[0], 1+maxMountsPerClient)
	}
	if last := all[len(all)-1].Path; last != fmt.Sprintf("/%d", 10*maxMounts-1) {
		t.Fatalf("newest entry is %s", last)
	}
	for i := range 4 * maxMounts {
		l.add(netip.AddrFrom4([4]byte{10, 0, byte(i >> 8), byte(i)}), "/m")
	}
	if n := len(l.all()); n != maxMounts || len(l.byKey) != n || len(l.perClient) != n {
		t.Fatalf("%d entries, %d keys, %d counts; want %d each", n, len(l.byKey), len(l.perClient), maxMounts)
	}
}
