// Plan of this file: the guest's root, as a cpio archive of the "newc" format,
// which the kernel unpacks into memory (its documentation:
// driver-api/early-userspace/buffer-format).

package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"sluice/test/lab/nfsd/job"
)

// passwd has the users that the servers' programs look for.
const (
	passwd = "root:x:0:0:root:/:/bin/false\n_rpc:x:100:65534::/run/rpcbind:/bin/false\nstatd:x:101:65534::/var/lib/nfs:/bin/false\nnobody:x:65534:65534::/:/bin/false\n"
	group  = "root:x:0:\nnogroup:x:65534:\n"
	hosts  = "127.0.0.1 localhost\n"
)

// writeInitramfs writes the guest's root to a file.
func (p *parts) writeInitramfs(path string, o *options, j job.Job) error {
	text, err := json.Marshal(j)
	if err != nil {
		return err
	}
	contents := map[string][]byte{
		job.Path: text, "/etc/passwd": []byte(passwd), "/etc/group": []byte(group), "/etc/hosts": []byte(hosts),
		"/etc/nsswitch.conf": []byte("passwd: files\ngroup: files\nhosts: files\nservices: files\nprotocols: files\nrpc: files\n"),
	}
	for at, from := range p.files {
		if contents[at], err = os.ReadFile(from); err != nil {
			return err
		}
	}
	for at, from := range map[string]string{"/init": o.guest, job.Sluice: o.sluice, job.Load: o.nfsload} {
		if contents[at], err = os.ReadFile(from); err != nil {
			return err
		}
	}
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer f.Close()
	w := bufio.NewWriter(f)
	c := &cpio{w: w}
	made := map[string]bool{"/": true}
	for _, at := range slices.Sorted(maps.Keys(contents)) {
		c.parents(made, at)
		c.add(at, unix.S_IFREG|0o755, 0, 0, contents[at])
	}
	// The kernel opens it for process 1 before anything is mounted.
	c.parents(made, "/dev/console")
	c.add("/dev/console", unix.S_IFCHR|0o600, 5, 1, nil)
	c.end()
	if c.err != nil {
		return c.err
	}
	return w.Flush()
}

// cpio writes an archive; the first error stays.
type cpio struct {
	w   io.Writer
	n   int // bytes written
	ino int
	err error
}

// parents adds the directories above a path that were not made yet.
func (c *cpio) parents(made map[string]bool, at string) {
	dir := filepath.Dir(at)
	if made[dir] {
		return
	}
	c.parents(made, dir)
	made[dir] = true
	c.add(dir, unix.S_IFDIR|0o755, 0, 0, nil)
}

// add writes one member: a file with its content, a directory, or a device
// with its numbers.
func (c *cpio) add(path string, mode uint32, major, minor uint32, content []byte) {
	c.ino++
	name := strings.TrimPrefix(path, "/")
	links := 1
	if mode&unix.S_IFMT == unix.S_IFDIR {
		links = 2
	}
	// magic, then eight hexadecimal digits each: inode, mode, uid, gid, links,
	// mtime, size, device (two), device of a node (two), length of the name
	// with the zero byte that ends it, and a check that this format leaves 0.
	c.write(fmt.Appendf(nil, "070701%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%s\x00",
		c.ino, mode, 0, 0, links, 0, len(content), 0, 0, major, minor, len(name)+1, 0, name))
	c.align()
	c.write(content)
	c.align()
}

// end writes the member that closes the archive.
func (c *cpio) end() { c.add("TRAILER!!!", 0, 0, 0, nil) }

func (c *cpio) align() { c.write(make([]byte, -c.n&3)) }

func (c *cpio) write(p []byte) {
	if c.err != nil {
		return
	}
	n, err := c.w.Write(p)
	c.n += n
	c.err = err
}
