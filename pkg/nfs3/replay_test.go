package nfs3

import (
	"bytes"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"sluice/rpc"
	"sluice/test/nfscall"
	"sluice/xdr"
	wire3 "sluice/xdr/nfs3"
)

// A call that is sent again gets the first answer, and is not done again: over
// the same connection, and over a new one as after a reconnect.
func TestResentCallsGetTheFirstAnswer(t *testing.T) {
	s := startServer(t, "rw,no_root_squash,insecure,async")
	c := s.client(t)
	root := c.Mount(t, s.dir)
	path := func(name string) string { return filepath.Join(s.dir, name) }
	for _, f := range []string{"attr", "gone", "from", "link", "data"} {
		nfscall.Must(t, os.WriteFile(path(f), []byte("0123456789"), 0o644))
	}
	nfscall.Must(t, os.Mkdir(path("rmdir"), 0o755))
	attr, lnk, data := c.Lookup(t, root, "attr"), c.Lookup(t, root, "link"), c.Lookup(t, root, "data")

	// undo makes the call's effect undone, so that a second run would show.
	for _, x := range []struct {
		name string
		proc uint32
		args rpc.Encodable
		undo func()
		done func() bool // the effect is there
	}{
		{"CREATE", wire3.NFSPROC3_CREATE, &wire3.CREATE3args{Where: nfscall.Dirop(root, "c"), How: wire3.Createhow3{Mode: wire3.GUARDED, ObjAttributes: nfscall.Mode(0o644)}},
			func() { nfscall.Must(t, os.Remove(path("c"))) }, func() bool { return exists(path("c")) }},
		{"MKDIR", wire3.NFSPROC3_MKDIR, &wire3.MKDIR3args{Where: nfscall.Dirop(root, "m"), Attributes: nfscall.Mode(0o755)},
			func() { nfscall.Must(t, os.Remove(path("m"))) }, func() bool { return exists(path("m")) }},
		{"SYMLINK", wire3.NFSPROC3_SYMLINK, &wire3.SYMLINK3args{Where: nfscall.Dirop(root, "s"), Symlink: wire3.Symlinkdata3{SymlinkData: []byte("t")}},
			func() { nfscall.Must(t, os.Remove(path("s"))) }, func() bool { return exists(path("s")) }},
		{"MKNOD", wire3.NFSPROC3_MKNOD, &wire3.MKNOD3args{Where: nfscall.Dirop(root, "p"), What: wire3.Mknoddata3{Type: wire3.NF3FIFO, PipeAttributes: nfscall.Mode(0o644)}},
			func() { nfscall.Must(t, os.Remove(path("p"))) }, func() bool { return exists(path("p")) }},
		{"REMOVE", wire3.NFSPROC3_REMOVE, &wire3.REMOVE3args{Object: nfscall.Dirop(root, "gone")},
			func() { nfscall.Must(t, os.WriteFile(path("gone"), nil, 0o644)) }, func() bool { return !exists(path("gone")) }},
		{"RMDIR", wire3.NFSPROC3_RMDIR, &wire3.RMDIR3args{Object: nfscall.Dirop(root, "rmdir")},
			func() { nfscall.Must(t, os.Mkdir(path("rmdir"), 0o755)) }, func() bool { return !exists(path("rmdir")) }},
		{"RENAME", wire3.NFSPROC3_RENAME, &wire3.RENAME3args{From: nfscall.Dirop(root, "from"), To: nfscall.Dirop(root, "to")},
			func() { nfscall.Must(t, os.Rename(path("to"), path("from"))) }, func() bool { return exists(path("to")) }},
		{"LINK", wire3.NFSPROC3_LINK, &wire3.LINK3args{File: nfscall.FH(lnk), Link: nfscall.Dirop(root, "l")},
			func() { nfscall.Must(t, os.Remove(path("l"))) }, func() bool { return exists(path("l")) }},
		{"SETATTR", wire3.NFSPROC3_SETATTR, &wire3.SETATTR3args{Object: nfscall.FH(attr), NewAttributes: nfscall.Mode(0o600)},
			func() { nfscall.Must(t, os.Chmod(path("attr"), 0o644)) }, func() bool { return statOf(t, path("attr")).Mode&0o777 == 0o600 }},
		{"WRITE", wire3.NFSPROC3_WRITE, &wire3.WRITE3args{File: nfscall.FH(data), Count: 3, Data: []byte("new"), Stable: wire3.FILE_SYNC},
			func() { nfscall.Must(t, os.WriteFile(path("data"), []byte("0123456789"), 0o644)) },
			func() bool { b, err := os.ReadFile(path("data")); return err == nil && string(b[:3]) == "new" }},
	} {
		t.Run(x.name, func(t *testing.T) {
			src := "127.0.0.1:0"
			first := dialRaw(t, s.addr, src)
			xid := uint32(time.Now().UnixNano())
			cred := nfscall.Root()
			record := rpc.EncodeCall(nil, xid, wire3.NFS_PROGRAM, wire3.NFS_V3, x.proc, &cred, x.args)
			answer := exchange(t, first, record)
			var st statusOnly
			if err := rpc.DecodeReply(answer, &st); err != nil || wire3.Nfsstat3(st) != wire3.NFS3_OK {
				t.Fatalf("%v, %v", wire3.Nfsstat3(st), err)
			}
			if !x.done() {
				t.Fatal("the call had no effect")
			}
			x.undo()
			if again := exchange(t, first, record); !bytes.Equal(again, answer) {
				t.Errorf("sent again, the answer is another:\n%x\n%x", answer, again)
			}
			// After a reconnect the kernel client keeps its port and its XIDs.
			local := first.LocalAddr().String()
			first.(*net.TCPConn).SetLinger(0)
			first.Close()
			second := dialRaw(t, s.addr, local)
			if again := exchange(t, second, record); !bytes.Equal(again, answer) {
				t.Errorf("sent again over a new connection, the answer is another:\n%x\n%x", answer, again)
			}
			if x.done() {
				t.Error("the call was done again")
			}
			// The same XID with other arguments is another call.
			other := rpc.EncodeCall(nil, xid, wire3.NFS_PROGRAM, wire3.NFS_V3, wire3.NFSPROC3_REMOVE, &cred,
				&wire3.REMOVE3args{Object: nfscall.Dirop(root, "never-there")})
			if err := rpc.DecodeReply(exchange(t, second, other), &st); err != nil || wire3.Nfsstat3(st) != wire3.NFS3ERR_NOENT {
				t.Errorf("another call with the same XID: %v, %v", wire3.Nfsstat3(st), err)
			}
		})
	}
}

type statusOnly uint32

func (s *statusOnly) Decode(d *xdr.Decoder) { *s = statusOnly(d.Uint32()); d.Next(d.Len()) }

func exists(path string) bool { _, err := os.Lstat(path); return err == nil }

func dialRaw(t testing.TB, addr, local string) net.Conn {
	t.Helper()
	la, err := net.ResolveTCPAddr("tcp", local)
	nfscall.Must(t, err)
	d := net.Dialer{LocalAddr: la, Timeout: 5 * time.Second}
	nc, err := d.Dial("tcp", addr)
	nfscall.Must(t, err)
	nc.SetDeadline(time.Now().Add(20 * time.Second))
	t.Cleanup(func() { nc.Close() })
	return nc
}

// exchange sends a record and returns the next one, without its mark.
func exchange(t testing.TB, nc net.Conn, record []byte) []byte {
	t.Helper()
	if _, err := nc.Write(record); err != nil {
		t.Fatal(err)
	}
	b, err := rpc.ReadRecord(nc, 1<<22)
	if err != nil {
		t.Fatal(err)
	}
	return b
}
