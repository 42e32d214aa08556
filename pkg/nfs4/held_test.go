package nfs4

import (
	"sync"
	"testing"

	"sluice/xdr"
	wire "sluice/xdr/nfs4"
)

// listed takes the attributes of the entries of a READDIR of the root apart, which must all be there.
func (x *session) listed(maxcount uint32, asked ...uint32) (wire.Nfsstat4, map[string]wire.Fattr4) {
	t := x.s.t
	t.Helper()
	r := x.compound(root(), op{wire.OP_READDIR, &wire.READDIR4args{Dircount: maxcount, Maxcount: maxcount, AttrRequest: wire.Bits(asked...)}})
	skipTo(t, r, wire.OP_PUTROOTFH)
	if r.status != ok {
		return r.status, nil
	}
	var res wire.READDIR4res
	r.next(t, wire.OP_READDIR, ok, &res)
	m := map[string]wire.Fattr4{}
	for _, e := range res.Resok4.Reply.Entries {
		m[string(e.Name)] = e.Attrs
	}
	return ok, m
}

func words32(a wire.Fattr4) (l []uint32) {
	var d xdr.Decoder
	for d.Reset(a.AttrVals); d.Len() > 0; {
		l = append(l, d.Uint32())
	}
	return l
}

// READDIR, too, asks the holder of a write delegation, if what it is asked for is the holder's to know.
func TestReaddirAsksTheHolder(t *testing.T) {
	s := startServer(t, delegations)
	a, b := s.session(2, "a"), s.session(2, "b")
	_, o, fh := a.open("f", wire.OPEN4_SHARE_ACCESS_BOTH)
	if o.Delegation.DelegationType != wire.OPEN_DELEGATE_WRITE {
		t.Fatalf("no delegation: %+v", o.Delegation)
	}
	if st, l := b.listed(8192, wire.FATTR4_TYPE); st != ok || len(l["f"].AttrVals) != 4 {
		t.Errorf("types: %v, %v", st, l)
	}
	if st, l := a.listed(8192, wire.FATTR4_SIZE); st != ok || len(l["f"].AttrVals) != 8 {
		t.Errorf("the holder itself: %v, %v", st, l)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		attrs := fattr(func(e *xdr.Encoder) { e.Uint64(1 << 62); e.Uint64(12345) }, wire.FATTR4_CHANGE, wire.FATTR4_SIZE)
		if cb := serveCallback(t, a.nc, ok, &attrs); cb.num != wire.OP_CB_GETATTR {
			t.Errorf("callback %v", cb.num)
		}
	})
	st, l := b.listed(8192, wire.FATTR4_SIZE)
	wg.Wait()
	if got := words32(l["f"]); st != ok || len(got) != 2 || got[1] != 12345 {
		t.Errorf("size %v, %v", got, st)
	}
	r := a.compound(putfh(fh), op{wire.OP_DELEGRETURN, &wire.DELEGRETURN4args{DelegStateid: o.Delegation.Write.Stateid}})
	if r.status != ok {
		t.Errorf("DELEGRETURN: %v", r.status)
	}
	if st, l := b.listed(8192, wire.FATTR4_SIZE); st != ok || words32(l["f"])[1] != 0 {
		t.Errorf("after the return: %v, %v", st, l)
	}
}

// A holder that does not answer holds up one listing once, and costs the attributes of its own files alone.
func TestReaddirWithSilentHolder(t *testing.T) {
	s := startServer(t, delegations)
	a, b := s.session(2, "a"), s.session(2, "b")
	const files = 30
	for i := range files {
		if _, o, _ := a.open(string(rune('a'+i)), wire.OPEN4_SHARE_ACCESS_BOTH); o.Delegation.DelegationType != wire.OPEN_DELEGATE_WRITE {
			t.Fatalf("no delegation: %+v", o.Delegation)
		}
	}
	b.open("own", wire.OPEN4_SHARE_ACCESS_BOTH)
	st, l := b.listed(1<<16, wire.FATTR4_RDATTR_ERROR, wire.FATTR4_SIZE, wire.FATTR4_MOUNTED_ON_FILEID)
	if n := s.st.Counters().DelegsRecalled; n != 1 {
		t.Errorf("%d delegations were recalled, each after a wait", n)
	}
	if st != ok || len(l) != files+1 {
		t.Fatalf("%v, %d entries", st, len(l))
	}
	for name, attrs := range l {
		want, delayed := wire.Bits(wire.FATTR4_RDATTR_ERROR, wire.FATTR4_SIZE, wire.FATTR4_MOUNTED_ON_FILEID), uint32(ok)
		if name != "own" {
			want, delayed = wire.Bits(wire.FATTR4_RDATTR_ERROR, wire.FATTR4_MOUNTED_ON_FILEID), uint32(wire.NFS4ERR_DELAY)
		}
		// In the order of their numbers: after the size, of two words, for one's own.
		got := words32(attrs)
		at := 0
		if name == "own" {
			at = 2
		}
		if attrs.Attrmask.Words != want.Words || got[at] != delayed {
			t.Errorf("%s: attributes %v, values %v", name, attrs.Attrmask, got)
		}
	}
	if st, _ := b.listed(1<<16, wire.FATTR4_SIZE); st != wire.NFS4ERR_DELAY && st != ok {
		t.Errorf("without rdattr_error: %v", st)
	}
}
