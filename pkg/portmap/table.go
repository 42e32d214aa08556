// The table of registrations: which program and version is served where.
//
// Plan: a short slice under one lock, in order of registration, as DUMP lists
// it. It never holds more than maxEntries rows, so a scan costs less than
// keeping an index would.

package portmap

import (
	"net/netip"
	"sync"
)

// Numbers of RFC 1833 and of the programs that Sluice registers.
const (
	ProgPortmap = 100000
	ProgNFS     = 100003
	ProgMount   = 100005
)

// Network identifiers (RFC 5665, 5.2.3.1).
const (
	NetTCP  = "tcp"
	NetTCP6 = "tcp6"
	NetUDP  = "udp"
	NetUDP6 = "udp6"
)

// maxEntries bounds the table of the embedded portmapper: what one host's
// NFS services need, several times over. SET is refused beyond it.
const maxEntries = 256

// Mapping says where one version of a program is served.
type Mapping struct {
	Prog, Vers uint32
	Netid      string         // one of the Net constants
	Addr       netip.AddrPort // an unspecified address stands for every address of the host
	Owner      string         // who registered it; "superuser" for the server's own

	fixed bool // of the server itself: UNSET does not remove it
}

// Program is a program number with the versions that are served of it.
type Program struct {
	Prog     uint32
	Versions []uint32
}

// Mappings lists the registrations that announce progs at the given TCP
// listening addresses. An unspecified IPv6 address takes IPv4 calls too (the
// way Go listens), and so stands for both families.
func Mappings(progs []Program, listen []netip.AddrPort) []Mapping {
	var out []Mapping
	add := func(netid string, at netip.AddrPort) {
		for _, p := range progs {
			for _, v := range p.Versions {
				m := Mapping{Prog: p.Prog, Vers: v, Netid: netid, Addr: at, Owner: ownerSuperuser}
				if !contains(out, m) {
					out = append(out, m)
				}
			}
		}
	}
	for _, a := range listen {
		addr := a.Addr().Unmap()
		switch {
		case addr.Is4():
			add(NetTCP, netip.AddrPortFrom(addr, a.Port()))
		case addr.IsUnspecified():
			add(NetTCP, netip.AddrPortFrom(netip.IPv4Unspecified(), a.Port()))
			add(NetTCP6, netip.AddrPortFrom(addr, a.Port()))
		default:
			add(NetTCP6, netip.AddrPortFrom(addr.WithZone(""), a.Port()))
		}
	}
	return out
}

// contains reports whether list has a row with m's program, version and netid:
// rpcbind keeps one address for each.
func contains(list []Mapping, m Mapping) bool {
	for _, o := range list {
		if o.Prog == m.Prog && o.Vers == m.Vers && o.Netid == m.Netid {
			return true
		}
	}
	return false
}

const ownerSuperuser = "superuser"

type table struct {
	mu   sync.RWMutex
	rows []Mapping
}

// set adds m. It fails when the table is full or when another address is
// registered for the same program, version and netid (RFC 1833, 2.2.1: SET
// does not replace); the same address again is a success, as rpcbind has it.
func (t *table) set(m Mapping) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, o := range t.rows {
		if o.Prog == m.Prog && o.Vers == m.Vers && o.Netid == m.Netid {
			return o.Addr == m.Addr
		}
	}
	if len(t.rows) >= maxEntries {
		return false
	}
	t.rows = append(t.rows, m)
	return true
}

// unset removes the rows of a program's version, of every netid when netid is
// "", and tells whether there were any. The server's own rows stay.
func (t *table) unset(prog, vers uint32, netid string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	kept := t.rows[:0]
	for _, o := range t.rows {
		if o.Prog == prog && o.Vers == vers && (netid == "" || o.Netid == netid) && !o.fixed {
			continue
		}
		kept = append(kept, o)
	}
	removed := len(kept) != len(t.rows)
	clear(t.rows[len(kept):])
	t.rows = kept
	return removed
}

// find returns the row for a program over one netid: that of the version, or,
// when the version is not served, that of another one. Portmappers have always
// answered so: the caller then learns the range of versions from the program
// itself, by PROG_MISMATCH (RFC 5531, 9).
func (t *table) find(prog, vers uint32, netid string) (Mapping, bool) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	var other Mapping
	found := false
	for _, o := range t.rows {
		if o.Prog != prog || o.Netid != netid {
			continue
		}
		if o.Vers == vers {
			return o, true
		}
		other, found = o, true
	}
	return other, found
}

// list returns a copy of the rows.
func (t *table) list() []Mapping {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return append([]Mapping(nil), t.rows...)
}
