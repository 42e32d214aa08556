// Package server turns a configuration into a running server. The command and
// the tests use the same door.
//
// Order matters. New makes everything that can fail without being seen from
// outside: limits, capabilities, exports, the namespace. Start opens the doors,
// the socket of NFS last of all but the registration with rpcbind, so that
// whoever can connect is served. Shutdown closes them in the opposite order.
package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/rs/zerolog"
	"golang.org/x/sys/unix"

	"sluice/exports"
	"sluice/pkg/admin"
	"sluice/pkg/dataio"
	"sluice/pkg/filecache"
	"sluice/pkg/nfs3"
	"sluice/pkg/portmap"
	"sluice/pkg/trace"
	"sluice/pkg/vfs"
	"sluice/rpc"
)

// Server is one NFS server.
type Server struct {
	cfg     Config
	log     zerolog.Logger
	started time.Time
	bus     trace.Bus

	table    *exports.Table
	resolver *exports.SystemResolver
	modes    dataio.Modes
	choices  choices
	cache    *filecache.Cache
	engine   *dataio.Engine
	ns       *vfs.Namespace
	nfs      *nfs3.Service
	v4       v4
	obs      *observer
	rpc      *rpc.Server

	programs []rpc.Program
	listen   []netip.AddrPort
	admin    *admin.Server
	register *portmap.Registrar
	embedded *portmap.Embedded
	failed   chan error
	ready    bool          // the log said so
	reload   chan struct{} // holds one while the exports are read again; for good once the server ends
}

// New makes a server that is not reachable yet. Its errors say what to do. It
// logs to standard error.
func New(cfg Config) (*Server, error) { return newServer(cfg, os.Stderr) }

func newServer(cfg Config, logTo io.Writer) (*Server, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	s := &Server{cfg: cfg, log: newLog(&cfg, logTo), started: time.Now(), failed: make(chan error, 1), reload: make(chan struct{}, 1), resolver: exports.NewSystemResolver(exports.ResolverConfig{})}
	warnings, err := checkCapabilities()
	if err != nil {
		return nil, err
	}
	for _, w := range warnings {
		s.log.Warn().Msg(w)
	}
	descriptors := raiseDescriptorLimit()
	if err := s.loadExports(); err != nil {
		return nil, err
	}
	if err := s.loadChoices(); err != nil {
		return nil, err
	}
	if err := s.build(descriptors); err != nil {
		return nil, errors.Join(err, s.closeRooms())
	}
	return s, nil
}

// raiseDescriptorLimit takes what the hard limit allows, and returns it.
func raiseDescriptorLimit() uint64 {
	var lim unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &lim) != nil {
		return 1024
	}
	if lim.Cur < lim.Max {
		raised := unix.Rlimit{Cur: lim.Max, Max: lim.Max}
		if unix.Setrlimit(unix.RLIMIT_NOFILE, &raised) == nil {
			lim = raised
		}
	}
	return lim.Cur
}

func (s *Server) loadExports() error {
	for _, spec := range s.cfg.Export {
		if err := unquotedBlank(spec); err != nil {
			return err
		}
	}
	// Drop-ins belong to the system's file; a file named on the command line
	// has its own beside it.
	table, warns, err := exports.NewTable(exports.Source{
		File: s.cfg.Exports, DropIns: s.cfg.Exports != "", Inline: s.cfg.Export, RealPath: filepath.EvalSymlinks,
	})
	for _, w := range warns {
		s.log.Warn().Msg(w.String())
	}
	if err != nil {
		return err
	}
	s.table = table
	return nil
}

// build makes the rooms, each with what it needs of the ones below.
func (s *Server) build(descriptors uint64) error {
	key, err := vfs.LoadHandleKey(s.cfg.State)
	if err != nil {
		return s.explainState(err)
	}
	cfg := s.chosen() // nobody changes it before the admin socket is there
	plain, direct := cfg.pools()
	s.cache = filecache.New(filecache.Config{Budget: filecache.Budget(descriptors), Trace: &s.bus})
	s.engine, err = dataio.New(dataio.Config{
		Cache: s.cache, SpliceMin: cfg.SpliceMin, BufferBytes: plain, DirectBytes: direct,
		Pipes: dataio.PipeBudget(descriptors), Trace: &s.bus, Warn: s.warnIO,
	})
	if err != nil {
		return err
	}
	s.ns, err = vfs.New(vfs.Config{
		Exports: s.table.Set(), Resolver: s.resolver, HandleKey: key,
		Cache: s.cache, Engine: s.engine, Modes: &s.modes, Trace: &s.bus, Log: s.log,
	})
	if err != nil {
		return err
	}
	if err := s.nothingServed(); err != nil {
		return err
	}
	s.nfs = nfs3.New(nfs3.Config{Namespace: s.ns, Exports: s.ns.Set, Log: s.log, Trace: &s.bus})
	if err := s.buildV4(key, descriptors); err != nil {
		return err
	}
	s.programs = s.nfs.Programs()
	s.programs[0].Versions = append(s.programs[0].Versions, s.v4.service.Versions()...)
	s.obs = newObserver(s.log, &s.bus)
	s.obs.watch(s.programs)
	s.rpc, err = rpc.NewServer(rpc.Config{
		Programs: s.programs, NewLocal: s.newLocal, CloseLocal: s.nfs.CloseLocal, OnConnect: s.connect, OnDisconnect: s.disconnect,
		Threads: s.cfg.Threads, SlowThreads: cfg.SlowThreads, MaxConns: s.cfg.MaxConnections,
		MaxInFlight: cfg.MaxInFlight, MaxQueuedPerConn: cfg.MaxQueued << 10, MaxQueuedTotal: cfg.queuedTotal(),
		IdleTimeout: s.cfg.IdleTimeout, Observer: s.obs, Log: s.log,
	})
	return err
}

