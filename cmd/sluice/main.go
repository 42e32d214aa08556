// Command sluice is the NFS server and its administrator's tool.
//
// main.go builds the tree of commands and turns errors into exit statuses:
// 0 done, 1 failed, 2 wrong usage. serve.go runs the server; every other file
// is a thin client of the admin socket: flags in, text or JSON out.
package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"github.com/urfave/cli/v2"

	"sluice/pkg/admin"
	"sluice/pkg/server"
)

// Exit statuses; stable.
const (
	exitFailed = 1
	exitUsage  = 2
)

// adminEnv is the variable that names the admin socket for every command.
const adminEnv = "SLUICE_ADMIN"

func init() {
	cli.VersionPrinter = func(c *cli.Context) { fmt.Fprintln(c.App.Writer, "sluice", server.Version()) }
}

func main() {
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer cancel()
	// A second Ctrl-C ends the process at once, whatever it is doing. A second
	// SIGTERM does not: make(1) and timeout(1) send it to the process and to its
	// group, and calls in flight must be finished.
	context.AfterFunc(ctx, func() { signal.Reset(os.Interrupt) })
	os.Exit(run(ctx, os.Args, os.Stdout, os.Stderr))
}

// run executes the command line and returns the exit status.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	app := newApp()
	app.Writer, app.ErrWriter = stdout, stderr
	err := app.RunContext(ctx, args)
	if err == nil || errors.Is(err, errHelpShown) {
		return 0
	}
	var logged *loggedError
	if !errors.As(err, &logged) {
		fmt.Fprintln(stderr, "sluice:", err)
	}
	var usage *usageError
	if errors.As(err, &usage) {
		return exitUsage
	}
	return exitFailed
}

func newApp() *cli.App {
	app := &cli.App{
		Name:    "sluice",
		Usage:   "an NFS server whose I/O cache mode is chosen at run time",
		Version: server.Version(),
		Description: `Examples:
   sluice serve --export /srv/data
   sluice status
   sluice mode read direct
   sluice COMMAND --help`,
		HideHelpCommand:      true,
		Flags:                []cli.Flag{cli.HelpFlag}, // which the library leaves out beside a command of that name
		EnableBashCompletion: true,
		// Options of an export hold commas.
		DisableSliceFlagSeparator: true,
		ExitErrHandler:            func(*cli.Context, error) {},
		OnUsageError:              onUsageError,
		Action:                    noSuchCommand,
		Commands: []*cli.Command{
			serveCommand(), modeCommand(), limitsCommand(), choicesCommand(), statusCommand(), statsCommand(), exportsCommand(),
			clientsCommand(), sessionsCommand(), opensCommand(), locksCommand(), delegationsCommand(), copiesCommand(),
			traceCommand(), benchCommand(), versionCommand(), helpCommand(),
		},
	}
	setUsageErrors(app.Commands)
	return app
}

// usageError is an error in the command line: exit status 2.
type usageError struct{ msg string }

func (e *usageError) Error() string { return e.msg }

func usagef(c *cli.Context, format string, a ...any) error {
	name := "sluice"
	if c.Command != nil && c.Command.HelpName != "" {
		name = c.Command.HelpName
	}
	return &usageError{fmt.Sprintf(format, a...) + "; see `" + name + " --help`"}
}

// loggedError has been told already, in the log.
type loggedError struct{ error }

func onUsageError(c *cli.Context, err error, _ bool) error {
	return usagef(c, "%s", flagError(c, err))
}

// setUsageErrors makes every command report wrong flags as usage errors.
func setUsageErrors(cmds []*cli.Command) {
	for _, cmd := range cmds {
		cmd.OnUsageError = onUsageError
		cmd.HideHelpCommand = true
		setUsageErrors(cmd.Subcommands)
	}
}

// noSuchCommand is the action of a command that only has subcommands.
func noSuchCommand(c *cli.Context) error {
	if c.Args().Present() {
		return usagef(c, "no such command: %s", strings.Join(c.Args().Slice(), " "))
	}
	// This is an error: its help isn't output.
	c.App.Writer = c.App.ErrWriter
	if c.Command.Name == "sluice" {
		cli.ShowAppHelp(c)
	} else {
		cli.ShowSubcommandHelp(c)
	}
	return &usageError{"a command is needed"}
}

// helpCommand is `sluice help COMMAND`, for those who look for help there.
func helpCommand() *cli.Command {
	return &cli.Command{
		Name:        "help",
		Usage:       "show the help of a command, as --help behind it does",
		ArgsUsage:   "[COMMAND...]",
		Description: "Examples:\n   sluice help\n   sluice help exports check",
		// The library takes --help behind a command of this name for the whole tool's.
		Flags:           []cli.Flag{cli.HelpFlag},
		HideHelp:        true,
		SkipFlagParsing: true,
		Action: func(c *cli.Context) error {
			path := c.Args().Slice()
			if slices.ContainsFunc(path, isHelp) || slices.Equal(path, []string{"help"}) {
				cli.HelpPrinter(c.App.Writer, cli.CommandHelpTemplate, c.Command)
				return nil
			}
			cmds := c.App.Commands
			for _, name := range path {
				if strings.HasPrefix(name, "-") {
					return usagef(c, "no such flag: %s", name)
				}
				i := slices.IndexFunc(cmds, func(k *cli.Command) bool { return k.Name == name })
				if i < 0 {
					return usagef(c, "no such command: %s", strings.Join(path, " "))
				}
				cmds = cmds[i].Subcommands
			}
			return showHelp(c, path)
		},
	}
}

// noArgs refuses arguments that a command would ignore.
func noArgs(c *cli.Context) error {
	if slices.ContainsFunc(c.Args().Slice(), isHelp) {
		return showOwnHelp(c)
	}
	if c.Args().Present() {
		return usagef(c, "unexpected argument %q", c.Args().First())
	}
	return nil
}

// clientFlags are the flags of every command that asks a running server.
func clientFlags(more ...cli.Flag) []cli.Flag {
	return append([]cli.Flag{
		&cli.StringFlag{Name: "admin", EnvVars: []string{adminEnv}, Value: server.Defaults().Admin, Usage: "the server's admin `SOCKET`"},
		jsonFlag(),
	}, more...)
}

func jsonFlag() cli.Flag {
	return &cli.BoolFlag{Name: "json", Usage: "print JSON", DisableDefaultText: true}
}

// adminClient is a client of the socket that --admin names. It may stand before
// a subcommand (`sluice clients --admin SOCKET expire ID`), where the library of
// flags looks at the subcommand's own flag alone.
func adminClient(c *cli.Context) *admin.Client {
	own := c.String("admin")
	if own != cmp.Or(os.Getenv(adminEnv), server.Defaults().Admin) {
		return admin.NewClient(own)
	}
	for _, p := range c.Lineage()[1:] {
		if s := p.String("admin"); s != "" {
			own = s
		}
	}
	return admin.NewClient(own)
}

// wantsJSON tells of --json, before a subcommand too.
func wantsJSON(c *cli.Context) bool {
	return slices.ContainsFunc(c.Lineage(), func(p *cli.Context) bool { return p.Bool("json") })
}

// show prints v as JSON with --json, else by calling text.
func show(c *cli.Context, v any, text func()) error {
	if !wantsJSON(c) {
		text()
		return nil
	}
	enc := json.NewEncoder(c.App.Writer)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}

// jsonLine prints v as one line of JSON, for streams.
func jsonLine(w io.Writer, v any) error { return json.NewEncoder(w).Encode(v) }
