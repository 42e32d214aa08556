// Data operations of 4.2: READ_PLUS, SEEK, ALLOCATE, DEALLOCATE, IO_ADVISE (RFC
// 7862, 15).

package nfs4

import (
	"golang.org/x/sys/unix"

	"sluice/pkg/state"
	wire "sluice/xdr/nfs4"
)

// maxSegments bounds the stretches of data and holes in one READ_PLUS answer: each takes two or three system calls.
const maxSegments = 16

const (
	holeLen     = 4 + 8 + 8 // of a hole on the wire
	dataHeadLen = 4 + 8 + 4 // of data, before the bytes
)

// opReadPlus answers holes as holes. Data is read as by READ, each stretch on its own; only the first may go direct.
func (c *compound) opReadPlus() status {
	var args wire.READPLUS4args
	if args.Decode(c.d); c.bad() {
		return wire.NFS4ERR_BADXDR
	}
	if st := c.openFH(); st != ok {
		return st
	}
	if st := c.regular(); st != ok {
		return st
	}
	if st := c.checkIO(&args.RpaStateid, state.AccessRead); st != ok {
		return st
	}
	count, st := c.dataRoom(args.RpaCount, 8+maxSegments*holeLen)
	if st != ok {
		return st
	}
	e := c.e
	at := len(e.Bytes())
	e.Uint32(0) // eof
	e.Uint32(0) // segments
	seeks := true
	off, end := args.RpaOffset, args.RpaOffset+uint64(count)
	if end < off {
		end = ^uint64(0)
	}
	segments, eof := uint32(0), false
	for segments < maxSegments {
		data, next := off, end // the next data, and where it ends
		if seeks && off < end {
			d, _, err := c.view.Seek(c.node, off, false)
			switch {
			case err == nil:
				data = min(d, end)
			case err == unix.ENXIO: // a hole to the end of the file, or past it
				a, aerr := c.view.Getattr(c.node)
				if aerr != nil {
					return c.statusOf(aerr)
				}
				data, eof = min(max(a.Size, off), end), a.Size <= end
				next = data
			case err == unix.EINVAL || err == unix.EOPNOTSUPP:
				seeks = false
			default:
				return c.statusOf(err)
			}
			if data > off {
				e.Uint32(uint32(wire.NFS4_CONTENT_HOLE))
				e.Uint64(off)
				e.Uint64(data - off)
				segments++
				off = data
			}
			if eof || off >= end || segments == maxSegments {
				break
			}
			if seeks {
				h, _, err := c.view.Seek(c.node, off, true)
				if err == nil {
					next = min(h, end)
				} else if err != unix.ENXIO {
					return c.statusOf(err)
				}
			}
		}
		c.caller.NoDirect = c.reads > 0
		r, err := c.view.Read(c.node, off, uint32(next-off))
		if err != nil {
			return c.statusOf(err)
		}
		c.reads++
		eof = r.EOF
		if r.N > 0 {
			e.Uint32(uint32(wire.NFS4_CONTENT_DATA))
			e.Uint64(off)
			if st := c.putData(r.Data); st != ok {
				return st
			}
			segments++
			off += uint64(r.N)
		}
		if eof || r.N == 0 || off >= end {
			break
		}
	}
	if eof {
		e.PatchUint32(at, 1)
	}
	e.PatchUint32(at+4, segments)
	return ok
}

func (c *compound) opSeek() status {
	var args wire.SEEK4args
	if args.Decode(c.d); c.bad() {
		return wire.NFS4ERR_BADXDR
	}
	if st := c.openFH(); st != ok {
		return st
	}
	if st := c.regular(); st != ok {
		return st
	}
	if args.SaWhat != wire.NFS4_CONTENT_DATA && args.SaWhat != wire.NFS4_CONTENT_HOLE {
		return wire.NFS4ERR_UNION_NOTSUPP
	}
	if st := c.checkIO(&args.SaStateid, state.AccessRead); st != ok {
		return st
	}
	at, eof, err := c.view.Seek(c.node, args.SaOffset, args.SaWhat == wire.NFS4_CONTENT_HOLE)
	if err != nil {
		return c.statusOf(err)
	}
	res := wire.SeekRes4{SrEof: eof, SrOffset: at}
	res.Encode(c.e)
	return ok
}

func (c *compound) opAllocate() status {
	var args wire.ALLOCATE4args
	if args.Decode(c.d); c.bad() {
		return wire.NFS4ERR_BADXDR
	}
	return c.allocate(&args.AaStateid, args.AaOffset, args.AaLength, true)
}

func (c *compound) opDeallocate() status {
	var args wire.DEALLOCATE4args
	if args.Decode(c.d); c.bad() {
		return wire.NFS4ERR_BADXDR
	}
	return c.allocate(&args.DaStateid, args.DaOffset, args.DaLength, false)
}

func (c *compound) allocate(sid *wire.Stateid4, off, length uint64, alloc bool) status {
	if st := c.openFH(); st != ok {
		return st
	}
	if st := c.regular(); st != ok {
		return st
	}
	if st := c.checkIO(sid, state.AccessWrite); st != ok {
		return st
	}
	if length == 0 || off+length < off {
		return wire.NFS4ERR_INVAL
	}
	if alloc {
		return c.statusOf(c.view.Allocate(c.node, off, length))
	}
	return c.statusOf(c.view.Deallocate(c.node, off, length))
}

// adviceKnown are the hints that steer the data path.
var adviceKnown = wire.Bits(wire.IO_ADVISE4_NORMAL, wire.IO_ADVISE4_SEQUENTIAL, wire.IO_ADVISE4_RANDOM, wire.IO_ADVISE4_WILLNEED,
	wire.IO_ADVISE4_DONTNEED, wire.IO_ADVISE4_NOREUSE)

// opIOAdvise notes the hints on the open, where later READs find them (WRITEs have one way to go), and answers those that are of use.
func (c *compound) opIOAdvise() status {
	var args wire.IOADVISE4args
	if args.Decode(c.d); c.bad() {
		return wire.NFS4ERR_BADXDR
	}
	if st := c.openFH(); st != ok {
		return st
	}
	if st := c.regular(); st != ok {
		return st
	}
	if st := c.checkIO(&args.IaaStateid, state.AccessRead); st != ok {
		return st
	}
	sid, _ := c.stateid(&args.IaaStateid)
	hints := args.IaaHints.Words[0] & adviceKnown.Words[0]
	if !sid.Special() {
		if err := c.s.st.SetAdvice(&c.call, c.key(), sid, uint64(hints)); err != nil {
			return c.statusOf(err)
		}
	}
	if hints != 0 {
		if err := c.view.Advise(c.node, args.IaaOffset, args.IaaCount, uint64(hints)); err != nil {
			return c.statusOf(err)
		}
	}
	b := wire.NewBitmap4([wire.BitmapWords]uint32{hints})
	b.Encode(c.e)
	return ok
}
