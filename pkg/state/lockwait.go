// Requests that wait for a lock.

package state

import (
	"errors"

	"golang.org/x/sys/unix"
)

func isAgain(err error) bool { return errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EACCES) }

// A file's queue is looked at as a whole whenever a lock goes. A v4 client that finds no place in it asks again by itself.
const (
	maxFileWaiters  = 4096
	maxOwnerWaiters = 8 // of one owner of version 4 on one file
)

// enqueue puts a request at the end of the file's queue. The same request again keeps its place. ErrResource: there is no
// place; as with all that is shared, who has more than is left gets no more.
func (t *lockTable) enqueue(f *fileLocks, w *Waiter, c *LockConflict) error {
	own := 0
	for i, old := range f.waiters {
		if old.who == w.who {
			own++
		}
		if old.who == w.who && old.r == w.r && old.typ == w.typ && old.notify == w.notify {
			old.queued, w.queued = false, true
			f.waiters[i] = w
			return nil
		}
	}
	name := w.who.holder()
	t.waits.Lock()
	defer t.waits.Unlock()
	if n := t.waits.count[name]; n >= t.cfg.MaxWaiters || n >= t.cfg.MaxAllWaiters-t.waits.total ||
		len(f.waiters) >= maxFileWaiters || w.notify && own >= maxOwnerWaiters {
		return ErrResource
	}
	if !w.notify && !c.Local {
		// Follow the chain of blockers, as far as one leads to the next. 10 steps, as POSIX servers do: a deadlock of more
		// is left to the applications.
		next := c.Owner
		for range 10 {
			if next == w.who {
				return ErrDeadlock
			}
			on, waits := t.waits.on[next]
			if !waits {
				break
			}
			next = on
		}
		t.waits.on[w.who] = c.Owner
	}
	t.waits.total++
	t.waits.count[name]++
	t.waits.files[f.key]++
	w.queued = true
	f.waiters = append(f.waiters, w)
	return nil
}

// remove takes a request out of the queue.
func (t *lockTable) remove(f *fileLocks, i int) {
	w := f.waiters[i]
	f.waiters = append(f.waiters[:i], f.waiters[i+1:]...)
	w.queued = false
	name := w.who.holder()
	t.waits.Lock()
	defer t.waits.Unlock()
	t.waits.total--
	if t.waits.count[name]--; t.waits.count[name] == 0 {
		delete(t.waits.count, name)
	}
	if t.waits.files[f.key]--; t.waits.files[f.key] == 0 {
		delete(t.waits.files, f.key)
	}
	if !w.notify {
		delete(t.waits.on, w.who)
	}
}

// unqueue removes what an owner waited for within a range that it has got.
func (t *lockTable) unqueue(f *fileLocks, who LockOwner, r byteRange) {
	for i := len(f.waiters) - 1; i >= 0; i-- {
		if w := f.waiters[i]; w.who == who && w.r.start >= r.start && w.r.end <= r.end {
			t.remove(f, i)
		}
	}
}

// serve grants what can be granted, in the order of the queue, and gives the calls to make once the mutex is free.
func (t *lockTable) serve(f *fileLocks) (calls []func()) {
	for i := 0; i < len(f.waiters); i++ {
		w := f.waiters[i]
		if w.notify {
			if _, _, found := f.set.conflict(w.who, w.r, w.typ); found {
				continue
			}
		} else if c, err := t.take(f, w.who, w.r, w.typ); err != nil {
			if err == ErrDenied && !c.Local {
				t.waits.Lock()
				t.waits.on[w.who] = c.Owner
				t.waits.Unlock()
			}
			continue
		}
		t.remove(f, i)
		i--
		calls = append(calls, func() { w.Granted(w) })
	}
	return calls
}

// cancel takes a request out of the queue. It reports whether it was there.
func (t *lockTable) cancel(key *FileKey, who LockOwner, r byteRange, typ LockType) bool {
	f := t.get(key)
	defer t.put(f)
	for i, w := range f.waiters {
		if w.who == who && w.r == r && w.typ == typ {
			t.remove(f, i)
			return true
		}
	}
	return false
}

// retry looks at all queues again: locks of local processes go without notice, and v4 clients stop asking. It names the v4
// clients whose locks are still in the way of one that waits to be told: such a client does not ask by itself for long.
func (t *lockTable) retry(now int64) (blockers []ClientID) {
	t.waits.Lock()
	files := make([]FileKey, 0, len(t.waits.files))
	for k := range t.waits.files {
		files = append(files, k)
	}
	t.waits.Unlock()
	for i := range files {
		f := t.get(&files[i])
		for j := len(f.waiters) - 1; j >= 0; j-- {
			if w := f.waiters[j]; w.notify && now > w.until {
				t.remove(f, j)
			}
		}
		calls := t.serve(f)
		for _, w := range f.waiters {
			if !w.notify {
				continue
			}
			if who, _, found := f.set.conflict(w.who, w.r, w.typ); found && who.Client != 0 {
				blockers = append(blockers, who.Client)
			}
		}
		t.put(f)
		for _, call := range calls {
			call()
		}
	}
	return blockers
}
