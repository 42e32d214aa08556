// Calls of 4.0 that are sent again, and how it is told which replies are kept for that.

package nfs4

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"sluice/rpc"
	"sluice/xdr"
	wire "sluice/xdr/nfs4"
)

// send sends a COMPOUND with a transaction id of the caller's choice, and gives the answer's bytes behind that.
func (c *conn) send(xid uint32, ops ...op) []byte {
	t := c.s.t
	t.Helper()
	var e xdr.Encoder
	for _, w := range []uint32{0, xid, 0, 2, wire.NFS4_PROGRAM, wire.NFS_V4, wire.NFSPROC4_COMPOUND, rpc.FlavorSys, 5 * 4, 0, 0, 0, 0, 0, 0, 0} {
		e.Uint32(w) // credentials of root, without a host's name and groups; no verifier
	}
	script := script{c.minor, nil, ops}
	script.Encode(&e)
	e.PatchUint32(0, 1<<31|uint32(e.Len()-4))
	c.nc.SetDeadline(time.Now().Add(20 * time.Second)) //nolint:errcheck // it would show
	_, err := c.nc.Write(e.Bytes())
	must(t, err)
	b, err := rpc.ReadRecord(c.nc, 1<<20)
	must(t, err)
	var d xdr.Decoder
	d.Reset(b)
	if d.Uint32() != xid || d.Uint32() != 1 {
		t.Fatal("not the answer")
	}
	return b[8:]
}

// What changes something in 4.0 is done once, however often it is sent, and on whichever connection (RFC 7530, 3.1.1).
func TestResent40(t *testing.T) {
	s := startServer(t)
	c, other := s.conn(), s.conn()
	mkdir := op{wire.OP_CREATE, &wire.CREATE4args{Objtype: wire.Createtype4{Type: wire.NF4DIR}, Objname: []byte("d"), Createattrs: mode(0o755)}}
	xid := uint32(100)
	for _, o := range []op{mkdir, {wire.OP_SETATTR, &wire.SETATTR4args{ObjAttributes: mode(0o711)}}, {wire.OP_LINK, &wire.LINK4args{Newname: []byte("l")}},
		{wire.OP_RENAME, &wire.RENAME4args{Oldname: []byte("d"), Newname: []byte("e")}}, remove("e")} {
		ops := []op{root(), {wire.OP_SAVEFH, nil}, o}
		xid++
		first := c.send(xid, ops...)
		before := changed(t, s.dir)
		if again := c.send(xid, ops...); !bytes.Equal(first, again) {
			t.Errorf("%v: another answer the second time", o.num)
		}
		if again := other.send(xid, ops...); !bytes.Equal(first, again) {
			t.Errorf("%v: another answer on another connection", o.num)
		}
		if after := changed(t, s.dir); after != before {
			t.Errorf("%v was done again", o.num)
		}
	}
	// What only looks is looked up again.
	look := []op{root(), lookup("late")}
	first := c.send(1, look...)
	must(t, os.Mkdir(filepath.Join(s.dir, "late"), 0o755))
	if again := c.send(1, look...); bytes.Equal(first, again) {
		t.Error("a LOOKUP has the old answer")
	}
}

// changed is when anything was last made, renamed or removed in a directory, or its attributes set.
func changed(t testing.TB, dir string) time.Time {
	t.Helper()
	var st unix.Stat_t
	must(t, unix.Stat(dir, &st))
	return time.Unix(st.Ctim.Unix())
}

// keepReply sees the operations that change something, behind whatever goes before them; and those of later versions
// have their session.
func TestKeepReply(t *testing.T) {
	sid := wire.Stateid4{Seqid: 1}
	bits := wire.Bits(wire.FATTR4_SIZE)
	size := fattr(func(e *xdr.Encoder) { e.Uint64(0) }, wire.FATTR4_SIZE)
	looks := []op{
		root(), {wire.OP_PUTPUBFH, nil}, getfh(), {wire.OP_SAVEFH, nil}, {wire.OP_RESTOREFH, nil}, {wire.OP_LOOKUPP, nil}, {wire.OP_READLINK, nil},
		putfh([]byte("handle!")), lookup("name"), {wire.OP_SECINFO, &wire.SECINFO4args{Name: []byte("n")}}, getattr(wire.FATTR4_SIZE, wire.FATTR4_MODE),
		{wire.OP_ACCESS, &wire.ACCESS4args{Access: 1}}, {wire.OP_RENEW, &wire.RENEW4args{}}, read(sid, 5, 6),
		{wire.OP_VERIFY, &wire.VERIFY4args{ObjAttributes: size}}, {wire.OP_NVERIFY, &wire.NVERIFY4args{ObjAttributes: size}},
		{wire.OP_READDIR, &wire.READDIR4args{AttrRequest: bits}}, {wire.OP_COMMIT, &wire.COMMIT4args{}},
	}
	changes := []op{
		write(sid, 0, "abc"), {wire.OP_CLOSE, &wire.CLOSE4args{}}, {wire.OP_OPEN, openArgs("o", 1, 1, "n", 1, 0, true)}, remove("n"),
		{wire.OP_SETATTR, &wire.SETATTR4args{ObjAttributes: size}}, {wire.OP_LOCK, &wire.LOCK4args{}}, {wire.OP_LOCKU, &wire.LOCKU4args{}},
		{wire.OP_OPEN_CONFIRM, &wire.OPENCONFIRM4args{}}, {wire.OP_OPEN_DOWNGRADE, &wire.OPENDOWNGRADE4args{}}, {wire.OP_LINK, &wire.LINK4args{}},
		{wire.OP_RENAME, &wire.RENAME4args{}}, {wire.OP_CREATE, &wire.CREATE4args{Objtype: wire.Createtype4{Type: wire.NF4DIR}}},
		{wire.OP_SETCLIENTID, &wire.SETCLIENTID4args{}}, {wire.OP_SETCLIENTID_CONFIRM, &wire.SETCLIENTIDCONFIRM4args{}},
		{wire.OP_RELEASE_LOCKOWNER, &wire.RELEASELOCKOWNER4args{}}, {wire.OP_DELEGRETURN, &wire.DELEGRETURN4args{}},
	}
	kept := func(minor uint32, ops ...op) bool {
		var e xdr.Encoder
		s := script{minor, []byte("tag"), ops}
		s.Encode(&e)
		return keepReply(e.Bytes())
	}
	if kept(0, looks...) {
		t.Error("operations that only look are kept")
	}
	for _, o := range looks {
		if kept(0, o) {
			t.Errorf("%v is kept", o.num)
		}
	}
	for _, o := range changes {
		if all := append(looks[:len(looks):len(looks)], o); !kept(0, o) || !kept(0, all...) || !kept(0, o, root()) {
			t.Errorf("%v is not kept: alone %v, behind others %v", o.num, kept(0, o), kept(0, all...))
		}
		if kept(1, o) || kept(2, o) {
			t.Errorf("%v of a session is kept", o.num)
		}
	}
}
