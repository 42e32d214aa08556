// Plan of this file: servers in this process, from a configuration to the end:
// what they log, what a start that fails says and leaves behind, reloads and
// ends below load. cmd/sluice tests the same from outside, with signals.

package server

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"sluice/pkg/admin"
	"sluice/pkg/trace"
	"sluice/test/nfscall"
	"sluice/test/testenv"
	"sluice/xdr/mount3"
	wire3 "sluice/xdr/nfs3"
)

func TestMain(m *testing.M) { os.Exit(testenv.Main(m, nil)) }

// logText is a log that can be read while it is written.
type logText struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *logText) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(b)
}

func (l *logText) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

// testConfig exports a new directory with one file, data, to everyone.
func testConfig(t *testing.T) (cfg Config, dir string) {
	t.Helper()
	testenv.Sandboxed(t)
	dir = filepath.Join(t.TempDir(), "export")
	nfscall.Must(t, os.Mkdir(dir, 0o755))
	nfscall.Must(t, os.WriteFile(filepath.Join(dir, "data"), pattern(), 0o644))
	return configFor(t, dir), dir
}

func configFor(t *testing.T, dir string) Config {
	t.Helper()
	work := t.TempDir()
	cfg := Defaults()
	cfg.Exports = filepath.Join(work, "exports")
	cfg.Listen = "127.0.0.1:0"
	cfg.Admin = filepath.Join(work, "admin.sock")
	cfg.State = filepath.Join(work, "state")
	cfg.Rpcbind = "off"
	writeExports(t, cfg, dir+" *(rw,insecure,no_root_squash)\n")
	return cfg
}

func writeExports(t *testing.T, cfg Config, text string) {
	t.Helper()
	nfscall.Must(t, os.WriteFile(cfg.Exports, []byte(text), 0o644))
}

// pattern differs in every 8 bytes.
func pattern() []byte {
	var b bytes.Buffer
	for i := range 32 << 10 {
		fmt.Fprintf(&b, "%07d\n", i)
	}
	return b.Bytes()
}

func start(t *testing.T, cfg Config) (*Server, *logText) {
	t.Helper()
	log := new(logText)
	s, err := newServer(cfg, log)
	nfscall.Must(t, err)
	nfscall.Must(t, s.Start())
	t.Cleanup(func() {
		if err := s.Shutdown(); err != nil {
			t.Errorf("Shutdown: %v", err)
		}
		if t.Failed() {
			text := log.String()
			t.Logf("the end of its log:\n%s", text[max(0, len(text)-2000):])
		}
	})
	return s, log
}

