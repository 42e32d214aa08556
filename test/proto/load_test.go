package proto

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"sluice/exports"
	"sluice/pkg/admin"
	"sluice/pkg/server"
	"sluice/rpc"
	"sluice/test/nfscall"
	"sluice/test/testenv"
	wire3 "sluice/xdr/nfs3"
)

// Eight clients make, move and remove names in one directory, each its own and
// some together: nobody sees an error that the kernel would not give.
func TestManyClientsOneDirectory(t *testing.T) {
	i := serve(t, "rw,insecure,sync,no_root_squash")
	_, root := i.root(t)
	const clients, rounds = 8, 40
	var wg sync.WaitGroup
	won := make([]int, clients)
	for n := range clients {
		c := i.client(t, nfscall.Root())
		wg.Go(func() {
			for r := range rounds {
				name := fmt.Sprintf("c%d-%d", n, r)
				h := c.Create(t, root, name, 0o644)
				c.Write(t, h, 0, []byte(name))
				c.WantStatus(t, "RENAME", wire3.NFSPROC3_RENAME, &wire3.RENAME3args{From: nfscall.Dirop(root, name), To: nfscall.Dirop(root, name+"x")}, wire3.NFS3_OK)
				if data, _ := c.Read(t, h, 0, 100); string(data) != name {
					t.Errorf("%s holds %q", name, data)
				}
				// All race for one name: exactly one makes it.
				args := &wire3.CREATE3args{Where: nfscall.Dirop(root, fmt.Sprint("race", r)), How: wire3.Createhow3{Mode: wire3.GUARDED, ObjAttributes: nfscall.Mode(0o644)}}
				switch st := c.Status(t, wire3.NFSPROC3_CREATE, args); st {
				case wire3.NFS3_OK:
					won[n]++
				case wire3.NFS3ERR_EXIST:
				default:
					t.Errorf("CREATE GUARDED: %v", st)
				}
				if r%2 == 0 {
					c.WantStatus(t, "REMOVE", wire3.NFSPROC3_REMOVE, &wire3.REMOVE3args{Object: nfscall.Dirop(root, name+"x")}, wire3.NFS3_OK)
				}
			}
		})
	}
	wg.Wait()
	sum := 0
	for _, w := range won {
		sum += w
	}
	if sum != rounds {
		t.Errorf("%d of %d races were won", sum, rounds)
	}
	entries, err := os.ReadDir(i.dir)
	nfscall.Must(t, err)
	if want := rounds + clients*rounds/2; len(entries) != want {
		t.Errorf("%d names are left, want %d", len(entries), want)
	}
}

// Connections dropped with large READs in flight: their replies never reach a
// later connection that got the same descriptor, whatever the read mode.
func TestDroppedConnections(t *testing.T) {
	for _, mode := range []string{"buffered", "dontcache", "direct"} {
		t.Run(mode, func(t *testing.T) { droppedConnections(t, mode) })
	}
}

