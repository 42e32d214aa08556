// sluice bench: loads an NFS server of any make, and compares the modes of one
// of ours. Flags become bench.Options here; bench_show.go prints.

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"sluice/pkg/bench"
	"sluice/pkg/server"
)

const benchExamples = `Sizes are written as 4096, 4k, 1MiB or 1.5GB; a dataset also as a multiple of the
server's memory, as 3.125x. The memory is taken from --memory, --pid or --admin,
or is this machine's when the server is here.

The load has its own NFS client and needs no mount. It makes its files in the
directory that --path names, and removes them at the end. The exit status is 1
when a call has failed.
`

func benchCommand() *cli.Command {
	return &cli.Command{
		Name:      "bench",
		Usage:     "load an NFS server, and report bandwidth, latency and CPU",
		ArgsUsage: "[read|write|mixed]",
		Description: `Loads any NFS server over TCP: one connection for each job, --iodepth calls in
flight for each.

` + benchExamples + `
Examples:
   sluice bench read --server 192.0.2.7 --path /srv/data --jobs 8 --iodepth 4
   sluice bench write --path /srv/data --bs 47008 --stable file_sync --time 30s
   sluice bench mixed --path /srv/data --bs 4k --pattern random --admin /run/sluice/admin.sock
   sluice bench compare --path /srv/data --modes buffered,dontcache,direct,auto --dataset 3.125x`,
		Flags: benchFlags(
			&cli.StringFlag{Name: "admin", EnvVars: []string{adminEnv}, Usage: "take the server's CPU time and memory from its admin `SOCKET`"},
		),
		Action:      benchRun,
		Subcommands: []*cli.Command{benchCompareCommand()},
	}
}

func benchCompareCommand() *cli.Command {
	return &cli.Command{
		Name:      "compare",
		Usage:     "compare the I/O modes of a sluice server under one load",
		ArgsUsage: "[read|write|mixed]",
		Description: `Runs the load in each mode, several times, in blocks that have each mode once and
in a balanced order. Modes are switched by the admin socket, for the operation
that the load has; with mixed, read/write names one for each. What was set before
is set again at the end, also when the command is interrupted.

Intervals are of 95%, by the bootstrap; ratios are to the first mode, and formed
within the blocks.

` + benchExamples + `
Examples:
   sluice bench compare --path /srv/data --modes buffered,direct --jobs 8
   sluice bench compare write --path /srv/data --export /srv/data --blocks 5 --html report.html
   sluice bench compare mixed --path /srv/data --modes buffered,direct/buffered,auto`,
		Flags: benchFlags(
			&cli.StringFlag{Name: "admin", EnvVars: []string{adminEnv}, Value: server.Defaults().Admin, Usage: "the server's admin `SOCKET`"},
			&cli.StringFlag{Name: "modes", Value: "buffered,dontcache,direct,auto", Usage: "a comma-separated `LIST`; the first is what the others are compared with"},
			&cli.IntFlag{Name: "blocks", Value: 4, Usage: "run each mode `N` times"},
			&cli.StringFlag{Name: "export", Usage: "switch the mode of the export at `PATH` alone"},
			&cli.BoolFlag{Name: "drop-caches", DisableDefaultText: true, Usage: "before each run, drop the dataset from the page cache; the server must be on this machine"},
		),
		Action: benchCompare,
	}
}

