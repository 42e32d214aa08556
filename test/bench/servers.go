// Servers under measurement, and one measurement of one of them.

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"sluice/test/bench/load"
	"sluice/test/measure"
)

// server is one running process.
type server struct {
	name        string
	port, mport int
	base        string // export that sub-directories of data are below; "" when each is an export
	pseudo      string // where NFSv4 shows base
	cmd         *exec.Cmd
	log         string
	exited      chan struct{}
	waitErr     error // valid once exited is closed
}

func (s *server) pid() int { return s.cmd.Process.Pid }

// stop ends the process: SIGTERM, and SIGKILL after ten seconds.
func (s *server) stop() error {
	s.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-s.exited:
		return nil
	case <-time.After(10 * time.Second):
	}
	s.cmd.Process.Kill()
	<-s.exited
	return fmt.Errorf("%s did not end within 10 s of SIGTERM", s.name)
}

// bench is one run of the program.
type bench struct {
	o        *options
	work     string // directory on the disk; data/ below it is exported
	data     string
	ganesha  *server // nil without -peer
	main     *server // sluice, buffered, that ratio rows share
	rpcbind  *exec.Cmd
	nextPort int
	dirs     int
	splicers map[int]*server // sluices by splice-min; nil until splice's file systems are mounted
	outcomes []outcome
}

// Sub-directories of data. ganesha exports data; sluice exports each.
const (
	dirSync  = "sync"  // exported sync, as is the default
	dirAsync = "async" // exported async
)

// Files in dirSync.
const (
	warmFile  = "warm"  // for READ and calls about one file
	writeFile = "write" // for WRITE
	coldFile  = "cold"  // larger than the memory limit
	warmSize  = 512 << 20
	writeSize = 256 << 20
	coldSize  = 1638 << 20
)

func newBench(o *options) (*bench, error) {
	b := &bench{o: o, work: o.work, data: filepath.Join(o.work, "data"), nextPort: 2049}
	for _, d := range []string{dirSync, dirAsync} {
		if err := os.MkdirAll(filepath.Join(b.data, d), 0755); err != nil {
			return b, err
		}
		// Not subject to the umask: callers are no owners.
		if err := os.Chmod(filepath.Join(b.data, d), 0777); err != nil {
			return b, err
		}
	}
	for name, size := range map[string]int64{warmFile: warmSize, writeFile: writeSize} {
		path := filepath.Join(b.data, dirSync, name)
		if err := load.FillFile(path, size); err != nil {
			return b, err
		}
		if err := os.Chmod(path, 0666); err != nil {
			return b, err
		}
	}
	if o.peer {
		if err := b.startGanesha(); err != nil {
			return b, err
		}
	}
	var err error
	b.main, err = b.startSluice(sluiceOptions{})
	return b, err
}

func (b *bench) close() {
	for _, s := range append(slices.Collect(maps.Values(b.splicers)), b.main, b.ganesha) {
		if s != nil {
			s.stop()
		}
	}
	if b.rpcbind != nil {
		b.rpcbind.Process.Kill()
		b.rpcbind.Wait()
	}
}

// launch starts argv with its output in a log file and waits until it answers.
func (b *bench) launch(s *server, argv ...string) error {
	s.log = filepath.Join(b.work, fmt.Sprintf("%s-%d.log", s.name, s.port))
	f, err := os.Create(s.log)
	if err != nil {
		return err
	}
	defer f.Close()
	s.cmd = exec.Command(argv[0], argv[1:]...)
	s.cmd.Stdout, s.cmd.Stderr = f, f
	if err := s.cmd.Start(); err != nil {
		return fmt.Errorf("%s: %w", s.name, err)
	}
	s.exited = make(chan struct{})
	go func() {
		s.waitErr = s.cmd.Wait()
		close(s.exited)
	}()
	var last error
	for end := time.Now().Add(60 * time.Second); time.Now().Before(end); time.Sleep(200 * time.Millisecond) {
		if _, last = b.measure(s, job{op: "getattr", file: warmFile, count: 1, secs: 5}); last == nil {
			return nil
		}
		select {
		case <-s.exited:
			return last
		default:
		}
	}
	s.stop()
	return fmt.Errorf("%s does not answer (%v): %s", s.name, last, tail(s.log))
}

// tail returns the last lines of a log.
func tail(path string) string {
	t, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(t)), "\n")
	return strings.Join(lines[max(0, len(lines)-5):], "\n")
}

// startGanesha starts nfs-ganesha as its package configures it, but for the
// ports, short NFSv4 lease times, and no Kerberos.
func (b *bench) startGanesha() error {
	const run = "/run/ganesha-bench" // private to the mount namespace
	for _, d := range []string{"/run/rpcbind", run, run + "/recovery"} {
		if err := os.MkdirAll(d, 0755); err != nil {
			return err
		}
	}
	conf := fmt.Sprintf(`NFS_CORE_PARAM { Protocols = 3,4; NFS_Port = 12049; MNT_Port = 12050; NLM_Port = 12051;
	Enable_NLM = true; Enable_RQUOTA = false; }
NFSv4 { Lease_Lifetime = 10; Grace_Period = 5; Minor_Versions = 0,1,2; RecoveryBackend = fs; RecoveryRoot = %s/recovery; }
NFS_KRB5 { Active_krb5 = false; }
EXPORT { Export_Id = 1; Path = %s; Pseudo = /export; Access_Type = RW; Protocols = 3,4; Transports = TCP,UDP;
	Squash = no_root_squash; SecType = sys,none; FSAL { Name = VFS; } }
`, run, b.data)
	if err := os.WriteFile(run+"/conf", []byte(conf), 0644); err != nil {
		return err
	}
	b.rpcbind = exec.Command("rpcbind", "-f")
	if err := b.rpcbind.Start(); err != nil {
		return fmt.Errorf("rpcbind: %w", err)
	}
	for end := time.Now().Add(5 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		if _, err := os.Stat("/run/rpcbind.sock"); err == nil {
			break
		}
		if time.Now().After(end) {
			return errors.New("rpcbind does not start")
		}
	}
	s := &server{name: "ganesha", port: 12049, mport: 12050, base: b.data, pseudo: "/export"}
	err := b.launch(s, "ganesha.nfsd", "-F", "-f", run+"/conf", "-L", filepath.Join(b.work, "ganesha.log"), "-p", run+"/pid", "-N", "NIV_EVENT")
	if err != nil {
		return fmt.Errorf("%w\n%s", err, tail(filepath.Join(b.work, "ganesha.log")))
	}
	b.ganesha = s
	return nil
}

