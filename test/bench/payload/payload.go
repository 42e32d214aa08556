// Package payload measures how the data of WRITE-like records gets from a
// socket into a file: received and written, or spliced through a pipe.
//
// Plan: a Source (one process) sends records with the framing and the head of
// an NFSv3 WRITE over loopback TCP, some in flight on each connection; a Sink
// (another) reads each record's head, moves the payload in one of the Ways, and
// answers. Both are as small as can be, so that what differs is the way alone.
// Either way gets the best that a server could do: exactly the head is read
// into user space, a waiting thread is woken once for all of the rest
// (SO_RCVLOWAT), and the copy lands in one page-aligned buffer that is used
// again. The Sink counts its CPU time and its system calls.
//
// Files: payload.go (records, results), sink.go, source.go.
package payload

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// Ways are the ways of a payload from socket to file.
var Ways = []string{
	"copy",    // recv into a buffer, pwrite
	"splice",  // into a pipe until it is whole, then to the file in one call
	"arrival", // spliced to the file as it arrives
	"4k",      // into a pipe until it is whole, then to the file in pieces of 4 KiB
}

// Config says what to move. Source and Sink need the same one.
type Config struct {
	Way   string // one of Ways
	Dir   string // connection i writes the file Dir/i
	Size  int    // bytes of a payload, at most MaxSize
	Conns int    // connections, one thread each
	Depth int    // records in flight on a connection
	Bytes int64  // payload bytes of a connection; the last record is whole
	Span  int64  // file bytes that are written over and over
	Skew  int64  // where the first payload goes
	Mark  bool   // fill each payload with its place in the file, for tests
}

// Limits of a Config.
const (
	MaxSize  = 4 << 20
	MaxConns = 64
	MaxDepth = 1024
)

func (c *Config) check() error {
	switch {
	case !slices.Contains(Ways, c.Way):
		return fmt.Errorf("way %q: want one of %s", c.Way, strings.Join(Ways, " "))
	case c.Size < 1 || c.Size > MaxSize:
		return fmt.Errorf("size: %d, want 1 to %d", c.Size, MaxSize)
	case c.Conns < 1 || c.Conns > MaxConns:
		return fmt.Errorf("connections: %d, want 1 to %d", c.Conns, MaxConns)
	case c.Depth < 1 || c.Depth > MaxDepth:
		return fmt.Errorf("depth: %d, want 1 to %d", c.Depth, MaxDepth)
	case c.Bytes < 1 || c.Skew < 0 || c.Span < int64(c.Size):
		return fmt.Errorf("bytes %d, skew %d, span %d: want at least 1, 0 and the size", c.Bytes, c.Skew, c.Span)
	}
	return nil
}

// offset is where the payload of a connection's k-th record goes.
func (c *Config) offset(k int64) int64 {
	return c.Skew + k%(c.Span/int64(c.Size))*int64(c.Size)
}

// records is how many a connection carries.
func (c *Config) records() int64 { return (c.Bytes + int64(c.Size) - 1) / int64(c.Size) }

// SinkResult is what a Sink counted. Calls that found nothing are counted too.
type SinkResult struct {
	Records int64   `json:"records"`
	Bytes   int64   `json:"bytes"`  // of payloads
	CPU     float64 `json:"cpu_s"`  // user and system, of the whole process
	In      int64   `json:"in"`     // calls that take payload from the socket
	Out     int64   `json:"out"`    // calls that give it to the file
	Full    int64   `json:"full"`   // times that the pipe was full before a payload was whole
	Waits   int64   `json:"waits"`  // polls
	Lowats  int64   `json:"lowats"` // settings of SO_RCVLOWAT
}

// SourceResult is what a Source counted.
type SourceResult struct {
	Seconds float64 `json:"seconds"` // from the first byte to the last answer
	CPU     float64 `json:"cpu_s"`
}

var be = binary.BigEndian

// Where things are in a record, its mark included (RFC 5531, RFC 1813 3.3.7).
const (
	atXID    = 4
	atProc   = 24
	atOffset = 28 + 8 + 24 + 8 + 4 + handleLen // behind credentials, verifier and handle
	atCount  = atOffset + 8
	atLength = atCount + 8
	headLen  = atLength + 4

	handleLen = 64
	procWrite = 7
	replyLen  = 32
)

// newHead makes a record's head for payloads of size bytes.
func newHead(size int) []byte {
	h := make([]byte, headLen)
	be.PutUint32(h, 1<<31|uint32(headLen-4+(size+3)&^3))
	for i, v := range []uint32{0, 2, 100003, 3, procWrite, 1, 24, 0, 4} { // call, RPC 2, NFS 3, WRITE, AUTH_SYS
		be.PutUint32(h[8+4*i:], v)
	}
	be.PutUint32(h[atOffset-handleLen-4:], handleLen)
	be.PutUint32(h[atCount:], uint32(size))
	be.PutUint32(h[atLength:], uint32(size))
	return h
}

var errHead = errors.New("a record's head is not what was agreed on")

// parseHead returns what a head says.
func parseHead(h []byte) (off int64, size, pad int, err error) {
	size = int(be.Uint32(h[atLength:]))
	rest := int(be.Uint32(h)&^(1<<31)) - (headLen - 4)
	if be.Uint32(h)>>31 == 0 || be.Uint32(h[atProc:]) != procWrite || size < 1 || size > MaxSize ||
		size != int(be.Uint32(h[atCount:])) || rest != (size+3)&^3 {
		return 0, 0, 0, errHead
	}
	return int64(be.Uint64(h[atOffset:])), size, rest - size, nil
}

// cpu returns this process's CPU seconds.
func cpu() (float64, error) {
	var ru unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &ru); err != nil {
		return 0, err
	}
	return float64(ru.Utime.Nano()+ru.Stime.Nano()) / 1e9, nil
}

// tune does what the server does with a connection within the host (decision
// 34), and sends small answers at once.
func tune(fd int) {
	unix.SetsockoptString(fd, unix.IPPROTO_TCP, unix.TCP_CONGESTION, "reno") //nolint:errcheck // else the system's
	unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1)            //nolint:errcheck
}

// fill gives a payload for off its pattern: no two words of a file are alike.
func fill(b []byte, off int64) {
	for i := range b {
		b[i] = Pattern(off + int64(i))
	}
}

// Pattern is what a payload with Mark holds at a place in the file.
func Pattern(at int64) byte { return byte(at ^ at>>8*7 ^ at>>16*31) }