// benchFlags are the flags of a load; more are put behind those that say where.
func benchFlags(more ...cli.Flag) []cli.Flag {
	flags := []cli.Flag{
		&cli.StringFlag{Name: "server", Value: "127.0.0.1", Usage: "`HOST` or HOST:PORT; without a port 2049, or what rpcbind says"},
		&cli.IntFlag{Name: "port", DefaultText: "that of --server", Usage: "`PORT` of NFS"},
		&cli.IntFlag{Name: "mount-port", DefaultText: "that of NFS", Usage: "`PORT` of MOUNT, for v3"},
		&cli.StringFlag{Name: "path", Usage: "`EXPORT` or a directory in it; needed"},
		&cli.StringFlag{Name: "protocol", Value: "v3", Usage: "`VERSION` of NFS: v3 or 4.1"},
		&cli.IntFlag{Name: "uid", Value: os.Getuid(), Usage: "user `ID` that the calls are made as"},
		&cli.IntFlag{Name: "gid", Value: os.Getgid(), Usage: "group `ID` that the calls are made as"},
	}
	flags = append(flags, more...)
	return append(flags,
		&cli.IntFlag{Name: "jobs", Value: 1, Usage: "`N` streams, each with its own part of the dataset"},
		&cli.IntFlag{Name: "iodepth", Value: 8, Usage: "`N` calls in flight for each job"},
		&cli.IntFlag{Name: "connections", DefaultText: "one for each job", Usage: "`N` connections"},
		&cli.StringFlag{Name: "bs", Value: "1MiB", Usage: "`SIZE` of a READ or WRITE"},
		&cli.StringFlag{Name: "pattern", Value: "sequential", Usage: "`HOW` a job goes through the dataset: sequential or random"},
		&cli.IntFlag{Name: "read-percent", Value: 70, Usage: "`N` of 100 calls of a mixed load are READs"},
		&cli.StringFlag{Name: "misalign", Usage: "add `SIZE` to each offset"},
		&cli.StringFlag{Name: "stable", Value: "unstable", Usage: "`HOW` WRITEs are to be done: unstable (with a COMMIT at the end), data_sync or file_sync"},
		&cli.StringFlag{Name: "dataset", Value: "256MiB", Usage: "`SIZE` of all files, or a multiple of the server's memory"},
		&cli.IntFlag{Name: "files", DefaultText: "one for each job", Usage: "spread the dataset over `N` files"},
		&cli.StringFlag{Name: "existing", Usage: "use files that are there, called `PREFIX`00000 and so on, and leave them"},
		&cli.DurationFlag{Name: "time", DefaultText: "10s, unless --size is given", Usage: "end after `TIME`"},
		&cli.StringFlag{Name: "size", Usage: "end after `SIZE` has been moved"},
		&cli.DurationFlag{Name: "warmup", DefaultText: "none", Usage: "load for `TIME` before counting"},
		&cli.BoolFlag{Name: "verify", DisableDefaultText: true, Usage: "compare what READs bring with what was written"},
		&cli.BoolFlag{Name: "keep", DisableDefaultText: true, Usage: "leave the files"},
		&cli.IntFlag{Name: "threads", DefaultText: "one for each two cores", Usage: "make the load with `N` threads"},
		&cli.StringFlag{Name: "memory", Usage: "the server has memory of this `SIZE`"},
		&cli.IntSliceFlag{Name: "pid", Usage: "take CPU time and memory from the server's process `PID` on this machine; repeatable"},
		&cli.StringFlag{Name: "label", Usage: "call the server `NAME` in the report"},
		&cli.StringFlag{Name: "html", Usage: "write a report with charts to `FILE`"},
		jsonFlag(),
	)
}

