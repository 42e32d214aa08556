// Processors and disks, from /proc.

package measure

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// tick is the unit of the times in /proc/PID/stat and /proc/stat: USER_HZ, 100
// on every Linux architecture that Go supports.
const tick = 0.01

// CPU is processor time in seconds.
type CPU struct {
	User   float64 `json:"user_s"`
	System float64 `json:"system_s"`
}

// Total is user and system time together.
func (c CPU) Total() float64 { return c.User + c.System }

// Sub returns what was used since before.
func (c CPU) Sub(before CPU) CPU { return CPU{c.User - before.User, c.System - before.System} }

// ProcessCPU returns what process pid, threads included, has used so far. The
// resolution is 10 ms.
func ProcessCPU(pid int) (CPU, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return CPU{}, err
	}
	// The command name may hold spaces and parentheses: count from its end.
	f := strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:]))
	if len(f) < 13 {
		return CPU{}, fmt.Errorf("/proc/%d/stat: %d fields after the name, want 13", pid, len(f))
	}
	u, err1 := strconv.ParseFloat(f[11], 64)
	s, err2 := strconv.ParseFloat(f[12], 64)
	if err1 != nil || err2 != nil {
		return CPU{}, fmt.Errorf("/proc/%d/stat: times %q and %q", pid, f[11], f[12])
	}
	return CPU{u * tick, s * tick}, nil
}

// OwnCPU returns what this process has used so far.
func OwnCPU() CPU {
	var ru unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &ru); err != nil {
		return CPU{}
	}
	return CPU{float64(ru.Utime.Nano()) / 1e9, float64(ru.Stime.Nano()) / 1e9}
}

// System is the time that all processors together have spent, in seconds.
type System struct {
	Busy  float64 // user, system and interrupts, of processes and of the kernel's threads
	Idle  float64 // idle, or waiting for a disk
	Steal float64 // taken away by the machine's host
}

// SystemCPU reads /proc/stat. The resolution is 10 ms.
func SystemCPU() (System, error) {
	b, err := os.ReadFile("/proc/stat")
	if err != nil {
		return System{}, err
	}
	line, _, _ := strings.Cut(string(b), "\n")
	return parseSystem(line)
}

func parseSystem(line string) (s System, err error) {
	f := strings.Fields(line)
	if len(f) < 9 || f[0] != "cpu" {
		return s, fmt.Errorf("/proc/stat begins with %q, want cpu and eight times", line)
	}
	var v [8]float64 // user nice system idle iowait irq softirq steal
	for i := range v {
		if v[i], err = strconv.ParseFloat(f[1+i], 64); err != nil {
			return s, fmt.Errorf("/proc/stat: %w", err)
		}
	}
	s.Busy = (v[0] + v[1] + v[2] + v[5] + v[6]) * tick
	s.Idle = (v[3] + v[4]) * tick
	s.Steal = v[7] * tick
	return s, nil
}

// DiskBytes returns how many bytes were read from and written to the block
// device of a file, since the system started.
func DiskBytes(path string) (read, written int64, err error) {
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		return 0, 0, err
	}
	name := blockDevice(&st) + "/stat"
	b, err := os.ReadFile(name)
	if err != nil {
		return 0, 0, err
	}
	return parseDisk(name, string(b))
}

// blockDevice is where /sys describes the device of a file.
func blockDevice(st *unix.Stat_t) string {
	return fmt.Sprintf("/sys/dev/block/%d:%d", unix.Major(st.Dev), unix.Minor(st.Dev))
}

// ReadAhead returns how far the kernel reads ahead on the block device of a
// file, in KiB; 0 when it can't be told.
func ReadAhead(path string) int {
	var st unix.Stat_t
	if unix.Stat(path, &st) != nil {
		return 0
	}
	for _, queue := range []string{"/queue", "/../queue"} { // of a partition: the disk's
		if b, err := os.ReadFile(blockDevice(&st) + queue + "/read_ahead_kb"); err == nil {
			n, _ := strconv.Atoi(strings.TrimSpace(string(b)))
			return n
		}
	}
	return 0
}

func parseDisk(name, text string) (read, written int64, err error) {
	f := strings.Fields(text)
	if len(f) < 7 {
		return 0, 0, fmt.Errorf("%s: %d fields, want 7 or more", name, len(f))
	}
	r, err1 := strconv.ParseInt(f[2], 10, 64)
	w, err2 := strconv.ParseInt(f[6], 10, 64)
	if err1 != nil || err2 != nil {
		return 0, 0, fmt.Errorf("%s: sectors %q and %q", name, f[2], f[6])
	}
	return r * 512, w * 512, nil // sectors of this file have 512 bytes whatever the device's have
}
