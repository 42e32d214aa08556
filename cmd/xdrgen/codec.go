// Encode and Decode bodies.
//
// A stretch of fields whose sizes do not vary (a "run") is written and read
// through one slice of known length, with its bounds checked once; structs in
// it are opened up, so that a file's attributes are 21 stores in a row. All
// else is one call per field.

package main

import (
	"fmt"
	"slices"
	"strings"
)

// place is a Go expression and the type of what it holds.
type place struct {
	x string
	t *typ
}

func (p *printer) codec(t *typ) {
	p.ln("// Encode appends v to e.")
	p.ln("func (v *%s) Encode(e *xdr.Encoder) {", t.goName)
	switch t.kind {
	case kEnum:
		p.ln("e.Int32(int32(*v))")
	case kStruct:
		p.sequence(fieldPlaces(t), p.put, p.encode)
	case kUnion:
		p.encode(place{"v." + t.disc.name, t.disc.t})
		p.switchArms(t, p.encode, "e")
	case kNamed:
		p.encode(place{"(*v)", t.elem})
	}
	p.ln("}\n")

	p.ln("// Decode reads v from d.")
	p.ln("func (v *%s) Decode(d *xdr.Decoder) {", t.goName)
	switch t.kind {
	case kEnum:
		p.ln("*v = %s(d.Int32())", t.goName)
		if !t.open {
			p.ln("if !v.valid() { d.Fail(xdr.ErrBadValue) }")
		}
	case kStruct:
		p.sequence(fieldPlaces(t), p.get, p.decode)
	case kUnion:
		p.decode(place{"v." + t.disc.name, t.disc.t})
		p.switchArms(t, p.decode, "d")
	case kNamed:
		p.decode(place{"(*v)", t.elem})
	}
	p.ln("}\n")
}

func fieldPlaces(t *typ) []place {
	var ps []place
	for _, f := range t.fields {
		ps = append(ps, place{"v." + f.name, f.t})
	}
	return ps
}

// open replaces structs of fixed size by their fields.
func open(ps []place) []place {
	var out []place
	for _, f := range ps {
		if f.t.kind != kStruct {
			out = append(out, f)
			continue
		}
		var inner []place
		for _, g := range f.t.fields {
			inner = append(inner, place{f.x + "." + g.name, g.t})
		}
		out = append(out, open(inner)...)
	}
	return out
}

// runnable tells whether t may be part of a run.
func runnable(t *typ) bool {
	switch t.kind {
	case kUint32, kInt32, kUint64, kInt64, kBool, kEnum, kFixed:
		return true
	case kStruct:
		return t.size >= 0 && !slices.ContainsFunc(t.fields, func(f field) bool { return !runnable(f.t) })
	}
	return false
}

// sequence prints fields in order: runs of two or more with run, others with one.
func (p *printer) sequence(ps []place, run func([]place, int), one func(place)) {
	for len(ps) > 0 {
		n, size := 0, 0
		for n < len(ps) && runnable(ps[n].t) {
			size += ps[n].t.size
			n++
		}
		if n > 1 {
			run(open(ps[:n]), size)
			ps = ps[n:]
			continue
		}
		one(ps[0])
		ps = ps[1:]
	}
}

// put prints the encoding of a run of size bytes. The braces keep b local.
func (p *printer) put(ps []place, size int) {
	p.ln("{")
	p.ln("b := e.Next(%d)", size)
	p.ln("_ = b[%d]", size-1)
	at := 0
	for _, f := range ps {
		switch f.t.kind {
		case kUint32:
			p.ln("binary.BigEndian.PutUint32(b[%d:], %s)", at, f.x)
		case kInt32, kEnum:
			p.ln("binary.BigEndian.PutUint32(b[%d:], uint32(%s))", at, f.x)
		case kUint64:
			p.ln("binary.BigEndian.PutUint64(b[%d:], %s)", at, f.x)
		case kInt64:
			p.ln("binary.BigEndian.PutUint64(b[%d:], uint64(%s))", at, f.x)
		case kBool:
			p.ln("binary.BigEndian.PutUint32(b[%d:], xdr.BoolWord(%s))", at, f.x)
		case kFixed:
			p.ln("copy(b[%d:], %s[:])", at, f.x)
			if pad := f.t.size - int(f.t.n); pad > 0 {
				p.ln("clear(b[%d:%d])", at+int(f.t.n), at+f.t.size)
			}
		}
		at += f.t.size
	}
	p.ln("}")
}

// get prints the decoding of a run of size bytes.
func (p *printer) get(ps []place, size int) {
	p.ln("{")
	p.ln("b := d.Next(%d)", size)
	p.ln("if b == nil { return }")
	p.ln("_ = b[%d]", size-1)
	at := 0
	for _, f := range ps {
		u32 := fmt.Sprintf("binary.BigEndian.Uint32(b[%d:])", at)
		u64 := fmt.Sprintf("binary.BigEndian.Uint64(b[%d:])", at)
		switch f.t.kind {
		case kUint32:
			p.ln("%s = %s", f.x, u32)
		case kInt32:
			p.ln("%s = int32(%s)", f.x, u32)
		case kUint64:
			p.ln("%s = %s", f.x, u64)
		case kInt64:
			p.ln("%s = int64(%s)", f.x, u64)
		case kBool:
			p.ln("%s = d.WordBool(%s)", f.x, u32)
		case kEnum:
			p.ln("%s = %s(%s)", f.x, f.t.goName, u32)
			if !f.t.open {
				p.ln("if !%s.valid() { d.Fail(xdr.ErrBadValue) }", f.x)
			}
		case kFixed:
			p.ln("copy(%s[:], b[%d:])", f.x, at)
		}
		at += f.t.size
	}
	p.ln("}")
}

