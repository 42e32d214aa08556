// Client records on disk.

package state

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sort"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"sluice/test/testenv"
)

func openDir(t *testing.T, dir string) *DirRecovery {
	t.Helper()
	d, err := OpenDir(dir, t.Logf)
	ok(t, "OpenDir", err)
	t.Cleanup(func() { d.Close() })
	return d
}

func load(t *testing.T, d *DirRecovery) (names []string, boot uint32) {
	t.Helper()
	recs, boot, err := d.Load()
	ok(t, "Load", err)
	for _, r := range recs {
		names = append(names, fmt.Sprintf("%s/%d", r.Owner, r.Minor))
	}
	sort.Strings(names)
	return names, boot
}

func expectNames(t *testing.T, got []string, want string) {
	t.Helper()
	if s := strings.Join(got, " "); s != want {
		t.Fatalf("records %q, want %q", s, want)
	}
}

func TestDirRecovery(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "made", "here")
	d := openDir(t, dir)
	names, boot := load(t, d)
	expectNames(t, names, "")
	for _, r := range []RecoveryRecord{{[]byte("a"), 1}, {[]byte("b\x00/../\xff"), 0}, {make([]byte, MaxOwner), 1}} {
		ok(t, "Record", d.Record(r))
	}
	ok(t, "Record again", d.Record(RecoveryRecord{[]byte("a"), 1}))
	ok(t, "Remove", d.Remove([][]byte{make([]byte, MaxOwner), []byte("not there")}))
	ok(t, "Remove of nobody", d.Remove([][]byte{[]byte("nobody")}))
	ok(t, "Close", d.Close())

	d = openDir(t, dir)
	names, boot2 := load(t, d)
	expectNames(t, names, "a/1 b\x00/../\xff/0")
	if boot == boot2 || boot < minBoot {
		t.Fatal("boot ids")
	}
	// a comes back; then a crash in grace: both may still claim.
	ok(t, "Record", d.Record(RecoveryRecord{[]byte("a"), 1}))
	ok(t, "Close", d.Close())
	d = openDir(t, dir)
	names, _ = load(t, d)
	expectNames(t, names, "a/1 b\x00/../\xff/0")
	// Only a comes back, and grace ends.
	ok(t, "Record", d.Record(RecoveryRecord{[]byte("a"), 1}))
	ok(t, "GraceDone", d.GraceDone())
	ok(t, "Close", d.Close())
	d = openDir(t, dir)
	names, _ = load(t, d)
	expectNames(t, names, "a/1")
}

// TestDirLock: two servers on one directory.
func TestDirLock(t *testing.T) {
	dir := t.TempDir()
	d := openDir(t, dir)
	_, err := OpenDir(dir, nil)
	if err == nil || !strings.Contains(err.Error(), "another server") || !strings.Contains(err.Error(), dir) {
		t.Fatalf("second server: %v", err)
	}
	ok(t, "Close", d.Close())
	d2, err := OpenDir(dir, nil)
	ok(t, "after the first is gone", err)
	d2.Close()
}

