// REMOVE, RMDIR and RENAME: what takes names away.
//
// A file that loses a name is looked up first, so that what the cache keeps open of it can go: its data descriptors before
// (file systems that hide open files instead of removing them would not remove it), and its place in the cache after, if
// that was its last name, so that its space comes back.

package vfs

import (
	"unsafe"

	"golang.org/x/sys/unix"

	"sluice/pkg/filecache"
)

// bigFile is the size in bytes from which a file's last descriptor is closed in the background: the kernel frees its blocks
// in that close.
const bigFile = 64 << 20

// victim is a file about to lose a name.
type victim struct {
	key filecache.Key
	f   *filecache.File
}

// takeOut finds the cached file of a name, if there is one, and closes its data descriptors, unless somebody's state of the
// file stands in the way. Credentials are the caller's.
func (v *View) takeOut(dir Node, name []byte, spare *filecache.Key) (x victim, err error) {
	th := v.th
	if th.nameToHandle(dir.f.PathFD(), name, dir.handleFlags()) != 0 || th.mntID != dir.m.mntID || !v.foundKey(dir.m) {
		return x, nil
	}
	x.key = th.key
	if spare != nil && *spare == x.key {
		return x, nil // a rename onto another name of the same file removes nothing
	}
	if err := v.guardNames(dir, name); err != nil {
		return victim{}, err
	}
	f, ok := v.ns.cfg.Cache.Get(&x.key)
	if !ok {
		v.forgetAliases(dir.m, &x.key, false)
		return x, nil
	}
	x.f = f
	v.ns.cfg.Cache.CloseData(&x.key)
	v.forgetAliases(dir.m, &x.key, false)
	return x, nil
}

// forgetAliases does for the same file as other exports know it what was done for key: closes its data descriptors, or
// forgets it.
func (v *View) forgetAliases(m *fsMount, key *filecache.Key, gone bool) {
	p := v.ns.aliases.Load()
	if p == nil {
		return
	}
	k := *key
	for _, fs := range (*p)[m.dev] {
		if k.FS = fs; fs == key.FS {
			continue
		}
		if gone {
			v.ns.cfg.Cache.Forget(&k)
		} else {
			v.ns.cfg.Cache.CloseData(&k)
		}
	}
}

// done ends what takeOut began; removed says that the name is gone.
func (x *victim) done(v *View, dir Node, removed bool) {
	if x.f == nil {
		return
	}
	big := false
	if removed && v.th.statx(x.f.PathFD(), dir.m.local) == 0 {
		stx := &v.th.stx
		// An empty directory that was removed may keep a link count (btrfs shows 1 always).
		if stx.Nlink == 0 || stx.Mode&unix.S_IFMT == unix.S_IFDIR {
			v.ns.cfg.Cache.Forget(&x.key)
			v.forgetAliases(dir.m, &x.key, true)
			big = stx.Blocks*512 >= bigFile
		}
	}
	if big {
		go x.f.Release()
		return
	}
	x.f.Release()
}

// Remove removes a name that is not a directory.
func (v *View) Remove(dir Node, name []byte) (Change, error) {
	if dir.Type() == TypeDir && (isDot(name) || isDotDot(name)) {
		return Change{}, unix.EACCES // as Linux
	}
	return v.unlink(dir, name, 0)
}

// Rmdir removes an empty directory. For "." and ".." RFC 1813 3.3.13 has errors of their own.
func (v *View) Rmdir(dir Node, name []byte) (Change, error) {
	if dir.Type() == TypeDir {
		if isDot(name) {
			return Change{}, unix.EINVAL
		}
		if isDotDot(name) {
			return Change{}, unix.EEXIST
		}
	}
	return v.unlink(dir, name, unix.AT_REMOVEDIR)
}

func (v *View) unlink(dir Node, name []byte, flags uintptr) (c Change, err error) {
	if dir.Type() != TypeDir {
		return c, unix.ENOTDIR
	}
	if err = checkName(name); err != nil {
		return c, err
	}
	if err = v.begin(dir.m); err != nil {
		return c, err
	}
	var x victim
	err = v.changeDir(dir, &c, func() error {
		if x, err = v.takeOut(dir, name, nil); err != nil {
			return err
		}
		v.become()
		cname(v.th.name[:], name)
		for {
			_, _, e := unix.Syscall(unix.SYS_UNLINKAT, uintptr(dir.f.PathFD()), uintptr(unsafe.Pointer(&v.th.name[0])), flags)
			if e != unix.EINTR {
				return v.stale(dir, e)
			}
		}
	})
	x.done(v, dir, err == nil)
	if err == nil {
		err = v.syncDir(dir)
	}
	return c, err
}

// Rename moves a name, replacing the target. If both are names of one file, nothing happens (RFC 1813 3.3.14). "." and ".."
// are EINVAL.
func (v *View) Rename(fromDir Node, from []byte, toDir Node, to []byte) (fc, tc Change, err error) {
	if fromDir.Type() != TypeDir || toDir.Type() != TypeDir {
		return fc, tc, unix.ENOTDIR
	}
	if isDot(from) || isDotDot(from) || isDot(to) || isDotDot(to) {
		return fc, tc, unix.EINVAL
	}
	if err = checkName(from); err == nil {
		err = checkName(to)
	}
	if err != nil {
		return fc, tc, err
	}
	if fromDir.m != toDir.m {
		return fc, tc, unix.EXDEV
	}
	if err = v.begin(fromDir.m); err != nil {
		return fc, tc, err
	}
	same := fromDir.f == toDir.f
	var x victim
	op := func() error {
		x, err = v.rename(fromDir, from, toDir, to)
		return err
	}
	if same {
		err = v.changeDir(fromDir, &fc, op)
		tc = fc
	} else {
		err = v.changeDir(fromDir, &fc, func() error { return v.changeDir(toDir, &tc, op) })
	}
	x.done(v, toDir, err == nil)
	if err == nil {
		err = v.syncDir(toDir)
		if !same {
			if e := v.syncDir(fromDir); err == nil {
				err = e
			}
		}
	}
	return fc, tc, err
}

// rename is Rename's system call, and what goes before it.
func (v *View) rename(fromDir Node, from []byte, toDir Node, to []byte) (x victim, err error) {
	th := v.th
	if e := th.nameToHandle(fromDir.f.PathFD(), from, fromDir.handleFlags()); e == 0 && v.foundKey(fromDir.m) {
		source := th.key
		if v.ns.guard != nil && fromDir.f != toDir.f {
			if err = v.mayName(toDir); err != nil {
				return x, err
			}
		}
		if th.mntID == fromDir.m.mntID {
			if err = v.guardNames(fromDir, from); err != nil {
				return x, err
			}
		}
		if x, err = v.takeOut(toDir, to, &source); err != nil {
			return x, err
		}
		v.become()
	}
	cname(th.name[:], from)
	cname(th.name2[:], to)
	for {
		_, _, e := unix.Syscall6(unix.SYS_RENAMEAT, uintptr(fromDir.f.PathFD()), uintptr(unsafe.Pointer(&th.name[0])),
			uintptr(toDir.f.PathFD()), uintptr(unsafe.Pointer(&th.name2[0])), 0, 0)
		if e != unix.EINTR {
			return x, v.stale(fromDir, e)
		}
	}
}
