// The check of everything that must hold after each operation: sums are counted again, links are followed both ways.

package state

import "fmt"

// check recounts everything and compares with the sums that the code keeps.
func (w *world) check() {
	w.t.Helper()
	s := w.s
	s.mu.Lock()
	defer s.mu.Unlock()
	bad := func(format string, args ...any) { w.t.Helper(); w.t.Fatalf("invariant: "+format, args...) }
	if len(s.after) != 0 {
		bad("%d actions were never run", len(s.after))
	}
	type sums struct{ access, deny [2]int }
	files := map[*file]*sums{}
	ndelegs := 0
	for id, c := range s.clients {
		if c.id != id || c.gone {
			bad("client %x filed under %x, gone %v", c.id, id, c.gone)
		}
		if c.isConfirmed && s.confirmed[c.owner] != c {
			bad("confirmed client %x is not the one of its owner", id)
		}
	}
	for name, c := range s.confirmed {
		if c.owner != name || !c.isConfirmed || s.clients[c.id] != c {
			bad("confirmed record %q", name)
		}
		opens, delegs, revoked, admin := 0, 0, 0, 0
		for num, st := range c.stateids {
			b := st.base()
			if b.num != num || b.client != c || b.seqid == 0 && b.status == stidLive {
				if l, isLock := st.(*lockState); !isLock || l.busy == 0 {
					bad("stateid %d of %q: num %d seqid %d", num, name, b.num, b.seqid)
				}
			}
			switch b.status {
			case stidRevoked:
				revoked++
			case stidAdmin:
				admin++
			}
			if b.status != stidLive {
				continue
			}
			switch st := st.(type) {
			case *openState:
				opens++
				if st.owner.states[st.key] != st || st.owner.gone || c.openOwners[st.owner.name] != st.owner {
					bad("an open is not its owner's")
				}
				f := s.files[st.key]
				if f == nil || f != st.file {
					bad("an open's file is not known")
				}
				if _, there := f.opens[st]; !there {
					bad("an open is not its file's")
				}
				if files[f] == nil {
					files[f] = &sums{}
				}
				var a, d uint8
				for x := uint8(0); x < 16; x++ {
					if st.modes&(1<<x) != 0 {
						a, d = a|x>>2, d|x&3
					}
				}
				if a != st.access || d != st.deny || a == 0 {
					bad("an open's shares %d/%d are not the sum of its modes %b", st.access, st.deny, st.modes)
				}
				for i := range 2 {
					files[f].access[i] += int(st.access >> i & 1)
					files[f].deny[i] += int(st.deny >> i & 1)
				}
				for l := range st.locks {
					if l.open != st || l.status != stidLive {
						bad("a lock state is not its open's")
					}
				}
			case *lockState:
				if _, there := st.open.locks[st]; !there || st.owner.locks[st.open] != st || st.owner.gone || c.lockOwners[st.owner.name] != st.owner {
					bad("a lock state is not its open's or owner's")
				}
			case *deleg:
				delegs++
				found := 0
				for _, d := range st.file.delegs {
					if d == st {
						found++
					}
				}
				if found != 1 || s.files[st.key] != st.file {
					bad("a delegation is on its file %d times", found)
				}
				if _, there := c.recalled[st]; there != (st.recalledAt != 0) {
					bad("recalled set")
				}
			}
		}
		if opens != c.nopens || delegs != c.ndelegs || revoked != c.nrevoked || admin != c.nadmin {
			bad("client %q counts %d %d %d %d, has %d %d %d %d", name, c.nopens, c.ndelegs, c.nrevoked, c.nadmin, opens, delegs, revoked, admin)
		}
		ndelegs += delegs
		for _, o := range c.openOwners {
			if o.gone || c.minor > 0 && len(o.states) == 0 && o.idleSince == 0 {
				bad("owner %q gone %v", o.name, o.gone)
			}
		}
	}
	for name, c := range s.unconfirmed {
		if c.owner != name || c.isConfirmed || c.hasState() || c.gone {
			bad("unconfirmed record %q", name)
		}
	}
	if ndelegs != s.ndelegs {
		bad("%d delegations counted, %d there", s.ndelegs, ndelegs)
	}
	objects := 0
	for _, c := range s.clients {
		objects += len(c.stateids) + len(c.openOwners) + len(c.lockOwners)
	}
	if objects != s.objects {
		bad("%d objects counted, %d there", s.objects, objects)
	}
	interest := map[uint64]int32{}
	for k, f := range s.files {
		if f.key != k {
			bad("file under another key")
		}
		if len(f.opens) == 0 && len(f.delegs) == 0 && !f.leasing {
			bad("a file without opens or delegations is remembered")
		}
		x := files[f]
		if x == nil {
			x = &sums{}
		}
		if f.access != x.access || f.deny != x.deny {
			bad("file sums %v %v, counted %v %v", f.access, f.deny, x.access, x.deny)
		}
		write := 0
		for _, d := range f.delegs {
			if d.typ == DelegWrite {
				write++
			}
			for _, e := range f.delegs {
				if d != e && d.client == e.client {
					bad("two delegations of one client")
				}
			}
		}
		if write > 0 && len(f.delegs) > 1 {
			bad("a write delegation is not alone")
		}
		for _, d := range f.delegs {
			for o := range f.opens {
				if d.recalledAt == 0 && o.client != d.client && (d.typ == DelegWrite || o.access&ShareWrite != 0) {
					bad("an open is beside somebody else's delegation")
				}
			}
		}
		if f.counted != (f.deny[0] > 0 || f.deny[1] > 0 || len(f.delegs) > 0 || f.leasing) {
			bad("file not counted right")
		}
		if f.counted {
			interest[s.hash(&k)%interestSlots]++
		}
		if s.cfg.Leases != nil && (f.lease == DelegNone) != (len(f.delegs) == 0) && !f.hadConflict && !f.leasing {
			bad("kernel lease %d with %d delegations", f.lease, len(f.delegs))
		}
	}
	for i, want := range interest {
		if n := s.interest[i].Load(); n != want {
			bad("interest[%d] is %d, should be %d", i, n, want)
		}
	}
	if w.checks++; w.checks%32 == 0 || w.checks < 32 { // there are many
		for i := range s.interest {
			if n := s.interest[i].Load(); n != interest[uint64(i)] {
				bad("interest[%d] is %d, should be %d", i, n, interest[uint64(i)])
			}
		}
	}
	reserved := int64(0)
	s.sessions.each(func(x *Session) {
		if x.client.sessions[x.id] != x || x.client.gone || x.dead {
			bad("a session is not its client's")
		}
		reserved += x.reserved
		if x.reserved != sessionCost+int64(len(x.slots))*(max(int64(x.fore.MaxResponseCached), loneReply)+slotCost) || x.target > len(x.slots) || x.target < 1 {
			bad("session of %d slots, target %d, reserved %d", len(x.slots), x.target, x.reserved)
		}
	})
	if reserved != s.reserved.Load() {
		bad("reserved %d, sessions have %d", s.reserved.Load(), reserved)
	}
	w.checkPeers(bad)
	w.checkLocks(bad)
}

