// Command nfsd measures sluice beside the NFS server of the Linux kernel, both
// in one virtual machine and driven there by the same load generator, and writes
// a table of ratios. `make lab-nfsd` runs it; docs/benchmarks/lab-5-nfsd.md is
// what it wrote. Neither KVM nor root is needed, nor an NFS server in this
// machine's kernel.
//
// Plan: a Debian kernel and its NFS server's programs are unpacked, not
// installed (kernel.go). An initramfs is made of them, sluice, nfsload and
// guest/, which is process 1 (initramfs.go). QEMU boots it with an empty ext4 on
// a virtual disk; the guest starts both servers on that, measures, and reports
// one JSON line at a time (qemu.go, job/). The lines become the table
// (report.go). A guest that falls silent or takes too long is killed, and all
// that a run makes lies in one temporary directory, which goes with it.
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
	"strings"
	"syscall"
	"time"

	"sluice/test/lab/nfsd/job"
	"sluice/test/measure"
)

//go:embed packages.txt
var packages string

type options struct {
	sluice, nfsload, guest string
	dir, out               string
	kernel                 string
	features               string
	rows, kinds            string
	rounds                 int
	secs                   float64
	keep                   bool
}

func main() {
	var o options
	flag.StringVar(&o.sluice, "sluice", "build/static/sluice", "server to measure, linked statically")
	flag.StringVar(&o.nfsload, "nfsload", "build/static/nfsload", "load generator, likewise")
	flag.StringVar(&o.guest, "guest", "build/static/guest", "the guest's process 1, likewise")
	flag.StringVar(&o.dir, "dir", "/var/tmp", "`directory` for the virtual disk and initramfs; about 1 GiB is used and freed")
	flag.StringVar(&o.out, "out", "", "write `FILE`.md and FILE.json")
	flag.StringVar(&o.kernel, "kernel", "linux-image-6.12-cloud-amd64", "Debian `package` that depends on the guest's kernel")
	flag.StringVar(&o.features, "cpu", "max,-erms,-fsrm", "QEMU's CPU `model` and features; see docs/benchmarks/lab-5-nfsd.md")
	flag.StringVar(&o.rows, "rows", "all", "rows, comma separated, or all")
	flag.StringVar(&o.kinds, "kinds", "counted,parallel", "how to run the guest; a machine that is busy with other things disturbs parallel")
	flag.IntVar(&o.rounds, "rounds", 5, "rounds of each row")
	flag.Float64Var(&o.secs, "secs", 1, "seconds of each measurement")
	flag.BoolVar(&o.keep, "keep", false, "keep the temporary directory with the guest's console and print where it is")
	list := flag.Bool("list", false, "list the rows")
	flag.Parse()
	if *list {
		for _, r := range job.Rows() {
			fmt.Printf("%-10s %s\n", r.Name, r.Work)
		}
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, &o); err != nil {
		fmt.Fprintln(os.Stderr, "lab-nfsd:", err)
		stop()
		os.Exit(1)
	}
}

func run(ctx context.Context, o *options) error {
	if flag.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q", flag.Arg(0))
	}
	if o.rounds < 1 || o.secs <= 0 {
		return errors.New("rounds and secs must be positive")
	}
	rows, err := job.Pick(o.rows)
	if err != nil {
		return err
	}
	kinds, err := pickKinds(o.kinds)
	if err != nil {
		return err
	}
	os.Setenv("PATH", os.Getenv("PATH")+":/usr/local/sbin:/usr/sbin:/sbin")
	if m := measure.MissingPackages(packages); len(m) > 0 {
		return fmt.Errorf("not installed: %s; as root: apt-get install --no-install-recommends %[1]s", strings.Join(m, " "))
	}
	began := time.Now()
	work, err := os.MkdirTemp(o.dir, "sluice-lab-nfsd-")
	if err != nil {
		return err
	}
	if o.keep {
		defer fmt.Fprintln(os.Stderr, "lab-nfsd: kept", work)
	} else {
		defer os.RemoveAll(work)
	}
	progress("bringing the kernel and its server's programs")
	p, err := fetchParts(o.kernel, work)
	if err != nil {
		return err
	}
	j := job.Job{Rows: rows, Rounds: o.rounds, Seconds: o.secs}
	if err := p.writeInitramfs(filepath.Join(work, initramfs), o, j); err != nil {
		return fmt.Errorf("initramfs: %w", err)
	}
	d := newDocument(o, p)
	for _, k := range kinds {
		if err := boot(ctx, k, o, j, p, work, d.add(k, rows)); err != nil {
			fmt.Print(d.markdown()) // what was measured until then
			return fmt.Errorf("%s: %w", k.Name, err)
		}
	}
	d.Took = time.Since(began).Round(time.Second).String()
	return d.finish(o.out)
}

// boot runs the guest once, with a disk of its own.
func boot(ctx context.Context, k kind, o *options, j job.Job, p *parts, work string, t *table) error {
	disk := filepath.Join(work, "disk")
	if err := makeDisk(ctx, disk); err != nil {
		return err
	}
	progress("booting: %s", k.Args)
	m := machine{
		kind: k, kernel: p.kernel, initrd: filepath.Join(work, initramfs), disk: disk, cpu: o.features,
		console: filepath.Join(work, "console-"+k.Name), limit: timeLimit(j), silence: maxSilence,
	}
	return errors.Join(m.run(ctx, t.take), os.Remove(disk))
}

func progress(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "%s %s\n", time.Now().Format(time.TimeOnly), fmt.Sprintf(format, args...))
}

const initramfs = "initramfs"

// maxSilence is above the guest's own limit for one measurement.
const maxSilence = 4 * time.Minute

// timeLimit is above what a run takes on a machine that is busy with other
// things: starting, and for each measurement half a minute more than its time.
func timeLimit(j job.Job) time.Duration {
	each := j.Seconds + 30
	n := float64(len(j.Rows) * 2 * (j.Rounds + 1))
	return 10*time.Minute + time.Duration(n*each*float64(time.Second))
}

// diskSize is enough for the files and for the inodes of all that CREATE makes.
const diskSize = 1 << 30

// makeDisk makes an empty file system, with a journal as ext4 has by default,
// in a sparse file.
func makeDisk(ctx context.Context, path string) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	if err := errors.Join(f.Truncate(diskSize), f.Close()); err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, "mkfs.ext4", "-q", "-F", "-i", "4096", "-E", "lazy_itable_init=0,lazy_journal_init=0", path)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("mkfs.ext4: %w: %s", err, out)
	}
	return nil
}
