// The parser: an entry line is a path, then clients and -defaults in any order. Mistakes are reported where they are and
// the rest of the line is read on, so that one run shows them all.

package exports

import (
	"fmt"
	"strings"
)

// Parse reads one table. name is what diagnostics call it. With any error there is no Set: the error is an Errors that
// holds every mistake of the table as a *SyntaxError. Warnings come in both cases.
func Parse(name string, src []byte) (*Set, []Warning, error) {
	b := newBuilder()
	b.parse(name, src)
	return b.finish()
}

// Inline reads the argument of --export: the same grammar, on one line. A directory alone is exported to this machine
// (127.0.0.1 and ::1), with rw,insecure,no_root_squash: root there owns the files anyway.
func Inline(spec string) (*Set, []Warning, error) {
	const name = "--export"
	b := newBuilder()
	switch {
	case strings.TrimSpace(spec) == "":
		b.d.fail(name, 0, 0, "no directory is given", "write --export 'DIR CLIENT(OPTIONS)', or --export DIR for this machine only")
	case strings.ContainsAny(spec, "\n"):
		b.d.fail(name, 0, 0, "the export has a newline in it", "give --export once for each directory")
	default:
		b.local = true
		b.parse(name, []byte(spec))
	}
	return b.finish()
}

// localDefaults are the options of a bare --export DIR.
func localDefaults() optState {
	st := defaultState()
	st.f = flags{}
	st.o.Secure = false
	return st
}

// parse adds the entries of one table to the builder.
func (b *builder) parse(name string, src []byte) {
	if len(src) > MaxFileSize {
		b.d.fail(name, 0, 0, fmt.Sprintf("the file is larger than %d bytes", MaxFileSize), "use networks or netgroups instead of single hosts")
		return
	}
	l := newLexer(name, src, &b.d)
	for words := l.next(); words != nil; words = l.next() {
		b.entry(l, words)
	}
}

// entry reads one line.
func (b *builder) entry(l *lexer, words []word) {
	path, pathOK := b.path(l, &words[0])
	line, column := l.place(words[0].start)
	add := func(c ClientSpec, at int) {
		if !pathOK {
			return
		}
		c.File = l.name
		c.Line, c.Column = l.place(at)
		b.add(path, l.name, line, column, c)
	}

	if b.local && len(words) == 1 {
		for _, local := range []string{"127.0.0.1", "::1"} {
			c, _, _, _ := parseClient(local)
			st := localDefaults()
			c.Options = st.options()
			add(c, words[0].start)
		}
		return
	}

	defaults := defaultState()
	var (
		clients  int
		lastDefs *word // -defaults that no client has followed yet
		bare     *word // the word before, if it was a client without (options)
	)
	for i := 1; i < len(words); i++ {
		w := &words[i]
		if strings.HasPrefix(w.text, "-") {
			lastDefs, bare = w, nil
			p := optParser{st: &defaults}
			p.parse(w.text[1:], func(n int) int { return w.offset(n + 1) }, l.fail, l.warn)
			continue
		}
		clients++
		lastDefs = nil
		before := bare
		bare = nil
		if w.text == "" {
			l.fail(w.start, `"" names no client`, "write * for everyone")
			continue
		}
		host, list, hasList := strings.Cut(w.text, "(")
		if hasList {
			end := strings.IndexByte(list, ')')
			switch {
			case end < 0:
				l.fail(w.offset(len(host)), fmt.Sprintf("the options of %q are not closed by )", host+"("), "write them without blanks: CLIENT(OPTION,OPTION)")
				// The words up to the closing one belong to this list; reading them as clients would only confuse.
				for j := i + 1; j < len(words); j++ {
					if strings.ContainsAny(words[j].text, "()") {
						if !strings.Contains(words[j].text, "(") {
							i = j
						}
						break
					}
				}
				continue
			case end != len(list)-1:
				l.fail(w.offset(len(host)+1+end+1), fmt.Sprintf("%q follows the options of client %q", list[end+1:], host), "write a blank between clients, and before a comment")
				continue
			}
			list = list[:end]
		} else if i := strings.IndexByte(w.text, ')'); i >= 0 {
			l.fail(w.offset(i), "a ) without its (", "write the options without blanks: CLIENT(OPTION,OPTION)")
			continue
		}

		c, notes, problem, remedy := parseClient(host)
		if problem != "" {
			l.fail(w.start, problem, remedy)
		}
		for _, n := range notes {
			l.warn(w.start, n.msg, n.remedy)
		}
		if host == "" {
			b.worldWarning(l, w, before)
		}
		st := defaults
		if hasList {
			p := optParser{st: &st}
			first := len(host) + 1
			p.parse(list, func(n int) int { return w.offset(first + n) }, l.fail, l.warn)
		} else {
			bare = w
		}
		if problem != "" {
			continue
		}
		c.Options = st.options()
		if anon := anonymousRoot(&c.Options); anon != "" {
			l.warn(w.start, fmt.Sprintf("%s=0 makes the anonymous callers of client %s root", anon, c.Spec), "choose an id without rights")
		}
		add(c, w.start)
	}

	switch {
	case clients == 0:
		// exports(5) is silent; exportfs exports the path to everyone.
		l.warn(words[0].start, fmt.Sprintf("no client is named, so %s is exported to everyone (%s)", quoteForMessage(path), accessWord(defaults.f)), "write * to say so, or name the clients")
		if i := strings.IndexByte(words[0].text, '('); i > 0 && strings.HasSuffix(words[0].text, ")") {
			l.warn(words[0].offset(i), "the options are part of the path", "write a blank and a client before the (")
		}
		c, _, _, _ := parseClient("*")
		c.Options = defaults.options()
		add(c, words[0].start)
	case lastDefs != nil:
		// exportfs reads a last "-rw" as an entry without a client: the whole world gets it.
		l.fail(lastDefs.start, fmt.Sprintf("the defaults %q stand after the last client and apply to none (Linux would export to everyone)", lastDefs.text),
			"write them before the clients")
	}
}

