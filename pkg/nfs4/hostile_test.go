package nfs4

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sluice/rpc"
	"sluice/xdr"
	wire "sluice/xdr/nfs4"
)

// usable checks that a session works.
func (x *session) usable(after string) {
	t := x.s.t
	t.Helper()
	if r := x.compound(root(), getfh()); r.status != ok || r.n != 3 {
		t.Errorf("after %s: %v", after, r.status)
	}
}

// small gives the same client another session, on the same connection.
func (x *session) small(ch wire.ChannelAttrs4) *session {
	t := x.s.t
	t.Helper()
	r := x.conn.compound(op{wire.OP_EXCHANGE_ID, &wire.EXCHANGEID4args{EiaClientowner: wire.ClientOwner4{CoVerifier: wire.Verifier4{x.lives}, CoOwnerid: []byte("hostile")}}})
	var eid wire.EXCHANGEID4res
	r.next(t, wire.OP_EXCHANGE_ID, ok, &eid)
	y := *x
	r = x.conn.compound(op{wire.OP_CREATE_SESSION, &wire.CREATESESSION4args{CsaClientid: eid.EirResok4.EirClientid, CsaSequence: eid.EirResok4.EirSequenceid,
		CsaForeChanAttrs: ch, CsaBackChanAttrs: testChannel, CsaSecParms: []wire.CallbackSecParms4{{}}}})
	var cs wire.CREATESESSION4res
	r.next(t, wire.OP_CREATE_SESSION, ok, &cs)
	y.id, y.seq, y.fore = cs.CsrResok4.CsrSessionid, 0, cs.CsrResok4.CsrForeChanAttrs
	return &y
}

// SEQUENCE with what is out of range or out of step takes no slot.
func TestHostileSequence(t *testing.T) {
	s := startServer(t)
	for _, minor := range []uint32{1, 2} {
		x := s.session(minor, "hostile")
		x.usable("the start")
		stranger := x.id
		stranger[15] ^= 0xff
		for what, c := range map[string]struct {
			a    wire.SEQUENCE4args
			want wire.Nfsstat4
		}{
			"a slot past the last":      {wire.SEQUENCE4args{SaSessionid: x.id, SaSequenceid: 1, SaSlotid: x.fore.CaMaxrequests}, wire.NFS4ERR_BADSLOT},
			"the last slot there is":    {wire.SEQUENCE4args{SaSessionid: x.id, SaSequenceid: 1, SaSlotid: ^uint32(0)}, wire.NFS4ERR_BADSLOT},
			"a highest slot too high":   {wire.SEQUENCE4args{SaSessionid: x.id, SaSequenceid: x.seq + 1, SaHighestSlotid: ^uint32(0)}, wire.NFS4ERR_BAD_HIGH_SLOT},
			"a sequence id too high":    {wire.SEQUENCE4args{SaSessionid: x.id, SaSequenceid: x.seq + 2}, wire.NFS4ERR_SEQ_MISORDERED},
			"a sequence id too low":     {wire.SEQUENCE4args{SaSessionid: x.id, SaSequenceid: x.seq - 1}, wire.NFS4ERR_SEQ_MISORDERED},
			"a fresh slot not at 1":     {wire.SEQUENCE4args{SaSessionid: x.id, SaSequenceid: 7, SaSlotid: 3}, wire.NFS4ERR_SEQ_MISORDERED},
			"a session that is not":     {wire.SEQUENCE4args{SaSessionid: stranger, SaSequenceid: x.seq + 1}, wire.NFS4ERR_BADSESSION},
			"a session of zeros":        {wire.SEQUENCE4args{SaSequenceid: 1}, wire.NFS4ERR_BADSESSION},
			"a retry that is another":   {wire.SEQUENCE4args{SaSessionid: x.id, SaSequenceid: x.seq}, wire.NFS4ERR_SEQ_FALSE_RETRY},
			"another slot, well-nigh":   {wire.SEQUENCE4args{SaSessionid: x.id, SaSequenceid: 0, SaSlotid: 2}, wire.NFS4ERR_SEQ_MISORDERED},
			"too many slots, a session": {wire.SEQUENCE4args{SaSessionid: stranger, SaSlotid: 1 << 20}, wire.NFS4ERR_BADSESSION},
		} {
			r := x.conn.compound(op{wire.OP_SEQUENCE, &c.a}, root(), lookup("none"))
			r.next(t, wire.OP_SEQUENCE, c.want, nil)
			if r.n != 1 {
				t.Errorf("%s: %d results", what, r.n)
			}
		}
		x.usable("SEQUENCEs out of range")

		for _, wrong := range []uint32{3, 4, 1 << 31} {
			x.conn.minor = wrong
			if r := x.conn.compound(x.sequence(), root()); r.status != wire.NFS4ERR_MINOR_VERS_MISMATCH || r.n != 0 {
				t.Errorf("minor version %d: %v", wrong, r.status)
			}
		}
		x.conn.minor = 0
		x.conn.compound(x.sequence(), root()).next(t, wire.OP_ILLEGAL, wire.NFS4ERR_OP_ILLEGAL, nil)
		x.conn.minor = minor
		x.usable("wrong minor versions")
	}
}

