// What the tests share: a world with a clock that stands still until told, callbacks that are written down, and storage in
// memory.

package state

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

const testLease = 90 * time.Second

type world struct {
	t      testing.TB
	s      *State
	clock  atomic.Int64
	checks int

	mu      sync.Mutex
	recalls []Recall
	getattr []Recall
	notify  []string
	probes  []*Client
	gone    []*Client
	logs    []string
	// answer is called for each CB_GETATTR, if set.
	answer func(Recall)
}

func (w *world) Recall(r Recall) { w.mu.Lock(); w.recalls = append(w.recalls, r); w.mu.Unlock() }
func (w *world) Probe(c *Client) { w.mu.Lock(); w.probes = append(w.probes, c); w.mu.Unlock() }
func (w *world) Gone(c *Client)  { w.mu.Lock(); w.gone = append(w.gone, c); w.mu.Unlock() }
func (w *world) NotifyLock(c *Client, fh, owner []byte) {
	w.mu.Lock()
	w.notify = append(w.notify, string(owner))
	w.mu.Unlock()
}
func (w *world) Getattr(r Recall) {
	w.mu.Lock()
	w.getattr = append(w.getattr, r)
	answer := w.answer
	w.mu.Unlock()
	if answer != nil {
		answer(r)
	}
}

// takeRecalls gives the recalls since the last time.
func (w *world) takeRecalls() []Recall {
	w.mu.Lock()
	defer w.mu.Unlock()
	r := w.recalls
	w.recalls = nil
	return r
}

func newWorld(t testing.TB, mod ...func(*Config)) *world {
	return newWorldAt(t, int64(time.Hour), mod...)
}

func newWorldAt(t testing.TB, now int64, mod ...func(*Config)) *world {
	w := &world{t: t}
	w.clock.Store(now)
	cfg := Config{
		Lease: testLease, Delegations: true, WriteDelegs: true, Now: w.clock.Load, Callbacks: w,
		Log: func(format string, args ...any) {
			w.mu.Lock()
			w.logs = append(w.logs, fmt.Sprintf(format, args...))
			w.mu.Unlock()
		},
	}
	for _, f := range mod {
		f(&cfg)
	}
	s, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	w.s = s
	t.Cleanup(func() {
		if !t.Failed() {
			w.check()
		}
		w.s.Close()
	})
	return w
}

func (w *world) advance(d time.Duration) { w.clock.Add(int64(d)) }

// settle waits for what runs in the background.
func (w *world) settle() { w.s.background.Wait() }

func fkey(n int) (k FileKey) {
	k.FS, k.Type, k.Len = 1, 1, 8
	k.Bytes[0], k.Bytes[1] = byte(n), byte(n>>8)
	return k
}

func who(uid uint32) Principal { return Principal{Flavor: 1, UID: uid} }

func (w *world) call40() *Call { return &Call{MayBlock: true, Principal: who(0), Conn: 1} }

func mustBe(t testing.TB, what string, err, want error) {
	t.Helper()
	if err != want {
		t.Fatalf("%s: got %v, want %v", what, err, want)
	}
}

func ok(t testing.TB, what string, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}

// cl41 is a client with a session, as it sees itself.
type cl41 struct {
	w    *world
	name string
	id   ClientID
	seq  uint32 // next CREATE_SESSION
	sess SessionID
	slot map[uint32]uint32
	conn uint64
	cred Principal
}

var attrs = ChannelAttrs{MaxRequest: 8192, MaxResponse: 8192, MaxResponseCached: 2048, MaxOps: 16, MaxRequests: 8}

var nextConn atomic.Uint64

func (w *world) exchange(name string, verf byte, cred Principal, flags uint32) (ExchangeIDRes, error) {
	return w.s.ExchangeID(&Call{Minor: 1, MayBlock: true, Principal: cred, Conn: 1}, &ExchangeIDArgs{
		Verifier: Verifier{verf}, Owner: []byte(name), Flags: flags,
	})
}

// client41 makes a client with a session and a back channel, RECLAIM_COMPLETE not yet done.
func (w *world) client41(name string) *cl41 {
	w.t.Helper()
	r, err := w.exchange(name, 1, who(0), 0)
	ok(w.t, "EXCHANGE_ID", err)
	c := &cl41{w: w, name: name, id: r.ClientID, seq: r.Sequence, cred: who(0)}
	c.session(attrs)
	return c
}

