// Package nfscall makes NFSv3 and MOUNT calls for tests: the RPC client with
// the few wrappers that keep a test to its point.
//
// Functions that take a testing.TB end the test when the RPC layer does not
// accept the call; what the server's own status says is the test's business.
// Byte slices in results are copies.
package nfscall

import (
	"net"
	"testing"
	"time"

	"sluice/rpc"
	"sluice/xdr"
	"sluice/xdr/mount3"
	wire3 "sluice/xdr/nfs3"
)

// timeout bounds each call: a server that hangs fails the test.
const timeout = 60 * time.Second

// Client calls as one user. The embedded client is shared by what As returns.
type Client struct {
	*rpc.Client
	Cred rpc.Cred
}

// Dial connects to a server; the connection ends with the test.
func Dial(t testing.TB, addr string, cred rpc.Cred) *Client {
	t.Helper()
	nc, err := net.DialTimeout("tcp", addr, 5*time.Second)
	Must(t, err)
	c := rpc.NewClient(nc)
	c.Timeout = timeout
	t.Cleanup(func() { c.Close() })
	return &Client{Client: c, Cred: cred}
}

// Root is the credential of root on the client.
func Root() rpc.Cred { return User(0, 0) }

// User is the credential of a user.
func User(uid, gid uint32, groups ...uint32) rpc.Cred {
	return rpc.Cred{Flavor: rpc.FlavorSys, UID: uid, GID: gid, Groups: groups, Machine: []byte("test")}
}

// As is the same connection, as another user.
func (c *Client) As(cred rpc.Cred) *Client { return &Client{Client: c.Client, Cred: cred} }

// NFS makes a call of NFS version 3 and returns what the RPC layer says.
func (c *Client) NFS(proc uint32, args rpc.Encodable, res rpc.Decodable) error {
	return c.Call(wire3.NFS_PROGRAM, wire3.NFS_V3, proc, &c.Cred, args, res)
}

// Do makes a call of NFS version 3 that the RPC layer must accept.
func (c *Client) Do(t testing.TB, proc uint32, args rpc.Encodable, res rpc.Decodable) {
	t.Helper()
	if err := c.NFS(proc, args, res); err != nil {
		t.Fatalf("%s: %v", wire3.ProcName(wire3.NFS_PROGRAM, wire3.NFS_V3, proc), err)
	}
}

// Raw makes a call and returns the bytes of its results.
func (c *Client) Raw(t testing.TB, proc uint32, args rpc.Encodable) []byte {
	t.Helper()
	var r Bytes
	c.Do(t, proc, args, &r)
	return r
}

// Status makes a call and returns the status, the first word of its results.
func (c *Client) Status(t testing.TB, proc uint32, args rpc.Encodable) wire3.Nfsstat3 {
	t.Helper()
	var d xdr.Decoder
	d.Reset(c.Raw(t, proc, args))
	st := wire3.Nfsstat3(d.Int32())
	if d.Err() != nil {
		t.Fatalf("%s: no status in the results", wire3.ProcName(wire3.NFS_PROGRAM, wire3.NFS_V3, proc))
	}
	return st
}

// WantStatus fails the test when a call's status is not the one expected.
func (c *Client) WantStatus(t testing.TB, what string, proc uint32, args rpc.Encodable, want wire3.Nfsstat3) {
	t.Helper()
	if got := c.Status(t, proc, args); got != want {
		t.Errorf("%s: %v, want %v", what, got, want)
	}
}

// Mnt asks MOUNT version 3 for a directory.
func (c *Client) Mnt(dir string) (res mount3.Mountres3, err error) {
	err = c.Call(mount3.MOUNT_PROGRAM, mount3.MOUNT_V3, mount3.MOUNTPROC3_MNT, &c.Cred, String(dir), &res)
	return res, err
}

// Mount returns the handle of a directory, which the server must give.
func (c *Client) Mount(t testing.TB, dir string) []byte {
	t.Helper()
	res, err := c.Mnt(dir)
	if err != nil || res.FhsStatus != mount3.MNT3_OK {
		t.Fatalf("MNT %s: %v, %v", dir, res.FhsStatus, err)
	}
	return res.Mountinfo.Fhandle
}

// Lookup returns the handle of a name, which must be there.
func (c *Client) Lookup(t testing.TB, dir []byte, name string) []byte {
	t.Helper()
	var res wire3.LOOKUP3res
	c.Do(t, wire3.NFSPROC3_LOOKUP, &wire3.LOOKUP3args{What: Dirop(dir, name)}, &res)
	if res.Status != wire3.NFS3_OK {
		t.Fatalf("LOOKUP %s: %v", name, res.Status)
	}
	return res.Resok.Object.Data
}

