// Package arch checks the plan of the house: which room may import which, and
// which rooms may touch the file system and the clients' sockets.
package arch

import (
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// allowed lists, for each room, the rooms it may import. A room that is not
// listed is a mistake: a new one has to say where it stands. Anybody may import
// trace and stats, which import nothing of ours.
var allowed = map[string][]string{
	"xdr":                {},
	"xdr/nfs3":           {"xdr"},
	"xdr/mount3":         {"xdr"},
	"xdr/rpcb":           {"xdr"},
	"xdr/xdrtest":        {"xdr"},
	"cmd/xdrgen/gentest": {"xdr"},
	"cmd/xdrgen":         {},
	"rpc":                {"xdr"},
	"exports":            {},
	"pkg/trace":          {},
	"pkg/stats":          {},
	"pkg/usage":          {},
	"pkg/filecache":      {},
	"pkg/dataio":         {"xdr", "pkg/filecache"},
	"pkg/vfs":            {"xdr", "exports", "pkg/filecache", "pkg/dataio"},
	"pkg/nfs3":           {"xdr", "xdr/nfs3", "xdr/mount3", "rpc", "exports", "pkg/vfs"},
	"pkg/portmap":        {"xdr", "xdr/rpcb", "rpc"},
	"xdr/nfs4":           {"xdr"},
	"pkg/state":          {"pkg/filecache"},
	"pkg/nfs4":           {"xdr", "xdr/nfs4", "rpc", "pkg/vfs", "pkg/state"},
	"pkg/admin":          {},
	"pkg/bench":          {"xdr", "xdr/nfs3", "xdr/nfs4", "xdr/mount3", "xdr/rpcb", "rpc", "pkg/portmap", "pkg/admin", "pkg/usage"},
	"pkg/bench/report":   {"pkg/bench"},
	"pkg/server":         {"xdr", "rpc", "exports", "pkg/filecache", "pkg/dataio", "pkg/vfs", "pkg/nfs3", "pkg/state", "pkg/nfs4", "pkg/portmap", "pkg/admin", "pkg/usage"},
	"cmd/sluice":         {"pkg/admin", "pkg/server", "pkg/bench", "pkg/bench/report"},
}

// anyone may be imported from every room.
var anyone = []string{"pkg/trace", "pkg/stats"}

// systemCalls lists the rooms that may make raw system calls: file systems
// belong to filecache, dataio and vfs, sockets to rpc; server sets limits; bench
// is a client, whose own sockets are its business; usage drops the page cache of
// a benchmark's dataset.
var systemCalls = []string{"rpc", "pkg/filecache", "pkg/dataio", "pkg/vfs", "pkg/server", "pkg/bench", "pkg/usage"}

// errnoOnly lists the rooms that may name errnos (golang.org/x/sys/unix) but
// call nothing of it; the test below can't see the difference, reviews do.
var errnoOnly = []string{"pkg/nfs3", "pkg/nfs4", "pkg/portmap", "pkg/state", "xdr"}

const module = "sluice/"

type pkg struct {
	ImportPath string
	Imports    []string
}

func TestImportsRunOneWay(t *testing.T) {
	pkgs := list(t)
	if len(pkgs) < len(allowed) {
		t.Errorf("go list found %d packages, fewer than the %d rooms", len(pkgs), len(allowed))
	}
	for _, p := range pkgs {
		room := strings.TrimPrefix(p.ImportPath, module)
		if strings.HasPrefix(room, "test/") || strings.HasPrefix(room, "build/") {
			continue // tests stand outside and may import everything; build/ is not ours to keep
		}
		may, known := allowed[room]
		if !known {
			t.Errorf("%s: a new room; say in this test what it may import", room)
			continue
		}
		for _, imp := range p.Imports {
			if imp == "golang.org/x/sys/unix" && !slices.Contains(systemCalls, room) && !slices.Contains(errnoOnly, room) {
				t.Errorf("%s makes system calls", room)
			}
			ours, ok := strings.CutPrefix(imp, module)
			if ok && !slices.Contains(may, ours) && !slices.Contains(anyone, ours) {
				t.Errorf("%s imports %s, against the direction of imports", room, ours)
			}
		}
	}
}

func list(t *testing.T) []pkg {
	t.Helper()
	watch(t)
	out, err := exec.Command("go", "list", "-json=ImportPath,Imports", "sluice/...").Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	var pkgs []pkg
	dec := json.NewDecoder(strings.NewReader(string(out)))
	for {
		var p pkg
		err := dec.Decode(&p)
		if errors.Is(err, io.EOF) {
			return pkgs
		}
		if err != nil {
			t.Fatal(err)
		}
		pkgs = append(pkgs, p)
	}
}

// watch opens every source file: go keeps a test's result for as long as the
// files that the test itself opened stay the same, and does not see what go
// list reads.
func watch(t *testing.T) {
	t.Helper()
	err := filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == ".git" || d.Name() == "build"):
			return filepath.SkipDir
		case filepath.Ext(path) == ".go":
			_, err = os.ReadFile(path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
