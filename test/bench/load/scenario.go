package load

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"runtime"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Scenarios are the measurements of this file; each has a function of its own.
var Scenarios = []string{"stall", "idle", "slowread"}

// rssSampler watches the resident size of a process.
type rssSampler struct {
	pid    int
	before int64
	stop   chan struct{}
	wg     sync.WaitGroup
	peak   int64 // valid once finish has returned
}

func sampleRSS(pid int) (*rssSampler, error) {
	n, err := ResidentBytes(pid)
	if err != nil {
		return nil, err
	}
	s := &rssSampler{pid: pid, before: n, peak: n, stop: make(chan struct{})}
	s.wg.Go(func() {
		for {
			select {
			case <-s.stop:
				return
			case <-time.After(50 * time.Millisecond):
			}
			if n, err := ResidentBytes(pid); err == nil {
				s.peak = max(s.peak, n)
			}
		}
	})
	return s, nil
}

func (s *rssSampler) finish() (after int64, err error) {
	close(s.stop)
	s.wg.Wait()
	after, err = ResidentBytes(s.pid)
	s.peak = max(s.peak, after)
	return after, err
}

// StallResult is what Stall found.
type StallResult struct {
	Clients    int    `json:"clients"`
	Reads      int    `json:"reads_each"`
	Alone      Result `json:"getattr_alone"`
	Beside     Result `json:"getattr_beside"`
	RSSBefore  int64  `json:"rss_before"`
	RSSPeak    int64  `json:"rss_peak"`
	RSSAfter   int64  `json:"rss_after"`
	Dropped    int    `json:"dropped"`     // stalled connections the server closed
	Resumed    int    `json:"resumed"`     // of those kept, how many then read all replies, all right
	ResumedErr string `json:"resumed_err"` // why one did not
}

func (r StallResult) String() string {
	s := fmt.Sprintf("stall: %d clients that leave %d READs unread: RSS %.1f MiB before, %.1f peak, %.1f after; %d dropped, %d of %d read on rightly",
		r.Clients, r.Reads, mib(r.RSSBefore), mib(r.RSSPeak), mib(r.RSSAfter), r.Dropped, r.Resumed, r.Clients-r.Dropped)
	if r.ResumedErr != "" {
		s += " (" + r.ResumedErr + ")"
	}
	return s + "\nalone:  " + r.Alone.String() + "\nbeside: " + r.Beside.String()
}

func mib(n int64) float64 { return float64(n) / (1 << 20) }

// Stall measures GETATTR, one at a time, first alone and then beside c.Conns
// clients (64 if 1) that each sent c.Depth READs of c.Size bytes and do not
// read the replies. Afterwards those clients read them, and check the data.
func Stall(c Config) (StallResult, error) {
	if c.ServerPID == 0 {
		return StallResult{}, errors.New("stall: the server's process id is missing")
	}
	c.Op = "read"
	if c.Conns == 1 {
		c.Conns, c.Depth = 64, 32
	}
	if err := c.check(); err != nil {
		return StallResult{}, err
	}
	g := c
	g.Op, g.Conns, g.Depth = "getattr", 1, 1
	r := StallResult{Clients: c.Conns, Reads: c.Depth}
	var err error
	if r.Alone, err = Run(g); err != nil {
		return r, err
	}
	t, err := find(&c, c.Export, c.Dir, c.File, false)
	if err != nil {
		return r, err
	}
	if t.size < uint64(c.Size) {
		return r, fmt.Errorf("%s: shorter than one READ", c.File)
	}
	rss, err := sampleRSS(c.ServerPID)
	if err != nil {
		return r, err
	}
	r.RSSBefore = rss.before
	blocks := t.size / uint64(c.Size)
	clients := make([]*client, c.Conns)
	defer func() {
		for _, cl := range clients {
			if cl != nil {
				cl.close()
			}
		}
	}()
	for i := range clients {
		if clients[i], err = newClient(&c, c.Port); err != nil {
			return r, err
		}
		if err := clients[i].sendReads(&c, t, i, blocks); err != nil {
			return r, fmt.Errorf("stalled client %d: %w", i, err)
		}
	}
	if r.Beside, err = Run(g); err != nil {
		return r, fmt.Errorf("beside %d stalled clients: %w", c.Conns, err)
	}
	if r.RSSAfter, err = rss.finish(); err != nil {
		return r, err
	}
	r.RSSPeak = rss.peak
	for i, cl := range clients {
		switch err := cl.takeReads(&c, i, blocks); {
		case err == nil:
			r.Resumed++
		case errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, unix.ECONNRESET):
			r.Dropped++
		default:
			r.ResumedErr = fmt.Sprintf("client %d: %v", i, err)
		}
	}
	return r, nil
}

// readOffset is where READ k of stalled client i begins.
func readOffset(c *Config, i, k int, blocks uint64) uint64 {
	return uint64(i*c.Depth+k) % blocks * uint64(c.Size)
}

