// A set of byte-range locks: pure, with no idea of files or clients. POSIX rules: an owner's locks never meet, setting a
// range replaces what the owner had there, neighbours of one type are one.

package state

import (
	"math"
	"slices"
	"sort"
)

// byteRange is a range of bytes; end is inclusive.
type byteRange struct{ start, end uint64 }

// toRange makes a range of the protocols' offset and length; 2^64-1 means to the end of the file. ErrInval: no bytes, or
// past 2^64-1 (RFC 7530 16.10.4).
func toRange(offset, length uint64) (byteRange, error) {
	switch {
	case length == math.MaxUint64:
		return byteRange{offset, math.MaxUint64}, nil
	case length == 0 || length-1 > math.MaxUint64-offset:
		return byteRange{}, ErrInval
	}
	return byteRange{offset, offset + length - 1}, nil
}

func (r byteRange) meets(o byteRange) bool { return r.start <= o.end && o.start <= r.end }

type rangeLock struct {
	byteRange
	typ LockType
}

// lockSet holds, for each owner, its locks by start; and all of them, so that conflicts are found fast. The zero value is
// empty.
type lockSet[Owner comparable] struct {
	owners        map[Owner]*ownerLocks[Owner]
	last          uint64
	reads, writes rangeTree[Owner]
}

// ownerLocks are the locks of one owner, of which there is at least one.
type ownerLocks[Owner comparable] struct {
	owner Owner
	num   uint64 // no other's
	locks []rangeLock
}

// first gives the index of the owner's first lock that ends at or after at.
func first(locks []rangeLock, at uint64) int {
	return sort.Search(len(locks), func(i int) bool { return locks[i].end >= at })
}

// conflict finds a lock of another owner in the way: of those, one with the lowest start.
func (s *lockSet[Owner]) conflict(owner Owner, r byteRange, typ LockType) (who Owner, l rangeLock, found bool) {
	me := s.owners[owner]
	n, kind := s.writes.meets(r, me), WriteLock
	if typ == WriteLock {
		if m := s.reads.meets(r, me); m != nil && (n == nil || m.start < n.start) {
			n, kind = m, ReadLock
		}
	}
	if n == nil {
		return who, l, false
	}
	return n.who.owner, rangeLock{n.byteRange, kind}, true
}

// set gives a range a type, or takes it away with typ 0. It returns how many locks the owner has more (or fewer).
func (s *lockSet[Owner]) set(owner Owner, r byteRange, typ LockType) (delta int) {
	o := s.owners[owner]
	if o == nil {
		s.last++
		o = &ownerLocks[Owner]{owner: owner, num: s.last}
	}
	old := o.locks
	from := r.start
	if from > 0 && typ != 0 {
		from-- // a neighbour before may join
	}
	i := first(old, from)
	j := i
	joined := rangeLock{r, typ}
	var put [3]rangeLock // what stands in the place of old[i:j]
	n := 0
	keep := func(l rangeLock) { put[n] = l; n++ }
	var tail rangeLock
	for ; j < len(old); j++ {
		l := old[j]
		if l.start > r.end && (typ == 0 || r.end == math.MaxUint64 || l.start > r.end+1) {
			break
		}
		if l.typ == typ { // overlapping or touching: one
			joined.start, joined.end = min(joined.start, l.start), max(joined.end, l.end)
			continue
		}
		if l.end < r.start { // touches, of another type
			keep(l)
			continue
		}
		if l.start > r.end {
			break
		}
		if l.start < r.start {
			keep(rangeLock{byteRange{l.start, r.start - 1}, l.typ})
		}
		if l.end > r.end {
			tail = rangeLock{byteRange{r.end + 1, l.end}, l.typ}
		}
	}
	if typ != 0 {
		keep(joined)
	}
	if tail.typ != 0 {
		keep(tail)
	}
	for _, l := range old[i:j] {
		s.tree(l.typ).remove(l.start, o)
	}
	for _, l := range put[:n] {
		s.tree(l.typ).add(l.byteRange, o)
	}
	delta = n - (j - i)
	o.locks = slices.Replace(old, i, j, put[:n]...)
	switch {
	case len(o.locks) == 0:
		delete(s.owners, owner)
	case s.owners == nil:
		s.owners = map[Owner]*ownerLocks[Owner]{owner: o}
	default:
		s.owners[owner] = o
	}
	if cap(o.locks) > 4*len(o.locks)+spareLocks {
		o.locks = slices.Clone(o.locks) // it had many once
	}
	return delta
}

// spareLocks is room for locks that an owner may have without using it.
const spareLocks = 16

func (s *lockSet[Owner]) tree(typ LockType) *rangeTree[Owner] {
	if typ == WriteLock {
		return &s.writes
	}
	return &s.reads
}

// held gives an owner's locks by start, until the next change.
func (s *lockSet[Owner]) held(owner Owner) []rangeLock {
	if o := s.owners[owner]; o != nil {
		return o.locks
	}
	return nil
}

// count is how many locks an owner has.
func (s *lockSet[Owner]) count(owner Owner) int { return len(s.held(owner)) }

func (s *lockSet[Owner]) empty() bool { return len(s.owners) == 0 }
