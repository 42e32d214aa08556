// Plan of this file: the command as a process of its own (this test binary,
// started again): what it logs, what signals do, exit statuses.

package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"sluice/pkg/admin"
	"sluice/test/nfscall"
	"sluice/test/testenv"
	wire3 "sluice/xdr/nfs3"
)

// commandEnv makes this binary be the command.
const commandEnv = "SLUICE_TEST_COMMAND"

func TestMain(m *testing.M) {
	if os.Getenv(commandEnv) != "" {
		main()
	}
	os.Exit(testenv.Main(m, nil))
}

// daemon is a server as a process.
type daemon struct {
	cmd   *exec.Cmd
	out   output
	ended chan struct{} // closed when it has
	dir   string        // exported
	work  string
	addr  string
}

// output collects what is printed.
type output struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.Write(b)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.String()
}

// self is the command as a process, to be started.
func self(wrapper []string, args ...string) *exec.Cmd {
	exe, err := os.Executable()
	if err != nil {
		panic(err)
	}
	argv := append(append(append([]string{}, wrapper...), exe), args...)
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Env = append(os.Environ(), commandEnv+"=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	return cmd
}

// content differs in every 8 bytes.
func content() []byte {
	var b bytes.Buffer
	for i := range 32 << 10 {
		fmt.Fprintf(&b, "%07d\n", i)
	}
	return b.Bytes()
}

// newDaemon prepares a server that exports dir, a new directory if "", with
// the file data in it.
func newDaemon(t *testing.T, dir string) *daemon {
	t.Helper()
	testenv.Sandboxed(t)
	d := &daemon{dir: dir, work: t.TempDir(), ended: make(chan struct{})}
	if dir == "" {
		d.dir = t.TempDir()
	}
	nfscall.Must(t, errors.Join(os.Chmod(d.dir, 0o755), os.WriteFile(filepath.Join(d.dir, "data"), content(), 0o644)))
	d.exports(t, d.dir+" *(rw,insecure,no_root_squash)\n")
	return d
}

func (d *daemon) exports(t *testing.T, text string) {
	t.Helper()
	nfscall.Must(t, os.WriteFile(filepath.Join(d.work, "exports"), []byte(text), 0o644))
}

func (d *daemon) socket() string { return filepath.Join(d.work, "admin.sock") }

// args is the command line.
func (d *daemon) args(more ...string) []string {
	return append([]string{"serve", "--exports", filepath.Join(d.work, "exports"), "--listen", "127.0.0.1:0", "--admin", d.socket(),
		"--state", filepath.Join(d.work, "state"), "--rpcbind", "off"}, more...)
}

var readyLine = regexp.MustCompile(`(?m)^.*(?: INF ready |"message":"ready").*$`)
var listenAddr = regexp.MustCompile(`"?listen"?[=:]\["([^"]+)"\]`)

// start starts it and waits until it is ready.
func (d *daemon) start(t *testing.T, more ...string) {
	t.Helper()
	d.cmd = self(nil, d.args(more...)...)
	d.cmd.Stdout, d.cmd.Stderr = &d.out, &d.out
	nfscall.Must(t, d.cmd.Start())
	go func() {
		d.cmd.Wait()
		close(d.ended)
	}()
	t.Cleanup(func() {
		d.cmd.Process.Kill()
		<-d.ended
		if t.Failed() {
			text := d.out.String()
			t.Logf("the end of its output:\n%s", text[max(0, len(text)-3000):])
		}
	})
	d.waitOutput(t, readyLine.String(), 1)
	d.addr = listenAddr.FindStringSubmatch(d.out.String())[1]
}

// waitOutput waits until something has been printed n times.
func (d *daemon) waitOutput(t *testing.T, pattern string, n int) {
	t.Helper()
	re := regexp.MustCompile(pattern)
	waitFor(t, pattern, func() bool {
		select {
		case <-d.ended:
			t.Fatalf("it ended: %v\n%s", d.cmd.ProcessState, &d.out)
		default:
		}
		return len(re.FindAllString(d.out.String(), n)) == n
	})
}

func waitFor(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); !ok(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("waited for %s", what)
		}
	}
}

