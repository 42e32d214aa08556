// A small responder over UDP, for the embedded portmapper.

package rpc

import (
	"context"
	"errors"
	"net"
)

// ServeUDP answers the calls of program p that arrive at pc, one after the
// other, until ctx ends; then it closes pc and returns nil. Call.Conn and
// Call.Thread are nil, Call.Peer() is the caller, and MayBlock is true.
func ServeUDP(ctx context.Context, pc *net.UDPConn, p Program) error { return errors.New("rpc: not yet") }
