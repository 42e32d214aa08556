// Asynchronous copies: what COPY leaves to be done after its answer (RFC 7862,
// 4 and 15.2).
//
// Plan: a copy is a record, known to its client by a stateid. A few workers,
// which come when there is work and go when there is none, take the copies in
// turn, a piece at a time, so that a small copy need not wait for a large one;
// and peers in turn, so that one with many copies does not make others wait.
// Each piece is a call like any other: it has a View of its own, under the
// caller's credentials, and asks again whether it may. When nothing is left,
// the data is made stable and the client told (CB_OFFLOAD), as Linux does. The
// record stays for a while for those who ask (OFFLOAD_STATUS).
//
// A copy ends early by OFFLOAD_CANCEL, with its client's state, or with the
// service. What cannot be taken on, for one of the limits below or since the
// client could not be told, is copied before the answer (RFC 7862, 15.2.3:
// the server may choose), at most vfs.MaxCopy of it.

package nfs4

import (
	"encoding/binary"
	"errors"
	"runtime"
	"slices"
	"sync"
	"time"

	"sluice/pkg/state"
	"sluice/pkg/vfs"
	wire "sluice/xdr/nfs4"
)

const (
	maxCopyWorkers   = 2                      // threads that copy
	maxCopies        = 256                    // copies of all clients, finished ones that are still known included
	maxClientCopies  = 16                     // of one client
	copyPiece        = 16 << 20               // bytes copied before it is another copy's turn
	copyCommit       = 256 << 20              // bytes copied before they are made stable, so that the end is not long in coming
	copyRetry        = 100 * time.Millisecond // until a copy that something stands in the way of goes on
	copyPatience     = time.Minute            // without a byte copied, after which it fails
	copyCancelWait   = 5 * time.Second        // of OFFLOAD_CANCEL, for the piece under way
	copyKeptLeases   = 2                      // lease periods that a finished copy is known for
	copyNotices      = 6                      // attempts at CB_OFFLOAD
	copyNoticeDelay  = time.Second            // between the first two, twice as long each time
	firstCopyStateid = uint32(1) << 31        // numbers of pkg/state's own stateids begin at 1
)

// copies are the asynchronous copies of all clients.
type copies struct {
	s    *Service
	keep time.Duration

	mu      sync.Mutex
	closed  bool
	last    uint32
	byNum   map[uint32]*offload
	queue   []*offload // waiting for a worker
	turns   uint64
	served  map[string]uint64 // when each peer last had its turn
	workers int
	done    sync.WaitGroup // workers
}

// asked is the request that something began with.
type asked struct {
	session        wire.Sessionid4
	sequence, slot uint32
}

// offloadNotice is CB_OFFLOAD. It names the COPY, since it may overtake the answer to that (RFC 8881, 2.10.6.3).
type offloadNotice struct {
	wire.CBOFFLOAD4args
	asked asked
}

func (n *offloadNotice) referring() []wire.ReferringCallList4 {
	return []wire.ReferringCallList4{{RclSessionid: n.asked.session,
		RclReferringCalls: []wire.ReferringCall4{{RcSequenceid: n.asked.sequence, RcSlotid: n.asked.slot}}}}
}

// offload is one copy.
type offload struct {
	asked          asked
	client         *state.Client
	principal      state.Principal
	caller         vfs.Caller
	src, dst       handle
	srcSid, dstSid state.Stateid
	num            uint32
	srcKey, dstKey state.FileKey // for those who ask what is copied
	bytes          uint64        // in all

	// Of the worker that has it.
	srcOff, dstOff, left uint64
	dirty                uint64    // bytes copied and not yet made stable
	progress             time.Time // when something was last copied

	// Under copies.mu.
	copied    uint64
	cancelled bool // nobody is told any more
	finished  bool
	status    status
	verf      [8]byte
	forget    *time.Timer
	ended     chan struct{} // closed when no more will be written
}

func (q *copies) init(s *Service) {
	q.s, q.keep, q.byNum, q.served = s, copyKeptLeases*s.st.Lease(), map[uint32]*offload{}, map[string]uint64{}
}

// stateid names the copy to its client. No stateid of pkg/state has such a number.
func (o *offload) stateid() wire.Stateid4 {
	sid := wire.Stateid4{Seqid: 1}
	binary.BigEndian.PutUint64(sid.Other[:8], uint64(o.client.ID()))
	binary.BigEndian.PutUint32(sid.Other[8:], o.num)
	return sid
}

