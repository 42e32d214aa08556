package vfs

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// threadStatus reads what the kernel says of this thread's ids.
func threadStatus(t testing.TB) (fsuid, fsgid string, groups []string, caps string) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/self/task/%d/status", unix.Gettid()))
	if err != nil {
		t.Error(err)
		return
	}
	for _, l := range strings.Split(string(b), "\n") {
		f := strings.Fields(l)
		switch {
		case strings.HasPrefix(l, "Uid:"):
			fsuid = f[4]
		case strings.HasPrefix(l, "Gid:"):
			fsgid = f[4]
		case strings.HasPrefix(l, "Groups:"):
			groups = f[1:]
		case strings.HasPrefix(l, "CapEff:"):
			caps = f[1]
		}
	}
	return
}

func TestCredentialsOfAThread(t *testing.T) {
	d := exportDir(t)
	b := newBench(t, d+" *(rw,no_root_squash)\n")
	uid0, gid0, groups0, _ := threadStatus(t)
	umask := unix.Umask(0o27)
	b.on(func(th *Thread) {
		check := func(uid, gid uint32, groups ...uint32) {
			t.Helper()
			u, g, gs, caps := threadStatus(t)
			var w []string
			for _, x := range groups {
				w = append(w, fmt.Sprint(x))
			}
			if u != fmt.Sprint(uid) || g != fmt.Sprint(gid) || !slices.Equal(gs, w) {
				t.Errorf("the thread has %s %s %v, want %d %d %v", u, g, gs, uid, gid, groups)
			}
			var eff uint64
			fmt.Sscanf(caps, "%x", &eff)
			const fs = 1<<unix.CAP_CHOWN | 1<<unix.CAP_DAC_OVERRIDE | 1<<unix.CAP_DAC_READ_SEARCH | 1<<unix.CAP_FOWNER | 1<<unix.CAP_FSETID | 1<<unix.CAP_MKNOD
			if (uid == 0) != (eff&fs == fs) || uid != 0 && eff&fs != 0 || eff&(1<<unix.CAP_SYS_RESOURCE) != 0 {
				t.Errorf("uid %d has capabilities %x", uid, eff)
			}
		}
		th.become(1000, 1001, []uint32{5, 6, 7})
		check(1000, 1001, 5, 6, 7)
		n := th.switches
		th.become(1000, 1001, []uint32{5, 6, 7})
		if th.switches != n {
			t.Error("the same credentials were set again")
		}
		th.become(1000, 1001, []uint32{5, 6})
		check(1000, 1001, 5, 6)
		th.asServer()
		check(0, 1001, 5, 6)
		th.become(1000, 1001, nil)
		check(1000, 1001)
		err := th.runAsServer(func() error { check(0, 1001); return unix.EIO })
		want(t, "runAsServer", err, unix.EIO)
		check(1000, 1001)
		th.become(0, 0, nil)
		check(0, 0)
		th.become(65534, 65534, nil)
		check(65534, 65534)
	})
	uid, gid, groups, _ := threadStatus(t)
	if uid != uid0 || gid != gid0 || !slices.Equal(groups, groups0) {
		t.Error("another thread's credentials changed")
	}
	if m := unix.Umask(umask); m != 0o27 {
		t.Errorf("a thread of the server changed the umask of all to %o", m)
	}
}

// A thread that does not have the ids it should have must not go on.
func TestThreadDies(t *testing.T) {
	b := newBench(t, exportDir(t)+" *(rw)\n")
	died := make(chan bool, 1)
	b.ns.onDie = func() { died <- true }
	done := make(chan struct{})
	go b.testDeath(done)
	<-done
	select {
	case <-died:
	default:
		t.Error("a thread with wrong ids went on")
	}
}

