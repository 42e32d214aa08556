// The acl attribute: NFSv4 access control lists (RFC 7530, 6) for the POSIX
// ones that Linux file systems have.
//
// Plan, to the client: POSIX decides by the first of owner, named users, groups
// and others that a caller is among; so each becomes an ALLOW, and a DENY of what
// later entries would give. Groups are the exception, where any one that allows
// will do: all their ALLOWs come first. A directory's default list follows with
// inheritance flags.
//
// Plan, from the client: entries are taken in order, each adding to what is
// settled for whom it names (EVERYONE@: for all); what is allowed in the end is
// the POSIX permission. That is exact for lists made as above, and for others
// never more than was allowed to the one named.

package nfs4

import (
	"cmp"
	"slices"

	"golang.org/x/sys/unix"

	"sluice/pkg/vfs"
	"sluice/xdr"
	wire "sluice/xdr/nfs4"
)

// aclSource is a file's lists as they are encoded.
type aclSource struct {
	supported    bool
	access, dflt vfs.ACL
}

// aclSetter is the lists that a client sets.
type aclSetter struct {
	given        bool
	access, dflt vfs.ACL
}

func (a *aclSetter) reset() { *a = aclSetter{} }

// aclAttrs are the attributes that depend on whether the file can have a list.
var aclAttrs = func() (w words) {
	w.set(wire.FATTR4_SUPPORTED_ATTRS)
	w.set(wire.FATTR4_SUPPATTR_EXCLCREAT)
	w.set(wire.FATTR4_ACL)
	w.set(wire.FATTR4_ACLSUPPORT)
	return w
}()

// fileSystemAttrs takes out of the supported set what a file's file system does not have, if what is asked for depends on
// that.
func (c *compound) fileSystemAttrs(s *attrSource, n vfs.Node, asked *words) {
	if asked.any(&aclAttrs) {
		if s.acl.supported = c.view.ACLSupport(n); !s.acl.supported {
			s.supported[0] &^= 1 << wire.FATTR4_ACL
		}
	}
}

// gatherACL reads the lists. A file without one has what its mode says.
func (c *compound) gatherACL(s *attrSource, n vfs.Node, w *words) (err error) {
	if !w.has(wire.FATTR4_ACL) || !s.acl.supported {
		return nil
	}
	s.acl.dflt = nil
	if s.acl.access, err = c.view.GetACL(n, false); err != nil {
		return err
	}
	if len(s.acl.access) == 0 {
		m := s.a.Mode
		s.acl.access = vfs.ACL{{Tag: vfs.ACLUserObj, Perm: uint8(m >> 6 & 7)}, {Tag: vfs.ACLGroupObj, Perm: uint8(m >> 3 & 7)},
			{Tag: vfs.ACLOther, Perm: uint8(m & 7)}}
	}
	if s.a.Type == vfs.TypeDir {
		s.acl.dflt, err = c.view.GetACL(n, true)
	}
	return err
}

func getACLSupport(s *attrSource, e *xdr.Encoder) {
	if s.acl.supported {
		e.Uint32(wire.ACL4_SUPPORT_ALLOW_ACL | wire.ACL4_SUPPORT_DENY_ACL)
	} else {
		e.Uint32(0)
	}
}

func getACL(s *attrSource, e *xdr.Encoder) {
	at := len(e.Bytes())
	e.Uint32(0)
	n := s.putList(e, s.acl.access, 0)
	if len(s.acl.dflt) > 0 {
		n += s.putList(e, s.acl.dflt, wire.ACE4_FILE_INHERIT_ACE|wire.ACE4_DIRECTORY_INHERIT_ACE|wire.ACE4_INHERIT_ONLY_ACE)
	}
	e.PatchUint32(at, n)
}

// What everybody may do, whatever the list says, and what the owner may: the kernel decides so.
const (
	anyoneMask = wire.ACE4_READ_ATTRIBUTES | wire.ACE4_READ_ACL | wire.ACE4_SYNCHRONIZE
	ownerMask  = anyoneMask | wire.ACE4_WRITE_ATTRIBUTES | wire.ACE4_WRITE_ACL
)

// maskOf is the NFSv4 rights of POSIX permissions.
func maskOf(perm uint8, dir bool) (m uint32) {
	if perm&4 != 0 {
		m |= wire.ACE4_READ_DATA
	}
	if perm&2 != 0 {
		m |= wire.ACE4_WRITE_DATA | wire.ACE4_APPEND_DATA
		if dir {
			m |= wire.ACE4_DELETE_CHILD
		}
	}
	if perm&1 != 0 {
		m |= wire.ACE4_EXECUTE
	}
	return m
}

