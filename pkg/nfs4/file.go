// What operations ask of the namespace in more than one place.

package nfs4

import (
	"sluice/pkg/state"
	"sluice/pkg/vfs"
)

// key is the identity of the current file for pkg/state.
func (c *compound) key() state.FileKey { return c.node.Key() }

// parent is the directory above the current one.
func (c *compound) parent() (vfs.Handle, status) {
	e, err := c.view.Lookupp(c.node)
	return e.Handle, c.statusOf(err)
}

// openCheck asks whether the caller may open the current file so.
func (c *compound) openCheck(read, write bool) status {
	return c.statusOf(c.view.OpenCheck(c.node, read, write))
}

// birthOf is when a file was made; its last change where that is not known.
func birthOf(a *vfs.Attr) vfs.Time {
	if a.Btime == (vfs.Time{}) {
		return a.Ctime
	}
	return a.Btime
}

// applyUmask hands the umask on (RFC 8275): a default list that the file inherits goes before it.
func (a *attrSetter) applyUmask() {
	a.s.SetUmask, a.s.Umask = a.masked, a.umask
}
