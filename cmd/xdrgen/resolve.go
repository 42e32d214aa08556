// The resolver: looks up names, evaluates constants, turns links into slices,
// checks what the grammar cannot, and computes sizes on the wire.

package main

import (
	"slices"
	"strconv"
	"strings"
)

type resolver struct {
	file   string
	types  map[string]*typ     // by XDR name, built-ins included
	defs   map[string]def      // type definitions by XDR name, to be resolved when first used
	consts map[string]constant // constants and enumerators; Go and XDR names are the same
	goSeen map[string]string   // Go name -> XDR name
	busy   map[string]bool     // typedefs being resolved, to catch circles
	arrays []arrayAt           // variable-length arrays, to be checked once sizes are known
	out    spec
}

type arrayAt struct {
	t *typ
	pos
}

func resolve(file string, t *tree) (s *spec, err error) {
	defer catch(&err)
	r := &resolver{
		file:   file,
		types:  map[string]*typ{},
		defs:   map[string]def{},
		consts: map[string]constant{},
		goSeen: map[string]string{},
		busy:   map[string]bool{},
	}
	for name, k := range map[string]kind{"uint32": kUint32, "int32": kInt32, "uint64": kUint64, "int64": kInt64, "bool": kBool} {
		r.types[name] = sized(&typ{kind: k})
	}
	r.checkAnnotations(t)
	r.constants(t)
	for _, d := range t.defs {
		switch d.(type) {
		case *constDef, *programDef:
		default:
			h := d.head()
			if r.defs[h.name] != nil || r.types[h.name] != nil {
				r.fail(h.pos, "%s is defined twice", h.name)
			}
			r.claim(h, goName(h.name))
			r.defs[h.name] = d
		}
	}
	for _, d := range t.defs {
		r.define(d)
	}
	for _, d := range t.defs {
		if t := r.types[d.head().name]; t != nil {
			r.measure(t, d.head().pos)
		}
	}
	for _, a := range r.arrays {
		if a.t.elem.min == 0 {
			r.fail(a.pos, "array of elements that take no bytes: its count could not be bounded")
		}
	}
	return &r.out, nil
}

func (r *resolver) fail(at pos, format string, args ...any) { fail(r.file, at, format, args...) }

func (r *resolver) checkAnnotations(t *tree) {
	slices.SortFunc(t.annotations, func(a, b *comment) int { return a.line - b.line })
	places := map[string]string{"@payload": "a field", "@count": "a field", "@open": "an enum", "@own": "a typedef"}
	for _, c := range t.annotations {
		place, known := places[c.text]
		switch {
		case !known:
			r.fail(c.pos, "unknown annotation %q: there are @payload, @count, @open and @own", c.text)
		case !c.used:
			r.fail(c.pos, "annotation %s belongs behind %s, on its line", c.text, place)
		}
	}
}

// exported makes sure that name, which comes of the definition at h, can be
// seen from other packages (and so is no keyword of Go's).
func (r *resolver) exported(h *defHead, name string) {
	if name == "" || name[0] < 'A' || name[0] > 'Z' {
		r.fail(h.pos, "%s would be called %q in Go, which does not begin with a capital letter", h.name, name)
	}
}

// claim makes sure that no two definitions get the same name in Go.
func (r *resolver) claim(h *defHead, name string) {
	r.exported(h, name)
	if other, ok := r.goSeen[name]; ok {
		if other == h.name {
			r.fail(h.pos, "%s is defined twice", h.name)
		}
		r.fail(h.pos, "%s and %s would both be called %s in Go", other, h.name, name)
	}
	r.goSeen[name] = h.name
}

// constants evaluates all constants and enumerators, in the order of the file,
// so that each may use those above it.
func (r *resolver) constants(t *tree) {
	define := func(c *constDef) {
		r.claim(&c.defHead, c.name)
		val, huge := r.number(c.val)
		r.consts[c.name] = constant{c.name, val, huge, c.doc, c.after}
	}
	for _, d := range t.defs {
		switch d := d.(type) {
		case *constDef:
			define(d)
		case *enumDef:
			for i := range d.members {
				r.eval(d.members[i].val) // not huge
				define(&d.members[i])
			}
		}
	}
}