// putList encodes one POSIX list and returns how many entries it became.
func (s *attrSource) putList(e *xdr.Encoder, l vfs.ACL, flags uint32) (n uint32) {
	dir := s.a.Type == vfs.TypeDir
	mask, other := uint8(7), uint8(0)
	for _, x := range l {
		switch x.Tag {
		case vfs.ACLMask:
			mask = x.Perm
		case vfs.ACLOther:
			other = x.Perm
		}
	}
	perm := func(x vfs.ACLEntry) uint8 {
		if x.Tag == vfs.ACLUser || x.Tag == vfs.ACLGroup || x.Tag == vfs.ACLGroupObj {
			return x.Perm & mask
		}
		return x.Perm
	}
	put := func(typ uint32, x vfs.ACLEntry, m uint32) {
		a := wire.Nfsace4{Type: typ, Flag: flags, AccessMask: m}
		var b [maxOwnerName]byte
		switch x.Tag {
		case vfs.ACLUserObj:
			a.Who = []byte("OWNER@")
		case vfs.ACLGroupObj:
			a.Who = []byte("GROUP@")
			a.Flag |= wire.ACE4_IDENTIFIER_GROUP
		case vfs.ACLOther:
			a.Who = []byte("EVERYONE@")
		case vfs.ACLGroup:
			a.Flag |= wire.ACE4_IDENTIFIER_GROUP
			a.Who = s.c.s.ids.name(b[:0], x.ID, true)
		default:
			a.Who = s.c.s.ids.name(b[:0], x.ID, false)
		}
		a.Encode(e)
		n++
	}
	later := func(i int) (p uint8) {
		for _, x := range l[i+1:] {
			if x.Tag != vfs.ACLMask {
				p |= perm(x)
			}
		}
		return p
	}
	for i, x := range l { // owner and users
		if x.Tag != vfs.ACLUserObj && x.Tag != vfs.ACLUser {
			continue
		}
		always := uint32(anyoneMask)
		if x.Tag == vfs.ACLUserObj {
			always = ownerMask
		}
		put(wire.ACE4_ACCESS_ALLOWED_ACE_TYPE, x, maskOf(perm(x), dir)|always)
		if deny := later(i) &^ perm(x); deny != 0 {
			put(wire.ACE4_ACCESS_DENIED_ACE_TYPE, x, maskOf(deny, dir))
		}
	}
	for _, x := range l {
		if x.Tag == vfs.ACLGroupObj || x.Tag == vfs.ACLGroup {
			put(wire.ACE4_ACCESS_ALLOWED_ACE_TYPE, x, maskOf(perm(x), dir)|anyoneMask)
		}
	}
	for _, x := range l {
		if x.Tag == vfs.ACLGroupObj || x.Tag == vfs.ACLGroup {
			if deny := other &^ perm(x); deny != 0 {
				put(wire.ACE4_ACCESS_DENIED_ACE_TYPE, x, maskOf(deny, dir))
			}
		}
	}
	put(wire.ACE4_ACCESS_ALLOWED_ACE_TYPE, vfs.ACLEntry{Tag: vfs.ACLOther}, maskOf(other, dir)|anyoneMask)
	return n
}

// settled is what has been decided for somebody so far.
type settled struct{ allow, deny uint8 }

func (s *settled) take(allow bool, p uint8) {
	if allow {
		s.allow |= p &^ s.deny
	} else {
		s.deny |= p &^ s.allow
	}
}

// aclBuilder makes a POSIX list of NFSv4 entries.
type aclBuilder struct {
	any                    bool
	owner, group, everyone settled
	users, groups          map[uint32]*settled
}

func (b *aclBuilder) named(m *map[uint32]*settled, id uint32) *settled {
	if *m == nil {
		*m = map[uint32]*settled{}
	}
	s := (*m)[id]
	if s == nil {
		s = &settled{b.everyone.allow, b.everyone.deny}
		(*m)[id] = s
	}
	return s
}

func (b *aclBuilder) all(allow bool, p uint8) {
	for _, s := range []*settled{&b.owner, &b.group, &b.everyone} {
		s.take(allow, p)
	}
	for _, m := range []map[uint32]*settled{b.users, b.groups} {
		for _, s := range m {
			s.take(allow, p)
		}
	}
}

