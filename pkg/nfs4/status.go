// The one table from errors to NFS4ERR codes (RFC 7530, 13; RFC 8881, 15; RFC
// 7862, 11).
//
// Plan: operations return a status; what vfs and state return goes through
// here. Errnos and state.Errs index arrays. Two codes differ by minor version:
// what 4.0 calls RESOURCE and BAD_SEQID has no name later.

package nfs4

import (
	"errors"

	"golang.org/x/sys/unix"

	"sluice/pkg/state"
	"sluice/pkg/vfs"
	wire "sluice/xdr/nfs4"
)

// status is an operation's result. Two values stand for no code of the
// protocol.
type status = wire.Nfsstat4

const (
	ok         = wire.NFS4_OK
	wouldBlock = status(-1) // run the COMPOUND again where it may sleep; nothing has happened yet
	replayed   = status(-2) // answer with call.Replay()
)

// maxErrno bounds the errno table; Linux's largest is EHWPOISON, 133.
const maxErrno = 134

// byErrno holds the code of each errno that has one. The rest is NFS4ERR_IO.
var byErrno = [maxErrno]status{
	unix.EPERM:        wire.NFS4ERR_PERM,
	unix.ENOENT:       wire.NFS4ERR_NOENT,
	unix.EIO:          wire.NFS4ERR_IO,
	unix.ENXIO:        wire.NFS4ERR_NXIO,
	unix.EACCES:       wire.NFS4ERR_ACCESS,
	unix.EEXIST:       wire.NFS4ERR_EXIST,
	unix.EXDEV:        wire.NFS4ERR_XDEV,
	unix.ENODEV:       wire.NFS4ERR_IO, // version 4 has no NODEV
	unix.ENOTDIR:      wire.NFS4ERR_NOTDIR,
	unix.EISDIR:       wire.NFS4ERR_ISDIR,
	unix.EINVAL:       wire.NFS4ERR_INVAL,
	unix.EFBIG:        wire.NFS4ERR_FBIG,
	unix.EOVERFLOW:    wire.NFS4ERR_FBIG,
	unix.ENOSPC:       wire.NFS4ERR_NOSPC,
	unix.EROFS:        wire.NFS4ERR_ROFS,
	unix.EMLINK:       wire.NFS4ERR_MLINK,
	unix.ENAMETOOLONG: wire.NFS4ERR_NAMETOOLONG,
	unix.ENOTEMPTY:    wire.NFS4ERR_NOTEMPTY,
	unix.EDQUOT:       wire.NFS4ERR_DQUOT,
	unix.ESTALE:       wire.NFS4ERR_STALE,
	unix.EOPNOTSUPP:   wire.NFS4ERR_NOTSUPP,
	unix.ENOSYS:       wire.NFS4ERR_NOTSUPP,
	unix.ENOTTY:       wire.NFS4ERR_NOTSUPP,
	unix.EBADF:        wire.NFS4ERR_SERVERFAULT, // our descriptor, not the client's file
	unix.EFAULT:       wire.NFS4ERR_SERVERFAULT,
	unix.ELOOP:        wire.NFS4ERR_SYMLINK,
	unix.ENODATA:      wire.NFS4ERR_NOXATTR,
	unix.ERANGE:       wire.NFS4ERR_XATTR2BIG,
	unix.E2BIG:        wire.NFS4ERR_XATTR2BIG,

	// The client waits and asks again.
	unix.ETIMEDOUT: wire.NFS4ERR_DELAY,
	unix.ENOMEM:    wire.NFS4ERR_DELAY,
	unix.EAGAIN:    wire.NFS4ERR_DELAY,
	unix.EINTR:     wire.NFS4ERR_DELAY,
	unix.EMFILE:    wire.NFS4ERR_DELAY,
	unix.ENFILE:    wire.NFS4ERR_DELAY,
	unix.ENOBUFS:   wire.NFS4ERR_DELAY,
	unix.ETXTBSY:   wire.NFS4ERR_DELAY,     // Linux: a swap file or a program that runs
	unix.EBUSY:     wire.NFS4ERR_FILE_OPEN, // a mount point in the way of REMOVE or RENAME
}

