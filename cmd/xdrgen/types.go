// The resolved protocol: types with their sizes, constants with their values,
// all under the names they have in Go.

package main

import (
	"fmt"
	"strings"
)

// spec is a protocol file after resolve.
type spec struct {
	pkg, source string
	decls       []any // *constant, *typ (enums, structs, unions, typedefs), *alias, *program; as in the file
}

type constant struct {
	name  string
	val   int64
	huge  bool // val is the bits of a number above 2^63-1
	doc   []string
	after string
}

type alias struct {
	name string
	of   string // the Go type
	xdr  string // its name in the protocol file
	doc  []string
}

type kind int

const (
	kUint32 kind = iota
	kInt32
	kUint64
	kInt64
	kBool
	kEnum
	kFixed    // opaque[n]: [n]byte
	kOpaque   // opaque<n>, string<n>: []byte
	kPayload  // opaque<n> as a xdr.Payload
	kCount    // T<n> of which only the count is ours: int
	kStruct   // struct
	kUnion    // struct with the discriminant and every arm
	kArray    // T[n]: [n]T
	kSlice    // T<n>: []T
	kList     // T *x, T a struct that ends in a link to itself: []T
	kOptional // T *x: struct{Present bool; V T}
	kNamed    // typedef of one of the four above: a type of its own
)

// typ is a type. Enums, structs, unions and kNamed have a definition in the
// file and are shared by all who use them.
type typ struct {
	kind   kind
	goName string   // defined types and aliases
	xdr    string   // name in the protocol file, of defined types
	doc    []string // of defined types
	n      int64    // kFixed, kArray: length; kOpaque, kPayload, kSlice, kCount: limit, or unbounded
	nText  string   // n as the file spells it
	elem   *typ     // kArray, kSlice, kList, kOptional, kCount; kNamed: what it is a name for

	members []constant // kEnum
	open    bool       // kEnum: values besides the members are not errors
	own     bool       // kNamed: its Go type is written by hand
	fields  []field    // kStruct
	link    bool       // kStruct: ended in a link to itself, which is not among the fields
	disc    field      // kUnion
	arms    []arm      // kUnion
	deflt   *arm       // kUnion: nil without default

	size, min int // bytes on the wire: size is -1 where it varies
	state     int // of the size computation
}

const unbounded = int64(-1)

type field struct {
	name  string
	t     *typ
	after string
}

type arm struct {
	labels []string // as Go expressions
	vals   []int64
	f      *field // nil for void
}

type program struct {
	name     string
	number   int64
	versions []version
}

type version struct {
	name   string
	number int64
	procs  []proc
}

type proc struct {
	name   string
	number int64
	doc    string // signature
}

// goName makes an exported Go name of an XDR name: each part between
// underscores begins with a capital letter, and the underscores go.
func goName(s string) string {
	var b strings.Builder
	for part := range strings.SplitSeq(s, "_") {
		if part != "" {
			b.WriteString(strings.ToUpper(part[:1]) + part[1:])
		}
	}
	return b.String()
}

// goType returns how Go spells t.
func (t *typ) goType() string {
	if t.goName != "" {
		return t.goName
	}
	switch t.kind {
	case kUint32:
		return "uint32"
	case kInt32:
		return "int32"
	case kUint64:
		return "uint64"
	case kInt64:
		return "int64"
	case kBool:
		return "bool"
	case kFixed:
		return fmt.Sprintf("[%s]byte", t.nText)
	case kOpaque:
		return "[]byte"
	case kPayload:
		return "xdr.Payload"
	case kCount:
		return "int"
	case kArray:
		return fmt.Sprintf("[%s]%s", t.nText, t.elem.goType())
	case kSlice, kList:
		return "[]" + t.elem.goType()
	case kOptional:
		return "struct {\nPresent bool\nV " + t.elem.goType() + "\n}"
	}
	panic(fmt.Sprintf("type of kind %d without a name", t.kind))
}

// limit returns the Go expression for the limit of a variable-length type.
func (t *typ) limit() string {
	if t.n == unbounded {
		return "xdr.Unbounded"
	}
	return t.nText
}

// hasMethods tells whether t has Encode and Decode of its own.
func (t *typ) hasMethods() bool {
	return t.kind == kEnum || t.kind == kStruct || t.kind == kUnion || t.kind == kNamed
}

// counted tells whether t is a struct that ends in a @count.
func (t *typ) counted() bool {
	return t.kind == kStruct && len(t.fields) > 0 && t.fields[len(t.fields)-1].t.kind == kCount
}
