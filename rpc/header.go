// Call and reply headers (RFC 5531, 9) and the credentials in them.

package rpc

import (
	"encoding/binary"

	"sluice/xdr"
)

// Numbers of RFC 5531, 9.
const (
	msgCall  = 0
	msgReply = 1

	rpcVersion = 2

	msgAccepted = 0
	msgDenied   = 1

	acceptSuccess      = 0
	acceptProgUnavail  = 1
	acceptProgMismatch = 2
	acceptProcUnavail  = 3
	acceptGarbageArgs  = 4
	acceptSystemErr    = 5

	rejectRPCMismatch = 0
	rejectAuthError   = 1
)

// fault is what is wrong with a call's header.
type fault uint8

const (
	faultNone fault = iota
	// faultNotCall: not a call, or too short to be answered. The connection
	// is closed, as Linux does: whoever sends this has lost the thread.
	faultNotCall
	// faultReply: the answer to a call of ours; see backchannel.go.
	faultReply
	faultRPCMismatch
	faultBadCred
	faultBadVerf
	// faultFlavor: a flavour that is not served. AUTH_BADCRED as in Linux.
	faultFlavor
)

// header is a decoded call header; its slices alias the record.
type header struct {
	xid, prog, vers, proc uint32

	flavor  uint32
	uid     uint32
	gid     uint32
	groups  []byte // 4 bytes each
	machine []byte
	// identity is the part of the credential that names the caller: uid, gid
	// and groups as they came, without stamp and machine name.
	identity []byte

	args  int // where the arguments start
	fault fault
}

// decode reads the header of a call. On a fault later than faultNotCall, xid
// is valid; on an authentication fault, prog, vers and proc are too.
func (h *header) decode(b []byte) {
	*h = header{}
	if len(b) < 12 || binary.BigEndian.Uint32(b[4:]) > msgReply {
		h.fault = faultNotCall
		return
	}
	h.xid = binary.BigEndian.Uint32(b)
	if binary.BigEndian.Uint32(b[4:]) == msgReply {
		h.fault = faultReply
		return
	}
	if binary.BigEndian.Uint32(b[8:]) != rpcVersion {
		h.fault = faultRPCMismatch
		return
	}
	if len(b) < 24 {
		h.fault = faultNotCall
		return
	}
	h.prog = binary.BigEndian.Uint32(b[12:])
	h.vers = binary.BigEndian.Uint32(b[16:])
	h.proc = binary.BigEndian.Uint32(b[20:])
	flavor, cred, at, ok := opaqueAuth(b, 24)
	if !ok {
		h.fault = faultBadCred
		return
	}
	h.flavor = flavor
	vflavor, verf, at, ok := opaqueAuth(b, at)
	if !ok {
		h.fault = faultBadVerf
		return
	}
	h.args = at
	switch flavor {
	case FlavorNone:
		if len(cred) != 0 {
			h.fault = faultBadCred
			return
		}
	case FlavorSys:
		if !h.authSys(cred) {
			h.fault = faultBadCred
			return
		}
	default:
		h.fault = faultFlavor
		return
	}
	// Neither flavour has a verifier from the client; Linux refuses any other.
	if vflavor != FlavorNone || len(verf) != 0 {
		h.fault = faultBadVerf
	}
}

// opaqueAuth reads an opaque_auth (RFC 5531, 8.2) at b[at:].
func opaqueAuth(b []byte, at int) (flavor uint32, body []byte, next int, ok bool) {
	if len(b)-at < 8 {
		return 0, nil, 0, false
	}
	flavor = binary.BigEndian.Uint32(b[at:])
	n := int(binary.BigEndian.Uint32(b[at+4:]))
	at += 8
	padded := (n + 3) &^ 3
	if n > MaxAuthBytes || padded > len(b)-at {
		return 0, nil, 0, false
	}
	return flavor, b[at : at+n], at + padded, true
}

// authSys reads authsys_parms (RFC 5531, appendix A). Bytes after the groups
// are not looked at, as in Linux.
func (h *header) authSys(b []byte) bool {
	if len(b) < 8 {
		return false
	}
	n := int(binary.BigEndian.Uint32(b[4:]))
	if n > MaxMachineName {
		return false
	}
	at := 8 + (n+3)&^3
	if len(b)-at < 12 {
		return false
	}
	h.machine = b[8 : 8+n]
	h.uid = binary.BigEndian.Uint32(b[at:])
	h.gid = binary.BigEndian.Uint32(b[at+4:])
	ng := int(binary.BigEndian.Uint32(b[at+8:]))
	if ng > MaxGroups || len(b)-at-12 < 4*ng {
		return false
	}
	h.groups = b[at+12 : at+12+4*ng]
	h.identity = b[at : at+12+4*ng]
	return true
}

// cred copies the credential to c.
func (h *header) setCred(c *Call) {
	c.Cred = Cred{Flavor: h.flavor, UID: h.uid, GID: h.gid, Machine: h.machine}
	if len(h.groups) > 0 {
		n := len(h.groups) / 4
		for i := range n {
			c.groups[i] = binary.BigEndian.Uint32(h.groups[4*i:])
		}
		c.Cred.Groups = c.groups[:n]
	}
}

// acceptedLen is the length of a record mark and an accepted reply's header
// with an empty verifier.
const acceptedLen = 28

// accepted appends a record mark to be filled in, and the header of an
// accepted reply.
func accepted(e *xdr.Encoder, xid, stat uint32) {
	b := e.Next(acceptedLen)
	clear(b)
	binary.BigEndian.PutUint32(b[4:], xid)
	b[11] = msgReply
	binary.BigEndian.PutUint32(b[24:], stat)
}

// denied appends a record mark to be filled in, and a denied reply.
func denied(e *xdr.Encoder, xid, stat uint32, words ...uint32) {
	e.Uint32(0)
	e.Uint32(xid)
	e.Uint32(msgReply)
	e.Uint32(msgDenied)
	e.Uint32(stat)
	for _, w := range words {
		e.Uint32(w)
	}
}

// seal fills in the mark of the record that starts at byte at of the buffer,
// with size bytes behind the mark.
func seal(e *xdr.Encoder, at, size int) {
	e.PatchUint32(at, lastFragment|uint32(size))
}
