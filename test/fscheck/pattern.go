// Plan of this file: file contents that can be recomputed at any offset. Byte i
// of the pattern with a seed belongs to word i/8, a hash of seed and word
// number, so a block that lands at the wrong offset, in the wrong file, or
// holds an older generation is always noticed, and no copy need be kept.

package fscheck

import (
	"bytes"
	"encoding/binary"
	"fmt"
)

// pattern fills p with the bytes that belong at offset off.
func pattern(p []byte, seed uint64, off int64) {
	var word [8]byte
	for len(p) > 0 {
		within := int(off & 7)
		v := mix(seed ^ uint64(off>>3)*0x9E3779B97F4A7C15)
		if within == 0 && len(p) >= 8 {
			binary.LittleEndian.PutUint64(p, v)
			p, off = p[8:], off+8
			continue
		}
		binary.LittleEndian.PutUint64(word[:], v)
		n := copy(p, word[within:])
		p, off = p[n:], off+int64(n)
	}
}

// mix is a bijection that spreads its input's bits (the finalizer of
// SplitMix64), with zero words avoided: a hole never passes for data.
func mix(x uint64) uint64 {
	x = (x ^ x>>30) * 0xBF58476D1CE4E5B9
	x = (x ^ x>>27) * 0x94D049BB133111EB
	return (x ^ x>>31) | 0x0101010101010101
}

// differ compares what was read at off with what belongs there and describes
// the first difference.
func differ(name string, got, want []byte, off int64) error {
	if bytes.Equal(got, want) {
		return nil
	}
	if len(got) != len(want) {
		return fmt.Errorf("%s: %d bytes at offset %d, want %d", name, len(got), off, len(want))
	}
	i, bad := 0, 0
	for j := range got {
		if got[j] != want[j] {
			if bad == 0 {
				i = j
			}
			bad++
		}
	}
	end := min(i+16, len(got))
	return fmt.Errorf("%s: wrong bytes: the first of %d at offset %d (%d into a read of %d at %d): got % x, want % x",
		name, bad, off+int64(i), i, len(got), off, got[i:end], want[i:end])
}
