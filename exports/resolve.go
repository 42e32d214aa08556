// The system's resolver: host names through net.Resolver (/etc/hosts and DNS), netgroups through `getent netgroup`, since
// no Go library speaks NSS. Everything is cached, so that a client is not refused because a name server is slow.
//
// The plan: one table maps a question to its last answer. A question whose answer is fresh is answered from there. Else one
// goroutine looks it up, whoever needs the answer waits for it up to its deadline, and past the deadline gets the last known
// answer. An answer that could be had once stays in use for a day while the lookup fails, so that an outage of DNS takes
// nobody's access away. Lookups under way are counted and limited; a getent that even SIGKILL can't end costs one of them.

package exports

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// ResolverConfig sets up a SystemResolver. The zero value of each field means its default.
type ResolverConfig struct {
	Timeout     time.Duration // the longest that one Match waits, and that one lookup runs; default 5 s
	TTL         time.Duration // how long an answer is fresh; default 1 min
	NegativeTTL time.Duration // how long "no such name" and a failure are fresh; default 10 s
	Stale       time.Duration // how long the last good answer serves while lookups fail; default 24 h
	MaxEntries  int           // answers kept; default 16384
	MaxLookups  int           // lookups under way; past it questions get the last known answer; default 32
	Getent      string        // program for netgroups; default "getent", found by PATH
	Net         *net.Resolver // default net.DefaultResolver
	OnError     func(error)   // told of each failed lookup, from any goroutine; may be nil
}

// Limits of one answer. What is past them is a failed lookup for netgroups and left out for addresses and names.
const (
	maxAddrs        = 64
	maxGetentOutput = 4 << 20
	lookAhead       = 16                     // host names of one export that are looked up at the same time
	waitDelay       = 100 * time.Millisecond // for a killed getent to let go of its pipe
)

// A SystemResolver is a Resolver that asks this machine. Make it with NewSystemResolver.
type SystemResolver struct {
	cfg ResolverConfig
	now func() time.Time

	mu      sync.Mutex
	answers map[question]*answer
	running int // lookups under way

	stats struct{ lookups, hits, failures, late atomic.Uint64 }
}

// ResolverStats counts since the start.
type ResolverStats struct {
	Lookups  uint64 `json:"lookups"`  // questions put to the system
	Hits     uint64 `json:"hits"`     // answered from memory
	Failures uint64 `json:"failures"` // lookups that failed
	Late     uint64 `json:"late"`     // questions whose answer did not come in time
	Entries  int    `json:"entries"`  // answers kept now
	Running  int    `json:"running"`  // lookups under way now
}

type questionKind uint8

const (
	askHost questionKind = iota
	askAddr
	askNetgroup
)

type question struct {
	kind questionKind
	name string
	addr netip.Addr
}

func (q question) String() string {
	switch q.kind {
	case askAddr:
		return "name of " + q.addr.String()
	case askNetgroup:
		return "netgroup " + q.name
	}
	return "host " + q.name
}

// answer is what is known for a question. Its fields are guarded by the resolver's mutex; the maps and slices that they
// point to never change.
type answer struct {
	known   bool // a lookup has succeeded, if only with "there is none"
	addrs   []netip.Addr
	names   []string
	members map[string]struct{}
	fresh   time.Time     // until then no lookup is needed
	good    time.Time     // when the last lookup succeeded
	started time.Time     // when the lookup under way began
	done    chan struct{} // closed when the lookup under way ends; nil if there is none
}

// NewSystemResolver makes a resolver with an empty cache.
func NewSystemResolver(cfg ResolverConfig) *SystemResolver {
	cfg.Timeout = cmp.Or(cfg.Timeout, 5*time.Second)
	cfg.TTL = cmp.Or(cfg.TTL, time.Minute)
	cfg.NegativeTTL = cmp.Or(cfg.NegativeTTL, 10*time.Second)
	cfg.Stale = cmp.Or(cfg.Stale, 24*time.Hour)
	cfg.MaxEntries = cmp.Or(cfg.MaxEntries, 16384)
	cfg.MaxLookups = cmp.Or(cfg.MaxLookups, 32)
	cfg.Getent = cmp.Or(cfg.Getent, "getent")
	if cfg.Net == nil {
		cfg.Net = net.DefaultResolver
	}
	return &SystemResolver{cfg: cfg, now: time.Now, answers: make(map[question]*answer)}
}

// TTL is how long a caller of Set.Match may keep its answer.
func (r *SystemResolver) TTL() time.Duration { return r.cfg.TTL }

// Flush makes every answer due for a new lookup, as after a change of netgroups that should count at once. The old answers
// still serve while a lookup fails.
func (r *SystemResolver) Flush() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, a := range r.answers {
		a.fresh = time.Time{}
	}
}

