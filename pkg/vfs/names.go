// Names lately looked up. name_to_handle_at gives a handle but no attributes, and statx attributes but no handle; for a name
// that this thread has looked up before, statx alone does: if it finds the same inode, of the same birth, on the same mount,
// then the handle is the one from before. The kernel walks the name and checks permission either way.
//
// An inode number is used again after its file is gone, so birth times tell files apart. They could only repeat within one
// tick of the file system's clock: a file younger than that when it is noted is not noted. Should a clock that was set back
// repeat one all the same, then the old handle is stale (its generation differs), and a stale handle makes all notes void.
//
// Service threads only, which is where the hot names are; each has some 50 KiB of notes.

package vfs

import (
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"sluice/pkg/filecache"
)

const (
	noteCount = 256
	noteName  = 48 // bytes of the longest name noted
	noteAge   = 2 * time.Second
)

type note struct {
	dir    filecache.Key
	ino    uint64
	bsec   int64
	bnsec  uint32
	stale  uint32 // Namespace.stale when it was noted
	fsid   uint64
	n      uint8
	name   [noteName]byte
	handle Handle
}

type notes [noteCount]note

func noteSlot(dir *filecache.Key, name []byte) int {
	h := word(dir.Bytes[:])*0x9E3779B97F4A7C15 ^ dir.FS
	for _, c := range name {
		h = (h ^ uint64(c)) * 0x100000001b3 // FNV-1a
	}
	return int(h >> 56)
}

// noted answers a LOOKUP from the thread's notes, if it can: then e is complete.
func (v *View) noted(dir Node, name []byte, e *Entry) bool {
	th, m := v.th, dir.m
	if v.c.MayBlock || th.notes == nil || len(name) > noteName {
		return false
	}
	x := &th.notes[noteSlot(&dir.f.Key, name)]
	if int(x.n) != len(name) || string(x.name[:x.n]) != string(name) || x.dir != dir.f.Key || x.stale != v.ns.stale.Load() || m.gate.closed() {
		return false
	}
	held := v.heldNoted(m, &x.handle)
	start := nanotime()
	err := th.statxName(dir.f.PathFD(), name)
	m.gate.done(th, start)
	s := &th.stx
	if err != 0 || s.Ino != x.ino || s.Btime.Sec != x.bsec || s.Btime.Nsec != x.bnsec || s.Mnt_id != uint64(m.mntID) || s.Mask&unix.STATX_BTIME == 0 {
		return false
	}
	e.Attr.fill(s, x.fsid)
	e.Attr.Held = held && e.Attr.Type == TypeReg
	e.Handle = x.handle
	return true
}

// settledBirth tells whether a file's birth time is known and names it for good: no other of its number can have the same.
func settledBirth(s *unix.Statx_t) bool {
	return s.Mask&unix.STATX_BTIME != 0 && time.Since(time.Unix(s.Btime.Sec, int64(s.Btime.Nsec))) >= noteAge
}

// note keeps what a LOOKUP has found; th.stx has the file's attributes.
func (v *View) note(dir Node, name []byte, n Node, e *Entry) {
	th, s := v.th, &v.th.stx
	if v.c.MayBlock || len(name) > noteName || n.m != dir.m || n.m.connect || !settledBirth(s) {
		return
	}
	if th.notes == nil {
		th.notes = new(notes)
	}
	x := &th.notes[noteSlot(&dir.f.Key, name)]
	x.dir, x.ino, x.bsec, x.bnsec = dir.f.Key, s.Ino, s.Btime.Sec, s.Btime.Nsec
	x.stale, x.fsid = v.ns.stale.Load(), e.Attr.FSID
	x.n = uint8(copy(x.name[:], name))
	x.handle = e.Handle
}

// statxName reads the attributes of a name below dirfd into th.stx, with birth time and mount.
func (th *Thread) statxName(dirfd int, name []byte) unix.Errno {
	cname(th.name[:], name)
	for {
		_, _, e := unix.Syscall6(unix.SYS_STATX, uintptr(dirfd), uintptr(unsafe.Pointer(&th.name[0])), unix.AT_SYMLINK_NOFOLLOW|unix.AT_NO_AUTOMOUNT,
			unix.STATX_BASIC_STATS|unix.STATX_BTIME|unix.STATX_MNT_ID, uintptr(unsafe.Pointer(&th.stx)), 0)
		if e != unix.EINTR {
			return e
		}
	}
}
