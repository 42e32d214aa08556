// A look ahead over a COMPOUND's operations, before any of them has run.
//
// Plan: walk over the arguments of the operations that make up nearly all
// COMPOUNDs, without decoding them. Two answers: may a thread that must not
// sleep begin it, and (for 4.0) must its reply be kept, because running it
// twice is not the same as running it once.

package nfs4

import (
	"sluice/xdr"
	wire "sluice/xdr/nfs4"
)

// peek walks over ops operations. quick: nothing in it is known to sleep.
// effects: it changes something, or may, as far as was looked.
func peek(d xdr.Decoder, ops int) (quick, effects bool) {
	quick = true
	for range ops {
		switch op := wire.NfsOpnum4(d.Uint32()); op {
		case wire.OP_WRITE:
			d.Next(28)
			d.Opaque(xdr.Unbounded)
			effects = true
		case wire.OP_CLOSE:
			d.Next(20)
			effects = true
		case wire.OP_READDIR:
			quick = false
			d.Next(24)
			skipBitmap(&d)
		case wire.OP_COMMIT:
			quick = false
			d.Next(12)
		default:
			if !skip(&d, op) {
				return d.Err() != nil && quick, true
			}
		}
		if d.Err() != nil {
			return quick, effects // what comes before the fault has still to be answered
		}
	}
	return quick, effects
}

// skip walks over the arguments of an operation that changes nothing and is not
// known to sleep; false if op is none of these.
func skip(d *xdr.Decoder, op wire.NfsOpnum4) bool {
	switch op {
	case wire.OP_PUTROOTFH, wire.OP_PUTPUBFH, wire.OP_GETFH, wire.OP_SAVEFH, wire.OP_RESTOREFH, wire.OP_LOOKUPP, wire.OP_READLINK:
	case wire.OP_PUTFH, wire.OP_LOOKUP, wire.OP_SECINFO:
		d.Opaque(xdr.Unbounded)
	case wire.OP_SEQUENCE:
		d.Next(32)
	case wire.OP_GETATTR:
		skipBitmap(d)
	case wire.OP_ACCESS:
		d.Next(4)
	case wire.OP_RENEW:
		d.Next(8)
	case wire.OP_READ:
		d.Next(28)
	case wire.OP_VERIFY, wire.OP_NVERIFY:
		skipBitmap(d)
		d.Opaque(xdr.Unbounded)
	default:
		return false
	}
	return true
}

func skipBitmap(d *xdr.Decoder) {
	if n := d.Count(xdr.Unbounded, 4); n > 0 {
		d.Next(4 * n)
	}
}

// keepReply tells whether the reply to a COMPOUND must be kept for when the
// call is sent again: in 4.0 for all that changes something (RFC 7530, 3.1.1);
// later versions have sessions. args are the procedure's arguments.
func keepReply(args []byte) bool {
	var d xdr.Decoder
	d.Reset(args)
	var h wire.COMPOUND4args
	h.Decode(&d)
	if d.Err() != nil || h.Minorversion != 0 {
		return false
	}
	_, effects := peek(d, h.Argarray)
	return effects
}
