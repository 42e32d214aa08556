// Bad input: forged handles, names that are none, offsets and counts out of
// range, arguments that do not decode. Each gets the code that RFC 1813 or
// RFC 5531 has for it, nothing is changed, and the server goes on.

package nfs3

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"sluice/exports"
	"sluice/rpc"
	"sluice/test/nfscall"
	"sluice/xdr"
	wire3 "sluice/xdr/nfs3"
)

// callsOn lists every procedure that takes a handle, with arguments that are
// in order but for it.
func callsOn(h []byte) map[string]struct {
	proc uint32
	args rpc.Encodable
} {
	type call = struct {
		proc uint32
		args rpc.Encodable
	}
	return map[string]call{
		"GETATTR":     {wire3.NFSPROC3_GETATTR, &wire3.GETATTR3args{Object: nfscall.FH(h)}},
		"SETATTR":     {wire3.NFSPROC3_SETATTR, &wire3.SETATTR3args{Object: nfscall.FH(h), NewAttributes: nfscall.Mode(0o600)}},
		"LOOKUP":      {wire3.NFSPROC3_LOOKUP, &wire3.LOOKUP3args{What: nfscall.Dirop(h, "x")}},
		"ACCESS":      {wire3.NFSPROC3_ACCESS, &wire3.ACCESS3args{Object: nfscall.FH(h), Access: 1}},
		"READLINK":    {wire3.NFSPROC3_READLINK, &wire3.READLINK3args{Symlink: nfscall.FH(h)}},
		"READ":        {wire3.NFSPROC3_READ, &wire3.READ3args{File: nfscall.FH(h), Count: 1}},
		"WRITE":       {wire3.NFSPROC3_WRITE, &wire3.WRITE3args{File: nfscall.FH(h), Count: 1, Data: []byte("x")}},
		"CREATE":      {wire3.NFSPROC3_CREATE, &wire3.CREATE3args{Where: nfscall.Dirop(h, "new")}},
		"MKDIR":       {wire3.NFSPROC3_MKDIR, &wire3.MKDIR3args{Where: nfscall.Dirop(h, "new")}},
		"SYMLINK":     {wire3.NFSPROC3_SYMLINK, &wire3.SYMLINK3args{Where: nfscall.Dirop(h, "new"), Symlink: wire3.Symlinkdata3{SymlinkData: []byte("t")}}},
		"MKNOD":       {wire3.NFSPROC3_MKNOD, &wire3.MKNOD3args{Where: nfscall.Dirop(h, "new"), What: wire3.Mknoddata3{Type: wire3.NF3FIFO}}},
		"REMOVE":      {wire3.NFSPROC3_REMOVE, &wire3.REMOVE3args{Object: nfscall.Dirop(h, "x")}},
		"RMDIR":       {wire3.NFSPROC3_RMDIR, &wire3.RMDIR3args{Object: nfscall.Dirop(h, "x")}},
		"RENAME":      {wire3.NFSPROC3_RENAME, &wire3.RENAME3args{From: nfscall.Dirop(h, "x"), To: nfscall.Dirop(h, "y")}},
		"LINK":        {wire3.NFSPROC3_LINK, &wire3.LINK3args{File: nfscall.FH(h), Link: nfscall.Dirop(h, "y")}},
		"READDIR":     {wire3.NFSPROC3_READDIR, &wire3.READDIR3args{Dir: nfscall.FH(h), Count: 4096}},
		"READDIRPLUS": {wire3.NFSPROC3_READDIRPLUS, &wire3.READDIRPLUS3args{Dir: nfscall.FH(h), Dircount: 4096, Maxcount: 4096}},
		"FSSTAT":      {wire3.NFSPROC3_FSSTAT, &wire3.FSSTAT3args{Fsroot: nfscall.FH(h)}},
		"FSINFO":      {wire3.NFSPROC3_FSINFO, &wire3.FSINFO3args{Fsroot: nfscall.FH(h)}},
		"PATHCONF":    {wire3.NFSPROC3_PATHCONF, &wire3.PATHCONF3args{Object: nfscall.FH(h)}},
		"COMMIT":      {wire3.NFSPROC3_COMMIT, &wire3.COMMIT3args{File: nfscall.FH(h)}},
	}
}

// tree lists everything below dir and what is in it, with all that a change
// leaves its mark on, to show that nothing was changed. Only times of access are
// left out: who lists a directory moves its own.
func tree(t testing.TB, dir string) string {
	t.Helper()
	var b strings.Builder
	nfscall.Must(t, filepath.Walk(dir, func(p string, fi os.FileInfo, err error) error {
		if err != nil {
			return err
		}
		st := statOf(t, p)
		fmt.Fprintf(&b, "%s: mode %o, %d links, owner %d:%d, device %x, %d bytes, mtime %v, ctime %v",
			p, st.Mode, st.Nlink, st.Uid, st.Gid, st.Rdev, st.Size, st.Mtim, st.Ctim)
		if fi.Mode().IsRegular() {
			data, err := os.ReadFile(p)
			if err != nil {
				return err
			}
			fmt.Fprintf(&b, ", %q", data)
		}
		b.WriteByte('\n')
		return nil
	}))
	return b.String()
}

