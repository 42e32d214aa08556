package payload

import (
	"errors"
	"io"
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

// Source sends c's records to a Sink on this host and waits for all answers.
func Source(c Config, port int) (SourceResult, error) {
	var r SourceResult
	if err := c.check(); err != nil {
		return r, err
	}
	runtime.GOMAXPROCS(c.Conns + 2)
	conns := make([]*sourceConn, c.Conns)
	for i := range conns {
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return r, err
		}
		defer unix.Close(fd)
		if err := unix.Connect(fd, &unix.SockaddrInet4{Port: port, Addr: [4]byte{127, 0, 0, 1}}); err != nil {
			return r, err
		}
		tune(fd)
		conns[i] = &sourceConn{c: &c, fd: fd, head: newHead(c.Size), payload: make([]byte, (c.Size+3)&^3)}
		fill(conns[i].payload[:c.Size], 0)
	}
	before, err := cpu()
	if err != nil {
		return r, err
	}
	start := time.Now()
	done := make(chan error, len(conns))
	for _, s := range conns {
		go func() {
			runtime.LockOSThread()
			done <- s.run()
		}()
	}
	for range conns {
		err = errors.Join(err, <-done)
	}
	r.Seconds = time.Since(start).Seconds()
	after, err2 := cpu()
	r.CPU = after - before
	return r, errors.Join(err, err2)
}

type sourceConn struct {
	c       *Config
	fd      int
	head    []byte
	payload []byte
	answers int64
	part    int // bytes of an answer that has not come whole
	in      [64 * replyLen]byte
}

func (s *sourceConn) run() error {
	total := s.c.records()
	for k := range total {
		for k-s.answers >= int64(s.c.Depth) {
			if err := s.receive(); err != nil {
				return err
			}
		}
		be.PutUint32(s.head[atXID:], uint32(k))
		off := s.c.offset(k)
		be.PutUint64(s.head[atOffset:], uint64(off))
		if s.c.Mark {
			fill(s.payload[:s.c.Size], off)
		}
		if err := s.send(s.head, s.payload); err != nil {
			return err
		}
	}
	for s.answers < total {
		if err := s.receive(); err != nil {
			return err
		}
	}
	return nil
}

func (s *sourceConn) send(b ...[]byte) error {
	for len(b) > 0 {
		n, err := unix.SendmsgBuffers(s.fd, b, nil, nil, unix.MSG_NOSIGNAL)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return err
		}
		for len(b) > 0 && n >= len(b[0]) {
			n -= len(b[0])
			b = b[1:]
		}
		if n > 0 {
			b[0] = b[0][n:]
		}
	}
	return nil
}

// receive waits for some answers.
func (s *sourceConn) receive() error {
	n, _, err := unix.Recvfrom(s.fd, s.in[:], 0)
	if err == unix.EINTR {
		return nil
	}
	if err != nil {
		return err
	}
	if n == 0 {
		return io.ErrUnexpectedEOF
	}
	s.part += n
	s.answers += int64(s.part / replyLen)
	s.part %= replyLen
	return nil
}