// index returns the name of the loop variable for the element of x: loops
// nest as deep as x has indices.
func index(x string) string { return string(rune('i' + strings.Count(x, "["))) }

// scalarMethod names the methods of xdr's Encoder and Decoder for the scalars.
var scalarMethod = map[kind]string{kUint32: "Uint32", kInt32: "Int32", kUint64: "Uint64", kInt64: "Int64", kBool: "Bool"}

func (p *printer) encode(f place) {
	x, t := f.x, f.t
	if t.hasMethods() {
		p.ln("%s.Encode(e)", x)
		return
	}
	switch t.kind {
	case kUint32, kInt32, kUint64, kInt64, kBool:
		p.ln("e.%s(%s)", scalarMethod[t.kind], x)
	case kFixed:
		p.ln("e.Fixed(%s[:])", x)
	case kOpaque:
		p.ln("e.Opaque(%s)", x)
	case kPayload:
		p.ln("e.Payload(%s)", x)
	case kCount:
		p.ln("e.Uint32(uint32(%s))", x)
	case kOptional:
		p.ln("e.Bool(%s.Present)", x)
		p.ln("if %s.Present {", x)
		p.encode(place{x + ".V", t.elem})
		p.ln("}")
	default: // kArray, kSlice, kList
		i := index(x)
		if t.kind == kSlice {
			p.ln("e.Uint32(uint32(len(%s)))", x)
		}
		p.ln("for %s := range %s {", i, x)
		if t.kind == kList {
			p.ln("e.Bool(true)")
		}
		p.encode(place{x + "[" + i + "]", t.elem})
		p.ln("}")
		if t.kind == kList {
			p.ln("e.Bool(false)")
		}
	}
}

func (p *printer) decode(f place) {
	x, t := f.x, f.t
	if t.hasMethods() {
		p.ln("%s.Decode(d)", x)
		return
	}
	switch t.kind {
	case kUint32, kInt32, kUint64, kInt64, kBool:
		p.ln("%s = d.%s()", x, scalarMethod[t.kind])
	case kFixed:
		p.ln("copy(%s[:], d.Fixed(%s))", x, t.nText)
	case kOpaque:
		p.ln("%s = d.Opaque(%s)", x, t.limit())
	case kPayload:
		p.ln("%s = xdr.NewBytes(d.Opaque(%s))", x, t.limit())
	case kCount:
		p.ln("%s = d.Count(%s, %d)", x, t.limit(), t.elem.min)
	case kOptional:
		p.ln("%s.Present = d.Bool()", x)
		p.ln("if %s.Present {", x)
		p.decode(place{x + ".V", t.elem})
		p.ln("}")
	case kList:
		p.ln("%s = %s[:0]", x, x)
		p.ln("for d.Bool() {")
		p.ln("%s = append(%s, %s{})", x, x, t.elem.goName)
		p.decode(place{fmt.Sprintf("%s[len(%s)-1]", x, x), t.elem})
		p.ln("}")
	case kArray, kSlice:
		i := index(x)
		if t.kind == kSlice {
			p.ln("%s = xdr.Resize(%s, d.Count(%s, %d))", x, x, t.limit(), t.elem.min)
		}
		p.ln("for %s := range %s {", i, x)
		p.decode(place{x + "[" + i + "]", t.elem})
		p.ln("}")
	}
}

// switchArms prints what follows a union's discriminant. codec is the name of
// the Encoder or Decoder, on which a value without an arm is an error.
func (p *printer) switchArms(t *typ, one func(place), codec string) {
	body := func(a *arm) {
		if a != nil && a.f != nil {
			one(place{"v." + a.f.name, a.f.t})
		}
	}
	if t.disc.t.kind == kBool {
		var yes, no = t.deflt, t.deflt
		for i := range t.arms {
			if slices.Contains(t.arms[i].vals, 1) {
				yes = &t.arms[i]
			}
			if slices.Contains(t.arms[i].vals, 0) {
				no = &t.arms[i]
			}
		}
		p.ln("if v.%s {", t.disc.name)
		body(yes)
		if no != nil && no.f != nil {
			p.ln("} else {")
			body(no)
		}
		p.ln("}")
		return
	}
	p.ln("switch v.%s {", t.disc.name)
	for i := range t.arms {
		p.ln("case %s:", strings.Join(t.arms[i].labels, ", "))
		body(&t.arms[i])
	}
	if t.deflt == nil {
		p.ln("default:")
		p.ln("%s.Fail(xdr.ErrBadValue)", codec)
	} else if t.deflt.f != nil {
		p.ln("default:")
		body(t.deflt)
	}
	p.ln("}")
}
