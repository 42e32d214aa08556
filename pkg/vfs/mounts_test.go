package vfs

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// eventually waits for what happens in the background.
func eventually(t testing.TB, what string, f func() bool) {
	t.Helper()
	for end := time.Now().Add(5 * time.Second); !f(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s: not within 5 s", what)
		}
	}
}

func TestCrossmnt(t *testing.T) {
	for _, cross := range []bool{false, true} {
		t.Run(fmt.Sprintf("crossmnt=%v", cross), func(t *testing.T) {
			d := exportDir(t)
			sub := filepath.Join(d, "sub")
			os.MkdirAll(filepath.Join(sub, "beneath"), 0o755)
			mountFS(t, "tmpfs", sub, "tmpfs", 0, "")
			os.WriteFile(filepath.Join(sub, "above"), []byte("on tmpfs"), 0o644)
			opts := "rw,no_root_squash,nocrossmnt"
			opts = map[bool]string{true: "rw,no_root_squash,crossmnt", false: "rw,no_root_squash"}[cross]
			b := newBench(t, d+" *("+opts+")\n")
			b.on(func(th *Thread) {
				u := b.user(th, 0, 0)
				root := u.mount(d)
				ra, _ := u.getattr(root)
				sfh, sa, err := u.lookup(root, "sub")
				ok(t, "lookup", err)
				_, _, above := u.lookup(sfh, "above")
				_, _, beneath := u.lookup(sfh, "beneath")
				if cross {
					want(t, "file of the mounted file system", above, nil)
					want(t, "directory beneath", beneath, unix.ENOENT)
					if sa.FSID == ra.FSID || !sa.MountPoint {
						t.Errorf("fsid %x in an export of %x, mount point %v", sa.FSID, ra.FSID, sa.MountPoint)
					}
				} else {
					want(t, "file of the mounted file system", above, unix.ENOENT)
					want(t, "directory beneath", beneath, nil)
					if sa.FSID != ra.FSID {
						t.Errorf("fsid %x in an export of %x", sa.FSID, ra.FSID)
					}
				}
				up, _, err := u.lookup(sfh, "..")
				ok(t, "lookup ..", err)
				if string(up) != string(root) {
					t.Error(".. of the mount point is not its parent")
				}

				// One mounted at run time.
				late := filepath.Join(d, "late")
				lfh0, err := u.mkdir(root, "late", 0o755)
				ok(t, "mkdir", err)
				mountFS(t, "tmpfs", late, "tmpfs", 0, "")
				os.WriteFile(filepath.Join(late, "x"), []byte("late"), 0o644)
				lfh, la, err := u.lookup(root, "late")
				ok(t, "lookup", err)
				_, _, err = u.lookup(lfh, "x")
				if cross {
					ok(t, "file of a mount added at run time", err)
					if la.FSID == ra.FSID || la.FSID == sa.FSID {
						t.Error("two file systems have one fsid")
					}
					if string(lfh) == string(lfh0) {
						t.Error("the mount has the handle of the directory beneath")
					}
				} else {
					want(t, "file of a mount added at run time", err, unix.ENOENT)
					if string(lfh) != string(lfh0) {
						t.Error("a mount changed the handle of the directory beneath")
					}
				}

				// A bind mount of a part of the same file system.
				part := filepath.Join(d, "part")
				os.Mkdir(part, 0o755)
				os.MkdirAll(filepath.Join(d, "orig", "inside"), 0o755)
				mountFS(t, filepath.Join(d, "orig"), part, "", unix.MS_BIND, "")
				pfh, pa, err := u.lookup(root, "part")
				ok(t, "lookup", err)
				ifh, ia, err := u.lookup(pfh, "inside")
				if cross {
					ok(t, "lookup in a bind mount", err)
					if pa.FSID == ra.FSID || ia.FSID != pa.FSID {
						t.Errorf("a bind mount has fsid %x and %x in an export of %x", pa.FSID, ia.FSID, ra.FSID)
					}
					ofh, oa, err := u.lookup(root, "orig")
					ok(t, "lookup", err)
					if oa.FSID != ra.FSID || string(ofh) == string(pfh) {
						t.Error("the original of a bind mount is the mount")
					}
					_, _, err = u.rename(ofh, "inside", pfh, "x")
					want(t, "rename across mounts", err, unix.EXDEV)
				} else {
					want(t, "lookup in a bind mount", err, unix.ENOENT)
				}

				// READDIRPLUS gives no handle for what is mounted over.
				ok(t, "readdir", u.do(root, func(v *View, n Node) error {
					_, err := v.Readdir(n, &ReaddirReq{Plus: true}, func(e *DirEntry) bool {
						if name := string(e.Name); slices.Contains([]string{"sub", "late", "part"}, name) && cross != (e.Handle.Len == 0) {
							t.Errorf("readdirplus: %s has a handle of %d bytes", name, e.Handle.Len)
						}
						return true
					})
					return err
				}))

				// MOUNT below the export leads to the same.
				if string(u.mount(sub)) != string(sfh) {
					t.Error("MOUNT of the mount point leads elsewhere")
				}
				b.restart()
				th2 := b.newThread()
				defer th2.Close()
				u = b.user(th2, 0, 0)
				for _, h := range [][]byte{sfh, lfh, pfh} {
					_, err := u.getattr(h)
					ok(t, "a handle after a restart", err)
				}
				if cross {
					_, err := u.getattr(ifh)
					ok(t, "a handle in a bind mount after a restart", err)
					// Reload lets the mounts go.
					if err := b.ns.Reload(b.ns.Set()); err != nil {
						t.Error(err)
					}
					eventually(t, "umount after a reload", func() bool { return unix.Unmount(late, 0) == nil })
					_, err = u.getattr(lfh)
					want(t, "a handle of what was unmounted", err, ErrStale)
				} else {
					want(t, "umount", unix.Unmount(late, 0), nil)
				}
			})
		})
	}
}