// TestDirTorn cuts and flips a record at every byte: it is never trusted, and never in the way of others.
func TestDirTorn(t *testing.T) {
	dir := t.TempDir()
	d := openDir(t, dir)
	load(t, d)
	ok(t, "Record", d.Record(RecoveryRecord{[]byte("good"), 1}))
	ok(t, "Record", d.Record(RecoveryRecord{[]byte("bad"), 1}))
	path := filepath.Join(dir, fileName([]byte("bad")))
	whole, err := os.ReadFile(path)
	ok(t, "read", err)
	spoil := func(what string, b []byte) {
		ok(t, "write", os.WriteFile(path, b, 0o600))
		names, _ := load(t, d)
		if got := strings.Join(names, " "); got != "good/1" {
			t.Fatalf("%s: %q", what, got)
		}
		if _, err := os.Stat(path + ".damaged"); err != nil {
			t.Fatalf("%s: not set aside: %v", what, err)
		}
	}
	for i := range whole {
		spoil(fmt.Sprintf("cut at %d", i), whole[:i])
		b := append([]byte(nil), whole...)
		b[i] ^= 0x10
		spoil(fmt.Sprintf("flipped at %d", i), b)
	}
	spoil("longer", append(whole[:len(whole):len(whole)], 0))
	spoil("huge", make([]byte, 1<<20))
	other, err := os.ReadFile(filepath.Join(dir, fileName([]byte("good"))))
	ok(t, "read", err)
	spoil("somebody else's", other)
	// What is no file is not waited for, nor followed.
	for what, make := range map[string]func() error{
		"a pipe": func() error { return unix.Mkfifo(path, 0o600) }, "a link": func() error { return os.Symlink(fileName([]byte("good")), path) },
		"a directory": func() error { return os.Mkdir(path, 0o700) },
	} {
		ok(t, "remove", os.RemoveAll(path+".damaged"))
		ok(t, what, make())
		names, _ := load(t, d)
		if got := strings.Join(names, " "); got != "good/1" {
			t.Fatalf("%s: %q", what, got)
		}
		if _, err := os.Lstat(path + ".damaged"); err != nil {
			t.Fatalf("%s: not set aside: %v", what, err)
		}
	}
	// The epoch file too, without losing anybody; leftovers of a write go.
	ok(t, "write", os.WriteFile(filepath.Join(dir, "epoch"), []byte("junk"), 0o600))
	ok(t, "write", os.WriteFile(filepath.Join(dir, "tmp-123"), []byte("junk"), 0o600))
	names, _ := load(t, d)
	expectNames(t, names, "good/1")
	if _, err := os.Stat(filepath.Join(dir, "tmp-123")); !errors.Is(err, os.ErrNotExist) {
		t.Fatal("leftover kept")
	}
	// Its epoch still grows: good must come back, or go with the end of grace.
	ok(t, "GraceDone", d.GraceDone())
	names, _ = load(t, d)
	expectNames(t, names, "")
}

// TestDirNewer: what a newer version wrote is not touched, and the message says what to do.
func TestDirNewer(t *testing.T) {
	for _, name := range []string{"epoch", fileName([]byte("c"))} {
		dir := t.TempDir()
		d := openDir(t, dir)
		load(t, d)
		ok(t, "Record", d.Record(RecoveryRecord{[]byte("c"), 1}))
		path := filepath.Join(dir, name)
		b, err := os.ReadFile(path)
		ok(t, "read", err)
		binary.BigEndian.PutUint32(b[8:], recordVersion+1)
		binary.BigEndian.PutUint32(b[len(b)-4:], crc32.Checksum(b[:len(b)-4], castagnoli))
		ok(t, "write", os.WriteFile(path, b, 0o600))
		_, _, err = d.Load()
		if err == nil || !errors.Is(err, errNewer) || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), "another state directory") {
			t.Fatalf("%s: %v", name, err)
		}
		if after, _ := os.ReadFile(path); string(after) != string(b) {
			t.Fatal("touched")
		}
		_, err = New(Config{Recovery: d})
		if !errors.Is(err, errNewer) {
			t.Fatalf("New: %v", err)
		}
	}
}

// TestKill9 kills a process that records and removes without end, again and again: what it said it had done is so.
func TestKill9(t *testing.T) {
	if out := os.Getenv("STATE_TEST_KILL9"); out != "" {
		d, err := OpenDir(out, nil)
		if err != nil {
			fmt.Println("error", err)
			os.Exit(1)
		}
		if _, _, err := d.Load(); err != nil {
			fmt.Println("error", err)
			os.Exit(1)
		}
		for i := 0; ; i++ {
			if err := d.Record(RecoveryRecord{fmt.Appendf(nil, "client %d", i), 1}); err != nil {
				fmt.Println("error", err)
			}
			fmt.Println("recorded", i)
			if i%3 == 2 {
				if err := d.Remove([][]byte{fmt.Appendf(nil, "client %d", i-1)}); err != nil {
					fmt.Println("error", err)
				}
				fmt.Println("removed", i-1)
			}
		}
	}
	dir := t.TempDir() // not in the child, which can't clean up
	for range 3 {
		cmd := exec.Command(os.Args[0], "-test.run=^TestKill9$")
		cmd.Env = append(os.Environ(), "STATE_TEST_KILL9="+dir)
		pipe, err := cmd.StdoutPipe()
		ok(t, "pipe", err)
		ok(t, "start", cmd.Start())
		known := map[string]bool{}
		leaving := "" // may be gone already, though that was not said yet
		buf := make([]byte, 0, 1<<16)
		b := make([]byte, 4096)
		for len(buf) < 1500 {
			n, err := pipe.Read(b)
			buf = append(buf, b[:n]...)
			if err != nil {
				break
			}
		}
		cmd.Process.Kill()
		for {
			n, err := pipe.Read(b)
			buf = append(buf, b[:n]...)
			if err != nil {
				break
			}
		}
		cmd.Wait()
		lines := strings.Split(string(buf), "\n")
		for _, l := range lines[:len(lines)-1] {
			var what string
			var i int
			fmt.Sscan(l, &what, &i)
			switch what {
			case "recorded":
				known[fmt.Sprintf("client %d/1", i)] = true
				if leaving = ""; i%3 == 2 {
					leaving = fmt.Sprintf("client %d/1", i-1)
				}
			case "removed":
				delete(known, fmt.Sprintf("client %d/1", i))
			default:
				t.Fatalf("child said %q", l)
			}
		}
		if len(known) < 20 {
			t.Fatalf("the child got no further than %d records", len(known))
		}
		d, err := OpenDir(dir, func(f string, a ...any) { t.Errorf(f, a...) })
		ok(t, "OpenDir after the kill", err)
		names, _ := load(t, d)
		there := map[string]bool{}
		for _, n := range names {
			there[n] = true
		}
		for n := range known {
			if !there[n] && n != leaving {
				t.Fatalf("%s was recorded and is lost", n)
			}
			delete(there, n)
		}
		if len(there) > 1 { // one more may be on its way in, or out
			t.Fatalf("too many: %v", there)
		}
		for _, n := range names {
			ok(t, "Remove", d.Remove([][]byte{[]byte(strings.TrimSuffix(n, "/1"))}))
		}
		d.Close()
	}
}

