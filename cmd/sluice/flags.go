// Flags behind arguments. The flag package stops at the first argument, but
// people write `sluice mode read direct --export /srv`; both orders work.

package main

import (
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
		if len(arg) < 2 || arg[0] != '-' {
			args = append(args, arg)
			continue
		}
		name, value, hasValue := strings.Cut(strings.TrimLeft(arg, "-"), "=")
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
			return nil, usagef(c, "flag %s: %v", arg, err)
		}
	}
	return args, nil
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
