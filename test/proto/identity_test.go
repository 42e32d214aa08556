package proto

import (
	"fmt"
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"sluice/exports"
	"sluice/rpc"
	"sluice/test/nfscall"
	wire3 "sluice/xdr/nfs3"
)

func owner(t testing.TB, path string) string {
	t.Helper()
	var st unix.Stat_t
	nfscall.Must(t, unix.Lstat(path, &st))
	return fmt.Sprintf("%d:%d", st.Uid, st.Gid)
}

// Files belong to whom the export says the caller is.
func TestSquash(t *testing.T) {
	for _, x := range []struct {
		options string
		cred    rpc.Cred
		want    string
	}{
		{"rw", nfscall.Root(), "65534:65534"}, // root_squash by default
		{"rw,no_root_squash", nfscall.Root(), "0:0"},
		{"rw", nfscall.User(1000, 1001), "1000:1001"},
		{"rw,all_squash", nfscall.User(1000, 1001), "65534:65534"},
		{"rw,all_squash,anonuid=77,anongid=78", nfscall.User(1000, 1001), "77:78"},
		{"rw,anonuid=77,anongid=78", nfscall.Root(), "77:78"},
		{"rw,sec=none:sys", rpc.Cred{Flavor: rpc.FlavorNone}, "65534:65534"},
	} {
		i := serve(t, x.options+",insecure,async")
		nfscall.Must(t, os.Chmod(i.dir, 0o777))
		c := i.client(t, x.cred)
		c.Create(t, c.Mount(t, i.dir), "f", 0o644)
		if got := owner(t, i.path("f")); got != x.want {
			t.Errorf("%s: a file of uid %d belongs to %s, want %s", x.options, x.cred.UID, got, x.want)
		}
	}
}

// AUTH_NONE where the export does not have it, and AUTH_SYS where it has not.
func TestFlavors(t *testing.T) {
	i := serve(t, "rw,insecure,async,no_root_squash")
	_, root := i.root(t)
	none := i.client(t, rpc.Cred{Flavor: rpc.FlavorNone})
	if st := none.Status(t, wire3.NFSPROC3_READDIR, &wire3.READDIR3args{Dir: nfscall.FH(root), Count: 4096}); st != wire3.NFS3ERR_ACCES {
		t.Errorf("READDIR with AUTH_NONE on a sec=sys export: %v", st)
	}
	i = serve(t, "rw,insecure,async,sec=none")
	c, root := i.root(t)
	if st := c.Status(t, wire3.NFSPROC3_READDIR, &wire3.READDIR3args{Dir: nfscall.FH(root), Count: 4096}); st != wire3.NFS3ERR_ACCES {
		t.Errorf("READDIR with AUTH_SYS on a sec=none export: %v", st)
	}
}

