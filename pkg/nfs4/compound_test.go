package nfs4

import (
	"os"
	"path/filepath"
	"testing"

	wire "sluice/xdr/nfs4"
)

// The shape of a COMPOUND: minor versions, tags, illegal numbers, what must come first and what must be alone.
func TestShape(t *testing.T) {
	s := startServer(t)
	c := s.conn()
	for minor, want := range map[uint32]wire.Nfsstat4{0: ok, 1: ok, 2: ok, 3: wire.NFS4ERR_MINOR_VERS_MISMATCH, 50: wire.NFS4ERR_MINOR_VERS_MISMATCH} {
		c.minor = minor
		if r := c.compound(); r.status != want || r.n != 0 || string(r.tag) != "tag" {
			t.Errorf("empty COMPOUND of minor version %d: %v, %d results, tag %q", minor, r.status, r.n, r.tag)
		}
	}
	c.minor = 50
	if r := c.compound(op{10044, nil}); r.status != wire.NFS4ERR_MINOR_VERS_MISMATCH || r.n != 0 {
		t.Errorf("minor version 50 with ILLEGAL: %v, %d results", r.status, r.n)
	}
	for _, minor := range []uint32{0, 1, 2} {
		for _, num := range []wire.NfsOpnum4{0, 1, 2, 76, 200, 10044} {
			c.minor = minor
			r := c.compound(op{num, nil})
			r.next(t, wire.OP_ILLEGAL, wire.NFS4ERR_OP_ILLEGAL, nil)
			if r.status != wire.NFS4ERR_OP_ILLEGAL || r.n != 1 {
				t.Errorf("4.%d, operation %d: %v, %d results", minor, num, r.status, r.n)
			}
		}
	}
	c.minor = 0
	c.compound(op{wire.OP_EXCHANGE_ID, nil}).next(t, wire.OP_ILLEGAL, wire.NFS4ERR_OP_ILLEGAL, nil)
	c.minor = 1
	c.compound(root()).next(t, wire.OP_PUTROOTFH, wire.NFS4ERR_OP_NOT_IN_SESSION, nil)
	c.compound(op{wire.OP_EXCHANGE_ID, &wire.EXCHANGEID4args{}}, root()).next(t, wire.OP_EXCHANGE_ID, wire.NFS4ERR_NOT_ONLY_OP, nil)
	c.compound(op{wire.OP_SEEK, nil}).next(t, wire.OP_ILLEGAL, wire.NFS4ERR_OP_ILLEGAL, nil)

	x := s.session(1, "shape")
	x.compound(x.sequence()).next(t, wire.OP_SEQUENCE, wire.NFS4ERR_SEQUENCE_POS, nil)
	x.compound(op{wire.OP_RENEW, &wire.RENEW4args{}}).next(t, wire.OP_RENEW, wire.NFS4ERR_NOTSUPP, nil)
	x.compound(op{wire.OP_READ, nil}).next(t, wire.OP_READ, wire.NFS4ERR_NOFILEHANDLE, nil)
	r := x.compound(root(), op{wire.OP_LOOKUP, rawArgs{0xcc, 0xcc, 0xcc, 0xcc}})
	r.next(t, wire.OP_PUTROOTFH, ok, nil)
	r.next(t, wire.OP_LOOKUP, wire.NFS4ERR_BADXDR, nil)

	many := x.tooManyOps()
	if r := x.compound(many[1:]...); r.status != ok {
		t.Errorf("as many operations as allowed: %v", r.status)
	}
	c.minor = 0
	many = many[:0]
	for range 150 {
		many = append(many, root())
	}
	if r := c.compound(many...); r.status != wire.NFS4ERR_RESOURCE || r.n != 129 {
		t.Errorf("150 operations in 4.0: %v, %d results", r.status, r.n)
	}
}

// A retry of a cached slot gets the bytes of the first answer, under its own tag; and what was done is done once.
func TestReplay(t *testing.T) {
	s := startServer(t)
	x := s.session(1, "replay")
	x.cache = true
	mkdir := op{wire.OP_CREATE, &wire.CREATE4args{Objtype: wire.Createtype4{Type: wire.NF4DIR}, Objname: []byte("d"), Createattrs: mode(0o755)}}
	first := x.compound(root(), mkdir, getfh())
	if first.status != ok {
		t.Fatalf("MKDIR: %v", first.status)
	}
	x.tag = []byte("another tag")
	again := x.conn.compound(x.sequence(), root(), mkdir, getfh())
	if again.status != ok || string(again.raw) != string(first.raw) || string(again.tag) != "another tag" {
		t.Errorf("retry: %v, tag %q, same %v", again.status, again.tag, string(again.raw) == string(first.raw))
	}
	x.conn.compound(x.sequence(), root(), getfh()).next(t, wire.OP_SEQUENCE, wire.NFS4ERR_SEQ_FALSE_RETRY, nil)
	// An error is cached as well.
	failed := x.compound(root(), mkdir)
	if failed.status != wire.NFS4ERR_EXIST {
		t.Errorf("MKDIR of what is there: %v", failed.status)
	}
	must(t, os.Remove(filepath.Join(s.dir, "d")))
	if again := x.conn.compound(x.sequence(), root(), mkdir); again.status != wire.NFS4ERR_EXIST {
		t.Errorf("retry of the failure: %v", again.status)
	}
	// Not cached: SEQUENCE is answered, the next operation is not.
	x.cache = false
	x.compound(root(), mkdir)
	r := x.conn.compound(x.sequence(), root(), mkdir)
	r.next(t, wire.OP_SEQUENCE, ok, &wire.SEQUENCE4res{})
	r.next(t, wire.OP_PUTROOTFH, wire.NFS4ERR_RETRY_UNCACHED_REP, nil)
}

