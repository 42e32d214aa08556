package rpc

import (
	"encoding/binary"
	"sync/atomic"
	"testing"
	"time"

	"sluice/xdr"
)

type backResult struct {
	reply []byte
	err   error
}

// Calls to a client over its own connection: answered, not answered, answered too late, cut off, too many; and in between
// the client's calls go on.
func TestBackchannel(t *testing.T) {
	conns := make(chan *Conn, 4)
	var left atomic.Int32
	ts := start(t, func(c *Config) {
		c.OnConnect = func(c *Conn) { conns <- c }
		c.OnDisconnect = func(*Conn) { left.Add(1) }
	})
	p := ts.dial(t)
	p.alive()
	c := <-conns
	results := make(chan backResult, maxBackCalls)
	call := func(timeout time.Duration) error {
		return c.Call(0x40000000, 1, 1, &Cred{Flavor: FlavorSys, UID: 17, GID: 19}, words{7, 8}, timeout, func(b []byte, err error) {
			results <- backResult{append([]byte(nil), b...), err}
		})
	}
	answer := func(xid uint32) { // accepted, no verifier, success, one word of results
		p.send(append(be(1<<31|28), be(xid, msgReply, msgAccepted, 0, 0, acceptSuccess, 42)...))
	}
	if err := call(time.Minute); err != nil {
		t.Fatal(err)
	}
	b := p.recv()
	var h header
	h.decode(b)
	if h.prog != 0x40000000 || h.vers != 1 || h.proc != 1 || h.uid != 17 || h.gid != 19 || string(b[h.args:]) != string(be(7, 8)) {
		t.Errorf("the call came as %x", b)
	}
	p.alive()
	answer(h.xid)
	r := <-results
	var res one
	if err := DecodeReply(r.reply, &res); r.err != nil || err != nil || res != 42 {
		t.Errorf("reply: %v, %v, %d", r.err, err, res)
	}
	if err := call(time.Millisecond); err != nil {
		t.Fatal(err)
	}
	late := binary.BigEndian.Uint32(p.recv())
	if r := <-results; r.err != ErrBackTimeout {
		t.Errorf("no answer: %v", r.err)
	}
	answer(late)
	p.alive()
	for range maxBackCalls {
		if err := call(time.Minute); err != nil {
			t.Fatal(err)
		}
	}
	if err := call(time.Minute); err != ErrBackBusy {
		t.Errorf("one call too many: %v", err)
	}
	p.Close()
	for range maxBackCalls {
		if r := <-results; r.err != ErrBackClosed {
			t.Errorf("connection closed: %v", r.err)
		}
	}
	eventually(t, "OnDisconnect", func() bool { return left.Load() == 1 })
	if err := call(time.Minute); err != ErrBackClosed {
		t.Errorf("after the end: %v", err)
	}
}

type one uint32

func (o *one) Decode(d *xdr.Decoder) { *o = one(d.Uint32()) }

// Who was never called and sends a reply has lost the thread.
func TestReplyToNothing(t *testing.T) {
	ts := start(t, nil)
	p := ts.dial(t)
	p.alive()
	p.send(append(be(1<<31|24), be(1, msgReply, 0, 0, 0, 0)...))
	p.closed()
}