// list is the POSIX list: nothing when no entry was for it.
func (b *aclBuilder) list() vfs.ACL {
	if !b.any {
		return nil
	}
	l := vfs.ACL{{Tag: vfs.ACLUserObj, Perm: b.owner.allow}, {Tag: vfs.ACLGroupObj, Perm: b.group.allow}, {Tag: vfs.ACLOther, Perm: b.everyone.allow}}
	mask := b.group.allow
	for id, s := range b.users {
		l = append(l, vfs.ACLEntry{Tag: vfs.ACLUser, Perm: s.allow, ID: id})
		mask |= s.allow
	}
	for id, s := range b.groups {
		l = append(l, vfs.ACLEntry{Tag: vfs.ACLGroup, Perm: s.allow, ID: id})
		mask |= s.allow
	}
	if len(l) > 3 {
		l = append(l, vfs.ACLEntry{Tag: vfs.ACLMask, Perm: mask})
	}
	slices.SortFunc(l, func(x, y vfs.ACLEntry) int { return cmp.Or(cmp.Compare(x.Tag, y.Tag), cmp.Compare(x.ID, y.ID)) })
	return l
}

// permOf is the POSIX permissions of NFSv4 rights. To be allowed to write takes all that writing is; to be denied it, any of that.
func permOf(mask uint32, allow bool) (p uint8) {
	const write = wire.ACE4_WRITE_DATA | wire.ACE4_APPEND_DATA
	if mask&wire.ACE4_READ_DATA != 0 {
		p |= 4
	}
	if w := mask & write; allow && w == write || !allow && w != 0 {
		p |= 2
	}
	if mask&wire.ACE4_EXECUTE != 0 {
		p |= 1
	}
	return p
}

// setACL takes a client's list.
func setACL(a *attrSetter, d *xdr.Decoder) status {
	const inherit = wire.ACE4_FILE_INHERIT_ACE | wire.ACE4_DIRECTORY_INHERIT_ACE
	const known = inherit | wire.ACE4_NO_PROPAGATE_INHERIT_ACE | wire.ACE4_INHERIT_ONLY_ACE | wire.ACE4_IDENTIFIER_GROUP
	var access, dflt aclBuilder
	n := d.Count(wire.LIMIT_ACES, 16)
	if n > vfs.MaxACL {
		return wire.NFS4ERR_INVAL
	}
	for range n {
		var x wire.Nfsace4
		if x.Decode(d); d.Err() != nil {
			return wire.NFS4ERR_BADXDR
		}
		if x.Type > wire.ACE4_ACCESS_DENIED_ACE_TYPE || x.Flag&^known != 0 {
			return wire.NFS4ERR_ATTRNOTSUPP // RFC 7530, 6.2.1.3: what the server cannot do
		}
		allow := x.Type == wire.ACE4_ACCESS_ALLOWED_ACE_TYPE
		p, group := permOf(x.AccessMask, allow), x.Flag&wire.ACE4_IDENTIFIER_GROUP != 0
		var id uint32
		special := true
		switch string(x.Who) {
		case "OWNER@", "GROUP@", "EVERYONE@":
		default:
			var st status
			special = false
			if id, st = a.c.id(x.Who, group); st != ok {
				return st
			}
		}
		apply := func(b *aclBuilder) {
			b.any = true
			switch {
			case special && x.Who[0] == 'O':
				b.owner.take(allow, p)
			case special && x.Who[0] == 'G':
				b.group.take(allow, p)
			case special:
				b.all(allow, p)
			case group:
				b.named(&b.groups, id).take(allow, p)
			default:
				b.named(&b.users, id).take(allow, p)
			}
		}
		if x.Flag&inherit != 0 {
			apply(&dflt)
		}
		if x.Flag&wire.ACE4_INHERIT_ONLY_ACE == 0 {
			apply(&access)
		}
	}
	a.acl = aclSetter{given: true, access: access.list(), dflt: dflt.list()}
	return ok
}

// applyACL sets the lists on the current file. A file that is no directory has nothing to hand on.
func (c *compound) applyACL(a *attrSetter) status {
	if !a.acl.given {
		return ok
	}
	dir := c.node.Type() == vfs.TypeDir
	if !dir && len(a.acl.dflt) > 0 {
		return c.statusOf(unix.EINVAL)
	}
	var access, dflt *vfs.ACL
	if len(a.acl.access) > 0 { // without any entry for the file itself its permissions stay
		access = &a.acl.access
	}
	if dir {
		dflt = &a.acl.dflt
	}
	return c.statusOf(c.view.SetACL(c.node, access, dflt))
}
