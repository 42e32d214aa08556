// What goes in and out of the namespace: callers, attributes, results. Plain values without pointers into the server, so
// that the hot paths pass them on the stack.

package vfs

import (
	"net/netip"

	"sluice/pkg/filecache"
	"sluice/xdr"
)

// Limits of what a client may name.
const (
	MaxName   = 255       // bytes in one name (NAME_MAX)
	MaxPath   = 4095      // bytes in a symbolic link's target or a MOUNT path (PATH_MAX less the NUL)
	MaxGroups = 32        // supplementary groups used of one caller; AUTH_SYS carries 16
	MaxOffset = 1<<63 - 1 // first byte past the largest file
)

// Authentication flavours (RFC 5531 section 8.2) that a Cred can come from.
const (
	FlavorNone uint32 = 0
	FlavorSys  uint32 = 1
)

// Cred is the identity that a call claims, before squashing.
type Cred struct {
	UID, GID uint32
	Groups   []uint32 // may alias the record; at most MaxGroups are used
	Flavor   uint32
}

// Caller is all that the namespace needs to know of a call's origin.
type Caller struct {
	Addr     netip.Addr
	Port     uint16
	Cred     Cred
	XID      uint32
	Splice   bool        // the reply goes to plain TCP: a READ may answer with a pipe
	MayBlock bool        // on the slow pool: operations may sleep
	Memo     *ClientMemo // of the connection; nil costs a match per call

	// Of version 4; they may change between two operations of one View.
	V4       bool   // the errors of version 4, and its view of mounts: it crosses into every export
	NoDirect bool   // a READ that is not its COMPOUND's first: not direct
	Opened   bool   // an open, lock or delegation of the caller's stands behind the access: shares were settled then
	Owner    uint64 // the caller's client id, so that its own delegations are not in its way; 0: none
	Advice   uint64 // what IO_ADVISE said of the open: bits of IO_ADVISE_type4
}

// Type is a file's type, with RFC 1813's ftype3 numbers. 0 marks attributes that could not be had.
type Type uint8

// The file types.
const (
	TypeNone Type = iota
	TypeReg
	TypeDir
	TypeBlk
	TypeChr
	TypeLnk
	TypeSock
	TypeFifo
)

// Time is a time since 1970, to the nanosecond.
type Time struct {
	Sec  int64
	Nsec uint32
}

// Attr holds a file's attributes. The zero value (Type 0) means that they could not be had.
type Attr struct {
	Type       Type
	Mode       uint32 // the 12 permission bits
	Nlink      uint32
	UID, GID   uint32
	Size       uint64
	Used       uint64 // bytes on disk
	RdevMajor  uint32
	RdevMinor  uint32
	BlockSize  uint32
	FSID       uint64
	FileID     uint64
	Atime      Time
	Mtime      Time
	Ctime      Time
	Change     uint64 // grows with every change of the file; from ctime
	Btime      Time   // when it was made; zero if not known
	MountPoint bool   // root of a mounted file system
	Held       bool   // another client's write delegation: Size, Change and times may be old, see Guard.Held

	// MountedOnFileID is the FileID of the directory that a mounted file system's root hides, in the file system above (the
	// pseudo file system, for exports); of other files it is FileID.
	MountedOnFileID uint64
}

// Valid tells whether the attributes could be had.
func (a *Attr) Valid() bool { return a.Type != TypeNone }

// Change holds an object's attributes around an operation: wcc_data in version 3, change_info4 in version 4. A missing
// Before tells the client to distrust its cache; a wrong one would make it keep stale data.
type Change struct {
	Before, After     Attr
	BeforeOK, AfterOK bool
}

// TimeHow says what SETATTR does with a time.
type TimeHow uint8

// The three ways, with the numbers of RFC 1813's time_how.
const (
	TimeKeep   TimeHow = iota // leave it
	TimeServer                // the server's clock
	TimeClient                // the value given
)

// SetAttr says which attributes to set.
type SetAttr struct {
	SetMode  bool
	SetUID   bool
	SetGID   bool
	SetSize  bool
	Guard    bool // fail with ErrNotSync unless the change time is GuardTime, as far as NFSv3's 32 bits of seconds tell
	AtimeHow TimeHow
	MtimeHow TimeHow
	Mode     uint32
	UID, GID uint32
	Size     uint64
	Atime    Time
	Mtime    Time

	GuardTime Time

	SetUmask bool // CREATE and its kin, with SetMode: what Umask has is taken off Mode unless an inherited list decides (RFC 8275)
	Umask    uint32

	KeepMode uint32 // with SetMode: the bits of the mode that stay as they are (RFC 8881 6.2.5); zero in what is made
}

