// Configuration, the injected interfaces, and the limits.

package state

import (
	"time"

	"sluice/pkg/trace"
)

// Config configures a State. Zero values give the defaults in brackets.
type Config struct {
	Lease       time.Duration // [90 s]
	Grace       time.Duration // after a start with recorded clients [Lease]
	RecallTime  time.Duration // how long a client may take to return a delegation before it is revoked [Lease]
	Courtesy    time.Duration // how long an expired client's state is kept when nobody wants it [24 h]
	Delegations bool          // grant read delegations
	WriteDelegs bool          // grant write delegations too

	// What is bounded for all clients, one peer never has more than half of: see peer.go.
	MaxClients     int    // records, confirmed or not [4096]
	MaxSessions    int    // per client [64]
	MaxSlots       int    // per session [256]
	MaxConns       int    // per session [64]
	MaxOpens       int    // open stateids per client [65536]
	MaxOwners      int    // open and lock owners per client [16384]
	MaxLocks       int    // byte ranges per client or NLM host [65536]
	MaxObjects     int    // stateids and owners in all [524288]
	MaxRanges      int    // byte ranges in all [1048576]
	MaxLockPlaces  int    // files times lock owners of them, of v4 clients; LocalLocker has a descriptor for each [65536]
	MaxWaiters     int    // blocked lock requests per client or NLM host [1024]
	MaxAllWaiters  int    // and in all [65536]
	MaxDelegations int    // in all [16384]
	MaxReplyCache  int64  // bytes reserved for the slots' cached replies, in all [256 MiB]
	MaxCachedReply uint32 // largest ca_maxresponsesize_cached granted [4 KiB]
	MaxRequest     uint32 // largest ca_maxrequestsize granted [1 MiB + 4 KiB]
	MaxResponse    uint32 // largest ca_maxresponsesize granted [1 MiB + 4 KiB]
	MaxOps         uint32 // largest ca_maxoperations granted [64]

	ForceGrace bool // grace even without recorded clients, for its whole length: NLM has hosts to hear from

	Now       func() int64                     // monotonic nanoseconds [time since start]
	Recovery  Recovery                         // stable storage of client records [none: no grace, no reclaim]
	Callbacks Callbacks                        // [none: no delegations]
	Local     LocalLocker                      // [none]
	Leases    Leases                           // [none: local processes are not noticed]
	Trace     *trace.Bus                       // [none]
	Log       func(format string, args ...any) // for an administrator: storage that fails, clients expired [discarded]
}

// LockType is the kind of a byte-range lock.
type LockType uint8

// The kinds.
const (
	ReadLock LockType = iota + 1
	WriteLock
)

// LocalLocker takes each lock on the file itself (F_OFD_SETLK on a descriptor of the owner), so that local processes see
// it. Ends are inclusive; a range to the end of the file ends at 2^64-1. Calls for one file do not overlap.
type LocalLocker interface {
	// Lock takes, upgrades or downgrades. unix.EAGAIN: a local process holds a lock in conflict.
	Lock(file FileKey, owner LockOwner, typ LockType, start, end uint64) error
	// Unlock lets go of a range. It cannot fail in a way that leaves the lock.
	Unlock(file FileKey, owner LockOwner, start, end uint64)
	// Test looks for a lock of a local process: its type and range, ok false when there is none.
	Test(file FileKey, owner LockOwner, typ LockType, start, end uint64) (c LockConflict, ok bool)
	// Forget closes the owner's descriptor: it holds no lock on the file any more.
	Forget(file FileKey, owner LockOwner)
}

// Leases backs delegations by kernel leases, so that a local open in conflict waits. When the kernel reports one, or
// anything else shows that a local process changes the file or its names, whoever implements Leases calls
// State.LeaseBroken.
type Leases interface {
	// Acquire takes a read or write lease; an error means no delegation. It must not wait.
	Acquire(file FileKey, write bool) error
	// Weaken: the holder of a read delegation opens the file for writing itself. The kernel's lease can't stay beside a
	// writer, so it goes; from here on local processes are watched (inotify) and reported, though not held back. false:
	// there is no such watch, and the delegation is recalled. Release follows in any case.
	Weaken(file FileKey) bool
	// Release gives up lease and watch. Releasing what is not held does nothing.
	Release(file FileKey)
}

// Callbacks sends to clients. No method may wait: results come back through the State's methods named with each.
type Callbacks interface {
	// Recall asks a client to return a delegation (CB_RECALL); then RecallDone.
	Recall(r Recall)
	// Getattr asks the holder of a write delegation for size and change (CB_GETATTR); then DelegAttrsDone.
	Getattr(r Recall)
	// NotifyLock tells a client that a lock it waited for may be free (CB_NOTIFY_LOCK, 4.1). No answer is needed.
	NotifyLock(client *Client, fh []byte, owner []byte)
	// Probe tests the path (CB_NULL for 4.0, CB_SEQUENCE alone for 4.1); then SetCallbackPath.
	Probe(client *Client)
	// Gone: the client or its callback address is no more; forget connections to it.
	Gone(client *Client)
}

// Recall names a delegation to call back.
type Recall struct {
	Client   *Client
	Stateid  Stateid
	FH       []byte // the file handle that the client knows; do not modify
	Truncate bool   // the conflict is a truncation
}

// Recovery is stable storage of which clients hold state. Calls are serialised.
type Recovery interface {
	// Load starts an epoch: the clients that may reclaim, and a boot number that no earlier epoch had.
	Load() (clients []RecoveryRecord, boot uint32, err error)
	// Record puts a client on stable storage before it returns.
	Record(r RecoveryRecord) error
	// Remove takes clients off stable storage before it returns; of those that are not there it says nothing. An error
	// may leave some of them removed.
	Remove(owners [][]byte) error
	// GraceDone forgets the clients of earlier epochs that were not recorded again.
	GraceDone() error
	Close() error
}

// RecoveryRecord is one client on stable storage.
type RecoveryRecord struct {
	Owner []byte // nfs_client_id4.id or client_owner4.co_ownerid
	Minor uint8  // 0: will not send RECLAIM_COMPLETE
}

func (c *Config) fill() {
	def := func(p *int, v int) {
		if *p <= 0 {
			*p = v
		}
	}
	if c.Lease <= 0 {
		c.Lease = 90 * time.Second
	}
	if c.Grace <= 0 {
		c.Grace = c.Lease
	}
	if c.RecallTime <= 0 {
		c.RecallTime = c.Lease
	}
	if c.Courtesy <= 0 {
		c.Courtesy = 24 * time.Hour
	}
	def(&c.MaxClients, 4096)
	def(&c.MaxSessions, 64)
	def(&c.MaxSlots, 256)
	def(&c.MaxConns, 64)
	def(&c.MaxOpens, 65536)
	def(&c.MaxOwners, 16384)
	def(&c.MaxLocks, 65536)
	def(&c.MaxObjects, 1<<19)
	def(&c.MaxRanges, 1<<20)
	def(&c.MaxLockPlaces, 65536)
	def(&c.MaxWaiters, 1024)
	def(&c.MaxAllWaiters, 65536)
	def(&c.MaxDelegations, 16384)
	if c.MaxReplyCache <= 0 {
		c.MaxReplyCache = 256 << 20
	}
	for _, d := range []struct {
		p *uint32
		v uint32
	}{{&c.MaxCachedReply, 4096}, {&c.MaxRequest, 1<<20 + 4096}, {&c.MaxResponse, 1<<20 + 4096}, {&c.MaxOps, 64}} {
		if *d.p == 0 {
			*d.p = d.v
		}
	}
}
