// The server that the tests call: the real namespace, file cache, data path
// and RPC server over a temporary directory, wired as pkg/server does it.
//
// One program beside NFS and MOUNT lets a test run code inside a procedure, on
// a service thread with a connection: that is where allocations are counted
// and random arguments are fed in.

package nfs3

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"sluice/exports"
	"sluice/pkg/dataio"
	"sluice/pkg/filecache"
	"sluice/pkg/trace"
	"sluice/pkg/vfs"
	"sluice/rpc"
	"sluice/test/nfscall"
	"sluice/test/testenv"
)

func TestMain(m *testing.M) {
	for _, a := range os.Args {
		if a == "-test.fuzzworker" { // started by a test run that is in the namespaces already
			os.Exit(m.Run())
		}
	}
	os.Exit(testenv.Main(m, nil))
}

const (
	progInside = 0x20000001
	procInside = 1
)

type testServer struct {
	dir    string
	addr   string
	svc    *Service
	ns     *vfs.Namespace
	cache  *filecache.Cache
	engine *dataio.Engine
	rpc    *rpc.Server
	bus    trace.Bus
	log    logBuffer
	listed atomic.Pointer[exports.Set] // what MOUNT's EXPORT lists
	inside chan func(*rpc.Call)
	ran    chan struct{}
}

// logBuffer collects what is logged.
type logBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// startServer serves a new directory to everyone with the given options.
func startServer(t testing.TB, options string, mod ...func(*vfs.Config)) *testServer {
	t.Helper()
	dir := t.TempDir()
	return serveExports(t, dir, fmt.Sprintf("%s *(%s)\n", exports.Quote(dir), options), mod...)
}

// serveExports serves an exports table; dir is remembered for the test's use.
func serveExports(t testing.TB, dir, table string, mod ...func(*vfs.Config)) *testServer {
	t.Helper()
	if os.Geteuid() != 0 {
		testenv.Skip(t, "not root: the server needs root to act as its callers")
	}
	s := &testServer{dir: dir, inside: make(chan func(*rpc.Call), 1), ran: make(chan struct{}, 1)}
	log := zerolog.New(&s.log)
	set, _, err := exports.Parse("exports", []byte(table))
	nfscall.Must(t, err)
	s.listed.Store(set)

	s.cache = filecache.New(filecache.Config{Budget: 512, Trace: &s.bus})
	s.engine, err = dataio.New(dataio.Config{Cache: s.cache, Trace: &s.bus, Pipes: 16})
	nfscall.Must(t, err)
	var key vfs.HandleKey
	rand.Read(key[:]) //nolint:errcheck // never fails
	cfg := vfs.Config{Exports: set, HandleKey: key, Cache: s.cache, Engine: s.engine,
		Modes: &dataio.Modes{}, Trace: &s.bus, Log: log, DirPref: 1 << 20}
	for _, m := range mod {
		m(&cfg)
	}
	s.ns, err = vfs.New(cfg)
	nfscall.Must(t, err)
	s.svc = New(Config{Namespace: s.ns, Exports: s.listed.Load, Log: log, Trace: &s.bus})
	programs := append(s.svc.Programs(), rpc.Program{Prog: progInside, Name: "INSIDE", Versions: []rpc.Version{{Vers: 1,
		Procs: []rpc.Proc{{Name: "NULL"}, {Name: "RUN", Run: func(c *rpc.Call) rpc.Verdict {
			f := <-s.inside
			f(c)
			s.ran <- struct{}{}
			return rpc.Done
		}}}}}})
	s.rpc, err = rpc.NewServer(rpc.Config{Programs: programs, Threads: 2, SlowThreads: 8,
		NewLocal: s.svc.NewLocal, CloseLocal: s.svc.CloseLocal, OnConnect: s.svc.Connect, Log: log})
	nfscall.Must(t, err)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	nfscall.Must(t, err)
	s.addr = ln.Addr().String()
	done := make(chan error, 1)
	go func() { done <- s.rpc.Serve(ln.(*net.TCPListener)) }()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := s.rpc.Shutdown(ctx); err != nil {
			t.Errorf("Shutdown: %v", err)
		}
		if err := <-done; err != nil {
			t.Errorf("Serve: %v", err)
		}
		s.noLeaks(t)
		s.ns.Close()
		if err := s.engine.Close(); err != nil {
			t.Errorf("closing the data path: %v", err)
		}
		s.cache.Close()
	})
	return s
}

// client connects as root.
func (s *testServer) client(t testing.TB) *nfscall.Client {
	return nfscall.Dial(t, s.addr, nfscall.Root())
}

// run runs f inside a procedure, on a service thread.
func (s *testServer) run(t testing.TB, c *nfscall.Client, f func(*rpc.Call)) {
	t.Helper()
	s.inside <- f
	if err := c.Call(progInside, 1, procInside, &c.Cred, nil, nil); err != nil {
		t.Fatal(err)
	}
	<-s.ran
}

// proc returns the function of an NFS procedure.
func (s *testServer) proc(n uint32) func(*rpc.Call) rpc.Verdict {
	return s.svc.Programs()[0].Versions[0].Procs[n].Run
}

// sink is where runOn sends data. One procedure at a time runs in a test.
var sink [1 << 20]byte

// runOn runs a procedure on a call that a service thread has at hand, and drops
// the reply once its data has been taken, as if it had been sent.
func runOn(c *rpc.Call, run func(*rpc.Call) rpc.Verdict, args []byte) (rpc.Verdict, int) {
	m := c.Reply.Mark()
	c.Args.Reset(args)
	v := run(c)
	n := c.Reply.Len()
	for _, s := range c.Reply.Segments() {
		s.P.ReadAll(sink[:]) //nolint:errcheck // what was lost shows elsewhere
	}
	c.Reply.Rollback(m)
	return v, n
}

// noLeaks fails the test when a finished server still holds what calls use.
func (s *testServer) noLeaks(t testing.TB) {
	t.Helper()
	if st := s.cache.Stats(); st.Acquisitions != st.Releases {
		t.Errorf("file cache: %d acquisitions, %d releases", st.Acquisitions, st.Releases)
	}
}