func (d *daemon) signal(t *testing.T, sig syscall.Signal) {
	t.Helper()
	nfscall.Must(t, d.cmd.Process.Signal(sig))
}

// status waits for the end.
func (d *daemon) status(t *testing.T) int {
	t.Helper()
	select {
	case <-d.ended:
		return d.cmd.ProcessState.ExitCode()
	case <-time.After(30 * time.Second):
		t.Fatal("it does not end")
		return -1
	}
}

func (d *daemon) running() bool {
	select {
	case <-d.ended:
		return false
	default:
		return true
	}
}

// failing runs a command that is to fail, and returns its status and output.
func failing(t *testing.T, wrapper []string, args ...string) (int, string) {
	t.Helper()
	testenv.Sandboxed(t)
	cmd := self(wrapper, args...)
	var out output
	cmd.Stdout, cmd.Stderr = &out, &out
	cmd.WaitDelay = time.Second
	nfscall.Must(t, cmd.Start())
	kill := time.AfterFunc(30*time.Second, func() { cmd.Process.Kill() })
	defer kill.Stop()
	cmd.Wait()
	return cmd.ProcessState.ExitCode(), out.String()
}

// TestSIGTERM: a call that hangs in the file system is answered, and the status
// is 0, also when the signal comes again, as it does from make and timeout.
func TestSIGTERM(t *testing.T) {
	d := newDaemon(t, testenv.XFS(t, 512))
	d.start(t, "--shutdown-timeout", "1m")
	c := nfscall.Dial(t, d.addr, nfscall.Root())
	dir := c.Mount(t, d.dir)
	thaw := testenv.Freeze(t, d.dir)
	created := make(chan wire3.Nfsstat3, 1)
	go func() {
		created <- c.Status(t, wire3.NFSPROC3_CREATE, &wire3.CREATE3args{Where: nfscall.Dirop(dir, "new")})
	}()
	d.waitCalls(t)
	d.signal(t, syscall.SIGTERM)
	waitFor(t, "the port to be closed", func() bool {
		nc, err := net.Dial("tcp", d.addr)
		if err == nil {
			nc.Close()
		}
		return err != nil
	})
	d.signal(t, syscall.SIGTERM)
	time.Sleep(100 * time.Millisecond)
	if len(created) > 0 || !d.running() {
		t.Errorf("it did not wait for the call; running: %t", d.running())
	}
	thaw()
	if st := <-created; st != wire3.NFS3_OK {
		t.Errorf("CREATE: %v", st)
	}
	if st := d.status(t); st != 0 || !strings.HasSuffix(d.out.String(), "INF stopped\n") {
		t.Errorf("status %d", st)
	}
}

// waitCalls waits until a call is under way.
func (d *daemon) waitCalls(t *testing.T) {
	t.Helper()
	waitFor(t, "a call to be running", func() bool {
		var list admin.Clients
		err := admin.NewClient(d.socket()).Do(t.Context(), "GET", admin.PathClients, nil, &list)
		return err == nil && len(list.Connections) == 1 && list.Connections[0].InFlight == 1
	})
}

// TestShutdownTimeout: calls that don't end are cut off after the time that is
// set, and that is a failure.
func TestShutdownTimeout(t *testing.T) {
	d := newDaemon(t, testenv.XFS(t, 512))
	d.start(t, "--shutdown-timeout", "200ms")
	c := nfscall.Dial(t, d.addr, nfscall.Root())
	dir := c.Mount(t, d.dir)
	thaw := testenv.Freeze(t, d.dir)
	call := make(chan error, 1)
	go func() {
		var res nfscall.Bytes
		call <- c.NFS(wire3.NFSPROC3_CREATE, &wire3.CREATE3args{Where: nfscall.Dirop(dir, "new")}, &res)
	}()
	d.waitCalls(t)
	d.signal(t, syscall.SIGTERM)
	d.waitText(t, "sluice: calls still in flight after 200ms were cut off")
	if err := <-call; err == nil {
		t.Error("the call was answered")
	}
	thaw() // the kernel keeps a process whose thread waits for the file system
	if st := d.status(t); st != exitFailed {
		t.Errorf("status %d, want %d", st, exitFailed)
	}
}

