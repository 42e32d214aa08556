// Package nfs4 has the wire types of NFS version 4, minor versions 0 to 2, and
// of its callbacks, generated from nfs4.x, which names the RFCs. Every type
// encodes and decodes itself; bytes that it decodes alias the message.
//
// A COMPOUND is read piece by piece: COMPOUND4args up to the count of its
// operations, then for each the word of its number and the arguments of that
// operation; the answer is written the same way. READDIR's entries may be
// written one at a time, to keep to a limit in bytes: each is a true bool and
// the entry's Encode, and a false bool ends the list. Attribute values are
// written behind a Bitmap4 and a length word, which Encoder.PatchUint32 mends
// once they are there.
package nfs4

//go:generate go run sluice/cmd/xdrgen nfs4.x
