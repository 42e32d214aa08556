package state

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"sluice/pkg/trace"
)

// What happens to clients and delegations is told to those who watch, and an
// end that was the client's own wish does not count as an expiry.
func TestEvents(t *testing.T) {
	bus := new(trace.Bus)
	w := newWorld(t, func(c *Config) { c.Trace = bus })
	sub := bus.Subscribe(100)
	defer sub.Close()
	names := map[ClientID]string{}
	want := func(list ...string) {
		t.Helper()
		var got []string
		for sub.Pending() > 0 {
			ev, _ := sub.Next(context.Background())
			text := names[ClientID(ev.NFS4Client)] + " " + string(ev.Name)
			if ev.Mode != "" {
				text += " " + ev.Mode
			}
			if ev.Reason != "" {
				text += " " + ev.Reason
			}
			got = append(got, text)
		}
		if !slices.Equal(got, list) {
			t.Errorf("events:\n%q, want\n%q", got, list)
		}
	}
	ready := func(name string) *cl41 {
		c := w.ready41(name)
		names[c.id] = name
		return c
	}

	c, d := ready("c"), ready("d")
	want("c nfs4_client_begin", "d nfs4_client_begin")
	r := c.delegated(fkey(1), ShareRead)
	c.delegated(fkey(2), ShareBoth)
	want("c delegation_granted read", "c delegation_granted write")
	write := func(n int) error { _, err := d.open(fmt.Sprint(n), fkey(n), ShareWrite, 0); return err }
	mustBe(t, "OPEN", write(1), ErrDelay)
	mustBe(t, "OPEN", write(1), ErrDelay) // once is enough
	want("c delegation_recalled read")
	ok(t, "DELEGRETURN", c.delegReturn(fkey(1), r.Deleg.Stateid))
	want("c delegation_returned read")
	mustBe(t, "OPEN", write(2), ErrDelay)
	w.advance(testLease * 2 / 3)
	c.use0()
	d.use0()
	w.advance(testLease/3 + time.Second)
	c.use0()
	ok(t, "OPEN", write(2))
	want("c delegation_recalled write", "c delegation_revoked write")

	// Three ends.
	w.advance(2 * testLease)
	e := ready("e")
	if _, err := e.open("o", fkey(1), ShareRead, ShareBoth); err != nil && err != ErrDelay {
		t.Errorf("OPEN: %v", err)
	}
	w.settle()
	ok(t, "ExpireClient", w.s.ExpireClient(e.id))
	f := ready("f")
	outside := &Call{Minor: 1, MayBlock: true, Principal: f.cred, Conn: f.conn}
	ok(t, "DESTROY_SESSION", w.s.DestroySession(outside, f.sess))
	ok(t, "DESTROY_CLIENTID", w.s.DestroyClientID(outside, f.id))
	if n := w.s.Counters(); n.ClientsEnded != 3 || n.ClientsExpired != 2 {
		t.Errorf("%d clients ended, %d of them expired, want 3 and 2", n.ClientsEnded, n.ClientsExpired)
	}
	want("e nfs4_client_begin", "c nfs4_client_end lease", "e nfs4_client_end administrator", "f nfs4_client_begin", "f nfs4_client_end destroyed")
}
