// Mode auto: each READ takes one of the other modes, by what is in memory, how
// the file is read, and what memory there is (auto_memory.go).
//
// Plan: what is in the page cache is served from it, on the service thread,
// as in mode buffered and for the same price. Only what is not goes on to ask
// more. It is then on a slow thread, where the answer costs little beside the
// disk. The first of these that holds decides (docs/decisions/0039-auto.md has
// the measurements):
//
//	writing       buffered   the range has dirty pages: a direct read would wait for their write-back
//	fits          buffered   all that was read lately fits in the page cache, and memory is not short
//	streaming     dontcache  one of few streams: read ahead by the kernel and dropped behind
//	room          buffered   there is memory that nothing occupies
//	read_ahead    buffered   one of more streams, for all of which the kernel can read ahead in this memory
//	small         buffered   too small for direct I/O to pay
//	random        dontcache  the same, at random: most of what is cached would be dropped unread
//	many_streams  direct     one of more streams than the kernel can read ahead for in this memory
//	large         direct     a large READ of no stream
//	memory_short  direct     the same as one of the last four, when it would fit but memory is short
//
// A decision that is out of date is a matter of speed only.

package dataio

import (
	"sync/atomic"

	"golang.org/x/sys/unix"

	"sluice/pkg/filecache"
	"sluice/pkg/stats"
	"sluice/pkg/trace"
)

// choice is why auto chose as it did.
type choice uint8

const (
	choiceCached choice = iota // buffered: in the page cache
	choiceWriting
	choiceFits
	choiceRoom
	choiceStreaming
	choiceAhead
	choiceSmall
	choiceRandom
	choiceMany
	choiceLarge
	choiceShort
	choices
)

var choiceNames = [choices]string{
	"cached", "writing", "fits", "room", "streaming", "read_ahead", "small", "random", "many_streams", "large", "memory_short",
}

func (c choice) String() string { return choiceNames[c] }

// AutoReasons lists the names under which the decisions of mode auto are counted.
func AutoReasons() []string { return append([]string(nil), choiceNames[:]...) }

const (
	// largeRead is the least READ, in bytes, that is read direct: below it the
	// cost of a request of its own to the disk outweighs what direct I/O saves.
	largeRead = 96 << 10

	// followedRead is the least READ, in bytes, that is recorded when it is in
	// memory and all fits: without them a stream that is read ahead would be lost
	// sight of between the few READs that are not.
	followedRead = 32 << 10

	// tracked is the least size of a file, in bytes, that has a record of how it
	// is read; the record is 4 KiB.
	tracked = 1 << 20

	// fitsOf is the part of the page cache's room, in 16ths, that what is read
	// may take and still count as fitting. Past the room a cache that is read
	// from end to end gives nothing at all.
	fitsOf = 15

	// followOf is the part of the room, as 1/followOf, that all streams that are
	// followed may hold.
	followOf = 2

	// aheadOf is the part of the room, in 10ths, that the kernel's read-ahead for
	// all streams may take: with 3 of 10 the page cache was faster than direct
	// I/O, with 5 of 10 pages went before they were used.
	aheadOf = 3

	// admitOf: of READs at random that don't fit, one in admitOf is cached, so
	// that what is wanted often gets in, and what is wanted once seldom drives
	// something out.
	admitOf = 8
)

// question is what a decision rests on.
type question struct {
	count   int
	pattern filecache.Pattern
	dirty   bool  // pages of the range are dirty or being written back
	spare   bool  // free memory takes it
	short   bool  // memory
	stalled bool  // threads wait for memory
	admit   bool  // it is this READ's turn to be cached, if at random
	room    int64 // of the page cache, in bytes; 0: unknown
	share   int64 // what is read, in bytes
	streams int64 // that are read
	ahead   int64 // what the kernel reads ahead for each, in bytes
}

// decide is the table at the top of this file.
func (q *question) decide() (Mode, choice) {
	fits := q.room == 0 || q.share <= q.room/16*fitsOf
	switch {
	case q.dirty:
		return Buffered, choiceWriting
	case fits && !q.short:
		return Buffered, choiceFits
	case q.pattern == filecache.Sequential && q.streams*filecache.FollowedBytes <= q.room/followOf:
		return DontCache, choiceStreaming
	case q.spare && !q.short:
		return Buffered, choiceRoom
	case q.pattern == filecache.Sequential && !q.stalled && q.streams*q.ahead <= q.room/10*aheadOf:
		return Buffered, choiceAhead
	case q.count < largeRead && q.pattern == filecache.Random && !q.admit:
		return DontCache, choiceRandom
	case q.count < largeRead:
		return Buffered, choiceSmall
	case fits:
		return Direct, choiceShort
	case q.pattern == filecache.Sequential:
		return Direct, choiceMany
	}
	return Direct, choiceLarge
}

// autoState is the engine's part of it. The zero value needs a clock in memory.
type autoState struct {
	memory memory
	tight  atomic.Bool // what was read last did not fit, or memory was short
	ahead  aheads
	turn   atomic.Uint32 // of READs at random: which is cached
	counts [choices]stats.Counter
}

// admit says whether it is a READ's turn to be cached.
func (s *autoState) admit() bool { return s.turn.Add(1)%admitOf == 0 }

