// Tables that are no files.

package exports

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// A FIFO in the table's place, or behind a link among the drop-ins, is refused at once: opening one waits for a writer
// for ever.
func TestLoadRefusesFIFO(t *testing.T) {
	dir := t.TempDir()
	fifo, table := filepath.Join(dir, "fifo"), filepath.Join(dir, "exports")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, err := Load(fifo, false); err == nil || !strings.Contains(err.Error(), "no regular file") {
		t.Errorf("a FIFO: %v", err)
	}
	if err := os.WriteFile(table, []byte("/a h(rw)\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(table+".d", 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(fifo, filepath.Join(table+".d", "x.exports")); err != nil {
		t.Fatal(err)
	}
	if _, _, err := Load(table, true); err == nil || !strings.Contains(err.Error(), "no regular file") {
		t.Errorf("a link to a FIFO among the drop-ins: %v", err)
	}
	if _, _, err := Load("/dev/null", false); err != nil {
		t.Errorf("/dev/null: %v", err)
	}
}
