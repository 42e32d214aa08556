package nfs3

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sluice/test/nfscall"
	wire3 "sluice/xdr/nfs3"
)

// listing is one way of listing a directory; it returns the reply's length and the names.
type page struct {
	size  int // bytes of the resok
	names []string
	plus  []wire3.Entryplus3
	verf  [8]byte
	last  uint64 // cookie of the last entry
	eof   bool
}

func listPage(t testing.TB, c *nfscall.Client, plus bool, dir []byte, cookie uint64, verf [8]byte, dircount, count uint32) (p page, st wire3.Nfsstat3) {
	t.Helper()
	var raw []byte
	if !plus {
		raw = c.Raw(t, wire3.NFSPROC3_READDIR, &wire3.READDIR3args{Dir: nfscall.FH(dir), Cookie: cookie, Cookieverf: verf, Count: count})
		var res wire3.READDIR3res
		nfscall.Decode(t, raw, &res)
		st = res.Status
		for _, e := range res.Resok.Reply.Entries {
			p.names, p.last = append(p.names, string(e.Name)), e.Cookie
		}
		p.verf, p.eof = res.Resok.Cookieverf, res.Resok.Reply.Eof
	} else {
		raw = c.Raw(t, wire3.NFSPROC3_READDIRPLUS, &wire3.READDIRPLUS3args{Dir: nfscall.FH(dir), Cookie: cookie, Cookieverf: verf, Dircount: dircount, Maxcount: count})
		var res wire3.READDIRPLUS3res
		nfscall.Decode(t, raw, &res)
		st = res.Status
		for _, e := range res.Resok.Reply.Entries {
			p.names, p.last = append(p.names, string(e.Name)), e.Cookie
		}
		p.plus = res.Resok.Reply.Entries
		p.verf, p.eof = res.Resok.Cookieverf, res.Resok.Reply.Eof
	}
	p.size = len(raw) - 4
	return p, st
}

// Every name exactly once, in replies that never exceed what was asked for, at
// any count; and as full as they can be.
func TestReaddirLimits(t *testing.T) {
	s := startServer(t, "rw,no_root_squash,insecure,async")
	c := s.client(t)
	root := c.Mount(t, s.dir)
	want := map[string]bool{".": true, "..": true}
	for i := range 300 {
		name := fmt.Sprintf("%0*d", 1+i%120, i)
		nfscall.Must(t, os.WriteFile(filepath.Join(s.dir, name), nil, 0o644))
		want[name] = true
	}
	longest := 0
	for name := range want {
		longest = max(longest, len(name))
	}
	for _, plus := range []bool{false, true} {
		entryMax := entryBase + padded(longest)
		if plus {
			entryMax += plusBase + fattrLen + 4 + 64
		}
		for _, count := range []uint32{dirHead + dirTail + uint32(entryMax), 512, 1000, 1024, 1025, 4096, 4099, 65536, 1 << 20, math.MaxUint32} {
			if count < dirHead+dirTail+uint32(entryMax) {
				continue
			}
			seen := map[string]int{}
			var cookie uint64
			var verf [8]byte
			for pages := 0; ; pages++ {
				p, st := listPage(t, c, plus, root, cookie, verf, math.MaxUint32, count)
				if st != wire3.NFS3_OK {
					t.Fatalf("plus %v, count %d, cookie %d: %v", plus, count, cookie, st)
				}
				if p.size > int(count) {
					t.Fatalf("plus %v, count %d: a reply of %d bytes", plus, count, p.size)
				}
				if !p.eof && p.size+entryMax < int(count) && count < 1<<20 {
					t.Errorf("plus %v, count %d: a reply of %d bytes has room for more", plus, count, p.size)
				}
				if !p.eof && len(p.names) == 0 {
					t.Fatalf("plus %v, count %d: an empty reply that is not the end", plus, count)
				}
				for _, n := range p.names {
					seen[n]++
				}
				cookie, verf = p.last, p.verf
				if p.eof {
					break
				}
				if pages > 10000 {
					t.Fatalf("plus %v, count %d: no end", plus, count)
				}
			}
			for n := range want {
				if seen[n] != 1 {
					t.Errorf("plus %v, count %d: %q listed %d times", plus, count, n, seen[n])
				}
			}
			if len(seen) != len(want) {
				t.Errorf("plus %v, count %d: %d names, want %d", plus, count, len(seen), len(want))
			}
		}
	}
}

