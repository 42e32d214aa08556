// Plan of this file: one guest. Its root file system is this machine's, its
// process 1 is progs/guest, which takes commands over the guest's network
// device; a Guest's methods are those commands. A guest that dies ends the
// command under way with an error and the end of its console.

package kernel

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"sluice/test/kernel/guestapi"
	"sluice/test/testenv"
)

const (
	memory      = "768M"
	bootTimeout = 60 * time.Second
	// caseTimeout is far above what any command takes; a hung mount ends here.
	caseTimeout = 6 * time.Minute
	// newest is the version that a mount gets which names none.
	newest = "4.2"
)

// Guest is a running guest kernel.
type Guest struct {
	id      int
	url     string
	cmd     *exec.Cmd
	console console
	dead    context.Context // done when the kernel's process has ended
}

var guestIDs atomic.Int32

// Boot starts a guest and waits until it takes commands. The test's end shuts
// it down.
func Boot(t testing.TB) *Guest {
	t.Helper()
	testenv.Sandboxed(t)
	testenv.Commands(t, "ip", "mount.nfs")
	if why := os.Getenv(problemEnv); why != "" {
		testenv.Skip(t, "no guest kernel: %s", why)
	}
	g := &Guest{id: int(guestIDs.Add(1))}
	g.url = fmt.Sprintf("http://10.99.0.%d:%d", g.id+1, guestapi.Port)
	if err := g.start(t, uml(os.Getenv(umlEnv))); err != nil {
		t.Fatalf("boot: %v\nend of its console:\n%s", err, g.console.tail())
	}
	t.Cleanup(func() { g.shutdown(t) })
	return g
}

func (g *Guest) start(t testing.TB, u uml) error {
	tap := fmt.Sprint("tap", g.id)
	for _, args := range [][]string{
		{"tuntap", "add", tap, "mode", "tap"},
		{"link", "set", tap, "master", "br0", "up"},
	} {
		if err := testenv.IP(args...); err != nil {
			return err
		}
	}
	dir := t.TempDir()
	g.cmd = exec.Command(u.binary(),
		"mem="+memory, "root=none", "rootfstype=hostfs", "rootflags=/", "ro", "init="+os.Getenv(guestEnv),
		"uml_dir="+dir+"/", fmt.Sprint("umid=guest", g.id), "con0=null,fd:1", "con=null", "ssl=null",
		"vec0:transport=tap,ifname="+tap+",depth=128,gro=1", "quiet", "loglevel=4", "panic=1",
		fmt.Sprintf("%s=%d", guestapi.EnvID, g.id), guestapi.EnvModules+"="+u.modules())
	g.cmd.Env = append(os.Environ(), "TMPDIR=/dev/shm") // where the kernel keeps the guest's memory
	g.cmd.Stdout, g.cmd.Stderr = &g.console, &g.console
	g.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := g.cmd.Start(); err != nil {
		return err
	}
	dead, died := context.WithCancelCause(context.Background())
	g.dead = dead
	go func() {
		err := g.cmd.Wait()
		died(fmt.Errorf("the guest kernel ended: %v", err))
	}()
	for began := time.Now(); time.Since(began) < bootTimeout; {
		select {
		case <-dead.Done():
			return context.Cause(dead)
		case <-time.After(50 * time.Millisecond):
		}
		ctx, cancel := context.WithTimeout(dead, time.Second)
		_, err := g.run(ctx, guestapi.Command{Argv: []string{"true"}}, io.Discard)
		cancel()
		if err == nil {
			return nil
		}
	}
	g.cmd.Process.Kill()
	return errors.New("it takes no commands")
}

// shutdown powers the guest off, or kills it if it does not obey.
func (g *Guest) shutdown(t testing.TB) {
	if g.dead.Err() == nil {
		ctx, cancel := context.WithTimeout(g.dead, 5*time.Second)
		defer cancel()
		if req, err := http.NewRequestWithContext(ctx, "POST", g.url+"/poweroff", nil); err == nil {
			client.Do(req) // no answer comes from a machine that is off
		}
		select {
		case <-g.dead.Done():
		case <-time.After(5 * time.Second):
		}
	}
	// The guest's processes are processes here too, in the kernel's group.
	syscall.Kill(-g.cmd.Process.Pid, syscall.SIGKILL)
	<-g.dead.Done()
	if t.Failed() {
		t.Logf("end of guest %d's console:\n%s", g.id, g.console.tail())
	}
}

// client makes a connection for each request, so that a guest that hangs or is
// gone is noticed at once.
var client = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}

// run sends one command and copies its output; it returns the exit status.
func (g *Guest) run(ctx context.Context, c guestapi.Command, out io.Writer) (int, error) {
	body, err := json.Marshal(c)
	if err != nil {
		return 0, err
	}
	req, err := http.NewRequestWithContext(ctx, "POST", g.url+"/run", bytes.NewReader(body))
	if err != nil {
		return 0, err
	}
	res, err := client.Do(req)
	if err != nil {
		return 0, err
	}
	defer res.Body.Close()
	if _, err := io.Copy(out, res.Body); err != nil {
		return 0, err
	}
	if res.StatusCode != http.StatusOK {
		return 0, fmt.Errorf("agent: %s", res.Status)
	}
	return strconv.Atoi(res.Trailer.Get(guestapi.ExitTrailer))
}

