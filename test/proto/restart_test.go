package proto

import (
	"bytes"
	"fmt"
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"sluice/test/nfscall"
	wire3 "sluice/xdr/nfs3"
)

// Handles outlive restart and rename; verifiers do not.
func TestRestart(t *testing.T) {
	i := serve(t, "rw,insecure,async,no_root_squash")
	c, root := i.root(t)
	nfscall.Must(t, os.Mkdir(i.path("d"), 0o755))
	dir := c.Lookup(t, root, "d")
	file := c.Create(t, dir, "f", 0o644)
	c.Write(t, file, 0, []byte("before"))
	verf := func() (v [2][8]byte) {
		c, _ := i.root(t)
		var w wire3.WRITE3res
		c.Do(t, wire3.NFSPROC3_WRITE, &wire3.WRITE3args{File: nfscall.FH(file), Count: 6, Data: []byte("before")}, &w)
		var m wire3.COMMIT3res
		c.Do(t, wire3.NFSPROC3_COMMIT, &wire3.COMMIT3args{File: nfscall.FH(file)}, &m)
		if w.Status != wire3.NFS3_OK || m.Status != wire3.NFS3_OK || w.Resok.Verf != m.Resok.Verf {
			t.Errorf("WRITE %v %x, COMMIT %v %x", w.Status, w.Resok.Verf, m.Status, m.Resok.Verf)
		}
		return [2][8]byte{w.Resok.Verf, m.Resok.Verf}
	}
	seen := map[[2][8]byte]bool{verf(): true}
	for n := range 3 { // within one second
		i.restart(t)
		v := verf()
		if seen[v] {
			t.Errorf("restart %d: the write verifier is one of before", n)
		}
		seen[v] = true
	}
	nfscall.Must(t, os.Rename(i.path("d"), i.path("e")))
	c, again := i.root(t)
	if !bytes.Equal(root, again) {
		t.Errorf("the export's handle was %x and is %x", root, again)
	}
	if data, eof := c.Read(t, file, 0, 100); string(data) != "before" || !eof {
		t.Errorf("read %q through a handle of before", data)
	}
	c.Create(t, dir, "g", 0o644)
	if _, err := os.Stat(i.path("e", "g")); err != nil {
		t.Error(err)
	}
	nfscall.Must(t, os.RemoveAll(i.path("e")))
	for what, h := range map[string][]byte{"a removed file": file, "a removed directory": dir} {
		c.WantStatus(t, "GETATTR of "+what, wire3.NFSPROC3_GETATTR, &wire3.GETATTR3args{Object: nfscall.FH(h)}, wire3.NFS3ERR_STALE)
	}
	i.restart(t)
	c, _ = i.root(t)
	c.WantStatus(t, "GETATTR of a removed file after a restart", wire3.NFSPROC3_GETATTR, &wire3.GETATTR3args{Object: nfscall.FH(file)}, wire3.NFS3ERR_STALE)
	c.WantStatus(t, "READ of a removed file after a restart", wire3.NFSPROC3_READ, &wire3.READ3args{File: nfscall.FH(file), Count: 1}, wire3.NFS3ERR_STALE)
}

// The name that a removed file had does not revive its handle.
func TestReusedInode(t *testing.T) {
	i := serve(t, "rw,insecure,async,no_root_squash")
	c, root := i.root(t)
	for n := range 50 {
		name := fmt.Sprint("f", n)
		old := c.Create(t, root, name, 0o600)
		c.Write(t, old, 0, []byte("secret"))
		c.WantStatus(t, "REMOVE", wire3.NFSPROC3_REMOVE, &wire3.REMOVE3args{Object: nfscall.Dirop(root, name)}, wire3.NFS3_OK)
		next := c.Create(t, root, name, 0o600)
		c.WantStatus(t, "GETATTR of the removed file", wire3.NFSPROC3_GETATTR, &wire3.GETATTR3args{Object: nfscall.FH(old)}, wire3.NFS3ERR_STALE)
		c.WantStatus(t, "WRITE to the removed file", wire3.NFSPROC3_WRITE, &wire3.WRITE3args{File: nfscall.FH(old), Count: 1, Data: []byte("x")}, wire3.NFS3ERR_STALE)
		if data, _ := c.Read(t, next, 0, 100); len(data) != 0 {
			t.Fatalf("the new file holds %q", data)
		}
	}
}

