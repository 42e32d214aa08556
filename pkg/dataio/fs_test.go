// The file systems that the tests run on: the temporary directory's own (ext4
// here), XFS on loop devices in two shapes, and tmpfs.
//
// The whole test binary runs itself again in a mount namespace of its own, so
// that mounts and loop devices go with it, however it ends.

package dataio

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"sluice/pkg/filecache"
)

const nsEnv = "SLUICE_DATAIO_NAMESPACE"

func TestMain(m *testing.M) {
	if os.Getenv(drainEnv) != "" {
		drain()
	}
	if os.Geteuid() != 0 || os.Getenv(nsEnv) != "" {
		if os.Geteuid() == 0 {
			if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
				fmt.Fprintln(os.Stderr, "making mounts private:", err)
				os.Exit(1)
			}
		}
		code := m.Run()
		if mounts.root != "" {
			for _, d := range mounts.dirs {
				unix.Unmount(d, unix.MNT_DETACH)
			}
			os.RemoveAll(mounts.root)
		}
		os.Exit(code)
	}
	cmd := exec.Command("/proc/self/exe", os.Args[1:]...)
	cmd.Env = append(os.Environ(), nsEnv+"=1")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNS, Pdeathsig: unix.SIGKILL}
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(cmd.ProcessState.ExitCode())
}

// fileSystems are the names that dirOn takes.
var fileSystems = []string{"disk", "xfs512", "xfs4k", "tmpfs"}

var mounts struct {
	sync.Mutex
	root string
	dirs map[string]string
}

