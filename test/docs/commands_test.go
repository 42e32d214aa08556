// Plan of this file: every command in README.md and docs/*.md is either run,
// in the order of the documents, with what its output must look like, or named
// with the reason why it isn't. A command that is in neither list, and an
// entry of a list that is in no document, is an error.
//
// A command that starts a server leaves it running for the commands behind it.

package docs

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"sluice/pkg/admin"
	"sluice/pkg/bench"
	"sluice/test/nfscall"
	"sluice/test/testenv"
	wire4 "sluice/xdr/nfs4"
)

// notRun are the commands that this test leaves alone.
var notRun = map[string]string{
	"make test":                   "this test is part of it",
	"make connectathon CTHON=DIR": "it needs the suite, which is not part of this project",
	"make conformance SUITE=DIR SERVER=HOST:PORT EXPORT=PATH":        "it needs the suite, which is not part of this project",
	"make conformance-single SUITE=DIR SERVER=HOST:PORT EXPORT=PATH": "it needs the suite, which is not part of this project",
	"make fuzz TIME=10m":                    "it takes ten minutes; the seeds run with the unit tests",
	"go test ./test/clients":                "make test runs it",
	"mount -t nfs 127.0.0.1:/srv/data /mnt": "it needs a kernel with an NFS client: test/kernel mounts; here it is compared with what make run prints",
	"mount -t nfs -o vers=3,nolock,proto=tcp,mountproto=tcp,port=2049,mountport=2049 127.0.0.1:/srv/data /mnt": "as above, without the comparison",
	"mount -t nfs server.example.org:/ /mnt":                                "as above",
	"mount -t nfs server.example.org:/srv/data /mnt":                        "as above",
	"mount -t nfs -o vers=4.1,port=12049 server.example.org:/srv/data /mnt": "as above",
}

// expectation says what a command does.
type expectation struct {
	command string
	// want is a regular expression that finds something in the output.
	want string
	// json, if set, is what the output decodes into, without unknown fields.
	json any
	// server commands run on, and are ready when want is found.
	server bool
	// stream commands run until want is found, and end with status 0 on SIGINT.
	stream bool
	// fails: it ends with status 1, and want is what it says on standard error.
	fails bool
}

const curl = "curl --unix-socket /run/sluice/admin.sock "

