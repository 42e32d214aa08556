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

// refused is what a guard's error is to the caller.
func (v *View) refused(err error) error {
	if v.c.V4 {
		return err
	}
	return ErrJukebox
}

func (v *View) guardRead(n Node) error {
	g := v.ns.cfg.Guard
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
	g := v.ns.cfg.Guard
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
	g := v.ns.cfg.Guard
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
	g := v.ns.cfg.Guard
	if g == nil || v.c.V4 {
		return nil
	}
	v.th.guardKey = n.Key()
	if err := g.CheckGetattr(&v.th.guardKey, v.c.Owner, v.c.Opened); err != nil {
		return v.refused(err)
	}
	return nil
}

// guardNames asks about the file of key k of the file cache on mount m.
func (v *View) guardNames(m *fsMount, k *filecache.Key) error {
	g := v.ns.cfg.Guard
	if g == nil {
		return nil
	}
	v.th.guardKey = *k
	v.th.guardKey.FS = m.dev
	v.th.guardKey.Type &^= typeFlags
	if err := g.CheckNames(&v.th.guardKey, v.c.Owner); err != nil {
		return v.refused(err)
	}
	return nil
}
