// READ, spliced against copied: by size, and mixed sizes by threshold.

package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"sluice/test/bench/load"
)

// readSizes are the sizes of READs that the experiment compares.
var readSizes = []int{4 << 10, 16 << 10, 32 << 10, 64 << 10, 128 << 10, 256 << 10, 1 << 20}

// shapes are connections and calls in flight on each.
var shapes = []struct{ conns, depth int }{{1, 8}, {4, 4}}

// File systems beside the disk's own, mounted below data.
const (
	dirXFS   = "xfs"
	dirTmpfs = "tmpfs"

	otherSize = 256 << 20 // of the file on each
)

// server returns the sluice with that splice-min, which it starts when it is
// first asked for. All differ in nothing else.
func (b *bench) spliceServer(min int) (*server, error) {
	if s := b.splicers[min]; s != nil {
		return s, nil
	}
	exports := ""
	for _, d := range []string{dirXFS, dirTmpfs} {
		exports += fmt.Sprintf("%s *(rw,no_root_squash,insecure,no_subtree_check)\n", filepath.Join(b.data, d))
	}
	s, err := b.startSluice(sluiceOptions{exports: exports, spliceMin: min})
	if err == nil {
		b.splicers[min] = s
	}
	return s, err
}

const (
	always = 1
	never  = -1
)

func (b *bench) sizeMatches() ([]match, error) {
	if err := b.mountOthers(); err != nil {
		return nil, err
	}
	copies, err := b.spliceServer(never)
	if err != nil {
		return nil, err
	}
	splices, err := b.spliceServer(always)
	if err != nil {
		return nil, err
	}
	var matches []match
	add := func(fs, dir string, size, conns, depth int) {
		j := job{op: "read", dir: dir, file: warmFile, size: size, conns: conns, depth: depth, secs: b.o.secs}
		matches = append(matches, match{FS: fs, Work: "READ", Shape: shape(conns, depth), Size: size, ways: []way{
			{"copied", b.loading(copies, j)},
			{"spliced", b.loading(splices, j)},
		}})
	}
	for _, sh := range shapes {
		for _, size := range readSizes {
			add("disk", dirSync, size, sh.conns, sh.depth)
		}
	}
	for _, fs := range []string{dirXFS, dirTmpfs} {
		for _, size := range []int{32 << 10, 64 << 10, 256 << 10, 1 << 20} {
			add(fs, fs, size, 1, 8)
		}
	}
	return matches, nil
}

// mixedMatches mixes READs of all sizes, so that each size moves as many bytes,
// and compares thresholds.
func (b *bench) mixedMatches() ([]match, error) {
	if err := b.mountOthers(); err != nil {
		return nil, err
	}
	var list []string
	for _, size := range readSizes {
		list = append(list, fmt.Sprint(size))
	}
	var matches []match
	for _, sh := range shapes {
		c := match{FS: "disk", Work: "READ, mixed", Shape: shape(sh.conns, sh.depth)}
		for _, min := range append([]int{never}, readSizes...) {
			s, err := b.spliceServer(min)
			if err != nil {
				return nil, err
			}
			name := "never"
			if min > 0 {
				name = "from " + sizeName(min)
			}
			j := job{op: "read", file: warmFile, size: 1 << 20, conns: sh.conns, depth: sh.depth, secs: b.o.secs, extra: []string{"-sizes", strings.Join(list, ",")}}
			c.ways = append(c.ways, way{name, b.loading(s, j)})
		}
		matches = append(matches, c)
	}
	return matches, nil
}

func shape(conns, depth int) string { return fmt.Sprintf("%dx%d", conns, depth) }

func sizeName(n int) string {
	if n >= 1<<20 && n%(1<<20) == 0 {
		return fmt.Sprintf("%d MiB", n>>20)
	}
	return fmt.Sprintf("%d KiB", n>>10)
}

// loading returns a run of j against s.
func (b *bench) loading(s *server, j job) func() (sample, error) {
	return func() (sample, error) {
		var r load.Result
		others, err := watch(func() (err error) {
			r, err = b.measure(s, j)
			return err
		}, s.pid())
		if err != nil {
			return sample{}, err
		}
		if r.Errors > 0 {
			return sample{}, fmt.Errorf("%d of %d calls failed: %s", r.Errors, r.Calls, r.FirstError)
		}
		return sample{GBPerSec: r.MBPerSec / 1e3, CPUPerGB: r.CPUPerGB, PeerCPU: r.ClientCPU / (float64(r.Bytes) / 1e9), Others: others}, nil
	}
}

// mountOthers mounts XFS and tmpfs below data, once. They go with the mount
// namespace, and the loop device with its last user.
func (b *bench) mountOthers() error {
	if b.splicers != nil {
		return nil
	}
	b.splicers = make(map[int]*server)
	if err := b.mountXFS(filepath.Join(b.data, dirXFS)); err != nil {
		return err
	}
	tmpfs := filepath.Join(b.data, dirTmpfs)
	if err := os.Mkdir(tmpfs, 0755); err != nil {
		return err
	}
	if err := unix.Mount("tmpfs", tmpfs, "tmpfs", 0, "size=300m"); err != nil {
		return fmt.Errorf("mount tmpfs: %w", err)
	}
	for _, d := range []string{dirXFS, dirTmpfs} {
		if err := load.FillFile(filepath.Join(b.data, d, warmFile), otherSize); err != nil {
			return err
		}
	}
	return nil
}

// mountXFS mounts a new XFS of 4 GiB in an image beside data, over a loop
// device with direct I/O, so that nothing is cached twice.
func (b *bench) mountXFS(dir string) error {
	image := filepath.Join(b.work, "xfs.img")
	if err := os.Mkdir(dir, 0755); err != nil {
		return err
	}
	f, err := os.Create(image)
	if err != nil {
		return err
	}
	err = unix.Fallocate(int(f.Fd()), 0, 0, 4<<30)
	f.Close()
	if err != nil {
		return fmt.Errorf("%s: %w", image, err)
	}
	out, err := exec.Command("losetup", "--find", "--show", "--direct-io=on", image).CombinedOutput()
	if err != nil {
		return fmt.Errorf("losetup: %w: %s", err, out)
	}
	device := strings.TrimSpace(string(out))
	// A device in use goes with its last user; one that isn't goes now.
	defer exec.Command("losetup", "--detach", device).Run()
	if out, err := exec.Command("mkfs.xfs", "-q", device).CombinedOutput(); err != nil {
		return fmt.Errorf("mkfs.xfs: %w: %s", err, out)
	}
	if err := unix.Mount(device, dir, "xfs", 0, ""); err != nil {
		return fmt.Errorf("mount %s: %w", device, err)
	}
	return nil
}
