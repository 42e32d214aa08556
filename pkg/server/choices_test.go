// Choices: what wins over what, what the next start has, and what happens to a
// file that can't be used.

package server

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"sluice/pkg/admin"
	"sluice/pkg/dataio"
	"sluice/test/nfscall"
	"sluice/test/testenv"
)

func set(t *testing.T, s *Server, c admin.ModeChange) admin.IOMode {
	t.Helper()
	m, err := backend{s}.SetIOMode(c)
	if err != nil {
		t.Fatalf("%+v: %v", c, err)
	}
	return m
}

func setLimit(t *testing.T, s *Server, name string, v int, persist bool) {
	t.Helper()
	if _, err := (backend{s}).SetLimit(admin.LimitChange{Name: name, Value: &v, Persist: persist}); err != nil {
		t.Fatalf("%s %d: %v", name, v, err)
	}
}

// stopped ends a server within a test.
func stopped(t *testing.T, s *Server) {
	t.Helper()
	nfscall.Must(t, s.Shutdown())
}

// begun starts a server that the test ends itself.
func begun(t *testing.T, cfg Config) (*Server, *logText) {
	t.Helper()
	log := new(logText)
	s, err := newServer(cfg, log)
	nfscall.Must(t, err)
	nfscall.Must(t, s.Start())
	return s, log
}

// TestPrecedence: client over export over server; a choice over the configuration; at
// the next start a flag over what was kept, and that over the configuration.
func TestPrecedence(t *testing.T) {
	cfg, dir := testConfig(t)
	cfg.ReadMode = "dontcache"
	cfg.Modes.Exports = map[string]admin.ModeChoice{dir + "/": {Read: "direct"}}
	cfg.Modes.Clients = map[string]admin.ModeChoice{"10.0.0.0/8": {Read: "auto"}}
	s, _ := begun(t, cfg)
	inside, outside := netip.MustParseAddr("10.1.2.3"), netip.MustParseAddr("192.0.2.1")
	check := func(what string, s *Server, server, export, client dataio.Mode) {
		t.Helper()
		o := s.modes.Export(dir)
		if a, b, c := s.modes.Read(nil, outside), s.modes.Read(o, outside), s.modes.Read(o, inside); a != server || b != export || c != client {
			t.Errorf("%s: server %v, export %v, client %v; want %v, %v, %v", what, a, b, c, server, export, client)
		}
	}
	check("as configured", s, dataio.DontCache, dataio.Direct, dataio.Auto)
	set(t, s, admin.ModeChange{Op: "read", Mode: "buffered", Export: dir, Persist: true})
	set(t, s, admin.ModeChange{Op: "read", Mode: "direct", Persist: true})
	set(t, s, admin.ModeChange{Op: "read", Mode: "2", Client: "10.1.2.3/16", Persist: true})
	check("chosen", s, dataio.Direct, dataio.Buffered, dataio.Direct)
	set(t, s, admin.ModeChange{Op: "read", Mode: "default", Export: dir})
	set(t, s, admin.ModeChange{Op: "read", Mode: "default"})
	set(t, s, admin.ModeChange{Op: "read", Mode: "default", Client: "10.1.0.0/16"})
	check("taken back, but kept", s, dataio.DontCache, dataio.Direct, dataio.Auto)
	setLimit(t, s, "slow-threads", 7, true)
	setLimit(t, s, "max-in-flight", 9, false)
	stopped(t, s)

	s, log := begun(t, cfg)
	check("the next start", s, dataio.Direct, dataio.Buffered, dataio.Direct)
	if c := s.chosen(); c.SlowThreads != 7 || c.MaxInFlight != 128 {
		t.Errorf("limits: %d slow threads, %d in flight", c.SlowThreads, c.MaxInFlight)
	}
	if want := `INF restored what --persist kept choices=["server: read direct","export ` + dir + `: read buffered","client 10.1.0.0/16: read direct","slow-threads 7"]`; strings.Count(log.String(), want) != 1 {
		t.Errorf("no %q in\n%s", want, log)
	}
	// At run time everything can be set again, whatever was restored.
	set(t, s, admin.ModeChange{Op: "read", Mode: "auto"})
	check("set after that", s, dataio.Auto, dataio.Buffered, dataio.Direct)
	set(t, s, admin.ModeChange{Op: "read", Mode: "default", Client: "10.1.0.0/16", Persist: true})
	stopped(t, s)

	cfg.ReadMode, cfg.SlowThreads = "buffered", 3
	cfg.FromFlags = map[string]bool{"read-mode": true, "slow-threads": true}
	s, log = begun(t, cfg)
	check("with flags", s, dataio.Buffered, dataio.Buffered, dataio.Auto)
	if s.chosen().SlowThreads != 3 {
		t.Errorf("%d slow threads", s.chosen().SlowThreads)
	}
	for _, key := range []string{"read-mode", "slow-threads"} {
		if !strings.Contains(log.String(), "WRN the flag --"+key+" hides what --persist kept: leave the flag out, or forget the choice\n") {
			t.Errorf("no warning of --%s in\n%s", key, log)
		}
	}
	if k := (backend{s}).Choices(); len(k.Modes) != 2 || k.Modes[0].Read != "direct" {
		t.Errorf("a flag took what was kept away: %+v", k)
	}
	// Keeping a choice that the flag will hide is told at once.
	set(t, s, admin.ModeChange{Op: "read", Mode: "auto", Persist: true})
	if strings.Count(log.String(), "the flag --read-mode hides") != 2 {
		t.Errorf("no warning in\n%s", log)
	}
	if _, err := (backend{s}).ForgetChoices(); err != nil {
		t.Error(err)
	}
	check("forgotten, and still in force", s, dataio.Auto, dataio.Buffered, dataio.Auto)
	stopped(t, s)
	if names, _ := filepath.Glob(filepath.Join(cfg.State, keptFile+"*")); len(names) != 0 {
		t.Errorf("left: %v", names)
	}
	cfg.FromFlags = nil
	s, log = begun(t, cfg)
	check("after forgetting", s, dataio.Buffered, dataio.Direct, dataio.Auto)
	if strings.Contains(log.String(), "persist") {
		t.Errorf("restored nothing, and said\n%s", log)
	}
	stopped(t, s)
}

