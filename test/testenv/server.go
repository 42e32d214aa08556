// Plan of this file: a server under test. What differs between servers (the
// command line, how exports are written down, whether the read mode can be
// switched) sits behind program; starting, stopping, restarting and waiting are
// the same for all. SLUICE_TEST_SERVER=ganesha runs the tests against
// nfs-ganesha, which shows that a failing test is not the test's fault.

package testenv

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// Export is one line of exports(5).
type Export struct {
	Dir     string
	Client  string // "*" if empty
	Options string // "rw,insecure,no_root_squash" if empty
}

func (e Export) client() string {
	if e.Client == "" {
		return "*"
	}
	return e.Client
}

func (e Export) options() string {
	if e.Options == "" {
		return "rw,insecure,no_root_squash"
	}
	return e.Options
}

// ServerConfig says how a server is to run.
type ServerConfig struct {
	Exports    []Export
	Portmapper bool // also answer the portmapper's protocol, on port 111
	Descriptor int  // limit of open descriptors; 0 leaves the standard one
	// Lease is the lease time of NFSv4, and with it the longest grace period; 0
	// is 10 s, the shortest there is, so that a test need not wait for long.
	Lease time.Duration
}

// A program is one server implementation.
type program interface {
	// command prepares files in dir and returns the command to run.
	command(s *Server) ([]string, error)
	// mountPort is where MOUNT calls go.
	mountPort(s *Server) int
	// mountOptions are those that a client needs with this server, with a comma
	// behind each.
	mountOptions() string
	// modes lists the I/O modes it has; the first is the one it starts in.
	modes() []string
	setMode(s *Server, mode string) error
}

// Server is a running server.
type Server struct {
	Port    int
	Exports []Export

	t      testing.TB
	dir    string // configuration, state, log
	cfg    ServerConfig
	prog   program
	mode   string     // the I/O mode set last; a restart starts in it
	mu     sync.Mutex // guards cmd and exited
	cmd    *exec.Cmd
	exited chan struct{} // closed when cmd has ended
}

// ports hands out port numbers: servers share one network namespace.
var ports atomic.Int32

// StartServer starts the server under test and waits until it accepts calls.
// The test's end stops it and, if the test failed, prints the end of its log.
func StartServer(t testing.TB, cfg ServerConfig) *Server {
	t.Helper()
	Sandboxed(t)
	s := &Server{
		Port: 2049 + 3*int(ports.Add(1)-1), Exports: cfg.Exports,
		t: t, dir: workDir(t), cfg: cfg, prog: programUnderTest(t),
	}
	s.mode = s.prog.modes()[0]
	t.Cleanup(func() {
		if err := s.Stop(); err != nil {
			t.Errorf("stop the server: %v", err)
		}
		if t.Failed() {
			t.Logf("end of the server's log:\n%s", Tail(s.logFile(), 60))
		}
	})
	if err := s.Start(); err != nil {
		t.Fatalf("%v\nits log:\n%s", err, Tail(s.logFile(), 40))
	}
	return s
}

func programUnderTest(t testing.TB) program {
	switch name := os.Getenv("SLUICE_TEST_SERVER"); name {
	case "", "sluice":
		return sluice{}
	case "ganesha":
		Commands(t, "ganesha.nfsd", "rpcbind")
		return ganesha{}
	default:
		t.Fatalf("SLUICE_TEST_SERVER=%q, want sluice or ganesha", name)
		return nil
	}
}

// workDir is like t.TempDir, but other users may search it: guests run
// programs in it as unprivileged users.
func workDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", strings.ToLower(filepath.Base(t.Name()))+"-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Errorf("remove %s: %v", dir, err)
		}
	})
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

// StateDir is where the server keeps what must outlive it.
func (s *Server) StateDir() string { return filepath.Join(s.dir, "state") }

func (s *Server) logFile() string { return filepath.Join(s.dir, "log") }

// Start starts the server again after Stop or Kill, with the same state.
func (s *Server) Start() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	argv, err := s.prog.command(s)
	if err != nil {
		return err
	}
	if s.cfg.Descriptor > 0 {
		argv = append([]string{"prlimit", fmt.Sprintf("--nofile=%d:%d", s.cfg.Descriptor, s.cfg.Descriptor)}, argv...)
	}
	log, err := os.OpenFile(s.logFile(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start the server: %w", err)
	}
	exited := make(chan struct{})
	go func() {
		cmd.Wait()
		close(exited)
	}()
	s.cmd, s.exited = cmd, exited
	return s.awaitReady()
}

