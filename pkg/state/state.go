// State: the root of the room, its lock, and what runs after the lock is let go.

package state

import (
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"hash/maphash"
	"sync"
	"sync/atomic"
	"time"
)

// State holds all clients' state. All methods may be called from any goroutine.
type State struct {
	cfg        Config
	boot       uint32 // in client ids and stateids; never one that an earlier start had
	lease      int64  // nanoseconds; recallTime too
	recallTime int64
	seed       maphash.Seed
	start      time.Time
	drain      int // drainTries, but for tests
	grace      grace

	sessions    sessionTable
	locks       lockTable
	interest    [interestSlots]atomic.Int32 // files with a share denial or a delegation, by hash; see guard.go
	ended       atomic.Uint64               // write delegations that have ended
	counts      counters
	reserved    atomic.Int64 // bytes of slot replies promised to sessions
	connTable   connTable
	lastSession atomic.Uint32

	background sync.WaitGroup // goroutines started by async
	ending     sync.Mutex     // held while clients are ended; taken without any other
	record     sync.Mutex     // held around calls of cfg.Recovery; taken without mu

	mu sync.RWMutex
	// Under mu.
	closed      bool
	clients     map[ClientID]*Client // confirmed, and those of 4.1 that are not
	confirmed   map[string]*Client   // by owner
	unconfirmed map[string]*Client   // by owner
	peers       map[string]*peer
	lastClient  uint32
	files       map[FileKey]*file
	ndelegs     int
	places      int                       // lock owners' files with ranges, of all clients
	objects     int                       // stateids and owners of all clients
	blocked     [blockedSlots]blockedFile // whose delegation was recalled of late, by hash
	nextSweep   int64
	nextShort   int64
	after       []func() // run by leave
	reap        []*Client
	reaping     bool
}

// counters are for Counters; each is only ever added to.
type counters struct {
	clientsEnded, clientsExpired, delegsGranted, delegsRecalled, delegsRevoked, delegsReturned atomic.Int64
	locksGranted, locksDenied, sharesDenied, replays, graceRefused, storageErrors              atomic.Int64
}

// New starts a state from what Recovery knows. With clients recorded there, a grace period begins.
func New(cfg Config) (*State, error) {
	cfg.fill()
	s := &State{
		cfg: cfg, lease: int64(cfg.Lease), recallTime: int64(cfg.RecallTime), seed: maphash.MakeSeed(), start: time.Now(), drain: drainTries,
		clients: map[ClientID]*Client{}, confirmed: map[string]*Client{}, unconfirmed: map[string]*Client{},
		files: map[FileKey]*file{}, peers: map[string]*peer{},
	}
	s.sessions.init()
	s.locks.init(&s.cfg)
	var recs []RecoveryRecord
	if cfg.Recovery != nil {
		var err error
		if recs, s.boot, err = cfg.Recovery.Load(); err != nil {
			return nil, fmt.Errorf("client records: %w", err)
		}
	}
	if s.boot < minBoot {
		s.boot = randomBoot()
	}
	s.grace.begin(s, recs)
	return s, nil
}

// minBoot keeps boot ids clear of the special stateids and of numbers that a client could take for one.
const minBoot = 1 << 16

func randomBoot() uint32 {
	for {
		var b [4]byte
		if _, err := rand.Read(b[:]); err != nil {
			panic("state: no randomness: " + err.Error())
		}
		if n := binary.BigEndian.Uint32(b[:]); n >= minBoot && n != ^uint32(0) {
			return n
		}
	}
}

// randomVerifier is a confirm verifier: never zero, and not to be guessed.
func randomVerifier() (v Verifier) {
	for v == (Verifier{}) {
		if _, err := rand.Read(v[:]); err != nil {
			panic("state: no randomness: " + err.Error())
		}
	}
	return v
}

// Close stops. Client records stay on stable storage: clients reclaim after the next start. Locks that local processes
// can see go with the process's descriptors.
func (s *State) Close() error {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.background.Wait()
	if s.cfg.Recovery == nil {
		return nil
	}
	s.record.Lock()
	defer s.record.Unlock()
	return s.cfg.Recovery.Close()
}

// Lease returns the lease time.
func (s *State) Lease() time.Duration { return s.cfg.Lease }

// Boot returns the boot id: a write verifier or server scope may use it.
func (s *State) Boot() uint32 { return s.boot }

func (s *State) now() int64 {
	if s.cfg.Now != nil {
		return s.cfg.Now()
	}
	return int64(time.Since(s.start))
}

// enter takes the lock, and drops what time has made worthless.
func (s *State) enter() (now int64) {
	now = s.now()
	s.mu.Lock()
	if now >= s.nextSweep {
		s.sweep(now)
	}
	return now
}

// leave lets the lock go and runs what was queued under it: callbacks, system calls, releases.
func (s *State) leave() {
	q := s.after
	s.after = nil
	s.mu.Unlock()
	for _, f := range q {
		f()
	}
}

// later queues f for leave. The caller holds the lock.
func (s *State) later(f func()) { s.after = append(s.after, f) }

// async runs f on a goroutine of its own, which Close waits for.
func (s *State) async(f func()) {
	s.background.Add(1)
	go func() {
		defer s.background.Done()
		f()
	}()
}

func (s *State) logf(format string, args ...any) {
	if s.cfg.Log != nil {
		s.cfg.Log(format, args...)
	}
}

// hash spreads files over counters and shards. FS plays no part: the rest is as good as unique.
func (s *State) hash(k *FileKey) uint64 {
	return maphash.Bytes(s.seed, k.Bytes[:min(int(k.Len), len(k.Bytes))])
}

const sweepEvery = int64(time.Second)

// sweep drops unconfirmed clients past a lease period (RFC 8881 18.35.4: "SHOULD be removed"), confirmed ones that expired
// holding nothing or long ago, and idle 4.0 owners. Clients with a record on stable storage go by way of the reaper.
func (s *State) sweep(now int64) {
	s.nextSweep = now + sweepEvery
	for _, c := range s.unconfirmed {
		if now-c.renewed.Load() > s.lease {
			s.dropUnconfirmed(c)
		}
	}
	for _, c := range s.confirmed {
		if c.expired(now) && (!c.hasState() || now-c.renewed.Load() > s.lease+int64(s.cfg.Courtesy)) {
			s.queueReap(c)
			continue
		}
		if c.minor == 0 {
			c.sweepOwners(now)
		}
		c.sweepDelegs(now)
	}
}

// Tick does what would otherwise wait for the next operation: expiry, revocation, the end of grace, another try for lock
// requests that wait for local processes. Call it about once a second.
func (s *State) Tick() {
	s.InGrace()
	now := s.now()
	s.mu.Lock()
	s.sweep(now)
	s.leave()
	blockers := s.locks.retry(now)
	s.mu.Lock()
	for _, id := range blockers {
		// As in expireHolder, for a request that was there before the lease ran out.
		if c := s.clients[id]; c != nil && c.expired(now) {
			s.queueReap(c)
		}
	}
	s.leave()
}