// Operations that a minor version does not have are illegal in it, or not supported where it has given them up.
func TestHostileOperations(t *testing.T) {
	s := startServer(t)
	c, x1, x2 := s.conn(), s.session(1, "one"), s.session(2, "two")
	for num := wire.NfsOpnum4(0); num < 80; num++ {
		if r := c.compound(op{num, nil}); (num < 3 || num > wire.OP_RELEASE_LOCKOWNER) != (r.status == wire.NFS4ERR_OP_ILLEGAL) {
			t.Errorf("4.0: operation %d: %v", num, r.status)
		}
		if num == wire.OP_DESTROY_SESSION || num == wire.OP_SEQUENCE || num == wire.OP_BIND_CONN_TO_SESSION {
			continue // they are elsewhere
		}
		if r := x1.compound(op{num, nil}); (num < 3 || num > wire.OP_RECLAIM_COMPLETE) != (r.status == wire.NFS4ERR_OP_ILLEGAL) {
			t.Errorf("4.1: operation %d: %v", num, r.status)
		}
		if r := x2.compound(op{num, nil}); (num < 3 || num > wire.OP_REMOVEXATTR) != (r.status == wire.NFS4ERR_OP_ILLEGAL) {
			t.Errorf("4.2: operation %d: %v", num, r.status)
		}
	}
	for _, x := range []*session{x1, x2} {
		for _, num := range []wire.NfsOpnum4{wire.OP_SETCLIENTID, wire.OP_SETCLIENTID_CONFIRM, wire.OP_RENEW, wire.OP_OPEN_CONFIRM, wire.OP_RELEASE_LOCKOWNER} {
			if r := x.compound(root(), op{num, nil}); r.status != wire.NFS4ERR_NOTSUPP {
				t.Errorf("4.%d: %v: %v", x.minor, num, r.status)
			}
		}
		// Arguments that stop early, and counts of what is not there.
		for what, ops := range map[string][]op{
			"WRITE cut off":       {root(), {wire.OP_WRITE, rawArgs{1, 2, 3, 4}}},
			"PUTFH of 4 GiB":      {{wire.OP_PUTFH, rawArgs{0xff, 0xff, 0xff, 0xff}}},
			"LOOKUP of 2 GiB":     {root(), {wire.OP_LOOKUP, rawArgs{0x7f, 0xff, 0xff, 0xff, 'a', 0, 0, 0}}},
			"GETATTR of all bits": {root(), {wire.OP_GETATTR, rawArgs{0x3f, 0xff, 0xff, 0xff}}},
			"TEST_STATEID of all": {{wire.OP_TEST_STATEID, rawArgs{0x0f, 0xff, 0xff, 0xff}}},
		} {
			if r := x.compound(ops...); r.status != wire.NFS4ERR_BADXDR || r.n != len(ops)+1 {
				t.Errorf("%s: %v, %d results", what, r.status, r.n)
			}
		}
		x.usable("operations that are none")
	}
}

