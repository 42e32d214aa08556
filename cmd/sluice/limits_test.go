// Plan of this file: what an administrator chooses while the server runs, by
// the commands: modes of clients, limits, and what a restart brings back.

package main

import (
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"sluice/pkg/admin"
	"sluice/pkg/dataio"
	"sluice/test/nfscall"
)

// served returns how many READs each mode has served.
func (l *live) served(t *testing.T) map[string]uint64 {
	t.Helper()
	m := map[string]uint64{}
	for _, row := range object[admin.Stats](t, l, "stats").Read {
		m[row.Mode] = row.Calls
	}
	return m
}

// TestClientMode: the mode of this client serves its READs, over the export's and the server's.
func TestClientMode(t *testing.T) {
	l := newLive(t)
	l.do(t, "mode", "read", "dontcache")
	for _, c := range []struct {
		args []string
		mode string // that serves the next READ
	}{
		{[]string{"direct", "--client", "127.0.0.0/8"}, "direct"},
		{[]string{"buffered", "--export", l.dir2()}, "direct"},
		{[]string{"dontcache", "--client", "127.0.0.1"}, "dontcache"},
		{[]string{"direct", "--client", "127.0.0.2"}, "dontcache"},
		{[]string{"default", "--client", "127.0.0.1/32"}, "direct"},
		{[]string{"default", "--client", "127.9.9.9/8"}, "buffered"},
		{[]string{"default", "--export", l.dir2()}, "dontcache"},
	} {
		l.do(t, append([]string{"mode", "read"}, c.args...)...)
		before := l.served(t)
		l.read(t, 1, 5000)
		for mode, n := range l.served(t) {
			if want := before[mode] + b2u(mode == c.mode); n != want {
				t.Errorf("after sluice mode read %s: %d READs in mode %s, want %d", strings.Join(c.args, " "), n, mode, want)
			}
		}
	}
	l.want(t, ` +READ +WRITE\nserver +dontcache +buffered\n127\.0\.0\.2 +direct +default\n`, "mode")

	// WRITE asks for its own mode.
	handle := l.client.Lookup(t, l.dir, "data")
	for _, mode := range []string{"direct", "default"} {
		l.do(t, "mode", "write", mode, "--client", "127.0.0.0/8")
		direct := func() uint64 { return object[admin.Stats](t, l, "stats").Write[2].Calls }
		before := direct()
		l.client.Write(t, handle, 0, content()[:8192])
		if got, want := direct()-before, b2u(mode == "direct"); got != want {
			t.Errorf("after sluice mode write %s: %d direct WRITEs, want %d", mode, got, want)
		}
	}
}

func b2u(b bool) uint64 {
	if b {
		return 1
	}
	return 0
}

func TestLimitsCommand(t *testing.T) {
	l := newLive(t)
	row := func(name string) admin.Limit {
		t.Helper()
		for _, x := range object[[]admin.Limit](t, l, "limits") {
			if x.Name == name {
				return x
			}
		}
		t.Fatalf("no limit %s", name)
		return admin.Limit{}
	}
	spliced := func() uint64 { return object[admin.Stats](t, l, "stats").Spliced }
	read := func() bool {
		before := spliced()
		l.read(t, 0, 20000)
		return spliced() > before
	}
	read() // the first one may find the file cold
	for _, c := range []struct {
		value   string
		is      int
		spliced bool
	}{
		{"4096", 4096, true}, {"never", -1, false}, {"20000", 20000, true}, {"-1", -1, false}, {"20001", 20001, false}, {"default", 131072, false},
	} {
		l.do(t, "limits", "splice-min", c.value)
		if got := row("splice-min").Value; got != c.is {
			t.Errorf("splice-min %s: %d", c.value, got)
		}
		if got := read(); got != c.spliced {
			t.Errorf("splice-min %s: a READ of 20,000 bytes is spliced: %v", c.value, got)
		}
	}
	l.want(t, `LIMIT +VALUE +UNIT .* AT THE LIMIT\n(\S+ +\S+ +(bytes|MiB|KiB|calls|threads) +\S+ +\S+ +\S+ +\d+ +- +\S[^\n]*\n){6}`, "limits")
	l.want(t, `(?s).*\nbuffer-pool +512 +MiB +256 +256 +8 +1048576 +512 .*`, "limits", "buffer-pool", "512", "--persist")
	for args, want := range map[string]string{
		"threads 3": `no such limit: "threads"; the limits are splice-min, `, "slow-threads 0": "slow-threads is 0; it must be from 1 to 4096 threads",
		"direct-pool 511": "raise buffer-pool first",
	} {
		if text := l.refused(t, append([]string{"limits"}, strings.Fields(args)...)...); !strings.Contains(text, want) {
			t.Errorf("limits %s: %s", args, text)
		}
	}
	for _, p := range object[admin.Stats](t, l, "stats").Pools {
		if strings.HasSuffix(p.Name, "buffers") && p.Limit != 256<<20 {
			t.Errorf("the pool of %s may hold %d bytes", p.Name, p.Limit)
		}
	}
}

