// Tests of the generator against a server that behaves, and one that does not.
package load

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// run makes a short measurement, bounded by its number of calls.
func run(t *testing.T, c Config, op string) Result {
	t.Helper()
	c.Op, c.Duration = op, time.Minute
	if c.Count == 0 {
		c.Count = 100
	}
	r, err := Run(c)
	if err != nil {
		t.Fatalf("%s: %v", op, err)
	}
	if r.Calls < c.Count {
		t.Errorf("%s: %d calls, want at least %d", op, r.Calls, c.Count)
	}
	if limit := c.Count + uint64(c.Conns*c.Depth); r.Calls > limit {
		t.Errorf("%s: %d calls, want at most %d", op, r.Calls, limit)
	}
	if r.P50 <= 0 || r.P50 > r.P99 || r.P99 > r.P999 || r.P999 > r.Max {
		t.Errorf("%s: latencies out of order: %+v", op, r)
	}
	return r
}

func TestEveryOperation(t *testing.T) {
	for _, f := range []*fake{{}, {reverse: true}, {fragment: 1000}} {
		c := startFake(t, f)
		c.Verify = true
		for _, op := range Ops {
			for _, size := range []int{1, 4096, 100 << 10} {
				if !moves(op) && size != 4096 {
					continue
				}
				c.Size = size
				r := run(t, c, op)
				if r.Errors != 0 {
					t.Errorf("%s: %d errors: %s", op, r.Errors, r.FirstError)
				}
				if want := r.Calls * uint64(size); moves(op) && r.Bytes != want {
					t.Errorf("%s: %d bytes, want %d", op, r.Bytes, want)
				}
			}
		}
	}
}

func TestCallersTakeTurns(t *testing.T) {
	f := &fake{}
	c := startFake(t, f)
	c.UIDs = []uint32{1000, 1001}
	run(t, c, "lookup")
	n := func(uid uint32) int64 {
		v, ok := f.uids.Load(uid)
		if !ok {
			t.Fatalf("no call by uid %d", uid)
		}
		return v.(*atomic.Int64).Load()
	}
	// Set-up calls are made by the first.
	if d := n(1000) - n(1001); d < 0 || d > 10 {
		t.Errorf("uid 1000 made %d more calls than uid 1001, want them equal but for set-up", d)
	}
}

func TestCreatesNeverRepeatNames(t *testing.T) {
	f := &fake{}
	c := startFake(t, f)
	for range 2 {
		run(t, c, "create")
	}
	names := 0
	f.names.Range(func(_, _ any) bool { names++; return true })
	// Calls in flight at the end may or may not have arrived.
	if names < 200 {
		t.Errorf("%d names, want at least 200", names)
	}
	if calls := f.calls.Load(); int64(names) < calls-8 { // MNT, LOOKUP and the like
		t.Errorf("%d names from %d calls", names, calls)
	}
}

func TestFailedCallsAreCounted(t *testing.T) {
	for op, proc := range map[string]uint32{"access": procAccess, "read": procRead, "write": procWrite, "create": procCreate} {
		for _, size := range []int{4096, 64 << 10} {
			f := &fake{status: map[uint32]uint32{proc: 13}}
			c := startFake(t, f)
			c.Size = size
			r := run(t, c, op)
			if r.Errors != r.Calls || !strings.Contains(r.FirstError, "NFS status 13") {
				t.Errorf("%s: %d errors in %d calls (%q), want all to fail with status 13", op, r.Errors, r.Calls, r.FirstError)
			}
			if r.Bytes != 0 {
				t.Errorf("%s: %d bytes counted", op, r.Bytes)
			}
		}
	}
}

func TestWrongDataIsAnError(t *testing.T) {
	c := startFake(t, &fake{corrupt: true})
	c.Duration, c.Count, c.Verify = time.Minute, 10, true
	for _, op := range []string{"read", "write"} {
		c.Op = op
		if _, err := Run(c); err == nil || !strings.Contains(err.Error(), "wrong data") {
			t.Errorf("%s: error %v, want wrong data", op, err)
		}
	}
}

func TestStrayReplyIsAnError(t *testing.T) {
	// Set-up calls do not look at the xid; the measurement does.
	c := startFake(t, &fake{stray: true})
	c.Op, c.Duration = "getattr", time.Minute
	if _, err := Run(c); err == nil || !strings.Contains(err.Error(), "not in flight") {
		t.Errorf("error %v, want one about the xid", err)
	}
}

func TestMissingFile(t *testing.T) {
	c := startFake(t, &fake{})
	c.Op, c.Duration, c.File = "getattr", time.Minute, "missing"
	if _, err := Run(c); err == nil || !strings.Contains(err.Error(), "no such file") {
		t.Errorf("error %v, want no such file", err)
	}
}

