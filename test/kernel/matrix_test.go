// Plan of this file: each column, a file system by a version of NFS, exported by
// a server of its own and mounted by a guest of its own, goes through every read
// mode, and in every mode through every case. Cases that concern names and
// attributes run in every mode too, as a mode must not change them; only the
// slowest, 20,000 names, is spread over the modes: made in the first, listed in
// each, removed in the last.
//
// NFSv3 goes through all of it on all file systems, 4.2 on ext4 (with 1,000
// names). The other columns of NFSv4 share all but the version's or the file
// system's part with these, so they do a fifth of the work: a large file of 40 MB, 400 names, a
// fifth of the odd reads and of fsx's operations, the sources of one package
// (net/http) to copy, one restart of a kind; and only what reads data, large
// and sparse files, odd reads and fsx, is done in every mode, the rest once.

package kernel

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"sluice/test/fscheck"
	"sluice/test/testenv"
)

// A fileSystem is one that is exported.
type fileSystem struct {
	name  string
	dir   func(testing.TB) string
	big   int64 // size of the large file
	limit int64 // largest offset for sparse files
	files int   // names in the large directory
}

// A column of the matrix is a file system by a version.
type column struct {
	fileSystem
	version string // as MountVersion has it
	brief   bool   // do a fifth of the work
}

var fileSystems = []fileSystem{
	{"ext4", testenv.Disk, 1 << 30, 1 << 43, 20000},
	{"xfs512", func(t testing.TB) string { return testenv.XFS(t, 512) }, 200 << 20, 1 << 44, 2000},
	{"xfs4096", func(t testing.TB) string { return testenv.XFS(t, 4096) }, 200 << 20, 1 << 44, 2000},
	{"tmpfs", testenv.Tmpfs, 200 << 20, 1 << 44, 2000},
}

func columns() []column {
	var list []column
	for _, fs := range fileSystems {
		list = append(list, column{fs, "3", false})
	}
	ext4, xfs, tmpfs := fileSystems[0], fileSystems[2], fileSystems[3]
	full := ext4
	full.files = 1000 // an open and a close for each: 20,000 take minutes
	return append(list,
		column{full, "4.2", false},
		column{ext4, "", true},
		column{ext4, "4.1", true},
		column{ext4, "4.0", true},
		column{xfs, "4.2", true},
		column{tmpfs, "4.2", true},
	)
}

// title names the column's test.
func (c *column) title() string {
	switch c.version {
	case "3":
		return c.name
	case "":
		return c.name + "-newest"
	}
	return c.name + "-v" + c.version
}

// A station is a mounted export with all that its cases use.
type station struct {
	column
	server *testenv.Server
	guest  *Guest
	export string // the exported directory, on this machine
	mnt    string // where the guest sees it
}

func TestMatrix(t *testing.T) {
	for _, c := range columns() {
		t.Run(c.title(), func(t *testing.T) {
			t.Parallel()
			s := &station{column: c, export: c.dir(t), mnt: "/mnt/" + c.name}
			s.server = testenv.StartServer(t, testenv.ServerConfig{Exports: []testenv.Export{{Dir: s.export}}})
			s.guest = Boot(t)
			s.guest.MountVersion(t, s.server, s.version, s.export, s.mnt, "")
			s.once(t)
			modes := s.server.Modes()
			for i, mode := range modes {
				t.Run(mode, func(t *testing.T) { s.inMode(t, mode, i == 0, i == len(modes)-1) })
			}
		})
	}
}

// inMode runs all cases in one read mode.
func (s *station) inMode(t *testing.T, mode string, first, last bool) {
	if err := s.server.SetReadMode(mode); err != nil {
		t.Fatal(err)
	}
	inTurn(t, []testCase{
		{"large file", s.largeFile},
		{"random reads", func(t *testing.T) { s.randomReads(t, mode) }},
		{"fsx", s.fsx},
		{"sparse file", func(t *testing.T) { s.bothSides(t, "sparse", fmt.Sprint("limit=", s.limit)) }},
	})
	if s.brief {
		if !first {
			return
		}
		last = true // many names are removed again
	}
	inTurn(t, []testCase{
		{"tree", s.tree},
		{"open files", func(t *testing.T) { s.guest.Check(t, "openfiles", s.mnt) }},
		{"exclusive create", func(t *testing.T) { s.guest.Check(t, "exclusive", s.mnt) }},
		{"links", func(t *testing.T) { s.bothSides(t, "links") }},
		{"special files", func(t *testing.T) { s.bothSides(t, "nodes") }},
		{"times", func(t *testing.T) { s.bothSides(t, "times") }},
		{"permissions", s.permissions},
		{"restart", s.restart},
		{"many names", func(t *testing.T) { s.manyNames(t, first, last) }},
	})
}

