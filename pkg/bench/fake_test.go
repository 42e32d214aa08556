// Plan of this file: a server that answers as it is told to. It knows enough of
// NFSv3 and MOUNT for a Bench to be opened; what READ, WRITE and COMMIT get is
// each test's own.

package bench

import (
	"context"
	"encoding/binary"
	"errors"
	"net"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"sluice/pkg/portmap"
	"sluice/rpc"
	"sluice/test/testenv"
	"sluice/xdr"
	"sluice/xdr/mount3"
	wire3 "sluice/xdr/nfs3"
)

// fake is the server. Each connection is served by a goroutine, call by call.
type fake struct {
	ln net.Listener
	wg sync.WaitGroup
	// io answers READ, WRITE and COMMIT: the records to be sent, marks included.
	// nil closes the connection.
	io      func(c *fakeCall) []byte
	wtmax   uint32
	mnt     mount3.Mountstat3
	denied  bool
	noMount bool
	removed atomic.Int32
	calls   atomic.Int32 // of io
}

// fakeCall is a call of READ, WRITE or COMMIT.
type fakeCall struct {
	xid, proc, count uint32
	off              uint64
	file             int
	n                int32 // counts the calls from 1
}

func newFake(t *testing.T, io func(c *fakeCall) []byte) *fake {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	f := &fake{ln: ln, io: io, wtmax: 1 << 20}
	f.wg.Go(func() {
		for {
			nc, err := ln.Accept()
			if err != nil {
				return
			}
			f.wg.Go(func() {
				defer nc.Close()
				f.serve(nc)
			})
		}
	})
	t.Cleanup(func() { ln.Close(); f.wg.Wait() })
	return f
}

func (f *fake) options(w Workload) Options {
	if w.MaxBytes == 0 && w.Seconds == 0 {
		w.MaxBytes = 64 << 10
	}
	def(&w.BlockSize, 4096)
	def(&w.FileBytes, 64<<10)
	def(&w.Depth, 4)
	return Options{Server: f.ln.Addr().String(), Path: "/x", Workload: w, Existing: "f"}
}

func (f *fake) serve(nc net.Conn) {
	for {
		rec, err := rpc.ReadRecord(nc, 2<<20)
		if err != nil {
			return
		}
		var d xdr.Decoder
		d.Reset(rec)
		xid := d.Uint32()
		d.Next(8)
		prog := d.Uint32()
		d.Uint32()
		proc := d.Uint32()
		for range 2 {
			d.Uint32()
			d.Opaque(rpc.MaxAuthBytes)
		}
		out := f.answer(xid, prog, proc, &d)
		if out == nil {
			return
		}
		if _, err := nc.Write(out); err != nil {
			return
		}
	}
}

// reply is a successful record around results.
func reply(xid uint32, results ...func(e *xdr.Encoder)) []byte {
	var e xdr.Encoder
	for _, v := range []uint32{0, xid, 1, 0, 0, 0, 0} {
		e.Uint32(v)
	}
	for _, r := range results {
		r(&e)
	}
	b := e.Bytes()
	binary.BigEndian.PutUint32(b, lastFragment|uint32(len(b)-4))
	return b
}

func words(list ...uint32) func(e *xdr.Encoder) {
	return func(e *xdr.Encoder) {
		for _, v := range list {
			e.Uint32(v)
		}
	}
}

