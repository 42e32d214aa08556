// Plan of this file: what a kernel client of NFSv4 holds, as the administrator
// sees it, and the end of that client by his order: the programs of a client
// that lives after all go on, but for what was taken from them. At last an
// unmount that leaves nothing behind.

package kernel

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"sluice/pkg/admin"
	"sluice/test/testenv"
)

// ask runs one of sluice's admin commands with --json.
func ask[T any](t *testing.T, s *testenv.Server, args ...string) (v T) {
	t.Helper()
	out, err := s.Admin(append(args, "--json")...)
	if err == nil {
		err = json.Unmarshal([]byte(out), &v)
	}
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func waitUntil(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); !ok(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("waited for %s", what)
		}
	}
}

func TestHeldByAKernelClient(t *testing.T) {
	t.Parallel()
	dir := testenv.Disk(t)
	file := filepath.Join(dir, "locked")
	// A local process has the file open: else the client gets a delegation, and
	// keeps the lock to itself.
	local, err := os.Create(file)
	if err != nil {
		t.Fatal(err)
	}
	defer local.Close()
	s := testenv.StartServer(t, testenv.ServerConfig{Exports: []testenv.Export{{Dir: dir}}})
	if s.Stats(t) == nil {
		t.Skip("another server has no commands to ask")
	}
	g := Boot(t)
	// No version is named, and no export: the newest of both, and the root.
	g.Sh(t, "mkdir -p /mnt/held; mount -t nfs -o port=%d %s:/ /mnt/held", s.Port, testenv.ServerIP)
	at := "/mnt/held" + dir
	g.Sh(t, "flock %[1]s/locked -c 'echo in >>%[1]s/locked; echo locked >/mnt/taken; sleep 1000' >/dev/null 2>&1 & "+
		"while [ ! -e /mnt/taken ]; do sleep 0.1; done", at)

	clients := ask[admin.Clients](t, s, "clients").NFS4
	if len(clients) != 1 || clients[0].MinorVersion != 2 || clients[0].State != admin.StateActive || !clients[0].Reclaimed || !clients[0].Recorded ||
		clients[0].Sessions != 1 || clients[0].Opens != 1 || clients[0].Locks != 1 || clients[0].Implementation == "" {
		t.Fatalf("clients: %+v", clients)
	}
	first := clients[0].ID
	if list := ask[[]admin.Open](t, s, "opens", "--client", first.String()); len(list) != 1 || list[0].File.Path != file || list[0].LockOwners != 1 {
		t.Errorf("opens: %+v", list)
	}
	if list := ask[[]admin.Lock](t, s, "locks"); len(list) != 1 || list[0].Client != first || list[0].Type != "write" || list[0].Start != 0 || list[0].Length != 0 || list[0].File.Path != file {
		t.Errorf("locks: %+v", list)
	}

	ask[admin.Expired](t, s, "clients", "expire", first.String())
	if list := ask[[]admin.Lock](t, s, "locks"); len(list) != 0 {
		t.Errorf("locks of a client that was ended: %+v", list)
	}
	// The client finds out, begins anew, and works.
	g.Sh(t, "echo after >%[1]s/new; cat %[1]s/new; ls -l %[1]s", at)
	clients = ask[admin.Clients](t, s, "clients").NFS4
	if len(clients) != 1 || clients[0].ID == first || clients[0].State != admin.StateActive {
		t.Errorf("after the end of %v: %+v", first, clients)
	}

	g.Sh(t, "pkill -x flock; pkill -x sleep; sleep 0.5; umount -R /mnt/held")
	waitUntil(t, "nothing to be left", func() bool {
		st := ask[admin.Status](t, s, "status").NFS4
		return st.Clients == 0 && st.UnconfirmedClients == 0 && st.Sessions == 0 && st.Opens == 0 && st.Locks == 0 && st.Delegations == 0
	})
	if st := s.Stats(t).NFS4; st.ClientsExpired != 1 || st.ClientsEnded != 2 {
		t.Errorf("%d clients ended, %d of them expired", st.ClientsEnded, st.ClientsExpired)
	}
}
