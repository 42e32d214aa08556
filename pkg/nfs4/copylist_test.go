package nfs4

import (
	"path/filepath"
	"testing"

	"sluice/pkg/state"
	wire "sluice/xdr/nfs4"
)

// A copy is in the list from its begin to its end, with its files and how far it is.
func TestCopiesAreListed(t *testing.T) {
	s := startServer(t)
	const size = copyPiece + 1
	randomFile(t, filepath.Join(s.dir, "src"), size)
	if list, begun := s.svc.Copies(); len(list) != 0 || begun != 0 {
		t.Errorf("before the first: %+v, %d", list, begun)
	}
	a, b := newCopier(s, "a", "src", "a"), newCopier(s, "b", "src", "b")
	release := s.idle()
	first, second := a.later(), b.later()
	list, begun := s.svc.Copies()
	if len(list) != 2 || begun != 2 {
		t.Fatalf("%+v, %d begun", list, begun)
	}
	for i, sid := range []wire.Stateid4{first, second} {
		k := list[i]
		if k.Stateid != (state.Stateid{Seqid: sid.Seqid, Other: sid.Other}) || k.Bytes != size || k.Copied != 0 || k.Source != list[0].Source || k.Source == k.Target {
			t.Errorf("copy %d: %+v", i, k)
		}
	}
	if list[0].Client == list[1].Client || list[0].Client == 0 || list[0].Target == list[1].Target {
		t.Errorf("the copies of two clients: %+v", list)
	}
	a.offloadCancel(a.dstFH, first, ok)
	if list, begun = s.svc.Copies(); len(list) != 1 || begun != 2 || list[0].Stateid.Other != second.Other {
		t.Errorf("after OFFLOAD_CANCEL: %+v, %d", list, begun)
	}
	release()
	b.offloaded(ok)
	if list, begun = s.svc.Copies(); len(list) != 0 || begun != 2 {
		t.Errorf("after the end: %+v, %d", list, begun)
	}
}
