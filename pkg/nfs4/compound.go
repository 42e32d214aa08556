// The interpreter of COMPOUND.
//
// Plan: the reply grows operation by operation: number, a word for the status,
// and what the operation appends; the status is filled in when it is known. An
// operation that fails is cut back to its status, unless its result has a body
// for that.
//
// Calls come in on a thread that must not sleep. A look ahead over the
// operations' numbers (peek.go) sends what will sleep to the slow pool before
// anything has happened. What only may sleep (a READ) says so when it comes to
// it (wouldBlock): then the COMPOUND is run again there from its start, which
// is right as long as nothing has had an effect; SEQUENCE's slot is given back.
// After the first operation with an effect the rest runs where it is, sleeping
// or not: rpc replaces service threads that sleep.
//
// Room for the reply is looked after in two ways. Operations with an effect
// have their largest reply in the table and are not begun without room for it.
// Others run, and are cut back when there was none.

package nfs4

import (
	"hash/maphash"

	"sluice/pkg/state"
	"sluice/pkg/stats"
	"sluice/pkg/vfs"
	"sluice/rpc"
	"sluice/xdr"
	wire "sluice/xdr/nfs4"
)

const (
	maxTag = 128 // bytes; Linux refuses longer ones, too

	callHeader = 80 // of a call with a short AUTH_SYS credential: ca_maxrequestsize counts it
	rpcHeader  = 24 // of an accepted reply: ca_maxresponsesize counts it
	errorRoom  = 16 // number and status of a failing operation, and SETATTR's empty bitmap

	maxCounted = 128 // operations of one COMPOUND in the statistics

	digestBytes = 256 // of a request are compared when a slot's sequence id comes again
)

// handle is a file handle of ours.
type handle struct {
	n uint8
	b [64]byte
}

func (h *handle) bytes() []byte { return h.b[:h.n] }

func (h *handle) set(b []byte) { h.n = uint8(copy(h.b[:], b)) }

// compound is a COMPOUND at work. Each thread has one and uses it again and again.
type compound struct {
	s  *Service
	fs *vfs.Thread // nil: could not be made

	rc    *rpc.Call
	d     *xdr.Decoder
	e     *xdr.Encoder
	minor uint32

	caller vfs.Caller
	call   state.Call

	cur, saved handle // n is 0 when there is none
	view       vfs.View
	node       vfs.Node // of cur, when open
	open       bool

	sid, savedSid       state.Stateid // the current stateid (RFC 8881, 16.2.3.1.2)
	hasSid, hasSavedSid bool

	ops, index int
	base       int    // e.Len() where the results begin
	limit      int    // e.Len() must not pass it
	tooBig     status // what is said then
	cacheThis  bool
	sequence   bool // SEQUENCE has taken a slot
	uncached   bool // SEQUENCE found a retry whose reply was not kept
	size       int  // of the request, in bytes
	asked      asked
	effects    bool // something has been changed
	keepBody   bool // the failing operation's result has a body
	replay     []byte
	reads      int // READs so far
	num        uint8
	ran        [maxCounted]uint8 // the operations so far, for opCounters

	src  attrSource
	set  attrSetter
	dir  dirWriter
	path [vfs.MaxPath + 1]byte
}

func (c *compound) init(s *Service, fs *vfs.Thread) {
	c.s, c.fs = s, fs
	c.dir.init(c)
}

// begin takes a call up.
func (c *compound) begin(rc *rpc.Call) {
	c.rc, c.d, c.e = rc, &rc.Args, rc.Reply
	peer := rc.Peer()
	c.caller = vfs.Caller{
		Addr: peer.Addr(), Port: peer.Port(),
		Cred:     vfs.Cred{UID: rc.Cred.UID, GID: rc.Cred.GID, Groups: rc.Cred.Groups, Flavor: rc.Cred.Flavor},
		XID:      rc.XID,
		MayBlock: rc.MayBlock,
		V4:       true,
	}
	c.call.Reset()
	c.call.MayBlock = rc.MayBlock
	c.call.Principal = state.Principal{Flavor: rc.Cred.Flavor, UID: rc.Cred.UID, GID: rc.Cred.GID}
	c.call.Conn = 1
	if rc.Conn != nil {
		c.caller.Splice = rc.Conn.Plain()
		switch m := rc.Conn.Data.(type) {
		case *vfs.ClientMemo:
			c.caller.Memo = m
		case Memoed:
			c.caller.Memo = m.ClientMemo()
		}
		c.call.Conn = rc.Conn.ID()
	}
	c.cur.n, c.saved.n = 0, 0
	c.open, c.hasSid, c.hasSavedSid = false, false, false
	c.cacheThis, c.sequence, c.uncached, c.effects, c.keepBody, c.replay, c.reads = false, false, false, false, false, nil, 0
	c.size = callHeader + rc.Args.Len()
}

// end lets go of everything the call held.
func (c *compound) end() {
	c.close()
	c.rc, c.d, c.e, c.replay = nil, nil, nil, nil
	c.caller = vfs.Caller{}
}

