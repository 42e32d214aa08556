// The server that the tests call: the real namespace, file cache, data path,
// state and RPC server over a temporary directory, with a clock that stands
// still until told. A script of operations is sent as one COMPOUND, and what
// comes back is taken apart operation by operation.

package nfs4

import (
	"context"
	"crypto/rand"
	"fmt"
	"net"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"sluice/exports"
	"sluice/pkg/dataio"
	"sluice/pkg/filecache"
	"sluice/pkg/state"
	"sluice/pkg/trace"
	"sluice/pkg/vfs"
	"sluice/rpc"
	"sluice/test/testenv"
	"sluice/xdr"
	wire "sluice/xdr/nfs4"
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

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

type testServer struct {
	t      testing.TB
	dir    string
	addr   string
	svc    *Service
	st     *state.State
	cb     *Callbacks
	ns     *vfs.Namespace
	cache  *filecache.Cache
	engine *dataio.Engine
	modes  dataio.Modes
	rpc    *rpc.Server
	bus    trace.Bus
	clock  atomic.Int64
	inside chan func(*rpc.Call)
	ran    chan struct{}
}

// testLocal is a thread's state, as pkg/server composes it of the protocols'.
type testLocal struct {
	*Local
	fs *vfs.Thread
}

const testOptions = "rw,no_root_squash,insecure,async,fsid=0"

func startServer(t testing.TB, mod ...func(*state.Config)) *testServer {
	t.Helper()
	return startServerOn(t, t.TempDir(), mod...)
}

// startServerOn exports a directory on a file system of the test's choice.
func startServerOn(t testing.TB, dir string, mod ...func(*state.Config)) *testServer {
	t.Helper()
	return startService(t, dir, func(*Config) {}, mod...)
}

// startService has a service of the test's choice, too.
func startService(t testing.TB, dir string, service func(*Config), mod ...func(*state.Config)) *testServer {
	t.Helper()
	return startTable(t, dir, fmt.Sprintf("%s *(%s)\n", exports.Quote(dir), testOptions), service, mod...)
}

// startTable has exports of the test's choice, too, in or below dir.
func startTable(t testing.TB, dir, table string, service func(*Config), mod ...func(*state.Config)) *testServer {
	t.Helper()
	if os.Geteuid() != 0 {
		testenv.Skip(t, "not root: the server needs root to act as its callers")
	}
	must(t, os.Chmod(dir, 0o777))
	s := &testServer{t: t, dir: dir, inside: make(chan func(*rpc.Call), 1), ran: make(chan struct{}, 1)}
	s.clock.Store(int64(time.Hour))
	log := zerolog.New(os.Stderr).Level(zerolog.ErrorLevel)
	set, _, err := exports.Parse("exports", []byte(table))
	must(t, err)
	s.cache = filecache.New(filecache.Config{Budget: 512, Trace: &s.bus})
	s.engine, err = dataio.New(dataio.Config{Cache: s.cache, Trace: &s.bus, Pipes: 16})
	must(t, err)
	s.cb = NewCallbacks(log)
	cfg := state.Config{Lease: 90 * time.Second, Now: s.clock.Load, Callbacks: s.cb}
	for _, f := range mod {
		f(&cfg)
	}
	s.st, err = state.New(cfg)
	must(t, err)
	s.cb.Attach(s.st)
	var key vfs.HandleKey
	rand.Read(key[:]) //nolint:errcheck // never fails
	s.ns, err = vfs.New(vfs.Config{Exports: set, HandleKey: key, Cache: s.cache, Engine: s.engine,
		Modes: &s.modes, Trace: &s.bus, Log: log, DirPref: 1 << 20, Guard: s.st})
	must(t, err)
	svc := Config{Namespace: s.ns, State: s.st, Log: log, Callbacks: s.cb, ServerOwner: []byte("owner"), Scope: []byte("scope")}
	service(&svc)
	s.svc = New(svc)
	programs := append(s.svc.Programs(), rpc.Program{Prog: progInside, Name: "INSIDE", Versions: []rpc.Version{{Vers: 1,
		Procs: []rpc.Proc{{Name: "NULL"}, {Name: "RUN", Slow: true, Run: func(c *rpc.Call) rpc.Verdict {
			f := <-s.inside
			f(c)
			s.ran <- struct{}{}
			return rpc.Done
		}}}}}})
	s.rpc, err = rpc.NewServer(rpc.Config{Programs: programs, Threads: 2, SlowThreads: 8, Log: log,
		NewLocal: func() any {
			fs, err := s.ns.NewThread()
			if err != nil {
				panic(err)
			}
			return &testLocal{s.svc.NewLocal(fs), fs}
		},
		CloseLocal: func(l any) { l.(*testLocal).fs.Close() },
		OnConnect: func(c *rpc.Conn) {
			c.Data = new(vfs.ClientMemo)
			s.cb.Connect(c)
		},
		OnDisconnect: s.cb.Disconnect})
	must(t, err)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	s.addr = ln.Addr().String()
	done := make(chan error, 1)
	go func() { done <- s.rpc.Serve(ln.(*net.TCPListener)) }()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := s.rpc.Shutdown(ctx); err != nil {
			t.Errorf("Shutdown: %v", err)
		}
		<-done
		s.svc.Close()
		s.cb.Close()
		s.st.Close() //nolint:errcheck // nothing is stored
		s.ns.Close()
		if err := s.engine.Close(); err != nil {
			t.Errorf("closing the data path: %v", err)
		}
		s.cache.Close()
	})
	return s
}

