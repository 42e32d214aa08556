// What makes wcc data exact with respect to our own calls. Both parts are striped by the file's identity, so that their
// size is fixed; files that share a stripe only get in each other's way.
//
// Directories have locks: an operation that changes one reads its attributes before and after without another of ours in
// between. Nothing waits for stable storage while it holds one.
//
// Files have spans: writes run side by side, but of those that overlap none knows which attributes were between them. A
// client that took such a pair for exact would keep data that another client's write has changed, so they answer without
// the first half.

package vfs

import (
	"hash/maphash"
	"sync"
	"sync/atomic"

	"sluice/pkg/filecache"
)

const stripes = 512

type locks [stripes]struct {
	sync.Mutex
	_ [56]byte
}

// stripe is the place of a file. Exports of one file system know it by different FS numbers, so those play no part.
func stripe(k *filecache.Key) int { return int(maphash.Bytes(stripeSeed, k.Bytes[:k.Len]) % stripes) }

var stripeSeed = maphash.MakeSeed()

type spans [stripes]struct {
	begun, ended atomic.Uint64
	_            [48]byte
}

// begin enters a change of a file. The span is for end.
func (s *spans) begin(k *filecache.Key) (span uint64) {
	x := &s[stripe(k)]
	if b := x.begun.Add(1); x.ended.Load() == b-1 {
		return b
	}
	return 0 // not alone from the start
}

// end leaves, and reports whether no other change overlapped.
func (s *spans) end(k *filecache.Key, span uint64) bool {
	x := &s[stripe(k)]
	alone := span != 0 && x.begun.Load() == span
	x.ended.Add(1)
	return alone
}

// held is a locked stripe, or two.
type held struct{ a, b *sync.Mutex }

func (h held) unlock() {
	h.a.Unlock()
	if h.b != nil {
		h.b.Unlock()
	}
}

// lock takes the locks of one or two files, in an order that all agree on. Where the caller may not sleep it only tries.
func (v *View) lock(k1, k2 *filecache.Key) (held, error) {
	l := &v.ns.locks
	i, j := stripe(k1), -1
	if k2 != nil {
		if j = stripe(k2); j == i {
			j = -1
		} else if j < i {
			i, j = j, i
		}
	}
	h := held{a: &l[i].Mutex}
	if j >= 0 {
		h.b = &l[j].Mutex
	}
	if v.c.MayBlock {
		h.a.Lock()
		if h.b != nil {
			h.b.Lock()
		}
		return h, nil
	}
	if !h.a.TryLock() {
		return held{}, ErrWouldBlock
	}
	if h.b != nil && !h.b.TryLock() {
		h.a.Unlock()
		return held{}, ErrWouldBlock
	}
	return h, nil
}
