// How a file has been read lately: in streams or here and there, and how much
// of it. It is what a choice between caching and not caching rests on.
//
// Plan: a small fixed number of streams per file, each known by where it is
// expected to go on. A READ near that place, before or after it, belongs to
// the stream: parallel READs of one client arrive in any order. All else starts
// a stream in the place of the one that was used longest ago. One that begins at
// the start of the file is taken for a stream at once, as the kernel does, and
// one that has got to its end no longer counts. Beside them, one bit for
// each 64th of the file says whether it was touched in this epoch.
//
// Time is the caller's: a tick is a fraction of a second, an epoch is
// EpochTicks of them.
//
// A stream may be followed by dropping what it has used from the page cache
// (Take, Done): in pieces, at a distance, and only pieces that were wholly
// absent when somebody looked, before the kernel's read-ahead came near.

package filecache

import (
	"math/bits"
	"sync"
	"sync/atomic"
)

// Pattern is how a READ fits with those before it.
type Pattern uint8

// The patterns. Unsettled is a READ too early in its stream to say.
const (
	Unsettled Pattern = iota
	Sequential
	Random
)

// An epoch has EpochTicks; a stream is told of once in StreamTicks.
const (
	EpochTicks  = 20
	StreamTicks = 2
)

const (
	maxStreams = 64 // followed at a time in one file

	// slack is how far, at least, from where a stream goes on a READ may lie
	// and still belong to it, in bytes; 16 READs where that is more, up to a
	// limit past which large READs at random would look like streams.
	slack     = 64 << 10
	slackRead = 16
	mostSlack = 8 << 20

	// startRead is the least READ at the start of a file that begins a stream, in
	// bytes: smaller ones often want no more than the head.
	startRead = 32 << 10

	// endReads is how many READs before the end of a file that was streamed are
	// left in the page cache: those that come late.
	endReads = 4

	settled   = 3  // READs after which a stream counts as one
	scattered = 16 // READs without a stream after which a file counts as read at random

	regions = 64
)

// Piece is the unit in which streams are dropped behind, in bytes: a power of
// two.
const Piece = 8 << 20

// A stream in piece p is looked at up to piece p+lookPieces, which is further
// than the kernel reads ahead (twice read_ahead_kb, 8 MiB on fast disks), and
// dropped up to piece p-lagPieces: what lies nearer may be on its way to a
// socket, or be asked for by a READ that comes late.
const (
	lookPieces = 3
	lagPieces  = 2
)

// askPieces is how many pieces a stream that nobody follows is served from memory
// until somebody has to decide anew.
const askPieces = 4

// Streams in flight hold this much of the page cache each, in bytes.
const FollowedBytes = (lookPieces + lagPieces - 1) * Piece

// stream is one place in the file where somebody reads on.
type stream struct {
	next  int64  // the end of the furthest READ
	used  uint32 // Access.clock when last; with run 0 the place is free
	run   uint32 // READs that took it further, up to settled
	turn  uint32 // when last told of, plus 1
	stamp uint32 // Access.clock when it began, to tell it from its successor

	asked           int64 // the askPieces, plus 1, in which Due was true last, while not followed
	followed        bool
	ended           bool  // it was at the end of the file when last noted
	busy            bool  // somebody has its Task
	looked, dropped int64 // pieces before these are done
	absent          uint64
}

// Access is what is known of one file. About 4 KiB; all methods may be called
// from any goroutine. The zero value knows nothing.
type Access struct {
	scattered atomic.Bool // see SetScattered

	mu      sync.Mutex
	clock   uint32
	streams [maxStreams]stream
	last    int    // the stream that matched last
	strays  uint32 // READs in a row that belonged to no settled stream

	size     int64 // of the file when last noted, in bytes
	epoch    uint32
	touched  uint64 // regions, in this epoch
	bytes    int64  // read in this epoch
	streamed bool   // by a settled stream in this epoch
	counted  int64  // what Note has returned in this epoch, summed
}

// Access returns the file's access record, making one if needed.
func (f *File) Access() *Access {
	if a := f.access.Load(); a != nil {
		return a
	}
	f.access.CompareAndSwap(nil, new(Access))
	return f.access.Load()
}

