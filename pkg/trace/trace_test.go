package trace

import (
	"context"
	"encoding/json"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"
)

func TestNobodyWatches(t *testing.T) {
	var none *Bus
	if none.Enabled() {
		t.Error("a nil bus is enabled")
	}
	none.Emit(Event{Name: ReadStart})
	var b Bus
	if b.Enabled() {
		t.Error("enabled without a subscriber")
	}
	if n := testing.AllocsPerRun(100, func() {
		if b.Enabled() {
			b.Emit(Event{})
		}
	}); n != 0 {
		t.Errorf("%v allocations when nobody watches", n)
	}
	s := b.Subscribe(1)
	if !b.Enabled() {
		t.Error("not enabled with a subscriber")
	}
	s.Close()
	s.Close()
	if b.Enabled() {
		t.Error("enabled after the subscriber left")
	}
}

func TestSlowSubscriberIsTold(t *testing.T) {
	var b Bus
	slow, fast := b.Subscribe(3), b.Subscribe(100)
	defer slow.Close()
	defer fast.Close()
	for i := range 10 {
		b.Emit(Event{Name: ReadStart, Offset: uint64(i)})
	}
	e, ok := slow.Next(t.Context())
	if !ok || e.Name != Dropped || e.Count != 7 {
		t.Fatalf("%+v", e)
	}
	for i := range 3 {
		if e, _ := slow.Next(t.Context()); e.Offset != uint64(i) || e.Time.IsZero() {
			t.Errorf("%+v", e)
		}
	}
	for i := range 10 {
		if e, _ := fast.Next(t.Context()); e.Name != ReadStart || e.Offset != uint64(i) {
			t.Errorf("%+v", e)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if _, ok := slow.Next(ctx); ok {
		t.Error("an event out of nothing")
	}
}

func TestCloseWakesNext(t *testing.T) {
	var b Bus
	s := b.Subscribe(1)
	done := make(chan bool)
	go func() { _, ok := s.Next(context.Background()); done <- ok }()
	s.Close()
	if <-done {
		t.Error("an event after Close")
	}
}

func TestSubscribersAreBounded(t *testing.T) {
	var b Bus
	var subs []*Subscription
	for range MaxSubscribers {
		subs = append(subs, b.Subscribe(0))
	}
	if b.Subscribe(1) != nil {
		t.Error("one too many")
	}
	subs[5].Close()
	s := b.Subscribe(1)
	if s == nil {
		t.Fatal("no place after one left")
	}
	b.Emit(Event{Name: Commit})
	if e, ok := s.Next(t.Context()); !ok || e.Name != Commit {
		t.Error(e, ok)
	}
}

func TestRacing(t *testing.T) {
	var b Bus
	var wg sync.WaitGroup
	for range 4 {
		wg.Add(2)
		go func() {
			defer wg.Done()
			for range 500 {
				if b.Enabled() {
					b.Emit(Event{Name: ReadDone})
				}
			}
		}()
		go func() {
			defer wg.Done()
			for range 100 {
				s := b.Subscribe(2)
				ctx, cancel := context.WithTimeout(context.Background(), 10*time.Microsecond)
				s.Next(ctx)
				cancel()
				s.Close()
			}
		}()
	}
	wg.Wait()
}

var at = time.Date(2026, 1, 2, 3, 4, 5, 678900, time.UTC)

func TestFormats(t *testing.T) {
	for _, tc := range []struct {
		e          Event
		text, json string
	}{
		{
			Event{Time: at, Name: ReadDone, XID: 0xab, Client: netip.MustParseAddr("10.0.0.1"), Export: "/srv/my data", File: "1:2",
				Offset: 4096, Count: 512, Len: 100, Mode: "direct", Duration: 1500 * time.Nanosecond},
			`2026-01-02T03:04:05.000678Z read_done xid=000000ab client=10.0.0.1 export="/srv/my data" file=1:2 offset=4096 count=512 len=100 mode=direct took=1.5µs`,
			`{"time":"2026-01-02T03:04:05.0006789Z","event":"read_done","xid":"000000ab","client":"10.0.0.1","export":"/srv/my data","file":"1:2","io":{"offset":4096,"count":512,"len":100},"mode":"direct","duration_ns":1500}`,
		},
		{
			Event{Time: at, Name: FileOpen, File: "1:2", Mode: "read", Align: Align{4, 512, 512, true}},
			`2026-01-02T03:04:05.000678Z file_open file=1:2 mode=read mem_align=4 offset_align=512 read_align=512 dontcache=true`,
			`{"time":"2026-01-02T03:04:05.0006789Z","event":"file_open","file":"1:2","mode":"read","align":{"mem":4,"offset":512,"read_offset":512,"dontcache":true}}`,
		},
		{
			Event{Time: at, Name: ClientMount, Client: netip.MustParseAddr("::1"), Export: "/a", Reason: "a\nb"},
			`2026-01-02T03:04:05.000678Z client_mount client=::1 export=/a reason="a\nb"`,
			`{"time":"2026-01-02T03:04:05.0006789Z","event":"client_mount","client":"::1","export":"/a","reason":"a\nb"}`,
		},
		{
			Event{Time: at, Name: DelegationRecalled, Client: netip.MustParseAddr("10.0.0.1"), NFS4Client: 0x1f00c300000001, File: "1:2", Mode: "write"},
			`2026-01-02T03:04:05.000678Z delegation_recalled client=10.0.0.1 nfs4_client=001f00c300000001 file=1:2 mode=write`,
			`{"time":"2026-01-02T03:04:05.0006789Z","event":"delegation_recalled","client":"10.0.0.1","nfs4_client":"001f00c300000001","file":"1:2","mode":"write"}`,
		},
	} {
		if got := tc.e.String(); got != tc.text {
			t.Errorf("got  %s\nwant %s", got, tc.text)
		}
		if strings.Contains(tc.e.String(), "\n") {
			t.Error("more than one line")
		}
		if got, err := json.Marshal(tc.e); err != nil || string(got) != tc.json {
			t.Errorf("%v\ngot  %s\nwant %s", err, got, tc.json)
		}
	}
}

func TestKnown(t *testing.T) {
	for _, n := range Names() {
		if !Known(n) || n == "" {
			t.Errorf("%q", n)
		}
	}
	if Known("read_") {
		t.Error("read_ is known")
	}
}
