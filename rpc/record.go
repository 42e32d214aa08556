// Record marking (RFC 5531, 11): a record is a sequence of fragments, each
// after a word with its length and a bit that says whether it is the last.
//
// A record that arrives whole is used where it lies in the read buffer; when
// it came in fragments, they are moved together in place. One that is
// incomplete at the end of a read moves to a buffer of its own size, into
// which the rest is then read directly. Where in that buffer a record
// starts is decided by its head (land.go).

package rpc

import (
	"encoding/binary"
	"errors"
)

const lastFragment = 1 << 31

// maxEmpty is how many empty fragments that are not the last a record may
// have. They carry nothing, and no client sends them.
const maxEmpty = 16

var (
	errRecordTooLong = errors.New("record longer than the limit")
	errEmptyFragment = errors.New("too many empty fragments")
)

// assembly is a record that is incomplete.
type assembly struct {
	buf   *buffer // holds got bytes of the record, without marks, from buf.at on
	land  lander  // not nil: the head is not there yet, see place
	got   int
	left  int     // bytes of the current fragment that are to come
	last  bool    // it is the last fragment
	nmark int     // bytes of the next mark that are there
	mark  [4]byte // that mark, while 0 < nmark < 4
	empty int     // empty fragments so far
	since int64   // when its first byte came
}

// active reports that part of a record is here.
func (a *assembly) active() bool { return a.left > 0 || a.nmark > 0 || a.got > 0 || a.empty > 0 }

// whole looks for a complete record at the start of in. It returns the record
// and how many bytes of in it took, or 0 when the record is not complete.
// Fragments are moved together, so that in changes only when one is found.
func whole(in []byte, maxRecord int) (body []byte, n int, err error) {
	if len(in) < 4 {
		return nil, 0, nil
	}
	m := binary.BigEndian.Uint32(in)
	size := int(m &^ lastFragment)
	if size > maxRecord {
		return nil, 0, errRecordTooLong
	}
	if m&lastFragment != 0 {
		if size > len(in)-4 {
			return nil, 0, nil
		}
		return in[4 : 4+size : 4+size], 4 + size, nil
	}
	return wholeFragments(in, maxRecord)
}

func wholeFragments(in []byte, maxRecord int) (body []byte, n int, err error) {
	total, empty := 0, 0
	for p := 0; ; {
		if len(in)-p < 4 {
			return nil, 0, nil
		}
		m := binary.BigEndian.Uint32(in[p:])
		size := int(m &^ lastFragment)
		total += size
		if size > maxRecord || total > maxRecord {
			return nil, 0, errRecordTooLong
		}
		if size == 0 && m&lastFragment == 0 {
			if empty++; empty > maxEmpty {
				return nil, 0, errEmptyFragment
			}
		}
		if size > len(in)-p-4 {
			return nil, 0, nil
		}
		p += 4 + size
		if m&lastFragment != 0 {
			n = p
			break
		}
	}
	at := 4
	for p := 0; p < n; {
		size := int(binary.BigEndian.Uint32(in[p:]) &^ lastFragment)
		copy(in[at:], in[p+4:p+4+size])
		at += size
		p += 4 + size
	}
	return in[4:at:at], n, nil
}

// feed adds in to the record and returns how much of it was used, and whether
// the record is complete. Memory comes from the pocket.
func (a *assembly) feed(in []byte, p *pool, pocket *int64, maxRecord int) (n int, done bool, err error) {
	for n < len(in) {
		if a.left == 0 {
			k := copy(a.mark[a.nmark:], in[n:])
			n += k
			if a.nmark += k; a.nmark < 4 {
				break
			}
			a.nmark = 0
			m := binary.BigEndian.Uint32(a.mark[:])
			a.left, a.last = int(m&^lastFragment), m&lastFragment != 0
			if a.left > maxRecord || a.got+a.left > maxRecord {
				return n, false, errRecordTooLong
			}
			if a.left == 0 {
				if a.last {
					return n, true, nil
				}
				if a.empty++; a.empty > maxEmpty {
					return n, false, errEmptyFragment
				}
				continue
			}
			a.reserve(p, pocket, in[n:])
		}
		k := copy(a.room(), in[n:])
		n += k
		if a.added(k) {
			return n, true, nil
		}
	}
	return n, false, nil
}

// reserve makes room for the current fragment, of which in are the first bytes.
func (a *assembly) reserve(p *pool, pocket *int64, in []byte) {
	if a.buf == nil && a.last && a.left >= landFrom && p.land != nil {
		a.buf = p.getFrom(pocket, landUnit+a.left)
		if len(in) >= landHead {
			a.buf.at = p.land(in[:min(len(in), a.left)])
		} else {
			a.land = p.land
		}
		return
	}
	if a.buf != nil && len(a.buf.b) >= a.got+a.left {
		return
	}
	b := p.getFrom(pocket, a.got+a.left)
	if a.buf != nil {
		copy(b.b, a.buf.b[:a.got])
		p.put(a.buf)
	}
	a.buf = b
}

// room is where the rest of the current fragment belongs, or the next of it.
func (a *assembly) room() []byte {
	if a.left == 0 {
		return nil
	}
	if a.land != nil {
		return a.buf.b[a.got:landHead]
	}
	at := a.buf.at + a.got
	return a.buf.b[at : at+a.left]
}

// added says that k bytes came into room; it reports whether the record is complete.
func (a *assembly) added(k int) bool {
	a.got += k
	a.left -= k
	if a.land != nil && a.got == landHead {
		a.place()
	}
	return a.left == 0 && a.last && k > 0
}

// note keeps since, after a read.
func (a *assembly) note(now int64) {
	if !a.active() {
		a.since = 0
	} else if a.since == 0 {
		a.since = now
	}
}

// finish hands out the complete record and its buffer, which is nil for an
// empty record, and starts anew.
func (a *assembly) finish() (body []byte, b *buffer) {
	b = a.buf
	if b != nil {
		body = b.b[b.at : b.at+a.got : b.at+a.got]
	}
	*a = assembly{}
	return body, b
}

// lowWater is how many bytes are worth being woken for: all of a large record's
// rest. For WRITE of 1 MiB that is one read in place of six, and 3.0 GB/s in
// place of 1.8 over one connection.
func (a *assembly) lowWater() int {
	if a.left < largeFrom {
		return 1
	}
	return a.left
}
