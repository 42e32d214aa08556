// The calls of the load: records that are complete but for a few words, and
// what their replies say.
//
// Templates are made once, for each file and kind of call. A call is a copy of
// its template with xid, offset, length and, in a session, slot and sequence id
// patched in; a WRITE's data follows from where it lies. Replies are decoded
// from their first bytes (replyHead at most): a READ's data is not among them.

package bench

import (
	"encoding/binary"
	"errors"
	"fmt"

	"sluice/rpc"
	"sluice/xdr"
	wire3 "sluice/xdr/nfs3"
	wire4 "sluice/xdr/nfs4"
)

var be = binary.BigEndian

const (
	lastFragment = 1 << 31
	atXID        = 4 // in a record with its mark

	// replyHead is what a reply may have before a READ's data: a header with
	// the longest verifier, status and attributes, or the results of SEQUENCE
	// and PUTFH with a tag.
	replyHead = 24 + rpc.MaxAuthBytes + 256
	// usualHead is that without verifier and tag, its mark included: as much is
	// received before the data, which then need not pass through a buffer.
	usualHead3 = 4 + 24 + 4 + 88 + 12
	usualHead4 = 4 + 24 + 12 + 44 + 8 + 16
)

// template is a call with the places of what changes; 0: it has no such word.
type template struct {
	b        []byte
	atOffset int
	atCount  int // of READ and WRITE
	atLength int // of WRITE's data, the last word
	atSlot   int // sequence id and slot of a session
}

// body appends a call's arguments, and notes where things are.
type body struct {
	t    *template
	fill func(e *xdr.Encoder, t *template)
}

func (b body) Encode(e *xdr.Encoder) { b.fill(e, b.t) }

// newTemplate3 makes a call of version 3 about a file.
func newTemplate3(k kind, cred *rpc.Cred, fh []byte, stable uint32) *template {
	t := new(template)
	proc := []uint32{kindRead: wire3.NFSPROC3_READ, kindWrite: wire3.NFSPROC3_WRITE, kindCommit: wire3.NFSPROC3_COMMIT}[k]
	t.b = rpc.EncodeCall(nil, 0, wire3.NFS_PROGRAM, wire3.NFS_V3, proc, cred, body{t, func(e *xdr.Encoder, t *template) {
		e.Opaque(fh)
		t.atOffset = e.Len()
		e.Uint64(0)
		t.atCount = e.Len()
		e.Uint32(0)
		if k == kindWrite {
			e.Uint32(stable)
			t.atLength = e.Len()
			e.Uint32(0)
		}
	}})
	return t
}

// newTemplate4 makes a call of version 4.1 about an open file: SEQUENCE, PUTFH
// and the operation.
func newTemplate4(k kind, cred *rpc.Cred, fh []byte, open wire4.Stateid4, stable uint32) *template {
	t := new(template)
	t.b = rpc.EncodeCall(nil, 0, wire4.NFS4_PROGRAM, wire4.NFS_V4, wire4.NFSPROC4_COMPOUND, cred, body{t, func(e *xdr.Encoder, t *template) {
		(&wire4.COMPOUND4args{Minorversion: 1, Argarray: 3}).Encode(e)
		e.Uint32(uint32(wire4.OP_SEQUENCE))
		t.atSlot = e.Len() + len(wire4.Sessionid4{})
		(&wire4.SEQUENCE4args{}).Encode(e)
		e.Uint32(uint32(wire4.OP_PUTFH))
		e.Opaque(fh)
		e.Uint32(uint32(opOf[k]))
		if k != kindCommit {
			open.Encode(e)
		}
		t.atOffset = e.Len()
		e.Uint64(0)
		switch k {
		case kindWrite:
			e.Uint32(stable)
			t.atLength = e.Len()
			e.Uint32(0)
		default:
			t.atCount = e.Len()
			e.Uint32(0)
		}
	}})
	return t
}

var opOf = []wire4.NfsOpnum4{kindRead: wire4.OP_READ, kindWrite: wire4.OP_WRITE, kindCommit: wire4.OP_COMMIT}

// session is one of NFSv4.1's, for the calls of one connection.
type session struct {
	id    wire4.Sessionid4
	slots int
}

// append adds the call to out, without a WRITE's data, of which it only counts
// the length. The session is nil for version 3.
func (t *template) append(out []byte, xid uint32, s *step, sess *session, seq, slot uint32) []byte {
	at := len(out)
	out = append(out, t.b...)
	b := out[at:]
	be.PutUint32(b[atXID:], xid)
	be.PutUint64(b[t.atOffset:], uint64(s.off))
	if t.atCount != 0 {
		be.PutUint32(b[t.atCount:], uint32(s.length))
	}
	size := len(b) - 4
	if t.atLength != 0 {
		be.PutUint32(b[t.atLength:], uint32(s.length))
		size += (s.length + 3) &^ 3
	}
	be.PutUint32(b, lastFragment|uint32(size))
	if sess != nil {
		copy(b[t.atSlot-len(sess.id):], sess.id[:])
		be.PutUint32(b[t.atSlot:], seq)
		be.PutUint32(b[t.atSlot+4:], slot)
		be.PutUint32(b[t.atSlot+8:], uint32(sess.slots-1))
	}
	return out
}

