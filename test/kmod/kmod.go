// Package kmod loads kernel modules in guests, which have neither the kmod
// package nor /lib/modules, only a folder of modules with their modules.dep.
package kmod

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// ErrUnknown is in the error for a module that a folder does not list.
var ErrUnknown = errors.New("not in modules.dep")

// Order returns the files of the named modules and of all that they need, below
// dir, each once and after those that it needs. What modules.builtin says is in
// the kernel itself has no file and is left out.
func Order(dir string, names ...string) ([]string, error) {
	var order []string
	for _, name := range names {
		files, err := needed(dir, name)
		if err != nil {
			return nil, err
		}
		for _, f := range files {
			if !slices.Contains(order, f) {
				order = append(order, f)
			}
		}
	}
	return order, nil
}

// Load loads a module of dir after those that it needs.
func Load(dir, name string) error {
	files, err := Order(dir, name)
	if err != nil {
		return err
	}
	for _, f := range files {
		if err := insert(filepath.Join(dir, f)); err != nil {
			return err
		}
	}
	return nil
}

// needed returns the files of one module in the order of loading. A line of
// modules.dep is "a.ko: b.ko c.ko", what a needs in the reverse order.
func needed(dir, name string) ([]string, error) {
	var found []string
	err := eachLine(filepath.Join(dir, "modules.dep"), func(line string) bool {
		module, deps, ok := strings.Cut(line, ":")
		if !ok || !isModule(module, name) {
			return true
		}
		found = append([]string{module}, strings.Fields(deps)...)
		slices.Reverse(found)
		return false
	})
	if err != nil {
		return nil, err
	}
	if found != nil {
		return found, nil
	}
	builtin := false
	err = eachLine(filepath.Join(dir, "modules.builtin"), func(line string) bool {
		builtin = isModule(line, name)
		return !builtin
	})
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	if !builtin {
		return nil, fmt.Errorf("module %s: %w", name, ErrUnknown)
	}
	return nil, nil
}

// isModule reports whether the file at path is the module name, perhaps
// compressed.
func isModule(path, name string) bool {
	base, _, ok := strings.Cut(filepath.Base(path), ".ko")
	return ok && base == name
}

// eachLine calls f with the lines of a file until it returns false.
func eachLine(path string, f func(string) bool) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	s := bufio.NewScanner(file)
	for s.Scan() {
		if !f(s.Text()) {
			return nil
		}
	}
	return s.Err()
}

func insert(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	flags := 0
	if filepath.Ext(path) != ".ko" {
		flags = unix.MODULE_INIT_COMPRESSED_FILE // which the kernel unpacks itself
	}
	if err := unix.FinitModule(int(f.Fd()), "", flags); err != nil && !errors.Is(err, unix.EEXIST) {
		return fmt.Errorf("load %s: %w", path, err)
	}
	return nil
}
