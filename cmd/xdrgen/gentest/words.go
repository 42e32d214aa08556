package gentest

import "sluice/xdr"

// Words is words of the protocol file, which says @own: nothing of it is
// generated.
type Words []uint32

// Encode appends v to e.
func (v *Words) Encode(e *xdr.Encoder) {
	e.Uint32(uint32(len(*v)))
	for _, w := range *v {
		e.Uint32(w)
	}
}

// Decode reads v from d.
func (v *Words) Decode(d *xdr.Decoder) {
	*v = xdr.Resize(*v, d.Count(xdr.Unbounded, 4))
	for i := range *v {
		(*v)[i] = d.Uint32()
	}
}
