// Command bench measures sluice beside nfs-ganesha and prints the table of
// figures to reach. `make bench` runs it; docs/benchmarks/ holds what it printed.
//
// Plan: the program starts itself a second time as process 1 of private
// network, mount and PID namespaces, so that servers get any port they like and
// end, with their mounts, when it ends. In there, one nfs-ganesha and one sluice
// export the same directory on disk. For each row of the table, rounds alternate
// the two servers under the same load from nfsload; a row quotes the median of
// the rounds' ratios, with the least and the greatest. No round is left out.
// Rows that are not ratios start a sluice of their own.
//
// Files: main.go (command line, namespaces), servers.go (starting the servers,
// running nfsload), rows.go (the table of ratio rows and how one is measured),
// rows41.go (those of NFSv4.1), special.go (the other rows), machine.go (what it ran on),
// report.go (text, markdown, JSON). load/ is the load generator, nfsload/ its command,
// slowfs/ a FUSE file system whose reads take their time. splice*.go and payload/ are an
// experiment of their own: moving data without a copy against copying it.
package main

import (
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

type options struct {
	sluice, nfsload string
	dir, out        string
	rows            string
	rounds          int
	secs            float64
	peer            bool
	keep            bool
	splice          string // parts of the splice experiment, in place of rows
	work            string // set inside the namespaces

	// For a process that is one end of a transfer.
	end, config string
	port        int
}

func main() {
	var o options
	flag.StringVar(&o.sluice, "sluice", "build/sluice", "server to measure")
	flag.StringVar(&o.nfsload, "nfsload", "build/nfsload", "load generator")
	flag.StringVar(&o.dir, "dir", "/var/tmp", "`directory` on the disk to measure on; about 3 GiB are used and freed")
	flag.StringVar(&o.out, "out", "", "write `FILE`.md and FILE.json")
	flag.StringVar(&o.rows, "rows", "figures", "rows, comma separated, or figures, extra, all")
	flag.IntVar(&o.rounds, "rounds", 5, "rounds of each row")
	flag.Float64Var(&o.secs, "secs", 2, "seconds of each measurement")
	flag.BoolVar(&o.peer, "peer", true, "measure nfs-ganesha too")
	flag.BoolVar(&o.keep, "keep", false, "keep the servers' logs and print where they are")
	list := flag.Bool("list", false, "list the rows")
	flag.StringVar(&o.splice, "splice", "", "compare splice and copy in place of rows: `parts` size, mixed, write, comma separated, or all")
	flag.StringVar(&o.work, "work", "", "for internal use")
	flag.StringVar(&o.end, "end", "", "for internal use")
	flag.StringVar(&o.config, "config", "", "for internal use")
	flag.IntVar(&o.port, "port", 0, "for internal use")
	flag.Parse()
	err := func() error {
		if flag.NArg() > 0 {
			return fmt.Errorf("unexpected argument %q", flag.Arg(0))
		}
		if o.end != "" {
			return endpoint(&o, os.Stdout)
		}
		if o.splice != "" {
			o.peer = false
		}
		if *list {
			for _, r := range allRows() {
				fmt.Printf("%-14s %s\n", r.name, r.work)
			}
			return nil
		}
		if o.rounds < 1 || o.secs <= 0 {
			return errors.New("rounds and secs must be positive")
		}
		rows, err := pick(o.rows)
		if err != nil {
			return err
		}
		if o.work != "" {
			return inside(&o, rows)
		}
		return outside(&o)
	}()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// pick returns the rows that the option names.
func pick(names string) ([]row, error) {
	all := allRows()
	var picked []row
	for name := range strings.SplitSeq(names, ",") {
		n := len(picked)
		for _, r := range all {
			if name == r.name || name == "all" || name == "extra" && r.extra || name == "figures" && !r.extra {
				picked = append(picked, r)
			}
		}
		if len(picked) == n {
			return nil, fmt.Errorf("no row %q; -list names them", name)
		}
	}
	return picked, nil
}

// outside makes the working directory and the namespaces, waits, and cleans up.
func outside(o *options) error {
	if os.Geteuid() != 0 {
		return errors.New("needs root, for namespaces and for serving other users' files")
	}
	os.Setenv("PATH", os.Getenv("PATH")+":/usr/local/sbin:/usr/sbin:/sbin")
	if m := measure.MissingPackages(packages); len(m) > 0 {
		return fmt.Errorf("not installed: %s; as root: apt-get install --no-install-recommends %[1]s", strings.Join(m, " "))
	}
	if err := raiseDescriptorLimit(idleConns + 1000); err != nil {
		return err
	}
	work, err := os.MkdirTemp(o.dir, "sluice-bench-")
	if err != nil {
		return err
	}
	if err := os.Chmod(work, 0755); err != nil {
		return err
	}
	defer func() {
		if o.keep {
			fmt.Fprintln(os.Stderr, "bench: kept", work)
			os.RemoveAll(filepath.Join(work, "data"))
		} else {
			os.RemoveAll(work)
		}
	}()
	// The parent-death signal is tied to this thread.
	runtime.LockOSThread()
	cmd := exec.Command("/proc/self/exe", append(os.Args[1:len(os.Args):len(os.Args)], "-work", work)...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: unix.CLONE_NEWNET | unix.CLONE_NEWNS | unix.CLONE_NEWPID,
		Pdeathsig:  syscall.SIGKILL,
		Setsid:     true, // its own scheduling group; see inside
	}
	sig := make(chan os.Signal, 1)
	signal.Notify(sig, os.Interrupt, syscall.SIGTERM)
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start in private namespaces: %w", err)
	}
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	select {
	case s := <-sig:
		cmd.Process.Kill()
		<-done
		err = fmt.Errorf("ended by %v", s)
	case err = <-done:
		if err != nil {
			err = fmt.Errorf("measuring: %w", err)
		}
	}
	return errors.Join(err, measure.RemoveCgroup(filepath.Base(work)))
}

// raiseDescriptorLimit lets this process's children, servers and clients, open
// want files each.
func raiseDescriptorLimit(want uint64) error {
	var l unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &l); err != nil {
		return err
	}
	if l.Max >= want {
		want = l.Max
	}
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: want, Max: want}); err != nil {
		return fmt.Errorf("raise the descriptor limit from %d to %d: %w", l.Max, want, err)
	}
	return nil
}

const serverAddr = "10.98.0.1" // ganesha serves no loopback address

// inside is process 1 of the namespaces.
func inside(o *options, rows []row) error {
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
	for _, args := range []string{"link set lo up", "addr add " + serverAddr + "/32 dev lo"} {
		if out, err := exec.Command("ip", strings.Fields(args)...).CombinedOutput(); err != nil {
			return fmt.Errorf("ip %s: %w: %s", args, err, out)
		}
	}
	start := time.Now()
	b, err := newBench(o)
	defer b.close()
	if err != nil {
		return err
	}
	if o.splice != "" {
		return b.splice()
	}
	for _, r := range rows {
		fmt.Fprintf(os.Stderr, "%s\n", r.work)
		for _, out := range r.run(b, r) {
			out.Row = r.name
			b.outcomes = append(b.outcomes, out)
			fmt.Fprintf(os.Stderr, "  %s\n", out.line())
		}
	}
	return b.report(time.Since(start))
}
