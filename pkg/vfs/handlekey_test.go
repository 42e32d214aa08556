// Handle keys that someone planted.

package vfs

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestPlantedHandleKey: in a state directory that others may write (--state /tmp), a user can be faster with a key of
// his own, and would then make handles for any file of the file system.
func TestPlantedHandleKey(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root to give a file to another user")
	}
	dir := t.TempDir()
	if _, err := LoadHandleKey(dir); err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(dir, keyFile)
	if err := os.Chown(name, 1000, 1000); err != nil {
		t.Fatal(err)
	}
	if _, err := LoadHandleKey(dir); err == nil || !strings.Contains(err.Error(), "uid 1000") {
		t.Errorf("another user's key: %v", err)
	}
	if err := os.Remove(name); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(name, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := LoadHandleKey(dir); err == nil || !strings.Contains(err.Error(), "no regular file") {
		t.Errorf("a FIFO: %v", err)
	}
}
