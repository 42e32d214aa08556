// LOOKUP and what finds files by name.
//
// The hot path is one name_to_handle_at under the caller's credentials, in which the kernel walks the name and checks
// permission, and one statx of the descriptor that the cache has for that handle. A name that changes in between does no
// harm: the handle names the file that was found, and the attributes are that file's. For names that a thread has looked up
// lately one statx does both (names.go).

package vfs

import (
	"bytes"
	"errors"

	"golang.org/x/sys/unix"

	"sluice/exports"
	"sluice/pkg/filecache"
)

// checkName refuses what cannot be one name in a directory, with the errors of the kernel's server.
func checkName(name []byte) error {
	if len(name) > MaxName {
		return unix.ENAMETOOLONG
	}
	if len(name) == 0 || bytes.IndexByte(name, '/') >= 0 || bytes.IndexByte(name, 0) >= 0 {
		return unix.EACCES
	}
	return nil
}

func isDot(name []byte) bool    { return len(name) == 1 && name[0] == '.' }
func isDotDot(name []byte) bool { return len(name) == 2 && name[0] == '.' && name[1] == '.' }

// Lookup finds a name in a directory. The directory's attributes come with errors too. "." is the directory itself and
// ".." its parent; the export's own directory is its own parent.
func (v *View) Lookup(dir Node, name []byte) (e Entry, dirAttr Attr, err error) {
	if dir.p != nil {
		return v.pseudoLookup(dir.p, name)
	}
	if dir.Type() != TypeDir {
		v.attr(dir, &dirAttr) //nolint:errcheck // optional
		return e, dirAttr, unix.ENOTDIR
	}
	if err = checkName(name); err == nil {
		var n Node
		switch {
		case isDot(name), isDotDot(name) && dir.isRoot():
			v.become()
			// The kernel checks that the caller may search the directory.
			n, err = dir, fail(v.th.access(dir.f.PathFD(), unix.X_OK))
		default:
			v.become()
			if v.noted(dir, name, &e) {
				v.attr(dir, &dirAttr) //nolint:errcheck // optional
				return e, dirAttr, nil
			}
			n, err = v.find(dir, name)
		}
		if err == nil {
			if err = v.attr(n, &e.Attr); err == nil {
				v.handle(&e.Handle, n)
				v.note(dir, name, n, &e)
			}
		}
		switch err {
		case ErrWouldBlock:
			return e, dirAttr, err
		case ErrWrongSec:
			v.handle(&e.Handle, n) // for SECINFO
		}
	}
	v.attr(dir, &dirAttr) //nolint:errcheck // optional
	return e, dirAttr, err
}

// isRoot tells whether the node is its export's own directory.
func (n Node) isRoot() bool {
	return n.m == n.exp.tree.root() && n.f.Key == n.m.root
}

// find looks a name up under the thread's credentials, crosses mount points as the export says, and opens what it finds.
func (v *View) find(dir Node, name []byte) (Node, error) {
	th, m := v.th, dir.m
	if isDotDot(name) && dir.wayOut() {
		if n, err := v.beneath(dir, name); err != errNoCopy {
			return n, err
		}
	}
	if !v.c.MayBlock && m.gate.closed() && !th.cached(dir.f.PathFD(), name) {
		return Node{}, ErrWouldBlock
	}
	start := nanotime()
	e := th.nameToHandle(dir.f.PathFD(), name, dir.handleFlags())
	gone := false
	if e == unix.EOPNOTSUPP && m.connect { // of what is mounted there, whose handles may not be able to name a parent
		e = th.nameToHandle(dir.f.PathFD(), name, 0)
		gone = e == 0 && th.mntID == m.mntID
	}
	m.gate.done(th, start)
	switch {
	case gone:
		return Node{}, ErrJukebox // just unmounted: the next try has a handle that names the parent
	case e == unix.EOPNOTSUPP && dir.exp.tree.live:
		return v.hidden(dir, name) // something without handles is mounted there
	case e != 0:
		return Node{}, v.stale(dir, e)
	case th.mntID != m.mntID:
		return v.cross(dir, name)
	case !v.foundKey(m):
		return Node{}, ErrNotSupported
	}
	f, ok := v.ns.cfg.Cache.Get(&th.key)
	if !ok {
		var err error
		if f, err = v.findMiss(dir, name); err != nil {
			return Node{}, err
		}
	}
	th.hold(f)
	return Node{f: f, m: m, exp: dir.exp}, nil
}

// wayOut tells whether ".." may lead out of the export, should somebody on the server have moved the directory: where the
// export is served through the mount itself. In a copy of its directory's mount alone the kernel refuses to go further up
// than the copy reaches.
func (n Node) wayOut() bool { return n.m.treeFD < 0 && n.m == n.exp.tree.root() }

// handleFlags is what name_to_handle_at has to be told for names in a directory.
func (n Node) handleFlags() int {
	if n.m.connect {
		return atHandleConnect
	}
	return 0
}

// foundKey makes th.key of the handle of a name that was just found on m. The root has one key, however it was found.
func (v *View) foundKey(m *fsMount) bool {
	if !keyOf(&v.th.fh, m.cacheFS, &v.th.key) {
		return false
	}
	if m.connect && sameFile(&v.th.key, &m.root) {
		v.th.key = m.root
	}
	return true
}

