// Peers: what all clients share, and how it is shared out.
//
// Records, stateids and owners, delegations, lock ranges and the memory of slots are bounded for all clients together, and
// one host could make as many clients as it takes to have all of it. So whoever wants more of something that all share
// must have less of it than is left: a greedy peer gets half, two of them a third each, n of them 1/(n+1) each, and as
// much is there for those who come next. A peer is the address that a client record came from; of IPv6, where a host
// has as many addresses as it likes, the network (/64).

package state

import (
	"container/list"
	"net/netip"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// peer is what the clients of one address have. It is known for as long as it has a client record.
type peer struct {
	name string // empty: not told, and shared by nobody

	// Under State.mu.
	clients     int
	objects     int
	delegs      int
	ranges      int
	places      int       // lock owners' files
	unconfirmed list.List // of *Client, the oldest first

	reserved atomic.Int64 // of State.reserved
}

// may tells whether a peer that has so much of something may have more of it, when so much of so much is in use.
func (p *peer) may(has, used, most int) bool {
	return used < most && (p.name == "" || has < most-used)
}

// peerName names the peer of an address.
func peerName(addr string) string {
	ip, err := netip.ParseAddr(addr)
	if err != nil {
		return addr
	}
	if ip = ip.Unmap(); ip.Is6() {
		net, _ := ip.WithZone("").Prefix(64)
		return net.String()
	}
	return ip.String()
}

// peerOf finds or makes the peer of an address. It is filed when it gets a client.
func (s *State) peerOf(addr string) *peer {
	name := peerName(addr)
	if p := s.peers[name]; p != nil {
		return p
	}
	return &peer{name: name}
}

// joins counts a new record.
func (p *peer) joins(s *State) {
	p.clients++
	s.peers[p.name] = p
}

// leaves counts a record that has ended.
func (p *peer) leaves(s *State) {
	if p.clients--; p.clients == 0 {
		delete(s.peers, p.name)
	}
}

// Peer names whom the client shares with: its address, or network.
func (c *Client) Peer() string { return c.peer.name }

// Gone tells whether the record has ended.
func (c *Client) Gone() bool {
	c.s.mu.RLock()
	defer c.s.mu.RUnlock()
	return c.gone
}

// objectRoom tells whether a client may have one more stateid or owner.
func (c *Client) objectRoom() bool {
	if c.peer.may(c.peer.objects, c.s.objects, c.s.cfg.MaxObjects) {
		return true
	}
	c.s.short(c.s.now(), c.peer)
	return false
}

// short is for when a peer may have no more of something: the client that has been expired for longest is ended, of this
// peer's if it has one. Whoever was refused comes again, perhaps at once, so that there is a pause between two looks at all
// clients. The caller holds the lock.
func (s *State) short(now int64, p *peer) {
	if now < s.nextShort {
		return
	}
	s.nextShort = now + shortPause
	var old *Client
	for _, c := range s.confirmed {
		if !c.queued && c.expired(now) && (old == nil || old.peer != p && c.peer == p ||
			(old.peer == p) == (c.peer == p) && c.renewed.Load() < old.renewed.Load()) {
			old = c
		}
	}
	if old != nil {
		s.queueReap(old)
	}
}

const shortPause = int64(10e6) // ns

// countObjects counts stateids and owners that come or go.
func (c *Client) countObjects(n int) {
	c.s.objects += n
	c.peer.objects += n
}

// rangeRoom tells whether a client may have one more byte range: ErrResource, or where its owner has none on the file yet
// unix.ENOLCK, which LocalLocker would say of a descriptor too many.
func (s *State) rangeRoom(l *lockState) error {
	now := s.enter()
	defer s.leave()
	p := l.client.peer
	_, known := l.owner.held[l.key]
	switch {
	case !known && !p.may(p.places, s.places, s.cfg.MaxLockPlaces):
		s.short(now, p)
		return unix.ENOLCK
	case !p.may(p.ranges, int(s.locks.ranges.total.Load()), s.cfg.MaxRanges):
		s.short(now, p)
		return ErrResource
	}
	return nil
}

// countRanges counts byte ranges that a lock owner got or gave on a file. Changes come in any order, so that the count may
// be wrong while a LOCK is under way.
func (l *lockState) countRanges(n int) {
	if l.status != stidLive || n == 0 {
		return // its ranges went with it, and were counted then
	}
	_, known := l.owner.held[l.key]
	l.owner.held[l.key] += n
	l.client.addRanges(n)
	switch {
	case l.owner.held[l.key] == 0:
		delete(l.owner.held, l.key)
		l.client.addPlaces(-1)
	case !known:
		l.client.addPlaces(1)
	}
}

// uncountRanges forgets the ranges of an owner on a file, which go by another way.
func (l *lockState) uncountRanges() { l.countRanges(-l.owner.held[l.key]) }

func (c *Client) addRanges(n int) {
	c.ranges += n
	c.peer.ranges += n
}

func (c *Client) addPlaces(n int) {
	c.places += n
	c.peer.places += n
	c.s.places += n
}

// slotRoom is how many bytes a peer may take for slots.
func (s *State) slotRoom(p *peer) int64 {
	left := s.cfg.MaxReplyCache - s.reserved.Load()
	if p.name == "" {
		return left
	}
	return left - p.reserved.Load()
}

// reserveSlots counts bytes for slots that come or go.
func (s *Session) reserveSlots(n int64) {
	s.reserved += n
	s.s.reserved.Add(n)
	s.client.peer.reserved.Add(n)
}
