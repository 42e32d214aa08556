// The embedded portmapper, for hosts without rpcbind: answers on port 111, TCP
// and UDP, what clients, showmount and rpcinfo ask (RFC 1833).
//
// Plan: three versions of one table. Version 2 knows ports of IPv4, versions 3
// and 4 universal addresses; all read the same rows. It answers questions and
// nothing else: forwarded calls (CALLIT, BCAST, INDIRECT) would lend our address
// to strangers, and SET and UNSET are for root on this host, known by loopback
// and a reserved port, so that statd can register beside us.

package portmap

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/rs/zerolog"
	"golang.org/x/sys/unix"

	"sluice/rpc"
	"sluice/xdr/rpcb"
)

// DefaultListen is where portmappers listen (RFC 1833, 1).
const DefaultListen = ":111"

// Limits of the embedded portmapper. Its calls and answers are small, and
// clients close the connection after one or two.
const (
	maxRecord   = 4 << 10
	maxConns    = 128
	idleTimeout = 30 * time.Second
	maxString   = 255 // bytes of a netid, address or owner that SET keeps
)

// EmbeddedConfig configures Listen.
type EmbeddedConfig struct {
	Listen   string // "" is DefaultListen
	Mappings []Mapping
	Log      zerolog.Logger
}

// Embedded is a running portmapper.
type Embedded struct {
	table  table
	server *rpc.Server
	addr   netip.AddrPort
	cancel context.CancelFunc
	wg     sync.WaitGroup
}

