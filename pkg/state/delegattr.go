// CB_GETATTR: size and change of a file are with the holder of its write delegation (RFC 7530 10.4.3, RFC 8881 20.1).

package state

import "time"

// attrWait is how long a GETATTR waits for the holder before the delegation is recalled instead. Linux waits 30 ms.
const attrWait = 100 * time.Millisecond

// attrQuery is one question to a holder; all who ask meanwhile share the answer.
type attrQuery struct {
	done  chan struct{}
	attrs DelegAttrs
	err   error
}

func (q *attrQuery) finish(a DelegAttrs, err error) {
	q.attrs, q.err = a, err
	close(q.done)
}

// DelegAttrs asks the holder of a write delegation, if it is another client, for the file's attributes; ok is false when
// there is no such delegation. It waits a little for the answer (ErrWouldBlock first); when none comes, the delegation is
// recalled and the answer is ErrDelay. With call.ClientID 0 every holder is another.
func (s *State) DelegAttrs(call *Call, file FileKey) (a DelegAttrs, ok bool, err error) {
	if s.interest[s.hash(&file)%interestSlots].Load() == 0 {
		return a, false, nil
	}
	client := call.ClientID()
	s.mu.RLock()
	d := s.foreignWriteDeleg(&file, client)
	s.mu.RUnlock()
	if d == nil {
		return a, false, nil
	}
	if !call.MayBlock {
		return a, false, ErrWouldBlock
	}
	now := s.enter()
	if d = s.foreignWriteDeleg(&file, client); d == nil {
		s.leave()
		return a, false, nil
	}
	if d.recalledAt != 0 || d.client.expired(now) || !d.client.callbacksGood() {
		s.leave()
		return a, false, s.breakFor(&file, client, false, false)
	}
	q := d.query
	if q == nil {
		q = &attrQuery{done: make(chan struct{})}
		d.query = q
		r := Recall{Client: d.client, Stateid: d.stateid(), FH: d.fh}
		s.later(func() { s.cfg.Callbacks.Getattr(r) })
	}
	change := d.change
	s.leave()
	t := time.NewTimer(attrWait)
	defer t.Stop()
	select {
	case <-q.done:
		if q.err == nil {
			a = q.attrs
			a.Modified, a.Asked = a.HasChange && a.Change != change, d.asked.Add(1)
			return a, true, nil
		}
	case <-t.C:
	}
	// Whoever returned it in the meantime has brought the file up to date: then nothing is left to recall.
	return a, false, s.breakFor(&file, client, false, false)
}

func (s *State) foreignWriteDeleg(file *FileKey, client ClientID) *deleg {
	f := s.files[*file]
	if f == nil {
		return nil
	}
	for _, d := range f.delegs {
		if d.typ == DelegWrite && (client == 0 || d.client.id != client) {
			return d
		}
	}
	return nil
}

// DelegAttrsDone brings the answer to Callbacks.Getattr, or the error that took its place.
func (s *State) DelegAttrsDone(r Recall, a DelegAttrs, err error) {
	s.enter()
	defer s.leave()
	if d, ok := r.Client.stateids[r.Stateid.Other.number()].(*deleg); ok && d.query != nil {
		d.query.finish(a, err)
		d.query = nil
	}
}

// OpenChanged tells that the caller of OPEN has changed the file since it came to its Change: that is where the holder of
// the delegation begins.
func (s *State) OpenChanged(call *Call, change uint64) {
	s.enter()
	defer s.leave()
	if d := call.open.deleg; d != nil {
		d.change = change
	}
}