// Exec runs a command in the guest, logs its output as it comes, and returns
// the output. A status other than 0, a guest that dies and a time-out are
// errors.
func (g *Guest) Exec(t testing.TB, c guestapi.Command) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(g.dead, caseTimeout)
	defer cancel()
	var out bytes.Buffer
	lines := &linePrefixer{w: t.Output(), prefix: fmt.Sprintf("guest%d: ", g.id)}
	status, err := g.run(ctx, c, io.MultiWriter(&out, lines))
	lines.flush()
	name := filepath.Base(strings.Join(c.Argv[:min(len(c.Argv), 2)], " "))
	switch {
	case g.dead.Err() != nil:
		return out.String(), fmt.Errorf("%s: %w\nend of its console:\n%s", name, context.Cause(g.dead), g.console.tail())
	case errors.Is(err, context.DeadlineExceeded):
		g.showBlocked()
		return out.String(), fmt.Errorf("%s did not end within %v\nend of the guest's console:\n%s", name, caseTimeout, g.console.tail())
	case err != nil:
		return out.String(), fmt.Errorf("%s: %w", name, err)
	case status != 0:
		return out.String(), fmt.Errorf("%s: exit status %d: %s", name, status, lastLines(out.String()))
	}
	return out.String(), nil
}

// showBlocked has the guest print the stacks of its blocked tasks.
func (g *Guest) showBlocked() {
	ctx, cancel := context.WithTimeout(g.dead, 5*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, "POST", g.url+"/blocked", nil)
	if err != nil {
		return
	}
	if res, err := client.Do(req); err == nil {
		res.Body.Close()
		time.Sleep(time.Second) // the console is slower than the answer
	}
}

// Sh runs a line of shell and fails the test if that fails.
func (g *Guest) Sh(t testing.TB, format string, args ...any) string {
	t.Helper()
	out, err := g.Exec(t, guestapi.Command{Argv: []string{"bash", "-euc", fmt.Sprintf(format, args...)}})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// User is who runs a check.
type User struct {
	UID, GID uint32
	Groups   []uint32
}

// CheckAs runs a check of package fscheck in the guest as a user.
func (g *Guest) CheckAs(t testing.TB, u User, name, dir string, options ...string) error {
	t.Helper()
	_, err := g.Exec(t, guestapi.Command{
		Argv: append([]string{guestapi.Self, name, dir}, options...),
		UID:  u.UID, GID: u.GID, Groups: u.Groups,
	})
	return err
}

// Check runs a check as root and fails the test if it fails.
func (g *Guest) Check(t testing.TB, name, dir string, options ...string) {
	t.Helper()
	if err := g.CheckAs(t, User{}, name, dir, options...); err != nil {
		t.Fatal(err)
	}
}

// Mount mounts an export of the server by NFSv3 and unmounts it at the test's
// end.
func (g *Guest) Mount(t testing.TB, s *testenv.Server, export, at, options string) {
	t.Helper()
	g.MountVersion(t, s, "3", export, at, options)
}

// MountVersion mounts by a version as mount's vers= has it, or by the newest
// that client and server agree on if it is "".
func (g *Guest) MountVersion(t testing.TB, s *testenv.Server, version, export, at, options string) {
	t.Helper()
	if options != "" {
		options = "," + options
	}
	g.Sh(t, "mkdir -p %[1]s; mount -t nfs -o %s%s %s:%s %[1]s", at, s.MountOptions(version), options, testenv.ServerIP, export)
	if want := cmp.Or(version, newest); !strings.Contains(g.Sh(t, "grep ' %s nfs' /proc/mounts", at), "vers="+want+",") {
		t.Fatalf("%s is not mounted by version %s", at, want)
	}
	t.Cleanup(func() {
		if g.dead.Err() == nil {
			g.Sh(t, "umount %s", at)
		}
	})
}

// DropCaches makes the guest forget clean pages, names and attributes.
func (g *Guest) DropCaches(t testing.TB) {
	t.Helper()
	g.Sh(t, "sync; echo 3 > /proc/sys/vm/drop_caches")
}

// lastLines is the end of a command's output, for an error's text.
func lastLines(s string) string {
	lines := strings.Split(strings.TrimSpace(s), "\n")
	return strings.Join(lines[max(0, len(lines)-50):], "\n")
}

// linePrefixer puts a prefix before each line.
type linePrefixer struct {
	w      io.Writer
	prefix string
	rest   []byte
}

func (l *linePrefixer) Write(p []byte) (int, error) {
	l.rest = append(l.rest, p...)
	for {
		line, rest, ok := bytes.Cut(l.rest, []byte("\n"))
		if !ok {
			return len(p), nil
		}
		fmt.Fprintf(l.w, "%s%s\n", l.prefix, line)
		l.rest = rest
	}
}

func (l *linePrefixer) flush() {
	if len(l.rest) > 0 {
		fmt.Fprintf(l.w, "%s%s\n", l.prefix, l.rest)
	}
}

// console keeps the end of what a guest kernel prints.
type console struct {
	mu   sync.Mutex
	text []byte // guarded by mu
}

const consoleLimit = 64 << 10

func (c *console) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.text = append(c.text, p...)
	if len(c.text) > consoleLimit {
		c.text = append([]byte(nil), c.text[len(c.text)-consoleLimit/2:]...)
	}
	return len(p), nil
}

var chatter = regexp.MustCompile(`^(SELinux:|mmapper_init|Failed to initialize ubd|uml-vector |reboot: System halted)`)

// tail is the end of the console without the chatter of every boot.
func (c *console) tail() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var b strings.Builder
	for s := bufio.NewScanner(bytes.NewReader(c.text)); s.Scan(); {
		if !chatter.MatchString(s.Text()) {
			fmt.Fprintln(&b, strings.TrimRight(s.Text(), "\r"))
		}
	}
	return b.String()
}

// pause sleeps for a number of milliseconds: time for a load to be under way.
func pause(ms int) { time.Sleep(time.Duration(ms) * time.Millisecond) }