func TestForgedHandles(t *testing.T) {
	s := startServer(t, "rw,no_root_squash,insecure,async")
	c := s.client(t)
	root := c.Mount(t, s.dir)
	nfscall.Must(t, os.WriteFile(filepath.Join(s.dir, "x"), []byte("data"), 0o644))
	other := startServer(t, "rw,no_root_squash,insecure,async") // another key, another export
	foreign := other.client(t).Mount(t, other.dir)

	flip := func(i int) []byte {
		h := nfscall.Clone(root)
		h[i] ^= 1
		return h
	}
	forged := map[string][]byte{
		"empty":              {},
		"one byte":           {1},
		"zeros":              make([]byte, 64),
		"ones":               bytes.Repeat([]byte{0xff}, 64),
		"truncated":          root[:len(root)-1],
		"first byte flipped": flip(0),
		"last byte flipped":  flip(len(root) - 1),
		"middle flipped":     flip(len(root) / 2),
		"of another server":  foreign,
	}
	if len(root) < 64 {
		forged["lengthened"] = append(nfscall.Clone(root), 0)
	}
	before := tree(t, s.dir)
	for kind, h := range forged {
		for name, call := range callsOn(h) {
			c.WantStatus(t, name+" with a handle that is "+kind, call.proc, call.args, wire3.NFS3ERR_BADHANDLE)
			r := c.Raw(t, call.proc, call.args)
			// Without a file there are no attributes: flag nfscall.Words of zero, one for
			// each post_op_attr and two for each wcc_data.
			if n := len(r) - 4; n > 16 || len(bytes.Trim(r[4:], "\x00")) != 0 {
				t.Errorf("%s with a handle that is %s: the error arm holds % x", name, kind, r[4:])
			}
		}
	}
	// The second handle of RENAME and LINK.
	file := c.Lookup(t, root, "x")
	for kind, h := range forged {
		for name, args := range map[string]struct {
			proc uint32
			args rpc.Encodable
		}{
			"RENAME": {wire3.NFSPROC3_RENAME, &wire3.RENAME3args{From: nfscall.Dirop(root, "x"), To: nfscall.Dirop(h, "y")}},
			"LINK":   {wire3.NFSPROC3_LINK, &wire3.LINK3args{File: nfscall.FH(file), Link: nfscall.Dirop(h, "y")}},
		} {
			c.WantStatus(t, name+" to a handle that is "+kind, args.proc, args.args, wire3.NFS3ERR_BADHANDLE)
		}
	}
	// More than 64 bytes is no nfs_fh3 at all.
	if err := c.NFS(wire3.NFSPROC3_GETATTR, &wire3.GETATTR3args{Object: nfscall.FH(make([]byte, 65))}, nil); !nfscall.Garbage(err) {
		t.Errorf("a handle of 65 bytes: %v, want GARBAGE_ARGS", err)
	}
	if after := tree(t, s.dir); after != before {
		t.Errorf("something was changed:\n%s\n%s", before, after)
	}
	c.WantStatus(t, "GETATTR afterwards", wire3.NFSPROC3_GETATTR, &wire3.GETATTR3args{Object: nfscall.FH(root)}, wire3.NFS3_OK)
}

