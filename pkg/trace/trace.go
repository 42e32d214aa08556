// Package trace carries what the server does, as it happens, to whoever
// watches: `sluice trace` and the admin socket's event stream.
//
// Plan: a caller asks Enabled (one atomic load) before it builds an Event, so
// that an unwatched server pays nothing. Emit gives the event to each
// subscriber's bounded queue and never waits: what does not fit is counted,
// and the count appears in the subscriber's stream as an event of its own.
package trace

import (
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Name says which step an event reports.
type Name string

// The events. A READ gives read_start, in mode auto read_auto with the mode that
// was chosen and why, then one of read_splice, read_vector, read_dontcache and
// read_direct for the way it took, read_io_done when the file system has
// answered, and read_done when the reply's payload is ready.
const (
	ReadStart        Name = "read_start"
	ReadAuto         Name = "read_auto"
	ReadSplice       Name = "read_splice"
	ReadVector       Name = "read_vector"
	ReadDontCache    Name = "read_dontcache"
	ReadDirect       Name = "read_direct"
	ReadIODone       Name = "read_io_done"
	ReadDone         Name = "read_done"
	WriteStart       Name = "write_start"
	WriteDone        Name = "write_done"
	Commit           Name = "commit"
	FileOpen         Name = "file_open"
	FileClose        Name = "file_close"
	Fallback         Name = "fallback"
	ModeChange       Name = "mode_change"
	ExportsReload    Name = "exports_reload"
	ClientMount      Name = "client_mount"
	ClientConnect    Name = "client_connect"
	ClientDisconnect Name = "client_disconnect"

	// What NFSv4 clients hold. Reason says why one ended, Mode is a
	// delegation's kind.
	NFS4ClientBegin    Name = "nfs4_client_begin"
	NFS4ClientEnd      Name = "nfs4_client_end"
	DelegationGranted  Name = "delegation_granted"
	DelegationRecalled Name = "delegation_recalled"
	DelegationReturned Name = "delegation_returned"
	DelegationRevoked  Name = "delegation_revoked"
	GraceEnd           Name = "grace_end"

	// Dropped stands in a subscriber's stream where events were lost because
	// it read too slowly; Event.Count is how many.
	Dropped Name = "dropped"
)

// Names lists the events, in the order of the constants.
func Names() []Name {
	return []Name{
		ReadStart, ReadAuto, ReadSplice, ReadVector, ReadDontCache, ReadDirect, ReadIODone, ReadDone,
		WriteStart, WriteDone, Commit, FileOpen, FileClose, Fallback, ModeChange, ExportsReload,
		ClientMount, ClientConnect, ClientDisconnect, NFS4ClientBegin, NFS4ClientEnd,
		DelegationGranted, DelegationRecalled, DelegationReturned, DelegationRevoked, GraceEnd, Dropped,
	}
}

// Known reports whether n is the name of an event.
func Known(n Name) bool { return slices.Contains(Names(), n) }

// Align is what statx said of a file's direct I/O; all zero where it said
// nothing. Units are bytes.
type Align struct {
	Mem        uint32 `json:"mem"`
	Offset     uint32 `json:"offset"`
	ReadOffset uint32 `json:"read_offset"`
	DontCache  bool   `json:"dontcache"`
}

// Event is one step. Fields that do not apply are zero and left out of the
// JSON and text forms; offsets and lengths are in bytes.
type Event struct {
	Time     time.Time // set by Emit when zero
	Name     Name
	XID      uint32
	Client   netip.Addr
	Export   string
	File     string // path, or hash of the file's handle
	Offset   uint64
	Count    uint64 // asked for
	Len      uint64 // done
	Mode     string
	Reason   string // why a fallback was taken, or an error
	Duration time.Duration
	Align    Align

	NFS4Client uint64 // id of a client record
}

// MarshalJSON gives the stable form used by the admin socket: times in
// RFC 3339 with nanoseconds, durations in nanoseconds, io is present for
// events that concern a range of a file.
func (e Event) MarshalJSON() ([]byte, error) {
	type rng struct {
		Offset uint64 `json:"offset"`
		Count  uint64 `json:"count"`
		Len    uint64 `json:"len"`
	}
	out := struct {
		Time     string `json:"time"`
		Name     Name   `json:"event"`
		XID      string `json:"xid,omitempty"`
		Client   string `json:"client,omitempty"`
		NFS4     string `json:"nfs4_client,omitempty"`
		Export   string `json:"export,omitempty"`
		File     string `json:"file,omitempty"`
		IO       *rng   `json:"io,omitempty"`
		Mode     string `json:"mode,omitempty"`
		Reason   string `json:"reason,omitempty"`
		Duration int64  `json:"duration_ns,omitempty"`
		Align    *Align `json:"align,omitempty"`
	}{
		Time: e.Time.UTC().Format(time.RFC3339Nano), Name: e.Name, Export: e.Export, File: e.File,
		Mode: e.Mode, Reason: e.Reason, Duration: int64(e.Duration),
	}
	if e.XID != 0 {
		out.XID = fmt.Sprintf("%08x", e.XID)
	}
	if e.Client.IsValid() {
		out.Client = e.Client.String()
	}
	if e.NFS4Client != 0 {
		out.NFS4 = fmt.Sprintf("%016x", e.NFS4Client)
	}
	if e.hasRange() {
		out.IO = &rng{e.Offset, e.Count, e.Len}
	}
	if e.hasAlign() {
		out.Align = &e.Align
	}
	return json.Marshal(out)
}

// String gives the event as one line: time, name, then key=value pairs.
func (e Event) String() string {
	var b strings.Builder
	b.WriteString(e.Time.UTC().Format("2006-01-02T15:04:05.000000Z "))
	b.WriteString(string(e.Name))
	word := func(key, val string) {
		if val == "" {
			return
		}
		if strings.ContainsAny(val, " \t\n\"=\\") {
			val = fmt.Sprintf("%q", val)
		}
		b.WriteString(" " + key + "=" + val)
	}
	if e.XID != 0 {
		word("xid", fmt.Sprintf("%08x", e.XID))
	}
	if e.Client.IsValid() {
		word("client", e.Client.String())
	}
	if e.NFS4Client != 0 {
		word("nfs4_client", fmt.Sprintf("%016x", e.NFS4Client))
	}
	word("export", e.Export)
	word("file", e.File)
	if e.hasRange() {
		fmt.Fprintf(&b, " offset=%d count=%d len=%d", e.Offset, e.Count, e.Len)
	}
	word("mode", e.Mode)
	if e.hasAlign() {
		fmt.Fprintf(&b, " mem_align=%d offset_align=%d read_align=%d dontcache=%t",
			e.Align.Mem, e.Align.Offset, e.Align.ReadOffset, e.Align.DontCache)
	}
	word("reason", e.Reason)
	if e.Duration != 0 {
		word("took", e.Duration.String())
	}
	return b.String()
}

func (e *Event) hasRange() bool {
	switch e.Name {
	case ReadStart, ReadAuto, ReadSplice, ReadVector, ReadDontCache, ReadDirect, ReadIODone, ReadDone,
		WriteStart, WriteDone, Commit, Dropped:
		return true
	}
	return e.Offset != 0 || e.Count != 0 || e.Len != 0
}

func (e *Event) hasAlign() bool { return e.Name == FileOpen || e.Align != Align{} }

// MaxSubscribers bounds how many streams one bus feeds at a time.
const MaxSubscribers = 64

// Bus hands events to subscribers. The zero value is ready; a nil Bus is
// never enabled. All methods may be called from any goroutine.
type Bus struct {
	subs atomic.Pointer[[]*Subscription] // replaced as a whole, under mu
	mu   sync.Mutex
}

// Enabled reports whether anybody watches.
func (b *Bus) Enabled() bool {
	if b == nil {
		return false
	}
	s := b.subs.Load()
	return s != nil && len(*s) > 0
}

// Emit gives e to every subscriber without waiting.
func (b *Bus) Emit(e Event) {
	if !b.Enabled() {
		return
	}
	if e.Time.IsZero() {
		e.Time = time.Now()
	}
	for _, s := range *b.subs.Load() {
		select {
		case s.ch <- e:
		default:
			s.dropped.Add(1)
		}
	}
}

// Subscribe opens a stream that holds at most n events unread (at least 1).
// It returns nil when MaxSubscribers streams are open. Close it when done.
func (b *Bus) Subscribe(n int) *Subscription {
	b.mu.Lock()
	defer b.mu.Unlock()
	var old []*Subscription
	if p := b.subs.Load(); p != nil {
		old = *p
	}
	if len(old) >= MaxSubscribers {
		return nil
	}
	s := &Subscription{bus: b, ch: make(chan Event, max(n, 1)), closed: make(chan struct{})}
	subs := append(append(make([]*Subscription, 0, len(old)+1), old...), s)
	b.subs.Store(&subs)
	return s
}

// Subscription is one watcher's stream.
type Subscription struct {
	bus     *Bus
	ch      chan Event
	closed  chan struct{}
	once    sync.Once
	dropped atomic.Uint64
}

// Next returns the next event, waiting for one until ctx is done or the
// stream is closed; then it returns false. Lost events come first, as one
// event named Dropped.
func (s *Subscription) Next(ctx context.Context) (Event, bool) {
	if n := s.dropped.Swap(0); n > 0 {
		return Event{Time: time.Now(), Name: Dropped, Count: n}, true
	}
	select {
	case e := <-s.ch:
		return e, true
	default:
	}
	select {
	case e := <-s.ch:
		return e, true
	case <-s.closed:
		return Event{}, false
	case <-ctx.Done():
		return Event{}, false
	}
}

// Pending returns how many events can be had without waiting.
func (s *Subscription) Pending() int { return len(s.ch) }

// Close ends the stream. It may be called more than once.
func (s *Subscription) Close() {
	s.once.Do(func() {
		s.bus.mu.Lock()
		defer s.bus.mu.Unlock()
		var keep []*Subscription
		for _, o := range *s.bus.subs.Load() {
			if o != s {
				keep = append(keep, o)
			}
		}
		s.bus.subs.Store(&keep)
		close(s.closed)
	})
}
