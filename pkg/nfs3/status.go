// The one table from errors to NFSv3 status codes (RFC 1813, 2.6) and to
// MOUNT status codes (RFC 1813, 5.1.5).
//
// Plan: everything below this package speaks errno, plus the few conditions
// that errno has no word for (vfs.Err...). The codes are looked up in an array
// indexed by errno, so that a failed LOOKUP costs no more than one that finds.

package nfs3

import (
	"errors"

	"golang.org/x/sys/unix"

	"sluice/pkg/vfs"
	"sluice/xdr/mount3"
	wire3 "sluice/xdr/nfs3"
)

// maxErrno bounds the errno table; Linux's largest is EHWPOISON, 133.
const maxErrno = 134

// byErrno holds the status of each errno that has one of its own. Zero, which
// is NFS3_OK and no error's status, marks the rest: they become NFS3ERR_IO,
// as Linux's nfserrno does with what it does not know.
var byErrno = [maxErrno]wire3.Nfsstat3{
	unix.EPERM:        wire3.NFS3ERR_PERM,
	unix.ENOENT:       wire3.NFS3ERR_NOENT,
	unix.EIO:          wire3.NFS3ERR_IO,
	unix.ENXIO:        wire3.NFS3ERR_NXIO,
	unix.EACCES:       wire3.NFS3ERR_ACCES,
	unix.EEXIST:       wire3.NFS3ERR_EXIST,
	unix.EXDEV:        wire3.NFS3ERR_XDEV,
	unix.ENODEV:       wire3.NFS3ERR_NODEV,
	unix.ENOTDIR:      wire3.NFS3ERR_NOTDIR,
	unix.EISDIR:       wire3.NFS3ERR_ISDIR,
	unix.EINVAL:       wire3.NFS3ERR_INVAL,
	unix.EFBIG:        wire3.NFS3ERR_FBIG,
	unix.EOVERFLOW:    wire3.NFS3ERR_FBIG, // a size or offset past 2^63-1
	unix.ENOSPC:       wire3.NFS3ERR_NOSPC,
	unix.EROFS:        wire3.NFS3ERR_ROFS,
	unix.EMLINK:       wire3.NFS3ERR_MLINK,
	unix.ENAMETOOLONG: wire3.NFS3ERR_NAMETOOLONG,
	unix.ENOTEMPTY:    wire3.NFS3ERR_NOTEMPTY,
	unix.EDQUOT:       wire3.NFS3ERR_DQUOT,
	unix.ESTALE:       wire3.NFS3ERR_STALE,
	unix.EREMOTE:      wire3.NFS3ERR_REMOTE,
	unix.EOPNOTSUPP:   wire3.NFS3ERR_NOTSUPP,
	unix.ENOSYS:       wire3.NFS3ERR_NOTSUPP,
	unix.ENOTTY:       wire3.NFS3ERR_NOTSUPP,
	unix.EBADF:        wire3.NFS3ERR_SERVERFAULT, // our descriptor, not the client's file
	unix.EFAULT:       wire3.NFS3ERR_SERVERFAULT,
	unix.ELOOP:        wire3.NFS3ERR_INVAL, // O_NOFOLLOW met a symbolic link where a file was asked for

	// The client should wait and ask again; NFS3ERR_JUKEBOX is the only code
	// that says so, and it never reaches an application. Linux's nfserrno has
	// the first four; running out of descriptors is ours alone.
	unix.ETIMEDOUT: wire3.NFS3ERR_JUKEBOX,
	unix.ENOMEM:    wire3.NFS3ERR_JUKEBOX,
	unix.EAGAIN:    wire3.NFS3ERR_JUKEBOX,
	unix.EINTR:     wire3.NFS3ERR_JUKEBOX, // ERESTARTSYS
	unix.EMFILE:    wire3.NFS3ERR_JUKEBOX,
	unix.ENFILE:    wire3.NFS3ERR_JUKEBOX,
	unix.ENOBUFS:   wire3.NFS3ERR_JUKEBOX,
	unix.EBUSY:     wire3.NFS3ERR_ACCES, // a mount point in the way of REMOVE or RENAME: Linux says the same to v3
}

// status returns the NFSv3 status of what the namespace returned. The only
// errors it is given are nil, errnos and vfs's own; a wrapped one is looked
// into, so that a mistake below costs precision and not the answer.
func status(err error) wire3.Nfsstat3 {
	switch err {
	case nil:
		return wire3.NFS3_OK
	case vfs.ErrBadHandle:
		return wire3.NFS3ERR_BADHANDLE
	case vfs.ErrStale:
		return wire3.NFS3ERR_STALE
	case vfs.ErrNotSync:
		return wire3.NFS3ERR_NOT_SYNC
	case vfs.ErrBadCookie:
		return wire3.NFS3ERR_BAD_COOKIE
	case vfs.ErrTooSmall:
		return wire3.NFS3ERR_TOOSMALL
	case vfs.ErrJukebox, vfs.ErrWouldBlock:
		return wire3.NFS3ERR_JUKEBOX
	case vfs.ErrNotSupported:
		return wire3.NFS3ERR_NOTSUPP
	case vfs.ErrBadType:
		return wire3.NFS3ERR_BADTYPE
	}
	if e, ok := err.(unix.Errno); ok {
		if e < maxErrno && byErrno[e] != wire3.NFS3_OK {
			return byErrno[e]
		}
		return wire3.NFS3ERR_IO
	}
	if inner := errors.Unwrap(err); inner != nil {
		return status(inner)
	}
	return wire3.NFS3ERR_SERVERFAULT
}

// mountStatus returns the MOUNT status of an error. RFC 1813, 5.1.5 has fewer
// codes than NFS; what is left over becomes NOENT for a path whose file system
// is gone, as mountd has it, and SERVERFAULT for the rest. JUKEBOX has no
// counterpart: the client's mount command tries again after SERVERFAULT.
func mountStatus(err error) mount3.Mountstat3 {
	switch s := status(err); s {
	case wire3.NFS3_OK, wire3.NFS3ERR_PERM, wire3.NFS3ERR_NOENT, wire3.NFS3ERR_IO, wire3.NFS3ERR_ACCES,
		wire3.NFS3ERR_NOTDIR, wire3.NFS3ERR_INVAL, wire3.NFS3ERR_NAMETOOLONG, wire3.NFS3ERR_NOTSUPP:
		return mount3.Mountstat3(s) // the two protocols give these the same numbers
	case wire3.NFS3ERR_STALE, wire3.NFS3ERR_BADHANDLE:
		return mount3.MNT3ERR_NOENT
	}
	return mount3.MNT3ERR_SERVERFAULT
}
