// Events for the trace. A bus never waits, so they are sent with locks held.

package state

import (
	"net/netip"

	"sluice/pkg/trace"
)

// ending says why a client ends; the text is the event's reason.
type ending string

const (
	endLease     ending = "lease"         // it ran out, and somebody wanted what the client held
	endRestart   ending = "restart"       // the client began anew
	endDestroyed ending = "destroyed"     // the client said that it goes
	endAdmin     ending = "administrator" // ExpireClient
)

func (s *State) traceClient(name trace.Name, c *Client, reason string) {
	if s.cfg.Trace.Enabled() {
		addr, _ := netip.ParseAddr(c.addr)
		s.cfg.Trace.Emit(trace.Event{Name: name, Client: addr, NFS4Client: uint64(c.id), Reason: reason})
	}
}

func (s *State) traceDeleg(name trace.Name, d *deleg) {
	if !s.cfg.Trace.Enabled() {
		return
	}
	addr, _ := netip.ParseAddr(d.client.addr)
	mode := "read"
	if d.typ == DelegWrite {
		mode = "write"
	}
	s.cfg.Trace.Emit(trace.Event{Name: name, Client: addr, NFS4Client: uint64(d.client.id), File: d.key.String(), Mode: mode})
}
