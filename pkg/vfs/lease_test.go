package vfs

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"sluice/pkg/filecache"
)

// breaks collects what leases told.
type breaks struct {
	mu   sync.Mutex
	keys []filecache.Key
}

func (b *breaks) add(k filecache.Key) { b.mu.Lock(); b.keys = append(b.keys, k); b.mu.Unlock() }
func (b *breaks) count() int          { b.mu.Lock(); defer b.mu.Unlock(); return len(b.keys) }

type leaseBench struct {
	*bench
	breaks
	leases *Leases
	locks  *Locks
	path   string
	fh     []byte
	key    filecache.Key
	pin    *filecache.File
}

// withLeases runs f with a file, as its owner, that an open of a client keeps pinned.
func withLeases(t *testing.T, dir string, f func(b *leaseBench, u *user)) {
	b := &leaseBench{bench: serve(t, dir, "rw,no_root_squash"), path: filepath.Join(dir, "f")}
	b.locks = b.ns.NewLocks(100)
	var err error
	if b.leases, err = b.ns.NewLeases(10, b.locks, b.add); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(b.path, []byte("content"), 0o666); err != nil {
		t.Fatal(err)
	}
	os.Chown(b.path, 1000, 1000)
	b.as(1000, 1000, func(u *user) {
		u.c.V4 = true
		fh, _, err := u.lookup(u.mount(dir), "f")
		ok(t, "lookup", err)
		b.fh = fh
		u.do(fh, func(v *View, n Node) error { b.key, b.pin = n.Key(), n.Pin(); return nil })
		f(b, u)
		b.pin.Release()
	})
	b.leases.Close()
	b.locks.Close()
	if n, m := b.leases.Count(), b.locks.Count(); n+m != 0 {
		t.Errorf("%d leases and %d locks at the end", n, m)
	}
}

// local runs a shell command as another process; done is closed at its end.
func local(t *testing.T, cmd string) (done chan struct{}) {
	done = make(chan struct{})
	c := exec.Command("sh", "-c", cmd)
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		c.Wait() //nolint:errcheck // what it did is looked at
		close(done)
	}()
	return done
}

