// Command lab makes the experiments that tell an administrator which I/O mode
// to choose. `make lab` runs them; docs/benchmarks/lab-*.md is what they wrote,
// docs/choosing-a-mode.md what follows from that.
//
// Plan: the program starts itself a second time as process 1 of private
// network, mount and PID namespaces, so that servers get any port they like and
// end, with their mounts and loop devices, when it ends, however it ends. In
// there an experiment is a list of groups, a group a workload with some
// settings (modes of the server, or fio without a server). Its blocks run each
// setting once, in balanced order, each with a server of its own in a memory
// cgroup that stands for a small machine. Tables quote medians over the blocks
// with bootstrap intervals; no run is left out.
//
// Files: main.go (command line, namespaces), disk.go (file systems and
// datasets), server.go (sluice in the cgroup), sample.go (one measurement),
// work.go (the load), fio.go, group.go (blocks and their order), report.go and
// table.go (text, markdown, JSON), page.go (tables for administrators), and the experiments: stream.go, noisy.go,
// neighbour.go, misaligned.go.
package main

import (
	"context"
	_ "embed"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"sluice/test/measure"
)

//go:embed packages.txt
var packages string

// prefix begins the name of what a run makes outside its namespaces: a
// directory, locked while the run lasts, and a cgroup of the same name.
const prefix = "sluice-lab."

type options struct {
	sluice   string
	dir, out string
	rounds   int
	secs     float64
	memory   int64 // bytes that the small machine has
	quick    bool
	keep     bool
	work     string // set inside the namespaces
}

// quickMemory is the least memory of a server in the lab, in bytes.
const quickMemory = 160 << 20

// warmup is how long a load runs before it is measured, in seconds.
func (o *options) warmup() float64 { return min(o.secs/4, 1) }

func main() {
	if len(os.Args) > 1 {
		if run := map[string]func([]string) error{neighbourCommand: neighbourMain, pageCommand: pageMain}[os.Args[1]]; run != nil {
			if err := run(os.Args[2:]); err != nil {
				fmt.Fprintf(os.Stderr, "lab %s: %v\n", os.Args[1], err)
				os.Exit(1)
			}
			return
		}
	}
	var o options
	flags := flag.NewFlagSet("lab", flag.ExitOnError)
	flags.StringVar(&o.sluice, "sluice", "build/sluice", "server to measure")
	flags.StringVar(&o.dir, "dir", "/var/tmp", "`directory` on an ext4 disk to measure on; about eight times -memory are used and freed")
	flags.StringVar(&o.out, "out", "build", "`directory` for lab-N-NAME.md and .json")
	flags.IntVar(&o.rounds, "rounds", 4, "blocks of each workload")
	flags.Float64Var(&o.secs, "secs", 2, "seconds of each measurement")
	mib := flags.Int64("memory", 1024, "`MiB` of memory of the small server")
	flags.BoolVar(&o.quick, "quick", false, "try that everything works: tiny, two modes, figures without meaning")
	flags.BoolVar(&o.keep, "keep", false, "keep the servers' logs and print where they are")
	flags.StringVar(&o.work, "work", "", "for internal use")
	flags.Usage = func() {
		fmt.Fprintf(flags.Output(), "usage: lab [flags] EXPERIMENT...\n\nFor example: build/lab -rounds 2 -secs 1 stream\n\n")
		for _, e := range experiments {
			fmt.Fprintf(flags.Output(), "  %-11s %s\n", e.name, e.title)
		}
		fmt.Fprintln(flags.Output())
		flags.PrintDefaults()
	}
	flags.Parse(os.Args[1:])
	o.memory = *mib << 20
	if o.quick {
		o.rounds, o.secs, o.memory = 1, .2, quickMemory
	}
	chosen, err := choose(&o, flags.Args())
	if err != nil {
		fmt.Fprintln(os.Stderr, "lab:", err)
		os.Exit(2)
	}
	if o.work != "" {
		err = inside(&o, chosen)
	} else {
		err = outside(&o)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "lab:", err)
		os.Exit(1)
	}
}

// choose checks the command line and finds the experiments it names.
func choose(o *options, names []string) ([]experiment, error) {
	if o.rounds < 1 || o.secs <= 0 {
		return nil, fmt.Errorf("-rounds %d and -secs %g must be more than 0", o.rounds, o.secs)
	}
	if o.memory < quickMemory {
		return nil, fmt.Errorf("-memory %d: a server in less than %d MiB measures nothing but its own shortage", o.memory>>20, quickMemory>>20)
	}
	if len(names) == 0 {
		return nil, errors.New("name an experiment; -help lists them")
	}
	var chosen []experiment
	for _, name := range names {
		n := len(chosen)
		for _, e := range experiments {
			if name == e.name || name == "all" {
				chosen = append(chosen, e)
			}
		}
		if len(chosen) == n {
			return nil, fmt.Errorf("no experiment %q; -help lists them", name)
		}
	}
	return chosen, nil
}

