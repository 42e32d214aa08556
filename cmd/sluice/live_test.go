// Plan of this file: the administrator's commands against a server with
// traffic. Each is run for people and with --json, whose objects may have no
// fields but the API's.

package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"sluice/exports"
	"sluice/pkg/admin"
	"sluice/pkg/server"
	"sluice/test/nfscall"
	"sluice/test/testenv"
)

// live is a server with two exports on a file system that has direct I/O with
// an alignment of 512 bytes, and a client that has mounted the first.
type live struct {
	*daemon
	second string
	client *nfscall.Client
	dir    []byte
}

func newLive(t *testing.T) *live {
	t.Helper()
	d := newDaemon(t, testenv.XFS(t, 512))
	l := &live{daemon: d, second: filepath.Join(d.dir, "second")}
	nfscall.Must(t, os.Mkdir(l.second, 0o755))
	d.exports(t, d.dir+" *(rw,insecure,no_root_squash)\n"+l.second+" 127.0.0.0/8(insecure)\n")
	d.start(t)
	l.client = nfscall.Dial(t, d.addr, nfscall.Root())
	l.dir = nfscall.Clone(l.client.Mount(t, d.dir))
	return l
}

// do runs a command that must succeed without a word on standard error.
func (l *live) do(t *testing.T, args ...string) string {
	t.Helper()
	status, stdout, stderr := command(t, append(args, "--admin", l.socket())...)
	if status != 0 || stderr != "" {
		t.Fatalf("sluice %s: status %d, %q", strings.Join(args, " "), status, stderr)
	}
	return stdout
}

// refused runs a command that must fail, and returns what it says.
func (l *live) refused(t *testing.T, args ...string) string {
	t.Helper()
	status, stdout, stderr := command(t, append(args, "--admin", l.socket())...)
	if status != exitFailed || stdout != "" || !strings.HasPrefix(stderr, "sluice: ") {
		t.Errorf("sluice %s: status %d, %q, %q; want 1", strings.Join(args, " "), status, stdout, stderr)
	}
	return stderr
}

// want matches a command's output with a regular expression for the whole of it.
func (l *live) want(t *testing.T, whole string, args ...string) {
	t.Helper()
	if out := l.do(t, args...); !regexp.MustCompile(`^(?s:` + whole + `)$`).MatchString(out) {
		t.Errorf("sluice %s printed\n%s, want\n%s", strings.Join(args, " "), out, whole)
	}
}

// object runs a command with --json and decodes the one object it prints.
func object[T any](t *testing.T, l *live, args ...string) T {
	t.Helper()
	var v T
	strictly(t, []byte(l.do(t, append(args, "--json")...)), &v)
	return v
}

func strictly(t *testing.T, b []byte, v any) {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil || d.More() {
		t.Fatalf("%v in %s", err, b)
	}
}

// read reads a range of the file data and compares it.
func (l *live) read(t *testing.T, off uint64, count uint32) {
	t.Helper()
	want := content()[off:]
	want = want[:min(int(count), len(want))]
	got, _ := l.client.Read(t, l.client.Lookup(t, l.dir, "data"), off, count)
	if !bytes.Equal(got, want) {
		t.Errorf("READ of %d bytes at %d: %d bytes that are not the file's", count, off, len(got))
	}
}

