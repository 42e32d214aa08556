// A blocking client over TCP, for tests and for asking other servers (rpcbind).

package rpc

import (
	"context"
	"errors"
	"net"

	"sluice/xdr"
)

// Encodable and Decodable are what xdrgen's types are.
type Encodable interface{ Encode(*xdr.Encoder) }
type Decodable interface{ Decode(*xdr.Decoder) }

// Client makes calls over one connection, one at a time; it may be shared.
type Client struct{ nc net.Conn }

// Dial connects to an address such as "127.0.0.1:2049".
func Dial(ctx context.Context, network, addr string) (*Client, error) { return nil, errors.New("rpc: not yet") }

// NewClient makes a client of a stream that is connected already.
func NewClient(nc net.Conn) *Client { return &Client{nc: nc} }

// Call makes a call and decodes its results; args and res may be nil. A reply
// other than success is an *Error.
func (c *Client) Call(prog, vers, proc uint32, cred *Cred, args Encodable, res Decodable) error {
	return errors.New("rpc: not yet")
}

// Close ends the connection.
func (c *Client) Close() error { return c.nc.Close() }

// Error is a reply that is not a success.
type Error struct {
	Denied    bool     // MSG_DENIED; else MSG_ACCEPTED with a status other than SUCCESS
	Stat      uint32   // accept_stat, or reject_stat when Denied
	Auth      AuthStat // with AUTH_ERROR
	Low, High uint32   // with PROG_MISMATCH and RPC_MISMATCH
}

func (e *Error) Error() string { return "rpc: refused" }
