// The cache under many users at once, and with very few descriptors.

package filecache

import (
	"encoding/binary"
	"fmt"
	"math/rand"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"
)

func TestRacingUsers(t *testing.T) {
	dir := t.TempDir()
	c := newCache(t, Config{Budget: 24})
	const files = 60
	var paths [files]string
	var keys [files]*Key
	for i := range files {
		paths[i] = tempFile(t, dir, fmt.Sprint(i), fmt.Sprintf("content %d", i))
		keys[i] = keyOf(t, paths[i])
	}
	var wg sync.WaitGroup
	for g := range 6 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			r := rand.New(rand.NewSource(int64(g)))
			for range 1500 {
				i := r.Intn(files)
				f, ok := c.Get(keys[i])
				if !ok {
					fd, err := c.Room(true, func() (int, error) {
						return unix.Open(paths[i], unix.O_PATH|unix.O_CLOEXEC, 0)
					})
					if err != nil {
						t.Error(err)
						return
					}
					f = c.Insert(keys[i], fd, unix.S_IFREG)
				}
				fd, err := f.Open(Kind(r.Intn(2)), true)
				if err != nil {
					t.Error(err)
					f.Release()
					return
				}
				if got, want := readAll(t, fd), fmt.Sprintf("content %d", i); got != want {
					t.Errorf("descriptor of file %d reads %q", i, got)
				}
				switch r.Intn(20) {
				case 0:
					c.CloseData(keys[i])
				case 1:
					c.Forget(keys[i])
				case 2:
					f.MarkUnstable()
				case 3:
					f.Pin()
					f.Release()
				}
				f.Release()
			}
		}()
	}
	wg.Wait()
}

// TestFewDescriptors runs itself in a process that may hold 128 descriptors
// and has 11,000 files created and written through the cache.
func TestFewDescriptors(t *testing.T) {
	const env = "FILECACHE_FEW_DESCRIPTORS"
	if os.Getenv(env) == "" {
		cmd := exec.Command(os.Args[0], "-test.run=^TestFewDescriptors$", "-test.v")
		cmd.Env = append(os.Environ(), env+"=1")
		out, err := cmd.CombinedOutput()
		if err != nil || !strings.Contains(string(out), "--- PASS: TestFewDescriptors") {
			t.Fatalf("%v\n%s", err, out)
		}
		return
	}
	lim := unix.Rlimit{Cur: 128, Max: 128}
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &lim); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	c := newCache(t, Config{Budget: Budget(128)})
	// Somebody else uses up most of what the budget leaves.
	var others []int
	defer func() {
		for _, fd := range others {
			unix.Close(fd)
		}
	}()
	for range 40 {
		others = append(others, openPath(t, dir))
	}
	var next atomic.Int32
	var wg sync.WaitGroup
	for range 12 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for {
				i := int(next.Add(1))
				if i > 11000 {
					return
				}
				p := filepath.Join(dir, fmt.Sprint(i))
				tmp, err := c.Room(true, func() (int, error) {
					return unix.Open(p, unix.O_CREAT|unix.O_EXCL|unix.O_WRONLY|unix.O_CLOEXEC, 0o600)
				})
				if err != nil {
					t.Error("create:", err)
					return
				}
				unix.Close(tmp)
				k := &Key{FS: 1, Len: 8}
				binary.LittleEndian.PutUint64(k.Bytes[:], uint64(i))
				fd, err := c.Room(true, func() (int, error) { return unix.Open(p, unix.O_PATH|unix.O_CLOEXEC, 0) })
				if err != nil {
					t.Error("path:", err)
					return
				}
				f := c.Insert(k, fd, unix.S_IFREG)
				w, err := f.Writer()
				if err == nil {
					_, err = unix.Pwrite(w, []byte("x"), 0)
				}
				if err != nil {
					t.Error("write:", err)
				}
				f.Release()
			}
		}()
	}
	wg.Wait()
	st := c.Stats()
	if st.Evictions < 10000 || st.Exhausted != 0 {
		t.Errorf("%+v", st)
	}
}