// Stateids that stand for nothing, for something else, or for what was.
func TestHostileStateids(t *testing.T) {
	s := startServer(t)
	x, y := s.session(2, "hostile"), s.session(2, "other")
	_, o, fh := x.open("f", wire.OPEN4_SHARE_ACCESS_READ)
	_, o2, _ := x.open("f", wire.OPEN4_SHARE_ACCESS_BOTH) // the same owner: the same stateid, newer
	old, sid := o.Stateid, o2.Stateid
	if old.Other != sid.Other || sid.Seqid != old.Seqid+1 {
		t.Fatalf("an upgrade: %+v, %+v", old, sid)
	}
	_, g, gfh := x.open("g", wire.OPEN4_SHARE_ACCESS_BOTH)
	_, theirs, _ := y.open("f", wire.OPEN4_SHARE_ACCESS_BOTH)
	x.on(gfh, op{wire.OP_CLOSE, &wire.CLOSE4args{OpenStateid: g.Stateid}}).next(t, wire.OP_CLOSE, ok, &wire.CLOSE4res{})
	_, g2, gfh := x.open("h", wire.OPEN4_SHARE_ACCESS_BOTH)

	newer, boot, number := sid, sid, sid
	newer.Seqid += 5
	boot.Other[0] ^= 0x80
	number.Other[11] ^= 0x40
	ones := wire.Stateid4{Seqid: ^uint32(0)}
	for i := range ones.Other {
		ones.Other[i] = 0xff
	}
	onesOdd := ones
	onesOdd.Seqid = 5
	bad := map[string]struct {
		sid  wire.Stateid4
		want wire.Nfsstat4
	}{
		"old":              {old, wire.NFS4ERR_OLD_STATEID},
		"newer than known": {newer, wire.NFS4ERR_BAD_STATEID},
		"of another start": {boot, wire.NFS4ERR_BAD_STATEID},
		"unknown":          {number, wire.NFS4ERR_BAD_STATEID},
		"of another file":  {g2.Stateid, wire.NFS4ERR_BAD_STATEID},
		"another client's": {theirs.Stateid, wire.NFS4ERR_BAD_STATEID},
		"closed":           {g.Stateid, wire.NFS4ERR_BAD_STATEID},
		"zeros but seqid":  {wire.Stateid4{Seqid: 7}, wire.NFS4ERR_BAD_STATEID},
		"ones but seqid":   {onesOdd, wire.NFS4ERR_BAD_STATEID},
		"invalid":          {wire.Stateid4{Seqid: ^uint32(0)}, wire.NFS4ERR_BAD_STATEID},
		"current, of none": {wire.Stateid4{Seqid: 1}, wire.NFS4ERR_BAD_STATEID},
	}
	for what, b := range bad {
		owner := wire.StateOwner4{Clientid: x.clientid, Owner: []byte("l")}
		for _, o := range []op{
			read(b.sid, 0, 10), write(b.sid, 0, "x"),
			{wire.OP_SETATTR, &wire.SETATTR4args{Stateid: b.sid, ObjAttributes: fattr(func(e *xdr.Encoder) { e.Uint64(5) }, wire.FATTR4_SIZE)}},
			{wire.OP_READ_PLUS, &wire.READPLUS4args{RpaStateid: b.sid, RpaCount: 10}}, {wire.OP_SEEK, &wire.SEEK4args{SaStateid: b.sid}},
			{wire.OP_ALLOCATE, &wire.ALLOCATE4args{AaStateid: b.sid, AaLength: 10}}, {wire.OP_DEALLOCATE, &wire.DEALLOCATE4args{DaStateid: b.sid, DaLength: 10}},
			{wire.OP_IO_ADVISE, &wire.IOADVISE4args{IaaStateid: b.sid}}, {wire.OP_CLOSE, &wire.CLOSE4args{OpenStateid: b.sid}},
			{wire.OP_OPEN_DOWNGRADE, &wire.OPENDOWNGRADE4args{OpenStateid: b.sid, ShareAccess: 1}},
			{wire.OP_LOCK, &wire.LOCK4args{Locktype: wire.WRITE_LT, Length: 10, Locker: wire.Locker4{NewLockOwner: true, OpenOwner: wire.OpenToLockOwner4{OpenStateid: b.sid, LockOwner: owner}}}},
			{wire.OP_LOCKU, &wire.LOCKU4args{Locktype: wire.WRITE_LT, LockStateid: b.sid, Length: 10}},
			{wire.OP_DELEGRETURN, &wire.DELEGRETURN4args{DelegStateid: b.sid}},
		} {
			// The current file is set by PUTFH, so that there is no current stateid.
			want := b.want
			if o.num == wire.OP_DELEGRETURN {
				want = wire.NFS4ERR_BAD_STATEID // of an open, however old
			}
			if r := x.on(fh, o); r.status != want {
				t.Errorf("%v, stateid %s: %v, want %v", o.num, what, r.status, want)
			}
		}
		for _, o := range []op{
			{wire.OP_COPY, &wire.COPY4args{CaSrcStateid: b.sid, CaDstStateid: g2.Stateid}}, {wire.OP_CLONE, &wire.CLONE4args{ClSrcStateid: b.sid, ClDstStateid: g2.Stateid}},
		} {
			if r := x.compound(putfh(fh), op{wire.OP_SAVEFH, nil}, putfh(gfh), o); r.status != b.want {
				t.Errorf("%v, source's stateid %s: %v, want %v", o.num, what, r.status, b.want)
			}
		}
	}
	for _, special := range []wire.Stateid4{{}, ones} {
		if r := x.on(fh, read(special, 0, 10)); r.status != ok {
			t.Errorf("READ with %+v: %v", special, r.status)
		}
		if r := x.on(fh, op{wire.OP_CLOSE, &wire.CLOSE4args{OpenStateid: special}}); r.status != wire.NFS4ERR_BAD_STATEID {
			t.Errorf("CLOSE of %+v: %v", special, r.status)
		}
	}
	latest := sid
	latest.Seqid = 0
	for _, good := range []wire.Stateid4{sid, latest} {
		if r := x.on(fh, write(good, 0, "x")); r.status != ok {
			t.Errorf("WRITE with the stateid %+v after all that: %v", good, r.status)
		}
	}
	x.usable("bad stateids")

	// 4.0 tells another start apart.
	c := s.client40("old", 1)
	if r := c.compound(putfh(fh), read(boot, 0, 10)); r.status != wire.NFS4ERR_STALE_STATEID {
		t.Errorf("4.0, stateid of another start: %v", r.status)
	}
	if r := c.compound(putfh(fh), read(sid, 0, 10)); r.status != wire.NFS4ERR_BAD_STATEID {
		t.Errorf("4.0, stateid of a client with a session: %v", r.status)
	}
}

