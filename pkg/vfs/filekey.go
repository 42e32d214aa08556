// What keeps state of files (pkg/state) knows of a Node: an identity and a pin.

package vfs

import "sluice/pkg/filecache"

// Key names the file that n is, whichever export it was reached through: by device, so that two exports of one file system
// share opens and locks. It is not a key of the file cache.
func (n Node) Key() filecache.Key {
	k := n.f.Key
	k.FS = n.m.dev
	k.Type &^= typeFlags
	return k
}

// Pin keeps the file open until Release, beyond the View's end.
func (n Node) Pin() *filecache.File {
	n.f.Pin()
	return n.f
}
