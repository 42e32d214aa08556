package load

import (
	"encoding/binary"
	"fmt"
)

var be = binary.BigEndian

// Programs and procedures (RFC 1813).
const (
	progNFS   = 100003
	progMount = 100005

	procNull        = 0
	procGetattr     = 1
	procLookup      = 3
	procAccess      = 4
	procRead        = 6
	procWrite       = 7
	procCreate      = 8
	procReaddirplus = 17

	mountMnt = 1
)

// Where things are in a record, its mark included.
const (
	atXID    = 4
	atStatus = 28 // end of an accepted reply's header with an empty verifier
	// A READ reply with attributes holds count, eof, data length and then data.
	readData = atStatus + 4 + 4 + 84 + 12
)

// message builds one record.
type message struct{ b []byte }

func (m *message) u32(v uint32) { m.b = be.AppendUint32(m.b, v) }
func (m *message) u64(v uint64) { m.b = be.AppendUint64(m.b, v) }

func (m *message) opaque(p []byte) {
	m.u32(uint32(len(p)))
	m.b = append(m.b, p...)
	m.pad()
}

func (m *message) pad() {
	for len(m.b)%4 != 0 {
		m.b = append(m.b, 0)
	}
}

// newCall starts a record: mark (set by finish), call header, AUTH_SYS.
func newCall(prog, vers, proc, uid uint32) *message {
	m := &message{}
	for _, v := range []uint32{0, 0, 0, 2, prog, vers, proc, 1, 24, 0} {
		m.u32(v)
	}
	m.opaque([]byte("load"))
	for _, v := range []uint32{uid, uid, 0, 0, 0} {
		m.u32(v)
	}
	return m
}

// finish sets the record mark; extra is how many bytes follow from elsewhere.
func (m *message) finish(extra int) []byte {
	be.PutUint32(m.b, 0x80000000|uint32(len(m.b)-4+extra))
	return m.b
}

// kind is what a reply must be checked for.
type kind uint8

const (
	kindNull kind = iota
	kindPlain
	kindRead
	kindWrite
)

// template is a call that is complete but for its xid, and for what the fields
// at the given places (0 for none) say.
type template struct {
	b        []byte
	kind     kind
	atOffset int // 64-bit file offset
	atSeq    int // sequence id and slot of a session, behind the session's id
	atName   int // 8 hexadecimal digits that make the name unique
	payload  int // bytes of the shared payload that follow, padded
	size     int // bytes that a READ asks for or a WRITE sends
}

func newTemplate(c *Config, op string, uid uint32, t target, run uint32) template {
	call := func(proc uint32, fh []byte) *message {
		m := newCall(progNFS, 3, proc, uid)
		if fh != nil {
			m.opaque(fh)
		}
		return m
	}
	done := func(m *message, k kind) template { return template{b: m.finish(0), kind: k} }
	switch op {
	case "null":
		return done(call(procNull, nil), kindNull)
	case "getattr":
		return done(call(procGetattr, t.file), kindPlain)
	case "access":
		m := call(procAccess, t.file)
		m.u32(0x3f)
		return done(m, kindPlain)
	case "lookup":
		m := call(procLookup, t.dir)
		m.opaque([]byte(c.File))
		return done(m, kindPlain)
	case "readdirplus":
		m := call(procReaddirplus, t.dir)
		m.u64(0) // cookie
		m.u64(0) // verifier
		m.u32(8 << 10)
		m.u32(64 << 10)
		return done(m, kindPlain)
	case "create":
		m := call(procCreate, t.dir)
		name := fmt.Sprintf("c%08x-%08x", run, 0)
		m.opaque([]byte(name))
		end := len(m.b) - (4-len(name)%4)%4
		m.u32(0) // UNCHECKED
		m.u32(1)
		m.u32(0644)
		for range 5 { // uid, gid, size, atime, mtime: not set
			m.u32(0)
		}
		tm := done(m, kindPlain)
		tm.atName = end - 8
		return tm
	case "read":
		m := call(procRead, t.file)
		at := len(m.b)
		m.u64(0)
		m.u32(uint32(c.Size))
		tm := done(m, kindRead)
		tm.atOffset, tm.size = at, c.Size
		return tm
	case "write":
		m := call(procWrite, t.file)
		at := len(m.b)
		m.u64(0)
		m.u32(uint32(c.Size))
		m.u32(0) // UNSTABLE
		m.u32(uint32(c.Size))
		pay := (c.Size + 3) &^ 3
		return template{b: m.finish(pay), kind: kindWrite, atOffset: at, payload: pay, size: c.Size}
	}
	panic("load: unknown operation " + op)
}

// mixedOps is the cycle of the operation "mixed": what a client that browses
// and edits small files asks for.
var mixedOps = []string{
	"getattr", "lookup", "getattr", "access", "read", "getattr", "lookup", "getattr", "access", "getattr",
	"getattr", "lookup", "getattr", "access", "read", "getattr", "lookup", "getattr", "write", "getattr",
}

func putHex(b []byte, v uint32) {
	const digits = "0123456789abcdef"
	for i := 7; i >= 0; i-- {
		b[i] = digits[v&15]
		v >>= 4
	}
}

// verdict checks the reply record r (mark included; a bulk READ reply may be
// cut behind its header) to a call of kind k for size bytes. It returns the
// file data bytes moved, and what is wrong or nil.
func verdict(r []byte, k kind, size int) (int, error) {
	if len(r) < atStatus {
		return 0, fmt.Errorf("reply of %d bytes", len(r))
	}
	if be.Uint32(r[8:]) != 1 || be.Uint32(r[12:]) != 0 {
		return 0, fmt.Errorf("RPC call refused, reject_stat %d", be.Uint32(r[16:]))
	}
	if be.Uint32(r[20:]) != 0 {
		return 0, fmt.Errorf("verifier of %d bytes", be.Uint32(r[20:]))
	}
	if s := be.Uint32(r[24:]); s != 0 {
		return 0, fmt.Errorf("RPC accept_stat %d", s)
	}
	if k == kindNull {
		return 0, nil
	}
	if len(r) < atStatus+4 {
		return 0, fmt.Errorf("reply of %d bytes", len(r))
	}
	if s := be.Uint32(r[atStatus:]); s != 0 {
		return 0, fmt.Errorf("NFS status %d", s)
	}
	at := atStatus + 4
	skip := func(n int) { // optional data of n bytes
		if at+4 <= len(r) && be.Uint32(r[at:]) != 0 {
			at += n
		}
		at += 4
	}
	switch k {
	case kindRead:
		skip(84)
	case kindWrite:
		skip(24)
		skip(84)
	default:
		return 0, nil
	}
	if at+4 > len(r) {
		return 0, fmt.Errorf("reply ends after %d bytes", len(r))
	}
	if n := int(be.Uint32(r[at:])); n != size {
		return n, fmt.Errorf("%d bytes moved, asked for %d", n, size)
	}
	return size, nil
}
