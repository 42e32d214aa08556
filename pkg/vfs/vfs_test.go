// The tests' workbench: a namespace over directories and private mounts, and threads that run calls as any uid.

package vfs

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"golang.org/x/sys/unix"

	"sluice/exports"
	"sluice/pkg/dataio"
	"sluice/pkg/filecache"
)

func needRoot(t testing.TB) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root: it mounts file systems and acts under other users' ids")
	}
}

// bench is one server's namespace.
type bench struct {
	t     testing.TB
	ns    *Namespace
	cache *filecache.Cache
	eng   *dataio.Engine
	log   *strings.Builder
}

type safeLog struct {
	mu chan struct{}
	b  *strings.Builder
}

func (s safeLog) Write(p []byte) (int, error) {
	s.mu <- struct{}{}
	defer func() { <-s.mu }()
	return s.b.Write(p)
}

func mustSet(t testing.TB, text string) *exports.Set {
	t.Helper()
	set, _, err := exports.Parse("exports", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return set
}

// newBench serves the given exports file. It fails the test if anything is still open at the end.
func newBench(t testing.TB, table string, mod ...func(*Config)) *bench {
	t.Helper()
	needRoot(t)
	b := &bench{t: t, log: new(strings.Builder)}
	b.cache = filecache.New(filecache.Config{Budget: 2000})
	var err error
	if b.eng, err = dataio.New(dataio.Config{Cache: b.cache}); err != nil {
		t.Fatal(err)
	}
	cfg := Config{
		Exports: mustSet(t, table), HandleKey: HandleKey{1, 2, 3}, Cache: b.cache, Engine: b.eng,
		Log: zerolog.New(safeLog{make(chan struct{}, 1), b.log}), CheckEvery: 20 * time.Millisecond,
	}
	for _, m := range mod {
		m(&cfg)
	}
	if b.ns, err = New(cfg); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.close)
	return b
}

func (b *bench) close() {
	if b.ns == nil {
		return
	}
	b.ns.Close()
	b.ns = nil
	b.cache.Close()
	if s := b.cache.Stats(); s.Acquisitions != s.Releases || s.Descriptors != 0 {
		b.t.Errorf("file cache at the end: %+v", s)
	}
	if err := b.eng.Close(); err != nil {
		b.t.Error(err)
	}
}

// on runs f on a locked thread of its own, which ends with it.
func (b *bench) on(f func(th *Thread)) {
	b.t.Helper()
	done := make(chan any, 1)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		ok := false
		defer func() {
			if !ok {
				done <- fmt.Errorf("a test's thread ended early: %v", recover())
			}
		}()
		th, err := b.ns.NewThread()
		if err != nil {
			done <- err
			ok = true
			return
		}
		defer th.Close()
		f(th)
		ok = true
		done <- nil
	}()
	if e := <-done; e != nil {
		b.t.Fatal(e)
	}
}

// user is a client's user on a thread.
type user struct {
	b  *bench
	th *Thread
	c  Caller
}

func (b *bench) user(th *Thread, uid, gid uint32, groups ...uint32) *user {
	return &user{b, th, Caller{
		Addr: netip.MustParseAddr("127.0.0.1"), Port: 700, MayBlock: true, Memo: new(ClientMemo),
		Cred: Cred{UID: uid, GID: gid, Groups: groups, Flavor: FlavorSys},
	}}
}

// as runs f with a user on a fresh thread.
func (b *bench) as(uid, gid uint32, f func(u *user)) {
	b.t.Helper()
	b.on(func(th *Thread) { f(b.user(th, uid, gid)) })
}

func (u *user) mount(path string) []byte {
	h, _, err := u.b.ns.Mount(u.th, &u.c, path)
	if err != nil {
		panic(fmt.Sprintf("mount %s: %v; log:\n%s", path, err, u.b.log))
	}
	return append([]byte(nil), h.Bytes()...)
}