// Listen starts a portmapper. It fails when the port is taken, by rpcbind most
// likely, or may not be had.
func Listen(cfg EmbeddedConfig) (*Embedded, error) {
	if cfg.Listen == "" {
		cfg.Listen = DefaultListen
	}
	ln, err := net.Listen("tcp", cfg.Listen)
	if err != nil {
		return nil, listenError(cfg.Listen, err)
	}
	addr := ln.Addr().(*net.TCPAddr).AddrPort()
	pc, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(addr))
	if err != nil {
		ln.Close()
		return nil, listenError(cfg.Listen, err)
	}

	e := &Embedded{addr: addr}
	e.addOwn()
	for _, m := range cfg.Mappings {
		m.fixed = true
		if !e.table.set(m) {
			cfg.Log.Warn().Uint32("program", m.Prog).Uint32("version", m.Vers).Str("netid", m.Netid).
				Msg("embedded portmapper: a second address for the same program is not announced")
		}
	}
	program := e.program()
	e.server, err = rpc.NewServer(rpc.Config{
		Programs: []rpc.Program{program},
		Threads:  1, SlowThreads: 1, MaxRecord: maxRecord, MaxConns: maxConns, IdleTimeout: idleTimeout,
		Log: cfg.Log,
	})
	if err != nil {
		ln.Close()
		pc.Close()
		return nil, fmt.Errorf("embedded portmapper: %w", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	e.cancel = cancel
	e.wg.Add(2)
	go func() {
		defer e.wg.Done()
		if err := e.server.Serve(ln.(*net.TCPListener)); err != nil {
			cfg.Log.Error().Err(err).Msg("embedded portmapper: TCP")
		}
	}()
	go func() {
		defer e.wg.Done()
		if err := rpc.ServeUDP(ctx, pc, program); err != nil {
			cfg.Log.Error().Err(err).Msg("embedded portmapper: UDP")
		}
	}()
	return e, nil
}

func listenError(addr string, err error) error {
	switch {
	case errors.Is(err, unix.EADDRINUSE):
		return fmt.Errorf("embedded portmapper: %w; rpcbind is running on this host: use --rpcbind auto", err)
	case errors.Is(err, unix.EACCES), errors.Is(err, unix.EPERM):
		return fmt.Errorf("embedded portmapper: %w; run as root or with CAP_NET_BIND_SERVICE, or use --rpcbind off and name the ports at the client", err)
	}
	return fmt.Errorf("embedded portmapper: listening on %s: %w", addr, err)
}

// Addr is the address listened on.
func (e *Embedded) Addr() netip.AddrPort { return e.addr }

// Close stops the portmapper; calls in flight get their answers while ctx lasts.
func (e *Embedded) Close(ctx context.Context) error {
	e.cancel()
	err := e.server.Shutdown(ctx)
	e.wg.Wait()
	return err
}

// addOwn lists the portmapper itself, as rpcinfo shows it.
func (e *Embedded) addOwn() {
	v4, v6 := e.addr, netip.AddrPort{}
	if a := e.addr.Addr(); a.Is6() && !a.Is4In6() {
		v4, v6 = netip.AddrPort{}, e.addr
		if a.IsUnspecified() {
			v4 = netip.AddrPortFrom(netip.IPv4Unspecified(), e.addr.Port())
		}
	}
	for _, vers := range []uint32{versRpcbind4, versRpcbind, versPortmap} {
		for _, t := range []struct {
			netid string
			at    netip.AddrPort
		}{{NetTCP, v4}, {NetUDP, v4}, {NetTCP6, v6}, {NetUDP6, v6}} {
			if t.at.IsValid() && (vers != versPortmap || t.at == v4) {
				e.table.set(Mapping{Prog: ProgPortmap, Vers: vers, Netid: t.netid, Addr: t.at, Owner: ownerSuperuser, fixed: true})
			}
		}
	}
}

func (e *Embedded) program() rpc.Program {
	return rpc.Program{Prog: ProgPortmap, Name: "PMAP", Versions: []rpc.Version{
		{Vers: versPortmap, Procs: []rpc.Proc{
			rpcb.PMAPPROC_NULL:    {Name: "NULL", Run: null},
			rpcb.PMAPPROC_SET:     {Name: "SET", Run: e.set2},
			rpcb.PMAPPROC_UNSET:   {Name: "UNSET", Run: e.unset2},
			rpcb.PMAPPROC_GETPORT: {Name: "GETPORT", Run: e.getport},
			rpcb.PMAPPROC_DUMP:    {Name: "DUMP", Run: e.dump2},
		}},
		{Vers: versRpcbind, Procs: e.procs3()},
		{Vers: versRpcbind4, Procs: append(e.procs3(),
			rpc.Proc{}, rpc.Proc{}, // UADDR2TADDR, TADDR2UADDR: what a host's own netbuf looks like is its own business
			rpc.Proc{Name: "GETVERSADDR", Run: e.getversaddr},
			rpc.Proc{}, // INDIRECT
			rpc.Proc{Name: "GETADDRLIST", Run: e.getaddrlist},
		)},
	}}
}

func (e *Embedded) procs3() []rpc.Proc {
	return []rpc.Proc{
		rpcb.RPCBPROC_NULL:    {Name: "NULL", Run: null},
		rpcb.RPCBPROC_SET:     {Name: "SET", Run: e.set3},
		rpcb.RPCBPROC_UNSET:   {Name: "UNSET", Run: e.unset3},
		rpcb.RPCBPROC_GETADDR: {Name: "GETADDR", Run: e.getaddr},
		rpcb.RPCBPROC_DUMP:    {Name: "DUMP", Run: e.dump3},
		rpcb.RPCBPROC_CALLIT:  {}, // unavailable
		rpcb.RPCBPROC_GETTIME: {Name: "GETTIME", Run: gettime},
	}
}

func null(*rpc.Call) rpc.Verdict { return rpc.Done }

func gettime(c *rpc.Call) rpc.Verdict {
	c.Reply.Uint32(uint32(time.Now().Unix()))
	return rpc.Done
}

// local tells whether a call came from root on this host.
func local(c *rpc.Call) bool {
	p := c.Peer()
	return p.Addr().Unmap().IsLoopback() && p.Port() < 1024
}

// netid returns the netid of the transport that a call came over.
func netid(c *rpc.Call) string {
	v6 := c.Peer().Addr().Is6() && !c.Peer().Addr().Is4In6()
	switch {
	case c.Conn == nil && v6:
		return NetUDP6
	case c.Conn == nil:
		return NetUDP
	case v6:
		return NetTCP6
	}
	return NetTCP
}

// here returns the address of this host that the caller reaches.
func here(c *rpc.Call) netip.Addr {
	if c.Conn != nil {
		return c.Conn.Local().Addr().Unmap()
	}
	// Over UDP the socket does not tell. The kernel does: where would an answer leave from?
	d, err := net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(c.Peer()))
	if err != nil {
		return netip.Addr{}
	}
	defer d.Close()
	return d.LocalAddr().(*net.UDPAddr).AddrPort().Addr().Unmap()
}

