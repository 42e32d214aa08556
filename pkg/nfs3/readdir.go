// READDIR and READDIRPLUS (RFC 1813, 3.3.16 and 3.3.17).
//
// Plan: entries are encoded straight into the reply as the View lists them,
// each measured first, so that the encoded result is never longer than the
// client asked for. READDIR's count and READDIRPLUS's maxcount bound the whole
// result (READDIR3resok, READDIRPLUS3resok: attributes, verifier, list and its
// end), as the RFC has it; Linux bounds the list alone and may exceed them by 96
// bytes. dircount bounds names, file ids and cookies; one entry is sent whatever
// it says, since a client must be able to go on. The directory's attributes come
// first on the wire and are known last: their place is filled in at the end.

package nfs3

import (
	"math"

	"sluice/pkg/vfs"
	"sluice/rpc"
	"sluice/xdr"
	wire3 "sluice/xdr/nfs3"
)

const (
	// maxDirReply bounds a result whatever the client asks for, in bytes:
	// FSINFO's dtpref, as Linux has it.
	maxDirReply = 1 << 20

	dirHead = postOpAttrLen + wire3.NFS3_COOKIEVERFSIZE // before the list
	dirTail = 4 + 4                                     // end of the list, eof

	entryBase   = 4 + 8 + 4 + 8 // of an entry: follows, fileid, length of the name, cookie
	plusBase    = 4 + 4         // and of READDIRPLUS: whether attributes and handle follow
	dirInfoBase = 8 + 4 + 8     // what dircount counts of an entry, besides the name
	noDircount  = math.MaxInt32 // READDIR has no such limit
)

// dirWriter encodes the entries of one listing. It is kept in the thread's
// Local, with its emit function made once, so that a listing allocates nothing.
type dirWriter struct {
	req  vfs.ReaddirReq
	emit func(*vfs.DirEntry) bool
	tmp  xdr.Encoder // encodes into the place left for the attributes

	reply    *xdr.Encoder
	plus     bool
	limit    int // reply.Len() that entries must not exceed
	dircount int // bytes of directory information left
	entries  int
	full     bool // an entry did not fit
}

func (w *dirWriter) init() { w.emit = w.put }

func padded(n int) int { return (n + 3) &^ 3 }

// put encodes one entry, or returns false when it does not fit.
func (w *dirWriter) put(d *vfs.DirEntry) bool {
	name := padded(len(d.Name))
	size := entryBase + name
	attr := w.plus && current(&d.Attr)
	handle := w.plus && d.Handle.Len > 0
	if w.plus {
		size += plusBase
		if attr {
			size += fattrLen
		}
		if handle {
			size += 4 + padded(int(d.Handle.Len))
		}
	}
	if w.reply.Len()+size > w.limit || w.entries > 0 && dirInfoBase+name > w.dircount {
		w.full = true
		return false
	}
	w.dircount -= dirInfoBase + name
	w.entries++
	e := w.reply
	e.Bool(true)
	if !w.plus {
		ent := wire3.Entry3{Fileid: d.FileID, Name: d.Name, Cookie: d.Cookie}
		ent.Encode(e)
		return true
	}
	ent := wire3.Entryplus3{Fileid: d.FileID, Name: d.Name, Cookie: d.Cookie}
	if attr {
		putPostOp(&ent.NameAttributes, &d.Attr)
	}
	if handle {
		ent.NameHandle.HandleFollows = true
		ent.NameHandle.Handle.Data = d.Handle.Bytes()
	}
	ent.Encode(e)
	return true
}

func (s *Service) readdir(c *rpc.Call) rpc.Verdict {
	var args wire3.READDIR3args
	if args.Decode(&c.Args); c.Args.Err() != nil {
		return rpc.GarbageArgs
	}
	return s.list(c, args.Dir.Data, args.Cookie, args.Cookieverf, args.Count, noDircount, false)
}

func (s *Service) readdirplus(c *rpc.Call) rpc.Verdict {
	var args wire3.READDIRPLUS3args
	if args.Decode(&c.Args); c.Args.Err() != nil {
		return rpc.GarbageArgs
	}
	dircount := min(int(args.Dircount), noDircount)
	return s.list(c, args.Dir.Data, args.Cookie, args.Cookieverf, args.Maxcount, dircount, true)
}

// list serves both.
func (s *Service) list(c *rpc.Call, fh []byte, cookie uint64, verf [8]byte, count uint32, dircount int, plus bool) rpc.Verdict {
	v, dir, err := s.view(c, fh)
	if err != nil {
		if again(c, err) {
			return rpc.WouldBlock
		}
		putStatus(c, status(err))
		c.Reply.Bool(false) // no attributes
		return rpc.Done
	}
	defer v.Close()

	w := &local(c).dir
	e := c.Reply
	start := e.Mark()
	putStatus(c, wire3.NFS3_OK)
	base := e.Len()
	e.Bool(true)
	attrAt := len(e.Bytes())
	e.Next(fattrLen)
	verfAt := len(e.Bytes())
	e.Next(wire3.NFS3_COOKIEVERFSIZE)

	room := int(min(count, maxDirReply))
	*w = dirWriter{
		req:  vfs.ReaddirReq{Cookie: cookie, Verf: verf, Plus: plus, Want: vfs.NamesIn(room, dircount, plus)},
		emit: w.emit, tmp: w.tmp,
		reply: e, plus: plus, limit: base + room - dirTail, dircount: dircount,
	}
	var res vfs.ReaddirRes
	switch {
	case plus && v.NoReaddirplus():
		err = vfs.ErrNotSupported // exports(5), nordirplus; Linux: NFSEXP_NOREADDIRPLUS
	case room < dirHead+dirTail:
		err = vfs.ErrTooSmall
	default:
		res, err = v.Readdir(dir, &w.req, w.emit)
		if err == nil && w.full && w.entries == 0 {
			// Linux answers with an empty list, on which clients loop; the RFC has a code.
			err = vfs.ErrTooSmall
		}
	}
	w.reply = nil
	if err == nil && !res.Dir.Valid() {
		res.Dir, err = v.Getattr(dir) // a directory that cannot be asked for its attributes any more is gone
	}
	if err != nil {
		e.Rollback(start)
		if again(c, err) {
			return rpc.WouldBlock
		}
		after(&v, dir, &res.Dir)
		putStatus(c, status(err))
		var post wire3.PostOpAttr
		putPostOp(&post, &res.Dir)
		post.Encode(e)
		return rpc.Done
	}
	e.Bool(false) // end of the list
	e.Bool(res.EOF)

	b := e.Bytes()
	copy(b[verfAt:], res.Verf[:])
	var a wire3.Fattr3
	putAttr(&a, &res.Dir)
	w.tmp.Reset(b[attrAt:attrAt:verfAt])
	a.Encode(&w.tmp)
	return rpc.Done
}