var run = []expectation{
	// README.md
	{command: "make run EXPORT=/srv/data", server: true,
		want: `(?s)INF ready .*\n    mount -t nfs 127.0.0.1:/srv/data /mnt\n    build/sluice mode read direct\n`},
	{command: "build/sluice serve --exports /etc/exports --listen :2049", server: true,
		want: `INF ready admin=/run/sluice/admin.sock exports=1 listen=\["\[::\]:2049"\] read_mode=buffered `},
	{command: "build/sluice mode", want: `^ +READ +WRITE\nserver +buffered +buffered\n$`},
	{command: "build/sluice mode read direct", want: `^ +READ +WRITE\nserver +direct +buffered\n$`},
	{command: "build/sluice mode read dontcache --export /srv/data", want: `\nserver +direct +buffered\n/srv/data +dontcache +default\n$`},
	{command: "build/sluice mode read default --export /srv/data", want: `^ +READ +WRITE\nserver +direct +buffered\n$`},
	{command: "build/sluice stats", want: `(?s)^MODE +CALLS +BYTES +EXCESS +P50 +P99 +P99.9 +MAX\nread buffered +[1-9].*\nfallback of read direct: no_direct_io: [1-9].*\nNFS3 READ +[1-9]`},
	{command: "build/sluice trace --event read_direct,fallback", stream: true,
		want: `(?m)^\d{4}-\S+Z fallback xid=\w+ client=127.0.0.1 export=/srv/data file=\S+ offset=0 count=4096 len=0 mode=direct reason=no_direct_io$`},
	{command: curl + "http://sluice/v1/stats", json: new(admin.Stats)},

	// docs/admin-api.md
	{command: curl + "http://sluice/v1/status", json: new(admin.Status)},
	{command: curl + "http://sluice/v1/io-mode", json: new(admin.IOMode)},
	{command: curl + `-X PUT -d '{"op":"read","mode":"direct"}' http://sluice/v1/io-mode`, json: new(admin.IOMode), want: `"read": "direct"`},
	{command: curl + "http://sluice/v1/limits", json: new([]admin.Limit), want: `"name": "splice-min"`},
	{command: curl + `-X PUT -d '{"name":"splice-min","value":131072}' http://sluice/v1/limits`, json: new([]admin.Limit), want: `"value": 131072`},
	{command: curl + "http://sluice/v1/choices", json: new(admin.Choices), want: `"file": "/var/lib/sluice/choices.json"`},
	{command: curl + "http://sluice/v1/exports", json: new([]admin.Export), want: `"path": "/srv/data"`},
	{command: curl + "-X POST http://sluice/v1/exports/reload", json: new(admin.ReloadResult), want: `"exports": 1`},
	{command: curl + "http://sluice/v1/clients", json: new(admin.Clients), want: `(?s)"address": "127.0.0.1:.*"owner": "a visitor"`},
	{command: curl + "-X DELETE http://sluice/v1/clients/6a1f00c300000001", want: `^\{\n  "error": "no NFSv4 client has the id 6a1f00c300000001; .*"\n\}\n$`},
	{command: curl + "http://sluice/v1/sessions", json: new([]admin.Session), want: `"max_operations": `},
	{command: curl + "http://sluice/v1/opens", json: new([]admin.Open), want: `"path": "/srv/data/f"`},
	{command: curl + "http://sluice/v1/locks", json: new([]admin.Lock), want: `(?s)"type": "write",\s*"start": 7,`},
	{command: curl + "http://sluice/v1/delegations", json: new([]admin.Delegation), want: `^\[`},
	{command: curl + "http://sluice/v1/copies", json: new([]admin.Copy), want: `^\[`},
	{command: "curl --no-buffer --unix-socket /run/sluice/admin.sock 'http://sluice/v1/events?event=read_direct,fallback'", stream: true,
		want: `(?m)^\{"time":"[^"]*Z","event":"fallback","xid":"\w+","client":"127.0.0.1","export":"/srv/data",.*"io":\{"offset":0,"count":4096,"len":0\}.*\}$`},

	// docs/bench.md
	{command: "sluice bench read --path /srv/data --jobs 4 --iodepth 4 --dataset 64MiB --time 2s",
		want: `^READ of 127\.0\.0\.1:2049/srv/data by v3: 4 jobs x 4 calls of 1 MiB, sequential\ndataset: 64 MiB in 4 files, over 4 connections\n\nbandwidth +[1-9]`},
	{command: "sluice bench write --path /srv/data --bs 47008 --stable file_sync --dataset 64MiB --time 2s", want: `\nWRITE +[1-9]`},
	{command: "sluice bench mixed --path /srv/data --protocol 4.1 --bs 4k --pattern random --read-percent 80 --dataset 64MiB --size 32MiB --verify",
		want: `(?s)\nREAD +[1-9].*\nWRITE +[1-9]`},
	{command: "sluice bench compare --path /srv/data --modes buffered,dontcache,direct --dataset 64MiB --time 1s --blocks 2",
		want: `\nMODE +RUNS +BANDWIDTH .*\nbuffered +2 .*\ndontcache +2 .*\ndirect +2 `},
	{command: "sluice bench compare write --path /srv/data --modes buffered,dontcache --dataset 32MiB --time 1s --blocks 1 --html report.html", want: `\ndontcache +1 `},
	{command: "sluice bench read --path /srv/data --admin /run/sluice/admin.sock --dataset 32MiB --size 64MiB --json", json: new(bench.Report), want: `"mode": "\w+"`},

	// docs/configuration.md
	{command: "sluice serve", server: true, want: `INF ready admin=/run/sluice/admin.sock exports=1 listen=\["\[::\]:2049"\]`},
	{command: "sluice serve --config /etc/sluice/sluice.yaml --read-mode direct", server: true,
		want: `(?m)^\{"level":"info",.*"listen":\["\[::\]:2049"\],"exports":2,"read_mode":"direct",.*"message":"ready"\}$`},
	{command: "sluice mode read direct --client 192.0.2.0/24", want: `\n/srv/data +direct +dontcache\n192\.0\.2\.0/24 +direct +default\n$`},
	{command: "sluice mode write dontcache --export /srv/data --persist", want: `\n/srv/data +direct +dontcache +write dontcache\n`},
	{command: "sluice limits", want: `^LIMIT +VALUE +UNIT .*\nsplice-min +\d+ +bytes `},
	{command: "sluice limits splice-min 131072 --persist", want: `\nsplice-min +131072 +bytes +\d+ +\d+ +never +\d+ +131072 `},
	{command: "sluice limits splice-min default --persist", want: `\nsplice-min +\d+ +bytes +\d+ +\d+ +never +\d+ +- `},
	{command: "sluice choices", want: `^kept in /var/lib/sluice/choices\.json:\n/srv/data +write dontcache\n$`},
	{command: "sluice choices forget", want: `^nothing is kept; `},

	// docs/nfsv4.md
	{command: "sluice clients", want: `(?s)^ID +ADDRESS .*\n\nNFSV4 CLIENT +ADDRESS .*\n[0-9a-f]{16} +127\.0\.0\.1 +4\.2 +\w+ .* a visitor\n$`},
	{command: "sluice clients expire 6a1f00c300000001", fails: true, want: `^sluice: no NFSv4 client has the id 6a1f00c300000001; `},
	{command: "sluice sessions", want: `^SESSION +CLIENT +SLOTS .*\n[0-9a-f]{32} +[0-9a-f]{16} +8 `},
	{command: "sluice opens", want: `\n[0-9a-f]{16} +both +none +1 +/srv/data/f\n$`},
	{command: "sluice locks", want: `\n[0-9a-f]{16} +write +7 +1 +held +/srv/data/f\n$`},
	{command: "sluice locks --client 6a1f00c300000001 --json", want: `^\[\]\n$`},
	{command: "sluice delegations", want: `^CLIENT +TYPE +RECALLED +LEASE +FILE\n`},

	// docs/exports.md
	{command: "sluice exports check /etc/exports", want: `^/etc/exports: 1 export, no errors\n$`},
	{command: "sluice exports list", want: `^PATH +CLIENT +OPTIONS +READ +WRITE\n/srv/data +\* +rw,no_root_squash,insecure +\w+ +\w+\n`},
	{command: "sluice exports reload", want: `^reloaded: \d exports?\n$`},
}

