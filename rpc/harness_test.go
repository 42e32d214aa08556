// What the tests share: a server with a small test program, whose end checks
// that nothing leaked, and payloads that notice being misused.

package rpc

import (
	"bytes"
	"context"
	"encoding/binary"
	"hash/crc32"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"sluice/xdr"

	"github.com/rs/zerolog"
	"golang.org/x/sys/unix"
)

const (
	testProg = 0x20000001
	testVers = 3 // and 5
)

// Procedures of the test program.
const (
	procNull  = iota
	procEcho  // opaque -> opaque
	procRead  // kind, n -> payload of n bytes of the connection's pattern
	procSleep // ms -> void; always slow
	procMay   // ms -> void; slow once it finds that it would block
	procStuck // ms -> void; sleeps wherever it is
	procCount // ms, tag -> how often it ran; cached
	procVerdict
	procSink   // opaque -> length, sum
	procWhoAmI // -> uid, gid, groups, thread sequence
	procBulk   // as procCount, in the other cache
	procGate   // -> void, when the test opens the gate; always slow
	procBig    // n -> n bytes, encoded
	procBlock  // -> void, when the test opens the gate; wherever it is
	procLater  // kind, n -> payload, when the test opens the gate; always slow
	procDoom   // -> void; its thread must end
	numProcs
)

const (
	kindMemory = iota
	kindPipe
	kindBroken // a pipe payload whose second SendTo fails
)

// payloads counts the payloads that are not released.
var payloads atomic.Int64

type testPayload struct {
	b        []byte
	r, w     int // pipe
	left     int
	inPipe   int
	broken   bool
	released atomic.Bool
}

// pattern returns n bytes that differ from those of any other id. They must
// not be changed.
func pattern(id uint64, n int) []byte {
	at := int(id * 1021 % (16 << 20))
	return noise()[at : at+n : at+n]
}

var noise = sync.OnceValue(func() []byte {
	b := make([]byte, 20<<20)
	rand.NewChaCha8([32]byte{1}).Read(b)
	return b
})

func newPayload(kind uint32, id uint64, n int) *testPayload {
	payloads.Add(1)
	p := &testPayload{b: pattern(id, n), left: n}
	if kind == kindMemory {
		return p
	}
	p.broken = kind == kindBroken
	var fds [2]int
	if err := unix.Pipe2(fds[:], unix.O_CLOEXEC|unix.O_NONBLOCK); err != nil {
		panic(err)
	}
	p.r, p.w = fds[0], fds[1]
	unix.FcntlInt(uintptr(p.w), unix.F_SETPIPE_SZ, 1<<20)
	p.fill()
	return p
}

// fill tops the pipe up. Real payloads are filled once; the tests' pipes may be smaller.
func (p *testPayload) fill() {
	for len(p.b) > 0 {
		n, err := unix.Write(p.w, p.b)
		if n > 0 {
			p.b = p.b[n:]
			p.inPipe += n
		}
		if err != nil {
			return
		}
	}
}

func (p *testPayload) Len() int { return p.left }
func (p *testPayload) Bytes() ([]byte, bool) {
	if p.r != 0 {
		return nil, false
	}
	return p.b, true
}

func (p *testPayload) SendTo(fd int) (int, error) {
	if p.released.Load() {
		panic("payload used after its release")
	}
	if p.broken && p.left < 100<<10 {
		return 0, unix.EIO
	}
	n, err := unix.Splice(p.r, nil, fd, nil, min(p.inPipe, 64<<10), unix.SPLICE_F_NONBLOCK|unix.SPLICE_F_MOVE)
	if err != nil {
		return 0, err
	}
	p.inPipe -= int(n)
	p.left -= int(n)
	p.fill()
	return int(n), nil
}

func (p *testPayload) ReadAll(dst []byte) (int, error) {
	if p.r == 0 {
		return copy(dst, p.b), nil
	}
	n := 0
	for n < p.left {
		k, err := unix.Read(p.r, dst[n:])
		if err != nil {
			return n, err
		}
		n += k
		p.fill()
	}
	return n, nil
}