// Replies are bounded by what the session says.
func TestReplySize(t *testing.T) {
	s := startServer(t)
	must(t, os.WriteFile(filepath.Join(s.dir, "f"), make([]byte, 64<<10), 0o644))
	x := s.session(1, "size")
	x.cache = true
	r := x.compound(root(), lookup("f"), read(wire.Stateid4{}, 0, 32768))
	r.next(t, wire.OP_PUTROOTFH, ok, nil)
	r.next(t, wire.OP_LOOKUP, ok, nil)
	r.next(t, wire.OP_READ, wire.NFS4ERR_REP_TOO_BIG_TO_CACHE, nil)
	x.cache = false
	r = x.compound(root(), lookup("f"), read(wire.Stateid4{}, 0, 32768))
	r.next(t, wire.OP_PUTROOTFH, ok, nil)
	r.next(t, wire.OP_LOOKUP, ok, nil)
	var res wire.READ4res
	r.next(t, wire.OP_READ, ok, &res)
	if n := res.Resok4.Data.Len(); n != 32768 {
		t.Errorf("READ: %d bytes", n)
	}
}

func TestLookupsAndNames(t *testing.T) {
	s := startServer(t)
	must(t, os.Mkdir(filepath.Join(s.dir, "d"), 0o755))
	must(t, os.Symlink("d", filepath.Join(s.dir, "l")))
	c := s.conn()
	for _, x := range []struct {
		ops  []op
		want wire.Nfsstat4
	}{
		{[]op{root(), lookup("d")}, ok},
		{[]op{root(), lookup("")}, wire.NFS4ERR_INVAL},
		{[]op{root(), lookup(".")}, wire.NFS4ERR_BADNAME},
		{[]op{root(), lookup("..")}, wire.NFS4ERR_BADNAME},
		{[]op{root(), lookup("none")}, wire.NFS4ERR_NOENT},
		{[]op{root(), lookup("l"), lookup("x")}, wire.NFS4ERR_SYMLINK},
		{[]op{root(), op{wire.OP_LOOKUPP, nil}}, wire.NFS4ERR_NOENT},
		{[]op{root(), lookup("d"), op{wire.OP_LOOKUPP, nil}, lookup("d")}, ok},
		{[]op{lookup("d")}, wire.NFS4ERR_NOFILEHANDLE},
		{[]op{op{wire.OP_RESTOREFH, nil}}, wire.NFS4ERR_RESTOREFH},
		{[]op{putfh([]byte("abc"))}, wire.NFS4ERR_BADHANDLE},
		{[]op{root(), remove("")}, wire.NFS4ERR_INVAL},
		{[]op{root(), remove("d")}, ok},
		{[]op{root(), remove("d")}, wire.NFS4ERR_NOENT},
		{[]op{root(), lookup("l"), op{wire.OP_READLINK, nil}}, ok},
		{[]op{root(), op{wire.OP_READLINK, nil}}, wire.NFS4ERR_INVAL},
		{[]op{root(), op{wire.OP_DELEGPURGE, &wire.DELEGPURGE4args{}}}, wire.NFS4ERR_NOTSUPP},
		{[]op{root(), op{wire.OP_CREATE, &wire.CREATE4args{Objtype: wire.Createtype4{Type: wire.NF4REG}, Objname: []byte("x")}}}, wire.NFS4ERR_BADTYPE},
		{[]op{root(), op{wire.OP_CREATE, &wire.CREATE4args{Objtype: wire.Createtype4{Type: wire.NF4DIR}, Objname: []byte(".")}}}, wire.NFS4ERR_BADNAME},
		{[]op{root(), op{wire.OP_CREATE, &wire.CREATE4args{Objtype: wire.Createtype4{Type: wire.NF4DIR}, Objname: []byte("x"),
			Createattrs: fattr(nil, wire.FATTR4_TYPE)}}}, wire.NFS4ERR_INVAL},
		{[]op{root(), op{wire.OP_CREATE, &wire.CREATE4args{Objtype: wire.Createtype4{Type: wire.NF4FIFO}, Objname: []byte("p"), Createattrs: mode(0o600)}}}, ok},
	} {
		if r := c.compound(x.ops...); r.status != x.want {
			t.Errorf("%v: %v, want %v", x.ops, r.status, x.want)
		}
	}
}
