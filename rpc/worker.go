// What service threads and slow threads share: running one call from its
// header to its encoded reply.

package rpc

import (
	"sync/atomic"

	"sluice/xdr"
)

// incoming is one call on its way through a thread.
type incoming struct {
	body  []byte
	buf   *buffer // owns body, or nil when that lies in a read buffer
	head  header
	proc  *Proc // nil when stat says why
	stat  uint32
	low   uint32 // with acceptProgMismatch
	high  uint32
	cache cacheRef // set once the call has its place in the reply cache
	taken bool     // see Call.Take
	group int      // calls of one caller, within a burst
}

// worker is the state of a thread that runs procedures.
type worker struct {
	Thread
	srv   *Server
	call  Call
	enc   xdr.Encoder
	out   []byte // the encoder's buffer
	snd   sender
	ahead ahead
	lost  bool // a client sent something that is neither a call nor an answer

	ncalls, nbytesIn, nbytesOut atomic.Uint64 // written by this thread alone
}

func (w *worker) init(s *Server, out int) {
	w.srv = s
	w.ID = s.nextThread.Add(1) - 1
	w.out = make([]byte, 0, out)
	w.enc.Reset(w.out)
	w.call.Thread, w.call.Reply, w.call.worker = &w.Thread, &w.enc, w
	if s.cfg.NewLocal != nil {
		w.Local = s.cfg.NewLocal()
	}
}

func (w *worker) end() {
	if w.srv.cfg.CloseLocal != nil {
		w.srv.cfg.CloseLocal(w.Local)
	}
	w.srv.retire(w)
}

// flush sends the replies encoded so far and returns how much the connection
// has queued.
func (w *worker) flush(c *Conn) int {
	queued := c.transmit(&w.snd, &w.enc)
	// A reply that outgrew the buffer leaves a larger one, worth keeping if
	// it is not huge.
	if b := w.enc.Bytes(); cap(b) > cap(w.out) && cap(b) <= maxOut {
		w.out = b[:0]
	}
	w.enc.Reset(w.out)
	return queued
}

// look decodes the header and finds the procedure.
func (s *Server) look(p *incoming) {
	h := &p.head
	h.decode(p.body)
	p.proc, p.stat = nil, acceptSuccess
	if h.fault == faultNotCall || h.fault == faultReply || h.fault == faultRPCMismatch {
		return
	}
	for i := range s.cfg.Programs {
		prog := &s.cfg.Programs[i]
		if prog.Prog != h.prog {
			continue
		}
		p.low, p.high = ^uint32(0), 0
		for j := range prog.Versions {
			v := &prog.Versions[j]
			p.low, p.high = min(p.low, v.Vers), max(p.high, v.Vers)
			if v.Vers != h.vers {
				continue
			}
			if h.proc == 0 {
				p.proc = &null
			} else if h.proc < uint32(len(v.Procs)) && v.Procs[h.proc].Run != nil {
				p.proc = &v.Procs[h.proc]
			} else {
				p.stat = acceptProcUnavail
			}
			return
		}
		p.stat = acceptProgMismatch
		return
	}
	p.stat = acceptProgUnavail
}

// null is procedure 0 of every version (RFC 5531, 12.1). It needs no more than
// AUTH_NONE, but what is malformed, or of a flavour that is not served, is
// refused even here, as Linux does: RPCSEC_GSS and AUTH_TLS negotiate by NULL,
// and would misread a plain success.
var null = Proc{Name: "NULL", Run: func(*Call) Verdict { return Done }}

