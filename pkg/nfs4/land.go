// Where the payload of a COMPOUND's first WRITE starts, for landing it
// (rpc.Proc.Land).

package nfs4

import (
	"sluice/xdr"
	wire "sluice/xdr/nfs4"
)

// landWrite walks over the operations before the WRITE (SEQUENCE and PUTFH, as
// a rule) and over its arguments (RFC 8881, 18.32) up to the data.
func landWrite(args []byte) (at int, off uint64, ok bool) {
	var d xdr.Decoder
	d.Reset(args)
	d.Opaque(xdr.Unbounded) // the tag
	d.Next(4)               // minorversion
	for ops := d.Uint32(); ops > 0 && d.Err() == nil; ops-- {
		op := wire.NfsOpnum4(d.Uint32())
		if op == wire.OP_WRITE {
			d.Next(16) // stateid
			off = d.Uint64()
			d.Next(8) // stable_how, and the length of the data
			return len(args) - d.Len(), off, d.Err() == nil
		}
		if !skip(&d, op) {
			break
		}
	}
	return 0, 0, false
}
