// The commands that read: status, exports, version.

package main

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/urfave/cli/v2"

	"sluice/pkg/admin"
	"sluice/pkg/server"
)

func statusCommand() *cli.Command {
	return &cli.Command{
		Name:        "status",
		Usage:       "show what the server is and where it listens",
		Description: "Example:\n   sluice status --json",
		Flags:       clientFlags(),
		Action: func(c *cli.Context) error {
			if err := noArgs(c); err != nil {
				return err
			}
			var s admin.Status
			if err := adminClient(c).Do(c.Context, http.MethodGet, admin.PathStatus, nil, &s); err != nil {
				return err
			}
			return show(c, s, func() { table(c.App.Writer, func(w io.Writer) { printStatus(w, &s) }) })
		},
	}
}

func printStatus(w io.Writer, s *admin.Status) {
	fmt.Fprintf(w, "version\t%s\n", s.Version)
	fmt.Fprintf(w, "pid\t%d\n", s.PID)
	fmt.Fprintf(w, "running for\t%s\n", seconds(s.UptimeSeconds))
	for _, a := range s.Listen {
		fmt.Fprintf(w, "listening on\t%s\n", a)
	}
	fmt.Fprintf(w, "rpcbind\t%s\n", s.Rpcbind)
	fmt.Fprintf(w, "state\t%s\n", s.State)
	fmt.Fprintf(w, "exports\t%d\n", s.Exports)
	fmt.Fprintf(w, "connections\t%d\n", s.Connections)
	fmt.Fprintf(w, "read mode\t%s\n", s.Mode.Read)
	fmt.Fprintf(w, "write mode\t%s\n", s.Mode.Write)
	n := &s.NFS4
	fmt.Fprintf(w, "NFSv4 clients\t%s\n", clientsText(n))
	fmt.Fprintf(w, "they hold\t%s, %s, %s, %s\n", number(int(n.Sessions), "session"), number(int(n.Opens), "open"),
		number(int(n.Locks), "lock"), number(int(n.Delegations), "delegation"))
	if n.Copies > 0 {
		fmt.Fprintf(w, "copies under way\t%d\n", n.Copies)
	}
	if n.GraceSeconds > 0 {
		fmt.Fprintf(w, "grace period\tends in %s at the latest\n", seconds(n.GraceSeconds))
	}
}

func clientsText(n *admin.NFS4Status) string {
	text := strconv.FormatInt(n.Clients, 10)
	if n.CourtesyClients > 0 {
		text += fmt.Sprintf(", %d of them silent for longer than their lease", n.CourtesyClients)
	}
	return text
}

func exportsCommand() *cli.Command {
	return &cli.Command{
		Name:      "exports",
		Usage:     "list, reload or check exports",
		UsageText: "sluice exports list|reload|check [command options]",
		Description: `Examples:
   sluice exports check /etc/exports
   sluice exports list
   sluice exports reload`,
		Action: noSuchCommand,
		Subcommands: []*cli.Command{
			{
				Name:        "list",
				Usage:       "list what is exported, to whom and how",
				Description: "Options that are the default are left out, but for ro and rw; --json has all.\n\nExample:\n   sluice exports list",
				Flags:       clientFlags(),
				Action:      exportsList,
			},
			{
				Name:        "reload",
				Usage:       "read the exports file again",
				Description: "A file with an error changes nothing: the exports in force stay.\n\nExample:\n   sluice exports reload",
				Flags:       clientFlags(),
				Action:      exportsReload,
			},
			{
				Name:        "check",
				Usage:       "check an exports file without a server",
				ArgsUsage:   "FILE",
				Description: "Prints every error and warning with its file, line and column. Exit status 1 when\nthere is an error.\n\nExample:\n   sluice exports check /etc/exports",
				Flags:       clientFlags(), // --admin is taken, so that all commands do, and not used
				Action:      exportsCheck,
			},
		},
	}
}