func (b *bench) testDeath(done chan struct{}) {
	defer close(done)
	lockForGood()
	th, err := b.ns.NewThread()
	if err != nil {
		b.t.Error(err)
		return
	}
	defer func() {
		b.ns.mu.Lock()
		delete(b.ns.threads, th)
		b.ns.mu.Unlock()
		th.data.Close()
	}()
	th.kept.uid = 4711 // not what the kernel has
	th.verify()
	b.t.Error("verify came back")
}

// Random operations as random users, with a look at the thread after each.
func TestCredentialsAfterRandomMixes(t *testing.T) {
	d := exportDir(t)
	b := newBench(t, d+" *(rw,no_root_squash)\n")
	rng := rand.New(rand.NewPCG(1, 2))
	b.on(func(th *Thread) {
		u := b.user(th, 0, 0)
		root := u.mount(d)
		for i := range 300 {
			u.c.Cred.UID = []uint32{0, 1000, 1001, 65534}[rng.IntN(4)]
			u.c.Cred.GID = []uint32{0, 1000, 2000}[rng.IntN(3)]
			u.c.Cred.Groups = [][]uint32{nil, {7}, {7, 8, 9}}[rng.IntN(3)]
			name := fmt.Sprintf("f%d", rng.IntN(20))
			fh, _, err := u.lookup(root, name)
			switch rng.IntN(6) {
			case 0:
				u.create(root, name, uint32(rng.IntN(0o777)))
			case 1:
				u.remove(root, name)
			case 2:
				u.list(root, true, 5)
			case 3:
				if err == nil {
					u.setattr(fh, SetAttr{SetMode: true, Mode: 0o600})
				}
			case 4:
				if err == nil {
					u.write(fh, 0, "x")
				}
			case 5:
				if err == nil {
					u.read(fh, 0, 5)
				}
			}
			uid, gid, groups, _ := threadStatus(t)
			k := &th.kept
			if uid != fmt.Sprint(k.uid) || gid != fmt.Sprint(k.gid) || len(groups) != k.n {
				t.Fatalf("after %d operations the thread has %s %s %v and believes %d %d %v", i, uid, gid, groups, k.uid, k.gid, k.groups[:k.n])
			}
		}
	})
}

