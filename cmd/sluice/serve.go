// sluice serve: flags over a file over defaults, then the server until a
// signal ends it.

package main

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/urfave/cli/v2"

	"sluice/pkg/server"
)

func serveCommand() *cli.Command {
	d := server.Defaults()
	return &cli.Command{
		Name:  "serve",
		Usage: "export directories over NFS",
		Description: `Serves the directories of an exports(5) file, and those named with --export,
until SIGTERM or SIGINT. SIGHUP reads the exports file again.

Examples:
   sluice serve
   sluice serve --export '/srv/data 192.168.1.0/24(rw,sync)'
   sluice serve --export /srv/data --listen 127.0.0.1:12049 --rpcbind off
   sluice serve --config /etc/sluice/sluice.yaml --read-mode direct`,
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "config", Usage: "YAML `FILE` whose keys are these flags' names; flags win"},
			&cli.StringFlag{Name: "exports", Value: d.Exports, Usage: "exports(5) `FILE`; not read by default when --export is given"},
			&cli.StringSliceFlag{Name: "export", Usage: "`EXPORT`: 'DIR CLIENT(OPTIONS)', or DIR alone for this host with rw,insecure,no_root_squash; repeatable"},
			&cli.StringFlag{Name: "listen", Value: d.Listen, Usage: "`ADDR:PORT` of NFS and MOUNT"},
			&cli.StringFlag{Name: "admin", EnvVars: []string{adminEnv}, Value: d.Admin, Usage: "`SOCKET` for the other commands"},
			&cli.StringFlag{Name: "state", Value: d.State, Usage: "`DIR` of what must survive a restart (the file handles' key, NFSv4 clients, kept choices)"},
			&cli.StringFlag{Name: "read-mode", Value: d.ReadMode, Usage: "`MODE` of READ: buffered, dontcache, direct or auto"},
			&cli.StringFlag{Name: "write-mode", Value: d.WriteMode, Usage: "`MODE` of WRITE: buffered, dontcache, direct or auto"},
			&cli.StringFlag{Name: "rpcbind", Value: d.Rpcbind, Usage: "`HOW`: auto (register when one runs), off, or embedded (be the portmapper on port 111)"},
			&cli.DurationFlag{Name: "lease-time", Value: d.LeaseTime, Usage: "`TIME` an NFSv4 client may be silent before others may have what it holds"},
			&cli.DurationFlag{Name: "grace-time", Value: d.GraceTime, Usage: "`TIME` after a start in which NFSv4 clients reclaim what they held; 0 is the lease time"},
			&cli.StringFlag{Name: "delegations", Value: d.Delegations, Usage: "`WHICH` to give to NFSv4 clients: off, read, or on (for reading and writing)"},
			&cli.StringFlag{Name: "id-domain", Value: d.IDDomain, Usage: "`DOMAIN` of the names of owners in NFSv4; without it they are numbers"},
			&cli.StringFlag{Name: "names", Value: d.Names, Usage: "`WHICH` names NFSv4 clients may give: any bytes, or utf-8"},
			&cli.StringFlag{Name: "log-level", Value: d.LogLevel, Usage: "`LEVEL`: debug, info, warn or error"},
			&cli.StringFlag{Name: "log-format", Value: d.LogFormat, Usage: "`FORMAT`: console or json"},
			&cli.IntFlag{Name: "threads", Value: d.Threads, Usage: "`NUMBER` of service threads; 0 is one per core"},
			&cli.IntFlag{Name: "slow-threads", Value: d.SlowThreads, Usage: "largest `NUMBER` of threads for calls that may sleep"},
			&cli.IntFlag{Name: "max-connections", Value: d.MaxConnections, Usage: "largest `NUMBER` of client connections; 0 derives it from the descriptor limit"},
			&cli.DurationFlag{Name: "idle-timeout", Value: d.IdleTimeout, Usage: "`TIME` without calls after which a connection is closed; 0 never"},
			&cli.IntFlag{Name: "splice-min", Value: d.SpliceMin, Usage: "smallest buffered READ, in `BYTES`, that is spliced; 0 is the measured default, -1 never"},
			&cli.IntFlag{Name: "buffer-pool", Value: d.BufferPool, Usage: "most memory of data buffers, in `MIB`"},
			&cli.IntFlag{Name: "direct-pool", Value: d.DirectPool, Usage: "most of it that is for direct I/O, in `MIB`; 0 is half"},
			&cli.IntFlag{Name: "max-in-flight", Value: d.MaxInFlight, Usage: "largest `NUMBER` of calls of one connection that wait for slow threads or run there"},
			&cli.IntFlag{Name: "max-queued", Value: d.MaxQueued, Usage: "most replies that one connection may leave untaken, in `KIB`, and still be read"},
			&cli.DurationFlag{Name: "shutdown-timeout", Value: d.ShutdownTimeout, Usage: "`TIME` that calls in flight may take at the end"},
		},
		Action: serve,
	}
}

