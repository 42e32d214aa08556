// Extended attributes (RFC 8276): the names of the user namespace, which clients know without its prefix.
//
// System calls go by way of /proc/self/fd, since O_PATH descriptors take none of the f*xattr calls and the *xattrat calls
// are as new as Linux 6.13. Symbolic links, devices, sockets and FIFOs have no user attributes (xattr(7)); the kernel would
// say EPERM, and for a path through /proc of a link it must not be asked at all.

package vfs

import (
	"bytes"
	"strconv"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"

	"sluice/pkg/filecache"
)

const xattrPrefix = "user."

// maxXattrList is XATTR_LIST_MAX, in bytes.
const maxXattrList = 64 << 10

// xattrNode checks that n is of a kind that has attributes.
func xattrNode(n Node) error {
	if n.p != nil {
		return ErrNotSupported
	}
	if t := n.Type(); t != TypeReg && t != TypeDir {
		return unix.EPERM
	}
	return nil
}

// xattrName puts a name into th.name with its prefix.
func (th *Thread) xattrName(name []byte) error {
	if len(name) == 0 || bytes.IndexByte(name, 0) >= 0 {
		return unix.EINVAL
	}
	if len(name) > MaxXattrName {
		return unix.ENAMETOOLONG
	}
	n := copy(th.name[:], xattrPrefix)
	cname(th.name[n:], name)
	return nil
}

// procPath writes /proc/self/fd/N to th.path.
func (th *Thread) procPath(fd int) *byte {
	b := strconv.AppendUint(append(th.path[:0], "/proc/self/fd/"...), uint64(fd), 10)
	th.path[len(b)] = 0
	return &th.path[0]
}

// answer is what a file system was once asked and answered.
type answer struct{ atomic.Uint32 }

const (
	answerNo  = 1
	answerYes = 2
)

// supports asks n's file system, once, whether it knows an attribute.
func (v *View) supports(n Node, a *answer, name string) bool {
	if got := a.Load(); got != 0 {
		return got == answerYes
	}
	v.th.asServer()
	cname(v.th.name[:], []byte(name))
	switch _, e := v.th.getxattr(n.f.PathFD(), nil); e {
	case 0, unix.ENODATA:
		a.Store(answerYes)
		return true
	case unix.EOPNOTSUPP:
		a.Store(answerNo)
	}
	return false
}

// XattrSupport tells whether n can have extended attributes.
func (v *View) XattrSupport(n Node) bool {
	return xattrNode(n) == nil && v.supports(n, &n.m.hasXattr, xattrPrefix+"sluice")
}

func (th *Thread) getxattr(fd int, buf []byte) (int, unix.Errno) {
	var p unsafe.Pointer
	if len(buf) > 0 {
		p = unsafe.Pointer(&buf[0])
	}
	for {
		n, _, e := unix.Syscall6(unix.SYS_GETXATTR, uintptr(unsafe.Pointer(th.procPath(fd))), uintptr(unsafe.Pointer(&th.name[0])),
			uintptr(p), uintptr(len(buf)), 0, 0)
		if e != unix.EINTR {
			return int(n), e
		}
	}
}

func (th *Thread) setxattr(fd int, value []byte, flags int) unix.Errno {
	var p unsafe.Pointer
	if len(value) > 0 {
		p = unsafe.Pointer(&value[0])
	}
	for {
		_, _, e := unix.Syscall6(unix.SYS_SETXATTR, uintptr(unsafe.Pointer(th.procPath(fd))), uintptr(unsafe.Pointer(&th.name[0])),
			uintptr(p), uintptr(len(value)), uintptr(flags), 0)
		if e != unix.EINTR {
			return e
		}
	}
}

func (th *Thread) removexattr(fd int) unix.Errno {
	for {
		_, _, e := unix.Syscall(unix.SYS_REMOVEXATTR, uintptr(unsafe.Pointer(th.procPath(fd))), uintptr(unsafe.Pointer(&th.name[0])), 0)
		if e != unix.EINTR {
			return e
		}
	}
}

// Getxattr reads an attribute's value into buf, whose part it returns. ENODATA: there is none of that name; ERANGE: buf is
// too small; EPERM: n is neither a regular file nor a directory. As with Linux it is read access to the file that it takes.
func (v *View) Getxattr(n Node, name, buf []byte) ([]byte, error) {
	if err := xattrNode(n); err != nil {
		return nil, err
	}
	if err := v.th.xattrName(name); err != nil {
		return nil, err
	}
	if !v.mayBlock(n.m) {
		return nil, ErrWouldBlock
	}
	if err := v.stat(n); err != nil {
		return nil, err
	}
	if err := v.kernelMay(n, filecache.MayRead); err != nil {
		return nil, err
	}
	if err := v.guardRead(n); err != nil {
		return nil, err
	}
	v.become()
	if len(buf) == 0 {
		// The call would tell the size.
		l, e := v.th.getxattr(n.f.PathFD(), nil)
		if e == 0 && l > 0 {
			e = unix.ERANGE
		}
		return nil, v.stale(n, e)
	}
	l, e := v.th.getxattr(n.f.PathFD(), buf)
	if e != 0 {
		return nil, v.stale(n, e)
	}
	return buf[:l], nil
}