// A handle of an export that is not for this client, however it came by it: no
// procedure takes it, as its first handle or its second.
func TestHandlesOfOtherExports(t *testing.T) {
	dir := t.TempDir()
	mine, theirs := filepath.Join(dir, "mine"), filepath.Join(dir, "theirs")
	for _, d := range []string{mine, theirs} {
		nfscall.Must(t, os.Mkdir(d, 0o777))
		nfscall.Must(t, os.WriteFile(filepath.Join(d, "x"), []byte("data"), 0o666))
	}
	const options = "(rw,no_root_squash,insecure,async)"
	s := serveExports(t, dir, fmt.Sprintf("%s 127.0.0.1%s\n%s 127.0.0.2%[2]s\n", exports.Quote(mine), options, exports.Quote(theirs)))
	c := s.client(t)
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)}}
	nc, err := dialer.Dial("tcp", s.addr)
	nfscall.Must(t, err)
	other := &nfscall.Client{Client: rpc.NewClient(nc), Cred: nfscall.Root()}
	defer other.Close()

	root, foreign := c.Mount(t, mine), other.Mount(t, theirs)
	file, foreignFile := c.Lookup(t, root, "x"), other.Lookup(t, foreign, "x")
	before := tree(t, dir)
	for what, h := range map[string][]byte{"a directory": foreign, "a file": foreignFile} {
		for name, call := range callsOn(h) {
			r := c.Raw(t, call.proc, call.args)
			if st := wire3.Nfsstat3(binary.BigEndian.Uint32(r)); st != wire3.NFS3ERR_STALE {
				t.Errorf("%s with the handle of %s of another's export: %v, want STALE", name, what, st)
			}
			if len(bytes.Trim(r[4:], "\x00")) != 0 {
				t.Errorf("%s with the handle of %s of another's export tells % x", name, what, r[4:])
			}
		}
	}
	// A second handle is compared with the first, before anyone asks whose it is.
	for what, call := range map[string]struct {
		proc uint32
		args rpc.Encodable
		want wire3.Nfsstat3
	}{
		"RENAME into": {wire3.NFSPROC3_RENAME, &wire3.RENAME3args{From: nfscall.Dirop(root, "x"), To: nfscall.Dirop(foreign, "y")}, wire3.NFS3ERR_XDEV},
		"RENAME out":  {wire3.NFSPROC3_RENAME, &wire3.RENAME3args{From: nfscall.Dirop(foreign, "x"), To: nfscall.Dirop(root, "y")}, wire3.NFS3ERR_STALE},
		"LINK into":   {wire3.NFSPROC3_LINK, &wire3.LINK3args{File: nfscall.FH(file), Link: nfscall.Dirop(foreign, "y")}, wire3.NFS3ERR_XDEV},
		"LINK out of": {wire3.NFSPROC3_LINK, &wire3.LINK3args{File: nfscall.FH(foreignFile), Link: nfscall.Dirop(root, "y")}, wire3.NFS3ERR_STALE},
	} {
		c.WantStatus(t, what+" another's export", call.proc, call.args, call.want)
	}
	if after := tree(t, dir); after != before {
		t.Errorf("something was changed:\n%s\n%s", before, after)
	}
	// They are good for whom they are.
	other.WantStatus(t, "GETATTR by the other", wire3.NFSPROC3_GETATTR, &wire3.GETATTR3args{Object: nfscall.FH(foreignFile)}, wire3.NFS3_OK)
}

func TestBadNames(t *testing.T) {
	s := startServer(t, "rw,no_root_squash,insecure,async")
	c := s.client(t)
	root := c.Mount(t, s.dir)
	nfscall.Must(t, os.WriteFile(filepath.Join(s.dir, "x"), []byte("data"), 0o644))
	nfscall.Must(t, os.Mkdir(filepath.Join(s.dir, "d"), 0o755))
	file := c.Lookup(t, root, "x")
	long, longer := strings.Repeat("n", 256), strings.Repeat("n", 5000)
	before := tree(t, s.dir)

	// RFC 1813 has no code of its own for a name that is none; like the kernel's
	// server, this one says ACCES, in every procedure.
	for name, want := range map[string]wire3.Nfsstat3{
		long:      wire3.NFS3ERR_NAMETOOLONG,
		longer:    wire3.NFS3ERR_NAMETOOLONG,
		"":        wire3.NFS3ERR_ACCES,
		"a/b":     wire3.NFS3ERR_ACCES,
		"/":       wire3.NFS3ERR_ACCES,
		"../x":    wire3.NFS3ERR_ACCES,
		"nul\x00": wire3.NFS3ERR_ACCES,
		"\x00":    wire3.NFS3ERR_ACCES,
	} {
		show := name[:min(len(name), 20)]
		c.WantStatus(t, fmt.Sprintf("LOOKUP %q", show), wire3.NFSPROC3_LOOKUP, &wire3.LOOKUP3args{What: nfscall.Dirop(root, name)}, want)
		for proc, call := range namedCalls(root, file, name) {
			c.WantStatus(t, fmt.Sprintf("%s %q", proc, show), call.proc, call.args, want)
		}
	}
	// A name that fits the limit exactly is a name.
	c.WantStatus(t, "LOOKUP of 255 bytes", wire3.NFSPROC3_LOOKUP, &wire3.LOOKUP3args{What: nfscall.Dirop(root, long[:255])}, wire3.NFS3ERR_NOENT)

	// The two dots cannot be made, removed or renamed (RFC 1813, 3.3.8 to 3.3.15).
	dotted := map[string][2]wire3.Nfsstat3{ // of "." and of ".."
		"CREATE":         {wire3.NFS3ERR_EXIST, wire3.NFS3ERR_EXIST},
		"CREATE GUARDED": {wire3.NFS3ERR_EXIST, wire3.NFS3ERR_EXIST},
		"CREATE EXCL":    {wire3.NFS3ERR_EXIST, wire3.NFS3ERR_EXIST},
		"MKDIR":          {wire3.NFS3ERR_EXIST, wire3.NFS3ERR_EXIST},
		"SYMLINK":        {wire3.NFS3ERR_EXIST, wire3.NFS3ERR_EXIST},
		"MKNOD":          {wire3.NFS3ERR_EXIST, wire3.NFS3ERR_EXIST},
		"LINK":           {wire3.NFS3ERR_EXIST, wire3.NFS3ERR_EXIST},
		"REMOVE":         {wire3.NFS3ERR_ACCES, wire3.NFS3ERR_ACCES},
		"RMDIR":          {wire3.NFS3ERR_INVAL, wire3.NFS3ERR_EXIST}, // 3.3.13 has a code for each
		"RENAME from":    {wire3.NFS3ERR_INVAL, wire3.NFS3ERR_INVAL},
		"RENAME to":      {wire3.NFS3ERR_INVAL, wire3.NFS3ERR_INVAL},
	}
	for k, dots := range []string{".", ".."} {
		for proc, call := range namedCalls(root, file, dots) {
			c.WantStatus(t, fmt.Sprintf("%s %q", proc, dots), call.proc, call.args, dotted[proc][k])
		}
	}
	// ".." at the root of an export leads nowhere else.
	if h := c.Lookup(t, root, ".."); !bytes.Equal(h, root) {
		t.Errorf("\"..\" at the root of the export has the handle % x, the root % x", h, root)
	}
	if h := c.Lookup(t, root, "."); !bytes.Equal(h, root) {
		t.Errorf("\".\" has another handle")
	}
	if after := tree(t, s.dir); after != before {
		t.Errorf("something was changed:\n%s\n%s", before, after)
	}
}

