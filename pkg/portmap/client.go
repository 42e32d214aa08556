// Calls to the host's rpcbind.
//
// Plan: two ways to speak to it behind the binder interface. Over its Unix
// socket it knows the caller's uid, and version 4 registers any netid. Where
// there is no socket (a container that shares only the network, an old
// portmap), version 2 over loopback from a reserved port, which is what proved
// root in its days; it knows IPv4 alone. The kernel's own NFS server tries the
// two in the same order.

package portmap

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"sluice/rpc"
	"sluice/xdr"
	"sluice/xdr/rpcb"
)

// Versions of the protocol (RFC 1833).
const (
	versPortmap  = 2
	versRpcbind  = 3
	versRpcbind4 = 4
)

// refusedError: rpcbind answered SET with FALSE.
type refusedError struct{ m Mapping }

func (e *refusedError) Error() string {
	return fmt.Sprintf("rpcbind refused to register program %d version %d at %s %s",
		e.m.Prog, e.m.Vers, e.m.Netid, FormatUaddr(e.m.Addr))
}

// isTransport tells an rpcbind that cannot be reached from one that answered.
func isTransport(err error) bool {
	var re *rpc.Error
	var refused *refusedError
	return err != nil && !errors.As(err, &re) && !errors.As(err, &refused)
}

// dial connects to rpcbind by its Unix socket or, when that does not work, over
// TCP. Every call of the binder it returns ends within timeout.
func dial(socket, tcp string, timeout time.Duration) (binder, error) {
	d := net.Dialer{Timeout: timeout}
	nc, errUnix := d.Dial("unix", socket)
	if errUnix == nil {
		return &binder4{link: newLink(nc, timeout)}, nil
	}
	nc, errTCP := dialReserved(tcp, timeout)
	if errTCP == nil {
		return &binder2{link: newLink(nc, timeout)}, nil
	}
	return nil, fmt.Errorf("rpcbind: %w; %w", errUnix, errTCP)
}

// dialReserved connects from a reserved port when it may: portmappers take SET
// and UNSET from no other (RFC 1833, 3: the only proof of the caller's identity).
func dialReserved(tcp string, timeout time.Duration) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	for port := 1023; port > 1023-64; port-- {
		d := net.Dialer{LocalAddr: &net.TCPAddr{Port: port}}
		nc, err := d.DialContext(ctx, "tcp", tcp)
		switch {
		case err == nil:
			return nc, nil
		case errors.Is(err, unix.EADDRINUSE), errors.Is(err, unix.EADDRNOTAVAIL):
			continue // the port is taken, or lingers from an earlier round
		case errors.Is(err, unix.EACCES), errors.Is(err, unix.EPERM):
			return (&net.Dialer{}).DialContext(ctx, "tcp", tcp)
		}
		return nil, err
	}
	return nil, fmt.Errorf("dial tcp %s: no reserved port is free", tcp)
}

// link is a connection whose calls end in time.
type link struct {
	nc      net.Conn
	rpc     *rpc.Client
	timeout time.Duration
}

func newLink(nc net.Conn, timeout time.Duration) link {
	return link{nc: nc, rpc: rpc.NewClient(nc), timeout: timeout}
}

func (l *link) Close() error { return l.rpc.Close() }

func (l *link) call(vers, proc uint32, args rpc.Encodable, res rpc.Decodable) error {
	if err := l.nc.SetDeadline(time.Now().Add(l.timeout)); err != nil {
		return err
	}
	err := l.rpc.Call(ProgPortmap, vers, proc, &rpc.Cred{Flavor: rpc.FlavorNone}, args, res)
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return fmt.Errorf("rpcbind: no answer within %v: %w", l.timeout, err)
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return fmt.Errorf("rpcbind closed the connection: %w", err)
	case err != nil:
		return fmt.Errorf("rpcbind: %w", err)
	}
	return nil
}

// binder4 speaks version 4 (RFC 1833, chapter 2).
type binder4 struct{ link }

func rpcbArgs(m Mapping) *rpcb.Rpcb {
	return &rpcb.Rpcb{
		RProg: m.Prog, RVers: m.Vers, RNetid: []byte(m.Netid),
		RAddr: []byte(FormatUaddr(m.Addr)), ROwner: []byte(m.Owner),
	}
}

func (b *binder4) canHold(Mapping) bool { return true }

func (b *binder4) list() ([]Mapping, error) {
	// DUMP and not GETADDR, which answers with another version's address when
	// the one asked for is missing, and merges in an address of the caller's network.
	var list rpcb.RpcblistPtr
	if err := b.call(versRpcbind4, rpcb.RPCBPROC_DUMP, nil, &list); err != nil {
		return nil, err
	}
	out := make([]Mapping, 0, len(list))
	for i := range list {
		e := &list[i].RpcbMap
		at, _ := ParseUaddr(string(e.RAddr)) // the zero address when it is a path: nothing of ours
		out = append(out, Mapping{Prog: e.RProg, Vers: e.RVers, Netid: string(e.RNetid), Addr: at, Owner: string(e.ROwner)})
	}
	return out, nil
}

