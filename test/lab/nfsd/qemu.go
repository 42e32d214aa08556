// Plan of this file: one virtual machine, from its start to its end. Its first
// serial port is the kernel's console and goes to a file, its second brings
// events. A guest that is silent or runs for longer than its limits is killed; so
// is one whose starter dies.

package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"sluice/test/lab/nfsd/job"
)

const (
	guestMemory = "2G"
	maxLine     = 1 << 20
)

// A kind is a way to run the same guest. Without KVM, both translate its code.
type kind struct {
	Name string `json:"name"`
	Args string `json:"emulator_arguments"`
}

var (
	// counted has one processor, whose clock is the number of instructions that
	// it has executed, 8 ns each: what else the host does changes nothing, and
	// time in the guest is instructions. Only when the guest waits does the
	// clock follow real time.
	counted = kind{"counted", "-accel tcg,thread=single -icount shift=3,sleep=on -smp 1"}
	// parallel has two processors, each in a thread of the host.
	parallel = kind{"parallel", "-accel tcg,thread=multi -smp 2"}
)

func pickKinds(names string) ([]kind, error) {
	var picked []kind
	for name := range strings.SplitSeq(names, ",") {
		switch name {
		case counted.Name:
			picked = append(picked, counted)
		case parallel.Name:
			picked = append(picked, parallel)
		default:
			return nil, fmt.Errorf("no kind %q: want %s or %s", name, counted.Name, parallel.Name)
		}
	}
	return picked, nil
}

// machine is a virtual machine that is to run.
type machine struct {
	kind                 kind
	kernel, initrd, disk string
	cpu                  string
	console              string        // file for what the kernel prints
	limit, silence       time.Duration // of the whole run, and between two events
	command              []string      // in place of QEMU, for tests
}

// argv is QEMU's command line. The guest's clock is the time-stamp counter: any
// other one would cost a trip out of the guest at each look.
func (m *machine) argv() []string {
	if m.command != nil {
		return m.command
	}
	return slices.Concat([]string{"qemu-system-x86_64", "-cpu", m.cpu}, strings.Fields(m.kind.Args), []string{
		"-M", "q35", "-m", guestMemory, "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot",
		"-kernel", m.kernel, "-initrd", m.initrd,
		"-append", "console=ttyS0 quiet loglevel=4 panic=-1 rdinit=/init tsc=reliable clocksource=tsc",
		"-drive", "file=" + m.disk + ",if=none,id=disk,format=raw,cache=writeback",
		"-device", "virtio-blk-pci,drive=disk",
		"-serial", "file:" + m.console,
		"-chardev", "stdio,id=events,signal=off", "-serial", "chardev:events"})
}

// run runs the machine until it has powered off, and gives each of its events
// to take. It is an error if the last one does not say that all was done.
func (m *machine) run(ctx context.Context, take func(job.Event) error) (err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, m.limit, fmt.Errorf("the guest took longer than %v", m.limit))
	defer cancel()
	ctx, kill := context.WithCancelCause(ctx)
	defer kill(nil)
	argv := m.argv()
	cmd := exec.Command(argv[0], argv[1:]...)
	var messages bytes.Buffer
	cmd.Stderr = &messages
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: unix.SIGKILL, Setpgid: true}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	// The parent-death signal comes when the thread that started the child ends.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start the virtual machine: %w", err)
	}
	stop := context.AfterFunc(ctx, func() { cmd.Process.Kill() })
	defer stop()

	silence := time.AfterFunc(m.silence, func() { kill(fmt.Errorf("the guest said nothing for %v", m.silence)) })
	defer silence.Stop()
	done, err := readEvents(out, take, func() { silence.Reset(m.silence) })
	if err != nil {
		kill(err)
	}
	exit := cmd.Wait()
	switch {
	case ctx.Err() != nil:
		err = context.Cause(ctx)
	case exit != nil:
		err = fmt.Errorf("the virtual machine ended: %w", exit)
	case !done:
		err = errors.New("the guest ended before it was done")
	}
	if err != nil {
		err = fmt.Errorf("%w%s%s", err, section("messages of the virtual machine", messages.String()), section("end of its console", tail(m.console)))
	}
	return err
}

// readEvents gives events to take until the port is closed, and reports whether
// the one that says so ended them.
func readEvents(r io.Reader, take func(job.Event) error, heard func()) (done bool, err error) {
	s := bufio.NewScanner(r)
	s.Buffer(nil, maxLine)
	for s.Scan() {
		heard()
		line := bytes.TrimSpace(s.Bytes())
		if len(line) == 0 {
			continue
		}
		var e job.Event
		if err := json.Unmarshal(line, &e); err != nil {
			return false, fmt.Errorf("the guest said %.200q: %w", line, err)
		}
		done = done || e.Done
		if err := take(e); err != nil {
			return false, err
		}
	}
	return done, s.Err()
}

func section(title, text string) string {
	if text = strings.TrimSpace(text); text == "" {
		return ""
	}
	return "\n" + title + ":\n" + text
}

// tail returns the last lines of a file that may be long or not there.
func tail(path string) string {
	const most = 8 << 10
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	if st, err := f.Stat(); err == nil && st.Size() > most {
		f.Seek(-most, io.SeekEnd)
	}
	text, err := io.ReadAll(io.LimitReader(f, most))
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.ReplaceAll(strings.TrimSpace(string(text)), "\r", ""), "\n")
	return strings.Join(lines[max(0, len(lines)-40):], "\n")
}
