// FSSTAT, FSINFO and PATHCONF (RFC 1813, 3.3.18 to 3.3.20).

package nfs3

import (
	"sluice/pkg/vfs"
	"sluice/rpc"
	wire3 "sluice/xdr/nfs3"
)

// ask asks an object, by op, for what is not on any hot path. When that fails
// in a way that the client is told of, a has the object's attributes.
func (s *Service) ask(c *rpc.Call, fh []byte, a *vfs.Attr, op func(*vfs.View, vfs.Node) error) error {
	v, n, err := s.view(c, fh)
	if err != nil {
		return err
	}
	defer v.Close()
	if err = op(&v, n); err != nil && !again(c, err) {
		after(&v, n, a)
	}
	return err
}

func (s *Service) fsstat(c *rpc.Call) rpc.Verdict {
	var args wire3.FSSTAT3args
	if args.Decode(&c.Args); c.Args.Err() != nil {
		return rpc.GarbageArgs
	}
	var f vfs.FSStat
	err := s.ask(c, args.Fsroot.Data, &f.Attr, func(v *vfs.View, n vfs.Node) (err error) {
		f, err = v.Fsstat(n)
		return err
	})
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
	var f vfs.FSInfo
	err := s.ask(c, args.Fsroot.Data, &f.Attr, func(v *vfs.View, n vfs.Node) (err error) {
		f, err = v.Fsinfo(n)
		return err
	})
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
	var p vfs.PathConf
	err := s.ask(c, args.Object.Data, &p.Attr, func(v *vfs.View, n vfs.Node) (err error) {
		p, err = v.Pathconf(n)
		return err
	})
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