// merge returns the universal address of a row for a caller: an unspecified
// address becomes the one that the caller has reached this host by.
func merge(c *rpc.Call, m Mapping) string {
	at := m.Addr
	if at.Addr().IsUnspecified() {
		if a := here(c); a.IsValid() && a.Is4() == at.Addr().Is4() {
			at = netip.AddrPortFrom(a.WithZone(""), at.Port())
		}
	}
	return FormatUaddr(at)
}

func (e *Embedded) set2(c *rpc.Call) rpc.Verdict {
	var a rpcb.Mapping
	if a.Decode(&c.Args); c.Args.Err() != nil {
		return rpc.GarbageArgs
	}
	id := netidOf(a.Prot)
	ok := local(c) && id != "" && a.Port > 0 && a.Port <= 65535 && a.Prog != ProgPortmap &&
		e.table.set(Mapping{Prog: a.Prog, Vers: a.Vers, Netid: id, Owner: ownerSuperuser,
			Addr: netip.AddrPortFrom(netip.IPv4Unspecified(), uint16(a.Port))})
	c.Reply.Bool(ok)
	return rpc.Done
}

func (e *Embedded) unset2(c *rpc.Call) rpc.Verdict {
	var a rpcb.Mapping
	if a.Decode(&c.Args); c.Args.Err() != nil {
		return rpc.GarbageArgs
	}
	ok := false
	if local(c) {
		tcp, udp := e.table.unset(a.Prog, a.Vers, NetTCP), e.table.unset(a.Prog, a.Vers, NetUDP)
		ok = tcp || udp
	}
	c.Reply.Bool(ok)
	return rpc.Done
}

func (e *Embedded) getport(c *rpc.Call) rpc.Verdict {
	var a rpcb.Mapping
	if a.Decode(&c.Args); c.Args.Err() != nil {
		return rpc.GarbageArgs
	}
	m, ok := e.table.find(a.Prog, a.Vers, netidOf(a.Prot))
	if !ok {
		c.Reply.Uint32(0) // RFC 1833, 3.2: a port of zero means not registered
		return rpc.Done
	}
	c.Reply.Uint32(uint32(m.Addr.Port()))
	return rpc.Done
}

func (e *Embedded) dump2(c *rpc.Call) rpc.Verdict {
	var list rpcb.Pmaplist
	for _, m := range e.table.list() {
		if prot, ok := protOf(m.Netid); ok {
			list = append(list, rpcb.Pmapnode{Map: rpcb.Mapping{Prog: m.Prog, Vers: m.Vers, Prot: prot, Port: uint32(m.Addr.Port())}})
		}
	}
	list.Encode(c.Reply)
	return rpc.Done
}

func (e *Embedded) set3(c *rpc.Call) rpc.Verdict {
	var a rpcb.Rpcb
	if a.Decode(&c.Args); c.Args.Err() != nil {
		return rpc.GarbageArgs
	}
	at, err := ParseUaddr(string(a.RAddr))
	ok := local(c) && err == nil && at.Port() != 0 && len(a.RNetid) > 0 && len(a.RNetid) <= maxString && a.RProg != ProgPortmap &&
		e.table.set(Mapping{Prog: a.RProg, Vers: a.RVers, Netid: string(a.RNetid), Addr: at, Owner: ownerSuperuser})
	c.Reply.Bool(ok)
	return rpc.Done
}

