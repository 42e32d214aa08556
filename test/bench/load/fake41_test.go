// NFSv4.1 of the small server of fake_test.go: sessions, and the operations that
// the generator uses. It keeps to the rules of slots, and notes who does not.

package load

import (
	"fmt"
	"sync"
)

// fakeSlots is what the fake knows of a session's slots.
type fakeSlots struct {
	n   uint32
	seq map[uint32]uint32
}

type fake41 struct {
	mu       sync.Mutex
	sessions map[sessionID]*fakeSlots
	clients  int
	opens    int
	made     uint32 // sequence id of CREATE_SESSION, and the sessions' names
	tooMany  string // how a client broke the rules
	grace    int    // OPENs to answer with GRACE first
	fewer    uint32 // slots that are granted less than asked for
	wrong    string // "slot", "seq": SEQUENCE answers for another one
}

// compound41 answers a COMPOUND whose arguments are in args.
func (f *fake) compound41(m *message, args *client) {
	f.v41.mu.Lock()
	defer f.v41.mu.Unlock()
	m.u32(0)
	m.opaque(args.opaque())
	at := len(m.b)
	m.u32(0)
	args.u32() // minor version
	n := args.u32()
	for i := range n {
		op := args.u32()
		m.u32(op)
		statusAt := len(m.b)
		m.u32(0)
		st := f.op41(m, args, op)
		be.PutUint32(m.b[statusAt:], st)
		be.PutUint32(m.b[at:], i+1)
		if st != 0 {
			m.b = m.b[:statusAt+4]
			be.PutUint32(m.b[at-8:], st)
			return
		}
	}
}

func (f *fake) op41(m *message, args *client, op uint32) uint32 {
	v := &f.v41
	skip := func(n int) { args.rest = args.rest[n:] }
	if st := f.status[1000+op]; st != 0 && op != opSequence {
		return st
	}
	switch op {
	case opExchangeID:
		v.clients++
		v.sessions = map[sessionID]*fakeSlots{}
		m.u64(7)
		m.u32(v.made + 1)
	case opCreateSession:
		skip(8)
		if s := args.u32(); s != v.made+1 {
			return 10063
		}
		v.made++
		skip(4)
		fore := append([]byte(nil), args.rest[:24]...)
		be.PutUint32(fore[20:], be.Uint32(fore[20:])-v.fewer)
		id := sessionID{15: byte(v.made)}
		v.sessions[id] = &fakeSlots{n: be.Uint32(fore[20:]), seq: map[uint32]uint32{}}
		m.b = append(m.b, id[:]...)
		m.u64(uint64(v.made) << 32)
		m.b = append(m.b, fore...)
	case opSequence:
		return f.sequence41(m, args)
	case opDestroySession:
		delete(v.sessions, sessionID(args.rest[:16]))
	case opDestroyClientID:
		if len(v.sessions) != 0 {
			return 10074
		}
		v.clients--
	case opPutfh, opLookup:
		if string(args.opaque()) == "missing" {
			return 2
		}
	case opGetfh:
		m.opaque([]byte("handle"))
	case opOpen:
		if v.grace > 0 {
			v.grace--
			return err41Grace
		}
		v.opens++
		m.b = append(m.b, make([]byte, 15)...)
		m.b = append(m.b, 9)
	case opClose:
		v.opens--
		skip(20)
	case opGetattr:
		f.getattr41(m, args)
	case opRead:
		skip(16)
		data := f.data(uint64(args.u32())<<32|uint64(args.u32()), args.u32())
		m.u32(0)
		m.opaque(data)
	case opWrite:
		skip(16)
		off := uint64(args.u32())<<32 | uint64(args.u32())
		args.u32()
		data := args.opaque()
		f.store(off, data)
		m.u32(uint32(len(data)))
		m.u32(0)
		m.u64(0)
	}
	return 0
}

// sequence41 takes a slot, which must be the client's to use.
func (f *fake) sequence41(m *message, args *client) uint32 {
	v := &f.v41
	id := sessionID(args.rest[:16])
	args.rest = args.rest[16:]
	seq, slot, highest := args.u32(), args.u32(), args.u32()
	args.u32()
	s := v.sessions[id]
	if s == nil {
		return 10052
	}
	s.seq[slot]++
	if s.seq[slot] != seq || slot > highest || highest >= s.n {
		v.tooMany = fmt.Sprintf("slot %d of %d, highest %d, sequence id %d, want %d", slot, s.n, highest, seq, s.seq[slot])
		return 10063
	}
	if st := f.status[1000+opSequence]; st != 0 && s.n > 1 { // the generator's own session has one slot
		return st
	}
	switch v.wrong {
	case "slot":
		slot++
	case "seq":
		seq++
	}
	m.b = append(m.b, id[:]...)
	for _, w := range []uint32{seq, slot, highest, highest, 0} {
		m.u32(w)
	}
	return 0
}

// getattr41 answers with the size, or with zeros for what the measured calls ask for.
func (f *fake) getattr41(m *message, args *client) {
	n := args.u32()
	m.u32(n)
	for range n {
		m.u32(args.u32())
	}
	if n == 1 {
		m.u32(8)
		m.u64(fakeSize)
		return
	}
	m.opaque(make([]byte, 120))
}
