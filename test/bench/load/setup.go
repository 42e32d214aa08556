package load

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// target holds the handles that the calls of a run are about.
type target struct {
	dir, file []byte
	size      uint64    // of file
	v41       *client41 // in sessions: who has the file open
}

// client makes one call at a time over one connection. It serves set-up and
// checks; the measurement does not use it.
type client struct {
	c    net.Conn
	r    *bufio.Reader
	uid  uint32
	xid  uint32
	rest []byte // of the current reply, behind the RPC header
}

func newClient(c *Config, port int) (*client, error) {
	fd, err := dial(c, port)
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), "nfs")
	defer f.Close()
	nc, err := net.FileConn(f)
	if err != nil {
		return nil, err
	}
	return &client{c: nc, r: bufio.NewReader(nc), uid: c.UIDs[0], xid: rand.Uint32()}, nil
}

// dial connects to the server and returns a blocking socket.
func dial(c *Config, port int) (int, error) {
	ip := net.ParseIP(c.Addr).To4()
	if ip == nil {
		return -1, fmt.Errorf("address %q: want an IPv4 address", c.Addr)
	}
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	if err := connect(fd, c, &unix.SockaddrInet4{Port: port, Addr: [4]byte(ip)}); err != nil {
		unix.Close(fd)
		return -1, fmt.Errorf("connect to %s:%d: %w", c.Addr, port, err)
	}
	return fd, nil
}

func connect(fd int, c *Config, to *unix.SockaddrInet4) error {
	if err := unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1); err != nil {
		return err
	}
	if c.Reserved {
		err := error(unix.EADDRINUSE)
		for p := 1023; p > 600 && err != nil; p-- {
			err = unix.Bind(fd, &unix.SockaddrInet4{Port: p})
		}
		if err != nil {
			return fmt.Errorf("no source port below 1024: %w", err)
		}
	}
	err := unix.Connect(fd, to)
	if err != unix.EINTR {
		return err
	}
	// An interrupted connect goes on by itself: wait for its end.
	for {
		if _, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLOUT}}, -1); err != unix.EINTR {
			break
		}
	}
	e, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_ERROR)
	if err == nil && e != 0 {
		err = unix.Errno(e)
	}
	return err
}

func (c *client) close() { c.c.Close() }

func (c *client) call(m *message) error {
	c.xid++
	be.PutUint32(m.b[atXID:], c.xid)
	c.c.SetDeadline(time.Now().Add(30 * time.Second))
	if _, err := c.c.Write(m.finish(0)); err != nil {
		return err
	}
	return c.reply()
}

// reply reads one record into c.rest and checks its RPC header.
func (c *client) reply() error {
	var rec []byte
	for last := false; !last; {
		var h [4]byte
		if _, err := io.ReadFull(c.r, h[:]); err != nil {
			return fmt.Errorf("no reply: %w", err)
		}
		n := be.Uint32(h[:])
		last = n>>31 != 0
		n &= 0x7fffffff
		if int(n)+len(rec) > MaxSize+4096 {
			return fmt.Errorf("reply of %d bytes", int(n)+len(rec))
		}
		rec = append(rec, make([]byte, n)...)
		if _, err := io.ReadFull(c.r, rec[len(rec)-int(n):]); err != nil {
			return err
		}
	}
	if _, err := verdict(append([]byte{0, 0, 0, 0}, rec...), kindNull, 0); err != nil {
		return err
	}
	c.rest = rec[24:]
	return nil
}

func (c *client) u32() uint32 {
	if len(c.rest) < 4 {
		c.rest = nil
		return 0
	}
	v := be.Uint32(c.rest)
	c.rest = c.rest[4:]
	return v
}

func (c *client) opaque() []byte {
	n := int(c.u32())
	if n > len(c.rest) {
		return nil
	}
	p := c.rest[:n]
	c.rest = c.rest[min((n+3)&^3, len(c.rest)):]
	return bytes.Clone(p)
}

var errNoEnt = errors.New("no such file or directory")

func (c *client) status(what string) error {
	switch s := c.u32(); s {
	case 0:
		return nil
	case 2:
		return fmt.Errorf("%s: %w", what, errNoEnt)
	default:
		return fmt.Errorf("%s: NFS status %d", what, s)
	}
}

func (c *client) mount(path string) ([]byte, error) {
	m := newCall(progMount, 3, mountMnt, c.uid)
	m.opaque([]byte(path))
	if err := c.call(m); err != nil {
		return nil, fmt.Errorf("MNT %s: %w", path, err)
	}
	if err := c.status("MNT " + path); err != nil {
		return nil, err
	}
	return c.opaque(), nil
}

func (c *client) lookup(dir []byte, name string) ([]byte, error) {
	m := newCall(progNFS, 3, procLookup, c.uid)
	m.opaque(dir)
	m.opaque([]byte(name))
	if err := c.call(m); err != nil {
		return nil, fmt.Errorf("LOOKUP %s: %w", name, err)
	}
	if err := c.status("LOOKUP " + name); err != nil {
		return nil, err
	}
	return c.opaque(), nil
}

