// NFS version 4.1 (RFC 8881): one client, a session of its own with one slot,
// and one session for each connection of the load.

package bench

import (
	"crypto/rand"
	"errors"
	"fmt"

	"sluice/rpc"
	"sluice/xdr"
	wire4 "sluice/xdr/nfs4"
)

type client4 struct {
	link
	id       uint64
	create1  uint32 // sequence id of the next CREATE_SESSION
	own      session
	seq      uint32
	sessions []session
	room     int // bytes that a request or a reply may have
	dir      []byte
	path     string
}

// op4 is an operation with its arguments, nil for none.
type op4 struct {
	num  wire4.NfsOpnum4
	args rpc.Encodable
}

// compound is a COMPOUND and, when it comes back, its results.
type compound struct {
	ops    []op4
	status wire4.Nfsstat4
	d      xdr.Decoder
}

func (c *compound) Encode(e *xdr.Encoder) {
	(&wire4.COMPOUND4args{Minorversion: 1, Argarray: len(c.ops)}).Encode(e)
	for _, o := range c.ops {
		e.Uint32(uint32(o.num))
		if o.args != nil {
			o.args.Encode(e)
		}
	}
}

func (c *compound) Decode(d *xdr.Decoder) {
	var h wire4.COMPOUND4res
	h.Decode(d)
	c.status = h.Status
	c.d.Reset(clone(d.Next(d.Len())))
}

// register makes the client known.
func (c *client4) register() error {
	var verifier wire4.Verifier4
	owner := make([]byte, 16)
	rand.Read(verifier[:])
	rand.Read(owner)
	var eid wire4.EXCHANGEID4res
	err := c.do("EXCHANGE_ID", []op4{{wire4.OP_EXCHANGE_ID, &wire4.EXCHANGEID4args{
		EiaClientowner: wire4.ClientOwner4{CoVerifier: verifier, CoOwnerid: fmt.Appendf(nil, "sluice bench %x", owner)},
		EiaFlags:       wire4.EXCHGID4_FLAG_USE_NON_PNFS,
	}}}, &eid)
	if err != nil {
		return err
	}
	c.id, c.create1 = eid.EirResok4.EirClientid, eid.EirResok4.EirSequenceid
	own, err := c.newSession(1)
	if err != nil {
		return err
	}
	c.own = *own
	return c.in("RECLAIM_COMPLETE", []op4{{wire4.OP_RECLAIM_COMPLETE, &wire4.RECLAIMCOMPLETE4args{}}}, nil)
}

func (c *client4) newSession(slots int) (*session, error) {
	room := uint32(c.room)
	fore := wire4.ChannelAttrs4{CaMaxrequestsize: room, CaMaxresponsesize: room, CaMaxresponsesizeCached: 2048, CaMaxoperations: 8, CaMaxrequests: uint32(slots)}
	back := wire4.ChannelAttrs4{CaMaxrequestsize: 4096, CaMaxresponsesize: 4096, CaMaxoperations: 2, CaMaxrequests: 1}
	var res wire4.CREATESESSION4res
	err := c.do("CREATE_SESSION", []op4{{wire4.OP_CREATE_SESSION, &wire4.CREATESESSION4args{
		CsaClientid: c.id, CsaSequence: c.create1, CsaForeChanAttrs: fore, CsaBackChanAttrs: back,
		CsaCbProgram: 0x40000000, CsaSecParms: []wire4.CallbackSecParms4{{}},
	}}}, &res)
	if err != nil {
		return nil, err
	}
	c.create1++
	got := res.CsrResok4.CsrForeChanAttrs
	s := session{id: res.CsrResok4.CsrSessionid, slots: int(got.CaMaxrequests)}
	c.sessions = append(c.sessions, s)
	if s.slots < slots {
		return nil, fmt.Errorf("%v gives a session %d slots, and %d calls are to be in flight on it; use a smaller --iodepth, or more --connections", c.at, s.slots, slots)
	}
	if int(got.CaMaxrequestsize) < c.room || int(got.CaMaxresponsesize) < c.room {
		return nil, fmt.Errorf("%v takes requests of %d bytes and gives replies of %d, which is too small for blocks of %d; use a smaller --bs", c.at,
			got.CaMaxrequestsize, got.CaMaxresponsesize, c.room-headRoom)
	}
	return &s, nil
}