// Stats gives the counters.
func (r *SystemResolver) Stats() ResolverStats {
	r.mu.Lock()
	entries, running := len(r.answers), r.running
	r.mu.Unlock()
	return ResolverStats{r.stats.lookups.Load(), r.stats.hits.Load(), r.stats.failures.Load(), r.stats.late.Load(), entries, running}
}

// LookupHost implements Resolver. It waits at most for the configured time-out.
func (r *SystemResolver) LookupHost(name string) []netip.Addr { return r.begin().LookupHost(name) }

// ReverseNames implements Resolver. It waits at most for the configured time-out.
func (r *SystemResolver) ReverseNames(addr netip.Addr) []string { return r.begin().ReverseNames(addr) }

// InNetgroup implements Resolver. It waits at most for the configured time-out.
func (r *SystemResolver) InNetgroup(group, host string, addr netip.Addr) bool {
	return r.begin().InNetgroup(group, host, addr)
}

// session is the resolver with one deadline for all questions of a match. One goroutine uses it.
type session struct {
	r        *SystemResolver
	deadline time.Time
	missed   bool // a question got no answer, or an old one
}

func (r *SystemResolver) begin() *session {
	return &session{r: r, deadline: r.now().Add(r.cfg.Timeout)}
}

func (s *session) LookupHost(name string) []netip.Addr {
	return s.ask(question{kind: askHost, name: canonicalName(name)}).addrs
}

func (s *session) ReverseNames(addr netip.Addr) []string {
	return s.ask(question{kind: askAddr, addr: addr.Unmap().WithZone("")}).names
}

func (s *session) InNetgroup(group, host string, addr netip.Addr) bool {
	members := s.ask(question{kind: askNetgroup, name: group}).members
	if len(members) == 0 {
		return false
	}
	host = canonicalName(host)
	short, _, _ := strings.Cut(host, ".")
	for _, name := range [...]string{host, short, addr.Unmap().WithZone("").String()} {
		if _, ok := members[name]; ok && name != "" {
			return true
		}
	}
	return false
}

// prefetch starts the lookup of a host name if it is needed.
func (s *session) prefetch(name string) {
	s.r.mu.Lock()
	defer s.r.mu.Unlock()
	s.r.start(question{kind: askHost, name: canonicalName(name)})
}

// ask gives the answer, waiting for it until the deadline.
func (s *session) ask(q question) answer {
	r := s.r
	r.mu.Lock()
	a := r.start(q)
	if a == nil { // the limit of lookups
		r.mu.Unlock()
		s.miss()
		return answer{}
	}
	now := r.now()
	if a.done == nil {
		defer r.mu.Unlock()
		if now.Before(a.fresh) {
			r.stats.hits.Add(1)
		} else { // due, but the limit of lookups is reached
			s.miss()
		}
		s.missed = s.missed || !a.known // the last lookup failed, not long ago
		return *a
	}
	done := a.done
	wait := s.deadline.Sub(now)
	// A lookup past its time-out hangs for good, in a getent that can't be killed: don't wait for it again.
	if over := a.started.Add(r.cfg.Timeout + 2*waitDelay).Sub(now); over < wait {
		wait = over
	}
	r.mu.Unlock()

	timer := time.NewTimer(max(wait, 0))
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
		s.miss()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	s.missed = s.missed || !a.known
	return *a
}

func (s *session) miss() {
	s.missed = true
	s.r.stats.late.Add(1)
}

// start gives the record of a question, with a lookup under way if one is due and the limit allows it. It gives nil where
// there is neither a record nor room for a lookup. The caller holds the mutex.
func (r *SystemResolver) start(q question) *answer {
	a := r.answers[q]
	now := r.now()
	if a != nil && (a.done != nil || now.Before(a.fresh)) {
		return a
	}
	if r.running >= r.cfg.MaxLookups {
		return a
	}
	if a == nil {
		if len(r.answers) >= r.cfg.MaxEntries && !r.evict(now) {
			return nil
		}
		a = new(answer)
		r.answers[q] = a
	}
	r.running++
	r.stats.lookups.Add(1)
	a.started, a.done = now, make(chan struct{})
	go r.lookup(q, a)
	return a
}

// evict drops one answer: the first of a few that is due, else the one of them that is due next.
func (r *SystemResolver) evict(now time.Time) bool {
	var victim question
	var due time.Time
	found, looked := false, 0
	for q, a := range r.answers { // Go's order is random
		if a.done != nil {
			continue
		}
		if !found || a.fresh.Before(due) {
			victim, due, found = q, a.fresh, true
		}
		if looked++; looked == 8 || due.Before(now) {
			break
		}
	}
	if found {
		delete(r.answers, victim)
	}
	return found
}

