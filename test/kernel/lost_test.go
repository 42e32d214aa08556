// Plan of this file: a client that dies with all it holds. What it had stays its
// own until its lease has run out; then whoever wants it gets it, a restart of
// the server in between or not.

package kernel

import (
	"errors"
	"fmt"
	"syscall"
	"testing"
	"time"

	"sluice/pkg/admin"
	"sluice/test/fscheck"
	"sluice/test/testenv"
)

func TestLostClient(t *testing.T) {
	t.Parallel()
	for _, version := range []string{newest, "4.0"} {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			lostClient(t, version)
		})
	}
}

func lostClient(t *testing.T, version string) {
	p := &pair{a: Boot(t), b: Boot(t), export: testenv.Disk(t), mnt: "/mnt/lost"}
	p.server = testenv.StartServer(t, testenv.ServerConfig{Exports: []testenv.Export{{Dir: p.export}}})
	p.b.MountVersion(t, p.server, version, p.export, p.mnt, "")
	lose := func(t *testing.T) {
		// Not MountVersion: nothing is to be unmounted.
		p.a.Sh(t, "mkdir -p %[1]s; mount -t nfs -o %s %s:%s %[1]s", p.mnt, p.server.MountOptions(version), testenv.ServerIP, p.export)
		p.b.Sh(t, "touch %s/%s", p.mnt, common) // no delegation on it: the server has the lock
		for _, file := range []string{common, "delegated"} {
			p.hold(t, p.a, file, request{"fcntl", "write", "0", "0", "granted"})
		}
		// The guest's processes hold its console: it has ended with the last.
		if err := syscall.Kill(-p.a.cmd.Process.Pid, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		<-p.a.dead.Done()
		p.ask(t, p.b, request{"fcntl", "write", "0", "0", "refused"})
	}
	t.Run("lease", func(t *testing.T) {
		lose(t)
		p.inherit(t)
	})
	p.a = Boot(t)
	t.Run("restart", func(t *testing.T) {
		lose(t)
		if err := errors.Join(p.server.Kill(), p.server.Start()); err != nil {
			t.Fatal(err)
		}
		p.inherit(t)
	})
	if clients := ask[admin.Clients](t, p.server, "clients").NFS4; len(clients) != 1 {
		t.Errorf("clients: %+v, want the one that lives", clients)
	}
}

// inherit has the client that lives get the lost one's locks, and a local
// process the file that was delegated.
func (p *pair) inherit(t *testing.T) {
	began := time.Now()
	local := make(chan error, 1)
	go func() {
		local <- fscheck.Run("lock", p.export, map[string]string{"file": "delegated", "wait": "1"}, t.Output())
	}()
	if err := p.b.CheckAs(t, root, "lock", p.mnt, "file="+common, "wait=1"); err != nil {
		t.Error(err)
	}
	t.Logf("the lock is free after %v", time.Since(began))
	if err := <-local; err != nil {
		t.Error(fmt.Errorf("a local process: %w", err))
	}
	t.Logf("the delegated file is free after %v", time.Since(began))
}
