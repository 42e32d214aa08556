// Plan of this file: a client of NFSv4.2 takes opens, locks and a delegation
// from a running server, and the commands show them, for people and in JSON;
// then its end is ordered.

package main

import (
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"sluice/pkg/admin"
	"sluice/test/nfscall"
	wire4 "sluice/xdr/nfs4"
)

// components are the names of the path to a directory.
func components(dir string) []string { return strings.Split(strings.Trim(dir, "/"), "/") }

func TestHeldCommands(t *testing.T) {
	l := newLive(t)
	for _, name := range []string{"sessions", "opens", "locks", "delegations", "copies"} {
		if out := l.do(t, name, "--json"); out != "[]\n" {
			t.Errorf("sluice %s --json, when there are none: %q", name, out)
		}
	}
	// A local process that has the file open for writing, before the client: so
	// there is no delegation to wait for.
	file := filepath.Join(l.dir2(), "data")
	fd, err := unix.Open(file, unix.O_RDWR|unix.O_CLOEXEC, 0)
	nfscall.Must(t, err)
	defer unix.Close(fd)
	s := nfscall.Dial(t, l.addr, nfscall.Root()).Session(t, 2, "host/\x01 A")
	open, fh := s.Open(t, components(l.dir2()), "data", wire4.OPEN4_SHARE_ACCESS_BOTH, wire4.OPEN4_SHARE_DENY_WRITE)
	s.Lock(t, fh, open.Stateid, "one", wire4.WRITE_LT, 100, 50)
	s.Lock(t, fh, open.Stateid, "two", wire4.READ_LT, 1000, ^uint64(0))
	// A second client, of another version, whose id is not the one asked for.
	other := nfscall.Dial(t, l.addr, nfscall.Root()).Session(t, 1, "B")
	other.Open(t, components(l.dir2()), "new", wire4.OPEN4_SHARE_ACCESS_READ, 0)
	a, b := fmt.Sprintf("%016x", s.ClientID), fmt.Sprintf("%016x", other.ClientID)

	clients := object[admin.Clients](t, l, "clients")
	if len(clients.Connections) != 3 || len(clients.NFS4) != 2 {
		t.Fatalf("clients: %+v", clients)
	}
	// Lists are in the order of the ids, which tell nothing of who came first.
	inOrder := func(ofA, ofB string) string {
		if a < b {
			return ofA + ofB
		}
		return ofB + ofA
	}
	x := clients.NFS4[slices.IndexFunc(clients.NFS4, func(k admin.NFS4Client) bool { return uint64(k.ID) == s.ClientID })]
	x.LeaseAgeSeconds, x.Delegations = 0, 0
	if want := (admin.NFS4Client{ID: admin.ClientID(s.ClientID), Owner: `host/\x01 A`, Address: "127.0.0.1", MinorVersion: 2, Implementation: "a test", State: admin.StateActive,
		Callback: x.Callback, Reclaimed: true, Recorded: true, Sessions: 1, Opens: 1, Locks: 2}); x != want {
		t.Errorf("clients: %+v, want %+v", x, want)
	}
	row := func(id, version, rest string) string {
		return id + ` +127\.0\.0\.1 +` + version + ` +active +\S+ +(?:unknown|up|down) +1 +` + rest
	}
	l.want(t, `ID +ADDRESS .*\n\nNFSV4 CLIENT +ADDRESS +VERSION +STATE +LEASE +CALLBACK +SESSIONS +OPENS +LOCKS +DELEGATIONS +NAME\n`+
		inOrder(row(a, `4\.2`, `1 +2 +\d +host/\\x01 A\n`), row(b, `4\.1`, `1 +0 +\d +B\n`)), "clients")

	sessions := object[[]admin.Session](t, l, "sessions", "--client", a)
	if len(sessions) != 1 || len(sessions[0].ID) != 32 || sessions[0].Slots != 8 || sessions[0].Connections != 1 || sessions[0].BackConnections != 1 ||
		sessions[0].Fore.MaxOperations != 16 || sessions[0].ReplyCacheBytes == 0 {
		t.Errorf("sessions: %+v", sessions)
	}
	l.want(t, `SESSION +CLIENT +SLOTS +TARGET +BUSY +CONNECTIONS +FOR CALLBACKS +CACHED\n(?:[0-9a-f]{32} +[0-9a-f]{16} +8 +8 +0 +1 +1 +\S+ \S+\n){2}`, "sessions")

	var st unix.Stat_t
	nfscall.Must(t, unix.Stat(file, &st))
	opens := object[[]admin.Open](t, l, "opens", "--client", a)
	if len(opens) != 1 || opens[0].File.Path != file || opens[0].File.Inode != st.Ino || opens[0].File.Device != fmt.Sprintf("%d:%d", unix.Major(st.Dev), unix.Minor(st.Dev)) ||
		opens[0].File.Handle == "" || opens[0].Access != "both" || opens[0].Deny != "write" || opens[0].Owner != "owner" || opens[0].LockOwners != 2 {
		t.Errorf("opens: %+v", opens)
	}
	l.want(t, `CLIENT +ACCESS +DENY +LOCKERS +FILE\n`+inOrder(a+` +both +write +2 +`+regexp.QuoteMeta(file)+`\n`, b+` +read +none +0 +`+regexp.QuoteMeta(filepath.Join(l.dir2(), "new"))+`\n`), "opens")

	locks := object[[]admin.Lock](t, l, "locks")
	if len(locks) != 2 || locks[0].Type != "write" || locks[0].Start != 100 || locks[0].Length != 50 || locks[0].Owner != "one" || locks[0].File.Path != file ||
		locks[1].Type != "read" || locks[1].Start != 1000 || locks[1].Length != 0 || locks[1].Waiting || uint64(locks[1].Client) != s.ClientID {
		t.Errorf("locks: %+v", locks)
	}
	l.want(t, `CLIENT +TYPE +START +LENGTH +STATE +FILE\n`+a+` +write +100 +50 +held +\S+/data\n`+a+` +read +1000 +- +held +\S+/data\n`, "locks")
	l.want(t, `CLIENT +TYPE +START +LENGTH +STATE +FILE\n`, "locks", "--client", b)
	given := object[[]admin.Delegation](t, l, "delegations")
	if len(given) != 1 || uint64(given[0].Client) != other.ClientID || given[0].File.Path != filepath.Join(l.dir2(), "new") || given[0].Type != "read" || given[0].RecalledSeconds != 0 || !given[0].Leased {
		t.Errorf("delegations: %+v", given)
	}
	l.want(t, `CLIENT +TYPE +RECALLED +LEASE +FILE\n`+b+` +read +- +yes +\S+/new\n`, "delegations")

	local := unix.Flock_t{Type: unix.F_WRLCK, Start: 120, Len: 1}
	if err := unix.FcntlFlock(uintptr(fd), unix.F_OFD_SETLK, &local); err != unix.EAGAIN {
		t.Errorf("a local lock beside the client's: %v", err)
	}

	if st := object[admin.Status](t, l, "status").NFS4; st.GraceSeconds != 0 || st.LeaseSeconds != 90 || st.Clients != 2 || st.CourtesyClients != 0 || st.UnconfirmedClients != 0 ||
		st.Sessions != 2 || st.Opens != 2 || st.Locks != 2 || st.Delegations != 1 || st.ReplyCacheBytes == 0 {
		t.Errorf("status: %+v", st)
	}
	if out := l.do(t, "status"); !regexp.MustCompile(`\nNFSv4 clients +2\nthey hold +2 sessions, 2 opens, 2 locks, 1 delegation\n$`).MatchString(out) {
		t.Errorf("status:\n%s", out)
	}
	counted := object[admin.Stats](t, l, "stats").NFS4
	ops := map[string]uint64{}
	for _, o := range counted.Operations {
		ops[o.Name] = o.Calls
	}
	if ops["EXCHANGE_ID"] != 2 || ops["OPEN"] != 2 || ops["LOCK"] != 2 || ops["RECLAIM_COMPLETE"] != 2 || counted.DelegationsGranted != 1 || counted.LocksGranted != 2 {
		t.Errorf("stats: %+v", counted)
	}
	r := s.Do4(t, append(nfscall.Path4(components(l.dir2())...), nfscall.Op4{Num: wire4.OP_LOOKUP, Args: &wire4.LOOKUP4args{Objname: []byte("none")}})...)
	if r.Status != wire4.NFS4ERR_NOENT {
		t.Errorf("LOOKUP of none: %v", r.Status)
	}
	if out := l.do(t, "stats"); !regexp.MustCompile(`(?s)\nNFSV4 OPERATION +CALLS +ERRORS\n.*\nLOCK +2 +-\nLOOKUP +\d+ +NOENT 1\n.*\ndelegations: 1 granted, 0 recalled, .* locks: 2 granted, 0 denied; opens denied: 0\n` +
		`clients expired: 0; replays: 0; refused in the grace period: 0; errors of stable storage: 0; copies in the background: 0\n$`).MatchString(out) {
		t.Errorf("stats:\n%s", out)
	}

	// The end of one: what it had is free at once, the other has what it had.
	l.want(t, `expired: `+a+`\n`, "clients", "expire", a)
	if !s.Destroyed(t) {
		t.Error("the expired client's session works")
	}
	nfscall.Must(t, unix.FcntlFlock(uintptr(fd), unix.F_OFD_SETLK, &local))
	if left := object[admin.Clients](t, l, "clients").NFS4; len(left) != 1 || uint64(left[0].ID) != other.ClientID || left[0].Opens != 1 {
		t.Errorf("left: %+v", left)
	}
	if text := l.refused(t, "clients", "expire", a); !strings.Contains(text, "no NFSv4 client has the id "+a+"; `sluice clients` shows those there are") {
		t.Error(text)
	}
	if done := object[admin.Expired](t, l, "clients", "expire", b); uint64(done.ID) != other.ClientID {
		t.Errorf("expire --json: %+v", done)
	}
	if !strings.Contains(l.out.String(), "INF NFSv4 client expired by the administrator id="+a) {
		t.Error("the log does not tell of the end")
	}
	// Flags before the subcommand count too.
	third := nfscall.Dial(t, l.addr, nfscall.Root()).Session(t, 2, "C")
	status, stdout, stderr := command(t, "clients", "--json", "--admin", l.socket(), "expire", fmt.Sprintf("%016x", third.ClientID))
	if status != 0 || stdout != fmt.Sprintf("{\n  \"id\": \"%016x\"\n}\n", third.ClientID) {
		t.Errorf("flags before expire: status %d, %q, %q", status, stdout, stderr)
	}
	for _, args := range [][]string{{"clients", "expire"}, {"clients", "expire", "sideways"}, {"clients", "expire", a, b}, {"clients", "sideways"}, {"opens", "--client", "x"}, {"locks", "x"}} {
		if status, _, stderr := command(t, append(args, "--admin", l.socket())...); status != exitUsage {
			t.Errorf("sluice %s: status %d, %q", strings.Join(args, " "), status, stderr)
		}
	}
	l.signal(t, syscall.SIGTERM)
	if st := l.status(t); st != 0 {
		t.Errorf("the server's end: status %d", st)
	}
}
