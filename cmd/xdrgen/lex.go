// The lexer: XDR source to tokens, with comments set aside by line so that
// the parser can ask for the ones that belong to a definition.

package main

import (
	"fmt"
	"strings"
)

type pos struct{ line, col int }

// sourceError is an error at a place in the protocol file.
type sourceError struct {
	file string
	pos
	msg string
}

func (e *sourceError) Error() string {
	return fmt.Sprintf("%s:%d:%d: %s", e.file, e.line, e.col, e.msg)
}

type tokenKind int

const (
	tokEOF tokenKind = iota
	tokIdent
	tokNumber
	tokPunct // one of ( ) { } [ ] < > * = , ; :
)

type token struct {
	kind tokenKind
	text string
	pos
}

func (t token) String() string {
	if t.kind == tokEOF {
		return "end of file"
	}
	return fmt.Sprintf("%q", t.text)
}

// comment is a // comment, or a line of them.
type comment struct {
	text string
	pos
	used bool // an annotation that a field has claimed
}

type lexed struct {
	tokens []token
	own    map[int]*comment // comments that have their line to themselves
	after  map[int]*comment // comments behind code
}

type lexer struct {
	file string
	src  string
	off  int
	pos
	out lexed
}

func lex(file, src string) (*lexed, error) {
	l := &lexer{file: file, src: src, pos: pos{1, 1}}
	l.out.own, l.out.after = map[int]*comment{}, map[int]*comment{}
	for {
		t, err := l.next()
		if err != nil {
			return nil, err
		}
		l.out.tokens = append(l.out.tokens, t)
		if t.kind == tokEOF {
			return &l.out, nil
		}
	}
}

func (l *lexer) rest() string { return l.src[l.off:] }

func (l *lexer) advance(n int) {
	for _, c := range []byte(l.src[l.off : l.off+n]) {
		if c == '\n' {
			l.line, l.col = l.line+1, 1
		} else {
			l.col++
		}
	}
	l.off += n
}

// span returns the length of the prefix of the rest whose bytes satisfy in.
func (l *lexer) span(in func(byte) bool) int {
	n := 0
	for s := l.rest(); n < len(s) && in(s[n]); n++ {
	}
	return n
}

func isSpace(c byte) bool  { return c == ' ' || c == '\t' || c == '\r' || c == '\n' }
func isLetter(c byte) bool { return c == '_' || 'a' <= c|0x20 && c|0x20 <= 'z' }
func isDigit(c byte) bool  { return '0' <= c && c <= '9' }
func isWord(c byte) bool   { return isLetter(c) || isDigit(c) }

func (l *lexer) next() (token, error) {
	if err := l.skip(); err != nil {
		return token{}, err
	}
	at, s := l.pos, l.rest()
	switch {
	case s == "":
		return token{tokEOF, "", at}, nil
	case isLetter(s[0]):
		n := l.span(isWord)
		l.advance(n)
		return token{tokIdent, s[:n], at}, nil
	case isDigit(s[0]) || s[0] == '-' && len(s) > 1 && isDigit(s[1]):
		l.advance(1)
		n := 1 + l.span(isWord)
		l.advance(n - 1)
		return token{tokNumber, s[:n], at}, nil
	case strings.IndexByte("(){}[]<>*=,;:", s[0]) >= 0:
		l.advance(1)
		return token{tokPunct, s[:1], at}, nil
	}
	return token{}, &sourceError{l.file, at, fmt.Sprintf("unexpected character %q", []rune(s)[0])}
}

// skip passes over white space and comments.
func (l *lexer) skip() error {
	for {
		l.advance(l.span(isSpace))
		s := l.rest()
		switch {
		case strings.HasPrefix(s, "/*"):
			n := strings.Index(s[2:], "*/")
			if n < 0 {
				return &sourceError{l.file, l.pos, "comment is not closed"}
			}
			l.advance(n + 4)
		case strings.HasPrefix(s, "//"):
			n := l.span(func(c byte) bool { return c != '\n' })
			c := &comment{text: strings.TrimSpace(s[2:n]), pos: l.pos}
			if k := len(l.out.tokens); k > 0 && l.out.tokens[k-1].line == l.line {
				l.out.after[l.line] = c
			} else {
				l.out.own[l.line] = c
			}
			l.advance(n)
		default:
			return nil
		}
	}
}
