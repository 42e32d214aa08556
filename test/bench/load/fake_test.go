// A small NFSv3 server for the tests of this package: one directory of files
// whose content is Pattern, and knobs to misbehave with.

package load

import (
	"bufio"
	"bytes"
	"encoding/hex"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
)

const fakeSize = 8 << 20

type fake struct {
	port int

	// Knobs; set before the first connection.
	reverse  bool              // answer what has come in one read last to first
	fragment int               // split replies into fragments of this many bytes
	status   map[uint32]uint32 // procedure -> status to answer
	corrupt  bool              // READ data is wrong
	stray    bool              // answer with an xid that was not asked for

	names   sync.Map // created by CREATE
	uids    sync.Map // uid -> *atomic.Int64 of calls
	calls   atomic.Int64
	written sync.Map // offset -> []byte
	v41     fake41
}

func startFake(t *testing.T, f *fake) Config {
	t.Helper()
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	f.port = l.Addr().(*net.TCPAddr).Port
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			wg.Go(func() { f.serve(c) })
		}
	})
	t.Cleanup(func() { l.Close(); wg.Wait() })
	return Config{Addr: "127.0.0.1", Port: f.port, Export: "/export", File: "file", Size: 4096, Conns: 2, Depth: 4}
}

func (f *fake) serve(c net.Conn) {
	defer c.Close()
	r := bufio.NewReaderSize(c, 1<<20)
	for {
		var replies [][]byte
		for more := true; more; more = f.reverse && r.Buffered() > 4 {
			var h [4]byte
			if _, err := io.ReadFull(r, h[:]); err != nil {
				return
			}
			rec := make([]byte, be.Uint32(h[:])&0x7fffffff)
			if _, err := io.ReadFull(r, rec); err != nil {
				return
			}
			replies = append(replies, f.answer(rec))
		}
		for i := range replies {
			p := replies[i]
			if f.reverse {
				p = replies[len(replies)-1-i]
			}
			if _, err := c.Write(f.marked(p)); err != nil {
				return
			}
		}
	}
}

// marked puts record marks into p.
func (f *fake) marked(p []byte) []byte {
	size := f.fragment
	if size == 0 {
		size = len(p)
	}
	var out []byte
	for len(p) > 0 {
		n := min(size, len(p))
		mark := uint32(n)
		if n == len(p) {
			mark |= 1 << 31
		}
		out = append(be.AppendUint32(out, mark), p[:n]...)
		p = p[n:]
	}
	return out
}

func (f *fake) answer(rec []byte) []byte {
	f.calls.Add(1)
	prog, proc := be.Uint32(rec[12:]), be.Uint32(rec[20:])
	uid := be.Uint32(rec[44:]) // behind flavour, length, stamp and "load"
	n, _ := f.uids.LoadOrStore(uid, new(atomic.Int64))
	n.(*atomic.Int64).Add(1)
	args := &client{rest: rec[64:]}
	m := &message{}
	xid := be.Uint32(rec)
	if f.stray {
		xid++
	}
	for _, v := range []uint32{xid, 1, 0, 0, 0, 0} {
		m.u32(v)
	}
	if proc == procNull && prog == progNFS {
		return m.b
	}
	if prog == progMount {
		m.u32(0)
		m.opaque([]byte("root"))
		m.u32(0)
		return m.b
	}
	if be.Uint32(rec[16:]) == 4 {
		f.compound41(m, args)
		return m.b
	}
	if s := f.status[proc]; s != 0 {
		m.u32(s)
		m.u32(0)
		m.u32(0)
		return m.b
	}
	attr := func(follows bool) {
		if follows {
			m.u32(1)
		}
		for i := range 21 {
			v := uint32(0)
			if i == 6 {
				v = fakeSize
			}
			m.u32(v)
		}
	}
	m.u32(0)
	args.opaque() // handle
	switch proc {
	case procGetattr:
		attr(false)
	case procLookup:
		name := args.opaque()
		if bytes.Equal(name, []byte("missing")) {
			be.PutUint32(m.b[len(m.b)-4:], 2)
			m.u32(0)
			return m.b
		}
		m.opaque(name)
		attr(true)
		m.u32(0)
	case procAccess:
		attr(true)
		m.u32(0x3f)
	case procCreate:
		f.names.Store(string(args.opaque()), true)
		m.u32(0)
		m.u32(0)
		m.u32(0)
		m.u32(0)
	case procRead:
		off := uint64(args.u32())<<32 | uint64(args.u32())
		data := f.data(off, args.u32())
		attr(true)
		m.u32(uint32(len(data)))
		m.u32(0)
		m.opaque(data)
	case procWrite:
		off := uint64(args.u32())<<32 | uint64(args.u32())
		count := args.u32()
		args.u32()
		data := args.opaque()
		f.store(off, data)
		m.u32(1)
		m.b = append(m.b, make([]byte, 24)...)
		attr(true)
		m.u32(count)
		m.u32(0)
		m.u64(0)
	case procReaddirplus:
		m.u32(0)
		m.u64(0)
		m.u32(0)
		m.u32(1)
	default:
		panic("fake: procedure " + hex.EncodeToString([]byte{byte(proc)}))
	}
	return m.b
}

// data is what READ answers.
func (f *fake) data(off uint64, count uint32) []byte {
	data := make([]byte, count)
	Pattern(data, off)
	if f.corrupt {
		data[len(data)/2] ^= 1
	}
	if w, ok := f.written.Load(off); ok {
		copy(data, w.([]byte))
	}
	return data
}

// store is WRITE.
func (f *fake) store(off uint64, data []byte) {
	if !f.corrupt {
		f.written.Store(off, data)
	}
}
