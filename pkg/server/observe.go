// What the server notices of its calls and clients: counters and latency per
// procedure, events for the trace, lines for the log.

package server

import (
	"fmt"
	"time"

	"github.com/rs/zerolog"

	"sluice/pkg/admin"
	"sluice/pkg/stats"
	"sluice/pkg/trace"
	"sluice/rpc"
)

// observer implements rpc.Observer. Call is on the hot path.
type observer struct {
	log   zerolog.Logger
	bus   *trace.Bus
	procs []procCounter // one per procedure of every version, in order
	index []versionIndex
}

// versionIndex finds a version's procedures in observer.procs. There are a
// handful of versions, so a scan beats a map.
type versionIndex struct {
	prog, vers uint32
	first, n   int
}

type procCounter struct {
	name    string
	latency stats.Histogram
}

func newObserver(log zerolog.Logger, bus *trace.Bus) *observer {
	return &observer{log: log, bus: bus}
}

// watch prepares a counter for every procedure. Call it before the first call.
func (o *observer) watch(programs []rpc.Program) {
	n := 0
	for _, p := range programs {
		for _, v := range p.Versions {
			n += len(v.Procs)
		}
	}
	o.procs = make([]procCounter, n)
	n = 0
	for _, p := range programs {
		for _, v := range p.Versions {
			o.index = append(o.index, versionIndex{p.Prog, v.Vers, n, len(v.Procs)})
			for i, proc := range v.Procs {
				o.procs[n+i].name = fmt.Sprintf("%s%d %s", p.Name, v.Vers, proc.Name)
			}
			n += len(v.Procs)
		}
	}
}

// Call counts one answered call.
func (o *observer) Call(c *rpc.Call, ns int64, in, out int) {
	for i := range o.index {
		x := &o.index[i]
		if x.prog == c.Prog && x.vers == c.Vers {
			if int(c.Proc) < x.n {
				o.procs[x.first+int(c.Proc)].latency.Observe(stats.Shard(c.Thread.ID), time.Duration(ns))
			}
			return
		}
	}
}

// Reject: the transport counts and logs refusals itself.
func (o *observer) Reject(rpc.Reason) {}

// Connect tells of a new client connection.
func (o *observer) Connect(c *rpc.Conn) {
	o.log.Debug().Stringer("client", c.Peer()).Uint64("connection", c.ID()).Msg("client connected")
	if o.bus.Enabled() {
		o.bus.Emit(trace.Event{Name: trace.ClientConnect, Client: c.Peer().Addr()})
	}
}

// Disconnect tells of one that ended.
func (o *observer) Disconnect(c *rpc.Conn, reason string) {
	o.log.Debug().Stringer("client", c.Peer()).Uint64("connection", c.ID()).Str("reason", reason).Msg("client disconnected")
	if o.bus.Enabled() {
		o.bus.Emit(trace.Event{Name: trace.ClientDisconnect, Client: c.Peer().Addr(), Reason: reason})
	}
}

// procedures returns the counters of the procedures called so far.
func (o *observer) procedures() []admin.ProcedureStats {
	list := []admin.ProcedureStats{}
	for i := range o.procs {
		p := &o.procs[i]
		if l := p.latency.Latency(); l.Count > 0 {
			list = append(list, admin.ProcedureStats{Name: p.name, Calls: l.Count, Latency: l})
		}
	}
	return list
}
