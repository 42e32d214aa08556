// Permissions, as the kernel's server has them (fs/nfsd/vfs.c, nfsd_permission and nfsd_access).
//
// READ and WRITE are allowed to a file's owner whatever the mode says: a client checks when a file is opened, and a file
// may be created read-only and then written. READ is allowed to who may execute. All else is for the kernel to decide,
// under the caller's credentials; what it granted is remembered per file, and holds as long as mode, owner, group and
// change time stay what they were.

package vfs

import (
	"time"

	"golang.org/x/sys/unix"

	"sluice/pkg/filecache"
)

// grantAge is how old a change time must be before a grant is remembered under it. A younger one could be that of a later
// change too, where the file system's clock is coarse (jiffies, or the 2 s of FAT).
const grantAge = 2 * time.Second

// may asks whether the caller has a permission on a file with the attributes in th.stx. It returns 0, or why not.
func (v *View) may(f *filecache.File, who *filecache.Caller, s *filecache.Stamp, want filecache.May) unix.Errno {
	if f.Grants.Has(*who, s, want) {
		return 0
	}
	var mode uint32
	switch want {
	case filecache.MayRead:
		mode = unix.R_OK
	case filecache.MayWrite:
		mode = unix.W_OK
	case filecache.MayExec:
		mode = unix.X_OK
	}
	v.become()
	if e := v.th.access(f.PathFD(), mode); e != 0 {
		return e
	}
	if time.Since(time.Unix(s.CtimeSec, int64(s.CtimeNsec))) >= grantAge {
		f.Grants.Add(*who, s, want)
	}
	return 0
}

// mayRead decides a READ of the file whose attributes are in th.stx.
func (v *View) mayRead(f *filecache.File) error {
	if v.th.stx.Uid == v.uid {
		return nil
	}
	who, s := v.who(), stamp(&v.th.stx)
	e := v.may(f, &who, &s, filecache.MayRead)
	if e == unix.EACCES {
		e = v.may(f, &who, &s, filecache.MayExec)
	}
	return fail(e)
}

// mayWrite decides a WRITE or a change of size. The kernel asks for the flags of chattr(1) when a file is opened, and the
// descriptors here may be older than the flag.
func (v *View) mayWrite(f *filecache.File) error {
	if v.th.stx.Attributes&(unix.STATX_ATTR_IMMUTABLE|unix.STATX_ATTR_APPEND) != 0 {
		return unix.EPERM // version 3 and 4 have no writing at the end alone; as nfsd_permission and nfsd_open
	}
	if v.th.stx.Uid == v.uid {
		return nil
	}
	who, s := v.who(), stamp(&v.th.stx)
	return fail(v.may(f, &who, &s, filecache.MayWrite))
}

// Access returns the rights among mask that the caller has. Rights that make no sense for the file's type are not granted.
func (v *View) Access(n Node, mask uint32) (granted uint32, a Attr, err error) {
	if n.p != nil {
		v.pseudoAttr(n.p, &a)
		return mask & (AccessRead | AccessLookup), a, nil
	}
	if err = v.attr(n, &a); err != nil {
		return 0, a, err
	}
	// Which permissions each right needs, by RFC 1813 3.3.4 and nfsd's tables.
	const write = AccessModify | AccessExtend
	var read, change, exec uint32
	dir := a.Type == TypeDir
	if dir {
		read, change, exec = AccessRead, write|AccessDelete, AccessLookup
	} else {
		read, change, exec = AccessRead, write, AccessExecute
	}
	who, s := v.who(), stamp(&v.th.stx)
	if mask&read != 0 && v.may(n.f, &who, &s, filecache.MayRead) == 0 {
		granted |= read
	}
	mayExec := false
	if mask&exec != 0 || dir && mask&change != 0 {
		// Without any x bit nobody may execute, root and access lists included; this saves the commonest question.
		mayExec = (dir || a.Mode&0o111 != 0) && v.may(n.f, &who, &s, filecache.MayExec) == 0
		if mayExec {
			granted |= mask & exec
		}
	}
	if mask&change != 0 && !v.ro && (!dir || mayExec) && v.may(n.f, &who, &s, filecache.MayWrite) == 0 {
		granted |= mask & change
	}
	return granted, a, nil
}

// recentReads remembers which files this thread has lately served to whom, so that the permission check before a READ can
// be left to the one after it. A wrong answer costs a check, never a permission.
type recentReads [64]struct {
	f   *filecache.File
	who filecache.Caller
}

func (r *recentReads) slot(f *filecache.File) int {
	return int(f.Key.Bytes[0]^f.Key.Bytes[4]^f.Key.Bytes[1]<<1) % len(r)
}

func (r *recentReads) has(f *filecache.File, who *filecache.Caller) bool {
	e := &r[r.slot(f)]
	return e.f == f && e.who == *who
}

func (r *recentReads) add(f *filecache.File, who *filecache.Caller) {
	e := &r[r.slot(f)]
	e.f, e.who = f, *who
}