func droppedConnections(t *testing.T, mode string) {
	i := serve(t, "rw,insecure,async,no_root_squash")
	i.cfg.ReadMode, i.cfg.Admin = mode, filepath.Join(i.cfg.State, "admin.sock")
	i.restart(t)
	c, root := i.root(t)
	const size = 1 << 20
	nfscall.Must(t, os.WriteFile(i.path("secret"), bytes.Repeat([]byte("S"), 8*size), 0o600))
	nfscall.Must(t, os.WriteFile(i.path("public"), bytes.Repeat([]byte("P"), size), 0o644))
	secret, public := c.Lookup(t, root, "secret"), c.Lookup(t, root, "public")
	cred := nfscall.Root()
	read := func(nc net.Conn, xid uint32, fh []byte, off uint64) {
		t.Helper()
		_, err := nc.Write(rpc.EncodeCall(nil, xid, wire3.NFS_PROGRAM, wire3.NFS_V3, wire3.NFSPROC3_READ, &cred,
			&wire3.READ3args{File: nfscall.FH(fh), Offset: off, Count: size}))
		nfscall.Must(t, err)
	}
	dropped := map[int]bool{} // descriptors that dropped connections had
	reused := 0               // connections that got one of them
	for round := range 60 {
		nc, err := net.Dial("tcp", i.addr)
		nfscall.Must(t, err)
		fd := serverEnd(t, nc)
		for k := range uint32(16) {
			read(nc, k, secret, uint64(k%8)*size)
		}
		if round%2 == 0 {
			nc.(*net.TCPConn).SetLinger(0)
			var one [100000]byte
			nc.Read(one[:]) // some of it is on the way
		}
		nc.Close()
		dropped[fd] = true
		for range 3 {
			fresh, err := net.Dial("tcp", i.addr)
			nfscall.Must(t, err)
			fresh.SetDeadline(time.Now().Add(20 * time.Second))
			read(fresh, 0xabcd, public, 0)
			if dropped[serverEnd(t, fresh)] {
				reused++
			}
			b, err := rpc.ReadRecord(fresh, 4<<20)
			nfscall.Must(t, err)
			if xid := binary.BigEndian.Uint32(b); xid != 0xabcd {
				t.Fatalf("round %d: a reply to call %x on a connection that made one call", round, xid)
			}
			if bytes.IndexByte(b[200:], 'S') >= 0 || !bytes.HasSuffix(b, []byte("PPPP")) {
				t.Fatalf("round %d: another file's data", round)
			}
			fresh.Close()
		}
	}
	if t.Logf("%d of 180 connections had the descriptor of a dropped one", reused); reused < 20 {
		t.Errorf("only %d of 180 connections had the descriptor of a dropped one", reused)
	}
	var st admin.Stats
	nfscall.Must(t, admin.NewClient(i.cfg.Admin).Do(t.Context(), "GET", admin.PathStats, nil, &st))
	for _, m := range st.Read {
		if (m.Mode == mode) != (m.Calls > 0) {
			t.Errorf("%d READs in mode %s", m.Calls, m.Mode)
		}
	}
}

// serverEnd returns the descriptor that the server, which is in this process,
// has for a connection, once it has accepted it.
func serverEnd(t testing.TB, nc net.Conn) int {
	t.Helper()
	server, client := nc.RemoteAddr().(*net.TCPAddr).Port, nc.LocalAddr().(*net.TCPAddr).Port
	port := func(sa unix.Sockaddr, err error) int {
		if in, ok := sa.(*unix.SockaddrInet4); ok && err == nil {
			return in.Port
		}
		return 0
	}
	for range 2000 {
		fds, err := os.ReadDir("/proc/self/fd")
		nfscall.Must(t, err)
		for _, f := range fds {
			fd, err := strconv.Atoi(f.Name())
			nfscall.Must(t, err)
			if port(unix.Getsockname(fd)) == server && port(unix.Getpeername(fd)) == client {
				return fd
			}
		}
		time.Sleep(5 * time.Millisecond)
	}
	t.Fatal("the server does not accept a connection")
	return -1
}

const serveEnv = "SLUICE_PROTO_SERVE"

