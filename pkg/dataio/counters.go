// What the data path counts.

package dataio

import (
	"sync/atomic"

	"sluice/pkg/stats"
)

// reason says why a READ was not served in the way tried first.
type reason uint8

const (
	served      reason = iota
	notFirst           // direct: a later READ of its COMPOUND
	noDirect           // direct: the file has no direct I/O
	memAlign           // direct: buffers would have to be aligned to more than a page
	tooWide            // direct: widened, the range is larger than any buffer
	noBuffer           // direct: all aligned buffers are in use
	einval             // direct: the kernel refused the range (EINVAL)
	noDontCache        // dontcache: no RWF_DONTCACHE; drop-behind instead
	noCachestat        // dontcache: cannot tell what others have cached
	noPipe             // splice: no pipe to be had
	noSplice           // splice: the file cannot be spliced
	noMiddle           // direct WRITE: no part of it is aligned
	notBlock           // direct WRITE: the page cache would not let go of the range (ENOTBLK)
	shortDirect        // direct WRITE: it stopped off the alignment
	reasons
)

var reasonNames = [reasons]string{
	"", "not_first_read", "no_direct_io", "memory_alignment", "range_too_wide", "no_aligned_buffer", "einval",
	"no_rwf_dontcache", "no_cachestat", "no_pipe", "no_splice", "no_aligned_part", "enotblk", "short_direct_write",
}

func (r reason) String() string { return reasonNames[r] }

// FallbackReasons lists the names under which fallbacks are counted.
func FallbackReasons() []string { return append([]string(nil), reasonNames[served+1:]...) }

// modeCounters count the calls that a mode served (calls, bytes, excess,
// latency) and those that were asked of it and not served so (fallbacks).
type modeCounters struct {
	calls, bytes, excess stats.Counter
	fallbacks            [reasons]atomic.Uint64
	latency              stats.Histogram
}

type counters struct {
	read          [modes]modeCounters
	write         [modes]modeCounters
	spliced       stats.Counter // READs answered without a copy
	cold          stats.Counter // READs sent to the slow pool
	landed        stats.Counter // direct WRITEs whose payload lay aligned in its record
	copied        stats.Counter // and those copied into an aligned buffer
	commits       stats.Counter
	commitLatency stats.Histogram
	syncErrors    atomic.Uint64
}

// ModeStats are the counters of one mode.
type ModeStats struct {
	Calls     int64             `json:"calls"`
	Bytes     int64             `json:"bytes"`
	Excess    int64             `json:"excess_bytes"` // read beyond what was asked, for alignment
	Fallbacks map[string]uint64 `json:"fallbacks"`    // READs in this mode served otherwise, by reason
	Latency   stats.Latency     `json:"latency"`
}

// Stats is a snapshot of the engine's counters.
type Stats struct {
	Read           map[string]ModeStats `json:"read"` // by mode
	Write          map[string]ModeStats `json:"write"`
	Spliced        int64                `json:"read_spliced"` // READs answered without a copy
	Cold           int64                `json:"read_cold"`    // READs that a service thread passed on
	WriteLanded    int64                `json:"write_landed"` // direct WRITEs whose payload needed no copy
	WriteCopied    int64                `json:"write_copied"` // those copied into an aligned buffer
	ReadAuto       AutoStats            `json:"read_auto"`    // decisions of mode auto, by reason
	Commits        int64                `json:"commits"`
	CommitLatency  stats.Latency        `json:"commit_latency"`
	VerifierResets uint64               `json:"verifier_resets"`
	Buffers        PoolStats            `json:"buffers"`
	DirectBuffers  PoolStats            `json:"direct_buffers"`
	Pipes          PipeStats            `json:"pipes"`
}

// Stats returns the counters.
func (e *Engine) Stats() Stats {
	c := &e.counts
	s := Stats{
		Read:           make(map[string]ModeStats),
		Write:          make(map[string]ModeStats),
		Spliced:        c.spliced.Load(),
		Cold:           c.cold.Load(),
		WriteLanded:    c.landed.Load(),
		WriteCopied:    c.copied.Load(),
		ReadAuto:       e.auto.stats(),
		Commits:        c.commits.Load(),
		CommitLatency:  c.commitLatency.Latency(),
		VerifierResets: c.syncErrors.Load(),
		Buffers:        e.plain.stats(),
		DirectBuffers:  e.direct.stats(),
		Pipes:          e.pipes.stats(),
	}
	for m := Buffered; m < Auto; m++ {
		s.Read[m.String()] = c.read[m].stats()
		s.Write[m.String()] = c.write[m].stats()
	}
	return s
}

func (m *modeCounters) stats() ModeStats {
	s := ModeStats{
		Calls:     m.calls.Load(),
		Bytes:     m.bytes.Load(),
		Excess:    m.excess.Load(),
		Fallbacks: make(map[string]uint64),
		Latency:   m.latency.Latency(),
	}
	for r := served + 1; r < reasons; r++ {
		if n := m.fallbacks[r].Load(); n > 0 {
			s.Fallbacks[r.String()] = n
		}
	}
	return s
}
