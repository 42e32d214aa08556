// The builder joins entries into a Set: one Export per path, one entry per client, one fsid per path and one path per
// fsid, all within the limits.

package exports

import (
	"fmt"
)

type builder struct {
	d       diags
	exports []*Export
	byPath  map[string]*Export
	clients map[clientKey]int // index into the export's Clients
	total   int
	full    map[string]bool // limits already reported
	local   bool            // a directory alone means this machine (Inline)
}

type clientKey struct {
	path, spec string
	class      Class
}

func newBuilder() *builder {
	return &builder{
		byPath:  make(map[string]*Export),
		clients: make(map[clientKey]int),
		full:    make(map[string]bool),
	}
}

// limit reports a limit once for each key.
func (b *builder) limit(key, file string, line, column int, msg, remedy string) {
	if !b.full[key] {
		b.full[key] = true
		b.d.fail(file, line, column, msg, remedy)
	}
}

// add puts client c on the export of path. A client that the path already has is left out with a warning: the first one
// stays in force, as in exportfs.
func (b *builder) add(path, file string, line, column int, c ClientSpec) {
	e := b.byPath[path]
	if e == nil {
		if len(b.exports) >= MaxExports {
			b.limit("exports", file, line, column, fmt.Sprintf("there are more than %d exports", MaxExports), "export a common parent directory")
			return
		}
		e = &Export{Path: path, File: file, Line: line}
		b.exports = append(b.exports, e)
		b.byPath[path] = e
	}
	key := clientKey{path, c.Spec, c.Class}
	if i, dup := b.clients[key]; dup {
		first := &e.Clients[i]
		where := place(first.File, first.Line, c.File)
		if c.Options.equal(&first.Options) {
			b.d.warn(c.File, c.Line, c.Column, fmt.Sprintf("client %s of %s is listed twice", c.Spec, quoteForMessage(path)), "it is already on "+where)
		} else {
			b.d.warn(c.File, c.Line, c.Column, fmt.Sprintf("client %s of %s is listed twice, and these options are ignored", c.Spec, quoteForMessage(path)),
				"those on "+where+" are in force")
		}
		return
	}
	if len(e.Clients) >= MaxClients {
		b.limit("clients of "+path, c.File, c.Line, c.Column, fmt.Sprintf("%s has more than %d clients", quoteForMessage(path), MaxClients), "use networks or netgroups")
		return
	}
	if b.total >= MaxAllClients {
		b.limit("all clients", c.File, c.Line, c.Column, fmt.Sprintf("there are more than %d clients in all", MaxAllClients), "use networks or netgroups")
		return
	}
	b.total++
	b.clients[key] = len(e.Clients)
	e.Clients = append(e.Clients, c)
}

// place says where something is, for a reader who looks at file.
func place(where string, line int, file string) string {
	if where == file {
		return fmt.Sprintf("line %d", line)
	}
	return fmt.Sprintf("line %d of %s", line, where)
}

// merge adds every entry of a finished Set.
func (b *builder) merge(s *Set) {
	for _, e := range s.exports {
		for _, c := range e.Clients {
			b.add(e.Path, e.File, e.Line, 0, c)
		}
	}
}

// finish checks what concerns several entries and closes the Set.
func (b *builder) finish() (*Set, []Warning, error) {
	b.settleFSIDs()
	warns, err := b.d.result()
	if err != nil {
		return nil, warns, err
	}
	for _, e := range b.exports {
		e.buildIndex()
	}
	return &Set{exports: b.exports, byPath: b.byPath}, warns, nil
}

