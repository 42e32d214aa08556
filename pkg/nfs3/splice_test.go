// Spliced replies from end to end: with clients that take them late or never, a
// file that is cut meanwhile, and fewer pipes than replies.

package nfs3

import (
	"encoding/binary"
	"errors"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"sluice/rpc"
	"sluice/test/nfscall"
	wire3 "sluice/xdr/nfs3"
)

func TestSplicedReplies(t *testing.T) {
	s := startServer(t, "rw,insecure,no_root_squash")
	c := s.client(t)
	root := c.Mount(t, s.dir)
	const size, each, clients = 1 << 20, 4, 24 // the harness has 16 pipes
	model := make([]byte, each*size)
	for i := range model {
		model[i] = byte(i | 1) // never 0
	}
	path := filepath.Join(s.dir, "f")
	nfscall.Must(t, os.WriteFile(path, model, 0o644))
	h := c.Lookup(t, root, "f")

	cred := nfscall.Root()
	small := net.Dialer{Timeout: 5 * time.Second, Control: func(_, _ string, rc syscall.RawConn) error {
		var set error
		err := rc.Control(func(fd uintptr) { set = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUF, 16<<10) })
		return errors.Join(err, set)
	}}
	conns := make([]net.Conn, clients)
	for i := range conns {
		nc, err := small.Dial("tcp", s.addr)
		nfscall.Must(t, err)
		defer nc.Close()
		for k := range uint32(each) {
			_, err := nc.Write(rpc.EncodeCall(nil, k, wire3.NFS_PROGRAM, wire3.NFS_V3, wire3.NFSPROC3_READ, &cred,
				&wire3.READ3args{File: nfscall.FH(h), Offset: uint64(k) * size, Count: size}))
			nfscall.Must(t, err)
		}
		conns[i] = nc
	}
	// Each client's first reply at least is waiting for it, in a pipe or, when
	// there are none left, in memory.
	until(t, "the pipes are used up", func() bool {
		st := s.engine.Stats()
		return st.Read["buffered"].Calls >= clients && st.Read["buffered"].Fallbacks["no_pipe"] > 0 && st.Pipes.InUse > 0
	})
	const cut = size/2 + 10
	nfscall.Must(t, os.Truncate(path, cut))

	for i, nc := range conns {
		if i%2 == 1 { // half of them go away, some with a part of a reply
			if i%4 == 1 {
				if _, err := nc.Read(make([]byte, 10_000)); err != nil {
					t.Error(err)
				}
			}
			nc.Close()
			continue
		}
		nc.SetDeadline(time.Now().Add(30 * time.Second))
		seen := make(map[uint32]bool)
		for range each {
			b, err := rpc.ReadRecord(nc, 2*size)
			nfscall.Must(t, err)
			xid := binary.BigEndian.Uint32(b)
			if xid >= each || seen[xid] {
				t.Fatalf("client %d: a reply to call %d", i, xid)
			}
			seen[xid] = true
			var res wire3.READ3res
			nfscall.Must(t, rpc.DecodeReply(b, &res))
			data, _ := res.Resok.Data.Bytes()
			// Read before the cut: all that was asked for. After it: what is left.
			off := int(xid) * size
			left := max(0, min(cut-off, size))
			if res.Status != wire3.NFS3_OK || int(res.Resok.Count) != len(data) || len(data) < left || len(data) == left && left < size && !res.Resok.Eof {
				t.Fatalf("client %d, READ %d: %v, count %d, %d bytes, eof %v", i, xid, res.Status, res.Resok.Count, len(data), res.Resok.Eof)
			}
			for k, have := range data {
				if was := model[off+k]; have != was && (have != 0 || off+k < cut) {
					t.Fatalf("client %d, READ %d: %#x at %d, want %#x or, behind the cut, 0", i, xid, have, k, was)
				}
			}
		}
		nc.Close()
	}
	until(t, "all pipes are back", func() bool { return s.engine.Stats().Pipes.InUse == 0 })
	if st := s.engine.Stats(); st.Pipes.Dropped == 0 || st.Buffers.InUse != 0 || st.Pipes.Open > st.Pipes.Max {
		t.Errorf("%+v, %+v", st.Pipes, st.Buffers)
	}
	if data, eof := c.Read(t, h, 0, size); len(data) != cut || !eof {
		t.Errorf("afterwards: %d bytes, eof %v", len(data), eof)
	}
}

// until waits for ok, half a minute at most.
func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("waited for this in vain: %s", what)
		}
	}
}