func (cl *client) sendReads(c *Config, t target, i int, blocks uint64) error {
	var burst []byte
	for k := range c.Depth {
		m := newCall(progNFS, 3, procRead, cl.uid)
		m.opaque(t.file)
		m.u64(readOffset(c, i, k, blocks))
		m.u32(uint32(c.Size))
		be.PutUint32(m.b[atXID:], cl.xid+uint32(k))
		burst = append(burst, m.finish(0)...)
	}
	cl.c.SetDeadline(time.Now().Add(30 * time.Second))
	_, err := cl.c.Write(burst)
	return err
}

// takeReads reads the replies to sendReads, in any order.
func (cl *client) takeReads(c *Config, i int, blocks uint64) error {
	cl.c.SetDeadline(time.Now().Add(30 * time.Second))
	want := make([]byte, c.Size)
	seen := make([]bool, c.Depth)
	for range seen {
		// The xid is the first word of the record, behind its mark.
		h, err := cl.r.Peek(8)
		if err != nil {
			return err
		}
		k := int(be.Uint32(h[atXID:]) - cl.xid)
		if err := cl.reply(); err != nil {
			return err
		}
		if k < 0 || k >= len(seen) || seen[k] {
			return fmt.Errorf("reply to xid %d, which was not asked or came before", k)
		}
		seen[k] = true
		got, err := cl.readReply()
		if err != nil {
			return err
		}
		Pattern(want, readOffset(c, i, k, blocks))
		if !bytes.Equal(got, want) {
			return fmt.Errorf("wrong data in the reply to READ %d", k)
		}
	}
	return nil
}

// IdleResult is what Idle found.
type IdleResult struct {
	Asked     int     `json:"asked"`
	Connected int     `json:"connected"` // answered a first NULL
	Alive     int     `json:"alive"`     // answered another after the pause
	Seconds   float64 `json:"seconds"`
	RSSBefore int64   `json:"rss_before"`
	RSSPeak   int64   `json:"rss_peak"`
	RSSAfter  int64   `json:"rss_after"`
	Error     string  `json:"error,omitempty"` // of the first connection that failed
}

func (r IdleResult) String() string {
	s := fmt.Sprintf("idle: %d of %d connections served, %d still after %.1f s; RSS %.1f MiB before, %.1f peak, %.1f after",
		r.Connected, r.Asked, r.Alive, r.Seconds, mib(r.RSSBefore), mib(r.RSSPeak), mib(r.RSSAfter))
	if r.Error != "" {
		s += " (" + r.Error + ")"
	}
	return s
}

// Idle opens c.Conns connections, makes one NULL call on each, leaves them
// idle for c.Duration, samples the server's memory, and calls each again.
func Idle(c Config) (IdleResult, error) {
	c.Op = "null"
	if err := c.check(); err != nil {
		return IdleResult{}, err
	}
	if c.ServerPID == 0 {
		return IdleResult{}, errors.New("idle: the server's process id is missing")
	}
	rss, err := sampleRSS(c.ServerPID)
	if err != nil {
		return IdleResult{}, err
	}
	r := IdleResult{Asked: c.Conns, Seconds: c.Duration.Seconds(), RSSBefore: rss.before}
	fail := func(i int, err error) {
		if r.Error == "" {
			r.Error = fmt.Sprintf("connection %d: %v", i, err)
		}
	}
	var fds []int
	defer func() {
		for _, fd := range fds {
			unix.Close(fd)
		}
	}()
	for i := range c.Conns {
		fd, err := dial(&c, c.Port)
		if err != nil {
			fail(i, err)
			break
		}
		fds = append(fds, fd)
		if err := nullCall(fd); err != nil {
			fail(i, err)
			break
		}
		r.Connected++
	}
	time.Sleep(c.Duration)
	for i, fd := range fds[:r.Connected] {
		if err := nullCall(fd); err != nil {
			fail(i, err)
			continue
		}
		r.Alive++
	}
	r.RSSAfter, err = rss.finish()
	r.RSSPeak = rss.peak
	return r, err
}

// nullCall makes one NULL call on a blocking socket.
func nullCall(fd int) error {
	if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: 10}); err != nil {
		return err
	}
	m := newCall(progNFS, 3, procNull, 0)
	xid := rand.Uint32()
	be.PutUint32(m.b[atXID:], xid)
	if _, err := unix.Write(fd, m.finish(0)); err != nil {
		return err
	}
	var r [atStatus]byte
	for n := 0; n < len(r); {
		k, err := unix.Read(fd, r[n:])
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return err
		}
		if k == 0 {
			return errClosed
		}
		n += k
	}
	if be.Uint32(r[atXID:]) != xid {
		return errors.New("reply to another call")
	}
	_, err := verdict(r[:], kindNull, 0)
	return err
}