// do runs f in a View of fh.
func (u *user) do(fh []byte, f func(v *View, n Node) error) error {
	v, n, err := u.b.ns.View(u.th, &u.c, fh)
	if err != nil {
		return err
	}
	defer v.Close()
	return f(&v, n)
}

func (u *user) lookup(dir []byte, name string) (fh []byte, a Attr, err error) {
	err = u.do(dir, func(v *View, n Node) error {
		e, da, err := v.Lookup(n, []byte(name))
		if !da.Valid() && err != ErrStale && err != ErrWouldBlock {
			panic("lookup without the directory's attributes")
		}
		fh, a = append([]byte(nil), e.Handle.Bytes()...), e.Attr
		return err
	})
	return fh, a, err
}

func (u *user) getattr(fh []byte) (a Attr, err error) {
	err = u.do(fh, func(v *View, n Node) (err error) { a, err = v.Getattr(n); return err })
	return a, err
}

func (u *user) create(dir []byte, name string, mode uint32) (fh []byte, a Attr, err error) {
	err = u.do(dir, func(v *View, n Node) error {
		e, _, err := v.Create(n, []byte(name), Guarded, [8]byte{}, &SetAttr{SetMode: true, Mode: mode})
		fh, a = append([]byte(nil), e.Handle.Bytes()...), e.Attr
		return err
	})
	return fh, a, err
}

func (u *user) mkdir(dir []byte, name string, mode uint32) (fh []byte, err error) {
	err = u.do(dir, func(v *View, n Node) error {
		e, _, err := v.Mkdir(n, []byte(name), &SetAttr{SetMode: true, Mode: mode})
		fh = append([]byte(nil), e.Handle.Bytes()...)
		return err
	})
	return fh, err
}

func (u *user) write(fh []byte, off uint64, data string) (w WriteResult, err error) {
	err = u.do(fh, func(v *View, n Node) error {
		w, err = v.Write(n, off, []byte(data), dataio.Unstable)
		return err
	})
	return w, err
}

func (u *user) read(fh []byte, off uint64, count uint32) (data string, eof bool, err error) {
	err = u.do(fh, func(v *View, n Node) error {
		r, err := v.Read(n, off, count)
		if err != nil {
			return err
		}
		if r.Data != nil {
			b := make([]byte, r.Data.Len())
			m, err := r.Data.ReadAll(b)
			r.Data.Release()
			if err != nil || m != r.N {
				panic(fmt.Sprintf("payload of %d: %d, %v", r.N, m, err))
			}
			data = string(b)
		}
		eof = r.EOF
		return nil
	})
	return data, eof, err
}

func (u *user) setattr(fh []byte, s SetAttr) (c Change, err error) {
	err = u.do(fh, func(v *View, n Node) error { c, err = v.Setattr(n, &s); return err })
	return c, err
}

func (u *user) remove(dir []byte, name string) error {
	return u.do(dir, func(v *View, n Node) error { _, err := v.Remove(n, []byte(name)); return err })
}

func (u *user) rename(from []byte, a string, to []byte, b string) (fc, tc Change, err error) {
	err = u.do(from, func(v *View, n Node) error {
		m, err := v.Node(to)
		if err != nil {
			return err
		}
		fc, tc, err = v.Rename(n, []byte(a), m, []byte(b))
		return err
	})
	return fc, tc, err
}

func (u *user) list(dir []byte, plus bool, perCall int) (names []string, err error) {
	q := ReaddirReq{Plus: plus, Want: perCall * 40}
	for calls := 0; ; calls++ {
		got := 0
		eof := false
		err := u.do(dir, func(v *View, n Node) error {
			r, err := v.Readdir(n, &q, func(d *DirEntry) bool {
				if got == perCall {
					return false
				}
				got++
				names = append(names, string(d.Name))
				q.Cookie = d.Cookie
				return true
			})
			eof = r.EOF
			return err
		})
		if err != nil || eof {
			return names, err
		}
		if got == 0 || calls > 1_000_000 {
			return names, fmt.Errorf("the listing does not end")
		}
	}
}

