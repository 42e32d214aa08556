// Flags behind arguments. The flag package stops at the first argument, but
// people write `sluice mode read direct --export /srv`; both orders work.

package main

import (
	"errors"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/urfave/cli/v2"
)

// trailingFlags returns the command's arguments without the flags among them,
// which it sets on c.
func trailingFlags(c *cli.Context) ([]string, error) {
	var args []string
	rest := c.Args().Slice()
	for len(rest) > 0 {
		arg := rest[0]
		rest = rest[1:]
		if arg == "--" {
			return append(args, rest...), nil
		}
		if len(arg) < 2 || arg[0] != '-' || arg[1] >= '0' && arg[1] <= '9' { // a negative number is no flag
			args = append(args, arg)
			continue
		}
		name, value, hasValue := strings.Cut(strings.TrimLeft(arg, "-"), "=")
		if isHelp(arg) {
			return nil, showOwnHelp(c)
		}
		flag := findFlag(c.Command.Flags, name)
		if flag == nil {
			return nil, usagef(c, "no such flag: %s", arg)
		}
		if _, isBool := flag.(*cli.BoolFlag); isBool && !hasValue {
			value, hasValue = "true", true
		}
		if !hasValue {
			if len(rest) == 0 {
				return nil, usagef(c, "flag needs a value: %s", arg)
			}
			value, rest = rest[0], rest[1:]
		}
		if err := c.Set(name, value); err != nil {
			return nil, usagef(c, "%s", wrongValue(c, name, strconv.Quote(value)))
		}
	}
	return args, nil
}

// isHelp tells whether an argument asks for help.
func isHelp(arg string) bool {
	return slices.Contains([]string{"--help", "-help", "--h", "-h"}, arg)
}

// errHelpShown ends a command that was asked for its help; no failure.
var errHelpShown = errors.New("help was shown")

// showHelp prints the help of the command at path.
func showHelp(c *cli.Context, path []string) error {
	app := newApp()
	app.Writer, app.ErrWriter = c.App.Writer, c.App.ErrWriter
	if err := app.RunContext(c.Context, append(append([]string{"sluice"}, path...), "--help")); err != nil {
		return err
	}
	return errHelpShown
}

// showOwnHelp prints the help of the command that runs.
func showOwnHelp(c *cli.Context) error {
	return showHelp(c, strings.Fields(c.Command.HelpName)[1:])
}

func findFlag(flags []cli.Flag, name string) cli.Flag {
	for _, f := range flags {
		for _, n := range f.Names() {
			if n == name {
				return f
			}
		}
	}
	return nil
}

// The flag package's errors.
var (
	flagUnknown  = regexp.MustCompile(`^flag provided but not defined: -(.*)$`)
	flagNoValue  = regexp.MustCompile(`^flag needs an argument: -(.*)$`)
	flagBadValue = regexp.MustCompile(`^invalid (?:boolean )?value (".*") for (?:flag )?-([^:]*): .*$`)
)

// flagError says in our words what the flag package has to say, with the flag
// as people write it.
func flagError(c *cli.Context, err error) string {
	text := err.Error()
	if m := flagUnknown.FindStringSubmatch(text); m != nil {
		return "no such flag: --" + m[1]
	}
	if m := flagNoValue.FindStringSubmatch(text); m != nil {
		return "flag needs a value: --" + m[1]
	}
	if m := flagBadValue.FindStringSubmatch(text); m != nil {
		return wrongValue(c, m[2], m[1])
	}
	return text
}

// wrongValue says what kind of value a flag takes.
func wrongValue(c *cli.Context, name, value string) string {
	kind := "a value that it takes"
	switch findFlag(c.Command.Flags, name).(type) {
	case *cli.IntFlag:
		kind = "a whole number"
	case *cli.DurationFlag:
		kind = "a time with its unit, as in 2s or 500ms"
	case *cli.BoolFlag:
		kind = "true or false"
	}
	return "flag --" + name + ": " + value + " is not " + kind
}
