// Tests of changes that carry attributes (SETATTR, the modes of what is made) and of COMMIT.

package vfs

import (
	"testing"

	"golang.org/x/sys/unix"

	"sluice/pkg/dataio"
)

func TestSetattr(t *testing.T) {
	d := exportDir(t)
	b := newBench(t, d+" *(rw,no_root_squash)\n")
	b.on(func(th *Thread) {
		alice, bob := b.user(th, 1000, 1000), b.user(th, 1001, 1001)
		top := alice.mount(d)
		fh, a, err := alice.create(top, "f", 0o666)
		ok(t, "create", err)
		_, err = alice.setattr(fh, SetAttr{Guard: true, GuardTime: Time{1, 2}, SetMode: true, Mode: 0o600})
		want(t, "a guard that does not match", err, ErrNotSync)
		c, err := alice.setattr(fh, SetAttr{Guard: true, GuardTime: a.Ctime, AtimeHow: TimeClient, Atime: Time{12345, 123456789}, MtimeHow: TimeClient, Mtime: Time{-5, 987654321}})
		ok(t, "a guard that matches", err)
		if c.After.Atime != (Time{12345, 123456789}) || c.After.Mtime != (Time{-5, 987654321}) || c.Before.Ctime != a.Ctime {
			t.Errorf("times: %+v", c.After)
		}
		_, err = bob.setattr(fh, SetAttr{MtimeHow: TimeClient, Mtime: Time{1, 0}})
		want(t, "times given by one who may write", err, unix.EPERM)
		c, err = bob.setattr(fh, SetAttr{MtimeHow: TimeServer, AtimeHow: TimeServer})
		ok(t, "both times to now by one who may write", err)
		if c.After.Mtime.Sec < 1e9 || c.After.Atime.Sec < 1e9 {
			t.Errorf("times: %+v", c.After)
		}
		old := c.After.Atime
		c, err = bob.setattr(fh, SetAttr{MtimeHow: TimeServer})
		ok(t, "mtime to now by one who may write", err)
		if c.After.Atime != old || c.After.Mtime == c.Before.Mtime {
			t.Errorf("times: %+v", c)
		}
		_, err = alice.setattr(fh, SetAttr{SetMode: true, Mode: 0o644})
		ok(t, "chmod", err)
		_, err = bob.setattr(fh, SetAttr{MtimeHow: TimeServer})
		want(t, "mtime to now by one who may only read", err, unix.EACCES)
		_, err = bob.setattr(fh, SetAttr{MtimeHow: TimeServer, AtimeHow: TimeServer})
		want(t, "both by one who may only read", err, unix.EACCES)
		_, err = alice.setattr(fh, SetAttr{MtimeHow: TimeClient, Mtime: Time{1, 1e9}})
		want(t, "too many nanoseconds", err, unix.EINVAL)

		c, err = alice.setattr(fh, SetAttr{SetSize: true, Size: 1 << 40, MtimeHow: TimeServer})
		ok(t, "a sparse size", err)
		if c.After.Size != 1<<40 || c.After.Used != 0 {
			t.Errorf("size %d used %d", c.After.Size, c.After.Used)
		}
		_, err = alice.setattr(fh, SetAttr{SetSize: true, Size: 1 << 63})
		want(t, "a size past the largest offset", err, unix.EFBIG)
		dir, _ := alice.mkdir(top, "d", 0o755)
		_, err = alice.setattr(dir, SetAttr{SetSize: true})
		want(t, "the size of a directory", err, unix.EISDIR)
		c, err = alice.setattr(dir, SetAttr{SetMode: true, Mode: 0o2711})
		ok(t, "chmod of a directory", err)
		if c.After.Mode != 0o2711 {
			t.Errorf("mode %o", c.After.Mode)
		}
		c, err = alice.setattr(fh, SetAttr{})
		if err != nil || c.Before.Ctime != c.After.Ctime {
			t.Errorf("setting nothing: %+v %v", c, err)
		}
		_, err = alice.setattr(fh, SetAttr{SetGID: true, GID: 1000})
		ok(t, "chgrp to the own group", err)
		_, err = alice.setattr(fh, SetAttr{SetGID: true, GID: 4})
		want(t, "chgrp to another", err, unix.EPERM)
		_, err = alice.setattr(fh, SetAttr{SetUID: true, UID: 1<<32 - 1})
		want(t, "chown to no id", err, unix.EINVAL)

		var lfh []byte
		ok(t, "symlink", alice.do(top, func(v *View, n Node) error {
			e, _, err := v.Symlink(n, []byte("l"), []byte("/nowhere"), &SetAttr{SetMode: true, Mode: 0o400})
			lfh = append(lfh, e.Handle.Bytes()...)
			return err
		}))
		c, err = alice.setattr(lfh, SetAttr{SetMode: true, Mode: 0o600, MtimeHow: TimeClient, Mtime: Time{77, 0}})
		ok(t, "setattr of a link", err)
		if c.After.Mode != 0o777 || c.After.Mtime.Sec != 77 {
			t.Errorf("link: %+v", c.After)
		}
	})
}