// compound is procedure 1.
func (s *Service) compound(rc *rpc.Call) rpc.Verdict {
	c := &rc.Thread.Local.(Threaded).NFS4().comp
	c.begin(rc)
	v := c.run()
	c.end()
	return v
}

func (c *compound) run() rpc.Verdict {
	var args wire.COMPOUND4args
	args.Decode(c.d)
	if c.d.Err() != nil || len(args.Tag) > maxTag {
		return rpc.GarbageArgs
	}
	e := c.e
	begin, at := e.Mark(), len(e.Bytes())
	c.base = e.Len()
	c.minor, c.ops = args.Minorversion, args.Argarray
	c.limit, c.tooBig = c.base+c.s.cfg.MaxReply, wire.NFS4ERR_RESOURCE
	if c.minor > 0 {
		c.limit, c.tooBig = c.base+sessionlessReply, wire.NFS4ERR_REP_TOO_BIG
	}
	e.Uint32(uint32(ok))
	e.Opaque(args.Tag)
	countAt := len(e.Bytes())
	e.Uint32(0)
	if c.minor < c.s.cfg.MinMinor || c.minor > c.s.cfg.MaxMinor {
		e.PatchUint32(at, uint32(wire.NFS4ERR_MINOR_VERS_MISMATCH))
		return rpc.Done
	}
	c.call.Minor = uint8(c.minor)
	if !c.rc.MayBlock {
		if quick, _ := peek(*c.d, c.ops); !quick {
			return rpc.WouldBlock
		}
	}

	st, done := ok, 0
	for c.index = 0; c.index < c.ops && st == ok; c.index++ {
		st = c.one()
		if st == wouldBlock {
			c.close()
			if c.sequence {
				c.s.st.SequenceUndo(&c.call)
			}
			return rpc.WouldBlock
		}
		if st == replayed { // of the whole COMPOUND
			e.Rollback(begin)
			c.putReplay(args.Tag)
			return rpc.Done
		}
		if done < maxCounted {
			c.ran[done] = c.num
		}
		done++
	}
	c.s.counts.add(stats.Shard(c.rc.Thread.ID), c.ran[:min(done, maxCounted)], st)
	e.PatchUint32(at, uint32(st))
	e.PatchUint32(countAt, uint32(done))
	if c.sequence {
		var reply []byte
		if b := e.Bytes()[at:]; e.Len()-c.base == len(b) { // no payload beside the bytes
			reply = b
		}
		c.s.st.SequenceDone(&c.call, reply)
	}
	return rpc.Done
}

// sessionlessReply bounds the replies of operations outside of a session, in bytes.
const sessionlessReply = 4096

// putReplay answers with a slot's reply, under the tag of this request.
func (c *compound) putReplay(tag []byte) {
	var d xdr.Decoder
	d.Reset(c.replay)
	c.e.Uint32(d.Uint32())
	c.e.Opaque(tag)
	d.Opaque(maxTag)
	c.e.Fixed(d.Next(d.Len()))
}

// one runs the next operation and encodes its result.
func (c *compound) one() status {
	e := c.e
	num := c.d.Uint32()
	c.num = 0
	if c.d.Err() != nil {
		e.Uint32(uint32(wire.OP_ILLEGAL))
		e.Uint32(uint32(wire.NFS4ERR_BADXDR))
		return wire.NFS4ERR_BADXDR
	}
	row := lookupOp(num, c.minor)
	if row == nil {
		e.Uint32(uint32(wire.OP_ILLEGAL))
		e.Uint32(uint32(wire.NFS4ERR_OP_ILLEGAL))
		return wire.NFS4ERR_OP_ILLEGAL
	}
	c.num = uint8(num)
	e.Uint32(num)
	at := len(e.Bytes())
	e.Uint32(0)
	body := e.Mark()
	c.keepBody = false
	st := c.allowed(num, row)
	if st == ok {
		st = row.run(c)
		if c.open {
			c.view.Settle()
		}
		if st != wouldBlock && row.flags&effect != 0 {
			c.began()
		}
		if st == replayed && row.flags&seqid == 0 {
			return st
		}
	} else if num == uint32(wire.OP_SETATTR) {
		c.emptyBitmap()
	}
	if st == wouldBlock {
		if row.flags&seqid != 0 {
			c.s.st.OwnerDone(&c.call, false, nil, nil)
		}
		return st
	}
	if st == replayed { // an owner's last answer again
		e.Rollback(body)
		if r := c.call.Replay(); len(r) >= 4 {
			var d xdr.Decoder
			d.Reset(r)
			st = status(d.Uint32())
			e.Fixed(d.Next(d.Len()))
			if fh := c.call.ReplayFH(); st == ok && len(fh) > 0 {
				c.setFH(fh)
			}
		} else {
			st = wire.NFS4ERR_BAD_SEQID
		}
	} else {
		if st != ok && !c.keepBody {
			e.Rollback(body)
		}
		limit := c.limit
		if c.index+1 < c.ops {
			limit -= errorRoom
		}
		if e.Len() > limit && row.flags&effect == 0 {
			if c.sequence && c.index == 0 { // SEQUENCE's own result does not fit: as if it had not been
				c.s.st.SequenceUndo(&c.call)
				c.sequence = false
			}
			e.Rollback(body)
			st = c.tooBig
		}
	}
	e.PatchUint32(at, uint32(st))
	if row.flags&seqid != 0 {
		c.s.st.OwnerDone(&c.call, bumps(st), e.Bytes()[at:], c.cur.bytes())
	}
	return st
}

