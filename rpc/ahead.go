// Calls that are served together: what a procedure may know of the calls behind
// its own in a burst.
//
// A client that writes a file in small pieces sends adjacent WRITEs at once. In
// a file system, one write costs little more than each of them, so their
// procedure does the work of several and then answers them one by one. It sees
// the calls ahead, takes those it serves, and when their turn comes, knows by
// Taken that the work is done. A copy of a call that was served before cannot
// be taken: it must not be done twice.
//
// A taken call may still have to be served anew, when the burst is broken off
// before its turn: the procedure's effect must be the same if it is repeated
// before an answer was sent.

package rpc

// ahead is the part of a burst that a worker has not come to; a thread of the
// slow pool has none.
type ahead struct {
	calls []incoming
	order []int // the rest of it
}

// Ahead returns the arguments of the i-th call (from 0) behind this one in its
// burst, if that is a call of the same procedure by the same caller, and nil
// otherwise. They are good until the procedure returns.
func (c *Call) Ahead(i int) []byte {
	p := c.ahead(i)
	if p == nil || p.proc != c.in.proc || p.head.fault != faultNone || !sameCaller(&p.head, &c.in.head) {
		return nil
	}
	return p.body[p.head.args:]
}

func (c *Call) ahead(i int) *incoming {
	w := c.worker
	if w == nil || i >= len(w.ahead.order) {
		return nil
	}
	return &w.ahead.calls[w.ahead.order[i]]
}

// Take takes the call of which Ahead(i) has just returned the arguments. It
// reports false, and has done nothing, when that is a copy of a call that was
// or is being served.
func (c *Call) Take(i int) bool {
	p := c.ahead(i)
	if p.cache.cache == nil && p.proc.caches(p.body[p.head.args:]) {
		cache := c.worker.srv.cache(p.proc)
		key := cache.key(c.Conn, &p.head, p.body)
		ref, fresh := cache.claim(&key, c.Now)
		if !fresh {
			return false
		}
		p.cache = ref
	}
	p.taken = true
	return true
}

// untake gives back what calls hold that a burst has not come to. They will be
// looked up again.
func (t *service) untake(order []int) {
	for _, i := range order {
		p := &t.calls[i]
		if p.cache.cache != nil {
			p.cache.postpone()
			p.cache = cacheRef{}
		}
		p.taken = false
	}
}