// checkPeers recounts what peers have. The caller holds the lock.
func (w *world) checkPeers(bad func(string, ...any)) {
	s := w.s
	sums := map[*peer]*peer{}
	count := func(c *Client, unconfirmed bool) {
		p := sums[c.peer]
		if p == nil {
			p = &peer{name: c.peer.name}
			sums[c.peer] = p
		}
		if s.peers[p.name] != c.peer || unconfirmed != (c.aged != nil) {
			bad("the peer %q of client %q is not known", p.name, c.owner)
		}
		ranges, places := 0, 0
		for _, o := range c.lockOwners {
			places += len(o.held)
			for _, n := range o.held {
				ranges += n
			}
		}
		if ranges != c.ranges || places != c.places {
			bad("client %q has %d ranges in %d places, counted %d, %d", c.owner, ranges, places, c.ranges, c.places)
		}
		p.clients++
		p.objects += len(c.stateids) + len(c.openOwners) + len(c.lockOwners)
		p.delegs += c.ndelegs
		p.ranges += ranges
		p.places += places
		for _, x := range c.sessions {
			p.reserved.Add(x.reserved)
		}
		if unconfirmed {
			p.unconfirmed.PushBack(c)
		}
	}
	for _, c := range s.confirmed {
		count(c, false)
	}
	for _, c := range s.unconfirmed {
		count(c, true)
	}
	if len(sums) != len(s.peers) {
		bad("%d peers are known, %d have clients", len(s.peers), len(sums))
	}
	for p, x := range sums {
		if p.clients != x.clients || p.objects != x.objects || p.delegs != x.delegs || p.ranges != x.ranges || p.places != x.places ||
			p.reserved.Load() != x.reserved.Load() || p.unconfirmed.Len() != x.unconfirmed.Len() {
			bad("peer %q counts %d clients, %d objects, %d delegations, %d ranges, %d bytes; they are %d, %d, %d, %d, %d", p.name,
				p.clients, p.objects, p.delegs, p.ranges, p.reserved.Load(), x.clients, x.objects, x.delegs, x.ranges, x.reserved.Load())
		}
	}
}

