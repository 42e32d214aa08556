package rpc

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"testing"
	"time"

	"sluice/xdr"
)

// call builds the record of a call word by word, so that anything can be wrong.
func rawCall(body ...any) []byte {
	var b []byte
	for _, x := range body {
		switch x := x.(type) {
		case int:
			b = binary.BigEndian.AppendUint32(b, uint32(x))
		case []byte:
			b = append(b, x...)
		}
	}
	return fragment(b)
}

func authSys(machine, groups int) []byte {
	var e xdr.Encoder
	e.Uint32(0)
	e.Opaque(make([]byte, machine))
	e.Uint32(1000)
	e.Uint32(100)
	e.Uint32(uint32(groups))
	for i := range groups {
		e.Uint32(uint32(i))
	}
	var c xdr.Encoder
	c.Uint32(FlavorSys)
	c.Opaque(e.Bytes())
	return c.Bytes()
}

var (
	none     = be(0, 0) // AUTH_NONE, as credential or verifier
	whoNone  = be(7, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0)
	mismatch = be(7, 1, 1, 0, 2, 2)
	badCred  = be(7, 1, 1, 1, uint32(AuthBadCred))
	badVerf  = be(7, 1, 1, 1, uint32(AuthBadVerf))
)

func accept(stat uint32, more ...uint32) []byte {
	return be(append([]uint32{7, 1, 0, 0, 0, stat}, more...)...)
}

