// The Decoder: a cursor over one message with a sticky error.
//
// After the first failure the cursor stands at the end of the message, so that
// every later read fails its own bounds check and returns zero; no read needs
// to look at the error. Results alias the message: they are good for as long
// as the message's buffer is, and nothing is allocated.

package xdr

import "encoding/binary"

// Decoder reads one message. The zero value is an empty message. A Decoder is
// not safe for concurrent use.
type Decoder struct {
	buf []byte
	off int // next byte to read; len(buf) once err is set
	err error
}

// Reset makes the Decoder read b from its start and forgets any error.
func (d *Decoder) Reset(b []byte) { d.buf, d.off, d.err = b, 0, nil }

// Err returns the first error met, nil if there was none.
func (d *Decoder) Err() error { return d.err }

// Len returns how many bytes are left; 0 after an error.
func (d *Decoder) Len() int { return len(d.buf) - d.off }

// Fail records err, unless an earlier error stands, and ends the message.
func (d *Decoder) Fail(err error) {
	if d.err == nil {
		d.err = err
	}
	d.off = len(d.buf)
}

// short is the failure of the scalar reads, out of line to keep them small
// enough to be inlined.
//
//go:noinline
func (d *Decoder) short() { d.Fail(ErrShort) }

// Next returns the next n bytes, without any padding, or nil with the error
// set when fewer are left. Generated code reads runs of scalars through it.
func (d *Decoder) Next(n int) []byte {
	if uint(n) > uint(len(d.buf)-d.off) {
		d.short()
		return nil
	}
	b := d.buf[d.off : d.off+n : d.off+n]
	d.off += n
	return b
}

// Uint32 reads an unsigned int (RFC 4506, 4.2).
func (d *Decoder) Uint32() uint32 {
	b := d.buf[d.off:]
	if len(b) < 4 {
		d.short()
		return 0
	}
	d.off += 4
	return binary.BigEndian.Uint32(b)
}

// Int32 reads an int, or an enum, whose values the caller checks.
func (d *Decoder) Int32() int32 { return int32(d.Uint32()) }

// Uint64 reads an unsigned hyper (RFC 4506, 4.5).
func (d *Decoder) Uint64() uint64 {
	b := d.buf[d.off:]
	if len(b) < 8 {
		d.short()
		return 0
	}
	d.off += 8
	return binary.BigEndian.Uint64(b)
}

// Int64 reads a hyper.
func (d *Decoder) Int64() int64 { return int64(d.Uint64()) }

// Bool reads a bool; a word other than 0 and 1 is ErrBadValue (RFC 4506, 4.4).
func (d *Decoder) Bool() bool { return d.WordBool(d.Uint32()) }

// WordBool returns the bool that the word w stands for, as Bool does.
func (d *Decoder) WordBool(w uint32) bool {
	if w > 1 {
		d.Fail(ErrBadValue)
	}
	return w == 1
}

// Fixed reads opaque[n] and its padding. The result aliases the message. The
// padding's value is not looked at: RFC 4506 wants zeros, and Linux, like most
// peers, takes anything.
func (d *Decoder) Fixed(n int) []byte {
	left := len(d.buf) - d.off
	if uint(n) > uint(left) || n+pad(n) > left {
		d.short()
		return nil
	}
	b := d.buf[d.off : d.off+n : d.off+n]
	d.off += n + pad(n)
	return b
}

// Opaque reads opaque<max> or string<max>. The result aliases the message; a
// length above max is ErrTooLong.
func (d *Decoder) Opaque(max int) []byte {
	n := d.Uint32()
	if uint64(n) > uint64(max) {
		d.Fail(ErrTooLong)
		return nil
	}
	return d.Fixed(int(n))
}

// Count reads the length of a variable-length array of at most max elements,
// each of which takes at least minSize bytes. A count that the rest of the
// message cannot hold is an error here, before the caller allocates anything.
func (d *Decoder) Count(max, minSize int) int {
	n := d.Uint32()
	if uint64(n) > uint64(max) {
		d.Fail(ErrTooLong)
		return 0
	}
	if uint64(n)*uint64(minSize) > uint64(len(d.buf)-d.off) {
		d.short()
		return 0
	}
	return int(n)
}