func namedCalls(root, file []byte, name string) map[string]struct {
	proc uint32
	args rpc.Encodable
} {
	type call = struct {
		proc uint32
		args rpc.Encodable
	}
	return map[string]call{
		"CREATE":         {wire3.NFSPROC3_CREATE, &wire3.CREATE3args{Where: nfscall.Dirop(root, name)}},
		"CREATE GUARDED": {wire3.NFSPROC3_CREATE, &wire3.CREATE3args{Where: nfscall.Dirop(root, name), How: wire3.Createhow3{Mode: wire3.GUARDED}}},
		"CREATE EXCL":    {wire3.NFSPROC3_CREATE, &wire3.CREATE3args{Where: nfscall.Dirop(root, name), How: wire3.Createhow3{Mode: wire3.EXCLUSIVE}}},
		"MKDIR":          {wire3.NFSPROC3_MKDIR, &wire3.MKDIR3args{Where: nfscall.Dirop(root, name)}},
		"SYMLINK":        {wire3.NFSPROC3_SYMLINK, &wire3.SYMLINK3args{Where: nfscall.Dirop(root, name), Symlink: wire3.Symlinkdata3{SymlinkData: []byte("t")}}},
		"MKNOD":          {wire3.NFSPROC3_MKNOD, &wire3.MKNOD3args{Where: nfscall.Dirop(root, name), What: wire3.Mknoddata3{Type: wire3.NF3FIFO}}},
		"REMOVE":         {wire3.NFSPROC3_REMOVE, &wire3.REMOVE3args{Object: nfscall.Dirop(root, name)}},
		"RMDIR":          {wire3.NFSPROC3_RMDIR, &wire3.RMDIR3args{Object: nfscall.Dirop(root, name)}},
		"RENAME from":    {wire3.NFSPROC3_RENAME, &wire3.RENAME3args{From: nfscall.Dirop(root, name), To: nfscall.Dirop(root, "z")}},
		"RENAME to":      {wire3.NFSPROC3_RENAME, &wire3.RENAME3args{From: nfscall.Dirop(root, "x"), To: nfscall.Dirop(root, name)}},
		"LINK":           {wire3.NFSPROC3_LINK, &wire3.LINK3args{File: nfscall.FH(file), Link: nfscall.Dirop(root, name)}},
	}
}

