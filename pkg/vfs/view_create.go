// CREATE, MKDIR, SYMLINK, MKNOD and LINK: what makes names.
//
// All but LINK run one plan (make): lock the directory, read its attributes, make the name under the caller's credentials,
// read the attributes again, unlock; open what was made, set what could not be given when it was made, put it on stable
// storage. The kernel checks permissions, gives set-group-ID directories' files their group, and applies default access
// lists; threads have no umask, so that modes are the client's.

package vfs

import (
	"bytes"
	"encoding/binary"
	"math"
	"unsafe"

	"golang.org/x/sys/unix"
)

// newName checks a name that is to be made in dir.
func newName(dir Node, name []byte) error {
	if dir.Type() != TypeDir {
		return unix.ENOTDIR
	}
	if isDot(name) || isDotDot(name) {
		return unix.EEXIST
	}
	return checkName(name)
}

// make makes a name by mk, which gets the directory's descriptor and the name in th.name. extra is what to set afterwards;
// nil for nothing.
func (v *View) make(dir Node, name []byte, extra *SetAttr, mk func(fd uintptr) unix.Errno) (e Entry, c Change, err error) {
	if err = newName(dir, name); err != nil {
		return e, c, err
	}
	if err = v.begin(dir.m); err != nil {
		return e, c, err
	}
	var n Node
	var found error
	if err = v.changeDir(dir, &c, func() error {
		cname(v.th.name[:], name)
		if e := mk(uintptr(dir.f.PathFD())); e != 0 {
			return v.stale(dir, e)
		}
		n, found = v.find(dir, name)
		return nil
	}); err != nil {
		return e, c, err
	}
	if (found == ErrWouldBlock || found == ErrJukebox) && !v.c.MayBlock {
		// It has been made, so the call must not run again: here a service thread waits for a descriptor.
		v.c.MayBlock = true
		n, found = v.find(dir, name)
		v.c.MayBlock = false
	}
	if found != nil {
		// Without a handle the client looks the name up (RFC 1813 3.3.8, post_op_fh3).
		if extra == nil || extra.empty() {
			found = v.syncDir(dir)
		}
		return e, c, found
	}
	changed := extra != nil && !extra.empty()
	if changed {
		if err = v.attr(n, &e.Attr); err == nil {
			err = v.setattr(n, extra, &e.Attr)
		}
	}
	if serr := v.syncNew(dir, n, changed); err == nil {
		err = serr
	}
	if err == nil {
		if err = v.attr(n, &e.Attr); err == nil {
			v.handle(&e.Handle, n)
		}
	}
	return e, c, err
}

// changeDir runs op on a directory, under the caller's credentials and with the directory's attributes around it.
func (v *View) changeDir(dir Node, c *Change, op func() error) error {
	l, err := v.lock(&dir.f.Key, nil)
	if err != nil {
		return err
	}
	start := nanotime()
	c.BeforeOK = v.attr(dir, &c.Before) == nil
	v.become()
	err = op()
	c.AfterOK = v.attr(dir, &c.After) == nil
	l.unlock()
	if !v.c.MayBlock {
		dir.m.gate.done(v.th, start)
	}
	return err
}

// extras keeps of a client's attributes those that have to be set after the file was made. The mode has been given, and
// owner and group are the superuser's to choose: Linux ignores them from others, since some clients send a group along that
// set-group-ID directories decide anyway (fs/nfsd/vfs.c, nfsd_create_setattr).
func (v *View) extras(s *SetAttr) *SetAttr {
	x := *s
	x.SetMode = false
	x.Guard = false
	if v.uid != 0 {
		x.SetUID, x.SetGID = false, false
	}
	return &x
}

// modeOf is the mode to make a file with: none asked for is none given.
func modeOf(s *SetAttr) uint32 {
	if !s.SetMode {
		return 0
	}
	return s.Mode & 0o7777
}

func (th *Thread) mknod(fd uintptr, mode uint32, dev uint64) unix.Errno {
	for {
		_, _, e := unix.Syscall6(unix.SYS_MKNODAT, fd, uintptr(unsafe.Pointer(&th.name[0])), uintptr(mode), uintptr(dev), 0, 0)
		if e != unix.EINTR {
			return e
		}
	}
}