// ready41 is client41 with RECLAIM_COMPLETE done.
func (w *world) ready41(name string) *cl41 {
	w.t.Helper()
	c := w.client41(name)
	ok(w.t, "RECLAIM_COMPLETE", c.do(func(call *Call) error { return w.s.ReclaimComplete(call, false) }))
	return c
}

func (c *cl41) session(fore ChannelAttrs) CreateSessionRes {
	c.w.t.Helper()
	c.conn = nextConn.Add(1)
	r, err := c.w.s.CreateSession(&Call{Minor: 1, MayBlock: true, Principal: c.cred, Conn: c.conn}, &CreateSessionArgs{
		ClientID: c.id, Sequence: c.seq, Flags: SessionConnBack, Fore: fore, Back: attrs, CBProgram: 0x40000000,
	})
	ok(c.w.t, "CREATE_SESSION", err)
	c.seq++
	c.sess, c.slot = r.SessionID, map[uint32]uint32{}
	return r
}

// begin sends a SEQUENCE on a slot.
func (c *cl41) begin(slot uint32) (*Call, SequenceRes, error) {
	call := &Call{Minor: 1, MayBlock: true, Principal: c.cred, Conn: c.conn}
	r, err := c.w.s.Sequence(call, &SequenceArgs{SessionID: c.sess, Sequence: c.slot[slot] + 1, Slot: slot, HighestSlot: slot, Ops: 2})
	if err == nil {
		c.slot[slot]++
	}
	return call, r, err
}

// do runs an operation in a COMPOUND of its own.
func (c *cl41) do(f func(*Call) error) error {
	call, _, err := c.begin(0)
	if err != nil {
		return err
	}
	err = f(call)
	c.w.s.SequenceDone(call, nil)
	return err
}

type opened struct {
	OpenRes
	key FileKey
}

func (c *cl41) open(owner string, f FileKey, access, deny uint8, mod ...func(*OpenArgs)) (o opened, err error) {
	o.key = f
	err = c.do(func(call *Call) error {
		a := OpenArgs{File: f, FH: []byte("fh"), Access: access, Deny: deny, Regular: true, Want: WantNone}
		for _, m := range mod {
			m(&a)
		}
		if err := c.w.s.OpenBegin(call, &OpenBeginArgs{Owner: []byte(owner), Claim: a.Claim, Deleg: a.Deleg}); err != nil {
			return err
		}
		var err error
		o.OpenRes, err = c.w.s.Open(call, &a)
		return err
	})
	return o, err
}

func wantDeleg(a *OpenArgs) { a.Want = WantNoPreference }

func (c *cl41) close(o opened) error {
	return c.do(func(call *Call) error {
		_, err := c.w.s.CloseFile(call, o.key, Stateid{0, o.Stateid.Other}, 0)
		return err
	})
}

// lock takes a range for an owner, by the open's stateid, and gives the lock stateid.
func (c *cl41) lock(o opened, owner string, typ LockType, off, n uint64) (sid Stateid, lc LockConflict, err error) {
	err = c.do(func(call *Call) error {
		var err error
		sid, lc, err = c.w.s.Lock(call, &LockArgs{
			File: o.key, FH: []byte("fh"), Type: typ, Offset: off, Length: n, New: true,
			OpenStateid: Stateid{0, o.Stateid.Other}, Owner: []byte(owner),
		})
		return err
	})
	return sid, lc, err
}

func (c *cl41) unlock(key FileKey, sid Stateid, off, n uint64) error {
	return c.do(func(call *Call) error {
		_, err := c.w.s.Unlock(call, &UnlockArgs{File: key, Stateid: Stateid{0, sid.Other}, Offset: off, Length: n})
		return err
	})
}

func (c *cl41) io(key FileKey, sid Stateid, want Access) error {
	return c.do(func(call *Call) error {
		_, err := c.w.s.CheckIO(call, key, sid, want)
		return err
	})
}

func (c *cl41) delegReturn(key FileKey, sid Stateid) error {
	return c.do(func(call *Call) error { return c.w.s.DelegReturn(call, key, sid) })
}

