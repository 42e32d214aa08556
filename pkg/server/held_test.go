// Plan of this file: clients of NFSv4 over the wire, and what the admin plane
// says of them. cmd/sluice tests what the commands print.

package server

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sluice/pkg/admin"
	"sluice/pkg/trace"
	"sluice/test/nfscall"
	wire4 "sluice/xdr/nfs4"
)

func parts(dir string) []string { return strings.Split(strings.Trim(dir, "/"), "/") }

// A client that was on record makes the next start begin with a grace period,
// which ends when the client has said that it reclaims no more.
func TestGraceIsShown(t *testing.T) {
	cfg, dir := testConfig(t)
	cfg.LeaseTime = 25 * time.Second
	s, err := newServer(cfg, new(logText))
	nfscall.Must(t, err)
	nfscall.Must(t, s.Start())
	if st := (backend{s}).Status().NFS4; st.GraceSeconds != 0 || st.LeaseSeconds != 25 {
		t.Errorf("at the first start: %+v", st)
	}
	c := nfscall.Dial(t, s.Addrs()[0], nfscall.Root())
	c.Session(t, 1, "A").Open(t, parts(dir), "data", wire4.OPEN4_SHARE_ACCESS_READ, 0)
	nfscall.Must(t, s.Shutdown())

	s, log := start(t, cfg)
	st := (backend{s}).Status().NFS4
	if st.GraceSeconds < 10 || st.GraceSeconds > 25 || st.Clients != 0 {
		t.Errorf("after a restart: %+v", st)
	}
	if !strings.Contains(log.String(), `INF grace period: NFSv4 clients may reclaim what they held, and open or lock nothing new at_most=25s`) {
		t.Error("the log says nothing of the grace period")
	}
	sub := s.bus.Subscribe(100)
	defer sub.Close()
	x := nfscall.Dial(t, s.Addrs()[0], nfscall.Root()).Session(t, 1, "A")
	wantEvents(t, sub, trace.ClientConnect, trace.NFS4ClientBegin, trace.GraceEnd)
	x.Open(t, parts(dir), "data", wire4.OPEN4_SHARE_ACCESS_READ, 0)
	if st := (backend{s}).Status().NFS4; st.GraceSeconds != 0 || st.Clients != 1 || st.Opens != 1 {
		t.Errorf("after the reclaim: %+v", st)
	}
}

// wantEvents waits for events in this order; others in between don't count.
func wantEvents(t *testing.T, sub *trace.Subscription, names ...trace.Name) (last trace.Event) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	for _, name := range names {
		for last.Name != name {
			var ok bool
			if last, ok = sub.Next(ctx); !ok {
				t.Fatalf("no event %s", name)
			}
		}
	}
	return last
}

// A delegation from its grant to its end, which the administrator orders.
func TestDelegationIsShown(t *testing.T) {
	cfg, dir := testConfig(t)
	s, _ := start(t, cfg)
	b := backend{s}
	sub := s.bus.Subscribe(100)
	defer sub.Close()
	holder := nfscall.Dial(t, s.Addrs()[0], nfscall.Root()).Session(t, 2, "holder")
	if o, _ := holder.Open(t, parts(dir), "data", wire4.OPEN4_SHARE_ACCESS_READ, 0); o.Delegation.DelegationType != wire4.OPEN_DELEGATE_READ {
		t.Fatalf("no delegation: %+v", o.Delegation)
	}
	id := admin.ClientID(holder.ClientID)
	if ev := wantEvents(t, sub, trace.DelegationGranted); ev.NFS4Client != holder.ClientID || ev.Mode != "read" || ev.Client.String() != "127.0.0.1" || ev.File == "" {
		t.Errorf("event %+v", ev)
	}
	list := b.Delegations(id)
	if len(list) != 1 || list[0].File.Path != filepath.Join(dir, "data") || list[0].Type != "read" || !list[0].Leased || list[0].RecalledSeconds != 0 {
		t.Errorf("delegations: %+v", list)
	}

	opened := make(chan struct{})
	go func() {
		defer close(opened)
		other := nfscall.Dial(t, s.Addrs()[0], nfscall.Root()).Session(t, 1, "other")
		other.Open(t, parts(dir), "data", wire4.OPEN4_SHARE_ACCESS_WRITE, 0)
	}()
	wantEvents(t, sub, trace.DelegationRecalled)
	if list := b.Delegations(0); len(list) != 1 || list[0].RecalledSeconds <= 0 {
		t.Errorf("a delegation that is called back: %+v", list)
	}
	nfscall.Must(t, b.ExpireClient(id))
	if ev := wantEvents(t, sub, trace.NFS4ClientEnd); ev.NFS4Client != holder.ClientID || ev.Reason != "administrator" {
		t.Errorf("event %+v", ev)
	}
	<-opened
	st := b.Stats().NFS4
	if st.DelegationsGranted != 1 || st.DelegationsRecalled != 1 || st.DelegationsRevoked != 0 || st.ClientsExpired != 1 || st.ClientsEnded != 1 {
		t.Errorf("stats: %+v", st)
	}
	var missing *admin.NotFoundError
	if err := b.ExpireClient(id); !errors.As(err, &missing) {
		t.Errorf("a second time: %v", err)
	}
	if len(b.Sessions(id)) != 0 || len(b.Opens(id)) != 0 || len(b.Delegations(0)) != 0 || len(b.Opens(0)) != 1 {
		t.Errorf("left: %+v %+v", b.Sessions(0), b.Opens(0))
	}
}

// What clients call themselves harms no terminal, and can be read.
func TestPrintable(t *testing.T) {
	for in, want := range map[string]string{
		`Linux NFSv4.2 host "x"`: `Linux NFSv4.2 host "x"`, "a\x1b[2Jb\n": `a\x1b[2Jb\n`, "\xff\x00": `\xff\x00`, "é": "é", "": "",
	} {
		if got := printable(in); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}

// A client whose record can't be taken off the disk keeps what it has.
func TestExpireWithoutADisk(t *testing.T) {
	cfg, dir := testConfig(t)
	s, _ := start(t, cfg)
	b := backend{s}
	x := nfscall.Dial(t, s.Addrs()[0], nfscall.Root()).Session(t, 2, "A")
	x.Open(t, parts(dir), "data", wire4.OPEN4_SHARE_ACCESS_READ, 0)
	records, err := filepath.Glob(filepath.Join(cfg.State, "clients", "*.client"))
	nfscall.Must(t, err)
	if len(records) != 1 {
		t.Fatalf("records: %v", records)
	}
	nfscall.Must(t, os.Remove(records[0]))
	nfscall.Must(t, os.MkdirAll(filepath.Join(records[0], "in the way"), 0o700)) // unlink(2) fails on it
	var busy *admin.BusyError
	if err := b.ExpireClient(admin.ClientID(x.ClientID)); !errors.As(err, &busy) || !strings.Contains(err.Error(), "try again") {
		t.Errorf("ExpireClient: %v", err)
	}
	if n := len(b.Opens(0)); n != 1 || x.Destroyed(t) {
		t.Errorf("%d opens left", n)
	}
	nfscall.Must(t, os.RemoveAll(records[0]))
	nfscall.Must(t, b.ExpireClient(admin.ClientID(x.ClientID)))
}
