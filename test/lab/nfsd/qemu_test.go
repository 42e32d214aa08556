package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"sluice/test/lab/nfsd/job"
)

// fake is a machine whose virtual machine is a line of shell.
func fake(t *testing.T, line string) *machine {
	console := filepath.Join(t.TempDir(), "console")
	if err := os.WriteFile(console, []byte("booting\r\npanic: for example\r\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	return &machine{console: console, limit: time.Minute, silence: time.Minute, command: []string{"sh", "-c", line}}
}

func TestEvents(t *testing.T) {
	var said []string
	take := func(e job.Event) error {
		if e.Say == "refuse" {
			return errors.New("refused")
		}
		said = append(said, e.Say)
		return nil
	}
	const done = `echo '{"Done":true}'`
	for _, c := range []struct{ name, line, err string }{
		{"all done", `printf '{"Say":"a"}\r\n\r\n{"Say":"b"}\r\n'; ` + done, ""},
		{"ends early", `echo '{"Say":"a"}'`, "the guest ended before it was done"},
		{"fails", done + `; echo no such CPU >&2; exit 3`, "exit status 3"},
		{"talks nonsense", `echo '{"Say":'; exec sleep 60`, `the guest said "{\"Say\":"`},
		{"is refused", `echo '{"Say":"refuse"}'; exec sleep 60`, "refused"},
	} {
		said = nil
		err := fake(t, c.line).run(context.Background(), take)
		switch {
		case c.err == "":
			if err != nil || strings.Join(said, "") != "ab" {
				t.Errorf("%s: %v, said %q", c.name, err, said)
			}
		case err == nil || !strings.Contains(err.Error(), c.err) || !strings.Contains(err.Error(), "end of its console:\nbooting\npanic: for example"):
			t.Errorf("%s: %v, want %q and the console", c.name, err, c.err)
		}
		if c.name == "fails" && !strings.Contains(err.Error(), "no such CPU") {
			t.Errorf("what the virtual machine says is not in %v", err)
		}
	}
}

// A machine that goes on for too long is dead when run returns.
func TestKilled(t *testing.T) {
	stopped := errors.New("ended by a signal")
	for name, c := range map[string]struct {
		change func(*machine)
		cancel bool
		err    string
	}{
		"the limit":   {func(m *machine) { m.limit = 200 * time.Millisecond }, false, "longer than 200ms"},
		"silence":     {func(m *machine) { m.silence = 200 * time.Millisecond }, false, "said nothing for 200ms"},
		"the starter": {func(*machine) {}, true, stopped.Error()},
	} {
		m := fake(t, `echo "{\"Say\":\"$$\"}"; exec sleep 60`)
		c.change(m)
		ctx, cancel := context.WithCancelCause(context.Background())
		var pid int
		err := m.run(ctx, func(e job.Event) (err error) {
			if c.cancel {
				cancel(stopped)
			}
			pid, err = strconv.Atoi(e.Say)
			return err
		})
		cancel(nil)
		if err == nil || !strings.Contains(err.Error(), c.err) {
			t.Errorf("%s: %v, want %q", name, err, c.err)
		}
		if pid == 0 {
			t.Errorf("%s: it did not start", name)
		} else if err := syscall.Kill(pid, 0); !errors.Is(err, syscall.ESRCH) {
			t.Errorf("%s: process %d is still there: %v", name, pid, err)
		}
	}
	if err := (&machine{command: []string{"/nonexistent"}, limit: time.Minute}).run(context.Background(), nil); err == nil {
		t.Error("a virtual machine that is not installed starts")
	}
}

func TestTail(t *testing.T) {
	path := filepath.Join(t.TempDir(), "console")
	var b strings.Builder
	for i := range 5000 {
		fmt.Fprintf(&b, "line %d\r\n", i)
	}
	if err := os.WriteFile(path, []byte(b.String()), 0o644); err != nil {
		t.Fatal(err)
	}
	got := strings.Split(tail(path), "\n")
	if len(got) != 40 || got[39] != "line 4999" {
		t.Errorf("%d lines, the last %q", len(got), got[len(got)-1])
	}
	if got := tail(path + "x"); got != "" {
		t.Errorf("no file: %q", got)
	}
}

func TestCommandLine(t *testing.T) {
	m := machine{kind: counted, kernel: "k", initrd: "i", disk: "d", cpu: "max", console: "c"}
	one := strings.Join(m.argv(), " ")
	m.kind = parallel
	two := strings.Join(m.argv(), " ")
	if !strings.Contains(one, "-icount shift=3,sleep=on -smp 1 ") || strings.Contains(two, "-icount") || !strings.Contains(two, "thread=multi -smp 2 ") {
		t.Errorf("counted: %s\nparallel: %s", one, two)
	}
}

func TestPickKinds(t *testing.T) {
	if got, err := pickKinds("parallel,counted"); err != nil || len(got) != 2 || got[0] != parallel || got[1] != counted {
		t.Errorf("%v, %v", got, err)
	}
	for _, bad := range []string{"", "counted,", "fast"} {
		if got, err := pickKinds(bad); err == nil {
			t.Errorf("%q: %v", bad, got)
		}
	}
}