// Entry is a name that was looked up or made.
type Entry struct {
	Handle Handle
	Attr   Attr
}

// CreateHow is the mode of a CREATE (RFC 1813 3.3.8).
type CreateHow uint8

// The three modes, with the numbers of createmode3.
const (
	Unchecked   CreateHow = iota // an existing file is taken (and truncated if asked to)
	Guarded                      // an existing name is an error
	Exclusive                    // as Guarded, but the same verifier finds the file that its first try made
	Exclusive41                  // as Exclusive, with attributes to set as well (RFC 8881 18.16.3); times are taken by the verifier
)

// ReadResult is the answer to a READ. Data is nil when N is 0, and otherwise must be released exactly once.
type ReadResult struct {
	Data xdr.Payload
	N    int
	EOF  bool
	Attr Attr
}

// WriteResult is the answer to a WRITE. Change is set as far as known on errors too.
type WriteResult struct {
	N         int
	Committed uint32 // stable_how reached
	Verf      [8]byte
	Change    Change
}

// DirEntry is one entry of a directory. It and Name are good until the emit function returns.
type DirEntry struct {
	FileID uint64
	Name   []byte
	Cookie uint64        // resumes after this entry
	Key    filecache.Key // Node.Key, set if Attr.Held
	Handle Handle        // Len 0 when there is none: plain READDIR, a mount point, ".." at the export's root, a name just removed
	Attr   Attr          // Type 0 when there are none
	Err    error         // why there are no attributes, if known: ErrWrongSec, unix.ENOENT of a name that has just gone
}

// ReaddirReq asks for directory entries.
type ReaddirReq struct {
	Cookie uint64 // 0 starts
	Verf   [8]byte
	Plus   bool // with handles and attributes
	Want   int  // about how many bytes of names with their cookies and file ids the client takes, see NamesIn: sizes the kernel buffer; 0 for the largest
}

// namesShare: about one part in so many of a listing with handles and attributes is names, cookies and file ids.
const namesShare = 4

// NamesIn estimates how many bytes of names, with cookies and file ids, go into a reply of room bytes, and of no more than
// dircount such bytes (RFC 1813, 3.3.17; RFC 8881, 18.23.3).
func NamesIn(room, dircount int, plus bool) int {
	if plus {
		room /= namesShare
	}
	return min(room, dircount)
}

// ReaddirRes ends a listing. Dir is set as far as known on errors too.
type ReaddirRes struct {
	Verf [8]byte
	EOF  bool // the last entry of the directory was emitted
	Dir  Attr
}

// FSStat holds a file system's volatile state (FSSTAT).
type FSStat struct {
	Tbytes, Fbytes, Abytes uint64
	Tfiles, Ffiles, Afiles uint64
	BlockSize              uint32 // of the file system, in bytes: what reflinks are aligned to
	Invarsec               uint32
	Attr                   Attr
}

// FSInfo holds the server's static limits (FSINFO), in bytes.
type FSInfo struct {
	RtMax, RtPref, RtMult uint32
	WtMax, WtPref, WtMult uint32
	DtPref                uint32
	MaxFileSize           uint64
	TimeDelta             Time
	Link, Symlink         bool
	Homogeneous           bool
	CanSetTime            bool
	Attr                  Attr
}

// PathConf holds what POSIX pathconf asks of a directory (PATHCONF).
type PathConf struct {
	LinkMax, NameMax uint32
	NoTrunc          bool
	ChownRestricted  bool
	CaseInsensitive  bool
	CasePreserving   bool
	Attr             Attr
}

// Rights that ACCESS asks about and grants, with the bits of RFC 1813 3.3.4.
const (
	AccessRead    uint32 = 0x01
	AccessLookup  uint32 = 0x02
	AccessModify  uint32 = 0x04
	AccessExtend  uint32 = 0x08
	AccessDelete  uint32 = 0x10
	AccessExecute uint32 = 0x20
)
