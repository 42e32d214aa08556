// sluice stats: counters since the start, or a page refreshed as they move.

package main

import (
	"cmp"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"sluice/pkg/admin"
	"sluice/pkg/stats"
)

func statsCommand() *cli.Command {
	return &cli.Command{
		Name:  "stats",
		Usage: "show I/O by mode, fallbacks, the file cache, procedures and NFSv4 operations",
		Description: `Numbers count since the server's start; with --watch, rates since the line before
are shown again and again. With --json --watch each page is one line.

Examples:
   sluice stats
   sluice stats --watch --interval 2s
   sluice stats --json`,
		Flags: clientFlags(
			&cli.BoolFlag{Name: "watch", Usage: "repeat until interrupted", DisableDefaultText: true},
			&cli.DurationFlag{Name: "interval", Value: time.Second, Usage: "`TIME` between two pages; only with --watch"},
		),
		Action: func(c *cli.Context) error {
			if err := noArgs(c); err != nil {
				return err
			}
			if c.Duration("interval") < 100*time.Millisecond {
				return usagef(c, "--interval must be at least 100ms")
			}
			if c.IsSet("interval") && !c.Bool("watch") {
				return usagef(c, "--interval is for --watch, as in: sluice stats --watch --interval 2s")
			}
			var now admin.Stats
			get := func() error {
				now = admin.Stats{}
				return adminClient(c).Do(c.Context, http.MethodGet, admin.PathStats, nil, &now)
			}
			if err := get(); err != nil {
				return err
			}
			if !c.Bool("watch") {
				return show(c, now, func() { printStats(c.App.Writer, &now) })
			}
			return watchStats(c, &now, get)
		},
	}
}

func watchStats(c *cli.Context, now *admin.Stats, get func() error) error {
	tick := time.NewTicker(c.Duration("interval"))
	defer tick.Stop()
	before := *now
	for {
		if c.Bool("json") {
			if err := jsonLine(c.App.Writer, now); err != nil {
				return err
			}
		} else {
			printRates(c.App.Writer, &before, now)
		}
		before = *now
		select {
		case <-c.Context.Done():
			return nil
		case <-tick.C:
		}
		if err := get(); err != nil {
			if c.Context.Err() != nil {
				return nil
			}
			return err
		}
	}
}

func printStats(out io.Writer, s *admin.Stats) {
	sides := []struct {
		op   string
		rows []admin.ModeStats
	}{{"read", s.Read}, {"write", s.Write}}
	table(out, func(w io.Writer) {
		fmt.Fprintf(w, "MODE\tCALLS\tBYTES\tEXCESS\tP50\tP99\tP99.9\tMAX\n")
		for _, side := range sides {
			for _, m := range side.rows {
				fmt.Fprintf(w, "%s %s\t%d\t%s\t%s\t%s\n", side.op, m.Mode, m.Calls,
					bytesText(float64(m.Bytes)), bytesText(float64(m.Excess)), quantiles(m.Latency))
			}
		}
		fmt.Fprintf(w, "commit\t%d\t\t\t%s\n", s.Commits.Calls, quantiles(s.Commits.Latency))
	})
	fmt.Fprintf(out, "%d reads spliced, %d waited for a disk; the write verifier changed %d times\n", s.Spliced, s.Cold, s.Commits.VerifierResets)
	if text := autoText(s.Auto, nil); text != "" {
		fmt.Fprintf(out, "auto: %s\n", text)
	}
	if s.Landed+s.Copied > 0 {
		fmt.Fprintf(out, "direct writes: %d came aligned off the socket, %d were copied\n", s.Landed, s.Copied)
	}
	for _, side := range sides {
		for _, m := range side.rows {
			for _, f := range m.Fallbacks {
				if f.Count > 0 {
					fmt.Fprintf(out, "fallback of %s %s: %s: %d\n", side.op, m.Mode, f.Name, f.Count)
				}
			}
		}
	}
	fc := &s.FileCache
	fmt.Fprintf(out, "\nfile cache: %d files, %d of %d descriptors, %d hits, %d misses, %d acquisitions, %d evictions, mean age %s\n",
		fc.Files, fc.Open, fc.Budget, fc.Hits, fc.Misses, fc.Acquisitions, fc.Evictions, seconds(fc.MeanAgeSeconds))
	r := &s.RPC
	fmt.Fprintf(out, "connections: %d now, %d accepted, %s in, %s out, %s queued; reply cache: %d hits\n",
		r.Connections, r.Accepted, bytesText(float64(r.BytesIn)), bytesText(float64(r.BytesOut)), bytesText(float64(r.QueuedBytes)),
		r.ReplyCacheHits)
	fmt.Fprintf(out, "threads: %d for service, replaced %d times; %d slow calls, %d running, %d waiting\n",
		r.ServiceThreads, r.ServiceThreadsReplaced, r.SlowCalls, r.SlowRunning, r.SlowQueued)
	for _, p := range s.Pools {
		fmt.Fprintf(out, "%s: %d in use, holds %d of %d %s, waited for %d times, empty %d times\n", p.Name, p.InUse, p.Held, p.Limit, p.Unit, p.Waits, p.Denied)
	}
	for _, k := range r.Rejects {
		if k.Count > 0 {
			fmt.Fprintf(out, "rejected: %s: %d\n", k.Name, k.Count)
		}
	}
	fmt.Fprintln(out)
	table(out, func(w io.Writer) {
		fmt.Fprintf(w, "PROCEDURE\tCALLS\tP50\tP99\tP99.9\tMAX\n")
		for _, p := range s.Procedures {
			fmt.Fprintf(w, "%s\t%d\t%s\n", p.Name, p.Calls, quantiles(p.Latency))
		}
	})
	printNFS4(out, &s.NFS4)
}