func TestWire(t *testing.T) {
	ts := start(t, nil)
	const prog, who = testProg, procWhoAmI
	for _, tc := range []struct {
		name string
		send []byte
		want []byte // nil: the connection is closed
	}{
		{"null", rawCall(7, 0, 2, prog, 3, 0, none, none), accept(0)},
		{"null of the other version", rawCall(7, 0, 2, prog, 5, 0, none, none), accept(0)},
		{"null with 17 groups", rawCall(7, 0, 2, prog, 3, 0, authSys(4, 17), none), badCred},
		{"null with a credential cut short", rawCall(7, 0, 2, prog, 3, 0, 1, 100, 0), badCred},
		{"null without a credential", rawCall(7, 0, 2, prog, 3, 0), badCred},
		{"null without a verifier", rawCall(7, 0, 2, prog, 3, 0, none), badVerf},
		{"null with a verifier", rawCall(7, 0, 2, prog, 3, 0, none, 0, 4, 1), badVerf},
		{"null of a flavour not served", rawCall(7, 0, 2, prog, 3, 0, 6, 0, none), badCred},
		{"AUTH_NONE", rawCall(7, 0, 2, prog, 3, who, none, none), whoNone},
		{"AUTH_SYS, 16 groups", rawCall(7, 0, 2, prog, 3, who, authSys(0, 16), none),
			accept(0, 1, 1000, 100, 16, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 0)},
		{"AUTH_SYS, 17 groups", rawCall(7, 0, 2, prog, 3, who, authSys(0, 17), none), badCred},
		{"machine name of 255", rawCall(7, 0, 2, prog, 3, who, authSys(255, 0), none),
			append(accept(0, 1, 1000, 100, 0, 255), make([]byte, 256)...)},
		{"machine name of 256", rawCall(7, 0, 2, prog, 3, who, authSys(256, 0), none), badCred},
		{"AUTH_SYS cut short", rawCall(7, 0, 2, prog, 3, who, 1, 12, 0, 0, 0, none), badCred},
		{"AUTH_SYS empty", rawCall(7, 0, 2, prog, 3, who, 1, 0, none), badCred},
		{"AUTH_SYS, groups missing", rawCall(7, 0, 2, prog, 3, who, 1, 20, 0, 0, 0, 0, 5, none), badCred},
		{"AUTH_SYS, negative name length", rawCall(7, 0, 2, prog, 3, who, 1, 20, 0, -1, 0, 0, 0, none), badCred},
		{"AUTH_SYS, group count of 2^32-1", rawCall(7, 0, 2, prog, 3, who, 1, 20, 0, 0, 0, 0, -1, none), badCred},
		{"AUTH_SYS, more after the groups", rawCall(7, 0, 2, prog, 3, who, 1, 24, 0, 0, 5, 6, 0, 99, none), accept(0, 1, 5, 6, 0, 0)},
		{"AUTH_NONE with a body", rawCall(7, 0, 2, prog, 3, who, 0, 4, 0, none), badCred},
		{"credential of 400", rawCall(7, 0, 2, prog, 3, who, 0, 400, make([]byte, 400), none), badCred},
		{"credential of 401", rawCall(7, 0, 2, prog, 3, who, 1, 401, make([]byte, 404), none), badCred},
		{"credential longer than the record", rawCall(7, 0, 2, prog, 3, who, 1, 100, none), badCred},
		{"credential of 2^32-1", rawCall(7, 0, 2, prog, 3, who, 1, -1, none), badCred},
		{"credential of 2^32-3", rawCall(7, 0, 2, prog, 3, who, 1, -3, none), badCred},
		{"AUTH_SHORT", rawCall(7, 0, 2, prog, 3, who, 2, 0, none), badCred},
		{"RPCSEC_GSS", rawCall(7, 0, 2, prog, 3, who, 6, 0, none), badCred},
		{"AUTH_TLS", rawCall(7, 0, 2, prog, 3, who, 7, 0, none), badCred},
		{"no credential", rawCall(7, 0, 2, prog, 3, who), badCred},
		{"no verifier", rawCall(7, 0, 2, prog, 3, who, none), badVerf},
		{"half a verifier", rawCall(7, 0, 2, prog, 3, who, none, 0), badVerf},
		{"verifier with a body", rawCall(7, 0, 2, prog, 3, who, none, 0, 4, 1), badVerf},
		{"verifier of another flavour", rawCall(7, 0, 2, prog, 3, who, authSys(0, 0), 1, 0), badVerf},
		{"verifier of 401", rawCall(7, 0, 2, prog, 3, who, none, 0, 401, make([]byte, 404)), badVerf},
		{"verifier longer than the record", rawCall(7, 0, 2, prog, 3, who, none, 0, 40), badVerf},
		{"RPC version 1", rawCall(7, 0, 1, prog, 3, who, none, none), mismatch},
		{"RPC version 3, nothing after it", rawCall(7, 0, 3), mismatch},
		{"unknown program", rawCall(7, 0, 2, 99, 3, 0, none, none), accept(1)},
		{"unknown program, bad credential", rawCall(7, 0, 2, 99, 3, 0, 1, 0, none), badCred},
		{"version below", rawCall(7, 0, 2, prog, 2, 1, none, none), accept(2, 3, 5)},
		{"version between", rawCall(7, 0, 2, prog, 4, 0, none, none), accept(2, 3, 5)},
		{"version 2^32-1", rawCall(7, 0, 2, prog, -1, 0, none, none), accept(2, 3, 5)},
		{"procedure past the end", rawCall(7, 0, 2, prog, 3, int(numProcs), none, none), accept(3)},
		{"procedure 2^32-1", rawCall(7, 0, 2, prog, 3, -1, none, none), accept(3)},
		{"procedure of the other version", rawCall(7, 0, 2, prog, 5, procSink, none, none), accept(3)},
		{"garbage arguments", rawCall(7, 0, 2, prog, 3, procEcho, none, none, -1), accept(4)},
		{"no arguments", rawCall(7, 0, 2, prog, 3, procEcho, none, none), accept(4)},
		{"arguments", rawCall(7, 0, 2, prog, 3, procEcho, none, none, 4, 77), accept(0, 4, 77)},
		{"GARBAGE_ARGS after results", rawCall(7, 0, 2, prog, 3, procVerdict, none, none, int(GarbageArgs)), accept(4)},
		{"SYSTEM_ERR after results", rawCall(7, 0, 2, prog, 3, procVerdict, none, none, int(SystemErr)), accept(5)},
		{"AUTH_ERROR after results", rawCall(7, 0, 2, prog, 3, procVerdict, none, none, int(AuthError)), be(7, 1, 1, 1, uint32(AuthTooWeak))},
		{"a reply", rawCall(7, 1, 0, 0, 0, 0, 0), nil},
		{"neither call nor reply", rawCall(7, 2, 2, prog, 3, 0, none, none), nil},
		{"empty record", fragment(nil), nil},
		{"xid only", rawCall(7), nil},
		{"cut before the version", rawCall(7, 0), nil},
		{"cut before the procedure", rawCall(7, 0, 2, prog, 3), nil},
		{"record over the limit", be(lastFragment | (1<<20 + 4<<10 + 1)), nil},
		{"record of 2^31-1", be(0xffffffff), nil},
		{"fragments over the limit", append(be(1<<20), append(make([]byte, 1<<20), be(lastFragment|8192)...)...), nil},
		{"empty fragments", make([]byte, 4*(maxEmpty+1)), nil},
		{"single bytes", fragment(rawCall(7, 0, 2, prog, 3, who, none, none)[4:], bytesOf(39)...), whoNone},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p := ts.dial(t)
			// What comes before and behind is served whatever is in between.
			p.send(append(record(1, procNull), tc.send...))
			got := p.recv()
			if tc.want == nil {
				if !bytes.Equal(got, success(1)) {
					t.Fatalf("before: % x", got)
				}
				p.closed()
				return
			}
			other := p.recv()
			if xidOf(got) == 1 { // calls of two callers may swap places
				got, other = other, got
			}
			if !bytes.Equal(other, success(1)) || !bytes.Equal(got, tc.want) {
				t.Fatalf("got  % x\nwant % x\nand  % x", got, tc.want, other)
			}
			p.alive()
		})
	}
	t.Run("SYSTEM_ERR from WouldBlock on a slow thread", func(t *testing.T) {
		p := ts.dial(t)
		p.send(record(7, procVerdict, uint32(WouldBlock)))
		if got := p.recv(); !bytes.Equal(got, accept(5)) {
			t.Fatalf("got % x", got)
		}
		p.alive()
	})
	t.Run("no reply to Drop", func(t *testing.T) {
		p := ts.dial(t)
		p.send(record(7, procVerdict, uint32(Drop)))
		p.alive()
	})
	t.Run("others are served", func(t *testing.T) { ts.dial(t).alive() })
	st := ts.Stats()
	for r, min := range map[Reason]uint64{ReasonRPCMismatch: 2, ReasonAuth: 20, ReasonProgUnavail: 1, ReasonProgMismatch: 3,
		ReasonProcUnavail: 3, ReasonGarbageArgs: 3, ReasonSystemErr: 2} {
		if st.Rejects[r.String()] < min {
			t.Errorf("%s counted %d times, want %d", r, st.Rejects[r.String()], min)
		}
	}
}

