// WRITE payloads from socket to file, spliced against received and written:
// package payload's two ends, each a process of its own.

package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"sluice/test/bench/load"
	"sluice/test/bench/payload"
)

var writeSizes = []int{64 << 10, 128 << 10, 256 << 10, 512 << 10, 1 << 20}

const (
	rewritten = 256 << 20 // file bytes written over and over, of all connections together
	perSecond = 1 << 30   // bytes of a run, for each second that it should take about
)

func (b *bench) writeMatches() ([]match, error) {
	if err := b.mountOthers(); err != nil {
		return nil, err
	}
	var matches []match
	add := func(fs, work string, fresh bool, size, conns, depth int, ways ...string) {
		c := match{FS: fs, Work: work, Shape: shape(conns, depth), Size: size}
		for _, name := range ways {
			c.ways = append(c.ways, way{name, b.moving(fs, name, fresh, size, conns, depth)})
		}
		matches = append(matches, c)
	}
	for _, fs := range []string{"disk", dirXFS} {
		for _, work := range []string{"rewritten", "new"} {
			for _, sh := range shapes {
				if fs == dirXFS && sh.conns > 1 {
					continue
				}
				for _, size := range writeSizes {
					add(fs, work, work == "new", size, sh.conns, sh.depth, "copy", "splice")
				}
			}
		}
	}
	for _, size := range []int{64 << 10, 1 << 20} {
		add("disk", "rewritten, other ways", false, size, 1, 8, "copy", "splice", "arrival", "4k")
	}
	for _, sh := range shapes {
		for _, size := range []int{256 << 10, 1 << 20} {
			add("disk", "rewritten, beside sluice", false, size, sh.conns, sh.depth, "copy", "splice")
			m := &matches[len(matches)-1]
			j := job{op: "write", file: writeFile, size: size, conns: sh.conns, depth: sh.depth, secs: b.o.secs}
			write := b.loading(b.main, j)
			m.ways = append(m.ways, way{"sluice", func() (sample, error) {
				if err := b.settle(); err != nil {
					return sample{}, err
				}
				return write()
			}})
		}
	}
	for _, size := range []int{64 << 10, 256 << 10, 1 << 20} {
		add("disk", "rewritten, small packets", false, size, 1, 8, "copy", "splice")
		m := &matches[len(matches)-1]
		m.kernel = true // ksoftirqd hands the packets over
		for i := range m.ways {
			m.ways[i].run = smallPackets(m.ways[i].run)
		}
	}
	return matches, nil
}

// moving returns a run: a sink with its files, and a source.
func (b *bench) moving(fs, name string, fresh bool, size, conns, depth int) func() (sample, error) {
	bytes := int64(b.o.secs*perSecond) / int64(conns)
	dir := filepath.Join(b.data, fs, "sink")
	if fs == "disk" {
		dir = filepath.Join(b.data, dirSync, "sink")
	}
	c := payload.Config{Way: name, Dir: dir, Size: size, Conns: conns, Depth: depth, Bytes: bytes, Span: int64(rewritten / conns)}
	if fresh {
		c.Span = (bytes/int64(size) + 1) * int64(size)
	}
	return func() (sample, error) {
		if err := b.prepare(c, fresh); err != nil {
			return sample{}, err
		}
		var in payload.SinkResult
		var out payload.SourceResult
		others, err := watch(func() (err error) {
			in, out, err = b.transfer(c)
			return err
		})
		if err != nil {
			return sample{}, err
		}
		gb := float64(in.Bytes) / 1e9
		return sample{
			GBPerSec: gb / out.Seconds, CPUPerGB: in.CPU / gb, PeerCPU: out.CPU / gb, Others: others,
			Full:    float64(in.Full) / float64(in.Records),
			InBytes: float64(in.Bytes) / float64(in.In), OutBytes: float64(in.Bytes) / float64(in.Out),
		}, nil
	}
}