// memRecovery is stable storage that survives a State.
type memRecovery struct {
	mu     sync.Mutex
	epoch  uint32
	recs   map[string]memRecord
	fail   error
	events []string
}

type memRecord struct {
	epoch uint32
	minor uint8
}

func (m *memRecovery) Load() (list []RecoveryRecord, boot uint32, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.epoch++
	for o, r := range m.recs {
		list = append(list, RecoveryRecord{[]byte(o), r.minor})
	}
	return list, minBoot + m.epoch, nil
}

func (m *memRecovery) Record(r RecoveryRecord) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.fail != nil {
		return m.fail
	}
	if m.recs == nil {
		m.recs = map[string]memRecord{}
	}
	m.recs[string(r.Owner)] = memRecord{m.epoch, r.Minor}
	m.events = append(m.events, "record "+string(r.Owner))
	return nil
}

func (m *memRecovery) Remove(owners [][]byte) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.fail != nil {
		return m.fail
	}
	for _, o := range owners {
		delete(m.recs, string(o))
		m.events = append(m.events, "remove "+string(o))
	}
	return nil
}

func (m *memRecovery) GraceDone() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.fail != nil {
		return m.fail
	}
	for o, r := range m.recs {
		if r.epoch < m.epoch {
			delete(m.recs, o)
		}
	}
	m.events = append(m.events, "gracedone")
	return nil
}

func (m *memRecovery) Close() error { return nil }

func (m *memRecovery) setFail(err error) { m.mu.Lock(); m.fail = err; m.mu.Unlock() }

func (m *memRecovery) has(owner string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	_, ok := m.recs[owner]
	return ok
}

// fakeLocal stands for the locks of local processes and for what the table puts on the files.
type fakeLocal struct {
	mu   sync.Mutex
	sets map[FileKey]*lockSet[LockOwner]
}

var localProcess = LockOwner{Host: "local process"}

func (l *fakeLocal) set(f FileKey) *lockSet[LockOwner] {
	if l.sets == nil {
		l.sets = map[FileKey]*lockSet[LockOwner]{}
	}
	if l.sets[f] == nil {
		l.sets[f] = &lockSet[LockOwner]{}
	}
	return l.sets[f]
}

func (l *fakeLocal) Lock(f FileKey, o LockOwner, typ LockType, start, end uint64) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, _, found := l.set(f).conflict(o, byteRange{start, end}, typ); found {
		return unix.EAGAIN
	}
	l.set(f).set(o, byteRange{start, end}, typ)
	return nil
}

func (l *fakeLocal) Unlock(f FileKey, o LockOwner, start, end uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.set(f).set(o, byteRange{start, end}, 0)
}

func (l *fakeLocal) Test(f FileKey, o LockOwner, typ LockType, start, end uint64) (LockConflict, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, x, found := l.set(f).conflict(o, byteRange{start, end}, typ)
	return LockConflict{Type: x.typ, Start: x.start, End: x.end, Pid: 7}, found
}

func (l *fakeLocal) Forget(f FileKey, o LockOwner) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.set(f).count(o) != 0 {
		panic("Forget of an owner that holds locks")
	}
}

// fakeLeases stands for the kernel's leases.
type fakeLeases struct {
	mu       sync.Mutex
	held     map[FileKey]DelegType
	refuse   bool
	watch    bool
	weakened int
	onTaken  func(FileKey)
}

func (l *fakeLeases) Acquire(f FileKey, write bool) error {
	l.mu.Lock()
	if l.refuse {
		l.mu.Unlock()
		return errors.New("somebody writes")
	}
	if l.held == nil {
		l.held = map[FileKey]DelegType{}
	}
	l.held[f] = DelegRead
	if write {
		l.held[f] = DelegWrite
	}
	taken := l.onTaken
	l.mu.Unlock()
	if taken != nil {
		taken(f)
	}
	return nil
}

func (l *fakeLeases) Weaken(f FileKey) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.weakened++
	return l.watch
}

func (l *fakeLeases) Release(f FileKey) { l.mu.Lock(); delete(l.held, f); l.mu.Unlock() }

func (l *fakeLeases) has(f FileKey) DelegType {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.held[f]
}

var errDisk = errors.New("disk failed")