func TestModeCommand(t *testing.T) {
	l := newLive(t)
	set := func(read string, exports ...admin.ExportIOMode) admin.IOMode {
		return admin.IOMode{Read: read, Write: "buffered", Exports: append([]admin.ExportIOMode{}, exports...), Clients: []admin.ClientIOMode{}}
	}
	for _, c := range []struct {
		args []string
		want admin.IOMode
	}{
		{nil, set("buffered")},
		{[]string{"read", "direct"}, set("direct")},
		{[]string{"read", "1"}, set("dontcache")},
		{[]string{"read", "2"}, set("direct")},
		{[]string{"read", "0"}, set("buffered")},
		{[]string{"read", "auto"}, set("auto")},
		{[]string{"read", "default"}, set("buffered")},
		{[]string{"write", "buffered"}, set("buffered")},
		{[]string{"--export", l.second, "read", "2"}, set("buffered", admin.ExportIOMode{Path: l.second, Read: "direct"})},
		{[]string{"read", "dontcache"}, set("dontcache", admin.ExportIOMode{Path: l.second, Read: "direct"})},
		{[]string{"read", "buffered", "--export=" + l.dir2()}, set("dontcache", admin.ExportIOMode{Path: l.dir2(), Read: "buffered"}, admin.ExportIOMode{Path: l.second, Read: "direct"})},
		{[]string{"read", "default", "--export", l.dir2() + "/"}, set("dontcache", admin.ExportIOMode{Path: l.second, Read: "direct"})},
		{[]string{"write", "0", "--export", l.second}, set("dontcache", admin.ExportIOMode{Path: l.second, Read: "direct", Write: "buffered"})},
		{[]string{"read", "default", "--export", l.second}, set("dontcache", admin.ExportIOMode{Path: l.second, Write: "buffered"})},
		{[]string{"write", "default", "--export", l.second}, set("dontcache")},
	} {
		if got := object[admin.IOMode](t, l, append([]string{"mode"}, c.args...)...); !reflect.DeepEqual(got, c.want) {
			t.Errorf("sluice mode %s: %+v, want %+v", strings.Join(c.args, " "), got, c.want)
		}
		// What is in force is what was answered.
		if got := object[admin.IOMode](t, l, "mode"); !reflect.DeepEqual(got, c.want) {
			t.Errorf("after sluice mode %s: %+v, want %+v", strings.Join(c.args, " "), got, c.want)
		}
	}
	l.want(t, " +READ +WRITE\nserver +dontcache +buffered\n", "mode")
	l.want(t, " +READ +WRITE\nserver +dontcache +buffered\n"+l.second+" +direct +default\n", "mode", "read", "direct", "--export", l.second)

	if text := l.refused(t, "mode", "read", "direct", "--export", "/nowhere"); !strings.Contains(text, `no export at "/nowhere"; the exports are `+l.dir2()+", "+l.second) {
		t.Error(text)
	}
	l.want(t, " +READ +WRITE\nserver +dontcache +direct\n"+l.second+" +direct +default\n", "mode", "write", "direct")
	for _, line := range []string{`INF I/O mode set mode=direct op=read`, `INF I/O mode set export=` + l.second + ` mode=direct op=read`} {
		if !regexp.MustCompile(`(?m) ` + line + `$`).MatchString(l.out.String()) {
			t.Errorf("no line %q in the log", line)
		}
	}
}

// dir2 is the first export's path.
func (l *live) dir2() string { return l.daemon.dir }

// TestModesServe: the very next READ is served as was set, for the export it was
// set for, and the counters say so.
func TestModesServe(t *testing.T) {
	l := newLive(t)
	row := func(s admin.Stats, mode string) admin.ModeStats {
		i := slices.IndexFunc(s.Read, func(m admin.ModeStats) bool { return m.Mode == mode })
		if i < 0 {
			t.Fatalf("no mode %s in %+v", mode, s.Read)
		}
		return s.Read[i]
	}
	before := object[admin.Stats](t, l, "stats")
	for _, c := range []struct {
		args   []string // of sluice mode
		mode   string   // that serves the next READ
		excess bool
	}{
		{[]string{"read", "buffered"}, "buffered", false},
		{[]string{"read", "direct"}, "direct", true},
		{[]string{"read", "buffered", "--export", l.dir2()}, "buffered", false},
		{[]string{"read", "dontcache"}, "buffered", false}, // the export's own is in force
		{[]string{"read", "default", "--export", l.dir2()}, "dontcache", false},
		{[]string{"read", "2"}, "direct", true},
		{[]string{"read", "direct", "--export", l.second}, "direct", true},
		{[]string{"read", "0"}, "buffered", false}, // another export's doesn't matter
	} {
		l.do(t, append([]string{"mode"}, c.args...)...)
		l.read(t, 1, 5000)
		now := object[admin.Stats](t, l, "stats")
		for _, mode := range []string{"buffered", "dontcache", "direct"} {
			was, is := row(before, mode), row(now, mode)
			calls, bytes := is.Calls-was.Calls, is.Bytes-was.Bytes
			if served := mode == c.mode; served != (calls == 1) || served != (bytes == 5000) || calls > 1 || is.Latency.Count-was.Latency.Count != calls {
				t.Errorf("after sluice mode %s: %d calls and %d bytes in mode %s", strings.Join(c.args, " "), calls, bytes, mode)
			}
			if excess := is.Excess - was.Excess; (mode == "direct" && c.excess) != (excess > 0) {
				t.Errorf("after sluice mode %s: %d bytes in excess in mode %s", strings.Join(c.args, " "), excess, mode)
			}
		}
		before = now
	}
	if before.FileCache.Acquisitions == 0 || before.FileCache.Open == 0 || before.FileCache.Budget == 0 || before.RPC.Calls == 0 || len(before.Pools) != 3 {
		t.Errorf("counters: %+v", before)
	}
	read := slices.IndexFunc(before.Procedures, func(p admin.ProcedureStats) bool { return p.Name == "NFS3 READ" })
	if read < 0 || before.Procedures[read].Calls != 8 || before.Procedures[read].Latency.Count != 8 || before.Procedures[read].Latency.Max == 0 {
		t.Errorf("procedures: %+v", before.Procedures)
	}

	if len(before.Write) != 3 || before.Write[2].Mode != "direct" {
		t.Errorf("modes of WRITE: %+v", before.Write)
	}

	text := l.do(t, "stats")
	for _, want := range []string{
		`^MODE +CALLS +BYTES +EXCESS +P50 +P99 +P99\.9 +MAX$`, `^read buffered +4 +19\.5 KiB +0 B +\d+ us `, `^read direct +3 +14\.6 KiB +[1-9]`,
		`^commit +0 `, `^\d+ reads spliced, \d+ waited for a disk; the write verifier changed 0 times$`,
		`^file cache: \d+ files, \d+ of \d+ descriptors, \d+ hits, \d+ misses, \d+ acquisitions, \d+ evictions, mean age `,
		`^connections: 1 now, 1 accepted, `, `^pipes: 0 in use, holds \d+ of \d+ pipes, waited for 0 times, empty 0 times$`, `^PROCEDURE +CALLS +P50 `, `^NFS3 READ +8 +\d+ us `,
	} {
		if !regexp.MustCompile(`(?m)` + want).MatchString(text) {
			t.Errorf("no %s in\n%s", want, text)
		}
	}
}