func TestTwoUsers(t *testing.T) {
	d := exportDir(t)
	b := newBench(t, d+" *(rw,no_root_squash)\n")
	b.on(func(th *Thread) {
		alice, bob, root := b.user(th, 1000, 1000), b.user(th, 1001, 1001, 50), b.user(th, 0, 0)
		top := alice.mount(d)
		secret, a, err := alice.create(top, "secret", 0o600)
		ok(t, "create", err)
		if a.UID != 1000 || a.GID != 1000 {
			t.Errorf("the file is %d:%d's", a.UID, a.GID)
		}
		_, err = alice.write(secret, 0, "mine")
		ok(t, "write", err)
		_, _, err = bob.read(secret, 0, 10)
		want(t, "read of another's file", err, unix.EACCES)
		_, err = bob.write(secret, 0, "x")
		want(t, "write of another's file", err, unix.EACCES)
		_, err = bob.setattr(secret, SetAttr{SetMode: true, Mode: 0o777})
		want(t, "chmod of another's file", err, unix.EPERM)
		_, err = bob.setattr(secret, SetAttr{SetSize: true})
		want(t, "truncate of another's file", err, unix.EACCES)
		_, err = bob.setattr(secret, SetAttr{SetUID: true, UID: 1001})
		want(t, "chown of another's file", err, unix.EPERM)
		if data, _, err := root.read(secret, 0, 10); err != nil || data != "mine" {
			t.Errorf("root reads %q, %v", data, err)
		}

		// A grant ends with the mode that it was given under.
		_, err = alice.setattr(secret, SetAttr{SetMode: true, Mode: 0o644})
		ok(t, "chmod", err)
		for range 3 {
			if data, _, err := bob.read(secret, 0, 10); err != nil || data != "mine" {
				t.Errorf("bob reads %q, %v", data, err)
			}
		}
		_, err = alice.setattr(secret, SetAttr{SetMode: true, Mode: 0o600})
		ok(t, "chmod", err)
		_, _, err = bob.read(secret, 0, 10)
		want(t, "read after the permission went", err, unix.EACCES)

		// Owners read and write whatever the mode; others may read what they may execute.
		ro, _, err := alice.create(top, "readonly", 0o444)
		ok(t, "create", err)
		_, err = alice.write(ro, 0, "still being written")
		ok(t, "write of a file created 0444", err)
		none, _, err := alice.create(top, "none", 0)
		ok(t, "create", err)
		_, err = alice.write(none, 0, "12")
		ok(t, "write of a file created 0000", err)
		_, _, err = alice.read(none, 0, 1)
		ok(t, "read of it", err)
		_, err = alice.setattr(none, SetAttr{SetSize: true, Size: 1})
		ok(t, "truncate of it", err)
		exe, _, err := alice.create(top, "exe", 0o711)
		ok(t, "create", err)
		_, err = alice.write(exe, 0, "code")
		ok(t, "write", err)
		if data, _, err := bob.read(exe, 0, 10); err != nil || data != "code" {
			t.Errorf("read of an executable: %q, %v", data, err)
		}
		_, err = bob.write(exe, 0, "x")
		want(t, "write of an executable", err, unix.EACCES)

		// By group.
		grp, _, err := alice.create(top, "grp", 0o640)
		ok(t, "create", err)
		_, err = root.setattr(grp, SetAttr{SetGID: true, GID: 50})
		ok(t, "chgrp", err)
		_, _, err = bob.read(grp, 0, 1)
		ok(t, "read by a supplementary group", err)
		bob.c.Cred.Groups = nil
		_, _, err = bob.read(grp, 0, 1)
		want(t, "read without the group", err, unix.EACCES)

		// Directories.
		priv, err := alice.mkdir(top, "priv", 0o700)
		ok(t, "mkdir", err)
		_, _, err = alice.create(priv, "in", 0o644)
		ok(t, "create", err)
		_, _, err = bob.lookup(priv, "in")
		want(t, "lookup in another's directory", err, unix.EACCES)
		_, _, err = bob.lookup(priv, ".")
		want(t, "lookup of . there", err, unix.EACCES)
		_, err = bob.list(priv, false, 10)
		want(t, "list of another's directory", err, unix.EACCES)
		_, _, err = bob.create(priv, "x", 0o644)
		want(t, "create in another's directory", err, unix.EACCES)
		want(t, "remove from another's directory", bob.remove(priv, "in"), unix.EACCES)
		sticky, err := alice.mkdir(top, "sticky", 0o1777)
		ok(t, "mkdir", err)
		if a, _ := alice.getattr(sticky); a.Mode != 0o1777 {
			t.Errorf("sticky directory: %o", a.Mode)
		}
		_, _, err = alice.create(sticky, "mine", 0o666)
		ok(t, "create", err)
		want(t, "remove from a sticky directory", bob.remove(sticky, "mine"), unix.EPERM)
		readable, err := alice.mkdir(top, "readable", 0o744)
		ok(t, "mkdir", err)
		_, _, err = alice.create(readable, "in", 0o644)
		ok(t, "create", err)
		names, err := bob.list(readable, true, 10)
		ok(t, "list of a directory that may not be searched", err)
		if len(names) != 3 {
			t.Errorf("listed %q", names)
		}

		// Set-group-ID directories, and set-user-ID bits.
		sg, err := root.mkdir(top, "sg", 0o777)
		ok(t, "mkdir", err)
		_, err = root.setattr(sg, SetAttr{SetGID: true, GID: 777, SetMode: true, Mode: 0o2777})
		ok(t, "chmod g+s", err)
		_, a, err = alice.create(sg, "f", 0o644)
		ok(t, "create", err)
		if a.GID != 777 {
			t.Errorf("the file in a set-group-ID directory has group %d", a.GID)
		}
		sub, err := alice.mkdir(sg, "d", 0o755)
		ok(t, "mkdir", err)
		if a, _ := alice.getattr(sub); a.GID != 777 || a.Mode != 0o2755 {
			t.Errorf("the directory in a set-group-ID directory: group %d mode %o", a.GID, a.Mode)
		}
		su, a, err := alice.create(top, "su", 0o6777)
		ok(t, "create", err)
		if a.Mode != 0o6777 {
			t.Errorf("mode %o", a.Mode)
		}
		w, err := bob.write(su, 0, "x")
		ok(t, "write", err)
		if w.Change.After.Mode != 0o777 {
			t.Errorf("another's write left mode %o", w.Change.After.Mode)
		}
		_, err = alice.setattr(su, SetAttr{SetMode: true, Mode: 0o6777})
		ok(t, "chmod", err)
		c, err := root.setattr(su, SetAttr{SetUID: true, UID: 1001, SetMode: true, Mode: 0o6755})
		ok(t, "chown", err)
		if c.After.UID != 1001 || c.After.Mode != 0o755 {
			t.Errorf("after chown with a set-user-ID mode: %d %o", c.After.UID, c.After.Mode)
		}

		// Devices are the superuser's.
		want(t, "mknod", alice.do(top, func(v *View, n Node) error {
			_, _, err := v.Mknod(n, []byte("dev"), TypeChr, 1, 3, &SetAttr{SetMode: true, Mode: 0o666})
			return err
		}), unix.EPERM)
		// Owner and group at creation are the superuser's to choose.
		ok(t, "create", alice.do(top, func(v *View, n Node) error {
			e, _, err := v.Create(n, []byte("owned"), Guarded, [8]byte{}, &SetAttr{SetUID: true, UID: 5, SetGID: true, GID: 5})
			if e.Attr.UID != 1000 || e.Attr.GID != 1000 || e.Attr.Mode != 0 {
				t.Errorf("created with %d:%d %o", e.Attr.UID, e.Attr.GID, e.Attr.Mode)
			}
			return err
		}))
		ok(t, "create", root.do(top, func(v *View, n Node) error {
			e, _, err := v.Create(n, []byte("given"), Guarded, [8]byte{}, &SetAttr{SetUID: true, UID: 5, SetGID: true, GID: 6, SetMode: true, Mode: 0o600, SetSize: true, Size: 99})
			if e.Attr.UID != 5 || e.Attr.GID != 6 || e.Attr.Mode != 0o600 || e.Attr.Size != 99 {
				t.Errorf("created with %+v", e.Attr)
			}
			return err
		}))
	})
}

