// Calls in the other direction: over a client's connection, to the client
// (NFSv4.1's back channel, RFC 8881, 2.10.3.1).
//
// A call goes out like a reply does, and nobody waits for the answer: when it
// comes, when the connection ends or when time is up, whichever is first, the
// caller's function is called, once. A message of type REPLY that nothing waits
// for (it came too late) is dropped; on a connection that no call was ever sent
// on, it shows that the client has lost the thread, and the connection is closed.

package rpc

import (
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"sluice/xdr"
)

// maxBackCalls is how many calls to one client may be waiting for their answers.
const maxBackCalls = 64

// Errors of Conn.Call.
var (
	ErrBackBusy    = errors.New("rpc: too many calls to the client are waiting for their answers")
	ErrBackClosed  = errors.New("rpc: the connection to the client is closed")
	ErrBackTimeout = errors.New("rpc: the client has not answered in time")
)

// backchannel is the calls to a client that are under way.
type backchannel struct {
	mu    sync.Mutex
	used  bool
	ended bool
	xid   uint32
	calls map[uint32]*backCall
}

type backCall struct {
	done  func(reply []byte, err error)
	timer *time.Timer
}

// take removes a call; nil if somebody else was first.
func (b *backchannel) take(xid uint32) *backCall {
	b.mu.Lock()
	defer b.mu.Unlock()
	call := b.calls[xid]
	delete(b.calls, xid)
	return call
}

// end fails what is under way: the connection is gone.
func (b *backchannel) end() {
	b.mu.Lock()
	calls := b.calls
	b.calls, b.ended = nil, true
	b.mu.Unlock()
	for _, call := range calls {
		call.timer.Stop()
		call.done(nil, ErrBackClosed)
	}
}

// Call sends a call to the client and returns at once. When it returns nil,
// done is called later, exactly once, on any goroutine, and must not wait: with
// the whole reply, for DecodeReply, of which nothing may be kept; or with an
// error. When Call returns an error, done is not called.
func (c *Conn) Call(prog, vers, proc uint32, cred *Cred, args Encodable, timeout time.Duration, done func(reply []byte, err error)) error {
	b := &c.back
	b.mu.Lock()
	switch {
	case b.ended || c.srv == nil:
		b.mu.Unlock()
		return ErrBackClosed
	case len(b.calls) >= maxBackCalls:
		b.mu.Unlock()
		return ErrBackBusy
	}
	if b.calls == nil {
		b.calls = map[uint32]*backCall{}
	}
	if !b.used {
		b.used, b.xid = true, rand.Uint32()
	}
	for b.calls[b.xid] != nil || b.xid == 0 {
		b.xid++
	}
	xid := b.xid
	b.xid++
	call := &backCall{done: done}
	call.timer = time.AfterFunc(timeout, func() {
		if call := b.take(xid); call != nil {
			call.done(nil, ErrBackTimeout)
		}
	})
	b.calls[xid] = call
	b.mu.Unlock()

	var e xdr.Encoder
	e.Reset(EncodeCall(nil, xid, prog, vers, proc, cred, args))
	c.transmit(new(sender), &e)
	return nil
}

// answered delivers a reply. false: the client cannot have been asked.
func (c *Conn) answered(xid uint32, body []byte) bool {
	if c == nil {
		return true
	}
	call := c.back.take(xid)
	if call == nil {
		c.back.mu.Lock()
		defer c.back.mu.Unlock()
		return c.back.used
	}
	call.timer.Stop()
	call.done(body, nil)
	return true
}
