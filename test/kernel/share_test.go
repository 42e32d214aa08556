// Plan of this file: two guests that share an export by NFSv4, and a process on
// the server's own machine that uses the same directory. What one of the three
// locks or writes the other two must see, also across a restart of the server;
// and when both clients have gone, nothing of them is left.

package kernel

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"sluice/test/fscheck"
	"sluice/test/testenv"
)

// A pair is two guests on one export.
type pair struct {
	server *testenv.Server
	a, b   *Guest
	export string // on this machine
	mnt    string // in both guests
}

// inGuests fails the test if a program that guests run is missing: a guest's
// programs are this machine's, and whoever can start a guest can install them.
func inGuests(t *testing.T, names ...string) {
	t.Helper()
	testenv.Sandboxed(t)
	for _, name := range names {
		if _, err := exec.LookPath(name); err != nil {
			t.Fatalf("%v: a guest needs it; test/scripts/packages.sh installs it", err)
		}
	}
}

func TestTwoClients(t *testing.T) {
	t.Parallel()
	inGuests(t, "git", "sqlite3", "gcc", "make")
	// A read mode for each: what two clients share is read in every one.
	for _, c := range []struct{ version, mode string }{{"4.2", "direct"}, {"4.1", "dontcache"}, {"4.0", "buffered"}} {
		t.Run(c.version, func(t *testing.T) {
			t.Parallel()
			p := &pair{a: Boot(t), b: Boot(t), export: testenv.Disk(t), mnt: "/mnt/shared"}
			p.server = testenv.StartServer(t, testenv.ServerConfig{Exports: []testenv.Export{{Dir: p.export}}})
			if err := p.server.SetMode(c.mode); err != nil {
				t.Fatal(err)
			}
			t.Run("mounted", func(t *testing.T) { p.mounted(t, c.version) })
			nothingHeld(t, p.server)
			if n := p.server.Stats(t).NFS4.DelegationsRevoked; n != 0 {
				t.Errorf("%d delegations were revoked, none had to be", n)
			}
		})
	}
}

// mounted runs all cases; its end unmounts.
func (p *pair) mounted(t *testing.T, version string) {
	for _, g := range []*Guest{p.a, p.b} {
		g.MountVersion(t, p.server, version, p.export, p.mnt, "")
	}
	for _, c := range []struct {
		name string
		fn   func(*testing.T)
	}{
		{"locks", p.locks},
		{"locks of a local process", p.localLocks},
		{"waiting for locks", p.waiting},
		{"delegations", p.delegations},
		{"SQLite", p.sqlite},
		{"git", p.git},
		{"build", p.build},
		{"restart by SIGKILL", func(t *testing.T) { p.restart(t, "names=0", p.server.Kill) }},
		{"restart by SIGTERM", func(t *testing.T) { p.restart(t, "names=1", p.server.Stop) }},
	} {
		t.Run(c.name, c.fn)
	}
}