// printNFS4 shows nothing when there was no NFSv4.
func printNFS4(out io.Writer, s *admin.NFS4Stats) {
	if len(s.Operations) == 0 {
		return
	}
	fmt.Fprintln(out)
	table(out, func(w io.Writer) {
		fmt.Fprintf(w, "NFSV4 OPERATION\tCALLS\tERRORS\n")
		for _, o := range s.Operations {
			var errs []string
			for _, e := range o.Errors {
				errs = append(errs, fmt.Sprintf("%s %d", strings.TrimPrefix(e.Name, "NFS4ERR_"), e.Count))
			}
			fmt.Fprintf(w, "%s\t%d\t%s\n", o.Name, o.Calls, cmp.Or(strings.Join(errs, ", "), "-"))
		}
	})
	fmt.Fprintf(out, "delegations: %d granted, %d recalled, %d returned, %d revoked; locks: %d granted, %d denied; opens denied: %d\n",
		s.DelegationsGranted, s.DelegationsRecalled, s.DelegationsReturned, s.DelegationsRevoked, s.LocksGranted, s.LocksDenied, s.SharesDenied)
	fmt.Fprintf(out, "clients expired: %d; replays: %d; refused in the grace period: %d; errors of stable storage: %d; copies in the background: %d\n",
		s.ClientsExpired, s.Replays, s.GraceRefused, s.StorageErrors, s.CopiesBegun)
}

func printRates(out io.Writer, before, now *admin.Stats) {
	secs := now.UptimeSeconds - before.UptimeSeconds
	if secs <= 0 {
		fmt.Fprintf(out, "%-8s %10s %12s %10s %12s %10s\n", "time", "calls/s", "read/s", "reads/s", "written/s", "writes/s")
		return
	}
	calls, bytes := func(rows []admin.ModeStats) (n float64) {
		for _, r := range rows {
			n += float64(r.Calls)
		}
		return n
	}, func(rows []admin.ModeStats) (n float64) {
		for _, r := range rows {
			n += float64(r.Bytes)
		}
		return n
	}
	procs := func(s *admin.Stats) (n float64) {
		for _, p := range s.Procedures {
			n += float64(p.Calls)
		}
		return n
	}
	auto := autoText(now.Auto, before.Auto)
	if auto != "" {
		auto = "  auto: " + auto
	}
	fmt.Fprintf(out, "%-8s %10.0f %12s %10.0f %12s %10.0f%s\n", time.Now().Format(time.TimeOnly),
		(procs(now)-procs(before))/secs,
		bytesText((bytes(now.Read)-bytes(before.Read))/secs), (calls(now.Read)-calls(before.Read))/secs,
		bytesText((bytes(now.Write)-bytes(before.Write))/secs), (calls(now.Write)-calls(before.Write))/secs, auto)
}

// autoText says how often mode auto decided for each reason since before, as in
// "cached 12, streaming 3"; "" when it didn't.
func autoText(now, before []admin.Count) string {
	var list []string
	for i, k := range now {
		n := k.Count
		if i < len(before) && before[i].Name == k.Name {
			n -= before[i].Count
		}
		if n > 0 {
			list = append(list, fmt.Sprintf("%s %d", k.Name, n))
		}
	}
	return strings.Join(list, ", ")
}

func quantiles(l stats.Latency) string {
	if l.Count == 0 {
		return "-\t-\t-\t-"
	}
	us := func(ns uint64) string { return fmt.Sprintf("%.0f us", float64(ns)/1e3) }
	return us(l.P50) + "\t" + us(l.P99) + "\t" + us(l.P999) + "\t" + us(l.Max)
}
