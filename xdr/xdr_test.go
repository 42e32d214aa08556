package xdr

import (
	"bytes"
	"errors"
	"io"
	"math"
	"testing"
)

func TestScalars(t *testing.T) {
	var e Encoder
	e.Uint32(0x01020304)
	e.Int32(-2)
	e.Uint64(0x0102030405060708)
	e.Int64(-3)
	e.Bool(true)
	e.Bool(false)
	e.Fixed([]byte{9, 8, 7, 6, 5})
	e.Opaque([]byte("ab"))
	e.Opaque(nil)
	want := "\x01\x02\x03\x04" + "\xff\xff\xff\xfe" + "\x01\x02\x03\x04\x05\x06\x07\x08" + "\xff\xff\xff\xff\xff\xff\xff\xfd" +
		"\x00\x00\x00\x01" + "\x00\x00\x00\x00" + "\x09\x08\x07\x06\x05\x00\x00\x00" + "\x00\x00\x00\x02ab\x00\x00" + "\x00\x00\x00\x00"
	if string(e.Bytes()) != want || e.Len() != len(want) {
		t.Errorf("encoded %d bytes %x,\nwant %d bytes %x", e.Len(), e.Bytes(), len(want), want)
	}

	var d Decoder
	d.Reset([]byte(want))
	if v := d.Uint32(); v != 0x01020304 {
		t.Errorf("Uint32 %x", v)
	}
	if v := d.Int32(); v != -2 {
		t.Errorf("Int32 %d", v)
	}
	if v := d.Uint64(); v != 0x0102030405060708 {
		t.Errorf("Uint64 %x", v)
	}
	if v := d.Int64(); v != -3 {
		t.Errorf("Int64 %d", v)
	}
	if v, w := d.Bool(), d.Bool(); !v || w {
		t.Errorf("Bool %v, %v", v, w)
	}
	if v := d.Fixed(5); string(v) != "\x09\x08\x07\x06\x05" {
		t.Errorf("Fixed %x", v)
	}
	if v := d.Opaque(2); string(v) != "ab" {
		t.Errorf("Opaque %q", v)
	}
	if v := d.Opaque(0); len(v) != 0 {
		t.Errorf("Opaque %q", v)
	}
	if d.Len() != 0 || d.Err() != nil {
		t.Errorf("%d bytes left, error %v", d.Len(), d.Err())
	}
}

func TestDecodeErrors(t *testing.T) {
	for _, c := range []struct {
		name string
		msg  string
		read func(d *Decoder)
		want error
	}{
		{"Uint32 of 3 bytes", "\x00\x00\x00", func(d *Decoder) { d.Uint32() }, ErrShort},
		{"Uint64 of 7 bytes", "\x00\x00\x00\x00\x00\x00\x00", func(d *Decoder) { d.Uint64() }, ErrShort},
		{"Bool of 2", "\x00\x00\x00\x02", func(d *Decoder) { d.Bool() }, ErrBadValue},
		{"Bool of 2^31", "\x80\x00\x00\x00", func(d *Decoder) { d.Bool() }, ErrBadValue},
		{"Fixed beyond the end", "\x00\x00\x00\x00", func(d *Decoder) { d.Fixed(5) }, ErrShort},
		{"Fixed without its padding", "\x01\x02\x03\x04\x05\x06\x07", func(d *Decoder) { d.Fixed(5) }, ErrShort},
		{"Fixed of a negative length", "\x01\x02\x03\x04", func(d *Decoder) { d.Fixed(-1) }, ErrShort},
		{"Fixed of the largest length", "\x01\x02\x03\x04", func(d *Decoder) { d.Fixed(math.MaxInt) }, ErrShort},
		{"Opaque without a length", "\x00\x00", func(d *Decoder) { d.Opaque(4) }, ErrShort},
		{"Opaque above its limit", "\x00\x00\x00\x05abcde\x00\x00\x00", func(d *Decoder) { d.Opaque(4) }, ErrTooLong},
		{"Opaque beyond the end", "\x00\x00\x00\x05abcd", func(d *Decoder) { d.Opaque(Unbounded) }, ErrShort},
		{"Opaque without its padding", "\x00\x00\x00\x05abcde\x00\x00", func(d *Decoder) { d.Opaque(Unbounded) }, ErrShort},
		{"Opaque of 2^32-1", "\xff\xff\xff\xffabcd", func(d *Decoder) { d.Opaque(Unbounded) }, ErrTooLong},
		{"Opaque of 2^31-1", "\x7f\xff\xff\xffabcd", func(d *Decoder) { d.Opaque(Unbounded) }, ErrShort},
		{"Count above its limit", "\x00\x00\x00\x03\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00", func(d *Decoder) { d.Count(2, 4) }, ErrTooLong},
		{"Count beyond the end", "\x00\x00\x00\x03\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00", func(d *Decoder) { d.Count(9, 4) }, ErrShort},
		{"Count of 2^32-1", "\xff\xff\xff\xff", func(d *Decoder) { d.Count(Unbounded, 1<<30) }, ErrTooLong},
		{"Count of 2^31-1", "\x7f\xff\xff\xff", func(d *Decoder) { d.Count(Unbounded, 1<<30) }, ErrShort},
		{"the caller's error", "", func(d *Decoder) { d.Fail(io.EOF) }, io.EOF},
		{"the first of two errors", "", func(d *Decoder) { d.Fail(io.EOF); d.Fail(ErrShort); d.Uint32() }, io.EOF},
	} {
		var d Decoder
		d.Reset([]byte(c.msg))
		c.read(&d)
		if d.Err() != c.want {
			t.Errorf("%s: error %v, want %v", c.name, d.Err(), c.want)
		}
		// An error ends the message for every later read.
		if d.Len() != 0 || d.Uint32() != 0 || d.Uint64() != 0 || d.Bool() || d.Fixed(1) != nil || d.Opaque(9) != nil || d.Count(9, 4) != 0 || d.Err() != c.want {
			t.Errorf("%s: the error did not stick", c.name)
		}
		d.Reset([]byte{0, 0, 0, 7})
		if d.Uint32() != 7 || d.Err() != nil {
			t.Errorf("%s: the error survived Reset", c.name)
		}
	}
}