// run serves one call and appends its reply to w.enc. It returns true, and
// appends nothing, when the call must move to a slow thread.
func (w *worker) run(c *Conn, p *incoming, arrived int64, mayBlock bool) (move bool) {
	e, h := &w.enc, &p.head
	start, at, before, payloads := e.Mark(), len(e.Bytes()), e.Len(), len(e.Segments())
	switch h.fault {
	case faultNotCall: // it was held, and nobody has looked at it before
		w.lost = true
		return false
	case faultReply:
		if !c.answered(h.xid, p.body) {
			c.mu.Lock()
			c.eof = true // read no more, send what is due, close
			c.mu.Unlock()
		}
		return false
	}
	if h.fault != faultNone || p.proc == nil {
		w.refuse(p)
		seal(e, at, e.Len()-before-4)
		w.count(len(p.body), e.Len()-before)
		return false
	}
	if p.proc.Slow && !mayBlock {
		return true
	}
	if p.cache.cache == nil && p.proc.caches(p.body[h.args:]) {
		cache := w.srv.cache(p.proc)
		key := cache.key(c, h, p.body)
		answer, ref := cache.begin(c, &key, arrived, e)
		switch answer {
		case answerReplay:
			w.count(len(p.body), e.Len()-before)
			return false
		case answerDropped:
			w.count(len(p.body), 0)
			return false
		}
		p.cache = ref
	}

	call := &w.call
	call.XID, call.Prog, call.Vers, call.Proc = h.xid, h.prog, h.vers, h.proc
	h.setCred(call)
	call.Args.Reset(p.body[h.args:])
	if call.Conn = c; c != nil {
		call.peer = c.peer
	}
	call.MayBlock = mayBlock
	call.in, call.Taken = p, p.taken
	call.Now = arrived
	call.AuthStat = AuthOK
	accepted(e, h.xid, acceptSuccess)
	verdict := p.proc.Run(call)
	if verdict == WouldBlock && !mayBlock {
		e.Rollback(start)
		return true
	}
	if verdict == Done && e.Err() != nil {
		w.srv.logEncode(p.proc, e.Err())
		verdict = SystemErr
	}
	keep := false
	switch verdict {
	case Done:
		keep = len(e.Segments()) == payloads
	case Drop:
		e.Rollback(start)
	case GarbageArgs:
		e.Rollback(start)
		accepted(e, h.xid, acceptGarbageArgs)
		w.srv.reject(ReasonGarbageArgs)
	case AuthError:
		e.Rollback(start)
		denied(e, h.xid, rejectAuthError, uint32(call.AuthStat))
		w.srv.reject(ReasonAuth)
	default:
		e.Rollback(start)
		accepted(e, h.xid, acceptSystemErr)
		w.srv.reject(ReasonSystemErr)
	}
	length := e.Len() - before
	if length > 0 {
		seal(e, at, length-4)
	}
	if p.cache.cache != nil {
		w.settle(c, p, e.Bytes()[at:], keep)
	}
	w.count(len(p.body), length)
	if o := w.srv.cfg.Observer; o != nil {
		o.Call(call, w.srv.Now()-arrived, len(p.body)+4, length)
	}
	return false
}

// settle ends a call's time in the reply cache as running.
func (w *worker) settle(c *Conn, p *incoming, reply []byte, keep bool) {
	ref := p.cache
	p.cache = cacheRef{}
	if !keep || len(reply) > MaxCachedReply {
		ref.forget()
		return
	}
	for _, other := range ref.finish(reply, w.srv.Now()) {
		if other != c {
			var e xdr.Encoder
			e.Reset(append([]byte(nil), reply...))
			other.transmit(new(sender), &e)
		}
	}
}

func (w *worker) count(in, out int) {
	w.ncalls.Store(w.ncalls.Load() + 1)
	w.nbytesIn.Store(w.nbytesIn.Load() + uint64(in) + 4)
	w.nbytesOut.Store(w.nbytesOut.Load() + uint64(out))
}

// refuse appends the reply to a call that reaches no procedure.
func (w *worker) refuse(p *incoming) {
	e, h := &w.enc, &p.head
	switch h.fault {
	case faultRPCMismatch:
		denied(e, h.xid, rejectRPCMismatch, rpcVersion, rpcVersion)
		w.srv.reject(ReasonRPCMismatch)
		return
	case faultBadCred, faultFlavor:
		denied(e, h.xid, rejectAuthError, uint32(AuthBadCred))
		w.srv.reject(ReasonAuth)
		return
	case faultBadVerf:
		denied(e, h.xid, rejectAuthError, uint32(AuthBadVerf))
		w.srv.reject(ReasonAuth)
		return
	}
	accepted(e, h.xid, p.stat)
	switch p.stat {
	case acceptProgMismatch:
		e.Uint32(p.low)
		e.Uint32(p.high)
		w.srv.reject(ReasonProgMismatch)
	case acceptProgUnavail:
		w.srv.reject(ReasonProgUnavail)
	default:
		w.srv.reject(ReasonProcUnavail)
	}
}
