// Plan of this file: a client with a write delegation keeps what was written to
// itself when the file is closed. Whoever asks meanwhile, another client of
// whatever version or a local process, must see it all the same.

package kernel

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"sluice/pkg/admin"
	"sluice/test/testenv"
)

func TestWriteDelegation(t *testing.T) {
	t.Parallel()
	dir := testenv.Disk(t)
	s := testenv.StartServer(t, testenv.ServerConfig{Exports: []testenv.Export{{Dir: dir}}})
	if s.Stats(t) == nil {
		t.Skip("another server has no commands to ask")
	}
	writer, other := Boot(t), Boot(t)
	for _, v := range []struct{ writer, other string }{{"4.2", "4.2"}, {"4.2", "4.0"}, {"4.2", "3"}, {"4.1", "4.1"}} {
		at := "/mnt/v" + v.writer + "-" + v.other
		writer.MountVersion(t, s, v.writer, dir, at, "")
		other.MountVersion(t, s, v.other, dir, at, "")
		const size = 300_001
		for _, c := range []struct {
			name string
			ask  func(t *testing.T, name, at string)
		}{
			{"size for another client", func(t *testing.T, name, at string) {
				if got := other.Sh(t, "stat -c %%s %s/%s", at, name); got != fmt.Sprintln(size) {
					t.Errorf("another client sees a size of %q, want %d", got, size)
				}
			}},
			{"content for another client", func(t *testing.T, name, at string) {
				want := writer.Sh(t, "cat %s/%s | sha256sum", at, name)
				if got := other.Sh(t, "cat %s/%s | sha256sum", at, name); got != want {
					t.Errorf("another client reads something else")
				}
			}},
			{"more from another client", func(t *testing.T, name, at string) {
				other.Sh(t, "echo more >> %s/%s", at, name)
				if got := writer.Sh(t, "wc -c < %s/%s; tail -c 5 %[1]s/%[2]s", at, name); got != fmt.Sprintf("%d\nmore\n", size+5) {
					t.Errorf("the writer sees %q after the other client has appended", got)
				}
			}},
			{"content for a local process", func(t *testing.T, name, _ string) {
				b, err := os.ReadFile(filepath.Join(dir, name))
				if err != nil || len(b) != size || bytes.IndexFunc(b, func(r rune) bool { return r != 'y' && r != '\n' }) >= 0 {
					t.Errorf("a local process reads %d bytes, %v; want %d", len(b), err, size)
				}
			}},
			{"cut by a local process", func(t *testing.T, name, at string) {
				if err := os.Truncate(filepath.Join(dir, name), 7); err != nil {
					t.Error(err)
				}
				if got := writer.Sh(t, "wc -c < %s/%s", at, name); got != "7\n" {
					t.Errorf("the writer sees a size of %q, want 7", got)
				}
			}},
			{"renamed and removed", func(t *testing.T, name, at string) {
				other.Sh(t, "mv %s/%s %[1]s/moved; [ $(wc -c < %[1]s/moved) = %[3]d ]; rm %[1]s/moved; ! [ -e %[1]s/%[2]s ]", at, name, size)
				if _, err := os.Stat(filepath.Join(dir, name)); err == nil {
					t.Error("the file is still there")
				}
			}},
		} {
			t.Run(v.writer+" and "+v.other+"/"+c.name, func(t *testing.T) {
				name := fmt.Sprint("file", time.Now().UnixNano())
				writer.Sh(t, "yes | head -c %d > %s/%s", size, at, name)
				if !delegated(t, s, filepath.Join(dir, name)) {
					t.Fatal("the writer got no write delegation: nothing is tried")
				}
				c.ask(t, name, at)
			})
		}
	}
	if st := s.Stats(t).NFS4; st.DelegationsRevoked != 0 {
		t.Errorf("%d delegations were revoked", st.DelegationsRevoked)
	}
}

// delegated tells whether a write delegation of the file is out.
func delegated(t *testing.T, s *testenv.Server, path string) bool {
	for _, d := range ask[[]admin.Delegation](t, s, "delegations") {
		if d.File.Path == path && d.Type == "write" {
			return true
		}
	}
	return false
}
