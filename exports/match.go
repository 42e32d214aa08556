// Matching: which of an export's clients is this address? The class decides first (host, network, wildcard, netgroup, any),
// then the order in the table, as exports(5) says. Addresses and networks are decided without the resolver and without
// allocating; names are asked for only when no earlier entry settles the matter.
//
// A client's own name is believed only if it leads back to its address. mountd checks the same (host_reliable_addrinfo in
// nfs-utils' support/export/hostname.c), but then matches wildcards and netgroups against the name even when the check
// failed; that would let whoever controls an address's reverse zone choose a name.

package exports

import (
	"net/netip"
	"sort"
)

// A Resolver answers questions about names. It may be slow; see Set.Match. Its methods may be called by many goroutines.
type Resolver interface {
	// LookupHost gives the addresses of a host name, nil if there are none or they can't be learned.
	LookupHost(name string) []netip.Addr
	// ReverseNames gives the names of an address, the canonical one first. They need not be verified.
	ReverseNames(addr netip.Addr) []string
	// InNetgroup says whether the netgroup lists the host: by name, by the name's first label, or by address. host is ""
	// for an address without a name.
	InNetgroup(group, host string, addr netip.Addr) bool
}

// A Client is an address with the host names that have been verified to be its own, in canonical spelling.
type Client struct {
	Addr  netip.Addr `json:"address"`
	Names []string   `json:"names,omitempty"`
}

// maxNames bounds the names of one address that are looked at.
const maxNames = 16

// Identify finds the verified names of an address.
func Identify(addr netip.Addr, r Resolver) Client {
	c := Client{Addr: addr.Unmap()}
	if r == nil || !addr.IsValid() {
		return c
	}
	for _, name := range r.ReverseNames(c.Addr) {
		name = canonicalName(name)
		if _, err := netip.ParseAddr(name); err == nil || name == "" || len(name) > MaxClientName {
			continue
		}
		for _, a := range r.LookupHost(name) {
			if a.Unmap().WithZone("") == c.Addr.WithZone("") {
				c.Names = append(c.Names, name)
				break
			}
		}
		if len(c.Names) == maxNames {
			break
		}
	}
	return c
}

// matchIndex sorts the clients of an export by class. The numbers are indices into Clients.
type matchIndex struct {
	addrs  map[netip.Addr]int // hosts given by address
	names  []int              // hosts given by name
	nets   []indexedNet
	wild   []int
	groups []int
	any    int // -1 if there is none
}

type indexedNet struct {
	network
	i int
}

func (e *Export) buildIndex() {
	x := matchIndex{any: -1}
	for i := range e.Clients {
		c := &e.Clients[i]
		switch c.Class {
		case ClassHost:
			if !c.addr.IsValid() {
				x.names = append(x.names, i)
				continue
			}
			if x.addrs == nil {
				x.addrs = make(map[netip.Addr]int)
			}
			x.addrs[c.addr] = i
		case ClassNetwork:
			x.nets = append(x.nets, indexedNet{c.net, i})
		case ClassWildcard:
			x.wild = append(x.wild, i)
		case ClassNetgroup:
			x.groups = append(x.groups, i)
		case ClassAny:
			x.any = i
		}
	}
	e.index = x
}

// Match gives the options that the client at addr gets for e, and false if e is not exported to it. An IPv4 address in
// IPv6 form counts as the IPv4 address. r may be nil: then names, wildcards and netgroups match nobody.
//
// Match may wait for r, with a SystemResolver at most for its time-out altogether. So it has no place in the path of a
// call: keep the answer for (client, export) and ask again after a reload and after the resolver's TTL.
func (s *Set) Match(e *Export, addr netip.Addr, r Resolver) (Options, bool) {
	c, _ := s.Which(e, addr, r)
	if c == nil {
		return Options{}, false
	}
	return c.Options, true
}

// Which is Match, but gives the entry that matched, or nil. provisional is true when a question could not be answered in
// time and its answer could have changed the result: ask again soon rather than after the TTL.
func (s *Set) Which(e *Export, addr netip.Addr, r Resolver) (c *ClientSpec, provisional bool) {
	i, provisional := e.match(addr.Unmap(), r)
	if i < 0 {
		return nil, provisional
	}
	return &e.Clients[i], provisional
}