// sluiceOptions are what an instance of sluice differs in.
type sluiceOptions struct {
	readMode string // "" for buffered
	exports  string // more lines for the exports file
	cgroup   *measure.Cgroup

	spliceMin int // 0 for the default
}

func (b *bench) startSluice(o sluiceOptions) (*server, error) {
	s := &server{name: "sluice", port: b.nextPort}
	b.nextPort++
	s.mport = s.port
	at := func(suffix string) string { return filepath.Join(b.work, fmt.Sprintf("sluice-%d%s", s.port, suffix)) }
	const opts = "rw,no_root_squash,insecure,no_subtree_check"
	exports := fmt.Sprintf("%s/%s *(%s,sync)\n%[1]s/%[4]s *(%[3]s,async)\n%[5]s", b.data, dirSync, opts, dirAsync, o.exports)
	if err := os.WriteFile(at(".exports"), []byte(exports), 0644); err != nil {
		return nil, err
	}
	if o.readMode == "" {
		o.readMode = "buffered"
	}
	argv := []string{b.o.sluice, "serve", "--exports", at(".exports"), "--listen", fmt.Sprintf("%s:%d", serverAddr, s.port),
		"--admin", fmt.Sprintf("/run/sluice-%d.sock", s.port), "--state", at(".state"),
		"--read-mode", o.readMode, "--splice-min", strconv.Itoa(o.spliceMin), "--rpcbind", "off", "--log-format", "json"}
	if o.cgroup != nil {
		argv = o.cgroup.Command(argv)
	}
	if err := b.launch(s, argv...); err != nil {
		return nil, err
	}
	return s, nil
}

// job is one run of nfsload.
type job struct {
	op           string
	v41          bool   // NFSv4.1 in sessions
	dir          string // below dirSync, or a path that begins with dirAsync; "" for dirSync
	file         string
	size         int
	conns, depth int
	uids         string
	count        int
	verify       bool
	secs         float64
	extra        []string // more arguments
}

// measure runs nfsload against s.
func (b *bench) measure(s *server, j job) (load.Result, error) {
	var r load.Result
	return r, b.nfsload(s, j, &r)
}

func (b *bench) nfsload(s *server, j job, result any) error {
	select {
	case <-s.exited:
		return fmt.Errorf("%s ended (%v): %s", s.name, s.waitErr, tail(s.log))
	default:
	}
	top, below := j.dir, ""
	if top == "" {
		top = dirSync
	}
	if i := strings.IndexByte(top, '/'); i > 0 {
		top, below = top[:i], top[i+1:]
	}
	export, dir := filepath.Join(b.data, top), below
	if s.base != "" {
		export, dir = s.base, filepath.Join(top, below)
		if j.v41 {
			export = s.pseudo
		}
	}
	args := []string{"-json", "-addr", serverAddr, "-port", strconv.Itoa(s.port), "-mport", strconv.Itoa(s.mport),
		"-export", export, "-dir", dir, "-op", j.op, "-pid", strconv.Itoa(s.pid()),
		"-conns", strconv.Itoa(max(j.conns, 1)), "-depth", strconv.Itoa(max(j.depth, 1)),
		"-size", strconv.Itoa(max(j.size, 1)), "-count", strconv.Itoa(j.count),
		"-time", time.Duration(j.secs * float64(time.Second)).String()}
	if j.v41 {
		args = append(args, "-v41")
	}
	if j.file != "" {
		args = append(args, "-file", j.file)
	}
	if j.uids != "" {
		args = append(args, "-uid", j.uids)
	}
	if j.verify {
		args = append(args, "-verify")
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Duration(j.secs*float64(time.Second))*3+2*time.Minute)
	defer cancel()
	out, err := exec.CommandContext(ctx, b.o.nfsload, append(args, j.extra...)...).Output()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		return fmt.Errorf("%s: %s", s.name, strings.TrimSpace(strings.TrimPrefix(string(exit.Stderr), "nfsload: ")))
	}
	if err != nil {
		return err
	}
	return json.Unmarshal(out, result)
}

// freshDir makes an empty directory that everyone may write below top, and
// returns its path for a job. It stays until the end of the run: ext4 without a
// journal does not use an inode again for minutes after it was freed, and
// searching past many of those makes every create slow.
func (b *bench) freshDir(top string) (string, error) {
	b.dirs++
	name := fmt.Sprintf("%s/d%d", top, b.dirs)
	path := filepath.Join(b.data, name)
	if err := os.Mkdir(path, 0777); err != nil {
		return "", err
	}
	return name, os.Chmod(path, 0777)
}

// settle writes dirty data out, so that no measurement pays for the last one.
func (b *bench) settle() error {
	f, err := os.Open(b.data)
	if err != nil {
		return err
	}
	defer f.Close()
	return unix.Syncfs(int(f.Fd()))
}