// dirOn returns an empty directory on the named file system.
func dirOn(t testing.TB, name string) string {
	t.Helper()
	if name == "disk" {
		return t.TempDir()
	}
	if os.Geteuid() != 0 {
		t.Skipf("%s: only root can mount it", name)
	}
	mounts.Lock()
	defer mounts.Unlock()
	if mounts.root == "" {
		var err error
		if mounts.root, err = os.MkdirTemp("", "dataio"); err != nil {
			t.Fatal(err)
		}
		mounts.dirs = make(map[string]string)
	}
	at := mounts.dirs[name]
	if at == "" {
		at = filepath.Join(mounts.root, name)
		if err := os.MkdirAll(at, 0o755); err != nil {
			t.Fatal(err)
		}
		switch name {
		case "tmpfs":
			if err := unix.Mount("tmpfs", at, "tmpfs", 0, "size=256m"); err != nil {
				t.Fatal(err)
			}
		case "xfs512":
			mountXFS(t, at, "512", "-b", "size=4096", "-s", "size=512", "-m", "reflink=1")
		case "xfs4k":
			mountXFS(t, at, "4096", "-b", "size=4096", "-s", "size=4096")
		default:
			t.Fatal("no file system called", name)
		}
		mounts.dirs[name] = at
	}
	dir, err := os.MkdirTemp(at, "t")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// mountXFS makes an XFS on a loop device with the given sector size.
func mountXFS(t testing.TB, at, sector string, mkfs ...string) {
	t.Helper()
	img := at + ".img"
	if err := os.WriteFile(img, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(img, 400<<20); err != nil {
		t.Fatal(err)
	}
	run(t, "mkfs.xfs", append(append([]string{"-q"}, mkfs...), img)...)
	// A device that was another file system's a moment ago may still write back
	// what that one left, in blocks of another size: then the next one is tried.
	for try := 1; ; try++ {
		dev := run(t, "losetup", "--find", "--show", "--sector-size", sector, img)
		err := unix.Mount(dev, at, "xfs", 0, "")
		exec.Command("losetup", "--detach", dev).Run() //nolint:errcheck // when mounted, it goes with the last use of it
		if err == nil {
			return
		}
		if try == 5 {
			t.Fatalf("mounting XFS from %s: %v", dev, err)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

func run(t testing.TB, name string, args ...string) string {
	t.Helper()
	if _, err := exec.LookPath(name); err != nil {
		t.Skipf("%s is not installed (packages xfsprogs, util-linux)", name)
	}
	out, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %v: %v\n%s", name, args, err, out)
	}
	s := string(out)
	for len(s) > 0 && s[len(s)-1] == '\n' {
		s = s[:len(s)-1]
	}
	return s
}

// rig is an engine with its cache and one thread.
type rig struct {
	*testing.T
	e     *Engine
	cache *filecache.Cache
	th    *Thread
}

// newRig makes one; at the end of the test nothing may be left in use.
func newRig(t *testing.T, cfg Config, cacheCfg filecache.Config) *rig {
	t.Helper()
	if cacheCfg.Budget == 0 {
		cacheCfg.Budget = 1000
	}
	cacheCfg.Trace = cfg.Trace
	cfg.Cache = filecache.New(cacheCfg)
	e, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{t, e, cfg.Cache, e.NewThread()}
	t.Cleanup(func() {
		r.th.Close()
		cfg.Cache.Close()
		if st := cfg.Cache.Stats(); st.Descriptors != 0 {
			t.Errorf("%d descriptors left open", st.Descriptors)
		}
		if err := e.Close(); err != nil {
			t.Error(err)
		}
		if st := e.Stats(); st.Pipes.Open != 0 || st.Buffers.Bytes != 0 || st.DirectBuffers.Bytes != 0 {
			t.Errorf("left: %+v", st)
		}
	})
	return r
}

// file pins path in the cache until the end of the test.
func (r *rig) file(path string) *filecache.File {
	r.Helper()
	h, _, err := unix.NameToHandleAt(unix.AT_FDCWD, path, 0)
	if err != nil {
		r.Fatal(err)
	}
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		r.Fatal(err)
	}
	k := filecache.Key{FS: st.Dev, Type: h.Type(), Len: uint8(h.Size())}
	copy(k.Bytes[:], h.Bytes())
	fd, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		r.Fatal(err)
	}
	f := r.cache.Insert(&k, fd, st.Mode)
	r.Cleanup(f.Release) // before the rig's own clean-up
	return f
}

// read serves q, on the service thread's terms first, and returns the bytes.
func (r *rig) read(q *ReadReq) ([]byte, ReadRes) {
	r.Helper()
	q.NoWait = true
	res, err := r.e.Read(r.th, q)
	if err == unix.EAGAIN {
		q.NoWait = false
		res, err = r.e.Read(r.th, q)
	}
	if err != nil {
		r.Fatalf("%s read of %d at %d: %v", q.Mode, q.Count, q.Offset, err)
	}
	return r.take(res), res
}

// take checks a result's payload and empties it.
func (r *rig) take(res ReadRes) []byte {
	r.Helper()
	if (res.Data == nil) != (res.N == 0) {
		r.Fatalf("%d bytes, payload %v", res.N, res.Data)
	}
	if res.Data == nil {
		return nil
	}
	if res.Data.Len() != res.N {
		r.Fatalf("payload of %d bytes, N is %d", res.Data.Len(), res.N)
	}
	got := make([]byte, res.N)
	if n, err := res.Data.ReadAll(got); n != res.N || err != nil {
		r.Fatalf("ReadAll gave %d of %d bytes: %v", n, res.N, err)
	}
	if res.Data.Len() != 0 {
		r.Fatal("bytes left after ReadAll")
	}
	res.Data.Release()
	return got
}

// cachedPages returns which pages of a file are in the page cache.
func cachedPages(t testing.TB, path string) []bool {
	t.Helper()
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		t.Fatal(err)
	}
	in := make([]bool, pages(0, st.Size))
	for i := range in {
		var cs unix.Cachestat_t
		if err := unix.Cachestat(uint(fd), &unix.CachestatRange{Off: uint64(i * pageSize), Len: uint64(pageSize)}, &cs, 0); err != nil {
			t.Fatal(err)
		}
		in[i] = cs.Cache == 1
	}
	return in
}

func count(in []bool) (n int) {
	for _, b := range in {
		if b {
			n++
		}
	}
	return n
}

// dropCache writes a file back and empties its page cache.
func dropCache(t testing.TB, path string) {
	t.Helper()
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	if err := unix.Fsync(fd); err != nil {
		t.Fatal(err)
	}
	for range 500 {
		if err := unix.Fadvise(fd, 0, 0, unix.FADV_DONTNEED); err != nil {
			t.Fatal(err)
		}
		if count(cachedPages(t, path)) == 0 {
			return
		}
		time.Sleep(5 * time.Millisecond) // somebody still looks at a page
	}
	t.Fatal("the page cache does not let go of", path)
}
