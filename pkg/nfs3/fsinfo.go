// FSSTAT, FSINFO and PATHCONF (RFC 1813, 3.3.18 to 3.3.20).

package nfs3

import (
	"sluice/pkg/vfs"
	"sluice/rpc"
	wire3 "sluice/xdr/nfs3"
)

func (s *Service) fsstat(c *rpc.Call) rpc.Verdict {
	var args wire3.FSSTAT3args
	if args.Decode(&c.Args); c.Args.Err() != nil {
		return rpc.GarbageArgs
	}
	v, n, err := s.view(c, args.Fsroot.Data)
	var f vfs.FSStat
	if err == nil {
		f, err = v.Fsstat(n)
		if err != nil && !again(c, err) {
			after(&v, n, &f.Attr)
		}
		v.Close()
	}
	if again(c, err) {
		return rpc.WouldBlock
	}
	putStatus(c, status(err))
	res := wire3.FSSTAT3resok{
		Tbytes: f.Tbytes, Fbytes: f.Fbytes, Abytes: f.Abytes,
		Tfiles: f.Tfiles, Ffiles: f.Ffiles, Afiles: f.Afiles,
		Invarsec: f.Invarsec,
	}
	putPostOp(&res.ObjAttributes, &f.Attr)
	if err != nil {
		res.ObjAttributes.Encode(c.Reply)
		return rpc.Done
	}
	res.Encode(c.Reply)
	return rpc.Done
}

func (s *Service) fsinfo(c *rpc.Call) rpc.Verdict {
	var args wire3.FSINFO3args
	if args.Decode(&c.Args); c.Args.Err() != nil {
		return rpc.GarbageArgs
	}
	v, n, err := s.view(c, args.Fsroot.Data)
	var f vfs.FSInfo
	if err == nil {
		f, err = v.Fsinfo(n)
		if err != nil && !again(c, err) {
			after(&v, n, &f.Attr)
		}
		v.Close()
	}
	if again(c, err) {
		return rpc.WouldBlock
	}
	putStatus(c, status(err))
	res := wire3.FSINFO3resok{
		Rtmax: f.RtMax, Rtpref: f.RtPref, Rtmult: f.RtMult,
		Wtmax: f.WtMax, Wtpref: f.WtPref, Wtmult: f.WtMult,
		Dtpref: f.DtPref, Maxfilesize: f.MaxFileSize,
	}
	putTime(&res.TimeDelta, f.TimeDelta)
	for _, p := range [...]struct {
		has bool
		bit uint32
	}{
		{f.Link, wire3.FSF3_LINK},
		{f.Symlink, wire3.FSF3_SYMLINK},
		{f.Homogeneous, wire3.FSF3_HOMOGENEOUS},
		{f.CanSetTime, wire3.FSF3_CANSETTIME},
	} {
		if p.has {
			res.Properties |= p.bit
		}
	}
	putPostOp(&res.ObjAttributes, &f.Attr)
	if err != nil {
		res.ObjAttributes.Encode(c.Reply)
		return rpc.Done
	}
	res.Encode(c.Reply)
	return rpc.Done
}

func (s *Service) pathconf(c *rpc.Call) rpc.Verdict {
	var args wire3.PATHCONF3args
	if args.Decode(&c.Args); c.Args.Err() != nil {
		return rpc.GarbageArgs
	}
	v, n, err := s.view(c, args.Object.Data)
	var p vfs.PathConf
	if err == nil {
		p, err = v.Pathconf(n)
		if err != nil && !again(c, err) {
			after(&v, n, &p.Attr)
		}
		v.Close()
	}
	if again(c, err) {
		return rpc.WouldBlock
	}
	putStatus(c, status(err))
	res := wire3.PATHCONF3resok{
		Linkmax: p.LinkMax, NameMax: p.NameMax, NoTrunc: p.NoTrunc, ChownRestricted: p.ChownRestricted,
		CaseInsensitive: p.CaseInsensitive, CasePreserving: p.CasePreserving,
	}
	putPostOp(&res.ObjAttributes, &p.Attr)
	if err != nil {
		res.ObjAttributes.Encode(c.Reply)
		return rpc.Done
	}
	res.Encode(c.Reply)
	return rpc.Done
}
