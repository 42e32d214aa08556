// Experiment 3: how much of a neighbour's page cache survives a stream.

package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"time"
)

var neighbour = experiment{
	name: "neighbour", file: "lab-3-neighbour", title: "What a stream leaves of a neighbour's page cache",
	text: `A small server that does something else too: in the server's cgroup another process has read files of a quarter of the
memory, once before the stream, or again every half second while it goes on. Then 8 jobs, 1 MiB, 4 in flight each, stream once through 3.125
times memory. cachestat(2) tells what is left of the neighbour's files in the page cache.`,
	groups: func(l *lab) (list []*group) {
		for _, keeps := range []bool{false, true} {
			if l.o.quick && !keeps {
				continue
			}
			for _, op := range []string{"read", "write"} {
				how := "read once before"
				if keeps {
					how = "read again and again"
				}
				list = append(list, &group{
					Name:     fmt.Sprintf("files %s, %s stream, ext4", how, opName(op)),
					settings: l.modes(), columns: neighbourColumns,
					measure: func(ctx context.Context, s setting) (sample, error) { return l.neighbourOnce(ctx, s, op, keeps) },
				})
			}
		}
		return list
	},
}

// neighbourState is what became of the neighbour's files.
type neighbourState struct {
	Bytes       int64 `json:"bytes"` // of its files
	CachedStart int64 `json:"cached_start_bytes"`
	CachedEnd   int64 `json:"cached_end_bytes"`
	// Passes through the files while the stream went on, and the times of the
	// first one, of the slowest while the stream went on, and of one after it.
	Passes    int     `json:"passes"`
	FirstMS   float64 `json:"first_ms"`
	SlowestMS float64 `json:"slowest_ms"`
	AfterMS   float64 `json:"after_ms"`
}

func (l *lab) neighbourOnce(ctx context.Context, s setting, op string, keeps bool) (x sample, err error) {
	d, err := l.disk("ext4")
	if err != nil {
		return x, err
	}
	own, err := d.dataset("neighbour", 4, l.o.memory/16)
	if err != nil {
		return x, err
	}
	big, err := l.bigSet(d)
	if err != nil {
		return x, err
	}
	if err := l.cool(); err != nil {
		return x, err
	}
	n, err := l.startNeighbour(own, keeps)
	if err != nil {
		return x, err
	}
	defer n.kill()
	sv, err := l.start(ctx, d, s.read, s.write)
	if err != nil {
		return x, err
	}
	defer func() { err = errors.Join(err, sv.stop()) }()
	st := &neighbourState{Bytes: own.bytes()}
	if st.CachedStart, err = own.cached(); err != nil {
		return x, err
	}
	w := load{op: op, pattern: "sequential", jobs: min(8, l.streamJobs()), depth: 4, block: 1 << 20, seconds: 120, passes: 1}
	x.Use, err = l.watch(sv.pid(), d, func() (err error) {
		x.Run, err = l.drive(ctx, sv, big, w)
		return err
	})
	if err != nil {
		return x, err
	}
	if st.CachedEnd, err = own.cached(); err != nil {
		return x, err
	}
	times, err := n.end()
	if err != nil {
		return x, err
	}
	st.FirstMS, st.AfterMS, st.Passes = times[0], times[len(times)-1], len(times)-2
	for _, t := range times[1 : len(times)-1] {
		st.SlowestMS = max(st.SlowestMS, t)
	}
	x.Neighbour = st
	x.Resident, err = big.cached()
	return x, errors.Join(err, sv.alive())
}

// neighbourCommand is this program's first argument when it is the neighbour.
const neighbourCommand = "neighbour-process"

// pause is between the ends and the starts of the neighbour's passes.
const pause = 500 * time.Millisecond

// process is a running neighbour.
type process struct {
	cmd *exec.Cmd
	in  io.Closer
	out *bufio.Reader
	err strings.Builder
}

// startNeighbour starts a neighbour in the cgroup and waits for its first pass.
func (l *lab) startNeighbour(set *dataset, keeps bool) (*process, error) {
	argv := l.cgroup.Command(append([]string{l.self, neighbourCommand, fmt.Sprintf("-again=%t", keeps)}, set.files...))
	n := &process{cmd: exec.Command(argv[0], argv[1:]...)}
	n.cmd.Stderr = &n.err
	in, err1 := n.cmd.StdinPipe()
	out, err2 := n.cmd.StdoutPipe()
	if err := errors.Join(err1, err2, n.cmd.Start()); err != nil {
		return nil, err
	}
	n.in, n.out = in, bufio.NewReader(out)
	if line, err := n.out.ReadString('\n'); err != nil || line != "ready\n" {
		n.kill()
		return nil, fmt.Errorf("the neighbour does not start: %q, %w: %s", line, err, n.err.String())
	}
	return n, nil
}

// end ends the neighbour after a last pass, and returns how long each took, in milliseconds.
func (n *process) end() (times []float64, err error) {
	n.in.Close()
	err = json.NewDecoder(n.out).Decode(&times)
	err = errors.Join(err, n.cmd.Wait())
	if err != nil || len(times) < 2 {
		return nil, fmt.Errorf("the neighbour: %d passes, %w: %s", len(times), err, n.err.String())
	}
	return times, nil
}

// kill ends the neighbour if it is still there.
func (n *process) kill() {
	if n.cmd.ProcessState == nil {
		n.cmd.Process.Kill()
		n.cmd.Wait()
	}
}

// neighbourMain is the neighbour: it reads its files, says so, reads them again
// every now and then if it is told to, and once more when its input ends.
func neighbourMain(args []string) error {
	flags := flag.NewFlagSet(neighbourCommand, flag.ContinueOnError)
	again := flags.Bool("again", false, "read the files again and again")
	if err := flags.Parse(args); err != nil {
		return err
	}
	var times []float64
	buf := make([]byte, 64<<10)
	pass := func() error {
		start := time.Now()
		for _, name := range flags.Args() {
			if err := readAll(name, buf); err != nil {
				return err
			}
		}
		times = append(times, float64(time.Since(start).Microseconds())/1e3)
		return nil
	}
	if err := pass(); err != nil {
		return err
	}
	fmt.Println("ready")
	ended := make(chan struct{})
	go func() {
		io.Copy(io.Discard, os.Stdin)
		close(ended)
	}()
	for done := false; !done; {
		var next <-chan time.Time
		if *again {
			next = time.After(pause)
		}
		select {
		case <-ended:
			done = true
		case <-next:
		}
		if err := pass(); err != nil {
			return err
		}
	}
	return json.NewEncoder(os.Stdout).Encode(times)
}

func readAll(name string, buf []byte) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	for {
		if _, err := f.Read(buf); err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
	}
}
