// The pseudo file system of version 4 (RFC 8881 section 7.3): read-only directories that lead from the root to the exports.
//
// It is made of the exports' paths when they are put into force. Where a path is exported and the client may use it, the
// export stands in the directory's place; where it may not, but may use an export further down, it sees a pseudo directory;
// where there is nothing for it, nothing. So each client sees the way to its own exports and no other names.
//
// With an fsid=0 export, or one of "/", there is no pseudo file system: that export is the root, and what is not below it
// cannot be reached by names, as with the kernel's server.
//
// A pseudo directory's handle names it by a hash of its path, so that it is good after restarts and reloads:
//
//	0      version (2)
//	1-7    zero
//	8-15   id
//	16-23  SipHash-2-4 of all other bytes under the server's key

package vfs

import (
	"encoding/binary"
	"fmt"
	"path"
	"slices"

	"golang.org/x/sys/unix"

	"sluice/exports"
)

const pseudoVersion = 2

// pseudo is one directory of the pseudo file system.
type pseudo struct {
	id     uint64 // also its file id, and its cookie in its parent's listing
	path   string
	name   []byte
	parent *pseudo
	kids   []*pseudo // by id
	exp    *export   // what stands in its place; nil for none
	below  []*export // the exports at and below it
}

// pseudoID is below 2^62 and above the cookies that the protocol reserves.
func pseudoID(p string) uint64 { return hashID("pseudo", []byte(p))>>2 | 1<<61 }

// pseudoTree makes the directories for a table's exports.
func (t *table) pseudoTree() error {
	t.pseudo = map[uint64]*pseudo{}
	var make func(p string) (*pseudo, error)
	make = func(p string) (*pseudo, error) {
		id := pseudoID(p)
		if d := t.pseudo[id]; d != nil {
			if d.path != p {
				return nil, fmt.Errorf("directories %s and %s cannot be told apart in file handles: export them by other paths", d.path, p)
			}
			return d, nil
		}
		d := &pseudo{id: id, path: p, name: []byte(path.Base(p))}
		t.pseudo[id] = d
		if p == "/" {
			return d, nil
		}
		var err error
		if d.parent, err = make(path.Dir(p)); err != nil {
			return nil, err
		}
		d.parent.kids = append(d.parent.kids, d)
		return d, nil
	}
	root, err := make("/")
	if err != nil {
		return err
	}
	t.top = root
	for _, x := range t.all {
		d, err := make(x.cfg.Path)
		if err != nil {
			return err
		}
		d.exp = x
		if x.cfg.FSID.Kind == exports.FSIDRoot || d == root && t.root == nil {
			t.root = x
		}
		for ; d != nil; d = d.parent {
			d.below = append(d.below, x)
		}
	}
	for _, d := range t.pseudo {
		slices.SortFunc(d.kids, func(a, b *pseudo) int {
			if a.id < b.id {
				return -1
			}
			return 1
		})
	}
	return nil
}

func (k *HandleKey) encodePseudo(h *Handle, d *pseudo) {
	*h = Handle{Len: handleHeader}
	h.b[0] = pseudoVersion
	binary.BigEndian.PutUint64(h.b[8:], d.id)
	binary.BigEndian.PutUint64(h.b[16:], k.mac(h.b[:handleHeader]))
}

// isPseudo tells whether a handle claims to be a pseudo directory's.
func isPseudo(fh []byte) bool { return len(fh) == handleHeader && fh[0] == pseudoVersion }

func (k *HandleKey) decodePseudo(fh []byte) (id uint64, err error) {
	d := pseudo{id: binary.BigEndian.Uint64(fh[8:])}
	var h Handle
	if k.encodePseudo(&h, &d); string(h.Bytes()) != string(fh) {
		return 0, ErrBadHandle
	}
	return d.id, nil
}

// RootHandle is where version 4 begins (PUTROOTFH, PUTPUBFH): the pseudo root, or the directory of the fsid=0 export.
func (n *Namespace) RootHandle() (h Handle) {
	t := n.table.Load()
	if t.root != nil {
		if m := t.root.tree.root(); m != nil {
			n.cfg.HandleKey.encode(&h, t.root.id, m.id, &m.root)
			return h
		}
	}
	n.cfg.HandleKey.encodePseudo(&h, t.top)
	return h
}

// Pseudo tells whether the View is on a pseudo directory: only Getattr, Access, Lookup, Lookupp, Readdir and what is known of
// the file system work there, and whatever would change something is EROFS.
func (v *View) Pseudo() bool { return v.pseudo != nil }