// worldWarning is about "(rw)" without a client. After a client without options it is the classic slip of exports(5):
// "host (rw)" gives host the defaults and everyone else the options.
func (b *builder) worldWarning(l *lexer, w, before *word) {
	if before != nil {
		l.warn(w.start, fmt.Sprintf("the blank between %q and %q makes two clients: %s gets the defaults, and everyone gets %s", before.text, w.text, before.text, w.text),
			fmt.Sprintf("write %s%s without the blank", before.text, w.text))
		return
	}
	l.warn(w.start, fmt.Sprintf("no client is named before %s, so it applies to everyone", w.text), fmt.Sprintf("write *%s to say so", w.text))
}

func accessWord(f flags) string {
	if f.ro {
		return "ro"
	}
	return "rw"
}

// anonymousRoot names the option that gives squashed or unauthenticated callers the id 0.
func anonymousRoot(o *Options) string {
	squashes := false
	for _, f := range o.Sec {
		squashes = squashes || f.Squash != SquashNone || f.Auth == AuthNone
	}
	switch {
	case !squashes:
	case o.AnonUID == 0:
		return "anonuid"
	case o.AnonGID == 0:
		return "anongid"
	}
	return ""
}

// path checks the first word of a line.
func (b *builder) path(l *lexer, w *word) (string, bool) {
	switch {
	case w.text == "":
		l.fail(w.start, `"" is not a path`, "write the absolute path of a directory")
	case w.text[0] != '/':
		l.fail(w.start, fmt.Sprintf("%q is not an absolute path", w.text), "start each line with a path that begins with /; a line is continued by a backslash at its very end")
	case len(w.text) > MaxPath:
		l.fail(w.start, fmt.Sprintf("the path is longer than %d bytes, the limit of the MOUNT protocol", MaxPath), "export a directory with a shorter path")
	default:
		return cleanPath(w.text), true
	}
	return w.text, false
}

// cleanPath drops doubled slashes, "." and the slash at the end. It keeps "..", which only the file system can resolve.
func cleanPath(p string) string {
	if p == "" || p[0] != '/' {
		return p
	}
	if !strings.Contains(p, "//") && !strings.Contains(p, "/.") && (len(p) == 1 || p[len(p)-1] != '/') {
		return p
	}
	var b strings.Builder
	for part := range strings.SplitSeq(p, "/") {
		if part != "" && part != "." {
			b.WriteByte('/')
			b.WriteString(part)
		}
	}
	if b.Len() == 0 {
		return "/"
	}
	return b.String()
}

// quoteForMessage shortens what a message repeats.
func quoteForMessage(s string) string {
	if len(s) > 80 {
		s = s[:77] + "..."
	}
	return s
}