// Setxattr sets an attribute. EEXIST and ENODATA as how says; E2BIG: the value is too long; EPERM as Getxattr.
func (v *View) Setxattr(n Node, name, value []byte, how XattrHow) (c Change, err error) {
	flags := 0
	switch how {
	case XattrEither:
	case XattrCreate:
		flags = unix.XATTR_CREATE
	case XattrReplace:
		flags = unix.XATTR_REPLACE
	default:
		return c, unix.EINVAL
	}
	if len(value) > MaxXattrValue {
		return c, unix.E2BIG
	}
	return v.changeXattr(n, name, func() unix.Errno { return v.th.setxattr(n.f.PathFD(), value, flags) })
}

// Removexattr removes an attribute. ENODATA: there is none of that name.
func (v *View) Removexattr(n Node, name []byte) (Change, error) {
	return v.changeXattr(n, name, func() unix.Errno { return v.th.removexattr(n.f.PathFD()) })
}

func (v *View) changeXattr(n Node, name []byte, op func() unix.Errno) (c Change, err error) {
	if v.ro {
		return c, unix.EROFS
	}
	if err = xattrNode(n); err != nil {
		return c, err
	}
	if err = v.th.xattrName(name); err != nil {
		return c, err
	}
	return v.change(n, func(*Attr) error { return v.kernelMay(n, filecache.MayWrite) }, func() error { return v.stale(n, op()) })
}

// kernelMay is what the kernel says of a permission, owners not excepted; v.th.stx has the file's attributes.
func (v *View) kernelMay(n Node, want filecache.May) error {
	who, s := v.who(), stamp(&v.th.stx)
	return fail(v.may(n.f, &who, &s, want))
}

// change runs op, which changes attributes of n, under the caller's credentials, and puts them on stable storage if the
// export asks for it. may is asked before: who may not calls no delegation back. It finds the attributes in v.th.stx, too.
func (v *View) change(n Node, may func(*Attr) error, op func() error) (c Change, err error) {
	if err = v.begin(n.m); err != nil {
		return c, err
	}
	span := v.ns.spans.begin(&n.f.Key)
	if err = v.attr(n, &c.Before); err == nil {
		c.BeforeOK = true
		err = may(&c.Before)
	}
	if err == nil {
		err = v.guardSetattr(n, false)
	}
	if err == nil {
		v.become()
		err = op()
	}
	c.AfterOK = v.attr(n, &c.After) == nil
	if !v.ns.spans.end(&n.f.Key, span) {
		c.Before, c.BeforeOK = Attr{}, false
	}
	if err == nil {
		err = v.syncFile(n)
	}
	return c, err
}

// Listxattr lists the names of attributes from the cookie-th on, until emit returns false: then eof is false, and the next
// cookie is as many names further as emit took. ErrBadCookie: there are not so many names.
func (v *View) Listxattr(n Node, cookie uint64, emit func(name []byte) bool) (eof bool, err error) {
	if err = xattrNode(n); err != nil {
		return false, err
	}
	if !v.c.MayBlock {
		return false, ErrWouldBlock
	}
	// listxattr(2) asks for no permission; RFC 8276 8.4.3.3 and Linux want read access.
	if err = v.stat(n); err != nil {
		return false, err
	}
	if err = v.kernelMay(n, filecache.MayRead); err != nil {
		return false, err
	}
	if v.th.xattrs == nil {
		v.th.xattrs = make([]byte, maxXattrList)
	}
	buf := v.th.xattrs
	v.become()
	var l uintptr
	for {
		var e unix.Errno
		l, _, e = unix.Syscall(unix.SYS_LISTXATTR, uintptr(unsafe.Pointer(v.th.procPath(n.f.PathFD()))), uintptr(unsafe.Pointer(&buf[0])), uintptr(len(buf)))
		if e == 0 {
			break
		}
		if e != unix.EINTR {
			return false, v.stale(n, e)
		}
	}
	at := uint64(0)
	for list := buf[:l]; len(list) > 0; {
		end := bytes.IndexByte(list, 0)
		if end < 0 {
			break
		}
		name := list[:end]
		list = list[end+1:]
		if !bytes.HasPrefix(name, []byte(xattrPrefix)) || len(name) == len(xattrPrefix) {
			continue
		}
		if at++; at <= cookie {
			continue
		}
		if !emit(name[len(xattrPrefix):]) {
			return false, nil
		}
	}
	if cookie > at {
		return false, ErrBadCookie
	}
	return true, nil
}
