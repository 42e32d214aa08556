// Package mount3 has the wire types of the MOUNT protocol, version 3 (RFC
// 1813, chapter 5) and version 1 (RFC 1094, appendix A), generated from
// mount3.x. Every type encodes and decodes itself; bytes that it decodes alias
// the message.
package mount3

//go:generate go run sluice/cmd/xdrgen mount3.x