// outside makes the working directory and the namespaces, waits, and cleans up.
func outside(o *options) (err error) {
	if os.Geteuid() != 0 {
		return errors.New("needs root, for namespaces, loop devices and cgroups")
	}
	os.Setenv("PATH", os.Getenv("PATH")+":/usr/local/sbin:/usr/sbin:/sbin")
	if m := measure.MissingPackages(packages); len(m) > 0 {
		return fmt.Errorf("not installed: %s; as root: apt-get install --no-install-recommends %[1]s", strings.Join(m, " "))
	}
	removeOld(o.dir)
	if err := room(o); err != nil {
		return err
	}
	work, err := os.MkdirTemp(o.dir, prefix)
	if err != nil {
		return err
	}
	name := filepath.Base(work)
	lock, err := lockDir(work)
	if err != nil {
		return errors.Join(fmt.Errorf("lock %s: %w", work, err), os.RemoveAll(work))
	}
	defer func() {
		lock.Close()
		if o.keep {
			fmt.Fprintln(os.Stderr, "lab: kept", work)
			err = errors.Join(err, os.RemoveAll(filepath.Join(work, dataDir)))
		} else {
			err = errors.Join(err, os.RemoveAll(work))
		}
		err = errors.Join(err, measure.RemoveCgroup(name))
	}()
	// The parent-death signal is tied to this thread.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	ctx, stop := signal.NotifyContext(context.Background(), unix.SIGINT, unix.SIGTERM, unix.SIGHUP)
	defer stop()
	cmd := exec.CommandContext(ctx, "/proc/self/exe", append([]string{"-work", work}, os.Args[1:]...)...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: unix.CLONE_NEWNET | unix.CLONE_NEWNS | unix.CLONE_NEWPID,
		Pdeathsig:  syscall.SIGKILL,
		Setsid:     true, // its own scheduling group; see inside
	}
	err = cmd.Run()
	if ctx.Err() != nil {
		return errors.New("ended by a signal; what was made is removed")
	}
	if err != nil {
		return fmt.Errorf("measuring: %w", err)
	}
	return nil
}

// lockDir locks a directory for as long as it is open.
func lockDir(path string) (*os.File, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// removeOld removes what runs that were killed have left: nobody locks it.
func removeOld(dir string) {
	old, _ := filepath.Glob(filepath.Join(dir, prefix+"*")) // the pattern is well formed
	for _, path := range old {
		lock, err := lockDir(path)
		if err != nil {
			continue
		}
		measure.RemoveCgroup(filepath.Base(path))
		os.RemoveAll(path)
		lock.Close()
	}
}

// room refuses to start where the disk is too small.
func room(o *options) error {
	var st unix.Statfs_t
	if err := unix.Statfs(o.dir, &st); err != nil {
		return fmt.Errorf("%s: %w", o.dir, err)
	}
	free, need := int64(st.Bavail)*st.Bsize, 9*o.memory+(1<<30)
	if free < need {
		return fmt.Errorf("%s: %d MiB free, and %d are needed with -memory %d; name another directory with -dir",
			o.dir, free>>20, need>>20, o.memory>>20)
	}
	return nil
}

// inside is process 1 of the namespaces.
func inside(o *options, chosen []experiment) error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make mounts private: %w", err)
	}
	// Clients and servers share one scheduling group (sched_autogroup), which
	// goes before the rest of the machine: other work then disturbs the
	// figures less. Where the kernel has no such groups, it disturbs them.
	os.WriteFile("/proc/self/autogroup", []byte("-20"), 0)
	for _, m := range [][2]string{{"proc", "/proc"}, {"tmpfs", "/run"}} {
		if err := unix.Mount(m[0], m[1], m[0], 0, ""); err != nil {
			return fmt.Errorf("mount %s: %w", m[1], err)
		}
	}
	if out, err := exec.Command("ip", "link", "set", "lo", "up").CombinedOutput(); err != nil {
		return fmt.Errorf("ip: %w: %s", err, out)
	}
	l, err := newLab(o)
	if err != nil {
		return err
	}
	for _, e := range chosen {
		start := time.Now()
		l.progress("%s", e.title)
		groups := e.groups(l)
		l.done, l.runs = 0, 0
		for _, g := range groups {
			l.runs += len(g.settings) * o.rounds
		}
		for _, g := range groups {
			if err := l.run(g); err != nil {
				return fmt.Errorf("%s: %s: %w", e.name, g.Name, err)
			}
		}
		if err := l.report(e, groups, time.Since(start)); err != nil {
			return err
		}
	}
	return l.close()
}
