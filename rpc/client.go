// A blocking client over TCP, for tests and for asking other servers (rpcbind).

package rpc

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"sync"
	"time"

	"sluice/xdr"
)

// Encodable and Decodable are what xdrgen's types are.
type (
	Encodable interface{ Encode(*xdr.Encoder) }
	Decodable interface{ Decode(*xdr.Decoder) }
)

const (
	maxReply  = 16 << 20 // bytes of a reply that a Client takes unless told otherwise
	maxStrays = 64       // replies to other calls that it reads over while it waits for its own
)

var errStrays = errors.New("too many replies to other calls")

// Client makes calls over one connection, one at a time; it may be shared.
type Client struct {
	// Timeout bounds each call; 0 is no bound. A call that fails for it, or
	// for any other reason than an *Error or a result that does not decode,
	// leaves the connection unusable.
	Timeout time.Duration

	// MaxReply bounds replies, in bytes; 0 is 16 MiB. That much memory is taken
	// on the server's word.
	MaxReply int

	mu  sync.Mutex
	nc  net.Conn
	xid uint32
}

// Dial connects to an address such as "127.0.0.1:2049", or with network
// "unix" to a socket's path.
func Dial(ctx context.Context, network, addr string) (*Client, error) {
	var d net.Dialer
	nc, err := d.DialContext(ctx, network, addr)
	if err != nil {
		return nil, fmt.Errorf("rpc: %w", err)
	}
	return NewClient(nc), nil
}

// NewClient makes a client of a stream that is connected already.
func NewClient(nc net.Conn) *Client { return &Client{nc: nc, xid: rand.Uint32()} }

// Close ends the connection.
func (c *Client) Close() error { return c.nc.Close() }

// Call makes a call and decodes its results; args, res and cred may be nil. A
// reply other than success is an *Error.
func (c *Client) Call(prog, vers, proc uint32, cred *Cred, args Encodable, res Decodable) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.xid++
	record := EncodeCall(nil, c.xid, prog, vers, proc, cred, args)
	if c.Timeout > 0 {
		c.nc.SetDeadline(time.Now().Add(c.Timeout))
	}
	if _, err := c.nc.Write(record); err != nil {
		return fmt.Errorf("rpc: sending a call: %w", err)
	}
	limit := cmp.Or(c.MaxReply, maxReply)
	for range maxStrays {
		b, err := ReadRecord(c.nc, limit)
		if err != nil {
			return fmt.Errorf("rpc: waiting for a reply: %w", err)
		}
		if len(b) >= 4 && binary.BigEndian.Uint32(b) == c.xid {
			return DecodeReply(b, res)
		}
	}
	return fmt.Errorf("rpc: waiting for a reply: %w", errStrays)
}

// EncodeCall appends a call, as one record with its mark, to dst.
func EncodeCall(dst []byte, xid, prog, vers, proc uint32, cred *Cred, args Encodable) []byte {
	var e xdr.Encoder
	e.Reset(dst)
	at := len(dst)
	e.Uint32(0)
	encodeCall(&e, xid, prog, vers, proc, cred, args)
	e.Flatten(nil)
	seal(&e, at, e.Len()-at-4)
	return e.Bytes()
}

func encodeCall(e *xdr.Encoder, xid, prog, vers, proc uint32, cred *Cred, args Encodable) {
	for _, v := range []uint32{xid, msgCall, rpcVersion, prog, vers, proc} {
		e.Uint32(v)
	}
	if cred == nil {
		cred = &Cred{Flavor: FlavorNone}
	}
	e.Uint32(cred.Flavor)
	if cred.Flavor == FlavorSys {
		var body xdr.Encoder
		body.Uint32(0)
		body.Opaque(cred.Machine)
		body.Uint32(cred.UID)
		body.Uint32(cred.GID)
		body.Uint32(uint32(len(cred.Groups)))
		for _, g := range cred.Groups {
			body.Uint32(g)
		}
		e.Opaque(body.Bytes())
	} else {
		e.Uint32(0)
	}
	e.Uint32(FlavorNone)
	e.Uint32(0)
	if args != nil {
		args.Encode(e)
	}
}

// ReadRecord reads one record, which may come in fragments, of at most limit bytes.
func ReadRecord(r io.Reader, limit int) ([]byte, error) {
	var record []byte
	for {
		var mark [4]byte
		if _, err := io.ReadFull(r, mark[:]); err != nil {
			return nil, err
		}
		m := binary.BigEndian.Uint32(mark[:])
		n := int(m &^ lastFragment)
		if n > limit-len(record) {
			return nil, errRecordTooLong
		}
		at := len(record)
		record = append(record, make([]byte, n)...)
		if _, err := io.ReadFull(r, record[at:]); err != nil {
			return nil, err
		}
		if m&lastFragment != 0 {
			return record, nil
		}
	}
}

// DecodeReply decodes a reply (a record without its mark); res may be nil.
func DecodeReply(b []byte, res Decodable) error {
	var d xdr.Decoder
	d.Reset(b)
	d.Uint32() // xid
	if d.Uint32() != msgReply {
		d.Fail(errors.New("not a reply"))
	}
	e := &Error{}
	if d.Uint32() == msgDenied {
		e.Denied = true
		if e.Stat = d.Uint32(); e.Stat == rejectAuthError {
			e.Auth = AuthStat(d.Uint32())
		} else {
			e.Low, e.High = d.Uint32(), d.Uint32()
		}
	} else {
		d.Uint32() // verifier
		d.Opaque(MaxAuthBytes)
		if e.Stat = d.Uint32(); e.Stat == acceptProgMismatch {
			e.Low, e.High = d.Uint32(), d.Uint32()
		}
	}
	if d.Err() == nil && !e.Denied && e.Stat == acceptSuccess {
		if res != nil {
			res.Decode(&d)
		}
		if d.Err() == nil {
			return nil
		}
	}
	if err := d.Err(); err != nil {
		return fmt.Errorf("rpc: malformed reply: %w", err)
	}
	return e
}

// Error is a reply that is not a success.
type Error struct {
	Denied    bool     // MSG_DENIED; else MSG_ACCEPTED with a status other than SUCCESS
	Stat      uint32   // accept_stat, or reject_stat when Denied
	Auth      AuthStat // with AUTH_ERROR
	Low, High uint32   // versions served, with PROG_MISMATCH and RPC_MISMATCH
}

func (e *Error) Error() string {
	switch {
	case e.Denied && e.Stat == rejectRPCMismatch:
		return fmt.Sprintf("rpc: the server speaks RPC versions %d to %d", e.Low, e.High)
	case e.Denied:
		return fmt.Sprintf("rpc: the server refused the credentials (auth_stat %d)", e.Auth)
	case e.Stat == acceptProgUnavail:
		return "rpc: the server does not have the program"
	case e.Stat == acceptProgMismatch:
		return fmt.Sprintf("rpc: the server has versions %d to %d of the program", e.Low, e.High)
	case e.Stat == acceptProcUnavail:
		return "rpc: the server does not have the procedure"
	case e.Stat == acceptGarbageArgs:
		return "rpc: the server could not decode the arguments"
	}
	return fmt.Sprintf("rpc: the server failed (accept_stat %d)", e.Stat)
}
