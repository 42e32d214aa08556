// The server as the admin plane sees it: snapshots of what the rooms count, in
// the shapes of the admin API.

package server

import (
	"fmt"
	"maps"
	"net/netip"
	"os"
	"slices"
	"strings"
	"time"

	"sluice/exports"
	"sluice/pkg/admin"
	"sluice/pkg/dataio"
	"sluice/pkg/trace"
	"sluice/pkg/usage"
)

// backend implements admin.Backend.
type backend struct{ *Server }

func (b backend) Trace() *trace.Bus { return &b.bus }

func (b backend) uptime() float64 { return time.Since(b.started).Seconds() }

func (b backend) Status() admin.Status {
	build := BuildInfo()
	return admin.Status{
		Version: build.Version, Commit: build.Commit, PID: os.Getpid(), Started: b.started, UptimeSeconds: b.uptime(),
		Listen: b.Addrs(), Rpcbind: b.rpcbindStatus(), State: b.cfg.State, Exports: len(b.ns.Set().Exports()),
		Connections: b.rpc.Stats().Conns, Mode: b.IOMode(), NFS4: b.nfs4Status(), Process: process(),
	}
}

// process looks at this process from outside; what can't be seen stays 0.
func process() (p admin.Process) {
	pid := os.Getpid()
	p.UserSeconds, p.SystemSeconds, _ = usage.CPU(pid)
	p.ResidentBytes, _ = usage.Resident(pid)
	m, _ := usage.MemoryOf(pid)
	p.Memory, p.MemoryBytes, p.CacheBytes = m.Source, m.TotalBytes, m.CacheBytes
	return p
}

// rpcbindStatus says how the registration stands, in one line.
func (b backend) rpcbindStatus() string {
	switch {
	case b.embedded != nil:
		return "embedded portmapper"
	case b.register == nil:
		return "off"
	}
	switch st := b.register.Status(); {
	case !st.Reachable:
		return "no rpcbind answers: mount with port= and mountport="
	case st.Err != nil:
		return "not registered: " + st.Err.Error()
	case st.Taken > 0:
		return fmt.Sprintf("registered, except %d versions that another server holds", st.Taken)
	default:
		return "registered"
	}
}

func (b backend) Exports() []admin.Export {
	list := []admin.Export{}
	problems := b.ns.Problems()
	for _, e := range b.ns.Set().Exports() {
		o := b.modes.Export(e.Path)
		x := admin.Export{
			Path: e.Path, Source: fmt.Sprintf("%s:%d", e.File, e.Line), Clients: []admin.ExportClient{},
			ReadMode: b.modes.Read(o, netip.Addr{}).String(), WriteMode: b.modes.Write(o, netip.Addr{}).String(), Problem: problems[e.Path],
		}
		for i := range e.Clients {
			c := &e.Clients[i]
			x.Clients = append(x.Clients, admin.ExportClient{Client: c.Spec, Options: c.Options.String()})
		}
		list = append(list, x)
	}
	return list
}

func (b backend) Clients() admin.Clients {
	list := []admin.Connection{}
	for _, c := range b.rpc.Connections() {
		list = append(list, admin.Connection{
			ID: c.ID, Address: c.Peer.String(), Connected: c.Since, IdleSeconds: c.Idle.Seconds(), Calls: c.Calls,
			BytesIn: c.BytesIn, BytesOut: c.BytesOut, InFlight: c.InFlight, QueuedBytes: int64(c.Queued),
		})
	}
	return admin.Clients{Connections: list, NFS4: b.nfs4Clients()}
}

