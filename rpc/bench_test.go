package rpc

import (
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"sync"
	"testing"
)

// load keeps depth calls in flight on one connection until n are answered: it
// sends as many calls as it got replies, in one write, as a busy client does.
// It allocates nothing once it runs.
type load struct {
	nc    net.Conn
	call  []byte // one call, with its mark
	calls []byte // depth of them
	in    []byte
	fresh bool // a new xid for each call
	xid   uint32
}

func (ts *testServer) load(t testing.TB, call []byte, depth int) *load {
	nc, err := net.Dial("tcp", ts.addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { nc.Close() })
	l := &load{nc: nc, call: call, in: make([]byte, 1<<20)}
	for range depth {
		l.calls = append(l.calls, call...)
	}
	return l
}

func (l *load) send(n int) error {
	calls := l.calls[:n*len(l.call)]
	if l.fresh {
		for at := 4; at < len(calls); at += len(l.call) {
			l.xid++
			binary.BigEndian.PutUint32(calls[at:], l.xid)
		}
	}
	_, err := l.nc.Write(calls)
	return err
}

func (l *load) run(n int) error {
	out := min(n, len(l.calls)/len(l.call))
	if err := l.send(out); err != nil {
		return err
	}
	have := 0
	for done := 0; done < n; {
		k, err := l.nc.Read(l.in[have:])
		if err != nil {
			return err
		}
		have += k
		at, got := 0, 0
		for have-at >= 4 {
			size := 4 + int(binary.BigEndian.Uint32(l.in[at:])&^lastFragment)
			if have-at < size {
				break
			}
			if size < acceptedLen || binary.BigEndian.Uint32(l.in[at+24:]) != 0 {
				return io.ErrUnexpectedEOF
			}
			at += size
			got++
		}
		copy(l.in, l.in[at:have])
		have -= at
		done += got
		if more := min(got, n-out); more > 0 {
			if err := l.send(more); err != nil {
				return err
			}
			out += more
		}
	}
	return nil
}

// TestNoAllocations: small calls allocate nothing, on the way in, in the reply
// cache or on the way out; large records and replies from memory neither.
func TestNoAllocations(t *testing.T) {
	ts := start(t, func(c *Config) {
		c.Observer = &observer{}
		procs := c.Programs[0].Versions[0].Procs
		data := &staticPayload{b: make([]byte, 100_000)}
		procs[procRead].Run = func(c *Call) Verdict {
			data.left = data.b
			c.Reply.Payload(data)
			return Done
		}
	})
	for _, tc := range []struct {
		name  string
		call  []byte
		depth int
		fresh bool
	}{
		{"NULL", record(1, procNull), 1, false},
		{"echo of 100 bytes", withOpaque(1, procEcho, make([]byte, 100)), 16, false},
		{"groups", record(1, procWhoAmI), 16, false},
		{"reply cache, old calls", record(1, procCount, 0), 16, false},
		{"reply cache, new calls", record(1, procBulk, 0), 16, true},
		{"4 KiB in", withOpaque(1, procSink, make([]byte, 4096)), 16, false},
		{"1 MiB in", withOpaque(1, procSink, make([]byte, 1<<20)), 2, false},
		{"100 kB out", record(1, procRead), 1, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			l := ts.load(t, tc.call, tc.depth)
			l.fresh = tc.fresh
			n := 2000
			if len(tc.call) > 1<<20 {
				n = 200
			}
			least := uint64(n)
			for range 5 { // what the runtime allocates for itself comes and goes
				var before, after runtime.MemStats
				if err := l.run(n / 10); err != nil {
					t.Fatal(err)
				}
				runtime.ReadMemStats(&before)
				if err := l.run(n); err != nil {
					t.Fatal(err)
				}
				runtime.ReadMemStats(&after)
				if least = min(least, after.Mallocs-before.Mallocs); least < uint64(n/100) {
					return
				}
			}
			t.Errorf("%d allocations in %d calls", least, n)
		})
	}
}

// staticPayload is memory that is sent again and again, one at a time.
type staticPayload struct{ b, left []byte }