// Create makes a regular file. verf is for Exclusive.
//
// The verifier is kept where Linux keeps it, in the new file's times: it has to be on stable storage with the file, also
// on file systems without extended attributes, and the client sets the times next anyway (RFC 1813 3.3.8). Of each half
// the top bit is lost, as there.
func (v *View) Create(dir Node, name []byte, how CreateHow, verf [8]byte, s *SetAttr) (Entry, Change, error) {
	var mode uint32
	var extra *SetAttr
	if how == Exclusive {
		extra = &SetAttr{AtimeHow: TimeClient, MtimeHow: TimeClient,
			Mtime: Time{Sec: int64(binary.BigEndian.Uint32(verf[:4]) & math.MaxInt32)},
			Atime: Time{Sec: int64(binary.BigEndian.Uint32(verf[4:]) & math.MaxInt32)}}
	} else {
		mode, extra = modeOf(s), v.extras(s)
		if extra.SetSize && extra.Size == 0 {
			extra.SetSize = false
		}
	}
	e, c, err := v.make(dir, name, extra, func(fd uintptr) unix.Errno { return v.th.mknod(fd, unix.S_IFREG|mode, 0) })
	if err != unix.EEXIST || how == Guarded || isDot(name) || isDotDot(name) {
		return e, c, err
	}
	// The name is there: taken as it is (Unchecked), or this call's own first try (Exclusive).
	v.become()
	n, ferr := v.find(dir, name)
	switch {
	case ferr == ErrWouldBlock:
		return e, c, ferr // nothing has been done
	case ferr != nil:
		return e, c, ferr
	case n.Type() != TypeReg:
		return e, c, err
	}
	if aerr := v.attr(n, &e.Attr); aerr != nil {
		return e, c, aerr
	}
	if how == Exclusive {
		if e.Attr.Size != 0 || e.Attr.Mtime != extra.Mtime || e.Attr.Atime != extra.Atime {
			return Entry{}, c, err
		}
	} else if s.SetSize {
		size := SetAttr{SetSize: true, Size: s.Size}
		if _, err := v.Setattr(n, &size); err != nil {
			return Entry{}, c, err
		}
	}
	// The first try may have failed before its name was on stable storage.
	if err := v.syncNew(dir, n, how == Exclusive); err != nil {
		return Entry{}, c, err
	}
	if err := v.attr(n, &e.Attr); err != nil {
		return Entry{}, c, err
	}
	v.handle(&e.Handle, n)
	return e, c, nil
}

// Mkdir makes a directory.
func (v *View) Mkdir(dir Node, name []byte, s *SetAttr) (Entry, Change, error) {
	mode := modeOf(s)
	return v.make(dir, name, v.extras(s), func(fd uintptr) unix.Errno {
		for {
			_, _, e := unix.Syscall(unix.SYS_MKDIRAT, fd, uintptr(unsafe.Pointer(&v.th.name[0])), uintptr(mode))
			if e != unix.EINTR {
				return e
			}
		}
	})
}

// Symlink makes a symbolic link. Its mode is ignored, as Linux has none.
func (v *View) Symlink(dir Node, name, target []byte, s *SetAttr) (Entry, Change, error) {
	if len(target) > MaxPath {
		return Entry{}, Change{}, unix.ENAMETOOLONG
	}
	if len(target) == 0 || bytes.IndexByte(target, 0) >= 0 {
		return Entry{}, Change{}, unix.EINVAL
	}
	return v.make(dir, name, v.extras(s), func(fd uintptr) unix.Errno {
		cname(v.th.name2[:], target)
		for {
			_, _, e := unix.Syscall(unix.SYS_SYMLINKAT, uintptr(unsafe.Pointer(&v.th.name2[0])), fd, uintptr(unsafe.Pointer(&v.th.name[0])))
			if e != unix.EINTR {
				return e
			}
		}
	})
}

// Mknod makes a device node, socket or FIFO.
func (v *View) Mknod(dir Node, name []byte, t Type, major, minor uint32, s *SetAttr) (Entry, Change, error) {
	mode, dev := modeOf(s), uint64(0)
	switch t {
	case TypeChr, TypeBlk:
		if major > 0xfff || minor > 0xfffff {
			return Entry{}, Change{}, unix.EINVAL // the system call has 12 and 20 bits
		}
		dev = unix.Mkdev(major, minor)
		mode |= map[Type]uint32{TypeChr: unix.S_IFCHR, TypeBlk: unix.S_IFBLK}[t]
	case TypeSock:
		mode |= unix.S_IFSOCK
	case TypeFifo:
		mode |= unix.S_IFIFO
	default:
		return Entry{}, Change{}, ErrBadType
	}
	return v.make(dir, name, v.extras(s), func(fd uintptr) unix.Errno { return v.th.mknod(fd, mode, dev) })
}

// Link makes a hard link to n.
func (v *View) Link(n Node, dir Node, name []byte) (a Attr, c Change, err error) {
	if n.Type() == TypeDir {
		return a, c, unix.EISDIR
	}
	if err = newName(dir, name); err != nil {
		return a, c, err
	}
	if n.m != dir.m {
		return a, c, unix.EXDEV
	}
	if err = v.begin(dir.m); err != nil {
		return a, c, err
	}
	th := v.th
	err = v.changeDir(dir, &c, func() error {
		cname(th.name[:], name)
		for {
			// By way of /proc: linkat with AT_EMPTY_PATH wants a capability that callers lack.
			_, _, e := unix.Syscall6(unix.SYS_LINKAT, uintptr(v.ns.procFD), uintptr(unsafe.Pointer(th.procName(n.f.PathFD()))),
				uintptr(dir.f.PathFD()), uintptr(unsafe.Pointer(&th.name[0])), unix.AT_SYMLINK_FOLLOW, 0)
			if e != unix.EINTR {
				return v.stale(dir, e)
			}
		}
	})
	if err == nil {
		err = v.syncDir(dir)
	}
	v.attr(n, &a) //nolint:errcheck // optional
	return a, c, err
}
