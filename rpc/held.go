// What a connection has sent and may not run yet, because it is at a limit or
// others have their turn.
//
// It is kept as whole records of one fragment each, one behind the other, and
// an incomplete one in the connection's assembly. A large call that came alone
// is kept in the buffer that it has. Going on needs no further memory: what
// still cannot run stays where it is.

package rpc

import "encoding/binary"

// held is owned by the thread that reads the connection.
type held struct {
	buf  *buffer
	at   int  // what has run
	end  int  // what is there
	bare bool // one record without its mark
}

// hold keeps calls of t.calls, and the bytes that were read after them.
func (t *service) hold(c *Conn, order []int, rest []byte) {
	if len(order) == 1 && len(rest) == 0 {
		if p := &t.calls[order[0]]; p.buf != nil {
			c.held = held{buf: p.buf, at: p.buf.at, end: p.buf.at + len(p.body), bare: true}
			p.buf = nil
			return
		}
	}
	n := len(rest)
	for _, i := range order {
		n += 4 + len(t.calls[i].body)
	}
	if n == 0 {
		return
	}
	b := t.srv.pool.getFrom(&t.pocket, n)
	at := 0
	keep := func(body []byte) {
		binary.BigEndian.PutUint32(b.b[at:], lastFragment|uint32(len(body)))
		at += 4
		at += copy(b.b[at:], body)
	}
	for _, i := range order {
		keep(t.calls[i].body)
	}
	limit := t.srv.cfg.MaxRecord
	for len(rest) > 0 {
		body, n, err := whole(rest, limit)
		if err == nil && n == 0 {
			_, _, err = c.in.feed(rest, t.srv.pool, &t.pocket, limit)
			n = len(rest)
		} else if err == nil {
			keep(body)
		}
		if err != nil {
			c.close(err.Error())
			break
		}
		rest = rest[n:]
	}
	if at == 0 {
		t.srv.pool.put(b)
		return
	}
	c.held = held{buf: b, end: at}
}

// resume serves what is held, in the order of arrival. It reports whether the
// connection may go on.
func (t *service) resume(c *Conn) bool {
	h := c.held
	if h.bare {
		return t.resumeOne(c)
	}
	now, ok := t.srv.Now(), true
	for ok && h.at < h.end {
		at, order := h.at, t.order[:0]
		for at < h.end && len(t.calls) < maxBurst {
			body, n, err := whole(h.buf.b[at:h.end], t.srv.cfg.MaxRecord)
			if n == 0 || err != nil {
				panic("rpc: what is held is not whole records")
			}
			order = append(order, len(t.calls))
			t.calls = append(t.calls, incoming{body: body})
			t.srv.look(&t.calls[len(t.calls)-1])
			at += n
		}
		var n int
		n, ok = t.burst(c, order, now)
		for i := range n {
			h.at += 4 + len(t.calls[i].body)
		}
		t.release()
		ok = ok && !t.overtime()
	}
	if h.at == h.end {
		t.srv.pool.put(h.buf)
		h = held{}
	}
	c.held = h
	return ok
}

// resumeOne serves a single call that has its own buffer.
func (t *service) resumeOne(c *Conn) bool {
	h := c.held
	c.held = held{}
	t.calls = append(t.calls, incoming{body: h.buf.b[h.at:h.end:h.end], buf: h.buf})
	t.srv.look(&t.calls[0])
	n, ok := t.burst(c, append(t.order[:0], 0), t.srv.Now())
	if n == 0 {
		t.calls[0].buf = nil
		c.held = h
	}
	t.release()
	return ok
}
