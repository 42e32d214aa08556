// Guard: what View asks before it touches a file.

package state

// Guard is called inside vfs.View, so that no procedure of any protocol version can forget a share denial or a
// delegation. Whoever implements the calling side declares the same methods; the types are basic for that reason.
//
// client is the caller's v4 client id, 0 for v3 and for callers without one. opened says that CheckIO passed a stateid of
// an open, lock or delegation: shares were settled at its OPEN.
//
// Each returns nil, ErrDelay (a delegation is being recalled: JUKEBOX, DELAY), ErrLocked (a share denial), ErrGrace.
// None waits, none allocates, and all cost one atomic load when nobody holds a delegation on or denies access to the file.
type Guard interface {
	CheckRead(file *FileKey, client uint64, opened bool) error
	CheckWrite(file *FileKey, client uint64, opened bool) error
	// CheckSetattr: truncate says that the size changes.
	CheckSetattr(file *FileKey, client uint64, opened, truncate bool) error
	// CheckOpen: a v3 CREATE of a file that exists, or any open by View itself.
	CheckOpen(file *FileKey, client uint64, write, truncate bool) error
	// CheckRemove: file is about to lose a name (REMOVE, RENAME over it or of it) or get one (LINK).
	CheckRemove(file *FileKey, client uint64) error
	// CheckGrace: names change (REMOVE, RENAME by v4 callers): not during grace.
	CheckGrace(client uint64) error
	// CheckGetattr: somebody else may hold the file's size and times under a write delegation.
	CheckGetattr(file *FileKey, client uint64) error
}
