// What an administrator wants to know of a file of which only the Node.Key is known: where it is.
//
// The kernel has a name for a descriptor, but one that counts from the root of the mount it was opened on, which may be our
// detached copy of an export; and it may be the name of a file that was renamed or removed, or none at all. So the name is
// tried, as it is and below where the mount's directory is known to be, and believed when it leads to the file.

package vfs

import (
	"os"
	"strconv"

	"golang.org/x/sys/unix"

	"sluice/pkg/filecache"
)

// describeTries bounds the mounts of one file system that a name is looked for on.
const describeTries = 16

// FileInfo says which file a Node.Key names. Path is empty when no name is known that leads to it.
type FileInfo struct {
	Major, Minor uint32 // of the device
	Inode        uint64
	Path         string
}

// Describe looks for the file of a Node.Key, as the server, without opening it for reading or writing. It may wait for a disk.
func (n *Namespace) Describe(file filecache.Key) (info FileInfo, ok bool) {
	asRoot(func() error { //nolint:errcheck // there is none
		n.closing.RLock() // mounts stay open
		defer n.closing.RUnlock()
		tries := 0
		for tbl, m := range n.mountsOn(file.FS) {
			if tries++; tries > describeTries {
				break
			}
			if ok = m.describe(&file, tbl.where(m), &info) || ok; info.Path != "" {
				break
			}
		}
		return nil
	})
	return info, ok
}

// where is the directory that m's root is known by; "" if there is none.
func (t *mountTable) where(m *fsMount) string {
	if m == t.root {
		return m.tree.export.Path
	}
	for _, c := range t.byMnt {
		if c.m == m {
			return c.path
		}
	}
	return ""
}

// describe fills in what m shows of the file, and tells whether it is there.
func (m *fsMount) describe(file *filecache.Key, below string, info *FileInfo) bool {
	fd, err := m.openKey(file, unix.O_PATH)
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if unix.Fstat(fd, &st) != nil {
		return false
	}
	*info = FileInfo{Major: unix.Major(st.Dev), Minor: unix.Minor(st.Dev), Inode: st.Ino}
	name, err := os.Readlink("/proc/self/fd/" + strconv.Itoa(fd))
	if err != nil || name == "" || name[0] != '/' {
		return true
	}
	for _, path := range []string{name, below + name} {
		var named unix.Stat_t
		if unix.Lstat(path, &named) == nil && named.Ino == st.Ino && named.Dev == st.Dev {
			info.Path = path
			break
		}
	}
	return true
}