// lines is what watch waits for: so many lines.
func lines(n int) func([]string) bool { return func(list []string) bool { return len(list) >= n } }

// watch runs a command that goes on for ever until what it has printed is
// enough, calling meanwhile again and again, and ends it as Ctrl-C does. It is a
// process of its own: the library of flags can't run two commands at once in one.
func (l *live) watch(t *testing.T, enough func([]string) bool, meanwhile func(), args ...string) []string {
	t.Helper()
	cmd := self(nil, append(args, "--admin", l.socket())...)
	var stdout, stderr output
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	nfscall.Must(t, cmd.Start())
	defer cmd.Process.Kill()
	waitFor(t, "enough of sluice "+strings.Join(args, " "), func() bool {
		if meanwhile != nil {
			meanwhile()
		}
		list := strings.Split(stdout.String(), "\n")
		return enough(list[:len(list)-1])
	})
	nfscall.Must(t, cmd.Process.Signal(os.Interrupt))
	if err := cmd.Wait(); err != nil || stderr.String() != "" {
		t.Errorf("sluice %s: %v, %q", strings.Join(args, " "), err, stderr.String())
	}
	return strings.Split(strings.TrimSuffix(stdout.String(), "\n"), "\n")
}

func TestStatsWatch(t *testing.T) {
	l := newLive(t)
	read := func() { l.read(t, 0, 4096) }
	line := regexp.MustCompile(`^\d\d:\d\d:\d\d +(\d+) +\d+(?:\.\d)? [KM]?i?B +(\d+) +0 B +0$`)
	busy := func(s string) bool { // on a loaded machine, not every 100 ms need see a call
		m := line.FindStringSubmatch(s)
		return m != nil && m[1] != "0" && m[2] != "0"
	}
	list := l.watch(t, func(list []string) bool { return len(list) >= 4 && slices.ContainsFunc(list, busy) },
		read, "stats", "--watch", "--interval", "100ms")
	if !regexp.MustCompile(`^time +calls/s +read/s +reads/s +written/s +writes/s$`).MatchString(list[0]) {
		t.Errorf("heading %q", list[0])
	}
	for _, s := range list[1:] {
		if !line.MatchString(s) {
			t.Errorf("line %q", s)
		}
	}

	page := func(s string) (p admin.Stats) {
		strictly(t, []byte(s), &p)
		return p
	}
	calls := func(s string) uint64 { return page(s).Read[0].Calls }
	list = l.watch(t, func(list []string) bool { return len(list) >= 4 && calls(list[len(list)-1]) > calls(list[0]) },
		read, "stats", "--watch", "--json", "--interval", "100ms")
	for i, s := range list[1:] {
		if now, before := page(s).UptimeSeconds, page(list[i]).UptimeSeconds; now <= before {
			t.Errorf("page %d is of %v, the one before of %v", i+1, now, before)
		}
	}
	if d := page(list[3]).UptimeSeconds - page(list[0]).UptimeSeconds; d < 0.2 {
		t.Errorf("four pages in %v s", d)
	}
}

