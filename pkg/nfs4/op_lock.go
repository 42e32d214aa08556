// LOCK, LOCKT, LOCKU (RFC 7530, 16.10 to 16.12) and DELEGRETURN.

package nfs4

import (
	"sluice/pkg/state"
	wire "sluice/xdr/nfs4"
)

// lockType gives the kind of a lock, and whether the client waits for it.
func lockType(t wire.NfsLockType4) (k state.LockType, waits bool) {
	switch t {
	case wire.READ_LT:
		return state.ReadLock, false
	case wire.READW_LT:
		return state.ReadLock, true
	case wire.WRITEW_LT:
		return state.WriteLock, true
	}
	return state.WriteLock, false
}

// putDenied appends the lock in the way.
func (c *compound) putDenied(x *state.LockConflict) {
	d := wire.LOCK4denied{Offset: x.Start, Length: x.Length(), Locktype: wire.WRITE_LT,
		Owner: wire.StateOwner4{Clientid: uint64(x.Owner.Client), Owner: []byte(x.Owner.Owner)}}
	if x.Type == state.ReadLock {
		d.Locktype = wire.READ_LT
	}
	if len(d.Owner.Owner) > wire.NFS4_OPAQUE_LIMIT {
		d.Owner.Owner = d.Owner.Owner[:wire.NFS4_OPAQUE_LIMIT]
	}
	d.Encode(c.e)
	c.keepBody = true
}

// lockable checks that the current file can be locked.
func (c *compound) lockable() status {
	if st := c.openFH(); st != ok {
		return st
	}
	return c.regular()
}

func (c *compound) opLock() status {
	var args wire.LOCK4args
	if args.Decode(c.d); c.bad() {
		return wire.NFS4ERR_BADXDR
	}
	if st := c.lockable(); st != ok {
		return st
	}
	a := state.LockArgs{File: c.key(), FH: c.cur.bytes(), Reclaim: args.Reclaim, Offset: args.Offset, Length: args.Length, New: args.Locker.NewLockOwner}
	a.Type, a.Blocking = lockType(args.Locktype)
	var st status
	if o := &args.Locker.OpenOwner; a.New {
		a.OpenSeqid, a.LockSeqid = o.OpenSeqid, o.LockSeqid
		a.ClientID, a.Owner = state.ClientID(o.LockOwner.Clientid), o.LockOwner.Owner
		a.OpenStateid, st = c.stateid(&o.OpenStateid)
	} else {
		a.LockSeqid = args.Locker.LockOwner.LockSeqid
		a.LockStateid, st = c.stateid(&args.Locker.LockOwner.LockStateid)
	}
	if st != ok {
		return st
	}
	sid, conflict, err := c.s.st.Lock(&c.call, &a)
	if err != nil {
		st := c.statusOf(err)
		if st == wire.NFS4ERR_DENIED {
			c.putDenied(&conflict)
		}
		return st
	}
	c.setSid(sid)
	w := putStateid(sid)
	w.Encode(c.e)
	return ok
}

func (c *compound) opLockT() status {
	var args wire.LOCKT4args
	if args.Decode(c.d); c.bad() {
		return wire.NFS4ERR_BADXDR
	}
	if st := c.lockable(); st != ok {
		return st
	}
	t, _ := lockType(args.Locktype)
	conflict, err := c.s.st.TestLock(&c.call, &state.TestLockArgs{File: c.key(), Type: t, Offset: args.Offset, Length: args.Length,
		ClientID: state.ClientID(args.Owner.Clientid), Owner: args.Owner.Owner})
	st := c.statusOf(err)
	if st == wire.NFS4ERR_DENIED {
		c.putDenied(&conflict)
	}
	return st
}

func (c *compound) opLockU() status {
	var args wire.LOCKU4args
	if args.Decode(c.d); c.bad() {
		return wire.NFS4ERR_BADXDR
	}
	if st := c.lockable(); st != ok {
		return st
	}
	sid, st := c.stateid(&args.LockStateid)
	if st != ok {
		return st
	}
	sid, err := c.s.st.Unlock(&c.call, &state.UnlockArgs{File: c.key(), Seqid: args.Seqid, Stateid: sid, Offset: args.Offset, Length: args.Length})
	if err != nil {
		return c.statusOf(err)
	}
	c.setSid(sid)
	w := putStateid(sid)
	w.Encode(c.e)
	return ok
}

func (c *compound) opDelegReturn() status {
	var args wire.DELEGRETURN4args
	if args.Decode(c.d); c.bad() {
		return wire.NFS4ERR_BADXDR
	}
	if st := c.openFH(); st != ok {
		return st
	}
	sid, st := c.stateid(&args.DelegStateid)
	if st != ok {
		return st
	}
	return c.statusOf(c.s.st.DelegReturn(&c.call, c.key(), sid))
}
