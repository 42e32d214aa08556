package nfs4

import (
	"os"
	"path/filepath"
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

// A holder says of any number of changes that there was one: each answer to others must show a new change attribute, and
// times no older than the question (RFC 8881, 10.4.3). What it has not changed stays as it was when it opened the file, be it
// with a truncation.
func TestHolderChangesAgain(t *testing.T) {
	s := startServer(t, delegations)
	must(t, os.WriteFile(filepath.Join(s.dir, "f"), []byte("old data"), 0o666))
	a, b := s.session(2, "a"), s.session(2, "b")
	trunc := openArgs("o", 0, a.clientid, "f", wire.OPEN4_SHARE_ACCESS_BOTH, 0, true)
	trunc.Openhow.How.Createattrs = fattr(func(e *xdr.Encoder) { e.Uint64(0) }, wire.FATTR4_SIZE)
	r := a.compound(root(), op{wire.OP_OPEN, trunc}, getfh(), getattr(wire.FATTR4_CHANGE))
	skipTo(t, r, wire.OP_PUTROOTFH)
	var o wire.OPEN4res
	r.next(t, wire.OP_OPEN, ok, &o)
	if o.Resok4.Delegation.DelegationType != wire.OPEN_DELEGATE_WRITE {
		t.Fatalf("no delegation: %+v", o.Resok4.Delegation)
	}
	var g wire.GETFH4res
	r.next(t, wire.OP_GETFH, ok, &g)
	fh := append([]byte(nil), g.Resok4.Object...)
	take := func(r *results) *xdr.Decoder {
		var g wire.GETATTR4res
		r.next(t, wire.OP_GETATTR, ok, &g)
		var d xdr.Decoder
		d.Reset(g.Resok4.ObjAttributes.AttrVals)
		return &d
	}
	opened := take(r).Uint64()
	ask := func(change, size uint64) (uint64, int64) {
		t.Helper()
		var wg sync.WaitGroup
		wg.Go(func() {
			attrs := fattr(func(e *xdr.Encoder) { e.Uint64(change); e.Uint64(size) }, wire.FATTR4_CHANGE, wire.FATTR4_SIZE)
			serveCallback(t, a.nc, ok, &attrs)
		})
		r := b.compound(putfh(fh), getattr(wire.FATTR4_CHANGE, wire.FATTR4_SIZE, wire.FATTR4_TIME_MODIFY))
		wg.Wait()
		skipTo(t, r, wire.OP_PUTFH)
		d := take(r)
		got := d.Uint64()
		if n := d.Uint64(); n != size {
			t.Errorf("size %d, want %d", n, size)
		}
		return got, d.Int64()*1e9 + int64(d.Uint32())
	}
	same, old := ask(opened, 0)
	if same != opened {
		t.Errorf("nothing has changed: %d, was %d", same, opened)
	}
	last, lastTime := same, old
	for i := range 3 {
		change, mtime := ask(opened+1, 10)
		if change <= last || mtime <= lastTime {
			t.Errorf("change %d: %d at %d, after %d at %d", i+1, change, mtime, last, lastTime)
		}
		last, lastTime = change, mtime
	}
}

// The change attribute is the change time: it goes back with the clock, so that clients must not take it for a counter.
func TestChangeAttrType(t *testing.T) {
	s := startServer(t)
	must(t, os.WriteFile(filepath.Join(s.dir, "f"), nil, 0o666))
	x := s.session(2, "x")
	r := x.compound(root(), lookup("f"), getattr(wire.FATTR4_CHANGE, wire.FATTR4_TIME_METADATA, wire.FATTR4_CHANGE_ATTR_TYPE))
	skipTo(t, r, wire.OP_PUTROOTFH)
	r.next(t, wire.OP_LOOKUP, ok, nil)
	var g wire.GETATTR4res
	r.next(t, wire.OP_GETATTR, ok, &g)
	var d xdr.Decoder
	d.Reset(g.Resok4.ObjAttributes.AttrVals)
	change, sec, nsec, kind := d.Uint64(), d.Uint64(), d.Uint32(), d.Uint32()
	if change != sec*1e9+uint64(nsec) || kind != uint32(wire.NFS4_CHANGE_TYPE_IS_TIME_METADATA) {
		t.Errorf("change %d, of type %d; change time %d.%09d", change, kind, sec, nsec)
	}
}
