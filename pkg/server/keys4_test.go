// What the keys of the configuration that are NFSv4's do to a server that is started with them, and its identity by all of
// its addresses.

package server

import (
	"bytes"
	"fmt"
	"net/netip"
	"os"
	"os/user"
	"path/filepath"
	"testing"

	"sluice/test/nfscall"
	"sluice/test/testenv"
	"sluice/xdr"
	wire4 "sluice/xdr/nfs4"
)

func TestDelegationsKey(t *testing.T) {
	const none = wire4.OPEN_DELEGATE_NONE
	for key, want := range map[string][2]wire4.OpenDelegationType4{
		"off":  {none, none},
		"read": {wire4.OPEN_DELEGATE_READ, none},
		"on":   {wire4.OPEN_DELEGATE_READ, wire4.OPEN_DELEGATE_WRITE},
	} {
		cfg, dir := testConfig(t)
		cfg.Delegations = key
		nfscall.Must(t, os.WriteFile(filepath.Join(dir, "other"), nil, 0o644))
		s, _ := start(t, cfg)
		x := nfscall.Dial(t, s.Addrs()[0], nfscall.Root()).Session(t, 1, "client")
		r, _ := x.Open(t, parts(dir), "data", wire4.OPEN4_SHARE_ACCESS_READ, 0)
		w, _ := x.Open(t, parts(dir), "other", wire4.OPEN4_SHARE_ACCESS_BOTH, 0)
		if got := [2]wire4.OpenDelegationType4{r.Delegation.DelegationType, w.Delegation.DelegationType}; got != want {
			t.Errorf("delegations: %s: opened for reading and writing %v, want %v", key, got, want)
		}
		held := int64(0)
		for _, d := range want {
			if d != none {
				held++
			}
		}
		if n := (backend{s}).Stats().NFS4.DelegationsGranted; int64(n) != held {
			t.Errorf("delegations: %s: %d granted, want %d", key, n, held)
		}
	}
}

// Names as the system's databases have them, by its own getent(1).
func TestIDDomainKey(t *testing.T) {
	testenv.Commands(t, "getent")
	who, err := user.LookupId("1")
	nfscall.Must(t, err)
	group, err := user.LookupGroupId("4")
	nfscall.Must(t, err)
	cfg, dir := testConfig(t)
	cfg.IDDomain = "example.org"
	data := filepath.Join(dir, "data")
	nfscall.Must(t, os.Chown(data, 1, 4))
	s, _ := start(t, cfg)
	x := nfscall.Dial(t, s.Addrs()[0], nfscall.Root()).Session(t, 2, "client")
	path := nfscall.Path4(append(parts(dir), "data")...)
	owners := func() string {
		r := x.Do4(t, append(path[:len(path):len(path)], nfscall.Op4{Num: wire4.OP_GETATTR,
			Args: &wire4.GETATTR4args{AttrRequest: wire4.Bits(wire4.FATTR4_OWNER, wire4.FATTR4_OWNER_GROUP)}})...)
		for _, op := range path {
			r.Next(t, op.Num, nil)
		}
		var res wire4.GETATTR4res
		r.Next(t, wire4.OP_GETATTR, &res)
		var d xdr.Decoder
		d.Reset(res.Resok4.ObjAttributes.AttrVals)
		return fmt.Sprintf("%s:%s", d.Opaque(300), d.Opaque(300))
	}
	set := func(attr int, name string) wire4.Nfsstat4 {
		var e xdr.Encoder
		e.Opaque([]byte(name))
		return x.Do4(t, append(path[:len(path):len(path)], nfscall.Op4{Num: wire4.OP_SETATTR,
			Args: &wire4.SETATTR4args{ObjAttributes: wire4.Fattr4{Attrmask: wire4.Bits(attr), AttrVals: e.Bytes()}}})...).Status
	}
	// The databases are asked in the background: the first answer may be numbers.
	named := fmt.Sprintf("%s@example.org:%s@example.org", who.Username, group.Name)
	waitFor(t, named, func() bool { return owners() == named })
	const unknown = 3999999999
	nfscall.Must(t, os.Chown(data, unknown, 0))
	if got := owners(); got[:10] != fmt.Sprint(unknown) {
		t.Errorf("the owner without a name is %s", got)
	}
	for _, c := range []struct {
		attr int
		name string
		want wire4.Nfsstat4
	}{
		{wire4.FATTR4_OWNER, who.Username + "@example.org", wire4.NFS4_OK},
		{wire4.FATTR4_OWNER_GROUP, group.Name + "@EXAMPLE.org", wire4.NFS4_OK},
		{wire4.FATTR4_OWNER, "0@example.org", wire4.NFS4ERR_BADOWNER},
		{wire4.FATTR4_OWNER, who.Username + "@example.com", wire4.NFS4ERR_BADOWNER},
		{wire4.FATTR4_OWNER, "no-such-user@example.org", wire4.NFS4ERR_BADOWNER},
		{wire4.FATTR4_OWNER, "--help", wire4.NFS4ERR_BADOWNER},
	} {
		if st := set(c.attr, c.name); st != c.want {
			t.Errorf("%q: %v, want %v", c.name, st, c.want)
		}
	}
	waitFor(t, "the names that were set", func() bool { return owners() == named })
}

