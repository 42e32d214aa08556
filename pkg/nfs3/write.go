// WRITE and COMMIT (RFC 1813, 3.3.7 and 3.3.21).

package nfs3

import (
	"golang.org/x/sys/unix"

	"sluice/pkg/vfs"
	"sluice/rpc"
	wire3 "sluice/xdr/nfs3"
)

// write writes nothing at all when count and the data differ. RFC 1813 says
// that the size of data must be count and gives INVAL as WRITE's code for bad
// arguments; Linux takes the call for garbage (nfs3svc_decode_writeargs). The
// client learns the same from both, and from INVAL which call it was.
func (s *Service) write(c *rpc.Call) rpc.Verdict {
	var args wire3.WRITE3args
	if args.Decode(&c.Args); c.Args.Err() != nil {
		return rpc.GarbageArgs
	}
	g := &local(c).gather
	if c.Taken {
		if w, ok := g.taken(len(args.Data)); ok {
			return wrote(c, w)
		}
	}
	v, n, err := s.view(c, args.File.Data)
	var w vfs.WriteResult
	if err == nil {
		if uint64(args.Count) != uint64(len(args.Data)) {
			err = unix.EINVAL
		} else {
			w, err = v.WriteRun(n, args.Offset, args.Data, g.ahead(c, &args), uint32(args.Stable))
			g.wrote(&w, len(args.Data))
		}
		if err != nil && !again(c, err) {
			afterChange(&v, n, &w.Change)
		}
		v.Close()
	}
	if again(c, err) {
		return rpc.WouldBlock
	}
	if err != nil {
		putStatus(c, status(err))
		var res wire3.WRITE3resfail
		putWcc(&res.FileWcc, &w.Change)
		res.Encode(c.Reply)
		return rpc.Done
	}
	return wrote(c, &w)
}

// wrote is the reply to a WRITE that was done.
func wrote(c *rpc.Call, w *vfs.WriteResult) rpc.Verdict {
	putStatus(c, wire3.NFS3_OK)
	res := wire3.WRITE3resok{Count: uint32(w.N), Committed: wire3.StableHow(w.Committed), Verf: w.Verf}
	putWcc(&res.FileWcc, &w.Change)
	res.Encode(c.Reply)
	return rpc.Done
}

func (s *Service) commit(c *rpc.Call) rpc.Verdict {
	var args wire3.COMMIT3args
	if args.Decode(&c.Args); c.Args.Err() != nil {
		return rpc.GarbageArgs
	}
	v, n, err := s.view(c, args.File.Data)
	var ch vfs.Change
	var res wire3.COMMIT3resok
	if err == nil {
		res.Verf, ch, err = v.Commit(n, args.Offset, args.Count)
		if err != nil && !again(c, err) {
			afterChange(&v, n, &ch)
		}
		v.Close()
	}
	if again(c, err) {
		return rpc.WouldBlock
	}
	putStatus(c, status(err))
	putWcc(&res.FileWcc, &ch)
	if err != nil {
		res.FileWcc.Encode(c.Reply)
		return rpc.Done
	}
	res.Encode(c.Reply)
	return rpc.Done
}