// headRoom is what a request or a reply may have beside the data.
const headRoom = 1024

// do makes a call outside of a session; res is for the last operation.
func (c *client4) do(what string, ops []op4, res ...rpc.Decodable) error {
	return untilServed(c.ctx, func() error {
		r := &compound{ops: ops}
		if err := c.Call(wire4.NFS4_PROGRAM, wire4.NFS_V4, wire4.NFSPROC4_COMPOUND, r, r); err != nil {
			return explainRPC(what, c.at, err)
		}
		return c.results(what, r, res)
	})
}

// in makes a call in the client's own session. The results of the last
// operations go to res, nil for one that is a status alone.
func (c *client4) in(what string, ops []op4, res ...rpc.Decodable) error {
	return untilServed(c.ctx, func() error {
		seq := op4{wire4.OP_SEQUENCE, &wire4.SEQUENCE4args{SaSessionid: c.own.id, SaSequenceid: c.seq + 1}}
		r := &compound{ops: append([]op4{seq}, ops...)}
		if err := c.Call(wire4.NFS4_PROGRAM, wire4.NFS_V4, wire4.NFSPROC4_COMPOUND, r, r); err != nil {
			return explainRPC(what, c.at, err)
		}
		probe := r.d
		if probe.Uint32(); probe.Uint32() == 0 && probe.Err() == nil {
			c.seq++ // the slot is used up
		}
		return c.results(what, r, res)
	})
}

func (c *client4) results(what string, r *compound, res []rpc.Decodable) error {
	for i, o := range r.ops {
		probe := r.d
		num, st := wire4.NfsOpnum4(probe.Int32()), wire4.Nfsstat4(probe.Int32())
		switch {
		case probe.Err() != nil && r.status == wire4.NFS4_OK, probe.Err() == nil && num != o.num:
			return fmt.Errorf("%s at %v: the answer has not the results that were asked for", what, c.at)
		case probe.Err() != nil:
			st = r.status
		}
		switch st {
		case wire4.NFS4_OK:
		case wire4.NFS4ERR_NOENT:
			return fmt.Errorf("%s: %w", what, errNoEntry)
		case wire4.NFS4ERR_EXIST:
			return fmt.Errorf("%s: %w", what, errExists)
		default:
			return &statusError{what: what, status: st.String(), hint: hint(st.String(), c.cred.UID),
				later: st == wire4.NFS4ERR_DELAY || st == wire4.NFS4ERR_GRACE}
		}
		var into rpc.Decodable
		if k := i - (len(r.ops) - len(res)); k >= 0 {
			into = res[k]
		} else if o.num == wire4.OP_SEQUENCE {
			into = new(wire4.SEQUENCE4res)
		}
		if r.d.Uint32(); into == nil {
			r.d.Uint32()
		} else if into.Decode(&r.d); r.d.Err() != nil {
			return fmt.Errorf("%s at %v: a result that can't be decoded: %w", what, c.at, r.d.Err())
		}
	}
	return nil
}

func putfh(fh []byte) op4 { return op4{wire4.OP_PUTFH, &wire4.PUTFH4args{Object: fh}} }

func (c *client4) open(path string) error {
	ops := []op4{{wire4.OP_PUTROOTFH, nil}, {wire4.OP_GETFH, nil}}
	var fh wire4.GETFH4res
	if err := c.in("the root of "+c.at.String(), ops, nil, &fh); err != nil {
		return err
	}
	c.dir, c.path = clone(fh.Resok4.Object), path
	for _, name := range split(path) {
		ops := []op4{putfh(c.dir), {wire4.OP_LOOKUP, &wire4.LOOKUP4args{Objname: []byte(name)}}, {wire4.OP_GETFH, nil}}
		err := c.in("looking up "+name, ops, nil, nil, &fh)
		if errors.Is(err, errNoEntry) {
			return fmt.Errorf("no %s on the way to %s on %v: it is not exported to this host, or isn't there; name an export and a directory in it with --path", name, path, c.at)
		}
		if err != nil {
			return err
		}
		c.dir = clone(fh.Resok4.Object)
	}
	return nil
}

