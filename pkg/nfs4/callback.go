// Calls to clients: recalls of delegations, questions for attributes, notes on
// locks, and probes of the way there.
//
// Plan: pkg/state says what is to be sent and never waits. A client with a
// session is called over its own connections (rpc.Conn.Call), which needs no
// goroutine: CB_SEQUENCE and one operation, on a free slot of the back channel.
// A client of 4.0 is called at the address it gave (callback40.go). Every call
// has one result, told to state: that a callback failed is for state to deal
// with, by sending it again or taking back what was given.

package nfs4

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"sluice/pkg/state"
	"sluice/rpc"
	"sluice/xdr"
	wire "sluice/xdr/nfs4"
)

const (
	callbackTimeout = 10 * time.Second // for an answer
	probeDelay      = 50 * time.Millisecond
	maxProbeDelay   = time.Second
)

var (
	errNoPath  = errors.New("nfs4: no way to call the client")
	errBusy    = errors.New("nfs4: too many callbacks under way")
	errGarbled = errors.New("nfs4: the client's answer to a callback makes no sense")
)

// callbackError is what a client answered.
type callbackError wire.Nfsstat4

func (e callbackError) Error() string {
	return fmt.Sprintf("nfs4: the client answered a callback with %v", wire.Nfsstat4(e))
}

// Callbacks implements state.Callbacks. Attach must be called before the
// first client comes.
type Callbacks struct {
	log  zerolog.Logger
	st   *state.State
	cred rpc.Cred            // of callbacks to 4.0 clients
	gone func(*state.Client) // set by New, before the first client comes
	kept atomic.Int32        // connections to 4.0 clients

	mu     sync.Mutex
	conns  map[uint64]*rpc.Conn
	paths  map[*state.Client]*path40
	probes map[*state.Client]bool // under way; true: to be made again
	turns  turns40
}

// NewCallbacks makes the callback client, for state.Config.
func NewCallbacks(log zerolog.Logger) *Callbacks {
	host, err := os.Hostname()
	if err != nil {
		host = "sluice"
	}
	return &Callbacks{
		log: log, conns: map[uint64]*rpc.Conn{}, paths: map[*state.Client]*path40{},
		probes: map[*state.Client]bool{}, turns: turns40{peers: map[string]*peer40{}},
		cred: rpc.Cred{Flavor: rpc.FlavorSys, Machine: []byte(host)},
	}
}

// Attach says whom results are told.
func (b *Callbacks) Attach(st *state.State) { b.st = st }

// Connect notes a connection, for rpc.Config.OnConnect.
func (b *Callbacks) Connect(c *rpc.Conn) {
	b.mu.Lock()
	b.conns[c.ID()] = c
	b.mu.Unlock()
}

// Disconnect forgets it, and tells state, for rpc.Config.OnDisconnect.
func (b *Callbacks) Disconnect(c *rpc.Conn) {
	b.mu.Lock()
	delete(b.conns, c.ID())
	b.mu.Unlock()
	b.st.ConnClosed(c.ID())
}

// Close ends the connections to 4.0 clients.
func (b *Callbacks) Close() {
	b.mu.Lock()
	paths := b.paths
	b.paths = map[*state.Client]*path40{}
	clear(b.probes)
	for _, p := range b.turns.peers { // what waits for its turn
		p.calls, p.probes = nil, nil
	}
	b.mu.Unlock()
	for _, p := range paths {
		p.drop()
	}
}

// Recall implements state.Callbacks.
func (b *Callbacks) Recall(r state.Recall) {
	args := wire.CBRECALL4args{Stateid: putStateid(r.Stateid), Truncate: r.Truncate, Fh: r.FH}
	b.send(r.Client, wire.OP_CB_RECALL, &args, func(_ *xdr.Decoder, err error) { b.st.RecallDone(r, err) })
}

// Getattr implements state.Callbacks.
func (b *Callbacks) Getattr(r state.Recall) {
	args := wire.CBGETATTR4args{Fh: r.FH, AttrRequest: wire.Bits(wire.FATTR4_CHANGE, wire.FATTR4_SIZE)}
	b.send(r.Client, wire.OP_CB_GETATTR, &args, func(d *xdr.Decoder, err error) {
		var a state.DelegAttrs
		if err == nil {
			a, err = takeDelegAttrs(d)
		}
		b.st.DelegAttrsDone(r, a, err)
	})
}

// takeDelegAttrs reads the body of CB_GETATTR's result: change and size come first, and what follows was not asked for.
func takeDelegAttrs(d *xdr.Decoder) (a state.DelegAttrs, err error) {
	var f wire.Fattr4
	if f.Decode(d); d.Err() != nil {
		return a, errGarbled
	}
	var v xdr.Decoder
	v.Reset(f.AttrVals)
	if f.Attrmask.Words[0]&(1<<wire.FATTR4_CHANGE-1) != 0 {
		return a, errGarbled
	}
	if f.Attrmask.Has(wire.FATTR4_CHANGE) {
		a.HasChange, a.Change = true, v.Uint64()
	}
	if f.Attrmask.Has(wire.FATTR4_SIZE) {
		a.HasSize, a.Size = true, v.Uint64()
	}
	if v.Err() != nil {
		return state.DelegAttrs{}, errGarbled
	}
	return a, nil
}