// waitText waits for output of a process that may end meanwhile.
func (d *daemon) waitText(t *testing.T, text string) {
	t.Helper()
	waitFor(t, text, func() bool { return strings.Contains(d.out.String(), text) })
}

// TestSIGINT ends an idle server, and a second one a server that waits.
func TestSIGINT(t *testing.T) {
	d := newDaemon(t, "")
	d.start(t)
	d.signal(t, syscall.SIGINT)
	if st := d.status(t); st != 0 {
		t.Errorf("status %d", st)
	}

	d = newDaemon(t, testenv.XFS(t, 512))
	d.start(t, "--shutdown-timeout", "1h")
	c := nfscall.Dial(t, d.addr, nfscall.Root())
	dir := c.Mount(t, d.dir)
	thaw := testenv.Freeze(t, d.dir)
	call := make(chan error, 1)
	go func() {
		var res nfscall.Bytes
		call <- c.NFS(wire3.NFSPROC3_CREATE, &wire3.CREATE3args{Where: nfscall.Dirop(dir, "new")}, &res)
	}()
	d.waitCalls(t)
	d.signal(t, syscall.SIGINT)
	waitFor(t, "the port to be closed", func() bool {
		nc, err := net.Dial("tcp", d.addr)
		if err == nil {
			nc.Close()
		}
		return err != nil
	})
	d.signal(t, syscall.SIGINT)
	// The kernel keeps a process whose thread waits for the file system; all
	// others of its threads go.
	waitFor(t, "the threads to go", func() bool {
		threads, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", d.cmd.Process.Pid))
		return err == nil && len(threads) <= 2
	})
	thaw()
	if err := <-call; err == nil {
		t.Error("the call was answered")
	}
	if d.status(t); d.cmd.ProcessState.Sys().(syscall.WaitStatus).Signal() != syscall.SIGINT {
		t.Errorf("it ended with %v, want the signal", d.cmd.ProcessState)
	}
}

// TestSIGHUP: a broken file keeps the old set and is told with its place; then a
// hundred reloads below a checked load.
func TestSIGHUP(t *testing.T) {
	d := newDaemon(t, "")
	d.start(t)
	load := nfscall.StartLoad(t, d.addr, d.dir, "data", content())

	good := d.dir + " *(rw,insecure,no_root_squash)\n"
	d.exports(t, good+"/srv *(rw,no_rootsquash)\n")
	d.signal(t, syscall.SIGHUP)
	d.waitOutput(t, `ERR exports not reloaded: the old ones stay in force error=".*/exports:2:11: unknown option \\"no_rootsquash\\"; did you mean \\"no_root_squash\\"\?"`, 1)
	var list []admin.Export
	nfscall.Must(t, admin.NewClient(d.socket()).Do(t.Context(), "GET", admin.PathExports, nil, &list))
	if len(list) != 1 || list[0].Path != d.dir {
		t.Errorf("exports: %+v", list)
	}
	for i := range 100 {
		d.exports(t, good+strings.Repeat("/usr *(ro)\n", i%2))
		d.signal(t, syscall.SIGHUP)
		d.waitOutput(t, `INF exports reloaded `, i+1)
	}
	reads := load.Reads()
	load.Stop(t)
	if reads < 100 {
		t.Errorf("only %d reads meanwhile", reads)
	}
	if !strings.Contains(d.out.String(), "added=[\"/usr\"]") || !strings.Contains(d.out.String(), "removed=[\"/usr\"]") {
		t.Error("the log does not say what a reload changed")
	}
}

