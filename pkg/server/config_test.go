package server

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"sluice/pkg/admin"
)

func load(t *testing.T, text string) (Config, error) {
	t.Helper()
	name := filepath.Join(t.TempDir(), "sluice.yaml")
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	c := Defaults()
	return c, c.LoadFile(name)
}

func TestConfigFile(t *testing.T) {
	name := filepath.Join(t.TempDir(), "sluice.yaml")
	text := "exports: /e\nexport:\n  - /a\n  - /b *(ro)\nlisten: 127.0.0.1:12049\nread-mode: direct\nidle-timeout: 90s\nsplice-min: -1\n" +
		"modes:\n  exports:\n    /a: {read: direct, write: 1}\n  clients:\n    192.0.2.0/24:\n      read: auto\n"
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	c := Defaults()
	if err := c.LoadFile(name); err != nil {
		t.Fatal(err)
	}
	if c.Exports != "/e" || len(c.Export) != 2 || c.Export[1] != "/b *(ro)" || c.Listen != "127.0.0.1:12049" ||
		c.ReadMode != "direct" || c.IdleTimeout != 90*time.Second || c.SpliceMin != -1 {
		t.Errorf("loaded %+v", c)
	}
	if c.Modes.Exports["/a"] != (admin.ModeChoice{Read: "direct", Write: "1"}) || c.Modes.Clients["192.0.2.0/24"] != (admin.ModeChoice{Read: "auto"}) {
		t.Errorf("modes: %+v", c.Modes)
	}
	if c.LogLevel != "info" || c.SlowThreads != 64 {
		t.Errorf("keys that aren't in the file lost their defaults: %+v", c)
	}
	if err := c.Validate(); err != nil {
		t.Error(err)
	}
}

func TestConfigFileErrorsNameTheLine(t *testing.T) {
	for text, want := range map[string][]string{
		"listen: :2049\nlisen: :2050\n": {"line 2", `unknown key "lisen"`, "listen"},
		"threads: many\n":               {"line 1", "many"},
		"a: [\n":                        {"line "},
		"modes:\n  exports:\n    /a: {read: direct}\n    /b: {raed: direct}\n": {"line 4", `unknown key "raed"; the keys are read, write`},
		"modes:\n  export: {}\n":                                                           {"line 2", `unknown key "export"; the keys are exports, clients`},
		"modes: direct\n":                                                                  {"line 1", "it must be keys and values, as in exports:"},
		"modes:\n  exports: [/a]\n":                                                        {"line 2", "it must be keys and values, as in /srv/data:"},
		"modes:\n  exports:\n    /a: direct\n":                                             {"line 3", "it must be keys and values, as in {read: direct"},
		"modes:\n  exports:\n    /a: {read: sideways}\n":                                   {"line 3", "modes: exports: /a: read: unknown I/O mode \"sideways\""},
		"modes:\n  exports:\n    /a:\n      write: default\n":                              {"line 4", "default is no mode to be configured"},
		"modes:\n  exports:\n    /a: {}\n":                                                 {"line 3", "it has neither read nor write"},
		"modes:\n  exports:\n    a: {read: auto}\n":                                        {"line 3", "it must start with /"},
		"modes:\n  exports:\n    /a: {read: auto}\n    /a/: {read: 2}\n":                   {"line 4", "it is the same as /a"},
		"modes:\n  clients:\n    host: {read: auto}\n":                                     {"line 3", `"host" is neither an IP address nor a network`},
		"modes:\n  clients:\n    10.0.0.1/8: {read: auto}\n    10.0.0.0/8: {read: auto}\n": {"line 3", "it is the same as 10.0.0.0/8"},
		"buffer-pool: 64\ndirect-pool: 61\n":                                               {"line 2", "must leave 4 MiB"},
		"\n\nmax-queued: 1\n":                                                              {"line 3", "max-queued is 1; it must be from 64"},
	} {
		_, err := load(t, text)
		if err == nil {
			t.Errorf("%q: no error", text)
			continue
		}
		for _, w := range want {
			if !strings.Contains(err.Error(), w) {
				t.Errorf("%q: %v, want %q in it", text, err, w)
			}
		}
	}
	if _, err := load(t, ""); err != nil {
		t.Errorf("an empty file: %v", err)
	}
	c := Defaults()
	if err := c.LoadFile("/nonexistent/sluice.yaml"); err == nil || !strings.Contains(err.Error(), "/nonexistent/sluice.yaml") {
		t.Errorf("a missing file: %v", err)
	}
}

