// Bitmap4, written by hand: as a generated array it would allocate each time,
// and nearly every COMPOUND has one. The words that our attributes, operations
// and flags need lie in the value; what a peer sends beyond them stays in the
// message and is pointed to, so that bits we do not know are not lost, and a
// long bitmap costs nothing.

package nfs4

import (
	"encoding/binary"

	"sluice/xdr"
)

// BitmapWords is how many words a Bitmap4 holds itself: bits 0 to 95.
const BitmapWords = 3

// Bitmap4 is bitmap4 of the protocol file: a set of small numbers. The zero
// value is the empty set, and takes no word on the wire but its count.
type Bitmap4 struct {
	// N is how many of Words are on the wire; those from N on are 0. Set and
	// NewBitmap4 keep it as small as it can be; Decode keeps what was sent.
	N     uint32
	Words [BitmapWords]uint32 // bit n is bit n%32 of word n/32
	// Rest is the words after Words as they were sent, in the message. It is
	// empty unless N is BitmapWords.
	Rest []byte
}

// NewBitmap4 returns the set with the given words.
func NewBitmap4(words [BitmapWords]uint32) Bitmap4 {
	v := Bitmap4{N: BitmapWords, Words: words}
	for v.N > 0 && words[v.N-1] == 0 {
		v.N--
	}
	return v
}

// Bits returns the set of the given numbers (FATTR4_..., an enum's values), each
// below 32*BitmapWords.
func Bits[T ~int | ~int32 | ~uint32](numbers ...T) Bitmap4 {
	var v Bitmap4
	for _, n := range numbers {
		v.Set(uint32(n))
	}
	return v
}

// Set adds n, which must be below 32*BitmapWords.
func (v *Bitmap4) Set(n uint32) {
	w := n / 32
	v.Words[w] |= 1 << (n % 32)
	v.N = max(v.N, w+1)
}

// Has tells whether n is in the set.
func (v *Bitmap4) Has(n uint32) bool {
	w := n / 32
	if w < BitmapWords {
		return v.Words[w]>>(n%32)&1 != 0
	}
	if at := uint64(w-BitmapWords) * 4; at < uint64(len(v.Rest)) {
		return binary.BigEndian.Uint32(v.Rest[at:])>>(n%32)&1 != 0
	}
	return false
}

// Beyond tells whether a number of 32*BitmapWords or more is in the set: one
// that nothing here knows.
func (v *Bitmap4) Beyond() bool {
	for _, b := range v.Rest {
		if b != 0 {
			return true
		}
	}
	return false
}

// Encode appends v to e.
func (v *Bitmap4) Encode(e *xdr.Encoder) {
	n := int(v.N)
	b := e.Next(4 + 4*n)
	binary.BigEndian.PutUint32(b, v.N+uint32(len(v.Rest)/4))
	for i, w := range v.Words[:n] {
		binary.BigEndian.PutUint32(b[4+4*i:], w)
	}
	if len(v.Rest) > 0 {
		e.Fixed(v.Rest)
	}
}

// Decode reads v from d.
func (v *Bitmap4) Decode(d *xdr.Decoder) {
	*v = Bitmap4{}
	n := d.Count(xdr.Unbounded, 4)
	if n > BitmapWords {
		v.N = BitmapWords
	} else {
		v.N = uint32(n)
	}
	b := d.Next(4 * int(v.N))
	for i := range v.Words[:v.N] {
		v.Words[i] = binary.BigEndian.Uint32(b[4*i:])
	}
	if n > BitmapWords {
		v.Rest = d.Fixed(4 * (n - BitmapWords))
	}
}
