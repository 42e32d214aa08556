// Package rpcb has the wire types of the port mapper, version 2, and of
// RPCBIND, versions 3 and 4 (RFC 1833), generated from rpcb.x. Every type
// encodes and decodes itself; bytes that it decodes alias the message.
package rpcb

//go:generate go run sluice/cmd/xdrgen rpcb.x