func bytesOf(n int) (l []int) {
	for range n {
		l = append(l, 1)
	}
	return l
}

// TestByteByByte sends a stream of calls, in every kind of fragment, one byte
// to a packet.
func TestByteByByte(t *testing.T) {
	ts := start(t, nil)
	p := ts.dial(t)
	var stream []byte
	for i := range 5 {
		body := record(uint32(i), procSink, 0)[4:]
		stream = append(stream, fragment(body, i, 0, 2*i, 1)...)
	}
	for i := range stream {
		p.send(stream[i : i+1])
	}
	for i := range 5 {
		if got := p.recv(); !bytes.Equal(got, success(uint32(i), 0, 0)) {
			t.Fatalf("got % x", got)
		}
	}
}

// TestRecordSizes sends records around every size at which they are treated
// differently, several in one write, and checks that the content arrives.
func TestRecordSizes(t *testing.T) {
	ts := start(t, nil)
	p := ts.dial(t)
	header := len(withOpaque(0, procSink, nil)) - 4
	most := ts.cfg.MaxRecord - header
	var sizes []int
	for _, n := range []int{0, 1 << 10, 4 << 10, largeRead, 64 << 10, readSize, 512 << 10, 1 << 20} {
		for _, d := range []int{-4096, -5, -1, 0, 1, 4, 4096} {
			if s := n + d; s >= 0 && s <= min(most, 1<<20) {
				sizes = append(sizes, s)
			}
		}
	}
	sent := make(chan []byte, len(sizes))
	go func() {
		for i, n := range sizes {
			data := pattern(uint64(i), n)
			b := withOpaque(uint32(i), procSink, data)
			if i%3 == 1 {
				b = fragment(b[4:], 40, n/2, n/3)
			}
			if i%5 == 4 {
				b = append(b, withOpaque(1<<20, procSink, data)...)
			}
			p.Write(b)
			sent <- data
		}
	}()
	for i := range sizes {
		data := <-sent
		want := success(uint32(i), uint32(len(data)), checksum(data))
		if got := p.recv(); !bytes.Equal(got, want) {
			t.Fatalf("size %d: got % x, want % x", len(data), got, want)
		}
		if i%5 == 4 {
			p.recv()
		}
	}
	p.alive()
}