func TestBadRanges(t *testing.T) {
	s := startServer(t, "rw,no_root_squash,insecure,async")
	c := s.client(t)
	root := c.Mount(t, s.dir)
	path := filepath.Join(s.dir, "x")
	nfscall.Must(t, os.WriteFile(path, []byte("data"), 0o644))
	file := c.Lookup(t, root, "x")

	// READ past the end, however far, is an empty answer with eof.
	for _, off := range []uint64{4, 5, 1 << 40, 1<<63 - 1, 1 << 63, math.MaxUint64} {
		var res wire3.READ3res
		c.Do(t, wire3.NFSPROC3_READ, &wire3.READ3args{File: nfscall.FH(file), Offset: off, Count: 10}, &res)
		if res.Status != wire3.NFS3_OK || res.Resok.Count != 0 || !res.Resok.Eof {
			t.Errorf("READ at %d: %v, %d bytes, eof %v", off, res.Status, res.Resok.Count, res.Resok.Eof)
		}
	}
	// Any count is served, up to rtmax.
	for _, count := range []uint32{0, 4, 5, 1 << 20, 1<<20 + 1, math.MaxInt32, math.MaxUint32} {
		var res wire3.READ3res
		c.Do(t, wire3.NFSPROC3_READ, &wire3.READ3args{File: nfscall.FH(file), Count: count}, &res)
		want := min(count, 4)
		if res.Status != wire3.NFS3_OK || res.Resok.Count != want || res.Resok.Eof != (count >= 4) {
			t.Errorf("READ of %d: %v, %d bytes, eof %v", count, res.Status, res.Resok.Count, res.Resok.Eof)
		}
	}
	nfscall.Must(t, os.Truncate(path, 3<<20))
	var big wire3.READ3res
	c.Do(t, wire3.NFSPROC3_READ, &wire3.READ3args{File: nfscall.FH(file), Offset: 1, Count: math.MaxUint32}, &big)
	if big.Status != wire3.NFS3_OK || big.Resok.Count != 1<<20 || big.Resok.Eof {
		t.Errorf("READ of 4 GiB: %v, %d bytes, eof %v; want rtmax", big.Status, big.Resok.Count, big.Resok.Eof)
	}
	nfscall.Must(t, os.WriteFile(path, []byte("data"), 0o644))

	before := tree(t, s.dir)
	for _, off := range []uint64{1 << 63, 1<<63 - 1, 1<<63 - 2, math.MaxUint64, math.MaxUint64 - 1} {
		c.WantStatus(t, "WRITE past 2^63", wire3.NFSPROC3_WRITE,
			&wire3.WRITE3args{File: nfscall.FH(file), Offset: off, Count: 4, Data: []byte("evil")}, wire3.NFS3ERR_FBIG)
	}
	// count and data differ: RFC 1813, 3.3.7 gives INVAL; nothing is written.
	for _, n := range []uint32{0, 3, 5, 4096, math.MaxUint32} {
		c.WantStatus(t, "WRITE of other data than count says", wire3.NFSPROC3_WRITE,
			&wire3.WRITE3args{File: nfscall.FH(file), Count: n, Data: []byte("evil")}, wire3.NFS3ERR_INVAL)
	}
	// The data ends before its length says: the arguments do not decode.
	short := &wire3.WRITE3args{File: nfscall.FH(file), Count: 4096, Data: make([]byte, 4096)}
	if err := c.NFS(wire3.NFSPROC3_WRITE, truncated{short, 100}, nil); !nfscall.Garbage(err) {
		t.Errorf("WRITE whose data is cut off: %v, want GARBAGE_ARGS", err)
	}
	for _, size := range []uint64{1 << 63, math.MaxUint64} {
		args := &wire3.SETATTR3args{Object: nfscall.FH(file)}
		args.NewAttributes.Size = wire3.SetSize3{SetIt: true, Size: size}
		c.WantStatus(t, fmt.Sprintf("SETATTR of size %d", size), wire3.NFSPROC3_SETATTR, args, wire3.NFS3ERR_FBIG)
	}
	for _, nsec := range []uint32{1_000_000_000, math.MaxUint32} {
		args := &wire3.SETATTR3args{Object: nfscall.FH(file)}
		args.NewAttributes.Atime = wire3.SetAtime{SetIt: wire3.SET_TO_CLIENT_TIME, Atime: wire3.Nfstime3{Nseconds: nsec}}
		c.WantStatus(t, "SETATTR of a time with too many nanoseconds", wire3.NFSPROC3_SETATTR, args, wire3.NFS3ERR_INVAL)
	}
	if after := tree(t, s.dir); after != before {
		t.Errorf("something was changed:\n%s\n%s", before, after)
	}
	// An empty WRITE is none; an odd COMMIT range commits the file.
	c.WantStatus(t, "WRITE of nothing", wire3.NFSPROC3_WRITE, &wire3.WRITE3args{File: nfscall.FH(file)}, wire3.NFS3_OK)
	c.WantStatus(t, "COMMIT of a range", wire3.NFSPROC3_COMMIT, &wire3.COMMIT3args{File: nfscall.FH(file), Offset: 1 << 40, Count: math.MaxUint32}, wire3.NFS3_OK)
}