// Requests and replies past what the session allows, and nothing done that could not be answered.
func TestHostileSizes(t *testing.T) {
	s := startServer(t)
	for i := range 50 {
		must(t, os.WriteFile(filepath.Join(s.dir, fmt.Sprintf("a-name-that-is-rather-long-%d", i)), nil, 0o644))
	}
	big := s.session(2, "hostile")
	x := big.small(wire.ChannelAttrs4{CaMaxrequestsize: 600, CaMaxresponsesize: 500, CaMaxresponsesizeCached: 300, CaMaxoperations: 40, CaMaxrequests: 4})
	if x.fore.CaMaxrequestsize != 600 || x.fore.CaMaxresponsesize != 500 || x.fore.CaMaxresponsesizeCached > 300 {
		t.Fatalf("granted %+v", x.fore)
	}
	x.usable("the start")
	x.seq++
	x.conn.compound(x.sequence(), root(), write(wire.Stateid4{}, 0, strings.Repeat("x", 600))).next(t, wire.OP_SEQUENCE, wire.NFS4ERR_REQ_TOO_BIG, nil)
	x.seq--
	x.usable("a request too big")

	mkdir := op{wire.OP_CREATE, &wire.CREATE4args{Objtype: wire.Createtype4{Type: wire.NF4DIR}, Objname: []byte("d"), Createattrs: mode(0o755)}}
	fill := func(n int) (ops []op) {
		ops = []op{root()}
		for range n {
			ops = append(ops, getfh())
		}
		return ops
	}
	for _, c := range []struct {
		cache bool
		want  wire.Nfsstat4
	}{{false, wire.NFS4ERR_REP_TOO_BIG}, {true, wire.NFS4ERR_REP_TOO_BIG_TO_CACHE}} {
		x.cache = c.cache
		for _, ops := range [][]op{fill(30), append(fill(4), getfh(), getfh(), getfh(), getfh(), getfh(), mkdir)} {
			r := x.compound(ops...)
			if r.status != c.want {
				t.Errorf("cached %v, %d operations: %v, %d results, want %v", c.cache, len(ops), r.status, r.n, c.want)
			}
			if n := len(r.raw); n > int(x.fore.CaMaxresponsesize) {
				t.Errorf("a reply of %d bytes", n)
			}
			if _, err := os.Stat(filepath.Join(s.dir, "d")); err == nil {
				t.Error("CREATE was done and could not be answered")
			}
		}
		x.usable("a reply too big")
		// The answer fits where it can be made to.
		x.cache = false
		r := x.compound(root(), op{wire.OP_READDIR, &wire.READDIR4args{Dircount: 8192, Maxcount: 8192}})
		skipTo(t, r, wire.OP_PUTROOTFH)
		if r.status != ok || len(r.raw) > int(x.fore.CaMaxresponsesize) {
			t.Errorf("READDIR: %v, %d bytes", r.status, len(r.raw))
		}
	}
	x.usable("all of it")
	big.usable("another session's troubles")

	// An answer that cannot be made to fit leaves the slot to be used again.
	x.tooManyOps()
	x.usable("too many operations")
}