func (p *testPayload) Advance(n int) {
	if p.released.Load() {
		panic("payload used after its release")
	}
	p.b = p.b[n:]
	p.left -= n
}

func (p *testPayload) Release() {
	if p.released.Swap(true) {
		panic("payload released twice")
	}
	payloads.Add(-1)
	if p.r != 0 {
		unix.Close(p.r)
		unix.Close(p.w)
	}
}

func sleep(ms uint32) {
	ts := unix.NsecToTimespec(int64(ms) * 1e6)
	for unix.Nanosleep(&ts, &ts) == unix.EINTR {
	}
}

// testServer is a server with the test program.
type testServer struct {
	*Server
	addr   string
	ran    atomic.Int64 // procCount and procBulk
	gateMu sync.Mutex
	gate   chan struct{} // closed once it is open
	asleep atomic.Int64  // procedures that are sleeping
	most   atomic.Int64  // the most of them at once
	local  atomic.Int64  // thread states made and not closed
	log    lockedBuffer
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

type threadState struct{ seq int64 }

func (ts *testServer) nap(ms uint32) {
	n := ts.asleep.Add(1)
	for m := ts.most.Load(); n > m && !ts.most.CompareAndSwap(m, n); m = ts.most.Load() {
	}
	sleep(ms)
	ts.asleep.Add(-1)
}

func (ts *testServer) passage() chan struct{} {
	ts.gateMu.Lock()
	defer ts.gateMu.Unlock()
	return ts.gate
}

func (ts *testServer) openGate() { close(ts.passage()) }

func (ts *testServer) closeGate() {
	ts.gateMu.Lock()
	defer ts.gateMu.Unlock()
	ts.gate = make(chan struct{})
}

func (ts *testServer) program() Program {
	procs := make([]Proc, numProcs)
	set := func(i int, name string, run func(*Call) Verdict) *Proc {
		procs[i] = Proc{Name: name, Run: run}
		return &procs[i]
	}
	set(procEcho, "ECHO", func(c *Call) Verdict {
		b := c.Args.Opaque(1 << 20)
		if c.Args.Err() != nil {
			return GarbageArgs
		}
		c.Reply.Opaque(b)
		return Done
	})
	set(procRead, "READ", func(c *Call) Verdict {
		kind, n := c.Args.Uint32(), c.Args.Uint32()
		if c.Args.Err() != nil {
			return GarbageArgs
		}
		c.Reply.Payload(newPayload(kind, uint64(c.Conn.Peer().Port()), int(n)))
		return Done
	})
	ms := func(c *Call) uint32 { return c.Args.Uint32() }
	set(procSleep, "SLEEP", func(c *Call) Verdict {
		if !c.MayBlock {
			panic("a slow procedure on a service thread")
		}
		ts.nap(ms(c))
		return Done
	}).Slow = true
	set(procMay, "MAY", func(c *Call) Verdict {
		if !c.MayBlock {
			c.Reply.Uint32(12345) // to be rolled back
			return WouldBlock
		}
		ts.nap(ms(c))
		return Done
	})
	set(procStuck, "STUCK", func(c *Call) Verdict {
		ts.nap(ms(c))
		return Done
	})
	count := func(c *Call) Verdict {
		n := ms(c)
		if n > 0 {
			if !c.MayBlock {
				return WouldBlock
			}
			ts.nap(n)
		}
		c.Reply.Uint32(uint32(ts.ran.Add(1)))
		return Done
	}
	set(procCount, "COUNT", count).Cache = true
	p := set(procBulk, "BULK", count)
	p.Cache, p.Bulk = true, true
	set(procVerdict, "VERDICT", func(c *Call) Verdict {
		v := Verdict(c.Args.Uint32())
		c.Reply.Uint32(0xffffffff) // to be rolled back
		c.Reply.Payload(newPayload(kindMemory, 1, 100_000))
		c.AuthStat = AuthTooWeak
		return v
	})
	set(procSink, "SINK", func(c *Call) Verdict {
		b := c.Args.Opaque(1 << 20)
		if c.Args.Err() != nil {
			return GarbageArgs
		}
		c.Reply.Uint32(uint32(len(b)))
		c.Reply.Uint32(checksum(b))
		return Done
	})
	set(procWhoAmI, "WHOAMI", func(c *Call) Verdict {
		c.Reply.Uint32(c.Cred.Flavor)
		c.Reply.Uint32(c.Cred.UID)
		c.Reply.Uint32(c.Cred.GID)
		c.Reply.Uint32(uint32(len(c.Cred.Groups)))
		for _, g := range c.Cred.Groups {
			c.Reply.Uint32(g)
		}
		c.Reply.Opaque(c.Cred.Machine)
		return Done
	})
	set(procGate, "GATE", func(c *Call) Verdict {
		n := ts.asleep.Add(1)
		for m := ts.most.Load(); n > m && !ts.most.CompareAndSwap(m, n); m = ts.most.Load() {
		}
		<-ts.passage()
		ts.asleep.Add(-1)
		return Done
	}).Slow = true
	set(procBlock, "BLOCK", func(c *Call) Verdict {
		ts.asleep.Add(1)
		<-ts.passage()
		ts.asleep.Add(-1)
		return Done
	})
	set(procLater, "LATER", func(c *Call) Verdict {
		kind, n := c.Args.Uint32(), c.Args.Uint32()
		ts.asleep.Add(1)
		<-ts.passage()
		ts.asleep.Add(-1)
		c.Reply.Payload(newPayload(kind, uint64(c.Conn.Peer().Port()), int(n)))
		return Done
	}).Slow = true
	set(procDoom, "DOOM", func(c *Call) Verdict {
		c.Thread.Doom()
		c.Reply.Uint32(uint32(c.Thread.Local.(*threadState).seq))
		return Done
	})
	set(procBig, "BIG", func(c *Call) Verdict {
		c.Reply.Opaque(pattern(7, int(c.Args.Uint32())))
		return Done
	})
	return Program{Prog: testProg, Name: "TEST", Versions: []Version{{Vers: testVers, Procs: procs}, {Vers: 5, Procs: procs[:2]}}}
}

func checksum(b []byte) uint32 { return crc32.ChecksumIEEE(b) }

// start makes a server; its end checks that everything was given back.
func start(t testing.TB, change func(*Config)) *testServer {
	t.Helper()
	before := descriptors(t)
	alive := payloads.Load()
	ts := &testServer{gate: make(chan struct{})}
	var seq atomic.Int64
	cfg := Config{
		Programs:   []Program{ts.program()},
		Threads:    2,
		NewLocal:   func() any { ts.local.Add(1); return &threadState{seq.Add(1)} },
		CloseLocal: func(any) { ts.local.Add(-1) },
		Log:        zerolog.New(&ts.log),
		poison:     true,
	}
	if change != nil {
		change(&cfg)
	}
	s, err := NewServer(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ts.Server = s
	ln, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	ts.addr = ln.Addr().String()
	served := make(chan error, 1)
	go func() { served <- s.Serve(ln) }()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := s.Shutdown(ctx); err != nil {
			t.Errorf("shutdown: %v", err)
		}
		if err := <-served; err != nil {
			t.Errorf("serve: %v", err)
		}
		if n := s.pool.live.Load(); n != 0 {
			t.Errorf("%d record buffers leaked", n)
		}
		if n := s.pool.used.Load(); n != 0 {
			t.Errorf("%d bytes of record memory leaked", n)
		}
		if n := s.queued.Load(); n != 0 {
			t.Errorf("%d queued bytes unaccounted for", n)
		}
		if n := ts.local.Load(); n != 0 {
			t.Errorf("%d thread states not closed", n)
		}
		if n := payloads.Load() - alive; n != 0 {
			t.Errorf("%d payloads leaked", n)
		}
		if st := s.Stats(); st.Conns != 0 || st.SlowThreads != 0 || st.Threads != 0 {
			t.Errorf("left at the end: %+v", st)
		}
		if after := descriptors(t); after > before {
			t.Errorf("%d descriptors at the start, %d at the end", before, after)
		}
	})
	return ts
}

