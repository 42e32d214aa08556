package load

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"
)

// client41 is a client of NFSv4.1 with one session to itself and one for each
// connection of the driver. Like client it makes one call at a time.
type client41 struct {
	*client
	id       uint64
	own      sessionID
	seq      uint32 // of own's only slot
	nextSess uint32 // sequence id of the next CREATE_SESSION
	sessions []sessionID
	file     []byte
	stateid  [16]byte // of the open file
}

const (
	graceWait = 60 * time.Second // for a server that has just started
	endWait   = 5 * time.Second  // for calls that were in flight when the driver ended
)

// begin41 becomes a client of the server and opens c.File.
func begin41(c *Config) (t target, err error) {
	n, err := newClient(c, c.Port)
	if err != nil {
		return t, err
	}
	x := &client41{client: n}
	t.v41 = x
	if err = x.register(c); err == nil {
		err = x.open(c, &t)
	}
	if err != nil {
		x.end()
	}
	return t, err
}

// results checks the reply's status and takes the result of op behind it.
func (x *client41) results(what string, ops ...uint32) error {
	st := x.u32()
	x.opaque()
	x.u32()
	for _, op := range ops {
		if got := x.u32(); got != op && st == 0 {
			return fmt.Errorf("%s: result of operation %d, want %d", what, got, op)
		}
		if one := x.u32(); one != 0 {
			st = one
			break
		}
		if op == opSequence {
			x.rest = x.rest[min(36, len(x.rest)):]
		}
	}
	switch st {
	case 0:
		return nil
	case err41Noent:
		return fmt.Errorf("%s: %w", what, errNoEnt)
	}
	return fmt.Errorf("%s: %w", what, status41(st))
}

type status41 uint32

func (s status41) Error() string { return fmt.Sprintf("NFS status %d", uint32(s)) }

// alone makes a call of one operation outside of a session.
func (x *client41) alone(what string, op uint32, args func(m *message)) error {
	m := newCompound(x.uid, 1).op(op)
	args(m)
	if err := x.call(m); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return x.results(what, op)
}

// inSession makes a call in x.own. ops are the operations behind SEQUENCE, for the check of the results.
func (x *client41) inSession(what string, args func(m *message), ops ...uint32) error {
	x.seq++
	m := newCompound(x.uid, uint32(len(ops)+1))
	m.sequence(x.own, x.seq, 0, 0)
	args(m)
	if err := x.call(m); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	if word(x.rest, 16) != 0 { // SEQUENCE itself failed: the slot's sequence id is not used up
		x.seq--
	}
	return x.results(what, append([]uint32{opSequence}, ops...)...)
}

// retry makes a call again while the server says to.
func retry(wait time.Duration, call func() error) error {
	for end := time.Now().Add(wait); ; time.Sleep(50 * time.Millisecond) {
		err := call()
		var st status41
		if !errors.As(err, &st) || st != err41Delay && st != err41Grace || time.Now().After(end) {
			return err
		}
	}
}

// register makes the client and its sessions known.
func (x *client41) register(c *Config) error {
	err := x.alone("EXCHANGE_ID", opExchangeID, func(m *message) {
		m.u64(rand.Uint64())
		m.opaque(fmt.Appendf(nil, "load %016x", rand.Uint64()))
		for _, v := range []uint32{0x10000, 0, 0} { // no pNFS, no protection of state, no name
			m.u32(v)
		}
	})
	if err != nil {
		return err
	}
	x.id = uint64(x.u32())<<32 | uint64(x.u32())
	x.nextSess = x.u32()
	if x.own, err = x.createSession(c, 1); err != nil {
		return err
	}
	for range c.Conns {
		s, err := x.createSession(c, uint32(c.Depth))
		if err != nil {
			return err
		}
		x.sessions = append(x.sessions, s)
	}
	return x.inSession("RECLAIM_COMPLETE", func(m *message) { m.op(opReclaimComplete).u32(0) }, opReclaimComplete)
}

func (x *client41) createSession(c *Config, slots uint32) (s sessionID, err error) {
	room := uint32(c.Size) + 4096
	err = x.alone("CREATE_SESSION", opCreateSession, func(m *message) {
		m.u64(x.id)
		for _, v := range []uint32{x.nextSess, 0,
			0, room, room, 4096, 8, slots, 0, // fore channel
			0, 4096, 4096, 0, 2, 1, 0, // back channel: no calls are taken
			0x40000000, 1, 0} { // callback program, one way in: AUTH_NONE
			m.u32(v)
		}
	})
	if err != nil {
		return s, err
	}
	x.nextSess++
	if len(x.rest) < 16+8+24 {
		return s, fmt.Errorf("CREATE_SESSION: %d bytes of result", len(x.rest))
	}
	copy(s[:], x.rest)
	fore := x.rest[16+8:]
	request, response, n := be.Uint32(fore[4:]), be.Uint32(fore[8:]), be.Uint32(fore[20:])
	if request < room || response < room || n < slots {
		return s, fmt.Errorf("CREATE_SESSION grants %d slots, requests of %d bytes and replies of %d; want %d and %d", n, request, response, slots, room)
	}
	return s, nil
}