func (e *Embedded) unset3(c *rpc.Call) rpc.Verdict {
	var a rpcb.Rpcb
	if a.Decode(&c.Args); c.Args.Err() != nil {
		return rpc.GarbageArgs
	}
	c.Reply.Bool(local(c) && e.table.unset(a.RProg, a.RVers, string(a.RNetid)))
	return rpc.Done
}

// getaddr answers for the netid asked for or, when there is none, that of the
// call's own transport (RFC 1833, 2.2.1, has the latter only; a caller that
// names one wants that one).
func (e *Embedded) getaddr(c *rpc.Call) rpc.Verdict {
	return e.address(c, func(prog, vers uint32, id string) (Mapping, bool) { return e.table.find(prog, vers, id) })
}

// getversaddr is getaddr for one version and no other.
func (e *Embedded) getversaddr(c *rpc.Call) rpc.Verdict {
	return e.address(c, func(prog, vers uint32, id string) (Mapping, bool) {
		m, ok := e.table.find(prog, vers, id)
		return m, ok && m.Vers == vers
	})
}

func (e *Embedded) address(c *rpc.Call, find func(prog, vers uint32, id string) (Mapping, bool)) rpc.Verdict {
	var a rpcb.Rpcb
	if a.Decode(&c.Args); c.Args.Err() != nil {
		return rpc.GarbageArgs
	}
	id := string(a.RNetid)
	if id == "" {
		id = netid(c)
	}
	uaddr := ""
	if m, ok := find(a.RProg, a.RVers, id); ok {
		uaddr = merge(c, m)
	}
	c.Reply.Opaque([]byte(uaddr))
	return rpc.Done
}

func (e *Embedded) dump3(c *rpc.Call) rpc.Verdict {
	var list rpcb.RpcblistPtr
	for _, m := range e.table.list() {
		list = append(list, rpcb.RpList{RpcbMap: rpcb.Rpcb{RProg: m.Prog, RVers: m.Vers, RNetid: []byte(m.Netid),
			RAddr: []byte(FormatUaddr(m.Addr)), ROwner: []byte(m.Owner)}})
	}
	list.Encode(c.Reply)
	return rpc.Done
}

// getaddrlist lists every transport of a program's version, as rpcinfo -l shows.
func (e *Embedded) getaddrlist(c *rpc.Call) rpc.Verdict {
	var a rpcb.Rpcb
	if a.Decode(&c.Args); c.Args.Err() != nil {
		return rpc.GarbageArgs
	}
	var list rpcb.RpcbEntryListPtr
	for _, m := range e.table.list() {
		t, known := transports[m.Netid]
		if m.Prog != a.RProg || m.Vers != a.RVers || !known {
			continue
		}
		list = append(list, rpcb.RpcbEntryList{RpcbEntryMap: rpcb.RpcbEntry{
			RMaddr: []byte(merge(c, m)), RNcNetid: []byte(m.Netid), RNcSemantics: t.semantics,
			RNcProtofmly: []byte(t.family), RNcProto: []byte(t.proto),
		}})
	}
	list.Encode(c.Reply)
	return rpc.Done
}

// transports describes the netids as netconfig(5) does: semantics 1 is
// connectionless and 3 connection-oriented with orderly release (RFC 1833, 2.1).
var transports = map[string]struct {
	semantics     uint32
	family, proto string
}{
	NetTCP:  {3, "inet", "tcp"},
	NetUDP:  {1, "inet", "udp"},
	NetTCP6: {3, "inet6", "tcp"},
	NetUDP6: {1, "inet6", "udp"},
}
