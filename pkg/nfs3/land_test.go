package nfs3

import (
	"bytes"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"sluice/pkg/dataio"
	"sluice/pkg/vfs"
	"sluice/test/nfscall"
	"sluice/test/testenv"
	"sluice/xdr"
	wire3 "sluice/xdr/nfs3"
)

// The place of the data that landWrite tells is where it is, whatever the
// handle's length; and arguments that end before it have none.
func TestLandWrite(t *testing.T) {
	for _, n := range []int{24, 28, 33, 64} {
		var e xdr.Encoder
		w := wire3.WRITE3args{File: nfscall.FH(make([]byte, n)), Offset: 47008, Count: 5, Stable: wire3.UNSTABLE, Data: []byte("found")}
		w.Encode(&e)
		args := e.Bytes()
		at, off, ok := landWrite(args)
		if !ok || off != 47008 || at+8 != len(args) || string(args[at:at+5]) != "found" {
			t.Errorf("handle of %d bytes: %d, %d, %t", n, at, off, ok)
		}
		for cut := range at {
			if _, _, ok := landWrite(args[:cut]); ok {
				t.Errorf("handle of %d bytes: found in %d bytes", n, cut)
			}
		}
	}
}

// WRITEs in mode direct over the wire: large ones land and need no copy, small
// ones in one burst are not lost for being taken together, and the mode may
// change between any two.
func TestDirectWrites(t *testing.T) {
	var modes dataio.Modes
	s := startServer(t, "rw,no_root_squash,insecure,async", func(c *vfs.Config) { c.Modes = &modes })
	c := s.client(t)
	path := filepath.Join(s.dir, "f")
	nfscall.Must(t, os.WriteFile(path, nil, 0o644))
	fh := c.Lookup(t, c.Mount(t, s.dir), "f")
	w := newWrites(t, s)
	rnd := rand.New(rand.NewPCG(5, 6))
	var model []byte
	burst := func(off int, stable wire3.StableHow, sizes ...int) {
		t.Helper()
		var records [][]byte
		for _, n := range sizes {
			data := make([]byte, n)
			for i := range data {
				data[i] = byte(rnd.Uint32())
			}
			records = append(records, w.call(nfscall.Root(), fh, uint64(off), data, stable))
			model = append(model, make([]byte, max(0, off+n-len(model)))...)
			copy(model[off:], data)
			off += n
		}
		for xid, r := range w.burst(records...) {
			args := w.sent[xid]
			if r.Status != wire3.NFS3_OK || r.Resok.Committed != stable || int(r.Resok.Count) == 0 || int(r.Resok.Count) > len(args) {
				t.Fatalf("WRITE %d: %v, %+v", xid, r.Status, r.Resok)
			}
		}
	}
	modes.SetWrite(dataio.Direct)
	w.open(fh) // a byte of zero at 0
	model = []byte{0}
	if s.engine.Stats().Write["direct"].Fallbacks["no_direct_io"] > 0 {
		testenv.Skip(t, "the file system of temporary files has no direct I/O")
	}
	before := s.engine.Stats()
	for i := range 6 {
		burst(i<<20, wire3.UNSTABLE, 1<<20)
	}
	burst(47008, wire3.UNSTABLE, 1<<20, 300_000, 1<<20) // more than a thread's read buffer, misaligned
	after := s.engine.Stats()
	if landed, copied := after.WriteLanded-before.WriteLanded, after.WriteCopied-before.WriteCopied; landed != 9 || copied != 0 {
		t.Errorf("%d WRITEs landed and %d were copied, of 9", landed, copied)
	}
	small := []int{4096, 4096, 4096, 4096, 4096, 4096, 4096, 4096}
	burst(1<<20, wire3.UNSTABLE, small...)
	burst(2<<20+100, wire3.UNSTABLE, small...)
	if n := s.engine.Stats().Write["direct"].Calls - after.Write["direct"].Calls; n != 8 {
		t.Errorf("%d of 8 aligned small WRITEs went direct", n)
	}
	for i := range 60 {
		modes.SetWrite([]dataio.Mode{dataio.Buffered, dataio.DontCache, dataio.Direct, dataio.Auto}[rnd.IntN(4)])
		off := rnd.IntN(3 << 20)
		if i%2 == 0 {
			off &^= 4095
		}
		if i%3 == 0 {
			burst(off, wire3.StableHow(rnd.IntN(3)), 1+rnd.IntN(1<<20))
		} else {
			burst(off, wire3.UNSTABLE, small[:1+rnd.IntN(8)]...)
		}
	}
	got, err := os.ReadFile(path)
	nfscall.Must(t, err)
	if !bytes.Equal(got, model) {
		t.Errorf("the file of %d bytes is another than was written, %d bytes", len(got), len(model))
	}
}

func BenchmarkLandWrite(b *testing.B) {
	var e xdr.Encoder
	w := wire3.WRITE3args{File: nfscall.FH(make([]byte, 28)), Count: 4, Data: make([]byte, 4)}
	w.Encode(&e)
	b.ReportAllocs()
	for b.Loop() {
		landWrite(e.Bytes())
	}
}