// explainState says what to do about a state directory that can't be used.
func (s *Server) explainState(err error) error {
	var path *fs.PathError
	if errors.As(err, &path) && !strings.Contains(err.Error(), "--state") {
		return fmt.Errorf("state directory %s: %w; name a directory that the server may write with --state", s.cfg.State, err)
	}
	return err
}

// nothingServed returns an error when there are exports and none of them can
// be served: a misspelt path, most likely. Exports that wait for a mount (the
// option mountpoint) are meant to be waited for.
func (s *Server) nothingServed() error {
	problems := s.ns.Problems()
	list := s.ns.Set().Exports()
	text := "none of the exports can be served"
	for _, e := range list {
		for i := range e.Clients {
			if e.Clients[i].Options.MountPoint != "" {
				return nil
			}
		}
		why, bad := problems[e.Path]
		if !bad {
			return nil
		}
		text += fmt.Sprintf("\n%s: %s", e.Path, why)
	}
	if len(list) == 0 {
		return nil // a warning said so, and a reload may add some
	}
	return errors.New(text + "\nstart the server again when one of them can be")
}

// warnIO logs what the data path wants an administrator to know.
func (s *Server) warnIO(w dataio.Warning) {
	s.log.Warn().Str("export", w.Export).Err(w.Err).Msg(w.What)
}

// Start opens the admin socket and the port of NFS, and registers with
// rpcbind. It logs one line, "ready", when calls are accepted.
func (s *Server) Start() (err error) {
	defer func() {
		if err != nil {
			s.Shutdown()
		}
	}()
	if s.cfg.Admin != "" {
		if s.admin, err = admin.Listen(s.cfg.Admin, backend{s}); err != nil {
			return err
		}
	}
	ln, err := net.Listen("tcp", s.cfg.Listen)
	if err != nil {
		return s.explainListen(err)
	}
	tcp := ln.(*net.TCPListener)
	for _, w := range s.missing() {
		s.log.Warn().Msg(w)
	}
	s.listen = []netip.AddrPort{tcp.Addr().(*net.TCPAddr).AddrPort()}
	for _, e := range s.ns.Set().Exports() {
		for i := range e.Clients {
			if e.Clients[i].Options.Async {
				s.log.Warn().Str("export", e.Path).Str("client", e.Clients[i].Spec).
					Msg("async: changes of names are acknowledged before they are on stable storage; a crash may lose them")
			}
		}
	}
	go func() {
		if err := s.rpc.Serve(tcp); err != nil {
			s.failed <- err
		}
	}()
	if err := s.announce(); err != nil {
		return err
	}
	ready := s.log.Info().Str("version", Version()).Strs("listen", s.Addrs()).Int("exports", len(s.ns.Set().Exports())).
		Stringer("read_mode", s.modes.Read(nil, netip.Addr{})).Stringer("write_mode", s.modes.Write(nil, netip.Addr{}))
	if s.cfg.Admin != "" {
		ready = ready.Str("admin", s.cfg.Admin)
	}
	s.ready = true
	ready.Msg("ready")
	return nil
}

// explainListen says what to do about a port that can't be had.
func (s *Server) explainListen(err error) error {
	port, _ := s.cfg.listenPort()
	switch {
	case errors.Is(err, unix.EADDRINUSE):
		return fmt.Errorf("port %d is in use (see who has it: ss -ltnp 'sport = :%d'): stop that server, or choose another port with --listen", port, port)
	case errors.Is(err, unix.EACCES), errors.Is(err, unix.EPERM):
		return fmt.Errorf("port %d needs CAP_NET_BIND_SERVICE: run as root, or choose a port from 1024 up with --listen", port)
	case errors.Is(err, unix.EADDRNOTAVAIL):
		return fmt.Errorf("listen is %s, but this host doesn't have that address: choose one of `ip address` with --listen", s.cfg.Listen)
	}
	return fmt.Errorf("can't listen on %s: %w; choose another address with --listen", s.cfg.Listen, err)
}

