package nfs3

import (
	"os"
	"path/filepath"
	"testing"

	"sluice/rpc"
	"sluice/test/nfscall"
	"sluice/xdr"
)

// FuzzProcedures feeds argument bytes to every procedure of NFS and MOUNT, as
// they are and behind a handle that is good: no panic, no leak, and a reply
// that is small unless it is data.
func FuzzProcedures(f *testing.F) {
	s := startServer(f, "rw,no_root_squash,insecure,async")
	c := s.client(f)
	root := c.Mount(f, s.dir)
	nfscall.Must(f, os.WriteFile(filepath.Join(s.dir, "f"), []byte("some data"), 0o644))
	nfscall.Must(f, os.Mkdir(filepath.Join(s.dir, "d"), 0o755))
	handles := [][]byte{root, c.Lookup(f, root, "f"), c.Lookup(f, root, "d")}

	type target struct {
		name string
		run  func(*rpc.Call) rpc.Verdict
	}
	var targets []target
	for _, p := range s.svc.Programs() {
		for _, v := range p.Versions {
			for _, proc := range v.Procs {
				if proc.Run != nil {
					targets = append(targets, target{p.Name + " " + proc.Name, proc.Run})
				}
			}
		}
	}
	for _, h := range append(handles, make([]byte, 64)) {
		for _, call := range callsOn(h) {
			var e xdr.Encoder
			call.args.Encode(&e)
			f.Add(uint8(call.proc), uint8(0), e.Bytes())
			f.Add(uint8(call.proc), uint8(1), e.Bytes()[min(e.Len(), 4+len(h)):])
		}
	}
	for i := range targets {
		f.Add(uint8(i), uint8(0), []byte{})
		f.Add(uint8(i), uint8(3), []byte{0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0})
	}
	f.Fuzz(func(t *testing.T, which, handle uint8, args []byte) {
		target := targets[int(which)%len(targets)]
		if n := int(handle) % (len(handles) + 1); n > 0 {
			var e xdr.Encoder
			e.Opaque(handles[n-1])
			args = append(e.Bytes(), args...)
		}
		s.run(t, c, func(rc *rpc.Call) {
			rc.MayBlock = true
			v, n := runOn(rc, target.run, args)
			if v != rpc.Done && v != rpc.GarbageArgs {
				t.Errorf("%s: verdict %d", target.name, v)
			}
			if n > 2<<20 {
				t.Errorf("%s: a reply of %d bytes", target.name, n)
			}
		})
	})
}
