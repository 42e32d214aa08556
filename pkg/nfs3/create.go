// CREATE, MKDIR, SYMLINK and MKNOD (RFC 1813, 3.3.8 to 3.3.11).
//
// The four have the same results, so that one function encodes them all.

package nfs3

import (
	"golang.org/x/sys/unix"

	"sluice/pkg/vfs"
	"sluice/rpc"
	wire3 "sluice/xdr/nfs3"
)

func (s *Service) create(c *rpc.Call) rpc.Verdict {
	var args wire3.CREATE3args
	if args.Decode(&c.Args); c.Args.Err() != nil {
		return rpc.GarbageArgs
	}
	return s.makeName(c, &args.Where, &args.How.ObjAttributes,
		func(v *vfs.View, dir vfs.Node, sa *vfs.SetAttr) (vfs.Entry, vfs.Change, error) {
			return v.Create(dir, args.Where.Name, vfs.CreateHow(args.How.Mode), args.How.Verf, sa)
		})
}

func (s *Service) mkdir(c *rpc.Call) rpc.Verdict {
	var args wire3.MKDIR3args
	if args.Decode(&c.Args); c.Args.Err() != nil {
		return rpc.GarbageArgs
	}
	return s.makeName(c, &args.Where, &args.Attributes,
		func(v *vfs.View, dir vfs.Node, sa *vfs.SetAttr) (vfs.Entry, vfs.Change, error) {
			sa.SetSize = false // a directory has none to set; Linux drops it too
			return v.Mkdir(dir, args.Where.Name, sa)
		})
}

func (s *Service) symlink(c *rpc.Call) rpc.Verdict {
	var args wire3.SYMLINK3args
	if args.Decode(&c.Args); c.Args.Err() != nil {
		return rpc.GarbageArgs
	}
	return s.makeName(c, &args.Where, &args.Symlink.SymlinkAttributes,
		func(v *vfs.View, dir vfs.Node, sa *vfs.SetAttr) (vfs.Entry, vfs.Change, error) {
			return v.Symlink(dir, args.Where.Name, args.Symlink.SymlinkData, sa)
		})
}

// Largest device numbers that the kernel's 32-bit encoding holds (MINORBITS 20).
const (
	maxMajor = 1<<12 - 1
	maxMinor = 1<<20 - 1
)

func (s *Service) mknod(c *rpc.Call) rpc.Verdict {
	var args wire3.MKNOD3args
	if args.Decode(&c.Args); c.Args.Err() != nil {
		return rpc.GarbageArgs
	}
	w := &args.What
	attrs := &w.PipeAttributes
	if w.Type == wire3.NF3CHR || w.Type == wire3.NF3BLK {
		attrs = &w.Device.DevAttributes
	}
	return s.makeName(c, &args.Where, attrs,
		func(v *vfs.View, dir vfs.Node, sa *vfs.SetAttr) (vfs.Entry, vfs.Change, error) {
			major, minor := w.Device.Spec.Specdata1, w.Device.Spec.Specdata2
			switch w.Type {
			case wire3.NF3CHR, wire3.NF3BLK:
				if major > maxMajor || minor > maxMinor {
					// mknod would make another device of it; Linux refuses too.
					return vfs.Entry{}, vfs.Change{}, unix.EINVAL
				}
			case wire3.NF3SOCK, wire3.NF3FIFO:
			default:
				return vfs.Entry{}, vfs.Change{}, vfs.ErrBadType // RFC 1813, 3.3.11
			}
			sa.SetSize = false
			return v.Mknod(dir, args.Where.Name, vfs.Type(w.Type), major, minor, sa)
		})
}

// makeName runs one of the four and encodes its result.
func (s *Service) makeName(c *rpc.Call, where *wire3.Diropargs3, attrs *wire3.Sattr3,
	op func(*vfs.View, vfs.Node, *vfs.SetAttr) (vfs.Entry, vfs.Change, error)) rpc.Verdict {
	v, dir, err := s.view(c, where.Dir.Data)
	var ent vfs.Entry
	var ch vfs.Change
	if err == nil {
		var sa vfs.SetAttr
		if err = getSattr(&sa, attrs); err == nil {
			ent, ch, err = op(&v, dir, &sa)
		}
		if err != nil && !again(c, err) {
			afterChange(&v, dir, &ch)
		}
		v.Close()
	}
	if again(c, err) {
		return rpc.WouldBlock
	}
	putStatus(c, status(err))
	var res wire3.CREATE3resok // MKDIR3resok, SYMLINK3resok and MKNOD3resok by other names
	putWcc(&res.DirWcc, &ch)
	if err != nil {
		res.DirWcc.Encode(c.Reply)
		return rpc.Done
	}
	putEntry(&res.Obj, &res.ObjAttributes, &ent)
	res.Encode(c.Reply)
	return rpc.Done
}
