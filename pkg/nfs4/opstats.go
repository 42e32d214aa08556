// How often each operation ran, and how it failed.
//
// Plan: a COMPOUND notes the numbers of its operations as it goes, since it may
// have to run again from its start elsewhere, and counts them when it is done.
// The counts are arrays of fixed size, spread over cache lines where that pays;
// nothing is allocated.

package nfs4

import (
	"sync/atomic"

	"sluice/pkg/stats"
	wire "sluice/xdr/nfs4"
)

const (
	numOps = int(wire.OP_REMOVEXATTR) + 1

	// Error codes come in two runs: those of version 3, below smallErrors, and
	// those from NFS4ERR_BADHANDLE on. The last place of each takes the rest.
	firstLarge  = int(wire.NFS4ERR_BADHANDLE)
	smallErrors = 128
	largeErrors = 128
)

// opCounters has the place 0 for OP_ILLEGAL.
type opCounters struct {
	calls  [numOps]stats.Counter
	errors [numOps][smallErrors + largeErrors]atomic.Uint64
}

// add counts operations that have run, of which all but the last succeeded.
func (o *opCounters) add(shard stats.Shard, ran []uint8, st status) {
	for _, num := range ran {
		o.calls[num].Add(shard, 1)
	}
	if st != ok && len(ran) > 0 {
		o.errors[ran[len(ran)-1]][errorPlace(st)].Add(1)
	}
}

func errorPlace(st status) int {
	if int(st) < firstLarge {
		return min(int(st), smallErrors-1)
	}
	return smallErrors + min(int(st)-firstLarge, largeErrors-1)
}

func errorAt(place int) status {
	if place < smallErrors {
		return status(place)
	}
	return status(firstLarge + place - smallErrors)
}

// OpStats counts one operation.
type OpStats struct {
	Name   string // as in the RFCs, without OP_
	Calls  uint64
	Errors []OpErrors
}

// OpErrors counts the failures with one code.
type OpErrors struct {
	Name  string // as in the RFCs
	Count uint64
}

// Ops returns the counts of the operations that have run, by number.
func (s *Service) Ops() []OpStats {
	var list []OpStats
	for num := range s.counts.calls {
		calls := uint64(s.counts.calls[num].Load())
		if calls == 0 {
			continue
		}
		o := OpStats{Name: ops[num].name, Calls: calls}
		if num == 0 {
			o.Name = "ILLEGAL"
		}
		for place := range s.counts.errors[num] {
			if n := s.counts.errors[num][place].Load(); n > 0 {
				o.Errors = append(o.Errors, OpErrors{errorAt(place).String(), n})
			}
		}
		list = append(list, o)
	}
	return list
}
