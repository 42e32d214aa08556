// Sending payloads to a socket: that what arrives is what was read, and what
// the two ways cost.

package dataio

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"testing"

	"golang.org/x/sys/unix"

	"sluice/pkg/filecache"
)

// drainEnv makes the test binary a program that reads descriptor 3 until it
// ends, so that benchmarks count the sender's CPU time alone.
const drainEnv = "SLUICE_DATAIO_DRAIN"

func drain() {
	buf := make([]byte, 1<<20)
	for {
		if n, err := unix.Read(3, buf); n <= 0 && err != unix.EINTR {
			os.Exit(0)
		}
	}
}

// tcpPair returns the two ends of a loopback connection; the first is
// nonblocking. With tight, it takes little at a time.
func tcpPair(t testing.TB, tight bool) (int, *os.File) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	c, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	s, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	far, err := c.(*net.TCPConn).File()
	if err != nil {
		t.Fatal(err)
	}
	near, err := s.(*net.TCPConn).File()
	if err != nil {
		t.Fatal(err)
	}
	c.Close()
	s.Close()
	if tight {
		for fd, opt := range map[int]int{int(near.Fd()): unix.SO_SNDBUF, int(far.Fd()): unix.SO_RCVBUF} {
			if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, opt, 100<<10); err != nil {
				t.Fatal(err)
			}
		}
	}
	fd, err := unix.FcntlInt(near.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	near.Close()
	if err := unix.SetNonblock(fd, true); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(fd) })
	return fd, far
}

// drained returns a socket whose other end is read by another process.
func drained(t testing.TB) (fd int, stop func()) {
	t.Helper()
	fd, far := tcpPair(t, false)
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), drainEnv+"=1")
	cmd.ExtraFiles = []*os.File{far}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	far.Close()
	return fd, func() {
		unix.Shutdown(fd, unix.SHUT_RDWR)
		if err := cmd.Wait(); err != nil {
			t.Error(err)
		}
	}
}

var (
	pollBuf [1]unix.PollFd
	header  [128]byte
)

// send does what rpc does with a reply: a header, then the payload.
func send(t testing.TB, sock int, res ReadRes) {
	for sent := 0; sent < len(header); {
		n, err := unix.SendmsgN(sock, header[sent:], nil, nil, unix.MSG_MORE|unix.MSG_DONTWAIT)
		if err == unix.EAGAIN {
			wait(sock)
		} else if err != nil {
			t.Fatal(err)
		} else {
			sent += n
		}
	}
	sendPayload(t, sock, res)
}

func wait(sock int) {
	pollBuf[0] = unix.PollFd{Fd: int32(sock), Events: unix.POLLOUT}
	unix.Poll(pollBuf[:], -1) //nolint:errcheck // tried again in any case
}

func sendPayload(t testing.TB, sock int, res ReadRes) {
	for res.Data != nil && res.Data.Len() > 0 {
		var n int
		var err error
		if b, ok := res.Data.Bytes(); ok {
			if n, err = unix.Write(sock, b); err == nil {
				res.Data.Advance(n)
			}
		} else {
			n, err = res.Data.SendTo(sock)
		}
		if err == unix.EAGAIN {
			wait(sock)
		} else if err != nil {
			t.Fatal(err)
		} else if n <= 0 {
			t.Fatal("nothing sent, and no error")
		}
	}
	if res.Data != nil {
		res.Data.Release()
	}
}

