// IO_ADVISE (RFC 7862 section 15.5): what a client says of how it will use a file.
//
// What concerns one open is in Caller.Advice and steers its READs: random ones go through a descriptor without read-ahead,
// those from end to end through one with more of it, and what is not to be kept is read as in dontcache mode, which leaves in
// the page cache just what was there before. What concerns data is done at once. Nothing is dropped from the page cache on a
// client's word: it may be others' as well.

package vfs

import (
	"golang.org/x/sys/unix"

	"sluice/pkg/dataio"
	"sluice/pkg/filecache"
)

// maxWillNeed bounds what one IO_ADVISE reads ahead, in bytes.
const maxWillNeed = 64 << 20

// willNeedPiece is what is asked for at once, in bytes: of one call the kernel takes no more than the device's read-ahead or
// largest request, and forgets the rest. This is the read-ahead of a device that nobody has set up.
const willNeedPiece = 128 << 10

// readMode is the mode of a READ.
func (v *View) readMode() dataio.Mode {
	m := v.ns.cfg.Modes.Read(v.exp.mode, v.c.Addr)
	if v.c.Advice&(AdviseDontNeed|AdviseNoReuse) != 0 && m == dataio.Buffered {
		m = dataio.DontCache
	}
	return m
}

// Advise takes a client's hints on a range, length 0 for all that follows. Hints that this server has no use for do nothing.
func (v *View) Advise(n Node, off, length, hints uint64) error {
	if err := regular(n); err != nil {
		return err
	}
	if !v.c.MayBlock {
		return ErrWouldBlock
	}
	if err := v.readable(n); err != nil {
		return err
	}
	fd, err := v.descriptor(n, filecache.Read)
	if err != nil {
		return err
	}
	size := v.th.stx.Size
	if hints&AdviseWillNeed != 0 && off < size {
		if length == 0 || length > size-off {
			length = size - off
		}
		for length = min(length, maxWillNeed); length > 0; {
			n := min(length, willNeedPiece)
			unix.Fadvise(fd, int64(off), int64(n), unix.FADV_WILLNEED) //nolint:errcheck // advice
			off, length = off+n, length-n
		}
	}
	return nil
}