func TestPaddingIsNotLookedAt(t *testing.T) {
	var d Decoder
	d.Reset([]byte("\x00\x00\x00\x01a\xff\xff\xff\x00\x00\x00\x02"))
	if b, w := d.Opaque(1), d.Uint32(); string(b) != "a" || w != 2 || d.Err() != nil {
		t.Errorf("%q, %d, error %v", b, w, d.Err())
	}
}

func TestDecodedBytesAliasAndStayInside(t *testing.T) {
	msg := []byte("\x00\x00\x00\x02ab\x00\x00cdef")
	var d Decoder
	d.Reset(msg)
	b, c := d.Opaque(9), d.Fixed(4)
	if &b[0] != &msg[4] || &c[0] != &msg[8] {
		t.Error("the result is a copy")
	}
	_ = append(b, "XXXXXXXX"...) // must not reach the message
	if string(msg[4:]) != "ab\x00\x00cdef" || cap(c) != 4 {
		t.Errorf("appending to a result changed the message to %q", msg)
	}
}

func TestEncoderAppends(t *testing.T) {
	buf := append(make([]byte, 0, 64), "head"...)
	var e Encoder
	e.Reset(buf)
	at := e.Len()
	e.Uint32(0)
	e.Opaque([]byte("x"))
	e.PatchUint32(at, 0xfffffffe)
	if got := string(e.Bytes()); got != "head\xff\xff\xff\xfe\x00\x00\x00\x01x\x00\x00\x00" {
		t.Errorf("encoded %q", got)
	}
	if &e.Bytes()[0] != &buf[0] {
		t.Error("the buffer was large enough and not used")
	}
}

// TestGrow writes past the end of the caller's buffer in every way there is.
func TestGrow(t *testing.T) {
	var e Encoder
	var want []byte
	for i := range 1000 {
		b := e.Next(8)
		if len(b) != 8 {
			t.Fatalf("Next(8) gave %d bytes", len(b))
		}
		copy(b, "12345678")
		e.Uint32(uint32(i))
		e.Fixed([]byte{1})
		want = append(append(want, "12345678"...), 0, 0, byte(i>>8), byte(i), 1, 0, 0, 0)
	}
	if !bytes.Equal(e.Bytes(), want) {
		t.Error("bytes lost in growing")
	}
}

// pipe is a payload that is not in memory, as the data path's pipes are.
type pipe struct {
	data     string
	len      int // what it says to have
	err      error
	released int
}

func (p *pipe) Len() int                { return p.len }
func (p *pipe) Bytes() ([]byte, bool)   { return nil, false }
func (p *pipe) SendTo(int) (int, error) { panic("not for tests") }
func (p *pipe) Advance(int)             { panic("not for pipes") }
func (p *pipe) Release()                { p.released++ }
func (p *pipe) ReadAll(dst []byte) (int, error) {
	if len(dst) < p.len {
		panic("no room")
	}
	return copy(dst, p.data), p.err
}

