// Gates: which calls may run where they arrive. A call that waits for a disk on a service thread holds up every connection
// that the thread serves, but while all is in memory, which is the rule, handing calls over costs more than they do. No
// system call tells beforehand, so each file system has a gate: a call that waited closes it for a moment, and until it
// opens again service threads leave what may sleep to the slow pool. At worst a thread waits once per gateTime.

package vfs

import (
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

const (
	gateSlow = int64(time.Millisecond)       // a call that took longer, and read from a disk, closes the gate
	gateStop = int64(20 * time.Millisecond)  // a call that took longer than this closes it in any case
	gateTime = int64(100 * time.Millisecond) // for so long
)

type gate struct{ until atomic.Int64 }

func (g *gate) closed() bool {
	u := g.until.Load()
	return u != 0 && nanotime() < u
}

// done notes how long a call took that began at start. Time alone does not tell waiting from having been preempted, which
// on a busy machine is common: the thread's count of blocks read does.
func (g *gate) done(th *Thread, start int64) {
	now := nanotime()
	if now-start <= gateSlow {
		return
	}
	waited := now-start > gateStop
	var ru unix.Rusage
	if unix.Getrusage(unix.RUSAGE_THREAD, &ru) == nil && ru.Inblock != th.inblock {
		th.inblock = ru.Inblock
		waited = true
	}
	if waited {
		g.until.Store(now + gateTime)
	}
}

var epoch = time.Now()

// nanotime is the monotonic clock in nanoseconds, never 0.
func nanotime() int64 { return int64(time.Since(epoch)) + 1 }