// prepare makes the sink's files as they have to be, and all of the disk clean.
func (b *bench) prepare(c payload.Config, fresh bool) error {
	if err := os.MkdirAll(c.Dir, 0755); err != nil {
		return err
	}
	for i := range payload.MaxConns {
		path := filepath.Join(c.Dir, strconv.Itoa(i))
		have, want := int64(-1), int64(-1) // sizes, -1 for no file
		if st, err := os.Stat(path); err == nil {
			have = st.Size()
		}
		if i < c.Conns && !fresh {
			want = c.Span
		}
		if have == want {
			continue
		}
		if have >= 0 {
			if err := os.Remove(path); err != nil {
				return err
			}
		}
		if want >= 0 {
			if err := load.FillFile(path, want); err != nil {
				return err
			}
		}
	}
	for _, d := range []string{c.Dir, b.data} {
		f, err := os.Open(d)
		if err != nil {
			return err
		}
		err = unix.Syncfs(int(f.Fd()))
		f.Close()
		if err != nil {
			return err
		}
	}
	return nil
}

// transfer runs the two ends as processes of their own.
func (b *bench) transfer(c payload.Config) (in payload.SinkResult, out payload.SourceResult, err error) {
	text, err := json.Marshal(c)
	if err != nil {
		return in, out, err
	}
	start := func(end string, more ...string) (*exec.Cmd, *bufio.Reader, error) {
		cmd := exec.Command("/proc/self/exe", append([]string{"-end", end, "-config", string(text)}, more...)...)
		cmd.Stderr = os.Stderr
		cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
		pipe, err := cmd.StdoutPipe()
		if err == nil {
			err = cmd.Start()
		}
		return cmd, bufio.NewReader(pipe), err
	}
	sink, from, err := start("sink")
	if err != nil {
		return in, out, err
	}
	stop := time.AfterFunc(2*time.Minute, func() { sink.Process.Kill() })
	defer stop.Stop()
	defer sink.Wait()
	port, err := from.ReadString('\n')
	if err != nil {
		return in, out, fmt.Errorf("sink: %w", err)
	}
	source, from2, err := start("source", "-port", strings.TrimSpace(port))
	if err == nil {
		err = json.NewDecoder(from2).Decode(&out)
		if err2 := source.Wait(); err == nil {
			err = err2
		}
	}
	if err != nil {
		sink.Process.Kill()
		return in, out, fmt.Errorf("source: %w", err)
	}
	if err := json.NewDecoder(from).Decode(&in); err != nil {
		return in, out, fmt.Errorf("sink: %w", err)
	}
	return in, out, nil
}

// endpoint is one of the two ends.
func endpoint(o *options, out io.Writer) error {
	var c payload.Config
	if err := json.Unmarshal([]byte(o.config), &c); err != nil {
		return err
	}
	if o.end == "sink" {
		r, err := payload.Sink(c, func(port int) { fmt.Fprintln(out, port) })
		if err != nil {
			return err
		}
		return json.NewEncoder(out).Encode(r)
	}
	r, err := payload.Source(c, o.port)
	if err != nil {
		return err
	}
	return json.NewEncoder(out).Encode(r)
}

// smallPackets runs f with a loopback device that hands over packets of 1,500
// bytes one by one, as a network card does that joins none.
func smallPackets(f func() (sample, error)) func() (sample, error) {
	return func() (sample, error) {
		if err := loopback(1500, 0); err != nil {
			return sample{}, err
		}
		s, err := f()
		if err2 := loopback(65536, 1); err == nil {
			err = err2
		}
		return s, err
	}
}

// loopback sets lo's MTU, and whether it takes packets that are cut later. The
// network namespace is the program's own.
func loopback(mtu int, offload uint32) error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	const setTSO, setGSO = 0x1f, 0x24 // ETHTOOL_STSO, ETHTOOL_SGSO
	for _, cmd := range []uint32{setTSO, setGSO} {
		value := [2]uint32{cmd, offload}
		request := struct {
			name [unix.IFNAMSIZ]byte
			data unsafe.Pointer
			_    [16]byte
		}{data: unsafe.Pointer(&value)}
		copy(request.name[:], "lo")
		if _, _, e := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.SIOCETHTOOL, uintptr(unsafe.Pointer(&request))); e != 0 {
			return fmt.Errorf("set offload %#x of lo to %d: %w", cmd, offload, e)
		}
	}
	if out, err := exec.Command("ip", "link", "set", "lo", "mtu", strconv.Itoa(mtu)).CombinedOutput(); err != nil {
		return fmt.Errorf("set the MTU of lo to %d: %w: %s", mtu, err, out)
	}
	return nil
}
