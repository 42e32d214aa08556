// What an administrator does to state beside looking at it. ExpireClient is in client.go, EndGrace in grace.go.

package state

// RevokeFiles takes back all opens, locks and delegations on the files that match, so that their file system can be
// unmounted. Clients find out by ADMIN_REVOKED (and in sessions by SEQUENCE's flag) and let go by FREE_STATEID. It returns
// how many stateids were revoked. match is called with the lock held.
func (s *State) RevokeFiles(match func(*FileKey) bool) (n int) {
	s.enter()
	defer s.leave()
	for _, c := range s.clients {
		for _, st := range c.stateids {
			b := st.base()
			if b.status != stidLive || !match(&b.key) {
				continue
			}
			n++
			switch st := st.(type) {
			case *openState:
				for l := range st.locks {
					if l.status == stidLive {
						n++
						s.revokeLocks(l)
					}
				}
				s.unshare(st)
			case *lockState:
				s.revokeLocks(st)
				continue // counted there
			case *deleg:
				s.detach(st)
			}
			b.status = stidAdmin
			c.nadmin++
		}
		c.setStatus()
	}
	return n
}

func (s *State) revokeLocks(l *lockState) {
	delete(l.open.locks, l)
	delete(l.owner.locks, l.open)
	l.uncountRanges()
	if len(l.owner.locks) == 0 {
		l.owner.unfile()
	}
	l.file = nil
	l.status = stidAdmin
	l.client.nadmin++
	key, who := l.key, l.who
	s.later(func() { s.locks.releaseOwner(&key, who) })
}