// lookup asks the system and records what it said.
func (r *SystemResolver) lookup(q question, a *answer) {
	ctx, cancel := context.WithTimeout(context.Background(), r.cfg.Timeout)
	defer cancel()
	var got answer
	var err error
	switch q.kind {
	case askHost:
		got.addrs, err = r.lookupHost(ctx, q.name)
	case askAddr:
		got.names, err = r.lookupAddr(ctx, q.addr)
	case askNetgroup:
		got.members, err = r.lookupNetgroup(ctx, q.name)
	}

	r.mu.Lock()
	now := r.now()
	r.running--
	close(a.done)
	a.done = nil
	if err == nil {
		ttl := r.cfg.TTL
		if len(got.addrs)+len(got.names)+len(got.members) == 0 {
			ttl = r.cfg.NegativeTTL
		}
		*a = answer{known: true, addrs: got.addrs, names: got.names, members: got.members, fresh: now.Add(ttl), good: now}
	} else {
		if now.Sub(a.good) > r.cfg.Stale {
			*a = answer{}
		}
		a.fresh = now.Add(r.cfg.NegativeTTL)
	}
	r.mu.Unlock()

	if err != nil {
		r.stats.failures.Add(1)
		if r.cfg.OnError != nil {
			r.cfg.OnError(fmt.Errorf("look up %s: %w", q, err))
		}
	}
}

// notFound turns the certain answer "there is none" into an empty one.
func notFound(err error) error {
	var d *net.DNSError
	if errors.As(err, &d) && d.IsNotFound {
		return nil
	}
	return err
}

func (r *SystemResolver) lookupHost(ctx context.Context, name string) ([]netip.Addr, error) {
	list, err := r.cfg.Net.LookupNetIP(ctx, "ip", name)
	if err != nil {
		return nil, notFound(err)
	}
	list = list[:min(len(list), maxAddrs)]
	for i := range list {
		list[i] = list[i].Unmap()
	}
	return list, nil
}

func (r *SystemResolver) lookupAddr(ctx context.Context, addr netip.Addr) ([]string, error) {
	list, err := r.cfg.Net.LookupAddr(ctx, addr.String())
	if err != nil {
		return nil, notFound(err)
	}
	return list[:min(len(list), maxNames)], nil
}

// lookupNetgroup runs `getent netgroup GROUP`, which lists the group with all groups inside it, as triples
// (host,user,domain). Only the host counts, and an empty one or "-" names nobody (exports(5); innetgr(3) would take an
// empty one for everybody).
func (r *SystemResolver) lookupNetgroup(ctx context.Context, group string) (map[string]struct{}, error) {
	cmd := exec.CommandContext(ctx, r.cfg.Getent, "netgroup", group)
	cmd.Env = append(os.Environ(), "LC_ALL=C")
	out := limitedBuffer{left: maxGetentOutput}
	cmd.Stdout = &out
	// Its own process group, so that what getent starts ends with it; WaitDelay, so that a grandchild that keeps the pipe
	// open does not keep us.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = waitDelay
	err := cmd.Run()
	var exit *exec.ExitError
	switch {
	case ctx.Err() != nil:
		return nil, fmt.Errorf("%s netgroup %s took longer than %v", r.cfg.Getent, group, r.cfg.Timeout)
	case out.left < 0:
		return nil, fmt.Errorf("%s netgroup %s printed more than %d bytes", r.cfg.Getent, group, maxGetentOutput)
	case errors.As(err, &exit) && exit.ExitCode() == 2: // getent(1): the key is not in the database
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("%s netgroup %s: %w", r.cfg.Getent, group, err)
	}
	return parseNetgroupLine(out.buf.Bytes()), nil
}

func parseNetgroupLine(out []byte) map[string]struct{} {
	members := make(map[string]struct{})
	for {
		open := bytes.IndexByte(out, '(')
		if open < 0 {
			return members
		}
		out = out[open+1:]
		end := bytes.IndexByte(out, ')')
		if end < 0 {
			return members
		}
		host, _, _ := bytes.Cut(out[:end], []byte(","))
		if h := canonicalName(string(bytes.TrimSpace(host))); h != "" && h != "-" {
			members[h] = struct{}{}
		}
		out = out[end+1:]
	}
}

// limitedBuffer keeps what is written up to its limit and then refuses, which ends the command's copy.
type limitedBuffer struct {
	buf  bytes.Buffer
	left int
}

func (b *limitedBuffer) Write(p []byte) (int, error) {
	if b.left -= len(p); b.left < 0 {
		b.left = -1
		return 0, errors.New("too much output")
	}
	return b.buf.Write(p)
}
