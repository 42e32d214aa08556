// Guard: what stands in the way of an access though permissions don't: share denials and delegations. Whoever keeps that
// state (pkg/state) is asked inside of each operation, so that no procedure of any protocol version can forget it.
//
// Each question is asked inside the operation's span (locks.go), and a lease that backs a delegation is only had while no
// span of the file is open (lease.go). So of a change and a delegation that come at the same time one sees the other.

package vfs

import (
	"golang.org/x/sys/unix"

	"sluice/pkg/filecache"
)

// Guard is asked before a file is touched. The file is named by Node.Key, client is Caller.Owner, opened Caller.Opened. nil
// lets the operation go on. Any error ends it: as it is for callers of version 4; as ErrJukebox for the others, which have
// no word for it and try again.
//
// None may wait, and the usual answer must cost nearly nothing.
type Guard interface {
	// CheckRead: READ and COPY from the file.
	CheckRead(file *filecache.Key, client uint64, opened bool) error
	// CheckWrite: WRITE, ALLOCATE, DEALLOCATE, COPY and CLONE into the file.
	CheckWrite(file *filecache.Key, client uint64, opened bool) error
	// CheckSetattr: any change of attributes, extended ones included; truncate says that the size changes.
	CheckSetattr(file *filecache.Key, client uint64, opened, truncate bool) error
	// CheckGetattr: size and times may be with the holder of a write delegation. Asked for callers of version 3.
	CheckGetattr(file *filecache.Key, client uint64, opened bool) error
	// Held tells whether the file's size, change and times may be with another client, which has a write delegation on it.
	// Nothing is recalled.
	Held(file *filecache.Key, client uint64) bool
	// Ended counts the write delegations that have ended: if it moved, what was read before Held was asked may be old.
	Ended() uint64
	// CheckNames: the file is about to lose a name or to get one.
	CheckNames(file *filecache.Key, client uint64) error
}

// SetGuard sets Config.Guard, for those who need the Namespace first to make their guard. Call it before the first View.
func (n *Namespace) SetGuard(g Guard) { n.guard = g }

// refused is what a guard's error is to the caller.
func (v *View) refused(err error) error {
	if v.c.V4 {
		return err
	}
	return ErrJukebox
}

func (v *View) guardRead(n Node) error {
	g := v.ns.guard
	if g == nil {
		return nil
	}
	v.th.guardKey = n.Key()
	if err := g.CheckRead(&v.th.guardKey, v.c.Owner, v.c.Opened); err != nil {
		return v.refused(err)
	}
	return nil
}

func (v *View) guardWrite(n Node) error {
	g := v.ns.guard
	if g == nil {
		return nil
	}
	v.th.guardKey = n.Key()
	if err := g.CheckWrite(&v.th.guardKey, v.c.Owner, v.c.Opened); err != nil {
		return v.refused(err)
	}
	return nil
}

func (v *View) guardSetattr(n Node, truncate bool) error {
	g := v.ns.guard
	if g == nil {
		return nil
	}
	v.th.guardKey = n.Key()
	if err := g.CheckSetattr(&v.th.guardKey, v.c.Owner, v.c.Opened, truncate); err != nil {
		return v.refused(err)
	}
	return nil
}

func (v *View) guardGetattr(n Node) error {
	g := v.ns.guard
	if g == nil || v.c.V4 {
		return nil
	}
	v.th.guardKey = n.Key()
	if err := g.CheckGetattr(&v.th.guardKey, v.c.Owner, v.c.Opened); err != nil {
		return v.refused(err)
	}
	return nil
}

// heldFile is Attr.Held of a file. Version 4 asks the holder itself.
func (v *View) heldFile(n Node) bool {
	g := v.ns.guard
	if g == nil || v.c.V4 || n.Type() != TypeReg {
		return false
	}
	v.th.guardKey = n.Key()
	return g.Held(&v.th.guardKey, v.c.Owner)
}

// heldNoted is heldFile of a file on m by its handle.
func (v *View) heldNoted(m *fsMount, h *Handle) bool {
	g := v.ns.guard
	if g == nil || v.c.V4 {
		return false
	}
	h.fileKey(m.dev, &v.th.guardKey)
	return g.Held(&v.th.guardKey, v.c.Owner)
}

// heldEntry is heldFile of an entry of dir: th.key is its key.
func (v *View) heldEntry(dir Node, d *DirEntry) {
	g, th := v.ns.guard, v.th
	if g == nil || d.Attr.Type != TypeReg || !v.entryKey(dir, d.Name) {
		return
	}
	if d.Attr.Held = g.Held(&th.guardKey, v.c.Owner); d.Attr.Held {
		d.Key = th.guardKey
	}
}

// ended is Guard.Ended.
func (v *View) ended() uint64 {
	if g := v.ns.guard; g != nil {
		return g.Ended()
	}
	return 0
}

// entryKey makes th.guardKey the Node.Key of a file that a name of dir was just found to lead to: th.key is its key. false:
// it has gone since.
func (v *View) entryKey(dir Node, name []byte) bool {
	th, m := v.th, dir.m
	th.guardKey = th.key
	if m.connect {
		found, fh := th.key, th.fh
		e := th.nameToHandle(dir.f.PathFD(), name, 0)
		ok := keyOf(&th.fh, 0, &th.guardKey)
		th.key, th.fh = found, fh
		if e != 0 || !ok {
			return false
		}
	}
	th.guardKey.FS = m.dev
	th.guardKey.Type &^= typeFlags
	return true
}

// guardNames asks about a file that a name of dir was just found to lead to: th.key is its key, th.fh its handle.
func (v *View) guardNames(dir Node, name []byte) error {
	g := v.ns.guard
	if g == nil || !v.entryKey(dir, name) {
		return nil
	}
	if err := v.mayName(dir); err != nil {
		return err
	}
	if err := g.CheckNames(&v.th.guardKey, v.c.Owner); err != nil {
		return v.refused(err)
	}
	return nil
}

// mayName asks whether the caller may change names in a directory, before anybody is asked to give a delegation back for it.
// The thread has the caller's credentials.
func (v *View) mayName(dir Node) error { return fail(v.th.access(dir.f.PathFD(), unix.W_OK|unix.X_OK)) }

// guardLink asks about a file that gets another name, in dir.
func (v *View) guardLink(n, dir Node) error {
	g := v.ns.guard
	if g == nil {
		return nil
	}
	v.become()
	if err := v.mayName(dir); err != nil {
		return err
	}
	v.th.guardKey = n.Key()
	if err := g.CheckNames(&v.th.guardKey, v.c.Owner); err != nil {
		return v.refused(err)
	}
	return nil
}
