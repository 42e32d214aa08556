package nfs4

import (
	"fmt"
	"net"
	"sync"
	"testing"
	"time"

	"sluice/pkg/state"
	"sluice/rpc"
	"sluice/xdr"
	wire "sluice/xdr/nfs4"
)

func delegations(c *state.Config) { c.Delegations, c.WriteDelegs = true, true }

// callback is what came from the server.
type callback struct {
	proc  uint32
	prog  uint32
	minor uint32
	ident uint32
	num   wire.NfsCbOpnum4
	args  xdr.Decoder
	cred  rpc.Cred
	calls []wire.ReferringCallList4
}

// serveCallback reads one call and answers it; op gives the operation's result behind its status.
func serveCallback(t testing.TB, nc net.Conn, st wire.Nfsstat4, op rpc.Encodable) callback {
	t.Helper()
	nc.SetDeadline(time.Now().Add(20 * time.Second)) //nolint:errcheck // it would show
	b, err := rpc.ReadRecord(nc, 1<<20)
	must(t, err)
	var d xdr.Decoder
	d.Reset(b)
	xid := d.Uint32()
	if d.Uint32() != 0 || d.Uint32() != 2 {
		t.Fatal("not a call")
	}
	cb := callback{prog: d.Uint32()}
	if v := d.Uint32(); v != wire.NFS_CB {
		t.Errorf("callback version %d", v)
	}
	cb.proc = d.Uint32()
	cb.cred.Flavor = d.Uint32()
	body := d.Opaque(400)
	d.Uint32()
	d.Opaque(400)
	if cb.cred.Flavor == rpc.FlavorSys {
		var s wire.AuthsysParms
		var sd xdr.Decoder
		sd.Reset(body)
		s.Decode(&sd)
		cb.cred.UID, cb.cred.GID = s.Uid, s.Gid
	}
	var e xdr.Encoder
	for _, w := range []uint32{0, xid, 1, 0, 0, 0, 0} {
		e.Uint32(w)
	}
	if cb.proc == wire.CB_COMPOUND {
		var h wire.CBCOMPOUND4args
		h.Decode(&d)
		cb.minor, cb.ident = h.Minorversion, h.CallbackIdent
		n := h.Argarray
		res := wire.CBCOMPOUND4res{Status: st, Resarray: n}
		res.Encode(&e)
		if cb.minor > 0 {
			if num := d.Uint32(); wire.NfsCbOpnum4(num) != wire.OP_CB_SEQUENCE {
				t.Errorf("the first operation is %d", num)
			}
			var s wire.CBSEQUENCE4args
			s.Decode(&d)
			cb.calls = s.CsaReferringCallLists
			e.Uint32(uint32(wire.OP_CB_SEQUENCE))
			r := wire.CBSEQUENCE4res{CsrResok4: wire.CBSEQUENCE4resok{CsrSessionid: s.CsaSessionid, CsrSequenceid: s.CsaSequenceid, CsrSlotid: s.CsaSlotid}}
			r.Encode(&e)
			n--
		}
		if n > 0 {
			cb.num = wire.NfsCbOpnum4(d.Uint32())
			cb.args = d
			e.Uint32(uint32(cb.num))
			e.Uint32(uint32(st))
			if op != nil {
				op.Encode(&e)
			}
		}
	}
	e.PatchUint32(0, 1<<31|uint32(e.Len()-4))
	_, err = nc.Write(e.Bytes())
	must(t, err)
	return cb
}

func (x *session) open(name string, access uint32) (wire.Nfsstat4, wire.OPEN4resok, []byte) {
	t := x.s.t
	t.Helper()
	r := x.compound(root(), op{wire.OP_OPEN, openArgs("o", 0, x.clientid, name, access, 0, true)}, getfh())
	skipTo(t, r, wire.OP_PUTROOTFH)
	if r.status != ok {
		return r.status, wire.OPEN4resok{}, nil
	}
	var o wire.OPEN4res
	r.next(t, wire.OP_OPEN, ok, &o)
	var g wire.GETFH4res
	r.next(t, wire.OP_GETFH, ok, &g)
	return ok, o.Resok4, append([]byte(nil), g.Resok4.Object...)
}

