// Guard: what View asks before it touches a file.

package state

// Guard is called inside vfs.View, so that no procedure of any protocol version can forget a share denial or a
// delegation. Whoever implements the calling side declares the same methods; the types are basic for that reason.
//
// client is the caller's v4 client id, 0 for v3 and for callers without one. opened says that CheckIO passed a stateid for
// this access (IO.Opened): shares and delegations were settled at its OPEN.
//
// Each returns nil, ErrDelay (a delegation is being recalled, or an expired client ended) or ErrLocked (a share denial;
// Linux's version 3 ignores those, here they hold). View hands the error up as it is; where only errnos are known, Err.Errno
// tells which. None waits for anything but the lock, and all cost one atomic load when nobody holds a delegation on the
// file or denies access to it. A lease or a pin may be let go from within.
type Guard interface {
	// CheckRead: READ, and READDIR's and READLINK's likes never ask.
	CheckRead(file *FileKey, client uint64, opened bool) error
	// CheckWrite: WRITE, ALLOCATE, DEALLOCATE, COPY and CLONE into the file.
	CheckWrite(file *FileKey, client uint64, opened bool) error
	// CheckSetattr: any change of attributes; truncate says that the size changes.
	CheckSetattr(file *FileKey, client uint64, opened, truncate bool) error
	// CheckGetattr: size and times may be with the holder of a write delegation. For version 3; version 4 asks DelegAttrs
	// and passes opened.
	CheckGetattr(file *FileKey, client uint64, opened bool) error
	// Held: another client has a write delegation on the file. Nothing is recalled.
	Held(file *FileKey, client uint64) bool
	// Ended counts the write delegations that have ended.
	Ended() uint64
	// CheckNames: file is about to lose a name or get one (REMOVE of it, RENAME of it or over it, LINK).
	CheckNames(file *FileKey, client uint64) error
}

var _ Guard = (*State)(nil)

// interestSlots is how many counters tell whether a look is worth it. Files share them by hash.
const interestSlots = 1 << 14

// CheckRead implements Guard.
func (s *State) CheckRead(file *FileKey, client uint64, opened bool) error {
	if opened || s.interest[s.hash(file)%interestSlots].Load() == 0 {
		return nil
	}
	return s.guard(file, ClientID(client), ShareRead, false, false)
}

// CheckWrite implements Guard.
func (s *State) CheckWrite(file *FileKey, client uint64, opened bool) error {
	if opened || s.interest[s.hash(file)%interestSlots].Load() == 0 {
		return nil
	}
	return s.guard(file, ClientID(client), ShareWrite, true, false)
}

// CheckSetattr implements Guard.
func (s *State) CheckSetattr(file *FileKey, client uint64, opened, truncate bool) error {
	if s.interest[s.hash(file)%interestSlots].Load() == 0 {
		return nil
	}
	var deny uint8
	if truncate && !opened {
		deny = ShareWrite
	}
	return s.guard(file, ClientID(client), deny, true, truncate)
}

// CheckGetattr implements Guard.
func (s *State) CheckGetattr(file *FileKey, client uint64, opened bool) error {
	if opened || s.interest[s.hash(file)%interestSlots].Load() == 0 {
		return nil
	}
	return s.guard(file, ClientID(client), 0, false, false)
}

// Held implements Guard.
func (s *State) Held(file *FileKey, client uint64) bool {
	if s.interest[s.hash(file)%interestSlots].Load() == 0 {
		return false
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.foreignWriteDeleg(file, ClientID(client)) != nil
}

// Ended implements Guard.
func (s *State) Ended() uint64 { return s.ended.Load() }

// CheckNames implements Guard.
func (s *State) CheckNames(file *FileKey, client uint64) error {
	if s.interest[s.hash(file)%interestSlots].Load() == 0 {
		return nil
	}
	return s.guard(file, ClientID(client), 0, true, false)
}

// guard looks under the shared lock; most files that share a counter have nothing in the way.
func (s *State) guard(file *FileKey, client ClientID, access uint8, exclusive, truncate bool) error {
	s.mu.RLock()
	f := s.files[*file]
	clear := f == nil || !f.conflicts(access, 0) && !f.delegated(client, exclusive) && !f.leasing
	s.mu.RUnlock()
	if clear {
		return nil
	}
	if access != 0 {
		now := s.enter()
		if f := s.files[*file]; f != nil && f.conflicts(access, 0) {
			list := f.expiredHolders(access, 0, now)
			for _, c := range list {
				s.queueReap(c)
			}
			s.leave()
			if len(list) > 0 {
				return ErrDelay
			}
			return ErrLocked
		}
		s.leave()
	}
	return s.breakFor(file, client, exclusive, truncate)
}

// delegated tells whether somebody else's delegation conflicts.
func (f *file) delegated(client ClientID, exclusive bool) bool {
	for _, d := range f.delegs {
		if (client == 0 || d.client.id != client) && (exclusive || d.typ == DelegWrite) {
			return true
		}
	}
	return false
}

// breakFor recalls what conflicts; ErrDelay while something is out.
func (s *State) breakFor(file *FileKey, client ClientID, exclusive, truncate bool) error {
	now := s.enter()
	defer s.leave()
	f := s.files[*file]
	if f == nil {
		return nil
	}
	busy, victims := s.recallOthers(f, client, exclusive, truncate, now)
	for _, c := range victims {
		s.queueReap(c)
	}
	if busy || len(victims) > 0 {
		return ErrDelay
	}
	return nil
}
