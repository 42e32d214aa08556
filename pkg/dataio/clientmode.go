// Modes of clients: an address or a network may have modes of its own, which
// win over the export's and the server's. Of several networks that an address
// is in, the longest prefix that sets the mode wins.
//
// Plan: rules are few and change seldom. They are one list that is never
// changed, only replaced, the longest prefixes first; a call loads a pointer
// that is nil while there are none.

package dataio

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
)

// MaxClientModes is how many addresses and networks may have modes of their own.
const MaxClientModes = 64

type clientMode struct {
	net         netip.Prefix
	read, write Mode
}

// ParseClient reads an address or a network, as in 192.0.2.7, 192.0.2.0/24 or 2001:db8::/32. What stands
// behind a network's prefix is dropped.
func ParseClient(s string) (netip.Prefix, error) {
	if p, err := netip.ParsePrefix(s); err == nil {
		if a := p.Addr(); a.Is4In6() && p.Bits() >= 96 {
			p = netip.PrefixFrom(a.Unmap(), p.Bits()-96)
		}
		return p.Masked(), nil
	}
	a, err := netip.ParseAddr(s)
	if err != nil || a.Zone() != "" {
		return netip.Prefix{}, fmt.Errorf("%q is neither an IP address nor a network: write it as in 192.0.2.7, 192.0.2.0/24 or 2001:db8::/32", s)
	}
	a = a.Unmap()
	return netip.PrefixFrom(a, a.BitLen()), nil
}

// ClientName writes what ParseClient reads, always in the same way.
func ClientName(p netip.Prefix) string {
	if p.IsSingleIP() {
		return p.Addr().String()
	}
	return p.String()
}

// SetClient sets the modes of an address or network; Default leaves that mode to the next level, and twice Default
// removes the rule. It fails when there are MaxClientModes others.
func (m *Modes) SetClient(p netip.Prefix, read, write Mode) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	var list []clientMode
	if old := m.clients.Load(); old != nil {
		list = slices.DeleteFunc(slices.Clone(*old), func(c clientMode) bool { return c.net == p })
	}
	if read != Default || write != Default {
		if len(list) >= MaxClientModes {
			return fmt.Errorf("%d clients have modes of their own, and more can't: take one back with `sluice mode read default --client CLIENT`, or set the mode of a network that holds several", MaxClientModes)
		}
		list = append(list, clientMode{p, read, write})
	}
	if len(list) == 0 {
		m.clients.Store(nil)
		return nil
	}
	slices.SortFunc(list, func(a, b clientMode) int {
		return cmp.Or(cmp.Compare(b.net.Bits(), a.net.Bits()), a.net.Addr().Compare(b.net.Addr()))
	})
	m.clients.Store(&list)
	return nil
}

// clientRead and clientWrite return the mode that the rules give a client, or Default.
func (m *Modes) clientRead(a netip.Addr) Mode {
	list := m.clients.Load()
	if list == nil {
		return Default
	}
	a = a.Unmap().WithZone("")
	for i := range *list {
		if c := &(*list)[i]; c.read != Default && c.net.Contains(a) {
			return c.read
		}
	}
	return Default
}

func (m *Modes) clientWrite(a netip.Addr) Mode {
	list := m.clients.Load()
	if list == nil {
		return Default
	}
	a = a.Unmap().WithZone("")
	for i := range *list {
		if c := &(*list)[i]; c.write != Default && c.net.Contains(a) {
			return c.write
		}
	}
	return Default
}
