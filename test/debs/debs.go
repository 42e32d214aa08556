// Package debs brings Debian packages that tests and measurements use without
// installing them: a guest's kernel, a server whose own kernel is elsewhere.
// They are downloaded by name and unpacked into the user's cache folder.
package debs

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"

	"golang.org/x/sys/unix"
)

// Unpack returns the folder that a package is unpacked in, from the cache if it
// is there. Half-done work is never found there, and a second process that
// needs a package at the same time waits for the first.
func Unpack(name string) (dir string, err error) {
	err = locked(func(base string) error {
		dir = filepath.Join(base, name)
		if _, err := os.Stat(dir); err == nil {
			return nil
		}
		return download(base, name, dir)
	})
	if err != nil {
		return "", fmt.Errorf("fetch Debian package %s: %w", name, err)
	}
	return dir, nil
}

// Newest returns the name of the package that a package which only stands for
// the newest of its kind (linux-image-amd64) depends on, and which matches.
func Newest(name string, match *regexp.Regexp) (string, error) {
	var found string
	err := locked(func(base string) error {
		return withLists(base, func() error {
			out, err := command(base, "apt-cache", "depends", name)
			if err != nil {
				return err
			}
			for line := range strings.Lines(out) {
				on, ok := strings.CutPrefix(strings.TrimSpace(line), "Depends: ")
				if ok && match.MatchString(on) {
					found = on
					return nil
				}
			}
			return fmt.Errorf("depends on nothing like %v", match)
		})
	})
	if err != nil {
		return "", fmt.Errorf("look up Debian package %s: %w", name, err)
	}
	return found, nil
}

// locked calls f with the cache folder while no other process uses it.
func locked(f func(base string) error) error {
	for _, tool := range []string{"apt-get", "apt-cache", "dpkg"} {
		if _, err := exec.LookPath(tool); err != nil {
			return fmt.Errorf("it comes through apt-get and dpkg; this system has no %s", tool)
		}
	}
	base, err := os.UserCacheDir()
	if err != nil {
		return err
	}
	base = filepath.Join(base, "sluice-test")
	if err := os.MkdirAll(base, 0o755); err != nil {
		return err
	}
	lock, err := os.OpenFile(filepath.Join(base, "lock"), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return err
	}
	defer lock.Close()
	for {
		err := unix.Flock(int(lock.Fd()), unix.LOCK_EX)
		if err == nil {
			return f(base)
		}
		if !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// withLists does what needs the package lists, which a fresh system has to
// bring first.
func withLists(base string, f func() error) error {
	err := f()
	if err == nil {
		return nil
	}
	if _, err := command(base, "apt-get", "-q", "update"); err != nil {
		return err
	}
	return f()
}

func download(base, name, dir string) error {
	tmp, err := os.MkdirTemp(base, "fetch-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	err = withLists(base, func() error {
		_, err := command(tmp, "apt-get", "-q", "-o", "APT::Sandbox::User=root", "download", name)
		return err
	})
	if err != nil {
		return err
	}
	files, err := filepath.Glob(filepath.Join(tmp, "*.deb"))
	if err != nil || len(files) != 1 {
		return fmt.Errorf("apt-get download left %q, %v", files, err)
	}
	root := filepath.Join(tmp, "root")
	if _, err := command(tmp, "dpkg", "-x", files[0], root); err != nil {
		return err
	}
	return os.Rename(root, dir)
}

// command runs a command and returns what it prints, with the error too.
func command(dir, name string, args ...string) (string, error) {
	cmd := exec.Command(name, args...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%s %v: %w\n%s", name, args, err, out)
	}
	return string(out), nil
}
