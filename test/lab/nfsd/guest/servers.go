// Plan of this file: both servers on one export, sync as is the default of
// both. The kernel's is started as its Debian package starts it: rpcbind,
// exportfs, rpc.mountd, rpc.nfsd with 8 threads. Both run until the end; the one
// that is not asked costs nothing.

package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"sluice/test/bench/load"
	"sluice/test/lab/nfsd/job"
	"sluice/test/measure"
)

const (
	kernelThreads = 8 // as the package has them
	kernelPort    = 2049
	mountdPort    = 13801
	sluicePort    = 13800
	leaseTime     = 10 // seconds, of both: a start's grace period ends with it

	warmSize  = 128 << 20
	writeSize = 256 << 20 // what a run of WRITEs covers
)

type servers struct {
	sluice      *exec.Cmd
	kernelTasks []int // process ids of the nfsd threads
	bootSeconds float64
	dirs        int // made for CREATE
}

func startServers() (*servers, error) {
	s := &servers{}
	fmt.Sscan(trimmed("/proc/uptime"), &s.bootSeconds)
	say("writing files of %d and %d MiB", warmSize>>20, writeSize>>20)
	for name, size := range map[string]int64{job.Warm: warmSize, job.Write: writeSize} {
		if err := load.FillFile(filepath.Join(job.Export, name), size); err != nil {
			return nil, err
		}
	}
	say("starting the kernel's server")
	if err := s.startKernel(); err != nil {
		return nil, err
	}
	say("starting sluice")
	return s, s.startSluice()
}

func (s *servers) startKernel() error {
	const nfsd = "/proc/fs/nfsd"
	// fsid=0 makes the export what NFSv4 clients see as the root.
	line := job.Export + " *(rw,sync,no_root_squash,insecure,no_subtree_check,fsid=0)\n"
	if err := os.WriteFile("/etc/exports", []byte(line), 0o644); err != nil {
		return err
	}
	if err := unix.Mount("nfsd", nfsd, "nfsd", 0, ""); err != nil {
		return fmt.Errorf("mount %s: %w", nfsd, err)
	}
	// In a machine of 2 GiB the kernel would cut READ and WRITE down to 512 KiB.
	if err := os.WriteFile(nfsd+"/max_block_size", []byte(strconv.Itoa(1<<20)), 0); err != nil {
		return fmt.Errorf("max_block_size: %w", err)
	}
	if err := start("rpcbind", "-f"); err != nil {
		return err
	}
	if err := waitFor("rpcbind", func() error { _, err := os.Stat("/run/rpcbind.sock"); return err }); err != nil {
		return err
	}
	for _, argv := range [][]string{
		{"exportfs", "-r"},
		{"rpc.nfsd", "--no-udp", "--port", strconv.Itoa(kernelPort), "--lease-time", strconv.Itoa(leaseTime),
			"--grace-time", strconv.Itoa(leaseTime), strconv.Itoa(kernelThreads)},
	} {
		if err := command(argv...); err != nil {
			return err
		}
	}
	if err := start("rpc.mountd", "--foreground", "--no-udp", "--port", strconv.Itoa(mountdPort)); err != nil {
		return err
	}
	var err error
	if s.kernelTasks, err = nfsdTasks(); err != nil {
		return err
	}
	return waitFor("the kernel's server", func() error { _, err := s.call(job.Kernel, probe, 5); return err })
}

func (s *servers) startSluice() error {
	exports := job.Export + " *(rw,sync,no_root_squash,insecure,no_subtree_check)\n"
	if err := os.WriteFile("/etc/sluice-exports", []byte(exports), 0o644); err != nil {
		return err
	}
	lease := fmt.Sprintf("%ds", leaseTime)
	s.sluice = exec.Command(job.Sluice, "serve", "--exports", "/etc/sluice-exports", "--listen", fmt.Sprintf("127.0.0.1:%d", sluicePort),
		"--admin", "/run/sluice.sock", "--state", "/var/lib/sluice", "--rpcbind", "off", "--read-mode", "buffered",
		"--log-level", "warn", // the console is slow, and writing to it would count as sluice's work
		"--lease-time", lease, "--grace-time", lease)
	s.sluice.Stdout, s.sluice.Stderr = os.Stdout, os.Stderr // the console, which the host keeps
	if err := s.sluice.Start(); err != nil {
		return fmt.Errorf("sluice: %w", err)
	}
	return waitFor("sluice", func() error { _, err := s.call(job.SluiceName, probe, 5); return err })
}

// start starts a program that runs until the end.
func start(argv ...string) error {
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("%s: %w", argv[0], err)
	}
	return nil
}

// waitFor tries until ready returns nil, for a minute.
func waitFor(what string, ready func() error) error {
	var err error
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(200 * time.Millisecond) {
		if err = ready(); err == nil {
			return nil
		}
	}
	return fmt.Errorf("%s is not ready after a minute: %w", what, err)
}

// nfsdTasks finds the kernel's threads that serve NFS.
func nfsdTasks() ([]int, error) {
	names, err := filepath.Glob("/proc/[0-9]*/comm")
	if err != nil {
		return nil, err
	}
	var pids []int
	for _, name := range names {
		if trimmed(name) != "nfsd" {
			continue
		}
		pid, err := strconv.Atoi(strings.Split(name, "/")[2])
		if err != nil {
			return nil, err
		}
		pids = append(pids, pid)
	}
	if len(pids) == 0 {
		return nil, fmt.Errorf("no nfsd thread runs")
	}
	return pids, nil
}

// ownCPU returns the CPU seconds that a server's own process or threads used.
func (s *servers) ownCPU(server string) (float64, error) {
	pids := s.kernelTasks
	if server == job.SluiceName {
		pids = []int{s.sluice.Process.Pid}
	}
	sum := 0.0
	for _, pid := range pids {
		cpu, err := measure.ProcessCPU(pid)
		if err != nil {
			return 0, fmt.Errorf("%s: %w", server, err)
		}
		sum += cpu.Total()
	}
	return sum, nil
}
