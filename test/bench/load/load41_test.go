// Tests of the generator in NFSv4.1's sessions.
package load

import (
	"strings"
	"testing"
	"time"
)

// start41 starts a fake whose sessions a test looks at afterwards.
func start41(t *testing.T, f *fake) Config {
	t.Helper()
	c := startFake(t, f)
	c.V41 = true
	return c
}

// nothingLeft checks that the generator kept to the rules and gave everything back.
func (f *fake) nothingLeft(t *testing.T) {
	t.Helper()
	f.v41.mu.Lock()
	defer f.v41.mu.Unlock()
	if v := &f.v41; v.tooMany != "" || v.clients != 0 || v.opens != 0 || len(v.sessions) != 0 {
		t.Errorf("%d clients, %d opens, %d sessions left; broken rules: %q", v.clients, v.opens, len(v.sessions), v.tooMany)
	}
}

func TestSessions(t *testing.T) {
	for _, f := range []*fake{{}, {reverse: true}, {fragment: 1000}} {
		c := start41(t, f)
		c.Verify = true
		for _, op := range Ops41 {
			for _, size := range []int{1, 4096, 100 << 10} {
				if !moves(op) && size != 4096 {
					continue
				}
				c.Size = size
				r := run(t, c, op)
				if r.Errors != 0 || !r.V41 {
					t.Errorf("%s: %d errors: %s", op, r.Errors, r.FirstError)
				}
				if want := r.Calls * uint64(size); moves(op) && r.Bytes != want {
					t.Errorf("%s: %d bytes, want %d", op, r.Bytes, want)
				}
				f.nothingLeft(t)
			}
		}
	}
}

func TestSessionFailures(t *testing.T) {
	for op, num := range map[string]uint32{"getattr": opGetattr, "read": opRead, "write": opWrite} {
		for _, size := range []int{4096, 64 << 10} {
			f := &fake{}
			c := start41(t, f)
			c.Size, c.Op, c.Count, c.Duration = size, op, 100, time.Minute
			if err := c.check(); err != nil {
				t.Fatal(err)
			}
			x, err := begin41(&c)
			if err != nil {
				t.Fatal(err)
			}
			f.v41.mu.Lock()
			f.status = map[uint32]uint32{1000 + num: 13}
			f.v41.mu.Unlock()
			r, err := runLoop(&c, x)
			if err != nil {
				t.Fatal(err)
			}
			if r.Errors != r.Calls || r.Bytes != 0 || !strings.Contains(r.FirstError, "NFS status 13") {
				t.Errorf("%s: %d errors in %d calls, %d bytes (%q), want all to fail with status 13", op, r.Errors, r.Calls, r.Bytes, r.FirstError)
			}
			if err := x.v41.end(); err != nil {
				t.Error(err)
			}
			f.nothingLeft(t)
		}
	}
}

func TestUnusableSessions(t *testing.T) {
	for name, x := range map[string]struct {
		f    *fake
		want string
	}{
		"SEQUENCE fails":           {&fake{status: map[uint32]uint32{1000 + opSequence: 10052}}, "SEQUENCE: NFS status 10052"},
		"another slot is answered": {&fake{v41: fake41{wrong: "slot"}}, "another session, slot"},
		"another sequence id":      {&fake{v41: fake41{wrong: "seq"}}, "another session, slot"},
		"too few slots":            {&fake{v41: fake41{fewer: 1}}, "grants 0 slots"},
		"wrong data":               {&fake{corrupt: true}, "wrong data"},
	} {
		c := start41(t, x.f)
		c.Op, c.Duration, c.Verify = "read", time.Minute, true
		if _, err := Run(c); err == nil || !strings.Contains(err.Error(), x.want) {
			t.Errorf("%s: error %v, want %q", name, err, x.want)
		}
	}
}

func TestSessionsWaitForGrace(t *testing.T) {
	f := &fake{v41: fake41{grace: 2}}
	if r := run(t, start41(t, f), "getattr"); r.Errors != 0 {
		t.Errorf("%d errors: %s", r.Errors, r.FirstError)
	}
	f.nothingLeft(t)
}

func TestMissingFileInSession(t *testing.T) {
	f := &fake{}
	c := start41(t, f)
	c.Op, c.Duration, c.File = "getattr", time.Minute, "missing"
	if _, err := Run(c); err == nil || !strings.Contains(err.Error(), "no such file") {
		t.Errorf("error %v, want no such file", err)
	}
}

func TestSessionLoopDoesNotAllocate(t *testing.T) {
	f := &fake{}
	c := start41(t, f)
	c.Op, c.Duration, c.Conns = "getattr", time.Minute, 1
	if err := c.check(); err != nil {
		t.Fatal(err)
	}
	x, err := begin41(&c)
	if err != nil {
		t.Fatal(err)
	}
	defer x.v41.end() //nolint:errcheck // other tests look at it
	d, err := newDriver(&c, x)
	if err != nil {
		t.Fatal(err)
	}
	defer d.close()
	cn := &d.conns[0]
	m := &message{b: make([]byte, atStatus)}
	be.PutUint32(m.b[8:], 1)
	for _, v := range []uint32{0, 0, 3, opSequence, 0} {
		m.u32(v)
	}
	m.b = append(m.b, cn.sess[:]...)
	for _, v := range []uint32{0, 0, 3, 3, 0, opPutfh, 0, opGetattr, 0, 2, attrs41a, attrs41b, 0} {
		m.u32(v)
	}
	if n := testing.AllocsPerRun(100, func() {
		d.issue(cn, d.now())
		xid := be.Uint32(d.out[atXID:])
		be.PutUint32(m.b[atXID:], xid)
		be.PutUint32(m.b[sequenceSlot:], cn.slots[xid%MaxDepth].seq)
		be.PutUint32(m.b[sequenceSlot+4:], xid%MaxDepth)
		if err := d.reply(cn, m.b, d.now()); err != nil {
			t.Fatal(err)
		}
		d.out = d.out[:0]
	}); n != 0 {
		t.Errorf("%g allocations for each call", n)
	}
	if d.errs != 0 {
		t.Error(d.firstErr)
	}
}
