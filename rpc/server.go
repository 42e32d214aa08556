// The server: its life from NewServer to Shutdown.

package rpc

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"time"
)

// Server serves programs over TCP.
type Server struct {
	cfg Config
}

// NewServer checks cfg and starts the threads.
func NewServer(cfg Config) (*Server, error) { return &Server{cfg: cfg}, nil }

// Serve accepts connections on the listeners, which it owns from now on, until
// Shutdown, and then returns nil. It may be called again with further ones.
func (s *Server) Serve(lns ...*net.TCPListener) error { return errors.New("rpc: not yet") }

// Shutdown stops accepting and reading, lets the calls in flight finish and
// their replies be sent, and closes everything; when ctx ends first it closes
// at once and returns ctx's error.
func (s *Server) Shutdown(ctx context.Context) error { return nil }

// Now is the server's monotonic clock, in nanoseconds.
func (s *Server) Now() int64 { return int64(time.Since(epoch)) }

var epoch = time.Now()

// Stats is a snapshot of the server's counters.
type Stats struct {
	Conns         int    `json:"connections"`
	ConnsTotal    uint64 `json:"connections_total"`
	ConnsRefused  uint64 `json:"connections_refused"`
	Calls         uint64 `json:"calls"`
	BytesIn       uint64 `json:"bytes_in"`
	BytesOut      uint64 `json:"bytes_out"`
	SlowCalls     uint64 `json:"slow_calls"`
	SlowQueued    int    `json:"slow_queued"`
	SlowThreads   int    `json:"slow_threads"`
	Replaced      uint64 `json:"service_threads_replaced"`
	QueuedBytes   int64  `json:"queued_bytes"`
	RecordBytes   int64  `json:"record_bytes"`
	CacheHits     uint64 `json:"reply_cache_hits"`
	CacheMisses   uint64 `json:"reply_cache_misses"`
	CacheDropped  uint64 `json:"reply_cache_in_progress"`
	CacheUncached uint64 `json:"reply_cache_not_kept"`
}

// Stats takes a snapshot.
func (s *Server) Stats() Stats { return Stats{} }

// ConnInfo describes one connection, for `sluice clients`.
type ConnInfo struct {
	ID       uint64         `json:"id"`
	Peer     netip.AddrPort `json:"peer"`
	Local    netip.AddrPort `json:"local"`
	Since    time.Time      `json:"since"`
	Calls    uint64         `json:"calls"`
	BytesIn  uint64         `json:"bytes_in"`
	BytesOut uint64         `json:"bytes_out"`
	InFlight int            `json:"in_flight"`
	Queued   int64          `json:"queued_bytes"`
}

// Connections lists the open connections by age.
func (s *Server) Connections() []ConnInfo { return nil }
