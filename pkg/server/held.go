// What NFSv4 clients hold, as the admin plane shows it: pkg/state's snapshots
// with names of files and owners that people can read.

package server

import (
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"sluice/pkg/admin"
	"sluice/pkg/state"
)

func (b backend) nfs4Status() admin.NFS4Status {
	c := b.v4.state.Counters()
	copies, _ := b.v4.service.Copies()
	return admin.NFS4Status{
		GraceSeconds: c.Grace.Seconds(), LeaseSeconds: b.cfg.LeaseTime.Seconds(), Clients: c.Clients, CourtesyClients: c.Courtesy,
		UnconfirmedClients: c.Unconfirmed, Sessions: c.Sessions, Opens: c.Opens, Locks: c.Locks, Delegations: c.Delegations,
		Copies: int64(len(copies)), ReplyCacheBytes: c.ReplyCacheReserved,
	}
}

func (b backend) nfs4Stats() admin.NFS4Stats {
	c := b.v4.state.Counters()
	s := admin.NFS4Stats{
		Operations: []admin.OperationStats{}, ClientsEnded: uint64(c.ClientsEnded), ClientsExpired: uint64(c.ClientsExpired), SharesDenied: uint64(c.SharesDenied),
		LocksGranted: uint64(c.LocksGranted), LocksDenied: uint64(c.LocksDenied), DelegationsGranted: uint64(c.DelegsGranted),
		DelegationsRecalled: uint64(c.DelegsRecalled), DelegationsReturned: uint64(c.DelegsReturned), DelegationsRevoked: uint64(c.DelegsRevoked),
		Replays: uint64(c.Replays), GraceRefused: uint64(c.GraceRefused), StorageErrors: uint64(c.StorageErrors),
	}
	_, s.CopiesBegun = b.v4.service.Copies()
	for _, o := range b.v4.service.Ops() {
		x := admin.OperationStats{Name: o.Name, Calls: o.Calls, Errors: []admin.Count{}}
		for _, e := range o.Errors {
			x.Errors = append(x.Errors, admin.Count{Name: e.Name, Count: e.Count})
		}
		s.Operations = append(s.Operations, x)
	}
	return s
}

func (b backend) nfs4Clients() []admin.NFS4Client {
	list := []admin.NFS4Client{}
	locks := map[state.ClientID]int{}
	for _, l := range b.v4.state.Locks() {
		if !l.Waiting {
			locks[l.Owner.Client]++
		}
	}
	for _, c := range b.v4.state.Clients() {
		list = append(list, admin.NFS4Client{
			ID: admin.ClientID(c.ID), Owner: printable(c.Owner), Address: c.Addr, MinorVersion: int(c.Minor), Implementation: printable(c.Impl),
			State: standing(&c), LeaseAgeSeconds: c.LastRenewed.Seconds(), Callback: c.Callback, Reclaimed: c.Reclaimed, Recorded: c.Recorded,
			Sessions: c.Sessions, Opens: c.Opens, Locks: locks[c.ID], Delegations: c.Delegations, Revoked: c.Revoked,
		})
	}
	return list
}

func standing(c *state.ClientInfo) string {
	switch {
	case !c.Confirmed:
		return admin.StateUnconfirmed
	case c.Courtesy:
		return admin.StateCourtesy
	}
	return admin.StateActive
}

func (b backend) ExpireClient(id admin.ClientID) error {
	err := b.v4.state.ExpireClient(state.ClientID(id))
	switch {
	case errors.Is(err, state.ErrNoEnt):
		return &admin.NotFoundError{Msg: fmt.Sprintf("no NFSv4 client has the id %s; `sluice clients` shows those there are", id)}
	case errors.Is(err, state.ErrDelay):
		return &admin.BusyError{Msg: fmt.Sprintf("client %s has a call under way, or its record in %s can't be removed (the log says so): it keeps what it has; try again", id, b.cfg.State)}
	case err != nil:
		return fmt.Errorf("client %s: %w", id, err)
	}
	b.log.Info().Stringer("id", id).Msg("NFSv4 client expired by the administrator")
	return nil
}

