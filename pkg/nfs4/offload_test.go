package nfs4

import (
	"bytes"
	"crypto/rand"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"sluice/pkg/state"
	"sluice/rpc"
	wire "sluice/xdr/nfs4"
)

// copier is a client with a source and a target open.
type copier struct {
	*session
	srcFH, dstFH   []byte
	srcSid, dstSid wire.Stateid4
}

func newCopier(s *testServer, name, src, dst string) *copier {
	c := &copier{session: s.session(2, name)}
	_, o, fh := c.open(src, wire.OPEN4_SHARE_ACCESS_READ)
	c.srcFH, c.srcSid = fh, o.Stateid
	_, o, fh = c.open(dst, wire.OPEN4_SHARE_ACCESS_BOTH)
	c.dstFH, c.dstSid = fh, o.Stateid
	return c
}

// copy sends COPY.
func (c *copier) copy(a wire.COPY4args, want wire.Nfsstat4) wire.COPY4resok {
	t := c.s.t
	t.Helper()
	a.CaSrcStateid, a.CaDstStateid, a.CaConsecutive = c.srcSid, c.dstSid, true
	r := c.compound(putfh(c.srcFH), op{wire.OP_SAVEFH, nil}, putfh(c.dstFH), op{wire.OP_COPY, &a})
	skipTo(t, r, wire.OP_PUTFH, wire.OP_SAVEFH, wire.OP_PUTFH)
	if want != ok {
		r.next(t, wire.OP_COPY, want, nil)
		return wire.COPY4resok{}
	}
	var res wire.COPY4res
	r.next(t, wire.OP_COPY, ok, &res)
	return res.CrResok4
}

// later sends an asynchronous COPY of all, and gives its stateid.
func (c *copier) later() wire.Stateid4 {
	t := c.s.t
	t.Helper()
	res := c.copy(wire.COPY4args{}, ok)
	if len(res.CrResponse.WrCallbackId) != 1 || res.CrRequirements.CrSynchronous || res.CrResponse.WrCount != 0 {
		t.Fatalf("not asynchronous: %+v", res)
	}
	return res.CrResponse.WrCallbackId[0]
}

func (x *session) offloadStatus(fh []byte, sid wire.Stateid4, want wire.Nfsstat4) wire.OFFLOADSTATUS4resok {
	t := x.s.t
	t.Helper()
	r := x.compound(putfh(fh), op{wire.OP_OFFLOAD_STATUS, &wire.OFFLOADSTATUS4args{OsaStateid: sid}})
	skipTo(t, r, wire.OP_PUTFH)
	if want != ok {
		r.next(t, wire.OP_OFFLOAD_STATUS, want, nil)
		return wire.OFFLOADSTATUS4resok{}
	}
	var res wire.OFFLOADSTATUS4res
	r.next(t, wire.OP_OFFLOAD_STATUS, ok, &res)
	return res.OsrResok4
}

func (x *session) offloadCancel(fh []byte, sid wire.Stateid4, want wire.Nfsstat4) {
	t := x.s.t
	t.Helper()
	r := x.compound(putfh(fh), op{wire.OP_OFFLOAD_CANCEL, &wire.OFFLOADCANCEL4args{OcaStateid: sid}})
	skipTo(t, r, wire.OP_PUTFH)
	r.next(t, wire.OP_OFFLOAD_CANCEL, want, nil)
}

// offloaded waits for CB_OFFLOAD, and answers it.
func (x *session) offloaded(answer wire.Nfsstat4) wire.CBOFFLOAD4args {
	t := x.s.t
	t.Helper()
	for {
		cb := serveCallback(t, x.nc, answer, nil)
		if cb.num == 0 {
			continue // the probe
		}
		var args wire.CBOFFLOAD4args
		args.Decode(&cb.args)
		if l := cb.calls; len(l) != 1 || l[0].RclSessionid != x.id || len(l[0].RclReferringCalls) != 1 || l[0].RclReferringCalls[0].RcSequenceid > x.seq {
			t.Errorf("CB_OFFLOAD refers to %+v", l)
		}
		if cb.num != wire.OP_CB_OFFLOAD || cb.args.Err() != nil {
			t.Fatalf("callback %v", cb.num)
		}
		return args
	}
}

