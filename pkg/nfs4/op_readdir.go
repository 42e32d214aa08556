// READDIR (RFC 7530, 16.24; RFC 8881, 18.23).
//
// Plan: entries are encoded straight into the reply as the View lists them, and
// the one that does not fit any more is cut off again. maxcount bounds the whole
// result but its status; dircount bounds names and cookies, after the first entry.
// What is of the file system rather than the file is asked again only where an
// entry is on another one. A name that goes while it is listed is left out.

package nfs4

import (
	"golang.org/x/sys/unix"

	"sluice/pkg/vfs"
	"sluice/xdr"
	wire "sluice/xdr/nfs4"
)

const (
	maxDirReply = 1 << 20 // bytes of a result, whatever the client asks for
	dirHead     = wire.NFS4_VERIFIER_SIZE
	dirTail     = 4 + 4 // end of the list, eof

	needFS = needStat | needConf | needInfo | needXattr
	noFSID = 1<<64 - 1
)

// dirWriter encodes the entries of one listing. Its emit function is made once, so that a listing allocates nothing.
type dirWriter struct {
	c    *compound
	emit func(*vfs.DirEntry) bool
	req  vfs.ReaddirReq

	w        words // what is asked
	need     attrNeed
	each     bool   // it takes each entry's file itself
	fsid     uint64 // of the file system that was asked last
	limit    int    // c.e.Len() that entries must not pass
	dircount int    // bytes left
	entries  int
	full     bool
	silent   bool   // the holder of a delegation did not answer: no other is waited for
	st       status // a failed entry fails the listing when rdattr_error is not asked for
}

func (w *dirWriter) init(c *compound) {
	w.c = c
	w.emit = w.put
}

// fromEntry are the attributes that an entry has without its file being asked.
var fromEntry = func() (w words) {
	w.set(wire.FATTR4_RDATTR_ERROR)
	w.set(wire.FATTR4_MOUNTED_ON_FILEID)
	return w
}()

func (c *compound) opReaddir() status {
	var args wire.READDIR4args
	if args.Decode(c.d); c.bad() {
		return wire.NFS4ERR_BADXDR
	}
	if st := c.openFH(); st != ok {
		return st
	}
	if st := c.directory(wire.NFS4ERR_NOTDIR); st != ok {
		return st
	}
	if args.Cookie == 1 || args.Cookie == 2 || args.Cookie == 0 && args.Cookieverf != ([8]byte{}) {
		return wire.NFS4ERR_BAD_COOKIE // RFC 8881, 18.23.3: 1 and 2 are never given out
	}
	room := int(min(args.Maxcount, maxDirReply))
	if room < dirHead+dirTail {
		return wire.NFS4ERR_TOOSMALL
	}
	s := c.beginAttrs(&wire.Bitmap4{})
	w := &c.dir
	*w = dirWriter{c: c, emit: w.emit, w: s.known(&args.AttrRequest), dircount: int(args.Dircount)}
	if w.w.unreadable() {
		return wire.NFS4ERR_INVAL
	}
	if args.Dircount == 0 || args.Dircount > maxDirReply {
		w.dircount = maxDirReply
	}
	// The size that the session leaves for this reply counts like maxcount.
	left := c.limit - c.e.Len()
	if c.index+1 < c.ops {
		left -= errorRoom
	}
	if left < room {
		if c.cacheThis || left < dirHead+dirTail {
			return c.tooBig
		}
		room = left
	}
	for i := range w.w {
		if w.w[i]&^fromEntry[i] != 0 {
			w.req.Plus = true
		}
	}
	w.need, w.each, w.fsid = w.w.needs(), w.w.any(&aclAttrs), noFSID
	w.each = w.each || w.need&needXattr != 0
	w.req.Cookie, w.req.Verf, w.req.Want = args.Cookie, args.Cookieverf, vfs.NamesIn(room, w.dircount, w.req.Plus)
	e := c.e
	w.limit = e.Len() + room - dirTail
	verfAt := len(e.Bytes())
	e.Next(dirHead)
	res, err := c.view.Readdir(c.node, &w.req, w.emit)
	switch {
	case err != nil:
		return c.statusOf(err)
	case w.st != ok && (w.entries == 0 || w.st == wouldBlock):
		return w.st
	case w.full && w.entries == 0:
		return wire.NFS4ERR_TOOSMALL
	}
	e.Bool(false)
	e.Bool(res.EOF && !w.full)
	copy(e.Bytes()[verfAt:], res.Verf[:])
	return ok
}

