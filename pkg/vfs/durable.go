// Durability of names and attributes. On a sync export a change is on stable storage before its reply (RFC 1813 1.3.3 and
// 4.8; exports(5), sync): the directory is synced, and the new file where the directory's sync does not cover it.
//
// Group commit: whoever finds no sync of the directory running syncs at once. Those who come while one runs cannot rely on
// it, since it may have begun before their change; they wait together for the next, which one of them makes for all. So a
// lone change waits for one sync, and any number of concurrent ones for at most two.

package vfs

import (
	"fmt"
	"sync"

	"golang.org/x/sys/unix"

	"sluice/pkg/filecache"
)

type durable struct {
	mu    sync.Mutex
	dirs  map[filecache.Key]*dirSync // those with a sync running
	fsync func(fd int) error         // tests put their own here
	syncs uint64                     // directory syncs made
	calls uint64                     // directory syncs asked for
}

// dirSync is a directory whose sync is running.
type dirSync struct{ next *round }

// round is a sync to come. Its first member makes it.
type round struct {
	turn chan struct{} // closed when the one before has ended
	done chan struct{} // closed when this one has
	err  error
}

func (d *durable) init() {
	d.dirs = make(map[filecache.Key]*dirSync)
	d.fsync = unix.Fsync
}

// sync returns when a call of do has begun after sync was called, and ended; it gives that call's error.
func (d *durable) sync(k *filecache.Key, do func() error) error {
	d.mu.Lock()
	d.calls++
	s := d.dirs[*k]
	if s == nil {
		s = new(dirSync)
		d.dirs[*k] = s
		d.syncs++
		d.mu.Unlock()
		err := do()
		d.finish(k, s)
		return err
	}
	r := s.next
	if r != nil {
		d.mu.Unlock()
		<-r.done
		return r.err
	}
	r = &round{turn: make(chan struct{}), done: make(chan struct{})}
	s.next = r
	d.mu.Unlock()
	<-r.turn // from here on nobody joins
	r.err = do()
	d.finish(k, s)
	close(r.done)
	return r.err
}

// finish hands over to the next round, if anybody waits for one.
func (d *durable) finish(k *filecache.Key, s *dirSync) {
	d.mu.Lock()
	r := s.next
	s.next = nil
	if r == nil {
		delete(d.dirs, *k)
	} else {
		d.syncs++
	}
	d.mu.Unlock()
	if r != nil {
		close(r.turn)
	}
}

// DurableStats counts group commit.
type DurableStats struct {
	Changes uint64 `json:"changes"` // changes of directories that had to be durable
	Syncs   uint64 `json:"syncs"`   // syncs that made them so
}

// DurableStats returns the counters.
func (n *Namespace) DurableStats() DurableStats {
	n.durable.mu.Lock()
	defer n.durable.mu.Unlock()
	return DurableStats{n.durable.calls, n.durable.syncs}
}

// syncDir puts the names in a directory on stable storage, if the export asks for it.
func (v *View) syncDir(n Node) error {
	if !v.sync {
		return nil
	}
	return fail(errnoOf(v.ns.durable.sync(&n.f.Key, func() error {
		return v.th.runAsServer(func() error { return v.fsyncDir(n) })
	})))
}

func (v *View) fsyncDir(n Node) error {
	fd, err := v.ns.cfg.Cache.Room(true, func() (int, error) {
		fd, e := v.th.reopen(n.f.PathFD(), unix.O_RDONLY|unix.O_DIRECTORY)
		if e != 0 {
			return -1, e
		}
		return fd, nil
	})
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return retry(func() error { return v.ns.durable.fsync(fd) })
}

// syncFile puts a file's attributes on stable storage, if the export asks for it. For a regular file that includes its
// data: user space has no way to sync the one without the other.
func (v *View) syncFile(n Node) error {
	if !v.sync {
		return nil
	}
	return fail(errnoOf(v.th.runAsServer(func() error {
		switch n.Type() {
		case TypeReg:
			return n.f.Sync(func(fd int) error { return retry(func() error { return v.ns.durable.fsync(fd) }) })
		case TypeDir:
			return v.fsyncDir(n)
		}
		// Links, devices, sockets and FIFOs cannot be opened for it.
		fd, err := unix.Open(fmt.Sprintf("/proc/self/fd/%d", n.m.fd), unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		return retry(func() error { return unix.Syncfs(fd) })
	})))
}

// syncNew puts a file just made in dir on stable storage, if the export asks for it. changed: attributes were set after it
// was made.
func (v *View) syncNew(dir, n Node, changed bool) error {
	if !v.sync {
		return nil
	}
	if changed || !n.m.dirSync {
		if err := v.syncFile(n); err != nil {
			return err
		}
	}
	return v.syncDir(dir)
}
