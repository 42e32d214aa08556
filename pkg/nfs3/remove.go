// REMOVE and RMDIR (RFC 1813, 3.3.12 and 3.3.13).

package nfs3

import (
	"sluice/pkg/vfs"
	"sluice/rpc"
	wire3 "sluice/xdr/nfs3"
)

func (s *Service) remove(c *rpc.Call) rpc.Verdict { return s.unname(c, (*vfs.View).Remove) }

func (s *Service) rmdir(c *rpc.Call) rpc.Verdict { return s.unname(c, (*vfs.View).Rmdir) }

// unname serves both: their arguments and results are the same.
func (s *Service) unname(c *rpc.Call, op func(*vfs.View, vfs.Node, []byte) (vfs.Change, error)) rpc.Verdict {
	var args wire3.REMOVE3args // RMDIR3args by another name
	if args.Decode(&c.Args); c.Args.Err() != nil {
		return rpc.GarbageArgs
	}
	v, dir, err := s.view(c, args.Object.Dir.Data)
	var ch vfs.Change
	if err == nil {
		ch, err = op(&v, dir, args.Object.Name)
		if err != nil && !again(c, err) {
			afterChange(&v, dir, &ch)
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
