// WRITEs, READs and SETATTRs of one file by many clients at once, in modes that
// change all the time: nobody may lose a byte to a neighbour's WRITE.
//
// The file is cut into segments of odd sizes, dealt to the clients in turn, so
// that most pages are shared by several. A client alone knows what its segments
// hold. It writes parts of them in records that are whole, in fragments, or
// trickle, and in ones whose end never comes; and reads them back. One more
// client writes behind all segments and truncates the file back to their end.

package nfs3

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"sluice/exports"
	"sluice/pkg/dataio"
	"sluice/pkg/vfs"
	"sluice/rpc"
	"sluice/test/nfscall"
	"sluice/test/testenv"
	wire3 "sluice/xdr/nfs3"
)

const (
	neighbours     = 6
	neighbourTurns = 60
	neighbourBytes = 3<<20 + 777 // of all segments: the end is inside a page
)

func TestNeighbours(t *testing.T) {
	for _, fs := range []struct {
		name string
		dir  func(testing.TB) string
	}{
		{"ext4", testenv.Disk},
		{"xfs", func(t testing.TB) string { return testenv.XFS(t, 512) }},
	} {
		t.Run(fs.name, func(t *testing.T) { testNeighbours(t, fs.dir(t)) })
	}
}

type segment struct{ off, len int }

func testNeighbours(t *testing.T, dir string) {
	var modes dataio.Modes
	s := serveExports(t, dir, fmt.Sprintf("%s *(rw,no_root_squash,insecure,async)\n", exports.Quote(dir)),
		func(c *vfs.Config) { c.Modes = &modes })
	path := filepath.Join(dir, "f")
	nfscall.Must(t, os.WriteFile(path, make([]byte, neighbourBytes), 0o644))
	root := s.client(t)
	fh := root.Lookup(t, root.Mount(t, dir), "f")

	rnd := rand.New(rand.NewPCG(7, 8))
	own := make([][]segment, neighbours)
	for off, i := 0, 0; off < neighbourBytes; i++ {
		n := []int{100, 512, 4096, 5000, 47008, 64 << 10, 200_001}[rnd.IntN(7)]
		n = min(n, neighbourBytes-off)
		own[i%neighbours] = append(own[i%neighbours], segment{off, n})
		off += n
	}
	model := make([]byte, neighbourBytes) // each client's part is its own

	stop := make(chan struct{})
	var switching, work sync.WaitGroup
	switching.Go(func() {
		all := []dataio.Mode{dataio.Direct, dataio.Buffered, dataio.Direct, dataio.DontCache, dataio.Auto}
		for i := 0; ; i++ {
			modes.SetWrite(all[i%len(all)])
			modes.SetRead(all[i/2%len(all)])
			select {
			case <-stop:
				return
			case <-time.After(10 * time.Millisecond):
			}
		}
	})
	for i := range neighbours {
		work.Go(func() {
			n := &neighbour{s: s, fh: fh, own: own[i], model: model, xid: uint32(i+1) << 20, rnd: rand.New(rand.NewPCG(uint64(i), 9))}
			if err := n.live(); err != nil {
				t.Errorf("client %d: %v", i, err)
			}
		})
	}
	work.Go(func() {
		n := &neighbour{s: s, fh: fh, rnd: rand.New(rand.NewPCG(10, 11))}
		if err := n.truncate(); err != nil {
			t.Errorf("the client that truncates: %v", err)
		}
	})
	work.Wait()
	close(stop)
	switching.Wait()

	root.WantStatus(t, "COMMIT", wire3.NFSPROC3_COMMIT, &wire3.COMMIT3args{File: nfscall.FH(fh)}, wire3.NFS3_OK)
	for _, where := range []string{"page cache", "disk"} {
		got, err := os.ReadFile(path)
		nfscall.Must(t, err)
		if !bytes.Equal(got, model) {
			t.Errorf("on %s: %s", where, differs(got, model))
		}
		f, err := os.Open(path)
		nfscall.Must(t, err)
		nfscall.Must(t, unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED))
		f.Close()
	}
	st := s.engine.Stats()
	if st.Write["direct"].Fallbacks["no_direct_io"] == 0 && st.Write["direct"].Calls == 0 {
		t.Error("no WRITE was direct")
	}
	if st.DirectBuffers.InUse != 0 {
		t.Errorf("%d aligned buffers are still out", st.DirectBuffers.InUse)
	}
}

// neighbour is one client.
type neighbour struct {
	s     *testServer
	nc    net.Conn
	fh    []byte
	own   []segment
	model []byte
	rnd   *rand.Rand
	xid   uint32
}

