// Guard: what stands in the way of an access though permissions don't: share denials and delegations. Whoever keeps that
// state (pkg/state) is asked inside of each operation, so that no procedure of any protocol version can forget it.
//
// Each question is asked inside the operation's span (locks.go), and a lease that backs a delegation is only had while no
// span of the file is open (lease.go). So of a change and a delegation that come at the same time one sees the other.

package vfs

import "sluice/pkg/filecache"

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

// guardNames asks about a file that a name of dir was just found to lead to: th.key is its key, th.fh its handle.
func (v *View) guardNames(dir Node, name []byte) error {
	g := v.ns.guard
	if g == nil {
		return nil
	}
	th, m := v.th, dir.m
	th.guardKey = th.key
	if m.connect {
		found, fh := th.key, th.fh
		e := th.nameToHandle(dir.f.PathFD(), name, 0)
		ok := keyOf(&th.fh, 0, &th.guardKey)
		th.key, th.fh = found, fh
		if e != 0 || !ok {
			return nil // gone since
		}
	}
	th.guardKey.FS = m.dev
	th.guardKey.Type &^= typeFlags
	if err := g.CheckNames(&th.guardKey, v.c.Owner); err != nil {
		return v.refused(err)
	}
	return nil
}

// guardLink asks about a file that gets another name.
func (v *View) guardLink(n Node) error {
	g := v.ns.guard
	if g == nil {
		return nil
	}
	v.th.guardKey = n.Key()
	if err := g.CheckNames(&v.th.guardKey, v.c.Owner); err != nil {
		return v.refused(err)
	}
	return nil
}
