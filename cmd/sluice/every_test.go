// Plan of this file: what holds for every command, asked of each in the tree. A
// new command fails here until it says how it is to be called.

package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/urfave/cli/v2"

	"sluice/pkg/admin"
	"sluice/test/nfscall"
)

// usage is how a command is called so that it does something.
type usage struct {
	args   []string
	alone  bool // asks no server
	stream bool // prints one object on each line
	load   bool // wants to know an NFS server and an export
}

// noJSON are the commands that print nothing of their own.
var noJSON = []string{"serve", "exports", "help"}

// everyCommand lists the tree of commands, with how each is called; client is an
// NFSv4 client's id, table an exports file.
func everyCommand(t *testing.T, client, table string) map[string]usage {
	t.Helper()
	ways := map[string]usage{
		"mode": {}, "limits": {}, "choices": {}, "choices forget": {}, "status": {}, "stats": {}, "exports list": {}, "exports reload": {}, "clients": {}, "clients expire": {args: []string{client}},
		"sessions": {}, "opens": {}, "locks": {}, "delegations": {}, "copies": {},
		"trace":         {args: []string{"--count", "2", "--event", "mode_change"}, stream: true},
		"exports check": {args: []string{table}, alone: true}, "version": {alone: true},
		"serve": {alone: true}, "exports": {alone: true}, "help": {alone: true},
		"bench": {alone: true, load: true}, "bench compare": {alone: true, load: true, args: []string{"--modes", "buffered,direct", "--blocks", "1"}},
	}
	known := 0
	var walk func(prefix string, cmds []*cli.Command)
	walk = func(prefix string, cmds []*cli.Command) {
		for _, k := range cmds {
			name := strings.TrimPrefix(prefix+" "+k.Name, " ")
			if _, ok := ways[name]; !ok {
				t.Errorf("sluice %s: the test doesn't know how it is called", name)
			}
			known++
			walk(name, k.Subcommands)
		}
	}
	if walk("", newApp().Commands); known != len(ways) {
		t.Errorf("%d commands, and the test knows %d", known, len(ways))
	}
	return ways
}

// call makes a command line of a command's name and more.
func call(name string, more ...string) []string { return append(strings.Fields(name), more...) }

func TestEveryCommandHasHelpWithAnExample(t *testing.T) {
	for name := range everyCommand(t, "1", "/etc/exports") {
		status, out, stderr := command(t, call(name, "--help")...)
		if status != 0 || stderr != "" || !strings.Contains(out, "Example") || !strings.Contains(out, "sluice "+name+" ") {
			t.Errorf("sluice %s --help: status %d, %s\n%s", name, status, stderr, out)
		}
		if !strings.Contains(out, "--json") && !slices.Contains(noJSON, name) {
			t.Errorf("sluice %s has no --json", name)
		}
		// Wherever it is asked for, nothing else is done.
		for _, args := range [][]string{call("help " + name), call(name, "-h"), call(name, "a", "b", "--help"), call(name, "a", "-h")} {
			if name == "exports" && args[0] == name && len(args) > 2 {
				continue // arguments of a group are names of commands
			}
			if status, other, stderr := command(t, args...); status != 0 || other != out || stderr != "" {
				t.Errorf("sluice %s: status %d, %s\n%s", strings.Join(args, " "), status, stderr, other)
			}
		}
	}
	for _, args := range [][]string{{"help"}, {"-h"}} {
		if _, whole, _ := command(t, "--help"); !strings.Contains(whole, "delegations") {
			t.Errorf("sluice --help:\n%s", whole)
		} else if status, out, _ := command(t, args...); status != 0 || out != whole {
			t.Errorf("sluice %s: status %d\n%s", args, status, out)
		}
	}
}

func TestEveryCommandRefusesWhatItDoesNotKnow(t *testing.T) {
	for name, way := range everyCommand(t, "1", "/etc/exports") {
		for _, args := range [][]string{
			call(name, "--no-such-flag"), call(name, append([]string{"--no-such-flag"}, way.args...)...), call(name, "-x"),
			call(name, append(slices.Clone(way.args), "too", "many")...),
		} {
			status, stdout, stderr := command(t, args...)
			if status != exitUsage || stdout != "" || !strings.HasPrefix(stderr, "sluice: ") || !strings.Contains(stderr, "; see `sluice "+name+" --help`\n") {
				t.Errorf("sluice %s: status %d, %q, %q", strings.Join(args, " "), status, stdout, stderr)
			}
		}
	}
	if status, _, stderr := command(t, "help", "clients", "nonsense"); status != exitUsage || !strings.Contains(stderr, "no such command: clients nonsense") {
		t.Errorf("help of what is no command: status %d, %q", status, stderr)
	}
}

func TestEveryCommandWithoutAServerSaysWhatToDo(t *testing.T) {
	none := filepath.Join(t.TempDir(), "none.sock")
	for name, way := range everyCommand(t, "1", "/etc/exports") {
		if way.alone {
			continue
		}
		for _, more := range [][]string{{}, {"--json"}} {
			args := call(name, append(append([]string{"--admin", none}, more...), way.args...)...)
			status, stdout, stderr := command(t, args...)
			if status != exitFailed || stdout != "" || !strings.Contains(stderr, none) || !strings.Contains(stderr, "start `sluice serve`") {
				t.Errorf("sluice %s: status %d, %q, %q", strings.Join(args, " "), status, stdout, stderr)
			}
		}
	}
}

func TestEveryCommandPrintsJSON(t *testing.T) {
	l := newLive(t)
	c := nfscall.Dial(t, l.addr, nfscall.Root()).Session(t, 2, "A")
	table := filepath.Join(t.TempDir(), "exports")
	nfscall.Must(t, os.WriteFile(table, []byte("/srv 10.0.0.0/8(rw)\n"), 0o600))
	for name, way := range everyCommand(t, fmt.Sprintf("%016x", c.ClientID), table) {
		if slices.Contains(noJSON, name) {
			continue
		}
		args := call(name, append([]string{"--json", "--admin", l.socket()}, way.args...)...)
		if way.load {
			args = append(args, "--server", l.addr, "--path", l.dir1(), "--dataset", "1MiB", "--size", "1MiB")
		}
		stop := func() {}
		if way.stream {
			stop = l.keepSetting()
		}
		status, stdout, stderr := command(t, args...)
		stop()
		if status != 0 || stderr != "" {
			t.Errorf("sluice %s: status %d, %s", strings.Join(args, " "), status, stderr)
			continue
		}
		texts := []string{stdout}
		if way.stream {
			texts = nil
			for sc := bufio.NewScanner(strings.NewReader(stdout)); sc.Scan(); {
				texts = append(texts, sc.Text())
			}
		}
		for _, text := range texts {
			var v any
			if err := json.Unmarshal([]byte(text), &v); err != nil || v == nil {
				t.Errorf("sluice %s printed no JSON: %v\n%s", strings.Join(args, " "), err, text)
			}
		}
		if len(texts) == 0 {
			t.Errorf("sluice %s printed nothing", strings.Join(args, " "))
		}
	}
}

// keepSetting sets the mode again and again, which makes events, until the
// result is called.
func (l *live) keepSetting() (stop func()) {
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			select {
			case <-done:
				return
			case <-time.After(20 * time.Millisecond):
				admin.NewClient(l.socket()).Do(context.Background(), http.MethodPut, admin.PathIOMode, admin.ModeChange{Op: "read", Mode: "buffered"}, nil) //nolint:errcheck // the next one may
			}
		}
	}()
	return func() { close(done); <-ended }
}