// A retry is answered to who made the request, and only if it is the same as far as is looked: its length, and what comes
// first. That is more than Linux compares (replay_matches_cache in fs/nfsd/nfs4state.c: the number of operations and the
// principal); RFC 8881, 2.10.6.1.3.1, asks for the principal.
func TestHostileRetry(t *testing.T) {
	s := startServer(t)
	x := s.session(2, "hostile")
	x.cache = true
	data := strings.Repeat("x", 2*digestBytes)
	first := x.compound(root(), lookup(data[:200]), write(wire.Stateid4{}, 0, data))
	again := func(data string) *results {
		return x.conn.compound(x.sequence(), root(), lookup(data[:200]), write(wire.Stateid4{}, 0, data))
	}
	for _, uid := range []uint32{1, 1000} {
		x.cred.UID = uid
		again(data).next(t, wire.OP_SEQUENCE, wire.NFS4ERR_SEQ_FALSE_RETRY, nil)
	}
	x.cred.UID, x.cred.GID = 0, 1
	again(data).next(t, wire.OP_SEQUENCE, wire.NFS4ERR_SEQ_FALSE_RETRY, nil)
	x.cred.GID = 0
	x.cred.Flavor = rpc.FlavorNone
	again(data).next(t, wire.OP_SEQUENCE, wire.NFS4ERR_SEQ_FALSE_RETRY, nil)
	x.cred.Flavor = rpc.FlavorSys
	for what, d := range map[string]string{"another name": "y" + data[1:], "more data": data + "yyyy", "less data": data[4:]} {
		if r := again(d); r.status != wire.NFS4ERR_SEQ_FALSE_RETRY {
			t.Errorf("%s: %v", what, r.status)
		}
	}
	if r := again(data[:len(data)-1] + "y"); r.status != first.status || string(r.raw) != string(first.raw) {
		t.Errorf("a difference past what is compared: %v, the first answer was %v", r.status, first.status)
	}
	x.usable("false retries")
}
