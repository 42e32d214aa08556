// The list of mounts that DUMP prints: what each client says to have mounted.
//
// Plan: advisory only (RFC 1813, 5.2.2: clients crash without UMNT), so it is
// kept in memory, bounded, and loses its oldest entries first. One client
// cannot push out the others: beyond its own share it loses its own.

package nfs3

import (
	"container/list"
	"net/netip"
	"sync"
	"time"
)

// Bounds of the mount list. With paths of MNTPATHLEN a full list takes about
// 1 MiB, in memory and in a reply to DUMP.
const (
	maxMounts          = 1024 // entries in all
	maxMountsPerClient = 64   // entries of one address
)

// Mount is one entry of the mount list.
type Mount struct {
	Client netip.Addr
	Path   string
	Since  time.Time // of the last MNT
}

type mountKey struct {
	client netip.Addr
	path   string
}

// mountList is safe for concurrent use.
type mountList struct {
	mu        sync.Mutex
	order     list.List // of Mount, oldest first
	byKey     map[mountKey]*list.Element
	perClient map[netip.Addr]int
}

func newMountList() *mountList {
	return &mountList{byKey: map[mountKey]*list.Element{}, perClient: map[netip.Addr]int{}}
}

// add records a mount; one that is known becomes the newest.
func (l *mountList) add(client netip.Addr, path string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	m := Mount{Client: client, Path: path, Since: time.Now()}
	k := mountKey{client, path}
	if e, ok := l.byKey[k]; ok {
		e.Value = m
		l.order.MoveToBack(e)
		return
	}
	switch {
	case l.perClient[client] >= maxMountsPerClient:
		for e := l.order.Front(); e != nil; e = e.Next() {
			if e.Value.(Mount).Client == client {
				l.drop(e)
				break
			}
		}
	case l.order.Len() >= maxMounts:
		l.drop(l.order.Front())
	}
	l.byKey[k] = l.order.PushBack(m)
	l.perClient[client]++
}

// remove forgets one mount, if it is known.
func (l *mountList) remove(client netip.Addr, path string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if e, ok := l.byKey[mountKey{client, path}]; ok {
		l.drop(e)
	}
}

// removeAll forgets every mount of a client.
func (l *mountList) removeAll(client netip.Addr) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for e := l.order.Front(); e != nil; {
		next := e.Next()
		if e.Value.(Mount).Client == client {
			l.drop(e)
		}
		e = next
	}
}

// drop is called with mu held.
func (l *mountList) drop(e *list.Element) {
	m := l.order.Remove(e).(Mount)
	delete(l.byKey, mountKey{m.Client, m.Path})
	if l.perClient[m.Client]--; l.perClient[m.Client] == 0 {
		delete(l.perClient, m.Client)
	}
}

// all returns the mounts, oldest first.
func (l *mountList) all() []Mount {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := make([]Mount, 0, l.order.Len())
	for e := l.order.Front(); e != nil; e = e.Next() {
		out = append(out, e.Value.(Mount))
	}
	return out
}
