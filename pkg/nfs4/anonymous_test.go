package nfs4

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"testing"

	"sluice/rpc"
	wire "sluice/xdr/nfs4"
)

// I/O with the anonymous stateid asks for the file's permissions each time. Owners are excused, since what they opened may
// have changed its mode since, and who may execute a file may read it, both as with Linux; nobody else is.
func TestAnonymousStateid(t *testing.T) {
	s := startServer(t)
	x := s.session(2, "anonymous")
	var anon wire.Stateid4
	for _, c := range []struct {
		mode        os.FileMode
		read, write []uint32 // who may
	}{
		{0, []uint32{1000, 0}, []uint32{1000, 0}}, {0o400, []uint32{1000, 0}, []uint32{1000, 0}}, {0o111, []uint32{1000, 1001, 1002, 0}, []uint32{1000, 0}},
		{0o044, []uint32{1000, 1001, 1002, 0}, []uint32{1000, 0}}, {0o020, []uint32{1000, 0}, []uint32{1000, 1001, 0}}, {0o606, []uint32{1000, 1002, 0}, []uint32{1000, 1002, 0}},
	} {
		f := filepath.Join(s.dir, fmt.Sprintf("f%o", c.mode))
		must(t, os.WriteFile(f, []byte("data"), 0o644))
		must(t, os.Chown(f, 1000, 2000))
		must(t, os.Chmod(f, c.mode))
		for _, uid := range []uint32{1000, 1001, 1002, 0} { // owner, of the group, another, the superuser
			x.cred = rpc.Cred{Flavor: rpc.FlavorSys, UID: uid, GID: map[bool]uint32{true: 2000, false: uid}[uid == 1001], Machine: []byte("test")}
			may := func(l []uint32) wire.Nfsstat4 {
				for _, u := range l {
					if u == uid {
						return ok
					}
				}
				return wire.NFS4ERR_ACCESS
			}
			way := func(o op) []op { return []op{root(), lookup(filepath.Base(f)), o} }
			for _, q := range []struct {
				what string
				o    op
				want wire.Nfsstat4
			}{
				{"READ", read(anon, 0, 4), may(c.read)}, {"READ_PLUS", op{wire.OP_READ_PLUS, &wire.READPLUS4args{RpaCount: 4}}, may(c.read)},
				{"SEEK", op{wire.OP_SEEK, &wire.SEEK4args{}}, may(c.read)}, {"WRITE", write(anon, 0, "data"), may(c.write)},
				{"ALLOCATE", op{wire.OP_ALLOCATE, &wire.ALLOCATE4args{AaLength: 4}}, may(c.write)},
				{"DEALLOCATE", op{wire.OP_DEALLOCATE, &wire.DEALLOCATE4args{DaLength: 1}}, may(c.write)},
			} {
				if r := x.compound(way(q.o)...); r.status != q.want {
					t.Errorf("mode %o, uid %d: %s: %v, want %v", c.mode, uid, q.what, r.status, q.want)
				}
			}
		}
	}
}

// What was opened to read is not locked or written for writing, and what was opened to write not read by one who may not.
func TestAccessOfOpens(t *testing.T) {
	dir := rightsDir(t, "ro", "rw")
	ro, rw := filepath.Join(dir, "ro"), filepath.Join(dir, "rw")
	s := startTable(t, dir, ro+" *(ro,no_root_squash,insecure)\n"+rw+" *(rw,no_root_squash,insecure)\n", func(*Config) {})
	x := s.session(2, "opens")
	before := contents(t, dir)
	for _, at := range []string{ro, rw} {
		fh := x.fhOf(at, "f")
		a := openArgs(opener(), 0, x.clientid, "", wire.OPEN4_SHARE_ACCESS_READ, 0, false)
		a.Claim = wire.OpenClaim4{Claim: wire.CLAIM_FH}
		var o wire.OPEN4res
		x.on(fh, op{wire.OP_OPEN, a}).next(t, wire.OP_OPEN, ok, &o)
		sid := o.Resok4.Stateid
		lock := func(typ wire.NfsLockType4) op {
			return op{wire.OP_LOCK, &wire.LOCK4args{Locktype: typ, Length: math.MaxUint64, Locker: wire.Locker4{NewLockOwner: true,
				OpenOwner: wire.OpenToLockOwner4{OpenStateid: sid, LockOwner: wire.StateOwner4{Clientid: x.clientid, Owner: []byte(at)}}}}}
		}
		save := op{wire.OP_SAVEFH, nil}
		for what, ops := range map[string][]op{
			"LOCK to write": {lock(wire.WRITE_LT)}, "LOCK to write, waiting": {lock(wire.WRITEW_LT)}, "WRITE": {write(sid, 0, "evil")},
			"ALLOCATE": {{wire.OP_ALLOCATE, &wire.ALLOCATE4args{AaStateid: sid, AaLength: 100}}}, "DEALLOCATE": {{wire.OP_DEALLOCATE, &wire.DEALLOCATE4args{DaStateid: sid, DaLength: 100}}},
			"COPY":                   {save, {wire.OP_COPY, &wire.COPY4args{CaDstStateid: sid, CaDstOffset: 100, CaCount: 4, CaSynchronous: true}}},
			"CLONE":                  {save, {wire.OP_CLONE, &wire.CLONE4args{ClDstStateid: sid}}},
			"OPEN_DOWNGRADE to more": {{wire.OP_OPEN_DOWNGRADE, &wire.OPENDOWNGRADE4args{OpenStateid: sid, ShareAccess: wire.OPEN4_SHARE_ACCESS_BOTH}}},
		} {
			want := wire.NFS4ERR_OPENMODE
			if what == "OPEN_DOWNGRADE to more" {
				want = wire.NFS4ERR_INVAL
			}
			if r := x.on(fh, ops...); r.status != want {
				t.Errorf("%s: %s with an open to read: %v, want %v", at, what, r.status, want)
			}
		}
		if r := x.on(fh, lock(wire.READ_LT)); r.status != ok {
			t.Errorf("%s: LOCK to read: %v", at, r.status)
		}
		if r := x.on(fh, read(sid, 0, 10)); r.status != ok {
			t.Errorf("%s: READ: %v", at, r.status)
		}
	}
	if after := contents(t, dir); after != before {
		t.Errorf("something was changed:\n%s\nwas\n%s", after, before)
	}
}
