// COMPOUNDs made from bytes, against everything that a client can hold.
//
// Plan: a fuzzer has a client of 4.2 with a session, an open, a lock and a
// delegation, and for COMPOUNDs of 4.0 a client with an open and a lock of its
// own, made anew for each. Locks and leases of the kernel are behind it, as in
// pkg/server. The operations and their arguments are in templates_test.go.

package nfs4

import (
	"os"
	"path/filepath"
	"runtime"
	"runtime/metrics"
	"testing"
	"time"

	"sluice/pkg/filecache"
	"sluice/pkg/state"
	"sluice/pkg/vfs"
	"sluice/rpc"
	"sluice/test/testenv"
	"sluice/xdr"
	wire "sluice/xdr/nfs4"
)

const (
	// Minor versions in a fuzzed program. Besides those that there are, fuzzBare
	// is 4.2 without the SEQUENCE that goes before the others of 4.1 and 4.2.
	fuzzNoMinor = 3
	fuzzBare    = 4
	fuzzMinors  = 5

	fuzzOps   = 14   // operations in a COMPOUND
	fuzzWait  = 0xff // instead of an operation's number: so many seconds go by
	fuzzFresh = 500  // COMPOUNDs with the same clients

	maxFuzzHeap  = 256 << 20 // bytes in use: far above what the server needs for a handful of clients
	maxFuzzAlloc = 32 << 20  // bytes that one COMPOUND may allocate, as many READs as it has
	maxFuzzReply = 1<<20 + 64<<10
)

// fuzzer is a server and its clients.
type fuzzer struct {
	*testServer
	leases *vfs.Leases
	locks  *vfs.Locks
	x      *session
	spare  wire.EXCHANGEID4resok // a client that is not confirmed yet
	held   held                  // x's
	c40    *client40
	held40 held
	lives  uint8
	runs   int
	fds    int // open that nothing accounts for
	allocs []metrics.Sample
}

// held is what a client has.
type held struct {
	fh                []byte
	open, lock, deleg wire.Stateid4
}

// lateLeases and lateLocks are there once the namespace is.
type (
	lateLeases struct{ *vfs.Leases }
	lateLocks  struct{ *vfs.Locks }
)

func (l *lateLocks) Lock(file state.FileKey, owner state.LockOwner, typ state.LockType, start, end uint64) error {
	return l.Locks.Lock(file, owner, typ == state.WriteLock, start, end)
}

func (l *lateLocks) Unlock(file state.FileKey, owner state.LockOwner, start, end uint64) {
	l.Locks.Unlock(file, owner, start, end)
}

func (l *lateLocks) Test(file state.FileKey, owner state.LockOwner, typ state.LockType, start, end uint64) (c state.LockConflict, ok bool) {
	c.Local, c.Type = true, state.ReadLock
	write, start, end, pid, ok := l.Locks.Test(file, owner, typ == state.WriteLock, start, end)
	if write {
		c.Type = state.WriteLock
	}
	c.Start, c.End, c.Pid = start, end, pid
	return c, ok
}

func (l *lateLocks) Forget(file state.FileKey, owner state.LockOwner) { l.Locks.Forget(file, owner) }

// newFuzzer has a small file system, which ALLOCATE may fill.
func newFuzzer(t testing.TB) *fuzzer {
	leases, locks := &lateLeases{}, &lateLocks{}
	g := &fuzzer{allocs: []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}}
	g.testServer = startServerOn(t, testenv.XFS(t, 512), delegations, func(c *state.Config) { c.Leases, c.Local = leases, locks })
	var err error
	g.locks = g.ns.NewLocks(64)
	g.leases, err = g.ns.NewLeases(64, g.locks, func(k filecache.Key) { g.st.LeaseBroken(k) })
	must(t, err)
	leases.Leases, locks.Locks = g.leases, g.locks
	t.Cleanup(func() { // before the server's
		g.leases.Close()
		g.locks.Close()
	})
	g.x = &session{conn: g.conn()}
	g.x.minor = 2
	g.fresh()
	return g
}

