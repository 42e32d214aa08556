package nfs3

import (
	"os"
	"path/filepath"
	"testing"

	"sluice/pkg/filecache"
	"sluice/pkg/vfs"
	"sluice/test/nfscall"
	wire3 "sluice/xdr/nfs3"
)

// heldGuard has a client of version 4 hold a write delegation on every file.
type heldGuard struct{}

func (heldGuard) CheckRead(*filecache.Key, uint64, bool) error          { return nil }
func (heldGuard) CheckWrite(*filecache.Key, uint64, bool) error         { return nil }
func (heldGuard) CheckSetattr(*filecache.Key, uint64, bool, bool) error { return nil }
func (heldGuard) CheckGetattr(*filecache.Key, uint64, bool) error       { return vfs.ErrJukebox }
func (heldGuard) CheckNames(*filecache.Key, uint64) error               { return nil }
func (heldGuard) Held(*filecache.Key, uint64) bool                      { return true }
func (heldGuard) Ended() uint64                                         { return 0 }

// Attributes that a client of version 4 may know better are left out, for GETATTR to bring up to date.
func TestHeldAttributesAreLeftOut(t *testing.T) {
	s := startServer(t, "rw,no_root_squash,insecure,async", func(c *vfs.Config) { c.Guard = heldGuard{} })
	c := s.client(t)
	root := c.Mount(t, s.dir)
	nfscall.Must(t, os.WriteFile(filepath.Join(s.dir, "f"), []byte("old"), 0o644))
	var l wire3.LOOKUP3res
	c.Do(t, wire3.NFSPROC3_LOOKUP, &wire3.LOOKUP3args{What: nfscall.Dirop(root, "f")}, &l)
	if ok := &l.Resok; l.Status != wire3.NFS3_OK || ok.ObjAttributes.AttributesFollow || !ok.DirAttributes.AttributesFollow {
		t.Errorf("LOOKUP: %+v", l)
	}
	file := l.Resok.Object
	var a wire3.ACCESS3res
	c.Do(t, wire3.NFSPROC3_ACCESS, &wire3.ACCESS3args{Object: file, Access: 1}, &a)
	if a.Status != wire3.NFS3_OK || a.Resok.ObjAttributes.AttributesFollow || a.Resok.Access != 1 {
		t.Errorf("ACCESS: %+v", a)
	}
	var cm wire3.COMMIT3res
	c.Do(t, wire3.NFSPROC3_COMMIT, &wire3.COMMIT3args{File: file}, &cm)
	if w := &cm.Resok.FileWcc; cm.Status != wire3.NFS3_OK || w.Before.AttributesFollow || w.After.AttributesFollow {
		t.Errorf("COMMIT: %+v", cm)
	}
	var r wire3.READDIRPLUS3res
	c.Do(t, wire3.NFSPROC3_READDIRPLUS, &wire3.READDIRPLUS3args{Dir: nfscall.FH(root), Dircount: 4096, Maxcount: 4096}, &r)
	if r.Status != wire3.NFS3_OK || len(r.Resok.Reply.Entries) != 3 {
		t.Fatalf("READDIRPLUS: %+v", r)
	}
	for _, e := range r.Resok.Reply.Entries {
		if file := string(e.Name) == "f"; e.NameAttributes.AttributesFollow == file || file && !e.NameHandle.HandleFollows {
			t.Errorf("READDIRPLUS: %+v", e)
		}
	}
	c.WantStatus(t, "GETATTR", wire3.NFSPROC3_GETATTR, &wire3.GETATTR3args{Object: file}, wire3.NFS3ERR_JUKEBOX)
}
