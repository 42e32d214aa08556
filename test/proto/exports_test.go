package proto

import (
	"fmt"
	"net"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"sluice/exports"
	"sluice/rpc"
	"sluice/test/nfscall"
	"sluice/xdr/mount3"
	wire3 "sluice/xdr/nfs3"
)

// dialFrom connects as root from an address of the client's.
func dialFrom(t testing.TB, addr, from string) *nfscall.Client {
	t.Helper()
	la, err := net.ResolveTCPAddr("tcp", from)
	nfscall.Must(t, err)
	d := net.Dialer{LocalAddr: la, Timeout: 5 * time.Second}
	nc, err := d.Dial("tcp", addr)
	nfscall.Must(t, err)
	nc.(*net.TCPConn).SetLinger(0) // the port is free again at once
	nc.SetDeadline(time.Now().Add(time.Minute))
	c := rpc.NewClient(nc)
	t.Cleanup(func() { c.Close() })
	return &nfscall.Client{Client: c, Cred: nfscall.Root()}
}

// Exports change under a client that has them mounted.
func TestReload(t *testing.T) {
	i := serve(t, "rw,insecure,async,no_root_squash")
	c, root := i.root(t)
	file := c.Create(t, root, "f", 0o644)
	line := func(options string) string { return fmt.Sprintf("%s *(%s)\n", exports.Quote(i.dir), options) }

	i.reload(t, line("ro,insecure,no_root_squash"))
	c.WantStatus(t, "WRITE once read-only", wire3.NFSPROC3_WRITE, &wire3.WRITE3args{File: nfscall.FH(file), Count: 1, Data: []byte("x")}, wire3.NFS3ERR_ROFS)
	c.WantStatus(t, "READ once read-only", wire3.NFSPROC3_READ, &wire3.READ3args{File: nfscall.FH(file), Count: 1}, wire3.NFS3_OK)

	i.reload(t, "# nothing\n")
	c.WantStatus(t, "GETATTR once withdrawn", wire3.NFSPROC3_GETATTR, &wire3.GETATTR3args{Object: nfscall.FH(file)}, wire3.NFS3ERR_STALE)
	if res, err := c.Mnt(i.dir); err != nil || res.FhsStatus != mount3.MNT3ERR_ACCES {
		t.Errorf("MNT once withdrawn: %v, %v", res.FhsStatus, err)
	}

	i.reload(t, line("rw,insecure,async,no_root_squash"))
	c.Write(t, file, 0, []byte("again"))

	i.write(t, "/broken *(no_such_option)\n")
	if _, err := i.srv.Reload(); err == nil {
		t.Error("a broken exports file was taken")
	}
	c.Write(t, file, 0, []byte("still"))
}