// TestExportGoesAway: a mode of an export that went away is kept, shown, warned
// of at the start and at a reload, in force when the export is back, and can be removed.
func TestExportGoesAway(t *testing.T) {
	cfg, dir := testConfig(t)
	two := filepath.Join(t.TempDir(), "two")
	nfscall.Must(t, os.Mkdir(two, 0o755))
	both := dir + " *(rw,insecure)\n" + two + " *(rw,insecure)\n"
	writeExports(t, cfg, both)
	s, _ := begun(t, cfg)
	set(t, s, admin.ModeChange{Op: "read", Mode: "direct", Export: two + "/", Persist: true})
	set(t, s, admin.ModeChange{Op: "write", Mode: "dontcache", Export: two})
	writeExports(t, cfg, dir+" *(rw,insecure)\n")
	warning := "a mode is set for " + two + ", which isn't exported: it is kept until that comes back; else remove it with `sluice mode read default --export " + two + " --persist`"
	if res, err := s.Reload(); err != nil || len(res.Warnings) != 1 || res.Warnings[0] != warning {
		t.Errorf("reload: %+v, %v", res, err)
	}
	want := []admin.ExportIOMode{{Path: two, Read: "direct", Write: "dontcache", Persisted: admin.ModeChoice{Read: "direct"}, Missing: true}}
	if m := (backend{s}).IOMode(); !reflect.DeepEqual(m.Exports, want) {
		t.Errorf("%+v, want %+v", m.Exports, want)
	}
	_, err := backend{s}.SetIOMode(admin.ModeChange{Op: "read", Mode: "buffered", Export: two})
	if missing, ok := err.(*admin.NotFoundError); !ok || missing.Msg != fmt.Sprintf("no export at %q; the exports are %s", two, dir) {
		t.Errorf("setting it: %v", err)
	}
	stopped(t, s)

	s, log := begun(t, cfg)
	if strings.Count(log.String(), "WRN "+warning+"\n") != 1 {
		t.Errorf("no warning in\n%s", log)
	}
	if k := (backend{s}).Choices(); len(k.Modes) != 1 || !k.Modes[0].Missing {
		t.Errorf("choices: %+v", k)
	}
	writeExports(t, cfg, both)
	if res, err := s.Reload(); err != nil || len(res.Warnings) != 0 {
		t.Errorf("reload: %+v, %v", res, err)
	}
	if m := s.modes.Read(s.modes.Export(two), netip.Addr{}); m != dataio.Direct {
		t.Errorf("mode %v when it is back", m)
	}
	writeExports(t, cfg, dir+" *(rw,insecure)\n")
	_, err = s.Reload()
	nfscall.Must(t, err)
	if m := set(t, s, admin.ModeChange{Op: "read", Mode: "default", Export: two, Persist: true}); len(m.Exports) != 0 {
		t.Errorf("removed: %+v", m.Exports)
	}
	if _, err := (backend{s}).SetIOMode(admin.ModeChange{Op: "read", Mode: "default", Export: two}); err == nil {
		t.Error("nothing is left of it, and it can be removed once more")
	}
	stopped(t, s)
}

