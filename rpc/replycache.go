// The reply cache: a call that must not be done twice is done once, and a copy
// of it that comes later gets the first answer (RFC 1813, 4.2; RFC 5531, 8).
//
// A call is known by the client's address (without the port: the copy comes on
// another connection), xid, program, version and procedure, and a checksum of
// its length, its caller and the first bytes of its arguments, since clients
// that share an address or start anew repeat xids. A copy of a call that is
// being served is dropped; if it came on another connection than the first,
// the answer goes there too, for the first may be lost.
//
// Everything is allocated once: entries and replies of fixed size, in shards
// with a lock each. A shard is a ring: the oldest entry makes room for a new
// one. Those whose calls are running are passed over; when there are too many
// of them, the call is served and not kept.

package rpc

import (
	"hash/maphash"
	"slices"
	"sync"
	"sync/atomic"

	"sluice/xdr"
)

const (
	cacheShards = 16
	cacheSum    = 256 // bytes of the arguments in the checksum
	maxAwaiting = 4   // connections that get the answer to a running call too
)

type cacheKey struct {
	addr                  [16]byte
	xid, prog, vers, proc uint32
	sum                   uint64
	port                  uint16 // with byPort
}

type cacheState uint8

const (
	cacheFree cacheState = iota
	cacheRunning
	cacheDone
	cacheDue // to be begun again; copies of it wait
)

type cacheEntry struct {
	key   cacheKey
	when  int64
	chain int32 // next in the bucket
	size  uint16
	state cacheState
}

type cacheShard struct {
	mu       sync.Mutex
	number   uint8
	buckets  []int32
	entries  []cacheEntry
	replies  []byte
	hand     int32             // the next entry to be reused
	awaiting map[int32][]*Conn // where copies of running calls came from, at most maxAwaiting each
	_        [64]byte
}

// replyCache keeps the replies to one kind of call.
type replyCache struct {
	age    int64
	byPort bool // calls from another port of the client are other calls
	seed   maphash.Seed
	shards [cacheShards]cacheShard

	hits, misses, running, unkept atomic.Uint64
}

// cacheRef is a call's place in the cache; the zero cacheRef is none.
type cacheRef struct {
	cache *replyCache
	shard uint8
	entry int32
}

// newReplyCache makes a cache of so many entries, a multiple of 16 at least 16.
func newReplyCache(entries int, age int64) *replyCache {
	r := &replyCache{age: age, seed: maphash.MakeSeed()}
	n := max(entries/cacheShards, 1)
	buckets := 2
	for buckets < 2*n {
		buckets *= 2
	}
	for i := range r.shards {
		s := &r.shards[i]
		s.number = uint8(i)
		s.buckets = make([]int32, buckets)
		for j := range s.buckets {
			s.buckets[j] = -1
		}
		s.entries = make([]cacheEntry, n)
		s.replies = make([]byte, n*MaxCachedReply)
	}
	return r
}

func (r *replyCache) key(c *Conn, h *header, body []byte) cacheKey {
	args := body[h.args:]
	if len(args) > cacheSum {
		args = args[:cacheSum]
	}
	sum := mix(maphash.Bytes(r.seed, args), uint64(len(body)))
	sum = mix(sum^uint64(h.flavor), maphash.Bytes(r.seed, h.identity)) // the groups too: they decide what the answer is
	k := cacheKey{addr: c.peer.remote.Addr().As16(), xid: h.xid, prog: h.prog, vers: h.vers, proc: h.proc, sum: sum}
	if r.byPort {
		k.port = c.peer.remote.Port()
	}
	return k
}

func mix(a, b uint64) uint64 {
	a = (a ^ b) * 0x9e3779b97f4a7c15
	return a ^ a>>29
}

// answer is what begin found.
type answer uint8

const (
	answerRun     answer = iota // serve it; the cacheRef, if any, wants finish or forget
	answerReplay                // the reply was appended
	answerDropped               // a copy of a call in progress
)

// begin looks a call up. When it was answered before, that answer is appended
// to e.
func (r *replyCache) begin(c *Conn, k *cacheKey, now int64, e *xdr.Encoder) (answer, cacheRef) {
	s, at := r.bucket(k)
	s.mu.Lock()
	defer s.mu.Unlock()
	i := s.find(*at, k)
	if i >= 0 {
		old := &s.entries[i]
		switch {
		case old.state == cacheRunning:
			if s.awaiting == nil {
				s.awaiting = make(map[int32][]*Conn)
			}
			if l := s.awaiting[i]; len(l) < maxAwaiting && !slices.Contains(l, c) {
				s.awaiting[i] = append(l, c)
			}
			r.running.Add(1)
			return answerDropped, cacheRef{}
		case r.good(old, now):
			r.hits.Add(1)
			e.Fixed(s.replies[i*MaxCachedReply:][:old.size])
			return answerReplay, cacheRef{}
		}
	}
	return answerRun, r.enter(s, at, i, k, now)
}