// benchOptions reads the arguments and flags of a load.
func benchOptions(c *cli.Context) (o bench.Options, err error) {
	args, err := trailingFlags(c)
	if err != nil {
		return o, err
	}
	op := "read"
	switch {
	case len(args) > 1:
		return o, usagef(c, "unexpected argument %q", args[1])
	case len(args) == 1:
		op = args[0]
	}
	if !slices.Contains([]string{"read", "write", "mixed"}, op) {
		return o, usagef(c, "the load is read, write or mixed, not %q", op)
	}
	if c.String("path") == "" {
		return o, usagef(c, "--path is needed: an export of the server, or a directory in one")
	}
	w := bench.Workload{
		Protocol: strings.TrimPrefix(c.String("protocol"), "v"), Op: op, Pattern: c.String("pattern"),
		Jobs: c.Int("jobs"), Depth: c.Int("iodepth"), Connections: c.Int("connections"), Files: c.Int("files"),
		Seconds: c.Duration("time").Seconds(), WarmupSeconds: c.Duration("warmup").Seconds(), Verify: c.Bool("verify"),
	}
	if w.Protocol == "3" {
		w.Protocol = "v3"
	}
	if op != "read" {
		w.Stable = c.String("stable")
	}
	if op == "mixed" {
		w.ReadPercent = c.Int("read-percent")
	}
	for _, name := range []string{"jobs", "iodepth"} { // whose 0 the library takes for its default
		if c.Int(name) < 1 {
			return o, usagef(c, "flag --%s: %d is not a number from 1 on", name, c.Int(name))
		}
	}
	for name, into := range map[string]*int64{"bs": nil, "misalign": nil, "size": &w.MaxBytes} {
		n, err := sizeFlag(c, name)
		if err != nil {
			return o, err
		}
		switch {
		case into != nil:
			*into = n
		case n > bench.MaxBlockSize:
			return o, usagef(c, "flag --%s: %s is more than %s", name, bench.SizeText(n), bench.SizeText(bench.MaxBlockSize))
		case name == "bs":
			w.BlockSize = int(n)
		default:
			w.Misalignment = int(n)
		}
	}
	o = bench.Options{
		Server: c.String("server"), MountPort: c.Int("mount-port"), Path: path.Clean("/" + c.String("path")),
		Port: c.Int("port"), UID: uint32(c.Int("uid")), GID: uint32(c.Int("gid")),
		Existing: c.String("existing"), Keep: c.Bool("keep"), Threads: c.Int("threads"),
		Watch: bench.Watch{PIDs: c.IntSlice("pid"), Admin: c.String("admin"), Machine: bench.IsLocal(c.String("server"))},
	}
	if w.DatasetBytes, err = datasetFlag(c, o.Watch); err != nil {
		return o, err
	}
	if err := w.Complete(); err != nil {
		return o, usagef(c, "%v", err)
	}
	o.Workload = w
	return o, nil
}

func sizeFlag(c *cli.Context, name string) (int64, error) {
	text := c.String(name)
	if text == "" {
		return 0, nil
	}
	n, err := bench.ParseSize(text)
	if err != nil {
		return 0, usagef(c, "flag --%s: %v", name, err)
	}
	return n, nil
}

// datasetFlag turns a multiple of the server's memory into bytes.
func datasetFlag(c *cli.Context, w bench.Watch) (int64, error) {
	n, multiple, err := bench.ParseDataset(c.String("dataset"))
	if err != nil {
		return 0, usagef(c, "flag --dataset: %v", err)
	}
	if multiple == 0 {
		return n, nil
	}
	memory, err := sizeFlag(c, "memory")
	if err == nil && memory == 0 {
		if memory, err = w.Memory(c.Context); err != nil {
			err = fmt.Errorf("--dataset %s: %w", c.String("dataset"), err)
		}
	}
	return int64(multiple * float64(memory)), err
}

func benchRun(c *cli.Context) error {
	return withBench(c, nil, func(ctx context.Context, b *bench.Bench, started time.Time) (*bench.Report, error) {
		r, err := b.Run(ctx)
		if err != nil {
			return nil, err
		}
		return b.Report(ctx, server.Version(), started, []bench.Run{r}), nil
	})
}

func benchCompare(c *cli.Context) error {
	if c.Lineage()[1].NumFlags() > 0 { // the library of flags would not see them here
		return usagef(c, "flags stand behind compare")
	}
	var o bench.CompareOptions
	return withBench(c, &o, func(ctx context.Context, b *bench.Bench, started time.Time) (*bench.Report, error) {
		if c.Bool("drop-caches") {
			if o.LocalDir = b.LocalDir(); o.LocalDir == "" {
				return nil, errors.New("--drop-caches: the dataset isn't in a directory of this machine: the server is elsewhere, or exports it by another name")
			}
		}
		runs, err := b.Compare(ctx, o)
		if len(runs) == 0 {
			return nil, err
		}
		r := b.Report(context.WithoutCancel(ctx), server.Version(), started, runs)
		r.Workload.Blocks, r.Workload.CachesDropped = o.Blocks, c.Bool("drop-caches")
		r.Comparison, r.Interrupted = bench.Summarize(o.Modes, runs), err != nil
		return r, err
	})
}

