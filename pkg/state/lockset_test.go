// The lock set against a naive map of bytes.

package state

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
)

// byteMap is the same thing said plainly: who has what on each of the first bytes, the last one standing for all beyond.
type byteMap [64]map[int]LockType

// spread turns a position of the map into one of the set: the upper half counts from the end of the file.
func spread(i int) uint64 {
	if i < 32 {
		return uint64(i)
	}
	return math.MaxUint64 - uint64(63-i)
}

func (m *byteMap) conflict(owner, from, to int, typ LockType) bool {
	for i := from; i <= to; i++ {
		for o, t := range m[i] {
			if o != owner && (t == WriteLock || typ == WriteLock) {
				return true
			}
		}
	}
	return false
}

func (m *byteMap) set(owner, from, to int, typ LockType) {
	for i := from; i <= to; i++ {
		if m[i] == nil {
			m[i] = map[int]LockType{}
		}
		if typ == 0 {
			delete(m[i], owner)
		} else {
			m[i][owner] = typ
		}
	}
}

// ranges gives an owner's locks as the set should have them.
func (m *byteMap) ranges(owner int) (list []rangeLock) {
	for i := range m {
		t := m[i][owner]
		if t == 0 {
			continue
		}
		at := spread(i)
		// Between byte 31 and the upper half there is a gap in the map, which a range over both covers.
		if n := len(list); n > 0 && list[n-1].typ == t && i > 0 && m[i-1][owner] == t && (i != 32 || m[31][owner] == t && m[32][-1-owner] != 0) {
			list[n-1].end = at
			continue
		}
		list = append(list, rangeLock{byteRange{at, at}, t})
	}
	return list
}

// runLockSet applies operations of 4 bytes each (owner and type, from, to) to both.
func runLockSet(t *testing.T, ops []byte) {
	var s lockSet[int]
	var m byteMap
	gap := map[int]LockType{} // what an owner has between the halves
	counts := map[int]int{}
	defer func() {
		for o := range 4 {
			s.set(o, byteRange{0, math.MaxUint64}, 0)
		}
		if !s.empty() || s.reads.root != nil || s.writes.root != nil {
			t.Error("something is left of an empty set")
		}
	}()
	for ; len(ops) >= 3; ops = ops[3:] {
		owner, typ := int(ops[0]&3), LockType(ops[0]>>2%3)
		from, to := int(ops[1]%64), int(ops[2]%64)
		if from > to {
			from, to = to, from
		}
		r := byteRange{spread(from), spread(to)}
		if typ != 0 {
			want := m.conflict(owner, from, to, typ)
			if from < 32 && to >= 32 {
				for o, g := range gap {
					want = want || o != owner && g != 0 && (g == WriteLock || typ == WriteLock)
				}
			}
			who, l, got := s.conflict(owner, r, typ)
			if got != want {
				t.Fatalf("owner %d wants %v as %d: conflict %v, should be %v\n%v", owner, r, typ, got, want, s.owners)
			}
			if got {
				if who == owner || !l.meets(r) || l.typ != WriteLock && typ != WriteLock {
					t.Fatalf("conflict %d %v reported for owner %d %v", who, l, owner, r)
				}
				continue
			}
		}
		counts[owner] += s.set(owner, r, typ)
		m.set(owner, from, to, typ)
		if from < 32 && to >= 32 {
			gap[owner] = typ
		}
		for o := range 4 {
			for i := range m { // mark, for ranges, whether the owner's halves are joined
				if m[i] != nil {
					delete(m[i], -1-o)
				}
			}
			if gap[o] != 0 && gap[o] == m[31][o] && gap[o] == m[32][o] {
				m[32][-1-o] = 1
			}
			want := m.ranges(o)
			if gap[o] != 0 {
				want = addGap(want, gap[o])
			}
			if fmt.Sprint(s.held(o)) != fmt.Sprint(want) {
				t.Fatalf("owner %d has %v, should have %v", o, s.held(o), want)
			}
			if counts[o] != len(want) {
				t.Fatalf("owner %d: count %d of %d", o, counts[o], len(want))
			}
		}
		for i := range m {
			for o := range 4 {
				delete(m[i], -1-o)
			}
		}
	}
}

// addGap puts in what an owner has between the halves, joined with its neighbours of the same type.
func addGap(list []rangeLock, typ LockType) []rangeLock {
	g := rangeLock{byteRange{32, spread(32) - 1}, typ}
	var out []rangeLock
	done := false
	for _, l := range list {
		if l.start < g.start && l.end > g.end {
			return list // covered
		}
		if l.typ == typ && l.end+1 == g.start {
			g.start = l.start
			continue
		}
		if l.typ == typ && l.start == g.end+1 {
			g.end = l.end
			continue
		}
		if l.start > g.end && !done {
			out, done = append(out, g), true
		}
		out = append(out, l)
	}
	if !done {
		out = append(out, g)
	}
	return out
}

func TestLockSetRandom(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	for range 80 {
		ops := make([]byte, 3*60)
		for i := range ops {
			ops[i] = byte(rnd.Uint32())
		}
		runLockSet(t, ops)
	}
}

func FuzzLockSet(f *testing.F) {
	f.Add([]byte{4, 0, 10, 4, 10, 20, 0, 5, 15})                     // merge, then split
	f.Add([]byte{8, 5, 10, 4, 7, 8, 8, 0, 63, 0, 31, 32})            // downgrade inside, swallow, hole over the gap
	f.Add([]byte{4, 0, 31, 8, 32, 63, 5, 0, 10, 9, 40, 50})          // two owners, both halves
	f.Add([]byte{4, 63, 63, 4, 62, 62, 0, 63, 63, 4, 0, 0, 0, 0, 0}) // the last and the first byte
	f.Fuzz(func(t *testing.T, ops []byte) {
		if len(ops) > 3000 {
			return
		}
		runLockSet(t, ops)
	})
}

func TestToRange(t *testing.T) {
	const m = math.MaxUint64
	for _, c := range []struct {
		off, n uint64
		want   byteRange
		err    error
	}{
		{0, 1, byteRange{0, 0}, nil},
		{5, 10, byteRange{5, 14}, nil},
		{0, m, byteRange{0, m}, nil},
		{100, m, byteRange{100, m}, nil},
		{100, m - 1, byteRange{}, ErrInval},
		{0, 0, byteRange{}, ErrInval},
		{m, 1, byteRange{m, m}, nil},
		{m, 2, byteRange{}, ErrInval},
		{1, m - 1, byteRange{1, m - 1}, nil},
		{2, m - 1, byteRange{2, m}, nil},
	} {
		r, err := toRange(c.off, c.n)
		if r != c.want || err != c.err {
			t.Errorf("%d+%d: %v %v, want %v %v", c.off, c.n, r, err, c.want, c.err)
		}
	}
}

func BenchmarkLockSet(b *testing.B) {
	for _, n := range []int{1, 100, 10000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			var s lockSet[int]
			for i := range n {
				s.set(i%max(n/10, 1), byteRange{uint64(i) * 4, uint64(i)*4 + 1}, WriteLock)
			}
			at := uint64(n) * 2
			for b.Loop() {
				s.conflict(8, byteRange{at, at}, WriteLock)
				s.set(8, byteRange{at + 2, at + 2}, WriteLock)
				s.set(8, byteRange{at + 2, at + 2}, 0)
			}
		})
	}
}
