package nfs3

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"net/netip"
	"sluice/exports"
	"sluice/pkg/portmap"
	"sluice/pkg/trace"
	"sluice/rpc"
	"sluice/test/nfscall"
	"sluice/test/testenv"
	"sluice/xdr"
	"sluice/xdr/mount3"
	wire3 "sluice/xdr/nfs3"
)

func mountCall(t testing.TB, c *nfscall.Client, vers, proc uint32, args rpc.Encodable, res rpc.Decodable) {
	t.Helper()
	if err := c.Call(mount3.MOUNT_PROGRAM, vers, proc, &c.Cred, args, res); err != nil {
		t.Fatalf("MOUNT version %d procedure %d: %v", vers, proc, err)
	}
}

func dumpList(t testing.TB, c *nfscall.Client) (out []string) {
	t.Helper()
	var l mount3.Mountlist
	mountCall(t, c, 3, mount3.MOUNTPROC3_DUMP, nil, &l)
	for _, m := range l {
		out = append(out, string(m.MlHostname)+":"+string(m.MlDirectory))
	}
	return out
}

func TestMount(t *testing.T) {
	dir := t.TempDir()
	for _, d := range []string{"pub", "pub/below", "priv", "none", "both"} {
		nfscall.Must(t, os.Mkdir(filepath.Join(dir, d), 0o755))
	}
	nfscall.Must(t, os.WriteFile(filepath.Join(dir, "pub", "file"), nil, 0o644))
	pub := filepath.Join(dir, "pub")
	s := serveExports(t, dir, fmt.Sprintf("%s *(rw,insecure,no_root_squash,async)\n%s 192.0.2.1(ro) 192.0.2.0/24(ro)\n%s *(ro,insecure,async,sec=none)\n%s *(ro,insecure,async,sec=none:sys)\n",
		exports.Quote(pub), exports.Quote(filepath.Join(dir, "priv")), exports.Quote(filepath.Join(dir, "none")), exports.Quote(filepath.Join(dir, "both"))))
	sub := s.bus.Subscribe(256)
	defer sub.Close()
	c := s.client(t)

	for _, x := range []struct {
		path string
		want mount3.Mountstat3
	}{
		{pub, mount3.MNT3_OK},
		{pub + "/", mount3.MNT3_OK},
		{pub + "/below", mount3.MNT3_OK},
		{pub + "//below/../below/.", mount3.MNT3_OK},
		{pub + "/absent", mount3.MNT3ERR_NOENT},
		{pub + "/file", mount3.MNT3_OK}, // Linux mounts single files
		{pub + "/file/x", mount3.MNT3ERR_NOTDIR},
		{filepath.Join(dir, "priv"), mount3.MNT3ERR_ACCES},
		{dir, mount3.MNT3ERR_ACCES},
		{pub + "/../priv", mount3.MNT3ERR_ACCES},
		{"/nowhere", mount3.MNT3ERR_ACCES},
		{"", mount3.MNT3ERR_ACCES}, // "/", as for mountd
		{"relative", mount3.MNT3ERR_NOENT},
		{pub + "\x00", mount3.MNT3ERR_INVAL},
		{pub + "/" + strings.Repeat("n", 300), mount3.MNT3ERR_NAMETOOLONG},
	} {
		res, err := c.Mnt(x.path)
		if err != nil || res.FhsStatus != x.want {
			t.Errorf("MNT %q: %v, %v; want %v", x.path, res.FhsStatus, err, x.want)
		}
		if res.FhsStatus == mount3.MNT3_OK {
			c.WantStatus(t, "GETATTR of "+x.path, wire3.NFSPROC3_GETATTR, &wire3.GETATTR3args{Object: nfscall.FH(res.Mountinfo.Fhandle)}, wire3.NFS3_OK)
		}
	}
	if _, err := c.Mnt("/" + strings.Repeat("n", mount3.MNTPATHLEN)); !nfscall.Garbage(err) {
		t.Errorf("MNT of a path longer than MNTPATHLEN: %v, want GARBAGE_ARGS", err)
	}
	for path, want := range map[string]string{"pub": "[1]", "none": "[1]", "both": "[1]"} {
		res, err := c.Mnt(filepath.Join(dir, path))
		if err != nil || fmt.Sprint(res.Mountinfo.AuthFlavors) != want {
			t.Errorf("MNT %s: flavours %v, want %s (AUTH_SYS always, AUTH_NONE never); %v, %v", path, res.Mountinfo.AuthFlavors, want, res.FhsStatus, err)
		}
	}
	// AUTH_NONE may mount: clients ask so before they know better.
	if res, err := c.As(rpc.Cred{Flavor: rpc.FlavorNone}).Mnt(pub); err != nil || res.FhsStatus != mount3.MNT3_OK {
		t.Errorf("MNT with AUTH_NONE: %v, %v", res.FhsStatus, err)
	}

	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	for {
		ev, ok := sub.Next(ctx)
		if !ok {
			t.Fatal("no client_mount event")
		}
		if ev.Name == trace.ClientMount {
			if ev.Export != pub || ev.Client != netip.MustParseAddr("127.0.0.1") {
				t.Errorf("client_mount event: %v", ev)
			}
			break
		}
	}
}

