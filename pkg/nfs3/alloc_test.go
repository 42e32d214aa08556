package nfs3

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"sluice/rpc"
	"sluice/test/nfscall"
	"sluice/xdr"
	wire3 "sluice/xdr/nfs3"
)

// hotCalls are the calls that may allocate nothing, with their encoded arguments.
func hotCalls(t testing.TB, s *testServer, c *nfscall.Client) map[string]struct {
	run  func(*rpc.Call) rpc.Verdict
	args []byte
} {
	t.Helper()
	root := c.Mount(t, s.dir)
	nfscall.Must(t, os.WriteFile(filepath.Join(s.dir, "f"), make([]byte, 256<<10), 0o644))
	file := c.Lookup(t, root, "f")
	out := map[string]struct {
		run  func(*rpc.Call) rpc.Verdict
		args []byte
	}{}
	for name, x := range map[string]struct {
		proc uint32
		args rpc.Encodable
	}{
		"GETATTR":     {wire3.NFSPROC3_GETATTR, &wire3.GETATTR3args{Object: nfscall.FH(file)}},
		"LOOKUP":      {wire3.NFSPROC3_LOOKUP, &wire3.LOOKUP3args{What: nfscall.Dirop(root, "f")}},
		"LOOKUP none": {wire3.NFSPROC3_LOOKUP, &wire3.LOOKUP3args{What: nfscall.Dirop(root, "absent")}},
		"ACCESS":      {wire3.NFSPROC3_ACCESS, &wire3.ACCESS3args{Object: nfscall.FH(file), Access: 0x3f}},
		"READ 4K":     {wire3.NFSPROC3_READ, &wire3.READ3args{File: nfscall.FH(file), Count: 4096}},
		"READ 64K":    {wire3.NFSPROC3_READ, &wire3.READ3args{File: nfscall.FH(file), Count: 65536}},
		"READ end":    {wire3.NFSPROC3_READ, &wire3.READ3args{File: nfscall.FH(file), Offset: 1 << 40, Count: 4096}},
		"WRITE 4K":    {wire3.NFSPROC3_WRITE, &wire3.WRITE3args{File: nfscall.FH(file), Count: 4096, Data: make([]byte, 4096)}},
		"WRITE 64K":   {wire3.NFSPROC3_WRITE, &wire3.WRITE3args{File: nfscall.FH(file), Count: 65536, Data: make([]byte, 65536)}},
		"GETATTR bad": {wire3.NFSPROC3_GETATTR, &wire3.GETATTR3args{Object: nfscall.FH(make([]byte, 64))}},
	} {
		var e xdr.Encoder
		x.args.Encode(&e)
		out[name] = struct {
			run  func(*rpc.Call) rpc.Verdict
			args []byte
		}{s.proc(x.proc), e.Bytes()}
	}
	return out
}

// The hot procedures allocate nothing, from arguments to reply.
func TestNoAllocations(t *testing.T) {
	s := startServer(t, "rw,no_root_squash,insecure,async")
	c := s.client(t)
	for name, call := range hotCalls(t, s, c) {
		var allocs float64
		var verdict rpc.Verdict
		s.run(t, c, func(rc *rpc.Call) {
			rc.MayBlock = true // what WouldBlock costs is the slow pool's affair
			runtime.GC()
			allocs = testing.AllocsPerRun(200, func() { verdict, _ = runOn(rc, call.run, call.args) })
		})
		if verdict != rpc.Done {
			t.Errorf("%s: verdict %d", name, verdict)
		}
		if allocs != 0 {
			t.Errorf("%s allocates %v times", name, allocs)
		}
	}
}

// On a service thread, which must not sleep, what is in memory is served at once.
func TestWarmCallsDoNotLeaveTheServiceThread(t *testing.T) {
	s := startServer(t, "rw,no_root_squash,insecure,async")
	c := s.client(t)
	for name, call := range hotCalls(t, s, c) {
		var verdict rpc.Verdict
		s.run(t, c, func(rc *rpc.Call) {
			rc.MayBlock = true
			runOn(rc, call.run, call.args) // opens what must be opened
			rc.MayBlock = false
			verdict, _ = runOn(rc, call.run, call.args)
			rc.MayBlock = true
		})
		if verdict != rpc.Done {
			t.Errorf("%s, warm: verdict %d, want Done", name, verdict)
		}
	}
}

func BenchmarkProcedures(b *testing.B) {
	s := startServer(b, "rw,no_root_squash,insecure,async")
	c := s.client(b)
	for name, call := range hotCalls(b, s, c) {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			s.run(b, c, func(rc *rpc.Call) {
				rc.MayBlock = true
				for b.Loop() {
					runOn(rc, call.run, call.args)
				}
			})
		})
	}
}
