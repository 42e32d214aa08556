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
	"encoding/binary"
	"fmt"
	"net/netip"
	"slices"
)

// MaxClientModes is how many addresses and networks may have modes of their own.
const MaxClientModes = 64

type clientMode struct {
	net            netip.Prefix
	at             place // of its first address
	maskHi, maskLo uint64
	read, write    Mode
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
		c := clientMode{net: p, at: placeOf(p.Addr()), read: read, write: write}
		c.maskHi, c.maskLo = maskOf(p.Bits(), c.at.kind)
		list = append(list, c)
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
	at := placeOf(a)
	for i := range *list {
		if c := &(*list)[i]; c.read != Default && c.holds(at) {
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
	at := placeOf(a)
	for i := range *list {
		if c := &(*list)[i]; c.write != Default && c.holds(at) {
			return c.write
		}
	}
	return Default
}

// place is an address as numbers, which are compared with 64 rules ten times
// faster than netip.Prefix.Contains does it. IPv4 is kept apart: no IPv6 network
// holds it, ::/0 included.
type place struct {
	hi, lo uint64
	kind   uint8 // 4, 6, or 0 for no address
}

func placeOf(a netip.Addr) place {
	if !a.IsValid() {
		return place{}
	}
	b := a.As16()
	p := place{binary.BigEndian.Uint64(b[:8]), binary.BigEndian.Uint64(b[8:]), 6}
	if a.Is4() || a.Is4In6() {
		p.kind = 4
	}
	return p
}

// maskOf has the first bits set of an address of a kind.
func maskOf(bits int, kind uint8) (hi, lo uint64) {
	if kind == 4 {
		bits += 96
	}
	return ^(^uint64(0) >> min(bits, 64)), ^(^uint64(0) >> max(bits-64, 0))
}

func (c *clientMode) holds(at place) bool {
	return c.at.kind == at.kind && at.hi&c.maskHi == c.at.hi && at.lo&c.maskLo == c.at.lo
}
