// Snapshots for the admin commands: plain values, bounded, as of one moment for each kind.

package state

import (
	"fmt"
	"sort"
	"time"
)

// MaxSnapshot bounds the entries of one snapshot.
const MaxSnapshot = 10000

// ClientInfo describes a client record.
type ClientInfo struct {
	ID          ClientID
	Owner       string
	Addr        string
	Impl        string
	Minor       uint8 // that it began with
	Confirmed   bool
	Courtesy    bool          // past its lease, kept until somebody wants what it holds
	Reclaimed   bool          // RECLAIM_COMPLETE was done
	Recorded    bool          // on stable storage: may reclaim after a restart
	Callback    string        // unknown, up, down, fault
	LastRenewed time.Duration // ago
	Sessions    int
	Opens       int
	LockOwners  int
	Delegations int
	Revoked     int
}

// SessionInfo describes a session.
type SessionInfo struct {
	ID        SessionID
	Client    ClientID
	Slots     int
	Target    int
	Busy      int
	Conns     int
	BackConns int
	Reserved  int64 // bytes promised to cached replies
	Fore      ChannelAttrs
	Back      ChannelAttrs
}

// OpenInfo describes an open.
type OpenInfo struct {
	Client       ClientID
	Stateid      Stateid
	File         FileKey
	Owner        string
	Access, Deny uint8
	Locks        int // lock owners with locks under it
}

// LockInfo describes a byte-range lock, or one waited for.
type LockInfo struct {
	File       FileKey
	Owner      LockOwner
	Type       LockType
	Start, End uint64 // inclusive
	Waiting    bool
}

// DelegInfo describes a delegation.
type DelegInfo struct {
	Client   ClientID
	Stateid  Stateid
	File     FileKey
	Type     DelegType
	Recalled time.Duration // ago; 0: not
	Leased   bool          // backed by a kernel lease
}

// Counters are totals since the start, and how much there is now.
type Counters struct {
	Clients, Unconfirmed, Courtesy, Sessions, Opens, Locks, Delegations int64
	ReplyCacheReserved                                                  int64
	ClientsEnded, ClientsExpired                                        int64 // expired: by lease or by the administrator
	SharesDenied, LocksGranted, LocksDenied                             int64
	DelegsGranted, DelegsRecalled, DelegsReturned, DelegsRevoked        int64
	Replays, GraceRefused, StorageErrors                                int64
	Grace                                                               time.Duration // left
}

func (c cbState) String() string { return [...]string{"unknown", "up", "down", "fault"}[c] }

// Clients lists client records by id.
func (s *State) Clients() []ClientInfo {
	now := s.now()
	s.mu.RLock()
	defer s.mu.RUnlock()
	var list []ClientInfo
	add := func(c *Client) {
		if len(list) < MaxSnapshot {
			list = append(list, ClientInfo{
				ID: c.id, Owner: c.owner, Addr: c.addr, Impl: c.impl, Minor: c.began, Confirmed: c.isConfirmed,
				Courtesy: c.isConfirmed && c.expired(now), Reclaimed: c.complete, Recorded: c.recorded, Callback: c.cbState.String(),
				LastRenewed: time.Duration(max(now-c.renewed.Load(), 0)), Sessions: len(c.sessions), Opens: c.nopens,
				LockOwners: len(c.lockOwners), Delegations: c.ndelegs, Revoked: c.nrevoked + c.nadmin,
			})
		}
	}
	for _, c := range s.confirmed {
		add(c)
	}
	for _, c := range s.unconfirmed {
		add(c)
	}
	sort.Slice(list, func(i, j int) bool { return list[i].ID < list[j].ID })
	return list
}

// Sessions lists sessions by client.
func (s *State) Sessions() []SessionInfo {
	var list []SessionInfo
	s.sessions.each(func(x *Session) {
		if len(list) >= MaxSnapshot {
			return
		}
		x.mu.Lock()
		defer x.mu.Unlock()
		i := SessionInfo{
			ID: x.id, Client: x.client.id, Slots: len(x.slots), Target: x.target, Conns: len(x.conns), BackConns: x.nback,
			Reserved: x.reserved, Fore: x.fore, Back: x.back,
		}
		for _, sl := range x.slots {
			if sl.busy {
				i.Busy++
			}
		}
		list = append(list, i)
	})
	sort.Slice(list, func(i, j int) bool {
		if list[i].Client != list[j].Client {
			return list[i].Client < list[j].Client
		}
		return string(list[i].ID[:]) < string(list[j].ID[:])
	})
	return list
}

