package vfs

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"sluice/pkg/filecache"
)

// TestGroupCommitOrder proves by a fake file system that a change is only answered after a sync that began after it, with
// any interleaving, and that changes share syncs.
func TestGroupCommitOrder(t *testing.T) {
	var d durable
	d.init()
	var key filecache.Key
	var changes, onDisk atomic.Int64 // made; known to be on stable storage
	var running atomic.Int32
	do := func() error {
		if running.Add(1) != 1 {
			t.Error("two syncs of one directory at a time")
		}
		covered := changes.Load()
		time.Sleep(500 * time.Microsecond)
		onDisk.Store(covered)
		running.Add(-1)
		return nil
	}
	var wg sync.WaitGroup
	for range 32 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for range 20 {
				mine := changes.Add(1)
				if err := d.sync(&key, do); err != nil {
					t.Error(err)
				}
				if disk := onDisk.Load(); disk < mine {
					t.Errorf("change %d was answered with %d on disk", mine, disk)
				}
			}
		}()
	}
	wg.Wait()
	if d.calls != 640 || d.syncs > 100 {
		t.Errorf("%d changes took %d syncs", d.calls, d.syncs)
	}
	if len(d.dirs) != 0 {
		t.Errorf("%d directories left", len(d.dirs))
	}
}

func TestGroupCommitErrors(t *testing.T) {
	var d durable
	d.init()
	var key filecache.Key
	inFirst, goOn := make(chan bool), make(chan bool)
	first := make(chan error)
	go func() { first <- d.sync(&key, func() error { close(inFirst); <-goOn; return nil }) }()
	<-inFirst
	errs := make(chan error, 5)
	for range 5 {
		go func() { errs <- d.sync(&key, func() error { return unix.EIO }) }()
	}
	for {
		d.mu.Lock()
		n := d.calls
		d.mu.Unlock()
		if n == 6 {
			break
		}
		time.Sleep(time.Millisecond)
	}
	close(goOn)
	if err := <-first; err != nil {
		t.Errorf("the first: %v", err)
	}
	for range 5 {
		want(t, "a member of the failed round", <-errs, unix.EIO)
	}
	if d.syncs != 2 {
		t.Errorf("%d syncs", d.syncs)
	}
	want(t, "the next", d.sync(&key, func() error { return nil }), nil)
}

// synced runs op and returns the paths that were synced before it returned.
func synced(b *bench, op func()) (paths []string) {
	var mu sync.Mutex
	old := b.ns.durable.fsync
	b.ns.durable.fsync = func(fd int) error {
		p, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", fd))
		mu.Lock()
		paths = append(paths, p)
		mu.Unlock()
		if err != nil {
			return err
		}
		return unix.Fsync(fd)
	}
	op()
	b.ns.durable.fsync = old
	slices.Sort(paths)
	return paths
}

func TestWhatIsSynced(t *testing.T) {
	for _, async := range []bool{false, true} {
		t.Run(fmt.Sprintf("async=%v", async), func(t *testing.T) {
			d := exportDir(t)
			opt := map[bool]string{false: "sync", true: "async"}[async]
			b := newBench(t, d+" *(rw,no_root_squash,"+opt+")\n")
			b.as(0, 0, func(u *user) {
				root := u.mount(d)
				sub, err := u.mkdir(root, "sub", 0o755)
				ok(t, "mkdir", err)
				check := func(what string, op func() error, want ...string) {
					t.Helper()
					var err error
					got := synced(b, func() { err = op() })
					if err != nil {
						t.Errorf("%s: %v", what, err)
					}
					for i := range got { // paths in the detached mount
						if got[i] = strings.TrimPrefix(got[i], "/"); got[i] == "" {
							got[i] = "."
						}
					}
					if async {
						want = nil
					}
					if !slices.Equal(got, want) {
						t.Errorf("%s synced %q, want %q", what, got, want)
					}
				}
				var fh []byte
				check("create", func() (err error) { fh, _, err = u.create(root, "f", 0o644); return }, ".")
				check("exclusive create", func() error {
					return u.do(root, func(v *View, n Node) error {
						_, _, err := v.Create(n, []byte("x"), Exclusive, [8]byte{1}, nil)
						return err
					})
				}, ".", "x")
				check("mkdir", func() error { _, err := u.mkdir(sub, "d", 0o755); return err }, "sub")
				check("rename", func() error { _, _, err := u.rename(root, "f", sub, "g"); return err }, ".", "sub")
				check("rename in a directory", func() error { _, _, err := u.rename(sub, "g", sub, "f"); return err }, "sub")
				check("link", func() error {
					return u.do(fh, func(v *View, n Node) error {
						dn, _ := v.Node(root)
						_, _, err := v.Link(n, dn, []byte("hard"))
						return err
					})
				}, ".")
				check("setattr", func() error { _, err := u.setattr(fh, SetAttr{SetMode: true, Mode: 0o600}); return err }, "sub/f")
				check("setattr of a directory", func() error { _, err := u.setattr(sub, SetAttr{SetMode: true, Mode: 0o700}); return err }, "sub")
				check("setattr of nothing", func() error { _, err := u.setattr(fh, SetAttr{}); return err })
				check("symlink", func() error {
					return u.do(root, func(v *View, n Node) error {
						_, _, err := v.Symlink(n, []byte("l"), []byte("t"), &SetAttr{})
						return err
					})
				}, ".")
				check("remove", func() error { return u.remove(sub, "f") }, "sub")
				check("rmdir", func() error {
					return u.do(sub, func(v *View, n Node) error { _, err := v.Rmdir(n, []byte("d")); return err })
				}, "sub")
				check("a failed create", func() error { u.create(root, "x", 0o644); return nil })
				check("write", func() error { _, err := u.write(fh, 0, "x"); return err })
			})
		})
	}
}