func want(t testing.TB, what string, got, wanted error) {
	t.Helper()
	if got != wanted {
		t.Errorf("%s: %v, want %v", what, got, wanted)
	}
}

func ok(t testing.TB, what string, err error) {
	t.Helper()
	if err != nil {
		t.Errorf("%s: %v", what, err)
		panic(what) // on() fails the test with it
	}
}

// export makes a directory with mode 0777 to export.
func exportDir(t testing.TB) string {
	t.Helper()
	d := t.TempDir()
	// TempDir's own parents are 0700: nothing of them is asked for, since handles start at d.
	if err := os.Chmod(d, 0o777); err != nil {
		t.Fatal(err)
	}
	return d
}

// mountFS mounts at dir until the end of the test.
func mountFS(t testing.TB, source, dir, fstype string, flags uintptr, data string) {
	t.Helper()
	needRoot(t)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount(source, dir, fstype, flags, data); err != nil {
		t.Fatalf("mount %s at %s: %v", fstype, dir, err)
	}
	t.Cleanup(func() { unix.Unmount(dir, unix.MNT_DETACH) })
}

// ext4Dir mounts a new ext4 that lies in memory, so that tests with many files don't depend on how busy the disk is.
func ext4Dir(t testing.TB, size int64) string {
	t.Helper()
	needRoot(t)
	needTool(t, "mkfs.ext4", "losetup")
	d := t.TempDir()
	image, at := filepath.Join(d, "tmpfs", "image"), filepath.Join(d, "mnt")
	mountFS(t, "tmpfs", filepath.Join(d, "tmpfs"), "tmpfs", 0, "")
	if err := os.WriteFile(image, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(image, size); err != nil {
		t.Fatal(err)
	}
	sh(t, "mkfs.ext4", "-q", "-N", "25000", "-E", "lazy_itable_init=0", image)
	mountFS(t, loopImage(t, image), at, "ext4", 0, "")
	if err := os.Chmod(at, 0o777); err != nil {
		t.Fatal(err)
	}
	return at
}

func exists(parts ...string) bool {
	_, err := os.Lstat(filepath.Join(parts...))
	return err == nil
}

func openFDs(t testing.TB) int {
	t.Helper()
	d, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(d)
}

func lockForGood() { runtime.LockOSThread() }

// newThread makes a second thread state on the calling, locked thread; of two such only one may run calls at a time.
func (b *bench) newThread() *Thread {
	th, err := b.ns.NewThread()
	if err != nil {
		panic(err)
	}
	return th
}

// restart replaces the namespace and the cache with new ones over the same exports, as a new process would have.
// Threads of the old one must not be used any more, but may be closed.
func (b *bench) restart() {
	set, cfg := b.ns.Set(), b.ns.cfg
	b.ns.Close()
	b.cache.Close()
	cfg.Exports = set
	b.cache = filecache.New(filecache.Config{Budget: 2000})
	cfg.Cache = b.cache
	eng, err := dataio.New(dataio.Config{Cache: b.cache})
	if err != nil {
		panic(err)
	}
	old := b.eng
	b.t.Cleanup(func() { old.Close() })
	b.eng, cfg.Engine = eng, eng
	if b.ns, err = New(cfg); err != nil {
		panic(err)
	}
}

func smallCache() *filecache.Cache { return filecache.New(filecache.Config{Budget: 16}) }

// remake makes a namespace anew with another configuration.
func (b *bench) remake(cfg Config) {
	var err error
	if b.eng, err = dataio.New(dataio.Config{Cache: cfg.Cache}); err != nil {
		b.t.Fatal(err)
	}
	cfg.Engine = b.eng
	if b.ns, err = New(cfg); err != nil {
		b.t.Fatal(err)
	}
}