func TestCreateModes(t *testing.T) {
	d := exportDir(t)
	b := newBench(t, d+" *(rw,no_root_squash)\n")
	verf := [8]byte{0xff, 1, 2, 3, 0xfe, 5, 6, 7}
	create := func(u *user, top []byte, name string, how CreateHow, verf [8]byte, s SetAttr) (e Entry, err error) {
		err = u.do(top, func(v *View, n Node) error {
			e, _, err = v.Create(n, []byte(name), how, verf, &s)
			return err
		})
		return e, err
	}
	b.as(1000, 1000, func(u *user) {
		top := u.mount(d)
		e, err := create(u, top, "x", Exclusive, verf, SetAttr{})
		ok(t, "exclusive", err)
		e2, err := create(u, top, "x", Exclusive, verf, SetAttr{})
		ok(t, "exclusive again", err)
		if string(e.Handle.Bytes()) != string(e2.Handle.Bytes()) || e2.Handle.Len == 0 {
			t.Error("the second try found another file")
		}
		other := verf
		other[7]++
		_, err = create(u, top, "x", Exclusive, other, SetAttr{})
		want(t, "exclusive with another verifier", err, unix.EEXIST)
		_, err = create(u, top, "x", Guarded, verf, SetAttr{})
		want(t, "guarded", err, unix.EEXIST)
		_, err = u.write(e.Handle.Bytes(), 0, "data")
		ok(t, "write", err)
		_, err = create(u, top, "x", Exclusive, verf, SetAttr{})
		want(t, "exclusive when there is data", err, unix.EEXIST)
		e, err = create(u, top, "x", Unchecked, verf, SetAttr{SetMode: true, Mode: 0o777})
		ok(t, "unchecked", err)
		if e.Attr.Size != 4 || e.Attr.Mode != 0 {
			t.Errorf("unchecked changed an existing file: %+v", e.Attr)
		}
		e, err = create(u, top, "x", Unchecked, verf, SetAttr{SetSize: true})
		ok(t, "unchecked with size 0", err)
		if e.Attr.Size != 0 {
			t.Errorf("unchecked did not truncate: %+v", e.Attr)
		}
		_, err = u.mkdir(top, "d", 0o755)
		ok(t, "mkdir", err)
		_, err = create(u, top, "d", Unchecked, verf, SetAttr{})
		want(t, "unchecked over a directory", err, unix.EEXIST)
		_, err = create(u, top, "d", Exclusive, verf, SetAttr{})
		want(t, "exclusive over a directory", err, unix.EEXIST)
		e, err = create(u, top, "x", Exclusive, verf, SetAttr{})
		want(t, "exclusive after times changed", err, unix.EEXIST)
		_ = e
		e, err = create(u, top, "y", Exclusive, verf, SetAttr{})
		ok(t, "exclusive", err)
		u.th.asServer() // as a new process would be
		b.restart()
		u2 := b.user(b.newThread(), 1000, 1000)
		defer u2.th.Close()
		e2, err = create(u2, top, "y", Exclusive, verf, SetAttr{})
		ok(t, "exclusive after a restart", err)
		if string(e.Handle.Bytes()) != string(e2.Handle.Bytes()) {
			t.Error("the try after a restart found another file")
		}
	})
}

func TestCommit(t *testing.T) {
	d := exportDir(t)
	b := newBench(t, d+" *(rw,no_root_squash)\n")
	b.as(1000, 1000, func(u *user) {
		top := u.mount(d)
		fh, _, err := u.create(top, "f", 0o644)
		ok(t, "create", err)
		w, err := u.write(fh, 0, "unstable")
		ok(t, "write", err)
		ok(t, "commit", u.do(fh, func(v *View, n Node) error {
			verf, c, err := v.Commit(n, 0, 0)
			if verf != w.Verf || !c.BeforeOK || !c.AfterOK {
				t.Errorf("commit: %v %v %+v", verf, w.Verf, c)
			}
			return err
		}))
		u.c.MayBlock = false
		for _, stable := range []uint32{dataio.DataSync, dataio.FileSync} {
			want(t, "a stable write where it may not sleep", u.do(fh, func(v *View, n Node) error {
				_, err := v.Write(n, 0, []byte("x"), stable)
				return err
			}), ErrWouldBlock)
		}
		want(t, "commit where it may not sleep", u.do(fh, func(v *View, n Node) error { _, _, err := v.Commit(n, 0, 0); return err }), ErrWouldBlock)
		want(t, "remove where it may not sleep", u.remove(top, "f"), ErrWouldBlock)
		if u.th.asServer(); !exists(d, "f") {
			t.Error("it was removed all the same")
		}
		u.c.MayBlock = true
		for _, stable := range []uint32{dataio.Unstable, dataio.DataSync, dataio.FileSync} {
			ok(t, "write", u.do(fh, func(v *View, n Node) error {
				w, err := v.Write(n, 0, []byte("x"), stable)
				if w.Committed != stable || w.N != 1 {
					t.Errorf("stable %d: %+v", stable, w)
				}
				return err
			}))
		}
	})
}