// number evaluates a value that is just a number; see constant.huge.
func (r *resolver) number(v value) (val int64, huge bool) {
	if !v.number {
		c, ok := r.consts[v.text]
		if !ok {
			r.fail(v.pos, "%s is not a constant defined above", v.text)
		}
		return c.val, c.huge
	}
	if n, err := strconv.ParseInt(v.text, 0, 64); err == nil {
		return n, false
	}
	n, err := strconv.ParseUint(v.text, 0, 64)
	if err != nil {
		r.fail(v.pos, "%s is not a number (decimal, 0x hexadecimal or 0 octal, up to 64 bits)", v.text)
	}
	return int64(n), true
}

// eval evaluates a value that means something: a length, an enumerator, a case.
func (r *resolver) eval(v value) int64 {
	n, huge := r.number(v)
	if huge {
		r.fail(v.pos, "%s does not fit into 63 bits", v.text)
	}
	return n
}

// word evaluates a value that has to fit into an unsigned int.
func (r *resolver) word(v value, what string) int64 {
	n := r.eval(v)
	if n < 0 || n > 0xffffffff {
		r.fail(v.pos, "%s %s does not fit into 32 bits without a sign", what, v.text)
	}
	return n
}

// length fills in an array's length or limit. 2^31-1 is what an int holds on every machine.
func (r *resolver) length(t *typ, v *value) {
	if v == nil {
		t.n = unbounded
		return
	}
	n := r.eval(*v)
	if n < 0 || n > 1<<31-1 {
		r.fail(v.pos, "length %s is not between 0 and 2^31-1", v.text)
	}
	if n == 0 && t.kind != kOpaque && t.kind != kSlice {
		r.fail(v.pos, "array of fixed length 0")
	}
	t.n, t.nText = n, v.text
}

// define appends d to the output, resolving the types it uses.
func (r *resolver) define(d def) {
	switch d := d.(type) {
	case *constDef:
		c := r.consts[d.name]
		r.out.decls = append(r.out.decls, &c)
	case *programDef:
		r.out.decls = append(r.out.decls, r.program(d))
	case *typedefDef:
		t := r.lookup(typeRef{d.name, d.pos})
		if t.kind == kNamed && t.xdr == d.name {
			r.out.decls = append(r.out.decls, t)
			return
		}
		of := *t
		if !t.hasMethods() {
			of.goName = ""
		}
		r.out.decls = append(r.out.decls, &alias{goName(d.name), of.goType(), d.name, d.doc})
	default:
		r.out.decls = append(r.out.decls, r.lookup(typeRef{d.head().name, d.head().pos}))
	}
}

// lookup returns the type that ref names, resolving its definition at first
// use. A struct or union is known by name before its fields are resolved.
func (r *resolver) lookup(ref typeRef) *typ {
	if t := r.types[ref.name]; t != nil {
		return t
	}
	d := r.defs[ref.name]
	switch d := d.(type) {
	case *enumDef:
		t := &typ{kind: kEnum, open: d.open}
		r.name(t, d)
		for _, m := range d.members {
			c := r.consts[m.name]
			if c.val < -1<<31 || c.val > 1<<31-1 {
				r.fail(m.val.pos, "enumerator %s does not fit into an int", m.name)
			}
			if i := slices.IndexFunc(t.members, func(o constant) bool { return o.val == c.val }); i >= 0 {
				r.fail(m.pos, "%s and %s have the same value", t.members[i].name, m.name)
			}
			t.members = append(t.members, c)
		}
		return sized(t)
	case *structDef:
		t := &typ{kind: kStruct}
		r.name(t, d)
		r.structFields(t, d)
		return t
	case *unionDef:
		t := &typ{kind: kUnion}
		r.name(t, d)
		r.union(t, d)
		return t
	case *typedefDef:
		if r.busy[d.name] {
			r.fail(d.pos, "typedef %s refers to itself", d.name)
		}
		r.busy[d.name] = true
		t := *r.declared(&d.of)
		switch t.kind {
		case kArray, kSlice, kList, kOptional:
			named := &typ{kind: kNamed, elem: &t, own: d.own}
			r.name(named, d)
			return named
		}
		if d.own {
			r.fail(d.pos, "@own does not fit %s: it is for typedefs of arrays, lists and optional data", d.name)
		}
		switch t.kind {
		case kEnum, kStruct, kUnion, kNamed: // a second name for the same type
			r.types[d.name] = r.declared(&d.of)
		default:
			t.goName = goName(d.name)
			r.types[d.name] = &t
		}
		return r.types[d.name]
	}
	r.fail(ref.pos, "unknown type %s", ref.name)
	return nil
}

