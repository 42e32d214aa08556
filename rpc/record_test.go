package rpc

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"testing"
)

// fragment cuts a record into fragments at the given lengths; the last
// fragment takes the rest.
func fragment(body []byte, lengths ...int) (b []byte) {
	for _, n := range lengths {
		n = min(n, len(body))
		b = binary.BigEndian.AppendUint32(b, uint32(n))
		b = append(b, body[:n]...)
		body = body[n:]
	}
	b = binary.BigEndian.AppendUint32(b, lastFragment|uint32(len(body)))
	return append(b, body...)
}

func TestWhole(t *testing.T) {
	body := []byte("0123456789abcdef")
	for _, tc := range []struct {
		name string
		in   []byte
		n    int
		err  error
	}{
		{"nothing", nil, 0, nil},
		{"half a mark", []byte{0x80, 0}, 0, nil},
		{"one fragment", fragment(body), 20, nil},
		{"cut short", fragment(body)[:19], 0, nil},
		{"two fragments", fragment(body, 5), 24, nil},
		{"fragments of a byte", fragment(body, 1, 1, 1, 1, 1, 1, 1, 1), 16 + 36, nil},
		{"second fragment cut", fragment(body, 5)[:20], 0, nil},
		{"second mark cut", fragment(body, 5)[:11], 0, nil},
		{"empty fragments", fragment(body, 0, 5, 0, 0), 36, nil},
		{"empty last fragment", fragment(body, 16), 24, nil},
		{"too long", be(lastFragment | 1025), 0, errRecordTooLong},
		{"longest", append(be(lastFragment|1024), make([]byte, 1024)...), 1028, nil},
		{"largest length", be(0xffffffff), 0, errRecordTooLong},
		{"largest length, not last", be(0x7fffffff), 0, errRecordTooLong},
		{"too long together", append(be(1000), append(make([]byte, 1000), be(lastFragment|25)...)...), 0, errRecordTooLong},
		{"too many empty ones", make([]byte, 4*(maxEmpty+1)), 0, errEmptyFragment},
		{"just not too many", make([]byte, 4*maxEmpty), 0, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			in := append(bytes.Clone(tc.in), "next"...)[:len(tc.in)]
			got, n, err := whole(in, 1024)
			if n != tc.n || !errors.Is(err, tc.err) {
				t.Fatalf("took %d, %v; want %d, %v", n, err, tc.n, tc.err)
			}
			if n > 0 && tc.name != "longest" && !bytes.Equal(got, body) {
				t.Fatalf("got %q", got)
			}
			if n == 0 && !bytes.Equal(in, tc.in) {
				t.Fatal("an incomplete record was changed")
			}
		})
	}
}

// readAll runs a stream through whole and an assembly as a thread does, cut
// into reads of the given sizes, and returns the records.
func readAll(t *testing.T, stream []byte, maxRecord int, sizes func() int) (records [][]byte, err error) {
	t.Helper()
	return readLanded(t, stream, maxRecord, sizes, nil, func([]byte) {})
}

// readLanded is readAll with records that land; seen gets each of those in its
// own buffer.
func readLanded(t *testing.T, stream []byte, maxRecord int, sizes func() int, land lander, seen func(body []byte)) (records [][]byte, err error) {
	t.Helper()
	p := newPool(1<<30, maxRecord, 1<<16)
	p.poison, p.land = true, land
	var a assembly
	defer func() {
		p.put(a.buf)
		if n := p.live.Load(); n != 0 {
			t.Errorf("%d buffers leaked", n)
		}
	}()
	for len(stream) > 0 {
		n := min(sizes(), len(stream))
		chunk := bytes.Clone(stream[:n])
		stream = stream[n:]
		pocket := p.pocket
		if !p.fill(pocket, wantNew) {
			t.Fatal("no memory")
		}
		// As much as belongs to the current fragment is read in place.
		k := copy(a.room(), chunk)
		chunk = chunk[k:]
		if k > 0 && a.added(k) {
			body, b := a.finish()
			records = append(records, bytes.Clone(body))
			seen(body)
			p.put(b)
		}
		for len(chunk) > 0 {
			if a.active() {
				k, done, err := a.feed(chunk, p, &pocket, maxRecord)
				if err != nil {
					p.giveBack(pocket)
					return records, err
				}
				chunk = chunk[k:]
				if done {
					body, b := a.finish()
					records = append(records, bytes.Clone(body))
					seen(body)
					p.put(b)
				}
				continue
			}
			body, k, err := whole(chunk, maxRecord)
			if err != nil {
				p.giveBack(pocket)
				return records, err
			}
			if k > 0 {
				records = append(records, bytes.Clone(body))
				chunk = chunk[k:]
				continue
			}
			if _, done, err := a.feed(chunk, p, &pocket, maxRecord); err != nil || done {
				p.giveBack(pocket)
				if done {
					t.Fatal("whole missed a record")
				}
				return records, err
			}
			break
		}
		p.giveBack(pocket)
	}
	return records, nil
}

