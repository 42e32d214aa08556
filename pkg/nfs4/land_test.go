package nfs4

import (
	"bytes"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sluice/pkg/dataio"
	"sluice/xdr"
	wire "sluice/xdr/nfs4"
)

// The place of the data that landWrite tells is where it is, behind whatever
// comes before it; without a WRITE, behind what it does not know, and in
// arguments cut short before it there is none.
func TestLandWrite(t *testing.T) {
	sid := wire.Stateid4{Seqid: 1}
	w := write(sid, 47008, "found")
	seq := op{wire.OP_SEQUENCE, &wire.SEQUENCE4args{}}
	for name, tc := range map[string]struct {
		tag string
		ops []op
		ok  bool
	}{
		"4.0":             {"", []op{putfh(make([]byte, 41)), w}, true},
		"4.1":             {"a tag", []op{seq, putfh(make([]byte, 64)), w}, true},
		"getattr":         {"", []op{seq, root(), lookup("abc"), getattr(1, 3, 40), w}, true},
		"no write":        {"", []op{seq, putfh(make([]byte, 28)), getattr(1)}, false},
		"nothing":         {"", nil, false},
		"unknown before":  {"", []op{seq, putfh(make([]byte, 28)), remove("x"), w}, false},
		"the first write": {"", []op{seq, putfh(make([]byte, 28)), w, write(sid, 1, "later")}, true},
	} {
		var e xdr.Encoder
		(&script{1, []byte(tc.tag), tc.ops}).Encode(&e)
		args := e.Bytes()
		at, off, ok := landWrite(args)
		if ok != tc.ok || ok && (off != 47008 || string(args[at:at+5]) != "found") {
			t.Errorf("%s: %d, %d, %t", name, at, off, ok)
		}
		for cut := range at {
			if _, _, ok := landWrite(args[:cut]); ok {
				t.Errorf("%s: found in %d bytes", name, cut)
			}
		}
	}
}

// WRITEs in mode direct land.
func TestDirectWrites(t *testing.T) {
	for minor := uint32(1); minor <= 2; minor++ {
		s := startServer(t)
		s.modes.SetWrite(dataio.Direct)
		x := s.session(minor, "client")
		st, res, fh := x.open("f", wire.OPEN4_SHARE_ACCESS_BOTH)
		if st != ok {
			t.Fatal(st)
		}
		data := strings.Repeat("0123456789abcdef", 20_000)
		for i := range 3 {
			off := uint64(i * 47008)
			var w wire.WRITE4res
			r := x.compound(putfh(fh), write(res.Stateid, off, data))
			r.next(t, wire.OP_PUTFH, ok, nil)
			r.next(t, wire.OP_WRITE, ok, &w)
			if int(w.Resok4.Count) != len(data) || w.Resok4.Committed != wire.FILE_SYNC4 {
				t.Errorf("%+v", w.Resok4)
			}
		}
		io := s.engine.Stats()
		if io.Write["direct"].Fallbacks["no_direct_io"] == 0 && (io.WriteLanded != 3 || io.WriteCopied != 0) {
			t.Errorf("4.%d: %d landed, %d copied", minor, io.WriteLanded, io.WriteCopied)
		}
	}
}

// Several WRITEs in one COMPOUND, of which only the first can land, and READs
// behind them: each mode writes what each of them says, where it says, and in
// their order where they overlap.
func TestSeveralWritesInOneCompound(t *testing.T) {
	const size = 1 << 20
	for mode := dataio.Buffered; mode <= dataio.Auto; mode++ {
		t.Run(mode.String(), func(t *testing.T) {
			s := startServer(t)
			s.modes.SetWrite(mode)
			s.modes.SetRead(dataio.Direct)
			x := s.session(1, "client")
			st, opened, fh := x.open("f", wire.OPEN4_SHARE_ACCESS_BOTH)
			if st != ok {
				t.Fatal(st)
			}
			rnd := rand.New(rand.NewPCG(uint64(mode), 4))
			model := make([]byte, size)
			end := 0
			for range 6 {
				ops := []op{putfh(fh)}
				for range 3 {
					off := rnd.IntN(size / 2)
					if rnd.IntN(3) == 0 {
						off &^= 4095
					}
					data := make([]byte, 1+rnd.IntN(300_000))
					for i := range data {
						data[i] = byte(rnd.Uint32())
					}
					ops = append(ops, write(opened.Stateid, uint64(off), string(data)))
					copy(model[off:], data)
					end = max(end, off+len(data))
				}
				from := rnd.IntN(end)
				ops = append(ops, read(opened.Stateid, uint64(from), uint32(end-from)))
				r := x.compound(ops...)
				r.next(t, wire.OP_PUTFH, ok, nil)
				for _, o := range ops[1:4] {
					var w wire.WRITE4res
					r.next(t, wire.OP_WRITE, ok, &w)
					if n := len(o.args.(*wire.WRITE4args).Data); int(w.Resok4.Count) != n {
						t.Fatalf("WRITE of %d bytes: %d", n, w.Resok4.Count)
					}
				}
				var res wire.READ4res
				r.next(t, wire.OP_READ, ok, &res)
				got, _ := res.Resok4.Data.Bytes()
				if len(got) == 0 || !bytes.Equal(got, model[from:from+len(got)]) {
					t.Fatalf("READ of %d bytes at %d gave other bytes than were written, %d of them", end-from, from, len(got))
				}
			}
			got, err := os.ReadFile(filepath.Join(s.dir, "f"))
			if err != nil || !bytes.Equal(got, model[:end]) {
				t.Errorf("the file of %d bytes is another than was written, %d bytes: %v", len(got), end, err)
			}
		})
	}
}