// A conflicting OPEN of 4.1 recalls a delegation over the holder's connection, in the session's minor version.
//
// (The probe that CREATE_SESSION sends is read over by the calls that follow it, and not answered.)
func TestRecall41(t *testing.T) {
	s := startServer(t, delegations)
	a, b := s.session(2, "a"), s.session(1, "b")
	_, o, fh := a.open("f", wire.OPEN4_SHARE_ACCESS_READ)
	if o.Delegation.DelegationType != wire.OPEN_DELEGATE_READ {
		if _, o, fh = a.open("g", wire.OPEN4_SHARE_ACCESS_READ); o.Delegation.DelegationType != wire.OPEN_DELEGATE_READ {
			t.Fatalf("no delegation: %+v", o.Delegation)
		}
	}
	name := "f"
	if st, _, _ := b.open(name, wire.OPEN4_SHARE_ACCESS_WRITE); st != wire.NFS4ERR_DELAY && st != ok {
		t.Fatalf("conflicting OPEN: %v", st)
	}
	cb := serveCallback(t, a.nc, ok, nil)
	var args wire.CBRECALL4args
	args.Decode(&cb.args)
	if cb.minor != 2 || cb.prog != 0x40000000 || cb.num != wire.OP_CB_RECALL || string(args.Fh) != string(fh) || args.Stateid != o.Delegation.Read.Stateid {
		t.Errorf("callback %+v, %+v", cb, args)
	}
	r := a.compound(putfh(fh), op{wire.OP_DELEGRETURN, &wire.DELEGRETURN4args{DelegStateid: o.Delegation.Read.Stateid}})
	if r.status != ok {
		t.Errorf("DELEGRETURN: %v", r.status)
	}
	if st, _, _ := b.open(name, wire.OPEN4_SHARE_ACCESS_WRITE); st != ok {
		t.Errorf("OPEN after the return: %v", st)
	}
}

// GETATTR of a file that another client has a write delegation on asks that client.
func TestCBGetattr(t *testing.T) {
	s := startServer(t, delegations)
	a, b := s.session(2, "a"), s.session(2, "b")
	_, o, fh := a.open("f", wire.OPEN4_SHARE_ACCESS_BOTH)
	if o.Delegation.DelegationType != wire.OPEN_DELEGATE_WRITE {
		t.Fatalf("no delegation: %+v", o.Delegation)
	}
	r := a.compound(putfh(fh), getattr(wire.FATTR4_CHANGE))
	skipTo(t, r, wire.OP_PUTFH)
	var g wire.GETATTR4res
	r.next(t, wire.OP_GETATTR, ok, &g)
	var d xdr.Decoder
	d.Reset(g.Resok4.ObjAttributes.AttrVals)
	change := d.Uint64()
	var wg sync.WaitGroup
	wg.Go(func() {
		attrs := fattr(func(e *xdr.Encoder) { e.Uint64(change + 1); e.Uint64(12345) }, wire.FATTR4_CHANGE, wire.FATTR4_SIZE)
		if cb := serveCallback(t, a.nc, ok, &attrs); cb.num != wire.OP_CB_GETATTR {
			t.Errorf("callback %v", cb.num)
		}
	})
	r = b.compound(putfh(fh), getattr(wire.FATTR4_CHANGE, wire.FATTR4_SIZE))
	wg.Wait()
	skipTo(t, r, wire.OP_PUTFH)
	r.next(t, wire.OP_GETATTR, ok, &g)
	d.Reset(g.Resok4.ObjAttributes.AttrVals)
	if c, size := d.Uint64(), d.Uint64(); c <= change || size != 12345 {
		t.Errorf("change %d (was %d), size %d", c, change, size)
	}
}

