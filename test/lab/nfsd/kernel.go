// Plan of this file: the parts of the guest that are Debian's, with the names
// they get in its root: a kernel with its modules, the programs of the kernel's
// NFS server, and the libraries they need.

package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"

	"sluice/test/debs"
	"sluice/test/kmod"
	"sluice/test/lab/nfsd/job"
	"sluice/test/measure"
)

// parts are what fetchParts found.
type parts struct {
	kernel  string            // image that QEMU boots
	files   map[string]string // path in the guest: path here
	server  string            // what the kernel's server's programs are
	release string
}

// serverPrograms are those of the package nfs-kernel-server; rpcbind is
// installed here.
var serverPrograms = []string{"exportfs", "rpc.nfsd", "rpc.mountd"}

// modules that the guest loads, with what they need.
var modules = []string{"virtio_blk", "nfsd"}

// configuration that the programs read, taken from this system.
var configuration = []string{"/etc/netconfig", "/etc/protocols", "/etc/services", "/etc/rpc"}

func fetchParts(meta, work string) (*parts, error) {
	image, err := debs.Newest(meta, regexp.MustCompile(`^linux-image-[0-9]`))
	if err != nil {
		return nil, err
	}
	root, err := debs.Unpack(image)
	if err != nil {
		return nil, err
	}
	p := &parts{files: map[string]string{}, release: strings.TrimPrefix(image, "linux-image-")}
	p.kernel = filepath.Join(root, "boot/vmlinuz-"+p.release)
	if err := p.addModules(root, work); err != nil {
		return nil, err
	}
	programs, err := debs.Unpack("nfs-kernel-server")
	if err != nil {
		return nil, err
	}
	for _, name := range serverPrograms {
		if err := p.addProgram("/usr/sbin/"+name, filepath.Join(programs, "usr/sbin", name)); err != nil {
			return nil, err
		}
	}
	rpcbind, err := exec.LookPath("rpcbind")
	if err != nil {
		return nil, err
	}
	if err := p.addProgram("/usr/sbin/rpcbind", rpcbind); err != nil {
		return nil, err
	}
	for _, path := range configuration {
		p.files[path] = path
	}
	p.server = "nfs-kernel-server"
	if f := strings.Fields(measure.Output("apt-cache", "madison", p.server)); len(f) > 2 { // NAME | VERSION | FROM
		p.server += " " + f[2]
	}
	return p, nil
}

// addModules adds the modules and a modules.dep, which a package that is not
// installed lacks.
func (p *parts) addModules(root, work string) error {
	// Only printed: others use the cache's folder at the same time.
	out, err := exec.Command("depmod", "-n", "-b", root, p.release).Output()
	if err != nil {
		return fmt.Errorf("depmod: %w", err)
	}
	list := filepath.Join(work, "modules.dep")
	if err := os.WriteFile(list, dependencies(out), 0o644); err != nil {
		return err
	}
	files, err := kmod.Order(work, modules...)
	if err != nil {
		return err
	}
	at := filepath.Join(job.Modules, p.release)
	for _, f := range files {
		p.files[filepath.Join(at, f)] = filepath.Join(root, "lib/modules", p.release, f)
	}
	p.files[filepath.Join(at, "modules.dep")] = list
	return nil
}

// dependencies returns the lines of modules.dep in what depmod -n prints, which
// has the contents of its other files too.
func dependencies(printed []byte) []byte {
	var dep []byte
	for line := range bytes.Lines(printed) {
		if bytes.HasPrefix(line, []byte("kernel/")) && bytes.Contains(line, []byte(".ko")) {
			dep = append(dep, line...)
		}
	}
	return dep
}

// addProgram adds a program and the libraries it needs.
func (p *parts) addProgram(at, path string) error {
	out, err := exec.Command("ldd", path).Output()
	if err != nil {
		return fmt.Errorf("ldd %s: %w", path, err)
	}
	libraries, err := parseLdd(string(out))
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	p.files[at] = path
	for _, l := range libraries {
		p.files[l] = l
	}
	return nil
}

// parseLdd returns the files in what ldd prints: "NAME => FILE (ADDRESS)", or
// "FILE (ADDRESS)" for the loader; what has no file is in the kernel.
func parseLdd(text string) ([]string, error) {
	var files []string
	for s := bufio.NewScanner(strings.NewReader(text)); s.Scan(); {
		name, file, arrow := strings.Cut(strings.TrimSpace(s.Text()), " => ")
		if !arrow {
			file = name
		}
		if strings.HasPrefix(file, "not found") {
			return nil, fmt.Errorf("library %s is not installed", name)
		}
		if file, _, _ = strings.Cut(file, " ("); filepath.IsAbs(file) {
			files = append(files, file)
		}
	}
	if len(files) == 0 {
		return nil, errors.New("ldd names no library")
	}
	return files, nil
}