func TestReaddirTooSmall(t *testing.T) {
	s := startServer(t, "rw,no_root_squash,insecure,async")
	c := s.client(t)
	root := c.Mount(t, s.dir)
	nfscall.Must(t, os.WriteFile(filepath.Join(s.dir, strings.Repeat("n", 255)), nil, 0o644))
	for _, plus := range []bool{false, true} {
		for _, count := range []uint32{0, 1, 4, 100, dirHead + dirTail} {
			p, st := listPage(t, c, plus, root, 0, [8]byte{}, math.MaxUint32, count)
			if st != wire3.NFS3ERR_TOOSMALL {
				t.Errorf("plus %v, count %d: %v with %q, want TOOSMALL", plus, count, st, p.names)
			}
		}
		// The smallest count that holds "." holds it alone, and one byte less does not.
		one := uint32(dirHead + dirTail + entryBase + 4)
		if plus {
			one += plusBase + fattrLen + 4 + uint32(padded(len(root)))
		}
		p, st := listPage(t, c, plus, root, 0, [8]byte{}, math.MaxUint32, one)
		if st != wire3.NFS3_OK || len(p.names) != 1 || p.eof {
			t.Errorf("plus %v, count %d: %v, %q, eof %v; want one entry", plus, one, st, p.names, p.eof)
		}
		if _, st := listPage(t, c, plus, root, 0, [8]byte{}, math.MaxUint32, one-1); st != wire3.NFS3ERR_TOOSMALL {
			t.Errorf("plus %v, count %d: %v, want TOOSMALL", plus, one-1, st)
		}
	}
}

// dircount bounds the names and cookies of READDIRPLUS; one entry always comes.
func TestReaddirplusDircount(t *testing.T) {
	s := startServer(t, "rw,no_root_squash,insecure,async")
	c := s.client(t)
	root := c.Mount(t, s.dir)
	for i := range 100 {
		nfscall.Must(t, os.WriteFile(filepath.Join(s.dir, fmt.Sprintf("name%04d", i)), nil, 0o644)) // eight bytes each
	}
	for _, dircount := range []uint32{0, 1, dirInfoBase + 4, 100, 1000, 2000} {
		p, st := listPage(t, c, true, root, 0, [8]byte{}, dircount, 1<<20)
		if st != wire3.NFS3_OK || len(p.names) == 0 {
			t.Errorf("dircount %d: %v, %d names", dircount, st, len(p.names))
			continue
		}
		info := 0
		for _, n := range p.names {
			info += dirInfoBase + padded(len(n))
		}
		if info > int(dircount) && len(p.names) > 1 {
			t.Errorf("dircount %d: %d bytes of directory information", dircount, info)
		}
		if !p.eof && info+dirInfoBase+8 <= int(dircount) {
			t.Errorf("dircount %d: %d bytes of directory information have room for more", dircount, info)
		}
	}
}

