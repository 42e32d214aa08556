package nfs4

import (
	"os"
	"path/filepath"
	"testing"

	"sluice/rpc"
	"sluice/xdr"
	wire "sluice/xdr/nfs4"
)

// client40 is a confirmed 4.0 client.
type client40 struct {
	*conn
	clientid uint64
}

func (s *testServer) client40(name string, verf byte) *client40 {
	s.t.Helper()
	c := &client40{conn: s.conn()}
	r := c.compound(op{wire.OP_SETCLIENTID, &wire.SETCLIENTID4args{Client: wire.NfsClientId4{Verifier: wire.Verifier4{verf}, Id: []byte(name)},
		Callback: wire.CbClient4{CbLocation: wire.Clientaddr4{NaRNetid: []byte("tcp"), NaRAddr: []byte("0.0.0.0.0.0")}}}})
	var res wire.SETCLIENTID4res
	r.next(s.t, wire.OP_SETCLIENTID, ok, &res)
	c.clientid = res.Resok4.Clientid
	r = c.compound(op{wire.OP_SETCLIENTID_CONFIRM, &wire.SETCLIENTIDCONFIRM4args{Clientid: c.clientid, SetclientidConfirm: res.Resok4.SetclientidConfirm}})
	r.next(s.t, wire.OP_SETCLIENTID_CONFIRM, ok, nil)
	return c
}

// decode decodes the next result's bytes.
func skipTo(t testing.TB, r *results, nums ...wire.NfsOpnum4) {
	t.Helper()
	for _, n := range nums {
		r.next(t, n, ok, nil)
	}
}

// Open, confirm, write, read, lock, close, all with the seqids of 4.0; and each sent twice gets the first answer.
func TestOpen40(t *testing.T) {
	s := startServer(t)
	c := s.client40("c", 1)
	open := openArgs("owner", 5, c.clientid, "f", wire.OPEN4_SHARE_ACCESS_BOTH, 0, true)
	var sid wire.Stateid4
	var fh []byte
	for range 2 { // an owner that is not confirmed may do so again
		r := c.compound(root(), op{wire.OP_OPEN, open}, getfh())
		skipTo(t, r, wire.OP_PUTROOTFH)
		var o wire.OPEN4res
		r.next(t, wire.OP_OPEN, ok, &o)
		if o.Resok4.Rflags&wire.OPEN4_RESULT_CONFIRM == 0 {
			t.Error("the first OPEN of an owner need not be confirmed")
		}
		var g wire.GETFH4res
		r.next(t, wire.OP_GETFH, ok, &g)
		sid, fh = o.Resok4.Stateid, append([]byte(nil), g.Resok4.Object...)
	}
	both := func(o op, res rpc.Decodable) {
		t.Helper()
		var first []byte
		for i := range 2 {
			r := c.compound(putfh(fh), o)
			skipTo(t, r, wire.OP_PUTFH)
			if i > 0 && string(first) != string(r.raw) {
				t.Errorf("%v: another answer the second time", o.num)
			}
			first = r.raw
			r.next(t, o.num, ok, res)
		}
	}
	old := sid
	var oc wire.OPENCONFIRM4res
	both(op{wire.OP_OPEN_CONFIRM, &wire.OPENCONFIRM4args{OpenStateid: sid, Seqid: 6}}, &oc)
	sid = oc.Resok4.OpenStateid
	r := c.compound(putfh(fh), write(sid, 0, "hello world"), read(sid, 6, 100), read(old, 0, 1))
	skipTo(t, r, wire.OP_PUTFH)
	r.next(t, wire.OP_WRITE, ok, &wire.WRITE4res{})
	var rd wire.READ4res
	r.next(t, wire.OP_READ, ok, &rd)
	if b, _ := rd.Resok4.Data.Bytes(); string(b) != "world" || !rd.Resok4.Eof {
		t.Errorf("READ: %q, eof %v", b, rd.Resok4.Eof)
	}
	r.next(t, wire.OP_READ, wire.NFS4ERR_OLD_STATEID, nil)

	var l wire.LOCK4res
	both(op{wire.OP_LOCK, &wire.LOCK4args{Locktype: wire.WRITE_LT, Offset: 0, Length: 10, Locker: wire.Locker4{NewLockOwner: true,
		OpenOwner: wire.OpenToLockOwner4{OpenSeqid: 7, OpenStateid: sid, LockSeqid: 1, LockOwner: wire.StateOwner4{Clientid: c.clientid, Owner: []byte("l")}}}}}, &l)
	lsid := l.Resok4.LockStateid

	d := s.client40("d", 1)
	r = d.compound(putfh(fh), op{wire.OP_LOCKT, &wire.LOCKT4args{Locktype: wire.READ_LT, Offset: 5, Length: 1, Owner: wire.StateOwner4{Clientid: d.clientid, Owner: []byte("x")}}})
	skipTo(t, r, wire.OP_PUTFH)
	var lt wire.LOCKT4res
	r.next(t, wire.OP_LOCKT, wire.NFS4ERR_DENIED, &lt)
	if lt.Denied.Length != 10 || string(lt.Denied.Owner.Owner) != "l" || lt.Denied.Owner.Clientid != c.clientid {
		t.Errorf("LOCKT: %+v", lt.Denied)
	}
	var lu wire.LOCKU4res
	both(op{wire.OP_LOCKU, &wire.LOCKU4args{Locktype: wire.WRITE_LT, Seqid: 2, LockStateid: lsid, Offset: 0, Length: 10}}, &lu)
	var dg wire.OPENDOWNGRADE4res
	both(op{wire.OP_OPEN_DOWNGRADE, &wire.OPENDOWNGRADE4args{OpenStateid: sid, Seqid: 8, ShareAccess: wire.OPEN4_SHARE_ACCESS_BOTH}}, &dg)
	var cl wire.CLOSE4res
	both(op{wire.OP_CLOSE, &wire.CLOSE4args{Seqid: 9, OpenStateid: dg.Resok4.OpenStateid}}, &cl)
	c.compound(putfh(fh), op{wire.OP_CLOSE, &wire.CLOSE4args{Seqid: 42, OpenStateid: sid}}).d.Len()
	if b, err := os.ReadFile(filepath.Join(s.dir, "f")); err != nil || string(b) != "hello world" {
		t.Errorf("file: %q, %v", b, err)
	}
}