func (c *client) create(dir []byte, name string) ([]byte, error) {
	m := newCall(progNFS, 3, procCreate, c.uid)
	m.opaque(dir)
	m.opaque([]byte(name))
	for _, v := range []uint32{0, 1, 0666, 0, 0, 0, 0, 0} {
		m.u32(v)
	}
	if err := c.call(m); err != nil {
		return nil, fmt.Errorf("CREATE %s: %w", name, err)
	}
	if err := c.status("CREATE " + name); err != nil {
		return nil, err
	}
	if c.u32() == 0 {
		return c.lookup(dir, name)
	}
	return c.opaque(), nil
}

func (c *client) fileSize(fh []byte) (uint64, error) {
	m := newCall(progNFS, 3, procGetattr, c.uid)
	m.opaque(fh)
	if err := c.call(m); err != nil {
		return 0, fmt.Errorf("GETATTR: %w", err)
	}
	if err := c.status("GETATTR"); err != nil {
		return 0, err
	}
	if len(c.rest) < 84 {
		return 0, fmt.Errorf("GETATTR: %d bytes of attributes", len(c.rest))
	}
	return be.Uint64(c.rest[20:]), nil
}

func (c *client) read(fh []byte, off uint64, size int) ([]byte, error) {
	m := newCall(progNFS, 3, procRead, c.uid)
	m.opaque(fh)
	m.u64(off)
	m.u32(uint32(size))
	if err := c.call(m); err != nil {
		return nil, fmt.Errorf("READ: %w", err)
	}
	return c.readReply()
}

// readReply takes the data out of the READ reply in c.rest.
func (c *client) readReply() ([]byte, error) {
	if err := c.status("READ"); err != nil {
		return nil, err
	}
	if c.u32() != 0 {
		c.rest = c.rest[min(84, len(c.rest)):]
	}
	n := c.u32()
	c.u32() // eof
	p := c.opaque()
	if len(p) != int(n) {
		return nil, fmt.Errorf("READ: count %d, %d bytes of data", n, len(p))
	}
	return p, nil
}

// find mounts export, walks dir and looks up file, which is created when
// create is set and it is missing. An empty file is not looked for.
func find(c *Config, export, dir, file string, create bool) (t target, err error) {
	m, err := newClient(c, c.MountPort)
	if err != nil {
		return t, err
	}
	t.dir, err = m.mount(export)
	m.close()
	if err != nil {
		return t, err
	}
	n, err := newClient(c, c.Port)
	if err != nil {
		return t, err
	}
	defer n.close()
	for _, name := range strings.Split(dir, "/") {
		if name == "" {
			continue
		}
		if t.dir, err = n.lookup(t.dir, name); err != nil {
			return t, err
		}
	}
	if file == "" {
		return t, nil
	}
	t.file, err = n.lookup(t.dir, file)
	if errors.Is(err, errNoEnt) && create {
		t.file, err = n.create(t.dir, file)
	}
	if err != nil {
		return t, err
	}
	t.size, err = n.fileSize(t.file)
	return t, err
}

// Pattern fills p with what the file made by FillFile holds at offset off,
// which must be a multiple of 8.
func Pattern(p []byte, off uint64) {
	for i := 0; i+8 <= len(p); i += 8 {
		binary.LittleEndian.PutUint64(p[i:], (off+uint64(i)+1)*0x9E3779B97F4A7C15)
	}
}

// FillFile makes (or overwrites) the file path with size bytes of Pattern, on
// stable storage. Size must be a multiple of 1 MiB.
func FillFile(path string, size int64) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer f.Close()
	buf := make([]byte, 1<<20)
	for off := int64(0); off < size; off += int64(len(buf)) {
		Pattern(buf, uint64(off))
		if _, err := f.Write(buf); err != nil {
			return err
		}
	}
	return f.Sync()
}

// reader returns what reads from the file outside of the measurement, and what
// is to be called when it is no longer needed.
func reader(c *Config, t target) (read func(off uint64, size int) ([]byte, error), done func(), err error) {
	if t.v41 != nil {
		return t.v41.read, func() {}, nil
	}
	n, err := newClient(c, c.Port)
	if err != nil {
		return nil, nil, err
	}
	return func(off uint64, size int) ([]byte, error) { return n.read(t.file, off, size) }, n.close, nil
}

// verifyRead compares the first, a middle and the last block of the file with
// Pattern.
func verifyRead(c *Config, t target) error {
	read, done, err := reader(c, t)
	if err != nil {
		return err
	}
	defer done()
	blocks := t.size / uint64(c.Size)
	want := make([]byte, c.Size&^7)
	for _, k := range []uint64{0, blocks / 2, blocks - 1} {
		off := k * uint64(c.Size) &^ 7
		got, err := read(off, c.Size)
		if err != nil {
			return err
		}
		Pattern(want, off)
		if len(got) != c.Size || !bytes.Equal(got[:len(want)], want) {
			return fmt.Errorf("READ of %d bytes at %d: wrong data", c.Size, off)
		}
	}
	return nil
}

// verifyWrite reads a block that was written back and compares it with the
// payload.
func verifyWrite(c *Config, t target, off uint64, payload []byte) error {
	read, done, err := reader(c, t)
	if err != nil {
		return err
	}
	defer done()
	got, err := read(off, c.Size)
	if err != nil {
		return err
	}
	if !bytes.Equal(got, payload[:c.Size]) {
		return fmt.Errorf("WRITE of %d bytes at %d: wrong data read back", c.Size, off)
	}
	return nil
}