func TestAccess(t *testing.T) {
	d := exportDir(t)
	os.WriteFile(filepath.Join(d, "rx"), nil, 0o600)
	os.Chmod(filepath.Join(d, "rx"), 0o754)
	os.Chown(filepath.Join(d, "rx"), 1000, 1000)
	os.Mkdir(filepath.Join(d, "dir"), 0o700)
	os.Chmod(filepath.Join(d, "dir"), 0o754)
	os.Chown(filepath.Join(d, "dir"), 1000, 1000)
	b := newBench(t, d+" *(rw,no_root_squash)\n")
	const file, dir = AccessRead | AccessModify | AccessExtend | AccessExecute, AccessRead | AccessLookup | AccessModify | AccessExtend | AccessDelete
	b.on(func(th *Thread) {
		top := b.user(th, 0, 0).mount(d)
		for _, c := range []struct {
			uid, gid uint32
			name     string
			granted  uint32
		}{
			{1000, 1000, "rx", file},
			{1001, 1000, "rx", AccessRead | AccessExecute},
			{1001, 1001, "rx", AccessRead},
			{0, 0, "rx", file},
			{1000, 1000, "dir", dir},
			{1001, 1000, "dir", AccessRead | AccessLookup},
			{1001, 1001, "dir", AccessRead},
			{0, 0, "dir", dir},
		} {
			u := b.user(th, c.uid, c.gid)
			fh, _, err := u.lookup(top, c.name)
			ok(t, "lookup", err)
			for range 2 { // asked and remembered
				ok(t, "access", u.do(fh, func(v *View, n Node) error {
					g, a, err := v.Access(n, 0x3f)
					if g != c.granted || !a.Valid() {
						t.Errorf("%s for %d:%d: %#x, want %#x", c.name, c.uid, c.gid, g, c.granted)
					}
					if g, _, _ := v.Access(n, AccessRead); g != AccessRead&c.granted {
						t.Errorf("%s: asked for read, granted %#x", c.name, g)
					}
					return err
				}))
			}
		}
	})
}

