package state

import "testing"

// A Sequence that was taken back leaves the slot as it was: the same sequence id is new again, and the reply before it is
// still there for a retry.
func TestSequenceUndo(t *testing.T) {
	w := newWorld(t)
	c := w.client41("undo")
	seq := c.slot[0]
	run := func(sequence uint32) (*Call, SequenceRes, error) {
		call := &Call{Minor: 1, MayBlock: true, Principal: c.cred, Conn: c.conn}
		r, err := w.s.Sequence(call, &SequenceArgs{SessionID: c.sess, Sequence: sequence, CacheThis: true, Ops: 2})
		return call, r, err
	}
	call, _, err := run(seq + 1)
	ok(t, "SEQUENCE", err)
	w.s.SequenceDone(call, []byte("first"))
	call, _, err = run(seq + 2)
	ok(t, "SEQUENCE", err)
	w.s.SequenceUndo(call)
	if call.Client != nil || call.Session() != nil {
		t.Error("the call still has a session")
	}
	_, r, err := run(seq + 1)
	mustBe(t, "retry of the one before", err, ErrReplay)
	if string(r.Replay) != "first" {
		t.Errorf("replay %q", r.Replay)
	}
	call, _, err = run(seq + 2)
	ok(t, "SEQUENCE again", err)
	w.s.SequenceDone(call, nil)
	w.s.SequenceUndo(call) // does nothing
	c.slot[0] = seq + 2
}
