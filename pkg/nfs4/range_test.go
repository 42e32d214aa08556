// Offsets, lengths and counts out of all proportion, and what writing does to set-user-ID files, by every operation on data.

package nfs4

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"sluice/pkg/dataio"
	"sluice/rpc"
	"sluice/test/testenv"
	"sluice/xdr"
	wire "sluice/xdr/nfs4"
)

// A range that is out of range changes nothing, and is refused with a code that RFC 8881 or RFC 7862 has for the operation.
func TestBadRanges(t *testing.T) {
	s := startServerOn(t, testenv.XFS(t, 512))
	data := randomFile(t, filepath.Join(s.dir, "f"), 3*hole64+5)
	must(t, os.WriteFile(filepath.Join(s.dir, "g"), []byte("other"), 0o644))
	before := contents(t, s.dir)
	x := s.session(2, "ranges")
	var fh, gh []byte
	for name, p := range map[string]*[]byte{"f": &fh, "g": &gh} {
		r := x.compound(root(), lookup(name), getfh())
		skipTo(t, r, wire.OP_PUTROOTFH, wire.OP_LOOKUP)
		var g wire.GETFH4res
		r.next(t, wire.OP_GETFH, ok, &g)
		*p = bytes.Clone(g.Resok4.Object)
	}
	var anon wire.Stateid4
	save := op{wire.OP_SAVEFH, nil}
	size := uint64(len(data))
	const top = math.MaxUint64
	fbig, inval, nxio := wire.NFS4ERR_FBIG, wire.NFS4ERR_INVAL, wire.NFS4ERR_NXIO
	refused := func(what string, want wire.Nfsstat4, ops ...op) {
		t.Helper()
		if r := x.compound(append([]op{putfh(fh)}, ops...)...); r.status != want {
			t.Errorf("%s: %v, want %v", what, r.status, want)
		}
	}
	for _, off := range []uint64{1<<63 - 3, 1<<63 - 1, 1 << 63, top - 3, top} {
		refused(fmt.Sprint("WRITE at ", off), fbig, write(anon, off, "evil"))
	}
	for _, n := range []uint64{1 << 63, top} {
		refused(fmt.Sprint("SETATTR of size ", n), fbig,
			op{wire.OP_SETATTR, &wire.SETATTR4args{ObjAttributes: fattr(func(e *xdr.Encoder) { e.Uint64(n) }, wire.FATTR4_SIZE)}})
	}
	for _, c := range []struct {
		off, n         uint64
		alloc, dealloc wire.Nfsstat4
	}{
		{0, 0, inval, inval}, {size, 0, inval, inval}, {1, top, inval, inval}, {top, 1, inval, inval}, {top, top, inval, inval},
		{1 << 63, 1, fbig, ok}, {0, 1 << 63, fbig, wire.NFS4_OK + 1}, {1<<63 - 1, 1 << 62, fbig, ok},
		{size + 1, 1 << 62, wire.NFS4ERR_NOSPC, ok}, {1 << 62, 1 << 62, fbig, ok},
	} {
		refused(fmt.Sprintf("ALLOCATE %d+%d", c.off, c.n), c.alloc, op{wire.OP_ALLOCATE, &wire.ALLOCATE4args{AaOffset: c.off, AaLength: c.n}})
		if c.dealloc <= ok || c.dealloc == inval {
			refused(fmt.Sprintf("DEALLOCATE %d+%d", c.off, c.n), c.dealloc, op{wire.OP_DEALLOCATE, &wire.DEALLOCATE4args{DaOffset: c.off, DaLength: c.n}})
		}
	}
	for _, off := range []uint64{size, size + 1, 1<<63 - 1, 1 << 63, top} {
		for _, what := range []wire.DataContent4{wire.NFS4_CONTENT_DATA, wire.NFS4_CONTENT_HOLE} {
			refused(fmt.Sprintf("SEEK %v at %d", what, off), nxio, op{wire.OP_SEEK, &wire.SEEK4args{SaOffset: off, SaWhat: what}})
		}
	}
	// From f into itself, and into g.
	for _, c := range []struct {
		from, to, n uint64
		self, other wire.Nfsstat4
	}{
		{0, 1, 10, inval, ok + 1}, {0, 0, 0, inval, ok + 1}, {0, 0, top, inval, ok + 1}, {5, 0, size, inval, ok + 1}, {hole64, hole64 + 9, 10, inval, ok + 1},
		{0, top, 10, fbig, fbig}, {0, 1 << 63, 1, fbig, fbig}, {0, 1<<63 - 1, 10, fbig, fbig}, {size, 0, 10, ok, ok}, {1<<63 - 1, 0, 10, ok, ok},
	} {
		for _, sync := range []bool{true, false} {
			cp := op{wire.OP_COPY, &wire.COPY4args{CaSrcOffset: c.from, CaDstOffset: c.to, CaCount: c.n, CaSynchronous: sync, CaConsecutive: true}}
			what := fmt.Sprintf("COPY of %d from %d to %d, synchronous %v", c.n, c.from, c.to, sync)
			refused(what, c.self, save, cp)
			if c.other <= ok || c.other == fbig {
				refused(what+", to another file", c.other, save, putfh(gh), cp)
			}
		}
	}
	for _, c := range [][3]uint64{{0, 0, 0}, {0, 1, 4096}, {1, 0, 4096}, {0, 4096, top}, {top, 0, 4096}, {0, top, 4096}, {1 << 63, 1 << 63, 0}, {0, 4096, 3 * hole64}, {1 << 50, 0, 4096}} {
		refused(fmt.Sprint("CLONE from, to, count ", c), inval, save, op{wire.OP_CLONE, &wire.CLONE4args{ClSrcOffset: c[0], ClDstOffset: c[1], ClCount: c[2]}})
	}
	if after := contents(t, s.dir); after != before {
		t.Errorf("something was changed:\n%.400s\nwas\n%.400s", after, before)
	}
	// Reads are cut to what there is.
	for _, mode := range []dataio.Mode{dataio.Buffered, dataio.DontCache, dataio.Direct} {
		s.modes.SetRead(mode)
		for _, off := range []uint64{0, 1, size - 1, size, size + 1, 1<<63 - 1, 1 << 63, top - 1, top} {
			for _, n := range []uint32{0, 1, 511, math.MaxInt32, math.MaxUint32} {
				want := data[min(off, size):]
				want = want[:min(uint64(n), uint64(len(want)))]
				r := x.on(fh, read(anon, off, n))
				var res wire.READ4res
				r.next(t, wire.OP_READ, ok, &res)
				b, _ := payloadBytes(res.Resok4.Data)
				if !bytes.Equal(b, want) || res.Resok4.Eof != (off >= size || off+uint64(len(want)) >= size) {
					t.Errorf("%v: READ %d+%d: %d bytes, eof %v", mode, off, n, len(b), res.Resok4.Eof)
				}
				p := x.readPlus(fh, anon, off, n)
				b = flatten(t, &p, off)
				if !bytes.Equal(b, want) || p.RprEof != (off >= size || off+uint64(len(want)) >= size) {
					t.Errorf("%v: READ_PLUS %d+%d: %d bytes, eof %v", mode, off, n, len(b), p.RprEof)
				}
			}
		}
	}
	x.usable("all ranges")
}

