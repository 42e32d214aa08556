// What makes wcc data exact with respect to our own calls: spans. An operation that changes a file or directory enters a
// span around reading the attributes before, the change, and reading the attributes after. Of operations that overlap none
// knows which attributes were between them, and a client that took such a pair for exact would keep what another client's
// operation has changed. So they answer without the first half (RFC 1813 2.6 lets a server leave it out, and the client then
// distrusts its cache, as it has to here).
//
// A lock would give exact pairs always, but threads that wait for one another at it cost more than the changes themselves,
// and the kernel has its own. Only SETATTR takes one, since its guard must hold while it works.
//
// Both are striped by the file's identity, so that their size is fixed; files that share a stripe only get in each other's
// way.

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

// lock takes the lock of a file. Where the caller may not sleep it only tries.
func (v *View) lock(k *filecache.Key) (*sync.Mutex, error) {
	mu := &v.ns.locks[stripe(k)].Mutex
	if v.c.MayBlock {
		mu.Lock()
	} else if !mu.TryLock() {
		return nil, ErrWouldBlock
	}
	return mu, nil
}
