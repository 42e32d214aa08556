// The Encoder: appends to a buffer of the caller's, and keeps a list of the
// payloads that belong between stretches of it.
//
// A message is Bytes() with the payload of each Segment inserted at its At.
// The Encoder owns a payload from the call of Payload until it releases it
// (small ones at once, others by Rollback or Flatten) or until the caller has
// taken Segments() to send them and calls Reset: whoever takes the segments
// releases their payloads.

package xdr

import (
	"encoding/binary"
	"fmt"
	"slices"
)

// SmallPayload is the largest payload, in bytes, that Encoder.Payload copies
// into the buffer: below it a copy costs less than one more segment to send.
const SmallPayload = 8 << 10

// Encoder builds one message, or several one after the other. The zero value
// is ready and grows a buffer of its own. It is not safe for concurrent use.
type Encoder struct {
	buf  []byte
	segs []Segment
	data int // payload bytes in segs
	err  error
}

// Segment is a payload and its place: P goes to the wire after Bytes()[:At].
type Segment struct {
	At int
	P  Payload
}

// Mark is a place in the message to roll back to. The zero Mark is the start.
type Mark struct {
	buf, segs, data int
	err             error
}

// Reset starts afresh, appending to buf (give buf[:0] to reuse all of it). It
// forgets the segments without releasing them: they belong to whoever took
// Segments(). To throw a message away, call Rollback(Mark{}) first.
func (e *Encoder) Reset(buf []byte) {
	clear(e.segs) // hold on to no payload
	e.buf, e.segs, e.data, e.err = buf, e.segs[:0], 0, nil
}

// Bytes returns the bytes encoded so far, without those of payloads in Segments().
func (e *Encoder) Bytes() []byte { return e.buf }

// Len returns the length of the message so far, payloads and padding included.
func (e *Encoder) Len() int { return len(e.buf) + e.data }

// Segments returns the payloads that are not in Bytes(), in ascending order of At.
func (e *Encoder) Segments() []Segment { return e.segs }

// Err returns the first error met: a payload that could not be read, or a
// union without an arm for its discriminant. The message is then not fit to
// send; Rollback to a mark before the error clears it.
func (e *Encoder) Err() error { return e.err }

// Fail records err, unless an earlier error stands.
func (e *Encoder) Fail(err error) {
	if e.err == nil {
		e.err = err
	}
}

// Next appends n bytes and returns them to be filled in; what they hold before
// is not defined. Generated code writes runs of scalars through it.
func (e *Encoder) Next(n int) []byte {
	at := len(e.buf)
	if cap(e.buf)-at < n {
		e.grow(n)
	}
	e.buf = e.buf[:at+n]
	return e.buf[at : at+n : at+n]
}

//go:noinline
func (e *Encoder) grow(n int) {
	b := make([]byte, len(e.buf), max(2*cap(e.buf), len(e.buf)+n, 512))
	copy(b, e.buf)
	e.buf = b
}

// Uint32 appends an unsigned int.
func (e *Encoder) Uint32(v uint32) { e.buf = binary.BigEndian.AppendUint32(e.buf, v) }

// Int32 appends an int or an enum.
func (e *Encoder) Int32(v int32) { e.Uint32(uint32(v)) }

// Uint64 appends an unsigned hyper.
func (e *Encoder) Uint64(v uint64) { e.buf = binary.BigEndian.AppendUint64(e.buf, v) }

// Int64 appends a hyper.
func (e *Encoder) Int64(v int64) { e.Uint64(uint64(v)) }

// Bool appends a bool.
func (e *Encoder) Bool(v bool) { e.Uint32(BoolWord(v)) }

// BoolWord returns the word that stands for v.
func BoolWord(v bool) uint32 {
	if v {
		return 1
	}
	return 0
}

// Fixed appends opaque[len(b)] and its padding.
func (e *Encoder) Fixed(b []byte) {
	e.buf = append(e.buf, b...)
	e.pad(len(b))
}

// Opaque appends opaque<> or string<>: length, bytes, padding. The limit of
// the type is the caller's to keep.
func (e *Encoder) Opaque(b []byte) {
	e.Uint32(uint32(len(b)))
	e.Fixed(b)
}

func (e *Encoder) pad(n int) {
	const zeros = "\x00\x00\x00"
	e.buf = append(e.buf, zeros[:pad(n)]...)
}

// Payload appends opaque<> whose bytes are p's, and takes ownership of p. Up
// to SmallPayload bytes are copied and p released at once; a larger one
// becomes a segment. nil stands for no bytes. When a small payload cannot be
// read, Err tells.
func (e *Encoder) Payload(p Payload) {
	if p == nil {
		e.Uint32(0)
		return
	}
	n := p.Len()
	e.Uint32(uint32(n))
	if n <= SmallPayload {
		var err error
		e.buf, err = appendPayload(e.buf, p)
		if err != nil {
			e.Fail(err)
		}
	} else {
		e.segs = append(e.segs, Segment{At: len(e.buf), P: p})
		e.data += n
	}
	e.pad(n)
}

// appendPayload appends what p has left to dst and releases p. On an error the
// length is still right, and the bytes mean nothing.
func appendPayload(dst []byte, p Payload) ([]byte, error) {
	defer p.Release()
	if b, ok := p.Bytes(); ok {
		return append(dst, b...), nil
	}
	n := p.Len()
	at := len(dst)
	dst = slices.Grow(dst, n)[:at+n]
	got, err := p.ReadAll(dst[at:])
	switch {
	case err != nil:
		return dst, fmt.Errorf("xdr: reading a payload of %d bytes: %w", n, err)
	case got != n:
		return dst, fmt.Errorf("xdr: payload of %d bytes gave %d: %w", n, got, ErrShort)
	}
	return dst, nil
}

// Mark returns the present end of the message.
func (e *Encoder) Mark() Mark { return Mark{len(e.buf), len(e.segs), e.data, e.err} }

// Rollback cuts the message back to m, releases the payloads after it and
// forgets an error met after it. m must come from this Encoder since its last Reset and lie
// at or before its end.
func (e *Encoder) Rollback(m Mark) {
	for _, s := range e.segs[m.segs:] {
		s.P.Release()
	}
	clear(e.segs[m.segs:])
	e.buf, e.segs, e.data, e.err = e.buf[:m.buf], e.segs[:m.segs], m.data, m.err
}

// PatchUint32 overwrites the word at Bytes()[at:at+4], such as a record mark
// or a count that was not known when its place was written.
func (e *Encoder) PatchUint32(at int, v uint32) { binary.BigEndian.PutUint32(e.buf[at:], v) }

// Flatten appends the whole message, payloads included, to dst and goes on
// with that as its buffer; the payloads are released and Segments() is empty.
// It serves whatever must see plain bytes: GSS, TLS, a cached reply. When a
// payload cannot be read it returns the error, which Err keeps too.
func (e *Encoder) Flatten(dst []byte) error {
	from := 0
	for _, s := range e.segs {
		dst = append(dst, e.buf[from:s.At]...)
		from = s.At
		var err error
		if dst, err = appendPayload(dst, s.P); err != nil {
			e.Fail(err)
		}
	}
	dst = append(dst, e.buf[from:]...)
	clear(e.segs)
	e.buf, e.segs, e.data = dst, e.segs[:0], 0
	return e.err
}
