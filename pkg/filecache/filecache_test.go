// What the cache keeps, evicts, closes and counts.

package filecache

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"sluice/pkg/trace"
)

// keyOf makes a key from the kernel's own handle of path.
func keyOf(t testing.TB, path string) *Key {
	t.Helper()
	h, _, err := unix.NameToHandleAt(unix.AT_FDCWD, path, 0)
	if err != nil {
		t.Fatalf("name_to_handle_at %s: %v", path, err)
	}
	k := &Key{FS: 1, Type: h.Type(), Len: uint8(h.Size())}
	copy(k.Bytes[:], h.Bytes())
	return k
}

func openPath(t testing.TB, path string) int {
	t.Helper()
	fd, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0)
	if err != nil {
		t.Fatal(err)
	}
	return fd
}

// tempFile makes a file with data in a directory on disk.
func tempFile(t testing.TB, dir, name, data string) string {
	t.Helper()
	p := filepath.Join(dir, name)
	if err := os.WriteFile(p, []byte(data), 0o644); err != nil {
		t.Fatal(err)
	}
	return p
}

// newCache returns a cache that is checked at the end for descriptors and pins
// left behind.
func newCache(t testing.TB, cfg Config) *Cache {
	c := New(cfg)
	t.Cleanup(func() {
		c.Close()
		st := c.Stats()
		if st.Descriptors != 0 || st.Files != 0 {
			t.Errorf("left behind: %d descriptors, %d files", st.Descriptors, st.Files)
		}
		if st.Acquisitions != st.Releases {
			t.Errorf("%d acquisitions, %d releases", st.Acquisitions, st.Releases)
		}
	})
	return c
}

func insert(t testing.TB, c *Cache, path string) *File {
	t.Helper()
	return c.Insert(keyOf(t, path), openPath(t, path), unix.S_IFREG|0o644)
}

func readAll(t testing.TB, fd int) string {
	t.Helper()
	b := make([]byte, 100)
	n, err := unix.Pread(fd, b, 0)
	if err != nil {
		t.Fatal(err)
	}
	return string(b[:n])
}

func isOpen(fd int) bool {
	_, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0)
	return err == nil
}

func TestGetInsertOpen(t *testing.T) {
	dir := t.TempDir()
	c := newCache(t, Config{Budget: 100})
	p := tempFile(t, dir, "a", "hello")
	k := keyOf(t, p)
	if _, ok := c.Get(k); ok {
		t.Fatal("found in an empty cache")
	}
	f := insert(t, c, p)
	for _, kind := range []Kind{Read, Write, NoAhead} {
		if f.FD(kind) != -1 {
			t.Fatal("descriptor before Open")
		}
		fd, err := f.Open(kind, false)
		if err != nil {
			t.Fatal(kind, err)
		}
		if again, err := f.Open(kind, false); again != fd || err != nil {
			t.Fatal("second Open:", again, err)
		}
		if got := readAll(t, fd); got != "hello" {
			t.Fatalf("read %q", got)
		}
		flags, _ := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0)
		if flags&unix.FD_CLOEXEC == 0 {
			t.Error("descriptor is inherited by programs that are run")
		}
	}
	g, ok := c.Get(k)
	if !ok || g != f {
		t.Fatal("not found")
	}
	// A racing insert gives the newcomer's descriptor back.
	fd2 := openPath(t, p)
	if h := c.Insert(k, fd2, unix.S_IFREG); h != f {
		t.Fatal("second file for one key")
	}
	if isOpen(fd2) {
		t.Error("the newcomer's descriptor leaked")
	}
	f.Release()
	f.Release()
	f.Release()
	st := c.Stats()
	if st.Files != 1 || st.Descriptors != 4 || st.Hits != 1 || st.Misses != 1 || st.Acquisitions != 3 || st.Releases != 3 {
		t.Errorf("%+v", st)
	}
	defer func() {
		if recover() == nil {
			t.Error("Release of an unpinned file went unnoticed")
		}
	}()
	f.Release()
}

func TestOpenOnlyRegular(t *testing.T) {
	dir := t.TempDir()
	p := filepath.Join(dir, "fifo")
	if err := unix.Mkfifo(p, 0o600); err != nil {
		t.Fatal(err)
	}
	c := newCache(t, Config{Budget: 100})
	f := c.Insert(keyOf(t, p), openPath(t, p), unix.S_IFIFO|0o600)
	defer f.Release()
	if _, err := f.Reader(); err != unix.EINVAL {
		t.Fatalf("opened a FIFO: %v", err)
	}
}

