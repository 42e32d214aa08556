// Errors of the namespace: errnos as the kernel gave them, and the few conditions that no errno names. Each protocol has
// one table that turns them into its status codes.

package vfs

import "errors"

// The conditions that have no errno of their own. Every operation of a View returns nil, a unix.Errno or one of these,
// never wrapped, so that a switch or a map finds them.
var (
	// ErrBadHandle: the bytes are not a handle this server issued (wrong length, version or MAC).
	ErrBadHandle = errors.New("vfs: not a file handle of this server")
	// ErrStale: the handle is well formed, but its file, file system or export is gone, or no longer for this client.
	ErrStale = errors.New("vfs: stale file handle")
	// ErrNotSync: SETATTR's guard did not match the file's change time.
	ErrNotSync = errors.New("vfs: guard does not match the change time")
	// ErrBadCookie: READDIR's cookie is not one this directory can be read from.
	ErrBadCookie = errors.New("vfs: bad directory cookie")
	// ErrTooSmall: READDIR's limit holds not one entry.
	ErrTooSmall = errors.New("vfs: limit too small for one entry")
	// ErrWouldBlock: the operation may sleep and the caller said that it must not. Nothing has happened yet.
	ErrWouldBlock = errors.New("vfs: operation may block")
	// ErrJukebox: a resource of the server (descriptors) is short for the moment; the client tries again later.
	ErrJukebox = errors.New("vfs: try again later")
	// ErrNotSupported: the file system or the server does not have the operation.
	ErrNotSupported = errors.New("vfs: operation not supported")
	// ErrWrongSec: the file's export does not allow the caller's flavour. For callers of version 4; EACCES for the others.
	ErrWrongSec = errors.New("vfs: the export does not allow this security flavour")
	// ErrBadType: MKNOD of a type that it does not make.
	ErrBadType = errors.New("vfs: bad file type")
)