func (f *fake) answer(xid, prog, proc uint32, d *xdr.Decoder) []byte {
	if f.denied && proc != 0 {
		b := reply(xid, words())
		copy(b[8:], "\x00\x00\x00\x01\x00\x00\x00\x01\x00\x00\x00\x01\x00\x00\x00\x05") // denied, AUTH_ERROR, AUTH_TOOWEAK
		return b
	}
	handle := func(name string) func(e *xdr.Encoder) { return func(e *xdr.Encoder) { e.Opaque([]byte(name)) } }
	switch {
	case prog == mount3.MOUNT_PROGRAM && f.noMount:
		b := reply(xid)
		b[27] = 1 // PROG_UNAVAIL
		return b
	case proc == 0:
		return reply(xid)
	case prog == mount3.MOUNT_PROGRAM && f.mnt != 0:
		return reply(xid, words(uint32(f.mnt)))
	case prog == mount3.MOUNT_PROGRAM:
		return reply(xid, words(0), handle("dir "), words(0))
	}
	switch proc {
	case wire3.NFSPROC3_FSINFO:
		return reply(xid, func(e *xdr.Encoder) {
			(&wire3.FSINFO3res{Resok: wire3.FSINFO3resok{Rtmax: 1 << 20, Wtmax: f.wtmax}}).Encode(e)
		})
	case wire3.NFSPROC3_LOOKUP, wire3.NFSPROC3_CREATE:
		d.Opaque(64)
		name := string(d.Opaque(255))
		if proc == wire3.NFSPROC3_CREATE {
			return reply(xid, words(0, 1), handle(name), words(0, 0, 0))
		}
		return reply(xid, words(0), handle(name), words(0, 0))
	case wire3.NFSPROC3_GETATTR:
		return reply(xid, func(e *xdr.Encoder) {
			(&wire3.GETATTR3res{Resok: wire3.GETATTR3resok{ObjAttributes: wire3.Fattr3{Type: wire3.NF3REG, Size: 1 << 30}}}).Encode(e)
		})
	case wire3.NFSPROC3_REMOVE:
		f.removed.Add(1)
		return reply(xid, words(0, 0, 0))
	case wire3.NFSPROC3_READ, wire3.NFSPROC3_WRITE, wire3.NFSPROC3_COMMIT:
		c := &fakeCall{xid: xid, proc: proc, n: f.calls.Add(1)}
		name := d.Opaque(64)
		c.file = int(name[len(name)-1] - '0')
		c.off, c.count = d.Uint64(), d.Uint32()
		return f.io(c)
	}
	return nil
}

// read is the right answer to a READ; attributes says whether they are sent.
func (c *fakeCall) read(attributes bool) []byte {
	return c.readOf(attributes, PatternAt(c.file, int64(c.off), int(c.count)))
}

func (c *fakeCall) readOf(attributes bool, data []byte) []byte {
	return reply(c.xid, words(0), func(e *xdr.Encoder) {
		e.Bool(attributes)
		if attributes {
			e.Next(84)
		}
	}, words(uint32(len(data)), 0), func(e *xdr.Encoder) { e.Opaque(data) })
}

func (c *fakeCall) wrote(count, level uint32, verf byte) []byte {
	return reply(c.xid, words(0, 0, 0, count, level, uint32(verf), 0))
}

func (c *fakeCall) committed(verf byte) []byte { return reply(c.xid, words(0, 0, 0, uint32(verf), 0)) }

// good serves all calls as they should be.
func good(c *fakeCall) []byte {
	switch c.proc {
	case wire3.NFSPROC3_READ:
		return c.read(c.n%2 == 0)
	case wire3.NFSPROC3_WRITE:
		return c.wrote(c.count, 0, 1)
	}
	return c.committed(1)
}

// fragments cuts a record into fragments of n bytes.
func fragments(rec []byte, n int) []byte {
	var out []byte
	for p := rec[4:]; len(p) > 0; {
		k := min(n, len(p))
		mark := uint32(k)
		if k == len(p) {
			mark |= lastFragment
		}
		out = append(binary.BigEndian.AppendUint32(out, mark), p[:k]...)
		p = p[k:]
	}
	return out
}

