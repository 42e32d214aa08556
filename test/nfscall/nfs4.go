// A client of NFSv4.1 and 4.2 for tests that are about something else: one
// session on one connection, one call at a time, and the operations that put
// state on a server. What the protocol's own tests need is in pkg/nfs4.

package nfscall

import (
	"testing"
	"time"

	"sluice/rpc"
	"sluice/xdr"
	wire4 "sluice/xdr/nfs4"
)

// Op4 is one operation; Args is nil for those that have none.
type Op4 struct {
	Num  wire4.NfsOpnum4
	Args rpc.Encodable
}

// Session is a client's session.
type Session struct {
	*Client
	Minor    uint32
	ClientID uint64
	id       wire4.Sessionid4
	seq      uint32
}

var channel4 = wire4.ChannelAttrs4{CaMaxrequestsize: 1 << 20, CaMaxresponsesize: 1 << 20, CaMaxresponsesizeCached: 4096, CaMaxoperations: 16, CaMaxrequests: 8}

// Session makes a client of that name, its session, and says that it reclaims
// nothing.
func (c *Client) Session(t testing.TB, minor uint32, name string) *Session {
	t.Helper()
	s := &Session{Client: c, Minor: minor}
	var eid wire4.EXCHANGEID4res
	s.compound(t, Op4{wire4.OP_EXCHANGE_ID, &wire4.EXCHANGEID4args{
		EiaClientowner:  wire4.ClientOwner4{CoVerifier: wire4.Verifier4{1}, CoOwnerid: []byte(name)},
		EiaClientImplId: []wire4.NfsImplId4{{NiiDomain: []byte("example.org"), NiiName: []byte("a test")}},
	}}).Next(t, wire4.OP_EXCHANGE_ID, &eid)
	s.ClientID = eid.EirResok4.EirClientid
	var cs wire4.CREATESESSION4res
	s.compound(t, Op4{wire4.OP_CREATE_SESSION, &wire4.CREATESESSION4args{
		CsaClientid: s.ClientID, CsaSequence: eid.EirResok4.EirSequenceid, CsaFlags: wire4.CREATE_SESSION4_FLAG_CONN_BACK_CHAN,
		CsaCbProgram: 0x40000000, CsaForeChanAttrs: channel4, CsaBackChanAttrs: channel4, CsaSecParms: []wire4.CallbackSecParms4{{}},
	}}).Next(t, wire4.OP_CREATE_SESSION, &cs)
	s.id = cs.CsrResok4.CsrSessionid
	s.Do4(t, Op4{wire4.OP_RECLAIM_COMPLETE, &wire4.RECLAIMCOMPLETE4args{}}).Next(t, wire4.OP_RECLAIM_COMPLETE, nil)
	return s
}

// Do4 sends operations behind a SEQUENCE, which must be accepted; what the
// others are answered is the caller's to see.
func (s *Session) Do4(t testing.TB, ops ...Op4) *Results4 {
	t.Helper()
	s.seq++
	seq := Op4{wire4.OP_SEQUENCE, &wire4.SEQUENCE4args{SaSessionid: s.id, SaSequenceid: s.seq}}
	r := s.compound(t, append([]Op4{seq}, ops...)...)
	r.Next(t, wire4.OP_SEQUENCE, new(wire4.SEQUENCE4res))
	return r
}

// Destroyed tells whether the session is none any more.
func (s *Session) Destroyed(t testing.TB) bool {
	t.Helper()
	r := s.compound(t, Op4{wire4.OP_SEQUENCE, &wire4.SEQUENCE4args{SaSessionid: s.id, SaSequenceid: s.seq + 1}})
	return r.Status == wire4.NFS4ERR_BADSESSION
}

// Move binds the session to another connection too, and goes on there.
func (s *Session) Move(t testing.TB, c *Client) {
	t.Helper()
	s.Client = c
	s.compound(t, Op4{wire4.OP_BIND_CONN_TO_SESSION, &wire4.BINDCONNTOSESSION4args{BctsaSessid: s.id, BctsaDir: wire4.CDFC4_FORE_OR_BOTH}}).
		Next(t, wire4.OP_BIND_CONN_TO_SESSION, new(wire4.BINDCONNTOSESSION4res))
}

func (s *Session) compound(t testing.TB, ops ...Op4) *Results4 {
	t.Helper()
	return s.Compound(t, s.Minor, ops...)
}

// Compound sends operations as they are, without a session.
func (c *Client) Compound(t testing.TB, minor uint32, ops ...Op4) *Results4 {
	t.Helper()
	r := new(Results4)
	if err := c.Call(wire4.NFS4_PROGRAM, wire4.NFS_V4, wire4.NFSPROC4_COMPOUND, &c.Cred, &compound4{minor, ops}, r); err != nil {
		t.Fatal(err)
	}
	return r
}