func TestMountDump(t *testing.T) {
	s := startServer(t, "rw,insecure,no_root_squash,async")
	nfscall.Must(t, os.Mkdir(filepath.Join(s.dir, "sub"), 0o755))
	c := s.client(t)
	sub := filepath.Join(s.dir, "sub")
	want := func(list ...string) {
		t.Helper()
		if got := dumpList(t, c); !slices.Equal(got, list) {
			t.Errorf("DUMP: %q, want %q", got, list)
		}
	}
	want()
	c.Mount(t, s.dir)
	c.Mount(t, sub+"/")
	c.Mount(t, s.dir)
	c.Mnt(s.dir + "/absent")
	want("127.0.0.1:"+sub, "127.0.0.1:"+s.dir)
	if m := s.svc.Mounts(); len(m) != 2 || m[1].Path != s.dir || m[1].Client != netip.MustParseAddr("127.0.0.1") {
		t.Errorf("Mounts: %v", m)
	}
	for _, vers := range []uint32{1, 2, 3} {
		c.Mount(t, s.dir)
		mountCall(t, c, vers, mount3.MOUNTPROC3_UMNT, nfscall.String(s.dir), nil)
		want("127.0.0.1:" + sub)
	}
	mountCall(t, c, 3, mount3.MOUNTPROC3_UMNT, nfscall.String("/never/mounted"), nil)
	want("127.0.0.1:" + sub)
	for _, vers := range []uint32{1, 2, 3} {
		c.Mount(t, s.dir)
		mountCall(t, c, vers, mount3.MOUNTPROC3_UMNTALL, nil, nil)
		want()
	}
}

func TestMountExport(t *testing.T) {
	dir := t.TempDir()
	for _, d := range []string{"a", "b", "c"} {
		nfscall.Must(t, os.Mkdir(filepath.Join(dir, d), 0o755))
	}
	s := serveExports(t, dir, fmt.Sprintf("%[1]s/a *(ro)\n%[1]s/b host.example.org(rw) 10.0.0.0/8(ro) @group *.example.net\n%[1]s/c 192.0.2.7(rw) *(ro)\n", dir))
	c := s.client(t)
	want := [][2]string{{dir + "/a", "*"}, {dir + "/b", "host.example.org 10.0.0.0/8 @group *.example.net"}, {dir + "/c", "*"}}
	check := func(vers, proc uint32) {
		t.Helper()
		var l mount3.Exports
		mountCall(t, c, vers, proc, nil, &l)
		if len(l) != len(want) {
			t.Fatalf("EXPORT version %d: %d entries", vers, len(l))
		}
		for i, x := range l {
			var groups []string
			for _, g := range x.ExGroups {
				groups = append(groups, string(g.GrName))
			}
			if got := strings.Join(groups, " "); string(x.ExDir) != want[i][0] || got != want[i][1] {
				t.Errorf("EXPORT version %d: %s %q, want %q", vers, x.ExDir, got, want[i])
			}
		}
	}
	check(3, mount3.MOUNTPROC3_EXPORT)
	check(1, mount3.MOUNTPROC_EXPORT)
	check(2, mount3.MOUNTPROC_EXPORTALL)

	// What versions 1 and 2 cannot give is unavailable, not wrong.
	for _, vers := range []uint32{1, 2} {
		err := c.Call(mount3.MOUNT_PROGRAM, vers, mount3.MOUNTPROC_MNT, &c.Cred, nfscall.String(dir+"/a"), nil)
		if e, ok := err.(*rpc.Error); !ok || e.Stat != 3 {
			t.Errorf("MNT of version %d: %v, want PROC_UNAVAIL", vers, err)
		}
	}
}

