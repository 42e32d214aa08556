// Errors: one small comparable type, so that returning one allocates nothing and each protocol's table is an array.

package state

import "golang.org/x/sys/unix"

// Err is a condition that protocols map to their status codes. In brackets the NFSv4 code where the name does not tell.
// ErrResource has no code in 4.1 and later: DELAY there.
type Err uint8

// The conditions.
const (
	errNone Err = iota

	ErrWouldBlock // not for the wire: run again where the call may block
	ErrReplay     // not for the wire: answer with Call.Replay()

	ErrDelay // DELAY, JUKEBOX: something is being recalled, expired, or in use
	ErrGrace
	ErrNoGrace
	ErrReclaimBad
	ErrReclaimConflict
	ErrCompleteAlready
	ErrDenied  // a byte-range lock conflicts
	ErrBlocked // NLM: queued
	ErrDeadlock
	ErrLocked      // I/O against a share denial
	ErrShareDenied // OPEN against a share
	ErrOpenMode
	ErrLocksHeld
	ErrLockRange
	ErrBadRange
	ErrInval
	ErrBadStateid
	ErrOldStateid
	ErrStaleStateid
	ErrExpired
	ErrAdminRevoked
	ErrDelegRevoked
	ErrBadSeqid
	ErrStaleClientID
	ErrClientInUse // CLID_INUSE
	ErrNotSame
	ErrNoEnt
	ErrPerm
	ErrAccess
	ErrWrongCred
	ErrClientIDBusy
	ErrCBPathDown
	ErrBadSession
	ErrBadSlot
	ErrBadHighSlot
	ErrSeqMisordered
	ErrRetryUncached // RETRY_UNCACHED_REP
	ErrSeqFalseRetry
	ErrDeadSession
	ErrConnNotBound // CONN_NOT_BOUND_TO_SESSION
	ErrConnBinding  // CONN_BINDING_NOT_ENFORCED
	ErrTooSmall
	ErrReqTooBig
	ErrTooManyOps
	ErrResource
	ErrNoSpace
	ErrEncrAlg // ENCR_ALG_UNSUPP
	ErrHashAlg // HASH_ALG_UNSUPP
	ErrNotSupp
	ErrRejectDeleg

	NumErrs // how many there are, for tables
)

var errNames = [NumErrs]string{
	errNone: "no error", ErrWouldBlock: "would block", ErrReplay: "replay", ErrDelay: "try again later",
	ErrGrace: "grace period", ErrNoGrace: "no grace period", ErrReclaimBad: "nothing to reclaim",
	ErrReclaimConflict: "reclaim conflicts", ErrCompleteAlready: "reclaim was complete already",
	ErrDenied: "lock conflicts", ErrBlocked: "waiting for the lock", ErrDeadlock: "deadlock", ErrLocked: "share denied to I/O", ErrShareDenied: "share denied",
	ErrOpenMode: "not open in this mode", ErrLocksHeld: "locks held", ErrLockRange: "lock range not supported",
	ErrBadRange: "bad lock range", ErrInval: "invalid argument", ErrBadStateid: "bad stateid", ErrOldStateid: "old stateid",
	ErrStaleStateid: "stale stateid", ErrExpired: "lease expired", ErrAdminRevoked: "revoked by the administrator",
	ErrDelegRevoked: "delegation revoked", ErrBadSeqid: "bad sequence id", ErrStaleClientID: "stale client id",
	ErrClientInUse: "client id in use", ErrNotSame: "verifier differs", ErrNoEnt: "no such record", ErrPerm: "not permitted",
	ErrAccess: "access denied", ErrWrongCred: "wrong credential", ErrClientIDBusy: "client id busy",
	ErrCBPathDown: "callback path down", ErrBadSession: "bad session", ErrBadSlot: "bad slot",
	ErrBadHighSlot: "bad highest slot", ErrSeqMisordered: "sequence misordered", ErrRetryUncached: "reply was not cached",
	ErrSeqFalseRetry: "false retry", ErrDeadSession: "dead session", ErrConnNotBound: "connection not bound to session",
	ErrConnBinding: "connection binding not enforced", ErrTooSmall: "too small", ErrReqTooBig: "request too big", ErrTooManyOps: "too many operations",
	ErrResource: "out of resources", ErrNoSpace: "limit reached", ErrEncrAlg: "encryption algorithm not supported",
	ErrHashAlg: "hash algorithm not supported", ErrNotSupp: "not supported", ErrRejectDeleg: "delegation rejected",
}

// Errno gives what stands for the condition where only errnos are known, as in version 3: EAGAIN (NFS3ERR_JUKEBOX) for
// what passes, EACCES for a share denial.
func (e Err) Errno() unix.Errno {
	switch e {
	case ErrDelay, ErrGrace, ErrWouldBlock:
		return unix.EAGAIN
	case ErrLocked, ErrShareDenied:
		return unix.EACCES
	case ErrResource, ErrNoSpace:
		return unix.EMFILE
	}
	return unix.EIO
}

func (e Err) Error() string {
	if e < NumErrs && errNames[e] != "" {
		return "state: " + errNames[e]
	}
	return "state: unknown error"
}
