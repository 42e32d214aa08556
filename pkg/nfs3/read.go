// READ (RFC 1813, 3.3.6).
//
// The data is a payload of the data path (a pooled buffer or a filled pipe):
// the reply takes it over as a segment, and it is released once, by whoever
// sends the reply or drops it.

package nfs3

import (
	"sluice/pkg/vfs"
	"sluice/rpc"
	wire3 "sluice/xdr/nfs3"
)

// read answers any count, 0xFFFFFFFF included: the View cuts it to rtmax, and
// the client asks again for the rest (RFC 1813, 3.3.6: a short READ is no
// error). An offset past the end, be it past 2^63, is an empty answer with eof,
// in the RFC's words and in Linux's.
func (s *Service) read(c *rpc.Call) rpc.Verdict {
	var args wire3.READ3args
	if args.Decode(&c.Args); c.Args.Err() != nil {
		return rpc.GarbageArgs
	}
	v, n, err := s.view(c, args.File.Data)
	var r vfs.ReadResult
	if err == nil {
		r, err = v.Read(n, args.Offset, args.Count)
		if err != nil && !again(c, err) {
			after(&v, n, &r.Attr)
		}
		v.Close()
	}
	if again(c, err) {
		return rpc.WouldBlock
	}
	putStatus(c, status(err))
	if err != nil {
		var res wire3.READ3resfail
		putPostOp(&res.FileAttributes, &r.Attr)
		res.Encode(c.Reply)
		return rpc.Done
	}
	res := wire3.READ3resok{Count: uint32(r.N), Eof: r.EOF, Data: r.Data}
	putPostOp(&res.FileAttributes, &r.Attr)
	res.Encode(c.Reply)
	return rpc.Done
}
