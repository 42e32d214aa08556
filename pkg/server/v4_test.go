package server

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sluice/pkg/vfs"
	"sluice/test/nfscall"
)

// A delegation must be back before the kernel stops to wait for it: a local
// process would change what a client still believes to have to itself.
func TestRecallTime(t *testing.T) {
	for _, c := range []struct {
		file  string
		lease time.Duration
		want  time.Duration
	}{
		{"45\n", 90 * time.Second, 40 * time.Second},
		{"45\n", 10 * time.Second, 10 * time.Second},
		{"3\n", 90 * time.Second, time.Second},
		{"0\n", 90 * time.Second, 90 * time.Second}, // the kernel waits for ever
		{"what?", 90 * time.Second, 90 * time.Second},
	} {
		name := filepath.Join(t.TempDir(), "lease-break-time")
		nfscall.Must(t, os.WriteFile(name, []byte(c.file), 0o600))
		if got := recallTime(c.lease, name); got != c.want {
			t.Errorf("lease %v, lease-break-time %q: %v; want %v", c.lease, c.file, got, c.want)
		}
	}
	if got := recallTime(time.Minute, "/nonexistent"); got != time.Minute {
		t.Errorf("without the file: %v", got)
	}
}

// Clients take servers of one identity for one server, and send state of one
// to the other.
func TestIdentity(t *testing.T) {
	a, b := vfs.HandleKey{1}, vfs.HandleKey{2}
	if !bytes.Equal(identity(a, "server owner"), identity(a, "server owner")) {
		t.Error("it changes")
	}
	if bytes.Equal(identity(a, "server owner"), identity(b, "server owner")) {
		t.Error("two servers have one")
	}
	if id := string(identity(a, "server scope")); strings.Contains(id, "\x00") || len(id) > 64 {
		t.Errorf("identity %q", id)
	}
}

func TestOneServerPerStateDirectory(t *testing.T) {
	cfg, _ := testConfig(t)
	var log logText
	s, err := newServer(cfg, &log)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Shutdown()
	_, err = newServer(cfg, &log)
	if err == nil || !strings.Contains(err.Error(), "another") {
		t.Errorf("a second server with the same state directory: %v", err)
	}
}