// TestPersist: choices made with --persist are there after a restart, those without are not.
func TestPersist(t *testing.T) {
	l := newLive(t)
	l.want(t, `nothing is kept; --persist would keep it in \S+/state/choices\.json\n`, "choices")
	l.do(t, "mode", "read", "direct", "--persist")
	l.do(t, "mode", "write", "dontcache")
	l.do(t, "mode", "read", "dontcache", "--export", l.second, "--persist")
	l.do(t, "mode", "--persist", "write", "2", "--client", "192.0.2.9/24")
	l.do(t, "limits", "splice-min", "never", "--persist")
	l.do(t, "limits", "slow-threads", "9")
	table := ` +READ +WRITE +PERSISTED\nserver +direct +%s +read direct\n` + regexp.QuoteMeta(l.second) + ` +dontcache +default +read dontcache\n192\.0\.2\.0/24 +default +direct +write direct\n`
	l.want(t, strings.Replace(table, "%s", "dontcache", 1), "mode")
	before := object[admin.Choices](t, l, "choices")
	restart := func(more ...string) {
		t.Helper()
		l.signal(t, syscall.SIGKILL) // a crash loses nothing that was acknowledged
		<-l.ended
		l.daemon.ended, l.daemon.out = make(chan struct{}), output{}
		l.start(t, more...)
	}
	restart()
	l.want(t, strings.Replace(table, "%s", "buffered", 1), "mode")
	if now := object[admin.Choices](t, l, "choices"); !reflect.DeepEqual(now, before) || len(now.Modes) != 3 || len(now.Limits) != 1 {
		t.Errorf("kept: %+v, before %+v", now, before)
	}
	l.want(t, `kept in \S+:\nserver +read direct\n`+regexp.QuoteMeta(l.second)+` +read dontcache\n192\.0\.2\.0/24 +write direct\nsplice-min +never\n`, "choices")
	for _, x := range object[[]admin.Limit](t, l, "limits") {
		if x.Name == "splice-min" && x.Value != -1 || x.Name == "slow-threads" && x.Value != 64 {
			t.Errorf("%+v", x)
		}
	}
	if n := strings.Count(l.out.String(), " INF restored what --persist kept "); n != 1 {
		t.Errorf("the log says so %d times", n)
	}

	// A flag hides it, an export may be gone.
	l.exports(t, l.dir2()+" *(rw,insecure,no_root_squash)\n")
	restart("--read-mode", "buffered")
	l.want(t, ` +READ +WRITE +PERSISTED\nserver +buffered +buffered +read direct\n`+regexp.QuoteMeta(l.second)+` +dontcache +default +read dontcache +not exported now\n192.*`, "mode")
	for _, want := range []string{" WRN the flag --read-mode hides what --persist kept: ", " WRN a mode is set for " + l.second + ", which isn't exported: "} {
		if !strings.Contains(l.out.String(), want) {
			t.Errorf("no %q in the log", want)
		}
	}
	l.want(t, `a mode is set for `+regexp.QuoteMeta(l.second)+`, which isn't exported: [^\n]*\nreloaded: 1 export\n`, "exports", "reload")
	l.want(t, `(?s)kept in .*`+regexp.QuoteMeta(l.second)+` +read dontcache +not exported now\n.*`, "choices")
	l.want(t, ` +READ +WRITE +PERSISTED\nserver +buffered +buffered +read direct\n192.*`, "mode", "read", "default", "--export", l.second, "--persist")
	l.want(t, `nothing is kept; .*`, "choices", "forget")
	restart()
	l.want(t, ` +READ +WRITE\nserver +buffered +buffered\n`, "mode")

	// What can't be read is told, and doesn't keep the server from starting.
	file := object[admin.Choices](t, l, "choices").File
	nfscall.Must(t, os.WriteFile(file, []byte(`{"version": 1, "modes"`), 0o600))
	restart()
	if !strings.Contains(l.out.String(), " WRN choices are not restored: "+file+" is damaged (line 1: ") {
		t.Error("no warning in the log")
	}
	l.want(t, `not used: \S+ is damaged [^\n]*\n`, "choices")
	if text := l.refused(t, "mode", "read", "direct", "--persist"); !strings.Contains(text, "nothing was set: "+file+" is damaged") {
		t.Error(text)
	}
	l.want(t, ` +READ +WRITE\nserver +buffered +buffered\n`, "mode")
}

// TestAutoAndAlignedStats: the decisions of mode auto are shown by reason, and
// how the data of direct WRITEs came to be aligned.
func TestAutoAndAlignedStats(t *testing.T) {
	l := newLive(t)
	if text := l.do(t, "stats"); strings.Contains(text, "auto:") || strings.Contains(text, "direct writes:") {
		t.Errorf("nothing has happened yet:\n%s", text)
	}
	l.do(t, "mode", "read", "auto")
	l.do(t, "mode", "write", "direct")
	for range 3 {
		l.read(t, 0, 4096)
	}
	l.client.Write(t, l.client.Lookup(t, l.dir, "data"), 0, content()[:8192])
	s := object[admin.Stats](t, l, "stats")
	var decisions uint64
	for _, k := range s.Auto {
		decisions += k.Count
	}
	if decisions != 3 || len(s.Auto) != len(dataio.AutoReasons()) {
		t.Errorf("decisions of 3 READs: %+v", s.Auto)
	}
	if s.Landed+s.Copied != 1 {
		t.Errorf("one direct WRITE: %d landed, %d copied", s.Landed, s.Copied)
	}
	text := l.do(t, "stats")
	for _, want := range []string{`^auto: (\w+ \d+, )*cached [1-3]`, `^direct writes: [01] came aligned off the socket, [01] were copied$`} {
		if !regexp.MustCompile(`(?m)` + want).MatchString(text) {
			t.Errorf("no %s in\n%s", want, text)
		}
	}
	list := l.watch(t, func(list []string) bool {
		return slices.ContainsFunc(list, func(s string) bool { return strings.Contains(s, "  auto: cached ") })
	},
		func() { l.read(t, 0, 4096) }, "stats", "--watch", "--interval", "100ms")
	if len(list) < 2 {
		t.Errorf("%q", list)
	}
}
