package nfs4

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"sluice/pkg/state"
	"sluice/rpc"
	wire "sluice/xdr/nfs4"
)

// connAt is a connection from one of the loopback's addresses.
func (s *testServer) connAt(ip string) *conn {
	s.t.Helper()
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(ip)}}
	nc, err := d.Dial("tcp", s.addr)
	must(s.t, err)
	c := rpc.NewClient(nc)
	c.Timeout = 60 * time.Second
	s.t.Cleanup(func() { c.Close() })
	return &conn{Client: c, s: s, nc: nc, cred: rpc.Cred{Flavor: rpc.FlavorSys, Machine: []byte("test")}}
}

// confirm40 makes a client of 4.0 that takes callbacks at an address.
func (c *conn) confirm40(name, addr string, program uint32) uint64 {
	t := c.s.t
	t.Helper()
	r := c.compound(op{wire.OP_SETCLIENTID, &wire.SETCLIENTID4args{Client: wire.NfsClientId4{Id: []byte(name)}, Callback: wire.CbClient4{
		CbProgram: program, CbLocation: wire.Clientaddr4{NaRNetid: []byte("tcp"), NaRAddr: []byte(addr)}}}})
	var sc wire.SETCLIENTID4res
	r.next(t, wire.OP_SETCLIENTID, ok, &sc)
	c.compound(op{wire.OP_SETCLIENTID_CONFIRM, &wire.SETCLIENTIDCONFIRM4args{Clientid: sc.Resok4.Clientid, SetclientidConfirm: sc.Resok4.SetclientidConfirm}}).
		next(t, wire.OP_SETCLIENTID_CONFIRM, ok, nil)
	return sc.Resok4.Clientid
}

// callbackState is what is known of the way to a client.
func (s *testServer) callbackState(id uint64) string {
	for _, c := range s.st.Clients() {
		if uint64(c.ID) == id {
			return c.Callback
		}
	}
	return "gone"
}

func (s *testServer) eventually(what string, f func() bool) {
	s.t.Helper()
	for range 3000 {
		if f() {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	s.t.Fatalf("%s: not in 30 s", what)
}

// listen40 takes callbacks; each connection is handed to serve.
func listen40(t testing.TB, serve func(net.Conn)) (addr string) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	t.Cleanup(func() { ln.Close() })
	go func() {
		for {
			nc, err := ln.Accept()
			if err != nil {
				return
			}
			go serve(nc)
		}
	}()
	return dotted(ln.Addr().(*net.TCPAddr).Port)
}

// Clients of one host whose callback addresses lead nowhere do not keep those of another host from being called, and leave
// nothing behind.
func TestCallbacksLeadNowhere(t *testing.T) {
	s := startServer(t, delegations)
	stop := make(chan struct{})
	silent := listen40(t, func(nc net.Conn) { <-stop; nc.Close() })
	bad := s.conn()
	for i := range 2 * maxCallbacks40 {
		bad.confirm40(fmt.Sprint("bad", i), silent, 0x40000000)
	}
	// Each callback update asks for another probe.
	for range 2 * maxCallbacks40 {
		bad.confirm40("bad0", silent, 0x40000000)
	}
	s.cb.mu.Lock()
	busy := s.cb.turns.busy
	s.cb.mu.Unlock()
	if busy > maxCallbacks40/2 {
		t.Errorf("%d callbacks of one peer under way", busy)
	}
	good := s.connAt("127.0.0.2")
	id := good.confirm40("good", listen40(t, func(nc net.Conn) { serveCallback(t, nc, ok, nil) }), 0x40000000)
	s.eventually("the probe of another host's client", func() bool { return s.callbackState(id) == "up" })
	// One of the same host has to wait, and is not taken for unreachable meanwhile.
	late := bad.confirm40("late", listen40(t, func(nc net.Conn) { serveCallback(t, nc, ok, nil) }), 0x40000000)
	if st := s.callbackState(late); st == "down" {
		t.Errorf("a client whose probe has to wait is %s", st)
	}
	close(stop)
	s.eventually("the probe that had to wait", func() bool { return s.callbackState(late) == "up" })
	for _, c := range s.st.Clients() {
		must(t, s.st.ExpireClient(c.ID))
	}
	s.eventually("the end of all that", func() bool {
		s.cb.mu.Lock()
		defer s.cb.mu.Unlock()
		return s.cb.turns.busy == 0 && len(s.cb.turns.peers) == 0 && len(s.cb.paths) == 0 && len(s.cb.probes) == 0 && s.cb.kept.Load() == 0
	})
}

// What is no answer to a callback is not waited for, nor taken in.
func TestCallbackAnswers(t *testing.T) {
	s := startServer(t, delegations)
	for what, c := range map[string]struct {
		answer []byte
		want   string
	}{
		"a record of 1 GiB":      {[]byte{0xc0, 0, 0, 0}, "record longer than the limit"},
		"fragments without end":  {[]byte(strings.Repeat("\x00\x00\x40\x00"+strings.Repeat("x", 0x4000), 4)), "record longer than the limit"},
		"answers to other calls": {[]byte(strings.Repeat("\x80\x00\x00\x04none", 1000)), "too many replies"},
	} {
		addr := listen40(t, func(nc net.Conn) {
			nc.Write(c.answer) //nolint:errcheck // it may be closed meanwhile
		})
		p := path40{kept: &s.cb.kept}
		err := p.call(state.CallbackTarget{Program: 0x40000000, NetID: "tcp", Addr: addr}, wire.CB_NULL, nil, nil, nil)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", what, err)
		}
	}
	// A client that names the server itself is answered by it like anybody: there is no such program. Programs with fixed
	// numbers are never called.
	var port int
	_, err := fmt.Sscanf(s.addr, "127.0.0.1:%d", &port)
	must(t, err)
	c := s.conn()
	for _, program := range []uint32{0x40000000, wire.NFS4_PROGRAM, 100005, 0} {
		id := c.confirm40(fmt.Sprint(program), dotted(port), program)
		s.eventually("its probe", func() bool { return s.callbackState(id) != "unknown" })
		if st := s.callbackState(id); st != "down" {
			t.Errorf("program %d of the server itself: %s", program, st)
		}
	}
	if n := s.cb.kept.Load(); n != 1 {
		t.Errorf("%d connections, want the one with a program that may be called", n)
	}
}

