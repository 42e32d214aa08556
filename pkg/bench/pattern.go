// What the dataset holds: bytes that depend on the file and the offset, and can
// be sent and compared without being computed.
//
// A table of pseudo-random bytes repeats with a period that is odd and larger
// than a block, so that blocks that change places never look alike: the bytes
// of file f from offset o on are the table from (o + f*stride) mod period. The
// table goes on for one block behind its period, and each block is one stretch
// of it: WRITEs send it from where it lies.

package bench

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"sync"
)

const (
	patternPeriod = 1<<20 + 7
	patternStride = 611953 // of one file to the next; prime, and none of the period's factors
)

var pattern = sync.OnceValue(func() []byte {
	rng := rand.New(rand.NewPCG(0x736c75696365, 1))
	b := make([]byte, 0, patternPeriod+MaxBlockSize+8)
	for len(b) < patternPeriod {
		b = binary.LittleEndian.AppendUint64(b, rng.Uint64())
	}
	b = b[:patternPeriod]
	for len(b) < patternPeriod+MaxBlockSize {
		b = append(b, b[len(b)-patternPeriod])
	}
	return b
})

// PatternAt returns what file number file of a dataset holds in the n bytes
// from offset off, n at most MaxBlockSize. The bytes must not be changed.
func PatternAt(file int, off int64, n int) []byte {
	at := (uint64(off) + uint64(file)*patternStride) % patternPeriod
	return pattern()[at : at+uint64(n)]
}

// wrongByte says where data first differs from what the file holds at off; nil
// when it doesn't.
func wrongByte(file int, off int64, data []byte) error {
	want := PatternAt(file, off, len(data))
	if bytes.Equal(want, data) {
		return nil
	}
	for i := range data {
		if data[i] != want[i] {
			return fmt.Errorf("wrong data in file %d at byte %d: 0x%02x, want 0x%02x", file, off+int64(i), data[i], want[i])
		}
	}
	return nil
}