// attributes returns numbers of eight bytes that the server knows of a file.
func (c *client4) attributes(what string, fh []byte, numbers ...int) (map[int]uint64, error) {
	var res wire4.GETATTR4res
	ops := []op4{putfh(fh), {wire4.OP_GETATTR, &wire4.GETATTR4args{AttrRequest: wire4.Bits(numbers...)}}}
	if err := c.in(what, ops, nil, &res); err != nil {
		return nil, err
	}
	var d xdr.Decoder
	d.Reset(res.Resok4.ObjAttributes.AttrVals)
	out := map[int]uint64{}
	for _, n := range numbers { // in ascending order, as they are on the wire
		if res.Resok4.ObjAttributes.Attrmask.Has(uint32(n)) {
			out[n] = d.Uint64()
		}
	}
	return out, d.Err()
}

func (c *client4) limits() (int, int, error) {
	a, err := c.attributes("the server's limits", c.dir, wire4.FATTR4_MAXREAD, wire4.FATTR4_MAXWRITE)
	return int(a[wire4.FATTR4_MAXREAD]), int(a[wire4.FATTR4_MAXWRITE]), err
}

func (c *client4) create(name string) (file, error) {
	var mode xdr.Encoder
	mode.Uint32(fileMode)
	return c.openFile("making "+name+" in "+c.path, name, wire4.OPEN4_SHARE_ACCESS_BOTH, wire4.Openflag4{Opentype: wire4.OPEN4_CREATE,
		How: wire4.Createhow4{Mode: wire4.GUARDED4, Createattrs: wire4.Fattr4{Attrmask: wire4.Bits(wire4.FATTR4_MODE), AttrVals: mode.Bytes()}}})
}

func (c *client4) lookup(name string, write bool) (file, error) {
	access := uint32(wire4.OPEN4_SHARE_ACCESS_READ)
	if write {
		access = wire4.OPEN4_SHARE_ACCESS_BOTH
	}
	f, err := c.openFile("opening "+name+" in "+c.path, name, access, wire4.Openflag4{})
	if err != nil {
		return f, err
	}
	a, err := c.attributes("attributes of "+name, f.fh, wire4.FATTR4_SIZE)
	f.size = int64(a[wire4.FATTR4_SIZE])
	return f, err
}

func (c *client4) openFile(what, name string, access uint32, how wire4.Openflag4) (file, error) {
	args := &wire4.OPEN4args{ShareAccess: access | wire4.OPEN4_SHARE_ACCESS_WANT_NO_DELEG, Openhow: how,
		Owner: wire4.StateOwner4{Clientid: c.id, Owner: []byte("bench")}, Claim: wire4.OpenClaim4{Claim: wire4.CLAIM_NULL, File: []byte(name)}}
	var open wire4.OPEN4res
	var fh wire4.GETFH4res
	if err := c.in(what, []op4{putfh(c.dir), {wire4.OP_OPEN, args}, {wire4.OP_GETFH, nil}}, nil, &open, &fh); err != nil {
		return file{}, err
	}
	return file{name: name, fh: clone(fh.Resok4.Object), open: open.Resok4.Stateid}, nil
}

func (c *client4) release(f *file) error {
	return c.in("closing "+f.name, []op4{putfh(f.fh), {wire4.OP_CLOSE, &wire4.CLOSE4args{OpenStateid: f.open}}}, nil, new(wire4.CLOSE4res))
}

func (c *client4) remove(name string) error {
	ops := []op4{putfh(c.dir), {wire4.OP_REMOVE, &wire4.REMOVE4args{Target: []byte(name)}}}
	return c.in("removing "+name, ops, nil, new(wire4.REMOVE4res))
}

func (c *client4) session(slots int) (*session, error) { return c.newSession(slots) }

func (c *client4) template(k kind, f *file, stable uint32) *template {
	return newTemplate4(k, c.cred, f.fh, f.open, stable)
}

// close gives back sessions and client. Files must have been released.
func (c *client4) close() error {
	var errs []error
	if c.id != 0 {
		for _, s := range c.sessions {
			errs = append(errs, c.do("DESTROY_SESSION", []op4{{wire4.OP_DESTROY_SESSION, &wire4.DESTROYSESSION4args{DsaSessionid: s.id}}}, nil))
		}
		errs = append(errs, c.do("DESTROY_CLIENTID", []op4{{wire4.OP_DESTROY_CLIENTID, &wire4.DESTROYCLIENTID4args{DcaClientid: c.id}}}, nil))
	}
	return errors.Join(append(errs, c.link.close())...)
}
