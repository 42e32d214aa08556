// Package proto tests the whole server over the protocol: calls go in at one
// end, and what they did is looked up with system calls at the other.
//
// The tests run in namespaces of their own, where they may mount things.
package proto

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"sluice/exports"
	"sluice/pkg/server"
	"sluice/rpc"
	"sluice/test/nfscall"
	"sluice/test/testenv"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(serveEnv); dir != "" {
		os.Exit(serveFewDescriptors(dir))
	}
	os.Exit(testenv.Main(m, nil))
}

// instance is a server and what it serves.
type instance struct {
	dir  string // exported
	cfg  server.Config
	srv  *server.Server
	addr string
}

// serve exports a new directory to everyone with the given options.
func serve(t testing.TB, options string) *instance {
	t.Helper()
	dir := t.TempDir()
	nfscall.Must(t, os.Chmod(dir, 0o755))
	return serveTable(t, dir, fmt.Sprintf("%s *(%s)\n", exports.Quote(dir), options))
}

// serveTable serves an exports table.
func serveTable(t testing.TB, dir, table string) *instance {
	t.Helper()
	testenv.Sandboxed(t)
	state := t.TempDir()
	i := &instance{dir: dir, cfg: server.Defaults()}
	i.cfg.Exports = filepath.Join(state, "exports")
	i.cfg.Listen = "127.0.0.1:0"
	i.cfg.Admin = ""
	i.cfg.State = state
	i.cfg.Rpcbind = "off"
	i.cfg.LogLevel = "error"
	i.write(t, table)
	i.start(t)
	t.Cleanup(func() { i.stop(t) })
	return i
}

// write replaces the exports file; it is in force after a Reload.
func (i *instance) write(t testing.TB, table string) {
	t.Helper()
	nfscall.Must(t, os.WriteFile(i.cfg.Exports, []byte(table), 0o644))
}

func (i *instance) reload(t testing.TB, table string) {
	t.Helper()
	i.write(t, table)
	if _, err := i.srv.Reload(); err != nil {
		t.Fatalf("Reload: %v", err)
	}
}

func (i *instance) start(t testing.TB) {
	t.Helper()
	s, err := server.New(i.cfg)
	nfscall.Must(t, err)
	nfscall.Must(t, s.Start())
	i.srv, i.addr = s, s.Addrs()[0]
}

func (i *instance) stop(t testing.TB) {
	t.Helper()
	if i.srv == nil {
		return
	}
	if err := i.srv.Shutdown(); err != nil {
		t.Errorf("Shutdown: %v", err)
	}
	i.srv = nil
}

// restart stops the server and starts it again, on whatever port.
func (i *instance) restart(t testing.TB) {
	t.Helper()
	i.stop(t)
	i.start(t)
}

func (i *instance) client(t testing.TB, cred rpc.Cred) *nfscall.Client {
	t.Helper()
	return nfscall.Dial(t, i.addr, cred)
}

// root connects as root and mounts the exported directory.
func (i *instance) root(t testing.TB) (c *nfscall.Client, h []byte) {
	t.Helper()
	c = i.client(t, nfscall.Root())
	return c, c.Mount(t, i.dir)
}

func (i *instance) path(elem ...string) string {
	return filepath.Join(append([]string{i.dir}, elem...)...)
}