// commandWord tells a block of commands from a sample of something else.
var commandWord = regexp.MustCompile(`^(make|mount|curl|go|sudo|build/\w+|sluice) `)

// commands returns the commands of a document, without the remarks behind them.
func commands(t testing.TB, file string) (list []string) {
	t.Helper()
	_, blocks := parse(t, file)
	for _, b := range blocks {
		if b.lang != "" && b.lang != "sh" {
			continue
		}
		for i, line := range b.lines {
			if !commandWord.MatchString(line + " ") {
				if commandWord.MatchString(b.lines[0] + " ") {
					t.Errorf("%s:%d: not a command, in a block of commands: %s", file, b.line+i, line)
				}
				continue
			}
			line, _, _ = strings.Cut(line, "  #")
			list = append(list, strings.TrimSpace(line))
		}
	}
	return list
}

func TestEveryCommandIsKnown(t *testing.T) {
	known := map[string]int{}
	for _, e := range run {
		known[e.command] = 0
	}
	for c := range notRun {
		known[c] = 0
	}
	if len(known) != len(run)+len(notRun) {
		t.Error("a command is listed twice")
	}
	for _, file := range guides(t) {
		for _, c := range commands(t, file) {
			if _, ok := known[c]; !ok {
				t.Errorf("%s: no test runs this: %s", file, c)
			}
			known[c]++
		}
	}
	for c, n := range known {
		if n == 0 {
			t.Errorf("in no document any more: %s", c)
		}
	}
}

