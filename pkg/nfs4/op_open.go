// OPEN, OPEN_CONFIRM, OPEN_DOWNGRADE, CLOSE (RFC 7530, 16.2, 16.16 to 16.19; RFC
// 8881, 18.2, 18.16, 18.18).
//
// Plan of OPEN: state looks at the owner first (for 4.0 its seqid, grace); then
// the file is found or made; then state has its say on shares and delegations;
// and last the file is truncated if that was asked for, since that must not
// happen to a file that somebody else has denied.

package nfs4

import (
	"golang.org/x/sys/unix"

	"sluice/pkg/state"
	"sluice/pkg/vfs"
	wire "sluice/xdr/nfs4"
)

// wantBits are what may be in share_access beside the access, from 4.1 on. Delegated timestamps (RFC 9754, 5) may be wanted, but
// are not given: a server in user space cannot set the change time that goes with them.
const wantBits = wire.OPEN4_SHARE_ACCESS_WANT_DELEG_MASK | wire.OPEN4_SHARE_ACCESS_WANT_SIGNAL_DELEG_WHEN_RESRC_AVAIL |
	wire.OPEN4_SHARE_ACCESS_WANT_PUSH_DELEG_WHEN_UNCONTENDED | wire.OPEN4_SHARE_ACCESS_WANT_DELEG_TIMESTAMPS |
	wire.OPEN4_SHARE_ACCESS_WANT_OPEN_XOR_DELEGATION

// opened is the file's part of an OPEN.
type opened struct {
	created  bool
	truncate bool
	change   vfs.Change // of the directory
	attr     vfs.Attr
	set      words // what was set
}

func (c *compound) opOpen() status {
	var args wire.OPEN4args
	if args.Decode(c.d); c.bad() {
		return wire.NFS4ERR_BADXDR
	}
	claim := args.Claim.Claim
	create := args.Openhow.Opentype == wire.OPEN4_CREATE
	if c.minor == 0 && (claim > wire.CLAIM_DELEGATE_PREV || create && args.Openhow.How.Mode == wire.EXCLUSIVE4_1) {
		return wire.NFS4ERR_BADXDR
	}
	access, want := args.ShareAccess&wire.OPEN4_SHARE_ACCESS_BOTH, args.ShareAccess&^wire.OPEN4_SHARE_ACCESS_BOTH
	if c.minor == 0 && want != 0 || want&^wantBits != 0 || access == 0 || args.ShareDeny&^wire.OPEN4_SHARE_DENY_BOTH != 0 ||
		want&wire.OPEN4_SHARE_ACCESS_WANT_DELEG_MASK > wire.OPEN4_SHARE_ACCESS_WANT_CANCEL {
		return wire.NFS4ERR_INVAL
	}

	b := state.OpenBeginArgs{ClientID: state.ClientID(args.Owner.Clientid), Owner: args.Owner.Owner, Seqid: args.Seqid, Claim: state.Claim(claim)}
	var st status
	switch claim {
	case wire.CLAIM_DELEGATE_CUR:
		b.Deleg, st = c.stateid(&args.Claim.DelegateCurInfo.DelegateStateid)
	case wire.CLAIM_DELEG_CUR_FH:
		b.Deleg, st = c.stateid(&args.Claim.OcDelegateStateid)
	}
	if st != ok {
		return st
	}
	if err := c.s.st.OpenBegin(&c.call, &b); err != nil {
		return c.statusOf(err)
	}
	// From here on the owner's seqid counts, whatever comes.
	if create && claim != wire.CLAIM_NULL {
		return wire.NFS4ERR_INVAL
	}
	var o opened
	switch claim {
	case wire.CLAIM_NULL:
		st = c.openName(&args, args.Claim.File, &o)
	case wire.CLAIM_DELEGATE_CUR:
		st = c.openName(&args, args.Claim.DelegateCurInfo.File, &o)
	case wire.CLAIM_PREVIOUS, wire.CLAIM_FH, wire.CLAIM_DELEG_CUR_FH:
		st = c.openCurrent(&o)
	default: // CLAIM_DELEGATE_PREV, CLAIM_DELEG_PREV_FH: delegations do not outlive their client here
		st = wire.NFS4ERR_NOTSUPP
	}
	if st != ok {
		return st
	}
	if !o.created {
		if st := c.openCheck(access&wire.OPEN4_SHARE_ACCESS_READ != 0, access&wire.OPEN4_SHARE_ACCESS_WRITE != 0 || o.truncate); st != ok {
			return st
		}
	}

	r, err := c.s.st.Open(&c.call, &state.OpenArgs{
		File: c.key(), FH: c.cur.bytes(), Access: uint8(access), Deny: uint8(args.ShareDeny), Created: o.created, Truncate: o.truncate,
		Claim: state.Claim(claim), Deleg: b.Deleg, Previous: previous(args.Claim.DelegateType),
		Want:    state.Want(want & wire.OPEN4_SHARE_ACCESS_WANT_DELEG_MASK >> 8),
		WantXor: want&wire.OPEN4_SHARE_ACCESS_WANT_OPEN_XOR_DELEGATION != 0,
		Regular: true, Change: o.attr.Change, Pin: c.view.PinOpen(c.node),
	})
	if err != nil {
		return c.statusOf(err)
	}
	if o.truncate {
		c.caller.Opened, c.caller.Owner = true, uint64(c.call.ClientID())
		ch, err := c.view.Setattr(c.node, &vfs.SetAttr{SetSize: true})
		if err != nil {
			c.s.st.OpenUndo(&c.call)
			return c.statusOf(err)
		}
		c.s.st.OpenChanged(&c.call, ch.After.Change)
		o.set.set(wire.FATTR4_SIZE)
	}

	res := wire.OPEN4resok{Stateid: putStateid(r.Stateid), Cinfo: cinfo(&o.change), Rflags: wire.OPEN4_RESULT_LOCKTYPE_POSIX, Attrset: wire.NewBitmap4(o.set)}
	if r.Confirm {
		res.Rflags |= wire.OPEN4_RESULT_CONFIRM
	}
	if r.MayNotify {
		res.Rflags |= wire.OPEN4_RESULT_MAY_NOTIFY_LOCK
	}
	if r.NoStateid {
		res.Rflags |= wire.OPEN4_RESULT_NO_OPEN_STATEID
	}
	putDelegation(&res.Delegation, &r.Deleg, want != 0)
	res.Encode(c.e)
	c.setSid(r.Stateid)
	return ok
}

