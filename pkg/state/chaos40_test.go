// 4.0 clients in the chaos, and the chaos driven by a fuzzer.

package state

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"
)

// cl40 is a 4.0 client as it sees itself, well-behaved or not.
type cl40 struct {
	w      *world
	name   string
	id     ClientID
	open   map[string]uint32 // next seqids
	lock   map[string]uint32
	opens  []open40
	locks  []open40
	delegs []open40
}

type open40 struct {
	owner string
	key   FileKey
	sid   Stateid
}

func (w *world) chaos40(name string) *cl40 {
	return &cl40{w: w, name: name, open: map[string]uint32{}, lock: map[string]uint32{}}
}

func bumps(err error) bool {
	switch err {
	case ErrStaleClientID, ErrStaleStateid, ErrBadStateid, ErrBadSeqid, ErrResource:
		return false
	}
	return true
}

func pick40(rnd *rand.Rand, list []open40) open40 {
	if len(list) == 0 {
		return open40{owner: "o0", key: fkey(rnd.IntN(3))}
	}
	return list[rnd.IntN(len(list))]
}

// step runs one random operation, sometimes with a wrong seqid, sometimes twice.
func (c *cl40) step(rnd *rand.Rand) {
	w := c.w
	call := w.call40()
	f := fkey(rnd.IntN(3))
	// done ends an operation and keeps the client's idea of the seqid, unless it misbehaves.
	done := func(next map[string]uint32, owner string, err error) {
		if err == ErrReplay {
			w.s.OwnerDone(call, true, nil, nil)
			return
		}
		w.s.OwnerDone(call, bumps(err), []byte(owner), nil)
		if bumps(err) && rnd.IntN(20) != 0 {
			next[owner]++
		}
	}
	seq := func(next map[string]uint32, owner string) uint32 { return next[owner] + uint32(rnd.IntN(12)/10) }
	switch rnd.IntN(14) {
	case 0, 1, 2, 3:
		owner := fmt.Sprint("o", rnd.IntN(2))
		r := OpenRes{}
		err := w.s.OpenBegin(call, &OpenBeginArgs{ClientID: c.id, Owner: []byte(owner), Seqid: seq(c.open, owner)})
		if err == nil {
			r, err = w.s.Open(call, &OpenArgs{File: f, FH: []byte("fh"), Access: [...]uint8{ShareRead, ShareRead, ShareRead, ShareRead, ShareWrite, ShareBoth}[rnd.IntN(6)], Deny: uint8(rnd.IntN(8) / 7), Regular: true})
		}
		if err == nil && rnd.IntN(10) == 0 {
			w.s.OpenUndo(call)
		}
		done(c.open, owner, err)
		if err == nil {
			if r.Confirm && rnd.IntN(5) != 0 {
				s, err := w.s.OpenConfirm(call, f, r.Stateid, seq(c.open, owner))
				done(c.open, owner, err)
				if err == nil {
					r.Stateid = s
				}
			}
			c.opens = append(c.opens, open40{owner, f, r.Stateid})
			if r.Deleg.Type != DelegNone {
				c.delegs = append(c.delegs, open40{owner, f, r.Deleg.Stateid})
			}
		}
	case 4, 5:
		o := pick40(rnd, c.opens)
		_, err := w.s.CloseFile(call, o.key, o.sid, seq(c.open, o.owner))
		done(c.open, o.owner, err)
	case 6, 7:
		o := pick40(rnd, c.opens)
		owner := fmt.Sprint("l", rnd.IntN(2))
		s, _, err := w.s.Lock(call, &LockArgs{File: o.key, Type: LockType(1 + rnd.IntN(2)), Offset: uint64(rnd.IntN(20)), Length: uint64(rnd.IntN(10)),
			New: true, OpenStateid: o.sid, OpenSeqid: seq(c.open, o.owner), ClientID: c.id, Owner: []byte(owner), LockSeqid: c.lock[owner]})
		took := call.newLockOwner != nil
		done(c.open, o.owner, err)
		if took && bumps(err) {
			c.lock[owner]++
		}
		if err == nil {
			c.locks = append(c.locks, open40{owner, o.key, s})
		}
	case 8:
		l := pick40(rnd, c.locks)
		s, _, err := w.s.Lock(call, &LockArgs{File: l.key, Type: LockType(1 + rnd.IntN(2)), Offset: uint64(rnd.IntN(20)), Length: 3,
			LockStateid: l.sid, LockSeqid: seq(c.lock, l.owner)})
		done(c.lock, l.owner, err)
		if err == nil {
			c.locks = append(c.locks, open40{l.owner, l.key, s})
		}
	case 9:
		l := pick40(rnd, c.locks)
		s, err := w.s.Unlock(call, &UnlockArgs{File: l.key, Stateid: l.sid, Seqid: seq(c.lock, l.owner), Offset: uint64(rnd.IntN(20)), Length: 10})
		done(c.lock, l.owner, err)
		if err == nil {
			c.locks = append(c.locks, open40{l.owner, l.key, s})
		}
	case 10:
		owner := fmt.Sprint("l", rnd.IntN(2))
		if w.s.ReleaseLockOwner(call, c.id, []byte(owner)) == nil {
			c.lock[owner] = 0
		}
	case 11:
		o := pick40(rnd, c.opens)
		_, err := w.s.OpenDowngrade(call, o.key, o.sid, seq(c.open, o.owner), uint8(1+rnd.IntN(3)), 0)
		done(c.open, o.owner, err)
		w.s.CheckIO(call, o.key, o.sid, Access(1+rnd.IntN(3)))
	case 12:
		d := pick40(rnd, c.delegs)
		w.s.DelegReturn(call, d.key, d.sid)
	case 13:
		if w.s.Renew(call, c.id) == nil && rnd.IntN(20) != 0 {
			return
		}
		if r, err := w.setclientid(c.name, byte(rnd.IntN(2)), who(0)); err == nil && w.confirm40(r, who(0)) == nil {
			if r.ClientID != c.id {
				*c = *w.chaos40(c.name)
				c.id = r.ClientID
			}
			w.s.SetCallbackPath(w.s.clientByID(c.id), true)
		}
	}
	for _, list := range []*[]open40{&c.opens, &c.locks, &c.delegs} {
		if len(*list) > 8 {
			*list = (*list)[1:]
		}
	}
}