// descriptors counts the open descriptors, less those that the runtime opens
// once and keeps.
func descriptors(t testing.TB) (n int) {
	t.Helper()
	dir, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range dir {
		to, _ := os.Readlink("/proc/self/fd/" + d.Name())
		switch {
		case bytes.HasPrefix([]byte(to), []byte("socket:")), bytes.HasPrefix([]byte(to), []byte("pipe:")):
			n++
		case to == "anon_inode:[eventpoll]", to == "anon_inode:[eventfd]":
			n++
		}
	}
	return n
}

func TestMain(m *testing.M) {
	// The runtime's own poller takes its descriptors at the first use.
	if ln, err := net.Listen("tcp", "127.0.0.1:0"); err == nil {
		ln.Close()
	}
	os.Exit(m.Run())
}

// peerConn is a client that sends and receives what the test says.
type peerConn struct {
	net.Conn
	t testing.TB
}

func (ts *testServer) dial(t testing.TB) *peerConn {
	t.Helper()
	nc, err := net.Dial("tcp", ts.addr)
	if err != nil {
		t.Fatal(err)
	}
	nc.SetDeadline(time.Now().Add(20 * time.Second))
	t.Cleanup(func() { nc.Close() })
	return &peerConn{nc, t}
}

func (p *peerConn) send(b []byte) {
	p.t.Helper()
	if _, err := p.Write(b); err != nil {
		p.t.Fatal(err)
	}
}