// idle keeps workers from copying; the result lets them.
func (s *testServer) idle() (release func()) {
	q := &s.svc.copies
	q.mu.Lock()
	q.workers += maxCopyWorkers
	q.mu.Unlock()
	return func() {
		q.mu.Lock()
		defer q.mu.Unlock()
		q.workers -= maxCopyWorkers
		for range min(len(q.queue), maxCopyWorkers) {
			o := q.queue[0]
			q.queue = q.queue[1:]
			q.push(o)
		}
	}
}

func randomFile(t testing.TB, path string, size int) []byte {
	t.Helper()
	b := make([]byte, size)
	rand.Read(b) //nolint:errcheck // never fails
	must(t, os.WriteFile(path, b, 0o644))
	return b
}

// An asynchronous copy of several pieces: the answer comes first, CB_OFFLOAD tells of the end, OFFLOAD_STATUS knows of it,
// and the data is there.
func TestCopyAsynchronous(t *testing.T) {
	s := startServer(t)
	data := randomFile(t, filepath.Join(s.dir, "src"), 2*copyPiece+12345)
	c := newCopier(s, "a", "src", "dst")
	other := newCopier(s, "b", "src", "dst2")
	release := s.idle()
	sid := c.later()
	if st := c.offloadStatus(c.dstFH, sid, ok); st.OsrCount != 0 || len(st.OsrComplete) != 0 {
		t.Errorf("OFFLOAD_STATUS before it began: %+v", st)
	}
	other.offloadStatus(c.dstFH, sid, wire.NFS4ERR_BAD_STATEID)
	other.offloadCancel(c.dstFH, sid, wire.NFS4ERR_BAD_STATEID)
	c.offloadStatus(c.dstFH, c.dstSid, wire.NFS4ERR_BAD_STATEID)
	release()
	cb := c.offloaded(ok)
	res := cb.CoaOffloadInfo.CoaResok4
	if cb.CoaStateid != sid || !bytes.Equal(cb.CoaFh, c.dstFH) || cb.CoaOffloadInfo.CoaStatus != ok || res.WrCount != uint64(len(data)) ||
		res.WrCommitted != wire.FILE_SYNC4 || len(res.WrCallbackId) != 0 || res.WrWriteverf == (wire.Verifier4{}) {
		t.Errorf("CB_OFFLOAD: %+v", cb)
	}
	got, err := os.ReadFile(filepath.Join(s.dir, "dst"))
	must(t, err)
	if !bytes.Equal(got, data) {
		t.Error("the copy differs")
	}
	if st := c.offloadStatus(c.dstFH, sid, ok); st.OsrCount != uint64(len(data)) || len(st.OsrComplete) != 1 || st.OsrComplete[0] != ok {
		t.Errorf("OFFLOAD_STATUS afterwards: %+v", st)
	}
	c.offloadCancel(c.dstFH, sid, ok)
	c.offloadStatus(c.dstFH, sid, wire.NFS4ERR_BAD_STATEID)

	// What is asked to be done at once is, and so is what there is nothing to do for.
	if res := c.copy(wire.COPY4args{CaSrcOffset: 5, CaCount: 1000, CaSynchronous: true}, ok); res.CrResponse.WrCount != 1000 || !res.CrRequirements.CrSynchronous {
		t.Errorf("synchronous: %+v", res)
	}
	if res := c.copy(wire.COPY4args{CaSrcOffset: 1 << 40, CaCount: 1000}, ok); res.CrResponse.WrCount != 0 || len(res.CrResponse.WrCallbackId) != 0 {
		t.Errorf("from past the end: %+v", res)
	}
	if got, _ := os.ReadFile(filepath.Join(s.dir, "dst")); !bytes.Equal(got[:1000], data[5:1005]) {
		t.Error("the synchronous copy differs")
	}
	c.copy(wire.COPY4args{CaDstOffset: 1<<64 - 10, CaCount: 1000}, wire.NFS4ERR_FBIG)
	c.dstFH, c.dstSid = c.srcFH, c.srcSid
	c.copy(wire.COPY4args{}, wire.NFS4ERR_OPENMODE)
	_, o, fh := c.open("dst", wire.OPEN4_SHARE_ACCESS_BOTH)
	c.srcFH, c.srcSid, c.dstFH, c.dstSid = fh, o.Stateid, fh, o.Stateid
	c.copy(wire.COPY4args{CaDstOffset: 100}, wire.NFS4ERR_INVAL)
}