// TestSend sends payloads of every kind through a socket that takes them in
// pieces.
func TestSend(t *testing.T) {
	p, model := holeyFile(t, t.TempDir(), 5<<20)
	for _, way := range ways {
		t.Run(way.name, func(t *testing.T) {
			r := newRig(t, way.cfg, way.cache)
			if way.set != nil {
				way.set(r.e)
			}
			sock, far := tcpPair(t, true)
			defer far.Close()
			f := r.file(p)
			for _, n := range []uint32{1, 4096, 100001, 1 << 20, 4 << 20} {
				res, err := r.e.Read(r.th, &ReadReq{File: f, Offset: 4095, Count: n, Mode: way.mode, First: !way.later, Splice: way.splice})
				if err != nil {
					t.Fatal(err)
				}
				got := make([]byte, res.N)
				done := make(chan error)
				go func() {
					_, err := io.ReadFull(far, got)
					done <- err
				}()
				sendPayload(t, sock, res)
				if err := <-done; err != nil {
					t.Fatal(err)
				}
				if !bytes.Equal(got, model[4095:4095+res.N]) {
					t.Errorf("%d bytes: wrong ones arrived", n)
				}
			}
		})
	}
}

// TestAbandoned: a reply given up half way leaves nothing behind, and its
// pipe's bytes do not turn up in another reply.
func TestAbandoned(t *testing.T) {
	p, model := holeyFile(t, t.TempDir(), 3<<20)
	r := newRig(t, Config{Pipes: 2}, filecache.Config{})
	f := r.file(p)
	for i := range 20 {
		sock, far := tcpPair(t, true)
		res, err := r.e.Read(r.th, &ReadReq{File: f, Offset: 100, Count: 1 << 20, Splice: true})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := res.Data.SendTo(sock); err != nil {
			t.Fatal(err)
		}
		if i%2 == 0 {
			far.Close()
			for err = nil; err == nil && res.Data.Len() > 0; {
				_, err = res.Data.SendTo(sock)
			}
			if err == nil {
				t.Fatal("a closed connection took everything")
			}
		}
		res.Data.Release()
		far.Close()
		if got, _ := r.read(&ReadReq{File: f, Offset: 1 << 20, Count: 1 << 20, Splice: true}); !bytes.Equal(got, model[1<<20:2<<20]) {
			t.Fatal("wrong bytes after an abandoned reply")
		}
	}
	if st := r.e.Stats().Pipes; st.Dropped < 20 || st.InUse != 0 || st.Open > 2 {
		t.Errorf("%+v", st)
	}
}

// BenchmarkReply measures READ and reply over loopback TCP, copied and
// spliced: the figures behind DefaultSpliceMin
// (docs/decisions/0004-splice-min.md). cpu-us/op is this process's alone.
func BenchmarkReply(b *testing.B) {
	p := b.TempDir() + "/data"
	if err := os.WriteFile(p, make([]byte, 64<<20), 0o600); err != nil {
		b.Fatal(err)
	}
	for _, conns := range []int{1, 4} {
		for _, kib := range []int{4, 16, 32, 64, 128, 256, 1024} {
			for _, way := range []string{"copy", "splice"} {
				b.Run(fmt.Sprintf("conns=%d/size=%dK/%s", conns, kib, way), func(b *testing.B) {
					benchmarkReply(b, p, conns, kib<<10, way == "splice")
				})
			}
		}
	}
}