// TestStartFailures: what is in the way is named, with the remedy, in one line
// on standard error or, with --log-format json, in an object; status 1.
func TestStartFailures(t *testing.T) {
	testenv.Commands(t, "setpriv")
	running := newDaemon(t, "")
	running.start(t)
	_, port, _ := net.SplitHostPort(running.addr)

	d := newDaemon(t, "")
	readOnly := t.TempDir()
	testenv.MountTmpfs(t, readOnly)
	nfscall.Must(t, syscall.Mount("", readOnly, "", syscall.MS_REMOUNT|syscall.MS_RDONLY, ""))
	without := func(caps string) []string {
		return []string{"setpriv", "--bounding-set", caps, "--inh-caps", caps}
	}
	// The test binary is in a folder that only root may search.
	exe, err := os.ReadFile("/proc/self/exe")
	nfscall.Must(t, err)
	copied := filepath.Join(os.TempDir(), "sluice-copy")
	defer os.Remove(copied)
	nfscall.Must(t, os.WriteFile(copied, exe, 0o755))
	t.Setenv("SLUICE_TEST_COPY", copied)
	bad := filepath.Join(d.work, "bad.yaml")
	nfscall.Must(t, os.WriteFile(bad, []byte("log-level: info\nread-mode: sideways\nlisten: 2049\n"), 0o644))
	fifo, loop := filepath.Join(d.work, "fifo"), filepath.Join(d.work, "loop")
	nfscall.Must(t, syscall.Mkfifo(fifo, 0o644))
	nfscall.Must(t, os.Symlink("loop", loop))
	const writeOnly = "/proc/sys/net/ipv4/route/flush" // for root, too
	for name, c := range map[string]struct {
		wrapper []string
		args    []string
		want    []string
	}{
		"port in use":                  {nil, []string{"--listen", running.addr}, []string{"sluice: port " + port + " is in use", "ss -ltnp 'sport = :" + port + "'", "--listen"}},
		"admin":                        {nil, []string{"--admin", running.socket()}, []string{"sluice: admin socket " + running.socket() + " belongs to a server that runs", "--admin"}},
		"exports":                      {nil, []string{"--exports", d.work + "/none"}, []string{"sluice: cannot read the exports: open " + d.work + "/none: no such file", "create it", "--exports FILE"}},
		"exports that are a directory": {nil, []string{"--exports", d.dir}, []string{"sluice: cannot read the exports: " + d.dir + " is a directory; name the file"}},
		"exports in a FIFO":            {nil, []string{"--exports", fifo}, []string{"sluice: cannot read the exports: " + fifo + " is no regular file", "put the table into a file"}},
		"exports behind a loop":        {nil, []string{"--exports", loop}, []string{"sluice: cannot read the exports: open " + loop + ": too many levels of symbolic links; check the path"}},
		"exports below a file":         {nil, []string{"--exports", bad + "/exports"}, []string{"sluice: cannot read the exports: open " + bad + "/exports: not a directory; check the path"}},
		"exports not to be read":       {nil, []string{"--exports", writeOnly}, []string{"sluice: cannot read the exports: open " + writeOnly + ": permission denied; make it readable for the server's user"}},
		"directory":                    {nil, []string{"--exports", "", "--export", d.dir + "/none"}, []string{"sluice: none of the exports can be served\n" + d.dir + "/none: the directory does not exist: make it"}},
		"state":                        {nil, []string{"--state", readOnly + "/s"}, []string{"sluice: state directory", "read-only file system", "--state"}},
		"config":                       {nil, []string{"--config", bad}, []string{"sluice: config file " + bad + ": line 2: read-mode: unknown I/O mode \"sideways\"", "\nconfig file " + bad + ": line 3: listen is \"2049\""}},
		"capabilities": {without("-setuid,-dac_read_search"), nil,
			[]string{"sluice: missing CAP_DAC_READ_SEARCH, CAP_SETUID, needed to open files by their handles, act under the callers' user ids", "--cap-add"}},
		"user": {append([]string{"setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups"}, "sh", "-c", `exec "$SLUICE_TEST_COPY" "$@"`), nil,
			[]string{"sluice: the server runs as uid 65534", "run it as root"}},
	} {
		t.Run(name, func(t *testing.T) {
			status, out := failing(t, c.wrapper, d.args(c.args...)...)
			if status != exitFailed {
				t.Errorf("status %d, want %d", status, exitFailed)
			}
			for _, w := range c.want {
				if !strings.Contains(out, w) {
					t.Errorf("%q is not in:\n%s", w, out)
				}
			}
			if strings.Contains(out, "stopped") || strings.Contains(out, "goroutine") {
				t.Errorf("more than that:\n%s", out)
			}
			if name == "config" {
				return // no format is in force yet
			}
			_, out = failing(t, c.wrapper, d.args(append(c.args, "--log-format", "json")...)...)
			lines := strings.Split(strings.TrimSpace(out), "\n")
			var failed struct{ Level, Time, Message, Error string }
			if err := json.Unmarshal([]byte(lines[len(lines)-1]), &failed); err != nil || failed.Level != "error" || failed.Message != "failed" ||
				!strings.Contains(failed.Error, strings.TrimPrefix(c.want[0], "sluice: ")) {
				t.Errorf("in JSON: %+v, %v:\n%s", failed, err, out)
			}
		})
	}
	if !running.running() {
		t.Error("the first server is gone")
	}
}

