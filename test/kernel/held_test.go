// Plan of this file: what a kernel client of NFSv4 holds, as the administrator
// sees it, and the end of that client by his order: the programs of a client
// that lives after all go on, but for what was taken from them. At last an
// unmount that leaves nothing behind.

package kernel

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
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
	// A local process has the file open: else the client gets a delegation, and
	// keeps the lock to itself.
	local, err := os.Create(filepath.Join(dir, "locked"))
	if err != nil {
		t.Fatal(err)
	}
	defer local.Close()
	s := testenv.StartServer(t, testenv.ServerConfig{Exports: []testenv.Export{{Dir: dir}}})
	if s.Stats(t) == nil {
		t.Skip("another server has no commands to ask")
	}
	g := Boot(t)
	// With no version named, the client takes the newest that both have.
	for _, v := range []struct {
		options string
		minor   int
	}{{"", 2}, {",vers=4.0", 0}} {
		h := held{s, g, dir, "/mnt/held" + dir}
		g.Sh(t, "rm -f /mnt/taken; mkdir -p /mnt/held; mount -t nfs -o port=%d%s %s:/ /mnt/held", s.Port, v.options, testenv.ServerIP)
		h.end(t, h.take(t, v.minor))
		if n := s.Stats(t).NFS4.DelegationsRevoked; n != 0 {
			t.Errorf("%d delegations were revoked", n)
		}
	}
}

// held is a guest that has mounted the root of a server.
type held struct {
	s       *testenv.Server
	g       *Guest
	dir, at string // on the server, in the guest
}

// take has the guest open and lock a file, and compares what the server shows.
// It returns the client's id.
func (h *held) take(t *testing.T, minor int) admin.ClientID {
	t.Helper()
	h.g.Sh(t, "flock %[1]s/locked -c 'echo in >>%[1]s/locked; echo locked >/mnt/taken; sleep 1000' >/dev/null 2>&1 & "+
		"while [ ! -e /mnt/taken ]; do sleep 0.1; done", h.at)
	clients := ask[admin.Clients](t, h.s, "clients").NFS4
	if len(clients) != 1 {
		t.Fatalf("clients: %+v", clients)
	}
	c := clients[0]
	if c.MinorVersion != minor || c.State != admin.StateActive || !c.Recorded || (c.Sessions == 1) != (minor > 0) || c.Opens == 0 || c.Locks != 1 || c.Callback == "down" || c.Callback == "fault" {
		t.Errorf("client: %+v", c)
	}
	file := filepath.Join(h.dir, "locked")
	if list := ask[[]admin.Open](t, h.s, "opens", "--client", c.ID.String()); len(list) != c.Opens || list[0].File.Path != file {
		t.Errorf("opens: %+v", list)
	}
	if list := ask[[]admin.Lock](t, h.s, "locks"); len(list) != 1 || list[0].Client != c.ID || list[0].Type != "write" || list[0].Start != 0 || list[0].Length != 0 || list[0].File.Path != file {
		t.Errorf("locks: %+v", list)
	}
	return c.ID
}

// end ends the client by order; it works on as another, and leaves nothing when
// it goes.
func (h *held) end(t *testing.T, first admin.ClientID) {
	t.Helper()
	before := h.s.Stats(t).NFS4.ClientsExpired
	ask[admin.Expired](t, h.s, "clients", "expire", first.String())
	if n := h.s.Stats(t).NFS4.ClientsExpired - before; n != 1 {
		t.Errorf("%d clients were ended by an order for one", n)
	}
	if list := ask[[]admin.Lock](t, h.s, "locks"); len(list) != 0 {
		t.Errorf("locks of a client that was ended: %+v", list)
	}
	h.g.Sh(t, "echo after >%[1]s/new; cat %[1]s/new; ls -l %[1]s", h.at)
	clients := ask[admin.Clients](t, h.s, "clients").NFS4
	if len(clients) != 1 || clients[0].ID == first || clients[0].State != admin.StateActive {
		t.Errorf("after the end of %v: %+v", first, clients)
	}
	h.g.Sh(t, "pkill -x flock; pkill -x sleep; sleep 0.5; umount -R /mnt/held")
	nothingHeld(t, h.s)
}

// nothingHeld sees that clients which unmounted in good order left nothing: by
// what the server says, in its state directory, and among its descriptors. A
// client of 4.0 can't say goodbye and is gone when its lease has run out.
func nothingHeld(t *testing.T, s *testenv.Server) {
	t.Helper()
	waitUntil(t, "nothing to be held", func() bool {
		st := ask[admin.Status](t, s, "status").NFS4
		return st.Sessions == 0 && st.Opens == 0 && st.Locks == 0 && st.Delegations == 0
	})
	waitUntil(t, "the clients to be gone", func() bool {
		st := ask[admin.Status](t, s, "status").NFS4
		return st.Clients == 0 && st.UnconfirmedClients == 0
	})
	records, err := filepath.Glob(filepath.Join(s.StateDir(), "clients", "*.client"))
	if err != nil || len(records) != 0 {
		t.Errorf("records of clients that are gone: %q, %v", records, err)
	}
	// The server keeps files open for a few seconds, for whoever comes back.
	var left []string
	defer func() {
		if len(left) > 0 {
			t.Errorf("descriptors left: %q", left)
		}
	}()
	waitUntil(t, "files to be closed", func() bool {
		left = heldDescriptors(t, s)
		return len(left) == 0
	})
}

// heldDescriptors lists the server's descriptors of what it exports.
func heldDescriptors(t *testing.T, s *testenv.Server) (list []string) {
	t.Helper()
	proc := fmt.Sprintf("/proc/%d/", s.PID())
	fds, err := os.ReadDir(proc + "fd")
	if err != nil {
		t.Fatal(err)
	}
	for _, fd := range fds {
		name, err := os.Readlink(proc + "fd/" + fd.Name())
		if err != nil || !strings.HasPrefix(name, s.Exports[0].Dir) {
			continue
		}
		info, err := os.ReadFile(proc + "fdinfo/" + fd.Name()) // tells of locks and leases
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		list = append(list, fmt.Sprintf("%s: %s, %v", name, strings.Join(strings.Fields(string(info)), " "), err))
	}
	return list
}