func TestNohide(t *testing.T) {
	d := exportDir(t)
	hidden, shown := filepath.Join(d, "hidden"), filepath.Join(d, "shown")
	for _, m := range []string{hidden, shown} {
		mountFS(t, "tmpfs", m, "tmpfs", 0, "")
		os.WriteFile(filepath.Join(m, "x"), nil, 0o644)
	}
	b := newBench(t, d+" *(rw,no_root_squash)\n"+hidden+" *(rw,no_root_squash)\n"+shown+" *(ro,nohide)\n")
	b.as(0, 0, func(u *user) {
		root := u.mount(d)
		hfh, _, err := u.lookup(root, "hidden")
		ok(t, "lookup", err)
		_, _, err = u.lookup(hfh, "x")
		want(t, "lookup in the hidden mount", err, unix.ENOENT)
		sfh, _, err := u.lookup(root, "shown")
		ok(t, "lookup", err)
		_, _, err = u.lookup(sfh, "x")
		ok(t, "lookup in the mount with nohide", err)
		if string(u.mount(shown)) != string(sfh) {
			t.Error("the mount is not the export that it is")
		}
		_, _, err = u.create(sfh, "y", 0o644)
		want(t, "create where the inner export is read-only", err, unix.EROFS)
		if string(u.mount(hidden)) == string(hfh) {
			t.Error("the hidden export is the directory beneath")
		}
		up, _, err := u.lookup(sfh, "..")
		ok(t, "lookup", err)
		if string(up) != string(sfh) {
			t.Error(".. leads out of the inner export")
		}
	})
}

// sh runs a command that the test needs.
func sh(t testing.TB, name string, args ...string) string {
	t.Helper()
	out, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(string(out))
}

func needTool(t testing.TB, names ...string) {
	t.Helper()
	for _, n := range names {
		if _, err := exec.LookPath(n); err != nil {
			t.Skipf("needs the program %s", n)
		}
	}
}