func (r *resolver) name(t *typ, d def) {
	h := d.head()
	t.goName, t.xdr, t.doc = goName(h.name), h.name, h.doc
	r.types[h.name] = t
}

// declared returns the type of a declaration.
func (r *resolver) declared(d *decl) *typ {
	if d.typ.name == "opaque" || d.typ.name == "string" {
		return r.bytes(d)
	}
	if d.typ.name == "void" {
		r.fail(d.typ.pos, "void where a type is needed")
	}
	elem := r.lookup(d.typ)
	if elem.counted() {
		r.fail(d.typ.pos, "%s ends in a @count, so nothing can come after it: it cannot be part of another type", elem.xdr)
	}
	t := &typ{elem: elem}
	switch d.shape {
	case plain:
		t = elem
	case fixed:
		t.kind = kArray
		r.length(t, d.size)
	case variable:
		t.kind = kSlice
		r.length(t, d.size)
		r.arrays = append(r.arrays, arrayAt{t, d.pos})
	case optional:
		t.kind = kOptional
		if s, ok := r.defs[d.typ.name].(*structDef); ok && linked(s) {
			t.kind = kList
		}
	}
	if d.annotation != nil {
		if d.annotation.text != "@count" || d.shape != variable {
			r.fail(d.annotation.pos, "%s does not fit %s: @payload is for opaque<>, @count for other <> arrays", d.annotation.text, d.name)
		}
		t.kind = kCount
	}
	return t
}

// bytes returns the type of an opaque or string declaration.
func (r *resolver) bytes(d *decl) *typ {
	t := &typ{}
	switch {
	case d.shape == fixed && d.typ.name == "opaque":
		t.kind = kFixed
	case d.shape == variable:
		t.kind = kOpaque
	default:
		r.fail(d.pos, "%s %s needs a limit in <> (or, for opaque, a length in [])", d.typ.name, d.name)
	}
	r.length(t, d.size)
	if d.annotation != nil {
		if d.annotation.text != "@payload" || t.kind != kOpaque {
			r.fail(d.annotation.pos, "%s does not fit %s: @payload is for opaque<>, @count for other <> arrays", d.annotation.text, d.name)
		}
		t.kind = kPayload
	}
	return sized(t)
}

// linked tells whether a struct ends in an optional of itself, that is,
// whether it is the node of a linked list.
func linked(d *structDef) bool {
	if len(d.fields) < 2 {
		return false
	}
	last := d.fields[len(d.fields)-1]
	return last.shape == optional && last.typ.name == d.name
}

func (r *resolver) structFields(t *typ, d *structDef) {
	fields := d.fields
	if linked(d) {
		t.link = true
		fields = fields[:len(fields)-1]
	}
	seen := map[string]bool{}
	for i := range fields {
		f := &fields[i]
		if f.shape == void {
			r.fail(f.pos, "void cannot be a field")
		}
		ft := r.declared(f)
		if ft.kind == kCount && i != len(d.fields)-1 {
			r.fail(f.annotation.pos, "@count must be on the last field: its elements follow it")
		}
		t.fields = append(t.fields, r.field(f, ft, seen))
	}
}

func (r *resolver) field(d *decl, t *typ, seen map[string]bool) field {
	n := goName(d.name)
	r.exported(&defHead{name: d.name, pos: d.pos}, n)
	if seen[n] {
		r.fail(d.pos, "second field called %s in Go", n)
	}
	if n == "Encode" || n == "Decode" {
		r.fail(d.pos, "a field cannot be called %s: it is a method of the type", n)
	}
	seen[n] = true
	return field{n, t, d.after}
}

func (r *resolver) union(t *typ, d *unionDef) {
	if d.disc.shape != plain {
		r.fail(d.disc.pos, "a discriminant must be an int, an unsigned int, an enum or a bool")
	}
	seen := map[string]bool{}
	t.disc = r.field(&d.disc, r.declared(&d.disc), seen)
	switch t.disc.t.kind {
	case kInt32, kUint32, kBool, kEnum:
	default:
		r.fail(d.disc.pos, "a discriminant must be an int, an unsigned int, an enum or a bool")
	}
	for i := range d.arms {
		a := &d.arms[i]
		var out arm
		for _, c := range a.cases {
			label, val := r.label(t.disc.t, c)
			for _, o := range append(t.arms, out) {
				if slices.Contains(o.vals, val) {
					r.fail(c.pos, "second case %s", c.text)
				}
			}
			out.labels, out.vals = append(out.labels, label), append(out.vals, val)
		}
		if a.shape != void {
			f := r.field(&a.decl, r.declared(&a.decl), seen)
			out.f = &f
		}
		if a.isDefault {
			if t.deflt != nil {
				r.fail(a.pos, "second default")
			}
			t.deflt = &out
			continue
		}
		t.arms = append(t.arms, out)
	}
}

