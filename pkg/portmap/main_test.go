// The tests of this package run in namespaces of their own: port 111 is free
// there, and /run is empty, so that a real rpcbind can run beside them.

package portmap

import (
	"bytes"
	"context"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"sluice/rpc"
	"sluice/test/testenv"
)

func TestMain(m *testing.M) { os.Exit(testenv.Main(m, nil)) }

// logBuffer collects what is logged.
type logBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func (l *logBuffer) logger() zerolog.Logger { return zerolog.New(l) }

// lines counts the log lines that contain s.
func (l *logBuffer) lines(s string) (n int) {
	for _, line := range strings.Split(l.String(), "\n") {
		if strings.Contains(line, s) {
			n++
		}
	}
	return n
}

// startRpcbind runs the system's rpcbind in the sandbox and waits until it answers.
func startRpcbind(t *testing.T) *exec.Cmd {
	t.Helper()
	testenv.Sandboxed(t)
	testenv.Commands(t, "rpcbind")
	cmd := exec.Command("rpcbind", "-f")
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stopRpcbind(cmd) })
	waitFor(t, "rpcbind to answer", func() bool {
		b, err := dial(DefaultSocket, DefaultTCP, time.Second)
		if err != nil {
			return false
		}
		defer b.Close()
		_, err = b.list()
		return err == nil
	})
	return cmd
}

func stopRpcbind(cmd *exec.Cmd) {
	if cmd.ProcessState != nil {
		return
	}
	cmd.Process.Signal(syscall.SIGCONT)
	cmd.Process.Kill()
	cmd.Wait()
}

func waitFor(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline := time.Now().Add(10 * time.Second)
	for !ok() {
		if time.Now().After(deadline) {
			t.Fatalf("gave up waiting for %s", what)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// startNull runs an RPC server that answers NULL of a program, and returns its address.
func startNull(t *testing.T, listen string, progs ...Program) netip.AddrPort {
	t.Helper()
	ln, err := net.Listen("tcp", listen)
	if err != nil {
		t.Fatal(err)
	}
	var ps []rpc.Program
	for _, p := range progs {
		rp := rpc.Program{Prog: p.Prog, Name: "TEST"}
		for _, v := range p.Versions {
			rp.Versions = append(rp.Versions, rpc.Version{Vers: v, Procs: []rpc.Proc{{Name: "NULL", Run: null}}})
		}
		ps = append(ps, rp)
	}
	s, err := rpc.NewServer(rpc.Config{Programs: ps, Threads: 1, SlowThreads: 1})
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- s.Serve(ln.(*net.TCPListener)) }()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		s.Shutdown(ctx)
		if err := <-done; err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
	return ln.Addr().(*net.TCPAddr).AddrPort()
}

// rpcinfo runs rpcinfo(8) and returns what it printed.
func rpcinfo(t *testing.T, args ...string) string {
	t.Helper()
	testenv.Commands(t, "rpcinfo")
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	out, err := exec.CommandContext(ctx, "rpcinfo", args...).CombinedOutput()
	if err != nil {
		t.Fatalf("rpcinfo %v: %v\n%s", args, err, out)
	}
	return string(out)
}

// fields reports whether a line of out has all the words, in order and as whole fields.
func fields(out string, words ...string) bool {
	for line := range strings.Lines(out) {
		f := strings.Fields(line)
		i := 0
		for _, w := range f {
			if i < len(words) && w == words[i] {
				i++
			}
		}
		if i == len(words) {
			return true
		}
	}
	return false
}
