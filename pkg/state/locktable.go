// LockTable: the byte-range locks of all files, for v4 and NLM alike; who owns one is told apart by LockOwner alone.
//
// Each file has a mutex of its own, held while the lock is taken on the file itself too (LocalLocker), so that no other
// file waits for a slow file system. Locks granted here and those of local processes are one set to everybody: a lock is
// held once both have it.

package state

import (
	"sync"
	"sync/atomic"
)

const lockShards = 64

type lockTable struct {
	cfg    *Config
	shards [lockShards]struct {
		mu sync.Mutex
		m  map[FileKey]*fileLocks
	}

	waits struct {
		sync.Mutex
		// Under it: who waits for whom (one blocker each), to find deadlocks; how many wait; where.
		on    map[LockOwner]LockOwner
		count map[string]int
		total int
		files map[FileKey]int // files with waiters
	}
	ranges struct {
		sync.Mutex
		// Under it.
		count  map[string]int                    // ranges by holder (client or host)
		owners map[string]map[lockPlace]struct{} // where a holder has locks
		total  atomic.Int64
	}
}

// lockPlace is one owner's locks on one file.
type lockPlace struct {
	file FileKey
	who  LockOwner
}

// fileLocks are one file's locks.
type fileLocks struct {
	key  FileKey
	refs int // under the shard's mutex

	mu sync.Mutex
	// Under mu.
	set     lockSet[LockOwner]
	waiters []*Waiter
}

// Waiter is a lock request that waits for its turn, first come first served among those in conflict.
//
// An NLM request is granted in its absence: Granted is called once the lock is held; whoever cannot use it unlocks. A v4
// request is only told to ask again, and is gone then.
type Waiter struct {
	// Granted is called with no lock held, once.
	Granted func(w *Waiter)

	who    LockOwner
	r      byteRange
	typ    LockType
	notify bool  // v4
	until  int64 // v4: no longer of use
	queued bool  // under the file's mutex
}

// Owner returns who waits.
func (w *Waiter) Owner() LockOwner { return w.who }

func (t *lockTable) init(cfg *Config) {
	t.cfg = cfg
	for i := range t.shards {
		t.shards[i].m = map[FileKey]*fileLocks{}
	}
	t.waits.on = map[LockOwner]LockOwner{}
	t.waits.count = map[string]int{}
	t.waits.files = map[FileKey]int{}
	t.ranges.count = map[string]int{}
	t.ranges.owners = map[string]map[lockPlace]struct{}{}
}

// holder names what limits count by: a client or a host.
func (o *LockOwner) holder() string {
	if o.Client != 0 {
		b := makeOther(o.Client, 0)
		return string(b[:8])
	}
	return "nlm:" + o.Host
}

// get gives a file's locks, mutex held. put lets it go.
func (t *lockTable) get(key *FileKey) *fileLocks {
	sh := &t.shards[keyShard(key)]
	sh.mu.Lock()
	f := sh.m[*key]
	if f == nil {
		f = &fileLocks{key: *key}
		sh.m[*key] = f
	}
	f.refs++
	sh.mu.Unlock()
	f.mu.Lock()
	return f
}

func (t *lockTable) put(f *fileLocks) {
	idle := f.set.empty() && len(f.waiters) == 0
	f.mu.Unlock()
	sh := &t.shards[keyShard(&f.key)]
	sh.mu.Lock()
	f.refs--
	if f.refs == 0 && idle {
		delete(sh.m, f.key)
	}
	sh.mu.Unlock()
}

func keyShard(k *FileKey) int {
	h := uint32(2166136261)
	for _, b := range k.Bytes[:min(int(k.Len), len(k.Bytes))] {
		h = (h ^ uint32(b)) * 16777619
	}
	return int(h % lockShards)
}

// lock takes a range. ErrDenied comes with the lock in the way; with w, the request is queued then, unless that would be
// a deadlock (ErrDeadlock). ErrResource: too many ranges or waiters. delta is how many ranges the owner has more.
func (t *lockTable) lock(key *FileKey, who LockOwner, r byteRange, typ LockType, w *Waiter) (delta int, c LockConflict, err error) {
	f := t.get(key)
	defer t.put(f)
	before := f.set.count(who)
	c, err = t.take(f, who, r, typ)
	if err == nil {
		t.unqueue(f, who, r)
	} else if err == ErrDenied && w != nil {
		w.who, w.r, w.typ = who, r, typ
		if e := t.enqueue(f, w, &c); e != nil {
			err = e
		}
	}
	return f.set.count(who) - before, c, err
}