// readable tells whether something has come.
func (c *conn) readable() bool {
	raw, err := c.nc.(*net.TCPConn).SyscallConn()
	must(c.s.t, err)
	n := 0
	must(c.s.t, raw.Control(func(fd uintptr) { n, _ = unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 0) }))
	return n > 0
}

// A client that asks for a probe again and again has one at a time.
func TestProbesInARow(t *testing.T) {
	s := startServer(t)
	x := s.session(2, "eager")
	ctl := op{wire.OP_BACKCHANNEL_CTL, &wire.BACKCHANNELCTL4args{BcaCbProgram: 0x40000001, BcaSecParms: []wire.CallbackSecParms4{{}}}}
	var ops []op
	for range 15 {
		ops = append(ops, ctl)
	}
	for range 20 {
		if r := x.compound(ops...); r.status != ok {
			t.Fatal(r.status)
		}
	}
	s.cb.mu.Lock()
	n := len(s.cb.probes)
	s.cb.mu.Unlock()
	if n != 1 {
		t.Errorf("%d probes under way", n)
	}
	var last uint32
	s.eventually("the probe's result", func() bool { // one that came during a call of ours was read over, and comes again
		if x.readable() {
			last = serveCallback(t, x.nc, ok, nil).prog
		}
		return s.callbackState(x.clientid) == "up"
	})
	if last != 0x40000001 {
		t.Errorf("the last probe is to program %#x", last)
	}
	s.cb.mu.Lock()
	defer s.cb.mu.Unlock()
	if len(s.cb.probes) != 0 {
		t.Error("another probe is under way")
	}
}

// Many clients of one host are all asked for their delegations, though only some at a time, and without the one that wants
// the file coming again.
func TestManyRecalls40(t *testing.T) {
	s := startServer(t, delegations)
	const clients = 100
	var recalls atomic.Int32
	addr := listen40(t, func(nc net.Conn) {
		for range 2 { // the probe, the recall
			if serveCallback(t, nc, ok, nil).num == wire.OP_CB_RECALL {
				recalls.Add(1)
			}
		}
	})
	must(t, os.WriteFile(filepath.Join(s.dir, "f"), nil, 0o644))
	c := s.conn()
	for i := range clients {
		id := c.confirm40(fmt.Sprint("c", i), addr, 0x40000000)
		s.eventually("the probe", func() bool { return s.callbackState(id) == "up" })
		var o wire.OPEN4res
		r := c.compound(root(), op{wire.OP_OPEN, openArgs("owner", 1, id, "f", wire.OPEN4_SHARE_ACCESS_READ, 0, false)}, getfh())
		skipTo(t, r, wire.OP_PUTROOTFH)
		r.next(t, wire.OP_OPEN, ok, &o)
		var g wire.GETFH4res
		r.next(t, wire.OP_GETFH, ok, &g)
		fh := append([]byte(nil), g.Resok4.Object...)
		r = c.compound(putfh(fh), op{wire.OP_OPEN_CONFIRM, &wire.OPENCONFIRM4args{OpenStateid: o.Resok4.Stateid, Seqid: 2}},
			root(), op{wire.OP_OPEN, openArgs("owner", 3, id, "f", wire.OPEN4_SHARE_ACCESS_READ, 0, false)})
		skipTo(t, r, wire.OP_PUTFH)
		r.next(t, wire.OP_OPEN_CONFIRM, ok, &wire.OPENCONFIRM4res{})
		skipTo(t, r, wire.OP_PUTROOTFH)
		r.next(t, wire.OP_OPEN, ok, &o)
		if d := o.Resok4.Delegation.DelegationType; d != wire.OPEN_DELEGATE_READ {
			t.Fatalf("client %d: delegation %v", i, d)
		}
	}
	x := s.session(1, "writer")
	r := x.compound(root(), op{wire.OP_OPEN, openArgs("o", 0, x.clientid, "f", wire.OPEN4_SHARE_ACCESS_WRITE, 0, false)})
	skipTo(t, r, wire.OP_PUTROOTFH)
	r.next(t, wire.OP_OPEN, wire.NFS4ERR_DELAY, nil)
	s.eventually("all recalls", func() bool { return recalls.Load() == clients })
}
