// The acl attribute: NFSv4 access control lists and the POSIX ones that Linux
// file systems have.

package nfs4

import (
	"sluice/xdr"
	wire "sluice/xdr/nfs4"
)

// aclSource is a file's list as it is encoded.
type aclSource struct {
	supported bool
}

// aclSetter is a list that a client sets.
type aclSetter struct{}

func (a *aclSetter) reset() {}

// fileSystemAttrs takes out of the supported set what the current file's file system does not have.
func (c *compound) fileSystemAttrs(s *attrSource) {
	s.supported[0] &^= 1 << wire.FATTR4_ACL
}

func (c *compound) gatherACL(*attrSource) error { return nil }

func getACL(s *attrSource, e *xdr.Encoder)        { e.Uint32(0) }
func getACLSupport(s *attrSource, e *xdr.Encoder) { e.Uint32(0) }

func setACL(a *attrSetter, d *xdr.Decoder) status { return wire.NFS4ERR_ATTRNOTSUPP }

func (c *compound) applyACL(*attrSetter) status { return ok }
