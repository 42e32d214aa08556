// READ, WRITE and COMMIT.
//
// Plan: the stateid is checked by pkg/state for every call; permission by the
// View, for every call. Only the first READ of a COMPOUND may go direct: what
// follows it may depend on it.

package nfs4

import (
	"sluice/pkg/state"
	"sluice/pkg/vfs"
	"sluice/xdr"
	wire "sluice/xdr/nfs4"
)

// regular checks that the current file holds data. RFC 7530 has no code of its
// own for what is neither file, directory nor symbolic link (Linux and pynfs:
// INVAL); from 4.1 on it is WRONG_TYPE.
func (c *compound) regular() status { return c.regularType(c.node.Type()) }

func (c *compound) regularType(t vfs.Type) status {
	switch {
	case t == vfs.TypeReg:
		return ok
	case t == vfs.TypeDir:
		return wire.NFS4ERR_ISDIR
	case t == vfs.TypeLnk && c.minor > 0:
		return wire.NFS4ERR_SYMLINK
	case c.minor > 0:
		return wire.NFS4ERR_WRONG_TYPE
	}
	return wire.NFS4ERR_INVAL
}

// checkIO asks state whether a stateid allows an access to the current file.
func (c *compound) checkIO(w *wire.Stateid4, want state.Access) status {
	return c.checkIOOn(w, want, c.key())
}

func (c *compound) checkIOOn(w *wire.Stateid4, want state.Access, key state.FileKey) status {
	sid, st := c.stateid(w)
	if st != ok {
		return st
	}
	io, err := c.s.st.CheckIO(&c.call, key, sid, want)
	if err != nil {
		return c.statusOf(err)
	}
	c.caller.Opened, c.caller.Advice = io.Opened, io.Advice
	c.caller.Owner = uint64(io.Client)
	return ok
}

func (c *compound) opRead() status {
	var args wire.READ4args
	if args.Decode(c.d); c.bad() {
		return wire.NFS4ERR_BADXDR
	}
	if st := c.openFH(); st != ok {
		return st
	}
	if st := c.regular(); st != ok {
		return st
	}
	if st := c.checkIO(&args.Stateid, state.AccessRead); st != ok {
		return st
	}
	count, st := c.dataRoom(args.Count, 8)
	if st != ok {
		return st
	}
	c.caller.NoDirect = c.reads > 0
	r, err := c.view.Read(c.node, args.Offset, count)
	if err != nil {
		return c.statusOf(err)
	}
	c.reads++
	c.e.Bool(r.EOF)
	return c.putData(r.Data)
}

// dataRoom cuts a count of bytes to what the reply has room for, beside head other bytes: a short READ is no error. When the
// reply is to be cached, or there is room for next to nothing, it is too big.
func (c *compound) dataRoom(count uint32, head int) (uint32, status) {
	room := c.limit - c.e.Len() - head - 3
	if c.index+1 < c.ops {
		room -= errorRoom
	}
	if int(count) <= room {
		return count, ok
	}
	if c.cacheThis || room < 512 {
		return 0, c.tooBig
	}
	return uint32(room) &^ 3, ok
}

// putData appends a payload. What a slot is to keep a copy of must be bytes in the reply.
func (c *compound) putData(p xdr.Payload) status {
	if p == nil {
		c.e.Uint32(0)
		return ok
	}
	if c.cacheThis {
		b := make([]byte, p.Len())
		n, err := p.ReadAll(b)
		p.Release()
		if err != nil || n != len(b) {
			return wire.NFS4ERR_IO
		}
		c.e.Opaque(b)
		return ok
	}
	c.e.Payload(p)
	return ok
}

func (c *compound) opWrite() status {
	var args wire.WRITE4args
	if args.Decode(c.d); c.bad() {
		return wire.NFS4ERR_BADXDR
	}
	if st := c.openFH(); st != ok {
		return st
	}
	if st := c.regular(); st != ok {
		return st
	}
	if st := c.checkIO(&args.Stateid, state.AccessWrite); st != ok {
		return st
	}
	w, err := c.view.Write(c.node, args.Offset, args.Data, uint32(args.Stable))
	if err != nil {
		return c.statusOf(err)
	}
	res := wire.WRITE4resok{Count: uint32(w.N), Committed: wire.StableHow4(w.Committed), Writeverf: w.Verf}
	res.Encode(c.e)
	return ok
}

func (c *compound) opCommit() status {
	var args wire.COMMIT4args
	if args.Decode(c.d); c.bad() {
		return wire.NFS4ERR_BADXDR
	}
	if st := c.openFH(); st != ok {
		return st
	}
	if st := c.regular(); st != ok {
		return st
	}
	verf, _, err := c.view.Commit(c.node, args.Offset, args.Count)
	if err != nil {
		return c.statusOf(err)
	}
	c.e.Fixed(verf[:])
	return ok
}
