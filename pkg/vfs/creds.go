// Credentials. The kernel decides every permission, so file-system calls run under the caller's fsuid, fsgid and groups,
// which belong to the OS thread. A thread keeps the last caller's credentials and switches only when the next one's
// differ: a switch costs some microseconds, and bursts are grouped by caller.
//
// A thread that does not have the credentials it should have would act for the wrong user. So each switch is verified, and
// when that fails the process ends: there is nothing it could be trusted with.
//
// Which capabilities: leaving fsuid 0 makes the kernel drop, from the thread's effective set, CAP_CHOWN, DAC_OVERRIDE,
// DAC_READ_SEARCH, FOWNER, FSETID, LINUX_IMMUTABLE, MAC_OVERRIDE and MKNOD, and coming back raises them again
// (capabilities(7), "Effect of user ID changes"). The kernel's server also takes CAP_SYS_RESOURCE from callers, which would
// let them use blocks reserved for root and go past quotas; setfsuid leaves it alone, so each thread gives it up for good.
// The uid 0 of a no_root_squash export thereby keeps to quotas too; ext4 still gives it the reserved blocks, by its uid.

package vfs

import (
	"fmt"
	"os"
	"runtime"
	"slices"
	"unsafe"

	"golang.org/x/sys/unix"
)

// kept is the credentials a thread has.
type kept struct {
	uid, gid uint32
	n        int
	groups   [MaxGroups]uint32
}

// initCreds records what the thread starts with and gives up CAP_SYS_RESOURCE. The thread is locked.
func (th *Thread) initCreds() error {
	if e := dropResource(); e != 0 {
		return fmt.Errorf("cannot give up CAP_SYS_RESOURCE: %w", e)
	}
	groups, err := unix.Getgroups()
	if err != nil {
		return err
	}
	if len(groups) > MaxGroups {
		// Nothing of the server's own needs them, and all that is kept must be comparable.
		if err := unix.Setgroups(nil); err != nil {
			return fmt.Errorf("cannot set groups: %w (run as root)", err)
		}
		groups = nil
	}
	uid, _, _ := unix.RawSyscall(unix.SYS_SETFSUID, setfsQuery, 0, 0)
	gid, _, _ := unix.RawSyscall(unix.SYS_SETFSGID, setfsQuery, 0, 0)
	th.kept = kept{uid: uint32(uid), gid: uint32(gid), n: len(groups)}
	for i, g := range groups {
		th.kept.groups[i] = uint32(g)
	}
	if os.Geteuid() != 0 {
		return fmt.Errorf("the server runs as uid %d: run it as root (it acts under its callers' ids)", os.Geteuid())
	}
	th.asServer()
	th.verify()
	return nil
}

func dropResource() unix.Errno {
	hdr := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if err := unix.Capget(&hdr, &data[0]); err != nil {
		return errnoOf(err)
	}
	data[0].Effective &^= 1 << unix.CAP_SYS_RESOURCE
	return errnoOf(unix.Capset(&hdr, &data[0]))
}

// become gives the thread a caller's credentials.
func (th *Thread) become(uid, gid uint32, groups []uint32) {
	k := &th.kept
	if k.uid == uid && k.gid == gid && slices.Equal(k.groups[:k.n], groups) {
		return
	}
	th.switches++
	if !slices.Equal(k.groups[:k.n], groups) {
		var p unsafe.Pointer
		if len(groups) > 0 {
			p = unsafe.Pointer(&groups[0])
		}
		// The raw call changes this thread alone, unlike syscall.Setgroups.
		if _, _, e := unix.RawSyscall(unix.SYS_SETGROUPS, uintptr(len(groups)), uintptr(p), 0); e != 0 {
			th.die("setgroups", e)
		}
		k.n = copy(k.groups[:], groups)
	}
	if k.gid != gid {
		unix.RawSyscall(unix.SYS_SETFSGID, uintptr(gid), 0, 0)
		k.gid = gid
	}
	// Last: from 0 to another uid drops the capabilities.
	if k.uid != uid {
		unix.RawSyscall(unix.SYS_SETFSUID, uintptr(uid), 0, 0)
		k.uid = uid
	}
	th.verify()
}

// asServer gives the thread the server's own uid, and with it the capability that open_by_handle_at needs. Group ids play
// no part in what the server does for itself, so they stay.
func (th *Thread) asServer() {
	if th.kept.uid == 0 {
		return
	}
	th.switches++
	unix.RawSyscall(unix.SYS_SETFSUID, 0, 0, 0)
	th.kept.uid = 0
	th.verify()
}

// runAsServer runs f as the server and comes back to the caller's credentials, for the data path.
func (th *Thread) runAsServer(f func() error) error {
	uid := th.kept.uid
	th.asServer()
	err := f()
	if uid != 0 {
		th.become(uid, th.kept.gid, th.kept.groups[:th.kept.n])
	}
	return err
}

// verify checks that the kernel has the ids this thread believes it has. setfsuid and setfsgid report no errors: asking
// with -1, which is never an id, is how their effect is known.
func (th *Thread) verify() {
	if uid, _, _ := unix.RawSyscall(unix.SYS_SETFSUID, setfsQuery, 0, 0); uint32(uid) != th.kept.uid {
		th.die("setfsuid", 0)
	}
	if gid, _, _ := unix.RawSyscall(unix.SYS_SETFSGID, setfsQuery, 0, 0); uint32(gid) != th.kept.gid {
		th.die("setfsgid", 0)
	}
}

// die ends the process with a message. It does not panic: a recover somewhere above would let the thread go on.
func (th *Thread) die(call string, e unix.Errno) {
	why := "the kernel did not take the ids"
	if e != 0 {
		why = e.Error()
	}
	fmt.Fprintf(os.Stderr, "sluice: fatal: %s to uid %d gid %d failed (%s) and this thread's credentials are unknown; "+
		"the server needs CAP_SETUID, CAP_SETGID and the CAP_FS_* capabilities: run it as root\n", call, th.kept.uid, th.kept.gid, why)
	if th.ns != nil && th.ns.onDie != nil {
		th.ns.onDie()
		runtime.Goexit() // tests: the goroutine is locked, so the thread ends with it
	}
	os.Exit(1)
}
