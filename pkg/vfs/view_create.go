// CREATE, MKDIR, SYMLINK, MKNOD and LINK: what makes names.
//
// The plan: make the name under the caller's credentials, with the directory's attributes read before and after; open what
// was made; set what could not be given when it was made; put it on stable storage. The kernel checks permissions, gives
// set-group-ID directories' files their group, and applies default access lists; threads have no umask, so that modes are
// the client's.
//
// A regular file is opened by the call that makes it. The others have to be found by their name afterwards, which may have
// come to mean something else by then: so nothing is set on what is not of the right kind and owner. Once a name has been
// made the call can no longer fail for want of a descriptor: the reply then goes without a handle, which RFC 1813 3.3.8
// allows (post_op_fh3), and the client looks the name up.

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
	if dir.p != nil {
		return unix.EROFS
	}
	if isDot(name) || isDotDot(name) {
		return unix.EEXIST
	}
	return checkName(name)
}

// make makes a name of type t by mk, which gets the directory's descriptor and the name in th.name. extra is what to set
// afterwards; nil for nothing.
func (v *View) make(dir Node, name []byte, t Type, extra *SetAttr, mk func(fd uintptr) unix.Errno) (e Entry, c Change, err error) {
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
		return v.stale(dir, mk(uintptr(dir.f.PathFD())))
	}); err != nil {
		return e, c, err
	}
	if n, found = v.find(dir, name); found == ErrWouldBlock || found == ErrJukebox {
		mayBlock := v.c.MayBlock
		v.c.MayBlock = true // the call must not run again: here a service thread waits
		n, found = v.find(dir, name)
		v.c.MayBlock = mayBlock
	}
	// What others put in the name's place they could only get changed that the caller may change himself, and the kernel
	// sees to that; but the superuser may change everything.
	give := extra != nil && (extra.SetUID || extra.SetGID)
	if found == nil && (n.Type() != t || give && (v.attr(n, &e.Attr) != nil || e.Attr.UID != v.uid)) {
		found = ErrStale
	}
	return v.finish(dir, n, found, extra, c)
}