// A copy that is cancelled writes nothing more, and nobody is told of it.
func TestCopyCancelled(t *testing.T) {
	s := startServer(t)
	randomFile(t, filepath.Join(s.dir, "src"), 1<<20)
	c := newCopier(s, "a", "src", "dst")
	release := s.idle()
	first, second := c.later(), c.later()
	c.offloadCancel(c.dstFH, first, ok)
	c.offloadStatus(c.dstFH, first, wire.NFS4ERR_BAD_STATEID)
	c.offloadCancel(c.dstFH, first, wire.NFS4ERR_BAD_STATEID)
	release()
	if cb := c.offloaded(ok); cb.CoaStateid != second {
		t.Errorf("CB_OFFLOAD for %+v", cb.CoaStateid)
	}
}

// Copies are bounded: one too many is done at once. They go with their client.
func TestCopyLimits(t *testing.T) {
	s := startServer(t)
	data := randomFile(t, filepath.Join(s.dir, "src"), 100_000)
	c := newCopier(s, "a", "src", "dst")
	release := s.idle()
	defer release()
	for range maxClientCopies {
		c.later()
	}
	if res := c.copy(wire.COPY4args{}, ok); !res.CrRequirements.CrSynchronous || res.CrResponse.WrCount != uint64(len(data)) {
		t.Errorf("one too many: %+v", res)
	}
	if n := s.copies(); n != maxClientCopies {
		t.Errorf("%d copies", n)
	}
	sids := len(s.svc.copies.queue)
	must(t, s.st.ExpireClient(s.st.Clients()[0].ID))
	if n := s.copies(); n != 0 || sids != maxClientCopies || len(s.svc.copies.queue) != 0 {
		t.Errorf("%d copies of a client that is gone, %d queued", n, len(s.svc.copies.queue))
	}
}

func (s *testServer) copies() int {
	s.svc.copies.mu.Lock()
	defer s.svc.copies.mu.Unlock()
	return len(s.svc.copies.byNum)
}

// Finished copies are known for a while, and make room for new ones before that.
func TestCopyForgotten(t *testing.T) {
	s := startServer(t)
	randomFile(t, filepath.Join(s.dir, "src"), 1000)
	c := newCopier(s, "a", "src", "dst")
	first := c.later()
	c.offloaded(ok)
	for range maxClientCopies {
		c.later()
		c.offloaded(ok)
	}
	c.offloadStatus(c.dstFH, first, wire.NFS4ERR_BAD_STATEID)
	if n := s.copies(); n != maxClientCopies {
		t.Errorf("%d copies are known", n)
	}
	s.svc.copies.mu.Lock()
	s.svc.copies.keep = time.Millisecond
	s.svc.copies.mu.Unlock()
	sid := c.later()
	c.offloaded(ok)
	for try := 0; s.copies() == maxClientCopies; try++ {
		if try == 1000 {
			t.Fatal("a copy is never forgotten")
		}
		time.Sleep(5 * time.Millisecond)
	}
	c.offloadStatus(c.dstFH, sid, wire.NFS4ERR_BAD_STATEID)
}

// CB_OFFLOAD is sent again when the client asks for that; a copy that fails says how.
func TestCopyTold(t *testing.T) {
	s := startServer(t)
	randomFile(t, filepath.Join(s.dir, "src"), 1000)
	c := newCopier(s, "a", "src", "dst")
	sid := c.later()
	for _, answer := range []wire.Nfsstat4{wire.NFS4ERR_DELAY, ok} {
		if cb := c.offloaded(answer); cb.CoaStateid != sid {
			t.Errorf("CB_OFFLOAD for %+v", cb.CoaStateid)
		}
	}
	release := s.idle()
	sid = c.later()
	must(t, os.Chmod(filepath.Join(s.dir, "src"), 0))
	q := &s.svc.copies
	q.mu.Lock()
	for _, o := range q.queue { // as if by somebody who is not root
		o.caller.Cred.UID, o.caller.Cred.GID = 1000, 1000
		o.srcSid.Other[11]++
	}
	q.mu.Unlock()
	release()
	cb := c.offloaded(ok)
	if cb.CoaStateid != sid || cb.CoaOffloadInfo.CoaStatus != wire.NFS4ERR_ACCESS || cb.CoaOffloadInfo.CoaBytesCopied != 0 {
		t.Errorf("CB_OFFLOAD of a failure: %+v", cb)
	}
	if st := c.offloadStatus(c.dstFH, sid, ok); fmt.Sprint(st.OsrComplete) != fmt.Sprint([]wire.Nfsstat4{wire.NFS4ERR_ACCESS}) {
		t.Errorf("OFFLOAD_STATUS of a failure: %+v", st)
	}
}

