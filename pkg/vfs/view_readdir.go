// READDIR and READDIRPLUS.
//
// Each call opens the directory anew under the caller's credentials (the kernel decides whether it may be read), goes to
// the cookie, which is the file system's own position behind an entry, and lists until the reply is full. Nothing is kept
// between calls and nothing is locked: a file system's positions stay valid while names come and go, so that every name
// that is there throughout is listed exactly once. The verifier is always zero and never checked, as with the kernel's
// server: a client has no use for being told that a directory changed in the middle of a listing.

package vfs

import (
	"bytes"
	"encoding/binary"
	"math"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	maxDirBuf    = 64 << 10
	minDirBuf    = 512 // the longest name fits
	direntHeader = 19  // struct linux_dirent64 up to d_name
)

// Readdir lists a directory from a cookie, until emit returns false (that entry does not count as listed).
func (v *View) Readdir(dir Node, q *ReaddirReq, emit func(*DirEntry) bool) (r ReaddirRes, err error) {
	if dir.Type() != TypeDir {
		v.attr(dir, &r.Dir) //nolint:errcheck // optional
		return r, unix.ENOTDIR
	}
	if dir.p != nil {
		return v.pseudoList(dir.p, q, emit)
	}
	if !v.c.MayBlock {
		return r, ErrWouldBlock
	}
	r.EOF, err = v.list(dir, q, emit)
	v.attr(dir, &r.Dir) //nolint:errcheck // optional
	return r, err
}

func (v *View) list(dir Node, q *ReaddirReq, emit func(*DirEntry) bool) (eof bool, err error) {
	th := v.th
	v.become()
	fd, err := v.ns.cfg.Cache.Room(true, func() (int, error) {
		fd, e := th.reopen(dir.f.PathFD(), unix.O_RDONLY|unix.O_DIRECTORY)
		if e != 0 {
			return -1, e
		}
		return fd, nil
	})
	if err != nil {
		return false, v.stale(dir, errnoOf(err))
	}
	defer unix.Close(fd)
	if q.Cookie != 0 {
		if q.Cookie > math.MaxInt64 {
			return false, ErrBadCookie
		}
		if _, err := unix.Seek(fd, int64(q.Cookie), unix.SEEK_SET); err != nil {
			if err == unix.EINVAL {
				return false, ErrBadCookie
			}
			return false, fail(errnoOf(err))
		}
	}
	// What is read past what the client takes is read again for its next call.
	size := maxDirBuf
	if q.Want > 0 {
		size = min(max(q.Want, minDirBuf), maxDirBuf)
	}
	if th.dirbuf == nil {
		th.dirbuf = make([]byte, maxDirBuf)
	}
	for {
		n, _, e := unix.Syscall(unix.SYS_GETDENTS64, uintptr(fd), uintptr(unsafe.Pointer(&th.dirbuf[0])), uintptr(size))
		switch e {
		case 0:
		case unix.EINTR:
			continue
		case unix.ENOENT: // the directory was removed
			return false, ErrStale
		default:
			return false, fail(e)
		}
		if n == 0 {
			return true, nil
		}
		for b := th.dirbuf[:n]; len(b) >= direntHeader; {
			l := int(binary.NativeEndian.Uint16(b[16:]))
			if l < direntHeader || l > len(b) {
				return false, unix.EIO
			}
			d := &th.entry
			d.FileID = binary.NativeEndian.Uint64(b)
			d.Cookie = binary.NativeEndian.Uint64(b[8:])
			d.Name = b[direntHeader:l]
			if i := bytes.IndexByte(d.Name, 0); i >= 0 {
				d.Name = d.Name[:i]
			}
			b = b[l:]
			for ended, now := v.ended(), uint64(0); ; ended = now {
				d.Handle.Len, d.Attr.Type, d.Attr.Held, d.Err = 0, TypeNone, false, nil
				v.detail(dir, d, q.Plus)
				if now = v.ended(); now == ended || !q.Plus {
					break
				}
			}
			held := th.npin
			more := emit(d)
			if th.npin > held { // EntryNode
				th.drop(th.pinned[held])
				v.become()
			}
			if !more {
				return false, nil
			}
		}
	}
}

// detail completes an entry: handle and attributes, as far as they can be had. A name that was just removed, that is a
// mount point, or in a directory that may be read but not searched, has none; the client looks it up when it needs to.
func (v *View) detail(dir Node, d *DirEntry, plus bool) {
	th, m := v.th, dir.m
	root := isDotDot(d.Name) && dir.isRoot()
	if root || plus && isDot(d.Name) {
		// The export's own directory is its own parent: what is above it is not the client's business.
		var a Attr
		if v.attr(dir, &a) != nil {
			return
		}
		d.FileID = a.FileID
		if plus {
			d.Attr = a
			v.handle(&d.Handle, dir)
		}
		return
	}
	if !plus || v.detailByName(dir, d) {
		return
	}
	if isDotDot(d.Name) && dir.wayOut() {
		if n, err := v.find(dir, d.Name); err == nil {
			if v.attr(n, &d.Attr) == nil {
				v.handle(&d.Handle, n)
			}
			v.th.drop(n.f)
		}
		return
	}
	// One descriptor for both, so that they are the same file's.
	fd, e := th.openat(dir.f.PathFD(), d.Name, unix.O_PATH)
	if e != 0 {
		d.Err = e
		return
	}
	defer unix.Close(fd)
	var he unix.Errno
	if m.connect {
		he = th.nameToHandle(dir.f.PathFD(), d.Name, atHandleConnect)
	} else {
		he = th.fdToHandle(fd, 0)
	}
	if v.c.V4 && (he == unix.EOPNOTSUPP || he == 0 && th.mntID != m.mntID) && !isDotDot(d.Name) {
		v.detailMount(dir, d)
		return
	}
	if he != 0 {
		return
	}
	if th.mntID != m.mntID || !v.foundKey(m) || th.statx(fd, m.local) != 0 {
		return
	}
	if th.stx.Ino != d.FileID && !isDotDot(d.Name) {
		return // replaced since it was listed
	}
	v.fillEntry(dir, d)
}

// detailMount is detail of a mount point, for version 4: what is mounted there, as LOOKUP would find it.
func (v *View) detailMount(dir Node, d *DirEntry) {
	n, err := v.find(dir, d.Name)
	if d.Err = err; err != nil && err != ErrWrongSec {
		return
	}
	if v.attr(n, &d.Attr) == nil && err == nil {
		d.Attr.MountedOnFileID = d.FileID
		v.handle(&d.Handle, n)
	} else {
		d.Attr.Type = TypeNone
	}
	v.th.drop(n.f)
}

// EntryNode opens the file of an entry that has a handle, for what it takes more than attributes to tell. The Node is good
// until the emit function returns, which may open one.
func (v *View) EntryNode(d *DirEntry) (Node, error) {
	if isPseudo(d.Handle.Bytes()) {
		return v.otherPseudo(d.Handle.Bytes())
	}
	id, fs, err := v.ns.cfg.HandleKey.decode(&v.th.handle, d.Handle.Bytes(), &v.th.key)
	if err != nil {
		return Node{}, err
	}
	x := v.ns.table.Load().byID[id] // another than the View's at a mount point
	if x == nil {
		return Node{}, ErrStale
	}
	tbl := x.tree.tbl.Load()
	if tbl == nil || tbl.byID[fs] == nil {
		return Node{}, ErrStale
	}
	m := tbl.byID[fs]
	v.th.key.FS = m.cacheFS
	return v.at(m, x)
}