// Mounts below an export are shown with crossmnt, as file systems of their own;
// without it clients see what lies underneath.
func TestMountsBelow(t *testing.T) {
	i := serve(t, "rw,insecure,async,no_root_squash,crossmnt")
	for _, d := range []string{"m", "m2"} {
		nfscall.Must(t, os.Mkdir(i.path(d), 0o755))
	}
	nfscall.Must(t, os.WriteFile(i.path("m", "under"), []byte("under"), 0o644))
	mount := func(d string) {
		nfscall.Must(t, unix.Mount("tmpfs", i.path(d), "tmpfs", 0, "mode=755"))
		t.Cleanup(func() { unix.Unmount(i.path(d), unix.MNT_DETACH) })
	}
	mount("m")
	nfscall.Must(t, os.WriteFile(i.path("m", "inside"), []byte("inside"), 0o644))
	c, root := i.root(t)
	m := c.Lookup(t, root, "m")
	top, below := c.Getattr(t, root), c.Getattr(t, m)
	if top.Fsid == below.Fsid {
		t.Error("the mount below has the export's fsid")
	}
	file := c.Lookup(t, m, "inside")
	if data, _ := c.Read(t, file, 0, 10); string(data) != "inside" {
		t.Errorf("read %q", data)
	}
	if a := c.Getattr(t, file); a.Fsid != below.Fsid {
		t.Error("a file of the mount has another fsid than its root")
	}
	c.WantStatus(t, "RENAME across", wire3.NFSPROC3_RENAME, &wire3.RENAME3args{From: nfscall.Dirop(m, "inside"), To: nfscall.Dirop(root, "x")}, wire3.NFS3ERR_XDEV)
	c.WantStatus(t, "LINK across", wire3.NFSPROC3_LINK, &wire3.LINK3args{File: nfscall.FH(file), Link: nfscall.Dirop(root, "x")}, wire3.NFS3ERR_XDEV)
	c.Create(t, m, "made", 0o644)
	if _, err := os.Stat(i.path("m", "made")); err != nil {
		t.Error(err)
	}
	if up := c.Lookup(t, m, ".."); c.Getattr(t, up).Fileid != top.Fileid || c.Getattr(t, up).Fsid != top.Fsid {
		t.Error("\"..\" of the mount is not the directory it is mounted in")
	}
	// READDIRPLUS must not give the mount point's own handle for the mount (or the reverse).
	var rp wire3.READDIRPLUS3res
	c.Do(t, wire3.NFSPROC3_READDIRPLUS, &wire3.READDIRPLUS3args{Dir: nfscall.FH(root), Dircount: 8192, Maxcount: 8192}, &rp)
	for _, e := range rp.Resok.Reply.Entries {
		if string(e.Name) != "m" {
			continue
		}
		if e.NameAttributes.AttributesFollow && e.NameAttributes.Attributes.Fsid == top.Fsid {
			t.Error("READDIRPLUS gives the attributes of what lies under the mount")
		}
		if e.NameHandle.HandleFollows && string(e.NameHandle.Handle.Data) != string(m) {
			t.Error("READDIRPLUS gives another handle than LOOKUP")
		}
	}
	// Mounted while the server runs.
	mount("m2")
	if a := c.Getattr(t, c.Lookup(t, root, "m2")); a.Fsid == top.Fsid || a.Fsid == below.Fsid {
		t.Error("a mount made while the server runs has no fsid of its own")
	}
	// REMOVE and RMDIR of a mount point.
	switch st := c.Status(t, wire3.NFSPROC3_RMDIR, &wire3.RMDIR3args{Object: nfscall.Dirop(root, "m")}); st {
	case wire3.NFS3ERR_ACCES, wire3.NFS3ERR_EXIST, wire3.NFS3ERR_NOTEMPTY, wire3.NFS3ERR_INVAL, wire3.NFS3ERR_IO:
	default:
		t.Errorf("RMDIR of a mount point: %v", st)
	}

	i.reload(t, fmt.Sprintf("%s *(rw,insecure,async,no_root_squash)\n", exports.Quote(i.dir)))
	hidden := c.Lookup(t, root, "m")
	if a := c.Getattr(t, hidden); a.Fsid != top.Fsid {
		t.Error("without crossmnt the mount is shown")
	}
	if data, _ := c.Read(t, c.Lookup(t, hidden, "under"), 0, 10); string(data) != "under" {
		t.Errorf("without crossmnt, read %q", data)
	}
	c.WantStatus(t, "GETATTR of a handle of the mount", wire3.NFSPROC3_GETATTR, &wire3.GETATTR3args{Object: nfscall.FH(file)}, wire3.NFS3ERR_STALE)
}

// mp=PATH: the export is there while something is mounted on that path, which
// need not be the export's own.
func TestMountPointElsewhere(t *testing.T) {
	other := t.TempDir()
	dir := t.TempDir()
	i := serveTable(t, dir, fmt.Sprintf("%s *(rw,insecure,async,no_root_squash,mp=%s)\n", exports.Quote(dir), exports.Quote(other)))
	c := i.client(t, nfscall.Root())
	mnt := func(when string, want mount3.Mountstat3) {
		t.Helper()
		if res, err := c.Mnt(dir); err != nil || res.FhsStatus != want {
			t.Errorf("MNT %s: %v, %v, want %v", when, res.FhsStatus, err, want)
		}
	}
	mnt("before anything is mounted", mount3.MNT3ERR_NOENT)
	nfscall.Must(t, unix.Mount("tmpfs", other, "tmpfs", 0, ""))
	defer unix.Unmount(other, unix.MNT_DETACH)
	mnt("with the mount", mount3.MNT3_OK)
}

// @netgroup, asked of getent, decides who may mount and with which options.
func TestNetgroupOnTheWire(t *testing.T) {
	bin, dir := t.TempDir(), t.TempDir()
	script := "#!/bin/sh\n[ \"$*\" = 'netgroup trusted' ] && echo 'trusted (127.0.0.2,,)'\n"
	nfscall.Must(t, os.WriteFile(bin+"/getent", []byte(script), 0o755))
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	i := serveTable(t, dir, fmt.Sprintf("%s @trusted(rw,insecure,async,no_root_squash)\n", exports.Quote(dir)))
	member, stranger := dialFrom(t, i.addr, "127.0.0.2:0"), dialFrom(t, i.addr, "127.0.0.3:0")
	root := member.Mount(t, dir)
	member.Create(t, root, "f", 0o644)
	if res, err := stranger.Mnt(dir); err != nil || res.FhsStatus != mount3.MNT3ERR_ACCES {
		t.Errorf("MNT by a host outside the netgroup: %v, %v", res.FhsStatus, err)
	}
	stranger.WantStatus(t, "GETATTR by a host outside the netgroup", wire3.NFSPROC3_GETATTR, &wire3.GETATTR3args{Object: nfscall.FH(root)}, wire3.NFS3ERR_STALE)
}