// findMiss opens a name that was just found to have the handle in th.key.
func (v *View) findMiss(dir Node, name []byte) (*filecache.File, error) {
	th, m := v.th, dir.m
	if m.connect {
		return v.missAsServer(m) // a handle that names the parent cannot be had from a descriptor, to compare it
	}
	fd, err := v.ns.cfg.Cache.Room(v.c.MayBlock, func() (int, error) {
		fd, e := th.openat(dir.f.PathFD(), name, unix.O_PATH)
		if e != 0 {
			return -1, e
		}
		return fd, nil
	})
	if err == unix.EAGAIN {
		return nil, ErrWouldBlock
	}
	if err != nil {
		return nil, fail(errnoOf(err))
	}
	// The name may have come to mean another file since: what counts is what was opened.
	e := th.fdToHandle(fd, 0)
	if e != 0 || th.mntID != m.mntID || !keyOf(&th.fh, m.cacheFS, &th.key) {
		unix.Close(fd)
		if e != 0 {
			return nil, fail(e)
		}
		return nil, ErrJukebox // just mounted over: the next try crosses
	}
	return v.adopt(fd, m)
}

// in opens the file of the kernel handle in th.fh on mount m of export x.
func (v *View) in(m *fsMount, x *export) (Node, error) {
	if !v.foundKey(m) {
		return Node{}, ErrNotSupported
	}
	return v.at(m, x)
}

// at opens the file of th.key, whose FS is m's.
func (v *View) at(m *fsMount, x *export) (Node, error) {
	f, ok := v.ns.cfg.Cache.Get(&v.th.key)
	if !ok {
		var err error
		if f, err = v.missAsServer(m); err != nil {
			return Node{}, err
		}
	}
	v.th.hold(f)
	return Node{f: f, m: m, exp: x}, nil
}

// missAsServer is miss in the middle of a walk: the thread comes back with the credentials it had.
func (v *View) missAsServer(m *fsMount) (f *filecache.File, err error) {
	err = v.th.runAsServer(func() error {
		f, err = v.miss(m)
		return err
	})
	return f, err
}

// cross goes on where a walk ended on another mount than its directory's: th.mntID and th.fh say where.
//
// As with Linux, a mount below is shown if the export has crossmnt, or is itself an export with nohide; a mount that is an
// export of its own is shown with that one's options, to clients that it is for. Otherwise clients see the directory
// underneath.
func (v *View) cross(dir Node, name []byte) (Node, error) {
	th, tree := v.th, dir.exp.tree
	tbl := tree.tbl.Load()
	if tbl == nil || tbl.root == nil {
		return Node{}, ErrStale
	}
	c, known := tbl.byMnt[th.mntID]
	if !known && !tree.live {
		return v.hidden(dir, name)
	}
	if !known {
		if !v.c.MayBlock {
			return Node{}, ErrWouldBlock
		}
		mnt := th.mntID
		fd, e := th.openat(dir.f.PathFD(), name, unix.O_PATH)
		if e != 0 {
			return Node{}, fail(e)
		}
		err := th.runAsServer(func() (err error) {
			c, err = tree.enter(fd, mnt)
			return err
		})
		unix.Close(fd)
		if err != nil {
			return Node{}, err
		}
	}
	if c.m == tbl.root { // ".." out of a mount
		if err := v.within(c.m); err != nil {
			return Node{}, err
		}
		return v.in(c.m, dir.exp)
	}
	if x := v.ns.table.Load().byPath[c.path]; x != nil && x != dir.exp {
		opts, err := v.ns.match(x, v.c)
		if err == ErrWouldBlock {
			return Node{}, err
		}
		root := x.tree.root()
		if err == nil && root != nil && (v.opts.Crossmnt || opts.Nohide || v.c.V4) {
			th.key = root.root
			n, err := v.at(root, x)
			if _, ok := opts.For(exports.AuthFlavor(v.c.Cred.Flavor)); err == nil && v.c.V4 && !ok {
				err = ErrWrongSec
			}
			return n, err
		}
		return v.hidden(dir, name)
	}
	if c.m == nil || !v.opts.Crossmnt {
		return v.hidden(dir, name)
	}
	return v.in(c.m, dir.exp)
}

// within checks that the directory of th.fh, on the export's own mount, is in the export: what is mounted below it may have
// been moved to another place. It is ENOENT if not. See wayOut.
func (v *View) within(m *fsMount) error {
	if !v.c.MayBlock {
		return ErrWouldBlock
	}
	th := v.th
	fh, mnt := th.fh, th.mntID
	defer func() { th.fh, th.mntID = fh, mnt }()
	return th.runAsServer(func() error {
		under, err := m.below()
		if err != nil {
			return nil // no copy to look in: as the kernel's server, which does not look either
		}
		fd, e := th.openByHandle(under, unix.O_PATH)
		if e != 0 {
			return fail(e)
		}
		defer unix.Close(fd)
		return fail(th.nameToHandle(fd, dotDot, 0))
	})
}

// errNoCopy: the kernel makes no copy of the mount (which is said in the log when the export is opened).
var errNoCopy = errors.New("vfs: no copy of a mount")

// hidden opens the directory that a mount hides.
func (v *View) hidden(dir Node, name []byte) (Node, error) {
	n, err := v.beneath(dir, name)
	if err == errNoCopy {
		err = unix.EACCES
	}
	return n, err
}

// beneath looks a name up in a copy of the directory's mount without what is mounted there, and without what is above the
// export.
func (v *View) beneath(dir Node, name []byte) (Node, error) {
	if !v.c.MayBlock {
		return Node{}, ErrWouldBlock
	}
	th := v.th
	fd := -1
	err := th.runAsServer(func() error {
		under, err := dir.m.below()
		if err != nil {
			return errNoCopy
		}
		handleOf(&dir.f.Key, &th.fh)
		var e unix.Errno
		if fd, e = th.openByHandle(under, unix.O_PATH); e != 0 {
			return fail(e)
		}
		return nil
	})
	if err != nil {
		return Node{}, err
	}
	e := th.nameToHandle(fd, name, dir.handleFlags())
	unix.Close(fd)
	if e != 0 {
		return Node{}, fail(e)
	}
	return v.in(dir.m, dir.exp)
}
