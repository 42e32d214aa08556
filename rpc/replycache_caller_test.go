// One caller's answer is never another's: what the reply cache takes for the
// same caller.

package rpc

import (
	"bytes"
	"testing"
)

func TestReplyCacheTellsCallersApart(t *testing.T) {
	ts := start(t, nil)
	p := ts.dial(t)
	for i, cred := range []Cred{
		{Flavor: FlavorNone},
		{Flavor: FlavorSys},
		{Flavor: FlavorSys, UID: 1},
		{Flavor: FlavorSys, GID: 1},
		{Flavor: FlavorSys, Groups: []uint32{5}},
		{Flavor: FlavorSys, Groups: []uint32{6}}, // as long as the one before
		{Flavor: FlavorSys, Groups: []uint32{5, 6}},
		{Flavor: FlavorSys, Groups: []uint32{6, 5}},
	} {
		for range 2 { // the call and its copy
			p.send(EncodeCall(nil, 9, testProg, testVers, procCount, &cred, words{0, 5}))
			if got := p.recv(); !bytes.Equal(got, success(9, uint32(i+1))) {
				t.Errorf("caller %+v got % x, want result %d", cred, got, i+1)
			}
		}
	}
}