// withBench makes the dataset, has it loaded, and removes it before it prints.
// What was measured before an error is printed too. compare, which is filled in
// from the flags, is nil for one run.
func withBench(c *cli.Context, compare *bench.CompareOptions, load func(context.Context, *bench.Bench, time.Time) (*bench.Report, error)) error {
	o, err := benchOptions(c)
	if err != nil {
		return err
	}
	if err := benchCheck(c); err != nil {
		return err
	}
	p := newProgress(c)
	o.OnProgress = p.step
	if compare != nil {
		*compare = bench.CompareOptions{Modes: strings.Split(c.String("modes"), ","), Blocks: c.Int("blocks"), Admin: c.String("admin"), Export: c.String("export")}
		if err := compare.Check(&o.Workload); err != nil {
			return usagef(c, "%v", err)
		}
		if err := compare.Try(c.Context, &o.Workload, o.Path); err != nil {
			return err
		}
		compare.OnRun = p.run(compare.Blocks, len(compare.Modes))
		o.Fill = true
	}
	if o.Watch.Admin != "" || len(o.Watch.PIDs) > 0 {
		if err := o.Watch.Check(c.Context); err != nil {
			return err
		}
	}
	started := time.Now()
	b, err := bench.Open(c.Context, o)
	if err != nil {
		p.done()
		return interrupted(err)
	}
	report, err := load(c.Context, b, started)
	err = errors.Join(interrupted(err), b.Close())
	p.done()
	if report == nil {
		return err
	}
	if report.ServerKind = c.String("label"); report.ServerKind == "" {
		report.ServerKind = o.Watch.ServerKind(context.WithoutCancel(c.Context))
	}
	if file := c.String("html"); file != "" {
		err = errors.Join(err, writeHTML(file, report))
	}
	return errors.Join(err, show(c, report, func() { printReport(c.App.Writer, report) }), failedCalls(report))
}

// benchCheck refuses what can be refused before the dataset is made.
func benchCheck(c *cli.Context) error {
	for _, name := range []string{"port", "mount-port"} {
		if n := c.Int(name); c.IsSet(name) && (n < 1 || n > 65535) {
			return usagef(c, "flag --%s: %d is not a port between 1 and 65535", name, n)
		}
	}
	for _, name := range []string{"uid", "gid"} {
		if n := c.Int(name); n < 0 || int64(n) > 1<<32-1 {
			return usagef(c, "flag --%s: %d is not an ID between 0 and 4294967295", name, n)
		}
	}
	if n := c.Int("threads"); n < 0 || n > bench.MaxThreads {
		return usagef(c, "flag --threads: %d is not between 1 and %d", n, bench.MaxThreads)
	}
	if file := c.String("html"); file != "" {
		if st, err := os.Stat(path.Dir(file)); err != nil || !st.IsDir() {
			return usagef(c, "flag --html: %s is no directory", path.Dir(file))
		}
		if st, err := os.Stat(file); err == nil && st.IsDir() {
			return usagef(c, "flag --html: %s is a directory: name a file in it", file)
		}
	}
	return nil
}

func interrupted(err error) error {
	if errors.Is(err, context.Canceled) {
		return errors.New("interrupted")
	}
	return err
}

// failedCalls is the error of a load whose calls failed; the report is out by then.
func failedCalls(r *bench.Report) error {
	for _, run := range r.Runs {
		if run.Errors > 0 {
			in := ""
			if run.Mode != "" {
				in = " in mode " + run.Mode
			}
			return fmt.Errorf("%s%s failed, the first: %s", number(int(run.Errors), "call"), in, run.FirstError)
		}
	}
	return nil
}
