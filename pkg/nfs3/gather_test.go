package nfs3

import (
	"bytes"
	"encoding/binary"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"sluice/rpc"
	"sluice/test/nfscall"
	"sluice/test/testenv"
	wire3 "sluice/xdr/nfs3"
)

// writes is a connection on which bursts of WRITEs are sent.
type writes struct {
	testing.TB
	nc   net.Conn
	xid  uint32
	sent map[uint32][]byte // records by xid
}

func newWrites(t testing.TB, s *testServer) *writes {
	return &writes{TB: t, nc: dialRaw(t, s.addr, "127.0.0.1:0"), sent: map[uint32][]byte{}}
}

// call makes a record.
func (w *writes) call(cred rpc.Cred, fh []byte, off uint64, data []byte, stable wire3.StableHow) []byte {
	w.xid++
	b := rpc.EncodeCall(nil, w.xid, wire3.NFS_PROGRAM, wire3.NFS_V3, wire3.NFSPROC3_WRITE, &cred,
		&wire3.WRITE3args{File: nfscall.FH(fh), Offset: off, Count: uint32(len(data)), Stable: stable, Data: data})
	w.sent[w.xid] = b
	return b
}

// open has the server open a file for writing, for which the first WRITE is
// served apart from those behind it.
func (w *writes) open(fh []byte) {
	w.Helper()
	w.burst(w.call(nfscall.Root(), fh, 0, []byte{0}, wire3.UNSTABLE))
}

// burst sends records at once and returns the results by xid.
func (w *writes) burst(records ...[]byte) map[uint32]*wire3.WRITE3res {
	w.Helper()
	nfscall.Must(w, w.nc.SetDeadline(time.Now().Add(time.Minute)))
	_, err := w.nc.Write(bytes.Join(records, nil))
	nfscall.Must(w, err)
	got := map[uint32]*wire3.WRITE3res{}
	for range records {
		b, err := rpc.ReadRecord(w.nc, 1<<16)
		nfscall.Must(w, err)
		res := new(wire3.WRITE3res)
		nfscall.Must(w, rpc.DecodeReply(b, res))
		got[binary.BigEndian.Uint32(b)] = res
	}
	return got
}

// Adjacent WRITEs of one burst: the first tells what was before them, all tell
// what is there after them, and the data is where it belongs.
func TestGatheredWrites(t *testing.T) {
	s := startServer(t, "rw,no_root_squash,insecure,async")
	c := s.client(t)
	path := filepath.Join(s.dir, "f")
	nfscall.Must(t, os.WriteFile(path, nil, 0o644))
	fh := c.Lookup(t, c.Mount(t, s.dir), "f")
	w := newWrites(t, s)
	w.open(fh)
	var records [][]byte
	var want []byte
	for i := range 4 {
		data := bytes.Repeat([]byte{'a' + byte(i)}, 1000+i) // none a multiple of 4 or of a page
		records = append(records, w.call(nfscall.Root(), fh, uint64(len(want)), data, wire3.UNSTABLE))
		want = append(want, data...)
	}
	got := w.burst(records...)
	for i := range uint32(4) {
		xid := 2 + i // the first was 1
		r := got[xid]
		if r.Status != wire3.NFS3_OK {
			t.Fatalf("WRITE %d: %v", xid, r.Status)
		}
		wcc := &r.Resok.FileWcc
		if r.Resok.Count != 1000+i || r.Resok.Committed != wire3.UNSTABLE || r.Resok.Verf != got[2].Resok.Verf {
			t.Errorf("WRITE %d: %+v", xid, r.Resok)
		}
		if before := &wcc.Before; before.AttributesFollow != (i == 0) || i == 0 && before.Attributes.Size != 1 {
			t.Errorf("WRITE %d: from before %+v", xid, before)
		}
		if !wcc.After.AttributesFollow || wcc.After.Attributes.Size != uint64(len(want)) {
			t.Errorf("WRITE %d: afterwards %+v", xid, wcc.After)
		}
	}
	if b, err := os.ReadFile(path); err != nil || !bytes.Equal(b, want) {
		t.Errorf("the file is another than was written (%v)", err)
	}
	if n := s.engine.Stats().Write["buffered"].Calls; n != 5 {
		t.Errorf("%d WRITEs were counted", n)
	}
}

