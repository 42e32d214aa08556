// Calls to clients of 4.0, at the address that they gave in SETCLIENTID.
//
// Each client has one connection of ours, made when it is first needed and
// again when it broke. A callback has a goroutine, and there is a bound on
// those: addresses are the clients' word, and may lead nowhere, so that each
// may be held for as long as dialling and waiting take. Whoever has many of
// them leaves room for others (turns40), and the rest of his callbacks wait.
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

// turns40 shares the goroutines for callbacks out, under the lock of Callbacks. The clients of one peer have no more of
// them than are left free, so that they never have all, and those of other peers find some.
type turns40 struct {
	busy  int
	peers map[string]*peer40
}

// peer40 is a peer whose callbacks are under way or wait. There are at most a probe of each client, and a recall and a
// question for each delegation.
type peer40 struct {
	busy   int
	calls  []func()
	probes []func() // wait for calls: in those, somebody else waits
}

// next takes a callback whose turn it is; nil if there is none.
func (t *turns40) next() (f func(), peer string) {
	for name, p := range t.peers {
		if p.busy >= maxCallbacks40-t.busy {
			continue
		}
		switch {
		case len(p.calls) > 0:
			f, p.calls = p.calls[0], p.calls[1:]
		case len(p.probes) > 0:
			f, p.probes = p.probes[0], p.probes[1:]
		default:
			continue
		}
		p.busy++
		t.busy++
		return f, name
	}
	return nil, ""
}

// done gives a goroutine back.
func (t *turns40) done(peer string) {
	t.busy--
	p := t.peers[peer]
	if p.busy--; p.busy == 0 && len(p.calls) == 0 && len(p.probes) == 0 {
		delete(t.peers, peer)
	}
}

// background runs f on a goroutine, when there is one for the client's peer.
func (b *Callbacks) background(c *state.Client, probe bool, f func()) {
	name := c.Peer()
	b.mu.Lock()
	defer b.mu.Unlock()
	p := b.turns.peers[name]
	if p == nil {
		p = new(peer40)
		b.turns.peers[name] = p
	}
	if probe {
		p.probes = append(p.probes, f)
	} else {
		p.calls = append(p.calls, f)
	}
	b.start()
}

// start starts what has its turn. The lock is held.
func (b *Callbacks) start() {
	for {
		f, peer := b.turns.next()
		if f == nil {
			return
		}
		go func() {
			f()
			b.mu.Lock()
			defer b.mu.Unlock()
			b.turns.done(peer)
			b.start()
		}()
	}
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

func (b *Callbacks) probe40(c *state.Client) {
	b.background(c, true, func() { b.probed(c, b.call40(c, c.Callback(), wire.CB_NULL, nil, nil, nil) == nil) })
}

func (b *Callbacks) send40(c *state.Client, num wire.NfsCbOpnum4, args rpc.Encodable, done func(*xdr.Decoder, error)) {
	b.background(c, false, func() {
		t := c.Callback()
		r := cbReply{s: &cbScript{ident: t.Ident, num: num, args: args}}
		err := b.call40(c, t, wire.CB_COMPOUND, &b.cred, r.s, &r)
		if err == nil {
			err = r.err
		}
		done(&r.body, err)
	})
}
