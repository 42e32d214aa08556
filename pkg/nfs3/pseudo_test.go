package nfs3

import (
	"testing"

	"sluice/rpc"
	"sluice/test/nfscall"
	wire3 "sluice/xdr/nfs3"
)

// A handle of version 4's pseudo root is no secret. Version 3 may look at it like at any directory, and change nothing.
func TestPseudoHandles(t *testing.T) {
	s := startServer(t, "rw,no_root_squash,insecure,async")
	c := s.client(t)
	export := c.Mount(t, s.dir)
	h := s.ns.RootHandle()
	root := nfscall.Clone(h.Bytes())
	before := tree(t, s.dir)
	reads := map[string]bool{"GETATTR": true, "ACCESS": true, "READDIR": true, "READDIRPLUS": true, "FSSTAT": true, "FSINFO": true, "PATHCONF": true}
	for name, call := range callsOn(root) {
		if got := c.Status(t, call.proc, call.args); (got == wire3.NFS3_OK) != reads[name] {
			t.Errorf("%s of the pseudo root: %v", name, got)
		}
	}
	for name, args := range map[string]struct {
		proc uint32
		args rpc.Encodable
	}{
		"RENAME out of it": {wire3.NFSPROC3_RENAME, &wire3.RENAME3args{From: nfscall.Dirop(root, "x"), To: nfscall.Dirop(export, "y")}},
		"RENAME into it":   {wire3.NFSPROC3_RENAME, &wire3.RENAME3args{From: nfscall.Dirop(export, "x"), To: nfscall.Dirop(root, "y")}},
		"LINK of it":       {wire3.NFSPROC3_LINK, &wire3.LINK3args{File: nfscall.FH(root), Link: nfscall.Dirop(export, "y")}},
		"LINK into it":     {wire3.NFSPROC3_LINK, &wire3.LINK3args{File: nfscall.FH(export), Link: nfscall.Dirop(root, "y")}},
	} {
		if got := c.Status(t, args.proc, args.args); got == wire3.NFS3_OK {
			t.Errorf("%s: %v", name, got)
		}
	}
	for _, name := range []string{".", ".."} {
		for what, call := range namedCalls(root, export, name) {
			if got := c.Status(t, call.proc, call.args); got == wire3.NFS3_OK {
				t.Errorf("%s of %q: %v", what, name, got)
			}
		}
	}
	if after := tree(t, s.dir); after != before {
		t.Errorf("something was changed:\n%s\n%s", before, after)
	}
	c.WantStatus(t, "GETATTR afterwards", wire3.NFSPROC3_GETATTR, &wire3.GETATTR3args{Object: nfscall.FH(export)}, wire3.NFS3_OK)
}
