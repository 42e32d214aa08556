// The parser: recursive descent over the grammar of RFC 4506, 6.3, and of
// RFC 5531, 12. Types must have names: a struct, union or enum written inside
// a declaration is refused, since Go needs something to call it.

package main

import (
	"fmt"
	"strings"
)

type parser struct {
	file string
	*lexed
	i int // next token
}

// parse returns the syntax tree of src.
func parse(file, src string) (t *tree, err error) {
	lx, err := lex(file, src)
	if err != nil {
		return nil, err
	}
	p := &parser{file: file, lexed: lx}
	defer catch(&err)
	t = &tree{}
	for p.peek().kind != tokEOF {
		t.defs = append(t.defs, p.definition())
	}
	for _, m := range []map[int]*comment{lx.own, lx.after} {
		for _, c := range m {
			if strings.HasPrefix(c.text, "@") {
				t.annotations = append(t.annotations, c)
			}
		}
	}
	return t, nil
}

// fail ends the parse or the resolve that is going on; catch returns its error.
func fail(file string, at pos, format string, args ...any) {
	panic(&sourceError{file, at, fmt.Sprintf(format, args...)})
}

func catch(err *error) {
	switch r := recover().(type) {
	case nil:
	case *sourceError:
		*err = r
	default:
		panic(r)
	}
}

func (p *parser) fail(at pos, format string, args ...any) { fail(p.file, at, format, args...) }

func (p *parser) peek() token { return p.tokens[p.i] }

func (p *parser) next() token {
	t := p.tokens[p.i]
	if t.kind != tokEOF {
		p.i++
	}
	return t
}

// accept takes the next token if it is text.
func (p *parser) accept(text string) bool {
	t := p.peek()
	if t.kind == tokEOF || t.text != text {
		return false
	}
	p.i++
	return true
}

func (p *parser) expect(text string) token {
	t := p.peek()
	if !p.accept(text) {
		p.fail(t.pos, "expected %q, found %s", text, t)
	}
	return t
}

var keywords = " bool case const default double quadruple enum float hyper int opaque program string struct switch typedef union unsigned version void "

// ident takes a name that is not a keyword.
func (p *parser) ident(what string) token {
	t := p.next()
	if t.kind != tokIdent {
		p.fail(t.pos, "expected %s, found %s", what, t)
	}
	if strings.Contains(keywords, " "+t.text+" ") {
		p.fail(t.pos, "expected %s, found the keyword %q", what, t.text)
	}
	return t
}

func (p *parser) value() value {
	t := p.next()
	if t.kind != tokIdent && t.kind != tokNumber {
		p.fail(t.pos, "expected a number or the name of a constant, found %s", t)
	}
	return value{t.text, t.kind == tokNumber, t.pos}
}

// doc returns the comment lines that end directly above line.
func (p *parser) doc(line int) []string {
	first := line
	for p.own[first-1] != nil {
		first--
	}
	var lines []string
	for ; first < line; first++ {
		lines = append(lines, p.own[first].text)
	}
	return lines
}

// behind returns the comment behind the code of a line.
func (p *parser) behind(line int) string {
	if c := p.after[line]; c != nil && !strings.HasPrefix(c.text, "@") {
		return c.text
	}
	return ""
}

// annotated claims the annotation text behind the code of a line, if it is there.
func (p *parser) annotated(line int, text string) bool {
	c := p.after[line]
	if c == nil || c.text != text {
		return false
	}
	c.used = true
	return true
}

func (p *parser) definition() def {
	kw := p.next()
	head := defHead{pos: kw.pos, doc: p.doc(kw.line)}
	name := func(what string) {
		t := p.ident(what)
		head.name, head.pos = t.text, t.pos
	}
	switch kw.text {
	case "const":
		name("the constant's name")
		p.expect("=")
		v := p.value()
		end := p.expect(";")
		return &constDef{head, v, p.behind(end.line)}
	case "enum":
		name("the enum's name")
		ms := p.members()
		end := p.expect(";")
		return &enumDef{head, ms, p.annotated(end.line, "@open")}
	case "struct":
		name("the struct's name")
		d := &structDef{head, p.fields()}
		p.expect(";")
		return d
	case "union":
		name("the union's name")
		d := p.union(head)
		p.expect(";")
		return d
	case "typedef":
		d := p.declaration("the type's name")
		if d.shape == void {
			p.fail(d.pos, "typedef of void")
		}
		end := p.expect(";")
		head.name, head.pos = d.name, d.pos
		return &typedefDef{head, d, p.annotated(end.line, "@own")}
	case "program":
		name("the program's name")
		return p.program(head)
	}
	p.fail(kw.pos, "expected const, enum, struct, union, typedef or program, found %s", kw)
	return nil
}