func TestLRUOrderAndBudget(t *testing.T) {
	dir := t.TempDir()
	const budget = 20
	c := newCache(t, Config{Budget: budget})
	var keys []*Key
	for i := range 100 {
		p := tempFile(t, dir, fmt.Sprint(i), "x")
		k := keyOf(t, p)
		keys = append(keys, k)
		fd, err := c.Room(false, func() (int, error) { return openPath(t, p), nil })
		if err != nil {
			t.Fatal(err)
		}
		c.Insert(k, fd, unix.S_IFREG).Release()
		if f, ok := c.Get(keys[0]); ok { // kept warm
			f.Release()
		} else {
			t.Fatalf("the file used last was evicted (insert %d)", i)
		}
		if st := c.Stats(); st.Descriptors > budget {
			t.Fatalf("%d descriptors", st.Descriptors)
		}
	}
	for i := 100 - budget + 2; i < 100; i++ {
		f, ok := c.Get(keys[i])
		if !ok {
			t.Errorf("file %d of the newest is gone", i)
			continue
		}
		f.Release()
	}
	if st := c.Stats(); st.Evictions != 100-budget {
		t.Errorf("%+v", st)
	}
}

func TestPinnedAreNeverClosed(t *testing.T) {
	dir := t.TempDir()
	c := newCache(t, Config{Budget: minBudget})
	var held []*File
	for i := range minBudget {
		held = append(held, insert(t, c, tempFile(t, dir, fmt.Sprint(i), fmt.Sprint(i))))
	}
	opened := false
	open := func() (int, error) { opened = true; return -1, errors.New("opened") }
	if _, err := c.Room(false, open); err != unix.EAGAIN || opened {
		t.Fatalf("room among pinned files: %v", err)
	}
	start := time.Now()
	if _, err := c.Room(true, open); err != unix.EMFILE || opened {
		t.Fatalf("room among pinned files: %v", err)
	}
	if time.Since(start) < maxWait/2 || c.Stats().Exhausted != 1 {
		t.Error("did not wait, or did not count")
	}
	// One released while somebody waits makes room.
	go func() {
		time.Sleep(20 * time.Millisecond)
		held[0].Release()
	}()
	if _, err := c.Room(true, open); !opened {
		t.Fatalf("no room after a release: %v", err)
	}
	for i, f := range held[1:] {
		c.evict()
		fd := f.PathFD()
		var st unix.Stat_t
		if err := unix.Fstat(fd, &st); err != nil || st.Size != int64(len(fmt.Sprint(i+1))) {
			t.Errorf("file %d: %v", i+1, err)
		}
		f.Release()
	}
}

func TestCloseDataAndForget(t *testing.T) {
	dir := t.TempDir()
	c := newCache(t, Config{Budget: 100})
	p := tempFile(t, dir, "a", "hello")
	k := keyOf(t, p)
	f := insert(t, c, p)
	fd, err := f.Reader()
	if err != nil {
		t.Fatal(err)
	}
	c.CloseData(k) // pinned: not yet
	if got := readAll(t, fd); got != "hello" {
		t.Fatal(got)
	}
	f.Release()
	if isOpen(fd) {
		t.Error("open after the last release")
	}
	f, _ = c.Get(k)
	if fd, err = f.Reader(); err != nil {
		t.Fatal("reopen:", err)
	}
	f.Release()
	c.CloseData(k) // idle: now
	if isOpen(fd) {
		t.Error("open after CloseData of an idle file")
	}
	f, _ = c.Get(k)
	if err := os.Remove(p); err != nil {
		t.Fatal(err)
	}
	c.Forget(k)
	c.Forget(k)
	c.CloseData(k)
	if _, ok := c.Get(k); ok {
		t.Error("found after Forget")
	}
	path := f.PathFD()
	if !isOpen(path) {
		t.Error("closed while pinned")
	}
	f.Release()
	if isOpen(path) {
		t.Error("open after the last release")
	}
	c.Forget(k)
}