// Accessed returns the file's access record, nil if it has none.
func (f *File) Accessed() *Access { return f.access.Load() }

// NewEpoch reports whether this is the first call in an epoch, for files too
// small for a record of their own.
func (f *File) NewEpoch(tick uint32) bool {
	epoch := tick/EpochTicks + 1
	old := f.epoch.Load()
	return old != epoch && f.epoch.CompareAndSwap(old, epoch)
}

// Scattered reports what SetScattered said last.
func (f *File) Scattered() bool {
	a := f.access.Load()
	return a != nil && a.scattered.Load()
}

// SetScattered says whether small READs of the file are at random and, most of
// them, not worth caching.
func (a *Access) SetScattered(v bool) {
	if a.scattered.Load() != v {
		a.scattered.Store(v)
	}
}

// Noted is what a READ told.
type Noted struct {
	Pattern Pattern
	Share   int64 // see Note
	Streams int64 // by how many the streams that go on have changed in these StreamTicks
}

// Note records a READ of n bytes at off of a file of size bytes. Share is by
// how many bytes the file's part in what is read in this epoch has changed: all
// of a file that is streamed, else what was touched of it. A stream that comes
// back to a part of the file, having left at least half of it alone, counts
// for that part only.
func (a *Access) Note(off, n, size int64, tick uint32) (r Noted) {
	a.mu.Lock()
	defer a.mu.Unlock()
	r.Pattern = a.follow(off, n)
	a.size = size
	if r.Pattern == Sequential {
		r.Streams = a.streams[a.last].tell(size, tick)
	}
	if epoch := tick / EpochTicks; a.epoch != epoch {
		a.epoch, a.touched, a.bytes, a.streamed, a.counted = epoch, 0, 0, false, 0
	}
	a.bytes += n
	a.streamed = a.streamed || r.Pattern == Sequential
	shift := regionShift(size)
	if off < size {
		first, last := off>>shift, (min(off+n, size)-1)>>shift
		for i := first; i <= last && i < regions; i++ {
			a.touched |= 1 << i
		}
	}
	share := min(int64(bits.OnesCount64(a.touched))<<shift, size)
	if comesBack := a.bytes >= 2*share && share <= size/2; a.streamed && !comesBack {
		share = size
	}
	r.Share, a.counted = share-a.counted, share
	return r
}

// tell says by how many the stream changes the number of those that go on.
func (s *stream) tell(size int64, tick uint32) (n int64) {
	turn, ended := tick/StreamTicks+1, s.next >= size
	switch {
	case !ended && s.turn != turn:
		s.turn, n = turn, 1
	case ended && !s.ended && s.turn == turn:
		n = -1
	}
	s.ended = ended
	return n
}

// regionShift is the power of two that is the smallest size of a region with
// which regions of them cover the file.
func regionShift(size int64) uint {
	if size <= regions {
		return 0
	}
	return uint(bits.Len64(uint64(size-1) / regions))
}

// find returns the stream that a READ belongs to and makes it the last, or -1
// and the place of the one that was used longest ago. Of several it is the one
// used last: the others ended here, or wait to be run over. They are forgotten,
// lest they count as streams again.
func (a *Access) find(off, n int64) (at, oldest int) {
	near := min(max(slack, slackRead*n), max(mostSlack, n))
	if a.streams[a.last].near(off, near) {
		return a.last, 0
	}
	at = -1
	for i := range a.streams {
		s := &a.streams[i]
		age := a.clock - s.used
		if s.near(off, near) {
			if at >= 0 && a.clock-a.streams[at].used < age {
				s.forget(age)
				continue
			}
			if at >= 0 {
				a.streams[at].forget(a.clock - a.streams[at].used)
			}
			at = i
		} else if s.run == 0 || a.streams[oldest].run > 0 && age > a.clock-a.streams[oldest].used {
			oldest = i
		}
	}
	if at >= 0 {
		a.last = at
	}
	return at, oldest
}

// forget frees the place of a stream that was used so many READs ago, if that
// is long.
func (s *stream) forget(age uint32) {
	if age > 4*maxStreams && !s.busy {
		s.run = 0
	}
}

func (s *stream) near(off, slack int64) bool {
	return s.run > 0 && off >= s.next-slack && off <= s.next+slack
}

