// Locks for NLM: the same table, owners told apart by host, process and handle.

package state

// nlmRange makes a range as NLM4 counts: length 0 is to the end of the file.
func nlmRange(a *NLMLockArgs) (byteRange, error) {
	if a.Length == 0 {
		return byteRange{a.Offset, ^uint64(0)}, nil
	}
	r, err := toRange(a.Offset, a.Length)
	if err != nil {
		return byteRange{a.Offset, ^uint64(0)}, nil // past the end: to the end, as Linux's lockd has it
	}
	return r, nil
}

// NLMLock takes a lock. ErrDenied comes with what is in the way. With a.Wait the request is queued then, in place of an
// earlier one just like it, and ErrBlocked says so: Wait.Granted is called when the lock is held. ErrDeadlock: waiting
// would have no end. ErrGrace, ErrNoGrace: not in (or only in) the grace period. ErrDelay: ask again.
func (s *State) NLMLock(call *Call, a *NLMLockArgs) (LockConflict, error) {
	r, err := nlmRange(a)
	if err != nil {
		return LockConflict{}, err
	}
	if in := s.InGrace(); in != a.Reclaim {
		if in {
			return LockConflict{}, ErrGrace
		}
		return LockConflict{}, ErrNoGrace
	}
	// A lock is taken by who has the file open: what conflicts with the open is recalled.
	if err := s.CheckRead(&a.File, 0, false); err == ErrDelay {
		return LockConflict{}, err
	}
	if a.Type == WriteLock {
		if err := s.CheckWrite(&a.File, 0, false); err == ErrDelay {
			return LockConflict{}, err
		}
	}
	for {
		_, c, err := s.locks.lock(&a.File, a.Owner, r, a.Type, nil)
		if err == nil {
			s.counts.locksGranted.Add(1)
		}
		if err != ErrDenied {
			return c, err
		}
		again, err := s.expireHolder(call, &c)
		if err != nil {
			return c, err
		}
		if again {
			continue
		}
		if a.Wait == nil {
			s.counts.locksDenied.Add(1)
			return c, ErrDenied
		}
		_, c, err = s.locks.lock(&a.File, a.Owner, r, a.Type, a.Wait)
		if err == ErrDenied {
			err = ErrBlocked
		}
		return c, err
	}
}

// NLMTest looks for a lock in the way.
func (s *State) NLMTest(call *Call, a *NLMLockArgs) (LockConflict, error) {
	r, err := nlmRange(a)
	if err != nil {
		return LockConflict{}, err
	}
	if s.InGrace() {
		return LockConflict{}, ErrGrace
	}
	for {
		c, found := s.locks.test(&a.File, a.Owner, r, a.Type)
		if !found {
			return LockConflict{}, nil
		}
		again, err := s.expireHolder(call, &c)
		if err != nil {
			return c, err
		}
		if !again {
			return c, ErrDenied
		}
	}
}

// NLMUnlock lets a range go.
func (s *State) NLMUnlock(_ *Call, a *NLMLockArgs) error {
	if s.InGrace() && a.Reclaim {
		return ErrGrace
	}
	r, err := nlmRange(a)
	if err != nil {
		return err
	}
	s.locks.unlock(&a.File, a.Owner, r)
	return nil
}

// NLMCancel takes a queued request back. ErrNoEnt: it is not in the queue, perhaps granted already.
func (s *State) NLMCancel(_ *Call, a *NLMLockArgs) error {
	r, err := nlmRange(a)
	if err != nil {
		return err
	}
	if !s.locks.cancel(&a.File, a.Owner, r, a.Type) {
		return ErrNoEnt
	}
	return nil
}

// NLMRelease lets all go that a host has: it has restarted (SM_NOTIFY) or says so (FREE_ALL).
func (s *State) NLMRelease(host string) { s.locks.releaseHost(host) }