// finish sets and syncs what was made. found says why n is not known.
func (v *View) finish(dir, n Node, found error, extra *SetAttr, c Change) (e Entry, _ Change, err error) {
	if found != nil {
		return e, c, v.syncDir(dir) // it has been made: sent again, the call would meet its own name
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
	if err != nil {
		return Entry{}, c, err
	}
	if v.attr(n, &e.Attr) == nil {
		v.handle(&e.Handle, n)
	}
	return e, c, nil
}

// makeFile makes a regular file.
func (v *View) makeFile(dir Node, name []byte, mode uint32, extra *SetAttr) (e Entry, c Change, err error) {
	if err = newName(dir, name); err != nil {
		return e, c, err
	}
	th, m, cache := v.th, dir.m, v.ns.cfg.Cache
	if m.connect {
		return v.make(dir, name, TypeReg, extra, func(fd uintptr) unix.Errno { return th.mknod(fd, unix.S_IFREG|mode, 0) })
	}
	if err = v.begin(m); err != nil {
		return e, c, err
	}
	fd := -1
	if err = v.changeDir(dir, &c, func() (err error) {
		fd, err = cache.Room(v.c.MayBlock, func() (int, error) {
			cname(th.name[:], name)
			for {
				fd, _, e := unix.Syscall6(unix.SYS_OPENAT, uintptr(dir.f.PathFD()), uintptr(unsafe.Pointer(&th.name[0])),
					unix.O_CREAT|unix.O_EXCL|unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, uintptr(mode), 0, 0)
				if e == 0 {
					return int(fd), nil
				}
				if e != unix.EINTR {
					return -1, e
				}
			}
		})
		if err == unix.EAGAIN {
			return ErrWouldBlock
		}
		return v.stale(dir, errnoOf(err))
	}); err != nil {
		return e, c, err
	}
	n, found := v.ofNew(fd, dir)
	unix.Close(fd)
	return v.finish(dir, n, found, extra, c)
}

// ofNew caches a file just made in dir, of which fd is a descriptor.
func (v *View) ofNew(fd int, dir Node) (Node, error) {
	th, m := v.th, dir.m
	if e := th.fdToHandle(fd, 0); e != 0 {
		return Node{}, fail(e)
	}
	if th.mntID != m.mntID || !v.foundKey(m) {
		return Node{}, ErrNotSupported
	}
	path, err := v.ns.cfg.Cache.Room(true, func() (int, error) {
		path, e := th.reopen(fd, unix.O_PATH)
		if e != 0 {
			return -1, e
		}
		return path, nil
	})
	if err != nil {
		return Node{}, fail(errnoOf(err))
	}
	f, err := v.adopt(path, m)
	if err != nil {
		return Node{}, err
	}
	th.hold(f)
	return Node{f: f, m: m, exp: dir.exp}, nil
}

// changeDir runs op, which changes a directory, under the caller's credentials and with the directory's attributes around
// it.
func (v *View) changeDir(dir Node, c *Change, op func() error) error {
	start := nanotime()
	span := v.ns.spans.begin(&dir.f.Key)
	c.BeforeOK = v.attr(dir, &c.Before) == nil
	v.become()
	err := op()
	c.AfterOK = v.attr(dir, &c.After) == nil
	if !v.ns.spans.end(&dir.f.Key, span) {
		c.Before, c.BeforeOK = Attr{}, false
	}
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
	return s.Mode &^ s.KeepMode & 0o7777
}

func (th *Thread) mknod(fd uintptr, mode uint32, dev uint64) unix.Errno {
	for {
		_, _, e := unix.Syscall6(unix.SYS_MKNODAT, fd, uintptr(unsafe.Pointer(&th.name[0])), uintptr(mode), uintptr(dev), 0, 0)
		if e != unix.EINTR {
			return e
		}
	}
}

// Create makes a regular file. verf is for Exclusive, which takes no attributes, and for Exclusive41, which takes those that
// it does not need for itself: of s the times are ignored.
//
// The verifier is kept where Linux keeps it, in the new file's times: it has to be on stable storage with the file, also
// on file systems without extended attributes, and the client sets the times next anyway (RFC 1813 3.3.8). Of each half
// the top bit is lost, as there.
func (v *View) Create(dir Node, name []byte, how CreateHow, verf [8]byte, s *SetAttr) (Entry, Change, error) {
	var mode uint32
	var extra *SetAttr
	exclusive := how == Exclusive || how == Exclusive41
	if how == Exclusive {
		extra = new(SetAttr)
	} else {
		mode, extra = modeOf(s), v.extras(s)
		if extra.SetSize && extra.Size == 0 {
			extra.SetSize = false
		}
		if s.SetUmask {
			unix.Umask(int(s.Umask & 0o777)) // this thread's alone
			defer unix.Umask(0)
		}
	}
	if exclusive {
		extra.AtimeHow, extra.MtimeHow = TimeClient, TimeClient
		extra.Mtime = Time{Sec: int64(binary.BigEndian.Uint32(verf[:4]) & math.MaxInt32)}
		extra.Atime = Time{Sec: int64(binary.BigEndian.Uint32(verf[4:]) & math.MaxInt32)}
	}
	e, c, err := v.makeFile(dir, name, mode, extra)
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
	if exclusive {
		// Seconds only, as Linux: not every file system keeps the rest.
		size := uint64(0)
		if extra.SetSize {
			size = extra.Size
		}
		if e.Attr.Size != size || e.Attr.Mtime.Sec != extra.Mtime.Sec || e.Attr.Atime.Sec != extra.Atime.Sec {
			return Entry{}, c, err
		}
	} else if s.SetSize {
		size := SetAttr{SetSize: true, Size: s.Size}
		if _, err := v.Setattr(n, &size); err != nil {
			return Entry{}, c, err
		}
	}
	// The first try may have failed before its name was on stable storage.
	if err := v.syncNew(dir, n, exclusive); err != nil {
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
	if s.SetUmask {
		unix.Umask(int(s.Umask & 0o777))
		defer unix.Umask(0)
	}
	mode := modeOf(s)
	return v.make(dir, name, TypeDir, v.extras(s), func(fd uintptr) unix.Errno {
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
	return v.make(dir, name, TypeLnk, v.extras(s), func(fd uintptr) unix.Errno {
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
	if s.SetUmask {
		unix.Umask(int(s.Umask & 0o777))
		defer unix.Umask(0)
	}
	return v.make(dir, name, t, v.extras(s), func(fd uintptr) unix.Errno { return v.th.mknod(fd, mode, dev) })
}

// Link makes a hard link to n. It is the caller's own link(2), so that fs.protected_hardlinks holds here too: EPERM for files
// that the caller neither owns nor may write. (The kernel's server goes below that check.)
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
	if err = v.guardLink(n, dir); err != nil {
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
