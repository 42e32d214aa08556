// Package kernel tests the server with a real Linux kernel as its client: a
// User-Mode Linux guest, a kernel that runs as a process, which needs neither
// KVM nor a disk image nor an NFS client in this machine's kernel.
//
// This file brings the kernel: Debian's package user-mode-linux, downloaded and
// unpacked by name into the user's cache folder. Nothing is installed.
package kernel

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"

	"sluice/test/testenv"
)

const umlPackage = "user-mode-linux"

// uml is the folder of an unpacked guest kernel.
type uml string

func (u uml) binary() string { return filepath.Join(string(u), "usr/bin/linux.uml") }

// modules is a folder with one folder of modules for each release.
func (u uml) modules() string { return filepath.Join(string(u), "usr/lib/uml/modules") }

// fetchUML returns the unpacked kernel, from the cache if it is there. A second
// process that needs it at the same time waits for the first.
func fetchUML() (uml, error) {
	if runtime.GOARCH != "amd64" {
		return "", fmt.Errorf("User-Mode Linux runs on amd64, this is %s", runtime.GOARCH)
	}
	base, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	base = filepath.Join(base, "sluice-test")
	if err := os.MkdirAll(base, 0o755); err != nil {
		return "", err
	}
	lock, err := os.OpenFile(filepath.Join(base, "lock"), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return "", err
	}
	defer lock.Close()
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX); err != nil {
		return "", err
	}
	u := uml(filepath.Join(base, umlPackage))
	if _, err := os.Stat(u.binary()); err == nil {
		return u, nil
	}
	if err := download(base, string(u)); err != nil {
		return "", fmt.Errorf("fetch Debian package %s: %w", umlPackage, err)
	}
	return u, nil
}

// download unpacks the package into dir; half-done work is never left there.
func download(base, dir string) error {
	for _, tool := range []string{"apt-get", "dpkg"} {
		if _, err := exec.LookPath(tool); err != nil {
			return errors.New("it comes through apt-get and dpkg, which this system lacks")
		}
	}
	tmp, err := os.MkdirTemp(base, "fetch-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	get := func() error {
		return command(tmp, "apt-get", "-q", "-o", "APT::Sandbox::User=root", "download", umlPackage)
	}
	if err := get(); err != nil {
		// A fresh system has no package lists yet.
		if err := command(tmp, "apt-get", "-q", "update"); err != nil {
			return err
		}
		if err := get(); err != nil {
			return err
		}
	}
	debs, err := filepath.Glob(filepath.Join(tmp, "*.deb"))
	if err != nil || len(debs) != 1 {
		return fmt.Errorf("apt-get download left %q, %v", debs, err)
	}
	root := filepath.Join(tmp, "root")
	if err := command(tmp, "dpkg", "-x", debs[0], root); err != nil {
		return err
	}
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	return os.Rename(root, dir)
}

// command runs a command and returns its output with the error.
func command(dir, name string, args ...string) error {
	cmd := exec.Command(name, args...)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s %v: %w\n%s", name, args, err, out)
	}
	return nil
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