type compound4 struct {
	minor uint32
	ops   []Op4
}

func (c *compound4) Encode(e *xdr.Encoder) {
	h := wire4.COMPOUND4args{Tag: []byte("test"), Minorversion: c.minor, Argarray: len(c.ops)}
	h.Encode(e)
	for _, o := range c.ops {
		e.Uint32(uint32(o.Num))
		if o.Args != nil {
			o.Args.Encode(e)
		}
	}
}

// Results4 is a COMPOUND's answer.
type Results4 struct {
	Status wire4.Nfsstat4
	d      xdr.Decoder // at the next result
}

// Decode takes the answer.
func (r *Results4) Decode(d *xdr.Decoder) {
	var h wire4.COMPOUND4res
	h.Decode(d)
	r.Status = h.Status
	r.d.Reset(Clone(d.Next(d.Len())))
}

// Next takes the next result, which must be that operation's success; res is
// nil for a result that is a status alone.
func (r *Results4) Next(t testing.TB, num wire4.NfsOpnum4, res rpc.Decodable) {
	t.Helper()
	got := wire4.NfsOpnum4(r.d.Int32())
	body := r.d
	st := wire4.Nfsstat4(body.Int32())
	if r.d.Err() != nil || got != num || st != wire4.NFS4_OK {
		t.Fatalf("%v: got %v %v (COMPOUND %v)", num, got, st, r.Status)
	}
	if res == nil {
		r.d.Int32()
		return
	}
	if res.Decode(&r.d); r.d.Err() != nil {
		t.Fatalf("%v: the result does not decode", num)
	}
}

// Path4 goes from the root to a file; the operations that use it follow.
func Path4(names ...string) []Op4 {
	ops := []Op4{{wire4.OP_PUTROOTFH, nil}}
	for _, n := range names {
		ops = append(ops, Op4{wire4.OP_LOOKUP, &wire4.LOOKUP4args{Objname: []byte(n)}})
	}
	return ops
}

// Open opens a file in the directory that Path4 would go to, and makes it when
// it isn't there. Where the server wants time, it tries again, as clients do.
func (s *Session) Open(t testing.TB, dir []string, name string, access, deny uint32) (wire4.OPEN4resok, []byte) {
	t.Helper()
	var attrs xdr.Encoder
	attrs.Uint32(0o644)
	args := &wire4.OPEN4args{ShareAccess: access, ShareDeny: deny, Owner: wire4.StateOwner4{Clientid: s.ClientID, Owner: []byte("owner")}}
	args.Claim = wire4.OpenClaim4{Claim: wire4.CLAIM_NULL, File: []byte(name)}
	args.Openhow = wire4.Openflag4{Opentype: wire4.OPEN4_CREATE, How: wire4.Createhow4{Mode: wire4.UNCHECKED4,
		Createattrs: wire4.Fattr4{Attrmask: wire4.Bits(wire4.FATTR4_MODE), AttrVals: attrs.Bytes()}}}
	path := Path4(dir...)
	ops := append(path[:len(path):len(path)], Op4{wire4.OP_OPEN, args}, Op4{wire4.OP_GETFH, nil})
	r := s.Do4(t, ops...)
	for end := time.Now().Add(10 * time.Second); (r.Status == wire4.NFS4ERR_GRACE || r.Status == wire4.NFS4ERR_DELAY) && time.Now().Before(end); {
		time.Sleep(10 * time.Millisecond)
		r = s.Do4(t, ops...)
	}
	for _, op := range path {
		r.Next(t, op.Num, nil)
	}
	var o wire4.OPEN4res
	r.Next(t, wire4.OP_OPEN, &o)
	var g wire4.GETFH4res
	r.Next(t, wire4.OP_GETFH, &g)
	return o.Resok4, Clone(g.Resok4.Object)
}

// Lock takes a byte range of an open file for a new lock owner.
func (s *Session) Lock(t testing.TB, fh []byte, open wire4.Stateid4, owner string, typ wire4.NfsLockType4, off, length uint64) {
	t.Helper()
	r := s.Do4(t, Op4{wire4.OP_PUTFH, &wire4.PUTFH4args{Object: fh}}, Op4{wire4.OP_LOCK, &wire4.LOCK4args{Locktype: typ, Offset: off, Length: length,
		Locker: wire4.Locker4{NewLockOwner: true, OpenOwner: wire4.OpenToLockOwner4{OpenStateid: open,
			LockOwner: wire4.StateOwner4{Clientid: s.ClientID, Owner: []byte(owner)}}}}})
	r.Next(t, wire4.OP_PUTFH, nil)
	r.Next(t, wire4.OP_LOCK, new(wire4.LOCK4res))
}
