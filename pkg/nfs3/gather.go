// Adjacent WRITEs that came in one burst are written together: what the file
// system charges for a write of 4 KiB is mostly for the call, not for the
// bytes, and the attributes before and after it cost as much again.
//
// The first WRITE gathers what follows it in the file from the calls behind it
// and answers for itself. At their turn the others find here what was written
// of them. They are told the attributes after the whole, and none from before,
// as the file had none of its own just before each of them; the client then
// compares with the answer to the first (RFC 1813 2.6: both are optional, and
// Linux's server gives none before any WRITE). Of what could not be written
// nothing is noted, and it is tried again by itself, for the error it meets.

package nfs3

import (
	"math"

	"sluice/pkg/vfs"
	"sluice/rpc"
	"sluice/xdr"
	wire3 "sluice/xdr/nfs3"
)

// gatherMax is how many bytes are written together. Larger WRITEs gain nothing.
const gatherMax = 64 << 10

// gather is a thread's.
type gather struct {
	more    [vfs.MaxMore][]byte
	n       int // pieces in more
	next    int // which of them is to be answered
	left    int // bytes written of those to be answered
	written vfs.WriteResult
	args    xdr.Decoder
}

// ahead takes the WRITEs behind c that go on where w ends, and returns their data.
func (g *gather) ahead(c *rpc.Call, w *wire3.WRITE3args) [][]byte {
	g.n, g.next, g.left = 0, 0, 0
	size := len(w.Data)
	if w.Stable != wire3.UNSTABLE || size == 0 || w.Offset > math.MaxInt64-gatherMax {
		return nil
	}
	for g.n < len(g.more) {
		b := c.Ahead(g.n)
		if b == nil {
			break
		}
		var q wire3.WRITE3args
		g.args.Reset(b)
		q.Decode(&g.args)
		size += len(q.Data)
		if g.args.Err() != nil || len(q.Data) == 0 || size > gatherMax || uint64(q.Count) != uint64(len(q.Data)) ||
			q.Stable != wire3.UNSTABLE || q.Offset != w.Offset+uint64(size-len(q.Data)) || string(q.File.Data) != string(w.File.Data) {
			break
		}
		if !c.Take(g.n) {
			break
		}
		g.more[g.n] = q.Data
		g.n++
	}
	return g.more[:g.n]
}

// wrote notes what was written of what ahead returned, and leaves in w what was written of the first WRITE's size bytes.
func (g *gather) wrote(w *vfs.WriteResult, size int) {
	clear(g.more[:g.n]) // they lie in records, which are not ours to keep
	g.written = *w
	w.N = min(w.N, size)
	g.left = g.written.N - w.N
	g.written.Change.BeforeOK = false
}

// taken returns what was written of the next of the WRITEs that ahead returned; false if nothing was.
func (g *gather) taken(size int) (*vfs.WriteResult, bool) {
	if g.next == g.n || g.left == 0 {
		return nil, false
	}
	g.next++
	g.written.N = min(g.left, size)
	g.left -= g.written.N
	return &g.written, true
}