type testCase struct {
	name string
	fn   func(*testing.T)
}

func inTurn(t *testing.T, cases []testCase) {
	for _, c := range cases {
		t.Run(c.name, c.fn)
	}
}

// tree copies a source tree with cp and compares the copy from both sides.
func (s *station) tree(t *testing.T) {
	src := os.Getenv(sourcesEnv)
	if s.brief {
		src += "/http"
	}
	s.guest.Sh(t, "rm -rf %[1]s/tree; cp -a %s %[1]s/tree", s.mnt, src)
	s.guest.DropCaches(t)
	s.guest.Check(t, "compare", s.mnt+"/tree", "src="+src)
	onHost(t, "compare", filepath.Join(s.export, "tree"), "src="+src)
}

// onHost runs a check on the exported directory itself.
func onHost(t *testing.T, name, dir string, options ...string) {
	t.Helper()
	m := map[string]string{}
	for _, o := range options {
		k, v, _ := strings.Cut(o, "=")
		m[k] = v
	}
	if err := fscheck.Run(name, dir, m, t.Output()); err != nil {
		t.Fatalf("on the exported directory: %v", err)
	}
}

// bothSides runs a check of two phases through the mount, then its second
// phase once more on fresh caches and on the exported directory.
func (s *station) bothSides(t *testing.T, name string, options ...string) {
	s.guest.Check(t, name, s.mnt, options...)
	s.guest.DropCaches(t)
	verify := append([]string{"phase=verify"}, options...)
	s.guest.Check(t, name, s.mnt, append(verify, "direct=1")...)
	onHost(t, name, s.export, verify...)
}

// largeFile writes a large file through the mount in the first mode and reads
// it in every mode, both through the client's cache and past it.
func (s *station) largeFile(t *testing.T) {
	size := fmt.Sprint("size=", s.big)
	if s.brief {
		size = "size=40000001"
	}
	name := filepath.Join(s.export, "bigfile")
	if _, err := os.Stat(name); err != nil {
		s.guest.Check(t, "bigfile", s.mnt, size, "phase=write")
	}
	s.guest.DropCaches(t)
	out := s.guest.Sh(t, "sha256sum %s/bigfile", s.mnt)
	sum, _, _ := strings.Cut(out, " ")
	if want := sha256File(t, name); sum != want {
		t.Fatalf("sha256 through the mount %s, on the exported directory %s", sum, want)
	}
	s.guest.Check(t, "bigfile", s.mnt, size, "phase=verify", "direct=1")
}

func sha256File(t *testing.T, name string) string {
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%x", h.Sum(nil))
}

// randomReads reads at odd places, from the server's page cache and from the
// disk, and sees in the server's counters that the mode was at work: they count
// a READ under the mode that served it, and as a fallback of those that did not.
func (s *station) randomReads(t *testing.T, mode string) {
	before := s.server.Stats(t)
	s.oddReads(t)
	after := s.server.Stats(t)
	if before == nil {
		return // not a server that counts
	}
	for i, m := range after.Read {
		calls, excess := m.Calls-before.Read[i].Calls, m.Excess-before.Read[i].Excess
		fallbacks := uint64(0)
		for _, f := range m.Fallbacks {
			fallbacks += f.Count
		}
		for _, f := range before.Read[i].Fallbacks {
			fallbacks -= f.Count
		}
		t.Logf("%s: %d READs, %d bytes in excess, %d fallbacks", m.Mode, calls, excess, fallbacks)
		served := mode
		if mode == "direct" && s.name == "tmpfs" {
			served = "dontcache" // there is no O_DIRECT on tmpfs; dropping behind has no effect but works
		}
		if (calls > 0) != (m.Mode == served) {
			t.Errorf("%d READs were served %s, want all %s", calls, m.Mode, served)
		}
		if m.Mode == mode && (fallbacks > 0) != (mode != "buffered" && s.name == "tmpfs") {
			t.Errorf("%d fallbacks of %s", fallbacks, mode)
		}
		if m.Mode == mode && (excess > 0) != (served == "direct") {
			t.Errorf("%s read %d bytes in excess", mode, excess)
		}
	}
}