func TestConfigIsChecked(t *testing.T) {
	good := Config{Op: "read", Size: 1, Conns: 1, Depth: 1, Duration: 1}
	if err := good.check(); err != nil {
		t.Fatal(err)
	}
	for name, spoil := range map[string]func(*Config){
		"operation": func(c *Config) { c.Op = "dance" },
		"size":      func(c *Config) { c.Size = MaxSize + 1 },
		"depth":     func(c *Config) { c.Depth = MaxDepth + 1 },
		"conns":     func(c *Config) { c.Conns = 0 },
		"duration":  func(c *Config) { c.Duration = 0 },
	} {
		c := good
		spoil(&c)
		if c.check() == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func TestScenarios(t *testing.T) {
	c := startFake(t, &fake{})
	c.ServerPID = os.Getpid()
	c.Duration = 50 * time.Millisecond

	i := c
	i.Conns = 20
	ir, err := Idle(i)
	if err != nil || ir.Connected != 20 || ir.Alive != 20 || ir.RSSPeak == 0 {
		t.Errorf("idle: %+v, %v", ir, err)
	}

	s := c
	s.Size, s.Conns, s.Depth = 256<<10, 3, 8
	sr, err := Stall(s)
	if err != nil || sr.Resumed != 3 || sr.Dropped != 0 || sr.ResumedErr != "" || sr.Beside.Calls == 0 {
		t.Errorf("stall: %+v, %v", sr, err)
	}

	w := c
	w.SlowExport, w.SlowFile, w.SlowDepth = "/slow", "slow", 1
	wr, err := SlowRead(w)
	if err != nil || wr.SlowCalls == 0 || wr.Getattr.Calls == 0 || wr.Getattr.Errors != 0 {
		t.Errorf("slowread: %+v, %v", wr, err)
	}
	for _, r := range []any{ir, sr, wr} {
		if _, err := json.Marshal(r); err != nil {
			t.Error(err)
		}
	}
}

func TestHistogram(t *testing.T) {
	var h histogram
	rnd := rand.New(rand.NewPCG(3, 4))
	var all []int64
	for range 20000 {
		v := int64(math.Exp(rnd.Float64() * 23)) // 1 ns to 10 s
		all = append(all, v)
		h.add(v)
	}
	slices.Sort(all)
	for _, q := range []float64{0, .5, .99, .999, 1} {
		want := float64(all[min(int(q*float64(len(all))), len(all)-1)]) / 1e3
		if got := h.quantile(q); math.Abs(got-want) > want*.016 {
			t.Errorf("quantile %g: %g us, want %g", q, got, want)
		}
	}
	for _, v := range []int64{0, 1, 63, 64, 127, 128, 1 << 40, math.MaxInt64} {
		i := bucket(uint64(v))
		if m := middle(i); math.Abs(m-float64(v)) > float64(v)*.008+.5 {
			t.Errorf("bucket %d of %d has its middle at %g", i, v, m)
		}
	}
}

func TestFillFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	if err := FillFile(path, 2<<20); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	want := make([]byte, 4096)
	Pattern(want, 1<<20)
	if len(got) != 2<<20 || !slices.Equal(got[1<<20:1<<20+4096], want) {
		t.Error("content differs from Pattern")
	}
}

func TestLoopDoesNotAllocate(t *testing.T) {
	for _, op := range []string{"getattr", "read"} {
		c := startFake(t, &fake{})
		c.Op, c.Duration, c.Conns, c.Size = op, time.Minute, 1, 64<<10
		if err := c.check(); err != nil {
			t.Fatal(err)
		}
		d, err := newDriver(&c, target{dir: []byte("root"), file: []byte("file"), size: fakeSize})
		if err != nil {
			t.Fatal(err)
		}
		defer d.close()
		// Issuing and accounting, without the fake's own allocations.
		cn := &d.conns[0]
		ok := make([]byte, readData)
		be.PutUint32(ok[8:], 1)
		be.PutUint32(ok[atStatus+4:], 1)
		be.PutUint32(ok[readData-12:], uint32(c.Size))
		if n := testing.AllocsPerRun(100, func() {
			d.issue(cn, d.now())
			be.PutUint32(ok[atXID:], be.Uint32(d.out[atXID:]))
			if err := d.reply(cn, ok, d.now()); err != nil {
				t.Fatal(err)
			}
			d.out = d.out[:0]
		}); n != 0 {
			t.Errorf("%s: %g allocations for each call", op, n)
		}
		if d.errs != 0 {
			t.Errorf("%s: %v", op, d.firstErr)
		}
	}
}

// TestMixedSizes: each size moves as many bytes, and replies are held to the
// size of their own call.
func TestMixedSizes(t *testing.T) {
	c := startFake(t, &fake{})
	c.Size, c.Sizes = 64<<10, []int{4096, 16 << 10, 64 << 10}
	mix := mixSizes(&c)
	moved := make(map[int]int)
	for _, s := range mix {
		moved[s] += s
	}
	for _, s := range c.Sizes {
		if moved[s] != c.Size {
			t.Errorf("%d bytes in pieces of %d, want %d", moved[s], s, c.Size)
		}
	}
	c.Conns, c.Depth, c.Count = 1, 1, uint64(2*len(mix))
	r := run(t, c, "read")
	if want := uint64(2 * 3 * c.Size); r.Errors != 0 || r.Calls == c.Count && r.Bytes != want {
		t.Errorf("%d errors (%s), %d bytes in %d calls, want %d", r.Errors, r.FirstError, r.Bytes, r.Calls, want)
	}
	c.Op, c.Duration = "write", time.Second
	if _, err := Run(c); err == nil || !strings.Contains(err.Error(), "sizes") {
		t.Errorf("sizes of WRITEs: %v", err)
	}
}
