// Package xdrtest holds the checks that every generated XDR type has to pass.
// Each protocol package runs them over the list of its types that xdrgen
// writes, so that no type is forgotten.
//
// Valid messages to start from are found by decoding random words that are
// mostly 0 and 1: that reaches every arm of every union without knowing the
// protocol.
package xdrtest

import (
	"bytes"
	"encoding/hex"
	"errors"
	"math/rand/v2"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"

	"sluice/xdr"
)

// Type is what every generated type implements on its pointer.
type Type = xdr.Type

// New makes a zero value of a type.
type New func() Type

// Name returns the name of the type that new makes.
func Name(new New) string { return reflect.TypeOf(new()).Elem().Name() }

// Fuzz decodes what the fuzzer gives as one of types and checks the round
// trip. Its seeds are messages of every type.
func Fuzz(f *testing.F, types []New) {
	for i, new := range types {
		msgs := Messages(new, 8)
		if len(msgs) == 0 {
			f.Errorf("no valid message of %s found", Name(new))
		}
		for _, b := range msgs {
			f.Add(uint16(i), b)
		}
	}
	f.Fuzz(func(t *testing.T, typ uint16, data []byte) {
		RoundTrip(t, types[int(typ)%len(types)], data)
	})
}

// Messages returns up to n valid messages of a type, of different lengths
// where it has them. It returns the same ones each time.
func Messages(new New, n int) [][]byte {
	rnd := rand.New(rand.NewPCG(1, 2))
	var msgs [][]byte
	var d xdr.Decoder
	for try := 0; try < 2000 && len(msgs) < n; try++ {
		b := words(rnd, 512, try%8)
		d.Reset(b)
		new().Decode(&d)
		b = b[:len(b)-d.Len()]
		sameLen := func(m []byte) bool { return len(m) == len(b) }
		if d.Err() == nil && (try > 200 || !slices.ContainsFunc(msgs, sameLen)) {
			msgs = append(msgs, b)
		}
	}
	return msgs
}

// words makes n bytes of random words, the smaller the more likely; among
// sixteen, rare have any value.
func words(rnd *rand.Rand, n, rare int) []byte {
	b := make([]byte, 0, n)
	for len(b) < n {
		w := uint32(0)
		switch r := rnd.IntN(16); {
		case r < rare:
			w = rnd.Uint32() >> rnd.IntN(32)
		case r < 10:
			w = 1
		case r < 12:
			w = rnd.Uint32N(8)
		}
		b = append(b, byte(w>>24), byte(w>>16), byte(w>>8), byte(w))
	}
	return b
}

// encode returns v as plain bytes, payloads included. It uses up v's payloads.
func encode(t testing.TB, v Type) []byte {
	t.Helper()
	var e xdr.Encoder
	v.Encode(&e)
	n := e.Len()
	if err := e.Flatten(nil); err != nil {
		t.Fatalf("encoding %+v: %v", v, err)
	}
	if len(e.Bytes()) != n || e.Len() != n {
		t.Fatalf("encoded length %d became %d, %d bytes", n, e.Len(), len(e.Bytes()))
	}
	return e.Bytes()
}

func decode(t testing.TB, new New, b []byte) (v Type, rest int) {
	t.Helper()
	var d xdr.Decoder
	d.Reset(b)
	v = new()
	v.Decode(&d)
	if err := d.Err(); err != nil {
		t.Fatalf("decoding %s from %x: %v", Name(new), b, err)
	}
	return v, d.Len()
}

// RoundTrip decodes data, encodes the result and decodes that. It checks that
// both values and both lengths are the same, that encoding again gives the
// same bytes, and that no truncated message decodes. Data that does not decode
// must fail with one of the package's errors. It tells whether data decoded.
func RoundTrip(t testing.TB, new New, data []byte) bool {
	t.Helper()
	var d xdr.Decoder
	d.Reset(data)
	v := new()
	v.Decode(&d)
	if err := d.Err(); err != nil {
		if !errors.Is(err, xdr.ErrShort) && !errors.Is(err, xdr.ErrTooLong) && !errors.Is(err, xdr.ErrBadValue) || d.Len() != 0 {
			t.Fatalf("decoding %s: error %v with %d bytes left", Name(new), err, d.Len())
		}
		return false
	}
	used := len(data) - d.Len()
	b := encode(t, v)
	if len(b) != used {
		t.Fatalf("%s took %d bytes and gave %d: %x -> %x", Name(new), used, len(b), data[:used], b)
	}
	v, _ = decode(t, new, data) // again: encoding used up its payloads
	w, rest := decode(t, new, b)
	if rest != 0 || !reflect.DeepEqual(v, w) {
		t.Fatalf("%s: %+v became %+v, %d bytes left", Name(new), v, w, rest)
	}
	if c := encode(t, w); !bytes.Equal(b, c) {
		t.Fatalf("%s: encoded as %x, then as %x", Name(new), b, c)
	}
	for n := 0; n < len(b) && len(b) <= 1024; n++ {
		d.Reset(b[:n])
		new().Decode(&d)
		if !errors.Is(d.Err(), xdr.ErrShort) {
			t.Fatalf("%s: %d of %d bytes: error %v, not ErrShort", Name(new), n, len(b), d.Err())
		}
	}
	return true
}

