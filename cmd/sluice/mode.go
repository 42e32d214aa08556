// sluice mode: shows and sets the I/O cache modes.

package main

import (
	"fmt"
	"net/http"
	"text/tabwriter"

	"github.com/urfave/cli/v2"

	"sluice/pkg/admin"
)

func modeCommand() *cli.Command {
	return &cli.Command{
		Name:      "mode",
		Usage:     "show or set how READ and WRITE move data",
		ArgsUsage: "[read|write MODE]",
		Description: `Without arguments, prints the modes in force. A change takes effect on the next
call; calls in flight are not touched. MODE is buffered, dontcache or direct, or
the kernel's numbers 0, 1, 2; with --export also default, to follow the server.

Examples:
   sluice mode
   sluice mode read direct
   sluice mode --export /srv/data read dontcache
   sluice mode --export /srv/data read default`,
		Flags: clientFlags(&cli.StringFlag{Name: "export", Usage: "set it for the export at `PATH` alone"}),
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
				change := admin.ModeChange{Op: args[0], Mode: args[1], Export: c.String("export")}
				err = adminClient(c).Do(c.Context, http.MethodPut, admin.PathIOMode, change, &m)
			}
			if err != nil {
				return err
			}
			return show(c, m, func() { printMode(c, m) })
		},
	}
}

// modeArgs returns the arguments, having taken flags that stand behind them
// (`mode read direct --export /srv`), which the flag parser leaves alone.
func modeArgs(c *cli.Context) ([]string, error) {
	args, err := trailingFlags(c)
	if err != nil {
		return nil, err
	}
	switch {
	case len(args) == 0 && c.String("export") != "":
		return nil, usagef(c, "--export needs an operation and a mode, as in: sluice mode --export /srv read direct")
	case len(args) == 0:
		return nil, nil
	case len(args) != 2:
		return nil, usagef(c, "an operation and a mode are needed, as in: sluice mode read direct")
	case args[0] != "read" && args[0] != "write":
		return nil, usagef(c, "the operation is read or write, not %q", args[0])
	}
	switch args[1] {
	case "buffered", "dontcache", "direct", "0", "1", "2":
	case "default":
		if c.String("export") == "" {
			return nil, usagef(c, "default is for one export, which then follows the server: add --export PATH")
		}
	default:
		return nil, usagef(c, "no such mode: %q; the modes are buffered, dontcache and direct", args[1])
	}
	return args, nil
}

func printMode(c *cli.Context, m admin.IOMode) {
	w := tabwriter.NewWriter(c.App.Writer, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "\tREAD\tWRITE\n")
	fmt.Fprintf(w, "server\t%s\t%s\n", m.Read, m.Write)
	for _, e := range m.Exports {
		fmt.Fprintf(w, "%s\t%s\t%s\n", e.Path, orDefault(e.Read), orDefault(e.Write))
	}
	w.Flush()
}

func orDefault(mode string) string {
	if mode == "" {
		return "default"
	}
	return mode
}
