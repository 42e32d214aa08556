package gentest

import (
	"math"
	"testing"

	"sluice/xdr"
	"sluice/xdr/xdrtest"
)

func FuzzTypes(f *testing.F) { xdrtest.Fuzz(f, allTypes) }

func TestBounds(t *testing.T) { xdrtest.Bounds(t, allTypes) }

func TestAllocs(t *testing.T) { xdrtest.Allocs(t, allTypes, "Mixed", "Leaf") }

func TestGolden(t *testing.T) {
	point := Point{X: -2, Y: -3, Set: true, C: DARK, K: Key{1, 2, 3, 4, 5}}
	const pointWire = ` fffffffe fffffffffffffffd 00000001 ffffffff 0102030405 000000 `
	mixed := &Mixed{
		At: point, Size: 1 << 40, Name: []byte("n"), H: GREEN, Data: xdr.NewBytes([]byte("data!")),
		Path: []Point{point, point}, C: Counts{1, 2, 3},
		One:    Leaf{Id: 7, Grid: [2]Counts{{1, 2, 3}, {4, 5, 6}}, Names: [][]byte{[]byte("x"), {}}, Chains: []Chain{{{Name: []byte("y")}}, nil}},
		List:   []Node{{Name: []byte("a")}, {Name: []byte("bc")}},
		Matrix: [2]uint32{8, 9},
	}
	mixed.Maybe.Present, mixed.Maybe.V = true, point
	xdrtest.Golden(t, mixed, pointWire+`
		0000010000000000             // size
		00000001 "n" 000000          // name
		00000010                     // h
		00000005 "data!" 000000      // data
		00000002`+pointWire+pointWire+`
		00000001 00000002 00000003   // c
		0000000000000007             // one.id
		00000001 00000002 00000003 00000004 00000005 00000006
		00000002 00000001 "x" 000000 00000000
		00000002 00000001 00000001 "y" 000000 00000000 00000000
		00000001`+pointWire+`        // maybe
		00000001 00000001 "a" 000000 // list
		00000001 00000002 "bc" 0000
		00000000
		00000008 00000009            // matrix
	`)
	xdrtest.Golden(t, &ByInt{Which: -1}, `ffffffff`)
	xdrtest.Golden(t, &ByInt{Which: 2, P: point}, `00000002`+pointWire)
	xdrtest.Golden(t, &ByInt{Which: 16, P: point}, `00000010`+pointWire)
	xdrtest.Golden(t, &ByInt{Which: 3, L: Labels{[]byte("l")}}, `00000003 00000001 00000001 "l" 000000`)
	xdrtest.Golden(t, &ByColour{C: RED, A: 5}, `00000001 00000005`)
	xdrtest.Golden(t, &ByColour{C: GREEN}, `00000010`)
	xdrtest.Golden(t, &ByColour{C: DARK}, `ffffffff`)
	xdrtest.Golden(t, &ByShape{S: CIRCLE, Radius: 5}, `00000001 00000005`)
	xdrtest.Golden(t, &ByShape{S: 3}, `00000003`)
	xdrtest.Golden(t, &Opened{One: -1, N: 2, Two: SQUARE, W: Words{1, 2}}, `ffffffff 00000002 00000002 00000002 00000001 00000002`)
	xdrtest.Golden(t, &ByBool{No: 5}, `00000000 00000005`)
	xdrtest.Golden(t, &ByBool{B: true, Yes: Key{1}}, `00000001 0100000000 000000`)
	xdrtest.Golden(t, &Perhaps{Present: true, V: point}, `00000001`+pointWire)
	xdrtest.Golden(t, &Perhaps{}, `00000000`)
}

func TestHugeConstants(t *testing.T) {
	for _, v := range []uint64{HUGE, SAME} {
		if v != math.MaxUint64 {
			t.Errorf("2^64-1 became %d", v)
		}
	}
}

func TestRefused(t *testing.T) {
	for _, c := range []struct {
		name string
		v    xdr.Type
		wire string
		want error
	}{
		{"an enumerator without an arm", new(ByColour), `00000000`, xdr.ErrBadValue},
		{"a value between the enumerators", new(ByColour), `00000003`, xdr.ErrBadValue},
		{"label of 17 bytes", new(Labels), `00000001 00000011`, xdr.ErrTooLong},
		{"5 names", new(Leaf), `0000000000000007 00000001 00000002 00000003 00000004 00000005 00000006 00000005`, xdr.ErrTooLong},
		{"bad bool in a run", new(Point), `fffffffe fffffffffffffffd 00000002 00000003 0102030405 000000`, xdr.ErrBadValue},
		{"bad enum in a run", new(Point), `fffffffe fffffffffffffffd 00000001 00000002 0102030405 000000`, xdr.ErrBadValue},
	} {
		t.Run(c.name, func(t *testing.T) { xdrtest.Refused(t, c.v, c.wire, c.want) })
	}
	var e xdr.Encoder
	(&ByColour{C: YELLOW}).Encode(&e)
	if e.Err() != xdr.ErrBadValue {
		t.Errorf("encoding an enumerator without an arm: error %v", e.Err())
	}
}

// TestCount: of a @count array the type reads and writes the count alone, and
// a count that the rest of the message cannot hold is refused all the same.
func TestCount(t *testing.T) {
	var d xdr.Decoder
	d.Reset(xdrtest.Wire(t, `00000001 "t" 000000 00000002 00000001 00000005 00000010`))
	var v Compound
	v.Decode(&d)
	if v.Ops != 2 || d.Len() != 12 || d.Err() != nil {
		t.Fatalf("count %d, %d bytes left, error %v", v.Ops, d.Len(), d.Err())
	}
	for i, want := range []ByColour{{C: RED, A: 5}, {C: GREEN}} {
		var op ByColour
		if op.Decode(&d); op != want {
			t.Errorf("element %d is %+v, want %+v", i, op, want)
		}
	}
	var e xdr.Encoder
	v.Encode(&e)
	if got, want := string(e.Bytes()), string(xdrtest.Wire(t, `00000001 "t" 000000 00000002`)); got != want {
		t.Errorf("encoded as %x, want %x", got, want)
	}
	d.Reset(xdrtest.Wire(t, `00000000 00000002 00000010`))
	if v.Decode(&d); d.Err() != xdr.ErrShort {
		t.Errorf("count beyond the message: error %v", d.Err())
	}
	d.Reset(xdrtest.Wire(t, `00000000 00000011`))
	if v.Decode(&d); d.Err() != xdr.ErrTooLong {
		t.Errorf("count above its limit: error %v", d.Err())
	}
}

func TestProcName(t *testing.T) {
	for _, c := range []struct {
		vers, proc uint32
		want       string
	}{{ONE, 0, "NULL"}, {ONE, 1, "MIX"}, {ONE, 7, ""}, {TWO, 0, "NULL"}, {TWO, 7, "LIST"}, {3, 0, ""}} {
		if got := ProcName(PROG, c.vers, c.proc); got != c.want {
			t.Errorf("version %d, procedure %d: %q, want %q", c.vers, c.proc, got, c.want)
		}
	}
}
