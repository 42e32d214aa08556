package nfs4

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"sluice/pkg/vfs"
	"sluice/test/testenv"
	"sluice/xdr"
	wire "sluice/xdr/nfs4"
)

// A list that a client sets is there for the kernel, and what is read back and set again changes nothing.
func TestACL(t *testing.T) {
	s := startServer(t)
	must(t, os.WriteFile(filepath.Join(s.dir, "f"), nil, 0o640))
	c := s.conn()
	get := func() wire.Fattr4 {
		r := c.compound(root(), lookup("f"), getattr(wire.FATTR4_ACL))
		skipTo(t, r, wire.OP_PUTROOTFH, wire.OP_LOOKUP)
		var g wire.GETATTR4res
		r.next(t, wire.OP_GETATTR, ok, &g)
		g.Resok4.ObjAttributes.AttrVals = append([]byte(nil), g.Resok4.ObjAttributes.AttrVals...)
		return g.Resok4.ObjAttributes
	}
	if f := get(); f.Attrmask.Words[0] != 1<<wire.FATTR4_ACL {
		testenv.Skip(t, "the temporary directory's file system has no access control lists")
	}
	set := func(f wire.Fattr4) wire.Nfsstat4 {
		return c.compound(root(), lookup("f"), op{wire.OP_SETATTR, &wire.SETATTR4args{ObjAttributes: f}}).status
	}
	list := func(aces ...wire.Nfsace4) wire.Fattr4 {
		return fattr(func(e *xdr.Encoder) {
			e.Uint32(uint32(len(aces)))
			for i := range aces {
				aces[i].Encode(e)
			}
		}, wire.FATTR4_ACL)
	}
	const rw = wire.ACE4_READ_DATA | wire.ACE4_WRITE_DATA | wire.ACE4_APPEND_DATA
	if st := set(list(
		wire.Nfsace4{AccessMask: rw, Who: []byte("OWNER@")},
		wire.Nfsace4{AccessMask: rw, Who: []byte("123")},
		wire.Nfsace4{AccessMask: wire.ACE4_READ_DATA, Flag: wire.ACE4_IDENTIFIER_GROUP, Who: []byte("77")},
		wire.Nfsace4{Type: wire.ACE4_ACCESS_DENIED_ACE_TYPE, AccessMask: wire.ACE4_READ_DATA, Who: []byte("5")},
		wire.Nfsace4{AccessMask: wire.ACE4_READ_DATA, Who: []byte("EVERYONE@")})); st != ok {
		t.Fatalf("SETATTR: %v", st)
	}
	if fi, _ := os.Stat(filepath.Join(s.dir, "f")); fi.Mode() != 0o664 { // the group's bits show the mask
		t.Errorf("mode %v", fi.Mode())
	}
	first := get()
	if st := set(first); st != ok {
		t.Errorf("setting what was read: %v", st)
	}
	if again := get(); string(again.AttrVals) != string(first.AttrVals) {
		t.Errorf("another list:\n%x\n%x", first.AttrVals, again.AttrVals)
	}
	for what, x := range map[string]struct {
		ace  wire.Nfsace4
		want wire.Nfsstat4
	}{
		"audit":      {wire.Nfsace4{Type: wire.ACE4_SYSTEM_AUDIT_ACE_TYPE, Who: []byte("OWNER@")}, wire.NFS4ERR_ATTRNOTSUPP},
		"unknown":    {wire.Nfsace4{Who: []byte("nobody that is known")}, wire.NFS4ERR_BADOWNER},
		"nobody":     {wire.Nfsace4{}, wire.NFS4ERR_INVAL},
		"inheriting": {wire.Nfsace4{Who: []byte("OWNER@"), Flag: wire.ACE4_FILE_INHERIT_ACE}, wire.NFS4ERR_INVAL},
	} {
		if st := set(list(x.ace)); st != x.want {
			t.Errorf("%s: %v, want %v", what, st, x.want)
		}
	}
}

// Names are looked up once, and what is not known stays a number.
func TestIDMap(t *testing.T) {
	asked := 0
	m := NewIDMap("example.org")
	now := time.Unix(0, 0)
	m.now = func() time.Time { return now }
	done := make(chan struct{}, 8)
	m.getent = func(_ context.Context, db, key string) (string, error) {
		asked++
		defer func() { done <- struct{}{} }()
		switch db + key {
		case "passwdann", "passwd1001":
			return "ann:x:1001:100:Ann:/home/ann:/bin/sh", nil
		}
		return "", errors.New("exit status 2")
	}
	id := func(s string, group, mayBlock bool) (uint32, error) { return m.id([]byte(s), group, mayBlock) }
	if _, err := id("ann@example.org", false, false); err != vfs.ErrWouldBlock {
		t.Errorf("where it must not wait: %v", err)
	}
	for range 3 {
		if n, err := id("ann@EXAMPLE.org", false, true); n != 1001 || err != nil {
			t.Errorf("ann: %d, %v", n, err)
		}
		if _, err := id("bob", false, true); err != errNoOwner {
			t.Errorf("bob: %v", err)
		}
	}
	if asked != 2 {
		t.Errorf("%d look-ups, want 2", asked)
	}
	for s, want := range map[string]error{"ann@other.org": errNoOwner, "4294967295": errNoOwner, "0x1": errNoOwner, "12": nil} {
		if _, err := id(s, false, true); err != want {
			t.Errorf("%s: %v", s, err)
		}
	}
	<-done
	<-done
	for len(done) > 0 {
		<-done
	}
	if s := string(m.name(nil, 1001, false)); s != "1001" {
		t.Errorf("before it is known: %q", s)
	}
	<-done
	deadline := time.Now().Add(5 * time.Second)
	for string(m.name(nil, 1001, false)) != "ann@example.org" {
		if time.Now().After(deadline) {
			t.Fatalf("name of 1001: %q", m.name(nil, 1001, false))
		}
		time.Sleep(time.Millisecond)
	}
	var none *IDMap
	if s := string(none.name(nil, 7, true)); s != "7" {
		t.Errorf("without a map: %q", s)
	}
}
