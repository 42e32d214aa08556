// The syntax tree: what the protocol file says, names not yet looked up.

package main

// tree is one protocol file.
type tree struct {
	defs        []def
	annotations []*comment // every //@ comment, claimed by a field or not
}

// def is one of constDef, enumDef, structDef, unionDef, typedefDef, programDef.
type def interface{ head() *defHead }

type defHead struct {
	name string
	pos
	doc []string // comment lines directly above
}

func (h *defHead) head() *defHead { return h }

// value is a number or the name of a constant.
type value struct {
	text   string
	number bool
	pos
}

type constDef struct {
	defHead
	val   value
	after string // comment behind it
}

type enumDef struct {
	defHead
	members []constDef
	open    bool // @open
}

type structDef struct {
	defHead
	fields []decl
}

type unionDef struct {
	defHead
	disc decl
	arms []armDecl
}

// armDecl is the cases that share one declaration.
type armDecl struct {
	cases     []value
	isDefault bool
	decl
}

type typedefDef struct {
	defHead
	of  decl
	own bool // @own
}

type programDef struct {
	defHead
	number   value
	versions []versionDef
}

type versionDef struct {
	name string
	pos
	number value
	procs  []procDef
}

type procDef struct {
	name string
	pos
	number value
	result string // type names, for the doc comment
	args   []string
	types  []typeRef // every type mentioned, to be looked up
}

// shape is how a declaration uses its type.
type shape int

const (
	plain    shape = iota // T x
	fixed                 // T x[n]
	variable              // T x<n>
	optional              // T *x
	void                  // void
)

// typeRef names a type: a built-in ("int", "opaque", ...) or a definition.
type typeRef struct {
	name string
	pos
}

// decl is one declaration of a field, an arm or a typedef.
type decl struct {
	name string
	pos
	typ        typeRef
	shape      shape
	size       *value   // of fixed and variable; nil for <>
	annotation *comment // //@..., nil for none
	after      string   // any other comment behind it
}