// 4.0: the address of SETCLIENTID is probed, and called.
func TestRecall40(t *testing.T) {
	s := startServer(t, delegations)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer ln.Close()
	port := ln.Addr().(*net.TCPAddr).Port
	c := &client40{conn: s.conn()}
	r := c.compound(op{wire.OP_SETCLIENTID, &wire.SETCLIENTID4args{Client: wire.NfsClientId4{Id: []byte("a")}, CallbackIdent: 77, Callback: wire.CbClient4{
		CbProgram: 0x40000001, CbLocation: wire.Clientaddr4{NaRNetid: []byte("tcp"), NaRAddr: []byte(dotted(port))}}}})
	var sc wire.SETCLIENTID4res
	r.next(t, wire.OP_SETCLIENTID, ok, &sc)
	c.clientid = sc.Resok4.Clientid
	c.compound(op{wire.OP_SETCLIENTID_CONFIRM, &wire.SETCLIENTIDCONFIRM4args{Clientid: c.clientid, SetclientidConfirm: sc.Resok4.SetclientidConfirm}}).
		next(t, wire.OP_SETCLIENTID_CONFIRM, ok, nil)
	nc, err := ln.Accept()
	must(t, err)
	defer nc.Close()
	if cb := serveCallback(t, nc, ok, nil); cb.proc != wire.CB_NULL || cb.prog != 0x40000001 {
		t.Errorf("probe: %+v", cb)
	}
	open := func(name string, seqid uint32) (wire.OPEN4resok, []byte) {
		r := c.compound(root(), op{wire.OP_OPEN, openArgs("o", seqid, c.clientid, name, wire.OPEN4_SHARE_ACCESS_READ, 0, true)}, getfh())
		skipTo(t, r, wire.OP_PUTROOTFH)
		var o wire.OPEN4res
		r.next(t, wire.OP_OPEN, ok, &o)
		var g wire.GETFH4res
		r.next(t, wire.OP_GETFH, ok, &g)
		return o.Resok4, append([]byte(nil), g.Resok4.Object...)
	}
	o, fh := open("f", 1)
	c.compound(putfh(fh), op{wire.OP_OPEN_CONFIRM, &wire.OPENCONFIRM4args{OpenStateid: o.Stateid, Seqid: 2}})
	for try := uint32(0); o.Delegation.DelegationType != wire.OPEN_DELEGATE_READ; try++ {
		if try == 50 {
			t.Fatal("no delegation")
		}
		time.Sleep(20 * time.Millisecond) // until the probe's answer is in
		o, fh = open("g", 3+try)
	}
	b := s.session(1, "b")
	b.open("g", wire.OPEN4_SHARE_ACCESS_WRITE)
	cb := serveCallback(t, nc, ok, nil)
	var args wire.CBRECALL4args
	args.Decode(&cb.args)
	if cb.num != wire.OP_CB_RECALL || cb.ident != 77 || cb.minor != 0 || string(args.Fh) != string(fh) {
		t.Errorf("recall: %+v, %+v", cb, args)
	}
}

func dotted(port int) string { return fmt.Sprintf("127.0.0.1.%d.%d", port>>8, port&255) }

func TestUniversalAddresses(t *testing.T) {
	for in, want := range map[string]string{
		"192.0.2.1.8.1": "192.0.2.1:2049", "::1.0.111": "[::1]:111", "0.0.0.0.0.0": "", "192.0.2.1.0.0": "", "1.2.3.4.256.1": "", "": "", "x.1.1": "",
		"1.2.3.4.5": "", "224.0.0.1.1.1": "",
	} {
		a, valid := universal("tcp", in)
		if valid != (want != "") || valid && a.String() != want {
			t.Errorf("%s: %v, %v, want %q", in, a, valid, want)
		}
	}
	if _, valid := universal("udp", "192.0.2.1.8.1"); valid {
		t.Error("udp is taken")
	}
}
