// Sessions: CREATE_SESSION (RFC 8881 18.36), DESTROY_SESSION (18.37), channel limits, and the memory behind their slots.

package state

import (
	"crypto/rand"
	"encoding/binary"
	"sync"
	"sync/atomic"
)

// Session is a session. Its methods may be called from any goroutine.
type Session struct {
	s      *State
	id     SessionID
	client *Client
	minor  uint8        // of CREATE_SESSION, and so of callbacks
	fore   ChannelAttrs // MaxRequests is what CREATE_SESSION answered; the table may grow and shrink
	back   ChannelAttrs

	lastConn atomic.Uint64 // a connection that is bound: spares SEQUENCE the look

	mu sync.Mutex
	// Under mu.
	slots     []*slot
	target    int    // how many slots the client is asked to keep to
	targets   uint32 // how often that was changed
	inflight  int
	dead      bool
	reserved  int64              // bytes
	perSlot   int64              // of those, a slot's; never changes
	conns     map[uint64]BindDir // BindFore, BindBack or both
	nback     int
	cbProgram uint32
	cbSec     CBSec
	cbSlots   []cbSlot
}

// createSlot is the slot of CREATE_SESSION that a client record has (RFC 8881 2.10.6.1... 18.36.4).
type createSlot struct {
	seq  uint32
	done bool // res is the answer to seq
	res  CreateSessionRes
}

// Smallest channels that can carry anything: an RPC header, a COMPOUND header, and SEQUENCE; for the back channel
// CB_SEQUENCE and CB_RECALL with the largest handle.
const (
	minRequest      = 88
	minResponse     = 80
	minBackRequest  = 400
	minBackResponse = 128
	maxBackSlots    = 16
)

// ID returns the session id.
func (s *Session) ID() SessionID { return s.id }

// Client returns whose session it is.
func (s *Session) Client() *Client { return s.client }

// Minor returns the minor version that the session was made in: callbacks use the same.
func (s *Session) Minor() uint8 { return s.minor }

// Fore returns the fore channel's limits, as CREATE_SESSION answered them.
func (s *Session) Fore() ChannelAttrs { return s.fore }

// Back returns the back channel's limits.
func (s *Session) Back() ChannelAttrs { return s.back }

// CreateSession makes a session, and confirms the client if that is still to be done. A replay gets the first answer again.
func (s *State) CreateSession(call *Call, a *CreateSessionArgs) (CreateSessionRes, error) {
	if a.Flags&^(SessionPersist|SessionConnBack|SessionConnRDMA) != 0 {
		return CreateSessionRes{}, ErrInval
	}
	sec, err := chooseCBSec(a.CBSec)
	if err != nil {
		return CreateSessionRes{}, err
	}
	fore, err := s.foreAttrs(a.Fore)
	if err != nil {
		return CreateSessionRes{}, err
	}
	back, err := backAttrs(a.Back)
	if err != nil {
		return CreateSessionRes{}, err
	}
	for {
		res, old, err := s.createSession(call, a, fore, back, sec)
		if old == nil {
			return res, err
		}
		if err := s.replace(old, call, endRestart); err != nil {
			return CreateSessionRes{}, err
		}
	}
}

// createSession gives a record that must go first, if there is one.
func (s *State) createSession(call *Call, a *CreateSessionArgs, fore, back ChannelAttrs, sec CBSec) (res CreateSessionRes, old *Client, err error) {
	now := s.enter()
	defer s.leave()
	c, unconf := s.find(a.ClientID)
	if c == nil {
		c = unconf
	}
	if c == nil || c.minor == 0 {
		return res, nil, ErrStaleClientID
	}
	if c.expiring.Load() {
		return res, nil, ErrDelay
	}
	switch a.Sequence {
	case c.create.seq + 1:
	case c.create.seq:
		if c.create.done {
			s.counts.replays.Add(1)
			return c.create.res, nil, nil
		}
		return res, nil, ErrSeqMisordered // nothing to replay yet: RFC 8881 18.36.4 has it contrived
	default:
		return res, nil, ErrSeqMisordered
	}
	if !c.isConfirmed && c.cred != call.Principal {
		return res, nil, ErrClientInUse
	}
	if c.machCred && !call.Integrity {
		return res, nil, ErrWrongCred
	}
	if len(c.sessions) >= s.cfg.MaxSessions {
		return res, nil, ErrNoSpace
	}
	if !c.isConfirmed {
		if old := s.confirmed[c.owner]; old != nil {
			return res, old, nil // the client's life before its restart (case 5 of EXCHANGE_ID)
		}
	}
	if s.reserved.Load() > s.cfg.MaxReplyCache/4*3 {
		s.shrinkSlots()
	}
	sess := &Session{s: s, client: c, minor: call.Minor, back: back, cbProgram: a.CBProgram, cbSec: sec, conns: map[uint64]BindDir{}}
	if !sess.reserve(&fore) {
		s.short(now, c.peer)
		return res, nil, ErrDelay
	}
	sess.fore = fore
	sess.cbSlots = make([]cbSlot, back.MaxRequests)
	if !c.isConfirmed {
		s.confirmClient(c, now)
	}
	c.renew(now)
	c.create.seq = a.Sequence
	sess.id = s.newSessionID()
	res = CreateSessionRes{SessionID: sess.id, Sequence: a.Sequence, Fore: fore, Back: back}
	dir := BindFore
	if a.Flags&SessionConnBack != 0 {
		res.Flags |= SessionConnBack
		dir |= BindBack
	}
	c.create.res, c.create.done = res, true
	c.sessions[sess.id] = sess
	s.sessions.put(sess)
	sess.bind(call.Conn, dir)
	if dir&BindBack != 0 {
		s.probe(c)
	}
	return res, nil, nil
}

