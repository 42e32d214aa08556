// GETATTR, SETATTR and ACCESS (RFC 1813, 3.3.1, 3.3.2 and 3.3.4).

package nfs3

import (
	"sluice/pkg/vfs"
	"sluice/rpc"
	wire3 "sluice/xdr/nfs3"
)

func (s *Service) getattr(c *rpc.Call) rpc.Verdict {
	var args wire3.GETATTR3args
	if args.Decode(&c.Args); c.Args.Err() != nil {
		return rpc.GarbageArgs
	}
	v, n, err := s.view(c, args.Object.Data)
	var a vfs.Attr
	if err == nil {
		a, err = v.Getattr(n)
		v.Close()
	}
	if again(c, err) {
		return rpc.WouldBlock
	}
	putStatus(c, status(err))
	if err == nil {
		var res wire3.GETATTR3resok
		putAttr(&res.ObjAttributes, &a)
		res.Encode(c.Reply)
	}
	return rpc.Done
}

func (s *Service) setattr(c *rpc.Call) rpc.Verdict {
	var args wire3.SETATTR3args
	if args.Decode(&c.Args); c.Args.Err() != nil {
		return rpc.GarbageArgs
	}
	v, n, err := s.view(c, args.Object.Data)
	var ch vfs.Change
	if err == nil {
		var sa vfs.SetAttr
		if err = getSattr(&sa, &args.NewAttributes); err == nil {
			sa.Guard, sa.GuardTime = args.Guard.Check, getTime(args.Guard.ObjCtime)
			ch, err = v.Setattr(n, &sa)
		}
		if err != nil && !again(c, err) {
			afterChange(&v, n, &ch)
		}
		v.Close()
	}
	if again(c, err) {
		return rpc.WouldBlock
	}
	putStatus(c, status(err))
	var wcc wire3.WccData // the same in both arms
	putWcc(&wcc, &ch)
	wcc.Encode(c.Reply)
	return rpc.Done
}

func (s *Service) access(c *rpc.Call) rpc.Verdict {
	var args wire3.ACCESS3args
	if args.Decode(&c.Args); c.Args.Err() != nil {
		return rpc.GarbageArgs
	}
	v, n, err := s.view(c, args.Object.Data)
	var a vfs.Attr
	var granted uint32
	if err == nil {
		granted, a, err = v.Access(n, args.Access)
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
		c.Reply.Uint32(granted)
	}
	return rpc.Done
}