// A sync that fails is told to the client.
func TestSyncFails(t *testing.T) {
	d := exportDir(t)
	b := newBench(t, d+" *(rw,no_root_squash)\n")
	b.as(0, 0, func(u *user) {
		root := u.mount(d)
		fh, _, err := u.create(root, "f", 0o644)
		ok(t, "create", err)
		b.ns.durable.fsync = func(int) error { return unix.EIO }
		_, _, err = u.create(root, "g", 0o644)
		want(t, "create", err, unix.EIO)
		want(t, "remove", u.remove(root, "g"), unix.EIO)
		_, err = u.setattr(fh, SetAttr{SetMode: true})
		want(t, "setattr", err, unix.EIO)
		b.ns.durable.fsync = unix.Fsync
	})
}

// TestManyCreatesShareSyncs: creates on many threads are durable each, and share syncs.
func TestManyCreatesShareSyncs(t *testing.T) {
	d := exportDir(t)
	b := newBench(t, d+" *(rw,no_root_squash)\n")
	var syncs atomic.Int64
	b.ns.durable.fsync = func(fd int) error {
		syncs.Add(1)
		time.Sleep(2 * time.Millisecond)
		return unix.Fsync(fd)
	}
	var wg sync.WaitGroup
	const threads, each = 16, 20
	for i := range threads {
		wg.Add(1)
		go func() {
			defer wg.Done()
			b.as(0, 0, func(u *user) {
				root := u.mount(d)
				for j := range each {
					_, _, err := u.create(root, fmt.Sprintf("f%d-%d", i, j), 0o644)
					ok(t, "create", err)
				}
			})
		}()
	}
	wg.Wait()
	if n := syncs.Load(); n > threads*each/3 {
		t.Errorf("%d creates took %d syncs", threads*each, n)
	}
	if s := b.ns.DurableStats(); s.Changes != threads*each || s.Syncs != uint64(syncs.Load()) {
		t.Errorf("%+v, %d syncs", s, syncs.Load())
	}
}

// Exact wcc: whatever runs at the same time, a pair of attributes around a change has no other change in between.
func TestDirectoryChangesAreExact(t *testing.T) {
	d := exportDir(t)
	mountFS(t, "tmpfs", d, "tmpfs", 0, "mode=777")
	b := newBench(t, d+" *(rw,async,no_root_squash)\n")
	type step struct {
		before, after uint64
		exact         bool
	}
	var mu sync.Mutex
	var steps []step
	run := func(threads, each int) {
		var wg sync.WaitGroup
		for i := range threads {
			wg.Add(1)
			go func() {
				defer wg.Done()
				b.as(0, 0, func(u *user) {
					root := u.mount(d)
					for j := range each {
						ok(t, "create", u.do(root, func(v *View, n Node) error {
							_, c, err := v.Create(n, fmt.Appendf(nil, "%d-%d-%d", threads, i, j), Guarded, [8]byte{}, &SetAttr{})
							mu.Lock()
							steps = append(steps, step{c.Before.Change, c.After.Change, c.BeforeOK})
							mu.Unlock()
							return err
						}))
					}
				})
			}()
		}
		wg.Wait()
	}
	run(1, 50)
	for i, s := range steps {
		if !s.exact || s.before >= s.after || i > 0 && s.before != steps[i-1].after {
			t.Fatalf("alone: step %d of %+v", i, steps[:i+1])
		}
	}
	steps = nil
	run(6, 300)
	exact := 0
	for i, s := range steps {
		if !s.exact {
			continue
		}
		exact++
		for j, o := range steps {
			if i != j && o.after > s.before && o.after < s.after {
				t.Fatalf("%+v claims to be exact, and %+v is in between", s, o)
			}
		}
	}
	t.Logf("%d of %d pairs exact", exact, len(steps))
}