// TestTrace: a READ after a switch to direct shows its steps, in order, and the
// opening of a file shows what it must be aligned to.
func TestTrace(t *testing.T) {
	l := newLive(t)
	l.do(t, "mode", "read", "direct")
	fresh := 0
	read := func() { // a file that isn't open yet
		fresh++
		name := fmt.Sprint("file", fresh)
		nfscall.Must(t, os.WriteFile(filepath.Join(l.dir2(), name), content()[:8192], 0o644))
		if got, _ := l.client.Read(t, l.client.Lookup(t, l.dir, name), 511, 1000); !bytes.Equal(got, content()[511:1511]) {
			t.Error("READ gave other bytes")
		}
	}
	const stamp = `^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z `
	one := l.watch(t, lines(24), read, "trace")
	start := slices.IndexFunc(one, func(s string) bool { return strings.Contains(s, " read_start ") })
	if start < 0 {
		t.Fatalf("no read_start in\n%s", strings.Join(one, "\n"))
	}
	rng := ` client=127\.0\.0\.1 export=` + regexp.QuoteMeta(l.dir2()) + ` file=\S+ offset=511 count=1000 len=`
	xid := regexp.MustCompile(`xid=[0-9a-f]{8} `).FindString(one[start])
	var steps []string
	for _, s := range one {
		if xid != "" && strings.Contains(s, xid) {
			steps = append(steps, s)
		}
	}
	for i, want := range []string{
		stamp + `read_start ` + xid + rng[1:] + `0 mode=direct$`,
		stamp + `read_direct ` + xid + rng[1:] + `0 mode=direct$`,
		stamp + `read_io_done ` + xid + rng[1:] + `\d+ mode=direct took=\S+$`,
		stamp + `read_done ` + xid + rng[1:] + `1000 mode=direct took=\S+$`,
	} {
		if i >= len(steps) || !regexp.MustCompile(want).MatchString(steps[i]) {
			t.Errorf("step %d of\n%s\nwant %s", i, strings.Join(steps, "\n"), want)
		}
	}
	opened := l.watch(t, lines(2), read, "trace", "--event", "file_open")
	for _, s := range opened {
		if !strings.Contains(s, " file_open ") {
			t.Errorf("another event: %s", s)
		}
	}
	if all := strings.Join(opened, "\n"); !regexp.MustCompile(`(?m)` + stamp + `file_open file=\S+ mode=\w+ mem_align=\d+ offset_align=512 read_align=\d+ dontcache=(true|false)$`).MatchString(all) {
		t.Errorf("no alignment in\n%s", all)
	}

	// In JSON, one object a line; --count ends by itself; filters hold.
	var ev struct {
		Time   string `json:"time"`
		Event  string `json:"event"`
		XID    string `json:"xid"`
		Client string `json:"client"`
		Export string `json:"export"`
		File   string `json:"file"`
		IO     struct {
			Offset uint64 `json:"offset"`
			Count  uint64 `json:"count"`
			Len    uint64 `json:"len"`
		} `json:"io"`
		Mode     string `json:"mode"`
		Duration int64  `json:"duration_ns"`
	}
	stop := make(chan struct{})
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			select {
			case <-stop:
				return
			case <-time.After(2 * time.Millisecond):
				read()
			}
		}
	}()
	out := l.do(t, "trace", "--json", "--count", "3", "--event", "read_done,read_start", "--event", "read_direct", "--client", "127.0.0.1")
	close(stop)
	<-stopped
	list := strings.Split(strings.TrimSpace(out), "\n")
	if len(list) != 3 {
		t.Errorf("--count 3 gave %d lines", len(list))
	}
	names := map[string]bool{}
	for _, line := range list {
		strictly(t, []byte(line), &ev)
		names[ev.Event] = true
		if _, err := time.Parse(time.RFC3339Nano, ev.Time); err != nil || ev.Client != "127.0.0.1" || ev.Export != l.dir2() || ev.Mode != "direct" ||
			ev.IO.Offset != 511 || ev.IO.Count != 1000 || len(ev.XID) != 8 || ev.File == "" {
			t.Errorf("%s", line)
		}
	}
	if !names["read_start"] || !names["read_done"] || !names["read_direct"] || len(names) != 3 {
		t.Errorf("events: %v", names)
	}
}

