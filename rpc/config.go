// What a server is made of, the limits it keeps, and whom it tells.

package rpc

import (
	"cmp"
	"errors"
	"fmt"
	"runtime"
	"time"

	"github.com/rs/zerolog"
	"golang.org/x/sys/unix"
)

// MaxCachedReply is the largest reply, in bytes with its header, that the
// reply cache keeps. The largest of NFSv3, that of CREATE, has 308.
const MaxCachedReply = 512

// Observer is told what happens, for statistics and traces. Its methods are
// called on the hot path from many threads at once: they must neither block
// nor allocate.
type Observer interface {
	// Call: a procedure has answered. ns is the time from the call's arrival
	// to the end of its procedure; in and out are the bytes of the call and
	// of its reply, with their record marks (out is 0 when there is none).
	Call(c *Call, ns int64, in, out int)
	// Reject: a call or a connection was refused.
	Reject(r Reason)
	// Connect and Disconnect: a client came, or left for the reason given.
	Connect(c *Conn)
	Disconnect(c *Conn, reason string)
}

// Reason says why a call or connection was refused; it indexes Stats.Rejects.
type Reason uint8

const (
	ReasonRPCMismatch  Reason = iota // an RPC version other than 2
	ReasonAuth                       // AUTH_ERROR
	ReasonProgUnavail                // PROG_UNAVAIL
	ReasonProgMismatch               // PROG_MISMATCH
	ReasonProcUnavail                // PROC_UNAVAIL
	ReasonGarbageArgs                // GARBAGE_ARGS
	ReasonSystemErr                  // SYSTEM_ERR
	ReasonConnLimit                  // a connection past MaxConns
	ReasonDescriptors                // accept failed for want of descriptors or memory
	NumReasons
)

var reasonNames = [NumReasons]string{
	"rpc_mismatch", "auth_error", "prog_unavail", "prog_mismatch", "proc_unavail",
	"garbage_args", "system_err", "connection_limit", "descriptor_limit",
}

func (r Reason) String() string { return reasonNames[r] }

// Why the server closes a connection, besides errors of its socket.
const (
	reasonStalled  = "closed: it takes no replies"
	reasonIdle     = "closed: idle"
	reasonRoom     = "closed: idle, and its place was needed at the connection limit"
	reasonUnfilled = "closed: an unfinished call came in too slowly while others waited for memory"
	reasonShutdown = "closed: the server shuts down"
)

// Config makes a server. Zero values stand for the defaults given.
type Config struct {
	Programs []Program

	// NewLocal makes the state of one thread (credentials, pipes, buffers)
	// and CloseLocal ends it. Both run on that thread.
	NewLocal   func() any
	CloseLocal func(any)
	// OnConnect is called before the first call of a connection, to set its Data.
	OnConnect func(*Conn)
	// OnDisconnect is called once a connection is gone and no call of it runs
	// on a service thread. It must not wait.
	OnDisconnect func(*Conn)

	Threads      int // service threads; 0: one per core
	SpareThreads int // further ones, for when procedures sleep on those; 16
	SlowThreads  int // at most so many slow threads; 64
	SlowPerConn  int // at most so many of them for one connection; SlowThreads/2
	SlowQueue    int // calls waiting for a slow thread; 1024
	MaxInFlight  int // calls of one connection that are queued or run on slow threads; 128

	MaxRecord    int   // bytes of one call; 1 MiB + 4 KiB
	RecordMemory int64 // bytes of all incomplete and waiting calls; 128 MiB, and enough for every thread

	MaxQueuedPerConn int   // bytes of replies queued before a connection is no longer read; 1 MiB
	MaxQueuedTotal   int64 // bytes of replies queued for all; past it the longest stalled connection is closed; 256 MiB

	MaxConns    int           // 0: half of RLIMIT_NOFILE, at most 65536; past it idle ones give way, or the new one is closed
	IdleTimeout time.Duration // a connection with nothing in flight is closed after it; 6 min; negative: never
	UserTimeout time.Duration // TCP_USER_TIMEOUT: a client that acknowledges or takes nothing for so long is lost; 3 min

	CacheEntries int           // replies kept, in each of the two parts of the cache (see Proc.Bulk); 16384
	CacheAge     time.Duration // for how long; 120 s

	Observer Observer
	Log      zerolog.Logger

	poison bool // tests: overwrite record buffers that are given back
}

func (c *Config) complete() error {
	c.Threads = cmp.Or(c.Threads, runtime.NumCPU())
	c.SpareThreads = cmp.Or(c.SpareThreads, 16)
	c.SlowThreads = cmp.Or(c.SlowThreads, 64)
	c.SlowPerConn = cmp.Or(c.SlowPerConn, max(c.SlowThreads/2, 1))
	c.SlowQueue = cmp.Or(c.SlowQueue, 1024)
	c.MaxInFlight = cmp.Or(c.MaxInFlight, 128)
	c.MaxRecord = cmp.Or(c.MaxRecord, 1<<20+4<<10)
	c.MaxQueuedPerConn = cmp.Or(c.MaxQueuedPerConn, 1<<20)
	c.MaxQueuedTotal = cmp.Or(c.MaxQueuedTotal, 256<<20)
	c.IdleTimeout = cmp.Or(c.IdleTimeout, 6*time.Minute)
	c.UserTimeout = cmp.Or(c.UserTimeout, 3*time.Minute)
	c.CacheEntries = cmp.Or(c.CacheEntries, 16384)
	c.CacheAge = cmp.Or(c.CacheAge, 120*time.Second)
	if c.MaxConns == 0 {
		var lim unix.Rlimit
		if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &lim); err != nil {
			return fmt.Errorf("rpc: cannot read the descriptor limit: %w", err)
		}
		c.MaxConns = int(min(max(lim.Cur/2, 16), 65536))
	}
	for _, v := range []int{c.Threads, c.SpareThreads, c.SlowThreads, c.SlowPerConn, c.SlowQueue, c.MaxInFlight,
		c.MaxQueuedPerConn, int(c.MaxQueuedTotal), c.MaxConns, c.CacheEntries, int(c.UserTimeout), int(c.CacheAge)} {
		if v < 0 {
			return errors.New("rpc: a limit in the configuration is negative")
		}
	}
	if c.MaxRecord < 1<<10 || c.MaxRecord > 1<<30 {
		return fmt.Errorf("rpc: a record limit of %d bytes is not between 1 KiB and 1 GiB", c.MaxRecord)
	}
	// What there is for reading calls of new connections must give every thread
	// its pocket and leave one to be used; the last quarter must take the
	// largest call.
	pocket := newPool(0, c.MaxRecord, readSize).pocket
	need := pocket * int64(c.Threads+c.SpareThreads+2) * 8 / 5
	if c.RecordMemory == 0 {
		c.RecordMemory = max(128<<20, need)
	}
	if c.RecordMemory < need {
		return fmt.Errorf("rpc: %d bytes of record memory are too few: %d threads need %d; raise the memory or lower the record limit",
			c.RecordMemory, c.Threads+c.SpareThreads, need)
	}
	seen := map[uint32]bool{}
	for _, p := range c.Programs {
		if seen[p.Prog] || len(p.Versions) == 0 {
			return fmt.Errorf("rpc: program %d (%s) is given twice or has no version", p.Prog, p.Name)
		}
		seen[p.Prog] = true
	}
	return nil
}