// previous is the kind of delegation that CLAIM_PREVIOUS wants back.
func previous(t wire.OpenDelegationType4) state.DelegType {
	switch t {
	case wire.OPEN_DELEGATE_READ:
		return state.DelegRead
	case wire.OPEN_DELEGATE_WRITE:
		return state.DelegWrite
	}
	return state.DelegNone
}

// putDelegation makes open_delegation4. asked: the client said what it wants, so that it may be told why it gets none.
func putDelegation(w *wire.OpenDelegation4, d *state.Delegation, asked bool) {
	none := wire.Nfsace4{} // nobody but who ACCESS names, as Linux
	switch d.Type {
	case state.DelegRead:
		w.DelegationType = wire.OPEN_DELEGATE_READ
		w.Read = wire.OpenReadDelegation4{Stateid: putStateid(d.Stateid), Recall: d.Recall, Permissions: none}
	case state.DelegWrite:
		w.DelegationType = wire.OPEN_DELEGATE_WRITE
		w.Write = wire.OpenWriteDelegation4{Stateid: putStateid(d.Stateid), Recall: d.Recall, Permissions: none,
			SpaceLimit: wire.NfsSpaceLimit4{Limitby: wire.NFS_LIMIT_SIZE, Filesize: wire.NFS4_UINT64_MAX}}
	default:
		if asked {
			w.DelegationType = wire.OPEN_DELEGATE_NONE_EXT
			w.OdWhynone.OndWhy = wire.WhyNoDelegation4(d.Why)
		}
	}
}

// openable checks the type of a file that is to be opened. pynfs wants SYMLINK from 4.0 for whatever is no file (OPEN7*).
func (c *compound) openable(t vfs.Type) status {
	switch {
	case t == vfs.TypeReg:
		return ok
	case t == vfs.TypeDir:
		return wire.NFS4ERR_ISDIR
	case t == vfs.TypeLnk || c.minor == 0:
		return wire.NFS4ERR_SYMLINK
	}
	return wire.NFS4ERR_WRONG_TYPE
}

// openCurrent takes the current file.
func (c *compound) openCurrent(o *opened) status {
	if st := c.openFH(); st != ok {
		return st
	}
	if st := c.openable(c.node.Type()); st != ok {
		return st
	}
	var err error
	o.attr, err = c.view.Getattr(c.node)
	return c.statusOf(err)
}