func exportsList(c *cli.Context) error {
	if err := noArgs(c); err != nil {
		return err
	}
	var list []admin.Export
	if err := adminClient(c).Do(c.Context, http.MethodGet, admin.PathExports, nil, &list); err != nil {
		return err
	}
	return show(c, list, func() {
		table(c.App.Writer, func(w io.Writer) {
			fmt.Fprintln(w, "PATH\tCLIENT\tOPTIONS\tREAD\tWRITE")
			for _, e := range list {
				for _, k := range e.Clients {
					fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", e.Path, k.Client, briefOptions(k.Options), e.ReadMode, e.WriteMode)
				}
				if e.Problem != "" {
					fmt.Fprintf(w, "%s\tNOT SERVED: %s\n", e.Path, e.Problem)
				}
			}
		})
	})
}

func exportsReload(c *cli.Context) error {
	if err := noArgs(c); err != nil {
		return err
	}
	var res admin.ReloadResult
	if err := adminClient(c).Do(c.Context, http.MethodPost, admin.PathReload, nil, &res); err != nil {
		return err
	}
	return show(c, res, func() {
		for _, w := range res.Warnings {
			fmt.Fprintln(c.App.Writer, w)
		}
		fmt.Fprintf(c.App.Writer, "reloaded: %s\n", number(res.Exports, "export"))
	})
}

func exportsCheck(c *cli.Context) error {
	args, err := trailingFlags(c)
	if err != nil {
		return err
	}
	if len(args) != 1 {
		return usagef(c, "one exports file is needed, as in: sluice exports check /etc/exports")
	}
	res := server.CheckExports(args[0])
	if err := show(c, res, func() {
		for _, p := range res.Errors {
			fmt.Fprintln(c.App.Writer, p)
		}
		for _, p := range res.Warnings {
			fmt.Fprintln(c.App.Writer, p)
		}
		if len(res.Errors) == 0 {
			fmt.Fprintf(c.App.Writer, "%s: %s, no errors\n", args[0], number(res.Exports, "export"))
		}
	}); err != nil {
		return err
	}
	if n := len(res.Errors); n > 0 {
		return fmt.Errorf("%s has %s", args[0], number(n, "error"))
	}
	return nil
}

func versionCommand() *cli.Command {
	return &cli.Command{
		Name:        "version",
		Usage:       "print the version",
		Description: "Example:\n   sluice version --json",
		Flags:       clientFlags(),
		Action: func(c *cli.Context) error {
			if err := noArgs(c); err != nil {
				return err
			}
			v := server.BuildInfo()
			return show(c, v, func() { fmt.Fprintln(c.App.Writer, "sluice", v) })
		},
	}
}

// defaultOptions are what exports(5) gives a client that names no option.
var defaultOptions = strings.Split("root_squash,no_all_squash,sync,secure,no_subtree_check,hide,nocrossmnt,anonuid=65534,anongid=65534,sec=sys", ",")

// briefOptions leaves out the options that are the default. With several
// flavours the place of an option counts, and all of them stay.
func briefOptions(options string) string {
	words := strings.Split(options, ",")
	flavours := 0
	for _, w := range words {
		if strings.HasPrefix(w, "sec=") {
			flavours++
		}
	}
	if flavours > 1 {
		return options
	}
	return strings.Join(slices.DeleteFunc(words, func(w string) bool { return slices.Contains(defaultOptions, w) }), ",")
}

// number writes a count of things.
func number(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}

// table prints tab-separated lines in columns.
func table(out io.Writer, fill func(io.Writer)) {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fill(w)
	w.Flush()
}

// seconds prints a duration for people.
func seconds(s float64) string {
	d := time.Duration(s * float64(time.Second))
	if d < time.Second {
		return d.Round(time.Millisecond).String()
	}
	return d.Round(time.Second).String()
}

// bytesText prints a size with a binary unit.
func bytesText(n float64) string {
	for _, unit := range []string{"B", "KiB", "MiB", "GiB"} {
		if n < 1024 {
			if unit == "B" {
				return fmt.Sprintf("%.0f B", n)
			}
			return fmt.Sprintf("%.1f %s", n, unit)
		}
		n /= 1024
	}
	return fmt.Sprintf("%.1f TiB", n)
}