// The kernel decides, under the caller's ids and all sixteen groups.
func TestPermissions(t *testing.T) {
	i := serve(t, "rw,insecure,async,no_root_squash")
	for name, x := range map[string]struct {
		uid, gid int
		mode     os.FileMode
	}{
		"mine": {1000, 1000, 0o600}, "group": {0, 2000, 0o060}, "others": {0, 0, 0o006}, "roots": {0, 0, 0o600}, "exec": {0, 0, 0o711},
	} {
		nfscall.Must(t, os.WriteFile(i.path(name), []byte("data"), 0o600))
		nfscall.Must(t, os.Chown(i.path(name), x.uid, x.gid))
		nfscall.Must(t, os.Chmod(i.path(name), x.mode))
	}
	nfscall.Must(t, os.Mkdir(i.path("closed"), 0o700))
	nfscall.Must(t, os.WriteFile(i.path("closed", "f"), []byte("secret"), 0o666))
	rootClient, root := i.root(t)
	inside := rootClient.Lookup(t, rootClient.Lookup(t, root, "closed"), "f")

	groups := make([]uint32, 16)
	for k := range groups {
		groups[k] = uint32(3000 + k)
	}
	last := append([]uint32(nil), groups...)
	last[15] = 2000
	const r, w, rw = wire3.ACCESS3_READ, wire3.ACCESS3_MODIFY | wire3.ACCESS3_EXTEND, wire3.ACCESS3_READ | wire3.ACCESS3_MODIFY | wire3.ACCESS3_EXTEND
	for _, x := range []struct {
		who  string
		cred rpc.Cred
		file string
		want uint32
	}{
		{"the owner", nfscall.User(1000, 1000), "mine", rw},
		{"another user", nfscall.User(1001, 1000), "mine", 0},
		{"the group by gid", nfscall.User(1001, 2000), "group", rw},
		{"the group by the 16th group", nfscall.User(1001, 1001, last...), "group", rw},
		{"other groups", nfscall.User(1001, 1001, groups...), "group", 0},
		{"anyone", nfscall.User(1001, 1001), "others", rw},
		{"a user", nfscall.User(1001, 1001), "roots", 0},
		{"root", nfscall.Root(), "roots", rw},
		{"a user, execute only", nfscall.User(1001, 1001), "exec", wire3.ACCESS3_EXECUTE},
	} {
		c := rootClient.As(x.cred)
		file := rootClient.Lookup(t, root, x.file)
		var acc wire3.ACCESS3res
		c.Do(t, wire3.NFSPROC3_ACCESS, &wire3.ACCESS3args{Object: nfscall.FH(file), Access: rw | wire3.ACCESS3_EXECUTE}, &acc)
		if acc.Status != wire3.NFS3_OK || acc.Resok.Access != x.want {
			t.Errorf("ACCESS by %s to %s: %v, %#x, want %#x", x.who, x.file, acc.Status, acc.Resok.Access, x.want)
		}
		want := func(bits uint32) wire3.Nfsstat3 {
			if x.want&bits != 0 {
				return wire3.NFS3_OK
			}
			return wire3.NFS3ERR_ACCES
		}
		// Like the kernel's server, a READ is for those who may execute, too.
		c.WantStatus(t, "READ by "+x.who+" of "+x.file, wire3.NFSPROC3_READ, &wire3.READ3args{File: nfscall.FH(file), Count: 4}, want(r|wire3.ACCESS3_EXECUTE))
		c.WantStatus(t, "WRITE by "+x.who+" to "+x.file, wire3.NFSPROC3_WRITE, &wire3.WRITE3args{File: nfscall.FH(file), Count: 4, Data: []byte("data")}, want(w))
	}

	u := rootClient.As(nfscall.User(1001, 1001))
	u.WantStatus(t, "LOOKUP through a closed directory", wire3.NFSPROC3_LOOKUP,
		&wire3.LOOKUP3args{What: nfscall.Dirop(rootClient.Lookup(t, root, "closed"), "f")}, wire3.NFS3ERR_ACCES)
	u.WantStatus(t, "READDIR of a closed directory", wire3.NFSPROC3_READDIR,
		&wire3.READDIR3args{Dir: nfscall.FH(rootClient.Lookup(t, root, "closed")), Count: 4096}, wire3.NFS3ERR_ACCES)
	u.WantStatus(t, "CREATE in a directory of root", wire3.NFSPROC3_CREATE, &wire3.CREATE3args{Where: nfscall.Dirop(root, "n")}, wire3.NFS3ERR_ACCES)
	u.WantStatus(t, "chown by a user", wire3.NFSPROC3_SETATTR, &wire3.SETATTR3args{Object: nfscall.FH(rootClient.Lookup(t, root, "others")),
		NewAttributes: wire3.Sattr3{Uid: wire3.SetUid3{SetIt: true, Uid: 1001}}}, wire3.NFS3ERR_PERM)
	u.WantStatus(t, "chmod of another's file", wire3.NFSPROC3_SETATTR, &wire3.SETATTR3args{Object: nfscall.FH(rootClient.Lookup(t, root, "others")),
		NewAttributes: nfscall.Mode(0o777)}, wire3.NFS3ERR_PERM)
	// A handle is a capability to the file, as with every NFS server, but its own mode still counts.
	if data, _ := u.Read(t, inside, 0, 10); string(data) != "secret" {
		t.Errorf("READ by handle: %q", data)
	}
	// A permission that is taken away ends at once.
	mine := rootClient.Lookup(t, root, "mine")
	m := rootClient.As(nfscall.User(1000, 1000))
	m.Write(t, mine, 0, []byte("mine"))
	nfscall.Must(t, os.Chown(i.path("mine"), 1005, 1005))
	m.WantStatus(t, "READ after a chown", wire3.NFSPROC3_READ, &wire3.READ3args{File: nfscall.FH(mine), Count: 4}, wire3.NFS3ERR_ACCES)
	m.WantStatus(t, "WRITE after a chown", wire3.NFSPROC3_WRITE, &wire3.WRITE3args{File: nfscall.FH(mine), Count: 4, Data: []byte("evil")}, wire3.NFS3ERR_ACCES)
	if data, err := os.ReadFile(i.path("mine")); string(data) != "mine" {
		t.Errorf("the file holds %q, %v", data, err)
	}
}