// follow moves the READ's stream on, or begins one.
func (a *Access) follow(off, n int64) Pattern {
	a.clock++
	at, oldest := a.find(off, n)
	if at < 0 {
		at, a.last = oldest, oldest
		a.streams[at] = stream{next: off, stamp: a.clock}
	}
	s := &a.streams[at]
	s.used = a.clock
	if off+n > s.next {
		s.next = off + n
		s.run = min(s.run+1, settled)
	}
	if off == 0 && n >= startRead {
		s.run = settled
	}
	if s.run < settled {
		return a.stray()
	}
	a.strays = 0
	return Sequential
}

// stray counts a READ that belongs to no settled stream.
func (a *Access) stray() Pattern {
	if a.strays < scattered {
		a.strays++
		return Unsettled
	}
	return Random
}

// Due notes a READ that was served from memory, and reports whether something
// is to be done for its stream: there is a Task, or nobody follows it and it has
// got some pieces further. READs that are in memory are as good a sign of a
// stream as others: with read-ahead next to none may be missing. For streams see
// Noted.
func (a *Access) Due(off, n int64, tick uint32) (due bool, streams int64) {
	if !a.mu.TryLock() {
		return false, 0 // the next READ will do
	}
	defer a.mu.Unlock()
	if a.follow(off, n) != Sequential {
		return false, 0
	}
	s := &a.streams[a.last]
	streams = s.tell(a.size, tick)
	if s.followed {
		return !s.busy && s.due(), streams
	}
	if p := s.next/(askPieces*Piece) + 1; s.asked != p && !s.ended {
		s.asked = p
		return true, streams
	}
	return false, streams
}

func (s *stream) due() bool {
	p := s.next / Piece
	if s.ended {
		return s.dropped <= p
	}
	return s.looked <= p+lookPieces-1 || s.dropped < p-lagPieces
}

// Task is what is to be done for a stream that is followed: look at the pieces
// [LookFrom, LookTo) and say with Absent which of them are wholly absent from
// the page cache; drop those of [DropFrom, DropTo) that Mine says, up to the
// byte Keep.
type Task struct {
	LookFrom, LookTo int64
	DropFrom, DropTo int64
	Keep             int64
	absent           uint64
	at               int
	stamp            uint32
}

// Absent notes that a piece was absent.
func (t *Task) Absent(piece int64) { t.absent |= 1 << (piece % 64) }

// Mine reports whether what is cached of a piece is there on the stream's
// account.
func (t *Task) Mine(piece int64) bool { return t.absent>>(piece%64)&1 != 0 }

// Take gives the task of the stream that a READ belongs to, which is followed
// from now on. Give it to Done. False: there is none, or somebody has it.
func (a *Access) Take(off, n int64) (t Task, ok bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	at, _ := a.find(off, n)
	if at < 0 {
		return t, false
	}
	s := &a.streams[at]
	if s.busy || s.run < settled {
		return t, false
	}
	p := s.next / Piece
	if !s.followed || s.looked <= p { // begins, or has jumped ahead of where it was looked at
		s.followed, s.absent = true, 0
		s.looked, s.dropped = p+1, p+1
		if off == 0 && s.next == n { // nothing of it has been read yet
			s.looked, s.dropped = 0, 0
		}
	}
	if !s.due() {
		return t, false
	}
	s.busy = true
	t = Task{LookFrom: s.looked, LookTo: max(s.looked, p+lookPieces+1), DropFrom: s.dropped, DropTo: max(s.dropped, p-lagPieces+1),
		Keep: s.next, absent: s.absent, at: at, stamp: s.stamp}
	if s.ended {
		t.LookTo, t.DropTo, t.Keep = t.LookFrom, p+1, s.next-endReads*n
	}
	for i := t.LookFrom; i < t.LookTo; i++ {
		t.absent &^= 1 << (i % 64)
	}
	return t, true
}

// Done takes a task back.
func (a *Access) Done(t *Task) {
	a.mu.Lock()
	defer a.mu.Unlock()
	s := &a.streams[t.at]
	if s.stamp != t.stamp || !s.busy {
		return
	}
	s.busy, s.looked, s.dropped, s.absent = false, t.LookTo, t.DropTo, t.absent
}