// TestSweep: what is idle closes in time, what is in use or unstable does not.
func TestSweep(t *testing.T) {
	dir := t.TempDir()
	c := newCache(t, Config{Budget: 100})
	open := func(name string) *File {
		f := insert(t, c, tempFile(t, dir, name, "x"))
		if _, err := f.Writer(); err != nil {
			t.Fatal(err)
		}
		return f
	}
	idle, used, dirty := open("idle"), open("used"), open("dirty")
	dirty.MarkUnstable()
	dirty.Release()
	idle.Release()
	path := idle.PathFD()
	now := c.tick.Load()
	sweepTo := func(tick uint64) {
		for c.tick.Load() < now+tick {
			c.sweep()
		}
	}
	sweepTo(sweepData)
	if idle.FD(Write) < 0 {
		t.Error("closed too early")
	}
	sweepTo(sweepData + 1)
	if idle.FD(Write) >= 0 || !isOpen(path) {
		t.Error("data descriptor still open, or path descriptor closed")
	}
	sweepTo(sweepFile + 1)
	if _, ok := c.Get(&idle.Key); ok || isOpen(path) {
		t.Error("still cached after half a minute")
	}
	if used.FD(Write) < 0 || dirty.FD(Write) < 0 {
		t.Error("a descriptor in use, or of unstable data, was closed")
	}
	used.Release()
	if st := c.Stats(); st.Files != 2 || st.Descriptors != 4 {
		t.Errorf("%+v", st)
	}
}

// TestRemovedLocally: the space of a file that somebody removed under the
// server comes free.
func TestRemovedLocally(t *testing.T) {
	c := newCache(t, Config{Budget: 100})
	p := tempFile(t, t.TempDir(), "a", "x")
	f := insert(t, c, p)
	if _, err := f.Reader(); err != nil {
		t.Fatal(err)
	}
	k := f.Key
	f.Release()
	if err := os.Remove(p); err != nil {
		t.Fatal(err)
	}
	for range sweepFile + 1 {
		c.sweep()
	}
	if _, ok := c.Get(&k); ok || c.Stats().Descriptors != 0 {
		t.Error("still held")
	}
}

func TestPurge(t *testing.T) {
	dir := t.TempDir()
	c := newCache(t, Config{Budget: 100})
	var held *File
	for i := range 10 {
		p := tempFile(t, dir, fmt.Sprint(i), "x")
		k := keyOf(t, p)
		k.FS = uint64(1 + i%2)
		f := c.Insert(k, openPath(t, p), unix.S_IFREG)
		if i == 1 {
			held = f
		} else {
			f.Release()
		}
	}
	c.Purge(2)
	if st := c.Stats(); st.Files != 5 || st.Descriptors != 6 {
		t.Errorf("%+v", st)
	}
	held.Release()
	if st := c.Stats(); st.Files != 5 || st.Descriptors != 5 {
		t.Errorf("%+v", st)
	}
}

func TestUnstableIsSyncedBeforeEviction(t *testing.T) {
	dir := t.TempDir()
	c := newCache(t, Config{Budget: minBudget})
	f := insert(t, c, tempFile(t, dir, "dirty", "x"))
	fd, err := f.Writer()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := unix.Pwrite(fd, []byte("new"), 0); err != nil {
		t.Fatal(err)
	}
	f.MarkUnstable()
	f.Release()
	// Alone and unstable: eviction passes it over, a caller that may sleep syncs it.
	c.cleans <- struct{}{} // no background syncs
	c.cleans <- struct{}{}
	c.cleans <- struct{}{}
	c.cleans <- struct{}{}
	if c.evict() {
		t.Fatal("evicted a file with unstable writes")
	}
	if !c.cleanOldest() || f.Unstable() {
		t.Fatal("not synced")
	}
	if !c.evict() {
		t.Fatal("not evicted after the sync")
	}
	for range 4 {
		<-c.cleans
	}

	// Under pressure they are synced in the background and go.
	for i := range 200 {
		p := tempFile(t, dir, fmt.Sprint(i), "x")
		pfd, err := c.Room(true, func() (int, error) { return openPath(t, p), nil })
		if err != nil {
			t.Fatal(err)
		}
		f := c.Insert(keyOf(t, p), pfd, unix.S_IFREG)
		if _, err := f.Writer(); err != nil {
			t.Fatal(err)
		}
		if i%4 == 0 {
			f.MarkUnstable()
		}
		f.Release()
	}
}