func (p *parser) members() []constDef {
	var ms []constDef
	p.expect("{")
	for {
		t := p.ident("the enumerator's name")
		p.expect("=")
		m := constDef{defHead: defHead{name: t.text, pos: t.pos}, val: p.value()}
		last := !p.accept(",")
		m.after = p.behind(p.tokens[p.i-1].line)
		ms = append(ms, m)
		if last {
			p.expect("}")
			return ms
		}
	}
}

func (p *parser) fields() []decl {
	var fs []decl
	p.expect("{")
	for !p.accept("}") {
		fs = append(fs, p.field())
	}
	return fs
}

// field is a declaration, its semicolon and what is said behind it.
func (p *parser) field() decl {
	d := p.declaration("the field's name")
	end := p.expect(";")
	if c := p.after[end.line]; c != nil && strings.HasPrefix(c.text, "@") {
		d.annotation, c.used = c, true
	}
	d.after = p.behind(end.line)
	return d
}

func (p *parser) union(head defHead) *unionDef {
	u := &unionDef{defHead: head}
	p.expect("switch")
	p.expect("(")
	u.disc = p.declaration("the discriminant's name")
	p.expect(")")
	p.expect("{")
	for !p.accept("}") {
		var a armDecl
		t := p.peek()
		for p.accept("case") {
			a.cases = append(a.cases, p.value())
			p.expect(":")
		}
		if p.accept("default") {
			p.expect(":")
			a.isDefault = true
		}
		if !a.isDefault && a.cases == nil {
			p.fail(t.pos, "expected case, default or \"}\", found %s", t)
		}
		a.decl = p.field()
		u.arms = append(u.arms, a)
	}
	return u
}

func (p *parser) declaration(what string) decl {
	d := decl{typ: p.typeRef()}
	if d.typ.name == "void" {
		d.shape, d.pos = void, d.typ.pos
		return d
	}
	if p.accept("*") {
		d.shape = optional
	}
	t := p.ident(what)
	d.name, d.pos = t.text, t.pos
	at := p.peek()
	switch {
	case p.accept("["):
		d.notOptional(p, at)
		v := p.value()
		d.shape, d.size = fixed, &v
		p.expect("]")
	case p.accept("<"):
		d.notOptional(p, at)
		d.shape = variable
		if !p.accept(">") {
			v := p.value()
			d.size = &v
			p.expect(">")
		}
	}
	return d
}

func (d *decl) notOptional(p *parser, at token) {
	if d.shape == optional {
		p.fail(at.pos, "%q cannot be both optional and an array: name the array with a typedef", d.name)
	}
}

func (p *parser) typeRef() typeRef {
	t := p.next()
	ref := typeRef{t.text, t.pos}
	if t.kind != tokIdent {
		p.fail(t.pos, "expected a type, found %s", t)
	}
	switch t.text {
	case "unsigned":
		ref.name = "uint32"
		if p.accept("hyper") {
			ref.name = "uint64"
		} else {
			p.accept("int") // "unsigned" alone is unsigned int
		}
	case "int":
		ref.name = "int32"
	case "hyper":
		ref.name = "int64"
	case "struct", "union", "enum":
		if n := p.peek(); n.text == "{" || n.text == "switch" {
			p.fail(t.pos, "%s without a name: define it on its own and use its name here", t.text)
		}
		ref.name = p.ident("a type's name").text
	case "float", "double", "quadruple":
		p.fail(t.pos, "%s is not supported: no protocol here has floating point", t.text)
	case "void", "bool", "string", "opaque":
	default:
		if strings.Contains(keywords, " "+t.text+" ") {
			p.fail(t.pos, "expected a type, found the keyword %q", t.text)
		}
	}
	return ref
}

func (p *parser) program(head defHead) *programDef {
	d := &programDef{defHead: head}
	p.expect("{")
	for !p.accept("}") {
		p.expect("version")
		t := p.ident("the version's name")
		v := versionDef{name: t.text, pos: t.pos}
		p.expect("{")
		for !p.accept("}") {
			v.procs = append(v.procs, p.procedure())
		}
		p.expect("=")
		v.number = p.value()
		p.expect(";")
		d.versions = append(d.versions, v)
	}
	p.expect("=")
	d.number = p.value()
	p.expect(";")
	return d
}

func (p *parser) procedure() procDef {
	res := p.typeRef()
	t := p.ident("the procedure's name")
	d := procDef{name: t.text, pos: t.pos, result: res.name, types: []typeRef{res}}
	p.expect("(")
	for {
		arg := p.typeRef()
		d.types = append(d.types, arg)
		d.args = append(d.args, arg.name)
		if !p.accept(",") {
			break
		}
	}
	p.expect(")")
	p.expect("=")
	d.number = p.value()
	p.expect(";")
	return d
}