func isDone(c chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

func TestReadLease(t *testing.T) {
	onEach(t, func(t *testing.T, dir string) {
		withLeases(t, dir, func(b *leaseBench, u *user) {
			ok(t, "acquire", b.leases.Acquire(b.key, false))
			ok(t, "acquire again", b.leases.Acquire(b.key, false))
			<-local(t, "cat "+b.path)
			if _, _, err := u.read(b.fh, 0, 9); err != nil {
				t.Errorf("read: %v", err)
			}
			if b.count() != 0 {
				t.Error("readers broke a lease for reading")
			}
			w := local(t, "echo local >"+b.path)
			eventually(t, "the break is told", func() bool { return b.count() == 1 })
			if isDone(w) {
				t.Error("the local writer did not wait")
			}
			if s, _, _ := u.read(b.fh, 0, 9); s != "content" {
				t.Errorf("read %q before the lease was given back", s)
			}
			b.leases.Release(b.key)
			<-w
			if s, _, _ := u.read(b.fh, 0, 9); s != "local\n" {
				t.Errorf("read %q afterwards", s)
			}
			if b.keys[0] != b.key || b.count() != 1 {
				t.Errorf("told %v", b.keys)
			}
			// A second lease on the same file breaks anew.
			ok(t, "acquire", b.leases.Acquire(b.key, false))
			w = local(t, "echo again >"+b.path)
			eventually(t, "the second break is told", func() bool { return b.count() == 2 })
			b.leases.Release(b.key)
			<-w
			b.leases.Release(b.key) // does nothing
		})
	})
}

// TestLeaseAfterWrite has a descriptor for writing in the cache when a lease is asked for.
func TestLeaseAfterWrite(t *testing.T) {
	withLeases(t, ext4Dir(t, 64<<20), func(b *leaseBench, u *user) {
		_, err := u.write(b.fh, 0, "CONTENT")
		ok(t, "write", err)
		if err := b.leases.Acquire(b.key, false); err != unix.EAGAIN {
			t.Errorf("with a writer: %v", err)
		}
		eventually(t, "the writer goes", func() bool { return b.leases.Acquire(b.key, false) == nil })
		if b.pin.Unstable() {
			t.Error("unstable data was closed")
		}
		// The server's own writer breaks it, as any other would.
		start := time.Now()
		_, err = u.write(b.fh, 0, "again")
		want(t, "write into a lease for reading", err, ErrJukebox)
		eventually(t, "told", func() bool { return b.count() == 1 })
		if time.Since(start) > 10*time.Second {
			t.Error("a thread waited for the lease")
		}
	})
}

func TestWriteLease(t *testing.T) {
	onEach(t, func(t *testing.T, dir string) {
		out := filepath.Join(t.TempDir(), "out") // made while the thread is root's
		withLeases(t, dir, func(b *leaseBench, u *user) {
			_, _, err := u.read(b.fh, 0, 9)
			ok(t, "read", err)
			eventually(t, "a lease for writing", func() bool { return b.leases.Acquire(b.key, true) == nil })
			// Its holder works on the file.
			_, err = u.write(b.fh, 0, "holders")
			ok(t, "write", err)
			s, _, err := u.read(b.fh, 0, 9)
			if err != nil || s != "holders" {
				t.Errorf("read %q, %v", s, err)
			}
			ok(t, "commit", u.do(b.fh, func(v *View, n Node) error { _, _, err := v.Commit(n, 0, 0); return err }))
			_, err = u.setattr(b.fh, SetAttr{SetSize: true, Size: 4})
			ok(t, "truncate", err)
			_, err = u.setattr(b.fh, SetAttr{SetMode: true, Mode: 0o640})
			ok(t, "chmod", err)
			time.Sleep(20 * time.Millisecond)
			if b.count() != 0 {
				t.Error("its holder broke the lease")
			}
			// Locks under the lease take no descriptor until it ends.
			ok(t, "lock", b.locks.Lock(b.key, "owner", true, 0, 9))
			ok(t, "lock", b.locks.Lock(b.key, "other", true, 20, 29))
			b.locks.Unlock(b.key, "other", 0, 1<<64-1)
			b.locks.Forget(b.key, "other")
			// However many there were, none comes back with the lease's end that was let go.
			for i := range uint64(maxPending) {
				if err := b.locks.Lock(b.key, "many", true, 100+2*i, 100+2*i); err != nil && i < maxPending-2 {
					t.Fatalf("lock %d: %v", i, err)
				}
			}
			if err := b.locks.Lock(b.key, "more", true, 30, 30); err != unix.ENOLCK {
				t.Errorf("past the limit: %v", err)
			}
			b.locks.Unlock(b.key, "many", 0, 1<<64-1)
			b.locks.Forget(b.key, "many")
			ok(t, "lock", b.locks.Lock(b.key, "more", true, 30, 30))
			b.locks.Forget(b.key, "more")
			if b.count() != 0 || b.locks.Count() != 0 {
				t.Error("a lock opened the file")
			}
			r := local(t, "cat "+b.path+" >"+out)
			eventually(t, "the break is told", func() bool { return b.count() == 1 })
			if isDone(r) {
				t.Error("the local reader did not wait")
			}
			_, err = u.write(b.fh, 0, "flushed")
			ok(t, "write while it is broken", err)
			b.leases.Release(b.key)
			<-r
			u.th.asServer()
			if s, _ := os.ReadFile(out); string(s) != "flushed" {
				t.Errorf("the local process read %q", s)
			}
			if b.locks.Count() != 1 {
				t.Errorf("%d locks after the lease", b.locks.Count())
			}
			if got := localLock(t, b.path, "WRLCK", 5, 1); got != "EAGAIN" {
				t.Errorf("a local lock over a client's: %s", got)
			}
			b.locks.Forget(b.key, "owner")
			if got := localLock(t, b.path, "WRLCK", 5, 1); got != "ok" {
				t.Errorf("a local lock after it: %s", got)
			}
			// Nothing of the server keeps the file open for writing for long.
			eventually(t, "no writers are left", func() bool { return b.leases.Acquire(b.key, false) == nil })
		})
	})
}

// TestLeaseNames has local processes change what an open does not, and the server change it for clients.
func TestLeaseNames(t *testing.T) {
	onEach(t, func(t *testing.T, dir string) {
		for _, cmd := range []string{"chmod 600 %[1]s", "chown 5 %[1]s", "mv %[1]s %[1]s.2; mv %[1]s.2 %[1]s", "ln %[1]s %[1]s.l; rm %[1]s.l", "touch %[1]s"} {
			withLeases(t, dir, func(b *leaseBench, u *user) {
				ok(t, "acquire", b.leases.Acquire(b.key, false))
				_, err := u.setattr(b.fh, SetAttr{SetMode: true, Mode: 0o664})
				ok(t, "setattr", err)
				time.Sleep(5 * time.Millisecond)
				if b.count() != 0 {
					t.Error("a client's change was told as a local process's")
				}
				<-local(t, fmt.Sprintf(cmd, b.path))
				eventually(t, "told of "+cmd, func() bool { return b.count() == 1 })
			})
			os.Remove(filepath.Join(dir, "f"))
		}
	})
}

func TestWeaken(t *testing.T) {
	onEach(t, func(t *testing.T, dir string) {
		withLeases(t, dir, func(b *leaseBench, u *user) {
			if b.leases.Weaken(b.key) {
				t.Error("weakened nothing")
			}
			ok(t, "acquire", b.leases.Acquire(b.key, false))
			for range 2 { // the second time it is weak already
				if !b.leases.Weaken(b.key) {
					t.Error("not weakened")
				}
			}
			_, err := u.write(b.fh, 0, "its own")
			ok(t, "write", err)
			time.Sleep(5 * time.Millisecond)
			if b.count() != 0 {
				t.Error("told of the server's own write")
			}
			<-local(t, "echo x >>"+b.path)
			eventually(t, "told of a local writer", func() bool { return b.count() == 1 })
			b.leases.Release(b.key)
			<-local(t, "echo x >>"+b.path)
			time.Sleep(5 * time.Millisecond)
			if b.count() != 1 {
				t.Error("told of a file without a lease")
			}
		})
	})
}

// TestLeaseSpans asks for a lease while a change is under way.
func TestLeaseSpans(t *testing.T) {
	withLeases(t, tmpfsDir(t), func(b *leaseBench, u *user) {
		span := b.ns.spans.begin(&b.pin.Key)
		if err := b.leases.Acquire(b.key, false); err != unix.EAGAIN {
			t.Errorf("in the middle of a change: %v", err)
		}
		b.ns.spans.end(&b.pin.Key, span)
		ok(t, "afterwards", b.leases.Acquire(b.key, false))
		bad := b.key
		bad.Bytes[0] ^= 1
		if err := b.leases.Acquire(bad, false); err != unix.ESTALE {
			t.Errorf("of a file that nobody has open: %v", err)
		}
		b.leases.max = 1
		ok(t, "have", b.leases.Acquire(b.key, false))
		b.leases.max = 0
		b.leases.Release(b.key)
		if err := b.leases.Acquire(b.key, false); err != unix.EMFILE {
			t.Errorf("past the limit: %v", err)
		}
	})
}

// TestManyBreaks breaks as many leases at once as there are, twice.
func TestManyBreaks(t *testing.T) {
	d := tmpfsDir(t)
	b := serve(t, d, "rw,no_root_squash")
	var br breaks
	l, err := b.ns.NewLeases(100, nil, br.add)
	if err != nil {
		t.Fatal(err)
	}
	b.as(0, 0, func(u *user) {
		root := u.mount(d)
		var pins []*filecache.File
		var keys []filecache.Key
		for i := range 60 {
			fh, _, err := u.create(root, strconv.Itoa(i), 0o644)
			ok(t, "create", err)
			u.do(fh, func(v *View, n Node) error { keys, pins = append(keys, n.Key()), append(pins, n.Pin()); return nil })
			ok(t, "acquire", l.Acquire(keys[i], false))
		}
		done := local(t, "cd "+d+"; for i in *; do echo x >$i & done; wait")
		eventually(t, "all are told", func() bool { return br.count() == 60 })
		for _, k := range keys {
			l.Release(k)
		}
		<-done
		for _, p := range pins {
			p.Release()
		}
	})
	l.Close()
}

// localLock takes a lock with fcntl in another process, and tells how that went.
func localLock(t *testing.T, path, typ string, start, length int) string {
	t.Helper()
	needTool(t, "python3")
	out := sh(t, "python3", "-c", `
import fcntl, os, struct, sys
f = os.open(sys.argv[1], os.O_RDWR)
try:
    fcntl.fcntl(f, fcntl.F_SETLK, struct.pack('hhqqi', getattr(fcntl, 'F_'+sys.argv[2]), 0, int(sys.argv[3]), int(sys.argv[4]), 0))
    print('ok')
except OSError as e:
    print(__import__('errno').errorcode[e.errno])
`, path, typ, strconv.Itoa(start), strconv.Itoa(length))
	return strings.TrimSpace(out)
}

func TestLocks(t *testing.T) {
	onEach(t, func(t *testing.T, dir string) {
		withLeases(t, dir, func(b *leaseBench, u *user) {
			l := b.locks
			type who struct{ client, owner string }
			a, z := who{"a", "1"}, who{"z", "1"}
			try := func() string {
				var s []string
				for _, typ := range []string{"RDLCK", "WRLCK"} {
					s = append(s, localLock(t, b.path, typ, 15, 10))
				}
				return strings.Join(s, " ")
			}
			ok(t, "read lock", l.Lock(b.key, a, false, 10, 19))
			ok(t, "another's", l.Lock(b.key, z, false, 10, 1<<64-1))
			if got := try(); got != "ok EAGAIN" {
				t.Errorf("over read locks: %s", got)
			}
			if err := l.Lock(b.key, a, true, 15, 15); err != unix.EAGAIN {
				t.Errorf("upgrade over another's: %v", err) // who calls has looked before; the kernel has the same owners
			}
			l.Unlock(b.key, z, 0, 1<<64-1)
			ok(t, "upgrade", l.Lock(b.key, a, true, 10, 19))
			if got := try(); got != "EAGAIN EAGAIN" {
				t.Errorf("over a write lock: %s", got)
			}
			ok(t, "downgrade", l.Lock(b.key, a, false, 10, 19))
			l.Unlock(b.key, a, 15, 1<<64-1)
			if got := try(); got != "ok ok" {
				t.Errorf("after unlock: %s", got)
			}
			ok(t, "past the largest offset", l.Lock(b.key, a, true, 1<<63, 1<<64-1))
			l.Unlock(b.key, a, 1<<63, 1<<64-1)

			// A local process's lock.
			hold := exec.Command("python3", "-c", `
import fcntl, os, struct, sys
f = os.open(sys.argv[1], os.O_RDWR)
fcntl.fcntl(f, fcntl.F_SETLK, struct.pack('hhqqi', fcntl.F_WRLCK, 0, 100, 0, 0))
print('held', flush=True)
sys.stdin.read()
`, b.path)
			in, _ := hold.StdinPipe()
			out, _ := hold.StdoutPipe()
			if err := hold.Start(); err != nil {
				t.Fatal(err)
			}
			out.Read(make([]byte, 4))
			if err := l.Lock(b.key, a, false, 150, 150); err != unix.EAGAIN {
				t.Errorf("over a local lock: %v", err)
			}
			for _, owner := range []who{a, {"never", "seen"}} {
				w, from, to, pid, found := l.Test(b.key, owner, false, 0, 1<<64-1)
				if !found || !w || from != 100 || to != 1<<64-1 || int(pid) != hold.Process.Pid {
					t.Errorf("test: %v %d-%d of %d, %v", w, from, to, pid, found)
				}
			}
			if _, _, _, _, found := l.Test(b.key, a, true, 0, 99); found {
				t.Error("test finds what is elsewhere")
			}
			in.Close()
			hold.Wait() //nolint:errcheck // it ends
			ok(t, "after it", l.Lock(b.key, a, false, 150, 150))
			l.Forget(b.key, a)
			l.Forget(b.key, a)
			if got := try(); got != "ok ok" {
				t.Errorf("after the owner was forgotten: %s", got)
			}
			l.Forget(b.key, z)
			if n := l.Count(); n != 0 {
				t.Errorf("%d descriptors are left", n)
			}
			l.max = 1
			ok(t, "the last descriptor", l.Lock(b.key, a, false, 0, 0))
			if err := l.Lock(b.key, z, false, 0, 0); err != unix.ENOLCK {
				t.Errorf("past the limit: %v", err)
			}
		})
	})
}

// gate4 is a Guard that keeps what it was asked and refuses what it is told to.
type gate4 struct {
	asked  []string
	key    filecache.Key
	held   bool
	refuse error
}

func (g *gate4) ask(what string, file *filecache.Key, client uint64, opened bool) error {
	g.asked = append(g.asked, fmt.Sprintf("%s %d %v", what, client, opened))
	if *file != g.key {
		g.asked = append(g.asked, "another file")
	}
	return g.refuse
}
func (g *gate4) CheckRead(f *filecache.Key, c uint64, o bool) error  { return g.ask("read", f, c, o) }
func (g *gate4) CheckWrite(f *filecache.Key, c uint64, o bool) error { return g.ask("write", f, c, o) }
func (g *gate4) CheckSetattr(f *filecache.Key, c uint64, o, truncate bool) error {
	return g.ask(fmt.Sprint("setattr ", truncate), f, c, o)
}
func (g *gate4) CheckGetattr(f *filecache.Key, c uint64, o bool) error {
	return g.ask("getattr", f, c, o)
}
func (g *gate4) Held(f *filecache.Key, c uint64) bool        { return g.held && *f == g.key }
func (g *gate4) Ended() uint64                               { return 0 }
func (g *gate4) CheckNames(f *filecache.Key, c uint64) error { return g.ask("names", f, c, false) }

func TestGuard(t *testing.T) {
	for _, opt := range []string{"no_subtree_check", "subtree_check"} {
		t.Run(opt, func(t *testing.T) {
			d := ext4Dir(t, 64<<20)
			g := &gate4{}
			b := serve(t, d, "rw,no_root_squash,"+opt)
			b.as(0, 0, func(u *user) {
				root := u.mount(d)
				fh, _, err := u.create(root, "f", 0o644)
				ok(t, "create", err)
				sub, err := u.mkdir(root, "sub", 0o755)
				ok(t, "mkdir", err)
				_, err = u.write(fh, 0, "words")
				ok(t, "write", err)
				u.do(fh, func(v *View, n Node) error { g.key = n.Key(); return nil })
				b.ns.SetGuard(g)
				refused := fmt.Errorf("refused")
				u.c.Owner, u.c.Opened = 77, true
				type op struct {
					name  string
					asked []string
					do    func() error
				}
				ops := []op{
					{"read", []string{"read 77 true"}, func() error { _, _, err := u.read(fh, 0, 5); return err }},
					{"write", []string{"write 77 true"}, func() error { _, err := u.write(fh, 0, "WORDS"); return err }},
					{"truncate", []string{"setattr true 77 true"}, func() error { _, err := u.setattr(fh, SetAttr{SetSize: true, Size: 3}); return err }},
					{"chmod", []string{"setattr false 77 true"}, func() error { _, err := u.setattr(fh, SetAttr{SetMode: true, Mode: 0o600}); return err }},
					{"setxattr", []string{"setattr false 77 true"}, func() error {
						return u.do(fh, func(v *View, n Node) error { _, err := v.Setxattr(n, []byte("a"), nil, XattrEither); return err })
					}},
					{"setacl", []string{"setattr false 77 true"}, func() error {
						return u.do(fh, func(v *View, n Node) error { return v.SetACL(n, &ACL{}, nil) })
					}},
					{"allocate", []string{"write 77 true"}, func() error { return u.do(fh, func(v *View, n Node) error { return v.Allocate(n, 0, 9) }) }},
					{"deallocate", []string{"write 77 true"}, func() error { return u.do(fh, func(v *View, n Node) error { return v.Deallocate(n, 0, 9) }) }},
					{"copy", []string{"read 77 true", "write 77 true"}, func() error {
						return u.do(fh, func(v *View, n Node) error { _, err := v.Copy(n, n, 0, 100, 2); return err })
					}},
					{"seek", []string{"read 77 true"}, func() error {
						return u.do(fh, func(v *View, n Node) error { _, _, err := v.Seek(n, 0, false); return err })
					}},
					{"link", []string{"names 77 false"}, func() error {
						return u.do(fh, func(v *View, n Node) error {
							dir, err := v.Node(root)
							ok(t, "node", err)
							_, _, err = v.Link(n, dir, []byte("g"))
							return err
						})
					}},
					{"rename onto another name of it", []string{"names 77 false"}, func() error { _, _, err := u.rename(root, "g", root, "f"); return err }},
					{"rename", []string{"names 77 false"}, func() error { _, _, err := u.rename(root, "g", sub, "h"); return err }},
					{"remove", []string{"names 77 false"}, func() error { return u.remove(root, "f") }},
					{"getattr", nil, func() error { _, err := u.getattr(fh); return err }},
				}
				for _, v4 := range []bool{true, false} {
					u.c.V4 = v4
					g.refuse = refused
					for _, o := range ops {
						if o.name == "rename onto another name of it" || o.name == "rename" || o.name == "getattr" {
							continue // the name is not there yet
						}
						before, _ := os.ReadFile(filepath.Join(d, "f"))
						g.asked = nil
						err := o.do()
						wanted := error(ErrJukebox)
						if v4 {
							wanted = refused
						}
						want(t, o.name+" refused", err, wanted)
						if len(g.asked) != 1 || g.asked[0] != o.asked[0] {
							t.Errorf("%s asked %q", o.name, g.asked)
						}
						if after, _ := os.ReadFile(filepath.Join(d, "f")); string(after) != string(before) {
							t.Errorf("%s was refused and has changed the file", o.name)
						}
					}
				}
				g.refuse, u.c.V4 = nil, true
				for _, o := range ops {
					g.asked = nil
					want(t, o.name, o.do(), nil)
					if !slices.Equal(g.asked, o.asked) {
						t.Errorf("%s asked %q, want %q", o.name, g.asked, o.asked)
					}
				}
				u.c.V4 = false
				g.asked = nil
				u.getattr(fh)
				if !slices.Equal(g.asked, []string{"getattr 77 true"}) {
					t.Errorf("version 3's GETATTR asked %q", g.asked)
				}
			})
		})
	}
}