// newSessionID gives an id that is not to be guessed, since whoever has it may use the session, and not used twice: random,
// counter.
func (s *State) newSessionID() (id SessionID) {
	if _, err := rand.Read(id[:12]); err != nil {
		panic("state: no randomness: " + err.Error())
	}
	binary.BigEndian.PutUint32(id[12:], s.lastSession.Add(1))
	return id
}

// chooseCBSec takes the first way to identify in callbacks that the server has. None given is taken for AUTH_NONE, and
// GSS alone refused with an error that the RFC does not list, both as Linux does.
func chooseCBSec(list []CBSec) (CBSec, error) {
	if len(list) == 0 {
		return CBSec{}, nil
	}
	for _, s := range list {
		if s.Flavor <= 1 {
			s.Groups = append([]uint32(nil), s.Groups...)
			return s, nil
		}
	}
	return CBSec{}, ErrEncrAlg
}

// foreAttrs cuts what the client asks of the fore channel down to what there is.
func (s *State) foreAttrs(a ChannelAttrs) (ChannelAttrs, error) {
	if a.MaxRequest < minRequest || a.MaxResponse < minResponse {
		return a, ErrTooSmall
	}
	return ChannelAttrs{
		MaxRequest:        min(a.MaxRequest, s.cfg.MaxRequest),
		MaxResponse:       min(a.MaxResponse, s.cfg.MaxResponse),
		MaxResponseCached: min(a.MaxResponseCached, s.cfg.MaxCachedReply, a.MaxResponse),
		MaxOps:            min(max(a.MaxOps, 1), s.cfg.MaxOps),
		MaxRequests:       min(max(a.MaxRequests, 1), uint32(s.cfg.MaxSlots)),
	}, nil
}

func backAttrs(a ChannelAttrs) (ChannelAttrs, error) {
	if a.MaxRequest < minBackRequest || a.MaxResponse < minBackResponse || a.MaxOps < 2 {
		return a, ErrTooSmall
	}
	a.HeaderPad, a.MaxResponseCached = 0, 0
	a.MaxRequests = min(max(a.MaxRequests, 1), maxBackSlots)
	return a, nil
}

// reserve promises memory to the slots and makes them: as many as asked for, while a session takes at most an eighth of
// what is left for its peer; at least one. It reports whether there was memory for one.
func (s *Session) reserve(a *ChannelAttrs) bool {
	s.perSlot = slotCost + max(int64(a.MaxResponseCached), loneReply)
	room := s.s.slotRoom(s.client.peer) - sessionCost
	n := min(int64(a.MaxRequests), max(room/8/s.perSlot, 1))
	if room < s.perSlot {
		return false
	}
	a.MaxRequests = uint32(n)
	s.reserveSlots(sessionCost + n*s.perSlot)
	s.target = int(n)
	for range n {
		s.slots = append(s.slots, &slot{})
	}
	return true
}

// shrinkSlots asks sessions with many slots to do with half of them, when memory for new sessions runs short. The slots go
// when their clients say that they keep to it.
func (s *State) shrinkSlots() {
	s.sessions.each(func(x *Session) {
		x.mu.Lock()
		if n := len(x.slots); n > fewSlots && x.target == n {
			x.setTarget(max(n/2, fewSlots))
		}
		x.mu.Unlock()
	})
}

const fewSlots = 2

// What is counted beside the slots' replies, in bytes: for a slot, and for a session.
const (
	slotCost    = 128
	sessionCost = 1024
)

// DestroySession ends a session. ErrDelay: it has other calls under way.
func (s *State) DestroySession(call *Call, id SessionID) error {
	s.enter()
	defer s.leave()
	sess := s.sessions.get(&id)
	if sess == nil {
		return ErrBadSession
	}
	c := sess.client
	if c.machCred && !call.Integrity {
		return ErrWrongCred
	}
	own := 0
	if call.session == sess {
		own = 1
	}
	sess.mu.Lock()
	busy := sess.inflight > own
	sess.mu.Unlock()
	if busy {
		return ErrDelay
	}
	hadBack := sess.hasBack()
	s.dropSession(sess)
	if hadBack && c.backSession() != nil {
		s.probe(c) // outstanding recalls go by another session
	} else if hadBack {
		s.backLost(c)
	}
	return nil
}

// dropSession takes a session out of all tables. Calls under way in it still end with SequenceDone.
func (s *State) dropSession(sess *Session) {
	s.sessions.remove(sess)
	delete(sess.client.sessions, sess.id)
	sess.mu.Lock()
	sess.dead = true
	conns := sess.conns
	sess.conns, sess.nback = nil, 0
	sess.lastConn.Store(0)
	sess.reserveSlots(-sess.reserved)
	sess.mu.Unlock()
	for conn := range conns {
		s.connTable.remove(conn, sess)
	}
}

// BackchannelCtl sets program and credentials of the call's session's callbacks (RFC 8881 18.33).
func (s *State) BackchannelCtl(call *Call, program uint32, sec []CBSec) error {
	chosen, err := chooseCBSec(sec)
	if err != nil {
		return err
	}
	s.enter()
	defer s.leave()
	sess := call.session
	sess.mu.Lock()
	sess.cbProgram, sess.cbSec = program, chosen
	sess.mu.Unlock()
	if !sess.client.gone {
		s.probe(sess.client)
	}
	return nil
}