func TestReadyLine(t *testing.T) {
	cfg, _ := testConfig(t)
	cfg.ReadMode = "1"
	s, log := start(t, cfg)
	line := regexp.MustCompile(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z INF ready admin=\S+/admin.sock exports=1 listen=\["` + s.Addrs()[0] +
		`"\] read_mode=dontcache version="?devel.* write_mode=buffered\n$`)
	if !line.MatchString(log.String()) {
		t.Errorf("console: %q, want %s", log, line)
	}

	cfg2, _ := testConfig(t)
	cfg2.LogFormat = "json"
	s, log = start(t, cfg2)
	var ready struct {
		Level, Time, Message, Version, Admin string
		Listen                               []string
		Exports                              int
		ReadMode                             string `json:"read_mode"`
		WriteMode                            string `json:"write_mode"`
	}
	d := json.NewDecoder(strings.NewReader(log.String()))
	d.DisallowUnknownFields()
	if err := d.Decode(&ready); err != nil || d.More() {
		t.Fatalf("json: %q: %v", log, err)
	}
	if _, err := time.Parse(time.RFC3339, ready.Time); err != nil || ready.Level != "info" || ready.Message != "ready" || ready.Admin != cfg2.Admin ||
		len(ready.Listen) != 1 || ready.Listen[0] != s.Addrs()[0] || ready.Exports != 1 || ready.ReadMode != "buffered" || ready.WriteMode != "buffered" || ready.Version != Version() {
		t.Errorf("json: %+v, %v", ready, err)
	}
}

// TestStartFails goes through what can be in a server's way: each is named, with
// a remedy, and nothing stays behind.
func TestStartFails(t *testing.T) {
	readOnly := t.TempDir()
	testenv.MountTmpfs(t, readOnly)
	nfscall.Must(t, unix.Mount("", readOnly, "", unix.MS_REMOUNT|unix.MS_RDONLY, ""))
	busy, err := net.Listen("tcp", "127.0.0.1:0")
	nfscall.Must(t, err)
	defer busy.Close()
	port := fmt.Sprint(busy.Addr().(*net.TCPAddr).Port)
	portmapper, err := net.Listen("tcp", "127.0.0.1:111")
	nfscall.Must(t, err)
	defer portmapper.Close()

	other, _ := testConfig(t)
	running, _ := start(t, other)

	for name, c := range map[string]struct {
		spoil func(cfg *Config, dir string)
		want  []string
	}{
		"port in use":          {func(c *Config, _ string) { c.Listen = "127.0.0.1:" + port }, []string{"port " + port + " is in use", "ss -ltnp", "--listen"}},
		"port of a sluice":     {func(c *Config, _ string) { c.Listen = running.Addrs()[0] }, []string{" is in use", "--listen"}},
		"foreign address":      {func(c *Config, _ string) { c.Listen = "192.0.2.7:0" }, []string{"192.0.2.7:0", "doesn't have that address", "--listen"}},
		"no such host":         {func(c *Config, _ string) { c.Listen = "nowhere.invalid:0" }, []string{"can't listen on nowhere.invalid:0", "--listen"}},
		"no exports file":      {func(c *Config, _ string) { c.Exports += ".not" }, []string{"exports.not: no such file", "--exports FILE"}},
		"exports a folder":     {func(c *Config, dir string) { c.Exports = dir }, []string{"is a directory", "name the file"}},
		"exports in a loop":    {func(c *Config, _ string) { loop(t, c.Exports) }, []string{"exports: too many levels of symbolic links", "check the path"}},
		"exports broken":       {func(c *Config, dir string) { writeExports(t, *c, "\n"+dir+" *(rw,colour)\n") }, []string{"/exports:2:", `unknown option "colour"`}},
		"no directory":         {func(c *Config, dir string) { writeExports(t, *c, dir+"/none *(rw)\n") }, []string{"none of the exports can be served", "/export/none: the directory does not exist"}},
		"no directory inline":  {func(c *Config, dir string) { c.Exports, c.Export = "", []string{dir + "/none"} }, []string{"none of the exports can be served", "/export/none: the directory does not exist"}},
		"a file exported":      {func(c *Config, dir string) { writeExports(t, *c, dir+"/data *(rw)\n") }, []string{"none of the exports can be served", "not a directory"}},
		"state read-only":      {func(c *Config, _ string) { c.State = filepath.Join(readOnly, "state") }, []string{"state directory", "read-only file system", "--state"}},
		"state exists, ro":     {func(c *Config, _ string) { c.State = readOnly }, []string{"handle key", "read-only file system", "--state"}},
		"state a file":         {func(c *Config, dir string) { c.State = filepath.Join(dir, "data") }, []string{"state directory", "not a directory", "--state"}},
		"key readable":         {func(c *Config, _ string) { badKey(t, c.State, 0o644) }, []string{"handle.key can be read by others", "chmod 600"}},
		"key damaged":          {func(c *Config, _ string) { badKey(t, c.State, 0o600) }, []string{"handle.key is damaged", "backup"}},
		"admin of a sluice":    {func(c *Config, _ string) { c.Admin = other.Admin }, []string{"belongs to a server that runs", "--admin"}},
		"admin a file":         {func(c *Config, dir string) { c.Admin = filepath.Join(dir, "data") }, []string{"isn't a socket", "--admin"}},
		"admin read-only":      {func(c *Config, _ string) { c.Admin = filepath.Join(readOnly, "a.sock") }, []string{"read-only file system", "--admin"}},
		"admin path too long":  {func(c *Config, _ string) { c.Admin = "/run/" + strings.Repeat("x", 120) }, []string{"125 bytes", "107", "--admin"}},
		"portmapper's port":    {func(c *Config, _ string) { c.Rpcbind = "embedded" }, []string{"embedded portmapper", "111", "--rpcbind"}},
		"configuration":        {func(c *Config, _ string) { c.Threads = -1 }, []string{"threads is -1"}},
		"a share of one fsid":  {func(c *Config, dir string) { writeExports(t, *c, dir+" *(fsid=7)\n/usr *(fsid=7)\n") }, []string{"fsid=7"}},
		"mode of one export":   {func(c *Config, _ string) { c.ReadMode = "default" }, []string{"read-mode", "default is no mode to be configured"}},
		"write mode of one":    {func(c *Config, _ string) { c.WriteMode = "default" }, []string{"write-mode", "default is no mode to be configured"}},
		"nothing to be served": {func(c *Config, _ string) { c.Exports = "" }, []string{"nothing to export", "--export"}},
	} {
		t.Run(name, func(t *testing.T) {
			cfg, dir := testConfig(t)
			c.spoil(&cfg, dir)
			before := descriptors(t)
			s, err := newServer(cfg, new(logText))
			if err == nil {
				err = s.Start()
			}
			if err == nil {
				t.Fatal("it started")
			}
			for _, w := range c.want {
				if !strings.Contains(err.Error(), w) {
					t.Errorf("%q does not say %q", err, w)
				}
			}
			for end := time.Now().Add(10 * time.Second); descriptors(t) > before; time.Sleep(5 * time.Millisecond) {
				if time.Now().After(end) {
					t.Fatalf("%d descriptors before, %d after", before, descriptors(t))
				}
			}
		})
	}
	// Whoever was there before is there still.
	if err := admin.NewClient(other.Admin).Do(t.Context(), "GET", admin.PathStatus, nil, nil); err != nil {
		t.Error(err)
	}
}

func loop(t *testing.T, name string) {
	t.Helper()
	nfscall.Must(t, errors.Join(os.Remove(name), os.Symlink(name, name)))
}

func badKey(t *testing.T, state string, perm os.FileMode) {
	t.Helper()
	nfscall.Must(t, errors.Join(os.Mkdir(state, 0o700), os.WriteFile(filepath.Join(state, "handle.key"), []byte("nonsense\n"), perm)))
}

func descriptors(t *testing.T) int {
	t.Helper()
	list, err := os.ReadDir("/proc/self/fd")
	nfscall.Must(t, err)
	return len(list)
}

// TestMissingDirectoryAmongOthers: the rest is served, a warning names the one
// that isn't, the admin socket says why, and it is served once it is there.
func TestMissingDirectoryAmongOthers(t *testing.T) {
	cfg, dir := testConfig(t)
	missing := dir + "-later"
	writeExports(t, cfg, dir+" *(ro,insecure)\n"+missing+" *(ro,insecure)\n")
	s, log := start(t, cfg)
	if text := log.String(); !strings.Contains(text, "WRN export is not served: the directory does not exist: make it") || !strings.Contains(text, "export="+missing) {
		t.Errorf("no warning in the log:\n%s", text)
	}
	c := nfscall.Dial(t, s.Addrs()[0], nfscall.Root())
	c.Lookup(t, c.Mount(t, dir), "data")
	var list []admin.Export
	nfscall.Must(t, admin.NewClient(cfg.Admin).Do(t.Context(), "GET", admin.PathExports, nil, &list))
	if len(list) != 2 || list[0].Problem != "" || !strings.Contains(list[1].Problem, "does not exist") {
		t.Errorf("exports: %+v", list)
	}
	nfscall.Must(t, os.Mkdir(missing, 0o755))
	c.Mount(t, missing)
	list = nil
	nfscall.Must(t, admin.NewClient(cfg.Admin).Do(t.Context(), "GET", admin.PathExports, nil, &list))
	if list[1].Problem != "" {
		t.Errorf("after it was made: %+v", list[1])
	}
}

// An export that waits for a mount is no reason to end.
func TestWaitingForAMount(t *testing.T) {
	cfg, dir := testConfig(t)
	writeExports(t, cfg, dir+" *(ro,insecure,mountpoint)\n")
	s, _ := start(t, cfg)
	c := nfscall.Dial(t, s.Addrs()[0], nfscall.Root())
	if res, err := c.Mnt(dir); err != nil || res.FhsStatus != mount3.MNT3ERR_NOENT {
		t.Errorf("MNT of a directory that isn't a mount point: %v, %v", res.FhsStatus, err)
	}
}

// TestShutdownFinishesCalls: a call that hangs in the file system is answered
// when it can be, and only then is the server gone.
func TestShutdownFinishesCalls(t *testing.T) {
	dir := testenv.XFS(t, 512)
	cfg := configFor(t, dir)
	cfg.ShutdownTimeout = time.Minute
	log := new(logText)
	s, err := newServer(cfg, log)
	nfscall.Must(t, err)
	nfscall.Must(t, s.Start())
	addr := s.Addrs()[0]
	c := nfscall.Dial(t, addr, nfscall.Root())
	handle := c.Mount(t, dir)

	thaw := testenv.Freeze(t, dir)
	created := make(chan wire3.Nfsstat3, 1)
	go func() {
		created <- c.Status(t, wire3.NFSPROC3_CREATE, &wire3.CREATE3args{Where: nfscall.Dirop(handle, "new")})
	}()
	waitFor(t, "the call to be running", func() bool {
		list := backend{s}.Clients().Connections
		return len(list) == 1 && list[0].InFlight == 1
	})
	ended := make(chan error, 1)
	go func() { ended <- s.Shutdown() }()
	waitFor(t, "the port to be closed", func() bool {
		nc, err := net.Dial("tcp", addr)
		if err == nil {
			nc.Close()
		}
		return err != nil
	})
	select {
	case st := <-created:
		t.Errorf("CREATE on a frozen file system: %v", st)
	case err := <-ended:
		t.Errorf("ended with a call in flight: %v", err)
	case <-time.After(100 * time.Millisecond):
	}
	thaw()
	if st := <-created; st != wire3.NFS3_OK {
		t.Errorf("CREATE: %v", st)
	}
	if err := <-ended; err != nil {
		t.Errorf("Shutdown: %v", err)
	}
	if _, err := os.Stat(filepath.Join(dir, "new")); err != nil {
		t.Error(err)
	}
	if !strings.HasSuffix(log.String(), "INF stopped\n") {
		t.Errorf("its log ends with %q", log)
	}
	if _, err := os.Stat(cfg.Admin); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the admin socket is still there: %v", err)
	}
}

