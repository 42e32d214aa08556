// Sessions by id, sharded, so that SEQUENCE does not meet other sessions' locks.

package state

import "sync"

const sessionShards = 32

type sessionTable struct {
	shards [sessionShards]struct {
		mu sync.RWMutex
		m  map[SessionID]*Session
		_  [32]byte
	}
}

func (t *sessionTable) init() {
	for i := range t.shards {
		t.shards[i].m = map[SessionID]*Session{}
	}
}

// A session id's last word is a counter: see newSessionID.
func shardOf(id *SessionID) int { return int(id[15]) % sessionShards }

func (t *sessionTable) get(id *SessionID) *Session {
	sh := &t.shards[shardOf(id)]
	sh.mu.RLock()
	s := sh.m[*id]
	sh.mu.RUnlock()
	return s
}

func (t *sessionTable) put(s *Session) {
	sh := &t.shards[shardOf(&s.id)]
	sh.mu.Lock()
	sh.m[s.id] = s
	sh.mu.Unlock()
}

func (t *sessionTable) remove(s *Session) {
	sh := &t.shards[shardOf(&s.id)]
	sh.mu.Lock()
	delete(sh.m, s.id)
	sh.mu.Unlock()
}

// each calls f for every session, one shard's lock held.
func (t *sessionTable) each(f func(*Session)) {
	for i := range t.shards {
		sh := &t.shards[i]
		sh.mu.RLock()
		for _, s := range sh.m {
			f(s)
		}
		sh.mu.RUnlock()
	}
}
