// sluice trace: one line per event, as it happens.

package main

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"strings"

	"github.com/urfave/cli/v2"

	"sluice/pkg/admin"
	"sluice/pkg/trace"
)

// errEnough ends a stream that has shown what was asked for.
var errEnough = errors.New("enough events")

// eventList names all events, a few on each line, for the help: it is at hand where the documents aren't.
func eventList() string {
	var b strings.Builder
	width := 0
	for _, name := range trace.Names() {
		if width > 0 && width+len(name) > 70 {
			b.WriteString("\n")
			width = 0
		}
		if width == 0 {
			b.WriteString("  ")
		}
		width += len(name) + 1
		b.WriteString(" " + string(name))
	}
	return b.String() + "\n"
}

func traceCommand() *cli.Command {
	return &cli.Command{
		Name:  "trace",
		Usage: "print events as they happen, until interrupted",
		Description: `Tracing costs nothing while nobody watches. When the server makes events faster
than they are read, some are dropped and a line says how many.

The events:
` + eventList() + `
Examples:
   sluice trace
   sluice trace --event read_direct,fallback --client 192.168.1.7
   sluice trace --event delegation_granted,delegation_recalled,nfs4_client_end
   sluice trace --json --count 100`,
		Flags: clientFlags(
			&cli.StringSliceFlag{Name: "event", Usage: "only events called `NAME`; repeatable, or a comma-separated list"},
			&cli.StringFlag{Name: "client", Usage: "only events of the client at `ADDRESS`"},
			&cli.IntFlag{Name: "count", Usage: "end after `N` events; 0 is no limit"},
		),
		Action: func(c *cli.Context) error {
			if err := noArgs(c); err != nil {
				return err
			}
			q := url.Values{"event": c.StringSlice("event")}
			for _, v := range q["event"] {
				for name := range strings.SplitSeq(v, ",") {
					if !trace.Known(trace.Name(name)) {
						return usagef(c, "no such event: %q; the events are %s", name, strings.Join(strings.Fields(eventList()), ", "))
					}
				}
			}
			if a := c.String("client"); a != "" {
				if _, err := netip.ParseAddr(a); err != nil {
					return usagef(c, "--client is %q; it must be an IP address, as in 192.168.1.7", a)
				}
				q.Set("client", a)
			}
			if !c.Bool("json") {
				q.Set("format", "text")
			}
			left := c.Int("count")
			if left < 0 {
				return usagef(c, "--count is %d; it must be 0 (no limit) or more", left)
			}
			err := adminClient(c).Stream(c.Context, admin.PathEvents+"?"+q.Encode(), func(line []byte) error {
				fmt.Fprintf(c.App.Writer, "%s\n", line)
				if left--; left == 0 {
					return errEnough
				}
				return nil
			})
			if errors.Is(err, errEnough) {
				return nil
			}
			return err
		},
	}
}