// run runs f inside a procedure.
func (s *testServer) run(c *conn, f func(*rpc.Call)) {
	s.t.Helper()
	s.inside <- f
	if err := c.Call(progInside, 1, procInside, &c.cred, nil, nil); err != nil {
		s.t.Fatal(err)
	}
	<-s.ran
}

// conn is a client's connection.
type conn struct {
	*rpc.Client
	s     *testServer
	nc    net.Conn
	cred  rpc.Cred
	minor uint32
	tag   []byte
}

func (s *testServer) conn() *conn {
	s.t.Helper()
	nc, err := net.DialTimeout("tcp", s.addr, 5*time.Second)
	must(s.t, err)
	c := rpc.NewClient(nc)
	c.Timeout = 60 * time.Second
	s.t.Cleanup(func() { c.Close() })
	return &conn{Client: c, s: s, nc: nc, cred: rpc.Cred{Flavor: rpc.FlavorSys, Machine: []byte("test")}, tag: []byte("tag")}
}

// op is one operation of a script.
type op struct {
	num  wire.NfsOpnum4
	args rpc.Encodable // nil: none
}

type rawArgs []byte

func (r rawArgs) Encode(e *xdr.Encoder) { e.Fixed(r) }

// script is the encoded arguments of a COMPOUND.
type script struct {
	minor uint32
	tag   []byte
	ops   []op
}

func (s *script) Encode(e *xdr.Encoder) {
	h := wire.COMPOUND4args{Tag: s.tag, Minorversion: s.minor, Argarray: len(s.ops)}
	h.Encode(e)
	for _, o := range s.ops {
		e.Uint32(uint32(o.num))
		if o.args != nil {
			o.args.Encode(e)
		}
	}
}

// results is a COMPOUND's answer.
type results struct {
	status wire.Nfsstat4
	tag    []byte
	n      int
	d      xdr.Decoder // at the first result
	raw    []byte
}

func (r *results) Decode(d *xdr.Decoder) {
	var h wire.COMPOUND4res
	h.Decode(d)
	r.status, r.tag, r.n = h.Status, append([]byte(nil), h.Tag...), h.Resarray
	n := d.Len()
	r.raw = append([]byte(nil), d.Next(n)[:n]...)
	r.d.Reset(r.raw)
}

// next takes the next result: res is the operation's, nil for one that is only a status.
func (r *results) next(t testing.TB, num wire.NfsOpnum4, want wire.Nfsstat4, res rpc.Decodable) {
	t.Helper()
	got := wire.NfsOpnum4(r.d.Int32())
	peek := r.d
	st := wire.Nfsstat4(peek.Int32())
	if r.d.Err() != nil || got != num || st != want {
		t.Fatalf("%v: got %v %v, want %v (COMPOUND %v, %d results)", num, got, st, want, r.status, r.n)
	}
	if res == nil {
		r.d.Int32()
		return
	}
	res.Decode(&r.d)
	if r.d.Err() != nil {
		t.Fatalf("%v: the result does not decode", num)
	}
}

// compound sends operations and returns the answer.
func (c *conn) compound(ops ...op) *results {
	c.s.t.Helper()
	r := new(results)
	if err := c.Call(wire.NFS4_PROGRAM, wire.NFS_V4, wire.NFSPROC4_COMPOUND, &c.cred, &script{c.minor, c.tag, ops}, r); err != nil {
		c.s.t.Fatal(err)
	}
	return r
}

// session is a 4.1 client's session on a connection.
type session struct {
	*conn
	clientid uint64
	id       wire.Sessionid4
	seq      uint32
	cache    bool
	lives    uint8 // how often the client has begun anew
	fore     wire.ChannelAttrs4
}

var testChannel = wire.ChannelAttrs4{CaMaxrequestsize: 1 << 20, CaMaxresponsesize: 1 << 20, CaMaxresponsesizeCached: 4096, CaMaxoperations: 16, CaMaxrequests: 8}

// session makes a client of that name and its session. A client of 4.0 has none, and its COMPOUNDs no SEQUENCE.
func (s *testServer) session(minor uint32, name string) *session {
	s.t.Helper()
	if minor == 0 {
		c := s.client40(name, 1)
		return &session{conn: c.conn, clientid: c.clientid}
	}
	x := &session{conn: s.conn()}
	x.minor = minor
	x.start(name)
	return x
}