func TestNamesKey(t *testing.T) {
	for key, want := range map[string]wire4.Nfsstat4{"any": wire4.NFS4ERR_NOENT, "utf-8": wire4.NFS4ERR_INVAL} {
		cfg, dir := testConfig(t)
		cfg.Names = key
		s, _ := start(t, cfg)
		x := nfscall.Dial(t, s.Addrs()[0], nfscall.Root()).Session(t, 1, "client")
		if r := x.Do4(t, nfscall.Path4(append(parts(dir), "caf\xe9")...)...); r.Status != want {
			t.Errorf("names: %s: a LOOKUP of what is not UTF-8: %v, want %v", key, r.Status, want)
		}
		if r := x.Do4(t, nfscall.Path4(append(parts(dir), "café")...)...); r.Status != wire4.NFS4ERR_NOENT {
			t.Errorf("names: %s: a LOOKUP of what is: %v", key, r.Status)
		}
	}
}

// The server is one, whichever of its addresses a client comes by: it may take them as ways to the same client id and
// session (RFC 8881, 2.10.5).
func TestTrunking(t *testing.T) {
	cfg, dir := testConfig(t)
	cfg.Listen = "0.0.0.0:0"
	s, _ := start(t, cfg)
	port := netip.MustParseAddrPort(s.Addrs()[0]).Port()
	at := func(ip string) *nfscall.Client {
		return nfscall.Dial(t, fmt.Sprintf("%s:%d", ip, port), nfscall.Root())
	}
	first, second := at("127.0.0.1"), at("127.0.0.2")
	exchange := func(c *nfscall.Client) wire4.EXCHANGEID4resok {
		var res wire4.EXCHANGEID4res
		c.Compound(t, 1, nfscall.Op4{Num: wire4.OP_EXCHANGE_ID, Args: &wire4.EXCHANGEID4args{
			EiaClientowner: wire4.ClientOwner4{CoVerifier: wire4.Verifier4{1}, CoOwnerid: []byte("client")}}}).Next(t, wire4.OP_EXCHANGE_ID, &res)
		r := res.EirResok4
		r.EirServerOwner.SoMajorId, r.EirServerScope = bytes.Clone(r.EirServerOwner.SoMajorId), bytes.Clone(r.EirServerScope)
		return r
	}
	x := first.Session(t, 1, "client")
	a, b := exchange(first), exchange(second)
	if a.EirServerOwner.SoMinorId != b.EirServerOwner.SoMinorId || !bytes.Equal(a.EirServerOwner.SoMajorId, b.EirServerOwner.SoMajorId) ||
		!bytes.Equal(a.EirServerScope, b.EirServerScope) || len(a.EirServerScope) == 0 {
		t.Errorf("identities by two addresses:\n%+v\n%+v", a.EirServerOwner, b.EirServerOwner)
	}
	if a.EirClientid != x.ClientID || b.EirClientid != x.ClientID || b.EirFlags&wire4.EXCHGID4_FLAG_CONFIRMED_R == 0 {
		t.Errorf("client ids by two addresses: %#x and %#x, want %#x confirmed", a.EirClientid, b.EirClientid, x.ClientID)
	}
	x.Open(t, parts(dir), "data", wire4.OPEN4_SHARE_ACCESS_READ, 0)
	x.Move(t, second)
	x.Open(t, parts(dir), "data", wire4.OPEN4_SHARE_ACCESS_READ, 0)
	if list := (backend{s}).Sessions(0); len(list) != 1 || list[0].Connections != 2 {
		t.Errorf("sessions: %+v", list)
	}
}