func payloadBytes(p xdr.Payload) ([]byte, bool) {
	if p == nil {
		return nil, true
	}
	return p.Bytes()
}

// Whatever writes to a set-user-ID or set-group-ID file as one who is not the superuser takes the bits away, as Linux does.
func TestSetIDBits(t *testing.T) {
	s := startServerOn(t, testenv.XFS(t, 512))
	x := s.session(2, "setid")
	must(t, os.WriteFile(filepath.Join(s.dir, "src"), bytes.Repeat([]byte("s"), 8192), 0o666))
	must(t, os.Chmod(filepath.Join(s.dir, "src"), 0o666))
	fhOf := func(name string) []byte {
		r := x.compound(root(), lookup(name), getfh())
		skipTo(t, r, wire.OP_PUTROOTFH, wire.OP_LOOKUP)
		var g wire.GETFH4res
		r.next(t, wire.OP_GETFH, ok, &g)
		return bytes.Clone(g.Resok4.Object)
	}
	var anon wire.Stateid4
	src, save := fhOf("src"), op{wire.OP_SAVEFH, nil}
	cut := openArgs("cut", 0, x.clientid, "f", wire.OPEN4_SHARE_ACCESS_WRITE, 0, true)
	cut.Openhow.How.Createattrs = fattr(func(e *xdr.Encoder) { e.Uint64(0) }, wire.FATTR4_SIZE)
	for _, uid := range []uint32{1000, 1001} { // the owner, and another who may write
		for i, c := range []change{
			{"WRITE", []op{write(anon, 3, "data")}},
			{"SETATTR of the size", []op{{wire.OP_SETATTR, &wire.SETATTR4args{ObjAttributes: fattr(func(e *xdr.Encoder) { e.Uint64(7) }, wire.FATTR4_SIZE)}}}},
			{"OPEN that cuts", []op{root(), {wire.OP_OPEN, cut}}},
			{"ALLOCATE", []op{{wire.OP_ALLOCATE, &wire.ALLOCATE4args{AaLength: 20000}}}},
			{"DEALLOCATE", []op{{wire.OP_DEALLOCATE, &wire.DEALLOCATE4args{DaLength: 4096}}}},
			{"COPY", []op{save, putfh(src), save, back(), {wire.OP_COPY, &wire.COPY4args{CaCount: 100, CaSynchronous: true, CaConsecutive: true}}}},
			{"CLONE", []op{save, putfh(src), save, back(), {wire.OP_CLONE, &wire.CLONE4args{ClCount: 4096}}}},
		} {
			name := fmt.Sprint("f", uid, i)
			p := filepath.Join(s.dir, name)
			must(t, os.WriteFile(p, bytes.Repeat([]byte("f"), 10000), 0o666))
			must(t, os.Chown(p, 1000, 1000))
			must(t, os.Chmod(p, 0o777|os.ModeSetuid|os.ModeSetgid))
			x.cred = rpc.Cred{Flavor: rpc.FlavorSys, Machine: []byte("test")}
			fh := fhOf(name)
			x.cred.UID, x.cred.GID = uid, uid
			ops := append([]op{putfh(fh)}, c.ops...)
			for j := range ops {
				if ops[j].num == 0 {
					ops[j] = putfh(fh)
				}
			}
			cut.Claim.File = []byte(name)
			if r := x.compound(ops...); r.status != ok {
				t.Errorf("%s by %d: %v", c.what, uid, r.status)
				continue
			}
			var st unix.Stat_t
			must(t, unix.Stat(p, &st))
			if st.Mode&(unix.S_ISUID|unix.S_ISGID) != 0 {
				t.Errorf("%s by %d leaves mode %o", c.what, uid, st.Mode)
			}
		}
	}
}

// back stands for PUTFH of the file that is not known yet.
func back() op { return op{} }
