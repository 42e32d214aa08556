package bench

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"sluice/pkg/server"
	"sluice/test/testenv"
)

func TestMain(m *testing.M) { os.Exit(testenv.Main(m, nil)) }

// sluice is a server in this process.
type sluice struct {
	dir, addr, admin string
}

// serve exports a directory with the given options.
func serve(t testing.TB, options string) *sluice {
	t.Helper()
	return serveDir(t, t.TempDir(), options)
}

func serveDir(t testing.TB, dir, options string) *sluice {
	t.Helper()
	testenv.Sandboxed(t)
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	state := t.TempDir()
	cfg := server.Defaults()
	cfg.Exports, cfg.Export = "", []string{dir + " *(" + options + ")"}
	cfg.Listen, cfg.Admin, cfg.State, cfg.Rpcbind, cfg.LogLevel = "127.0.0.1:0", filepath.Join(state, "admin.sock"), state, "off", "error"
	cfg.LeaseTime, cfg.ShutdownTimeout = 10*time.Second, 5*time.Second
	srv, err := server.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if err := srv.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := srv.Shutdown(); err != nil {
			t.Errorf("stop the server: %v", err)
		}
	})
	return &sluice{dir: dir, addr: srv.Addrs()[0], admin: cfg.Admin}
}

const open = "rw,insecure,no_root_squash"

// options are those of a run that ends by size and takes no time to speak of.
func (s *sluice) options(w Workload) Options {
	if w.MaxBytes == 0 && w.Seconds == 0 {
		w.MaxBytes = 2 << 20
	}
	return Options{Server: s.addr, Path: s.dir, Workload: w}
}

// left lists what is in the export.
func (s *sluice) left(t testing.TB) []string {
	t.Helper()
	list, err := os.ReadDir(s.dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range list {
		names = append(names, e.Name())
	}
	return names
}