// A file that its owner made unwritable is still the owner's to write, as a
// process that had it open would: NFSv3 has no open (RFC 1813, 4.4).
func TestOwnerOverride(t *testing.T) {
	i := serve(t, "rw,insecure,async,no_root_squash")
	nfscall.Must(t, os.Chmod(i.dir, 0o777))
	c := i.client(t, nfscall.User(1000, 1000))
	root := c.Mount(t, i.dir)
	file := c.Create(t, root, "f", 0o444)
	c.Write(t, file, 0, []byte("by the owner"))
	if data, _ := c.Read(t, file, 0, 100); string(data) != "by the owner" {
		t.Errorf("read %q", data)
	}
	c.As(nfscall.User(1001, 1000)).WantStatus(t, "WRITE by another", wire3.NFSPROC3_WRITE,
		&wire3.WRITE3args{File: nfscall.FH(file), Count: 4, Data: []byte("evil")}, wire3.NFS3ERR_ACCES)
}

// Set-user-ID goes when somebody else writes, as on a local file system.
func TestSetIDBitsGoOnWrite(t *testing.T) {
	i := serve(t, "rw,insecure,async,no_root_squash")
	nfscall.Must(t, os.WriteFile(i.path("f"), []byte("#!"), 0o755))
	nfscall.Must(t, os.Chmod(i.path("f"), 0o777|os.ModeSetuid|os.ModeSetgid))
	c, root := i.root(t)
	u := c.As(nfscall.User(1000, 1000))
	u.Write(t, c.Lookup(t, root, "f"), 0, []byte("x"))
	var st unix.Stat_t
	nfscall.Must(t, unix.Stat(i.path("f"), &st))
	if st.Mode&(unix.S_ISUID|unix.S_ISGID) != 0 {
		t.Errorf("after a WRITE by another user the mode is %o", st.Mode)
	}
}

// A secure export is for clients with reserved ports.
func TestSecure(t *testing.T) {
	i := serve(t, "rw,async,no_root_squash")
	c := i.client(t, nfscall.Root())
	res, err := c.Mnt(i.dir)
	nfscall.Must(t, err)
	if res.FhsStatus == 0 {
		t.Errorf("MNT from a high port on a secure export: %v", res.FhsStatus)
	}
	reserved := dialFrom(t, i.addr, "127.0.0.1:997")
	root := reserved.Mount(t, i.dir)
	reserved.Create(t, root, "f", 0o644)
	// The kernel's server: PERM, too (nfsd_setuser_and_check_port).
	c.WantStatus(t, "READDIR from a high port on a secure export", wire3.NFSPROC3_READDIR, &wire3.READDIR3args{Dir: nfscall.FH(root), Count: 4096}, wire3.NFS3ERR_PERM)
}

// Which options a client gets is decided per export and per client address.
func TestOptionsPerClient(t *testing.T) {
	dir := t.TempDir()
	nfscall.Must(t, os.Chmod(dir, 0o777))
	for _, d := range []string{"a", "b"} {
		nfscall.Must(t, os.Mkdir(dir+"/"+d, 0o777))
		nfscall.Must(t, os.Chmod(dir+"/"+d, 0o777))
	}
	q := exports.Quote
	i := serveTable(t, dir, fmt.Sprintf("%s 127.0.0.1(ro,insecure) 127.0.0.0/8(rw,insecure,all_squash,anonuid=50,anongid=50,async)\n%s 127.0.0.2(rw,insecure,no_root_squash,async)\n",
		q(dir+"/a"), q(dir+"/b")))
	one, two := dialFrom(t, i.addr, "127.0.0.1:0"), dialFrom(t, i.addr, "127.0.0.2:0")
	a := one.Mount(t, dir+"/a")
	one.WantStatus(t, "CREATE by the read-only host", wire3.NFSPROC3_CREATE, &wire3.CREATE3args{Where: nfscall.Dirop(a, "n")}, wire3.NFS3ERR_ROFS)
	two.Create(t, two.Mount(t, dir+"/a"), "n", 0o644)
	if got := owner(t, dir+"/a/n"); got != "50:50" {
		t.Errorf("the file of the squashed network belongs to %s", got)
	}
	b := two.Mount(t, dir+"/b")
	two.Create(t, b, "n", 0o644)
	if got := owner(t, dir+"/b/n"); got != "0:0" {
		t.Errorf("the file of the trusted host belongs to %s", got)
	}
	// A handle of an export that is not for this client.
	one.WantStatus(t, "GETATTR by a client that may not", wire3.NFSPROC3_GETATTR, &wire3.GETATTR3args{Object: nfscall.FH(b)}, wire3.NFS3ERR_STALE)
	one.WantStatus(t, "READDIR by a client that may not", wire3.NFSPROC3_READDIR, &wire3.READDIR3args{Dir: nfscall.FH(b), Count: 4096}, wire3.NFS3ERR_STALE)
	if res, err := one.Mnt(dir + "/b"); err != nil || res.FhsStatus != 13 {
		t.Errorf("MNT by a client that may not: %v, %v", res.FhsStatus, err)
	}
}