// auto serves a READ in the mode that it chooses.
func (r *read) auto() (ReadRes, error) {
	if r.q.NoWait {
		return r.autoWarm()
	}
	fd, err := r.th.fd(r.q.File, r.kind(), true)
	if err != nil {
		return ReadRes{}, err
	}
	mode, why := r.choose(fd)
	r.chose(mode, why)
	r.e.auto.counts[why].Add(r.th.shard, 1)
	switch why {
	case choiceStreaming:
		res, err := r.buffered()
		res.Used = DontCache
		return res, err
	case choiceRandom:
		r.q.Random = true
	}
	return r.run(mode)
}

// autoWarm serves what is in memory.
func (r *read) autoWarm() (res ReadRes, err error) {
	f := r.q.File
	// While all fits, small READs are not even recorded.
	if tight := r.e.auto.tight.Load(); tight || r.count >= followedRead {
		if a, m := f.Accessed(), &r.e.auto.memory; a != nil {
			due, streams := a.Due(r.off, int64(r.count), m.tick.Load())
			if streams != 0 {
				m.streams.add(streams)
			}
			if due && tight {
				return ReadRes{}, unix.EAGAIN // what is due may sleep
			}
		}
	}
	mode := Buffered
	if r.count < largeRead && f.Scattered() && !r.e.auto.admit() {
		mode, r.q.Random = DontCache, true // asking starts the read, of pages that go when they were used
	}
	r.chose(mode, choiceCached)
	if res, err = r.run(mode); err == nil {
		r.e.auto.counts[choiceCached].Add(r.th.shard, 1)
	}
	return res, err
}

// chose traces a decision.
func (r *read) chose(m Mode, why choice) {
	if r.traced {
		r.th.event(&r.q, trace.ReadAuto, m, 0, 0).Reason = why.String()
	}
}

// choose looks at the file and at memory, on a thread that may sleep.
func (r *read) choose(fd int) (Mode, choice) {
	e, f, n := r.e, r.q.File, int64(r.count)
	m := &e.auto.memory
	m.refresh()
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return Buffered, choiceSmall // and reading will say what is wrong
	}
	var a *filecache.Access // nil for a file that is not tracked, which has no streams
	var note filecache.Noted
	if tick := m.tick.Load(); st.Size >= tracked {
		a = f.Access()
		note = a.Note(r.off, n, st.Size, tick)
		m.share.add(note.Share)
		if note.Streams != 0 {
			m.streams.add(note.Streams)
		}
	} else if f.NewEpoch(tick) {
		m.share.add(st.Size)
	}
	q := question{
		count: r.count, pattern: note.Pattern, short: m.short.Load(), stalled: m.stalled.Load(), room: m.room.Load(),
		share: m.share.get(), streams: m.streams.get(), ahead: e.auto.ahead.of(m, st.Dev),
	}
	takes := n // with what is read ahead, which takes as much again before the next READ asks
	if q.pattern == filecache.Sequential {
		takes = max(n, q.ahead/2)
	}
	q.spare = m.left() >= takes
	warm := false
	// Small READs are served in the same way whether they are in memory or not.
	if r.count >= largeRead && !e.noCachestat.Load() {
		warm = e.warm(r.th, fd, r.off, r.count) == nil
		q.dirty = r.th.cs.Dirty+r.th.cs.Writeback > 0
	} else {
		q.admit = q.spare || e.auto.admit()
	}
	if r.q.Random {
		q.pattern = filecache.Random
	}
	mode, why := q.decide()
	if tight := why != choiceFits && why != choiceWriting; e.auto.tight.Load() != tight {
		e.auto.tight.Store(tight)
	}
	switch why {
	case choiceRoom:
		m.spare.Add(-takes)
	case choiceStreaming:
		r.behind(fd, a)
	}
	if warm && !q.dirty {
		return Buffered, choiceCached
	}
	if a != nil && (why != choiceSmall || q.pattern != filecache.Random) { // then it was its turn
		a.SetScattered(why == choiceRandom)
	}
	return mode, why
}

// behind does what there is to do for the READ's stream: it looks at what the
// kernel will read ahead next, and drops what the stream has left behind, if
// nobody had it cached before.
func (r *read) behind(fd int, a *filecache.Access) {
	t, ok := a.Take(r.off, int64(r.count))
	if !ok {
		return
	}
	for p := t.LookFrom; p < t.LookTo; p++ {
		if n, err := r.e.cached(r.th, fd, p*filecache.Piece, (p+1)*filecache.Piece); err == nil && n == 0 {
			t.Absent(p)
		}
	}
	for p := t.DropFrom; p < t.DropTo; p++ {
		from := p * filecache.Piece
		if n := min(t.Keep-from, filecache.Piece); n > 0 && t.Mine(p) {
			unix.Fadvise(fd, from, n, unix.FADV_DONTNEED) //nolint:errcheck // advice
		}
	}
	a.Done(&t)
}

// autoWrite is the mode that auto takes for a WRITE. There is no rule to choose
// by: for small WRITEs and for several streams buffered takes the least of the
// server's CPU, and for one large stream the three are within what
// runs of the same mode differ by (docs/decisions/0039-auto.md).
func (e *Engine) autoWrite(*WriteReq) Mode { return Buffered }

// AutoStats counts the decisions of mode auto, by reason.
type AutoStats map[string]int64

func (s *autoState) stats() AutoStats {
	m := make(AutoStats, choices)
	for i := range s.counts {
		m[choice(i).String()] = s.counts[i].Load()
	}
	return m
}