// What an OPEN of 4.1 does to files, by create mode.
func TestOpenCreate(t *testing.T) {
	s := startServer(t)
	x := s.session(2, "create")
	must(t, os.WriteFile(filepath.Join(s.dir, "old"), []byte("old data"), 0o600))
	must(t, os.Mkdir(filepath.Join(s.dir, "dir"), 0o755))
	must(t, os.Symlink("old", filepath.Join(s.dir, "link")))
	open := func(name string, change func(a *wire.OPEN4args)) (wire.Nfsstat4, *wire.OPEN4resok) {
		a := openArgs("o", 0, x.clientid, name, wire.OPEN4_SHARE_ACCESS_BOTH, 0, true)
		change(a)
		r := x.compound(root(), op{wire.OP_OPEN, a})
		skipTo(t, r, wire.OP_PUTROOTFH)
		var o wire.OPEN4res
		if r.status != ok {
			return r.status, nil
		}
		r.next(t, wire.OP_OPEN, ok, &o)
		return ok, &o.Resok4
	}
	size0 := fattr(func(e *xdr.Encoder) { e.Uint64(0); e.Uint32(0o777) }, wire.FATTR4_SIZE, wire.FATTR4_MODE)
	plain := func(*wire.OPEN4args) {}
	with := func(m wire.Createmode4, verf byte, attrs wire.Fattr4) func(a *wire.OPEN4args) {
		return func(a *wire.OPEN4args) {
			a.Openhow.How = wire.Createhow4{Mode: m, Createattrs: attrs, Createverf: wire.Verifier4{verf},
				ChCreateboth: wire.Creatverfattr{CvaVerf: wire.Verifier4{verf}, CvaAttrs: attrs}}
		}
	}
	for _, c := range []struct {
		what, name string
		change     func(a *wire.OPEN4args)
		want       wire.Nfsstat4
		set        wire.Bitmap4
	}{
		{"make", "new", plain, ok, wire.Bits(wire.FATTR4_MODE)},
		{"take", "new", plain, ok, wire.Bitmap4{}},
		{"guarded", "new", with(wire.GUARDED4, 0, mode(0o600)), wire.NFS4ERR_EXIST, wire.Bitmap4{}},
		{"truncate", "old", with(wire.UNCHECKED4, 0, size0), ok, wire.Bits(wire.FATTR4_SIZE)},
		{"exclusive", "ex", with(wire.EXCLUSIVE4, 1, mode(0)), ok, wire.Bits(wire.FATTR4_TIME_ACCESS, wire.FATTR4_TIME_MODIFY)},
		{"exclusive again", "ex", with(wire.EXCLUSIVE4, 1, mode(0)), ok, wire.Bits(wire.FATTR4_TIME_ACCESS, wire.FATTR4_TIME_MODIFY)},
		{"exclusive other", "ex", with(wire.EXCLUSIVE4, 2, mode(0)), wire.NFS4ERR_EXIST, wire.Bitmap4{}},
		{"exclusive 4.1", "ex1", with(wire.EXCLUSIVE4_1, 1, mode(0o640)), ok, wire.Bits(wire.FATTR4_MODE, wire.FATTR4_TIME_ACCESS, wire.FATTR4_TIME_MODIFY)},
		{"exclusive 4.1 other", "ex1", with(wire.EXCLUSIVE4_1, 2, mode(0o640)), wire.NFS4ERR_EXIST, wire.Bitmap4{}},
		{"directory", "dir", plain, wire.NFS4ERR_ISDIR, wire.Bitmap4{}},
		{"link", "link", plain, wire.NFS4ERR_SYMLINK, wire.Bitmap4{}},
		{"no name", "", plain, wire.NFS4ERR_INVAL, wire.Bitmap4{}},
		{"absent", "absent", func(a *wire.OPEN4args) { a.Openhow.Opentype = wire.OPEN4_NOCREATE }, wire.NFS4ERR_NOENT, wire.Bitmap4{}},
		{"no access", "old", func(a *wire.OPEN4args) { a.ShareAccess = 0 }, wire.NFS4ERR_INVAL, wire.Bitmap4{}},
		{"bad deny", "old", func(a *wire.OPEN4args) { a.ShareDeny = 4 }, wire.NFS4ERR_INVAL, wire.Bitmap4{}},
		{"by handle", "", func(a *wire.OPEN4args) {
			a.Openhow, a.Claim = wire.Openflag4{}, wire.OpenClaim4{Claim: wire.CLAIM_FH}
		}, wire.NFS4ERR_ISDIR, wire.Bitmap4{}},
		{"not wanted", "old", func(a *wire.OPEN4args) { a.ShareAccess |= wire.OPEN4_SHARE_ACCESS_WANT_NO_DELEG }, ok, wire.Bitmap4{}},
	} {
		st, o := open(c.name, c.change)
		if st != c.want {
			t.Errorf("%s: %v, want %v", c.what, st, c.want)
			continue
		}
		if st == ok && o.Attrset.Words != c.set.Words {
			t.Errorf("%s: attrset %x, want %x", c.what, o.Attrset.Words, c.set.Words)
		}
		if c.what == "not wanted" && (o.Delegation.DelegationType != wire.OPEN_DELEGATE_NONE_EXT || o.Delegation.OdWhynone.OndWhy != wire.WND4_NOT_WANTED) {
			t.Errorf("a delegation not wanted: %+v", o.Delegation)
		}
	}
	for name, want := range map[string]os.FileMode{"new": 0o644, "old": 0o600, "ex1": 0o640} {
		fi, err := os.Stat(filepath.Join(s.dir, name))
		if err != nil || fi.Mode() != want || name == "old" && fi.Size() != 0 {
			t.Errorf("%s: %v, %v", name, fi, err)
		}
	}
}

