// SEEK, ALLOCATE, DEALLOCATE, COPY and CLONE (RFC 7862): what is done with ranges of files.
//
// Permission is that of READ and WRITE. Changes run under the caller's credentials on the cached descriptors, as WRITE does,
// for quotas and set-user-ID bits.

package vfs

import (
	"math"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"sluice/pkg/filecache"
)

// descriptor gives n's data descriptor of a kind, opened as the server.
func (v *View) descriptor(n Node, k filecache.Kind) (int, error) {
	if fd := n.f.FD(k); fd >= 0 {
		return fd, nil
	}
	fd := -1
	err := v.th.runAsServer(func() (err error) {
		fd, err = n.f.Open(k, v.c.MayBlock)
		return err
	})
	if err != nil {
		return -1, v.dataError(n, err)
	}
	return fd, nil
}

// readable decides an access to n's data that is not a READ.
func (v *View) readable(n Node) error {
	if err := v.stat(n); err != nil {
		return err
	}
	if err := v.mayRead(n.f); err != nil {
		return err
	}
	return v.guardRead(n)
}

// Seek finds the next data, or with hole the next hole, at or after off. The end of the file counts as a hole; eof tells
// that this is it. ENXIO: off is not before the end of the file, or there is no data from there on.
func (v *View) Seek(n Node, off uint64, hole bool) (at uint64, eof bool, err error) {
	if err = regular(n); err != nil {
		return 0, false, err
	}
	if !v.mayBlock(n.m) {
		return 0, false, ErrWouldBlock
	}
	if err = v.readable(n); err != nil {
		return 0, false, err
	}
	if off > math.MaxInt64 {
		return 0, false, unix.ENXIO
	}
	fd, err := v.descriptor(n, filecache.Read)
	if err != nil {
		return 0, false, err
	}
	whence := unix.SEEK_DATA
	if hole {
		whence = unix.SEEK_HOLE
	}
	// It moves the descriptor's position, which nothing else uses.
	start := nanotime()
	pos, err := unix.Seek(fd, int64(off), whence)
	n.m.gate.done(v.th, start)
	if err != nil {
		return 0, false, v.stale(n, errnoOf(err))
	}
	if err = v.stat(n); err != nil {
		return 0, false, err
	}
	return uint64(pos), uint64(pos) >= v.th.stx.Size, nil
}

// Allocate reserves room for a range, and makes the file longer if it ends before the range does. What cannot fit is ENOSPC
// before anything is taken: some file systems would fill up first. It stops after allocateTime with EAGAIN; called again
// it comes further, since what is reserved already costs next to nothing.
func (v *View) Allocate(n Node, off, length uint64) error {
	if length == 0 {
		return unix.EINVAL
	}
	if off > math.MaxInt64 || length > math.MaxInt64-off {
		return unix.EFBIG
	}
	return v.alter(n, off, length, func(fd int) error {
		if length > allocateStep {
			if err := v.roomFor(fd, off, length); err != nil {
				return err
			}
			// The length of the file changes in the last step only, with all of the range there.
			stop := nanotime() + allocateTime
			for at, end := off, off+length; end-at > allocateStep; at += allocateStep {
				if err := fallocate(fd, unix.FALLOC_FL_KEEP_SIZE, at, allocateStep); err != nil {
					return err
				}
				if nanotime() > stop {
					return unix.EAGAIN
				}
			}
		}
		return fallocate(fd, 0, off, length)
	}, true)
}

const (
	allocateStep = 256 << 20              // bytes that one system call reserves
	allocateTime = int64(5 * time.Second) // after which Allocate stops
)