func (n *neighbour) live() error {
	defer func() { n.nc.Close() }()
	for turn := range neighbourTurns {
		seg := n.own[n.rnd.IntN(len(n.own))]
		at := n.rnd.IntN(seg.len)
		size := 1 + n.rnd.IntN(seg.len-at)
		if turn%3 == 0 {
			at, size = 0, seg.len
		}
		data := make([]byte, size)
		for i := range data {
			data[i] = byte(n.rnd.Uint32())
		}
		off := seg.off + at
		call := n.record(wire3.NFSPROC3_WRITE, &wire3.WRITE3args{File: nfscall.FH(n.fh), Offset: uint64(off), Count: uint32(size),
			Stable: wire3.StableHow(n.rnd.IntN(3)), Data: data})
		if turn%8 == 7 { // this one never becomes whole
			if err := n.send(call[:4+n.rnd.IntN(len(call)-4)]); err != nil {
				return err
			}
			n.nc.Close()
			n.nc = nil
		} else {
			var res wire3.WRITE3res
			if err := n.call(n.cut(call), &res); err != nil {
				return fmt.Errorf("WRITE: %w", err)
			}
			if res.Status != wire3.NFS3_OK || int(res.Resok.Count) != size {
				return fmt.Errorf("WRITE of %d bytes at %d: %v, %d bytes", size, off, res.Status, res.Resok.Count)
			}
			copy(n.model[off:], data)
		}
		var res wire3.READ3res
		call = n.record(wire3.NFSPROC3_READ, &wire3.READ3args{File: nfscall.FH(n.fh), Offset: uint64(seg.off), Count: uint32(seg.len)})
		if err := n.call(call, &res); err != nil {
			return fmt.Errorf("READ: %w", err)
		}
		if res.Status != wire3.NFS3_OK {
			return fmt.Errorf("READ: %v", res.Status)
		}
		got, _ := res.Resok.Data.Bytes()
		if want := n.model[seg.off : seg.off+seg.len]; !bytes.Equal(got, want) {
			return fmt.Errorf("READ of %d bytes at %d after WRITE of %d at %d: %s", seg.len, seg.off, size, off, differs(got, want))
		}
	}
	return nil
}

// truncate lets the file grow and cuts it back to where the segments end.
func (n *neighbour) truncate() error {
	defer func() { n.nc.Close() }()
	for range neighbourTurns {
		data := bytes.Repeat([]byte{0xee}, 1+n.rnd.IntN(200_000))
		var w wire3.WRITE3res
		call := n.record(wire3.NFSPROC3_WRITE, &wire3.WRITE3args{File: nfscall.FH(n.fh), Offset: neighbourBytes, Count: uint32(len(data)), Data: data})
		if err := n.call(n.cut(call), &w); err != nil || w.Status != wire3.NFS3_OK || int(w.Resok.Count) != len(data) {
			return fmt.Errorf("WRITE: %v, %v, %d of %d bytes", err, w.Status, w.Resok.Count, len(data))
		}
		var r wire3.SETATTR3res
		call = n.record(wire3.NFSPROC3_SETATTR, &wire3.SETATTR3args{Object: nfscall.FH(n.fh),
			NewAttributes: wire3.Sattr3{Size: wire3.SetSize3{SetIt: true, Size: neighbourBytes}}})
		if err := n.call(call, &r); err != nil || r.Status != wire3.NFS3_OK {
			return fmt.Errorf("SETATTR: %v, %v", err, r.Status)
		}
	}
	return nil
}

func (n *neighbour) record(proc uint32, args rpc.Encodable) []byte {
	n.xid++
	cred := nfscall.Root()
	return rpc.EncodeCall(nil, n.xid, wire3.NFS_PROGRAM, wire3.NFS_V3, proc, &cred, args)
}

// cut returns the record as it is, or in fragments, most of whose bounds are
// near its head.
func (n *neighbour) cut(call []byte) []byte {
	if n.rnd.IntN(3) > 0 {
		return call
	}
	var b []byte
	for body := call[4:]; ; {
		k := 1 + n.rnd.IntN(200)
		if n.rnd.IntN(4) == 0 {
			k = 1 + n.rnd.IntN(len(call))
		}
		if k >= len(body) {
			b = binary.BigEndian.AppendUint32(b, 1<<31|uint32(len(body)))
			return append(b, body...)
		}
		b = binary.BigEndian.AppendUint32(b, uint32(k))
		b = append(b, body[:k]...)
		body = body[k:]
		if len(b) > 2000 { // the rest in one
			b = binary.BigEndian.AppendUint32(b, 1<<31|uint32(len(body)))
			return append(b, body...)
		}
	}
}

// send sends b, sometimes its beginning byte by byte.
func (n *neighbour) send(b []byte) error {
	if n.nc == nil {
		nc, err := net.Dial("tcp", n.s.addr)
		if err != nil {
			return err
		}
		n.nc = nc
	}
	n.nc.SetDeadline(time.Now().Add(2 * time.Minute)) //nolint:errcheck // Write tells
	if n.rnd.IntN(6) == 0 {
		for range min(len(b), 300) {
			if _, err := n.nc.Write(b[:1]); err != nil {
				return err
			}
			b = b[1:]
		}
	}
	_, err := n.nc.Write(b)
	return err
}

func (n *neighbour) call(b []byte, res rpc.Decodable) error {
	if err := n.send(b); err != nil {
		return err
	}
	reply, err := rpc.ReadRecord(n.nc, 1<<20)
	if err != nil {
		return err
	}
	return rpc.DecodeReply(reply, res)
}

// differs names the first byte in which got is not want.
func differs(got, want []byte) string {
	for i := range min(len(got), len(want)) {
		if got[i] != want[i] {
			return fmt.Sprintf("byte %d is %#x, not %#x", i, got[i], want[i])
		}
	}
	return fmt.Sprintf("%d bytes, not %d", len(got), len(want))
}
