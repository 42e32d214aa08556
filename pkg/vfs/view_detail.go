// The quick way to an entry's handle and attributes: two walks by name, or one, instead of an open descriptor.
//
// statx and name_to_handle_at each walk the name, so that it may lead to two files if it is replaced in between. The inode
// number in the directory, the one that statx gives and the one within the handle must be the same; otherwise, and where
// handles do not show it, one descriptor serves both (view_readdir.go). What is left is a file that was removed and another
// made with its inode number within microseconds: then the handle is the new file's, and the attributes are what the name
// had a moment ago, as they are in any cache. What is kept then is never found again: the old file's birth is over.
//
// A handle that was found is kept under inode number and birth time, which name a file as names.go has it: listing a
// directory again takes one statx for each entry.

package vfs

import (
	"encoding/binary"
	"sync"

	"golang.org/x/sys/unix"

	"sluice/pkg/filecache"
)

// handleIno reads the inode number out of a kernel handle, for the file systems whose handles are known to the letter.
func handleIno(magic int64, k *filecache.Key) (ino uint64, ok bool) {
	const genXFS64 = 0x81 // XFS, large inode numbers: number, generation
	b := k.Bytes[:k.Len]
	switch {
	case magic == unix.TMPFS_MAGIC && k.Type == 1 && len(b) == 12: // generation, number in two words
		return uint64(binary.NativeEndian.Uint32(b[4:])) | uint64(binary.NativeEndian.Uint32(b[8:]))<<32, true
	case magic == unix.XFS_SUPER_MAGIC && k.Type == genXFS64 && len(b) >= 12, magic == unix.BTRFS_SUPER_MAGIC && len(b) >= 20:
		return binary.NativeEndian.Uint64(b), true
	case (magic == unix.EXT4_SUPER_MAGIC || magic == unix.XFS_SUPER_MAGIC || magic == unix.F2FS_SUPER_MAGIC) && k.Type == 1 && len(b) == 8:
		return uint64(binary.NativeEndian.Uint32(b)), true // FILEID_INO32_GEN
	}
	return 0, false
}

// detailByName completes an entry, or reports that it takes a descriptor.
func (v *View) detailByName(dir Node, d *DirEntry) bool {
	th, m := v.th, dir.m
	if m.connect || isDotDot(d.Name) || th.statxName(dir.f.PathFD(), d.Name) != 0 {
		return false
	}
	s := &th.stx
	if s.Ino != d.FileID || s.Mask&unix.STATX_MNT_ID == 0 || s.Mnt_id != uint64(m.mntID) {
		return false
	}
	if !v.ns.births.find(v, m) {
		if th.nameToHandle(dir.f.PathFD(), d.Name, 0) != 0 || th.mntID != m.mntID || !v.foundKey(m) {
			return false
		}
		if ino, ok := handleIno(m.magic, &th.key); !ok || ino != d.FileID {
			return false
		}
		v.ns.births.add(v, m)
	}
	v.fillEntry(dir, d)
	return true
}

// fillEntry completes an entry from th.stx and th.key.
func (v *View) fillEntry(dir Node, d *DirEntry) {
	th, m := v.th, dir.m
	d.Attr.fill(&th.stx, m.attrFSID(&th.key))
	m.mark(&d.Attr, &th.key)
	v.heldEntry(dir, d)
	v.ns.cfg.HandleKey.encode(&d.Handle, dir.exp.id, m.id, &th.key)
}

const (
	birthSlots = 1 << 14 // entries kept; 1.4 MiB
	birthLocks = 64
)

// births are the handles of entries lately listed. There are none of btrfs, where a snapshot repeats number and birth.
type births struct {
	once  sync.Once
	locks [birthLocks]sync.Mutex // lock i guards the slots whose number is i modulo birthLocks
	slots []birth
}

type birth struct {
	ino   uint64 // 0: free
	bsec  int64
	bnsec uint32
	stale uint32 // Namespace.stale when it was noted
	key   filecache.Key
}

// slot finds the place for the file in th.stx on m, and locks it.
func (b *births) slot(v *View, m *fsMount) (*birth, *sync.Mutex) {
	b.once.Do(func() { b.slots = make([]birth, birthSlots) })
	i := (v.th.stx.Ino ^ m.cacheFS*0x9E3779B97F4A7C15) % birthSlots // neighbours in number are neighbours in a directory
	l := &b.locks[i%birthLocks]
	l.Lock()
	return &b.slots[i], l
}

// find puts the key of the file in th.stx into th.key, if it is known.
func (b *births) find(v *View, m *fsMount) bool {
	s := &v.th.stx
	if s.Mask&unix.STATX_BTIME == 0 || m.magic == unix.BTRFS_SUPER_MAGIC {
		return false
	}
	x, l := b.slot(v, m)
	defer l.Unlock()
	if x.ino != s.Ino || x.bsec != s.Btime.Sec || x.bnsec != s.Btime.Nsec || x.key.FS != m.cacheFS || x.stale != v.ns.stale.Load() {
		return false
	}
	v.th.key = x.key
	return true
}

// add notes that the file in th.stx has the key in th.key.
func (b *births) add(v *View, m *fsMount) {
	s := &v.th.stx
	if s.Ino == 0 || m.magic == unix.BTRFS_SUPER_MAGIC || !settledBirth(s) {
		return
	}
	x, l := b.slot(v, m)
	*x = birth{ino: s.Ino, bsec: s.Btime.Sec, bnsec: s.Btime.Nsec, stale: v.ns.stale.Load(), key: v.th.key}
	l.Unlock()
}