// With a capability less that it can do without, it serves, and says what it
// can't do.
func TestMissingOptionalCapability(t *testing.T) {
	testenv.Commands(t, "setpriv")
	d := newDaemon(t, "")
	cmd := self([]string{"setpriv", "--bounding-set", "-mknod", "--inh-caps", "-mknod"}, d.args()...)
	cmd.Stdout, cmd.Stderr = &d.out, &d.out
	d.cmd = cmd
	nfscall.Must(t, cmd.Start())
	go func() { cmd.Wait(); close(d.ended) }()
	t.Cleanup(func() { cmd.Process.Kill(); <-d.ended })
	d.waitOutput(t, readyLine.String(), 1)
	if !strings.Contains(d.out.String(), "WRN without CAP_MKNOD the server can't make device nodes") {
		t.Errorf("no warning:\n%s", &d.out)
	}
	c := nfscall.Dial(t, listenAddr.FindStringSubmatch(d.out.String())[1], nfscall.Root())
	dir := c.Mount(t, d.dir)
	c.Create(t, dir, "new", 0o600)
	c.WantStatus(t, "MKNOD", wire3.NFSPROC3_MKNOD, &wire3.MKNOD3args{Where: nfscall.Dirop(dir, "null"),
		What: wire3.Mknoddata3{Type: wire3.NF3CHR, Device: wire3.Devicedata3{Spec: wire3.Specdata3{Specdata1: 1, Specdata2: 3}}}}, wire3.NFS3ERR_PERM)
}

// TestConfigFileAndFlags: flags win over the file, and both can add up exports.
func TestConfigFileAndFlags(t *testing.T) {
	d := newDaemon(t, "")
	second := t.TempDir()
	file := filepath.Join(d.work, "sluice.yaml")
	nfscall.Must(t, os.WriteFile(file, []byte("export: ['"+second+" *(ro)']\nlisten: 127.0.0.1:1\nread-mode: direct\nlog-format: json\nthreads: 1\n"), 0o644))
	d.start(t, "--config", file, "--read-mode", "2")
	if line := readyLine.FindString(d.out.String()); !strings.Contains(line, `"exports":2,"read_mode":"direct"`) {
		t.Errorf("ready line: %s", line)
	}
	var st admin.Stats
	nfscall.Must(t, admin.NewClient(d.socket()).Do(t.Context(), "GET", admin.PathStats, nil, &st))
	if st.RPC.ServiceThreads != 1 {
		t.Errorf("%d service threads, want 1 as in the file", st.RPC.ServiceThreads)
	}
}