// roomFor tells whether the file system could hold length bytes of the file, as far as is known without trying.
func (v *View) roomFor(fd int, off, length uint64) error {
	var fs unix.Statfs_t
	if err := retry(func() error { return unix.Fstatfs(fd, &fs) }); err != nil {
		return err
	}
	if fs.Blocks == 0 { // without a limit
		return nil
	}
	unit := uint64(fs.Frsize)
	if unit == 0 {
		unit = uint64(fs.Bsize)
	}
	if length/unit <= fs.Bfree+v.th.stx.Blocks*512/unit {
		return nil
	}
	// No file may be so long? A descriptor's position, which nothing uses, may not be there either.
	if _, err := unix.Seek(fd, int64(off+length), unix.SEEK_SET); err != nil {
		return unix.EFBIG
	}
	return unix.ENOSPC
}

// Deallocate makes a hole of a range. The file keeps its length.
func (v *View) Deallocate(n Node, off, length uint64) error {
	if length == 0 {
		return unix.EINVAL
	}
	length = min(length, math.MaxUint64-off)
	return v.alter(n, off, length, func(fd int) error {
		size := v.th.stx.Size
		if off >= size {
			return nil // a hole already
		}
		length = min(length, size-off) // the kernel refuses what ends past the largest file
		return fallocate(fd, unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, off, length)
	}, true)
}

func fallocate(fd int, mode uint32, off, length uint64) error {
	return retry(func() error { return unix.Fallocate(fd, mode, int64(off), int64(length)) })
}

// alter runs op, which changes a range of n's data, on a descriptor for writing. durable: the change is on stable storage
// before it returns, if the export asks for it.
func (v *View) alter(n Node, off, length uint64, op func(fd int) error, durable bool) error {
	if err := regular(n); err != nil {
		return err
	}
	if v.ro {
		return unix.EROFS
	}
	if !v.c.MayBlock {
		return ErrWouldBlock
	}
	span := v.ns.spans.begin(&n.f.Key)
	defer v.ns.spans.end(&n.f.Key, span)
	if err := v.stat(n); err != nil {
		return err
	}
	if err := v.mayWrite(n.f); err != nil {
		return err
	}
	if err := v.guardWrite(n); err != nil {
		return err
	}
	fd, err := v.descriptor(n, filecache.Write)
	if err != nil {
		return err
	}
	v.become()
	ticket, _ := n.f.Order().Begin(filecache.BufferedWrite, off, length, true)
	err = op(fd)
	n.f.MarkUnstable()
	n.f.Order().End(ticket)
	if err != nil {
		return v.stale(n, errnoOf(err))
	}
	if durable {
		return v.syncFile(n)
	}
	return nil
}

// source decides whether n may be copied from. It may be of another export than the View, under whose rules the caller then
// is when it reads.
func (v *View) source(n Node) error {
	if err := regular(n); err != nil {
		return err
	}
	if n.exp == v.exp {
		return v.readable(n)
	}
	w := View{ns: v.ns, th: v.th, c: v.c}
	if err := w.admit(n.exp); err != nil {
		return err
	}
	err := w.readable(n)
	// The groups lie in the thread.
	if e := v.admit(v.exp); err == nil {
		err = e
	}
	return err
}

// Source resolves the handle of a COPY's or CLONE's source, which may be of another export.
func (v *View) Source(fh []byte) (Node, error) {
	n, err := v.Node(fh)
	if err != unix.EXDEV {
		return n, err
	}
	w := View{ns: v.ns, th: v.th, c: v.c}
	n, err = w.open(fh)
	if v.exp != nil {
		if e := v.admit(v.exp); err == nil {
			err = e
		}
	}
	return n, err
}

// Verifier is the write verifier of now, as WRITE and COMMIT give it.
func (v *View) Verifier() [8]byte { return v.ns.cfg.Engine.Verifier() }

// Overlap tells whether two ranges of one file have a byte in common.
func Overlap(a, b, count uint64) bool { return a < b+count && b < a+count }