// verdict is what the head of a reply says.
type verdict struct {
	count int         // bytes that a READ brought or a WRITE took
	data  int         // bytes of data behind the head, without padding: READ alone
	eof   bool        // of READ
	verf  [8]byte     // of WRITE and COMMIT
	level uint32      // how stable a WRITE is
	later bool        // the server asks to try again later
	slot  bool        // the call has used its slot of the session
	err   error       // the call failed
	rest  int         // bytes of the head that belong to the data or follow it
	dec   xdr.Decoder // kept here so that nothing is allocated
}

// Errors of replies that leave the connection unusable.
var (
	errNeedMore = errors.New("the reply's head is not complete yet")
	errNoReply  = errors.New("a record that is no reply to a call of ours")
)

// head decodes the first bytes b of a reply, behind its record mark; whole says
// that the reply has no more. It returns errNeedMore when the rest is needed.
func (v *verdict) head(b []byte, whole bool, version int, k kind) error {
	d := &v.dec
	d.Reset(b)
	*v = verdict{dec: *d}
	d = &v.dec
	v.err = v.decode(d, version, k)
	if v.err == nil || d.Err() != nil {
		if err := d.Err(); err != nil {
			if !whole && errors.Is(err, xdr.ErrShort) {
				return errNeedMore
			}
			v.err = fmt.Errorf("a reply of %d bytes that can't be decoded: %w", len(b), err)
		}
	}
	v.rest = d.Len()
	return nil
}

func (v *verdict) decode(d *xdr.Decoder, version int, k kind) error {
	d.Uint32() // xid, which the caller has looked at
	if mtype := d.Uint32(); mtype != 1 && d.Err() == nil {
		return errNoReply
	}
	if denied := d.Uint32(); denied != 0 {
		return fmt.Errorf("the server refused the call (RPC reject_stat %d)", d.Uint32())
	}
	d.Uint32()
	d.Opaque(rpc.MaxAuthBytes)
	if st := d.Uint32(); st != 0 {
		return fmt.Errorf("the server did not run the call (RPC accept_stat %d)", st)
	}
	if version == 4 {
		return v.decode4(d, k)
	}
	return v.decode3(d, k)
}

func (v *verdict) decode3(d *xdr.Decoder, k kind) error {
	st := wire3.Nfsstat3(d.Int32())
	if st != wire3.NFS3_OK {
		v.later = st == wire3.NFS3ERR_JUKEBOX
		return failure(k, st.String())
	}
	const attributes, before = 84, 24
	optional := func(n int) {
		if d.Bool() {
			d.Next(n)
		}
	}
	if k == kindRead {
		optional(attributes)
		v.count = int(d.Uint32())
		v.eof = d.Bool()
		if v.data = int(d.Uint32()); v.data != v.count && d.Err() == nil {
			return fmt.Errorf("READ says that it brings %d bytes, and brings %d", v.count, v.data)
		}
		return nil
	}
	optional(before)
	optional(attributes)
	if k == kindWrite {
		v.count = int(d.Uint32())
		v.level = d.Uint32()
	}
	copy(v.verf[:], d.Fixed(8))
	return nil
}

func (v *verdict) decode4(d *xdr.Decoder, k kind) error {
	st := wire4.Nfsstat4(d.Int32())
	d.Opaque(xdr.Unbounded)
	results := d.Uint32()
	if d.Err() != nil {
		return nil
	}
	for i := range results {
		op, one := wire4.NfsOpnum4(d.Int32()), wire4.Nfsstat4(d.Int32())
		if d.Err() != nil {
			return nil
		}
		if want := [3]wire4.NfsOpnum4{wire4.OP_SEQUENCE, wire4.OP_PUTFH, opOf[k]}[min(i, 2)]; op != want || i > 2 {
			return fmt.Errorf("a result of %v in the place of %v's", op, want)
		}
		if one != wire4.NFS4_OK {
			v.later = v.slot && one == wire4.NFS4ERR_DELAY
			return failure4(op, one)
		}
		switch i {
		case 0:
			d.Next(16 + 20)
			v.slot = true
		case 2:
			v.result4(d, k)
		}
	}
	if d.Err() == nil && (st != wire4.NFS4_OK || results != 3) {
		return fmt.Errorf("a COMPOUND with status %v and %d results of 3", st, results)
	}
	return nil
}

func (v *verdict) result4(d *xdr.Decoder, k kind) {
	switch k {
	case kindRead:
		v.eof = d.Bool()
		v.data = int(d.Uint32())
		v.count = v.data
	case kindWrite:
		v.count = int(d.Uint32())
		v.level = d.Uint32()
		copy(v.verf[:], d.Fixed(8))
	case kindCommit:
		copy(v.verf[:], d.Fixed(8))
	}
}

func (k kind) String() string { return []string{"READ", "WRITE", "COMMIT"}[k] }

func failure(k kind, status string) error { return fmt.Errorf("%v: %s", k, status) }

func failure4(op wire4.NfsOpnum4, st wire4.Nfsstat4) error {
	return fmt.Errorf("%v: %v", op, st)
}
