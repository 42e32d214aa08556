package nfs4

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"sluice/rpc"
	"sluice/test/testenv"
	"sluice/xdr"
	wire "sluice/xdr/nfs4"
)

// FuzzCompound builds COMPOUNDs from bytes: which operations, and for each
// arguments that decode (made from the operation's own templates, with some
// bytes changed) or plain noise. They run in a session, so that they get to the
// operations themselves: no panic, a bounded reply, the counts right; and now
// and then all clients are thrown out, and nothing may be left of them.
//
// The files lie on a small file system, which ALLOCATE may fill.
func FuzzCompound(f *testing.F) {
	s := startServerOn(f, testenv.XFS(f, 512))
	x := s.session(2, "fuzz")
	var templates []op
	fresh := func() { // files, a client, and what it has open, as at the beginning
		clearDir(s.t, s.dir)
		must(s.t, os.WriteFile(filepath.Join(s.dir, "f"), []byte("some data"), 0o644))
		must(s.t, os.Mkdir(filepath.Join(s.dir, "d"), 0o755))
		x.seq = 0
		x.start("fuzz")
		_, o, fh := x.open("f", wire.OPEN4_SHARE_ACCESS_BOTH)
		templates = fuzzTemplates(x, o.Stateid, fh)
	}
	fresh()
	runs := 0
	for i := range templates {
		f.Add(uint8(2), []byte{0, 0, 1, 0, byte(i), 0, byte(i), 1, 5, 0xff})
		f.Add(uint8(0), []byte{0, 0, byte(i), 2, 0, 7, byte(i), 0})
	}
	f.Fuzz(func(t *testing.T, minor uint8, program []byte) {
		var e xdr.Encoder
		s.t = t
		if runs++; runs%500 == 0 {
			s.noLeaks(t)
			fresh()
		}
		n, at := 0, 0
		minor %= 4
		h := wire.COMPOUND4args{Minorversion: uint32(minor)}
		h.Encode(&e)
		count := len(e.Bytes()) - 4
		if minor > 0 && minor < 3 {
			x.seq++
			e.Uint32(uint32(wire.OP_SEQUENCE))
			x.sequence().args.Encode(&e)
			n++
		}
		for len(program) >= 2 && n < 14 {
			tpl := templates[int(program[0])%len(templates)]
			change := int(program[1]) % 4
			program = program[2:]
			e.Uint32(uint32(tpl.num))
			at = len(e.Bytes())
			if tpl.args != nil {
				tpl.args.Encode(&e)
			}
			for ; change > 0 && len(program) >= 2; change-- {
				if size := len(e.Bytes()) - at; size > 0 {
					e.Bytes()[at+int(program[0])%size] = program[1]
				}
				program = program[2:]
			}
			n++
		}
		e.PatchUint32(count, uint32(n))
		script := append([]byte(nil), e.Bytes()...)
		s.run(x.conn, func(rc *rpc.Call) {
			at, before := len(rc.Reply.Bytes()), rc.Reply.Len()
			m := rc.Reply.Mark()
			rc.Args.Reset(script)
			v := s.svc.compound(rc)
			if v != rpc.Done {
				t.Errorf("verdict %d", v)
			} else if err := rc.Reply.Err(); err != nil {
				t.Errorf("the reply does not encode: %v", err)
			} else {
				var d xdr.Decoder
				d.Reset(rc.Reply.Bytes()[at:])
				var h wire.COMPOUND4res
				h.Decode(&d)
				if d.Err() != nil || h.Resarray > n {
					t.Errorf("%d results of %d operations", h.Resarray, n)
				}
			}
			if got := rc.Reply.Len() - before; got > 1<<20+64<<10 {
				t.Errorf("a reply of %d bytes", got)
			}
			rc.Reply.Rollback(m)
		})
		// The session has to be good afterwards, unless the COMPOUND did away with it.
		x.seq++
		r := x.conn.compound(x.sequence(), root(), getfh())
		if r.status != ok {
			fresh()
		}
	})
}

func clearDir(t testing.TB, dir string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	must(t, err)
	for _, e := range entries {
		must(t, os.RemoveAll(filepath.Join(dir, e.Name())))
	}
}

// maxFuzzHeap is far above what the server needs for the fuzz target's one client, in bytes.
const maxFuzzHeap = 256 << 20