func TestBadTypes(t *testing.T) {
	s := startServer(t, "rw,no_root_squash,insecure,async")
	c := s.client(t)
	root := c.Mount(t, s.dir)
	nfscall.Must(t, os.WriteFile(filepath.Join(s.dir, "x"), []byte("data"), 0o644))
	nfscall.Must(t, os.Mkdir(filepath.Join(s.dir, "d"), 0o755))
	nfscall.Must(t, os.Mkdir(filepath.Join(s.dir, "d", "full"), 0o755))
	nfscall.Must(t, os.Symlink("x", filepath.Join(s.dir, "l")))
	nfscall.Must(t, unix.Mkfifo(filepath.Join(s.dir, "p"), 0o644))
	file, dir, lnk, fifo := c.Lookup(t, root, "x"), c.Lookup(t, root, "d"), c.Lookup(t, root, "l"), c.Lookup(t, root, "p")
	before := tree(t, s.dir)

	for _, x := range []struct {
		what string
		proc uint32
		args rpc.Encodable
		want wire3.Nfsstat3
	}{
		{"READ of a directory", wire3.NFSPROC3_READ, &wire3.READ3args{File: nfscall.FH(dir), Count: 1}, wire3.NFS3ERR_ISDIR},
		{"READ of a symbolic link", wire3.NFSPROC3_READ, &wire3.READ3args{File: nfscall.FH(lnk), Count: 1}, wire3.NFS3ERR_INVAL},
		{"READ of a FIFO", wire3.NFSPROC3_READ, &wire3.READ3args{File: nfscall.FH(fifo), Count: 1}, wire3.NFS3ERR_INVAL},
		{"WRITE to a directory", wire3.NFSPROC3_WRITE, &wire3.WRITE3args{File: nfscall.FH(dir), Count: 1, Data: []byte("x")}, wire3.NFS3ERR_ISDIR},
		{"WRITE to a FIFO", wire3.NFSPROC3_WRITE, &wire3.WRITE3args{File: nfscall.FH(fifo), Count: 1, Data: []byte("x")}, wire3.NFS3ERR_INVAL},
		{"LOOKUP in a file", wire3.NFSPROC3_LOOKUP, &wire3.LOOKUP3args{What: nfscall.Dirop(file, "x")}, wire3.NFS3ERR_NOTDIR},
		{"READDIR of a file", wire3.NFSPROC3_READDIR, &wire3.READDIR3args{Dir: nfscall.FH(file), Count: 4096}, wire3.NFS3ERR_NOTDIR},
		{"READDIRPLUS of a file", wire3.NFSPROC3_READDIRPLUS, &wire3.READDIRPLUS3args{Dir: nfscall.FH(file), Dircount: 4096, Maxcount: 4096}, wire3.NFS3ERR_NOTDIR},
		{"CREATE in a file", wire3.NFSPROC3_CREATE, &wire3.CREATE3args{Where: nfscall.Dirop(file, "n")}, wire3.NFS3ERR_NOTDIR},
		{"CREATE over a directory", wire3.NFSPROC3_CREATE, &wire3.CREATE3args{Where: nfscall.Dirop(root, "d"), How: wire3.Createhow3{Mode: wire3.GUARDED}}, wire3.NFS3ERR_EXIST},
		{"MKDIR over a file", wire3.NFSPROC3_MKDIR, &wire3.MKDIR3args{Where: nfscall.Dirop(root, "x")}, wire3.NFS3ERR_EXIST},
		{"SYMLINK over a file", wire3.NFSPROC3_SYMLINK, &wire3.SYMLINK3args{Where: nfscall.Dirop(root, "x"), Symlink: wire3.Symlinkdata3{SymlinkData: []byte("t")}}, wire3.NFS3ERR_EXIST},
		{"SYMLINK to nothing", wire3.NFSPROC3_SYMLINK, &wire3.SYMLINK3args{Where: nfscall.Dirop(root, "n")}, wire3.NFS3ERR_INVAL},
		{"SYMLINK to too much", wire3.NFSPROC3_SYMLINK, &wire3.SYMLINK3args{Where: nfscall.Dirop(root, "n"), Symlink: wire3.Symlinkdata3{SymlinkData: bytes.Repeat([]byte("t"), 5000)}}, wire3.NFS3ERR_NAMETOOLONG},
		{"SYMLINK with a NUL", wire3.NFSPROC3_SYMLINK, &wire3.SYMLINK3args{Where: nfscall.Dirop(root, "n"), Symlink: wire3.Symlinkdata3{SymlinkData: []byte("a\x00b")}}, wire3.NFS3ERR_INVAL},
		{"MKNOD of a file", wire3.NFSPROC3_MKNOD, &wire3.MKNOD3args{Where: nfscall.Dirop(root, "n"), What: wire3.Mknoddata3{Type: wire3.NF3REG}}, wire3.NFS3ERR_BADTYPE},
		{"MKNOD of a directory", wire3.NFSPROC3_MKNOD, &wire3.MKNOD3args{Where: nfscall.Dirop(root, "n"), What: wire3.Mknoddata3{Type: wire3.NF3DIR}}, wire3.NFS3ERR_BADTYPE},
		{"MKNOD of a number too large", wire3.NFSPROC3_MKNOD, &wire3.MKNOD3args{Where: nfscall.Dirop(root, "n"), What: wire3.Mknoddata3{Type: wire3.NF3CHR, Device: wire3.Devicedata3{Spec: wire3.Specdata3{Specdata1: 1 << 12}}}}, wire3.NFS3ERR_INVAL},
		{"REMOVE of a directory", wire3.NFSPROC3_REMOVE, &wire3.REMOVE3args{Object: nfscall.Dirop(root, "d")}, wire3.NFS3ERR_ISDIR},
		{"RMDIR of a file", wire3.NFSPROC3_RMDIR, &wire3.RMDIR3args{Object: nfscall.Dirop(root, "x")}, wire3.NFS3ERR_NOTDIR},
		{"RMDIR of a full directory", wire3.NFSPROC3_RMDIR, &wire3.RMDIR3args{Object: nfscall.Dirop(root, "d")}, wire3.NFS3ERR_NOTEMPTY},
		{"RENAME of nothing", wire3.NFSPROC3_RENAME, &wire3.RENAME3args{From: nfscall.Dirop(root, "absent"), To: nfscall.Dirop(root, "y")}, wire3.NFS3ERR_NOENT},
		{"RENAME into itself", wire3.NFSPROC3_RENAME, &wire3.RENAME3args{From: nfscall.Dirop(root, "d"), To: nfscall.Dirop(dir, "y")}, wire3.NFS3ERR_INVAL},
		{"RENAME of a file over a directory", wire3.NFSPROC3_RENAME, &wire3.RENAME3args{From: nfscall.Dirop(root, "x"), To: nfscall.Dirop(root, "d")}, wire3.NFS3ERR_ISDIR},
		{"RENAME of a directory over a file", wire3.NFSPROC3_RENAME, &wire3.RENAME3args{From: nfscall.Dirop(root, "d"), To: nfscall.Dirop(root, "x")}, wire3.NFS3ERR_NOTDIR},
		{"LINK over a name", wire3.NFSPROC3_LINK, &wire3.LINK3args{File: nfscall.FH(file), Link: nfscall.Dirop(root, "p")}, wire3.NFS3ERR_EXIST},
		{"LINK of a directory", wire3.NFSPROC3_LINK, &wire3.LINK3args{File: nfscall.FH(dir), Link: nfscall.Dirop(root, "n")}, wire3.NFS3ERR_ISDIR},
		{"SETATTR of a directory's size", wire3.NFSPROC3_SETATTR, &wire3.SETATTR3args{Object: nfscall.FH(dir), NewAttributes: wire3.Sattr3{Size: wire3.SetSize3{SetIt: true}}}, wire3.NFS3ERR_ISDIR},
		{"SETATTR with a guard that is off", wire3.NFSPROC3_SETATTR, &wire3.SETATTR3args{Object: nfscall.FH(file), NewAttributes: nfscall.Mode(0o600), Guard: wire3.Sattrguard3{Check: true, ObjCtime: wire3.Nfstime3{Seconds: 1}}}, wire3.NFS3ERR_NOT_SYNC},
		{"READDIR of a cookie that is none", wire3.NFSPROC3_READDIR, &wire3.READDIR3args{Dir: nfscall.FH(dir), Cookie: math.MaxUint64, Count: 4096}, wire3.NFS3ERR_BAD_COOKIE},
	} {
		c.WantStatus(t, x.what, x.proc, x.args, x.want)
	}
	if after := tree(t, s.dir); after != before {
		t.Errorf("something was changed:\n%s\n%s", before, after)
	}
}