func (p *peerConn) recv() []byte {
	p.t.Helper()
	b, err := ReadRecord(p, maxReply)
	if err != nil {
		p.t.Fatal(err)
	}
	return b
}

// closed expects the server to close the connection, after nothing more than
// what is already expected.
func (p *peerConn) closed() {
	p.t.Helper()
	b, err := io.ReadAll(p)
	if len(b) > 0 {
		p.t.Fatalf("got %d bytes, want the connection closed", len(b))
	}
	if ne, ok := err.(net.Error); ok && ne.Timeout() {
		p.t.Fatal("the connection stays open")
	}
}

// alive checks that the connection still serves.
func (p *peerConn) alive() {
	p.t.Helper()
	p.send(record(0x600d, procNull))
	if got, want := p.recv(), success(0x600d); !bytes.Equal(got, want) {
		p.t.Fatalf("reply % x, want % x", got, want)
	}
}

// words is an Encodable of 32-bit words.
type words []uint32

func (w words) Encode(e *xdr.Encoder) {
	for _, v := range w {
		e.Uint32(v)
	}
}

type opaque []byte

func (o opaque) Encode(e *xdr.Encoder)  { e.Opaque(o) }
func (o *opaque) Decode(d *xdr.Decoder) { *o = bytes.Clone(d.Opaque(maxReply)) }

var root = &Cred{Flavor: FlavorSys, Machine: []byte("test"), Groups: []uint32{1, 2, 3}}

// record is a call of the test program with words for arguments.
func record(xid uint32, proc uint32, args ...uint32) []byte {
	return EncodeCall(nil, xid, testProg, testVers, proc, root, words(args))
}

func withOpaque(xid uint32, proc uint32, b []byte) []byte {
	return EncodeCall(nil, xid, testProg, testVers, proc, root, opaque(b))
}

// success is the reply with words for results, without its mark.
func success(xid uint32, results ...uint32) []byte {
	b := be(xid, 1, 0, 0, 0, 0)
	return append(b, be(results...)...)
}

func be(words ...uint32) (b []byte) {
	for _, w := range words {
		b = binary.BigEndian.AppendUint32(b, w)
	}
	return b
}

func xidOf(b []byte) uint32 { return binary.BigEndian.Uint32(b) }

// eventually waits for something that other threads bring about.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); time.Sleep(time.Millisecond) {
		if ok() {
			return
		}
	}
	t.Fatal("never happened: " + what)
}