// Opens lists opens; client 0 asks for all.
func (s *State) Opens(client ClientID) []OpenInfo {
	s.mu.RLock()
	defer s.mu.RUnlock()
	var list []OpenInfo
	for _, c := range s.clients {
		if client != 0 && c.id != client {
			continue
		}
		for _, st := range c.stateids {
			if o, ok := st.(*openState); ok && o.status == stidLive && len(list) < MaxSnapshot {
				list = append(list, OpenInfo{
					Client: c.id, Stateid: o.stateid(), File: o.key, Owner: o.owner.name, Access: o.access, Deny: o.deny, Locks: len(o.locks),
				})
			}
		}
	}
	sort.Slice(list, func(i, j int) bool { return list[i].Stateid.before(list[j].Stateid) })
	return list
}

func (s Stateid) before(o Stateid) bool { return string(s.Other[:]) < string(o.Other[:]) }

// String gives seqid:other in hexadecimal.
func (s Stateid) String() string { return fmt.Sprintf("%08x:%x", s.Seqid, s.Other[:]) }

// Delegations lists delegations.
func (s *State) Delegations() []DelegInfo {
	now := s.now()
	s.mu.RLock()
	defer s.mu.RUnlock()
	var list []DelegInfo
	for _, f := range s.files {
		for _, d := range f.delegs {
			if len(list) >= MaxSnapshot {
				break
			}
			i := DelegInfo{Client: d.client.id, Stateid: d.stateid(), File: d.key, Type: d.typ, Leased: f.lease != DelegNone}
			if d.recalledAt != 0 {
				i.Recalled = time.Duration(max(now-d.recalledAt, 1))
			}
			list = append(list, i)
		}
	}
	sort.Slice(list, func(i, j int) bool { return list[i].Stateid.before(list[j].Stateid) })
	return list
}

// Locks lists byte-range locks of v4 and NLM, and requests that wait.
func (s *State) Locks() []LockInfo { return s.locks.snapshot() }

func (t *lockTable) snapshot() []LockInfo {
	var keys []FileKey
	for i := range t.shards {
		sh := &t.shards[i]
		sh.mu.Lock()
		for k := range sh.m {
			if len(keys) < MaxSnapshot {
				keys = append(keys, k)
			}
		}
		sh.mu.Unlock()
	}
	var list []LockInfo
	for i := range keys {
		f := t.get(&keys[i])
		from := len(list)
		for who, held := range f.set.owners {
			for _, l := range held.locks[:min(len(held.locks), MaxSnapshot-len(list))] {
				list = append(list, LockInfo{File: f.key, Owner: who, Type: l.typ, Start: l.start, End: l.end})
			}
		}
		for _, w := range f.waiters[:min(len(f.waiters), MaxSnapshot-len(list))] {
			list = append(list, LockInfo{File: f.key, Owner: w.who, Type: w.typ, Start: w.r.start, End: w.r.end, Waiting: true})
		}
		t.put(f)
		part := list[from:]
		sort.SliceStable(part, func(i, j int) bool { return !part[i].Waiting && (part[j].Waiting || part[i].Start < part[j].Start) })
		if len(list) >= MaxSnapshot {
			return list
		}
	}
	return list
}

// Counters sums up.
func (s *State) Counters() Counters {
	now := s.now()
	n := &s.counts
	c := Counters{
		Locks: s.locks.ranges.total.Load(), ReplyCacheReserved: s.reserved.Load(), ClientsEnded: n.clientsEnded.Load(), ClientsExpired: n.clientsExpired.Load(),
		SharesDenied: n.sharesDenied.Load(), LocksGranted: n.locksGranted.Load(), LocksDenied: n.locksDenied.Load(),
		DelegsGranted: n.delegsGranted.Load(), DelegsRecalled: n.delegsRecalled.Load(), DelegsReturned: n.delegsReturned.Load(),
		DelegsRevoked: n.delegsRevoked.Load(), Replays: n.replays.Load(), GraceRefused: n.graceRefused.Load(),
		StorageErrors: n.storageErrors.Load(), Grace: s.GraceLeft(),
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	c.Clients, c.Unconfirmed, c.Delegations = int64(len(s.confirmed)), int64(len(s.unconfirmed)), int64(s.ndelegs)
	for _, cl := range s.confirmed {
		c.Sessions += int64(len(cl.sessions))
		c.Opens += int64(cl.nopens)
		if cl.expired(now) {
			c.Courtesy++
		}
	}
	return c
}