func TestCommands(t *testing.T) {
	testenv.Sandboxed(t)
	testenv.Commands(t, "curl", "make")
	w := newWorld(t)
	expected := map[string]expectation{}
	for _, e := range run {
		expected[e.command] = e
	}
	for _, file := range guides(t) {
		for _, c := range commands(t, file) {
			if e, ok := expected[c]; ok {
				w.do(t, file, e)
			}
		}
	}
	w.stopServer(t)
}

// world is where the commands run: a folder that looks like a built source
// tree, and the places that the documents name, all of them private.
type world struct {
	dir    string
	env    []string
	server *process

	visited *process // the server that has an NFSv4 client
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{dir: t.TempDir()}
	top, binary := root(t), os.Getenv("SLUICE_TEST_BINARY")
	bin := filepath.Join(w.dir, "bin")
	nfscall.Must(t, errors.Join(
		os.Mkdir(filepath.Join(w.dir, "build"), 0o755), os.Mkdir(bin, 0o755),
		os.Symlink(binary, filepath.Join(w.dir, "build/sluice")), os.Symlink(binary, filepath.Join(bin, "sluice")),
		os.Symlink(filepath.Join(top, "Makefile"), filepath.Join(w.dir, "Makefile")),
		os.Symlink(filepath.Join(top, "test"), filepath.Join(w.dir, "test")),
		// The server is built already, by the command that make would run.
		os.WriteFile(filepath.Join(bin, "go"), []byte("#!/bin/sh\n[ \"$*\" = 'build -o build/ ./cmd/sluice' ]\n"), 0o755),
	))
	w.env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"))

	testenv.MountTmpfs(t, "/srv")
	testenv.MountTmpfs(t, "/var/lib")
	// The machine's own /etc stays as it is: this one is a copy.
	etc := filepath.Join(w.dir, "etc")
	if out, err := exec.Command("cp", "-a", "/etc", etc).CombinedOutput(); err != nil {
		t.Fatalf("copy /etc: %v: %s", err, out)
	}
	nfscall.Must(t, unix.Mount(etc, "/etc", "", unix.MS_BIND, ""))
	t.Cleanup(func() { nfscall.Must(t, unix.Unmount("/etc", unix.MNT_DETACH)) })
	nfscall.Must(t, errors.Join(
		os.Mkdir("/srv/data", 0o755), os.Mkdir("/srv/scratch", 0o755), os.MkdirAll("/etc/sluice", 0o755),
		os.WriteFile("/srv/data/f", bytes.Repeat([]byte("sluice\n"), 10000), 0o644),
		os.RemoveAll("/etc/exports.d"),
		os.WriteFile("/etc/exports", []byte("/srv/data *(rw,insecure,no_root_squash)\n"), 0o644),
	))
	_, blocks := parse(t, "docs/configuration.md")
	for _, b := range blocks {
		if b.lang == "yaml" {
			nfscall.Must(t, os.WriteFile("/etc/sluice/sluice.yaml", []byte(strings.Join(b.lines, "\n")), 0o644))
		}
	}
	return w
}

// do runs one command of a document.
func (w *world) do(t *testing.T, file string, e expectation) {
	t.Helper()
	fail := func(format string, a ...any) {
		t.Helper()
		t.Errorf("%s: %s: %s", file, e.command, fmt.Sprintf(format, a...))
	}
	want := regexp.MustCompile(e.want)
	switch {
	case e.server:
		w.stopServer(t)
		p := w.start(t, e.command)
		if !p.waitFor(want, nil) {
			fail("no %s in its output:\n%s", want, p.text())
		}
		w.server = p
		return
	case w.server == nil:
		w.server = w.start(t, "sluice serve")
		if !w.server.waitFor(regexp.MustCompile(" ready "), nil) {
			t.Fatalf("the server is not ready:\n%s", w.server.text())
		}
	}
	client := nfscall.Dial(t, "127.0.0.1:2049", nfscall.Root())
	defer client.Close()
	handle := client.Lookup(t, client.Mount(t, "/srv/data"), "f")
	read := func() { client.Read(t, handle, 0, 4096) }
	read()
	if w.visited != w.server {
		w.visited = w.server
		visit(t)
	}
	p := w.start(t, e.command)
	if e.stream {
		if !p.waitFor(want, read) {
			fail("no %s in its output:\n%s", want, p.text())
		}
		// Ctrl-C ends ours with status 0, and curl by the signal.
		if err := p.end(syscall.SIGINT); err != nil && !strings.HasPrefix(e.command, "curl") {
			fail("%v\n%s", err, p.text())
		}
		return
	}
	err := p.end(0)
	if e.fails {
		if p.cmd.ProcessState.ExitCode() != 1 || !want.Match(p.stderr.bytes()) {
			fail("%v\n%s", err, p.text())
		}
		return
	}
	if err != nil {
		fail("%v\n%s", err, p.text())
		return
	}
	if !want.Match(p.stdout.bytes()) {
		fail("no %s in its output:\n%s", want, p.text())
	}
	if e.json != nil {
		if err := strictly(p.stdout.bytes(), e.json); err != nil {
			fail("%v in:\n%s", err, p.text())
		}
	}
}

