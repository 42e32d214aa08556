// Package kernel tests the server with a real Linux kernel as its client: a
// User-Mode Linux guest, a kernel that runs as a process, which needs neither
// KVM nor a disk image nor an NFS client in this machine's kernel.
//
// This file brings the kernel: Debian's package user-mode-linux, downloaded and
// unpacked by name into the user's cache folder. Nothing is installed.
package kernel

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"

	"sluice/test/debs"
	"sluice/test/testenv"
)

const umlPackage = "user-mode-linux"

// uml is the folder of an unpacked guest kernel.
type uml string

func (u uml) binary() string { return filepath.Join(string(u), "usr/bin/linux.uml") }

// modules is a folder with one folder of modules for each release.
func (u uml) modules() string { return filepath.Join(string(u), "usr/lib/uml/modules") }

// fetchUML returns the unpacked kernel.
func fetchUML() (uml, error) {
	if runtime.GOARCH != "amd64" {
		return "", fmt.Errorf("User-Mode Linux runs on amd64, this is %s", runtime.GOARCH)
	}
	dir, err := debs.Unpack(umlPackage)
	return uml(dir), err
}

// What Prepare found, handed to the process that runs the tests.
const (
	umlEnv     = "SLUICE_TEST_UML"         // folder of the unpacked kernel
	guestEnv   = "SLUICE_TEST_GUEST"       // the program that is the guest's init
	sourcesEnv = "SLUICE_TEST_SOURCES"     // a tree of a few hundred source files
	problemEnv = "SLUICE_TEST_UML_PROBLEM" // why there is no kernel
)

// Prepare builds the server and the guest's program and fetches the kernel: a
// prepare function for testenv.Main. A kernel that cannot be had is no error
// here; Boot reports it.
func Prepare() error {
	if err := testenv.BuildSluice(); err != nil {
		return err
	}
	guest, err := testenv.Build("./test/kernel/progs/guest", "guest")
	if err != nil {
		return err
	}
	os.Setenv(guestEnv, guest)
	root, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		return fmt.Errorf("go env GOROOT: %w", err)
	}
	os.Setenv(sourcesEnv, filepath.Join(strings.TrimSpace(string(root)), "src/net"))
	u, err := fetchUML()
	if err != nil {
		return os.Setenv(problemEnv, err.Error())
	}
	return os.Setenv(umlEnv, string(u))
}
