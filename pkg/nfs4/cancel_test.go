package nfs4

import (
	"os"
	"path/filepath"
	"testing"

	"sluice/test/testenv"
	wire "sluice/xdr/nfs4"
)

// OFFLOAD_CANCEL of a copy that is at work waits for the piece under way, here held up by a frozen file system: once it is
// answered nothing more is written, and nobody is told of the copy.
func TestCopyCancelledAtWork(t *testing.T) {
	s := startServerOn(t, testenv.XFS(t, 512))
	const size = 3*copyPiece + 4096
	must(t, os.WriteFile(filepath.Join(s.dir, "src"), nil, 0o644))
	must(t, os.Truncate(filepath.Join(s.dir, "src"), size))
	c := newCopier(s, "a", "src", "dst")
	release := s.idle()
	sid := c.later()
	q := &s.svc.copies
	q.mu.Lock()
	o := q.queue[0]
	q.mu.Unlock()
	thaw := testenv.Freeze(t, s.dir)
	release()
	s.eventually("a worker has it", func() bool {
		q.mu.Lock()
		defer q.mu.Unlock()
		return len(q.queue) == 0
	})
	answered := make(chan bool)
	go func() {
		defer close(answered)
		c.offloadCancel(c.dstFH, sid, ok)
	}()
	s.eventually("the cancellation", func() bool {
		q.mu.Lock()
		defer q.mu.Unlock()
		return o.cancelled
	})
	select {
	case <-answered:
		t.Error("answered while a piece is being written")
	default:
	}
	thaw()
	<-answered
	fi, err := os.Stat(filepath.Join(s.dir, "dst"))
	must(t, err)
	if n := fi.Size(); n > copyPiece {
		t.Errorf("%d bytes were copied, more than the piece under way", n)
	}
	c.offloadStatus(c.dstFH, sid, wire.NFS4ERR_BAD_STATEID)
	c.offloadCancel(c.dstFH, sid, wire.NFS4ERR_BAD_STATEID)
	second := c.later()
	if cb := c.offloaded(ok); cb.CoaStateid != second || cb.CoaOffloadInfo.CoaResok4.WrCount != size {
		t.Errorf("CB_OFFLOAD of %+v, want the second copy's", cb)
	}
}
