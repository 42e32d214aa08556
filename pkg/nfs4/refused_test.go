// Operations whose answer is no: layouts, device lists, and what Linux does not serve either.

package nfs4

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	wire "sluice/xdr/nfs4"
)

func TestRefusedOperations(t *testing.T) {
	s := startServer(t)
	must(t, os.WriteFile(filepath.Join(s.dir, "f"), nil, 0o644))
	must(t, os.Mkdir(filepath.Join(s.dir, "d"), 0o755))
	layout := func(iomode wire.Layoutiomode4) op {
		return op{wire.OP_LAYOUTGET, &wire.LAYOUTGET4args{LogaLayoutType: wire.LAYOUT4_NFSV4_1_FILES, LogaIomode: iomode, LogaLength: 4096, LogaMinlength: 1, LogaMaxcount: 4096}}
	}
	const illegal = wire.NFS4ERR_OP_ILLEGAL
	for _, c := range []struct {
		name         string
		op           op
		v40, v41, v2 wire.Nfsstat4
	}{
		{"f", layout(wire.LAYOUTIOMODE4_READ), illegal, wire.NFS4ERR_LAYOUTUNAVAILABLE, wire.NFS4ERR_LAYOUTUNAVAILABLE},
		{"f", layout(wire.LAYOUTIOMODE4_RW), illegal, wire.NFS4ERR_LAYOUTUNAVAILABLE, wire.NFS4ERR_LAYOUTUNAVAILABLE},
		{"f", layout(wire.LAYOUTIOMODE4_ANY), illegal, wire.NFS4ERR_BADIOMODE, wire.NFS4ERR_BADIOMODE},
		{"f", layout(77), illegal, wire.NFS4ERR_BADIOMODE, wire.NFS4ERR_BADIOMODE},
		{"f", op{wire.OP_LAYOUTCOMMIT, new(wire.LAYOUTCOMMIT4args)}, illegal, wire.NFS4ERR_NOTSUPP, wire.NFS4ERR_NOTSUPP},
		{"f", op{wire.OP_LAYOUTRETURN, new(wire.LAYOUTRETURN4args)}, illegal, wire.NFS4ERR_NOTSUPP, wire.NFS4ERR_NOTSUPP},
		{"f", op{wire.OP_GETDEVICEINFO, new(wire.GETDEVICEINFO4args)}, illegal, wire.NFS4ERR_NOTSUPP, wire.NFS4ERR_NOTSUPP},
		{"f", op{wire.OP_GETDEVICELIST, new(wire.GETDEVICELIST4args)}, illegal, wire.NFS4ERR_NOTSUPP, wire.NFS4ERR_NOTSUPP}, // 4.2 has done away with it
		{"f", op{wire.OP_SET_SSV, new(wire.SETSSV4args)}, illegal, wire.NFS4ERR_NOTSUPP, wire.NFS4ERR_NOTSUPP},
		{"f", op{wire.OP_WANT_DELEGATION, &wire.WANTDELEGATION4args{WdaClaim: wire.DelegClaim4{DcClaim: wire.CLAIM_FH}}}, illegal, wire.NFS4ERR_NOTSUPP, wire.NFS4ERR_NOTSUPP},
		{"f", op{wire.OP_WRITE_SAME, new(wire.WRITESAME4args)}, illegal, illegal, wire.NFS4ERR_NOTSUPP},
		{"f", op{wire.OP_COPY_NOTIFY, &wire.COPYNOTIFY4args{CnaDestinationServer: wire.Netloc4{NlType: wire.NL4_NAME}}}, illegal, illegal, wire.NFS4ERR_NOTSUPP},
		{"f", op{wire.OP_LAYOUTERROR, rawArgs{}}, illegal, illegal, wire.NFS4ERR_NOTSUPP},
		{"f", op{wire.OP_LAYOUTSTATS, rawArgs{}}, illegal, illegal, wire.NFS4ERR_NOTSUPP},
		{"f", op{wire.OP_OPENATTR, new(wire.OPENATTR4args)}, wire.NFS4ERR_NOTSUPP, wire.NFS4ERR_NOTSUPP, wire.NFS4ERR_NOTSUPP},
		{"f", op{wire.OP_DELEGPURGE, new(wire.DELEGPURGE4args)}, wire.NFS4ERR_NOTSUPP, wire.NFS4ERR_NOTSUPP, wire.NFS4ERR_NOTSUPP},
		{"f", op{wire.OP_GET_DIR_DELEGATION, new(wire.GETDIRDELEGATION4args)}, illegal, wire.NFS4ERR_NOTDIR, wire.NFS4ERR_NOTDIR},
	} {
		for minor, want := range []wire.Nfsstat4{c.v40, c.v41, c.v2} {
			x := s.session(uint32(minor), fmt.Sprint("refused", minor))
			r := x.compound(root(), lookup(c.name), c.op, root())
			skipTo(t, r, wire.OP_PUTROOTFH, wire.OP_LOOKUP)
			num := c.op.num
			if want == illegal {
				num = wire.OP_ILLEGAL
			}
			r.next(t, num, want, nil)
			if r.status != want || r.d.Len() != 0 {
				t.Errorf("4.%d %v: COMPOUND %v, %d bytes behind", minor, c.op.num, r.status, r.d.Len())
			}
			if r := x.compound(root(), getfh()); r.status != ok {
				t.Errorf("4.%d, after %v: %v", minor, c.op.num, r.status)
			}
		}
	}
	// No to a directory's delegation is an answer of its own, with which a client goes on asking.
	x := s.session(1, "directory")
	r := x.compound(root(), op{wire.OP_GET_DIR_DELEGATION, new(wire.GETDIRDELEGATION4args)}, getfh())
	skipTo(t, r, wire.OP_PUTROOTFH)
	var res wire.GETDIRDELEGATION4res
	r.next(t, wire.OP_GET_DIR_DELEGATION, ok, &res)
	if st := res.GddrResNonFatal4.GddrnfStatus; st != wire.GDD4_UNAVAIL {
		t.Errorf("GET_DIR_DELEGATION: %v", st)
	}
	r.next(t, wire.OP_GETFH, ok, &wire.GETFH4res{})
}