// TestFragmentsStayFlat floods the server with fragments that never end a
// record, and with records that never end.
func TestFragmentsStayFlat(t *testing.T) {
	ts := start(t, nil)
	var one []byte // 1 MiB in fragments of a byte
	for range 1 << 20 {
		one = append(one, 0, 0, 0, 1, 'x')
	}
	p := ts.dial(t)
	p.send(one)
	q := ts.dial(t)
	q.send(be(lastFragment | 1<<20))
	q.send(make([]byte, 1000))
	eventually(t, "both are read", func() bool { return ts.pool.live.Load() == 2 })
	if n := ts.pool.held.Load(); n > 2*(1<<20+8<<10) {
		t.Errorf("%d bytes are held for two records", n)
	}
	p.send(append([]byte{0, 0, 0x20, 0}, make([]byte, 8192)...)) // past the limit
	p.closed()
	q.Close()
	eventually(t, "the memory is back", func() bool { return ts.pool.live.Load() == 0 })
}

func TestHalfRecordThenClose(t *testing.T) {
	ts := start(t, nil)
	whole := withOpaque(1, procSink, pattern(1, 300_000))
	for _, n := range []int{1, 3, 4, 5, 100, 70_000, len(whole) - 1} {
		p := ts.dial(t)
		p.send(whole[:n])
		p.Close()
	}
	eventually(t, "the connections are gone", func() bool { return ts.Stats().Conns == 0 && ts.pool.live.Load() == 0 })
}

// TestHalfClose: a client that sends its calls and closes its side gets all
// answers.
func TestHalfClose(t *testing.T) {
	ts := start(t, nil)
	p := ts.dial(t)
	p.send(append(record(1, procSleep, 30), record(2, procRead, kindMemory, 3<<20)...))
	p.Conn.(*net.TCPConn).CloseWrite()
	seen := map[uint32]bool{}
	seen[xidOf(p.recv())] = true
	seen[xidOf(p.recv())] = true
	if !seen[1] || !seen[2] {
		t.Fatal("an answer is missing")
	}
	p.closed()
}