// SlowReadResult is what SlowRead found. The latencies of slow READs tell
// whether they were as slow, and as many at once, as they should be.
type SlowReadResult struct {
	Getattr   Result  `json:"getattr"`
	SlowDepth int     `json:"slow_depth"`
	SlowCalls uint64  `json:"slow_calls"`
	SlowP50   float64 `json:"slow_p50_us"`
	SlowMin   float64 `json:"slow_min_us"`
	SlowRate  float64 `json:"slow_per_s"`
}

func (r SlowReadResult) String() string {
	return fmt.Sprintf("slowread: %d READs in flight: %d done, %.0f/s, p50 %.1f ms, least %.1f ms\nbeside: %s",
		r.SlowDepth, r.SlowCalls, r.SlowRate, r.SlowP50/1e3, r.SlowMin/1e3, r.Getattr)
}

// SlowRead keeps c.SlowDepth READs of 4 KiB of a slow file in flight and makes
// GETATTR calls one at a time on the same connection. Each READ asks for a
// page that no earlier one was near to, so that no cache answers it.
func SlowRead(c Config) (SlowReadResult, error) {
	c.Op, c.Size, c.Conns, c.Depth = "getattr", 4096, 1, 1
	if err := c.check(); err != nil {
		return SlowReadResult{}, err
	}
	r := SlowReadResult{SlowDepth: c.SlowDepth}
	slow, err := find(&c, c.SlowExport, "", c.SlowFile, false)
	if err != nil {
		return r, err
	}
	fast, err := find(&c, c.Export, c.Dir, c.File, false)
	if err != nil {
		return r, err
	}
	depth := c.SlowDepth + 1
	if depth > MaxDepth {
		return r, fmt.Errorf("%d slow READs, want at most %d", c.SlowDepth, MaxDepth-1)
	}
	const stride = 4 << 20
	if slow.size < stride*uint64(depth) {
		return r, fmt.Errorf("%s: %d bytes, too short", c.SlowFile, slow.size)
	}
	c.Depth = depth
	d, err := newDriver(&c, fast)
	if err != nil {
		return r, err
	}
	defer d.close()
	cn := &d.conns[0]
	getattr := d.tmpl[0]
	read := newTemplate(&c, "read", c.UIDs[0], slow, 0)
	d.blocks = slow.size / stride
	var slowHist histogram
	slowMin := int64(1) << 62

	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cpu0, err := serverCPU(c.ServerPID)
	if err != nil {
		return r, err
	}
	d.base = time.Now()
	d.block = rand.Uint64N(d.blocks)
	send := func(t template, slot uint32) error {
		d.tmpl[0], d.turn = t, 0
		// Take that slot: the slots' numbers tell the two kinds apart.
		cn.free = append(cn.free[:0], slot)
		at := len(d.out)
		block := d.block
		d.issue(cn, d.now())
		if t.kind == kindRead {
			be.PutUint64(d.out[at+t.atOffset:], block*stride)
		}
		return d.flush(cn)
	}
	for i := range depth {
		t := read
		if i == 0 {
			t = getattr
		}
		if err := send(t, uint32(i)); err != nil {
			return r, err
		}
	}
	for d.now() < int64(c.Duration) {
		// Everything is parsed by hand here: the rate is small.
		p := []unix.PollFd{{Fd: int32(cn.fd), Events: unix.POLLIN}}
		if _, err := unix.Poll(p, idleTimeout); err != nil && err != unix.EINTR {
			return r, err
		}
		if p[0].Revents == 0 {
			continue
		}
		sent := make([]int64, depth)
		for i := range sent {
			sent[i] = cn.slots[i].sent
		}
		hist, calls := d.hist, d.calls
		cn.free = cn.free[:0]
		if err := d.receive(cn); err != nil {
			return r, err
		}
		// receive counted all replies alike: count again, by kind.
		d.hist, d.calls = hist, calls
		now := d.now()
		for _, i := range append([]uint32(nil), cn.free...) {
			if i == 0 {
				d.hist.add(now - sent[0])
				d.calls++
				err = send(getattr, 0)
			} else {
				slowHist.add(now - sent[i])
				slowMin = min(slowMin, now-sent[i])
				err = send(read, i)
			}
			if err != nil {
				return r, err
			}
		}
	}
	d.c.Depth, d.c.Size, d.bytes = 1, 0, 0
	r.Getattr = d.result(d.now())
	cpu1, err := serverCPU(c.ServerPID)
	if err != nil {
		return r, err
	}
	r.Getattr.account(cpu1 - cpu0)
	r.SlowCalls = slowHist.n
	r.SlowP50 = slowHist.quantile(.5)
	if slowHist.n > 0 {
		r.SlowMin = float64(slowMin) / 1e3
	}
	r.SlowRate = float64(slowHist.n) / r.Getattr.Seconds
	return r, nil
}