// READDIRPLUS gives the attributes and handles that LOOKUP gives.
func TestReaddirplusAgreesWithLookup(t *testing.T) {
	s := startServer(t, "rw,no_root_squash,insecure,async")
	c := s.client(t)
	root := c.Mount(t, s.dir)
	nfscall.Must(t, os.WriteFile(filepath.Join(s.dir, "f"), []byte("12345"), 0o604))
	nfscall.Must(t, os.Mkdir(filepath.Join(s.dir, "d"), 0o711))
	nfscall.Must(t, os.Symlink("nowhere", filepath.Join(s.dir, "l")))
	p, st := listPage(t, c, true, root, 0, [8]byte{}, 8192, 8192)
	if st != wire3.NFS3_OK || len(p.plus) != 5 || !p.eof {
		t.Fatalf("%v, %d entries, eof %v", st, len(p.plus), p.eof)
	}
	for _, e := range p.plus {
		var res wire3.LOOKUP3res
		c.Do(t, wire3.NFSPROC3_LOOKUP, &wire3.LOOKUP3args{What: nfscall.Dirop(root, string(e.Name))}, &res)
		if res.Status != wire3.NFS3_OK {
			t.Errorf("LOOKUP %s: %v", e.Name, res.Status)
			continue
		}
		if string(e.Name) == "." || string(e.Name) == ".." {
			res.Resok.ObjAttributes.Attributes.Atime = e.NameAttributes.Attributes.Atime // the listing has moved it
		}
		if !e.NameAttributes.AttributesFollow || e.NameAttributes.Attributes != res.Resok.ObjAttributes.Attributes {
			t.Errorf("%s: attributes %+v, LOOKUP has %+v", e.Name, e.NameAttributes, res.Resok.ObjAttributes)
		}
		if !e.NameHandle.HandleFollows || !bytes.Equal(e.NameHandle.Handle.Data, res.Resok.Object.Data) {
			t.Errorf("%s: handle %x, LOOKUP has %x", e.Name, e.NameHandle.Handle.Data, res.Resok.Object.Data)
		}
		if e.Fileid != res.Resok.ObjAttributes.Attributes.Fileid {
			t.Errorf("%s: fileid %d, LOOKUP has %d", e.Name, e.Fileid, res.Resok.ObjAttributes.Attributes.Fileid)
		}
	}
}

// A directory that changes between two pages lists on: the verifier is lenient,
// names that stayed come exactly once.
func TestReaddirWhileChanging(t *testing.T) {
	s := startServer(t, "rw,no_root_squash,insecure,async")
	c := s.client(t)
	root := c.Mount(t, s.dir)
	for i := range 200 {
		nfscall.Must(t, os.WriteFile(filepath.Join(s.dir, fmt.Sprintf("keep%03d", i)), nil, 0o644))
		nfscall.Must(t, os.WriteFile(filepath.Join(s.dir, fmt.Sprintf("drop%03d", i)), nil, 0o644))
	}
	seen := map[string]int{}
	var cookie uint64
	var verf [8]byte
	for n := 0; ; n++ {
		p, st := listPage(t, c, true, root, cookie, verf, 8192, 4096)
		if st != wire3.NFS3_OK {
			t.Fatalf("page %d: %v", n, st)
		}
		for _, name := range p.names {
			seen[name]++
			if strings.HasPrefix(name, "drop") {
				c.Status(t, wire3.NFSPROC3_REMOVE, &wire3.REMOVE3args{Object: nfscall.Dirop(root, name)})
			}
		}
		if p.eof {
			break
		}
		cookie = p.last
		verf = [8]byte{1, 2, 3} // what an old client may still hold
		if n > 1000 {
			t.Fatal("no end")
		}
	}
	for i := range 200 {
		if n := seen[fmt.Sprintf("keep%03d", i)]; n != 1 {
			t.Errorf("keep%03d listed %d times", i, n)
		}
	}
}

func TestNordirplus(t *testing.T) {
	s := startServer(t, "rw,no_root_squash,insecure,async,nordirplus")
	c := s.client(t)
	root := c.Mount(t, s.dir)
	if _, st := listPage(t, c, true, root, 0, [8]byte{}, 8192, 8192); st != wire3.NFS3ERR_NOTSUPP {
		t.Errorf("READDIRPLUS on a nordirplus export: %v, want NOTSUPP", st)
	}
	if _, st := listPage(t, c, false, root, 0, [8]byte{}, 0, 8192); st != wire3.NFS3_OK {
		t.Errorf("READDIR on a nordirplus export: %v", st)
	}
}