// TestStateOnDisk takes a State through a restart on a real directory.
func TestStateOnDisk(t *testing.T) {
	dir := t.TempDir()
	w := newWorld(t, func(c *Config) { c.Recovery = openDir(t, dir) })
	c := w.ready41("c")
	_, err := c.open("o", fkey(1), ShareBoth, 0)
	ok(t, "OPEN", err)
	w.check()
	ok(t, "Close", w.s.Close())
	w2 := newWorld(t, func(c *Config) { c.Recovery = openDir(t, dir) })
	if !w2.s.InGrace() || w2.s.Boot() == w.s.Boot() {
		t.Fatal("no grace, or the same boot id")
	}
	c = w2.client41("c")
	_, err = c.open("o", fkey(1), ShareBoth, 0, reclaim)
	ok(t, "reclaim", err)
	ok(t, "RECLAIM_COMPLETE", c.do(func(call *Call) error { return w2.s.ReclaimComplete(call, false) }))
	w2.settle()
	if w2.s.InGrace() {
		t.Fatal("grace goes on")
	}
}

func FuzzRecord(f *testing.F) {
	dir := f.TempDir()
	d, err := OpenDir(dir, nil)
	if err != nil {
		f.Fatal(err)
	}
	defer d.Close()
	if err := d.Record(RecoveryRecord{[]byte("seed"), 1}); err != nil {
		f.Fatal(err)
	}
	b, _ := os.ReadFile(filepath.Join(dir, fileName([]byte("seed"))))
	f.Add(b)
	f.Add(b[:20])
	f.Fuzz(func(t *testing.T, b []byte) {
		if n := len(b) - 4; n > 0 { // a right checksum, so that what is inside gets looked at
			binary.BigEndian.PutUint32(b[n:], crc32.Checksum(b[:n], castagnoli))
		}
		if err := os.WriteFile(filepath.Join(dir, "x"), b, 0o600); err != nil {
			t.Fatal(err)
		}
		if r, _, err := d.read("x"); err == nil && len(r.Owner) > MaxOwner {
			t.Fatal("an owner that is too long")
		}
	})
}

// Whoever the call comes from, records are the server's: threads that serve calls have a caller's credentials.
func TestRecoveryUnderCallersCredentials(t *testing.T) {
	if os.Geteuid() != 0 {
		testenv.Skip(t, "not root: no other credentials to take on")
	}
	d := openDir(t, t.TempDir()+"/clients")
	_, _, err := d.Load()
	ok(t, "Load", err)
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // for good: the thread ends with the goroutine
		if err := unix.Setfsuid(65534); err != nil {
			done <- err
			return
		}
		done <- errors.Join(d.Record(RecoveryRecord{Owner: []byte("a")}), d.Record(RecoveryRecord{Owner: []byte("b")}),
			d.Remove([][]byte{[]byte("a")}), d.GraceDone())
	}()
	if err := <-done; err != nil {
		t.Error(err)
	}
}