// showmount(8), with our portmapper to find the server by.
func TestShowmount(t *testing.T) {
	testenv.Sandboxed(t)
	testenv.Commands(t, "showmount")
	s := startServer(t, "rw,insecure,no_root_squash,async")
	addr := netip.MustParseAddrPort(s.addr)
	pm, err := portmap.Listen(portmap.EmbeddedConfig{Mappings: portmap.Mappings(
		[]portmap.Program{{Prog: portmap.ProgNFS, Versions: []uint32{3}}, {Prog: portmap.ProgMount, Versions: []uint32{1, 2, 3}}},
		[]netip.AddrPort{addr})})
	nfscall.Must(t, err)
	defer pm.Close(context.Background())
	s.client(t).Mount(t, s.dir)

	for _, x := range []struct {
		args []string
		want string
	}{
		{[]string{"--no-headers", "--exports", "127.0.0.1"}, s.dir + " *\n"},
		{[]string{"-e", "127.0.0.1"}, "Export list for 127.0.0.1:\n" + s.dir + " *\n"},
		{[]string{"--no-headers", "-a", "127.0.0.1"}, "127.0.0.1:" + s.dir + "\n"},
		{[]string{"--no-headers", "-d", "127.0.0.1"}, s.dir + "\n"},
		{[]string{"--no-headers", "127.0.0.1"}, "127.0.0.1\n"},
	} {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		start := time.Now()
		out, err := exec.CommandContext(ctx, "showmount", x.args...).CombinedOutput()
		cancel()
		if err != nil || string(out) != x.want {
			t.Errorf("showmount %v: %v\n%swant\n%s", x.args, err, out, x.want)
		}
		t.Logf("showmount %v took %v", x.args, time.Since(start))
	}
}

// Whoever calls MOUNT without end does not fill the log.
func TestMountLogIsBounded(t *testing.T) {
	s := startServer(t, "rw,insecure,no_root_squash,async")
	c := s.client(t)
	start := time.Now()
	for range 500 {
		mountCall(t, c, 3, mount3.MOUNTPROC3_UMNT, nfscall.String("/nowhere"), nil)
		if _, err := c.Mnt("/nowhere"); err != nil {
			t.Fatal(err)
		}
	}
	lines := strings.Count(s.log.String(), "\n")
	if limit := mountLogBurst * (2 + int(time.Since(start)/time.Second)); lines == 0 || lines > limit+10 {
		t.Errorf("1,000 calls made %d log lines, limit %d", lines, limit)
	}
}

// Lists that would not end are cut off where a reply must end, and still decode.
func TestMountListsAreBounded(t *testing.T) {
	s := startServer(t, "rw,insecure,no_root_squash,async")
	c := s.client(t)
	var table strings.Builder
	for i := range 3000 {
		fmt.Fprintf(&table, "/%s/%d host%d.example.org(ro)\n", strings.Repeat("p", 600), i, i)
	}
	set, _, err := exports.Parse("exports", []byte(table.String()))
	nfscall.Must(t, err)
	s.listed.Store(set)
	for i := range maxMounts {
		s.svc.mounts.add(netip.AddrFrom4([4]byte{10, 1, byte(i >> 8), byte(i)}), "/"+strings.Repeat("p", 1020))
	}
	var list mount3.Exports
	raw := mountRaw(t, c, mount3.MOUNTPROC3_EXPORT)
	nfscall.Decode(t, raw, &list)
	if len(raw) > maxExportReply || len(list) == 0 || len(list) >= 3000 {
		t.Errorf("EXPORT: %d bytes, %d entries", len(raw), len(list))
	}
	var mounts mount3.Mountlist
	raw = mountRaw(t, c, mount3.MOUNTPROC3_DUMP)
	nfscall.Decode(t, raw, &mounts)
	if len(raw) > maxExportReply || len(mounts) == 0 || len(mounts) > maxMounts {
		t.Errorf("DUMP: %d bytes, %d entries", len(raw), len(mounts))
	}
}

func mountRaw(t testing.TB, c *nfscall.Client, proc uint32) []byte {
	t.Helper()
	var b nfscall.Bytes
	mountCall(t, c, 3, proc, nil, &b)
	return b
}

// A service thread without file-system state asks clients to come back.
func TestThreadWithoutState(t *testing.T) {
	s := startServer(t, "rw,insecure,no_root_squash,async")
	c := s.client(t)
	root := c.Mount(t, s.dir)
	for name, call := range callsOn(root) {
		var e xdr.Encoder
		call.args.Encode(&e)
		var status uint32
		s.run(t, c, func(rc *rpc.Call) {
			local := rc.Thread.Local
			defer func() { rc.Thread.Local = local }()
			rc.Thread.Local = s.svc.newLocal(nil, errors.New("no state"))
			m := rc.Reply.Mark()
			at := len(rc.Reply.Bytes())
			rc.Args.Reset(e.Bytes())
			if v := s.proc(call.proc)(rc); v != rpc.Done {
				t.Errorf("%s: verdict %d", name, v)
			}
			status = binary.BigEndian.Uint32(rc.Reply.Bytes()[at:])
			rc.Reply.Rollback(m)
		})
		if wire3.Nfsstat3(status) != wire3.NFS3ERR_JUKEBOX {
			t.Errorf("%s: %v, want JUKEBOX", name, wire3.Nfsstat3(status))
		}
	}
}
