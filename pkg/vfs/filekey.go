// What keeps state of files (pkg/state) knows of a Node: an identity and a pin.

package vfs

import (
	"sync/atomic"

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

// OpenPin keeps a file open for as long as a client has it open, so that the client can use it after its last name is gone.
type OpenPin struct {
	f *filecache.File
	n *atomic.Int64
}

// openShare is the part of the file cache's budget that pins of opens may take. A pinned file may have a descriptor to read,
// one to write and one past the cache beside its own.
const openShare = 4

// PinOpen pins the file of an open until Release. Beyond openShare it is nil, and the file is found by its handle each time,
// as any other: a client with many files open must not take from all others the descriptors to work with.
func (v *View) PinOpen(n Node) *OpenPin {
	if n.p != nil {
		return nil
	}
	pins := &v.ns.openPins
	if pins.Add(1) > int64(v.ns.cfg.Cache.Budget()/openShare) {
		pins.Add(-1)
		return nil
	}
	return &OpenPin{n.Pin(), pins}
}

// Release lets go of the file. A nil pin has none.
func (p *OpenPin) Release() {
	if p != nil {
		p.f.Release()
		p.n.Add(-1)
	}
}
