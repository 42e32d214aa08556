// The lab itself, and the server under measurement: sluice in a memory cgroup.

package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"sluice/test/measure"
)

// lab is one run of the program.
type lab struct {
	o          *options
	cgroup     *measure.Cgroup
	self       string // this program's file
	disks      map[string]*disk
	port       int // of the last server
	done, runs int // measurements of this experiment
}

func newLab(o *options) (*lab, error) {
	if err := os.MkdirAll(filepath.Join(o.work, dataDir), 0755); err != nil {
		return nil, err
	}
	cg, err := measure.NewCgroup(filepath.Base(o.work), o.memory)
	if err != nil {
		return nil, fmt.Errorf("a cgroup of %d MiB for the server: %w", o.memory>>20, err)
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	return &lab{o: o, self: self, cgroup: cg, disks: map[string]*disk{}, port: 13700}, nil
}

// close unmounts what is mounted. The end of the namespace would do it too, but
// not say what is still in use.
func (l *lab) close() error {
	var errs []error
	for _, d := range l.disks {
		if strings.Contains(d.what, "loop device") {
			errs = append(errs, unmount(d.dir))
		}
	}
	return errors.Join(append(errs, l.cgroup.Remove())...)
}

// progress prints a line for the person who waits.
func (l *lab) progress(format string, args ...any) {
	fmt.Fprintf(os.Stderr, format+"\n", args...)
}

const host = "127.0.0.1"

// server is a running sluice.
type server struct {
	port   int
	admin  string // its admin socket
	cmd    *exec.Cmd
	log    string
	exited chan struct{}
	err    error // of Wait, valid once exited is closed
}

func (s *server) pid() int { return s.cmd.Process.Pid }

// start starts a server in the cgroup that exports d, and waits until it
// accepts connections.
func (l *lab) start(ctx context.Context, d *disk, read, write string) (*server, error) {
	l.port++
	s := &server{port: l.port, exited: make(chan struct{})}
	at := func(suffix string) string { return filepath.Join(l.o.work, fmt.Sprintf("sluice-%d%s", s.port, suffix)) }
	s.log, s.admin = at(".log"), fmt.Sprintf("/run/sluice-%d.sock", s.port)
	exports := d.dir + " *(rw,no_root_squash,insecure,no_subtree_check,sync)\n"
	if err := os.WriteFile(at(".exports"), []byte(exports), 0644); err != nil {
		return nil, err
	}
	f, err := os.Create(s.log)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	argv := l.cgroup.Command([]string{l.o.sluice, "serve", "--exports", at(".exports"),
		"--listen", fmt.Sprintf("%s:%d", host, s.port), "--admin", s.admin,
		"--state", at(".state"), "--read-mode", read, "--write-mode", write, "--rpcbind", "off", "--log-format", "json"})
	s.cmd = exec.Command(argv[0], argv[1:]...)
	s.cmd.Stdout, s.cmd.Stderr = f, f
	if err := s.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		s.err = s.cmd.Wait()
		close(s.exited)
	}()
	if err := s.ready(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("sluice with --read-mode %s --write-mode %s: %w: %s", read, write, err, tail(s.log)), s.stop())
	}
	return s, nil
}

// ready waits for the port, at most 30 s.
func (s *server) ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	for {
		var d net.Dialer
		c, err := d.DialContext(ctx, "tcp", fmt.Sprintf("%s:%d", host, s.port))
		if err == nil {
			return c.Close()
		}
		select {
		case <-s.exited:
			return fmt.Errorf("it ended: %v", s.err)
		case <-ctx.Done():
			return fmt.Errorf("it does not accept connections: %w", err)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// alive is an error once the server has ended by itself.
func (s *server) alive() error {
	select {
	case <-s.exited:
		return fmt.Errorf("sluice ended while it was measured (%v): %s", s.err, tail(s.log))
	default:
		return nil
	}
}

// stop ends the server: SIGTERM, and SIGKILL after ten seconds.
func (s *server) stop() error {
	s.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-s.exited:
		return nil
	case <-time.After(10 * time.Second):
	}
	s.cmd.Process.Kill()
	<-s.exited
	return errors.New("sluice did not end within 10 s of SIGTERM")
}

// tail returns the last lines of a log.
func tail(path string) string {
	t, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(t)), "\n")
	return strings.Join(lines[max(0, len(lines)-5):], "\n")
}