// Copy copies up to count bytes, and at most MaxCopy; 0 is as many as there are. Fewer are no error: at the source's end, or
// wherever the kernel stopped. They are as an unstable WRITE leaves them. EINVAL: source and target are one file and the
// ranges overlap.
func (v *View) Copy(src, dst Node, srcOff, dstOff, count uint64) (copied uint64, err error) {
	if count == 0 || count > MaxCopy {
		count = MaxCopy
	}
	if srcOff > math.MaxInt64 || dstOff > math.MaxInt64-count {
		return 0, unix.EFBIG
	}
	count = min(count, math.MaxInt64-srcOff)
	if !v.c.MayBlock {
		return 0, ErrWouldBlock
	}
	if err := v.source(src); err != nil {
		return 0, err
	}
	size := v.th.stx.Size
	if srcOff >= size {
		return 0, nil
	}
	count = min(count, size-srcOff)
	if src.Key() == dst.Key() && Overlap(srcOff, dstOff, count) {
		return 0, unix.EINVAL
	}
	sfd, err := v.descriptor(src, filecache.Read)
	if err != nil {
		return 0, err
	}
	err = v.alter(dst, dstOff, count, func(dfd int) error {
		from, to := int64(srcOff), int64(dstOff)
		for copied < count {
			n, err := unix.CopyFileRange(sfd, &from, dfd, &to, int(count-copied), 0)
			switch {
			case err == unix.EINTR:
				continue
			case err == unix.EXDEV || err == unix.EOPNOTSUPP || err == unix.ENOSYS:
				m, err := v.copyBytes(sfd, from, dfd, to, count-copied)
				if copied += m; copied > 0 {
					return nil
				}
				return err
			case err != nil && copied == 0:
				return err
			case err != nil || n == 0:
				return nil // the next call meets the error
			}
			copied += uint64(n)
		}
		return nil
	}, false)
	return copied, err
}

// copyBytes copies between file systems that the kernel does not copy between.
func (v *View) copyBytes(sfd int, from int64, dfd int, to int64, count uint64) (copied uint64, err error) {
	buf := make([]byte, min(count, 1<<20))
	for copied < count {
		var n int
		if err := retry(func() (err error) {
			n, err = unix.Pread(sfd, buf[:min(count-copied, uint64(len(buf)))], from+int64(copied))
			return err
		}); err != nil || n == 0 {
			return copied, err
		}
		for b := buf[:n]; len(b) > 0; {
			var m int
			if err := retry(func() (err error) { m, err = unix.Pwrite(dfd, b, to+int64(copied)); return err }); err != nil {
				return copied, err
			}
			if m == 0 {
				return copied, nil
			}
			copied += uint64(m)
			b = b[m:]
		}
	}
	return copied, nil
}

// Clone makes a range of dst share storage with one of src; count 0 reaches to the source's end. EINVAL: the range does not
// begin and end at the file system's blocks, or overlaps. ErrNotSupported: the file system has no reflinks.
func (v *View) Clone(src, dst Node, srcOff, dstOff, count uint64) error {
	if srcOff > math.MaxInt64 || dstOff > math.MaxInt64 || count > math.MaxInt64-max(srcOff, dstOff) {
		return unix.EINVAL
	}
	if !v.c.MayBlock {
		return ErrWouldBlock
	}
	if err := v.source(src); err != nil {
		return err
	}
	sfd, err := v.descriptor(src, filecache.Read)
	if err != nil {
		return err
	}
	arg := unix.FileCloneRange{Src_fd: int64(sfd), Src_offset: srcOff, Src_length: count, Dest_offset: dstOff}
	length := count
	if length == 0 {
		length = math.MaxInt64 - dstOff
	}
	return v.alter(dst, dstOff, length, func(dfd int) error {
		for {
			_, _, e := unix.Syscall(unix.SYS_IOCTL, uintptr(dfd), unix.FICLONERANGE, uintptr(unsafe.Pointer(&arg)))
			switch e {
			case 0:
				return nil
			case unix.EINTR:
			case unix.ENOTTY:
				return unix.EOPNOTSUPP
			default:
				return e
			}
		}
	}, true)
}