// put encodes one entry, or returns false when it does not fit.
func (w *dirWriter) put(d *vfs.DirEntry) bool {
	if n := len(d.Name); n == 1 && d.Name[0] == '.' || n == 2 && d.Name[0] == '.' && d.Name[1] == '.' {
		return true // version 4 does not list them
	}
	e, s := w.c.e, &w.c.src
	cost := 8 + 4 + (len(d.Name)+3)&^3
	if w.entries > 0 && cost > w.dircount || e.Len()+4+cost > w.limit {
		w.full = true
		return false
	}
	m := e.Mark()
	e.Bool(true)
	e.Uint64(d.Cookie)
	e.Opaque(d.Name)
	s.err, s.hasDel = ok, false
	st := ok
	if w.req.Plus {
		st = w.gather(d)
	}
	switch {
	case st == wire.NFS4ERR_NOENT:
		e.Rollback(m)
		return true
	case st != ok:
		if !w.entry(d, e, st) {
			e.Rollback(m)
			return false
		}
	default:
		s.a, s.fh = d.Attr, d.Handle.Bytes()
		if !d.Attr.Valid() {
			s.a = vfs.Attr{FileID: d.FileID, MountedOnFileID: d.FileID}
		}
		has := w.w
		if w.each && !s.acl.supported {
			has[0] &^= 1 << wire.FATTR4_ACL
		}
		s.encode(e, has)
	}
	if e.Len() > w.limit {
		e.Rollback(m)
		w.full = true
		return false
	}
	w.dircount -= cost
	w.entries++
	return true
}

// gather asks for what the attributes of an entry need beside what came with it. A status is why they cannot be had.
func (w *dirWriter) gather(d *vfs.DirEntry) status {
	switch {
	case d.Attr.Valid():
	case d.Err == vfs.ErrWrongSec, d.Err == unix.ENOENT:
		return w.c.statusOf(d.Err)
	default:
		return wire.NFS4ERR_ACCESS
	}
	if d.Attr.Held && w.need&needDeleg != 0 {
		if st := w.askHolder(d); st != ok {
			return st
		}
	}
	if w.each || w.need&needFS != 0 && d.Attr.FSID != w.fsid {
		return w.c.statusOf(w.gatherFile(d))
	}
	return ok
}

// gatherFile asks for what is not an entry's attribute but its file's, or its file system's.
func (w *dirWriter) gatherFile(d *vfs.DirEntry) error {
	c, s := w.c, &w.c.src
	n, err := c.view.EntryNode(d)
	if err != nil {
		return err
	}
	s.a, s.supported = d.Attr, supported[c.minor]
	c.fileSystemAttrs(s, n, &w.w)
	if err = c.gatherACL(s, n, &w.w); err != nil {
		return err
	}
	need := w.need & needXattr // not of links
	if d.Attr.FSID != w.fsid {
		need, w.fsid = w.need&needFS, noFSID
	}
	if err = c.gatherFS(s, n, need); err == nil {
		w.fsid = d.Attr.FSID
	}
	return err
}

// askHolder asks who has a write delegation on an entry's file, as GETATTR does (and Linux's READDIR). A listing waits for
// one silent client, not for each file that it has: those are told to be asked for later.
func (w *dirWriter) askHolder(d *vfs.DirEntry) status {
	s, call := &w.c.src, &w.c.call
	mayBlock := call.MayBlock
	call.MayBlock = mayBlock && !w.silent
	err := s.askHolder(call, d.Key)
	call.MayBlock = mayBlock
	if err != nil {
		w.silent = true
	}
	if err != nil || !s.hasDel { // or it was given back just now, after the attributes were read
		return wire.NFS4ERR_DELAY
	}
	return ok
}

// entry encodes the attributes of an entry whose others cannot be had, st being why: a mount point that cannot be crossed
// now, or in a directory that may be read but not searched.
func (w *dirWriter) entry(d *vfs.DirEntry, e *xdr.Encoder, st status) bool {
	if !w.w.has(wire.FATTR4_RDATTR_ERROR) || st == wouldBlock {
		w.st = st
		return false
	}
	s := &w.c.src
	s.a, s.fh, s.err = vfs.Attr{FileID: d.FileID, MountedOnFileID: d.FileID}, nil, st
	keep := w.w
	for i := range keep {
		keep[i] &= fromEntry[i]
	}
	s.encode(e, keep)
	return true
}
