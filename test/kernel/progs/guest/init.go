// Plan of this file: process 1 of a guest. The root file system is the host's,
// read-only, so every installed program can run; what must be writable gets a
// tmpfs. Modules are loaded from the folder the harness names, without kmod
// and without /lib/modules, which a bare host may lack. Then the agent answers
// the harness until it is told to power off.

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"sluice/test/kernel/guestapi"
	"sluice/test/kmod"
)

const tmpDir = "/run/tmp"

func runInit() error {
	for k, v := range map[string]string{
		"PATH":   "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
		"HOME":   tmpDir,
		"TMPDIR": tmpDir,
		"LANG":   "C.UTF-8",
	} {
		os.Setenv(k, v)
	}
	for _, m := range []struct{ dir, fs string }{
		{"/proc", "proc"}, {"/sys", "sysfs"}, {"/run", "tmpfs"}, {"/mnt", "tmpfs"},
		{"/var/tmp", "tmpfs"}, {"/var/lib/nfs", "tmpfs"}, {"/dev/shm", "tmpfs"},
	} {
		// devtmpfs is mounted by the kernel; its subfolders are ours to make.
		if strings.HasPrefix(m.dir, "/dev/") {
			os.MkdirAll(m.dir, 0o755)
		}
		if err := unix.Mount("none", m.dir, m.fs, 0, ""); err != nil {
			return fmt.Errorf("mount %s: %w", m.dir, err)
		}
	}
	for _, dir := range []string{tmpDir, "/run/rpcbind", "/var/lib/nfs/sm", "/var/lib/nfs/sm.bak", "/var/lib/nfs/rpc_pipefs"} {
		if err := os.MkdirAll(dir, 0o777); err != nil {
			return err
		}
	}
	if err := os.Chmod(tmpDir, 0o1777); err != nil {
		return err
	}
	os.Symlink("/proc/self/fd", "/dev/fd") // devtmpfs may have it already
	// Out of memory: die at once, where a killed init would only hang.
	if err := os.WriteFile("/proc/sys/vm/panic_on_oom", []byte("1"), 0); err != nil {
		return err
	}
	var uts unix.Utsname
	if err := unix.Uname(&uts); err != nil {
		return err
	}
	modules := filepath.Join(os.Getenv(guestapi.EnvModules), unix.ByteSliceToString(uts.Release[:]))
	for _, name := range []string{"nfsv3", "nfsv4"} {
		if err := kmod.Load(modules, name); err != nil {
			return err
		}
	}
	id, err := strconv.Atoi(os.Getenv(guestapi.EnvID))
	if err != nil {
		return fmt.Errorf("guest number: %w", err)
	}
	if err := unix.Sethostname(fmt.Appendf(nil, "guest%d", id)); err != nil {
		return err
	}
	for _, args := range [][]string{
		{"link", "set", "lo", "up"},
		{"addr", "add", fmt.Sprintf("10.99.0.%d/24", id+1), "dev", "vec0"},
		{"link", "set", "vec0", "up"},
	} {
		if out, err := exec.Command("ip", args...).CombinedOutput(); err != nil {
			return fmt.Errorf("ip %v: %w: %s", args, err, out)
		}
	}
	return serve()
}

// serve answers the harness; it returns only on an error.
func serve() error {
	http.HandleFunc("POST /run", run)
	http.HandleFunc("POST /blocked", func(http.ResponseWriter, *http.Request) {
		os.WriteFile("/proc/sys/kernel/printk", []byte("8"), 0)
		os.WriteFile("/proc/sysrq-trigger", []byte("w"), 0)
	})
	http.HandleFunc("POST /poweroff", func(w http.ResponseWriter, _ *http.Request) {
		// Off without a sync: the only writable file systems are memory, and a
		// mount whose server is gone would hang it.
		unix.Reboot(unix.LINUX_REBOOT_CMD_POWER_OFF)
	})
	l, err := net.Listen("tcp", fmt.Sprintf(":%d", guestapi.Port))
	if err != nil {
		return err
	}
	return http.Serve(l, nil)
}

// run executes one Command and streams its output.
func run(w http.ResponseWriter, r *http.Request) {
	var c guestapi.Command
	if err := json.NewDecoder(r.Body).Decode(&c); err != nil || len(c.Argv) == 0 {
		http.Error(w, fmt.Sprintf("bad command: %v", err), http.StatusBadRequest)
		return
	}
	w.Header().Set("Trailer", guestapi.ExitTrailer)
	out := flusher{w, http.NewResponseController(w)}
	if c.Argv[0] == guestapi.Self {
		c.Argv[0] = "/proc/self/exe"
	}
	cmd := exec.CommandContext(r.Context(), c.Argv[0], c.Argv[1:]...)
	cmd.Dir = tmpDir
	if c.Dir != "" {
		cmd.Dir = c.Dir
	}
	cmd.Env = append(os.Environ(), c.Env...)
	cmd.Stdout, cmd.Stderr = out, out
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Setpgid:    true,
		Credential: &syscall.Credential{Uid: c.UID, Gid: c.GID, Groups: c.Groups},
	}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	status := 0
	if err := cmd.Run(); err != nil {
		var exit *exec.ExitError
		if !errors.As(err, &exit) {
			fmt.Fprintln(out, "agent:", err)
			status = 127
		} else if ws := exit.Sys().(syscall.WaitStatus); ws.Signaled() {
			status = 128 + int(ws.Signal())
		} else {
			status = ws.ExitStatus()
		}
	}
	w.Header().Set(guestapi.ExitTrailer, strconv.Itoa(status))
}

// flusher sends each piece of output at once.
type flusher struct {
	w  http.ResponseWriter
	rc *http.ResponseController
}

func (f flusher) Write(p []byte) (int, error) {
	n, err := f.w.Write(p)
	f.rc.Flush()
	return n, err
}
