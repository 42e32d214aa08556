package nfs4

import (
	"testing"

	"sluice/xdr"
	"sluice/xdr/xdrtest"
)

func TestBitmap(t *testing.T) {
	for _, c := range []struct {
		name string
		v    Bitmap4
		wire string
		in   []uint32
		out  []uint32
	}{
		{"empty", Bitmap4{}, `00000000`, nil, []uint32{0, 31, 32, 95, 96, 1000, 1<<32 - 1}},
		{"one word", Bits(FATTR4_TYPE, FATTR4_MAXWRITE), `00000001 80000002`, []uint32{1, 31}, []uint32{0, 2, 33, 63}},
		{"second word only", Bits(FATTR4_MODE), `00000002 00000000 00000002`, []uint32{33}, []uint32{1, 65}},
		{"third word", Bits(FATTR4_OPEN_ARGUMENTS, FATTR4_SUPPATTR_EXCLCREAT), `00000003 00000000 00000000 00400800`, []uint32{75, 86}, []uint32{11, 22}},
		{"zero words", Bitmap4{N: 2}, `00000002 00000000 00000000`, nil, []uint32{0, 63}},
		{"bit 1000", Bitmap4{N: 3, Words: [3]uint32{1}, Rest: append(make([]byte, 28*4), 0, 0, 1, 0)},
			`00000020 00000001` + zeroWords(30) + `00000100`, []uint32{0, 1000}, []uint32{96, 999, 1001, 1024, 1000 + 1<<31}},
		{"empty words beyond", Bitmap4{N: 3, Rest: make([]byte, 8)}, `00000005` + zeroWords(5), nil, []uint32{128, 160}},
	} {
		t.Run(c.name, func(t *testing.T) {
			xdrtest.Golden(t, &c.v, c.wire)
			for _, n := range c.in {
				if !c.v.Has(n) {
					t.Errorf("%d is not in the set", n)
				}
			}
			for _, n := range c.out {
				if c.v.Has(n) {
					t.Errorf("%d is in the set", n)
				}
			}
			if want := c.name == "bit 1000"; c.v.Beyond() != want {
				t.Errorf("Beyond is %v", !want)
			}
		})
	}
	if v := NewBitmap4([3]uint32{5, 0, 0}); v.N != 1 || v.Words[0] != 5 {
		t.Errorf("NewBitmap4 made %+v", v)
	}
	if v := NewBitmap4([3]uint32{0, 0, 1}); v.N != 3 {
		t.Errorf("NewBitmap4 made %+v", v)
	}
}

func zeroWords(n int) (wire string) {
	for range n {
		wire += ` 00000000 `
	}
	return wire
}

func TestBitmapRefused(t *testing.T) {
	xdrtest.Refused(t, new(Bitmap4), `00000002 00000001`, xdr.ErrShort)
	xdrtest.Refused(t, new(Bitmap4), `00000005`+zeroWords(4), xdr.ErrShort)
	xdrtest.Refused(t, new(Bitmap4), `7fffffff 00000001`, xdr.ErrShort)
	xdrtest.Refused(t, new(Bitmap4), `ffffffff 00000001`, xdr.ErrTooLong)
}

// TestBitmapReused: what an earlier message set does not show through.
func TestBitmapReused(t *testing.T) {
	var v Bitmap4
	var d xdr.Decoder
	for _, wire := range []string{`00000005 00000001 00000001 00000001 00000001 00000001`, `00000001 00000002`} {
		d.Reset(xdrtest.Wire(t, wire))
		v.Decode(&d)
	}
	if v.N != 1 || v.Words != [3]uint32{2} || v.Rest != nil {
		t.Errorf("decoded %+v", v)
	}
}
