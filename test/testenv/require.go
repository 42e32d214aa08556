// Package testenv gives end-to-end tests their surroundings: what must be
// installed, private namespaces, file systems to export, and a server to
// export them.
//
// This file decides what happens where something is missing. A test that
// cannot run skips with a message that names what is missing and how to get
// it; with SLUICE_REQUIRE_ALL set (as CI does) the same is a failure, so that
// a green run cannot hide a part that never ran.
package testenv

import (
	_ "embed"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
)

//go:embed packages.txt
var packagesFile string

// Package is one line of packages.txt: a Debian package, and the command or
// file whose presence proves that it is installed.
type Package struct {
	Name  string
	Proof string
}

// Packages returns the list in packages.txt.
func Packages() []Package {
	var list []Package
	for line := range strings.Lines(packagesFile) {
		f := strings.Fields(line)
		if len(f) < 2 || f[0] == "#" {
			continue
		}
		list = append(list, Package{Name: f[0], Proof: f[1]})
	}
	return list
}

// Skip ends the test because something it needs is missing: skipped with the
// message in an ordinary run, failed where every part is required.
func Skip(t testing.TB, format string, args ...any) {
	t.Helper()
	msg := fmt.Sprintf(format, args...)
	if os.Getenv("SLUICE_REQUIRE_ALL") != "" {
		t.Fatalf("cannot run, and every part is required: %s", msg)
	} else {
		t.Skip(msg)
	}
}

// Commands skips the test unless every named command is installed.
func Commands(t testing.TB, names ...string) {
	t.Helper()
	for _, name := range names {
		if findCommand(name) == "" {
			Skip(t, "%s is not installed (Debian package %s)", name, packageOf(name))
		}
	}
}

// Sandboxed skips the test unless it runs inside the namespaces that Main
// makes, which takes root.
func Sandboxed(t testing.TB) {
	t.Helper()
	if why := sandboxProblem(); why != "" {
		Skip(t, "no private namespaces: %s", why)
	}
}

// findCommand is exec.LookPath that also knows the system directories, which
// are missing from the PATH of a root shell that came through su.
func findCommand(name string) string {
	if p, err := exec.LookPath(name); err == nil {
		return p
	}
	for _, dir := range []string{"/usr/local/sbin", "/usr/sbin", "/sbin"} {
		if p := dir + "/" + name; isFile(p) {
			return p
		}
	}
	return ""
}

func isFile(path string) bool {
	st, err := os.Stat(path)
	return err == nil && st.Mode().IsRegular()
}

func packageOf(command string) string {
	for _, p := range Packages() {
		if p.Proof == command {
			return p.Name
		}
	}
	return "unknown"
}
