// The lexer cuts a table into entry lines of words. A word knows, for each of its bytes, where in the file it came from,
// so that an option deep inside a client's list is reported with its own line and column.
//
// The rules are those of nfs-utils' support/nfs/xio.c, observed on its exportfs: blanks part words except inside double
// quotes, which may stand anywhere in a word; \ooo is a byte, inside quotes too; a backslash before a newline is a blank
// (and so ends a word); # starts a comment only where a word could start, and a comment ends at the newline even after a
// backslash. Two differences: a quote must close on its line, where Linux reads on to the end of the file, and \ooo is
// decoded once, where Linux decodes what it has decoded.

package exports

import (
	"bytes"
	"fmt"
	"sort"
)

// word is one blank-separated piece of a line, decoded.
type word struct {
	text  string
	at    []int // file offset of each byte of text
	start int   // file offset of the word
}

// offset gives the file offset of byte i of the word, or of its start for an empty word.
func (w *word) offset(i int) int {
	if i < len(w.at) {
		return w.at[i]
	}
	if len(w.at) > 0 {
		return w.at[len(w.at)-1] + 1
	}
	return w.start
}

type lexer struct {
	name  string
	src   []byte
	pos   int
	lines []int // offsets at which lines start
	d     *diags
}

func newLexer(name string, src []byte, d *diags) *lexer {
	l := &lexer{name: name, src: src, d: d, lines: []int{0}}
	for i, c := range src {
		if c == '\n' {
			l.lines = append(l.lines, i+1)
		}
	}
	// Windows editors put a byte order mark before the first line.
	if bytes.HasPrefix(src, []byte("\xef\xbb\xbf")) {
		l.pos = 3
	}
	return l
}

// place turns a file offset into line and column.
func (l *lexer) place(offset int) (line, column int) {
	i := sort.Search(len(l.lines), func(i int) bool { return l.lines[i] > offset }) - 1
	return i + 1, offset - l.lines[i] + 1
}

func (l *lexer) fail(offset int, msg, remedy string) {
	line, column := l.place(offset)
	l.d.fail(l.name, line, column, msg, remedy)
}

func (l *lexer) warn(offset int, msg, remedy string) {
	line, column := l.place(offset)
	l.d.warn(l.name, line, column, msg, remedy)
}

func blank(c byte) bool { return c == ' ' || c == '\t' || c == '\r' || c == '\v' || c == '\f' }

// continuation gives the length of the line continuation at pos, or 0: a backslash at the end of a line. A carriage return
// before the newline and a missing last newline are forgiven.
func (l *lexer) continuation() int {
	rest := l.src[l.pos:]
	switch {
	case len(rest) == 0 || rest[0] != '\\':
		return 0
	case len(rest) == 1:
		return 1
	case rest[1] == '\n':
		return 2
	case rest[1] == '\r' && len(rest) > 2 && rest[2] == '\n':
		return 3
	}
	return 0
}

// skipBlanks moves over blanks, continuations and, at its end, a comment.
func (l *lexer) skipBlanks() {
	for l.pos < len(l.src) {
		if n := l.continuation(); n > 0 {
			l.pos += n
		} else if blank(l.src[l.pos]) {
			l.pos++
		} else if l.src[l.pos] == '#' {
			l.skipLine()
			return
		} else {
			return
		}
	}
}

// skipLine moves to the next newline or the end.
func (l *lexer) skipLine() {
	if i := bytes.IndexByte(l.src[l.pos:], '\n'); i >= 0 {
		l.pos += i
	} else {
		l.pos = len(l.src)
	}
}

// next gives the words of the next entry line, or nil at the end of the file. A line that is broken at this level is
// reported and skipped.
func (l *lexer) next() []word {
	for l.pos < len(l.src) {
		start := l.pos
		words, ok := l.line()
		if l.pos < len(l.src) {
			l.pos++ // the newline
		}
		if ok && l.pos-start > MaxLine {
			l.fail(start, fmt.Sprintf("the line is longer than %d bytes", MaxLine),
				"write the same path again on another line: entries of one path are joined")
			continue
		}
		if ok && len(words) > 0 {
			return words
		}
	}
	return nil
}

func (l *lexer) line() ([]word, bool) {
	var words []word
	for {
		l.skipBlanks()
		if l.pos >= len(l.src) || l.src[l.pos] == '\n' {
			return words, true
		}
		w, ok := l.word()
		if !ok {
			l.skipLine()
			return nil, false
		}
		words = append(words, w)
	}
}

func (l *lexer) word() (word, bool) {
	w := word{start: l.pos}
	var text []byte
	quote := -1 // offset of the open quote
	add := func(c byte) {
		text = append(text, c)
		w.at = append(w.at, l.pos)
	}
	for l.pos < len(l.src) {
		c := l.src[l.pos]
		if n := l.continuation(); n > 0 {
			if quote < 0 {
				break
			}
			add(' ')
			for l.pos += n; l.pos < len(l.src) && (l.src[l.pos] == ' ' || l.src[l.pos] == '\t'); {
				l.pos++
			}
			continue
		}
		switch {
		case c == '\n' || blank(c) && quote < 0:
			if quote >= 0 {
				l.fail(quote, "the double quote is not closed on this line", `add the closing "`)
				return w, false
			}
			w.text = string(text)
			return w, true
		case c == 0:
			l.fail(l.pos, "a NUL byte cannot be part of a table", "this may not be a text file")
			return w, false
		case c == '"':
			if quote >= 0 {
				quote = -1
			} else {
				quote = l.pos
			}
			l.pos++
		case c == '\\':
			if v, ok := octal(l.src[l.pos+1:]); ok {
				if v == 0 {
					l.fail(l.pos, `\000 is not a character of a path or a name`, "remove it")
					return w, false
				}
				add(v)
				l.pos += 4
			} else {
				add(c)
				l.pos++
			}
		default:
			add(c)
			l.pos++
		}
	}
	if quote >= 0 {
		l.fail(quote, "the double quote is not closed on this line", `add the closing "`)
		return w, false
	}
	w.text = string(text)
	return w, true
}

// octal reads three octal digits that make a byte.
func octal(b []byte) (byte, bool) {
	if len(b) < 3 {
		return 0, false
	}
	v := 0
	for _, c := range b[:3] {
		if c < '0' || c > '7' {
			return 0, false
		}
		v = v*8 + int(c-'0')
	}
	return byte(v), v < 256
}
