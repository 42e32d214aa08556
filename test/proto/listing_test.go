package proto

import (
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"sluice/exports"
	"sluice/rpc"
	"sluice/test/nfscall"
	wire3 "sluice/xdr/nfs3"
)

// Nobody waits for a listing of many names: two clients list a large directory,
// a third asked for its names and does not take them, and meanwhile others make
// and look up names in it. Theirs are done before a listing's next call is made,
// so a lock that lasted as long as a listing, or until its reply was taken, would
// have stopped them for good. What was there all the time is listed once.
func TestListingHoldsNobody(t *testing.T) {
	const names = 100_000
	i := serveTmpfs(t)
	for n := range names {
		nfscall.Must(t, unix.Mknod(i.path(fmt.Sprintf("name-%06d", n)), unix.S_IFREG|0o644, 0))
	}
	_, root := i.root(t)
	untaken := askForNames(t, i.addr, root)

	var listings sync.WaitGroup
	for _, list := range []func(testing.TB, *nfscall.Client, []byte, uint64) names3{readdir, readdirplus} {
		c, other := i.client(t, nfscall.Root()), i.client(t, nfscall.Root())
		listings.Go(func() {
			seen := make([]int, names)
			var at names3
			for page := 0; !at.eof; page++ {
				var beside sync.WaitGroup
				beside.Go(func() {
					name := fmt.Sprintf("made-%p-%d", c, page)
					h := other.Create(t, root, name, 0o644)
					if got := other.Lookup(t, root, name); string(got) != string(h) {
						t.Errorf("page %d: LOOKUP finds another file than CREATE made", page)
					}
					other.Lookup(t, root, fmt.Sprintf("name-%06d", page*199%names))
				})
				at = list(t, c, root, at.cookie)
				beside.Wait()
				for _, name := range at.names {
					var n int
					if _, err := fmt.Sscanf(name, "name-%06d", &n); err == nil {
						seen[n]++
					}
				}
				if at.eof && page < 50 {
					t.Errorf("a listing of %d pages is none to wait for", page+1)
				}
			}
			for n, times := range seen {
				if times != 1 {
					t.Errorf("name-%06d listed %d times", n, times)
				}
			}
		})
	}
	listings.Wait()
	for k := range uint32(untakenCalls) {
		b, err := rpc.ReadRecord(untaken, 4<<20)
		nfscall.Must(t, err)
		if xid := binary.BigEndian.Uint32(b); xid >= untakenCalls || len(b) < 1<<19 {
			t.Errorf("reply %d of those that were left is %d bytes, to call %x", k, len(b), xid)
		}
	}
}

// serveTmpfs serves a new tmpfs, where names are quickly made.
func serveTmpfs(t *testing.T) *instance {
	t.Helper()
	dir := t.TempDir()
	nfscall.Must(t, unix.Mount("tmpfs", dir, "tmpfs", 0, "mode=755,nr_inodes=0"))
	t.Cleanup(func() { unix.Unmount(dir, unix.MNT_DETACH) })
	return serveTable(t, dir, fmt.Sprintf("%s *(rw,insecure,async,no_root_squash)\n", exports.Quote(dir)))
}

const untakenCalls = 16

// askForNames makes more READDIRPLUS calls than sockets hold replies to, and waits
// until the server sends the first, which like the others is not taken.
func askForNames(t *testing.T, addr string, dir []byte) io.Reader {
	t.Helper()
	nc, err := net.Dial("tcp", addr)
	nfscall.Must(t, err)
	t.Cleanup(func() { nc.Close() })
	nc.SetDeadline(time.Now().Add(2 * time.Minute))
	nfscall.Must(t, nc.(*net.TCPConn).SetReadBuffer(16<<10))
	cred := nfscall.Root()
	for k := range uint32(untakenCalls) {
		_, err := nc.Write(rpc.EncodeCall(nil, k, wire3.NFS_PROGRAM, wire3.NFS_V3, wire3.NFSPROC3_READDIRPLUS, &cred,
			&wire3.READDIRPLUS3args{Dir: nfscall.FH(dir), Dircount: 1 << 20, Maxcount: 1 << 20}))
		nfscall.Must(t, err)
	}
	first := make([]byte, 4)
	_, err = io.ReadFull(nc, first)
	nfscall.Must(t, err)
	return io.MultiReader(strings.NewReader(string(first)), nc)
}

// names3 is a page of a listing.
type names3 struct {
	names  []string
	cookie uint64 // of the last
	eof    bool
}

const pageSize = 32 << 10

func readdir(t testing.TB, c *nfscall.Client, dir []byte, cookie uint64) names3 {
	t.Helper()
	var res wire3.READDIR3res
	c.Do(t, wire3.NFSPROC3_READDIR, &wire3.READDIR3args{Dir: nfscall.FH(dir), Cookie: cookie, Count: pageSize}, &res)
	p := names3{cookie: cookie, eof: res.Status != wire3.NFS3_OK || res.Resok.Reply.Eof}
	if res.Status != wire3.NFS3_OK {
		t.Errorf("READDIR from %d: %v", cookie, res.Status)
	}
	for _, e := range res.Resok.Reply.Entries {
		p.names, p.cookie = append(p.names, string(e.Name)), e.Cookie
	}
	return p
}

func readdirplus(t testing.TB, c *nfscall.Client, dir []byte, cookie uint64) names3 {
	t.Helper()
	var res wire3.READDIRPLUS3res
	c.Do(t, wire3.NFSPROC3_READDIRPLUS, &wire3.READDIRPLUS3args{Dir: nfscall.FH(dir), Cookie: cookie, Dircount: pageSize, Maxcount: pageSize}, &res)
	p := names3{cookie: cookie, eof: res.Status != wire3.NFS3_OK || res.Resok.Reply.Eof}
	if res.Status != wire3.NFS3_OK {
		t.Errorf("READDIRPLUS from %d: %v", cookie, res.Status)
	}
	for _, e := range res.Resok.Reply.Entries {
		p.names, p.cookie = append(p.names, string(e.Name)), e.Cookie
	}
	return p
}
