// Command guest is process 1 of the virtual machine in which sluice and the
// kernel's NFS server are measured side by side. It does what package job's Job
// in its root says, reports on the second serial port, and powers off.
//
// Files: main.go (mounts, modules, the end), servers.go (starting both servers
// on one export), measure.go (rounds).
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"sluice/test/kmod"
	"sluice/test/lab/nfsd/job"
	"sluice/test/measure"
)

func main() {
	if os.Getpid() != 1 {
		fmt.Fprintln(os.Stderr, "guest: process 1 of the lab's virtual machine, which `make lab-nfsd` starts; it does nothing elsewhere")
		os.Exit(2)
	}
	if err := run(); err != nil {
		fmt.Println("guest:", err)
		tell(job.Event{Failed: &job.Failed{Error: err.Error()}})
	}
	// The disk's content is of no use to anybody. Off at once, as an unmount
	// would wait for servers that still run.
	unix.Reboot(unix.LINUX_REBOOT_CMD_POWER_OFF)
}

func run() error {
	if err := prepare(); err != nil {
		return err
	}
	text, err := os.ReadFile(job.Path)
	if err != nil {
		return err
	}
	var j job.Job
	if err := json.Unmarshal(text, &j); err != nil {
		return fmt.Errorf("%s: %w", job.Path, err)
	}
	say("booted")
	s, err := startServers()
	if err != nil {
		return err
	}
	tell(job.Event{Facts: facts(s)})
	for _, r := range j.Rows {
		say("%s", r.Work)
		if err := s.measureRow(r, &j); err != nil {
			tell(job.Event{Failed: &job.Failed{Row: r.Name, Error: err.Error()}})
		}
	}
	tell(job.Event{Done: true})
	return nil
}

// results is the port that events go to; prepare opens it.
var results struct {
	sync.Mutex
	port *os.File
}

func tell(e job.Event) {
	text, err := json.Marshal(e)
	if err != nil {
		text = fmt.Appendf(nil, `{"Failed":{"Error":%q}}`, err)
	}
	results.Lock()
	defer results.Unlock()
	if results.port != nil {
		results.port.Write(append(text, '\n'))
	}
}

func say(format string, args ...any) { tell(job.Event{Say: fmt.Sprintf(format, args...)}) }

// prepare mounts what a system has, opens the port, loads modules, and makes
// the export on the virtual disk.
func prepare() error {
	os.Setenv("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
	for _, m := range [][2]string{{"/proc", "proc"}, {"/sys", "sysfs"}, {"/dev", "devtmpfs"}, {"/run", "tmpfs"}, {"/tmp", "tmpfs"}} {
		if err := os.MkdirAll(m[0], 0o755); err != nil {
			return err
		}
		if err := unix.Mount("none", m[0], m[1], 0, ""); err != nil {
			return fmt.Errorf("mount %s: %w", m[0], err)
		}
	}
	port, err := os.OpenFile(job.Results, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	results.port = port
	// Out of memory: end at once, where a killed process 1 would only hang.
	if err := os.WriteFile("/proc/sys/vm/panic_on_oom", []byte("1"), 0); err != nil {
		return err
	}
	for _, dir := range []string{"/run/rpcbind", "/var/lib/nfs/v4recovery", "/var/lib/nfs/sm", "/var/lib/sluice", job.Export} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
	}
	for _, name := range []string{"etab", "rmtab", "xtab", "state"} {
		if err := os.WriteFile(filepath.Join("/var/lib/nfs", name), nil, 0o644); err != nil {
			return err
		}
	}
	for _, name := range []string{"virtio_blk", "nfsd"} {
		if err := kmod.Load(filepath.Join(job.Modules, release()), name); err != nil {
			return err
		}
	}
	if err := loopbackUp(); err != nil {
		return err
	}
	return mountDisk()
}

func release() string {
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		return "unknown"
	}
	return unix.ByteSliceToString(u.Release[:])
}

func loopbackUp() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	ifr, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	ifr.SetUint16(unix.IFF_UP)
	if err := unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, ifr); err != nil {
		return fmt.Errorf("set the loopback device up: %w", err)
	}
	return nil
}

// mountDisk waits for the virtual disk and mounts the file system that the
// host made on it.
func mountDisk() error {
	const disk = "/dev/vda"
	var err error
	for range 100 {
		if err = unix.Mount(disk, job.Export, "ext4", unix.MS_RELATIME, ""); err == nil {
			return os.Chmod(job.Export, 0o777)
		}
		time.Sleep(100 * time.Millisecond)
	}
	return fmt.Errorf("mount %s: %w", disk, err)
}

// command runs a program to its end.
func command(argv ...string) error {
	out, err := exec.Command(argv[0], argv[1:]...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s: %w: %s", strings.Join(argv, " "), err, strings.TrimSpace(string(out)))
	}
	return nil
}

// trimmed is a file of one line.
func trimmed(path string) string {
	b, err := os.ReadFile(path)
	if err != nil {
		return "unknown"
	}
	return strings.TrimSpace(string(b))
}

func facts(s *servers) *job.Facts {
	f := &job.Facts{
		Kernel: release() + " " + field(trimmed("/proc/version"), "Debian"),
		Clock:  trimmed("/sys/devices/system/clocksource/clocksource0/current_clocksource"),
		TCP:    trimmed("/proc/sys/net/ipv4/tcp_congestion_control"),
		CPU:    measure.Field("/proc/cpuinfo", "model name", ":"),
		CPUs:   strings.Count("\n"+trimmed("/proc/cpuinfo"), "\nprocessor"),
		Sluice: measure.Output(job.Sluice, "version"), Threads: len(s.kernelTasks), BootS: s.bootSeconds,
	}
	fmt.Sscan(measure.Field("/proc/meminfo", "MemTotal", ":"), &f.MemoryMiB)
	f.MemoryMiB /= 1024
	fmt.Sscan(trimmed("/proc/fs/nfsd/max_block_size"), &f.MaxBlock)
	for line := range strings.Lines(trimmed("/proc/mounts")) {
		if m := strings.Fields(line); len(m) > 3 && m[1] == job.Export {
			f.FileSystem = m[2] + " " + m[3]
		}
	}
	return f
}

// field returns the word behind a word of s, for example a version.
func field(s, word string) string {
	words := strings.Fields(s)
	for i, w := range words {
		if w == word && i+1 < len(words) {
			return words[i+1]
		}
	}
	return ""
}