// NotifyLock implements state.Callbacks. What becomes of it does not matter: the client asks again anyway.
func (b *Callbacks) NotifyLock(c *state.Client, fh []byte, owner []byte) {
	if c.Minor() == 0 {
		return
	}
	args := wire.CBNOTIFYLOCK4args{CnlaFh: fh, CnlaLockOwner: wire.StateOwner4{Clientid: uint64(c.ID()), Owner: owner}}
	b.send(c, wire.OP_CB_NOTIFY_LOCK, &args, func(*xdr.Decoder, error) {})
}

// offload tells a client that an asynchronous copy is done.
func (b *Callbacks) offload(c *state.Client, args *offloadNotice, done func(error)) {
	b.send(c, wire.OP_CB_OFFLOAD, args, func(_ *xdr.Decoder, err error) { done(err) })
}

// Probe implements state.Callbacks. A client has one probe at a time: what asks for more meanwhile, be it often, has one
// more made after it.
func (b *Callbacks) Probe(c *state.Client) {
	b.mu.Lock()
	_, again := b.probes[c]
	b.probes[c] = again
	b.mu.Unlock()
	if !again {
		b.probe(c)
	}
}

func (b *Callbacks) probe(c *state.Client) {
	if c.Minor() == 0 {
		b.probe40(c)
		return
	}
	b.probe41(c, probeDelay)
}

// probed tells the result of a probe, unless the path has been changed since it began.
func (b *Callbacks) probed(c *state.Client, up bool) {
	b.mu.Lock()
	again := b.probes[c]
	if again {
		b.probes[c] = false
	} else {
		delete(b.probes, c)
	}
	b.mu.Unlock()
	if again {
		b.probe(c)
		return
	}
	b.st.SetCallbackPath(c, up)
}

// probe41 sends CB_SEQUENCE alone. It waits a little first: what made the probe necessary is CREATE_SESSION or
// BIND_CONN_TO_SESSION, and a client does not know its session before the answer to that is there. It says so then, and is
// asked again.
func (b *Callbacks) probe41(c *state.Client, delay time.Duration) {
	time.AfterFunc(delay, func() {
		b.send41(c, 0, nil, true, func(_ *xdr.Decoder, err error) {
			if err == callbackError(wire.NFS4ERR_BADSESSION) && delay < maxProbeDelay {
				b.probe41(c, 4*delay)
				return
			}
			b.probed(c, err == nil)
		})
	})
}

// Gone implements state.Callbacks.
func (b *Callbacks) Gone(c *state.Client) {
	if b.gone != nil {
		b.gone(c)
	}
	b.mu.Lock()
	p := b.paths[c]
	delete(b.paths, c)
	delete(b.probes, c)
	b.mu.Unlock()
	if p != nil {
		go p.drop() // it may be in the middle of a call
	}
}

// send sends one operation. done gets the result behind its status; an operation that failed is a callbackError.
func (b *Callbacks) send(c *state.Client, num wire.NfsCbOpnum4, args rpc.Encodable, done func(*xdr.Decoder, error)) {
	finish := func(d *xdr.Decoder, err error) {
		var refused callbackError
		switch {
		case err == nil || errors.As(err, &refused):
		case err == errGarbled:
			b.st.SetCallbackFault(c)
		case err != errBusy:
			b.st.SetCallbackPath(c, false)
		}
		done(d, err)
	}
	if c.Minor() == 0 {
		b.send40(c, num, args, finish)
		return
	}
	b.send41(c, num, args, true, finish)
}

// cbScript is a CB_COMPOUND of at most two operations.
type cbScript struct {
	minor, ident uint32
	seq          *wire.CBSEQUENCE4args
	num          wire.NfsCbOpnum4 // 0: none
	args         rpc.Encodable
}

// Encode implements rpc.Encodable.
func (s *cbScript) Encode(e *xdr.Encoder) {
	h := wire.CBCOMPOUND4args{Minorversion: s.minor, CallbackIdent: s.ident}
	if s.seq != nil {
		h.Argarray++
	}
	if s.num != 0 {
		h.Argarray++
	}
	h.Encode(e)
	if s.seq != nil {
		e.Uint32(uint32(wire.OP_CB_SEQUENCE))
		s.seq.Encode(e)
	}
	if s.num != 0 {
		e.Uint32(uint32(s.num))
		s.args.Encode(e)
	}
}

// cbReply takes an answer apart: what CB_SEQUENCE said, and what the operation did.
type cbReply struct {
	s    *cbScript
	seq  wire.Nfsstat4
	err  error
	body xdr.Decoder // of the operation, behind its status
}