// Bounds feeds every type with hostile messages and checks that decoding
// never takes more memory than a small multiple of the message.
func Bounds(t *testing.T, types []New) {
	const size = 4096
	inputs := [][]byte{
		bytes.Repeat([]byte{0xff}, size),
		bytes.Repeat([]byte{0, 0, 0, 1}, size/4),
		bytes.Repeat([]byte{0, 0, 0, 1, 0xff, 0xff, 0xff, 0xff}, size/8),
		bytes.Repeat([]byte{0, 0, 0, 1, 0x7f, 0xff, 0xff, 0xff}, size/8),
		bytes.Repeat([]byte{0, 0, 0, 1, 0, 0, 0, 0}, size/8),
		make([]byte, size),
	}
	rnd := rand.New(rand.NewPCG(3, 4))
	for range 50 {
		inputs = append(inputs, words(rnd, size, rnd.IntN(4)))
	}
	for _, new := range types {
		for _, msg := range Messages(new, 4) {
			for at := 0; at+4 <= len(msg); at += 4 { // each word in turn becomes huge
				for _, w := range []string{"\xff\xff\xff\xff", "\x7f\xff\xff\xff", "\x00\x10\x00\x00"} {
					b := bytes.Clone(msg)
					copy(b[at:], w)
					inputs = append(inputs, b)
				}
			}
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		total := uint64(0)
		for _, in := range inputs {
			var d xdr.Decoder
			d.Reset(in)
			new().Decode(&d)
			total += uint64(len(in)) + 256
		}
		runtime.ReadMemStats(&after)
		if got := after.TotalAlloc - before.TotalAlloc; got > 16*total {
			t.Errorf("%s: %d hostile messages of %d bytes took %d bytes of memory", Name(new), len(inputs), total, got)
		}
		inputs = inputs[:56]
	}
}

// Allocs checks that decoding a message a second time into the same value
// allocates nothing, nor does encoding it into a buffer that is large enough.
// It leaves out the types named in except: those with a Payload, which decode
// allocates, and those with a list in a list, whose inner one is made anew.
func Allocs(t *testing.T, types []New, except ...string) {
	for _, new := range types {
		if slices.Contains(except, Name(new)) {
			continue
		}
		for _, b := range Messages(new, 4) {
			var d xdr.Decoder
			v, _ := decode(t, new, b)
			if n := testing.AllocsPerRun(10, func() { d.Reset(b); v.Decode(&d) }); n != 0 {
				t.Errorf("%s: decoding allocates %v times", Name(new), n)
			}
			var e xdr.Encoder
			buf := make([]byte, 0, len(b))
			if n := testing.AllocsPerRun(10, func() { e.Reset(buf); v.Encode(&e) }); n != 0 {
				t.Errorf("%s: encoding allocates %v times", Name(new), n)
			}
		}
	}
}

// Golden checks that v encodes as wire and that wire decodes as v. wire is
// written as words: hexadecimal bytes, or text in double quotes, between white
// space; // begins a comment.
func Golden(t *testing.T, v Type, wire string) {
	t.Helper()
	want := Wire(t, wire)
	typ := reflect.TypeOf(v).Elem()
	new := func() Type { return reflect.New(typ).Interface().(Type) }
	got, rest := decode(t, new, want)
	if rest != 0 || !reflect.DeepEqual(got, v) {
		t.Errorf("%s: decoded as\n%+v, %d bytes left, want\n%+v", typ.Name(), got, rest, v)
	}
	if b := encode(t, v); !bytes.Equal(b, want) {
		t.Errorf("%s: encoded as\n%x, want\n%x", typ.Name(), b, want)
	}
}

// Refused checks that decoding wire as v fails with the error want.
func Refused(t *testing.T, v Type, wire string, want error) {
	t.Helper()
	var d xdr.Decoder
	d.Reset(Wire(t, wire))
	if v.Decode(&d); d.Err() != want {
		t.Errorf("decoding %T: error %v, want %v", v, d.Err(), want)
	}
}

// Wire returns the bytes that Golden's notation stands for.
func Wire(t testing.TB, wire string) []byte {
	t.Helper()
	var b []byte
	for line := range strings.Lines(wire) {
		line, _, _ = strings.Cut(line, "//")
		for _, f := range strings.Fields(line) {
			if text, ok := strings.CutPrefix(f, `"`); ok {
				b = append(b, strings.TrimSuffix(text, `"`)...)
				continue
			}
			raw, err := hex.DecodeString(f)
			if err != nil {
				t.Fatalf("%q: %v", f, err)
			}
			b = append(b, raw...)
		}
	}
	return b
}