// checkLocks recounts the lock table. The caller holds the lock; nothing else runs.
func (w *world) checkLocks(bad func(string, ...any)) {
	t := &w.s.locks
	count := map[string]int{}
	total := 0
	for i := range t.shards {
		for k, f := range t.shards[i].m {
			if f.key != k || f.refs != 0 {
				bad("file locks: %d references", f.refs)
			}
			if f.set.empty() && len(f.waiters) == 0 {
				bad("empty file locks are kept")
			}
			for o, held := range f.set.owners {
				locks := held.locks
				count[o.holder()] += len(locks)
				total += len(locks)
				if _, there := t.ranges.owners[o.holder()][lockPlace{k, o}]; !there {
					bad("an owner's place is not known")
				}
				if o.Client != 0 {
					c := w.s.clients[o.Client]
					if c == nil {
						bad("locks of a client that is gone")
					}
					lo := c.lockOwners[o.Owner]
					if lo == nil || lo.held[k] != len(locks) {
						bad("lock owner %q is gone or counts %v ranges, has %d", o.Owner, lo, len(locks))
					}
				}
				for j, l := range locks {
					if l.start > l.end || j > 0 && (locks[j-1].end >= l.start || locks[j-1].end+1 == l.start && locks[j-1].typ == l.typ) {
						bad("locks out of order: %v", locks)
					}
					for p, others := range f.set.owners {
						for _, m := range others.locks {
							if p != o && m.meets(l.byteRange) && (m.typ == WriteLock || l.typ == WriteLock) {
								bad("two owners' locks conflict: %v %v", l, m)
							}
						}
					}
				}
			}
			if fl, isFake := w.s.cfg.Local.(*fakeLocal); isFake {
				for o, held := range f.set.owners {
					if fmt.Sprint(fl.set(k).held(o)) != fmt.Sprint(held.locks) {
						bad("local locks differ: %v, table %v", fl.set(k).held(o), held.locks)
					}
				}
			}
		}
	}
	for _, c := range w.s.clients {
		for _, lo := range c.lockOwners {
			for k := range lo.held {
				if t.shards[keyShard(&k)].m[k] == nil {
					bad("a lock owner counts ranges of a file without any")
				}
			}
		}
	}
	if fmt.Sprint(count) != fmt.Sprint(t.ranges.count) || int64(total) != t.ranges.total.Load() {
		bad("ranges %v (%d), counted %v (%d)", t.ranges.count, t.ranges.total.Load(), count, total)
	}
}