func newPipe(n int) *pipe {
	return &pipe{data: string(bytes.Repeat([]byte("p"), n)), len: n}
}

func TestSmallPayloadIsCopied(t *testing.T) {
	for _, n := range []int{0, 1, 4, SmallPayload} {
		var e Encoder
		e.Uint32(7)
		p := newPipe(n)
		e.Payload(p)
		e.Payload(NewBytes([]byte(p.data)))
		var want Encoder
		want.Uint32(7)
		want.Opaque([]byte(p.data))
		want.Opaque([]byte(p.data))
		if !bytes.Equal(e.Bytes(), want.Bytes()) || e.Len() != want.Len() || len(e.Segments()) != 0 || p.released != 1 || e.Err() != nil {
			t.Errorf("%d bytes: encoded as %d bytes and %d segments, released %d times, error %v", n, e.Len(), len(e.Segments()), p.released, e.Err())
		}
	}
	var e Encoder
	e.Payload(nil)
	if string(e.Bytes()) != "\x00\x00\x00\x00" {
		t.Errorf("nil is encoded as %x", e.Bytes())
	}
}

func TestLargePayloadIsASegment(t *testing.T) {
	p, q := newPipe(SmallPayload+1), newPipe(SmallPayload+2)
	build := func() *Encoder {
		e := new(Encoder)
		e.Uint32(7)
		e.Payload(p)
		e.Uint32(8)
		e.Payload(q)
		return e
	}
	e := build()
	segs := e.Segments()
	if len(segs) != 2 || segs[0] != (Segment{8, p}) || segs[1] != (Segment{8 + 3 + 8, q}) {
		t.Fatalf("segments %+v", segs)
	}
	if got := string(e.Bytes()); got != "\x00\x00\x00\x07\x00\x00\x20\x01"+"\x00\x00\x00"+"\x00\x00\x00\x08\x00\x00\x20\x02"+"\x00\x00" {
		t.Errorf("bytes around the payloads: %x", got)
	}
	if want := len(e.Bytes()) + p.len + q.len; e.Len() != want || e.Len()%4 != 0 {
		t.Errorf("length %d, want %d", e.Len(), want)
	}
	if p.released+q.released != 0 {
		t.Error("a payload was released before it was sent")
	}
	e.Reset(nil)
	if e.Len() != 0 || len(e.Segments()) != 0 || p.released+q.released != 0 {
		t.Error("Reset must forget the payloads and leave them alone")
	}

	e = build()
	n := e.Len()
	if err := e.Flatten([]byte("head")); err != nil {
		t.Fatal(err)
	}
	var want Encoder
	want.Reset([]byte("head"))
	want.Uint32(7)
	want.Opaque([]byte(p.data))
	want.Uint32(8)
	want.Opaque([]byte(q.data))
	if !bytes.Equal(e.Bytes(), want.Bytes()) || e.Len() != n+4 || len(e.Segments()) != 0 || p.released != 1 || q.released != 1 {
		t.Errorf("Flatten gave %d bytes, %d segments, released %d and %d", e.Len(), len(e.Segments()), p.released, q.released)
	}
}

func TestRollback(t *testing.T) {
	p, q, bad := newPipe(SmallPayload+1), newPipe(SmallPayload+2), &pipe{len: 4, err: io.ErrUnexpectedEOF}
	var e Encoder
	e.Uint32(1)
	e.Payload(p)
	m := e.Mark()
	n := e.Len()
	e.Uint32(2)
	e.Payload(q)
	e.Payload(bad)
	if !errors.Is(e.Err(), io.ErrUnexpectedEOF) || bad.released != 1 {
		t.Errorf("error %v, released %d", e.Err(), bad.released)
	}
	e.Rollback(m)
	if e.Len() != n || len(e.Segments()) != 1 || p.released != 0 || q.released != 1 || e.Err() != nil {
		t.Errorf("after Rollback: %d bytes, want %d; %d segments; released %d and %d; error %v", e.Len(), n, len(e.Segments()), p.released, q.released, e.Err())
	}
	e.Rollback(Mark{})
	if e.Len() != 0 || len(e.Segments()) != 0 || p.released != 1 || q.released != 1 {
		t.Errorf("after Rollback to the start: %d bytes, released %d and %d", e.Len(), p.released, q.released)
	}
	e.Fail(io.EOF)
	m = e.Mark()
	e.Fail(io.ErrNoProgress)
	e.Rollback(m)
	if e.Err() != io.EOF {
		t.Errorf("Rollback to a mark after an error gave error %v", e.Err())
	}
}