func TestBudget(t *testing.T) {
	for _, tc := range []struct {
		limit uint64
		want  int
	}{{0, 16}, {64, 16}, {128, 48}, {256, 128}, {1024, 512}, {20000, 10000}, {1 << 20, 65536}, {^uint64(0), 65536}} {
		if got := Budget(tc.limit); got != tc.want {
			t.Errorf("Budget(%d) = %d, want %d", tc.limit, got, tc.want)
		}
	}
}

func TestTraceOpenClose(t *testing.T) {
	bus := new(trace.Bus)
	sub := bus.Subscribe(10)
	defer sub.Close()
	c := newCache(t, Config{Budget: 100, Trace: bus})
	f := insert(t, c, tempFile(t, t.TempDir(), "a", "hello"))
	if _, err := f.Reader(); err != nil {
		t.Fatal(err)
	}
	a := f.Align()
	f.Release()
	c.Forget(&f.Key)
	e, _ := sub.Next(t.Context())
	if e.Name != trace.FileOpen || e.Align.Offset != a.Offset || e.File == "" {
		t.Errorf("%+v", e)
	}
	if e, _ = sub.Next(t.Context()); e.Name != trace.FileClose || e.File == "" {
		t.Errorf("%+v", e)
	}
}

func TestGrants(t *testing.T) {
	var g Grants
	s := Stamp{Mode: 0o644, UID: 1, CtimeSec: 5}
	who := func(i int) Caller { return Caller{UID: uint32(i), GID: 7, Groups: 9} }
	if g.Has(who(0), &s, MayRead) {
		t.Error("granted by default")
	}
	g.Add(who(0), &s, MayRead)
	if !g.Has(who(0), &s, MayRead) || g.Has(who(0), &s, MayRead|MayWrite) || g.Has(who(1), &s, MayRead) || g.Has(who(0), &s, 0) {
		t.Error("one grant")
	}
	g.Add(who(0), &s, MayWrite)
	if !g.Has(who(0), &s, MayRead|MayWrite) {
		t.Error("grants do not add up")
	}
	for i := 1; i < 5; i++ {
		g.Add(who(i), &s, MayRead)
	}
	if g.Has(who(0), &s, MayRead) || !g.Has(who(1), &s, MayRead) || !g.Has(who(4), &s, MayRead) {
		t.Error("the oldest of five should have gone")
	}
	for _, later := range []Stamp{{0o600, 1, 0, 5, 0}, {0o644, 2, 0, 5, 0}, {0o644, 1, 0, 5, 1}, {0o644, 1, 3, 5, 0}} {
		if g.Has(who(4), &later, MayRead) {
			t.Errorf("holds although the attributes are now %+v", later)
		}
	}
	g.Add(who(9), &Stamp{}, MayRead)
	if g.Has(who(4), &s, MayRead) || g.Has(who(4), &Stamp{}, MayRead) {
		t.Error("survived a new stamp")
	}
}

func TestHotGetDoesNotAllocate(t *testing.T) {
	c := newCache(t, Config{Budget: 100})
	p := tempFile(t, t.TempDir(), "a", "x")
	k := keyOf(t, p)
	f := insert(t, c, p)
	if _, err := f.Reader(); err != nil {
		t.Fatal(err)
	}
	f.Release()
	if n := testing.AllocsPerRun(1000, func() {
		f, _ := c.Get(k)
		if fd, err := f.Reader(); fd < 0 || err != nil {
			t.Fatal(err)
		}
		f.Release()
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkGetRelease(b *testing.B) {
	c := newCache(b, Config{Budget: 2000})
	var keys [1024]Key
	for i := range keys {
		k := &keys[i]
		*k = Key{FS: 1, Type: 1, Len: 8}
		binary.LittleEndian.PutUint32(k.Bytes[:], uint32(i+12))
		binary.LittleEndian.PutUint32(k.Bytes[4:], uint32(i)*77)
		c.Insert(k, openPath(b, "/"), unix.S_IFDIR).Release()
	}
	b.ReportAllocs()
	b.Run("one", func(b *testing.B) {
		for i := 0; b.Loop(); i++ {
			f, _ := c.Get(&keys[i&1023])
			f.Release()
		}
	})
	b.Run("parallel", func(b *testing.B) {
		b.RunParallel(func(pb *testing.PB) {
			for i := 0; pb.Next(); i++ {
				f, _ := c.Get(&keys[i&1023])
				f.Release()
			}
		})
	})
	b.Run("parallel_one_file", func(b *testing.B) {
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				f, _ := c.Get(&keys[0])
				f.Release()
			}
		})
	})
}
