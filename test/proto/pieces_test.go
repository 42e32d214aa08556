package proto

import (
	"encoding/binary"
	"net"
	"os"
	"strconv"
	"strings"
	"testing"

	"sluice/test/nfscall"
)

// A client that sends a record in two pieces, and lets TCP hold the second
// until the first is acknowledged, is not made to wait for a delayed
// acknowledgement (40 ms) each time. The kernel counts those.
func TestPiecesAreAcknowledged(t *testing.T) {
	i := serve(t, "rw,insecure")
	nc, err := net.Dial("tcp", i.addr)
	nfscall.Must(t, err)
	defer nc.Close()
	nfscall.Must(t, nc.(*net.TCPConn).SetNoDelay(false))
	null := make([]byte, 44) // NULL of NFS version 3
	for k, w := range []uint32{1<<31 | 40, 7, 0, 2, 100003, 3, 0} {
		binary.BigEndian.PutUint32(null[4*k:], w)
	}
	const calls = 40
	before := delayedACKs(t)
	for range calls {
		for _, piece := range [][]byte{null[:20], null[20:]} {
			_, err := nc.Write(piece)
			nfscall.Must(t, err)
		}
		reply := make([]byte, 28)
		if n, err := nc.Read(reply); err != nil || n != len(reply) {
			t.Fatalf("a reply of %d bytes: %v", n, err)
		}
	}
	if n := delayedACKs(t) - before; n > calls/4 {
		t.Errorf("%d delayed acknowledgements in %d calls", n, calls)
	}
}

// delayedACKs reads the counter of this network namespace.
func delayedACKs(t *testing.T) int {
	t.Helper()
	b, err := os.ReadFile("/proc/thread-self/net/netstat")
	nfscall.Must(t, err)
	lines := strings.Split(string(b), "\n")
	for k := 0; k+1 < len(lines); k++ {
		names, values := strings.Fields(lines[k]), strings.Fields(lines[k+1])
		for j, name := range names {
			if name == "DelayedACKs" && names[0] == "TcpExt:" && j < len(values) {
				n, err := strconv.Atoi(values[j])
				nfscall.Must(t, err)
				return n
			}
		}
	}
	t.Fatal("the kernel does not count delayed acknowledgements")
	return 0
}
