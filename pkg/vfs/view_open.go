// OPEN: permission for the access that a share gives.

package vfs

import (
	"golang.org/x/sys/unix"

	"sluice/pkg/filecache"
)

// OpenCheck decides whether the caller may open a regular file to read, to write, or both. Unlike READ and WRITE it does not
// excuse owners from the mode: it is this check that they are excused for (fs/nfsd/nfs4proc.c, do_open_permission). Whoever
// has just made the file need not ask. Reading is allowed to who may execute.
func (v *View) OpenCheck(n Node, read, write bool) error {
	switch n.Type() {
	case TypeReg:
	case TypeDir:
		return unix.EISDIR
	case TypeLnk:
		return unix.ELOOP
	default:
		return unix.EINVAL
	}
	if write && v.ro {
		return unix.EROFS
	}
	if err := v.stat(n); err != nil {
		return err
	}
	who, s := v.who(), stamp(&v.th.stx)
	if write {
		if v.th.stx.Attributes&unix.STATX_ATTR_APPEND != 0 {
			return unix.EPERM // version 4 has no open for appending alone
		}
		if e := v.may(n.f, &who, &s, filecache.MayWrite); e != 0 {
			return fail(e)
		}
	}
	if read {
		e := v.may(n.f, &who, &s, filecache.MayRead)
		if e == unix.EACCES && !write {
			e = v.may(n.f, &who, &s, filecache.MayExec)
		}
		return fail(e)
	}
	return nil
}