// settleFSIDs gives every path its one fsid, and every number its one path. The fsid is part of each file handle, so two
// clients of one path cannot have different ones, and a number on two paths would let a handle of one open the other.
// (Linux allows both, with a file handle space per client.) A UUID may be shared: it names the file system, and two
// directories of one file system have the same.
func (b *builder) settleFSIDs() {
	byNumber := make(map[uint32]*ClientSpec)
	pathOf := make(map[uint32]string)
	for _, e := range b.exports {
		var from *ClientSpec
		for i := range e.Clients {
			c := &e.Clients[i]
			switch f := c.Options.FSID; {
			case f.Kind == FSIDNone:
			case from == nil:
				e.FSID, from = f, c
			case f != e.FSID:
				b.d.warn(c.File, c.Line, c.Column, fmt.Sprintf("fsid=%s of client %s is ignored: a path has one fsid", f, c.Spec),
					fmt.Sprintf("fsid=%s on %s is in force", e.FSID, place(from.File, from.Line, c.File)))
			}
		}
		for i := range e.Clients {
			e.Clients[i].Options.FSID = e.FSID
		}
		if e.FSID.Kind != FSIDRoot && e.FSID.Kind != FSIDNum {
			continue
		}
		if first := byNumber[e.FSID.Num]; first != nil {
			b.d.fail(from.File, from.Line, from.Column, fmt.Sprintf("fsid=%s of %s is already that of %s", e.FSID, quoteForMessage(e.Path), quoteForMessage(pathOf[e.FSID.Num])),
				fmt.Sprintf("choose another number than on %s", place(first.File, first.Line, from.File)))
			continue
		}
		byNumber[e.FSID.Num], pathOf[e.FSID.Num] = from, e.Path
	}
}

// Merge joins Sets into one, in the order given: clients of the same path are joined, and where a client appears twice the
// first is in force. The Sets themselves do not change.
func Merge(sets ...*Set) (*Set, []Warning, error) {
	b := newBuilder()
	for _, s := range sets {
		if s != nil {
			b.merge(s)
		}
	}
	s, warns, err := b.finish()
	if s != nil {
		for _, from := range sets {
			if from == nil {
				continue
			}
			for _, e := range from.exports {
				for _, a := range e.aliases {
					s.alias(a, s.byPath[e.Path])
				}
			}
		}
	}
	return s, warns, err
}

// alias makes Get find e under another spelling of its path, unless that path is itself exported.
func (s *Set) alias(path string, e *Export) {
	if s.byPath[path] == nil {
		s.byPath[path] = e
		e.aliases = append(e.aliases, path)
	}
}

// ResolvePaths gives a Set whose paths are what realpath makes of them, as exportfs does with symbolic links; Get finds an
// export under the path as written too. A path that realpath cannot resolve stays as it is: the directory may not be there
// yet. Exports that turn out to be one directory are joined.
func (s *Set) ResolvePaths(realpath func(string) (string, error)) (*Set, []Warning, error) {
	b := newBuilder()
	type alias struct{ written, real string }
	var aliases []alias
	for _, e := range s.exports {
		path := e.Path
		if p, err := realpath(path); err == nil && p != "" && p[0] == '/' {
			path = cleanPath(p)
		}
		for _, c := range e.Clients {
			b.add(path, e.File, e.Line, 0, c)
		}
		for _, w := range append([]string{e.Path}, e.aliases...) {
			aliases = append(aliases, alias{w, path})
		}
	}
	r, warns, err := b.finish()
	if r != nil {
		for _, a := range aliases {
			r.alias(a.written, r.byPath[a.real])
		}
	}
	return r, warns, err
}

// equal compares two entries' options.
func (o *Options) equal(p *Options) bool {
	if len(o.Sec) != len(p.Sec) {
		return false
	}
	for i := range o.Sec {
		if o.Sec[i] != p.Sec[i] {
			return false
		}
	}
	return o.ReadOnly == p.ReadOnly && o.Squash == p.Squash && o.Async == p.Async && o.Secure == p.Secure &&
		o.AnonUID == p.AnonUID && o.AnonGID == p.AnonGID && o.FSID == p.FSID && o.SubtreeCheck == p.SubtreeCheck &&
		o.Nohide == p.Nohide && o.Crossmnt == p.Crossmnt && o.MountPoint == p.MountPoint && o.NoReaddirplus == p.NoReaddirplus
}