// openName finds or makes a name in the current directory, and makes the file the current one.
func (c *compound) openName(args *wire.OPEN4args, name []byte, o *opened) status {
	if st := c.openFH(); st != ok {
		return st
	}
	if st := c.directory(wire.NFS4ERR_SYMLINK); st != ok {
		return st
	}
	if st := c.checkName(name); st != ok {
		return st
	}
	if args.Openhow.Opentype != wire.OPEN4_CREATE {
		e, dir, err := c.view.Lookup(c.node, name)
		if err != nil {
			return c.statusOf(err)
		}
		return c.openFound(name, &e, &dir, o)
	}
	how, a := &args.Openhow.How, &c.set
	switch how.Mode {
	case wire.EXCLUSIVE4:
		a.take(c, &wire.Fattr4{}, true, nil)
	case wire.EXCLUSIVE4_1:
		if st := a.take(c, &how.ChCreateboth.CvaAttrs, true, &exclusive); st != ok {
			return st
		}
	default:
		if st := a.take(c, &how.Createattrs, true, nil); st != ok {
			return st
		}
	}
	a.applyUmask()
	switch how.Mode {
	case wire.UNCHECKED4, wire.GUARDED4:
		// A name that is there is opened as it is; only a size of 0 counts (RFC 7530, 16.16.4). Names come and go meanwhile.
		for try := 0; ; try++ {
			if how.Mode == wire.UNCHECKED4 {
				e, dir, err := c.view.Lookup(c.node, name)
				if err == nil {
					o.truncate = a.s.SetSize && a.s.Size == 0
					return c.openFound(name, &e, &dir, o)
				}
				if err != unix.ENOENT {
					return c.statusOf(err)
				}
			}
			e, ch, err := c.view.Create(c.node, name, vfs.Guarded, [8]byte{}, &a.s)
			if err == unix.EEXIST && how.Mode == wire.UNCHECKED4 && try < 3 {
				continue
			}
			if err != nil {
				return c.statusOf(err)
			}
			return c.openMade(name, &e, &ch, a, o, false)
		}
	}
	kind, verf := vfs.Exclusive, how.Createverf
	if how.Mode == wire.EXCLUSIVE4_1 {
		kind, verf = vfs.Exclusive41, how.ChCreateboth.CvaVerf
	}
	e, ch, err := c.view.Create(c.node, name, kind, verf, &a.s)
	if err != nil {
		return c.statusOf(err)
	}
	return c.openMade(name, &e, &ch, a, o, true)
}

// openFound ends openName with a file that was there.
func (c *compound) openFound(name []byte, e *vfs.Entry, dir *vfs.Attr, o *opened) status {
	if st := c.openable(e.Attr.Type); st != ok {
		return st
	}
	o.attr = e.Attr
	o.change = vfs.Change{Before: *dir, After: *dir, BeforeOK: dir.Valid(), AfterOK: dir.Valid()}
	if st := c.enter(name, e); st != ok {
		return st
	}
	return c.openFH()
}

// openMade ends openName with a file that was made.
func (c *compound) openMade(name []byte, e *vfs.Entry, ch *vfs.Change, a *attrSetter, o *opened, verifier bool) status {
	c.began()
	o.created, o.change, o.set = true, *ch, a.w
	if verifier { // what holds it has still to be set by the client (RFC 8881, 18.16.3)
		o.set.set(wire.FATTR4_TIME_ACCESS)
		o.set.set(wire.FATTR4_TIME_MODIFY)
	}
	if st := c.enter(name, e); st != ok {
		return st
	}
	if st := c.openFH(); st != ok {
		return st
	}
	if st := c.openable(c.node.Type()); st != ok {
		return st // somebody has put something else in its place
	}
	if st := c.applyACL(a); st != ok {
		return st
	}
	var err error
	o.attr, err = c.view.Getattr(c.node)
	return c.statusOf(err)
}

func (c *compound) opOpenConfirm() status {
	var args wire.OPENCONFIRM4args
	if args.Decode(c.d); c.bad() {
		return wire.NFS4ERR_BADXDR
	}
	if st := c.openFH(); st != ok {
		return st
	}
	sid, st := c.stateid(&args.OpenStateid)
	if st != ok {
		return st
	}
	sid, err := c.s.st.OpenConfirm(&c.call, c.key(), sid, args.Seqid)
	return c.putSid(sid, err)
}

// putSid ends an operation whose result is a stateid.
func (c *compound) putSid(sid state.Stateid, err error) status {
	if err != nil {
		return c.statusOf(err)
	}
	c.setSid(sid)
	w := putStateid(sid)
	w.Encode(c.e)
	return ok
}

func (c *compound) opOpenDowngrade() status {
	var args wire.OPENDOWNGRADE4args
	if args.Decode(c.d); c.bad() {
		return wire.NFS4ERR_BADXDR
	}
	if c.minor > 0 {
		args.ShareAccess &^= wantBits // they are OPEN's; Linux overlooks them here
	}
	if args.ShareAccess == 0 || args.ShareAccess&^wire.OPEN4_SHARE_ACCESS_BOTH != 0 || args.ShareDeny&^wire.OPEN4_SHARE_DENY_BOTH != 0 {
		return wire.NFS4ERR_INVAL
	}
	if st := c.openFH(); st != ok {
		return st
	}
	sid, st := c.stateid(&args.OpenStateid)
	if st != ok {
		return st
	}
	sid, err := c.s.st.OpenDowngrade(&c.call, c.key(), sid, args.Seqid, uint8(args.ShareAccess), uint8(args.ShareDeny))
	return c.putSid(sid, err)
}

func (c *compound) opClose() status {
	var args wire.CLOSE4args
	if args.Decode(c.d); c.bad() {
		return wire.NFS4ERR_BADXDR
	}
	if st := c.openFH(); st != ok {
		return st
	}
	sid, st := c.stateid(&args.OpenStateid)
	if st != ok {
		return st
	}
	sid, err := c.s.st.CloseFile(&c.call, c.key(), sid, args.Seqid)
	return c.putSid(sid, err)
}