// claim is begin for a call that is to be served before its turn. It reports
// false, and leaves all as it is, when that call is not to be served anew.
func (r *replyCache) claim(k *cacheKey, now int64) (cacheRef, bool) {
	s, at := r.bucket(k)
	s.mu.Lock()
	defer s.mu.Unlock()
	i := s.find(*at, k)
	if i >= 0 && (s.entries[i].state == cacheRunning || r.good(&s.entries[i], now)) {
		return cacheRef{}, false
	}
	return r.enter(s, at, i, k, now), true
}

// bucket is where a key's entry is, if there is one.
func (r *replyCache) bucket(k *cacheKey) (*cacheShard, *int32) {
	h := mix(k.sum, uint64(k.xid)<<32|uint64(k.proc)<<24^uint64(k.prog))
	s := &r.shards[h>>60%cacheShards]
	return s, &s.buckets[h>>8&uint64(len(s.buckets)-1)]
}

// find returns the entry of k in the chain that begins at i, or -1.
func (s *cacheShard) find(i int32, k *cacheKey) int32 {
	for ; i >= 0; i = s.entries[i].chain {
		if old := &s.entries[i]; old.key.sum == k.sum && old.key == *k {
			break
		}
	}
	return i
}

// good tells whether an entry has an answer that is not too old.
func (r *replyCache) good(e *cacheEntry, now int64) bool {
	return e.state == cacheDone && now-e.when <= r.age
}

// enter gives a call its place: entry i, whose answer is too old, or with i
// below 0 another's.
func (r *replyCache) enter(s *cacheShard, at *int32, i int32, k *cacheKey, now int64) cacheRef {
	if i < 0 {
		if i = s.victim(); i < 0 {
			r.unkept.Add(1)
			return cacheRef{}
		}
		entry := &s.entries[i]
		if entry.state != cacheFree {
			s.unchain(i, r)
			s.waiters(i)
		}
		entry.key, entry.chain = *k, *at
		*at = i
	}
	s.entries[i].state, s.entries[i].when = cacheRunning, now
	r.misses.Add(1)
	return cacheRef{r, s.number, i}
}

// victim is the oldest entry that is not running, among the few oldest.
func (s *cacheShard) victim() int32 {
	for range min(32, len(s.entries)) {
		i := s.hand
		if s.hand++; int(s.hand) == len(s.entries) {
			s.hand = 0
		}
		if s.entries[i].state != cacheRunning {
			return i
		}
	}
	return -1
}

func (s *cacheShard) unchain(i int32, r *replyCache) {
	_, at := r.bucket(&s.entries[i].key)
	for *at != i {
		at = &s.entries[*at].chain
	}
	*at = s.entries[i].chain
	s.entries[i].chain = -1
}

// finish keeps the reply to a call. It returns the connections that copies of
// it came from; the call's own may be among them.
func (f cacheRef) finish(reply []byte, now int64) []*Conn {
	s := &f.cache.shards[f.shard]
	s.mu.Lock()
	e := &s.entries[f.entry]
	e.state, e.when, e.size = cacheDone, now, uint16(len(reply))
	copy(s.replies[f.entry*MaxCachedReply:][:MaxCachedReply], reply)
	others := s.waiters(f.entry)
	s.mu.Unlock()
	return others
}

func (s *cacheShard) waiters(i int32) []*Conn {
	if len(s.awaiting) == 0 {
		return nil
	}
	l := s.awaiting[i]
	delete(s.awaiting, i)
	return l
}

// forget ends a call without an answer that could be kept.
func (f cacheRef) forget() {
	s := &f.cache.shards[f.shard]
	s.mu.Lock()
	defer s.mu.Unlock()
	s.waiters(f.entry)
	s.free(f.entry, f.cache)
}

func (s *cacheShard) free(i int32, r *replyCache) {
	s.unchain(i, r)
	s.entries[i].state = cacheFree
}

// abandon ends a call that was not begun, unless a copy waits for its answer:
// then it returns false. The zero cacheRef has no copies.
func (f cacheRef) abandon() bool {
	if f.cache == nil {
		return true
	}
	s := &f.cache.shards[f.shard]
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.awaiting[f.entry]) > 0 {
		return false
	}
	s.free(f.entry, f.cache)
	return true
}

// postpone ends a call that was not begun after all and will be looked up
// again. Copies of it go on waiting for its answer.
func (f cacheRef) postpone() {
	s := &f.cache.shards[f.shard]
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.awaiting[f.entry]) > 0 {
		s.entries[f.entry].state = cacheDue
		return
	}
	s.free(f.entry, f.cache)
}

// used is the number of entries that hold an answer or a running call.
func (r *replyCache) used() (n int) {
	for i := range r.shards {
		s := &r.shards[i]
		s.mu.Lock()
		for j := range s.entries {
			if s.entries[j].state != cacheFree {
				n++
			}
		}
		s.mu.Unlock()
	}
	return n
}