func (b *binder4) set(m Mapping) (bool, error) {
	var ok boolRes
	err := b.call(versRpcbind4, rpcb.RPCBPROC_SET, rpcbArgs(m), &ok)
	return bool(ok), err
}

func (b *binder4) unset(m Mapping) (bool, error) {
	var ok boolRes
	err := b.call(versRpcbind4, rpcb.RPCBPROC_UNSET, rpcbArgs(m), &ok)
	return bool(ok), err
}

// binder2 speaks version 2 (RFC 1833, chapter 3), which registers a port for
// every IPv4 address of the host.
type binder2 struct{ link }

// protOf returns the protocol number of a netid that version 2 knows.
func protOf(netid string) (uint32, bool) {
	switch netid {
	case NetTCP:
		return rpcb.IPPROTO_TCP, true
	case NetUDP:
		return rpcb.IPPROTO_UDP, true
	}
	return 0, false
}

func netidOf(prot uint32) string {
	switch prot {
	case rpcb.IPPROTO_TCP:
		return NetTCP
	case rpcb.IPPROTO_UDP:
		return NetUDP
	}
	return ""
}

func (b *binder2) canHold(m Mapping) bool {
	_, ok := protOf(m.Netid)
	return ok
}

func (b *binder2) list() ([]Mapping, error) {
	var list rpcb.Pmaplist
	if err := b.call(versPortmap, rpcb.PMAPPROC_DUMP, nil, &list); err != nil {
		return nil, err
	}
	out := make([]Mapping, 0, len(list))
	for i := range list {
		m := &list[i].Map
		if m.Port > 65535 {
			continue
		}
		out = append(out, Mapping{Prog: m.Prog, Vers: m.Vers, Netid: netidOf(m.Prot),
			Addr: netip.AddrPortFrom(netip.IPv4Unspecified(), uint16(m.Port))})
	}
	return out, nil
}

func (b *binder2) args(m Mapping) *rpcb.Mapping {
	prot, _ := protOf(m.Netid)
	return &rpcb.Mapping{Prog: m.Prog, Vers: m.Vers, Prot: prot, Port: uint32(m.Addr.Port())}
}

func (b *binder2) set(m Mapping) (bool, error) {
	var ok boolRes
	err := b.call(versPortmap, rpcb.PMAPPROC_SET, b.args(m), &ok)
	return bool(ok), err
}

// unset removes the version over every protocol: version 2 looks at nothing
// but program and version (RFC 1833, 3.2, PMAPPROC_UNSET).
func (b *binder2) unset(m Mapping) (bool, error) {
	var ok boolRes
	err := b.call(versPortmap, rpcb.PMAPPROC_UNSET, b.args(m), &ok)
	return bool(ok), err
}

// boolRes is the bool that SET and UNSET answer with.
type boolRes bool

// Decode reads the result.
func (r *boolRes) Decode(d *xdr.Decoder) { *r = boolRes(d.Bool()) }

// Encode writes the result.
func (r *boolRes) Encode(e *xdr.Encoder) { e.Bool(bool(*r)) }

// alive reports whether a server of m's program answers at the address that
// another registration names. Silence counts as life: a server that is slow to
// answer must not lose its registration to us.
func alive(at netip.AddrPort, m Mapping, timeout time.Duration) bool {
	if !at.IsValid() || at.Port() == 0 {
		return false
	}
	if m.Netid != NetTCP && m.Netid != NetTCP6 {
		return true // cannot be told over UDP
	}
	addr := at.Addr()
	if addr.IsUnspecified() {
		addr = netip.MustParseAddr("127.0.0.1")
		if at.Addr().Is6() {
			addr = netip.IPv6Loopback()
		}
	}
	d := net.Dialer{Timeout: timeout}
	nc, err := d.Dial("tcp", netip.AddrPortFrom(addr, at.Port()).String())
	if err != nil {
		return errors.Is(err, os.ErrDeadlineExceeded)
	}
	l := newLink(nc, timeout)
	defer l.Close()
	if err := nc.SetDeadline(time.Now().Add(timeout)); err != nil {
		return true
	}
	err = l.rpc.Call(m.Prog, m.Vers, 0, &rpc.Cred{Flavor: rpc.FlavorNone}, nil, nil)
	var re *rpc.Error
	if errors.As(err, &re) && !re.Denied && re.Stat == acceptProgUnavail {
		return false // somebody else's port by now
	}
	return err == nil || re != nil || errors.Is(err, os.ErrDeadlineExceeded)
}

// acceptProgUnavail is PROG_UNAVAIL of accept_stat (RFC 5531, 9).
const acceptProgUnavail = 1