// Getattr returns the attributes of a handle, which must be good.
func (c *Client) Getattr(t testing.TB, h []byte) wire3.Fattr3 {
	t.Helper()
	var res wire3.GETATTR3res
	c.Do(t, wire3.NFSPROC3_GETATTR, &wire3.GETATTR3args{Object: FH(h)}, &res)
	if res.Status != wire3.NFS3_OK {
		t.Fatalf("GETATTR: %v", res.Status)
	}
	return res.Resok.ObjAttributes
}

// Create makes a file, or takes the one that is there, and returns its handle.
func (c *Client) Create(t testing.TB, dir []byte, name string, mode uint32) []byte {
	t.Helper()
	var res wire3.CREATE3res
	c.Do(t, wire3.NFSPROC3_CREATE, &wire3.CREATE3args{Where: Dirop(dir, name),
		How: wire3.Createhow3{Mode: wire3.UNCHECKED, ObjAttributes: Mode(mode)}}, &res)
	if res.Status != wire3.NFS3_OK {
		t.Fatalf("CREATE %s: %v", name, res.Status)
	}
	return res.Resok.Obj.Handle.Data
}

// Write writes data as one stable WRITE, which must succeed in full.
func (c *Client) Write(t testing.TB, h []byte, off uint64, data []byte) {
	t.Helper()
	var res wire3.WRITE3res
	c.Do(t, wire3.NFSPROC3_WRITE, &wire3.WRITE3args{File: FH(h), Offset: off, Count: uint32(len(data)), Stable: wire3.FILE_SYNC, Data: data}, &res)
	if res.Status != wire3.NFS3_OK || int(res.Resok.Count) != len(data) {
		t.Fatalf("WRITE of %d bytes at %d: %v, %d", len(data), off, res.Status, res.Resok.Count)
	}
}

// Read reads up to count bytes, and tells whether they reach the end of the file.
func (c *Client) Read(t testing.TB, h []byte, off uint64, count uint32) (data []byte, eof bool) {
	t.Helper()
	var res wire3.READ3res
	c.Do(t, wire3.NFSPROC3_READ, &wire3.READ3args{File: FH(h), Offset: off, Count: count}, &res)
	if res.Status != wire3.NFS3_OK {
		t.Fatalf("READ of %d bytes at %d: %v", count, off, res.Status)
	}
	data, ok := res.Resok.Data.Bytes()
	if !ok || int(res.Resok.Count) != len(data) {
		t.Fatalf("READ of %d bytes at %d: count is %d, the data has %d bytes", count, off, res.Resok.Count, len(data))
	}
	return data, res.Resok.Eof
}

// Bytes are arguments, or results, as they are.
type Bytes []byte

// Encode appends the bytes.
func (r Bytes) Encode(e *xdr.Encoder) { e.Fixed(r) }

// Decode takes all that is left.
func (r *Bytes) Decode(d *xdr.Decoder) { *r = Clone(d.Next(d.Len())) }

// String is one string as arguments.
type String string

// Encode appends the string.
func (s String) Encode(e *xdr.Encoder) { e.Opaque([]byte(s)) }

// Words are arguments made of 32-bit words.
type Words []uint32

// Encode appends the words.
func (w Words) Encode(e *xdr.Encoder) {
	for _, v := range w {
		e.Uint32(v)
	}
}

// Decode decodes results that must have the type's form and no bytes more.
func Decode(t testing.TB, b []byte, res rpc.Decodable) {
	t.Helper()
	var d xdr.Decoder
	d.Reset(b)
	if res.Decode(&d); d.Err() != nil || d.Len() != 0 {
		t.Fatalf("results of %d bytes: %v, %d left", len(b), d.Err(), d.Len())
	}
}

// FH is a handle as an argument.
func FH(b []byte) wire3.NfsFh3 { return wire3.NfsFh3{Data: b} }

// Dirop is a name in a directory as an argument.
func Dirop(dir []byte, name string) wire3.Diropargs3 {
	return wire3.Diropargs3{Dir: FH(dir), Name: []byte(name)}
}

// Mode is the attributes that set a mode and nothing else.
func Mode(m uint32) wire3.Sattr3 { return wire3.Sattr3{Mode: wire3.SetMode3{SetIt: true, Mode: m}} }

// Garbage tells whether the RPC layer answered GARBAGE_ARGS.
func Garbage(err error) bool {
	e, ok := err.(*rpc.Error)
	return ok && !e.Denied && e.Stat == 4
}

// Clone copies b.
func Clone(b []byte) []byte { return append([]byte(nil), b...) }

// Must ends the test on an error.
func Must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