// Decode implements rpc.Decodable.
func (r *cbReply) Decode(d *xdr.Decoder) {
	r.err = errGarbled
	var h wire.CBCOMPOUND4res
	if h.Decode(d); d.Err() != nil {
		return
	}
	r.seq = h.Status // when there is no result at all
	if r.s.seq != nil {
		if h.Resarray == 0 {
			if h.Status != wire.NFS4_OK {
				r.err = callbackError(h.Status)
			}
			return
		}
		num := wire.NfsCbOpnum4(d.Int32())
		var res wire.CBSEQUENCE4res
		res.Decode(d)
		if d.Err() != nil || num != wire.OP_CB_SEQUENCE {
			return
		}
		h.Resarray--
		if r.seq = res.CsrStatus; r.seq != wire.NFS4_OK {
			r.err = callbackError(r.seq)
			return
		}
		if ok := &res.CsrResok4; ok.CsrSessionid != r.s.seq.CsaSessionid || ok.CsrSequenceid != r.s.seq.CsaSequenceid || ok.CsrSlotid != r.s.seq.CsaSlotid {
			return
		}
	}
	if r.s.num == 0 {
		r.err = nil
		return
	}
	if h.Resarray == 0 {
		if h.Status != wire.NFS4_OK {
			r.err = callbackError(h.Status)
		}
		return
	}
	num, st := wire.NfsCbOpnum4(d.Int32()), wire.Nfsstat4(d.Int32())
	if d.Err() != nil || num != r.s.num && num != wire.OP_CB_ILLEGAL {
		return
	}
	if r.err = nil; st != wire.NFS4_OK {
		r.err = callbackError(st)
	}
	r.body = *d
	d.Next(d.Len())
}

// send41 sends over the client's session. num 0 is a probe. again: it may be sent once more on a slot that was out of step.
func (b *Callbacks) send41(c *state.Client, num wire.NfsCbOpnum4, args rpc.Encodable, again bool, done func(*xdr.Decoder, error)) {
	sess := c.BackSession()
	if sess == nil {
		done(nil, errNoPath)
		return
	}
	slot, seq, highest, free := sess.CBAcquire()
	if !free {
		done(nil, errBusy)
		return
	}
	s := &cbScript{minor: uint32(sess.Minor()), num: num, args: args,
		seq: &wire.CBSEQUENCE4args{CsaSessionid: wire.Sessionid4(sess.ID()), CsaSequenceid: seq, CsaSlotid: slot, CsaHighestSlotid: highest}}
	if r, ok := args.(interface {
		referring() []wire.ReferringCallList4
	}); ok {
		s.seq.CsaReferringCallLists = r.referring()
	}
	sec := sess.CBSec()
	cred := rpc.Cred{Flavor: sec.Flavor, UID: sec.UID, GID: sec.GID, Groups: sec.Groups, Machine: []byte(sec.Machine)}

	// The connections to try, one after the other: a request whose connection broke goes again over the next, on its slot.
	ids := sess.BackConns(nil)
	var try func(lost error)
	try = func(lost error) {
		for len(ids) > 0 {
			b.mu.Lock()
			conn := b.conns[ids[0]]
			b.mu.Unlock()
			ids = ids[1:]
			if conn == nil {
				continue
			}
			err := conn.Call(sess.CBProgram(), wire.NFS_CB, wire.CB_COMPOUND, &cred, s, callbackTimeout, func(reply []byte, err error) {
				if err == rpc.ErrBackClosed {
					try(err)
					return
				}
				r := cbReply{s: s, err: err}
				if err == nil {
					if err := rpc.DecodeReply(reply, &r); err != nil && r.err == nil {
						r.err = err // the program is not there, or the credential was not taken
					}
				}
				b.answered(c, sess, slot, &r, again, done)
			})
			if err == nil {
				return
			}
			lost = err
		}
		if lost == nil {
			lost = errNoPath
		}
		sess.CBRelease(slot, false)
		done(nil, lost)
	}
	try(nil)
}

// answered frees the slot and hands the result on.
func (b *Callbacks) answered(c *state.Client, sess *state.Session, slot uint32, r *cbReply, again bool, done func(*xdr.Decoder, error)) {
	switch {
	case r.err == nil:
		sess.CBRelease(slot, true)
	case r.seq == wire.NFS4ERR_SEQ_MISORDERED:
		sess.CBResync(slot)
		sess.CBRelease(slot, false)
		if again {
			b.send41(c, r.s.num, r.s.args, false, done)
			return
		}
	default:
		// That the client took the request, it says by an answer to it, or by not having kept one.
		_, refused := r.err.(callbackError)
		sess.CBRelease(slot, refused && r.seq == wire.NFS4_OK || r.seq == wire.NFS4ERR_RETRY_UNCACHED_REP)
	}
	done(&r.body, r.err)
}