// TestAnswers: what is wrong with one answer of many is said once, and counted.
func TestAnswers(t *testing.T) {
	const calls = 16
	third := func(wrong func(c *fakeCall) []byte) func(c *fakeCall) []byte {
		return func(c *fakeCall) []byte {
			if c.n == 3 {
				return wrong(c)
			}
			return good(c)
		}
	}
	status := func(st wire3.Nfsstat3) func(c *fakeCall) []byte {
		return third(func(c *fakeCall) []byte { return reply(c.xid, words(uint32(st), 0, 0)) })
	}
	for name, tc := range map[string]struct {
		w    Workload
		io   func(c *fakeCall) []byte
		want string // of FirstError; "": none
	}{
		"all is well":            {Workload{Verify: true}, good, ""},
		"in fragments":           {Workload{Verify: true}, func(c *fakeCall) []byte { return fragments(good(c), 61) }, ""},
		"in fragments, unlooked": {Workload{BlockSize: 32 << 10, MaxBytes: calls << 15, FileBytes: 1 << 20}, func(c *fakeCall) []byte { return fragments(good(c), 999) }, ""},
		"byte by byte":           {Workload{Verify: true}, func(c *fakeCall) []byte { return fragments(good(c), 1) }, ""},
		"short data":             {Workload{}, third(func(c *fakeCall) []byte { return c.readOf(true, make([]byte, 4095)) }), "4095 bytes came"},
		"no data":                {Workload{}, third(func(c *fakeCall) []byte { return c.readOf(false, nil) }), "0 bytes came"},
		"too much data":          {Workload{}, third(func(c *fakeCall) []byte { return c.readOf(true, make([]byte, 5000)) }), "5000 bytes came"},
		"wrong data": {Workload{Verify: true}, third(func(c *fakeCall) []byte {
			data := clone(PatternAt(c.file, int64(c.off), int(c.count)))
			data[4000]++
			return c.readOf(true, data)
		}), "wrong data"},
		"data of the wrong place": {Workload{Verify: true}, third(func(c *fakeCall) []byte { c.off += 4096; return c.read(true) }), "wrong data"},
		"data of the wrong file":  {Workload{Verify: true}, third(func(c *fakeCall) []byte { c.file++; return c.read(true) }), "wrong data"},
		"an error":                {Workload{}, status(wire3.NFS3ERR_IO), "READ: NFS3ERR_IO"},
		"a count that lies": {Workload{}, third(func(c *fakeCall) []byte {
			return reply(c.xid, words(0, 0, 4096, 0), func(e *xdr.Encoder) { e.Opaque(make([]byte, 10)) })
		}), "says that it brings 4096 bytes, and brings 10"},
		"a system error": {Workload{}, third(func(c *fakeCall) []byte {
			b := good(c)
			b[27] = 5
			return b
		}), "accept_stat 5"},
		"no results":          {Workload{}, third(func(c *fakeCall) []byte { return reply(c.xid) }), "can't be decoded"},
		"write, all is well":  {Workload{Op: "write"}, good, ""},
		"a write to no space": {Workload{Op: "write"}, status(wire3.NFS3ERR_NOSPC), "WRITE: NFS3ERR_NOSPC"},
		"a short write":       {Workload{Op: "write"}, third(func(c *fakeCall) []byte { return c.wrote(4000, 0, 1) }), "4000 bytes were taken"},
		"another verifier":    {Workload{Op: "write"}, third(func(c *fakeCall) []byte { return c.wrote(c.count, 0, 2) }), "the write verifier has changed"},
		"less than was asked": {Workload{Op: "write", Stable: "file_sync"}, third(func(c *fakeCall) []byte { return c.wrote(c.count, 1, 1) }), "stability 1, asked for 2"},
		"a COMMIT that failed": {Workload{Op: "write"}, func(c *fakeCall) []byte {
			if c.proc == wire3.NFSPROC3_COMMIT {
				return reply(c.xid, words(uint32(wire3.NFS3ERR_IO), 0, 0))
			}
			return good(c)
		}, "COMMIT: NFS3ERR_IO"},
		"a COMMIT with another verifier": {Workload{Op: "write"}, func(c *fakeCall) []byte {
			if c.proc == wire3.NFSPROC3_COMMIT {
				return c.committed(9)
			}
			return good(c)
		}, "the write verifier has changed"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFake(t, tc.io)
			if tc.w.Stable == "file_sync" {
				f.io = func(c *fakeCall) []byte {
					if c.n == 3 {
						return tc.io(c)
					}
					return c.wrote(c.count, 2, 1)
				}
			}
			o := f.options(tc.w)
			r, w := measure(t, o)
			if want := uint64(min(len(tc.want), 1)); r.Errors < want || want == 0 && r.Errors > 0 || !strings.Contains(r.FirstError, tc.want) {
				t.Errorf("%d errors, the first %q, want %q", r.Errors, r.FirstError, tc.want)
			}
			if strings.Contains(name, "COMMIT") {
				return
			}
			if want := uint64(w.MaxBytes) / uint64(w.BlockSize); r.Ops+r.Errors < want || r.Ops < want-2 {
				t.Errorf("%d calls and %d errors of %d", r.Ops, r.Errors, want)
			}
		})
	}
}

