package nfs4

import (
	"path/filepath"
	"testing"

	"sluice/test/testenv"
	wire "sluice/xdr/nfs4"
)

// SEQUENTIAL has more read ahead for the open that said so, not for others of the same file.
func TestSequentialIsTheOpens(t *testing.T) {
	s := startServerOn(t, testenv.XFS(t, 512))
	x, y := s.session(2, "x"), s.session(2, "y")
	brings := func(name string, hint bool, reader *session) int {
		t.Helper()
		path := filepath.Join(s.dir, name)
		testenv.ColdFile(t, path, 8)
		sids := map[*session]wire.Stateid4{}
		var fh []byte
		for _, c := range []*session{x, y} {
			_, o, h := c.open(name, wire.OPEN4_SHARE_ACCESS_READ)
			sids[c], fh = o.Stateid, h
		}
		if hint {
			h := []wire.IOADVISEType4{wire.IO_ADVISE4_SEQUENTIAL}
			x.advise(fh, sids[x], 0, 0, h, h...)
		}
		reader.get(fh, sids[reader], 0, 128<<10)
		return settledPages(t, path)
	}
	normal := brings("a", false, y)
	if n := brings("b", true, y); n != normal {
		t.Errorf("a READ by another brought %d in, without the hint %d", n, normal)
	}
	if n := brings("c", true, x); n <= normal {
		t.Errorf("a READ brought %d in, without the hint %d", n, normal)
	}
}

// Hints may be given with a delegation, and steer what is read with it.
func TestIOAdviseByDelegation(t *testing.T) {
	s := startServer(t, delegations)
	randomFile(t, filepath.Join(s.dir, "f"), 1<<20)
	x := s.session(2, "x")
	_, o, fh := x.open("f", wire.OPEN4_SHARE_ACCESS_READ)
	if o.Delegation.DelegationType != wire.OPEN_DELEGATE_READ {
		t.Fatalf("no delegation: %+v", o.Delegation)
	}
	sid := o.Delegation.Read.Stateid
	h := []wire.IOADVISEType4{wire.IO_ADVISE4_NOREUSE}
	for i, hints := range [][]wire.IOADVISEType4{h, nil} {
		x.advise(fh, sid, 0, 0, hints, hints...)
		x.get(fh, sid, 0, 1<<20)
		if n := s.engine.Stats().Read["dontcache"].Calls; n != 1 {
			t.Errorf("%d: %d READs in dontcache", i, n)
		}
	}
}
