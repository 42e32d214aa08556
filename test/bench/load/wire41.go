package load

import (
	"errors"
	"fmt"
)

// Operations and numbers of NFSv4.1 (RFC 8881) that the calls use.
const (
	procCompound = 1
	minor41      = 1

	opClose           = 4
	opGetattr         = 9
	opGetfh           = 10
	opLookup          = 15
	opOpen            = 18
	opPutfh           = 22
	opPutrootfh       = 24
	opRead            = 25
	opWrite           = 38
	opExchangeID      = 42
	opCreateSession   = 43
	opDestroySession  = 44
	opSequence        = 53
	opDestroyClientID = 57
	opReclaimComplete = 58

	err41Noent = 2
	err41Delay = 10008
	err41Grace = 10013

	// What a Linux client asks for when it looks at a file again: type, change,
	// size, fsid, fileid; mode, numlinks, owner, owner_group, rawdev,
	// space_used, the three times, mounted_on_fileid.
	attrs41a = 0x0010011a
	attrs41b = 0x00b0a23a
)

// Where things are in a reply to SEQUENCE, PUTFH and one more operation, with an
// empty tag: behind the status come tag, number of results, and the results, each
// with its operation's number and status.
const (
	sequenceRes  = atStatus + 12
	sequenceSlot = sequenceRes + 8 + 16 // behind number, status and session: sequence id, slot
	putfhRes     = sequenceRes + 8 + 16 + 20
	lastRes      = putfhRes + 8
	readData41   = lastRes + 8 + 4 + 4 // eof, length of the data
)

type sessionID [16]byte

// newCompound starts a COMPOUND of n operations.
func newCompound(uid uint32, n uint32) *message {
	m := newCall(progNFS, 4, procCompound, uid)
	m.u32(0) // tag
	m.u32(minor41)
	m.u32(n)
	return m
}

func (m *message) sequence(s sessionID, seq, slot, highest uint32) {
	m.u32(opSequence)
	m.b = append(m.b, s[:]...)
	for _, v := range []uint32{seq, slot, highest, 0} { // the reply need not be kept
		m.u32(v)
	}
}

func (m *message) op(n uint32) *message { m.u32(n); return m }

// newTemplate41 is newTemplate for calls in a session: SEQUENCE, PUTFH and op.
func newTemplate41(c *Config, op string, uid uint32, t target) template {
	m := newCompound(uid, 3)
	atSeq := len(m.b) + 4 + 16
	m.sequence(sessionID{}, 0, 0, uint32(c.Depth-1))
	m.op(opPutfh).opaque(t.file)
	tm := template{kind: kindPlain, atSeq: atSeq, size: c.Size}
	switch op {
	case "getattr":
		for _, v := range []uint32{opGetattr, 2, attrs41a, attrs41b} {
			m.u32(v)
		}
	case "read":
		m.op(opRead).b = append(m.b, t.v41.stateid[:]...)
		tm.kind, tm.atOffset = kindRead, len(m.b)
		m.u64(0)
		m.u32(uint32(c.Size))
	case "write":
		m.op(opWrite).b = append(m.b, t.v41.stateid[:]...)
		tm.kind, tm.atOffset = kindWrite, len(m.b)
		m.u64(0)
		m.u32(0) // UNSTABLE
		m.u32(uint32(c.Size))
		tm.payload = (c.Size + 3) &^ 3
	default:
		panic("load: no operation " + op + " in a session")
	}
	tm.b = m.finish(tm.payload)
	return tm
}

// inSession patches the call m for a slot of a session.
func (t *template) inSession(m []byte, s *sessionID, slot, seq uint32) {
	copy(m[t.atSeq-len(s):], s[:])
	be.PutUint32(m[t.atSeq:], seq)
	be.PutUint32(m[t.atSeq+4:], slot)
}

var errSequence = errors.New("the session's slot is unusable")

// verdict41 is verdict for replies in a session. An error that wraps errSequence
// leaves open what the server makes of the slot's next call.
func verdict41(r []byte, k kind, size int, s *sessionID, slot, seq uint32) (int, error) {
	if _, err := verdict(r, kindNull, 0); err != nil {
		return 0, fmt.Errorf("%w: %w", errSequence, err)
	}
	if len(r) < sequenceRes+8 || be.Uint32(r[sequenceRes:]) != opSequence || be.Uint32(r[atStatus+4:]) != 0 {
		return 0, fmt.Errorf("%w: reply of %d bytes without SEQUENCE, NFS status %d", errSequence, len(r), word(r, atStatus))
	}
	if st := be.Uint32(r[sequenceRes+4:]); st != 0 {
		return 0, fmt.Errorf("%w: SEQUENCE: NFS status %d", errSequence, st)
	}
	if len(r) < putfhRes || sessionID(r[sequenceRes+8:sequenceSlot]) != *s || be.Uint32(r[sequenceSlot:]) != seq || be.Uint32(r[sequenceSlot+4:]) != slot {
		return 0, fmt.Errorf("%w: SEQUENCE answers for another session, slot or sequence id", errSequence)
	}
	if st := be.Uint32(r[atStatus:]); st != 0 {
		return 0, fmt.Errorf("NFS status %d", st)
	}
	if len(r) < lastRes+16 || be.Uint32(r[atStatus+8:]) != 3 || be.Uint32(r[putfhRes:]) != opPutfh || be.Uint32(r[putfhRes+4:]) != 0 || be.Uint32(r[lastRes+4:]) != 0 {
		return 0, errors.New("a COMPOUND that succeeded lacks results")
	}
	op, at := uint32(opGetattr), lastRes+8 // where the count of bytes is
	switch k {
	case kindRead:
		op, at = opRead, at+4
	case kindWrite:
		op = opWrite
	}
	if got := be.Uint32(r[lastRes:]); got != op {
		return 0, fmt.Errorf("result of operation %d, asked for %d", got, op)
	}
	if k == kindPlain {
		if be.Uint32(r[at:]) != 2 || word(r, at+4) != attrs41a || word(r, at+8) != attrs41b {
			return 0, errors.New("attributes other than those asked for")
		}
		return 0, nil
	}
	if n := int(be.Uint32(r[at:])); n != size {
		return n, fmt.Errorf("%d bytes moved, asked for %d", n, size)
	}
	return size, nil
}

// word is the word at a place of r, 0 beyond its end.
func word(r []byte, at int) uint32 {
	if at+4 > len(r) {
		return 0
	}
	return be.Uint32(r[at:])
}