func (p *staticPayload) Len() int                        { return len(p.left) }
func (p *staticPayload) Bytes() ([]byte, bool)           { return p.left, true }
func (p *staticPayload) SendTo(int) (int, error)         { panic("in memory") }
func (p *staticPayload) ReadAll(dst []byte) (int, error) { return copy(dst, p.left), nil }
func (p *staticPayload) Advance(n int)                   { p.left = p.left[n:] }
func (p *staticPayload) Release()                        {}

// cpu is what the service threads have used so far, in nanoseconds.
func (ts *testServer) cpu(b *testing.B) (sum float64) {
	for _, t := range *ts.services.Load() {
		var ns, wait, slices float64
		text, err := os.ReadFile(fmt.Sprintf("/proc/self/task/%d/schedstat", t.tid.Load()))
		if err == nil {
			_, err = fmt.Sscan(string(text), &ns, &wait, &slices)
		}
		if err != nil {
			b.Logf("no CPU time of a thread: %v", err)
			return 0
		}
		sum += ns
	}
	return sum
}

func bench(b *testing.B, name string, conns, depth int, call []byte) {
	b.Run(fmt.Sprintf("%s/%dx%d", name, conns, depth), func(b *testing.B) {
		ts := start(b, func(c *Config) { c.Observer = &observer{} })
		var loads []*load
		for range conns {
			l := ts.load(b, call, depth)
			if err := l.run(depth); err != nil {
				b.Fatal(err)
			}
			loads = append(loads, l)
		}
		b.ReportAllocs()
		if len(call) > 4096 {
			b.SetBytes(int64(len(call)))
		}
		cpu := ts.cpu(b)
		b.ResetTimer()
		var wg sync.WaitGroup
		for _, l := range loads {
			wg.Go(func() {
				if err := l.run(max(b.N/conns, 1)); err != nil {
					b.Error(err)
				}
			})
		}
		wg.Wait()
		b.StopTimer()
		b.ReportMetric((ts.cpu(b)-cpu)/float64(b.N), "server-ns/op")
	})
}

// The client of these shares the process and the cores with the server; only
// the server's own CPU time says what a call costs.
func BenchmarkNull(b *testing.B) {
	call := record(1, procNull)
	bench(b, "NULL", 1, 1, call)
	bench(b, "NULL", 1, 16, call)
	bench(b, "NULL", 8, 8, call)
	bench(b, "NULL", 64, 4, call)
}

func BenchmarkEcho(b *testing.B) {
	bench(b, "100B", 8, 8, withOpaque(1, procEcho, make([]byte, 100)))
}

func BenchmarkSink(b *testing.B) {
	bench(b, "4KiB", 1, 8, withOpaque(1, procSink, make([]byte, 4<<10)))
	bench(b, "64KiB", 1, 8, withOpaque(1, procSink, make([]byte, 64<<10)))
	bench(b, "1MiB", 1, 4, withOpaque(1, procSink, make([]byte, 1<<20)))
}

func BenchmarkCached(b *testing.B) {
	bench(b, "hit", 8, 8, record(1, procBulk, 0))
}

func BenchmarkSlow(b *testing.B) {
	bench(b, "MAY", 1, 8, record(1, procMay, 0))
}

func BenchmarkReplyCache(b *testing.B) {
	r := newReplyCache(16384, int64(1e12))
	c := &Conn{}
	body := withOpaque(1, procSink, make([]byte, 4096))[4:]
	var h header
	h.decode(body)
	reply := make([]byte, 160)
	b.ReportAllocs()
	for i := range b.N {
		h.xid = uint32(i)
		k := r.key(c, &h, body)
		_, ref := r.begin(c, &k, int64(i), nil)
		ref.finish(reply, int64(i))
	}
}

func BenchmarkLook(b *testing.B) {
	s := &Server{cfg: Config{Programs: []Program{(&testServer{}).program()}}}
	p := incoming{body: record(1, procWhoAmI)[4:]}
	b.ReportAllocs()
	for range b.N {
		s.look(&p)
	}
}