// open walks from the root to c.File, opens it, and enters its handle and size.
func (x *client41) open(c *Config, t *target) error {
	if err := x.inSession("PUTROOTFH", func(m *message) { m.op(opPutrootfh).op(opGetfh) }, opPutrootfh, opGetfh); err != nil {
		return err
	}
	t.dir = x.opaque()
	for name := range strings.SplitSeq(c.Export+"/"+c.Dir, "/") {
		if name == "" {
			continue
		}
		var err error
		if t.dir, err = x.lookup(t.dir, name); err != nil {
			return err
		}
	}
	if err := retry(graceWait, func() error { return x.openFile(c, t.dir) }); err != nil {
		return err
	}
	copy(x.stateid[:], x.rest)
	var err error
	if x.file, err = x.lookup(t.dir, c.File); err != nil {
		return err
	}
	t.file = x.file
	err = x.inSession("GETATTR", func(m *message) {
		m.op(opPutfh).opaque(t.file)
		for _, v := range []uint32{opGetattr, 1, 1 << 4} { // size
			m.u32(v)
		}
	}, opPutfh, opGetattr)
	if err != nil {
		return err
	}
	if len(x.rest) < 20 {
		return fmt.Errorf("GETATTR: %d bytes of attributes", len(x.rest))
	}
	t.size = be.Uint64(x.rest[12:])
	return nil
}

func (x *client41) lookup(dir []byte, name string) ([]byte, error) {
	err := x.inSession("LOOKUP "+name, func(m *message) {
		m.op(opPutfh).opaque(dir)
		m.op(opLookup).opaque([]byte(name))
		m.op(opGetfh)
	}, opPutfh, opLookup, opGetfh)
	if err != nil {
		return nil, err
	}
	return x.opaque(), nil
}

// openFile opens c.File for what c.Op does; for WRITE it may have to be made.
func (x *client41) openFile(c *Config, dir []byte) error {
	return x.inSession("OPEN "+c.File, func(m *message) {
		m.op(opPutfh).opaque(dir)
		access := uint32(1 | 0x400) // READ; no delegation
		if c.Op == "write" {
			access |= 2
		}
		for _, v := range []uint32{opOpen, 0, access, 0} {
			m.u32(v)
		}
		m.u64(x.id)
		m.opaque([]byte("load"))
		if c.Op == "write" {
			for _, v := range []uint32{1, 0, 0, 0} { // CREATE, UNCHECKED, no attributes
				m.u32(v)
			}
		} else {
			m.u32(0)
		}
		m.u32(0) // CLAIM_NULL
		m.opaque([]byte(c.File))
	}, opPutfh, opOpen)
}

// read reads from the open file.
func (x *client41) read(off uint64, size int) ([]byte, error) {
	err := x.inSession("READ", func(m *message) {
		m.op(opPutfh).opaque(x.file)
		m.op(opRead).b = append(m.b, x.stateid[:]...)
		m.u64(off)
		m.u32(uint32(size))
	}, opPutfh, opRead)
	if err != nil {
		return nil, err
	}
	x.u32() // eof
	return x.opaque(), nil
}

// end gives back what the server keeps for the client, and closes the connection.
// Calls that were in flight when the driver ended may still be under way.
func (x *client41) end() error {
	defer x.close()
	if x.id == 0 {
		return nil
	}
	var errs []error
	step := func(f func() error) { errs = append(errs, retry(endWait, f)) }
	if !bytes.Equal(x.stateid[:], make([]byte, 16)) {
		step(func() error {
			return x.inSession("CLOSE", func(m *message) {
				m.op(opPutfh).opaque(x.file)
				m.op(opClose).u32(0)
				m.b = append(m.b, x.stateid[:]...)
			}, opPutfh, opClose)
		})
	}
	all := x.sessions
	if x.own != (sessionID{}) {
		all = append(all, x.own)
	}
	for _, s := range all {
		step(func() error {
			return x.alone("DESTROY_SESSION", opDestroySession, func(m *message) { m.b = append(m.b, s[:]...) })
		})
	}
	step(func() error {
		return x.alone("DESTROY_CLIENTID", opDestroyClientID, func(m *message) { m.u64(x.id) })
	})
	return errors.Join(errs...)
}