func (e *Export) match(addr netip.Addr, r Resolver) (found int, provisional bool) {
	x := &e.index
	if !addr.IsValid() {
		return x.any, false
	}
	host := -1
	if i, ok := x.addrs[addr]; ok {
		host = i
	}
	// A name that stands before the address may be the same host; within a class the first entry counts.
	if len(x.names) > 0 && r != nil && (host < 0 || x.names[0] < host) {
		i, doubt := e.matchNames(addr, host, r)
		provisional = doubt
		if i >= 0 {
			host = i
		}
	}
	if host >= 0 {
		return host, provisional
	}
	if len(x.nets) > 0 {
		is4, hi, lo := addrWords(addr)
		for k := range x.nets {
			if x.nets[k].contains(is4, hi, lo) {
				return x.nets[k].i, provisional
			}
		}
	}
	if r != nil && (len(x.wild) > 0 || len(x.groups) > 0) {
		i, doubt := e.matchPatterns(addr, r)
		provisional = provisional || doubt
		if i >= 0 {
			return i, provisional
		}
	}
	return x.any, provisional
}

// matchNames looks for addr among the hosts given by name that stand before entry limit (all, if limit is -1).
func (e *Export) matchNames(addr netip.Addr, limit int, r Resolver) (found int, doubt bool) {
	r, unsure := begin(r)
	names := e.index.names
	if limit >= 0 {
		names = names[:sort.SearchInts(names, limit)]
	}
	ahead := 0
	for n, i := range names {
		if p, ok := r.(*session); ok {
			for ; ahead < len(names) && ahead < n+lookAhead; ahead++ {
				p.prefetch(e.Clients[names[ahead]].Spec)
			}
		}
		for _, a := range r.LookupHost(e.Clients[i].Spec) {
			if a.Unmap() == addr {
				return i, unsure()
			}
		}
	}
	return -1, unsure()
}

// matchPatterns looks for addr among the wildcards and netgroups.
func (e *Export) matchPatterns(addr netip.Addr, r Resolver) (found int, doubt bool) {
	r, unsure := begin(r)
	client := Identify(addr, r)
	for _, i := range e.index.wild {
		for _, name := range client.Names {
			if glob(e.Clients[i].Spec, name) {
				return i, unsure()
			}
		}
	}
	for _, i := range e.index.groups {
		group := e.Clients[i].Spec[1:]
		if len(client.Names) == 0 && r.InNetgroup(group, "", client.Addr) {
			return i, unsure()
		}
		for _, name := range client.Names {
			if r.InNetgroup(group, name, client.Addr) {
				return i, unsure()
			}
		}
	}
	return -1, unsure()
}

// begin gives the resolver a deadline for one match, if it is one that can have it, and a function that tells whether an
// answer was missed.
func begin(r Resolver) (Resolver, func() bool) {
	if sys, ok := r.(*SystemResolver); ok {
		s := sys.begin()
		return s, func() bool { return s.missed }
	}
	return r, func() bool { return false }
}

// glob matches a lower-case host name against a lower-case pattern, as nfs-utils' wildmat does: * is any run of characters,
// dots included ("As these characters also match the dots in a domain name", exports(5)), ? is one character, [a-z] and
// [^a-z] are classes. Time is bounded by the product of the lengths.
func glob(pattern, name string) bool {
	p, n := 0, 0
	star, mark := -1, 0
	for n < len(name) {
		if p < len(pattern) {
			switch pattern[p] {
			case '*':
				star, mark = p, n
				p++
				continue
			case '?':
				p++
				n++
				continue
			case '[':
				if length, ok := matchSet(pattern[p:], name[n]); ok {
					p += length
					n++
					continue
				}
			default:
				if pattern[p] == name[n] {
					p++
					n++
					continue
				}
			}
		}
		if star < 0 {
			return false
		}
		mark++
		p, n = star+1, mark
	}
	for p < len(pattern) && pattern[p] == '*' {
		p++
	}
	return p == len(pattern)
}

// matchSet matches c against the class at the start of pattern, which the parser has checked to be closed, and gives the
// class's length. A ] or - in the first place is a plain character, and so is a - before the closing ].
func matchSet(pattern string, c byte) (length int, ok bool) {
	i := 1
	negate := pattern[i] == '^'
	if negate {
		i++
	}
	in := false
	var last byte
	for first := i; i < len(pattern) && (pattern[i] != ']' || i == first); i++ {
		if pattern[i] == '-' && i > first && i+1 < len(pattern) && pattern[i+1] != ']' {
			i++
			in = in || last <= c && c <= pattern[i]
		} else {
			in = in || pattern[i] == c
		}
		last = pattern[i]
	}
	return i + 1, in != negate
}
