// What asynchronous copies are under way, for the admin plane.

package nfs4

import (
	"cmp"
	"encoding/binary"
	"slices"

	"sluice/pkg/state"
)

// CopyInfo is an asynchronous copy that has not ended.
type CopyInfo struct {
	Client         state.ClientID
	Stateid        state.Stateid // that names the copy
	Source, Target state.FileKey
	Bytes, Copied  uint64 // in all, and until now
}

// Copies lists the copies under way, the oldest first, and counts all that were begun.
func (s *Service) Copies() (list []CopyInfo, begun uint64) {
	q := &s.copies
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, o := range q.byNum {
		if o.finished || o.cancelled {
			continue
		}
		sid := o.stateid()
		list = append(list, CopyInfo{
			Client: o.client.ID(), Stateid: state.Stateid{Seqid: sid.Seqid, Other: sid.Other},
			Source: o.srcKey, Target: o.dstKey, Bytes: o.bytes, Copied: o.copied,
		})
	}
	slices.SortFunc(list, func(a, b CopyInfo) int {
		return cmp.Compare(binary.BigEndian.Uint32(a.Stateid.Other[8:]), binary.BigEndian.Uint32(b.Stateid.Other[8:]))
	})
	return list, uint64(q.last)
}