// Without a way to tell the client, the copy is made at once.
func TestCopyWithoutBackChannel(t *testing.T) {
	s := startServer(t)
	randomFile(t, filepath.Join(s.dir, "src"), 1000)
	c := newCopier(s, "a", "src", "dst")
	s.st.ConnClosed(s.lastConn())
	if res := c.copy(wire.COPY4args{}, ok); !res.CrRequirements.CrSynchronous || res.CrResponse.WrCount != 1000 {
		t.Errorf("COPY: %+v", res)
	}
}

// lastConn is the id of the newest connection.
func (s *testServer) lastConn() (id uint64) {
	s.cb.mu.Lock()
	defer s.cb.mu.Unlock()
	for n := range s.cb.conns {
		id = max(id, n)
	}
	return id
}

// The end of the service is the end of its copies, and it takes no more on.
func TestCopyStopped(t *testing.T) {
	s := startServer(t)
	data := randomFile(t, filepath.Join(s.dir, "src"), 4*copyPiece)
	c := newCopier(s, "a", "src", "dst")
	for range 8 {
		c.later()
	}
	s.svc.Close()
	if n := s.copies(); n != 0 {
		t.Errorf("%d copies after the end", n)
	}
	path := filepath.Join(s.dir, "dst")
	must(t, os.Truncate(path, 0))
	time.Sleep(2 * copyRetry) // whoever waited to go on
	if st, err := os.Stat(path); err != nil || st.Size() != 0 {
		t.Errorf("somebody still writes: %d, %v", st.Size(), err)
	}
	if res := c.copy(wire.COPY4args{CaCount: 10_000}, ok); !res.CrRequirements.CrSynchronous || res.CrResponse.WrCount != 10_000 {
		t.Errorf("after the end: %+v", res)
	}
	if got, _ := os.ReadFile(path); !bytes.Equal(got, data[:10_000]) {
		t.Error("the copy differs")
	}
}

// Peers take turns, and none has all copies.
func TestCopyTurns(t *testing.T) {
	s := startServer(t)
	client := func(from, name string) *state.Client {
		x := &session{conn: s.connAt(from)}
		x.minor = 2
		x.start(name)
		var c *state.Client
		s.run(x.conn, func(*rpc.Call) {
			var call state.Call
			call.Minor, call.Conn, call.Principal = 2, 1, state.Principal{Flavor: rpc.FlavorSys}
			_, err := s.st.Sequence(&call, &state.SequenceArgs{SessionID: state.SessionID(x.id), Sequence: 1, Slot: 1, HighestSlot: 1, Ops: 2})
			must(t, err)
			c = call.Client
			s.st.SequenceDone(&call, nil)
		})
		return c
	}
	a, b, other := client("127.0.0.1", "a"), client("127.0.0.1", "b"), client("127.0.0.2", "other")
	q := &copies{served: map[string]uint64{}}
	for _, c := range []*state.Client{a, a, a, b, other, other, b} {
		q.queue = append(q.queue, &offload{client: c})
	}
	var got string
	for len(q.queue) > 0 {
		got += string(q.next().client.Owner()[:1])
	}
	if got != "aoaoabb" {
		t.Errorf("turns are %s", got)
	}
	q.byNum = map[uint32]*offload{}
	for i := range uint32(maxCopies / 2) {
		q.byNum[i] = &offload{client: b}
	}
	if q.makeRoom(a) || !q.makeRoom(other) {
		t.Error("a peer with half of all copies has room for more, or another has none")
	}
}