// label resolves a case of a union over disc.
func (r *resolver) label(disc *typ, c value) (string, int64) {
	switch disc.kind {
	case kBool:
		switch c.text {
		case "TRUE":
			return "true", 1
		case "FALSE":
			return "false", 0
		}
		r.fail(c.pos, "case %s of a bool: TRUE and FALSE are its values", c.text)
	case kEnum:
		i := slices.IndexFunc(disc.members, func(m constant) bool { return m.name == c.text })
		if i < 0 {
			r.fail(c.pos, "%s is not one of %s's enumerators", c.text, disc.xdr)
		}
		return c.text, disc.members[i].val
	}
	n := r.eval(c)
	if disc.kind == kUint32 && (n < 0 || n > 0xffffffff) || disc.kind == kInt32 && n != int64(int32(n)) {
		r.fail(c.pos, "case %s does not fit into the discriminant", c.text)
	}
	return c.text, n
}

func (r *resolver) program(d *programDef) *program {
	r.claim(&d.defHead, d.name)
	p := &program{name: d.name, number: r.word(d.number, "program number")}
	for _, v := range d.versions {
		r.claim(&defHead{name: v.name, pos: v.pos}, v.name)
		out := version{name: v.name, number: r.word(v.number, "version number")}
		for _, pr := range v.procs {
			for _, ref := range pr.types {
				if ref.name != "void" {
					r.lookup(ref)
				}
			}
			n := r.word(pr.number, "procedure number")
			// Two versions may share a name, as long as it means the same number.
			if old, ok := r.consts[pr.name]; !ok {
				r.claim(&defHead{name: pr.name, pos: pr.pos}, pr.name)
				r.consts[pr.name] = constant{name: pr.name, val: n}
			} else if old.val != n {
				r.fail(pr.pos, "%s is %d already", pr.name, old.val)
			}
			out.procs = append(out.procs, proc{pr.name, n, "(" + strings.Join(pr.args, ", ") + ") " + pr.result})
		}
		p.versions = append(p.versions, out)
	}
	return p
}

// sized fills in the sizes of a type that contains no other.
func sized(t *typ) *typ {
	switch t.kind {
	case kUint64, kInt64:
		t.size, t.min = 8, 8
	case kFixed:
		n := int(t.n+3) &^ 3
		t.size, t.min = n, n
	case kOpaque, kPayload:
		t.size, t.min = -1, 4
	default:
		t.size, t.min = 4, 4
	}
	t.state = done
	return t
}

const (
	measuring = 1
	done      = 2
)

// measure fills in the size (-1: it varies) and the smallest size of t. It
// refuses types that contain themselves: how deep a message may nest them has
// no bound. The nodes of linked lists do not, since their link is gone.
func (r *resolver) measure(t *typ, at pos) {
	switch t.state {
	case done:
		return
	case measuring:
		r.fail(at, "%s contains itself, to any depth: only a linked list may (last field: %s *next)", t.xdr, t.xdr)
	}
	t.state = measuring
	add := func(e *typ, times int) {
		r.measure(e, at)
		t.min += times * e.min
		if e.size < 0 || t.size < 0 {
			t.size = -1
		} else {
			t.size += times * e.size
		}
	}
	switch t.kind {
	case kStruct:
		for _, f := range t.fields {
			add(f.t, 1)
		}
	case kUnion:
		t.size, t.min = -1, 4+r.smallestArm(t, at)
	case kArray:
		add(t.elem, int(t.n))
	case kNamed:
		add(t.elem, 1)
	case kSlice, kList, kOptional, kCount:
		r.measure(t.elem, at)
		t.size, t.min = -1, 4
	}
	t.state = done
}

func (r *resolver) smallestArm(t *typ, at pos) int {
	arms := t.arms
	if t.deflt != nil {
		arms = append(slices.Clone(arms), *t.deflt)
	}
	least := -1
	for _, a := range arms {
		n := 0
		if a.f != nil {
			r.measure(a.f.t, at)
			n = a.f.t.min
		}
		if least < 0 || n < least {
			least = n
		}
	}
	return max(least, 0)
}