func TestChaos40(t *testing.T) {
	for seed := range uint64(3) {
		w := newWorld(t, withLocal, func(c *Config) { c.Recovery = &memRecovery{}; c.MaxOwners = 3 })
		rnd := rand.New(rand.NewPCG(seed, 4))
		clients := []*cl40{w.chaos40("a"), w.chaos40("b"), w.chaos40("c")}
		for range 3000 {
			if rnd.IntN(40) == 0 {
				w.advance(time.Duration(rnd.IntN(100)) * time.Second)
			}
			clients[rnd.IntN(3)].step(rnd)
			w.settle()
			w.check()
		}
		c := w.s.Counters()
		if c.DelegsGranted == 0 || c.ClientsEnded == 0 || c.LocksGranted == 0 || c.LocksDenied == 0 || c.SharesDenied == 0 || c.Replays == 0 {
			t.Fatalf("nothing much happened: %+v", c)
		}
	}
}

// byteSource makes decisions from a fuzzer's bytes, two at a time; when they are used up it counts, since rand draws again
// until it likes a number.
type byteSource struct {
	b []byte
	n uint64
}

func (s *byteSource) Uint64() uint64 {
	s.n += 0x9E3779B97F4A7C15
	if len(s.b) == 0 {
		return s.n
	}
	var x [8]byte
	binary.LittleEndian.PutUint64(x[:], s.n)
	n := copy(x[6:], s.b[:min(2, len(s.b))]) // rand uses the upper bits of one half or the other
	copy(x[2:4], x[6:])
	s.b = s.b[n:]
	return binary.LittleEndian.Uint64(x[:])
}

// FuzzState runs sequences of operations of 4.0 and 4.1 clients on one server; all sums must add up after each.
func FuzzState(f *testing.F) {
	for seed := range uint64(4) {
		rnd := rand.New(rand.NewPCG(seed, 5))
		b := make([]byte, 600)
		for i := range b {
			b[i] = byte(rnd.Uint32())
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) > 4000 {
			return
		}
		w := newWorld(t, withLocal, func(c *Config) {
			c.Recovery = &memRecovery{}
			if len(b) > 0 && b[0]&1 != 0 {
				c.Leases = &fakeLeases{watch: b[0]&2 != 0}
			}
		})
		src := &byteSource{b: b}
		rnd := rand.New(src)
		x := &chaos{w: w, rnd: rnd, owned: map[string][]opened{}, locked: map[string][]opened{}}
		new41 := []*cl41{w.ready41("x"), w.ready41("y")}
		old := []*cl40{w.chaos40("a"), w.chaos40("b")}
		for len(src.b) > 0 {
			switch i := rnd.IntN(9); {
			case i < 4:
				x.step(new41[i%2])
			case i < 8:
				old[i%2].step(rnd)
			default:
				w.advance(time.Duration(rnd.IntN(100)) * time.Second)
			}
			w.settle()
			w.check()
		}
	})
}
