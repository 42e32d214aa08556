package vfs

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// A file that has become immutable, or one to append to only, takes no change through descriptors that were open before, by
// its owner and by the superuser.
func TestImmutable(t *testing.T) {
	const immutable, appendOnly = 0x10, 0x20 // FS_IMMUTABLE_FL, FS_APPEND_FL
	onEach(t, func(t *testing.T, d string) {
		b := serve(t, d, "rw,no_root_squash")
		b.on(func(th *Thread) {
			for name, uid := range map[string]uint32{"owner": 1000, "superuser": 0} {
				u := b.user(th, uid, uid)
				fh, _, err := u.create(u.mount(d), name, 0o600)
				ok(t, "create", err)
				_, err = u.write(fh, 0, "data")
				ok(t, "write", err)
				set := func(flag int) error {
					return th.runAsServer(func() error {
						f, err := os.Open(filepath.Join(d, name))
						if err != nil {
							return err
						}
						defer f.Close()
						flags, err := unix.IoctlGetInt(int(f.Fd()), unix.FS_IOC_GETFLAGS)
						if err != nil {
							return err
						}
						return unix.IoctlSetPointerInt(int(f.Fd()), unix.FS_IOC_SETFLAGS, flags&^(immutable|appendOnly)|flag)
					})
				}
				for _, flag := range []int{immutable, appendOnly} {
					ok(t, "set the flag", set(flag))
					_, err = u.write(fh, 0, "evil")
					want(t, name+": write", err, unix.EPERM)
					_, err = u.setattr(fh, SetAttr{SetSize: true, Size: 1})
					want(t, name+": truncate", err, unix.EPERM)
					want(t, name+": allocate", u.do(fh, func(v *View, n Node) error { return v.Allocate(n, 0, 100) }), unix.EPERM)
					want(t, name+": deallocate", u.do(fh, func(v *View, n Node) error { return v.Deallocate(n, 0, 4) }), unix.EPERM)
					ok(t, "take the flag away", set(0))
				}
				if data, _, err := u.read(fh, 0, 10); err != nil || data != "data" {
					t.Errorf("%s: the file is %q, %v", name, data, err)
				}
			}
		})
	})
}

// A limit on the size of the server's files (ulimit -f) is an error to the client, not the server's end.
func TestFileSizeLimit(t *testing.T) {
	d := tmpfsDir(t)
	b := serve(t, d, "rw,no_root_squash")
	var old unix.Rlimit
	ok(t, "getrlimit", unix.Getrlimit(unix.RLIMIT_FSIZE, &old))
	ok(t, "setrlimit", unix.Setrlimit(unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: 64 << 10, Max: old.Max}))
	defer unix.Setrlimit(unix.RLIMIT_FSIZE, &old) //nolint:errcheck // it worked before
	b.as(1000, 1000, func(u *user) {
		fh, _, err := u.create(u.mount(d), "f", 0o600)
		ok(t, "create", err)
		_, err = u.write(fh, 64<<10, "data")
		want(t, "write", err, unix.EFBIG)
		_, err = u.setattr(fh, SetAttr{SetSize: true, Size: 1 << 20})
		want(t, "truncate", err, unix.EFBIG)
		want(t, "allocate", u.do(fh, func(v *View, n Node) error { return v.Allocate(n, 0, 1<<20) }), unix.EFBIG)
	})
}