// loopImage attaches an image to a loop device and detaches it at the end.
func loopImage(t testing.TB, image string) string {
	t.Helper()
	dev := sh(t, "losetup", "-f", "--show", image)
	t.Cleanup(func() { exec.Command("losetup", "-d", dev).Run() })
	return dev
}

// TestReattachedImage: the same file system, back under another device number, has the same handles.
func TestReattachedImage(t *testing.T) {
	needRoot(t)
	for _, fs := range []string{"xfs", "ext4"} {
		t.Run(fs, func(t *testing.T) {
			needTool(t, "mkfs."+fs, "losetup")
			dir := t.TempDir()
			image, at := filepath.Join(dir, "image"), filepath.Join(dir, "mnt")
			size := map[string]int64{"xfs": 320 << 20, "ext4": 32 << 20}[fs]
			if err := os.WriteFile(image, nil, 0o600); err != nil {
				t.Fatal(err)
			}
			if err := os.Truncate(image, size); err != nil {
				t.Fatal(err)
			}
			sh(t, "mkfs."+fs, "-q", image)
			os.Mkdir(at, 0o755)
			dev := loopImage(t, image)
			mountFS(t, dev, at, fs, 0, "")
			os.WriteFile(filepath.Join(at, "f"), []byte("data"), 0o644)
			b := newBench(t, at+" *(rw,no_root_squash,mp)\n")
			b.on(func(th *Thread) {
				u := b.user(th, 0, 0)
				root := u.mount(at)
				fh, a, err := u.lookup(root, "f")
				ok(t, "lookup", err)
				var st unix.Stat_t
				unix.Stat(at, &st)
				oldDev := st.Dev
				ok(t, "umount", unix.Unmount(at, 0)) // possible while it is served
				eventually(t, "the export to be let go", func() bool { _, err := u.getattr(fh); return err == ErrStale })
				_, _, err = b.ns.Mount(th, &u.c, at)
				want(t, "MOUNT while nothing is mounted (mp)", err, unix.ENOENT)
				if !strings.Contains(b.ns.Problems()[at], "nothing is mounted") {
					t.Errorf("problems: %v", b.ns.Problems())
				}
				eventually(t, "the device to be free", func() bool {
					exec.Command("losetup", "-d", dev).Run()
					return !strings.Contains(sh(t, "losetup", "-a"), image)
				})
				blocker := loopImage(t, makeBlocker(t)) // takes the old number
				dev2 := loopImage(t, image)
				if dev2 == dev {
					t.Fatalf("the image is on %s again, and a blocker on %s", dev2, blocker)
				}
				mountFS(t, dev2, at, fs, 0, "")
				unix.Stat(at, &st)
				if st.Dev == oldDev {
					t.Fatal("the device number did not change")
				}
				eventually(t, "the export to be served again", func() bool { _, err := u.getattr(fh); return err == nil })
				a2, err := u.getattr(fh)
				ok(t, "getattr", err)
				if a2.FSID != a.FSID || a2.FileID != a.FileID {
					t.Errorf("%+v, was %+v", a2, a)
				}
				if string(u.mount(at)) != string(root) {
					t.Error("the root has another handle")
				}
				if data, _, err := u.read(fh, 0, 10); data != "data" || err != nil {
					t.Errorf("read %q, %v", data, err)
				}
			})
		})
	}
}

func makeBlocker(t testing.TB) string {
	f := filepath.Join(t.TempDir(), "blocker")
	os.WriteFile(f, make([]byte, 1<<20), 0o600)
	return f
}

