// READs that are aligned to nothing, among other operations and in replies that a session slot keeps.

package nfs4

import (
	"bytes"
	"crypto/rand"
	"os"
	"path/filepath"
	"testing"

	"sluice/pkg/dataio"
	"sluice/test/testenv"
	"sluice/xdr"
	wire "sluice/xdr/nfs4"
)

var readModes = []dataio.Mode{dataio.Buffered, dataio.DontCache, dataio.Direct}

// Two READs at odd places with GETATTRs before, between and behind them: whatever padding the data needs, and whichever
// way it takes, each result is where it should be.
func TestOddReadsAmongOthers(t *testing.T) {
	s := startServerOn(t, testenv.XFS(t, 512))
	const size = 1<<20 + 777
	data := randomFile(t, filepath.Join(s.dir, "f"), size)
	x := s.session(2, "odd")
	_, o, fh := x.open("f", wire.OPEN4_SHARE_ACCESS_READ)
	takeSize := func(r *results) {
		t.Helper()
		var g wire.GETATTR4res
		r.next(t, wire.OP_GETATTR, ok, &g)
		var d xdr.Decoder
		d.Reset(g.Resok4.ObjAttributes.AttrVals)
		if n := d.Uint64(); n != size {
			t.Errorf("the size between READs is %d", n)
		}
	}
	takeRead := func(r *results, mode dataio.Mode, off, n int) {
		t.Helper()
		var res wire.READ4res
		r.next(t, wire.OP_READ, ok, &res)
		got, _ := payloadBytes(res.Resok4.Data)
		end := min(off+n, size)
		if !bytes.Equal(got, data[min(off, end):end]) || res.Resok4.Eof != (end == size) {
			t.Errorf("%v READ of %d at %d: %d bytes, want %d, eof %v, or wrong ones", mode, n, off, len(got), end-off, res.Resok4.Eof)
		}
	}
	get := getattr(wire.FATTR4_SIZE)
	for _, mode := range readModes {
		s.modes.SetRead(mode)
		before := s.engine.Stats().Read[mode.String()].Calls
		ranges := [][2]int{{1, 1}, {511, 513}, {4095, 4097}, {3, 100001}, {1 << 20, 2000}, {1<<20 + 700, 500}, {77, 300003}, {7, 8193}, {size - 1, 1}}
		for i, c := range ranges {
			d := ranges[(i+1)%len(ranges)]
			r := x.on(fh, get, read(o.Stateid, uint64(c[0]), uint32(c[1])), get, read(o.Stateid, uint64(d[0]), uint32(d[1])), get)
			takeSize(r)
			takeRead(r, mode, c[0], c[1])
			takeSize(r)
			takeRead(r, mode, d[0], d[1])
			takeSize(r)
			if n := r.d.Len(); n != 0 {
				t.Errorf("%v, %v: %d bytes behind the last result", mode, c, n)
			}
		}
		if s.engine.Stats().Read[mode.String()].Calls == before {
			t.Errorf("no READ was served %v", mode)
		}
	}
}

// A slot that has to keep its reply keeps the data of a READ as it was, in each mode: a retry gets it even when the file
// has been written over meanwhile.
func TestReadKeptBySlot(t *testing.T) {
	s := startServerOn(t, testenv.XFS(t, 512))
	path := filepath.Join(s.dir, "f")
	data := randomFile(t, path, 1<<20+777)
	x := s.session(2, "kept")
	_, o, fh := x.open("f", wire.OPEN4_SHARE_ACCESS_READ)
	x.cache = true
	for _, mode := range readModes {
		s.modes.SetRead(mode)
		for _, c := range [][2]int{{3, 1001}, {511, 2049}, {1<<20 + 700, 500}, {4096, 512}} {
			want := data[c[0]:min(c[0]+c[1], len(data))]
			ops := []op{putfh(fh), read(o.Stateid, uint64(c[0]), uint32(c[1])), getfh()}
			first := x.compound(ops...)
			if first.status != ok || !bytes.Contains(first.raw, want) {
				t.Fatalf("%v READ of %v: %v, or wrong data", mode, c, first.status)
			}
			kept := bytes.Clone(want)
			rand.Read(data) //nolint:errcheck // never fails
			must(t, os.WriteFile(path, data, 0o644))
			again := x.conn.compound(append([]op{x.sequence()}, ops...)...)
			if !bytes.Equal(first.raw, again.raw) || !bytes.Contains(again.raw, kept) {
				t.Errorf("%v READ of %v: the retry had another answer", mode, c)
			}
		}
	}
}