// bumps tells whether an operation with this result used up its owner's seqid (RFC 7530, 9.1.7).
func bumps(st status) bool {
	switch st {
	case wire.NFS4ERR_STALE_CLIENTID, wire.NFS4ERR_STALE_STATEID, wire.NFS4ERR_BAD_STATEID, wire.NFS4ERR_BAD_SEQID,
		wire.NFS4ERR_BADXDR, wire.NFS4ERR_RESOURCE, wire.NFS4ERR_NOFILEHANDLE, wire.NFS4ERR_MOVED:
		return false
	}
	return true
}

// began notes that something has been changed: from here on the COMPOUND cannot run again elsewhere.
func (c *compound) began() {
	c.effects = true
	c.caller.MayBlock, c.call.MayBlock = true, true
}

// allowed checks what the table says of an operation.
func (c *compound) allowed(num uint32, row *opRow) status {
	if c.minor == 0 {
		if c.index >= c.s.cfg.MaxOps {
			return wire.NFS4ERR_RESOURCE
		}
	} else if c.index == 0 {
		switch {
		case row.flags&sessionless == 0:
			return wire.NFS4ERR_OP_NOT_IN_SESSION
		case c.ops > 1 && num != uint32(wire.OP_SEQUENCE):
			return wire.NFS4ERR_NOT_ONLY_OP
		}
	} else if num == uint32(wire.OP_SEQUENCE) {
		return wire.NFS4ERR_SEQUENCE_POS
	}
	if c.uncached {
		return wire.NFS4ERR_RETRY_UNCACHED_REP
	}
	if c.fs == nil {
		return wire.NFS4ERR_DELAY
	}
	if row.minors&(1<<c.minor) == 0 || row.run == nil {
		return wire.NFS4ERR_NOTSUPP
	}
	if row.flags&needFH != 0 && c.cur.n == 0 || row.flags&needSaved != 0 && c.saved.n == 0 {
		return wire.NFS4ERR_NOFILEHANDLE
	}
	if row.flags&effect != 0 {
		room := c.limit - c.e.Len()
		if c.index+1 < c.ops {
			room -= errorRoom
		}
		if room < int(row.reply) {
			return c.tooBig
		}
	}
	return ok
}

// bad tells whether an operation's arguments did not decode.
func (c *compound) bad() bool { return c.d.Err() != nil }

// setFH makes fh the current file handle, without a current stateid.
func (c *compound) setFH(fh []byte) {
	c.close()
	c.cur.set(fh)
	c.hasSid = false
}

// openFH opens the current file handle; the View stays open while the handle does.
func (c *compound) openFH() status {
	if c.open {
		return ok
	}
	c.caller.Opened, c.caller.Owner = false, uint64(c.call.ClientID())
	v, n, err := c.s.ns.View(c.fs, &c.caller, c.cur.bytes())
	if err != nil {
		return c.statusOf(err)
	}
	c.view, c.node, c.open = v, n, true
	return ok
}

// close closes the View.
func (c *compound) close() {
	if c.open {
		c.open = false
		c.view.Close()
		c.view, c.node = vfs.View{}, vfs.Node{}
	}
}

// stateid gives the stateid that an argument means: the current one for its special value.
func (c *compound) stateid(w *wire.Stateid4) (state.Stateid, status) {
	s := state.Stateid{Seqid: w.Seqid, Other: w.Other}
	if c.minor > 0 && s == state.CurrentStateid {
		if !c.hasSid {
			return s, wire.NFS4ERR_BAD_STATEID
		}
		return c.sid, ok
	}
	return s, ok
}

// setSid makes s the current stateid.
func (c *compound) setSid(s state.Stateid) { c.sid, c.hasSid = s, true }

func putStateid(s state.Stateid) wire.Stateid4 { return wire.Stateid4{Seqid: s.Seqid, Other: s.Other} }

// digest tells requests apart that use one slot and sequence id (RFC 8881, 2.10.6.1.3.1): their length and their first bytes after SEQUENCE.
func (c *compound) digest() uint64 {
	d := *c.d
	n := d.Len()
	if n == 0 {
		return 0
	}
	b := d.Next(min(n, digestBytes))
	return maphash.Bytes(c.s.seed, b[:min(n, digestBytes)]) + uint64(n)
}

func (c *compound) emptyBitmap() {
	c.e.Uint32(0)
	c.keepBody = true
}
