// Landing: where in memory the payload of a call comes to lie.
//
// Direct I/O takes data from memory that is aligned as the file is. The bytes
// of a large record are read from the socket to where they stay, so its buffer
// is filled from such a place on that the payload's address and its place in
// the file are the same modulo landUnit. What of the payload starts at a block
// of the file then starts at a block of memory, and need not be copied.
//
// The place follows from the record's head. If that has not come when the
// record begins, it is read by itself first, and moved: at most landHead bytes.
//
// A call that is copied anyway, from a thread's read buffer for the slow pool,
// lands the same way. Records in several fragments do not: no client sends
// large ones so.

package rpc

const (
	landFrom = smallCall + 1 // bytes of a record that lands
	landUnit = 4096          // the largest alignment that disks ask for
	landHead = 1 << 10       // holds the header and the arguments before the payload
)

// lander returns where in its buffer, less than landUnit bytes from the start,
// the record that begins with head belongs.
type lander func(head []byte) int

// place moves the head of the record to where it belongs, once it is there.
func (a *assembly) place() {
	b := a.buf
	b.at = a.land(b.b[:a.got])
	a.land = nil
	copy(b.b[b.at:], b.b[:a.got])
}

// lander is the server's, or nil when no procedure takes part.
func (s *Server) lander() lander {
	for _, p := range s.cfg.Programs {
		for _, v := range p.Versions {
			for i := range v.Procs {
				if v.Procs[i].Land != nil {
					return s.land
				}
			}
		}
	}
	return nil
}

func (s *Server) land(head []byte) int {
	var p incoming
	p.body = head
	s.look(&p)
	return p.skew()
}

// skew is how far into a page-aligned buffer a call belongs; its header may be
// cut short.
func (p *incoming) skew() int {
	if p.head.fault != faultNone || p.proc == nil || p.proc.Land == nil {
		return 0
	}
	at, off, ok := p.proc.Land(p.body[p.head.args:])
	if !ok {
		return 0
	}
	return int((off - uint64(p.head.args+at)) % landUnit)
}