// awaitReady waits until the server answers a NULL call of NFSv3.
func (s *Server) awaitReady() error {
	deadline := time.Now().Add(30 * time.Second)
	for time.Now().Before(deadline) {
		select {
		case <-s.exited:
			return fmt.Errorf("the server ended before it was ready: %v", s.cmd.ProcessState)
		case <-time.After(20 * time.Millisecond):
		}
		if pingNFS(fmt.Sprintf("%s:%d", ServerIP, s.Port)) == nil {
			return nil
		}
	}
	return errors.New("the server does not answer NULL")
}

// pingNFS sends one NULL call of NFS version 3 and expects an accepted reply.
func pingNFS(addr string) error {
	c, err := net.DialTimeout("tcp", addr, time.Second)
	if err != nil {
		return err
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(2 * time.Second))
	call := []byte{
		0x80, 0, 0, 40, // last fragment, 40 bytes
		0x11, 0x22, 0x33, 0x44, // xid
		0, 0, 0, 0, 0, 0, 0, 2, // call, RPC version 2
		0, 1, 0x86, 0xa3, 0, 0, 0, 3, 0, 0, 0, 0, // program 100003, version 3, NULL
		0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, // AUTH_NONE twice
	}
	if _, err := c.Write(call); err != nil {
		return err
	}
	reply := make([]byte, 28)
	for got := 0; got < len(reply); {
		n, err := c.Read(reply[got:])
		if err != nil {
			return err
		}
		got += n
	}
	want := append([]byte{0x80, 0, 0, 24, 0x11, 0x22, 0x33, 0x44, 0, 0, 0, 1}, make([]byte, 16)...)
	if !bytes.Equal(reply, want) {
		return fmt.Errorf("reply to NULL: % x", reply)
	}
	return nil
}

// Stop asks the server to end with SIGTERM and waits for it. A status other
// than 0 is an error; a server that is not running is not.
func (s *Server) Stop() error {
	state, err := s.end(syscall.SIGTERM)
	if err == nil && state != nil && !state.Success() {
		err = fmt.Errorf("the server ended with %v on SIGTERM", state)
	}
	return err
}

// Kill ends the server with SIGKILL, as a crash would.
func (s *Server) Kill() error {
	_, err := s.end(syscall.SIGKILL)
	return err
}

// Signal sends a signal to the server.
func (s *Server) Signal(sig syscall.Signal) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cmd == nil {
		return errors.New("the server is not running")
	}
	return s.cmd.Process.Signal(sig)
}

func (s *Server) end(sig syscall.Signal) (*os.ProcessState, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cmd == nil {
		return nil, nil
	}
	cmd := s.cmd
	s.cmd = nil
	select {
	case <-s.exited:
		return nil, fmt.Errorf("the server had ended by itself: %v", cmd.ProcessState)
	default:
	}
	if err := cmd.Process.Signal(sig); err != nil {
		return nil, err
	}
	select {
	case <-s.exited:
		return cmd.ProcessState, nil
	case <-time.After(30 * time.Second):
		cmd.Process.Signal(syscall.SIGQUIT) // a Go server prints its goroutines
		time.Sleep(time.Second)
		cmd.Process.Kill()
		<-s.exited
		return nil, fmt.Errorf("the server did not end within 30 s of %v", sig)
	}
}

// PID is the server's process id.
func (s *Server) PID() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cmd == nil {
		return 0
	}
	return s.cmd.Process.Pid
}

// Modes lists the I/O modes the server has.
func (s *Server) Modes() []string { return s.prog.modes() }

// SetMode switches how the whole server reads and writes, now and after its
// next start.
func (s *Server) SetMode(mode string) error {
	s.mode = mode
	return s.prog.setMode(s, mode)
}

// MountOptions are the options that reach the server without a portmapper: a
// version as mount's vers= has it; "" leaves that to client and server.
func (s *Server) MountOptions(version string) string {
	switch {
	case version == "":
		return fmt.Sprintf("%sproto=tcp,port=%d", s.prog.mountOptions(), s.Port)
	case version != "3":
		return fmt.Sprintf("%svers=%s,proto=tcp,port=%d", s.prog.mountOptions(), version, s.Port)
	}
	return fmt.Sprintf("%svers=3,nolock,proto=tcp,mountproto=tcp,port=%d,mountport=%d", s.prog.mountOptions(), s.Port, s.prog.mountPort(s))
}

// MountPort is the port MOUNT calls go to.
func (s *Server) MountPort() int { return s.prog.mountPort(s) }

// Tail returns the last lines of a file.
func Tail(file string, lines int) string {
	b, err := os.ReadFile(file)
	if err != nil {
		return err.Error()
	}
	all := strings.Split(strings.TrimRight(string(b), "\n"), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}