// TestBrokenPayload: a payload that gives fewer bytes than it said, or none,
// keeps the message's lengths right, is released once, and is told.
func TestBrokenPayload(t *testing.T) {
	for _, n := range []int{5, SmallPayload + 5} {
		for _, p := range []*pipe{{data: "abc", len: n}, {data: "abc", len: n, err: io.ErrUnexpectedEOF}} {
			want := p.err
			if want == nil {
				want = ErrShort
			}
			var e Encoder
			e.Payload(p)
			size := e.Len()
			if err := e.Flatten(nil); !errors.Is(err, want) || !errors.Is(e.Err(), want) {
				t.Errorf("%d bytes: error %v, want %v", n, err, want)
			}
			if e.Len() != size || len(e.Bytes()) != size || p.released != 1 || len(e.Segments()) != 0 {
				t.Errorf("%d bytes: length %d, want %d; released %d times", n, e.Len(), size, p.released)
			}
		}
	}
}

func TestBytesPayload(t *testing.T) {
	p := NewBytes([]byte("abcdef"))
	p.Advance(2)
	if b, ok := p.Bytes(); string(b) != "cdef" || !ok || p.Len() != 4 {
		t.Errorf("after Advance: %q, %v, %d", b, ok, p.Len())
	}
	if _, err := p.SendTo(-1); err == nil {
		t.Error("SendTo worked on a payload in memory")
	}
	dst := make([]byte, 9)
	if n, err := p.ReadAll(dst); n != 4 || err != nil || string(dst[:n]) != "cdef" || p.Len() != 0 {
		t.Errorf("ReadAll: %d, %v, %q", n, err, dst)
	}
	p.Release()
}

func TestAllocs(t *testing.T) {
	var d Decoder
	var e Encoder
	buf, data := make([]byte, 0, 16<<10), make([]byte, 64<<10)
	big := newPipe(SmallPayload + 1)
	small := newPipe(SmallPayload)
	e.Reset(buf)
	e.Opaque(data[:9])
	msg := bytes.Clone(e.Bytes())
	for _, c := range []struct {
		name string
		f    func()
	}{
		{"decoding opaque", func() { d.Reset(msg); d.Opaque(9) }},
		{"a length above the limit", func() { d.Reset(msg); d.Opaque(8) }},
		{"a message too short", func() { d.Reset(msg[:8]); d.Opaque(9) }},
		{"a bad bool", func() { d.Reset(msg); d.Bool() }},
		{"encoding", func() { e.Reset(buf); e.Uint64(1); e.Opaque(data[:100]); copy(e.Next(8), data) }},
		{"a segment", func() { e.Reset(buf); e.Payload(big); e.Rollback(Mark{}) }},
		{"a copied payload", func() { e.Reset(buf); e.Payload(small) }},
	} {
		if n := testing.AllocsPerRun(100, c.f); n != 0 {
			t.Errorf("%s: %v allocations", c.name, n)
		}
	}
}

// FuzzOps drives a Decoder through arbitrary reads: whatever happens, results
// lie inside the message and the cursor moves forward.
func FuzzOps(f *testing.F) {
	f.Add([]byte{0, 1, 2, 3, 4, 5, 6}, []byte("\x00\x00\x00\x05hello\x00\x00\x00\x00\x00\x00\x01"))
	f.Add([]byte{4, 4, 5}, []byte("\xff\xff\xff\xff"))
	f.Add([]byte{4, 6, 4}, []byte("\x00\x00\x00\x01a\xff\xff\xff\x00\x00\x00\x00\x7f\xff\xff\xff"))
	f.Fuzz(func(t *testing.T, ops, msg []byte) {
		var d Decoder
		d.Reset(msg)
		for _, op := range ops {
			before := d.Len()
			var got int
			switch op % 7 {
			case 0:
				d.Uint32()
			case 1:
				d.Uint64()
			case 2:
				d.Bool()
			case 3:
				got = len(d.Fixed(int(op)))
			case 4:
				got = len(d.Opaque(int(op) << 4))
			case 5:
				got = d.Count(Unbounded, int(op>>4)+1)
			case 6:
				if b := d.Next(int(op >> 4)); d.Err() == nil && len(b) != before {
					t.Fatalf("Next gave %d bytes of %d", len(b), before)
				}
			}
			if d.Len() > before || got > before || d.Err() != nil && d.Len() != 0 {
				t.Fatalf("operation %d: %d bytes became %d, result of %d, error %v", op, before, d.Len(), got, d.Err())
			}
		}
	})
}