func TestWrongChoices(t *testing.T) {
	cfg, dir := testConfig(t)
	s, _ := start(t, cfg)
	b := backend{s}
	before := b.IOMode()
	for _, c := range []struct {
		change admin.ModeChange
		want   string
	}{
		{admin.ModeChange{Op: "read", Mode: "sideways"}, `unknown I/O mode "sideways"`},
		{admin.ModeChange{Op: "read", Mode: "sideways", Persist: true}, `unknown I/O mode "sideways"`},
		{admin.ModeChange{Op: "erase", Mode: "direct"}, `op is "erase"`},
		{admin.ModeChange{Op: "read", Mode: "direct", Client: "host"}, "neither an IP address nor a network"},
		{admin.ModeChange{Op: "read", Mode: "direct", Client: "10.0.0.1", Export: dir}, "leave one out"},
		{admin.ModeChange{Op: "read", Mode: "direct", Export: "/nowhere", Persist: true}, "the exports are " + dir},
		{admin.ModeChange{Op: "read", Mode: "default", Export: "/nowhere"}, "the exports are " + dir},
	} {
		if _, err := b.SetIOMode(c.change); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v, want %q", c.change, err, c.want)
		}
	}
	for i := range dataio.MaxClientModes {
		set(t, s, admin.ModeChange{Op: "read", Mode: "direct", Client: fmt.Sprintf("10.0.0.%d", i)})
	}
	if _, err := b.SetIOMode(admin.ModeChange{Op: "read", Mode: "direct", Client: "10.0.1.1", Persist: true}); err == nil || !strings.Contains(err.Error(), "64 clients") {
		t.Errorf("one client too many: %v", err)
	}
	if k := b.Choices(); len(k.Modes)+len(k.Limits) != 0 {
		t.Errorf("what was refused is kept: %+v", k)
	}
	for i := range dataio.MaxClientModes {
		set(t, s, admin.ModeChange{Op: "read", Mode: "default", Client: fmt.Sprintf("10.0.0.%d", i)})
	}
	if now := b.IOMode(); !reflect.DeepEqual(now, before) {
		t.Errorf("refused and taken back, and yet %+v", now)
	}
}

