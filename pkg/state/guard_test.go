// The Guard, and what the hot paths cost.

package state

import (
	"testing"
	"time"
)

// TestGuardDenials: share denials hold for whoever has no open, of whichever version.
func TestGuardDenials(t *testing.T) {
	for deny := uint8(0); deny <= ShareBoth; deny++ {
		w := newWorld(t)
		c := w.ready41("c")
		f := fkey(1)
		o, err := c.open("o", f, ShareBoth, deny)
		ok(t, "OPEN", err)
		expect := func(bit uint8) error {
			if deny&bit != 0 {
				return ErrLocked
			}
			return nil
		}
		for _, id := range []uint64{0, uint64(c.id)} { // OPEN23, OPEN27: its own client is no exception
			mustBe(t, "READ", w.s.CheckRead(&f, id, false), expect(ShareRead))
			mustBe(t, "WRITE", w.s.CheckWrite(&f, id, false), expect(ShareWrite))
			mustBe(t, "SETATTR size", w.s.CheckSetattr(&f, id, false, true), expect(ShareWrite))
			mustBe(t, "SETATTR", w.s.CheckSetattr(&f, id, false, false), nil)
			mustBe(t, "REMOVE", w.s.CheckNames(&f, id), nil)
			mustBe(t, "GETATTR", w.s.CheckGetattr(&f, id, false), nil)
			mustBe(t, "READ with a stateid", w.s.CheckRead(&f, id, true), nil)
			mustBe(t, "WRITE with a stateid", w.s.CheckWrite(&f, id, true), nil)
			mustBe(t, "SETATTR size with a stateid", w.s.CheckSetattr(&f, id, true, true), nil)
		}
		other := fkey(2)
		mustBe(t, "another file", w.s.CheckWrite(&other, 0, false), nil)
		// An expired client's denial gives way, a moment later.
		w.advance(testLease + time.Second)
		if deny&ShareRead != 0 {
			mustBe(t, "READ against an expired client", w.s.CheckRead(&f, 0, false), ErrDelay)
			w.settle()
			mustBe(t, "READ afterwards", w.s.CheckRead(&f, 0, false), nil)
		} else {
			ok(t, "CLOSE", c.close(o))
		}
		for i := range w.s.interest {
			if w.s.interest[i].Load() != 0 {
				t.Fatal("a counter stays")
			}
		}
	}
}

func TestGuardAllocs(t *testing.T) {
	w := newWorld(t)
	c := w.ready41("c")
	f, held := fkey(1), fkey(2)
	c.delegated(held, ShareRead)
	if n := testing.AllocsPerRun(1000, func() {
		w.s.CheckRead(&f, 0, false)
		w.s.CheckWrite(&f, 0, false)
		w.s.CheckRead(&held, 0, false)
	}); n != 0 {
		t.Fatalf("%v allocations", n)
	}
}

func TestCheckIOAllocs(t *testing.T) {
	w := newWorld(t)
	c := w.ready41("c")
	o, err := c.open("o", fkey(1), ShareBoth, 0)
	ok(t, "OPEN", err)
	call, _, err := c.begin(1)
	ok(t, "SEQUENCE", err)
	if n := testing.AllocsPerRun(1000, func() {
		if _, err := w.s.CheckIO(call, fkey(1), o.Stateid, AccessWrite); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Fatalf("%v allocations", n)
	}
	w.s.SequenceDone(call, nil)
}

func BenchmarkGuard(b *testing.B) {
	w := newWorld(b)
	c := w.ready41("c")
	f, held := fkey(1), fkey(2)
	c.delegated(held, ShareRead)
	b.Run("nothing held", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			w.s.CheckRead(&f, 0, false)
		}
	})
	b.Run("delegated", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			w.s.CheckRead(&held, 0, false)
		}
	})
}

func BenchmarkCheckIO(b *testing.B) {
	w := newWorld(b)
	c := w.ready41("c")
	o, err := c.open("o", fkey(1), ShareBoth, 0)
	ok(b, "OPEN", err)
	call, _, err := c.begin(1)
	ok(b, "SEQUENCE", err)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := w.s.CheckIO(call, fkey(1), o.Stateid, AccessWrite); err != nil {
			b.Fatal(err)
		}
	}
	w.s.SequenceDone(call, nil)
}
