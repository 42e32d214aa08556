// Calls to clients of 4.0, at the address that they gave in SETCLIENTID.
//
// Each client has one connection of ours, made when it is first needed and
// again when it broke. A callback has a goroutine, and there is a bound on those:
// addresses are the clients' word, and may lead nowhere.

package nfs4

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"time"

	"sluice/pkg/state"
	"sluice/rpc"
	"sluice/xdr"
	wire "sluice/xdr/nfs4"
)

const dialTimeout = 5 * time.Second

// path40 is the way to a 4.0 client.
type path40 struct {
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
	}
}

// call makes a call, on a new connection if there is none to this target.
func (p *path40) call(t state.CallbackTarget, proc uint32, cred *rpc.Cred, args rpc.Encodable, res rpc.Decodable) error {
	addr, valid := universal(t.NetID, t.Addr)
	if !valid {
		return errNoPath
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	kept := p.client != nil && p.target == t
	for {
		if !kept {
			p.close()
			ctx, cancel := context.WithTimeout(context.Background(), dialTimeout)
			c, err := rpc.Dial(ctx, "tcp", addr.String())
			cancel()
			if err != nil {
				return err
			}
			c.Timeout = callbackTimeout
			p.client, p.target = c, t
		}
		err := p.client.Call(t.Program, wire.NFS_CB, proc, cred, args, res)
		if _, answered := err.(*rpc.Error); err == nil || answered {
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

// background runs f on a goroutine, if there is one left; else it says so to fail.
func (b *Callbacks) background(f func(), fail func(error)) {
	select {
	case b.slots <- struct{}{}:
		go func() {
			defer func() { <-b.slots }()
			f()
		}()
	default:
		fail(errBusy)
	}
}

func (b *Callbacks) path(c *state.Client) *path40 {
	b.mu.Lock()
	defer b.mu.Unlock()
	p := b.paths[c]
	if p == nil {
		p = new(path40)
		b.paths[c] = p
	}
	return p
}

func (b *Callbacks) probe40(c *state.Client) {
	b.background(func() {
		b.st.SetCallbackPath(c, b.path(c).call(c.Callback(), wire.CB_NULL, nil, nil, nil) == nil)
	}, func(error) { b.st.SetCallbackPath(c, false) })
}

func (b *Callbacks) send40(c *state.Client, num wire.NfsCbOpnum4, args rpc.Encodable, done func(*xdr.Decoder, error)) {
	b.background(func() {
		t := c.Callback()
		r := cbReply{s: &cbScript{ident: t.Ident, num: num, args: args}}
		err := b.path(c).call(t, wire.CB_COMPOUND, &b.cred, r.s, &r)
		if err == nil {
			err = r.err
		}
		done(&r.body, err)
	}, func(err error) { done(nil, err) })
}