// TestKeptFile: a file that isn't whole, or not ours to understand, is told of
// and not used; nothing is kept until it is mended or forgotten; the server runs.
func TestKeptFile(t *testing.T) {
	cfg, dir := testConfig(t)
	nfscall.Must(t, os.MkdirAll(cfg.State, 0o700))
	file := filepath.Join(cfg.State, keptFile)
	good := `{"version": 1, "modes": {"server": {"read": "direct"}}}`
	for name, c := range map[string]struct{ text, want string }{
		"torn":         {good[:len(good)-9], "is damaged (line 1: unexpected end of JSON input)"},
		"empty":        {"", "is damaged (line 1: "},
		"zeros":        {strings.Repeat("\x00", 100), "is damaged (line 1: "},
		"no version":   {`{"modes": {}}`, "it has no version"},
		"newer":        {`{"version": 2, "anything": []}`, "has version 2, and this server knows 1: a newer server wrote it"},
		"unknown key":  {"{\n  \"version\": 1,\n  \"mode\": {}\n}", `is not understood (unknown field "mode")`},
		"wrong type":   {"{\"version\": 1,\n\"limits\": {\"slow-threads\": \"many\"}}", "(line 2: limits: a string can't stand there)"},
		"wrong mode":   {`{"version": 1, "modes": {"server": {"read": "sideways"}}}`, `modes.server: "sideways" is no mode`},
		"no path":      {`{"version": 1, "modes": {"exports": {"srv/": {"read": "direct"}}}}`, `"srv/" is no path of an export`},
		"no client":    {`{"version": 1, "modes": {"clients": {"host": {"read": "direct"}}}}`, `"host" is neither an IP address`},
		"other client": {`{"version": 1, "modes": {"clients": {"10.0.0.1/8": {"read": "direct"}}}}`, `must be written as 10.0.0.0/8`},
		"wrong limit":  {`{"version": 1, "limits": {"threads": 3}}`, `unknown limit "threads": the limits are splice-min, `},
		"out of range": {`{"version": 1, "limits": {"slow-threads": 0}}`, "slow-threads is 0; it must be from 1"},
		"large":        {strings.Repeat(" ", maxKeptFile+1), "is larger than"},
	} {
		t.Run(name, func(t *testing.T) {
			nfscall.Must(t, os.WriteFile(file, []byte(c.text), 0o600))
			s, log := start(t, cfg)
			line := "WRN choices are not restored: " + file + " "
			if at := strings.Index(log.String(), line); at < 0 || !strings.Contains(log.String()[at:], c.want) || !strings.Contains(log.String()[at:], "sluice choices forget") {
				t.Errorf("no %q in\n%s", c.want, log)
			}
			b := backend{s}
			if _, err := b.SetIOMode(admin.ModeChange{Op: "read", Mode: "auto", Export: dir, Persist: true}); err == nil || !strings.Contains(err.Error(), "nothing was set: "+file) {
				t.Errorf("keeping a choice: %v", err)
			}
			if m := b.IOMode(); m.Read != "buffered" || len(m.Exports) != 0 {
				t.Errorf("modes: %+v", m)
			}
			if got, _ := os.ReadFile(file); string(got) != c.text {
				t.Errorf("the file was changed to %q", got)
			}
			set(t, s, admin.ModeChange{Op: "read", Mode: "auto"}) // without --persist
			if k := b.Choices(); !strings.Contains(k.Problem, c.want) {
				t.Errorf("choices: %+v", k)
			}
			if k, err := b.ForgetChoices(); err != nil || k.Problem != "" {
				t.Errorf("forget: %+v, %v", k, err)
			}
			set(t, s, admin.ModeChange{Op: "read", Mode: "direct", Persist: true})
			if k, err := readKept(file); err != nil || k.Modes.Server.Read != "direct" {
				t.Errorf("kept after forgetting: %+v, %v", k, err)
			}
		})
	}
	t.Run("mended", func(t *testing.T) {
		nfscall.Must(t, os.WriteFile(file, []byte("{"), 0o600))
		s, _ := start(t, cfg)
		nfscall.Must(t, os.WriteFile(file, []byte(good), 0o600))
		if _, err := (backend{s}).SetIOMode(admin.ModeChange{Op: "write", Mode: "direct", Persist: true}); err == nil || !strings.Contains(err.Error(), "set it again") {
			t.Errorf("the first time: %v", err)
		}
		set(t, s, admin.ModeChange{Op: "write", Mode: "direct", Persist: true})
		if k, err := readKept(file); err != nil || k.Modes.Server != (admin.ModeChoice{Read: "direct", Write: "direct"}) {
			t.Errorf("%+v, %v", k, err)
		}
	})
	t.Run("FIFO", func(t *testing.T) {
		nfscall.Must(t, os.Remove(file))
		nfscall.Must(t, unix.Mkfifo(file, 0o600))
		if _, log := start(t, cfg); !strings.Contains(log.String(), "is no regular file") {
			t.Errorf("%s", log)
		}
	})
}