func waitFor(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); !ok(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("waited for %s", what)
		}
	}
}

// TestReload goes from one table to others below a checked load.
func TestReload(t *testing.T) {
	cfg, dir := testConfig(t)
	second := t.TempDir()
	s, log := start(t, cfg)
	sub := s.bus.Subscribe(4096)
	counted := make(chan int)
	go func() { // the load makes many events: one that reads late loses some
		n := 0
		for e, ok := sub.Next(t.Context()); ok; e, ok = sub.Next(t.Context()) {
			if e.Name == trace.ExportsReload {
				n++
			}
		}
		counted <- n
	}()
	load := nfscall.StartLoad(t, s.Addrs()[0], dir, "data", pattern())

	tables := []string{
		dir + " *(rw,insecure,no_root_squash)\n",
		dir + " 127.0.0.0/8(ro,insecure) *(rw,insecure)\n" + second + " *(ro)\n",
		second + " *(ro)\n" + dir + " *(rw,insecure,async)\n",
	}
	// Several at once, as SIGHUP and the admin socket may come together.
	var wg sync.WaitGroup
	var mu sync.Mutex // a table is written in one piece
	for g := range 4 {
		wg.Go(func() {
			for i := range 25 {
				mu.Lock()
				tmp := fmt.Sprintf("%s.%d", cfg.Exports, g)
				err := errors.Join(os.WriteFile(tmp, []byte(tables[(g+i)%len(tables)]), 0o644), os.Rename(tmp, cfg.Exports))
				mu.Unlock()
				_, err2 := s.Reload()
				if err = errors.Join(err, err2); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	load.Stop(t)
	if s.table.Set() != s.ns.Set() {
		t.Error("the table read last isn't the one in force")
	}
	if n := strings.Count(log.String(), "INF exports reloaded "); n != 100 {
		t.Errorf("%d reloads in the log, want 100", n)
	}
	waitFor(t, "the events to be read", func() bool { return sub.Pending() == 0 })
	sub.Close()
	if n := <-counted; n != 100 {
		t.Errorf("%d events %s, want 100", n, trace.ExportsReload)
	}
}

// A broken table changes nothing, and what is wrong with it is said where, in
// the log and to whoever asked.
func TestReloadOfABrokenTable(t *testing.T) {
	cfg, dir := testConfig(t)
	s, log := start(t, cfg)
	before := s.ns.Set()
	writeExports(t, cfg, "# a remark\n"+dir+" *(ro,insecure)\n/srv *(rw,rot_squash)\n")
	c := admin.NewClient(cfg.Admin)
	err := c.Do(t.Context(), "POST", admin.PathReload, nil, nil)
	if want := cfg.Exports + `:3:11: unknown option "rot_squash"`; err == nil || !strings.HasPrefix(err.Error(), want) || !strings.Contains(err.Error(), "stay as they were") {
		t.Errorf("reload: %v, want %s", err, want)
	}
	if text := log.String(); !strings.Contains(text, "ERR exports not reloaded: the old ones stay in force") || !strings.Contains(text, cfg.Exports+":3:11: ") {
		t.Errorf("log:\n%s", text)
	}
	if s.ns.Set() != before || s.table.Set() != before {
		t.Error("another table is in force")
	}
	// The export was rw, and is.
	n := nfscall.Dial(t, s.Addrs()[0], nfscall.Root())
	n.Create(t, n.Mount(t, dir), "new", 0o644)
}

// A reload that hangs doesn't keep the server from its end, which says so.
func TestShutdownCutsOffAReload(t *testing.T) {
	cfg, _ := testConfig(t)
	cfg.ShutdownTimeout = 50 * time.Millisecond
	s, err := newServer(cfg, new(logText))
	nfscall.Must(t, err)
	nfscall.Must(t, s.Start())
	s.reload <- struct{}{} // as one under way has it
	if err := s.Shutdown(); err == nil || !strings.Contains(err.Error(), "a reload of the exports that did not end was cut off") {
		t.Errorf("Shutdown: %v", err)
	}
	nfscall.Must(t, s.closeRooms())
}
