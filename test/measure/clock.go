package measure

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// ProcessTime returns the seconds of processor time that process pid has used
// so far, its threads included, those that ended too. It asks the process's CPU
// clock (clock_getcpuclockid(3)), which counts nanoseconds: for runs too short
// for ProcessCPU. It does not tell user from system time.
func ProcessTime(pid int) (float64, error) {
	const sched = 2 // the kernel's CPUCLOCK_SCHED
	var t unix.Timespec
	if err := unix.ClockGettime(int32(^pid<<3|sched), &t); err != nil {
		return 0, fmt.Errorf("CPU clock of process %d: %w", pid, err)
	}
	return float64(t.Nano()) / 1e9, nil
}