// A stream whose server ends, ends.
func TestTraceEndsWithTheServer(t *testing.T) {
	l := newLive(t)
	cmd := self(nil, "trace", "--event", "mode_change", "--admin", l.socket())
	var out, stderr output
	cmd.Stdout, cmd.Stderr = &out, &stderr
	nfscall.Must(t, cmd.Start())
	defer cmd.Process.Kill()
	waitFor(t, "an event", func() bool {
		l.do(t, "mode", "read", "direct")
		return strings.Contains(out.String(), " mode_change mode=direct reason=read\n")
	})
	l.cmd.Process.Signal(os.Interrupt)
	if st := l.status(t); st != 0 {
		t.Errorf("the server's status is %d", st)
	}
	if cmd.Wait(); cmd.ProcessState.ExitCode() != exitFailed || !strings.Contains(stderr.String(), "sluice: the server has ended") {
		t.Errorf("%v, %q", cmd.ProcessState, stderr.String())
	}
}

func TestExportsCommands(t *testing.T) {
	l := newLive(t)
	first := regexp.QuoteMeta(l.dir2())
	l.want(t, `PATH +CLIENT +OPTIONS +READ +WRITE\n`+first+` +\* +rw,no_root_squash,insecure +buffered +buffered\n`+
		first+`/second +127\.0\.0\.0/8 +ro,insecure +buffered +buffered\n`, "exports", "list")
	list := object[[]admin.Export](t, l, "exports", "list")
	want := []admin.Export{
		{Path: l.dir2(), Source: l.work + "/exports:1", Clients: []admin.ExportClient{{Client: "*",
			Options: "rw,no_root_squash,no_all_squash,sync,insecure,no_subtree_check,hide,nocrossmnt,anonuid=65534,anongid=65534,sec=sys"}}, ReadMode: "buffered", WriteMode: "buffered"},
		{Path: l.second, Source: l.work + "/exports:2", Clients: []admin.ExportClient{{Client: "127.0.0.0/8",
			Options: "ro,root_squash,no_all_squash,sync,insecure,no_subtree_check,hide,nocrossmnt,anonuid=65534,anongid=65534,sec=sys"}}, ReadMode: "buffered", WriteMode: "buffered"},
	}
	if !reflect.DeepEqual(list, want) {
		t.Errorf("--json: %+v, want %+v", list, want)
	}

	// A changed file is in force after a reload, warnings and problems are shown.
	l.exports(t, l.dir2()+" *(rw,insecure,no_root_squash) 10.0.0.1(rw,wdelay,all_squash,anonuid=7)\n"+l.dir2()+"/third *(rw)\n")
	file := regexp.QuoteMeta(filepath.Join(l.work, "exports"))
	l.want(t, file+`:1:\d+: warning: [^\n]*wdelay[^\n]*\nreloaded: 2 exports\n`, "exports", "reload")
	l.want(t, `PATH .*\n`+first+` +\* +rw,no_root_squash,insecure +buffered +buffered\n`+first+` +10\.0\.0\.1 +rw,all_squash,anonuid=7 +buffered +buffered\n`+
		first+`/third +\* +rw +buffered +buffered\n`+first+`/third +NOT SERVED: the directory does not exist: make it, [^\n]*\n`, "exports", "list")
	res := object[admin.ReloadResult](t, l, "exports", "reload")
	if res.Exports != 2 || len(res.Warnings) != 1 || !strings.Contains(res.Warnings[0], "wdelay") {
		t.Errorf("--json: %+v", res)
	}

	// A broken one is refused, in the words that check has for it.
	bad := l.dir2() + " *(rw,insecure)\n/usr *(rw,sinc)\n/opt\t*(ro,,rw\n"
	l.exports(t, bad)
	text := l.refused(t, "exports", "reload")
	for _, want := range []string{"/exports:2:11: unknown option \"sinc\"; did you mean \"sync\"?", "/exports:3:", "the exports in force stay as they were"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in %q", want, text)
		}
	}
	if n := len(object[[]admin.Export](t, l, "exports", "list")); n != 2 {
		t.Errorf("%d exports in force, want the 2 of before", n)
	}
	status, stdout, stderr := command(t, "exports", "check", filepath.Join(l.work, "exports"), "--admin", l.socket())
	if status != exitFailed || !regexp.MustCompile(`^`+file+`:2:11: unknown option "sinc"; did you mean "sync"\?\n`+file+`:3:\d+: .*\n$`).MatchString(stdout) ||
		stderr != "sluice: "+filepath.Join(l.work, "exports")+" has 2 errors\n" {
		t.Errorf("check: status %d, %q, %q", status, stdout, stderr)
	}
}

