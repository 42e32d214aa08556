// What a server is made of, and the limits it keeps.

package rpc

import (
	"time"

	"github.com/rs/zerolog"
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
	// of its reply, with their headers.
	Call(c *Call, ns int64, in, out int)
	// Reject: a call or a connection was refused.
	Reject(r Reason)
	// Connect and Disconnect: a client came, or left for the reason given.
	Connect(c *Conn)
	Disconnect(c *Conn, reason string)
}

// Reason says why a call or connection was refused; it indexes Stats.Rejects.
type Reason uint8

// Config makes a server. Zero values stand for the defaults given.
type Config struct {
	Programs []Program

	// NewLocal makes the state of one thread (credentials, pipes, buffers)
	// and CloseLocal ends it. Both run on that thread.
	NewLocal   func() any
	CloseLocal func(any)
	// OnConnect is called before the first call of a connection, to set its Data.
	OnConnect func(*Conn)

	Threads     int // service threads; 0: one per core
	SlowThreads int // at most so many slow threads; 64
	SlowPerConn int // at most so many of them for one connection; SlowThreads/2
	SlowQueue   int // calls waiting for a slow thread; 1024
	MaxInFlight int // calls of one connection that are queued or run on slow threads; 128

	MaxRecord    int   // bytes of one call; 1 MiB + 4 KiB
	RecordMemory int64 // bytes of all incomplete and waiting calls; 128 MiB

	MaxQueuedPerConn int   // bytes of replies queued before a connection is no longer read; 1 MiB
	MaxQueuedTotal   int64 // bytes of replies queued for all; past it the longest stalled connection is closed; 256 MiB

	MaxConns    int           // 0: from RLIMIT_NOFILE
	IdleTimeout time.Duration // a connection with nothing in flight is closed after it; 6 min
	UserTimeout time.Duration // TCP_USER_TIMEOUT: sent bytes that are not acknowledged; 3 min

	CacheEntries int           // replies kept, in each part of the cache; 16384
	CacheAge     time.Duration // for how long; 120 s

	Observer Observer
	Log      zerolog.Logger
}