// Current stateids (pynfs CSID): OPEN, WRITE, READ, LOCK, CLOSE in one COMPOUND.
func TestCurrentStateid(t *testing.T) {
	s := startServer(t)
	x := s.session(1, "csid")
	current := wire.Stateid4{Seqid: 1}
	o := op{wire.OP_OPEN, openArgs("o", 0, x.clientid, "f", wire.OPEN4_SHARE_ACCESS_BOTH, 0, true)}
	cl := op{wire.OP_CLOSE, &wire.CLOSE4args{OpenStateid: current}}
	for _, c := range []struct {
		what string
		ops  []op
		want wire.Nfsstat4
	}{
		{"open write read close", []op{root(), o, write(current, 0, "x"), read(current, 0, 1), cl}, ok},
		{"never set", []op{root(), lookup("f"), cl}, wire.NFS4ERR_BAD_STATEID},
		{"handle changed", []op{root(), o, root(), lookup("f"), cl}, wire.NFS4ERR_BAD_STATEID},
		{"saved and restored", []op{root(), o, {wire.OP_SAVEFH, nil}, root(), {wire.OP_RESTOREFH, nil}, cl}, ok},
		{"closed", []op{root(), o, cl, cl}, wire.NFS4ERR_BAD_STATEID},
		{"in use", []op{root(), o, {wire.OP_FREE_STATEID, &wire.FREESTATEID4args{FsaStateid: current}}}, wire.NFS4ERR_LOCKS_HELD},
	} {
		if r := x.compound(c.ops...); r.status != c.want {
			t.Errorf("%s: %v, want %v", c.what, r.status, c.want)
		}
	}
}