func TestValidateNamesTheKey(t *testing.T) {
	for key, spoil := range map[string]func(*Config){
		"rpcbind":      func(c *Config) { c.Rpcbind = "maybe" },
		"log-level":    func(c *Config) { c.LogLevel = "loud" },
		"log-format":   func(c *Config) { c.LogFormat = "xml" },
		"read-mode":    func(c *Config) { c.ReadMode = "sideways" },
		"id-domain":    func(c *Config) { c.IDDomain = "a@example.org" },
		"names":        func(c *Config) { c.Names = "latin-1" },
		"write-mode":   func(c *Config) { c.WriteMode = "sideways" },
		"listen":       func(c *Config) { c.Listen = "2049" },
		"--export":     func(c *Config) { c.Exports, c.Export = "", nil },
		"slow-threads": func(c *Config) { c.SlowThreads = 0 },
		"buffer-pool":  func(c *Config) { c.BufferPool = 1 },
		"splice-min":   func(c *Config) { c.SpliceMin = -2 },
		"direct-pool":  func(c *Config) { c.DirectPool = 300 },
		"modes: exports: /a: write": func(c *Config) {
			c.Modes.Exports = map[string]admin.ModeChoice{"/a": {Write: "sideways"}}
		},
		"modes: clients": func(c *Config) {
			c.Modes.Clients = map[string]admin.ModeChoice{}
			for i := range 65 {
				c.Modes.Clients[fmt.Sprintf("10.0.0.%d", i)] = admin.ModeChoice{Read: "direct"}
			}
		},
		"idle-timeout": func(c *Config) { c.IdleTimeout = -1 },
	} {
		c := Defaults()
		spoil(&c)
		if err := c.Validate(); err == nil || !strings.Contains(err.Error(), key) {
			t.Errorf("%s: %v", key, err)
		}
	}
}

func TestIDDomain(t *testing.T) {
	for _, s := range []string{"", "example.org", "localdomain", "a_b-c.x1", "bücher.example", strings.Repeat("a", maxDomain)} {
		if !validDomain(s) {
			t.Errorf("%q is refused", s)
		}
	}
	for _, s := range []string{
		" ", "\t", "example.org ", "example org", "@", "@example.org", "a@b", ".", "..", ".org", "org.", "a..b", "a\x00b", "a\nb", "a\x7fb", "a\u00a0b", "a\u200bb",
		"a/b", "a:b", "a\xffb", strings.Repeat("a", maxDomain+1), strings.Repeat("a.", 128) + "a",
	} {
		if validDomain(s) {
			t.Errorf("%q is taken", s)
		}
	}
	_, err := load(t, "listen: :2049\nid-domain: \"root@example.org\"\n")
	if err == nil || !strings.Contains(err.Error(), `line 2: id-domain is "root@example.org"; it must be a domain`) || !strings.Contains(err.Error(), "as in example.org") {
		t.Errorf("in the file: %v", err)
	}
	if _, err = load(t, "id-domain:\n"); err != nil {
		t.Errorf("an empty value: %v", err)
	}
}

func TestMissingCapabilitiesAreNamed(t *testing.T) {
	if warns, err := missingCapabilities(^uint64(0)); err != nil || len(warns) != 0 {
		t.Errorf("all capabilities: %v, %v", warns, err)
	}
	warns, err := missingCapabilities(0)
	if err == nil || !strings.Contains(err.Error(), "CAP_DAC_READ_SEARCH, CAP_SETUID, CAP_SETGID") || !strings.Contains(err.Error(), "--cap-add") {
		t.Errorf("no capability: %v", err)
	}
	if !strings.Contains(strings.Join(warns, "\n"), "CAP_MKNOD") {
		t.Errorf("warnings: %v", warns)
	}
}

// A FIFO that nobody writes is refused, not waited for.
func TestConfigFileIsNoFIFO(t *testing.T) {
	name := filepath.Join(t.TempDir(), "fifo")
	if err := syscall.Mkfifo(name, 0o600); err != nil {
		t.Fatal(err)
	}
	c := Defaults()
	if err := c.LoadFile(name); err == nil || !strings.Contains(err.Error(), "no regular file") {
		t.Errorf("a FIFO: %v", err)
	}
}
