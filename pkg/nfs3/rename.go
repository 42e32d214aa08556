// RENAME and LINK (RFC 1813, 3.3.14 and 3.3.15): the calls with two handles.

package nfs3

import (
	"sluice/pkg/vfs"
	"sluice/rpc"
	wire3 "sluice/xdr/nfs3"
)

func (s *Service) rename(c *rpc.Call) rpc.Verdict {
	var args wire3.RENAME3args
	if args.Decode(&c.Args); c.Args.Err() != nil {
		return rpc.GarbageArgs
	}
	v, from, err := s.view(c, args.From.Dir.Data)
	var fromCh, toCh vfs.Change
	if err == nil {
		var to vfs.Node
		to, err = v.Node(args.To.Dir.Data)
		haveTo := err == nil
		if haveTo {
			fromCh, toCh, err = v.Rename(from, args.From.Name, to, args.To.Name)
		}
		if err != nil && !again(c, err) {
			afterChange(&v, from, &fromCh)
			if haveTo {
				afterChange(&v, to, &toCh)
			}
		}
		v.Close()
	}
	if again(c, err) {
		return rpc.WouldBlock
	}
	putStatus(c, status(err))
	var res wire3.RENAME3resok // the same in both arms
	putWcc(&res.FromdirWcc, &fromCh)
	putWcc(&res.TodirWcc, &toCh)
	res.Encode(c.Reply)
	return rpc.Done
}

func (s *Service) link(c *rpc.Call) rpc.Verdict {
	var args wire3.LINK3args
	if args.Decode(&c.Args); c.Args.Err() != nil {
		return rpc.GarbageArgs
	}
	v, n, err := s.view(c, args.File.Data)
	var a vfs.Attr
	var ch vfs.Change
	if err == nil {
		var dir vfs.Node
		dir, err = v.Node(args.Link.Dir.Data)
		haveDir := err == nil
		if haveDir {
			a, ch, err = v.Link(n, dir, args.Link.Name)
		}
		if err != nil && !again(c, err) {
			after(&v, n, &a)
			if haveDir {
				afterChange(&v, dir, &ch)
			}
		}
		v.Close()
	}
	if again(c, err) {
		return rpc.WouldBlock
	}
	putStatus(c, status(err))
	var res wire3.LINK3resok // the same in both arms
	putPostOp(&res.FileAttributes, &a)
	putWcc(&res.LinkdirWcc, &ch)
	res.Encode(c.Reply)
	return rpc.Done
}
