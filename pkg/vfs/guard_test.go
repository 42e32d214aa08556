package vfs

import (
	"fmt"
	"testing"

	"golang.org/x/sys/unix"
)

// Who may not do something calls nobody's delegation back by trying.
func TestGuardAfterPermission(t *testing.T) {
	d := ext4Dir(t, 64<<20)
	g := &gate4{refuse: fmt.Errorf("refused")}
	b := serve(t, d, "rw,no_root_squash")
	var root, dir, fh []byte
	b.as(0, 0, func(u *user) {
		var err error
		root = u.mount(d)
		dir, err = u.mkdir(root, "dir", 0o755)
		ok(t, "mkdir", err)
		fh, _, err = u.create(dir, "f", 0o600)
		ok(t, "create", err)
		_, _, err = u.create(root, "mine", 0o600)
		ok(t, "create", err)
		u.do(fh, func(v *View, n Node) error { g.key = n.Key(); return nil })
		b.ns.SetGuard(g)
	})
	b.as(1000, 1000, func(u *user) {
		u.c.V4 = true
		on := func(f func(v *View, n Node) error) error { return u.do(fh, f) }
		set := func(s SetAttr) error { _, err := u.setattr(fh, s); return err }
		for _, c := range []struct {
			what string
			err  error
			want unix.Errno
		}{
			{"read", on(func(v *View, n Node) error { _, err := v.Read(n, 0, 5); return err }), unix.EACCES},
			{"write", on(func(v *View, n Node) error { _, err := v.Write(n, 0, []byte("x"), 0); return err }), unix.EACCES},
			{"copy", on(func(v *View, n Node) error { _, err := v.Copy(n, n, 0, 100, 2); return err }), unix.EACCES},
			{"seek", on(func(v *View, n Node) error { _, _, err := v.Seek(n, 0, false); return err }), unix.EACCES},
			{"allocate", on(func(v *View, n Node) error { return v.Allocate(n, 0, 5) }), unix.EACCES},
			{"truncate", set(SetAttr{SetSize: true}), unix.EACCES},
			{"chmod", set(SetAttr{SetMode: true, Mode: 0o666}), unix.EPERM},
			{"chown", set(SetAttr{SetUID: true, UID: 1000}), unix.EPERM},
			{"chgrp", set(SetAttr{SetGID: true, GID: 1000}), unix.EPERM},
			{"a time", set(SetAttr{MtimeHow: TimeClient}), unix.EPERM},
			{"now", set(SetAttr{AtimeHow: TimeServer, MtimeHow: TimeServer}), unix.EACCES},
			{"one time to now", set(SetAttr{MtimeHow: TimeServer}), unix.EACCES},
			{"setacl", on(func(v *View, n Node) error { return v.SetACL(n, &ACL{}, nil) }), unix.EPERM},
			{"getxattr", on(func(v *View, n Node) error { _, err := v.Getxattr(n, []byte("a"), make([]byte, 9)); return err }), unix.EACCES},
			{"setxattr", on(func(v *View, n Node) error { _, err := v.Setxattr(n, []byte("a"), nil, XattrEither); return err }), unix.EACCES},
			{"removexattr", on(func(v *View, n Node) error { _, err := v.Removexattr(n, []byte("a")); return err }), unix.EACCES},
			{"link", on(func(v *View, n Node) error {
				to, err := v.Node(dir)
				ok(t, "node", err)
				_, _, err = v.Link(n, to, []byte("g"))
				return err
			}), unix.EACCES},
			{"remove", u.remove(dir, "f"), unix.EACCES},
			{"rename from", func() error { _, _, err := u.rename(dir, "f", root, "g"); return err }(), unix.EACCES},
			{"rename to", func() error { _, _, err := u.rename(root, "mine", dir, "f"); return err }(), unix.EACCES},
		} {
			want(t, c.what, c.err, c.want)
		}
	})
	if len(g.asked) > 0 {
		t.Errorf("asked %q", g.asked)
	}
}