// take takes a range if nothing is in the way.
func (t *lockTable) take(f *fileLocks, who LockOwner, r byteRange, typ LockType) (LockConflict, error) {
	if o, l, found := f.set.conflict(who, r, typ); found {
		return LockConflict{Owner: o, Type: l.typ, Start: l.start, End: l.end}, ErrDenied
	}
	if !t.room(who) {
		return LockConflict{}, ErrResource
	}
	if t.cfg.Local != nil {
		if err := t.cfg.Local.Lock(f.key, who, typ, r.start, r.end); err != nil {
			if !isAgain(err) {
				return LockConflict{}, err
			}
			c, ok := t.cfg.Local.Test(f.key, who, typ, r.start, r.end)
			if !ok { // gone again just now
				c = LockConflict{Type: WriteLock, Start: r.start, End: r.end}
			}
			c.Local = true
			return c, ErrDenied
		}
	}
	t.account(f, who, f.set.set(who, r, typ))
	return LockConflict{}, nil
}

// test looks for what is in the way.
func (t *lockTable) test(key *FileKey, who LockOwner, r byteRange, typ LockType) (LockConflict, bool) {
	f := t.get(key)
	defer t.put(f)
	if o, l, found := f.set.conflict(who, r, typ); found {
		return LockConflict{Owner: o, Type: l.typ, Start: l.start, End: l.end}, true
	}
	if t.cfg.Local != nil {
		if c, ok := t.cfg.Local.Test(f.key, who, typ, r.start, r.end); ok {
			c.Local = true
			return c, true
		}
	}
	return LockConflict{}, false
}

// unlock lets a range go and serves who waited for it. delta as in lock.
func (t *lockTable) unlock(key *FileKey, who LockOwner, r byteRange) (delta int) {
	f := t.get(key)
	before := f.set.count(who)
	t.drop(f, who, r)
	delta = f.set.count(who) - before
	calls := t.serve(f)
	t.put(f)
	for _, call := range calls {
		call()
	}
	return delta
}

func (t *lockTable) drop(f *fileLocks, who LockOwner, r byteRange) {
	if f.set.count(who) == 0 {
		return
	}
	if t.cfg.Local != nil {
		t.cfg.Local.Unlock(f.key, who, r.start, r.end)
	}
	t.account(f, who, f.set.set(who, r, 0))
	if f.set.count(who) == 0 && t.cfg.Local != nil {
		t.cfg.Local.Forget(f.key, who)
	}
}

// releaseOwner lets all go that an owner has on a file.
func (t *lockTable) releaseOwner(key *FileKey, who LockOwner) (delta int) {
	return t.unlock(key, who, byteRange{0, ^uint64(0)})
}

// releaseClient and releaseHost let all go that a client or host has, and take its requests out of the queues.
func (t *lockTable) releaseClient(id ClientID) { t.releaseHolder(&LockOwner{Client: id}) }
func (t *lockTable) releaseHost(host string)   { t.releaseHolder(&LockOwner{Host: host}) }

func (t *lockTable) releaseHolder(o *LockOwner) {
	name := o.holder()
	for {
		t.ranges.Lock()
		var places []lockPlace
		for p := range t.ranges.owners[name] {
			places = append(places, p)
		}
		t.ranges.Unlock()
		if len(places) == 0 {
			break
		}
		for _, p := range places {
			t.releaseOwner(&p.file, p.who)
		}
	}
	t.waits.Lock()
	waiting := t.waits.count[name] > 0
	var files []FileKey
	if waiting {
		for k := range t.waits.files {
			files = append(files, k)
		}
	}
	t.waits.Unlock()
	for i := range files {
		f := t.get(&files[i])
		for j := len(f.waiters) - 1; j >= 0; j-- {
			if f.waiters[j].who.holder() == name {
				t.remove(f, j)
			}
		}
		t.put(f)
	}
}

// room tells whether a holder may have more ranges. A request may split a range, so that the limit is off by two at most.
func (t *lockTable) room(who LockOwner) bool {
	t.ranges.Lock()
	defer t.ranges.Unlock()
	return t.ranges.count[who.holder()] < t.cfg.MaxLocks && t.ranges.total.Load() < int64(t.cfg.MaxRanges)
}

// account keeps the sums after a change of an owner's ranges on a file.
func (t *lockTable) account(f *fileLocks, who LockOwner, delta int) {
	name := who.holder()
	t.ranges.Lock()
	defer t.ranges.Unlock()
	n := t.ranges.count[name] + delta
	t.ranges.total.Add(int64(delta))
	switch {
	case n < 0:
		panic("state: a holder has fewer than no locks")
	case n == 0:
		delete(t.ranges.count, name)
	default:
		t.ranges.count[name] = n
	}
	p := lockPlace{f.key, who}
	if f.set.count(who) == 0 {
		delete(t.ranges.owners[name], p)
		if len(t.ranges.owners[name]) == 0 {
			delete(t.ranges.owners, name)
		}
		return
	}
	if t.ranges.owners[name] == nil {
		t.ranges.owners[name] = map[lockPlace]struct{}{}
	}
	t.ranges.owners[name][p] = struct{}{}
}