func TestSquash(t *testing.T) {
	for _, c := range []struct {
		opts                    string
		uid, gid, becomes, gets uint32
		flavor                  uint32
	}{
		{"root_squash", 0, 0, 65534, 65534, FlavorSys},
		{"root_squash", 1000, 0, 1000, 65534, FlavorSys},
		{"root_squash", 1000, 1000, 1000, 1000, FlavorSys},
		{"no_root_squash", 0, 0, 0, 0, FlavorSys},
		{"no_root_squash", 1<<32 - 1, 1<<32 - 1, 65534, 65534, FlavorSys},
		{"all_squash,anonuid=77,anongid=78", 1000, 1000, 77, 78, FlavorSys},
		{"anonuid=77,anongid=78", 0, 0, 77, 78, FlavorSys},
		{"no_root_squash,sec=sys:none", 0, 0, 65534, 65534, FlavorNone},
	} {
		t.Run(c.opts, func(t *testing.T) {
			d := exportDir(t)
			b := newBench(t, d+" *(rw,"+c.opts+")\n")
			b.as(c.uid, c.gid, func(u *user) {
				u.c.Cred.Flavor = c.flavor
				_, a, err := u.create(u.mount(d), "f", 0o644)
				ok(t, "create", err)
				if a.UID != c.becomes || a.GID != c.gets {
					t.Errorf("%d:%d created as %d:%d, want %d:%d", c.uid, c.gid, a.UID, a.GID, c.becomes, c.gets)
				}
			})
		})
	}
}

func TestSecureAndFlavors(t *testing.T) {
	d := exportDir(t)
	b := newBench(t, d+" 127.0.0.1(rw)\n")
	b.as(1000, 1000, func(u *user) {
		root := u.mount(d)
		u.c.Port = 1024
		_, err := u.getattr(root)
		want(t, "a port above 1023", err, unix.EPERM)
		_, _, err = b.ns.Mount(u.th, &u.c, d)
		want(t, "MOUNT from it", err, unix.EACCES)
		u.c.Port = 1023
		u.c.Cred.Flavor = FlavorNone
		_, err = u.getattr(root)
		want(t, "AUTH_NONE where sec=sys", err, unix.EACCES)
		u.c.Cred.Flavor = 6
		_, err = u.getattr(root)
		want(t, "a flavour without a name", err, unix.EACCES)
		u.c.Cred.Flavor = FlavorSys
		_, err = u.getattr(root)
		ok(t, "getattr", err)
		other := *u
		other.c.Memo = new(ClientMemo)
		other.c.Addr = other.c.Addr.Next()
		_, err = other.getattr(root)
		want(t, "another client", err, ErrStale)
		_, _, err = b.ns.Mount(u.th, &other.c, d)
		want(t, "its MOUNT", err, unix.EACCES)
		fresh := *u
		fresh.c.Memo, fresh.c.MayBlock = new(ClientMemo), false
		_, err = fresh.getattr(root)
		want(t, "a first call where it may not sleep", err, ErrWouldBlock)
	})
}
