// Plan of this file: Main wraps testing.M. As root it runs the test binary a
// second time as process 1 of private network, mount, PID and IPC namespaces,
// and waits for it. Whatever the tests start or mount in there ends with that
// process, however it ends: the kernel kills the PID namespace with its
// process 1, and loop devices marked for automatic release go with the last
// mount. Nothing on the machine outside is changed, and port numbers are free.

package testenv

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

const sandboxEnv = "SLUICE_TEST_SANDBOX"

// ServerIP is the address servers listen on in the sandbox: the bridge that
// guests are attached to.
const ServerIP = "10.99.0.1"

// Main runs the package's tests inside private namespaces and returns the
// exit status for os.Exit. prepare runs before that, outside, where the
// network and the build cache are: it builds and fetches what the tests use
// and hands results over through os.Setenv. Its error is a failure of the
// package. Where namespaces cannot be had, the tests run in place and skip
// themselves with Sandboxed.
func Main(m *testing.M, prepare func() error) int {
	if os.Getenv(sandboxEnv) != "" {
		if err := enterSandbox(); err != nil {
			fmt.Fprintln(os.Stderr, "sandbox:", err)
			return 1
		}
		return m.Run()
	}
	if sandboxImpossible() != "" {
		return m.Run()
	}
	status, err := prepareAndRun(prepare)
	if err != nil {
		fmt.Fprintln(os.Stderr, "test environment:", err)
		return 1
	}
	return status
}

// prepareAndRun gives the run a temporary directory of its own, which goes at
// the end whatever happened in the sandbox.
func prepareAndRun(prepare func() error) (status int, err error) {
	dir, err := os.MkdirTemp("", "sluice-test-")
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	// Guests run programs in it as unprivileged users.
	if err := errors.Join(os.Chmod(dir, 0o755), os.Setenv("TMPDIR", dir)); err != nil {
		return 0, err
	}
	if prepare != nil {
		if err := prepare(); err != nil {
			return 0, err
		}
	}
	return runSandboxed()
}

// runSandboxed starts this binary again in fresh namespaces and returns its
// exit status. An interrupt of this process ends the sandbox first.
func runSandboxed() (int, error) {
	// The parent-death signal is tied to the thread that starts the child.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	ctx, stop := signal.NotifyContext(context.Background(), unix.SIGINT, unix.SIGTERM, unix.SIGHUP)
	defer stop()
	cmd := exec.CommandContext(ctx, "/proc/self/exe", os.Args[1:]...)
	cmd.Args[0] = os.Args[0]
	cmd.Env = append(os.Environ(), sandboxEnv+"=1")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: unix.CLONE_NEWNET | unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWIPC,
		Pdeathsig:  syscall.SIGKILL,
	}
	err := cmd.Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.Exited() {
		return exit.ExitCode(), nil
	}
	return 0, err
}

// enterSandbox is the set-up that process 1 of the namespaces does: nothing it
// mounts is seen outside, daemons get an empty /run, /proc shows the new PID
// namespace, and a bridge carries ServerIP.
func enterSandbox() error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make mounts private: %w", err)
	}
	for _, m := range []struct{ dir, fs, data string }{
		{"/proc", "proc", ""},
		{"/run", "tmpfs", "mode=755"},
		{"/dev/shm", "tmpfs", "size=90%,mode=1777"}, // the guests' memory
	} {
		if err := unix.Mount(m.fs, m.dir, m.fs, 0, m.data); err != nil {
			return fmt.Errorf("mount %s: %w", m.dir, err)
		}
	}
	for _, dir := range []string{"/run/rpcbind", "/run/lock", "/run/ganesha"} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
	}
	// A guest's panic is an abort(): no core files.
	if err := unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{}); err != nil {
		return fmt.Errorf("core limit: %w", err)
	}
	os.Setenv("PATH", os.Getenv("PATH")+":/usr/local/sbin:/usr/sbin:/sbin")
	for _, args := range [][]string{
		{"link", "set", "lo", "up"},
		{"link", "add", "br0", "type", "bridge"},
		{"addr", "add", ServerIP + "/24", "dev", "br0"},
		{"link", "set", "br0", "up"},
	} {
		if err := IP(args...); err != nil {
			return err
		}
	}
	return nil
}

// IP runs ip(8) and returns its complaint as an error.
func IP(args ...string) error {
	out, err := exec.Command("ip", args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("ip %v: %w: %s", args, err, out)
	}
	return nil
}

// sandboxImpossible says why Main cannot make namespaces here; "" means it can.
func sandboxImpossible() string {
	if os.Geteuid() != 0 {
		return "not root; run the tests as root"
	}
	if findCommand("ip") == "" {
		return "ip is not installed (Debian package iproute2)"
	}
	return ""
}

func sandboxProblem() string {
	if os.Getenv(sandboxEnv) != "" {
		return ""
	}
	if why := sandboxImpossible(); why != "" {
		return why
	}
	return "the package's TestMain does not call testenv.Main"
}