// fresh makes files, clients and what they hold as at the beginning, after a look at what the clients before have left.
func (g *fuzzer) fresh() {
	t := g.t
	t.Helper()
	g.noLeaks(t)
	clearDir(t, g.dir)
	for _, name := range []string{"f", "h"} {
		must(t, os.WriteFile(filepath.Join(g.dir, name), []byte("some data"), 0o644))
	}
	must(t, os.Mkdir(filepath.Join(g.dir, "d"), 0o755))
	g.x.seq = 0
	g.x.start("fuzz")
	var o wire.OPEN4resok
	_, o, g.held.fh = g.x.open("f", wire.OPEN4_SHARE_ACCESS_BOTH)
	if o.Delegation.DelegationType != wire.OPEN_DELEGATE_WRITE {
		t.Fatalf("no delegation: %+v", o.Delegation)
	}
	g.held.open, g.held.deleg = o.Stateid, o.Delegation.Write.Stateid
	var l wire.LOCK4res
	g.x.on(g.held.fh, newLock(g.x.clientid, o.Stateid, 0, 100, 0)).next(t, wire.OP_LOCK, ok, &l)
	g.held.lock = l.Resok4.LockStateid
	for _, sid := range []*wire.Stateid4{&g.held.open, &g.held.lock, &g.held.deleg} {
		sid.Seqid = 0 // whichever is the newest
	}
	r := g.x.conn.compound(op{wire.OP_EXCHANGE_ID, &wire.EXCHANGEID4args{EiaClientowner: wire.ClientOwner4{CoOwnerid: []byte("spare")}}})
	var eid wire.EXCHANGEID4res
	r.next(t, wire.OP_EXCHANGE_ID, ok, &eid)
	g.spare = eid.EirResok4
}

// fresh40 takes the place of the client of 4.0 that was there. It opens a file with owner sequence ids 1 and 2 and locks a
// range of it with 3 and 1, so that 4 and 2 are next. It is false when that did not work out: there may be no space left, or another name in the way.
func (g *fuzzer) fresh40() bool {
	t := g.t
	t.Helper()
	if g.c40 != nil {
		g.st.ExpireClient(state.ClientID(g.c40.clientid)) //nolint:errcheck // it may have gone by itself
		g.c40.Close()
	}
	g.lives++
	g.c40 = g.client40("fuzz40", g.lives)
	r := g.c40.compound(root(), op{wire.OP_OPEN, openArgs("o", 1, g.c40.clientid, "h", wire.OPEN4_SHARE_ACCESS_BOTH, 0, true)}, getfh())
	if r.status != ok {
		return false
	}
	skipTo(t, r, wire.OP_PUTROOTFH)
	var o wire.OPEN4res
	r.next(t, wire.OP_OPEN, ok, &o)
	var h wire.GETFH4res
	r.next(t, wire.OP_GETFH, ok, &h)
	g.held40.fh = append([]byte(nil), h.Resok4.Object...)
	r = g.c40.compound(putfh(g.held40.fh), op{wire.OP_OPEN_CONFIRM, &wire.OPENCONFIRM4args{OpenStateid: o.Resok4.Stateid, Seqid: 2}})
	skipTo(t, r, wire.OP_PUTFH)
	var oc wire.OPENCONFIRM4res
	r.next(t, wire.OP_OPEN_CONFIRM, ok, &oc)
	g.held40.open = oc.Resok4.OpenStateid
	r = g.c40.compound(putfh(g.held40.fh), newLock(g.c40.clientid, g.held40.open, 0, 100, 3))
	skipTo(t, r, wire.OP_PUTFH)
	var l wire.LOCK4res
	r.next(t, wire.OP_LOCK, ok, &l)
	g.held40.lock = l.Resok4.LockStateid
	return true
}

