// Where large records land.

package rpc

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"
	"unsafe"

	"sluice/xdr"
)

func address(b []byte) int { return int(uintptr(unsafe.Pointer(&b[0])) % landUnit) }

// TestLanding: however a stream is cut into reads, each record of one fragment
// that is not small or whole in one read lies where its head says, and all are what was sent.
func TestLanding(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	heads := 0
	land := func(head []byte) int {
		if len(head) < landHead {
			t.Errorf("a head of %d bytes", len(head))
		}
		heads++
		return int(binary.BigEndian.Uint16(head) % landUnit)
	}
	const limit = 1<<20 + 4<<10
	for round := range 60 {
		var stream []byte
		var want [][]byte
		large := 0
		for range 1 + rng.IntN(6) {
			n := []int{1 + rng.IntN(2000), landFrom, landFrom - 1, largeFrom, largeFrom + rng.IntN(200<<10), limit}[rng.IntN(6)]
			body := pattern(rng.Uint64(), n)
			var cuts []int
			if n >= landFrom && rng.IntN(4) == 0 {
				cuts = []int{1 + rng.IntN(100), 1 + rng.IntN(2000)}
			} else if n >= landFrom {
				large++
			}
			stream = append(stream, fragment(body, cuts...)...)
			want = append(want, body)
		}
		most := []int{40, 700, 4000, 100 << 10, 2 << 20}[round%5]
		heads = 0
		landed := 0
		got, err := readLanded(t, stream, limit, func() int { return 1 + rng.IntN(most) }, land, func(body []byte) {
			if len(body) >= landFrom && address(body) == int(binary.BigEndian.Uint16(body)%landUnit) {
				landed++
			}
		})
		if err != nil || len(got) != len(want) {
			t.Fatalf("%d records, want %d: %v", len(got), len(want), err)
		}
		for i := range got {
			if !bytes.Equal(got[i], want[i]) {
				t.Fatalf("record %d of %d bytes differs", i, len(want[i]))
			}
		}
		if most <= landFrom && heads < large || landed < heads {
			t.Errorf("reads of at most %d bytes: of %d large records %d had a head looked at, %d landed", most, large, heads, landed)
		}
	}
}

type landedArgs struct {
	off  uint64
	data []byte
}

func (a landedArgs) Encode(e *xdr.Encoder) {
	e.Uint64(a.off)
	copy(e.Next(len(a.data)), a.data)
}

// TestLandedCalls: the payload of a call is aligned when its procedure runs on
// a slow thread, whether it came alone or behind others, in one read or in
// many, and while memory is short; and its bytes are right.
func TestLandedCalls(t *testing.T) {
	var aligned, calls atomic.Int64
	ts := start(t, func(c *Config) {
		c.RecordMemory = newPool(0, 1<<20+4<<10, readSize).pocket * 8
		c.Threads, c.SpareThreads, c.SlowThreads = 1, 1, 2
		proc := &c.Programs[0].Versions[0].Procs[procSink]
		proc.Slow = true
		proc.Land = func(args []byte) (int, uint64, bool) {
			return 8, binary.BigEndian.Uint64(args), true
		}
		proc.Run = func(call *Call) Verdict {
			off := call.Args.Uint64()
			data := call.Args.Next(call.Args.Len())
			if !bytes.Equal(data, pattern(off, len(data))) {
				t.Errorf("the %d bytes at %d are wrong", len(data), off)
			}
			calls.Add(1)
			if address(data) == int(off%landUnit) {
				aligned.Add(1)
			}
			return Done
		}
	})
	want := int64(0)
	for k, burst := range [][]int{{6 << 10}, {64 << 10}, {1 << 20, 1 << 20, 1 << 20}, {8 << 10, 100_000, 32 << 10, 300_000, 16 << 10}, {200_000, 1 << 20, 40}} {
		for cut := range 3 {
			var stream []byte
			for i, n := range burst {
				off := uint64(1000*k + 4096*i + 17)
				stream = EncodeCall(stream, uint32(i+1), testProg, testVers, procSink, root, landedArgs{off, pattern(off, n)})
				if n > smallCall {
					want++
				}
			}
			pc := ts.dial(t)
			go func() {
				for piece := range slices.Chunk(stream, []int{len(stream), 1 << 14, 70_001}[cut]) {
					pc.Write(piece) //nolint:errcheck // shows in the replies
				}
			}()
			for range burst {
				pc.recv()
			}
		}
	}
	if aligned.Load() < want {
		t.Errorf("%d calls ran, %d of them aligned, not %d", calls.Load(), aligned.Load(), want)
	}
}
