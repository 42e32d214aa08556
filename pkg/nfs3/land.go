// Where the payload of a WRITE starts, for landing it (rpc.Proc.Land).

package nfs3

import (
	"sluice/xdr"
	wire3 "sluice/xdr/nfs3"
)

// landWrite walks over the arguments of WRITE (RFC 1813, 3.3.7) up to the data.
func landWrite(args []byte) (at int, off uint64, ok bool) {
	var d xdr.Decoder
	d.Reset(args)
	d.Opaque(wire3.NFS3_FHSIZE)
	off = d.Uint64()
	d.Next(12) // count, stable_how, and the length of the data
	return len(args) - d.Len(), off, d.Err() == nil
}
