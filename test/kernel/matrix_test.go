// Plan of this file: each column, a file system by a version of NFS, exported by
// a server of its own and mounted by a guest of its own, goes through every mode
// of READ and WRITE, and in every mode through its cases:
//
//	column                 cases of data   cases of names   large file  names   share
//	ext4: 3, 4.2           every mode      every mode       1 GiB       20,000  all
//	ext4: 4.1, 4.0, none   every mode      every mode       40 MB       1,000   a fifth
//	xfs4096, tmpfs: 3      every mode      each in a mode   100 MB      2,000   all
//	xfs4096, tmpfs: 4.2    every mode      each in a mode   40 MB       400     a fifth
//	xfs512: 3              every mode      none             100 MB      -       all
//	xfs512: 4.2            every mode      none             40 MB       -       a fifth
//
// Cases of data are those that read: large and sparse files, odd reads, fsx, and
// what 4.2 alone has. Cases of names are all others. On ext4 each runs by
// every version in every mode, though no mode should matter to it. What a file
// system may change about them is seen with each once, the modes taking turns;
// and XFS with sectors of 512 bytes is the one with 4096 but for alignment, so
// that only data is read there. The share is that of odd reads, of fsx's
// operations, of the source tree and of restarts.

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
	limit int64 // largest offset for sparse files
	clone bool  // it has reflinks
}

var (
	ext4    = fileSystem{"ext4", testenv.Disk, 1 << 43, false}
	xfs512  = fileSystem{"xfs512", func(t testing.TB) string { return testenv.XFS(t, 512) }, 1 << 44, true}
	xfs4096 = fileSystem{"xfs4096", func(t testing.TB) string { return testenv.XFS(t, 4096) }, 1 << 44, true}
	tmpfs   = fileSystem{"tmpfs", testenv.Tmpfs, 1 << 44, false}
)

// A column of the matrix is a file system by a version.
type column struct {
	fileSystem
	version string // as MountVersion has it
	names   names
	brief   bool  // do a fifth of the work
	big     int64 // size of the large file
	files   int   // names in the large directory
}

// names says in which modes the cases of names run.
type names int

const (
	never names = iota
	once        // each in one, by turns
	always
)

// columns begins with those that take longest.
func columns() []column {
	const whole, brief = false, true
	return []column{
		{ext4, "3", always, whole, 1 << 30, 20000},
		{ext4, "4.2", always, whole, 1 << 30, 20000},
		{ext4, "4.0", always, brief, 40000001, 1000},
		{ext4, "4.1", always, brief, 40000001, 1000},
		{ext4, "", always, brief, 40000001, 1000},
		{xfs4096, "3", once, whole, 100 << 20, 2000},
		{tmpfs, "3", once, whole, 100 << 20, 2000},
		{xfs512, "3", never, whole, 100 << 20, 0},
		{xfs4096, "4.2", once, brief, 40000001, 400},
		{tmpfs, "4.2", once, brief, 40000001, 400},
		{xfs512, "4.2", never, brief, 40000001, 0},
	}
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
	sum    string // of the large file
}

func TestMatrix(t *testing.T) {
	t.Parallel()
	for _, c := range columns() {
		t.Run(c.title(), func(t *testing.T) {
			t.Parallel()
			s := &station{column: c, export: c.dir(t), mnt: "/mnt/" + c.name}
			s.server = testenv.StartServer(t, testenv.ServerConfig{Exports: []testenv.Export{{Dir: s.export}}})
			s.guest = Boot(t)
			s.guest.MountVersion(t, s.server, s.version, s.export, s.mnt, "")
			t.Run("statfs", s.statfs)
			modes := s.server.Modes()
			for i, mode := range modes {
				t.Run(mode, func(t *testing.T) { s.inMode(t, mode, i, len(modes)) })
			}
		})
	}
}

