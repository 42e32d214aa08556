// The Decoder: a cursor over one message with a sticky error.
//
// After the first failure the cursor stands at the end of the message, so that
// every later read fails its own bounds check and returns zero; no read needs
// to look at the error. Results alias the message: they are good for as long
// as the message's buffer is, and nothing is allocated.

package xdr

import (
	"encoding/binary"
	"slices"
)

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

// short is ErrShort out of line, so that Next is small enough to be inlined.
//
//go:noinline
func (d *Decoder) short() []byte {
	d.Fail(ErrShort)
	return nil
}

// Next passes over the next n bytes and returns them with whatever follows
// them in the message, or nil with the error set when fewer are left. It is for
// generated code, which reads runs of scalars through it.
func (d *Decoder) Next(n int) (b []byte) {
	if b = d.buf[d.off:]; len(b) < n {
		return d.short()
	}
	d.off += n
	return
}

// Uint32 reads an unsigned int (RFC 4506, 4.2).
func (d *Decoder) Uint32() uint32 {
	b := d.Next(4)
	if b == nil {
		return 0
	}
	return binary.BigEndian.Uint32(b)
}

// Int32 reads an int, or an enum, whose values the caller checks.
func (d *Decoder) Int32() int32 { return int32(d.Uint32()) }

// Uint64 reads an unsigned hyper (RFC 4506, 4.5).
func (d *Decoder) Uint64() uint64 {
	b := d.Next(8)
	if b == nil {
		return 0
	}
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
	b := d.buf[d.off:]
	if uint(n) > uint(len(b)) || n+pad(n) > len(b) {
		d.short()
		return nil
	}
	d.off += n + pad(n)
	return b[:n:n]
}

// Opaque reads opaque<max> or string<max>. The result aliases the message; a
// length above max is ErrTooLong. It is written out, not made of Uint32 and
// Fixed, because every call of the protocols begins with one, the handle.
func (d *Decoder) Opaque(max int) []byte {
	b := d.buf[d.off:]
	if len(b) < 4 {
		d.short()
		return nil
	}
	n := uint64(binary.BigEndian.Uint32(b))
	b = b[4:]
	if n > uint64(max) {
		d.Fail(ErrTooLong)
		return nil
	}
	padded := (n + 3) &^ 3
	if padded > uint64(len(b)) {
		d.short()
		return nil
	}
	d.off += 4 + int(padded)
	return b[:n:n]
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

// Resize returns s with n elements, whatever they hold, in s's memory if it is
// large enough. Generated code decodes arrays into it.
func Resize[S ~[]E, E any](s S, n int) S { return slices.Grow(s[:0], n)[:n] }