// TestLater: an answer that asks for time is obeyed, and is no error.
func TestLater(t *testing.T) {
	f := newFake(t, func(c *fakeCall) []byte {
		if c.n <= 3 {
			return reply(c.xid, words(uint32(wire3.NFS3ERR_JUKEBOX), 0))
		}
		return good(c)
	})
	r, _ := measure(t, f.options(Workload{}))
	if r.Errors != 0 || r.Retries != 3 || r.Ops != 16 || r.Reads.Latency.MaxNS < int64(laterWait) {
		t.Errorf("%d errors, %d retries, %d calls, at most %d ns", r.Errors, r.Retries, r.Ops, r.Reads.Latency.MaxNS)
	}
}

// TestConnectionsThatBreak: a run ends with an error that says why.
func TestConnectionsThatBreak(t *testing.T) {
	for name, tc := range map[string]struct {
		io   func(c *fakeCall) []byte
		want string
	}{
		"closed":          {func(c *fakeCall) []byte { return nil }, "closed the connection"},
		"a wrong xid":     {func(c *fakeCall) []byte { c.xid ^= 1 << 20; return c.read(true) }, "which is not under way"},
		"an answer twice": {func(c *fakeCall) []byte { return append(c.read(true), c.read(true)...) }, "which is not under way"},
		"no reply": {func(c *fakeCall) []byte {
			b := c.read(true)
			b[11] = 0
			return b
		}, "no reply"},
		"too long": {func(c *fakeCall) []byte { return []byte("\x80\xff\xff\xff\x00\x00\x00\x00") }, "a reply of more than"},
		"cut off": {func(c *fakeCall) []byte {
			b := c.read(false)[:200]
			binary.BigEndian.PutUint32(b, lastFragment|196)
			return b
		}, "before its data"},
		"nothing":           {func(c *fakeCall) []byte { return []byte{0x80, 0, 0, 0} }, "a reply of 0 bytes"},
		"errors throughout": {func(c *fakeCall) []byte { return reply(c.xid, words(uint32(wire3.NFS3ERR_IO), 0)) }, "1000 calls have failed"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFake(t, tc.io)
			for _, bs := range []int{4096, 32 << 10} {
				b, err := Open(t.Context(), f.options(Workload{BlockSize: bs, Seconds: 60, Depth: 1}))
				if err != nil {
					t.Fatal(err)
				}
				_, err = b.Run(t.Context())
				if err == nil || !strings.Contains(err.Error(), tc.want) && !strings.HasPrefix(tc.want, "1000") || !strings.Contains(err.Error(), "127.0.0.1:") {
					t.Errorf("%v, want %q", err, tc.want)
				}
				if err := b.Close(); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

// TestWhatCannotBeOpened: errors name the server, the thing and the remedy.
func TestWhatCannotBeOpened(t *testing.T) {
	f := newFake(t, good)
	gone := newFake(t, good)
	gone.ln.Close()
	for name, tc := range map[string]struct {
		change func(f *fake, o *Options)
		want   []string
	}{
		"no server":     {func(_ *fake, o *Options) { o.Server = gone.ln.Addr().String() }, []string{gone.ln.Addr().String(), "connection refused", "start it"}},
		"not exported":  {func(f *fake, o *Options) { f.mnt = mount3.MNT3ERR_NOENT }, []string{"mounting /x from 127.0.0.1", "MNT3ERR_NOENT", "--path"}},
		"not to us":     {func(f *fake, o *Options) { f.mnt = mount3.MNT3ERR_ACCES }, []string{"MNT3ERR_ACCES", "below 1024", "root"}},
		"secure":        {func(f *fake, o *Options) { f.denied = true }, []string{"refused the credentials", "below 1024", "insecure"}},
		"block too big": {func(f *fake, o *Options) { f.wtmax = 2048; o.Workload.Op = "write" }, []string{"--bs", "2 KiB", "4 KiB"}},
		"a short file":  {func(f *fake, o *Options) { o.Workload.FileBytes = 2 << 30 }, []string{"f00000 has 1073741824 bytes", "2147483648"}},
		"no path":       {func(f *fake, o *Options) { o.Path = "" }, []string{"--path"}},
		"a bad port":    {func(f *fake, o *Options) { o.Server = "h:99999" }, []string{"99999", "65535"}},
		"many groups":   {func(f *fake, o *Options) { o.Groups = make([]uint32, 17) }, []string{"--groups", "16"}},
	} {
		f.mnt, f.denied, f.wtmax = 0, false, 1<<20
		o := f.options(Workload{})
		tc.change(f, &o)
		_, err := Open(t.Context(), o)
		for _, want := range tc.want {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v, want %q", name, err, want)
			}
		}
	}
}

// TestSilence: a server that does not answer can be left by ending the context,
// and the goroutines are gone then.
func TestSilence(t *testing.T) {
	f := newFake(t, func(c *fakeCall) []byte { return []byte{} })
	before := runtime.NumGoroutine()
	b, err := Open(t.Context(), f.options(Workload{Seconds: 60}))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if _, err := b.Run(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v", err)
	}
	if err := b.Close(); err != nil {
		t.Error(err)
	}
	for end := time.Now().Add(10 * time.Second); runtime.NumGoroutine() > before+1 && time.Now().Before(end); {
		time.Sleep(10 * time.Millisecond)
	}
	if n := runtime.NumGoroutine(); n > before+1 {
		t.Errorf("%d goroutines, %d before", n, before)
	}
}

// TestNoAllocation: a call and its answer allocate nothing.
func TestNoAllocation(t *testing.T) {
	f := newFake(t, good)
	for _, op := range []string{"read", "write"} {
		b, err := Open(t.Context(), f.options(Workload{Op: op, Depth: 1, Verify: op == "read"}))
		if err != nil {
			t.Fatal(err)
		}
		defer b.Close()
		p := &phase{ctx: t.Context(), w: &b.w, files: b.files, until: 1 << 62, interval: seconds(60), templates: make([][kinds]*template, 1)}
		for k := range kinds {
			p.templates[0][k] = b.cl.template(k, &b.files[0], 0)
		}
		p.base = time.Now()
		l, c := newLoop(p), b.conns[0]
		l.conns = []*conn{c}
		w := b.w
		w.MaxBytes = 0 // without end
		c.slots[0] = slot{job: newJob(&w, 0)}
		l.advance(c, 0)
		rec := new(recorder)
		if n := testing.AllocsPerRun(1000, func() {
			c.out, c.cuts = c.out[:0], c.cuts[:0]
			rec.answer(&c.slots[0].step, c.slots[0].xid)
			if err := l.consume(c, rec.buf); err != nil {
				t.Fatal(err)
			}
		}); n != 0 || l.errs > 0 || l.flying != 1 {
			t.Errorf("%s: %v allocations, %d errors (%v), %d calls under way", op, n, l.errs, l.firstErr, l.flying)
		}
	}
}

// recorder makes answers in a buffer of its own.
type recorder struct{ buf []byte }

func (r *recorder) answer(s *step, xid uint32) {
	b := binary.BigEndian.AppendUint32(r.buf[:0], 0)
	for _, v := range []uint32{xid, 1, 0, 0, 0, 0, 0} {
		b = binary.BigEndian.AppendUint32(b, v)
	}
	b = append(b, 0, 0, 0, 0) // no attributes
	switch s.kind {
	case kindRead:
		for _, v := range []uint32{uint32(s.length), 0, uint32(s.length)} {
			b = binary.BigEndian.AppendUint32(b, v)
		}
		b = append(b, PatternAt(s.file, s.off, s.length)...)
	case kindWrite:
		for _, v := range []uint32{0, uint32(s.length), 0, 1, 0} {
			b = binary.BigEndian.AppendUint32(b, v)
		}
	}
	binary.BigEndian.PutUint32(b, lastFragment|uint32(len(b)-4))
	r.buf = b
}

// TestPortmapper: where nothing listens on the usual port, the portmapper says
// where NFS is, and MOUNT.
func TestPortmapper(t *testing.T) {
	testenv.Sandboxed(t)
	nfs, mount := newFake(t, good), newFake(t, good)
	nfs.noMount = true
	var list []portmap.Mapping
	for prog, f := range map[uint32]*fake{portmap.ProgNFS: nfs, portmap.ProgMount: mount} {
		list = append(list, portmap.Mapping{Prog: prog, Vers: 3, Netid: portmap.NetTCP, Addr: f.ln.Addr().(*net.TCPAddr).AddrPort()})
	}
	o := nfs.options(Workload{})
	_, err := Open(t.Context(), o)
	if err == nil || !strings.Contains(err.Error(), "where is MOUNT of 127.0.0.1?") || !strings.Contains(err.Error(), "--mount-port") {
		t.Errorf("without a portmapper: %v", err)
	}
	pm, err := portmap.Listen(portmap.EmbeddedConfig{Listen: "127.0.0.1:111", Mappings: list})
	if err != nil {
		t.Fatal(err)
	}
	defer pm.Close(context.Background())
	o.Server = "127.0.0.1"
	if r, _ := measure(t, o); r.Errors > 0 || r.Ops != 16 {
		t.Errorf("%d calls, %s", r.Ops, r.FirstError)
	}
	o.Server, o.MountPort = nfs.ln.Addr().String(), mount.ln.Addr().(*net.TCPAddr).Port
	if r, _ := measure(t, o); r.Errors > 0 || r.Ops != 16 {
		t.Errorf("with --mount-port: %d calls, %s", r.Ops, r.FirstError)
	}
}

// TestMemoryIsBounded: as many calls in flight as there may be, each of the
// largest size, take little more memory than their slots.
func TestMemoryIsBounded(t *testing.T) {
	pattern()
	w := Workload{Jobs: MaxJobs, Depth: MaxInFlight / MaxJobs, BlockSize: MaxBlockSize, FileBytes: MaxBlockSize, Op: "write", Seconds: 1}
	if err := w.Complete(); err != nil {
		t.Fatal(err)
	}
	b := &Bench{w: w, cl: &client3{}, files: make([]file, w.Files)}
	b.cl.(*client3).cred = &rpc.Cred{Flavor: rpc.FlavorSys}
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	for i := range w.Connections {
		b.conns = append(b.conns, &conn{version: 3, slots: make([]slot, w.slots(i))})
	}
	p := &phase{w: &b.w, files: b.files, until: 1 << 62, interval: 1e9, templates: make([][kinds]*template, w.Files)}
	for i := range b.files {
		p.templates[i][kindWrite] = b.cl.template(kindWrite, &b.files[i], 0)
	}
	loops := b.deal(p, &b.w, false)
	for _, l := range loops {
		for _, c := range l.conns {
			for k := range c.slots {
				l.advance(c, uint32(k))
			}
		}
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	if grown := int64(after.HeapAlloc) - int64(before.HeapAlloc); grown > int64(MaxInFlight)*1024+int64(len(loops))*3<<20 {
		t.Errorf("%d calls in flight take %s", MaxInFlight, SizeText(grown))
	}
	runtime.KeepAlive(loops)
}

// TestPreparationThatFails: the error says why, and what was made is removed.
func TestPreparationThatFails(t *testing.T) {
	for name, tc := range map[string]struct {
		io   func(c *fakeCall) []byte
		want string
	}{
		"no space": {func(c *fakeCall) []byte { return reply(c.xid, words(uint32(wire3.NFS3ERR_NOSPC), 0, 0)) }, "WRITE: NFS3ERR_NOSPC"},
		"no COMMIT": {func(c *fakeCall) []byte {
			if c.proc == wire3.NFSPROC3_COMMIT {
				return reply(c.xid, words(uint32(wire3.NFS3ERR_IO), 0, 0))
			}
			return good(c)
		}, "COMMIT: NFS3ERR_IO"},
		"closed": {func(c *fakeCall) []byte { return nil }, "closed the connection"},
	} {
		f := newFake(t, tc.io)
		o := f.options(Workload{Files: 3})
		o.Existing = ""
		_, err := Open(t.Context(), o)
		if err == nil || !strings.Contains(err.Error(), "preparing 192 KiB in 3 files: ") || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v, want %q", name, err, tc.want)
		}
		if n := f.removed.Load(); n != 3 {
			t.Errorf("%s: %d files of 3 removed", name, n)
		}
	}
}