func benchmarkReply(b *testing.B, path string, conns, size int, splice bool) {
	cache := filecache.New(filecache.Config{Budget: 100})
	e, err := New(Config{Cache: cache, SpliceMin: 1})
	if err != nil {
		b.Fatal(err)
	}
	fd, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		b.Fatal(err)
	}
	f := cache.Insert(&filecache.Key{FS: 1}, fd, unix.S_IFREG)
	var socks []int
	for range conns {
		sock, stop := drained(b)
		defer stop()
		socks = append(socks, sock)
	}
	b.SetBytes(int64(size))
	b.ReportAllocs()
	before := cpuTime()
	b.ResetTimer()
	errs := make(chan error, conns)
	for i, sock := range socks {
		go func() {
			th := e.NewThread()
			q := &ReadReq{File: f, Count: uint32(size), Splice: splice}
			iov := make([][]byte, 2)
			var err error
			for j := i; j < b.N && err == nil; j += conns {
				q.Offset = uint64(j*size) % (64<<20 - uint64(size))
				var res ReadRes
				q.NoWait = true
				if res, err = e.Read(th, q); err == unix.EAGAIN {
					q.NoWait = false
					res, err = e.Read(th, q)
				}
				if err != nil {
					break
				}
				// As rpc does: header and bytes in one call, or the header with
				// MSG_MORE before a pipe.
				head := header[:]
				for err == nil && len(head)+res.Data.Len() > 0 {
					data, inMemory := res.Data.Bytes()
					var n int
					if inMemory {
						iov[0], iov[1] = head, data
						n, err = unix.SendmsgBuffers(sock, iov[:], nil, nil, 0)
					} else if len(head) > 0 {
						n, err = unix.SendmsgN(sock, head, nil, nil, unix.MSG_MORE)
					} else {
						_, err = res.Data.SendTo(sock)
					}
					if err == unix.EAGAIN {
						err = block(sock)
						continue
					}
					h := min(n, len(head))
					head = head[h:]
					if inMemory {
						res.Data.Advance(n - h)
					}
				}
				res.Data.Release()
			}
			errs <- err
		}()
	}
	for range socks {
		if err := <-errs; err != nil {
			b.Fatal(err)
		}
	}
	b.StopTimer()
	b.ReportMetric(float64(cpuTime()-before)/float64(b.N), "cpu-us/op")
	f.Release()
	cache.Close()
	if err := e.Close(); err != nil {
		b.Fatal(err)
	}
}

func block(sock int) error {
	p := [1]unix.PollFd{{Fd: int32(sock), Events: unix.POLLOUT}}
	for {
		if _, err := unix.Poll(p[:], -1); err != unix.EINTR {
			return err
		}
	}
}

// cpuTime returns this process's user and system time in microseconds.
func cpuTime() int64 {
	var ru unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &ru); err != nil {
		panic(err)
	}
	return (ru.Utime.Sec+ru.Stime.Sec)*1e6 + int64(ru.Utime.Usec+ru.Stime.Usec)
}

// BenchmarkRead measures READ alone, as far as the payload.
func BenchmarkRead(b *testing.B) {
	p := b.TempDir() + "/data"
	if err := os.WriteFile(p, make([]byte, 64<<20), 0o600); err != nil {
		b.Fatal(err)
	}
	cache := filecache.New(filecache.Config{Budget: 100})
	e, err := New(Config{Cache: cache, SpliceMin: 1})
	if err != nil {
		b.Fatal(err)
	}
	fd, err := unix.Open(p, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		b.Fatal(err)
	}
	f := cache.Insert(&filecache.Key{FS: 1}, fd, unix.S_IFREG)
	defer cache.Close()
	defer f.Release()
	th := e.NewThread()
	for _, kib := range []int{1, 4, 64, 1024} {
		for _, splice := range []bool{false, true} {
			b.Run(fmt.Sprintf("size=%dK/splice=%t", kib, splice), func(b *testing.B) {
				q := &ReadReq{File: f, Count: uint32(kib << 10), Splice: splice, NoWait: true}
				b.SetBytes(int64(kib << 10))
				b.ReportAllocs()
				var buf [1 << 20]byte
				for i := 0; b.Loop(); i++ {
					q.Offset = uint64(i*kib<<10) % (64<<20 - 1<<20)
					res, err := e.Read(th, q)
					if err != nil {
						b.Fatal(err)
					}
					if splice { // a pipe given back full would be closed
						if _, err := res.Data.ReadAll(buf[:]); err != nil {
							b.Fatal(err)
						}
					}
					res.Data.Release()
				}
			})
		}
	}
	b.Run("warm/size=1024K", func(b *testing.B) {
		fd, _ := f.Reader()
		for b.Loop() {
			if err := e.warm(th, fd, 0, 1<<20); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("cachestat/size=1024K", func(b *testing.B) {
		fd, _ := f.Reader()
		for b.Loop() {
			if _, err := e.cached(th, fd, 0, 1<<20); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("clock", func(b *testing.B) {
		for b.Loop() {
			now()
		}
	})
}