// byState holds the code of each condition of pkg/state.
var byState = [state.NumErrs]status{
	state.ErrWouldBlock:      wouldBlock,
	state.ErrReplay:          replayed,
	state.ErrDelay:           wire.NFS4ERR_DELAY,
	state.ErrGrace:           wire.NFS4ERR_GRACE,
	state.ErrNoGrace:         wire.NFS4ERR_NO_GRACE,
	state.ErrReclaimBad:      wire.NFS4ERR_RECLAIM_BAD,
	state.ErrReclaimConflict: wire.NFS4ERR_RECLAIM_CONFLICT,
	state.ErrCompleteAlready: wire.NFS4ERR_COMPLETE_ALREADY,
	state.ErrDenied:          wire.NFS4ERR_DENIED,
	state.ErrBlocked:         wire.NFS4ERR_DENIED,
	state.ErrDeadlock:        wire.NFS4ERR_DEADLOCK,
	state.ErrLocked:          wire.NFS4ERR_LOCKED,
	state.ErrShareDenied:     wire.NFS4ERR_SHARE_DENIED,
	state.ErrOpenMode:        wire.NFS4ERR_OPENMODE,
	state.ErrLocksHeld:       wire.NFS4ERR_LOCKS_HELD,
	state.ErrLockRange:       wire.NFS4ERR_LOCK_RANGE,
	state.ErrBadRange:        wire.NFS4ERR_BAD_RANGE,
	state.ErrInval:           wire.NFS4ERR_INVAL,
	state.ErrBadStateid:      wire.NFS4ERR_BAD_STATEID,
	state.ErrOldStateid:      wire.NFS4ERR_OLD_STATEID,
	state.ErrStaleStateid:    wire.NFS4ERR_STALE_STATEID,
	state.ErrExpired:         wire.NFS4ERR_EXPIRED,
	state.ErrAdminRevoked:    wire.NFS4ERR_ADMIN_REVOKED,
	state.ErrDelegRevoked:    wire.NFS4ERR_DELEG_REVOKED,
	state.ErrBadSeqid:        wire.NFS4ERR_BAD_SEQID,
	state.ErrStaleClientID:   wire.NFS4ERR_STALE_CLIENTID,
	state.ErrClientInUse:     wire.NFS4ERR_CLID_INUSE,
	state.ErrNotSame:         wire.NFS4ERR_NOT_SAME,
	state.ErrNoEnt:           wire.NFS4ERR_NOENT,
	state.ErrPerm:            wire.NFS4ERR_PERM,
	state.ErrAccess:          wire.NFS4ERR_ACCESS,
	state.ErrWrongCred:       wire.NFS4ERR_WRONG_CRED,
	state.ErrClientIDBusy:    wire.NFS4ERR_CLIENTID_BUSY,
	state.ErrCBPathDown:      wire.NFS4ERR_CB_PATH_DOWN,
	state.ErrBadSession:      wire.NFS4ERR_BADSESSION,
	state.ErrBadSlot:         wire.NFS4ERR_BADSLOT,
	state.ErrBadHighSlot:     wire.NFS4ERR_BAD_HIGH_SLOT,
	state.ErrSeqMisordered:   wire.NFS4ERR_SEQ_MISORDERED,
	state.ErrRetryUncached:   wire.NFS4ERR_RETRY_UNCACHED_REP,
	state.ErrSeqFalseRetry:   wire.NFS4ERR_SEQ_FALSE_RETRY,
	state.ErrDeadSession:     wire.NFS4ERR_DEADSESSION,
	state.ErrConnNotBound:    wire.NFS4ERR_CONN_NOT_BOUND_TO_SESSION,
	state.ErrConnBinding:     wire.NFS4ERR_CONN_NOT_BOUND_TO_SESSION,
	state.ErrTooSmall:        wire.NFS4ERR_TOOSMALL,
	state.ErrReqTooBig:       wire.NFS4ERR_REQ_TOO_BIG,
	state.ErrTooManyOps:      wire.NFS4ERR_TOO_MANY_OPS,
	state.ErrResource:        wire.NFS4ERR_RESOURCE,
	state.ErrNoSpace:         wire.NFS4ERR_NOSPC,
	state.ErrEncrAlg:         wire.NFS4ERR_ENCR_ALG_UNSUPP,
	state.ErrHashAlg:         wire.NFS4ERR_HASH_ALG_UNSUPP,
	state.ErrNotSupp:         wire.NFS4ERR_NOTSUPP,
	state.ErrRejectDeleg:     wire.NFS4ERR_REJECT_DELEG,
}

// statusOf returns the code of what vfs or state returned.
func (c *compound) statusOf(err error) status {
	s := statusOf(err)
	switch {
	case s == wouldBlock && c.call.MayBlock:
		return wire.NFS4ERR_DELAY // it may sleep, and still would not
	case s == wire.NFS4ERR_RESOURCE && c.minor > 0:
		return wire.NFS4ERR_DELAY
	}
	return s
}

func statusOf(err error) status {
	switch err {
	case nil:
		return ok
	case vfs.ErrBadHandle:
		return wire.NFS4ERR_BADHANDLE
	case vfs.ErrStale:
		return wire.NFS4ERR_STALE
	case vfs.ErrNotSync:
		return wire.NFS4ERR_SERVERFAULT // only version 3 has a guard
	case vfs.ErrBadCookie:
		return wire.NFS4ERR_BAD_COOKIE
	case vfs.ErrTooSmall:
		return wire.NFS4ERR_TOOSMALL
	case vfs.ErrJukebox:
		return wire.NFS4ERR_DELAY
	case vfs.ErrWouldBlock:
		return wouldBlock
	case vfs.ErrNotSupported:
		return wire.NFS4ERR_NOTSUPP
	case vfs.ErrWrongSec:
		return wire.NFS4ERR_WRONGSEC
	case vfs.ErrBadType:
		return wire.NFS4ERR_BADTYPE
	}
	switch e := err.(type) {
	case unix.Errno:
		if e < maxErrno && byErrno[e] != ok {
			return byErrno[e]
		}
		return wire.NFS4ERR_IO
	case state.Err:
		if e < state.NumErrs && byState[e] != ok {
			return byState[e]
		}
		return wire.NFS4ERR_SERVERFAULT
	}
	if inner := errors.Unwrap(err); inner != nil {
		return statusOf(inner)
	}
	return wire.NFS4ERR_SERVERFAULT
}
