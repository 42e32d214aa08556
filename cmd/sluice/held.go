// The commands about clients and what they hold: clients, sessions, opens,
// locks, delegations, copies.

package main

import (
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/urfave/cli/v2"

	"sluice/pkg/admin"
)

func clientsCommand() *cli.Command {
	return &cli.Command{
		Name:      "clients",
		Usage:     "list connections and NFSv4 clients, or end one",
		UsageText: "sluice clients [command options]\nsluice clients expire ID",
		Description: `Connections first, of every version; then the NFSv4 clients. The state of one is
unconfirmed (it has said its name and nothing more), active, or courtesy: its
lease has run out, and it keeps what it holds until somebody wants that. LEASE is
how long ago it renewed.

Examples:
   sluice clients
   sluice clients --json
   sluice clients expire 6a1f00c300000001`,
		Flags:  clientFlags(),
		Action: listClients,
		Subcommands: []*cli.Command{{
			Name:      "expire",
			Usage:     "end an NFSv4 client: take what it holds, forget it",
			ArgsUsage: "ID",
			Description: `For a client that will not come back while others wait for its files. All its
opens, locks, delegations and sessions go at once. One that lives notices, and
starts anew; what its programs had locked is lost to them.

Example:
   sluice clients expire 6a1f00c300000001`,
			Flags:  clientFlags(),
			Action: expireClient,
		}},
	}
}

func listClients(c *cli.Context) error {
	if err := noArgs(c); err != nil {
		return err
	}
	var list admin.Clients
	if err := adminClient(c).Do(c.Context, http.MethodGet, admin.PathClients, nil, &list); err != nil {
		return err
	}
	return show(c, list, func() {
		table(c.App.Writer, func(w io.Writer) {
			fmt.Fprintln(w, "ID\tADDRESS\tCONNECTED\tIDLE\tCALLS\tIN\tOUT\tIN FLIGHT\tQUEUED")
			for _, k := range list.Connections {
				fmt.Fprintf(w, "%d\t%s\t%s\t%s\t%d\t%s\t%s\t%d\t%s\n", k.ID, k.Address,
					k.Connected.Local().Format(time.DateTime), seconds(k.IdleSeconds), k.Calls,
					bytesText(float64(k.BytesIn)), bytesText(float64(k.BytesOut)), k.InFlight, bytesText(float64(k.QueuedBytes)))
			}
		})
		if len(list.NFS4) == 0 {
			return
		}
		fmt.Fprintln(c.App.Writer)
		table(c.App.Writer, func(w io.Writer) {
			fmt.Fprintln(w, "NFSV4 CLIENT\tADDRESS\tVERSION\tSTATE\tLEASE\tCALLBACK\tSESSIONS\tOPENS\tLOCKS\tDELEGATIONS\tNAME")
			for _, k := range list.NFS4 {
				fmt.Fprintf(w, "%s\t%s\t4.%d\t%s\t%s\t%s\t%d\t%d\t%d\t%d\t%s\n", k.ID, k.Address, k.MinorVersion, k.State,
					seconds(k.LeaseAgeSeconds), k.Callback, k.Sessions, k.Opens, k.Locks, k.Delegations, k.Owner)
			}
		})
	})
}

func expireClient(c *cli.Context) error {
	args, err := trailingFlags(c)
	if err != nil {
		return err
	}
	if len(args) != 1 {
		return usagef(c, "the id of one NFSv4 client is needed, as `sluice clients` shows it")
	}
	id, err := admin.ParseClientID(args[0])
	if err != nil {
		return usagef(c, "%v", err)
	}
	var done admin.Expired
	if err := adminClient(c).Do(c.Context, http.MethodDelete, admin.PathClients+"/"+id.String(), nil, &done); err != nil {
		return err
	}
	return show(c, done, func() { fmt.Fprintf(c.App.Writer, "expired: %s\n", done.ID) })
}

// heldCommand is a command that lists what clients hold, all or one's.
func heldCommand[T any](name, usage, about, path, heading string, row func(io.Writer, *T)) *cli.Command {
	return &cli.Command{
		Name:        name,
		Usage:       usage,
		Description: about + "\n\nExamples:\n   sluice " + name + "\n   sluice " + name + " --client 6a1f00c300000001 --json",
		Flags:       clientFlags(&cli.StringFlag{Name: "client", Usage: "only those of the NFSv4 client with this `ID`"}),
		Action: func(c *cli.Context) error {
			if err := noArgs(c); err != nil {
				return err
			}
			path := path
			if text := c.String("client"); text != "" {
				id, err := admin.ParseClientID(text)
				if err != nil {
					return usagef(c, "%v", err)
				}
				path += "?" + url.Values{"client": {id.String()}}.Encode()
			}
			list := []T{}
			if err := adminClient(c).Do(c.Context, http.MethodGet, path, nil, &list); err != nil {
				return err
			}
			return show(c, list, func() {
				table(c.App.Writer, func(w io.Writer) {
					fmt.Fprintln(w, heading)
					for i := range list {
						row(w, &list[i])
					}
				})
			})
		},
	}
}

