// Plan of this file: a read load that checks every byte, for tests that change
// something below it.

package nfscall

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	"sluice/xdr/mount3"
	wire3 "sluice/xdr/nfs3"
)

// Load reads a file at odd places, over two connections, until it is stopped.
type Load struct {
	stop  atomic.Bool
	reads atomic.Int64
	wg    sync.WaitGroup
	mu    sync.Mutex
	err   error // the first
}

// StartLoad mounts dir and reads name, whose content is data.
func StartLoad(t testing.TB, addr, dir, name string, data []byte) *Load {
	t.Helper()
	l := new(Load)
	for i := range 2 {
		c := Dial(t, addr, Root())
		h := Clone(c.Lookup(t, c.Mount(t, dir), name))
		rng := rand.New(rand.NewPCG(uint64(i), 0))
		l.wg.Go(func() {
			for n := 0; !l.stop.Load(); n++ {
				if err := l.read(c, h, rng, data); err != nil {
					l.fail(err)
					return
				}
				if n%16 == 0 {
					if res, err := c.Mnt(dir); err != nil || res.FhsStatus != mount3.MNT3_OK {
						l.fail(fmt.Errorf("MNT: %v, %v", res.FhsStatus, err))
						return
					}
				}
			}
		})
	}
	return l
}

func (l *Load) fail(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err == nil {
		l.err = err
	}
}

func (l *Load) read(c *Client, h []byte, rng *rand.Rand, data []byte) error {
	off, count := rng.IntN(len(data)), 1+rng.IntN(64<<10)
	var res wire3.READ3res
	if err := c.NFS(wire3.NFSPROC3_READ, &wire3.READ3args{File: FH(h), Offset: uint64(off), Count: uint32(count)}, &res); err != nil {
		return fmt.Errorf("READ: %w", err)
	}
	if res.Status != wire3.NFS3_OK {
		return fmt.Errorf("READ of %d bytes at %d: %v", count, off, res.Status)
	}
	want := data[off:min(off+count, len(data))]
	if got, _ := res.Resok.Data.Bytes(); !bytes.Equal(got, want) {
		return fmt.Errorf("READ of %d bytes at %d: %d bytes that are not the file's, want %d", count, off, len(got), len(want))
	}
	if res.Resok.Eof != (off+count >= len(data)) {
		return fmt.Errorf("READ of %d bytes at %d: eof is %t", count, off, res.Resok.Eof)
	}
	l.reads.Add(1)
	return nil
}

// Reads is how many there have been.
func (l *Load) Reads() int64 { return l.reads.Load() }

// Stop ends the load, which must have met no error.
func (l *Load) Stop(t testing.TB) {
	t.Helper()
	l.stop.Store(true)
	l.wg.Wait()
	if l.err != nil {
		t.Error(l.err)
	}
	if l.Reads() == 0 {
		t.Error("the load read nothing")
	}
}