// start makes client and session.
func (x *session) start(name string) {
	t := x.s.t
	t.Helper()
	x.lives++
	r := x.conn.compound(op{wire.OP_EXCHANGE_ID, &wire.EXCHANGEID4args{EiaClientowner: wire.ClientOwner4{CoVerifier: wire.Verifier4{x.lives}, CoOwnerid: []byte(name)}}})
	var eid wire.EXCHANGEID4res
	r.next(t, wire.OP_EXCHANGE_ID, ok, &eid)
	x.clientid = eid.EirResok4.EirClientid
	r = x.conn.compound(op{wire.OP_CREATE_SESSION, &wire.CREATESESSION4args{CsaClientid: x.clientid, CsaSequence: eid.EirResok4.EirSequenceid,
		CsaFlags: wire.CREATE_SESSION4_FLAG_CONN_BACK_CHAN, CsaCbProgram: 0x40000000,
		CsaForeChanAttrs: testChannel, CsaBackChanAttrs: testChannel, CsaSecParms: []wire.CallbackSecParms4{{}}}})
	var cs wire.CREATESESSION4res
	r.next(t, wire.OP_CREATE_SESSION, ok, &cs)
	x.id, x.fore = cs.CsrResok4.CsrSessionid, cs.CsrResok4.CsrForeChanAttrs
	r = x.compound(op{wire.OP_RECLAIM_COMPLETE, &wire.RECLAIMCOMPLETE4args{}})
	if r.status != ok && r.status != wire.NFS4ERR_COMPLETE_ALREADY { // the client may have had another session
		t.Fatalf("RECLAIM_COMPLETE: %v", r.status)
	}
}

// sequence is the SEQUENCE to begin the next COMPOUND with.
func (x *session) sequence() op {
	return op{wire.OP_SEQUENCE, &wire.SEQUENCE4args{SaSessionid: x.id, SaSequenceid: x.seq, SaCachethis: x.cache}}
}

// compound sends operations after a SEQUENCE, whose result it takes.
func (x *session) compound(ops ...op) *results {
	x.s.t.Helper()
	if x.minor == 0 {
		return x.conn.compound(ops...)
	}
	x.seq++
	r := x.conn.compound(append([]op{x.sequence()}, ops...)...)
	var res wire.SEQUENCE4res
	r.next(x.s.t, wire.OP_SEQUENCE, ok, &res)
	return r
}

// tooManyOps has a COMPOUND of one operation more than the session allows refused, which takes no sequence id. It returns
// as many PUTROOTFHs as are allowed.
func (x *session) tooManyOps() (many []op) {
	x.s.t.Helper()
	for range int(x.fore.CaMaxoperations) {
		many = append(many, root())
	}
	x.seq++
	x.conn.compound(append([]op{x.sequence()}, many...)...).next(x.s.t, wire.OP_SEQUENCE, wire.NFS4ERR_TOO_MANY_OPS, nil)
	x.seq--
	return many
}

func putfh(fh []byte) op    { return op{wire.OP_PUTFH, &wire.PUTFH4args{Object: fh}} }
func root() op              { return op{wire.OP_PUTROOTFH, nil} }
func lookup(name string) op { return op{wire.OP_LOOKUP, &wire.LOOKUP4args{Objname: []byte(name)}} }
func getfh() op             { return op{wire.OP_GETFH, nil} }
func getattr(numbers ...int) op {
	return op{wire.OP_GETATTR, &wire.GETATTR4args{AttrRequest: wire.Bits(numbers...)}}
}
func remove(name string) op { return op{wire.OP_REMOVE, &wire.REMOVE4args{Target: []byte(name)}} }
func read(sid wire.Stateid4, off uint64, n uint32) op {
	return op{wire.OP_READ, &wire.READ4args{Stateid: sid, Offset: off, Count: n}}
}
func write(sid wire.Stateid4, off uint64, data string) op {
	return op{wire.OP_WRITE, &wire.WRITE4args{Stateid: sid, Offset: off, Stable: wire.FILE_SYNC4, Data: []byte(data)}}
}

// fattr encodes attributes to be set.
func fattr(set func(e *xdr.Encoder), numbers ...int) wire.Fattr4 {
	var e xdr.Encoder
	if set != nil {
		set(&e)
	}
	return wire.Fattr4{Attrmask: wire.Bits(numbers...), AttrVals: e.Bytes()}
}

func mode(m uint32) wire.Fattr4 {
	return fattr(func(e *xdr.Encoder) { e.Uint32(m) }, wire.FATTR4_MODE)
}

// openArgs opens or makes a name, as the given owner.
func openArgs(owner string, seqid uint32, clientid uint64, name string, access, deny uint32, create bool) *wire.OPEN4args {
	a := &wire.OPEN4args{Seqid: seqid, ShareAccess: access, ShareDeny: deny, Owner: wire.StateOwner4{Clientid: clientid, Owner: []byte(owner)}}
	a.Claim = wire.OpenClaim4{Claim: wire.CLAIM_NULL, File: []byte(name)}
	if create {
		a.Openhow = wire.Openflag4{Opentype: wire.OPEN4_CREATE, How: wire.Createhow4{Mode: wire.UNCHECKED4, Createattrs: mode(0o644)}}
	}
	return a
}
