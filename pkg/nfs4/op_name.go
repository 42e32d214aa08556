// Operations on names: CREATE, LINK, REMOVE, RENAME, READLINK. (OPEN makes
// files; see op_open.go.)

package nfs4

import (
	"golang.org/x/sys/unix"

	"sluice/pkg/vfs"
	wire "sluice/xdr/nfs4"
)

// cinfo makes change_info4. Without attributes from before the client must not
// trust what it has cached: then atomic is false and before matches nothing.
func cinfo(ch *vfs.Change) wire.ChangeInfo4 {
	i := wire.ChangeInfo4{Atomic: ch.BeforeOK && ch.AfterOK}
	if ch.BeforeOK {
		i.Before = ch.Before.Change
	}
	if ch.AfterOK {
		i.After = ch.After.Change
	}
	return i
}

// newTypes are the types CREATE makes.
var newTypes = map[wire.NfsFtype4]vfs.Type{
	wire.NF4DIR: vfs.TypeDir, wire.NF4LNK: vfs.TypeLnk, wire.NF4BLK: vfs.TypeBlk, wire.NF4CHR: vfs.TypeChr,
	wire.NF4SOCK: vfs.TypeSock, wire.NF4FIFO: vfs.TypeFifo,
}

func (c *compound) opCreate() status {
	var args wire.CREATE4args
	if args.Decode(c.d); c.bad() {
		return wire.NFS4ERR_BADXDR
	}
	if st := c.openFH(); st != ok {
		return st
	}
	if st := c.directory(wire.NFS4ERR_NOTDIR); st != ok {
		return st
	}
	if st := c.checkName(args.Objname); st != ok {
		return st
	}
	t, known := newTypes[args.Objtype.Type]
	if !known {
		return wire.NFS4ERR_BADTYPE
	}
	a := &c.set
	if st := a.take(c, &args.Createattrs, true, nil); st != ok {
		return st
	}
	if a.s.SetSize { // Linux ignores it as well: there is no such thing to truncate
		a.s.SetSize = false
		a.w[0] &^= 1 << wire.FATTR4_SIZE
	}
	a.applyUmask()
	var e vfs.Entry
	var ch vfs.Change
	var err error
	switch t {
	case vfs.TypeDir:
		e, ch, err = c.view.Mkdir(c.node, args.Objname, &a.s)
	case vfs.TypeLnk:
		e, ch, err = c.view.Symlink(c.node, args.Objname, args.Objtype.Linkdata, &a.s)
	default:
		e, ch, err = c.view.Mknod(c.node, args.Objname, t, args.Objtype.Devdata.Specdata1, args.Objtype.Devdata.Specdata2, &a.s)
	}
	if err != nil {
		return c.statusOf(err)
	}
	c.began()
	if st := c.enter(args.Objname, &e); st != ok {
		return st
	}
	if st := c.applyACL(a); st != ok {
		return st
	}
	res := wire.CREATE4resok{Cinfo: cinfo(&ch), Attrset: a.bitmap()}
	res.Encode(c.e)
	return ok
}

// enter makes an entry that was just made the current file.
func (c *compound) enter(name []byte, e *vfs.Entry) status {
	if e.Handle.Len == 0 { // it could not be opened for the moment; the name is there
		var err error
		if *e, _, err = c.view.Lookup(c.node, name); err != nil {
			return c.statusOf(err)
		}
	}
	c.setFH(e.Handle.Bytes())
	return ok
}

func (c *compound) opLink() status {
	var args wire.LINK4args
	if args.Decode(c.d); c.bad() {
		return wire.NFS4ERR_BADXDR
	}
	if st := c.openFH(); st != ok {
		return st
	}
	if st := c.directory(wire.NFS4ERR_NOTDIR); st != ok {
		return st
	}
	if st := c.checkName(args.Newname); st != ok {
		return st
	}
	n, err := c.view.Node(c.saved.bytes())
	if err != nil {
		return c.statusOf(err)
	}
	_, ch, err := c.view.Link(n, c.node, args.Newname)
	if err != nil {
		return c.statusOf(err)
	}
	i := cinfo(&ch)
	i.Encode(c.e)
	return ok
}

func (c *compound) opRemove() status {
	var args wire.REMOVE4args
	if args.Decode(c.d); c.bad() {
		return wire.NFS4ERR_BADXDR
	}
	if c.s.st.InGrace() {
		return wire.NFS4ERR_GRACE
	}
	if st := c.openFH(); st != ok {
		return st
	}
	if st := c.directory(wire.NFS4ERR_NOTDIR); st != ok {
		return st
	}
	if st := c.checkName(args.Target); st != ok {
		return st
	}
	ch, err := c.view.Remove(c.node, args.Target)
	if err == unix.EISDIR {
		ch, err = c.view.Rmdir(c.node, args.Target)
	}
	if err != nil {
		return c.statusOf(err)
	}
	i := cinfo(&ch)
	i.Encode(c.e)
	return ok
}

func (c *compound) opRename() status {
	var args wire.RENAME4args
	if args.Decode(c.d); c.bad() {
		return wire.NFS4ERR_BADXDR
	}
	if c.s.st.InGrace() {
		return wire.NFS4ERR_GRACE
	}
	if st := c.openFH(); st != ok {
		return st
	}
	if st := c.directory(wire.NFS4ERR_NOTDIR); st != ok {
		return st
	}
	if st := c.checkName(args.Oldname); st != ok {
		return st
	}
	if st := c.checkName(args.Newname); st != ok {
		return st
	}
	from, err := c.view.Node(c.saved.bytes())
	if err != nil {
		return c.statusOf(err)
	}
	if from.Type() != vfs.TypeDir {
		return wire.NFS4ERR_NOTDIR
	}
	fc, tc, err := c.view.Rename(from, args.Oldname, c.node, args.Newname)
	if err != nil {
		return c.statusOf(err)
	}
	res := wire.RENAME4resok{SourceCinfo: cinfo(&fc), TargetCinfo: cinfo(&tc)}
	res.Encode(c.e)
	return ok
}

func (c *compound) opReadlink() status {
	if st := c.openFH(); st != ok {
		return st
	}
	if c.node.Type() != vfs.TypeLnk {
		return wire.NFS4ERR_INVAL
	}
	target, _, err := c.view.Readlink(c.node, c.path[:])
	if err != nil {
		return c.statusOf(err)
	}
	c.e.Opaque(target)
	return ok
}
