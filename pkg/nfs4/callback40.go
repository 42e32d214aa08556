// Calls to clients of 4.0, at the address that they gave in SETCLIENTID.
//
// Each client has one connection of ours, made when it is first needed and
// again when it broke. A callback has a goroutine, and there is a bound on
// those: addresses are the clients' word, and may lead nowhere, so that each
// may be held for as long as dialling and waiting take. Whoever has many of
// them leaves room for others (enter40).
//
// That word is taken as Linux takes it (gen_callback in fs/nfsd/nfs4state.c):
// the address need not be the one that the client calls from, since clients
// have several, and their users choose (clientaddr= of nfs(5)). It could be
// used to have this server call others, though, under its own name. What that
// comes to is CB_NULL and CB_COMPOUND, version 1 of a program that must not be
// one of those with a fixed number (mountd, statd, ...), unlike in Linux. An
// address of this server's own leads to a connection like any other, which
// answers that it has no such program.

package nfs4

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"sluice/pkg/state"
	"sluice/rpc"
	"sluice/xdr"
	wire "sluice/xdr/nfs4"
)

const (
	dialTimeout      = 5 * time.Second
	busyDelay        = 250 * time.Millisecond // until a probe that found no goroutine is tried again, at first
	maxBusyDelay     = 2 * time.Second
	maxCallbacks40   = 64         // callbacks at a time, each of which has a goroutine
	maxKept40        = 512        // connections kept open for the next callback
	maxCallbackReply = 32 << 10   // bytes; CB_GETATTR's is the longest and has a few hundred
	firstCBProgram   = 0x20000000 // lower ones are assigned to services (RFC 5531, 8.4.2)
)

// path40 is the way to a 4.0 client.
type path40 struct {
	kept *atomic.Int32 // of all paths: those with a connection

	mu     sync.Mutex // held during a call
	target state.CallbackTarget
	client *rpc.Client
}

// drop closes the connection.
func (p *path40) drop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.close()
}

func (p *path40) close() {
	if p.client != nil {
		p.client.Close() //nolint:errcheck // it was only ours
		p.client = nil
		p.kept.Add(-1)
	}
}

func (p *path40) dial(addr string, t state.CallbackTarget) error {
	ctx, cancel := context.WithTimeout(context.Background(), dialTimeout)
	defer cancel()
	c, err := rpc.Dial(ctx, "tcp", addr)
	if err != nil {
		return err
	}
	c.Timeout, c.MaxReply = callbackTimeout, maxCallbackReply
	p.client, p.target = c, t
	p.kept.Add(1)
	return nil
}

// call makes a call, on a new connection if there is none to this target.
func (p *path40) call(t state.CallbackTarget, proc uint32, cred *rpc.Cred, args rpc.Encodable, res rpc.Decodable) error {
	addr, valid := universal(t.NetID, t.Addr)
	if !valid || t.Program < firstCBProgram {
		return errNoPath
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	kept := p.client != nil && p.target == t
	for {
		if !kept {
			p.close()
			if err := p.dial(addr.String(), t); err != nil {
				return err
			}
		}
		err := p.client.Call(t.Program, wire.NFS_CB, proc, cred, args, res)
		if _, answered := err.(*rpc.Error); err == nil || answered {
			if p.kept.Load() > maxKept40 {
				p.close()
			}
			return err
		}
		p.close()
		var ne net.Error
		if !kept || errors.As(err, &ne) && ne.Timeout() {
			return err
		}
		kept = false // the client may have closed it meanwhile: once more on a new one
	}
}

// universal reads an address as RFC 5665 writes it: "192.0.2.1.8.1" is port 2049.
func universal(netid, s string) (a netip.AddrPort, valid bool) {
	if netid != "tcp" && netid != "tcp6" {
		return a, false
	}
	var port [2]uint64
	for i := 1; i >= 0; i-- {
		dot := strings.LastIndexByte(s, '.')
		if dot < 0 {
			return a, false
		}
		var err error
		if port[i], err = strconv.ParseUint(s[dot+1:], 10, 8); err != nil {
			return a, false
		}
		s = s[:dot]
	}
	ip, err := netip.ParseAddr(s)
	a = netip.AddrPortFrom(ip, uint16(port[0]<<8|port[1]))
	return a, err == nil && !ip.IsUnspecified() && !ip.IsMulticast() && a.Port() != 0
}

// enter40 takes one of the goroutines for callbacks. The clients of one peer have no more of them than are left free, so
// that they never have all, and those of other peers find some.
func (b *Callbacks) enter40(peer string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.peer40[peer] >= maxCallbacks40-b.busy40 {
		return false
	}
	b.busy40++
	b.peer40[peer]++
	return true
}

func (b *Callbacks) leave40(peer string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.busy40--
	if b.peer40[peer]--; b.peer40[peer] == 0 {
		delete(b.peer40, peer)
	}
}

// background runs f on a goroutine, if there is one left for the client's peer. It reports whether it will run.
func (b *Callbacks) background(c *state.Client, f func()) bool {
	peer := c.Peer()
	if !b.enter40(peer) {
		return false
	}
	go func() {
		defer b.leave40(peer)
		f()
	}()
	return true
}

// path gives the way to a client; nil when the client is no more, since nobody would take it away again.
func (b *Callbacks) path(c *state.Client) *path40 {
	b.mu.Lock()
	defer b.mu.Unlock()
	if c.Gone() {
		return nil
	}
	p := b.paths[c]
	if p == nil {
		p = &path40{kept: &b.kept}
		b.paths[c] = p
	}
	return p
}

// call40 makes a call to a client, in the background.
func (b *Callbacks) call40(c *state.Client, t state.CallbackTarget, proc uint32, cred *rpc.Cred, args rpc.Encodable, res rpc.Decodable) error {
	p := b.path(c)
	if p == nil {
		return errNoPath
	}
	return p.call(t, proc, cred, args, res)
}

// probe40 makes a probe, later when there are too many callbacks under way: that says nothing of this client's path.
func (b *Callbacks) probe40(c *state.Client, delay time.Duration) {
	if b.background(c, func() { b.probed(c, b.call40(c, c.Callback(), wire.CB_NULL, nil, nil, nil) == nil) }) {
		return
	}
	time.AfterFunc(delay, func() {
		b.mu.Lock()
		_, wanted := b.probes[c]
		b.mu.Unlock()
		if wanted { // the client has not gone
			b.probe40(c, min(2*delay, maxBusyDelay))
		}
	})
}

func (b *Callbacks) send40(c *state.Client, num wire.NfsCbOpnum4, args rpc.Encodable, done func(*xdr.Decoder, error)) {
	sent := b.background(c, func() {
		t := c.Callback()
		r := cbReply{s: &cbScript{ident: t.Ident, num: num, args: args}}
		err := b.call40(c, t, wire.CB_COMPOUND, &b.cred, r.s, &r)
		if err == nil {
			err = r.err
		}
		done(&r.body, err)
	})
	if !sent {
		done(nil, errBusy)
	}
}
