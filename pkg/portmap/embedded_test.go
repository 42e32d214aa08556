package portmap

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"sluice/rpc"
	"sluice/test/testenv"
	"sluice/xdr"
	"sluice/xdr/rpcb"

	"golang.org/x/sys/unix"
)

func listen(t *testing.T) *Embedded {
	t.Helper()
	testenv.Sandboxed(t)
	e, err := Listen(EmbeddedConfig{Mappings: served})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		if err := e.Close(ctx); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return e
}

// client connects to the portmapper from a given local address; one that ends
// in :reserved gets the first reserved port that is free.
func client(t *testing.T, from, to string) *rpc.Client {
	t.Helper()
	host, port, _ := strings.Cut(from, ":")
	first, last := 0, 0
	if port == "reserved" {
		first, last = 900, 1000
	}
	for p := first; ; p++ {
		d := net.Dialer{Timeout: 5 * time.Second}
		if from != "" {
			d.LocalAddr = &net.TCPAddr{IP: net.ParseIP(host), Port: p}
		}
		nc, err := d.Dial("tcp", to)
		if errors.Is(err, unix.EADDRINUSE) && p < last {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		c := rpc.NewClient(nc)
		c.Timeout = 20 * time.Second
		t.Cleanup(func() { c.Close() })
		return c
	}
}

var anyone = &rpc.Cred{Flavor: rpc.FlavorNone}

// The system's own tools against it, over TCP and UDP, IPv4 and IPv6.
func TestEmbeddedRpcinfo(t *testing.T) {
	listen(t)
	out := rpcinfo(t, "-p", "127.0.0.1")
	for _, want := range [][]string{
		{"100000", "2", "tcp", "111"}, {"100000", "4", "udp", "111"},
		{"100003", "3", "tcp", "12049"}, {"100005", "1", "tcp", "12049"}, {"100005", "3", "tcp", "12049"},
	} {
		if !fields(out, want...) {
			t.Errorf("rpcinfo -p does not list %v:\n%s", want, out)
		}
	}
	out = rpcinfo(t, "-s", "127.0.0.1")
	for _, want := range [][]string{{"100000", "2,3,4"}, {"100003", "3", "tcp6,tcp"}} {
		if !fields(out, want...) {
			t.Errorf("rpcinfo -s does not list %v:\n%s", want, out)
		}
	}
	if out = rpcinfo(t, "-l", "127.0.0.1", "100003", "3"); !strings.Contains(out, "127.0.0.1.47.17") {
		t.Errorf("rpcinfo -l:\n%s", out)
	}
	for _, args := range [][]string{
		{"-T", "tcp", "127.0.0.1", "100000", "4"},
		{"-T", "udp", "127.0.0.1", "100000", "4"},
		{"-T", "udp", "127.0.0.1", "100000"},
		{"-T", "tcp6", "::1", "100000"},
		{"-u", "127.0.0.1", "100000", "2"},
	} {
		if out := rpcinfo(t, args...); !strings.Contains(out, "ready and waiting") {
			t.Errorf("rpcinfo %v:\n%s", args, out)
		}
	}
}

func TestEmbeddedAnswers(t *testing.T) {
	listen(t)
	c := client(t, "", "127.0.0.1:111")
	port := func(prog, vers, prot uint32) uint32 {
		t.Helper()
		var res word
		if err := c.Call(ProgPortmap, 2, rpcb.PMAPPROC_GETPORT, anyone, &rpcb.Mapping{Prog: prog, Vers: vers, Prot: prot}, &res); err != nil {
			t.Fatal(err)
		}
		return uint32(res)
	}
	for _, x := range []struct{ prog, vers, prot, want uint32 }{
		{ProgNFS, 3, rpcb.IPPROTO_TCP, 12049},
		{ProgNFS, 3, rpcb.IPPROTO_UDP, 0},
		{ProgNFS, 2, rpcb.IPPROTO_TCP, 12049}, // the program answers PROG_MISMATCH itself
		{ProgMount, 1, rpcb.IPPROTO_TCP, 12049},
		{100021, 4, rpcb.IPPROTO_TCP, 0},
		{ProgNFS, 3, 99, 0},
		{ProgPortmap, 2, rpcb.IPPROTO_UDP, 111},
	} {
		if got := port(x.prog, x.vers, x.prot); got != x.want {
			t.Errorf("GETPORT(%d, %d, %d) = %d, want %d", x.prog, x.vers, x.prot, got, x.want)
		}
	}

	addr := func(c *rpc.Client, vers, proc, prog, v uint32, id string) string {
		t.Helper()
		var res text
		if err := c.Call(ProgPortmap, vers, proc, anyone, &rpcb.Rpcb{RProg: prog, RVers: v, RNetid: []byte(id)}, &res); err != nil {
			t.Fatal(err)
		}
		return string(res)
	}
	c6 := client(t, "", "[::1]:111")
	bridge := client(t, "", testenv.ServerIP+":111")
	for _, x := range []struct {
		c                   *rpc.Client
		vers, proc, prog, v uint32
		netid, want         string
	}{
		{c, 3, rpcb.RPCBPROC_GETADDR, ProgNFS, 3, "tcp", "127.0.0.1.47.17"},
		{c, 4, rpcb.RPCBPROC_GETADDR, ProgNFS, 3, "", "127.0.0.1.47.17"},
		{c, 4, rpcb.RPCBPROC_GETADDR, ProgNFS, 3, "tcp6", "::.47.17"}, // asked for over IPv4: no address of that family to give
		{c, 4, rpcb.RPCBPROC_GETADDR, ProgNFS, 4, "tcp", "127.0.0.1.47.17"},
		{c, 4, rpcb.RPCBPROC_GETVERSADDR, ProgNFS, 4, "tcp", ""},
		{c, 4, rpcb.RPCBPROC_GETVERSADDR, ProgNFS, 3, "tcp", "127.0.0.1.47.17"},
		{c, 4, rpcb.RPCBPROC_GETADDR, ProgNFS, 3, "udp", ""},
		{c, 4, rpcb.RPCBPROC_GETADDR, 100021, 4, "tcp", ""},
		{c6, 4, rpcb.RPCBPROC_GETADDR, ProgNFS, 3, "", "::1.47.17"},
		{c6, 3, rpcb.RPCBPROC_GETADDR, ProgNFS, 3, "tcp6", "::1.47.17"},
		{bridge, 4, rpcb.RPCBPROC_GETADDR, ProgNFS, 3, "tcp", testenv.ServerIP + ".47.17"},
	} {
		if got := addr(x.c, x.vers, x.proc, x.prog, x.v, x.netid); got != x.want {
			t.Errorf("version %d procedure %d for %d.%d over %q: %q, want %q", x.vers, x.proc, x.prog, x.v, x.netid, got, x.want)
		}
	}

	var now word
	if err := c.Call(ProgPortmap, 3, rpcb.RPCBPROC_GETTIME, anyone, nil, &now); err != nil || time.Since(time.Unix(int64(now), 0)).Abs() > time.Minute {
		t.Errorf("GETTIME: %d, %v", now, err)
	}
	// Forwarding calls would lend out our address.
	for _, x := range []struct{ vers, proc uint32 }{
		{2, rpcb.PMAPPROC_CALLIT}, {3, rpcb.RPCBPROC_CALLIT}, {4, rpcb.RPCBPROC_BCAST}, {4, rpcb.RPCBPROC_INDIRECT},
	} {
		err := c.Call(ProgPortmap, x.vers, x.proc, anyone, &rpcb.RpcbRmtcallargs{Prog: ProgNFS, Vers: 3}, nil)
		if re, ok := err.(*rpc.Error); !ok || re.Denied || re.Stat != 3 {
			t.Errorf("version %d procedure %d: %v, want PROC_UNAVAIL", x.vers, x.proc, err)
		}
	}
	err := c.Call(ProgPortmap, 5, 0, anyone, nil, nil)
	if re, ok := err.(*rpc.Error); !ok || re.Stat != 2 || re.Low != 2 || re.High != 4 {
		t.Errorf("version 5: %v, want PROG_MISMATCH 2 to 4", err)
	}
}

// Only root on this host may change the table, and nobody the server's own rows.
func TestEmbeddedSet(t *testing.T) {
	e := listen(t)
	row := &rpcb.Rpcb{RProg: 100024, RVers: 1, RNetid: []byte("tcp"), RAddr: []byte("0.0.0.0.3.9"), ROwner: []byte("x")}
	old := &rpcb.Mapping{Prog: 100024, Vers: 1, Prot: rpcb.IPPROTO_UDP, Port: 777}
	change := func(c *rpc.Client, vers, proc uint32, args rpc.Encodable) bool {
		t.Helper()
		var ok boolRes
		if err := c.Call(ProgPortmap, vers, proc, anyone, args, &ok); err != nil {
			t.Fatal(err)
		}
		return bool(ok)
	}
	before := len(e.table.list())
	for name, c := range map[string]*rpc.Client{
		"a high port":                       client(t, "127.0.0.1:", "127.0.0.1:111"),
		"another address, reserved port":    client(t, testenv.ServerIP+":reserved", testenv.ServerIP+":111"),
		"another address to loopback, high": client(t, testenv.ServerIP+":", "127.0.0.1:111"),
	} {
		if change(c, 4, rpcb.RPCBPROC_SET, row) || change(c, 3, rpcb.RPCBPROC_SET, row) || change(c, 2, rpcb.PMAPPROC_SET, old) {
			t.Errorf("SET from %s was taken", name)
		}
		if change(c, 4, rpcb.RPCBPROC_UNSET, &rpcb.Rpcb{RProg: ProgNFS, RVers: 3}) {
			t.Errorf("UNSET from %s was taken", name)
		}
	}
	root := client(t, "127.0.0.1:reserved", "127.0.0.1:111")
	if change(root, 4, rpcb.RPCBPROC_UNSET, &rpcb.Rpcb{RProg: ProgNFS, RVers: 3}) || change(root, 2, rpcb.PMAPPROC_UNSET, &rpcb.Mapping{Prog: ProgNFS, Vers: 3}) {
		t.Error("the server's own registration was removed")
	}
	if len(e.table.list()) != before {
		t.Fatal("the table has changed")
	}
	if !change(root, 4, rpcb.RPCBPROC_SET, row) || !change(root, 2, rpcb.PMAPPROC_SET, old) {
		t.Error("SET by root on this host was refused")
	}
	for _, bad := range []*rpcb.Rpcb{
		{RProg: 1, RVers: 1, RNetid: []byte("tcp"), RAddr: []byte("nonsense")},
		{RProg: 1, RVers: 1, RNetid: []byte(""), RAddr: []byte("0.0.0.0.3.9")},
		{RProg: 1, RVers: 1, RNetid: []byte("tcp"), RAddr: []byte("0.0.0.0.0.0")},
		{RProg: 1, RVers: 1, RNetid: []byte(strings.Repeat("t", 256)), RAddr: []byte("0.0.0.0.3.9")},
		{RProg: ProgPortmap, RVers: 9, RNetid: []byte("tcp"), RAddr: []byte("0.0.0.0.3.9")},
	} {
		if change(root, 4, rpcb.RPCBPROC_SET, bad) {
			t.Errorf("SET of %q at %q was taken", bad.RNetid, bad.RAddr)
		}
	}
	out := rpcinfo(t, "-p", "127.0.0.1")
	if !fields(out, "100024", "1", "tcp", "777") || !fields(out, "100024", "1", "udp", "777") {
		t.Errorf("not listed:\n%s", out)
	}
	if !change(root, 2, rpcb.PMAPPROC_UNSET, &rpcb.Mapping{Prog: 100024, Vers: 1}) || len(e.table.list()) != before {
		t.Error("UNSET of both protocols left something")
	}
}

func TestEmbeddedPortTaken(t *testing.T) {
	listen(t)
	_, err := Listen(EmbeddedConfig{})
	if err == nil || !strings.Contains(err.Error(), "--rpcbind auto") {
		t.Fatalf("a second one on port 111: %v; the error must say what to do", err)
	}
}

// Garbage over both transports: an answer or none, and it serves on.
func TestEmbeddedGarbage(t *testing.T) {
	listen(t)
	pc, err := net.Dial("udp", "127.0.0.1:111")
	if err != nil {
		t.Fatal(err)
	}
	defer pc.Close()
	rnd := rand.New(rand.NewPCG(1, 2))
	for vers := uint32(2); vers <= 4; vers++ {
		for proc := range uint32(14) {
			for range 20 {
				args := make([]byte, rnd.IntN(64))
				for i := range args {
					args[i] = byte(rnd.IntN(256) & rnd.IntN(256) & rnd.IntN(256))
				}
				var e xdr.Encoder
				for _, w := range []uint32{rnd.Uint32(), 0, 2, ProgPortmap, vers, proc, 0, 0, 0, 0} {
					e.Uint32(w)
				}
				if _, err := pc.Write(append(e.Bytes(), args...)); err != nil {
					t.Fatal(err)
				}
			}
			c := client(t, "127.0.0.1:", "127.0.0.1:111")
			c.Call(ProgPortmap, vers, proc, anyone, raw(make([]byte, rnd.IntN(40)&^3)), nil)
			c.Close()
		}
	}
	pc.Write(nil)
	if out := rpcinfo(t, "-T", "udp", "127.0.0.1", "100000", "4"); !strings.Contains(out, "ready") {
		t.Fatalf("UDP is gone:\n%s", out)
	}
	if out := rpcinfo(t, "-p", "127.0.0.1"); !fields(out, "100003", "3", "tcp", "12049") {
		t.Fatalf("TCP is gone:\n%s", out)
	}
}

// A row with an address of its own is given out as it is.
func TestMergeKeepsAddresses(t *testing.T) {
	if got := merge(&rpc.Call{}, Mapping{Addr: netip.MustParseAddrPort("192.0.2.1:2049")}); got != "192.0.2.1.8.1" {
		t.Errorf("became %q", got)
	}
}

type word uint32

func (w *word) Decode(d *xdr.Decoder) { *w = word(d.Uint32()) }

type text string

func (s *text) Decode(d *xdr.Decoder) { *s = text(d.Opaque(maxString)) }

type raw []byte

func (r raw) Encode(e *xdr.Encoder) { e.Fixed(r) }