// EXCLUSIVE create: the same verifier finds its file, after a restart too;
// another one does not; and what the client sets afterwards ends the matter.
func TestExclusiveCreate(t *testing.T) {
	i := serve(t, "rw,insecure,async,no_root_squash")
	c, root := i.root(t)
	try := func(name string, verf string) (wire3.Nfsstat3, []byte) {
		t.Helper()
		args := &wire3.CREATE3args{Where: nfscall.Dirop(root, name), How: wire3.Createhow3{Mode: wire3.EXCLUSIVE}}
		copy(args.How.Verf[:], verf)
		var res wire3.CREATE3res
		c.Do(t, wire3.NFSPROC3_CREATE, args, &res)
		return res.Status, res.Resok.Obj.Handle.Data
	}
	for _, verf := range []string{"12345678", "\x00\x00\x00\x00\x00\x00\x00\x00", "\xff\xff\xff\xff\xff\xff\xff\xff", "\x80\x00\x00\x01\x7f\xff\xff\xff"} {
		name := fmt.Sprintf("x%x", verf)
		st, first := try(name, verf)
		if st != wire3.NFS3_OK {
			t.Fatalf("%x: %v", verf, st)
		}
		if st, h := try(name, verf); st != wire3.NFS3_OK || !bytes.Equal(h, first) {
			t.Errorf("%x again: %v, another handle: %v", verf, st, !bytes.Equal(h, first))
		}
		if st, _ := try(name, "other!!!"); st != wire3.NFS3ERR_EXIST {
			t.Errorf("%x, then another verifier: %v, want EXIST", verf, st)
		}
		i.restart(t)
		c, _ = i.root(t)
		if st, h := try(name, verf); st != wire3.NFS3_OK || !bytes.Equal(h, first) {
			t.Errorf("%x after a restart: %v", verf, st)
		}
		// The client's next call gives the file its attributes (RFC 1813, 3.3.8).
		args := &wire3.SETATTR3args{Object: nfscall.FH(first), NewAttributes: nfscall.Mode(0o640)}
		args.NewAttributes.Atime.SetIt, args.NewAttributes.Mtime.SetIt = wire3.SET_TO_SERVER_TIME, wire3.SET_TO_SERVER_TIME
		c.WantStatus(t, "SETATTR", wire3.NFSPROC3_SETATTR, args, wire3.NFS3_OK)
		c.Write(t, first, 0, []byte("data"))
		if st, _ := try(name, verf); st != wire3.NFS3ERR_EXIST {
			t.Errorf("%x once the file is in use: %v, want EXIST", verf, st)
		}
	}
	nfscall.Must(t, os.WriteFile(i.path("old"), nil, 0o644))
	if st, _ := try("old", "12345678"); st != wire3.NFS3ERR_EXIST {
		t.Errorf("a name that was there: %v, want EXIST", st)
	}
}