// begin takes a copy on. false: it must be done at once.
func (q *copies) begin(o *offload) bool {
	if q.s.cfg.Callbacks == nil || o.client == nil {
		return false
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed || !q.makeRoom(o.client) {
		return false
	}
	for {
		q.last++
		o.num = firstCopyStateid | q.last
		if q.byNum[o.num] == nil {
			break
		}
	}
	// A client that ended meanwhile has no sessions, and one that ends from now on is reported to gone.
	if o.client.BackSession() == nil {
		return false
	}
	o.progress, o.ended = time.Now(), make(chan struct{})
	q.byNum[o.num] = o
	q.push(o)
	return true
}

// makeRoom looks for room for one more copy; the client's oldest finished one gives way. A peer has no more than are left.
func (q *copies) makeRoom(c *state.Client) bool {
	n, peer, old := 0, 0, (*offload)(nil)
	for _, o := range q.byNum {
		if o.client.Peer() == c.Peer() {
			peer++
		}
		if o.client != c {
			continue
		}
		n++
		if o.finished && (old == nil || o.num < old.num) {
			old = o
		}
	}
	if n < maxClientCopies && peer < maxCopies-len(q.byNum) {
		return true
	}
	if old != nil {
		q.remove(old)
	}
	return old != nil
}

// push queues a copy, and sees to it that somebody works: workers that are there have something else to do.
func (q *copies) push(o *offload) {
	q.queue = append(q.queue, o)
	if q.workers < maxCopyWorkers {
		q.workers++
		q.done.Add(1)
		go q.work()
	}
}

// remove forgets a copy.
func (q *copies) remove(o *offload) {
	delete(q.byNum, o.num)
	if o.forget != nil {
		o.forget.Stop()
	}
}

// work is one worker.
func (q *copies) work() {
	defer q.done.Done()
	runtime.LockOSThread() // for good: the thread ends with the goroutine
	th, err := q.s.ns.NewThread()
	for {
		q.mu.Lock()
		if len(q.queue) == 0 {
			q.workers--
			q.mu.Unlock()
			break
		}
		o := q.next()
		q.mu.Unlock()
		if err != nil { // no more threads, for the moment
			q.finish(o, wire.NFS4ERR_SERVERFAULT, [8]byte{})
			continue
		}
		q.piece(th, o)
	}
	if err == nil {
		th.Close()
	}
}

// next takes the copy whose turn it is out of the queue: of the peer that has waited longest, the first.
func (q *copies) next() *offload {
	i := 0
	for j, o := range q.queue {
		if q.served[o.client.Peer()] < q.served[q.queue[i].client.Peer()] {
			i = j
		}
	}
	o := q.queue[i]
	q.queue = slices.Delete(q.queue, i, i+1)
	if len(q.served) > maxCopies {
		clear(q.served)
	}
	q.turns++
	q.served[o.client.Peer()] = q.turns
	return o
}

// piece copies the next piece of a copy, and queues or finishes it.
func (q *copies) piece(th *vfs.Thread, o *offload) {
	n, err := o.run(th, q.s)
	st := statusOf(err)
	if st == wouldBlock {
		st = wire.NFS4ERR_DELAY
	}
	if n > 0 {
		o.srcOff, o.dstOff, o.left, o.progress = o.srcOff+n, o.dstOff+n, o.left-n, time.Now()
		o.dirty += n
	}
	if o.dirty >= copyCommit && st == ok {
		if _, err = o.commit(th, q.s); err != nil {
			q.finish(o, statusOf(err), [8]byte{})
			return
		}
	}
	wait := st == wire.NFS4ERR_DELAY && time.Since(o.progress) < copyPatience
	q.mu.Lock()
	o.copied += n
	cancelled := o.cancelled
	more := !cancelled && st == ok && n > 0 && o.left > 0
	if more {
		q.queue = append(q.queue, o)
	}
	q.mu.Unlock()
	switch {
	case more:
		return
	case cancelled:
		q.finish(o, ok, [8]byte{})
		return
	case wait:
		time.AfterFunc(copyRetry, func() { q.resume(o) })
		return
	}
	// One that came to an end early is a short copy; only one that did nothing has failed.
	var verf [8]byte
	if o.copied > 0 || st == ok {
		verf, err = o.commit(th, q.s)
		st = statusOf(err)
	}
	q.finish(o, st, verf)
}

// run copies a piece.
func (o *offload) run(th *vfs.Thread, s *Service) (uint64, error) {
	if o.left == 0 {
		return 0, nil
	}
	v, dst, err := s.ns.View(th, &o.caller, o.dst.bytes())
	if err != nil {
		return 0, err
	}
	defer v.Close()
	src, err := v.Source(o.src.bytes())
	if err != nil {
		return 0, err
	}
	o.caller.Opened = o.stillOpen(s, src, dst)
	return v.Copy(src, dst, o.srcOff, o.dstOff, min(o.left, copyPiece))
}

// commit makes what was copied stable.
func (o *offload) commit(th *vfs.Thread, s *Service) (verf [8]byte, err error) {
	v, dst, err := s.ns.View(th, &o.caller, o.dst.bytes())
	if err != nil {
		return verf, err
	}
	defer v.Close()
	verf, _, err = v.Commit(dst, 0, 0)
	o.dirty = 0
	return verf, err
}

// stillOpen tells whether the opens that the copy began with are there. They may have gone: what goes on then is open to
// others' share denials, as I/O without an open is.
func (o *offload) stillOpen(s *Service, src, dst vfs.Node) bool {
	call := state.Call{Minor: 2, MayBlock: true, Principal: o.principal, Conn: 1, Client: o.client}
	if _, err := s.st.CheckIO(&call, src.Key(), o.srcSid, state.AccessRead); err != nil {
		return false
	}
	io, err := s.st.CheckIO(&call, dst.Key(), o.dstSid, state.AccessWrite)
	return err == nil && io.Opened
}

// resume queues a copy that had to wait.
func (q *copies) resume(o *offload) {
	q.mu.Lock()
	cancelled := o.cancelled
	if !cancelled {
		q.push(o)
	}
	q.mu.Unlock()
	if cancelled {
		q.finish(o, ok, [8]byte{})
	}
}

// finish is the end of a copy's work.
func (q *copies) finish(o *offload, st status, verf [8]byte) {
	q.mu.Lock()
	o.finished, o.status, o.verf = true, st, verf
	close(o.ended)
	if o.cancelled {
		q.remove(o)
		q.mu.Unlock()
		return
	}
	o.forget = time.AfterFunc(q.keep, func() {
		q.mu.Lock()
		q.remove(o)
		q.mu.Unlock()
	})
	q.mu.Unlock()
	q.tell(o, 0)
}

// tell sends CB_OFFLOAD, again when it did not arrive. A client that cannot be reached may still ask.
func (q *copies) tell(o *offload, try int) {
	q.mu.Lock()
	known := !q.closed && q.byNum[o.num] == o
	args := offloadNotice{wire.CBOFFLOAD4args{CoaFh: o.dst.bytes(), CoaStateid: o.stateid(),
		CoaOffloadInfo: wire.OffloadInfo4{CoaStatus: o.status, CoaBytesCopied: o.copied,
			CoaResok4: wire.WriteResponse4{WrCount: o.copied, WrCommitted: wire.FILE_SYNC4, WrWriteverf: o.verf}}}, o.asked}
	q.mu.Unlock()
	if !known {
		return
	}
	q.s.cfg.Callbacks.offload(o.client, &args, func(err error) {
		var refused callbackError
		again := err != nil
		if errors.As(err, &refused) {
			again = refused == callbackError(wire.NFS4ERR_DELAY) || refused == callbackError(wire.NFS4ERR_BADSESSION)
		}
		if again && try+1 < copyNotices {
			time.AfterFunc(copyNoticeDelay<<try, func() { q.tell(o, try+1) })
		}
	})
}

// find gives a client's copy. The caller holds the lock.
func (q *copies) find(c *state.Client, sid *wire.Stateid4) *offload {
	if binary.BigEndian.Uint64(sid.Other[:8]) != uint64(c.ID()) {
		return nil
	}
	o := q.byNum[binary.BigEndian.Uint32(sid.Other[8:])]
	if o == nil || o.client != c || sid.Seqid > 1 { // 0 is the latest (RFC 8881, 8.2.2)
		return nil
	}
	return o
}

// query answers OFFLOAD_STATUS.
func (q *copies) query(c *state.Client, sid *wire.Stateid4) (copied uint64, finished bool, st, result status) {
	q.mu.Lock()
	defer q.mu.Unlock()
	o := q.find(c, sid)
	if o == nil {
		return 0, false, wire.NFS4ERR_BAD_STATEID, ok
	}
	return o.copied, o.finished, ok, o.status
}

// cancel ends a copy; when it returns ok nothing is written any more.
func (q *copies) cancel(c *state.Client, sid *wire.Stateid4) status {
	q.mu.Lock()
	o := q.find(c, sid)
	if o == nil {
		q.mu.Unlock()
		return wire.NFS4ERR_BAD_STATEID
	}
	q.drop(o)
	q.mu.Unlock()
	t := time.NewTimer(copyCancelWait)
	defer t.Stop()
	select {
	case <-o.ended:
		return ok
	case <-t.C: // a slow disk; the client asks again
		return wire.NFS4ERR_DELAY
	}
}

// gone ends the copies of a client that is no more.
func (q *copies) gone(c *state.Client) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, o := range q.byNum {
		if o.client == c {
			q.drop(o)
		}
	}
}

// drop ends a copy, at once unless a piece of it is under way. The caller holds the lock.
func (q *copies) drop(o *offload) {
	o.cancelled = true
	if i := slices.Index(q.queue, o); i >= 0 {
		q.queue = slices.Delete(q.queue, i, i+1)
		o.finished = true
		close(o.ended)
	}
	if o.finished {
		q.remove(o)
	}
}

// close ends all copies, and waits for the pieces under way.
func (q *copies) close() {
	q.mu.Lock()
	q.closed = true
	for _, o := range q.byNum {
		q.drop(o)
	}
	q.mu.Unlock()
	q.done.Wait()
}
