// The operations still to come.

package vfs

import (
	"golang.org/x/sys/unix"
)

// Handle is a file handle as it goes over the wire.
type Handle struct {
	Len uint8
	b   [64]byte
}

// Bytes returns the handle's bytes; they alias h.
func (h *Handle) Bytes() []byte { return h.b[:h.Len] }

// ClientMemo remembers, for one connection, which exports its client may use.
type ClientMemo struct{}

// Config makes a Namespace.
type Config struct{}

// Namespace is the tree of exports.
type Namespace struct{}

// Thread is the state of one OS thread that runs calls.
type Thread struct{}

// New makes a namespace.
func New(cfg Config) (*Namespace, error) { return &Namespace{}, nil }

// NewThread makes the state of the calling OS thread, which must be locked for good.
func (n *Namespace) NewThread() (*Thread, error) { return &Thread{}, nil }

// Close gives a thread's resources back.
func (th *Thread) Close() {}

// Mount resolves a MOUNT path, which may lie below an export, to a handle and the flavours the export allows.
func (n *Namespace) Mount(th *Thread, c *Caller, path string) (Handle, []uint32, error) {
	return Handle{}, nil, unix.ENOSYS
}

// View opens the file of handle fh on behalf of a caller. On success Close must be called when the reply is encoded;
// until then the Node and further ones of the same View are good.
func (n *Namespace) View(th *Thread, c *Caller, fh []byte) (View, Node, error) {
	return View{}, Node{}, unix.ENOSYS
}

// View is one call's window on one export: what the caller may see and do there.
type View struct{ th *Thread }

// Node is an open file of a View.
type Node struct{}

// Close ends the call.
func (v *View) Close() {}

// Node resolves a second handle of the same call (RENAME, LINK). A handle of another export is unix.EXDEV.
func (v *View) Node(fh []byte) (Node, error) { return Node{}, unix.ENOSYS }

// NoReaddirplus tells whether the export asks not to offer READDIRPLUS.
func (v *View) NoReaddirplus() bool { return false }

// Getattr returns a file's attributes.
func (v *View) Getattr(n Node) (Attr, error) { return Attr{}, unix.ENOSYS }

// Setattr sets attributes.
func (v *View) Setattr(n Node, s *SetAttr) (Change, error) { return Change{}, unix.ENOSYS }

// Lookup finds a name in a directory. The directory's attributes come with errors too.
func (v *View) Lookup(dir Node, name []byte) (e Entry, dirAttr Attr, err error) {
	return e, dirAttr, unix.ENOSYS
}

// Access returns the rights among mask that the caller has.
func (v *View) Access(n Node, mask uint32) (granted uint32, a Attr, err error) {
	return 0, a, unix.ENOSYS
}

// Readlink reads a symbolic link into buf and returns the target, which aliases buf.
func (v *View) Readlink(n Node, buf []byte) (target []byte, a Attr, err error) {
	return nil, a, unix.ENOSYS
}

// Read reads count bytes at off; more than the server's limit are cut to it.
func (v *View) Read(n Node, off uint64, count uint32) (ReadResult, error) {
	return ReadResult{}, unix.ENOSYS
}

// Write writes data at off. stable is RFC 1813's stable_how.
func (v *View) Write(n Node, off uint64, data []byte, stable uint32) (WriteResult, error) {
	return WriteResult{}, unix.ENOSYS
}

// Commit makes earlier unstable writes stable.
func (v *View) Commit(n Node, off uint64, count uint32) (verf [8]byte, c Change, err error) {
	return verf, c, unix.ENOSYS
}

// Create makes a regular file. verf is for Exclusive.
func (v *View) Create(dir Node, name []byte, how CreateHow, verf [8]byte, s *SetAttr) (Entry, Change, error) {
	return Entry{}, Change{}, unix.ENOSYS
}

// Mkdir makes a directory.
func (v *View) Mkdir(dir Node, name []byte, s *SetAttr) (Entry, Change, error) {
	return Entry{}, Change{}, unix.ENOSYS
}

// Symlink makes a symbolic link.
func (v *View) Symlink(dir Node, name, target []byte, s *SetAttr) (Entry, Change, error) {
	return Entry{}, Change{}, unix.ENOSYS
}

// Mknod makes a device node, socket or FIFO.
func (v *View) Mknod(dir Node, name []byte, t Type, major, minor uint32, s *SetAttr) (Entry, Change, error) {
	return Entry{}, Change{}, unix.ENOSYS
}

// Remove removes a name that is not a directory.
func (v *View) Remove(dir Node, name []byte) (Change, error) { return Change{}, unix.ENOSYS }

// Rmdir removes an empty directory.
func (v *View) Rmdir(dir Node, name []byte) (Change, error) { return Change{}, unix.ENOSYS }

// Rename moves a name, replacing the target.
func (v *View) Rename(fromDir Node, from []byte, toDir Node, to []byte) (fromChange, toChange Change, err error) {
	return fromChange, toChange, unix.ENOSYS
}

// Link makes a hard link to n.
func (v *View) Link(n Node, dir Node, name []byte) (Attr, Change, error) {
	return Attr{}, Change{}, unix.ENOSYS
}

// Readdir lists a directory from a cookie, until emit returns false (that entry does not count as listed).
func (v *View) Readdir(dir Node, q *ReaddirReq, emit func(*DirEntry) bool) (ReaddirRes, error) {
	return ReaddirRes{}, unix.ENOSYS
}

// Fsstat returns the state of the file system that n is on.
func (v *View) Fsstat(n Node) (FSStat, error) { return FSStat{}, unix.ENOSYS }

// Fsinfo returns the server's limits.
func (v *View) Fsinfo(n Node) (FSInfo, error) { return FSInfo{}, unix.ENOSYS }

// Pathconf returns the limits of the file system that n is on.
func (v *View) Pathconf(n Node) (PathConf, error) { return PathConf{}, unix.ENOSYS }