// Bursts at random against a model: several files and callers, gaps, sizes and
// kinds of stability, and copies of older WRITEs, which must change nothing.
func TestGatheredWritesModel(t *testing.T) {
	s := startServer(t, "rw,no_root_squash,insecure,async")
	c := s.client(t)
	root := c.Mount(t, s.dir)
	const files, span = 3, 96 << 10
	creds := []rpc.Cred{nfscall.Root(), nfscall.Root(), nfscall.User(1000, 1000)}
	var fhs, model [files][]byte
	for i := range files {
		name := string(rune('a' + i))
		nfscall.Must(t, os.WriteFile(filepath.Join(s.dir, name), nil, 0o666))
		nfscall.Must(t, os.Chmod(filepath.Join(s.dir, name), 0o666))
		fhs[i] = c.Lookup(t, root, name)
	}
	w := newWrites(t, s)
	rnd := rand.New(rand.NewPCG(1, 2))
	first := map[uint32]*wire3.WRITE3res{}
	together := 0
	for range 100 {
		var records [][]byte
		var next [files]uint64 // WRITEs of a burst don't overlap, so that their order is free
		for i := range next {
			next[i] = rnd.Uint64N(span / 2)
		}
		i := rnd.IntN(files)
		copies := map[uint32]bool{}
		for range 1 + rnd.IntN(24) {
			switch rnd.IntN(10) {
			case 0:
				i = rnd.IntN(files)
			case 1:
				next[i] += rnd.Uint64N(5000)
			case 2:
				if x := w.xid - rnd.Uint32N(40); first[x] != nil && !copies[x] {
					copies[x] = true
					records = append(records, w.sent[x])
					continue
				}
			}
			n := []int{1, 511, 4096, 4096, 4096, 5000, 30000}[rnd.IntN(7)]
			data := make([]byte, n)
			for k := range data {
				data[k] = byte(rnd.Uint32())
			}
			stable := wire3.UNSTABLE
			if rnd.IntN(12) == 0 {
				stable = wire3.FILE_SYNC
			}
			off := next[i]
			records = append(records, w.call(creds[i], fhs[i], off, data, stable))
			next[i] += uint64(n)
			if grow := int(next[i]) - len(model[i]); grow > 0 {
				model[i] = append(model[i], make([]byte, grow)...)
			}
			copy(model[i][off:], data)
		}
		for xid, r := range w.burst(records...) {
			if copies[xid] {
				if *r != *first[xid] {
					t.Fatalf("WRITE %d, sent again: %+v, first %+v", xid, r, first[xid])
				}
				continue
			}
			if r.Status != wire3.NFS3_OK || !r.Resok.FileWcc.After.AttributesFollow {
				t.Fatalf("WRITE %d: %+v", xid, r)
			}
			if !r.Resok.FileWcc.Before.AttributesFollow {
				together++
			}
			first[xid] = r
		}
		for i := range files {
			b, err := os.ReadFile(filepath.Join(s.dir, string(rune('a'+i))))
			nfscall.Must(t, err)
			if !bytes.Equal(b, model[i]) {
				t.Fatalf("file %d is not what the model has", i)
			}
		}
	}
	if together == 0 {
		t.Error("no WRITEs were written together")
	}
}

// Of WRITEs that don't fit on the disk together, each learns what became of it.
func TestGatheredWritesFillTheDisk(t *testing.T) {
	testenv.Sandboxed(t)
	dir := t.TempDir()
	nfscall.Must(t, unix.Mount("tmpfs", dir, "tmpfs", 0, "size=32k,mode=755"))
	t.Cleanup(func() { nfscall.Must(t, unix.Unmount(dir, 0)) })
	s := serveExports(t, dir, dir+" *(rw,no_root_squash,insecure,async)\n")
	c := s.client(t)
	path := filepath.Join(dir, "f")
	nfscall.Must(t, os.WriteFile(path, nil, 0o644))
	fh := c.Lookup(t, c.Mount(t, dir), "f")
	w := newWrites(t, s)
	w.open(fh)
	const size, calls = 6000, 8
	var records [][]byte
	var want []byte
	for i := range calls {
		data := bytes.Repeat([]byte{'a' + byte(i)}, size)
		records = append(records, w.call(nfscall.Root(), fh, uint64(i*size), data, wire3.UNSTABLE))
		want = append(want, data...)
	}
	got := w.burst(records...)
	b, err := os.ReadFile(path)
	nfscall.Must(t, err)
	if len(b) != 32<<10 || !bytes.Equal(b, want[:len(b)]) {
		t.Errorf("%d bytes in the file, or not those that were written", len(b))
	}
	for i := range calls {
		xid := uint32(2 + i)
		r, n := got[xid], min(max(len(b)-i*size, 0), size)
		if n == 0 && r.Status != wire3.NFS3ERR_NOSPC || n > 0 && (r.Status != wire3.NFS3_OK || int(r.Resok.Count) != n) {
			t.Errorf("WRITE %d: %v, %d bytes, want %d", xid, r.Status, r.Resok.Count, n)
		}
	}
}

// A burst of WRITEs allocates nothing.
func BenchmarkWriteBurst(b *testing.B) {
	s := startServer(b, "rw,no_root_squash,insecure,async")
	c := s.client(b)
	nfscall.Must(b, os.WriteFile(filepath.Join(s.dir, "f"), nil, 0o644))
	fh := c.Lookup(b, c.Mount(b, s.dir), "f")
	const calls = 8
	data := make([]byte, 4096)
	w := newWrites(b, s)
	mark, answer := make([]byte, 4), make([]byte, 1<<10)
	var records []byte
	var at []int
	for i := range calls {
		at = append(at, len(records)+4)
		records = append(records, w.call(nfscall.Root(), fh, uint64(i*len(data)), data, wire3.UNSTABLE)...)
	}
	w.open(fh)
	nfscall.Must(b, w.nc.SetDeadline(time.Time{}))
	b.SetBytes(int64(calls * len(data)))
	b.ReportAllocs()
	for b.Loop() {
		for _, i := range at {
			w.xid++
			binary.BigEndian.PutUint32(records[i:], w.xid)
		}
		if _, err := w.nc.Write(records); err != nil {
			b.Fatal(err)
		}
		for range calls {
			if _, err := io.ReadFull(w.nc, mark); err != nil {
				b.Fatal(err)
			}
			if _, err := io.ReadFull(w.nc, answer[:binary.BigEndian.Uint32(mark)&^(1<<31)]); err != nil {
				b.Fatal(err)
			}
		}
	}
}
