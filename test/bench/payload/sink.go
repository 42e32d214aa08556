package payload

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strconv"

	"golang.org/x/sys/unix"
)

const pipeSize = 1 << 20 // what an unprivileged user may have

// Sink listens on a port of the loopback address, tells it to ready, takes c.Conns
// connections, and returns when all have ended.
func Sink(c Config, ready func(port int)) (SinkResult, error) {
	var sum SinkResult
	if err := c.check(); err != nil {
		return sum, err
	}
	runtime.GOMAXPROCS(c.Conns + 2)
	ln, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return sum, err
	}
	defer unix.Close(ln)
	if err := unix.Bind(ln, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		return sum, err
	}
	if err := unix.Listen(ln, c.Conns); err != nil {
		return sum, err
	}
	sa, err := unix.Getsockname(ln)
	if err != nil {
		return sum, err
	}
	conns := make([]*sinkConn, c.Conns)
	for i := range conns {
		if conns[i], err = newSinkConn(&c, i); err != nil {
			return sum, err
		}
		defer conns[i].close()
	}
	ready(sa.(*unix.SockaddrInet4).Port)
	for _, s := range conns {
		if s.fd, _, err = unix.Accept4(ln, unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC); err != nil {
			return sum, err
		}
		tune(s.fd)
	}
	before, err := cpu()
	if err != nil {
		return sum, err
	}
	done := make(chan error, len(conns))
	for _, s := range conns {
		go func() {
			runtime.LockOSThread()
			done <- s.serve()
		}()
	}
	for range conns {
		err = errors.Join(err, <-done)
	}
	after, err2 := cpu()
	for _, s := range conns {
		sum.Records += s.n.Records
		sum.Bytes += s.n.Bytes
		sum.In += s.n.In
		sum.Out += s.n.Out
		sum.Full += s.n.Full
		sum.Waits += s.n.Waits
		sum.Lowats += s.n.Lowats
	}
	sum.CPU = after - before
	return sum, errors.Join(err, err2)
}

// sinkConn is one connection and the file that it writes.
type sinkConn struct {
	c      *Config
	fd     int
	file   *os.File
	buf    []byte // for copies
	r, w   int    // pipe
	lowat  int
	head   [headLen]byte
	answer [replyLen]byte
	n      SinkResult
}

func newSinkConn(c *Config, i int) (*sinkConn, error) {
	s := &sinkConn{c: c, fd: -1, r: -1, w: -1, lowat: 1}
	var err error
	if s.file, err = os.OpenFile(filepath.Join(c.Dir, strconv.Itoa(i)), os.O_RDWR|os.O_CREATE, 0600); err != nil {
		return nil, err
	}
	if c.Way == "copy" {
		s.buf, err = unix.Mmap(-1, 0, c.Size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_POPULATE)
	} else {
		err = s.pipe()
	}
	if err != nil {
		s.close()
		return nil, err
	}
	be.PutUint32(s.answer[:], 1<<31|(replyLen-4))
	return s, nil
}

func (s *sinkConn) pipe() error {
	var p [2]int
	if err := unix.Pipe2(p[:], unix.O_CLOEXEC|unix.O_NONBLOCK); err != nil {
		return err
	}
	s.r, s.w = p[0], p[1]
	_, err := unix.FcntlInt(uintptr(s.w), unix.F_SETPIPE_SZ, pipeSize)
	return err
}

func (s *sinkConn) close() {
	for _, fd := range []int{s.fd, s.r, s.w} {
		if fd >= 0 {
			unix.Close(fd)
		}
	}
	if s.buf != nil {
		unix.Munmap(s.buf)
	}
	s.file.Close()
}

// serve moves payloads until the peer closes the connection.
func (s *sinkConn) serve() error {
	for {
		if err := s.recv(s.head[:], nil); err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
		off, size, pad, err := parseHead(s.head[:])
		if err != nil {
			return err
		}
		if size > s.c.Size {
			return errHead
		}
		if s.c.Way == "copy" {
			err = s.copy(off, size)
		} else {
			err = s.splice(off, size)
		}
		if err != nil {
			return fmt.Errorf("%s of %d bytes at %d: %w", s.c.Way, size, off, err)
		}
		if pad > 0 {
			var zeros [3]byte
			if err := s.recv(zeros[:pad], nil); err != nil {
				return err
			}
		}
		s.n.Records++
		s.n.Bytes += int64(size)
		copy(s.answer[4:], s.head[atXID:atXID+4])
		if err := s.reply(); err != nil {
			return err
		}
	}
}

