// Registration with the host's rpcbind: announced at start, looked after while
// the server runs, withdrawn at exit.
//
// Plan: one goroutine owns the registrations. Each round asks rpcbind for its
// table and acts on the answer alone: missing is set (rpcbind was started again
// and has forgotten us), ours is left, another server's is left when that server
// answers and replaced when it does not. So a round is one small call over a Unix
// socket when nothing has changed, and needs no watch on rpcbind's life.
// Every step has a time-out: an rpcbind that hangs delays nothing but this goroutine.

package portmap

import (
	"context"
	"net/netip"
	"sync"
	"time"

	"github.com/rs/zerolog"
)

// Defaults of RegistrarConfig.
const (
	DefaultSocket  = "/run/rpcbind.sock"
	DefaultTCP     = "127.0.0.1:111"
	DefaultPoll    = 30 * time.Second
	DefaultTimeout = 3 * time.Second
)

// RegistrarConfig configures Register.
type RegistrarConfig struct {
	Mappings []Mapping
	Socket   string        // rpcbind's Unix socket; "" is DefaultSocket
	TCP      string        // tried when there is no such socket; "" is DefaultTCP
	Poll     time.Duration // between rounds; 0 is DefaultPoll
	Timeout  time.Duration // for one round's dialling and for each call; 0 is DefaultTimeout
	Log      zerolog.Logger
}

// Registrar keeps a server registered. Make one with Register.
type Registrar struct {
	cfg  RegistrarConfig
	stop chan struct{}
	done chan struct{}
	once sync.Once

	mu     sync.Mutex
	status Status
}

// Status says how the registration stands.
type Status struct {
	Reachable  bool      // rpcbind answered in the last round
	Registered int       // mappings that point to this server
	Taken      int       // mappings that another, living server holds
	Err        error     // why the last round failed, nil when it did not
	Checked    time.Time // end of the last round
}

// binder is one connection to rpcbind.
type binder interface {
	list() ([]Mapping, error)
	canHold(m Mapping) bool // false: this version of the protocol has no word for m's netid
	set(m Mapping) (bool, error)
	unset(m Mapping) (bool, error)
	Close() error
}

// Register announces the mappings and keeps them announced until Close. The
// first round is done when it returns, whatever came of it: a server that
// cannot register serves all the same, to clients that name its ports.
func Register(cfg RegistrarConfig) *Registrar {
	if cfg.Socket == "" {
		cfg.Socket = DefaultSocket
	}
	if cfg.TCP == "" {
		cfg.TCP = DefaultTCP
	}
	if cfg.Poll <= 0 {
		cfg.Poll = DefaultPoll
	}
	if cfg.Timeout <= 0 {
		cfg.Timeout = DefaultTimeout
	}
	r := &Registrar{cfg: cfg, stop: make(chan struct{}), done: make(chan struct{})}
	before := Status{Reachable: true}
	first := r.round()
	r.report(before, first)
	go r.run(first)
	return r
}

// Status returns how the last round ended.
func (r *Registrar) Status() Status {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.status
}

// Close withdraws the mappings that still point to this server and ends the
// goroutine. It waits no longer than ctx allows.
func (r *Registrar) Close(ctx context.Context) error {
	r.once.Do(func() { close(r.stop) })
	select {
	case <-r.done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (r *Registrar) run(last Status) {
	defer close(r.done)
	tick := time.NewTicker(r.cfg.Poll)
	defer tick.Stop()
	for {
		select {
		case <-r.stop:
			r.withdraw()
			return
		case <-tick.C:
			now := r.round()
			r.report(last, now)
			last = now
		}
	}
}

// round brings rpcbind's table in line with the mappings.
func (r *Registrar) round() (st Status) {
	defer func() {
		st.Checked = time.Now()
		r.mu.Lock()
		r.status = st
		r.mu.Unlock()
	}()
	b, err := dial(r.cfg.Socket, r.cfg.TCP, r.cfg.Timeout)
	if err != nil {
		st.Err = err
		return st
	}
	defer b.Close()
	table, err := b.list()
	if err != nil {
		st.Err = err
		return st
	}
	st.Reachable = true
	for _, m := range r.cfg.Mappings {
		if !b.canHold(m) {
			continue
		}
		switch state, err := r.claim(b, table, m); {
		case err != nil:
			if st.Err == nil {
				st.Err = err // the first one tells: the others are refused for the same reason
			}
			if isTransport(err) {
				st.Reachable = false
				return st // the rest would only wait for the same time-out
			}
		case state == mine:
			st.Registered++
		case state == others:
			st.Taken++
		}
	}
	return st
}

type claimState int

const (
	mine claimState = iota
	others
)

// claim makes m's registration ours unless a living server holds it.
func (r *Registrar) claim(b binder, table []Mapping, m Mapping) (claimState, error) {
	if at, found := registered(table, m); found {
		if same(at, m.Addr) {
			return mine, nil
		}
		if alive(at, m, r.cfg.Timeout) {
			return others, nil
		}
		if _, err := b.unset(m); err != nil {
			return 0, err
		}
	}
	ok, err := b.set(m)
	if err != nil {
		return 0, err
	}
	if !ok {
		return 0, &refusedError{m}
	}
	return mine, nil
}

// registered returns the address that the table has for m's program, version and netid.
func registered(table []Mapping, m Mapping) (netip.AddrPort, bool) {
	for _, o := range table {
		if o.Prog == m.Prog && o.Vers == m.Vers && o.Netid == m.Netid {
			return o.Addr, true
		}
	}
	return netip.AddrPort{}, false
}

// same reports whether two addresses lead to the same server: version 2 keeps
// ports only, and so an unspecified address stands for any.
func same(a, b netip.AddrPort) bool {
	return a.Port() == b.Port() &&
		(a.Addr() == b.Addr() || a.Addr().IsUnspecified() || b.Addr().IsUnspecified())
}

// withdraw removes the registrations that still point to this server: one
// that another server has taken over since is not ours to remove.
func (r *Registrar) withdraw() {
	b, err := dial(r.cfg.Socket, r.cfg.TCP, r.cfg.Timeout)
	if err != nil {
		return // no rpcbind, nothing registered
	}
	defer b.Close()
	table, err := b.list()
	for _, m := range r.cfg.Mappings {
		if at, found := registered(table, m); err == nil && found && same(at, m.Addr) {
			_, err = b.unset(m)
		}
	}
	if err != nil {
		r.cfg.Log.Warn().Err(err).Msg("rpcbind: withdrawing the registration failed; it goes when rpcbind is started again")
	}
}

// report logs what changed between two rounds, one line for each change.
func (r *Registrar) report(before, now Status) {
	log := r.cfg.Log
	switch {
	case !now.Reachable && before.Reachable:
		log.Info().AnErr("reason", now.Err).
			Msg("rpcbind does not answer: serving without it; clients must name the ports (mount -o port=,mountport=), showmount will not work")
	case now.Reachable && now.Err != nil && (before.Err == nil || before.Err.Error() != now.Err.Error()):
		log.Warn().Err(now.Err).Msg("rpcbind refused a registration; run the server as root, or clients must name the ports")
	case now.Reachable && now.Registered > 0 && (!before.Reachable || before.Registered != now.Registered):
		log.Info().Int("mappings", now.Registered).Msg("registered with rpcbind")
	}
	if now.Taken > 0 && before.Taken != now.Taken {
		log.Warn().Int("mappings", now.Taken).
			Msg("another NFS server is running and holds registrations with rpcbind: left to it; clients of this one must name the ports")
	}
}