// inMode runs all cases in one mode of READ and WRITE, the i-th of n.
func (s *station) inMode(t *testing.T, mode string, i, n int) {
	if err := s.server.SetMode(mode); err != nil {
		t.Fatal(err)
	}
	inTurn(t, []testCase{
		{"large file", s.largeFile},
		{"random reads", func(t *testing.T) { s.randomReads(t, mode) }},
		{"fsx", func(t *testing.T) { s.fsx(t, mode) }},
		{"sparse file", func(t *testing.T) { s.bothSides(t, "sparse", fmt.Sprint("limit=", s.limit)) }},
	})
	if s.version == newest || s.version == "" {
		t.Run("4.2", s.only42)
	}
	first, last := i == 0 || s.names == once, i == n-1 || s.names == once
	for j, c := range []testCase{
		{"tree", s.tree},
		{"open files", func(t *testing.T) { s.guest.Check(t, "openfiles", s.mnt) }},
		{"exclusive create", func(t *testing.T) { s.guest.Check(t, "exclusive", s.mnt) }},
		{"links", func(t *testing.T) { s.bothSides(t, "links") }},
		{"special files", func(t *testing.T) { s.bothSides(t, "nodes") }},
		{"times", func(t *testing.T) { s.bothSides(t, "times") }},
		{"permissions", s.permissions},
		{"restart", s.restart},
		{"many names", func(t *testing.T) { s.manyNames(t, first, last) }},
	} {
		if s.names == always || s.names == once && j%n == i {
			t.Run(c.name, c.fn)
		}
	}
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
	if s.sum == "" {
		s.guest.Check(t, "bigfile", s.mnt, size, "phase=write")
		s.sum = sha256File(t, filepath.Join(s.export, "bigfile"))
	}
	s.guest.DropCaches(t)
	out := s.guest.Sh(t, "sha256sum %s/bigfile", s.mnt)
	if sum, _, _ := strings.Cut(out, " "); sum != s.sum {
		t.Fatalf("sha256 through the mount %s, on the exported directory %s", sum, s.sum)
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

// fsx compares a file with its model after each of many operations, and sees in
// the server's counters that WRITEs were served in the mode.
func (s *station) fsx(t *testing.T, mode string) {
	before := s.server.Stats(t)
	s.guest.Check(t, "fsx", s.mnt, "mmap=1", s.count("ops", 1000), "seed=1")
	s.guest.Check(t, "fsx", s.mnt, "direct=1", s.count("ops", 1500), "seed=2")
	if before == nil || s.name == "tmpfs" {
		return // not a server that counts, or nothing but a page cache
	}
	for i, m := range s.server.Stats(t).Write {
		calls := m.Calls - before.Write[i].Calls
		t.Logf("%s: %d WRITEs", m.Mode, calls)
		if m.Mode == mode && calls == 0 {
			t.Errorf("no WRITE was served %s", mode)
		}
	}
}

// count is an option of a check: how much it is to do.
func (c *column) count(key string, n int) string {
	if c.brief {
		n /= 5
	}
	return fmt.Sprintf("%s=%d", key, n)
}

// only42 does what 4.2 has and other versions lack, and sees in the server's
// counters that the client had the server do it.
func (s *station) only42(t *testing.T) {
	before := s.server.Stats(t)
	s.guest.DropCaches(t) // of what the last mode's left
	onHost(t, "v42", s.export, "phase=prepare")
	want := []string{"ALLOCATE", "DEALLOCATE", "SEEK", "COPY", "GETXATTR", "SETXATTR", "LISTXATTRS", "REMOVEXATTR"}
	if s.clone {
		s.bothSides(t, "v42", "clone=1")
		want = append(want, "CLONE")
	} else {
		s.bothSides(t, "v42")
	}
	calls := map[string]uint64{}
	for _, op := range s.server.Stats(t).NFS4.Operations {
		calls[op.Name] += op.Calls
	}
	for _, op := range before.NFS4.Operations {
		calls[op.Name] -= op.Calls
	}
	for _, op := range want {
		if calls[op] == 0 {
			t.Errorf("the client made no call of %s", op)
		}
	}
}

// restart restarts the server below a load, by a crash and in good order; a
// hard mount must show nothing but a pause. The load goes on for a while after
// the last start.
func (s *station) restart(t *testing.T) {
	times := 2
	if s.brief {
		times = 1
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
			const until = tmpDir + "/enough"
			s.guest.Sh(t, "rm -f %s", until)
			done := make(chan error, 1)
			go func() { done <- s.guest.CheckAs(t, User{}, "load", s.mnt, "until="+until, c.names) }()
			for range times {
				pause(700)
				if err := errors.Join(c.end(), s.server.Start()); err != nil {
					t.Error(err)
				}
			}
			s.guest.Sh(t, "touch %s", until)
			if err := <-done; err != nil {
				t.Error(err)
			}
		})
	}
}

// manyNames makes, lists and removes a large directory: makes it in the first
// mode, removes it in the last. As each name is put on stable storage that takes
// long one by one, so that of a very large one several mounts do a part at once.
func (s *station) manyNames(t *testing.T, first, last bool) {
	files := fmt.Sprint("files=", s.files)
	via := "via="
	if first || last {
		for i := range s.files / 2500 {
			at := fmt.Sprint(s.mnt, "-", i)
			s.guest.MountVersion(t, s.server, s.version, s.export, at, "nosharecache")
			via += at + ","
		}
	}
	if first {
		s.guest.Check(t, "many", s.mnt, files, "phase=create", via)
	}
	s.guest.DropCaches(t)
	s.guest.Check(t, "many", s.mnt, files, "phase=list") // READDIRPLUS
	onHost(t, "many", s.export, files, "phase=list")
	if first {
		plain := s.mnt + "-nordirplus"
		s.guest.MountVersion(t, s.server, s.version, s.export, plain, "nordirplus,nosharecache")
		s.guest.Check(t, "many", plain, files, "phase=list", "plain=1") // READDIR
	}
	if last {
		s.guest.Check(t, "many", s.mnt, files, "phase=remove", via)
		if _, err := os.Lstat(filepath.Join(s.export, "many")); !errors.Is(err, os.ErrNotExist) {
			t.Fatalf("the directory is still there: %v", err)
		}
	}
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
