// What keeps state of files (pkg/state) knows of a Node: an identity and a pin.

package vfs

import (
	"golang.org/x/sys/unix"

	"sluice/pkg/filecache"
)

// Key names the file that n is, whichever export it was reached through: by device, so that two exports of one file system
// share opens and locks, and without the parent that subtree_check puts into handles. It is not a key of the file cache.
func (n Node) Key() filecache.Key {
	if n.p != nil {
		k := filecache.Key{Len: 8}
		for i := range k.Bytes[:8] {
			k.Bytes[i] = byte(n.p.id >> (8 * i))
		}
		return k
	}
	return n.m.fileKey(&n.f.Key, n.f.PathFD())
}

// fileKey is Key of the file that the cache knows by k and that fd is open on.
func (m *fsMount) fileKey(k *filecache.Key, fd int) filecache.Key {
	out := *k
	if m.connect && k.Type&typeFlags != 0 {
		var th scratchHandle
		if th.of(fd) == nil && keyOf(&th.fh, 0, &out) {
			k = &out
		}
	}
	out.FS = m.dev
	out.Type &^= typeFlags
	return out
}

// scratchHandle reads a handle without a Thread.
type scratchHandle struct{ fh kernelHandle }

func (s *scratchHandle) of(fd int) error {
	h, _, err := unix.NameToHandleAt(fd, "", unix.AT_EMPTY_PATH)
	if err != nil {
		return err
	}
	s.fh.typ = h.Type()
	s.fh.n = uint32(copy(s.fh.b[:], h.Bytes()))
	return nil
}

// Pin keeps the file open until Release, beyond the View's end. Pseudo directories have no file: nil.
func (n Node) Pin() *filecache.File {
	if n.p != nil {
		return nil
	}
	n.f.Pin()
	return n.f
}