// truncated encodes only the first bytes of some arguments.
type truncated struct {
	args rpc.Encodable
	n    int
}

func (tr truncated) Encode(e *xdr.Encoder) {
	var all xdr.Encoder
	tr.args.Encode(&all)
	e.Fixed(all.Bytes()[:min(tr.n, len(all.Bytes()))&^3])
}

// Every procedure's arguments, cut off at each word: GARBAGE_ARGS, and nothing happens.
func TestTruncatedArguments(t *testing.T) {
	s := startServer(t, "rw,no_root_squash,insecure,async")
	c := s.client(t)
	root := c.Mount(t, s.dir)
	nfscall.Must(t, os.WriteFile(filepath.Join(s.dir, "x"), []byte("data"), 0o644))
	before := tree(t, s.dir)
	for name, call := range callsOn(root) {
		var all xdr.Encoder
		call.args.Encode(&all)
		for n := 0; n < all.Len(); n += 4 {
			if err := c.NFS(call.proc, truncated{call.args, n}, nil); !nfscall.Garbage(err) {
				t.Errorf("%s cut off at %d of %d bytes: %v, want GARBAGE_ARGS", name, n, all.Len(), err)
			}
		}
	}
	// Discriminants that the types do not have.
	for name, args := range map[string]struct {
		proc uint32
		args nfscall.Words
	}{
		"createmode 3":  {wire3.NFSPROC3_CREATE, append(handleWords(root), 1, 'n'<<24, 3, 0, 0)},
		"a bool of 2":   {wire3.NFSPROC3_SETATTR, append(handleWords(root), 2, 0, 0, 0, 0, 0, 0, 0)},
		"time_how 3":    {wire3.NFSPROC3_SETATTR, append(handleWords(root), 0, 0, 0, 0, 3, 0, 0)},
		"stable_how 3":  {wire3.NFSPROC3_WRITE, append(handleWords(root), 0, 0, 0, 3, 0)},
		"ftype3 of 8":   {wire3.NFSPROC3_MKNOD, append(handleWords(root), 1, 'n'<<24, 8)},
		"a huge string": {wire3.NFSPROC3_LOOKUP, append(handleWords(root), math.MaxUint32, 0)},
		"a huge handle": {wire3.NFSPROC3_GETATTR, nfscall.Words{math.MaxUint32, 0, 0}},
	} {
		if err := c.NFS(args.proc, args.args, nil); !nfscall.Garbage(err) {
			t.Errorf("%s: %v, want GARBAGE_ARGS", name, err)
		}
	}
	if after := tree(t, s.dir); after != before {
		t.Errorf("something was changed:\n%s\n%s", before, after)
	}
	c.WantStatus(t, "GETATTR afterwards", wire3.NFSPROC3_GETATTR, &wire3.GETATTR3args{Object: nfscall.FH(root)}, wire3.NFS3_OK)
}