// announce makes the port known as the configuration asks.
func (s *Server) announce() error {
	if s.cfg.Rpcbind == "off" {
		return nil
	}
	var programs []portmap.Program
	for _, p := range s.programs {
		q := portmap.Program{Prog: p.Prog}
		for _, v := range p.Versions {
			q.Versions = append(q.Versions, v.Vers)
		}
		programs = append(programs, q)
	}
	mappings := portmap.Mappings(programs, s.listen)
	if s.cfg.Rpcbind == "embedded" {
		var err error
		s.embedded, err = portmap.Listen(portmap.EmbeddedConfig{Mappings: mappings, Log: s.log})
		return err
	}
	s.register = portmap.Register(portmap.RegistrarConfig{Mappings: mappings, Log: s.log})
	return nil
}

// Addrs returns the addresses of NFS and MOUNT.
func (s *Server) Addrs() []string {
	var out []string
	for _, a := range s.listen {
		out = append(out, a.String())
	}
	return out
}

// Failed gives an error when the server can't go on.
func (s *Server) Failed() <-chan error { return s.failed }

// Reload reads the exports again. A file with an error changes nothing; what
// happened is logged and returned.
func (s *Server) Reload() (admin.ReloadResult, error) {
	s.reload <- struct{}{}
	defer func() { <-s.reload }()
	res := admin.ReloadResult{Warnings: []string{}}
	changes, warns, err := s.table.Reload()
	for _, w := range warns {
		res.Warnings = append(res.Warnings, w.String())
		s.log.Warn().Msg(w.String())
	}
	if err == nil {
		s.resolver.Flush()
		err = s.ns.Reload(s.table.Set())
	}
	if err != nil {
		s.log.Error().Err(err).Msg("exports not reloaded: the old ones stay in force")
		return res, fmt.Errorf("%w\nthe exports in force stay as they were", err)
	}
	res.Exports = len(s.ns.Set().Exports())
	for _, w := range s.missing() {
		res.Warnings = append(res.Warnings, w)
		s.log.Warn().Msg(w)
	}
	s.log.Info().Int("exports", res.Exports).Strs("added", changes.Added).Strs("removed", changes.Removed).
		Strs("changed", changes.Changed).Msg("exports reloaded")
	return res, nil
}

// Shutdown withdraws from rpcbind, finishes the calls in flight, for as long
// as the configuration allows, and closes everything. It may be called after a
// Start that failed.
func (s *Server) Shutdown() error {
	ctx, cancel := context.WithTimeout(context.Background(), s.cfg.ShutdownTimeout)
	defer cancel()
	var errs []error
	if s.register != nil {
		errs = append(errs, s.register.Close(ctx))
	}
	if s.embedded != nil {
		errs = append(errs, s.embedded.Close(ctx))
	}
	cutOff := s.rpc.Shutdown(ctx)
	if cutOff != nil {
		errs = append(errs, fmt.Errorf("calls still in flight after %s were cut off: %w", s.cfg.ShutdownTimeout, cutOff))
	}
	if s.admin != nil {
		if err := s.admin.Close(); err != nil && !errors.Is(err, fs.ErrClosed) {
			errs = append(errs, err)
		}
	}
	// Calls that hang, on a dead disk say, still use the rooms, and so does a
	// reload: closing them would wait for those.
	if !s.endReloads(ctx) {
		errs = append(errs, errors.New("a reload of the exports that did not end was cut off"))
	} else if cutOff == nil {
		errs = append(errs, s.closeRooms())
	}
	if s.ready {
		s.log.Info().Msg("stopped")
	}
	return errors.Join(errs...)
}

// endReloads waits for a reload under way, and lets no other begin. It returns
// false when there still is one when ctx is done.
func (s *Server) endReloads(ctx context.Context) bool {
	select {
	case s.reload <- struct{}{}:
		return true
	default:
	}
	select {
	case s.reload <- struct{}{}:
		return true
	case <-ctx.Done():
		return false
	}
}

// closeRooms closes what build made, the upper rooms first.
func (s *Server) closeRooms() error {
	err := s.v4.close()
	if s.ns != nil {
		s.ns.Close()
	}
	if s.cache != nil {
		s.cache.Close()
	}
	if s.engine != nil {
		err = errors.Join(err, s.engine.Close())
	}
	return err
}