// openPseudo is open of a pseudo directory's handle.
func (v *View) openPseudo(fh []byte) (Node, error) {
	id, err := v.ns.cfg.HandleKey.decodePseudo(fh)
	if err != nil {
		return Node{}, err
	}
	d := v.ns.table.Load().pseudo[id]
	if d == nil {
		return Node{}, ErrStale
	}
	if d.parent != nil {
		switch seen, err := v.sees(d); {
		case err != nil:
			return Node{}, err
		case !seen:
			return Node{}, ErrStale
		}
	}
	v.pseudo, v.opts, v.ro = d, &pseudoOptions, true
	v.uid, v.gid, v.groups = exports.AnonID, exports.AnonID, nil
	return Node{p: d}, nil
}

var pseudoOptions exports.Options

// sees tells whether any export at or below d is the client's to use.
func (v *View) sees(d *pseudo) (bool, error) {
	for _, x := range d.below {
		switch _, err := v.ns.match(x, v.c); err {
		case nil:
			return true, nil
		case ErrStale:
		default:
			return false, err
		}
	}
	return false, nil
}

// place finds what the client sees at a place of the pseudo file system: an export's directory, or a pseudo directory.
// ENOENT: nothing. With an export that does not allow the caller's flavour the Entry has a handle, for SECINFO, and the
// error is ErrWrongSec.
func (v *View) place(d *pseudo) (e Entry, err error) {
	if x := d.exp; x != nil {
		root := x.tree.root()
		opts, err := v.ns.match(x, v.c)
		switch {
		case err == nil && root != nil:
			v.ns.cfg.HandleKey.encode(&e.Handle, x.id, root.id, &root.root)
			if _, ok := opts.For(exports.AuthFlavor(v.c.Cred.Flavor)); !ok {
				return e, ErrWrongSec
			}
			v.th.key = root.root
			n, err := v.at(root, x)
			if err != nil {
				return Entry{}, err
			}
			err = v.attr(n, &e.Attr)
			v.th.drop(n.f)
			if err == nil {
				e.Attr.MountedOnFileID = d.id
			}
			return e, err
		case err != nil && err != ErrStale:
			return e, err
		}
	}
	if d.parent != nil {
		if len(d.kids) == 0 {
			return e, unix.ENOENT
		}
		switch seen, err := v.sees(d); {
		case err != nil:
			return e, err
		case !seen:
			return e, unix.ENOENT
		}
	}
	v.ns.cfg.HandleKey.encodePseudo(&e.Handle, d)
	v.pseudoAttr(d, &e.Attr)
	return e, nil
}

// pseudoLinks is a pseudo directory's link count. A true one, of what the caller may see, would need a look at each export, and
// names looked up, in every GETATTR; one of all would tell of exports that are not the caller's. 1 is what file systems give
// that do not count directories (btrfs): to programs that infer from the count when they have seen all of them (find), it says
// nothing, where 2 would say that there are none.
const pseudoLinks = 1

// pseudoAttr makes up a pseudo directory's attributes. They change when exports do.
func (v *View) pseudoAttr(d *pseudo, a *Attr) {
	at := v.ns.table.Load().at
	*a = Attr{
		Type: TypeDir, Mode: 0o555, Nlink: pseudoLinks, Size: 4096, Used: 4096, BlockSize: 4096,
		FileID: d.id, MountedOnFileID: d.id, Atime: at, Mtime: at, Ctime: at, Btime: at,
		Change: uint64(at.Sec)*1e9 + uint64(at.Nsec),
	}
}

func (v *View) pseudoLookup(d *pseudo, name []byte) (e Entry, dirAttr Attr, err error) {
	v.pseudoAttr(d, &dirAttr)
	if err = checkName(name); err != nil {
		return e, dirAttr, err
	}
	switch {
	case isDot(name):
		e, err = v.place(d)
	case isDotDot(name):
		if d.parent != nil {
			d = d.parent
		}
		e, err = v.place(d)
	default:
		err = unix.ENOENT
		for _, k := range d.kids {
			if string(k.name) == string(name) {
				e, err = v.place(k)
				break
			}
		}
	}
	return e, dirAttr, err
}