func TestStatusClientsVersion(t *testing.T) {
	l := newLive(t)
	l.read(t, 0, 100)
	st := object[admin.Status](t, l, "status")
	if st.PID != l.cmd.Process.Pid || st.Version != server.BuildInfo().Version || len(st.Listen) != 1 || st.Listen[0] != l.addr || st.Rpcbind != "off" ||
		st.State != filepath.Join(l.work, "state") || st.Exports != 2 || st.Connections != 1 || st.Mode.Read != "buffered" || st.UptimeSeconds <= 0 || time.Since(st.Started) > time.Minute {
		t.Errorf("status: %+v", st)
	}
	l.want(t, `version +\S.*\npid +`+fmt.Sprint(st.PID)+`\nrunning for +\S+\nlistening on +`+regexp.QuoteMeta(l.addr)+`\nrpcbind +off\nstate +\S+/state\nexports +2\nconnections +1\nread mode +buffered\nwrite mode +buffered\nNFSv4 clients +0\nthey hold +0 sessions, 0 opens, 0 locks, 0 delegations\n`, "status")

	list := object[admin.Clients](t, l, "clients").Connections
	if len(list) != 1 || !strings.HasPrefix(list[0].Address, "127.0.0.1:") || list[0].Calls < 3 || list[0].BytesOut < 100 || list[0].InFlight != 0 {
		t.Errorf("clients: %+v", list)
	}
	l.want(t, `ID +ADDRESS +CONNECTED +IDLE +CALLS +IN +OUT +IN FLIGHT +QUEUED\n\d+ +127\.0\.0\.1:\d+ +\d{4}-\d\d-\d\d \d\d:\d\d:\d\d +\S+ +[3-9] +\d+ B +\S+ \S+ +0 +0 B\n`, "clients")
	l.client.Close()
	waitFor(t, "the connection to go", func() bool { return len(object[admin.Clients](t, l, "clients").Connections) == 0 })

	if v := object[server.Build](t, l, "version"); v != server.BuildInfo() {
		t.Errorf("version: %+v", v)
	}
}

// A socket that isn't the caller's says what to do.
func TestSocketOfAnother(t *testing.T) {
	testenv.Commands(t, "setpriv")
	l := newLive(t)
	exe, err := os.ReadFile("/proc/self/exe")
	copied := filepath.Join(os.TempDir(), "sluice-copy")
	nfscall.Must(t, errors.Join(err, os.WriteFile(copied, exe, 0o755)))
	defer os.Remove(copied)
	// The socket's folder may be searched by others, as /run/sluice may.
	for dir := l.work; dir != os.TempDir(); dir = filepath.Dir(dir) {
		nfscall.Must(t, os.Chmod(dir, 0o755))
	}
	t.Setenv("SLUICE_TEST_COPY", copied)
	status, out := failing(t, []string{"setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups", "sh", "-c", `exec "$SLUICE_TEST_COPY" "$@"`},
		"mode", "read", "direct", "--admin", l.socket())
	if status != exitFailed || !strings.Contains(out, "sluice: the admin socket "+l.socket()+" can't be opened: permission denied; run this as the server's user or as root") {
		t.Errorf("status %d, %q", status, out)
	}
}

// What exports list leaves out is what a client without options has.
func TestBriefOptions(t *testing.T) {
	set, _, err := exports.Parse("f", []byte("/a h(ro)\n/b h(sec=sys,rw,sec=none,ro,all_squash)\n/c h(rw,async,all_squash,crossmnt,fsid=root,sec=none)\n"))
	nfscall.Must(t, err)
	for i, want := range []string{"ro", "", "rw,all_squash,async,crossmnt,fsid=root,sec=none"} {
		full := set.Exports()[i].Clients[0].Options.String()
		if want == "" {
			want = full // where an option stands counts
		}
		if got := briefOptions(full); got != want {
			t.Errorf("%s: %q, want %q", full, got, want)
		}
	}
}