// TestKeptFileCannotBeWritten: nothing is set when it can't be kept, and the file
// stays what it was.
func TestKeptFileCannotBeWritten(t *testing.T) {
	cfg, _ := testConfig(t)
	nfscall.Must(t, os.MkdirAll(cfg.State, 0o700))
	testenv.MountTmpfs(t, cfg.State)
	s, _ := start(t, cfg)
	b := backend{s}
	set(t, s, admin.ModeChange{Op: "read", Mode: "direct", Persist: true})
	setLimit(t, s, "slow-threads", 5, true)
	file := filepath.Join(cfg.State, keptFile)
	before, err := os.ReadFile(file)
	nfscall.Must(t, err)
	refused := func(why string) {
		t.Helper()
		_, err := b.SetIOMode(admin.ModeChange{Op: "read", Mode: "auto", Client: "10.0.0.1", Persist: true})
		if _, ok := err.(*admin.StorageError); !ok || !strings.Contains(err.Error(), why) || !strings.Contains(err.Error(), "leave --persist out") {
			t.Errorf("mode: %v", err)
		}
		v := 6
		if _, err = b.SetLimit(admin.LimitChange{Name: "slow-threads", Value: &v, Persist: true}); err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("limit: %v", err)
		}
		if m := b.IOMode(); len(m.Clients) != 0 || m.Persisted.Read != "direct" || s.chosen().SlowThreads != 5 {
			t.Errorf("set all the same: %+v, %d", m, s.chosen().SlowThreads)
		}
		if now, err := os.ReadFile(file); err != nil || string(now) != string(before) {
			t.Errorf("the file: %q, %v", now, err)
		}
	}
	inTheWay := filepath.Join(file+".new", "x")
	nfscall.Must(t, os.MkdirAll(inTheWay, 0o700))
	refused("directory not empty")
	nfscall.Must(t, os.RemoveAll(filepath.Dir(inTheWay)))
	nfscall.Must(t, unix.Mount("", cfg.State, "", unix.MS_REMOUNT, "size=64k"))
	filler := filepath.Join(cfg.State, "filler")
	os.WriteFile(filler, make([]byte, 1<<20), 0o600) //nolint:errcheck // until it is full
	refused("no space left")
	nfscall.Must(t, os.Remove(filler))
	set(t, s, admin.ModeChange{Op: "read", Mode: "auto", Client: "10.0.0.1", Persist: true})
	if names, _ := filepath.Glob(file + "?*"); len(names) != 0 {
		t.Errorf("left: %v", names)
	}
	nfscall.Must(t, os.Remove(file))
	nfscall.Must(t, os.MkdirAll(filepath.Join(file, "x"), 0o700))
	if _, err := b.ForgetChoices(); err == nil || !strings.Contains(err.Error(), "directory not empty") || !strings.Contains(err.Error(), "by hand") {
		t.Errorf("forget: %v", err)
	}
	if k := b.Choices(); len(k.Modes) != 2 {
		t.Errorf("not forgotten, and not known: %+v", k)
	}
}

func TestLimits(t *testing.T) {
	cfg, _ := testConfig(t)
	cfg.BufferPool, cfg.SpliceMin = 64, 4096
	s, _ := start(t, cfg)
	b := backend{s}
	get := func(name string) admin.Limit {
		t.Helper()
		for _, l := range b.Limits() {
			if l.Name == name {
				return l
			}
		}
		t.Fatalf("no limit %s", name)
		return admin.Limit{}
	}
	if n := len(b.Limits()); n != len(limitTable) {
		t.Errorf("%d limits", n)
	}
	if l := get("splice-min"); l.Value != 4096 || l.Configured != 4096 || l.Default != dataio.DefaultSpliceMin || l.Min != -1 || l.Unit != "bytes" || l.Persisted != nil {
		t.Errorf("%+v", l)
	}
	if l := get("direct-pool"); l.Value != 32 || l.Default != 32 {
		t.Errorf("%+v", l)
	}
	// What is set is in force.
	setLimit(t, s, "buffer-pool", 100, false)
	setLimit(t, s, "direct-pool", 30, false)
	if st := s.engine.Stats(); st.Buffers.Limit != 70<<20 || st.DirectBuffers.Limit != 30<<20 {
		t.Errorf("pools: %+v, %+v", st.Buffers, st.DirectBuffers)
	}
	setLimit(t, s, "splice-min", -1, true)
	if s.engine.SpliceMin() != -1 || get("splice-min").Value != -1 || *get("splice-min").Persisted != -1 {
		t.Errorf("splice-min: %d, %+v", s.engine.SpliceMin(), get("splice-min"))
	}
	setLimit(t, s, "splice-min", 0, false) // the measured default
	if s.engine.SpliceMin() != dataio.DefaultSpliceMin || get("splice-min").Value != dataio.DefaultSpliceMin {
		t.Errorf("splice-min: %d, %+v", s.engine.SpliceMin(), get("splice-min"))
	}
	if _, err := b.SetLimit(admin.LimitChange{Name: "splice-min", Persist: true}); err != nil || s.engine.SpliceMin() != 4096 || get("splice-min").Persisted != nil {
		t.Errorf("as configured: %v, %d, %+v", err, s.engine.SpliceMin(), get("splice-min"))
	}
	for _, c := range []struct {
		name  string
		value int
		want  string
	}{
		{"threads", 3, "the limits are splice-min, buffer-pool, direct-pool, slow-threads, max-in-flight, max-queued"},
		{"splice-min", -2, "it must be from -1"}, {"splice-min", 1<<30 + 1, "to 1073741824 bytes"},
		{"buffer-pool", 7, "it must be from 8 to 1048576 MiB"}, {"buffer-pool", 33, "raise buffer-pool first"}, {"buffer-pool", 1<<20 + 1, "from 8"},
		{"direct-pool", 3, "it must be 0, or from 4"}, {"direct-pool", 97, "must leave 4 MiB"}, {"direct-pool", -1, "it must be 0, or from 4"},
		{"slow-threads", 0, "from 1 to 4096"}, {"max-in-flight", 0, "from 1"}, {"max-queued", 63, "from 64"},
	} {
		if _, err := b.SetLimit(admin.LimitChange{Name: c.name, Value: &c.value, Persist: true}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s %d: %v, want %q", c.name, c.value, err, c.want)
		}
	}
	if k := b.Choices(); len(k.Limits) != 0 {
		t.Errorf("what was refused is kept: %+v", k)
	}
	if st := s.engine.Stats(); st.Buffers.Limit != 70<<20 || st.DirectBuffers.Limit != 30<<20 {
		t.Errorf("what was refused changed the pools: %+v, %+v", st.Buffers, st.DirectBuffers)
	}
}