func TestXFSUUIDWithoutTheGenericCall(t *testing.T) {
	needRoot(t)
	needTool(t, "mkfs.xfs", "losetup")
	dir := t.TempDir()
	image, at := filepath.Join(dir, "image"), filepath.Join(dir, "mnt")
	os.WriteFile(image, nil, 0o600)
	os.Truncate(image, 320<<20)
	sh(t, "mkfs.xfs", "-q", "-m", "uuid=01234567-89ab-cdef-0123-456789abcdef", image)
	mountFS(t, loopImage(t, image), at, "xfs", 0, "")
	fd, err := unix.Open(at, unix.O_RDONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	if got := fmt.Sprintf("%x", xfsUUID(fd)); got != "0123456789abcdef0123456789abcdef" {
		t.Errorf("UUID %s", got)
	}
	if got := string(fsIdentity(fd)); !strings.HasPrefix(got, "uuid:") {
		t.Errorf("identity %q", got)
	}
	var sf unix.Statfs_t
	var st unix.Stat_t
	unix.Fstatfs(fd, &sf)
	unix.Fstat(fd, &st)
	if v := uint64(uint32(sf.Fsid.Val[0])) | uint64(uint32(sf.Fsid.Val[1]))<<32; !isDeviceNumber(v, st.Dev) {
		t.Errorf("f_fsid %x of device %x is not known for a device number", v, st.Dev)
	}
}

func TestMissingDirectoryHeals(t *testing.T) {
	d := exportDir(t)
	here, gone := filepath.Join(d, "here"), filepath.Join(d, "gone")
	os.Mkdir(here, 0o755)
	b := newBench(t, here+" *(rw)\n"+gone+" *(rw)\n")
	b.as(0, 0, func(u *user) {
		u.mount(here)
		_, _, err := b.ns.Mount(u.th, &u.c, gone)
		want(t, "MOUNT of a missing directory", err, unix.ENOENT)
		if p := b.ns.Problems(); len(p) != 1 || !strings.Contains(p[gone], "make it") {
			t.Errorf("problems: %v", p)
		}
		os.Mkdir(gone, 0o755)
		fh := u.mount(gone) // looks at once
		_, err = u.getattr(fh)
		ok(t, "getattr", err)
		if len(b.ns.Problems()) != 0 {
			t.Errorf("problems: %v", b.ns.Problems())
		}
		// Replaced by another directory: a new export root.
		os.Rename(gone, gone+".old")
		os.Mkdir(gone, 0o755)
		eventually(t, "the new directory", func() bool { return string(u.mount(gone)) != string(fh) })
		// Only moved: the old handles go on.
		fh = u.mount(gone)
		os.Rename(gone, gone+".moved")
		time.Sleep(60 * time.Millisecond)
		_, err = u.getattr(fh)
		ok(t, "getattr after a rename of the export's directory", err)
	})
	if n := strings.Count(b.log.String(), "does not exist"); n != 1 {
		t.Errorf("said %d times:\n%s", n, b.log)
	}
}

func TestNoHandles(t *testing.T) {
	needRoot(t)
	d := exportDir(t)
	for _, n := range []string{"lower", "upper", "work"} {
		os.Mkdir(filepath.Join(d, n), 0o755)
	}
	at := filepath.Join(d, "merged")
	data := fmt.Sprintf("lowerdir=%[1]s/lower,upperdir=%[1]s/upper,workdir=%[1]s/work", d)
	mountFS(t, "overlay", at, "overlay", 0, data)
	b := newBench(t, at+" *(rw)\n"+d+" *(rw,no_root_squash,crossmnt)\n")
	b.as(0, 0, func(u *user) {
		_, _, err := b.ns.Mount(u.th, &u.c, at)
		want(t, "MOUNT of overlayfs", err, unix.ENOENT)
		if p := b.ns.Problems()[at]; !strings.Contains(p, "nfs_export=on") {
			t.Errorf("problem: %q", p)
		}
		// The other is served, and shows what is beneath.
		root := u.mount(d)
		_, a, err := u.lookup(root, "merged")
		ok(t, "lookup", err)
		if ra, _ := u.getattr(root); a.FSID != ra.FSID {
			t.Error("overlayfs without handles is shown")
		}
	})
	// With handles it is exported as any other.
	at2 := filepath.Join(d, "merged2")
	for _, n := range []string{"l2", "u2", "w2"} {
		os.Mkdir(filepath.Join(d, n), 0o755)
	}
	mountFS(t, "overlay", at2, "overlay", 0, fmt.Sprintf("lowerdir=%[1]s/l2,upperdir=%[1]s/u2,workdir=%[1]s/w2,nfs_export=on,index=on", d))
	b2 := newBench(t, at2+" *(rw,no_root_squash,fsid=77)\n")
	b2.as(0, 0, func(u *user) {
		root := u.mount(at2)
		fh, _, err := u.create(root, "f", 0o644)
		ok(t, "create on overlayfs", err)
		_, err = u.write(fh, 0, "x")
		ok(t, "write", err)
		if a, _ := u.getattr(fh); a.FSID != 77 {
			t.Errorf("fsid %d", a.FSID)
		}
		b2.cache.Purge(fsOf(b2, at2))
		_, err = u.getattr(fh)
		ok(t, "getattr by handle", err)
	})
}

func fsOf(b *bench, path string) uint64 { return b.ns.table.Load().byPath[path].tree.root().cacheFS }

func TestReload(t *testing.T) {
	d, d2 := exportDir(t), exportDir(t)
	b := newBench(t, d+" *(rw,no_root_squash)\n")
	b.as(0, 0, func(u *user) {
		root := u.mount(d)
		fh, _, err := u.create(root, "f", 0o644)
		ok(t, "create", err)
		files := b.cache.Stats().Files
		for range 100 {
			if err := b.ns.Reload(mustSet(t, d+" *(ro)\n"+d2+" *(rw)\n")); err != nil {
				t.Fatal(err)
			}
		}
		if n := b.cache.Stats().Files; n < files {
			t.Errorf("a reload closed files: %d, were %d", n, files)
		}
		_, err = u.write(fh, 0, "x")
		want(t, "write after the export became read-only", err, unix.EROFS)
		_, _, err = u.read(fh, 0, 1)
		ok(t, "read", err)
		u.mount(d2)
		if err := b.ns.Reload(mustSet(t, d2+" *(rw)\n")); err != nil {
			t.Fatal(err)
		}
		_, err = u.getattr(fh)
		want(t, "a file that is no longer exported", err, ErrStale)
		_, _, err = b.ns.Mount(u.th, &u.c, d)
		want(t, "its MOUNT", err, unix.EACCES)
	})
	eventually(t, "its files to be closed", func() bool { return b.cache.Stats().Files <= 1 })
}

func TestMountPaths(t *testing.T) {
	d := exportDir(t)
	os.MkdirAll(filepath.Join(d, "a", "b"), 0o755)
	os.WriteFile(filepath.Join(d, "a", "file"), nil, 0o644)
	os.Symlink(filepath.Join(d, "a"), filepath.Join(d, "in"))
	os.Symlink("/etc", filepath.Join(d, "out"))
	unix.Mkfifo(filepath.Join(d, "fifo"), 0o644)
	b := newBench(t, d+" *(rw,no_root_squash)\n")
	b.as(0, 0, func(u *user) {
		root := u.mount(d)
		for p, e := range map[string]error{
			d + "/a/b": nil, d + "//a/./b/": nil, d + "/a/../a": nil, d + "/a/file": nil, d + "/in/b": nil, d + "/in": nil,
			d + "/none": unix.ENOENT, d + "/a/file/x": unix.ENOTDIR, d + "/fifo": unix.ENOTDIR,
			d + "/out": unix.EACCES, d + "/../": unix.EACCES, d + "/../../../../etc": unix.EACCES,
			"/": unix.EACCES, "": unix.ENOENT, "relative": unix.ENOENT, d + "/a\x00b": unix.ENOENT,
			"/" + strings.Repeat("x/", 3000): unix.ENAMETOOLONG, d + "/" + strings.Repeat("x", 256): unix.ENAMETOOLONG,
		} {
			_, flavors, err := b.ns.Mount(u.th, &u.c, p)
			want(t, fmt.Sprintf("MOUNT %.80q", p), err, e)
			if err == nil && !slices.Equal(flavors, []uint32{1}) {
				t.Errorf("flavours %v", flavors)
			}
		}
		afh, _, _ := u.lookup(root, "a")
		if string(u.mount(d+"/in")) != string(afh) {
			t.Error("MOUNT through a link leads elsewhere")
		}
	})
}

// TestSubtreeCheck: with subtree_check, a handle is only good while its file is below the exported directory.
func TestSubtreeCheck(t *testing.T) {
	for _, opts := range []string{"rw,no_root_squash", "rw,no_root_squash,subtree_check", "rw,no_root_squash,subtree_check,crossmnt"} {
		t.Run(opts, func(t *testing.T) {
			fs := ext4Dir(t, 32<<20)
			d := filepath.Join(fs, "exported")
			os.MkdirAll(filepath.Join(d, "sub"), 0o777)
			os.WriteFile(filepath.Join(d, "sub", "f"), []byte("data"), 0o644)
			b := newBench(t, d+" *("+opts+")\n")
			if strings.Contains(b.log.String(), "no effect") {
				t.Skip("needs Linux 6.13 for subtree_check")
			}
			b.as(0, 0, func(u *user) {
				root := u.mount(d)
				sub, _, err := u.lookup(root, "sub")
				ok(t, "lookup", err)
				fh, _, err := u.lookup(sub, "f")
				ok(t, "lookup", err)
				up, _, err := u.lookup(sub, "..")
				ok(t, "lookup ..", err)
				up2, _, err := u.lookup(root, "..")
				ok(t, "lookup .. of the root", err)
				if string(up) != string(root) || string(up2) != string(root) {
					t.Error("the root has more than one handle, or a parent")
				}
				forget := func() { b.cache.Purge(fsOf(b, d)) }
				_, _, err = u.rename(sub, "f", root, "g")
				ok(t, "rename", err)
				_, err = u.getattr(fh)
				ok(t, "a file that moved inside", err)
				names, err := u.list(root, true, 2)
				if err != nil || len(names) != 4 {
					t.Errorf("list: %v %v", names, err)
				}
				fh, _, err = u.lookup(root, "g")
				ok(t, "lookup", err)
				ok(t, "remove", u.remove(root, "g"))
				_, err = u.getattr(fh)
				want(t, "a removed file", err, ErrStale)
				fh, _, err = u.create(sub, "h", 0o644)
				ok(t, "create", err)
				forget()
				_, err = u.getattr(fh)
				ok(t, "a handle, not cached", err)
				os.Rename(filepath.Join(d, "sub"), filepath.Join(fs, "outside"))
				var wanted error
				if strings.Contains(opts, "subtree") {
					wanted = ErrStale
				}
				for _, how := range []string{"cached", "not cached"} {
					_, err = u.getattr(fh)
					want(t, how+": a file that moved out", err, wanted)
					_, err = u.getattr(sub)
					want(t, how+": a directory that moved out", err, wanted)
					forget()
				}
				forget()
				if err := b.ns.Reload(mustSet(t, d+" *(rw,no_root_squash)\n")); err != nil {
					t.Error(err)
				}
				_, err = u.getattr(fh)
				ok(t, "without subtree_check", err)
			})
		})
	}
}

// A shortage of descriptors does not take exports away.
func TestShortageKeepsExports(t *testing.T) {
	for _, e := range []error{unix.EMFILE, unix.ENFILE, unix.ENOMEM, fmt.Errorf("open: %w", unix.EIO)} {
		if !transient(e) {
			t.Errorf("%v is not transient", e)
		}
	}
	for _, e := range []error{errNoDirectory, unix.ENOENT, unix.EACCES, noHandles(0)} {
		if transient(e) {
			t.Errorf("%v is transient", e)
		}
	}
}