// serveFewDescriptors is the other process of TestFewDescriptors: a server of a
// directory, limited to 128 descriptors, until its input ends.
func serveFewDescriptors(dir string) int {
	lim := unix.Rlimit{Cur: 128, Max: 128}
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &lim); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	cfg := server.Defaults()
	cfg.Exports, cfg.Admin, cfg.Rpcbind, cfg.Listen, cfg.LogLevel = "", "", "off", "127.0.0.1:0", "warn"
	cfg.State = dir + ".state"
	cfg.Export = []string{fmt.Sprintf("%s *(rw,insecure,async,no_root_squash)", exports.Quote(dir))}
	s, err := server.New(cfg)
	if err == nil {
		err = s.Start()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	fmt.Println(s.Addrs()[0])
	os.Stdin.Read(make([]byte, 1))
	if err := s.Shutdown(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// A process limit of 128 descriptors under 11,000 creates: no error reaches
// the clients. Nor does JUKEBOX, with which a server may ask to try again: Linux
// would, but only after five seconds (NFS_JUKEBOX_RETRY_TIME), and what a call
// needs is there as soon as the calls before it are done.
func TestFewDescriptors(t *testing.T) {
	testenv.Sandboxed(t)
	dir := t.TempDir()
	nfscall.Must(t, unix.Mount("tmpfs", dir, "tmpfs", 0, "mode=755"))
	defer unix.Unmount(dir, unix.MNT_DETACH)
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "/proc/self/exe")
	cmd.Env = append(os.Environ(), serveEnv+"="+dir)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	nfscall.Must(t, err)
	out, err := cmd.StdoutPipe()
	nfscall.Must(t, err)
	nfscall.Must(t, cmd.Start())
	defer func() {
		in.Close()
		if err := cmd.Wait(); err != nil {
			t.Errorf("the server: %v", err)
		}
	}()
	var line [256]byte
	n, err := out.Read(line[:])
	if err != nil {
		t.Fatalf("the server did not start: %v", err)
	}
	addr := strings.TrimSpace(string(line[:n]))

	root := nfscall.Dial(t, addr, nfscall.Root()).Mount(t, dir)
	var wg sync.WaitGroup
	const clients, files = 8, 1400
	for k := range clients {
		c := nfscall.Dial(t, addr, nfscall.Root())
		wg.Go(func() {
			for f := range files {
				name := fmt.Sprintf("%d-%d", k, f)
				c.WantStatus(t, "CREATE", wire3.NFSPROC3_CREATE, &wire3.CREATE3args{Where: nfscall.Dirop(root, name), How: wire3.Createhow3{ObjAttributes: nfscall.Mode(0o644)}}, wire3.NFS3_OK)
				h := c.Lookup(t, root, name)
				if f%8 == 0 {
					c.WantStatus(t, "WRITE", wire3.NFSPROC3_WRITE, &wire3.WRITE3args{File: nfscall.FH(h), Count: 1, Data: []byte("x")}, wire3.NFS3_OK)
				}
			}
			for f := 0; f < files; f += 2 {
				c.WantStatus(t, "REMOVE", wire3.NFSPROC3_REMOVE, &wire3.REMOVE3args{Object: nfscall.Dirop(root, fmt.Sprintf("%d-%d", k, f))}, wire3.NFS3_OK)
			}
		})
	}
	wg.Wait()
	entries, err := os.ReadDir(dir)
	nfscall.Must(t, err)
	if len(entries) != clients*files/2 {
		t.Errorf("%d names, want %d", len(entries), clients*files/2)
	}
}

// Three clients list 5,000 names while others come and go.
func TestManyNames(t *testing.T) {
	i := serve(t, "rw,insecure,async,no_root_squash")
	const names = 5000
	for n := range names {
		nfscall.Must(t, os.WriteFile(i.path(fmt.Sprintf("name-%06d", n)), nil, 0o644))
	}
	_, root := i.root(t)
	stop := make(chan struct{})
	var churn, wg sync.WaitGroup
	churn.Go(func() {
		// Renames, not creates: ext4 is slow to reuse inodes that were just freed.
		name := func(k int) string { return i.path(fmt.Sprint("churn", k)) }
		os.WriteFile(name(0), nil, 0o644)
		for k := 0; ; k++ {
			select {
			case <-stop:
				return
			default:
			}
			if err := os.Rename(name(k), name(k+1)); err != nil {
				t.Error(err)
				return
			}
			time.Sleep(time.Millisecond)
		}
	})
	for k := range 3 {
		c := i.client(t, nfscall.Root())
		count := []uint32{2000, 32768, 1 << 20}[k]
		wg.Go(func() {
			seen := map[string]int{}
			var cookie uint64
			var verf [8]byte
			for {
				var res wire3.READDIRPLUS3res
				c.Do(t, wire3.NFSPROC3_READDIRPLUS, &wire3.READDIRPLUS3args{Dir: nfscall.FH(root), Cookie: cookie, Cookieverf: verf, Dircount: count, Maxcount: count}, &res)
				if res.Status != wire3.NFS3_OK {
					t.Errorf("count %d: %v", count, res.Status)
					return
				}
				for _, e := range res.Resok.Reply.Entries {
					if bytes.HasPrefix(e.Name, []byte("name-")) {
						seen[string(e.Name)]++
						if !e.NameHandle.HandleFollows || !e.NameAttributes.AttributesFollow {
							t.Errorf("%s comes without handle or attributes", e.Name)
						}
					}
					cookie = e.Cookie
				}
				verf = res.Resok.Cookieverf
				if res.Resok.Reply.Eof {
					break
				}
			}
			for n, times := range seen {
				if times != 1 {
					t.Errorf("count %d: %s listed %d times", count, n, times)
				}
			}
			if len(seen) != names {
				t.Errorf("count %d: %d names, want %d", count, len(seen), names)
			}
		})
	}
	wg.Wait()
	close(stop)
	churn.Wait()
}
