package nfs3

import (
	"errors"
	"fmt"
	"testing"

	"golang.org/x/sys/unix"

	"sluice/pkg/vfs"
	"sluice/xdr/mount3"
	wire3 "sluice/xdr/nfs3"
)

func TestStatus(t *testing.T) {
	for _, x := range []struct {
		err   error
		nfs   wire3.Nfsstat3
		mount mount3.Mountstat3
	}{
		{nil, wire3.NFS3_OK, mount3.MNT3_OK},
		{unix.EPERM, wire3.NFS3ERR_PERM, mount3.MNT3ERR_PERM},
		{unix.ENOENT, wire3.NFS3ERR_NOENT, mount3.MNT3ERR_NOENT},
		{unix.EIO, wire3.NFS3ERR_IO, mount3.MNT3ERR_IO},
		{unix.EACCES, wire3.NFS3ERR_ACCES, mount3.MNT3ERR_ACCES},
		{unix.ENOTDIR, wire3.NFS3ERR_NOTDIR, mount3.MNT3ERR_NOTDIR},
		{unix.EINVAL, wire3.NFS3ERR_INVAL, mount3.MNT3ERR_INVAL},
		{unix.ENAMETOOLONG, wire3.NFS3ERR_NAMETOOLONG, mount3.MNT3ERR_NAMETOOLONG},
		{unix.EOPNOTSUPP, wire3.NFS3ERR_NOTSUPP, mount3.MNT3ERR_NOTSUPP},
		{unix.EROFS, wire3.NFS3ERR_ROFS, mount3.MNT3ERR_SERVERFAULT},
		{unix.EXDEV, wire3.NFS3ERR_XDEV, mount3.MNT3ERR_SERVERFAULT},
		{unix.EEXIST, wire3.NFS3ERR_EXIST, mount3.MNT3ERR_SERVERFAULT},
		{unix.ENOTEMPTY, wire3.NFS3ERR_NOTEMPTY, mount3.MNT3ERR_SERVERFAULT},
		{unix.EDQUOT, wire3.NFS3ERR_DQUOT, mount3.MNT3ERR_SERVERFAULT},
		{unix.ENOSPC, wire3.NFS3ERR_NOSPC, mount3.MNT3ERR_SERVERFAULT},
		{unix.EFBIG, wire3.NFS3ERR_FBIG, mount3.MNT3ERR_SERVERFAULT},
		{unix.EMLINK, wire3.NFS3ERR_MLINK, mount3.MNT3ERR_SERVERFAULT},
		{unix.ESTALE, wire3.NFS3ERR_STALE, mount3.MNT3ERR_NOENT},
		{unix.EMFILE, wire3.NFS3ERR_JUKEBOX, mount3.MNT3ERR_SERVERFAULT},
		{unix.ENFILE, wire3.NFS3ERR_JUKEBOX, mount3.MNT3ERR_SERVERFAULT},
		{unix.EAGAIN, wire3.NFS3ERR_JUKEBOX, mount3.MNT3ERR_SERVERFAULT},
		{unix.ENOMEM, wire3.NFS3ERR_JUKEBOX, mount3.MNT3ERR_SERVERFAULT},
		{vfs.ErrJukebox, wire3.NFS3ERR_JUKEBOX, mount3.MNT3ERR_SERVERFAULT},
		{vfs.ErrBadHandle, wire3.NFS3ERR_BADHANDLE, mount3.MNT3ERR_NOENT},
		{vfs.ErrStale, wire3.NFS3ERR_STALE, mount3.MNT3ERR_NOENT},
		{vfs.ErrNotSync, wire3.NFS3ERR_NOT_SYNC, mount3.MNT3ERR_SERVERFAULT},
		{vfs.ErrBadCookie, wire3.NFS3ERR_BAD_COOKIE, mount3.MNT3ERR_SERVERFAULT},
		{vfs.ErrTooSmall, wire3.NFS3ERR_TOOSMALL, mount3.MNT3ERR_SERVERFAULT},
		{vfs.ErrNotSupported, wire3.NFS3ERR_NOTSUPP, mount3.MNT3ERR_NOTSUPP},
		{vfs.ErrBadType, wire3.NFS3ERR_BADTYPE, mount3.MNT3ERR_SERVERFAULT},
		{unix.EUCLEAN, wire3.NFS3ERR_IO, mount3.MNT3ERR_IO},
		{unix.Errno(4000), wire3.NFS3ERR_IO, mount3.MNT3ERR_IO},
		{fmt.Errorf("opening: %w", unix.ENOSPC), wire3.NFS3ERR_NOSPC, mount3.MNT3ERR_SERVERFAULT},
		{errors.New("who knows"), wire3.NFS3ERR_SERVERFAULT, mount3.MNT3ERR_SERVERFAULT},
	} {
		if got := status(x.err); got != x.nfs {
			t.Errorf("status(%v) = %v, want %v", x.err, got, x.nfs)
		}
		if got := mountStatus(x.err); got != x.mount {
			t.Errorf("mountStatus(%v) = %v, want %v", x.err, got, x.mount)
		}
	}
}

// Every errno gives a code that the RFC has: none is passed on as a number.
func TestStatusIsDefined(t *testing.T) {
	for e := unix.Errno(1); e < 200; e++ {
		if s := status(e); s == wire3.NFS3_OK || s.String() == fmt.Sprintf("Nfsstat3(%d)", s) {
			t.Errorf("errno %d (%v) becomes %v", e, e, s)
		}
		if s := mountStatus(e); s == mount3.MNT3_OK || s.String() == fmt.Sprintf("Mountstat3(%d)", s) {
			t.Errorf("errno %d (%v) becomes %v for MOUNT", e, e, s)
		}
	}
}
