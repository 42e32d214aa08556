// Attributes: from statx to Attr.

package vfs

import (
	"golang.org/x/sys/unix"

	"sluice/pkg/filecache"
)

// types maps the S_IFMT bits, shifted down, to file types.
var types = [16]Type{
	unix.S_IFREG >> 12:  TypeReg,
	unix.S_IFDIR >> 12:  TypeDir,
	unix.S_IFBLK >> 12:  TypeBlk,
	unix.S_IFCHR >> 12:  TypeChr,
	unix.S_IFLNK >> 12:  TypeLnk,
	unix.S_IFSOCK >> 12: TypeSock,
	unix.S_IFIFO >> 12:  TypeFifo,
}

// fill converts what statx said.
func (a *Attr) fill(stx *unix.Statx_t, fsid uint64) {
	a.Type = types[stx.Mode>>12&15]
	a.Mode = uint32(stx.Mode & 0o7777)
	a.Nlink = stx.Nlink
	a.UID, a.GID = stx.Uid, stx.Gid
	a.Size = stx.Size
	a.Used = stx.Blocks * 512
	a.RdevMajor, a.RdevMinor = stx.Rdev_major, stx.Rdev_minor
	a.BlockSize = stx.Blksize
	a.FSID = fsid
	a.FileID = stx.Ino
	a.Atime = Time{stx.Atime.Sec, stx.Atime.Nsec}
	a.Mtime = Time{stx.Mtime.Sec, stx.Mtime.Nsec}
	a.Ctime = Time{stx.Ctime.Sec, stx.Ctime.Nsec}
	// The kernel's own server takes ctime too where a file system has no counter of changes that user space can read.
	a.Change = uint64(stx.Ctime.Sec)*1e9 + uint64(stx.Ctime.Nsec)
	a.Btime = Time{}
	if stx.Mask&unix.STATX_BTIME != 0 {
		a.Btime = Time{stx.Btime.Sec, stx.Btime.Nsec}
	}
	a.MountedOnFileID = stx.Ino
	a.MountPoint = stx.Attributes&unix.STATX_ATTR_MOUNT_ROOT != 0
	a.Held = false
}

// fsid is the fsid attribute of a node.
func (n Node) fsid() uint64 { return n.m.attrFSID(&n.f.Key) }

// stamp is what grants are checked against.
func stamp(stx *unix.Statx_t) filecache.Stamp {
	return filecache.Stamp{Mode: uint32(stx.Mode), UID: stx.Uid, GID: stx.Gid, CtimeSec: stx.Ctime.Sec, CtimeNsec: stx.Ctime.Nsec}
}

// stat reads a node's attributes to th.stx.
func (v *View) stat(n Node) error {
	if n.p != nil {
		return unix.EISDIR // nothing that asks gets here
	}
	e := v.th.statx(n.f.PathFD(), n.m.local)
	if e == 0 && v.gone(n.m) {
		e = unix.ESTALE
	}
	return v.stale(n, e)
}

// attr reads a node's attributes.
func (v *View) attr(n Node, a *Attr) error {
	held := v.heldFile(n) // first: who gives a delegation back has brought the file up to date before
	err := v.attrNow(n, a)
	a.Held = held
	return err
}

// attrNow is attr after the guard was asked.
func (v *View) attrNow(n Node, a *Attr) error {
	if n.p != nil {
		v.pseudoAttr(n.p, a)
		return nil
	}
	if err := v.stat(n); err != nil {
		a.Type = TypeNone
		return err
	}
	a.fill(&v.th.stx, n.fsid())
	n.m.mark(a, &n.f.Key)
	return nil
}

// mark completes the attributes of m's root; key is the file's.
func (m *fsMount) mark(a *Attr, key *filecache.Key) {
	if a.FileID == m.rootIno && m.mountedOn != 0 && *key == m.root {
		a.MountedOnFileID = m.mountedOn
	}
}

// gone tells that the file just looked at, to th.stx, has lost its last name and lives on only because something, such as
// this server, has it open. To a client of version 3 it is stale. One of version 4 may have opened it, and can still use
// and close it (RFC 8881 18.25.4 wants just that when RENAME goes over an open file), as with Linux; what nobody opened goes
// stale when the cache lets go of it. File systems of other kinds may show no links where there are some.
func (v *View) gone(m *fsMount) bool { return v.th.stx.Nlink == 0 && m.local && !v.c.V4 }

// stale turns an errno of a call on n's own descriptor into an error; a descriptor that went stale leaves the cache.
func (v *View) stale(n Node, e unix.Errno) error {
	if e == unix.ESTALE {
		v.ns.cfg.Cache.Forget(&n.f.Key)
	}
	return fail(e)
}

// Getattr returns a file's attributes. It needs no credentials: whoever holds the handle may ask.
func (v *View) Getattr(n Node) (a Attr, err error) {
	if err = v.guardGetattr(n); err != nil {
		return a, err
	}
	err = v.attrNow(n, &a)
	return a, err
}
