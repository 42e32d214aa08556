// Reading when the memory for records is spent.
//
// What fits in little is read nevertheless: the rest of a record, which has its
// place already, and small calls that are there as a whole. So clients that
// begin many large calls and finish none delay those that send large calls
// too, until they are closed (Server.sweep), and nobody else.

package rpc

import "golang.org/x/sys/unix"

// sipSize is how much is looked at when there is no memory for more.
const sipSize = 16 << 10

// refill tops the pocket up, and returns how much may be read besides the rest
// of an unfinished record: size, or less when there is no memory. When that is
// nothing, it leaves c waiting for some and returns false.
func (t *service) refill(c *Conn, size int) (int, bool) {
	p, w := t.srv.pool, c.wants()
	for !p.fill(p.pocket-t.pocket, w) {
		if c.in.left > 0 && c.in.last {
			return 0, true
		}
		if n := t.sip(c, size); n > 0 {
			return n, true
		}
		c.mu.Lock()
		c.waiting = true
		wait := p.await(c, w)
		if !wait {
			c.waiting = false
		}
		c.mu.Unlock()
		if wait {
			return 0, false
		}
	}
	t.pocket = p.pocket
	return size, true
}

// sip returns how many bytes of small calls are there, all of them whole. What
// of these cannot run yet is held in a buffer of sipSize, paid from what is
// kept for running calls.
func (t *service) sip(c *Conn, size int) (n int) {
	if c.in.active() {
		return 0
	}
	p := t.srv.pool
	got, e := recv(c.fd, t.in[:min(size, sipSize)], unix.MSG_PEEK)
	if got == 0 || e != 0 {
		return 1 // nothing, or the end; and one byte of a mark would need no memory
	}
	for {
		_, k, err := whole(t.in[n:got], t.srv.cfg.MaxRecord)
		if err != nil {
			return got // to be closed, without a look at the rest
		}
		if k == 0 {
			break
		}
		n += k
	}
	if n == 0 {
		return 0
	}
	need := int64(p.classes[p.class(sipSize)].size) - t.pocket
	if need > 0 {
		if !p.take(need, p.share(wantRun)) {
			return 0
		}
		t.pocket += need
	}
	return n
}