// UNCHECKED takes the file that is there, truncates it if asked, and leaves it otherwise.
func TestUncheckedCreate(t *testing.T) {
	i := serve(t, "rw,insecure,async,no_root_squash")
	c, root := i.root(t)
	nfscall.Must(t, os.WriteFile(i.path("f"), []byte("content"), 0o600))
	args := &wire3.CREATE3args{Where: nfscall.Dirop(root, "f"), How: wire3.Createhow3{Mode: wire3.UNCHECKED, ObjAttributes: nfscall.Mode(0o777)}}
	c.WantStatus(t, "CREATE over a file", wire3.NFSPROC3_CREATE, args, wire3.NFS3_OK)
	var st unix.Stat_t
	nfscall.Must(t, unix.Stat(i.path("f"), &st))
	if st.Size != 7 || st.Mode&0o777 != 0o600 {
		t.Errorf("CREATE UNCHECKED left size %d, mode %o", st.Size, st.Mode)
	}
	args.How.ObjAttributes.Size = wire3.SetSize3{SetIt: true}
	c.WantStatus(t, "CREATE over a file with size 0", wire3.NFSPROC3_CREATE, args, wire3.NFS3_OK)
	nfscall.Must(t, unix.Stat(i.path("f"), &st))
	if st.Size != 0 || st.Mode&0o777 != 0o600 {
		t.Errorf("CREATE UNCHECKED with size 0 left size %d, mode %o", st.Size, st.Mode)
	}
	args.Where = nfscall.Dirop(root, "new")
	args.How.ObjAttributes.Size.Size = 1000
	args.How.ObjAttributes.Uid = wire3.SetUid3{SetIt: true, Uid: 55}
	c.WantStatus(t, "CREATE with a size and an owner", wire3.NFSPROC3_CREATE, args, wire3.NFS3_OK)
	nfscall.Must(t, unix.Stat(i.path("new"), &st))
	if st.Size != 1000 || st.Mode&0o777 != 0o777 || st.Uid != 55 {
		t.Errorf("CREATE made size %d, mode %o, uid %d", st.Size, st.Mode, st.Uid)
	}
}

// WRITE says exactly the stability that was asked for. The RFC would let it
// promise more (RFC 1813, 3.3.7); this server does no more than it was asked.
func TestStableHow(t *testing.T) {
	for _, options := range []string{"rw,insecure,sync,no_root_squash", "rw,insecure,async,no_root_squash"} {
		i := serve(t, options)
		c, root := i.root(t)
		file := c.Create(t, root, "f", 0o644)
		for _, how := range []wire3.StableHow{wire3.UNSTABLE, wire3.DATA_SYNC, wire3.FILE_SYNC} {
			for _, size := range []int{1, 4096, 70000} {
				data := bytes.Repeat([]byte{byte(size) | 1}, size)
				var res wire3.WRITE3res
				c.Do(t, wire3.NFSPROC3_WRITE, &wire3.WRITE3args{File: nfscall.FH(file), Offset: 13, Count: uint32(size), Stable: how, Data: data}, &res)
				if res.Status != wire3.NFS3_OK || int(res.Resok.Count) != size || res.Resok.Committed != how {
					t.Errorf("%s: WRITE of %d %v: %v, %d, %v", options, size, how, res.Status, res.Resok.Count, res.Resok.Committed)
				}
				if got, err := os.ReadFile(i.path("f")); err != nil || len(got) < 13+size || !bytes.Equal(got[13:13+size], data) {
					t.Errorf("%s: WRITE of %d %v is not in the file", options, size, how)
				}
			}
		}
	}
}

// Offsets have 64 bits, and what lies between two writes is a hole.
func TestSparse(t *testing.T) {
	i := serve(t, "rw,insecure,async,no_root_squash")
	c, root := i.root(t)
	file := c.Create(t, root, "f", 0o644)
	offsets := []uint64{0, 1<<31 - 7, 1<<32 - 3, 1<<32 + 111, 1 << 40}
	for _, off := range offsets {
		c.Write(t, file, off, []byte(fmt.Sprintf("at %013x", off)))
	}
	for _, off := range offsets {
		if data, _ := c.Read(t, file, off, 16); string(data) != fmt.Sprintf("at %013x", off) {
			t.Errorf("at %#x: %q", off, data)
		}
	}
	if data, eof := c.Read(t, file, 1<<39, 4096); len(data) != 4096 || len(bytes.Trim(data, "\x00")) != 0 || eof {
		t.Errorf("the hole: %d bytes, eof %v", len(data), eof)
	}
	a := c.Getattr(t, file)
	if a.Size != 1<<40+16 || a.Used > 1<<20 {
		t.Errorf("size %d, used %d", a.Size, a.Used)
	}
}