// build makes the arguments of a COMPOUND from a program: for each operation two bytes, which one and how many bytes of its
// arguments are changed, and two for each change. It returns how many operations they are.
func (g *fuzzer) build(minor uint8, program []byte) (script []byte, n int) {
	var e xdr.Encoder
	h := wire.COMPOUND4args{Minorversion: uint32(minor)}
	if minor == fuzzBare {
		h.Minorversion = 2
	}
	h.Encode(&e)
	count := len(e.Bytes()) - 4
	if minor == 1 || minor == 2 {
		g.x.seq++
		e.Uint32(uint32(wire.OP_SEQUENCE))
		g.x.sequence().args.Encode(&e)
		n++
	}
	templates := g.templates(minor)
	openSeq, lockSeq := uint32(4), uint32(2)
	for len(program) >= 2 && n < fuzzOps {
		which, change := program[0], int(program[1])
		program = program[2:]
		if which == fuzzWait {
			g.clock.Add(int64(change) * int64(time.Second))
			g.st.Tick()
			continue
		}
		tpl := templates[int(which)%len(templates)]
		if minor == 0 {
			setSeqids(tpl.args, &openSeq, &lockSeq)
		}
		e.Uint32(uint32(tpl.num))
		at := len(e.Bytes())
		if tpl.args != nil {
			tpl.args.Encode(&e)
		}
		for change %= 4; change > 0 && len(program) >= 2; change-- {
			if size := len(e.Bytes()) - at; size > 0 {
				e.Bytes()[at+int(program[0])%size] = program[1]
			}
			program = program[2:]
		}
		n++
	}
	e.PatchUint32(count, uint32(n))
	return append([]byte(nil), e.Bytes()...), n
}

// setSeqids gives an operation of 4.0 the sequence ids that come next if all before it succeed; the COMPOUND ends at the
// first that does not.
func setSeqids(args rpc.Encodable, open, lock *uint32) {
	next := func(to, seq *uint32) { *to, *seq = *seq, *seq+1 }
	switch a := args.(type) {
	case *wire.OPEN4args:
		next(&a.Seqid, open)
	case *wire.OPENCONFIRM4args:
		next(&a.Seqid, open)
	case *wire.OPENDOWNGRADE4args:
		next(&a.Seqid, open)
	case *wire.CLOSE4args:
		next(&a.Seqid, open)
	case *wire.LOCK4args:
		if a.Locker.NewLockOwner {
			next(&a.Locker.OpenOwner.OpenSeqid, open)
		} else {
			a.Locker.LockOwner.LockStateid.Seqid = *lock - 1 // as both begin with 1 and grow together
			next(&a.Locker.LockOwner.LockSeqid, lock)
		}
	case *wire.LOCKU4args:
		a.LockStateid.Seqid = *lock - 1
		next(&a.Seqid, lock)
	}
}

// FuzzCompound runs COMPOUNDs built from bytes: no panic, a bounded reply, bounded memory, the counts right; and now and
// then, and at the end of the seeds, all clients are thrown out, and nothing may be left of them.
func FuzzCompound(f *testing.F) {
	g := newFuzzer(f)
	for i := range g.templates(2) {
		for _, minor := range []uint8{0, 1, 2, fuzzBare} {
			f.Add(minor, []byte{fuzzPutFH, 0, byte(i), 0, byte(i), 1, 5, 0xff})
		}
	}
	for _, seed := range fuzzSeeds {
		f.Add(seed.minor, g.program(seed.picks))
	}
	f.Add(uint8(fuzzNoMinor), []byte{0, 0})
	f.Fuzz(func(t *testing.T, minor uint8, program []byte) {
		g.t = t
		if g.runs++; g.runs%fuzzFresh == 0 {
			g.fresh()
		}
		g.modes.SetRead(readModes[int(minor/fuzzMinors)%len(readModes)])
		minor %= fuzzMinors
		if minor == 0 && !g.fresh40() {
			if g.fresh(); !g.fresh40() {
				t.Fatal("a client of 4.0 cannot open a new file")
			}
		}
		script, n := g.build(minor, program)
		before := g.allocated()
		g.compound(t, script, n)
		if n := g.allocated() - before; n > maxFuzzAlloc {
			t.Errorf("%d bytes were allocated", n)
		}
		// The session has to be good afterwards, unless the COMPOUND did away with it.
		g.x.seq++
		if r := g.x.conn.compound(g.x.sequence(), root(), getfh()); r.status != ok {
			g.fresh()
		}
	})
	if g.t = f; g.runs > 0 { // not where other processes run them
		g.fresh() // no leaks of the seeds
	}
}

func (g *fuzzer) allocated() uint64 {
	metrics.Read(g.allocs)
	return g.allocs[0].Value.Uint64()
}

