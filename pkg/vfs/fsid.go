// File-system ids: the 64 bits that name a file system in handles and in the fsid attribute. They come from what is stored
// in the file system itself, so that they are the same after a restart and on another device:
//
//   - fsid= of the export, where it is given
//   - the file system's UUID: FS_IOC_GETFSUUID (Linux 6.9), else XFS_IOC_FSGEOMETRY_V1
//   - f_fsid of statfs, unless it is made of the device number (XFS, FAT and others do that)
//   - the UUID that udev knows of the block device (/dev/disk/by-uuid)
//
// A mount below an export (crossmnt, nohide) is named by that and the handle of its root, so that a bind mount of a part
// of a file system has an id of its own. The subvolumes of a btrfs share a UUID; their number is in each kernel handle and
// goes into the fsid attribute, since inode numbers repeat from one to the next.

package vfs

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"unsafe"

	"github.com/dchest/siphash"
	"golang.org/x/sys/unix"

	"sluice/exports"
	"sluice/pkg/filecache"
)

const fsIocGetFSUUID = 0x80111500 // FS_IOC_GETFSUUID, _IOR(0x15, 0, 17)

// hashID is an unkeyed hash for ids that must come out the same on every server and start.
func hashID(kind string, parts ...[]byte) uint64 {
	b := []byte(kind)
	for _, p := range parts {
		b = binary.BigEndian.AppendUint32(b, uint32(len(p)))
		b = append(b, p...)
	}
	return siphash.Hash(0x736c756963652066, 0x696c652068616e64, b)
}

// exportID names an export in handles: by fsid= if it is a number, so that the handles survive a move of the directory;
// else by its path. A UUID may be on several paths, so the path counts with it.
func exportID(e *exports.Export) uint32 {
	switch e.FSID.Kind {
	case exports.FSIDRoot, exports.FSIDNum:
		return uint32(hashID("export number", binary.BigEndian.AppendUint32(nil, e.FSID.Num)))
	case exports.FSIDUUID:
		return uint32(hashID("export uuid", e.FSID.UUID[:], []byte(e.Path)))
	}
	return uint32(hashID("export path", []byte(e.Path)))
}

// fsIdentity gives what names the file system of an open file, or nil if nothing stable does. fd is not an O_PATH one.
func fsIdentity(fd int) []byte {
	var st unix.Stat_t
	var sf unix.Statfs_t
	if unix.Fstat(fd, &st) != nil || unix.Fstatfs(fd, &sf) != nil {
		return nil
	}
	var u struct {
		n uint8
		b [16]byte
	}
	if _, _, e := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), fsIocGetFSUUID, uintptr(unsafe.Pointer(&u))); e == 0 && u.n > 0 && u.b != [16]byte{} {
		return append([]byte("uuid:"), u.b[:min(int(u.n), len(u.b))]...)
	}
	if sf.Type == unix.XFS_SUPER_MAGIC {
		if b := xfsUUID(fd); b != nil {
			return append([]byte("uuid:"), b...)
		}
	}
	if v := uint64(uint32(sf.Fsid.Val[0])) | uint64(uint32(sf.Fsid.Val[1]))<<32; v != 0 && !isDeviceNumber(v, st.Dev) {
		return binary.BigEndian.AppendUint64([]byte("fsid:"), v)
	}
	if s := udevUUID(st.Dev); s != "" {
		return []byte("udev:" + s)
	}
	return nil
}

// isDeviceNumber tells whether f_fsid is one of the kernel's encodings of the device number.
func isDeviceNumber(fsid, dev uint64) bool {
	major, minor := uint64(unix.Major(dev)), uint64(unix.Minor(dev))
	huge := minor&0xff | major<<8 | minor&^0xff<<12 // huge_encode_dev
	return fsid == huge || fsid == dev || fsid == major<<20|minor
}

// xfsUUID asks XFS itself, for kernels without FS_IOC_GETFSUUID.
func xfsUUID(fd int) []byte {
	// struct xfs_fsop_geom_v1: eight words and four long words, then the UUID; 112 bytes. _IOR('X', 100, 112).
	var g [112]byte
	const call = 2<<30 | 112<<16 | 'X'<<8 | 100
	if _, _, e := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), call, uintptr(unsafe.Pointer(&g))); e != 0 {
		return nil
	}
	b := make([]byte, 16)
	copy(b, g[64:80])
	if [16]byte(b) == [16]byte{} {
		return nil
	}
	return b
}