// TestChoicesAtOnce is for the race detector: choices, reloads and looks at the same time.
func TestChoicesAtOnce(t *testing.T) {
	cfg, dir := testConfig(t)
	s, _ := start(t, cfg)
	b := backend{s}
	var all sync.WaitGroup
	for g := range 3 {
		all.Go(func() {
			for i := range 20 {
				mode := []string{"buffered", "direct", "auto", "default"}[i%4]
				for _, c := range []admin.ModeChange{
					{Op: "read", Mode: mode, Persist: i%2 == 0}, {Op: "write", Mode: mode, Export: dir, Persist: i%3 == 0}, {Op: "read", Mode: mode, Client: fmt.Sprintf("10.0.%d.0/24", g)},
				} {
					if _, err := b.SetIOMode(c); err != nil {
						t.Errorf("%+v: %v", c, err)
					}
				}
				v := 16 + i
				if _, err := b.SetLimit(admin.LimitChange{Name: []string{"buffer-pool", "slow-threads"}[i%2], Value: &v, Persist: i%5 == 0}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Go(func() {
		for range 20 {
			if _, err := s.Reload(); err != nil {
				t.Error(err)
			}
			b.Status()
			b.Stats()
			b.Exports()
			b.Limits()
		}
	})
	all.Wait()
	// What the file says is what the server believes.
	k, err := readKept(s.choices.file)
	if err != nil {
		t.Fatal(err)
	}
	k.Version = s.choices.kept.Version
	if got, want := fmt.Sprint(k), fmt.Sprint(s.choices.kept); got != want {
		t.Errorf("the file has %s, the server %s", got, want)
	}
}

// TestPoolsNotRestored: kept pools that a flag makes impossible are told as not
// restored, those alone that were kept, and nothing says that they were.
func TestPoolsNotRestored(t *testing.T) {
	cfg, _ := testConfig(t)
	s, _ := begun(t, cfg)
	setLimit(t, s, "direct-pool", 100, true)
	setLimit(t, s, "max-queued", 2048, true)
	stopped(t, s)

	cfg.BufferPool, cfg.FromFlags = 16, map[string]bool{"buffer-pool": true}
	s, log := begun(t, cfg)
	defer stopped(t, s)
	text := log.String()
	if !strings.Contains(text, "WRN direct-pool not restored: direct-pool is 100 MiB; ") {
		t.Errorf("no warning in\n%s", text)
	}
	if !strings.Contains(text, "max-queued 2048") || strings.Contains(text, "direct-pool 100") {
		t.Errorf("what is told to be restored:\n%s", text)
	}
}
