package nfs4

import (
	"bytes"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"sluice/pkg/dataio"
	"sluice/test/testenv"
	wire "sluice/xdr/nfs4"
)

// READ_PLUS and READ of files with holes anywhere, at any offset, in each read mode and on file systems of different
// alignments: byte for byte what the file holds, also behind others in one COMPOUND.
func TestSparseFiles(t *testing.T) {
	for name, dir := range map[string]func(testing.TB) string{
		"disk": testenv.Disk, "xfs 512": func(t testing.TB) string { return testenv.XFS(t, 512) }, "xfs 4096": func(t testing.TB) string { return testenv.XFS(t, 4096) },
		"tmpfs": testenv.Tmpfs,
	} {
		t.Run(name, func(t *testing.T) {
			s := startServerOn(t, dir(t))
			x := s.session(2, "sparse")
			model := sparseFile(t, filepath.Join(s.dir, "f"), 900<<10+77)
			_, o, fh := x.open("f", wire.OPEN4_SHARE_ACCESS_READ)
			for _, mode := range []dataio.Mode{dataio.Buffered, dataio.DontCache, dataio.Direct} {
				s.modes.SetRead(mode)
				for range 60 {
					// Several in one COMPOUND, of which the first alone may go direct.
					var ops []op
					type ask struct {
						off  uint64
						n    uint32
						plus bool
					}
					var asks []ask
					for range 1 + rand.IntN(5) {
						a := ask{uint64(rand.IntN(len(model) + 5000)), uint32(rand.IntN(1 << (4 + rand.IntN(14)))), rand.IntN(3) > 0}
						if rand.IntN(3) == 0 {
							a.off &^= 4095
						}
						asks = append(asks, a)
						if a.plus {
							ops = append(ops, op{wire.OP_READ_PLUS, &wire.READPLUS4args{RpaStateid: o.Stateid, RpaOffset: a.off, RpaCount: a.n}})
						} else {
							ops = append(ops, read(o.Stateid, a.off, a.n))
						}
					}
					r := x.on(fh, ops...)
					for i, a := range asks {
						var got []byte
						var eof bool
						if a.plus {
							var res wire.READPLUS4res
							r.next(t, wire.OP_READ_PLUS, ok, &res)
							got, eof = flatten(t, &res.RpResok4, a.off), res.RpResok4.RprEof
						} else {
							var res wire.READ4res
							r.next(t, wire.OP_READ, ok, &res)
							got, _ = payloadBytes(res.Resok4.Data)
							eof = res.Resok4.Eof
						}
						want := model[min(a.off, uint64(len(model))):]
						want = want[:min(len(want), int(a.n))]
						short := a.plus && len(got) < len(want) && len(got) > 0 // as many stretches as fit an answer
						if short {
							want = want[:len(got)]
						}
						if !bytes.Equal(got, want) || eof != (!short && a.off+uint64(len(want)) >= uint64(len(model))) {
							t.Fatalf("%v, operation %d, %+v: %d bytes, want %d, eof %v, or wrong ones", mode, i, a, len(got), len(want), eof)
						}
					}
				}
			}
		})
	}
}

// flatten puts an answer's data and holes, which must follow one another from off on, into one.
func flatten(t testing.TB, r *wire.ReadPlusRes4, off uint64) (b []byte) {
	t.Helper()
	for _, c := range r.RprContents {
		at, n := c.RpcHole.DiOffset, c.RpcHole.DiLength
		if c.RpcContent == wire.NFS4_CONTENT_DATA {
			d, _ := payloadBytes(c.RpcData.DData)
			at, n = c.RpcData.DOffset, uint64(len(d))
			b = append(b, d...)
		} else {
			b = append(b, make([]byte, n)...)
		}
		if at != off || n == 0 {
			t.Fatalf("a stretch of %d at %d, want one at %d", n, at, off)
		}
		off += n
	}
	return b
}

// sparseFile makes a file of random data and holes, and returns its contents.
func sparseFile(t testing.TB, path string, size int) []byte {
	t.Helper()
	f, err := os.Create(path)
	must(t, err)
	defer f.Close()
	must(t, f.Truncate(int64(size)))
	model := make([]byte, size)
	for at := rand.IntN(9000); at < size; {
		n := min(1+rand.IntN(30000), size-at)
		for i := range n {
			model[at+i] = byte(rand.Uint32())
		}
		_, err := f.WriteAt(model[at:at+n], int64(at))
		must(t, err)
		at += n + rand.IntN(60000)
	}
	return model
}