func (s *station) oddReads(t *testing.T) {
	s.guest.Check(t, "randread", s.mnt, "phase=write")
	onHost(t, "randread", s.export, "phase=verify")
	s.guest.DropCaches(t)
	s.guest.Check(t, "randread", s.mnt, "phase=verify", "direct=1", s.count("reads", 800))
	s.guest.Check(t, "randread", s.mnt, "phase=verify", s.count("reads", 400), "seed=1")
	// Cold on the server as well: nothing is in its page cache.
	evict(t, filepath.Join(s.export, "randread1"))
	s.guest.Check(t, "randread", s.mnt, "phase=verify", "direct=1", s.count("reads", 200))
}

// evict drops a file from this machine's page cache.
func evict(t *testing.T, name string) {
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := errors.Join(f.Sync(), fscheck.Forget(f)); err != nil {
		t.Fatal(err)
	}
}

func (s *station) fsx(t *testing.T) {
	s.guest.Check(t, "fsx", s.mnt, "mmap=1", s.count("ops", 1000), "seed=1")
	s.guest.Check(t, "fsx", s.mnt, "direct=1", s.count("ops", 1500), "seed=2")
}

// count is an option of a check: how much it is to do.
func (c *column) count(key string, n int) string {
	if c.brief {
		n /= 5
	}
	return fmt.Sprintf("%s=%d", key, n)
}

// restart restarts the server below a load, by a crash and in good order; a
// hard mount must show nothing but a pause.
func (s *station) restart(t *testing.T) {
	seconds, times := "seconds=4", 2
	if s.brief {
		seconds, times = "seconds=2", 1
	}
	for _, c := range []struct {
		name  string
		names string
		end   func() error
	}{
		{"SIGKILL", "names=0", s.server.Kill},
		{"SIGTERM", "names=1", s.server.Stop},
	} {
		t.Run(c.name, func(t *testing.T) {
			done := make(chan error, 1)
			go func() { done <- s.guest.CheckAs(t, User{}, "load", s.mnt, seconds, c.names) }()
			for range times {
				pause(1000)
				if err := errors.Join(c.end(), s.server.Start()); err != nil {
					t.Error(err)
				}
			}
			if err := <-done; err != nil {
				t.Error(err)
			}
		})
	}
}

func (s *station) manyNames(t *testing.T, first, last bool) {
	files := fmt.Sprint("files=", s.files)
	if s.brief {
		files = "files=400"
	}
	if first {
		s.guest.Check(t, "many", s.mnt, files, "phase=create")
	}
	s.guest.DropCaches(t)
	s.guest.Check(t, "many", s.mnt, files, "phase=list") // READDIRPLUS
	onHost(t, "many", s.export, files, "phase=list")
	if first {
		plain := s.mnt + "-nordirplus"
		s.guest.MountVersion(t, s.server, s.version, s.export, plain, "nordirplus,nosharecache")
		s.guest.Check(t, "many", plain, files, "phase=list") // READDIR
	}
	if last {
		s.guest.Check(t, "many", s.mnt, files, "phase=remove")
		if _, err := os.Lstat(filepath.Join(s.export, "many")); !errors.Is(err, os.ErrNotExist) {
			t.Fatalf("the directory is still there: %v", err)
		}
	}
}

// once runs what has nothing to do with read modes.
func (s *station) once(t *testing.T) {
	t.Run("statfs", s.statfs)
}

// statfs compares the file system's figures from both sides.
func (s *station) statfs(t *testing.T) {
	// Total bytes, free bytes, file name limit.
	out := s.guest.Sh(t, "stat -f -c '%%S %%b %%f %%l %%c' %s", s.mnt)
	var bsize, blocks, free, namelen, files uint64
	if _, err := fmt.Sscan(out, &bsize, &blocks, &free, &namelen, &files); err != nil {
		t.Fatalf("stat -f: %q: %v", out, err)
	}
	var st syscall.Statfs_t
	if err := syscall.Statfs(s.export, &st); err != nil {
		t.Fatal(err)
	}
	const slack = 256 << 20 // others use the disk meanwhile
	// The client counts in blocks of its own, rounded up.
	bytes, wantBytes := bsize*blocks, uint64(st.Frsize)*st.Blocks
	if bytes < wantBytes || bytes >= wantBytes+bsize {
		t.Errorf("%d bytes in all, want %d", bytes, wantBytes)
	}
	got, want := int64(bsize*free), st.Frsize*int64(st.Bfree)
	if d := got - want; d < -slack || d > slack {
		t.Errorf("%d bytes free, want %d", got, want)
	}
	if namelen != 255 {
		t.Errorf("names of %d bytes, want 255", namelen)
	}
	if s.name == "ext4" && files != st.Files { // XFS and tmpfs make up the number
		t.Errorf("%d files in all, want %d", files, st.Files)
	}
}