// pseudoList lists a pseudo directory. An entry's cookie is its id, so that a listing survives a reload in its middle.
// Exports that cannot be served at the moment are left out.
func (v *View) pseudoList(d *pseudo, q *ReaddirReq, emit func(*DirEntry) bool) (r ReaddirRes, err error) {
	v.pseudoAttr(d, &r.Dir)
	for _, k := range d.kids {
		if k.id <= q.Cookie {
			continue
		}
		e, err := v.place(k)
		switch err {
		case nil:
		case ErrWrongSec:
			e.Handle.Len = 0 // to be seen, and looked up with SECINFO
		case ErrWouldBlock:
			return r, err
		default:
			continue
		}
		x := &v.th.entry
		*x = DirEntry{FileID: k.id, Name: k.name, Cookie: k.id, Err: err}
		if q.Plus {
			x.Handle, x.Attr = e.Handle, e.Attr
		}
		held := v.th.npin
		more := emit(x)
		if v.th.npin > held { // EntryNode
			v.th.drop(v.th.pinned[held])
		}
		if !more {
			return r, nil
		}
	}
	r.EOF = true
	return r, nil
}

// Lookupp finds the directory above a directory (LOOKUPP). Above an export's own directory that is the pseudo directory, or
// the export that its path lies in; ENOENT at the root.
func (v *View) Lookupp(n Node) (e Entry, err error) {
	if n.Type() != TypeDir {
		return e, unix.ENOTDIR
	}
	if n.p != nil {
		if n.p.parent == nil {
			return e, unix.ENOENT
		}
		return v.place(n.p.parent)
	}
	if !n.isRoot() {
		e, _, err = v.Lookup(n, dotDot)
		return e, err
	}
	v.become()
	if e := v.th.access(n.f.PathFD(), unix.X_OK); e != 0 {
		return Entry{}, fail(e)
	}
	t := v.ns.table.Load()
	at := n.exp.cfg.Path
	if at == "/" || t.root != nil && (t.root.id == n.exp.id || !below(at, t.root.cfg.Path)) {
		return e, unix.ENOENT
	}
	at = path.Dir(at)
	if x, rest := t.lookup(at); x != nil {
		switch e, err := v.above(x, rest); err {
		case ErrStale, unix.ENOENT: // not for this client, or not there
		default:
			return e, err
		}
	}
	d := t.pseudo[pseudoID(at)]
	if d == nil {
		return e, ErrStale // the export has just gone
	}
	return v.place(d)
}

var dotDot = []byte("..")

// above finds a directory of another export, above the View's own.
func (v *View) above(x *export, rest string) (e Entry, err error) {
	opts, err := v.ns.match(x, v.c)
	if err != nil {
		return e, err
	}
	if _, ok := opts.For(exports.AuthFlavor(v.c.Cred.Flavor)); !ok {
		return e, ErrWrongSec
	}
	if !v.c.MayBlock {
		return e, ErrWouldBlock // the walk looks at the export's path on the server
	}
	w := View{ns: v.ns, th: v.th, c: v.c, exp: x, opts: opts}
	n, err := w.walk(rest)
	if err != nil {
		return e, err
	}
	if err = w.attr(n, &e.Attr); err == nil {
		w.handle(&e.Handle, n)
	}
	return e, err
}

// FlavorsOf appends to dst the flavours with which the file of a handle may be used (SECINFO), the preferred one first;
// nil is the View's own file. Pseudo directories take any flavour.
func (v *View) FlavorsOf(h *Handle, dst []uint32) []uint32 {
	opts := v.opts
	if h != nil && h.Len >= handleHeader && h.b[0] == handleVersion {
		if x := v.ns.table.Load().byID[binary.BigEndian.Uint32(h.b[4:])]; x != nil && x != v.exp {
			var err error
			if opts, err = v.ns.match(x, v.c); err != nil {
				return dst
			}
		}
	} else if h != nil {
		opts = &pseudoOptions
	}
	if opts == &pseudoOptions {
		return append(dst, FlavorSys, FlavorNone)
	}
	for _, f := range opts.Sec {
		dst = append(dst, uint32(f.Auth))
	}
	return dst
}

// otherPseudo resolves a pseudo directory's handle as the second of a call: all of them are one file system, to which no
// export belongs.
func (v *View) otherPseudo(fh []byte) (Node, error) {
	id, err := v.ns.cfg.HandleKey.decodePseudo(fh)
	if err != nil {
		return Node{}, err
	}
	if v.pseudo == nil {
		return Node{}, unix.EXDEV
	}
	d := v.ns.table.Load().pseudo[id]
	if d == nil {
		return Node{}, ErrStale
	}
	return Node{p: d}, nil
}