func sessionsCommand() *cli.Command {
	return heldCommand("sessions", "list the sessions of NFSv4 clients",
		"A session has SLOTS for as many calls at once; BUSY ones have a call under way,\nand TARGET is how many the server would like it to use. CACHED is the memory\nthat is promised to replies which must be kept.",
		admin.PathSessions, "SESSION\tCLIENT\tSLOTS\tTARGET\tBUSY\tCONNECTIONS\tFOR CALLBACKS\tCACHED",
		func(w io.Writer, s *admin.Session) {
			fmt.Fprintf(w, "%s\t%s\t%d\t%d\t%d\t%d\t%d\t%s\n", s.ID, s.Client, s.Slots, s.TargetSlots, s.BusySlots,
				s.Connections, s.BackConnections, bytesText(float64(s.ReplyCacheBytes)))
		})
}

func opensCommand() *cli.Command {
	return heldCommand("opens", "list the files that NFSv4 clients have open",
		"DENY is what others may not do meanwhile. LOCKERS counts those with locks under\nthe open.",
		admin.PathOpens, "CLIENT\tACCESS\tDENY\tLOCKERS\tFILE",
		func(w io.Writer, o *admin.Open) {
			fmt.Fprintf(w, "%s\t%s\t%s\t%d\t%s\n", o.Client, o.Access, o.Deny, o.LockOwners, fileText(&o.File))
		})
}

func locksCommand() *cli.Command {
	return heldCommand("locks", "list byte-range locks of clients, and requests that wait",
		"A LENGTH of - reaches to the end of the file. Locks of local processes are not\nin the list; lslocks(8) shows those, and these as the server's.\nA client with a write delegation (sluice delegations) keeps its locks to itself\nuntil it gives that back.",
		admin.PathLocks, "CLIENT\tTYPE\tSTART\tLENGTH\tSTATE\tFILE",
		func(w io.Writer, l *admin.Lock) {
			who, length, state := l.Client.String(), strconv.FormatUint(l.Length, 10), "held"
			if l.Client == 0 {
				who = l.Host
			}
			if l.Length == 0 {
				length = "-"
			}
			if l.Waiting {
				state = "waiting"
			}
			fmt.Fprintf(w, "%s\t%s\t%d\t%s\t%s\t%s\n", who, l.Type, l.Start, length, state, fileText(&l.File))
		})
}

func delegationsCommand() *cli.Command {
	return heldCommand("delegations", "list the delegations of NFSv4 clients",
		"RECALLED is how long ago the server asked for it back. With a LEASE, local\nprocesses that want the file wait until the client has given it back.",
		admin.PathDelegations, "CLIENT\tTYPE\tRECALLED\tLEASE\tFILE",
		func(w io.Writer, d *admin.Delegation) {
			recalled, lease := "-", "no"
			if d.RecalledSeconds > 0 {
				recalled = seconds(d.RecalledSeconds)
			}
			if d.Leased {
				lease = "yes"
			}
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", d.Client, d.Type, recalled, lease, fileText(&d.File))
		})
}

func copiesCommand() *cli.Command {
	return heldCommand("copies", "list the copies that the server makes for NFSv4 clients",
		"A COPY that its client lets go on after the answer is made in the background, a\npiece at a time. Those that have ended are not in the list.",
		admin.PathCopies, "CLIENT\tCOPIED\tOF\tFROM\tTO",
		func(w io.Writer, k *admin.Copy) {
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", k.Client, bytesText(float64(k.Copied)), bytesText(float64(k.Bytes)), fileText(&k.Source), fileText(&k.Target))
		})
}

// fileText names a file as well as is known: its path, else its place on its
// file system, else its handle.
func fileText(f *admin.StateFile) string {
	switch {
	case f.Path != "":
		q := strconv.Quote(f.Path)
		return q[1 : len(q)-1]
	case f.Inode != 0:
		return fmt.Sprintf("inode %d on %s", f.Inode, f.Device)
	}
	return "handle " + f.Handle
}
