package rpc

import (
	"io"
	"net"
	"testing"
	"time"
)

// FuzzConnection sends anything to a server that serves it like any client:
// whatever comes, the server answers or closes, gives everything back, and
// serves the next one.
func FuzzConnection(f *testing.F) {
	f.Add([]byte{})
	f.Add(record(1, procNull))
	f.Add(append(record(1, procRead, kindPipe, 70_000), record(2, procMay, 1)...))
	f.Add(append(withOpaque(1, procEcho, pattern(1, 20_000)), record(2, procCount, 1)...))
	f.Add(fragment(record(1, procWhoAmI)[4:], 1, 2, 0, 3))
	f.Add(append(fragment(record(1, procEcho, 0xffffffff)[4:], 30), rawCall(7, 0, 2, testProg, 3, 0, authSys(4, 17), none)...))
	f.Add(append(record(1, procMay, 1), be(lastFragment|1<<20, 1, 2, 3)...))
	f.Add(append(record(1, procVerdict, uint32(Drop)), rawCall(7, 1)...))
	ts := start(f, func(c *Config) {
		// The arguments are anybody's: whatever may sleep or be large must not.
		procs := c.Programs[0].Versions[0].Procs
		for _, p := range []int{procSleep, procMay, procStuck, procCount, procBulk, procRead, procBig} {
			run := procs[p].Run
			procs[p].Run = func(c *Call) Verdict {
				first, second := c.Args.Uint32()&1, c.Args.Uint32()&0x1ffff
				if c.Args.Err() != nil {
					return GarbageArgs
				}
				c.Args.Reset(be(first, second)) // a millisecond, or up to 128 KiB of either kind
				return run(c)
			}
		}
		for _, p := range []int{procGate, procBlock, procLater} {
			procs[p] = Proc{}
		}
	})
	f.Fuzz(func(t *testing.T, stream []byte) {
		nc, err := net.Dial("tcp", ts.addr)
		if err != nil {
			t.Fatal(err)
		}
		defer nc.Close()
		nc.SetDeadline(time.Now().Add(10 * time.Second))
		go func() {
			nc.Write(stream)
			nc.(*net.TCPConn).CloseWrite()
		}()
		if _, err := io.Copy(io.Discard, nc); err != nil {
			if ne, ok := err.(net.Error); ok && ne.Timeout() {
				t.Fatal("the connection hangs")
			}
		}
		nc.Close()
		eventually(t, "everything is given back", func() bool {
			return ts.pool.live.Load() == 0 && ts.queued.Load() == 0 && payloads.Load() == 0 && ts.Stats().Conns == 0
		})
	})
}
