// A tree of byte ranges that finds those which meet a range without a look at all others: a file may have many thousand
// locks, and each request that waits for one is looked at again whenever one goes.
//
// Ranges are in order of their starts, and each node knows how far its subtree reaches. It is a treap: its shape comes from
// random ranks, so that nobody who chooses the ranges makes it deep.

package state

import "math/rand/v2"

type rangeTree[Owner comparable] struct{ root *rangeNode[Owner] }

type rangeNode[Owner comparable] struct {
	byteRange
	who         *ownerLocks[Owner]
	reach       uint64 // the largest end of the subtree
	rank        uint32 // no child's is larger
	left, right *rangeNode[Owner]
}

func (t *rangeTree[Owner]) add(r byteRange, who *ownerLocks[Owner]) {
	t.root = t.root.add(&rangeNode[Owner]{byteRange: r, who: who, reach: r.end, rank: rand.Uint32()})
}

// remove takes out the owner's range that has this start.
func (t *rangeTree[Owner]) remove(start uint64, who *ownerLocks[Owner]) {
	t.root = t.root.remove(start, who)
}

// meets gives the range with the lowest start that meets r and is not of this owner, or nil.
func (t *rangeTree[Owner]) meets(r byteRange, not *ownerLocks[Owner]) *rangeNode[Owner] {
	return t.root.meets(r, not)
}

// before orders nodes: by start, and those of one start by owner.
func (n *rangeNode[Owner]) before(start uint64, who *ownerLocks[Owner]) bool {
	return n.start < start || n.start == start && n.who.num < who.num
}

func (n *rangeNode[Owner]) is(start uint64, who *ownerLocks[Owner]) bool {
	return n.start == start && n.who == who
}

// update works out how far a node reaches.
func (n *rangeNode[Owner]) update() {
	n.reach = n.end
	if n.left != nil {
		n.reach = max(n.reach, n.left.reach)
	}
	if n.right != nil {
		n.reach = max(n.reach, n.right.reach)
	}
}

func (n *rangeNode[Owner]) add(x *rangeNode[Owner]) *rangeNode[Owner] {
	switch {
	case n == nil:
		return x
	case x.rank > n.rank:
		x.left, x.right = n.split(x)
		n = x
	case n.before(x.start, x.who):
		n.right = n.right.add(x)
	default:
		n.left = n.left.add(x)
	}
	n.update()
	return n
}

// split takes a subtree apart, into what comes before x and what comes after it.
func (n *rangeNode[Owner]) split(x *rangeNode[Owner]) (before, after *rangeNode[Owner]) {
	if n == nil {
		return nil, nil
	}
	if n.before(x.start, x.who) {
		before = n
		n.right, after = n.right.split(x)
	} else {
		after = n
		before, n.left = n.left.split(x)
	}
	n.update()
	return before, after
}

func (n *rangeNode[Owner]) remove(start uint64, who *ownerLocks[Owner]) *rangeNode[Owner] {
	switch {
	case n == nil:
		panic("state: a lock is not in its tree")
	case n.is(start, who):
		return n.left.join(n.right)
	case n.before(start, who):
		n.right = n.right.remove(start, who)
	default:
		n.left = n.left.remove(start, who)
	}
	n.update()
	return n
}

// join makes one subtree of two, of which the second comes after the first.
func (n *rangeNode[Owner]) join(o *rangeNode[Owner]) *rangeNode[Owner] {
	switch {
	case n == nil:
		return o
	case o == nil:
		return n
	case n.rank > o.rank:
		n.right = n.right.join(o)
		n.update()
		return n
	}
	o.left = n.join(o.left)
	o.update()
	return o
}

func (n *rangeNode[Owner]) meets(r byteRange, not *ownerLocks[Owner]) *rangeNode[Owner] {
	if n == nil || n.reach < r.start {
		return nil
	}
	if m := n.left.meets(r, not); m != nil {
		return m
	}
	if n.start > r.end {
		return nil
	}
	if n.end >= r.start && n.who != not {
		return n
	}
	return n.right.meets(r, not)
}