// compound runs a COMPOUND inside a procedure, and looks at its reply. It returns the status and how many results there are.
func (g *fuzzer) compound(t *testing.T, script []byte, n int) (st status, done int) {
	c := g.x.conn
	if g.c40 != nil && g.c40.minor == uint32(script[7]) { // no tag, minor version
		c = g.c40.conn
	}
	g.run(c, func(rc *rpc.Call) {
		at, before := len(rc.Reply.Bytes()), rc.Reply.Len()
		m := rc.Reply.Mark()
		rc.Args.Reset(script)
		v := g.svc.compound(rc)
		if v != rpc.Done {
			t.Errorf("verdict %d", v)
		} else if err := rc.Reply.Err(); err != nil {
			t.Errorf("the reply does not encode: %v", err)
		} else {
			var d xdr.Decoder
			d.Reset(rc.Reply.Bytes()[at:])
			var h wire.COMPOUND4res
			h.Decode(&d)
			if d.Err() != nil || h.Resarray > n {
				t.Errorf("%d results of %d operations", h.Resarray, n)
			}
			st, done = h.Status, h.Resarray
		}
		if got := rc.Reply.Len() - before; got > maxFuzzReply {
			t.Errorf("a reply of %d bytes", got)
		}
		rc.Reply.Rollback(m)
	})
	return st, done
}

func clearDir(t testing.TB, dir string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	must(t, err)
	for _, e := range entries {
		must(t, os.RemoveAll(filepath.Join(dir, e.Name())))
	}
}

// noLeaks ends all clients, and looks for what is left of them: state, locks and leases of the kernel, pins of files,
// buffers, pipes, descriptors, memory.
func (g *fuzzer) noLeaks(t testing.TB) {
	t.Helper()
	for _, c := range g.st.Clients() {
		g.st.ExpireClient(c.ID) //nolint:errcheck // there are unconfirmed ones, which time ends
	}
	g.clock.Add(int64(4 * g.st.Lease()))
	g.st.Tick()
	if g.c40 != nil {
		g.c40.Close()
		g.c40 = nil
	}
	if c := g.st.Counters(); c.Clients+c.Unconfirmed+c.Sessions+c.Opens+c.Locks+c.Delegations+c.ReplyCacheReserved != 0 {
		t.Errorf("left of clients that are gone: %+v", c)
	}
	if n, m := g.leases.Count(), g.locks.Count(); n+m != 0 {
		t.Errorf("%d leases and %d locks of the kernel's are left", n, m)
	}
	// What still runs in the background may be a moment behind.
	var left map[string]int64
	for range 200 {
		if left = g.inUse(t); len(left) == 0 {
			break
		}
		time.Sleep(5 * time.Millisecond)
	}
	if len(left) != 0 {
		t.Errorf("still in use: %v", left)
	}
	var m runtime.MemStats
	if runtime.ReadMemStats(&m); m.HeapAlloc > maxFuzzHeap {
		runtime.GC()
		if runtime.ReadMemStats(&m); m.HeapAlloc > maxFuzzHeap {
			t.Errorf("%d bytes are in use", m.HeapAlloc)
		}
	}
}

// inUse is what no COMPOUND uses when none runs. Descriptors are those that neither file cache nor pipes account for, above
// what they were the first time.
func (g *fuzzer) inUse(t testing.TB) map[string]int64 {
	t.Helper()
	e, c := g.engine.Stats(), g.cache.Stats()
	all := map[string]int64{
		"pins": int64(c.Acquisitions - c.Releases), "buffers": e.Buffers.InUse, "direct buffers": e.DirectBuffers.InUse, "pipes": e.Pipes.InUse,
		"copies": int64(g.copies()), "bytes of queued replies": g.rpc.Stats().QueuedBytes, "connections of others": int64(g.rpc.Stats().Conns) - 1,
	}
	for what, n := range all {
		if n == 0 {
			delete(all, what)
		}
	}
	dir, err := os.ReadDir("/proc/self/fd")
	must(t, err)
	fds := len(dir) - c.Descriptors - 2*e.Pipes.Open
	if g.fds == 0 && len(all) == 0 {
		g.fds = fds
	} else if fds > g.fds {
		all["descriptors"] = int64(fds - g.fds)
	}
	return all
}
