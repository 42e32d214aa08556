// POSIX access control lists, which the kernel shows as extended attributes of the system namespace. What they mean to
// version 4, which has lists of another kind, is for that version to say.

package vfs

import (
	"encoding/binary"

	"golang.org/x/sys/unix"
)

const (
	aclAccess  = "system.posix_acl_access"
	aclDefault = "system.posix_acl_default"

	aclVersion = 2 // POSIX_ACL_XATTR_VERSION
	aclHeader  = 4 // bytes of struct posix_acl_xattr_header
	aclSize    = 8 // bytes of struct posix_acl_xattr_entry

)

// ACLSupport tells whether n can have an access control list.
func (v *View) ACLSupport(n Node) bool {
	return n.p == nil && n.Type() != TypeLnk && v.supports(n, &n.m.hasACL, aclAccess)
}

// GetACL reads a file's list, or with dflt the one that what is made in a directory inherits. It is empty where there is
// none. Like the mode it may be read by everybody. ErrNotSupported: the file cannot have one.
func (v *View) GetACL(n Node, dflt bool) (ACL, error) {
	if n.p != nil || n.Type() == TypeLnk {
		return nil, ErrNotSupported
	}
	if !v.mayBlock(n.m) {
		return nil, ErrWouldBlock
	}
	th := v.th
	name := aclAccess
	if dflt {
		if name = aclDefault; n.Type() != TypeDir {
			return nil, nil
		}
	}
	cname(th.name[:], []byte(name))
	if th.xattrs == nil {
		th.xattrs = make([]byte, maxXattrList)
	}
	l, e := th.getxattr(n.f.PathFD(), th.xattrs)
	switch e {
	case 0:
		return parseACL(th.xattrs[:l])
	case unix.ENODATA:
		return nil, nil
	}
	return nil, v.stale(n, e)
}

// SetACL sets a file's list, and the one that a directory hands on; nil leaves one as it is, an empty one removes it. The
// kernel checks them (EINVAL), takes the file's mode from the first, and lets only owners set them (EPERM).
func (v *View) SetACL(n Node, access, dflt *ACL) error {
	if v.ro {
		return unix.EROFS
	}
	if n.p != nil || n.Type() == TypeLnk {
		return ErrNotSupported
	}
	for _, l := range []*ACL{access, dflt} {
		if l != nil && len(*l) > MaxACL {
			return unix.ENOSPC // as the kernel says of lists that fit nowhere
		}
	}
	if dflt != nil && n.Type() != TypeDir {
		if len(*dflt) > 0 {
			return unix.EINVAL
		}
		dflt = nil
	}
	own := func(a *Attr) error {
		if v.uid != 0 && v.uid != a.UID {
			return unix.EPERM
		}
		return nil
	}
	_, err := v.change(n, own, func() error {
		if access != nil {
			if err := v.setACL(n, aclAccess, *access); err != nil {
				return err
			}
		}
		if dflt != nil {
			return v.setACL(n, aclDefault, *dflt)
		}
		return nil
	})
	return err
}

func (v *View) setACL(n Node, name string, l ACL) error {
	th := v.th
	cname(th.name[:], []byte(name))
	if len(l) == 0 {
		e := th.removexattr(n.f.PathFD())
		if e == unix.ENODATA {
			e = 0
		}
		return v.stale(n, e)
	}
	return v.stale(n, th.setxattr(n.f.PathFD(), l.encode(), 0))
}

// encode makes the kernel's form.
func (l ACL) encode() []byte {
	b := binary.LittleEndian.AppendUint32(make([]byte, 0, aclHeader+aclSize*len(l)), aclVersion)
	for _, e := range l {
		id := e.ID
		if e.Tag != ACLUser && e.Tag != ACLGroup {
			id = ^uint32(0) // ACL_UNDEFINED_ID
		}
		b = binary.LittleEndian.AppendUint16(b, uint16(e.Tag))
		b = binary.LittleEndian.AppendUint16(b, uint16(e.Perm&7))
		b = binary.LittleEndian.AppendUint32(b, id)
	}
	return b
}

func parseACL(b []byte) (ACL, error) {
	if len(b) < aclHeader || binary.LittleEndian.Uint32(b) != aclVersion || (len(b)-aclHeader)%aclSize != 0 {
		return nil, unix.EIO
	}
	l := make(ACL, 0, (len(b)-aclHeader)/aclSize)
	for b = b[aclHeader:]; len(b) > 0; b = b[aclSize:] {
		e := ACLEntry{Tag: ACLTag(binary.LittleEndian.Uint16(b)), Perm: uint8(binary.LittleEndian.Uint16(b[2:]) & 7)}
		if e.Tag == ACLUser || e.Tag == ACLGroup {
			e.ID = binary.LittleEndian.Uint32(b[4:])
		}
		l = append(l, e)
	}
	return l, nil
}