func TestGroupedByCaller(t *testing.T) {
	s := &Server{cfg: Config{Programs: []Program{(&testServer{}).program()}}}
	svc := &service{order: make([]int, 0, maxBurst)}
	svc.srv = s
	caller := func(uid uint32, machine string, groups ...uint32) *Cred {
		return &Cred{Flavor: FlavorSys, UID: uid, Machine: []byte(machine), Groups: groups}
	}
	order := func(creds ...*Cred) string {
		svc.calls = nil
		for i, c := range creds {
			svc.calls = append(svc.calls, incoming{body: EncodeCall(nil, uint32(i), testProg, testVers, procWhoAmI, c, nil)[4:]})
		}
		order, _ := svc.group()
		return fmt.Sprint(order)
	}
	a, b, c := caller(1, "m"), caller(2, "m"), caller(1, "m", 7)
	for _, tc := range []struct{ got, want string }{
		{order(a, a, a), "[0 1 2]"},
		{order(b, a, b, a), "[1 3 0 2]"},           // a was last: it goes first
		{order(a, b, a, b), "[1 3 0 2]"},           // now b
		{order(c, b, a, c, b, a), "[2 5 0 3 1 4]"}, // groups count
		{order(c, caller(1, "other name", 7), nil, c), "[0 1 3 2]"},
	} {
		if tc.got != tc.want {
			t.Errorf("order %s, want %s", tc.got, tc.want)
		}
	}
}

func TestClient(t *testing.T) {
	ts := start(t, nil)
	c, err := Dial(context.Background(), "tcp", ts.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.Timeout = 10 * time.Second
	var got opaque
	if err := c.Call(testProg, testVers, procEcho, root, opaque("hello"), &got); err != nil || string(got) != "hello" {
		t.Fatalf("%q, %v", got, err)
	}
	for _, tc := range []struct {
		prog, vers, proc uint32
		want             Error
	}{
		{1, 1, 1, Error{Stat: acceptProgUnavail}},
		{testProg, 9, 1, Error{Stat: acceptProgMismatch, Low: 3, High: 5}},
		{testProg, testVers, 99, Error{Stat: acceptProcUnavail}},
		{testProg, testVers, procEcho, Error{Stat: acceptGarbageArgs}},
	} {
		err := c.Call(tc.prog, tc.vers, tc.proc, nil, nil, nil)
		var e *Error
		if !errors.As(err, &e) || *e != tc.want || e.Error() == "" {
			t.Errorf("%d/%d/%d: %v", tc.prog, tc.vers, tc.proc, err)
		}
	}
	err = c.Call(testProg, testVers, procVerdict, nil, words{uint32(AuthError)}, nil)
	var e *Error
	if !errors.As(err, &e) || *e != (Error{Denied: true, Stat: rejectAuthError, Auth: AuthTooWeak}) {
		t.Error(err)
	}
}

func TestUDP(t *testing.T) {
	pc, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- ServeUDP(ctx, pc, (&testServer{}).program()) }()
	c, err := net.Dial("udp", pc.LocalAddr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for _, tc := range []struct {
		name string
		send []byte
		want []byte
	}{
		{"null", record(7, procNull)[4:], accept(0)},
		{"dropped: half a call", record(7, procNull)[4:12], nil},
		{"dropped: empty", nil, nil},
		{"dropped: too large", make([]byte, 9000), nil},
		{"echo", withOpaque(7, procEcho, be(42))[4:], accept(0, 4, 42)},
		{"cached procedure", record(7, procCount, 0)[4:], accept(0, 1)},
		{"reply too large", record(7, procBig, 20_000)[4:], accept(5)},
		{"wrong program", rawCall(7, 0, 2, 99, 3, 0, none, none)[4:], accept(1)},
	} {
		if _, err := c.Write(tc.send); err != nil {
			t.Fatal(err)
		}
		if tc.want == nil {
			continue
		}
		b := make([]byte, 10000)
		c.SetReadDeadline(time.Now().Add(10 * time.Second))
		n, err := c.Read(b)
		if err != nil {
			t.Fatalf("%s: %v", tc.name, err)
		}
		if !bytes.Equal(b[:n], tc.want) {
			t.Errorf("%s: got % x", tc.name, b[:n])
		}
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}