func TestRecordsCutAnywhere(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		var stream []byte
		var want [][]byte
		for range 1 + rng.IntN(8) {
			body := pattern(rng.Uint64(), rng.IntN(1+rng.IntN(5000)))
			var cuts []int
			for range rng.IntN(1 + rng.IntN(20)) {
				cuts = append(cuts, 1+rng.IntN(1+rng.IntN(500)))
			}
			stream = append(stream, fragment(body, cuts...)...)
			want = append(want, body)
		}
		most := 1 + rng.IntN(3000)
		got, err := readAll(t, stream, 5000, func() int { return 1 + rng.IntN(most) })
		if err != nil {
			t.Fatal(err)
		}
		if len(got) != len(want) {
			t.Fatalf("%d records, want %d", len(got), len(want))
		}
		for i := range got {
			if !bytes.Equal(got[i], want[i]) {
				t.Fatalf("record %d differs", i)
			}
		}
	}
}

// FuzzRecords: however a stream is cut into reads, the records and the error
// are the same, and nothing leaks.
func FuzzRecords(f *testing.F) {
	f.Add([]byte{}, uint16(1))
	f.Add(fragment([]byte("hello, world")), uint16(1))
	f.Add(append(fragment([]byte("hello, world"), 1, 2, 3), fragment([]byte("again"))...), uint16(3))
	f.Add(make([]byte, 80), uint16(7))
	f.Add(be(lastFragment|600), uint16(2))
	f.Add(be(400, 0, 0), uint16(2))
	f.Fuzz(func(t *testing.T, stream []byte, size uint16) {
		const limit = 500
		want, wantErr := readAll(t, stream, limit, func() int { return len(stream) })
		got, err := readAll(t, stream, limit, func() int { return int(size)%64 + 1 })
		if !errors.Is(err, wantErr) {
			t.Fatalf("in pieces: %v; at once: %v", err, wantErr)
		}
		if len(got) != len(want) {
			t.Fatalf("in pieces: %d records; at once: %d", len(got), len(want))
		}
		for i := range got {
			if !bytes.Equal(got[i], want[i]) {
				t.Fatalf("record %d differs", i)
			}
		}
	})
}

// TestPocketHoldsAnyRead: the most memory that one read can ask for, for every
// limit on records.
func TestPocketHoldsAnyRead(t *testing.T) {
	for _, limit := range []int{1 << 10, 5000, 64 << 10, 257 << 10, 262_500, 1<<20 + 4<<10, 4 << 20} {
		s := &Server{cfg: Config{MaxRecord: limit}, pool: newPool(1<<30, limit, readSize)}
		c := &Conn{srv: s}
		svc := &service{}
		svc.srv = s
		svc.pocket = s.pool.pocket
		s.pool.used.Store(svc.pocket)
		// A record that began in an earlier read...
		room := min(limit, readSize-200)
		c.in.feed(append(be(1), 'x'), s.pool, &svc.pocket, limit)
		svc.pocket = s.pool.pocket
		// ...grows by fragments that need the next size each,
		var in []byte
		for got := 1; got < room; {
			n := min(max(3*got, 1<<10), room-got)
			got += n
			in = append(append(in, be(uint32(n))...), make([]byte, n)...)
		}
		in = append(in, be(lastFragment)...)
		// followed by a small one and the beginning of the largest.
		in = append(in, record(1, procNull)...)
		in = append(in, be(lastFragment|uint32(limit))...)
		in = append(in, 'y')
		if len(in) > readSize {
			t.Fatalf("%d bytes are more than a read", len(in))
		}
		rest, err := svc.split(c, in)
		if err != nil || len(rest) > 0 || len(svc.calls) != 2 || c.in.buf == nil {
			t.Fatalf("limit %d: %d calls, %d left, %v", limit, len(svc.calls), len(rest), err)
		}
		svc.hold(c, []int{0, 1}, nil)
		if svc.pocket < 0 {
			t.Errorf("limit %d: the pocket was %d bytes short", limit, -svc.pocket)
		}
		svc.release()
		s.pool.put(c.held.buf)
		s.pool.put(c.in.buf)
		if n := s.pool.live.Load(); n != 0 {
			t.Errorf("limit %d: %d buffers leaked", limit, n)
		}
	}
}
