package proto

import (
	"errors"
	"testing"

	"sluice/rpc"
	"sluice/test/nfscall"
)

// What a server says of programs, versions and procedures that it has not: the
// range of versions it serves, exactly (RFC 5531, 9).
func TestPrograms(t *testing.T) {
	i := serve(t, "rw,insecure,async,no_root_squash")
	c := i.client(t, nfscall.Root())
	const nfs, mount, nfsacl, nlm = 100003, 100005, 100227, 100021
	const progUnavail, progMismatch, procUnavail = 1, 2, 3
	for _, x := range []struct {
		prog, vers, proc uint32
		want             rpc.Error
	}{
		{nfs, 0, 0, rpc.Error{Stat: progMismatch, Low: 3, High: 4}},
		{nfs, 2, 0, rpc.Error{Stat: progMismatch, Low: 3, High: 4}},
		{nfs, 5, 1, rpc.Error{Stat: progMismatch, Low: 3, High: 4}},
		{mount, 0, 0, rpc.Error{Stat: progMismatch, Low: 1, High: 3}},
		{mount, 4, 1, rpc.Error{Stat: progMismatch, Low: 1, High: 3}},
		{nfsacl, 3, 0, rpc.Error{Stat: progUnavail}},
		{nlm, 4, 0, rpc.Error{Stat: progUnavail}},
		{nfs, 3, 22, rpc.Error{Stat: procUnavail}},
		{nfs, 4, 2, rpc.Error{Stat: procUnavail}},
		{mount, 3, 6, rpc.Error{Stat: procUnavail}},
		{mount, 1, 1, rpc.Error{Stat: procUnavail}}, // MNT: a handle of 32 bytes can't be given
	} {
		var e *rpc.Error
		if err := c.Call(x.prog, x.vers, x.proc, &c.Cred, nil, nil); !errors.As(err, &e) || *e != x.want {
			t.Errorf("program %d version %d procedure %d: %v, want %v", x.prog, x.vers, x.proc, err, &x.want)
		}
	}
	for prog, versions := range map[uint32][]uint32{nfs: {3, 4}, mount: {1, 2, 3}} {
		for _, vers := range versions {
			if err := c.Call(prog, vers, 0, &c.Cred, nil, nil); err != nil {
				t.Errorf("NULL of program %d version %d: %v", prog, vers, err)
			}
		}
	}
}
