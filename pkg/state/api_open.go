// Arguments and results of the operations on opens, locks and delegations.

package state

// Claim is how an OPEN claims its file (open_claim_type4), with its numbers.
type Claim uint8

// The claims.
const (
	ClaimNull Claim = iota
	ClaimPrevious
	ClaimDelegateCur
	ClaimDelegatePrev
	ClaimFH
	ClaimDelegCurFH
	ClaimDelegPrevFH
)

// DelegType is a delegation's kind (open_delegation_type4), with its numbers.
type DelegType uint8

// The kinds.
const (
	DelegNone DelegType = iota
	DelegRead
	DelegWrite
)

// Want is what an OPEN says of delegations (OPEN4_SHARE_ACCESS_WANT_*).
type Want uint8

// The wishes.
const (
	WantNoPreference Want = iota
	WantRead
	WantWrite
	WantAny
	WantNone
	WantCancel
)

// WhyNone is why_no_delegation4, with its numbers.
type WhyNone uint8

// The reasons.
const (
	NoneNotWanted WhyNone = iota
	NoneContention
	NoneResource
	NoneNotSupportedFType
	NoneWriteNotSupportedFType
	NoneNotSupportedUpgrade
	NoneNotSupportedDowngrade
	NoneCancelled
	NoneIsDir
)

// OpenBeginArgs open the first half of an OPEN.
type OpenBeginArgs struct {
	ClientID ClientID // 4.0; with a session the session's client counts
	Owner    []byte
	Seqid    uint32 // 4.0
	Claim    Claim
	Deleg    Stateid // of ClaimDelegateCur, ClaimDelegCurFH
}

// OpenArgs are those of its second half, once the file is known.
type OpenArgs struct {
	File     FileKey
	FH       []byte // the handle as the client knows it, for callbacks; copied
	Access   uint8  // ShareRead, ShareWrite
	Deny     uint8
	Created  bool // the file was made by this OPEN
	Truncate bool // the caller will truncate the file after this
	Claim    Claim
	Deleg    Stateid   // of ClaimDelegateCur, ClaimDelegCurFH
	Previous DelegType // of ClaimPrevious
	Want     Want
	WantXor  bool   // OPEN4_SHARE_ACCESS_WANT_OPEN_XOR_DELEGATION (RFC 9754)
	Regular  bool   // only regular files are delegated
	Change   uint64 // the file's change attribute, for CB_GETATTR
	Pin      Pin    // kept for as long as the open; taken over in any case, nil is allowed
}

// OpenRes is the answer to an OPEN.
type OpenRes struct {
	Stateid   Stateid
	NoStateid bool // WantXor was granted: there is a delegation and no open
	Confirm   bool // 4.0: OPEN4_RESULT_CONFIRM
	MayNotify bool // OPEN4_RESULT_MAY_NOTIFY_LOCK
	Upgraded  bool // the owner had the file open already
	Deleg     Delegation
}

// Delegation is the delegation part of OpenRes. With Type DelegNone, Why tells the reason.
type Delegation struct {
	Type    DelegType
	Stateid Stateid
	Recall  bool // to be returned at once
	Why     WhyNone
}

// Access is what an operation does with a stateid.
type Access uint8

// The kinds of access.
const (
	AccessRead  Access = iota + 1 // READ, READ_PLUS, SEEK, the source of COPY and CLONE
	AccessWrite                   // WRITE, ALLOCATE, DEALLOCATE, the target of COPY and CLONE, SETATTR of size
	AccessAttr                    // SETATTR of other attributes, with a stateid: delegation stateids renew
)

// IO tells what a checked stateid is.
type IO struct {
	Opened bool     // an open, lock or delegation stands behind it: pass it to View, whose Guard then need not look
	Client ClientID // 0 for special stateids of 4.0 callers
	Advice uint64   // as set by SetAdvice on the open or delegation
}

// LockOwner is who holds byte-range locks, of whichever protocol. Comparable.
type LockOwner struct {
	Client ClientID // v4; 0 for NLM
	Host   string   // NLM: caller's name
	Svid   int32    // NLM
	Owner  string   // lock_owner4.owner or nlm4's oh
}

// LockConflict is a lock in the way. End is inclusive, 2^64-1 for the end of the file. Local: a local process holds it,
// and Owner is zero.
type LockConflict struct {
	Owner      LockOwner
	Type       LockType
	Start, End uint64
	Local      bool
	Pid        int32 // of a local process, where known
}

// Length is the length as the protocols put it: 2^64-1 to the end of the file.
func (c *LockConflict) Length() uint64 {
	if c.End == ^uint64(0) {
		return c.End
	}
	return c.End - c.Start + 1
}

// LockArgs are those of LOCK.
type LockArgs struct {
	File           FileKey
	FH             []byte // for CB_NOTIFY_LOCK
	Type           LockType
	Blocking       bool // READW_LT, WRITEW_LT
	Reclaim        bool
	Offset, Length uint64

	New         bool // a new lock owner: by open stateid; else by LockStateid
	OpenSeqid   uint32
	OpenStateid Stateid
	ClientID    ClientID // 4.0: of lock_owner4
	Owner       []byte
	LockSeqid   uint32
	LockStateid Stateid
}

// TestLockArgs are those of LOCKT.
type TestLockArgs struct {
	File           FileKey
	Type           LockType
	Offset, Length uint64
	ClientID       ClientID // 4.0
	Owner          []byte
}

// UnlockArgs are those of LOCKU.
type UnlockArgs struct {
	File           FileKey
	Seqid          uint32
	Stateid        Stateid
	Offset, Length uint64
}

// DelegAttrs are what the holder of a write delegation says of its file (CB_GETATTR).
type DelegAttrs struct {
	Modified  bool   // set by State: Change is not what it was when the delegation was given out
	Asked     uint64 // set by State: how many such answers the holder has given by now, this one included
	HasSize   bool
	Size      uint64
	HasChange bool
	Change    uint64
}

// NLMLockArgs are those of NLM's LOCK, NM_LOCK and TEST. Offsets as in NLM4: Length 0 is to the end of the file.
type NLMLockArgs struct {
	File           FileKey
	Owner          LockOwner
	Type           LockType
	Offset, Length uint64
	Reclaim        bool
	Wait           *Waiter // block: queued when the lock is not free; a new one each time, with Granted set
}