// handleWords is a handle as words; its length is a multiple of four, or padded.
func handleWords(h []byte) nfscall.Words {
	w := nfscall.Words{uint32(len(h))}
	for i := 0; i < len(h); i += 4 {
		var v uint32
		for k := range 4 {
			v <<= 8
			if i+k < len(h) {
				v |= uint32(h[i+k])
			}
		}
		w = append(w, v)
	}
	return w
}

// A read-only export refuses every change, and its refusals carry the
// attributes of what would have been changed.
func TestReadOnlyExport(t *testing.T) {
	s := startServer(t, "ro,no_root_squash,insecure")
	nfscall.Must(t, os.WriteFile(filepath.Join(s.dir, "x"), []byte("data"), 0o644))
	nfscall.Must(t, os.Mkdir(filepath.Join(s.dir, "d"), 0o755))
	c := s.client(t)
	root := c.Mount(t, s.dir)
	file := c.Lookup(t, root, "x")
	fsid := c.Getattr(t, root).Fsid
	before := tree(t, s.dir)
	dirAttr, fileAttr := wire{}.fattr(statOf(t, s.dir), fsid), wire{}.fattr(statOf(t, filepath.Join(s.dir, "x")), fsid)
	calls := namedCalls(root, file, "n")
	calls["REMOVE"] = struct {
		proc uint32
		args rpc.Encodable
	}{wire3.NFSPROC3_REMOVE, &wire3.REMOVE3args{Object: nfscall.Dirop(root, "x")}}
	calls["RMDIR"] = struct {
		proc uint32
		args rpc.Encodable
	}{wire3.NFSPROC3_RMDIR, &wire3.RMDIR3args{Object: nfscall.Dirop(root, "d")}}
	calls["RENAME from"] = struct {
		proc uint32
		args rpc.Encodable
	}{wire3.NFSPROC3_RENAME, &wire3.RENAME3args{From: nfscall.Dirop(root, "x"), To: nfscall.Dirop(root, "z")}}
	for name, call := range callsOn(file) {
		if name == "SETATTR" || name == "WRITE" {
			calls[name] = call
		}
	}
	for name, call := range calls {
		r := c.Raw(t, call.proc, call.args)
		want := dirAttr
		if name == "SETATTR" || name == "WRITE" {
			want = fileAttr
		}
		if st := wire3.Nfsstat3(binary.BigEndian.Uint32(r)); st != wire3.NFS3ERR_ROFS {
			t.Errorf("%s on a read-only export: %v", name, st)
		}
		if !bytes.Contains(r, want) {
			t.Errorf("%s: the refusal has no attributes of the object: % x", name, r)
		}
	}
	// What a write-minded ACCESS asks for is not granted.
	var acc wire3.ACCESS3res
	c.Do(t, wire3.NFSPROC3_ACCESS, &wire3.ACCESS3args{Object: nfscall.FH(root), Access: 0x3f}, &acc)
	if acc.Status != wire3.NFS3_OK || acc.Resok.Access != wire3.ACCESS3_READ|wire3.ACCESS3_LOOKUP {
		t.Errorf("ACCESS on a read-only export: %v, %#x", acc.Status, acc.Resok.Access)
	}
	if after := tree(t, s.dir); after != before {
		t.Errorf("something was changed:\n%s\n%s", before, after)
	}
}