// visit leaves an NFSv4 client with an open file and a lock on the server.
func visit(t *testing.T) {
	t.Helper()
	s := nfscall.Dial(t, "127.0.0.1:2049", nfscall.Root()).Session(t, 2, "a visitor")
	open, fh := s.Open(t, []string{"srv", "data"}, "f", wire4.OPEN4_SHARE_ACCESS_BOTH, 0)
	s.Lock(t, fh, open.Stateid, "one", wire4.WRITE_LT, 7, 1)
}

// stopServer ends the server that the last such command started. Make, where
// it is in between, ends with the server.
func (w *world) stopServer(t *testing.T) {
	t.Helper()
	p := w.server
	if p == nil {
		return
	}
	w.server = nil
	var st admin.Status
	if err := admin.NewClient("/run/sluice/admin.sock").Do(t.Context(), "GET", admin.PathStatus, nil, &st); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(st.PID, syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := p.end(0); err != nil {
		t.Errorf("%s: %v at its end\n%s", p.command, err, p.text())
	}
}

// process is a command under way.
type process struct {
	command string
	cmd     *exec.Cmd
	stdout  output
	stderr  output
	done    chan error
}

func (w *world) start(t *testing.T, command string) *process {
	t.Helper()
	p := &process{command: command, cmd: exec.Command("sh", "-c", "exec "+command), done: make(chan error, 1)}
	p.cmd.Dir, p.cmd.Env = w.dir, w.env
	p.cmd.Stdout, p.cmd.Stderr = &p.stdout, &p.stderr
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	p.cmd.WaitDelay = 5 * time.Second
	nfscall.Must(t, p.cmd.Start())
	t.Cleanup(func() { syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL) })
	go func() { p.done <- p.cmd.Wait() }()
	return p
}

func (p *process) text() string { return string(p.stdout.bytes()) + string(p.stderr.bytes()) }

// waitFor waits until want is in the output, calling meanwhile again and again.
func (p *process) waitFor(want *regexp.Regexp, meanwhile func()) bool {
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		// What make run prints comes from two programs, in any order.
		if want.MatchString(p.text()) || want.MatchString(string(p.stderr.bytes())+string(p.stdout.bytes())) {
			return true
		}
		select {
		case err := <-p.done:
			p.done <- err
			return want.MatchString(p.text())
		default:
		}
		if meanwhile != nil {
			meanwhile()
		}
	}
	return false
}

// end sends a signal, if any, and waits for the end with status 0.
func (p *process) end(sig syscall.Signal) error {
	if sig != 0 {
		if err := p.cmd.Process.Signal(sig); err != nil {
			return err
		}
	}
	select {
	case err := <-p.done:
		return err
	case <-time.After(30 * time.Second):
		return errors.New("it does not end")
	}
}

// output collects what a process prints.
type output struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.Write(b)
}

func (o *output) bytes() []byte {
	o.mu.Lock()
	defer o.mu.Unlock()
	return bytes.Clone(o.buf.Bytes())
}

// strictly decodes JSON that has no fields but those of v, and nothing behind.
func strictly(b []byte, v any) error {
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		return err
	}
	if d.More() {
		return errors.New("something behind the JSON")
	}
	return nil
}