// noLeaks ends all clients, and looks for what is left of them.
func (s *testServer) noLeaks(t *testing.T) {
	t.Helper()
	for _, c := range s.st.Clients() {
		s.st.ExpireClient(c.ID) //nolint:errcheck // unconfirmed ones hold nothing
	}
	if c := s.st.Counters(); c.Clients+c.Sessions+c.Opens+c.Locks+c.Delegations+c.ReplyCacheReserved != 0 {
		t.Errorf("left of clients that are gone: %+v", c)
	}
	if n := s.copies(); n != 0 {
		t.Errorf("%d copies of clients that are gone", n)
	}
	var m runtime.MemStats
	if runtime.ReadMemStats(&m); m.HeapAlloc > maxFuzzHeap {
		runtime.GC()
		if runtime.ReadMemStats(&m); m.HeapAlloc > maxFuzzHeap {
			t.Errorf("%d bytes are in use", m.HeapAlloc)
		}
	}
}

// fuzzTemplates are operations with arguments that make sense.
func fuzzTemplates(x *session, sid wire.Stateid4, fh []byte) []op {
	who := wire.StateOwner4{Clientid: x.clientid, Owner: []byte("o")}
	all := wire.NewBitmap4([3]uint32{^uint32(0) &^ (1 << wire.FATTR4_RDATTR_ERROR), ^uint32(0), 0x7fffff})
	copyOther := sid.Other // that of the client's first copy
	q := &x.s.svc.copies
	q.mu.Lock()
	binary.BigEndian.PutUint32(copyOther[8:], firstCopyStateid+q.last+1)
	q.mu.Unlock()
	l := []op{
		root(), putfh(fh), lookup("f"), lookup("d"), {wire.OP_LOOKUPP, nil}, getfh(), {wire.OP_SAVEFH, nil}, {wire.OP_RESTOREFH, nil},
		{wire.OP_GETATTR, &wire.GETATTR4args{AttrRequest: all}},
		{wire.OP_ACCESS, &wire.ACCESS4args{Access: 0x1ff}},
		{wire.OP_READDIR, &wire.READDIR4args{Dircount: 4096, Maxcount: 4096, AttrRequest: all}},
		{wire.OP_CREATE, &wire.CREATE4args{Objtype: wire.Createtype4{Type: wire.NF4DIR}, Objname: []byte("n"), Createattrs: mode(0o755)}},
		{wire.OP_CREATE, &wire.CREATE4args{Objtype: wire.Createtype4{Type: wire.NF4LNK, Linkdata: []byte("f")}, Objname: []byte("l")}},
		remove("n"), remove("l"), remove("d"), {wire.OP_LINK, &wire.LINK4args{Newname: []byte("n")}},
		{wire.OP_RENAME, &wire.RENAME4args{Oldname: []byte("n"), Newname: []byte("d")}}, {wire.OP_READLINK, nil},
		{wire.OP_OPEN, openArgs("o", 0, x.clientid, "g", wire.OPEN4_SHARE_ACCESS_BOTH, 0, true)},
		{wire.OP_OPEN_DOWNGRADE, &wire.OPENDOWNGRADE4args{OpenStateid: wire.Stateid4{Seqid: 1}, ShareAccess: 1}},
		{wire.OP_CLOSE, &wire.CLOSE4args{OpenStateid: wire.Stateid4{Seqid: 1}}},
		read(sid, 0, 4096), read(wire.Stateid4{}, 3, 10), write(sid, 0, "xyz"), write(wire.Stateid4{Seqid: 1}, 100, "xyz"), {wire.OP_COMMIT, &wire.COMMIT4args{}},
		{wire.OP_SETATTR, &wire.SETATTR4args{Stateid: sid, ObjAttributes: fattr(func(e *xdr.Encoder) { e.Uint64(5); e.Uint32(0o600) }, wire.FATTR4_SIZE, wire.FATTR4_MODE)}},
		{wire.OP_SETATTR, &wire.SETATTR4args{ObjAttributes: fattr(func(e *xdr.Encoder) {
			e.Uint32(2)
			for _, who := range []string{"OWNER@", "123"} {
				a := wire.Nfsace4{AccessMask: 7, Who: []byte(who)}
				a.Encode(e)
			}
		}, wire.FATTR4_ACL)}},
		{wire.OP_VERIFY, &wire.VERIFY4args{ObjAttributes: fattr(func(e *xdr.Encoder) { e.Uint32(1) }, wire.FATTR4_TYPE)}},
		{wire.OP_NVERIFY, &wire.NVERIFY4args{ObjAttributes: fattr(func(e *xdr.Encoder) { e.Uint64(1) }, wire.FATTR4_SIZE)}},
		{wire.OP_LOCK, &wire.LOCK4args{Locktype: wire.WRITE_LT, Length: 10, Locker: wire.Locker4{NewLockOwner: true, OpenOwner: wire.OpenToLockOwner4{OpenStateid: sid, LockOwner: who}}}},
		{wire.OP_LOCKT, &wire.LOCKT4args{Locktype: wire.READ_LT, Length: 10, Owner: who}},
		{wire.OP_LOCKU, &wire.LOCKU4args{Locktype: wire.WRITE_LT, LockStateid: wire.Stateid4{Seqid: 1}, Length: 10}},
		{wire.OP_SECINFO, &wire.SECINFO4args{Name: []byte("f")}}, {wire.OP_SECINFO_NO_NAME, new(wire.SecinfoStyle4)},
		{wire.OP_TEST_STATEID, &wire.TESTSTATEID4args{TsStateids: []wire.Stateid4{sid, {}}}}, {wire.OP_FREE_STATEID, &wire.FREESTATEID4args{FsaStateid: sid}},
		{wire.OP_SEEK, &wire.SEEK4args{SaStateid: sid}}, {wire.OP_READ_PLUS, &wire.READPLUS4args{RpaStateid: sid, RpaCount: 4096}},
		{wire.OP_ALLOCATE, &wire.ALLOCATE4args{AaStateid: sid, AaLength: 100}}, {wire.OP_DEALLOCATE, &wire.DEALLOCATE4args{DaStateid: sid, DaLength: 100}},
		{wire.OP_COPY, &wire.COPY4args{CaSrcStateid: sid, CaDstStateid: sid, CaDstOffset: 4096, CaCount: 3}},
		{wire.OP_CLONE, &wire.CLONE4args{ClSrcStateid: sid, ClDstStateid: sid, ClDstOffset: 4096, ClCount: 4096}},
		{wire.OP_IO_ADVISE, &wire.IOADVISE4args{IaaStateid: sid, IaaHints: wire.Bits(wire.IO_ADVISE4_NOREUSE)}},
		{wire.OP_GETXATTR, &wire.GETXATTR4args{GxaName: []byte("a")}}, {wire.OP_SETXATTR, &wire.SETXATTR4args{SxaKey: []byte("a"), SxaValue: []byte("v")}},
		{wire.OP_LISTXATTRS, &wire.LISTXATTRS4args{LxaMaxcount: 4096}}, {wire.OP_REMOVEXATTR, &wire.REMOVEXATTR4args{RxaName: []byte("a")}},
		{wire.OP_DELEGRETURN, &wire.DELEGRETURN4args{DelegStateid: sid}}, {wire.OP_LAYOUTGET, &wire.LAYOUTGET4args{LogaIomode: 1}},
		{wire.OP_GET_DIR_DELEGATION, &wire.GETDIRDELEGATION4args{}}, {wire.OP_OFFLOAD_STATUS, &wire.OFFLOADSTATUS4args{}},
		{wire.OP_COPY, &wire.COPY4args{CaSrcStateid: sid, CaDstStateid: sid, CaDstOffset: 4096, CaCount: 3, CaSynchronous: true}},
		{wire.OP_OFFLOAD_STATUS, &wire.OFFLOADSTATUS4args{OsaStateid: wire.Stateid4{Seqid: 1, Other: copyOther}}},
		{wire.OP_OFFLOAD_CANCEL, &wire.OFFLOADCANCEL4args{OcaStateid: wire.Stateid4{Seqid: 1, Other: copyOther}}},
		{wire.OP_BACKCHANNEL_CTL, &wire.BACKCHANNELCTL4args{}}, {wire.OP_RECLAIM_COMPLETE, &wire.RECLAIMCOMPLETE4args{}},
		{wire.OP_DESTROY_SESSION, &wire.DESTROYSESSION4args{DsaSessionid: x.id}}, {wire.OP_DESTROY_CLIENTID, &wire.DESTROYCLIENTID4args{DcaClientid: x.clientid}},
		{wire.OP_EXCHANGE_ID, &wire.EXCHANGEID4args{EiaClientowner: wire.ClientOwner4{CoOwnerid: []byte("other")}}},
		{wire.OP_SETCLIENTID, &wire.SETCLIENTID4args{}}, {wire.OP_RENEW, &wire.RENEW4args{Clientid: x.clientid}},
		{wire.NfsOpnum4(200), nil}, {wire.OP_ILLEGAL, rawArgs{1, 2, 3, 4}},
	}
	return l
}