func (b backend) Sessions(client admin.ClientID) []admin.Session {
	list := []admin.Session{}
	for _, s := range b.v4.state.Sessions() {
		if client != 0 && admin.ClientID(s.Client) != client {
			continue
		}
		list = append(list, admin.Session{
			ID: hex.EncodeToString(s.ID[:]), Client: admin.ClientID(s.Client), Slots: s.Slots, TargetSlots: s.Target, BusySlots: s.Busy,
			Connections: s.Conns, BackConnections: s.BackConns, ReplyCacheBytes: s.Reserved, Fore: channel(&s.Fore), Back: channel(&s.Back),
		})
	}
	return list
}

func channel(c *state.ChannelAttrs) admin.Channel {
	return admin.Channel{
		MaxRequest: c.MaxRequest, MaxResponse: c.MaxResponse, MaxResponseCached: c.MaxResponseCached, MaxOperations: c.MaxOps, MaxRequests: c.MaxRequests,
	}
}

func (b backend) Opens(client admin.ClientID) []admin.Open {
	list := []admin.Open{}
	name := b.fileNamer()
	for _, o := range b.v4.state.Opens(state.ClientID(client)) {
		list = append(list, admin.Open{
			Client: admin.ClientID(o.Client), Stateid: o.Stateid.String(), Owner: printable(o.Owner), File: name(o.File),
			Access: share(o.Access), Deny: share(o.Deny), LockOwners: o.Locks,
		})
	}
	return list
}

func share(bits uint8) string {
	return [...]string{"none", "read", "write", "both"}[bits&state.ShareBoth]
}

func (b backend) Locks(client admin.ClientID) []admin.Lock {
	list := []admin.Lock{}
	name := b.fileNamer()
	for _, l := range b.v4.state.Locks() {
		if client != 0 && admin.ClientID(l.Owner.Client) != client {
			continue
		}
		x := admin.Lock{
			Client: admin.ClientID(l.Owner.Client), Host: printable(l.Owner.Host), Owner: printable(l.Owner.Owner), File: name(l.File),
			Type: "read", Start: l.Start, Waiting: l.Waiting,
		}
		if l.Type == state.WriteLock {
			x.Type = "write"
		}
		if l.End != ^uint64(0) {
			x.Length = l.End - l.Start + 1
		}
		list = append(list, x)
	}
	return list
}

func (b backend) Delegations(client admin.ClientID) []admin.Delegation {
	list := []admin.Delegation{}
	name := b.fileNamer()
	for _, d := range b.v4.state.Delegations() {
		if client != 0 && admin.ClientID(d.Client) != client {
			continue
		}
		x := admin.Delegation{
			Client: admin.ClientID(d.Client), Stateid: d.Stateid.String(), File: name(d.File), Type: "read",
			RecalledSeconds: d.Recalled.Seconds(), Leased: d.Leased,
		}
		if d.Type == state.DelegWrite {
			x.Type = "write"
		}
		list = append(list, x)
	}
	return list
}

func (b backend) Copies(client admin.ClientID) []admin.Copy {
	list := []admin.Copy{}
	name := b.fileNamer()
	copies, _ := b.v4.service.Copies()
	for _, c := range copies {
		if client != 0 && admin.ClientID(c.Client) != client {
			continue
		}
		list = append(list, admin.Copy{
			Client: admin.ClientID(c.Client), Stateid: c.Stateid.String(), Source: name(c.Source), Target: name(c.Target), Bytes: c.Bytes, Copied: c.Copied,
		})
	}
	return list
}

// fileNamer names files, each once.
func (b backend) fileNamer() func(state.FileKey) admin.StateFile {
	known := map[state.FileKey]admin.StateFile{}
	return func(k state.FileKey) admin.StateFile {
		f, ok := known[k]
		if !ok {
			f = b.nameFile(&k)
			known[k] = f
		}
		return f
	}
}

// nameFile tells what is known of a file; its handle always is.
func (b backend) nameFile(k *state.FileKey) admin.StateFile {
	f := admin.StateFile{Handle: hex.EncodeToString(k.Bytes[:k.Len])}
	if info, ok := b.ns.Describe(*k); ok {
		f.Device, f.Inode, f.Path = fmt.Sprintf("%d:%d", info.Major, info.Minor), info.Inode, info.Path
	}
	return f
}

// printable writes bytes that a client chose so that they harm no terminal.
func printable(s string) string {
	q := strconv.Quote(s)
	return strings.ReplaceAll(q[1:len(q)-1], `\"`, `"`)
}
