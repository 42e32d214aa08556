// A client's connection.

package rpc

import (
	"net/netip"
)

type peer struct{ remote, local netip.AddrPort }

// Conn is one TCP connection.
type Conn struct {
	// Data is the protocols' own, set by Config.OnConnect and not changed
	// afterwards. Calls of one connection run on several threads at once, so
	// that what hangs here guards itself.
	Data any

	id   uint64
	peer peer
}

// Peer is the client's address and port; an IPv4 client has an IPv4 address.
func (c *Conn) Peer() netip.AddrPort { return c.peer.remote }

// Local is the server's address and port.
func (c *Conn) Local() netip.AddrPort { return c.peer.local }

// ID is unique in the life of the server.
func (c *Conn) ID() uint64 { return c.id }

// Plain reports that replies go to the socket as they are, so that a payload
// may be a pipe that is spliced to it.
func (c *Conn) Plain() bool { return true }

// Peer is the caller's address and port.
func (c *Call) Peer() netip.AddrPort { return c.peer.remote }