// recv fills b. It is io.EOF when the stream ends before the first byte.
func (s *sinkConn) recv(b []byte, calls *int64) error {
	for n := 0; n < len(b); {
		m, _, err := unix.Recvfrom(s.fd, b[n:], 0)
		if calls != nil {
			*calls++
		}
		switch {
		case err == unix.EINTR:
		case err == unix.EAGAIN:
			if err := s.wait(len(b)-n, unix.POLLIN); err != nil {
				return err
			}
		case err != nil:
			return err
		case m == 0 && n == 0:
			return io.EOF
		case m == 0:
			return io.ErrUnexpectedEOF
		default:
			n += m
		}
	}
	return nil
}

// wait waits until want bytes can be read, as far as the kernel goes along, or
// until the socket takes more.
func (s *sinkConn) wait(want int, events int16) error {
	if want != s.lowat && events == unix.POLLIN {
		if err := unix.SetsockoptInt(s.fd, unix.SOL_SOCKET, unix.SO_RCVLOWAT, want); err != nil {
			return err
		}
		s.lowat = want
		s.n.Lowats++
	}
	p := []unix.PollFd{{Fd: int32(s.fd), Events: events}}
	s.n.Waits++
	if _, err := unix.Poll(p, -1); err != nil && err != unix.EINTR {
		return err
	}
	return nil
}

func (s *sinkConn) reply() error {
	for b := s.answer[:]; len(b) > 0; {
		n, err := unix.SendmsgN(s.fd, b, nil, nil, unix.MSG_NOSIGNAL)
		switch err {
		case nil:
			b = b[n:]
		case unix.EINTR:
		case unix.EAGAIN:
			if err := s.wait(0, unix.POLLOUT); err != nil {
				return err
			}
		default:
			return err
		}
	}
	return nil
}

func (s *sinkConn) copy(off int64, size int) error {
	b := s.buf[:size]
	if err := s.recv(b, &s.n.In); err != nil {
		return err
	}
	for len(b) > 0 {
		n, err := unix.Pwrite(int(s.file.Fd()), b, off)
		s.n.Out++
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return err
		}
		b = b[n:]
		off += int64(n)
	}
	return nil
}

// splice moves size bytes from the socket through the pipe to the file at off.
func (s *sinkConn) splice(off int64, size int) error {
	held := 0
	for left := size; left > 0; {
		n, err := unix.Splice(s.fd, nil, s.w, nil, left, unix.SPLICE_F_MOVE|unix.SPLICE_F_NONBLOCK)
		s.n.In++
		switch {
		case err == unix.EINTR:
			continue
		case err == unix.EAGAIN:
			// Nothing in the socket, or no room in the pipe: the call does not say which.
			there, err := unix.IoctlGetInt(s.fd, unix.SIOCINQ)
			if err != nil {
				return err
			}
			if held > 0 && there > 0 {
				s.n.Full++
				if err := s.drain(&off, held); err != nil {
					return err
				}
				held = 0
			} else if err := s.wait(left, unix.POLLIN); err != nil {
				return err
			}
			continue
		case err != nil:
			return err
		case n == 0:
			return io.ErrUnexpectedEOF
		}
		left -= int(n)
		held += int(n)
		if s.c.Way == "arrival" {
			if err := s.drain(&off, held); err != nil {
				return err
			}
			held = 0
		}
	}
	return s.drain(&off, held)
}

// drain empties the pipe of its n bytes.
func (s *sinkConn) drain(off *int64, n int) error {
	piece := n
	if s.c.Way == "4k" {
		piece = 4096
	}
	for n > 0 {
		m, err := unix.Splice(s.r, nil, int(s.file.Fd()), off, min(n, piece), unix.SPLICE_F_MOVE)
		s.n.Out++
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return err
		}
		if m == 0 {
			return errors.New("the pipe holds less than was counted")
		}
		n -= int(m)
	}
	return nil
}
