// sluice mode: shows and sets the I/O cache modes.

package main

import (
	"cmp"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/urfave/cli/v2"

	"sluice/pkg/admin"
	"sluice/pkg/server"
)

func modeCommand() *cli.Command {
	return &cli.Command{
		Name:      "mode",
		Usage:     "show or set how READ and WRITE move data",
		ArgsUsage: "[read|write MODE]",
		Description: `Without arguments, prints the modes in force. A change takes effect on the next
call; calls in flight are not touched. MODE is buffered, dontcache, direct, auto, or
the kernel's numbers 0, 1, 2; default takes a choice back, and what the
configuration says holds again. A client's mode wins over its export's, and that
over the server's; of networks that hold a client, the longest prefix wins.

A choice holds until the server ends, with --persist for good; PERSISTED is what
the next start has. ` + "`sluice choices`" + ` lists that and forgets it.

Examples:
   sluice mode
   sluice mode read direct
   sluice mode read dontcache --export /srv/data
   sluice mode write direct --client 192.0.2.0/24 --persist
   sluice mode read default --export /srv/data --persist`,
		Flags: clientFlags(
			&cli.StringFlag{Name: "export", Usage: "set it for the export at `PATH` alone"},
			&cli.StringFlag{Name: "client", Usage: "set it for the client at `ADDRESS`, or for a network, as in 192.0.2.0/24"},
			persistFlag(),
		),
		Action: func(c *cli.Context) error {
			args, err := modeArgs(c)
			if err != nil {
				return err
			}
			var m admin.IOMode
			switch len(args) {
			case 0:
				err = adminClient(c).Do(c.Context, http.MethodGet, admin.PathIOMode, nil, &m)
			case 2:
				change := admin.ModeChange{Op: args[0], Mode: args[1], Export: c.String("export"), Client: c.String("client"), Persist: c.Bool("persist")}
				err = adminClient(c).Do(c.Context, http.MethodPut, admin.PathIOMode, change, &m)
			}
			if err != nil {
				return err
			}
			return show(c, m, func() { table(c.App.Writer, func(w io.Writer) { printMode(w, &m) }) })
		},
	}
}

func persistFlag() cli.Flag {
	return &cli.BoolFlag{Name: "persist", Usage: "keep it across restarts of the server", DisableDefaultText: true}
}

// modeArgs returns the arguments, having taken flags that stand behind them
// (`mode read direct --export /srv`), which the flag parser leaves alone.
func modeArgs(c *cli.Context) ([]string, error) {
	args, err := trailingFlags(c)
	if err != nil {
		return nil, err
	}
	for _, name := range []string{"export", "client", "persist"} {
		if len(args) == 0 && c.IsSet(name) {
			return nil, usagef(c, "--%s needs an operation and a mode, as in: sluice mode --export /srv read direct", name)
		}
	}
	switch {
	case len(args) == 0:
		return nil, nil
	case len(args) != 2:
		return nil, usagef(c, "an operation and a mode are needed, as in: sluice mode read direct")
	case args[0] != "read" && args[0] != "write":
		return nil, usagef(c, "the operation is read or write, not %q", args[0])
	case c.IsSet("export") && c.String("export") == "":
		return nil, usagef(c, "--export needs a path; leave it out for the whole server")
	case c.IsSet("export") && c.IsSet("client"):
		return nil, usagef(c, "a mode is for an export or for a client: leave --export or --client out")
	}
	if server.CheckMode(args[1]) != nil {
		return nil, usagef(c, "no such mode: %q; the modes are buffered, dontcache, direct and auto, and default takes a choice back", args[1])
	}
	if c.IsSet("client") {
		if err := server.CheckClient(c.String("client")); err != nil {
			return nil, usagef(c, "--client: %v", err)
		}
	}
	return args, nil
}

// printMode leaves out the column of what is persisted when nothing is.
func printMode(w io.Writer, m *admin.IOMode) {
	kept := m.Persisted != (admin.ModeChoice{})
	for _, e := range m.Exports {
		kept = kept || e.Persisted != (admin.ModeChoice{})
	}
	for _, k := range m.Clients {
		kept = kept || k.Persisted != (admin.ModeChoice{})
	}
	line := func(name, read, write string, p admin.ModeChoice, note string) {
		cells := []string{name, orDefault(read), orDefault(write)}
		if kept {
			cells = append(cells, cmp.Or(choiceText(p), "-"))
		}
		if note != "" {
			cells = append(cells, note)
		}
		fmt.Fprintln(w, strings.Join(cells, "\t"))
	}
	fmt.Fprint(w, "\tREAD\tWRITE")
	if kept {
		fmt.Fprint(w, "\tPERSISTED")
	}
	fmt.Fprintln(w)
	line("server", m.Read, m.Write, m.Persisted, "")
	for _, e := range m.Exports {
		note := ""
		if e.Missing {
			note = "not exported now"
		}
		line(e.Path, e.Read, e.Write, e.Persisted, note)
	}
	for _, k := range m.Clients {
		line(k.Client, k.Read, k.Write, k.Persisted, "")
	}
}

// choiceText writes a pair of modes, as in "read direct, write auto".
func choiceText(m admin.ModeChoice) string {
	var list []string
	if m.Read != "" {
		list = append(list, "read "+m.Read)
	}
	if m.Write != "" {
		list = append(list, "write "+m.Write)
	}
	return strings.Join(list, ", ")
}

func orDefault(mode string) string { return cmp.Or(mode, "default") }
