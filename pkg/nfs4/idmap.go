// Names of owners and groups (RFC 7530, 5.9; RFC 8881, 5.9).
//
// Plan: numbers go over the wire as decimal strings, which is what Linux's
// client and server speak with AUTH_SYS, unless names are asked for. Names come
// from the system's databases by getent(1): a process of its own, so that a
// directory service that hangs costs a time-out and not a thread in libc, and so
// that whatever nsswitch.conf says holds in a statically linked server, too.
// Answers, also negative ones, are kept for a while in a table of bounded size.
// What is not known goes as a number, in both directions.

package nfs4

import (
	"bytes"
	"context"
	"errors"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"time"

	"sluice/pkg/vfs"
)

const (
	maxOwnerName = 256 // bytes of an owner string that we send or look up
	idMapEntries = 4096
	idKnownFor   = 10 * time.Minute
	idUnknownFor = time.Minute
	idTimeout    = 5 * time.Second
	idLookups    = 8 // processes at a time
)

// errNoOwner: the string is neither a number nor a known name.
var errNoOwner = errors.New("nfs4: unknown owner")

// IDMap turns ids into owner strings and back. A nil IDMap knows numbers only.
type IDMap struct {
	domain string // after the "@"; empty: names are sent without, and any domain is taken
	getent func(ctx context.Context, db, key string) (string, error)
	now    func() time.Time
	slots  chan struct{}

	mu    sync.Mutex
	names map[idKey]idEntry
	ids   map[nameKey]idEntry
}

type idKey struct {
	id    uint32
	group bool
}

type nameKey struct {
	name  string
	group bool
}

type idEntry struct {
	name  string
	id    uint32
	known bool
	until time.Time
}

// NewIDMap makes a map that sends names, with @domain when that is not empty.
func NewIDMap(domain string) *IDMap {
	return &IDMap{
		domain: domain, getent: getent, now: time.Now, slots: make(chan struct{}, idLookups),
		names: map[idKey]idEntry{}, ids: map[nameKey]idEntry{},
	}
}

// getent asks the system's databases for one line.
func getent(ctx context.Context, db, key string) (string, error) {
	out, err := exec.CommandContext(ctx, "getent", db, "--", key).Output()
	return strings.TrimSuffix(string(out), "\n"), err
}

// name appends the owner string of id to dst. It never waits: an id that is not in the table goes as a number, and the
// table is filled in the background.
func (m *IDMap) name(dst []byte, id uint32, group bool) []byte {
	if m != nil {
		m.mu.Lock()
		e, has := m.names[idKey{id, group}]
		m.mu.Unlock()
		if !has || m.now().After(e.until) {
			m.fill(id, group)
		}
		if has && e.known {
			return append(dst, e.name...)
		}
	}
	return strconv.AppendUint(dst, uint64(id), 10)
}

// fill looks an id up in the background, if there is a place among those that do.
func (m *IDMap) fill(id uint32, group bool) {
	select {
	case m.slots <- struct{}{}:
	default:
		return
	}
	go func() {
		defer func() { <-m.slots }()
		name, _, known := m.lookup(strconv.FormatUint(uint64(id), 10), group)
		if known && m.domain != "" {
			name += "@" + m.domain
		}
		if len(name) > maxOwnerName {
			known = false
		}
		m.mu.Lock()
		defer m.mu.Unlock()
		room(m.names)
		m.names[idKey{id, group}] = idEntry{name: name, known: known, until: m.until(known)}
	}()
}

func (m *IDMap) until(known bool) time.Time {
	if known {
		return m.now().Add(idKnownFor)
	}
	return m.now().Add(idUnknownFor)
}

// room makes room for one more entry: some entry goes.
func room[K comparable](t map[K]idEntry) {
	if len(t) < idMapEntries {
		return
	}
	for k := range t {
		delete(t, k)
		return
	}
}

// lookup asks for one entry of passwd or group: name:x:id:...
func (m *IDMap) lookup(key string, group bool) (name string, id uint32, known bool) {
	ctx, cancel := context.WithTimeout(context.Background(), idTimeout)
	defer cancel()
	db := "passwd"
	if group {
		db = "group"
	}
	line, err := m.getent(ctx, db, key)
	if err != nil {
		return "", 0, false
	}
	f := strings.SplitN(line, ":", 4)
	if len(f) < 4 || f[0] == "" {
		return "", 0, false
	}
	n, err := strconv.ParseUint(f[2], 10, 32)
	return f[0], uint32(n), err == nil
}

// id finds the id of an owner string. vfs.ErrWouldBlock: the databases have to be asked, and the caller must not wait.
func (m *IDMap) id(s []byte, group bool, mayBlock bool) (uint32, error) {
	if n, isNumber := number(s); isNumber {
		return n, nil
	}
	if m == nil || len(s) > maxOwnerName || bytes.IndexByte(s, 0) >= 0 || bytes.IndexByte(s, ':') >= 0 {
		return 0, errNoOwner
	}
	name := string(s)
	if i := strings.LastIndexByte(name, '@'); i >= 0 {
		if m.domain != "" && !strings.EqualFold(name[i+1:], m.domain) {
			return 0, errNoOwner
		}
		name = name[:i]
	}
	k := nameKey{name, group}
	m.mu.Lock()
	e, has := m.ids[k]
	m.mu.Unlock()
	if !has || m.now().After(e.until) {
		if !mayBlock {
			return 0, vfs.ErrWouldBlock
		}
		m.slots <- struct{}{}
		e.name, e.id, e.known = m.lookup(name, group)
		<-m.slots
		if e.name != name { // getent takes numbers, and databases may fold case
			e.known = false
		}
		e.until = m.until(e.known)
		m.mu.Lock()
		room(m.ids)
		m.ids[k] = e
		m.mu.Unlock()
	}
	if !e.known {
		return 0, errNoOwner
	}
	return e.id, nil
}

// number reads a decimal id. 2^32-1 is none: it means "leave as it is" to the kernel.
func number(s []byte) (n uint32, isNumber bool) {
	if len(s) == 0 || len(s) > 10 {
		return 0, false
	}
	v := uint64(0)
	for _, b := range s {
		if b < '0' || b > '9' {
			return 0, false
		}
		v = v*10 + uint64(b-'0')
	}
	return uint32(v), v < 1<<32-1
}
