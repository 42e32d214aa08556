// SequenceUndo: a COMPOUND that is to run again elsewhere.

package state

// SequenceUndo takes a Sequence back, in place of SequenceDone: the COMPOUND has had no effect and no answer yet, and its
// request comes again, on a thread that may sleep, or because the answer to SEQUENCE itself did not fit. The slot is as it was;
// the lease stays renewed.
func (s *State) SequenceUndo(call *Call) {
	sl, sess := call.slot, call.session
	if sl == nil {
		return
	}
	if call.owner != nil {
		panic("state: SequenceUndo before OwnerDone")
	}
	call.slot, call.session, call.Client = nil, nil, nil
	sess.mu.Lock()
	*sl = call.before
	sess.inflight--
	sess.mu.Unlock()
	call.before = slot{}
	sess.client.inflight.Add(-1)
}
