// What version 4 adds to what goes in and out of the namespace.

package vfs

// XattrHow says whether SETXATTR makes a name or replaces its value, with the numbers of RFC 8276's setxattr_option4.
type XattrHow uint8

// The three ways.
const (
	XattrEither  XattrHow = iota
	XattrCreate           // EEXIST if the name is there
	XattrReplace          // ENODATA if it is not
)

// Limits of extended attributes, in bytes.
const (
	MaxXattrName  = 255 - len(xattrPrefix)
	MaxXattrValue = 64 << 10
)

// Hints of IO_ADVISE (RFC 7862 section 1.4.2): bit n is IO_ADVISE_type4 n. The others have no effect here.
const (
	AdviseNormal     uint64 = 1 << 0
	AdviseSequential uint64 = 1 << 1
	AdviseRandom     uint64 = 1 << 3
	AdviseWillNeed   uint64 = 1 << 4
	AdviseDontNeed   uint64 = 1 << 6
	AdviseNoReuse    uint64 = 1 << 7
)

// ACLTag says whom an entry of a POSIX access control list is for.
type ACLTag uint16

// The tags, with the numbers of the kernel's posix_acl.h.
const (
	ACLUserObj  ACLTag = 0x01 // the owner
	ACLUser     ACLTag = 0x02 // user ID
	ACLGroupObj ACLTag = 0x04 // the owning group
	ACLGroup    ACLTag = 0x08 // group ID
	ACLMask     ACLTag = 0x10 // what users and groups named, and the owning group, get at most
	ACLOther    ACLTag = 0x20
)

// ACLEntry is one entry.
type ACLEntry struct {
	Tag  ACLTag
	Perm uint8  // r 4, w 2, x 1
	ID   uint32 // of ACLUser and ACLGroup
}

// ACL is a POSIX access control list, in the kernel's order: by tag, then by id. An empty one is none: access is by the
// mode alone, or nothing is inherited.
type ACL []ACLEntry

// MaxACL bounds the entries of a list that is set. ext4 keeps some 500 in a block of 4 KiB.
const MaxACL = 1024

// MaxCopy bounds what one Copy copies, in bytes, so that a thread does not disappear in it.
const MaxCopy = 64 << 20
