package payload

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// move runs a Sink and a Source of the same configuration.
func move(t *testing.T, c Config) SinkResult {
	t.Helper()
	port := make(chan int, 1)
	type end struct {
		r   SinkResult
		err error
	}
	done := make(chan end, 1)
	go func() {
		r, err := Sink(c, func(p int) { port <- p })
		done <- end{r, err}
	}()
	select {
	case p := <-port:
		if _, err := Source(c, p); err != nil {
			t.Fatal(err)
		}
	case e := <-done:
		t.Fatal("the sink ended: ", e.err)
	}
	e := <-done
	if e.err != nil {
		t.Fatal(e.err)
	}
	return e.r
}

// TestWays: every way leaves the same file, whatever the size and the place.
func TestWays(t *testing.T) {
	for _, way := range Ways {
		for _, size := range []int{1, 4096, 47_008, 65_535, 1 << 20, MaxSize} {
			t.Run(fmt.Sprintf("%s/%d", way, size), func(t *testing.T) {
				c := Config{Way: way, Dir: t.TempDir(), Size: size, Conns: 2, Depth: 3, Bytes: int64(5 * size), Span: int64(4 * size), Skew: 100, Mark: true}
				r := move(t, c)
				if r.Records != 10 || r.Bytes != int64(10*size) || r.In < 10 || r.Out < 10 {
					t.Errorf("%+v", r)
				}
				if least := int64(10 * ((size + 4095) / 4096)); way == "4k" && r.Out < least {
					t.Errorf("%d calls to the file, want at least %d", r.Out, least)
				}
				for i := range c.Conns {
					b, err := os.ReadFile(filepath.Join(c.Dir, strconv.Itoa(i)))
					if err != nil {
						t.Fatal(err)
					}
					if len(b) != 100+4*size {
						t.Fatalf("a file of %d bytes", len(b))
					}
					for at, have := range b {
						if at < 100 && have != 0 || at >= 100 && have != Pattern(int64(at)) {
							t.Fatalf("file %d: %#x at %d", i, have, at)
						}
					}
				}
			})
		}
	}
}

// TestSinkRefuses: records that are not what was agreed on end the run, and
// so does a stream that ends within one; nothing of them reaches the file.
func TestSinkRefuses(t *testing.T) {
	for name, b := range map[string][]byte{
		"head":    make([]byte, headLen),
		"size":    newHead(8192),
		"cut":     newHead(4096)[:50],
		"payload": append(newHead(4096), make([]byte, 100)...),
	} {
		for _, way := range []string{"copy", "splice"} {
			t.Run(name+"/"+way, func(t *testing.T) {
				c := Config{Way: way, Dir: t.TempDir(), Size: 4096, Conns: 1, Depth: 1, Bytes: 1, Span: 4096}
				port := make(chan int, 1)
				done := make(chan error, 1)
				go func() {
					_, err := Sink(c, func(p int) { port <- p })
					done <- err
				}()
				fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
				if err != nil {
					t.Fatal(err)
				}
				if err := unix.Connect(fd, &unix.SockaddrInet4{Port: <-port, Addr: [4]byte{127, 0, 0, 1}}); err != nil {
					t.Fatal(err)
				}
				if _, err := unix.Write(fd, b); err != nil {
					t.Fatal(err)
				}
				unix.Shutdown(fd, unix.SHUT_WR)
				if err := <-done; err == nil {
					t.Error("no error")
				}
				unix.Close(fd)
				if st, err := os.Stat(filepath.Join(c.Dir, "0")); err != nil || st.Size() != 0 {
					t.Errorf("%v, %v", st, err)
				}
			})
		}
	}
}

func TestConfig(t *testing.T) {
	good := Config{Way: "splice", Size: 1, Conns: 1, Depth: 1, Bytes: 1, Span: 1}
	if err := good.check(); err != nil {
		t.Error(err)
	}
	for want, change := range map[string]func(*Config){
		"way":         func(c *Config) { c.Way = "" },
		"size":        func(c *Config) { c.Size = MaxSize + 1 },
		"connections": func(c *Config) { c.Conns = 0 },
		"depth":       func(c *Config) { c.Depth = MaxDepth + 1 },
		"span":        func(c *Config) { c.Span = 0 },
	} {
		c := good
		change(&c)
		if err := c.check(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}