// udevUUID finds the name under /dev/disk/by-uuid of a block device.
func udevUUID(dev uint64) string {
	const dir = "/dev/disk/by-uuid"
	names, err := os.ReadDir(dir)
	if err != nil {
		return ""
	}
	for _, d := range names {
		var st unix.Stat_t
		if unix.Stat(filepath.Join(dir, d.Name()), &st) == nil && st.Mode&unix.S_IFMT == unix.S_IFBLK && st.Rdev == dev {
			return d.Name()
		}
	}
	return ""
}

// rootID is the id of an export's own file system.
func rootID(fd int, e *exports.Export) (id uint64, err error) {
	switch e.FSID.Kind {
	case exports.FSIDRoot, exports.FSIDNum:
		return uint64(e.FSID.Num), nil // as the kernel's server shows it to clients
	case exports.FSIDUUID:
		return hashID("uuid", e.FSID.UUID[:]), nil
	}
	ident := fsIdentity(fd)
	if ident == nil {
		return 0, fmt.Errorf("its file system (%s) has no UUID to name it by in file handles: add fsid=NUMBER to the export", fsName(fd))
	}
	return hashID("file system", ident), nil
}

// childID is the id of a file system mounted below an export. root is its root's kernel handle.
func childID(fd int, root *filecache.Key) (uint64, error) {
	ident := fsIdentity(fd)
	if ident == nil {
		return 0, fmt.Errorf("its file system (%s) has no UUID to name it by in file handles: export it by itself, with fsid=NUMBER", fsName(fd))
	}
	return hashID("mount", ident, root.Bytes[:root.Len]), nil
}

// fsName gives a file system's type for messages.
func fsName(fd int) string {
	var sf unix.Statfs_t
	if unix.Fstatfs(fd, &sf) != nil {
		return "unknown"
	}
	return fsTypeName(int64(sf.Type))
}

func fsTypeName(magic int64) string {
	switch magic {
	case unix.OVERLAYFS_SUPER_MAGIC:
		return "overlayfs"
	case unix.FUSE_SUPER_MAGIC:
		return "FUSE"
	case unix.TMPFS_MAGIC:
		return "tmpfs"
	case unix.EXT4_SUPER_MAGIC:
		return "ext4"
	case unix.XFS_SUPER_MAGIC:
		return "XFS"
	case unix.BTRFS_SUPER_MAGIC:
		return "btrfs"
	case unix.PROC_SUPER_MAGIC:
		return "proc"
	case unix.SYSFS_MAGIC:
		return "sysfs"
	case unix.NFS_SUPER_MAGIC:
		return "NFS"
	}
	return fmt.Sprintf("type 0x%x", magic)
}

// isLocal says that statx of an open file never waits: the inode is in memory and there is nobody to ask.
func isLocal(magic int64) bool {
	switch magic {
	case unix.EXT4_SUPER_MAGIC, unix.XFS_SUPER_MAGIC, unix.BTRFS_SUPER_MAGIC, unix.TMPFS_MAGIC, unix.F2FS_SUPER_MAGIC:
		return true
	}
	return false
}

// dirSyncCovers says that fsync of a directory puts a file just made in it on stable storage too, since one transaction
// made both and the log is written in order. It does for ext3, ext4, XFS and btrfs; tmpfs has nothing to write.
func dirSyncCovers(magic int64, dev uint64) bool {
	switch magic {
	case unix.XFS_SUPER_MAGIC, unix.BTRFS_SUPER_MAGIC, unix.TMPFS_MAGIC:
		return true
	case unix.EXT4_SUPER_MAGIC:
		// Without a journal there are no transactions.
		link, err := os.Readlink(fmt.Sprintf("/sys/dev/block/%d:%d", unix.Major(dev), unix.Minor(dev)))
		if err != nil {
			return false
		}
		_, err = os.Stat("/sys/fs/ext4/" + strings.ReplaceAll(filepath.Base(link), "!", "_") + "/journal_task")
		return !errors.Is(err, fs.ErrNotExist)
	}
	return false
}
