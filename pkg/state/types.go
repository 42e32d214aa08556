// What goes in and out of the package: identities, stateids, and the context of a COMPOUND.

package state

import (
	"encoding/binary"

	"sluice/pkg/filecache"
)

// FileKey names a file. Its FS must be the same for a file through whichever export it was reached: locks and shares are
// of files, not of paths.
type FileKey = filecache.Key

// Limits of what a client may send.
const (
	MaxOwner = 1024 // bytes in a client owner, open owner or lock owner (NFS4_OPAQUE_LIMIT)
)

// ClientID names a client record: the boot id in the upper half, a counter in the lower.
type ClientID uint64

// Verifier is 8 opaque bytes.
type Verifier [8]byte

// SessionID names a session.
type SessionID [16]byte

// Other is a stateid's opaque part: client id (8 bytes), then a number unique within the client (4).
type Other [12]byte

// Stateid names an open, a lock owner's locks on a file, or a delegation.
type Stateid struct {
	Seqid uint32
	Other Other
}

func makeOther(id ClientID, n uint32) (o Other) {
	binary.BigEndian.PutUint64(o[:8], uint64(id))
	binary.BigEndian.PutUint32(o[8:], n)
	return o
}

// Client returns the id of the client that the stateid was given to.
func (o *Other) Client() ClientID { return ClientID(binary.BigEndian.Uint64(o[:8])) }

func (o *Other) number() uint32 { return binary.BigEndian.Uint32(o[8:]) }

// The special stateids (RFC 7530 9.1.4.3, RFC 8881 8.2.3).
var (
	Anonymous      = Stateid{}                                    // I/O without an open
	ReadBypass     = Stateid{Seqid: ^uint32(0), Other: otherOnes} // READ past share denials and locks
	CurrentStateid = Stateid{Seqid: 1}                            // 4.1: the COMPOUND's current one
	InvalidStateid = Stateid{Seqid: ^uint32(0)}                   // 4.1: what CLOSE returns
	otherOnes      = Other{255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255}
)

// Special reports whether s is one of the special stateids.
func (s Stateid) Special() bool { return s.Other == Other{} || s.Other == otherOnes }

// Principal is who makes a call: what RFC 8881 compares before it lets one caller act on another's record. For AUTH_SYS
// the uid and gid (groups and machine name do not count), for GSS the name.
type Principal struct {
	Flavor, UID, GID uint32
	Name             string
}

// Call is one COMPOUND's standing with the state. Make one per COMPOUND (it may be reused after Reset).
type Call struct {
	Minor     uint8
	MayBlock  bool
	Integrity bool      // the call is integrity protected (GSS): SP4_MACH_CRED asks for it
	Principal Principal // as the call claims, before squashing
	Conn      uint64    // connection id, never 0
	Addr      string    // peer's address, for admin output

	// Client is the session's client after Sequence. For 4.0 it stays nil.
	Client *Client

	known        ClientID // 4.0: whose id or stateid the COMPOUND has shown so far
	session      *Session
	slot         *slot
	before       slot   // slot as it was, for SequenceUndo
	owner        *owner // 4.0: whose seqid the running operation uses
	newLockOwner *owner // 4.0: of a LOCK that makes one
	open         openInFlight
	op           seqOp // what it is
	replayed     bool
	replay       []byte
	replayFH     []byte
}

// ClientID is the caller's client id: the session's client, or for 4.0 the one whose client id or stateid an earlier
// operation of the COMPOUND has shown, as in Linux; 0 when nobody is known. View hands it to the Guard.
func (c *Call) ClientID() ClientID {
	if c.Client != nil {
		return c.Client.id
	}
	return c.known
}

// Replay is the reply that the operation got the first time, status word included; valid until the next operation. An
// empty one means that it was too long to be kept: answer ErrBadSeqid.
func (c *Call) Replay() []byte { return c.replay }

// ReplayFH is the current file handle that the replayed OPEN left; empty for other operations.
func (c *Call) ReplayFH() []byte { return c.replayFH }

// Session is the session that Sequence found, or nil.
func (c *Call) Session() *Session { return c.session }

// Reset readies c for another COMPOUND; its caller fills in the exported fields again.
func (c *Call) Reset() {
	if c.slot != nil || c.owner != nil {
		panic("state: Reset of a call that is not done")
	}
	*c = Call{}
}

// Share bits, with the numbers of OPEN4_SHARE_ACCESS and OPEN4_SHARE_DENY.
const (
	ShareRead  uint8 = 1
	ShareWrite uint8 = 2
	ShareBoth  uint8 = 3
)

// Pin keeps a file open for as long as an open is held; *filecache.File is one.
type Pin interface{ Release() }
