// The types that protocols are written against: programs made of procedures,
// the call that a procedure gets, and what it says of itself.
//
// A procedure decodes c.Args, encodes its results into c.Reply and returns
// Done. It runs on a thread that is locked to its operating-system thread, so
// that it may change that thread's credentials, and must not keep anything it
// got from the call (arguments, names, groups: they alias the record) after it
// returns.

package rpc

import (
	"sluice/xdr"
)

// Verdict is what a procedure says of itself.
type Verdict uint8

const (
	// Done: the results are in c.Reply.
	Done Verdict = iota
	// GarbageArgs: the arguments do not decode. Whatever is in c.Reply is
	// dropped and the caller gets GARBAGE_ARGS (RFC 5531, 9).
	GarbageArgs
	// SystemErr: the caller gets SYSTEM_ERR.
	SystemErr
	// WouldBlock, only when !c.MayBlock: the call may sleep and has had no
	// effect yet. It is run again, from its start, on a slow thread.
	WouldBlock
	// Drop: no reply at all. The caller will send the call again.
	Drop
	// AuthError: the caller gets MSG_DENIED, AUTH_ERROR with c.AuthStat.
	AuthError
)

// AuthStat says why authentication failed (RFC 5531, 9).
type AuthStat uint32

// The auth_stat values this server gives; AuthOK is not sent.
const (
	AuthOK           AuthStat = 0
	AuthBadCred      AuthStat = 1 // malformed credential
	AuthRejectedCred AuthStat = 2 // the client must begin anew
	AuthBadVerf      AuthStat = 3 // malformed verifier
	AuthRejectedVerf AuthStat = 4
	AuthTooWeak      AuthStat = 5 // a stronger flavour is wanted
)

// Authentication flavours (RFC 5531, 8.2; RFC 9289, 4.1).
const (
	FlavorNone = 0
	FlavorSys  = 1
	FlavorGSS  = 6
	FlavorTLS  = 7
)

// Limits of a credential: opaque_auth (RFC 5531, 8.2) and authsys_parms (RFC 5531, appendix A).
const (
	MaxAuthBytes   = 400
	MaxMachineName = 255
	MaxGroups      = 16
)

// Proc is one procedure.
type Proc struct {
	// Name is the RFC's name in upper case, for statistics and traces.
	Name string
	// Run serves a call. nil means PROC_UNAVAIL.
	Run func(c *Call) Verdict
	// Cache: not idempotent. The reply is kept, and a call that is sent again
	// gets the first answer. Such a reply must be small: one larger than
	// MaxCachedReply is sent but not kept.
	Cache bool
	// CacheIf says for a call, by its arguments, whether Cache applies; nil:
	// always. It must be cheap and keep nothing of args.
	CacheIf func(args []byte) bool
	// Bulk, with Cache: frequent and harmless when repeated (WRITE). Replies
	// are kept in a part of the cache of their own, so that a stream of them
	// does not push out the answers to CREATE or REMOVE.
	Bulk bool
	// Slow: always runs on a slow thread.
	Slow bool
	// Land says where in the arguments the payload of a large call starts, and
	// which place in a file it is for, so that it is read to memory that is
	// aligned as the file is; false: there is none. args may be cut short
	// after some hundred bytes. It must be cheap and keep nothing of args.
	Land func(args []byte) (at int, off uint64, ok bool)
}

// caches tells whether the reply to a call with these arguments is kept.
func (p *Proc) caches(args []byte) bool { return p.Cache && (p.CacheIf == nil || p.CacheIf(args)) }

// Version is one version of a program. Procs is indexed by procedure number.
// Procedure 0, NULL, need not be given: it always answers.
type Version struct {
	Vers  uint32
	Procs []Proc
}

// Program is an RPC program with the versions served.
type Program struct {
	Prog     uint32
	Name     string
	Versions []Version
}

// Cred is a caller's credential as it came. For FlavorNone everything but
// Flavor is zero.
type Cred struct {
	Flavor   uint32
	UID, GID uint32
	Groups   []uint32 // at most MaxGroups; good until the procedure returns
	Machine  []byte   // aliases the record
}

// Call is one call, good until its procedure returns. Threads reuse them.
type Call struct {
	XID, Prog, Vers, Proc uint32

	Cred Cred
	// Args stands at the procedure's arguments.
	Args xdr.Decoder
	// Reply stands after the header of an accepted reply. A procedure appends
	// its results; it may Mark and Rollback as far as its own start.
	Reply *xdr.Encoder
	// Conn is where the call came from; nil over UDP, which has Peer only.
	Conn *Conn
	// Thread is the thread the procedure runs on.
	Thread *Thread
	// MayBlock: on a slow thread, where sleeping harms nobody.
	MayBlock bool
	// Taken: an earlier call of the burst has taken this one. Its procedure
	// did that just before, on this thread.
	Taken bool
	// AuthStat goes with the verdict AuthError.
	AuthStat AuthStat
	// Now is when the call was received, in nanoseconds of the server's
	// monotonic clock (see Server.Now).
	Now int64

	groups [MaxGroups]uint32
	peer   peer
	worker *worker
	in     *incoming
}

// Thread is an operating-system thread that runs procedures.
type Thread struct {
	// Local is what Config.NewLocal made for this thread.
	Local any
	// ID numbers the threads from 0, for counters spread over cache lines.
	ID uint32

	doomed bool
}

// Doom makes the thread end after the present call, and another take its
// place: for a thread whose credentials could not be restored.
func (t *Thread) Doom() { t.doomed = true }