// hold has a guest take a lock on a file and keep it; release ends that.
func (p *pair) hold(t *testing.T, g *Guest, file string, q request) (release func()) {
	t.Helper()
	until := tmpDir + "/release-" + file
	g.Sh(t, "rm -f %[1]s %[1]s.ready", until)
	done := make(chan error, 1)
	go func() { done <- g.CheckAs(t, root, "lock", p.mnt, append(q.options(file), "until="+until)...) }()
	g.Sh(t, "for i in $(seq 1200); do [ ! -e %[1]s.ready ] || exit 0; sleep 0.05; done; exit 1", until)
	return func() {
		t.Helper()
		g.Sh(t, "touch %s", until)
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

const (
	tmpDir = "/run/tmp" // a writable directory in every guest
	common = "locked"   // the file whose locks all ask for
)

// A request is one for a lock; it is what another holds that decides.
type request struct{ kind, typ, start, length, want string }

func (q request) options(file string) []string {
	return []string{"file=" + file, "kind=" + q.kind, "type=" + q.typ, "start=" + q.start, "len=" + q.length, "want=" + q.want}
}

// ask has a guest make a request for a lock on the file that all use, or this
// machine if there is no guest.
func (p *pair) ask(t *testing.T, g *Guest, q request) {
	t.Helper()
	p.askFor(t, g, common, q)
}

func (p *pair) askFor(t *testing.T, g *Guest, file string, q request) {
	t.Helper()
	var err error
	who := "a local process"
	if g != nil {
		who = fmt.Sprint("guest ", g.id)
		err = g.CheckAs(t, root, "lock", p.mnt, q.options(file)...)
	} else {
		err = fscheck.Run("lock", p.export, map[string]string{
			"file": file, "kind": q.kind, "type": q.typ, "start": q.start, "len": q.length, "want": q.want}, t.Output())
	}
	if err != nil {
		t.Errorf("%s, %+v: %v", who, q, err)
	}
}

// locks has one guest hold a lock of each kind while the other and a local
// process try theirs. By NFS a flock is a lock of the whole file.
func (p *pair) locks(t *testing.T) {
	for _, kind := range []string{"fcntl", "ofd", "flock"} {
		start, length, outside := "100", "100", "granted"
		if kind == "flock" {
			start, length, outside = "0", "0", "refused"
		}
		release := p.hold(t, p.a, common, request{kind, "write", start, length, "granted"})
		for _, g := range []*Guest{p.b, nil} {
			p.ask(t, g, request{"fcntl", "write", "150", "10", "refused"})
			p.ask(t, g, request{"ofd", "read", "199", "1", "refused"})
			p.ask(t, g, request{"fcntl", "write", "0", "100", outside})
			p.ask(t, g, request{"fcntl", "read", "200", "0", outside})
		}
		p.ask(t, p.b, request{"flock", "write", "0", "0", "refused"})
		p.ask(t, p.a, request{"fcntl", "write", "150", "10", "refused"})
		release()
		for _, g := range []*Guest{p.b, nil} {
			p.ask(t, g, request{"fcntl", "write", "0", "0", "granted"})
		}

		release = p.hold(t, p.a, common, request{kind, "read", start, length, "granted"})
		for _, g := range []*Guest{p.b, nil} {
			p.ask(t, g, request{"fcntl", "write", "150", "10", "refused"})
			p.ask(t, g, request{"fcntl", "read", "150", "10", "granted"})
		}
		p.ask(t, p.b, request{"flock", "read", "0", "0", "granted"})
		release()
		p.ask(t, p.b, request{"flock", "write", "0", "0", "granted"})
	}
}

// holdLocally is hold by a process of this machine.
func (p *pair) holdLocally(t *testing.T) (release func()) {
	t.Helper()
	until := filepath.Join(t.TempDir(), "release")
	done := make(chan error, 1)
	go func() {
		done <- fscheck.Run("lock", p.export, map[string]string{"file": common, "kind": "ofd", "start": "100", "len": "100", "until": until}, t.Output())
	}()
	waitUntil(t, "the local lock", func() bool { _, err := os.Stat(until + ".ready"); return err == nil })
	return func() {
		if err := errors.Join(os.WriteFile(until, nil, 0o600), <-done); err != nil {
			t.Error(err)
		}
	}
}

// localLocks has a local process hold the lock that the clients want.
func (p *pair) localLocks(t *testing.T) {
	release := p.holdLocally(t)
	for _, g := range []*Guest{p.a, p.b} {
		p.ask(t, g, request{"fcntl", "write", "150", "10", "refused"})
		p.ask(t, g, request{"ofd", "read", "150", "10", "refused"})
		p.ask(t, g, request{"flock", "write", "0", "0", "refused"})
		p.ask(t, g, request{"fcntl", "write", "200", "0", "granted"})
	}
	release()
	p.ask(t, p.a, request{"fcntl", "write", "0", "0", "granted"})
}

// waiting has a client, and a local process, wait for a lock until its holder,
// of either kind, lets go.
func (p *pair) waiting(t *testing.T) {
	inGuest := func(kind string) func() error {
		return func() error { return p.b.CheckAs(t, root, "lock", p.mnt, "file="+common, "kind="+kind, "wait=1") }
	}
	locally := func() error {
		return fscheck.Run("lock", p.export, map[string]string{"file": common, "kind": "ofd", "wait": "1"}, t.Output())
	}
	byClient := func() func() {
		return p.hold(t, p.a, common, request{"fcntl", "write", "100", "100", "granted"})
	}
	for _, c := range []struct {
		name string
		hold func() (release func())
		wait func() error
	}{
		{"a client for a client", byClient, inGuest("fcntl")},
		{"flock for a client", byClient, inGuest("flock")},
		{"a local process for a client", byClient, locally},
		{"a client for a local process", func() func() { return p.holdLocally(t) }, inGuest("fcntl")},
	} {
		release := c.hold()
		done := make(chan error, 1)
		go func() { done <- c.wait() }()
		pause(500)
		select {
		case err := <-done:
			t.Errorf("%s: did not wait, %v", c.name, err)
			done <- err
		default:
		}
		release()
		began := time.Now()
		if err := <-done; err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		t.Logf("%s: %v after the lock was free", c.name, time.Since(began))
	}
}

// delegations has each of the three write what the two clients have read and
// hold delegations on. Whoever sees the old text after the writer has closed
// was not called back in time. Each round has a file of its own: the server
// gives none on a file again so soon after a conflict.
func (p *pair) delegations(t *testing.T) {
	before := p.server.Stats(t).NFS4
	for i := range 6 {
		name := fmt.Sprint("delegated", i)
		p.writeLocally(t, name, "first text")
		p.everyoneReads(t, name, "first text")
		for j := range 3 {
			text := fmt.Sprint("text ", j)
			switch (i + j) % 3 {
			case 0:
				p.b.Sh(t, "echo '%s' > %s/%s", text, p.mnt, name)
			case 1:
				p.writeLocally(t, name, text)
			case 2:
				p.a.Sh(t, "echo '%s' > %s/%s", text, p.mnt, name)
			}
			p.everyoneReads(t, name, text)
		}
	}
	after := p.server.Stats(t).NFS4
	granted, recalled := after.DelegationsGranted-before.DelegationsGranted, after.DelegationsRecalled-before.DelegationsRecalled
	t.Logf("%d delegations granted, %d recalled", granted, recalled)
	if granted < 12 || recalled < 8 {
		t.Errorf("%d delegations granted, %d recalled, want 12 and 8 at least: two clients, six files, and who writes is not called", granted, recalled)
	}
}

func (p *pair) writeLocally(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(p.export, name), []byte(text+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
}

// everyoneReads has both guests read a line twice, as the second time a
// delegation may answer, and a local process once.
func (p *pair) everyoneReads(t *testing.T, name, text string) {
	t.Helper()
	for _, g := range []*Guest{p.a, p.b} {
		g.Sh(t, "for i in 1 2; do read -r line < %s/%s; [ \"$line\" = '%s' ] || { echo \"stale: $line\"; exit 1; }; done", p.mnt, name, text)
	}
	if b, err := os.ReadFile(filepath.Join(p.export, name)); string(b) != text+"\n" {
		t.Errorf("a local process reads %q, %v; want %q", b, err, text)
	}
}

// restart ends the server below a load while a client holds two locks: it must
// have them after, and none other may. One of the files nobody else has opened:
// from 4.1 on the client has a delegation to write it, keeps the lock to itself
// and must get that delegation back.
func (p *pair) restart(t *testing.T, names string, end func() error) {
	quiet := "quiet-" + names
	release := p.hold(t, p.a, common, request{"fcntl", "write", "100", "100", "granted"})
	releaseQuiet := p.hold(t, p.a, quiet, request{"fcntl", "write", "100", "100", "granted"})
	load := make(chan error, 1)
	go func() { load <- p.b.CheckAs(t, root, "load", p.mnt, "seconds=3", "workers=2", names) }()
	pause(1000)
	began := time.Now()
	if err := errors.Join(end(), p.server.Start()); err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{common, quiet} {
		p.askFor(t, p.b, file, request{"fcntl", "write", "150", "10", "refused"})
		t.Logf("%s: reclaimed within %v", file, time.Since(began))
		p.askFor(t, nil, file, request{"fcntl", "write", "150", "10", "refused"})
		p.askFor(t, p.b, file, request{"fcntl", "write", "200", "0", "granted"})
	}
	release()
	releaseQuiet()
	p.ask(t, p.b, request{"fcntl", "write", "0", "0", "granted"})
	p.askFor(t, p.b, quiet, request{"fcntl", "write", "0", "0", "granted"})
	if err := <-load; err != nil {
		t.Error(err)
	}
}
