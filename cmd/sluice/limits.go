// sluice limits, sluice choices: limits that can be changed while the server
// runs, and what --persist has kept.

package main

import (
	"cmp"
	"fmt"
	"io"
	"net/http"
	"strconv"

	"github.com/urfave/cli/v2"

	"sluice/pkg/admin"
)

func limitsCommand() *cli.Command {
	return &cli.Command{
		Name:      "limits",
		Usage:     "show or set limits of the running server",
		ArgsUsage: "[NAME VALUE]",
		Description: `Without arguments, prints the limits that can be set while the server runs. VALUE
is a number in the unit shown, or default, which takes a choice back: what the
configuration says holds again. For splice-min it may be never. What is in flight
is not touched; a pool of buffers shrinks as they come back.

A choice holds until the server ends, with --persist for good. The names are those
of the configuration.

Examples:
   sluice limits
   sluice limits splice-min 131072
   sluice limits splice-min never
   sluice limits buffer-pool 512 --persist
   sluice limits slow-threads default --persist`,
		Flags: clientFlags(persistFlag()),
		Action: func(c *cli.Context) error {
			args, err := trailingFlags(c)
			if err != nil {
				return err
			}
			var list []admin.Limit
			switch {
			case len(args) == 0 && c.Bool("persist"):
				return usagef(c, "--persist needs a limit and a value, as in: sluice limits buffer-pool 512 --persist")
			case len(args) == 0:
				err = adminClient(c).Do(c.Context, http.MethodGet, admin.PathLimits, nil, &list)
			case len(args) != 2:
				return usagef(c, "a limit and a value are needed, as in: sluice limits buffer-pool 512")
			default:
				change := admin.LimitChange{Name: args[0], Persist: c.Bool("persist")}
				if change.Value, err = limitValue(args[0], args[1]); err != nil {
					return usagef(c, "%v", err)
				}
				err = adminClient(c).Do(c.Context, http.MethodPut, admin.PathLimits, change, &list)
			}
			if err != nil {
				return err
			}
			return show(c, list, func() { table(c.App.Writer, func(w io.Writer) { printLimits(w, list) }) })
		},
	}
}

// limitValue reads a value; nil is the default.
func limitValue(name, s string) (*int, error) {
	n := -1
	switch {
	case s == "default":
		return nil, nil
	case s == "never" && name == "splice-min":
		return &n, nil
	}
	n, err := strconv.Atoi(s)
	if err != nil {
		return nil, fmt.Errorf("a value is a whole number in the limit's unit, or default: not %q", s)
	}
	return &n, nil
}

func limitText(name string, v int) string {
	if name == "splice-min" && v == -1 {
		return "never"
	}
	return strconv.Itoa(v)
}

func printLimits(w io.Writer, list []admin.Limit) {
	fmt.Fprintln(w, "LIMIT\tVALUE\tUNIT\tCONFIGURED\tDEFAULT\tMIN\tMAX\tPERSISTED\tAT THE LIMIT")
	for _, l := range list {
		kept := "-"
		if l.Persisted != nil {
			kept = limitText(l.Name, *l.Persisted)
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%d\t%s\t%s\n", l.Name, limitText(l.Name, l.Value), l.Unit, limitText(l.Name, l.Configured),
			limitText(l.Name, l.Default), limitText(l.Name, l.Min), l.Max, kept, l.At)
	}
}

func choicesCommand() *cli.Command {
	return &cli.Command{
		Name:      "choices",
		Usage:     "show or forget what --persist has kept",
		UsageText: "sluice choices [command options]\n   sluice choices forget [command options]",
		Description: `Lists the modes and limits that the next start will have because of --persist, and
the file that holds them.

Examples:
   sluice choices
   sluice choices forget`,
		Flags: clientFlags(),
		Action: func(c *cli.Context) error {
			if err := noArgs(c); err != nil {
				return err
			}
			return choices(c, http.MethodGet)
		},
		Subcommands: []*cli.Command{{
			Name:  "forget",
			Usage: "forget all of it",
			Description: `The next start has what its configuration says. What is in force stays until then.
One choice alone is forgotten with default and --persist, as in
` + "`sluice mode read default --persist`" + `.

Example:
   sluice choices forget`,
			Flags: clientFlags(),
			Action: func(c *cli.Context) error {
				if err := noArgs(c); err != nil {
					return err
				}
				return choices(c, http.MethodDelete)
			},
		}},
	}
}

func choices(c *cli.Context, method string) error {
	var k admin.Choices
	if err := adminClient(c).Do(c.Context, method, admin.PathChoices, nil, &k); err != nil {
		return err
	}
	return show(c, k, func() { printChoices(c.App.Writer, &k) })
}

func printChoices(out io.Writer, k *admin.Choices) {
	switch {
	case k.Problem != "":
		fmt.Fprintf(out, "not used: %s\n", k.Problem)
		return
	case len(k.Modes)+len(k.Limits) == 0:
		fmt.Fprintf(out, "nothing is kept; --persist would keep it in %s\n", k.File)
		return
	}
	fmt.Fprintf(out, "kept in %s:\n", k.File)
	table(out, func(w io.Writer) {
		for _, m := range k.Modes {
			note := ""
			if m.Missing {
				note = "\tnot exported now"
			}
			fmt.Fprintf(w, "%s\t%s%s\n", cmp.Or(m.Export, m.Client, "server"), choiceText(admin.ModeChoice{Read: m.Read, Write: m.Write}), note)
		}
		for _, l := range k.Limits {
			text := limitText(l.Name, l.Value)
			if text != "never" {
				text += " " + l.Unit
			}
			fmt.Fprintf(w, "%s\t%s\n", l.Name, text)
		}
	})
}
