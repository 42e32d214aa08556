// Grants spare an access check on every call: who may do what with a file, for
// as long as the attributes that this was decided on stay the same.

package filecache

import "sync"

// Caller is whom a grant is for. Groups is a (seeded) hash of the supplementary groups.
type Caller struct {
	UID, GID uint32
	Groups   uint64
}

// Stamp is the attributes a grant was decided on; when any differs the grant is void.
type Stamp struct {
	Mode, UID, GID uint32
	CtimeSec       int64
	CtimeNsec      uint32
}

// May is a set of permissions.
type May uint8

// The permissions a grant can hold.
const (
	MayRead May = 1 << iota
	MayWrite
	MayExec
)

// Grants remembers which callers the kernel has let read or write a file.
type Grants struct {
	mu    sync.Mutex
	next  uint8
	stamp Stamp
	slots [4]struct {
		who Caller
		may May
	}
}

// Has reports whether who was granted all of want under the same stamp.
func (g *Grants) Has(who Caller, s *Stamp, want May) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if want == 0 || g.stamp != *s {
		return false
	}
	for i := range g.slots {
		if g.slots[i].who == who {
			return g.slots[i].may&want == want
		}
	}
	return false
}

// Add remembers that who may do what, as of s. A new stamp forgets all others; a fifth caller replaces the oldest.
func (g *Grants) Add(who Caller, s *Stamp, may May) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.stamp != *s {
		g.stamp = *s
		g.next = 0
		clear(g.slots[:])
	}
	for i := range g.slots {
		if g.slots[i].who == who && g.slots[i].may != 0 {
			g.slots[i].may |= may
			return
		}
	}
	g.slots[g.next].who, g.slots[g.next].may = who, may
	g.next = (g.next + 1) % uint8(len(g.slots))
}
