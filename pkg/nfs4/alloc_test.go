package nfs4

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"sluice/rpc"
	"sluice/xdr"
	wire "sluice/xdr/nfs4"
)

// sink is where runOn sends data. One procedure at a time runs in a test.
var sink [1 << 20]byte

// spliced tells whether the last reply's data was in a pipe.
var spliced bool

// runOn runs COMPOUND on a call that a service thread has at hand, and drops the reply once its data has been taken.
func (s *testServer) runOn(c *rpc.Call, args []byte) (rpc.Verdict, wire.Nfsstat4) {
	m, at := c.Reply.Mark(), len(c.Reply.Bytes())
	c.Args.Reset(args)
	v := s.svc.compound(c)
	st := wire.Nfsstat4(-1)
	if b := c.Reply.Bytes()[at:]; len(b) >= 4 {
		st = wire.Nfsstat4(int32(b[0])<<24 | int32(b[1])<<16 | int32(b[2])<<8 | int32(b[3]))
	}
	spliced = false
	for _, s := range c.Reply.Segments() {
		_, memory := s.P.Bytes()
		spliced = spliced || !memory
		s.P.ReadAll(sink[:]) //nolint:errcheck // what was lost shows elsewhere
	}
	c.Reply.Rollback(m)
	return v, st
}

// hotScripts are the COMPOUNDs that may allocate nothing, as a Linux client sends them. The first operation of each is a SEQUENCE.
func hotScripts(t testing.TB, s *testServer, x *session) map[string][]op {
	must(t, os.WriteFile(filepath.Join(s.dir, "f"), make([]byte, 1<<20), 0o644))
	r := x.compound(root(), op{wire.OP_OPEN, openArgs("o", 0, x.clientid, "f", wire.OPEN4_SHARE_ACCESS_BOTH, 0, false)}, getfh())
	r.next(t, wire.OP_PUTROOTFH, ok, nil)
	var o wire.OPEN4res
	r.next(t, wire.OP_OPEN, ok, &o)
	var fh wire.GETFH4res
	r.next(t, wire.OP_GETFH, ok, &fh)
	sid, file := o.Resok4.Stateid, putfh(fh.Resok4.Object)
	attrs := getattr(wire.FATTR4_TYPE, wire.FATTR4_CHANGE, wire.FATTR4_SIZE, wire.FATTR4_FSID, wire.FATTR4_FILEID, wire.FATTR4_MODE, wire.FATTR4_NUMLINKS,
		wire.FATTR4_OWNER, wire.FATTR4_OWNER_GROUP, wire.FATTR4_RAWDEV, wire.FATTR4_SPACE_USED, wire.FATTR4_TIME_ACCESS, wire.FATTR4_TIME_METADATA,
		wire.FATTR4_TIME_MODIFY, wire.FATTR4_MOUNTED_ON_FILEID)
	return map[string][]op{
		"GETATTR":      {file, attrs},
		"ACCESS":       {file, {wire.OP_ACCESS, &wire.ACCESS4args{Access: 0x1f}}, attrs},
		"LOOKUP":       {root(), lookup("f"), getfh(), attrs},
		"LOOKUP none":  {root(), lookup("absent"), getfh(), attrs},
		"READ 4K":      {file, read(sid, 0, 4096)},
		"READ 64K":     {file, read(sid, 0, 65536)},
		"READ 128K":    {file, read(sid, 0, 128<<10)},
		"READ 1M":      {file, read(sid, 0, 1<<20)},
		"READ special": {file, read(wire.Stateid4{}, 0, 4096)},
		"WRITE 4K": {file, {wire.OP_WRITE, &wire.WRITE4args{Stateid: sid, Stable: wire.UNSTABLE4, Data: make([]byte, 4096)}},
			attrs},
		"BAD handle": {putfh(make([]byte, 64)), attrs},
	}
}

// The hot operations allocate nothing, from arguments to reply; and what is warm is served by a thread that must not sleep.
func TestNoAllocations(t *testing.T) {
	s := startServer(t)
	x := s.session(1, "alloc")
	for name, ops := range hotScripts(t, s, x) {
		x.seq++
		seq := x.sequence().args.(*wire.SEQUENCE4args)
		script := script{1, nil, append([]op{{wire.OP_SEQUENCE, seq}}, ops...)}
		var allocs float64
		var verdict, warm rpc.Verdict
		var st wire.Nfsstat4
		s.run(x.conn, func(rc *rpc.Call) {
			var e xdr.Encoder
			next := func() []byte {
				e.Reset(e.Bytes()[:0])
				script.Encode(&e)
				seq.SaSequenceid++
				return e.Bytes()
			}
			s.runOn(rc, next()) // opens what must be opened
			rc.MayBlock = false
			warm, st = s.runOn(rc, next())
			rc.MayBlock = true
			runtime.GC()
			allocs = testing.AllocsPerRun(200, func() { verdict, _ = s.runOn(rc, next()) })
		})
		x.seq = seq.SaSequenceid - 1
		want := ok
		switch name {
		case "LOOKUP none":
			want = wire.NFS4ERR_NOENT
		case "BAD handle":
			want = wire.NFS4ERR_BADHANDLE
		}
		if verdict != rpc.Done || warm != rpc.Done || st != want {
			t.Errorf("%s: verdict %d, on a service thread %d, status %v", name, verdict, warm, st)
		}
		if spliced != (name == "READ 1M" || name == "READ 128K") {
			t.Errorf("%s: data in a pipe: %v", name, spliced)
		}
		if allocs != 0 {
			t.Errorf("%s allocates %v times", name, allocs)
		}
	}
}

func BenchmarkCompound(b *testing.B) {
	s := startServer(b)
	x := s.session(1, "bench")
	for name, ops := range hotScripts(b, s, x) {
		x.seq++
		seq := x.sequence().args.(*wire.SEQUENCE4args)
		script := script{1, nil, append([]op{{wire.OP_SEQUENCE, seq}}, ops...)}
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			s.run(x.conn, func(rc *rpc.Call) {
				var e xdr.Encoder
				for b.Loop() {
					e.Reset(e.Bytes()[:0])
					script.Encode(&e)
					seq.SaSequenceid++
					s.runOn(rc, e.Bytes())
				}
			})
		})
		x.seq = seq.SaSequenceid - 1
	}
}