func serve(c *cli.Context) error {
	if err := noArgs(c); err != nil {
		return err
	}
	cfg, err := serveConfig(c)
	if err != nil {
		return err
	}
	// SIGHUP must not kill a server that is still starting.
	hup := make(chan os.Signal, 1)
	signal.Notify(hup, syscall.SIGHUP)
	defer signal.Stop(hup)

	err = runServer(c.Context, cfg, hup)
	if err != nil && cfg.LogFormat == "json" {
		// Whoever collects the log wants the reason there.
		server.LogFailure(cfg, err)
		return &loggedError{err}
	}
	return err
}

// runServer serves until ctx is done or the server can't go on.
func runServer(ctx context.Context, cfg server.Config, hup <-chan os.Signal) error {
	s, err := server.New(cfg)
	if err != nil {
		return err
	}
	if err := s.Start(); err != nil {
		return err
	}
	err = untilEnd(ctx, hup, s.Failed(), func() { s.Reload() }) // which logs what it did
	return errors.Join(err, s.Shutdown())
}

// untilEnd waits for the end, and reloads meanwhile when it is told to: beside
// the loop, so that a reload that hangs, in a file system or a name server,
// keeps nobody from ending the server. Signals that come during a reload are
// answered by one more.
func untilEnd(ctx context.Context, hup <-chan os.Signal, failed <-chan error, reload func()) error {
	done := make(chan struct{}, 1)
	running, again := false, false
	for {
		select {
		case <-hup:
			again = true
		case <-done:
			running = false
		case <-ctx.Done():
			return nil
		case err := <-failed:
			return err
		}
		if again && !running {
			running, again = true, false
			go func() {
				reload()
				done <- struct{}{}
			}()
		}
	}
}

// serveConfig overlays defaults, file and flags. A flag wins when it was given.
func serveConfig(c *cli.Context) (server.Config, error) {
	cfg := server.Defaults()
	// With inline exports alone, the system's exports file isn't served by
	// surprise; name it, here or in the file, to have both.
	defaultExports := cfg.Exports
	cfg.Exports = ""
	if name := c.String("config"); name != "" {
		if err := cfg.LoadFile(name); err != nil {
			return cfg, err
		}
	}
	for _, f := range []struct {
		name string
		dst  *string
	}{
		{"exports", &cfg.Exports}, {"listen", &cfg.Listen}, {"admin", &cfg.Admin}, {"state", &cfg.State},
		{"read-mode", &cfg.ReadMode}, {"write-mode", &cfg.WriteMode}, {"rpcbind", &cfg.Rpcbind},
		{"log-level", &cfg.LogLevel}, {"log-format", &cfg.LogFormat},
		{"delegations", &cfg.Delegations}, {"id-domain", &cfg.IDDomain}, {"names", &cfg.Names},
	} {
		if c.IsSet(f.name) {
			*f.dst = c.String(f.name)
		}
	}
	for _, f := range []struct {
		name string
		dst  *int
	}{
		{"threads", &cfg.Threads}, {"slow-threads", &cfg.SlowThreads}, {"max-connections", &cfg.MaxConnections},
		{"splice-min", &cfg.SpliceMin}, {"buffer-pool", &cfg.BufferPool}, {"direct-pool", &cfg.DirectPool},
		{"max-in-flight", &cfg.MaxInFlight}, {"max-queued", &cfg.MaxQueued},
	} {
		if c.IsSet(f.name) {
			*f.dst = c.Int(f.name)
		}
	}
	for _, f := range []struct {
		name string
		dst  *time.Duration
	}{
		{"idle-timeout", &cfg.IdleTimeout}, {"shutdown-timeout", &cfg.ShutdownTimeout},
		{"lease-time", &cfg.LeaseTime}, {"grace-time", &cfg.GraceTime},
	} {
		if c.IsSet(f.name) {
			*f.dst = c.Duration(f.name)
		}
	}
	if c.IsSet("export") {
		cfg.Export = c.StringSlice("export")
	}
	if len(cfg.Export) == 0 && cfg.Exports == "" && !c.IsSet("exports") {
		cfg.Exports = defaultExports
	}
	cfg.FromFlags = map[string]bool{}
	for _, name := range c.LocalFlagNames() {
		cfg.FromFlags[name] = true
	}
	if err := cfg.Validate(); err != nil {
		return cfg, usagef(c, "%v", err)
	}
	return cfg, nil
}