func (b backend) Stats() admin.Stats {
	io, fc, r := b.engine.Stats(), b.cache.Stats(), b.rpc.Stats()
	st := admin.Stats{
		UptimeSeconds: b.uptime(),
		Read:          modeStats(io.Read),
		Write:         modeStats(io.Write),
		Spliced:       uint64(io.Spliced),
		Cold:          uint64(io.Cold),
		Auto:          autoStats(io.ReadAuto),
		Landed:        uint64(io.WriteLanded),
		Copied:        uint64(io.WriteCopied),
		Commits:       admin.CommitStats{Calls: uint64(io.Commits), VerifierResets: io.VerifierResets, Latency: io.CommitLatency},
		FileCache: admin.FileCacheStats{
			Files: fc.Files, Open: fc.Descriptors, Budget: fc.Budget, Hits: fc.Hits, Misses: fc.Misses,
			Acquisitions: fc.Acquisitions, Releases: fc.Releases, Evictions: fc.Evictions, Exhausted: fc.Exhausted,
			MeanAgeSeconds: float64(fc.MeanAgeMS) / 1000,
		},
		Procedures: b.obs.procedures(),
		NFS4:       b.nfs4Stats(),
		RPC: admin.RPCStats{
			Connections: r.Conns, Accepted: r.ConnsTotal, Calls: r.Calls, BytesIn: r.BytesIn, BytesOut: r.BytesOut,
			QueuedBytes: r.QueuedBytes, ServiceThreads: r.Threads, ServiceThreadsReplaced: r.Replaced,
			SlowCalls: r.SlowCalls, SlowQueued: r.SlowQueued, SlowRunning: r.SlowRunning,
			ReplyCacheHits: r.CacheHits, ReplyCacheMisses: r.CacheMisses, Rejects: counts(r.Rejects),
		},
		Pools: []admin.PoolStats{
			{Name: "buffers", Unit: "bytes", Held: io.Buffers.Bytes, Limit: io.Buffers.Limit, InUse: io.Buffers.InUse, Waits: io.Buffers.Waits, Denied: io.Buffers.Denied},
			{Name: "direct buffers", Unit: "bytes", Held: io.DirectBuffers.Bytes, Limit: io.DirectBuffers.Limit, InUse: io.DirectBuffers.InUse, Waits: io.DirectBuffers.Waits, Denied: io.DirectBuffers.Denied},
			{Name: "pipes", Unit: "pipes", Held: int64(io.Pipes.Open), Limit: int64(io.Pipes.Max), InUse: io.Pipes.InUse, Denied: io.Pipes.Denied},
		},
	}
	return st
}

// modeStats lists the modes that serve, in the order of the kernel's numbers.
func modeStats(m map[string]dataio.ModeStats) []admin.ModeStats {
	list := []admin.ModeStats{}
	for _, mode := range []dataio.Mode{dataio.Buffered, dataio.DontCache, dataio.Direct} { // auto's calls count under what it chose
		if s, ok := m[mode.String()]; ok {
			list = append(list, admin.ModeStats{
				Mode: mode.String(), Calls: uint64(s.Calls), Bytes: uint64(s.Bytes), Excess: uint64(s.Excess),
				Fallbacks: counts(s.Fallbacks), Latency: s.Latency,
			})
		}
	}
	return list
}

// autoStats lists the decisions of mode auto in the order in which it weighs them.
func autoStats(m dataio.AutoStats) []admin.Count {
	list := []admin.Count{}
	for _, name := range dataio.AutoReasons() {
		list = append(list, admin.Count{Name: name, Count: uint64(m[name])})
	}
	return list
}

// counts lists a map by name.
func counts(m map[string]uint64) []admin.Count {
	list := []admin.Count{}
	for _, name := range slices.Sorted(maps.Keys(m)) {
		list = append(list, admin.Count{Name: name, Count: m[name]})
	}
	return list
}

// CheckResult is what `sluice exports check` prints.
type CheckResult struct {
	Exports  int      `json:"exports"`
	Errors   []string `json:"errors"`
	Warnings []string `json:"warnings"`
}

// CheckExports reads an exports file, and its drop-ins, without a server.
func CheckExports(file string) CheckResult {
	res := CheckResult{Errors: []string{}, Warnings: []string{}}
	set, warns, err := exports.Load(file, true)
	for _, w := range warns {
		res.Warnings = append(res.Warnings, w.String())
	}
	if err != nil {
		res.Errors = strings.Split(err.Error(), "\n") // one mistake a line
		return res
	}
	res.Exports = len(set.Exports())
	return res
}
