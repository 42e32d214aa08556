// Connections of sessions: BIND_CONN_TO_SESSION (RFC 8881 18.34), the implicit binding by SEQUENCE (2.10.3.1), and the
// back channel's slots.

package state

import "sync"

// connTable knows which sessions a connection serves.
type connTable struct {
	mu sync.Mutex
	m  map[uint64]map[*Session]struct{}
}

func (t *connTable) add(conn uint64, s *Session) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.m == nil {
		t.m = map[uint64]map[*Session]struct{}{}
	}
	if t.m[conn] == nil {
		t.m[conn] = map[*Session]struct{}{}
	}
	t.m[conn][s] = struct{}{}
}

func (t *connTable) remove(conn uint64, s *Session) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.m[conn], s)
	if len(t.m[conn]) == 0 {
		delete(t.m, conn)
	}
}

func (t *connTable) take(conn uint64) []*Session {
	t.mu.Lock()
	defer t.mu.Unlock()
	var list []*Session
	for s := range t.m[conn] {
		list = append(list, s)
	}
	delete(t.m, conn)
	return list
}

// bind binds a connection, replacing what it was bound for before. At the limit of connections it stays unbound, which
// costs the session nothing but callbacks over it. It reports whether it is bound.
func (s *Session) bind(conn uint64, dir BindDir) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.bindLocked(conn, dir)
}

func (s *Session) bindLocked(conn uint64, dir BindDir) bool {
	if s.dead {
		return false
	}
	old, known := s.conns[conn]
	if !known {
		if len(s.conns) >= s.s.cfg.MaxConns {
			return false
		}
		s.s.connTable.add(conn, s)
	}
	if old&BindBack != 0 {
		s.nback--
	}
	if dir&BindBack != 0 {
		s.nback++
	}
	s.conns[conn] = dir
	s.lastConn.Store(conn)
	return true
}

func (s *Session) hasBack() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.nback > 0
}

// BackConns appends the ids of the connections bound to the back channel.
func (s *Session) BackConns(dst []uint64) []uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	for conn, dir := range s.conns {
		if dir&BindBack != 0 {
			dst = append(dst, conn)
		}
	}
	return dst
}

// CBProgram returns the program number of callbacks.
func (s *Session) CBProgram() uint32 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.cbProgram
}

// CBSec returns how callbacks identify the server. Its Groups are not to be changed.
func (s *Session) CBSec() CBSec {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.cbSec
}

// BindConn binds the call's connection to a session and answers in which direction. The wish for one or both gets both.
func (s *State) BindConn(call *Call, id SessionID, dir BindDir) (BindDir, error) {
	switch dir {
	case BindFore, BindBack:
	case BindForeOrBoth, BindBackOrBoth:
		dir = BindFore | BindBack
	default:
		return 0, ErrInval
	}
	s.enter()
	defer s.leave()
	sess := s.sessions.get(&id)
	if sess == nil {
		return 0, ErrBadSession
	}
	if sess.client.machCred && !call.Integrity {
		return 0, ErrWrongCred
	}
	if !sess.bind(call.Conn, dir) {
		return 0, ErrDelay
	}
	if dir&BindBack != 0 {
		s.probe(sess.client)
	} else if sess.client.backSession() == nil {
		s.backLost(sess.client)
	}
	return dir, nil
}

// ConnClosed tells that a connection is gone.
func (s *State) ConnClosed(conn uint64) {
	list := s.connTable.take(conn)
	if len(list) == 0 {
		return
	}
	s.enter()
	defer s.leave()
	called := map[*Client]struct{}{} // over this connection; of each there may be many sessions
	for _, sess := range list {
		sess.mu.Lock()
		if sess.conns[conn]&BindBack != 0 {
			sess.nback--
			called[sess.client] = struct{}{}
		}
		delete(sess.conns, conn)
		sess.lastConn.CompareAndSwap(conn, 0)
		sess.mu.Unlock()
	}
	for c := range called {
		switch {
		case c.gone:
		case c.backSession() == nil:
			s.backLost(c)
		default:
			s.probe(c) // what was under way on that connection goes by another
		}
	}
}

// backLost notes that a client has no back channel any more; SEQUENCE tells it. The caller holds the lock.
func (s *State) backLost(c *Client) {
	if c.gone || s.cfg.Callbacks == nil {
		return
	}
	c.cbState = cbDown
	c.setStatus()
}

// cbSlot is a slot of the back channel, seen from the side that sends.
type cbSlot struct {
	seq  uint32 // of the last request that the client has seen
	busy bool
}

// CBAcquire takes a free slot of the back channel: its number, the sequence id to send, and the highest slot in use. ok is
// false when all are busy or the session is gone.
func (s *Session) CBAcquire() (slot, seq, highest uint32, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.dead {
		return 0, 0, 0, false
	}
	for i := range s.cbSlots {
		if !ok && !s.cbSlots[i].busy {
			s.cbSlots[i].busy = true
			slot, seq, ok = uint32(i), s.cbSlots[i].seq+1, true
		}
		if s.cbSlots[i].busy {
			highest = uint32(i)
		}
	}
	return slot, seq, highest, ok
}

// CBRelease frees a slot. used says that the client has taken the sequence id (or may have: a connection that broke is no
// proof that it has not; then send the same request again on the same slot rather than release it).
func (s *Session) CBRelease(slot uint32, used bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.cbSlots[slot].busy {
		panic("state: CBRelease of a free slot")
	}
	s.cbSlots[slot].busy = false
	if used {
		s.cbSlots[slot].seq++
	}
}

// CBResync sets a busy slot's sequence id after CB_SEQUENCE failed with SEQ_MISORDERED: the next one sent is 1, as Linux
// does.
func (s *Session) CBResync(slot uint32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cbSlots[slot].seq = 0
}
