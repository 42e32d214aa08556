// SETATTR.
//
// The kernel's own server sets all attributes in one transaction; from user space it takes a call for each: size, owner,
// mode, times. That order lets each be judged by the attributes it would be judged by there (a new owner's file is no
// longer the old one's to change, which only the superuser meets), and leaves the times as asked. What can be refused is
// asked for first, so that a refusal rarely leaves half of a change behind.

package vfs

import (
	"math"

	"golang.org/x/sys/unix"
)

// Setattr sets attributes.
func (v *View) Setattr(n Node, s *SetAttr) (c Change, err error) {
	if err = v.begin(n.m); err != nil {
		return c, err
	}
	mu, err := v.lock(&n.f.Key)
	if err != nil {
		return c, err
	}
	span := v.ns.spans.begin(&n.f.Key)
	if c.BeforeOK = v.attr(n, &c.Before) == nil; !c.BeforeOK {
		err = ErrStale
	} else if s.Guard && (uint32(s.GuardTime.Sec) != uint32(c.Before.Ctime.Sec) || s.GuardTime.Nsec != c.Before.Ctime.Nsec) {
		err = ErrNotSync
	} else if err = v.maySet(n, s, &c.Before); err == nil { // who may not calls no delegation back
		if err = v.guardSetattr(n, s.SetSize); err == nil {
			err = v.set(n, s, &c.Before)
		}
	}
	c.AfterOK = v.attr(n, &c.After) == nil
	if !v.ns.spans.end(&n.f.Key, span) {
		c.Before, c.BeforeOK = Attr{}, false
	}
	mu.Unlock()
	if err == nil && !s.empty() {
		err = v.syncFile(n)
	}
	return c, err
}

func (s *SetAttr) empty() bool {
	return !s.SetMode && !s.SetUID && !s.SetGID && !s.SetSize && s.AtimeHow == TimeKeep && s.MtimeHow == TimeKeep
}

// setattr is Setattr of a file just made. a is its attributes now, and v.th.stx too.
func (v *View) setattr(n Node, s *SetAttr, a *Attr) error {
	if err := v.maySet(n, s, a); err != nil {
		return err
	}
	return v.set(n, s, a)
}

// maySet asks for what can be known before anything is set. Only owners may change mode, owner and given times, and the
// kernel has the last word. a is the file's attributes now, and v.th.stx too.
func (v *View) maySet(n Node, s *SetAttr, a *Attr) error {
	if s.SetSize {
		if err := regular(n); err != nil {
			return err
		}
		if s.Size > math.MaxInt64 {
			return unix.EFBIG
		}
		if err := v.mayWrite(n.f); err != nil {
			return err
		}
	}
	switch {
	case v.uid == 0 || v.uid == a.UID:
		return nil
	case s.SetMode && n.Type() != TypeLnk, s.SetUID, s.SetGID && s.GID != a.GID, s.MtimeHow == TimeClient, s.AtimeHow == TimeClient:
		return unix.EPERM
	case !s.SetSize && (s.AtimeHow == TimeServer || s.MtimeHow == TimeServer):
		return v.mayWrite(n.f)
	}
	return nil
}

// set does the work, when it may be done.
func (v *View) set(n Node, s *SetAttr, a *Attr) error {
	th, fd := v.th, n.f.PathFD()
	if s.SetSize {
		if err := v.truncate(n, s.Size); err != nil {
			return err
		}
	}
	v.become()
	uid, gid := -1, -1
	if s.SetUID {
		uid = int(s.UID)
	}
	if s.SetGID {
		gid = int(s.GID)
	}
	mode := (s.Mode&^s.KeepMode | a.Mode&s.KeepMode) & 0o7777
	if s.SetUID || s.SetGID {
		if s.SetUID && s.UID == math.MaxUint32 || s.SetGID && s.GID == math.MaxUint32 {
			return unix.EINVAL // chown would leave it as it is
		}
		if err := unix.Fchownat(fd, "", uid, gid, unix.AT_EMPTY_PATH); err != nil {
			return fail(errnoOf(err))
		}
		if n.Type() != TypeDir {
			// A new owner must not get a set-user-ID file made for him (fs/nfsd/vfs.c, nfsd_sanitize_attrs).
			mode &^= unix.S_ISUID
			if mode&unix.S_IXGRP != 0 {
				mode &^= unix.S_ISGID
			}
		}
	}
	if s.SetMode && n.Type() != TypeLnk { // Linux has no modes of links, and its server ignores them
		if e := th.chmod(fd, mode); e != 0 {
			return fail(e)
		}
	}
	return v.setTimes(n, s, a)
}

// truncate sets a regular file's size. The caller's permission has been checked; it runs under the caller's credentials, so
// that the kernel clears set-user-ID, and through a descriptor opened before, so that owners can truncate files that they
// made read-only.
func (v *View) truncate(n Node, size uint64) error {
	wfd := -1
	err := v.th.runAsServer(func() (err error) {
		wfd, err = n.f.Writer()
		return err
	})
	if err != nil {
		return v.dataError(n, err)
	}
	v.become()
	return fail(errnoOf(retry(func() error { return unix.Ftruncate(wfd, int64(size)) })))
}

// setTimes sets times.
//
// The kernel lets whoever may write set both times to now, and only the owner anything else. Its server also lets writers
// set just one of them to the server's time; utimensat has no such case, so the server does that for them.
func (v *View) setTimes(n Node, s *SetAttr, a *Attr) error {
	ah, mh := s.AtimeHow, s.MtimeHow
	if s.SetSize && mh == TimeServer {
		mh = TimeKeep // the change of size did it, and asks for no more permission
	}
	if ah == TimeKeep && mh == TimeKeep {
		return nil
	}
	th := v.th
	spec := func(how TimeHow, t Time) unix.Timespec {
		switch how {
		case TimeServer:
			return unix.Timespec{Nsec: unix.UTIME_NOW}
		case TimeClient:
			return unix.Timespec{Sec: t.Sec, Nsec: int64(t.Nsec)}
		}
		return unix.Timespec{Nsec: unix.UTIME_OMIT}
	}
	if ah == TimeClient && s.Atime.Nsec >= 1e9 || mh == TimeClient && s.Mtime.Nsec >= 1e9 {
		return unix.EINVAL
	}
	th.times[0], th.times[1] = spec(ah, s.Atime), spec(mh, s.Mtime)
	one := ah != TimeClient && mh != TimeClient && ah != mh
	if one && v.uid != 0 && v.uid != a.UID { // maySet has asked whether he may write
		return th.runAsServer(func() error { return fail(th.utimes(n.f.PathFD())) })
	}
	v.become()
	return fail(th.utimes(n.f.PathFD()))
}
