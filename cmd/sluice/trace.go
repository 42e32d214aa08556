// sluice trace: one line per event, as it happens.

package main

import (
	"errors"
	"fmt"
	"net/url"

	"github.com/urfave/cli/v2"

	"sluice/pkg/admin"
)

// errEnough ends a stream that has shown what was asked for.
var errEnough = errors.New("enough events")

func traceCommand() *cli.Command {
	return &cli.Command{
		Name:  "trace",
		Usage: "print events as they happen, until interrupted",
		Description: `Tracing costs nothing while nobody watches. When the server makes events faster
than they are read, some are dropped and a line says how many.

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
			if a := c.String("client"); a != "" {
				q.Set("client", a)
			}
			if !c.Bool("json") {
				q.Set("format", "text")
			}
			left := c.Int("count")
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
