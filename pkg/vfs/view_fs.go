// FSSTAT, FSINFO and PATHCONF.

package vfs

import (
	"math"

	"golang.org/x/sys/unix"
)

// Fsstat returns the state of the file system that n is on.
func (v *View) Fsstat(n Node) (s FSStat, err error) {
	if n.p != nil {
		v.pseudoAttr(n.p, &s.Attr)
		return s, nil
	}
	if !v.mayBlock(n.m) {
		return s, ErrWouldBlock
	}
	var f unix.Statfs_t
	if err := retry(func() error { return unix.Fstatfs(n.f.PathFD(), &f) }); err != nil {
		return s, v.stale(n, errnoOf(err))
	}
	// Sizes are in units of f_frsize; file systems that have no number of files say 0 of both.
	unit := uint64(f.Frsize)
	if unit == 0 {
		unit = uint64(f.Bsize)
	}
	s.Tbytes, s.Fbytes, s.Abytes = f.Blocks*unit, f.Bfree*unit, f.Bavail*unit
	s.BlockSize = uint32(f.Bsize)
	s.Tfiles, s.Ffiles, s.Afiles = f.Files, f.Ffree, f.Ffree
	v.attr(n, &s.Attr) //nolint:errcheck // optional
	return s, nil
}

// Fsinfo returns the server's limits.
func (v *View) Fsinfo(n Node) (FSInfo, error) {
	c := &v.ns.cfg
	i := FSInfo{
		RtMax: c.MaxRead, RtPref: c.MaxRead, RtMult: 4096,
		WtMax: c.MaxWrite, WtPref: c.MaxWrite, WtMult: 4096,
		DtPref:      c.DirPref,
		MaxFileSize: math.MaxInt64,
		TimeDelta:   Time{Nsec: 1},
		Link:        true, Symlink: true, Homogeneous: true, CanSetTime: true,
	}
	if n.p == nil && n.m.magic == unix.MSDOS_SUPER_MAGIC {
		i.Link, i.Symlink = false, false
	}
	err := v.attr(n, &i.Attr)
	return i, err
}

// Pathconf returns the limits of the file system that n is on. Longer names are refused, never cut (NoTrunc), and only the
// superuser gives files away.
func (v *View) Pathconf(n Node) (p PathConf, err error) {
	if n.p != nil {
		p = PathConf{LinkMax: 1, NameMax: MaxName, NoTrunc: true, ChownRestricted: true, CasePreserving: true}
		v.pseudoAttr(n.p, &p.Attr)
		return p, nil
	}
	if !v.mayBlock(n.m) {
		return p, ErrWouldBlock
	}
	var f unix.Statfs_t
	if err := retry(func() error { return unix.Fstatfs(n.f.PathFD(), &f) }); err != nil {
		return p, v.stale(n, errnoOf(err))
	}
	p = PathConf{LinkMax: linkMax(int64(f.Type)), NameMax: MaxName, NoTrunc: true, ChownRestricted: true, CasePreserving: true}
	if f.Namelen > 0 && f.Namelen < MaxName {
		p.NameMax = uint32(f.Namelen)
	}
	p.CaseInsensitive = f.Type == unix.MSDOS_SUPER_MAGIC
	v.attr(n, &p.Attr) //nolint:errcheck // optional
	return p, nil
}

// linkMax is how many links a file can have. The kernel has no call that tells.
func linkMax(magic int64) uint32 {
	switch magic {
	case unix.EXT4_SUPER_MAGIC:
		return 65000
	case unix.BTRFS_SUPER_MAGIC:
		return 65535
	case unix.XFS_SUPER_MAGIC, unix.TMPFS_MAGIC:
		return math.MaxInt32
	case unix.MSDOS_SUPER_MAGIC:
		return 1
	}
	return 255 // as the kernel's server says of those that it does not know
}
