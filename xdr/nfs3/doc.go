// Package nfs3 has the wire types of NFS version 3 (RFC 1813), generated from
// nfs3.x. Every type encodes and decodes itself; bytes that it decodes alias
// the message.
//
// Where the linked lists of READDIR and READDIRPLUS are encoded one entry at a
// time, to keep to a limit in bytes, each entry is a true bool and the entry's
// Encode, and a false bool ends the list.
package nfs3

//go:generate go run sluice/cmd/xdrgen nfs3.x
