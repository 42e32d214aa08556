// A small responder over UDP, for the embedded portmapper: one datagram, one
// call, one after the other.

package rpc

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"

	"sluice/xdr"
)

// maxDatagram is the largest call taken and reply sent over UDP. rpcbind's own
// limit is of the same order; a larger datagram is dropped.
const maxDatagram = 8800

// ServeUDP answers the calls of program p that arrive at pc, one after the
// other, until ctx ends; then it closes pc and returns nil. Call.Conn is nil,
// Call.Peer() is the caller, Call.Thread has no state, and MayBlock is true.
// A reply that is too large for a datagram becomes SYSTEM_ERR.
func ServeUDP(ctx context.Context, pc *net.UDPConn, p Program) error {
	defer pc.Close()
	stop := context.AfterFunc(ctx, func() { pc.Close() })
	defer stop()
	local := netip.AddrPort{}
	if a, ok := pc.LocalAddr().(*net.UDPAddr); ok {
		local = unmap(a.AddrPort())
	}
	s := &Server{cfg: Config{Programs: []Program{p}}}
	w := new(worker)
	w.init(s, maxDatagram)
	in := make([]byte, maxDatagram+1)
	for {
		n, from, err := pc.ReadFromUDPAddrPort(in)
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, net.ErrClosed):
			return fmt.Errorf("rpc: udp: %w", err)
		case err != nil || n > maxDatagram:
			continue // such as an ICMP error from an earlier reply
		}
		call := incoming{body: in[:n]}
		s.look(&call)
		if call.head.fault == faultNotCall || call.head.fault == faultReply {
			continue
		}
		if call.proc != nil && call.proc.Cache {
			plain := *call.proc // the cache is for TCP's services
			plain.Cache = false
			call.proc = &plain
		}
		w.call.peer = peer{unmap(from), local}
		w.run(nil, &call, s.Now(), true)
		if w.enc.Len()-4 > maxDatagram {
			w.enc.Rollback(xdr.Mark{})
			accepted(&w.enc, call.head.xid, acceptSystemErr)
		}
		if w.enc.Len() > 4 && w.enc.Flatten(nil) == nil {
			pc.WriteToUDPAddrPort(w.enc.Bytes()[4:], from) // without the record mark
		}
		w.enc.Reset(w.out)
	}
}

func unmap(a netip.AddrPort) netip.AddrPort {
	return netip.AddrPortFrom(a.Addr().Unmap(), a.Port())
}
