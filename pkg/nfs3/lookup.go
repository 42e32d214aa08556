// LOOKUP and READLINK (RFC 1813, 3.3.3 and 3.3.5).

package nfs3

import (
	"sluice/pkg/vfs"
	"sluice/rpc"
	wire3 "sluice/xdr/nfs3"
)

func (s *Service) lookup(c *rpc.Call) rpc.Verdict {
	var args wire3.LOOKUP3args
	if args.Decode(&c.Args); c.Args.Err() != nil {
		return rpc.GarbageArgs
	}
	v, dir, err := s.view(c, args.What.Dir.Data)
	var ent vfs.Entry
	var dirAttr vfs.Attr
	if err == nil {
		ent, dirAttr, err = v.Lookup(dir, args.What.Name)
		if err != nil && !again(c, err) {
			after(&v, dir, &dirAttr)
		}
		v.Close()
	}
	if again(c, err) {
		return rpc.WouldBlock
	}
	putStatus(c, status(err))
	if err != nil {
		var res wire3.LOOKUP3resfail
		putPostOp(&res.DirAttributes, &dirAttr)
		res.Encode(c.Reply)
		return rpc.Done
	}
	var res wire3.LOOKUP3resok
	res.Object.Data = ent.Handle.Bytes()
	putPostOp(&res.ObjAttributes, &ent.Attr)
	putPostOp(&res.DirAttributes, &dirAttr)
	res.Encode(c.Reply)
	return rpc.Done
}

func (s *Service) readlink(c *rpc.Call) rpc.Verdict {
	var args wire3.READLINK3args
	if args.Decode(&c.Args); c.Args.Err() != nil {
		return rpc.GarbageArgs
	}
	v, n, err := s.view(c, args.Symlink.Data)
	var a vfs.Attr
	var target []byte
	if err == nil {
		t := local(c)
		target, a, err = v.Readlink(n, t.path[:])
		if err != nil && !again(c, err) {
			after(&v, n, &a)
		}
		v.Close()
	}
	if again(c, err) {
		return rpc.WouldBlock
	}
	putStatus(c, status(err))
	var post wire3.PostOpAttr
	putPostOp(&post, &a)
	post.Encode(c.Reply)
	if err == nil {
		c.Reply.Opaque(target)
	}
	return rpc.Done
}
